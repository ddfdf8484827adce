import { EarlyOutcomes, RunNames } from "../../src/testing-internal";

const MEGABYTE = 1 << 20;
const at = (checkpoint: number) => ({ threadId: "t", ns: "", checkpointId: `c${checkpoint}` });

/** What a node task returned whose checkpoint hasn't come yet: a text, half of it in a part. */
function outcome(nodeTaskId: string, characters: number): Parameters<EarlyOutcomes["add"]>[1] {
  const half = "x".repeat(characters / 2);
  const update = { text: half, parts: [{ address: "a", text: half }] };
  return { nodeTaskId, createdAt: "", settle: { status: "ok", durable: true, update, actionId: nodeTaskId } };
}

const kept = (early: EarlyOutcomes, checkpoints: number): string[] =>
  Array.from({ length: checkpoints }, (_, index) => early.take(at(index)))
    .flat()
    .map(({ nodeTaskId }) => nodeTaskId);

test("outcomes that wait for their checkpoint are bounded by how large they are, the oldest checkpoint's go first", () => {
  const early = new EarlyOutcomes();
  for (let index = 0; index < 6; index += 1) early.add(at(index), outcome(`n${index}`, 4 * MEGABYTE));
  expect(kept(early, 6)).toEqual(["n2", "n3", "n4", "n5"]);

  // What was taken, or forgotten, no longer counts.
  for (let index = 0; index < 4; index += 1) early.add(at(index), outcome(`m${index}`, 4 * MEGABYTE));
  expect(kept(early, 4)).toEqual(["m0", "m1", "m2", "m3"]);
});

test("the newest checkpoint's outcomes are kept whole, however large, and so many checkpoints' however small", () => {
  const early = new EarlyOutcomes();
  early.add(at(0), outcome("old", 2));
  early.add(at(1), outcome("large", 20 * MEGABYTE));
  early.add(at(1), outcome("beside it", 2));
  expect(kept(early, 2)).toEqual(["large", "beside it"]);

  for (let index = 0; index < 70; index += 1) early.add(at(index), outcome(`n${index}`, 2));
  expect(kept(early, 70)).toHaveLength(64);
});

test("the names that runs gave their tasks are bounded, and the newest runs' are known", () => {
  const names = new RunNames();
  const remember = (thread: number): unknown =>
    names.remember({ configurable: { task_id: `task ${thread}` } }, { threadId: `t${thread}`, ns: "" });
  for (let thread = 0; thread < 10_001; thread += 1) remember(thread);
  expect(names.of("t0").taskId).toBeUndefined();
  expect(names.of("t1").taskId).toBe("task 1");
  expect(names.of("t10000").taskId).toBe("task 10000");
});
