import { Annotation, Command, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { effect } from "langgraph-checkpoint-turns";
import { attached, closeAll, Deeds, fresh, line, Log, type NodeBody, open, refusal, thread } from "../support/eff-world";

/** Which call of `effect()` is which deed: neither may a repetition be missed, nor an earlier result be taken for another deed. */
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const empty = { log: [] as string[] };
afterEach(closeAll);

/** The n-th result of a deed is `<deed>=<n>`, so that a result shows which deed it is of. */
function world() {
  const deeds = new Deeds();
  const act = (deed: string, options: object = {}): Promise<string> =>
    effect(
      "act",
      () => {
        deeds.do(deed);
        return `${deed}=${deeds.count(deed)}`;
      },
      options,
    );
  return { deeds, act, path: fresh() };
}

/** Throws once per name. */
function breaker() {
  const broken = new Set<string>();
  return (name: string): void => {
    if (broken.has(name)) return;
    broken.add(name);
    throw new Error(`broken ${name}`);
  };
}

/** A graph in which a node is visited `times` times. */
function loop(times: number, body: (visit: number) => unknown) {
  const Visits = Annotation.Root({ ...Log.spec, visit: Annotation<number>({ reducer: (_, next) => next, default: () => 0 }) });
  return new StateGraph(Visits)
    .addNode("s", async ({ visit }) => ({ visit: visit + 1, log: [String(await body(visit))] }))
    .addEdge(START, "s")
    .addConditionalEdges("s", ({ visit }) => (visit < times ? "s" : "__end__"));
}

function fanOut(items: readonly string[], body: (item: string) => Promise<string>) {
  return new StateGraph(Log)
    .addNode("split", () => ({}))
    .addNode("w", async ({ item }: { item: string }) => ({ log: [`${item}:${await body(item)}`] }))
    .addEdge(START, "split")
    .addConditionalEdges("split", () => items.map((item) => new Send("w", { item })), ["w"]);
}

const anew = { log: [], visit: 0 };
const kinds: [string, (input: unknown) => object][] = [
  ["with inputs", (input) => ({ input })],
  ["without inputs", () => ({})],
];

describe("graphs without checkpoints inside a node", () => {
  test.each(kinds)("its effects are not repeated when the node around it runs again (%s)", async (_, given) => {
    const { deeds, act, path } = world();
    const fail = breaker();
    const sub = line({ s: async () => ({ log: [await act("one", given(1)), await act("two", given(2))] }) }).compile({
      checkpointer: false,
    });
    const body = async () => {
      const { log } = await sub.invoke(empty);
      fail("n");
      return { log };
    };
    const graph = attached(open(path), line({ n: body }));
    await refusal(graph.invoke(empty, thread()));
    expect((await graph.invoke(null, thread())).log).toEqual(["one=1", "two=1"]);
    expect(deeds.lines()).toEqual(["one", "two"]);
  });

  test.each(kinds)("called three times in one node it does three side effects, and none of them again (%s)", async (_, given) => {
    const { deeds, act, path } = world();
    const fail = breaker();
    let call = 0;
    const sub = line({ s: async () => ({ log: [await act(`call ${call}`, given(call))] }) }).compile({ checkpointer: false });
    const body = async () => {
      const log: string[] = [];
      for (call = 0; call < 3; call += 1) {
        log.push(...(await sub.invoke(empty)).log);
        if (call === 1) fail("n");
      }
      fail("end");
      return { log };
    };
    const graph = attached(open(path), line({ n: body }));
    await refusal(graph.invoke(empty, thread()));
    await refusal(graph.invoke(null, thread()));
    expect((await graph.invoke(null, thread())).log).toEqual(["call 0=1", "call 1=1", "call 2=1"]);
    expect(deeds.lines()).toEqual(["call 0", "call 1", "call 2"]);
  });

  test.each(kinds)("a loop in it does one side effect per visit, and none of them again (%s)", async (_, given) => {
    const { deeds, act, path } = world();
    const fail = breaker();
    const sub = loop(4, async (visit) => {
      const result = await act(`visit ${visit}`, given(visit));
      if (visit === 2) fail("s");
      return result;
    }).compile({ checkpointer: false });
    const body = async () => {
      const { log } = await sub.invoke(anew);
      fail("n");
      return { log };
    };
    const graph = attached(open(path), line({ n: body }));
    await refusal(graph.invoke(empty, thread()));
    await refusal(graph.invoke(null, thread()));
    const visits = [0, 1, 2, 3];
    expect((await graph.invoke(null, thread())).log).toEqual(visits.map((visit) => `visit ${visit}=1`));
    expect(deeds.lines()).toEqual(visits.map((visit) => `visit ${visit}`));
  });

  test.each(kinds)(
    "what it sends out keeps each its own result, also if the others come first next time (%s)",
    async (_, given) => {
      const { deeds, act, path } = world();
      const fail = breaker();
      let delays: Record<string, number> = { a: 40, b: 20, c: 0 };
      const sub = fanOut(["a", "b", "c"], async (item) => {
        await pause(delays[item] ?? 0);
        return act(item, given(item));
      }).compile({ checkpointer: false });
      const body = async () => {
        const { log } = await sub.invoke(empty);
        fail("n");
        return { log };
      };
      const graph = attached(open(path), line({ n: body }));
      await refusal(graph.invoke(empty, thread()));
      expect(deeds.lines().toSorted()).toEqual(["a", "b", "c"]);
      delays = { a: 0, b: 20, c: 40 };
      expect((await graph.invoke(null, thread())).log).toEqual(["a:a=1", "b:b=1", "c:c=1"]);
      expect(deeds.lines()).toHaveLength(3);
    },
  );

  test.each(kinds)("of what it sends out, what had not begun is begun, no matter which comes first (%s)", async (_, given) => {
    const { deeds, act, path } = world();
    let only: string | undefined = "b";
    const sub = fanOut(["a", "b", "c"], async (item) => {
      if (only !== undefined && item !== only) {
        await pause(50);
        throw new Error("before its effect");
      }
      if (only === undefined && item === "b") await pause(30);
      return act(item, given(item));
    }).compile({ checkpointer: false });
    const graph = attached(open(path), line({ n: async () => sub.invoke(empty) }));
    await refusal(graph.invoke(empty, thread()));
    only = undefined;
    expect((await graph.invoke(null, thread())).log).toEqual(["a:a=1", "b:b=1", "c:c=1"]);
    expect(deeds.lines().toSorted()).toEqual(["a", "b", "c"]);
  });

  test("an input that has changed at the same place is refused", async () => {
    const { deeds, act, path } = world();
    const fail = breaker();
    let amount = 1;
    const sub = line({ s: async () => ({ log: [await act("pay", { input: amount })] }) }).compile({ checkpointer: false });
    const body = async () => {
      await sub.invoke(empty);
      fail("n");
      return {};
    };
    const graph = attached(open(path), line({ n: body }));
    await refusal(graph.invoke(empty, thread()));
    amount = 2;
    expect(await refusal(graph.invoke(null, thread()))).toMatchObject({ code: "EFFECT_CHANGED" });
    expect(deeds.lines()).toEqual(["pay"]);
  });

  test("another course is refused where nothing tells whether the side effect is the same, and continues once a person says so", async () => {
    const { deeds, act, path } = world();
    const fail = breaker();
    let first: "s" | "detour" = "s";
    const sub = new StateGraph(Log)
      .addNode("detour", () => ({}))
      .addNode("s", async () => ({ log: [await act("pay")] }))
      .addConditionalEdges(START, () => first, ["s", "detour"])
      .addEdge("detour", "s")
      .compile({ checkpointer: false });
    const saver = open(path);
    const body = async () => {
      const { log } = await sub.invoke(empty);
      fail("n");
      return { log };
    };
    const graph = attached(saver, line({ n: body }));
    await refusal(graph.invoke(empty, thread()));
    first = "detour";
    const error = await refusal(graph.invoke(null, thread()));
    expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(deeds.lines()).toEqual(["pay"]);
    await saver.effects.resolve(String(error.data?.["effectId"]), { outcome: "history" });
    expect((await graph.invoke(null, thread())).log).toEqual(["pay=2"]);
  });

  test("inside a subgraph that keeps checkpoints, each visit of the node around is its own", async () => {
    const { deeds, act, path } = world();
    const fail = breaker();
    let current = 0;
    const inner = line({ u: async () => ({ log: [await act(`visit ${current}`)] }) }).compile({ checkpointer: false });
    const kept = loop(3, async (visit) => {
      current = visit;
      if (visit === 1) fail("before");
      const { log } = await inner.invoke(empty);
      if (visit === 2) fail("after");
      return log[0];
    }).compile();
    const graph = attached(open(path), line({ n: kept as unknown as NodeBody }));
    await refusal(graph.invoke(empty, thread()));
    await refusal(graph.invoke(null, thread()));
    expect((await graph.invoke(null, thread())).log).toEqual(["visit 0=1", "visit 1=1", "visit 2=1"]);
    expect(deeds.lines()).toEqual(["visit 0", "visit 1", "visit 2"]);
  });
});

describe("graphs with checkpoints inside a node", () => {
  test("called twice, the second call does not take the first one's effects for its own", async () => {
    const { deeds, act, path } = world();
    const fail = breaker();
    let call = 0;
    const inner = async () => {
      if (call === 1) fail("s");
      return { log: [await act(`call ${call}`)] };
    };
    const sub = line({ s: inner }).compile();
    const body = async () => {
      const log: string[] = [];
      for (call = 0; call < 2; call += 1) log.push(...(await sub.invoke(empty)).log);
      fail("n");
      return { log };
    };
    const graph = attached(open(path), line({ n: body }));
    await refusal(graph.invoke(empty, thread()));
    await refusal(graph.invoke(null, thread()));
    expect((await graph.invoke(null, thread())).log).toEqual(["call 0=1", "call 1=1"]);
    expect(deeds.lines()).toEqual(["call 0", "call 1"]);
  });

  test("a loop in it that failed before a later visit's effect does that visit's side effect", async () => {
    const { deeds, act, path } = world();
    const fail = breaker();
    const sub = loop(3, async (visit) => {
      if (visit === 1) fail("s");
      const done = await act(`visit ${visit}`);
      if (visit === 2) fail("late");
      return done;
    }).compile();
    const graph = attached(open(path), line({ n: sub as unknown as NodeBody }));
    await refusal(graph.invoke(empty, thread()));
    await refusal(graph.invoke(null, thread()));
    expect((await graph.invoke(null, thread())).log).toEqual(["visit 0=1", "visit 1=1", "visit 2=1"]);
    expect(deeds.lines()).toEqual(["visit 0", "visit 1", "visit 2"]);
  });

  test("with a memory of its own (checkpointer: true) it does a side effect per turn of the conversation, and none twice", async () => {
    const { deeds, act, path } = world();
    const fail = breaker();
    let turn = 0;
    const inner = async () => {
      const done = await act(`turn ${turn}`);
      if (turn === 1) fail("s");
      return { log: [done] };
    };
    const sub = line({ s: inner }).compile({ checkpointer: true });
    const graph = attached(open(path), line({ sub: sub as unknown as NodeBody }));
    await graph.invoke(empty, thread());
    turn = 1;
    await refusal(graph.invoke(empty, thread()));
    expect(deeds.lines()).toEqual(["turn 0", "turn 1"]);
    await graph.invoke(null, thread());
    turn = 2;
    await graph.invoke(empty, thread());
    expect(deeds.lines()).toEqual(["turn 0", "turn 1", "turn 2"]);
  });

  const retryPolicy = { maxAttempts: 5, initialInterval: 1, jitter: false, retryOn: () => true, logWarning: false };

  test.each(["inherited", "false", "true"])(
    "in a node that is retried, a called graph (checkpointer: %s) repeats no side effect",
    async (kind) => {
      const { deeds, act, path } = world();
      const fail = breaker();
      const sub = loop(2, async (visit) => {
        const done = await act(`visit ${visit}`);
        if (visit === 1) fail("s");
        return done;
      }).compile(kind === "inherited" ? {} : { checkpointer: kind === "true" });
      const body = async () => {
        const { log } = await sub.invoke(anew);
        fail("n");
        return { log };
      };
      const graph = attached(open(path), line({ n: body }, { n: { retryPolicy } }));
      expect((await graph.invoke(empty, thread())).log).toEqual(["visit 0=1", "visit 1=1"]);
      expect(deeds.lines()).toEqual(["visit 0", "visit 1"]);
    },
  );

  test.each(["inherited", "true"])(
    "a subgraph that is a node (checkpointer: %s) and retried continues where it failed",
    async (kind) => {
      const { deeds, act, path } = world();
      const fail = breaker();
      const sub = loop(3, async (visit) => {
        const done = await act(`visit ${visit}`);
        if (visit === 1) fail("s");
        return done;
      }).compile(kind === "inherited" ? {} : { checkpointer: true });
      const graph = attached(open(path), line({ n: sub as unknown as NodeBody }, { n: { retryPolicy } }));
      expect((await graph.invoke(empty, thread())).log).toEqual(["visit 0=1", "visit 1=1", "visit 2=1"]);
      expect(deeds.lines()).toEqual(["visit 0", "visit 1", "visit 2"]);
    },
  );

  test.each(["checkpoints", "no checkpoints"])("a graph that a node runs on another thread, with %s", async (kind) => {
    const { deeds, act, path } = world();
    const fail = breaker();
    const saver = open(path);
    const sub = line({
      s1: async () => ({ log: [await act("there")] }),
      s2: async () => ({ log: [await act("there too")] }),
    }).compile({ checkpointer: kind === "checkpoints" ? saver : false });
    const body = async () => {
      const { log } = await sub.invoke(empty, thread("other"));
      fail("n");
      return { log };
    };
    const graph = attached(saver, line({ n: body }));
    await refusal(graph.invoke(empty, thread()));
    expect((await graph.invoke(null, thread())).log.slice(-2)).toEqual(["there=1", "there too=1"]);
    expect(deeds.lines()).toEqual(["there", "there too"]);
    await graph.invoke(empty, thread());
    expect(deeds.lines()).toHaveLength(4);
  });
});

describe("one node task or another", () => {
  test("each visit of a node, and each turn of a conversation, does its side effect", async () => {
    const { deeds, act, path } = world();
    const saver = open(path);
    const graph = saver.attach(loop(3, (visit) => act(`visit ${visit}`)).compile({ checkpointer: saver }));
    await graph.invoke(anew, thread());
    expect(deeds.lines()).toEqual(["visit 0", "visit 1", "visit 2"]);
    await graph.invoke(anew, thread());
    expect(deeds.lines()).toHaveLength(6);
  });

  test("a fork of an earlier checkpoint is another branch of history and does its own side effects; another thread as well", async () => {
    const { deeds, act, path } = world();
    const graph = attached(open(path), line({ a: async () => ({ log: [await act("a")] }) }));
    await graph.invoke(empty, thread());
    await graph.invoke(empty, thread("u"));
    expect(deeds.count("a")).toBe(2);
    const history = [];
    for await (const entry of graph.getStateHistory(thread())) history.push(entry);
    const before = history.find(({ next }) => next.includes("a"));
    expect((await graph.invoke(null, before?.config)).log).toEqual(["a=3"]);
  });

  const edited = async (given: (amount: number) => object, amounts: [number, number]) => {
    const { deeds, act, path } = world();
    const fail = breaker();
    let [amount] = amounts;
    const b = async () => {
      const done = await act("b", given(amount));
      fail("b");
      return { log: [done] };
    };
    const saver = open(path);
    const graph = attached(saver, line({ a: () => ({}), b }));
    await refusal(graph.invoke(empty, thread()));
    await graph.updateState(thread(), { log: ["edited"] }, "a");
    await graph.updateState(thread(), { log: ["twice"] }, "a");
    amount = amounts[1];
    const resume = () => graph.invoke(null, thread());
    return { saver, deeds, resume };
  };

  test("S4.4 a failed node whose state was repaired (updateState) does not repeat an effect of the same input", async () => {
    const { deeds, resume } = await edited((amount) => ({ input: amount }), [1, 1]);
    expect((await resume()).log).toEqual(["edited", "twice", "b=1"]);
    expect(deeds.lines()).toEqual(["b"]);
  });

  test("S4.4 after such a repair another input is another side effect", async () => {
    const { deeds, resume } = await edited((amount) => ({ input: amount }), [1, 2]);
    expect((await resume()).log).toEqual(["edited", "twice", "b=2"]);
    expect(deeds.lines()).toEqual(["b", "b"]);
  });

  test("S4.4 after such a repair an effect without input is refused: nobody knows whether it is the same side effect", async () => {
    const { saver, deeds, resume } = await edited(() => ({}), [1, 1]);
    const error = await refusal(resume());
    expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(deeds.lines()).toEqual(["b"]);
    await saver.effects.resolve(String(error.data?.["effectId"]), { outcome: "history" });
    expect((await resume()).log).toEqual(["edited", "twice", "b=2"]);
  });

  test("updateState after a node has finished leaves its effects alone: its next visit does its side effect", async () => {
    const { deeds, act, path } = world();
    const graph = attached(open(path), line({ a: async () => ({ log: [await act("a")] }) }));
    await graph.invoke(empty, thread());
    await graph.updateState(thread(), { log: ["edited"] }, "__start__");
    expect((await graph.invoke(null, thread())).log).toEqual(["a=1", "edited", "a=2"]);
    expect(deeds.lines()).toEqual(["a", "a"]);
  });

  test("a copied thread takes over what is done, in any order it is met, and does itself what failed", async () => {
    const { deeds, act, path } = world();
    let failing = true;
    let order = ["x", "y"];
    const saver = open(path);
    const a = async () => {
      const log = await Promise.all(order.map((item) => act(item, { input: { item, pad: "p".repeat(500) } })));
      const key = await effect("later", (given) => {
        if (failing) throw new Error("not yet");
        deeds.do("later");
        return given;
      });
      return { log: [...log, key] };
    };
    const graph = attached(saver, line({ a }));
    await refusal(graph.invoke(empty, thread()));
    await saver.copyThread("t", "copy");
    const copied = await saver.effects.list("copy");
    expect(copied.map(({ inherited, status }) => [inherited, status])).toEqual([
      [true, "done"],
      [true, "done"],
      [true, "failed"],
    ]);
    failing = false;
    order = ["y", "x"];
    const ofCopy = (await graph.invoke(null, thread("copy"))).log;
    const ofSource = (await graph.invoke(null, thread())).log;
    expect([ofCopy.slice(0, 2), ofSource.slice(0, 2)]).toEqual([
      ["y=1", "x=1"],
      ["y=1", "x=1"],
    ]);
    // Two threads that both want it are two deeds, and their receivers must not take them for one.
    expect(ofCopy[2]).not.toBe(ofSource[2]);
    expect(deeds.lines()).toEqual(["x", "y", "later", "later"]);
    expect((await saver.effects.list("copy")).map(({ inherited }) => inherited)).toEqual([true, true, false]);
  });
});

describe('durability "exit": what ran in a run that was lost', () => {
  const exit = (taskId?: string) => ({
    configurable: { thread_id: "t", ...(taskId === undefined ? {} : { task_id: taskId }) },
    durability: "exit" as const,
  });

  /** As a process that dies: nothing of what comes now gets into the file. */
  const dies = (saver: ReturnType<typeof open>): never => {
    saver.close();
    throw new Error("dies");
  };

  const looping = (saver: ReturnType<typeof open>, times: number, body: (visit: number) => unknown) =>
    saver.attach(loop(times, body).compile({ checkpointer: saver }));

  test("each visit and each turn does its side effect", async () => {
    const { deeds, act, path } = world();
    const graph = looping(open(path), 3, (visit) => act(`visit ${visit}`));
    await graph.invoke(anew, exit());
    await graph.invoke(anew, exit());
    expect(deeds.lines()).toHaveLength(6);
  });

  test.each(kinds)("the same task again takes up each effect where it was (%s)", async (_, given) => {
    const { deeds, act, path } = world();
    const run = (dying: boolean) => {
      const saver = open(path);
      const graph = looping(saver, 4, async (visit) => {
        const done = await act(`visit ${visit}`, given(visit));
        if (dying && visit === 2) dies(saver);
        return done;
      });
      return graph.invoke(anew, exit("T"));
    };
    await refusal(run(true));
    await refusal(run(true));
    expect((await run(false)).log).toEqual(["visit 0=1", "visit 1=1", "visit 2=1", "visit 3=1"]);
    expect(deeds.lines()).toHaveLength(4);
    // The run was saved: its effects are not taken for those of the next turn.
    expect((await run(false)).log.slice(-4)).toEqual(["visit 0=2", "visit 1=2", "visit 2=2", "visit 3=2"]);
  });

  test("another task is refused until a person says that it is another side effect", async () => {
    const { deeds, act, path } = world();
    const run = async (dying: boolean, options: object) => {
      const saver = open(path);
      const graph = attached(saver, line({ a: async () => ({ log: [await act("a")] }), b: () => (dying ? dies(saver) : {}) }));
      return {
        saver,
        result: (await graph.invoke(empty, options).catch((error: unknown) => error)) as { data?: { effectId: string } },
      };
    };
    await run(true, exit("one"));
    const { saver, result } = await run(false, exit("two"));
    expect(result).toMatchObject({ code: "EFFECT_IN_DOUBT", message: expect.stringContaining('task_id "one"') as string });
    expect(deeds.lines()).toEqual(["a"]);
    await saver.effects.resolve(String(result.data?.effectId), { outcome: "history" });
    await run(false, exit("two"));
    expect(deeds.lines()).toEqual(["a", "a"]);
  });

  test.each(["full", "off"] as const)('a new turn that names no task is refused too (turns: "%s")', async (turns) => {
    const { deeds, act, path } = world();
    const run = (dying: boolean) => {
      const saver = open(path, { turns });
      const graph = attached(saver, line({ a: async () => ({ log: [await act("a")] }), b: () => (dying ? dies(saver) : {}) }));
      return graph.invoke(empty, exit());
    };
    await refusal(run(true));
    expect(await refusal(run(false))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(deeds.lines()).toEqual(["a"]);
  });

  test.each(["exit", "async"] as const)(
    'what ran after an answer and was lost is not done again, resumed with "%s"',
    async (durability) => {
      const { deeds, act, path } = world();
      const run = async (dying: boolean, input: unknown, options: object) => {
        const saver = open(path);
        const nodes = {
          h: () => ({ log: [String(interrupt("?"))] }),
          c: async () => ({ log: [await act("c")] }),
          d: () => (dying ? dies(saver) : {}),
        };
        return (await attached(saver, line(nodes)).invoke(input as never, options)) as { log: string[] };
      };
      await run(false, empty, exit());
      const answer = new Command({ resume: "yes" });
      await refusal(run(true, answer, exit()));
      expect(deeds.lines()).toEqual(["c"]);
      expect((await run(false, answer, { ...thread(), durability })).log).toEqual(["yes", "c=1"]);
      expect(deeds.lines()).toEqual(["c"]);
    },
  );

  test("a run that fails is saved as it ends, and its resume finds its effects", async () => {
    const { deeds, act, path } = world();
    const fail = breaker();
    const b = async () => {
      const done = await act("b");
      fail("b");
      return { log: [done] };
    };
    const graph = attached(open(path), line({ a: async () => ({ log: [await act("a")] }), b }));
    await refusal(graph.invoke(empty, exit()));
    expect((await graph.invoke(null, exit())).log).toEqual(["a=1", "b=1"]);
    await graph.invoke(empty, exit());
    expect(deeds.lines()).toEqual(["a", "b", "a", "b"]);
  });

  test("subgraphs of a lost run", async () => {
    const { deeds, act, path } = world();
    const run = (dying: boolean) => {
      const saver = open(path);
      const s2 = async () => ({ log: [await act("s2"), dying ? dies(saver) : ""] });
      const sub = line({ s1: async () => ({ log: [await act("s1")] }), s2 }).compile();
      return attached(saver, line({ n: async () => sub.invoke(empty) })).invoke(empty, exit("T"));
    };
    await refusal(run(true));
    await run(false);
    expect(deeds.lines()).toEqual(["s1", "s2"]);
    await run(false);
    expect(deeds.lines()).toEqual(["s1", "s2", "s1", "s2"]);
  });
});
