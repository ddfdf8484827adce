import { Command } from "@langchain/langgraph";
import { type CheckpointTuple, INTERRUPT, RESUME } from "@langchain/langgraph-checkpoint";
import type { BaseTurnSaver } from "../base-saver";
import { describe, TurnsError } from "../errors";
import { internalsOf } from "../internals";
import type { TurnSaver } from "../saver";
import type { LastRun } from "../store/store";
import { NULL_TASK_ID } from "../system";
import type { Asked } from "../tuples";
import type { PregelLike } from "../turns/attached-graph";
import { withoutState } from "../turns/node-task";
import type { Assessment } from "./assess";
import { isAtBreakpoint } from "./breakpoints";
import { answerTo, isAnswer, isAnswered, isAskedAgain, type Question, questionIds } from "./last-run";
import { answersTo } from "./thread-status";

/** What LangGraph is called with to continue a thread. */
interface Resumption {
  input: unknown;
  /** Whether an answer given now isn't used, because its question had one before the run stopped. */
  isRepeated: boolean;
}

interface ResumeParts {
  saver: TurnSaver;
  graph: PregelLike;
  threadId: string;
  /** What the caller continues with: a Command that answers, or nothing. */
  input: unknown;
  found: Assessment;
  /** The call's LangGraph config. */
  config: Readonly<Record<string, unknown>>;
}

/**
 * The answers that a run continues with, by the ids of their questions: those given now, and those on record that no node has used.
 *
 * - LangGraph saves answers by id and doesn't read them: its next run asks again.
 * - It gives the answer to a node's first question to the later ones, too. So an answer that its node has isn't given again.
 * - It keeps an answer without an id until the step is finished, and gives it to each later question. So it gets ids here.
 * - It forgets the answers of a node that failed before it came to their questions again. So they are saved again.
 *
 * @throws {TurnsError} UNKNOWN_INTERRUPT for an answer to a question that isn't open: LangGraph would keep it and give it to the next
 *   question. At a breakpoint, an answer without an id means "continue"; LangGraph would also give it to the next question
 */
export async function resumption(parts: ResumeParts): Promise<Resumption> {
  const { saver, threadId, input, found } = parts;
  const tasks = await tasksThatAsked(saver, threadId, found);
  const fates = fatesOf(tasks, found.run);
  const recorded = await recordedAnswers(saver, threadId, fates);
  const { given, isRepeated } = isAnswer(input)
    ? await newAnswers(parts, input, fates)
    : { given: (await isAtBreakpoint(parts)) ? TO_NOBODY : undefined, isRepeated: false };
  await restoreAnswers(saver, threadId, tasks);
  // Without ids, to questions of an older LangGraph.
  if (given === AS_IT_IS) return { input, isRepeated };
  const resume = { ...given, ...recorded };
  const { update, goto } = (isAnswer(input) ? input : {}) as { update?: unknown; goto?: readonly unknown[] };
  const hasOrders = update !== undefined || (goto?.length ?? 0) > 0;
  if (isAnswer(input) && hasOrders && !(isRepeated && (await hasOrdersOnRecord(saver, threadId))))
    return { input: new Command({ ...input, resume: Object.keys(resume).length === 0 ? TO_NOBODY : resume }), isRepeated };
  if (Object.keys(resume).length > 0) return { input: new Command({ resume }), isRepeated };
  return { input: isRepeated ? null : input, isRepeated };
}

const AS_IT_IS = Symbol("as it is");

/**
 * What continues the run and answers nothing: LangGraph would give another answer to the node's first question. It is saved, so that a
 * run that somebody has continued isn't taken for one that still stands at the breakpoint.
 */
const TO_NOBODY = { ["0".repeat(32)]: true };

/** Whether the update or `goto` of an earlier Command is saved. LangGraph still has to apply it. */
async function hasOrdersOnRecord(saver: TurnSaver, threadId: string): Promise<boolean> {
  const head = await saver.getTuple({ configurable: { thread_id: threadId } });
  return (head?.pendingWrites ?? []).some(([id, channel]) => id === NULL_TASK_ID && channel !== RESUME);
}

