import { spawnSync } from "node:child_process";
import path from "node:path";
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  END,
  entrypoint,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import Database from "better-sqlite3";
import fc from "fast-check";
import { GraphRunner, type Turn, type TurnSaver } from "langgraph-checkpoint-turns";
import { internalsOf, reportOf, type TokenCounts, tokenTotals } from "../../src/testing-internal";
import { z } from "zod";
import { childProgram } from "../support/child-program";
import { tempFile } from "../support/temp";
import { AnsweringModel, type Reply, StreamingModel, usage } from "./tok-model";
import { openSaver } from "../support/open-saver";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const State = Annotation.Root({ x: Annotation<number>() });
const config = { configurable: { thread_id: "t" } };
const savers: TurnSaver[] = [];

afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});

function saverOn(file = tempFile()): TurnSaver {
  const saver = openSaver(file, { logger: quiet });
  savers.push(saver);
  return saver;
}

type Body = (config: LangGraphRunnableConfig) => Promise<unknown>;

/** A graph whose one node runs this. */
function graphOf(saver: TurnSaver, body: Body, options: object = {}) {
  return saver.attach(
    new StateGraph(State)
      .addNode(
        "agent",
        async (_, given) => {
          await body(given);
          return {};
        },
        options,
      )
      .addEdge(START, "agent")
      .compile({ checkpointer: saver }),
  );
}

const counts = (input: number, output: number, cached = 0, reasoning = 0): TokenCounts => ({ input, output, cached, reasoning });
const totals = (input: number, output: number, cached = 0, reasoning = 0) => ({
  ...counts(input, output, cached, reasoning),
  total: input + output,
});

async function tokensOf(saver: TurnSaver, nodeName: string, type: Turn["turnType"] = "Thought"): Promise<TokenCounts[]> {
  const turns = await saver.turns.list("t");
  return turns.filter((turn) => turn.nodeName === nodeName && turn.turnType === type).map((turn) => turn.tokens);
}

/** What a node that runs this used. */
async function used(body: Body): Promise<TokenCounts> {
  const saver = saverOn();
  await graphOf(saver, body).invoke({ x: 1 }, config);
  const [thought] = await tokensOf(saver, "agent");
  expect(await tokensOf(saver, "agent", "Action")).toEqual([thought]);
  return thought as TokenCounts;
}

