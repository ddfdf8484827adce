import type { RunnableConfig } from "@langchain/core/runnables";
import type { Checkpoint, CheckpointMetadata, PendingWrite } from "@langchain/langgraph-checkpoint";
import { TurnsError, type TurnsErrorCode } from "../errors";
import type { SaverEmitter } from "../events";
import type { ResolvedOptions } from "../options";
import type { Retention } from "../retention/retention";
import { type CheckpointAddress, checkpointKey, runAround, type RunStarts } from "../run-config";
import type { LostTurn, SavedCheckpoint, Store, TurnRow } from "../store/store";
import { closedMeanwhile, type Draining } from "../turns/draining";
import type { FailureLog } from "../turns/failure-log";
import type { SeenCheckpoints, UnsavedResults } from "../turns/handed-in";
import { plannedTasks } from "../turns/node-task";
import type { PendingFailures } from "../turns/pending-failures";
import { isRecorded, type TurnRecorder } from "../turns/recorder";
import type { RunRegistry } from "../turns/run-registry";
import type { TurnReports } from "../turns/turn-reports";

/** How many failed checkpoints are remembered. */
const REMEMBERED = 1_000;

/** Nothing can be read now either. */
const AWAY: readonly TurnsErrorCode[] = ["STORE_BUSY", "STORE_CLOSED", "STORE_UNAVAILABLE"];

/** A checkpoint, or with a node task its writes. */
type Save = CheckpointAddress & { parentId?: string | undefined; nodeTaskId?: string };

interface SaveProgressParts {
  options: Pick<ResolvedOptions, "onCheckpointError" | "logger">;
  store: Pick<Store, "placeOf">;
  events: SaverEmitter;
  log: FailureLog;
  reports: TurnReports;
  seen: SeenCheckpoints;
  unsaved: UnsavedResults;
  runs: RunRegistry;
  runStarts: RunStarts;
  recorder: TurnRecorder;
  draining: Draining;
  failures: PendingFailures;
  retention: Retention | undefined;
}

/**
 * Follows each save from the call to its outcome, and tells the rest of the saver: nodes wait for saves that were handed in, a run
 * stays alive as long as it saves, and a thread is pruned after its saves.
 *
 * A save that failed is reported and logged. Then it rejects, as those of LangGraph's own savers do. In an attached run, the error
 * waits for somebody who can handle it; see {@link PendingFailures}.
 *
 * Checkpoints that couldn't be saved are remembered, each with its error. What is based on one of them is refused with that error:
 * otherwise the history would have a hole, and nobody could see it. LangGraph itself continues: before anybody can stop it, it hands in the
 * checkpoint behind a run's input.
 */
export class SaveProgress {
  readonly #parts: SaveProgressParts;
  readonly #errors = new Map<string, { error: unknown }>();

