import { HumanMessage } from "@langchain/core/messages";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { defineEffect, GraphRunner, type TurnSaver } from "langgraph-checkpoint-turns";
import { TurnsError } from "langgraph-checkpoint-turns";
import {
  answersOf,
  checkup,
  branchesOf,
  differencesOf,
  type EffectLine,
  inbox,
  listThreads,
  noteOf,
  ofThread,
  overview,
  refusalOf,
  reportOf,
  rewindSentence,
  verdictWords,
} from "../../src/testing-internal";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { makeThread } from "./page-world";
import { viewing, type World } from "./viewer-world";

/* What the page says about differences, rewinds, doubts and long threads. */

jest.setTimeout(300_000);

describe("the differences of two lists", () => {
  const told = (before: unknown, after: unknown) => differencesOf(before, after).map(({ path, change }) => `${change} ${path}`);
  const [one, two] = [{ id: 1 }, { id: 2 }];

  test.each([
    ["that were put in another order", [one, two], [two, one], ["changed [0].id", "changed [1].id"]],
    ["with one element twice", [one], [one, one], ["added [1]"]],
    ["with one element twice before", [one, one], [one], ["removed [1]"]],
    ["with an element put before others", [one, two], [{ id: 3 }, one, two], ["added [0]"]],
    ["with an element removed", [one, two], [two], ["removed [0]"]],
    ["with an element changed", [one, { ...two, text: "a" }], [one, { ...two, text: "b" }], ["changed [1].text"]],
  ])("S10.3 are told of lists %s", (_, before, after, expected) => {
    expect(told(before, after)).toEqual(expected);
  });
});

describe("long lists and many effects", () => {
  const ELEMENTS = 1_500;
  const CALLS = 1_200;
  const letter = defineEffect("answers-letter", { run: (_: { call: number }) => null, undo: false });
  let saver: TurnSaver;
  let world: World;

  beforeAll(async () => {
    saver = openSaver(tempFile());
    const State = Annotation.Root({ calls: Annotation<number>, list: Annotation<number[]>, record: Annotation<object> });
    const graph = new StateGraph(State)
      .addNode("grow", async ({ calls, list }) => {
        for (let call = 0; call < calls; call += 1) await letter({ call });
        const more = Array.from({ length: ELEMENTS }, (_, index) => index);
        return { list: [...list, ...more], record: Object.fromEntries(more.map((index) => [`key-${index}`, index])) };
      })
      .addEdge(START, "grow")
      .addEdge("grow", END)
      .compile({ checkpointer: saver });
    const runner = new GraphRunner(graph);
    await runner.invoke({ calls: CALLS, list: [7], record: {} }, { threadId: "grown", taskId: "first" } as never);
    world = await viewing(saver);
  });
  afterAll(async () => {
    await world.close();
    await (saver.close() as unknown);
  });

  test("S10.3 a list that grew by more than is shown was appended to, and all of it can be asked for", async () => {
    const { channels } = await world.get("/api/threads/grown/diff");
    const [list, record] = channels;
    expect([list.change, list.appended, list.added, list.cut]).toEqual(["appended", ELEMENTS, ELEMENTS, true]);
    expect([record.change, record.added, record.removed, record.cut]).toEqual(["changed", ELEMENTS, 0, true]);
    for (const { whole } of channels) {
      const [{ differences, cut }] = (await world.get(whole)).channels;
      expect([differences.length, cut]).toEqual([ELEMENTS, false]);
    }
  });

  test("S10.3 of many effects the answer says that it didn't count all", async () => {
    const { answers } = await world.get("/api/threads/grown");
    expect(answers.did.headline).toBe("Finished its task and called answers-letter 1,000 or more times");
  });
});

test("S10.3 as many messages can be asked for as there are", async () => {
  const saver = openSaver(tempFile());
  const said = Array.from({ length: 1_300 }, (_, index) => new HumanMessage(`message ${index}`));
  await makeThread(saver, "chat", { messages: said });
  const world = await viewing(saver);
  const { messages, before, total } = await world.get("/api/threads/chat/messages?limit=1350");
  expect([messages.length, messages[0].text, before, total]).toEqual([1_300, "message 0", null, 1_300]);
  await world.close();
  await (saver.close() as unknown);
});

