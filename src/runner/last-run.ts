import { internalsOf } from "../internals";
import {
  type CheckpointMetadata,
  type CheckpointTuple,
  INTERRUPT,
  RESUME,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";
import type { Effect } from "../effects/types";
import { describe, TurnsError } from "../errors";
import type { TurnSaver } from "../saver";
import type { LastRun } from "../store/store";
import { NULL_TASK_ID } from "../system";
import { plannedTasks } from "../turns/node-task";
import type { PregelLike } from "../turns/attached-graph";
import { answersTo } from "./thread-status";

/**
 * The run that a thread's newest checkpoint belongs to. Besides input, an update or a fork starts a run if it makes nodes due
 * where none were. Work finished before that belongs to another run, which a restart must not touch.
 */
export async function lastRunOf(saver: TurnSaver, threadId: string): Promise<LastRun | undefined> {
  const run = await internalsOf(saver).lastRun(threadId);
  for (const { id, parentId, seq, behind } of run?.changes ?? []) {
    // Nothing is due, or that can't be known: only the state changed.
    if ((await isDue(saver, threadId, id)) !== true) continue;
    if (parentId !== undefined && (await isDue(saver, threadId, parentId)) !== false) continue;
    return {
      ...(run as LastRun),
      inputId: id,
      beforeId: undefined,
      sinceSeq: seq,
      branch: (run as LastRun).branch.slice(0, behind),
    };
  }
  return run;
}

/** Whether node tasks come next; undefined if the checkpoint is gone or unreadable. */
async function isDue(saver: TurnSaver, threadId: string, checkpointId: string): Promise<boolean | undefined> {
  const found = await readTuple(saver, threadId, checkpointId);
  if (found === undefined || found === UNREADABLE) return undefined;
  return dueFrom(found).length > 0;
}

/** The nodes that come next after a checkpoint of the outermost graph. */
export function dueFrom({ checkpoint, metadata = NO_STEP }: Pick<CheckpointTuple, "checkpoint" | "metadata">): string[] {
  return plannedTasks("", checkpoint, metadata).map(({ name }) => name);
}

export const NO_STEP: CheckpointMetadata = { source: "loop", step: 0, parents: {} };

/** Whether an error means that a checkpoint can't be read. */
export function isUnreadable(error: unknown): error is TurnsError {
  return (["CHECKPOINT_CORRUPTED", "UNDECODABLE_VALUE", "CHECKPOINT_UNREADABLE"] as const).some((code) =>
    TurnsError.is(error, code),
  );
}

export const UNREADABLE = Symbol("unreadable");

/** A checkpoint; without an id the newest, without a namespace of the outermost graph. */
export async function readTuple(
  saver: TurnSaver,
  threadId: string,
  checkpointId?: string,
  ns = "",
): Promise<CheckpointTuple | typeof UNREADABLE | undefined> {
  try {
    return await saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpointId } });
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return UNREADABLE;
  }
}

/** The effects that a restart would repeat. */
export interface EffectsOfRun {
  done: readonly Pick<Effect, "name" | "label" | "key">[];
  /** Those with an unknown outcome. */
  open: readonly Effect[];
}

export async function effectsOfRun(saver: TurnSaver, threadId: string, run: LastRun | undefined): Promise<EffectsOfRun> {
  const effects = run === undefined ? [] : await saver.effects.list(threadId, { after: Math.max(0, run.sinceSeq - 1) });
  const done = effects.filter(({ status, undoStatus }) => status === "done" && undoStatus !== "done");
  return {
    done: done.map(({ name, label, key }) => ({ name, label, key })),
    open: effects.filter(({ status }) => status === "in-doubt" || status === "running"),
  };
}

export function didEffects({ done, open }: EffectsOfRun): boolean {
  return done.length + open.length > 0;
}

export function effectList(effects: EffectsOfRun["done"]): string {
  return effects.map(({ name, label, key }) => `${describe(name)} (${label}, key ${key})`).join(", ");
}

/** The effects of a run, each as its name, label and key. */
export function allOf({ done, open }: EffectsOfRun): EffectsOfRun["done"] {
  return [...done, ...open.map(({ name, label, key }) => ({ name, label, key }))];
}

/** What the run did, and what it may have done; empty if nothing. */
export function effectsInWords({ done, open }: EffectsOfRun): string {
  return (
    (done.length === 0 ? "" : ` The run did effects: ${effectList(done)}.`) +
    (open.length === 0 ? "" : ` It isn't known whether these effects happened: ${effectList(open)}.`)
  );
}

/** What has to be done about effects in doubt before a run can start again. */
export function settleFirst({ open: [first] }: EffectsOfRun): string {
  if (first === undefined) return "";
  return `first find out whether ${describe(first.name)} happened, and settle it: runner.effects.resolve(${JSON.stringify(first.id)}, { outcome: "done", result }) or { outcome: "not-done" }.`;
}

/** A question that a node asked with `interrupt()`, as the outermost graph sees it. */
export interface Question {
  /** Undefined only for questions of an older LangGraph. */
  id: string | undefined;
  value: unknown;
  /** The node of the outermost graph in which it was asked. */
  node: string;
  nodeTaskId: string;
}

