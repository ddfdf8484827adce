import type { RunnableConfig } from "@langchain/core/runnables";
import type { ChannelVersions, Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { addressOf, checkedId, refuseMalformed } from "../run-config";
import { copiedMetadata, copyExceptValues, type UserSerde } from "../serde";
import type { SavedCheckpoint, Store } from "../store/store";
import { isRecorded, type TurnRecorder } from "../turns/recorder";
import type { Values } from "../values";
import type { CheckpointRequests, CheckpointToSave, Stored } from "./checkpoint-request";
import type { FailedSaves } from "./failed-saves";
import type { SaveProgress } from "./save-progress";

/** LangGraph's `put`: saves checkpoints. */
export class CheckpointSaves {
  constructor(
    private readonly recorder: TurnRecorder,
    private readonly requests: CheckpointRequests,
    private readonly store: Store,
    private readonly values: Values,
    private readonly serde: UserSerde | undefined,
    private readonly progress: SaveProgress,
    private readonly failed: FailedSaves,
  ) {}

  /**
   * Serialises the checkpoint and hands it to the store before it waits for anything.
   *
   * @param newVersions see {@link toSave}
   * @returns the config that addresses the saved checkpoint
   * @throws {TurnsError} INVALID_CONFIG, INVALID_CHECKPOINT; and what {@link FailedSaves.failed} throws
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
    const isRun = isRecorded(config.callbacks, this.recorder);
    const over = this.progress.checkpointComes(config, at, checkpoint, metadata, isRun);
    // The caller may change its objects as soon as it has the promise.
    const said = { source: metadata.source, step: metadata.step };
    const isEnd = this.progress.isEnd(at, checkpoint, metadata);
    try {
      this.failed.refuse(at, parentId);
      // LangGraph compares the run id of the metadata to tell a retry of the same run from a new one (internals, F11).
      const described = withRunId(metadata, config);
      const kept = toSave(checkpoint, metadata, parentId, newVersions);
      const { serde } = this;
      const saving =
        serde === undefined
          ? this.#commit(config, isRun, at, kept, metadata, { values: kept.channel_values, metadata: described })
          : this.#commitSerialized(serde, config, isRun, at, kept, described);
      const saved = saving instanceof Promise ? await saving : saving;
      this.failed.succeeded(at);
      this.progress.checkpointSaved(at, said, saved, isEnd);
      over?.();
    } catch (error) {
      const told = this.failed.failed(config, at, error);
      over?.();
      await told;
    }
    return { configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: at.checkpointId } };
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
      this.failed.refuse(at, at.parentId);
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
    const request = this.requests.of(config, isRun, at, checkpoint, metadata, stored);
    const saved = this.store.putCheckpoint(request, isRun ? "boundary" : "now");
    const remember = (done: SavedCheckpoint): SavedCheckpoint => {
      this.values.saved(at, request.values, done);
      return done;
    };
    return saved instanceof Promise ? saved.then(remember) : remember(saved);
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
