import type { RunnableConfig } from "@langchain/core/runnables";
import { TurnsError, type TurnsErrorCode } from "../errors";
import type { ResolvedOptions } from "../options";
import { type CheckpointAddress, checkpointKey } from "../run-config";
import type { RunStarts } from "../run-starts";
import type { Store } from "../store/store";
import { closedMeanwhile, type Draining } from "../turns/draining";
import type { PendingFailures } from "../turns/pending-failures";
import { isRecorded, type TurnRecorder } from "../turns/recorder";
import type { SaveReports } from "../turns/save-reports";

/** How many failed checkpoints are remembered. */
const REMEMBERED = 1_000;

/** Nothing can be read now either. */
const AWAY: readonly TurnsErrorCode[] = ["STORE_BUSY", "STORE_CLOSED", "STORE_UNAVAILABLE"];

/** A checkpoint, or with a node task its writes. */
type Save = CheckpointAddress & { parentId?: string | undefined; nodeTaskId?: string };

/**
 * What happens to a save that failed. It is reported and logged. Then the save rejects, as those of LangGraph's own savers do. In an
 * attached run, the error waits for somebody who can handle it; see {@link PendingFailures}.
 *
 * Checkpoints that couldn't be saved are remembered, each with its error. What is based on one of them is refused with that error:
 * otherwise the history would have a hole, and nobody could see it. LangGraph itself continues: before anybody can stop it, it hands in the
 * checkpoint behind a run's input.
 */
export class FailedSaves {
  readonly #errors = new Map<string, { error: unknown }>();

  constructor(
    private readonly options: Pick<ResolvedOptions, "onCheckpointError" | "logger">,
    private readonly reports: SaveReports,
    private readonly pending: PendingFailures,
    private readonly draining: Draining,
    private readonly starts: RunStarts,
    private readonly recorder: TurnRecorder,
    private readonly store: Pick<Store, "placeOf">,
  ) {}

  /** @throws the error that saving this checkpoint failed with, if it failed */
  refuse({ threadId, ns }: CheckpointAddress, checkpointId: string | undefined): void {
    if (this.#errors.size === 0 || checkpointId === undefined) return;
    const found = this.#errors.get(checkpointKey({ threadId, ns, checkpointId }));
    if (found !== undefined) throw found.error;
  }

  /** A checkpoint was saved after all. */
  succeeded(at: CheckpointAddress): void {
    if (this.#errors.size > 0) this.#errors.delete(checkpointKey(at));
  }

  /**
   * Reports a failed save, and decides what its caller gets.
   *
   * @returns a promise that resolves if the run continues: with `onCheckpointError: "continue"`, or when a node's start reported
   *   the error
   * @throws the error, unless the run continues; STORE_CLOSED becomes an error that says what to do
   */
  async failed(config: RunnableConfig, at: Save, thrown: unknown): Promise<void> {
    const { threadId, ns, checkpointId, parentId, nodeTaskId } = at;
    const continues = this.options.onCheckpointError === "continue";
    // A run must be told at once, before its next node starts. Who saves by hand is told when that is known.
    const remembered = nodeTaskId === undefined && !continues ? this.#remember(at, thrown) : undefined;
    const start = this.starts.of(config, at);
    const isRun = start.sawDeletion !== undefined || isRecorded(config.callbacks, this.recorder);
    const isClosed = isRun && TurnsError.is(thrown, "STORE_CLOSED");
    const error = isClosed ? closedMeanwhile(threadId, thrown) : thrown;
    this.reports.saveFailed({ threadId, ns, checkpointId, parentId, runId: start.lease?.runId, nodeTaskId }, error, !isClosed);
    if (isClosed && this.draining.tellClosed()) this.options.logger.error({ threadId }, (error as Error).message);
    // A run whose thread now belongs to somebody else must not continue.
    const isElsewhere = TurnsError.is(error, "LEASE_LOST") || TurnsError.is(error, "THREAD_MOVED");
    if (continues && !isElsewhere) return;
    if (!isRecorded(config.callbacks, this.recorder)) {
      await remembered;
      throw error;
    }
    await this.pending.hold(threadId, ns, error, start);
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
      const place = this.store.placeOf(at.threadId, at.ns, at.checkpointId);
      const isThere = (place instanceof Promise ? await place : place) !== undefined;
      if (isThere && this.#errors.get(key) === remembered) this.#errors.delete(key);
    } catch {
      // Then it counts as not saved.
    }
  }
}
