import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import Database from "better-sqlite3";
import { ownershipChange, type OwnershipChange, type TaskClaim, type TaskRow, taskSpans } from "../../src/testing-internal";
import { chain, Log } from "../support/s1-graph";
import { listener, quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { openPersister } from "../support/open-persister";
import { openSaver } from "../support/open-saver";

const CREATED = "2030-01-01T00:00:00.000Z";

function interval(seq: number, taskId: string, more: Partial<TaskRow> = {}): TaskRow {
  return { taskId, graphId: "t", kind: "run", seq, createdAt: CREATED, prunedTokens: undefined, ...more };
}

function claim(kind: TaskClaim["kind"], name: string, more: Partial<TaskClaim> = {}): TaskClaim {
  return { taskId: undefined, graphId: undefined, kind, name, ...more };
}

const none: OwnershipChange = { type: "none" };
const opens = (taskId: string, kind: TaskRow["kind"] = "run", graphId = "t"): OwnershipChange => ({
  type: "open",
  taskId,
  graphId,
  kind,
});

describe("the rules of ownership", () => {
  const run = interval(1, "run");
  const update = interval(5, "update", { kind: "update" });
  const rules: [string, TaskRow | undefined, TaskRow | undefined, TaskClaim, OwnershipChange][] = [
    ["new input on a new thread starts a task", undefined, undefined, claim("begin", "ck"), opens("ck")],
    ["so does whatever comes first on a thread", undefined, undefined, claim("resume", "ck"), opens("ck")],
    ["an updateState on a new thread is a task of its own", undefined, undefined, claim("update", "ck"), opens("ck", "update")],
    ["new input starts a task behind another", run, run, claim("begin", "ck"), opens("ck")],
    ["a resume goes on with the task", run, run, claim("resume", "ck"), none],
    ["an updateState between runs is a task of its own", run, run, claim("update", "ck"), opens("ck", "update")],
    ["a resume behind an updateState goes back to the task that it resumes", update, run, claim("resume", "ck"), opens("run")],
    [
      "a resume behind an updateState on a thread that never ran goes on with that",
      update,
      undefined,
      claim("resume", "ck"),
      none,
    ],
    ["new input behind an updateState starts a task", update, run, claim("begin", "ck"), opens("ck")],
    ["a second updateState is a task again", update, run, claim("update", "ck"), opens("ck", "update")],

    ["a name begins a task", run, run, claim("begin", "ck", { taskId: "named" }), opens("named")],
    ["a name that is the task's goes on with it, on new input too", run, run, claim("begin", "ck", { taskId: "run" }), none],
    ["a resume under another name begins a task", run, run, claim("resume", "ck", { taskId: "named" }), opens("named")],
    ["an updateState under the task's name belongs to it", run, run, claim("update", "ck", { taskId: "run" }), none],
    ["an updateState under another name", run, run, claim("update", "ck", { taskId: "named" }), opens("named", "update")],
    [
      "a run under the name of an updateState opens an interval of its own",
      update,
      run,
      claim("begin", "ck", { taskId: "update" }),
      opens("update"),
    ],

    [
      "the checkpoint of a beginning gives the provisional task its name",
      interval(7, "command:p"),
      undefined,
      claim("begin", "ck", { provisional: "command:p" }),
      { type: "rename", taskId: "ck" },
    ],
    [
      "more writes of the same beginning change nothing",
      interval(7, "command:p"),
      undefined,
      claim("begin", "command:p", { provisional: "command:p" }),
      none,
    ],
    [
      "the beginning of another checkpoint is another task",
      interval(7, "command:p"),
      undefined,
      claim("begin", "ck", { provisional: "command:q" }),
      opens("ck"),
    ],

    [
      "another graph on the thread takes the thread's task along",
      run,
      run,
      claim("resume", "ck", { graphId: "g" }),
      opens("run", "run", "g"),
    ],
    [
      "another graph under a name",
      run,
      run,
      claim("resume", "ck", { graphId: "g", taskId: "named" }),
      opens("named", "run", "g"),
    ],
    ["new input for another graph", run, run, claim("begin", "ck", { graphId: "g" }), opens("ck", "run", "g")],
    [
      "the graph is kept where none is named",
      interval(1, "run", { graphId: "g" }),
      undefined,
      claim("begin", "ck"),
      opens("ck", "run", "g"),
    ],
  ];
  test.each(rules)("%s", (_, current, lastRun, claimed, change) => {
    expect(ownershipChange(current, lastRun, claimed, "t")).toEqual(change);
  });

  test("a task's end is where the next interval begins; the newest has none yet", () => {
    expect(taskSpans([])).toEqual([]);
    expect(taskSpans([interval(1, "a"), interval(10, "b"), interval(20, "c")])).toEqual([
      { taskId: "a", graphId: "t", firstSeq: 1, endSeq: 9, createdAt: CREATED },
      { taskId: "b", graphId: "t", firstSeq: 10, endSeq: 19, createdAt: CREATED },
      { taskId: "c", graphId: "t", firstSeq: 20, endSeq: Infinity, createdAt: CREATED },
    ]);
  });

  test("a task of several intervals is listed where it last finished, and keeps where it first began", () => {
    const later = "2031-01-01T00:00:00.000Z";
    expect(taskSpans([interval(1, "a"), interval(10, "b"), interval(20, "a", { createdAt: later })])).toEqual([
      { taskId: "b", graphId: "t", firstSeq: 10, endSeq: 19, createdAt: CREATED },
      { taskId: "a", graphId: "t", firstSeq: 1, endSeq: Infinity, createdAt: CREATED },
    ]);
  });
});

let path: string;
let saver: TurnSaver;
beforeEach(() => {
  path = tempFile();
  saver = openSaver(path, { logger: quiet });
});
afterEach(() => {
  saver.close();
});

const thread = { configurable: { thread_id: "t" } };

/** a → ask → z; `ask` waits for a person. */
function asking() {
  return saver.attach(
    new StateGraph(Log)
      .addNode("a", () => ({ log: ["a"] }))
      .addNode("ask", () => ({ log: [`answer ${String(interrupt("what now?"))}`] }))
      .addNode("z", () => ({ log: ["z"] }))
      .addEdge(START, "a")
      .addEdge("a", "ask")
      .addEdge("ask", "z")
      .addEdge("z", END)
      .compile({ checkpointer: saver }),
  );
}

const tasks = async (): Promise<string[]> => (await saver.turns.tasks("t")).map((task) => task.taskId);

/** Which task each turn of the thread belongs to, in their order, without repetition. */
async function owners(): Promise<string[]> {
  const found = (await saver.turns.list("t")).map((turn) => turn.taskId);
  return found.filter((taskId, index) => taskId !== found[index - 1]);
}

/** Ids of the root's checkpoints of a source, oldest first. */
async function checkpoints(source: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const tuple of saver.list({ configurable: { thread_id: "t", checkpoint_ns: "" } })) {
    if (tuple.metadata?.source === source) ids.unshift(tuple.checkpoint.id);
  }
  return ids;
}

