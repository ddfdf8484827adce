import { internalsOf } from "../internals";
import { nodePathOf, ofNode } from "../guards/graph-document";
import { originalOf } from "../guards/graph-nodes";
import type { TurnSaver } from "../saver";
import { isPregel, type PregelLike } from "../turns/attached-graph";
import type { Turn } from "../turns/turn";
import type { NodeOptions } from "./options";

/**
 * Warns once per node about nodes that run again although they may have run before, because their end wasn't saved: anything they did outside
 * effects may happen twice. There's no warning for a node that is itself a graph, because it does nothing outside its own nodes,
 * or for a node declared idempotent.
 */
export async function warnOfRepeats(
  saver: TurnSaver,
  graph: PregelLike,
  threadId: string,
  nodes: Readonly<Record<string, NodeOptions>>,
): Promise<void> {
  const again = new Map<string, Turn[]>();
  for (const turn of await saver.turns.inFlight(threadId)) {
    const path = nodePathOf(turn.nodeNs);
    if (ofNode(nodes, path)?.idempotent === true || isGraph(graph, path)) continue;
    again.set(path, [...(again.get(path) ?? []), turn]);
  }
  for (const [path, turns] of again) {
    const [{ nodeName: node, attempt, createdAt: since }] = turns as [Turn, ...Turn[]];
    const several = turns.length > 1;
    const key = /^[A-Za-z_$][\w$]*$/.test(path) ? path : JSON.stringify(path);
    internalsOf(saver).logger.warn(
      { threadId, node, path, nodeTaskIds: turns.map(({ nodeTaskId }) => nodeTaskId), attempt, since },
      `Re-running ${several ? `${turns.length} tasks of ` : ""}node ${JSON.stringify(path)} of thread ${JSON.stringify(threadId)}: ` +
        `${several ? "their last attempts" : "its last attempt"} stopped before the result was saved. Anything ${several ? "they" : "it"} did outside effect() may happen twice. ` +
        `To silence this: new GraphRunner(graph, { nodes: { ${key}: { idempotent: true } } })`,
    );
  }
}

/**
 * Whether a node is nothing but a compiled graph. False for a graph that a node calls by itself, which the outer graph doesn't
 * show.
 */
function isGraph(graph: PregelLike, path: string): boolean {
  let graphs: readonly PregelLike[] = [graph];
  let isOne = false;
  for (const name of path.split("|")) {
    const nodes = graphs.flatMap((each) => (Object.hasOwn(each.nodes, name) ? [each.nodes[name] as GraphNode] : []));
    isOne = nodes.length > 0 && nodes.every(({ bound }) => isPregel(originalOf(bound)));
    graphs = nodes.flatMap(({ bound, subgraphs = [] }) => [...subgraphs, bound].map(originalOf).filter(isPregel));
  }
  return isOne;
}

interface GraphNode {
  bound?: unknown;
  subgraphs?: readonly unknown[];
}
