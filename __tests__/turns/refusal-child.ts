import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { internalsOf, setFailpointHandler } from "../../src/testing-internal";
import { effect } from "../../src/index";
import { openSaver } from "../support/open-saver";

/**
 * `refusal-child.ts <db> <why> [loud]`: runs a graph of two nodes, a and b, that the recorder stops. Logs nothing unless `loud`. Prints the
 * error's code, and whether it is the thrown object itself.
 */
const [path = "", why = "", loud = ""] = process.argv.slice(2);
const silent = { debug() {}, info() {}, warn() {}, error() {} };
const saver = openSaver(path, { onTurnError: "throw", ...(loud === "" ? { logger: silent } : {}) });
const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }) });

/** From the first node on, so that a run is under way. */
const then: Record<string, () => Promise<void>> = {
  gate: async () => undefined,
  "an effect in doubt": async () => {
    failsAt("effect-outcome.before");
    await effect("pay", () => undefined).catch(() => undefined);
  },
  "a Thought that can't be saved": async () => failsAt("thought.before"),
  "a checkpoint that can't be saved": async () => failsAt("checkpoint.before"),
  "a lost lease": async () => {
    const { store } = internalsOf(openSaver(path, { logger: silent }));
    const [run] = await store.listRuns("t");
    await store.beginRun({ ...run!, runId: "another" }, (others) => others);
    store.close();
  },
};

function failsAt(place: string): void {
  setFailpointHandler((point) => {
    if (point === place) throw new Error("the disk is full");
  });
}

const graph = new StateGraph(State)
  .addNode("a", async () => {
    await then[why]?.();
    return { log: ["a"] };
  })
  .addNode("b", () => ({ log: ["b"] }))
  .addEdge(START, "a")
  .addEdge("a", "b")
  .compile({ checkpointer: saver });
saver.attach(graph, why === "gate" ? { gates: { nodes: { a: { validate: () => 0.1, onFailure: "throw" } } } } : {});

const told = await graph.invoke({ log: ["in"] }, { configurable: { thread_id: "t" } }).then(
  () => ({}),
  (error: Error & { code?: string }) => ({
    code: error.code ?? error.message,
    isOwn: Object.getPrototypeOf(error) === error.constructor.prototype,
  }),
);
process.stdout.write(JSON.stringify(told));
setFailpointHandler(undefined);
saver.close();
