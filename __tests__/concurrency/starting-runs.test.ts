import { setImmediate as macrotask } from "node:timers/promises";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { uuid6 } from "@langchain/langgraph-checkpoint";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { setFailpointHandler } from "../../src/testing-internal";
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

/**
 * Tells when the saver reads for the run that starts: when LangGraph asks it. A server has read by then, in the transaction that marks the
 * run. Its answer can come after that of a save which the server made later; so what counts is that the mark is sent.
 */
function whenRead(saver: TurnSaver, reads: () => void): () => void {
  if (ON_POSTGRES) {
    setFailpointHandler((point) => void (point === "run-mark.before" && reads()));
    return () => void setFailpointHandler(undefined);
  }
  const getTuple = saver.getTuple.bind(saver);
  saver.getTuple = async (asked) => {
    reads();
    return getTuple(asked);
  };
  return () => void Reflect.deleteProperty(saver, "getTuple");
}

test.each([
  ["new", false],
  ["known", true],
])("S6.2 a run on a %s thread starts from what was saved before it reads", async (_, isKnown) => {
  const file = tempFile();
  const [saver, other] = [openSaver(file, { logger: quiet }), openSaver(file, { logger: quiet })];
  await graphOn(other).invoke({ log: ["seed"] }, { configurable: { thread_id: "source" } });
  const { checkpoint, metadata } = (await other.getTuple({ configurable: { thread_id: "source" } }))!;
  const graph = saver.attach(graphOn(saver));
  const missed: string[] = [];
  let [earlier, later] = [0, 0];
  for (const by of [saver, other])
    for (let steps = -STEPS; steps < STEPS; steps += 1) {
      const thread = `${by === saver ? "own" : "other"}${steps}`;
      const config = { configurable: { thread_id: thread, checkpoint_ns: "" } };
      if (isKnown) await graph.invoke({ log: ["before"] }, config);
      const events: string[] = [];
      const end = whenRead(saver, () => events.push("read"));
      const run = () => graph.invoke({ log: ["in"] }, config);
      const save = async () => {
        await by.put(config, { ...structuredClone(checkpoint), id: uuid6(0) }, metadata!, checkpoint.channel_versions);
        events.push("put");
      };
      const inSteps = async <T>(delay: number, act: () => Promise<T>) => {
        for (let at = 0; at < delay; at += 1) await step();
        return act();
      };
      const [{ log }] = await Promise.all([inSteps(-steps, run), inSteps(steps, save)]);
      end();
      const isBefore = events.indexOf("put") < events.indexOf("read");
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
