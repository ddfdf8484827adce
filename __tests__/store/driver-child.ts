import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "../../src/index";
import { NodeDatabase, openFile } from "../../src/testing-internal";
import { quiet } from "../support/s1-tools";

/** driver-child.ts <path> <driver | ""> <thread>: a graph with a node more in its state each time; prints what it found and with what. */
const [path = "", driver = "", thread = ""] = process.argv.slice(2);
const options = driver === "" ? {} : { driver: driver as "node:sqlite" };

const State = Annotation.Root({
  words: Annotation<string[]>({ reducer: (all, more) => [...all, ...more], default: () => [] }),
});

async function main(): Promise<object> {
  const db = openFile(":memory:", { synchronous: "full", ...options });
  const used = db instanceof NodeDatabase ? "node:sqlite" : "better-sqlite3";
  db.close();
  const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
  const builder = new StateGraph(State)
    .addNode("say", () => ({ words: [`${used} ünï \u0000 end`] }))
    .addEdge(START, "say")
    .addEdge("say", END);
  const graph = saver.attach(builder.compile({ checkpointer: saver }));
  const { words } = await graph.invoke({ words: [] }, { configurable: { thread_id: thread } });
  const { ok, problems } = await saver.verify();
  saver.close();
  return { used, words, ok, problems };
}

main().then(
  (told) => console.log(JSON.stringify(told)),
  (error: { code?: string; message: string }) => console.log(JSON.stringify({ code: error.code, message: error.message })),
);
