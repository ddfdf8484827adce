import type { Program } from "./sql";
import type { VerifyContext } from "./verify-context";
import { isStored, whereOf } from "./verify-snapshots";
import { checkVersions } from "./verify-versions";
import { type Phase, walkSeqs } from "./verify-walk";
import { openWrites, type PlacedWrites } from "./write-rows";

export interface StoredWriteRow extends PlacedWrites {
  thread: number;
  superseded_by: number | null;
}

const TABLE = "langgraph_writes";
const KEY = ["checkpoint_ns", "checkpoint_id", "node_task_id", "idx"] as const;

export function writes(only: number | undefined): Phase[] {
  const rest = { table: TABLE, counts: "writes", limit: 20, check: checkWrites } as const;
  return walkSeqs<StoredWriteRow>(only, "langgraph_writes_by_checkpoint", rest);
}

function* checkWrites(ctx: VerifyContext, row: StoredWriteRow): Program<void> {
  const where = { ...whereOf(row), nodeTaskId: row.node_task_id, idx: row.idx };
  const owner = yield* ctx.entered(row, where);
  if (owner === undefined) return;
  const { checkpoint_ns: ns, checkpoint_id: checkpointId } = row;
  const entries = ctx.attempt(owner.threadId, where, () => openWrites(ctx.sql, owner.threadId, row, ns, checkpointId));
  if (entries !== undefined) yield* ctx.refersTo(owner, where, entries);
  yield* checkVersions(ctx, owner, TABLE, KEY, row, where);
  // With durability "exit" writes come before their checkpoint, and a crash in between leaves them alone.
  if (!(yield* isStored(ctx, row.thread, ns, checkpointId))) {
    ctx.remark("reference", owner.threadId, where, `checkpoint ${checkpointId}, which the writes belong to`, "none of that id");
  }
}
