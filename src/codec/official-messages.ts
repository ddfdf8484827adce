import { Document } from "@langchain/core/documents";
import { MESSAGE_CLASSES } from "./classes";
import { undecodable } from "./failures";
import { define, type JsonRecord } from "./marker";

/** The key under which LangChain wraps user data inside a message that could be taken for a serialized object. */
export const ESCAPED = "__lc_escaped__";

/** True for the form LangChain objects are serialized in. */
export function isMessageRecord(record: JsonRecord): boolean {
  if (!Object.hasOwn(record, "lc") || record["lc"] !== 1 || record["type"] !== "constructor" || !Array.isArray(record["id"]))
    return false;
  const kwargs = Object.hasOwn(record, "kwargs") ? record["kwargs"] : undefined;
  return typeof kwargs === "object" && kwargs !== null && !Array.isArray(kwargs);
}

/** The message or document for such a record. Throws UNDECODABLE_VALUE for any other class. */
export function readMessageRecord(record: JsonRecord): object {
  const [root, module, ...path] = record["id"] as unknown[];
  const name = path.at(-1);
  const known = root === "langchain_core" && typeof name === "string" && path.length <= 2;
  const kwargs = record["kwargs"] as JsonRecord;
  if (known && module === "documents" && name === "Document") return new Document(renamed(kwargs, Document.prototype) as never);
  const type = known && module === "messages" ? MESSAGE_CLASSES[name] : undefined;
  if (type === undefined) throw undecodable("a serialized LangChain object that is neither a message nor a document");
  return new type(renamed(kwargs, type.prototype as object) as never);
}

/** Arguments are stored in snake case, except for those a class lists as aliases. */
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
