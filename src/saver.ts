import type { EventEmitter } from "node:events";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type ChannelVersions,
  type DeltaChannelHistory,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { z } from "zod";
import { assembled, type DatabaseHandle, internalsFrom } from "./assembly";
import { backup, type BackupOptions, type BackupReport } from "./backup";
import type { Beginnings, RunNames } from "./run-starts";
import { drain, type DrainOptions, type DrainParts, type DrainReport } from "./drain";
import type { Effects } from "./effects/effects";
import type { SaverEmitter, SaverEvents } from "./events";
import { keepInternals } from "./internals";
import type { VerifyReport, VerifyRequest } from "./integrity/verify";
import { listTuples } from "./list";
import { checkedOptions, resolveOptions, type ResolvedOptions, type TurnSaverOptions } from "./options";
import type { RetentionControl } from "./retention/control";
import type { Names } from "./retention/names";
import { prune, type PruneParts, type PruneReport, type PruneRequest } from "./retention/prune";
import type { Retention } from "./retention/retention";
import { removeLeftovers, type SpaceKeeper } from "./retention/space";
import type { UserSerde } from "./serde";
import type { RewindReport, RewindRequest } from "./rewind/plan";
import { type RewindParts, type Rewinds, rewound } from "./rewind/rewinds";
import { rewindThread } from "./rewind/rewind";
import type { Undos } from "./rewind/undos";
import { addressOf, checkedId, configurableOf, runAround } from "./run-config";
import type { Saving } from "./saving";
import { copyThread } from "./thread-copying";
import type { Page, PageOptions } from "./page";
import type { Store } from "./store/store";
import { listThreads, type ThreadSummary } from "./threads";
import { beginTracing, checkpointAttributes, configAttributes, storeSpan } from "./tracing";
import { deltaHistoryOf, readTuple, type TupleParts } from "./tuples";
import { attachRecorder, type AttachOptions } from "./turns/attach";
import { isAlive } from "./turns/process-identity";
import type { Draining } from "./turns/draining";
import { isRecorded, type TurnRecorder } from "./turns/recorder";
import type { RunRegistry } from "./turns/run-registry";
import type { SeenCheckpoints } from "./turns/seen-checkpoints";
import type { Turns } from "./turns/turns";
import type { Values } from "./values";

export type { DatabaseHandle, NodeSqliteDatabase, NodeSqliteStatement, SqliteDatabase } from "./assembly";

const deletion = () => z.strictObject({ final: z.boolean().default(false) });
/** Not strict: LangGraph may come to pass more. */
const deltaRequest = () => z.object({ config: z.unknown().optional(), channels: z.array(z.string()) });

/**
 * A LangGraph checkpointer on SQLite that also records turns and can rewind: `builder.compile({ checkpointer: saver })`.
 *
 * Saves are serialised and committed before `put` and `putWrites` return their promise, so LangGraph's default durability "async"
 * guarantees here what "sync" promises elsewhere. With the option `serde`, which is asynchronous, they are committed before that promise
 * resolves, in order. Every method throws a {@link TurnsError}: INVALID_CONFIG for ids that are no ids, STORE_CLOSED, STORE_BUSY,
 * STORE_FAILED from the database, CHECKPOINT_CORRUPTED for rows that do not verify; docs/errors.md lists all codes. With an asynchronous
 * key provider saves wait for the keys, in order, and all fail with what the opening failed with: KEY_PROVIDER_FAILED, WRONG_KEY, …
 */
export class TurnSaver extends BaseCheckpointSaver {
  /** Turns, checkpoints, failures and rewinds, as they are committed. */
  readonly events: EventEmitter<SaverEvents>;
  /** The journal of side effects: look at it, and settle what is in doubt. */
  readonly effects: Effects;
  /** Turns and their states, tasks, tokens, and which runs are at work. */
  readonly turns: Turns;
  /** Rewinds on record: finish, give up or take back; and what a rewind would undo. */
  readonly rewinds: Rewinds;
  /** What is deleted besides whole threads and by {@link prune}. */
  readonly retention: RetentionControl;
  /** Names of checkpoints, which keep them from being pruned. */
  readonly names: Names;
  readonly #options: ResolvedOptions;
  readonly #store: Store;
  readonly #values: Values;
  readonly #serde: UserSerde | undefined;
  readonly #runs: RunRegistry;
  readonly #recorder: TurnRecorder;
  readonly #space: SpaceKeeper;
  readonly #pruner: Retention | undefined;
  readonly #emitter: SaverEmitter;
  readonly #rewinding: RewindParts;
  readonly #pruning: PruneParts;
  /** What the newest run of a thread was told about its task: the callbacks of its nodes do not carry it. */
  readonly #runNames: RunNames;
  readonly #beginnings: Beginnings;
  readonly #saving: Saving;
  readonly #seen: SeenCheckpoints;
  readonly #draining: Draining;
  #drained: Promise<DrainReport> | undefined;

