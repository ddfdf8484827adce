// The end of the demo: what the witnesses say (ledger, outbox, report), and what the file says about itself.
import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { createAgent, TASKS, THREAD } from "./agent";
import { Ledger } from "./ledger";
import { Outbox } from "./outbox";
import { check, stateAfter } from "./promises";
import type { Performance } from "./stage";
import { explain, heading, ledgerTable, say, tokenTable } from "./timeline";

const NODES = ["planner", "work_a", "work_b", "review"];

/**
 * @param folder where the workers left their files
 * @param killed the body that the crash interrupted
 */
export async function summarise(folder: string, killed: string, second: Performance, third: Performance): Promise<void> {
  heading("Summary");
  const began = new Ledger(path.join(folder, "ledger.txt")).count("began");
  say("How often each node body began, by a ledger that only the bodies write to:");
  say();
  ledgerTable(began, TASKS, NODES);
  say();
  const bodiesOf = (tasks: readonly string[]): string[] => tasks.flatMap((task) => NODES.map((node) => `${task} ${node}`));
  check(
    bodiesOf(TASKS.slice(0, 3)).every((body) => began.get(body) === 1),
    "tasks 1 to 3 ran once: neither the crash nor the rewind repeated any of it",
  );
  check(
    bodiesOf(TASKS.slice(3)).every((body) => began.get(body) === (body === killed ? 3 : 2)),
    "tasks 4 and 5 ran twice because of the rewind; work_b of task 4 once more because of the crash",
  );
  lettersInTheEnd(new Outbox(path.join(folder, "outbox.txt")));
  const states = [stateAfter(second, "5-report"), stateAfter(third, "5-report")];
  check(states[0] !== undefined && states[0] === states[1], "the state at the end is the same before and after the rewind");
  check(
    readFileSync(path.join(folder, "report.md"), "utf8") === (await withoutCrash(folder)),
    "the report is the one that a run without crash and rewind writes",
  );
  await theFileItself(folder);
}

/** Each letter was sent for the first run and for the one after the rewind, and the first ones were retracted. */
function lettersInTheEnd(outbox: Outbox): void {
  const sent = outbox.entries("sent").map(({ key }) => key);
  const retracted = new Set(outbox.entries("retracted").map(({ key }) => key));
  const standing = outbox.entries("sent").filter(({ key }) => !retracted.has(key));
  check(
    sent.length === 12 && new Set(sent).size === 12 && retracted.size === 6 && standing.length === 6,
    `of ${sent.length} letters none went out twice; ${retracted.size} were retracted, ${standing.length} stand`,
  );
}

async function theFileItself(folder: string): Promise<void> {
  const progress = path.join(folder, "CHECKPOINT.md");
  const saver = TurnSaver.fromPath(path.join(folder, "agent.db"));
  try {
    const usage = await saver.turns.tokenUsage(THREAD);
    say();
    say("Tokens by node, as the model reported them; what was rewound had its price too:");
    say();
    tokenTable(usage);
    say();
    say("CHECKPOINT.md, which the runner kept up to date from the first to the last process, begins so:");
    say();
    for (const line of tableOf(readFileSync(progress, "utf8"))) say(`    ${line}`);
    say();
    const read = await new CheckpointFile(progress).read();
    check(
      read?.phases.map(({ id, status }) => `${id} ${status}`).join() === TASKS.map((task) => `${task} completed`).join(),
      "CHECKPOINT.md, read back, has the five tasks as completed",
    );
    check(
      usage.total.total > 0 && read?.totals.input === usage.total.input && read.totals.output === usage.total.output,
      "its tokens are those of the turns",
    );
    const { ok, checked, problemCount } = await saver.verify();
    const rows = Object.values(checked).reduce((sum, count) => sum + count, 0);
    check(ok, `saver.verify() looked at ${rows} rows of the file and found ${problemCount} problems`);
  } finally {
    saver.close();
  }
  const size = statSync(path.join(folder, "agent.db")).size;
  explain("", `The database file has ${Math.round(size / 1024)} KiB, the archive of the rewind included.`);
}

/** The first table of a Markdown text. */
function tableOf(text: string): string[] {
  const lines = text.split("\n");
  const from = lines.findIndex((line) => line.startsWith("|"));
  return lines.slice(
    from,
    lines.findIndex((line, at) => at > from && !line.startsWith("|")),
  );
}

/** The same agent in memory, undisturbed; what it writes is what must come out. */
async function withoutCrash(folder: string): Promise<string> {
  const saver = TurnSaver.fromPath(":memory:");
  const file = path.join(folder, "undisturbed.md");
  const runner = new GraphRunner(
    createAgent({
      saver,
      ledger: new Ledger(path.join(folder, "undisturbed.txt")),
      outbox: new Outbox(path.join(folder, "undisturbed-outbox.txt")),
      textsFolder: fileURLToPath(new URL("texts", import.meta.url)),
      reportFile: file,
      pace: 0,
    }),
  );
  for (const taskId of TASKS) await runner.invoke({ task: taskId }, { threadId: "undisturbed", taskId });
  saver.close();
  return readFileSync(file, "utf8");
}
