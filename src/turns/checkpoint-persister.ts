import { encode } from "../codec";
import { describe, TurnsError } from "../errors";
import { type DatabaseHandle, SqliteTurnLog } from "../store/sqlite";
import type { LoggedTurn, TurnRow } from "../store/store";
import { refuseSerialized } from "../serde";
import { type Addresses, Values } from "../values";
import { stateOfTurn } from "./turn";
import { checkedTurn, type LangGraphCheckpoint } from "./turn";

/**
 * The turn log by itself, over an open handle of better-sqlite3 or `node:sqlite` (requirement S1). It is synchronous: when a
 * method returns, its commit has happened.
 *
 * The handle stays yours: its pragmas aren't touched, and it isn't closed. The class has no encryption keys. In a database that a
 * TurnSaver encrypts, it can neither save nor read turns; both fail with ENCRYPTED.
 */
export class CheckpointPersister {
  readonly #log: SqliteTurnLog;
  readonly #values: Values;

  /**
   * Creates missing tables by running the migrations.
   *
   * @param db an open database of better-sqlite3, or a `DatabaseSync` of `node:sqlite`
   * @throws {TurnsError} SCHEMA_TOO_NEW, SCHEMA_CONFLICT, STORE_UNAVAILABLE
   */
  constructor(db: DatabaseHandle) {
    this.#log = new SqliteTurnLog(db);
    this.#values = valuesOfTurns(this.#log);
  }

  /**
   * Inserts one row, in a transaction of its own (S1.1). If it throws, no part of the row exists (S1.2).
   *
   * @throws {TurnsError} INVALID_CHECKPOINT; UNSERIALIZABLE_VALUE with the path to the value; STORE_FAILED, for example if the id
   *   is taken; ENCRYPTED
   */
  save(checkpoint: LangGraphCheckpoint): void {
    this.#log.insert(turnToLog(checkpoint));
  }

  /**
   * Loads the checkpoint with this id, or `null` (S2.1).
   *
   * @throws {TurnsError} CHECKPOINT_CORRUPTED, UNDECODABLE_VALUE, ENCRYPTED
   */
  load(id: string): LangGraphCheckpoint | null {
    return this.#read(this.#log.byId(id));
  }

  /** Loads the graph's checkpoint with the highest rowid, or `null` (S1.3). @throws {TurnsError} as {@link load} */
  loadLatest(graphId: string): LangGraphCheckpoint | null {
    return this.#read(this.#log.latest(graphId));
  }

  /**
   * Loads all checkpoints of a task, oldest first (S1.4).
   *
   * @param options.graphId limits the result to one graph, where task ids repeat between graphs
   * @throws {TurnsError} as {@link load}
   */
  loadForTask(taskId: string, options: { graphId?: string } = {}): LangGraphCheckpoint[] {
    return this.#log.ofTask(taskId, options.graphId).map((logged) => hydrated(this.#values, logged));
  }

  /**
   * Deletes every row of the tasks after the target, in one transaction (S1.5). For the last task there's nothing to delete.
   *
   * @param allTaskIds all tasks in their order, the target among them
   * @param options.graphId deletes only within one graph, where task ids repeat between graphs
   * @returns how many rows were deleted
   * @throws {TurnsError} UNKNOWN_TASK if the target isn't in the list; then, as on any failure, nothing is deleted (S1.9)
   */
  deleteAfter(targetTaskId: string, allTaskIds: readonly string[], options: { graphId?: string } = {}): number {
    const behind = tasksBehind(targetTaskId, allTaskIds);
    return behind.length === 0 ? 0 : this.#log.deleteTasks(behind, options.graphId);
  }

  /**
   * Keeps the newest checkpoints of a graph and deletes its older ones (S2.1).
   *
   * @param keep how many to keep, a whole number from 0
   * @returns how many rows were deleted
   */
  prune(graphId: string, keep: number): number {
    return this.#log.prune(graphId, checkedKeep(keep));
  }

  #read(logged: LoggedTurn | undefined): LangGraphCheckpoint | null {
    return logged === undefined ? null : hydrated(this.#values, logged);
  }
}

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
