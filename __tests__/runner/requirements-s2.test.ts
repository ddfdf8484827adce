import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import Database from "better-sqlite3";
import { Annotation, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type Logger, type TurnSaver } from "langgraph-checkpoint-turns";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

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
  const saver = openSaver(":memory:");
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

test("S2.3 a save that fails is an event and a warning that the run cannot be resumed from here, and the run continues", async () => {
  const file = tempFile();
  const { logger, messages } = recording();
  const saver = openSaver(file, { logger, onCheckpointError: "continue" });
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

testOfFiles("S2.2 a checkpoint of a state with 1,000 finished tasks stays far below 100 KB", async () => {
  const file = tempFile();
  const saver = openSaver(file);
  const task = (index: number): string => JSON.stringify({ id: `task-${index}`, status: "completed", result: "x".repeat(200) });
  const graph = chain(saver);
  await graph.invoke({ log: Array.from({ length: 1_000 }, (_, index) => task(index)) }, config);
  saver.close();
  const before = statSync(file).size;
  const again = openSaver(file);
  for (let index = 0; index < 10; index += 1) await chain(again).invoke({ log: [task(1_000 + index)] }, config);
  again.close();
  // Ten runs of four checkpoints each.
  expect((statSync(file).size - before) / 40).toBeLessThan(20_000);
});

test("S2.2 the recorded benchmark holds every floor: save, resume, serialising, size and prune, with 1,000 finished tasks", () => {
  const results = readFileSync(path.join(__dirname, "..", "..", "bench", "RESULTS.md"), "utf8");
  const row = /^\| (\w+) +\| 1,000 finished tasks, ([^|]*?) < ([\d.]+) (?:ms|KB) +\| ([\d.]+) (?:ms|KB) +\|$/gm;
  const rows = [...results.matchAll(row)].map(([, verdict, what, floor, measured]) => ({
    what,
    floor: Number(floor),
    holds: verdict === "ok" && Number(measured) < Number(floor),
  }));
  expect(rows).toEqual([
    { what: "save, p95", floor: 50, holds: true },
    { what: "resume, p95", floor: 100, holds: true },
    { what: "serialising the state, p95", floor: 10, holds: true },
    { what: "a checkpoint in the file", floor: 100, holds: true },
    { what: "prune, p95", floor: 50, holds: true },
  ]);
});

/** Four layers, of which the second has two nodes side by side; `broken` fails in the third one. */
function layers(saver: TurnSaver, ran: string[], broken: boolean) {
  const Rich = Annotation.Root({
    ...MessagesAnnotation.spec,
    tasks: Annotation<Map<string, "done" | "open">>({
      reducer: (left, right) => new Map([...left, ...right]),
      default: () => new Map<string, "done" | "open">(),
    }),
    decisions: Annotation<{ at: Date; why: string }[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
    context: Annotation<Record<string, unknown>>,
  });
  const node = (name: string, update: object) => () => {
    ran.push(name);
    if (broken && name === "build") throw new Error("no tools");
    return {
      tasks: new Map<string, "done" | "open">([[name, "done"]]),
      messages: [new AIMessage({ content: `${name} is done`, id: name })],
      ...update,
    };
  };
  return new StateGraph(Rich)
    .addNode(
      "plan",
      node("plan", { decisions: [{ at: new Date(0), why: "cheap" }], context: { budget: 10n, seen: new Set([1]) } }),
    )
    .addNode("wood", node("wood", {}))
    .addNode("stone", node("stone", {}))
    .addNode("build", node("build", {}))
    .addNode("paint", node("paint", { decisions: [{ at: new Date(1), why: "blue" }] }))
    .addEdge(START, "plan")
    .addEdge("plan", "wood")
    .addEdge("plan", "stone")
    .addEdge(["wood", "stone"], "build")
    .addEdge("build", "paint")
    .compile({ checkpointer: saver });
}

const start = (): { messages: BaseMessage[] } => ({ messages: [new HumanMessage({ content: "A house, please.", id: "in" })] });

test("S2.5 resume in a new saver: tasks, decisions, messages and context are restored, finished layers skipped, the rest checkpointed", async () => {
  const undisturbed = openSaver(":memory:");
  const expected = await new GraphRunner(layers(undisturbed, [], false)).invoke(start(), { threadId: "t" });
  undisturbed.close();

  const file = tempFile();
  const first = openSaver(file);
  await expect(new GraphRunner(layers(first, [], true)).invoke(start(), { threadId: "t" })).rejects.toThrow("no tools");
  first.close();

  const ran: string[] = [];
  const second = openSaver(file);
  const runner = new GraphRunner(layers(second, ran, false), { drift: "refuse" });
  const restored = await runner.graph.getState(config);
  expect(restored.next).toEqual(["build"]);
  expect(restored.values).toMatchObject({
    tasks: new Map([
      ["plan", "done"],
      ["wood", "done"],
      ["stone", "done"],
    ]),
    decisions: [{ at: new Date(0), why: "cheap" }],
    context: { budget: 10n, seen: new Set([1]) },
  });
  const steps: number[] = [];
  second.events.on("checkpoint", ({ step }) => void steps.push(step));
  expect(await runner.resume({ threadId: "t" })).toEqual(expected);
  expect(ran).toEqual(["build", "paint"]);
  expect(steps).toEqual([3, 4]);
  second.close();
});

test("S2.6 a checkpoint that is not there, one that was damaged, and a state that cannot be: each has its own code", async () => {
  const file = tempFile();
  const saver = openSaver(file);
  await chain(saver).invoke({ log: ["in"] }, { configurable: { thread_id: "t", task_id: "first" } });
  await chain(saver).invoke({ log: ["on"] }, { configurable: { thread_id: "t", task_id: "second" } });
  const where = { threadId: "t", checkpointId: "1f0c0000-0000-6000-8000-000000000000" };
  await expect(saver.names.set(where, "release")).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  await expect(saver.rewind({ threadId: "t", toTask: "first", tasks: ["second", "first"] })).rejects.toMatchObject({
    code: "STATE_INVARIANT_VIOLATED",
  });
  saver.close();
  const sql = new Database(file);
  sql.exec("UPDATE langgraph_snapshots SET body = replace(body, '\"v\":', '\"w\":')");
  sql.close();
  const again = openSaver(file);
  await expect(again.getTuple(config)).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
  again.close();
});
