import { compareFingerprints, type GraphDifference } from "../guards/compare";
import { type RecordedNode, recordedGraph } from "../guards/recorded";
import type { TurnSaver } from "../saver";
import type { PregelLike } from "../turns/attached-graph";
import type { NodeOutcome, RunNodes } from "./run-nodes";

/** How the graph differs from the one that a run's nodes ran in (S3.3); undefined if they were recorded without their graph. */
export async function driftOf(
  saver: TurnSaver,
  graph: PregelLike,
  threadId: string,
  nodes: RunNodes,
): Promise<GraphDifference | undefined> {
  const again = [...nodes.failed, ...nodes.inFlight, ...nodes.waiting];
  // Of a run in which nothing ended, what began tells at least which graph it was.
  const known = nodes.completed.length > 0 ? nodes.completed : again;
  const recorded = recordedGraph(await recordedNodes(saver, threadId, known));
  if (recorded === undefined) return undefined;
  return compareFingerprints(recorded, saver.documentOf(graph), {
    completed: nodes.completed.map(({ path }) => path),
    failed: again.map(({ path }) => path),
  });
}

async function recordedNodes(saver: TurnSaver, threadId: string, outcomes: readonly NodeOutcome[]): Promise<RecordedNode[]> {
  const graphs = await saver.recordedGraphs(
    threadId,
    outcomes.map(({ turnId }) => ({ id: turnId })),
  );
  const byTurn = new Map(graphs.flatMap(({ turnIds, document }) => turnIds.map((id) => [id, document] as const)));
  return outcomes.flatMap(({ turnId, path }) => {
    const graph = byTurn.get(turnId);
    return graph === undefined ? [] : [{ path, graph }];
  });
}
