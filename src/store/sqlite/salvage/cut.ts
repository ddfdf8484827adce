import type { IntegrityProblem, VerifyCounts } from "../../integrity";
import { TASK_ROWS } from "../../rows";
import type { LostItem } from "../../salvage";
import { firstSeq } from "../../spans";
import { NOTHING_REMEMBERED } from "../../store";
import {
  ARCHIVE,
  REWINDS,
  SETTINGS,
  SNAPSHOTS,
  type Table,
  TASKS,
  THREAD_TABLES,
  THREADS,
  TOMBSTONES,
  VERSIONED,
} from "../../tables";
import { DELETE_ARCHIVE } from "../../ops/archive";
import { deltaHistory } from "../../ops/delta";
import { lookedAt, type SqliteSession } from "../engine";
import { changeRewind } from "../../ops/rewind-records";
import type { Program } from "../../program";
import type { Session } from "../../session";
import { threadIdOf, threadKey } from "../../ops/thread-rows";
import { startVerify } from "../../ops/verify";
import { filePhases } from "../verify-file";
import type { IsGraph } from "../../ops/verify-rows";
import { othersFirst } from "../../../timers";

type Where = IntegrityProblem["where"];

/** A missing row shows in the rows that refer to it, round by round. The longest chain is one of lists. */
const ROUNDS_MAX = 1_000;
/** A thread doesn't exist without its own row; salvage handles those rows separately. */
const REMOVABLE: readonly Table[] = [...THREAD_TABLES, REWINDS, SETTINGS, TOMBSTONES];
const IS_THERE = "SELECT 1 FROM langgraph_snapshots WHERE seq = ?";
const IS_ARCHIVED = "SELECT 1 FROM langgraph_rewinds WHERE id = ? AND (archived = 1 OR entries > 0)";
const FIRST_TURN = "SELECT task_id, graph_id, created_at FROM langgraph_checkpoints WHERE thread = ? ORDER BY seq LIMIT 1";
/** Turns that no task of theirs precedes. They would be found by their thread, but not by their task. */
const ORPHANED = `SELECT c.* FROM (SELECT thread, task_id AS taskId, graph_id AS graphId, min(seq) AS first, created_at AS createdAt
    FROM langgraph_checkpoints WHERE thread IS NOT NULL AND seq IS NOT NULL GROUP BY thread, task_id) AS c
  LEFT JOIN (SELECT thread, task_id AS taskId, min(seq) AS began FROM langgraph_tasks GROUP BY thread, task_id) AS t
    ON t.thread = c.thread AND t.taskId = c.taskId
  WHERE t.began IS NULL OR t.began > c.first ORDER BY c.first`;
const BEFORE = `SELECT max(seq) AS seq FROM (
  SELECT max(seq) AS seq FROM langgraph_checkpoints WHERE thread = ?1 AND seq < ?2 AND task_id <> ?3
  UNION ALL SELECT max(seq) FROM langgraph_tasks WHERE thread = ?1 AND seq < ?2)`;
const TAKEN = THREAD_TABLES.filter((table: Table) => table.columns["seq"] !== undefined)
  .map(({ name }) => `SELECT seq FROM ${name} WHERE seq > ?1 AND seq < ?2`)
  .join(" UNION ");
const INPUT = `SELECT max(seq) AS seq FROM langgraph_snapshots WHERE seq > ?1 AND seq < ?2 AND checkpoint_ns = '' AND source = 'input'`;
const DELTAS = `SELECT seq, thread, checkpoint_ns AS ns, checkpoint_id AS checkpointId, delta FROM langgraph_snapshots
  WHERE delta IS NOT NULL AND superseded_by IS NULL ORDER BY seq`;
const NEXT = ({ name, versionsOf = [] }: Table): string =>
  `(SELECT min(n.seq) FROM ${name} AS n WHERE ${versionsOf.map((column) => `n.${column} = ${name}.${column}`).join(" AND ")}
    AND n.seq > ${name}.seq)`;

/** Where the history of threads was cut, by thread number, and what was removed on the way. */
export interface Cuts {
  cutAt: Map<number, number>;
  lost: LostItem[];
}
interface Judged {
  problems: IntegrityProblem[];
  checked: Partial<VerifyCounts>;
  threads: number;
}

/** Removes what doesn't verify, then what refers to it, until everything that is left verifies. */
export async function cutToWhole(session: SqliteSession, isGraph: IsGraph): Promise<Cuts & { judged: Judged }> {
  const cuts: Cuts = { cutAt: new Map(), lost: [] };
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    inOne(session, superseded(session, cuts));
    const judged = await problemsOf(session, isGraph);
    if (!inOne(session, hasCut(session, judged.problems, cuts))) return { ...cuts, judged };
  }
  throw new Error("what is left of the file does not come to an end");
}

