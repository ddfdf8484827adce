import { Annotation, Command, END, entrypoint, interrupt, Send, START, StateGraph, task } from "@langchain/langgraph";
import { uuid6 } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { effect, TurnSaver } from "langgraph-checkpoint-turns";
import { BoundaryLog, quiet } from "./boundary-log";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
type Durability = "async" | "sync" | "exit";

/** Taken before any test fakes them. */
const { setTimeout: later, setImmediate: atEndOfMacrotask } = globalThis;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => later(resolve, ms));
const macrotasks = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n += 1) await new Promise<void>((resolve) => atEndOfMacrotask(resolve));
};

const logs: BoundaryLog[] = [];
const boundaryLog = (...options: ConstructorParameters<typeof BoundaryLog>): BoundaryLog => {
  const log = new BoundaryLog(...options);
  logs.push(log);
  return log;
};

/** Whatever a test is about: a Thought and its Action are never in one transaction, and no body misses what has to be in the file. */
afterEach(() => {
  jest.useRealTimers();
  for (const log of logs.splice(0)) {
    expect(log.commits.flatMap(({ together }) => together)).toEqual([]);
    log.close();
  }
});

const on = (threadId = "t", durability: Durability = "async") => ({ configurable: { thread_id: threadId }, durability });
const INPUT = { log: [] };

function chain(log: BoundaryLog, names: readonly string[], work: Record<string, () => unknown> = {}, isAttached = true) {
  const builder = new StateGraph(State) as unknown as StateGraph<unknown, typeof State.State, typeof State.Update, string>;
  for (const [at, name] of names.entries()) {
    builder.addNode(name, log.node(name, work[name]) as never);
    builder.addEdge(at === 0 ? START : (names[at - 1] as never), name);
  }
  const graph = builder.compile({ checkpointer: log.saver });
  return isAttached ? log.saver.attach(graph) : graph;
}

function fan(log: BoundaryLog, width: number, work: (at: number) => (() => unknown) | undefined = () => undefined) {
  const builder = new StateGraph(State) as unknown as StateGraph<unknown, typeof State.State, typeof State.Update, string>;
  const names = Array.from({ length: width }, (_, at) => `n${at}`);
  for (const [at, name] of names.entries()) {
    builder.addNode(name, log.node(name, work(at)) as never);
    builder.addEdge(START, name);
  }
  builder.addNode("join", log.node("join") as never).addEdge(names, "join");
  return log.saver.attach(builder.compile({ checkpointer: log.saver }));
}

const durable = (log: BoundaryLog): number => log.count("SELECT count(*) FROM langgraph_checkpoints WHERE durable");

/** Resolves when so many Actions are saved: what is handed in then is another boundary's, however slow the machine is. */
async function untilDurable(log: BoundaryLog, count: number): Promise<void> {
  while (durable(log) < count) await sleep(1);
}

