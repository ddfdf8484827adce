import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { internalsOf } from "../../src/testing-internal";
import { makeThreads } from "../cli/cli-world";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { merged, type Shape, shapeOf } from "./shape-of";
import { openToLook, runToEnd, viewing, type World } from "./viewer-world";

jest.setTimeout(300_000);

const place = tempFile();
const GOLDEN = path.join(__dirname, "api-shapes.json");
let writer: TurnSaver;
let saver: TurnSaver;
let world: World;

const at = (threadId: string, taskId = "only") => ({ configurable: { thread_id: threadId, task_id: taskId } });
const messages = MessagesAnnotation.spec.messages;

/** A conversation with tools, a nested graph, and a node that succeeds at the second try. */
async function makeRichThreads(on: TurnSaver): Promise<void> {
  const State = Annotation.Root({
    messages,
    tries: Annotation<number>,
    steps: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
  });
  const inner = new StateGraph(State)
    .addNode("look", () => ({ steps: ["look"] }))
    .addNode("tool", () => ({
      messages: [
        new AIMessage({
          content: "",
          tool_calls: [
            { id: "call-1", name: "search", args: { q: "light" } },
            { id: "call-2", name: "search", args: { q: "house" } },
          ],
        }),
        new ToolMessage({ content: "found 1", tool_call_id: "call-1", name: "search" }),
        new ToolMessage({ content: "no network", tool_call_id: "call-2", name: "search", status: "error" }),
      ],
    }))
    .addEdge(START, "look")
    .addEdge("look", "tool")
    .addEdge("tool", END)
    .compile();
  let calls = 0;
  const graph = new StateGraph(State)
    .addNode("sub", inner)
    .addNode(
      "flaky",
      () => {
        calls += 1;
        if (calls === 1) throw new Error("429 Too Many Requests");
        return { steps: ["flaky"] };
      },
      { retryPolicy: { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false } },
    )
    .addNode("say", () => ({ messages: [new AIMessage({ content: [{ type: "text", text: "It is 30 m high." }] })] }))
    .addNode("skip", () => ({}))
    .addEdge(START, "sub")
    .addEdge("sub", "flaky")
    .addConditionalEdges("flaky", () => "say", ["say", "skip"])
    .addEdge("say", END)
    .addEdge("skip", END);
  await on.attach(graph.compile({ checkpointer: on })).invoke({ messages: [new HumanMessage("How high?")] }, at("rich"));
  for (const task of ["one", "two", "three"]) await longRun(on, "rewound", task, 2);
  await on.rewind({ threadId: "rewound", toTask: "one" });
}

/** So many steps of one node. */
async function longRun(on: TurnSaver, threadId: string, taskId: string, steps: number): Promise<void> {
  const State = Annotation.Root({ count: Annotation<number> });
  const graph = new StateGraph(State)
    .addNode("step", ({ count }) => ({ count: count + 1 }))
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ count }) => (count < steps ? "step" : END));
  await on
    .attach(graph.compile({ checkpointer: on }))
    .invoke({ count: 0 }, { ...at(threadId, taskId), recursionLimit: steps + 5 });
}

/** A list that grows, then grows otherwise from an earlier checkpoint, and then changes in its middle. */
async function makeEditedThread(on: TurnSaver): Promise<void> {
  const long = (text: string): string => `${text} ${"x".repeat(200)}`;
  let calls = 0;
  const graph = on.attach(
    new StateGraph(Annotation.Root({ list: Annotation<string[]> }))
      .addNode("grow", ({ list }) => ({ list: [...list, long(`call ${(calls += 1)}`)] }))
      .addEdge(START, "grow")
      .addEdge("grow", END)
      .compile({ checkpointer: on }),
  );
  await graph.invoke({ list: [long("one"), long("two")] }, at("edited"));
  for await (const { next, config } of graph.getStateHistory(at("edited")))
    if (next.includes("grow")) await graph.invoke(null, config);
  const { values } = await graph.getState(at("edited"));
  const [first = "", , ...rest] = (values as { list: string[] }).list;
  await graph.updateState(at("edited"), { list: [first, long("other"), ...rest, long("more")] });
}

const DEEP = 10_000;
const LONG = 5_000_000;

