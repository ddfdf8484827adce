// A graph to be tortured. It charges a card within effect(), and its probe searches the bank (here: the ledger) for the key.
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner } from "langgraph-checkpoint-turns";
import type { GraphWorld } from "langgraph-checkpoint-turns/testing";

const State = Annotation.Root({ cents: Annotation<number>, receipt: Annotation<string> });

export function graph({ saver, ledger }: GraphWorld): GraphRunner<any> {
  const builder = new StateGraph(State)
    .addNode("charge", async ({ cents }) => {
      const charge = (key: string): string => {
        ledger.append(`charged ${cents}`, key);
        return `receipt for ${cents}`;
      };
      const probe = (key: string): string | undefined =>
        ledger.count(`charged ${cents}`, key) > 0 ? `receipt for ${cents}` : undefined;
      return { receipt: await effect("charge", charge, { input: { cents }, probe }) };
    })
    .addEdge(START, "charge");
  return new GraphRunner(builder.compile({ checkpointer: saver }), { nodes: { charge: { idempotent: true } } });
}

export const input = { cents: 30 };
