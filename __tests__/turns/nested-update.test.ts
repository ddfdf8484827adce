import { Annotation, Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import { openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (one, other) => one.concat(other), default: () => [] }) });

test("S1.4 an update of a nested graph by its own config doesn't say that the graph isn't attached", async () => {
  const warned: string[] = [];
  const logger = { ...quiet, warn: (_: object, text: string) => void warned.push(text) };
  const saver = openSaver(":memory:", { logger });
  const inner = new StateGraph(State)
    .addNode("ask", () => ({ log: [interrupt<string, string>("sure?")] }))
    .addEdge(START, "ask")
    .compile();
  const graph = new StateGraph(State).addNode("inner", inner).addEdge(START, "inner").compile({ checkpointer: saver });
  saver.attach(graph);
  const config = { configurable: { thread_id: "t" } };
  await graph.invoke({ log: [] }, config);
  const { tasks } = await graph.getState(config, { subgraphs: true });
  const state = tasks[0]?.state as { config: { configurable: Record<string, unknown> } };
  await graph.updateState(state.config, { log: ["edit"] }, START);
  expect(warned).toEqual([]);
  const asked = await graph.getState(config, { subgraphs: true });
  expect((asked.tasks[0]?.state as { values: unknown }).values).toEqual({ log: ["edit"] });
  await graph.invoke(null, config);
  expect(await graph.invoke(new Command({ resume: "yes" }), config)).toEqual({ log: ["edit", "yes"] });
  expect(warned).toEqual([]);
  await (saver.close() as unknown);
});
