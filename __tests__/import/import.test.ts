import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Command } from "@langchain/langgraph";
import { type CheckpointTuple, emptyCheckpoint, ERROR, INTERRUPT, TASKS, uuid6 } from "@langchain/langgraph-checkpoint";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { GraphRunner, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";
import { importOfficial } from "langgraph-checkpoint-turns/import";
import { collect, thread } from "../support/diff-harness";
import { fillLong, fillOfficial, say, worldGraph } from "./imp-world";
import { runProgram, startProgram } from "../support/s1-programs";
import { dump, quiet, sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { points } from "../support/lane";
import { longTest } from "../support/lane-test";

const THREADS = ["answered", "exit", "flaky", "forked", "waiting"];
const world = tempFile("official.db");
const savers: { close(): void }[] = [];

beforeAll(() => fillOfficial(world));
afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});

function target(path = ":memory:", options: object = {}): TurnSaver {
  const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
  savers.push(saver);
  return saver;
}

function official(path: string): SqliteSaver {
  const saver = SqliteSaver.fromConnString(path);
  savers.push({ close: () => void saver.db.close() });
  return saver;
}

async function refusal(work: Promise<unknown>): Promise<TurnsError> {
  const error = await work.then(
    () => new Error("nothing was thrown"),
    (thrown: unknown) => thrown,
  );
  if (!TurnsError.is(error)) throw error as Error;
  return error;
}

/** What both must agree on. */
function comparable(tuple: CheckpointTuple | undefined): unknown {
  if (tuple === undefined) return undefined;
  const { checkpoint, pendingWrites = [], metadata } = tuple;
  const { pending_sends: _, ...rest } = checkpoint as any;
  const parent = tuple.parentConfig?.configurable?.["checkpoint_id"] as string | undefined;
  return {
    checkpoint: rest,
    metadata,
    id: tuple.config.configurable?.["checkpoint_id"],
    ns: tuple.config.configurable?.["checkpoint_ns"],
    parent: parent === checkpoint.id ? undefined : parent,
    writes: pendingWrites,
  };
}

const tuples = async (saver: { list: SqliteSaver["list"] }, id: string): Promise<unknown[]> => {
  const all = (await collect(saver.list(thread(id)))).map(comparable);
  return all.sort((left: any, right: any) => (left.id < right.id ? 1 : left.id > right.id ? -1 : left.ns < right.ns ? 1 : -1));
};

async function expectEqualThreads(source: SqliteSaver, saver: TurnSaver, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const wanted = await tuples(source, id);
    expect(wanted.length).toBeGreaterThan(0);
    expect({ id, tuples: await tuples(saver, id) }).toEqual({ id, tuples: wanted });
    expect(comparable(await saver.getTuple(thread(id)))).toEqual({
      ...(comparable(await source.getTuple(thread(id))) as object),
    });
  }
}

const stateOf = async (graph: any, id: string): Promise<unknown> => {
  const { values, next, tasks, metadata, config, createdAt } = await graph.getState(thread(id), { subgraphs: true });
  return {
    values,
    next,
    metadata,
    config,
    createdAt,
    tasks: tasks.map(({ id: _, state, ...task }: any) => ({ ...task, state: state?.values })),
  };
};

/** A file with one thread of the given checkpoints, written by the official saver. */
async function handmade(
  path: string,
  id: string,
  count: number,
  edit: (index: number) => object = () => ({}),
): Promise<string[]> {
  const saver = SqliteSaver.fromConnString(path);
  const ids = Array.from({ length: count }, (_, index) => uuid6(index));
  for (const [index, checkpointId] of ids.entries()) {
    const checkpoint = {
      ...emptyCheckpoint(),
      id: checkpointId,
      channel_values: { x: index },
      channel_versions: { x: index + 1 },
    };
    await saver.put(
      thread(id, { checkpoint_ns: "", checkpoint_id: ids[index - 1] }),
      { ...checkpoint, ...edit(index) },
      { source: "loop", step: index, parents: {} },
    );
  }
  saver.db.close();
  return ids;
}

const at = (id: string, checkpointId: string | undefined, ns = "") =>
  thread(id, { checkpoint_ns: ns, checkpoint_id: checkpointId });

