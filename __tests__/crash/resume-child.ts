import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnsError } from "langgraph-checkpoint-turns";
import { openSaver } from "../support/open-saver";

/**
 * One of several processes that start a run on one thread at once: `resume-child.ts <db> <processes>`. They wait for each other, and the
 * one that runs does not end before all others have been refused. Prints "done" or the code of the refusal.
 */
const [path = "", processes = "1"] = process.argv.slice(2);
const others = Number(processes) - 1;

async function until(prefix: string, count: number): Promise<void> {
  while (readdirSync(dirname(path)).filter((name) => name.startsWith(prefix)).length < count) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const mark = (prefix: string): void => writeFileSync(join(dirname(path), `${prefix}${process.pid}`), "");

const saver = openSaver(path);
const runner = new GraphRunner(
  new StateGraph(Annotation.Root({ x: Annotation<number>() }))
    .addNode("slow", async () => {
      await until("refused-", others);
      return {};
    })
    .addEdge(START, "slow")
    .compile({ checkpointer: saver }),
);
mark("ready-");
await until("ready-", others + 1);
const outcome = await runner.invoke({ x: 1 }, { threadId: "t" }).then(
  () => "done",
  (error: unknown) => {
    mark("refused-");
    return TurnsError.is(error) ? error.code : String(error);
  },
);
process.stdout.write(`${outcome}\n`);
saver.close();
