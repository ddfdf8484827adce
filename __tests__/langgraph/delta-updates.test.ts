import { Command } from "@langchain/langgraph";
import { emptyCheckpoint, MemorySaver, uuid6 } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import { both, build, type RandomGraph } from "./delta-random";
import { collect, quiet, thread } from "../support/diff-harness";
import { runs } from "../support/lane";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

/** Two nodes in a row; the second asks. */
const CHAIN: RandomGraph = {
  layers: [[{ kind: "plain", rounds: 0 }], [{ kind: "asks", rounds: 0 }]],
  names: ["a", "b", "c", "d"],
  joined: false,
  snapshotFrequency: 1000,
};

function setup(attached: boolean, builder = build(CHAIN)) {
  const path = tempFile();
  const saver = openSaver(path, { logger: quiet });
  const graph = builder.compile({ checkpointer: saver });
  if (attached) saver.attach(graph);
  return { path, saver, builder, graph };
}

/** In each checkpoint another process reads the same from both channels. @returns what the newest has */
async function expectAgreement({ path, builder }: Pick<ReturnType<typeof setup>, "path" | "builder">): Promise<string[]> {
  const saver = openSaver(path, { logger: quiet });
  const states: any[] = await collect(builder.compile({ checkpointer: saver }).getStateHistory(thread()));
  saver.close();
  expect(states.length).toBeGreaterThan(0);
  for (const { values } of states) expect(values.delta).toEqual(values.log);
  return states[0].values.log;
}

const answer = new Command({ resume: "yes" });

/** With "exit" LangGraph 1.4 saves the checkpoint that a run began from again when the run stops there. */
describe.each([true, false])(
  "S6.4 a checkpoint that an update made is saved again by a run from it, attached: %s",
  (attached) => {
    test.each(["async", "sync", "exit"])("S6.4 the update stays in the delta channel, durability %s", async (durability) => {
      const at = setup(attached);
      const config = { ...thread(), durability };
      await at.graph.invoke(both("in1"), thread());
      await at.graph.invoke(answer, thread());
      await at.graph.updateState(thread(), both("U1"), "a0");
      await at.graph.invoke(null, config);
      expect(await expectAgreement(at)).toEqual(["in1", "a0", "a1:yes", "U1"]);
      await at.graph.invoke(answer, config);
      await at.graph.invoke(both("in2"), thread());
      at.saver.close();
      expect(await expectAgreement(at)).toEqual(["in1", "a0", "a1:yes", "U1", "a1:yes", "in2", "a0"]);
    });
  },
);

/** LangGraph 1.4 writes them under one id. */
describe.each([true, false])("S6.4 several updates at once stay in the delta channel, attached: %s", (attached) => {
  const update = (item: string): object => ({ values: both(item), asNode: "a0" });
  test.each([
    ["at the head", 0],
    ["at an older checkpoint", 1],
  ])("S6.4 %s, and those of a second attempt replace none of them", async (_title, back) => {
    const at = setup(attached);
    await at.graph.invoke(both("in"), thread());
    const history: any[] = await collect(at.graph.getStateHistory(thread()));
    const before: string[] = history[back].values.log;
    const from = back === 0 ? thread() : history[back].config;
    await at.graph.bulkUpdateState(from, [{ updates: [update("U1"), update("U2"), update("U3")] }]);
    expect(await expectAgreement(at)).toEqual([...before, "U1", "U2", "U3"]);
    await at.graph.bulkUpdateState(history[back].config, [{ updates: [update("V1"), update("V2")] }]);
    expect(await expectAgreement(at)).toEqual([...before, "V1", "V2"]);
    at.saver.close();
  });
});

