import { corrupted } from "../checksum";
import type { CheckpointHead } from "../store";
import { type Row, SNAPSHOT_COLUMNS, toHead } from "./snapshot-rows";
import type { Program, Sql } from "./sql";
import { type ThreadKey, threadKey } from "./thread-keys";
import { type RawTurn, toTurn, TURN_COLUMNS } from "./turn-rows";
import { openWrites, type PlacedWrites, WRITE_COLUMNS } from "./write-rows";

/** What `langgraph_threads` counts of a thread, and where. */
export const COUNTED = {
  snapshots: "SELECT count(*) FROM langgraph_snapshots INDEXED BY langgraph_snapshots_by_seq WHERE thread = ?1",
  writes: "SELECT count(*) FROM langgraph_writes INDEXED BY langgraph_writes_by_seq WHERE thread = ?1",
  /** One without a number would be read by nobody. */
  turns: "SELECT count(seq) FROM langgraph_checkpoints INDEXED BY langgraph_checkpoints_by_thread WHERE thread = ?1",
  effects: "SELECT count(*) FROM langgraph_effects INDEXED BY langgraph_effects_by_seq WHERE thread = ?1",
  others: `SELECT (SELECT count(*) FROM langgraph_tasks WHERE thread = ?1) + (SELECT count(*) FROM langgraph_names WHERE thread = ?1)
    + (SELECT count(*) FROM langgraph_rewinds WHERE thread_id = ?2)`,
} as const;
type Counts = Record<keyof typeof COUNTED, number>;
const KINDS = Object.keys(COUNTED) as (keyof typeof COUNTED)[];

const THERE = `SELECT ${KINDS.map((kind) => `(${COUNTED[kind]}) AS ${kind}`).join(", ")}`;
const ON_RECORD = `SELECT ${KINDS.join(", ")} FROM langgraph_threads WHERE thread = ?`;
const RECOUNT = `UPDATE langgraph_threads SET ${KINDS.map((kind) => `${kind} = (${COUNTED[kind]})`).join(", ")} WHERE thread = ?1`;
const HEAD = `SELECT seq, position FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ''
  ORDER BY position DESC, seq DESC LIMIT 1`;
const SNAPSHOTS_SINCE = `SELECT ${SNAPSHOT_COLUMNS} FROM langgraph_snapshots WHERE thread = ? AND seq > ? ORDER BY seq`;
const WRITES_SINCE = `SELECT ${WRITE_COLUMNS} FROM langgraph_writes
  WHERE thread = ? AND seq > ? ORDER BY seq`;
/** By which index rows are looked up that another one counts, and by which columns. */
const LOOKED_UP = [
  ["langgraph_snapshots", "langgraph_snapshots_by_thread", "checkpoint_ns, checkpoint_id"],
  ["langgraph_snapshots", "langgraph_snapshots_by_position", "checkpoint_ns, position"],
  ["langgraph_writes", "langgraph_writes_by_checkpoint", "checkpoint_ns, checkpoint_id"],
  ["langgraph_checkpoints", "langgraph_checkpoints_by_node_task", "node_task_id"],
  ["langgraph_checkpoints", "sqlite_autoindex_langgraph_checkpoints_1", "id"],
  ["langgraph_effects", "langgraph_effects_by_label", "node_task_id, name, label"],
] as const;
const NOT_FOUND = LOOKED_UP.map(([table, index, columns]) => {
  const same = columns.split(", ").map((column) => `x.${column} IS w.${column}`);
  return [
    table,
    `SELECT seq FROM ${table} AS w WHERE thread = ? AND seq > ? AND NOT EXISTS (SELECT 1 FROM ${table} AS x INDEXED BY ${index}
      WHERE x.thread = w.thread AND ${same.join(" AND ")} AND x.seq = w.seq) LIMIT 1`,
  ] as const;
});
/** So many rows of a kind are looked at, the newest ones, so that a thread without end does not take longer and longer to begin with. */
const LOOKED_AT = 5_000;
/** With durability "exit" a crash leaves such writes; others were moved here from where they belong. */
const STRAY_WRITES = `SELECT ${WRITE_COLUMNS} FROM langgraph_writes AS w
  WHERE thread = ? AND seq > ? AND seq <= ? AND NOT EXISTS (SELECT 1 FROM langgraph_snapshots AS s
    WHERE s.thread = w.thread AND s.checkpoint_ns = w.checkpoint_ns AND s.checkpoint_id = w.checkpoint_id)`;
const IN_NS = "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? LIMIT 1";
const IN_THREAD = "SELECT 1 FROM langgraph_snapshots WHERE checkpoint_id = ? AND thread = ? LIMIT 1";
const TURNS_SINCE = `SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints WHERE thread = ? AND seq > ? ORDER BY seq`;