  static {
    // LangGraph's base class has it from checkpoint 1.2 on, so that a saver in a config isn't written out; older versions write it out.
    Object.defineProperty(this.prototype, "toJSON", { value: () => "[TurnSaver]", configurable: true, writable: true });
  }

  /**
   * @param db an open database of better-sqlite3, or a `DatabaseSync` of `node:sqlite`. The saver sets its pragmas (a busy timeout of 5 ms among them: it waits for locks
   *   itself), brings its schema up to date, and closes it with {@link close}. Other tables in the file are left alone.
   * @throws {TurnsError} INVALID_OPTION, STORE_UNAVAILABLE, NOT_A_DATABASE, SCHEMA_TOO_NEW, SCHEMA_CONFLICT; DRIVER_UNAVAILABLE for a
   *   path; ENCRYPTED, NOT_ENCRYPTED, UNKNOWN_KEY, WRONG_KEY, KEY_PROVIDER_FAILED
   */
  constructor(db: DatabaseHandle, options?: TurnSaverOptions);
  /** @internal {@link fromPath} */
  constructor(source: DatabaseHandle | string, options?: TurnSaverOptions);
  constructor(source: DatabaseHandle | string, options?: TurnSaverOptions) {
    const resolved = resolveOptions(options);
    super(resolved.serde);
    beginTracing();
    const parts = assembled(source, resolved);
    this.#options = resolved;
    this.#emitter = parts.events;
    this.events = parts.events;
    this.effects = parts.effects;
    this.turns = parts.turns;
    this.rewinds = parts.rewinds;
    this.retention = parts.control;
    this.names = parts.names;
    this.#store = parts.store;
    this.#values = parts.values;
    this.#serde = parts.serde;
    this.#runs = parts.runs;
    this.#recorder = parts.recorder;
    this.#space = parts.space;
    this.#pruner = parts.retention;
    this.#rewinding = parts.rewinding;
    this.#pruning = parts.pruning;
    this.#runNames = parts.runNames;
    this.#beginnings = parts.beginnings;
    this.#saving = parts.saving;
    this.#seen = parts.seen;
    keepInternals(this, internalsFrom(parts, resolved));
    this.#draining = parts.draining;
    this.#space.tidy();
  }

  /** Opens or creates a database file; `":memory:"` lives as long as the saver. @throws as the constructor */
  static fromPath(path: string, options?: TurnSaverOptions): TurnSaver {
    return new TurnSaver(path, options);
  }

  /** {@link fromPath} under the name the official savers use. */
  static fromConnString(connStringOrLocalPath: string, options?: TurnSaverOptions): TurnSaver {
    return TurnSaver.fromPath(connStringOrLocalPath, options);
  }

  /**
   * Records a Thought before and an Action after every node of this graph and of the graphs inside it, in place. Takes a compiled
   * graph, a functional entrypoint, or an agent that carries its graph as `.graph`. Attaching again changes nothing but the options
   * that are given then.
   *
   * @returns the graph itself
   * @throws {TurnsError} INVALID_GRAPH, INVALID_OPTION
   */
  attach<G extends object>(graph: G, options?: AttachOptions): G {
    attachRecorder(graph, this.#recorder, { saver: this, logger: this.#options.logger }, options);
    return graph;
  }

  /** Nothing to do: the schema is there when the saver is. For programs that come from savers that have to be set up. */
  async setup(): Promise<void> {
    // The constructor has done it.
  }

  /** The checkpoint of `configurable.checkpoint_id`, or the namespace's newest; undefined if there is none. */
  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    return storeSpan(
      "getTuple",
      "langgraph_snapshots",
      () => configAttributes(config),
      () => this.#getTuple(config),
    );
  }

