import { TurnsError } from "../../errors";
import { corrupted } from "../refusals";
import type { Dialect } from "../dialect";
import type { Program } from "../program";
import { ARCHIVED_ROWS } from "../rows";
import type { Session } from "../session";
import { eachRow, refuseBack } from "./paging";
import { type AnyRow, archivedRow, archivedText } from "./row-references";
import type { StoredRewind } from "./rewind-records";
import type { RewindRow } from "../store";
import { ARCHIVE, ITEMS, NAMES, type RawOf, REWOUND, rowsOfThread, type Table, VERSIONED } from "../tables";
import type { ThreadState } from "../thread-state";

export type ArchivedRow = RawOf<typeof ARCHIVE>;

const PAGE = 100;
const OF_REWIND = ARCHIVED_ROWS.select(`WHERE rewind_id = ? AND ordinal > ? ORDER BY ordinal LIMIT ${PAGE}`);
const REPLACE = "UPDATE langgraph_archive SET row = ?, checksum = ? WHERE rewind_id = ? AND ordinal = ?";
export const DELETE_ARCHIVE = "DELETE FROM langgraph_archive WHERE rewind_id = ?";

type Key = string | number;

/** Rows of one table for the archive. */
interface ArchivedRange {
  table: Table;
  change: ArchivedRow["change"];
  /** SQL, with the seq of the rewind's target as `?2`. */
  which: string;
  /** Columns that identify them, in the order of an index. */
  by: readonly string[];
}

type Archived = Pick<RewindRow, "id" | "threadId" | "targetSeq">;

/**
 * Writes the rows behind a rewind's target to its archive, and the older versions that their deletion makes current again.
 * @returns how many there are
 */
export function* archiveRewound(session: Session, plan: Archived, key: ThreadState): Program<number> {
  const deleted = REWOUND.map((table): ArchivedRange => {
    // Elements of lists have no index by seq.
    const by = table.name === ITEMS.name ? table.key : ["seq"];
    return { table, change: "deleted", which: "seq > ?2", by };
  });
  const revived = VERSIONED.map((table): ArchivedRange => {
    return { table, change: "revived", which: "superseded_by > ?2 AND seq <= ?2", by: ["seq"] };
  });
  return yield* archiveRows(session, plan, key, 0, [...deleted, ...revived]);
}

/**
 * Writes rows to the archive, as JSON objects. The first rows of all ranges are read together.
 *
 * @param count how many rows are in the archive already
 * @returns how many there are now
 */
export function* archiveRows(
  session: Session,
  plan: Archived,
  key: ThreadState,
  count: number,
  ranges: readonly ArchivedRange[],
): Program<number> {
  // Refuses columns that couldn't be restored.
  const columns = yield* session.sideBySide(ranges.map(({ table }) => columnsOf(session, table.name)));
  const { json } = session.engine.dialect;
  const pages = ranges.map((range, at) => pagesOf(key, plan, range, selected(range, columns[at] ?? [], json)));
  const firsts = yield* session.sideBySide(pages.map((page) => page(session, undefined)));
  const owner = { thread: null, threadId: plan.threadId };
  let ordinal = count;
  for (const [at, { table, change, by }] of ranges.entries()) {
    const next = pages[at] as (typeof pages)[number];
    let after: readonly Key[] | undefined;
    for (let rows = firsts[at]?.splice(0) ?? []; ; rows = yield* next(session, after)) {
      for (const row of rows) {
        ordinal += 1;
        const archived = {
          rewindId: plan.id,
          threadId: plan.threadId,
          ordinal,
          tbl: table.name,
          change,
          row: json === undefined ? archivedText(row) : String(row["archived"]),
        };
        yield* session.run(ARCHIVED_ROWS.insert, ...ARCHIVED_ROWS.values(session.sealing, owner, archived));
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE) break;
      const end = by.map((column) => last[column] as Key);
      const differs = after?.findIndex((value, column) => value !== end[column]) ?? -1;
      if (after !== undefined) refuseBack(table.name, after[Math.max(differs, 0)] as Key, end[Math.max(differs, 0)] as Key);
      after = end;
    }
  }
  return ordinal;
}

/** Reads the next page of a range. @param after what identifies the last row of the page before */
type NextPage = (session: Session, after: readonly Key[] | undefined) => Program<AnyRow[]>;

/** SQL: a row as it's archived. */
function selected({ table, by }: ArchivedRange, columns: readonly string[], json: Dialect["json"]): string {
  if (json !== undefined) return `${json.row(columns)} AS archived, ${by.join(", ")}`;
  // Every type can be read as text, and written as it was read.
  return columns.map((name) => (name in table.columns ? name : `CAST("${name}" AS TEXT) AS "${name}"`)).join(", ");
}