describe("what is imported", () => {
  test("I3.6 every checkpoint of real graphs reads as the official saver reads it, by getTuple and by list", async () => {
    const saver = target();
    const seen: string[] = [];
    const report = await importOfficial(saver, world, { onThread: ({ threadId }) => seen.push(threadId) });
    expect(report.threads.map(({ threadId }) => threadId)).toEqual(THREADS);
    expect(seen).toEqual(THREADS);
    await expectEqualThreads(official(world), saver, THREADS);
    for (const { threadId, checkpoints, writes, ...rest } of report.threads) {
      const db = new Database(world, { readonly: true });
      const count = (table: string) =>
        db.prepare(`SELECT count(*) FROM ${table} WHERE thread_id = ?`).pluck().get(threadId) as number;
      expect({ threadId, checkpoints }).toEqual({ threadId, checkpoints: count("checkpoints") });
      expect({ threadId, writes: writes + rest.orphanedWrites }).toEqual({ threadId, writes: count("writes") });
      expect(rest).toMatchObject({ outcome: "imported", skipped: [], verified: true });
      db.close();
    }
  });

  test("I3.6 the sample holds what it is meant to hold: namespaces, forks, interrupts, Sends, errors beside results", async () => {
    const db = new Database(world, { readonly: true });
    const some = (sql: string): number => db.prepare(sql).pluck().get() as number;
    expect(some("SELECT count(DISTINCT checkpoint_ns) FROM checkpoints")).toBeGreaterThan(3);
    expect(some(`SELECT count(*) FROM writes WHERE channel = '${INTERRUPT}'`)).toBeGreaterThan(2);
    expect(some(`SELECT count(*) FROM writes WHERE channel = '${TASKS}'`)).toBeGreaterThan(2);
    const forks = "SELECT 1 FROM checkpoints WHERE thread_id = 'forked' GROUP BY parent_checkpoint_id HAVING count(*) > 1";
    expect(some(`SELECT count(*) FROM (${forks})`)).toBeGreaterThan(0);
    const both = `SELECT count(*) FROM writes AS e JOIN writes AS w USING (checkpoint_id, task_id)
      WHERE e.channel = '${ERROR}' AND w.idx >= 0`;
    expect(some(both)).toBeGreaterThan(0);
    db.close();
  });

  test("I3.6 getState, with subgraphs, is the same on the imported thread", async () => {
    const saver = target();
    await importOfficial(saver, world);
    const [theirs, ours] = [worldGraph(official(world)), worldGraph(saver)];
    for (const id of THREADS.filter((name) => name !== "flaky")) {
      expect({ id, state: await stateOf(ours, id) }).toEqual({ id, state: await stateOf(theirs, id) });
    }
  });

  test("I3.6 messages, maps, sets and bytes come out as instances", async () => {
    const saver = target();
    await importOfficial(saver, world, { threads: ["exit"] });
    const { messages, extra } = (await saver.getTuple(thread("exit")))!.checkpoint.channel_values as any;
    expect(messages[0]).toBeInstanceOf(HumanMessage);
    expect(messages[1]).toBeInstanceOf(AIMessage);
    expect(messages[1].tool_calls).toEqual([{ id: "c1", name: "f", args: { a: [1, null] } }]);
    expect(messages[2]).toBeInstanceOf(ToolMessage);
    expect(extra.set).toEqual(new Set([1]));
    expect(extra.map.get("k")).toEqual(new Uint8Array([1, 255]));
  });

  test("I3.6 bytes among the pending writes, which the official saver reads damaged, come over as they were saved", async () => {
    const path = tempFile("official.db");
    const [id] = await handmade(path, "t", 1);
    const source = official(path);
    const bytes = new Uint8Array([0xff, 0xfe, 0x80, 0, 1]);
    await source.putWrites(at("t", id), [["x", bytes]], "task");
    expect((await source.getTuple(at("t", id)))!.pendingWrites![0]![2]).not.toEqual(bytes);
    const saver = target();
    await importOfficial(saver, path);
    expect((await saver.getTuple(at("t", id)))!.pendingWrites).toEqual([["task", "x", bytes]]);
  });

  test("I3.6 checkpoints before format 4 read as the official saver reads them: pending Sends of the parent in a channel", async () => {
    const path = tempFile("official.db");
    const ids = await handmade(path, "old", 3, (index) => ({ v: [1, 2, 3][index], pending_sends: [] }));
    const source = official(path);
    for (const task of ["task-b", "task-a"]) {
      await source.putWrites(
        at("old", ids[1]),
        [
          ["x", 1],
          [TASKS, { lg_name: "Send", node: "n", args: { task } }],
        ],
        task,
      );
    }
    const saver = target();
    const report = await importOfficial(saver, path);
    expect(report.threads[0]).toMatchObject({ checkpoints: 3, writes: 4, verified: true });
    await expectEqualThreads(source, saver, ["old"]);
    const head = (await saver.getTuple(thread("old")))!.checkpoint;
    expect((head.channel_values[TASKS] as any[]).map((send) => send.args.task)).toEqual(["task-a", "task-b"]);
  });

  test("I3.6 only the named threads are imported, and one that the file does not have is refused before anything is", async () => {
    const saver = target();
    const error = await refusal(importOfficial(saver, world, { threads: ["exit", "nobody"] }));
    expect(error).toMatchObject({ code: "THREAD_NOT_FOUND", data: { threadId: "nobody" } });
    expect(await saver.listThreads()).toEqual([]);
    const report = await importOfficial(saver, world, { threads: ["waiting", "exit", "waiting"] });
    expect(report.threads.map(({ threadId }) => threadId)).toEqual(["waiting", "exit"]);
    expect((await saver.listThreads()).map(({ threadId }) => threadId)).toEqual(["exit", "waiting"]);
  });
});