/** Content as somebody would forge it. */
async function makeHostileThread(on: TurnSaver): Promise<void> {
  const State = Annotation.Root({ messages, data: Annotation<Record<string, unknown>>, text: Annotation<string> });
  const graph = new StateGraph(State)
    .addNode("<script>alert(1)</script>", () => ({
      text: "x".repeat(LONG),
      data: JSON.parse(
        '{"__proto__":{"polluted":true},"constructor":1,"\\u0000":"\\u0000","\\ud800":"lone \\udfff","rtl":"\\u202Eabc"}',
      ) as Record<string, unknown>,
      messages: [new AIMessage("</script><img src=x onerror=alert(1)>\u0000\ud800")],
    }))
    .addEdge(START, "<script>alert(1)</script>")
    .addEdge("<script>alert(1)</script>", END);
  await on
    .attach(graph.compile({ checkpointer: on }))
    .invoke({ messages: [new HumanMessage("x".repeat(LONG))], data: {} }, at("hostile", "task <b>"));
  // The saver refuses what is too deep for the stack: the deepest that it takes.
  for (let levels = DEEP; deepest === 0; levels = Math.floor(levels / 2)) {
    try {
      await on.attach(graph.compile({ checkpointer: on })).invoke({ data: nested(levels), messages: [] }, at(`deep-${levels}`));
      deepest = levels;
    } catch (error) {
      expect(String(error)).toContain("nesting too deep");
    }
  }
}

let deepest = 0;

function nested(levels: number): Record<string, unknown> {
  let deep: unknown = "bottom";
  for (let level = 0; level < levels; level += 1) deep = level % 2 === 0 ? [deep] : { deep };
  return { deep };
}

beforeAll(async () => {
  writer = openSaver(place);
  await makeThreads(writer);
  await makeRichThreads(writer);
  await makeHostileThread(writer);
  await longRun(writer, "long", "only", 500);
  await makeEditedThread(writer);
  const died = runToEnd(path.join(__dirname, "..", "cli", "cli-world.ts"), ["dies", place]);
  expect(died.signal).toBe("SIGKILL");
  saver = openToLook(place);
  world = await viewing(saver);
}, 400_000);

afterAll(async () => {
  await world.close();
  await (saver.close() as unknown);
  await (writer.close() as unknown);
});

/** One name per route, and addresses that show it with and without everything that may be there. */
const ROUTES: Readonly<Record<string, readonly string[]>> = {
  "/api/server": ["/api/server"],
  "/api/overview": ["/api/overview"],
  "/api/threads": ["/api/threads", "/api/threads?limit=1&sort=id", "/api/threads?status=waiting,in-doubt&search=I"],
  "/api/threads/:id": ["finished", "failed", "waiting", "killed", "rich", "rewound"].map((id) => `/api/threads/${id}`),
  "/api/threads/:id/timeline": ["finished", "failed", "waiting", "killed", "rich", "rewound"].flatMap((id) => [
    `/api/threads/${id}/timeline`,
    `/api/threads/${id}/timeline?limit=1`,
  ]),
  "/api/threads/:id/turns/:turn": ["finished", "failed", "waiting", "killed"].map((id) => `/api/threads/${id}/turns/TURN`),
  "/api/threads/:id/state": ["finished", "hostile"].map((id) => `/api/threads/${id}/state`),
  "/api/threads/:id/diff": [
    "/api/threads/finished/diff?from=first&to=second",
    "/api/threads/hostile/diff",
    "/api/threads/rich/diff",
  ],
  "/api/threads/:id/blame": [
    "/api/threads/finished/blame?channel=total",
    "/api/threads/finished/blame?channel=total&limit=1",
    "/api/threads/finished/blame?channel=messages",
  ],
  "/api/threads/:id/messages": ["finished", "rich", "hostile"].map((id) => `/api/threads/${id}/messages`),
  "/api/threads/:id/effects": ["finished", "killed"].flatMap((id) => [
    `/api/threads/${id}/effects`,
    `/api/threads/${id}/effects?limit=1`,
  ]),
  "/api/threads/:id/rewinds": ["/api/threads/rewound/rewinds"],
  "/api/threads/:id/rewind": ["/api/threads/finished/rewind?to=first"],
  "/api/threads/:id/since": ["/api/threads/rewound/since"],
  "/api/threads/:id/graph": ["finished", "rich", "killed"].map((id) => `/api/threads/${id}/graph`),
  "/api/threads/:id/channels": ["/api/threads/finished/channels"],
  "/api/threads/:id/tokens": ["/api/threads/finished/tokens"],
  "/api/search": ["/api/search?q=failed", "/api/search?q=plan&thread=finished", "/api/search?q=ship"],
  "/api/threads/:id/bundle": ["failed", "killed", "waiting", "rich"].map((id) => `/api/threads/${id}/bundle?redact=1`),
};

