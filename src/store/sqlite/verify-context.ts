import { chunkAddresses } from "../../codec";
import { TurnsError } from "../../errors";
import type { IntegrityProblem, ProblemKind, VerifyCounts, VerifyStep } from "../integrity";
import { THREAD_ROWS } from "../rows";
import { isBusy, sqliteCode } from "./failures";
import { firstSeq, threadOfSeq } from "../spans";
import { isLeftover } from "./leftovers";
import type { Program } from "../program";
import type { Sql } from "../session";
import { ThreadKey } from "../thread-state";
import type { RawThread } from "../ops/thread-rows";
import { SeqSet } from "./verify-seqs";
import { uptime } from "../../uptime";

export type Where = IntegrityProblem["where"];

/** A thread as the rows of the other tables are held against it. */
export type Owner = ThreadKey;

const THREAD = THREAD_ROWS.select("WHERE thread = ?");
const CHUNK = "SELECT 1 FROM langgraph_chunks WHERE thread = ? AND address = ?";

/**
 * What the checks of all tables share. Every check proves what it reports within one transaction: between two of them others save,
 * prune and rewind, and a row that is there now says nothing of what was there before.
 */
export class VerifyContext {
  readonly sql: Sql;
  /** The number of the only thread to look at. */
  readonly only: number | undefined;
  /** When the step should end. */
  until = 0;
  table = "";
  threads = 0;
  readonly #seqs = new SeqSet();
  readonly #owners = new Map<number, Owner | undefined>();
  #checked: Partial<VerifyCounts> = {};
  #problems: IntegrityProblem[] = [];
  #remarks: IntegrityProblem[] = [];

  constructor(sql: Sql, only: number | undefined) {
    this.sql = sql;
    this.only = only;
  }

  /** A new transaction begins: what was read in the last one no longer counts. */
  begin(until: number): void {
    this.until = until;
    this.#owners.clear();
  }

  get isOver(): boolean {
    return uptime() >= this.until;
  }

  /** What was found since the last call. Not reset at the beginning of a step: one that met a lock is tried again. */
  take(table: string | undefined): VerifyStep {
    const step = { table, threads: this.threads, checked: this.#checked, problems: this.#problems, remarks: this.#remarks };
    this.threads = 0;
    this.#checked = {};
    this.#problems = [];
    this.#remarks = [];
    return step;
  }

  count(name: keyof VerifyCounts): void {
    this.#checked[name] = (this.#checked[name] ?? 0) + 1;
  }

  problem(kind: ProblemKind, threadId: string | undefined, where: Where, expected: string, found: string): void {
    this.#problems.push({ kind, table: this.table, threadId, where, expected, found });
  }

  remark(kind: ProblemKind, threadId: string | undefined, where: Where, expected: string, found: string): void {
    this.#remarks.push({ kind, table: this.table, threadId, where, expected, found });
  }

  /** Does what may throw for damaged contents. @returns undefined, and the problem on record, if it did */
  attempt<T>(threadId: string | undefined, where: Where, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.failed(error, threadId, where);
      return undefined;
    }
  }

  /** {@link attempt} for what asks the database. */
  *attempted<T>(threadId: string | undefined, where: Where, work: Program<T>): Program<T | undefined> {
    try {
      return yield* work;
    } catch (error) {
      this.failed(error, threadId, where);
      return undefined;
    }
  }

  /** @throws what says nothing about the row */
  failed(error: unknown, threadId: string | undefined, where: Where): void {
    if (isBusy(error) || TurnsError.is(error, "STORE_BUSY") || TurnsError.is(error, "STORE_CLOSED")) throw error;
    const code = sqliteCode(error);
    if (code !== "") return this.problem("unreadable", threadId, where, "rows that SQLite can read", code);
    if (!TurnsError.is(error)) {
      // A parser's own message may quote what it could not parse.
      const name = error instanceof Error ? error.name : "Error";
      return this.problem(
        "format",
        threadId,
        where,
        "contents in the format they are written in",
        `contents that do not parse (${name})`,
      );
    }
    const isSealing = ["ENCRYPTED", "NOT_ENCRYPTED", "UNKNOWN_KEY", "WRONG_KEY"].includes(error.code);
    const kind = isSealing ? "sealing" : error.code === "CHECKPOINT_CORRUPTED" ? "checksum" : "format";
    this.problem(kind, threadId, where, "the row as it was saved", error.message);
  }

  *owner(thread: number): Program<Owner | undefined> {
    if (this.#owners.has(thread)) return this.#owners.get(thread);
    const row = yield* this.sql.get<RawThread>(THREAD, thread);
    const owner = row && new ThreadKey(this.sql.changed, THREAD_ROWS.unverified(undefined, row));
    this.#owners.set(thread, owner);
    return owner;
  }

  /** The thread a row belongs to, with the row's number held against the thread's. */
  *entered(row: { thread: number; seq?: number }, where: Where): Program<Owner | undefined> {
    const owner = yield* this.owner(row.thread);
    if (owner === undefined && !(yield* isLeftover(this.sql, row.thread)))
      this.problem("thread", undefined, where, "a row of a thread", `thread number ${row.thread}, which there is not`);
    if (row.seq !== undefined) yield* this.numbered(row.thread, row.seq, owner, where);
    return owner;
  }

  /** S3.1: a row's number is in the range of its thread, isn't above the last one that the thread has taken, and is used once. */
  *numbered(thread: number, seq: number, owner: Owner | undefined, where: Where): Program<void> {
    const threadId = owner?.threadId;
    const wrong = (expected: string, found: string): void => this.problem("sequence", threadId, where, expected, found);
    if (threadOfSeq(seq) !== thread || seq === firstSeq(thread)) return wrong(`a seq of thread number ${thread}`, String(seq));
    if (owner !== undefined && seq > owner.newestSeq) wrong(`a seq up to the thread's last, ${owner.newestSeq}`, String(seq));
    if (this.#seqs.add(seq)) return;
    const others = yield* this.#seqs.others(this.sql, seq, this.table);
    if (others !== undefined) wrong("a seq that is used once", `${seq}, which ${others} has too`);
  }

  *hasChunk(thread: number, address: string): Program<boolean> {
    return (yield* this.sql.get(CHUNK, thread, address)) !== undefined;
  }

  /** The parts of values that a text refers to must be there. @param elsewhere where else they may be */
  *refersTo(owner: Owner, where: Where, text: string, elsewhere?: (address: string) => Program<boolean>): Program<void> {
    for (const address of this.attempt(owner.threadId, where, () => chunkAddresses(text)) ?? []) {
      yield* this.refersToChunk(owner, where, address, elsewhere);
    }
  }

  *refersToChunk(owner: Owner, where: Where, address: string, elsewhere?: (address: string) => Program<boolean>): Program<void> {
    if (yield* this.hasChunk(owner.thread, address)) return;
    if (elsewhere !== undefined && (yield* elsewhere(address))) return;
    this.problem("reference", owner.threadId, where, `a chunk with address ${address.slice(0, 12)}…`, "none");
  }
}

export function isTime(text: string): boolean {
  return !Number.isNaN(Date.parse(text));
}
