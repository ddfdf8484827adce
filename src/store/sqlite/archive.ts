import { corrupted, verifyChecksum } from "../checksum";
import { refuseBack } from "./paging";
import type { Program, Sql } from "./sql";
import type { StoredRewind } from "./rewind-records";

/** A row of `langgraph_archive` as SQLite returns it. */
export interface ArchivedRow {
  rewind_id: string;
  thread_id: string;
  ordinal: number;
  tbl: string;
  change: "deleted" | "revived";
  row: string;
  checksum: string;
}

export const ARCHIVE_COLUMNS = "rewind_id, thread_id, ordinal, tbl, change, row, checksum";
const OF_REWIND = `SELECT ${ARCHIVE_COLUMNS} FROM langgraph_archive WHERE rewind_id = ? AND ordinal > ? ORDER BY ordinal LIMIT 100`;
const ONE = `SELECT ${ARCHIVE_COLUMNS} FROM langgraph_archive WHERE rewind_id = ? AND ordinal = ?`;
const SEAL = "UPDATE langgraph_archive SET checksum = ? WHERE rewind_id = ? AND ordinal = ?";

/** Gives the rows of an archive their checksums, which SQL cannot compute. @returns how many there are */
export function* sealArchive(sql: Sql, { id }: { id: string }): Program<number> {
  let count = 0;
  for (let after: number | undefined = 0; after !== undefined;) {
    const page: readonly ArchivedRow[] = yield* pageOf(sql, id, after);
    for (const archived of page) yield* sql.run(SEAL, checksumOf(sql, archived), id, archived.ordinal);
    count += page.length;
    after = page.at(-1)?.ordinal;
  }
  return count;
}

/** Gives one row the checksum of what it holds now. */
export function* sealArchived(sql: Sql, rewindId: string, ordinal: number): Program<void> {
  const archived = yield* sql.get<ArchivedRow>(ONE, rewindId, ordinal);
  if (archived !== undefined) yield* sql.run(SEAL, checksumOf(sql, archived), rewindId, ordinal);
}

/** All that a rewind keeps, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED if a row was changed, or is missing */
export function* openArchive(sql: Sql, { id, threadId, entries }: StoredRewind): Program<ArchivedRow[]> {
  const rows: ArchivedRow[] = [];
  for (let after: number | undefined = 0; after !== undefined;) {
    const page: readonly ArchivedRow[] = yield* pageOf(sql, id, after);
    rows.push(...page);
    after = page.at(-1)?.ordinal;
  }
  for (const archived of rows) verifyArchived(sql, archived);
  if (rows.length === entries) return rows;
  throw corrupted(`the archive of rewind ${id}`, `${entries} rows`, `${rows.length}`, { threadId, rewindId: id });
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function verifyArchived(sql: Sql, archived: ArchivedRow): void {
  const { rewind_id: rewindId, thread_id: threadId, ordinal } = archived;
  const what = `row ${ordinal} of the archive of rewind ${rewindId}`;
  verifyChecksum(archived.checksum, checksumOf(sql, archived), what, { threadId, rewindId, ordinal });
}

/** The next rows of an archive, behind one; none, at its end. */
function* pageOf(sql: Sql, rewindId: string, after: number): Program<ArchivedRow[]> {
  const page = yield* sql.all<ArchivedRow>(OF_REWIND, rewindId, after);
  const last = page.at(-1);
  if (last !== undefined) refuseBack("langgraph_archive", after, last.ordinal);
  return page;
}

function checksumOf(sql: Sql, { rewind_id: rewindId, thread_id: threadId, ordinal, tbl, change, row }: ArchivedRow): string {
  return sql.sealing.checksum(threadId, "archived", rewindId, ordinal, tbl, change, row);
}
