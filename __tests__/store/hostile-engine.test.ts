import { Annotation, Command, interrupt, Send, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { setStoreWrapper } from "../../src/testing-internal";
import { hostile, inflicted } from "../support/hostile-engine";
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
    for (let seed = 1; seed <= runs(15, 200); seed += 1) {
      setStoreWrapper(hostile(seed));
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
