import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { RUN_ON } from "./check-turns";
import type { Deed } from "./expected";
import { jobsGraph, journaled, runnerOptions } from "./graph";
import { announced, tell, tellEvents, tellStanding, toldWorld } from "./telling";

/** Continues what a power cut left, as a user would, and kills itself: `writer-again.ts <database> <side effects done before, as JSON>`. */
const [path = "", before = "[]"] = process.argv.slice(2);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

const saver = TurnSaver.fromPath(path, { logger: quiet });
tellEvents(saver);
const world = toldWorld(JSON.parse(before) as Deed[]);
const runner = new GraphRunner(jobsGraph(saver, journaled(world)), runnerOptions(world));
tell({ k: "opened" });
for (const threadId of RUN_ON) {
  if ((await saver.rewinds.unfinished(threadId)) !== undefined) {
    await announced(saver, threadId, "finishing a rewind", true, () => runner.finishRewind({ threadId }));
  }
  const { resumable } = await runner.status(threadId);
  if (resumable) await runner.resume({ threadId });
  await runner.invoke({ jobs: [`${threadId}again`] }, { threadId, taskId: `${threadId}again` });
  await tellStanding(saver, threadId, "continuing");
}
await announced(saver, "a", "prune", false, () => saver.prune({ threadId: "a", keepLast: 2, batchSize: 2 }));
tell({ k: "end" });
process.kill(process.pid, "SIGKILL");
