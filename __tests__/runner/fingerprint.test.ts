import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { Runnable, RunnableLambda } from "@langchain/core/runnables";
import { DynamicStructuredTool, tool } from "@langchain/core/tools";
import { Annotation, Command, END, entrypoint, MemorySaver, START, StateGraph, task } from "@langchain/langgraph";
import { createReactAgent, ToolNode } from "@langchain/langgraph/prebuilt";
import fc from "fast-check";
import { z } from "zod";
import { documentText, fingerprintOf, type GraphDocument, parseDocument, internalsOf } from "../../src/testing-internal";
import { childProgram } from "../support/child-program";
import { everyKind, State, stateGraph } from "./fp-graphs";
import { writing } from "./fp-source";
import { openSaver } from "../support/open-saver";

type Body = (state: typeof State.State) => object;
const one = (node: unknown) =>
  new StateGraph(State)
    .addNode("n", node as Body)
    .addEdge(START, "n")
    .compile();
const ofNode = (node: unknown) => fingerprintOf(one(node)).nodes["n"];
const prints = (document: GraphDocument) =>
  Object.fromEntries(Object.entries(document.nodes).map(([path, node]) => [path, node.fingerprint]));

describe("S3.3 fingerprints: what a document says", () => {
  test("S3.3 every node at every depth, its edges in words, and the channels of the state", () => {
    const { nodes, channels, digest } = fingerprintOf(stateGraph());
    expect(Object.keys(nodes)).toEqual(["__start__", "a", "b", "c", "sub", "sub|__start__", "sub|s1", "sub|s2"]);
    expect(nodes["a"]).toMatchObject({ edges: ["c with a, b"] });
    expect(nodes["c"]).toMatchObject({ edges: ["by command: sub"] });
    expect(nodes["sub"]).toMatchObject({
      edges: ["by condition: no → __end__, yes → a"],
      conditions: expect.any(String) as string,
    });
    expect(nodes["sub|s1"]).toMatchObject({ edges: ["s2"] });
    expect(channels).toEqual({
      log: { kind: "BinaryOperatorAggregate", hash: expect.any(String) as string },
      x: { kind: "LastValue" },
    });
    expect(digest).toMatch(/^[\w-]{22}$/);
  });

  test("S3.3 a document survives being stored, and a text that is another is told", () => {
    for (const graph of Object.values(everyKind())) {
      const document = fingerprintOf(graph);
      expect(parseDocument(document.digest, documentText(document))).toEqual(document);
      expect(parseDocument(document.digest, documentText(document).replace("edges", "edgez"))).toBeUndefined();
      expect(parseDocument(document.digest, "no JSON")).toBeUndefined();
    }
  });

  test("S3.3 the same in every process, and no matter what order the nodes were added in", () => {
    const child = join(__dirname, "fp-child.ts");
    const run = () => execFileSync(process.execPath, childProgram(child), { encoding: "utf8" });
    const first = run();
    expect(run()).toBe(first);
    const documents = JSON.parse(first) as Record<string, GraphDocument>;
    expect(Object.keys(documents)).toEqual(["state", "agent", "tools", "sequence", "sends", "functional"]);
    expect(new Set(Object.values(documents).map(({ digest }) => digest)).size).toBe(6);
    expect(fingerprintOf(stateGraph(["c", "b", "a"]))).toEqual(fingerprintOf(stateGraph(["a", "b", "c"])));
  });

  test("S3.3 a graph that a saver has attached to gives the document it gave before", async () => {
    const saver = openSaver(":memory:");
    const inner = new StateGraph(State)
      .addNode("s1", () => ({ log: ["s1"] }))
      .addEdge(START, "s1")
      .compile();
    const graph = new StateGraph(State)
      .addNode("a", () => ({ log: ["a"] }))
      .addNode("sub", inner)
      .addEdge(START, "a")
      .addEdge("a", "sub")
      .compile({ checkpointer: saver });
    const before = fingerprintOf(graph);
    saver.attach(graph);
    expect(fingerprintOf(graph)).toEqual(before);
    expect(await internalsOf(saver).documentOf(graph)).toEqual(before);
    expect(() => internalsOf(saver).documentOf(one(() => ({})))).toThrow(expect.objectContaining({ code: "INVALID_GRAPH" }));
    saver.close();
  });
});

