import { randomUUID } from "node:crypto";
import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { quiet } from "../support/s1-tools";

const url = process.env["TURNS_PG_URL"] ?? "postgresql://postgres@127.0.0.1:54330/postgres";
const initializer = {
  checkpointerName: "langgraph-checkpoint-turns",
  createCheckpointer: () => PostgresTurnSaver.fromConnString(url, { schema: `t_${randomUUID().slice(0, 8)}`, logger: quiet }),
  destroyCheckpointer: (saver: PostgresTurnSaver) => saver.close(),
};
validate(initializer);
deltaChannelHistoryTests(initializer);
