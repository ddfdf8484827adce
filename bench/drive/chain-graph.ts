import type { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import type { BaseMessage } from "@langchain/core/messages";
import { Command, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { seeded } from "./words";
import { messageAt } from "./workloads";

/** More than LangGraph's default of 25 supersteps. */
const SPARE_SUPERSTEPS = 10;

export interface ChainOptions {
  /** None: the graph is compiled without a saver. */
  saver: BaseCheckpointSaver | undefined;
  /** Whether the saver is attached to the graph, so that it records Thoughts and Actions. */
  records: boolean;
  handler?: BaseCallbackHandler;
  /** Called in the node's body, with the number of messages that the thread has by then. */
  inBody?: (messages: number) => void | Promise<void>;
}

/**
 * A real graph of one node in a chain with itself: each superstep adds one message and sends the run to the next. The node chooses by a
 * `Command` and not by a conditional edge, which would be one more runnable, with callbacks of its own.
 */
export class ChainGraph {
  readonly #graph: { invoke(input: { messages: BaseMessage[] }, config: object): Promise<unknown> };
  readonly #saver: TurnSaver | undefined;
  #messages: readonly BaseMessage[] = [];
  #done = 0;

  constructor({ saver, records, handler, inBody }: ChainOptions) {
    const next = () => {
      const message = this.#messages[this.#done] as BaseMessage;
      this.#done += 1;
      return new Command({ update: { messages: [message] }, goto: this.#done < this.#messages.length ? "step" : END });
    };
    const step = () => {
      const waits = inBody?.(this.#done);
      return waits === undefined ? next() : waits.then(next);
    };
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("step", step, { ends: ["step", END] })
      .addEdge(START, "step")
      .compile(saver === undefined ? {} : { checkpointer: saver });
    this.#saver = records ? (saver as TurnSaver) : undefined;
    this.#saver?.attach(graph);
    this.#graph = handler === undefined ? graph : graph.withConfig({ callbacks: [handler] });
  }

  /** Runs a new thread through: as many supersteps as there are messages. @throws Error if it ran others */
  async run(threadId: string, messages: readonly BaseMessage[]): Promise<void> {
    this.#messages = messages;
    this.#done = 0;
    const recursionLimit = messages.length + SPARE_SUPERSTEPS;
    await this.#graph.invoke({ messages: [] }, { configurable: { thread_id: threadId }, recursionLimit });
    if (this.#done !== messages.length) throw new Error(`${this.#done} supersteps instead of ${messages.length}`);
  }

  /** A run that recorded nothing would be a fast one. @throws Error if the thread lacks turns */
  async checkTurns(threadId: string): Promise<void> {
    if (this.#saver === undefined) return;
    const turns = await this.#saver.turns.list(threadId);
    if (turns.length !== 2 * this.#messages.length) throw new Error(`${turns.length} turns of ${this.#messages.length} nodes`);
  }
}

/** Messages that no saver has seen: made before a run, so that a node's body costs nothing. */
export function messagesOf(seed: number, count: number): BaseMessage[] {
  const random = seeded(seed);
  return Array.from({ length: count }, (_, index) => messageAt(random, index));
}
