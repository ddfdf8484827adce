import { type DatabaseHandle, SqliteTurnLog } from "../store/sqlite";
import type { LoggedTurn } from "../store/store";
import type { Values } from "../values";
import { checkedKeep, hydrated, tasksBehind, turnToLog, valuesOfTurns } from "./logged-turns";
import type { LangGraphCheckpoint } from "./turn";

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
