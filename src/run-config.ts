import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type ChannelVersions,
  type Checkpoint,
  type CheckpointMetadata,
  getCheckpointId,
  type PendingWrite,
  RESUME,
} from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "./errors";
import type { Lease, SawDeletion, SawEpoch, TaskClaim } from "./store/store";
import { Recent } from "./store/thread-state";
import { ID_RULE, isDerivedId, isId, NULL_TASK_ID } from "./system";

/*
 * What a call of LangGraph says about itself: where it reads or saves, which of the user's tasks that belongs to, and which run makes it.
 */

/** The checked parts of `config.configurable` that address a checkpoint. */
export interface Address {
  threadId: string;
  ns: string;
  /** Undefined means the newest checkpoint of the namespace. */
  checkpointId: string | undefined;
}

/** A namespace of a thread: one graph of it. */
export interface Place {
  threadId: string;
  ns: string;
}

export interface CheckpointAddress extends Place {
  checkpointId: string;
}

/** A key for maps. No id contains the separator. */
export function namespaceKey({ threadId, ns }: Place): string {
  return `${threadId}\0${ns}`;
}

/** As {@link namespaceKey}. */
export function checkpointKey({ threadId, ns, checkpointId }: CheckpointAddress): string {
  return `${threadId}\0${ns}\0${checkpointId}`;
}

/** The task and graph ids that the caller gave. */
export interface TaskNames {
  taskId: string | undefined;
  graphId: string | undefined;
}

const EXAMPLE = '{ configurable: { thread_id: "my-thread" } }';

const invalid = (key: string, what: string, expected: string, found: unknown, remedy = ""): TurnsError =>
  new TurnsError("INVALID_CONFIG", {
    problem: `${what} is ${found === undefined ? "missing" : describe(found)}.`,
    remedy: `It must be ${expected}. ${remedy === "" ? "" : `${remedy} `}Nothing was changed.`,
    data: { key },
  });

/** Empty if the config has none. @throws {TurnsError} INVALID_CONFIG unless the config is an object */
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

/** The id of the run that contains the run with these callbacks. */
export function runAround(callbacks: RunnableConfig["callbacks"]): string | undefined {
  return Array.isArray(callbacks) ? undefined : callbacks?.getParentRunId();
}

/** For `list`, `undefined` and `null` mean every namespace; elsewhere they mean the root. */
export function namespaceOf(value: unknown, doing: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  return value === "" ? "" : checkedId(value, "checkpoint_ns", doing);
}

export function checkpointIdOf(config: RunnableConfig, doing: string): string | undefined {
  const id: unknown = getCheckpointId(config);
  return id === "" ? undefined : checkedId(id, "checkpoint_id", doing);
}

function taskNamesOf(config: RunnableConfig, doing: string): TaskNames {
  const { task_id: taskId, graph_id: graphId } = (config.configurable ?? {}) as Record<string, unknown>;
  return { taskId: optionalId(taskId, "task_id", doing), graphId: optionalId(graphId, "graph_id", doing) };
}

function optionalId(value: unknown, name: string, doing: string): string | undefined {
  return value === undefined || value === null ? undefined : checkedId(value, name, doing);
}

/** An id that is an argument of a method, rather than in a config. @throws {TurnsError} INVALID_CONFIG unless {@link isId} */
export function checkedArgument(value: unknown, name: string, doing: string): string {
  if (isId(value)) return value;
  throw invalid(name, `${name} of ${doing}`, ID_RULE, value);
}

/** An id in a config. @throws {TurnsError} INVALID_CONFIG unless {@link isId} */
export function checkedId(value: unknown, name: string, doing: string): string {
  if (isId(value)) return value;
  throw invalid(name, `configurable.${name}, which ${doing} needs,`, ID_RULE, value, `Pass it in the config, e.g. ${EXAMPLE}.`);
}

/**
 * Checks the task path that LangGraph passes to `putWrites`. Older versions pass none.
 *
 * @throws {TurnsError} INVALID_CONFIG for a path that a database wouldn't return unchanged
 */