test("S10.3 the oldest checkpoint that is left isn't where a channel was written first", async () => {
  const saver = openSaver(tempFile());
  const graph = new StateGraph(Annotation.Root({ count: Annotation<number> }))
    .addNode("step", ({ count }) => ({ count: count + 1 }))
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ count }) => (count < 20 ? "step" : END))
    .compile({ checkpointer: saver });
  await saver.attach(graph).invoke({ count: 0 }, { configurable: { thread_id: "old", task_id: "only" } });
  const world = await viewing(saver);
  const oldest = async (): Promise<unknown> => (await world.get("/api/threads/old/blame?channel=count")).changes.at(-1).change;
  expect(await oldest()).toBe("first");
  await saver.prune({ threadId: "old", keepLast: 3 });
  expect(await oldest()).toBe("earlier");
  await world.close();
  await (saver.close() as unknown);
});

test("S10.2 the effect that only a probe can settle is named, not another in doubt", async () => {
  const saver = openSaver(tempFile());
  const graph = new StateGraph(Annotation.Root({ count: Annotation<number> }))
    .addNode("step", () => ({}))
    .addEdge(START, "step")
    .addEdge("step", END)
    .compile({ checkpointer: saver });
  await saver.attach(graph).invoke({ count: 1 }, { configurable: { thread_id: "doubts", task_id: "only" } });
  const report = await reportOf(saver, "doubts");
  const doubt = (name: string, settler: "key" | "maybe-probe") => {
    const effect = { id: name, threadId: "doubts", name, node: "step", key: name, tries: 1, startedAt: new Date().toISOString() };
    return { ...effect, idempotent: settler === "key", doubt: "outcome" as const, settler };
  };
  const { resume } = await answersOf(saver, {
    ...report,
    state: "in-doubt",
    inDoubt: [doubt("letter", "key"), doubt("charge", "maybe-probe")],
    resume: { can: "person", why: "nobody knows", kept: [], runs: ["step"] },
  });
  expect(resume.headline).toBe("Yes, if a probe settles charge");
  await (saver.close() as unknown);
});

test("S10.2 S2.6 a node that failed, and asks a question in its next attempt, waits for an answer; one that fails after its answer has failed", async () => {
  const saver = openSaver(tempFile());
  const State = Annotation.Root({ answer: Annotation<string> });
  let broken = true;
  const graph = new StateGraph(State)
    .addNode("ask", () => {
      if (broken) throw new Error("boom");
      const answer = String(interrupt("ok?"));
      if (answer === "no") throw new Error("refused");
      return { answer };
    })
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  await expect(runner.invoke({ answer: "" }, { threadId: "asks", taskId: "only" })).rejects.toThrow("boom");
  expect(await reportOf(saver, "asks")).toMatchObject({ state: "failed", failures: [{ node: "ask" }], resume: { can: "yes" } });
  broken = false;
  await runner.resume({ threadId: "asks" });
  const report = await reportOf(saver, "asks");
  expect(report).toMatchObject({ state: "waiting", failures: [], needsPerson: true, resume: { can: "person" } });
  expect((await answersOf(saver, report)).resume.command).toContain("inbox answer asks");
  // Beside it another node was running when the process stopped.
  const inFlight = [{ node: "works", attempt: 1, since: new Date().toISOString(), number: 1, taskId: "only" }];
  const both = await answersOf(saver, { ...report, state: "interrupted", inFlight });
  expect([both.inFlight.headline, both.inFlight.text]).toEqual([
    expect.stringMatching(/^works, since /),
    expect.stringMatching(/\. ask waits for an answer\.$/),
  ]);
  await expect(runner.invoke(new Command({ resume: "no" }) as never, { threadId: "asks" })).rejects.toThrow("refused");
  expect(await reportOf(saver, "asks")).toMatchObject({ state: "failed", questions: [], resume: { can: "yes" } });
  await (saver.close() as unknown);
});

