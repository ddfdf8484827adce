import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver } from "../../src/index";

export const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** a → b → c; each node adds its name. `inside` is called in every body before it returns. */
export function chain(saver: TurnSaver, inside: (node: string) => void | Promise<void> = () => undefined) {
  const node = (name: string) => async () => {
    await inside(name);
    return { log: [name] };
  };
  return new StateGraph(Log)
    .addNode("a", node("a"))
    .addNode("b", node("b"))
    .addNode("c", node("c"))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .addEdge("c", END)
    .compile({ checkpointer: saver });
}
