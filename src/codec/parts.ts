import { writing } from "./encode";
import type { EncodeOptions } from "./options";
import { innerKindOfPlain } from "./hidden";
import { finiteNumbers, isDense } from "./lists";
import { MARKER, type JsonRecord } from "./marker";
import type { Writer } from "./writer";

/**
 * The texts of a value's children. `[` + texts + `]`, or `{` + quoted keys with their texts + `}`, joined by commas, is the text of
 * the value.
 */
export type EncodedParts =
  | { readonly kind: "list"; readonly texts: string[] }
  | { readonly kind: "record"; readonly keys: string[]; readonly texts: string[] };

/**
 * What `encode` would write, one text for each child. Undefined for a value that is not written as its children alone: anything but
 * a plain object without the marker key, and a list without holes and further properties that is not a vector of numbers.
 * @throws UNSERIALIZABLE_VALUE as `encode` does, with the same path
 */
export function encodeParts(value: unknown, options?: EncodeOptions): EncodedParts | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  return writing(options, (writer) => {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === Object.prototype) return recordParts(value as JsonRecord, writer);
    return prototype === Array.prototype && Array.isArray(value) ? listParts(value, writer) : undefined;
  });
}

/**
 * The text of one child of a list or a record, for a value of which the rest is known.
 * @throws UNSERIALIZABLE_VALUE as `encode` of the whole does, with the same path
 */
export function encodePart(value: object, key: number | string, options?: EncodeOptions): string {
  return writing(options, (writer) => writer.within(value, () => writer.at(key, (value as JsonRecord)[key])));
}

function recordParts(value: JsonRecord, writer: Writer): EncodedParts | undefined {
  const keys = Object.keys(value);
  if (keys.includes(MARKER)) return undefined;
  return writer.within(value, () => {
    if (innerKindOfPlain(value, keys) !== undefined) writer.refuseInnerKind(value);
    writer.refuseSymbols(value);
    return { kind: "record", keys, texts: keys.map((key) => writer.at(key, value[key])) };
  });
}

function listParts(value: readonly unknown[], writer: Writer): EncodedParts | undefined {
  return writer.within(value, () => {
    writer.refuseSymbols(value);
    if (!isDense(value) || (value.length > 0 && finiteNumbers(value) !== undefined)) return undefined;
    return { kind: "list", texts: value.map((item, index) => writer.at(index, item)) };
  });
}