export function checkedTaskPath(value: unknown): string {
  if (value === undefined || value === null || value === "") return "";
  if (isId(value)) return value;
  const expected = "a string without NUL characters and lone surrogates, or nothing";
  const remedy = "Pass what LangGraph passes, or leave it out.";
  throw invalid("taskPath", "taskPath, the fourth argument of putWrites,", expected, value, remedy);
}

/** A registered symbol, because `/import` and the root entry may come from different builds. */
const IMPORTED_AT: unique symbol = Symbol.for("langgraph-checkpoint-turns.importedAt");

/**
 * The config for saving data that was first saved elsewhere, at that time (an ISO text). There's no recorder for it, and no
 * warning about that.
 */
export function importing(configurable: Readonly<Record<string, string | undefined>>, at: string): RunnableConfig {
  return { configurable: { ...configurable, [IMPORTED_AT]: at } };
}

/** For a save that is part of an import: when the data was first saved. */
export function importedAt(config: RunnableConfig): string | undefined {
  return (config.configurable as { [IMPORTED_AT]?: string } | undefined)?.[IMPORTED_AT];
}

/** When the data of a save was first saved: now, unless it is imported. @returns an ISO text */
export function timeOfSave(config: RunnableConfig, clock: () => Date): string {
  return importedAt(config) ?? clock().toISOString();
}

const NONE: TaskNames = { taskId: undefined, graphId: undefined };

/** How many threads' task names are remembered. */
const NAMED = 10_000;

/** The task names that the newest run of each thread was given: the callbacks of its nodes don't carry them. */
export class RunNames {
  readonly #of = new Recent<string, TaskNames>(NAMED);

  of(threadId: string): TaskNames {
    return this.#of.get(threadId) ?? NONE;
  }

  /** The names a run gives hold for its thread until the next run gives others. */
  remember(config: RunnableConfig, at: Place): TaskNames {
    const told = taskNamesOf(config, "a save");
    // A graph that a node calls on another thread is at the root there, without a namespace.
    if (told.taskId !== undefined || told.graphId !== undefined) this.#of.set(at.threadId, told);
    else if (at.ns === "") this.forget(at.threadId);
    return told;
  }

  forget(threadId: string): void {
    this.#of.delete(threadId);
  }
}

/** Prefix of the task paths of an `updateState`'s updates, from LangGraph 1.5 on. */
const UPDATE_PATH = "~__interrupt__, ";
/** Prefix of the task path of a node's task. */
const PULL_PATH = "~__pregel_pull, ";
const NODE_PATHS: readonly string[] = [PULL_PATH, "~__pregel_push, "];

/** The node that a task path names. The path of a `Send` names none. */
export function nodeInPath(taskPath: string): string | undefined {
  return taskPath.startsWith(PULL_PATH) ? taskPath.slice(PULL_PATH.length) : undefined;
}

/**
 * What a checkpoint says about the user's task (design, *task*). New input and a fork each start a task, named after their
 * checkpoint. An `updateState` is a task of its own. Everything else continues the current task. Only the root namespace starts
 * tasks.
 */
export function claimOfCheckpoint(
  names: TaskNames,
  at: { ns: string; checkpointId: string; parentId: string | undefined },
  source: CheckpointMetadata["source"],
): TaskClaim {
  const name = at.checkpointId;
  if (at.ns !== "" || source === "loop") return { ...names, kind: "resume", name };
  const kind = source === "update" ? "update" : "begin";
  const provisional = at.parentId === undefined ? undefined : provisionalName(kind, at.parentId);
  return { ...names, kind, name, provisional };
}

/**
 * Writes that precede the checkpoint they lead to: a Command's update or goto, an input's delta writes, an `updateState`. They
 * start the task under a provisional name, so that a rewind to the previous task removes them too.
 */
export function claimOfWrites(
  names: TaskNames,
  at: { ns: string; checkpointId: string; nodeTaskId: string; taskPath: string },
  writes: readonly PendingWrite[],
): TaskClaim {
  const kind = at.ns === "" ? kindStartedBy(at, writes) : undefined;
  if (kind === undefined) return { ...names, kind: "resume", name: at.checkpointId };
  const name = provisionalName(kind, at.checkpointId);
  return { ...names, kind, name, provisional: name };
}

