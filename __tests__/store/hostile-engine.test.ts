import { Annotation, Command, interrupt, Send, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { setStoreWrapper } from "../../src/testing-internal";
import { buffering, hostile, inflicted } from "../support/hostile-engine";
import { runs } from "../support/lane";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** A graph with a chain, a fan-out, an effect, a retry and a question. @param deeds gets what was really done */
function graphOn(saver: TurnSaver, deeds: string[]) {
  const tried = new Set<unknown>();
  return new StateGraph(State)
    .addNode("a", async () => {
      const receipt = await effect(
        "pay",
        () => {
          deeds.push("pay");
          return "paid";
        },
        { input: 1 },
      );
      return { log: ["a", receipt] };
    })
    .addNode("fan", () => new Command({ goto: [1, 2, 3, 4, 5].map((number) => new Send("leaf", { number })) }), {
      ends: ["leaf"],
    })
    .addNode("leaf", ({ number }: { number: number }) => ({ log: [`leaf ${number}`] }))
    .addNode(
      "again",
      (_, { configurable }) => {
        const threadId: unknown = configurable?.["thread_id"];
        if (!tried.has(threadId) && tried.add(threadId)) throw new Error("once");
        return { log: ["again"] };
      },
      { retryPolicy: { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false, retryOn: () => true } },
    )
    .addNode("ask", () => ({ log: [`asked ${interrupt<string, string>("well?")}`] }))
    .addEdge("__start__", "a")
    .addEdge("a", "fan")
    .addEdge("leaf", "again")
    .addEdge("again", "ask")
    .addEdge("ask", "__end__")
    .compile({ checkpointer: saver });
}

/** A whole story of two threads, as anybody can see it: results, turns, effects, what a rewind leaves. */
async function story(saver: TurnSaver): Promise<unknown> {
  const seen: unknown[] = [];
  const deeds: string[] = [];
  const runner = new GraphRunner(graphOn(saver, deeds));
  await Promise.all(
    ["one", "two"].map(async (threadId) => {
      await runner.invoke({ log: ["in"] }, { threadId, taskId: "first" });
      await runner.invoke(new Command({ resume: "yes" }) as never, { threadId });
    }),
  );
  for (const threadId of ["one", "two"]) {
    await runner.graph.updateState({ configurable: { thread_id: threadId } }, { log: ["edited"] }, "ask");
    const { values } = await runner.graph.getState({ configurable: { thread_id: threadId } });
    const turns = await saver.turns.list(threadId);
    const history: string[] = [];
    for await (const { metadata } of saver.list({ configurable: { thread_id: threadId } }))
      history.push(String(metadata?.source));
    seen.push({
      log: [...(values as { log: string[] }).log].sort(),
      turns: turns
        .map(({ turnType, nodeName, status, attempt }) => `${turnType} ${nodeName} ${status ?? ""} ${attempt ?? ""}`)
        .sort(),
      history,
      effects: (await saver.effects.list(threadId)).map(({ name, status, tries }) => ({ name, status, tries })),
      verified: (await saver.verify()).problems,
    });
  }
  return { seen, deeds };
}

describe("S7.6 nothing above the engine relies on how an engine answers", () => {
  test("S7.6 a story on an engine that answers later, out of order between threads, calls facts stale and loses connections is the story on SQLite", async () => {
    const plain = TurnSaver.fromPath(tempFile(), { logger: quiet });
    const expected = await story(plain);
    plain.close();
    const before = { ...inflicted };
    for (let seed = 1; seed <= runs(10, 200); seed += 1) {
      setStoreWrapper(hostile(seed, seed % 2 === 0));
      const saver = TurnSaver.fromPath(tempFile(), { logger: quiet });
      setStoreWrapper(undefined);
      expect({ seed, ...((await story(saver)) as object) }).toEqual({ seed, ...(expected as object) });
      saver.close();
    }
    expect(inflicted.stale - before.stale).toBeGreaterThan(15);
    expect(inflicted.lostBefore - before.lostBefore).toBeGreaterThan(5);
    expect(inflicted.lostAfter - before.lostAfter).toBeGreaterThan(5);
    expect(inflicted.overtaken - before.overtaken).toBeGreaterThan(50);
  }, 300_000);
});

describe("S7.6 guards", () => {
  test("S7.6 where only guards tell that others have written, savers that take turns on a thread see each other's work", async () => {
    const path = tempFile();
    setStoreWrapper(buffering());
    const savers = [1, 2].map(() => TurnSaver.fromPath(path, { logger: quiet }));
    setStoreWrapper(undefined);
    const graphs = savers.map((saver) =>
      new StateGraph(State)
        .addNode("n", ({ log }) => ({ log: [`after ${log.length}`] }))
        .addEdge("__start__", "n")
        .compile({ checkpointer: saver }),
    );
    const config = { configurable: { thread_id: "t" } };
    const before = inflicted.guarded;
    for (let round = 0; round < 3; round += 1) for (const graph of graphs) await graph.invoke({ log: [`in ${round}`] }, config);
    for (const graph of graphs) await graph.updateState(config, { log: ["edited"] });
    expect(inflicted.guarded).toBeGreaterThan(before + 4);
    const logs = await Promise.all(graphs.map(async (graph) => ((await graph.getState(config)).values as { log: string[] }).log));
    expect(logs[0]).toEqual(logs[1]);
    expect(logs[0]).toHaveLength(14);
    expect((await savers[1]?.verify())?.problems).toEqual([]);
    for (const saver of savers) saver.close();
  });
});

describe("S7.6 few round trips", () => {
  test("S7.6 on an engine that buffers, a step of a run waits for no statement: everything goes out with its commit", async () => {
    setStoreWrapper(buffering());
    const saver = TurnSaver.fromPath(tempFile(), { logger: quiet });
    setStoreWrapper(undefined);
    const waits: number[] = [];
    const node = () => {
      waits.push(inflicted.waits);
      return { log: ["a message of some length, so that it is a chunk of its own"] };
    };
    let builder = new StateGraph(State).addNode("n0", node).addEdge("__start__", "n0") as never as StateGraph<
      typeof State.spec,
      { log: string[] },
      object,
      string
    >;
    for (let at = 1; at < 8; at += 1) builder = builder.addNode(`n${at}`, node).addEdge(`n${at - 1}`, `n${at}`);
    const runner = new GraphRunner(builder.compile({ checkpointer: saver }));
    for (const log of [["first"], ["second"]]) await runner.invoke({ log }, { threadId: "t" });
    const perStep = waits.slice(1).map((count, at) => count - (waits[at] as number));
    // Between two runs, and before the first node of a thread, there is something to ask.
    expect({ first: perStep.slice(1, 7), second: perStep.slice(8) }).toEqual({
      first: [0, 0, 0, 0, 0, 0],
      second: [0, 0, 0, 0, 0, 0, 0],
    });
    expect(waits[0]).toBeGreaterThan(0);
    saver.close();
  });
});
