import { Command } from "@langchain/langgraph";
import { functionalGraph, Ledger, mixedGraph, pointAtCommits } from "./crash-graphs";
import { openSaver } from "../support/open-saver";

/** Runs a graph and dies at the n-th point by a real SIGKILL: `crash-child.ts <mixed|functional> <db> <ledger> <n> <durability>`. */
const [which, dbPath = "", ledgerPath = "", killAt = "0", durability = "async"] = process.argv.slice(2);

let count = 0;
const point = (): void => {
  count += 1;
  if (count === Number(killAt)) process.kill(process.pid, "SIGKILL");
};
const saver = openSaver(dbPath);
pointAtCommits(saver, point);
const ledger = new Ledger(ledgerPath);
const options = { threadId: "t", durability: durability as "async" | "sync" };

async function main(): Promise<void> {
  if (which === "functional") {
    await functionalGraph(saver, ledger, point).invoke(1, options);
    return;
  }
  const runner = mixedGraph(saver, ledger, point);
  await runner.invoke({ log: [] }, options);
  await runner.resume({ ...options, command: new Command({ resume: "!" }) });
}

await main();
saver.close();
process.stdout.write(`points ${count}\n`);