describe("S1.8 what models report is booked to the turn", () => {
  test("S1.8 input, output, cached and reasoning", async () => {
    const model = new AnsweringModel([{ usage: usage(10, 5, 4, 2) }]);
    expect(await used(() => model.invoke("hello"))).toEqual(counts(10, 5, 4, 2));
  });

  test("S1.8 several models in one node, one of them reporting nothing", async () => {
    const one = new AnsweringModel([{ usage: usage(10, 5) }, { usage: usage(1, 1, 1, 1) }]);
    const other = new AnsweringModel([{ usage: usage(100, 50) }]);
    const silent = new FakeListChatModel({ responses: ["nothing"] });
    const body: Body = async () => {
      await one.invoke("hello");
      await Promise.all([one.invoke("again"), other.invoke("hello"), silent.invoke("hello")]);
    };
    expect(await used(body)).toEqual(counts(111, 56, 1, 1));
  });

  test("S1.8 a batch", async () => {
    const model = new AnsweringModel([{ usage: usage(1, 10) }, { usage: usage(2, 20) }, { usage: usage(3, 30) }]);
    expect(await used(() => model.batch(["a", "b", "c"]))).toEqual(counts(6, 60));
  });

  const older: [string, Reply, TokenCounts][] = [
    ["llmOutput.tokenUsage", { llmOutput: { tokenUsage: { promptTokens: 7, completionTokens: 3 } } }, counts(7, 3)],
    [
      "llmOutput.estimatedTokenUsage",
      { llmOutput: { tokenUsage: {}, estimatedTokenUsage: { promptTokens: 7.4, completionTokens: 3 } } },
      counts(7, 3),
    ],
    ["usage_metadata before llmOutput", { usage: usage(1, 2), llmOutput: { tokenUsage: { promptTokens: 7 } } }, counts(1, 2)],
    ["several candidates, each with the usage of the call", { usage: usage(5, 6), candidates: 3 }, counts(5, 6)],
    [
      "what is no count",
      { usage: { ...usage(NaN, -3), input_token_details: { cache_read: "9" as never } }, llmOutput: {} },
      counts(0, 0),
    ],
  ];
  test.each(older)("S1.8 %s", async (_, reply, expected) => {
    const model = new AnsweringModel([reply]);
    expect(await used(() => model.invoke("hello"))).toEqual(expected);
  });

  test("S1.8 a stream, its usage spread over chunks, is counted once", async () => {
    const model = new StreamingModel([{ text: "a", usage: usage(10, 0, 3) }, { text: "b" }, { usage: usage(0, 6, 0, 2) }]);
    const read: Body = async () => {
      for await (const _ of await model.stream("hello"));
    };
    expect(await used(read)).toEqual(counts(10, 6, 3, 2));
  });

  test("S1.8 streamMode messages and streamEvents make models stream", async () => {
    const model = new StreamingModel([{ text: "a" }, { text: "b", usage: usage(10, 6, 1, 2) }]);
    const saver = saverOn();
    const graph = graphOf(saver, () => model.invoke("hello"));
    let pieces = 0;
    for await (const _ of await graph.stream({ x: 1 }, { ...config, streamMode: "messages" })) pieces += 1;
    expect(pieces).toBeGreaterThanOrEqual(2);
    for await (const _ of graph.streamEvents({ x: 2 }, { ...config, version: "v2" }));
    expect(await tokensOf(saver, "agent")).toEqual([counts(10, 6, 1, 2), counts(10, 6, 1, 2)]);
  });

  test("S1.8 a stream that breaks, or is broken off, has used what its chunks have told", async () => {
    const broken = new StreamingModel([{ text: "a", usage: usage(10, 1) }, new Error("connection lost")]);
    const left = new StreamingModel([{ text: "a", usage: usage(20, 2) }, { text: "b" }, { usage: usage(0, 5) }]);
    const body: Body = async () => {
      await expect(
        (async () => {
          for await (const _ of await broken.stream("hello"));
        })(),
      ).rejects.toThrow("connection lost");
      let chunks = 0;
      for await (const _ of await left.stream("hello")) if (++chunks === 2) break;
    };
    expect(await used(body)).toEqual(counts(30, 3));
  });

  test("S1.8 the recorder passed a second time counts nothing twice", async () => {
    const saver = saverOn();
    const model = new StreamingModel([{ text: "a", usage: usage(10, 6) }]);
    const inner = graphOf(saver, () => model.invoke("hello"));
    const outer = saver.attach(
      new StateGraph(State)
        .addNode("outer", async (state, given) => {
          await inner.invoke(state, given);
          return {};
        })
        .addEdge(START, "outer")
        .compile({ checkpointer: saver }),
    );
    for await (const _ of await outer.stream({ x: 1 }, { ...config, streamMode: "messages", subgraphs: true }));
    expect(await tokensOf(saver, "agent")).toEqual([counts(10, 6)]);
    expect((await saver.turns.tokenUsage("t")).total).toEqual(totals(10, 6));
  });
});

