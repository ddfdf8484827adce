import type { BaseTurnSaver } from "../base-saver";
import { describe, TurnsError } from "../errors";
import { internalsOf } from "../internals";
import type { ThreadActivity } from "../store/inspection";
import { isAlive } from "../turns/process-identity";
import {
  effectsInDoubt,
  hasFailedUndo,
  type Everywhere,
  everywhere,
  type OpenQuestion,
  type EffectInDoubt,
  type Standing,
  standingOf,
  type ThreadState,
} from "./standing";
import { type Moving, movingIn } from "./moving";
import { paged } from "./place";

/** A thread in a list. */
export interface ThreadLine {
  threadId: string;
  state: ThreadState;
  createdAt: string;
  /** When something was last saved on it. */
  lastAt: string;
  checkpoints: number;
  turns: number;
  effects: number;
  /** Nodes that had started and haven't finished. */
  inFlight: readonly string[];
  /** Nodes that failed. */
  failed: readonly string[];
  /** How many questions wait for an answer. */
  waiting: number;
  /** How many effects somebody may have to settle. */
  inDoubt: number;
  /** The unfinished move to another database; null if there is none. */
  moving: Moving | null;
}

export type ThreadSort = "activity" | "created" | "turns" | "id";

interface ThreadsRequest {
  /** Only threads in one of these states. */
  states?: readonly ThreadState[];
  /** Only threads on which something was saved since then. */
  since?: Date | undefined;
  /** Only threads on which nothing was saved since then. */
  idleSince?: Date | undefined;
  /** Only ids that contain this text; upper and lower case count as equal. */
  search?: string | undefined;
  /** Default: the one that was saved to last comes first. */
  sort?: ThreadSort;
  limit?: number;
  /** The `cursor` of the previous page. */
  cursor?: string | undefined;
  /** Those that need somebody come before all others. */
  needyFirst?: boolean;
  /** {@link ThreadList.total} counts only what the filters leave, so all of that is looked into. */
  countsMatches?: boolean;
}

export interface ThreadList {
  threads: ThreadLine[];
  /** How many threads there are, before any filter; with `countsMatches` behind them. */
  total: number;
  /** Null on the last page. */
  cursor: string | null;
}

const PAGE = 500;

/** What orders threads, in descending order; ids ascend. */
const ORDER: Readonly<Record<ThreadSort, (thread: ThreadActivity) => string | number>> = {
  activity: ({ lastAt }) => lastAt,
  created: ({ createdAt }) => createdAt,
  turns: ({ turns }) => turns,
  id: () => "",
};

/**
 * A page of the threads, with how each stands.
 *
 * @throws {TurnsError} THREAD_NOT_FOUND for the cursor of a thread that was deleted meanwhile, or that the filters leave out now
 */
