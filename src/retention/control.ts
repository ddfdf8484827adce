import type { SaverEmitter } from "../events";
import { checkedId } from "../run-config";
import { deleteForRuns, type PruneParts, type RunDeletionReport } from "./prune";

/** What is deleted besides whole threads and by `saver.prune`, and which ids may be used again: `saver.retention`. */
export class RetentionControl {
  readonly #parts: PruneParts;
  readonly #events: SaverEmitter;

  /** @internal */
  constructor(parts: PruneParts, events: SaverEmitter) {
    this.#parts = parts;
    this.#events = events;
  }

  /**
   * Deletes the checkpoints that were saved under these run ids (`metadata.run_id`), in all threads, with their writes and turns. The
   * event `pruned` tells the report.
   *
   * @returns how much went, and which checkpoints stay because others cannot be read without them
   * @throws {TurnsError} INVALID_OPTION; THREAD_RUNNING, REWIND_UNFINISHED before anything has been deleted
   */
  async deleteForRuns(runIds: readonly string[]): Promise<RunDeletionReport> {
    const report = await deleteForRuns(this.#parts, runIds);
    this.#events.emit("pruned", { by: "deleteForRuns", ...report, deletedThreads: [], failed: [], done: true });
    return report;
  }

  /**
   * Allows the id of a deleted thread again, for late saves as well.
   *
   * @returns whether it had been deleted
   */
  async reuseThread(threadId: string): Promise<boolean> {
    return this.#parts.store.reuseThread(checkedId(threadId, "thread_id", "retention.reuseThread"));
  }
}
