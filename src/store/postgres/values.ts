import type { Bound } from "../program";

/*
 * How values travel: everything is text. The driver decodes each field of a result as UTF-8, so bytes would have to be written as
 * hexadecimal digits anyway, which takes longer to read than text.
 */

/**
 * PostgreSQL's text can hold neither U+0000 nor half a surrogate pair, nor do columns that hold text tell it from bytes. All three
 * are written behind an escape character. The byte order of strings stays the same, except for halves of surrogate pairs.
 */
const ESCAPE = "\u0001";
const NUL = "\u0001";
const ITSELF = "\u0002";
const HALF = "\u0003";
const BYTES = "\u0004";
/* eslint-disable no-control-regex -- these characters are what it's about */
const NEEDS_ESCAPE = /[\u0000\u0001]/;
const ESCAPED = /[\u0000\u0001]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const UNESCAPED = /\u0001([\u0001\u0002]|\u0003(....))/g;
/* eslint-enable no-control-regex */

/** A string as PostgreSQL's text can hold it. */
export function toText(value: string): string {
  if (!NEEDS_ESCAPE.test(value) && value.isWellFormed()) return value;
  return value.replace(ESCAPED, (unit) => {
    if (unit === "\0") return ESCAPE + NUL;
    return unit === ESCAPE ? ESCAPE + ITSELF : `${ESCAPE}${HALF}${unit.charCodeAt(0).toString(16)}`;
  });
}

/** A value as a statement binds it. */
export function toBound(value: Bound): string | null {
  if (value === null) return null;
  if (typeof value === "string") return toText(value);
  if (typeof value === "number") return String(value);
  return `${ESCAPE}${BYTES}${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64")}`;
}

/** What {@link toBound} was given, of a column that holds text, or text or bytes. */
export function fromText(text: string): string | Uint8Array {
  if (!text.includes(ESCAPE)) return text;
  if (text.startsWith(ESCAPE + BYTES)) return new Uint8Array(Buffer.from(text.slice(2), "base64"));
  return text.replace(UNESCAPED, (_, mark: string, unit: string | undefined) => {
    if (unit !== undefined) return String.fromCharCode(Number.parseInt(unit, 16));
    return mark === NUL ? "\0" : ESCAPE;
  });
}

/** Reads a column of a result. */
export type Parse = (text: string) => Bound;

/** By the number of the type (`pg_type.oid`). Numbers are safe integers, as on SQLite; booleans are 0 and 1. */
const PARSERS: Readonly<Record<number, Parse>> = {
  // boolean
  16: (text) => (text === "t" ? 1 : 0),
  // name
  19: (text) => text,
  // bigint, smallint, integer, oid, double precision; numeric is the type of sums of bigint
  20: Number,
  21: Number,
  23: Number,
  26: Number,
  701: Number,
  1700: Number,
  // text, varchar
  25: fromText,
  1043: fromText,
  // void
  2278: () => null,
};

/** A column of a type that no statement should return. */
class UnknownType extends Error {
  constructor(type: number) {
    super(`a statement returns a column of type ${type}, which nobody reads`);
  }
}

/** @throws {UnknownType} */
export function parserOf(type: number): Parse {
  const parse = PARSERS[type];
  if (parse === undefined) throw new UnknownType(type);
  return parse;
}
