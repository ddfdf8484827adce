import { statSync } from "node:fs";
import Database from "better-sqlite3";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type Logger, TurnSaver } from "langgraph-checkpoint-turns";
import { tempFile } from "./support/temp";

const config = { configurable: { thread_id: "t" } };
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

function chain(saver: TurnSaver) {
  return saver.attach(
    new StateGraph(State)
      .addNode("a", () => ({ log: ["a"] }))
      .addNode("b", () => ({ log: ["b"] }))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: saver }),
  );
}

function recording(): { logger: Logger; messages: string[] } {
  const messages: string[] = [];
  const take = (_: object, message?: string): void => void messages.push(message ?? "");
  return { messages, logger: { debug() {}, info() {}, warn: take, error: take } };
}

test("S2.3 an event tells of the checkpoint after every superstep", async () => {
  const saver = TurnSaver.fromPath(":memory:");
  const told: [string, number][] = [];
  saver.events.on("checkpoint", ({ source, step }) => void told.push([source, step]));
  await chain(saver).invoke({ log: ["in"] }, config);
  expect(told).toEqual([
    ["input", -1],
    ["loop", 0],
    ["loop", 1],
    ["loop", 2],
  ]);
  saver.close();
});

test("S2.3 a save that fails is an event and a warning that the run cannot be resumed from here, and the run goes on", async () => {
  const file = tempFile();
  const { logger, messages } = recording();
  const saver = TurnSaver.fromPath(file, { logger, onCheckpointError: "continue" });
  const sql = new Database(file);
  sql.exec("CREATE TRIGGER full BEFORE INSERT ON langgraph_snapshots WHEN NEW.step = 1 BEGIN SELECT RAISE(ABORT, 'full'); END");
  const failed: string[] = [];
  saver.events.on("checkpoint_failed", ({ checkpointId }) => void failed.push(checkpointId));
  expect(await chain(saver).invoke({ log: ["in"] }, config)).toEqual({ log: ["in", "a", "b"] });
  expect(failed).toHaveLength(1);
  expect(messages.some((message) => message.includes("the run cannot be resumed from here"))).toBe(true);
  expect((await saver.getTuple(config))?.checkpoint.channel_values).toMatchObject({ log: ["in", "a", "b"] });
  sql.close();
  saver.close();
});

test("S2.2 a checkpoint of a state with 1,000 finished tasks stays far below 100 KB", async () => {
  const file = tempFile();
  const saver = TurnSaver.fromPath(file);
  const task = (index: number): string => JSON.stringify({ id: `task-${index}`, status: "completed", result: "x".repeat(200) });
  const graph = chain(saver);
  await graph.invoke({ log: Array.from({ length: 1_000 }, (_, index) => task(index)) }, config);
  saver.close();
  const before = statSync(file).size;
  const again = TurnSaver.fromPath(file);
  for (let index = 0; index < 10; index += 1) await chain(again).invoke({ log: [task(1_000 + index)] }, config);
  again.close();
  // Ten runs of four checkpoints each.
  expect((statSync(file).size - before) / 40).toBeLessThan(20_000);
});
