import { ERROR, INTERRUPT, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import type { BaseTurnSaver } from "../base-saver";
import { toPublicEffect } from "../effects/types";
import { nodePathOf } from "../guards/graph-document";
import { internalsOf } from "../internals";
import { checkedUndos } from "../rewind/undos";
import { askersIn, droppedQuestions } from "../runner/answers";
import { answerTo, isAnswered, isAskedAgain } from "../runner/last-run";
import { isLost } from "../runner/run-nodes";
import { settledBy, type SettledBy } from "../runner/thread-status";
import { lostIn } from "../store/salvage";
import type { TurnRow } from "../store/store";
import { plannedTasks, withoutState } from "../turns/node-task";
import { numberOf, paged } from "./place";
import { plain } from "./plain";

/**
 * How a thread stands.
 * - `running`: a live process runs it
 * - `rewinding`: a rewind was begun and isn't finished
 * - `in-doubt`: nobody knows whether an effect happened
 * - `waiting`: a node asked a question that nobody has answered
 * - `failed`: a node of its last step failed
 * - `interrupted`: it stopped while nodes were running
 * - `unfinished`: it stopped between two steps
 * - `finished`: nothing is left to do
 * - `empty`: it has no checkpoint
 */
export type ThreadState =
  "running" | "rewinding" | "in-doubt" | "waiting" | "failed" | "interrupted" | "unfinished" | "finished" | "empty";

export const THREAD_STATES: readonly ThreadState[] = [
  ...(["running", "rewinding", "in-doubt", "waiting", "failed", "interrupted"] as const),
  ...(["unfinished", "finished", "empty"] as const),
];

/** A question that waits for an answer. */
export interface OpenQuestion {
  threadId: string;
  /** LangGraph's id of the question; null in threads of an older LangGraph. */
  id: string | null;
  /** What the node passed to `interrupt()`, as JSON. */
  value: unknown;
  /** The path of the innermost node that asks, if turns tell it. */
  node: string;
  nodeTaskId: string;
  /** When the node asked; null if its turn isn't known. */
  askedAt: string | null;
}

/** A node that had started and hasn't finished. */
export interface NodeInFlight {
  node: string;
  attempt: number;
  since: string;
  /** The turn's number on its thread. */
  number: number;
  taskId: string;
}

/** A node of the last step that failed. */
export interface NodeFailure {
  node: string;
  error: { name: string; message: string };
}

/** An effect with an unknown outcome, or whose undo failed or is in doubt. An undo that failed didn't happen: a rewind calls it again. */
export interface EffectInDoubt {
  id: string;
  threadId: string;
  name: string;
  node: string;
  key: string;
  tries: number;
  startedAt: string;
  /** Whether a retry with the same key is harmless. */
  idempotent: boolean;
  /** What is in doubt. */
  doubt: "outcome" | "undo" | "undo-failed";
  /** Who can settle it. `maybe-probe`: the process that looks hasn't loaded its definition. */
  settler: SettledBy;
}

/** Whether no resume can settle it. */
export const needsPerson = ({ doubt, settler }: EffectInDoubt): boolean => doubt === "undo" || settler === "person";

/** The outcome to settle it with, if it happened. */
export function outcomeOf({ doubt }: EffectInDoubt): "done" | "undo-done" {
  return doubt === "outcome" ? "done" : "undo-done";
}

/** Whether its undo failed. Then nothing is in doubt, and it stops no resume. */
export const hasFailedUndo = ({ doubt }: EffectInDoubt): boolean => doubt === "undo-failed";

export interface Standing {
  threadId: string;
  state: ThreadState;
  /** Whether nothing is left to do, also if a rewind isn't finished or an effect is in doubt. */
  finished: boolean;
  runs: readonly { pid: number; host: string; since: string }[];
  inFlight: readonly NodeInFlight[];
  questions: readonly OpenQuestion[];
  failures: readonly NodeFailure[];
  inDoubt: readonly EffectInDoubt[];
  /** Effects whose undo failed, and that no rewind has undone since. */
  undoFailed: readonly EffectInDoubt[];
  /** Nodes that come next. */
  next: readonly string[];
  /** Whether its last run was killed and nothing of it was saved, as with durability "exit". What is finished is an earlier run. */
  lost: boolean;
  /**
   * The unfinished rewind; null if there is none. Or what a salvage leaves in its place: then `rescued` says what is lost, and giving the
   * rewind up accepts that.
   */
  rewind: { id: string; toTask: string; since: string; rescued: string | null } | null;
}

/** What is known over all threads, read once for many {@link standingOf}. */
export interface Everywhere {
  doubts: ReadonlyMap<string, readonly EffectInDoubt[]>;
}

const PAGE = 500;
/** The earlier attempts of a node that waits are near. */
const FEW = 64;

/** All effects that somebody may have to settle, over all threads. */
export async function effectsInDoubt(saver: BaseTurnSaver): Promise<EffectInDoubt[]> {
  const { store } = internalsOf(saver);
  const found: EffectInDoubt[] = [];
  const known = checkedUndos(undefined);
  const rows = paged(
    (last: { seq: number } | undefined) => store.inspect.openEffects({ afterSeq: last?.seq ?? 0, limit: PAGE }),
    PAGE,
  );
  for await (const row of rows) {
    const effect = toPublicEffect(row);
    const { id, threadId, name, key, tries, idempotent, startedAt, undoStatus } = effect;
    const outcome = effect.status === "in-doubt" ? "outcome" : undefined;
    const doubt = undoStatus === "begun" ? "undo" : (outcome ?? (undoStatus === "failed" ? "undo-failed" : undefined));
    if (doubt === undefined) continue;
    found.push({
      id,
      threadId,
      name,
      node: nodePathOf(effect.nodeNs),
      key,
      tries,
      startedAt: startedAt.toISOString(),
      idempotent,
      doubt,
      settler: settledBy(effect, known),
    });
  }
  return found;
}

export async function everywhere(saver: BaseTurnSaver): Promise<Everywhere> {
  const doubts = new Map<string, EffectInDoubt[]>();
  for (const effect of await effectsInDoubt(saver)) {
    const known = doubts.get(effect.threadId);
    if (known === undefined) doubts.set(effect.threadId, [effect]);
    else known.push(effect);
  }
  return { doubts };
}

/** How a thread stands, without its graph. */
export async function standingOf(saver: BaseTurnSaver, threadId: string, all: Everywhere): Promise<Standing> {
  // First: a run that ends meanwhile leaves what the others read.
  const runs = await saver.turns.liveRuns(threadId);
  const [unfinished, head, open] = await Promise.all([
    saver.rewinds.unfinished(threadId),
    headOf(saver, threadId),
    saver.turns.inFlight(threadId),
  ]);
  const inFlight = open.map(({ nodeNs, attempt, createdAt, seq, taskId }) => {
    return { node: nodePathOf(nodeNs), attempt, since: createdAt.toISOString(), number: numberOf(seq), taskId };
  });
  const unsettled = all.doubts.get(threadId) ?? [];
  const inDoubt = unsettled.filter((effect) => !hasFailedUndo(effect));
  const { questions, failures, next, isUnfinished } = head;
  const state = (): ThreadState => {
    if (runs.length > 0) return "running";
    if (unfinished !== undefined) return "rewinding";
    if (inDoubt.length > 0) return "in-doubt";
    if (questions.length > 0) return "waiting";
    if (failures.length > 0) return "failed";
    if (inFlight.length > 0) return "interrupted";
    if (isUnfinished === undefined) return "empty";
    return isUnfinished ? "unfinished" : "finished";
  };
  const lost = runs.length === 0 && isUnfinished !== true && isLost(open);
  return {
    ...{ threadId, state: state(), inFlight, questions, failures, inDoubt, next, lost },
    finished: runs.length === 0 && isUnfinished === false && !lost,
    undoFailed: unsettled.filter(hasFailedUndo),
    runs: runs.map(({ pid, host, startedAt }) => ({ pid, host, since: startedAt.toISOString() })),
    rewind:
      unfinished === undefined
        ? null
        : {
            ...{ id: unfinished.id, toTask: unfinished.toTask, since: unfinished.createdAt.toISOString() },
            rescued: lostIn(unfinished.reason) ?? null,
          },
  };
}

interface HeadState extends Pick<Standing, "questions" | "failures" | "next"> {
  /** Undefined if there is no checkpoint. */
  isUnfinished: boolean | undefined;
}

/** Reads only the channels that tell what comes next, not the state. */
async function headOf(saver: BaseTurnSaver, threadId: string): Promise<HeadState> {
  const internals = internalsOf(saver);
  const { store } = internals;
  const query = { checkpointId: undefined, beforeId: undefined, isOfRun: false, after: undefined, limit: 1 };
  const [head] = await store.listCheckpoints({ threadId, ns: "", ...query });
  // What nodes wrote to the state may be large. Who wrote is enough.
  const tuple = head && (await internals.readHead(withoutState(head), "special"));
  if (tuple === undefined) return { questions: [], failures: [], next: [], isUnfinished: undefined };
  const { checkpoint, metadata, pendingWrites = [] } = tuple;
  const planned = metadata === undefined ? [] : plannedTasks("", checkpoint, metadata);
  const results = (await store.inspect.writers(threadId, "", checkpoint.id)).filter(({ channels }) =>
    channels.some((channel) => !Object.hasOwn(WRITES_IDX_MAP, channel)),
  );
  const done = new Set(results.map(({ nodeTaskId }) => nodeTaskId));
  const special = pendingWrites.filter(([taskId, channel]) => (channel === INTERRUPT || channel === ERROR) && !done.has(taskId));
  const run = special.some(([, channel]) => channel === INTERRUPT) ? await store.lastRun(threadId) : undefined;
  const history = run === undefined ? [] : await internals.asked(threadId, run.sinceSeq);
  const askers = askersIn(history);
  const dropped = await droppedQuestions(saver, threadId, history);
  const ids = [...special.map(([taskId]) => taskId), ...Array.from(askers.values(), ({ nodeTaskId }) => nodeTaskId)];
  const turns = await store.inspect.turnsOfNodeTasks(threadId, [...new Set(ids)]);
  const turnOf = new Map(turns.map((turn) => [turn.nodeTaskId ?? "", turn]));
  const depthOf = ({ nodeTaskId }: OpenQuestion): number => turnOf.get(nodeTaskId)?.nodeNs?.length ?? 0;
  const nameOf = (taskId: string): string =>
    turnOf.get(taskId)?.nodeName ?? planned.find(({ nodeTaskId }) => nodeTaskId === taskId)?.name ?? "";
  const failed = special.filter(([taskId, channel]) => channel === ERROR && hasFailed(turnOf.get(taskId)));
  const hasEnded = new Set(failed.map(([taskId]) => taskId));
  const askedAt = new Map<string, string | null>();
  for (const [nodeTaskId, channel, value] of special) {
    const newest = turnOf.get(nodeTaskId);
    if (channel !== INTERRUPT || newest === undefined) continue;
    for (const id of idsOf(value)) {
      // A question may have the id of the one before it.
      const answered = (run && answerTo(run, id)) ?? 0;
      const first = askersIn(history.filter(({ seq }) => seq > answered)).get(id);
      askedAt.set(`${nodeTaskId} ${id}`, await timeAsked(saver, newest, first?.seq));
    }
  }
  const asked = special
    .filter(([, channel]) => channel === INTERRUPT)
    .flatMap(([nodeTaskId, , value]) =>
      [value].flat(2).map((asked): OpenQuestion => {
        const { id, value: question } = (asked ?? {}) as { id?: unknown; value?: unknown };
        const asker = typeof id === "string" ? turnOf.get(askers.get(id)?.nodeTaskId ?? "") : undefined;
        return {
          threadId,
          id: typeof id === "string" ? id : null,
          value: plain(question),
          node: asker === undefined ? nameOf(nodeTaskId) : nodePathOf(asker.nodeNs ?? ""),
          nodeTaskId,
          askedAt: askedAt.get(`${nodeTaskId} ${String(id)}`) ?? turnOf.get(nodeTaskId)?.createdAt ?? null,
        };
      }),
    )
    .filter((question) => {
      if (dropped.has(question.id ?? "")) return false;
      const hasFailed = hasEnded.has(question.nodeTaskId);
      return run === undefined ? !hasFailed : !isAnswered(run, question) && (!hasFailed || isAskedAgain(run, question));
    });
  const waiting = new Set(asked.map(({ nodeTaskId }) => nodeTaskId));
  // What a task of a functional graph asks, the graph asks too. The innermost is who asks.
  const innermost = asked.toSorted((left, right) => depthOf(right) - depthOf(left));
  const questions = asked.filter((one) => one.id === null || innermost.find(({ id }) => id === one.id) === one);
  const failures = failed
    .filter(([taskId]) => !waiting.has(taskId))
    .map(([taskId, , error]): NodeFailure => ({ node: nameOf(taskId), error: errorOf(error) }));
  const next = [...new Set(planned.filter(({ nodeTaskId }) => !done.has(nodeTaskId)).map(({ name }) => name))];
  const isUnfinished = metadata?.source === "input" || planned.length > 0 || results.length > 0;
  return { questions, failures, next, isUnfinished };
}

const idsOf = (asked: unknown): string[] => [asked].flat(2).flatMap((one) => (one as { id?: string } | null)?.id ?? []);

/**
 * When a node task asked a question first. While questions beside it are answered, it runs and asks again.
 *
 * @param newest its newest turn
 * @param first the seq of what it saved first with the question; undefined if that isn't known
 */
async function timeAsked(saver: BaseTurnSaver, newest: TurnRow, first = Infinity): Promise<string> {
  const { threadId = "", nodeTaskId, seq = 0, attempt = 1 } = newest;
  let askedAt = newest.createdAt;
  if (attempt === 1 || first > seq) return askedAt;
  const { store } = internalsOf(saver);
  const rows = paged(
    (last: TurnRow | undefined) => store.inspect.turnsBefore({ threadId, beforeSeq: last?.seq ?? seq, limit: FEW }),
    FEW,
  );
  for await (const row of rows) {
    if (row.nodeTaskId === nodeTaskId && row.status === "interrupted") askedAt = row.createdAt;
    // The attempt that asked began before.
    if (row.nodeTaskId === nodeTaskId && row.turnType === "Thought" && (row.seq ?? 0) < first) break;
  }
  return askedAt;
}

/** Whether a node task with an error failed in its newest attempt, too. That one may be running, or have asked a question. */
const hasFailed = (newest: TurnRow | undefined): boolean => newest === undefined || newest.status === "error";

export function errorOf(error: unknown): NodeFailure["error"] {
  const { name, message } = (error ?? {}) as { name?: unknown; message?: unknown };
  return { name: typeof name === "string" ? name : "Error", message: typeof message === "string" ? message : String(error) };
}
