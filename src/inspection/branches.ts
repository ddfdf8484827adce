import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import type { TurnRow } from "../store/store";
import type { Task } from "../turns/turns";
import { type CheckpointLine, lineOf } from "./checkpoint-line";
import { headsOf, headWithId, numberOf, paged } from "./place";

/** A checkpoint of the outermost graph, with the one that it was made from. */
export interface BranchPoint extends Omit<CheckpointLine, "inside"> {
  /** Null for the first one; another thread's checkpoint if the thread is a copy. */
  parentId: string | null;
  /** Whether its parent isn't kept on this thread: it was pruned, or is another thread's. */
  parentGone: boolean;
  taskId: string | null;
  /** The nodes whose step it ends, as far as their turns are kept. An update has none: nodes that ran from its parent led elsewhere. */
  nodes: readonly string[];
  /** The names it was given. */
  names: readonly string[];
}

/** A rewind, at its place among the checkpoints. */
export interface BranchRewind {
  number: number;
  id: string;
  toTask: string;
  at: string;
  takenBack: boolean;
}

export interface Branches {
  threadId: string;
  /** Newest first. Several with one parent are branches. */
  checkpoints: readonly BranchPoint[];
  /** Newest first. */
  rewinds: readonly BranchRewind[];
  /** Null on the last page. */
  cursor: number | null;
}

const PAGE = 500;

/**
 * How a thread's checkpoints follow from each other: its forks and its rewinds.
 *
 * @param options.before only checkpoints with a smaller number, as the `cursor` of the page before
 */
export async function branchesOf(
  saver: BaseTurnSaver,
  threadId: string,
  { limit = 50, before = Infinity }: { limit?: number | undefined; before?: number | undefined } = {},
): Promise<Branches> {
  const { store } = internalsOf(saver);
  const tasks = await saver.turns.tasks(threadId);
  const names = (await store.listNames(threadId)).filter(({ ns }) => ns === "");
  const checkpoints: (BranchPoint & { nodes: string[] })[] = [];
  let hasMore = false;
  for await (const head of headsOf(saver, threadId, "")) {
    const { inside: _, ...line } = lineOf(head);
    if (line.number >= before) continue;
    hasMore = checkpoints.length === limit;
    if (hasMore) break;
    checkpoints.push({
      ...line,
      parentId: head.parentId ?? null,
      parentGone: false,
      taskId: taskAt(tasks, head.position)?.taskId ?? null,
      nodes: [],
      names: names.filter(({ checkpointId }) => checkpointId === head.checkpointId).map(({ name }) => name),
    });
  }
  const ids = new Set(checkpoints.map(({ checkpointId }) => checkpointId));
  for (const point of checkpoints)
    if (point.parentId !== null && !ids.has(point.parentId))
      point.parentGone = (await headWithId(saver, threadId, point.parentId, "")) === undefined;
  const oldest = checkpoints.at(-1)?.number ?? 0;
  const isShown = (number: number): boolean => number < before && (!hasMore || number > oldest);
  const rewinds = (await saver.rewinds.list(threadId))
    .map(({ id, seq, toTask, createdAt, takenBackAt }) => {
      return { number: numberOf(seq), id, toTask, at: createdAt.toISOString(), takenBack: takenBackAt !== undefined };
    })
    .filter(({ number }) => isShown(number))
    .reverse();
  await addNodes(saver, threadId, checkpoints);
  return { threadId, checkpoints, rewinds, cursor: hasMore ? oldest : null };
}

/** A task may continue after another one, so the one that began last counts. */
function taskAt(tasks: readonly Task[], position: number): Task | undefined {
  const around = tasks.filter(({ firstSeq, endSeq = Infinity }) => firstSeq <= position && position <= endSeq);
  return around.sort((left, right) => right.firstSeq - left.firstSeq)[0];
}

/** A node's Action names the checkpoint that it started from. The next checkpoint from there has its output. */
async function addNodes(
  saver: BaseTurnSaver,
  threadId: string,
  checkpoints: readonly (BranchPoint & { nodes: string[] })[],
): Promise<void> {
  const { store } = internalsOf(saver);
  const childrenOf = new Map<string, (BranchPoint & { nodes: string[] })[]>();
  for (const point of [...checkpoints].reverse()) {
    const known = childrenOf.get(point.parentId ?? "");
    if (known === undefined) childrenOf.set(point.parentId ?? "", [point]);
    else known.push(point);
  }
  const turns = paged(
    (last: TurnRow | undefined) =>
      store.inspect.turnsBefore({ threadId, beforeSeq: last?.seq ?? Number.MAX_SAFE_INTEGER, limit: PAGE }),
    PAGE,
  );
  const oldest = checkpoints.at(-1)?.number ?? 0;
  for await (const { turnType, ns, checkpointId = "", nodeName, seq = 0 } of turns) {
    const number = numberOf(seq);
    if (number < oldest) return;
    if (turnType !== "Action" || ns !== "") continue;
    const child = childrenOf.get(checkpointId)?.find((point) => point.number > number && point.source === "loop");
    if (child !== undefined && !child.nodes.includes(nodeName)) child.nodes.unshift(nodeName);
  }
}
