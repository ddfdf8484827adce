import { appendFileSync, existsSync } from "node:fs";
import { SideEffects } from "../support/run-world";
import { openSaver } from "../support/open-saver";
import { stepRunner } from "./recover-world";

/**
 * `recover-child.ts <db> run <count>`: runs threads `t0…` and dies when all of them are within their second node.
 * `recover-child.ts <db> doubt`: runs thread `doubt`, and dies within its effect.
 * `recover-child.ts <db> recover`: recovers what there is, prints the report as JSON. Threads named `poison…` kill it.
 * `recover-child.ts <db> work <count>`: a worker of the storm, until the file `<db>.stop` exists. Notes what it did in `<db>.reports`.
 */
const [path = "", what = "", count = "0"] = process.argv.slice(2);
const ledger = new SideEffects(`${path}.ledger`);
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const saver = openSaver(path, { synchronous: "normal", logger });
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const die = (): void => process.kill(process.pid, "SIGKILL") as unknown as void;
let arrived = 0;

const runner = stepRunner(saver, ledger, async (threadId, node) => {
  if (what === "recover") return threadId.startsWith("poison") ? die() : undefined;
  if (what === "work") return pause(Math.random() * 30);
  if (node === "c") return undefined;
  arrived += 1;
  if (arrived === Number(count)) die();
  return pause(60_000);
});

if (what === "run") {
  const threads = Array.from({ length: Number(count) }, (_, index) => `t${index}`);
  await Promise.all(threads.map((threadId) => runner.invoke({ log: [] }, { threadId })));
}
if (what === "doubt") await runner.invoke({ log: [] }, { threadId: "doubt" });
if (what === "recover") {
  process.stdout.write(JSON.stringify(await runner.recover({ waitMs: 0, tries: 2 })));
}
if (what === "work") {
  const stop = new AbortController();
  const looks = setInterval(() => existsSync(`${path}.stop`) && stop.abort(), 50);
  for await (const report of runner.recoveries({ everyMs: 200, concurrency: 8, tries: 20, signal: stop.signal })) {
    appendFileSync(`${path}.reports`, `${JSON.stringify(report)}\n`);
  }
  clearInterval(looks);
}
saver.close();
