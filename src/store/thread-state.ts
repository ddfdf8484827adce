import { TurnsError } from "../errors";
import { firstSeq, SPAN } from "./spans";
import type { CheckpointHead, TaskRow, TurnRow } from "./store";
import type { RowOf, Table, THREADS, TOMBSTONES } from "./tables";

/** So many of each are known of a thread, the ones used last. */
const HEADS = 24;
const NODE_TASKS = 512;
const CHUNKS = 2_048;
const LISTS = 512;

/** What a tombstone says. */
export type Deletion = RowOf<typeof TOMBSTONES>;

/** A checkpoint that this connection has saved or read: what saves go on from. */
export interface KnownHead {
  ns: string;
  checkpointId: string;
  position: number;
  parentId: string | undefined;
  step: number;
  channels: CheckpointHead["channels"];
  /** What has pending writes on it, as {@link writesKey} tells; undefined if not all of it is known. */
  writes: Set<string> | undefined;
  /** The node tasks started from it that have turns, but for {@link ThreadFacts.hasStrayTurns}; undefined if not all of them are known. */
  turns: Set<string> | undefined;
  /** Whether it was saved since these facts were begun. */
  isSaved: boolean;
}

/**
 * What a connection knows of a thread, so that it need not be read again. It is true as long as nobody else writes to the database, and no
 * transaction fails; then all of it is forgotten. Every program that changes one of these things in the database changes it here.
 */
export class ThreadFacts {
  /** The deletion that the id remembers; null for none. */
  deletion: Deletion | null | undefined;
  /** The open task, and the newest one in which something ran. */
  tasks: { current: TaskRow | undefined; lastRun: TaskRow | undefined } | undefined;
  /** Whether all effects of the thread have been verified. */
  isJournalVerified = false;
  readonly heads = new Recent<string, KnownHead>(HEADS);
  /** The turns of node tasks that have not ended yet, oldest first. */
  readonly turns = new Recent<string, readonly TurnRow[]>(NODE_TASKS);
  /** Whether there are turns of which nobody knows the checkpoint that they started from: with durability "exit" they come before it. */
  hasStrayTurns = false;
  /** The seqs of chunks by address. */
  readonly chunks = new Recent<string, number>(CHUNKS);
  /** The chunk that was stored last was new, so the next one probably is: it is inserted without a look whether it is there. */
  wasChunkNew = false;
  /** By namespace the greatest id that any checkpoint of it has, or had, saved or with writes alone; null for none. */
  readonly greatestIds = new Recent<string, string | null>(HEADS);
  /** The lengths of lists. */
  readonly lists = new Recent<number, number>(LISTS);
  /** The seqs of graphs by digest. */
  readonly graphs = new Map<string, number>();
}

/** The newest entries of a map. */
export class Recent<K, V> {
  readonly #limit: number;
  readonly #entries = new Map<K, V>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  /** Newest last. */
  values(): Iterable<V> {
    return this.#entries.values();
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#limit) return;
    const [oldest] = this.#entries.keys();
    this.#entries.delete(oldest as K);
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }
}

export function headKey(ns: string, checkpointId: string): string {
  return `${ns}\0${checkpointId}`;
}

/** Of writes to the same one the later replace the earlier. */
export function writesKey(nodeTaskId: string, idx: number): string {
  return `${idx} ${nodeTaskId}`;
}

/** The row of a thread. `seq` is the last number that was taken. */
export type ThreadFields = RowOf<typeof THREADS>;
/** How many rows there are of the thread. */
export type ThreadCounts = Pick<ThreadFields, NonNullable<Table["counted"]>>;
export type ThreadChange = Partial<Pick<ThreadFields, "epoch" | "generation" | "prunedSeq" | "unswept">>;

/**
 * A thread as the rows of other tables know it, with its own row. Every commit on a thread takes numbers of it and says how many rows it
 * adds or removes; at the end of the transaction the row is written once.
 */
export class ThreadState {
  readonly threadId: string;
  readonly thread: number;
  facts = new ThreadFacts();
  readonly #first: number;
  readonly #transaction: Pick<Set<ThreadState>, "add">;
  readonly #row: ThreadFields;
  /** Turns that are written at the end of the transaction: one that ends in it as well is written once. */
  #turns: TurnRow[] = [];
  #isChanged = false;

  /** @param changed is told of it when it first changes in a transaction */
  constructor(changed: Pick<Set<ThreadState>, "add">, row: ThreadFields) {
    this.#transaction = changed;
    this.#row = row;
    this.threadId = row.threadId;
    this.thread = row.thread;
    this.#first = firstSeq(row.thread);
  }

  get row(): Readonly<ThreadFields> {
    return this.#row;
  }

  /** Another one as soon as rows of the thread have been deleted or brought back. */
  get generation(): string {
    return `${this.thread}.${this.#row.generation}`;
  }

  /** The newest seq of the thread. */
  get newestSeq(): number {
    return this.#first + this.#row.seq;
  }

  /** Takes the next seq of the thread. @throws {TurnsError} THREAD_FULL */
  nextSeq(): number {
    if (this.#row.seq + 1 >= SPAN) throw full(this.threadId);
    this.#row.seq += 1;
    this.#isChanged = true;
    this.#transaction.add(this);
    return this.newestSeq;
  }

  /** Equal ones mean that nothing was committed on the thread in between. */
  get stamp(): string {
    return `${this.thread} ${this.#row.seq} ${this.#row.generation}`;
  }

  /** So many rows of a kind are added, or removed. */
  count(kind: keyof ThreadCounts, rows = 1): void {
    if (rows === 0) return;
    this.touch();
    this.#row[kind] += rows;
  }

  change(change: ThreadChange | ThreadCounts): void {
    this.touch();
    Object.assign(this.#row, change);
  }

  /** Something of the thread changes. Also a commit without a new row takes a number: it tells others that somebody was here. */
  touch(): void {
    if (!this.#isChanged) this.nextSeq();
  }

  addTurn(turn: TurnRow): void {
    this.#turns.push(turn);
  }

  /** Has a turn written as it is now. @returns whether it was still to be written */
  replaceTurn(turn: TurnRow): boolean {
    const index = this.#turns.findIndex(({ id }) => id === turn.id);
    if (index >= 0) this.#turns[index] = turn;
    return index >= 0;
  }

  /** A part of the transaction was rolled back. */
  restore(row: ThreadFields): void {
    Object.assign(this.#row, row);
    this.#turns = [];
    this.facts = new ThreadFacts();
  }

  /** The turns that were left for the end of the transaction; whoever takes them writes them. */
  takeTurns(): readonly TurnRow[] {
    const turns = this.#turns;
    this.#turns = [];
    return turns;
  }

  /** The row is written. */
  written(): void {
    this.#isChanged = false;
  }
}

function full(threadId: string): TurnsError {
  return new TurnsError("THREAD_FULL", {
    problem: `Thread ${JSON.stringify(threadId)} has used all ${SPAN} numbers that a thread has, so nothing more can be saved on it.`,
    remedy:
      "Start a new thread with its state: graph.updateState({ configurable: { thread_id: newId } }, state.values, lastNode), where state " +
      "is what graph.getState gives of this thread. Everything on this one can still be read. A copy would be full too.",
    data: { threadId },
  });
}
