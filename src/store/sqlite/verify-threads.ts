import { isId } from "../../ids";
import { firstSeq, ofThread, SPAN, THREADS_MAX } from "../spans";
import { sealedKeyId } from "../../sealing";
import { type RawName, toName } from "../ops/names";
import type { Program } from "../program";
import { type RawTask, toTask } from "../ops/tasks";
import { miscounted, type RawThread, verifiedThread } from "../ops/thread-rows";
import { type RawTombstone, verifiedTombstone } from "./tombstones";
import { isTime, type Owner, type VerifyContext } from "./verify-context";
import { type Phase, walk } from "./verify-walk";

interface ThreadCount {
  greatest: number;
  count: unknown;
}

const THREAD_COUNT = `SELECT max(coalesce((SELECT max(thread) FROM langgraph_threads), 0),
    coalesce((SELECT max(thread) FROM langgraph_leftovers), 0)) AS greatest,
  (SELECT value FROM langgraph_settings WHERE name = 'threads') AS count`;
const NO_SEQ = "SELECT id FROM langgraph_checkpoints WHERE thread = ? AND seq IS NULL LIMIT 1";
const FINAL = "SELECT 1 FROM langgraph_tombstones WHERE thread_id = ? AND final = 1";
const EPOCHS = `SELECT coalesce(sum(1 + (taken_back_at IS NOT NULL)), 0) AS n FROM langgraph_rewinds
  WHERE thread_id = ? AND status = 'done'`;
const FIRST_TASK = "SELECT min(seq) AS seq FROM langgraph_tasks WHERE thread = ?";
const FIRST_ROW = `SELECT min(seq) AS seq FROM (
  SELECT min(seq) AS seq FROM langgraph_snapshots WHERE ${ofThread()} UNION ALL
  SELECT min(seq) FROM langgraph_writes WHERE ${ofThread()} UNION ALL
  SELECT min(seq) FROM langgraph_checkpoints WHERE thread = ?1)`;
const NAMED = `SELECT 1 FROM langgraph_snapshots
  WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL`;

/** The wrapped keys, which are read whole when the file is opened. */
export function settings(): Phase {
  return walk<{ name: string; value: unknown }>({
    table: "langgraph_settings",
    keys: ["name"],
    limit: 10,
    check(ctx, { name, value }) {
      if (name === "threads") return;
      const keyId = value instanceof Uint8Array ? sealedKeyId(value) : undefined;
      if (keyId === undefined || name !== `key:${keyId}`) {
        ctx.problem(
          "sealing",
          undefined,
          { name },
          "a wrapped key under its own name",
          keyId === undefined ? "none" : `key ${keyId}`,
        );
      }
    },
  });
}

/** How many threads the file has had: a number below that of a thread would be given out again. */
export function threadCount(): Phase {
  return {
    table: "langgraph_settings",
    *next(ctx) {
      const { greatest, count } = (yield* ctx.sql.get<ThreadCount>(THREAD_COUNT)) as ThreadCount;
      if (!(Number.isInteger(count) && (count as number) >= greatest && (count as number) <= THREADS_MAX)) {
        const found = count === null ? "none" : typeof count === "number" ? String(count) : "no number";
        ctx.problem("sequence", undefined, {}, `how many threads there were, from ${greatest} to ${THREADS_MAX}`, found);
      }
      return false;
    },
  };
}

export function threads(only: number | undefined): Phase {
  const range = only === undefined ? {} : { where: "thread = ?", bound: [only] };
  return walk<RawThread>({ table: "langgraph_threads", keys: ["thread"], ...range, limit: 20, check: checkThread });
}

