import type { RunnableConfig } from "@langchain/core/runnables";
import { type Place, type TaskNames, taskNamesOf } from "./run-config";
import { Recent } from "./store/thread-state";

const NONE: TaskNames = { taskId: undefined, graphId: undefined };

/** How many threads' task names are remembered. */
const NAMED = 10_000;

/** The task names that the newest run of each thread was given: the callbacks of its nodes don't carry them. */
export class RunNames {
  readonly #of = new Recent<string, TaskNames>(NAMED);

  of(threadId: string): TaskNames {
    return this.#of.get(threadId) ?? NONE;
  }

  /** The names a run gives hold for its thread until the next run gives others. */
  remember(config: RunnableConfig, at: Place): TaskNames {
    const told = taskNamesOf(config, "a save");
    // A graph that a node calls on another thread is at the root there, without a namespace.
    if (told.taskId !== undefined || told.graphId !== undefined) this.#of.set(at.threadId, told);
    else if (at.ns === "") this.forget(at.threadId);
    return told;
  }

  forget(threadId: string): void {
    this.#of.delete(threadId);
  }
}
