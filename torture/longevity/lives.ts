import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { weigh, type Weight } from "./measure";

/** Supersteps of one run; a life is many runs after each other, as an agent's is. */
const PER_RUN = 25;
const WINDOW = 200;
const SAMPLES = 40;

export interface Life {
  name: string;
  weights: Weight[];
  steps: number;
  /** UTF-16 units of text that the bodies made, each counted once. */
  made: number;
}

interface Parts {
  saver: TurnSaver;
  path: string;
  steps: number;
  /** How much of the log a thread keeps in its state; undefined for all of it. */
  window: number | undefined;
  /** Runs go around these. */
  threads: number;
}

/** A loop of one node that adds a line to its log, and does an effect at each run's first step. */
function agent({ saver, window }: Parts, made: { units: number }) {
  const State = Annotation.Root({
    left: Annotation<number>,
    count: Annotation<number>({ reducer: (sum, more) => sum + more, default: () => 0 }),
    log: Annotation<string[]>({
      reducer: (all, more) => (window === undefined ? all.concat(more) : all.concat(more).slice(-window)),
      default: () => [],
    }),
  });
  const graph = new StateGraph(State)
    .addNode("work", async ({ left, count }) => {
      const line = `step ${count}: ${Math.sin(count).toString(36).repeat(10)}`;
      if (left === PER_RUN) await effect("notify", async () => ({ told: line }), { idempotent: true });
      made.units += line.length;
      return { left: left - 1, count: 1, log: [line] };
    })
    .addEdge(START, "work")
    .addConditionalEdges("work", ({ left }) => (left > 0 ? "work" : END))
    .compile({ checkpointer: saver });
  return new GraphRunner(graph);
}

export async function live(name: string, parts: Parts): Promise<Life> {
  const made = { units: 0 };
  const runner = agent(parts, made);
  const weights: Weight[] = [];
  const runs = Math.ceil(parts.steps / PER_RUN);
  const every = Math.max(1, Math.floor(runs / SAMPLES));
  for (let run = 0; run < runs; run += 1) {
    await runner.invoke({ left: PER_RUN }, { threadId: threadId(name, run % parts.threads), recursionLimit: PER_RUN + 2 });
    if (run % every === every - 1) weights.push(weigh(parts.path, (run + 1) * PER_RUN));
  }
  return { name, weights, steps: runs * PER_RUN, made: made.units };
}

export function threadId(name: string, index: number): string {
  return `${name}-${String(index).padStart(6, "0")}`;
}

export { WINDOW };
