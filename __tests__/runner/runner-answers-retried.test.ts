import fc from "fast-check";
import {
  Annotation,
  Command,
  type CompiledStateGraph,
  entrypoint,
  interrupt,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { GraphRunner } from "langgraph-checkpoint-turns";
import { pairs, points, runs } from "../support/lane";
import { openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";

/*
 * A node with a retry policy has a graph inside, or calls one. A node of that graph asks, fails once, and asks something else. LangGraph
 * hands the answer of the run down to each attempt.
 */

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const retryPolicy = { maxAttempts: 4, initialInterval: 1, jitter: false, logWarning: false };
const QUESTIONS = ["read?", "wire?", "publish?"];

type StateGraphLike = CompiledStateGraph<typeof State.State, typeof State.Update, string>;

interface Shape {
  depth: 1 | 2;
  how: "a node" | "called" | "a task";
  /** The number of questions that are answered before each failure. */
  fails: readonly number[];
}

function graphOf(saver: ReturnType<typeof openSaver>, { depth, how, fails }: Shape) {
  const left = [...fails];
  const asker = () => {
    const log = QUESTIONS.map((question, index) => {
      if (left[0] === index) {
        left.shift();
        throw new Error("429");
      }
      return `${question} ${interrupt(question)}`;
    });
    return { log };
  };
  let inner = new StateGraph(State).addNode("asks", asker).addEdge(START, "asks").compile();
  if (depth === 2) inner = new StateGraph(State).addNode("around", inner).addEdge(START, "around").compile() as never;
  const called = async () => ({ log: (await inner.invoke({ log: [] })).log });
  if (how === "a task") {
    const work = task({ name: "work", retry: retryPolicy }, called);
    return entrypoint({ name: "root", checkpointer: saver }, async (_: { log: string[] }) => work());
  }
  return new StateGraph(State)
    .addNode("n", how === "called" ? called : inner, { retryPolicy })
    .addEdge(START, "n")
    .compile({ checkpointer: saver });
}

const shapes = ([1, 2] as const).flatMap((depth) =>
  (["a node", "called", "a task"] as const).flatMap((how) =>
    [[1], [2], [1, 1], [1, 2], [0, 1], [2, 2, 2]].map((fails): Shape => ({ depth, how, fails })),
  ),
);

const DURABILITIES = ["sync", "async", "exit"] as const;

test.each(points(pairs(DURABILITIES, shapes), 18).map(([durability, shape]) => ({ durability, shape, ...shape })))(
  "S4.1 each question gets its own answer in spite of retries: $durability, $depth deep, $how, fails behind $fails",
  async ({ durability, shape }) => {
    const saver = openSaver(":memory:", { logger: quiet });
    for (const isPlain of [false, true]) {
      const runner = new GraphRunner(graphOf(saver, shape) as StateGraphLike);
      const threadId = `plain ${isPlain}`;
      const how = { threadId, durability };
      await runner.invoke({ log: [] }, how);
      let result: unknown;
      for (const question of QUESTIONS) {
        const [open, ...others] = (await runner.status(threadId)).waiting;
        expect([open?.value, others]).toEqual([question, []]);
        const answer = `yes to ${question}`;
        const resume = isPlain ? answer : { [open?.id ?? ""]: answer };
        result = await runner.resume({ ...how, command: new Command({ resume }) });
      }
      expect(result).toMatchObject({ log: QUESTIONS.map((question) => `${question} yes to ${question}`) });
      expect((await runner.status(threadId)).waiting).toEqual([]);
    }
    await (saver.close() as unknown);
  },
);

/** What graphs see whose node is tried again, and what is warned of. */
async function retriedWith(inputs: readonly (readonly string[])[], checkpointer?: boolean) {
  const warnings: string[] = [];
  const saver = openSaver(":memory:", {
    logger: { ...quiet, warn: (_: object, message: string) => void warnings.push(message) },
  });
  const seen: string[] = [];
  let attempt = 0;
  const sub = new StateGraph(State)
    .addNode("first", ({ log }) => {
      seen.push(`first ${log.join()}`);
      return {};
    })
    .addNode("fails", () => {
      if (attempt < inputs.length) throw new Error("429");
      return {};
    })
    .addEdge(START, "first")
    .addEdge("first", "fails")
    .compile(checkpointer === undefined ? {} : { checkpointer });
  const graph = new StateGraph(State)
    .addNode(
      "n",
      async () => {
        for (const input of inputs[attempt++] ?? [])
          await sub.invoke({ log: [input] }).catch((error: unknown) => {
            if (attempt < inputs.length) throw error;
          });
        return {};
      },
      { retryPolicy },
    )
    .addEdge(START, "n")
    .compile({ checkpointer: saver });
  saver.attach(graph);
  await graph.invoke({ log: [] }, { configurable: { thread_id: "t" } });
  await (saver.close() as unknown);
  return { seen, warned: warnings.filter((message) => /^node "n" is tried again .*another input/.test(message)).length };
}

test("S4.2 a graph that a retry calls with another input continues with its first, which is warned of once", async () => {
  expect(await retriedWith([["a"], ["b"], ["c"]])).toEqual({ seen: ["first a"], warned: 1 });
  expect(await retriedWith([["a"], ["a"], ["a"]])).toEqual({ seen: ["first a"], warned: 0 });
  expect((await retriedWith([["a"], ["b"]], false)).seen).toEqual(["first a", "first b"]);
});

test.each([
  ["a node", "a text", "yes"],
  ["called", "a text", "yes"],
  ["called", "an empty list", []],
] as const)(
  "S4.1 in a graph that is %s, a question that comes beside a failure doesn't get the answer before it: %s",
  async (how, _, answer) => {
    let failures = 1;
    const got: [string, unknown][] = [];
    const inner = new StateGraph(State)
      .addNode("asks", () => {
        got.push(["first?", interrupt("first?")]);
        got.push(["second?", interrupt("second?")]);
        return { log: ["asks"] };
      })
      .addNode("fails", async () => {
        got.push(["beside?", interrupt("beside?")]);
        // Until the second question is saved.
        await new Promise((resolve) => setTimeout(resolve, 20));
        failures -= 1;
        if (failures >= 0) throw new Error("429");
        return { log: ["fails"] };
      })
      .addEdge(START, "asks")
      .addEdge(START, "fails")
      .compile();
    const called = async () => inner.invoke({ log: [] });
    const saver = openSaver(":memory:", { logger: quiet });
    const graph = new StateGraph(State)
      .addNode("n", how === "called" ? called : inner, { retryPolicy })
      .addEdge(START, "n")
      .compile({ checkpointer: saver });
    const runner = new GraphRunner(graph);
    await runner.invoke({ log: [] }, { threadId: "t" });
    const answerTo = (question: unknown): unknown => (question === "second?" ? "the second" : answer);
    // LangGraph 1.4 shows the questions of a nested graph one at a time.
    for (let rounds = 0; rounds < 4; rounds += 1) {
      const { waiting } = await runner.status("t");
      if (waiting.length === 0) break;
      const resume = Object.fromEntries(waiting.map(({ id, value }) => [id ?? "", answerTo(value)]));
      await runner.resume({ threadId: "t", command: new Command({ resume }) });
    }
    expect((await runner.status("t")).onResume).toBe("return");
    expect(got).toEqual(got.map(([question]) => [question, answerTo(question)]));
    expect(got.map(([question]) => question)).toContain("second?");
    await (saver.close() as unknown);
  },
);

interface Beside {
  /** How many questions each of the nodes has that run beside each other. */
  asks: number[];
  /** Which node fails, how many of its questions have been answered then, and how long it waits before it fails. */
  fails: { node: number; behind: number; waits: number }[];
  how: "a node" | "called";
}

const arbBeside: fc.Arbitrary<Beside> = fc.record({
  asks: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 2, maxLength: 3 }),
  fails: fc.array(fc.record({ node: fc.nat(2), behind: fc.nat(3), waits: fc.constantFrom(0, 0, 8) }), {
    minLength: 1,
    maxLength: 5,
  }),
  how: fc.constantFrom("a node", "called"),
});

