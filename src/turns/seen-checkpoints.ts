import { namespaceAbove } from "../store/namespaces";
import { type NodeTaskInfo, startsFrom } from "./node-task";

/** Taken at load, so that a user's fake timers can't stop a run. */
const atEndOfMacrotask = setImmediate;
/** So many checkpoints are kept in mind; a node starts from one of the last few. */
const LIMIT = 256;
/** For so many macrotasks, in which nothing is on its way to the disk, a node waits for its checkpoint. */
const IDLE_TURNS = 2;

interface Seen {
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
  #next = new NextOne();

  add({ ns, checkpointId, step }: Seen): void {
    this.#seen.push({ ns, checkpointId, step });
    if (this.#seen.length >= 2 * LIMIT) this.#seen = this.#seen.slice(-LIMIT);
    const told = this.#next;
    this.#next = new NextOne();
    told.comes();
  }

  has(ns: string, checkpointId: string): boolean {
    return this.#seen.findLast((seen) => seen.checkpointId === checkpointId && seen.ns === ns) !== undefined;
  }

  /**
   * Resolves when the checkpoint that a node task starts from is there, or won't come: with durability "exit" none is saved before the
   * run ends. It resolves in the macrotask that hands the checkpoint in, so that the Thought is committed with it.
   *
   * @param saving resolves when nothing of the thread is on its way to the disk; undefined if nothing is
   */
  async startOf(task: NodeTaskInfo, saving: () => Promise<void> | undefined): Promise<void> {
    for (let idle = 0; idle < IDLE_TURNS && !this.#hasStartOf(task);) {
      const onTheWay = saving();
      if (onTheWay === undefined) idle += 1;
      await Promise.race([this.#next.coming, endOfMacrotask(onTheWay)]);
    }
  }

  #hasStartOf(task: NodeTaskInfo): boolean {
    for (let ns = namespaceAbove(task.nodeNs); ; ns = namespaceAbove(ns)) {
      const isStart = (seen: Seen): boolean =>
        seen.ns === ns && seen.step === task.step - 1 && startsFrom(task, seen.checkpointId);
      if (this.#seen.findLast(isStart) !== undefined) return true;
      if (ns === "") return false;
    }
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
