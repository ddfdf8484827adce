import { corrupted } from "../checksum";
import type { Rows } from "../rows";
import { firstSeq, seqIn, SPAN, threadOfSeq } from "../spans";
import type { RawOf, Table } from "../tables";
import type { SqliteSql } from "./engine";
import type { Program } from "../program";
import type { ThreadKey } from "../thread-state";

/** Writes one row of a copy. What it writes was read before, so it can be repeated after a transaction that was rolled back. */
export type RowWrite = () => Program<unknown>;
/** Reads a thread row by row and yields how each is written; nothing, where there is only an opportunity to pause. */
export type RowWrites<T = void> = Generator<RowWrite | undefined, T, void>;

/** Rows that may have large contents. */
const ROWS_PER_PAGE = 50;
/** Below every number that SQLite stores exactly for us. */
export const FROM_START = Number.MIN_SAFE_INTEGER;

/** A page of the rows of a thread (`?1`) behind a seq (`?2`). */
function pageOf(rows: Pick<Rows, "select" | "table">): string {
  const ofThread = isKeyed(rows) ? `seq < (?1 + 1) * ${SPAN}` : "thread = ?1";
  return rows.select(`WHERE ${ofThread} AND seq > ?2 ORDER BY seq LIMIT ?3`);
}

/** Whether the rows of a thread are a range of seqs. */
function isKeyed({ table }: Pick<Rows, "table">): boolean {
  return table.ofThread !== undefined && "range" in table.ofThread;
}

/** From where to where a thread is copied. Each row of the copy has the place in its thread that the source's row has. */
export class CopyPath {
  readonly from: SqliteSql;
  readonly source: ThreadKey;
  readonly to: SqliteSql;
  readonly target: ThreadKey;
  readonly createId: () => string;

  constructor(from: SqliteSql, source: ThreadKey, to: SqliteSql, target: ThreadKey, createId: () => string) {
    this.from = from;
    this.source = source;
    this.to = to;
    this.target = target;
    this.createId = createId;
  }

  /** The copy's seq for one of the source. @throws {TurnsError} CHECKPOINT_CORRUPTED for one that is not the source's */
  seq(seq: number): number {
    const { thread, threadId } = this.source;
    if (threadOfSeq(seq) === thread) return seqIn(this.target.thread, seq);
    throw corrupted(`thread ${threadId}`, "references to rows of its own", `one to row ${seq}`, { threadId });
  }

  /** The source's rows of a table, in the order of their seqs. */
  rows<T extends Table>(rows: Rows<T>): Iterable<RawOf<T>> {
    const { thread } = this.source;
    const first = isKeyed(rows) ? firstSeq(thread) : FROM_START;
    return this.pages<RawOf<T>>(pageOf(rows), thread, first, (row) => (row as { seq?: number | null }).seq ?? FROM_START);
  }

  /**
   * Rows in the order of a key, read in pages: a cursor would stay open while others write.
   *
   * @param select binds the owner of the rows (`?1`), the key of the last row of the page before (`?2`) and the length of a page (`?3`)
   * @param last below every key
   */
  *pages<T>(select: string, owner: number, last: number, keyOf: (row: T) => number): Generator<T, void, void> {
    for (let key = last; ;) {
      const page = this.from.now(this.from.all<T>(select, owner, key, ROWS_PER_PAGE));
      yield* page;
      const end = page.at(-1);
      if (end === undefined || page.length < ROWS_PER_PAGE) return;
      key = keyOf(end);
    }
  }
}