test("S4.1 property: no matter which nodes of a retried graph fail, each question gets its own answer", async () => {
  await fc.assert(
    fc.asyncProperty(arbBeside, async ({ asks, fails, how }) => {
      const left = [...fails];
      const builder = new StateGraph(State);
      for (const [node, count] of asks.entries()) {
        builder.addNode(`n${node}`, async () => {
          const log: string[] = [];
          for (let index = 0; index <= count; index += 1) {
            const found = left.findIndex((one) => one.node === node && one.behind === index);
            const [failure] = found < 0 ? [] : left.splice(found, 1);
            if (failure !== undefined) await new Promise((resolve) => setTimeout(resolve, failure.waits));
            if (failure !== undefined) throw new Error("429");
            if (index < count) log.push(`${node}.${index} ${interrupt<string, string>(`${node}.${index}`)}`);
          }
          return { log };
        });
        builder.addEdge(START, `n${node}` as never);
      }
      const inner = builder.compile();
      const saver = openSaver(":memory:", { logger: quiet });
      const graph = new StateGraph(State)
        .addNode("n", how === "called" ? async () => inner.invoke({ log: [] }) : inner, { retryPolicy })
        .addEdge(START, "n")
        .compile({ checkpointer: saver });
      const runner = new GraphRunner(graph);
      let result = await runner.invoke({ log: [] }, { threadId: "t" }).catch(() => undefined);
      for (let round = 0; round < 20; round += 1) {
        const { waiting, onResume } = await runner.status("t");
        if (onResume === "return") break;
        const resume = Object.fromEntries(waiting.map(({ id, value }) => [id ?? "", `answer to ${String(value)}`]));
        const command = waiting.length === 0 ? {} : { command: new Command({ resume }) };
        result = await runner.resume({ threadId: "t", ...command }).catch(() => undefined);
      }
      const all = asks.flatMap((count, node) =>
        Array.from({ length: count }, (_, index) => `${node}.${index} answer to ${node}.${index}`),
      );
      expect(result?.log).toEqual(all);
      await (saver.close() as unknown);
    }),
    { numRuns: runs(40, 400) },
  );
}, 120_000);
