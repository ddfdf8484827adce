import { TurnsError } from "../../errors";
import type { Program } from "../program";
import { prunedBehind, unknownThread } from "../refusals";
import type { Sql } from "../session";
import type { NewRewind, RewindCounts, RewindRow, RewindStanding, RunRow, TakeBackStanding } from "../store";
import { NAMES, REWOUND, REWOUND_AND_COUNTED, rowsOfThread, VERSIONED } from "../tables";
import type { ThreadKey } from "../thread-state";
import { archiveRewound, archiveRows, restoreArchive, sealArchive } from "./archive";
import { effectsBehind } from "./effects";
import { changeRewind, rewindOf, saveRewind, unfinishedRewind } from "./rewind-records";
import { clearRuns, listRuns } from "./runs";
import { listTasks } from "./tasks";
import { growEpoch, outdate, threadKey, recount } from "./thread-rows";

const NAMES_NOTHING = `NOT EXISTS (SELECT 1 FROM langgraph_snapshots AS s
  WHERE s.thread = ?1 AND s.checkpoint_ns = langgraph_names.checkpoint_ns AND s.checkpoint_id = langgraph_names.checkpoint_id)`;
const DROP_NAMES = `DELETE FROM langgraph_names WHERE thread = ?1 AND ${NAMES_NOTHING}`;
const UNDONE = `SELECT json_extract(row, '$.id') AS id, json_extract(row, '$.name') AS name, json_extract(row, '$.node_name') AS node
  FROM langgraph_archive WHERE rewind_id = ? AND tbl = 'langgraph_effects' AND json_extract(row, '$.undo_status') = 'done'
  ORDER BY ordinal DESC`;

const SAVED = `SELECT min(seq) AS seq FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ?`;
/** LangGraph's task id for writes that are no node's: what a Command brought as input. */
const NO_NODE = "00000000-0000-0000-0000-000000000000";
/**
 * What was first done on the grounds of a checkpoint: a node task begun or ended, an effect, or the checkpoint that came next in its
 * namespace. Input that a Command saved beside the checkpoint is none of it.
 */
const FIRST_DEED = `SELECT min(seq) AS seq FROM (
  SELECT min(seq) AS seq FROM langgraph_checkpoints
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3 AND seq > ?4
  UNION ALL SELECT min(seq) FROM langgraph_writes
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3 AND seq > ?4 AND node_task_id <> '${NO_NODE}'
  UNION ALL SELECT min(seq) FROM langgraph_effects WHERE thread = ?1 AND anchor = ?3 AND ?2 = '' AND seq > ?4
  UNION ALL SELECT min(seq) FROM langgraph_snapshots
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id <> ?3 AND seq > ?4)`;

export function* countBehind(sql: Sql, threadId: string, seq: number): Program<RewindCounts> {
  const counts = { checkpoints: 0, writes: 0, turns: 0, values: 0, tasks: 0, effects: 0 };
  const key = yield* threadKey(sql, threadId);
  if (key === undefined) return counts;
  for (const table of REWOUND_AND_COUNTED) {
    const text = `SELECT count(*) AS n FROM ${table.name} WHERE ${rowsOfThread(table)} AND seq > ?2`;
    counts[table.called] = (yield* sql.get<{ n: number }>(text, key.thread, seq))?.n ?? 0;
  }
  return counts;
}

/**
 * A kept row refers only to rows with a smaller seq, so deleting all above one seq leaves nothing dangling, values included. Rows that
 * something deleted had superseded come back to life.
 */
export function* rewind(sql: Sql, plan: NewRewind, guard: (found: RewindStanding) => readonly RunRow[]): Program<RewindCounts> {
  const { threadId, targetSeq } = plan;
  const key = yield* threadKey(sql, threadId);
  if (key === undefined) throw unknownThread(threadId);
  yield* clearRuns(sql, guard(yield* standing(sql, plan)));
  const counts = yield* countBehind(sql, threadId, targetSeq);
  refuseBehindPruned(key, targetSeq);
  if (plan.archived) yield* archiveRewound(sql, plan, key);
  for (const table of REWOUND)
    yield* sql.run(`DELETE FROM ${table.name} WHERE ${rowsOfThread(table)} AND seq > ?2`, key.thread, targetSeq);
  for (const table of VERSIONED) {
    const revive = `UPDATE ${table.name} SET superseded_by = NULL WHERE ${rowsOfThread(table)} AND superseded_by > ?2`;
    yield* sql.run(revive, key.thread, targetSeq);
  }
  if (plan.archived) yield* archiveRows(sql, plan, key, { table: NAMES, change: "deleted", which: NAMES_NOTHING, by: "name" });
  yield* sql.run(DROP_NAMES, key.thread);
  growEpoch(key);
  outdate(key);
  yield* recount(sql, key);
  yield* saveRewind(sql, key, plan, "done", yield* topSeq(sql, key), yield* sealArchive(sql, plan));
  return counts;
}

