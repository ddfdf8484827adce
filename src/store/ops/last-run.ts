import { TurnsError } from "../../errors";
import { NULL_TASK_ID } from "../../system";
import { corrupted } from "../refusals";
import { textFor } from "../dialect";
import { type Program, question, type Statement } from "../program";
import { SNAPSHOT_ROWS } from "../rows";
import type { Session } from "../session";
import type { LastRun, TaskRow } from "../store";
import type { ThreadState } from "../thread-state";
import { type RawSnapshot, toLiveHead } from "./heads";
import { LIVE } from "./put-checkpoint";
import { LATEST } from "./read-checkpoints";
import { aboutCounted } from "./row-counts";
import { lastRunTask, lastRunTaskQuestion } from "./thread-rows";

/**
 * From the head back to the input it came from. CROSS JOIN keeps the order: each parent is one look-up. Work on a checkpoint led
 * to the next one (`led`), unless that is a fork. For an update this holds only if nothing else had followed the checkpoint yet.
 * A chain of parents longer than the thread means a cycle, or a damaged index with duplicate links.
 *
 * With durability "exit" a run saves only its last checkpoint: steps are missing before it. If a task begins there (`begun`), its
 * input is missing too, and the input that is found belongs to an earlier run.
 */
const LAST_BRANCH = textFor(
  ({ rowsAtMost }) => `WITH RECURSIVE
  bound(rows) AS (SELECT count(*) FROM langgraph_snapshots WHERE thread = ?1 AND checkpoint_ns = ''),
  branch(id, position, step, parent, source, depth, next, next_position, next_step) AS (
  SELECT * FROM (SELECT checkpoint_id, position, step, parent_checkpoint_id, source, 0, CAST(NULL AS TEXT), CAST(NULL AS BIGINT),
    CAST(NULL AS BIGINT) FROM langgraph_snapshots WHERE thread = ?1 AND checkpoint_ns = '' AND ${LIVE}
    ORDER BY position DESC LIMIT 1) AS head
  UNION ALL SELECT s.checkpoint_id, s.position, s.step, s.parent_checkpoint_id, s.source, depth + 1,
      branch.source, branch.position, branch.step
    FROM branch CROSS JOIN langgraph_snapshots AS s
    WHERE s.thread = ?1 AND s.checkpoint_ns = '' AND s.checkpoint_id = branch.parent AND s.${LIVE}
      AND branch.source <> 'input' AND depth < (SELECT rows FROM bound) ${rowsAtMost("(SELECT rows FROM bound)")})
  SELECT id, parent, source, position, CASE WHEN next IS NULL OR next = 'loop' OR (next = 'update' AND NOT EXISTS (
      SELECT 1 FROM langgraph_snapshots AS o WHERE o.thread = ?1 AND o.checkpoint_ns = '' AND o.parent_checkpoint_id = branch.id
        AND o.position > branch.position AND o.position < next_position)) THEN 1 ELSE 0 END AS led,
    CASE WHEN next = 'loop' AND next_step > step + 1 THEN (SELECT min(k.seq) FROM langgraph_tasks AS k
      WHERE k.thread = ?1 AND k.kind = 'run' AND k.seq > branch.position AND k.seq < next_position) END AS begun,
    CASE WHEN source = 'input' THEN (SELECT max(s.position) FROM langgraph_snapshots AS s
      WHERE s.thread = ?1 AND s.checkpoint_ns = '' AND s.position < branch.position) END AS previous,
    CASE WHEN source = 'input' THEN (SELECT max(k.seq) FROM langgraph_tasks AS k
      WHERE k.thread = ?1 AND k.seq < branch.position) END AS opened
    FROM branch ORDER BY depth`,
);

interface BranchRow {
  id: string;
  parent: string | null;
  source: string;
  position: number;
  led: number;
  begun: number | null;
  /** Of an input: the position of the checkpoint before it, and the seq of the task interval that it is in. */
  previous: number | null;
  opened: number | null;
}

/**
 * LangGraph's indices: `__interrupt__` -3, `__resume__` -4. A node task saves its question again each time it asks. Answers from
 * outside have the id of their question, or of no node, and no task path. What a task was told is saved under its own id. (Before
 * LangGraph 1.5 no write has a task path.)
 */
const PENDING = `SELECT node_task_id AS id, max(seq) FILTER (WHERE idx = -3) AS asked,
    max(seq) FILTER (WHERE idx = -4 AND task_path = '' AND (node_task_id NOT LIKE '%-%' OR node_task_id = '${NULL_TASK_ID}')) AS given,
    count(*) FILTER (WHERE idx = 0) AS results
  FROM langgraph_writes WHERE thread = ?1 AND checkpoint_ns = '' AND checkpoint_id = ?2 AND ${LIVE} GROUP BY node_task_id`;

interface Pending {
  id: string;
  asked: number | null;
  given: number | null;
  results: number;
}

