import { WRITE_ROWS } from "../rows";
import { WRITES } from "../tables";
import type { Program } from "../program";
import type { VerifyContext } from "./verify-context";
import { isStored, whereOf } from "./verify-snapshots";
import { checkVersions } from "./verify-versions";
import { type Phase, walkSeqs } from "./verify-walk";
import type { RawWrites } from "../ops/put-writes";

export function writes(only: number | undefined): Phase[] {
  return walkSeqs<RawWrites>(only, WRITES, { limit: 20, check: checkWrites });
}

function* checkWrites(ctx: VerifyContext, row: RawWrites): Program<void> {
  const where = { ...whereOf(row), nodeTaskId: row.node_task_id, idx: row.idx };
  const owner = yield* ctx.entered(row, where);
  if (owner === undefined) return;
  const { checkpoint_ns: ns, checkpoint_id: checkpointId } = row;
  const entries = ctx.attempt(owner.threadId, where, () => WRITE_ROWS.parse(ctx.sql.sealing, owner.threadId, row).entries);
  if (entries !== undefined) yield* ctx.refersTo(owner, where, entries);
  yield* checkVersions(ctx, owner, WRITES, row, where);
  // With durability "exit" writes come before their checkpoint, and a crash in between leaves them alone.
  if (!(yield* isStored(ctx, row.thread, ns, checkpointId))) {
    ctx.remark("reference", owner.threadId, where, `checkpoint ${checkpointId}, which the writes belong to`, "none of that id");
  }
}
