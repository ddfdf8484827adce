import type { TurnRow } from "../store";
import type { Program } from "../program";
import { type RawTurn, toTurn } from "../turn-rows";
import type { Owner, VerifyContext, Where } from "./verify-context";
import { isStored } from "./verify-snapshots";
import { type Phase, walk } from "./verify-walk";

const TABLE = "langgraph_checkpoints";
const THOUGHT = `SELECT 1 FROM ${TABLE} WHERE thread = ? AND node_task_id = ? AND turn_type = 'Thought' AND attempt = ? AND +seq < ?`;
const GRAPH = "SELECT 1 FROM langgraph_graphs WHERE seq = ? AND thread = ?";

/** Turns of `CheckpointPersister` belong to no thread, and are looked at with all threads. */
export function turns(only: number | undefined): Phase {
  const range =
    only === undefined ? { keys: ["rowid"], columns: "rowid AS at, *" } : { keys: ["seq"], where: "thread = ?", bound: [only] };
  return walk<RawTurn>({ table: TABLE, counts: "turns", ...range, limit: 20, check: checkTurn });
}

function* checkTurn(ctx: VerifyContext, row: RawTurn): Program<void> {
  const where = { id: row.id, seq: row.seq };
  if (row.thread === null) return checkAlone(ctx, row, where);
  const owner = yield* ctx.entered({ thread: row.thread, ...(row.seq === null ? {} : { seq: row.seq }) }, where);
  if (row.seq === null) ctx.problem("format", owner?.threadId, where, "a turn with a seq", "one without");
  if (owner === undefined) return;
  if (row.checksum === null) return ctx.problem("checksum", owner.threadId, where, "a turn with a checksum", "one without");
  const turn = ctx.attempt(owner.threadId, where, () => toTurn(ctx.sql, row, owner.threadId));
  if (turn === undefined) return;
  yield* ctx.refersTo(owner, where, turn.serializedState);
  yield* checkPlace(ctx, owner, row, where);
  if (turn.turnType === "Action") yield* checkThought(ctx, owner, turn, row.thread, where);
}

/** A turn of no thread has no number. Others may insert rows with the seven columns of S1 alone; those have no checksum either. */
function checkAlone(ctx: VerifyContext, row: RawTurn, where: Where): void {
  if (row.seq !== null) ctx.problem("format", undefined, where, "no seq in a turn of no thread", String(row.seq));
  else ctx.attempt(undefined, where, () => toTurn(ctx.sql, row, undefined));
}

function* checkPlace(ctx: VerifyContext, owner: Owner, row: RawTurn, where: Where): Program<void> {
  const { checkpoint_ns: ns, checkpoint_id: checkpointId, graph } = row;
  if (checkpointId !== null && !(yield* isStored(ctx, owner.thread, ns ?? "", checkpointId))) {
    ctx.remark("reference", owner.threadId, where, `checkpoint ${checkpointId}, which the turn started from`, "none of that id");
  }
  if (graph !== null && (yield* ctx.sql.get(GRAPH, graph, owner.thread)) === undefined) {
    ctx.problem("reference", owner.threadId, where, `graph ${graph} of the thread`, "none");
  }
}

/** An Action takes the checkpoint from its Thought; without one, its Thought could not be saved, and the graph went on (S1.9). */
function* checkThought(ctx: VerifyContext, owner: Owner, turn: TurnRow, thread: number, where: Where): Program<void> {
  const { nodeTaskId = "", attempt = 1, seq = 0 } = turn;
  if ((yield* ctx.sql.get(THOUGHT, thread, nodeTaskId, attempt, seq)) !== undefined) return;
  const tell = turn.checkpointId === undefined ? "remark" : "problem";
  ctx[tell]("turn", owner.threadId, { ...where, nodeTaskId }, `the Thought of attempt ${attempt}`, "none");
}
