// Starts the agent in separate processes, kills it, continues, rewinds, and checks that every promise was kept.
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { TASKS, THREAD } from "./agent";
import { type Ended, type Message, runWorker } from "./messages";
import {
  bold,
  brokenPromises,
  check,
  effectLine,
  explain,
  heading,
  killed,
  red,
  rewindReport,
  say,
  taskBegins,
  turnRow,
} from "./screen";
import { World } from "./world";

const KILL_IN = "2-olsen";
const startedAt = Date.now();
const root = path.join(tmpdir(), "turns-demo");
rmSync(root, { recursive: true, force: true });
const official = newFolder("official");
const turns = newFolder("turns");
const world = new World(path.join(turns, "world.txt"));

say(`An agent answers three complaints on one thread, each by this graph:  ${bold("read → (post ∥ pay) → close")}`);
say("It's killed when the second letter is out and its node hasn't returned. Then a new process continues.");
await onSqliteSaver();
const first = await crash();
const second = await resume(first);
await rewind(first, second);
await summarise();
if (brokenPromises() > 0) {
  say(`\n${brokenPromises()} promises were not kept.`);
  process.exitCode = 1;
}

async function onSqliteSaver(): Promise<void> {
  heading("1. On the official SqliteSaver");
  await runUntilKilled(["official", "run", official, KILL_IN]);
  say("  a new process continues with graph.invoke(null):");
  await runWorker(["official", "resume", official], show);
  const letters = new World(path.join(official, "world.txt")).all("letter").map(({ subject }) => subject);
  say(`  in the post box: ${letters.map((to) => (to === KILL_IN ? red(to) : to)).join(", ")}`);
  check(
    letters.filter((to) => to === KILL_IN).length === 2,
    "2-olsen got the same letter twice: a checkpoint can't know that it went out",
  );
}

async function crash(): Promise<Ended> {
  heading("2. On TurnSaver: the same agent, the same kill");
  explain(
    "  Each line is a row of langgraph_checkpoints: a Thought is committed before a node runs, an Action with",
    "  its output. A letter and a refund are effects: an intent is committed before, the result after.",
  );
  const worker = await runUntilKilled(["turns", "run", turns, KILL_IN]);
  check(worker.signal === "SIGKILL" && began("2-olsen post") === 1, "the process died in the middle of the node `post`");
  return worker;
}

async function resume(first: Ended): Promise<Ended> {
  heading("3. A new process opens the same file");
  const worker = await runWorker(["turns", "resume", turns], show);
  const inFlight = worker.of("in-flight")[0]?.turns.map((turn) => `${turn.taskId} ${turn.nodeName}`);
  const resumed = worker
    .of("turn")
    .filter(({ turn }) => turn.taskId === "2-olsen" && turn.turnType === "Thought")
    .map(({ turn }) => `${turn.nodeName}#${turn.attempt}`);
  check(worker.pid !== first.pid && worker.code === 0, "it's another process, and it finished all three tasks");
  check(inFlight?.join() === "2-olsen post", "in flight was exactly what the crash interrupted: `post` of task 2-olsen");
  check(worker.of("refused")[0]?.code === "UNFINISHED_WORK", "new input was refused while work was unfinished");
  check(resumed.join() === "post#2,close#1", "`post` ran again, then `close`; `read` and `pay` had completed and didn't");
  check(worker.effects("in-doubt").join() === "letter 2-olsen", "its letter was in doubt: the probe found it in the post box");
  check(isOnceEach("letter", 3) && isOnceEach("refund", 3), "three letters and three refunds went out, each exactly once");
  return worker;
}

async function rewind(first: Ended, second: Ended): Promise<void> {
  heading("4. Rewind to the end of task 1-brandt");
  const worker = await runWorker(["turns", "rewind", turns], show);
  const [dryRun, done] = worker.of("rewind").map(({ report }) => report);
  check(worker.code === 0, "the rewind succeeded, and so did the new run of task 2");
  check(JSON.stringify(dryRun?.removed) === JSON.stringify(done?.removed), "it deleted exactly what the dry run had said");
  check(worker.stateAfter("rewind") === first.stateAfter("1-brandt"), "the state is that of the end of task 1, value for value");
  const undone = ["refund 3-ito", "letter 3-ito", "refund 2-olsen", "letter 2-olsen"];
  check(
    worker.effects("undone").toSorted().join() === undone.toSorted().join(),
    "two letters were recalled, two refunds charged back",
  );
  const seqs = worker.of("effect").flatMap(({ event }) => (event.what === "undone" ? [event.effect.seq] : []));
  check(
    seqs.every((seq, at) => at === 0 || seq < seqs[at - 1]!),
    "the newest first, each once",
  );
  check(isOnceEach("letter", 4) && isOnceEach("refund", 4), "task 2 ran again, with a letter and a refund of its own");
  check(worker.stateAfter("2-olsen") === second.stateAfter("2-olsen"), "the state at its end is the same as before the rewind");
}

