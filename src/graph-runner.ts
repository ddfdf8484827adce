import type { RunnableConfig } from "@langchain/core/runnables";
import { RESUME, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { z } from "zod";
import { describe, TurnsError } from "./errors";
import { checkedOptions } from "./options";
import { refuseWhileRunning, type RewindReport, type RewindRequest } from "./rewind/plan";
import { checkedId } from "./run-config";
import { TurnSaver } from "./saver";
import { pregelOf, type PregelLike } from "./turns/pregel";
import type { Turn } from "./turns/types";

/** What a {@link GraphRunner} runs: a compiled graph, a functional entrypoint, or an agent that carries its graph as `.graph`. */
export interface RunnableGraph {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the graph's own input, output and config types are kept by inference
  invoke(input: any, config?: any): Promise<any>;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as above
  stream(input: any, config?: any): Promise<any>;
}

export interface GraphRunnerOptions {
  /**
   * What happens to new input on a thread whose last run is unfinished. `"refuse"` (default) with UNFINISHED_WORK; `"finish"` resumes
   * it first, and refuses if it then waits for a person; `"abandon"` lets the new input replace it, as LangGraph does by itself.
   */
  onUnfinished?: "refuse" | "finish" | "abandon";
  /** Per node: `idempotent: true` says that it may run again after a crash without a warning (S2.9). */
  nodes?: Readonly<Record<string, { idempotent?: boolean }>>;
}

/** Where a run belongs; all else is LangGraph's own config and is passed on. */
export interface RunOptions extends Omit<RunnableConfig, "configurable"> {
  threadId: string;
  /** The user's task this input belongs to. Not given: the input starts one, named after its checkpoint. */
  taskId?: string;
  graphId?: string;
  /** Overrides the runner's `onUnfinished` for this call. */
  onUnfinished?: GraphRunnerOptions["onUnfinished"];
  configurable?: Record<string, unknown>;
  [langGraphOption: string]: unknown;
}

export type ResumeOptions = Omit<RunOptions, "onUnfinished"> & {
  /** LangGraph's `new Command({ resume })`, for a thread that waits for a person. Not given: the run goes on where it stopped. */
  command?: object;
};

const optionsSchema = z.strictObject({
  onUnfinished: z.enum(["refuse", "finish", "abandon"]).default("refuse"),
  nodes: z.record(z.string(), z.strictObject({ idempotent: z.boolean().optional() })).default({}),
});

/** What stands between a thread and new input. */
interface Unfinished {
  /** Nodes that are due, or wait for an answer. */
  nodes: readonly string[];
  /** Whether only a person's answer can finish it. */
  waits: boolean;
}

/**
 * Runs, resumes and rewinds one graph on its {@link TurnSaver}, and keeps the saver's promises where LangGraph by itself would not: new
 * input never silently discards unfinished work, a thread that runs elsewhere is not run twice.
 */
export class GraphRunner<G extends RunnableGraph> {
  readonly graph: G;
  readonly saver: TurnSaver;
  readonly #pregel: PregelLike;
  readonly #options: z.output<typeof optionsSchema>;

  /**
   * Attaches the graph's saver to it.
   *
   * @throws {TurnsError} INVALID_GRAPH unless the graph was compiled with a TurnSaver, INVALID_OPTION
   */
  constructor(graph: G, options: GraphRunnerOptions = {}) {
    this.#options = checkedOptions(optionsSchema, options);
    this.#pregel = pregelOf(graph);
    this.saver = saverOf(this.#pregel);
    this.graph = this.saver.attach(graph);
  }

  /**
   * Runs the graph on a thread, to its end or to an interrupt.
   *
   * @param input new input, or a Command
   * @throws {TurnsError} THREAD_RUNNING, UNFINISHED_WORK, INVALID_CONFIG; and what the graph throws
   */
  async invoke(input: Parameters<G["invoke"]>[0], options: RunOptions): Promise<Awaited<ReturnType<G["invoke"]>>> {
    await this.#admit(input, options);
    return (await this.graph.invoke(input, configOf(options))) as Awaited<ReturnType<G["invoke"]>>;
  }

  /** {@link invoke} as LangGraph's stream; every stream mode passes through. @throws as invoke */
  async stream(input: Parameters<G["stream"]>[0], options: RunOptions): Promise<Awaited<ReturnType<G["stream"]>>> {
    await this.#admit(input, options);
    return (await this.graph.stream(input, configOf(options))) as Awaited<ReturnType<G["stream"]>>;
  }

  /**
   * Goes on where the thread stopped: after a crash, an error, a repair, or with a `command` after an interrupt. Node tasks that
   * durably ended do not run again; a thread that is finished gives its result.
   *
   * @throws {TurnsError} NOTHING_TO_RESUME if the thread has no checkpoint, THREAD_RUNNING, INVALID_CONFIG; and what the graph throws
   */
  async resume(options: ResumeOptions): Promise<Awaited<ReturnType<G["invoke"]>>> {
    const { command, ...run } = options;
    const threadId = checkedId(run.threadId, "thread_id", "resume");
    await this.#refuseIfRunning(threadId);
    if ((await this.saver.getTuple({ configurable: { thread_id: threadId } })) === undefined) throw nothingToResume(threadId);
    await this.#warnOfRepeats(threadId);
    return (await this.graph.invoke(command ?? null, configOf(run as RunOptions))) as Awaited<ReturnType<G["invoke"]>>;
  }

  /** {@link TurnSaver.rewind} */
  async rewind(request: RewindRequest): Promise<RewindReport> {
    return this.saver.rewind(request);
  }

  /** {@link TurnSaver.inFlight} */
  async inFlight(threadId: string): Promise<Turn[]> {
    return this.saver.inFlight(threadId);
  }

  /** New input is refused while the thread runs, and while something on it is unfinished; a resume or a time travel is not. */
  async #admit(input: unknown, options: RunOptions): Promise<void> {
    const threadId = checkedId(options.threadId, "thread_id", "a run");
    await this.#refuseIfRunning(threadId);
    const policy = options.onUnfinished ?? this.#options.onUnfinished;
    if (isResume(input) || options.configurable?.["checkpoint_id"] !== undefined || policy === "abandon") return;
    let unfinished = await this.#unfinished(threadId);
    if (unfinished === undefined) return;
    if (policy === "finish" && !unfinished.waits) {
      await this.resume({ threadId });
      unfinished = await this.#unfinished(threadId);
    }
    if (unfinished !== undefined) throw unfinishedWork(threadId, unfinished);
  }

  async #refuseIfRunning(threadId: string): Promise<void> {
    refuseWhileRunning(threadId, await this.saver.liveRuns(threadId));
  }

  /**
   * `next` alone does not tell: it is empty after a crash between a step's writes and its checkpoint, and while a resume value is
   * pending (internals, F4). Writes that no checkpoint has taken up yet are work too.
   */
  async #unfinished(threadId: string): Promise<Unfinished | undefined> {
    const config = { configurable: { thread_id: threadId } };
    const head = await this.saver.getTuple(config);
    if (head === undefined) return undefined;
    const state = await (this.#pregel as unknown as GraphWithState).getState(config);
    const taken = (head.pendingWrites ?? []).filter(
      ([, channel]) => channel === RESUME || !Object.hasOwn(WRITES_IDX_MAP, channel),
    );
    if (state.next.length === 0 && taken.length === 0) return undefined;
    const due = state.tasks.filter((task) => state.next.includes(task.name));
    return { nodes: state.next, waits: due.length > 0 && due.every((task) => task.interrupts.length > 0) };
  }

  async #warnOfRepeats(threadId: string): Promise<void> {
    for (const turn of await this.saver.inFlight(threadId)) {
      if (this.#options.nodes[turn.nodeName]?.idempotent === true) continue;
      this.saver.logger.warn(
        { threadId, node: turn.nodeName, nodeTaskId: turn.nodeTaskId, attempt: turn.attempt, since: turn.createdAt },
        `node ${JSON.stringify(turn.nodeName)} was at work when the run stopped and runs again; declare it idempotent if that is harmless`,
      );
    }
  }
}

