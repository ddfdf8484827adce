import type { RunnableConfig } from "@langchain/core/runnables";
import type { Checkpoint, CheckpointMetadata, PendingWrite } from "@langchain/langgraph-checkpoint";
import type { Retention } from "../retention/retention";
import { type CheckpointAddress, runAround } from "../run-config";
import type { LostTurn, SavedCheckpoint, TurnRow } from "../store/store";
import { plannedTasks } from "../turns/node-task";
import type { RunRegistry } from "../turns/run-registry";
import type { SaveReports } from "../turns/save-reports";
import type { OpenWork, SeenCheckpoints } from "../turns/seen-checkpoints";
import type { UnsavedResults } from "../turns/unsaved-results";

/**
 * Tells the rest of the saver how a save is doing: nodes wait for saves that were handed in, a run stays alive as long as it
 * saves, and a thread is pruned after its saves.
 */
export class SaveProgress {
  /** @param open the saves of attached runs, until they are committed or have failed */
  constructor(
    private readonly seen: SeenCheckpoints,
    private readonly unsaved: UnsavedResults,
    private readonly runs: RunRegistry,
    private readonly open: OpenWork,
    private readonly reports: SaveReports,
    private readonly retention: Retention | undefined,
  ) {}

  /**
   * LangGraph hands in a checkpoint.
   *
   * @param isRun whether the run is recorded
   * @returns what to call when the save is over; undefined if the run isn't recorded
   */
  checkpointComes(
    config: RunnableConfig,
    at: CheckpointAddress,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    isRun: boolean,
  ): (() => void) | undefined {
    if (at.ns === "" && metadata.source === "input") this.runs.inputSaved(at.threadId);
    const over = isRun ? this.open.began(at.threadId) : undefined;
    this.seen.add(at, checkpoint, metadata, runAround(config.callbacks));
    return over;
  }

  /** LangGraph hands in writes. Parameters and result are as for {@link checkpointComes}. */
  writesCome(
    at: CheckpointAddress,
    nodeTaskId: string,
    writes: readonly PendingWrite[],
    isRun: boolean,
  ): (() => void) | undefined {
    this.seen.written(at, nodeTaskId, writes);
    this.unsaved.written(at, nodeTaskId);
    return isRun ? this.open.began(at.threadId) : undefined;
  }

  /** Whether nothing follows a checkpoint of the root namespace, for retention. */
  isEnd(at: CheckpointAddress, checkpoint: Checkpoint, metadata: CheckpointMetadata): boolean {
    if (this.retention === undefined || at.ns !== "") return false;
    return metadata.source === "loop" && plannedTasks("", checkpoint, metadata).length === 0;
  }

  checkpointSaved(
    at: CheckpointAddress,
    said: Pick<CheckpointMetadata, "source" | "step">,
    saved: SavedCheckpoint,
    isEnd: boolean,
  ): void {
    this.runs.touch(at.threadId);
    this.reports.checkpointSaved(at, said, saved.seq);
    for (const action of saved.actions) this.reports.turnSaved(action);
    for (const turn of saved.lost) this.reports.turnLost(at.threadId, turn);
    if (at.ns === "") this.retention?.saved(at.threadId, isEnd);
  }

  writesSaved(threadId: string, { turn, lost }: { turn: TurnRow | undefined; lost: readonly LostTurn[] }): void {
    this.runs.touch(threadId);
    if (turn !== undefined) this.reports.turnSaved(turn);
    for (const one of lost) this.reports.turnLost(threadId, one);
  }
}
