import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { openSaver } from "../support/open-saver";

/* Threads that examples/lighthouse hasn't: with a nested graph, with content that means harm, and a long one. */

const Notes = Annotation.Root({
  ...MessagesAnnotation.spec,
  notes: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});

/** Thread `nested`: research, in which another graph looks and judges, and then write. */
export async function makeNested(file: string): Promise<void> {
  const saver = openSaver(file);
  const inner = new StateGraph(Notes)
    .addNode("look", () => ({ notes: ["looked"] }))
    .addNode("judge", () => ({ notes: ["judged"] }))
    .addEdge(START, "look")
    .addEdge("look", "judge")
    .addEdge("judge", END)
    .compile();
  const graph = new StateGraph(Notes)
    .addNode("research", inner)
    .addNode("write", () => ({ messages: [new AIMessage("written")] }))
    .addEdge(START, "research")
    .addEdge("research", "write")
    .addEdge("write", END)
    .compile({ checkpointer: saver });
  await saver
    .attach(graph)
    .invoke({ messages: [new HumanMessage("go")] }, { configurable: { thread_id: "nested", task_id: "only" } });
  await (saver.close() as unknown);
}

const State = Annotation.Root({ ...MessagesAnnotation.spec, value: Annotation<unknown>, text: Annotation<string> });

/** Thread `threadId` with one task, in which a node returns this. */
export async function makeThread(
  saver: TurnSaver,
  threadId: string,
  update: Partial<typeof State.State>,
  node = "node",
): Promise<void> {
  const graph = new StateGraph(State)
    .addNode(node, () => update)
    .addEdge(START, node)
    .addEdge(node, END)
    .compile({ checkpointer: saver });
  await saver.attach(graph).invoke({ text: "" }, { configurable: { thread_id: threadId, task_id: "task" } });
}
