import { Annotation, Command, interrupt, START, StateGraph, task } from "@langchain/langgraph";
import fc from "fast-check";
import { defineEffect, GraphRunner, TurnsError } from "langgraph-checkpoint-turns";
import { runs } from "../support/lane";
import { hasNodeTimeouts } from "../support/langgraph-version";
import { openSaver } from "../support/open-saver";
import { quiet } from "../support/s1-tools";

/*
 * An attempt of a node fails, or runs into its timeout, and what it began continues: the graphs that it called, or its own code. The next
 * attempt runs beside that. Without care both count the node's calls with the same counters, and both carry the same graphs forward.
 */

const sleep = async (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false };
const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (one, other) => one.concat(other), default: () => [] }) });

/** What has been done, by whom, and the effect that does it. */
function world() {
  const done: string[] = [];
  const send = defineEffect("send", { run: ({ what }: { what: string }) => void done.push(what), undo: false });
  /** A graph of three nodes, each of which does an effect and then takes its time. */
  const chain = (name: string, takes: (node: string) => Promise<void>) => {
    const step = (node: string) => async () => {
      await send({ what: `${name}-${node}` });
      await takes(node);
      return { log: [`${name}-${node}`] };
    };
    return new StateGraph(State)
      .addNode("i", step("i"))
      .addNode("j", step("j"))
      .addNode("k", step("k"))
      .addEdge(START, "i")
      .addEdge("i", "j")
      .addEdge("j", "k")
      .compile();
  };
  return { done, send, chain };
}

type Body = (state: typeof State.State, config: object) => Promise<{ log: string[] }>;

/** The thread is taken until what an abandoned attempt has begun is over. */
async function whenFree<T>(call: () => Promise<T>, tries = 5_000): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!TurnsError.is(error, "THREAD_RUNNING") || tries === 0) throw error;
    await sleep(10);
    return whenFree(call, tries - 1);
  }
}

interface Settings {
  timeout?: number;
  durability?: "sync" | "async";
  /** Lets the abandoned attempt continue, if it still waits. */
  go?: () => void;
}

/** Runs a node until it's done, and gives each question its own answer. @returns what the node returned */
async function finished(body: Body, { durability = "async", go, ...options }: Settings = {}): Promise<string[]> {
  const saver = openSaver(":memory:", { logger: quiet });
  const graph = new StateGraph(State)
    .addNode("n", body, { retryPolicy, ...options })
    .addEdge(START, "n")
    .compile({ checkpointer: saver });
  const runner = new GraphRunner(graph);
  const how = { threadId: "t", durability };
  try {
    let result = await runner.invoke({ log: [] }, how);
    for (let tries = 0; tries < 10; tries += 1) {
      const open = (await runner.status("t")).waiting;
      if (open.length === 0) break;
      go?.();
      const answers = Object.fromEntries(open.map(({ id, value }) => [id ?? "", `answer to ${String(value)}`]));
      result = await whenFree(() => runner.resume({ ...how, command: new Command({ resume: answers }) }));
    }
    expect(await saver.verify()).toMatchObject({ ok: true });
    return result.log;
  } finally {
    await (saver.close() as unknown);
  }
}

const CHAIN = ["i", "j", "k"];

test("S2.9 a graph that runs on beside a retry of the node that called it does none of its effects twice", async () => {
  const { done, chain } = world();
  let attempt = 0;
  const fails = new StateGraph(State)
    .addNode("f", () => {
      if (attempt === 1) throw new Error("503");
      return { log: ["f"] };
    })
    .addEdge(START, "f")
    .compile();
  const slow = chain("slow", () => sleep(25));
  const log = await finished(async (_, config) => {
    attempt += 1;
    const [one, other] = await Promise.all([fails.invoke({ log: [] }, config), slow.invoke({ log: [] }, config)]);
    return { log: [...one.log, ...other.log, interrupt("go on?")] };
  });
  expect(done).toEqual(CHAIN.map((node) => `slow-${node}`));
  expect(log).toEqual(["f", ...done, "answer to go on?"]);
});

