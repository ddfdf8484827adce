import { describe, TurnsError } from "../errors";
import { parseValidation } from "../guards/gates";
import { ID_RULE, isId } from "../ids";
import type { TurnRow } from "../store/store";
import type { Turn } from "./types";

/** A row that the recorder wrote, as the public type. */
export function toPublicTurn(row: TurnRow): Turn {
  return {
    id: row.id,
    graphId: row.graphId,
    nodeName: row.nodeName,
    turnType: row.turnType,
    taskId: row.taskId,
    createdAt: new Date(row.createdAt),
    seq: row.seq ?? 0,
    threadId: row.threadId ?? "",
    checkpointNs: row.ns ?? "",
    checkpointId: row.checkpointId,
    nodeNs: row.nodeNs ?? "",
    nodeTaskId: row.nodeTaskId ?? "",
    step: row.step ?? 0,
    attempt: row.attempt ?? 1,
    status: row.status,
    durable: row.durable,
    tokens: {
      input: row.inputTokens,
      output: row.outputTokens,
      cached: row.cachedTokens,
      reasoning: row.reasoningTokens,
    },
    fingerprint: row.fingerprint,
    validation: row.validation === undefined ? undefined : parseValidation(row.validation),
  };
}

/** Whether these are the parts of a turn by which its row is found. @throws {TurnsError} INVALID_CONFIG naming the first that is wrong */
export function refuseNoTurn(turn: Pick<Turn, "threadId" | "seq" | "id">): void {
  const { threadId, seq, id } = (turn ?? {}) as Record<string, unknown>;
  if (!isId(threadId)) throw noTurn("threadId", ID_RULE, threadId);
  if (!Number.isSafeInteger(seq) || (seq as number) < 0) throw noTurn("seq", "a whole number from 0", seq);
  if (!isId(id)) throw noTurn("id", ID_RULE, id);
}

function noTurn(field: string, expected: string, found: unknown): TurnsError {
  return new TurnsError("INVALID_CONFIG", {
    what: `${field} of the turn`,
    expected,
    found: describe(found),
    remedy: "Pass a turn as saver.listTurns(threadId) gives it.",
    data: { key: field },
  });
}
