import type { RunnableConfig } from "@langchain/core/runnables";
import { describe, TurnsError } from "../errors";

/** Whether a thread has a checkpoint. */
export type HasCheckpoint = (at: { threadId: string; ns: string; checkpointId: string }) => Promise<boolean>;

/** In the config of a run inside a node: the graph around it says where it begins. */
const INSIDE_NODE = "__pregel_read";

/**
 * The chunks of a run. If it's told to begin at a checkpoint that its thread doesn't have, it's refused when the first chunk is
 * read, before anything runs. LangGraph would begin with an empty state, and make that the thread's newest.
 *
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND, when the chunks are read
 */
export function fromKnownCheckpoint(
  chunks: AsyncGenerator<unknown>,
  configurable: RunnableConfig["configurable"] = {},
  hasCheckpoint: HasCheckpoint,
): AsyncGenerator<unknown> {
  const { thread_id: threadId, checkpoint_id: id, checkpoint_ns: ns = "", checkpoint_map: map } = configurable;
  if (
    typeof id !== "string" ||
    id === "" ||
    typeof threadId !== "string" ||
    typeof ns !== "string" ||
    INSIDE_NODE in configurable
  )
    return chunks;
  // A subgraph's config names the root's checkpoint in the map.
  const root = ns === "" ? undefined : (map as Record<string, string> | undefined)?.[""];
  const named =
    root === undefined
      ? [{ ns, checkpointId: id }]
      : [
          { ns: "", checkpointId: root },
          { ns, checkpointId: id },
        ];
  return (async function* () {
    for (const at of named) if (!(await hasCheckpoint({ threadId, ...at }))) throw notThere(threadId, at);
    yield* chunks;
  })();
}

function notThere(threadId: string, { ns, checkpointId }: { ns: string; checkpointId: string }): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${describe(threadId)} has no checkpoint ${describe(checkpointId)}${ns === "" ? "" : ` in ${describe(ns)}`}, at which the run was told to begin.`,
    remedy:
      "It was pruned, rewound or deleted, or it was never saved. Nothing ran, and nothing was changed. graph.getStateHistory(config) shows " +
      "which checkpoints there are. Without a checkpoint_id, the run continues from the newest.",
    data: { threadId, checkpointNs: ns, checkpointId },
  });
}
