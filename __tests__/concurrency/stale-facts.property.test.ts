import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { join } from "node:path";
import Database from "better-sqlite3";
import fc from "fast-check";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { runs } from "../support/lane";
import { openOn } from "../support/model-calls";
import { chain } from "../support/s1-graph";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { configOf, put } from "../support/model-calls";
import { testOfFiles } from "../support/test-of-files";
import { perform, seenBy, type Task } from "./facts-world";

interface Move {
  /** Who does it; two at once where there is a second one. */
  by: number;
  task: Task;
  beside: { by: number; task: Task } | undefined;
  /** How a transaction ends that the owner of the handle began before the move. */
  inside?: "COMMIT" | "ROLLBACK" | undefined;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
let checkpoints = 0;
const note = fc.string({ minLength: 1, maxLength: 5 }).filter((text) => text.isWellFormed());
const taskName = fc.constantFrom("one", "two", "three");
const task: fc.Arbitrary<Task> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("step" as const),
      id: fc.constant(0),
      task: taskName,
      note,
      fromMemory: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("write" as const), node: fc.integer({ min: 0, max: 2 }), note }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("write early" as const),
      id: fc.constant(0),
      node: fc.integer({ min: 0, max: 2 }),
      note,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("again" as const), note }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("rewind" as const), task: taskName }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("prune" as const), keepLast: fc.integer({ min: 1, max: 3 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("delete" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("name" as const), name: fc.constantFrom("a", "b") }) },
);

function moves(savers: number): fc.Arbitrary<Move[]> {
  const by = fc.nat(savers - 1);
  const beside = fc.option(fc.record({ by, task }), { nil: undefined, freq: 3 });
  return fc.array(fc.record({ by, task, beside }), { minLength: 4, maxLength: 18 });
}

/** Some of them inside a transaction of the one who owns the handle. */
function movesOnHandle(savers: number): fc.Arbitrary<Move[]> {
  const inside = fc.option(fc.constantFrom("COMMIT" as const, "ROLLBACK" as const), { nil: undefined, freq: 2 });
  return fc
    .tuple(moves(savers), fc.array(inside, { minLength: 18, maxLength: 18 }))
    .map(([program, ends]) => program.map((move, at) => ({ ...move, inside: ends[at] })));
}

/** Ids are given when a step is made, so that no two steps share one. Early writes are to the checkpoint that the next step saves. */
function numbered(one: Task): Task {
  if (one.do === "write early") return { ...one, id: checkpoints + 1 };
  return one.do === "step" ? { ...one, id: (checkpoints += 1) } : one;
}

type Actor = (task: Task) => Promise<unknown>;

/** After each move everyone must see what somebody sees who has just opened the file, and knows nothing. */
async function play(path: string, actors: readonly Actor[], program: readonly Move[], owner?: Database.Database): Promise<void> {
  for (const { by, task, beside, inside } of program) {
    if (inside !== undefined) owner?.exec("BEGIN IMMEDIATE");
    const work = [(actors[by] as Actor)(numbered(task))];
    if (beside !== undefined) work.push((actors[beside.by] as Actor)(numbered(beside.task)));
    if (inside !== undefined && owner !== undefined) {
      // Reads go on inside it, saves wait for its end.
      await pause(10);
      owner.exec(inside);
    }
    await Promise.all(work);
    const fresh = openOn(path);
    const truth = await seenBy(fresh);
    fresh.close();
    for (const look of actors) expect(await look({ do: "look" })).toEqual(truth);
  }
  const last = openOn(path);
  const { ok, problems } = await last.verify();
  last.close();
  expect({ ok, problems }).toEqual({ ok: true, problems: [] });
}

