import { TurnsError } from "../errors";
import type { TurnSaver } from "../saver";
import type { Undos } from "../rewind/undos";

/** What a gate's VALIDATION_FAILED says about itself. */
interface FailedGate {
  threadId: string;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  turnId: string | undefined;
  confidence: number;
  maxRollbacks: number;
}

interface Origin {
  checkpointNs: string;
  checkpointId: string;
}

/** @returns undefined for an error that is no gate's, or of one that is not to roll back */
export function rollbackAsked(error: unknown): FailedGate | undefined {
  if (!TurnsError.is(error, "VALIDATION_FAILED") || error.data["onFailure"] !== "rollback") return undefined;
  return error.data as unknown as FailedGate;
}

/**
 * Goes back to the checkpoint that the node started from, its effects undone (S3.4). How often is counted in the database, by node task,
 * whose id stays the same: a run that crashes in between does not roll back for ever.
 *
 * @returns whether it did; false if the node has been rolled back as often as it may, or nobody knows where it started
 * @throws {TurnsError} what the rewind is refused with, EFFECT_UNCOMPENSATED and its like; the run then stands where the node failed
 */
export async function rollBack(saver: TurnSaver, undos: Undos, gate: FailedGate): Promise<boolean> {
  const reason = `gate:${gate.nodeTaskId}`;
  const { threadId, nodeName: node, confidence, maxRollbacks } = gate;
  const before = await saver.countRewinds(threadId, reason);
  if (before >= maxRollbacks) {
    saver.logger.warn(
      { threadId, node, confidence, rollbacks: before },
      `node ${JSON.stringify(node)} was rolled back as often as it may be`,
    );
    return false;
  }
  const from = await startOf(saver, gate);
  if (from === undefined) {
    saver.logger.warn(
      { threadId, node },
      `node ${JSON.stringify(node)} failed its validation, and nobody knows where it started`,
    );
    return false;
  }
  saver.logger.warn(
    { threadId, node, confidence, rollback: before + 1, maxRollbacks },
    `node ${JSON.stringify(node)} failed its validation: the run goes back to the checkpoint before it`,
  );
  await saver.rewindToCheckpoint({ threadId, ...from, reason }, undos, true);
  return true;
}

/**
 * The checkpoint that the node started from: its turn knows it, and where turns are not kept, a node of the outermost graph started from
 * the newest.
 */
async function startOf(saver: TurnSaver, { threadId, nodeNs, turnId }: FailedGate): Promise<Origin | undefined> {
  const run = await saver.lastRun(threadId);
  if (run?.damage !== undefined) throw run.damage;
  const turns = turnId === undefined ? [] : await saver.listTurns(threadId, { afterSeq: Math.max(0, (run?.sinceSeq ?? 0) - 1) });
  const { checkpointNs, checkpointId } = turns.find(({ id }) => id === turnId) ?? {};
  if (checkpointNs !== undefined && checkpointId !== undefined) return { checkpointNs, checkpointId };
  const head = turnId === undefined && !nodeNs.includes("|") ? run?.branch[0] : undefined;
  return head === undefined ? undefined : { checkpointNs: "", checkpointId: head };
}
