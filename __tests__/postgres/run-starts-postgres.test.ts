import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { Client } from "pg";
import { internalsOf, setRoundTripHook, thisProcess } from "../../src/testing-internal";
import { schemaAt } from "../support/open-saver";
import { quiet } from "../support/s1-tools";

/**
 * The first save of a run relies on what the start of the run has read. Here others change that in between: after LangGraph has read the
 * thread, and before it saves the input.
 */
let schemas = 0;

function world() {
  const schema = schemaAt(`starts ${(schemas += 1)}`);
  const open = () => PostgresTurnSaver.fromConnString(process.env["TURNS_PG_URL"]!, { schema, logger: quiet });
  const [saver, others] = [open(), open()];
  let meanwhile: (() => Promise<unknown>) | undefined;
  const readTuple = saver.getTuple.bind(saver);
  saver.getTuple = async (config) => {
    const tuple = await readTuple(config);
    const act = meanwhile;
    meanwhile = undefined;
    await act?.();
    return tuple;
  };
  const graphOn = (checkpointer: PostgresTurnSaver) => {
    const State = Annotation.Root({
      log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
    });
    const builder = new StateGraph(State).addNode("node", () => ({ log: ["node"] }));
    return checkpointer.attach(builder.addEdge(START, "node").addEdge("node", END).compile({ checkpointer }));
  };
  const [graph, other] = [graphOn(saver), graphOn(others)];
  const config = (task: string) => ({ configurable: { thread_id: "t", task_id: task } });
  return {
    saver,
    others,
    run: (task: string) => graph.invoke({ log: [task] }, config(task)),
    runElsewhere: (task: string) => other.invoke({ log: [task] }, config(task)),
    /** Runs once what the others do, before the next save. */
    then: (act: () => Promise<unknown>) => void (meanwhile = act),
    async sql(text: string): Promise<void> {
      const client = new Client(process.env["TURNS_PG_DIRECT_URL"]);
      await client.connect();
      await client.query(text.replaceAll("langgraph_", `"${schema}".langgraph_`));
      await client.end();
    },
    async close(): Promise<void> {
      await saver.close();
      await others.close();
    },
  };
}

const refusal = (run: Promise<unknown>): Promise<unknown> =>
  run.then(
    () => "no refusal",
    (error: unknown) => error,
  );

