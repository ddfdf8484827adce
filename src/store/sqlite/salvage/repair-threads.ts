import { SNAPSHOT_ROWS, THREAD_ROWS, TURN_ROWS } from "../../rows";
import { firstSeq, ofThread } from "../../spans";
import { REWINDS, rowsOfThread, type Table, THREAD_TABLES } from "../../tables";
import type { SqliteSql } from "../engine";
import { countedRows, insertThread, newThread, NO_ROWS, type RawThread, verifiedThread } from "../../ops/thread-rows";
import { type RawSnapshot, toHead } from "../../ops/heads";
import { type RawTurn, toTurn } from "../../turn-rows";

const THREADS = THREAD_ROWS.select("");
const DELETE = "DELETE FROM langgraph_threads WHERE thread = ?";
const COUNTED = THREAD_TABLES.filter((table: Table) => table.counted !== undefined);
const NUMBERS = `${COUNTED.map(({ name }) => `SELECT thread FROM ${name}`).join(" UNION ")} EXCEPT SELECT thread FROM langgraph_threads`;
/** Wherever the id of a thread is written besides in its own row: by default it is the graph's name, too. */
const CANDIDATES = `SELECT graph_id AS id FROM langgraph_checkpoints WHERE thread = ?1 UNION SELECT graph_id FROM langgraph_tasks
  WHERE thread = ?1 UNION SELECT thread_id FROM langgraph_rewinds UNION SELECT thread_id FROM langgraph_archive LIMIT 10000`;
const SNAPSHOTS = SNAPSHOT_ROWS.select("WHERE thread = ? ORDER BY seq LIMIT 20");
const TURNS = TURN_ROWS.select("WHERE thread = ? ORDER BY seq LIMIT 20");
const EPOCH = `SELECT max(coalesce((SELECT max(epoch) FROM langgraph_effects WHERE thread = ?1), 0),
  coalesce((SELECT sum(1 + (taken_back_at IS NOT NULL)) FROM langgraph_rewinds WHERE thread_id = ?2), 0)) + 1 AS epoch`;
const NUMBERED = [...THREAD_TABLES, REWINDS].filter((table: Table) => table.columns["seq"] !== undefined);
const SEQS = NUMBERED.map(
  (table) => `SELECT max(seq) AS seq FROM ${table.name} WHERE ${rowsOfThread(table)} AND ${ofThread()}`,
).join(" UNION ALL ");
/** The newest seq of a thread's rows. */
const NEWEST = `SELECT max(seq) AS seq FROM (${SEQS}
  UNION ALL SELECT max(tried_seq) FROM langgraph_effects WHERE ${ofThread()} AND ${ofThread("tried_seq")})`;

export interface RepairedThreads {
  /** Numbers of threads whose row was made anew, and the ids they were found to have. */
  rebuilt: Map<number, string>;
  /** Numbers of threads of which nothing tells what they were called. */
  nameless: number[];
}

/**
 * The rows of threads are few, and all others hang on them. One that is damaged or gone is made anew where the rows of the thread prove
 * its id, by their checksums. What else it said is taken as carefully as can be: its checkpoints count as pruned, and its epoch as grown.
 * Where a whole row is older than others of its thread, its numbers go on behind theirs.
 */
export function repairThreads(sql: SqliteSql, createdAt: string): RepairedThreads {
  const rebuilt = new Map<number, string>();
  const nameless: number[] = [];
  const ids = new Map<number, string>();
  for (const row of sql.now(sql.all<RawThread>(THREADS))) {
    const seq = isWhole(sql, row) ? newestOf(sql, row.thread, row.thread_id) : undefined;
    if (seq !== undefined && seq <= row.seq) continue;
    sql.now(sql.run(DELETE, row.thread));
    if (seq !== undefined) sql.now(insertThread(sql, { ...THREAD_ROWS.unverified(undefined, row), seq }));
    else ids.set(row.thread, row.thread_id);
  }
  for (const [thread] of sql.now(sql.rows<[number]>(NUMBERS))) {
    const candidates = sql.now(sql.rows<[string]>(CANDIDATES, thread)).map(([id]) => id);
    const known = ids.get(thread);
    const id = [...(known === undefined ? [] : [known]), ...candidates].find((one) => isProven(sql, thread, one));
    if (id === undefined || sql.now(sql.get("SELECT 1 FROM langgraph_threads WHERE thread_id = ?", id)) !== undefined) {
      nameless.push(thread);
      continue;
    }
    const epoch = sql.now(sql.get<{ epoch: number }>(EPOCH, thread, id))?.epoch ?? 1;
    const [seq, prunedSeq] = [newestOf(sql, thread, id), firstSeq(thread)];
    const counts = sql.now(countedRows(sql, { thread, threadId: id })) ?? NO_ROWS;
    sql.now(insertThread(sql, { ...newThread(sql, thread, id, createdAt), seq, epoch, prunedSeq, unswept: 1, ...counts }));
    rebuilt.set(thread, id);
  }
  return { rebuilt, nameless };
}

function isWhole(sql: SqliteSql, row: RawThread): boolean {
  return succeeds(() => sql.now(verifiedThread(sql, row.thread_id, row)));
}

/** The last number that a row of the thread has. */
function newestOf(sql: SqliteSql, thread: number, threadId: string): number {
  const seq = sql.now(sql.get<{ seq: number | null }>(NEWEST, thread, threadId))?.seq ?? firstSeq(thread);
  return seq - firstSeq(thread);
}

function isProven(sql: SqliteSql, thread: number, threadId: string): boolean {
  return (
    sql.now(sql.all<RawSnapshot>(SNAPSHOTS, thread)).some((row) => succeeds(() => toHead(sql, threadId, row))) ||
    sql.now(sql.all<RawTurn>(TURNS, thread)).some((row) => succeeds(() => toTurn(sql, row, threadId)))
  );
}

export function succeeds(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}