async function numbersOf(threadId: string): Promise<number[]> {
  const { tasks } = await world.get(`/api/threads/${threadId}/timeline?limit=2000`);
  const bars = tasks.flatMap((task: any) => task.lanes.flatMap((lane: any) => lane.bars));
  return bars.map(({ number }: any) => number).sort((one: number, other: number) => one - other);
}

test.each(Object.keys(ROUTES))("S10.2 the answer of %s has the shape of the golden", async (route) => {
  const shapes: Shape[] = [];
  for (const target of ROUTES[route] ?? []) {
    const [, threadId = ""] = /threads\/(\w+)\/turns/.exec(target) ?? [];
    const turns = target.endsWith("TURN") ? await numbersOf(threadId) : [0];
    for (const turn of turns) shapes.push(shapeOf(await world.get(target.replace("TURN", String(turn)))));
  }
  const shape = shapes.reduce(merged);
  const golden = existsSync(GOLDEN) ? (JSON.parse(readFileSync(GOLDEN, "utf8")) as Record<string, Shape>) : {};
  // A new field: TURNS_WRITE_GOLDEN=1 npx jest -c jest.short.config.mjs viewer/api. Then look at what has changed.
  if (process.env["TURNS_WRITE_GOLDEN"] !== undefined)
    writeFileSync(GOLDEN, `${JSON.stringify({ ...golden, [route]: shape }, undefined, 2)}\n`);
  else expect(shape).toEqual(golden[route]);
});

describe("the four answers", () => {
  const answersOf = async (threadId: string) => (await world.get(`/api/threads/${threadId}`)).answers;

  test("S10.2 of a thread that is finished", async () => {
    expect(await answersOf("finished")).toMatchObject({
      did: { headline: "Finished 2 tasks; the last one called cli-charge", tone: "plain" },
      inFlight: { headline: "Nothing", command: null },
      resume: { headline: "There is nothing to resume", command: null },
      rewind: { headline: "To first: undoes cli-charge", command: "turns rewind finished --to first --graph MODULE#EXPORT" },
    });
  });

  test("S10.2 of a thread that failed", async () => {
    const answers = await answersOf("failed");
    expect(answers).toMatchObject({
      did: { headline: "Ran plan", text: expect.stringContaining("charge failed: Error: card declined"), tone: "attention" },
      resume: { headline: "Yes. It runs charge again", text: expect.stringContaining("Keeps plan."), tone: "good" },
      rewind: { headline: "There is no earlier task" },
    });
    expect(answers.resume.command).toBe("turns resume failed --graph MODULE#EXPORT --yes");
  });

  test("S10.2 of a thread that waits for an answer", async () => {
    expect(await answersOf("waiting")).toMatchObject({
      did: { headline: "Called cli-charge" },
      inFlight: { headline: "ask waits for an answer", text: "Ship it?", command: "turns inbox" },
      resume: { headline: "Not before somebody answers" },
    });
  });

  test("S10.2 of a thread whose process was killed in the middle of an effect", async () => {
    const { did, inFlight, resume } = await answersOf("killed");
    expect(did.headline).toBe("Ran plan");
    expect(inFlight.headline).toMatch(/^charge, since \d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(inFlight.text).toMatch(/^Process \d+ on .* is gone\. ship: 1 in doubt\.$/);
    expect(resume).toMatchObject({ headline: "Yes, if a probe settles ship", tone: "attention" });
    // The plan of a resume tells whether there is a probe.
    expect(resume.command).toBe("turns resume killed --graph MODULE#EXPORT");
    expect(inFlight.command).toBeNull();
  });
});

describe("the list", () => {
  test("S10.2 tells each thread apart in a line, and who needs somebody", async () => {
    const { threads, total } = await world.get("/api/threads?sort=id&limit=100");
    expect(total).toBe(threads.length);
    const by = Object.fromEntries(
      threads.map(({ threadId, state, sentence, needsYou }: any) => [threadId, [state, sentence, needsYou]]),
    );
    expect(by).toMatchObject({
      failed: ["failed", "charge: card declined", true],
      finished: ["finished", "2 tasks", false],
      killed: ["in-doubt", "charge · 1 effect in doubt", true],
      waiting: ["waiting", "“Ship it?”", true],
    });
  });

  test("S10.2 comes in pages, each thread once", async () => {
    const seen: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page: any = await world.get(`/api/threads?limit=2&sort=created&cursor=${encodeURIComponent(cursor)}`);
      expect(page.threads.length).toBeLessThanOrEqual(2);
      seen.push(...page.threads.map(({ threadId }: any) => threadId));
      cursor = page.cursor;
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen).toHaveLength((await world.get("/api/overview")).threads);
  });
});