/** All problems of a file. Between its steps the event loop runs. */
async function problemsOf(session: SqliteSession, isGraph: IsGraph): Promise<Judged> {
  const step = session.now(startVerify(session, undefined, isGraph, filePhases));
  const judged: Judged = { problems: [], checked: {}, threads: 0 };
  for (;;) {
    const { table, problems, threads, checked } = lookedAt(session, () => step(session));
    judged.problems.push(...problems);
    judged.threads += threads;
    for (const [name, count] of Object.entries(checked)) {
      const kind = name as keyof VerifyCounts;
      judged.checked[kind] = (judged.checked[kind] ?? 0) + count;
    }
    if (table === undefined) return judged;
    await othersFirst();
  }
}

function* hasCut(session: Session, problems: readonly IntegrityProblem[], cuts: Cuts): Program<boolean> {
  let count = 0;
  for (const problem of problems) if (yield* settled(session, problem, cuts)) count += 1;
  return count > 0 || (yield* withoutBrokenDeltas(session, cuts)) || (yield* tasksAgain(session, cuts));
}

interface OrphanedTask {
  thread: number;
  taskId: string;
  graphId: string;
  first: number;
  createdAt: string;
}

/**
 * Makes the lost row of a task again from its turns, which name it. It gets the free number before its input, which the lost row
 * had, or else the last one before its first turn.
 *
 * @returns whether a row was made
 */
function* tasksAgain(session: Session, cuts: Cuts): Program<boolean> {
  let isMade = false;
  for (const { thread, taskId, graphId, first, createdAt } of yield* session.all<OrphanedTask>(ORPHANED)) {
    const threadId = yield* threadIdOf(session, thread);
    const key = yield* threadKey(session, threadId);
    if (key === undefined) continue;
    const before = (yield* session.get<{ seq: number | null }>(BEFORE, thread, first, taskId))?.seq ?? firstSeq(thread);
    const taken = new Set((yield* session.rows<[number]>(TAKEN, before, first)).map(([seq]) => seq));
    const input = (yield* session.get<{ seq: number | null }>(INPUT, before, first))?.seq ?? first;
    let seq = input - 1;
    while (seq > before && taken.has(seq)) seq -= 1;
    if (seq <= before) continue;
    yield* session.insert(key, TASK_ROWS, { taskId, graphId, seq, kind: "run", createdAt, prunedTokens: undefined });
    const why = "the row of this task is lost; it is made again from the task's turns";
    cuts.lost.push({ table: TASKS.name, threadId, where: { seq, taskId }, why });
    isMade = true;
  }
  return isMade;
}

/** @returns whether something was done about it */
function* settled(session: Session, problem: IntegrityProblem, cuts: Cuts): Program<boolean> {
  const { table, kind, where, threadId } = problem;
  if (table === THREADS.name) return kind === "task" && (yield* ownedAgain(session, problem, cuts));
  if (table === SNAPSHOTS.name && kind === "reference" && problem.expected.endsWith("its parent"))
    return yield* cutBehind(session, problem, cuts);
  const rewindId = table === ARCHIVE.name ? where["rewindId"] : kind === "archive" ? where["id"] : undefined;
  if (rewindId !== undefined) return yield* withoutArchive(session, problem, String(rewindId), cuts);
  if (!(yield* removeRow(session, problem))) return false;
  const owner = threadId ?? (typeof where["thread"] === "number" ? yield* threadIdOf(session, where["thread"]) : "");
  const why = `${kind}: ${problem.expected}; found ${problem.found}`;
  cuts.lost.push({ table, threadId: owner === "" ? undefined : owner, where, why });
  return true;
}

/**
 * Removes the row that a problem is about.
 * @returns false if it was already gone, or the problem is about no row
 */
function* removeRow(session: Session, { table, where, threadId }: IntegrityProblem): Program<boolean> {
  const described = REMOVABLE.find(({ name }) => name === table);
  const keys = described?.id ?? described?.key ?? [];
  const named: Where = { ...where, ...(described === TOMBSTONES ? { thread_id: threadId ?? "" } : {}) };
  if (described === undefined || keys.some((key) => named[key] === undefined)) return false;
  const text = `DELETE FROM ${described.name} WHERE ${keys.map((key) => `${key} IS ?`).join(" AND ")}`;
  return (yield* session.changes(text, ...keys.map((key) => named[key] ?? null))) > 0;
}

/** Keeps the checkpoint, but nothing can go back behind it. */
function* cutBehind(session: Session, { where, threadId = "", expected }: IntegrityProblem, cuts: Cuts): Program<boolean> {
  const seq = Number(where["seq"]);
  const key = (yield* session.get(IS_THERE, seq)) === undefined ? undefined : yield* threadKey(session, threadId);
  if (key === undefined) return false;
  const { thread } = key;
  key.change({ prunedSeq: Math.max(key.row.prunedSeq, seq - 1) });
  cuts.cutAt.set(thread, Math.max(seq - 1, cuts.cutAt.get(thread) ?? 0));
  const why = `kept, but ${expected}, is lost: the history is cut here`;
  cuts.lost.push({ table: SNAPSHOTS.name, threadId, where, why });
  return true;
}

