/** For each schema that a line of its input names, opens it and saves something; answers with a line: how it ended. */
import { createInterface } from "node:readline";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { PostgresTurnSaver } from "../../src/postgres/index";
import { quiet } from "../support/s1-tools";

for await (const schema of createInterface(process.stdin)) {
  const saver = PostgresTurnSaver.fromConnString(process.env["TURNS_PG_URL"]!, { schema, logger: quiet });
  const thread = { configurable: { thread_id: `of ${process.pid}` } };
  const ended = await saver.put(thread, emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {}).then(
    () => "saved",
    (error: Error) => `${(error as { code?: string }).code}: ${error.message}`,
  );
  await saver.close();
  process.stdout.write(`${ended.replaceAll("\n", " ")}\n`);
}
