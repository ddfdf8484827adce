import { TurnsError } from "../../errors";
import { NULL_TASK_ID } from "../../system";
import { type Program, question, type Statement } from "../program";
import { prunedBehind, unknownThread } from "../refusals";
import type { Session } from "../session";
import type { NewRewind, RewindCounts, RewindRow, RewindStanding, RunRow, TakeBackStanding } from "../store";
import { type EFFECTS, NAMES, type RawOf, REWOUND, REWOUND_AND_COUNTED, rowsOfThread, VERSIONED } from "../tables";
import type { ThreadState } from "../thread-state";
import { archiveRewound, archiveRows, restoreArchive } from "./archive";
import { effectsBehind, effectsQuestions } from "./effects";
import { forgetRecovery } from "./recoveries";
import { archivedRow } from "./row-references";
import { changeRewind, rewindOf, rewindsQuestion, savedQuestion, saveRewind, unfinishedRewind } from "./rewind-records";
import { clearRuns } from "./runs";
import { countedQuestion, recount } from "./row-counts";
import {
  aboutThread,
  growEpoch,
  listRuns,
  listTasks,
  outdate,
  runQuestions,
  tasksQuestion,
  threadKey,
  threadOrSignpost,
} from "./thread-rows";

const NAMES_NOTHING = `NOT EXISTS (SELECT 1 FROM langgraph_snapshots AS s
  WHERE s.thread = ?1 AND s.checkpoint_ns = langgraph_names.checkpoint_ns AND s.checkpoint_id = langgraph_names.checkpoint_id)`;
const DROP_NAMES = `DELETE FROM langgraph_names WHERE thread = ?1 AND ${NAMES_NOTHING}`;
const ARCHIVED_EFFECTS =
  "SELECT row FROM langgraph_archive WHERE rewind_id = ? AND tbl = 'langgraph_effects' ORDER BY ordinal DESC";

const SAVED = `SELECT min(seq) AS seq FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ?`;
/**
 * The first work on top of a checkpoint: a node task that started or finished, an effect, or the next checkpoint of its
 * namespace. Input that a Command saved beside the checkpoint doesn't count.
 */
const FIRST_WORK = `SELECT min(seq) AS seq FROM (
  SELECT min(seq) AS seq FROM langgraph_checkpoints
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3 AND seq > ?4
  UNION ALL SELECT min(seq) FROM langgraph_writes
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3 AND seq > ?4 AND node_task_id <> '${NULL_TASK_ID}'
  UNION ALL SELECT min(seq) FROM langgraph_effects WHERE thread = ?1 AND anchor = ?3 AND ?2 = '' AND seq > ?4
  UNION ALL SELECT min(seq) FROM langgraph_snapshots
    WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id <> ?3 AND seq > ?4) AS work`;

export function* countBehind(session: Session, threadId: string, seq: number): Program<RewindCounts> {
  const counts = { checkpoints: 0, writes: 0, turns: 0, values: 0, tasks: 0, effects: 0 };
  const asked = (thread: number): Statement[] => countQuestions(thread, seq);
  yield* aboutThread(session, threadId, asked, function* ({ thread }) {
    for (const [at, { text, values }] of countQuestions(thread, seq).entries()) {
      const { called } = REWOUND_AND_COUNTED[at] as (typeof REWOUND_AND_COUNTED)[number];
      counts[called] = (yield* session.get<{ n: number }>(text, ...values))?.n ?? 0;
    }
  });
  return counts;
}

/** How many rows of each table are behind a seq. */
function countQuestions(thread: number, seq: number): Statement[] {
  return REWOUND_AND_COUNTED.map((table) =>
    question("one", `SELECT count(*) AS n FROM ${table.name} WHERE ${rowsOfThread(table)} AND seq > ?2`, thread, seq),
  );
}

/**
 * A kept row refers only to rows with a smaller seq, so deleting everything above one seq leaves nothing dangling, values
 * included. Rows that a deleted row had superseded become current again.
 */
export function* rewind(
  session: Session,
  plan: NewRewind,
  guard: (found: RewindStanding) => readonly RunRow[],
): Program<RewindCounts> {
  const { threadId, targetSeq } = plan;
  const asked = (thread: number): Statement[] => [
    ...standingQuestions(session, plan, thread),
    ...countQuestions(thread, targetSeq),
  ];
  const removed = yield* aboutThread(session, threadId, asked, (key) => rewindThread(session, plan, key, guard));
  if (removed === undefined) throw unknownThread(threadId);
  return removed;
}

