import { isDeepStrictEqual } from "node:util";
import type { Outcomes } from "./calls";

type Fields = Readonly<Record<string, unknown>>;

/**
 * Whether an answer is what the undamaged file gives, except for rows that weren't found: they are gone, or their lookup columns or the
 * index were changed. Every row in the answer is as it was saved. The rows of one thread stay in their order.
 */
export function isLacking(name: string, found: unknown, wanted: Outcomes): boolean {
  const [, call = name, id = ""] = /^(.+?)(?: of (.+))?$/.exec(name) ?? [];
  const of = (other: string): unknown => valueOf(wanted, `${other} of ${id}`);
  switch (call) {
    case "list":
      return isPart(found, valueOf(wanted, name), isTuple);
    case "getTuple":
      return found === undefined || rowsOf(of("list")).some((tuple) => isTuple(found, tuple));
    case "getStateHistory":
      return isPart(found, of("getStateHistory"), isSnapshot(of("list")));
    case "getState":
      return isBlank(found) || rowsOf(of("getStateHistory")).some((snapshot) => isSnapshot(of("list"))(found, snapshot));
    case "listTurns":
    case "listNames":
    case "listRewinds":
    case "effects.list":
      return isPart(found, of(call), isDeepStrictEqual);
    // A task lasts until the next one begins.
    case "listTasks":
      return isPart(found, of(call), isSameBut("endSeq"));
    // Counts of what is there.
    case "listThreads":
      return isPart(found, valueOf(wanted, name), isSameBut("checkpoints", "turns", "tasks"));
    // Conclusions from what is there; what they show of rows the calls above show.
    case "CHECKPOINT.md":
    case "inFlight":
    case "status":
    case "tokenUsage":
      return true;
    // What a rewind leaves is one of the checkpoints that were saved, or none; its report counts the rows that went.
    case "rewind": {
      const left = (found as { then: unknown }).then;
      const saved = rowsOf(of("list")).map((tuple) => (tuple as Fields)["checkpoint"]);
      return left === undefined || saved.some((one) => isDeepStrictEqual(one, left));
    }
    default:
      return false;
  }
}

function valueOf(outcomes: Outcomes, name: string): unknown {
  const outcome = outcomes.get(name);
  return outcome !== undefined && "value" in outcome ? outcome.value : undefined;
}

function rowsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Each is an element of the full list, in its order, and none comes twice. */
function isPart(found: unknown, whole: unknown, same: (one: unknown, other: unknown) => boolean): boolean {
  const rest = [...rowsOf(whole)];
  return (
    Array.isArray(found) &&
    found.every((one) => {
      const at = rest.findIndex((other) => same(one, other));
      rest.splice(0, at + 1);
      return at >= 0;
    })
  );
}

function isSameBut(...columns: readonly string[]): (one: unknown, other: unknown) => boolean {
  const without = (row: unknown): Fields =>
    Object.fromEntries(Object.entries(row as Fields).filter(([key]) => !columns.includes(key)));
  return (one, other) => isDeepStrictEqual(without(one), without(other));
}

/** The same checkpoint, with all of its pending writes or a part of them. */
function isTuple(found: unknown, whole: unknown): boolean {
  const [one, other] = [found, whole] as Fields[];
  return isSameBut("pendingWrites")(one, other) && isPart(one?.["pendingWrites"], other?.["pendingWrites"], isDeepStrictEqual);
}

/** LangGraph makes what comes next, and the values with it, from a checkpoint and its pending writes. */
function isSnapshot(tuples: unknown): (found: unknown, whole: unknown) => boolean {
  const saved = rowsOf(tuples).map((tuple) => ((tuple as Fields)["checkpoint"] as Fields)["channel_values"] as Fields);
  const isSaved = (values: unknown): boolean =>
    saved.some((all) =>
      isDeepStrictEqual(Object.fromEntries(Object.keys(values as Fields).map((key) => [key, all[key]])), values),
    );
  return (found, whole) => {
    const [one, other] = [found, whole] as Fields[];
    if (!isSameBut("values", "next", "tasks")(one, other)) return false;
    return isDeepStrictEqual(one?.["values"], other?.["values"]) || isSaved(one?.["values"]);
  };
}

/** The state of a thread without a checkpoint. */
function isBlank(found: unknown): boolean {
  const { values, next, metadata } = found as Fields;
  return (
    isDeepStrictEqual([next, metadata], [[], undefined]) &&
    Object.values(values as Fields).every((value) => rowsOf(value).length === 0)
  );
}