describe("tasks of real graphs", () => {
  test("each new input starts a task, named after its input checkpoint", async () => {
    const graph = saver.attach(chain(saver));
    for (const entry of ["1", "2", "3"]) await graph.invoke({ log: [entry] }, thread);
    const inputs = await checkpoints("input");
    expect(inputs).toHaveLength(3);
    expect(await tasks()).toEqual(inputs);
    expect(await owners()).toEqual(inputs);
  });

  test("a resume continues the task, after an interrupt and after its end", async () => {
    const graph = asking();
    await graph.invoke({ log: ["in"] }, thread);
    const [task] = await tasks();
    await graph.invoke(new Command({ resume: "yes" }), thread);
    await graph.invoke(null, thread).catch(() => undefined);
    expect(await tasks()).toEqual([task]);
    expect(await owners()).toEqual([task]);
    expect((await saver.turns.list("t")).map((turn) => `${turn.turnType} ${turn.nodeName} ${turn.status}`)).toEqual([
      "Thought a undefined",
      "Action a ok",
      "Thought ask undefined",
      "Action ask interrupted",
      "Thought ask undefined",
      "Action ask ok",
      "Thought z undefined",
      "Action z ok",
    ]);
  });

  test("a Command with an update begins a task, and a rewind to the task before it takes its update away", async () => {
    const graph = saver.attach(chain(saver));
    await graph.invoke({ log: ["in"] }, thread);
    const before = (await graph.getState(thread)).values;
    const [first] = await tasks();
    await graph.invoke(new Command({ goto: "c", update: { log: ["by command"] } }), thread);
    expect((await graph.getState(thread)).values).toEqual({ log: ["in", "a", "b", "c", "by command", "c"] });
    expect(await tasks()).toHaveLength(2);
    expect(await owners()).toHaveLength(2);
    await saver.rewind({ threadId: "t", toTask: first! });
    expect((await graph.getState(thread)).values).toEqual(before);
    expect(await tasks()).toEqual([first]);
  });

  test("a Command that answers and updates continues the task that waits", async () => {
    const graph = asking();
    await graph.invoke({ log: ["in"] }, thread);
    const [task] = await tasks();
    await graph.invoke(new Command({ resume: "yes", update: { log: ["besides"] } }), thread);
    expect(await tasks()).toEqual([task]);
    expect(await owners()).toEqual([task]);
  });

  test("an updateState after a finished task is a task of its own, named after its checkpoint", async () => {
    const graph = saver.attach(chain(saver));
    await graph.invoke({ log: ["in"] }, thread);
    const [first] = await tasks();
    await graph.updateState(thread, { log: ["by hand"] });
    expect(await tasks()).toEqual([first, ...(await checkpoints("update"))]);
    const before = await graph.getState(thread);
    await graph.updateState(thread, { log: ["again"] });
    const updates = await checkpoints("update");
    expect(await tasks()).toEqual([first, ...updates]);
    await saver.rewind({ threadId: "t", toTask: updates[0]! });
    expect(await graph.getState(thread)).toEqual(before);
    await saver.rewind({ threadId: "t", toTask: first! });
    expect((await graph.getState(thread)).values).toEqual({ log: ["in", "a", "b", "c"] });
  });

  test("an updateState in the middle of an interrupted task, then a resume: the interrupted task continues", async () => {
    const graph = asking();
    await graph.invoke({ log: ["in"] }, thread);
    const [task] = await tasks();
    const waiting = await graph.getState(thread);
    await graph.updateState(thread, { log: ["by hand"] }, "a");
    const [update] = await checkpoints("update");
    expect(await tasks()).toEqual([task, update]);
    await graph.invoke(null, thread);
    await graph.invoke(new Command({ resume: "yes" }), thread);
    expect((await graph.getState(thread)).values).toEqual({ log: ["in", "a", "by hand", "answer yes", "z"] });
    expect(await tasks()).toEqual([update, task]);
    expect(await owners()).toEqual([task]);
    // The update lies between two intervals of the task, so both can be gone back to.
    await saver.rewind({ threadId: "t", toTask: update! });
    expect((await graph.getState(thread)).values).toEqual({ log: ["in", "a", "by hand"] });
    expect(await tasks()).toEqual([task, update]);
    await saver.rewind({ threadId: "t", toTask: task! });
    expect(await graph.getState(thread)).toEqual(waiting);
  });

  test("a time travel begins a task, named after its fork", async () => {
    const graph = saver.attach(chain(saver));
    await graph.invoke({ log: ["in"] }, thread);
    const [first] = await tasks();
    const before = await graph.getState(thread);
    const [, afterB] = [...(await fromHistory(graph))];
    await graph.invoke(null, afterB!.config);
    expect(await tasks()).toEqual([first, ...(await checkpoints("fork"))]);
    await saver.rewind({ threadId: "t", toTask: first! });
    expect(await graph.getState(thread)).toEqual(before);
  });

  test("nested graphs never begin a task", async () => {
    const State = Annotation.Root({ log: Log.spec.log });
    const inner = (persistent: boolean) =>
      new StateGraph(State)
        .addNode("i1", () => ({ log: [] }))
        .addNode("i2", () => ({ log: [] }))
        .addEdge(START, "i1")
        .addEdge("i1", "i2")
        .addEdge("i2", END)
        .compile(persistent ? { checkpointer: true } : {});
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("plain", inner(false))
        .addNode("memo", inner(true))
        .addEdge(START, "plain")
        .addEdge("plain", "memo")
        .addEdge("memo", END)
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ log: ["1"] }, thread);
    await graph.invoke({ log: ["2"] }, thread);
    expect(await tasks()).toEqual(await checkpoints("input"));
    expect((await saver.turns.list("t")).filter((turn) => turn.nodeName === "i1")).toHaveLength(8);
  });
});

