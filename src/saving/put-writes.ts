import type { RunnableConfig } from "@langchain/core/runnables";
import type { PendingWrite } from "@langchain/langgraph-checkpoint";
import { addressOf, checkedId, checkedTaskPath, refuseNoWrites } from "../run-config";
import type { UserSerde } from "../serde";
import type { Store } from "../store/store";
import { isRecorded, type TurnRecorder } from "../turns/recorder";
import type { FailedSaves } from "./failed-saves";
import { withoutHandler } from "./pending-writes";
import type { PlannedThoughts } from "./planned-thoughts";
import type { SaveProgress } from "./save-progress";
import { UpdatesAtOnce } from "./updates-at-once";
import type { WritesOutline, WritesRequests } from "./writes-request";

/** LangGraph's `putWrites`: saves what nodes return. */
export class WritesSaves {
  readonly #updates = new UpdatesAtOnce();

  constructor(
    private readonly recorder: TurnRecorder,
    private readonly requests: WritesRequests,
    private readonly store: Store,
    private readonly serde: UserSerde | undefined,
    private readonly planned: PlannedThoughts,
    private readonly progress: SaveProgress,
    private readonly failed: FailedSaves,
  ) {}

  /**
   * Serialises the writes and hands them to the store before it waits for anything.
   *
   * @param taskPath the task's position in its superstep
   * @throws {TurnsError} INVALID_CONFIG, INVALID_CHECKPOINT; and what {@link FailedSaves.failed} throws
   */
  async putWrites(config: RunnableConfig, given: PendingWrite[], nodeTaskId: string, taskPath?: string): Promise<void> {
    const { threadId, ns, checkpointId } = addressOf(config, "putWrites");
    const at = {
      threadId,
      ns,
      checkpointId: checkedId(checkpointId, "checkpoint_id", "putWrites"),
      nodeTaskId: checkedId(nodeTaskId, "task id", "putWrites"),
      taskPath: checkedTaskPath(taskPath),
    };
    refuseNoWrites(given);
    if (this.recorder.wasStopped(nodeTaskId)) return;
    const isRun = isRecorded(config.callbacks, this.recorder);
    const all = this.#updates.joined(config, at.checkpointId, at, given);
    const writes = this.recorder.endedInDoubt(nodeTaskId) ? withoutHandler(all) : all;
    const over = this.progress.writesCome(at, nodeTaskId, given, isRun);
    try {
      this.failed.refuse(at, at.checkpointId);
      const isEarly = !isRun && this.planned.isEarly(at);
      const outline = this.requests.outline(config, at, writes);
      const { serde } = this;
      const saving =
        serde === undefined
          ? this.#commit(config, isRun, isEarly, outline, writes)
          : serde.inOrder(serde.writes(writes), (stored) => this.#commit(config, isRun, isEarly, outline, stored));
      const saved = saving instanceof Promise ? await saving : saving;
      // Its checkpoint exists and had only been forgotten.
      if (isEarly && saved.turn !== undefined) this.planned.earlyOutcomes.take(at);
      this.progress.writesSaved(threadId, saved);
      over?.();
    } catch (error) {
      const told = this.failed.failed(config, at, error);
      over?.();
      await told;
    }
  }

  #commit(
    config: RunnableConfig,
    isRun: boolean,
    isEarly: boolean,
    outline: WritesOutline,
    writes: readonly PendingWrite[],
  ): ReturnType<Store["putWrites"]> {
    const request = this.requests.of(config, outline, writes);
    const { nodeTaskId, createdAt, settle } = request;
    // A failed task still has to run: the next run does it, and with durability "exit" reports nothing.
    if (isEarly && settle !== undefined && settle.status !== "error")
      this.planned.earlyOutcomes.add(outline.at, { nodeTaskId, createdAt, settle });
    return this.store.putWrites(request, isRun ? "boundary" : "now");
  }
}
