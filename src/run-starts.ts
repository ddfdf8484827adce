import { TurnsError } from "./errors";
import { isDerivedId } from "./system";
import { type TaskNames, taskNamesOf } from "./run-config";
import type { TaskClaim, EarlyOutcome, Lease, SawDeletion, SawEpoch } from "./store/store";
import { Recent } from "./store/thread-state";
import type { RunnableConfig } from "@langchain/core/runnables";
import { type CheckpointMetadata, type PendingWrite, RESUME } from "@langchain/langgraph-checkpoint";

/** The task id under which LangGraph saves a Command's writes and, before 1.5, an input's delta writes. */
const NULL_TASK_ID = "00000000-0000-0000-0000-000000000000";
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
  at: { ns: string; checkpointId: string },
  task: { nodeTaskId: string; taskPath: string },
  writes: readonly PendingWrite[],
): TaskClaim {
  const kind = at.ns === "" ? beginningOf(at.checkpointId, task, writes) : undefined;
  if (kind === undefined) return { ...names, kind: "resume", name: at.checkpointId };
  const name = provisionalName(kind, at.checkpointId);
  return { ...names, kind, name, provisional: name };
}

function beginningOf(
  checkpointId: string,
  { nodeTaskId, taskPath }: { nodeTaskId: string; taskPath: string },
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

interface Place {
  threadId: string;
  ns: string;
}

interface At extends Place {
  checkpointId: string;
}

/**
 * The most checkpoints and characters to remember, not counting the newest checkpoint. Outcomes whose checkpoint never arrives
 * are dropped.
 */
const LIMIT = 64;
const CHARACTERS_MAX = 16 << 20;

/**
 * Outcomes of node tasks whose checkpoint hasn't been handed in yet. In a graph that isn't attached, Thoughts are saved with the
 * checkpoint, so the Action has nothing to follow yet.
 *
 * This happens with durability "exit", and when a save takes long: LangGraph hands in a checkpoint only after the previous one is
 * saved, and the nodes don't wait for it.
 */
export class EarlyOutcomes {
  readonly #known = new Map<string, { outcomes: EarlyOutcome[]; characters: number }>();
  #characters = 0;

  add(at: At, outcome: EarlyOutcome): void {
    const key = checkpointKey(at);
    const known = this.#known.get(key) ?? { outcomes: [], characters: 0 };
    const characters = charactersOf(outcome);
    this.#known.set(key, { outcomes: [...known.outcomes, outcome], characters: known.characters + characters });
    this.#characters += characters;
    for (const oldest of this.#known.keys()) {
      if (oldest === key || (this.#known.size <= LIMIT && this.#characters <= CHARACTERS_MAX)) break;
      this.#forget(oldest);
    }
  }

  /** Removes and returns the outcomes at a checkpoint that is handed in now, oldest first. */
  take(at: At): EarlyOutcome[] {
    return this.#known.size === 0 ? [] : this.#forget(checkpointKey(at));
  }

  #forget(key: string): EarlyOutcome[] {
    const { outcomes, characters } = this.#known.get(key) ?? { outcomes: [], characters: 0 };
    this.#known.delete(key);
    this.#characters -= characters;
    return outcomes;
  }
}

function charactersOf({ settle: { update } }: EarlyOutcome): number {
  return update === undefined ? 0 : update.parts.reduce((sum, part) => sum + part.text().length, update.text.length);
}

/** What a run found when it started. */
interface Beginning {
  deletion: number;
  /** How often the thread had been rewound. */
  epoch: number;
  /** The run's lease on its thread. */
  lease: Lease | undefined;
}

/**
 * Remembers which deletion of its thread each run found when it started, that is, when it first read the thread. A run that
 * started before a deletion is late, no matter what it saves and when. The same holds for rewinds and leases: a later run's
 * aren't its own.
 *
 * LangGraph passes one `metadata` object through all calls of a graph's run, and one `control` to nested graphs too; nested
 * graphs also get the outer namespaces. A call without these (a save by hand, `updateState`) isn't known here.
 */
export class Beginnings {
  readonly #found = new WeakMap<object, Map<string, Beginning>>();

  /** Whether this read starts a run. A nested graph started with the graph around it, unless it has a thread of its own. */
  isOne(config: RunnableConfig, at: Place): boolean {
    return isObject(config.metadata) && this.#around(config, at) === undefined;
  }

  began(config: RunnableConfig, at: Place, beginning: Beginning): void {
    for (const run of [config.metadata, controlOf(config)]) {
      if (!isObject(run)) continue;
      const found = this.#found.get(run) ?? new Map<string, Beginning>();
      this.#found.set(run, found.set(keyOf(at), beginning));
    }
  }

  of(config: RunnableConfig, at: Place): { deletion: SawDeletion; epoch: SawEpoch; lease: Lease | undefined } {
    return (
      this.#around(config, at) ?? this.#of(config.metadata, at) ?? { deletion: undefined, epoch: undefined, lease: undefined }
    );
  }

  #around(config: RunnableConfig, at: Place): Beginning | undefined {
    const { __pregel_read: insideNode, checkpoint_map: around } = (config.configurable ?? {}) as Record<string, unknown>;
    if (insideNode === undefined || !isObject(around)) return undefined;
    // The root of another thread, called within a run, starts a run of its own. The metadata name the outer thread.
    const isRootElsewhere = at.ns === "" && config.metadata?.["thread_id"] !== at.threadId;
    const above = isRootElsewhere ? [] : Object.keys(around);
    const found = above.map((ns) => this.#of(controlOf(config), { threadId: at.threadId, ns }));
    return found.find((beginning) => beginning !== undefined);
  }

  #of(run: unknown, at: Place): Beginning | undefined {
    return isObject(run) ? this.#found.get(run)?.get(keyOf(at)) : undefined;
  }
}

/** No id contains this separator. */
function keyOf({ threadId, ns }: Place): string {
  return `${threadId}\0${ns}`;
}

function checkpointKey(at: At): string {
  return `${keyOf(at)}\0${at.checkpointId}`;
}

function controlOf(config: RunnableConfig): unknown {
  return (config as { control?: unknown }).control;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
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
  remember(config: RunnableConfig, at: { threadId: string; ns: string }): TaskNames {
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

/** How many failed checkpoints are remembered. */
const REMEMBERED = 1_000;

/**
 * Checkpoints that couldn't be saved, with the error of each. Anything based on one of them is refused with the same error.
 * LangGraph saves the checkpoint after a run's input before anybody can stop it, and history with a hole would read as if nothing
 * were missing.
 */
export class MissingCheckpoints {
  readonly #errors = new Map<string, { error: unknown }>();

  add(at: At, error: unknown): void {
    // The id may be used again, and then the run continues.
    if (TurnsError.is(error, "THREAD_DELETED") || TurnsError.is(error, "THREAD_MOVED")) return;
    this.#errors.set(checkpointKey(at), { error });
    const [oldest] = this.#errors.keys();
    if (this.#errors.size > REMEMBERED && oldest !== undefined) this.#errors.delete(oldest);
  }

  /** Forgets a checkpoint that was saved after all. */
  delete(at: At): void {
    if (this.#errors.size > 0) this.#errors.delete(checkpointKey(at));
  }

  /** @throws the error that saving this checkpoint failed with, if it failed */
  refuse(at: Place, checkpointId: string | undefined): void {
    if (this.#errors.size === 0 || checkpointId === undefined) return;
    const found = this.#errors.get(`${keyOf(at)}\0${checkpointId}`);
    if (found !== undefined) throw found.error;
  }
}
