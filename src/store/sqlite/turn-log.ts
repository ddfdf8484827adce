import { TURN_ROWS } from "../rows";
import { chunkAddresses } from "../../codec";
import { plainSealing } from "../../sealing";
import { NOTHING_REMEMBERED, type StoredCheckpoint, type TurnRow } from "../store";
import { readChunks } from "../ops/values";
import { adapted, waitingForOthers } from "./connection";
import { OpenedFile } from "./opened-file";
import type { DatabaseHandle, SqliteDatabase } from "./driver";
import { getCheckpoint } from "../ops/read-checkpoints";
import { translated } from "./failures";
import { refuseEncrypted } from "../ops/keys";
import { migrate } from "./migrate";
import { refuseSecondName } from "./open-database";
import { sessionOn, type SqliteSession } from "./engine";
import type { Program } from "../program";
import { turnOf } from "../ops/turn-changes";
import { type RawTurn, turnValues } from "../turn-rows";

/** SQLite binds up to 32,766 values in one statement; older builds 999. */
const IDS_PER_STATEMENT = 900;

/** Excludes turns of a deleted thread, and of a copy that is still being made. */
const REACHABLE = "(thread IS NULL OR thread NOT IN (SELECT thread FROM langgraph_leftovers))";
const TURNS = TURN_ROWS.select(`WHERE ${REACHABLE}`);
const BY_ID = `${TURNS} AND id = ?`;
/**
 * langgraph_tasks has the task and the graph of a recorded turn. An interval has nobody else's turns before the task began, and
 * late ones after it finished.
 */
const OF_TASKS = `langgraph_tasks AS t CROSS JOIN langgraph_checkpoints AS c ON c.thread = t.thread AND c.seq > t.seq AND c.task_id = t.task_id`;
const OF_GRAPH = `(SELECT thread, min(seq) AS seq FROM langgraph_tasks WHERE graph_id = ?1 GROUP BY thread) AS t
  CROSS JOIN langgraph_checkpoints AS c ON c.thread = t.thread AND c.seq > t.seq AND c.graph_id = ?1`;
const NEWEST_OWN = "(SELECT max(rowid) FROM langgraph_checkpoints WHERE thread IS NULL AND graph_id = ?1)";
/** If threads have turns of the graph, the newest rows are searched first: usually one of the first belongs to the graph. */
const LATEST = `${TURNS} AND graph_id = ?1 AND rowid >= coalesce(${NEWEST_OWN}, 0)
  AND rowid <= CASE WHEN EXISTS (SELECT 1 FROM langgraph_tasks WHERE graph_id = ?1) THEN ${Number.MAX_SAFE_INTEGER} ELSE ${NEWEST_OWN} END
  ORDER BY rowid DESC LIMIT 1`;
const OF_TASK = `${TURNS} AND rowid IN (SELECT rowid FROM langgraph_checkpoints WHERE thread IS NULL AND task_id = ?1
  UNION ALL SELECT c.rowid FROM ${OF_TASKS} WHERE t.task_id = ?1)`;
const IN_ORDER = " ORDER BY rowid ASC";
const PRUNE = `DELETE FROM langgraph_checkpoints WHERE rowid IN (SELECT rowid FROM langgraph_checkpoints WHERE ${REACHABLE} AND rowid IN (
    SELECT rowid FROM langgraph_checkpoints WHERE thread IS NULL AND graph_id = ?1 UNION ALL SELECT c.rowid FROM ${OF_GRAPH})
  ORDER BY rowid DESC LIMIT -1 OFFSET ?2) RETURNING thread`;
const LOWER = "UPDATE langgraph_threads SET turns = turns - ? WHERE thread = ?";

/** A deleted turn, with its thread if it had one. */
interface Gone {
  thread: number | null;
}

/** The synchronous queries behind `CheckpointPersister`, on a handle that the caller owns. */
export class SqliteTurnLog {
  /** The persister has no keys. */
  readonly awaitsKeys = false;
  readonly #db: SqliteDatabase;
  readonly #session: SqliteSession;
  readonly #file: OpenedFile;

  constructor(handle: DatabaseHandle) {
    const db = adapted(handle);
    this.#db = db;
    refuseSecondName(db);
    waitingForOthers(db.name, () => migrate(db));
    this.#file = new OpenedFile(db);
    this.#session = sessionOn(db, plainSealing);
  }