  async #getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    // LangGraph's own suite holds a missing thread_id to "not found" here.
    if (configurableOf(config, "getTuple")["thread_id"] === undefined) return undefined;
    const at = addressOf(config, "getTuple");
    if (at.ns === "") this.#runNames.remember(config, at);
    if (this.#beginnings.isOne(config, at)) {
      if (!isRecorded(config.callbacks, this.#recorder)) this.#draining.refuseRun(at.threadId);
      const lease = this.#runs.leaseOf(at.threadId);
      const found = this.#store.foundBy(at.threadId);
      this.#beginnings.began(config, at, { ...(found instanceof Promise ? await found : found), lease });
    }
    const tuple = await readTuple(this.#tupleParts(), at);
    if (tuple?.metadata !== undefined)
      this.#seen.add(at, tuple.checkpoint, tuple.metadata, runAround(config.callbacks), tuple.pendingWrites ?? []);
    return tuple;
  }

  /**
   * Checkpoints, greatest id first. A namespace of undefined or null means all of them, as a missing `thread_id` means all threads;
   * `filter` compares metadata by deep equality and takes its keys literally; a `limit` of 0 or less means none.
   */
  override list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    return listTuples(this.#tupleParts(), config, options ?? {});
  }

  /**
   * Saves a checkpoint with every channel value that it holds, whether the channel has a version or not.
   *
   * @param newVersions may be left out. It makes no difference but for the first input of a thread: if given, a versioned channel that
   *   it doesn't name is left out there
   * @throws {TurnsError} INVALID_CONFIG, INVALID_CHECKPOINT, UNSERIALIZABLE_VALUE naming channel and path, THREAD_DELETED
   */
  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions?: ChannelVersions,
  ): Promise<RunnableConfig> {
    return storeSpan(
      "put",
      "langgraph_snapshots",
      () => ({ ...configAttributes(config), ...checkpointAttributes(checkpoint, metadata) }),
      () => this.#saving.put(config, checkpoint, metadata, newVersions),
    );
  }

  /**
   * Saves what a node returned.
   *
   * @param taskPath where the task stands in its superstep, from LangGraph 1.5 on. Pending writes come back in the order of path, task id
   *   and index, which is the order LangGraph applies them in.
   * @throws {TurnsError} INVALID_CONFIG, INVALID_CHECKPOINT for what are no writes, and as {@link put}
   */
  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath?: string): Promise<void> {
    return storeSpan(
      "putWrites",
      "langgraph_writes",
      () => ({ ...configAttributes(config), "langgraph.node_task_id": taskId }),
      () => this.#saving.putWrites(config, writes, taskId, taskPath),
    );
  }

