// A process that runs the agent on a database file. `npm run demo` starts five of them, one after the other.
import { createHash } from "node:crypto";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { defineEffect, GraphRunner, TurnSaver, TurnsError, type Turn } from "langgraph-checkpoint-turns";
import { createAgent, TASKS, type TaskId, THREAD } from "./agent";
import { tell } from "./messages";
import { World } from "./world";

/** A worker that waits to be killed, and isn't, exits by itself after this time. */
const NOT_KILLED_MS = 10_000;

const [saverName = "", role = "", folder = "", killIn = ""] = process.argv.slice(2);
const world = new World(path.join(folder, "world.txt"));
const bodies = new World(path.join(folder, "bodies.txt"));
let told: Promise<void> = Promise.resolve();

/** The post office takes a letter, and may be slow to answer. */
async function postOffice(to: TaskId, key: string): Promise<string> {
  world.record("letter", key, to);
  await told;
  tell({ type: "posted", to });
  if (to === killIn) await sleep(NOT_KILLED_MS);
  return `letter to ${to} is out`;
}

async function bank(to: TaskId, key: string, euros: number): Promise<string> {
  world.record("refund", key, `${to} ${euros}`);
  return `${euros} euros are paid to ${to}`;
}

await (saverName === "official" ? onSqliteSaver() : onTurnSaver());

async function onSqliteSaver(): Promise<void> {
  const checkpointer = SqliteSaver.fromConnString(path.join(folder, "official.db"));
  const agent = createAgent({
    checkpointer,
    bodies,
    post: ({ to }) => postOffice(to, ""),
    pay: async ({ to, euros }) => {
      const note = await bank(to, "", euros);
      tell({ type: "paid", to });
      return note;
    },
  });
  const config = { configurable: { thread_id: THREAD } };
  if (role === "run") {
    for (const task of TASKS.slice(0, 2)) {
      tell({ type: "task", taskId: task });
      await report(await agent.stream({ task }, { ...config, streamMode: "updates" }));
    }
  } else await report(await agent.stream(null, { ...config, streamMode: "updates" }));
}

async function report(chunks: AsyncIterable<Record<string, { notes?: string[]; cached?: boolean }>>): Promise<void> {
  for await (const { __metadata__: metadata, ...nodes } of chunks) {
    // Chunks saved before the crash are repeated, marked as cached.
    if (metadata?.cached === true) continue;
    for (const [node, update] of Object.entries(nodes)) tell({ type: "note", text: `${node.padEnd(6)} ${update.notes?.join()}` });
  }
}

async function onTurnSaver(): Promise<void> {
  const quiet = (): void => undefined;
  const saver = TurnSaver.fromPath(path.join(folder, "agent.db"), {
    logger: { debug: quiet, info: quiet, warn: (_, message) => tell({ type: "warning", message }), error: quiet },
  });

  const letter = defineEffect("letter", {
    run: ({ to }: { to: TaskId; text: string }, { key }) => postOffice(to, key),
    // Called when nobody knows whether the letter went out.
    probe: ({ key, input: { to } }) =>
      world.all("letter").some((sent) => sent.key === key) ? `letter to ${to} is out` : undefined,
    // Called by a rewind.
    undo: ({ key, input }) => world.record("letter recalled", key, input.to),
  });
  const refund = defineEffect("refund", {
    run: ({ to, euros }: { to: TaskId; euros: number }, { key }) => bank(to, key, euros),
    undo: ({ key, input }) => world.record("refund charged back", key, input.to),
  });

  const agent = createAgent({ checkpointer: saver, bodies, post: letter, pay: refund });
  const runner = new GraphRunner(agent, { checkpointFile: path.join(folder, "CHECKPOINT.md") });

  // Events are synchronous and reading a turn's state isn't, so the reads are queued.
  saver.events.on("turn", (turn) => {
    // An Action is reported twice: when the node has returned, and when its output is committed. The second one counts.
    if (turn.turnType === "Thought" || turn.durable) told = told.then(() => tellTurn(turn));
  });
  saver.events.on("effect", (event) => {
    told = told.then(() => tell({ type: "effect", event }));
  });

  if (role === "resume") {
    tell({ type: "in-flight", turns: await runner.inFlight(THREAD) });
    try {
      await runner.invoke({ task: "3-ito" }, { threadId: THREAD, taskId: "3-ito" });
    } catch (error) {
      tell({ type: "refused", code: TurnsError.is(error) ? error.code : String(error) });
    }
    await runner.resume({ threadId: THREAD });
    await tellState("2-olsen");
  }
  if (role === "rewind") {
    const request = { threadId: THREAD, toTask: "1-brandt" };
    tell({ type: "rewind", report: await runner.rewind({ ...request, dryRun: true }) });
    const report = await runner.rewind(request);
    await told;
    tell({ type: "rewind", report });
    await tellState("rewind");
  }
  const begun = new Set((await saver.turns.tasks(THREAD)).map((task) => task.taskId));
  const due = TASKS.filter((task) => !begun.has(task));
  for (const task of role === "rewind" ? due.slice(0, 1) : due) {
    await told;
    tell({ type: "task", taskId: task });
    await runner.invoke({ task }, { threadId: THREAD, taskId: task });
    await tellState(task);
  }
  saver.close();

  async function tellTurn(turn: Turn): Promise<void> {
    const state = turn.turnType === "Action" ? await saver.turns.state(turn) : {};
    tell({ type: "turn", turn, note: (state["notes"] as string[] | undefined)?.join() ?? "" });
  }

  async function tellState(after: string): Promise<void> {
    await told;
    const { values } = await agent.getState({ configurable: { thread_id: THREAD } });
    tell({ type: "state", after, digest: createHash("sha256").update(JSON.stringify(values)).digest("hex") });
  }
}
