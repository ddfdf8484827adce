import { TurnsError } from "../errors";
import { threadMoved } from "./refusals";
import { firstSeq, SPAN } from "./spans";
import type { EffectRow } from "./effects";
import type { CheckpointHead, TaskRow, TurnRow } from "./store";
import type { RowOf, Table, THREADS, TOMBSTONES } from "./tables";

/** How many of each are remembered per thread; the last used ones stay. */
const HEADS = 24;
const NODE_TASKS = 512;
const CHUNKS = 2_048;
const LISTS = 512;
const INTENTS = 64;

/** Stands for the seq of a row that is stored. */
export const STORED = 0;

/** What a tombstone says. */
export type Deletion = RowOf<typeof TOMBSTONES>;

/** A checkpoint that this connection has saved or read, so that saves can continue from it. */
export interface KnownHead {
  ns: string;
  checkpointId: string;
  position: number;
  parentId: string | undefined;
  step: number;
  channels: CheckpointHead["channels"];
  /** Its pending writes, as {@link writesKey} names them; undefined if not all are known. */
  writes: Set<string> | undefined;
  /**
   * The node tasks with turns that started from it, except for {@link ThreadFacts.hasStrayTurns}; undefined if not all are known.
   */
  turns: Set<string> | undefined;
  /** Whether it was saved while these facts were kept. */
  isSaved: boolean;
}

/**
 * What a connection knows of a thread, so that it need not be read again. The facts hold as long as nobody else writes to the
 * database and no transaction fails; then all are forgotten. Every program that changes one of these things in the database also
 * changes it here.
 */
export class ThreadFacts {
  /** The tombstone under the thread's id; null if there is none. */
  deletion: Deletion | null | undefined;
  /** The open task, and the newest one in which something ran. */
  tasks: { current: TaskRow | undefined; lastRun: TaskRow | undefined } | undefined;
  /** Whether all effects of the thread have been verified. */
  isJournalVerified = false;
  /**
   * Effects that this connection has started, or whose undo it has, by id, with the checksums of their rows. A user's transaction may have recorded the
   * outcome since, and doesn't show that in the thread's row: the effect's own row must be guarded too.
   */
  readonly intents = new Recent<string, { row: EffectRow; checksum: string }>(INTENTS);
  readonly heads = new Recent<string, KnownHead>(HEADS);
  /** The turns of node tasks that haven't finished yet, oldest first. */
  readonly turns = new Recent<string, readonly TurnRow[]>(NODE_TASKS);
  /** Whether there are turns whose starting checkpoint nobody knows. With durability "exit" they come before it. */
  hasStrayTurns = false;
  /** The seqs of chunks by address; {@link STORED} if only that is known. */
  readonly chunks = new Recent<string, number>(CHUNKS);
  /** The last stored chunk was new, so the next one probably is too: it is inserted without looking for it first. */
  wasChunkNew = false;
  /** The greatest checkpoint id per namespace, of checkpoints that are or were saved or only had writes; null for none. */
  readonly greatestIds = new Recent<string, string | null>(HEADS);
  /** The lengths of lists. */
  readonly lists = new Recent<number, number>(LISTS);
  /** The seqs of graphs by digest. */
  readonly graphs = new Map<string, number>();
  /** Whether the thread has no other graphs. */
  areGraphsKnown = false;
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

/** Of writes with the same key, the later replaces the earlier. */
export function writesKey(nodeTaskId: string, idx: number): string {
  return `${idx} ${nodeTaskId}`;
}

/** The row of a thread. `seq` is the last number that was taken. */
export type ThreadFields = RowOf<typeof THREADS>;
export type ThreadCounts = Pick<ThreadFields, NonNullable<Table["counted"]>>;
type ThreadChange = Partial<Pick<ThreadFields, "epoch" | "generation" | "prunedSeq" | "unswept">>;

/**
 * A thread with its own row, as the rows of other tables know it. Every commit takes numbers from it and counts the rows that it
 * adds or removes. The row is written once, at the end of the transaction.
 */
export class ThreadState {
  readonly threadId: string;
  readonly thread: number;
  facts = new ThreadFacts();
  readonly #first: number;
  readonly #transaction: Pick<Set<ThreadState>, "add">;
  readonly #row: ThreadFields;
  readonly #provisional: number;
  /** Turns that are written at the end of the transaction. A turn that also finishes in it is written once. */
  #turns: TurnRow[] = [];
  #isChanged = false;

