import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  getCheckpointId,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "./errors";
import { ID_RULE, isId } from "./system";

/** The parts of `config.configurable` that address a checkpoint, checked. */
export interface Address {
  threadId: string;
  ns: string;
  /** Undefined: the newest of the namespace. */
  checkpointId: string | undefined;
}

/** What a caller says about the task a run belongs to. */
export interface TaskNames {
  taskId: string | undefined;
  graphId: string | undefined;
}

const EXAMPLE = '{ configurable: { thread_id: "my-thread" } }';

const invalid = (key: string, what: string, expected: string, found: unknown, remedy: string): TurnsError =>
  new TurnsError("INVALID_CONFIG", {
    problem: `${what} is ${found === undefined ? "missing" : describe(found)}.`,
    remedy: `It must be ${expected}. ${remedy} Nothing was changed.`,
    data: { key },
  });

/** Empty if the config has none. @throws {TurnsError} INVALID_CONFIG for what is no config */
export function configurableOf(config: RunnableConfig, doing: string): Record<string, unknown> {
  if (typeof config === "object" && config !== null) return (config.configurable ?? {}) as Record<string, unknown>;
  throw invalid("config", `The config of ${doing}`, "an object", config, `Pass e.g. ${EXAMPLE}.`);
}

/** @throws {TurnsError} INVALID_CONFIG */
export function addressOf(config: RunnableConfig, doing: string): Address {
  const configurable = configurableOf(config, doing);
  return {
    threadId: checkedId(configurable["thread_id"], "thread_id", doing),
    ns: namespaceOf(configurable["checkpoint_ns"], doing) ?? "",
    checkpointId: checkpointIdOf(config, doing),
  };
}

/** The id of the run that a run with these callbacks is a part of. */
export function runAround(callbacks: RunnableConfig["callbacks"]): string | undefined {
  return Array.isArray(callbacks) ? undefined : callbacks?.getParentRunId();
}

/** `undefined` and `null` mean every namespace to `list`, the root elsewhere. */
export function namespaceOf(value: unknown, doing: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  return value === "" ? "" : checkedId(value, "checkpoint_ns", doing);
}

export function checkpointIdOf(config: RunnableConfig, doing: string): string | undefined {
  const id: unknown = getCheckpointId(config);
  return id === "" ? undefined : checkedId(id, "checkpoint_id", doing);
}

export function taskNamesOf(config: RunnableConfig, doing: string): TaskNames {
  const { task_id: taskId, graph_id: graphId } = (config.configurable ?? {}) as Record<string, unknown>;
  return { taskId: optionalId(taskId, "task_id", doing), graphId: optionalId(graphId, "graph_id", doing) };
}

function optionalId(value: unknown, name: string, doing: string): string | undefined {
  return value === undefined || value === null ? undefined : checkedId(value, name, doing);
}

/** @throws {TurnsError} INVALID_CONFIG unless {@link isId} */
export function checkedId(value: unknown, name: string, doing: string): string {
  if (isId(value)) return value;
  throw invalid(name, `configurable.${name}, which ${doing} needs,`, ID_RULE, value, `Pass it in the config, e.g. ${EXAMPLE}.`);
}

/**
 * What LangGraph passes to `putWrites` as the task's path; older versions pass none.
 *
 * @throws {TurnsError} INVALID_CONFIG for a path that wouldn't come back from a database as it went in
 */
export function checkedTaskPath(value: unknown): string {
  if (value === undefined || value === null || value === "") return "";
  if (isId(value)) return value;
  const expected = "a string without NUL characters and lone surrogates, or nothing";
  const remedy = "Pass what LangGraph passes, or leave it out.";
  throw invalid("taskPath", "taskPath, the fourth argument of putWrites,", expected, value, remedy);
}

/** One symbol for all copies of this package: `/import` and the root may be of different builds. */
const IMPORTED_AT: unique symbol = Symbol.for("langgraph-checkpoint-turns.importedAt");

/** The config of a save that brings over what was saved elsewhere, at that time (an ISO text). No recorder is missed there. */
export function importing(configurable: Readonly<Record<string, string | undefined>>, at: string): RunnableConfig {
  return { configurable: { ...configurable, [IMPORTED_AT]: at } };
}

/** When what is saved was first saved, if the save is part of an import. */
export function importedAt(config: RunnableConfig): string | undefined {
  return (config.configurable as { [IMPORTED_AT]?: string } | undefined)?.[IMPORTED_AT];
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Checks what is saved as far as saving reads it, so that a caller without types learns what is wrong.
 *
 * @throws {TurnsError} INVALID_CHECKPOINT naming the first argument or field that is wrong
 */
export function refuseMalformed(
  checkpoint: Checkpoint,
  metadata: CheckpointMetadata,
  newVersions: ChannelVersions | undefined,
): void {
  // Savers that keep the whole state don't need it, and wrappers written for them leave it out.
  refuseNoRecord("checkpoint", checkpoint);
  refuseNoRecord("metadata", metadata);
  if (newVersions !== undefined) refuseNoRecord("newVersions", newVersions);
  refuseNoRecord("checkpoint.channel_values", checkpoint.channel_values);
  refuseNoRecord("checkpoint.channel_versions", checkpoint.channel_versions);
  refuseUnreadable(checkpoint, metadata);
}

function refuseNoRecord(field: string, found: unknown): void {
  if (!isRecord(found)) throw unfit(field, "an object", found);
}

/** What the database would keep as something else, or give back as no checkpoint. */
function refuseUnreadable(
  { v, ts, versions_seen: seen, channel_versions: versions }: Checkpoint,
  metadata: CheckpointMetadata,
): void {
  const { source, step } = metadata as { source: unknown; step: unknown };
  if (!Number.isFinite(v)) throw unfit("checkpoint.v", "a number", v);
  if (typeof (ts ?? "") !== "string") throw unfit("checkpoint.ts", "a text", ts);
  if (!isRecord(seen ?? {}) || !Object.values(seen ?? {}).every(isRecord))
    throw unfit("checkpoint.versions_seen", "an object of objects", seen);
  for (const channel of Object.keys(versions)) {
    const version: unknown = versions[channel];
    if (typeof version === "string" || Number.isFinite(version)) continue;
    throw unfit(`checkpoint.channel_versions.${channel}`, "a number or a text", version);
  }
  if (!isId(source)) throw unfit("metadata.source", ID_RULE, source);
  if (!Number.isSafeInteger(step)) throw unfit("metadata.step", "a whole number", step);
}

/** @throws {TurnsError} INVALID_CHECKPOINT unless these are pairs of a channel and a value */
export function refuseNoWrites(writes: PendingWrite[]): void {
  if (!Array.isArray(writes)) throw malformed("writes", "an array of [channel, value]", writes, "writes");
  const index = writes.findIndex((write: unknown) => !Array.isArray(write) || typeof write[0] !== "string");
  if (index !== -1) throw malformed(`writes.${index}`, "a pair [channel, value]", writes[index], `writes.${index}`);
}

const unfit = (field: string, expected: string, found: unknown): TurnsError => malformed(field, expected, found, field);

const malformed = (what: string, expected: string, found: unknown, field: string): TurnsError =>
  new TurnsError("INVALID_CHECKPOINT", {
    problem: `${what} is ${found === undefined ? "missing" : describe(found)}.`,
    remedy: `It must be ${expected}. Pass what LangGraph passes. Nothing was saved.`,
    data: { field },
  });