/**
 * Puts a rewind on record that has effects to undo first. The epoch grows at once: what is undone from here on, and is done again, has
 * another key.
 */
export function* beginRewind(sql: Sql, plan: NewRewind, guard: (found: RewindStanding) => readonly RunRow[]): Program<RewindRow> {
  const key = yield* threadKey(sql, plan.threadId);
  if (key === undefined) throw unknownThread(plan.threadId);
  yield* clearRuns(sql, guard(yield* standing(sql, plan)));
  refuseBehindPruned(key, plan.targetSeq);
  growEpoch(key);
  return yield* saveRewind(sql, key, plan, "undoing", plan.targetSeq);
}

/** The epoch grows once more, for what was begun since, and undone. */
export function* abandonRewind(
  sql: Sql,
  rewindId: string,
  guard: (rewind: RewindRow, found: RewindStanding) => readonly RunRow[],
): Program<void> {
  const begun = yield* rewindOf(sql, rewindId);
  yield* clearRuns(sql, guard(begun, yield* standing(sql, begun)));
  yield* changeRewind(sql, rewindId, { status: "abandoned" });
  const key = yield* threadKey(sql, begun.threadId);
  if (key !== undefined) growEpoch(key);
}

function* standing(sql: Sql, { threadId, targetSeq }: Pick<RewindRow, "threadId" | "targetSeq">): Program<RewindStanding> {
  return {
    runs: yield* listRuns(sql, threadId),
    tasks: yield* listTasks(sql, threadId),
    effects: yield* effectsBehind(sql, threadId, targetSeq),
    unfinished: yield* unfinishedRewind(sql, threadId),
  };
}

/** The newest row of the thread. Rewinds and taking them back move whole stretches, so this one number tells how the thread stands. */
function* topSeq(sql: Sql, key: ThreadKey): Program<number> {
  let top = 0;
  for (const table of REWOUND_AND_COUNTED) {
    const text = `SELECT max(seq) AS seq FROM ${table.name} WHERE ${rowsOfThread(table)}`;
    const row = yield* sql.get<{ seq: number | null }>(text, key.thread);
    top = Math.max(top, row?.seq ?? 0);
  }
  return top;
}

/** Possible only while the thread stands exactly where the rewind left it. */
export function* takeBack(
  sql: Sql,
  rewindId: string,
  at: string,
  guard: (rewind: RewindRow, found: TakeBackStanding) => readonly RunRow[],
): Program<RewindCounts> {
  const done = yield* rewindOf(sql, rewindId);
  const { threadId } = done;
  const undone = yield* sql.all<TakeBackStanding["undone"][number]>(UNDONE, rewindId);
  yield* clearRuns(
    sql,
    guard(done, { runs: yield* listRuns(sql, threadId), unfinished: yield* unfinishedRewind(sql, threadId), undone }),
  );
  const key = yield* threadKey(sql, done.threadId);
  if (key === undefined) throw unknownThread(done.threadId);
  yield* refuseUnlessUndisturbed(sql, done, key);
  yield* restoreArchive(sql, done);
  yield* changeRewind(sql, rewindId, { takenBackAt: at });
  growEpoch(key);
  outdate(key);
  yield* recount(sql, key);
  return yield* countBehind(sql, done.threadId, done.targetSeq);
}

function* refuseUnlessUndisturbed(sql: Sql, done: RewindRow, key: ThreadKey): Program {
  const top = yield* topSeq(sql, key);
  let found: string | undefined;
  if (done.status !== "done") found = "a rewind that was given up, or is not done yet";
  else if (done.takenBackAt !== undefined) found = `a rewind already taken back at ${done.takenBackAt}`;
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

/** What a prune removed can't be gone back to. @throws {TurnsError} CHECKPOINT_NOT_FOUND */
function refuseBehindPruned(key: ThreadKey, targetSeq: number): void {
  if (key.row.prunedSeq > targetSeq) throw prunedBehind(key.threadId);
}

/** No rewind reaches behind it: 0 if nothing was pruned, undefined if there is no such thread. */
export function* prunedSeq(sql: Sql, threadId: string): Program<number | undefined> {
  const key = yield* threadKey(sql, threadId);
  return key && key.row.prunedSeq;
}

/**
 * Where to rewind to so that a checkpoint stands as it did before anything was done on its grounds: with the input that came with it,
 * and without what its node tasks, and all that they led to, have left.
 *
 * @returns the seq behind which all is to go; Infinity if nothing was done yet; undefined if there is no such checkpoint
 */
export function* seqBeforeDeeds(sql: Sql, threadId: string, ns: string, checkpointId: string): Program<number | undefined> {
  const key = yield* threadKey(sql, threadId);
  const saved = key && (yield* sql.get<{ seq: number | null }>(SAVED, key.thread, ns, checkpointId))?.seq;
  if (key === undefined || saved === undefined || saved === null) return undefined;
  const first = (yield* sql.get<{ seq: number | null }>(FIRST_DEED, key.thread, ns, checkpointId, saved))?.seq ?? Infinity;
  return first - 1;
}
