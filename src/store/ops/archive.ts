import { TurnsError } from "../../errors";
import { corrupted } from "../refusals";
import type { Program } from "../program";
import { ARCHIVED_ROWS } from "../rows";
import type { Session } from "../session";
import { eachRow } from "./paging";
import type { StoredRewind } from "./rewind-records";
import type { RewindRow } from "../store";
import { ARCHIVE, NAMES, type RawOf, REWOUND, rowsOfThread, type Table, VERSIONED } from "../tables";
import type { ThreadState } from "../thread-state";

export type ArchivedRow = RawOf<typeof ARCHIVE>;

const PAGE = 100;
const OF_REWIND = ARCHIVED_ROWS.select(`WHERE rewind_id = ? AND ordinal > ? ORDER BY ordinal LIMIT ${PAGE}`);
const ONE = ARCHIVED_ROWS.select("WHERE rewind_id = ? AND ordinal = ?");
const SEAL = "UPDATE langgraph_archive SET checksum = ? WHERE rewind_id = ? AND ordinal = ?";
export const DELETE_ARCHIVE = "DELETE FROM langgraph_archive WHERE rewind_id = ?";

type Archived = Pick<RewindRow, "id" | "threadId" | "targetSeq">;

/**
 * Writes the rows behind a rewind's target to its archive, as JSON objects, and the older versions that their deletion makes
 * current again.
 */
export function* archiveRewound(session: Session, plan: Archived, key: ThreadState): Program {
  for (const table of REWOUND) yield* archiveRows(session, plan, key, { table, change: "deleted", which: "seq > ?2", by: "seq" });
  for (const table of VERSIONED) {
    yield* archiveRows(session, plan, key, { table, change: "revived", which: "superseded_by > ?2 AND seq <= ?2", by: "seq" });
  }
}

/** Writes rows of one table to the archive. {@link sealArchive} adds their checksums. */
export function* archiveRows(
  session: Session,
  plan: Archived,
  key: ThreadState,
  { table, change, which, by }: { table: Table; change: ArchivedRow["change"]; which: string; by: string },
): Program {
  const columns = yield* columnsOf(session, table.name);
  const pairs = columns.map(
    (column) => `'${column}', CASE typeof(${column}) WHEN 'blob' THEN json_object('hex', hex(${column})) ELSE ${column} END`,
  );
  yield* session.run(
    `INSERT INTO langgraph_archive (${ARCHIVED_ROWS.columns})
      SELECT ?3, ?4, row_number() OVER (ORDER BY ${by})
          + (SELECT coalesce(max(ordinal), 0) FROM langgraph_archive WHERE rewind_id = ?3), ?5, ?6, json_object(${pairs.join(", ")}), ''
        FROM ${table.name} WHERE ${rowsOfThread(table)} AND ${which} AND ?2 IS NOT NULL`,
    ...[key.thread, plan.targetSeq, plan.id, plan.threadId, table.name, change],
  );
}

/**
 * Gives the rows of an archive their checksums, which SQL can't compute.
 * @returns how many there are
 */
export function* sealArchive(session: Session, { id }: { id: string }): Program<number> {
  let count = 0;
  yield* eachArchived(session, id, function* (archived) {
    count += 1;
    yield* seal(session, archived);
  });
  return count;
}

/** Gives one row a checksum over its current content. */
export function* sealArchived(session: Session, rewindId: string, ordinal: number): Program {
  const archived = yield* session.get<ArchivedRow>(ONE, rewindId, ordinal);
  if (archived !== undefined) yield* seal(session, archived);
}

function* seal(session: Session, archived: ArchivedRow): Program {
  const checksum = ARCHIVED_ROWS.checksum(session.sealing, archived.thread_id, archived);
  yield* session.run(SEAL, checksum, archived.rewind_id, archived.ordinal);
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
  const inserts = new Map<string, string>();
  yield* openArchive(session, rewind, function* ({ tbl, change, row }) {
    const text = change === "revived" ? supersedeAgain(tbl) : (inserts.get(tbl) ?? (yield* insertOfJson(session, tbl)));
    if (change === "deleted") inserts.set(tbl, text);
    yield* session.run(text, row);
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

function* eachArchived(session: Session, rewindId: string, work: (archived: ArchivedRow) => Program | undefined): Program {
  yield* eachRow(
    session,
    { table: ARCHIVE.name, query: OF_REWIND, bound: [rewindId], key: "ordinal", begin: 0, limit: PAGE },
    work,
  );
}

/** A name that was given again since the rewind keeps its new checkpoint. */
function* insertOfJson(session: Session, table: string): Program<string> {
  const insert = table === NAMES.name ? "INSERT OR IGNORE" : "INSERT";
  const columns = yield* columnsOf(session, table);
  const values = columns.map(
    (column) => `CASE json_type(?1, '$.${column}') WHEN 'object' THEN unhex(json_extract(?1, '$.${column}.hex'))
      ELSE json_extract(?1, '$.${column}') END`,
  );
  return `${insert} INTO ${table} (${columns.join(", ")}) SELECT ${values.join(", ")}`;
}

function supersedeAgain(table: string): string {
  return `UPDATE ${table} SET superseded_by = json_extract(?1, '$.superseded_by') WHERE seq = json_extract(?1, '$.seq')`;
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