  constructor(parts: SaveProgressParts) {
    this.#parts = parts;
  }

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
    const { failures, runs, seen } = this.#parts;
    if (at.ns === "" && metadata.source === "input") runs.inputSaved(at.threadId);
    const over = isRun ? failures.saves.began(at.threadId) : undefined;
    seen.add(at, checkpoint, metadata, runAround(config.callbacks));
    return over;
  }

  /** LangGraph hands in writes. Parameters and result are as for {@link checkpointComes}. */
  writesCome(
    at: CheckpointAddress,
    nodeTaskId: string,
    writes: readonly PendingWrite[],
    isRun: boolean,
  ): (() => void) | undefined {
    const { failures, seen, unsaved } = this.#parts;
    seen.written(at, nodeTaskId, writes);
    unsaved.written(at, nodeTaskId);
    return isRun ? failures.saves.began(at.threadId) : undefined;
  }

  /** Whether a graph's saves are left out, because a new attempt of its node, or a new run, continues it. That is logged once. */
  leavesOut(config: RunnableConfig, threadId: string): boolean {
    const { recorder, log } = this.#parts;
    const replaced = recorder.replacedBy(runAround(config.callbacks), threadId);
    if (replaced !== undefined) log.leftOut(threadId, replaced);
    return replaced !== undefined;
  }

  /** Whether nothing follows a checkpoint of the root namespace, for retention. */
  isEnd(at: CheckpointAddress, checkpoint: Checkpoint, metadata: CheckpointMetadata): boolean {
    if (this.#parts.retention === undefined || at.ns !== "") return false;
    return metadata.source === "loop" && plannedTasks("", checkpoint, metadata).length === 0;
  }

  /** A checkpoint was saved, perhaps one that couldn't be saved before. */
  checkpointSaved(
    at: CheckpointAddress,
    { step, source }: Pick<CheckpointMetadata, "source" | "step">,
    { seq, actions, lost }: SavedCheckpoint,
    isEnd: boolean,
  ): void {
    const { events, reports, retention, runs } = this.#parts;
    const { threadId, ns, checkpointId } = at;
    if (this.#errors.size > 0) this.#errors.delete(checkpointKey(at));
    runs.touch(threadId);
    if (events.listenerCount("checkpoint") > 0)
      events.emit("checkpoint", { threadId, checkpointNs: ns, checkpointId, step, source, seq });
    for (const action of actions) reports.turnSaved(action);
    for (const turn of lost) reports.turnLost(threadId, turn);
    if (ns === "") retention?.saved(threadId, isEnd);
  }

  writesSaved(threadId: string, { turn, lost }: { turn: TurnRow | undefined; lost: readonly LostTurn[] }): void {
    const { reports, runs } = this.#parts;
    runs.touch(threadId);
    if (turn !== undefined) reports.turnSaved(turn);
    for (const one of lost) reports.turnLost(threadId, one);
  }

  /** @throws the error that saving this checkpoint failed with, if it failed */
  refuse({ threadId, ns }: CheckpointAddress, checkpointId: string | undefined): void {
    if (this.#errors.size === 0 || checkpointId === undefined) return;
    const found = this.#errors.get(checkpointKey({ threadId, ns, checkpointId }));
    if (found !== undefined) throw found.error;
  }

  /**
   * Reports a failed save, and decides what its caller gets.
   *
   * @returns a promise that resolves if the run continues: with `onCheckpointError: "continue"`, or when a node's start reported
   *   the error
   * @throws the error, unless the run continues; STORE_CLOSED becomes an error that says what to do
   */
  async failed(config: RunnableConfig, at: Save, thrown: unknown): Promise<void> {
    const { options, events, log, runStarts, recorder, draining, failures } = this.#parts;
    const { threadId, ns, checkpointId, parentId, nodeTaskId } = at;
    const continues = options.onCheckpointError === "continue";
    // A run must be told at once, before its next node starts. Who saves by hand is told when that is known.
    const remembered = nodeTaskId === undefined && !continues ? this.#remember(at, thrown) : undefined;
    const start = runStarts.of(config, at);
    const isRun = start.sawDeletion !== undefined || isRecorded(config.callbacks, recorder);
    const isClosed = isRun && TurnsError.is(thrown, "STORE_CLOSED");
    const error = isClosed ? closedMeanwhile(threadId, thrown) : thrown;
    events.emit("checkpoint_failed", { threadId, checkpointNs: ns, checkpointId, error });
    if (!isClosed) log.saveFailed({ threadId, checkpointId, parentId, runId: start.lease?.runId, nodeTaskId }, error);
    else if (draining.tellClosed()) options.logger.error({ threadId }, (error as Error).message);
    // A run whose thread now belongs to somebody else must not continue.
    const isElsewhere = TurnsError.is(error, "LEASE_LOST") || TurnsError.is(error, "THREAD_MOVED");
    if (continues && !isElsewhere) return;
    if (!isRecorded(config.callbacks, recorder)) {
      await remembered;
      throw error;
    }
    await failures.hold(threadId, ns, error, start);
  }

  /** Unless it's there: it was saved before, and saving it once more has failed. */
  async #remember(at: CheckpointAddress, error: unknown): Promise<void> {
    // The id may be used again, and then the run continues.
    if (TurnsError.is(error, "THREAD_DELETED") || TurnsError.is(error, "THREAD_MOVED")) return;
    const key = checkpointKey(at);
    const remembered = { error };
    this.#errors.set(key, remembered);
    const [oldest] = this.#errors.keys();
    if (this.#errors.size > REMEMBERED && oldest !== undefined) this.#errors.delete(oldest);
    // Who couldn't reach the database has waited long enough.
    if (TurnsError.is(error) && AWAY.includes(error.code)) return;
    try {
      const place = this.#parts.store.placeOf(at.threadId, at.ns, at.checkpointId);
      const isThere = (place instanceof Promise ? await place : place) !== undefined;
      if (isThere && this.#errors.get(key) === remembered) this.#errors.delete(key);
    } catch {
      // Then it counts as not saved.
    }
  }
}
