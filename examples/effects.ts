// A process is killed right after it has opened an issue, before that is recorded. The next process finds the issue and doesn't
// open a second one. The script starts itself: `run` and `resume` are the roles of the child processes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { defineEffect, GraphRunner, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";

const threadId = "bug-12";
const [role, folder = ""] = process.argv.slice(2);
const file = (name: string): string => path.join(folder, name);

if (role === undefined) await direct();
else await work(role);

/** An issue tracker, with one line per issue: its key and its title. */
function issues(): { key: string; title: string }[] {
  if (!existsSync(file("issues.txt"))) return [];
  const lines = readFileSync(file("issues.txt"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as { key: string; title: string });
}

async function work(role: string): Promise<void> {
  // Idempotent: the same bytes in the same place.
  const writeReport = defineEffect("write report", {
    run: ({ title }: { title: string }) => writeFileSync(file("report.md"), `# ${title}\n`),
    idempotent: true,
    undo: () => rmSync(file("report.md")),
  });
  // Not idempotent: each call opens another issue. The tracker can be searched for the key.
  const openIssue = defineEffect("open issue", {
    run: ({ title }: { title: string }, { key }) => {
      appendFileSync(file("issues.txt"), `${JSON.stringify({ key, title })}\n`);
      if (role === "run") process.kill(process.pid, "SIGKILL");
      return key;
    },
    // The role "look" has no probe, to show what happens then.
    probe: role === "look" ? undefined : ({ key }) => issues().find((issue) => issue.key === key)?.key,
  });
  const State = Annotation.Root({ title: Annotation<string>, issue: Annotation<string> });
  const builder = new StateGraph(State)
    .addNode("report", async ({ title }) => {
      await writeReport({ title });
      return {};
    })
    .addNode("open", async ({ title }) => ({ issue: await openIssue({ title }) }))
    .addEdge(START, "report")
    .addEdge("report", "open");
  const saver = TurnSaver.fromPath(file("agent.db"));
  const runner = new GraphRunner(builder.compile({ checkpointer: saver }), { nodes: { open: { idempotent: true } } });
  if (role === "run") await runner.invoke({ title: "It does not start" }, { threadId });
  try {
    const { issue } = await runner.resume({ threadId });
    console.log(`${role}: the issue is ${issue === issues()[0]?.key ? "the one that was opened" : "another one"}`);
  } catch (error) {
    if (!TurnsError.is(error, "EFFECT_IN_DOUBT")) throw error;
    const [doubt] = await saver.effects.list(threadId, { status: "in-doubt" });
    console.log(`${role}: refused with ${error.code}: ${doubt?.name}, begun ${doubt?.tries} time`);
  }
  saver.close();
}

async function direct(): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "turns-effects-"));
  try {
    const outputs: string[] = [];
    for (const role of ["run", "look", "resume"]) outputs.push(await child(role, folder));
    const opened = readFileSync(path.join(folder, "issues.txt"), "utf8").trim().split("\n").length;
    console.log(`issues that were opened, by all three processes: ${opened}`);
    assert.match(outputs[0] ?? "", /SIGKILL/);
    assert.match(outputs[1] ?? "", /EFFECT_IN_DOUBT/);
    assert.match(outputs[2] ?? "", /the one that was opened/);
    assert.equal(opened, 1);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function child(role: string, folder: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const args = [...process.execArgv, fileURLToPath(import.meta.url), role, folder];
    const started = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    started.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    started.on("error", reject);
    started.on("close", (_, signal) => {
      const line = signal === null ? output.trim() : `${role}: killed by ${signal}, right after the issue was opened`;
      console.log(line);
      resolve(line);
    });
  });
}
