import { describe, TurnsError } from "../../errors";
import type { OfficialKey, OfficialRow, OfficialSource, OfficialWrite } from "../official-source";
import type { SqliteDatabase, SqliteStatement } from "./driver";
import { directoryGiven, translated } from "./failures";
import { openDatabase } from "./open-database";

/** A reader in WAL mode waits for nobody. This covers the moment in which another process opens or closes the file. */
const WAIT_MS = 50;
const TABLES = {
  checkpoints: ["thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"],
  writes: ["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"],
};
const OF_CHECKPOINT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?";
const WRITE = "task_id AS taskId, idx, channel, type, value";
const HAS = "SELECT 1 FROM checkpoints WHERE thread_id = ? LIMIT 1";
const FIRST_THREAD = "SELECT min(thread_id) AS id FROM checkpoints";
const NEXT_THREAD = `${FIRST_THREAD} WHERE thread_id > ?`;
const KEYS = `SELECT checkpoint_ns AS ns, checkpoint_id AS checkpointId FROM checkpoints
  WHERE thread_id = ? AND (checkpoint_id, checkpoint_ns) > (?, ?) ORDER BY checkpoint_id, checkpoint_ns LIMIT ?`;
const ROW = `SELECT checkpoint_ns AS ns, checkpoint_id AS checkpointId, parent_checkpoint_id AS parentId, type, checkpoint, metadata
  FROM checkpoints WHERE ${OF_CHECKPOINT}`;
const WRITES = `SELECT ${WRITE} FROM writes WHERE ${OF_CHECKPOINT} ORDER BY task_id, idx`;
const WRITES_TO = `SELECT ${WRITE} FROM writes WHERE thread_id = ? AND checkpoint_id = ? AND channel = ?
  ORDER BY checkpoint_ns, task_id, idx`;
const ORPHANS = `SELECT count(*) AS count FROM writes AS w WHERE w.thread_id = ? AND NOT EXISTS (SELECT 1 FROM checkpoints AS c
  WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id)`;

/**
 * Opens a file of LangGraph's own `SqliteSaver` read-only: the database is never changed, even while another process writes to
 * it.
 *
 * @throws {TurnsError} STORE_UNAVAILABLE for a missing file or one that cannot be read, NOT_A_DATABASE, SCHEMA_CONFLICT if
 *   `checkpoints` or `writes` or one of their columns is missing
 */
export function openOfficialFile(file: string): OfficialSource {
  let db: SqliteDatabase;
  try {
    db = openDatabase(file, { readonly: true, timeout: WAIT_MS });
  } catch (error) {
    throw unopened(error, file);
  }
  try {
    refuseOtherTables(db, file);
    return sourceOn(db, file);
  } catch (error) {
    db.close();
    throw translated(error, file);
  }
}

interface FoundId {
  id: string | null;
}

function sourceOn(db: SqliteDatabase, file: string): OfficialSource {
  const statements = new Map<string, SqliteStatement>();
  const all = <T>(sql: string, ...parameters: unknown[]): T[] => {
    try {
      const statement = statements.get(sql) ?? db.prepare(sql);
      statements.set(sql, statement);
      return statement.all(...parameters) as T[];
    } catch (error) {
      throw translated(error, file);
    }
  };
  return {
    file,
    has: (threadId) => all(HAS, threadId).length > 0,
    nextThread: (after) => {
      // An id may be empty in a file, though not every version of the official saver takes that.
      const [row] = after === undefined ? all<FoundId>(FIRST_THREAD) : all<FoundId>(NEXT_THREAD, after);
      return row?.id ?? undefined;
    },
    keys: (threadId, after, limit) => all<OfficialKey>(KEYS, threadId, after?.checkpointId ?? "", after?.ns ?? "", limit),
    row: (threadId, { ns, checkpointId }) => {
      const [row] = all<Omit<OfficialRow, "writes">>(ROW, threadId, ns, checkpointId);
      return row && { ...row, writes: all<OfficialWrite>(WRITES, threadId, ns, checkpointId) };
    },
    writesTo: (channel, threadId, checkpointId) => all<OfficialWrite>(WRITES_TO, threadId, checkpointId, channel),
    orphans: (threadId) => all<{ count: number }>(ORPHANS, threadId)[0]?.count ?? 0,
    frozen: async (work) => {
      db.exec("BEGIN");
      try {
        return await work();
      } finally {
        if (db.open && db.inTransaction) db.exec("COMMIT");
      }
    },
    close: () => {
      db.close();
    },
  };
}

function refuseOtherTables(db: SqliteDatabase, file: string): void {
  for (const [table, columns] of Object.entries(TABLES)) {
    const rows = db.prepare("SELECT name FROM pragma_table_info(?)").all(table) as { name: string }[];
    const found = rows.map(({ name }) => name);
    const missing = columns.filter((column) => !found.includes(column));
    if (missing.length === 0) continue;
    throw new TurnsError("SCHEMA_CONFLICT", {
      problem: `Database ${file} isn't a file of LangGraph's SqliteSaver: ${found.length === 0 ? `it has no table "${table}"` : `its table "${table}" has no ${missing.join(", ")}`}.`,
      remedy: "Give the path of a file that SqliteSaver wrote; this one was not changed.",
      data: { file, table, missing },
    });
  }
}

/** A missing folder is refused with a TypeError before SQLite sees the path; a missing file is SQLITE_CANTOPEN. */
function unopened(error: unknown, file: string): unknown {
  if (TurnsError.is(error, "DRIVER_UNAVAILABLE")) return error;
  const directory = directoryGiven(file, error);
  if (directory !== undefined) return directory;
  const known = translated(error, file);
  if (TurnsError.is(known, "NOT_A_DATABASE") || TurnsError.is(known, "STORE_BUSY")) return known;
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `Database ${file} can't be read: ${error instanceof Error ? error.message : describe(error)}.`,
    remedy: "Check the path and the permissions of the file and of its folder (SQLite needs -wal and -shm files beside it).",
    data: { file },
    cause: error,
  });
}
