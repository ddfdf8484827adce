import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { effect, GraphRunner } from "langgraph-checkpoint-turns";
import { line, quietLogger } from "../support/eff-world";
import { openSaver } from "../support/open-saver";

/**
 * A worker thread goes at the thread that the main thread is running: `realm-child <database>`. Prints as JSON what the worker saw, and
 * how often the deed was done.
 */
const path = isMainThread ? (process.argv[2] as string) : (workerData as { path: string }).path;
const saver = openSaver(path, { logger: quietLogger() });
let release: () => void = () => undefined;
const released = new Promise<void>((resolve) => (release = resolve));
let deeds = 0;
const graph = line({
  n: async () => {
    await effect(
      "slow",
      async () => {
        deeds += 1;
        if (isMainThread) await seenByWorker();
      },
      { input: 1, probe: () => undefined, idempotent: true },
    );
    return {};
  },
}).compile({ checkpointer: saver });
const runner = new GraphRunner(graph);
let seen: unknown;

/** Holds the effect open until a worker has tried. */
async function seenByWorker(): Promise<void> {
  const self = JSON.stringify(fileURLToPath(import.meta.url));
  const code = `import("tsx/esm/api").then((api) => api.register()).then(() => import(${self}))`;
  const worker = new Worker(code, { eval: true, workerData: { path }, execArgv: [] });
  worker.on("message", (message) => (seen = message));
  worker.on("error", (error) => (seen = String(error)));
  worker.on("exit", release);
  await released;
}

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "done",
    (error: unknown) => (error as { code?: string }).code ?? String(error),
  );

if (isMainThread) {
  const main = await codeOf(runner.invoke({ log: [] }, { threadId: "t" }));
  process.stdout.write(JSON.stringify({ main, deeds, seen }));
} else {
  const [row] = await saver.effects.list("t");
  parentPort?.postMessage({
    effect: row?.status,
    running: (await runner.status("t")).running,
    resume: await codeOf(runner.resume({ threadId: "t" })),
    deeds,
  });
}
saver.close();
