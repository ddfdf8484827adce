import { GraphRunner } from "langgraph-checkpoint-turns";
import { line, quietLogger } from "../support/eff-world";
import { openSaver } from "../support/open-saver";

/**
 * A process of an application with defined effects: `define-child <role> <db>`, the world in the environment. Prints as JSON what it came to.
 * `run` runs the task that the environment names, `resume` goes on with it, `rewind` goes back to task a without a graph, and `blind` does so
 * without the module that defines the effects.
 */
const [role = "", path = ""] = process.argv.slice(2);
const saver = openSaver(path, { logger: quietLogger() });

async function main(): Promise<unknown> {
  if (role === "blind") return saver.rewind({ threadId: "t", toTask: "a" });
  const { createIssue } = await import("./define-effects");
  if (role === "rewind") return saver.rewind({ threadId: "t", toTask: "a" });
  const title = process.env["TASK"] ?? "";
  const act = async () => ({ log: [(await createIssue({ title })).marker] });
  const graph = line({ act, rest: () => ({}) }).compile({ checkpointer: saver });
  const runner = new GraphRunner(graph, { nodes: { act: { idempotent: true } } });
  if (role === "rewind by a runner") return runner.rewind({ threadId: "t", toTask: "a" });
  if (role === "resume") return runner.resume({ threadId: "t" });
  return runner.invoke({ log: [] }, { threadId: "t", taskId: title });
}

void main()
  .then(
    (value) => ({ value }),
    ({ code, message, data }: { code?: string; message: string; data?: unknown }) => ({ code, message, data }),
  )
  .then((ended) => process.stdout.write(JSON.stringify(ended)))
  .finally(() => saver.close());
