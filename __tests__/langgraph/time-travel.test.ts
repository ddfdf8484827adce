import { Annotation, Command, END, interrupt, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { collect, expectSame, type Lab, type Scenario, thread, type Variant } from "../support/diff-harness";
import { anyEngine, type Engine } from "../support/engines";
import { points, WHOLE } from "../support/lane";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const logs = (name: string) => () => ({ log: [name] });
const asks = (name: string) => () => ({ log: [`${name}:${interrupt({ from: name })}`] });

/** A chain of nodes; what has no body of its own logs its name. */
function chain(names: readonly string[], bodies: Record<string, any> = {}): any {
  const builder: any = new StateGraph(State);
  for (const name of names) builder.addNode(name, bodies[name] ?? logs(name));
  for (const [index, name] of names.entries()) builder.addEdge(index === 0 ? START : names[index - 1], name);
  return builder;
}

/** The config of a checkpoint as `getState` gives it, `checkpoint_map` included. */
type At = (lab: Lab, graph: any) => Promise<any>;

/** The newest checkpoint of the thread's history that is about to run these nodes. */
const rootBefore =
  (node: string, nth = 0): At =>
  async (lab, graph) =>
    (await lab.history(graph)).filter((state) => state.next.includes(node)).at(nth).config;

/**
 * The newest checkpoint of a subgraph, or the one that is about to run this node: a config as `getState` gives it. Taken from the saver,
 * because LangGraph before 1.5 doesn't show the states of a graph with `checkpointer: true` that isn't asking.
 */
const within =
  (path: string, node?: string): At =>
  async (lab) => {
    const tuples = await collect(lab.saver.list(thread()));
    const found = tuples.find(({ config, checkpoint }) => {
      const isThere = config.configurable?.["checkpoint_ns"].replaceAll(/:[^|]*/g, "") === path;
      return isThere && (node === undefined || Object.hasOwn(checkpoint.channel_values, `branch:to:${node}`));
    });
    const { checkpoint_ns, checkpoint_id } = found?.config.configurable ?? {};
    const checkpoint_map = { ...found?.metadata?.parents, [checkpoint_ns]: checkpoint_id };
    return thread("t", { checkpoint_ns, checkpoint_id, checkpoint_map });
  };

const kinds = [
  ["default", {}],
  ["checkpointer: true", { checkpointer: true }],
] as const;

let scenarios = 0;

/**
 * One mode shows all streams of all graphs; what `invoke` returns is the last of them. In the short lane and in CI every other scenario runs
 * attached, and the rest unattached.
 */
function same(title: string, scenario: Scenario): void {
  const variants: readonly Variant[] = WHOLE ? ["turns", "attached"] : [scenarios++ % 2 === 0 ? "attached" : "turns"];
  test(`S6.5 ${title}`, async () => {
    await expectSame("stream with subgraphs", scenario, variants);
  });
}

const root = (lab: Lab, sub: any): any => lab.compile(chain(["a", "sub", "z"], { sub }));
const answer = (text: string): Command => new Command({ resume: text });

describe("S6.5 replays of the root graph", () => {
  const asking = (lab: Lab): any => lab.compile(chain(["a", "h", "z"], { h: asks("h") }));

  same("from before an interrupt: it asks again", async (lab) => {
    const graph = asking(lab);
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, answer("1"));
    await lab.run(graph, null, await rootBefore("a")(lab, graph));
    await lab.run(graph, answer("2"));
  });

  same("from the interrupt itself: it asks again", async (lab) => {
    const graph = asking(lab);
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, answer("1"));
    await lab.run(graph, null, await rootBefore("h")(lab, graph));
    await lab.run(graph, answer("2"));
  });

  same("from after an interrupt: nothing asks", async (lab) => {
    const graph = asking(lab);
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, answer("1"));
    await lab.run(graph, null, await rootBefore("z")(lab, graph));
  });

  same("with an answer, from the interrupt", async (lab) => {
    const graph = asking(lab);
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, answer("1"));
    await lab.run(graph, answer("2"), await rootBefore("h")(lab, graph));
  });

  same("while the interrupt is pending, by the head's own id", async (lab) => {
    const graph = asking(lab);
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, null, await rootBefore("h")(lab, graph));
    await lab.run(graph, answer("1"));
  });

  same("from between two interrupts of two nodes", async (lab) => {
    const graph = lab.compile(chain(["a", "h", "i", "z"], { h: asks("h"), i: asks("i") }));
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, answer("1"));
    await lab.run(graph, answer("2"));
    await lab.run(graph, null, await rootBefore("i")(lab, graph));
    await lab.run(graph, answer("3"));
    await lab.run(graph, null, await rootBefore("h")(lab, graph));
    await lab.run(graph, answer("4"));
    await lab.run(graph, answer("5"));
  });

  same("of a node that asks twice", async (lab) => {
    const graph = lab.compile(chain(["h", "z"], { h: () => ({ log: [interrupt("first"), interrupt("second")] }) }));
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, answer("1"));
    await lab.run(graph, null, await rootBefore("h")(lab, graph));
    await lab.run(graph, answer("2"));
    await lab.run(graph, answer("3"));
  });

  same("of a fork by updateState, before and at the interrupt", async (lab) => {
    const graph = asking(lab);
    await lab.run(graph, { log: ["in"] });
    await lab.run(graph, answer("1"));
    await lab.run(graph, null, await graph.updateState(await rootBefore("h")(lab, graph), { log: ["fork"] }));
    await lab.run(graph, answer("2"));
    await lab.run(graph, null, await graph.updateState(await rootBefore("a")(lab, graph), { log: ["fork"] }));
    await lab.run(graph, answer("3"));
  });

  same("of an interrupt in a loop, first and later rounds", async (lab) => {
    const builder = new StateGraph(State)
      .addNode("h", asks("h"))
      .addNode("more", logs("more"))
      .addEdge(START, "h")
      .addEdge("h", "more")
      .addConditionalEdges("more", ({ log }) => (log.length < 6 ? "h" : END), ["h", END]);
    const graph = lab.compile(builder);
    await lab.run(graph, { log: ["in"] });
    for (const text of ["1", "2", "3"]) await lab.run(graph, answer(text));
    await lab.run(graph, null, await rootBefore("h", 0)(lab, graph));
    await lab.run(graph, answer("4"));
    await lab.run(graph, null, await rootBefore("h", -1)(lab, graph));
    await lab.run(graph, answer("5"));
    await lab.run(graph, answer("6"));
  });
});

