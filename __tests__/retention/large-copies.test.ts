import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { CheckpointPersister, type TurnSaver } from "langgraph-checkpoint-turns";
import { rotateKeys, vacuum } from "langgraph-checkpoint-turns/maintenance";
import Database from "better-sqlite3";
import { leftovers, makeLarge, rowsOfNumber } from "./large-thread";
import { at, CHECKPOINTS, headOf, KEY, KINDS, meanwhile, open, withLarge } from "./large-world";
import { runProgram, startProgram } from "../support/s1-programs";
import { sqlOn } from "../support/s1-tools";
import { points } from "../support/lane";

jest.setTimeout(300_000);

describe.each(points(KINDS, 1))("S6.7 copying a large thread, %s", (kind, options) => {
  const key = kind === "plain" ? [] : [KEY];

  /** Gives the thread turns. */
  async function withTurns(saver: TurnSaver): Promise<void> {
    const graph = new StateGraph(Annotation.Root({ note: Annotation<string> }))
      .addNode("work", () => ({ note: "done" }))
      .addEdge(START, "work")
      .compile({ checkpointer: saver });
    const by = { configurable: { thread_id: "large", task_id: "recorded" } };
    for (let run = 0; run < 10; run += 1) await saver.attach(graph).invoke({ note: `run ${run}` }, by);
  }
  const source = (): Promise<string> => withLarge(options, withTurns);

  /** What users see of a thread, without its own id; each checkpoint as a digest. */
  async function seen(saver: TurnSaver, threadId: string) {
    const without = (value: unknown): string =>
      JSON.stringify(value, (name, item: unknown) => (name === "thread_id" ? "the thread" : item));
    const checkpoints: string[] = [];
    for await (const tuple of saver.list(at(threadId))) {
      checkpoints.push(createHash("sha256").update(without(tuple)).digest("hex"));
    }
    const turns = (await saver.turns.list(threadId)).map(
      ({ id: _id, seq: _seq, threadId: _thread, graphId: _graph, ...turn }) => turn,
    );
    const tasks = (await saver.turns.tasks(threadId)).map(({ taskId, createdAt }) => ({ taskId, createdAt }));
    return {
      checkpoints: checkpoints.reverse(),
      turns,
      tasks,
      names: (await saver.names.list(threadId)).map(({ name }) => name),
    };
  }

  const numberOfCopy = (path: string): number | undefined => (leftovers(path)[0] as { thread: number } | undefined)?.thread;
  const ids = async (saver: TurnSaver): Promise<Set<unknown>> => {
    const found = new Set<unknown>();
    for await (const { config } of saver.list({})) found.add(config.configurable?.["thread_id"]);
    return found;
  };

  test("S6.7 S3.7 everyone sees it at once, as of one moment, and others save on the source between the pieces", async () => {
    const path = await source();
    const saver = open(path, options);
    const other = open(path, options);
    await saver.names.set({ threadId: "large" }, "a name");
    const before = await seen(saver, "large");
    const head = (await other.getTuple(at("large")))!;
    const persister = new CheckpointPersister(new Database(path));
    const recorded = (await saver.turns.list("large")).length;
    const written: number[] = [];
    const look = (number: number): void => {
      const rows = rowsOfNumber(path, number);
      if (numberOfCopy(path) === number) written.push(Object.values(rows).reduce((sum, count) => sum + count, 0));
    };
    let looks = 0;
    await meanwhile(saver.copyThread("large", "copy"), async () => {
      const number = numberOfCopy(path);
      if (number === undefined) return;
      looks += 1;
      look(number);
      if (kind === "plain") expect(persister.loadForTask("recorded")).toHaveLength(recorded);
      expect(await other.getTuple(at("copy"))).toBeUndefined();
      expect(await headOf(other, "large")).toBeDefined();
      // Other things take long, and the copy goes on meanwhile.
      look(number);
      if (looks % 3 === 2) expect((await other.verify()).problems).toEqual([]);
      if (looks === 1) {
        // A new version of what is there already, and what comes behind it.
        await other.put(
          {
            configurable: {
              ...head.config.configurable,
              checkpoint_id: head.parentConfig!.configurable!["checkpoint_id"],
              task_id: "task",
            },
          },
          head.checkpoint,
          { ...head.metadata!, step: 7_777 },
          {},
        );
        await other.names.set({ threadId: "large" }, "a later name");
        await makeLarge(other, "large", 3);
        const listed = await ids(other);
        if (numberOfCopy(path) === number) expect(listed).toEqual(new Set(["large"]));
        look(number);
        await expect(other.copyThread("large", "large")).rejects.toMatchObject({ code: "THREAD_EXISTS" });
        for (const removing of [
          () => vacuum(other),
          () => other.prune({ threadId: "small", keepLast: 1 }),
          () => other.deleteThread("small"),
        ]) {
          await removing().catch((error: { code: string }) => expect(error.code).toBe("THREAD_NOT_FOUND"));
        }
        if (kind === "encrypted") await rotateKeys(other);
        open(path, options);
      }
    });
    expect(written.length).toBeGreaterThan(1);
    expect(written).toEqual([...written].sort((a, b) => a - b));
    expect(leftovers(path)).toEqual([]);
    expect(await seen(other, "copy")).toEqual(before);
    expect((await headOf(saver, "large"))!).toBe(1);
    expect((await saver.verify()).problems).toEqual([]);
  });

  if (kind === "plain") {
    test("S6.7 S1.5 turns that CheckpointPersister deletes meanwhile are in no copy", async () => {
      const path = await source();
      const saver = open(path, options);
      const recorded = (await saver.turns.list("large")).length;
      const persister = new CheckpointPersister(new Database(path));
      let deleted = 0;
      await meanwhile(saver.copyThread("large", "copy"), async () => {
        const rows = rowsOfNumber(path, numberOfCopy(path) ?? 0)["langgraph_checkpoints"];
        if (deleted === 0 && rows === recorded) deleted = persister.deleteAfter("none", ["none", "recorded"]);
      });
      expect(deleted).toBe(2 * recorded);
      expect(await seen(saver, "copy")).toEqual(await seen(saver, "large"));
      expect((await saver.turns.list("copy")).length).toBe(0);
      expect([leftovers(path), (await saver.verify()).problems]).toEqual([[], []]);
    });
  }

  test("S6.7 S3.7 while another process saves on the source, the copy is as the source was at one moment", async () => {
    const path = await source();
    const saver = open(path, options);
    const child = startProgram("retention/large-save-child.ts", path, ...key);
    await child.said;
    await saver.copyThread("large", "copy");
    await saver.copyThread("large", "copy 2");
    await child.kill();
    const now = await seen(saver, "large");
    for (const threadId of ["copy", "copy 2"]) {
      const copy = await seen(saver, threadId);
      const length = copy.checkpoints.length;
      expect(length).toBeGreaterThan(CHECKPOINTS);
      expect(now.checkpoints.length).toBeGreaterThan(length);
      // The writes of its newest checkpoint may have come later.
      expect(copy.checkpoints.slice(0, -1)).toEqual(now.checkpoints.slice(0, length - 1));
      expect(copy.turns).toEqual(now.turns);
    }
    expect(leftovers(path)).toEqual([]);
    expect((await saver.verify()).problems).toEqual([]);
  });

  test.each(points([1, 6], 1))(
    "S6.7 S3.8 SIGKILL %d turns into a copy: nobody sees it, and the next process removes it",
    async (turns) => {
      const path = await source();
      const saver = open(path, options);
      const before = await seen(saver, "large");
      saver.close();
      expect(runProgram("retention/large-copy-child.ts", path, String(turns), ...key).signal).toBe("SIGKILL");
      expect(leftovers(path)).toEqual([{ thread: expect.any(Number), rewind_id: "", run_id: expect.stringMatching(/./) }]);
      const number = numberOfCopy(path)!;
      if (turns > 1) expect(rowsOfNumber(path, number)).not.toEqual({ langgraph_leftovers: 1 });
      const next = open(path, options);
      expect(await next.getTuple(at("copy"))).toBeUndefined();
      expect((await next.verify()).problems).toEqual([]);
      while (leftovers(path).length > 0) await new Promise(setImmediate);
      expect(rowsOfNumber(path, number)).toEqual({});
      const runs = new Database(path, { readonly: true });
      expect(runs.prepare("SELECT count(*) FROM langgraph_runs").pluck().get()).toBe(0);
      runs.close();
      await next.copyThread("large", "copy");
      expect(await seen(next, "copy")).toEqual(before);
      expect((await next.verify()).problems).toEqual([]);
    },
  );

  test("S6.7 nobody removes the rows of a copy that another process, or another host, is still making", async () => {
    const path = await source();
    const saver = open(path, options);
    await makeLarge(saver, "small", 3);
    const before = await seen(saver, "large");
    const go = `${path}.go`;
    const child = startProgram("retention/large-copy-child.ts", path, go, ...key);
    await child.said;
    const number = numberOfCopy(path)!;
    const written = rowsOfNumber(path, number);
    expect(Object.keys(written).length).toBeGreaterThan(1);
    for (const host of ["as it is", "elsewhere"]) {
      if (host === "elsewhere") sqlOn(path, "UPDATE langgraph_runs SET host = 'elsewhere' WHERE thread_id = ''");
      await vacuum(open(path, options));
      await saver.prune({ threadId: "small", keepLast: 1 });
      await saver.deleteThread("nobody");
      for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
      expect([host, rowsOfNumber(path, number)]).toEqual([host, written]);
    }
    writeFileSync(go, "");
    expect(await child.ended).toMatchObject({ code: 0 });
    expect(await seen(saver, "copy")).toEqual(before);
    expect((await saver.verify()).problems).toEqual([]);
  });
});

