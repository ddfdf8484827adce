/**
 * Runs a graph whose node `sub` is a graph of p and q, side by side, then z; each body adds its name to the lines of a file. The first q
 * dies. Arguments: database, file of the lines, kind of the inner work ("graph" | "call" | "entrypoint"), "turns" | "attached" | "official".
 */
import { appendFileSync, readFileSync } from "node:fs";
import { Annotation, entrypoint, START, StateGraph, task } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { TurnSaver } from "../../src/index";
import { dieNow, quiet } from "../support/s1-tools";

const [, , database = "", file = "", kind = "", which = ""] = process.argv;
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const note = (name: string): void => appendFileSync(file, `${name}\n`);
const begun = (() => {
  try {
    return readFileSync(file, "utf8").includes("q");
  } catch {
    return false;
  }
})();
const p = async (): Promise<{ log: string[] }> => (note("p"), { log: ["p"] });
const q = async (): Promise<{ log: string[] }> => {
  // Behind p, whose writes are saved by then.
  for (let round = 0; round < 20; round += 1) await new Promise((resolve) => setTimeout(resolve, 5));
  note("q");
  if (!begun) dieNow();
  return { log: ["q"] };
};
const graph = new StateGraph(State).addNode("p", p).addNode("q", q).addEdge(START, "p").addEdge(START, "q").compile();
const [taskP, taskQ] = [task("p", p), task("q", q)];
const work = entrypoint("work", async (_: unknown) => {
  const first = await taskP();
  return { log: [...first.log, ...(await taskQ()).log] };
});
const inner = {
  graph,
  call: (state: typeof State.State) => graph.invoke(state),
  entrypoint: (state: unknown) => work.invoke(state),
}[kind];
const saver = which === "official" ? SqliteSaver.fromConnString(database) : TurnSaver.fromPath(database, { logger: quiet });
const outer = new StateGraph(State)
  .addNode("sub", inner as never)
  .addNode("z", () => (note("z"), { log: ["z"] }))
  .addEdge(START, "sub")
  .addEdge("sub", "z")
  .compile({ checkpointer: saver });
if (which === "attached") (saver as TurnSaver).attach(outer);
await outer.invoke(begun ? null : { log: ["in"] }, { configurable: { thread_id: "t" } });
