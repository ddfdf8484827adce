// A process that runs the agent on a database file. `npm run demo` starts three of them, one after the other.
import { createHash } from "node:crypto";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { GraphRunner, TurnsError, TurnSaver, type Turn } from "langgraph-checkpoint-turns";
import { createAgent, TASKS, THREAD, type TaskId } from "./agent";
import { Ledger } from "./ledger";
import { tell } from "./messages";
import { Outbox } from "./outbox";

const threadId = THREAD;
const PACE_MS = 30;
/** A worker that waits to be killed and is not ends by itself. */
const NOT_KILLED_MS = 10_000;

const [role = "", folder = "", killIn = ""] = process.argv.slice(2);
const silent = (): void => undefined;
const saver = TurnSaver.fromPath(path.join(folder, "agent.db"), {
  logger: { debug: silent, info: silent, warn: (_, message) => tell({ type: "warning", message }), error: silent },
});
const outbox = new Outbox(path.join(folder, "outbox.txt"));
const agent = createAgent({
  saver,
  ledger: new Ledger(path.join(folder, "ledger.txt")),
  textsFolder: fileURLToPath(new URL("texts", import.meta.url)),
  reportFile: path.join(folder, "report.md"),
  pace: PACE_MS,
  outbox,
  onPosted: async (node, subject) => {
    if (`${node} ${subject}` !== killIn) return;
    await told;
    tell({ type: "posted", node, subject });
    await sleep(NOT_KILLED_MS);
  },
});
const runner = new GraphRunner(agent, { checkpointFile: path.join(folder, "CHECKPOINT.md") });

// Events come synchronously; a turn's note is read from its state, which is asynchronous, so they queue up.
let told: Promise<void> = Promise.resolve();
saver.events.on("turn", (turn) => {
  // An Action comes twice: when the node has returned, and again when its output is committed. The second one counts.
  if (turn.turnType === "Thought" || turn.durable) told = told.then(() => tellTurn(turn));
});

saver.events.on("effect", (event) => {
  told = told.then(() => tell({ type: "effect", event }));
});

if (role === "resume") await resume();
if (role === "rewind") await rewind();
await runWhatIsLeft();
await told;
saver.close();

async function runWhatIsLeft(): Promise<void> {
  const begun = new Set((await saver.listTasks(threadId)).map((span) => span.taskId));
  for (const taskId of TASKS.filter((candidate) => !begun.has(candidate))) await runTask(taskId);
}

async function runTask(taskId: TaskId): Promise<void> {
  await told;
  tell({ type: "task", taskId });
  await runner.invoke({ task: taskId }, { threadId, taskId });
  await tellState(taskId);
}

/** The second process: it knows nothing but the file. */
async function resume(): Promise<void> {
  tell({ type: "in-flight", turns: await runner.inFlight(threadId) });
  try {
    await runner.invoke({ task: "5-report" }, { threadId, taskId: "5-report" });
  } catch (error) {
    tell({ type: "refused", code: TurnsError.is(error) ? error.code : String(error) });
  }
  await runner.resume({ threadId });
  await tellState("4-cross-check");
}

/** The third process: back to the end of task 3. */
async function rewind(): Promise<void> {
  const request = { threadId, toTask: "3-extract", tasks: TASKS };
  tell({ type: "rewind", report: await runner.rewind({ ...request, dryRun: true }) });
  const report = await runner.rewind(request);
  await told;
  tell({ type: "rewind", report });
  await tellState("rewind");
}

async function tellTurn(turn: Turn): Promise<void> {
  const state = turn.turnType === "Action" ? await saver.turnState(turn) : {};
  tell({ type: "turn", turn, note: (state["notes"] as string[] | undefined)?.join() ?? "" });
}

async function tellState(after: string): Promise<void> {
  await told;
  const { values } = await agent.getState({ configurable: { thread_id: threadId } });
  tell({ type: "state", after, digest: createHash("sha256").update(JSON.stringify(values)).digest("hex") });
}