test("S2.9 an attempt that runs on beside a retry saves nothing, and one warning names the thread and the node", async () => {
  const warned: unknown[][] = [];
  const logger = { ...quiet, warn: (...said: unknown[]) => void warned.push(said) };
  const saver = openSaver(":memory:", { logger });
  const { done, chain } = world();
  const slow = chain("slow", () => sleep(25));
  let attempt = 0;
  let first: Promise<unknown> = Promise.resolve();
  const graph = new StateGraph(State)
    .addNode(
      "n",
      async (_, config) => {
        attempt += 1;
        const work = slow.invoke({ log: [] }, config);
        if (attempt > 1) return work;
        while (done.length === 0) await sleep(1);
        first = work.catch(() => undefined);
        throw new Error("503");
      },
      { retryPolicy },
    )
    .addEdge(START, "n")
    .compile({ checkpointer: saver });
  saver.attach(graph);
  await graph.invoke({ log: [] }, { configurable: { thread_id: "t" } });
  await first;
  const told = 'not saved: an earlier attempt of node "n" still runs beside a later attempt, which continues it';
  expect(warned.filter(([, text]) => String(text).includes("still runs"))).toEqual([
    [{ threadId: "t", node: "n" }, expect.stringContaining(told)],
  ]);
  expect(done).toEqual(CHAIN.map((node) => `slow-${node}`));
  await (saver.close() as unknown);
});

const withTimeouts = hasNodeTimeouts ? test : test.skip;

withTimeouts("S2.9 a graph whose node ran into its timeout does none of its effects twice in a retry", async () => {
  const { done, chain } = world();
  let attempt = 0;
  // The first attempt is still in `i` when the second one has left it.
  let left = (): void => undefined;
  const hasLeft = new Promise<void>((resolve) => (left = resolve));
  const slow = chain("slow", async (node) => {
    if (node === "i" && attempt === 1) return hasLeft;
    if (node === "j") left();
    return sleep(60);
  });
  const timed = async (_: typeof State.State, config: object) => {
    attempt += 1;
    const { log } = await slow.invoke({ log: [] }, config);
    return { log: [...log, interrupt("go on?")] };
  };
  const log = await finished(timed, { timeout: 1_500 });
  expect(done).toEqual(CHAIN.map((node) => `slow-${node}`));
  expect(log).toEqual([...done, "answer to go on?"]);
});

test("S2.9 what a failed run has left behind saves nothing beside the next run of its thread, and a warning says so", async () => {
  const { done, send } = world();
  let run = 0;
  let go = (): void => undefined;
  const gate = new Promise<void>((resolve) => (go = resolve));
  const inner = new StateGraph(State)
    .addNode("i", async () => {
      await send({ what: "i" });
      if (run === 1) await gate;
      return { log: ["i"] };
    })
    .addNode("j", async () => {
      await send({ what: "j" });
      return { log: ["j"] };
    })
    .addEdge(START, "i")
    .addEdge("i", "j")
    .compile();
  const warned: unknown[][] = [];
  const logger = { ...quiet, warn: (...said: unknown[]) => void warned.push(said) };
  const saver = openSaver(":memory:", { logger });
  const graph = new StateGraph(State)
    .addNode("n", async (_, config) => {
      run += 1;
      const fails = async (): Promise<void> => {
        while (!done.includes("i")) await sleep(1);
        if (run === 1) throw new Error("503");
      };
      const [{ log }] = await Promise.all([inner.invoke({ log: [] }, config), fails()]);
      // The first run's `i` ends behind this run's `j`.
      go();
      await sleep(30);
      return { log: [...log, interrupt("go on?")] };
    })
    .addEdge(START, "n")
    .compile({ checkpointer: saver });
  saver.attach(graph);
  const config = { configurable: { thread_id: "t" } };
  await expect(graph.invoke({ log: [] }, config)).rejects.toThrow("503");
  await graph.invoke(null, config);
  const { log } = await graph.invoke(new Command({ resume: "yes" }), config);
  expect({ log, done }).toEqual({ log: ["i", "j", "yes"], done: ["i", "j"] });
  const told = 'not saved: an earlier attempt of node "n" still runs beside a later run, which continues it';
  expect(warned.filter(([, text]) => String(text).includes("still runs"))).toEqual([
    [{ threadId: "t", node: "n" }, expect.stringContaining(told)],
  ]);
  await (saver.close() as unknown);
});