/** The log in short: what is the same a hundred times is counted. */
const inShort = (log: BoundaryLog): string[] =>
  log.log.map((line) => {
    const counts = new Map<string, number>();
    for (const part of line.split(", ")) {
      const kind = part.replace(/(?<=^(> |T |A )\w)\d+/, "");
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    return [...counts].map(([kind, count]) => (count === 1 ? kind : `${count} × ${kind}`)).join(", ");
  });

describe("S7.1 one transaction per node boundary", () => {
  test("S7.1 a chain: the end of a node, its writes, the next checkpoint and the next Thought are one transaction", async () => {
    const log = boundaryLog();
    await chain(log, ["a", "b", "c"]).invoke(INPUT, on());
    expect(log.log).toEqual([
      "run begins",
      // LangGraph hands in the checkpoint of step 0 when the input's is saved.
      "1w, cp -1",
      "cp 0, T a",
      "> a",
      "A a ok*, 1w, cp 1, T b",
      "> b",
      "A b ok*, 1w, cp 2, T c",
      "> c",
      "A c ok*, 1w, cp 3, run ends",
    ]);
    expect(log.missing).toEqual([]);
    // Nothing was written outside of the transactions that the log tells of.
    expect(log.begun.filter((text) => text === "BEGIN IMMEDIATE")).toHaveLength(log.commits.length);
    expect(log.begun.filter((text) => text.startsWith("ROLLBACK") || text.startsWith("SAVEPOINT"))).toEqual([]);
  });

  test('S7.1 a chain with durability "sync": LangGraph starts the next nodes when `put` has resolved', async () => {
    const log = boundaryLog();
    await chain(log, ["a", "b"]).invoke(INPUT, on("t", "sync"));
    expect(log.log).toEqual([
      "run begins",
      "1w, cp -1",
      "cp 0",
      "T a",
      "> a",
      "A a ok*, 1w, cp 1",
      "T b",
      "> b",
      "A b ok*, 1w, cp 2",
      "run ends",
    ]);
    expect(log.missing).toEqual([]);
  });

  test('S7.1 a chain with durability "exit": an Action is committed with the next Thought, and is durable with the checkpoint at the end', async () => {
    const log = boundaryLog();
    await chain(log, ["a", "b"]).invoke(INPUT, on("t", "exit"));
    expect(log.log.at(-1)).toBe("run ends");
    expect(log.boundaries.at(-1)).toMatchObject({ turns: ["A a ok*", "A b ok*"], checkpoints: ["cp 2"] });
    expect(log.missing.filter((text) => text.includes("Thought"))).toEqual([]);
  });

  test.each(["async", "sync"] as const)(
    "S7.1 a fan-out of 100 (%s): all its Thoughts are one transaction",
    async (durability) => {
      const log = boundaryLog();
      await fan(log, 100).invoke(INPUT, on("t", durability));
      // With "sync" LangGraph starts nodes, and ends a run, when `put` has resolved.
      const boundary = (saved: string, started: string): string[] =>
        durability === "sync" ? [saved, started] : [`${saved}, ${started}`];
      expect(inShort(log)).toEqual([
        "run begins",
        "1w, cp -1",
        ...boundary("cp 0", "100 × T n"),
        ...Array.from({ length: 100 }, () => "> n"),
        ...boundary("100 × A n ok*, 100w, cp 1", "T join"),
        "> join",
        ...boundary("A join ok*, 1w, cp 2", "run ends"),
      ]);
      expect(log.missing).toEqual([]);
    },
  );

  test("S7.1 a fan-out whose nodes end at different times: one transaction for each macrotask in which any ends", async () => {
    const log = boundaryLog();
    await fan(log, 4, (at) => (at < 2 ? undefined : () => untilDurable(log, at))).invoke(INPUT, on());
    expect(inShort(log).slice(2)).toEqual([
      "cp 0, 4 × T n",
      "> n",
      "> n",
      "> n",
      "> n",
      "2 × A n ok*, 2w",
      "A n ok*, 1w",
      "A n ok*, 1w, cp 1, T join",
      "> join",
      "A join ok*, 1w, cp 2, run ends",
    ]);
    expect(log.missing).toEqual([]);
  });

  test("S7.1 Send: the Thoughts of 100 packets are committed with their sender's Action", async () => {
    const log = boundaryLog();
    const graph = log.saver.attach(
      new StateGraph(State)
        .addNode("a", log.node("a"))
        .addNode("w", log.node("w"))
        .addEdge(START, "a")
        .addConditionalEdges("a", () => Array.from({ length: 100 }, () => new Send("w", {})), ["w"])
        .compile({ checkpointer: log.saver }),
    );
    await graph.invoke(INPUT, on());
    expect(inShort(log).filter((line) => !line.startsWith(">"))).toEqual([
      "run begins",
      "1w, cp -1",
      "cp 0, T a",
      "A a ok*, 1w, cp 1, 100 × T w",
      "100 × A w ok*, 100w, cp 2, run ends",
    ]);
    expect(log.missing).toEqual([]);
  });

  test("S7.1 a subgraph: its own boundaries, and the ends of both graphs in one", async () => {
    const log = boundaryLog();
    const sub = new StateGraph(State)
      .addNode("s1", log.node("s1"))
      .addNode("s2", log.node("s2"))
      .addEdge(START, "s1")
      .addEdge("s1", "s2")
      .compile();
    const graph = log.saver.attach(
      new StateGraph(State)
        .addNode("a", log.node("a"))
        .addNode("sub", sub)
        .addNode("z", log.node("z"))
        .addEdge(START, "a")
        .addEdge("a", "sub")
        .addEdge("sub", "z")
        .compile({ checkpointer: log.saver }),
    );
    await graph.invoke(INPUT, on());
    expect(log.log.slice(4)).toEqual([
      "A a ok*, 1w, cp 1, T sub",
      "1w, cp sub -1",
      "cp sub 0, T s1",
      "> s1",
      "A s1 ok*, 1w, cp sub 1, T s2",
      "> s2",
      // The graph of the subgraph ends when its last checkpoint is saved.
      "A s2 ok*, 1w, cp sub 2",
      "A sub ok*, 1w, cp 2, T z",
      "> z",
      "A z ok*, 1w, cp 3, run ends",
    ]);
    expect(log.missing).toEqual([]);
  });

  test("S7.1 the functional API: the end of a task and the Thought of the next one are one transaction", async () => {
    const log = boundaryLog();
    for (const name of ["t1", "t2"]) log.functional.add(name);
    const step = (name: string) =>
      task(name, async (n: number) => {
        log.enter(name);
        return n + 1;
      });
    const [t1, t2] = [step("t1"), step("t2")];
    const graph = log.saver.attach(
      entrypoint({ name: "ep", checkpointer: log.saver }, async (n: number) => {
        log.enter("ep");
        return t2(await t1(n));
      }),
    );
    expect(await graph.invoke(1, on())).toBe(3);
    expect(log.log).toEqual([
      "run begins",
      "cp -1, T ep",
      "> ep",
      "T t1",
      "> t1",
      "A t1 ok*, 1w, T t2",
      "> t2",
      "A t2 ok*, A ep ok*, 2w, cp 0, run ends",
    ]);
    expect(log.missing).toEqual([]);
  });

  test("S7.1 retries: each attempt has its Thought before its body, and its Action before the next attempt", async () => {
    const log = boundaryLog();
    let tries = 0;
    const flaky = log.node("a", () => {
      tries += 1;
      if (tries < 3) throw new Error("not yet");
    });
    const retryPolicy = { maxAttempts: 3, initialInterval: 30, jitter: false, retryOn: () => true, logWarning: false };
    const graph = log.saver.attach(
      new StateGraph(State)
        .addNode("a", flaky, { retryPolicy })
        .addNode("b", log.node("b"))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .compile({ checkpointer: log.saver }),
    );
    await graph.invoke(INPUT, on());
    expect(log.log.slice(2)).toEqual([
      "cp 0, T a",
      "> a",
      "A a error",
      "T a",
      "> a",
      "A a error",
      "T a",
      "> a",
      "A a ok*, 1w, cp 1, T b",
      "> b",
      "A b ok*, 1w, cp 2, run ends",
    ]);
    expect(log.missing).toEqual([]);
  });

  test("S7.1 interrupts: the answer is committed with the Thought of the node that gets it", async () => {
    const log = boundaryLog();
    const graph = log.saver.attach(
      new StateGraph(State)
        .addNode("ask", () => {
          log.enter("ask");
          return { log: [interrupt<string, string>("?")] };
        })
        .addNode("b", log.node("b"))
        .addEdge(START, "ask")
        .addEdge("ask", "b")
        .compile({ checkpointer: log.saver }),
    );
    await graph.invoke(INPUT, on());
    await graph.invoke(new Command({ resume: "yes" }), on());
    expect(log.log).toEqual([
      "run begins",
      "1w, cp -1",
      "cp 0, T ask",
      "> ask",
      "A ask interrupted, 1w, run ends",
      "run begins",
      "1w, T ask",
      "> ask",
      "A ask ok*, 2w, cp 1, T b",
      "> b",
      "A b ok*, 1w, cp 2, run ends",
    ]);
    expect(log.missing).toEqual([]);
  });

  test("S7.1 a node that throws: its Action and its error are one transaction, and the run ends after it", async () => {
    const log = boundaryLog();
    const graph = chain(log, ["a", "b"], {
      b: () => {
        throw new Error("boom");
      },
    });
    await expect(graph.invoke(INPUT, on())).rejects.toThrow("boom");
    expect(log.log.slice(4)).toEqual(["A a ok*, 1w, cp 1, T b", "> b", "A b error, 1w", "run ends"]);
  });

  test("S7.1 threads that come to a boundary in the same macrotask share the transaction", async () => {
    const log = boundaryLog();
    const graph = chain(log, ["a", "b"]);
    await Promise.all(["one", "two", "three"].map((id) => graph.invoke(INPUT, on(id))));
    const shared = log.boundaries.filter(({ checkpoints }) => checkpoints.length > 1);
    expect(shared).not.toEqual([]);
    // One after another they take four each.
    expect(log.boundaries.length).toBeLessThan(12);
    expect(log.count("SELECT count(DISTINCT thread) FROM langgraph_snapshots WHERE step = 2")).toBe(3);
    expect(log.missing).toEqual([]);
  });

  test("S7.1 nothing is committed before the macrotask is over, and each save resolves when its changes are in the file", async () => {
    const log = boundaryLog();
    const told: string[] = [];
    let handedIn = 0;
    for (const name of ["put", "putWrites"] as const) {
      const save = log.saver[name].bind(log.saver) as (...args: unknown[]) => Promise<unknown>;
      const table = name === "put" ? "langgraph_snapshots" : "langgraph_writes";
      const count = (): number => log.count(`SELECT count(*) FROM ${table}`);
      const told1 = async (...args: unknown[]): Promise<unknown> => {
        handedIn += 1;
        const before = count();
        const saved = save(...args);
        if (count() !== before) told.push(`${name} committed while it was handed in`);
        const result = await saved;
        if (count() <= before) told.push(`${name} resolved before its commit`);
        return result;
      };
      Object.assign(log.saver, { [name]: told1 });
    }
    await fan(log, 10).invoke(INPUT, on());
    expect(told).toEqual([]);
    expect(handedIn).toBe(16);
  });
});

describe("S7.2 a body starts when its Thought, its checkpoint and all that was handed in before are in the file", () => {
  test.each(["async", "sync", "exit"] as const)(
    "S7.2 all that came before a node is committed when it runs (%s)",
    async (durability) => {
      const log = boundaryLog();
      const names = ["a", "b", "c", "d"];
      const behind: string[] = [];
      const look = (name: string) => () => {
        const before = names.slice(0, names.indexOf(name));
        const actions = log.witness
          .prepare("SELECT node_name FROM langgraph_checkpoints WHERE turn_type = 'Action'")
          .pluck()
          .all();
        if (JSON.stringify(actions) !== JSON.stringify(before)) behind.push(`${name}: Actions of ${JSON.stringify(actions)}`);
        const durable = log.count("SELECT count(*) FROM langgraph_checkpoints WHERE durable");
        if (durability !== "exit" && durable !== before.length) behind.push(`${name}: ${durable} of ${before.length} durable`);
      };
      await chain(log, names, Object.fromEntries(names.map((name) => [name, look(name)]))).invoke(INPUT, on("t", durability));
      expect(behind).toEqual([]);
      expect(log.missing.filter((text) => durability !== "exit" || text.includes("Thought"))).toEqual([]);
    },
  );

  test("S7.2 it holds while somebody else has the file's lock, and the event loop runs on meanwhile", async () => {
    const names = Array.from({ length: 8 }, (_, at) => `n${at}`);
    // On a busy machine timers fire less often, so it is tried again.
    let ticks = 0;
    for (let tries = 0; tries < 20 && ticks <= 10; tries += 1) ticks = await ticksUnderLocks(names);
    expect(ticks).toBeGreaterThan(10);
  });

  /** Another connection locks the file three times, for 60 ms each. @returns how often a timer of 5 ms fired in the run */
  async function ticksUnderLocks(names: readonly string[]): Promise<number> {
    const log = boundaryLog();
    const other = new Database(log.path);
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 5);
    const lock = (): void => {
      other.exec("BEGIN IMMEDIATE");
      setTimeout(() => other.exec("COMMIT"), 60);
    };
    await chain(log, names, { n1: lock, n4: lock, n6: lock }).invoke(INPUT, on());
    clearInterval(timer);
    other.close();
    expect(log.missing).toEqual([]);
    expect(log.log.filter((line) => line.startsWith(">"))).toEqual(names.map((name) => `> ${name}`));
    expect((await log.saver.verify()).problems).toEqual([]);
    return ticks;
  }

  test("S7.2 what users change after they handed it in isn't what is saved", async () => {
    const log = boundaryLog();
    const Kept = Annotation.Root({ own: Annotation<{ at: string[] }>(), packet: Annotation<{ at: string[] }>() });
    const other = new Database(log.path);
    const shared = { at: ["as returned"] };
    const packet = { own: { at: ["as sent"] } };
    const graph = log.saver.attach(
      new StateGraph(Kept)
        .addNode("a", () => ({ own: shared }))
        .addNode("w", ({ own }) => ({ packet: own }))
        .addEdge(START, "a")
        .addConditionalEdges("a", () => [new Send("w", packet)], ["w"])
        .compile({ checkpointer: log.saver }),
    );
    const handedIn = log.saver.put.bind(log.saver);
    let changes = 0;
    // Someone else's lock keeps the boundary in the queue while its values change.
    Object.assign(log.saver, {
      put: async (...args: Parameters<TurnSaver["put"]>) => {
        const saved = handedIn(...args);
        if (args[2].step !== 1) return saved;
        other.exec("BEGIN IMMEDIATE");
        await macrotasks(3);
        shared.at.push("changed later");
        packet.own.at.push("changed later");
        changes += 1;
        other.exec("COMMIT");
        return saved;
      },
    });
    await graph.invoke({}, on());
    other.close();
    expect(changes).toBe(1);
    const turns = await log.saver.turns.list("t");
    const of = (node: string, type: string) => turns.filter(({ nodeName, turnType }) => nodeName === node && turnType === type);
    const states = async (node: string, type: string) =>
      Promise.all(of(node, type).map(async (turn) => JSON.stringify(await log.saver.turns.state(turn))));
    expect(await states("a", "Action")).toEqual([JSON.stringify({ own: { at: ["as returned"] } })]);
    expect(await states("w", "Thought")).toEqual([JSON.stringify({ own: { at: ["as sent"] } })]);
    const history = [];
    for await (const tuple of log.saver.list(on())) history.push(tuple);
    const first = history.find(({ metadata }) => metadata?.step === 1);
    expect(first?.checkpoint.channel_values["own"]).toEqual({ at: ["as returned"] });
    const parent = history.find(({ metadata }) => metadata?.step === 0);
    expect(parent?.pendingWrites?.find(([, channel]) => channel === "own")?.[2]).toEqual({ at: ["as returned"] });
  });
});

