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
    tokens: { input: row.inputTokens, output: row.outputTokens },
  };
}
