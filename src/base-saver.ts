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
import { assembled, internalsFrom } from "./assembly";
import { backup, type BackupOptions, type BackupReport } from "./backup";
import { drain, type DrainOptions, type DrainParts, type DrainReport } from "./drain";
import type { Effects } from "./effects/effects";
import type { SaverEmitter, SaverEvents } from "./events";
import { Changes, type FollowRequest } from "./follow";
import { showAs } from "./inspect";
import type { Internals } from "./internals";
import { addReader } from "./known-savers";
import type { VerifyReport, VerifyRequest } from "./integrity/verify";
import { listHeads, listTuples } from "./list";
import { checkedOptions, type ResolvedOptions } from "./options";
import type { RetentionControl } from "./retention/control";
import type { Names } from "./retention/names";
import { prune, type PruneParts, type PruneReport, type PruneRequest } from "./retention/prune";
import type { Retention } from "./retention/retention";
import { removeLeftovers, type SpaceKeeper } from "./retention/space";
import type { UserSerde } from "./serde";
import type { RewindReport, RewindRequest } from "./rewind/plan";
import { type RewindParts, type Rewinds, rewound } from "./rewind/rewinds";
import type { Undos } from "./rewind/undos";
import {
  type Address,
  addressOf,
  checkedArgument,
  type CheckpointAddress,
  configurableOf,
  runAround,
  type RunNames,
  type RunStarts,
} from "./run-config";
import type { CheckpointSaves } from "./saving/put";
import type { WritesSaves } from "./saving/put-writes";
import { copyThread } from "./thread-copying";
import type { Page, PageOptions } from "./page";
import type { Store } from "./store/store";
import { listThreads, type ThreadSummary } from "./threads";
import { beginTracing, checkpointAttributes, configAttributes, storeSpan } from "./tracing";
import { deltaHistoryOf, readAsked, readListed, readTuple, type TupleParts } from "./tuples";
import { attachRecorder, type AttachOptions } from "./turns/attach";
import { isAlive } from "./turns/process-identity";
import type { Draining } from "./turns/draining";
import { beginVisit, leaveOutUsedAnswers, type RootStep } from "./turns/nested-resume";
import { ownCheckpoint } from "./turns/parallel-visits";
import { isRecorded, type TurnRecorder } from "./turns/recorder";
import type { RunRegistry } from "./turns/run-registry";
import type { SeenCheckpoints } from "./turns/handed-in";
import type { Turns } from "./turns/turns";
import type { Values } from "./values";

const deletion = () => z.strictObject({ final: z.boolean().default(false) });
/** Not strict: LangGraph may pass more in the future. */
const deltaRequest = () => z.object({ config: z.unknown().optional(), channels: z.array(z.string()) });

/** What savers on all databases are and do. Use {@link TurnSaver} for SQLite. */
export abstract class BaseTurnSaver extends BaseCheckpointSaver {
  /** Turns, checkpoints, failures and rewinds, emitted as they are committed. */
  readonly events: EventEmitter<SaverEvents>;
  /** The journal of side effects: read it, and settle what is in doubt. */
  readonly effects: Effects;
  /** Turns and their states, tasks, tokens, and which runs are live. */
  readonly turns: Turns;
  /** Recorded rewinds: finish, abandon or take them back, and see what a rewind would undo. */
  readonly rewinds: Rewinds;
  /**
   * Deletes checkpoints by run id, and allows deleted thread ids again. For everything else see {@link prune} and
   * {@link deleteThread}.
   */
  readonly retention: RetentionControl;
  /** Names for checkpoints. A named checkpoint is never pruned. */
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
  /** The task names that each thread's newest run was given: the callbacks of its nodes don't carry them. */
  readonly #runNames: RunNames;
  readonly #runStarts: RunStarts;
  readonly #checkpointSaves: CheckpointSaves;
  readonly #writesSaves: WritesSaves;
  readonly #seen: SeenCheckpoints;
  readonly #draining: Draining;
  readonly #internals: Internals;
  #drained: Promise<DrainReport> | undefined;