describe("S7.3 one disk sync per boundary", () => {
  test("S7.3 a run of 20 supersteps waits for the disk 22 times, and never for its marks alone", async () => {
    const log = boundaryLog({ synchronous: "full" });
    const names = Array.from({ length: 20 }, (_, at) => `n${at}`);
    await chain(log, names).invoke(INPUT, on());
    // The input's checkpoint, that of step 0 with the first Thought, and one per node.
    expect(log.commits.filter(({ synced }) => synced)).toHaveLength(22);
    expect(log.commits.filter(({ synced }) => !synced).map(({ marks }) => marks)).toEqual([["run begins"]]);
    expect(log.commits.at(-1)).toMatchObject({ checkpoints: ["cp 20"], marks: ["run ends"], synced: true });
  });
});

describe("S7.1 effects commit what is queued, too", () => {
  test("S7.1 an intent is in the file before its function is called, and its outcome before `effect()` returns", async () => {
    const log = boundaryLog();
    const look = (title: string): void => {
      const status = log.witness.prepare("SELECT status FROM langgraph_effects").pluck().all();
      const ended = log.count("SELECT count(*) FROM langgraph_checkpoints WHERE node_name = 'n0' AND durable");
      log.log.push(`${title}: ${status.join()}, n0 ${ended === 1 ? "durable" : "missing"}`);
    };
    // n0 ends in the macrotask in which n1 calls its effect.
    const mail = async (): Promise<void> => {
      for (let n = 0; n < 200; n += 1) await Promise.resolve();
      await effect("mail", () => look("called"));
      look("returned");
    };
    await fan(log, 2, (at) => (at === 1 ? mail : undefined)).invoke(INPUT, on());
    expect(inShort(log).slice(2)).toEqual([
      "cp 0, 2 × T n",
      "> n",
      "> n",
      "A n ok*, 1w, mail intent",
      "called: intent, n0 durable",
      "mail done",
      "returned: done, n0 durable",
      "A n ok*, 1w, cp 1, T join",
      "> join",
      "A join ok*, 1w, cp 2, run ends",
    ]);
    expect(log.missing).toEqual([]);
  });
});

