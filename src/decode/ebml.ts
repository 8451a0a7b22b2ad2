/** Elements of EBML, of which Matroska and WebM files consist (RFC 8794). */

const SEGMENT_ID = 0x18538067;

/** Where a Matroska file's segment ends by its own size; 0 when it does not say (a live recording) or there is none at its place. */
export function segmentEnd(bytes: Uint8Array): number {
  const header = readElement(bytes, 0);
  const segment = header && readElement(bytes, header.end);
  return segment?.id === SEGMENT_ID && Number.isFinite(segment.end) ? segment.end : 0;
}

/** Identifier and end of an element (RFC 8794, sections 4 to 6); the end is infinite when its size is not known. */
function readElement(bytes: Uint8Array, at: number): { id: number; end: number } | null {
  const id = readVariableInteger(bytes, at, true);
  const size = id && readVariableInteger(bytes, at + id.byteLength, false);
  return size ? { id: id.value, end: at + id.byteLength + size.byteLength + size.value } : null;
}

function readVariableInteger(
  bytes: Uint8Array,
  at: number,
  keepMarker: boolean,
): { value: number; byteLength: number } | null {
  const first = bytes[at] ?? 0;
  const byteLength = Math.clz32(first) - 23;
  if (first === 0 || at + byteLength > bytes.byteLength) return null;
  const marker = 1 << (8 - byteLength);
  let value = keepMarker ? first : first - marker;
  for (let i = 1; i < byteLength; i += 1) value = value * 256 + (bytes[at + i] ?? 0);
  const isUnknown = !keepMarker && value >= 2 ** (7 * byteLength) - 1;
  return { value: isUnknown ? Number.POSITIVE_INFINITY : value, byteLength };
}