  static {
    addReader((value) => (#internals in value ? value.#internals : undefined));
    // LangGraph's base class defines it from checkpoint 1.2 on, so that a saver in a config isn't serialised. Older versions
    // don't.
    Object.defineProperty(this.prototype, "toJSON", { value: () => "[TurnSaver]", configurable: true, writable: true });
    // No options, as one may be a key.
    showAs(this.prototype, "TurnSaver", (saver) => {
      return { file: saver.#store.name, open: saver.#store.isOpen(), encrypted: saver.#options.encryption !== undefined };
    });
  }

  /** @internal */
  protected constructor(store: Store, options: ResolvedOptions) {
    super(options.serde);
    beginTracing();
    const parts = assembled(store, options);
    this.#options = options;
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
    this.#runStarts = parts.runStarts;
    this.#checkpointSaves = parts.checkpointSaves;
    this.#writesSaves = parts.writesSaves;
    this.#seen = parts.seen;
    this.#internals = {
      readHead: (head, wanted) => readListed(this.#tupleParts(), head, wanted),
      asked: (threadId, sinceSeq) => readAsked(this.#tupleParts(), threadId, sinceSeq),
      ...internalsFrom(parts, options),
    };
    this.#draining = parts.draining;
    if (!options.readOnly) this.#space.tidy();
  }

  /**
   * Records a Thought before each node of this graph and an Action after it, nested graphs included. It changes the graph in
   * place. Attaching again changes only the options that you give.
   *
   * @param graph a compiled graph, a functional entrypoint, or an agent that carries its graph as `.graph`
   * @returns the graph itself
   * @throws {TurnsError} INVALID_GRAPH, INVALID_OPTION
   */
  attach<G extends object>(graph: G, options?: AttachOptions): G {
    const hasCheckpoint = async (at: CheckpointAddress): Promise<boolean> =>
      (await readTuple(this.#tupleParts(), at)) !== undefined;
    attachRecorder(graph, this.#recorder, { saver: this, logger: this.#options.logger, hasCheckpoint }, options);
    return graph;
  }

  /** Does nothing: the constructor has set up the schema. It exists for programs written for savers that need a setup. */
  async setup(): Promise<void> {
    // The constructor has done it.
  }

  /**
   * Reads the checkpoint named by `configurable.checkpoint_id`, or else the newest of the namespace. Returns undefined if there
   * is none.
   */
  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    return storeSpan(
      this.#store,
      "getTuple",
      "langgraph_snapshots",
      () => configAttributes(config),
      () => this.#getTuple(config),
    );
  }

  async #getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    // LangGraph's own suite expects "not found" for a missing thread_id here.
    if (configurableOf(config, "getTuple")["thread_id"] === undefined) return undefined;
    const at = addressOf(config, "getTuple");
    if (at.ns === "") this.#runNames.remember(config, at);
    const isStart = this.#runStarts.isStart(config, at);
    // A drain refuses the run's next step, but doesn't close the database in the middle of its start.
    const read = isStart ? this.#draining.keepOpen() : undefined;
    try {
      return await this.#tupleAt(config, at, isStart);
    } finally {
      read?.();
    }
  }

  async #tupleAt(config: RunnableConfig, at: Address, isStart: boolean): Promise<CheckpointTuple | undefined> {
    const isNewest = at.ns === "" && at.checkpointId === undefined;
    const start = isStart && isNewest ? this.#runs.foundAt(at.threadId) : undefined;
    if (isStart) {
      if (!isRecorded(config.callbacks, this.#recorder)) this.#draining.refuseRun(at.threadId);
      const lease = this.#runs.leaseOf(at.threadId);
      const found = start ?? this.#store.foundBy(at.threadId);
      const { deletion, epoch } = found instanceof Promise ? await found : found;
      this.#runStarts.add(config, at, { sawDeletion: deletion, sawEpoch: epoch, lease });
    }
    let tuple = await readTuple(this.#tupleParts(), at, start);
    if (tuple !== undefined && at.ns !== "" && at.checkpointId === undefined && isRecorded(config.callbacks, this.#recorder)) {
      tuple = await ownCheckpoint(config, tuple, () => this.#savedIn(at));
      if (tuple === undefined) return undefined;
      leaveOutUsedAnswers(config, tuple);
      await beginVisit(config, tuple, (checkpointId) => this.#rootStep(at.threadId, checkpointId));
    }
    if (tuple?.metadata !== undefined)
      this.#seen.add(at, tuple.checkpoint, tuple.metadata, runAround(config.callbacks), tuple.pendingWrites ?? []);
    return tuple;
  }

  /** The checkpoints of a namespace, newest first. */
  async *#savedIn({ threadId, ns }: Address) {
    const parts = this.#tupleParts();
    for await (const { head, metadata } of listHeads(parts, { threadId, ns })) {
      const { checkpointId, parentId } = head;
      yield { checkpointId, parentId, metadata, read: () => readListed(parts, head) };
    }
  }

  async #rootStep(threadId: string, checkpointId: string): Promise<RootStep | undefined> {
    const tuple = await readTuple(this.#tupleParts(), { threadId, ns: "", checkpointId });
    const parentId = tuple?.parentConfig?.configurable?.["checkpoint_id"] as string | undefined;
    return tuple && { source: tuple.metadata?.source, parentId };
  }

  /**
   * Lists checkpoints, greatest id first.
   *
   * A missing `thread_id` means all threads, and a namespace of undefined or null means all namespaces. `filter` compares
   * metadata by deep equality and takes its keys literally. A `limit` of 0 or less returns nothing.
   */
  override list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    return listTuples(this.#tupleParts(), config, options ?? {});
  }

  /**
   * Saves a checkpoint with every channel value it holds, whether or not the channel has a version.
   *
   * @param newVersions optional. It matters only for the first input of a thread: if given, a versioned channel that it doesn't
   *   name is left out there
   * @returns the config that addresses the saved checkpoint
   * @throws {TurnsError} INVALID_CONFIG, INVALID_CHECKPOINT, UNSERIALIZABLE_VALUE naming channel and path, THREAD_DELETED
   */
  override put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions?: ChannelVersions,
  ): Promise<RunnableConfig> {
    return storeSpan(
      this.#store,
      "put",
      "langgraph_snapshots",
      () => ({ ...configAttributes(config), ...checkpointAttributes(checkpoint, metadata) }),
      () => this.#checkpointSaves.put(config, checkpoint, metadata, newVersions),
    );
  }

  /**
   * Saves what a node returned.
   *
   * @param taskPath the task's position in its superstep, from LangGraph 1.5 on. Pending writes are returned ordered by path,
   *   task id and index: the order in which LangGraph applies them
   * @throws {TurnsError} INVALID_CONFIG; INVALID_CHECKPOINT if these aren't pairs of a channel and a value; and as {@link put}
   */
  override putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath?: string): Promise<void> {
    return storeSpan(
      this.#store,
      "putWrites",
      "langgraph_writes",
      () => ({ ...configAttributes(config), "langgraph.node_task_id": taskId }),
      () => this.#writesSaves.putWrites(config, writes, taskId, taskPath),
    );
  }

  /**
   * Deletes a thread from every table. An unknown thread is no error.
   *
   * The thread is gone for everyone at once. The rows of a large thread are removed in pieces until the promise resolves or,
   * after a crash, when the file is opened again. A run that is still running, here or in another process, can't recreate the
   * thread or write into a later one with the same id: all its saves are refused with THREAD_DELETED. New input, `updateState` or
   * {@link copyThread} with the same id starts a new thread.
   *
   * @param options.final also refuses new input with this id, until you call `saver.retention.reuseThread`
   * @throws {TurnsError} THREAD_MOVED for a thread that was moved to another database, or whose move isn't finished: delete it there
   */
  override async deleteThread(threadId: string, options: { final?: boolean } = {}): Promise<void> {
    const { final } = checkedOptions(deletion, options);
    const id = checkedArgument(threadId, "threadId", "deleteThread");
    if (this.#serde !== undefined) await this.#serde.settled();
    await this.#store.deleteThread(id, this.#options.clock().getTime(), final, isAlive);
    this.#forget(id);
    await removeLeftovers(this.#store, isAlive);
    this.#space.later();
  }

  /** A thread was deleted. */
  #forget(threadId: string): void {
    this.#runNames.forget(threadId);
    this.#values.forget(threadId);
    this.#pruner?.forget(threadId);
  }

  /** Reads the history of delta channels, all of them with one query; `store/ops/delta.ts` says which writes count. */
  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const { config, channels } = checkedOptions(deltaRequest, options);
    return deltaHistoryOf(this.#tupleParts(), addressOf(config as RunnableConfig, "getDeltaChannelHistory"), channels);
  }

  /** Lists the threads of this database, ordered by id. @throws {TurnsError} INVALID_OPTION */
  async listThreads(options: PageOptions<string> = {}): Promise<Page<ThreadSummary, string>> {
    return listThreads(this.#store, options);
  }

  /**
   * Copies a thread to a new id, with its checkpoints, writes, tasks and turns. A rewind of the copy is as exact as one of the
   * source. Archives of rewinds aren't copied.
   *
   * The copy shows one moment of its source and appears for everyone at once. The rows of a large thread are written in pieces
   * before that. After a crash in the middle, the next process removes them.
   *
   * @throws {TurnsError} THREAD_NOT_FOUND, THREAD_EXISTS, REWIND_UNFINISHED; then nothing is left of the copy
   */
  async copyThread(sourceThreadId: string, targetThreadId: string): Promise<void> {
    const source = checkedArgument(sourceThreadId, "sourceThreadId", "copyThread");
    const target = checkedArgument(targetThreadId, "targetThreadId", "copyThread");
    const { clock, createId } = this.#options;
    const finished = this.#draining.keepOpen();
    try {
      await copyThread(this.#store, { sourceId: source, targetId: target, createdAt: clock().toISOString(), createId });
    } finally {
      finished();
    }
  }

  /**
   * Rewinds a thread to the end of a task. It undoes later effects, newest first (docs/rewind.md). Then it deletes everything
   * later on the thread, in all namespaces, in one transaction.
   *
   * `dryRun` only reports what would be deleted and undone; it is refused where the real call would be. After a crash or a
   * failure, the same call continues, and no undo that ran is called again.
   *
   * @param undos defined effects whose own undos and probes are used; all others are found by name
   * @returns what was removed, and what became of the effects
   * @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND, UNKNOWN_TASK, STATE_INVARIANT_VIOLATED, THREAD_RUNNING,
   *   REWIND_UNFINISHED, CHECKPOINT_NOT_FOUND, EFFECT_UNCOMPENSATED; EFFECT_IN_DOUBT, UNDO_FAILED or EFFECT_NOT_RECORDED while
   *   the undos run. Then nothing has been deleted. THREAD_DELETED or LEASE_LOST if that happened meanwhile
   */
  async rewind(request: RewindRequest, undos?: Undos): Promise<RewindReport> {
    return rewound(this.#rewinding, request, async () => {
      const { rewindThread } = await import("./rewind/rewind");
      return rewindThread(this.#rewinding, request, undos);
    });
  }

  /**
   * Removes old checkpoints of one thread or of all, with their writes and turns and all values that are no longer needed. The
   * file gets smaller.
   *
   * What is kept reads exactly as before; docs/retention.md says what is always kept. The event `pruned` reports the result.
   *
   * @throws {TurnsError} INVALID_OPTION unless you give one of `keepTasks`, `keepLast`, `maxAgeMs` and `idleMs`;
   *   THREAD_NOT_FOUND, REWIND_UNFINISHED
   */
  async prune(request: PruneRequest): Promise<PruneReport> {
    const report = await prune(this.#pruning, request);
    for (const threadId of report.dryRun ? [] : report.deletedThreads) this.#forget(threadId);
    if (!report.dryRun) this.#emitter.emit("pruned", { by: "prune", ...report });
    return report;
  }

  /**
   * Follows one thread, several, or all: turns, checkpoints, effects, rewinds, prunes and deletions, by any process. The changes of
   * a thread come in their order, each once. See docs/events.md.
   *
   * ```ts
   * for await (const change of saver.follow({ threadId })) console.log(change.kind, change.seq);
   * ```
   *
   * The loop ends when `signal` is aborted or the saver is closed. To continue later, store `cursor` and pass it as `after`.
   *
   * @throws {TurnsError} INVALID_OPTION
   */
  follow(options: FollowRequest = {}): Changes {
    return new Changes(this.#store, options);
  }

  /**
   * Checks that everything in the file, or on one thread, is as it was saved. It works in short steps, so other work continues
   * meanwhile.
   *
   * Nothing is changed, and problems are reported rather than thrown. docs/integrity.md says what is checked and how to read the
   * report.
   *
   * @throws {TurnsError} INVALID_OPTION; THREAD_NOT_FOUND
   */
  async verify(request: VerifyRequest = {}): Promise<VerifyReport> {
    const { verify } = await import("./integrity/verify");
    return verify(this.#store, request);
  }

  /**
   * Copies the database to another file while runs continue. The copy is one moment: everything that was saved when you called.
   * Writers don't wait for it.
   *
   * The copy is verified row by row under a temporary name and synced to disk before it gets its name. So a crash leaves nothing
   * at the destination. Open it like any database: `TurnSaver.fromPath(path)`. Encrypted data stays encrypted. See
   * docs/backups.md.
   *
   * @throws {TurnsError} INVALID_OPTION, also for the path of this database; BACKUP_TARGET_EXISTS without `overwrite`, or while a
   *   database of that name is open; BACKUP_ABORTED; CHECKPOINT_CORRUPTED if the copy doesn't verify; STORE_UNAVAILABLE,
   *   STORE_CLOSED, STORE_FAILED. Then nothing is left at the destination, and an existing file is unchanged.
   */
  async backup(path: string, options: BackupOptions = {}): Promise<BackupReport> {
    if (this.#serde !== undefined) await this.#serde.settled();
    return backup(this.#store, path, options);
  }

  /**
   * Shuts a server down gracefully: refuses new runs (STORE_DRAINING), lets each running node finish, commits and closes. See
   * docs/servers.md.
   *
   * Runs stop with STORE_DRAINING before their next node, and you can resume them there. At the timeout, the saver closes anyway,
   * logs a warning and reports what was still running. A second call returns the same promise. For graphs that aren't attached,
   * only saves in progress are waited for.
   *
   * @throws {TurnsError} INVALID_OPTION; then nothing has been refused or closed
   */
  drain(options: DrainOptions = {}): Promise<DrainReport> {
    if (this.#drained !== undefined) return this.#drained;
    const drained = drain(this.#drainParts(), options);
    this.#drained = drained;
    // A failed call can be tried again.
    drained.catch(() => (this.#drained = undefined));
    return drained;
  }

  /**
   * Closes the database at once; later calls fail with STORE_CLOSED. Running nodes lose what they would return, so await
   * {@link drain} if runs may be active. Closing twice is fine.
   */
  close(): void {
    if (!this.#store.isOpen()) return;
    this.#runs.close();
    this.#store.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** As {@link close}, once everything that was handed in is committed or has failed. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#store.isOpen()) await this.#store.committed();
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
