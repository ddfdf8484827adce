import { randomUUID } from "node:crypto";
import type { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { RECORDER_NAME } from "../../src/testing-internal";
import { PAIR, type Step } from "./script";

const GRAPH = { lc: 1, type: "not_implemented", id: ["langgraph"] } as const;

const compiled = new StateGraph(Annotation.Root({ messages: Annotation<unknown[]> }))
  .addNode(PAIR[0], () => ({}))
  .addNode(PAIR[1], () => ({}))
  .addEdge(START, PAIR[0])
  .addEdge(PAIR[0], PAIR[1])
  .compile();

/** Tells a saver's recorder about nodes as LangGraph does, without a graph that runs: its callback handler, found in an attached graph. */
export class NodeRuns {
  readonly handler: BaseCallbackHandler;
  readonly #threadId: string;
  readonly #graphRun = randomUUID();

  constructor(saver: TurnSaver, threadId: string) {
    this.#threadId = threadId;
    // One compiled graph serves all: compiling is LangGraph's work, attaching is ours.
    compiled.checkpointer = saver;
    compiled.config = undefined;
    saver.attach(compiled);
    const callbacks = (compiled as { config?: { callbacks?: unknown } }).config?.callbacks;
    const handlers = (Array.isArray(callbacks) ? callbacks : []) as BaseCallbackHandler[];
    const handler = handlers.find(({ name }) => name === RECORDER_NAME);
    if (handler === undefined) throw new Error("the attached graph carries no recorder");
    this.handler = handler;
  }

  async graphStarts(bringsInput: boolean): Promise<void> {
    const input = bringsInput ? { messages: [] } : { input: null };
    await this.handler.handleChainStart?.(GRAPH as any, input, this.#graphRun, undefined, [], { thread_id: this.#threadId });
  }

  async graphEnds(): Promise<void> {
    await this.handler.handleChainEnd?.({}, this.#graphRun);
  }

  /** Returns the id of the run, which its end needs. */
  async nodeStarts({ task, input }: Pick<Step, "task" | "input">): Promise<string> {
    const runId = randomUUID();
    const nodeNs = `${task.name}:${task.id}`;
    const metadata = {
      ls_integration: "langgraph",
      thread_id: this.#threadId,
      langgraph_step: task.step,
      langgraph_node: task.name,
      langgraph_triggers: [task.trigger],
      langgraph_path: ["__pregel_pull", task.name],
      langgraph_checkpoint_ns: nodeNs,
      checkpoint_ns: nodeNs,
    };
    const tags = [`graph:step:${task.step}`];
    // In the places where the manager passes them, which are not those of the declared type.
    await this.handler.handleChainStart?.(GRAPH as any, input, runId, this.#graphRun, tags, metadata, undefined, task.name);
    return runId;
  }

  async nodeEnds(runId: string, { update }: Pick<Step, "update">): Promise<void> {
    await this.handler.handleChainEnd?.(update, runId);
  }
}