describe("S7.2 graphs that aren't attached", () => {
  test("S7.2 `put` and `putWrites` commit before they return their promise", async () => {
    const log = boundaryLog();
    const late: string[] = [];
    for (const [name, table] of [
      ["put", "langgraph_snapshots"],
      ["putWrites", "langgraph_writes"],
    ] as const) {
      const save = log.saver[name].bind(log.saver) as (...args: unknown[]) => Promise<unknown>;
      const count = (): number => log.count(`SELECT count(*) FROM ${table}`);
      const watched = (...args: unknown[]): Promise<unknown> => {
        const before = count();
        const saved = save(...args);
        if (count() <= before) late.push(name);
        return saved;
      };
      Object.assign(log.saver, { [name]: watched });
    }
    const unwatched = { a: () => undefined };
    await chain(log, ["a", "b"], unwatched, false).invoke(INPUT, on());
    expect(late).toEqual([]);
    expect(log.log).toEqual(["cp -1", "1w", "cp 0, T a", "> a", "A a ok*, 1w", "cp 1, T b", "> b", "A b ok*, 1w", "cp 2"]);
  });
});

/** Calls `work` when something of that step was handed in, and before anything of it can have been committed. */
function whenHandedIn(
  log: BoundaryLog,
  name: "put" | "putWrites",
  isMeant: (args: unknown[]) => boolean,
  work: () => unknown,
): void {
  const save = log.saver[name].bind(log.saver) as (...args: unknown[]) => Promise<unknown>;
  const watched = (...args: unknown[]): Promise<unknown> => {
    const saved = save(...args);
    if (isMeant(args)) work();
    return saved;
  };
  Object.assign(log.saver, { [name]: watched });
}

