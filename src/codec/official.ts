import { undecodable } from "./failures";
import { guarded, parse } from "./decode";
import { MAX_LEVELS_READ, put, type JsonRecord } from "./marker";
import { readConstructorRecord } from "./official-records";
import { isMessageRecord, readMessageRecord, ESCAPED } from "./official-messages";

/**
 * The value for what LangGraph's own `JsonPlusSerializer` stored. Builds the classes that serializer builds (Map, Set, RegExp,
 * Error, Uint8Array, DeltaSnapshot) and LangChain messages and documents; records of these forms with other content stay plain
 * data, as with that serializer. What it lost when it wrote (Date, NaN, …) stays lost.
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

/** Where a node is: `kwargs` of a message know escaped data, and inside that data nothing is a message. */
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