test.each([
  ["new", 0],
  ["known", 1],
])("S9.3 a run on a %s thread, and another one begins and ends between its start and its first save", async (_, before) => {
  const at = world();
  if (before > 0) await at.run("before");
  at.then(() => at.runElsewhere("other"));
  expect(await at.run("own")).toMatchObject({ log: expect.arrayContaining(["own", "node"]) });
  expect(await at.saver.verify()).toMatchObject({ ok: true, checked: { turns: 2 * (2 + before) } });
  expect((await at.saver.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual([
    ...(before > 0 ? ["before"] : []),
    "other",
    "own",
  ]);
  expect(await at.others.turns.isRunning("t")).toBe(false);
  await at.close();
});

test.each([
  ["new", 0],
  ["known", 1],
])("S1.6 THREAD_DELETED: a %s thread is deleted between the start of a run and its first save", async (_, before) => {
  const at = world();
  if (before > 0) await at.run("before");
  at.then(async () => {
    await at.runElsewhere("other");
    await at.others.deleteThread("t");
  });
  expect(await refusal(at.run("own"))).toMatchObject({ code: "THREAD_DELETED" });
  expect(await at.saver.getTuple({ configurable: { thread_id: "t" } })).toBeUndefined();
  await at.run("again");
  expect(await at.saver.verify()).toMatchObject({ ok: true, checked: { turns: 2 } });
  await at.close();
});

test("S1.6 THREAD_DELETED: a thread that never was is deleted for good between the start of a run and its first save", async () => {
  const at = world();
  at.then(() => at.others.deleteThread("t", { final: true }));
  expect(await refusal(at.run("own"))).toMatchObject({ code: "THREAD_DELETED" });
  expect([...(await at.saver.listThreads())]).toEqual([]);
  await at.close();
});

test.each([
  ["new", 0],
  ["known", 1],
])("S9.4 LEASE_LOST: a run on a %s thread loses its lease between its start and its first save", async (_, before) => {
  const at = world();
  if (before > 0) await at.run("before");
  at.then(async () => {
    await at.sql("DELETE FROM langgraph_runs");
    await at.runElsewhere("other");
  });
  expect(await refusal(at.run("own"))).toMatchObject({ code: "LEASE_LOST" });
  expect((await at.saver.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual([...(before > 0 ? ["before"] : []), "other"]);
  await at.close();
});

test("S9.4 LEASE_LOST: a run on a new thread loses its lease before its first save, and nobody has saved anything", async () => {
  const at = world();
  at.then(() => at.sql("DELETE FROM langgraph_runs"));
  expect(await refusal(at.run("own"))).toMatchObject({ code: "LEASE_LOST" });
  expect([...(await at.saver.listThreads())]).toEqual([]);
  await at.close();
});

test("S9.4 LEASE_LOST: a run loses its lease on a new thread, which somebody else in its process then begins", async () => {
  const { saver, others, close } = world();
  const here = internalsOf(saver).store;
  const row = { threadId: "t", ...thisProcess(), startedAt: new Date().toISOString(), beatAt: 1 };
  await here.beginRun({ ...row, runId: "mine" }, () => []);
  await internalsOf(others).store.beginRun({ ...row, runId: "theirs" }, (runs) => [...runs]);
  // By hand, so without a lease.
  const checkpoint = { ...emptyCheckpoint(), id: "1f0e0000-0000-6000-8000-000000000000" };
  await saver.put({ configurable: { thread_id: "t", checkpoint_ns: "" } }, checkpoint, {
    source: "input",
    step: -1,
    parents: {},
  });
  expect(await refusal(Promise.resolve(here.checkLease({ runId: "mine", threadId: "t" }, "boundary")))).toMatchObject({
    code: "LEASE_LOST",
  });
  await close();
});

test("S4.7 CHECKPOINT_NOT_FOUND: a thread is rewound between the start of a run and its first save", async () => {
  const at = world();
  await at.run("one");
  await at.run("two");
  at.then(async () => {
    // The others must see nobody at work.
    await at.sql("UPDATE langgraph_runs SET thread_id = 'elsewhere'");
    await at.others.rewind({ threadId: "t", toTask: "one" });
    await at.sql("UPDATE langgraph_runs SET thread_id = 't'");
  });
  expect(await refusal(at.run("own"))).toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  expect((await at.saver.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual(["one"]);
  await at.close();
});

test("S7.4 ENCRYPTED: the database gets a key between the start of a run without keys and its first save", async () => {
  const at = world();
  at.then(() => at.sql("INSERT INTO langgraph_settings (name, value) VALUES ('key:other', '\\x01')"));
  expect(await refusal(at.run("own"))).toMatchObject({ code: "ENCRYPTED" });
  await at.close();
});

test("S9.4 the mark of a run goes in the transaction of its last checkpoint", async () => {
  const at = world();
  const commits: string[] = [];
  setRoundTripHook((texts) => commits.push(texts.join("\n")));
  try {
    await at.run("one");
  } finally {
    setRoundTripHook(undefined);
  }
  const ends = commits.filter((text) => /DELETE FROM \S*langgraph_runs/.test(text));
  expect(ends).toHaveLength(1);
  expect(ends[0]).toMatch(/INSERT INTO \S*langgraph_snapshots/);
  expect(await at.others.turns.isRunning("t")).toBe(false);
  await at.close();
});

test("S9.4 a run that starts while another one ends has a mark of its own", async () => {
  const at = world();
  let second: Promise<unknown> | undefined;
  at.saver.events.on("checkpoint", ({ step }) => {
    if (step === 1) second ??= at.run("two");
  });
  await at.run("one");
  await second;
  expect(await at.saver.verify()).toMatchObject({ ok: true, checked: { turns: 4 } });
  expect(await at.others.turns.isRunning("t")).toBe(false);
  await at.close();
});
