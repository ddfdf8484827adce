// What both servers do: a message, an answer to a question or "continue" becomes a stream of events. Nothing here depends on the
// HTTP framework.
import { randomUUID } from "node:crypto";
import type { AIMessageChunk } from "@langchain/core/messages";
import { Command } from "@langchain/langgraph";
import { TurnsError } from "langgraph-checkpoint-turns";
import type { Agent } from "./agent";

export interface ChatEvent {
  event: "token" | "question" | "stopped" | "error" | "done";
  data: unknown;
}

/** What a client may request on a thread. */
export type Request = { kind: "message"; text: string } | { kind: "answer"; answer: string } | { kind: "continue" };

const MODES: ("messages" | "updates")[] = ["messages", "updates"];

export interface Run {
  events: AsyncGenerator<ChatEvent>;
  stop: () => void;
}

export class Chat {
  readonly #running = new Map<string, AbortController>();

  constructor(readonly agent: Agent) {}

  /** Starts a run. If this throws, nothing has run, so the server can still choose the status. */
  async begin(threadId: string, request: Request): Promise<Run> {
    const controller = new AbortController();
    // If a run is active already, this one is refused.
    if (!this.#running.has(threadId)) this.#running.set(threadId, controller);
    // One task per message: a rewind to a task removes what came after it.
    const taskId = request.kind === "message" ? randomUUID() : undefined;
    const options = { threadId, taskId, signal: controller.signal, streamMode: MODES };
    try {
      const chunks = (await this.agent.stream(inputOf(request) as never, options)) as AsyncIterable<[string, unknown]>;
      return { events: this.#events(threadId, controller, chunks), stop: () => controller.abort() };
    } catch (error) {
      if (this.#running.get(threadId) === controller) this.#running.delete(threadId);
      if (!controller.signal.aborted) throw error;
      return { events: stopped(), stop: () => undefined };
    }
  }

  /** The stop button. The thread can be continued where it stopped. @returns whether something was running */
  stop(threadId: string): boolean {
    const controller = this.#running.get(threadId);
    controller?.abort();
    return controller !== undefined;
  }

  async state(threadId: string): Promise<object> {
    const { values, tasks, next } = await this.agent.graph.getState({ configurable: { thread_id: threadId } });
    const messages = (values as { messages?: { text: string }[] }).messages ?? [];
    const question: unknown = tasks.flatMap(({ interrupts }) => interrupts)[0]?.value;
    return { messages: messages.map(({ text }) => text), next, question };
  }

  async *#events(
    threadId: string,
    controller: AbortController,
    chunks: AsyncIterable<[string, unknown]>,
  ): AsyncGenerator<ChatEvent> {
    try {
      for await (const [mode, chunk] of chunks) {
        if (mode === "messages") yield { event: "token", data: (chunk as [AIMessageChunk, unknown])[0].text };
        const asked = (chunk as { __interrupt__?: { value?: unknown }[] }).__interrupt__;
        if (mode === "updates" && asked !== undefined) yield { event: "question", data: asked[0]?.value };
      }
      yield { event: "done", data: {} };
    } catch (error) {
      if (controller.signal.aborted) yield { event: "stopped", data: {} };
      else yield { event: "error", data: { code: codeOf(error), message: (error as Error).message } };
    } finally {
      this.#running.delete(threadId);
    }
  }
}

/** Stopped before there was anything to stream. */
async function* stopped(): AsyncGenerator<ChatEvent> {
  yield { event: "stopped", data: {} };
}

function inputOf(request: Request): unknown {
  if (request.kind === "message") return { messages: [{ role: "user", content: request.text }] };
  return request.kind === "answer" ? new Command({ resume: request.answer }) : null;
}

const codeOf = (error: unknown): string => (TurnsError.is(error) ? error.code : "INTERNAL");

/** 503: try again, another process is coming. 409: the thread is busy, or waits for an answer. */
export function statusOf(error: unknown): 409 | 500 | 503 {
  const code = codeOf(error);
  if (code === "STORE_DRAINING" || code === "STORE_CLOSED") return 503;
  return code === "THREAD_RUNNING" || code === "UNFINISHED_WORK" ? 409 : 500;
}

/** SIGTERM: no new connections, every running node finishes, and then the process exits. */
export function drainOnSigterm(agent: Agent, server: { close: () => unknown; closeAllConnections?: () => void }): void {
  process.once("SIGTERM", () => {
    server.close();
    void agent.drain({ timeoutMs: 20_000 }).then((report) => {
      console.log(`drained: ${JSON.stringify(report)}`);
      // Streams have sent their last event by now. Connections that are kept alive would keep the process alive.
      setTimeout(() => server.closeAllConnections?.(), 100);
    });
  });
}