  /**
   * @param changed gets the thread when it first changes in a transaction
   * @param provisional of the engine, when the row was read
   */
  constructor(changed: Pick<Set<ThreadState>, "add">, row: ThreadFields, provisional = 0) {
    this.#transaction = changed;
    this.#provisional = provisional;
    this.#row = row;
    this.threadId = row.threadId;
    this.thread = row.thread;
    this.#first = firstSeq(row.thread);
  }

  get row(): Readonly<ThreadFields> {
    return this.#row;
  }

  /** Changes as soon as rows of the thread are deleted or restored, or may have been by a rollback of the user's. */
  get generation(): string {
    return `${this.thread}.${this.#row.generation}.${this.#provisional}`;
  }

  get newestSeq(): number {
    return this.#first + this.#row.seq;
  }

  /** Takes the next seq of the thread. @throws {TurnsError} THREAD_FULL; THREAD_MOVED while it moves to another database */
  nextSeq(): number {
    if (this.#row.movedTo !== undefined) throw threadMoved(this.#row);
    if (this.#row.seq + 1 >= SPAN) throw full(this.threadId);
    this.#row.seq += 1;
    this.#isChanged = true;
    this.#transaction.add(this);
    return this.newestSeq;
  }

  /** Equal stamps mean that nothing was committed on the thread in between. */
  get stamp(): string {
    return `${this.thread} ${this.#row.seq} ${this.#row.generation}`;
  }

  /** Counts rows of a kind that are added, or removed if negative. */
  count(kind: keyof ThreadCounts, rows = 1): void {
    if (rows === 0) return;
    this.touch();
    this.#row[kind] += rows;
  }

  change(change: ThreadChange | ThreadCounts): void {
    this.touch();
    Object.assign(this.#row, change);
  }

  /** Something of the thread changes. A commit without a new row takes a number too, so that others notice it. */
  touch(): void {
    if (!this.#isChanged) this.nextSeq();
  }

  /** From here on, nothing can be saved on the thread; with undefined, it can again. */
  moves(movedTo: string | undefined): void {
    if (movedTo === undefined) this.#row.movedTo = movedTo;
    this.touch();
    this.#row.movedTo = movedTo;
  }

  addTurn(turn: TurnRow): void {
    this.#turns.push(turn);
  }

  /** Remembers a turn that is new or has changed. Turns of finished node tasks aren't remembered. */
  rememberTurn(turn: TurnRow): void {
    const { nodeTaskId, id } = turn;
    const known = nodeTaskId === undefined ? undefined : this.facts.turns.get(nodeTaskId);
    if (nodeTaskId === undefined || known === undefined) return;
    if (turn.turnType === "Action" && turn.durable) this.facts.turns.delete(nodeTaskId);
    else this.facts.turns.set(nodeTaskId, [...known.filter((other) => other.id !== id), turn].toSorted(bySeq));
  }

  /**
   * Replaces a turn that is still to be written.
   * @returns whether it was still to be written
   */
  replaceTurn(turn: TurnRow): boolean {
    const index = this.#turns.findIndex(({ id }) => id === turn.id);
    if (index >= 0) this.#turns[index] = turn;
    return index >= 0;
  }

  /** Restores the row after a part of the transaction was rolled back. */
  restore(row: ThreadFields): void {
    Object.assign(this.#row, row);
    this.#turns = [];
    this.facts = new ThreadFacts();
  }

  /** Takes the turns that were left for the end of the transaction. The caller must write them. */
  takeTurns(): readonly TurnRow[] {
    const turns = this.#turns;
    this.#turns = [];
    return turns;
  }

  written(): void {
    this.#isChanged = false;
  }
}

function bySeq(left: TurnRow, right: TurnRow): number {
  return (left.seq ?? 0) - (right.seq ?? 0);
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
