import type { RunnableConfig } from "@langchain/core/runnables";
import type { ChannelVersions, Checkpoint, CheckpointMetadata, PendingWrite } from "@langchain/langgraph-checkpoint";
import {
  type Beginnings,
  MissingCheckpoints,
  type RunNames,
  claimOfCheckpoint,
  claimOfWrites,
  EarlyOutcomes,
  nodeInPath,
} from "./run-starts";
import { encode } from "./codec";
import { TurnsError } from "./errors";
import type { SaverEmitter } from "./events";
import {
  type Address,
  addressOf,
  checkedId,
  checkedTaskPath,
  importedAt,
  refuseMalformed,
  refuseNoWrites,
  runAround,
} from "./run-config";
import type { ResolvedOptions } from "./options";
import {
  type PackedWrite,
  refuseIllFormed,
  settlementOf,
  toRows,
  updateOf,
  updateText,
  withoutHandler,
  writesToKeep,
} from "./pending-writes";
import type { Retention } from "./retention/retention";
import { heldFrame, type UserSerde } from "./serde";
import type {
  Lease,
  LostTurn,
  NewThought,
  NewWrites,
  PackedText,
  SavedCheckpoint,
  SawDeletion,
  SawEpoch,
  Store,
  TaskClaim,
  TurnState,
  When,
} from "./store/store";
import { isDerivedId } from "./system";
import { closedMeanwhile, type Draining } from "./turns/draining";
import type { FailureLog } from "./turns/failure-log";
import type { PendingFailures } from "./turns/pending-failures";
import { type PlannedTask, plannedTasks } from "./turns/node-task";
import { isRecorded, type TurnRecorder } from "./turns/recorder";
import type { Redaction } from "./turns/redaction";
import type { RunRegistry } from "./turns/run-registry";
import type { SeenCheckpoints } from "./turns/seen-checkpoints";
import { withoutBookkeeping } from "./turns/turn";
import { reportLostTurn, reportTurn } from "./turns/turn-log";
import { namingChannel, type Values } from "./values";

export interface SavingParts {
  options: ResolvedOptions;
  store: Store;
  values: Values;
  serde: UserSerde | undefined;
  runs: RunRegistry;
  failureLog: FailureLog;
  failures: PendingFailures;
  redaction: Redaction;
  seen: SeenCheckpoints;
  beginnings: Beginnings;
  retention: Retention | undefined;
  events: SaverEmitter;
  recorder: TurnRecorder;
  names: RunNames;
  draining: Draining;
}

type SavedAt = Required<Address> & { checkpointId: string };

/** What the run found when it started. */
interface Begun {
  sawDeletion: SawDeletion;
  sawEpoch: SawEpoch;
  lease: Lease | undefined;
}

/** LangGraph's two saves, `put` and `putWrites`: turns LangGraph's arguments into requests to the store. */
export class Saving {
  readonly #parts: SavingParts;
  readonly #missing = new MissingCheckpoints();
  readonly #early = new EarlyOutcomes();
  readonly #updates = new UpdatesAtOnce();
  #warnedOfPlanned = false;

