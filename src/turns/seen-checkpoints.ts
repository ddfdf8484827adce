import { isWithin, namespaceAbove } from "../store/namespaces";
import { type NodeTaskInfo, startsFrom } from "./node-task";

/** Taken at load, so that a user's fake timers can't stop a run. */
const atEndOfMacrotask = setImmediate;
/** So many checkpoints are kept in mind; a node starts from one of the last few. */
const LIMIT = 256;
/** For so many macrotasks, in which nothing is on its way to the disk, a node waits for its checkpoint. */
const IDLE_TURNS = 2;

interface Seen {
  threadId: string;
  ns: string;
  checkpointId: string;
  step: number;
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

  add({ threadId, ns, checkpointId, step }: Seen): void {
    this.#seen.push({ threadId, ns, checkpointId, step });
    this.#count += 1;
    if (this.#seen.length >= 2 * LIMIT) this.#seen = this.#seen.slice(-LIMIT);
    const told = this.#next;
    this.#next = new NextOne();
    told.comes();
  }

  /**
   * Waits until the checkpoint that a node task starts from is there, or won't come: with durability "exit" none is saved before the run
   * ends. The wait is over in the macrotask that hands the checkpoint in, so that the Thought is committed with it.
   *
   * @param threadId of the node task, as far as its callbacks tell
   * @param saving resolves when nothing of the thread is on its way to the disk; undefined if nothing is
   * @returns undefined if the checkpoint is there
   */
  startOf(task: NodeTaskInfo, threadId: string, saving: () => Promise<void> | undefined): Promise<void> | undefined {
    return this.#has(task, threadId, 0) ? undefined : this.#comingOf(task, threadId, saving);
  }

  async #comingOf(task: NodeTaskInfo, threadId: string, saving: () => Promise<void> | undefined): Promise<void> {
    for (let idle = 0; idle < IDLE_TURNS;) {
      const looked = this.#count;
      const onTheWay = saving();
      if (onTheWay === undefined) idle += 1;
      await Promise.race([this.#next.coming, endOfMacrotask(onTheWay)]);
      if (this.#has(task, threadId, looked)) return;
    }
  }

  /**
   * Whether the start of a task is among those that were added after the first `looked`. Those of its own thread come first: to compare
   * an id takes a hash. A graph that a node calls on another thread carries the thread of the graph around it.
   */
  #has(task: NodeTaskInfo, threadId: string, looked: number): boolean {
    const oldest = Math.max(this.#seen.length - (this.#count - looked), 0);
    const ns = namespaceAbove(task.nodeNs);
    for (const isOwn of [true, false]) {
      for (let at = this.#seen.length - 1; at >= oldest; at -= 1) {
        const seen = this.#seen[at] as Seen;
        if (seen.step !== task.step - 1 || (seen.threadId === threadId) !== isOwn) continue;
        if (isWithin(ns, seen.ns) && startsFrom(task, seen.checkpointId)) return true;
      }
    }
    return false;
  }
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