/** The answers of a Command to open questions, by id; undefined if there are none. */
async function newAnswers(
  parts: ResumeParts,
  command: { resume: unknown },
  fates: ReadonlyMap<string, Fate>,
): Promise<{ given: Readonly<Record<string, unknown>> | undefined | typeof AS_IT_IS; isRepeated: boolean }> {
  const { threadId, found } = parts;
  const { run, unfinished } = found;
  // What a node asked that was removed from the graph isn't known.
  if (unfinished !== undefined && unfinished.questions === undefined) return { given: AS_IT_IS, isRepeated: false };
  const hasStopped = stoppedMidway(found);
  const ids = questionIds(command);
  if (ids === undefined) {
    const open = openQuestions(found);
    const toAll = open.map(({ id = "" }): [string, unknown] => [id, command.resume]);
    if (open.length > 0 && toAll.every(([id]) => id !== "")) return { given: Object.fromEntries(toAll), isRepeated: false };
    const isOnRecord = [...fates.values()].includes("answered") || (hasStopped && (run?.answers.size ?? 0) > 0);
    if (open.length === 0 && isOnRecord) return { given: undefined, isRepeated: true };
    if (open.length > 0) return { given: AS_IT_IS, isRepeated: false };
    if (await isAtBreakpoint(parts)) return { given: TO_NOBODY, isRepeated: false };
    throw unknownInterrupt(threadId, found, []);
  }
  const unanswered = unansweredQuestions(found).map(({ id }) => id);
  const isShown = (id: string): boolean => (unfinished?.questions ?? []).some((question) => question.id === id);
  const isOpen = (id: string): boolean => {
    // On LangGraph 1.4 the next question of a nested node has the same id, and nobody has seen it yet.
    if ((isShown(id) && !unanswered.includes(id)) || unfinished?.dropped?.includes(id) === true) return false;
    const fate = fates.get(id);
    // A question of an older LangGraph has no id, so any answer may be for it.
    return fate === undefined ? unanswered.includes(id) || unanswered.includes(undefined) : fate === "open";
  };
  const others = ids.filter((id) => !isOpen(id));
  // After a crash, the caller may repeat what it called.
  const unknown = others.filter((id) => fates.get(id) !== "answered" && !(hasStopped && run?.answers.has(id) === true));
  if (unknown.length > 0) throw unknownInterrupt(threadId, found, unknown, ids.length);
  const given = Object.entries(command.resume as object).filter(([id]) => isOpen(id));
  return { given: given.length === 0 ? undefined : Object.fromEntries(given), isRepeated: others.length > 0 };
}

/**
 * The questions that a person can answer now: not those of a node that failed, which runs again first, unless it failed because it
 * refused the answer.
 */
export function openQuestions(found: Pick<Assessment, "run" | "unfinished" | "nodes">): Question[] {
  const failed = new Set(found.nodes.failed.map(({ nodeTaskId }) => nodeTaskId));
  return unansweredQuestions(found).filter(
    (question) => !failed.has(question.nodeTaskId) || (found.run !== undefined && isAskedAgain(found.run, question)),
  );
}

/** Whether a process stopped while nodes were running. Without turns, a node tells it that has its answer and neither finished nor failed. */
function stoppedMidway({ run, unfinished, nodes }: Assessment): boolean {
  const failed = new Set(nodes.failed.map(({ nodeTaskId }) => nodeTaskId));
  const hasAnswer = (question: Question): boolean =>
    run !== undefined && isAnswered(run, question) && !failed.has(question.nodeTaskId);
  return nodes.inFlight.length > 0 || (unfinished?.questions ?? []).some(hasAnswer);
}

function unansweredQuestions({ run, unfinished }: Pick<Assessment, "run" | "unfinished">): Question[] {
  return (unfinished?.questions ?? []).filter((question) => run === undefined || !isAnswered(run, question));
}

/**
 * What became of a question. `answered`: its answer is on record, and its node hasn't got it yet. `over`: its node has the answer, or
 * has asked something else since.
 */
type Fate = "open" | "answered" | "over";

/**
 * What each node task of the run that asked has saved, oldest first. Empty if no answer is on record that a node may not have used, and
 * none failed.
 */
