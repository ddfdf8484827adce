import { rmSync } from "node:fs";
import { CheckpointPersister } from "langgraph-checkpoint-turns";
import { salvage, rotateKeys, vacuum } from "langgraph-checkpoint-turns/maintenance";
import Database from "better-sqlite3";
import { leftovers, makeLarge, numberOfThread, rowsOfNumber } from "./large-thread";
import { at, CHECKPOINTS, headOf, KEY, KINDS, meanwhile, open, withLarge } from "./large-world";
import { runProgram } from "../support/s1-programs";
import { sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { points } from "../support/lane";

jest.setTimeout(300_000);

const NEW_KEY = "0011223344556677c90ab3fe5d6248016b1f0c93d2a4e5878899aabbccddeeff";

describe.each(points(KINDS, 1))("S6.7 deleting a large thread, %s", (kind, options) => {
  test("S6.7 it is gone for everyone at once, its rows go piece by piece, and others save and read between the pieces", async () => {
    const path = await withLarge(options);
    const saver = open(path, options);
    await makeLarge(saver, "small", 3);
    const other = open(path, options);
    expect(await headOf(other, "large")).toBe(CHECKPOINTS - 2);
    const number = numberOfThread(path, "large");
    const left: number[] = [];
    const turns = await meanwhile(saver.deleteThread("large"), async (turn) => {
      left.push(Object.values(rowsOfNumber(path, number)).reduce((sum, rows) => sum + rows, 0));
      for (const one of [saver, other]) {
        expect(await headOf(one, "small")).toBe(1);
        expect(await headOf(one, "large")).toBe(turn > 2 ? 2 : undefined);
      }
      if (turn === 1) {
        if (kind === "plain") expect(new CheckpointPersister(new Database(path)).loadForTask("task")).toEqual([]);
        await expect(other.copyThread("large", "copy")).rejects.toMatchObject({ code: "THREAD_NOT_FOUND" });
      }
      if (turn === 2) {
        await makeLarge(other, "beside", 2);
        await makeLarge(other, "large", 4);
        const listed: unknown[] = [];
        for await (const { config } of other.list({})) listed.push(config.configurable?.["thread_id"]);
        expect(listed.sort()).toEqual([
          ...Array<string>(2).fill("beside"),
          ...Array<string>(4).fill("large"),
          ...Array<string>(3).fill("small"),
        ]);
      }
    });
    // Each turn found fewer rows than the one before.
    expect(turns).toBeGreaterThan(1);
    expect(left).toEqual([...new Set(left)].sort((a, b) => b - a));
    expect(rowsOfNumber(path, number)).toEqual({});
    expect(leftovers(path)).toEqual([]);
    expect(await headOf(saver, "large")).toBe(2);
    expect((await saver.verify()).problems).toEqual([]);
  });

  test.each(points([2, 3], 1))(
    "S6.7 S3.8 SIGKILL after %d turns: nobody sees the rest, and the next process removes it",
    async (turns) => {
      const path = await withLarge(options);
      const saver = open(path, options);
      await makeLarge(saver, "small", 3);
      const number = numberOfThread(path, "large");
      saver.close();
      const key = kind === "plain" ? [] : [KEY];
      expect(runProgram("retention/large-delete-child.ts", path, "large", String(turns), ...key).signal).toBe("SIGKILL");
      expect(leftovers(path)).toEqual([{ thread: number, rewind_id: "", run_id: "" }]);
      expect(rowsOfNumber(path, number)).not.toEqual({});
      if (turns === 3) {
        const target = tempFile();
        rmSync(target, { force: true });
        await salvage(path, target, kind === "plain" ? {} : { encryption: { key: KEY } });
        const rescued = open(target, options);
        expect([await headOf(rescued, "large"), await headOf(rescued, "small")]).toEqual([undefined, 1]);
        expect((await rescued.verify()).problems).toEqual([]);
        expect(rowsOfNumber(target, number)).toEqual({});
      }
      const next = open(path, options);
      expect(await headOf(next, "large")).toBeUndefined();
      await makeLarge(next, "large", 2);
      // It walks while the rest is being removed.
      expect((await next.verify()).problems).toEqual([]);
      while (leftovers(path).length > 0) await new Promise(setImmediate);
      expect(rowsOfNumber(path, number)).toEqual({});
      expect([await headOf(next, "large"), await headOf(next, "small")]).toEqual([0, 1]);
      expect((await next.verify()).problems).toEqual([]);
    },
  );
});

test("S6.7 keys are rotated while a thread is being deleted, and none is kept for what is on its way out", async () => {
  const path = await withLarge({ encryption: { key: KEY } });
  const first = open(path, { encryption: { key: KEY } });
  await makeLarge(first, "small", 3);
  first.close();
  expect(runProgram("retention/large-delete-child.ts", path, "large", "2", KEY).signal).toBe("SIGKILL");
  const saver = open(path, { encryption: { keys: { default: KEY, next: NEW_KEY }, current: "next" } });
  expect(await rotateKeys(saver)).toMatchObject({ retired: 1 });
  expect(leftovers(path)).toEqual([]);
  expect((await saver.verify()).problems).toEqual([]);
  expect(await headOf(saver, "small")).toBe(1);
});

test("S3.1 S6.7 a leftover that names a thread that is there, by damage, takes nothing from it", async () => {
  const path = tempFile();
  const saver = open(path);
  await makeLarge(saver, "small", 3);
  const number = numberOfThread(path, "small");
  sqlOn(path, `INSERT INTO langgraph_leftovers (thread, rewind_id, run_id) VALUES (${number}, '', '')`);
  const before = rowsOfNumber(path, number);
  await vacuum(saver);
  expect(leftovers(path)).toEqual([]);
  const { langgraph_leftovers: _, ...rows } = before;
  expect(rowsOfNumber(path, number)).toEqual(rows);
  expect(await headOf(saver, "small")).toBe(1);
  expect((await saver.verify()).problems).toEqual([]);
});

test("S6.7 archives of a large thread's rewinds go with it, piece by piece", async () => {
  const path = tempFile();
  const saver = open(path);
  await makeLarge(saver, "large", 2);
  const [task] = await saver.turns.tasks("large");
  const parent = (await saver.getTuple(at("large")))!.config;
  await saver.put(
    { configurable: { ...parent.configurable, task_id: "later" } },
    { ...(await saver.getTuple(at("large")))!.checkpoint, id: "1fffffff-ffff-6fff-8000-000000000000" },
    { source: "input", step: 9, parents: {} },
    {},
  );
  await saver.rewind({ threadId: "large", toTask: task!.taskId });
  // As many as a large rewind leaves; they are only to be removed.
  sqlOn(
    path,
    `WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
      INSERT INTO langgraph_archive SELECT (SELECT id FROM langgraph_rewinds), 'large', i, 'langgraph_tasks', 'deleted', '{}', '' FROM n`,
  );
  const archived = (): number => {
    const db = new Database(path, { readonly: true });
    const count = db.prepare("SELECT count(*) FROM langgraph_archive").pluck().get() as number;
    db.close();
    return count;
  };
  const left: number[] = [];
  await meanwhile(saver.deleteThread("large"), async () => {
    left.push(archived());
    expect(await saver.rewinds.list("large")).toEqual([]);
    expect((await saver.verify()).problems).toEqual([]);
  });
  expect(left[0]).toBeGreaterThan(0);
  expect([archived(), leftovers(path)]).toEqual([0, []]);
  expect((await saver.verify()).problems).toEqual([]);
});