/** The kind of task that writes start, or undefined if they continue the current task. */
function kindStartedBy(
  { checkpointId, nodeTaskId, taskPath }: { checkpointId: string; nodeTaskId: string; taskPath: string },
  writes: readonly PendingWrite[],
): "begin" | "update" | undefined {
  if (nodeTaskId === NULL_TASK_ID) return writes.some(([channel]) => channel === RESUME) ? undefined : "begin";
  if (NODE_PATHS.some((path) => taskPath.startsWith(path))) return undefined;
  if (isDerivedId(nodeTaskId, "__input__", checkpointId)) return "begin";
  return taskPath.startsWith(UPDATE_PATH) || isDerivedId(nodeTaskId, "__interrupt__", checkpointId) ? "update" : undefined;
}

function provisionalName(kind: "begin" | "update", checkpointId: string): string {
  return `${kind === "update" ? "update" : "command"}:${checkpointId}`;
}

/** What a run found when it started. */
export interface RunStart {
  readonly sawDeletion: SawDeletion;
  /** How often the thread had been rewound. */
  readonly sawEpoch: SawEpoch;
  /** The run's lease on its thread. */
  readonly lease: Lease | undefined;
}

/** Knows the runs that are recorded. */
interface Runs {
  leaseOf(runId: string | undefined): Lease | undefined;
}

const UNKNOWN: RunStart = { sawDeletion: undefined, sawEpoch: undefined, lease: undefined };

/**
 * Remembers which deletion of its thread each run found when it started, that is, when it first read the thread. A run that
 * started before a deletion is late, no matter what it saves and when. The same holds for rewinds and leases: a later run's
 * aren't its own.
 *
 * LangGraph passes one `metadata` object through all calls of a graph's run, and one `control` to nested graphs too; nested
 * graphs also get the outer namespaces. A call without these (a save by hand, `updateState`) isn't known here.
 */
export class RunStarts {
  readonly #runs: Runs;
  readonly #found = new WeakMap<object, Map<string, RunStart>>();

  constructor(runs: Runs) {
    this.#runs = runs;
  }

  /** Whether this read starts a run. A nested graph started with the graph around it, unless it has a thread of its own. */
  isStart(config: RunnableConfig, at: Place): boolean {
    return isObject(config.metadata) && this.#around(config, at) === undefined;
  }

  /** A run starts, and has found this. */
  add(config: RunnableConfig, at: Place, start: RunStart): void {
    for (const run of [config.metadata, controlOf(config)]) {
      if (!isObject(run)) continue;
      const found = this.#found.get(run) ?? new Map<string, RunStart>();
      this.#found.set(run, found.set(namespaceKey(at), start));
    }
  }

  /**
   * The start of the run that makes a save. A graph that a node calls on another thread belongs to the outer run.
   *
   * @returns members that are undefined where nothing is known
   */
  of(config: RunnableConfig, at: Place): RunStart {
    const found = this.#around(config, at) ?? this.#of(config.metadata, at) ?? UNKNOWN;
    if (found.lease !== undefined) return found;
    const lease = this.#runs.leaseOf(runAround(config.callbacks));
    return lease === undefined ? found : { sawDeletion: found.sawDeletion, sawEpoch: found.sawEpoch, lease };
  }

  #around(config: RunnableConfig, at: Place): RunStart | undefined {
    const { __pregel_read: insideNode, checkpoint_map: around } = (config.configurable ?? {}) as Record<string, unknown>;
    if (insideNode === undefined || !isObject(around)) return undefined;
    // The root of another thread, called within a run, starts a run of its own. The metadata name the outer thread.
    const isRootElsewhere = at.ns === "" && config.metadata?.["thread_id"] !== at.threadId;
    const above = isRootElsewhere ? [] : Object.keys(around);
    const found = above.map((ns) => this.#of(controlOf(config), { threadId: at.threadId, ns }));
    return found.find((start) => start !== undefined);
  }

  #of(run: unknown, at: Place): RunStart | undefined {
    return isObject(run) ? this.#found.get(run)?.get(namespaceKey(at)) : undefined;
  }
}

function controlOf(config: RunnableConfig): unknown {
  return (config as { control?: unknown }).control;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Checks everything that saving reads, so that callers without types get a clear error.
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

/** Refuses values that the database would change, or that don't make a valid checkpoint when read. */
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
