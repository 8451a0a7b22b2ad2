/** Jobs of decoder children: what they give, what they carry while they run, and the two failures that are not the caller's. */
import type { EncodedMedium } from "../encoded.ts";
import type { MediaError } from "../errors.ts";
import type { DecodedTensor, DecodeTimings } from "./contract.ts";
import type { DecodeRequest } from "./protocol.ts";
import type { RoomMemory } from "./rooms.ts";

/** A decoded tensor and the room it lies in, which the receiver gives back. */
export interface Decoded<Memory extends RoomMemory> {
  readonly tensor: DecodedTensor;
  readonly room: Memory;
  /** By the child's own account. */
  readonly timings: DecodeTimings;
}

/** The child was gone before it began with the job, which another child can therefore be given. */
export class JobNotTaken extends Error {
  constructor(
    /** What to tell the caller when nobody takes it. */
    readonly crash: MediaError,
  ) {
    super(crash.message);
  }
}

/** The parent had no room for the job's tensor in the child's slabs, nor a slab to add. */
export class RoomRefused extends Error {
  constructor(
    /** What to tell the caller when no other child has room. */
    readonly refusal: MediaError,
    readonly payloadBytes: number,
    readonly headerBytes: number,
  ) {
    super(refusal.message);
  }
}

/** What a child is given to do. */
export interface ChildTask<Memory extends RoomMemory> {
  readonly request: DecodeRequest;
  readonly encoded: EncodedMedium;
  /** How many threads the decoder may use. */
  readonly threads: number;
  readonly signal: AbortSignal | undefined;
  /** The room that it was refused before and has now; the child's from then on. */
  readonly room: Memory | null;
  /** Whether a room of that size is kept for media that came before. */
  readonly isHeldBack: (payloadBytes: number, headerBytes?: number) => boolean;
}

/** What a child works on. */
export interface RunningJob<Memory extends RoomMemory> {
  readonly id: number;
  readonly task: ChildTask<Memory>;
  readonly resolve: (decoded: Decoded<Memory>) => void;
  readonly reject: (error: MediaError | JobNotTaken | RoomRefused) => void;
  readonly timer: ReturnType<typeof setTimeout>;
  room: Memory | null;
  /** The last room that could not be given. */
  refused: RoomRefused | null;
  /** Whether the child has begun with it. */
  taken: boolean;
  /** Why the child is being killed; told to the caller once the child has been reaped. */
  failure: MediaError | null;
}
