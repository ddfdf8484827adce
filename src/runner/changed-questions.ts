import { isDeepStrictEqual } from "node:util";
import { describe, TurnsError } from "../errors";
import { internalsOf } from "../internals";
import type { TurnSaver } from "../saver";
import type { PregelLike } from "../turns/attached-graph";
import { openQuestions } from "./answers";
import type { Assessment } from "./assess";
import { questionIds } from "./last-run";

/** The nodes that wait for an answer, by path, whose code has changed since they asked. */
export async function changedSinceAsked(saver: TurnSaver, graph: PregelLike, found: Assessment): Promise<string[]> {
  if (found.nodes.waiting.length === 0) return [];
  const { nodes } = await internalsOf(saver).documentOf(graph);
  const changed = found.nodes.waiting.filter(({ path, fingerprint }) => {
    const now = Object.hasOwn(nodes, path) ? nodes[path]?.fingerprint : undefined;
    return fingerprint !== undefined && now !== undefined && now !== fingerprint;
  });
  return [...new Set(changed.map(({ path }) => path))];
}

/**
 * LangGraph gives an answer to the question that comes at its place in the node's new code, which may be another one.
 *
 * @param before the thread when the answer was given
 * @param now the thread after its nodes have asked again
 * @throws {TurnsError} UNKNOWN_INTERRUPT if a question that is answered isn't asked any more
 */
export function refuseOtherQuestions(threadId: string, answer: { resume: unknown }, before: Assessment, now: Assessment): void {
  const ids = questionIds(answer);
  const asked = openQuestions(before).filter(({ id }) => ids === undefined || ids.includes(id ?? ""));
  const open = openQuestions(now);
  const isSame = asked.every(({ id, value }) => open.some((one) => one.id === id && isDeepStrictEqual(one.value, value)));
  // An answer without an id goes to all.
  if (isSame && (ids !== undefined || asked.length === open.length)) return;
  throw new TurnsError("UNKNOWN_INTERRUPT", {
    problem: `Thread ${describe(threadId)} asks something else since the code of its waiting nodes changed, so the answer isn't used.`,
    remedy: `Look what it asks now, and answer that: (await runner.status(${JSON.stringify(threadId)})).waiting.`,
    data: { threadId, waiting: open.map(({ id, node }) => ({ id, node })), unknown: asked.flatMap(({ id }) => id ?? []) },
  });
}
