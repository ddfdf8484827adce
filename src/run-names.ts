import type { RunnableConfig } from "@langchain/core/runnables";
import { type TaskNames, taskNamesOf } from "./run-config";

const NONE: TaskNames = { taskId: undefined, graphId: undefined };

/** What the newest run of each thread was told about its task: the callbacks of its nodes do not carry it. */
export class RunNames {
  readonly #of = new Map<string, TaskNames>();

  of(threadId: string): TaskNames {
    return this.#of.get(threadId) ?? NONE;
  }

  /** What a run says about its task holds for its thread until the next one says something else. */
  remember(config: RunnableConfig, at: { threadId: string; ns: string }): TaskNames {
    const told = taskNamesOf(config, "a save");
    if (at.ns === "" && told.taskId === undefined && told.graphId === undefined) this.forget(at.threadId);
    else if (at.ns === "") this.#of.set(at.threadId, told);
    return told;
  }

  forget(threadId: string): void {
    this.#of.delete(threadId);
  }
}
