import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner } from "../../src/index";
import { SideEffects } from "../support/run-world";
import { openSaver } from "../support/open-saver";

/**
 * `lease-child.ts <db> <do> <stay> [others]`: runs or resumes thread "t", whose second node does two deeds. Stays there until the file
 * `go` is beside the database: `between` its deeds, `within` the first one, or `nowhere`. `race` waits for so many others at the start,
 * and in its node until they have been refused. Prints a line of JSON: the result, or the code of the error and what it knows.
 */
const [path = "", what = "", stay = "", others = "0"] = process.argv.slice(2);
const folder = dirname(path);
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 10));
const ledger = new SideEffects(`${path}.ledger`);

async function stays(where: string): Promise<void> {
  if (where !== stay) return;
  writeFileSync(join(folder, `at-${process.pid}`), "");
  while (!existsSync(join(folder, "go"))) await pause();
}

async function marked(prefix: string, count: number): Promise<void> {
  while (readdirSync(folder).filter((name) => name.startsWith(prefix)).length < count) await pause();
}

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const options = what === "off" ? ({ turns: "off", onCheckpointError: "continue" } as const) : {};
const saver = openSaver(path, {
  synchronous: "normal",
  logger: { debug() {}, info() {}, warn() {}, error() {} },
  ...options,
});
const graph = new StateGraph(State)
  .addNode("a", () => ({ log: ["a"] }))
  .addNode("b", async () => {
    await effect("first", async () => {
      ledger.happen("first");
      await stays("within");
    });
    await stays("between");
    await effect("second", () => ledger.happen("second"));
    if (what === "race") await marked("refused-", Number(others));
    return { log: ["b"] };
  })
  .addNode("c", () => {
    ledger.happen("c");
    return { log: ["c"] };
  })
  .addEdge(START, "a")
  .addEdge("a", "b")
  .addEdge("b", "c")
  .compile({ checkpointer: saver });

/** The test runs the same graph, compiled by another compiler. */
const LABELS = { stateVersion: "1", versions: { a: "1", b: "1", c: "1" } };

function work(): Promise<unknown> {
  if (what === "attached") return saver.attach(graph, LABELS).invoke({ log: ["in"] }, { configurable: { thread_id: "t" } });
  const { stateVersion, versions } = LABELS;
  const nodes = Object.fromEntries(Object.entries(versions).map(([name, version]) => [name, { version }]));
  const runner = new GraphRunner(graph, { stateVersion, nodes });
  return what === "race" ? runner.resume({ threadId: "t" }) : runner.invoke({ log: ["in"] }, { threadId: "t" });
}

if (what === "race") {
  writeFileSync(join(folder, `ready-${process.pid}`), "");
  await marked("ready-", Number(others) + 1);
}
const told = await work().then(
  (result: unknown) => ({ result }),
  (error: unknown) => {
    writeFileSync(join(folder, `refused-${process.pid}`), "");
    const { code, message, data } = error as { code?: string; message: string; data?: unknown };
    return { code, message, data };
  },
);
process.stdout.write(`${JSON.stringify(told)}\n`);
saver.close();
