import { TurnsError } from "../../errors";
import type { RewindCounts, RewindRow, RunRow, TaskRow } from "../store";
import { listRuns } from "./runs";
import type { Sql } from "./sql";
import { listTasks } from "./tasks";

/** What a rewind deletes from, and what each is called in the report. */
const REWOUND = [
  ["checkpoints", "langgraph_snapshots"],
  ["writes", "langgraph_writes"],
  ["turns", "langgraph_checkpoints"],
  ["values", "langgraph_values"],
  ["tasks", "langgraph_tasks"],
] as const;
const SUPERSEDABLE = ["langgraph_snapshots", "langgraph_writes"] as const;

interface Row {
  id: string;
  thread_id: string;
  target_task_id: string;
  target_seq: number;
  seq: number;
  archived: number;
  created_at: string;
  taken_back_at: string | null;
}

const COLUMNS = "id, thread_id, target_task_id, target_seq, seq, archived, created_at, taken_back_at";

export function countBehind(sql: Sql, threadId: string, seq: number): RewindCounts {
  const counts = { checkpoints: 0, writes: 0, turns: 0, values: 0, tasks: 0 };
  for (const [name, table] of REWOUND) {
    const row = sql.get<{ n: number }>(`SELECT count(*) AS n FROM ${table} WHERE thread_id = ? AND seq > ?`, threadId, seq);
    counts[name] = row?.n ?? 0;
  }
  return counts;
}

/**
 * A kept row refers only to rows with a smaller seq, so deleting all above one seq leaves nothing dangling, values included. Rows that
 * something deleted had superseded come back to life.
 */
export function rewind(
  sql: Sql,
  plan: Omit<RewindRow, "seq" | "takenBackAt">,
  guard: (runs: readonly RunRow[], tasks: readonly TaskRow[]) => void,
): RewindCounts {
  const { threadId, targetSeq } = plan;
  guard(listRuns(sql, threadId), listTasks(sql, threadId));
  const counts = countBehind(sql, threadId, targetSeq);
  if (plan.archived) archive(sql, plan);
  for (const [, table] of REWOUND) sql.run(`DELETE FROM ${table} WHERE thread_id = ? AND seq > ?`, threadId, targetSeq);
  for (const table of SUPERSEDABLE) {
    sql.run(`UPDATE ${table} SET superseded_by = NULL WHERE thread_id = ? AND superseded_by > ?`, threadId, targetSeq);
  }
  sql.run("UPDATE langgraph_threads SET epoch = epoch + 1 WHERE thread_id = ?", threadId);
  sql.run(
    `INSERT INTO langgraph_rewinds (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)`,
    plan.id,
    threadId,
    plan.targetTaskId,
    topSeq(sql, threadId),
    sql.nextSeq(),
    plan.archived ? 1 : 0,
    plan.createdAt,
  );
  return counts;
}

/** The newest row of the thread. Rewinds and taking them back move whole stretches, so this one number tells how the thread stands. */
function topSeq(sql: Sql, threadId: string): number {
  const tops = REWOUND.map(
    ([, table]) =>
      sql.get<{ seq: number | null }>(`SELECT max(seq) AS seq FROM ${table} WHERE thread_id = ?`, threadId)?.seq ?? 0,
  );
  return Math.max(...tops);
}

function archive(sql: Sql, plan: { id: string; threadId: string; targetSeq: number }): void {
  const keep = (table: string, change: "deleted" | "revived", condition: string): void =>
    void sql.run(
      `INSERT INTO langgraph_archive (rewind_id, thread_id, ordinal, tbl, change, row)
        SELECT ?1, ?2, row_number() OVER (ORDER BY seq)
            + (SELECT coalesce(max(ordinal), 0) FROM langgraph_archive WHERE rewind_id = ?1), ?4, ?5, ${asJson(sql, table)}
          FROM ${table} WHERE thread_id = ?2 AND ${condition}`,
      plan.id,
      plan.threadId,
      plan.targetSeq,
      table,
      change,
    );
  for (const [, table] of REWOUND) keep(table, "deleted", "seq > ?3");
  for (const table of SUPERSEDABLE) keep(table, "revived", "superseded_by > ?3 AND seq <= ?3");
}

/** The row as a JSON object. Table and column names are the schema's own; values never enter the text. */
function asJson(sql: Sql, table: string): string {
  return `json_object(${columnsOf(sql, table)
    .map((column) => `'${column}', ${column}`)
    .join(", ")})`;
}

