import { TextDecoder } from "node:util";

/** A value as SQLite keeps it. Integers that no number holds are none of this package's. */
export type RawValue = number | string | Buffer | null;

/** What does not read as it should; the message says why. */
export class Unreadable extends Error {}

/** A number of variable length. @returns it, and where it ends */
export function varint(bytes: Buffer, at: number): [value: number, end: number] {
  let value = 0;
  for (let index = 0; index < 9; index += 1) {
    const byte = bytes[at + index];
    if (byte === undefined) throw new Unreadable("a number that is cut off");
    if (index === 8) return [value * 256 + byte, at + 9];
    value = value * 128 + (byte & 0x7f);
    if (byte < 0x80) return [value, at + index + 1];
  }
  throw new Unreadable("a number without end");
}

/** By what a file's header says of its texts. A handle that a caller brought may be of a file that keeps them in UTF-16. */
const ENCODINGS = ["utf-8", "utf-16le", "utf-16be"] as const;

/** @param encoding the header's number; where it is damaged, what files that this package creates have */
export function textDecoder(encoding: number): TextDecoder {
  return new TextDecoder(ENCODINGS[encoding - 1] ?? "utf-8", { fatal: true, ignoreBOM: true });
}

/** The columns of a record. @throws {Unreadable} */
export function recordOf(payload: Buffer, texts: TextDecoder): RawValue[] {
  const [headerEnd, first] = varint(payload, 0);
  if (headerEnd > payload.length || headerEnd < first) throw new Unreadable("a record whose header does not fit");
  const values: RawValue[] = [];
  let at = headerEnd;
  for (let place = first; place < headerEnd;) {
    const [type, end] = varint(payload, place);
    place = end;
    const [value, next] = valueOf(payload, at, type, texts);
    values.push(value);
    at = next;
  }
  if (at !== payload.length) throw new Unreadable("a record that is longer, or shorter, than it says");
  return values;
}

const INTEGER_BYTES = [0, 1, 2, 3, 4, 6, 8];

function valueOf(payload: Buffer, at: number, type: number, texts: TextDecoder): [RawValue, number] {
  const size = type >= 12 ? (type - (type % 2) - 12) / 2 : type === 7 ? 8 : (INTEGER_BYTES[type] ?? 0);
  const end = at + size;
  if (end > payload.length) throw new Unreadable("a record that is cut off");
  if (type === 0) return [null, end];
  if (type <= 6) return [integer(payload, at, size), end];
  if (type === 7) return [payload.readDoubleBE(at), end];
  if (type === 8 || type === 9) return [type - 8, end];
  if (type < 12) throw new Unreadable("a value of a type that there is not");
  const bytes = payload.subarray(at, end);
  if (type % 2 === 0) return [Buffer.from(bytes), end];
  try {
    return [texts.decode(bytes), end];
  } catch {
    throw new Unreadable("a text that is none");
  }
}

function integer(payload: Buffer, at: number, size: number): number {
  if (size <= 6) return payload.readIntBE(at, size);
  const value = payload.readBigInt64BE(at);
  if (value > BigInt(Number.MAX_SAFE_INTEGER) || value < BigInt(Number.MIN_SAFE_INTEGER))
    throw new Unreadable("a number too large");
  return Number(value);
}