async function tasksThatAsked(
  saver: TurnSaver,
  threadId: string,
  { run, nodes }: Pick<Assessment, "run" | "nodes">,
): Promise<readonly (readonly Asked[])[]> {
  if (run === undefined || run.asked.size === 0) return [];
  const since = Math.min(...run.asked.values());
  if (nodes.failed.length === 0 && ![...run.answers.values()].some((seq) => seq > since)) return [];
  const tasks = new Map<string, Asked[]>();
  for (const write of await internalsOf(saver).asked(threadId, run.sinceSeq)) {
    const place = JSON.stringify([write.ns, write.checkpointId, write.nodeTaskId]);
    const task = tasks.get(place) ?? [];
    tasks.set(place, task);
    task.push(write);
  }
  return [...tasks.values()].filter((task) => task.some(({ channel }) => channel === INTERRUPT));
}

/** What became of each question, by its id. */
function fatesOf(tasks: readonly (readonly Asked[])[], run: LastRun | undefined): ReadonlyMap<string, Fate> {
  const taskOf = new Map(tasks.flatMap((task) => task.map((write) => [write, task] as const)));
  const writes = tasks.flat().sort((left, right) => left.seq - right.seq);
  const fate = ([id, write]: [string, Asked]): [string, Fate] => {
    const answered = (run && answerTo(run, id)) ?? 0;
    const found = fateOf(id, taskOf.get(write) ?? [], answered);
    // Its answer was refused, and a node around it has saved the question once more.
    const isAskedAgain = writes.some((later) => later.seq > answered && idsIn(later).includes(id));
    return [id, found === "answered" && isAskedAgain ? "open" : found];
  };
  return new Map([...askersIn(writes)].map(fate));
}

/**
 * By the id of each question, what the node saved that asks it. It saves its question first, and then the nodes around it save it, too.
 *
 * @param writes oldest first
 */
export function askersIn(writes: readonly Asked[]): ReadonlyMap<string, Asked> {
  const askers = new Map<string, Asked>();
  for (const write of writes) for (const id of idsIn(write)) if (!askers.has(id)) askers.set(id, write);
  return askers;
}

/**
 * The ids of questions of nested graphs that were updated by hand since: their nodes run on another checkpoint now, and ask under another
 * id. `Unfinished.dropped` has the same, found by the graph. This needs no graph.
 *
 * @param writes what node tasks saved in the thread's newest run, oldest first
 */
export async function droppedQuestions(
  saver: BaseTurnSaver,
  threadId: string,
  writes: readonly Asked[],
): Promise<ReadonlySet<string>> {
  const newest = new Map<string, { id: string; ns: string; checkpointId: string }>();
  for (const write of writes)
    if (write.ns !== "") for (const id of idsIn(write)) newest.set(JSON.stringify([write.ns, id]), { ...write, id });
  const heads = new Map<string, CheckpointTuple | undefined>();
  const dropped = new Set<string>();
  for (const { id, ns, checkpointId } of newest.values()) {
    if (!heads.has(ns)) heads.set(ns, await headWithoutState(saver, threadId, ns));
    const head = heads.get(ns);
    const source = head?.metadata?.source;
    if (head?.checkpoint.id !== checkpointId && (source === "update" || source === "fork")) dropped.add(id);
  }
  return dropped;
}

async function headWithoutState(saver: BaseTurnSaver, threadId: string, ns: string): Promise<CheckpointTuple | undefined> {
  const internals = internalsOf(saver);
  const query = { checkpointId: undefined, beforeId: undefined, isOfRun: false, after: undefined, limit: 1 };
  const [head] = await internals.store.listCheckpoints({ threadId, ns, ...query });
  return head && (await internals.readHead(withoutState(head), "special"));
}

/**
 * @param task what the node task saved that asked, oldest first
 * @param answered the seq of the newest answer that may be for the question
 */
export function fateOf(id: string, task: readonly Asked[], answered: number): Fate {
  const asked = task.findLast(({ channel }) => channel === INTERRUPT);
  if (asked === undefined || !idsIn(asked).includes(id)) return "over";
  // A question is saved together with the answers that its task has got so far.
  const before = answersSince(task).find(({ seq }) => seq === asked.seq + 1);
  if (countOf(mostAnswers(task)) > countOf(before)) return "over";
  return answered > asked.seq ? "answered" : "open";
}