export async function listThreads(saver: BaseTurnSaver, request: ThreadsRequest = {}): Promise<ThreadList> {
  const { states, since, idleSince, search, sort = "activity", limit = 50, cursor } = request;
  const { needyFirst = false, countsMatches = false } = request;
  const all = await activityOf(saver);
  const wanted = all.filter(({ threadId, lastAt }) => {
    const at = Date.parse(lastAt);
    if (since !== undefined && at < since.getTime()) return false;
    if (idleSince !== undefined && at >= idleSince.getTime()) return false;
    return search === undefined || threadId.toLowerCase().includes(search.toLowerCase());
  });
  const known = await everywhere(saver);
  const byOrder = inOrder(wanted, sort);
  const needy = needyFirst ? await needyOf(saver, byOrder, known, Math.max(limit, MOST_NEEDY)) : new Map<string, Standing>();
  const placeOf = (thread: ThreadActivity): Place => [needy.has(thread.threadId), ORDER[sort](thread), thread.threadId];
  const last = byOrder.find(({ threadId }) => threadId === cursor);
  if (cursor !== undefined && !needyFirst && last === undefined) throw noCursor(cursor);
  // A thread that was answered meanwhile is no longer among those that need somebody. So their pages tell the place, not the thread.
  const behind = cursor !== undefined && needyFirst ? placeIn(cursor) : last && placeOf(last);
  const sorted = [true, false].flatMap((first) => byOrder.filter(({ threadId }) => needy.has(threadId) === first));
  const countsAll = countsMatches && states !== undefined;
  const toShow = countsAll ? sorted : sorted.filter((thread) => behind === undefined || comesBefore(behind, placeOf(thread)));
  const cursorOf = (thread: ThreadActivity): string => (needyFirst ? JSON.stringify(placeOf(thread)) : thread.threadId);
  const threads: ThreadLine[] = [];
  let shown: ThreadActivity | undefined;
  let next: string | null = null;
  let matches = states === undefined ? sorted.length : 0;
  for await (const [thread, standing] of lookedInto(saver, toShow, known, needy)) {
    const { state, inFlight, failures, questions, inDoubt } = standing;
    const isShown = next === null && (behind === undefined || comesBefore(behind, placeOf(thread)));
    if (!isShown && !countsAll) break;
    if (states !== undefined && !states.includes(state)) continue;
    if (states !== undefined) matches += 1;
    if (!isShown) continue;
    if (threads.length === limit) {
      next = shown === undefined ? null : cursorOf(shown);
      continue;
    }
    shown = thread;
    const { threadId, createdAt, lastAt, checkpoints, turns, effects } = thread;
    const nodes = { inFlight: inFlight.map(({ node }) => node), failed: failures.map(({ node }) => node) };
    const counts = { checkpoints, turns, effects, waiting: questions.length, inDoubt: inDoubt.length };
    threads.push({ threadId, state, createdAt, lastAt, ...nodes, ...counts, moving: movingIn(saver, thread) });
  }
  return { threads, total: countsMatches ? matches : all.length, cursor: next };
}

/** How many threads are looked into at once. On a server a look takes several round trips. */
const AT_ONCE = 4;

/**
 * How threads stand, in their order. A few that come next may be looked into although nobody asks for them.
 *
 * @param looked those that were looked into already
 */
async function* lookedInto<T extends { threadId: string }>(
  saver: BaseTurnSaver,
  threads: readonly T[],
  known: Everywhere,
  looked: ReadonlyMap<string, Standing> = new Map(),
): AsyncGenerator<readonly [T, Standing]> {
  const begun: Promise<Standing>[] = [];
  const begin = async ({ threadId }: T): Promise<Standing> => looked.get(threadId) ?? standingOf(saver, threadId, known);
  for (const [index, thread] of threads.entries()) {
    for (const next of threads.slice(index + begun.length, index + AT_ONCE)) {
      const look = begin(next);
      // Its turn tells.
      look.catch(() => undefined);
      begun.push(look);
    }
    yield [thread, await (begun.shift() as Promise<Standing>)];
  }
}

const NEEDY: readonly ThreadState[] = ["rewinding", "in-doubt", "waiting", "failed", "interrupted", "unfinished"];

/** Whether a thread has something that somebody has to decide or to continue. */
export const isNeedy = ({ state, moving }: Pick<ThreadLine, "state" | "moving">): boolean =>
  NEEDY.includes(state) || moving !== null;

/** The threads that need somebody, as far as marks tell: questions and errors, effects in doubt, runs that stopped, rewinds and moves. */
async function needyOf(
  saver: BaseTurnSaver,
  threads: readonly ThreadActivity[],
  known: Everywhere,
  limit: number,
): Promise<Map<string, Standing>> {
  const { inspect } = internalsOf(saver).store;
  const marked = new Set(known.doubts.keys());
  const special = paged((last: string | undefined) => inspect.threadsWithSpecialWrites({ after: last ?? "", limit: PAGE }), PAGE);
  for await (const threadId of special) marked.add(threadId);
  for (const { threadId } of [...(await inspect.runs()), ...(await inspect.unfinishedRewinds())]) marked.add(threadId);
  const needy = new Map<string, Standing>();
  const candidates = threads.filter(({ threadId, movedTo }) => marked.has(threadId) || movedTo !== undefined).slice(0, limit);
  for await (const [thread, standing] of lookedInto(saver, candidates, known)) {
    if (isNeedy({ state: standing.state, moving: movingIn(saver, thread) })) needy.set(thread.threadId, standing);
  }
  return needy;
}

/** So many threads with a mark are looked into, and as many as a page has. */
const MOST_NEEDY = 200;

