import { internalsOf } from "../../src/testing-internal";
import { Annotation, Command, interrupt, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { effect, type TurnSaver } from "langgraph-checkpoint-turns";
import { expectSameInspiteOf, type Timed } from "./clock-world";
import { collect, quiet, thread, type Variant } from "../support/diff-harness";
import { DAY, HOUR, JumpyClock, SECOND } from "./jumpy-clock";
import { LONG } from "../support/lane";
import { laneTest, longTest } from "../support/lane-test";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

const clock = new JumpyClock();
const open = new Set<TurnSaver>();

afterEach(() => {
  clock.restore();
  for (const saver of open) saver.close();
  open.clear();
});

function saverOn(path: string, options: object = {}): TurnSaver {
  const saver = openSaver(path, { logger: quiet, ...options });
  open.add(saver);
  return saver;
}

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

type Body = (state: typeof State.State) => unknown;

/** One node behind the other; each adds its name to the log, or does what its body says. */
function line(saver: any, bodies: Record<string, Body | undefined>, options: object = {}): any {
  const builder: any = new StateGraph(State);
  let before: string = START;
  for (const [name, body] of Object.entries(bodies)) {
    builder.addNode(name, async (state: any) => (await body?.(state)) ?? { log: [name] });
    builder.addEdge(before, name);
    before = name;
  }
  const graph = builder.compile({ checkpointer: saver, ...options });
  return "attach" in saver ? saver.attach(graph) : graph;
}

const asking =
  (question: string): Body =>
  () => ({ log: [`${question} ${String(interrupt(question))}`] });
const answer = (resume: unknown) => new Command({ resume });
const logOf = async (graph: any, config: object = thread()): Promise<string[]> => (await graph.getState(config)).values.log;

describe("S6.3 the clock is set between processes", () => {
  test.each([-HOUR, -10 * SECOND, HOUR, -DAY])(
    "S6.3 what a run saved before the clock moved by %i ms is neither lost nor done again",
    async (moved) => {
      const path = tempFile();
      const done: string[] = [];
      let failing = "c";
      const world = () => {
        const saver = saverOn(path);
        const step =
          (name: string): Body =>
          async () => {
            await effect(`effect of ${name}`, () => void done.push(name));
            if (name === failing) throw new Error(`${name} failed`);
            return { log: [name] };
          };
        return { saver, graph: line(saver, { a: step("a"), b: step("b"), c: step("c"), d: step("d"), e: step("e") }) };
      };
      const first = world();
      await expect(first.graph.invoke({ log: [] }, thread())).rejects.toThrow("c failed");
      first.saver.close();
      clock.set(moved);
      failing = "e";
      const second = world();
      await expect(second.graph.invoke(null, thread())).rejects.toThrow("e failed");
      second.saver.close();
      clock.set(-moved);
      failing = "";
      const third = world();
      await third.graph.invoke(null, thread());
      expect(await logOf(third.graph)).toEqual(["a", "b", "c", "d", "e"]);
      expect(done).toEqual(["a", "b", "c", "d", "e"]);
      expect((await third.graph.getState(thread())).next).toEqual([]);
      expect(await third.saver.verify()).toMatchObject({ problems: [] });
    },
  );

  test("S6.3 answered questions stay answered after the clock went 10 s back between two invokes", async () => {
    const path = tempFile();
    const graphOn = () => line(saverOn(path), { first: asking("one?"), second: asking("two?"), end: undefined });
    await graphOn().invoke({ log: ["in"] }, thread());
    clock.set(-10 * SECOND);
    await graphOn().invoke(answer("1"), thread());
    clock.set(-20 * SECOND);
    await graphOn().invoke(answer("2"), thread());
    expect(await logOf(graphOn())).toEqual(["in", "one? 1", "two? 2", "end"]);
  });

  test("S6.3 one save by a clock that was a day ahead hides nothing that is saved in the day behind it", async () => {
    const graph = line(saverOn(tempFile()), { node: undefined });
    clock.set(DAY);
    await graph.invoke({ log: ["ahead"] }, thread());
    clock.set(0);
    for (const text of ["one", "two"]) await graph.invoke({ log: [text] }, thread());
    expect(await logOf(graph)).toEqual(["ahead", "node", "one", "node", "two", "node"]);
    const history: any[] = await collect(graph.getStateHistory(thread()));
    expect(history.map(({ metadata }) => metadata.step)).toEqual([7, 6, 5, 4, 3, 2, 1, 0, -1]);
  });
});

const nested = (lab: any, body: (name: string) => Body, options: object = {}) => {
  const inner: any = new StateGraph(State)
    .addNode("s1", body("s1") as any)
    .addNode("s2", body("s2") as any)
    .addEdge(START, "s1")
    .addEdge("s1", "s2");
  const outer = new StateGraph(State)
    .addNode("a", body("a") as any)
    .addNode("sub", inner.compile(options))
    .addNode("z", body("z") as any)
    .addEdge(START, "a")
    .addEdge("a", "sub")
    .addEdge("sub", "z");
  return lab.compile(outer);
};

describe("S6.3 no matter what the clock does, a graph behaves as on MemorySaver with a clock that's right", () => {
  const offsets = [0, -HOUR, 10 * SECOND, -DAY, DAY, -10 * SECOND];
  let scenarios = 0;
  /** In the short lane every other scenario runs attached, and the rest unattached. */
  const same = (title: string, scenario: Timed) => {
    const variants: readonly Variant[] = LONG ? ["turns", "attached"] : [scenarios++ % 2 === 0 ? "attached" : "turns"];
    laneTest(`S6.3 ${title}`, () => expectSameInspiteOf({ offsets, variants }, scenario));
  };

  same("between supersteps of one run", async (lab, { around, jump }) => {
    const step = (name: string) => around(() => ({ log: [name] }));
    const graph = line(lab.saver, { a: step("a"), b: step("b"), c: step("c"), d: step("d") });
    for (const text of ["one", "two"]) {
      await lab.run(graph, { log: [text] });
      jump();
    }
  });

  for (const [kind, options] of [
    ["a subgraph", {}],
    ["a subgraph with checkpointer: true", { checkpointer: true }],
  ] as const) {
    same(`in ${kind}, with questions`, async (lab, { around, jump }) => {
      const step = (name: string) =>
        around(() => (name === "s2" ? { log: [`${name} ${String(interrupt(name))}`] } : { log: [name] }));
      const graph = nested(lab, step, options);
      for (const text of ["one", "two"]) {
        await lab.run(graph, { log: [text] });
        jump();
        await lab.run(graph, answer(`re ${text}`));
        jump();
      }
    });

    same(`time travel into ${kind}: replay, fork, edit`, async (lab, { around, jump }) => {
      const graph = nested(lab, (name: string) => around(() => ({ log: [name] })), options);
      for (const text of ["one", "two"]) {
        await lab.run(graph, { log: [text] });
        jump();
      }
      for (const node of ["sub", "z", "a"]) {
        const at = await lab.before(graph, node);
        jump();
        await lab.run(graph, null, at);
        jump();
        const edited = await graph.updateState(at, { log: [`edit before ${node}`] });
        jump();
        await lab.run(graph, null, edited);
        jump();
        await lab.run(graph, { log: [`other at ${node}`] }, at);
        jump();
      }
    });

    for (const durability of ["sync", "exit"] as const) {
      same(`in ${kind}, durability ${durability}, replayed from before a question`, async (lab, { around, jump }) => {
        const step = (name: string) =>
          around(() => (name === "s2" ? { log: [`${name} ${String(interrupt(name))}`] } : { log: [name] }));
        const graph = nested(lab, step, options);
        const config = { ...thread(), durability };
        for (const text of ["one", "two"]) {
          await lab.run(graph, { log: [text] }, config);
          jump();
          const [head] = await lab.history(graph);
          await lab.run(graph, answer(`re ${text}`), config);
          jump();
          const { checkpoint_id } = head.config.configurable;
          await lab.run(graph, null, { ...thread("t", { checkpoint_ns: "", checkpoint_id }), durability });
          jump();
          await lab.run(graph, answer(`again ${text}`), config);
          jump();
        }
      });
    }
  }

  same("updateState and bulkUpdateState at the head", async (lab, { jump }) => {
    const graph = line(lab.saver, { a: undefined, b: undefined, c: undefined }, { interruptBefore: ["b", "c"] });
    await lab.run(graph, { log: ["in"] });
    jump();
    await graph.updateState(thread(), { log: ["edit"] }, "a");
    jump();
    await lab.look(graph);
    await graph.bulkUpdateState(thread(), [
      { updates: [{ values: { log: ["b by hand"] }, asNode: "b" }] },
      { updates: [{ values: { log: ["c by hand"] }, asNode: "c" }] },
    ]);
    jump();
    await lab.look(graph);
    await lab.run(graph, null);
  });
});

/** Three turns, the first by a clock a day ahead, the second by one that's right, the third by one an hour behind. */
async function threeTurns(saver: TurnSaver, id = "t"): Promise<any> {
  const graph = line(saver, { a: undefined, b: undefined });
  for (const [text, offset] of [
    ["one", DAY],
    ["two", 0],
    ["three", -HOUR],
  ] as const) {
    clock.set(offset);
    await graph.invoke({ log: [text] }, thread(id, { task_id: text }));
  }
  return graph;
}
const ALL = ["one", "a", "b", "two", "a", "b", "three", "a", "b"];
const stepsOf = (found: any[]): number[] => found.map(({ metadata }) => metadata.step);

describe("S6.3 what the saver itself does goes by the order of saving", () => {
  test("S6.3 list goes by it on one thread, on all threads, page by page and before a checkpoint", async () => {
    const saver = saverOn(tempFile());
    await threeTurns(saver);
    const all: any[] = await collect(saver.list(thread()));
    expect(stepsOf(all)).toEqual([10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1].slice(0, all.length));
    for (const [index, tuple] of all.entries()) {
      const before: any[] = await collect(saver.list(thread(), { before: tuple.config }));
      expect(stepsOf(before)).toEqual(stepsOf(all.slice(index + 1)));
    }
    await line(saver, { a: undefined, b: undefined }).invoke({ log: ["other"] }, thread("u"));
    const everywhere: any[] = await collect(saver.list({}));
    expect(everywhere.map(({ config }) => config.configurable.thread_id).slice(0, 4)).toEqual(["u", "u", "u", "u"]);
    expect(stepsOf(everywhere.slice(4))).toEqual(stepsOf(all));
  });

  test("S6.3 a rewind, and taking it back", async () => {
    const saver = saverOn(tempFile());
    const graph = await threeTurns(saver);
    const { rewindId } = (await saver.rewind({ threadId: "t", toTask: "two" })) as any;
    expect(await logOf(graph)).toEqual(ALL.slice(0, 6));
    await saver.rewinds.takeBack(rewindId);
    expect(await logOf(graph)).toEqual(ALL);
    await saver.rewind({ threadId: "t", toTask: "one" });
    clock.set(-DAY);
    await graph.invoke({ log: ["four"] }, thread());
    expect(await logOf(graph)).toEqual(["one", "a", "b", "four", "a", "b"]);
    expect(await saver.verify()).toMatchObject({ problems: [] });
  });

  test("S6.3 pruning keeps the newest checkpoints", async () => {
    const saver = saverOn(tempFile());
    const graph = await threeTurns(saver);
    await saver.prune({ threadId: "t", keepLast: 2 });
    expect(await logOf(graph)).toEqual(ALL);
    const history: any[] = await collect(graph.getStateHistory(thread()));
    expect(history.map(({ values }) => values.log)).toEqual([ALL, ALL.slice(0, 8)]);
    expect(await saver.verify()).toMatchObject({ problems: [] });
  });

  test("S6.3 pruning by age takes no checkpoint that was saved after one that stays", async () => {
    const saver = saverOn(tempFile());
    const graph = await threeTurns(saver);
    clock.set(0);
    await saver.prune({ threadId: "t", maxAgeMs: HOUR / 2 });
    const history: any[] = await collect(graph.getStateHistory(thread()));
    expect(history.map(({ values }) => values.log).at(0)).toEqual(ALL);
    expect(history).toHaveLength(12);
  });

  test("S6.3 a copy has the same head and the same history", async () => {
    const saver = saverOn(tempFile());
    const graph = await threeTurns(saver);
    await saver.copyThread("t", "copy");
    expect(await logOf(graph, thread("copy"))).toEqual(ALL);
    const [mine, its] = [await collect(graph.getStateHistory(thread())), await collect(graph.getStateHistory(thread("copy")))];
    expect(stepsOf(its as any)).toEqual(stepsOf(mine as any));
    clock.set(-DAY);
    await graph.invoke({ log: ["more"] }, thread("copy"));
    expect((await logOf(graph, thread("copy"))).slice(-3)).toEqual(["more", "a", "b"]);
    expect(await saver.verify()).toMatchObject({ problems: [] });
  });

  test("S6.3 a name without a checkpoint's id is given to the newest one", async () => {
    const saver = saverOn(tempFile());
    const graph = await threeTurns(saver);
    await saver.names.set({ threadId: "t" }, "here");
    const head: any = await graph.getState(thread());
    expect(head.values.log).toEqual(ALL);
    expect((await saver.names.list("t")) as any).toMatchObject([{ checkpointId: head.config.configurable.checkpoint_id }]);
  });

  test("S6.3 what is in flight is seen at the newest checkpoint", async () => {
    const path = tempFile();
    const saver = saverOn(path);
    clock.set(DAY);
    const graph = line(saver, {
      a: undefined,
      b: () => {
        throw new Error("b failed");
      },
    });
    await expect(graph.invoke({ log: ["one"] }, thread())).rejects.toThrow("b failed");
    clock.set(0);
    const inFlight: string[] = [];
    const fixed = line(saver, {
      a: async () => void inFlight.push(...(await saver.turns.inFlight("t")).map(({ nodeName }) => nodeName)),
      b: async () => void inFlight.push(...(await saver.turns.inFlight("t")).map(({ nodeName }) => nodeName)),
    });
    await fixed.invoke({ log: ["two"] }, thread());
    expect(inFlight).toEqual(["a", "b"]);
    expect(await saver.turns.inFlight("t")).toEqual([]);
  });
});

describe("S6.3 a deleted thread is told from a new one of its id, no matter what the clock says", () => {
  const deepGraph = (saver: any, body: Body) => {
    const inner = new StateGraph(State)
      .addNode("s", body as any)
      .addEdge(START, "s")
      .compile();
    const graph: any = new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").compile({ checkpointer: saver });
    return graph;
  };

  test.each(["sync", "exit"] as const)("S6.3 a new run is taken after the clock went back, durability %s", async (durability) => {
    const saver = saverOn(tempFile());
    for (const attach of [false, true]) {
      const graph = deepGraph(saver, () => ({ log: ["s"] }));
      if (attach) saver.attach(graph);
      clock.set(0);
      await graph.invoke({ log: ["old"] }, { ...thread(), durability });
      await saver.deleteThread("t");
      clock.set(-HOUR);
      await graph.invoke({ log: ["new"] }, { ...thread(), durability });
      expect((await logOf(graph)).at(0)).toBe("new");
    }
  });

  test.each(["sync", "exit"] as const)(
    "S6.3 late saves of a run from before are refused, though its clock was ahead, durability %s",
    async (durability) => {
      const saver = saverOn(tempFile());
      for (const attach of [false, true]) {
        clock.set(DAY);
        const graph = deepGraph(saver, async () => {
          clock.set(0);
          await saver.deleteThread("t");
          clock.set(DAY);
          return { log: ["late"] };
        });
        if (attach) saver.attach(graph);
        await expect(graph.invoke({ log: ["old"] }, { ...thread(), durability })).rejects.toThrow(/deleted/);
        expect(await saver.getTuple(thread())).toBeUndefined();
      }
    },
  );

  test("S6.3 a save by hand that continues from a deleted checkpoint is refused, though its id is of tomorrow", async () => {
    const saver = saverOn(tempFile());
    clock.set(DAY);
    const graph = line(saver, { a: undefined });
    await graph.invoke({ log: ["old"] }, thread());
    const head: any = await saver.getTuple(thread());
    clock.set(0);
    await saver.deleteThread("t");
    await expect(saver.putWrites(head.config, [["log", ["late"]]], "task")).rejects.toMatchObject({ code: "THREAD_DELETED" });
    const { checkpoint, metadata, config } = head;
    const next = { ...checkpoint, id: checkpoint.id.replace(/^./, "2") };
    await expect(saver.put(config, next, metadata, {})).rejects.toMatchObject({ code: "THREAD_DELETED" });
    expect(await saver.getTuple(thread())).toBeUndefined();
  });
});

describe("S6.3 before a checkpoint", () => {
  test("S6.3 an id that the thread doesn't know is compared as LangGraph's contract says: as text", async () => {
    const [ours, theirs] = [saverOn(":memory:"), new MemorySaver()];
    for (const saver of [ours, theirs]) await line(saver, { a: undefined, b: undefined }).invoke({ log: ["in"] }, thread());
    for (const saver of [ours, theirs]) {
      const at = (checkpoint_id: string) => ({ before: { configurable: { checkpoint_id } } });
      expect(await collect(saver.list(thread(), at("ffffffff-ffff-6fff-bfff-ffffffffffff")))).toHaveLength(4);
      expect(await collect(saver.list(thread(), at("00000000-0000-6000-8000-000000000000")))).toHaveLength(0);
    }
  });
});

describe("S6.3 whether a run is still running is not asked of the wall clock", () => {
  const elsewhere = (path: string): void => {
    const db = new Database(path);
    db.exec("UPDATE langgraph_runs SET host = 'elsewhere'");
    db.close();
  };

  test.each([-DAY, -HOUR, HOUR, DAY])("S6.3 a clock moved by %i ms takes no thread from a run that lives", async (moved) => {
    for (const host of ["here", "elsewhere"]) {
      const path = tempFile();
      const owner = saverOn(path);
      const other = saverOn(path);
      const giveBack = await internalsOf(owner).reserve("t");
      if (host === "elsewhere") elsewhere(path);
      clock.set(moved);
      expect(await other.turns.isRunning("t")).toBe(true);
      await expect(internalsOf(other).reserve("t")).rejects.toMatchObject({ code: "THREAD_RUNNING" });
      clock.set(0);
      await giveBack();
    }
  });

  test.each([-DAY, DAY])("S6.3 a clock moved by %i ms keeps nobody from a thread whose owner is dead", async (moved) => {
    const path = tempFile();
    const owner = saverOn(path);
    await internalsOf(owner).reserve("t");
    const db = new Database(path);
    db.exec("UPDATE langgraph_runs SET host = 'elsewhere', beat_at = beat_at - 31000");
    db.close();
    const other = saverOn(path);
    clock.set(moved);
    const giveBack = await internalsOf(other).reserve("t");
    clock.set(0);
    await giveBack();
  });

  longTest(
    "S6.3 a run that is quiet for a moment stays the owner while the clock jumps, and its heartbeats continue",
    async () => {
      const path = tempFile();
      const saver = saverOn(path);
      const beats = (): number[] => {
        const db = new Database(path, { readonly: true });
        const all = db.prepare("SELECT beat_at FROM langgraph_runs").pluck().all() as number[];
        db.close();
        return all;
      };
      let open: () => void = () => undefined;
      const gate = new Promise<void>((resolve) => (open = resolve));
      const graph = line(saver, {
        a: async () => {
          await gate;
        },
      });
      const run = graph.invoke({ log: [] }, thread());
      while (beats().length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      const [first] = beats();
      clock.set(-DAY);
      // A beat comes every five seconds.
      for (let waited = 0; beats()[0] === first && waited < 20_000; waited += 100)
        await new Promise((resolve) => setTimeout(resolve, 100));
      expect(beats()[0]).toBeGreaterThan(first as number);
      clock.set(DAY);
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      expect(beats()).toHaveLength(1);
      open();
      await run;
      expect(beats()).toEqual([]);
    },
  );
});
