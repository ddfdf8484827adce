// Counts the source files that run while a thread in the middle of its work saves once. BENCH_LIST=1 prints their names.
import { Session } from "node:inspector/promises";
import { join } from "node:path";
import { contendersHere, OURS } from "../drive/contenders";
import { Script } from "../drive/script";
import { Thread } from "../drive/thread";
import { conversation } from "../drive/workloads";
import { withFolder } from "../measure/file-size";
import { scriptsRun } from "../measure/source-files";
import type { FilesRun } from "./weight";

const SOURCES = new URL("../../src/", import.meta.url).href;
const STEPS = 10;

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

/** Each look tells the calls since the one before. */
async function look(): Promise<string[]> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  return scriptsRun(result, SOURCES);
}

const { contenders } = await contendersHere();
const contender = contenders.find(({ id }) => id === OURS)!;
await withFolder(async (folder) => {
  const path = join(folder, "weight.db");
  const saver = await contender.open(path);
  const open = (): Thread => new Thread({ contender, saver, path, script: new Script(conversation(5)) });
  // The first thread makes what a file and a connection need once.
  for (const thread of [open(), open()]) {
    await thread.begin();
    for (let count = 0; count < STEPS; count += 1) await thread.step();
    await look();
    await thread.step();
    const step = await look();
    const { parentId, checkpoint, metadata, newVersions } = thread.script.next();
    await look();
    await saver.put(thread.config(parentId), checkpoint, metadata, newVersions);
    const put = await look();
    await thread.end();
    if (process.env["BENCH_LIST"] === "1") console.log(put.map((url) => url.slice(SOURCES.length)).join("\n"));
    process.send?.({ put: put.length, step: step.length } satisfies FilesRun);
  }
  await contender.close(saver);
});
session.disconnect();