function noCursor(cursor: string): TurnsError {
  return new TurnsError("THREAD_NOT_FOUND", {
    problem: `The list has no place ${describe(cursor)} any more.`,
    remedy: "Start again without a cursor.",
    data: { threadId: cursor },
  });
}

async function activityOf(saver: BaseTurnSaver): Promise<ThreadActivity[]> {
  const { store } = internalsOf(saver);
  const threads: ThreadActivity[] = [];
  const pages = paged((last: ThreadActivity | undefined) => store.inspect.activity({ after: last?.threadId, limit: PAGE }), PAGE);
  for await (const thread of pages) threads.push(thread);
  return threads;
}

function inOrder(threads: readonly ThreadActivity[], sort: ThreadSort): ThreadActivity[] {
  const by = ORDER[sort];
  return threads.toSorted((left, right) =>
    comesBefore([true, by(left), left.threadId], [true, by(right), right.threadId]) ? -1 : 1,
  );
}

/** What a thread's place in a list depends on: whether it needs somebody, what {@link ORDER} says of it, and its id. */
type Place = readonly [isNeedy: boolean, order: string | number, threadId: string];

function comesBefore(left: Place, right: Place): boolean {
  if (left[0] !== right[0]) return left[0];
  return left[1] === right[1] ? left[2] < right[2] : left[1] > right[1];
}

function placeIn(cursor: string): Place {
  try {
    const place: unknown = JSON.parse(cursor);
    if (Array.isArray(place) && place.length === 3) return place as unknown as Place;
  } catch {
    // It's none of this list.
  }
  throw noCursor(cursor);
}

export interface Overview {
  /** The file, or where the database is. */
  database: string;
  bytes: number;
  freeBytes: number;
  threads: number;
  turns: number;
  effects: number;
  /** How many of the threads that were looked into stand how. */
  states: Partial<Record<ThreadState, number>>;
  /** How many threads {@link states} counts: those that need somebody, and then those that were saved to last. */
  examined: number;
  /** Threads that a live process runs. */
  running: readonly string[];
  inDoubt: number;
  unfinishedRewinds: number;
  /** Some threads: those that need somebody, and then those that were saved to last. */
  newest: readonly ThreadLine[];
}

/** How many threads an overview looks into, and how many it shows. */
const EXAMINED = 1_000;
const SHOWN = 5;

export async function overview(saver: BaseTurnSaver): Promise<Overview> {
  const { store } = internalsOf(saver);
  const { bytes, freePages, pageBytes } = await store.space();
  const all = await activityOf(saver);
  const { threads } = await listThreads(saver, { limit: EXAMINED, needyFirst: true });
  const states: Partial<Record<ThreadState, number>> = {};
  for (const { state } of threads) states[state] = (states[state] ?? 0) + 1;
  const alive = (await store.inspect.runs()).filter((run) => isAlive(run));
  return {
    ...{ database: store.name, bytes, freeBytes: freePages * pageBytes, threads: all.length, states, examined: threads.length },
    turns: all.reduce((sum, { turns }) => sum + turns, 0),
    effects: all.reduce((sum, { effects }) => sum + effects, 0),
    running: [...new Set(alive.map(({ threadId }) => threadId))],
    inDoubt: (await effectsInDoubt(saver)).filter((effect) => !hasFailedUndo(effect)).length,
    unfinishedRewinds: (await store.inspect.unfinishedRewinds()).length,
    newest: threads.slice(0, SHOWN),
  };
}

/** The questions that wait for an answer, over all threads, oldest first. */
export async function inbox(saver: BaseTurnSaver): Promise<OpenQuestion[]> {
  const { store } = internalsOf(saver);
  const questions: OpenQuestion[] = [];
  const known = { doubts: new Map<string, readonly EffectInDoubt[]>() };
  const threads = paged(
    (last: string | undefined) => store.inspect.threadsWithSpecialWrites({ after: last ?? "", limit: PAGE }),
    PAGE,
  );
  const ids = [];
  for await (const threadId of threads) ids.push({ threadId });
  for await (const [, { state, questions: asked }] of lookedInto(saver, ids, known)) {
    if (state === "waiting" || state === "failed" || state === "interrupted") questions.push(...asked);
  }
  return questions.sort((left, right) => ((left.askedAt ?? "") < (right.askedAt ?? "") ? -1 : 1));
}