describe.each(kinds)("S6.5 time travel with a subgraph (%s)", (_kind, options) => {
  const oneQuestion = (): any => chain(["s1", "s2", "s3"], { s2: asks("s2") }).compile(options);
  const twoQuestions = (): any => chain(["s1", "s2", "s3", "s4"], { s2: asks("s2"), s4: asks("s4") }).compile(options);

  const starts: [string, At][] = [
    ["the root's checkpoint before the subgraph", rootBefore("sub")],
    ["the root's first checkpoint", rootBefore("a")],
  ];
  describe.each(points(starts, 1))("%s", (_name, at) => {
    same("replay after the end, answered again", async (lab) => {
      const graph = root(lab, oneQuestion());
      await lab.run(graph, { log: ["in"] });
      await lab.run(graph, answer("1"));
      await lab.run(graph, null, await at(lab, graph));
      await lab.run(graph, answer("2"));
    });

    same("replay while it asks", async (lab) => {
      const graph = root(lab, oneQuestion());
      await lab.run(graph, { log: ["in"] });
      await lab.run(graph, null, await at(lab, graph));
      await lab.run(graph, answer("1"));
    });

    same("replay of two questions: after both, then after the first", async (lab) => {
      const graph = root(lab, twoQuestions());
      await lab.run(graph, { log: ["in"] });
      await lab.run(graph, answer("1"));
      await lab.run(graph, answer("2"));
      await lab.run(graph, null, await at(lab, graph));
      await lab.run(graph, answer("3"));
      await lab.run(graph, null, await at(lab, graph));
      await lab.run(graph, answer("4"));
      await lab.run(graph, answer("5"));
    });

    same("fork by updateState", async (lab) => {
      const graph = root(lab, oneQuestion());
      await lab.run(graph, { log: ["in"] });
      await lab.run(graph, answer("1"));
      await lab.run(graph, null, await graph.updateState(await at(lab, graph), { log: ["fork"] }));
      await lab.run(graph, answer("2"));
    });

    same("replay of an earlier turn, after another turn", async (lab) => {
      const graph = root(lab, oneQuestion());
      await lab.run(graph, { log: ["in"] });
      await lab.run(graph, answer("1"));
      const earlier = await at(lab, graph);
      await lab.run(graph, { log: ["in 2"] });
      await lab.run(graph, answer("2"));
      await lab.run(graph, null, earlier);
      await lab.run(graph, answer("3"));
      await lab.run(graph, { log: ["in 3"] });
      await lab.run(graph, answer("4"));
    });

    same("new input there", async (lab) => {
      const graph = root(lab, oneQuestion());
      await lab.run(graph, { log: ["in"] });
      await lab.run(graph, answer("1"));
      await lab.run(graph, { log: ["instead"] }, await at(lab, graph));
      await lab.run(graph, answer("2"));
    });
  });

  describe("the subgraph's own checkpoint", () => {
    const places: [string, At][] = [
      ["where it asks", within("sub")],
      ["before its first node", within("sub", "s1")],
      ["before its second node", within("sub", "s2")],
    ];
    describe.each(points(places, 1))("%s", (_name, at) => {
      same("replay while it asks, answered then", async (lab) => {
        const graph = root(lab, oneQuestion());
        await lab.run(graph, { log: ["in"] });
        await lab.run(graph, null, await at(lab, graph));
        await lab.run(graph, answer("1"));
      });

      same("replay after the end, answered again", async (lab) => {
        const graph = root(lab, oneQuestion());
        await lab.run(graph, { log: ["in"] });
        const place = await at(lab, graph);
        await lab.run(graph, answer("1"));
        await lab.run(graph, null, place);
        await lab.run(graph, answer("2"));
      });

      same("replay at the second question, at which the first is answered", async (lab) => {
        const graph = root(lab, twoQuestions());
        await lab.run(graph, { log: ["in"] });
        await lab.run(graph, answer("1"));
        await lab.run(graph, null, await at(lab, graph));
        await lab.run(graph, answer("2"));
        await lab.run(graph, answer("3"));
      });

      same("an answer given there, after the end", async (lab) => {
        const graph = root(lab, oneQuestion());
        await lab.run(graph, { log: ["in"] });
        const place = await at(lab, graph);
        await lab.run(graph, answer("1"));
        await lab.withoutOldResults().run(graph, answer("2"), place);
      });

      same("fork by updateState on it", async (lab) => {
        const graph = root(lab, oneQuestion());
        await lab.run(graph, { log: ["in"] });
        const place = await at(lab, graph);
        await lab.run(graph, null, await graph.updateState(place, { log: ["fork"] }));
        await lab.run(graph, answer("1"));
      });

      same("fork by updateState on it, after the end", async (lab) => {
        const graph = root(lab, oneQuestion());
        await lab.run(graph, { log: ["in"] });
        const place = await at(lab, graph);
        await lab.run(graph, answer("1"));
        await lab.run(graph, null, await graph.updateState(place, { log: ["fork"] }));
        await lab.run(graph, answer("2"));
      });

      same("replay of an earlier turn, after another turn", async (lab) => {
        const graph = root(lab, oneQuestion());
        await lab.run(graph, { log: ["in"] });
        const place = await at(lab, graph);
        await lab.run(graph, answer("1"));
        await lab.run(graph, { log: ["in 2"] });
        await lab.run(graph, answer("2"));
        await lab.run(graph, null, place);
        await lab.run(graph, answer("3"));
      });
    });
  });

  same("a subgraph without questions, over three turns, replayed from each", async (lab) => {
    const graph = root(lab, chain(["s1", "s2"]).compile(options));
    for (const input of ["1", "2", "3"]) await lab.run(graph, { log: [input] });
    for (const nth of [0, 1, 3]) await lab.run(graph, null, await rootBefore("sub", nth)(lab, graph));
  });

  same("a subgraph that is visited twice in a loop", async (lab) => {
    const builder = new StateGraph(State)
      .addNode("sub", chain(["s1", "s2"], { s2: asks("s2") }).compile(options))
      .addNode("more", logs("more"))
      .addEdge(START, "sub")
      .addEdge("sub", "more")
      .addConditionalEdges("more", ({ log }) => (log.filter((name) => name === "more").length < 2 ? "sub" : END), ["sub", END]);
    const graph = lab.compile(builder);
    await lab.run(graph, { log: ["in"] });
    const place = await within("sub")(lab, graph);
    await lab.run(graph, answer("1"));
    await lab.run(graph, answer("2"));
    await lab.run(graph, null, await rootBefore("sub", 0)(lab, graph));
    await lab.run(graph, answer("3"));
    await lab.run(graph, null, await rootBefore("sub", -1)(lab, graph));
    await lab.run(graph, answer("4"));
    await lab.run(graph, null, place);
    await lab.run(graph, answer("5"));
  });

  const inner = WHOLE ? kinds : kinds.filter(([, one]) => one === options);
  describe.each(inner)("inside another one (%s)", (_inner, innerOptions) => {
    describe.each(points(["inner", "m1", "m2"], 1))("that asks behind it, replayed before %s", (node) => {
      same("while it asks, and after the end", async (lab) => {
        const inner = chain(["q1", "q2"]).compile(innerOptions);
        const middle = chain(["m1", "inner", "m2"], { inner, m2: asks("m2") }).compile(options);
        const graph = root(lab, middle);
        await lab.run(graph, { log: ["in"] });
        const place = await within("sub", node)(lab, graph);
        await lab.run(graph, null, place);
        await lab.run(graph, answer("1"));
        await lab.run(graph, null, place);
        await lab.run(graph, answer("2"));
      });
    });

    const two = (): any => {
      const inner = chain(["q1", "q2", "q3"], { q2: asks("q2") }).compile(innerOptions);
      return chain(["m1", "inner", "m2"], { inner }).compile(options);
    };
    const places: [string, At][] = [
      ["the root's", rootBefore("sub")],
      ["the middle one's", within("sub")],
      ["the innermost one's", within("sub|inner")],
      ["the innermost one's first", within("sub|inner", "q1")],
    ];
    describe.each(points(places, 2))("from %s checkpoint", (_name, at) => {
      same("replay while it asks, and after the end", async (lab) => {
        const graph = root(lab, two());
        await lab.run(graph, { log: ["in"] });
        const place = await at(lab, graph);
        await lab.run(graph, null, place);
        await lab.run(graph, answer("1"));
        await lab.run(graph, null, place);
        await lab.run(graph, answer("2"));
      });

      same("fork by updateState", async (lab) => {
        const graph = root(lab, two());
        await lab.run(graph, { log: ["in"] });
        const place = await at(lab, graph);
        await lab.run(graph, answer("1"));
        await lab.run(graph, null, await graph.updateState(place, { log: ["fork"] }));
        await lab.run(graph, answer("2"));
      });
    });
  });
});

