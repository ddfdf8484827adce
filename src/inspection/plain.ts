/*
 * Values as plain JSON, for people and for other programs. It's for looking at: a Map or a message doesn't become one again.
 */

/** How deep a value is shown. Nothing that a graph uses is deeper, and a forged value may be. */
const DEEPEST = 100;

/** A value as JSON has it. What JSON doesn't know becomes an object with one key that starts with `$`, or a text. */
export function plain(value: unknown, depth = 0): unknown {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : { $number: String(value) };
  if (typeof value === "bigint") return { $bigint: String(value) };
  // By itself it says that there is no value.
  if (value === undefined && depth === 0) return null;
  if (typeof value !== "object") return { [`$${typeof value}`]: typeof value === "symbol" ? value.toString() : "" };
  if (depth >= DEEPEST) return { $cut: "depth" };
  if (Array.isArray(value)) return Array.from(value, (item) => plain(item, depth + 1));
  return known(value, depth) ?? plainRecord(value, depth);
}

function known(value: object, depth: number): unknown {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? { $date: "invalid" } : value.toISOString();
  if (value instanceof Map) return { $map: [...value].map((entry) => plain(entry, depth + 1)) };
  if (value instanceof Set) return { $set: [...value].map((item) => plain(item, depth + 1)) };
  if (value instanceof URL || value instanceof RegExp) return String(value);
  if (ArrayBuffer.isView(value)) return { $bytes: value.byteLength };
  if (value instanceof ArrayBuffer) return { $bytes: value.byteLength };
  if (value instanceof Error) {
    const { name, message, stack, cause } = value;
    return {
      name,
      message,
      ...(stack !== undefined && { stack }),
      ...(cause !== undefined && { cause: plain(cause, depth + 1) }),
    };
  }
  return message(value, depth);
}

/** The part of LangChain's messages that people look at. */
interface MessageLike {
  getType(): string;
  id?: unknown;
  name?: unknown;
  content: unknown;
  tool_calls?: unknown;
  tool_call_id?: unknown;
  status?: unknown;
  usage_metadata?: unknown;
}

function message(value: Partial<MessageLike>, depth: number): unknown {
  if (typeof value.getType !== "function" || !("content" in value)) return undefined;
  const { id, name, content, tool_calls: calls, tool_call_id: callId, status, usage_metadata: usage } = value;
  const rest = {
    id,
    name,
    tool_calls: Array.isArray(calls) && calls.length === 0 ? undefined : calls,
    tool_call_id: callId,
    status,
    usage_metadata: usage,
  };
  const given = Object.entries(rest).filter(([, part]) => part !== undefined);
  return { type: value.getType(), content: plain(content, depth + 1), ...plainRecord(Object.fromEntries(given), depth) };
}

function plainRecord(value: object, depth: number): Record<string, unknown> {
  const record: Record<string, unknown> = {};
  for (const [key, part] of Object.entries(value)) {
    if (typeof part === "function") continue;
    Object.defineProperty(record, key, { value: plain(part, depth + 1), enumerable: true, configurable: true, writable: true });
  }
  return record;
}