/** Unfinished work that keeps a thread from taking new input. */
export interface Unfinished {
  /** Nodes that are due or wait for an answer. */
  nodes: readonly string[];
  /** Whether only a person's answer can finish it. */
  waits: boolean;
  /** The open questions; undefined if they aren't known. */
  questions: readonly Question[] | undefined;
  /** Ids of questions that an update of their graph has dropped. */
  dropped?: readonly unknown[];
}

interface GraphWithState {
  getState(config: object, options?: { subgraphs: boolean }): Promise<State>;
}
interface State {
  next: string[];
  metadata?: { source: string };
  tasks: readonly StateTask[];
}
interface StateTask {
  id: string;
  name: string;
  interrupts: Interrupts;
  /** The graph in the node: where it is, or its state. */
  state?: object | State;
}
type Interrupts = readonly (Interrupt | readonly Interrupt[])[];
interface Interrupt {
  id?: string;
  value?: unknown;
}

/**
 * `next` alone isn't enough. It is empty after a crash between a step's writes and its checkpoint, and while a resume value is
 * pending (internals, F4), and doesn't show what the graph no longer has. Writes that no checkpoint contains yet are unfinished
 * work too.
 *
 * @param newest the checkpoint, if it was read
 */
export async function unfinishedOf(
  saver: TurnSaver,
  graph: PregelLike,
  threadId: string,
  newest?: CheckpointTuple,
): Promise<Unfinished | undefined> {
  const config = { configurable: { thread_id: threadId } };
  const head = newest ?? (await saver.getTuple(config));
  if (head === undefined) return undefined;
  const state = await (graph as unknown as GraphWithState).getState(config);
  const pending = head.pendingWrites ?? [];
  const results = pending.filter(([, channel]) => !Object.hasOwn(WRITES_IDX_MAP, channel));
  if (state.next.length === 0 && results.length === 0 && !pending.some(([, channel]) => channel === RESUME)) {
    const nodes = dueFrom(head);
    return nodes.length === 0 ? undefined : { nodes, waits: false, questions: undefined };
  }
  const dropped = await droppedQuestions(graph as unknown as GraphWithState, config, state);
  const tasks = state.tasks.map((task) => ({
    ...task,
    interrupts: task.interrupts.flat().filter(({ id }) => !dropped.includes(id)),
  }));
  const due = tasks.filter((task) => state.next.includes(task.name));
  // A task that has written its result still carries the question it asked before.
  const ended = new Set(results.map(([taskId]) => taskId));
  const ofGraph = tasks
    .filter(({ id }) => !ended.has(id))
    .flatMap(({ id: nodeTaskId, name: node, interrupts }) =>
      interrupts.map(({ id, value }): Question => ({ id, value, node, nodeTaskId })),
    );
  // Of the tasks that a functional graph waits for, LangGraph tells the question of one.
  const known = new Set(state.tasks.map(({ id }) => id));
  const node = state.tasks[0]?.name ?? "";
  const ofTasks = pending
    .filter(([id, channel]) => channel === INTERRUPT && !known.has(id) && !ended.has(id))
    .flatMap(([nodeTaskId, , value]) =>
      ([value].flat(2) as Interrupt[]).map((question): Question => ({
        id: question.id,
        value: question.value,
        node,
        nodeTaskId,
      })),
    );
  const inTasks = new Set(ofTasks.map(({ id }) => id));
  const questions = [...ofGraph.filter(({ id }) => !inTasks.has(id)), ...ofTasks];
  return { nodes: state.next, waits: due.length > 0 && due.every((task) => task.interrupts.length > 0), questions, dropped };
}

/**
 * The questions of graphs in nodes that were updated by hand since. The outermost graph still has them, but their nodes run on another
 * checkpoint now and ask under another id, so nobody would get an answer.
 */
async function droppedQuestions(graph: GraphWithState, config: object, { tasks }: State): Promise<unknown[]> {
  if (!tasks.some(({ state, interrupts }) => state !== undefined && interrupts.length > 0)) return [];
  try {
    const whole = await graph.getState(config, { subgraphs: true });
    return whole.tasks.flatMap(({ state, interrupts }) => idsOf(interrupts).filter((id) => isDropped(id, state)));
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return [];
  }
}

function isDropped(id: unknown, state: StateTask["state"]): boolean {
  if (state === undefined || !("tasks" in state)) return false;
  const asking = state.tasks.filter(({ interrupts }) => idsOf(interrupts).includes(id));
  if (asking.length === 0) return ["update", "fork"].includes(state.metadata?.source ?? "");
  return asking.every((task) => isDropped(id, task.state));
}

const idsOf = (interrupts: Interrupts): unknown[] => interrupts.flat().map(({ id }) => id);

