// Makes a database worth looking at: threads that crashed, wait, were left, failed and finished. `npx tsx run.ts [file]`
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { rmSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { HumanMessage } from "@langchain/core/messages";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { invoice, lighthouse, report, support } from "./agent";

const [file = "lighthouse.db", part] = process.argv.slice(2);
const letters = path.join(path.dirname(path.resolve(file)), "letters.txt");

const say = (text: string) => new HumanMessage(text);

/** The parts that run in a process of their own. */
const PARTS: Readonly<Record<string, (saver: TurnSaver) => Promise<unknown>>> = {
  lighthouse: async (saver) => {
    const runner = new GraphRunner(lighthouse(saver));
    for (const [taskId, text] of [
      ["1-plan", "How high is the lighthouse of Hook Rock?"],
      ["2-read", "Read what there is."],
      ["3-extract", "Which figures do the sources give?"],
      ["4-cross-check", "Cross-check the height."],
    ] as const)
      await runner.invoke({ task: taskId, messages: [say(text)] }, { threadId: "lighthouse", taskId });
  },
  support: async (saver) => {
    const runner = new GraphRunner(support(saver));
    await runner.invoke({ customer: "881", messages: [say("My lamp is dark.")] }, { threadId: "support-881", taskId: "ticket" });
  },
};

if (part === undefined) await everything();
else await PARTS[part]?.(TurnSaver.fromPath(file));

async function everything(): Promise<void> {
  for (const old of [file, `${file}-wal`, `${file}-shm`, letters]) rmSync(old, { force: true });
  process.env["LETTERS"] = letters;
  const saver = TurnSaver.fromPath(file);
  await reports(saver);
  const failing = new GraphRunner(support(saver));
  const dark = { customer: "880", messages: [say("My lamp blinks.")] };
  await failing.invoke(dark, { threadId: "support-880", taskId: "ticket" }).catch(() => undefined);
  const paying = new GraphRunner(invoice(saver));
  await paying.invoke({ messages: [say("Pay invoice 2217.")] }, { threadId: "invoice-2217", taskId: "pay" });
  await ended("support", { LEAVES_AT: "881" }, "answering", "SIGTERM");
  await ended("lighthouse", { DIES_AT: "number of keepers" }, "posted", "SIGKILL");
  const [inFlight] = await saver.turns.inFlight("lighthouse");
  assert.equal(inFlight?.nodeName, "work_b");
  saver.close();
  console.log(`${file}: 5 threads. One process was killed in the middle of a letter.`);
  console.log(`Look: npx turns ${file}`);
}

/** Four days. Two are rewound, and one is written again. */
async function reports(saver: TurnSaver): Promise<void> {
  const graph = report(saver);
  const runner = new GraphRunner(graph);
  const write = (day: string, taskId = day) =>
    runner.invoke({ day, messages: [say(`Report ${day}.`)] }, { threadId: "nightly-report", taskId });
  for (const day of ["monday", "tuesday", "wednesday", "thursday"]) await write(day);
  await runner.rewind({ threadId: "nightly-report", toTask: "tuesday" });
  await write("wednesday");
  // Somebody tries another wording from an older checkpoint: a second branch.
  const history = [];
  for await (const state of graph.getStateHistory({ configurable: { thread_id: "nightly-report" } })) history.push(state);
  const older = history.find(({ next }) => next.includes("write"));
  assert(older);
  const from = { configurable: { ...older.config.configurable, task_id: "wednesday" } };
  await graph.updateState(from, { lines: ["wednesday: 41 boats, calm"] });
  await runner.resume({ threadId: "nightly-report" });
}

/** Runs a part in a process of its own, until it says so; then ends that. */
async function ended(name: string, env: NodeJS.ProcessEnv, when: string, signal: NodeJS.Signals): Promise<void> {
  const execArgv = ["--import", "tsx"];
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), [file, name], { env: { ...process.env, ...env }, execArgv });
  child.on("message", (message) => {
    if (message === when) child.kill(signal);
  });
  const [code, by] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.on("exit", (...how) => resolve(how));
  });
  assert.equal(by, signal, `process ${child.pid} exited with ${code}`);
}
