// The agent that the servers run: it thinks, answers, and sends a letter if a person says yes. A scripted model replaces a real
// one.
import { setTimeout as pause } from "node:timers/promises";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { END, interrupt, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";

type State = typeof MessagesAnnotation.State;

const lastText = ({ messages }: State): string => messages.at(-1)?.text ?? "";

async function say(text: string, state: State, config: LangGraphRunnableConfig): Promise<Partial<State>> {
  const model = new FakeListChatModel({ responses: [text], sleep: 10 });
  return { messages: [await model.invoke(state.messages, config)] };
}

/** Each process has one saver per file, and one runner per graph. */
export function openAgent(path: string, letterSent: (letter: string) => void) {
  const saver = TurnSaver.fromPath(path, { retention: { keepTasks: 20 } });
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("think", async (_, config) => {
      // Pass the signal to everything that takes long: the thread is free again when the last node has finished.
      await pause(300, undefined, config.signal && { signal: config.signal });
      return {};
    })
    .addNode("approve", (state) => {
      const answer: unknown = interrupt({ question: "Send this letter?", letter: lastText(state) });
      return { messages: [{ role: "user", content: String(answer) }] };
    })
    .addNode("send", async (state) => {
      const letter = state.messages.at(-2)?.text ?? "";
      if (lastText(state) === "yes") await effect("send letter", () => letterSent(letter), { input: letter });
      return {};
    })
    .addNode("answer", (state, config) => say(`You said: ${lastText(state)}`, state, config))
    .addConditionalEdges(START, (state) => (lastText(state).startsWith("Dear") ? "approve" : "think"), ["approve", "think"])
    .addEdge("approve", "send")
    .addEdge("send", "answer")
    .addEdge("think", "answer")
    .addEdge("answer", END)
    .compile({ checkpointer: saver });
  // In a chat, if the last message couldn't be answered (say, the model was overloaded), the next one finishes it first.
  return new GraphRunner(graph, { onUnfinished: "finish" });
}

export type Agent = ReturnType<typeof openAgent>;
