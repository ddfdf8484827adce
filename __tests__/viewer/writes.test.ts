import path from "node:path";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { defineEffect, GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { rewindRefusal } from "../../src/testing-internal";
import { longTest } from "../support/lane-test";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { runToEnd, viewing, type World } from "./viewer-world";

jest.setTimeout(300_000);

const Order = Annotation.Root({ total: Annotation<number>, note: Annotation<string> });
const undone: string[] = [];
let failing = false;
/** How long an undo takes that takes long. */
const SLOW_MS = 2_500;

const pay = defineEffect("viewer-pay", {
  run: ({ total }: { total: number }) => ({ receipt: `r-${total}` }),
  undo: async ({ input }) => {
    if (input.total === 900) await new Promise((resolve) => setTimeout(resolve, SLOW_MS));
    if (failing) throw new Error("the bank is closed");
    undone.push(`refund ${input.total}`);
  },
});

/** Waits until it's released, so that a test can look while it runs. */
let release: (() => void) | undefined;

function graphOn(saver: TurnSaver) {
  return new StateGraph(Order)
    .addNode("pay", async ({ total }) => {
      await pay({ total });
      return { note: "paid" };
    })
    .addNode("ask", ({ total }) => {
      if (total < 100) return {};
      return { note: `answered ${String(interrupt({ question: `Approve ${total}?` }))}` };
    })
    .addNode("wait", async ({ total }) => {
      if (total === 500) await new Promise<void>((resolve) => (release = resolve));
      if (total === 60 || total === 600) throw new Error("no stock");
      return {};
    })
    .addEdge(START, "pay")
    .addEdge("pay", "ask")
    .addEdge("ask", "wait")
    .addEdge("wait", END)
    .compile({ checkpointer: saver });
}

const place = tempFile();
let saver: TurnSaver;
let runner: GraphRunner<never>;
let world: World;
let withoutGraph: World;

beforeAll(async () => {
  saver = openSaver(place);
  runner = new GraphRunner(graphOn(saver)) as unknown as GraphRunner<never>;
  world = await viewing(saver, { write: true, graph: { runner, name: "./agent.ts#graph" } });
  withoutGraph = await viewing(saver, { write: true });
});

afterAll(async () => {
  await world.close();
  await withoutGraph.close();
  await (saver.close() as unknown);
});

const run = async (threadId: string, taskId: string, total: number): Promise<void> => {
  await runner.invoke({ total }, { threadId, taskId } as never).catch(() => undefined);
};

/** Looks until a thread stands so. */
async function until(threadId: string, state: string): Promise<any> {
  for (;;) {
    const found = await world.get(`/api/threads/${threadId}`);
    if (found.report.state === state) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Answers the question that a thread asks. */
async function answered(threadId: string, value: unknown) {
  const target = `/api/threads/${encodeURIComponent(threadId)}`;
  const [question] = (await world.get(target)).report.questions;
  return world.post(`${target}/answer`, { confirm: threadId, interruptId: question.id, value });
}

test("S10.2 a question is answered, and the thread runs to its end", async () => {
  await run("asks", "first", 100);
  const { report, answers } = await world.get("/api/threads/asks");
  expect(report.state).toBe("waiting");
  expect(answers.inFlight).toMatchObject({ headline: "ask waits for an answer", text: "Approve 100?", tone: "attention" });
  expect(answers.resume.command).toBe("turns inbox answer asks --value JSON --graph ./agent.ts#graph --yes");
  const [{ id }] = report.questions;
  const { status, json } = await world.post("/api/threads/asks/answer", { confirm: "asks", interruptId: id, value: "yes" });
  expect([status, json.error]).toEqual([200, undefined]);
  await until("asks", "finished");
  const { channels } = await world.get("/api/threads/asks/state?channel=note");
  expect(channels).toMatchObject([{ channel: "note", value: "answered yes" }]);
  // The node ran twice, and nothing failed.
  const [task] = (await world.get("/api/threads/asks/timeline")).tasks;
  expect([task.retries, task.words]).toEqual([0, expect.not.stringContaining("retry")]);
});

test("S10.2 an answer to a question that nobody asked is refused, and changes nothing", async () => {
  await run("asks-2", "first", 101);
  const wrong = { confirm: "asks-2", interruptId: "0".repeat(32), value: 1 };
  const { status, json } = await world.post("/api/threads/asks-2/answer", wrong);
  expect([status, json.error.code]).toEqual([409, "UNKNOWN_INTERRUPT"]);
  expect((await world.get("/api/threads/asks-2")).report.state).toBe("waiting");
});

test("S10.2 an answer without the question's id is refused: it would answer all that is open, or another one", async () => {
  await run("asks-3", "first", 105);
  const { status, json } = await world.post("/api/threads/asks-3/answer", { confirm: "asks-3", interruptId: null, value: 1 });
  const { report } = await world.get("/api/threads/asks-3");
  expect([status, json.error?.code, report.state]).toEqual([409, "UNKNOWN_INTERRUPT", "waiting"]);
  expect(json.error.message).toContain(report.questions[0].id);
});

test.each(["__proto__", "first", "a\0b", ""])("S10.2 so is one with an id that no question can have: %j", async (interruptId) => {
  const threadId = `asks-${JSON.stringify(interruptId)}`;
  await run(threadId, "first", 102);
  const target = `/api/threads/${encodeURIComponent(threadId)}`;
  const { status, json } = await world.post(`${target}/answer`, { confirm: threadId, interruptId, value: 1 });
  expect([status, json.error?.code]).toEqual([409, "UNKNOWN_INTERRUPT"]);
  expect((await world.get(target)).report.state).toBe("waiting");
});

test.each([
  [null, "null"],
  ["", ""],
  [{ ["0".repeat(32)]: "it looks like an id" }, "[object Object]"],
])("S10.2 an answer may be any JSON: %j", async (value, text) => {
  const threadId = `any-${JSON.stringify(value)}`;
  await run(threadId, "first", 103);
  const target = `/api/threads/${encodeURIComponent(threadId)}`;
  const { json } = await answered(threadId, value);
  expect(json.error).toBeUndefined();
  await until(encodeURIComponent(threadId), "finished");
  const { channels } = await world.get(`${target}/state?channel=note`);
  expect(channels).toMatchObject([{ value: `answered ${text}` }]);
});

test("S10.2 of two answers at the same time one counts, and the other is refused", async () => {
  await run("twice", "first", 104);
  const [{ id: interruptId }] = (await world.get("/api/threads/twice")).report.questions;
  const send = (value: string) => world.post("/api/threads/twice/answer", { confirm: "twice", interruptId, value });
  const sent = await Promise.all([send("one"), send("two")]);
  expect(sent.map(({ status }) => status).sort()).toEqual([200, 409]);
  await until("twice", "finished");
  const { channels } = await world.get("/api/threads/twice/state?channel=note");
  expect(channels).toMatchObject([{ value: `answered ${sent[0]?.status === 200 ? "one" : "two"}` }]);
});

test("S10.5 what the terminal is told of a run has no sequence that a terminal obeys, from a thread's id", async () => {
  const threadId = "\u001b]0;title\u0007";
  await run(threadId, "first", 600);
  const target = `/api/threads/${encodeURIComponent(threadId)}`;
  await answered(threadId, "go");
  await until(encodeURIComponent(threadId), "failed");
  await world.post(`${target}/resume`, { confirm: threadId });
  await until(encodeURIComponent(threadId), "failed");
  for (const report of world.reports as [what: string, error: unknown][]) expect(report[0]).not.toContain("\u001b");
});

test("S10.2 an answer returns while the thread runs, and a second one is refused meanwhile", async () => {
  await run("slow", "first", 500);
  const [{ id: interruptId }] = (await world.get("/api/threads/slow")).report.questions;
  const send = () => world.post("/api/threads/slow/answer", { confirm: "slow", interruptId, value: "go" });
  const { status, json } = await send();
  expect([status, json.running]).toEqual([200, true]);
  const { answers } = await until("slow", "running");
  expect(answers.resume.headline).toBe("No, it's running");
  const second = await send();
  expect([second.status, second.json.error.code]).toEqual([409, "THREAD_RUNNING"]);
  while (release === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
  release();
  await until("slow", "finished");
});

test("S10.2 if the program ends while a run from the page is running, it tells where the run stopped and how it continues", async () => {
  const own = openSaver(tempFile());
  let finish: (() => void) | undefined;
  const graph = new StateGraph(Order)
    .addNode("ask", () => ({ note: String(interrupt("Go?")) }))
    .addNode("wait", async () => {
      await new Promise<void>((resolve) => (finish = resolve));
      return {};
    })
    .addNode("pack", () => ({}))
    .addEdge(START, "ask")
    .addEdge("ask", "wait")
    .addEdge("wait", "pack")
    .addEdge("pack", END);
  const ownRunner = new GraphRunner(graph.compile({ checkpointer: own })) as unknown as GraphRunner<never>;
  const page = await viewing(own, { write: true, graph: { runner: ownRunner, name: "./agent.ts#graph" } });
  await ownRunner.invoke({ total: 1 }, { threadId: "stops", taskId: "first" } as never);
  const [{ id: interruptId }] = (await page.get("/api/threads/stops")).report.questions;
  const { json } = await page.post("/api/threads/stops/answer", { confirm: "stops", interruptId, value: "go" });
  expect(json.running).toBe(true);
  while (finish === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
  const draining = own.drain();
  finish();
  await draining;
  await page.close();
  expect(page.reports).toEqual([
    [
      'thread "stops" stopped before node "pack", because this program ends. Everything that completed is kept. Continue: turns resume stops --graph ./agent.ts#graph --yes',
      undefined,
    ],
  ]);
});

test("S10.2 a failed thread is resumed; what it fails with is an answer", async () => {
  await run("fails", "first", 600);
  await answered("fails", "go");
  const { answers } = await until("fails", "failed");
  expect(answers.resume).toMatchObject({ tone: "good", command: "turns resume fails --graph ./agent.ts#graph --yes" });
  const { status, json } = await world.post("/api/threads/fails/resume", { confirm: "fails" });
  expect(status).toBe(200);
  // It may fail before anybody saw it run.
  if (!json.running) expect(json.headline).toBe("It ran and failed: Error: no stock");
  const found = await until("fails", "failed");
  expect(found.answers.did.text).toContain("wait failed: Error: no stock");
  // The answer is no retry, and the second try of the node that failed is one.
  const [task] = (await world.get("/api/threads/fails/timeline")).tasks;
  expect(task.retries).toBe(1);
});

test("S10.2 without a graph nothing runs, and the answer says how to start it", async () => {
  await run("alone", "first", 700);
  for (const [what, body] of [
    ["resume", { confirm: "alone" }],
    ["answer", { confirm: "alone", interruptId: "0".repeat(32), value: 1 }],
  ] as const) {
    const { status, json } = await withoutGraph.post(`/api/threads/alone/${what}`, body);
    expect([status, json.error.code]).toEqual([409, "NO_GRAPH"]);
    expect(json.error.message).toContain("--graph");
  }
});

test("S10.2 a graph with none of a thread's nodes isn't offered to resume it, and the page says how it's started with one", async () => {
  await run("foreign", "first", 60).catch(() => undefined);
  const own = await world.get("/api/threads/foreign");
  expect([own.start, own.answers.resume.command]).toEqual([null, "turns resume foreign --graph ./agent.ts#graph --yes"]);
  const other = new StateGraph(Order)
    .addNode("other", () => ({}))
    .addEdge(START, "other")
    .addEdge("other", END);
  const graph = { runner: new GraphRunner(other.compile({ checkpointer: saver })) as never, name: "./other.ts" };
  const foreign = await viewing(saver, { write: true, graph });
  for (const [served, start] of [
    [foreign, "turns web --write --graph MODULE#EXPORT"],
    [withoutGraph, "turns web --write --graph MODULE#EXPORT"],
  ] as const) {
    const told = await served.get("/api/threads/foreign");
    expect([told.start, told.answers.resume.command]).toEqual([start, "turns resume foreign --graph MODULE#EXPORT --yes"]);
  }
  await foreign.close();
});

test("S10.2 a rewind is shown, done and taken back", async () => {
  await run("back", "first", 1);
  await run("back", "second", 2);
  const plan = await world.get("/api/threads/back/rewind?to=first");
  expect(plan).toMatchObject({ refused: null, tasks: ["second"], headline: "To first: undoes viewer-pay" });
  expect(plan.effects).toMatchObject([{ name: "viewer-pay", verdict: "undo", words: "its undo is called" }]);
  expect(undone).toEqual([]);
  const { status, json } = await world.post("/api/threads/back/rewind", { confirm: "back", toTask: "first" });
  expect([status, json.headline]).toEqual([200, "Rewound to first: 1 task removed, 1 effect undone."]);
  expect(undone).toEqual(["refund 2"]);
  expect((await world.get("/api/threads/back")).tasks).toEqual(["first"]);
  const [{ id, status: how, command, undone: effects }] = (await world.get("/api/threads/back/rewinds")).rewinds;
  // Without the option it would be refused.
  expect([how, command, effects]).toEqual(["done", `turns take-back ${id} --despite-undone --yes`, 1]);
  expect(json.command).toBe(command);
  const refused = await world.post(`/api/rewinds/${id}/take-back`, { confirm: "back" });
  expect(refused.status).toBe(409);
  const wrong = await world.post(`/api/rewinds/${id}/take-back`, { confirm: "asks", despiteUndone: true });
  expect([wrong.status, wrong.json.error.code]).toEqual([400, "NOT_CONFIRMED"]);
  const taken = await world.post(`/api/rewinds/${id}/take-back`, { confirm: "back", despiteUndone: true });
  expect(taken.status).toBe(200);
  expect((await world.get("/api/threads/back")).tasks).toEqual(["first", "second"]);
  expect((await world.get("/api/threads/back/rewinds")).rewinds).toMatchObject([{ status: "taken-back", command: null }]);
});

test("S10.2 of two rewinds the later one is taken back first", async () => {
  for (const [task, amount] of [["first", 1], ["second", 2], ["third", 3]] as const) await run("twice", task, amount); // prettier-ignore
  for (const toTask of ["second", "first"]) await world.post("/api/threads/twice/rewind", { confirm: "twice", toTask });
  const commands = async (): Promise<unknown[]> =>
    (await world.get("/api/threads/twice/rewinds")).rewinds.map(({ toTask, command }: any) => [toTask, command !== null]);
  const takeBack = async (to: string): Promise<number> => {
    const { rewinds } = await world.get("/api/threads/twice/rewinds");
    const { id } = rewinds.find(({ toTask }: any) => toTask === to);
    return (await world.post(`/api/rewinds/${id}/take-back`, { confirm: "twice", despiteUndone: true })).status;
  };
  expect(await commands()).toEqual([["first", true], ["second", false]]); // prettier-ignore
  expect(await takeBack("second")).toBe(409);
  expect(await takeBack("first")).toBe(200);
  expect(await commands()).toEqual([["first", false], ["second", true]]); // prettier-ignore
  expect(await takeBack("second")).toBe(200);
  expect((await world.get("/api/threads/twice")).tasks).toEqual(["first", "second", "third"]);
});

test("S10.2 of two rewinds to the same task either can be the one that is taken back", async () => {
  const target = "/api/threads/same";
  await run("same", "first", 1);
  for (const [task, amount] of [
    ["second", 2],
    ["third", 3],
  ] as const) {
    await run("same", task, amount);
    await world.post(`${target}/rewind`, { confirm: "same", toTask: "first" });
  }
  const [newer, older] = (await world.get(`${target}/rewinds`)).rewinds;
  expect([newer.command, older.command]).toEqual([newer, older].map(({ id }) => `turns take-back ${id} --despite-undone --yes`));
  const taken = await world.post(`/api/rewinds/${older.id}/take-back`, { confirm: "same", despiteUndone: true });
  expect([taken.status, taken.json.error]).toEqual([200, undefined]);
  expect((await world.get(target)).tasks).toEqual(["first", "second"]);
});

test("S10.2 a rewind is offered to be taken back if and only if that isn't refused, and else the page says why", async () => {
  const target = "/api/threads/why";
  const told = async (): Promise<any[]> => (await world.get(`${target}/rewinds`)).rewinds;
  /** Tries every rewind that is said to be impossible; one that is possible would change the thread. */
  const refused = async (): Promise<(string | null)[]> => {
    const rewinds = await told();
    const { state } = (await world.get(target)).report;
    for (const { id, refused: why, command } of rewinds) {
      expect(command === null).toBe(why !== null);
      if (why === null) continue;
      const { status, json } = await world.post(`/api/rewinds/${id}/take-back`, { confirm: "why", despiteUndone: true });
      expect([status, state === "running" ? why.code : json.error.code]).toEqual([409, why.code]);
    }
    return rewinds.map((rewind) => rewind.refused?.message ?? null);
  };
  for (const [task, amount] of [["first", 1], ["second", 2], ["third", 3]] as const) await run("why", task, amount); // prettier-ignore
  const rewind = (toTask: string, archive = true) => runner.rewind({ threadId: "why", toTask, archive });
  await rewind("second");
  expect(await refused()).toEqual([null]);
  await run("why", "fourth", 4);
  expect(await refused()).toEqual([expect.stringContaining("newer work")]);
  await rewind("second", false);
  expect(await refused()).toEqual(["Nothing of what it removed was kept.", null]);
  await rewind("first");
  const later = "A later rewind went further back. Take that one back first.";
  expect(await refused()).toEqual([null, "Nothing of what it removed was kept.", later]);
  const [{ id }] = await told();
  await runner.takeBackRewind(id, { despiteUndone: true });
  expect(await refused()).toEqual([
    expect.stringContaining("It was taken back at "),
    "Nothing of what it removed was kept.",
    null,
  ]);
  await run("why", "waits", 500).catch(() => undefined);
  release = undefined;
  const running = answered("why", "go");
  while (release === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
  expect((await refused()).at(-1)).toMatch(/^Process \d+ on .* is running the thread\.$/);
  (release as () => void)();
  await running;
  await until("why", "finished");
});

test("S10.2 a refused rewind says on the page what to do there, with the database in commands", async () => {
  await run("gap", "first", 1);
  await run("gap", "second", 2);
  const place = await viewing(saver, { write: true, program: "turns agent.db" });
  const unloaded = (verdict: string) =>
    rewindRefusal("EFFECT_UNCOMPENSATED", "gap", [{ id: "e", name: "pay", verdict } as never], "turns");
  expect(unloaded("missing")).toBe("Nothing here can undo pay. Tick the box to leave it as it is.");
  expect(unloaded("unregistered")).toContain("The undos are in your code: start the page with --graph.");
  const effects = [{ id: "-e", name: "pay", verdict: "in-doubt" }] as never;
  expect(rewindRefusal("EFFECT_IN_DOUBT", "gap", effects, "turns agent.db")).toBe(
    "Nobody knows whether pay happened. Settle it first: turns agent.db effect resolve -- -e done",
  );
  const unknown = [{ id: "e", name: "pay", status: "in-doubt", verdict: "unregistered" }] as never;
  expect(rewindRefusal("EFFECT_IN_DOUBT", "gap", unknown, "turns agent.db")).toBe(
    "Nobody knows whether pay happened. Its undo may be in your code: start the page with --graph. " +
      "Settle it first: turns agent.db effect resolve e done",
  );
  const broken = await new Promise<any>((resolve) => {
    failing = true;
    resolve(place.post("/api/threads/gap/rewind", { confirm: "gap", toTask: "first" }));
  });
  failing = false;
  expect([broken.status, broken.json.error.code]).toEqual([409, "UNDO_FAILED"]);
  expect(broken.json.error.message).toBe(
    "An undo failed, and nothing was deleted. The same rewind again continues it. To give it up: turns agent.db rewind gap --abandon --yes",
  );
  const plan = await place.get("/api/threads/gap/rewind?to=second");
  expect(plan.refused).toMatchObject({
    code: "REWIND_UNFINISHED",
    message: expect.stringContaining("turns agent.db rewind gap"),
  });
  const resumed = await world.post("/api/threads/gap/resume", { confirm: "gap" });
  expect([resumed.status, resumed.json.error.code]).toEqual([409, "REWIND_UNFINISHED"]);
  expect(resumed.json.error.message).toContain("A rewind was begun and isn't finished.");
  for (const { message } of [plan.refused, broken.json.error, resumed.json.error])
    expect(message).not.toMatch(/saver\.|allowUncompensated/);
  await place.close();
});

test.each(["", "back-2", "asks"])("S10.2 nothing is taken back when %j is typed for the thread's id", async (typed) => {
  const threadId = `back-${typed}-`;
  await run(threadId, "first", 1);
  await run(threadId, "second", 2);
  await world.post(`/api/threads/${threadId}/rewind`, { confirm: threadId, toTask: "first" });
  const [{ id }] = (await world.get(`/api/threads/${threadId}/rewinds`)).rewinds;
  const { status, json } = await world.post(`/api/rewinds/${id}/take-back`, { confirm: typed, despiteUndone: true });
  expect([status, json.error?.code]).toEqual([400, "NOT_CONFIRMED"]);
  expect((await world.get(`/api/threads/${threadId}`)).tasks).toEqual(["first"]);
});

longTest("S10.5 a rewind may take longer than a client may take to read the answer", async () => {
  await run("long", "first", 1);
  await run("long", "second", 900);
  const impatient = await viewing(saver, {
    ...{ write: true, graph: { runner, name: "./agent.ts#graph" } },
    patience: { reading: SLOW_MS / 5 },
  });
  const { status, json } = await impatient.post("/api/threads/long/rewind", { confirm: "long", toTask: "first" });
  expect([status, json.headline]).toEqual([200, "Rewound to first: 1 task removed, 1 effect undone."]);
  expect(undone).toContain("refund 900");
  await impatient.close();
});

test("S10.2 S3.3 a thread whose graph has changed since isn't offered to be resumed: a person decides, with a command", async () => {
  await run("drifts", "only", 60);
  const changed = new StateGraph(Order)
    .addNode("pay", () => ({ note: "not paid" }))
    .addNode("ask", () => ({}))
    .addNode("wait", () => ({}))
    .addEdge(START, "pay")
    .addEdge("pay", "ask")
    .addEdge("ask", "wait")
    .addEdge("wait", END)
    .compile({ checkpointer: saver });
  const other = new GraphRunner(changed) as unknown as GraphRunner<never>;
  const page = await viewing(saver, { write: true, graph: { runner: other, name: "./agent.ts#changed" } });
  const { answers, canResume } = await page.get("/api/threads/drifts");
  expect([canResume, answers.resume]).toEqual([
    false,
    {
      headline: "Not before somebody decides",
      text: expect.stringMatching(/isn't the one that it ran in: .*pay.*--drift restart\.$/),
      command: "turns resume drifts --graph ./agent.ts#changed --drift continue",
      tone: "attention",
      times: [],
    },
  ]);
  await page.close();
  expect((await world.get("/api/threads/drifts")).canResume).toBe(true);
});

test("S10.2 a rewind to a task that isn't there is refused with the tasks that are", async () => {
  const asked = await world.ask("/api/threads/back/rewind?to=nowhere");
  expect([asked.status, asked.json.error.code]).toEqual([404, "UNKNOWN_TASK"]);
  const { status, json } = await world.post("/api/threads/back/rewind", { confirm: "back", toTask: "nowhere" });
  expect([status, json.error.code]).toEqual([404, "UNKNOWN_TASK"]);
  expect(json.error.data.tasks).toEqual(["first", "second"]);
});

test("S10.2 an effect in doubt is settled by hand, once", async () => {
  const died = runToEnd(path.join(__dirname, "..", "cli", "cli-world.ts"), ["dies", place]);
  expect(died.signal).toBe("SIGKILL");
  const { effects } = await world.get("/api/threads/killed/effects");
  expect(effects).toMatchObject([{ name: "ship", status: "in-doubt", note: expect.stringContaining("A resume asks its probe") }]);
  const [{ id, command }] = effects;
  expect(command).toBe(`turns effect resolve ${id} done`);
  const unconfirmed = await world.post(`/api/effects/${id}/resolve`, { confirm: "back", outcome: "done" });
  expect([unconfirmed.status, unconfirmed.json.error.code]).toEqual([400, "NOT_CONFIRMED"]);
  const pointless = await world.post(`/api/effects/${id}/resolve`, { confirm: "killed", outcome: "not-done", result: 1 });
  expect(pointless.status).toBe(400);
  const body = { confirm: "killed", outcome: "done", result: { no: 5 } };
  const { status, json } = await world.post(`/api/effects/${id}/resolve`, body);
  expect([status, json.headline]).toEqual([200, "ship is settled: it happened."]);
  const again = await world.post(`/api/effects/${id}/resolve`, body);
  expect([again.status, again.json.error.code]).toEqual([409, "EFFECT_NOT_IN_DOUBT"]);
  const after = (await world.get("/api/threads/killed/effects")).effects;
  expect(after).toMatchObject([{ status: "done", settledBy: "person", result: { value: { no: 5 } } }]);
});

test("S10.2 changes to what isn't there are 404", async () => {
  for (const [target, body] of [
    ["/api/effects/no-such/resolve", { confirm: "back", outcome: "done" }],
    ["/api/threads/no-such/rewind", { confirm: "no-such", toTask: "first" }],
    ["/api/nothing", {}],
  ] as const)
    expect([target, (await world.post(target, body)).status]).toEqual([target, 404]);
  expect(world.reports.filter((report) => String(report).includes("a request failed"))).toEqual([]);
});

test("S10.2 who never got the answer to a change can look up what came of it", async () => {
  const since = async (mark: string): Promise<string> =>
    (await world.get(`/api/threads/looked-up/since?mark=${encodeURIComponent(mark)}`)).headline;
  await run("looked-up", "first", 1);
  await run("looked-up", "second", 2);
  const before = (await world.get("/api/threads/looked-up/since")).mark;
  expect(await since(before)).toBe("Nothing has happened on the thread since then.");
  const { json } = await world.post("/api/threads/looked-up/rewind", { confirm: "looked-up", toTask: "first" });
  expect(await since(before)).toBe("The rewind to first is done.");
  const [{ id }] = (await world.get("/api/threads/looked-up/rewinds")).rewinds;
  expect(json.command).toContain(id);
  await world.post(`/api/rewinds/${id}/take-back`, { confirm: "looked-up", despiteUndone: true });
  expect(await since(before)).toBe("The rewind to first was taken back.");
  await run("looked-up", "third", 3);
  expect(await since(before)).toContain("3 nodes started since then: pay, ask and wait.");
});