describe("continuing with an imported thread", () => {
  test.each([["plain"], ["attached"]])("I3.6 an interrupt is answered and new input follows, %s", async (how) => {
    const path = tempFile("official.db");
    await fillOfficial(path);
    const saver = target();
    await importOfficial(saver, path);
    const ours = worldGraph(saver);
    if (how === "attached") saver.attach(ours);
    const theirs = worldGraph(official(path));
    for (const id of ["waiting", "answered"]) {
      const [left, right] = [
        await ours.invoke(new Command({ resume: "ok" }), thread(id)),
        await theirs.invoke(new Command({ resume: "ok" }), thread(id)),
      ];
      expect({ id, ...left }).toEqual({ id, ...right });
      expect(left.log).toContain("answer ok");
      await ours.invoke(say("more"), thread(id));
      const state = await ours.getState(thread(id));
      expect(state.tasks[0].interrupts).toHaveLength(1);
      expect(state.values.messages.at(-1).content).toBe("more");
    }
  });

  test("I3.6 a GraphRunner finishes the imported run, and a rewind goes back to an imported task", async () => {
    const saver = target();
    await importOfficial(saver, world, { threads: ["answered"] });
    const runner = new GraphRunner(worldGraph(saver));
    const result: any = await runner.resume({ threadId: "answered", command: new Command({ resume: "end" }) });
    expect(result.log.at(-1)).toBe("done");
    const tasks = await saver.turns.tasks("answered");
    expect(tasks).toHaveLength(2);
    await saver.rewind({ threadId: "answered", toTask: tasks[0]!.taskId });
    const { values } = await runner.graph.getState(thread("answered"));
    expect(values.log).toEqual(["start", "w1", "w2", "before", "answer yes", "done"]);
  });
});

describe("thread ids that were numbers", () => {
  const IDS = ["7", 7, 8, -3, 2.5, 1e21, "v1.0", "x"];
  const wholeNumber = (id: string): string => id.replace(/^(-?\d+)\.0$/, "$1");

  async function numbered(ids: readonly unknown[] = IDS): Promise<string> {
    const path = tempFile("official.db");
    const saver = SqliteSaver.fromConnString(path);
    for (const id of ids) await worldGraph(saver).invoke(say(String(id)), thread(id as string));
    saver.db.close();
    return path;
  }

  test("I3.6 the report lists the ids that were numbers, which the official saver stores in another form", async () => {
    const path = await numbered();
    const saver = target();
    const report = await importOfficial(saver, path);
    expect(report.threads.map(({ threadId, targetId }) => [threadId, targetId])).toEqual(
      ["-3.0", "1.0e+21", "2.5", "7", "7.0", "8.0", "v1.0", "x"].map((id) => [id, id]),
    );
    expect(report.numericThreadIds).toEqual(["-3.0", "1.0e+21", "2.5", "7.0", "8.0"]);
    expect((await importOfficial(target(), world)).numericThreadIds).toEqual([]);
  });

  test("I3.6 mapThreadId gives threads other ids, and the import can be repeated with it", async () => {
    const path = await numbered([7, 8, "x"]);
    const saver = target();
    const report = await importOfficial(saver, path, { mapThreadId: wholeNumber });
    expect(report.threads.map(({ targetId, outcome, verified }) => [targetId, outcome, verified])).toEqual([
      ["7", "imported", true],
      ["8", "imported", true],
      ["x", "imported", true],
    ]);
    expect((await saver.turns.tasks("7.0")).length).toBe(0);
    const ours = worldGraph(saver);
    const theirs = worldGraph(official(path));
    expect((await ours.getState(thread("7"))).values).toEqual((await theirs.getState(thread(7 as never))).values);
    const answered = await ours.invoke(new Command({ resume: "ok" }), thread("8"));
    expect(answered).toEqual(await theirs.invoke(new Command({ resume: "ok" }), thread(8 as never)));
    const again = await importOfficial(saver, path, { threads: ["7.0"], mapThreadId: wholeNumber });
    expect(again.threads).toMatchObject([{ threadId: "7.0", targetId: "7", outcome: "present" }]);
  });

  test("I3.6 a thread whose id is empty is refused by name before anything is imported, and comes over under another id", async () => {
    const path = await numbered(["was named", "x"]);
    const theirs = await worldGraph(official(path)).getState(thread("was named"));
    const db = new Database(path);
    db.exec("UPDATE checkpoints SET thread_id = '' WHERE thread_id = 'was named'");
    db.exec("UPDATE writes SET thread_id = '' WHERE thread_id = 'was named'");
    db.close();
    const saver = target();
    await expect(importOfficial(saver, path)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(/thread whose id is "".* Nothing was imported\. .*mapThreadId/),
      data: { threadId: "" },
    });
    expect(await saver.listThreads()).toHaveLength(0);
    expect((await importOfficial(target(), path, { threads: ["x"] })).threads).toMatchObject([{ threadId: "x" }]);
    const report = await importOfficial(saver, path, { mapThreadId: (id) => id || "nameless" });
    expect(report.threads).toMatchObject([
      { threadId: "", targetId: "nameless", outcome: "imported", verified: true },
      { threadId: "x", targetId: "x", outcome: "imported", verified: true },
    ]);
    expect((await worldGraph(saver).getState(thread("nameless"))).values).toEqual(theirs.values);
  });

  test("I3.6 two threads with one id in the target are refused before anything is imported", async () => {
    const path = await numbered(["7", 7, "a"]);
    const saver = target();
    const error = await refusal(importOfficial(saver, path, { mapThreadId: wholeNumber }));
    expect(error).toMatchObject({ code: "INVALID_OPTION", data: { threadIds: ["7", "7.0"], targetId: "7" } });
    expect(error.message).toContain('"7" for both "7" and "7.0"');
    for (const id of ["7", "7.0", "a"]) expect(await saver.turns.tasks(id)).toEqual([]);
    const unknown = await refusal(importOfficial(saver, await numbered([9]), { threads: ["9"] }));
    expect(unknown).toMatchObject({ code: "THREAD_NOT_FOUND" });
    expect(unknown.message).toContain('The file has "9.0"');
  });
});