  /**
   * Removes all of a thread, from every table. It is gone for everyone at once; the rows of a large one go piece by piece until the
   * promise resolves, or, after a crash, when the file is opened again. An unknown thread is no error. A run that is still at work, here or in another process,
   * cannot bring it back, nor write into what begins under the id later: all its saves are refused with THREAD_DELETED. New input,
   * `updateState` and {@link copyThread} under the same id begin a new thread.
   *
   * @param options.final refuses new input under the id too, until `saver.retention.reuseThread`
   */
  override async deleteThread(threadId: string, options: { final?: boolean } = {}): Promise<void> {
    const { final } = checkedOptions(deletion, options);
    const id = checkedId(threadId, "thread_id", "deleteThread");
    if (this.#serde !== undefined) await this.#serde.settled();
    await this.#store.deleteThread(id, this.#options.clock().getTime(), final, isAlive);
    this.#runNames.forget(id);
    this.#values.forget(id);
    this.#pruner?.forget(id);
    await removeLeftovers(this.#store, isAlive);
    this.#space.later();
  }

  /** One query for all channels; see `store/sqlite/delta.ts` for which writes count. */
  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const { config, channels } = checkedOptions(deltaRequest, options);
    return deltaHistoryOf(this.#tupleParts(), addressOf(config as RunnableConfig, "getDeltaChannelHistory"), channels);
  }

  /** The threads of this database in the order of their ids. @throws {TurnsError} INVALID_OPTION */
  async listThreads(options: PageOptions<string> = {}): Promise<Page<ThreadSummary, string>> {
    return listThreads(this.#store, options);
  }

  /**
   * Copies a thread under a new id: checkpoints, writes, tasks and turns, so that a rewind of the copy is as exact as one of the
   * source. Archives of rewinds stay behind. The copy shows one moment of its source, and everyone sees it at once; the rows of a large
   * thread are written piece by piece before. After a crash in the middle the next process removes them.
   *
   * @throws {TurnsError} THREAD_NOT_FOUND, THREAD_EXISTS, REWIND_UNFINISHED; nothing is left of the copy then
   */
  async copyThread(sourceThreadId: string, targetThreadId: string): Promise<void> {
    const source = checkedId(sourceThreadId, "thread_id", "copyThread");
    const target = checkedId(targetThreadId, "thread_id", "copyThread");
    const { clock, createId } = this.#options;
    await copyThread(this.#store, { sourceId: source, targetId: target, createdAt: clock().toISOString(), createId });
  }

  /**
   * Goes back to the end of a task: undoes the effects that came later, newest first (docs/rewind.md), and then deletes all that came
   * later on the thread, in all namespaces, in one transaction. `dryRun` only tells what would go, and what would be undone; it is
   * refused where the real call would be. After a crash or a failure the same call continues; no undo that ran is called again.
   *
   * @param undos defined effects whose own undos and probes are used; all others are found by their names
   * @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND, UNKNOWN_TASK, STATE_INVARIANT_VIOLATED, THREAD_RUNNING, REWIND_UNFINISHED,
   *   CHECKPOINT_NOT_FOUND, EFFECT_UNCOMPENSATED, and EFFECT_IN_DOUBT, UNDO_FAILED, EFFECT_NOT_RECORDED while the undos run; nothing has been deleted
   *   then. THREAD_DELETED, LEASE_LOST if that happened meanwhile
   */
  async rewind(request: RewindRequest, undos?: Undos): Promise<RewindReport> {
    return rewound(this.#rewinding, request, () => rewindThread(this.#rewinding, request, undos));
  }

  /**
   * Removes old checkpoints of one thread or of all, with their writes and turns, and the values nobody needs any more; the file gets
   * smaller. What stays reads exactly as before; see docs/retention.md for what always stays. The event `pruned` tells the report.
   *
   * @throws {TurnsError} INVALID_OPTION if none of `keepTasks`, `keepLast`, `maxAgeMs` and `idleMs` is given; THREAD_NOT_FOUND, REWIND_UNFINISHED
   */
  async prune(request: PruneRequest): Promise<PruneReport> {
    const report = await prune(this.#pruning, request);
    for (const threadId of report.dryRun ? [] : report.deletedThreads) {
      this.#runNames.forget(threadId);
      this.#values.forget(threadId);
      this.#pruner?.forget(threadId);
    }
    if (!report.dryRun) this.#emitter.emit("pruned", { by: "prune", ...report });
    return report;
  }

  /**
   * Looks whether everything in the file, or on one thread, is as it was saved, a moment at a time beside whatever else goes on; see
   * docs/integrity.md for what it looks at and how to read the report. Nothing is changed, and what is found is not thrown.
   *
   * @throws {TurnsError} INVALID_OPTION; THREAD_NOT_FOUND
   */
  async verify(request: VerifyRequest = {}): Promise<VerifyReport> {
    const { verify } = await import("./integrity/verify");
    return verify(this.#store, request);
  }

  /**
   * Copies the database to another file while runs go on: everything that was saved when it was called, as of one moment. Writers don't
   * wait for it. The copy is verified row by row under a temporary name, synchronised, and only then gets its name, so a crash leaves
   * nothing there. Open it like any database: `TurnSaver.fromPath(path)`. What an encrypted saver sealed stays sealed. See docs/backups.md.
   *
   * @throws {TurnsError} INVALID_OPTION, also for the path of this database; BACKUP_TARGET_EXISTS without `overwrite`, or while a database
   *   of that name is open; BACKUP_ABORTED; CHECKPOINT_CORRUPTED if the copy doesn't verify; STORE_UNAVAILABLE, STORE_CLOSED, STORE_FAILED.
   *   Nothing is left at the destination then, and a file that was there is as it was.
   */
  async backup(path: string, options: BackupOptions = {}): Promise<BackupReport> {
    if (this.#serde !== undefined) await this.#serde.settled();
    return backup(this.#store, path, options);
  }

  /**
   * Ends a server's work: refuses new runs (STORE_DRAINING), lets each running node reach its end, commits and closes. Runs end with
   * STORE_DRAINING before their next node, and can be resumed there. When the time is up it closes all the same, logs a warning and
   * reports what was still running. Draining again gives the same promise. See docs/servers.md.
   *
   * Nodes of attached graphs are waited for; of others only the saves that are under way.
   *
   * @throws {TurnsError} INVALID_OPTION; nothing has been refused or closed then
   */
  drain(options: DrainOptions = {}): Promise<DrainReport> {
    if (this.#drained !== undefined) return this.#drained;
    const drained = drain(this.#drainParts(), options);
    this.#drained = drained;
    // What failed can be tried again.
    drained.catch(() => (this.#drained = undefined));
    return drained;
  }

  /**
   * Closes the database at once; what comes later fails with STORE_CLOSED. Nodes that are running lose what they would return: await
   * {@link drain} where runs may be going on. Closing twice is fine.
   */
  close(): void {
    if (!this.#store.open) return;
    this.#runs.close();
    this.#store.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  #drainParts(): DrainParts {
    return {
      draining: this.#draining,
      runs: this.#runs,
      recorder: this.#recorder,
      store: this.#store,
      log: this.#options.logger,
      close: () => this.close(),
    };
  }

  #tupleParts(): TupleParts {
    return {
      store: this.#store,
      values: this.#values,
      serde: this.#serde,
      nextVersion: (current) => this.getNextVersion(current),
    };
  }
}
