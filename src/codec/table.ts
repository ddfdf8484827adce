import { types } from "node:util";
import { COLLECTION_KINDS, ERROR_KINDS, SCALAR_KINDS, SERIALIZED_KINDS } from "./built-ins";
import { BYTE_KINDS } from "./bytes";
import { chainLength, classNameOf, parentOf } from "./inspect";
import { INSTANCE_KINDS } from "./instances";
import { type JsonRecord, type Kind, listOf, malformed, MARKER, onlyKeys, put, type Read, type Reading, textOf } from "./kind";

const NUMBERS: ReadonlyMap<string, number> = new Map([
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
  ["-0", -0],
]);
const ADDRESS = /^[A-Za-z0-9_-]{43}$/;
const BIGINT = /^(0|-?[1-9][0-9]*)$/;
/**
 * V8 keeps a slot for every hole of a list of up to some 33 million elements. For a list that once had the greatest length, it
 * keeps only what is there.
 */
const SLOTS_MAX = 16;
const LONGEST = 2 ** 32 - 1;

/** The tags without a kind: values that JSON can't express and that have no class. */
const UNCLASSED_TAGS: readonly (readonly [string, Read])[] = [
  ["undefined", readUndefined],
  ["number", readNumber],
  ["bigint", readBigint],
  ["object", readEscaped],
  ["null-prototype", readBare],
  ["Array", readSparse],
  ["chunk", readChunk],
];

function readUndefined(node: JsonRecord): undefined {
  onlyKeys(node);
}

function readNumber(node: JsonRecord): number {
  onlyKeys(node, "v");
  const value = NUMBERS.get(textOf(node));
  if (value === undefined) throw malformed(node);
  return value;
}

function readBigint(node: JsonRecord): bigint {
  onlyKeys(node, "v");
  const text = textOf(node);
  if (!BIGINT.test(text)) throw malformed(node);
  return BigInt(text);
}

function readEscaped(node: JsonRecord, reader: Reading): object {
  onlyKeys(node, "v");
  const value = reader.fields(node, "v");
  if (!Object.hasOwn(value, MARKER)) throw malformed(node);
  return value;
}

function readBare(node: JsonRecord, reader: Reading): object {
  onlyKeys(node, "v");
  const source = reader.fields(node, "v");
  const value = Object.create(null) as JsonRecord;
  for (const key of Object.keys(source)) put(value, key, source[key]);
  return value;
}

/**
 * A list with holes or with properties besides its elements: elements are `[index, value]`, in order. The memory it takes depends
 * on the length of the text, not on the list length that the text states.
 */
function readSparse(node: JsonRecord, reader: Reading): unknown[] {
  onlyKeys(node, "n", "v", "p");
  const length = node["n"];
  if (typeof length !== "number" || length >>> 0 !== length) throw malformed(node);
  const value: unknown[] = [];
  if (length > SLOTS_MAX) value.length = LONGEST;
  value.length = length;
  let last = -1;
  for (const pair of reader.list(listOf(node))) {
    if (!Array.isArray(pair) || pair.length !== 2) throw malformed(node);
    const index: unknown = pair[0];
    if (typeof index !== "number" || !Number.isInteger(index) || index <= last || index >= value.length) throw malformed(node);
    value[index] = pair[1];
    last = index;
  }
  return reader.extras(node, value);
}

/** A part stored elsewhere. The writer never writes this tag; the store puts it in place of a part. */
function readChunk(node: JsonRecord, reader: Reading): unknown {
  onlyKeys(node, "v");
  const address = textOf(node);
  if (!ADDRESS.test(address)) throw malformed(node);
  return reader.resolved(address);
}

const KINDS: readonly Kind[] = [
  ...SCALAR_KINDS,
  ...COLLECTION_KINDS,
  ...BYTE_KINDS,
  ...ERROR_KINDS,
  ...INSTANCE_KINDS,
  ...SERIALIZED_KINDS,
];
const BY_PROTOTYPE: ReadonlyMap<object, Kind> = new Map(KINDS.map((kind) => [kind.prototype, kind]));
const BY_NAME: ReadonlyMap<string, Kind> = new Map(KINDS.map((kind) => [kind.tag, kind]));
const READERS: ReadonlyMap<unknown, Read> = new Map([...UNCLASSED_TAGS, ...KINDS.map((kind) => [kind.tag, kind.read] as const)]);

/** Everything that a text can ask to be built. */
export const READABLE_TAGS: readonly string[] = [...UNCLASSED_TAGS, ...KINDS.map(({ tag }) => [tag] as const)].map(
  ([tag]) => tag,
);

/** The reader of a tag; undefined for a tag outside the closed set. */
export function readerOf(tag: unknown): Read | undefined {
  return READERS.get(tag);
}

/**
 * The kind of a value, by its prototype. A prototype outside the table may still be the same class from another realm or a second
 * copy of a library. A subclass never passes, because its prototype chain is longer.
 */
export function kindFor(value: object, prototype: object): Kind | undefined {
  const known = BY_PROTOTYPE.get(prototype);
  if (known !== undefined) return known;
  const kind = BY_NAME.get(classNameOf(prototype));
  return kind !== undefined && chainLength(prototype) === chainLength(kind.prototype) && kind.accepts(value) ? kind : undefined;
}

/** The first class of the table that a prototype descends from. */
export function nearestKind(prototype: object): Kind | undefined {
  for (let current: object | null = prototype; current !== null; current = parentOf(current)) {
    const kind = BY_PROTOTYPE.get(current);
    if (kind !== undefined) return kind;
  }
  return undefined;
}

/** The built-in class that a custom error is saved as: the nearest one it extends. */
export function errorKindFor(value: object, prototype: object): Kind | undefined {
  const kind = nearestKind(prototype);
  if (kind !== undefined && ERROR_KINDS.includes(kind)) return kind;
  const isError = types.isNativeError(value) || Object.prototype.toString.call(value) === "[object DOMException]";
  return isError ? BY_NAME.get("Error") : undefined;
}
