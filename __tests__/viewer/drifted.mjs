import { Annotation, END, START, StateGraph } from "@langchain/langgraph";

const Report = Annotation.Root({ day: Annotation(), lines: Annotation() });

/** The graph `report` of examples/lighthouse, after somebody has worked on it: `collect` does something else, and a node is new. */
export const report = (saver) =>
  new StateGraph(Report)
    .addNode("collect", ({ day }) => ({ lines: [`${day}: no boats`] }))
    .addNode("check", () => ({}))
    .addNode("write", () => ({}))
    .addEdge(START, "collect")
    .addEdge("collect", "check")
    .addEdge("check", "write")
    .addEdge("write", END)
    .compile({ checkpointer: saver });