/**
 * A node that fails saves the answers that it got in this attempt. If they are fewer than before, LangGraph would ask the other
 * questions again.
 */
async function restoreAnswers(saver: TurnSaver, threadId: string, tasks: readonly (readonly Asked[])[]): Promise<void> {
  for (const task of tasks) {
    const most = mostAnswers(task);
    if (most === undefined || countOf(most) === countOf(answersSince(task).at(-1))) continue;
    const { ns, checkpointId, nodeTaskId, taskPath, value } = most;
    const config = { configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpointId } };
    await saver.putWrites(config, [[RESUME, value]], nodeTaskId, taskPath);
  }
}

/** The lists of answers that a task has saved with its newest question, and since. */
function answersSince(task: readonly Asked[]): Asked[] {
  return task.slice(task.findLastIndex(({ channel }) => channel === INTERRUPT)).filter(({ channel }) => channel === RESUME);
}

/** The newest of the longest lists of answers that a task has got. */
function mostAnswers(task: readonly Asked[]): Asked | undefined {
  return answersSince(task).reduce<Asked | undefined>((most, one) => (countOf(one) >= countOf(most) ? one : most), undefined);
}

/** The ids of the questions in a write. */
function idsIn({ channel, value }: Asked): string[] {
  if (channel !== INTERRUPT) return [];
  return [value].flat(2).flatMap((question) => (question as { id?: string } | null)?.id ?? []);
}

const countOf = (answers: Asked | undefined): number => (answers === undefined ? 0 : [answers.value].flat().length);

/** The answers by id that no node has used, by the ids of their questions. */
async function recordedAnswers(
  saver: TurnSaver,
  threadId: string,
  fates: ReadonlyMap<string, Fate>,
): Promise<Readonly<Record<string, unknown>>> {
  if (![...fates.values()].includes("answered")) return {};
  const tuple = await saver.getTuple({ configurable: { thread_id: threadId } });
  const saved = (tuple?.pendingWrites ?? []).filter(([id, channel]) => channel === RESUME && fates.get(id) === "answered");
  // LangGraph adds an answer to those before it.
  return Object.fromEntries(saved.map(([id, , value]) => [id, [value].flat().at(-1)]));
}

/** @param unknown the ids of questions that aren't open, of `answers` answers; none for an answer without an id */
function unknownInterrupt(threadId: string, found: Assessment, unknown: readonly string[], answers = 0): TurnsError {
  const { unfinished } = found;
  const open = openQuestions(found);
  const thread = JSON.stringify(threadId);
  const data = { threadId, waiting: open.map(({ id, node }) => ({ id, node })), unknown };
  if (open.length === 0) {
    const at = unfinished?.nodes.map((name) => JSON.stringify(name)).join(", ") ?? "";
    return new TurnsError("UNKNOWN_INTERRUPT", {
      problem: `Thread ${describe(threadId)} waits for no answer: ${unfinished === undefined ? "it is finished" : `it stopped${at === "" ? "" : ` at ${at}`} without a question`}.`,
      remedy:
        unfinished === undefined
          ? `For new input call await runner.invoke(input, { threadId: ${thread} }). Nothing was changed.`
          : `Continue it without an answer: await runner.resume({ threadId: ${thread} }). Nothing was changed.`,
      data,
    });
  }
  const more = answers > open.length ? ` These are ${answers} answers, and ${open.length} waiting.` : "";
  return new TurnsError("UNKNOWN_INTERRUPT", {
    problem: `Thread ${describe(threadId)} has no open question ${unknown.map((id) => JSON.stringify(id)).join(", ")}.${more}`,
    remedy: `Waiting: ${open.map(told).join(", ")}. Answer: await runner.resume({ threadId: ${thread}, command: new Command({ resume: ${answersTo(open)} }) }). Nothing was changed.`,
    data,
  });
}

const told = ({ node, id }: Question): string => `${JSON.stringify(node)} (interrupt ${id ?? "without id"})`;
