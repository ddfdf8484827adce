import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import {
  Annotation,
  type BaseCheckpointSaver,
  Command,
  END,
  interrupt,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { thread } from "../support/diff-harness";

const State = Annotation.Root({
  ...MessagesAnnotation.spec,
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  extra: Annotation<unknown>(),
});

/** start → (w1 ∥ w2 by Send) → nested { ask } → done; `ask` waits for an answer, `done` adds an AI and a tool message. */
export function worldGraph(checkpointer: BaseCheckpointSaver): any {
  const nested = new StateGraph(State)
    .addNode("before", () => ({ log: ["before"] }))
    .addNode("ask", (state) => ({ log: [`answer ${interrupt<unknown, string>({ said: state.messages.length })}`] }))
    .addEdge(START, "before")
    .addEdge("before", "ask")
    .compile();
  return new StateGraph(State)
    .addNode("start", () => ({ log: ["start"], extra: { set: new Set([1]), map: new Map([["k", new Uint8Array([1, 255])]]) } }))
    .addNode("w", (packet: any) => ({ log: [`w${packet.i}`] }))
    .addNode("nested", async (state: any, config: any) => ({
      log: (await nested.invoke(state, config)).log.slice(state.log.length),
    }))
    .addNode("done", () => ({
      messages: [
        new AIMessage({ id: "ai", content: "calls", tool_calls: [{ id: "c1", name: "f", args: { a: [1, null] } }] }),
        new ToolMessage({ id: "tool", content: "result", tool_call_id: "c1", artifact: { x: 1 } }),
      ] as BaseMessage[],
      log: ["done"],
    }))
    .addEdge(START, "start")
    .addConditionalEdges("start", () => [new Send("w", { i: 1 }), new Send("w", { i: 2 })], ["w"])
    .addEdge("w", "nested")
    .addEdge("nested", "done")
    .addEdge("done", END)
    .compile({ checkpointer });
}

export const say = (text: string) => ({ messages: [new HumanMessage({ id: `human-${text}`, content: text })] });

/** Threads in many states: waiting, answered, gone on, forked, edited, with a failure and its second attempt, saved at exit only. */
export async function fillOfficial(file: string): Promise<void> {
  const saver = SqliteSaver.fromConnString(file);
  await fillThreads(saver);
  saver.db.close();
}

/** {@link fillOfficial} for any of the official savers. */
export async function fillThreads(saver: BaseCheckpointSaver): Promise<void> {
  const graph = worldGraph(saver);
  await graph.invoke(say("hi"), thread("waiting"));

  await graph.invoke(say("hi"), thread("answered"));
  await graph.invoke(new Command({ resume: "yes" }), thread("answered"));
  await graph.invoke(say("again"), thread("answered"));

  await graph.invoke(say("hi"), thread("forked"));
  await graph.invoke(new Command({ resume: "yes" }), thread("forked"));
  const history: any[] = [];
  for await (const state of graph.getStateHistory(thread("forked"))) history.push(state);
  await graph.invoke(null, history.find((state) => state.next.includes("w"))!.config);
  await graph.updateState(thread("forked"), { log: ["edited"] }, "done");
  await graph.invoke(new Command({ update: { log: ["commanded"] }, resume: "yes" }), thread("forked"));

  await graph.invoke(say("hi"), { ...thread("exit"), durability: "exit" });
  await graph.invoke(new Command({ resume: "yes" }), { ...thread("exit"), durability: "exit" });

  await failThenSucceed(saver);
}

/** The failed attempt's error stays among the writes of the task that then succeeded. */
async function failThenSucceed(saver: BaseCheckpointSaver): Promise<void> {
  let failures = 1;
  const graph = new StateGraph(State)
    .addNode("flaky", () => {
      if (failures-- > 0) throw new Error("first attempt");
      return { log: ["second attempt"] };
    })
    .addNode("beside", () => ({ log: ["beside"] }))
    .addNode("stop", () => ({ log: [String(interrupt("?"))] }))
    .addEdge(START, "flaky")
    .addEdge(START, "beside")
    .addEdge("flaky", "stop")
    .compile({ checkpointer: saver });
  await graph.invoke(say("hi"), thread("flaky")).catch(() => undefined);
  await graph.invoke(null, thread("flaky"));
}

/** A chain of many small checkpoints on one thread. */
export async function fillLong(file: string, turns: number): Promise<void> {
  const saver = SqliteSaver.fromConnString(file);
  const graph = new StateGraph(State)
    .addNode("a", () => ({ log: ["a"] }))
    .addEdge(START, "a")
    .compile({ checkpointer: saver });
  for (let turn = 0; turn < turns; turn += 1) await graph.invoke(say(String(turn)), { ...thread("long"), durability: "async" });
  saver.db.close();
}
