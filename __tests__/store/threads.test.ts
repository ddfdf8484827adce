import { Annotation, Command, interrupt, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { effect, GraphRunner, type Page, type ThreadSummary, type TurnSaver } from "langgraph-checkpoint-turns";
import { internalsOf, plainSealing, type RawOf, THREAD_ROWS, type THREADS } from "../../src/testing-internal";
import { chain, Log } from "../support/s1-graph";
import { runProgram } from "../support/s1-programs";
import { dump, numberOf, quiet, rowsOfThread, SPAN, sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { points } from "../support/lane";
import { laneTest, laneTestOfFiles, longTest } from "../support/lane-test";
import { openSaver } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

let path: string;
let saver: TurnSaver;
beforeEach(() => {
  path = tempFile();
  saver = openSaver(path, { logger: quiet });
});
afterEach(() => {
  saver.close();
});

const at = (threadId: string) => ({ configurable: { thread_id: threadId } });

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** a → ask → z; `ask` waits for a person. */
function asking() {
  return new StateGraph(Log)
    .addNode("a", () => ({ log: ["a"] }))
    .addNode("ask", () => ({ log: [`answer ${String(interrupt("what now?"))}`] }))
    .addNode("z", () => ({ log: ["z"] }))
    .addEdge(START, "a")
    .addEdge("a", "ask")
    .addEdge("ask", "z")
    .addEdge("z", END)
    .compile({ checkpointer: saver });
}

const rowsOf = (threadId: string): Record<string, unknown[]> => rowsOfThread(path, threadId);

describe("a thread has 67,108,864 numbers", () => {
  /** As if all but so many numbers of a thread had been used. */
  function leave(left: number, threadId: string): void {
    const db = new Database(path);
    const row = db.prepare("SELECT * FROM langgraph_threads WHERE thread_id = ?").get(threadId) as RawOf<typeof THREADS>;
    const seq = SPAN - 1 - left;
    const checksum = THREAD_ROWS.checksum(plainSealing, threadId, { ...row, seq });
    db.prepare("UPDATE langgraph_threads SET seq = ?, checksum = ? WHERE thread = ?").run(seq, checksum, row.thread);
    db.close();
  }

  test("S1.9 when they are used up the save is refused, what was saved stays readable, and the advice of THREAD_FULL works", async () => {
    const graph = asking();
    await graph.invoke({ log: ["in"] }, at("x"));
    leave(3, "x");
    const full = await graph.invoke(new Command({ resume: "go" }), at("x")).catch((error: unknown) => error);
    expect(full).toMatchObject({ code: "THREAD_FULL", data: { threadId: "x" } });
    expect(String(full)).toContain("graph.updateState({ configurable: { thread_id: newId } }, state.values, lastNode)");
    const state = await graph.getState(at("x"));
    // The end of the node was saved, the checkpoint behind it was not.
    expect(state.values).toEqual({ log: ["in", "a", "answer go"] });
    expect((await saver.verify()).problems).toEqual([]);
    // A copy keeps the numbers, and with them the end.
    await saver.copyThread("x", "copy");
    await expect(graph.invoke(new Command({ resume: "go" }), at("copy"))).rejects.toMatchObject({ code: "THREAD_FULL" });
    await graph.updateState(at("new"), state.values, "ask");
    await graph.invoke(null, at("new"));
    expect((await graph.getState(at("new"))).values).toEqual({ log: ["in", "a", "answer go", "z"] });
    await saver.deleteThread("x");
    expect(await saver.getTuple(at("x"))).toBeUndefined();
  });

  longTest("wherever the numbers end, what is acknowledged is saved, and the file verifies", async () => {
    const runner = new GraphRunner(chain(saver));
    const ends = new Set<string>();
    for (const left of points([...Array(24).keys()], 8)) {
      const id = `x${left}`;
      await runner.invoke({ log: ["in"] }, { threadId: id });
      leave(left, id);
      const outcome = await runner.invoke({ log: ["more"] }, { threadId: id }).catch((error: unknown) => error);
      ends.add(outcome instanceof Error ? (outcome as Error & { code: string }).code : "saved");
      const { values, next } = await runner.graph.getState(at(id));
      if (!(outcome instanceof Error)) expect([values, next]).toEqual([outcome, []]);
      expect(values.log.slice(0, 4)).toEqual(["in", "a", "b", "c"]);
    }
    expect(ends).toEqual(new Set(["THREAD_FULL", "saved"]));
    expect((await saver.verify()).problems).toEqual([]);
  });

  testOfFiles.each([
    "DELETE FROM",
    "UPDATE langgraph_settings SET value = 'many' --",
    "UPDATE langgraph_settings SET value = 1 << 40 --",
  ])("S3.1 no thread gets a number if the file does not say how many it has given (%s)", async (change) => {
    await chain(saver).invoke({ log: ["in"] }, at("x"));
    sqlOn(path, `${change} langgraph_settings`);
    await expect(chain(saver).invoke({ log: ["in"] }, at("y"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    await expect(saver.copyThread("x", "z")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    expect((await saver.listThreads()).map(({ threadId }) => threadId)).toEqual(["x"]);
    await chain(saver).invoke({ log: ["more"] }, at("x"));
    expect((await chain(saver).getState(at("x"))).values.log).toHaveLength(8);
  });
});

describe("S3.7 threads never mix", () => {
  test("S3.7 two threads, interleaved step by step under the same task ids, each see only their own", async () => {
    const runner = new GraphRunner(chain(saver));
    for (const round of ["1", "2", "3"]) {
      await Promise.all(
        ["x", "y"].map((threadId) => runner.invoke({ log: [`${threadId}${round}`] }, { threadId, taskId: `task-${round}` })),
      );
    }
    for (const threadId of ["x", "y"]) {
      const state = await runner.graph.getState(at(threadId));
      expect(state.values).toEqual({ log: ["1", "2", "3"].flatMap((round) => [`${threadId}${round}`, "a", "b", "c"]) });
      for (const snapshot of await all(runner.graph.getStateHistory(at(threadId)))) {
        expect(snapshot.config.configurable!["thread_id"]).toBe(threadId);
        expect(snapshot.values.log.filter((entry: string) => entry.startsWith(threadId === "x" ? "y" : "x"))).toEqual([]);
      }
      const turns = await saver.turns.list(threadId);
      expect(turns).toHaveLength(18);
      expect(new Set(turns.map((turn) => turn.graphId))).toEqual(new Set([threadId]));
      expect((await saver.turns.tasks(threadId)).map((task) => task.taskId)).toEqual(["task-1", "task-2", "task-3"]);
    }
  });

  test("S3.7 a checkpoint of one thread is not found from another, so it can resume nothing there", async () => {
    const graph = asking();
    await graph.invoke({ log: ["x"] }, at("x"));
    await graph.invoke({ log: ["y"] }, at("y"));
    const [head] = await all(saver.list(at("x")));
    const foreign = { configurable: { thread_id: "y", checkpoint_ns: "", checkpoint_id: head!.checkpoint.id } };
    expect(await saver.getTuple(foreign)).toBeUndefined();
    expect(await all(saver.list(foreign))).toEqual([]);
    await graph.invoke(new Command({ resume: "for x" }), at("x"));
    expect((await graph.getState(at("y"))).values).toEqual({ log: ["y", "a"] });
    expect((await graph.getState(at("y"))).next).toEqual(["ask"]);
  });

  test("S3.7 a rewind of one thread to a task that both have leaves the other whole", async () => {
    const runner = new GraphRunner(chain(saver));
    for (const taskId of ["one", "two"])
      for (const threadId of ["x", "y"]) await runner.invoke({ log: [taskId] }, { threadId, taskId });
    const before = rowsOf("y");
    await saver.rewind({ threadId: "x", toTask: "one" });
    expect(rowsOf("y")).toEqual(before);
    expect((await saver.turns.tasks("y")).map((task) => task.taskId)).toEqual(["one", "two"]);
  });

  const hostile = ["%", "_", "*", "x' OR '1'='1", 'x"', "x|y:1", "X", "x ", " x", "\u{1F600}", "x\n", "../x", "null", "0"];
  test("S3.7 thread ids that look like patterns, paths or SQL are each their own thread", async () => {
    const runner = new GraphRunner(chain(saver));
    for (const threadId of ["x", ...hostile]) await runner.invoke({ log: [threadId] }, { threadId });
    for (const threadId of hostile) {
      expect((await runner.graph.getState(at(threadId))).values.log[0]).toBe(threadId);
      await saver.deleteThread(threadId);
      expect(await saver.getTuple(at(threadId))).toBeUndefined();
    }
    expect((await saver.listThreads()).map((thread) => thread.threadId)).toEqual(["x"]);
    expect((await runner.graph.getState(at("x"))).values).toEqual({ log: ["x", "a", "b", "c"] });
  });

  test.each(["", "a\0b", "\ud800", 7, null])("S3.7 %j is no thread id, for no method", async (threadId) => {
    const bad = threadId as string;
    const before = dump(path);
    for (const call of [
      () => saver.turns.list(bad),
      () => saver.turns.tasks(bad),
      () => saver.deleteThread(bad),
      () => saver.copyThread(bad, "y"),
      () => saver.copyThread("y", bad),
      () => saver.turns.inFlight(bad),
      () => saver.turns.isRunning(bad),
      () => saver.rewinds.list(bad),
      () => all(saver.list({ configurable: { thread_id: bad } })),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    }
    expect(dump(path)).toEqual(before);
  });
});

describe("S3.7 listThreads", () => {
  test("S3.1 S3.7 listThreads counts turns: the number on record, which no checksum covers, may be changed, and verify() finds that", async () => {
    await new GraphRunner(chain(saver)).invoke({ log: ["in"] }, { threadId: "x" });
    sqlOn(path, "UPDATE langgraph_threads SET turns = turns + 7");
    expect(await saver.listThreads()).toMatchObject([{ threadId: "x", turns: 6 }]);
    expect((await saver.verify()).problems).toMatchObject([{ kind: "thread", table: "langgraph_threads", threadId: "x" }]);
  });

  test("S3.7 counts what each thread has", async () => {
    expect(await saver.listThreads()).toEqual([]);
    const runner = new GraphRunner(chain(saver));
    for (const taskId of ["one", "two"]) await runner.invoke({ log: [] }, { threadId: "x", taskId });
    await runner.invoke({ log: [] }, { threadId: "y" });
    const threads = await saver.listThreads();
    expect(threads).toEqual<ThreadSummary[]>([
      { threadId: "x", createdAt: expect.any(Date) as Date, epoch: 0, checkpoints: 10, turns: 12, tasks: 2 },
      { threadId: "y", createdAt: expect.any(Date) as Date, epoch: 0, checkpoints: 5, turns: 6, tasks: 1 },
    ]);
    for (const { threadId, checkpoints, turns, tasks } of threads) {
      expect((await all(saver.list(at(threadId)))).length).toBe(checkpoints);
      expect((await saver.turns.list(threadId)).length).toBe(turns);
      expect((await saver.turns.tasks(threadId)).length).toBe(tasks);
    }
  });

  test.each([99, 100, 101, 200, 250])("S3.7 pages through %i threads, each once, in the order of their ids", async (count) => {
    const threadIds = Array.from({ length: count }, (_, index) => `thread-${String((index * 7919) % 100_000).padStart(5, "0")}`);
    for (const threadId of threadIds) {
      await saver.put(
        { configurable: { thread_id: threadId } },
        emptyCheckpoint(),
        { source: "input", step: -1, parents: {} },
        {},
      );
    }
    expect((await saver.listThreads()).map((thread) => thread.threadId)).toEqual([...threadIds].sort());
  });

  test("S3.7 threads may come and go between two pages, and no cursor stays open", async () => {
    const runner = new GraphRunner(chain(saver));
    for (const threadId of ["a", "b", "c"]) await runner.invoke({ log: [] }, { threadId });
    const found: string[] = [];
    for (const { threadId } of await saver.listThreads()) {
      found.push(threadId);
      await saver.deleteThread(threadId);
    }
    expect(found).toEqual(["a", "b", "c"]);
    expect(await saver.listThreads()).toEqual([]);
  });
});

describe("S8.1 a list is an array that says where its next page begins", () => {
  type Query = { after?: never; limit?: number } | undefined;

  /** Every list, on a thread with three items of each. */
  async function lists(): Promise<Record<string, (query?: Query) => Promise<Page<unknown, never>>>> {
    const deed = async (node: string): Promise<void> =>
      void (node === "a" && (await effect("deed", () => node, { undo: false })));
    const runner = new GraphRunner(chain(saver, deed));
    for (const taskId of ["one", "two", "three", "four"]) await runner.invoke({ log: [] }, { threadId: "t", taskId });
    for (const threadId of ["u", "v"]) await runner.invoke({ log: [] }, { threadId });
    for (const name of ["ä", "a", "\u{1F600}", "b"]) await saver.names.set({ threadId: "t" }, name);
    for (let back = 0; back < 3; back += 1) {
      const { rewindId } = await saver.rewind({ threadId: "t", toTask: "three" });
      await saver.rewinds.takeBack(rewindId!);
    }
    return {
      listThreads: (query: Query) => saver.listThreads(query),
      "turns.list": (query: Query) => saver.turns.list("t", query),
      "turns.tasks": (query: Query) => saver.turns.tasks("t", query),
      "effects.list": (query: Query) => saver.effects.list("t", query),
      "effects.list of a status": (query: Query) => saver.effects.list("t", { ...query, status: "done" }),
      "rewinds.list": (query: Query) => saver.rewinds.list("t", query),
      "names.list": (query: Query) => saver.names.list("t", query),
    } as unknown as Awaited<ReturnType<typeof lists>>;
  }

  test("S8.1 pages of every size, put together, are the whole list, and the last page has no cursor", async () => {
    for (const [name, list] of Object.entries(await lists())) {
      const whole = await list();
      expect([name, whole.length >= 3, whole.cursor]).toEqual([name, true, undefined]);
      for (const limit of [1, 2, 3, whole.length, whole.length + 1]) {
        const sizes: number[] = [];
        const found: unknown[] = [];
        for (let after: undefined; ;) {
          const page: Page<unknown, never> = await list({ after, limit });
          found.push(...page);
          sizes.push(page.length);
          after = page.cursor;
          if (after === undefined) break;
        }
        expect([name, limit, found]).toEqual([name, limit, [...whole]]);
        expect([name, sizes.length]).toEqual([name, Math.ceil(whole.length / limit)]);
      }
      expect(await list({ limit: 0 })).toEqual([]);
      for (const wrong of [{ limit: -1 }, { limit: 1.5 }, { after: {} }, { afterSeq: 1 }]) {
        await expect(list(wrong as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
      }
    }
  });

  test("S8.1 a page of effects of one status holds as many as were asked for, however many others are between them", async () => {
    const breaks = async (node: string): Promise<void> => {
      if (node !== "a") return;
      for (const [index, kind] of ["no", "no", "no", "yes", "no", "yes", "yes"].entries()) {
        const options = { undo: false, id: String(index) } as const;
        await effect(kind, () => (kind === "no" ? Promise.reject(new Error("no")) : kind), options).catch(() => undefined);
      }
    };
    await new GraphRunner(chain(saver, breaks)).invoke({ log: [] }, { threadId: "x" });
    const first = await saver.effects.list("x", { status: "done", limit: 2 });
    expect(first.map(({ name }) => name)).toEqual(["yes", "yes"]);
    const rest = await saver.effects.list("x", { status: "done", limit: 2, after: first.cursor });
    expect([rest.length, rest.cursor]).toEqual([1, undefined]);
  });

  test("S8.1 a page is the array that it looks like, and dates are dates", async () => {
    await lists();
    const page = await saver.rewinds.list("t", { limit: 1 });
    expect(page).toEqual([
      expect.objectContaining({ toTask: "three", createdAt: expect.any(Date), takenBackAt: expect.any(Date) }),
    ]);
    expect(JSON.parse(JSON.stringify(page))).toHaveLength(1);
    const tasks = await saver.turns.tasks("t");
    expect(tasks.map(({ endSeq }) => endSeq === undefined)).toEqual([false, false, false, true]);
    expect(tasks.every(({ createdAt }) => createdAt instanceof Date)).toBe(true);
    expect(JSON.stringify([tasks, await saver.listThreads()])).not.toContain("null");
    expect((await saver.names.list("t")).map(({ name }) => name)).toEqual(["a", "b", "ä", "\u{1F600}"]);
  });
});

describe("S3.7 copyThread", () => {
  /** What a user sees, without the thread's own name. */
  async function seen(graph: ReturnType<typeof asking>, threadId: string): Promise<unknown> {
    const without = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value, (key, item: unknown) => (key === "thread_id" ? "the thread" : item)));
    return without({
      state: await graph.getState(at(threadId), { subgraphs: true }),
      history: await all(graph.getStateHistory(at(threadId))),
      turns: (await saver.turns.list(threadId)).map(({ id: _id, seq: _seq, threadId: _thread, graphId, ...turn }) => ({
        ...turn,
        own: graphId === threadId,
      })),
      states: await Promise.all((await saver.turns.list(threadId)).map((turn) => saver.turns.state(turn))),
      tasks: (await saver.turns.tasks(threadId)).map(({ taskId, createdAt }) => ({ taskId, createdAt })),
    });
  }

  /** So long that the log is stored element by element. */
  const again = "again".padEnd(300, ".");

  async function story(): Promise<ReturnType<typeof asking>> {
    const graph = saver.attach(asking());
    await graph.invoke({ log: ["in"] }, at("x"));
    await graph.invoke(new Command({ resume: "yes" }), at("x"));
    await graph.updateState(at("x"), { log: ["by hand"] });
    await graph.invoke({ log: [again] }, { configurable: { thread_id: "x", task_id: "named", graph_id: "a graph" } });
    await saver.names.set({ threadId: "x" }, "a name");
    return graph;
  }

  test("S3.7 the copy equals its source in state, history, turns and tasks", async () => {
    const graph = await story();
    await saver.copyThread("x", "y");
    expect(await seen(graph, "y")).toEqual(await seen(graph, "x"));
    const seqs = [...(await saver.turns.list("x")), ...(await saver.turns.list("y"))].map((turn) => turn.seq);
    expect(new Set(seqs).size).toBe(seqs.length);
    const ids = [...(await saver.turns.list("x")), ...(await saver.turns.list("y"))].map((turn) => turn.id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const table of copied) expect(rowsOf("y")[table]).toHaveLength(rowsOf("x")[table]!.length);
    for (const table of copied) expect([table, rowsOf("x")[table]]).not.toEqual([table, []]);
  });

  test("S3.7 both continue by themselves", async () => {
    const graph = await story();
    await saver.copyThread("x", "y");
    const before = rowsOf("x");
    expect((await graph.invoke(new Command({ resume: "copy" }), at("y"))).log.slice(-2)).toEqual(["answer copy", "z"]);
    expect(rowsOf("x")).toEqual(before);
    expect((await graph.invoke(new Command({ resume: "source" }), at("x"))).log.slice(-2)).toEqual(["answer source", "z"]);
    expect((await graph.getState(at("y"))).values.log.slice(-2)).toEqual(["answer copy", "z"]);
  });

  test("S3.7 a copy can be rewound, to a task that is older than the copying too, and the source stays", async () => {
    const graph = await story();
    await saver.copyThread("x", "y");
    const before = rowsOf("x");
    const first = (await saver.turns.tasks("y"))[0]!.taskId;
    await graph.invoke(new Command({ resume: "copy" }), at("y"));
    const { tasks } = await saver.rewind({ threadId: "y", toTask: first });
    expect(tasks).toContain("named");
    expect((await graph.getState(at("y"))).values).toEqual({ log: ["in", "a", "answer yes", "z"] });
    expect(rowsOf("x")).toEqual(before);
  });

  test("S3.7 S1.5 a rewind of the copy is as exact as one of the source: to a task whose writes a later one superseded", async () => {
    const graph = saver.attach(
      new StateGraph(Log)
        .addNode("ask", () => ({ log: [`${String(interrupt("q1"))} ${String(interrupt("q2"))}`] }))
        .addEdge(START, "ask")
        .compile({ checkpointer: saver }),
    ) as unknown as ReturnType<typeof asking>;
    const by = (taskId: string) => ({ configurable: { thread_id: "x", task_id: taskId } });
    await graph.invoke({ log: ["in"] }, by("T1"));
    await graph.invoke(new Command({ resume: "a1" }), by("T2"));
    await saver.copyThread("x", "y");
    for (const threadId of ["x", "y"]) {
      await saver.rewind({ threadId, toTask: "T1" });
      expect((await graph.getState(at(threadId))).tasks.flatMap((task) => task.interrupts)).toMatchObject([{ value: "q1" }]);
    }
    expect(await seen(graph, "y")).toEqual(await seen(graph, "x"));
    expect(rowsOf("y")["langgraph_writes"]).toHaveLength(rowsOf("x")["langgraph_writes"]!.length);
    expect(await graph.invoke(new Command({ resume: "b1" }), at("y"))).toMatchObject({ __interrupt__: [{ value: "q2" }] });
    expect((await graph.invoke(new Command({ resume: "b2" }), at("y"))).log).toEqual(["in", "b1 b2"]);
  });

  test("S3.7 a copy outlives its source", async () => {
    const graph = await story();
    await saver.copyThread("x", "y");
    const copy = await seen(graph, "y");
    await saver.deleteThread("x");
    expect(await seen(graph, "y")).toEqual(copy);
  });

  test("S3.7 THREAD_NOT_FOUND and THREAD_EXISTS, and nothing is half copied", async () => {
    await story();
    await new GraphRunner(chain(saver)).invoke({ log: [] }, { threadId: "taken" });
    const before = dump(path);
    await expect(saver.copyThread("nobody", "y")).rejects.toMatchObject({
      code: "THREAD_NOT_FOUND",
      name: "ThreadNotFoundError",
    });
    await expect(saver.copyThread("x", "taken")).rejects.toMatchObject({ code: "THREAD_EXISTS", name: "ThreadExistsError" });
    await expect(saver.copyThread("x", "x")).rejects.toMatchObject({ code: "THREAD_EXISTS" });
    expect(dump(path)).toEqual(before);
  });

  const copied = [
    "langgraph_threads",
    "langgraph_tasks",
    "langgraph_chunks",
    "langgraph_lists",
    "langgraph_items",
    "langgraph_snapshots",
    "langgraph_writes",
    "langgraph_checkpoints",
    "langgraph_names",
  ];
  laneTest.each(points(copied, 4))("S3.7 a failure while copying %s leaves nothing of the copy", async (table) => {
    await story();
    const before = dump(path);
    const source = numberOf(path, "x");
    const threadOfRow = table === "langgraph_items" ? `NEW.list / ${SPAN}` : "NEW.thread";
    sqlOn(
      path,
      `CREATE TRIGGER no AFTER INSERT ON ${table} WHEN ${threadOfRow} <> ${source} BEGIN SELECT RAISE(ABORT, 'no copy'); END`,
    );
    await expect(saver.copyThread("x", "y")).rejects.toThrow(/no copy/);
    expect(dump(path)).toEqual(before);
  });
});

describe("S3.7 deleteThread", () => {
  const sealed = { tag: expect.any(String) as string, checksum: expect.any(String) as string };

  test("S3.7 leaves nothing in any table that knows threads, and nothing of another thread goes", async () => {
    const journaled = chain(saver, async (node) => void (await effect(`deed of ${node}`, () => "done", { undo: false })));
    const runner = new GraphRunner(journaled);
    for (const threadId of ["x", "y"]) {
      for (const taskId of ["one", "two", "three"]) await runner.invoke({ log: [taskId.padEnd(300, ".")] }, { threadId, taskId });
      await saver.rewind({ threadId, toTask: "two" });
      await saver.names.set({ threadId }, "a name");
    }
    // A process that died at work leaves its mark in langgraph_runs.
    for (const threadId of ["x", "y"])
      expect(runProgram("support/s1-graph-child.ts", path, threadId, "run", "b").signal).toBe("SIGKILL");
    const tried = { tries: 1, progress: "", waitMs: 0, failure: "{}", givenUp: true };
    for (const threadId of ["x", "y"]) await internalsOf(saver).store.saveRecovery(threadId, tried, undefined, 1);
    const other = rowsOf("y");
    const number = numberOf(path, "x");
    for (const [table, rows] of Object.entries(rowsOf("x"))) {
      expect([table, rows.length > 0]).toEqual([table, !["langgraph_tombstones", "langgraph_leftovers"].includes(table)]);
    }
    await saver.deleteThread("x");
    const tombstone = { thread_id: "x", deleted_at: expect.any(Number) as number, final: 0, ...sealed };
    for (const [table, rows] of Object.entries(rowsOfThread(path, "x", number))) {
      expect([table, rows]).toEqual([table, table === "langgraph_tombstones" ? [tombstone] : []]);
    }
    expect(rowsOf("y")).toEqual(other);
    const { langgraph_tombstones: _, ...left } = dump(path);
    expect(JSON.stringify(left)).not.toContain('"thread_id":"x"');
    expect(JSON.stringify(left)).not.toMatch(new RegExp(`"thread\\\\?":${number}\\b`));
  });

  test("S3.7 on a fresh file, and of an unknown thread, is no error and leaves its tombstone alone", async () => {
    const before = dump(path);
    const from = Date.now();
    await saver.deleteThread("nobody");
    const after = dump(path);
    expect(after).toEqual({
      ...before,
      langgraph_tombstones: [{ thread_id: "nobody", deleted_at: expect.any(Number) as number, final: 0, ...sealed }],
    });
    const [{ deleted_at: deletedAt }] = after["langgraph_tombstones"] as [{ deleted_at: number }];
    expect(deletedAt >= from && deletedAt <= Date.now()).toBe(true);
  });

  test("S3.7 while a run is running: it is told so at its next save, and no checkpoint or turn reappears", async () => {
    let letGo = (): void => undefined;
    let arrived = (): void => undefined;
    const inside = new Promise<void>((resolve) => (arrived = resolve));
    const gate = new Promise<void>((resolve) => (letGo = resolve));
    const graph = chain(saver, async (node) => {
      if (node !== "b") return;
      arrived();
      await gate;
    });
    const run = graph.invoke({ log: ["in"] }, at("x"));
    run.catch(() => undefined);
    await inside;
    await saver.deleteThread("x");
    letGo();
    await expect(run).rejects.toMatchObject({ code: "THREAD_DELETED", name: "ThreadDeletedError" });
    expect(await saver.getTuple(at("x"))).toBeUndefined();
    expect(await saver.turns.list("x")).toEqual([]);
    expect(rowsOf("x")).toMatchObject({
      langgraph_snapshots: [],
      langgraph_lists: [],
      langgraph_tombstones: [{ thread_id: "x" }],
    });
    expect(await new GraphRunner(chain(saver)).invoke({ log: ["new"] }, { threadId: "x" })).toEqual({
      log: ["new", "a", "b", "c"],
    });
  });

  test("S3.7 the id can be used again, from an empty state", async () => {
    const runner = new GraphRunner(chain(saver));
    await runner.invoke({ log: ["old"] }, { threadId: "x" });
    await saver.deleteThread("x");
    expect(await runner.invoke({ log: ["new"] }, { threadId: "x" })).toEqual({ log: ["new", "a", "b", "c"] });
    expect((await saver.turns.list("x")).length).toBe(6);
  });

  test("S3.7 that fails in the middle leaves the thread whole", async () => {
    await new GraphRunner(chain(saver)).invoke({ log: [] }, { threadId: "x" });
    const before = dump(path);
    sqlOn(path, "CREATE TRIGGER no BEFORE DELETE ON langgraph_threads BEGIN SELECT RAISE(ABORT, 'not this'); END");
    await expect(saver.deleteThread("x")).rejects.toMatchObject({ code: "STORE_FAILED" });
    expect(dump(path)).toEqual(before);
  });
});

describe("S4.7 across processes that share only the file", () => {
  test("S4.7 run in one process, read in another: state, tasks, turns and what each turn stood on", async () => {
    const run = runProgram("support/s1-graph-child.ts", path, "x", "run");
    expect(run.out).toEqual([{ ran: ["a", "b", "c"], state: { log: ["in", "a", "b", "c"] } }]);
    const graph = chain(saver);
    expect((await graph.getState(at("x"))).values).toEqual({ log: ["in", "a", "b", "c"] });
    expect((await saver.turns.tasks("x")).map((task) => task.taskId)).toEqual(["task"]);
    const turns = await saver.turns.list("x");
    expect(turns.map((turn) => `${turn.turnType} ${turn.nodeName}`)).toEqual([
      "Thought a",
      "Action a",
      "Thought b",
      "Action b",
      "Thought c",
      "Action c",
    ]);
    expect(await Promise.all(turns.map((turn) => saver.turns.state(turn)))).toEqual([
      { log: ["in"] },
      { log: ["a"] },
      { log: ["in", "a"] },
      { log: ["b"] },
      { log: ["in", "a", "b"] },
      { log: ["c"] },
    ]);
    expect(await saver.turns.list("x", { after: turns[2]!.seq, limit: 2 })).toEqual(turns.slice(3, 5));
  });

  test.each(["a", "b", "c"])("S4.7 a process dies in %s, the next one continues there and nowhere before", (node) => {
    expect(runProgram("support/s1-graph-child.ts", path, "x", "run", node).signal).toBe("SIGKILL");
    const resumed = runProgram("support/s1-graph-child.ts", path, "x", "resume");
    expect(resumed.out).toEqual([{ ran: ["a", "b", "c"].slice("abc".indexOf(node)), state: { log: ["in", "a", "b", "c"] } }]);
  });

  test("S2.5 resumed again after the end, nothing runs and the result is the same; then it continues checkpointing", async () => {
    expect(runProgram("support/s1-graph-child.ts", path, "x", "run", "b").signal).toBe("SIGKILL");
    runProgram("support/s1-graph-child.ts", path, "x", "resume");
    const turns = await saver.turns.list("x");
    const again = runProgram("support/s1-graph-child.ts", path, "x", "resume");
    expect(again.out).toEqual([{ ran: [], state: { log: ["in", "a", "b", "c"] } }]);
    expect(await saver.turns.list("x")).toEqual(turns);
    const runner = new GraphRunner(chain(saver));
    expect((await runner.invoke({ log: ["more"] }, { threadId: "x" })).log).toHaveLength(8);
    expect((await saver.turns.list("x")).length).toBe(turns.length + 6);
  });

  /** So long that the log is stored element by element. */
  const begin = "in".padEnd(300, ".");
  /** Where the process dies, what the file then says, and what is left to run. */
  const moments: [string, string, string[], string[]][] = [
    ["langgraph_snapshots", "NEW.step = 2", [begin, "a"], ["b", "c"]],
    ["langgraph_lists", "NEW.keep = 0", [begin], ["a", "b", "c"]],
    ["langgraph_items", "NEW.pos = 2", [begin, "a"], ["b", "c"]],
    ["langgraph_chunks", "NEW.body = '\"b\"'", [begin, "a"], ["b", "c"]],
    ["langgraph_writes", 'NEW.entries LIKE \'%"log"%"b"%\'', [begin, "a"], ["b", "c"]],
    ["langgraph_checkpoints", "NEW.node_name = 'b' AND NEW.turn_type = 'Thought'", [begin], ["a", "b", "c"]],
    ["langgraph_checkpoints", "NEW.node_name = 'b' AND NEW.turn_type = 'Action'", [begin, "a"], ["b", "c"]],
  ];
  laneTestOfFiles.each(points(moments, 3))(
    "S3.8 killed inside the transaction that writes %s where %s: what was saved before it is whole",
    async (table, when, log, left) => {
      expect(runProgram("store/s1-mid-save-child.ts", path, table, when, begin)).toMatchObject({ signal: "SIGKILL" });
      const db = new Database(path);
      expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
      expect(db.prepare(`SELECT count(*) FROM ${table} AS NEW WHERE ${when}`).pluck().get()).toBe(0);
      db.close();
      expect((await chain(saver).getState(at("x"))).values).toEqual({ log });
      // The other process compiled the same source another way, which a source hash takes for a change.
      const here = new GraphRunner(chain(saver), { drift: "continue" });
      expect(await here.resume({ threadId: "x" })).toEqual({ log: [begin, "a", "b", "c"] });
      const resumed = runProgram("support/s1-graph-child.ts", path, "x", "resume");
      expect(resumed.out).toEqual([{ ran: [], state: { log: [begin, "a", "b", "c"] } }]);
      const attempts = (await saver.turns.list("x")).filter((turn) => turn.turnType === "Thought" && turn.attempt > 1);
      expect(attempts.every((turn) => left.includes(turn.nodeName))).toBe(true);
    },
  );

  test("S2.6 turnState of a turn that is not there, and of one whose checkpoint is gone", async () => {
    await new GraphRunner(chain(saver)).invoke({ log: ["in"] }, { threadId: "x" });
    const [thought] = await saver.turns.list("x");
    for (const gone of [
      { ...thought!, id: "another" },
      { ...thought!, seq: thought!.seq + 999_999 },
      { ...thought!, threadId: "y" },
    ]) {
      await expect(saver.turns.state(gone)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
    }
    sqlOn(path, "DELETE FROM langgraph_snapshots");
    await expect(saver.turns.state(thought!)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });
});

const swapped = `CREATE TEMP TABLE was AS SELECT list, pos, chunk FROM langgraph_items;
  UPDATE langgraph_items SET chunk = (SELECT was.chunk FROM was WHERE was.list = langgraph_items.list AND was.pos = 1 - langgraph_items.pos)
    WHERE pos < 2`;
/** SQL for the address of a chunk that begins like that. */
const addressOf = (beginning: string): string =>
  `(SELECT max(c.address) FROM langgraph_chunks AS c WHERE c.body LIKE '"${beginning}%')`;

describe("S3.1 what was changed outside is CHECKPOINT_CORRUPTED, never wrong data", () => {
  const Rich = Annotation.Root({
    ...MessagesAnnotation.spec,
    note: Annotation<string>(),
    essay: Annotation<string>(),
    plan: Annotation<Record<string, string>>(),
    side: Annotation<Record<string, string>>(),
  });
  const essay = "hello essay ".repeat(30);
  const beside = { long: "hello beside ".repeat(30), short: "hello" };
  const graphOn = (on: TurnSaver) =>
    on.attach(
      new StateGraph(Rich)
        .addNode("speak", () => ({
          messages: [{ role: "assistant", content: "hello" }],
          note: "hello note",
          essay,
          plan: { long: "hello plan ".repeat(30), short: "hello" },
        }))
        .addNode("wait", () => ({ messages: [{ role: "assistant", content: String(interrupt("well?")) }] }))
        .addNode("beside", () => ({ side: beside }))
        .addEdge(START, "speak")
        .addEdge("speak", "wait")
        .addEdge("speak", "beside")
        .addEdge("wait", END)
        .compile({ checkpointer: on }),
    );

  /**
   * A thread that waits at an interrupt, so that it has pending writes; with values of every kind: some that stand in the manifest, a
   * long one, one with long parts, a list.
   */
  async function waiting(threadId = "x") {
    const graph = graphOn(saver);
    await graph.invoke({ messages: [{ role: "user", content: "hi" }] }, at(threadId));
    return graph;
  }

  const inList = "seq IN (SELECT chunk FROM langgraph_items)";
  const inText = `seq NOT IN (SELECT chunk FROM langgraph_items)`;
  const changes: [string, string][] = [
    ["a value in the manifest", "UPDATE langgraph_snapshots SET channels = replace(channels, 'hello note', 'hullo note')"],
    ["the version of a channel", "UPDATE langgraph_snapshots SET channels = replace(channels, '\"note\":[', '\"note\":[1')"],
    ["the length of a list in the manifest", "UPDATE langgraph_snapshots SET channels = replace(channels, ',2,\"', ',1,\"')"],
    ["an element of a list", `UPDATE langgraph_chunks SET body = replace(body, 'hello', 'hullo') WHERE ${inList}`],
    ["an element of a list, cut off", `UPDATE langgraph_chunks SET body = substr(body, 1, length(body) - 1) WHERE ${inList}`],
    ["elements that changed places", swapped],
    ["an element that stands for another too", "UPDATE langgraph_items SET chunk = (SELECT max(chunk) FROM langgraph_items)"],
    ["the first element is missing", "DELETE FROM langgraph_items WHERE pos = 0"],
    ["the last element is missing", "DELETE FROM langgraph_items WHERE pos = (SELECT max(pos) FROM langgraph_items)"],
    ["all elements are missing", "DELETE FROM langgraph_items"],
    ["the chunk of an element is missing", `DELETE FROM langgraph_chunks WHERE ${inList}`],
    ["elements that moved to another list", "UPDATE langgraph_items SET list = list + 1000"],
    ["elements that refer to no chunk", "UPDATE langgraph_items SET chunk = -chunk"],
    ["the row of a list is missing", "DELETE FROM langgraph_lists"],
    ["a list that begins later", "UPDATE langgraph_lists SET keep = 1"],
    ["a list that is its own base", "UPDATE langgraph_lists SET keep = 1, base = seq"],
    ["a list that moved to another thread", "UPDATE langgraph_lists SET thread = thread + 1000"],
    ["a long value", "UPDATE langgraph_chunks SET body = replace(body, 'hello essay', 'hullo essay')"],
    [
      "a long value, cut off",
      `UPDATE langgraph_chunks SET body = substr(body, 1, length(body) - 1) WHERE body LIKE '"hello essay%'`,
    ],
    [
      "the address of a long value",
      `UPDATE langgraph_chunks SET address = 'x' || substr(address, 2) WHERE body LIKE '"hello essay%'`,
    ],
    ["a long value is missing", `DELETE FROM langgraph_chunks WHERE body LIKE '"hello essay%'`],
    ["a part of a value", "UPDATE langgraph_chunks SET body = replace(body, 'hello plan', 'hullo plan')"],
    ["the address of a part", `UPDATE langgraph_chunks SET address = 'x' || substr(address, 2) WHERE body LIKE '"hello plan%'`],
    ["a part is missing", `DELETE FROM langgraph_chunks WHERE body LIKE '"hello plan%'`],
    [
      "a value with parts refers to another",
      `UPDATE langgraph_chunks SET body = replace(body, ${addressOf("hello plan")}, ${addressOf("hello essay")}) WHERE body LIKE '{"long"%'`,
    ],
    [
      "two long values that changed places",
      `UPDATE langgraph_chunks SET body = (SELECT c.body FROM langgraph_chunks AS c ORDER BY length(c.body) DESC LIMIT 1) WHERE ${inText}`,
    ],
    ["chunks that moved to another thread", `UPDATE langgraph_chunks SET thread = thread + 1000 WHERE ${inText}`],
    ["the body of a checkpoint", "UPDATE langgraph_snapshots SET body = replace(body, '\"v\":4', '\"v\":3')"],
    ["the channels of a checkpoint", "UPDATE langgraph_snapshots SET channels = '{}'"],
    ["the metadata of a checkpoint", "UPDATE langgraph_snapshots SET metadata = replace(metadata, 'loop', 'fork')"],
    ["the parent of a checkpoint", "UPDATE langgraph_snapshots SET parent_checkpoint_id = checkpoint_id"],
    ["the checksum of a checkpoint", "UPDATE langgraph_snapshots SET checksum = 'x' || checksum"],
    ["a checkpoint that moved to another id", "UPDATE langgraph_snapshots SET checkpoint_id = checkpoint_id || '0'"],
    ["the value of a pending write", "UPDATE langgraph_writes SET entries = replace(entries, 'well?', 'fine!')"],
    ["the channel of a pending write", "UPDATE langgraph_writes SET entries = replace(entries, '__interrupt__', 'messages')"],
    ["a part of a pending write", "UPDATE langgraph_chunks SET body = replace(body, 'hello beside', 'hullo beside')"],
    ["a part of a pending write is missing", "DELETE FROM langgraph_chunks WHERE body LIKE '%hello beside%'"],
    ["the task of a pending write", "UPDATE langgraph_writes SET node_task_id = 'another'"],
    ["the place of a pending write", "UPDATE langgraph_writes SET idx = idx - 100"],
    ["the checksum of a pending write", "UPDATE langgraph_writes SET checksum = 'x' || checksum"],
  ];
  test.each(changes)("S3.1 %s", async (_, change) => {
    await waiting();
    const truth = await saver.getTuple(at("x"));
    const before = dump(path);
    sqlOn(path, change);
    expect(dump(path)).not.toEqual(before);
    const named = { code: "CHECKPOINT_CORRUPTED", name: "CheckpointCorruptedError" };
    const other = openSaver(path, { logger: quiet });
    const graph = graphOn(other);
    await expect(other.getTuple(at("x"))).rejects.toMatchObject(named);
    await expect(graph.getState(at("x"))).rejects.toMatchObject(named);
    await expect(all(other.list(at("x")))).rejects.toMatchObject(named);
    await expect(graph.invoke(new Command({ resume: "go" }), at("x"))).rejects.toMatchObject(named);
    other.close();
    // Who remembers what was saved may go on with that, and with nothing else.
    await saver.getTuple(at("x")).then(
      (tuple) => expect(tuple).toEqual(truth),
      (error) => expect(error).toMatchObject(named),
    );
  });

  test("S3.1 the address of an element: what is read is right or refused, and so is what is saved on top of it", async () => {
    await waiting();
    const truth = await saver.getTuple(at("x"));
    sqlOn(
      path,
      `CREATE TABLE was AS SELECT seq, address FROM langgraph_chunks WHERE ${inList}`,
      `UPDATE langgraph_chunks SET address = 'x' || seq WHERE ${inList}`,
      `UPDATE langgraph_chunks SET address = (SELECT address FROM was WHERE was.seq <> langgraph_chunks.seq ORDER BY seq LIMIT 1)
         WHERE seq = (SELECT min(seq) FROM was)`,
    );
    const other = openSaver(path, { logger: quiet });
    expect(await other.getTuple(at("x"))).toEqual(truth);
    const said = await graphOn(other)
      .invoke(new Command({ resume: "go" }), at("x"))
      .then(
        async ({ messages }) => {
          const after = openSaver(path, { logger: quiet });
          const read = await graphOn(after)
            .getState(at("x"))
            .finally(() => after.close());
          expect(read.values.messages).toEqual(messages);
          return messages.map((message) => message.content);
        },
        (error: { code: string }) => error.code,
      );
    expect([["hi", "hello", "go"], "CHECKPOINT_CORRUPTED"]).toContainEqual(said);
    other.close();
  });

  test("S3.1 a row that moved to another thread does not verify there either", async () => {
    await waiting("y");
    await waiting();
    const [x, y] = [numberOf(path, "x"), numberOf(path, "y")];
    sqlOn(
      path,
      ...["snapshots", "lists", "writes"].map((name) => `UPDATE langgraph_${name} SET thread = ${y} WHERE thread = ${x}`),
    );
    await expect(saver.getTuple(at("y"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
  });

  test("S3.1 the stored value that a delta channel begins with, in an ancestor's manifest", async () => {
    const save = (id: string, parent: string | undefined, values: Record<string, unknown>, version: number) =>
      saver.put(
        { configurable: { thread_id: "x", checkpoint_id: parent } },
        { ...emptyCheckpoint(), id, channel_values: values, channel_versions: { d: version } },
        { source: "loop", step: version, parents: {} },
        { d: version },
      );
    await save("1", undefined, { d: "hello" }, 1);
    const config = await save("2", "1", {}, 2);
    expect(await saver.getDeltaChannelHistory({ config, channels: ["d"] })).toEqual({ d: { writes: [], seed: "hello" } });
    sqlOn(path, "UPDATE langgraph_snapshots SET channels = replace(channels, 'hello', 'hullo')");
    await expect(saver.getDeltaChannelHistory({ config, channels: ["d"] })).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPTED",
    });
  });

  test("S3.1 a thread under another id does not verify", async () => {
    await waiting();
    sqlOn(path, "UPDATE langgraph_threads SET thread_id = 'y'");
    await expect(saver.getTuple(at("y"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    await expect(saver.turns.list("y")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
  });

  test("S3.1 a turn that was changed is named by listTurns and by turnState", async () => {
    await new GraphRunner(chain(saver)).invoke({ log: ["in"] }, { threadId: "x" });
    const turns = await saver.turns.list("x");
    sqlOn(path, "UPDATE langgraph_checkpoints SET serialized_state = replace(serialized_state, 'b', 'B') WHERE node_name = 'b'");
    await expect(saver.turns.list("x")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    await expect(saver.turns.state(turns[3]!)).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    expect(await saver.turns.state(turns[1]!)).toEqual({ log: ["a"] });
  });

  test("S3.1 a turn whose state refers to what was changed is named by turnState", async () => {
    await waiting();
    const turns = await saver.turns.list("x");
    const action = turns.find(({ nodeName, turnType }) => nodeName === "beside" && turnType === "Action")!;
    expect(await saver.turns.state(action)).toEqual({ side: beside });
    sqlOn(path, "UPDATE langgraph_chunks SET body = replace(body, 'hello beside', 'hullo beside')");
    const other = openSaver(path, { logger: quiet });
    await expect(other.turns.state(action)).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    other.close();
  });

  test("S3.1 the other threads of the file are not affected", async () => {
    await waiting();
    await waiting("y");
    sqlOn(path, `UPDATE langgraph_chunks SET body = '0' WHERE thread = ${numberOf(path, "x")}`);
    const other = openSaver(path, { logger: quiet });
    expect((await graphOn(other).getState(at("y"))).next).toEqual(["wait"]);
    await expect(graphOn(other).getState(at("x"))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    other.close();
  });

  test.each([
    ["a list", 'hello"'],
    ["a long value", "hello essay"],
  ])("S3.1 the error about %s names the thread, and holds no value", async (_, text) => {
    await waiting();
    sqlOn(path, `UPDATE langgraph_chunks SET body = replace(body, '${text}', 'secret${text}')`);
    const other = openSaver(path, { logger: quiet });
    const error = await other.getTuple(at("x")).then(
      () => undefined,
      (reason: Error & { data: unknown }) => reason,
    );
    expect(error!.message).toContain("thread x");
    expect(JSON.stringify([error!.message, error!.data])).not.toContain("secret");
    other.close();
  });
});
