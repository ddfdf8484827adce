import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const graphOn = (saver: TurnSaver) =>
  new StateGraph(State)
    .addNode("one", () => ({ log: ["one"] }))
    .addEdge(START, "one")
    .addEdge("one", END)
    .compile({ checkpointer: saver });

test("S6.2 a run starts from what was saved before LangGraph asks for it, even right after the run has marked its new thread", async () => {
  const file = tempFile();
  const [saver, other] = [TurnSaver.fromPath(file, { logger: quiet }), TurnSaver.fromPath(file, { logger: quiet })];
  await graphOn(other).invoke({ log: ["seed"] }, { configurable: { thread_id: "source" } });
  const { checkpoint, metadata } = (await other.getTuple({ configurable: { thread_id: "source" } }))!;
  const missed: number[] = [];
  let later = 0;
  for (const by of [saver, other])
    for (let ticks = 0; ticks < 60; ticks += 1) {
      const config = { configurable: { thread_id: `${by === saver ? "own" : "other"}-${ticks}`, checkpoint_ns: "" } };
      const graph = saver.attach(graphOn(saver));
      const events: string[] = [];
      const getTuple = saver.getTuple.bind(saver);
      saver.getTuple = async (asked) => {
        events.push("get");
        return getTuple(asked);
      };
      const running = graph.invoke({ log: ["in"] }, config);
      for (let tick = 0; tick < ticks; tick += 1) await Promise.resolve();
      await by.put(config, structuredClone(checkpoint), metadata!, checkpoint.channel_versions);
      events.push("put");
      const { log } = await running;
      Reflect.deleteProperty(saver, "getTuple");
      const isBefore = events.indexOf("put") < events.indexOf("get");
      if (isBefore && !log.includes("seed")) missed.push(ticks);
      if (!isBefore) later += 1;
    }
  expect(missed).toEqual([]);
  expect(later).toBeGreaterThan(0);
  expect(later).toBeLessThan(120);
  saver.close();
  other.close();
});
