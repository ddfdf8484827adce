import type { RunnableConfig } from "@langchain/core/runnables";
import { type BaseCheckpointSaver, INTERRUPT, RESUME } from "@langchain/langgraph-checkpoint";

/** LangGraph marks the error of an answer that its question's `responseSchema` refuses. */
const INVALID_RESUME = Symbol.for("langgraph.invalid_resume");
const DEEPEST_CAUSE = 10;

/** As LangGraph's `isInvalidResume`, which older versions don't have. */
export function isRefusedAnswer(error: unknown): boolean {
  let current = error;
  for (let depth = 0; depth < DEEPEST_CAUSE && typeof current === "object" && current !== null; depth += 1) {
    if ((current as Record<symbol, unknown>)[INVALID_RESUME] === true) return true;
    current = (current as { cause?: unknown }).cause;
  }
  return false;
}

/**
 * Saves a node's question once more if its answer was refused, so that it is newer than the answer, and open again. Else the answer
 * would count as the question's, and be given on each resume.
 *
 * @param config of the node
 */
export async function askAgain(error: unknown, config: Partial<RunnableConfig> | undefined): Promise<void> {
  const configurable = config?.configurable ?? {};
  const { thread_id, checkpoint_ns: nodeNs, __pregel_checkpointer: saver, checkpoint_map: around = {} } = configurable;
  if (!isRefusedAnswer(error) || typeof nodeNs !== "string") return;
  const checkpointer = saver as BaseCheckpointSaver;
  const nodeTaskId = nodeNs.slice(nodeNs.lastIndexOf(":") + 1);
  // A functional task's namespace has that of its entrypoint, which isn't a graph's.
  for (let ns = nodeNs; ns !== "";) {
    ns = ns.slice(0, Math.max(0, ns.lastIndexOf("|")));
    const checkpoint_id = (around as Record<string, string>)[ns];
    const at = { configurable: { thread_id: String(thread_id), checkpoint_ns: ns, ...(checkpoint_id && { checkpoint_id }) } };
    const tuple = await checkpointer.getTuple(at);
    const of = (channel: string) =>
      tuple?.pendingWrites?.filter((write) => write[0] === nodeTaskId && write[1] === channel) ?? [];
    const writes = [...of(INTERRUPT), ...of(RESUME)].map(([, channel, value]): [string, unknown] => [channel, value]);
    if (tuple === undefined || of(INTERRUPT).length === 0) continue;
    return checkpointer.putWrites(tuple.config, writes, nodeTaskId);
  }
}
