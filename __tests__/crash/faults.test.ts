import { spawn } from "node:child_process";
import { join } from "node:path";
import { HumanMessage } from "@langchain/core/messages";
import { Annotation, Command, entrypoint, interrupt, START, StateGraph, task } from "@langchain/langgraph";
import { emptyCheckpoint, InMemoryCache, uuid6 } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { effect, GraphRunner, TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { vacuum } from "langgraph-checkpoint-turns/maintenance";
import { tempFile } from "../support/temp";
import { childProgram } from "../support/child-program";

const State = Annotation.Root({ x: Annotation<unknown>() });
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const config = { configurable: { thread_id: "t" } };
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

function setup(options: TurnSaverOptions = {}) {
  const path = tempFile();
  return { path, saver: TurnSaver.fromPath(path, { logger: quiet, ...options }) };
}

/** a → b; a's value is what `value` gives. */
function twoNodes(saver: TurnSaver, value: () => unknown) {
  return new StateGraph(State)
    .addNode("a", () => ({ x: value() }))
    .addNode("b", () => ({ x: "b" }))
    .addEdge(START, "a")
    .addEdge("a", "b")
    .compile({ checkpointer: saver });
}

const LONG = { x: "long ".repeat(1_000), y: ["one", "two"] };

function putLong(saver: TurnSaver, id: string) {
  const versions = { x: 1, y: 1 };
  return saver.put(
    { configurable: { thread_id: "t", checkpoint_ns: "" } },
    { ...emptyCheckpoint(), id, channel_values: LONG, channel_versions: versions },
    { source: "loop", step: 0, parents: {} },
    versions,
  );
}

/** Rejections that nobody handled while `work` ran, and half a second after. */
async function unhandledDuring(work: () => Promise<unknown>): Promise<unknown[]> {
  const unhandled: unknown[] = [];
  const listen = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", listen);
  try {
    await work();
    await pause(700);
  } finally {
    process.off("unhandledRejection", listen);
  }
  return unhandled;
}

describe("a save that fails", () => {
  test("leaves the thread free: once the cause is gone, resume continues", async () => {
    const { saver } = setup();
    let bad = true;
    const runner = new GraphRunner(twoNodes(saver, () => (bad ? () => 1 : "a")));
    await expect(runner.invoke({ x: 1 }, { threadId: "t" })).rejects.toThrow(
      expect.objectContaining({ code: "UNSERIALIZABLE_VALUE" }),
    );
    expect(await saver.turns.isRunning("t")).toBe(false);
    bad = false;
    expect(await runner.resume({ threadId: "t" })).toEqual({ x: "b" });
    saver.close();
  });

  test('onTurnError "throw" leaves the thread free too', async () => {
    const { saver, path } = setup({ onTurnError: "throw" });
    const db = new Database(path);
    const runner = new GraphRunner(twoNodes(saver, () => "a"));
    db.exec("CREATE TRIGGER no BEFORE INSERT ON langgraph_checkpoints BEGIN SELECT RAISE(ABORT, 'no turns'); END");
    await expect(runner.invoke({ x: 1 }, { threadId: "t" })).rejects.toThrow("no turns");
    db.exec("DROP TRIGGER no");
    expect(await runner.resume({ threadId: "t" })).toEqual({ x: "b" });
    db.close();
    saver.close();
  });

  test.each(["async", "sync"] as const)("inside a subgraph ends the run with its error, durability %s", async (durability) => {
    const { saver } = setup();
    let bad = true;
    const sub = new StateGraph(State)
      .addNode("s1", () => ({ x: bad ? () => 1 : "s1" }))
      .addEdge(START, "s1")
      .compile();
    const runner = new GraphRunner(
      new StateGraph(State).addNode("sub", sub).addEdge(START, "sub").compile({ checkpointer: saver }),
    );
    const unhandled = await unhandledDuring(async () => {
      await expect(runner.invoke({ x: 1 }, { threadId: "t", durability })).rejects.toThrow(
        expect.objectContaining({ code: "UNSERIALIZABLE_VALUE" }),
      );
    });
    expect(unhandled).toEqual([]);
    bad = false;
    expect(await runner.resume({ threadId: "t" })).toEqual({ x: "s1" });
    saver.close();
  });

  test.each(["langgraph_threads", "langgraph_writes", "langgraph_snapshots"])(
    "and keeps failing ends the run, does not hang it, and leaves nothing unhandled: %s",
    async (table) => {
      const { saver, path } = setup();
      const db = new Database(path);
      const act = table === "langgraph_threads" ? "UPDATE" : "INSERT";
      const graph = new GraphRunner(
        twoNodes(saver, () => {
          db.exec(`CREATE TRIGGER IF NOT EXISTS no BEFORE ${act} ON ${table} BEGIN SELECT RAISE(ABORT, 'broken for good'); END`);
          return "a";
        }),
      );
      const unhandled = await unhandledDuring(() =>
        expect(graph.invoke({ x: 1 }, { threadId: "t" })).rejects.toThrow("broken for good"),
      );
      expect(unhandled).toEqual([]);
      db.exec("DROP TRIGGER no");
      expect(await saver.turns.isRunning("t")).toBe(false);
      db.close();
      saver.close();
    },
  );

  test.each(["langgraph_snapshots", "langgraph_writes"])(
    "S1.8 leaves no Thought of the node that doesn't run for it: %s",
    async (table) => {
      const { saver, path } = setup();
      const db = new Database(path);
      const lost: unknown[] = [];
      saver.events.on("turn_failed", (turn) => lost.push(turn));
      const ran: string[] = [];
      const graph = saver.attach(
        new StateGraph(State)
          .addNode("a", () => {
            ran.push("a");
            db.exec(`CREATE TRIGGER no BEFORE INSERT ON ${table} BEGIN SELECT RAISE(ABORT, 'broken'); END`);
            return { x: "a" };
          })
          .addNode("b", () => {
            ran.push("b");
            return { x: "b" };
          })
          .addEdge(START, "a")
          .addEdge("a", "b")
          .compile({ checkpointer: saver }),
      );
      await expect(graph.invoke({ x: 1 }, config)).rejects.toThrow("broken");
      db.exec("DROP TRIGGER no");
      db.close();
      expect(ran).toEqual(["a"]);
      expect((await saver.turns.inFlight("t")).map(({ nodeName }) => nodeName)).toEqual([]);
      expect((await saver.turns.list("t")).map((turn) => `${turn.turnType} ${turn.nodeName}`)).toEqual(["Thought a", "Action a"]);
      expect(lost).toEqual([]);
      expect(await graph.invoke(null, config)).toEqual({ x: "b" });
      expect((await saver.turns.list("t")).at(-1)).toMatchObject({ nodeName: "b", turnType: "Action", attempt: 1 });
      saver.close();
    },
  );

  test("and that waits for a lock is made before `await using` closes the saver", async () => {
    const { path, saver } = setup();
    await saver.getTuple(config);
    const holder = new Database(path);
    holder.exec("BEGIN IMMEDIATE");
    const saved = putLong(saver, uuid6(0));
    setTimeout(() => holder.exec("COMMIT"), 50);
    await saver[Symbol.asyncDispose]();
    await saved;
    holder.close();
    const again = TurnSaver.fromPath(path, { logger: quiet });
    expect((await again.getTuple(config))?.checkpoint).toMatchObject({ channel_values: LONG });
    again.close();
  });

  test("and is rolled back as a whole is no longer known", async () => {
    const path = tempFile();
    const db = new Database(path);
    const saver = new TurnSaver(db, { logger: quiet });
    const [first, second] = [uuid6(0), uuid6(1)];
    // A reference that holds nothing fails the COMMIT, when all of the transaction's statements are done.
    db.pragma("foreign_keys = ON");
    db.exec(`CREATE TABLE one (id PRIMARY KEY);
      CREATE TABLE other (id REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED);
      CREATE TRIGGER no AFTER INSERT ON langgraph_snapshots BEGIN INSERT INTO other VALUES (1); END`);
    await expect(putLong(saver, first)).rejects.toThrow("FOREIGN KEY");
    db.exec("DROP TRIGGER no");
    await putLong(saver, second);
    expect((await saver.verify()).problems).toEqual([]);
    saver.close();
    db.close();
    const again = TurnSaver.fromPath(path, { logger: quiet });
    expect((await again.getTuple(config))?.checkpoint).toMatchObject({ id: second, channel_values: LONG });
    expect((await again.verify()).problems).toEqual([]);
    again.close();
  });

  describe("in a transaction that the user has open on the handle", () => {
    test.each(["COMMIT", "ROLLBACK"])("S7.1 waits until %s, so that what was acknowledged is in the file", async (end) => {
      const path = tempFile();
      const db = new Database(path);
      const saver = new TurnSaver(db, { logger: quiet });
      await saver.setup();
      const id = uuid6(0);
      db.exec("BEGIN; CREATE TABLE orders (id)");
      let saved = false;
      expect(await saver.getTuple(config)).toBeUndefined();
      const save = putLong(saver, id).then(() => (saved = true));
      await pause(50);
      expect(saved).toBe(false);
      db.exec(end);
      await save;
      const other = TurnSaver.fromPath(path, { logger: quiet });
      expect((await other.getTuple(config))?.checkpoint).toMatchObject({ id, channel_values: LONG });
      expect((await other.verify()).problems).toEqual([]);
      other.close();
      saver.close();
      db.close();
    });

    test("S7.1 S1.8 no node's body and no effect begins in it; a run that is waited for inside is refused, and can be run again after it", async () => {
      const db = new Database(tempFile());
      const saver = new TurnSaver(db, { logger: quiet, busyTimeoutMs: 300 });
      let sent = 0;
      const graph = new StateGraph(Annotation.Root({ a: Annotation<number> }))
        .addNode("n", async ({ a }) => {
          await effect("mail", () => (sent += 1));
          return { a: a + 1 };
        })
        .addEdge(START, "n")
        .compile({ checkpointer: saver });
      const runner = new GraphRunner(graph);
      db.exec("BEGIN");
      await expect(runner.invoke({ a: 1 }, { threadId: "t" })).rejects.toMatchObject({
        code: "STORE_BUSY",
        message: expect.stringMatching(/inside a transaction of your own .* Nothing was saved: .* TurnSaver\.fromPath\(path\)/),
      });
      db.exec("ROLLBACK");
      expect(sent).toBe(0);
      expect(await runner.invoke({ a: 1 }, { threadId: "t" })).toEqual({ a: 2 });
      expect(sent).toBe(1);
      expect((await saver.turns.list("t")).map(({ turnType }) => turnType)).toEqual(["Thought", "Action"]);
      expect((await saver.verify()).problems).toEqual([]);
      saver.close();
      db.close();
    });

    test.each<[string, (saver: TurnSaver) => Promise<unknown>]>([
      ["verify()", (saver) => saver.verify()],
      ["verify() of a thread", (saver) => saver.verify({ threadId: "t" })],
      ["vacuum()", (saver) => vacuum(saver)],
      ["vacuum() of the whole file", (saver) => vacuum(saver, { full: true })],
      ["prune()", (saver) => saver.prune({ keepLast: 1 })],
    ])("S7.1 %s waits for its end, and is refused with the remedy if that takes too long", async (_name, work) => {
      const path = tempFile();
      const db = new Database(path);
      // On a busy machine more than 300 ms may be over before the timer below fires.
      const saver = new TurnSaver(db, { logger: quiet, busyTimeoutMs: 2_000 });
      for (const at of [0, 1]) await putLong(saver, uuid6(at));
      db.exec("BEGIN");
      db.exec("CREATE TABLE orders (id)");
      await expect(work(saver)).rejects.toMatchObject({
        code: "STORE_BUSY",
        message: expect.stringMatching(/inside a transaction of your own .* Nothing was changed: .* TurnSaver\.fromPath\(path\)/),
      });
      expect(db.inTransaction).toBe(true);
      expect(db.prepare("SELECT count(*) AS n FROM langgraph_snapshots").get()).toEqual({ n: 2 });
      setTimeout(() => db.exec("COMMIT"), 50);
      await work(saver);
      expect(db.prepare("SELECT count(*) AS n FROM orders").get()).toEqual({ n: 0 });
      expect((await saver.verify()).problems).toEqual([]);
      saver.close();
      db.close();
    });

    test("S7.1 S4.4 an effect that is done while it is open isn't done again after its rollback and a crash", async () => {
      const path = tempFile();
      const db = new Database(path);
      let sent = 0;
      let endsInside = false;
      const graphOn = (saver: TurnSaver) =>
        new StateGraph(Annotation.Root({ a: Annotation<number> }))
          .addNode("mails", async ({ a }) => {
            if (endsInside) db.exec("BEGIN; CREATE TABLE orders (id)");
            const mailed = effect("mail", () => (sent += 1));
            // The user's own unit of work takes a while, and fails.
            if (endsInside) setTimeout(() => db.exec("ROLLBACK"), 50);
            await mailed;
            return { a: a + 1 };
          })
          .addNode("fails", ({ a }) => {
            if (endsInside) throw new Error("here the process dies");
            return { a: a + 1 };
          })
          .addEdge(START, "mails")
          .addEdge("mails", "fails")
          .compile({ checkpointer: saver });
      const first = new TurnSaver(db, { logger: quiet });
      endsInside = true;
      await expect(new GraphRunner(graphOn(first)).invoke({ a: 0 }, { threadId: "t" })).rejects.toThrow("here the process dies");
      endsInside = false;
      const second = TurnSaver.fromPath(path, { logger: quiet });
      expect((await second.effects.list("t")).map(({ name, status }) => [name, status])).toEqual([["mail", "done"]]);
      expect(await new GraphRunner(graphOn(second)).resume({ threadId: "t" })).toEqual({ a: 2 });
      expect(sent).toBe(1);
      second.close();
      first.close();
      db.close();
    });
  });

  test("while LangGraph is slow between two steps leaves nothing unhandled", async () => {
    const { saver } = setup();
    class SlowCache extends InMemoryCache {
      override async get(...args: Parameters<InMemoryCache["get"]>) {
        await pause(100);
        return super.get(...args);
      }
    }
    const graph = new StateGraph(State)
      .addNode("a", () => ({ x: () => 1 }))
      .addNode("b", () => ({ x: "b" }), { cachePolicy: { ttl: 60 } })
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: saver, cache: new SlowCache() });
    saver.attach(graph);
    expect(await unhandledDuring(() => expect(graph.invoke({ x: 1 }, config)).rejects.toThrow())).toEqual([]);
    saver.close();
  });

  test("because the saver was closed in mid-run leaves nothing unhandled", async () => {
    const { saver } = setup();
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", async () => {
          saver.close();
          await pause(50);
          return { x: "a" };
        })
        .addNode("b", () => ({ x: "b" }))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: saver }),
    );
    const unhandled = await unhandledDuring(() => expect(graph.invoke({ x: 1 }, config)).rejects.toThrow());
    expect(unhandled).toEqual([]);
  });
});

