import { TurnsError } from "../errors";
import { isStackOverflow, undecodable } from "./failures";
import {
  define,
  type JsonRecord,
  listOf,
  malformed,
  MARKER,
  MAX_LEVELS_READ,
  onlyKeys,
  put,
  type Read,
  type Reading,
  tagged,
  textOf,
} from "./kind";
import { KINDS } from "./table";

/**
 * The value for a text that {@link encode} wrote. Safe for untrusted text: it builds nothing but the classes of a closed table and
 * calls nothing that the text names.
 * @throws UNDECODABLE_VALUE for text that is not JSON, for unknown or malformed markers, and for nesting deeper than encode writes;
 * the message never quotes the text; also for references with nothing to resolve them
 * @param resolve gives the value a reference in the text stands for; it becomes a part of the result as it is. A TurnsError it
 * throws comes out unchanged.
 */
export function decode(text: string, resolve?: Resolve): unknown {
  return guarded(() => new Reader(resolve).value(parse(text)));
}

/** Parsed JSON, with an error that does not quote the text. */
export function parse(text: unknown): unknown {
  if (typeof text !== "string") throw undecodable(`a ${typeof text} instead of text`);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw undecodable("text that is not JSON");
  }
}

/** Runs a reader. Every error that isn't ours becomes UNDECODABLE_VALUE. */
export function guarded<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (TurnsError.is(error)) throw error;
    throw undecodable(isStackOverflow(error) ? "nesting too deep for the stack" : "a marker with content its class refuses");
  }
}

const TAG = "chunk";

/**
 * The text of a reference to a part that is stored elsewhere. The codec itself never writes it: data that looks like a reference
 * is escaped, as all data with the marker key is.
 * @param address 43 characters of base64url
 */
export function chunkTag(address: string): string {
  return tagged(TAG, `"${address}"`);
}

/**
 * The addresses that a text refers to, without duplicates, in the order of the text. Data that only looks like a reference
 * doesn't count.
 * @throws UNDECODABLE_VALUE for what {@link decode} refuses
 */
export function chunkAddresses(text: string): string[] {
  if (!text.includes(`"${MARKER}":"${TAG}"`)) return [];
  const addresses = new Set<string>();
  // Only the reader knows which objects are tags and which are contents of tags.
  decode(text, (address) => void addresses.add(address));
  return [...addresses];
}

type Resolve = (address: string) => unknown;

/**
 * Turns a parsed JSON tree into the value it stands for. The tree is private to the reader and changed in place, so parts without
 * tags cost one look and no copy.
 */
class Reader implements Reading {
  private levels = 0;

  constructor(private readonly resolve?: Resolve) {}

  /** The value for any parsed JSON. Throws UNDECODABLE_VALUE, or any error of a constructor that meets malformed content. */
  value(node: unknown): unknown {
    if (typeof node !== "object" || node === null) return node;
    if (++this.levels > MAX_LEVELS_READ) throw undecodable("more levels of nesting than the codec writes");
    let value: unknown;
    if (Array.isArray(node)) value = this.list(node);
    else value = Object.hasOwn(node, MARKER) ? this.tagged(node as JsonRecord) : this.record(node as JsonRecord);
    this.levels--;
    return value;
  }

  list(nodes: unknown[]): unknown[] {
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[i];
      if (typeof node === "object" && node !== null) nodes[i] = this.value(node);
    }
    return nodes;
  }

  /** Reads every property. The object itself is taken as it is, even with a marker key. */
  private record(node: JsonRecord): JsonRecord {
    const keys = Object.keys(node);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as string;
      const child = node[key];
      if (typeof child !== "object" || child === null) continue;
      const value = this.value(child);
      if (value !== child) put(node, key, value);
    }
    return node;
  }

  fields(node: JsonRecord, key: string): JsonRecord {
    const fields = node[key];
    if (typeof fields !== "object" || fields === null || Array.isArray(fields)) throw malformed(node);
    if (++this.levels > MAX_LEVELS_READ) throw undecodable("more levels of nesting than the codec writes");
    const record = this.record(fields as JsonRecord);
    this.levels--;
    return record;
  }

  extras<T extends object>(node: JsonRecord, target: T): T {
    if (!Object.hasOwn(node, "p")) return target;
    const extras = this.fields(node, "p");
    for (const key of Object.keys(extras)) define(target, key, extras[key]);
    return target;
  }

  resolved(address: string): unknown {
    if (this.resolve === undefined) throw undecodable("a reference without the part it refers to");
    return this.resolve(address);
  }

  private tagged(node: JsonRecord): unknown {
    const read = readerOf(node[MARKER]);
    if (read === undefined) throw undecodable("an unknown marker");
    return read(node, this);
  }
}

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

const READERS: ReadonlyMap<unknown, Read> = new Map([...UNCLASSED_TAGS, ...KINDS.map((kind) => [kind.tag, kind.read] as const)]);

/** Everything that a text can ask to be built. */
export const READABLE_TAGS: readonly string[] = [...UNCLASSED_TAGS, ...KINDS.map(({ tag }) => [tag] as const)].map(
  ([tag]) => tag,
);

/** The reader of a tag; undefined for a tag outside the closed set. */
export function readerOf(tag: unknown): Read | undefined {
  return READERS.get(tag);
}
