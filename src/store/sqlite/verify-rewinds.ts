import { type RawRewind, toRewind } from "./rewind-records";
import type { Program } from "../program";
import { firstSeq } from "../spans";
import { isTime, type Owner, type VerifyContext } from "./verify-context";
import { type Phase, walk } from "./verify-walk";

type RewindRow = RawRewind & { at: number };

const TABLE = "langgraph_rewinds";
const THREAD = "SELECT thread FROM langgraph_threads WHERE thread_id = ?";
const ARCHIVED = "SELECT count(*) AS n FROM langgraph_archive WHERE rewind_id = ?";
/** An earlier rewind that was taken back after this one has brought back checkpoints of its own stretch. */
const BETWEEN = `SELECT seq FROM langgraph_snapshots AS s WHERE seq > ?1 AND seq < ?2 AND NOT EXISTS (
  SELECT 1 FROM langgraph_rewinds AS r WHERE r.thread_id = ?3 AND r.taken_back_at IS NOT NULL AND r.seq < ?2
    AND s.seq > r.target_seq AND s.seq < r.seq) LIMIT 1`;

export function rewinds(only: Owner | undefined): Phase {
  const range = only === undefined ? {} : { where: "thread_id = ?", bound: [only.threadId] };
  return walk<RewindRow>({
    table: TABLE,
    counts: "rewinds",
    keys: ["rowid"],
    columns: "rowid AS at, *",
    ...range,
    limit: 20,
    check: checkRewind,
  });
}

function* checkRewind(ctx: VerifyContext, row: RewindRow): Program<void> {
  const { id, thread_id: threadId, target_seq: target, seq } = row;
  const where = { id };
  const thread = (yield* ctx.sql.get<{ thread: number }>(THREAD, threadId))?.thread;
  if (thread === undefined) return ctx.problem("thread", threadId, where, "a rewind of a thread", "a thread that is not there");
  if (!isTime(row.created_at)) ctx.problem("format", threadId, where, "a time in created_at", "none");
  ctx.attempt(threadId, where, () => toRewind(ctx.sql, row));
  const archived = (yield* ctx.sql.get<{ n: number }>(ARCHIVED, id))?.n ?? 0;
  const isArchived = row.status === "done" && row.archived === 1 && row.taken_back_at === null;
  const expected = isArchived ? row.entries : 0;
  if (archived !== expected) ctx.problem("archive", threadId, where, `an archive of ${expected} rows`, `one of ${archived}`);
  // Until a rewind is done its numbers are not final.
  if (row.status !== "done") return;
  yield* ctx.numbered(thread, seq, yield* ctx.owner(thread), where);
  const takenBack = row.taken_back_at;
  if (takenBack !== null && !isTime(takenBack)) ctx.problem("format", threadId, where, "a time in taken_back_at", "none");
  if (target >= seq) ctx.problem("sequence", threadId, where, `a target before the rewind, ${seq}`, String(target));
  const from = Math.max(target, firstSeq(thread));
  const between = takenBack === null ? yield* ctx.sql.get<{ seq: number }>(BETWEEN, from, seq, threadId) : undefined;
  if (between !== undefined) {
    ctx.problem("sequence", threadId, where, "nothing left of what was rewound", `a checkpoint with seq ${between.seq}`);
  }
}
