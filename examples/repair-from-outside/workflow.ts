// One process of the workflow: `workflow.ts <folder> run|resume|status`. It takes its nodes from the steps.ts in that folder, and
// shares only the database there with the other processes. It prints JSON.
import path from "node:path";
import { pathToFileURL } from "node:url";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import type * as Steps from "./steps";

const [folder = "", what = "run"] = process.argv.slice(2);
const { createIssue, sendMessage, publish } = (await import(pathToFileURL(path.join(folder, "steps.ts")).href)) as typeof Steps;

const State = Annotation.Root({
  version: Annotation<string>(),
  notes: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});
const saver = TurnSaver.fromPath(path.join(folder, "agent.db"));
const graph = new StateGraph(State)
  .addNode("create_issue", createIssue)
  .addNode("send_message", sendMessage)
  .addNode("publish", publish)
  .addEdge(START, "create_issue")
  .addEdge("create_issue", "send_message")
  .addEdge("send_message", "publish")
  .compile({ checkpointer: saver });
// "refuse": a repair that changed more than node 3 stops here. A restart would create the issue again.
const runner = new GraphRunner(graph, { graphId: "release", drift: "refuse" });
const threadId = "release-1.4";

async function work(): Promise<unknown> {
  if (what === "run") return runner.invoke({ version: "1.4" }, { threadId });
  if (what === "resume") return runner.resume({ threadId });
  const { completed, failed, resumable, reason } = await runner.status(threadId);
  return {
    completed: completed.map(({ nodeName: node }) => node),
    failed: failed.map(({ nodeName: node, error }) => ({ node, error: error?.message })),
    resumable,
    reason: reason?.message,
  };
}

const told = await work().then(
  (result) => ({ result }),
  (error: unknown) => ({ error: (error as Error).message }),
);
process.stdout.write(`${JSON.stringify(told)}\n`);
saver.close();