describe("nobody ever goes by what another has changed", () => {
  test("S7.6 two savers of one process on one file", async () => {
    await fc.assert(
      fc.asyncProperty(moves(2), async (program) => {
        const path = tempFile();
        const savers = [openOn(path), openOn(path)];
        const actors = savers.map(
          (saver): Actor =>
            (one) =>
              perform(saver, one),
        );
        await play(path, actors, program).finally(() => savers.forEach((saver) => saver.close()));
      }),
      { numRuns: runs(5, 150) },
    );
  }, 600_000);

  test("S7.6 S1.9 a write replaces one that came before its checkpoint, no matter who else writes in between", async () => {
    const path = tempFile();
    const [own, other] = [openOn(path), openOn(path)];
    const write = (saver: TurnSaver, by: Task["do"], text: string) =>
      perform(saver, { do: by, id: 2, node: 0, note: text } as Task);
    const step = (saver: TurnSaver, id: number) => perform(saver, { do: "step", id, task: "one", note: "x", fromMemory: false });
    await step(own, 1);
    await write(own, "write early", "before its checkpoint");
    await perform(other, { do: "name", name: "forget what you know" });
    await step(own, 2);
    await write(own, "write", "after it");
    expect(
      (await own.getTuple({ configurable: { thread_id: "thread" } }))?.pendingWrites?.map(
        ([, , value]) => (value as string[])[0],
      ),
    ).toEqual(["after it"]);
    expect((await own.verify()).problems).toEqual([]);
    own.close();
    other.close();
  });

  test("S7.6 S3.2 a save that continues from what another saver has rewound is refused, and what was left stays as it is", async () => {
    const path = tempFile();
    const [own, other] = [openOn(path), openOn(path)];
    const step = (id: number, task: string) =>
      put(own, { id, parent: id === 1 ? undefined : id - 1, values: { log: [task] }, versions: { log: id }, task });
    await step(1, "one");
    await step(2, "two");
    await other.rewind({ threadId: "thread", toTask: "one" });
    const left = await seenBy(other);
    await expect(step(3, "two")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND", data: { threadId: "thread" } });
    expect(await seenBy(own)).toEqual(left);
    expect((await own.verify()).problems).toEqual([]);
    // From what is there it goes on.
    await put(own, { id: 3, parent: 1, values: { log: ["three"] }, versions: { log: 3 }, task: "three" });
    expect((await own.verify()).problems).toEqual([]);
    own.close();
    other.close();
  });

  test("S7.6 S3.2 after a rewind a save continues from a parent that never was in this file, or couldn't be saved", async () => {
    const own = TurnSaver.fromPath(tempFile(), { logger: quiet, synchronous: "normal", onCheckpointError: "continue" });
    const step = (saver: TurnSaver, id: number, parent: number | undefined, task: string, log: unknown = [task]) =>
      put(saver, { id, parent, values: { log }, versions: { log: id }, task });
    const path = tempFile();
    const strict = openOn(path);
    await step(strict, 2, 1, "one");
    await step(strict, 3, 2, "two");
    await strict.rewind({ threadId: "thread", toTask: "one" });
    await step(strict, 4, 1, "a copy of the oldest");
    await step(own, 1, undefined, "one");
    await step(own, 2, 1, "two");
    await own.rewind({ threadId: "thread", toTask: "one" });
    await step(own, 3, 1, "three", () => "not to be saved");
    await step(own, 4, 3, "three");
    for (const saver of [strict, own]) {
      expect((await saver.getTuple(configOf({})))?.checkpoint.id).toMatch(/4$/);
      saver.close();
    }
  });

  test("S7.6 S3.2 a run whose thread another process rewinds meanwhile saves nothing any more", async () => {
    const path = tempFile();
    const own = openOn(path);
    const other = await process(path);
    const inTask = (task: string) => ({ configurable: { thread_id: "thread", task_id: task } });
    await chain(own).invoke({ log: ["first"] }, inTask("one"));
    let left: unknown;
    const run = chain(own, async (node) => {
      if (node !== "b") return;
      await other.ask({ do: "rewind", task: "one" });
      left = await other.ask({ do: "look" });
    });
    await expect(run.invoke({ log: ["second"] }, inTask("two"))).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    expect(await seenBy(own)).toEqual(left);
    own.close();
    other.end();
  });

  testOfFiles(
    "S7.6 two savers on one handle, which somebody else writes to as well, and whose owner has transactions of their own",
    async () => {
      await fc.assert(
        fc.asyncProperty(movesOnHandle(3), async (program) => {
          const path = tempFile();
          const db = new Database(path);
          const savers = [0, 1].map(() => new TurnSaver(db, { logger: quiet, synchronous: "normal" }));
          const actors = savers.map(
            (saver): Actor =>
              (one) =>
                perform(saver, one),
          );
          // A rewind by another saver on the same handle, which neither of the two can know of. None opens inside a transaction.
          const third = new TurnSaver(db, { logger: quiet, synchronous: "normal" });
          const stranger: Actor = async (one) =>
            perform(db.inTransaction ? third : new TurnSaver(db, { logger: quiet, synchronous: "normal" }), one);
          await play(path, [...actors, stranger], program, db).finally(() => db.close());
        }),
        { numRuns: runs(4, 100) },
      );
    },
    600_000,
  );

  testOfFiles(
    "S7.6 S3.8 what a saver remembers of lists doesn't outlive a transaction of the user's that is rolled back",
    async () => {
      const path = tempFile();
      const db = new Database(path);
      const saver = new TurnSaver(db, { logger: quiet, synchronous: "normal" });
      const step = (id: number, log: string[]) =>
        put(saver, { id, parent: id === 1 ? undefined : 1, values: { log }, versions: { log: id } });
      await step(1, ["one".repeat(100)]);
      db.exec("BEGIN IMMEDIATE");
      // What is read in here is gone after the rollback: a list that branches off under a number that is free again.
      db.exec("DELETE FROM langgraph_items");
      await expect(saver.getTuple(configOf({}))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
      const second = step(2, ["another".repeat(100), "two".repeat(100)]);
      await pause(10);
      db.exec("ROLLBACK");
      await second;
      const log = ["another".repeat(100), "two".repeat(100), "three".repeat(100)];
      await step(3, log);
      const fresh = openOn(path);
      expect((await fresh.getTuple(configOf({})))?.checkpoint.channel_values["log"]).toEqual(log);
      expect((await fresh.verify()).problems).toEqual([]);
      fresh.close();
      saver.close();
    },
    60_000,
  );

  test("S7.6 two processes on one file, and a saver of a third", async () => {
    await fc.assert(
      fc.asyncProperty(moves(3), async (program) => {
        const path = tempFile();
        const own = openOn(path);
        const others = [await process(path), await process(path)];
        const actors: Actor[] = [(one) => perform(own, one), ...others.map(({ ask }) => ask)];
        await play(path, actors, program).finally(() => {
          own.close();
          for (const { end } of others) end();
        });
      }),
      { numRuns: runs(2, 30) },
    );
  }, 600_000);
});

/** Another process that works on the file. */
async function process(path: string): Promise<{ ask: Actor; end: () => void }> {
  const child = spawn(globalThis.process.execPath, [...childProgram(join(__dirname, "facts-child.ts")), path], {
    env: CHILD_ENV,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  await lines.next();
  let last: Promise<unknown> = Promise.resolve();
  const ask: Actor = (one) => {
    const answer = last.then(async () => {
      child.stdin.write(`${JSON.stringify(one)}\n`);
      return JSON.parse((await lines.next()).value as string) as unknown;
    });
    last = answer.catch(() => undefined);
    return answer;
  };
  return { ask, end: () => child.kill("SIGKILL") };
}