const isStep = (step: number) => (args: unknown[]) => (args[2] as { step: number }).step === step;
const writesOf = (name: string) => (args: unknown[]) => JSON.stringify(args[1]).includes(`["${name}"]`);

describe("S7.5 reads of a thread see what was handed in before them", () => {
  const collected = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
    const all: T[] = [];
    for await (const item of items) all.push(item);
    return all;
  };
  const actionsOf = async (saver: TurnSaver): Promise<string[]> =>
    (await saver.turns.list("t"))
      .filter(({ turnType }) => turnType === "Action")
      .map(({ nodeName, durable }) => `${nodeName}${durable ? "*" : ""}`);

  test.each<[string, (log: BoundaryLog) => Promise<unknown>, unknown]>([
    ["getTuple", async ({ saver }) => (await saver.getTuple(on()))?.pendingWrites?.length, 4],
    ["list", async ({ saver }) => (await collected(saver.list(on())))[0]?.pendingWrites?.length, 4],
    ["listTurns", ({ saver }) => actionsOf(saver), ["a*", "b*"]],
    ["listThreads", async ({ saver }) => (await saver.listThreads()).map(({ threadId }) => threadId), ["t"]],
    ["verify", async ({ saver }) => (await saver.verify()).problems, []],
  ])("S7.5 %s sees the Action and the writes of a node whose boundary isn't over", async (_name, read, expected) => {
    const log = boundaryLog();
    let found: Promise<unknown> | undefined;
    let before = 0;
    // Two nodes, so that their step isn't over with the first one's writes.
    whenHandedIn(log, "putWrites", writesOf("b"), () => {
      before = durable(log);
      found = read(log);
    });
    await fan2(log, () => found).invoke(INPUT, on());
    expect(await found).toEqual(expected);
    expect([before, durable(log)]).toEqual([1, 4]);
    expect(log.missing).toEqual([]);
  });

  /** b ends when the end of a is saved; c when that of b is, and somebody has read. */
  function fan2(log: BoundaryLog, read: () => Promise<unknown> | undefined) {
    return log.saver.attach(
      new StateGraph(State)
        .addNode("a", log.node("a"))
        .addNode(
          "b",
          log.node("b", () => untilDurable(log, 1)),
        )
        .addNode(
          "c",
          log.node("c", () => untilDurable(log, 2).then(read)),
        )
        .addNode("z", log.node("z"))
        .addEdge(START, "a")
        .addEdge(START, "b")
        .addEdge(START, "c")
        .addEdge(["a", "b", "c"], "z")
        .compile({ checkpointer: log.saver }),
    );
  }

  test("S7.5 a checkpoint that was just handed in is the thread's newest", async () => {
    const log = boundaryLog();
    let found: Promise<unknown> | undefined;
    let before = -1;
    whenHandedIn(log, "put", isStep(1), () => {
      before = log.count("SELECT count(*) FROM langgraph_snapshots");
      found = log.saver.getTuple(on());
    });
    await chain(log, ["a", "b"]).invoke(INPUT, on());
    expect(before).toBe(2);
    expect(await found).toMatchObject({ metadata: { step: 1 }, checkpoint: { channel_values: { log: ["a"] } } });
  });

  test("S7.5 it holds while somebody else has the lock, and a turn of the boundary fails", async () => {
    const log = boundaryLog();
    log.db.exec(refusal("langgraph_checkpoints", "NEW.turn_type = 'Action' AND NEW.node_name = 'a'"));
    const other = new Database(log.path);
    let found: Promise<unknown> | undefined;
    const isHandedIn = isStep(1);
    whenHandedIn(log, "put", isHandedIn, () => {
      other.exec("BEGIN IMMEDIATE");
      found = log.saver.getTuple(on());
      later(() => other.exec("COMMIT"), 40);
    });
    await chain(log, ["a", "b"]).invoke(INPUT, on());
    expect(await found).toMatchObject({ metadata: { step: 1 } });
    other.close();
    expect(log.missing).toEqual([]);
  });
});

