import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { type EffectOptions, type EffectResolution, GraphRunner } from "langgraph-checkpoint-turns";
import type { FinalState, GraphWorld, Step } from "langgraph-checkpoint-turns/testing";
import { effectUndoneBy, undosNamed } from "../support/undo-world";

/** What is tortured in testing.test.ts: `args.kind` says which graph. */
export interface Args {
  kind:
    | "clean"
    | "asks twice"
    | "outside"
    | "timed"
    | "lost"
    | "doubt"
    | "idempotent"
    | "liar"
    | "undo"
    | "hang"
    | "exit"
    | "fails"
    | "fails again"
    | "no graph"
    | "throws";
  settle?: boolean;
}
type World = GraphWorld<Args>;

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
/** LangGraph takes the first question's id for the second too; the caller notes the second one in a commit of its own. */
const asking = new StateGraph(State)
  .addNode("ask", () => ({ log: [interrupt<string, string>("one?"), interrupt<string, string>("two?")] }))
  .addEdge(START, "ask")
  .compile();
type Work = () => string | Promise<string>;

export function graph(world: World): unknown {
  const { kind } = world.args;
  if (kind === "no graph") return { invoke: 1 };
  if (kind === "throws") throw new Error("no graph today");
  const builder = new StateGraph(State);
  let last: string = START;
  for (const [name, work] of Object.entries(nodesOf(world))) {
    builder.addNode(name, async () => ({ log: [await work()] }));
    builder.addEdge(last as never, name as never);
    last = name;
  }
  const compiled = builder.compile({ checkpointer: world.saver });
  const undo = ({ key }: { key: string }): void => world.ledger.append("refunded", key);
  return kind === "clean" ? compiled : new GraphRunner(compiled, { undos: undosNamed({ refund: undo }) });
}

export const steps = ({ args }: World): Step[] =>
  args.kind === "undo"
    ? [{ input: { log: [] }, taskId: "first" }, { input: { log: [] }, taskId: "second" }, { rewindTo: "first" }]
    : [{ input: { log: [] } }];

export const answer = (question: string): string => `yes to ${question}`;

export function settle(_: unknown, { args, ledger }: World): EffectResolution | undefined {
  if (args.settle !== true) return undefined;
  return ledger.count("charged") > 0 ? { outcome: "done", result: "paid" } : { outcome: "not-done" };
}

export const normalise = (final: FinalState): unknown => final;

function nodesOf(world: World): Record<string, Work> {
  const { ledger, args } = world;
  const pay = (options: EffectOptions<string> = {}, undo?: string): Promise<string> =>
    effectUndoneBy(undo, "charge", (key) => (ledger.append("charged", key), "paid"), options);
  const probe = (key: string): string | undefined => (ledger.count("charged", key) > 0 ? "paid" : undefined);
  const look: Work = () => "looked";
  switch (args.kind) {
    case "clean":
      return { look, pay: () => pay({ probe }), ask: () => interrupt<string, string>("ship?") };
    case "asks twice":
      return { ask: async () => (await asking.invoke({ log: [] })).log.join() };
    case "outside":
      return { look, post: () => (ledger.append("posted"), "posted") };
    case "timed":
      return { look, stamp: () => new Date().toISOString() };
    case "lost": {
      // Kept in memory, and so gone after a crash.
      let order: string | undefined;
      return { look: () => (order = "order"), ship: () => (order !== undefined && ledger.append("shipped"), "done") };
    }
    case "idempotent":
      return { pay: () => pay({ idempotent: true }) };
    case "liar":
      return { pay: () => pay({ probe: () => undefined }) };
    case "undo":
      return { pay: () => pay({ probe }, "refund") };
    case "hang":
      return { look, wait: () => new Promise<string>(() => setInterval(() => undefined, 1_000)) };
    case "exit":
      return { look, leave: () => process.exit(3) };
    case "fails":
      return { look: () => Promise.reject(new Error("never")) };
    case "fails again":
      return {
        look: () => {
          ledger.append("began");
          if (ledger.count("began") > 1) throw new Error("not twice");
          return "looked";
        },
      };
    default:
      return { pay: () => pay() };
  }
}
