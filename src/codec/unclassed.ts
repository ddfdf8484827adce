import type { Read, Reading } from "./kind";
import { MARKER, put, type JsonRecord } from "./marker";
import { listOf, malformed, onlyKeys, textOf } from "./node";

const NUMBERS: ReadonlyMap<string, number> = new Map([
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
  ["-0", -0],
]);
const ADDRESS = /^[A-Za-z0-9_-]{43}$/;
const BIGINT = /^(0|-?[1-9][0-9]*)$/;
/** The engine keeps a slot for every hole of a list up to some 33 million of them; of one that was once as long as can be, what is there. */
const SLOTS_MAX = 16;
const LONGEST = 2 ** 32 - 1;

/** What JSON has no word for and what has no class: the tags without a kind. */
export const UNCLASSED_TAGS: readonly (readonly [string, Read])[] = [
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
 * A list with holes or with properties besides its elements: elements are `[index, value]`, in order. What it takes is decided by the
 * length of the text and not by the number that stands there for the length of the list.
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

/** A part stored elsewhere. The writer never writes this tag; the store puts it in the place of a part. */
function readChunk(node: JsonRecord, reader: Reading): unknown {
  onlyKeys(node, "v");
  const address = textOf(node);
  if (!ADDRESS.test(address)) throw malformed(node);
  return reader.resolved(address);
}