test("S7.1 nothing that was handed in later overtakes a boundary that has to be taken apart", async () => {
  const log = boundaryLog();
  log.db.exec(refusal("langgraph_checkpoints", "NEW.turn_type = 'Action' AND NEW.node_name = 'a'"));
  const other = new Database(log.path);
  const late = "00000000-0000-4000-8000-000000000001";
  let written: Promise<unknown> | undefined;
  const put = log.saver.put.bind(log.saver);
  Object.assign(log.saver, {
    put: async (...args: Parameters<TurnSaver["put"]>) => {
      const saved = put(...args);
      if (args[2].step !== 1) return saved;
      // The boundary is tried, and waits; then somebody saves on the checkpoint that waits with it.
      other.exec("BEGIN IMMEDIATE");
      await macrotasks(3);
      const configurable = { thread_id: "t", checkpoint_ns: "", checkpoint_id: args[1].id };
      written = log.saver.putWrites({ configurable }, [["log", ["late"]]], late);
      await macrotasks(3);
      other.exec("COMMIT");
      return saved;
    },
  });
  await chain(log, ["a", "b"]).invoke(INPUT, on());
  await written;
  other.close();
  const checkpoint = log.count("SELECT seq FROM langgraph_snapshots WHERE step = 1");
  expect(log.count(`SELECT seq FROM langgraph_writes WHERE node_task_id = '${late}'`)).toBeGreaterThan(checkpoint);
});

test("S7.1 runs that begin while somebody else has the lock don't wait for one another for ever", async () => {
  const log = boundaryLog();
  const graph = chain(log, ["a", "b"]);
  const other = new Database(log.path);
  other.exec("BEGIN IMMEDIATE");
  const runs = Promise.all(["one", "two", "three"].map((id) => graph.invoke(INPUT, on(id))));
  await sleep(40);
  other.exec("COMMIT");
  other.close();
  expect((await runs).map((result) => result.log)).toEqual([
    ["a", "b"],
    ["a", "b"],
    ["a", "b"],
  ]);
  expect(log.missing).toEqual([]);
});

/** SQL that makes the database refuse a row. */
function refusal(table: string, when: string, how = "ABORT"): string {
  return `CREATE TRIGGER refused_${table} BEFORE INSERT ON ${table} WHEN ${when} BEGIN SELECT RAISE(${how}, 'refused'); END`;
}