interface GraphWithState {
  getState(config: RunnableConfig): Promise<{ next: string[]; tasks: { name: string; interrupts: unknown[] }[] }>;
}

function saverOf(pregel: PregelLike): TurnSaver {
  if (pregel.checkpointer instanceof TurnSaver) return pregel.checkpointer;
  throw new TurnsError("INVALID_GRAPH", {
    what: "the graph of a GraphRunner",
    expected: "a graph compiled with a TurnSaver, compile({ checkpointer: saver })",
    found: `the checkpointer ${describe(pregel.checkpointer)}`,
    remedy: "Compile the graph with TurnSaver.fromPath(…).",
  });
}

function configOf(options: RunOptions): Record<string, unknown> {
  const { threadId, taskId, graphId, onUnfinished: _, configurable, ...config } = options;
  const names = { ...(taskId === undefined ? {} : { task_id: taskId }), ...(graphId === undefined ? {} : { graph_id: graphId }) };
  return { ...config, configurable: { ...configurable, ...names, thread_id: threadId } };
}

/** `null` and a Command that answers an interrupt go on with what there is. */
function isResume(input: unknown): boolean {
  if (input === null || input === undefined) return true;
  const { lg_name: name, resume } = input as { lg_name?: unknown; resume?: unknown };
  return name === "Command" && resume !== undefined && resume !== null;
}

function unfinishedWork(threadId: string, unfinished: Unfinished): TurnsError {
  const nodes = unfinished.nodes.map((name) => JSON.stringify(name)).join(", ");
  return new TurnsError("UNFINISHED_WORK", {
    what: `new input for thread ${describe(threadId)}`,
    expected: "a thread whose last run is finished",
    found: unfinished.waits
      ? `a run that waits for an answer at ${nodes}`
      : `unfinished work${nodes === "" ? "" : ` at ${nodes}`}`,
    remedy: unfinished.waits
      ? 'Answer with resume({ threadId, command: new Command({ resume }) }), or pass onUnfinished: "abandon" to drop it.'
      : 'Call resume({ threadId }) first, or pass onUnfinished: "finish" (or "abandon" to drop it).',
    data: { threadId, nodes: unfinished.nodes, waits: unfinished.waits },
  });
}

function nothingToResume(threadId: string): TurnsError {
  return new TurnsError("NOTHING_TO_RESUME", {
    what: `resume of thread ${describe(threadId)}`,
    expected: "a thread with at least one checkpoint",
    found: "none",
    remedy: "The run ended before its input was saved, or the id is another one; invoke the graph with its input.",
    data: { threadId },
  });
}
