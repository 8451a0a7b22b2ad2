/** Arguments that all runs of ffmpeg have, in a form that 5.1 and 9.0 both take. */
import type { Demuxer } from "../sniff.ts";

/** No prompt, no progress; a log whose every line says how bad it is. */
export const COMMON_ARGUMENTS: readonly string[] = [
  ...["-nostdin", "-hide_banner", "-nostats"],
  ...["-loglevel", "repeat+level+verbose"],
];

/**
 * The input is a sealed anonymous file, opened through `/proc/self/fd`: the protocol `fd:` does not exist in 5.1, and a pipe
 * cannot be sought in, which MP4 needs. The demuxer is forced and is the only one allowed, and of protocols only `file`: so
 * nothing but the given bytes can be opened, whatever they say.
 */
export function inputArguments(demuxer: Demuxer, descriptor: number): string[] {
  return [
    ...["-protocol_whitelist", "file", "-format_whitelist", demuxer, "-f", demuxer],
    ...["-i", `/proc/self/fd/${descriptor}`],
  ];
}