test("S10.1 S10.2 S4.1 a question beside a failed node needs somebody, as the runner says: only the other node failed", async () => {
  const saver = openSaver(tempFile());
  const graph = new StateGraph(Annotation.Root({ answer: Annotation<string> }))
    .addNode("q", () => ({ answer: String(interrupt("ok?")) }))
    .addNode("bad", () => Promise.reject(new Error("boom")))
    .addEdge(START, "q")
    .addEdge(START, "bad")
    .compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  await expect(runner.invoke({ answer: "" }, { threadId: "both", taskId: "only" })).rejects.toThrow("boom");
  expect(String(await runner.status("both"))).toMatch(/waits for an answer\.\n[^]*Failed: bad, attempt 1/);
  const report = await reportOf(saver, "both");
  expect(report).toMatchObject({ state: "waiting", needsPerson: true, failures: [{ node: "bad" }], questions: [{ node: "q" }] });
  expect(report.resume).toMatchObject({ can: "person", why: "it waits for an answer, and bad failed" });
  expect((await listThreads(saver, { states: ["waiting"] })).threads.map(({ threadId }) => threadId)).toEqual(["both"]);
  expect((await inbox(saver)).map(({ threadId }) => threadId)).toEqual(["both"]);
  await (saver.close() as unknown);
});

test("S10.1 S10.2 of nested graphs the innermost node asks, as the runner says; what failed is told of one node", async () => {
  const saver = openSaver(tempFile());
  const State = Annotation.Root({ answer: Annotation<string> });
  const inner = new StateGraph(State)
    .addNode("ask", () => ({ answer: String(interrupt("deep?")) }))
    .addEdge(START, "ask")
    .compile();
  const middle = new StateGraph(State).addNode("mid", inner).addEdge(START, "mid").compile();
  const graph = new StateGraph(State)
    .addNode("top", middle)
    .addNode("side", () => ({}))
    .addEdge(START, "top")
    .addEdge(START, "side")
    .compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  await runner.invoke({ answer: "" }, { threadId: "asks", taskId: "only" });
  const report = await reportOf(saver, "asks");
  const { waiting } = await runner.status("asks");
  expect(waiting).toMatchObject([{ path: "top|mid|ask" }]);
  expect([...report.questions, ...(await inbox(saver))].map(({ node }) => node)).toEqual(["top|mid|ask", "top|mid|ask"]);
  const asked = await answersOf(saver, report);
  expect(asked.inFlight.headline).toBe("top › mid › ask waits for an answer");
  expect(asked.did.text).toMatch(/^Last: top › mid › ask of only, asked a question /);
  // A node that was stopped because another one failed isn't told beside that.
  const failed = (["side", "top", "top|mid"] as const).map((node, second) => {
    const error = { name: second === 0 ? "Error" : "AbortError", message: "boom" };
    return { node, status: "error", attempt: 1, at: `2026-01-31T03:00:0${second}.000Z`, error };
  });
  const { did } = await answersOf(saver, { ...report, did: { tasks: 1, completed: [], failed, last: failed[2] ?? null } });
  expect(did.text).toBe("Last: side of only, failed 2026-01-31T03:00:00.000Z. side failed: Error: boom");
  expect(did.times).toContain("2026-01-31T03:00:00.000Z");
  await (saver.close() as unknown);
});