  constructor(parts: SavingParts) {
    this.#parts = parts;
  }

  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions | undefined,
  ): Promise<RunnableConfig> {
    const saved = this.#parts.draining.keepOpen();
    try {
      return await this.#put(config, checkpoint, metadata, newVersions);
    } finally {
      saved();
    }
  }

  async #put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions | undefined,
  ): Promise<RunnableConfig> {
    const { threadId, ns, checkpointId: parentId } = addressOf(config, "put");
    refuseMalformed(checkpoint, metadata, newVersions);
    const at = { threadId, ns, checkpointId: checkedId(checkpoint.id, "checkpoint_id", "put") };
    if (ns === "" && metadata.source === "input") this.#parts.runs.inputSaved(threadId);
    const isRun = this.#isRecorded(config);
    const settled = isRun ? this.#parts.failures.saves.began(threadId) : undefined;
    this.#parts.seen.add(at, checkpoint, metadata, runAround(config.callbacks));
    try {
      this.#missing.refuse(at, parentId);
      // LangGraph compares the run id of the metadata to tell a retry of the same run from a new one (internals, F11).
      const described = withRunId(metadata, config);
      const serde = this.#parts.serde;
      const kept =
        serde === undefined
          ? toSave(checkpoint, metadata, parentId, newVersions)
          : heldFrame(toSave(checkpoint, metadata, parentId, newVersions));
      const commit = (stored: Stored): ReturnType<Store["putCheckpoint"]> =>
        this.#putNow(config, isRun, at, parentId, kept, metadata, stored);
      const saved =
        serde === undefined
          ? commit({ values: kept.channel_values, metadata: described })
          : serde.inOrder(serde.channels(kept.channel_values, described), commit);
      const { seq, actions, lost } = saved instanceof Promise ? await saved : saved;
      settled?.();
      this.#missing.delete(at);
      this.#parts.runs.touch(threadId);
      const { step, source } = metadata;
      const { events } = this.#parts;
      if (events.listenerCount("checkpoint") > 0)
        events.emit("checkpoint", { threadId, checkpointNs: ns, checkpointId: at.checkpointId, step, source, seq });
      for (const action of actions) reportTurn(events, action);
      this.#report(threadId, lost);
      if (ns === "") this.#parts.retention?.saved(threadId, isEnd(checkpoint, metadata));
    } catch (error) {
      if (this.#parts.options.onCheckpointError !== "continue") this.#missing.add(at, error);
      const held = this.#saveFailed(config, { ...at, parentId }, error);
      settled?.();
      await held;
    }
    return { configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: at.checkpointId } };
  }

  /** Serialises and hands the save to the store before the first await: nothing here may wait. */
  #putNow(
    config: RunnableConfig,
    isRecorded: boolean,
    at: SavedAt,
    parentId: string | undefined,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    stored: Stored,
  ): ReturnType<Store["putCheckpoint"]> {
    const state = stored.values;
    const above = parentsOf(metadata);
    const { channel_versions: versions, v, ts, versions_seen: seen } = checkpoint;
    const claim = claimOfCheckpoint(this.#parts.names.remember(config, at), { ...at, parentId }, metadata.source);
    const createdAt = this.#timeOf(config);
    const runId: unknown = config.metadata?.["run_id"];
    const values = this.#parts.values.channels(at, state);
    const saved = this.#parts.store.putCheckpoint(
      {
        ...at,
        parentId,
        source: metadata.source,
        step: metadata.step,
        runId: typeof runId === "string" ? runId : undefined,
        above,
        ...this.#begun(config, at),
        // A prune couldn't read them in metadata that a serde has encoded.
        body: this.#encode({ v, ts, versions_seen: seen, ...(this.#parts.serde !== undefined && { parents: above }) }),
        metadata: this.#encode(stored.metadata),
        delta: deltaChannels(metadata).filter((channel) => !Object.hasOwn(state, channel)),
        values,
        versions: { ...versions },
        claim,
        createdAt,
        graphRuns: this.#parts.runs.graphRunsOf(at.threadId),
        planned: isRecorded ? [] : this.#planned(config, at, checkpoint, metadata, claim.taskId, createdAt),
        outcomes: this.#early.take(at),
        mayHaveHoles: this.#parts.options.onCheckpointError === "continue",
      },
      isRecorded ? "boundary" : "now",
    );
    const remember = (done: SavedCheckpoint): SavedCheckpoint => {
      this.#parts.values.saved(at, values, done);
      return done;
    };
    return saved instanceof Promise ? saved.then(remember) : remember(saved);
  }

  async putWrites(config: RunnableConfig, given: PendingWrite[], taskId: string, taskPath?: string): Promise<void> {
    const saved = this.#parts.draining.keepOpen();
    try {
      await this.#putWrites(config, given, taskId, taskPath);
    } finally {
      saved();
    }
  }

  async #putWrites(config: RunnableConfig, given: PendingWrite[], taskId: string, taskPath?: string): Promise<void> {
    const address = addressOf(config, "putWrites");
    const at = { ...address, checkpointId: checkedId(address.checkpointId, "checkpoint_id", "putWrites") };
    const task = { nodeTaskId: checkedId(taskId, "task id", "putWrites"), taskPath: checkedTaskPath(taskPath) };
    const { nodeTaskId } = task;
    refuseNoWrites(given);
    if (this.#parts.recorder.wasStopped(nodeTaskId)) return;
    this.#parts.seen.written(at, nodeTaskId, given);
    const whole = this.#updates.joined(config, at.checkpointId, task, given);
    const writes = this.#parts.recorder.endedInDoubt(nodeTaskId) ? withoutHandler(whole) : whole;
    const isRun = this.#isRecorded(config);
    const settled = isRun ? this.#parts.failures.saves.began(at.threadId) : undefined;
    try {
      this.#missing.refuse(at, at.checkpointId);
      const settlement = settlementOf(writes);
      const isEarly = !isRun && !this.#parts.seen.has(at);
      const begun = this.#begun(config, at);
      const claim = claimOfWrites(this.#parts.names.remember(config, at), at, task, writesToKeep(writes));
      const commit = (stored: readonly PendingWrite[]): ReturnType<Store["putWrites"]> =>
        this.#putWritesNow(
          { ...at, ...begun, ...task },
          stored,
          settlement,
          isEarly,
          claim,
          this.#timeOf(config),
          isRun ? "boundary" : "now",
        );
      const serde = this.#parts.serde;
      const saved = serde === undefined ? commit(writes) : serde.inOrder(serde.writes(writes), commit);
      const { turn, lost } = saved instanceof Promise ? await saved : saved;
      settled?.();
      // Its checkpoint exists and had only been forgotten.
      if (isEarly && turn !== undefined) this.#early.take(at);
      this.#parts.runs.touch(at.threadId);
      if (turn !== undefined) reportTurn(this.#parts.events, turn);
      this.#report(at.threadId, lost);
    } catch (error) {
      const held = this.#saveFailed(config, { ...at, nodeTaskId }, error);
      settled?.();
      await held;
    }
  }

  /** As {@link #putNow}. */
  #putWritesNow(
    at: SavedAt & Begun & { nodeTaskId: string; taskPath: string },
    writes: readonly PendingWrite[],
    settlement: ReturnType<typeof settlementOf>,
    isEarly: boolean,
    claim: TaskClaim,
    createdAt: string,
    when: When,
  ): ReturnType<Store["putWrites"]> {
    const kept = this.#packedWrites(at.threadId, writesToKeep(writes), nodeInPath(at.taskPath));
    const settle = settlement && this.#parts.redaction.recordsTurns ? this.#settle(at, writes, kept, settlement) : undefined;
    // A failed task still has to run: the next run does it, and with durability "exit" reports nothing.
    if (isEarly && settle !== undefined && settle.status !== "error")
      this.#early.add(at, { nodeTaskId: at.nodeTaskId, createdAt, settle });
    return this.#parts.store.putWrites({ ...at, rows: toRows(kept), claim, createdAt, settle }, when);
  }

  #packedWrites(threadId: string, writes: readonly PendingWrite[], node?: string): PackedWrite[] {
    return writes.map(([channel, value]) => {
      refuseIllFormed(channel);
      try {
        return { channel, packed: this.#parts.values.text(threadId, value) };
      } catch (error) {
        throw namingChannel(channel, error, node);
      }
    });
  }

  /** What becomes of the task's Action. Usually it exists already and isn't made from the writes. */
  #settle(
    { threadId, nodeTaskId }: { threadId: string; nodeTaskId: string },
    writes: readonly PendingWrite[],
    kept: readonly PackedWrite[],
    settlement: NonNullable<ReturnType<typeof settlementOf>>,
  ): NonNullable<NewWrites["settle"]> {
    const { redaction, serde, options } = this.#parts;
    const settle: NonNullable<NewWrites["settle"]> = { ...settlement, update: undefined, actionId: options.createId() };
    if (redaction.keepsAll) return { ...settle, update: this.#update(threadId, writes, kept) };
    // `redact` can't read writes that a serde has encoded.
    if (serde !== undefined || !redaction.asks) return settle;
    const update = redaction.copied(updateOf(writes));
    const { status } = settlement;
    return {
      ...settle,
      redacted: ({ graphId, taskId, nodeName, nodeNs = "" }) =>
        redaction.packed({ threadId, graphId, taskId, nodeName, nodeNs, nodeTaskId, turnType: "Action", status }, update, false)
          .packed,
    };
  }

  /** Not everything that a failed task wrote is kept as writes. Its Action holds all of it, if it can be saved. */
  #update(threadId: string, writes: readonly PendingWrite[], kept: readonly PackedWrite[]): PackedText | undefined {
    if (kept.length === writes.length) return updateText(kept);
    try {
      return updateText(this.#packedWrites(threadId, writes));
    } catch {
      return undefined;
    }
  }

  #report(threadId: string, lost: readonly LostTurn[]): void {
    for (const turn of lost) reportLostTurn(this.#parts, threadId, turn);
  }

  #timeOf(config: RunnableConfig): string {
    return importedAt(config) ?? this.#parts.options.clock().toISOString();
  }

  /** LangGraph's own behaviour is to reject. In an attached run, the rejection waits for somebody who can handle it. */
  async #saveFailed(
    config: RunnableConfig,
    at: Address & { checkpointId: string; parentId?: string | undefined; nodeTaskId?: string },
    thrown: unknown,
  ): Promise<void> {
    const { threadId, ns: checkpointNs, checkpointId, parentId, nodeTaskId } = at;
    const begun = this.#begun(config, at);
    const isRun = begun.sawDeletion !== undefined || this.#isRecorded(config);
    const isClosed = isRun && TurnsError.is(thrown, "STORE_CLOSED");
    const error = isClosed ? closedMeanwhile(threadId, thrown) : thrown;
    this.#parts.events.emit("checkpoint_failed", { threadId, checkpointNs, checkpointId, error });
    const runId = begun.lease?.runId;
    if (!isClosed) this.#parts.failureLog.saveFailed({ threadId, checkpointId, parentId, runId, nodeTaskId }, error);
    else if (this.#parts.draining.tellClosed()) this.#parts.options.logger.error({ threadId }, (error as Error).message);
    // A run whose thread now belongs to somebody else must not continue.
    const isElsewhere = TurnsError.is(error, "LEASE_LOST") || TurnsError.is(error, "THREAD_MOVED");
    if (this.#parts.options.onCheckpointError === "continue" && !isElsewhere) return;
    if (!this.#isRecorded(config)) throw error;
    await this.#parts.failures.hold(threadId, checkpointNs, error, begun);
  }

  /** A graph that a node calls on another thread belongs to the outer run. */
  #begun(config: RunnableConfig, at: SavedAt): Begun {
    const { beginnings, recorder } = this.#parts;
    const { deletion: sawDeletion, epoch: sawEpoch, lease } = beginnings.of(config, at);
    return { sawDeletion, sawEpoch, lease: lease ?? recorder.leaseOf(runAround(config.callbacks)) };
  }

  /** Whether the run carries our recorder. */
  #isRecorded(config: RunnableConfig): boolean {
    return isRecorded(config.callbacks, this.#parts.recorder);
  }

  #planned(
    config: RunnableConfig,
    at: { threadId: string; ns: string },
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    taskId: string | undefined,
    createdAt: string,
  ): NewThought[] {
    const { redaction } = this.#parts;
    if (!redaction.recordsTurns) return [];
    const tasks = plannedTasks(at.ns, checkpoint, metadata);
    if (tasks.length > 0 && !this.#warnedOfPlanned && importedAt(config) === undefined) {
      this.#warnedOfPlanned = true;
      this.#parts.options.logger.warn(
        { threadId: at.threadId },
        "the saver is not attached to this graph, so turns are derived from checkpoints; call saver.attach(graph) to record them as they happen",
      );
    }
    return tasks.map((task) => ({
      id: this.#parts.options.createId(),
      threadId: at.threadId,
      nodeName: task.name,
      sawDeletion: undefined,
      nodeNs: task.nodeNs,
      nodeTaskId: task.nodeTaskId,
      runId: undefined,
      step: task.step,
      state: this.#plannedState(at.threadId, task, checkpoint, taskId),
      claim: { taskId, graphId: undefined, kind: "resume", name: checkpoint.id },
      createdAt,
      graph: undefined,
      fingerprint: undefined,
      start: { ns: at.ns, checkpointId: checkpoint.id },
      needsSaves: false,
    }));
  }

  /** With redaction, a planned Thought can't refer to its checkpoint: it holds its own redacted state. */
  #plannedState(threadId: string, task: PlannedTask, checkpoint: Checkpoint, taskId: string | undefined): TurnState {
    const { redaction, serde } = this.#parts;
    const { name: nodeName, nodeNs, nodeTaskId, input } = task;
    // `redact` can't read state that a serde has encoded.
    if (serde !== undefined) return { format: redaction.keepsAll ? "checkpoint" : "none", packed: undefined };
    const isTold = redaction.keepsAll && input === undefined;
    const state = input === undefined ? withoutBookkeeping(isTold ? {} : checkpoint.channel_values) : input.value;
    const status = undefined;
    return redaction.packed(
      { threadId, graphId: undefined, taskId, nodeName, nodeNs, nodeTaskId, turnType: "Thought", status },
      state,
      isTold,
    );
  }

  #encode(value: unknown): string {
    return encode(value, this.#parts.options);
  }
}

