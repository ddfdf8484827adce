import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { checkedOptions } from "../options";
import { ID_RULE, isId } from "../system";
import type { Answer, GraphInput, LangGraphConfig, RunnableGraph } from "./graph-types";
import { drift, type GraphRunnerOptions, onUnfinished } from "./options";
import { nearestName } from "../unknown-option";
import type { Start } from "./restart";

/**
 * Where a run belongs, and LangGraph's own config, which is passed on. You can give the thread, task and graph ids either way:
 * `{ threadId, taskId, graphId }`, or LangGraph's `{ configurable: { thread_id, task_id, graph_id } }`.
 */
export type RunOptions<G extends RunnableGraph = RunnableGraph> = Omit<LangGraphConfig<G>, "configurable"> & {
  /** The thread to run. Required, unless you give `configurable.thread_id`. */
  threadId?: string | undefined;
  /** The user's task that this input belongs to. Without it, the input starts a task named after its checkpoint. */
  taskId?: string | undefined;
  graphId?: string | undefined;
  /** Overrides the runner's `onUnfinished` for this call. */
  onUnfinished?: GraphRunnerOptions["onUnfinished"];
  /** Overrides the runner's `drift` for this call. */
  drift?: GraphRunnerOptions["drift"];
  configurable?: Record<string, unknown> & { thread_id?: string; task_id?: string; graph_id?: string };
};

/** Options of `runner.resume`: where the run belongs, and an answer or input to continue with. */
export type ResumeOptions<G extends RunnableGraph = RunnableGraph> = Omit<RunOptions<G>, "onUnfinished"> & {
  /**
   * LangGraph's `new Command({ resume })`, for a thread that waits for a person. Without it, the run continues where it stopped.
   *
   * After a crash, the question on record may have been answered already. Then the run continues without the command, and a
   * warning says so. An answer to a question that isn't open is refused; `status()` lists the open ones.
   */
  command?: Answer;
  /**
   * The input to start with if there's nothing to resume, or if the run starts again and its own input is unwanted or unreadable.
   */
  input?: GraphInput<G>;
};

/** A checked call of the runner: its ids, and LangGraph's config without them. */
export interface RunCall {
  threadId: string;
  taskId: string | undefined;
  graphId: string | undefined;
  onUnfinished?: GraphRunnerOptions["onUnfinished"];
  drift?: GraphRunnerOptions["drift"];
  config: Readonly<Record<string, unknown>> & { configurable: Readonly<Record<string, unknown>>; signal?: AbortSignal };
}

/** The runner's names and LangGraph's for the same. */
const NAMES = { threadId: "thread_id", taskId: "task_id", graphId: "graph_id" } as const;
const POLICIES = () => z.object({ onUnfinished: onUnfinished().optional(), drift: drift().optional() });
const OWN: readonly string[] = [...Object.keys(NAMES), "onUnfinished", "drift"];
const OWN_OF_RESUME: readonly string[] = [...Object.keys(NAMES), "drift", "command", "input"];
/** Keys of LangGraph's config, so that none of them is taken for a misspelt option of ours. */
const LANGGRAPHS: ReadonlySet<string> = new Set(
  (
    "cache callbacks checkpointDuring configurable context control debug durability encoding inputKeys interrupt interruptAfter " +
    "interruptBefore maxConcurrency metadata outputKeys recursionLimit runId runName signal store streamMode subgraphs tags timeout " +
    "transformers version writer"
  ).split(" "),
);

/**
 * @param doing the call's name in error messages: `runner.invoke`
 * @throws {TurnsError} INVALID_CONFIG for a missing or invalid thread id, and if the two forms contradict each other;
 *   INVALID_OPTION for a misspelt option or one of another call, for an invalid policy, which must not be replaced, and for a
 *   concurrency that lets no node run
 */
export function checkedCall(options: unknown, doing: string): RunCall {
  const given = isRecord(options) ? options : {};
  refuseUnknown(given, doing === "runner.resume" ? OWN_OF_RESUME : OWN, doing);
  refuseNoConcurrency(given["maxConcurrency"], doing);
  const configurable = isRecord(given["configurable"]) ? given["configurable"] : {};
  const threadId = one("threadId", given, configurable, doing);
  if (threadId === undefined && "threadId" in configurable) throw misnamedThread(doing);
  checkThread(threadId, doing);
  return {
    threadId,
    taskId: one("taskId", given, configurable, doing),
    graphId: one("graphId", given, configurable, doing),
    ...checkedOptions(POLICIES, { onUnfinished: given["onUnfinished"], drift: given["drift"] }),
    config: { ...without(given, OWN), configurable: without(configurable, Object.values(NAMES)) },
  };
}

/** The same call, whose runs a further signal can stop. */
export function stoppedBy(signal: AbortSignal, { config, ...call }: RunCall): RunCall {
  return { ...call, config: { ...config, signal: config.signal ? either(config.signal, signal) : signal } };
}

/** Aborts with the first of both. Before Node 20.3, which has `AbortSignal.any`, the user's signal keeps a listener. */
function either(...signals: readonly AbortSignal[]): AbortSignal {
  if ("any" in AbortSignal) return AbortSignal.any([...signals]);
  const controller = new AbortController();
  for (const signal of signals) {
    const abort = (): void => {
      controller.abort(signal.reason);
    };
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  }
  return controller.signal;
}