function* checkThread(ctx: VerifyContext, row: RawThread): Program<void> {
  const { thread, thread_id: threadId } = row;
  const where = { thread };
  ctx.threads += 1;
  yield* ctx.attempted(threadId, where, verifiedThread(ctx.sql, threadId, row));
  const wrong = yield* miscounted(ctx.sql, { thread, threadId });
  if (wrong !== undefined) {
    ctx.problem("thread", threadId, where, `${wrong.expected} rows of ${wrong.kind}, as on record`, String(wrong.found));
  }
  if (!isId(threadId)) ctx.problem("format", threadId, where, "a thread id", "none");
  if (!isTime(row.created_at)) ctx.problem("format", threadId, where, "a time in created_at", "none");
  if (row.generation < 0 || row.unswept < 0 || row.seq < 0 || row.seq >= SPAN)
    ctx.problem("format", threadId, where, "counters within their bounds", "one that is not");
  const [first, newest] = [firstSeq(thread), firstSeq(thread) + row.seq];
  if (row.pruned_seq !== 0 && !(row.pruned_seq >= first && row.pruned_seq <= newest)) {
    ctx.problem("sequence", threadId, where, `a pruned_seq of 0, or from ${first} to ${newest}`, String(row.pruned_seq));
  }
  const epochs = (yield* ctx.sql.get<{ n: number }>(EPOCHS, threadId))?.n ?? 0;
  if (row.epoch < epochs) ctx.problem("sequence", threadId, where, `an epoch of ${epochs} or more`, String(row.epoch));
  const unnumbered = yield* ctx.sql.get<{ id: string }>(NO_SEQ, thread);
  if (unnumbered !== undefined && ctx.only !== undefined) {
    ctx.problem("format", threadId, { ...where, id: unnumbered.id }, "turns with a seq", "one without");
  }
  if ((yield* ctx.sql.get(FINAL, threadId)) !== undefined) {
    ctx.problem("thread", threadId, where, "no thread where one was deleted for good", "a thread");
  }
  yield* checkOwned(ctx, thread, threadId);
}

/** Whatever is saved belongs to a task, which takes its number first. */
function* checkOwned(ctx: VerifyContext, thread: number, threadId: string): Program<void> {
  const row = (yield* ctx.sql.get<{ seq: number | null }>(FIRST_ROW, thread))?.seq ?? undefined;
  const task = (yield* ctx.sql.get<{ seq: number | null }>(FIRST_TASK, thread))?.seq ?? undefined;
  if (row === undefined || (task !== undefined && task < row)) return;
  const found = task === undefined ? "none" : `one that begins at ${task}`;
  ctx.problem("task", threadId, { thread, seq: row }, "a task that begins before the thread's first row", found);
}

export function tombstones(only: Owner | undefined): Phase {
  const range = only === undefined ? {} : { where: "thread_id = ?", bound: [only.threadId] };
  return walk<RawTombstone>({
    table: "langgraph_tombstones",
    keys: ["thread_id"],
    ...range,
    limit: 100,
    check(ctx, row) {
      const { thread_id: threadId, deleted_at: deletedAt } = row;
      ctx.attempt(threadId, {}, () => verifiedTombstone(ctx.sql, threadId, row));
      if (!isId(threadId)) ctx.problem("format", undefined, {}, "a thread id", "none");
      if (!(deletedAt > 0)) ctx.problem("format", threadId, {}, "the time of a deletion", String(deletedAt));
    },
  });
}

export function tasks(only: number | undefined): Phase {
  const range = only === undefined ? { keys: ["thread", "seq"] } : { keys: ["seq"], where: "thread = ?", bound: [only] };
  return walk<RawTask>({
    table: "langgraph_tasks",
    counts: "tasks",
    ...range,
    limit: 100,
    *check(ctx, row) {
      const where = { thread: row.thread, seq: row.seq };
      const owner = yield* ctx.entered(row, where);
      const { task_id: taskId, graph_id: graphId } = row;
      if (owner !== undefined) ctx.attempt(owner.threadId, where, () => toTask(ctx.sql, owner.threadId, row));
      if (!isId(taskId) || !isId(graphId)) ctx.problem("format", owner?.threadId, where, "ids of a task and a graph", "none");
      if (!isTime(row.created_at)) ctx.problem("format", owner?.threadId, where, "a time in created_at", "none");
    },
  });
}

export function names(only: number | undefined): Phase {
  const range = only === undefined ? { keys: ["thread", "name"] } : { keys: ["name"], where: "thread = ?", bound: [only] };
  return walk<RawName>({
    table: "langgraph_names",
    counts: "names",
    ...range,
    limit: 100,
    *check(ctx, row) {
      const { thread, name, checkpoint_ns: ns, checkpoint_id: checkpointId } = row;
      const where = { thread, name };
      const owner = yield* ctx.entered({ thread }, where);
      if (owner !== undefined) ctx.attempt(owner.threadId, where, () => toName(ctx.sql, owner.threadId, row));
      if (!isId(name)) ctx.problem("format", owner?.threadId, where, "a name", "none");
      if (!isTime(row.created_at)) ctx.problem("format", owner?.threadId, where, "a time in created_at", "none");
      if ((yield* ctx.sql.get(NAMED, thread, ns, checkpointId)) !== undefined) return;
      ctx.problem("reference", owner?.threadId, where, `checkpoint ${checkpointId}, which has the name`, "none of that id");
    },
  });
}
