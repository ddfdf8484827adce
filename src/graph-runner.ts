import type { RunnableConfig } from "@langchain/core/runnables";
import { RESUME, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { z } from "zod";
import { describe, TurnsError } from "./errors";
import { checkedOptions } from "./options";
import type { RewindReport, RewindRequest } from "./rewind/plan";
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

/** Where a run belongs, beside LangGraph's own config, which is passed on. */
export type RunOptions<G extends RunnableGraph = RunnableGraph> = Omit<LangGraphConfig<G>, "configurable"> & {
  threadId: string;
  /** The user's task this input belongs to. Not given: the input starts one, named after its checkpoint. */
  taskId?: string;
  graphId?: string;
  /** Overrides the runner's `onUnfinished` for this call. */
  onUnfinished?: GraphRunnerOptions["onUnfinished"];
  configurable?: Record<string, unknown>;
};

/** What the graph returns. */
export type Result<G extends RunnableGraph> = Awaited<ReturnType<G["invoke"]>>;

/** The config that the graph's `invoke` and `stream` take. */
export type LangGraphConfig<G extends RunnableGraph> = NonNullable<Parameters<G["invoke"]>[1]> &
  NonNullable<Parameters<G["stream"]>[1]>;

export type ResumeOptions<G extends RunnableGraph = RunnableGraph> = Omit<RunOptions<G>, "onUnfinished" | "threadId"> & {
  threadId: string;
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
   * @param input new input, a Command, or null to go on as {@link resume} does
   * @throws {TurnsError} THREAD_RUNNING, UNFINISHED_WORK, INVALID_CONFIG; and what the graph throws
   */
  async invoke(input: Parameters<G["invoke"]>[0], options: RunOptions<G>): Promise<Result<G>> {
    return this.#alone(options.threadId, async () => {
      await this.#admit(input, options);
      return this.#run(input, options);
    });
  }

  /**
   * {@link invoke} as LangGraph's stream; every stream mode passes through. The chunks have the type that the graph's own `stream`
   * gives for the mode.
   *
   * @throws as invoke
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- what a chunk is depends on the stream modes
  async stream(input: Parameters<G["stream"]>[0], options: RunOptions<G>): Promise<AsyncIterable<any>> {
    const release = await this.saver.reserve(checkedId(options.threadId, "thread_id", "a run"));
    try {
      await this.#admit(input, options);
      // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as above
      return thenRelease((await this.graph.stream(input, configOf(options))) as AsyncIterable<any>, release);
    } catch (error) {
      await release();
      throw error;
    }
  }

  /**
   * Goes on where the thread stopped: after a crash, an error, a repair, or with a `command` after an interrupt. Node tasks that
   * durably ended do not run again; a thread that is finished gives its result.
   *
   * @throws {TurnsError} NOTHING_TO_RESUME if the thread has no checkpoint, THREAD_RUNNING, INVALID_CONFIG; and what the graph throws
   */
  async resume(options: ResumeOptions<G>): Promise<Result<G>> {
    const { command, ...run } = options;
    return this.#alone(options.threadId, async () => {
      const threadId = options.threadId;
      if ((await this.saver.getTuple({ configurable: { thread_id: threadId } })) === undefined) throw nothingToResume(threadId);
      await this.#admit(command ?? null, run as RunOptions<G>);
      return this.#run(command ?? null, run as RunOptions<G>);
    });
  }

  /** {@link TurnSaver.rewind} */
  async rewind(request: RewindRequest): Promise<RewindReport> {
    return this.saver.rewind(request);
  }

  /** {@link TurnSaver.inFlight} */
  async inFlight(threadId: string): Promise<Turn[]> {
    return this.saver.inFlight(threadId);
  }

  /** Nobody else runs the thread meanwhile. @throws {TurnsError} THREAD_RUNNING */
  async #alone(id: string, work: () => Promise<unknown>): Promise<Result<G>> {
    const release = await this.saver.reserve(checkedId(id, "thread_id", "a run"));
    try {
      return (await work()) as Result<G>;
    } finally {
      await release();
    }
  }

  async #run(input: unknown, options: RunOptions<G>): Promise<unknown> {
    return this.graph.invoke(input, configOf(options));
  }

  /** New input is refused while something on the thread is unfinished; a resume or a time travel is not. */
  async #admit(input: unknown, options: RunOptions<G>): Promise<void> {
    const { threadId } = options;
    const policy = options.onUnfinished ?? this.#options.onUnfinished;
    if (isResume(input)) return this.#warnOfRepeats(threadId);
    if (options.configurable?.["checkpoint_id"] !== undefined || policy === "abandon") return;
    let unfinished = await this.#unfinished(threadId);
    if (policy === "finish" && unfinished?.waits === false) {
      await this.#warnOfRepeats(threadId);
      await this.#run(null, { threadId } as RunOptions<G>);
      unfinished = await this.#unfinished(threadId);
    }
    if (unfinished !== undefined) throw unfinishedWork(threadId, unfinished);
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

/** The thread is free again when the stream has been read to its end, or broken off and its run has ended in the background. */
async function* thenRelease<T>(chunks: AsyncIterable<T>, release: () => Promise<void>): AsyncGenerator<T> {
  try {
    yield* chunks;
  } finally {
    await release();
  }
}

function configOf(options: RunOptions): Record<string, unknown> {
  const { threadId, taskId, graphId, onUnfinished: _, configurable, ...config } = options as RunOptions & Record<string, unknown>;
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
