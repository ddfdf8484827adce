import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect, TurnsError, type TurnSaver } from "langgraph-checkpoint-turns";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const BODIES = ["a", "a-0", "b", "c", "c-0", "d"];
const TURNS = 8;

/** What a load has done, and what was wrong with it. */
export interface Work {
  runs: number;
  wrong: string[];
  /** The longest run, in milliseconds. */
  longest: number;
}

/**
 * Runs graphs with effects, one after the other on each of some threads, until it is stopped. Bodies and effects must happen once per
 * run, and a run mustn't fail.
 */
export function load(saver: TurnSaver, name: string, threads: number): { stop(): Promise<Work> } {
  const work: Work = { runs: 0, wrong: [], longest: 0 };
  let isOver = false;
  const lane = async (threadId: string): Promise<void> => {
    let happened: string[] = [];
    const graph = saver.attach(graphOf(saver, (what) => happened.push(what)));
    const config = { configurable: { thread_id: threadId } };
    let runs = 0;
    while (!isOver) {
      const since = performance.now();
      happened = [];
      try {
        await graph.invoke({ log: ["in"] }, config);
        runs += 1;
      } catch (error) {
        work.wrong.push(`${threadId}: ${TurnsError.is(error) ? error.code : "no code"}: ${(error as Error).message}`);
        break;
      }
      work.longest = Math.max(work.longest, performance.now() - since);
      const wrong = BODIES.filter((body) => happened.filter((one) => one === body).length !== 1);
      if (wrong.length > 0) work.wrong.push(`${threadId}: not once: ${wrong.join(" ")}`);
    }
    work.runs += runs;
    const { log } = (await graph.getState(config)).values as { log?: string[] };
    if ((log ?? []).join("") !== "inabcd".repeat(runs)) work.wrong.push(`${threadId}: ${runs} runs and ${log?.join("")}`);
    const turns = (await saver.turns.list(threadId, { limit: 1_000_000 })).length;
    if (turns !== runs * TURNS) work.wrong.push(`${threadId}: ${runs} runs and ${turns} turns`);
    const done = (await saver.effects.list(threadId)).filter(({ status, tries }) => status === "done" && tries === 1).length;
    if (done !== 2 * runs) work.wrong.push(`${threadId}: ${runs} runs and ${done} effects`);
  };
  const lanes = Promise.all(Array.from({ length: threads }, (_, at) => lane(`${name} ${at}`)));
  return {
    stop: async () => {
      isOver = true;
      await lanes;
      return work;
    },
  };
}

function graphOf(saver: TurnSaver, happens: (what: string) => void) {
  const body = (name: string, acts: boolean) => async () => {
    happens(name);
    if (acts) await effect(`${name}-0`, () => happens(`${name}-0`));
    return { log: [name] };
  };
  return new StateGraph(State)
    .addNode("a", body("a", true))
    .addNode("b", body("b", false))
    .addNode("c", body("c", true))
    .addNode("d", body("d", false))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .addEdge("a", "c")
    .addEdge(["b", "c"], "d")
    .compile({ checkpointer: saver });
}