describe("S3.3 fingerprints: what changes them", () => {
  test("S3.3 the source of a function, of a step, of a tool, of its schema, of the user's own class", () => {
    const lambda = (text: string) => RunnableLambda.from(writing(text));
    const look = (schema: z.ZodObject, func: () => Promise<string>) =>
      new ToolNode([new DynamicStructuredTool({ name: "look", description: "x", schema, func })]);
    const found = (): Promise<string> => Promise.resolve("found");
    class Doubling extends Runnable<typeof State.State, object> {
      lc_namespace = ["mine"];
      override invoke(): Promise<object> {
        return Promise.resolve({ x: 2 });
      }
    }
    class Tripling extends Runnable<typeof State.State, object> {
      lc_namespace = ["mine"];
      override invoke(): Promise<object> {
        return Promise.resolve({ x: 3 });
      }
    }
    const variants = [
      () => ({ log: ["a"] }),
      () => ({ log: ["b"] }),
      lambda("a"),
      lambda("b"),
      lambda("a").pipe(() => ({ log: ["a"] })),
      lambda("a").pipe(() => ({ log: ["b"] })),
      look(z.object({ q: z.string() }), found),
      look(z.object({ q: z.string().min(2) }), found),
      look(z.object({ q: z.number() }), found),
      look(z.object({ q: z.string() }), () => Promise.resolve("other")),
      new Doubling(),
      new Tripling(),
    ];
    const fingerprints = variants.map((variant) => ofNode(variant)?.fingerprint);
    expect(new Set(fingerprints).size).toBe(variants.length);
    expect(variants.map((variant) => ofNode(variant)?.blind)).toEqual(variants.map(() => undefined));
  });

  test("S3.3 the edges that leave it: static, joined, conditional ones with their condition and its map, Commands, error handlers", () => {
    const nodes = () =>
      new StateGraph(State)
        .addNode("a", () => ({}))
        .addNode("b", () => ({}))
        .addNode("c", () => ({}))
        .addEdge(START, "a")
        .addEdge(START, "b")
        .addEdge(START, "c");
    const nodeWith = (options: object) =>
      new StateGraph(State)
        .addNode("a", () => ({}), options)
        .addNode("b", () => ({}))
        .addEdge(START, "a")
        .addEdge(START, "b");
    const toB = (): string => "b";
    const graphs = [
      nodes().addEdge("b", "c"),
      nodes().addEdge("b", "c").addEdge("a", "c"),
      nodes().addEdge("b", "c").addEdge("a", "b"),
      nodes().addEdge(["a", "b"], "c"),
      nodes().addConditionalEdges("a", toB, ["b"]),
      nodes().addConditionalEdges("a", toB, ["b", "c"]),
      nodes().addConditionalEdges("a", (): string => ["b"].join(""), ["b"]),
      nodeWith({ ends: ["b"] }),
      nodeWith({ errorHandler: () => ({}) }),
    ].map((builder) => fingerprintOf(builder.compile()).nodes["a"]);
    expect(new Set(graphs.map((node) => node?.fingerprint)).size).toBe(graphs.length);
    expect(new Set(graphs.map((node) => node?.source)).size).toBe(1);
    const end = nodes().addEdge("b", "c").addEdge("a", END);
    expect(fingerprintOf(end.compile()).nodes["a"]).toEqual(graphs[0]);
  });

  test("S3.3 a version label stands for all code, by path or by name; the edges count beside it", () => {
    const graph = (text: string, to: "b" | "c", condition: () => string = () => "b") =>
      new StateGraph(State)
        .addNode("a", writing(text))
        .addNode("b", () => ({}))
        .addNode("c", () => ({}))
        .addEdge(START, "a")
        .addEdge(START, "b")
        .addEdge(START, "c")
        .addConditionalEdges("a", condition, [to])
        .compile();
    const a = (text: string, to: "b" | "c", label: string, condition?: () => string) =>
      fingerprintOf(graph(text, to, condition), { a: label }).nodes["a"]?.fingerprint;
    expect(a("x", "b", "1")).toBe(a("y", "b", "1", () => "c"));
    expect(a("x", "b", "1")).not.toBe(a("x", "b", "2"));
    expect(a("x", "b", "1")).not.toBe(a("x", "c", "1"));
    const nested = stateGraph();
    expect(fingerprintOf(nested, { s1: "v1" }).nodes["sub|s1"]).toMatchObject({ label: "v1" });
    expect(fingerprintOf(nested, { s1: "v1", "sub|s1": "v2" }).nodes["sub|s1"]).toMatchObject({ label: "v2" });
    expect(Object.keys(fingerprintOf(nested, { toString: "v" }).nodes)).toEqual(Object.keys(fingerprintOf(nested).nodes));
  });

  test("S3.3 policies, tags and metadata change nothing", () => {
    const node = () => ({ log: ["n"] });
    const policies = { retryPolicy: { maxAttempts: 3 }, cachePolicy: { ttl: 1 }, defer: true, metadata: { m: 1 } };
    const graph = new StateGraph(State).addNode("n", node, policies).addEdge(START, "n").compile();
    expect(fingerprintOf(graph)).toEqual(fingerprintOf(one(node)));
  });

  test("S3.3 a channel's kind and the source of its reducer", () => {
    const channels = (schema: object) =>
      fingerprintOf(
        new StateGraph(schema as typeof State)
          .addNode("n", () => ({}))
          .addEdge(START, "n")
          .compile(),
      ).channels;
    const list = (reducer: (left: string[], right: string[]) => string[]) =>
      Annotation.Root({ v: Annotation<string[]>({ reducer, default: () => [] }) });
    const all = [
      list((left, right) => left.concat(right)),
      list((left, right) => right.concat(left)),
      Annotation.Root({ v: Annotation<string[]>() }),
    ].map(channels);
    expect(new Set(all.map((found) => JSON.stringify(found))).size).toBe(3);
    expect(channels(list((left, right) => left.concat(right)))).toEqual(all[0]);
  });
});

