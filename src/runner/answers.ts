import { Command } from "@langchain/langgraph";
import { RESUME } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "../errors";
import type { TurnSaver } from "../saver";
import type { PregelLike } from "../turns/attached-graph";
import type { Assessment } from "./assess";
import { isAnswer, type Question, questionIds } from "./last-run";

/**
 * Refuses an answer to a question that isn't open: LangGraph would keep it and give it to the next question. At a breakpoint
 * LangGraph takes a Command for "continue", so it passes there.
 *
 * @param config the call's LangGraph config
 * @throws {TurnsError} UNKNOWN_INTERRUPT naming the open questions and the call that answers them
 */
export function refuseUnasked(
  threadId: string,
  input: unknown,
  { unfinished, run }: Assessment,
  graph: PregelLike,
  config: Readonly<Record<string, unknown>>,
): void {
  // After a crash in an answered node, the outermost graph may not know yet what is asked inside it.
  if (!isAnswer(input) || (run !== undefined && run.answered.length > 0)) return;
  const questions = unfinished === undefined ? [] : unfinished.questions;
  if (questions === undefined) return;
  const thread = JSON.stringify(threadId);
  const waiting = questions.map(({ id, node }) => ({ id, node }));
  if (questions.length === 0) {
    if (unfinished !== undefined && hasBreakpoints(graph, config)) return;
    const at = unfinished?.nodes.map((name) => JSON.stringify(name)).join(", ") ?? "";
    throw new TurnsError("UNKNOWN_INTERRUPT", {
      problem: `Thread ${describe(threadId)} waits for no answer: ${unfinished === undefined ? "it is finished" : `it stopped${at === "" ? "" : ` at ${at}`} without a question`}.`,
      remedy:
        unfinished === undefined
          ? `For new input call await runner.invoke(input, { threadId: ${thread} }). Nothing was changed.`
          : `Continue it without an answer: await runner.resume({ threadId: ${thread} }). Nothing was changed.`,
      data: { threadId, waiting, unknown: questionIds(input) ?? [] },
    });
  }
  const known = new Set(questions.map(({ id }) => id));
  const unknown = (questionIds(input) ?? []).filter((id) => !known.has(id));
  // A question of an older LangGraph has no id, so any answer may be for it.
  if (unknown.length === 0 || known.has(undefined)) return;
  const answered = questionIds(input)?.length ?? 0;
  const more = answered > questions.length ? ` These are ${answered} answers, and ${questions.length} waiting.` : "";
  throw new TurnsError("UNKNOWN_INTERRUPT", {
    problem: `Thread ${describe(threadId)} has no open question ${unknown.map((id) => JSON.stringify(id)).join(", ")}.${more}`,
    remedy: `Waiting: ${questions.map(told).join(", ")}. Answer: await runner.resume({ threadId: ${thread}, command: new Command({ resume: { ${answersTo(questions)} } }) }). Nothing was changed.`,
    data: { threadId, waiting, unknown },
  });
}

/**
 * An answer without an id, with the id of the only open question. LangGraph keeps one without an id until the step is finished, and
 * gives it again to each later question of the step when the run is continued without an answer, or with one by id.
 */
export function withItsQuestion(input: unknown, { unfinished, run }: Assessment): unknown {
  if (!isAnswer(input) || questionIds(input) !== undefined || (run !== undefined && run.answered.length > 0)) return input;
  const [question, ...others] = unfinished?.questions ?? [];
  if (question?.id === undefined || others.length > 0) return input;
  return new Command({ ...input, resume: { [question.id]: input.resume } });
}

/**
 * Answers that were given by id before a crash, and that no node has used. LangGraph saves them and doesn't read them: its next run
 * asks again.
 *
 * @returns by the ids of their questions; empty if there are none
 */
async function recordedAnswers(saver: TurnSaver, threadId: string, { run }: Assessment): Promise<Record<string, unknown>> {
  const ids = (run?.answered ?? []).filter(({ id, isUsed }) => !id.includes("-") && !isUsed).map(({ id }) => id);
  if (ids.length === 0) return {};
  const tuple = await saver.getTuple({ configurable: { thread_id: threadId } });
  const saved = (tuple?.pendingWrites ?? []).filter(([id, channel]) => channel === RESUME && ids.includes(id));
  // LangGraph adds an answer to those before it.
  return Object.fromEntries(saved.map(([id, , value]) => [id, Array.isArray(value) ? (value.at(-1) as unknown) : value]));
}

/**
 * What LangGraph is called with: answers on record, and those of a Command to other questions.
 *
 * @param isRepeated whether the Command answers a question a second time
 */
export async function withRecordedAnswers(
  saver: TurnSaver,
  threadId: string,
  input: unknown,
  found: Assessment,
  isRepeated: boolean,
): Promise<unknown> {
  const recorded = await recordedAnswers(saver, threadId, found);
  if (Object.keys(recorded).length === 0) return isRepeated ? null : input;
  const given = isAnswer(input) && questionIds(input) !== undefined ? input : undefined;
  return new Command({ ...given, resume: { ...(given?.resume as object), ...recorded } });
}

const told = ({ node, id }: Question): string => `${JSON.stringify(node)} (interrupt ${id ?? "without id"})`;

const answersTo = (questions: readonly Question[]): string =>
  questions.map(({ id }) => `${JSON.stringify(id)}: answer`).join(", ");

function hasBreakpoints(graph: PregelLike, config: Readonly<Record<string, unknown>>): boolean {
  return [...breakpointsOf(graph, config, "Before"), ...breakpointsOf(graph, config, "After")].length > 0;
}

/**
 * Whether a thread whose process died stood at a breakpoint: none of its due nodes has started. To resume it would be the approval
 * that a person gives there.
 */
export function isAtBreakpoint(
  graph: PregelLike,
  config: Readonly<Record<string, unknown>>,
  { unfinished, nodes, run }: Pick<Assessment, "unfinished" | "nodes" | "run">,
): boolean {
  const due = unfinished?.nodes ?? [];
  if (due.length === 0 || [...nodes.inFlight, ...nodes.failed].some(({ path }) => due.includes(path))) return false;
  const covers = (breakpoints: readonly string[], name: string): boolean =>
    breakpoints.includes("*") || breakpoints.includes(name);
  const before = breakpointsOf(graph, config, "Before");
  if (due.some((name) => covers(before, name))) return true;
  const after = breakpointsOf(graph, config, "After");
  return nodes.completed.some(({ path, checkpointId }) => checkpointId === run?.branch[1] && covers(after, path));
}

function breakpointsOf(graph: PregelLike, config: Readonly<Record<string, unknown>>, when: "Before" | "After"): string[] {
  const own = graph as unknown as Readonly<Record<string, unknown>>;
  return [own, config].flatMap((of) => {
    const nodes = of[`interrupt${when}`];
    return nodes === "*" ? ["*"] : Array.isArray(nodes) ? (nodes as string[]) : [];
  });
}