describe("S7.4 what can't be committed fails alone", () => {
  const failures = (saver: TurnSaver): string[] => {
    const told: string[] = [];
    saver.events.on("turn_failed", ({ nodeName, turnType }) => told.push(`${turnType} ${nodeName}`));
    saver.events.on("checkpoint_failed", ({ threadId }) => told.push(`checkpoint of ${threadId}`));
    return told;
  };

  describe.each(["ABORT", "ROLLBACK"])("S7.4 refused with %s", (how) => {
    test.each(["Thought", "Action"])(
      "S7.4 one %s in a fan-out of 20 costs nobody else's turn, and no checkpoint",
      async (type) => {
        const log = boundaryLog();
        const told = failures(log.saver);
        log.db.exec(refusal("langgraph_checkpoints", `NEW.turn_type = '${type}' AND NEW.node_name = 'n7'`, how));
        const result = await fan(log, 20).invoke(INPUT, on());
        expect(result.log).toHaveLength(21);
        expect([...new Set(told)]).toEqual([`${type} n7`]);
        const turns = log.count(`SELECT count(*) FROM langgraph_checkpoints WHERE node_name <> 'n7'`);
        expect(turns).toBe(40);
        expect(log.count(`SELECT count(*) FROM langgraph_checkpoints WHERE node_name = 'n7' AND turn_type = '${type}'`)).toBe(0);
        // An Action whose Thought was lost is never durable.
        const isLost = "node_name = 'n7' OR turn_type = 'Thought'";
        expect(log.count(`SELECT count(*) FROM langgraph_checkpoints WHERE NOT durable AND NOT (${isLost})`)).toBe(0);
        expect(log.count("SELECT count(*) FROM langgraph_snapshots")).toBe(4);
        // Of nodes that have a Thought no body missed it.
        expect(log.missing.filter((text) => !text.startsWith("n7"))).toEqual([]);
        log.db.exec("DROP TRIGGER refused_langgraph_checkpoints");
        expect((await log.saver.verify()).problems).toEqual([]);
      },
    );

    test("S7.4 a checkpoint fails its own promise; a thread that shares the transaction doesn't notice", async () => {
      const log = boundaryLog();
      const told = failures(log.saver);
      await chain(log, ["a"]).invoke(INPUT, on("bad"));
      const bad = log.count("SELECT thread FROM langgraph_threads WHERE thread_id = 'bad'");
      log.db.exec(refusal("langgraph_snapshots", `NEW.step = 5 AND NEW.thread = ${bad}`, how));
      const graph = chain(log, ["a", "b", "c"]);
      const outcomes = await Promise.allSettled([
        graph.invoke(INPUT, on("bad")),
        graph.invoke(INPUT, on("one")),
        graph.invoke(INPUT, on("two")),
      ]);
      expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
      // The checkpoint, and what node c, which wasn't let in, would have left on it.
      expect(told).toEqual(["checkpoint of bad", "checkpoint of bad"]);
      expect((outcomes[0] as PromiseRejectedResult).reason).toMatchObject({
        message: expect.stringContaining("refused") as string,
      });
      // What a node returned before that checkpoint is there: its Action and its writes.
      expect(log.count(`SELECT count(*) FROM langgraph_writes WHERE thread = ${bad}`)).toBe(5);
      expect(log.log.filter((line) => line === "> c")).toHaveLength(2);
      for (const id of ["one", "two"]) {
        expect((await log.saver.getTuple(on(id)))?.checkpoint.channel_values["log"]).toEqual(["a", "b", "c"]);
      }
      log.db.exec("DROP TRIGGER refused_langgraph_snapshots");
      expect((await log.saver.verify()).problems).toEqual([]);
    });

    test("S7.4 writes that are refused fail their own promise, and the run isn't resumed from what isn't there", async () => {
      const log = boundaryLog();
      const told = failures(log.saver);
      log.db.exec(refusal("langgraph_writes", `NEW.entries LIKE '%["n3"]%'`, how));
      await expect(fan(log, 5).invoke(INPUT, on())).rejects.toThrow("refused");
      expect(told).toEqual(["checkpoint of t"]);
      expect(log.log.filter((line) => line === "> join")).toEqual([]);
      expect(log.count("SELECT count(*) FROM langgraph_checkpoints WHERE durable")).toBe(4);
      log.db.exec("DROP TRIGGER refused_langgraph_writes");
      expect((await fan(log, 5).invoke(null, on())).log).toHaveLength(6);
    });
  });
});

