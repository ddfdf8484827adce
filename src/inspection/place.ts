import { describe, TurnsError } from "../errors";
import { internalsOf } from "../internals";
import type { BaseTurnSaver } from "../base-saver";
import { SPAN } from "../store/spans";
import type { CheckpointHead, ListedHead, TurnRow } from "../store/store";
import { nearestName } from "../unknown-option";
import { othersFirst } from "../timers";
import { turns } from "./words";

/** A place in a thread's order for people: 1, 2, 3, … The seq is the same with the thread in front. */
export function numberOf(seq: number): number {
  return seq % SPAN;
}

/** The seq of a number of the thread that has this seq. A number that no thread can have gives a seq behind all of the thread's. */
export function seqOf(number: number, sameThread: number): number {
  return sameThread - (sameThread % SPAN) + Math.min(number, SPAN);
}

const PAGE = 500;

/** All items of a list that is read in pages. The event loop runs in between. */
export async function* paged<T>(
  read: (after: T | undefined) => PromiseLike<readonly T[]> | readonly T[],
  page: number,
): AsyncGenerator<T> {
  for (let last: T | undefined; ;) {
    const items = await read(last);
    yield* items;
    last = items.at(-1);
    if (items.length < page) return;
    await othersFirst();
  }
}

/**
 * The id of the only thread that a text names: the id itself, or how it begins.
 *
 * @throws {TurnsError} THREAD_NOT_FOUND with the nearest id; INVALID_CONFIG if several begin so
 */
export async function threadNamed(saver: BaseTurnSaver, text: string): Promise<string> {
  const { store } = internalsOf(saver);
  if ((await store.getThread(text)) !== undefined) return text;
  const ids: string[] = [];
  const threads = paged(
    (last: { threadId: string } | undefined) => store.inspect.activity({ after: last?.threadId, limit: PAGE }),
    PAGE,
  );
  for await (const { threadId } of threads) ids.push(threadId);
  const [found, ...others] = text === "" ? [] : ids.filter((id) => id.startsWith(text));
  if (found !== undefined && others.length === 0) return found;
  if (found !== undefined) throw ambiguous("thread", text, [found, ...others], "threadId");
  const nearest = nearestName(text, ids);
  throw new TurnsError("THREAD_NOT_FOUND", {
    problem: `There is no thread ${describe(text)} in ${store.name}.`,
    remedy:
      nearest === undefined ? `It has ${ids.length} threads; turns threads lists them.` : `Did you mean ${describe(nearest)}?`,
    data: { threadId: text, nearest },
  });
}

const NAMED = 5;

function ambiguous(what: string, text: string, found: readonly string[], key: string): TurnsError {
  const named = found.slice(0, NAMED).map((id) => describe(id));
  return new TurnsError("INVALID_CONFIG", {
    problem: `${describe(text)} is the beginning of ${found.length} ${what}s: ${named.join(", ")}${found.length > NAMED ? ", …" : ""}.`,
    remedy: "Give more characters.",
    data: { key, found: found.slice(0, NAMED) },
  });
}

/** The newest turn of a thread; with a seq, the newest before it. */
export async function turnBefore(saver: BaseTurnSaver, threadId: string, seq?: number): Promise<TurnRow | undefined> {
  const beforeSeq = seq ?? Number.MAX_SAFE_INTEGER;
  return (await internalsOf(saver).store.inspect.turnsBefore({ threadId, beforeSeq, limit: 1 }))[0];
}

const NUMBER = /^#?\d+$/;

/**
 * The turn that a text names: its number on the thread, or the beginning of its id.
 *
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND; INVALID_CONFIG if several ids begin so
 */
export async function turnNamed(saver: BaseTurnSaver, threadId: string, text: string): Promise<TurnRow> {
  const { store } = internalsOf(saver);
  const newest = await turnBefore(saver, threadId);
  let before: TurnRow | undefined;
  if (newest?.seq !== undefined && NUMBER.test(text)) {
    const seq = seqOf(Number(text.replace("#", "")), newest.seq);
    before = await turnBefore(saver, threadId, seq + 1);
    if (before?.seq === seq) return before;
  } else if (newest !== undefined) {
    const found: TurnRow[] = [];
    const turns = paged(
      (last: TurnRow | undefined) => store.listTurns({ threadId, afterSeq: last?.seq ?? 0, limit: PAGE }),
      PAGE,
    );
    for await (const turn of turns) if (turn.id.startsWith(text)) found.push(turn);
    if (found.length > 1)
      throw ambiguous(
        "turn",
        text,
        found.map(({ id }) => id),
        "turn",
      );
    if (found[0] !== undefined) return found[0];
  }
  throw new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${describe(threadId)} has no turn ${describe(text)}.`,
    remedy:
      (before?.seq === undefined ? "" : `The turn before it is #${numberOf(before.seq)}. `) +
      `${turns("log", [threadId])} lists its turns, with their numbers.`,
    data: { threadId, turn: text },
  });
}

/**
 * The checkpoints of a graph, newest first, a page at a time.
 *
 * @param ns the graph's namespace; undefined: those of all graphs
 * @param before the place of a checkpoint: only earlier ones
 */
export function headsOf(
  saver: BaseTurnSaver,
  threadId: string,
  ns: string | undefined,
  before?: number,
): AsyncGenerator<ListedHead> {
  const { store } = internalsOf(saver);
  const query = { threadId, ns, checkpointId: undefined, beforeId: undefined, isOfRun: false, limit: HEADS };
  return paged((last: ListedHead | undefined) => store.listCheckpoints({ ...query, after: last?.place ?? before }), HEADS);
}

