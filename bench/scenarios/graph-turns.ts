import { join } from "node:path";
import type { BaseMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import type { Contender } from "../drive/contenders";
import { messageAt } from "../drive/workloads";
import { seeded } from "../drive/words";
import { takeTurns } from "../measure/clock";
import { fileBytes, withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

/** Whole turns of a conversation through LangGraph: one invoke brings a message, a node answers with another. */
export const graphTurns: Scenario = {
  name: "graph-turns",
  run: async ({ contenders, quick }): Promise<Result> => {
    const turns = quick ? 20 : 100;
    const shown = quick ? 5 : 20;
    const samples = new Samples();
    await withFolder(async (folder) => {
      const all = await Promise.all(
        contenders.map(async (contender) => {
          const path = join(folder, `${contender.id}.db`);
          const saver = await contender.open(path);
          return { contender, path, saver, invoke: conversationOn(saver, contender) };
        }),
      );
      await takeTurns(
        all,
        turns,
        async ({ contender, invoke }, turn) => {
          const begun = performance.now();
          await invoke(turn);
          const took = performance.now() - begun;
          if (turn < shown) samples.add(`one invoke, first ${shown}`, contender.id, took);
          if (turn >= turns - shown) samples.add(`one invoke, last ${shown}`, contender.id, took);
        },
        Infinity,
      );
      for (const { contender, path, saver } of all) {
        await contender.close(saver);
        if (contender.hasFile) samples.add("file after close", contender.id, fileBytes(path), "bytes");
      }
    });
    const title = `${turns} whole turns through LangGraph, two messages each`;
    return {
      name: "graph-turns",
      title,
      contenders,
      samples,
      facts: {},
      notes: ["LangGraph's own work is part of these times."],
    };
  },
};

function conversationOn(saver: BaseCheckpointSaver, contender: Contender): (turn: number) => Promise<unknown> {
  const random = seeded(9);
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("answer", ({ messages }: { messages: BaseMessage[] }) => ({ messages: [messageAt(random, messages.length)] }))
    .addEdge(START, "answer")
    .compile({ checkpointer: saver });
  if (contender.records) (saver as TurnSaver).attach(graph);
  const config = { configurable: { thread_id: `bench-${contender.id}-${process.pid}` } };
  return (turn) => graph.invoke({ messages: [messageAt(random, 2 * turn)] }, config);
}
