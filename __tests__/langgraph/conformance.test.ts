import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import { TurnSaver } from "langgraph-checkpoint-turns";

/** LangGraph's own suite, under a name it knows no exceptions for. */
const initializer = {
  checkpointerName: "langgraph-checkpoint-turns",
  createCheckpointer: () => TurnSaver.fromPath(":memory:", { logger: { debug() {}, info() {}, warn() {}, error() {} } }),
  destroyCheckpointer: (saver: TurnSaver) => saver.close(),
};

validate(initializer);
deltaChannelHistoryTests(initializer);