describe("S6.7 copying a large thread while it is changed otherwise", () => {
  /** Does something once for each number under which a copy is written. */
  async function copying(path: string, saver: TurnSaver, each: (attempt: number) => Promise<unknown>): Promise<number> {
    const numbers = new Set<number>();
    await meanwhile(saver.copyThread("large", "copy"), async () => {
      const number = (leftovers(path)[0] as { thread: number } | undefined)?.thread;
      if (number === undefined || numbers.has(number)) return;
      numbers.add(number);
      await each(numbers.size);
    });
    return numbers.size;
  }
  async function large(): Promise<{ path: string; saver: TurnSaver; other: TurnSaver }> {
    const path = await withLarge();
    return { path, saver: open(path), other: open(path) };
  }
  const idsOf = async (saver: TurnSaver, threadId: string): Promise<unknown[]> => {
    const found: unknown[] = [];
    for await (const { checkpoint } of saver.list(at(threadId))) found.push(checkpoint.id);
    return found;
  };

  test("S6.7 a source that is pruned meanwhile is copied as it is after that", async () => {
    const { path, saver, other } = await large();
    expect(
      await copying(path, saver, (attempt) =>
        attempt === 1 ? other.prune({ threadId: "large", keepLast: 300 }) : Promise.resolve(),
      ),
    ).toBe(2);
    expect(await idsOf(saver, "copy")).toEqual(await idsOf(saver, "large"));
    expect([leftovers(path), (await saver.verify()).problems]).toEqual([[], []]);
  });

  test("S6.7 after three attempts it is copied in one transaction", async () => {
    const { path, saver, other } = await large();
    expect(await copying(path, saver, (attempt) => other.prune({ threadId: "large", keepLast: 340 - 10 * attempt }))).toBe(3);
    expect(await idsOf(saver, "copy")).toEqual(await idsOf(saver, "large"));
    expect([leftovers(path), (await saver.verify()).problems]).toEqual([[], []]);
  });

  test("S6.7 a source that is deleted meanwhile has no copy", async () => {
    const { path, saver, other } = await large();
    await expect(copying(path, saver, () => other.deleteThread("large"))).rejects.toMatchObject({ code: "THREAD_NOT_FOUND" });
    expect([await headOf(saver, "copy"), leftovers(path), (await saver.verify()).problems]).toEqual([undefined, [], []]);
  });

  test("S6.7 a thread that somebody begins under the copy's id stays, and nothing is left of the copy", async () => {
    const { path, saver, other } = await large();
    await expect(copying(path, saver, () => makeLarge(other, "copy", 2))).rejects.toMatchObject({ code: "THREAD_EXISTS" });
    expect([await headOf(saver, "copy"), leftovers(path), (await saver.verify()).problems]).toEqual([0, [], []]);
  });

  test("S6.7 a saver that is closed meanwhile refuses the rest, which the next one removes", async () => {
    const { path, saver, other } = await large();
    await expect(copying(path, saver, async () => saver.close())).rejects.toMatchObject({ code: "STORE_CLOSED" });
    await vacuum(other);
    expect([await headOf(other, "copy"), leftovers(path), (await other.verify()).problems]).toEqual([undefined, [], []]);
  });
});
