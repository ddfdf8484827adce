import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { engines } from "../support/engines";
import { quiet } from "../support/s1-tools";

describe.each(engines)("$name", (engine) => {
  /** LangGraph's own suite, under a name it knows no exceptions for. */
  const initializer = {
    checkpointerName: "langgraph-checkpoint-turns",
    createCheckpointer: () => engine.open({ logger: quiet }),
    destroyCheckpointer: (saver: TurnSaver) => saver.close(),
  };

  validate(initializer);
  deltaChannelHistoryTests(initializer);
});
