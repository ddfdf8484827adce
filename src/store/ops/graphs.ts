import { push } from "../../push";
import { corrupted } from "../refusals";
import { mapped, type Program } from "../program";
import { GRAPH_ROWS } from "../rows";
import type { Session } from "../session";
import type { GraphReference, GraphRow } from "../store";
import type { ThreadState } from "../thread-state";
import { threadKey } from "./thread-rows";

const OF_DIGEST = "SELECT seq FROM langgraph_graphs WHERE thread = ? AND digest = ?";
const OF_TURN = "SELECT id, seq, graph FROM langgraph_checkpoints WHERE id = ? AND thread = ? AND graph IS NOT NULL";
const DOCUMENT = "SELECT digest, document FROM langgraph_graphs WHERE thread = ? AND seq = ?";
/** A turn in the archive of a rewind may be restored and need its graph. */
const DELETE_UNUSED = `DELETE FROM langgraph_graphs WHERE thread = ?1
  AND NOT EXISTS (SELECT 1 FROM langgraph_checkpoints AS c WHERE c.thread = ?1 AND c.graph = langgraph_graphs.seq)
  AND NOT EXISTS (SELECT 1 FROM langgraph_archive WHERE thread_id = ?2)`;

/**
 * The seq of the graph's row. The row is written with the first turn that refers to it, so it is older than every turn that does.
 */
export function* graphSeq(session: Session, key: ThreadState, graph: GraphReference | undefined): Program<number | undefined> {
  if (graph === undefined) return undefined;
  const remembered = key.facts.graphs.get(graph.digest);
  if (remembered !== undefined) return remembered;
  const known = key.facts.areGraphsKnown ? undefined : yield* session.get<{ seq: number }>(OF_DIGEST, key.thread, graph.digest);
  if (known !== undefined) key.facts.graphs.set(graph.digest, known.seq);
  if (known !== undefined) return known.seq;
  const seq = key.nextSeq();
  yield* session.insert(key, GRAPH_ROWS, { seq, digest: graph.digest, document: graph.document() });
  key.facts.graphs.set(graph.digest, seq);
  return seq;
}

/** The graphs that these turns ran in, oldest turn first. Turns without one are in none. */
export function* graphsOfTurns(session: Session, threadId: string, turnIds: readonly string[]): Program<GraphRow[]> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return [];
  const turns = new Map<number, string[]>();
  const ofTurns = [...new Set(turnIds)].map((id) => session.rows<[string, number, number]>(OF_TURN, id, key.thread));
  const found = yield* session.sideBySide(ofTurns);
  for (const [id, , graph] of found.flat().sort(([, left], [, right]) => left - right)) push(turns, graph, id);
  return yield* mapped(turns, function* ([seq, ids]) {
    const row = yield* session.get<{ digest: string; document: string }>(DOCUMENT, key.thread, seq);
    // A graph is written before the turns that refer to it, and deleted after them.
    if (row === undefined)
      throw corrupted(`graph ${seq} of thread ${threadId}`, "what its turns ran in", "none", { threadId, seq });
    return { ...row, turnIds: ids };
  });
}

export function* deleteUnusedGraphs(session: Session, key: ThreadState): Program<void> {
  yield* session.run(DELETE_UNUSED, key.thread, key.threadId);
}