describe("what an import leaves besides checkpoints", () => {
  test("I3.6 imported rows keep the time of their checkpoint", async () => {
    const path = tempFile();
    const clock = (): Date => new Date("2099-01-01T00:00:00Z");
    const saver = target(path, { clock });
    await importOfficial(saver, world);
    const source = official(world);
    const known = new Map<string, string>();
    for (const id of THREADS) {
      for await (const { checkpoint } of source.list(thread(id))) known.set(checkpoint.id, checkpoint.ts);
    }
    const times = new Set(known.values());
    const db = new Database(path, { readonly: true });
    savers.push(db);
    const rows = db
      .prepare("SELECT created_at AS at FROM langgraph_checkpoints UNION ALL SELECT created_at FROM langgraph_tasks")
      .all() as { at: string }[];
    expect(rows.length).toBeGreaterThan(20);
    for (const { at } of rows) expect(times).toContain(at);
    const snapshots = db.prepare("SELECT checkpoint_id AS id, created_at AS at FROM langgraph_snapshots").all() as {
      id: string;
      at: number;
    }[];
    expect(snapshots.length).toBeGreaterThan(20);
    for (const { id, at } of snapshots) expect(new Date(at).toISOString()).toBe(known.get(id));
    for (const { createdAt } of await saver.listThreads()) expect(times).toContain(new Date(createdAt).toISOString());
    expect(await saver.verify()).toMatchObject({ problems: [] });
    // What comes later has the time of the saver's clock again.
    await worldGraph(saver).invoke(new Command({ resume: "ok" }), thread("waiting"));
    expect((await saver.turns.list("waiting")).at(-1)!.createdAt).toEqual(clock());
  });

  test("I3.6 importing warns of no missing attach; running without it still does", async () => {
    const lines: string[] = [];
    const logger = { debug() {}, info() {}, error() {}, warn: (_: unknown, line?: string) => void lines.push(String(line)) };
    const saver = target(undefined, { logger });
    await importOfficial(saver, world);
    expect(lines).toEqual([]);
    await worldGraph(saver).invoke(new Command({ resume: "ok" }), thread("waiting"));
    expect(lines.filter((line) => line.includes("not attached"))).toHaveLength(1);
  });
});