describe("S6.5 a graph with checkpointer: true that saves sooner than the graph around it", () => {
  const turn = ["a", "b", "sub", "z"];

  /** As with a slow serializer, or a lock that somebody else holds: nodes run on meanwhile. */
  function slowRoot(lab: Lab): any {
    const { saver } = lab;
    const put = saver.put.bind(saver);
    saver.put = async (config, ...rest) => {
      const isOfRoot = config.configurable?.["checkpoint_ns"] === "";
      for (let turns = isOfRoot ? 25 : 0; turns > 0; turns -= 1) await new Promise((done) => setImmediate(done));
      return put(config, ...rest);
    };
    const sub = chain(["s1", "s2"]).compile({ checkpointer: true });
    return lab.compile(chain(turn, { sub }));
  }

  async function twoTurns(lab: Lab): Promise<any> {
    const graph = slowRoot(lab);
    for (const text of ["one", "two"]) await lab.run(graph, { log: [text] });
    return graph;
  }

  test.each(turn)("S6.5 a replay from before %s finds what it had then", async (node) => {
    const scenario: Scenario = async (lab) => {
      const graph = await twoTurns(lab);
      for (const nth of [0, -1]) {
        const at = await rootBefore(node, nth)(lab, graph);
        lab.note("list before", await lab.list(thread(), { before: at }));
        await lab.run(graph, null, at);
      }
    };
    await expectSame("invoke", scenario);
  });

  const withSerde: Engine = {
    ...anyEngine,
    open: (options, place) => anyEngine.open({ ...options, serde: new MemorySaver().serde }, place),
  };
  const pruned = turn.flatMap((node) => [[node, "the saver's codec", anyEngine] as const, [node, "a serde", withSerde] as const]);

  test.each(pruned)("S6.5 a replay from before %s finds it after a prune too, with %s", async (node, _name, engine) => {
    const scenario: Scenario = async (lab) => {
      const graph = await twoTurns(lab);
      const at = await rootBefore(node)(lab, graph);
      if ("prune" in lab.saver)
        await (lab.saver as TurnSaver).prune({ threadId: "t", keepLast: turn.length - turn.indexOf(node) + 1 });
      lab.note("replay", await graph.invoke(null, at));
      lab.note(
        "what the graph inside has then",
        (await lab.saver.getTuple(thread("t", { checkpoint_ns: "sub" })))?.checkpoint.channel_values,
      );
    };
    await expectSame("invoke", scenario, undefined, engine);
  });
});