/**
 * Every saved row belongs to a task. If the row that says which is lost, the first turn says it. A thread's first number belongs
 * to its first task.
 */
function* ownedAgain(session: Session, { where, threadId = "" }: IntegrityProblem, cuts: Cuts): Program<boolean> {
  const key = yield* threadKey(session, threadId);
  const first = firstSeq(Number(where["thread"])) + 1;
  if (key === undefined || !(Number(where["seq"]) > first)) return false;
  const turn = yield* session.get<{ task_id: string; graph_id: string; created_at: string }>(FIRST_TURN, key.thread);
  const task = { taskId: turn?.task_id ?? "salvaged", graphId: turn?.graph_id ?? threadId, seq: first, kind: "run" as const };
  const createdAt = turn?.created_at ?? new Date(0).toISOString();
  yield* session.insert(key, TASK_ROWS, { ...task, createdAt, prunedTokens: undefined });
  const why = "the task of the first rows is lost; they are booked to that of the first turn";
  cuts.lost.push({ table: TASKS.name, threadId, where, why });
  return true;
}

/** Removes the archive: it is only useful as a whole. */
function* withoutArchive(session: Session, problem: IntegrityProblem, rewindId: string, cuts: Cuts): Program<boolean> {
  const isRemoved = (yield* session.changes(DELETE_ARCHIVE, rewindId)) > 0;
  const isThere = (yield* session.get(IS_ARCHIVED, rewindId)) !== undefined;
  if (isThere && !(yield* succeeds(changeRewind(session, rewindId, { archived: false, entries: 0 })))) return isRemoved;
  if (!isRemoved && !isThere) return false;
  const why = `${problem.expected}; found ${problem.found}: the rewind cannot be taken back any more`;
  cuts.lost.push({ table: ARCHIVE.name, threadId: problem.threadId, where: { rewindId }, why });
  return true;
}

/**
 * Which version supersedes which follows from their numbers. If the superseding version is lost, the older one isn't valid
 * either.
 */
function* superseded(session: Session, cuts: Cuts): Program {
  for (const table of VERSIONED) {
    const next = NEXT(table);
    const outlived = yield* session.all<{ seq: number; thread: number; checkpoint_id: string }>(
      `SELECT seq, thread, checkpoint_id FROM ${table.name} WHERE superseded_by IS NOT NULL AND ${next} IS NULL`,
    );
    for (const { seq, thread, checkpoint_id: checkpointId } of outlived) {
      yield* session.run(`DELETE FROM ${table.name} WHERE seq = ?`, seq);
      const [threadId, where] = [(yield* threadIdOf(session, thread)) || undefined, { seq, checkpointId }];
      cuts.lost.push({ table: table.name, threadId, where, why: "an older version, whose newer one is lost" });
    }
    yield* session.run(`UPDATE ${table.name} SET superseded_by = ${next} WHERE superseded_by IS NOT ${next}`);
  }
}

type Delta = { seq: number; thread: number; ns: string; checkpointId: string; delta: string };

/**
 * Values that are rebuilt from the writes of ancestors need all of them.
 * @returns whether a checkpoint was removed
 */
function* withoutBrokenDeltas(session: Session, cuts: Cuts): Program<boolean> {
  const before = cuts.lost.length;
  for (const { seq, thread, ns, checkpointId, delta } of yield* session.all<Delta>(DELTAS)) {
    const threadId = yield* threadIdOf(session, thread);
    const channels = JSON.parse(delta) as string[];
    if (yield* succeeds(deltaHistory(session, threadId, ns, checkpointId, channels, NOTHING_REMEMBERED))) continue;
    yield* session.run("DELETE FROM langgraph_snapshots WHERE seq = ?", seq);
    const why = "ancestors are lost from whose writes its values are put together";
    cuts.lost.push({ table: SNAPSHOTS.name, threadId, where: { seq, checkpointNs: ns, checkpointId }, why });
  }
  return cuts.lost.length > before;
}

/** Runs a program in one transaction. Its statements remove rows behind the back of remembered facts. */
export function inOne<T>(session: SqliteSession, program: Program<T>): T {
  session.forget();
  try {
    return session.db.transaction(() => session.now(session.transaction(program))).immediate() as T;
  } finally {
    session.forget();
  }
}

/** Whether work that damaged rows may break succeeds. */
export function* succeeds(work: Program<unknown>): Program<boolean> {
  try {
    yield* work;
    return true;
  } catch {
    return false;
  }
}
