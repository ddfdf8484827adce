import { TurnsError } from "../../errors";
import { rowChecksum } from "../checksum";
import type { ThreadRow } from "../store";
import type { Sql } from "./sql";
import { insertTurn, type RawTurn, toTurn, TURN_COLUMNS } from "./turn-rows";

/** Every table that has rows of a thread. */
export const THREAD_TABLES = [
  "langgraph_snapshots",
  "langgraph_values",
  "langgraph_writes",
  "langgraph_checkpoints",
  "langgraph_tasks",
  "langgraph_runs",
  "langgraph_rewinds",
  "langgraph_archive",
  "langgraph_threads",
] as const;

interface Row {
  thread_id: string;
  created_at: string;
  epoch: number;
  checkpoints: number;
  turns: number;
  tasks: number;
}

const SELECT = `SELECT thread_id, created_at, epoch,
    (SELECT count(*) FROM langgraph_snapshots AS s WHERE s.thread_id = t.thread_id AND s.superseded_by IS NULL) AS checkpoints,
    (SELECT count(*) FROM langgraph_checkpoints AS c WHERE c.thread_id = t.thread_id) AS turns,
    (SELECT count(DISTINCT task_id) FROM langgraph_tasks AS k WHERE k.thread_id = t.thread_id) AS tasks
  FROM langgraph_threads AS t`;
const PAGE = `${SELECT} WHERE thread_id > ? ORDER BY thread_id LIMIT ?`;
const ONE = `${SELECT} WHERE thread_id = ?`;

export function listThreads(sql: Sql, query: { after: string | undefined; limit: number }): ThreadRow[] {
  return sql.all<Row>(PAGE, query.after ?? "", query.limit).map(toThread);
}

export function getThread(sql: Sql, threadId: string): ThreadRow | undefined {
  const row = sql.get<Row>(ONE, threadId);
  return row === undefined ? undefined : toThread(row);
}

export function deleteThread(sql: Sql, threadId: string): void {
  for (const table of THREAD_TABLES) sql.run(`DELETE FROM ${table} WHERE thread_id = ?`, threadId);
}

/**
 * Copies a thread under another id: checkpoints of all namespaces, their values and writes, tasks and turns. The copies take new
 * seqs in the old order. Superseded rows go along, so that a rewind of the copy is as exact as one of the source; archives stay behind.
 */
export function copyThread(sql: Sql, sourceId: string, targetId: string, createdAt: string, createId: () => string): void {
  const source = getThread(sql, sourceId);
  if (source === undefined) throw unknownThread(sourceId);
  if (getThread(sql, targetId) !== undefined) throw threadExists(targetId);
  const shift = shiftOf(sql, sourceId);
  sql.run("INSERT INTO langgraph_threads (thread_id, created_at) VALUES (?, ?)", targetId, createdAt);
  sql.run(
    `INSERT INTO langgraph_tasks (thread_id, seq, task_id, graph_id, kind, created_at)
      SELECT ?1, seq + ?3, task_id, CASE graph_id WHEN ?2 THEN ?1 ELSE graph_id END, kind, created_at
      FROM langgraph_tasks WHERE thread_id = ?2`,
    targetId,
    sourceId,
    shift,
  );
  sql.run(
    `INSERT INTO langgraph_values (thread_id, hash, seq, value)
      SELECT ?1, hash, seq + ?3, value FROM langgraph_values WHERE thread_id = ?2`,
    targetId,
    sourceId,
    shift,
  );
  copySnapshots(sql, sourceId, targetId, shift);
  copyWrites(sql, sourceId, targetId, shift);
  const turns = sql.all<RawTurn>(`SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints WHERE thread_id = ? ORDER BY seq`, sourceId);
  for (const turn of turns.map(toTurn)) {
    const graphId = turn.graphId === sourceId ? targetId : turn.graphId;
    insertTurn(sql, { ...turn, id: createId(), graphId, threadId: targetId, seq: (turn.seq ?? 0) + shift });
  }
}

