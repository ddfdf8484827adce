import { namespaceAbove, nodeTaskIdOf } from "../store/namespaces";

interface Place {
  threadId: string;
  ns: string;
}

interface NodeTask {
  nodeNs: string;
  nodeTaskId: string;
  step: number;
}

/**
 * Node tasks that have completed and whose writes LangGraph hasn't handed in. With durability "exit" it hands in only those of the
 * last step. The results of the others are in the checkpoint that is saved when the run ends.
 */
export class UnsavedResults {
  /** By thread, by the outermost node task that they are part of, and by id. */
  readonly #threads = new Map<string, Map<string, Map<string, NodeTask>>>();

  completed(threadId: string, { nodeNs, nodeTaskId, step }: NodeTask): void {
    const tasks = this.#threads.get(threadId) ?? new Map<string, Map<string, NodeTask>>();
    this.#threads.set(threadId, tasks);
    const outermost = outermostOf(nodeNs);
    const parts = tasks.get(outermost) ?? new Map<string, NodeTask>();
    tasks.set(outermost, parts.set(nodeTaskId, { nodeNs, nodeTaskId, step }));
  }

  /** Writes of a node task are handed in. Those of an outermost one save all that happened inside it, too. */
  written({ threadId, ns }: Place, nodeTaskId: string): void {
    const tasks = this.#threads.get(threadId);
    if (ns === "") tasks?.delete(nodeTaskId);
    else tasks?.get(outermostOf(ns))?.delete(nodeTaskId);
  }

  /** No checkpoint of the thread's runs will hold these results any more. */
  forget(threadId: string): void {
    this.#threads.delete(threadId);
  }

  /** Removes and returns the ids of the node tasks whose results are in a checkpoint that is handed in: its graph's, and inside those. */
  take({ threadId, ns }: Place, step: number): string[] {
    const tasks = this.#threads.get(threadId);
    if (tasks === undefined || tasks.size === 0) return [];
    const all = [...tasks.values()].flatMap((parts) => [...parts.values()]);
    const own = new Set(
      all.filter((task) => namespaceAbove(task.nodeNs) === ns && task.step <= step).map(({ nodeNs }) => nodeNs),
    );
    const isSaved = (nodeNs: string): boolean => own.has(nodeNs) || (nodeNs !== "" && isSaved(namespaceAbove(nodeNs)));
    const saved = all.filter(({ nodeNs }) => isSaved(nodeNs));
    for (const { nodeNs, nodeTaskId } of saved) tasks.get(outermostOf(nodeNs))?.delete(nodeTaskId);
    return saved.map(({ nodeTaskId }) => nodeTaskId);
  }
}

function outermostOf(ns: string): string {
  const cut = ns.indexOf("|");
  return nodeTaskIdOf(cut === -1 ? ns : ns.slice(0, cut));
}
