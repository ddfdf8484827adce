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
import { assembled, type DatabaseHandle } from "./assembly";
import { backup, type BackupOptions, type BackupReport } from "./backup";
import type { Beginnings, RunNames } from "./run-starts";
import { chunkAddresses } from "./codec";
import { drain, type DrainOptions, type DrainParts, type DrainReport } from "./drain";
import type { EffectContent } from "./effects/content";
import type { Effects } from "./effects/effects";
import { describe, TurnsError } from "./errors";
import type { SaverEmitter } from "./events";
import type { VerifyReport, VerifyRequest } from "./integrity/verify";
import type { GraphDocument } from "./guards/fingerprint";
import { listTuples } from "./list";
import type { Logger } from "./logger";
import { checkedOptions, resolveOptions, type ResolvedOptions, type TurnSaverOptions } from "./options";
import { listNames, nameCheckpoint, type NamedCheckpoint, type NameRequest } from "./retention/names";
import {
  deleteForRuns,
  prune,
  type PruneParts,
  type PruneReport,
  type PruneRequest,
  type RunDeletionReport,
} from "./retention/prune";
import type { Retention } from "./retention/retention";
import { removeLeftovers, type SpaceKeeper, vacuum, type VacuumReport } from "./retention/space";
import { loaded, loadedRecord, type UserSerde } from "./serde";
import type { CheckpointRewindRequest, CompensationReport, FinishRequest, RewindReport, RewindRequest } from "./rewind/plan";
import { rotateKeys, type RotationReport } from "./rotate-keys";
import {
  abandonRewind,
  compensationReport,
  finishRewind,
  rewindThread,
  type RewindParts,
  rewindToCheckpoint,
  takeBackRewind,
} from "./rewind/rewind";
import type { Undos } from "./rewind/undos";
import { addressOf, checkedId, configurableOf } from "./run-config";
import type { Saving } from "./saving";
import { copyThread } from "./thread-copying";
import { taskSpans, type TaskSpan } from "./store/ownership";
import type { LastRun, RewindCounts, RewindRow, RunRow, Store, ThreadRow } from "./store/store";
import { beginTracing, checkpointAttributes, configAttributes, rewindAttributes, storeSpan } from "./tracing";
import { deltaHistoryOf, freshly, readTuple, type TupleParts } from "./tuples";
import { attachedGraph, attachRecorder, isRecorded, runAround, type AttachOptions } from "./turns/attach";
import { type RecordedGraph, recordedGraphsOf } from "./turns/attached-graph";
import { isAlive } from "./turns/process-identity";
import type { Draining } from "./turns/draining";
import type { TurnRecorder } from "./turns/recorder";
import type { RunRegistry } from "./turns/run-registry";
import type { SeenCheckpoints } from "./turns/seen-checkpoints";
import { type TokenUsage, tokenUsageOf } from "./turns/tokens";
import { inFlight, refuseNoTurn, stateOfTurn, surroundings, toPublicTurn, type Turn } from "./turns/turn";
import type { Values } from "./values";

export type { DatabaseHandle, NodeSqliteDatabase, NodeSqliteStatement, SqliteDatabase } from "./assembly";