function* rewindThread(
  session: Session,
  plan: NewRewind,
  key: ThreadState,
  guard: (found: RewindStanding) => readonly RunRow[],
): Program<RewindCounts> {
  const { threadId, targetSeq } = plan;
  const dead = guard(yield* standing(session, plan));
  const counts = yield* countBehind(session, threadId, targetSeq);
  refuseBehindPruned(key, plan);
  yield* clearRuns(session, dead);
  let entries = plan.archived ? yield* archiveRewound(session, plan, key) : 0;
  for (const table of REWOUND)
    yield* session.run(`DELETE FROM ${table.name} WHERE ${rowsOfThread(table)} AND seq > ?2`, key.thread, targetSeq);
  for (const table of VERSIONED) {
    const revive = `UPDATE ${table.name} SET superseded_by = NULL WHERE ${rowsOfThread(table)} AND superseded_by > ?2`;
    yield* session.run(revive, key.thread, targetSeq);
  }
  if (plan.archived)
    entries = yield* archiveRows(session, plan, key, entries, [
      { table: NAMES, change: "deleted", by: ["name"], which: `${NAMES_NOTHING} AND CAST(?2 AS BIGINT) IS NOT NULL` },
    ]);
  yield* session.run(DROP_NAMES, key.thread);
  yield* forgetRecovery(session, key);
  growEpoch(key);
  outdate(key);
  const left = [countedQuestion(key), ...topQuestions(key), savedQuestion(plan)];
  yield* session.expecting(left, recorded(session, key, plan, entries));
  return counts;
}

function* recorded(session: Session, key: ThreadState, plan: NewRewind, entries: number): Program<void> {
  yield* recount(session, key);
  yield* saveRewind(session, key, plan, "done", yield* topSeq(session, key), entries);
}

/**
 * Records a rewind that has effects to undo first. The epoch grows at once: if something is undone from here on and done again,
 * it gets another key.
 */
export function* beginRewind(
  session: Session,
  plan: NewRewind,
  guard: (found: RewindStanding) => readonly RunRow[],
): Program<RewindRow> {
  const asked = (thread: number): Statement[] => [...standingQuestions(session, plan, thread), savedQuestion(plan)];
  const begun = yield* aboutThread(session, plan.threadId, asked, function* (key) {
    const dead = guard(yield* standing(session, plan));
    refuseBehindPruned(key, plan);
    growEpoch(key);
    const row = yield* saveRewind(session, key, plan, "undoing", plan.targetSeq);
    yield* clearRuns(session, dead);
    return row;
  });
  if (begun === undefined) throw unknownThread(plan.threadId);
  return begun;
}

/** The epoch grows once more, for effects that were started since and undone. */
export function* abandonRewind(
  session: Session,
  rewindId: string,
  guard: (rewind: RewindRow, found: RewindStanding) => readonly RunRow[],
): Program<void> {
  const begun = yield* rewindOf(session, rewindId);
  yield* clearRuns(session, guard(begun, yield* standing(session, begun)));
  yield* changeRewind(session, rewindId, { status: "abandoned" });
  const key = yield* threadOrSignpost(session, begun.threadId);
  // Nothing runs on a thread that is held for its move: a salvage can leave it so, and lacking something.
  if (key !== undefined && key.row.movedTo === undefined) growEpoch(key);
}

/** What {@link standing} asks. */
function standingQuestions(
  session: Session,
  { threadId, targetSeq }: Pick<RewindRow, "threadId" | "targetSeq">,
  thread: number,
): Statement[] {
  return [
    ...runQuestions(session, threadId),
    tasksQuestion(thread),
    ...effectsQuestions(session, threadId, thread, targetSeq),
    rewindsQuestion(threadId),
  ];
}

function* standing(
  session: Session,
  { threadId, targetSeq }: Pick<RewindRow, "threadId" | "targetSeq">,
): Program<RewindStanding> {
  return {
    runs: yield* listRuns(session, threadId),
    tasks: yield* listTasks(session, threadId),
    effects: yield* effectsBehind(session, threadId, targetSeq),
    unfinished: yield* unfinishedRewind(session, threadId),
  };
}

/**
 * The newest row of the thread. Rewinds and take-backs move whole ranges of rows, so this one number tells how the thread stands.
 */
function* topSeq(session: Session, key: ThreadState): Program<number> {
  let top = 0;
  for (const { text, values } of topQuestions(key)) {
    const row = yield* session.get<{ seq: number | null }>(text, ...values);
    top = Math.max(top, row?.seq ?? 0);
  }
  return top;
}