describe("the timeline", () => {
  test("S10.2 has a lane per node, nested ones behind their own, and retries in place", async () => {
    const { tasks } = await world.get("/api/threads/rich/timeline");
    expect(tasks).toHaveLength(1);
    const [task] = tasks;
    expect(task.lanes.map(({ node, depth }: any) => [node, depth])).toEqual([
      ["sub", 0],
      ["sub|look", 1],
      ["sub|tool", 1],
      ["flaky", 0],
      ["say", 0],
    ]);
    const flaky = task.lanes[3].bars.map(({ attempt, status, error }: any) => [attempt, status, error]);
    expect(flaky).toEqual([
      [1, "error", "Error: 429 Too Many Requests"],
      [2, "ok", null],
    ]);
    expect(task).toMatchObject({
      state: "finished",
      retries: 1,
      words: expect.stringMatching(/^finished in (?:\d{1,2} ms|(?!0\.0)[\d.]+ s), 1 retry$/),
    });
  });

  test("S10.2 shows what was in flight when its process died, and with which effect", async () => {
    const { tasks, before } = await world.get("/api/threads/killed/timeline");
    const [task] = tasks;
    expect([tasks.length, before, task.state, task.endedAt]).toEqual([1, null, "crashed", null]);
    const bar = task.lanes[1].bars[0];
    expect(bar).toMatchObject({ status: "in-flight", actionNumber: null, pid: expect.any(Number) });
    expect(bar.effects).toMatchObject([{ name: "ship", status: "in-doubt", endedAt: null }]);
    expect(task.deaths).toEqual([
      { at: bar.to, pid: bar.pid, host: expect.any(String), nodes: ["charge"], words: `process ${bar.pid} is gone` },
    ]);
    expect(bar.to >= bar.effects[0].at).toBe(true);
  });

  test("S10.2 comes in pages that together have each attempt once", async () => {
    const all = await numbersOf("long");
    expect(all).toHaveLength(500);
    const first = await world.get("/api/threads/long/timeline");
    expect(first.tasks[0].lanes[0].bars).toHaveLength(200);
    expect(first.tasks[0].isCut).toBe(true);
    const seen: number[] = [];
    let before: number | null = null;
    do {
      const page: any = await world.get(`/api/threads/long/timeline?limit=130${before === null ? "" : `&before=${before}`}`);
      seen.push(
        ...page.tasks.flatMap((task: any) => task.lanes.flatMap((lane: any) => lane.bars.map(({ number }: any) => number))),
      );
      before = page.before;
    } while (before !== null);
    expect(seen.sort((one, other) => one - other)).toEqual(all);
  });
});

describe("who wrote a channel", () => {
  const blame = async (query: string) => world.get(`/api/threads/long/blame?channel=count${query}`);

  test("S10.3 comes in pages that together have each change once", async () => {
    const { changes: all, more, cursor: none } = await blame("&limit=500");
    expect([all.length > 300, more, none]).toEqual([true, true, expect.any(String)]);
    const seen: any[] = [];
    let cursor: string | null = null;
    do {
      const page: any = await blame(`&limit=130${cursor === null ? "" : `&cursor=${cursor}`}`);
      seen.push(...page.changes);
      cursor = page.cursor;
    } while (cursor !== null);
    expect(seen.slice(0, 500)).toEqual(all);
    expect(seen.at(-1).change).toBe("first");
  });

  test("S10.3 a list that grew in another place than before was appended to", async () => {
    const { changes } = await world.get("/api/threads/edited/blame?channel=list");
    expect(changes.map(({ change, elements }: any) => [change, elements])).toEqual([
      ["changed", undefined],
      ["appended", [2, 3]],
      ["first", [0, 2]],
    ]);
  });
});

