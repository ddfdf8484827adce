import { randomBytes } from "node:crypto";
import * as official from "@langchain/langgraph-checkpoint";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import fc from "fast-check";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { importOfficial } from "langgraph-checkpoint-turns/import";
import { compareWrites } from "../../src/testing-internal";
import { checkpoint, codeOf, quiet, setup, thread } from "../support/bad-harness";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

const TASKS = [1, 2, 3].map((n) => `${n}0000000-0000-4000-8000-000000000000`) as [string, string, string];
const [A, B, C] = TASKS;
const encryption = { key: randomBytes(32) };
const metadata = { source: "input" as const, step: -1, parents: {} };
const rows = (pending: readonly (readonly unknown[])[] | undefined): unknown[] =>
  (pending ?? []).map(([task, channel, value]) => [TASKS.indexOf(task as string), channel, value]);

const opened: { close(): void }[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.close();
});

async function saved(options: object = {}) {
  const path = tempFile();
  const saver = openSaver(path, { logger: quiet, ...options });
  opened.push(saver);
  const config = await saver.put(thread(), checkpoint(), metadata, { channel: 1 });
  return { path, saver, config };
}

/** Texts as they are where order is difficult: astral characters, those just below the surrogates' place and above it, digits, prefixes. */
const path = fc.string({
  unit: fc.constantFrom("~", ",", " ", "0", "9", "a", "Z", "ü", "\ud7ff", "\ue000", "\uffff", "\u{10000}", "🦜", "\u{10ffff}"),
  maxLength: 5,
});
const write = fc.record({ taskPath: path, nodeTaskId: path, idx: fc.integer({ min: -4, max: 12 }) });