/** What {@link topSeq} asks. */
function topQuestions({ thread }: ThreadState): Statement[] {
  return REWOUND_AND_COUNTED.map((table) =>
    question("one", `SELECT max(seq) AS seq FROM ${table.name} WHERE ${rowsOfThread(table)}`, thread),
  );
}

/** Possible only while the thread stands exactly where the rewind left it. */
export function* takeBack(
  session: Session,
  rewindId: string,
  at: string,
  guard: (rewind: RewindRow, found: TakeBackStanding) => readonly RunRow[],
): Program<RewindCounts> {
  const done = yield* rewindOf(session, rewindId);
  const { threadId } = done;
  const undone = yield* undoneIn(session, rewindId);
  yield* clearRuns(
    session,
    guard(done, { runs: yield* listRuns(session, threadId), unfinished: yield* unfinishedRewind(session, threadId), undone }),
  );
  const key = yield* threadKey(session, done.threadId);
  if (key === undefined) throw unknownThread(done.threadId);
  yield* refuseUnlessUndisturbed(session, done, key);
  yield* restoreArchive(session, done);
  yield* forgetRecovery(session, key);
  yield* changeRewind(session, rewindId, { takenBackAt: at });
  growEpoch(key);
  outdate(key);
  yield* recount(session, key);
  return yield* countBehind(session, done.threadId, done.targetSeq);
}

/** The archived effects that are undone, newest first. */
export function* undoneIn(session: Session, rewindId: string): Program<TakeBackStanding["undone"]> {
  const rows = (yield* session.rows<[string]>(ARCHIVED_EFFECTS, rewindId)).map(
    ([row]) => archivedRow(row) as RawOf<typeof EFFECTS>,
  );
  return rows
    .filter(({ undo_status: undo }) => undo === "done")
    .map(({ id, name, node_name: nodeName }) => ({ id, name, nodeName }));
}

function* refuseUnlessUndisturbed(session: Session, done: RewindRow, key: ThreadState): Program {
  const top = yield* topSeq(session, key);
  const { id, threadId, takenBackAt } = done;
  const cannot = `Rewind ${id} can't be taken back: `;
  const task = JSON.stringify(done.targetTaskId);
  const refuse = (problem: string, remedy: string): TurnsError =>
    new TurnsError("REWIND_CONFLICT", { problem, remedy: `${remedy} Nothing was changed.`, data: { rewindId: id, threadId } });
  const nothing = "There is nothing to take back.";
  if (done.status !== "done") throw refuse(`${cannot}it was given up before it removed anything.`, nothing);
  if (takenBackAt !== undefined) throw refuse(`Rewind ${id} was already taken back, at ${takenBackAt}.`, nothing);
  if (!done.archived)
    throw refuse(
      `${cannot}it has no archive: it was made with archive: false, or a prune or deleteForRuns has removed the archive.`,
      "Run the tasks again, or restore a backup.",
    );
  if (top > done.targetSeq)
    throw refuse(
      `${cannot}the thread has newer work, or an earlier rewind was taken back since.`,
      `Rewind it to task ${task} again first.`,
    );
  if (top < done.targetSeq)
    throw refuse(
      `${cannot}a later rewind went further back.`,
      `Take that one back first: saver.rewinds.list(${JSON.stringify(threadId)}) shows it.`,
    );
}

/**
 * Nothing can go back to checkpoints that were pruned.
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND
 */
function refuseBehindPruned(key: ThreadState, { targetSeq, targetTaskId }: NewRewind): void {
  if (key.row.prunedSeq > targetSeq) throw prunedBehind(key.threadId, targetTaskId);
}

/** The seq behind which no rewind reaches: 0 if nothing was pruned, undefined if there is no such thread. */
export function* prunedSeq(session: Session, threadId: string): Program<number | undefined> {
  const key = yield* threadKey(session, threadId);
  return key && key.row.prunedSeq;
}

/**
 * Where to rewind to so that a checkpoint stands as it did before anything was done on top of it. Its input stays; everything
 * that its node tasks have left, directly or later, goes.
 *
 * @returns the seq behind which everything is to go; Infinity if nothing was done yet; undefined if there is no such checkpoint
 */
export function* seqBeforeWorkOn(
  session: Session,
  threadId: string,
  ns: string,
  checkpointId: string,
): Program<number | undefined> {
  const key = yield* threadKey(session, threadId);
  const saved = key && (yield* session.get<{ seq: number | null }>(SAVED, key.thread, ns, checkpointId))?.seq;
  if (key === undefined || saved === undefined || saved === null) return undefined;
  const first = (yield* session.get<{ seq: number | null }>(FIRST_WORK, key.thread, ns, checkpointId, saved))?.seq ?? Infinity;
  return first - 1;
}
