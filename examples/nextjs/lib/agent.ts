import { setTimeout as pause } from "node:timers/promises";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";

function open() {
  const saver = TurnSaver.fromPath(process.env.DATABASE ?? "chat.db", { retention: { keepTasks: 20 } });
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("think", async (_, config) => {
      // Pass the signal to everything that takes long: the thread is free again when the last node has finished.
      await pause(300, undefined, config.signal && { signal: config.signal });
      return {};
    })
    .addNode("answer", async ({ messages }, config) => {
      const model = new FakeListChatModel({ responses: [`You said: ${messages.at(-1)?.text ?? ""}`], sleep: 10 });
      return { messages: [await model.invoke(messages, config)] };
    })
    .addEdge(START, "think")
    .addEdge("think", "answer")
    .addEdge("answer", END)
    .compile({ checkpointer: saver });
  return new GraphRunner(graph, { onUnfinished: "finish" });
}

const shared = globalThis as { chatAgent?: ReturnType<typeof open> };

/** One saver for the process: Next.js loads a module once for each route, and again whenever you change it. */
export function agent(): ReturnType<typeof open> {
  return (shared.chatAgent ??= open());
}

/** SIGTERM: every running node finishes, and then the process exits. */
export function drainOnSigterm(): void {
  process.once("SIGTERM", () => {
    void agent()
      .drain({ timeoutMs: 20_000 })
      .then((report) => {
        console.log(`drained: ${JSON.stringify(report)}`);
        // The last events are on their way.
        setTimeout(() => process.exit(0), 100);
      });
  });
}