describe("S1.8 wherever models are called", () => {
  test("S1.8 S4.1 status counts a call once, also one of an attempt that failed", async () => {
    const saver = saverOn();
    const model = new AnsweringModel([{ text: "hello", usage: usage(100, 10, 4, 2) }]);
    let calls = 0;
    const graph = graphOf(saver, async () => {
      await model.invoke("hello");
      if (++calls === 1) throw new Error("it is broken");
    });
    const runner = new GraphRunner(graph);
    await expect(runner.invoke({ x: 1 }, { threadId: "t", taskId: "only" })).rejects.toThrow("it is broken");
    expect((await runner.status("t")).tokens).toEqual(counts(100, 10, 4, 2));
    await runner.resume({ threadId: "t" });
    const status = await runner.status("t");
    expect(status.tokens).toEqual(counts(200, 20, 8, 4));
    expect((await saver.turns.tokenUsage("t")).total).toEqual(totals(200, 20, 8, 4));
    expect((await reportOf(saver, "t")).tokens).toEqual(status.tokens);
  });

  test("S1.8 in a tool, in a subgraph, in a functional task: the innermost node's turn has them, and only it", async () => {
    const saver = saverOn();
    const ask = tool(async () => (await new AnsweringModel([{ text: "4", usage: usage(3, 3) }]).invoke("2+2")).text, {
      name: "ask",
      description: "asks",
      schema: z.object({}),
    });
    const llm = new AnsweringModel([
      { toolCall: { name: "ask", args: {} }, usage: usage(10, 1) },
      { text: "done", usage: usage(20, 2) },
    ]);
    const agent = createReactAgent({ llm, tools: [ask] });
    const outer = saver.attach(
      new StateGraph(MessagesAnnotation)
        .addNode("sub", agent)
        .addEdge(START, "sub")
        .addEdge("sub", END)
        .compile({ checkpointer: saver }),
    );
    await outer.invoke({ messages: [{ role: "user", content: "2+2" }] }, config);
    expect((await saver.turns.tokenUsage("t")).byNode).toEqual([
      { nodeName: "sub", ...totals(0, 0) },
      { nodeName: "agent", ...totals(30, 3) },
      { nodeName: "tools", ...totals(3, 3) },
    ]);
  });

  test("S1.8 in functional tasks", async () => {
    const saver = saverOn();
    const model = new AnsweringModel([{ usage: usage(10, 5) }, { usage: usage(1, 1) }]);
    const step = task("step", async () => (await model.invoke("hello")).text);
    const flow = saver.attach(
      entrypoint({ name: "flow", checkpointer: saver }, async () => {
        await step();
        await model.invoke("hello");
        return 1;
      }),
    );
    await flow.invoke(1, config);
    expect(await tokensOf(saver, "step")).toEqual([counts(10, 5)]);
    expect(await tokensOf(saver, "flow")).toEqual([counts(1, 1)]);
  });

  test("S1.8 callbacks given to a call replace LangGraph's: its tokens are not seen; given to the model, or added to the config's, they are", async () => {
    const model = (callbacks: BaseCallbackHandler[] = []) => {
      const made = new AnsweringModel([{ usage: usage(10, 5) }]);
      made.callbacks = callbacks;
      return made;
    };
    let heard = 0;
    const handler = BaseCallbackHandler.fromMethods({ handleLLMEnd: () => void (heard += 1) });
    expect(await used(() => model().invoke("hello", { callbacks: [handler] }))).toEqual(counts(0, 0));
    expect(await used(() => model([handler]).invoke("hello"))).toEqual(counts(10, 5));
    const added: Body = async ({ callbacks }) => {
      const manager = (callbacks as { copy(handlers: unknown[]): unknown }).copy([handler]);
      await model().invoke("hello", { callbacks: manager as never });
    };
    expect(await used(added)).toEqual(counts(10, 5));
    expect(heard).toBe(3);
  });
});

