import { join } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import type { Contender } from "../drive/contenders";
import { takeTurns } from "../measure/clock";
import { withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }) });

/** How long a graph's first run on a new thread takes to reach its first node. The graph is compiled and attached before. */
export const firstNode: Scenario = {
  name: "first-node",
  run: async ({ contenders, quick }): Promise<Result> => {
    const runs = quick ? 30 : 200;
    const samples = new Samples();
    await withFolder(async (folder) => {
      const opened = await Promise.all(
        contenders.map(async (contender) => ({ contender, saver: await contender.open(join(folder, `${contender.id}.db`)) })),
      );
      await takeTurns(
        opened,
        runs,
        async ({ contender, saver }, run) => {
          const took = await timeToFirstNode(saver, contender, run);
          samples.add(run === 0 ? "first run of the process" : "first run of a graph", contender.id, took);
        },
        Infinity,
      );
      for (const { contender, saver } of opened) await contender.close(saver);
    });
    return {
      name: "first-node",
      title: `From invoke to the first node, ${runs} new graphs on new threads`,
      contenders,
      samples,
      facts: {},
      notes: ["LangGraph's own work is part of these times. It is nearly all of MemorySaver's."],
    };
  },
};

async function timeToFirstNode(saver: BaseCheckpointSaver, contender: Contender, run: number): Promise<number> {
  let reached = 0;
  const graph = new StateGraph(State)
    .addNode("first", () => {
      reached = performance.now();
      return { log: ["first"] };
    })
    .addEdge(START, "first")
    .compile({ checkpointer: saver });
  if (contender.records) (saver as TurnSaver).attach(graph);
  const begun = performance.now();
  await graph.invoke({ log: ["in"] }, { configurable: { thread_id: `first-${contender.id}-${process.pid}-${run}` } });
  return reached - begun;
}
