import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { effect, GraphRunner } from "../../src/index";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { openSaver } from "../support/open-saver";

/**
 * `recover-storm-child.ts <db> <prefix> <count>`: a worker that starts threads `<prefix>0…`, those that nothing is saved of, and recovers
 * whatever there is, until the file `<db>.stop` exists. Its nodes append to `<db>.ledger`, its reports to `<db>.reports`.
 */
const [path = "", prefix = "", count = "0"] = process.argv.slice(2);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const note = (line: string): void => {
  appendFileSync(`${path}.ledger`, `${line}\n`);
  appendFileSync(`${path}.steps`, `${process.pid}\n`);
};
const saver = openSaver(path, { synchronous: "normal", logger: { debug() {}, info() {}, warn() {}, error() {} } });
const pays = (threadId: string, name: string): string => {
  note(`${threadId} ${name} pays`);
  return "paid";
};

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const node =
  (name: string) =>
  async (_: unknown, { configurable }: { configurable?: Record<string, unknown> }) => {
    const threadId = String(configurable?.["thread_id"]);
    note(`${threadId} ${name}`);
    await pause(Math.random() * 60);
    await effect("pay", () => pays(threadId, name), {
      probe: () => (readFileSync(`${path}.ledger`, "utf8").includes(`${threadId} ${name} pays\n`) ? "paid" : undefined),
    });
    await pause(Math.random() * 60);
    return { log: [name] };
  };
const graph = new StateGraph(State)
  .addNode("a", node("a"))
  .addNode("b", node("b"))
  .addNode("c", node("c"))
  .addNode("d", node("d"))
  .addEdge(START, "a")
  .addEdge("a", "b")
  .addEdge("b", "c")
  .addEdge("c", "d")
  .compile({ checkpointer: saver });
const label = { version: "1", idempotent: true };
const runner = new GraphRunner(graph, { stateVersion: "1", nodes: { a: label, b: label, c: label, d: label } });

const stop = new AbortController();
const looks = setInterval(() => existsSync(`${path}.stop`) && stop.abort(), 50);

async function begin(): Promise<void> {
  const threads = Array.from({ length: Number(count) }, (_, index) => `${prefix}${index}`);
  const next = async (): Promise<void> => {
    for (let threadId = threads.pop(); threadId !== undefined && !stop.signal.aborted; threadId = threads.pop()) {
      if ((await saver.getTuple({ configurable: { thread_id: threadId } })) !== undefined) continue;
      // Refused if the process before has saved its input after all: then it's to be recovered.
      await runner
        .invoke({ log: [] }, { threadId })
        .catch((error: unknown) => note(`! ${(error as { code?: string }).code ?? String(error)}`));
    }
  };
  await Promise.all([next(), next(), next(), next()]);
}

appendFileSync(`${path}.steps`, `${process.pid}\n`);
const begun = begin();
for await (const report of runner.recoveries({ everyMs: 300, concurrency: 6, tries: 30, waitMs: 20, signal: stop.signal }))
  appendFileSync(`${path}.reports`, `${JSON.stringify(report)}\n`);
await begun;
clearInterval(looks);
saver.close();