async function fromHistory(graph: ReturnType<typeof chain>) {
  const found = [];
  for await (const state of graph.getStateHistory(thread)) found.push(state);
  return found;
}

describe("named tasks and graphs", () => {
  test("task_id and graph_id of the config are on every turn, and the persister finds them", async () => {
    const graph = saver.attach(chain(saver));
    await graph.invoke({ log: [] }, { configurable: { thread_id: "t", task_id: "my task", graph_id: "my graph" } });
    expect(await tasks()).toEqual(["my task"]);
    for (const turn of await saver.turns.list("t")) expect([turn.taskId, turn.graphId]).toEqual(["my task", "my graph"]);
    const db = new Database(path, { readonly: true });
    const persister = openPersister(path, db);
    expect(await persister.loadForTask("my task", { graphId: "my graph" })).toHaveLength(6);
    expect(await persister.loadLatest("my graph")).toMatchObject({ nodeName: "c", turnType: "Action" });
    db.close();
  });

  test("a name given twice is one task", async () => {
    const graph = saver.attach(chain(saver));
    const named = { configurable: { thread_id: "t", task_id: "named" } };
    await graph.invoke({ log: ["1"] }, named);
    await graph.invoke({ log: ["2"] }, named);
    expect(await tasks()).toEqual(["named"]);
    expect(await owners()).toEqual(["named"]);
  });

  test("names do not stick: the input after a named task starts one of its own", async () => {
    const runner = new GraphRunner(chain(saver));
    await runner.invoke({ log: ["1"] }, { threadId: "t", taskId: "named" });
    await runner.invoke({ log: ["2"] }, { threadId: "t" });
    expect(await tasks()).toEqual(["named", (await checkpoints("input"))[1]]);
    expect(await owners()).toEqual(await tasks());
  });

  test("a resume without a name continues the named task; one with a name begins another", async () => {
    const graph = asking();
    await graph.invoke({ log: ["1"] }, { configurable: { thread_id: "t", task_id: "first" } });
    await graph.invoke(new Command({ resume: "yes" }), thread);
    expect(await owners()).toEqual(["first"]);
    await graph.invoke({ log: ["2"] }, { configurable: { thread_id: "t", task_id: "second" } });
    await graph.invoke(new Command({ resume: "no" }), { configurable: { thread_id: "t", task_id: "the answer" } });
    expect(await tasks()).toEqual(["first", "second", "the answer"]);
    expect(await owners()).toEqual(["first", "second", "the answer"]);
  });

  test("an updateState under a name", async () => {
    const graph = saver.attach(chain(saver));
    await graph.invoke({ log: ["in"] }, { configurable: { thread_id: "t", task_id: "one" } });
    await graph.updateState({ configurable: { thread_id: "t", task_id: "edit" } }, { log: ["by hand"] });
    expect(await tasks()).toEqual(["one", "edit"]);
    await saver.rewind({ threadId: "t", toTask: "one" });
    expect((await graph.getState(thread)).values).toEqual({ log: ["in", "a", "b", "c"] });
  });

  test.each(["", "a\0b", "\ud800", 7])("a task_id or graph_id of %j is refused before anything is saved", async (bad) => {
    const graph = saver.attach(chain(saver));
    for (const key of ["task_id", "graph_id"]) {
      await expect(graph.invoke({ log: [] }, { configurable: { thread_id: "t", [key]: bad } })).rejects.toMatchObject({
        code: "INVALID_CONFIG",
      });
    }
    expect(await saver.turns.list("t")).toEqual([]);
    expect(await tasks()).toEqual([]);
  });

  test("tasks of a graph that is not attached are the same", async () => {
    const graph = chain(saver);
    await graph.invoke({ log: ["1"] }, { configurable: { thread_id: "t", task_id: "named" } });
    await graph.invoke({ log: ["2"] }, thread);
    await graph.updateState(thread, { log: ["by hand"] });
    expect(await tasks()).toEqual(["named", (await checkpoints("input"))[1], ...(await checkpoints("update"))]);
    expect(await owners()).toEqual((await tasks()).slice(0, 2));
  });
});

