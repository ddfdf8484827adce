import { checkedOptions, resolveOptions } from "../options";
import { openPostgresTurnLog, type PgPool, type PostgresTurnLog } from "../store/postgres";
import { checkedKeep, hydrated, tasksBehind, turnToLog, valuesOfTurns } from "../turns/logged-turns";
import type { LangGraphCheckpoint } from "../turns/turn";
import type { Values } from "../values";
import { placeOptions, type PostgresTurnSaverOptions } from "./saver";

/** Options of {@link PostgresCheckpointPersister}. All are optional, and as those of `PostgresTurnSaver`. */
export type PostgresCheckpointPersisterOptions = Pick<
  PostgresTurnSaverOptions,
  "schema" | "migrate" | "busyTimeoutMs" | "logger"
>;

/**
 * The turn log by itself, on PostgreSQL. It does what `CheckpointPersister` does on SQLite, asynchronously: when a method
 * resolves, its commit has happened.
 *
 * It uses the tables of a `PostgresTurnSaver`, and has no encryption keys. In a database that a saver encrypts, it can neither
 * save nor read turns; both fail with ENCRYPTED.
 *
 * Every method throws a `TurnsError`: STORE_UNAVAILABLE, STORE_BUSY, STORE_FAILED or STORE_CLOSED from the server, and as the
 * first access what {@link setup} throws.
 */
export class PostgresCheckpointPersister {
  readonly #log: PostgresTurnLog;
  readonly #values: Values;

  /**
   * Uses a pool of yours, which it never ends. Nothing is connected before the first access.
   *
   * @param pool a `pg.Pool` of `pg` 8.23 or newer
   * @throws {TurnsError} INVALID_OPTION
   */
  constructor(pool: PgPool, options?: PostgresCheckpointPersisterOptions);
  /** @internal {@link fromConnString} */
  constructor(source: PgPool | string, options?: PostgresCheckpointPersisterOptions);
  constructor(source: PgPool | string, options: PostgresCheckpointPersisterOptions = {}) {
    const { schema, migrate, ...rest } = options;
    const { busyTimeoutMs, logger } = resolveOptions(rest);
    this.#log = openPostgresTurnLog(source, { ...checkedOptions(placeOptions, { schema, migrate }), busyTimeoutMs, logger });
    this.#values = valuesOfTurns(this.#log);
  }

  /**
   * Uses a pool of its own, which {@link close} ends.
   *
   * @param connectionString `postgresql://user:password@host:5432/database`
   * @throws {TurnsError} INVALID_OPTION; the first access throws DRIVER_UNAVAILABLE if `pg` isn't installed
   */
  static fromConnString(connectionString: string, options?: PostgresCheckpointPersisterOptions): PostgresCheckpointPersister {
    return new PostgresCheckpointPersister(connectionString, options);
  }

  /**
   * Connects, and creates the tables or brings them up to date. The first access does it otherwise.
   *
   * @throws {TurnsError} STORE_UNAVAILABLE, DRIVER_UNAVAILABLE, SCHEMA_TOO_NEW, SCHEMA_CONFLICT, SCHEMA_OUTDATED, ENCRYPTED
   */
  async setup(): Promise<void> {
    await this.#log.ready();
  }

  /** Ends the persister's own pool, when everything that was handed in has its outcome. */
  async close(): Promise<void> {
    await this.#log.closed();
  }

  /**
   * Inserts one row, in a transaction of its own (S1.1). If it throws, no part of the row exists (S1.2).
   *
   * The state is read at the call. What you change in it later isn't saved.
   *
   * @throws {TurnsError} INVALID_CHECKPOINT; UNSERIALIZABLE_VALUE with the path to the value; STORE_FAILED, for example if the id
   *   is taken; ENCRYPTED
   */
  async save(checkpoint: LangGraphCheckpoint): Promise<void> {
    await this.#log.insert(turnToLog(checkpoint));
  }

  /**
   * Loads the checkpoint with this id, or `null` (S2.1).
   *
   * @throws {TurnsError} CHECKPOINT_CORRUPTED, UNDECODABLE_VALUE, ENCRYPTED
   */
  async load(id: string): Promise<LangGraphCheckpoint | null> {
    return this.#loaded(await this.#log.byId(id));
  }

  /** Loads the graph's checkpoint that was inserted last, or `null` (S1.3). @throws {TurnsError} as {@link load} */
  async loadLatest(graphId: string): Promise<LangGraphCheckpoint | null> {
    return this.#loaded(await this.#log.latest(graphId));
  }

  /**
   * Loads all checkpoints of a task, oldest first (S1.4).
   *
   * @param options.graphId limits the result to one graph, where task ids repeat between graphs
   * @throws {TurnsError} as {@link load}
   */
  async loadForTask(taskId: string, options: { graphId?: string } = {}): Promise<LangGraphCheckpoint[]> {
    return (await this.#log.ofTask(taskId, options.graphId)).map((logged) => hydrated(this.#values, logged));
  }

  /**
   * Deletes every row of the tasks after the target, in one transaction (S1.5). For the last task there's nothing to delete.
   *
   * @param allTaskIds all tasks in their order, the target among them
   * @param options.graphId deletes only within one graph, where task ids repeat between graphs
   * @returns how many rows were deleted
   * @throws {TurnsError} UNKNOWN_TASK if the target isn't in the list; then, as on any failure, nothing is deleted (S1.9)
   */
  async deleteAfter(targetTaskId: string, allTaskIds: readonly string[], options: { graphId?: string } = {}): Promise<number> {
    const behind = tasksBehind(targetTaskId, allTaskIds);
    return behind.length === 0 ? 0 : this.#log.deleteTasks(behind, options.graphId);
  }

  /**
   * Keeps the newest checkpoints of a graph and deletes its older ones (S2.1).
   *
   * @param keep how many to keep, a whole number from 0
   * @returns how many rows were deleted
   */
  async prune(graphId: string, keep: number): Promise<number> {
    return this.#log.prune(graphId, checkedKeep(keep));
  }

  #loaded(logged: Parameters<typeof hydrated>[1] | undefined): LangGraphCheckpoint | null {
    return logged === undefined ? null : hydrated(this.#values, logged);
  }
}
