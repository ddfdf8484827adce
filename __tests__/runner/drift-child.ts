import { START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner } from "langgraph-checkpoint-turns";
import { type Body, State, world } from "../support/run-world";

/** `drift-child.ts <db> <version of the source>`: runs on, or dies in `report`. Prints a line of JSON: the result, or the error's code. */
const [path = "", version = ""] = process.argv.slice(2);
const { saver, ledger } = world(path);

const mail: Record<string, Body> = {
  first: async (state) => {
    const sent = await effect("mail", () => ledger.happen("mail"));
    if (state.log.length > 5) return { log: ["many"] };
    return { log: ["mailed", String(sent)] };
  },
  changed: async (state) => {
    const sent = await effect("mail", () => ledger.happen("mail"));
    if (state.log.length > 6) return { log: ["many"] };
    return { log: ["mailed", String(sent)] };
  },
  // prettier-ignore
  reformatted: async (s) => { // what a minifier and a formatter make of it
    const result = await effect('mail', () => { return ledger.happen(`mail`); });
    return s.log.length > 5 ? { "log": ["many"] } : { log: ["mailed", String(result)] }
  },
};
const report: Body = async () => {
  if (version === "first") process.kill(process.pid, "SIGKILL");
  await effect("report", () => ledger.happen("report"));
  return {};
};
const repaired: Body = async () => {
  await effect("report", () => ledger.happen("report"), { input: "repaired" });
  return {};
};

const graph = new StateGraph(State)
  .addNode("mail", (mail[version] ?? mail["first"]) as () => object)
  .addNode("report", (version === "repaired" ? repaired : report) as () => object)
  .addEdge(START, "mail")
  .addEdge("mail", "report")
  .compile({ checkpointer: saver });
const runner = new GraphRunner(graph);
const work = version === "first" ? runner.invoke({ log: [] }, { threadId: "t" }) : runner.resume({ threadId: "t" });
const told = await work.then(
  (result: unknown) => ({ result }),
  (error: unknown) => ({ code: (error as { code?: string }).code, message: (error as Error).message }),
);
process.stdout.write(`${JSON.stringify(told)}\n`);
saver.close();
