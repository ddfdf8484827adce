import { pullTaskId, SeenCheckpoints } from "../../src/testing-internal";

const id = (n: number): string => `1ef4f797-8335-6428-8001-${String(n).padStart(12, "0")}`;
/** The task that node `a` is at step 1, on checkpoint 0. */
const nodeTaskId = pullTaskId("a", 1, "a", ["branch:to:a"], id(0));
const task = {
  ...{ name: "a", step: 1, triggers: ["branch:to:a"], path: ["__pregel_pull", "a"] },
  ...{ nodeNs: `a:${nodeTaskId}`, nodeTaskId },
};
const hand = (seen: SeenCheckpoints, threadId: string, n: number): void => {
  seen.add({ threadId, ns: "" }, { id: id(n), channel_values: {} }, { step: 0 });
};
const macrotask = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("the checkpoint that a node starts from", () => {
  test("is waited for, however many checkpoints of other threads are handed in meanwhile", async () => {
    const seen = new SeenCheckpoints();
    const start = seen.startOf(task, "t", () => undefined);
    for (let other = 1; other < 20; other += 1) {
      hand(seen, "other", other);
      await Promise.resolve();
    }
    await macrotask();
    hand(seen, "t", 0);
    expect(await start).toMatchObject({ threadId: "t", checkpointId: id(0) });
  });

  test("isn't waited for any longer than two rounds of the event loop in which nothing is saved", async () => {
    const seen = new SeenCheckpoints();
    const start = seen.startOf(task, "t", () => undefined);
    for (let round = 0; round < 3; round += 1) await macrotask();
    hand(seen, "t", 0);
    expect(await start).toBeUndefined();
  });

  test("is waited for as long as something of its thread is being saved", async () => {
    const seen = new SeenCheckpoints();
    let saved = (): void => undefined;
    const saving = new Promise<void>((resolve) => (saved = resolve));
    const start = seen.startOf(task, "t", () => saving);
    for (let round = 0; round < 10; round += 1) await macrotask();
    hand(seen, "t", 0);
    saved();
    expect(await start).toMatchObject({ checkpointId: id(0) });
  });

  test("is waited for as long as something is being saved on the thread that its graph is really on", async () => {
    const seen = new SeenCheckpoints();
    seen.add({ threadId: "inner", ns: "call:1" }, { id: id(1), channel_values: {} }, { step: -1 });
    const innerId = pullTaskId("call:1|a", 1, "a", ["branch:to:a"], id(0));
    const inner = { ...task, nodeNs: `call:1|a:${innerId}`, nodeTaskId: innerId };
    let saved = (): void => undefined;
    const saving = new Promise<void>((resolve) => (saved = resolve));
    const start = seen.startOf(inner, "outer", (threadId) => (threadId === "inner" ? saving : undefined));
    for (let round = 0; round < 10; round += 1) await macrotask();
    seen.add({ threadId: "inner", ns: "call:1" }, { id: id(0), channel_values: {} }, { step: 0 });
    saved();
    expect(await start).toMatchObject({ threadId: "inner", checkpointId: id(0) });
  });

  test("is waited for as long as something is being saved on a thread whose root was called in the same node", async () => {
    const seen = new SeenCheckpoints();
    for (const calledIn of [undefined, "other"])
      seen.add({ threadId: `of ${calledIn}`, ns: "" }, { id: id(1), channel_values: {} }, { step: -1 }, calledIn);
    seen.add({ threadId: "inner", ns: "" }, { id: id(1), channel_values: {} }, { step: -1 }, "call");
    let saved = (): void => undefined;
    const saving = new Promise<void>((resolve) => (saved = resolve));
    const asked: string[] = [];
    const start = seen.startOf({ ...task, calledIn: "call" }, "outer", (threadId) => {
      asked.push(threadId);
      return threadId === "inner" ? saving : undefined;
    });
    for (let round = 0; round < 10; round += 1) await macrotask();
    seen.add({ threadId: "inner", ns: "" }, { id: id(0), channel_values: {} }, { step: 0 }, "call");
    saved();
    expect(await start).toMatchObject({ threadId: "inner", checkpointId: id(0) });
    expect(new Set(asked)).toEqual(new Set(["outer", "inner"]));
  });

  test("isn't that of another thread which has a checkpoint of the same id, if the task's thread is known", async () => {
    const seen = new SeenCheckpoints();
    hand(seen, "source of a copy", 0);
    expect(seen.startOf(task, "t", () => undefined)).toMatchObject({ threadId: "source of a copy" });
    expect(await seen.startOf({ ...task, isPlaced: true }, "t", () => undefined)).toBeUndefined();
  });

  test("is known when a node is tried again, though many checkpoints of other graphs have come since", () => {
    const seen = new SeenCheckpoints();
    hand(seen, "t", 0);
    for (let other = 1; other < 1_000; other += 1) hand(seen, `other ${other % 10}`, other);
    expect(seen.startOf(task, "t", () => undefined)).toMatchObject({ checkpointId: id(0) });
  });
});