/** Reserves seqs for the copy and returns what to add to a source row's seq. */
function shiftOf(sql: Sql, sourceId: string): number {
  const highest = sql.get<{ seq: number }>("SELECT value AS seq FROM langgraph_sequence WHERE id = 1")?.seq ?? 0;
  const lowest =
    sql.get<{ seq: number }>("SELECT coalesce(min(seq), 1) AS seq FROM langgraph_tasks WHERE thread_id = ?", sourceId)?.seq ?? 1;
  sql.nextSeq(highest - lowest + 1);
  return highest - lowest + 1;
}

interface SnapshotRow {
  checkpoint_ns: string;
  checkpoint_id: string;
  seq: number;
  superseded_by: number | null;
  parent_checkpoint_id: string | null;
  source: string;
  step: number;
  run_id: string | null;
  body: string;
  channels: string;
  metadata: string;
}

function copySnapshots(sql: Sql, sourceId: string, targetId: string, shift: number): void {
  const rows = sql.all<SnapshotRow>(
    `SELECT checkpoint_ns, checkpoint_id, seq + ?2 AS seq, superseded_by + ?2 AS superseded_by, parent_checkpoint_id, source, step,
        run_id, body, channels, metadata
      FROM langgraph_snapshots WHERE thread_id = ?1`,
    sourceId,
    shift,
  );
  for (const row of rows) {
    sql.run(
      `INSERT INTO langgraph_snapshots (thread_id, checkpoint_ns, checkpoint_id, seq, superseded_by, parent_checkpoint_id, source,
        step, run_id, body, channels, metadata, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      targetId,
      row.checkpoint_ns,
      row.checkpoint_id,
      row.seq,
      row.superseded_by,
      row.parent_checkpoint_id,
      row.source,
      row.step,
      row.run_id,
      row.body,
      row.channels,
      row.metadata,
      rowChecksum(targetId, row.checkpoint_ns, row.checkpoint_id, row.parent_checkpoint_id, row.body, row.channels, row.metadata),
    );
  }
}

interface WriteRow {
  checkpoint_ns: string;
  checkpoint_id: string;
  node_task_id: string;
  idx: number;
  seq: number;
  superseded_by: number | null;
  channel: string;
  value: string;
}

function copyWrites(sql: Sql, sourceId: string, targetId: string, shift: number): void {
  const rows = sql.all<WriteRow>(
    `SELECT checkpoint_ns, checkpoint_id, node_task_id, idx, seq + ?2 AS seq, superseded_by + ?2 AS superseded_by, channel, value
      FROM langgraph_writes WHERE thread_id = ?1`,
    sourceId,
    shift,
  );
  for (const row of rows) {
    sql.run(
      `INSERT INTO langgraph_writes (thread_id, checkpoint_ns, checkpoint_id, node_task_id, idx, seq, superseded_by, channel, value,
        checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      targetId,
      row.checkpoint_ns,
      row.checkpoint_id,
      row.node_task_id,
      row.idx,
      row.seq,
      row.superseded_by,
      row.channel,
      row.value,
      rowChecksum(targetId, row.checkpoint_ns, row.checkpoint_id, row.node_task_id, row.idx, row.channel, row.value),
    );
  }
}

function toThread(row: Row): ThreadRow {
  const { thread_id: threadId, created_at: createdAt, epoch, checkpoints, turns, tasks } = row;
  return { threadId, createdAt, epoch, checkpoints, turns, tasks };
}

export function unknownThread(threadId: string): TurnsError {
  return new TurnsError("THREAD_NOT_FOUND", {
    what: `thread ${JSON.stringify(threadId)}`,
    expected: "a thread of this database",
    found: "no such thread",
    remedy: "saver.listThreads() shows which there are.",
    data: { threadId },
  });
}

function threadExists(threadId: string): TurnsError {
  return new TurnsError("THREAD_EXISTS", {
    what: `thread ${JSON.stringify(threadId)}`,
    expected: "an id that is not in use",
    found: "a thread of that id",
    remedy: "Copy to another id, or delete that thread first.",
    data: { threadId },
  });
}
