import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";

/** Runs one slow node on a thread at a given moment: `resume-child.ts <db> <time>`. Prints "done" or the code of the refusal. */
const [path = "", at = "0"] = process.argv.slice(2);
const saver = TurnSaver.fromPath(path);
const runner = new GraphRunner(
  new StateGraph(Annotation.Root({ x: Annotation<number>() }))
    .addNode("slow", async () => {
      await new Promise((resolve) => setTimeout(resolve, 3000));
      return {};
    })
    .addEdge(START, "slow")
    .compile({ checkpointer: saver }),
);
await new Promise((resolve) => setTimeout(resolve, Math.max(0, Number(at) - Date.now())));
const outcome = await runner.invoke({ x: 1 }, { threadId: "t" }).then(
  () => "done",
  (error: unknown) => (TurnsError.is(error) ? error.code : String(error)),
);
process.stdout.write(`${outcome}\n`);
saver.close();
