import {
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type PendingWrite,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { type CheckpointAddress, checkpointKey, namespaceKey, type Place } from "../run-config";
import { isWithin, namespaceAbove, nodeTaskIdOf } from "../store/namespaces";
import type { EarlyOutcome } from "../store/store";
import { NULL_TASK_ID } from "../system";
import { atEndOfMacrotask } from "../timers";
import { type NodeTaskInfo, startsFrom } from "./node-task";

/*
 * LangGraph hands in checkpoints and writes in an order of its own: a node may start before its checkpoint is handed in, and with
 * durability "exit" most writes never are. Here is what has been handed in, and what hasn't.
 */

/**
 * How many graphs are remembered, the most recently seen ones, and how many checkpoints of each: a node starts from one of the
 * newest.
 */
const GRAPHS = 1_024;
const CHECKPOINTS = 4;
/** How many macrotasks without a save in progress a node waits for its checkpoint. */
const IDLE_TURNS = 2;

/** A checkpoint that was handed in or read. */
interface Seen extends CheckpointAddress {
  step: number;
  /** The channels that have a value. */
  channels: readonly string[];
  /** Whether LangGraph has read it. A Command's updates to it aren't handed in with durability "exit". */
  wasRead: boolean;
  /** Whether a Command's update is pending on it, which LangGraph applies before the nodes start. */
  hasCommand: boolean;
  /** The run in which its graph was called, as callbacks tell. */
  calledIn: string | undefined;
  /** How many checkpoints were seen before. */
  index: number;
}

/** A node task that starts. */
interface StartingTask extends NodeTaskInfo {
  /** As in {@link Seen}. */
  calledIn?: string | undefined;
  /**
   * Whether its thread is known. Then a checkpoint with the same id on another thread (a copy has its source's ids) isn't its
   * start.
   */
  isPlaced?: boolean;
}

type Saving = (threadId: string) => Promise<void> | undefined;

/**
 * The checkpoints that LangGraph handed in or read most recently. LangGraph saves one only after the previous one is saved, and
 * one with delta channels only after their writes are. So a node may start before its checkpoint is handed in. The node waits:
 * its body must not run before its checkpoint is saved.
 */
export class SeenCheckpoints {
  /** Oldest first, both the graphs and the checkpoints of each. */
  readonly #graphs = new Map<string, Seen[]>();
  #count = 0;
  /** Set while a node waits for a checkpoint. */
  #next: NextOne | undefined;

  /**
   * @param calledIn {@link Seen.calledIn}
   * @param pending the writes on a checkpoint that was read; undefined for one that is handed in
   */
  add(
    { threadId, ns }: Place,
    { id: checkpointId, channel_values: values }: Pick<Checkpoint, "id" | "channel_values">,
    { step }: Pick<CheckpointMetadata, "step">,
    calledIn?: string,
    pending?: readonly CheckpointPendingWrite[],
  ): void {
    const hasCommand = pending?.some(([task, channel]) => isCommand(task, channel)) === true;
    const wasRead = pending !== undefined;
    const key = namespaceKey({ threadId, ns });
    const seen = this.#graphs.get(key) ?? [];
    const channels = Object.keys(values);
    seen.push({ threadId, ns, checkpointId, step, channels, wasRead, hasCommand, calledIn, index: this.#count });
    if (seen.length > CHECKPOINTS) seen.shift();
    this.#graphs.delete(key);
    this.#graphs.set(key, seen);
    const [oldest = key] = this.#graphs.keys();
    if (this.#graphs.size > GRAPHS) this.#graphs.delete(oldest);
    this.#count += 1;
    this.#next?.comes();
    this.#next = undefined;
  }

  has(at: CheckpointAddress): boolean {
    return this.#of(at).some(({ checkpointId }) => checkpointId === at.checkpointId);
  }

  /** Writes were handed in. */
  written(at: CheckpointAddress, taskId: string, writes: readonly PendingWrite[]): void {
    if (!writes.some(([channel]) => isCommand(taskId, channel))) return;
    for (const seen of this.#of(at)) if (seen.checkpointId === at.checkpointId) seen.hasCommand = true;
  }

  /**
   * The checkpoint that a node task starts from. If it hasn't arrived yet, this waits until it arrives or can't arrive any more:
   * with durability "exit" none is saved before the run is over. The wait finishes in the macrotask that hands the checkpoint in,
   * so that the Thought is committed with it.
   *
   * @param threadId the node task's thread, as its callbacks tell
   * @param saving resolves when no save of a thread is in progress; undefined if none is
   */
  startOf(task: StartingTask, threadId: string, saving: Saving): Seen | Promise<Seen | undefined> {
    return this.#find(task, threadId, 0) ?? this.#comingOf(task, threadId, saving);
  }

  async #comingOf(task: StartingTask, threadId: string, saving: Saving): Promise<Seen | undefined> {
    for (let idle = 0; idle < IDLE_TURNS;) {
      const onTheWay = saving(threadId) ?? this.#savingElsewhere(task, saving);
      const over = endOfMacrotask(onTheWay);
      for (let isOver = false; !isOver;) {
        const looked = this.#count;
        isOver = await Promise.race([(this.#next ??= new NextOne()).coming, over]);
        const found = this.#find(task, threadId, looked);
        if (found !== undefined) return found;
      }
      if (onTheWay === undefined) idle += 1;
    }
    return undefined;
  }

  /**
   * Finds the start of a task among the checkpoints added after the first `looked`. Its own thread's come first, because
   * comparing an id takes a hash. A graph that a node calls on another thread is reported with the outer thread.
   */
  #find(task: StartingTask, threadId: string, looked: number): Seen | undefined {
    const isStart = ({ step, index, checkpointId }: Seen): boolean =>
      index >= looked && step === task.step - 1 && startsFrom(task, checkpointId);
    const above = namespaceAbove(task.nodeNs);
    for (let ns = above; ; ns = namespaceAbove(ns)) {
      const found = this.#of({ threadId, ns }).findLast(isStart);
      if (found !== undefined) return found;
      if (ns === "") break;
    }
    if (task.isPlaced === true || looked === this.#count) return undefined;
    for (const seen of [...this.#graphs.values()].reverse()) {
      const newest = seen.at(-1);
      if (newest === undefined || newest.index < looked || newest.threadId === threadId || !isWithin(above, newest.ns)) continue;
      const found = seen.findLast(isStart);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /**
   * Saves in progress on the threads of graphs around a task. Their namespaces, or the run that called them, prove which threads
   * these are: callbacks may name another one.
   */
  #savingElsewhere({ nodeNs, calledIn }: StartingTask, saving: Saving): Promise<void> | undefined {
    const above = namespaceAbove(nodeNs);
    if (above === "" && calledIn === undefined) return undefined;
    for (const graph of this.#graphs.values()) {
      const seen = graph.at(-1);
      if (seen === undefined || (seen.ns === "") !== (above === "")) continue;
      const isAround = above === "" ? seen.calledIn === calledIn : isWithin(above, seen.ns);
      const onTheWay = isAround ? saving(seen.threadId) : undefined;
      if (onTheWay !== undefined) return onTheWay;
    }
    return undefined;
  }

  #of(at: Place): readonly Seen[] {
    return this.#graphs.get(namespaceKey(at)) ?? [];
  }
}

/**
 * Whether a node that starts from a checkpoint was called with exactly that checkpoint's state.
 *
 * @param bringsUpdate whether the node's graph was called with a Command that updates the state
 */
export function tells(
  { channels, hasCommand, wasRead }: Seen,
  input: Readonly<Record<string, unknown>>,
  bringsUpdate: boolean,
): boolean {
  if (hasCommand || (wasRead && bringsUpdate)) return false;
  let others: Set<string> | undefined;
  // Usually both are in the same order.
  return Object.keys(input).every(
    (key, at) => channels[at] === key || input[key] === undefined || (others ??= new Set(channels)).has(key),
  );
}

/** Regular writes of LangGraph's null task are a Command's update. */
function isCommand(taskId: string, channel: string): boolean {
  return taskId === NULL_TASK_ID && !Object.hasOwn(WRITES_IDX_MAP, channel);
}

/** A promise of the next checkpoint. */
class NextOne {
  comes: () => void = () => undefined;
  readonly coming = new Promise<false>((resolve) => {
    this.comes = () => {
      resolve(false);
    };
  });
}

async function endOfMacrotask(after: Promise<void> | undefined): Promise<true> {
  await after;
  return new Promise((resolve) => atEndOfMacrotask(() => resolve(true)));
}

interface NodeTask {
  nodeNs: string;
  nodeTaskId: string;
  step: number;
}

/**
 * Node tasks that have completed and whose writes LangGraph hasn't handed in. With durability "exit" it hands in only those of the
 * last step. The results of the others are in the checkpoint that is saved when the run ends.
 */
export class UnsavedResults {
  /** By thread, by the outermost node task that they are part of, and by id. */
  readonly #threads = new Map<string, Map<string, Map<string, NodeTask>>>();

  completed(threadId: string, { nodeNs, nodeTaskId, step }: NodeTask): void {
    const tasks = this.#threads.get(threadId) ?? new Map<string, Map<string, NodeTask>>();
    this.#threads.set(threadId, tasks);
    const outermost = outermostOf(nodeNs);
    const parts = tasks.get(outermost) ?? new Map<string, NodeTask>();
    tasks.set(outermost, parts.set(nodeTaskId, { nodeNs, nodeTaskId, step }));
  }

  /** Writes of a node task are handed in. Those of an outermost one save all that happened inside it, too. */
  written({ threadId, ns }: Place, nodeTaskId: string): void {
    const tasks = this.#threads.get(threadId);
    if (ns === "") tasks?.delete(nodeTaskId);
    else tasks?.get(outermostOf(ns))?.delete(nodeTaskId);
  }

  /** No checkpoint of the thread's runs will hold these results any more. */
  forget(threadId: string): void {
    this.#threads.delete(threadId);
  }

  /** Removes and returns the ids of the node tasks whose results are in a checkpoint that is handed in: its graph's, and inside those. */
  take({ threadId, ns }: Place, step: number): string[] {
    const tasks = this.#threads.get(threadId);
    if (tasks === undefined || tasks.size === 0) return [];
    const all = [...tasks.values()].flatMap((parts) => [...parts.values()]);
    const own = new Set(
      all.filter((task) => namespaceAbove(task.nodeNs) === ns && task.step <= step).map(({ nodeNs }) => nodeNs),
    );
    const isSaved = (nodeNs: string): boolean => own.has(nodeNs) || (nodeNs !== "" && isSaved(namespaceAbove(nodeNs)));
    const saved = all.filter(({ nodeNs }) => isSaved(nodeNs));
    for (const { nodeNs, nodeTaskId } of saved) tasks.get(outermostOf(nodeNs))?.delete(nodeTaskId);
    return saved.map(({ nodeTaskId }) => nodeTaskId);
  }
}

function outermostOf(ns: string): string {
  const cut = ns.indexOf("|");
  return nodeTaskIdOf(cut === -1 ? ns : ns.slice(0, cut));
}

/**
 * The most checkpoints and characters to remember, not counting the newest checkpoint. Outcomes whose checkpoint never arrives
 * are dropped.
 */
const EARLY_MAX = 64;
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

  add(at: CheckpointAddress, outcome: EarlyOutcome): void {
    const key = checkpointKey(at);
    const known = this.#known.get(key) ?? { outcomes: [], characters: 0 };
    const characters = charactersOf(outcome);
    this.#known.set(key, { outcomes: [...known.outcomes, outcome], characters: known.characters + characters });
    this.#characters += characters;
    for (const oldest of this.#known.keys()) {
      if (oldest === key || (this.#known.size <= EARLY_MAX && this.#characters <= CHARACTERS_MAX)) break;
      this.#forget(oldest);
    }
  }

  /** Removes and returns the outcomes at a checkpoint that is handed in now, oldest first. */
  take(at: CheckpointAddress): EarlyOutcome[] {
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
  return update === undefined ? 0 : update.parts.reduce((sum, part) => sum + part.text.length, update.text.length);
}
