// The same without effect(): a crash between the charge and the save of the node's output charges twice.
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { GraphWorld } from "langgraph-checkpoint-turns/testing";

const State = Annotation.Root({ cents: Annotation<number>, receipt: Annotation<string> });

export const graph = ({ saver, ledger }: GraphWorld) =>
  new StateGraph(State)
    .addNode("charge", ({ cents }) => {
      ledger.append(`charged ${cents}`);
      return { receipt: `receipt for ${cents}` };
    })
    .addEdge(START, "charge")
    .compile({ checkpointer: saver });

export const input = { cents: 30 };
