import {
  type Checkpoint,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type PendingWrite,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import { isWithin, namespaceAbove } from "../store/namespaces";
import { type NodeTaskInfo, startsFrom } from "./node-task";

/** Taken at load, so that a user's fake timers can't stop a run. */
const atEndOfMacrotask = setImmediate;
/** So many checkpoints are kept in mind; a node starts from one of the last few. */
const LIMIT = 256;
/** For so many macrotasks, in which nothing is on its way to the disk, a node waits for its checkpoint. */
const IDLE_TURNS = 2;

/** LangGraph's task id for writes that are no task's. */
const NULL_TASK = "00000000-0000-0000-0000-000000000000";

interface Seen {
  threadId: string;
  ns: string;
  checkpointId: string;
  step: number;
  /** The channels that have a value. */
  channels: ReadonlySet<string>;
  /** Whether a Command's update is pending on it, which LangGraph applies before the nodes begin. */
  hasCommand: boolean;
}

/**
 * The checkpoints that LangGraph has handed in or read last. LangGraph saves one only when the one before is saved, and those of delta
 * channels when their writes are, so the checkpoint that a node starts from may be handed in later than the node. A node waits for it: its
 * body must not run before its checkpoint is saved.
 */
export class SeenCheckpoints {
  #seen: Seen[] = [];
  /** How many were added so far. */
  #count = 0;
  #next = new NextOne();

  /** @param writes that are pending on it */
  add(
    { threadId, ns }: Pick<Seen, "threadId" | "ns">,
    { id: checkpointId, channel_values: values }: Pick<Checkpoint, "id" | "channel_values">,
    { step }: Pick<CheckpointMetadata, "step">,
    writes: readonly CheckpointPendingWrite[] = [],
  ): void {
    const hasCommand = writes.some(([task, channel]) => isCommand(task, channel));
    this.#seen.push({ threadId, ns, checkpointId, step, channels: new Set(Object.keys(values)), hasCommand });
    this.#count += 1;
    if (this.#seen.length >= 2 * LIMIT) this.#seen = this.#seen.slice(-LIMIT);
    const told = this.#next;
    this.#next = new NextOne();
    told.comes();
  }

  has(ns: string, checkpointId: string): boolean {
    return this.#seen.findLast((seen) => seen.checkpointId === checkpointId && seen.ns === ns) !== undefined;
  }

  /** Writes were handed in. */
  written(checkpointId: string, taskId: string, writes: readonly PendingWrite[]): void {
    if (!writes.some(([channel]) => isCommand(taskId, channel))) return;
    for (const seen of this.#seen) if (seen.checkpointId === checkpointId) seen.hasCommand = true;
  }

  /** Whether the state of a checkpoint is what a node that starts from it was called with. */
  tells(start: Seen | undefined, input: Readonly<Record<string, unknown>>): boolean {
    if (start === undefined || start.hasCommand) return false;
    return Object.keys(input).every((key) => input[key] === undefined || start.channels.has(key));
  }

  /**
   * The checkpoint that a node task starts from. If it isn't there yet, it is waited for, until it won't come: with durability "exit" none is
   * saved before the run ends. The wait is over in the macrotask that hands the checkpoint in, so that the Thought is committed with it.
   *
   * @param threadId of the node task, as far as its callbacks tell
   * @param saving resolves when nothing of the thread is on its way to the disk; undefined if nothing is
   */
  startOf(task: NodeTaskInfo, threadId: string, saving: () => Promise<void> | undefined): Seen | Promise<Seen | undefined> {
    return this.#find(task, threadId, 0) ?? this.#comingOf(task, threadId, saving);
  }

  async #comingOf(task: NodeTaskInfo, threadId: string, saving: () => Promise<void> | undefined): Promise<Seen | undefined> {
    for (let idle = 0; idle < IDLE_TURNS;) {
      const looked = this.#count;
      const onTheWay = saving();
      if (onTheWay === undefined) idle += 1;
      await Promise.race([this.#next.coming, endOfMacrotask(onTheWay)]);
      const found = this.#find(task, threadId, looked);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /**
   * The start of a task among those that were added after the first `looked`. Those of its own thread come first: to compare an id takes a
   * hash. A graph that a node calls on another thread carries the thread of the graph around it.
   */
  #find(task: NodeTaskInfo, threadId: string, looked: number): Seen | undefined {
    const oldest = Math.max(this.#seen.length - (this.#count - looked), 0);
    const ns = namespaceAbove(task.nodeNs);
    for (const isOwn of [true, false]) {
      for (let at = this.#seen.length - 1; at >= oldest; at -= 1) {
        const seen = this.#seen[at] as Seen;
        if (seen.step !== task.step - 1 || (seen.threadId === threadId) !== isOwn) continue;
        if (isWithin(ns, seen.ns) && startsFrom(task, seen.checkpointId)) return seen;
      }
    }
    return undefined;
  }
}

/** Regular writes of LangGraph's null task are a Command's update. */
function isCommand(taskId: string, channel: string): boolean {
  return taskId === NULL_TASK && !Object.hasOwn(WRITES_IDX_MAP, channel);
}

/** A promise of the next checkpoint. */
class NextOne {
  comes: () => void = () => undefined;
  readonly coming = new Promise<void>((resolve) => (this.comes = resolve));
}

async function endOfMacrotask(after: Promise<void> | undefined): Promise<void> {
  await after;
  await new Promise<void>((resolve) => atEndOfMacrotask(resolve));
}
