import { corrupted } from "../refusals";
import type { Program } from "../program";
import type { Rows } from "../rows";
import type { Session } from "../session";
import { firstSeq, seqIn, threadOfSeq } from "../spans";
import { eachRow } from "./paging";
import type { RawOf, Table } from "../tables";
import type { ThreadState } from "../thread-state";

/** Writes one row of a copy. Its content was read before, so it can be repeated after a rollback. */
export type RowWrite = () => Program;

/** Rows may have large contents. */
const ROWS_PER_PAGE = 25;
/** Smaller than every integer that JavaScript can hold exactly. */
const FROM_START = Number.MIN_SAFE_INTEGER;

/** The source and target of a copy. Each row of the copy has the same place in its thread as the source's row. */
export interface CopyPath {
  from: Session;
  source: ThreadState;
  to: Session;
  target: ThreadState;
  createId: () => string;
  /** Gets a function that writes one row of the copy, to be called at once or later. */
  write: (write: RowWrite) => Program;
}

/**
 * The copy's seq for one of the source.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED for a seq of another thread
 */
export function copiedSeq({ source, target }: CopyPath, seq: number): number {
  const { thread, threadId } = source;
  if (threadOfSeq(seq) === thread) return seqIn(target.thread, seq);
  throw corrupted(`thread ${threadId}`, "references to rows of its own", `one to row ${seq}`, { threadId });
}

export function* eachSourceRow<T extends Table>(
  { from, source: { thread } }: CopyPath,
  rows: Pick<Rows<T>, "table" | "select">,
  work: (row: RawOf<T>) => Program | undefined,
): Program {
  const { name: table, ofThread } = rows.table;
  const isRange = ofThread !== undefined && "range" in ofThread;
  const query = rows.select(`WHERE ${isRange ? "seq < ?" : "thread = ?"} AND seq > ? ORDER BY seq LIMIT ${ROWS_PER_PAGE}`);
  const [bound, begin] = isRange ? [[firstSeq(thread + 1)], firstSeq(thread)] : [[thread], FROM_START];
  yield* eachRow<RawOf<T>>(from, { table, query, bound, key: "seq", begin, limit: ROWS_PER_PAGE }, work);
}

export function* eachSourceItem<T extends Table>(
  { from }: CopyPath,
  rows: Pick<Rows<T>, "table" | "select">,
  list: number,
  work: (row: RawOf<T>) => Program | undefined,
): Program {
  const query = rows.select(`WHERE list = ? AND pos > ? ORDER BY pos LIMIT ${ROWS_PER_PAGE}`);
  const paged = { table: rows.table.name, query, bound: [list], key: "pos", begin: FROM_START, limit: ROWS_PER_PAGE };
  yield* eachRow<RawOf<T>>(from, paged, work);
}