export function* lastRun(session: Session, threadId: string): Program<LastRun | undefined> {
  const questions = (thread: number): Statement[] => [
    lastRunTaskQuestion(thread),
    question("all", LAST_BRANCH(session), thread),
    question("one", LATEST, thread, ""),
  ];
  return yield* aboutCounted(session, threadId, questions, function* (key) {
    const task = yield* lastRunTask(session, key);
    const found = yield* session.all<BranchRow>(LAST_BRANCH(session), key.thread);
    const before = found.find(({ begun }) => begun !== null);
    const branch = before === undefined ? found : found.slice(0, found.indexOf(before));
    const [newest] = branch;
    const pendingOf = newest && question("all", PENDING, key.thread, newest.id);
    const asked = [newestOf(session, key, found), ...(pendingOf === undefined ? [] : [pendingOf])];
    return yield* session.expecting(asked, runOn(session, key, { task, found, before, branch }));
  });
}

interface Branch {
  task: TaskRow | undefined;
  found: readonly BranchRow[];
  before: BranchRow | undefined;
  /** The part of it that the run is on, newest first. */
  branch: readonly BranchRow[];
}

function* runOn(session: Session, key: ThreadState, { task, found, before, branch }: Branch): Program<LastRun | undefined> {
  const damage = yield* damageOf(verifyBranch(session, key, found));
  const [first, newest] = [branch.at(-1), branch[0]];
  const input = first?.source === "input" ? first : undefined;
  if (task === undefined && first === undefined) return undefined;
  const pending = newest === undefined ? [] : yield* session.all<Pending>(PENDING, key.thread, newest.id);
  let behind = 0;
  const changes = branch.flatMap(({ id, parent, source, position, led }) => {
    behind += led;
    return source === "update" || source === "fork" ? [{ id, parentId: parent ?? undefined, seq: position, behind }] : [];
  });
  return {
    taskId: task?.taskId,
    graphId: task?.graphId,
    inputId: input?.id,
    beforeId: before?.id,
    sinceSeq: before?.begun ?? (input && beginOf(input)) ?? task?.seq ?? first?.position ?? 0,
    branch: branch.filter(({ led }) => led === 1).map(({ id }) => id),
    changes,
    answers: new Map(pending.flatMap(({ id, given }) => (given === null ? [] : [[id, given]]))),
    asked: new Map(pending.flatMap(({ id, asked, results }) => (asked === null || results > 0 ? [] : [[id, asked]]))),
    damage,
  };
}

/** With durability "exit", the nodes of a run may come before its input: a functional graph that fails has no other checkpoint. */
function beginOf({ position, previous, opened }: BranchRow): number {
  return Math.min(position, Math.max((previous ?? 0) + 1, opened ?? position));
}

function* damageOf(verify: Program): Program<TurnsError | undefined> {
  try {
    yield* verify;
    return undefined;
  } catch (error) {
    if (TurnsError.is(error, "CHECKPOINT_CORRUPTED")) return error;
    throw error;
  }
}

/** The newest version of each of these checkpoints of the outermost graph. */
const NEWEST_OF = textFor(({ among }) =>
  SNAPSHOT_ROWS.select(`AS s WHERE thread = ?1 AND checkpoint_ns = '' AND checkpoint_id ${among("?2")}
    AND seq = (SELECT max(n.seq) FROM langgraph_snapshots AS n
      WHERE n.thread = ?1 AND n.checkpoint_ns = '' AND n.checkpoint_id = s.checkpoint_id)`),
);

/** The newest versions of the checkpoints that these come from. */
function newestOf(session: Session, key: ThreadState, branch: readonly Pick<BranchRow, "parent">[]): Statement {
  const parents = [...new Set(branch.flatMap(({ parent }) => parent ?? []))];
  return question("all", NEWEST_OF(session), key.thread, JSON.stringify(parents));
}

/**
 * The query relies on rows that it doesn't verify, and on which of them are superseded.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
function* verifyBranch(session: Session, key: ThreadState, branch: readonly BranchRow[]): Program<void> {
  const latest = yield* session.get<RawSnapshot>(LATEST, key.thread, "");
  const ids = new Set(branch.map(({ id }) => id));
  const { text, values } = newestOf(session, key, branch);
  const read = yield* session.all<RawSnapshot>(text, ...values);
  const heads = new Map(read.map((row) => toLiveHead(session, key.threadId, row)).map((head) => [head.checkpointId, head]));
  let head = latest && toLiveHead(session, key.threadId, latest);
  while (head !== undefined && ids.delete(head.checkpointId)) {
    head = head.parentId === undefined ? undefined : heads.get(head.parentId);
  }
  if (ids.size === 0 && (head === undefined || branch.at(-1)?.source === "input")) return;
  throw corrupted(`the newest run of thread ${key.threadId}`, "an unbroken line of checkpoints", "another one", {
    threadId: key.threadId,
  });
}