/** A node calls these one after another. Its first attempt that comes to call `stops` fails there, and continues beside the next one. */
interface Plan {
  calls: ("task" | "graph" | "question")[];
  stops: number;
  how: "throws" | "times out";
  /** The call before which the next attempt lets it continue. */
  continues: number;
  durability: "sync" | "async";
}

const arbPlan: fc.Arbitrary<Plan> = fc.record({
  calls: fc.array(fc.constantFrom("task" as const, "graph" as const, "question" as const), { minLength: 2, maxLength: 4 }),
  stops: fc.nat(3),
  how: hasNodeTimeouts ? fc.constantFrom("throws", "throws", "times out") : fc.constant("throws"),
  continues: fc.nat(3),
  durability: fc.constantFrom("sync", "async"),
});

async function carriedOut({ calls, stops, how, continues, durability }: Plan): Promise<{ log: string[]; done: string[] }> {
  const { done, send } = world();
  const work = async (what: string): Promise<string> => {
    await send({ what });
    return what;
  };
  const asTask = task("work", work);
  const asGraph = new StateGraph(State)
    .addNode("w", async ({ log }) => ({ log: [await work(log.join(""))] }))
    .addEdge(START, "w")
    .compile();
  const call = async (kind: Plan["calls"][number], index: number, config: object): Promise<string> => {
    if (kind === "task") return asTask(`${index}`);
    if (kind === "graph") return (await asGraph.invoke({ log: [`${index}`] }, config)).log.at(-1) ?? "";
    return interrupt(`${index}`);
  };
  let attempts = 0;
  let stopped = 0;
  let go = (): void => undefined;
  const gate = new Promise<void>((resolve) => (go = resolve));
  const log = await finished(
    async (_, config) => {
      const attempt = (attempts += 1);
      let fail = (_: Error): void => undefined;
      const failed = new Promise<never>((_, reject) => (fail = reject));
      const all = async (): Promise<string[]> => {
        const results: string[] = [];
        for (const [index, kind] of calls.entries()) {
          if (index === stops && stopped === 0) {
            stopped = attempt;
            if (how === "throws") fail(new Error("503"));
            await gate;
          }
          if (index === continues && stopped !== 0 && attempt > stopped) {
            go();
            await sleep(3);
          }
          results.push(await call(kind, index, config));
        }
        return results;
      };
      return { log: await Promise.race([all(), failed]) };
    },
    { durability, go, ...(how === "times out" && { timeout: 800 }) },
  );
  return { log, done };
}

test("S2.9 S4.1 property: an abandoned attempt that continues beside the next one takes none of its results, effects or answers", async () => {
  await fc.assert(
    fc.asyncProperty(arbPlan, async (plan) => {
      const log = plan.calls.map((kind, index) => (kind === "question" ? `answer to ${index}` : `${index}`));
      const done = plan.calls.flatMap((kind, index) => (kind === "question" ? [] : [`${index}`]));
      expect(await carriedOut(plan)).toEqual({ log, done });
    }),
    {
      numRuns: runs(40, 400),
      examples: (["task", "graph", "question"] as const).flatMap((kind): [Plan][] => [
        [{ calls: [kind, kind, kind], stops: 1, how: "throws", continues: 0, durability: "async" }],
        [{ calls: [kind, kind, kind], stops: 0, how: "throws", continues: 1, durability: "sync" }],
      ]),
    },
  );
}, 120_000);
