import type { Engine } from "../engine";
import { chunkAddresses } from "../../codec";
import { TurnsError } from "../../errors";
import { uptime } from "../../system";
import type { IntegrityProblem, ProblemKind, VerifyCounts, VerifyStep } from "../integrity";
import type { Program } from "../program";
import { THREAD_ROWS } from "../rows";
import type { Session } from "../session";
import { firstSeq, threadOfSeq } from "../spans";
import { isLeftover } from "./leftovers";
import { KEYED_BY_SEQ, type Table } from "../tables";
import { ThreadState } from "../thread-state";
import { isBehind } from "./paging";
import { type References, rowsNamed } from "./row-references";
import { countedRows, countsOf } from "./row-counts";
import type { RawThread } from "./thread-rows";

export type Where = IntegrityProblem["where"];
/** A thread that rows of other tables are checked against, damaged or not. */
export type Owner = ThreadState;

const THREAD = THREAD_ROWS.select("WHERE thread = ?");
const NUMBER = "SELECT thread FROM langgraph_threads WHERE thread_id = ?";
const CHUNK = "SELECT 1 FROM langgraph_chunks WHERE thread = ? AND address = ?";

/**
 * State shared by the checks of all tables. Every check proves what it reports within one transaction. Between two transactions
 * others save, prune and rewind, so a row that exists now proves nothing about earlier.
 */
export class VerifyContext {
  until = 0;
  table = "";
  threads = 0;
  readonly #seqs = new SeqSet();
  readonly #owners = new Map<number, Owner | undefined>();
  readonly #lacking = new Map<number, boolean>();
  #checked: Partial<VerifyCounts> = {};
  #problems: IntegrityProblem[] = [];
  #remarks: IntegrityProblem[] = [];
  #kept = { threads: 0, problems: 0, remarks: 0 };
  #isBroken = false;

  constructor(public session: Session) {}

  /** A new transaction begins: what was read in the last one is no longer valid. */
  begin(session: Session, until: number): void {
    this.session = session;
    this.until = until;
    this.#isBroken = false;
    this.#owners.clear();
    this.#lacking.clear();
  }

  get isOver(): boolean {
    return this.#isBroken || uptime() >= this.until;
  }

  /**
   * The database couldn't run a statement. One on the network refuses everything that follows in the transaction, so the step is over.
   * @returns whether the error says something; false for those that only follow from the first one
   */
  broken(): boolean {
    if (this.session.engine.sendsTogether !== true) return true;
    const isFirst = !this.#isBroken;
    this.#isBroken = true;
    return isFirst;
  }

  /** What is on record so far was checked completely. */
  keep(): void {
    this.#kept = { threads: this.threads, problems: this.#problems.length, remarks: this.#remarks.length };
    this.#seqs.keep();
  }

  /** Forgets what came on record since {@link keep}: it will be checked again from there. */
  cutBack(): void {
    this.threads = this.#kept.threads;
    this.#problems.length = this.#kept.problems;
    this.#remarks.length = this.#kept.remarks;
    this.#seqs.cutBack();
  }