test("S10.1 S10.2 S3.5 an undo that failed is no doubt: its thread is finished, and a rewind calls it again", async () => {
  const saver = openSaver(tempFile());
  let isBroken = true;
  const ship = defineEffect("answers-ship", {
    run: () => 1,
    undo: () => {
      if (isBroken) throw new Error("closed");
    },
  });
  const graph = new StateGraph(Annotation.Root({ count: Annotation<number> }))
    .addNode("send", async () => ({ count: await ship(undefined) }))
    .addEdge(START, "send")
    .compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  for (const taskId of ["t1", "t2", "t3"]) await runner.invoke({ count: 0 }, { threadId: "t", taskId });
  await expect(runner.rewind({ threadId: "t", toTask: "t2" })).rejects.toMatchObject({ code: "UNDO_FAILED" });
  const begun = await reportOf(saver, "t");
  expect(begun).toMatchObject({ state: "rewinding", finished: true, needsPerson: true, resume: { kept: [], runs: [] } });
  expect((await answersOf(saver, begun)).did.headline).toBe("Finished 3 tasks; the last one called answers-ship");
  await saver.rewinds.abandon(begun.rewind?.id ?? "");
  const report = await reportOf(saver, "t");
  expect(report).toMatchObject({ state: "finished", needsPerson: false, resume: { can: "no" }, inDoubt: [] });
  expect(report.undoFailed).toMatchObject([{ name: "answers-ship", doubt: "undo-failed", settler: "rewind" }]);
  expect((await runner.status("t")).finished).toBe(true);
  const { did, rewind } = await answersOf(saver, report);
  expect(did.headline).toBe("Finished 3 tasks; the last one called answers-ship");
  expect(rewind.text).toMatch(/^The undo of answers-ship failed: a rewind to before it calls it again\. /);
  expect((await listThreads(saver)).threads).toMatchObject([{ state: "finished", inDoubt: 0 }]);
  expect(await overview(saver)).toMatchObject({ inDoubt: 0 });
  expect((await checkup(saver)).findings).toMatchObject([{ kind: "advice", what: "The undo of an effect failed, on t." }]);
  isBroken = false;
  await runner.rewind({ threadId: "t", toTask: "t2" });
  expect(await reportOf(saver, "t")).toMatchObject({ state: "finished", undoFailed: [] });
  await (saver.close() as unknown);
});

test("S10.2 a task whose name is a time isn't among the times of a sentence", async () => {
  const saver = openSaver(tempFile());
  const taskId = "2026-01-31T03:00:00.000Z";
  const graph = new StateGraph(Annotation.Root({ count: Annotation<number> }))
    .addNode("step", () => ({}))
    .addEdge(START, "step")
    .addEdge("step", END)
    .compile({ checkpointer: saver });
  await saver.attach(graph).invoke({ count: 1 }, { configurable: { thread_id: "nightly", task_id: taskId } });
  const report = await reportOf(saver, "nightly");
  const { did } = await answersOf(saver, report);
  expect(did.text).toContain(`of ${taskId}`);
  expect(did.times).toEqual([report.did.last?.at]);
  expect(did.text).toContain(did.times[0]);
  await (saver.close() as unknown);
});

describe("what a rewind would undo", () => {
  const effect = (name: string, verdict: "undo" | "unregistered" | "ambiguous" | "missing") => {
    return { id: name, name, label: "", nodeName: "node", status: "done" as const, verdict };
  };
  const effects = [effect("pay", "undo"), effect("book", "unregistered"), effect("mail", "ambiguous"), effect("log", "missing")];
  const preview = { toTask: "first", tasks: ["second"], removed: null, effects, refused: null };

  test("S10.2 with the graph loaded an effect whose undo isn't there or isn't clear is left as it is, and told so", () => {
    const { headline, text, tone } = rewindSentence("thread", preview, "./agent.ts#graph", true);
    expect([headline, text, tone]).toEqual(["To first: undoes pay", "Without an undo: book, mail and log.", "attention"]);
    expect(verdictWords("unregistered", true)).toBe("its undo isn't defined in the graph's program");
  });

  test("S10.2 without the graph an undo may be in it", () => {
    const { headline, text } = rewindSentence("thread", preview);
    expect([headline, text]).toEqual(["To first: undoes pay and book", "Without an undo: mail and log."]);
    expect(verdictWords("unregistered")).toBe("its undo, if it has one, needs --graph");
  });

  test("S10.2 without the graph nobody knows whether the undo of an effect in doubt would be called", () => {
    const open = { ...effect("book", "unregistered"), status: "in-doubt" as const };
    const { headline, text } = rewindSentence("thread", { ...preview, effects: [effect("book", "undo"), open] });
    expect([headline, text]).toEqual(["To first: undoes book", "In doubt: book. It may have to be settled first."]);
  });

  test("S10.2 an effect in doubt is told who settles it: a probe is spoken of only where there may be one", () => {
    const started = "It was started, and the process stopped before it reported.";
    const hand = "settle it by hand, as done or not-done.";
    defineEffect("note-without-probe", { run: () => 1, undo: () => undefined });
    defineEffect("note-with-probe", { run: () => 1, undo: () => undefined, probe: () => undefined });
    const told = ([name, undo]: readonly [string, string | null]): string | null =>
      noteOf({
        name,
        undo,
        status: "in-doubt",
        undoStatus: null,
        undoError: null,
        idempotent: false,
        settledBy: null,
      } as EffectLine);
    expect(told(["note-without-probe", "note-without-probe"])).toBe(`${started} It has no probe: ${hand}`);
    expect(told(["note-with-probe", "note-with-probe"])).toBe(`${started} A resume asks its probe. Or ${hand}`);
    expect(told(["unknown", null])).toBe(`${started} A resume asks its probe, if it has one. Or ${hand}`);
  });
});

