import type { Bound } from "../program";

/*
 * How values travel. Statements bind text, so the server knows the types from the columns. Results come in binary: a large value
 * is then not written as hexadecimal digits and parsed again.
 */

/**
 * PostgreSQL's text can hold neither U+0000 nor half a surrogate pair. They are written as an escape character and another one.
 * The byte order of strings stays the same, except for halves of surrogate pairs.
 */
const ESCAPE = "\u0001";
/* eslint-disable no-control-regex -- these characters are what it's about */
const NEEDS_ESCAPE = /[\u0000\u0001]/;
const ESCAPED = /[\u0000\u0001]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const UNESCAPED = /\u0001([\u0001\u0002]|\u0003(....))/g;
/* eslint-enable no-control-regex */

/** A string as PostgreSQL's text can hold it. */
export function toText(value: string): string {
  if (!NEEDS_ESCAPE.test(value) && value.isWellFormed()) return value;
  return value.replace(ESCAPED, (unit) => {
    if (unit === "\0") return `${ESCAPE}\u0001`;
    if (unit === ESCAPE) return `${ESCAPE}\u0002`;
    return `${ESCAPE}\u0003${unit.charCodeAt(0).toString(16)}`;
  });
}

/** What {@link toText} was given. */
export function fromText(text: string): string {
  if (!text.includes(ESCAPE)) return text;
  return text.replace(UNESCAPED, (_, mark: string, unit: string | undefined) => {
    if (unit !== undefined) return String.fromCharCode(Number.parseInt(unit, 16));
    return mark === "\u0001" ? "\0" : ESCAPE;
  });
}

/** The first byte of a column that holds text or bytes. */
const TEXT_TAG = 0;
const BYTES_TAG = 1;

/** A value for a column that holds text or bytes. */
export function toTagged(value: string | Uint8Array): Buffer {
  const isText = typeof value === "string";
  const tagged = Buffer.allocUnsafe((isText ? Buffer.byteLength(value) : value.byteLength) + 1);
  tagged[0] = isText ? TEXT_TAG : BYTES_TAG;
  if (isText) tagged.write(value, 1);
  else tagged.set(value, 1);
  return tagged;
}

/** The bytes are copied, because the driver's buffer holds more than them. */
export function fromTagged(tagged: Buffer): string | Uint8Array {
  return tagged[0] === TEXT_TAG ? tagged.toString("utf8", 1) : new Uint8Array(tagged.subarray(1));
}

/** Reads a column of a binary result. */
type Parse = (value: Buffer) => Bound;

/** By the number of the type (`pg_type.oid`). Numbers are safe integers, as on SQLite; booleans are 0 and 1. */
const PARSERS: Readonly<Record<number, Parse>> = {
  16: (value) => (value[0] === 1 ? 1 : 0),
  17: fromTagged,
  19: (value) => value.toString("utf8"),
  20: (value) => value.readInt32BE(0) * 0x1_0000_0000 + value.readUInt32BE(4),
  21: (value) => value.readInt16BE(0),
  23: (value) => value.readInt32BE(0),
  25: (value) => fromText(value.toString("utf8")),
  26: (value) => value.readUInt32BE(0),
  701: (value) => value.readDoubleBE(0),
  1043: (value) => fromText(value.toString("utf8")),
  1700: integerOf,
  // `void`, of functions that return nothing.
  2278: () => null,
};

/** `numeric`, the type of sums of `bigint`: digits to the base 10,000, the first one of which has the weight that is given. */
function integerOf(value: Buffer): number {
  const digits = value.readUInt16BE(0);
  const weight = value.readInt16BE(2);
  const isNegative = value.readUInt16BE(4) === 0x4000;
  let sum = 0;
  for (let at = 0; at < digits; at += 1) sum += value.readUInt16BE(8 + at * 2) * 10_000 ** (weight - at);
  return isNegative ? -sum : sum;
}

/** A column of a type that no statement should return. */
export class UnknownType extends Error {
  constructor(type: number) {
    super(`a statement returns a column of type ${type}, which nobody reads`);
  }
}

/** For the driver. */
export const PARSE = {
  getTypeParser(type: number): Parse {
    const parse = PARSERS[type];
    if (parse === undefined) throw new UnknownType(type);
    return parse;
  },
};
