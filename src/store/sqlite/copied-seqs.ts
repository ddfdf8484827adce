import { corrupted } from "../checksum";
import { FROM_START, type Pauses, pagedRows } from "./copy-rows";
import type { Sql } from "./sql";
import type { ThreadKey } from "./thread-keys";

const ROWS_PER_PAGE = 1_000;
const bySeq = (table: string, columns: string): string =>
  `SELECT ${columns} FROM ${table} WHERE thread = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3`;
/** Where a thread's rows have a seq, or name one. */
const OF_THREAD = [
  bySeq("langgraph_snapshots", "seq, superseded_by, position"),
  bySeq("langgraph_writes", "seq, superseded_by"),
  bySeq("langgraph_lists", "seq, base"),
  bySeq("langgraph_checkpoints", "seq, graph"),
  bySeq("langgraph_tasks", "seq"),
  bySeq("langgraph_graphs", "seq"),
  bySeq("langgraph_effects", "seq"),
] as const;
/** By address, since no index has a thread's chunks in the order of their seqs. */
const CHUNKS = "SELECT address, seq FROM langgraph_chunks WHERE thread = ?1 AND address > ?2 ORDER BY address LIMIT ?3";
/** `at` is a position and no seq. */
const ITEMS = "SELECT pos AS at, seq, chunk FROM langgraph_items WHERE list = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3";
const LISTS = "SELECT seq FROM langgraph_lists WHERE thread = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
const PRUNED = "SELECT pruned_seq FROM langgraph_threads WHERE thread = ?1";

type Numbers = Record<string, number | string | null>;

/**
 * The seqs of a thread's copy: new ones in the old order, one for each that the source uses. Not a shift of the old ones: a thread that
 * is worked on lies between all others, and with each copy the sequence would grow by its whole length, that is double.
 */
export class CopiedSeqs {
  /** Ascending. */
  readonly #old: Float64Array;
  readonly #source: ThreadKey;
  #first: number | undefined;

  private constructor(source: ThreadKey, old: Float64Array) {
    this.#source = source;
    this.#old = old;
  }

  /** Reads every seq that a row of the thread has, or names. */
  static *read(from: Sql, source: ThreadKey): Pauses<CopiedSeqs> {
    const old = new Set<number>();
    for (const row of from.now(from.all<Numbers>(PRUNED, source.thread))) add(old, row);
    for (const select of OF_THREAD) yield* collect(old, pages(from, select, source.thread, "seq"));
    yield* collect(old, pages(from, CHUNKS, source.thread, "address", ""));
    for (const { seq } of pages(from, LISTS, source.thread, "seq")) {
      yield* collect(old, pages(from, ITEMS, seq as number, "at"));
      yield;
    }
    return new CopiedSeqs(source, Float64Array.from(old).sort());
  }

  /** How many numbers the copy needs. */
  get count(): number {
    return this.#old.length;
  }

  /** @param last of as many numbers as {@link count} says, which are the copy's alone */
  place(last: number): void {
    this.#first = last - this.count + 1;
  }

  /** @throws {TurnsError} CHECKPOINT_CORRUPTED for one that the thread does not have */
  of(seq: number): number {
    if (this.#first === undefined) throw new Error("the copy has no numbers yet");
    const index = this.#indexOf(seq);
    if (this.#old[index] === seq) return this.#first + index;
    const { threadId } = this.#source;
    throw corrupted(`thread ${threadId}`, "references to rows of its own", `one to row ${seq}`, { threadId });
  }

  #indexOf(seq: number): number {
    let low = 0;
    let high = this.#old.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#old[middle] as number) < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function pages(from: Sql, select: string, owner: number, key: string, last: number | string = FROM_START): Iterable<Numbers> {
  return pagedRows<Numbers>(from, select, owner, (row) => row[key] as number | string, last, ROWS_PER_PAGE);
}

function* collect(old: Set<number>, rows: Iterable<Numbers>): Pauses<void> {
  let read = 0;
  for (const row of rows) {
    add(old, row);
    read += 1;
    if (read % ROWS_PER_PAGE === 0) yield;
  }
}

function add(old: Set<number>, row: Numbers): void {
  for (const [column, value] of Object.entries(row)) if (typeof value === "number" && column !== "at") old.add(value);
}
