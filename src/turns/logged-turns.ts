import { encode } from "../codec";
import { describe, TurnsError } from "../errors";
import { refuseSerialized } from "../serde";
import type { LoggedTurn, TurnRow } from "../store/store";
import { type Addresses, Values } from "../values";
import { checkedTurn, type LangGraphCheckpoint, stateOfTurn } from "./turn";

/** @throws {TurnsError} INVALID_CHECKPOINT, UNSERIALIZABLE_VALUE */
export function turnToLog(checkpoint: LangGraphCheckpoint): Omit<TurnRow, "seq"> {
  const { id, graphId, nodeName, turnType, state, taskId, createdAt } = checkedTurn(checkpoint);
  return {
    id,
    graphId,
    nodeName,
    turnType,
    serializedState: encode(state),
    taskId,
    createdAt: createdAt.toISOString(),
    stateFormat: "state",
    threadId: undefined,
    ns: undefined,
    checkpointId: undefined,
    nodeNs: undefined,
    nodeTaskId: undefined,
    runId: undefined,
    step: undefined,
    attempt: undefined,
    status: undefined,
    durable: false,
    inputTokens: 0,
    outputTokens: 0,
    cachedTokens: 0,
    reasoningTokens: 0,
    graph: undefined,
    fingerprint: undefined,
    validation: undefined,
  };
}

/** Nothing is saved by it, so there is nothing to remember. */
export const valuesOfTurns = (addresses: Addresses): Values =>
  new Values({ classInstances: "error", immutable: false, cacheSize: 0 }, addresses);

/** @throws {TurnsError} CHECKPOINT_CORRUPTED, UNDECODABLE_VALUE, ENCRYPTED */
export function hydrated(values: Values, { turn, chunks, checkpoint }: LoggedTurn): LangGraphCheckpoint {
  const { id, graphId, nodeName, turnType, taskId } = turn;
  const stored = values.decoded(turn.threadId ?? "", turn.serializedState, { generation: "", chunks });
  const state = stateOfTurn(turn, stored, () => {
    const behind = checkpoint();
    return behind && values.values(behind, behind, false);
  });
  refuseSerialized(state);
  return { id, graphId, nodeName, turnType, state, taskId, createdAt: new Date(turn.createdAt) };
}

/** The tasks after the target. @throws {TurnsError} UNKNOWN_TASK */
export function tasksBehind(targetTaskId: string, allTaskIds: readonly string[]): string[] {
  const target = allTaskIds.lastIndexOf(targetTaskId);
  if (target === -1) throw unknownTarget(targetTaskId, allTaskIds);
  return [...new Set(allTaskIds.slice(target + 1))];
}

/** @throws {TurnsError} INVALID_OPTION */
export function checkedKeep(keep: number): number {
  if (!Number.isSafeInteger(keep) || keep < 0) throw invalidKeep(keep);
  return keep;
}

function unknownTarget(targetTaskId: string, allTaskIds: readonly string[]): TurnsError {
  return new TurnsError("UNKNOWN_TASK", {
    problem: `Target task ${describe(targetTaskId)} is not among the ${allTaskIds.length} tasks in the list.`,
    remedy: "Pass the whole ordered list of tasks, the target among them. Nothing was deleted.",
    data: { toTask: targetTaskId },
  });
}

function invalidKeep(keep: unknown): TurnsError {
  return new TurnsError("INVALID_OPTION", {
    problem: `keep is ${describe(keep)}.`,
    remedy: "Pass a whole number from 0. Nothing was deleted.",
  });
}
