import type { RunnableConfig } from "@langchain/core/runnables";
import type { Checkpoint, CheckpointMetadata } from "@langchain/langgraph-checkpoint";
import { encode } from "../codec";
import type { ResolvedOptions } from "../options";
import { type CheckpointAddress, timeOfSave } from "../run-config";
import type { RunNames } from "../run-names";
import type { RunStarts } from "../run-starts";
import type { EarlyOutcome, NewCheckpoint } from "../store/store";
import type { RunRegistry } from "../turns/run-registry";
import type { UnsavedResults } from "../turns/unsaved-results";
import type { Values } from "../values";
import type { PlannedThoughts } from "./planned-thoughts";
import { claimOfCheckpoint } from "./task-claims";

/** What goes into a checkpoint: as it is, or as the user's serde encoded it. */
export interface Stored {
  values: Record<string, unknown>;
  metadata: unknown;
}

/** Where a checkpoint goes, and the one it was made from. */
export type CheckpointToSave = CheckpointAddress & { parentId: string | undefined };

/** Turns the arguments of LangGraph's `put` into a request to the store. */
export class CheckpointRequests {
  constructor(
    private readonly options: ResolvedOptions,
    private readonly values: Values,
    private readonly runs: RunRegistry,
    private readonly names: RunNames,
    private readonly starts: RunStarts,
    private readonly planned: PlannedThoughts,
    private readonly unsaved: UnsavedResults,
  ) {}

  /**
   * Serialises everything before it returns: the caller may change its objects afterwards.
   *
   * @param isRun whether the run is recorded; if not, Thoughts are derived from the checkpoint
   * @throws {TurnsError} UNSERIALIZABLE_VALUE naming channel and path; INVALID_CONFIG
   */
  of(
    config: RunnableConfig,
    isRun: boolean,
    at: CheckpointToSave,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    stored: Stored,
  ): NewCheckpoint {
    const { options } = this;
    const above = parentsOf(metadata);
    const { channel_versions: versions, v, ts, versions_seen: seen } = checkpoint;
    const claim = claimOfCheckpoint(this.names.remember(config, at), at, metadata.source);
    const createdAt = timeOfSave(config, options.clock);
    const runId: unknown = config.metadata?.["run_id"];
    const values = this.values.channels(at, stored.values);
    const { sawDeletion, sawEpoch, lease } = this.starts.of(config, at);
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
      graphRuns: this.runs.graphRunsOf(at.threadId),
      planned: isRun ? [] : this.planned.of(config, at, checkpoint, metadata, claim.taskId, createdAt),
      outcomes: this.planned.earlyOutcomes.take(at),
      completed: isRun && metadata.source === "loop" ? this.#completed(at, metadata.step, createdAt) : [],
      mayHaveHoles: options.onCheckpointError === "continue",
    };
  }

  #completed(at: CheckpointToSave, step: number, createdAt: string): EarlyOutcome[] {
    return this.unsaved.take(at, step).map((nodeTaskId) => {
      const settle = { status: "ok", durable: true, update: undefined, actionId: this.options.createId() } as const;
      return { nodeTaskId, createdAt, settle };
    });
  }
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
