import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// Three workers share one store, and each begins some orders. One is killed in the middle of its work; the others take its threads over.
const folder = mkdtempSync(join(tmpdir(), "turns-workers-"));
const place = join(folder, "orders.db");
const program = join(dirname(fileURLToPath(import.meta.url)), "worker.ts");
const orders = Object.fromEntries(["ann", "bob", "eve"].map((name) => [name, [1, 2, 3, 4].map((number) => `${name}-${number}`)]));
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const log = (): string[] => (existsSync(`${place}.log`) ? readFileSync(`${place}.log`, "utf8").trim().split("\n") : []);

/** A busy machine may need long, so there is no time limit; but without workers it won't come. */
async function until(what: string, isThere: () => boolean): Promise<void> {
  while (!isThere()) {
    if (!workers.some(isRunning)) throw new Error(`no worker is left to wait until ${what}:\n${log().join("\n")}`);
    await pause(50);
  }
}

function start(name: string): ChildProcess {
  const args = ["--import", "tsx", program, place, name, orders[name]?.join(",") ?? ""];
  return spawn(process.execPath, args, { env: process.env, stdio: "inherit" });
}

const isRunning = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null;
const workers = Object.keys(orders).map(start);
try {
  const [ann] = workers;
  await until("ann has paid an order", () => log().some((line) => line.startsWith("ann: paid")));
  ann?.kill("SIGKILL");
  console.log("ann is killed: kill -9");

  const all = Object.values(orders).flat();
  const packed = (order: string): number => log().filter((line) => line.endsWith(`: packed ${order}`)).length;
  await until("every order is packed", () =>
    all.every((order) => packed(order) > 0 || !log().some((line) => line.includes(`charged ${order} `))),
  );

  await until("bob or eve has taken over an order of ann", () => log().some((line) => /^(bob|eve): took over ann-/.test(line)));
  const keys = (order: string): number => new Set(log().filter((line) => line.startsWith(`charged ${order} `))).size;
  const takenOver = log().some((line) => /^(bob|eve): packed ann-/.test(line));
  const charged = all.filter((order) => keys(order) > 1).length;
  console.log("orders that ann had begun are packed by bob or eve:", takenOver);
  console.log("orders that were charged under two keys:", charged);
  if (!takenOver || charged > 0) process.exitCode = 1;
} finally {
  const ended = workers.filter(isRunning).map((worker) => new Promise((resolve) => worker.once("close", resolve)));
  for (const worker of workers) worker.kill("SIGTERM");
  await Promise.all(ended);
  rmSync(folder, { recursive: true, force: true });
}
console.log("bob and eve have drained");