describe("S1.8 attempts and crashes", () => {
  test("S1.8 each attempt of a retried node has its own", async () => {
    const saver = saverOn();
    const model = new AnsweringModel([{ usage: usage(10, 5) }, { usage: usage(20, 6) }]);
    let attempts = 0;
    const body: Body = async () => {
      await model.invoke("hello");
      if (++attempts === 1) throw new Error("once");
    };
    const retryPolicy = { maxAttempts: 2, initialInterval: 1, jitter: false, logWarning: false };
    await graphOf(saver, body, { retryPolicy }).invoke({ x: 1 }, config);
    expect(await tokensOf(saver, "agent")).toEqual([counts(10, 5), counts(20, 6)]);
    expect(await tokensOf(saver, "agent", "Action")).toEqual([counts(10, 5), counts(20, 6)]);
    expect((await saver.turns.tokenUsage("t")).total).toEqual(totals(30, 11));
  });

  test("S1.8 an attempt that has timed out and still calls is booked to itself, not to the one that took over", async () => {
    const saver = saverOn();
    let takenOver: () => void = () => undefined;
    let lateDone: () => void = () => undefined;
    const second = new Promise<void>((resolve) => (takenOver = resolve));
    const late = new Promise<void>((resolve) => (lateDone = resolve));
    let attempts = 0;
    const body: Body = async (given) => {
      if (++attempts > 1) {
        takenOver();
        await late;
        return;
      }
      await second;
      await new AnsweringModel([{ usage: usage(10, 5) }]).invoke("late", { callbacks: given.callbacks as never });
      lateDone();
    };
    const options = { timeout: 50, retryPolicy: { maxAttempts: 50, initialInterval: 1, jitter: false, logWarning: false } };
    await graphOf(saver, body, options).invoke({ x: 1 }, config);
    const [first, ...others] = await tokensOf(saver, "agent");
    expect(first).toEqual(counts(10, 5));
    expect(others.length).toBeGreaterThan(0);
    for (const other of others) expect(other).toEqual(counts(0, 0));
  });

  test("S1.8 SIGKILL in mid-node keeps what was reported until then, of a stream too", () => {
    const file = tempFile();
    const child = spawnSync(process.execPath, [...childProgram(path.join(__dirname, "tok-child.ts")), file], {
      cwd: path.resolve(__dirname, "..", ".."),
      encoding: "utf8",
    });
    expect({ signal: child.signal, stderr: child.stderr }).toEqual({ signal: "SIGKILL", stderr: "" });
    const saver = saverOn(file);
    return expect(saver.turns.tokenUsage("t")).resolves.toMatchObject({
      total: totals(110, 5, 4, 2),
      byNode: [{ nodeName: "agent", ...totals(110, 5, 4, 2) }],
    });
  });
});

