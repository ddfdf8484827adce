import { randomUUID } from "node:crypto";
import { interrupt, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, type GraphRunnerOptions, type TurnSaver } from "../../src/index";
import { internalsOf } from "../../src/testing-internal";
import { type SideEffects, State } from "../support/run-world";

/** What a thread's second node does besides its effect, and what its third one does: the test decides. */
export type Body = (threadId: string, node: "b" | "c") => unknown;

/**
 * a → b → c. `a` and `c` note that they ran; `b` has an effect, then does what the test says. Threads named `ask…` ask a question in `b`.
 */
export function steps(saver: TurnSaver, ledger: SideEffects, body: Body = () => undefined) {
  return new StateGraph(State)
    .addNode("a", (_, { configurable }) => {
      ledger.happen(`${String(configurable?.["thread_id"])} a`);
      return { log: ["a"] };
    })
    .addNode("b", async (_, { configurable }) => {
      const threadId = String(configurable?.["thread_id"]);
      if (threadId.startsWith("ask")) interrupt("ok?");
      await effect("pay", () => {
        ledger.happen(`${threadId} pays`);
        if (threadId.startsWith("doubt") && process.argv[3] === "doubt") process.kill(process.pid, "SIGKILL");
      });
      await body(threadId, "b");
      ledger.happen(`${threadId} b`);
      return { log: ["b"] };
    })
    .addNode("c", async (_, { configurable }) => {
      await body(String(configurable?.["thread_id"]), "c");
      ledger.happen(`${String(configurable?.["thread_id"])} c`);
      return { log: ["c"] };
    })
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("b", "c")
    .compile({ checkpointer: saver });
}

/** Each node and the state with a label: children are compiled in another way. */
export function stepRunner(saver: TurnSaver, ledger: SideEffects, body?: Body, options: GraphRunnerOptions = {}) {
  const label = { version: "1", idempotent: true };
  const nodes = { a: { ...label, ...options.nodes?.["a"] }, b: label, c: label };
  return new GraphRunner(steps(saver, ledger, body), { stateVersion: "1", ...options, nodes });
}

/** Leaves a thread as a process does that dies while it runs it. */
export async function crash(saver: TurnSaver, ...threadIds: string[]): Promise<void> {
  const { store } = internalsOf(saver);
  for (const threadId of threadIds) {
    const place = { host: "elsewhere", boot: "", pid: 1, pidStart: "", startedAt: new Date().toISOString(), beatAt: 1 };
    const runId = randomUUID();
    await store.beginRun({ runId, threadId, ...place }, () => []);
    await store.beatRuns([runId], -1);
  }
}