describe("importing again", () => {
  test("I3.6 a second import writes nothing", async () => {
    const path = tempFile();
    const saver = target(path);
    await importOfficial(saver, world);
    const before = dump(path);
    const report = await importOfficial(saver, world);
    expect(report.threads.map(({ outcome }) => outcome)).toEqual(THREADS.map(() => "present"));
    const after = dump(path);
    for (const table of ["langgraph_snapshots", "langgraph_writes", "langgraph_tasks", "langgraph_checkpoints"]) {
      expect(after[table]).toEqual(before[table]);
    }
  });

  test("I3.6 a thread that continued in the target stays as it is", async () => {
    const saver = target();
    await importOfficial(saver, world);
    const graph = worldGraph(saver);
    await graph.invoke(new Command({ resume: "ok" }), thread("waiting"));
    const before = await tuples(saver, "waiting");
    const report = await importOfficial(saver, world);
    expect(report.threads.find(({ threadId }) => threadId === "waiting")).toMatchObject({ outcome: "present" });
    expect(await tuples(saver as any, "waiting")).toEqual(before);
  });

  test("I3.6 a thread that continued in the source only is brought up to date", async () => {
    const path = tempFile("official.db");
    await fillOfficial(path);
    const saver = target();
    await importOfficial(saver, path);
    const source = official(path);
    await worldGraph(source).invoke(new Command({ resume: "later" }), thread("waiting"));
    const report = await importOfficial(saver, path, { threads: ["waiting"] });
    expect(report.threads[0]).toMatchObject({ outcome: "completed", verified: true });
    await expectEqualThreads(source, saver, ["waiting"]);
  });

  test("I3.6 a thread that continued in both, or has other checkpoints, is refused by name, or skipped", async () => {
    const path = tempFile("official.db");
    await fillOfficial(path);
    const saver = target();
    await importOfficial(saver, path, { threads: ["waiting"] });
    await worldGraph(saver).invoke(new Command({ resume: "here" }), thread("waiting"));
    await worldGraph(official(path)).invoke(new Command({ resume: "there" }), thread("waiting"));
    await worldGraph(saver).invoke(say("mine"), thread("exit"));
    const before = [await tuples(saver, "waiting"), await tuples(saver, "exit")];
    for (const id of ["waiting", "exit"]) {
      const error = await refusal(importOfficial(saver, path, { threads: [id] }));
      expect(error).toMatchObject({ code: "THREAD_EXISTS", data: { threadId: id } });
    }
    const report = await importOfficial(saver, path, { existing: "skip" });
    const skipped = report.threads.filter(({ outcome }) => outcome === "skipped");
    expect(skipped.map(({ threadId }) => threadId)).toEqual(["exit", "waiting"]);
    expect(skipped[0]).toMatchObject({
      checkpoints: 0,
      writes: 0,
      verified: false,
      why: expect.stringContaining("another thread"),
    });
    expect([await tuples(saver as any, "waiting"), await tuples(saver as any, "exit")]).toEqual(before);
  });

  test("I3.6 what a rewind removed from an imported thread doesn't return with the next import", async () => {
    const path = tempFile("official.db");
    const source = official(path);
    for (const id of ["rewound", "taken back"]) {
      await worldGraph(source).invoke(say("one"), thread(id));
      await worldGraph(source).invoke(say("two"), thread(id));
    }
    const saver = target();
    await importOfficial(saver, path);
    const whole = await tuples(saver, "taken back");
    const rewind = async (threadId: string): Promise<string> => {
      const [first] = await saver.turns.tasks(threadId);
      return (await saver.rewind({ threadId, toTask: first!.taskId })).rewindId!;
    };
    await rewind("rewound");
    await saver.rewinds.takeBack(await rewind("taken back"));
    const before = await tuples(saver, "rewound");
    const error = await refusal(importOfficial(saver, path, { threads: ["rewound"] }));
    expect(error).toMatchObject({ code: "THREAD_EXISTS", data: { threadId: "rewound" } });
    const report = await importOfficial(saver, path, { existing: "skip" });
    expect(report.threads.map(({ threadId, outcome }) => [threadId, outcome])).toEqual([
      ["rewound", "skipped"],
      ["taken back", "present"],
    ]);
    expect(await tuples(saver as any, "rewound")).toEqual(before);
    expect(await tuples(saver as any, "taken back")).toEqual(whole);
  });

  longTest(
    "I3.6 killed before and behind any save, the import is finished by the next one, without duplicates",
    async () => {
      const threads = JSON.stringify(THREADS);
      const whole = tempFile();
      const { out } = runProgram("import/imp-child.ts", world, whole);
      const saves = out[0].saves as number;
      expect(saves).toBeGreaterThan(60);
      const rowsOf = (path: string, table: string) =>
        dump(path)[table]!.filter((row: any) => row.superseded_by === null || row.superseded_by === undefined).length;
      const all = [1, 2, 3, 5, 8, 13, 21, 34, 50, saves - 1, saves].map((n, index) => [
        String(n),
        index % 2 === 0 ? "after" : "before",
      ]);
      const source = official(world);
      const check = async ([n = "", when = ""]: string[]): Promise<void> => {
        const path = tempFile();
        const ended = await startProgram("import/imp-child.ts", world, path, n, when).ended;
        expect(ended.signal).toBe("SIGKILL");
        const saver = TurnSaver.fromPath(path, { logger: quiet });
        const report = await importOfficial(saver, world);
        expect(JSON.stringify(report.threads.map(({ threadId }) => threadId))).toBe(threads);
        await expectEqualThreads(source, saver, THREADS);
        saver.close();
        for (const table of ["langgraph_snapshots", "langgraph_writes"]) {
          expect({ n, when, table, rows: rowsOf(path, table) }).toEqual({ n, when, table, rows: rowsOf(whole, table) });
        }
      };
      const some = points(all, 4);
      for (let index = 0; index < some.length; index += 4) await Promise.all(some.slice(index, index + 4).map(check));
    },
    300_000,
  );

  test("I3.6 while a thread is imported nobody else imports or runs it", async () => {
    const path = tempFile();
    const [saver, other] = [target(path), target(path)];
    const first = importOfficial(saver, world, { threads: ["answered"] });
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(await saver.turns.isRunning("answered")).toBe(true);
    const error = await refusal(importOfficial(other, world, { threads: ["answered"] }));
    expect(error.code).toBe("THREAD_RUNNING");
    expect((await first).threads[0]).toMatchObject({ outcome: "imported" });
    expect(await saver.turns.isRunning("answered")).toBe(false);
  });

  test("I3.6 an aborted import leaves the finished threads whole and nothing of the one at hand", async () => {
    const saver = target();
    const stop = new AbortController();
    let puts = 0;
    saver.events.on("checkpoint", ({ threadId }) => {
      if (threadId === "exit" && (puts += 1) === 2) stop.abort(new Error("enough"));
    });
    const error = await refusal(importOfficial(saver, world, { signal: stop.signal }));
    expect(error).toMatchObject({ code: "IMPORT_ABORTED", cause: new Error("enough") });
    expect((await saver.listThreads()).map(({ threadId }) => threadId)).toEqual(["answered"]);
    const report = await importOfficial(saver, world);
    expect(report.threads.map(({ outcome }) => outcome)).toEqual(["present", "imported", "imported", "imported", "imported"]);
    await expectEqualThreads(official(world), saver, THREADS);
  });
});