describe("S1.8 tokenUsage", () => {
  test("S1.8 S5.1 by task and by node; what was rewound is told apart, and is restored when it is taken back", async () => {
    const saver = saverOn();
    const model = new AnsweringModel([{ usage: usage(10, 5, 4, 2) }, { usage: usage(20, 6) }, { usage: usage(40, 7) }]);
    const runner = new GraphRunner(
      new StateGraph(State)
        .addNode("one", async () => {
          await model.invoke("hello");
          return {};
        })
        .addNode("two", () => ({}))
        .addEdge(START, "one")
        .addEdge("one", "two")
        .compile({ checkpointer: saver }),
    );
    for (const taskId of ["a", "b", "c"]) await runner.invoke({ x: 1 }, { threadId: "t", taskId });
    const before = await saver.turns.tokenUsage("t");
    expect(before).toEqual({
      total: totals(70, 18, 4, 2),
      byTask: [
        { taskId: "a", ...totals(10, 5, 4, 2) },
        { taskId: "b", ...totals(20, 6) },
        { taskId: "c", ...totals(40, 7) },
      ],
      byNode: [
        { nodeName: "one", ...totals(70, 18, 4, 2) },
        { nodeName: "two", ...totals(0, 0) },
      ],
      rewound: totals(0, 0),
    });
    // As the database adds them up, for lists.
    const { inspect } = internalsOf(saver).store;
    expect(await inspect.taskTokens("t")).toEqual(before.byTask.map(({ total: _, ...task }) => task));
    expect(await inspect.taskTokens("nobody")).toEqual([]);
    const { rewindId } = await runner.rewind({ threadId: "t", toTask: "a" });
    expect(await inspect.taskTokens("t")).toEqual([{ taskId: "a", input: 10, output: 5, cached: 4, reasoning: 2 }]);
    expect(await saver.turns.tokenUsage("t")).toMatchObject({ total: totals(10, 5, 4, 2), rewound: totals(60, 13) });
    expect(await tokenTotals(saver, "node", { threadIds: ["t"] })).toMatchObject({
      total: totals(10, 5, 4, 2),
      rewound: totals(60, 13),
    });
    await saver.rewinds.takeBack(rewindId as string);
    expect(await saver.turns.tokenUsage("t")).toEqual(before);
    // The status has what all tasks used, also when their turns are pruned.
    expect((await reportOf(saver, "t")).tokens).toEqual(counts(70, 18, 4, 2));
    await saver.prune({ threadId: "t", keepLast: 1 });
    expect((await reportOf(saver, "t")).tokens).toEqual(counts(70, 18, 4, 2));
    expect((await tokenTotals(saver, "task")).rewound).toBeUndefined();
    expect(await saver.turns.tokenUsage("nobody")).toEqual({
      total: totals(0, 0),
      byTask: [],
      byNode: [],
      rewound: totals(0, 0),
    });
    await expect(saver.turns.tokenUsage("")).rejects.toMatchObject({ code: "INVALID_CONFIG" });
  });

  test("S1.8 no matter what models report in any pieces, the thread's total is the sum", async () => {
    const saver = saverOn();
    let program: Reply[][] = [];
    const graph = graphOf(saver, () =>
      Promise.all(
        program.map(async (chunks) => {
          for await (const _ of await new StreamingModel([{ text: "x" }, ...chunks]).stream("hello"));
        }),
      ),
    );
    const piece = fc
      .tuple(fc.nat(1e6), fc.nat(1e6), fc.nat(1e6), fc.nat(1e6))
      .map(([a, b, c, d]): Reply => ({ text: "x", usage: usage(a, b, c, d) }));
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(piece, { maxLength: 3 }), { maxLength: 3 }), async (chunks) => {
        program = chunks;
        const threadId = `t${(runs += 1)}`;
        await graph.invoke({ x: 1 }, { configurable: { thread_id: threadId } });
        const pieces = chunks.flat().map((reply) => reply.usage!);
        const sum = (of: (one: (typeof pieces)[number]) => number | undefined): number =>
          pieces.reduce((total, one) => total + (of(one) ?? 0), 0);
        expect((await saver.turns.tokenUsage(threadId)).total).toEqual(
          totals(
            sum((one) => one.input_tokens),
            sum((one) => one.output_tokens),
            sum((one) => one.input_token_details?.cache_read),
            sum((one) => one.output_token_details?.reasoning),
          ),
        );
      }),
      { numRuns: 25 },
    );
  });
});

describe("S3.1 what is updated in a turn is under its checksum", () => {
  const changes: [string, string][] = [
    ["durable", "durable = 1 - durable"],
    ["status", "status = 'error'"],
    ["input_tokens", "input_tokens = input_tokens + 1"],
    ["output_tokens", "output_tokens = 0"],
    ["cached_tokens", "cached_tokens = 99"],
    ["reasoning_tokens", "reasoning_tokens = 99"],
    ["graph", "graph = coalesce(graph, 0) + 1"],
    ["fingerprint", "fingerprint = 'other'"],
    ["validation", "validation = '{\"passed\":true}'"],
  ];
  test.each(changes)("S3.1 %s changed by SQL is CHECKPOINT_CORRUPTED", async (_, change) => {
    const file = tempFile();
    const saver = saverOn(file);
    const model = new AnsweringModel([{ usage: usage(10, 5, 4, 2) }]);
    await graphOf(saver, () => model.invoke("hello")).invoke({ x: 1 }, config);
    expect(await saver.turns.list("t")).toHaveLength(2);
    const db = new Database(file);
    expect(db.prepare(`UPDATE langgraph_checkpoints SET ${change} WHERE turn_type = 'Action'`).run().changes).toBe(1);
    db.close();
    await expect(saver.turns.list("t")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
  });
});
