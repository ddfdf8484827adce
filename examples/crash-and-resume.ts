// A process is killed (SIGKILL) in the middle of a node. A second process, which shares only the file, resumes at that very node.
// The script starts itself twice: `run` and `resume` are the roles of the two child processes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";

const threadId = "order-7";
const [role, folder = ""] = process.argv.slice(2);

if (role === undefined) await direct();
else await work(role);

/** The work of the child processes: one graph of three nodes on the file in `folder`. */
async function work(role: string): Promise<void> {
  const began = (node: string): void => appendFileSync(path.join(folder, "ledger.txt"), `${node}\n`);
  const State = Annotation.Root({
    done: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
  });
  const builder = new StateGraph(State)
    .addNode("fetch", () => {
      began("fetch");
      return { done: ["fetch"] };
    })
    .addNode("convert", async () => {
      began("convert");
      if (role === "run") {
        writeSync(1, "in convert\n"); // the parent kills this process now
        await sleep(10_000);
      }
      return { done: ["convert"] };
    })
    .addNode("store", () => {
      began("store");
      return { done: ["store"] };
    })
    .addEdge(START, "fetch")
    .addEdge("fetch", "convert")
    .addEdge("convert", "store")
    .addEdge("store", END);

  const saver = TurnSaver.fromPath(path.join(folder, "agent.db"));
  const runner = new GraphRunner(builder.compile({ checkpointer: saver }), { nodes: { convert: { idempotent: true } } });
  if (role === "run") await runner.invoke({}, { threadId, taskId: "order" });
  else {
    const [turn] = await runner.inFlight(threadId);
    writeSync(1, `in flight: ${turn?.nodeName ?? "nothing"}, attempt ${turn?.attempt ?? 0}\n`);
    const { done } = await runner.resume({ threadId });
    writeSync(1, `result: ${done.join(", ")}\n`);
  }
  saver.close();
}

async function direct(): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "turns-crash-"));
  try {
    const first = await child("run", folder, (output, kill) => output.includes("in convert") && kill());
    console.log(`first process: ${first.signal ?? "not killed"} in the middle of convert`);
    const second = await child("resume", folder, () => false);
    console.log(second.output.trim());
    const ledger = readFileSync(path.join(folder, "ledger.txt"), "utf8").trim().split("\n");
    console.log(`node bodies that began, in both processes: ${ledger.join(", ")}`);

    assert.equal(first.signal, "SIGKILL");
    assert.equal(second.code, 0);
    assert.match(second.output, /in flight: convert, attempt 1\nresult: fetch, convert, store/);
    assert.deepEqual(ledger, ["fetch", "convert", "convert", "store"], "fetch had completed and must not run again");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  output: string;
}

function child(role: string, folder: string, watch: (output: string, kill: () => boolean) => boolean): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const process_ = spawn(process.execPath, [...process.execArgv, fileURLToPath(import.meta.url), role, folder], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    process_.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      watch(output, () => process_.kill("SIGKILL"));
    });
    process_.on("error", reject);
    process_.on("close", (code, signal) => resolve({ code, signal, output }));
  });
}