describe("a target with retention", () => {
  const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

  test.each([true, false])("I3.6 nothing is pruned while a thread is imported, verify %s", async (verify) => {
    const path = tempFile("official.db");
    await handmade(path, "t", 20);
    const saver = target(":memory:", { retention: { keepLast: 3 } });
    const report = await importOfficial(saver, path, { verify });
    await settled();
    expect(report.threads[0]).toMatchObject({ outcome: "imported", checkpoints: 20, verified: verify });
    await expectEqualThreads(official(path), saver, ["t"]);
    expect((await importOfficial(saver, path)).threads[0]).toMatchObject({ outcome: "present", verified: true });
  });

  test("I3.6 an import that was interrupted finds its beginning whole", async () => {
    const path = tempFile("official.db");
    const ids = await handmade(path, "t", 20);
    const file = tempFile();
    const options = { retention: { keepLast: 3 } };
    const begun = target(file);
    const source = official(path);
    for (const id of ids.slice(0, 6)) {
      const { checkpoint, metadata, parentConfig } = (await source.getTuple(at("t", id))) as any;
      await begun.put(parentConfig ?? at("t", undefined), checkpoint, metadata, checkpoint.channel_versions);
    }
    begun.close();
    const saver = target(file, options);
    const abort = new AbortController();
    saver.events.on("checkpoint", () => abort.abort());
    const code = (await refusal(importOfficial(saver, path, { signal: abort.signal }))).code;
    expect(code).toBe("IMPORT_ABORTED");
    await settled();
    expect((await importOfficial(saver, path)).threads[0]).toMatchObject({ outcome: "completed", verified: true });
  });

  test("I3.6 the next save on the thread is followed by retention again, and other threads are at any time", async () => {
    const path = tempFile("official.db");
    const ids = await handmade(path, "t", 20);
    const saver = target(":memory:", { retention: { keepLast: 3 } });
    const count = async (id: string): Promise<number> => (await collect(saver.list(thread(id)))).length;
    const save = async (id: string, parent?: string): Promise<unknown> =>
      saver.put(at(id, parent), { ...emptyCheckpoint(), id: uuid6(99 + more) }, { source: "loop", step: 20, parents: {} }, {});
    let more = 0;
    saver.events.on("checkpoint", ({ threadId }) => {
      if (threadId === "t" && more++ < 5) void save("other");
    });
    await importOfficial(saver, path);
    await settled();
    expect([await count("t"), await count("other")]).toEqual([20, 3]);
    await save("t", ids.at(-1));
    await settled();
    expect(await count("t")).toBe(3);
  });
});

describe("what cannot be read", () => {
  const broken = async (): Promise<{ path: string; ids: string[] }> => {
    const path = tempFile("official.db");
    const ids = await handmade(path, "bad", 3, (index) =>
      index === 1 ? { channel_values: { x: 10n }, channel_versions: { x: 2 } } : {},
    );
    await handmade(path, "good", 1);
    return { path, ids };
  };

  test("I3.6 a checkpoint that the official serde destroyed stops the import by its id, before anything of the thread is written", async () => {
    const { path, ids } = await broken();
    const saver = target();
    const error = await refusal(importOfficial(saver, path));
    expect(error).toMatchObject({
      code: "CHECKPOINT_UNREADABLE",
      data: { threadId: "bad", checkpointNs: "", checkpointId: ids[1] },
    });
    expect(error.message).toContain("could not serialize a value");
    expect(await saver.listThreads()).toEqual([]);
  });

  test("I3.6 with onUnreadable skip it is left out and listed, and all else comes over", async () => {
    const { path, ids } = await broken();
    const saver = target();
    const report = await importOfficial(saver, path, { onUnreadable: "skip" });
    expect(report.threads.map(({ threadId, checkpoints, verified }) => [threadId, checkpoints, verified])).toEqual([
      ["bad", 2, true],
      ["good", 1, true],
    ]);
    expect(report.threads[0]!.skipped).toEqual([
      { checkpointNs: "", checkpointId: ids[1], why: expect.stringContaining("destroyed") },
    ]);
    const listed = await collect(saver.list(thread("bad")));
    expect(listed.map(({ checkpoint }) => checkpoint.channel_values["x"])).toEqual([2, 0]);
    const again = await importOfficial(saver, path, { onUnreadable: "skip" });
    expect(again.threads.map(({ outcome }) => outcome)).toEqual(["present", "present"]);
  });

  const DESTROYED = "the official serde could not serialize";
  const cases: [string, string, string][] = [
    [
      "a destroyed pending write",
      `UPDATE writes SET value = '"[unable to serialize, circular reference is too complex to analyze]"'`,
      DESTROYED,
    ],
    ["bytes that were stored as text", "UPDATE writes SET type = 'bytes', value = 'abc'", "as text"],
    ["a pending write without a value", "UPDATE writes SET value = NULL", "without a value"],
    [
      "destroyed metadata",
      `UPDATE checkpoints SET metadata = '"[unable to serialize, circular reference is too complex to analyze]"'`,
      DESTROYED,
    ],
    ["metadata without a step", `UPDATE checkpoints SET metadata = '{"source":"loop"}'`, "source and step"],
    ["text that is no JSON", "UPDATE checkpoints SET checkpoint = '{'", "cannot be read"],
    ["another serde's type", "UPDATE checkpoints SET type = 'msgpack'", "cannot be read"],
    ["a list", "UPDATE checkpoints SET checkpoint = '[]'", "a list"],
    ["bytes in place of a checkpoint", "UPDATE checkpoints SET type = 'bytes', checkpoint = x'00'", "in place of a checkpoint"],
    ["a checkpoint without versions", `UPDATE checkpoints SET checkpoint = '{"v":4,"channel_values":{}}'`, "channel_versions"],
    ["another id", `UPDATE checkpoints SET checkpoint = json_set(CAST(checkpoint AS TEXT), '$.id', 'x')`, "another id"],
    ["unknown fields", `UPDATE checkpoints SET checkpoint = json_set(CAST(checkpoint AS TEXT), '$.more', 1)`, "more"],
    ["an empty task id", "UPDATE writes SET task_id = ''", "an id that is empty"],
    [
      "a class outside the list",
      `UPDATE writes SET value = '{"lc":1,"type":"constructor","id":["x","y"],"kwargs":{}}'`,
      "cannot be read",
    ],
  ];
  test.each(cases)("I3.6 %s is reported by checkpoint id", async (_, sql, why) => {
    const path = tempFile("official.db");
    const [id] = await handmade(path, "t", 1);
    const source = SqliteSaver.fromConnString(path);
    await source.putWrites(at("t", id), [["x", 1]], "task");
    source.db.close();
    sqlOn(path, sql);
    const saver = target();
    const error = await refusal(importOfficial(saver, path));
    expect(error).toMatchObject({ code: "CHECKPOINT_UNREADABLE", data: { checkpointId: id } });
    expect(error.message).toContain(why);
    expect(await saver.getTuple(thread("t"))).toBeUndefined();
    const report = await importOfficial(saver, path, { onUnreadable: "skip" });
    expect(report.threads[0]).toMatchObject({ checkpoints: 0, skipped: [{ checkpointId: id }] });
  });

  test("I3.6 writes that belong to no checkpoint are counted", async () => {
    const path = tempFile("official.db");
    const [id] = await handmade(path, "t", 1);
    const source = official(path);
    await source.putWrites(at("t", id), [["x", 1]], "task");
    await source.putWrites(at("t", uuid6(9)), [["x", 1]], "task");
    const report = await importOfficial(target(), path);
    expect(report.threads[0]).toMatchObject({ checkpoints: 1, writes: 1, orphanedWrites: 1 });
  });
});

