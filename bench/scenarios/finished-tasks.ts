import { join } from "node:path";
import { encode } from "../../src/testing-internal";
import { Script } from "../drive/script";
import { Thread } from "../drive/thread";
import { finishedTasks } from "../drive/workloads";
import { takeTurns, timed } from "../measure/clock";
import { usedBytes, withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

interface Prunes {
  prune?(request: { threadId: string; keepLast: number }): Promise<unknown>;
  copyThread?(from: string, to: string): Promise<unknown>;
}

/** A workflow with 1,000 finished tasks in its state, one more with each step (requirement S2.2). */
export const tasks: Scenario = {
  name: "finished-tasks",
  run: async ({ contenders: all, quick }): Promise<Result> => {
    const contenders = all.filter(({ id }) => id !== "no-turns");
    const samples = new Samples();
    const facts: Record<string, number> = {};
    const [steps, threads] = quick ? [25, 1] : [60, 5];
    await withFolder(async (folder) => {
      const stores = await Promise.all(
        contenders.map(async (contender) => {
          const path = join(folder, `${contender.id}.db`);
          return { contender, path, saver: await contender.open(path) };
        }),
      );
      for (let seed = 0; seed < threads; seed += 1) {
        const running = stores.map((store) => new Thread({ ...store, script: new Script(finishedTasks(seed)) }));
        for (const thread of running) await thread.begin();
        for (const thread of running) await thread.step();
        const before = running.map((thread) => (thread.contender.hasFile ? usedBytes(thread.path) : 0));
        await takeTurns(running, steps, async (thread) => {
          samples.add("save (whole step)", thread.contender.id, (await thread.step()).step);
        });
        for (const [index, thread] of running.entries()) {
          const { id, hasFile } = thread.contender;
          if (hasFile) samples.add("file growth per step", id, (usedBytes(thread.path) - before[index]!) / steps, "bytes");
          await thread.end();
        }
        await takeTurns(
          running.filter(({ contender }) => contender.reopens),
          10,
          async (thread) => {
            samples.add("resume: open + getTuple + Thought", thread.contender.id, (await thread.resume()).resume);
          },
        );
        for (const thread of running) await prune(thread, quick ? 1 : 4, samples);
        const { values } = running[0]!.script;
        await takeTurns(running, 30, (thread) => serialise(thread, samples));
        facts["state, bytes"] = JSON.stringify(values).length;
      }
      for (const { contender, saver } of stores) await contender.close(saver);
    });
    const title = "A state of 1,000 finished tasks, one more with each step";
    const notes = [`${threads} × ${steps} steps; the state is ${Math.round((facts["state, bytes"] ?? 0) / 1_000)} KB of JSON.`];
    if (!samples.measured.includes("prune to 5")) notes.push("prune: this version has none.");
    return { name: "finished-tasks", title, contenders, samples, facts, notes };
  },
};

/** Copies are pruned, too: the 95th percentile of five prunes would be the slowest of them. */
async function prune({ id, contender, saver }: Thread, copies: number, samples: Samples): Promise<void> {
  const pruner = saver as Prunes;
  if (contender.role !== "ours" || typeof pruner.prune !== "function") return;
  const ids = [id, ...Array.from({ length: copies }, (_, at) => `${id}, copy ${at}`)];
  for (const copy of ids.slice(1)) await pruner.copyThread?.(id, copy);
  for (const threadId of ids)
    samples.add("prune to 5", contender.id, await timed(() => pruner.prune?.({ threadId, keepLast: 5 })));
}

/** Ours with its codec, the others with what they serialise a checkpoint with. */
async function serialise({ contender, saver, script }: Thread, samples: Samples): Promise<void> {
  const work = () => (contender.role === "ours" ? encode(script.values) : saver.serde.dumpsTyped(script.values));
  samples.add("serialising the whole state", contender.id, await timed(work));
}
