import { uuid5 } from "@langchain/langgraph-checkpoint";
import { randomUUID } from "node:crypto";

/** What every id has to be; for messages. */
export const ID_RULE = "a non-empty string without NUL characters and lone surrogates";

/**
 * Ids are strings that come back from the database as they went in: SQLite ends some functions at a NUL character and stores a lone
 * surrogate as another character, so that two ids could become one.
 */
export function isId(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.includes("\0") && value.isWellFormed();
}

/** A UUID of version 7. Ids that grow with time stand together in an index, so that saving one touches no page that nothing else does. */
export function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}

/** Whether LangGraph derives this id of writes from a checkpoint: it saves what input and `updateState` write on the parent, under such ids. */
export function isDerivedId(id: string, from: "__input__" | "__interrupt__", checkpointId: string): boolean {
  try {
    return id === uuid5(from, checkpointId);
  } catch {
    return false; // a checkpoint id that is no UUID derives nothing
  }
}

/** The option `clock`, unless it is given. */
export function wallClock(): Date {
  return new Date();
}

/** Taken at load, so that a user's fake timers can't stop it. */
const now = process.hrtime.bigint.bind(process.hrtime);

/**
 * Milliseconds by the machine's steady clock. All processes of a machine share it, and nobody can set it. Use it to measure how long
 * something takes, or how long ago something was. The wall clock is for what people read.
 */
export function uptime(): number {
  return Number(now() / 1_000_000n);
}