describe("verification", () => {
  const faults: [string, (tuple: any) => void, RegExp, string | undefined][] = [
    ["a value", (tuple) => (tuple.checkpoint.channel_values.x = 7), /channel "x"/, "x"],
    ["a lost value", (tuple) => delete tuple.checkpoint.channel_values.x, /channel "x"/, "x"],
    ["a version", (tuple) => (tuple.checkpoint.channel_versions.x = 9), /channel_versions/, undefined],
    ["metadata", (tuple) => (tuple.metadata.step = 9), /metadata/, undefined],
    ["the parent", (tuple) => (tuple.parentConfig = undefined), /the parent/, undefined],
    ["a pending write", (tuple) => tuple.pendingWrites.pop(), /pending writes, to channel "y"/, "y"],
    ["a write too many", (tuple) => tuple.pendingWrites.push(["more", "z", 1]), /pending writes, to channel "z"/, "z"],
  ];
  test.each(faults)("I3.6 %s that differs is named, and the thread is removed again", async (_, damage, text, channel) => {
    const path = tempFile("official.db");
    const ids = await handmade(path, "t", 2);
    await official(path).putWrites(at("t", ids[1]), [["y", 1]], "task");
    const saver = target();
    const real = saver.getTuple.bind(saver);
    jest.spyOn(saver, "getTuple").mockImplementation(async (config) => {
      const tuple = await real(config);
      if (tuple?.checkpoint.id === ids[1]) damage(tuple);
      return tuple;
    });
    const error = await refusal(importOfficial(saver, path));
    expect(error).toMatchObject({ code: "IMPORT_MISMATCH", data: { threadId: "t", checkpointId: ids[1], channel } });
    expect(error.message).toMatch(text);
    expect(await saver.listThreads()).toEqual([]);
  });

  test("I3.6 verify: false reads nothing back", async () => {
    const saver = target();
    const report = await importOfficial(saver, world, { verify: false, threads: ["exit"] });
    expect(report.threads[0]).toMatchObject({ outcome: "imported", verified: false });
    await expectEqualThreads(official(world), saver, ["exit"]);
  });

  test.each(["throw", "continue"])(
    "I3.6 a save that fails removes the thread, onCheckpointError %s",
    async (onCheckpointError) => {
      const path = tempFile();
      const saver = target(path, { onCheckpointError });
      sqlOn(
        path,
        "CREATE TRIGGER full BEFORE INSERT ON langgraph_snapshots WHEN (SELECT count(*) FROM langgraph_snapshots) > 2 BEGIN SELECT RAISE(FAIL, 'full'); END",
      );
      const error = await refusal(importOfficial(saver, world, { threads: ["answered"], verify: false }));
      expect(error.code).toBe("STORE_FAILED");
      expect(await saver.listThreads()).toEqual([]);
      sqlOn(path, "DROP TRIGGER full");
      expect((await importOfficial(saver, world, { threads: ["answered"] })).threads[0]).toMatchObject({ outcome: "imported" });
    },
  );
});