/** @param hasObstacle whether a resume wouldn't simply continue the run */
export function unfinishedWork(
  threadId: string,
  { nodes, waits, questions = [] }: Unfinished,
  hasObstacle: boolean,
  isAtBreakpoint = false,
): TurnsError {
  const at = nodes.length === 0 ? "" : ` at ${nodes.map((name) => JSON.stringify(name)).join(", ")}`;
  const thread = JSON.stringify(threadId);
  const drop = `await runner.invoke(input, { threadId: ${thread}, onUnfinished: "abandon" }).`;
  const resume = `await runner.resume({ threadId: ${thread}`;
  const why = (stopped: string, what: string): string => `${stopped}${at}, so new input is refused: it would drop ${what}.`;
  const [problem, remedy] = waits
    ? [
        why(`Thread ${describe(threadId)} waits for an answer`, "the question"),
        `Answer: ${resume}, command: new Command({ resume: ${answersTo(questions)} }) }). Or drop the question: ${drop}` +
          (hasObstacle ? lookFirst(thread) : ""),
      ]
    : isAtBreakpoint
      ? [
          why(`Thread ${describe(threadId)} stands at a breakpoint`, "that work"),
          `Look at it, then continue it: ${resume} }). Or drop the work: ${drop}`,
        ]
      : [
          why(`The last run of thread ${describe(threadId)} stopped`, "that work"),
          `Continue it first: ${resume} }). Or let the call do that: ` +
            `await runner.invoke(input, { threadId: ${thread}, onUnfinished: "finish" }); "abandon" drops the work instead. ` +
            'For a chat, say it once: new GraphRunner(graph, { onUnfinished: "finish" }).',
        ];
  return new TurnsError("UNFINISHED_WORK", {
    problem,
    remedy,
    data: { threadId, nodes, waits: waits || isAtBreakpoint },
  });
}

/** @param thread in quotes */
const lookFirst = (thread: string): string =>
  ` Before you answer: a resume wouldn't simply continue. String(await runner.status(${thread})) says what it would do, and why.`;

/**
 * For a Command that updates or steers a thread and answers nothing, while a question waits.
 * @param hasObstacle whether a resume wouldn't simply continue the run
 */
export function commandBesideQuestion(threadId: string, { nodes, questions = [] }: Unfinished, hasObstacle: boolean): TurnsError {
  const at = nodes.length === 0 ? "" : ` at ${nodes.map((name) => JSON.stringify(name)).join(", ")}`;
  const thread = JSON.stringify(threadId);
  return new TurnsError("UNFINISHED_WORK", {
    problem: `Thread ${describe(threadId)} waits for an answer${at}, so a Command without one is refused: it would run the node again, which asks once more.`,
    remedy:
      `Answer with the same Command: await runner.resume({ threadId: ${thread}, command: new Command({ resume: ${answersTo(questions)}, update, goto }) }). ` +
      `Or apply it and let the question wait: await runner.invoke(command, { threadId: ${thread}, onUnfinished: "abandon" }).` +
      (hasObstacle ? lookFirst(thread) : ""),
    data: { threadId, nodes, waits: true },
  });
}

/** `null`, or a Command that answers an interrupt: both continue what is there. */
export function isResume(input: unknown): boolean {
  return input === null || input === undefined || isAnswer(input);
}

export const isCommand = (input: unknown): boolean => (input as { lg_name?: unknown } | null | undefined)?.lg_name === "Command";

export function isAnswer(input: unknown): input is { resume: unknown } {
  const { lg_name: name, resume } = (input ?? {}) as { lg_name?: unknown; resume?: unknown };
  return name === "Command" && resume !== undefined && resume !== null;
}

/** The seq of the newest answer that may be for a question: one with its id, or one without an id. */
export function answerTo({ answers }: Pick<LastRun, "answers">, id: string | null | undefined): number | undefined {
  const seqs = [id ?? "", NULL_TASK_ID].flatMap((one) => answers.get(one) ?? []);
  return seqs.length === 0 ? undefined : Math.max(...seqs);
}

/**
 * Whether an answer came after a question of the outermost graph.
 *
 * @param question its id, if LangGraph has given it one, and the node task that asked it or has the one in it that did
 */
export function isAnswered(
  run: Pick<LastRun, "answers" | "asked">,
  { id, nodeTaskId }: { id: string | null | undefined; nodeTaskId: string },
): boolean {
  const since = run.asked.get(nodeTaskId);
  return since !== undefined && (answerTo(run, id) ?? -1) > since;
}

/** Whether a question was saved once more because its answer didn't match its `responseSchema`. */
export function isAskedAgain(run: Pick<LastRun, "answers" | "asked">, question: Parameters<typeof isAnswered>[1]): boolean {
  return answerTo(run, question.id) !== undefined && !isAnswered(run, question);
}

/**
 * The questions that an answer is for; undefined for an answer to any question. LangGraph tells the two apart in the same way.
 */
export function questionIds({ resume }: { resume: unknown }): string[] | undefined {
  const ids = typeof resume === "object" && resume !== null ? Object.keys(resume) : [];
  return ids.length > 0 && ids.every((id) => /^[0-9a-f]{32}$/.test(id)) ? ids : undefined;
}
