import type { RunnableConfig } from "@langchain/core/runnables";
import type { PendingWrite } from "@langchain/langgraph-checkpoint";
import { isDerivedId } from "../system";

/**
 * What several updates at once (`bulkUpdateState`) write. LangGraph 1.4 gives them all the same id, so the last would replace the
 * others. It passes the same config object with each of them; a retried update has another one.
 */
export class UpdatesAtOnce {
  readonly #written = new WeakMap<RunnableConfig, PendingWrite[]>();

  /**
   * @param writes of a task; those that aren't from an update are returned as they are
   * @returns everything these updates have written so far, this time included
   */
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