describe("the file", () => {
  const hash = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

  test("I3.6 it is not changed", async () => {
    const before = hash(world);
    await importOfficial(target(), world);
    expect(hash(world)).toBe(before);
  });

  test("I3.6 a file in use is read at one state per thread, and its writer is not held up", async () => {
    const path = tempFile("official.db");
    await fillOfficial(path);
    const source = official(path);
    const graph = worldGraph(source);
    const wanted = await tuples(source, "waiting");
    const saver = target();
    let wrote: Promise<unknown> | undefined;
    saver.events.on("checkpoint", ({ threadId }) => {
      if (threadId === "waiting") wrote ??= graph.invoke(new Command({ resume: "ok" }), thread("waiting"));
    });
    const report = await importOfficial(saver, path, { threads: ["waiting"] });
    await wrote;
    expect(report.threads[0]).toMatchObject({ outcome: "imported", verified: true });
    expect(await tuples(saver as any, "waiting")).toEqual(wanted);
    expect((await tuples(source, "waiting")).length).toBeGreaterThan(wanted.length);
  });

  test("I3.6 it may be the target's own", async () => {
    const path = tempFile("both.db");
    await fillOfficial(path);
    const saver = target(path);
    await importOfficial(saver, path);
    await expectEqualThreads(official(path), saver, THREADS);
  });

  test("I3.6 an empty official file imports nothing", async () => {
    const path = tempFile("official.db");
    await collect(official(path).list({}));
    expect(await importOfficial(target(), path)).toEqual({ file: path, threads: [], numericThreadIds: [] });
  });

  const folder = dirname(tempFile());
  const files: [string, () => string, string][] = [
    ["a missing file", () => join(folder, "missing.db"), "STORE_UNAVAILABLE"],
    ["a missing folder", () => join(folder, "nowhere", "missing.db"), "STORE_UNAVAILABLE"],
    ["a folder", () => (mkdirSync(join(folder, "folder"), { recursive: true }), join(folder, "folder")), "STORE_UNAVAILABLE"],
    [
      "a file that is no database",
      () => (writeFileSync(join(folder, "text.db"), "text ".repeat(500)), join(folder, "text.db")),
      "NOT_A_DATABASE",
    ],
    [
      "a database without these tables",
      () => (sqlOn(join(folder, "a.db"), "CREATE TABLE x (y)"), join(folder, "a.db")),
      "SCHEMA_CONFLICT",
    ],
    [
      "tables without a column",
      () => (sqlOn(join(folder, "b.db"), "CREATE TABLE checkpoints (thread_id)"), join(folder, "b.db")),
      "SCHEMA_CONFLICT",
    ],
    ["an empty file", () => (writeFileSync(join(folder, "c.db"), ""), join(folder, "c.db")), "SCHEMA_CONFLICT"],
    ["an empty path", () => "", "INVALID_OPTION"],
    [":memory:", () => ":memory:", "INVALID_OPTION"],
    ["no string", () => 7 as never, "INVALID_OPTION"],
  ];
  test.each(files)("I3.6 %s is refused by name", async (_, path, code) => {
    expect(await refusal(importOfficial(target(), path()))).toMatchObject({ code });
  });

  const options: [string, object][] = [
    ["an option that does not exist", { thread: ["a"] }],
    ["threads that are no list", { threads: "a" }],
    ["an empty thread id", { threads: [""] }],
    ["a verify that is no boolean", { verify: 1 }],
    ["another word for existing", { existing: "replace" }],
    ["another word for onUnreadable", { onUnreadable: "ignore" }],
    ["an onThread that cannot be called", { onThread: {} }],
    ["a mapThreadId that cannot be called", { mapThreadId: "7" }],
    ["a mapThreadId that returns no id", { mapThreadId: () => "" }],
    ["a signal that is none", { signal: {} }],
  ];
  test.each(options)("I3.6 %s is refused", async (_, bad) => {
    expect(await refusal(importOfficial(target(), world, bad as never))).toMatchObject({ code: "INVALID_OPTION" });
  });

  test("I3.6 what is no TurnSaver is refused", async () => {
    for (const bad of [undefined, null, {}, official(world)]) {
      expect(await refusal(importOfficial(bad as never, world))).toMatchObject({ code: "INVALID_OPTION" });
    }
  });

  longTest(
    "I3.6 a long thread: the event loop is free between any two checkpoints",
    async () => {
      const path = tempFile("official.db");
      await fillLong(path, 60);
      const saver = target(tempFile());
      let ticks = 0;
      let puts = 0;
      let counting = true;
      const tick = (): void => {
        ticks += 1;
        if (counting) setImmediate(tick);
      };
      saver.events.on("checkpoint", () => (puts += 1));
      tick();
      const report = await importOfficial(saver, path).finally(() => (counting = false));
      expect(report.threads[0]).toMatchObject({ checkpoints: 180, verified: true });
      expect(puts).toBe(180);
      expect(ticks).toBeGreaterThanOrEqual(3 * puts);
    },
    300_000,
  );
});