async function summarise(): Promise<void> {
  heading("5. What is left");
  say(
    `  how often each node began    read   post    pay  close   (${path.basename(turns)}/bodies.txt; only the nodes write to it)`,
  );
  for (const task of TASKS) {
    const counts = ["read", "post", "pay", "close"].map((node) => String(began(`${task} ${node}`)).padStart(6));
    say(`    ${task.padEnd(22)} ${counts.join(" ")}`);
  }
  const saver = TurnSaver.fromPath(path.join(turns, "agent.db"));
  try {
    const { total, rewound } = await saver.turns.tokenUsage(THREAD);
    say(`  tokens: ${total.input} in, ${total.output} out, and ${rewound.total} for what was rewound`);
    const { ok, checked, problemCount } = await saver.verify();
    const rows = Object.values(checked).reduce((sum, count) => sum + count, 0);
    check(ok, `saver.verify() looked at ${rows} rows and found ${problemCount} problems`);
    const progress = readFileSync(path.join(turns, "CHECKPOINT.md"), "utf8");
    check(
      TASKS.slice(0, 2).every((task) => progress.includes(`| ${task} | ✅ completed |`)),
      "CHECKPOINT.md has both tasks as completed",
    );
  } finally {
    saver.close();
  }
  say(`\nLook at what it left in ${bold(turns)}:`);
  say("  agent.db       state, turns, effects, and the archive of the rewind: any SQLite browser opens it");
  say("  CHECKPOINT.md  the progress, kept up to date by every process");
  say("  world.txt      every letter and refund that really happened, and what was undone");
  say(`Next: ${bold("npx tsx examples/minimal.ts")}, the same in 30 lines. (${((Date.now() - startedAt) / 1000).toFixed(1)} s)`);
}

/** Runs a worker until the letter is out and the refund beside it is saved, then kills it. */
async function runUntilKilled(args: string[]): Promise<Ended> {
  let isPosted = false;
  let isPaid = false;
  return runWorker(args, (message, worker) => {
    show(message);
    if (message.type === "posted" && message.to === KILL_IN) isPosted = true;
    if (message.type === "paid" && message.to === KILL_IN) isPaid = true;
    if (message.type === "turn" && message.turn.taskId === KILL_IN && message.turn.nodeName === "pay")
      isPaid ||= message.turn.durable;
    if (!isPosted || !isPaid || worker.killed) return;
    // The official saver saves after the node, so its refund gets time to be saved.
    void sleep(args[0] === "official" ? 200 : 0).then(() => {
      if (worker.killed) return;
      killed(worker.pid);
      worker.kill("SIGKILL");
    });
  });
}

function show(message: Message): void {
  switch (message.type) {
    case "task":
      return taskBegins(message.taskId);
    case "note":
      return say(`    ${message.text}`);
    case "turn":
      return turnRow(message.turn, message.note);
    case "effect":
      return effectLine(message.event);
    case "in-flight":
      for (const { nodeName, taskId, attempt } of message.turns)
        say(`  in flight: ${nodeName} of task ${taskId}, attempt ${attempt}`);
      return;
    case "refused":
      say(`  new input: refused (${message.code}); runner.resume() comes first`);
      return taskBegins(`${KILL_IN} (resumed)`);
    case "rewind":
      return rewindReport(message.report);
    default:
  }
}

function began(body: string): number {
  return new World(path.join(turns, "bodies.txt")).all("began").filter(({ subject }) => subject === body).length;
}

/** Whether exactly this many went out, each with its own key. */
function isOnceEach(what: string, count: number): boolean {
  const keys = world.all(what).map(({ key }) => key);
  return keys.length === count && new Set(keys).size === count;
}

function newFolder(name: string): string {
  const folder = path.join(root, name);
  mkdirSync(folder, { recursive: true });
  return folder;
}
