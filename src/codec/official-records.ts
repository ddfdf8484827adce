import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import type { JsonRecord } from "./marker";

/** The value for an `lc: 2` record whose contents are read; any other record is returned as it is. */
export function readConstructorRecord(record: JsonRecord): unknown {
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
