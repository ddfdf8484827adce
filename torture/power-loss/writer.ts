import { vacuum } from "langgraph-checkpoint-turns/maintenance";
import Database from "better-sqlite3";
import { GraphRunner, TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { seeded, textOf } from "../../bench/drive/words";
import { checkpointFact, digestOf } from "./facts";
import { jobsGraph, journaled, runnerOptions } from "./graph";
import { announced, bareCheckpoint, tell, tellEvents, tellStanding, toldWorld } from "./telling";

/**
 * Works on a file and reports what was acknowledged, until it kills itself: `writer.ts <database> <durability> <rounds>`.
 */
const [path = "", durability = "full", rounds = "1"] = process.argv.slice(2);
const ROUNDS = Number(rounds);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const random = seeded(11);

function opened(options: TurnSaverOptions, autocheckpoint?: number) {
  const db = new Database(path);
  const saver = new TurnSaver(db, { synchronous: durability as "full" | "normal", logger: quiet, ...options });
  // So that the log is moved into the file, and starts over, while things are recorded.
  if (autocheckpoint !== undefined) db.pragma(`wal_autocheckpoint = ${autocheckpoint}`);
  tellEvents(saver);
  const world = toldWorld();
  const runner = new GraphRunner(jobsGraph(saver, journaled(world)), runnerOptions(world));
  tell({ k: "opened" });
  const run = async (...jobs: string[]): Promise<void> => {
    for (const job of jobs) {
      const threadId = job.slice(0, 1);
      await runner.invoke({ jobs: [job] }, { threadId, taskId: job });
      await tellStanding(saver, threadId, `run of ${job}`);
    }
  };
  return { saver, runner, run };
}

/** Saves that no graph makes. */
async function bare(saver: TurnSaver, t: string, count: number): Promise<void> {
  const list: string[] = [];
  let config: { configurable: Record<string, unknown> } = { configurable: { thread_id: t, checkpoint_ns: "" } };
  for (let at = 0; at < count; at += 1) {
    for (let more = 0; more < 6; more += 1) list.push(textOf(random, 1_500));
    const { id, checkpoint, metadata, versions } = bareCheckpoint(at, list);
    const saved = saver.put(config, checkpoint, metadata, versions);
    // It is committed when the call returns, not only when its promise resolves.
    tell({ k: "fact", t, fact: checkpointFact("", id), as: digestOf(checkpoint.channel_values) });
    config = (await saved) as typeof config;
    const value = textOf(random, 3_000);
    const written = saver.putWrites(config, [["list", value]], `task-${at}`);
    tell({ k: "fact", t, fact: `write /${id} task-${at} list`, as: digestOf(value) });
    await written;
  }
}

async function first(): Promise<void> {
  const { saver, runner, run } = opened({}, 30);
  for (let round = 1; round <= ROUNDS; round += 1) await run(`a${round}`, `b${round}`);
  await run("a6");
  await bare(saver, "x", 4 * ROUNDS);
  await announced(saver, "a", "rewind", true, () => runner.rewind({ threadId: "a", toTask: "a1" }));
  await run("a7");
  await announced(saver, "c", "copy", true, () => saver.copyThread("a", "c"));
  await announced(saver, "b", "prune", false, () => saver.prune({ threadId: "b", keepLast: 2, batchSize: 2 }));
  await announced(saver, "x", "deletion", true, () => saver.deleteThread("x"));
  await vacuum(saver);
  await run("d1", "d2");
  let rewindId = "";
  await announced(saver, "d", "rewind", true, async () => {
    rewindId = (await runner.rewind({ threadId: "d", toTask: "d1" })).rewindId ?? "";
  });
  await announced(saver, "d", "taking back", true, () => saver.rewinds.takeBack(rewindId, { despiteUndone: true }));
  saver.close();
  tell({ k: "closed" });
}

/** Closing moved the log into the file and removed it. The next log gets longer: the options have their defaults. */
async function second(): Promise<void> {
  const { saver, run } = opened({ retention: { keepLast: 3 } });
  // Pruned in the background, also after a run has reported its thread's state.
  const pruned = (t: string): void => tell({ k: "begins", t, what: "retention", whole: false });
  for (const job of ["a8", ...Array.from({ length: ROUNDS }, (_, at) => `r${at + 1}`)]) {
    const t = job.slice(0, 1);
    pruned(t);
    await run(job);
    pruned(t);
  }
  for (const t of ["a", "r"]) await announced(saver, t, "prune", false, () => saver.prune({ threadId: t, keepLast: 3 }));
  await vacuum(saver, { full: true });
  await bare(saver, "y", 2 * ROUNDS);
  tell({ k: "end" });
  process.kill(process.pid, "SIGKILL");
}

await first();
await second();
