import { GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { closeAll, Deeds, fresh, line, open } from "../support/eff-world";
import { effectUndoneBy, undosNamed } from "../support/undo-world";

afterEach(closeAll);

/** A workflow of one node with one effect; a run of it leaves three checkpoints. */
function workflow(saver: TurnSaver, deeds: Deeds, stops: { before: boolean } = { before: false }) {
  const send = async ({ log }: { log: string[] }) => {
    const nth = String(log.length);
    const receipt = await effectUndoneBy("recall", "send", () => (deeds.do(`sent ${nth}`), `receipt ${nth}`), { input: nth });
    if (stops.before) throw new Error("stopped");
    return { log: [receipt] };
  };
  const undos = { recall: ({ input }: { input: string }) => deeds.do(`recalled ${input}`) };
  return new GraphRunner(line({ send, rest: () => ({ log: [] }) }).compile({ checkpointer: saver }), {
    undos: undosNamed(undos),
  });
}

async function rootCheckpoints(saver: TurnSaver): Promise<number> {
  let count = 0;
  for await (const tuple of saver.list({ configurable: { thread_id: "t", checkpoint_ns: "" } }))
    count += Number(tuple !== undefined);
  return count;
}

test("S3.6 keepLast: 50, for workflows with effects: fifty checkpoints stay, and all that a resume or a rewind among them needs", async () => {
  const saver = open(fresh(), { retention: { keepLast: 50 } });
  const deeds = new Deeds();
  const stops = { before: false };
  const runner = workflow(saver, deeds, stops);
  for (let run = 0; run < 20; run += 1) await runner.invoke({ log: [] }, { threadId: "t", taskId: `task-${run}` });
  stops.before = true;
  await expect(runner.invoke({ log: [] }, { threadId: "t", taskId: "last" })).rejects.toThrow("stopped");
  await saver.prune({ threadId: "t", keepLast: 50 });
  expect(await rootCheckpoints(saver)).toBe(50);
  expect(deeds.lines().filter((deed) => deed.startsWith("sent"))).toHaveLength(21);

  // The effect of the run that stopped is still in the journal, so the resume does not repeat it.
  stops.before = false;
  await runner.resume({ threadId: "t" });
  expect(deeds.lines().filter((deed) => deed.startsWith("sent"))).toHaveLength(21);

  const report = await runner.rewind({ threadId: "t", toTask: "task-10" });
  expect(report.effects.undone).toHaveLength(10);
  expect(deeds.lines().filter((deed) => deed.startsWith("recalled"))).toEqual(
    Array.from({ length: 10 }, (_, index) => `recalled ${20 - index}`),
  );
  expect((await runner.graph.getState({ configurable: { thread_id: "t" } })).values).toEqual({
    log: Array.from({ length: 11 }, (_, index) => `receipt ${index}`),
  });
});
