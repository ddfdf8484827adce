import { join } from "node:path";
import { uuid6 } from "@langchain/langgraph-checkpoint";
import { NODE, Script, type Step, taskId } from "../drive/script";
import { Thread } from "../drive/thread";
import { conversation, type Workload } from "../drive/workloads";
import { pick, seeded } from "../drive/words";
import { takeTurns, timed } from "../measure/clock";
import { fileBytes, withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

/** Forks as LangGraph makes them when it runs again from an older checkpoint: load it, put a copy as its child, run a step from there. */
export const forks: Scenario = {
  name: "forks",
  run: async ({ contenders, quick }): Promise<Result> => {
    const [messages, count] = quick ? [60, 15] : [200, 50];
    const samples = new Samples();
    await withFolder(async (folder) => {
      const threads: Thread[] = [];
      for (const contender of contenders) {
        const path = join(folder, `${contender.id}.db`);
        threads.push(new Thread({ contender, path, saver: await contender.open(path), script: new Script(conversation(3)) }));
      }
      const histories = new Map<Thread, string[]>();
      for (const thread of threads) histories.set(thread, await history(thread, messages));
      const random = new Map(threads.map((thread) => [thread, seeded(11)]));
      const workload = new Map(threads.map((thread) => [thread, conversation(12)]));
      await takeTurns(threads, count, (thread, round) =>
        fork(thread, pick(random.get(thread)!, histories.get(thread)!), workload.get(thread)!, messages + round, samples),
      );
      await takeTurns(threads, 5, async (thread) => {
        samples.add("list, limit 20", thread.contender.id, await timed(() => thread.list(20)));
      });
      for (const { contender, saver, path } of threads) {
        await contender.close(saver);
        if (contender.hasFile) samples.add("file after close", contender.id, fileBytes(path), "bytes");
      }
    });
    const title = `${count} forks from checkpoints anywhere in a thread of ${messages} messages`;
    const notes = [
      "A fork: getTuple of the old checkpoint, put of its copy, then one whole step from there with a put of its result.",
    ];
    return { name: "forks", title, contenders, samples, facts: {}, notes };
  },
};

/** Writes the thread; returns the ids of its checkpoints. */
async function history(thread: Thread, messages: number): Promise<string[]> {
  const ids: string[] = [];
  await thread.begin();
  for (let count = 0; count < messages; count += 1) {
    const step = thread.script.next();
    ids.push(step.checkpoint.id);
    await thread.save(step);
  }
  await thread.finish();
  return ids;
}

async function fork(thread: Thread, fromId: string, workload: Workload, index: number, samples: Samples): Promise<void> {
  const { id } = thread.contender;
  const begun = performance.now();
  const from = await thread.getTuple(fromId);
  samples.add("getTuple of an old checkpoint", id, performance.now() - begun);
  const step = (from.metadata?.step ?? 0) + 1;
  const trigger = `branch:to:${NODE}`;
  const forked = { ...from.checkpoint, id: uuid6(step), ts: new Date().toISOString() };
  // The state the graph would hold: without the channels that only steer.
  const { __pregel_tasks: _tasks, [trigger]: _branch, ...values } = from.checkpoint.channel_values;
  const { update, values: after } = workload.step(values, index);
  const first: Step = {
    parentId: fromId,
    checkpoint: forked,
    metadata: { source: "fork", step, parents: {} },
    newVersions: {},
    task: { id: taskId(NODE, step + 1, trigger, forked.id), name: NODE, step: step + 1, trigger },
    input: values,
    update,
    writes: [...Object.entries(update), [trigger, null]],
  };
  const version = Number(forked.channel_versions[trigger]) + 1;
  const newVersions = { messages: version, [trigger]: version };
  const child = {
    ...forked,
    id: uuid6(step + 1),
    channel_values: { ...forked.channel_values, ...after },
    channel_versions: { ...forked.channel_versions, ...newVersions },
    versions_seen: { ...forked.versions_seen, [NODE]: { [trigger]: version - 1 } },
  };
  const { put, step: whole } = await thread.save(first);
  const metadata = { source: "loop" as const, step: step + 1, parents: {} };
  const rest = await timed(async () => {
    await thread.finish();
    await thread.saver.put(thread.config(forked.id), child, metadata, newVersions);
  });
  samples.add("put of the fork", id, put);
  samples.add("whole fork, without its getTuple", id, whole + rest);
}
