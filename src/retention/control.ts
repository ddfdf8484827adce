import type { SaverEmitter } from "../events";
import { checkedArgument } from "../run-config";
import { deleteForRuns, type PruneParts, type RunDeletionReport } from "./prune";

/**
 * Deletes checkpoints by run, and decides which ids of deleted threads may be used again: `saver.retention`. See
 * `saver.deleteThread` and `saver.prune` for the rest.
 */
export class RetentionControl {
  readonly #parts: PruneParts;
  readonly #events: SaverEmitter;

  /** @internal */
  constructor(parts: PruneParts, events: SaverEmitter) {
    this.#parts = parts;
    this.#events = events;
  }

  /**
   * Deletes the checkpoints saved under these run ids (`metadata.run_id`) in all threads, with their writes and turns. The event
   * `pruned` reports the result.
   *
   * @returns how much was deleted, and which checkpoints stay because others can't be read without them
   * @throws {TurnsError} INVALID_OPTION; THREAD_RUNNING or REWIND_UNFINISHED, before anything has been deleted
   */
  async deleteForRuns(runIds: readonly string[]): Promise<RunDeletionReport> {
    const report = await deleteForRuns(this.#parts, runIds);
    this.#events.emit("pruned", { by: "deleteForRuns", ...report, deletedThreads: [], inDoubt: [], failed: [], done: true });
    return report;
  }

  /**
   * Allows the id of a deleted thread again, even for late saves.
   *
   * @returns whether the thread had been deleted
   */
  async reuseThread(threadId: string): Promise<boolean> {
    return this.#parts.store.reuseThread(checkedArgument(threadId, "threadId", "retention.reuseThread"));
  }
}