describe("S7.1 nothing stays in the queue", () => {
  test("S7.1 close() commits what is left", async () => {
    const log = boundaryLog();
    let left: Promise<unknown> | undefined;
    const put = log.saver.put.bind(log.saver);
    const graph = chain(log, ["a", "b"]);
    const isClosed = new Promise<void>((resolve) => {
      Object.assign(log.saver, {
        put: (...args: Parameters<TurnSaver["put"]>) => {
          const saved = put(...args);
          if (args[2].step !== 1) return saved;
          expect(log.count("SELECT count(*) FROM langgraph_snapshots")).toBe(2);
          log.saver.close();
          left = saved;
          resolve();
          return saved;
        },
      });
    });
    const run = graph.invoke(INPUT, on()).catch((error: unknown) => error);
    await isClosed;
    await expect(left).resolves.toMatchObject({ configurable: { thread_id: "t" } });
    await run;
    const again = TurnSaver.fromPath(log.path, { logger: quiet });
    expect(await again.getTuple(on())).toMatchObject({ metadata: { step: 1 }, checkpoint: { channel_values: { log: ["a"] } } });
    const turns = (await again.turns.list("t")).map(({ turnType, nodeName, durable }) => [turnType, nodeName, durable]);
    expect(turns.slice(0, 2)).toEqual([
      ["Thought", "a", false],
      ["Action", "a", true],
    ]);
    again.close();
  });

  test("S7.1 close() commits what was handed in when no run is left", async () => {
    const log = boundaryLog();
    let last: Parameters<TurnSaver["put"]> | undefined;
    const put = log.saver.put.bind(log.saver);
    Object.assign(log.saver, {
      put: (...args: Parameters<TurnSaver["put"]>) => {
        last = args;
        return put(...args);
      },
    });
    await chain(log, ["a"]).invoke(INPUT, on());
    if (last === undefined) throw new Error("nothing was saved");
    const [config, checkpoint, metadata, versions] = last;
    // On a thread of its own: the run of the other one is over, and its lease with it.
    const fresh = { ...config, configurable: { thread_id: "fresh", checkpoint_ns: "" } };
    const again = put(fresh, { ...checkpoint, id: uuid6(7) }, { ...metadata, step: 9 }, versions);
    expect(log.count("SELECT count(*) FROM langgraph_snapshots WHERE step = 9")).toBe(0);
    log.saver.close();
    expect(log.count("SELECT count(*) FROM langgraph_snapshots WHERE step = 9")).toBe(1);
    await again;
  });

  test.each(["async", "sync", "exit"] as const)(
    "S7.1 the end of a run is told after its last commit (%s)",
    async (durability) => {
      const log = boundaryLog();
      await fan(log, 3).invoke(INPUT, on("t", durability));
      expect(log.log.at(-1)).toMatch(/run ends$/);
      const count = log.commits.length;
      await macrotasks(20);
      expect(log.commits).toHaveLength(count);
      expect((await log.saver.getTuple(on()))?.checkpoint.channel_values["log"]).toHaveLength(4);
    },
  );

  test("S7.1 events tell what is in the file", async () => {
    const log = boundaryLog();
    const early: string[] = [];
    let told = 0;
    log.saver.events.on("turn", ({ id, nodeName }) => {
      told += 1;
      if (log.count(`SELECT count(*) FROM langgraph_checkpoints WHERE id = '${id}'`) === 0) early.push(`turn of ${nodeName}`);
    });
    log.saver.events.on("checkpoint", ({ checkpointId, step }) => {
      told += 1;
      const found = log.count(`SELECT count(*) FROM langgraph_snapshots WHERE checkpoint_id = '${checkpointId}'`);
      if (found === 0) early.push(`checkpoint ${step}`);
    });
    await fan(log, 3).invoke(INPUT, on());
    expect(early).toEqual([]);
    expect(told).toBeGreaterThanOrEqual(12);
  });
});

describe("S7.2 the event loop", () => {
  test("S7.2 fake timers don't stop a run", async () => {
    const log = boundaryLog();
    const graph = fan(log, 3);
    jest.useFakeTimers();
    const result = await graph.invoke(INPUT, on());
    jest.useRealTimers();
    expect(result.log).toHaveLength(4);
    expect(log.missing).toEqual([]);
  });

  test("S7.2 fake timers don't stop a run that waits for somebody else's lock", async () => {
    const log = boundaryLog();
    const other = new Database(log.path);
    const lock = (): void => {
      other.exec("BEGIN IMMEDIATE");
      later(() => other.exec("COMMIT"), 40);
    };
    const graph = chain(log, ["a", "b"], { a: lock });
    jest.useFakeTimers();
    const result = await graph.invoke(INPUT, on());
    jest.useRealTimers();
    other.close();
    expect(result.log).toEqual(["a", "b"]);
    expect(log.missing).toEqual([]);
  });

  test("S7.2 a graph whose nodes never wait lets timers and others have their turn at every boundary", async () => {
    const log = boundaryLog();
    const loop = new StateGraph(State)
      .addNode("n", () => ({ log: ["n"] }))
      .addEdge(START, "n")
      .addConditionalEdges("n", (state) => (state.log.length < 60 ? "n" : END), ["n", END])
      .compile({ checkpointer: log.saver });
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) atEndOfMacrotask(turn);
    };
    turn();
    let fired = 0;
    const timer = setInterval(() => (fired += 1), 1);
    const result = await log.saver.attach(loop).invoke(INPUT, { ...on(), recursionLimit: 100 });
    isOver = true;
    clearInterval(timer);
    expect(result.log).toHaveLength(60);
    // On a busy machine a run lasts long enough for heartbeats: a timer's turn, which commits what is handed in by then.
    expect(turns).toBeGreaterThanOrEqual(60 - log.beats);
    expect(fired).toBeGreaterThan(5);
    expect(log.log.filter((line) => line.startsWith("A n ok*"))).toHaveLength(60);
  });
});