  address(threadId: string, text: string): string {
    return this.#session.sealing.address(threadId, text);
  }

  insert(turn: Omit<TurnRow, "seq">): void {
    this.#transaction(() => {
      this.#session.now(refuseEncrypted(this.#session, `Turn ${JSON.stringify(turn.id)}`));
      this.#session.now(this.#session.run(TURN_ROWS.insert, ...turnValues(this.#session, null, { ...turn, seq: undefined })));
    });
  }

  byId(id: string): TurnRow | undefined {
    return this.#one(BY_ID, id);
  }

  latest(graphId: string): TurnRow | undefined {
    return this.#one(LATEST, graphId);
  }

  ofTask(taskId: string, graphId: string | undefined): TurnRow[] {
    const rows =
      graphId === undefined
        ? this.#session.now(this.#session.all<RawTurn>(OF_TASK + IN_ORDER, taskId))
        : this.#session.now(this.#session.all<RawTurn>(`${OF_TASK} AND graph_id = ?2${IN_ORDER}`, taskId, graphId));
    return rows.map((row) => this.#session.now(turnOf(this.#session, row)));
  }

  /** Deletes all rows of these tasks in one transaction. Returns how many were deleted. */
  deleteTasks(taskIds: readonly string[], graphId: string | undefined): number {
    return this.#transaction(() => {
      let deleted = 0;
      for (let from = 0; from < taskIds.length; from += IDS_PER_STATEMENT) {
        const ids = taskIds.slice(from, from + IDS_PER_STATEMENT);
        const placeholders = Array(ids.length).fill("?").join(",");
        const scope = graphId === undefined ? "" : " AND graph_id = ?";
        const bound = [...ids, ...(graphId === undefined ? [] : [graphId])];
        const recorded = `SELECT c.rowid FROM ${OF_TASKS} WHERE t.task_id IN (${placeholders})`;
        for (const which of [`thread IS NULL AND task_id IN (${placeholders})`, `rowid IN (${recorded})`]) {
          // Not cached: the text differs with the number of ids.
          const statement = this.#db.prepare(`DELETE FROM langgraph_checkpoints WHERE ${which}${scope} RETURNING thread`);
          deleted += this.#counted(statement.all(...bound) as Gone[]);
        }
      }
      return deleted;
    });
  }

  prune(graphId: string, keep: number): number {
    return this.#transaction(() => this.#counted(this.#session.now(this.#session.all<Gone>(PRUNE, graphId, keep))));
  }

  /**
   * Updates the threads that lost turns.
   * @returns how many turns were deleted, with or without a thread
   */
  #counted(gone: readonly Gone[]): number {
    const lost = new Map<number, number>();
    for (const { thread } of gone) if (thread !== null) lost.set(thread, (lost.get(thread) ?? 0) + 1);
    for (const [thread, turns] of lost) this.#session.now(this.#session.run(LOWER, turns, thread));
    return gone.length;
  }

  checkpointBehind(turn: TurnRow): StoredCheckpoint | undefined {
    if (turn.threadId === undefined || turn.checkpointId === undefined) return undefined;
    return this.#read(getCheckpoint(this.#session, turn.threadId, turn.ns ?? "", turn.checkpointId, NOTHING_REMEMBERED));
  }

  /** The parts that a recorded turn's state refers to, by address. */
  chunksOf(turn: TurnRow): ReadonlyMap<string, string> {
    if (turn.threadId === undefined) return new Map();
    return this.#read(readChunks(this.#session, turn.threadId, chunkAddresses(turn.serializedState)));
  }

  #one(statement: string, value: string): TurnRow | undefined {
    const row = this.#session.now(this.#session.get<RawTurn>(statement, value));
    return row === undefined ? undefined : this.#session.now(turnOf(this.#session, row));
  }

  /** Drops remembered facts that others may have changed. */
  #read<T>(program: Program<T>): T {
    return this.#session.now(this.#session.transaction(program));
  }

  #transaction<T>(work: () => T): T {
    try {
      this.#file.refuseLost();
      const result = this.#db.transaction(work).immediate() as T;
      this.#file.refuseLost(true);
      return result;
    } catch (error) {
      throw translated(error, this.#db.name);
    }
  }
}
