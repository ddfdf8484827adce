import { corrupted } from "../checksum";
import { ARCHIVED_ROWS } from "../rows";
import type { ARCHIVE, RawOf } from "../tables";
import { refuseBack } from "./paging";
import type { Program } from "../program";
import type { Sql } from "../session";
import type { StoredRewind } from "./rewind-records";

export type ArchivedRow = RawOf<typeof ARCHIVE>;

const OF_REWIND = ARCHIVED_ROWS.select("WHERE rewind_id = ? AND ordinal > ? ORDER BY ordinal LIMIT 100");
const ONE = ARCHIVED_ROWS.select("WHERE rewind_id = ? AND ordinal = ?");
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
  ARCHIVED_ROWS.parse(sql.sealing, archived.thread_id, archived);
}

/** The next rows of an archive, behind one; none, at its end. */
function* pageOf(sql: Sql, rewindId: string, after: number): Program<ArchivedRow[]> {
  const page = yield* sql.all<ArchivedRow>(OF_REWIND, rewindId, after);
  const last = page.at(-1);
  if (last !== undefined) refuseBack("langgraph_archive", after, last.ordinal);
  return page;
}

function checksumOf(sql: Sql, archived: ArchivedRow): string {
  return ARCHIVED_ROWS.checksum(sql.sealing, archived.thread_id, archived);
}
