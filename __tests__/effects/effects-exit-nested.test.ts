import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { effect, type EffectOptions } from "langgraph-checkpoint-turns";
import { closeAll, Deeds, fresh, open, thread } from "../support/eff-world";

afterEach(closeAll);

const exit = { ...thread(), durability: "exit" as const };
const kinds: [string, EffectOptions<unknown>][] = [
  ["input", { input: { cents: 5 } }],
  ["id", { id: "pay" }],
  ["neither", {}],
];

/** A graph inside a graph pays and asks, visit by visit, until it is told "enough". In `dies` it never goes on behind its deed. */
function shop(path: string, deeds: Deeds, given: EffectOptions<unknown>, dies?: () => void) {
  const State = Annotation.Root({ said: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
  const pays = async ({ said }: { said: string[] }) => {
    await effect("pay", () => deeds.do(`visit ${said.length}`), given);
    if (said.length === 1 && dies !== undefined) {
      dies();
      await new Promise(() => undefined);
    }
    return { said: [interrupt<string, string>("more?")] };
  };
  const sub = new StateGraph(State).addNode("pays", pays).addEdge(START, "pays");
  sub.addConditionalEdges("pays", ({ said }) => (said.at(-1) === "enough" ? END : "pays"), ["pays", END]);
  const saver = open(path);
  const outer = new StateGraph(State).addNode("sub", sub.compile()).addEdge(START, "sub");
  return saver.attach(outer.compile({ checkpointer: saver }));
}

describe('S2.9 durability "exit": a graph inside a graph goes on from the checkpoint of its interrupt, and its process dies', () => {
  test.each(kinds)("what it has done since is not done again, and what comes behind is (%s)", async (_, given) => {
    const path = fresh();
    const deeds = new Deeds();
    await shop(path, deeds, given).invoke({ said: [] }, exit);
    await new Promise<void>((resolve) => {
      void shop(path, deeds, given, resolve).invoke(new Command({ resume: "more" }), exit);
    });
    expect(deeds.lines()).toEqual(["visit 0", "visit 1"]);
    await shop(path, deeds, given).invoke(new Command({ resume: "more" }), exit);
    expect(deeds.lines()).toEqual(["visit 0", "visit 1"]);
    await shop(path, deeds, given).invoke(new Command({ resume: "more" }), exit);
    expect(deeds.lines()).toEqual(["visit 0", "visit 1", "visit 2"]);
    await shop(path, deeds, given).invoke(new Command({ resume: "enough" }), exit);
    expect(deeds.lines()).toEqual(["visit 0", "visit 1", "visit 2"]);
  });
});
