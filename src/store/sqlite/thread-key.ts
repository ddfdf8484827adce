import { TurnsError } from "../../errors";
import type { Program } from "../program";
import { firstSeq, SPAN } from "../spans";
import type { TurnRow } from "../store";
import type { RowOf, Table, THREADS } from "../tables";
import { ThreadFacts } from "./thread-facts";

/** The row of a thread. `seq` is the last number that was taken. */
export type ThreadFields = RowOf<typeof THREADS>;
/** How many rows there are of the thread. */
export type ThreadCounts = Pick<ThreadFields, NonNullable<Table["counted"]>>;
export type ThreadChange = Partial<Pick<ThreadFields, "epoch" | "generation" | "prunedSeq" | "unswept">>;

/** A thread's row, as a transaction has written it. */
export interface WrittenThread {
  thread: number;
  checksum: string;
}

/** Writes what a thread's key has left for the end of a transaction. */
export interface ThreadWriter {
  /** Something of the thread changes in the transaction that runs. */
  changes(key: ThreadKey): void;
  turn(thread: number, turn: TurnRow): Program;
  row(row: Readonly<ThreadFields>): Program<WrittenThread>;
}

/** What one program left for the end of the transaction could not be written, whichever program runs just now. */
export class LeftUnwritten extends Error {
  constructor(override readonly cause: unknown) {
    super("a turn could not be written", { cause });
  }
}

/**
 * A thread as the rows of other tables know it, with its own row. Every commit on a thread takes numbers of it and says how many rows it
 * adds or removes; at the end of the transaction the row is written once.
 */
export class ThreadKey {
  readonly threadId: string;
  readonly thread: number;
  facts = new ThreadFacts();
  readonly #writer: ThreadWriter;
  readonly #row: ThreadFields;
  /** Turns that are written at the end of the transaction: one that ends in it as well is written once. */
  #turns: TurnRow[] = [];
  #isChanged = false;

  constructor(writer: ThreadWriter, row: ThreadFields) {
    this.#writer = writer;
    this.#row = row;
    this.threadId = row.threadId;
    this.thread = row.thread;
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
    return firstSeq(this.thread) + this.#row.seq;
  }

  /** Takes the next seq of the thread. @throws {TurnsError} THREAD_FULL */
  nextSeq(): number {
    if (this.#row.seq + 1 >= SPAN) throw full(this.threadId);
    this.#row.seq += 1;
    this.#isChanged = true;
    this.#writer.changes(this);
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

  /** Writes the turns that were left for the end of the transaction. */
  *flush(): Program {
    const turns = this.#turns;
    this.#turns = [];
    try {
      for (const turn of turns) yield* this.#writer.turn(this.thread, turn);
    } catch (error) {
      throw new LeftUnwritten(error);
    }
  }

  /** Writes the thread's own row. */
  *write(): Program<WrittenThread> {
    this.#isChanged = false;
    return yield* this.#writer.row(this.#row);
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