describe("S6.4 pending writes are restored by task path, task id and index", () => {
  test("S6.4 no matter what order they were saved in, and specials before others", async () => {
    const { saver, config } = await saved();
    await saver.putWrites(
      config,
      [
        ["x", 5],
        ["y", 6],
      ],
      A,
      "~__pregel_pull, b",
    );
    await saver.putWrites(config, [["x", 3]], C, "~__pregel_pull, a");
    await saver.putWrites(
      config,
      [
        ["x", 4],
        ["__interrupt__", "?"],
      ],
      B,
      "~__pregel_pull, b",
    );
    await saver.putWrites(config, [["__resume__", 1]], A);
    await saver.putWrites(config, [["x", 2]], "00000000-0000-0000-0000-000000000000");
    expect(rows((await saver.getTuple(config))?.pendingWrites)).toEqual([
      [-1, "x", 2],
      [0, "__resume__", 1],
      [2, "x", 3],
      [0, "x", 5],
      [0, "y", 6],
      [1, "__interrupt__", "?"],
      [1, "x", 4],
    ]);
  });

  test("S6.4 a task's later writes replace its earlier ones, the path included, and a rewind brings both back", async () => {
    const { saver } = await saved();
    const config = await saver.put(thread("t", { task_id: "one" }), checkpoint(), metadata, { channel: 1 });
    await saver.putWrites(config, [["x", "a"]], A, "2");
    await saver.putWrites(config, [["x", "b"]], B, "1");
    expect(rows((await saver.getTuple(config))?.pendingWrites)).toEqual([
      [1, "x", "b"],
      [0, "x", "a"],
    ]);
    const later = { configurable: { ...config.configurable, task_id: "two" } };
    await saver.putWrites(later, [["x", "a again"]], A, "0");
    expect(rows((await saver.getTuple(config))?.pendingWrites)).toEqual([
      [0, "x", "a again"],
      [1, "x", "b"],
    ]);
    await saver.rewind({ threadId: "t", toTask: "one" });
    expect(rows((await saver.getTuple(config))?.pendingWrites)).toEqual([
      [1, "x", "b"],
      [0, "x", "a"],
    ]);
  });

  testOfFiles(
    "S6.4 the order is that of code points, regardless of the encoding of the file, in lists and in the history of delta channels too",
    async () => {
      for (const encoding of ["UTF-8", "UTF-16le", "UTF-16be"]) {
        const db = new Database(tempFile());
        db.pragma(`encoding = "${encoding}"`);
        const saver = new TurnSaver(db, { logger: quiet });
        opened.push(saver);
        const parent = checkpoint();
        const config = await saver.put(thread(), parent, metadata, { channel: 1 });
        for (const [index, path] of ["🦜", "\uffee", "ü", "\u{10000}"].entries())
          await saver.putWrites(config, [["d", [path]]], TASKS[index] ?? "40000000-0000-4000-8000-000000000000", path);
        const child = { ...checkpoint({}), channel_versions: { d: 1 } };
        const counters = { counters_since_delta_snapshot: { d: [1, 1] } };
        const below = await saver.put(config, child, { ...metadata, source: "loop", step: 0, ...counters } as never, { d: 1 });
        const wanted = ["ü", "\uffee", "\u{10000}", "🦜"].map((path) => [path]);
        const values = (writes: readonly (readonly unknown[])[] | undefined) => writes?.map(([, , value]) => value);
        expect({ encoding, order: values((await saver.getTuple(config))?.pendingWrites) }).toEqual({ encoding, order: wanted });
        for await (const tuple of saver.list(config)) expect(values(tuple.pendingWrites)).toEqual(wanted);
        const history = await saver.getDeltaChannelHistory({ config: below, channels: ["d"] });
        expect(values(history["d"]?.writes)).toEqual(wanted);
      }
    },
  );

  test("S6.4 the comparator is a strict order by code points, and LangGraph's own where it has one", () => {
    const byCodePoint = (text: string): string =>
      Array.from(text, (point) => (point.codePointAt(0) ?? 0).toString(16).padStart(6, "0")).join("");
    const points = (one: { taskPath: string; nodeTaskId: string; idx: number }): (string | number)[] => [
      byCodePoint(one.taskPath),
      byCodePoint(one.nodeTaskId),
      one.idx,
    ];
    const { writesSortKey, compareWritesSortKeys } = official as any;
    fc.assert(
      fc.property(write, write, (left, right) => {
        const order = compareWrites(left, right);
        const [one, other] = [points(left), points(right)];
        const at = one.findIndex((part, index) => part !== other[index]);
        const wanted = at === -1 ? 0 : (one[at] as string) < (other[at] as string) ? -1 : 1;
        expect(order).toBe(wanted);
        expect(compareWrites(right, left)).toBe(wanted === 0 ? 0 : -wanted);
        if (compareWritesSortKeys === undefined) return;
        const keys = [left, right].map(({ taskPath, nodeTaskId, idx }) => writesSortKey(taskPath, nodeTaskId, idx));
        expect(order).toBe(compareWritesSortKeys(keys[0], keys[1]));
      }),
      { numRuns: 5_000 },
    );
  });

  test("S6.4 random writes are restored as from the comparator, over a copy, and after an archive was taken back", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.tuple(fc.uuid({ version: 4 }), path), { selector: ([id]) => id, maxLength: 6 }),
        async (tasks) => {
          const { path: file, saver } = await saved({ encryption });
          await saver.put(thread("t", { task_id: "zero" }), checkpoint(), metadata, { channel: 1 });
          const config = await saver.put(thread("t", { task_id: "one" }), checkpoint(), metadata, { channel: 1 });
          for (const [id, taskPath] of tasks)
            await saver.putWrites(
              config,
              [
                ["x", id],
                ["y", taskPath],
              ],
              id,
              taskPath,
            );
          const places = tasks.map(([nodeTaskId, taskPath]) => ({ nodeTaskId, taskPath, idx: 0 }));
          const wanted = places.toSorted(compareWrites).flatMap(({ nodeTaskId: id, taskPath }) => [
            [id, "x", id],
            [id, "y", taskPath],
          ]);
          expect((await saver.getTuple(config))?.pendingWrites).toEqual(wanted);
          await saver.copyThread("t", "copy");
          const { checkpoint_id } = config.configurable as { checkpoint_id: string };
          expect((await saver.getTuple(thread("copy", { checkpoint_id })))?.pendingWrites).toEqual(wanted);
          const { rewindId } = await saver.rewind({ threadId: "t", toTask: "zero" });
          expect(await saver.getTuple(config)).toBeUndefined();
          expect(await saver.verify()).toMatchObject({ ok: true });
          await saver.rewinds.takeBack(rewindId ?? "");
          expect((await saver.getTuple(config))?.pendingWrites).toEqual(wanted);
          saver.close();
          const again = openSaver(file, { logger: quiet, encryption });
          opened.push(again);
          expect((await again.getTuple(config))?.pendingWrites).toEqual(wanted);
        },
      ),
      { numRuns: 25 },
    );
  });

  test("S6.4 S3.1 a path that was changed in the file is noticed, by who reads it and by verify", async () => {
    const { path: file, saver, config } = await saved();
    await saver.putWrites(config, [["x", 1]], A, "1");
    await saver.putWrites(config, [["x", 2]], B, "2");
    const db = new Database(file);
    db.prepare("UPDATE langgraph_writes SET task_path = '3' WHERE task_path = '1'").run();
    db.close();
    expect(await codeOf(() => saver.getTuple(config))).toBe("CHECKPOINT_CORRUPTED");
    expect(await saver.verify()).toMatchObject({ ok: false, problems: [{ table: "langgraph_writes", kind: "checksum" }] });
  });

  test("S6.4 imported writes come in the official order, by task id and index: its file has no paths", async () => {
    const file = tempFile("official.db");
    const from = SqliteSaver.fromConnString(file);
    const at = await from.put(thread(), checkpoint(), metadata);
    await from.putWrites(
      at,
      [
        ["x", 1],
        ["y", 2],
      ],
      C,
    );
    await from.putWrites(at, [["x", 3]], A);
    await from.putWrites(at, [["__interrupt__", 4]], B);
    const theirs = rows((await from.getTuple(at))?.pendingWrites);
    from.db.close();
    const saver = openSaver(":memory:", { logger: quiet });
    opened.push(saver);
    expect((await importOfficial(saver, file)).threads[0]).toMatchObject({ verified: true });
    const ours = rows((await saver.getTuple(at))?.pendingWrites);
    expect(ours).toEqual([
      [0, "x", 3],
      [1, "__interrupt__", 4],
      [2, "x", 1],
      [2, "y", 2],
    ]);
    expect(ours).toEqual(theirs);
  });
});

