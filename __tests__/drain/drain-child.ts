import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner } from "../../src/index";
import { SideEffects } from "../support/run-world";
import { openSaver } from "../support/open-saver";

/**
 * `drain-child.ts <db> <threads> <ms>`: resumes each thread, or begins it, all at once, until SIGTERM, which comes so long after the first of
 * its nodes has begun: then it drains. Prints a line of JSON with how many threads had most of their way ahead then, and one with what became
 * of its threads at the end. The ledger has each body of a node, and each effect.
 */
const [path = "", threads = "0", afterMs = "0"] = process.argv.slice(2);
const ledger = new SideEffects(`${path}.ledger`);
const saver = openSaver(path, { synchronous: "normal" });
const State = Annotation.Root({
  thread: Annotation<string>(),
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const say = (told: unknown): void => void process.stdout.write(`${JSON.stringify(told)}\n`);

/** A server takes a while to connect to. */
let isAtWork = false;
const half = new Set<string>();
const body =
  (name: string) =>
  async ({ thread }: typeof State.State) => {
    if (!isAtWork) setTimeout(() => process.kill(process.pid, "SIGTERM"), Number(afterMs));
    isAtWork = true;
    if (name === "x") half.add(thread);
    ledger.happen(`${thread} ${name} begins`);
    await new Promise((resolve) => setTimeout(resolve, 60 + Math.random() * 40));
    await effect("deed", () => ledger.happen(`${thread} ${name} deed`));
    return { log: [name] };
  };
const inner = new StateGraph(State)
  .addNode("x", body("x"))
  .addNode("y", body("y"))
  .addEdge(START, "x")
  .addEdge("x", "y")
  .compile();
const graph = new StateGraph(State)
  .addNode("a", body("a"))
  .addNode("b", body("b"))
  .addNode("c", body("c"))
  .addNode("inner", async ({ thread }) => {
    const { log } = await inner.invoke({ thread, log: [] });
    return { log };
  })
  .addNode("d", body("d"))
  .addEdge(START, "a")
  .addEdge("a", "b")
  .addEdge("a", "c")
  .addEdge(["b", "c"], "inner")
  .addEdge("inner", "d")
  .compile({ checkpointer: saver });
const runner = new GraphRunner(graph);

const told: Record<string, string> = {};
const drained = new Promise<void>((resolve) => {
  process.once("SIGTERM", () => {
    say({ early: Number(threads) - half.size });
    resolve(runner.drain({ timeoutMs: 100_000 }).then((report) => say({ report })));
  });
});
// A signal doesn't keep a process alive.
const alive = setInterval(() => undefined, 1_000);

async function work(threadId: string): Promise<void> {
  try {
    const { log } = await runner.resume({ threadId, input: { thread: threadId, log: [] } });
    told[threadId] = [...log].sort().join(" ");
  } catch (error) {
    told[threadId] = (error as { code?: string }).code ?? String(error);
  }
}

await Promise.all(Array.from({ length: Number(threads) }, (_, index) => work(`thread ${index}`)));
say({ told });
// The signal comes for sure once a node has begun. To a process that is ending already it would be a kill.
if (isAtWork) await drained;
clearInterval(alive);
saver.close();