describe("S3.7 one thread, one run", () => {
  test("of two runs begun in one tick exactly one goes, the other is THREAD_RUNNING", async () => {
    const { saver } = setup();
    const runner = new GraphRunner(twoNodes(saver, () => "a"));
    const results = await Promise.allSettled([
      runner.invoke({ x: 1 }, { threadId: "t", taskId: "one" }),
      runner.invoke({ x: 2 }, { threadId: "t", taskId: "two" }),
    ]);
    expect(results.map((result) => result.status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(results.find((result) => result.status === "rejected")?.reason).toMatchObject({ code: "THREAD_RUNNING" });
    expect((await saver.turns.tasks("t")).map((span) => span.taskId)).toEqual(["one"]);
    saver.close();
  });

  test("of several processes that resume one thread at once exactly one runs it", async () => {
    const { saver, path } = setup();
    saver.close();
    const children = Array.from({ length: 4 }, () => {
      const child = spawn(process.execPath, [...childProgram(join(__dirname, "resume-child.ts")), path, "4"]);
      return new Promise<string>((resolve) => {
        let out = "";
        child.stdout.on("data", (chunk) => (out += String(chunk)));
        child.on("close", () => resolve(out.trim()));
      });
    });
    const outcomes = (await Promise.all(children)).sort();
    expect(outcomes).toEqual(["THREAD_RUNNING", "THREAD_RUNNING", "THREAD_RUNNING", "done"]);
    const again = TurnSaver.fromPath(path, { logger: quiet });
    expect((await again.turns.list("t")).filter((turn) => turn.turnType === "Thought")).toHaveLength(1);
    again.close();
  }, 300_000);

  test("a mark that could not be removed when the run finished does not block the thread", async () => {
    const { saver, path } = setup();
    const db = new Database(path);
    db.exec("CREATE TRIGGER no BEFORE DELETE ON langgraph_runs BEGIN SELECT RAISE(ABORT, 'no'); END");
    const runner = new GraphRunner(twoNodes(saver, () => "a"));
    await runner.invoke({ x: 1 }, { threadId: "t" });
    db.exec("DROP TRIGGER no");
    expect(db.prepare("SELECT count(*) FROM langgraph_runs").pluck().get()).toBe(1);
    expect(await runner.invoke({ x: 2 }, { threadId: "t" })).toEqual({ x: "b" });
    expect(db.prepare("SELECT count(*) FROM langgraph_runs").pluck().get()).toBe(0);
    db.close();
    saver.close();
  });
});

test("a lock held elsewhere while the input is saved opens no second task", async () => {
  const { saver, path } = setup();
  const other = new Database(path);
  const graph = saver.attach(twoNodes(saver, () => "a"));
  const getTuple = saver.getTuple.bind(saver);
  saver.getTuple = async (at) => {
    const tuple = await getTuple(at);
    if (!other.inTransaction) {
      other.exec("BEGIN IMMEDIATE");
      setTimeout(() => other.exec("COMMIT"), 200);
    }
    return tuple;
  };
  await graph.invoke({ x: 1 }, config);
  const tasks = await saver.turns.tasks("t");
  expect(tasks).toHaveLength(1);
  expect(new Set((await saver.turns.list("t")).map((turn) => turn.taskId))).toEqual(new Set([tasks[0]?.taskId]));
  other.close();
  saver.close();
});

describe("the state of a Thought is what its body got", () => {
  const thoughtOf = async (saver: TurnSaver, name: string, threadId = "t"): Promise<unknown> => {
    const turns = (await saver.turns.list(threadId)).filter((turn) => turn.nodeName === name && turn.turnType === "Thought");
    const last = turns.at(-1);
    return last && saver.turns.state(last);
  };

  test.each(["async", "sync", "exit"] as const)("after a Command with resume and update, durability %s", async (durability) => {
    const { saver } = setup();
    const got: unknown[] = [];
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("h", (state) => {
          got.push({ ...state });
          return { x: interrupt("?") };
        })
        .addEdge(START, "h")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ x: 1 }, { ...config, durability });
    await graph.invoke(new Command({ resume: "yes", update: { x: 77 } }), { ...config, durability });
    expect(got).toEqual([{ x: 1 }, { x: 77 }]);
    expect(await thoughtOf(saver, "h")).toEqual({ x: 77 });
    saver.close();
  });

  test("in a graph inside that keeps no checkpoints", async () => {
    const { saver } = setup();
    const Inner = Annotation.Root({ y: Annotation<number>() });
    const inner = new StateGraph(Inner)
      .addNode("i", () => ({}))
      .addEdge(START, "i")
      .compile({ checkpointer: false });
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("o", async () => {
          await inner.invoke({ y: 10 });
          return {};
        })
        .addEdge(START, "o")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ x: 1 }, config);
    expect(await thoughtOf(saver, "i")).toEqual({ y: 10 });
    expect(await thoughtOf(saver, "o")).toEqual({ x: 1 });
    saver.close();
  });

  test('with durability "exit", when no checkpoint tells it', async () => {
    const { saver } = setup();
    const graph = saver.attach(twoNodes(saver, () => "a"));
    await graph.invoke({ x: new HumanMessage({ content: "hi", id: "1" }) }, { ...config, durability: "exit" });
    expect(await thoughtOf(saver, "a")).toEqual({ x: new HumanMessage({ content: "hi", id: "1" }) });
    expect(await thoughtOf(saver, "b")).toEqual({ x: "a" });
    saver.close();
  });

  test("on the thread it really ran on, when a node calls a graph on another thread", async () => {
    const { saver } = setup();
    const Inner = Annotation.Root({ y: Annotation<number>() });
    const seen: unknown[] = [];
    const inner = new StateGraph(Inner)
      .addNode("s1", () => ({ y: 11 }))
      .addNode("s2", async () => {
        seen.push(
          (await saver.turns.inFlight("inner")).map((turn) => turn.nodeName),
          await saver.turns.isRunning("inner"),
        );
        return { y: 12 };
      })
      .addEdge(START, "s1")
      .addEdge("s1", "s2")
      .compile({ checkpointer: saver });
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("o", async () => {
          await inner.invoke({ y: 10 }, { configurable: { thread_id: "inner" } });
          return {};
        })
        .addEdge(START, "o")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ x: 1 }, { configurable: { thread_id: "outer" } });
    expect(seen).toEqual([["s2"], true]);
    expect((await saver.turns.list("outer")).map((turn) => turn.nodeName)).toEqual(["o", "o"]);
    const turns = await saver.turns.list("inner");
    expect(turns.map((turn) => `${turn.turnType} ${turn.nodeName} ${turn.durable}`)).toEqual([
      "Thought s1 false",
      "Action s1 true",
      "Thought s2 false",
      "Action s2 true",
    ]);
    expect(await thoughtOf(saver, "s2", "inner")).toEqual({ y: 11 });
    expect(await saver.turns.inFlight("inner")).toEqual([]);
    saver.close();
  });

  test("or says that it could not be saved: a functional task with a function as argument keeps its turns", async () => {
    const { saver } = setup({ onTurnError: "throw" });
    const call = task("call", (give: () => number) => give());
    const flow = saver.attach(entrypoint({ name: "flow", checkpointer: saver }, (x: number) => call(() => x)));
    expect(await flow.invoke(5, config)).toBe(5);
    expect((await saver.turns.list("t")).map((turn) => `${turn.turnType} ${turn.nodeName}`)).toEqual([
      "Thought flow",
      "Thought call",
      "Action call",
      "Action flow",
    ]);
    await expect(thoughtOf(saver, "call")).rejects.toThrow(expect.objectContaining({ code: "UNSERIALIZABLE_VALUE" }));
    saver.close();
  });
});