describe("bad input: task paths that are none", () => {
  test.each([
    ["a number", 7],
    ["an object", { path: "a" }],
    ["an array", ["a"]],
    ["a boolean", true],
    ["a NUL character", "a\0b"],
    ["a lone surrogate", "a\ud800"],
  ])("bad input: %s as taskPath is refused by name, and nothing changes", async (_title, taskPath) => {
    const { saver, rows: counted, close } = await setup();
    const config = await saver.put(thread(), checkpoint(), metadata, { channel: 1 });
    const before = counted();
    const refused = saver.putWrites(config, [["a", 1]], A, taskPath as never);
    await expect(refused).rejects.toMatchObject({ code: "INVALID_CONFIG", data: { key: "taskPath" } });
    await expect(refused).rejects.toThrow(/^taskPath, the fourth argument of putWrites/);
    expect(counted()).toEqual(before);
    close();
  });

  test.each([undefined, null, "", "__proto__", "~__pregel_pull, 🦜", "x".repeat(10_240)])(
    "bad input: %j is a task path, or none",
    async (taskPath) => {
      const { saver, close } = await setup();
      const config = await saver.put(thread(), checkpoint(), metadata, { channel: 1 });
      await saver.putWrites(config, [["a", 1]], A, taskPath as never);
      expect(rows((await saver.getTuple(config))?.pendingWrites)).toEqual([[0, "a", 1]]);
      close();
    },
  );
});