/** @param selection SQL */
function pagesOf(
  { thread }: ThreadState,
  { targetSeq }: Archived,
  { table, which, by }: ArchivedRange,
  selection: string,
): NextPage {
  return (session, after) => {
    const behind = after === undefined ? "" : `AND (${by.join(", ")}) > (${by.map((_, at) => `?${at + 3}`).join(", ")})`;
    return session.all<AnyRow>(
      `SELECT ${selection} FROM ${table.name} WHERE ${rowsOfThread(table)} AND ${which} ${behind} ORDER BY ${by.join(", ")} LIMIT ${PAGE}`,
      ...[thread, targetSeq, ...(after ?? [])],
    );
  };
}

/** Replaces a column in an archived row. */
export function* changeArchived(session: Session, archived: ArchivedRow, column: string, value: string | Uint8Array): Program {
  const changed = { ...archived, row: archivedText({ ...archivedRow(archived.row), [column]: value }) };
  const checksum = ARCHIVED_ROWS.checksum(session.sealing, archived.thread_id, changed);
  yield* session.run(REPLACE, changed.row, checksum, archived.rewind_id, archived.ordinal);
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function verifyArchived(session: Session, archived: ArchivedRow): void {
  ARCHIVED_ROWS.parse(session.sealing, archived.thread_id, archived);
}

/**
 * Restores what a rewind keeps, and deletes its archive.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED if a row was changed, or is missing
 */
export function* restoreArchive(session: Session, rewind: StoredRewind): Program {
  const tables = new Map<string, string[]>();
  const { json } = session.engine.dialect;
  yield* openArchive(session, rewind, function* ({ tbl, change, row: text }) {
    if (change === "revived" && json !== undefined) return yield* session.run(reviveIn(tbl, json), text);
    const there = tables.get(tbl) ?? (yield* columnsOf(session, tbl));
    tables.set(tbl, there);
    const row = archivedRow(text);
    // Columns that somebody added since the rewind get their defaults.
    const columns = there.filter((column) => row[column] !== undefined);
    const [statement, named] = change === "revived" ? [reviveIn(tbl, json), REVIVED] : [insertOf(tbl, columns, json), columns];
    if (json !== undefined) return yield* session.run(statement, text);
    yield* session.run(statement, ...named.map((column) => row[column] ?? null));
  });
  yield* session.run(DELETE_ARCHIVE, rewind.id);
}

/**
 * Reads everything that a rewind keeps, verified.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED if a row was changed, or is missing
 */
export function* openArchive(
  session: Session,
  { id, threadId, entries }: StoredRewind,
  work: (archived: ArchivedRow) => Program | undefined,
): Program {
  let count = 0;
  yield* eachArchived(session, id, (archived) => {
    verifyArchived(session, archived);
    count += 1;
    return work(archived);
  });
  if (count === entries) return;
  throw corrupted(`the archive of rewind ${id}`, `${entries} rows`, `${count}`, { threadId, rewindId: id });
}

/** Reads the rows of an archive in their order. */
function* eachArchived(session: Session, rewindId: string, work: (archived: ArchivedRow) => Program | undefined): Program {
  yield* eachRow(
    session,
    { table: ARCHIVE.name, query: OF_REWIND, bound: [rewindId], key: "ordinal", begin: 0, limit: PAGE },
    work,
  );
}

const REVIVED = ["superseded_by", "seq"];

function reviveIn(table: string, json: Dialect["json"]): string {
  const [by, seq] = json === undefined ? ["?", "?"] : REVIVED.map((column) => json.value("?1", column));
  return `UPDATE ${table} SET superseded_by = ${by} WHERE seq = ${seq}`;
}

/** A name that was given again since the rewind keeps its new checkpoint. */
function insertOf(table: string, columns: readonly string[], json: Dialect["json"]): string {
  const values = columns.map((column) => (json === undefined ? "?" : json.value("?1", column))).join(", ");
  const insert = `INSERT INTO ${table} (${columns.map((column) => `"${column}"`).join(", ")}) VALUES (${values})`;
  return table === NAMES.name ? `${insert} ON CONFLICT DO NOTHING` : insert;
}

/**
 * Columns that somebody else added are kept too, if their names are safe in a statement of ours.
 * @throws {TurnsError} SCHEMA_CONFLICT
 */
function* columnsOf(session: Session, table: string): Program<string[]> {
  const names = yield* session.engine.columnsOf(table);
  if (names.every((name) => /^\w+$/.test(name))) return names;
  throw new TurnsError("SCHEMA_CONFLICT", {
    problem: `Table ${table} has a column that isn't of this package, whose name isn't of letters, digits and underscores.`,
    remedy: "Rename or drop the column; nothing was changed.",
    data: { table },
  });
}
