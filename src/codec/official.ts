import { Document } from "@langchain/core/documents";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { guarded, parse } from "./decode";
import { undecodable } from "./failures";
import { MESSAGE_CLASSES } from "./instances";
import { define, type JsonRecord, MAX_LEVELS_READ, put } from "./kind";

/**
 * Reads what LangGraph's own `JsonPlusSerializer` stored. It builds the classes that serializer builds (Map, Set, RegExp, Error,
 * Uint8Array, DeltaSnapshot) and LangChain messages and documents. Records of these forms with other content stay plain data, as
 * with that serializer. What the serializer lost on writing (Date, NaN, …) stays lost.
 * @param type `"json"` or `"bytes"`
 * @throws UNDECODABLE_VALUE for another type, text that is not JSON, too deep nesting, and serialized classes outside the list
 */
export function decodeOfficial(type: string, data: string | Uint8Array): unknown {
  return guarded(() => {
    if (type === "bytes") return typeof data === "string" ? new TextEncoder().encode(data) : data;
    if (type !== "json") throw undecodable("an unknown serialization type");
    return read(parse(typeof data === "string" ? data : new TextDecoder("utf-8", { fatal: true }).decode(data)), "state", 0);
  });
}

/** Where a node is: the `kwargs` of a message may hold escaped data, and nothing inside escaped data is a message. */
type Place = "state" | "kwargs" | "escaped";

function read(node: unknown, place: Place, level: number): unknown {
  if (typeof node !== "object" || node === null) return node;
  if (level > MAX_LEVELS_READ) throw undecodable("more levels of nesting than can be read");
  if (Array.isArray(node)) {
    for (let i = 0; i < node.length; i++) node[i] = read(node[i], place, level + 1);
    return node;
  }
  const record = node as JsonRecord;
  const keys = Object.keys(record);
  if (place === "kwargs" && keys.length === 1 && keys[0] === ESCAPED) return read(record[ESCAPED], "escaped", level + 1);
  const message = place !== "escaped" && isMessageRecord(record);
  for (const key of keys) put(record, key, read(record[key], message && key === "kwargs" ? "kwargs" : place, level + 1));
  return message ? readMessageRecord(record) : readConstructorRecord(record);
}

/** LangChain wraps user data inside a message under this key if it could be taken for a serialized object. */
const ESCAPED = "__lc_escaped__";

/** True for the form LangChain objects are serialized in. */
function isMessageRecord(record: JsonRecord): boolean {
  if (!Object.hasOwn(record, "lc") || record["lc"] !== 1 || record["type"] !== "constructor" || !Array.isArray(record["id"]))
    return false;
  const kwargs = Object.hasOwn(record, "kwargs") ? record["kwargs"] : undefined;
  return typeof kwargs === "object" && kwargs !== null && !Array.isArray(kwargs);
}

/** The message or document for such a record. Throws UNDECODABLE_VALUE for any other class. */
function readMessageRecord(record: JsonRecord): object {
  const [root, module, ...path] = record["id"] as unknown[];
  const name = path.at(-1);
  const known = root === "langchain_core" && typeof name === "string" && path.length <= 2;
  const kwargs = record["kwargs"] as JsonRecord;
  if (known && module === "documents" && name === "Document") return new Document(renamed(kwargs, Document.prototype) as never);
  const type = known && module === "messages" ? MESSAGE_CLASSES[name] : undefined;
  if (type === undefined) throw undecodable("a serialized LangChain object that is neither a message nor a document");
  return new type(renamed(kwargs, type.prototype as object) as never);
}

/** Converts arguments from snake case, except those that a class lists as aliases. */
function renamed(kwargs: JsonRecord, prototype: object): JsonRecord {
  const aliases = new Map<string, string>();
  for (let current: object | null = prototype; current !== null; current = Object.getPrototypeOf(current) as object | null) {
    const listed: unknown = Reflect.get(current, "lc_aliases");
    if (typeof listed !== "object" || listed === null) continue;
    for (const [key, alias] of Object.entries(listed)) if (typeof alias === "string") aliases.set(alias, key);
  }
  const result: JsonRecord = {};
  for (const key of Object.keys(kwargs)) define(result, aliases.get(key) ?? camelCase(key), kwargs[key]);
  return result;
}

function camelCase(key: string): string {
  const trimmed = key.trim();
  if (!/[-_\s]/.test(trimmed)) return trimmed;
  return trimmed
    .replace(/[-_\s]+/g, "_")
    .toLowerCase()
    .replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** The value for an `lc: 2` record whose contents are already read. Any other record is returned unchanged. */
function readConstructorRecord(record: JsonRecord): unknown {
  if (!Object.hasOwn(record, "lc") || record["lc"] !== 2) return record;
  if (record["type"] === "undefined") return undefined;
  if (record["type"] === "delta_snapshot" && Object.hasOwn(record, "value")) return new DeltaSnapshot(record["value"]);
  if (record["type"] !== "constructor" || !Array.isArray(record["id"]) || record["id"].length !== 1) return record;
  const method = record["method"] ?? undefined;
  const args: unknown = record["args"];
  if (!Array.isArray(args) || (method !== undefined && !(record["id"][0] === "Uint8Array" && method === "from"))) return record;
  return construct(record["id"][0], args) ?? record;
}

function construct(name: unknown, args: readonly unknown[]): unknown {
  const [first, second] = args;
  const list = args.length === 1 && Array.isArray(first) ? (first as unknown[]) : undefined;
  switch (name) {
    case "Set":
      return list && new Set(list);
    case "Map":
      return list?.every(isPair) ? new Map(list as [unknown, unknown][]) : undefined;
    case "Uint8Array":
      return list?.every(isByte) ? new Uint8Array(list as number[]) : undefined;
    case "Error":
      return args.length === 1 && typeof first === "string" ? new Error(first) : undefined;
    case "RegExp":
      return args.length === 2 && typeof first === "string" && typeof second === "string" ? regExp(first, second) : undefined;
    default:
      return undefined;
  }
}

function regExp(source: string, flags: string): RegExp | undefined {
  try {
    return new RegExp(source, flags);
  } catch {
    return undefined;
  }
}

function isPair(entry: unknown): boolean {
  return Array.isArray(entry) && entry.length === 2;
}

function isByte(item: unknown): boolean {
  return Number.isInteger(item) && (item as number) >= 0 && (item as number) <= 255;
}
