import { START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import type { Turn, TurnSaver } from "langgraph-checkpoint-turns";
import {
  compareFingerprints,
  differenceInWords,
  fingerprintOf,
  type GraphDocument,
  nodePathOf,
  recordedGraph,
  RecorderFace,
  type Versions,
  internalsOf,
} from "../../src/testing-internal";
import { State } from "./fp-graphs";
import { writing } from "./fp-source";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

/** Nodes in a row, each of which writes its text. */
function chain(nodes: Record<string, string | object>, channels: object = State) {
  let builder: any = new StateGraph(channels as typeof State);
  let before: string = START;
  for (const [name, body] of Object.entries(nodes)) {
    builder = builder.addNode(name, typeof body === "string" ? writing(body) : body).addEdge(before, name);
    before = name;
  }
  return builder as { compile(options?: object): { invoke(input: unknown, config: object): Promise<unknown> } };
}
const document = (nodes: Record<string, string | object>, versions?: Versions): GraphDocument =>
  fingerprintOf(chain(nodes).compile(), versions);
const nested = (text: string) => chain({ s1: text, s2: "s2" }).compile();

describe("S2.7 the comparison of graphs", () => {
  test("S2.7 S4.2 the same graph: nothing changed; a failed node may change, nodes behind it may be added", () => {
    const before = document({ a: "a", b: "b" });
    expect(compareFingerprints(before, document({ a: "a", b: "b" }), { completed: ["a", "b"] })).toEqual({
      changed: [],
      added: [],
      removed: [],
      channels: { added: [], removed: [], changed: [] },
      blind: [],
      sameGraph: true,
      drifted: false,
    });
    const repaired = compareFingerprints(before, document({ a: "a", b: "mended", c: "c" }), { completed: ["a"], failed: ["b"] });
    expect(repaired).toMatchObject({ changed: [], added: ["c"], drifted: false });
    expect(differenceInWords(repaired)).toEqual(['node "c" is new']);
    expect(compareFingerprints(before, document({ a: "a", b: "x" }), { completed: ["a", "b"], failed: ["b"] }).drifted).toBe(
      false,
    );
  });

  test("S2.7 S4.2 a completed node that changed, lost its edge, or is gone is drift, and is named with what changed", () => {
    const before = document({ a: "a", sub: nested("s1"), b: "b", c: "c" });
    const now = document({ a: "other", sub: nested("other"), c: "c" });
    const found = compareFingerprints(before, now, { completed: ["a", "sub", "sub|s1", "sub|s2", "b"], failed: ["c"] });
    expect(found).toMatchObject({
      changed: [
        { node: "a", what: ["source"] },
        { node: "b", what: ["removed"] },
        { node: "sub", what: ["edges"] },
        { node: "sub|s1", what: ["source"] },
      ],
      removed: [],
      sameGraph: true,
      drifted: true,
    });
    expect(differenceInWords(found)).toEqual([
      'node "a", which had completed, changed: its source',
      'node "b", which had completed, is gone',
      'node "sub", which had completed, changed: the edges that leave it',
      'node "sub|s1", which had completed, changed: its source',
    ]);
    const unreached = compareFingerprints(before, now, { completed: ["c"] });
    expect(unreached).toMatchObject({ changed: [], removed: ["b"], drifted: false });
    expect(differenceInWords(unreached)).toEqual([`node "b", which hadn't completed, is gone`]);
  });

  test("S3.3 labels: other labels are a change regardless of the source, the same label is none; a label given to an unchanged node is none", () => {
    const ran = { completed: ["a"] };
    const compare = (before: GraphDocument, now: GraphDocument) => compareFingerprints(before, now, ran).changed;
    const plain = document({ a: "a" });
    const labelled = document({ a: "a" }, { a: "1" });
    expect(compare(labelled, document({ a: "other" }, { a: "1" }))).toEqual([]);
    expect(compare(labelled, document({ a: "a" }, { a: "2" }))).toEqual([{ node: "a", what: ["label"], from: "1", to: "2" }]);
    expect(compare(plain, labelled)).toEqual([]);
    expect(compare(labelled, plain)).toEqual([]);
    expect(compare(plain, document({ a: "other" }, { a: "1" }))).toMatchObject([{ node: "a", what: ["source"] }]);
    const relabelled = compareFingerprints(labelled, document({ a: "a", b: "b" }, { a: "2" }), ran);
    expect(differenceInWords(relabelled)[0]).toBe(
      'node "a", which had completed, changed: its version, from 1 to 2, and the edges that leave it',
    );
  });

  test("S2.7 channels: one that is gone or joins otherwise is drift, a new one is none", () => {
    const of = (reducer: string | undefined, ...more: string[]): GraphDocument => ({
      ...document({ a: "a" }),
      channels: Object.fromEntries([
        ...(reducer === undefined ? [] : [["v", { kind: "BinaryOperatorAggregate", hash: reducer }] as const]),
        ...more.map((name) => [name, { kind: "LastValue" }] as const),
      ]),
    });
    const compare = (before: GraphDocument, now: GraphDocument) => compareFingerprints(before, now, { completed: ["a"] });
    expect(compare(of("1"), of("1", "w"))).toMatchObject({ channels: { added: ["w"] }, drifted: false });
    expect(compare(of("1", "w"), of("1"))).toMatchObject({ channels: { removed: ["w"] }, drifted: true });
    expect(compare(of("1"), of("2"))).toMatchObject({ channels: { changed: ["v"] }, drifted: true });
    expect(differenceInWords(compare(of("1", "w"), of("2", "n")))).toEqual([
      'channel "w" of the state is gone',
      'channel "v" of the state joins values in another way',
      'channel "n" of the state is new',
    ]);
  });

  test("S3.2 a graph without any of the recorded nodes is another one; names of Object.prototype are no nodes", () => {
    const before = document({ a: "a", b: "b" });
    const other = compareFingerprints(before, document({ z: "z" }), { completed: ["a", "toString"] });
    expect(other).toMatchObject({ sameGraph: false, drifted: true });
    expect(differenceInWords(other)[0]).toBe("none of the recorded nodes is in this graph: it is another one");
    const named = (...names: string[]): GraphDocument => {
      const node = before.nodes["a"];
      return { ...before, nodes: Object.fromEntries(names.map((name) => [name, node])) as GraphDocument["nodes"] };
    };
    const odd = named("__proto__", "constructor");
    const ran = { completed: ["__proto__", "constructor", "hasOwnProperty"] };
    expect(compareFingerprints(odd, odd, ran).drifted).toBe(false);
    expect(compareFingerprints(odd, named("a", "constructor"), ran).changed).toEqual([{ node: "__proto__", what: ["removed"] }]);
  });

  test("S3.3 completed nodes whose code cannot be seen are named, unless both have labels", () => {
    const hidden = { a: writing("a").bind(undefined) };
    const ran = { completed: ["a"] };
    expect(compareFingerprints(document(hidden), document(hidden), ran)).toMatchObject({ blind: ["a"], drifted: false });
    expect(compareFingerprints(document(hidden, { a: "1" }), document(hidden, { a: "1" }), ran).blind).toEqual([]);
  });
});

const config = (threadId: string, more: object = {}) => ({ configurable: { thread_id: threadId, ...more } });
const fingerprintsOf = (turns: readonly Turn[]) =>
  Object.fromEntries(turns.map((turn) => [nodePathOf(turn.nodeNs), turn.fingerprint]));

async function ended(saver: TurnSaver, threadId: string): Promise<GraphDocument | undefined> {
  const turns = (await saver.turns.list(threadId)).filter(
    (turn) => turn.turnType === "Action" && turn.durable && turn.status === "ok",
  );
  const graphs = await internalsOf(saver).recordedGraphs(threadId, turns);
  return recordedGraph(
    turns.flatMap((turn) => {
      const graph = graphs.find(({ turnIds }) => turnIds.includes(turn.id));
      return graph === undefined ? [] : [{ path: nodePathOf(turn.nodeNs), graph: graph.document }];
    }),
  );
}

describe("S3.3 fingerprints are stored with each turn", () => {
  test("S3.3 what a graph is attached with handles the starts and ends of chains, tools and models", () => {
    const events = ["Chain", "Tool"].flatMap((kind) => [`handle${kind}Start`, `handle${kind}End`, `handle${kind}Error`]);
    const models = ["handleChatModelStart", "handleLLMStart", "handleLLMNewToken", "handleLLMEnd", "handleLLMError"];
    expect(Object.getOwnPropertyNames(RecorderFace.prototype)).toEqual(expect.arrayContaining([...events, ...models]));
  });

  test("S3.3 every Thought and Action has its node's, at every depth, and the document is restored; one row per thread and graph", async () => {
    const path = tempFile();
    const saver = openSaver(path);
    const graph = saver.attach(chain({ a: "a", sub: nested("s1"), b: "b" }).compile({ checkpointer: saver }));
    for (const thread of ["t", "t", "u"]) await graph.invoke({ log: [] }, config(thread));
    const expected = await internalsOf(saver).documentOf(graph);
    const turns = await saver.turns.list("t");
    expect(turns).toHaveLength(20);
    const byPath = Object.fromEntries(Object.entries(expected.nodes).map(([node, { fingerprint }]) => [node, fingerprint]));
    for (const turn of turns) expect(turn.fingerprint).toBe(byPath[nodePathOf(turn.nodeNs)]);
    expect(await internalsOf(saver).recordedGraphs("t", turns)).toEqual([
      { document: expected, turnIds: turns.map(({ id }) => id) },
    ]);
    expect(await internalsOf(saver).recordedGraphs("t", [])).toEqual([]);
    expect(await internalsOf(saver).recordedGraphs("u", turns)).toEqual([]);
    expect(await internalsOf(saver).recordedGraphs("unknown", turns)).toEqual([]);
    saver.close();
    const db = new Database(path);
    expect(db.prepare("SELECT thread, count(*) AS n FROM langgraph_graphs GROUP BY thread").all()).toHaveLength(2);
    expect(db.prepare("SELECT count(*) AS n FROM langgraph_graphs").get()).toEqual({ n: 2 });
    db.close();
  });

  test("S3.3 the graph of the outermost run counts, wherever else the saver is attached; each graph has its own", async () => {
    const saver = openSaver(":memory:");
    const inner = saver.attach(chain({ s1: "s1" }).compile({ checkpointer: saver }));
    const outer = saver.attach(chain({ a: "a", sub: inner }).compile({ checkpointer: saver }));
    saver.attach(outer);
    await outer.invoke({ log: [] }, config("outer"));
    await inner.invoke({ log: [] }, config("inner"));
    const [found, alone] = [await internalsOf(saver).documentOf(outer), await internalsOf(saver).documentOf(inner)];
    const turns = await saver.turns.list("outer");
    expect(turns).toHaveLength(6);
    expect(fingerprintsOf(turns)).toEqual({
      a: found.nodes["a"]?.fingerprint,
      sub: found.nodes["sub"]?.fingerprint,
      "sub|s1": found.nodes["sub|s1"]?.fingerprint,
    });
    expect((await ended(saver, "outer"))?.digest).toBe(found.digest);
    expect((await ended(saver, "inner"))?.digest).toBe(alone.digest);
    saver.close();
  });

  test("S3.3 a label given when attaching again counts from then on; what ran before keeps what it had", async () => {
    const saver = openSaver(":memory:");
    const graph = saver.attach(chain({ a: "a" }).compile({ checkpointer: saver }));
    await graph.invoke({ log: [] }, config("t"));
    const before = await internalsOf(saver).documentOf(graph);
    saver.attach(graph, { versions: { a: "2" } });
    saver.attach(graph);
    await graph.invoke({ log: [] }, config("t"));
    const turns = await saver.turns.list("t");
    expect(turns.map((turn) => turn.fingerprint)).toEqual([
      ...Array<string>(2).fill(before.nodes["a"]?.fingerprint ?? ""),
      ...Array<string>(2).fill((await internalsOf(saver).documentOf(graph)).nodes["a"]?.fingerprint ?? ""),
    ]);
    expect((await internalsOf(saver).recordedGraphs("t", turns)).map(({ document: found }) => found.nodes["a"]?.label)).toEqual([
      undefined,
      "2",
    ]);
    expect(await ended(saver, "t")).toEqual(await internalsOf(saver).documentOf(graph));
    saver.close();
  });

  test("S3.3 a thread that ran on several graphs: each node as it was when it last finished", async () => {
    const saver = openSaver(":memory:");
    const run = (nodes: Record<string, string>) => {
      const graph = saver.attach(chain(nodes).compile({ checkpointer: saver }));
      return graph.invoke({ log: [] }, config("t")).then(() => internalsOf(saver).documentOf(graph));
    };
    const first = await run({ a: "a", b: "b" });
    const second = await run({ b: "other", c: "c" });
    const merged = await ended(saver, "t");
    expect(merged?.nodes["a"]).toEqual(first.nodes["a"]);
    expect(merged?.nodes["b"]).toEqual(second.nodes["b"]);
    expect(merged?.nodes["c"]).toEqual(second.nodes["c"]);
    saver.close();
  });

  test("S3.3 a rewind takes the graph along and the next turn writes it again; taken back, all is as it was; a copy has its own", async () => {
    const saver = openSaver(":memory:");
    const run = async (text: string, taskId: string) => {
      const graph = saver.attach(chain({ a: text }).compile({ checkpointer: saver }));
      await graph.invoke({ log: [] }, config("t", { task_id: taskId }));
      return (await internalsOf(saver).documentOf(graph)).digest;
    };
    const digestsOf = async (threadId: string) =>
      (await internalsOf(saver).recordedGraphs(threadId, await saver.turns.list(threadId))).map(
        ({ document: found, turnIds }) => [found.digest, turnIds.length],
      );
    const [one, two] = [await run("one", "A"), await run("two", "B")];
    const all = [
      [one, 2],
      [two, 2],
    ];
    const { rewindId = "" } = await saver.rewind({ threadId: "t", toTask: "A" });
    expect(await digestsOf("t")).toEqual([[one, 2]]);
    await saver.rewinds.takeBack(rewindId);
    expect(await digestsOf("t")).toEqual(all);
    await saver.copyThread("t", "copy");
    expect(await digestsOf("copy")).toEqual(all);
    await saver.rewind({ threadId: "t", toTask: "A" });
    expect(await run("two", "C")).toBe(two);
    expect(await digestsOf("t")).toEqual(all);
    await saver.rewind({ threadId: "copy", toTask: "A" });
    expect(await digestsOf("copy")).toEqual([[one, 2]]);
    saver.close();
  });

  test("S3.3 pruning removes the graphs that no turn refers to any more, and no other", async () => {
    const path = tempFile();
    const saver = openSaver(path);
    for (const text of ["one", "two", "three"]) {
      await saver.attach(chain({ a: text }).compile({ checkpointer: saver })).invoke({ log: [] }, config("t"));
    }
    const last = await ended(saver, "t");
    const count = (): unknown => {
      const db = new Database(path);
      const row = db.prepare("SELECT count(*) AS n FROM langgraph_graphs").get();
      db.close();
      return row;
    };
    expect(count()).toEqual({ n: 3 });
    await saver.prune({ threadId: "t", keepLast: 3 });
    expect((await ended(saver, "t"))?.nodes["a"]).toEqual(last?.nodes["a"]);
    expect(count()).toEqual({ n: 1 });
    saver.close();
  });

  test("S3.1 a document that was changed outside is refused", async () => {
    const path = tempFile();
    const saver = openSaver(path);
    await saver.attach(chain({ a: "a" }).compile({ checkpointer: saver })).invoke({ log: [] }, config("t"));
    const db = new Database(path);
    db.prepare("UPDATE langgraph_graphs SET document = replace(document, 'LastValue', 'LostValue')").run();
    db.close();
    await expect(internalsOf(saver).recordedGraphs("t", await saver.turns.list("t"))).rejects.toThrow(
      expect.objectContaining({ code: "CHECKPOINT_CORRUPTED" }),
    );
    saver.close();
  });
});