test("S10.1 S10.2 a thread that needs somebody comes first, no matter how many were saved to since", async () => {
  const saver = openSaver(tempFile());
  const graph = new StateGraph(Annotation.Root({ ask: Annotation<boolean> }))
    .addNode("step", ({ ask }) => (ask ? { ask: interrupt("ok?") === "no" } : {}))
    .addEdge(START, "step")
    .addEdge("step", END)
    .compile({ checkpointer: saver });
  saver.attach(graph);
  const run = (threadId: string, ask: boolean) => graph.invoke({ ask }, { configurable: { thread_id: threadId } });
  await run("answered", true);
  await graph.invoke(new Command({ resume: "yes" }), { configurable: { thread_id: "answered" } });
  await run("asks", true);
  for (let index = 0; index < 210; index += 1) await run(`finished-${index}`, false);
  const { newest, states } = await overview(saver);
  expect(newest.slice(0, 2).map(({ threadId }) => threadId)).toEqual(["asks", "finished-209"]);
  expect(states).toEqual({ waiting: 1, finished: 211 });
  // Pages continue behind a thread of either kind.
  const ids: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await listThreads(saver, { needyFirst: true, limit: 1 + ids.length, cursor });
    ids.push(...page.threads.map(({ threadId }) => threadId));
    if (page.cursor === null) break;
    cursor = page.cursor;
  }
  expect([ids.length, new Set(ids).size, ids[0], ids.at(-1)]).toEqual([212, 212, "asks", "answered"]);
  // The last thread of a page gets its answer before somebody asks for the next page.
  for (const threadId of ["asks too", "asks last"]) await run(threadId, true);
  const first = await listThreads(saver, { needyFirst: true, limit: 1 });
  expect(first.threads[0]?.threadId).toBe("asks last");
  await graph.invoke(new Command({ resume: "yes" }), { configurable: { thread_id: "asks last" } });
  const next = await listThreads(saver, { needyFirst: true, limit: 2, cursor: first.cursor ?? "" });
  expect(next.threads.map(({ threadId }) => threadId)).toEqual(["asks too", "asks"]);
  await expect(listThreads(saver, { needyFirst: true, cursor: "asks" })).rejects.toThrow("Start again without a cursor");
  await (saver.close() as unknown);
});