/** All checkpoints of a thread, once for a connection: for whoever does not find one that he was told of. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function* verifyHeads(sql: Sql, { thread, threadId }: ThreadKey): Program<void> {
  if (sql.searched.has(thread)) return;
  for (const row of yield* sql.all<Row>(SNAPSHOTS_SINCE, thread, 0)) toHead(sql, threadId, row);
  sql.searched.add(thread);
}

/**
 * A parent that is not where it should be, and not pruned either, but elsewhere in the thread: its row was changed.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* verifyParent(sql: Sql, thread: number, { threadId, ns, parentId }: CheckpointHead): Program<void> {
  if (parentId === undefined || (yield* sql.get(IN_NS, thread, ns, parentId)) !== undefined) return;
  if ((yield* sql.get(IN_THREAD, parentId, thread)) === undefined) return;
  throw corrupted(`checkpoint ${parentId} of thread ${threadId}`, "a row in the namespace of its child", "one elsewhere", {
    threadId,
    ns,
  });
}

/**
 * The thread, for those that read it or go on from it. A damaged row tells by its checksum, but only to those who find it: one that was
 * lost, or moved to where nobody looks, would make the thread look like an older state of itself. So when a connection first comes to a
 * thread, it is held against the numbers that are on record of it, its newest rows are looked up as others will, and whatever is newer
 * than its newest checkpoint is verified, wherever it stands: that is what a resume goes on from. Whoever only removes, or rewinds behind the damage, does not ask.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* wholeThread(sql: Sql, threadId: string): Program<ThreadKey | undefined> {
  const key = yield* threadKey(sql, threadId);
  if (key === undefined || sql.counted.has(key.thread)) return key;
  const wrong = yield* miscounted(sql, key);
  if (wrong !== undefined) throw lost(threadId, `${wrong.expected} rows of ${wrong.kind}`, `${wrong.found}`);
  if (!sql.created.delete(key.thread)) yield* verifyNewest(sql, key);
  sql.counted.add(key.thread);
  return key;
}

/** How many rows there are of the thread, by what is on record. */
export function* countsOf(sql: Sql, { thread }: Pick<ThreadKey, "thread">): Program<Counts | undefined> {
  return yield* sql.get<Counts>(ON_RECORD, thread);
}

/** How many rows there are under the thread's number, counted. */
export function* countedRows(
  sql: Sql,
  { thread, threadId }: Pick<ThreadKey, "thread" | "threadId">,
): Program<Counts | undefined> {
  return yield* sql.get<Counts>(THERE, thread, threadId);
}

/** The first kind of rows of which there are more, or fewer, than on record. */
export function* miscounted(
  sql: Sql,
  { thread, threadId }: Pick<ThreadKey, "thread" | "threadId">,
): Program<{ kind: string; expected: number; found: number } | undefined> {
  const recorded = yield* countsOf(sql, { thread });
  const there = yield* countedRows(sql, { thread, threadId });
  if (recorded === undefined || there === undefined) return undefined;
  const kind = KINDS.find((one) => recorded[one] !== there[one]);
  return kind && { kind, expected: recorded[kind], found: there[kind] };
}

/** After a rewind what is there is what there is to be: what was lost behind its target is of no account any more. */
export function* recount(sql: Sql, { thread, threadId }: ThreadKey): Program<void> {
  yield* sql.run(RECOUNT, thread, threadId);
  sql.counted.delete(thread);
}

/** The number behind which rows are looked at. */
function* oldest(sql: Sql, thread: number, table: string): Program<number> {
  const at = `SELECT seq FROM ${table} WHERE thread = ? AND seq > 0 ORDER BY seq DESC LIMIT 1 OFFSET ${LOOKED_AT}`;
  return (yield* sql.get<{ seq: number }>(at, thread))?.seq ?? 0;
}

function* verifyNewest(sql: Sql, key: ThreadKey): Program<void> {
  const { thread, threadId } = key;
  for (const [table, unfound] of NOT_FOUND) {
    const row = yield* sql.get<{ seq: number }>(unfound, thread, yield* oldest(sql, thread, table));
    if (row !== undefined) throw lost(threadId, `the row ${row.seq} of ${table} where it is looked up`, "an index without it");
  }
  const head = yield* sql.get<{ seq: number; position: number }>(HEAD, thread);
  for (const row of yield* sql.all<Row>(SNAPSHOTS_SINCE, thread, head?.seq ?? 0)) {
    const { ns, checkpointId, position } = toHead(sql, threadId, row);
    if (ns !== "" || (head !== undefined && position <= head.position)) continue;
    throw lost(threadId, `checkpoint ${checkpointId} where it is looked up`, "an index without it");
  }
  const since = yield* sql.all<PlacedWrites>(WRITES_SINCE, thread, head?.seq ?? 0);
  const strays = yield* sql.all<PlacedWrites>(
    STRAY_WRITES,
    thread,
    yield* oldest(sql, thread, "langgraph_writes"),
    head?.seq ?? 0,
  );
  for (const row of [...strays, ...since]) {
    openWrites(sql, threadId, row, row.checkpoint_ns, row.checkpoint_id);
  }
  for (const row of yield* sql.all<RawTurn>(TURNS_SINCE, thread, head?.seq ?? 0)) yield* toTurn(sql, row, threadId);
}

function lost(threadId: string, expected: string, found: string): Error {
  return corrupted(`thread ${JSON.stringify(threadId)}`, expected, found, { threadId });
}
