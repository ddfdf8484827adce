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