/** The id that a call gives in either form. */
function one(
  name: keyof typeof NAMES,
  given: Record<string, unknown>,
  configurable: Record<string, unknown>,
  doing: string,
): string | undefined {
  const ours = given[name] ?? undefined;
  const theirs = configurable[NAMES[name]] ?? undefined;
  const found = ours ?? theirs;
  if (found === undefined) return undefined;
  const langGraphs = `configurable.${NAMES[name]}`;
  if (!isId(found)) throw noId(ours === undefined ? langGraphs : name, found, doing);
  if (theirs !== undefined && theirs !== found) {
    throw new TurnsError("INVALID_CONFIG", {
      problem: `${name} is ${describe(ours)}, but ${langGraphs} is ${describe(theirs)}.`,
      remedy: "Pass one of the two, or the same in both. Nothing was changed.",
      data: { key: name },
    });
  }
  return found;
}

/** How each call names its thread. */
const EXAMPLES: Readonly<Record<string, string>> = {
  "runner.invoke": 'runner.invoke(input, { threadId: "my-thread" })',
  "runner.stream": 'runner.stream(input, { threadId: "my-thread" })',
  "runner.streamEvents": 'runner.streamEvents(input, { threadId: "my-thread", version: "v2" })',
  "runner.resume": 'runner.resume({ threadId: "my-thread" })',
  "runner.status": 'runner.status("my-thread")',
};

/** @throws {TurnsError} INVALID_CONFIG */
export function checkThread(threadId: unknown, doing: string): asserts threadId is string {
  if (!isId(threadId)) throw noId("threadId", threadId, doing);
}

const noId = (key: string, found: unknown, doing: string): TurnsError =>
  new TurnsError("INVALID_CONFIG", {
    problem: found === undefined ? `${doing} was told no thread.` : `${key} of ${doing} is ${describe(found)}, which is no id.`,
    remedy: `Pass ${ID_RULE}, e.g. ${EXAMPLES[doing] ?? doing}${takesConfig(doing) ? ", or LangGraph's { configurable: { thread_id } }" : ""}. Nothing was changed.`,
    data: { key },
  });

const takesConfig = (doing: string): boolean => doing !== "runner.status" && doing in EXAMPLES;

const misnamedThread = (doing: string): TurnsError =>
  new TurnsError("INVALID_CONFIG", {
    problem: `${doing} was told no thread: within configurable its name is thread_id, not threadId.`,
    remedy: `Pass { configurable: { thread_id } }, or ${EXAMPLES[doing] ?? doing}. Nothing was changed.`,
    data: { key: "threadId" },
  });

/** LangGraph waits for ever if no node may run. */
function refuseNoConcurrency(given: unknown, doing: string): void {
  if (given === undefined || given === null || (typeof given === "number" && given > 0)) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `Option "maxConcurrency" of ${doing} is ${describe(given)}, so no node could run.`,
    remedy:
      "Pass a number of at least 1: how many nodes may run at the same time. Without it there's no limit. Nothing was changed.",
    data: { option: "maxConcurrency" },
  });
}

/** LangGraph ignores unknown keys, so a misspelt name, or an option of another call, would be dropped silently. */
function refuseUnknown(given: Record<string, unknown>, own: readonly string[], doing: string): void {
  for (const name of Object.keys(given)) {
    if (own.includes(name) || LANGGRAPHS.has(name)) continue;
    const isOfAnother = OWN.includes(name) || OWN_OF_RESUME.includes(name);
    // Only one character may differ from a name of LangGraph's: other versions have other options.
    const nearest = isOfAnother ? undefined : (nearestName(name, own) ?? nearestName(name, [...LANGGRAPHS], 1));
    if (nearest === undefined && !isOfAnother) continue;
    const question = nearest === undefined ? "" : `Did you mean ${JSON.stringify(nearest)}? `;
    throw new TurnsError("INVALID_OPTION", {
      problem: `Unknown option ${JSON.stringify(name)} of ${doing}.`,
      remedy: `${question}Its options: ${own.join(", ")}, and those of LangGraph's config.`,
      data: { option: name, nearest },
    });
  }
}

/** By what a config names a checkpoint. */
const CHECKPOINT = ["checkpoint_id", "checkpoint_ns", "checkpoint_map"];

/** LangGraph's config for a run of the call. */
export function configOf({ threadId, taskId, graphId, config }: RunCall, start: Start, ownGraphId: string | undefined): object {
  const graph = graphId ?? ownGraphId;
  const task = taskId ?? start.taskId;
  const names = { ...(task === undefined ? {} : { task_id: task }), ...(graph === undefined ? {} : { graph_id: graph }) };
  const from = start.checkpointId === undefined ? {} : { checkpoint_id: start.checkpointId };
  const configurable = start.isAtNewest === true ? without(config.configurable, CHECKPOINT) : config.configurable;
  return { ...config, configurable: { ...configurable, ...names, ...from, thread_id: threadId } };
}

function without(record: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  const rest = { ...record };
  for (const name of names) delete rest[name];
  return rest;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
