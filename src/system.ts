import { uuid5 } from "@langchain/langgraph-checkpoint";
import * as crypto from "node:crypto";

/** What every id has to be, for messages. */
export const ID_RULE = "a non-empty string without NUL characters and lone surrogates";

/**
 * Ids must be read from the database exactly as they were stored. SQLite stops some functions at a NUL character and replaces a
 * lone surrogate, so two ids could become one.
 */
export function isId(value: unknown): value is string {
  return typeof value === "string" && value !== "" && !value.includes("\0") && value.isWellFormed();
}

/** A UUID of version 7. Ids that grow with time lie together in an index, so saving one touches few pages. */
export function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}

/** LangGraph's task id for writes that belong to no task: a Command's and, before LangGraph 1.5, an input's delta writes. */
export const NULL_TASK_ID = "00000000-0000-0000-0000-000000000000";

/**
 * Whether LangGraph derived this task id from a checkpoint. It saves what input and `updateState` write on the parent, under such
 * ids.
 */
export function isDerivedId(id: string, from: "__input__" | "__interrupt__", checkpointId: string): boolean {
  try {
    return id === uuid5(from, checkpointId);
  } catch {
    return false; // a checkpoint id that isn't a UUID derives nothing
  }
}

/** `crypto.hash` takes a third less time, and is missing before Node 20.12. */
const hash = (crypto as { hash?: typeof crypto.hash }).hash;

/** A digest in one call. */
export const digest: (algorithm: "sha1" | "sha256", data: string | Buffer, encoding: "base64url" | "hex") => string =
  hash ?? ((algorithm, data, encoding) => crypto.createHash(algorithm).update(data).digest(encoding));

/** The default of the option `clock`. */
export function wallClock(): Date {
  return new Date();
}

/** Taken at load, so that a user's fake timers can't stop it. */
const now = process.hrtime.bigint.bind(process.hrtime);

/**
 * Milliseconds of the machine's steady clock, shared by all its processes; nobody can set it. Use it to measure durations and
 * ages. The wall clock is for times that people read.
 */
export function uptime(): number {
  return Number(now() / 1_000_000n);
}
