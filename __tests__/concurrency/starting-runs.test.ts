import { setImmediate as macrotask } from "node:timers/promises";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { uuid6 } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const graphOn = (saver: TurnSaver) =>
  new StateGraph(State)
    .addNode("one", () => ({ log: ["one"] }))
    .addEdge(START, "one")
    .addEdge("one", END)
    .compile({ checkpointer: saver });

/** A server's answers come in macrotasks; a file's in the ticks of one. */
const [STEPS, step] = ON_POSTGRES ? [90, () => macrotask()] : [60, () => Promise.resolve()];

test.each([
  ["new", false],
  ["known", true],
])("S6.2 a run on a %s thread starts from what was saved before LangGraph asks for it", async (_, isKnown) => {
  const file = tempFile();
  const [saver, other] = [openSaver(file, { logger: quiet }), openSaver(file, { logger: quiet })];
  await graphOn(other).invoke({ log: ["seed"] }, { configurable: { thread_id: "source" } });
  const { checkpoint, metadata } = (await other.getTuple({ configurable: { thread_id: "source" } }))!;
  const graph = saver.attach(graphOn(saver));
  const missed: string[] = [];
  let [earlier, later] = [0, 0];
  for (const by of [saver, other])
    for (let steps = 0; steps < STEPS; steps += 1) {
      const thread = `${by === saver ? "own" : "other"}-${steps}`;
      const config = { configurable: { thread_id: thread, checkpoint_ns: "" } };
      if (isKnown) await graph.invoke({ log: ["before"] }, config);
      const events: string[] = [];
      const getTuple = saver.getTuple.bind(saver);
      saver.getTuple = async (asked) => {
        events.push("get");
        return getTuple(asked);
      };
      const running = graph.invoke({ log: ["in"] }, config);
      for (let at = 0; at < steps; at += 1) await step();
      await by.put(config, { ...structuredClone(checkpoint), id: uuid6(0) }, metadata!, checkpoint.channel_versions);
      events.push("put");
      const { log } = await running;
      Reflect.deleteProperty(saver, "getTuple");
      const isBefore = events.indexOf("put") < events.indexOf("get");
      if (isBefore && !log.includes("seed")) missed.push(thread);
      if (isBefore) earlier += 1;
      else later += 1;
    }
  expect(missed).toEqual([]);
  expect(earlier).toBeGreaterThan(0);
  expect(later).toBeGreaterThan(0);
  await (saver.close() as unknown);
  await (other.close() as unknown);
});
