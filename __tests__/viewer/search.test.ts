import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { search } from "../../src/testing-internal";
import { tempFile } from "../support/temp";

const State = Annotation.Root({ note: Annotation<string>(), large: Annotation<unknown>() });

test("S10.2 a text that was told is left out by a search only if nothing else in it matches", async () => {
  const saver = TurnSaver.fromPath(tempFile());
  const config = { configurable: { thread_id: "t" } };
  const graph = new StateGraph(State)
    .addNode("one", () => ({ note: "error A" }))
    .addEdge(START, "one")
    .addEdge("one", END)
    .compile({ checkpointer: saver });
  saver.attach(graph);
  await graph.invoke({ note: "start" }, config);
  const hits = async (pattern: RegExp): Promise<string[]> => {
    const found: string[] = [];
    const searching = search(saver, { pattern });
    for (let step = await searching.next(); step.done !== true; step = await searching.next())
      found.push(`${step.value.kind} ${/error B/.test(step.value.excerpt) ? "B" : "A"}`);
    return found;
  };
  expect(await hits(/error/)).toEqual(["turn A"]);
  await graph.updateState(config, { large: { pad: "p".repeat(2_000), a: "error A", b: "error B is only here" } });
  for (const pattern of [/error/, /error [AB]/, /error/g]) expect(await hits(pattern)).toEqual(["turn A", "write B"]);
  saver.close();
});
