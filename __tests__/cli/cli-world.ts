import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, Command, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { defineEffect, effect, type TurnSaver } from "langgraph-checkpoint-turns";
import { openSaver } from "../support/open-saver";

/*
 * Threads worth looking at: one that is finished, one that failed, one that waits for an answer, and one whose process was killed
 * in the middle of an effect. `tsx cli-world.ts PATH` makes the last one, and dies.
 */

const Order = Annotation.Root({ ...MessagesAnnotation.spec, total: Annotation<number>, note: Annotation<string> });
type Mode = "done" | "fails" | "asks" | "dies" | "ships" | "posts";

const charge = defineEffect("cli-charge", {
  run: (input: { total: number }) => ({ receipt: `r-${input.total}` }),
  undo: async () => {
    if (process.env["UNDO_TELLS"] === "1") {
      process.stderr.write("undoing\n");
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      process.stderr.write("undone\n");
    }
    if (process.env["UNDO_FAILS"] === "1") throw new Error("the bank is closed");
    if (process.env["UNDO_DIES"] === "1") process.kill(process.pid, "SIGKILL");
  },
});

/** It has no probe: whether it happened, only a person can tell. */
const post = defineEffect("cli-post", { run: () => process.kill(process.pid, "SIGKILL"), undo: () => undefined });

function graphOf(saver: TurnSaver, mode: Mode) {
  const usage_metadata = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
  const builder = new StateGraph(Order)
    .addNode("plan", ({ total }) => ({
      messages: [new AIMessage({ content: `planned ${total}`, usage_metadata })],
      note: `n${total}`,
    }))
    .addNode("charge", async ({ total }) => {
      if (mode === "fails") throw new Error("card declined");
      if (mode === "dies" || mode === "ships") await effect("ship", () => process.kill(process.pid, "SIGKILL"));
      if (mode === "posts") await post(undefined);
      await charge({ total });
      return { total: total + 1 };
    })
    .addNode("ask", () => {
      if (mode === "asks") interrupt({ question: "Ship it?" });
      return {};
    })
    .addEdge(START, "plan")
    .addEdge("plan", "charge")
    .addEdge("charge", "ask")
    .addEdge("ask", END);
  return saver.attach(builder.compile({ checkpointer: saver }));
}

async function runOn(saver: TurnSaver, threadId: string, taskId: string, mode: Mode, total: number): Promise<void> {
  const input = { messages: [new HumanMessage(`go ${total}`)], total };
  const run = graphOf(saver, mode).invoke(input, { configurable: { thread_id: threadId, task_id: taskId } });
  await (mode === "fails" ? run.catch(() => undefined) : run);
}

/** What `--graph` names in tests: graphs that finish, fail and ask. */
export const graph = (saver: TurnSaver) => graphOf(saver, "done");
export const fails = (saver: TurnSaver) => graphOf(saver, "fails");
export const asks = (saver: TurnSaver) => graphOf(saver, "asks");
/** Somebody else's answer comes first. */
export async function answersFirst(saver: TurnSaver) {
  const configurable = { thread_id: "waiting" };
  await graphOf(saver, "asks").invoke(new Command({ resume: true }), { configurable });
  return graphOf(saver, "asks");
}
/** Meets the effect in doubt of the thread whose process was killed. */
export const ships = (saver: TurnSaver) => graphOf(saver, "ships");
export const posts = (saver: TurnSaver) => graphOf(saver, "posts");
export const notAGraph = 3;

export async function makeThreads(saver: TurnSaver): Promise<void> {
  await runOn(saver, "finished", "first", "done", 1);
  await runOn(saver, "finished", "second", "done", 5);
  await runOn(saver, "failed", "only", "fails", 2);
  await runOn(saver, "waiting", "only", "asks", 3);
}

/** In a process of its own, so that its graphs have the source that `--graph` finds. */
async function makeAll(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const saver = openSaver(path);
    await makeThreads(saver);
    await (saver.close() as unknown);
  }
}
if (process.argv[2] === "makes") void makeAll(process.argv.slice(3));
if (process.argv[2] === "dies") {
  const saver = openSaver(process.argv[3] ?? "");
  void runOn(saver, "killed", "only", "dies", 4);
}
if (process.argv[2] === "posts") void runOn(openSaver(process.argv[3] ?? ""), "posting", "only", "posts", 4);
if (process.argv[2] === "is-lost") {
  const configurable = { thread_id: "lost", task_id: "only" };
  void graphOf(openSaver(process.argv[3] ?? ""), "dies").invoke({ total: 4 }, { configurable, durability: "exit" });
}