const HEADS = 64;

/**
 * The checkpoint that a text names. A checkpoint's id or its beginning, or a name that was given to it. A task: how the thread was
 * when the task finished, unless it is named after a checkpoint that nodes started from. A turn: what a Thought started from, or the first checkpoint that has an Action's output. A number that
 * no turn has: the checkpoint with it. Without a text, the newest.
 *
 * @param graphs `all`: also checkpoints of nested graphs, and for a turn those of its own graph
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND
 */
export async function checkpointNamed(
  saver: BaseTurnSaver,
  threadId: string,
  text: string | undefined,
  graphs: "outermost" | "all" = "outermost",
): Promise<CheckpointHead> {
  const { store } = internalsOf(saver);
  const ns = graphs === "all" ? undefined : "";
  if (text === undefined || text === "head") {
    const newest = await headUpTo(saver, threadId, undefined, "");
    if (newest !== undefined) return newest;
    throw noCheckpoint(threadId, "no checkpoint yet");
  }
  const task = (await saver.turns.tasks(threadId)).find(({ taskId }) => taskId === text);
  // A task without an id of its own has that of its first checkpoint. No node starts from an input, but nodes start from a fork.
  const start = task && (await headWithId(saver, threadId, text, ""));
  if (start !== undefined && start.source !== "input") return start;
  if (task !== undefined) {
    const found = await headUpTo(saver, threadId, task.endSeq, "");
    if (found !== undefined) return found;
    throw noCheckpoint(threadId, `no checkpoint of task ${describe(text)} any more`);
  }
  const named = (await store.listNames(threadId)).find(({ name, ns }) => name === text && ns === "");
  const byId = await headWithId(saver, threadId, named?.checkpointId ?? text, ns);
  if (byId !== undefined) return byId;
  if (text.length >= SHORTEST)
    for await (const head of headsOf(saver, threadId, ns)) if (head.checkpointId.startsWith(text)) return head;
  if (NUMBER.test(text)) {
    const newest = await headUpTo(saver, threadId, undefined, "");
    const seq = newest && seqOf(Number(text.replace("#", "")), newest.position);
    for (const of of ns === "" ? [""] : ["", undefined]) {
      const numbered = await headUpTo(saver, threadId, seq, of);
      if (numbered?.position === seq && numbered !== undefined) return numbered;
    }
  }
  const turn = await turnNamed(saver, threadId, text);
  const found = await checkpointOfTurn(saver, turn, graphs);
  if (found !== undefined) return found;
  throw noCheckpoint(threadId, `no checkpoint that turn ${describe(text)} belongs to any more`);
}

/** Shorter texts of digits are numbers of turns. */
const SHORTEST = 8;

const ONE = { beforeId: undefined, isOfRun: false, limit: 1 } as const;

/**
 * The newest checkpoint that was saved up to a seq; of all, if that is undefined.
 *
 * @param ns the graph's namespace; undefined: any
 */
export async function headUpTo(
  saver: BaseTurnSaver,
  threadId: string,
  seq: number | undefined,
  ns: string | undefined,
): Promise<CheckpointHead | undefined> {
  const after = seq === undefined ? undefined : seq + 1;
  const { store } = internalsOf(saver);
  const [head] = await store.listCheckpoints({ ...ONE, threadId, ns, checkpointId: undefined, after });
  return head;
}

/** The checkpoint with exactly this id. @param ns the graph's namespace; undefined: any, the outermost first */
export async function headWithId(
  saver: BaseTurnSaver,
  threadId: string,
  checkpointId: string,
  ns: string | undefined,
): Promise<ListedHead | undefined> {
  const { store } = internalsOf(saver);
  const [head] = await store.listCheckpoints({ ...ONE, threadId, ns: ns ?? "", checkpointId, after: undefined });
  if (head !== undefined || ns !== undefined) return head;
  const place = await store.placeOf(threadId, undefined, checkpointId);
  return place && headWithId(saver, threadId, checkpointId, place.ns);
}

/**
 * A Thought's is what the node started from; an Action's is the next one of the graph. A checkpoint that is gone is replaced by the
 * nearest one. A nested graph may have saved none ("exit"): then it's that of the outermost graph.
 */
export async function checkpointOfTurn(
  saver: BaseTurnSaver,
  turn: TurnRow,
  graphs: "outermost" | "all",
): Promise<CheckpointHead | undefined> {
  const { threadId = "", seq = 0, checkpointId, turnType } = turn;
  const own = graphs === "all" ? (turn.ns ?? "") : "";
  for (const ns of own === "" ? [""] : [own, ""]) {
    const found =
      turnType === "Action"
        ? ((await internalsOf(saver).store.inspect.checkpointBehind({ threadId, ns, seq })) ??
          (await headUpTo(saver, threadId, undefined, ns)))
        : ((checkpointId === undefined ? undefined : await headWithId(saver, threadId, checkpointId, ns)) ??
          (await headUpTo(saver, threadId, seq, ns)));
    if (found !== undefined) return found;
  }
  return undefined;
}

function noCheckpoint(threadId: string, what: string): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${describe(threadId)} has ${what}.`,
    remedy: `${turns("log", [threadId])} lists its turns. Give a turn's number, a task, or a checkpoint's id.`,
    data: { threadId },
  });
}