  /** What was found since the last call. Not reset at the beginning of a step, because a step that met a lock is tried again. */
  take(table: string | undefined): VerifyStep {
    const step = { table, threads: this.threads, checked: this.#checked, problems: this.#problems, remarks: this.#remarks };
    this.threads = 0;
    this.#checked = {};
    this.#problems = [];
    this.#remarks = [];
    this.keep();
    return step;
  }

  count(name: keyof VerifyCounts): void {
    this.#checked[name] = (this.#checked[name] ?? 0) + 1;
  }

  /** Reports about one row, or about a table as a whole. */
  at(threadId?: string, where: Where = {}): Place {
    const { table } = this;
    return new Place(this, threadId, (isRemark, kind, expected, found) => {
      (isRemark ? this.#remarks : this.#problems).push({ kind, table, threadId, where, expected, found });
    });
  }

  *owner(thread: number): Program<Owner | undefined> {
    if (this.#owners.has(thread)) return this.#owners.get(thread);
    const row = yield* this.session.get<RawThread>(THREAD, thread);
    const owner = row && new ThreadState(this.session.changed, THREAD_ROWS.unverified(undefined, row));
    this.#owners.set(thread, owner);
    return owner;
  }

  *ownerOf(threadId: string): Program<Owner | undefined> {
    const row = yield* this.session.get<{ thread: number }>(NUMBER, threadId);
    return row && (yield* this.owner(row.thread));
  }

  /** Whether the thread has fewer checkpoints than recorded, so that one was lost. Counted once per transaction. */
  *lacksCheckpoints(owner: Owner): Program<boolean> {
    const known = this.#lacking.get(owner.thread);
    if (known !== undefined) return known;
    const recorded = yield* countsOf(this.session, owner);
    const there = yield* countedRows(this.session, owner);
    const lacks = (there?.snapshots ?? 0) < (recorded?.snapshots ?? 0);
    this.#lacking.set(owner.thread, lacks);
    return lacks;
  }

  /** The thread that a row belongs to. Also checks the row's number against the thread's. */
  *entered(thread: number, seq: unknown, where: Where): Program<Owner | undefined> {
    const owner = yield* this.owner(thread);
    if (owner === undefined && !(yield* isLeftover(this.session, thread)))
      this.at(undefined, where).problem("thread", "a row of a thread", `thread number ${thread}, which there is not`);
    if (typeof seq === "number") yield* this.numbered(thread, seq, owner, this.at(owner?.threadId, where));
    return owner;
  }

  /** S3.1: a row's number is in the range of its thread, isn't above the last one that the thread has taken, and is used once. */
  *numbered(thread: number, seq: number, owner: Owner | undefined, at: Place): Program {
    if (threadOfSeq(seq) !== thread || seq === firstSeq(thread))
      return at.problem("sequence", `a seq of thread number ${thread}`, String(seq));
    if (owner !== undefined && seq > owner.newestSeq)
      at.problem("sequence", `a seq up to the thread's last, ${owner.newestSeq}`, String(seq));
    if (this.#seqs.add(seq)) return;
    const others = yield* this.#seqs.others(this.session, seq, this.table);
    if (others !== undefined) at.problem("sequence", "a seq that is used once", `${seq}, which ${others} has too`);
  }

  /**
   * Checks that the parts of values that a row refers to exist.
   * @param elsewhere where else they may be
   */
  *refersTo(
    { thread }: Owner,
    at: Place,
    { texts, pointers }: References,
    elsewhere?: (address: string) => Program<boolean>,
  ): Program {
    const inTexts = texts.flatMap((text) => at.attempt(() => chunkAddresses(text)) ?? []);
    const addresses = pointers.flatMap((pointer) => (pointer.kind === "whole" ? [pointer.address] : []));
    const all = [...inTexts, ...addresses];
    const found = yield* this.session.together(
      all.map((address) => ({ text: CHUNK, values: [thread, address], returns: "one" as const })),
    );
    for (const [index, address] of all.entries()) {
      if (found[index] !== undefined) continue;
      if (elsewhere !== undefined && (yield* elsewhere(address))) continue;
      at.problem("reference", `a chunk with address ${address.slice(0, 12)}…`, "none");
    }
  }
}

export class Place {
  constructor(
    private readonly ctx: VerifyContext,
    readonly threadId: string | undefined,
    private readonly tell: (isRemark: boolean, kind: ProblemKind, expected: string, found: string) => void,
  ) {}

  problem(kind: ProblemKind, expected: string, found: string): void {
    this.tell(false, kind, expected, found);
  }

  remark(kind: ProblemKind, expected: string, found: string): void {
    this.tell(true, kind, expected, found);
  }

  /**
   * Runs work that may throw for damaged contents.
   * @returns undefined if it threw; the problem is then on record
   */
  attempt<T>(work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.failed(error);
      return undefined;
    }
  }

  /** {@link attempt} for work that queries the database. */
  *attempted<T>(work: Program<T>): Program<T | undefined> {
    try {
      return yield* work;
    } catch (error) {
      this.failed(error);
      return undefined;
    }
  }

  /** @throws errors that say nothing about the row */
  failed(error: unknown): void {
    const { engine } = this.ctx.session;
    if (saysNothing(engine, error)) throw error;
    const code = engine.codeOf(error);
    if (code !== "") {
      if (this.ctx.broken()) this.problem("unreadable", "rows that the database can read", code);
      return;
    }
    if (!TurnsError.is(error)) {
      // A parser's own message may quote the text that it couldn't parse.
      const name = error instanceof Error ? error.name : "Error";
      return this.problem("format", "contents in the format they are written in", `contents that do not parse (${name})`);
    }
    const isSealing = ["ENCRYPTED", "NOT_ENCRYPTED", "UNKNOWN_KEY", "WRONG_KEY"].includes(error.code);
    const kind = isSealing ? "sealing" : error.code === "CHECKPOINT_CORRUPTED" ? "checksum" : "format";
    this.problem(kind, "the row as it was saved", error.message);
  }
}

const UNREACHED = ["STORE_BUSY", "STORE_CLOSED", "STORE_UNAVAILABLE"];

/** Whether an error is about the connection or the moment, not about the rows that are checked. */
export function saysNothing(engine: Engine, error: unknown): boolean {
  const meaning = engine.meaningOf(error);
  // SQLite also retries what it can't read, and that is damage.
  if (engine.isPassing(error)) return !TurnsError.is(meaning, "CHECKPOINT_CORRUPTED");
  if (engine.isCancelled(error) || TurnsError.is(meaning, "STORE_BUSY")) return true;
  // A statement may also be refused because its table is gone, and that is damage.
  return engine.codeOf(error) === "" && TurnsError.is(meaning) && UNREACHED.includes(meaning.code);
}

type Key = string | number;

/** One table, or one kind of check on it. */
export interface Phase {
  readonly table: string;
  /**
   * Checks some rows.
   * @returns whether there are more
   */
  next(ctx: VerifyContext): Program<boolean>;
}

/** Rows of a table in the order of an index. */
export interface Stretch {
  /** Columns that identify the rows and that an index has in this order. `rowid` stands for the engine's own, or the key. */
  keys: readonly string[];
  where?: string;
  bound?: readonly Key[];
  /** The key to start behind; by default it starts with the first row. */
  begin?: readonly Key[];
}

interface TableWalk<R> extends Stretch {
  table: string;
  counts?: keyof VerifyCounts;
  /** SQL; by default all columns of ours. A user's own may be of types that nobody reads. */
  columns?: string;
  limit: number;
  /** The number of the thread that a row belongs to. For databases on the network: its row is read for all rows of a page at once. */
  threadOf?: (row: R) => number | undefined;
  /** Each row is checked after the one before, on every engine. */
  inOrder?: boolean;
  /** @returns true if the row was too much for one step. It is checked again, so nothing may be on record of it yet. */
  check: (ctx: VerifyContext, row: R) => Program<boolean | void>;
}

/**
 * Walks through a table in the order of its keys, a few rows at a time. A database on the network is asked about all of them at once:
 * row by row, each question would be a round trip.
 */
export function walk<R extends object>({
  table,
  counts,
  columns = rowsNamed(table)?.columns ?? "*",
  ...options
}: TableWalk<R>): Phase {
  const { where = "TRUE", bound = [], begin, limit, threadOf, inOrder = false, check } = options;
  let after = begin;
  /** Rows of a group that couldn't be asked about together. */
  let apart = 0;
  return {
    table,
    *next(ctx) {
      const { rowid } = ctx.session.engine.dialect;
      const keys = options.keys[0] === "rowid" && rowid === undefined ? ["id"] : options.keys;
      const all = `SELECT ${keys[0] === "rowid" ? `${rowid} AS at, ` : ""}${columns} FROM ${table} WHERE ${where}`;
      const order = `ORDER BY ${keys.join(", ")} LIMIT ${limit}`;
      const behind = keys.length === 1 ? `${keys[0]} > ?` : `(${keys.join(", ")}) > (${keys.map(() => "?").join(", ")})`;
      const rows =
        after === undefined
          ? yield* ctx.session.all<R>(`${all} ${order}`, ...bound)
          : yield* ctx.session.all<R>(`${all} AND ${behind} ${order}`, ...bound, ...after);
      const { session } = ctx;
      if (session.engine.sendsTogether === true && threadOf !== undefined) {
        const threads = new Set(rows.flatMap((row) => threadOf(row) ?? []));
        yield* session.sideBySide([...threads].map((thread) => ctx.owner(thread)));
      }
      const isTogether = session.engine.sendsTogether === true && !inOrder;
      for (let first = 0; first < rows.length;) {
        const group = rows.slice(first, isTogether && apart === 0 ? rows.length : first + 1);
        const ats = group.map((row) => keys.map((key) => (row as Record<string, Key>)[key === "rowid" ? "at" : key] as Key));
        for (const [index, at] of ats.entries()) {
          const before = ats[index - 1] ?? after;
          if (before === undefined || isAhead(before, at)) continue;
          ctx.at().problem("unreadable", "rows in the order of their keys", "one that comes before the last one");
          return false;
        }
        const checks = group.map((row) => {
          const where = Object.fromEntries(keys.map((key) => [key, (row as Record<string, Key>)[key] ?? null]));
          return ctx.at(undefined, where).attempted(check(ctx, row));
        });
        let isLeft: boolean;
        try {
          isLeft =
            group.length === 1
              ? (yield* checks[0] as Program<unknown>) === true
              : (yield* session.sideBySide(checks)).includes(true);
        } catch (error) {
          if (group.length === 1 || saysNothing(session.engine, error) || session.engine.codeOf(error) === "") throw error;
          // The database can't say which row it was. The next steps ask about each one by itself.
          ctx.cutBack();
          ctx.broken();
          apart = group.length;
          return true;
        }
        if (isLeft) return true;
        after = ats.at(-1);
        first += group.length;
        apart = Math.max(0, apart - group.length);
        if (counts !== undefined) for (const _ of group) ctx.count(counts);
        ctx.keep();
        if (ctx.isOver) return true;
      }
      return rows.length === limit;
    },
  };
}

function isAhead(after: readonly Key[], at: readonly Key[]): boolean {
  const differs = after.findIndex((key, index) => key !== at[index]);
  return differs >= 0 && isBehind(after[differs] as Key, at[differs]);
}

/**
 * All rows of a table, or of one thread: its range of seqs where the table has one, or else the rows that name the thread.
 */
export function stretchesOf(table: Table, only: Owner | undefined): Stretch[] {
  const { name, ofThread: by = { column: "thread_id" }, byThread, key } = table;
  // A random id is a bad order to read in.
  const isByRowid = name === "langgraph_checkpoints" || name === "langgraph_rewinds";
  if (only === undefined) return [{ keys: isByRowid ? ["rowid"] : key }];
  const { thread, threadId } = only;
  if ("column" in by) {
    const where = `${by.column} = ?`;
    if (by.column === "thread_id") return [{ keys: isByRowid ? ["rowid"] : key, where, bound: [threadId] }];
    if (isByRowid) return [{ keys: ["seq"], begin: [0], where, bound: [thread] }];
    return [{ keys: key.length === 1 ? key : key.filter((column) => column !== by.column), where, bound: [thread] }];
  }
  const [first, end] = [firstSeq(thread), firstSeq(thread + 1)];
  const begin = key.length === 1 ? [first - 1] : [first, -1];
  // A lower bound in `where` would compete with the key that the walk continues from.
  const inRange = { keys: key, begin, where: `${by.range} < ?`, bound: [end] };
  if (byThread === undefined) return [inRange];
  // Rows outside the range that carry the thread's number: the index returns them as rows of the thread.
  const elsewhere = `seq IN (SELECT seq FROM ${name} INDEXED BY ${byThread} WHERE thread = ? AND (seq < ? OR seq >= ?))`;
  return [inRange, { keys: key, where: elsewhere, bound: [thread, first, end] }];
}

/** Bits per page. A page exists only if one of its numbers was seen; each thread has at least one, so pages are small. */
const PAGE_BITS = 1 << 12;
/**
 * The other tables, each by its best index. Elements of lists and rewinds have no index by seq, so not every number is looked up.
 */
const COUNTED: readonly [table: string, where: string, bound: (seq: number) => number[]][] = [
  ["langgraph_checkpoints", "seq = ? AND thread = ?", (seq) => [seq, threadOfSeq(seq)]],
  ["langgraph_tasks", "seq = ? AND thread = ?", (seq) => [seq, threadOfSeq(seq)]],
  ["langgraph_rewinds", "seq = ? AND status = 'done'", (seq) => [seq]],
  ["langgraph_items", "seq = ? AND list > ? AND list < ?", (seq) => [seq, firstSeq(threadOfSeq(seq)), seq]],
];
const SCANS_MAX = 20;

/**
 * The numbers that were seen, one bit each. A hundred million in one thread take some 15 MB, a hundred thousand threads some 60
 * MB.
 */
class SeqSet {
  readonly #pages = new Map<number, Uint8Array>();
  #scans = 0;
  #kept = 0;
  #added: number[] = [];

  /** @returns false if it was there already */
  add(seq: number): boolean {
    const page = Math.floor(seq / PAGE_BITS);
    const bits = this.#pages.get(page) ?? new Uint8Array(PAGE_BITS / 8);
    this.#pages.set(page, bits);
    const bit = seq % PAGE_BITS;
    const mask = 1 << (bit & 7);
    const before = bits[bit >> 3] ?? 0;
    bits[bit >> 3] = before | mask;
    const isNew = (before & mask) === 0;
    if (isNew) this.#added.push(seq);
    return isNew;
  }

  keep(): void {
    this.#kept = this.#scans;
    this.#added = [];
  }

  /** Forgets the numbers that were added since {@link keep}. */
  cutBack(): void {
    this.#scans = this.#kept;
    for (const seq of this.#added) {
      const bits = this.#pages.get(Math.floor(seq / PAGE_BITS)) as Uint8Array;
      const bit = seq % PAGE_BITS;
      bits[bit >> 3] = (bits[bit >> 3] as number) & ~(1 << (bit & 7));
    }
    this.#added = [];
  }

  /**
   * Other rows with the number of the current one. A row that was seen before may be gone now, or may be the same row; then there
   * are none.
   *
   * @returns what they are called; undefined if there are none
   */
  *others(session: Session, seq: number, table: string): Program<string | undefined> {
    for (const { name: other } of KEYED_BY_SEQ) {
      if (other !== table && (yield* session.get(`SELECT 1 FROM ${other} WHERE seq = ?`, seq)) !== undefined)
        return `a row of ${other}`;
    }
    if (this.#scans >= SCANS_MAX) return undefined;
    this.#scans += 1;
    for (const [other, where, bound] of COUNTED) {
      const row = yield* session.get<{ n: number }>(`SELECT count(*) AS n FROM ${other} WHERE ${where}`, ...bound(seq));
      if ((row?.n ?? 0) > (other === table ? 1 : 0)) return `a row of ${other}`;
    }
    return undefined;
  }
}