describe("a turn", () => {
  test("S10.3 each has an address, and leads to the one before and after it, and to its checkpoints", async () => {
    const numbers = await numbersOf("finished");
    for (const [index, number] of numbers.entries()) {
      const turn = await world.get(`/api/threads/finished/turns/${number}`);
      expect([turn.number, turn.previous, turn.next]).toEqual([number, numbers[index - 1] ?? null, numbers[index + 1] ?? null]);
      expect(turn.startedFrom.number).toBeLessThan(number);
      expect(turn.endedIn.number).toBeGreaterThan(number);
      const diff = await world.get(
        `/api/threads/finished/diff?from=${turn.startedFrom.checkpointId}&to=${turn.endedIn.checkpointId}`,
      );
      const wrote = turn.node === "plan" ? ["messages", "note"] : turn.node === "charge" ? ["total"] : [];
      expect(diff.channels.map(({ channel }: any) => channel)).toEqual(wrote);
      const { checkpoint } = await world.get(`/api/threads/finished/state?at=${number}`);
      expect(checkpoint).toEqual(turn.startedFrom);
    }
  });

  test("S10.3 one that failed has its error with the stack, one with an effect its input and receipt", async () => {
    const [, failed] = await numbersOf("failed");
    const { error, status, output } = await world.get(`/api/threads/failed/turns/${failed}`);
    expect([status, output, error.name, error.message]).toEqual(["error", null, "Error", "card declined"]);
    // The message is told once.
    expect(error.stack).toMatch(/^ *at .+/);
    expect(error.stack).not.toMatch(/card declined/);
    const [, charged] = await numbersOf("finished");
    const { effects } = await world.get(`/api/threads/finished/turns/${charged}`);
    expect(effects).toMatchObject([
      { name: "cli-charge", input: { value: { total: 1 } }, result: { value: { receipt: "r-1" } } },
    ]);
  });
});

test("S10.3 a diff names channels and values, and a list that only grew", async () => {
  const { channels } = await world.get("/api/threads/finished/diff?from=first&to=second");
  expect(channels).toMatchObject([
    { channel: "messages", change: "appended", appended: 2, added: 2, removed: 0, cut: false, whole: null },
    { channel: "note", change: "changed", differences: [{ path: "", change: "changed", before: "n1", after: "n5" }] },
    { channel: "total", differences: [{ before: 2, after: 6 }] },
  ]);
  const only = await world.get("/api/threads/finished/diff?from=first&to=second&channel=note");
  expect(only.channels.map(({ channel }: any) => channel)).toEqual(["note"]);
});

test("S10.3 messages are a conversation, each tool's result beside its call", async () => {
  const { messages: said, total, before } = await world.get("/api/threads/rich/messages");
  expect([total, before]).toEqual([5, null]);
  expect(said.map(({ role, text, answers }: any) => [role, text, answers])).toEqual([
    ["human", "How high?", null],
    ["ai", "", null],
    ["ai", "It is 30 m high.", null],
  ]);
  expect(said[1].calls).toMatchObject([
    { name: "search", args: { value: { q: "light" } }, result: { index: 2, text: "found 1", failed: false } },
    { name: "search", args: { value: { q: "house" } }, result: { index: 3, text: "no network", failed: true } },
  ]);
  // A page that begins behind the call shows the result by itself.
  const page = await world.get("/api/threads/rich/messages?limit=2");
  expect(page.messages.map(({ role, answers }: any) => [role, answers])).toEqual([
    ["tool", "call-2"],
    ["ai", null],
  ]);
  const earlier = await world.get(`/api/threads/rich/messages?limit=2&before=${page.before}`);
  expect(earlier.messages.map(({ index }: any) => index)).toEqual([1]);
});