const THREADS_PER_PAGE = 100;
const rewindToTakeBack = z.strictObject({ rewindId: z.string(), despiteUndone: z.boolean().optional() });
const vacuuming = z.strictObject({ full: z.boolean().default(false) });
const deletion = z.strictObject({ final: z.boolean().default(false) });
/** Not strict: LangGraph may come to pass more. */
const deltaRequest = z.object({ config: z.unknown().optional(), channels: z.array(z.string()) });
const turnPage = z.strictObject({ afterSeq: z.number().int().min(0).optional(), limit: z.number().int().min(0).optional() });

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
  readonly events: SaverEmitter;
  /** The journal of side effects: look at it, and settle what is in doubt. */
  readonly effects: Effects;
  readonly #options: ResolvedOptions;
  readonly #store: Store;
  readonly #values: Values;
  readonly #serde: UserSerde | undefined;
  readonly #content: EffectContent;
  readonly #runs: RunRegistry;
  readonly #recorder: TurnRecorder;
  readonly #space: SpaceKeeper;
  readonly #retention: Retention | undefined;
  /** What the newest run of a thread was told about its task: the callbacks of its nodes do not carry it. */
  readonly #names: RunNames;
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
    this.events = parts.events;
    this.effects = parts.effects;
    this.#store = parts.store;
    this.#values = parts.values;
    this.#serde = parts.serde;
    this.#content = parts.content;
    this.#runs = parts.runs;
    this.#recorder = parts.recorder;
    this.#space = parts.space;
    this.#retention = parts.retention;
    this.#names = parts.names;
    this.#beginnings = parts.beginnings;
    this.#saving = parts.saving;
    this.#seen = parts.seen;
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
    attachRecorder(graph, this.#recorder, this, options);
    return graph;
  }

  /**
   * What an attached graph is made of: a fingerprint for each of its nodes and its state's channels (docs/drift.md).
   *
   * @throws {TurnsError} INVALID_GRAPH for a graph that this saver is not attached to
   */
  documentOf(graph: object): GraphDocument {
    return attachedGraph(graph, this.#recorder).document;
  }

  /**
   * What the graphs were made of in which these turns of one thread ran, oldest turn first. Turns that were recorded without a graph
   * are in none of them.
   *
   * @throws {TurnsError} CHECKPOINT_CORRUPTED if a document is not what was stored
   */
  async recordedGraphs(threadId: string, turns: readonly Pick<Turn, "id">[]): Promise<RecordedGraph[]> {
    const id = checkedId(threadId, "thread_id", "recordedGraphs");
    const ids = turns.map((turn) => checkedId(turn.id, "id", "recordedGraphs"));
    return recordedGraphsOf(id, await this.#store.graphsOfTurns(id, ids));
  }

  /**
   * The run that a thread's newest checkpoint is of.
   *
   * @internal for GraphRunner
   */
  async lastRun(threadId: string): Promise<LastRun | undefined> {
    return this.#store.lastRun(checkedId(threadId, "thread_id", "lastRun"));
  }

  /** True if the option `encryption` is given: what runs produce is sealed in the file. */
  get encrypted(): boolean {
    return this.#options.encryption !== undefined;
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
    if (at.ns === "") this.#names.remember(config, at);
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
   * @param options.final refuses new input under the id too, until {@link reuseThread}
   */
  override async deleteThread(threadId: string, options: { final?: boolean } = {}): Promise<void> {
    const { final } = checkedOptions(deletion, options);
    const id = checkedId(threadId, "thread_id", "deleteThread");
    if (this.#serde !== undefined) await this.#serde.settled();
    await this.#store.deleteThread(id, this.#options.clock().getTime(), final, isAlive);
    this.#names.forget(id);
    this.#values.forget(id);
    this.#retention?.forget(id);
    await removeLeftovers(this.#store, isAlive);
    this.#space.later();
  }

  /**
   * Allows the id of a deleted thread again, for late saves as well.
   *
   * @returns whether it had been deleted
   */
  async reuseThread(threadId: string): Promise<boolean> {
    return this.#store.reuseThread(checkedId(threadId, "thread_id", "reuseThread"));
  }

  /** One query for all channels; see `store/sqlite/delta.ts` for which writes count. */
  override async getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    const { config, channels } = checkedOptions(deltaRequest, options);
    return deltaHistoryOf(this.#tupleParts(), addressOf(config as RunnableConfig, "getDeltaChannelHistory"), channels);
  }

  /** The threads of this database in the order of their ids, read in pages. */
  async *listThreads(): AsyncGenerator<ThreadRow> {
    let after: string | undefined;
    for (;;) {
      const page = await this.#store.listThreads({ after, limit: THREADS_PER_PAGE });
      yield* page;
      after = page.at(-1)?.threadId;
      if (page.length < THREADS_PER_PAGE) return;
    }
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

  /** The tasks of a thread, in the order in which they ended; the newest may still be going on. */
  async listTasks(threadId: string): Promise<TaskSpan[]> {
    return taskSpans(await this.#store.listTasks(checkedId(threadId, "thread_id", "listTasks")));
  }

  /**
   * The turns of a thread, oldest first.
   *
   * @param options.afterSeq only those behind this seq, to go on where an earlier call ended
   * @param options.limit how many at most
   * @throws {TurnsError} INVALID_OPTION
   */
  async listTurns(threadId: string, options: { afterSeq?: number; limit?: number } = {}): Promise<Turn[]> {
    const page = checkedOptions(turnPage, options);
    const rows = await this.#store.listTurns({ threadId: checkedId(threadId, "thread_id", "listTurns"), ...page });
    return rows.map(toPublicTurn);
  }

  /**
   * The state of a turn: what a Thought's node started from, what an Action's node returned.
   *
   * @throws {TurnsError} INVALID_CONFIG naming the field, for what is no turn; CHECKPOINT_NOT_FOUND if the turn, or the checkpoint a
   *   Thought refers to, is gone; TURN_NOT_KEPT if it was saved without content, as the options `redact` and `turns` may say
   */
  async turnState(turn: Pick<Turn, "threadId" | "seq" | "id">): Promise<Record<string, unknown>> {
    refuseNoTurn(turn);
    const [row] = await this.#store.listTurns({ threadId: turn.threadId, afterSeq: turn.seq - 1, limit: 1 });
    if (row?.id !== turn.id) throw turnGone(turn.id);
    return freshly(this.#values, turn.threadId, async (remembered) => {
      const behind =
        row.checkpointId === undefined
          ? undefined
          : await this.#store.getCheckpoint(turn.threadId, row.ns ?? "", row.checkpointId, remembered);
      const chunks = await this.#store.readChunks(turn.threadId, chunkAddresses(row.serializedState));
      const own = await loaded(this.#serde, this.#values.decoded(turn.threadId, row.serializedState, { generation: "", chunks }));
      const stored = isPlainRecord(own) ? await loadedRecord(this.#serde, own) : own;
      const values = behind && (await loadedRecord(this.#serde, this.#values.values(behind, behind, false)));
      return stateOfTurn(row, stored, () => values);
    });
  }

  /**
   * What the models of a thread's nodes reported, summed up by task and by node; each turn has its own in `tokens`. It is committed as
   * it is reported, so a crash keeps it. Turns that were pruned since are in it.
   */
  async tokenUsage(threadId: string): Promise<TokenUsage> {
    return tokenUsageOf(await this.#store.tokenUsage(checkedId(threadId, "thread_id", "tokenUsage")));
  }

  /** Turns at the head of a thread whose node had begun and had not durably ended: what a crash interrupted. */
  async inFlight(threadId: string): Promise<Turn[]> {
    const open = (await this.#store.openThoughts(checkedId(threadId, "thread_id", "inFlight"))).map(toPublicTurn);
    return inFlight(open, new Set(await this.#store.knownNodeTasks(threadId, surroundings(open))));
  }

  /** Whether some live process is running the thread. */
  async isRunning(threadId: string): Promise<boolean> {
    return (await this.liveRuns(threadId)).length > 0;
  }

  /** The live processes that run the thread. Only attached graphs are known. */
  async liveRuns(threadId: string): Promise<RunRow[]> {
    const runs = await this.#store.listRuns(checkedId(threadId, "thread_id", "liveRuns"));
    return runs.filter((run) => isAlive(run));
  }

  /**
   * Takes a thread for one run; see `RunRegistry.reserve`.
   *
   * @internal for GraphRunner
   */
  async reserve(threadId: string): Promise<() => Promise<void>> {
    return this.#runs.reserve(threadId);
  }

  /**
   * Lets a thread be, whatever the option `retention` says, until what is returned is called; see `Retention.hold`.
   *
   * @internal for importOfficial
   */
  holdRetention(threadId: string): () => void {
    return this.#retention?.hold(threadId) ?? (() => undefined);
  }

  /** Where this saver logs. */
  get logger(): Logger {
    return this.#options.logger;
  }

  /**
   * Goes back to the end of a task: undoes the effects that came later, newest first (docs/rewind.md), and then deletes all that came
   * later on the thread, in all namespaces, in one transaction. `dryRun` only tells what would go, and what would be undone; it is
   * refused where the real call would be. After a crash or a failure the same call continues; no undo that ran is called again.
   *
   * @param undos by the names that effects give in their option `undo`
   * @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND, UNKNOWN_TASK, STATE_INVARIANT_VIOLATED, THREAD_RUNNING, REWIND_UNFINISHED,
   *   CHECKPOINT_NOT_FOUND, EFFECT_UNCOMPENSATED, and EFFECT_IN_DOUBT, UNDO_FAILED, EFFECT_NOT_RECORDED while the undos run; nothing has been deleted
   *   then. THREAD_DELETED, LEASE_LOST if that happened meanwhile
   */
  async rewind(request: RewindRequest, undos?: Undos): Promise<RewindReport> {
    return this.#rewound(request, () => rewindThread(this.#rewindParts(), request, undos));
  }

  /**
   * {@link rewind} to where a checkpoint was saved, before anything was done on its grounds, for a reason that goes on record.
   *
   * @internal for GraphRunner
   * @param within the caller has reserved the thread, and runs nothing on it just now
   * @throws {TurnsError} as rewind; CHECKPOINT_NOT_FOUND if there is no such checkpoint
   */
  async rewindToCheckpoint(request: CheckpointRewindRequest, undos?: Undos, within = false): Promise<RewindReport> {
    return this.#rewound(request, () => rewindToCheckpoint(this.#rewindParts(), request, undos, within));
  }

  /**
   * How many rewinds of a thread were done, or begun, for a reason.
   *
   * @internal for GraphRunner
   */
  async countRewinds(threadId: string, reason: string): Promise<number> {
    return this.#store.countRewinds(checkedId(threadId, "thread_id", "countRewinds"), reason);
  }

  /** The rewind of a thread that was begun and is not finished: until it is, or is given up, the thread does not run. */
  async unfinishedRewind(threadId: string): Promise<RewindRow | undefined> {
    return this.#store.unfinishedRewind(checkedId(threadId, "thread_id", "unfinishedRewind"));
  }

  /** Goes on with the {@link unfinishedRewind} of a thread. @returns undefined if there is none @throws as {@link rewind} */
  async finishRewind(request: FinishRequest, undos?: Undos): Promise<RewindReport | undefined> {
    return this.#rewound(request, () => finishRewind(this.#rewindParts(), request, undos));
  }

  /**
   * Gives an unfinished rewind up. Nothing is deleted; what it undid stays marked as undone, and is done anew, with another key, if its
   * node runs again.
   *
   * @throws {TurnsError} INVALID_OPTION, REWIND_NOT_FOUND; REWIND_CONFLICT if it is not unfinished; THREAD_RUNNING while somebody is at
   *   it; EFFECT_IN_DOUBT as long as nobody knows whether one of its undos ran
   */
  async abandonRewind(rewindId: string): Promise<void> {
    await abandonRewind(this.#rewindParts(), checkedOptions(rewindToTakeBack, { rewindId }).rewindId);
  }

  /**
   * What a rewind to a task would have to undo, and whether the undos cover it (S3.5).
   *
   * @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND, UNKNOWN_TASK; CHECKPOINT_NOT_FOUND for a task whose checkpoints were pruned
   */
  async compensationReport(threadId: string, toTask: string, undos?: Undos): Promise<CompensationReport> {
    return compensationReport({ store: this.#store }, { threadId, toTask }, undos);
  }

  /** The rewinds of a thread, oldest first, those taken back among them. */
  async listRewinds(threadId: string): Promise<readonly RewindRow[]> {
    return this.#store.listRewinds(checkedId(threadId, "thread_id", "listRewinds"));
  }

  /**
   * Takes a rewind back, while the thread stands as the rewind left it.
   *
   * @param options.despiteUndone also if it undid effects: they come back marked as undone, and stay undone
   * @returns how many rows came back, by kind
   * @throws {TurnsError} INVALID_OPTION, REWIND_NOT_FOUND, REWIND_CONFLICT, REWIND_UNFINISHED, THREAD_RUNNING; nothing has changed then
   */
  async takeBackRewind(rewindId: string, options: { despiteUndone?: boolean } = {}): Promise<RewindCounts> {
    const checked = checkedOptions(rewindToTakeBack, { rewindId, ...options });
    const report = await takeBackRewind(this.#rewindParts(), checked.rewindId, checked.despiteUndone);
    this.events.tell("rewind_taken_back", report);
    return report.restored;
  }

  /**
   * Seals all that is stored under the current key of the option `encryption`, a little at a time beside whatever else goes on. When
   * it resolves, the database does not need its other keys any more. Interrupted, it goes on where it was when it is called again.
   *
   * @returns how many rows were sealed anew, by kind
   * @throws {TurnsError} NOT_ENCRYPTED, CHECKPOINT_CORRUPTED for a row that does not open, UNKNOWN_KEY if another process has retired
   * the key that is current here; no key has been given up then
   */
  async rotateKeys(): Promise<RotationReport> {
    // What nobody can reach would keep the old keys in use.
    await removeLeftovers(this.#store, isAlive);
    return rotateKeys(this.#store);
  }

  /**
   * Removes old checkpoints of one thread or of all, with their writes and turns, and the values nobody needs any more; the file gets
   * smaller. What stays reads exactly as before; see docs/retention.md for what always stays. The event `pruned` tells the report.
   *
   * @throws {TurnsError} INVALID_OPTION if none of `keepTasks`, `keepLast`, `maxAgeMs` and `idleMs` is given; THREAD_NOT_FOUND, REWIND_UNFINISHED
   */
  async prune(request: PruneRequest): Promise<PruneReport> {
    const report = await prune(this.#pruneParts(), request);
    for (const threadId of report.dryRun ? [] : report.deletedThreads) {
      this.#names.forget(threadId);
      this.#values.forget(threadId);
      this.#retention?.forget(threadId);
    }
    if (!report.dryRun) this.events.tell("pruned", { by: "prune", ...report });
    return report;
  }

  /**
   * Deletes the checkpoints that were saved under these run ids (`metadata.run_id`), in all threads, with their writes and turns. The
   * event `pruned` tells the report.
   *
   * @returns how much went, and which checkpoints stay because others cannot be read without them
   * @throws {TurnsError} INVALID_OPTION; THREAD_RUNNING, REWIND_UNFINISHED before anything has been deleted
   */
  async deleteForRuns(runIds: readonly string[]): Promise<RunDeletionReport> {
    const report = await deleteForRuns(this.#pruneParts(), runIds);
    this.events.tell("pruned", { by: "deleteForRuns", ...report, deletedThreads: [], failed: [], done: true });
    return report;
  }

  /**
   * Gives a checkpoint a name, so that it is never pruned. A name is unique in its thread: given again, it moves.
   *
   * @param request without `checkpointId` the newest checkpoint is meant
   * @throws {TurnsError} INVALID_OPTION, CHECKPOINT_NOT_FOUND
   */
  async nameCheckpoint(request: NameRequest, name: string): Promise<NamedCheckpoint> {
    return nameCheckpoint(this.#store, request, name, this.#options.clock().toISOString());
  }

  /** The names of a thread's checkpoints, in alphabetical order. @throws {TurnsError} THREAD_NOT_FOUND */
  async listNames(threadId: string): Promise<NamedCheckpoint[]> {
    return listNames(this.#store, checkedId(threadId, "thread_id", "listNames"));
  }

  /** Takes a name away; the checkpoint stays until something prunes it. @returns whether there was such a name */
  async unnameCheckpoint(threadId: string, name: string): Promise<boolean> {
    const id = checkedId(threadId, "thread_id", "unnameCheckpoint");
    return this.#store.unnameCheckpoint(id, checkedId(name, "name", "unnameCheckpoint"));
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
   * Makes the file as small as it can be, a little at a time.
   *
   * @param options.full writes the whole file anew; needed once for a file that another program created without `auto_vacuum`, which
   *   the report's `givesBack: false` tells. Nothing else can be saved meanwhile.
   */
  async vacuum(options: { full?: boolean } = {}): Promise<VacuumReport> {
    const { full } = checkedOptions(vacuuming, options);
    await removeLeftovers(this.#store, isAlive);
    return vacuum(this.#store, full);
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

  /**
   * A drain leaves the database open until what is returned is called.
   *
   * @internal for GraphRunner
   */
  keepOpen(): () => void {
    return this.#draining.keepOpen();
  }

  async #rewound<R extends RewindReport | undefined>(request: object, work: () => Promise<R>): Promise<R> {
    const report = await storeSpan("rewind", "langgraph_checkpoints", () => rewindAttributes(request), work);
    if (report?.rewindId !== undefined) this.events.tell("rewind", report);
    if (report?.rewindId !== undefined && !report.archived) this.#space.later();
    return report;
  }

  #rewindParts(): RewindParts {
    const { createId, clock } = this.#options;
    return {
      store: this.#store,
      content: this.#content,
      events: this.events,
      createId,
      now: () => clock().toISOString(),
      isAlive: (run) => isAlive(run),
      hold: (threadId, within) => this.#runs.hold(threadId, within),
    };
  }

  #pruneParts(): PruneParts {
    const { clock } = this.#options;
    return { store: this.#store, now: () => clock().getTime(), isAlive: (run) => isAlive(run) };
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

function isPlainRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}

function turnGone(id: string): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    what: `turn ${describe(id)}`,
    expected: "a turn of this database",
    found: "none of that id",
    remedy: "saver.listTurns(threadId) shows which there are.",
    data: { id },
  });
}