/**
 * What several updates at once (`bulkUpdateState`) write. LangGraph 1.4 gives them all the same id, so the last would replace the
 * others. It passes the same config object with each of them; a retried update has another one.
 */
class UpdatesAtOnce {
  readonly #written = new WeakMap<RunnableConfig, PendingWrite[]>();

  /** @returns everything these updates have written so far, this time included */
  joined(
    config: RunnableConfig,
    checkpointId: string,
    { nodeTaskId, taskPath }: { nodeTaskId: string; taskPath: string },
    writes: PendingWrite[],
  ): PendingWrite[] {
    if (taskPath !== "" || !isDerivedId(nodeTaskId, "__interrupt__", checkpointId)) return writes;
    const all = [...(this.#written.get(config) ?? []), ...writes];
    this.#written.set(config, all);
    return all;
  }
}

/** What goes into a checkpoint: as it is, or as the user's serde encoded it. */
interface Stored {
  values: Record<string, unknown>;
  metadata: unknown;
}

/**
 * Everything in the checkpoint is saved, with one exception. Where a thread begins with new input and the caller names new
 * channels, an unnamed value is left out, as LangGraph's conformance suite wants it. LangGraph itself names every channel there.
 */
function toSave(
  checkpoint: Checkpoint,
  { source }: CheckpointMetadata,
  parentId: string | undefined,
  newVersions: ChannelVersions | undefined,
): Checkpoint {
  if (newVersions === undefined || parentId !== undefined || source !== "input") return checkpoint;
  const { channel_values: values, channel_versions: versions } = checkpoint;
  const isSaved = (channel: string): boolean => Object.hasOwn(newVersions, channel) || !Object.hasOwn(versions, channel);
  if (Object.keys(values).every(isSaved)) return checkpoint;
  const saved = Object.entries(values).filter(([channel]) => isSaved(channel));
  return { ...checkpoint, channel_values: Object.fromEntries(saved) };
}

/** Whether nothing follows a checkpoint of the root namespace. */
function isEnd(checkpoint: Checkpoint, metadata: CheckpointMetadata): boolean {
  return metadata.source === "loop" && plannedTasks("", checkpoint, metadata).length === 0;
}

function withRunId(metadata: CheckpointMetadata, config: RunnableConfig): CheckpointMetadata {
  const runId: unknown = config.metadata?.["run_id"];
  const described: Record<string, unknown> = { ...metadata, run_id: runId };
  return typeof runId === "string" && !Object.hasOwn(metadata, "run_id")
    ? (described as unknown as CheckpointMetadata)
    : metadata;
}

/** A caller that saves by hand may leave them out. */
function parentsOf({ parents }: { parents?: Record<string, unknown> }): Record<string, string> {
  return Object.fromEntries(
    Object.entries(parents ?? {}).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}

/** Delta channels whose value isn't in the checkpoint. LangGraph counts the writes since their last snapshot. */
function deltaChannels(metadata: CheckpointMetadata): string[] {
  const counters = (metadata as { counters_since_delta_snapshot?: unknown }).counters_since_delta_snapshot;
  return typeof counters === "object" && counters !== null ? Object.keys(counters) : [];
}