test("S10.2 the graph is the recorded one, with the way that the newest task took", async () => {
  const { nodes, edges, digest, drift, mermaid } = await world.get("/api/threads/rich/graph");
  expect(digest).toEqual(expect.any(String));
  const taken = edges.map(({ from, to, kind, taken: times }: any) => [`${from} → ${to}`, kind, times]);
  expect(taken).toEqual(
    expect.arrayContaining([
      ["__start__ → sub", "static", 1],
      ["sub → flaky", "static", 1],
      ["flaky → say", "conditional", 1],
      ["flaky → skip", "conditional", 0],
      ["sub|look → sub|tool", "static", 1],
    ]),
  );
  const by = Object.fromEntries(
    nodes.map(({ id, state, attempts, failed, parent }: any) => [id, [state, attempts, failed, parent]]),
  );
  expect(by).toMatchObject({ flaky: ["done", 2, 1, null], skip: ["not-run", 0, 0, null], "sub|tool": ["done", 1, 0, "sub"] });
  expect(drift).toEqual({ with: null, drifted: false, words: [] });
  expect(mermaid).toMatch(/^flowchart TD\n/);
});

describe("content as somebody would forge it", () => {
  test("S10.5 long texts are cut, and whole on request", async () => {
    const { channels } = await world.get("/api/threads/hostile/state");
    const text = channels.find(({ channel }: any) => channel === "text");
    expect(text).toMatchObject({
      cut: true,
      value: { $cut: "text", shown: "x".repeat(2_000), length: LONG },
      whole: expect.any(String),
    });
    const whole = await world.get(text.whole);
    expect(whole.channels[0].value).toHaveLength(LONG);
    expect(whole.channels[0]).toMatchObject({ cut: false, whole: null });
    const { text: answer } = await world.ask("/api/threads/hostile/messages");
    expect(answer.length).toBeLessThan(20_000);
  });

  test("S10.5 NUL, lone surrogates, marks and keys like __proto__ come through as they are", async () => {
    const { channels } = await world.get("/api/threads/hostile/state?channel=data");
    const [{ value }] = channels;
    expect(Object.keys(value).sort()).toEqual(["\0", "__proto__", "constructor", "rtl", "\ud800"].sort());
    expect(Object.getOwnPropertyDescriptor(value, "__proto__")?.value).toEqual({ polluted: true });
    expect(value).toMatchObject({ "\0": "\0", "\ud800": "lone \udfff", rtl: "\u202Eabc" });
    const { messages: said } = await world.get("/api/threads/hostile/messages");
    expect(said[1].text).toBe("</script><img src=x onerror=alert(1)>\0\ud800");
  });

  test("S10.5 nothing of it is ever sent as a page", async () => {
    for (const route of ["", "/timeline", "/state", "/messages", "/graph", "/bundle", "/bundle?redact=0"]) {
      const { status, headers } = await world.ask(`/api/threads/hostile${route}`);
      expect([route, status, headers["content-type"]]).toEqual([route, 200, "application/json; charset=utf-8"]);
    }
    const { status, headers } = await world.ask("/api/threads/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    expect([status, headers["content-type"]]).toEqual([404, "application/json; charset=utf-8"]);
  });

  test("S10.5 JSON as deep as the saver takes it is answered by every route", async () => {
    expect(deepest).toBeGreaterThan(500);
    const routes = ["", "/timeline", "/state", "/state?whole=1", "/diff", "/messages", "/graph", "/channels", "/bundle"];
    for (const route of routes)
      expect([route, (await world.ask(`/api/threads/deep-${deepest}${route}`)).status]).toEqual([route, 200]);
    expect(world.reports).toEqual([]);
  });
});

test("S10.3 a redacted bundle has nothing of what the thread says", async () => {
  for (const threadId of ["failed", "killed", "rich"]) {
    const { text, headers } = await world.ask(`/api/threads/${threadId}/bundle`);
    expect(headers["content-disposition"]).toBe('attachment; filename="turns-bundle-redacted.json"');
    for (const secret of [
      "card declined",
      "go 2",
      "go 4",
      "planned",
      "How high",
      "30 m high",
      "no network",
      "call-1",
      "429 Too",
      '"only"',
    ])
      expect(text).not.toContain(secret);
    expect(text).not.toContain(__dirname);
  }
  const { text } = await world.ask("/api/threads/failed/bundle?redact=0");
  expect(text).toContain("card declined");
});

test("S10.3 a search finds threads, nodes and content, and says where", async () => {
  const { matches } = await world.get("/api/search?q=CARD%20declined");
  expect(matches).toEqual(
    expect.arrayContaining([expect.objectContaining({ threadId: "failed", kind: "turn", near: "charge" })]),
  );
  expect((await world.get("/api/search?q=FINI")).matches[0]).toMatchObject({ kind: "thread", threadId: "finished" });
  const inside = await world.get("/api/search?q=charge&thread=finished");
  expect(inside.matches[0]).toMatchObject({ kind: "node", excerpt: "charge", number: expect.any(Number) });
  expect((await world.get("/api/search?q=.*(%5B")).matches).toEqual([]);
});

test("S10.3 a search through long values has few of them in memory, and finds what the last one says", async () => {
  const State = Annotation.Root({ count: Annotation<number>, page: Annotation<string> });
  const graph = new StateGraph(State)
    .addNode("step", ({ count }) => ({ count: count + 1, page: `page ${count} ${"x".repeat(400_000)} end ${count}` }))
    .addEdge(START, "step")
    .addConditionalEdges("step", ({ count }) => (count < 12 ? "step" : END));
  await writer.attach(graph.compile({ checkpointer: writer })).invoke({ count: 0 }, at("pages"));
  const { inspect } = internalsOf(saver).store;
  const reading = jest.spyOn(inspect, "texts");
  const { matches } = await world.get("/api/search?q=end%2011&thread=pages");
  const pages: (readonly { text: string }[])[] = [];
  for (const { value } of reading.mock.results) pages.push(await value);
  reading.mockRestore();
  expect(matches).toMatchObject([{ kind: "value", excerpt: expect.stringContaining("end 11") }]);
  const lengths = pages.map((texts) => texts.reduce((sum, { text }) => sum + text.length, 0));
  expect(lengths.reduce((sum, length) => sum + length, 0)).toBeGreaterThan(4_800_000);
  expect(Math.max(...lengths)).toBeLessThan(2_000_000);
});

test("S10.3 what is wrong is said, with the status that belongs to it", async () => {
  const wrong: readonly [target: string, status: number, code: string][] = [
    ["/api/threads?status=sleeping", 400, "INVALID_OPTION"],
    ["/api/threads?sort=size", 400, "INVALID_OPTION"],
    ["/api/threads?limit=-1", 400, "INVALID_OPTION"],
    ["/api/search", 400, "INVALID_OPTION"],
    ["/api/search?q=x&thread=no-such", 404, "THREAD_NOT_FOUND"],
    ["/api/threads/no-such", 404, "THREAD_NOT_FOUND"],
    ["/api/threads/fini", 404, "THREAD_NOT_FOUND"],
    ["/api/threads/finished/turns/99999", 404, "CHECKPOINT_NOT_FOUND"],
    ["/api/threads/finished/turns/99999999999999999999", 404, "CHECKPOINT_NOT_FOUND"],
    [`/api/threads/finished/turns/${"9".repeat(400)}`, 404, "CHECKPOINT_NOT_FOUND"],
    ["/api/threads/finished/state?at=no-such", 404, "CHECKPOINT_NOT_FOUND"],
    ["/api/threads/finished/state?at=9223372036854775808", 404, "CHECKPOINT_NOT_FOUND"],
    ["/api/threads/finished/diff?from=1&to=9223372036854775808", 404, "CHECKPOINT_NOT_FOUND"],
    ["/api/threads/finished/rewind?to=9223372036854775808", 404, "UNKNOWN_TASK"],
    ["/api/threads/finished/state?at=%00", 400, "INVALID_OPTION"],
    ["/api/threads/finished/state?channel=totals", 400, "INVALID_OPTION"],
    ["/api/threads/finished/messages?channel=nothing", 400, "INVALID_OPTION"],
    ["/api/threads/finished/blame?channel=nothing", 400, "INVALID_OPTION"],
    ["/api/threads/finished/rewind", 400, "INVALID_OPTION"],
    ["/api/threads/finished/since?mark=yesterday", 400, "INVALID_OPTION"],
    ["/api/threads/finished/nothing", 404, "NOT_FOUND"],
    ["/api/threads/finished/resume", 405, "WRONG_METHOD"],
    ["/api/nothing", 404, "NOT_FOUND"],
    ["/api/overview/", 404, "NOT_FOUND"],
  ];
  for (const [target, status, code] of wrong) {
    const answer = await world.ask(target);
    expect([target, answer.status, answer.json?.error.code]).toEqual([target, status, code]);
    expect(answer.json.error.message).toMatch(/[.?!]$/);
  }
  expect(world.reports).toEqual([]);
});