describe("durability exit", () => {
  test("a run whose input is never saved by itself has a task of its own, and a warning is given", async () => {
    saver.close();
    const logger = listener();
    saver = openSaver(path, { logger });
    const graph = saver.attach(chain(saver));
    await graph.invoke({ log: ["1"] }, thread);
    const before = await graph.getState(thread);
    const [first] = await tasks();
    await graph.invoke({ log: ["2"] }, { ...thread, durability: "exit" });
    await graph.invoke({ log: ["3"] }, { ...thread, durability: "exit" });
    expect(await tasks()).toHaveLength(3);
    expect(await owners()).toEqual(await tasks());
    expect(logger.lines.filter((line) => line.level === "warn" && line.text.includes('"exit"'))).toHaveLength(1);
    const [, second] = await tasks();
    await saver.rewind({ threadId: "t", toTask: second! });
    expect((await graph.getState(thread)).values).toEqual({ log: ["1", "a", "b", "c", "2", "a", "b", "c"] });
    await saver.rewind({ threadId: "t", toTask: first! });
    expect(await graph.getState(thread)).toEqual(before);
  });

  test("under a name it is that task", async () => {
    const graph = saver.attach(chain(saver));
    await graph.invoke({ log: ["1"] }, { configurable: { thread_id: "t", task_id: "one" }, durability: "exit" });
    await graph.invoke({ log: ["2"] }, { configurable: { thread_id: "t", task_id: "two" }, durability: "exit" });
    expect(await tasks()).toEqual(["one", "two"]);
    expect(await owners()).toEqual(["one", "two"]);
    await saver.rewind({ threadId: "t", toTask: "one" });
    expect((await graph.getState(thread)).values).toEqual({ log: ["1", "a", "b", "c"] });
  });

  test("a resume continues the task that it resumes", async () => {
    const graph = asking();
    await graph.invoke({ log: ["in"] }, { ...thread, durability: "exit" });
    const [task] = await tasks();
    await graph.invoke(new Command({ resume: "yes" }), { ...thread, durability: "exit" });
    expect(await tasks()).toEqual([task]);
    expect((await graph.getState(thread)).values).toEqual({ log: ["in", "a", "answer yes", "z"] });
  });
});