function columnsOf(sql: Sql, table: string): string[] {
  return sql.all<{ name: string }>("SELECT name FROM pragma_table_info(?) ORDER BY cid", table).map((row) => row.name);
}

export function listRewinds(sql: Sql, threadId: string): RewindRow[] {
  return sql.all<Row>(`SELECT ${COLUMNS} FROM langgraph_rewinds WHERE thread_id = ? ORDER BY seq`, threadId).map(toRewind);
}

/** Possible only while the thread stands exactly where the rewind left it. */
export function takeBack(sql: Sql, rewindId: string, at: string, guard: (runs: readonly RunRow[]) => void): RewindCounts {
  const raw = sql.get<Row>(`SELECT ${COLUMNS} FROM langgraph_rewinds WHERE id = ?`, rewindId);
  if (raw === undefined) throw unknownRewind(rewindId);
  const done = toRewind(raw);
  guard(listRuns(sql, done.threadId));
  refuseUnlessUndisturbed(sql, done);
  const rows = sql.all<{ tbl: string; change: string; row: string }>(
    "SELECT tbl, change, row FROM langgraph_archive WHERE rewind_id = ? ORDER BY ordinal",
    rewindId,
  );
  for (const { tbl, change, row } of rows) {
    if (change === "deleted") restore(sql, tbl, row);
    else supersedeAgain(sql, tbl, row);
  }
  sql.run("UPDATE langgraph_rewinds SET taken_back_at = ? WHERE id = ?", at, rewindId);
  sql.run("UPDATE langgraph_threads SET epoch = epoch + 1 WHERE thread_id = ?", done.threadId);
  sql.run("DELETE FROM langgraph_archive WHERE rewind_id = ?", rewindId);
  return countBehind(sql, done.threadId, done.targetSeq);
}

function restore(sql: Sql, table: string, row: string): void {
  const columns = columnsOf(sql, table);
  const values = columns.map((column) => `json_extract(?1, '$.${column}')`);
  sql.run(`INSERT INTO ${table} (${columns.join(", ")}) SELECT ${values.join(", ")}`, row);
}

function supersedeAgain(sql: Sql, table: string, row: string): void {
  const taskKey =
    table === "langgraph_writes"
      ? "AND node_task_id = json_extract(?1, '$.node_task_id') AND idx = json_extract(?1, '$.idx')"
      : "";
  sql.run(
    `UPDATE ${table} SET superseded_by = json_extract(?1, '$.superseded_by')
      WHERE thread_id = json_extract(?1, '$.thread_id') AND seq = json_extract(?1, '$.seq') ${taskKey}`,
    row,
  );
}

function refuseUnlessUndisturbed(sql: Sql, done: RewindRow): void {
  const top = topSeq(sql, done.threadId);
  let found: string | undefined;
  if (done.takenBackAt !== undefined) found = `a rewind already taken back at ${done.takenBackAt}`;
  else if (!done.archived) found = "a rewind made without an archive";
  else if (top > done.targetSeq) found = "newer work on the thread, or an earlier rewind that was taken back since";
  else if (top < done.targetSeq) found = "a later rewind that went further back";
  if (found === undefined) return;
  throw new TurnsError("REWIND_CONFLICT", {
    what: `taking back rewind ${done.id}`,
    expected: "the thread as that rewind left it",
    found,
    remedy: `Rewind to task ${JSON.stringify(done.targetTaskId)} again (or take back the later rewind), then take this one back.`,
    data: { rewindId: done.id, threadId: done.threadId },
  });
}

function unknownRewind(rewindId: string): TurnsError {
  return new TurnsError("REWIND_NOT_FOUND", {
    what: `rewind ${JSON.stringify(rewindId)}`,
    expected: "the id of a rewind on record",
    found: "none of that id",
    remedy: "saver.listRewinds(threadId) shows which there are.",
    data: { rewindId },
  });
}

function toRewind(row: Row): RewindRow {
  return {
    id: row.id,
    threadId: row.thread_id,
    targetTaskId: row.target_task_id,
    targetSeq: row.target_seq,
    seq: row.seq,
    archived: row.archived === 1,
    createdAt: row.created_at,
    takenBackAt: row.taken_back_at ?? undefined,
  };
}
