import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { chain } from "../support/s1-graph";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { effectUndoneBy, undosNamed } from "../support/undo-world";
import { openSaver } from "../support/open-saver";

let path: string;
let saver: TurnSaver;
beforeEach(() => {
  path = tempFile();
  saver = openSaver(path, { logger: quiet });
});
afterEach(() => {
  saver.close();
});

const bad = (value: unknown): never => value as never;

describe("what a call of the runner says", () => {
  test.each([undefined, null, "t", {}, { configurable: {} }, { configurable: { thread_id: "" } }, { threadId: 7 }])(
    "S3.2 %j names no thread: refused with the words of the runner, nothing runs",
    async (options) => {
      const runner = new GraphRunner(chain(saver));
      for (const call of ["invoke", "stream"] as const) {
        await expect(runner[call]({ log: [] }, bad(options))).rejects.toMatchObject({
          code: "INVALID_CONFIG",
          message: expect.stringContaining(`runner.${call}(input, { threadId: "my-thread" })`),
        });
      }
      expect(() => runner.streamEvents({ log: [] }, bad(options))).toThrow(expect.objectContaining({ code: "INVALID_CONFIG" }));
      await expect(runner.resume(bad(options))).rejects.toMatchObject({ code: "INVALID_CONFIG" });
      await expect(runner.status(bad(undefined))).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    },
  );

  test.each([0, -1, Number.NaN, "2"])("S3.2 maxConcurrency %p is refused, and the thread stays free", async (maxConcurrency) => {
    const runner = new GraphRunner<any>(chain(saver));
    const options = bad({ threadId: "t", version: "v2", maxConcurrency });
    const refused = { code: "INVALID_OPTION", data: { option: "maxConcurrency" } };
    await expect(runner.invoke({ log: [] }, options)).rejects.toMatchObject(refused);
    await expect(runner.stream({ log: [] }, options)).rejects.toMatchObject(refused);
    expect(() => runner.streamEvents({ log: [] }, options)).toThrow(expect.objectContaining(refused));
    await expect(runner.resume(options)).rejects.toMatchObject(refused);
    for (const enough of [1, 7, Infinity, undefined])
      expect((await runner.invoke({ log: [] }, bad({ threadId: "t", maxConcurrency: enough }))).log.at(-1)).toBe("c");
  });

  test("S4.3 a policy that is none is refused, and does not stand for another one", async () => {
    const runner = new GraphRunner(chain(saver));
    await runner.invoke({ log: [] }, { threadId: "t" });
    for (const wrong of [{ drift: "refused" }, { onUnfinished: "finished" }]) {
      const options = bad({ threadId: "t", ...wrong });
      await expect(runner.invoke({ log: [] }, options)).rejects.toMatchObject({ code: "INVALID_OPTION" });
      await expect(runner.resume(options)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    }
  });
});

describe("a checkpoint that a run is told to begin at", () => {
  const at = (more: object = {}) => ({ configurable: { thread_id: "t", ...more } });
  const NEVER = "1ef00000-0000-6000-8000-000000000000";
  /** Three tasks, and then one of their checkpoints is gone. @returns its id */
  const gone: Record<string, (runner: GraphRunner<any>, ids: readonly string[]) => Promise<string | undefined>> = {
    "was pruned": async (_, ids) => (await saver.prune({ keepLast: 1 }), ids.at(-2)),
    "was rewound": async (runner, ids) => (await runner.rewind({ threadId: "t", toTask: "T1" }), ids[1]),
    "went with its run": async (_, ids) => (await saver.retention.deleteForRuns(["R2"]), ids[1]),
    "never existed": async () => NEVER,
  };
  const calls: Record<string, (runner: GraphRunner<any>, input: any, config: any) => Promise<unknown>> = {
    "runner.invoke": async (runner, input, config) => runner.invoke(input, config),
    "runner.stream": async (runner, input, config) => all(await runner.stream(input, config)),
    "runner.streamEvents": async (runner, input, config) => all(runner.streamEvents(input, { ...config, version: "v2" })),
    "runner.resume": async (runner, _, config) => runner.resume(config),
    "an attached graph's invoke": async (runner, input, config) => runner.graph.invoke(input, config),
    "an attached graph's batch": async (runner, input, config) => runner.graph.batch([input], config),
    "a copy by withConfig": async (runner, input, config) => runner.graph.withConfig(config).invoke(input),
  };
  const all = async (items: AsyncIterable<unknown>): Promise<unknown[]> => {
    const found: unknown[] = [];
    for await (const item of items) found.push(item);
    return found;
  };
  const ids = async (): Promise<string[]> =>
    (await all(saver.list(at({ checkpoint_ns: "" })))).map((tuple: any) => tuple.checkpoint.id as string);

  test.each(Object.keys(gone).flatMap((why) => Object.keys(calls).map((call) => [call, why] as const)))(
    "S3.2 S8.3 %s from one that %s is refused by its id, nothing runs, and nothing changes",
    async (call, why) => {
      const ran: string[] = [];
      const runner = new GraphRunner<any>(chain(saver, (node) => void ran.push(node)));
      for (const i of [0, 1, 2])
        await runner.invoke({ log: [`in ${i}`] }, bad({ threadId: "t", taskId: `T${i}`, metadata: { run_id: `R${i}` } }));
      const id = await gone[why]!(runner, await ids());
      const before = [await all(saver.list(at())), await saver.turns.list("t")];
      ran.splice(0);
      for (const input of [{ log: ["new"] }, null]) {
        await expect(calls[call]!(runner, input, at({ checkpoint_id: id }))).rejects.toMatchObject({
          code: "CHECKPOINT_NOT_FOUND",
          message: expect.stringContaining(`Thread "t" has no checkpoint "${id}", at which the run was told to begin.`),
          data: { threadId: "t", checkpointNs: "", checkpointId: id },
        });
      }
      expect(ran).toEqual([]);
      expect([await all(saver.list(at())), await saver.turns.list("t")]).toEqual(before);
      expect(await saver.getTuple(at({ checkpoint_id: id }))).toBeUndefined();
      expect((await runner.graph.getState(at({ checkpoint_id: id }))).values).toEqual({});
      const there = at({ checkpoint_id: (await ids()).at(-1) });
      expect((await runner.invoke(null, there)).log.at(-1)).toBe("c");
      await runner.invoke({ log: ["in 3"] }, { threadId: "t" });
    },
  );

  test("S3.2 a save by hand from one that a rewind removed is refused, and doesn't talk of a run", async () => {
    const graph = chain(saver);
    for (const task_id of ["T0", "T1"]) await graph.invoke({ log: ["in"] }, at({ task_id }));
    const [id] = await ids();
    await saver.rewind({ threadId: "t", toTask: "T0" });
    await expect(graph.invoke({ log: ["in"] }, at({ checkpoint_id: id }))).rejects.toMatchObject({
      code: "CHECKPOINT_NOT_FOUND",
      message: expect.stringContaining(
        `Thread "t" has no checkpoint ${id} any more, from which this save continues: a rewind removed it.`,
      ),
    });
  });
});

describe("two runners of one graph", () => {
  test("S3.4 a runner without gates leaves those of the first one where they are", async () => {
    const graph = chain(saver);
    const first = new GraphRunner(graph, { nodes: { b: { validate: () => 0, onFailure: "throw" } } });
    new GraphRunner(graph, { nodes: { a: { idempotent: true } } });
    await expect(first.invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({ code: "VALIDATION_FAILED" });
    const { failed } = await first.status("t");
    expect(failed).toMatchObject([
      { nodeName: "b", error: { name: "ValidationFailedError", message: expect.stringContaining("0.7") } },
    ]);
  });

  test("S3.4 settings of a gate without a validator are refused: nothing would be checked", () => {
    const nodes = { b: { onFailure: "throw" as const } };
    expect(() => new GraphRunner(chain(saver), { nodes })).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  });
});

test("S5.6 CHECKPOINT.md follows a rewind, and its taking back", async () => {
  const checkpointFile = join(dirname(path), "CHECKPOINT.md");
  const undone: string[] = [];
  const deed = async (node: string): Promise<void> => void (await effectUndoneBy("back", node, () => node));
  const runner = new GraphRunner(chain(saver, deed), {
    checkpointFile,
    undos: undosNamed({ back: ({ result }) => void undone.push(String(result)) }),
  });
  for (const taskId of ["one", "two"]) await runner.invoke({ log: [] }, { threadId: "t", taskId });
  expect(readFileSync(checkpointFile, "utf8")).toContain("two");
  const { rewindId } = await runner.rewind({ threadId: "t", toTask: "one" });
  expect(undone).toEqual(["c", "b", "a"]);
  expect(readFileSync(checkpointFile, "utf8")).not.toContain("two");
  const told: unknown[] = [];
  runner.events.on("rewind_taken_back", (report) => told.push(report));
  await expect(runner.takeBackRewind(rewindId!)).rejects.toMatchObject({ code: "REWIND_CONFLICT" });
  expect(told).toEqual([]);
  const restored = await runner.takeBackRewind(rewindId!, { despiteUndone: true });
  expect(told).toEqual([{ threadId: "t", rewindId, restored }]);
  expect(readFileSync(checkpointFile, "utf8")).toContain("two");
});
