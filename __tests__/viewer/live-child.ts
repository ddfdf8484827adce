import { existsSync } from "node:fs";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { openSaver } from "../support/open-saver";

/*
 * A writer: `tsx live-child.ts PATH THREAD RUNS [WAITS]` runs a graph so often, and says each time that a run is over. If it's told to, it
 * waits before one of the runs until there is a file PATH.go.
 */

const [, , place = "", threadId = "", runs = "1", waits = ""] = process.argv;
const saver = openSaver(place);
const graph = saver.attach(
  new StateGraph(Annotation.Root({ count: Annotation<number> }))
    .addNode("one", ({ count }) => ({ count: count + 1 }))
    .addNode("two", async ({ count }) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      return { count: count + 1 };
    })
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", END)
    .compile({ checkpointer: saver }),
);
for (let run = 0; run < Number(runs); run += 1) {
  while (String(run) === waits && !existsSync(`${place}.go`)) await new Promise((resolve) => setTimeout(resolve, 5));
  await graph.invoke({ count: run }, { configurable: { thread_id: threadId, task_id: `task-${run}` } });
  process.stdout.write(`${run}\n`);
}
await (saver.close() as unknown);