interface Spec {
  bodies: string[];
  extra: [number, number][];
}

const specs = fc.integer({ min: 2, max: 6 }).chain((count) =>
  fc.record({
    bodies: fc.array(fc.constantFrom<string[]>("a", "b", "c"), { minLength: count, maxLength: count }),
    extra: fc.uniqueArray(fc.tuple(fc.nat(count - 1), fc.nat(count - 1)), { selector: String, maxLength: 4 }),
  }),
);

/** n0 → n1 → …, with further edges; every second node is a graph of one node with the body. */
function graphOf({ bodies, extra }: Spec) {
  let builder: any = new StateGraph(State);
  bodies.forEach((body, index) => {
    const work = writing(body);
    const inner = () => new StateGraph(State).addNode("in", work).addEdge(START, "in").compile();
    builder = builder.addNode(`n${index}`, index % 2 === 0 ? work : inner());
  });
  builder = builder.addEdge(START, "n0");
  bodies.slice(1).forEach((_, index) => (builder = builder.addEdge(`n${index}`, `n${index + 1}`)));
  for (const [from, to] of extra) builder = builder.addEdge(`n${from}`, `n${to}`);
  return builder.compile() as object;
}

function changedBetween(before: Spec, after: Spec): string[] {
  const [was, is] = [prints(fingerprintOf(graphOf(before))), prints(fingerprintOf(graphOf(after)))];
  expect(Object.keys(is)).toEqual(Object.keys(was));
  return Object.keys(was).filter((path) => was[path] !== is[path]);
}