test.each([
  ["by id", (id: string, answer: string): unknown => ({ [id]: answer })],
  ["without an id", (_: string, answer: string): unknown => answer],
])(
  "S10.2 S4.1 a node's second question is open when the first was answered %s, and one with an answer on record isn't",
  async (_, by) => {
    const saver = openSaver(tempFile());
    const graph = new StateGraph(Annotation.Root({ said: Annotation<string> }))
      .addNode("ask", () => ({ said: `${String(interrupt("one?"))}, ${String(interrupt("two?"))}` }))
      .addEdge(START, "ask")
      .addEdge("ask", END)
      .compile({ checkpointer: saver });
    const runner = new GraphRunner(graph);
    await runner.invoke({ said: "" }, { threadId: "asks", taskId: "only" });
    const asked = async () => (await reportOf(saver, "asks")).questions;
    const [one] = await asked();
    await runner.resume({ threadId: "asks", command: new Command({ resume: by(one?.id ?? "", "1") }) });
    const [two, ...others] = await asked();
    expect([two?.value, others]).toEqual(["two?", []]);
    expect(await reportOf(saver, "asks")).toMatchObject({ state: "waiting", needsPerson: true });
    // As LangGraph saves an answer. Then the process died.
    const head = (await saver.getTuple({ configurable: { thread_id: "asks" } }))?.config;
    await saver.putWrites(head ?? {}, [["__resume__", ["2"]]], two?.id ?? "");
    expect(await asked()).toEqual([]);
    expect((await reportOf(saver, "asks")).resume).toMatchObject({ can: "yes", runs: ["ask"] });
    expect(await runner.resume({ threadId: "asks" })).toEqual({ said: "1, 2" });
    await (saver.close() as unknown);
  },
);

test.each(["STORE_BUSY", "STORE_UNAVAILABLE", "STORE_CLOSED"] as const)(
  "S10.3 a database that gives no answer (%s) isn't shown as a refusal of the thread",
  (code) => {
    const [away, refused] = ([code, "REWIND_CONFLICT"] as const).map(
      (one) => new TurnsError(one, { problem: "It failed.", remedy: "Try again.", data: {} }),
    );
    expect(() => refusalOf(away)).toThrow(away);
    expect(refusalOf(refused)).toBe(refused);
  },
);

test("S10.1 S10.2 a fork isn't told what ran on the branch that it left, and a prune gives no checkpoint another label", async () => {
  const saver = openSaver(tempFile());
  const letter = defineEffect("fork-letter", { run: (_: object) => null, undo: false });
  const graph = new StateGraph(Annotation.Root({ note: Annotation<string> }))
    .addNode("plan", () => ({ note: "planned" }))
    .addNode("work", async () => {
      await letter({});
      return { note: "worked" };
    })
    .addEdge(START, "plan")
    .addEdge("plan", "work")
    .addEdge("work", END)
    .compile({ checkpointer: saver });
  saver.attach(graph);
  const config = { configurable: { thread_id: "fork", task_id: "only" } };
  await graph.invoke({ note: "go" }, config);
  const labels = async () => (await branchesOf(saver, "fork")).checkpoints.map(({ source, nodes }) => nodes.join() || source);
  for await (const { next, config: at } of graph.getStateHistory(config))
    if (next[0] === "work") await graph.updateState(at, { note: "edited" });
  const { did } = await answersOf(saver, await reportOf(saver, "fork"));
  expect(did.headline).toBe("Finished 1 task, then ran plan");
  expect(await labels()).toEqual(["update", "work", "plan", "loop", "input"]);
  await saver.prune({ threadId: "fork", keepLast: 1 });
  expect(await labels()).toEqual(["update", "loop"]);
  expect((await branchesOf(saver, "fork")).checkpoints.map(({ parentGone }) => parentGone)).toEqual([false, true]);
  await (saver.close() as unknown);
});

test("S10.2 a rewind that was taken back says what it undid, also after a later one removed that again", async () => {
  const saver = openSaver(tempFile());
  const pay = defineEffect("back-pay", { run: (_: object) => null, undo: () => undefined });
  const graph = new StateGraph(Annotation.Root({ n: Annotation<number> }))
    .addNode("pay", async () => {
      await pay({});
      return {};
    })
    .addEdge(START, "pay")
    .addEdge("pay", END)
    .compile({ checkpointer: saver });
  saver.attach(graph);
  for (const task of ["one", "two"]) await graph.invoke({ n: 1 }, { configurable: { thread_id: "back", task_id: task } });
  const world = await viewing(saver, {});
  const undone = async () => (await world.get("/api/threads/back/rewinds")).rewinds.map((rewind: any) => rewind.undone);
  const { rewindId = "" } = await saver.rewind({ threadId: "back", toTask: "one" });
  expect(await undone()).toEqual([1]);
  await saver.rewinds.takeBack(rewindId, { despiteUndone: true });
  expect(await undone()).toEqual([1]);
  await saver.rewind({ threadId: "back", toTask: "one" });
  expect(await undone()).toEqual([1, 1]);
  await world.close();
  await (saver.close() as unknown);
});

