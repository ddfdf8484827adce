// The director: starts the agent in a process of its own, kills it, starts another, rewinds, and checks that every promise was kept.
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { createAgent, TASKS } from "./agent";
import { Ledger } from "./ledger";
import type { Message } from "./messages";
import { perform, type Performance } from "./stage";
import { event, explain, heading, ledgerTable, promise, rewindReport, say, taskBegins, turnRow } from "./timeline";

const NODES = ["planner", "work_a", "work_b", "review"];
const KILL_IN = "4-cross-check work_b";

const startedAt = Date.now();
const folder = mkdtempSync(path.join(tmpdir(), "turns-demo-"));
const ledger = new Ledger(path.join(folder, "ledger.txt"));
const reportFile = path.join(folder, "report.md");
let broken = 0;

try {
  introduce();
  const first = await actOne();
  const second = await actTwo(first);
  const third = await actThree(first);
  await summarise(second, third);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (broken > 0) {
  say(`\n${broken} promises were not kept.`);
  process.exitCode = 1;
}

function introduce(): void {
  say("An agent reads five short texts about a lighthouse, finds where they contradict each other, and");
  say("writes a report. Its five tasks run on one thread of one SQLite file. Each task runs one graph:");
  say();
  say("    planner ──▶ work_a ∥ work_b ──▶ review");
  say();
  explain(
    "A line below is a turn, a row of the table langgraph_checkpoints. Before a node's work begins its",
    "Thought is committed; when the node has ended its Action is, together with its output. A Thought",
    "without an Action is work in flight. `seq` is the order of everything in the file (checkpoints take",
    "numbers too), `attempt` counts how often the same piece of work was begun.",
  );
}

async function actOne(): Promise<Performance> {
  heading("1. The agent runs, and is killed");
  let siblingDone = false;
  let halfway = false;
  const performance = await perform(["run", folder, KILL_IN], (message, worker) => {
    show(message);
    if (message.type === "halfway") halfway = true;
    if (isDone(message, "4-cross-check", "work_a")) siblingDone = true;
    if (!halfway || !siblingDone || worker.killed) return;
    event(`kill -9 ${worker.pid}: work_b of task 4 has done half of its work, work_a beside it has ended`);
    worker.kill("SIGKILL");
  });
  say();
  check(performance.signal === "SIGKILL", "the process died of SIGKILL in the middle of a node");
  check(began(KILL_IN) === 1 && ended(KILL_IN) === 0, "work_b of task 4 had begun and not ended");
  return performance;
}

async function actTwo(first: Performance): Promise<Performance> {
  heading("2. A new process opens the same file and goes on");
  explain("It shares nothing with the first but the file. What the crash interrupted is a Thought without Action.");
  const performance = await perform(["resume", folder], show);
  const inFlight = of(performance, "in-flight")[0]?.turns.map((turn) => `${turn.taskId} ${turn.nodeName}`) ?? [];
  const resumed = of(performance, "turn")
    .filter(({ turn }) => turn.taskId === "4-cross-check" && turn.turnType === "Thought")
    .map(({ turn }) => `${turn.nodeName}#${turn.attempt}`);
  say();
  check(first.pid !== performance.pid && performance.code === 0, "it was another process, and it finished all five tasks");
  check(inFlight.join() === KILL_IN, "in flight was exactly what the crash interrupted: work_b of task 4");
  check(of(performance, "refused")[0]?.code === "UNFINISHED_WORK", "new input was refused while work was unfinished");
  check(resumed.join() === "work_b#2,review#1", "the resume ran work_b again, then review, and nothing else of task 4");
  const repeated = [...ledger.count("began")].filter(([, times]) => times > 1);
  check(repeated.join() === `${KILL_IN},2`, "of all node bodies so far, only work_b of task 4 began more than once");
  check(contradictions() === 3, "the report names the three contradictions in the texts");
  say();
  for (const line of readFileSync(reportFile, "utf8").trim().split("\n")) say(`    ${line}`);
  return performance;
}

async function actThree(first: Performance): Promise<Performance> {
  heading("3. Back to the end of task 3, and on from there");
  explain("A rewind deletes all that came after a task, in one transaction, or nothing. First it is asked", "what would go.");
  say();
  const performance = await perform(["rewind", folder], show);
  const [dryRun, done] = of(performance, "rewind").map(({ report }) => report);
  say();
  check(performance.code === 0, "the rewind and the tasks after it succeeded");
  check(
    JSON.stringify(dryRun?.removed) === JSON.stringify(done?.removed),
    "the rewind deleted exactly what the dry run had said",
  );
  check(
    stateAfter(performance, "rewind") === stateAfter(first, "3-extract"),
    "the state is that of the end of task 3, value for value",
  );
  return performance;
}

async function summarise(second: Performance, third: Performance): Promise<void> {
  heading("Summary");
  say("How often each node body began, by a ledger that only the bodies write to:");
  say();
  ledgerTable(ledger.count("began"), TASKS, NODES);
  say();
  const once = TASKS.slice(0, 3).flatMap((task) => NODES.map((node) => `${task} ${node}`));
  const twice = TASKS.slice(3).flatMap((task) => NODES.map((node) => `${task} ${node}`));
  check(
    once.every((body) => began(body) === 1),
    "tasks 1 to 3 ran once: neither the crash nor the rewind repeated any of it",
  );
  check(
    twice.every((body) => began(body) === (body === KILL_IN ? 3 : 2)),
    "tasks 4 and 5 ran twice because of the rewind; work_b of task 4 once more because of the crash",
  );
  const states = [stateAfter(second, "5-report"), stateAfter(third, "5-report")];
  check(states[0] !== undefined && states[0] === states[1], "the state at the end is the same before and after the rewind");
  check(
    readFileSync(reportFile, "utf8") === (await withoutCrash()),
    "the report is the one that a run without crash and rewind writes",
  );
  say();
  const size = statSync(path.join(folder, "agent.db")).size;
  say(`The database file has ${Math.round(size / 1024)} KiB, the archive of the rewind included. The demo took ${seconds()} s.`);
}

/** The same agent in memory, undisturbed; what it writes is what must come out. */
async function withoutCrash(): Promise<string> {
  const saver = TurnSaver.fromPath(":memory:");
  const file = path.join(folder, "undisturbed.md");
  const runner = new GraphRunner(
    createAgent({
      saver,
      ledger: new Ledger(path.join(folder, "undisturbed.txt")),
      textsFolder: fileURLToPath(new URL("texts", import.meta.url)),
      reportFile: file,
      pace: 0,
    }),
  );
  for (const taskId of TASKS) await runner.invoke({ task: taskId }, { threadId: "undisturbed", taskId });
  saver.close();
  return readFileSync(file, "utf8");
}

function show(message: Message): void {
  switch (message.type) {
    case "task":
      return taskBegins(message.taskId);
    case "turn":
      return turnRow(message.turn, message.note);
    case "in-flight":
      say();
      for (const turn of message.turns) event(`in flight: ${turn.nodeName} of task ${turn.taskId}, attempt ${turn.attempt}`);
      return;
    case "refused":
      event(`new input for task 5 is refused (${message.code}): it would drop the unfinished work. So: resume.`);
      return taskBegins("4-cross-check (resumed)");
    case "warning":
      return event(`warning: ${message.message}`);
    case "rewind":
      return rewindReport(message.report);
    case "halfway":
    case "state":
      return;
  }
}

function check(kept: boolean, text: string): void {
  if (!kept) broken += 1;
  promise(kept, text);
}

function of<T extends Message["type"]>(performance: Performance, type: T): Extract<Message, { type: T }>[] {
  return performance.messages.filter((message): message is Extract<Message, { type: T }> => message.type === type);
}

function isDone(message: Message, taskId: string, node: string): boolean {
  if (message.type !== "turn" || message.turn.turnType !== "Action") return false;
  return message.turn.taskId === taskId && message.turn.nodeName === node;
}

function stateAfter(performance: Performance, after: string): string | undefined {
  return of(performance, "state").find((message) => message.after === after)?.digest;
}

function began(body: string): number {
  return ledger.count("began").get(body) ?? 0;
}

function ended(body: string): number {
  return ledger.count("ended").get(body) ?? 0;
}

function contradictions(): number {
  return readFileSync(reportFile, "utf8").split("CONTRADICTION").length - 1;
}

function seconds(): string {
  return ((Date.now() - startedAt) / 1000).toFixed(1);
}