describe("S3.3 fingerprints: properties", () => {
  test("S3.3 property: to change one node's source, or the edges that leave it, changes exactly that node's fingerprint", () => {
    fc.assert(
      fc.property(specs, fc.nat(), fc.nat(), (spec, which, whither) => {
        const [index, target] = [which % spec.bodies.length, whither % spec.bodies.length];
        const bodies = spec.bodies.with(index, `${spec.bodies[index] ?? ""}!`);
        expect(changedBetween(spec, { ...spec, bodies })).toEqual([index % 2 === 0 ? `n${index}` : `n${index}|in`]);
        const known = target === index + 1 || spec.extra.some(([from, to]) => from === index && to === target);
        const extra: Spec["extra"] = [...spec.extra, [index, target]];
        expect(changedBetween(spec, { ...spec, extra })).toEqual(known ? [] : [`n${index}`]);
        expect(changedBetween(spec, { ...spec, extra: spec.extra.toReversed() })).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });
});

describe("S3.3 fingerprints: what cannot be seen", () => {
  test("S3.3 nothing of the user's runs, and nothing throws", () => {
    const calls: string[] = [];
    const called = (name: string) => () => {
      calls.push(name);
      throw new Error(name);
    };
    const trap = new Proxy(
      {},
      { get: called("trap"), ownKeys: called("trap"), getPrototypeOf: called("trap"), getOwnPropertyDescriptor: called("trap") },
    );
    const exotic = {
      lc_runnable: true,
      invoke: called("invoke"),
      func: new Proxy(() => 1, { apply: called("trap"), get: called("trap") }),
      get bound() {
        return called("getter")();
      },
      tools: [trap, Symbol("x"), 1n, undefined, null, Object.create(null)],
      toJSON: called("toJSON"),
    };
    const looped: Record<string, unknown> = { lc_runnable: true, invoke: called("invoke") };
    looped["first"] = looped;
    const graph = {
      lg_is_pregel: true,
      nodes: { exotic: { bound: exotic }, trap: { bound: trap }, looped: { bound: looped }, none: undefined, proxy: trap },
      channels: { c: trap, d: { lc_graph_name: "Odd", operator: trap } },
    };
    const document = fingerprintOf(graph);
    expect(Object.keys(document.nodes)).toEqual(["exotic", "looped", "none", "proxy", "trap"]);
    expect(document.nodes["exotic"]).toMatchObject({ blind: true });
    expect(document.nodes["trap"]).toMatchObject({ blind: true });
    expect(fingerprintOf(graph)).toEqual(document);
    expect(fingerprintOf({ lg_is_pregel: true, nodes: trap, channels: trap })).toMatchObject({ nodes: {}, channels: {} });
    expect(calls).toEqual([]);
  });

  test("S3.3 functions that a library or bind hides are known to be hidden; a label makes up for it", () => {
    const saver = new MemorySaver();
    const body = function (this: void) {
      return { log: ["n"] };
    };
    expect(ofNode(body.bind(undefined))).toMatchObject({ blind: true });
    const hidden = (answer: string) =>
      tool(() => answer, { name: "look", description: "x", schema: z.object({ q: z.string() }) });
    expect(ofNode(new ToolNode([hidden("1")]))).toMatchObject({ blind: true });
    expect(ofNode(new ToolNode([tool(() => "", { name: "x", description: "x" })]))).toMatchObject({ blind: true });
    const inner = task("t", (x: number) => Promise.resolve(x));
    const functional = fingerprintOf(
      entrypoint({ name: "ep", checkpointer: saver }, (x: number) => inner(x)),
      { ep: "7" },
    );
    expect(functional.nodes).toEqual({ ep: expect.objectContaining({ blind: true, label: "7", edges: [] }) as object });
    const agent = createReactAgent({
      llm: { lc_namespace: ["chat_models"], bindTools: () => ({}) } as never,
      tools: [hidden("1")],
    });
    expect(fingerprintOf(agent).nodes["tools"]).toMatchObject({ blind: true, edges: ["agent"] });
  });

  test("S3.3 defaults of a schema are not asked for, recursive types are not followed for ever", () => {
    const Tree = z.object({
      name: z.string().default(() => {
        throw new Error("asked");
      }),
      get children(): z.ZodArray<z.ZodType> {
        return z.array(Tree);
      },
    });
    const node = new ToolNode([
      new DynamicStructuredTool({ name: "t", description: "x", schema: Tree as never, func: () => Promise.resolve("") }),
    ]);
    expect(ofNode(node)).toEqual(ofNode(node));
  });

  test("S3.3 two graphs inside one node are told apart by what is in them, a graph inside itself ends", () => {
    const inner = (text: string) => new StateGraph(State).addNode("in", writing(text)).addEdge(START, "in").compile();
    const outer = (...subgraphs: ReturnType<typeof inner>[]) =>
      fingerprintOf(
        new StateGraph(State)
          .addNode("n", () => ({}), { subgraphs })
          .addEdge(START, "n")
          .compile(),
      );
    expect(outer(inner("1"), inner("2")).nodes["n|in"]).toEqual(outer(inner("2"), inner("1")).nodes["n|in"]);
    expect(outer(inner("1"), inner("2")).nodes["n|in"]).not.toEqual(outer(inner("1"), inner("3")).nodes["n|in"]);
    const itself = one(() => new Command({ goto: END }));
    (itself.nodes as unknown as Record<string, { subgraphs: unknown[] }>)["n"]!.subgraphs = [itself];
    expect(Object.keys(fingerprintOf(itself).nodes)).toEqual(["__start__", "n"]);
  });
});