test("S10.1 S10.2 a question was asked when its node asked it first, not when one beside it was answered", async () => {
  const saver = openSaver(tempFile());
  const ask = (name: string) => () => ({ notes: [`${name} ${String(interrupt(name))}`] });
  const Notes = Annotation.Root({
    notes: Annotation<string[]>({ reducer: (old, more) => [...old, ...more], default: () => [] }),
  });
  const graph = new StateGraph(Notes)
    .addNode("a", ask("a"))
    .addNode("b", ask("b"))
    .addNode("twice", () => ({ notes: [String(interrupt("first")), String(interrupt("second"))] }))
    .addEdge(START, "a")
    .addEdge(START, "b")
    .addEdge(START, "twice")
    .compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  await runner.invoke({ notes: [] }, { threadId: "asks" } as never);
  const asked = async () => {
    const { questions } = await reportOf(saver, "asks");
    return new Map(questions.map(({ value, id, askedAt }) => [value, { id: id ?? "", askedAt }]));
  };
  const before = await asked();
  const answer = (value: string) => new Command({ resume: { [before.get(value)?.id ?? ""]: "yes" } });
  await new Promise((resolve) => setTimeout(resolve, 20));
  await runner.resume({ threadId: "asks", command: answer("a") } as never);
  const [first, second] = [before.get("b"), before.get("first")];
  expect(await asked()).toEqual(
    new Map([
      ["b", first],
      ["first", second],
    ]),
  );
  await runner.resume({ threadId: "asks", command: answer("first") } as never);
  const after = await asked();
  expect([...after.keys()]).toEqual(["b", "second"]);
  expect(after.get("b")).toEqual(first);
  expect((after.get("second")?.askedAt ?? "") > (second?.askedAt ?? "")).toBe(true);
  await (saver.close() as unknown);
});

test("S10.2 an error without a message is told by its name alone", async () => {
  const saver = openSaver(tempFile());
  const graph = new StateGraph(Annotation.Root({ n: Annotation<number> }))
    .addNode("work", () => Promise.reject(new TypeError("")))
    .addEdge(START, "work")
    .addEdge("work", END)
    .compile({ checkpointer: saver });
  await saver
    .attach(graph)
    .invoke({ n: 1 }, { configurable: { thread_id: "quiet", task_id: "only" } })
    .catch(() => undefined);
  const { did } = await answersOf(saver, await reportOf(saver, "quiet"));
  expect(did.text).toMatch(/work failed: TypeError$/);
  await (saver.close() as unknown);
});

test("S10.3 each id has an address that a browser leaves as it is, and each value of a state is told apart from null", async () => {
  const saver = openSaver(tempFile());
  const State = Annotation.Root({ data: Annotation<unknown> });
  const graph = new StateGraph(State)
    .addNode("say", () => ({ data: { none: undefined, list: [undefined, null], nan: NaN, nothing: null } }))
    .addEdge(START, "say")
    .addEdge("say", END)
    .compile({ checkpointer: saver });
  const ids = ["..", ".", "~..", "~~.", "~", "a/b", "/", "\\", "%2e%2e", "?", "#", "a\nb"];
  for (const id of ids) await saver.attach(graph).invoke({}, { configurable: { thread_id: id, task_id: "only" } });
  const world = await viewing(saver, {});
  for (const id of ids) {
    const { pathname } = new URL(ofThread(id), "http://localhost");
    expect([id, (await world.get(pathname)).report.threadId]).toEqual([id, id]);
    expect(await world.get(`${pathname}/state`)).toMatchObject({
      threadId: id,
      channels: [
        { value: { none: { $undefined: "" }, list: [{ $undefined: "" }, null], nan: { $number: "NaN" }, nothing: null } },
      ],
    });
  }
  await world.close();
  await (saver.close() as unknown);
});