describe("S6.4 a checkpoint that is saved again, with itself as parent, reads what it read before", () => {
  const [P, C, D] = [
    "1f000000-0000-6000-8000-000000000001",
    "1f000000-0000-6000-8000-000000000002",
    "1f000000-0000-6000-8000-000000000003",
  ];
  const TASKS = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];

  /** A thread on which LangGraph's calls are made by hand. */
  function byHand() {
    const saver = openSaver(tempFile(), { logger: quiet });
    const at = (id: string | undefined) => thread("t", { checkpoint_ns: "", checkpoint_id: id });
    return {
      saver,
      async put(id: string, parentId: string | undefined, source: "loop" | "update") {
        const version = parentId === undefined ? 1 : 2;
        const checkpoint = {
          v: 4,
          id,
          ts: "2026-01-01T00:00:00.000Z",
          channel_values: {},
          channel_versions: { delta: version },
          versions_seen: {},
        };
        const metadata: any = {
          source,
          step: version,
          parents: {},
          counters_since_delta_snapshot: { delta: [version, version] },
        };
        await saver.put(at(parentId), checkpoint, metadata, { delta: version });
      },
      write: (id: string, item: string, task: number) => saver.putWrites(at(id), [["delta", [item]]], TASKS[task] as string),
      async read(id: string): Promise<unknown[]> {
        const { delta } = await saver.getDeltaChannelHistory({ config: at(id), channels: ["delta"] });
        return delta?.writes.map(([, , value]: unknown[]) => value) ?? [];
      },
    };
  }

  test("S6.4 its update, which was written before it was first saved", async () => {
    const { saver, put, write, read } = byHand();
    await put(P, undefined, "loop");
    await write(P, "U1", 0);
    await put(C, P, "update");
    await put(C, C, "update");
    expect(await read(C)).toEqual([["U1"]]);
    saver.close();
  });

  test.each([
    ["the task that ran again", 0],
    ["another task", 1],
  ])("S6.4 and nothing that a later branch from its parent wrote: %s", async (_title, task) => {
    const { saver, put, write, read } = byHand();
    await put(P, undefined, "loop");
    await write(P, "first", 0);
    await put(C, P, "loop");
    await write(P, "second", task);
    await put(D, P, "loop");
    await put(C, C, "loop");
    expect(await read(C)).toEqual([["first"]]);
    saver.close();
  });

  test("S6.4 nothing of an earlier update of its parent either, also after a prune", async () => {
    const { saver, put, write, read } = byHand();
    await put(P, undefined, "loop");
    await write(P, "U1", 0);
    await put(C, P, "update");
    await write(P, "U2", 1);
    await put(D, P, "update");
    await put(D, D, "update");
    expect(await read(D)).toEqual([["U2"]]);
    await saver.prune({ threadId: "t", keepLast: 1 });
    expect(await read(D)).toEqual([["U2"]]);
    expect((await saver.verify()).ok).toBe(true);
    saver.close();
  });

  test("S6.4 an update between two saves of its older sibling keeps its own write", async () => {
    const { saver, put, write, read } = byHand();
    await put(P, undefined, "loop");
    await write(P, "U1", 0);
    await put(C, P, "update");
    await write(P, "U2", 1);
    await put(C, C, "update");
    await put(D, P, "update");
    expect([await read(C), await read(D)]).toEqual([[["U1"]], [["U2"]]]);
    saver.close();
  });
});

/** What is escaped in JSON, what looks so, and what a database's text can't hold or has a meaning in it. */
const unit = fc.oneof(
  fc.constantFrom(
    "\\",
    '"',
    "u0000",
    "\\u0000",
    "\\ud800",
    "\0",
    "\u0001",
    "\u0002",
    "\u0003",
    "\ud800",
    "\udc00",
    "\n",
    "/",
    "é",
    "😀",
    "a",
  ),
  fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
);
const channelNames = fc.uniqueArray(
  fc.array(unit, { maxLength: 4 }).map((units) => units.join("")),
  { minLength: 1, maxLength: 6 },
);

test("S6.4 a delta channel of any name has its seed and its writes, as in MemorySaver", async () => {
  const saver = openSaver(tempFile(), { logger: quiet });
  let count = 0;
  const history = async (on: MemorySaver | typeof saver, threadId: string, channels: readonly string[]): Promise<unknown> => {
    const versions = (version: number) => Object.fromEntries(channels.map((channel) => [channel, version]));
    const values = Object.fromEntries(channels.map((channel) => [channel, [`seed of ${channel}`]]));
    let config: object = { configurable: { thread_id: threadId, checkpoint_ns: "" } };
    for (const [step, channel_values] of [values, {}, {}].entries()) {
      const raised = versions(step === 2 ? 2 : 1);
      const checkpoint = { ...emptyCheckpoint(), id: uuid6(step), channel_values, channel_versions: raised };
      config = await on.put(config, checkpoint, { source: "loop", step, parents: {} }, step === 1 ? {} : raised);
      // A write to half a surrogate pair is refused.
      const named = channels.filter((channel) => channel.isWellFormed());
      const writes = named.map((channel): [string, string] => [channel, `${step} of ${channel}`]);
      if (step === 1) await on.putWrites(config, writes, "task");
    }
    return on.getDeltaChannelHistory({ config, channels: [...channels] });
  };
  await fc.assert(
    fc.asyncProperty(channelNames, async (channels) => {
      const threadId = `t${(count += 1)}`;
      expect(await history(saver, threadId, channels)).toEqual(await history(new MemorySaver(), threadId, channels));
    }),
    {
      numRuns: runs(60, 1_000),
      examples: ["a\u0001b", "a\\u0000b", "\ud800", "a\\ud800", "\\", 'a\\"', "\0", "\u0002"].map((name) => [[name, "plain"]]),
    },
  );
  expect(await saver.verify()).toMatchObject({ ok: true });
  saver.close();
});
