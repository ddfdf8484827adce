import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { Annotation, END, entrypoint, interrupt, Send, START, StateGraph, task } from "@langchain/langgraph";
import { GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";

/** What only bodies append to: who began and who ended, over all processes. */
export class Ledger {
  constructor(readonly path: string) {}

  write(line: string): void {
    appendFileSync(this.path, `${line}\n`);
  }

  lines(): string[] {
    return existsSync(this.path) ? readFileSync(this.path, "utf8").split("\n").filter(Boolean) : [];
  }

  count(line: string): number {
    return this.lines().filter((candidate) => candidate === line).length;
  }
}

/** The child that is killed compiled the same source another way, which a source hash takes for a change. */
const OTHER_COMPILER = { drift: "continue" } as const;

/** Called at every point at which a process could die. */
export type Point = (name: string) => void;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Everything a node can be: parallel, joined, conditional, sent, retried, interrupted, nested in each way there is. */
export function mixedGraph(saver: TurnSaver, ledger: Ledger, point: Point) {
  // A set in the guise of a list: a subgraph gives its whole state back, and a body's name counts once.
  const union = (left: string[], right: string[]): string[] => [...new Set([...left, ...right])].sort();
  const State = Annotation.Root({ log: Annotation<string[]>({ reducer: union, default: () => [] }) });
  const body = async (name: string, work: () => unknown = () => undefined): Promise<{ log: string[] }> => {
    ledger.write(`start ${name}`);
    point(`start ${name}`);
    await work();
    ledger.write(`end ${name}`);
    point(`end ${name}`);
    return { log: [name] };
  };
  const child = (names: string[]) => {
    const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
    const [first = "", ...rest] = names;
    for (const name of names) builder.addNode(name, () => body(name));
    builder.addEdge(START, first);
    for (const name of rest) builder.addEdge(first, name);
    return builder;
  };
  // s1 → (s2 ∥ s3): finished siblings inside a nested graph must not run again.
  const nested = child(["s1", "s2", "s3"]).compile();
  const closure = child(["c1", "c2"]).compile();
  const stable = child(["k1"]).compile({ checkpointer: true });
  const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };

  const graph = new StateGraph(State)
    .addNode("a", () => body("a"))
    .addNode("b", () => body("b", () => pause(5)))
    .addNode("p", () => body("p"))
    .addNode("j", () => body("j"))
    .addNode("nested", nested as never)
    .addNode("asNode", stable as never)
    .addNode("calls", async () => {
      const result = await closure.invoke({ log: [] });
      return { log: [...result.log, ...(await body("calls")).log] };
    })
    .addNode("w", (packet: unknown) => body(`w${(packet as { i: number }).i}`))
    .addNode(
      "r",
      () =>
        body("r", () => {
          if (ledger.count("failed r") > 0) return;
          ledger.write("failed r");
          throw new Error("first attempt");
        }),
      { retryPolicy },
    )
    .addNode("h", async () => {
      ledger.write("start h");
      point("start h");
      const answer = interrupt<string, string>("?");
      return { log: (await body(`h${answer}`)).log };
    })
    .addNode("z", () => body("z"))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("a", "p")
    .addEdge(["b", "p"], "j")
    .addConditionalEdges("j", () => "nested", ["nested"])
    .addEdge("nested", "asNode")
    .addEdge("asNode", "calls")
    .addConditionalEdges("calls", () => [new Send("w", { i: 1 }), new Send("w", { i: 2 })], ["w"])
    .addEdge("w", "r")
    .addEdge("r", "h")
    .addEdge("h", "z")
    .addEdge("z", END)
    .compile({ checkpointer: saver });
  return new GraphRunner(graph, OTHER_COMPILER);
}

/** A functional entrypoint with tasks one after another and side by side. */
export function functionalGraph(saver: TurnSaver, ledger: Ledger, point: Point) {
  const step = (name: string) =>
    task(name, async (x: number) => {
      ledger.write(`start ${name}`);
      point(`start ${name}`);
      await pause(1);
      ledger.write(`end ${name}`);
      point(`end ${name}`);
      return x + 1;
    });
  const [one, two, three, four] = [step("t1"), step("t2"), step("t3"), step("t4")];
  const flow = entrypoint({ name: "flow", checkpointer: saver }, async (x: number) => {
    ledger.write("start flow");
    point("start flow");
    const first = await one(x);
    const [left, right] = await Promise.all([two(first), three(first)]);
    const last = await four(left + right);
    point("end flow");
    return last;
  });
  return new GraphRunner(flow, OTHER_COMPILER);
}

/** Tells each commit as a point: behind a Thought, a provisional and a durable Action, and a checkpoint. */
export function pointAtCommits(saver: TurnSaver, point: Point): void {
  saver.events.on("turn", (turn) => point(`${turn.turnType}${turn.durable ? " durable" : ""} ${turn.nodeName}`));
  saver.events.on("checkpoint", ({ checkpointNs, step }) =>
    point(`checkpoint ${checkpointNs.replace(/:[0-9a-f-]+/g, "")} ${step}`),
  );
}
