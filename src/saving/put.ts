import type { RunnableConfig } from "@langchain/core/runnables";
import type { ChannelVersions, Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { encode } from "../codec";
import type { ResolvedOptions } from "../options";
import {
  addressOf,
  checkedId,
  type CheckpointAddress,
  claimOfCheckpoint,
  refuseMalformed,
  type RunNames,
  type RunStarts,
  timeOfSave,
} from "../run-config";
import { copiedMetadata, copyExceptValues, type UserSerde } from "../serde";
import type { EarlyOutcome, NewCheckpoint, SavedCheckpoint, Store } from "../store/store";
import type { Draining } from "../turns/draining";
import type { EarlyOutcomes, UnsavedResults } from "../turns/handed-in";
import { isRecorded, type TurnRecorder } from "../turns/recorder";
import type { RunRegistry } from "../turns/run-registry";
import type { Values } from "../values";
import type { PlannedThoughts } from "./planned-thoughts";
import type { SaveProgress } from "./save-progress";
import { withVisit } from "../visits";

/** What goes into a checkpoint: as it is, or as the user's serde encoded it. */
interface Stored {
  values: Record<string, unknown>;
  metadata: unknown;
}

/** Where a checkpoint goes, and the one it was made from. */
type CheckpointToSave = CheckpointAddress & { parentId: string | undefined };

interface CheckpointSavesParts {
  options: ResolvedOptions;
  recorder: TurnRecorder;
  store: Store;
  values: Values;
  serde: UserSerde | undefined;
  runs: RunRegistry;
  runNames: RunNames;
  runStarts: RunStarts;
  planned: PlannedThoughts;
  early: EarlyOutcomes;
  unsaved: UnsavedResults;
  progress: SaveProgress;
  /** It waits for saves in progress before it closes the database. */
  draining: Draining;
}

/** LangGraph's `put`: saves checkpoints. */
export class CheckpointSaves {
  readonly #parts: CheckpointSavesParts;

  constructor(parts: CheckpointSavesParts) {
    this.#parts = parts;
  }

  /**
   * Serialises the checkpoint and hands it to the store before it waits for anything.
   *
   * @param newVersions see {@link toSave}
   * @returns the config that addresses the saved checkpoint
   * @throws {TurnsError} INVALID_CONFIG, INVALID_CHECKPOINT; and what {@link SaveProgress.failed} throws
   */
  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions | undefined,
  ): Promise<RunnableConfig> {
    const { threadId, ns, checkpointId: parentId } = addressOf(config, "put");
    refuseMalformed(checkpoint, metadata, newVersions);
    const at = { threadId, ns, checkpointId: checkedId(checkpoint.id, "checkpoint_id", "put"), parentId };
    const { recorder, progress, draining, serde } = this.#parts;
    const saved = { configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: at.checkpointId } };
    if (progress.leavesOut(config, threadId)) return saved;
    const isRun = isRecorded(config.callbacks, recorder);
    const done = draining.keepOpen();
    const over = progress.checkpointComes(config, at, checkpoint, metadata, isRun);
    // The caller may change its objects as soon as it has the promise.
    const said = { source: metadata.source, step: metadata.step };
    try {
      const isEnd = progress.isEnd(at, checkpoint, metadata);
      progress.refuse(at, parentId);
      // LangGraph compares the run id of the metadata to tell a retry of the same run from a new one (internals, F11).
      const ofRun = withRunId(metadata, config);
      // The outermost graph has no visits.
      const described = at.ns === "" ? ofRun : withVisit(ofRun, config, at.ns);
      const kept = toSave(checkpoint, metadata, parentId, newVersions);
      const saving =
        serde === undefined
          ? this.#commit(config, isRun, at, kept, metadata, { values: kept.channel_values, metadata: described })
          : this.#commitSerialized(serde, config, isRun, at, kept, described);
      progress.checkpointSaved(at, said, saving instanceof Promise ? await saving : saving, isEnd);
      over?.();
    } catch (error) {
      const told = progress.failed(config, at, error);
      over?.();
      await told;
    } finally {
      done();
    }
    return saved;
  }

  /** {@link #commit} when the user's serde has encoded the values, after every save that was handed in before. */
  #commitSerialized(
    serde: UserSerde,
    config: RunnableConfig,
    isRun: boolean,
    at: CheckpointToSave,
    checkpoint: Checkpoint,
    described: CheckpointMetadata,
  ): Promise<SavedCheckpoint> {
    const kept = copyExceptValues(checkpoint);
    const said = copiedMetadata(described);
    return serde.inOrder(serde.channels(kept.channel_values, said), (stored) => {
      // The parent may have failed since.
      this.#parts.progress.refuse(at, at.parentId);
      return this.#commit(config, isRun, at, kept, said, stored);
    });
  }

  #commit(
    config: RunnableConfig,
    isRun: boolean,
    at: CheckpointToSave,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    stored: Stored,
  ): ReturnType<Store["putCheckpoint"]> {
    const { store, values } = this.#parts;
    const request = this.#request(config, isRun, at, checkpoint, metadata, stored);
    const saved = store.putCheckpoint(request, isRun ? "boundary" : "now");
    const remember = (done: SavedCheckpoint): SavedCheckpoint => {
      values.saved(at, request.values, done);
      return done;
    };
    return saved instanceof Promise ? saved.then(remember) : remember(saved);
  }

  /**
   * The request to the store. Serialises everything before it returns: the caller may change its objects afterwards.
   *
   * @param isRun whether the run is recorded; if not, Thoughts are derived from the checkpoint
   * @throws {TurnsError} UNSERIALIZABLE_VALUE naming channel and path; INVALID_CONFIG
   */
  #request(
    config: RunnableConfig,
    isRun: boolean,
    at: CheckpointToSave,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    stored: Stored,
  ): NewCheckpoint {
    const { options, runs, runNames, runStarts, planned, early } = this.#parts;
    const above = parentsOf(metadata);
    const { channel_versions: versions, v, ts, versions_seen: seen } = checkpoint;
    const claim = claimOfCheckpoint(runNames.remember(config, at), at, metadata.source);
    const createdAt = timeOfSave(config, options.clock);
    const runId: unknown = config.metadata?.["run_id"];
    const values = this.#parts.values.channels(at, stored.values);
    const { sawDeletion, sawEpoch, lease } = runStarts.of(config, at);
    return {
      threadId: at.threadId,
      ns: at.ns,
      checkpointId: at.checkpointId,
      parentId: at.parentId,
      source: metadata.source,
      step: metadata.step,
      runId: typeof runId === "string" ? runId : undefined,
      above,
      sawDeletion,
      sawEpoch,
      lease,
      // A prune couldn't read the parents in metadata that a serde has encoded.
      body: encode(
        options.serde === undefined ? { v, ts, versions_seen: seen } : { v, ts, versions_seen: seen, parents: above },
        options,
      ),
      metadata: encode(stored.metadata, options),
      delta: deltaChannels(metadata).filter((channel) => !Object.hasOwn(stored.values, channel)),
      values,
      versions: { ...versions },
      claim,
      createdAt,
      graphRuns: runs.graphRunsOf(at.threadId),
      planned: isRun ? [] : planned.of(config, at, checkpoint, metadata, claim.taskId, createdAt),
      outcomes: early.take(at),
      completed: isRun && metadata.source === "loop" ? this.#completed(at, metadata.step, createdAt) : [],
      mayHaveHoles: options.onCheckpointError === "continue",
    };
  }

  #completed(at: CheckpointToSave, step: number, createdAt: string): EarlyOutcome[] {
    const { options, unsaved } = this.#parts;
    return unsaved.take(at, step).map((nodeTaskId) => {
      const settle = { status: "ok", durable: true, update: undefined, actionId: options.createId() } as const;
      return { nodeTaskId, createdAt, settle };
    });
  }
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

function withRunId(metadata: CheckpointMetadata, config: RunnableConfig): CheckpointMetadata {
  const runId: unknown = config.metadata?.["run_id"];
  if (typeof runId !== "string" || Object.hasOwn(metadata, "run_id")) return metadata;
  const described: Record<string, unknown> = { ...metadata, run_id: runId };
  return described as unknown as CheckpointMetadata;
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
