// The director: starts the agent in a process of its own, kills it, starts another, rewinds, and checks that every promise was kept.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Ledger } from "./ledger";
import type { Message } from "./messages";
import { Outbox } from "./outbox";
import { brokenPromises, check, letters, of, stateAfter } from "./promises";
import { perform, type Performance } from "./stage";
import { summarise } from "./summary";
import { effectLine, event, explain, heading, rewindReport, say, taskBegins, turnRow } from "./timeline";

const KILL_IN = "4-cross-check work_b";
/** The letters of that body: the first one has its receipt when the process dies, the second one is out, the third one is not. */
const [RECORDED, IN_DOUBT, UNSENT] = ["range in nautical miles", "number of keepers", "year of electrification"] as const;

const startedAt = Date.now();
const folder = mkdtempSync(path.join(tmpdir(), "turns-demo-"));
const ledger = new Ledger(path.join(folder, "ledger.txt"));
const outbox = new Outbox(path.join(folder, "outbox.txt"));
const reportFile = path.join(folder, "report.md");

try {
  introduce();
  const first = await actOne();
  const second = await actTwo(first);
  const third = await actThree(first);
  await summarise(folder, KILL_IN, second, third);
  explain(`The demo took ${seconds()} s.`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (brokenPromises() > 0) {
  say(`\n${brokenPromises()} promises were not kept.`);
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
    "",
    "In task 4 the agent also writes letters to a museum, one for each topic. A letter is an effect: its",
    "intent is committed before it is sent, its receipt after. The outbox is a file that only grows.",
  );
}

async function actOne(): Promise<Performance> {
  heading("1. The agent runs, and is killed");
  let siblingDone = false;
  let posted = false;
  const performance = await perform(["run", folder, `work_b ${IN_DOUBT}`], (message, worker) => {
    show(message);
    if (message.type === "posted") posted = true;
    if (isDone(message, "4-cross-check", "work_a")) siblingDone = true;
    if (!posted || !siblingDone || worker.killed) return;
    event(`kill -9 ${worker.pid}: work_b of task 4 has just sent its second letter and has no receipt yet; work_a has ended`);
    worker.kill("SIGKILL");
  });
  say();
  check(performance.signal === "SIGKILL", "the process died of SIGKILL in the middle of a node");
  check(began(KILL_IN) === 1 && ended(KILL_IN) === 0, "work_b of task 4 had begun and not ended");
  const out = outbox.entries("sent").map(({ subject }) => subject);
  check(
    out.includes(RECORDED) && out.includes(IN_DOUBT) && !out.includes(UNSENT) && !letters(performance, "done").includes(IN_DOUBT),
    "of the three letters of work_b one was sent and recorded, one sent and not recorded, one not sent",
  );
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
  check(
    letters(performance, "replayed").join() === RECORDED,
    "the recorded letter was not sent again: the journal gave its receipt",
  );
  const doubts = of(performance, "effect").filter(({ event }) => event.effect.settledBy === "probe");
  check(
    letters(performance, "in-doubt").join() === IN_DOUBT && doubts.length === 1,
    "the one in flight was in doubt; the effect's probe found it in the outbox, and it was not sent again",
  );
  check(isSentOnce(6), "six letters went out, each exactly once");
  const repeated = [...ledger.count("began")].filter(([, times]) => times > 1);
  check(repeated.join() === `${KILL_IN},2`, "of all node bodies so far, only work_b of task 4 began more than once");
  check(contradictions() === 3, "the report names the three contradictions in the texts");
  say();
  for (const line of readFileSync(reportFile, "utf8").trim().split("\n")) say(`    ${line}`);
  return performance;
}

async function actThree(first: Performance): Promise<Performance> {
  heading("3. Back to the end of task 3, and on from there");
  explain(
    "A rewind undoes the effects behind a task, newest first, and deletes all that came after it, in one",
    "transaction, or nothing. First it is asked what would go.",
  );
  const sent = outbox.entries("sent").map(({ key }) => key);
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
  const retracted = outbox.entries("retracted").map(({ key }) => key);
  const undone = of(performance, "effect").flatMap(({ event }) => (event.what === "undone" ? [event.effect] : []));
  check(
    retracted.length === 6 && retracted.toSorted().join() === sent.toSorted().join(),
    "each of the six letters was retracted, once",
  );
  check(
    undone.map(({ key }) => key).join() === retracted.join() &&
      undone.every(({ seq }, at) => at === 0 || seq < (undone[at - 1]?.seq ?? 0)),
    "the newest one first",
  );
  check(isSentOnce(12), "tasks 4 and 5 ran again, and sent six letters of their own, with keys of their own");
  return performance;
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
    case "effect":
      return effectLine(message.event);
    case "posted":
    case "state":
      return;
  }
}

function isDone(message: Message, taskId: string, node: string): boolean {
  if (message.type !== "turn" || message.turn.turnType !== "Action") return false;
  return message.turn.taskId === taskId && message.turn.nodeName === node;
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

/** Whether so many letters went out, and none twice. */
function isSentOnce(letterCount: number): boolean {
  const keys = outbox.entries("sent").map(({ key }) => key);
  return keys.length === letterCount && new Set(keys).size === letterCount;
}
