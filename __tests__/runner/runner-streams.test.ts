import { type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { GraphRunner, type GraphRunnerOptions } from "langgraph-checkpoint-turns";
import { line, State, world, type World } from "../support/run-world";

const opened: World["saver"][] = [];
afterEach(() => {
  for (const saver of opened.splice(0)) saver.close();
});

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function begun(): World {
  const at = world();
  opened.push(at.saver);
  return at;
}

/** However busy the machine is. */
const LIMIT_MS = 60_000;

/** Fails after `ms`, where a loop without an end would hang the suite. */
async function within(ms: number, holds: () => boolean | Promise<boolean>): Promise<void> {
  const until = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > until) throw new Error(`it didn't happen within ${ms} ms`);
    await pause(5);
  }
}

const aborted = async (signal: AbortSignal | undefined): Promise<void> => {
  if (signal?.aborted !== true) await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve()));
};

/**
 * Two nodes. The first one waits: until its run is aborted if it is `polite`, or else until `finish` is called. On its second run it
 * doesn't wait.
 */
function slow({ saver }: World, polite: boolean, options: GraphRunnerOptions = {}) {
  const seen = { calls: 0, running: 0, finish: (): void => undefined };
  const finished = new Promise<void>((resolve) => (seen.finish = resolve));
  const graph = new StateGraph(State)
    .addNode("first", async (_, config) => {
      seen.calls += 1;
      if (seen.calls > 1) return { log: ["first"] };
      seen.running += 1;
      const { signal } = config as LangGraphRunnableConfig;
      if (polite) await aborted(signal);
      else await finished;
      seen.running -= 1;
      return { log: ["first"] };
    })
    .addNode("second", () => ({ log: ["second"] }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .compile({ checkpointer: saver });
  return { runner: new GraphRunner(graph, options), seen };
}

type Slow = ReturnType<typeof slow>;
type Chunks = ReadableStream<unknown> & AsyncIterableIterator<unknown>;

const input = { log: [] };
const opens: Record<string, (runner: Slow["runner"], more?: object) => Promise<Chunks>> = {
  stream: async (runner, more) => runner.stream(input, { threadId: "t", streamMode: "values", ...more }),
  "stream of server-sent events": async (runner, more) =>
    runner.stream(input, {
      ...{ threadId: "t", streamMode: "values", encoding: "text/event-stream" },
      ...more,
    }),
  streamEvents: async (runner, more) => runner.streamEvents(input, { threadId: "t", version: "v2", ...more }),
};
const leaves: Record<string, (chunks: Chunks) => Promise<unknown>> = {
  "cancel()": async (chunks) => chunks.cancel(),
  "a reader's cancel()": async (chunks) => chunks.getReader().cancel(),
  "return()": async (chunks) => chunks.return?.(),
};
const ways = Object.keys(opens).flatMap((kind) => Object.keys(leaves).map((how) => [kind, how] as const));

const isRunning = async (runner: Slow["runner"]): Promise<boolean> => runner.saver.turns.isRunning("t");

describe("S8.3 S3.2 a stream that is left frees its thread when its run has stopped", () => {
  test.each(ways)("S8.3 S3.2 %s, left before its first read by %s", async (kind, how) => {
    const at = begun();
    const { runner, seen } = slow(at, true);
    const chunks = await opens[kind]!(runner);
    await leaves[how]!(chunks);
    await within(LIMIT_MS, async () => !(await isRunning(runner)));
    expect(seen.running).toBe(0);
    // Events that nobody read have run nothing.
    if (kind === "streamEvents") expect(seen.calls++).toBe(0);
    expect(await runner.resume({ threadId: "t", input })).toEqual({ log: ["first", "second"] });
  });

  test.each(ways)("S8.3 S3.2 %s, left after a read by %s", async (kind, how) => {
    const at = begun();
    const { runner, seen } = slow(at, true);
    const chunks = await opens[kind]!(runner);
    const reader = chunks.getReader();
    await reader.read();
    reader.releaseLock();
    await within(LIMIT_MS, () => seen.running === 1);
    await leaves[how]!(chunks);
    await within(LIMIT_MS, async () => !(await isRunning(runner)));
    expect(seen.running).toBe(0);
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["first", "second"] });
    expect(seen.calls).toBe(2);
  });

  test("S8.3 S3.2 a stream left while a node inside a node's graph starts: the thread is free at once", async () => {
    const at = begun();
    let isLeft = false;
    const inner = new StateGraph(State)
      .addNode("quick", () => ({ log: ["quick"] }))
      .addNode("slow", async (_, { signal }) => {
        if (!isLeft) await aborted(signal);
        return { log: ["slow"] };
      })
      .addEdge(START, "quick")
      .addEdge("quick", "slow")
      .compile();
    const graph = new StateGraph(State).addNode("graph", inner).addEdge(START, "graph").compile({ checkpointer: at.saver });
    const runner = new GraphRunner(graph);
    for await (const _ of await runner.stream(input, { threadId: "t", subgraphs: true })) break;
    isLeft = true;
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["quick", "slow"] });
  });

  test.each(Object.keys(opens))("S8.3 S3.2 %s: a node that ignores that its run was left keeps the thread", async (kind) => {
    const at = begun();
    const { runner, seen } = slow(at, false);
    const chunks = await opens[kind]!(runner);
    const reader = chunks.getReader();
    await reader.read();
    await within(LIMIT_MS, () => seen.running === 1);
    await reader.cancel();
    for (let asked = 0; asked < 20; asked++) {
      await expect(runner.resume({ threadId: "t" })).rejects.toMatchObject({ code: "THREAD_RUNNING" });
      await pause(10);
    }
    seen.finish();
    await within(LIMIT_MS, async () => !(await isRunning(runner)));
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["first", "second"] });
  });

  test.each(Object.keys(opens))("S8.3 S3.2 %s, left by break: the thread is free after the loop", async (kind) => {
    const at = begun();
    const { runner, seen } = slow(at, true);
    for await (const _ of await opens[kind]!(runner)) {
      await within(LIMIT_MS, () => seen.running === 1);
      break;
    }
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["first", "second"] });
  });

  test.each(Object.keys(opens).flatMap((kind) => [true, false].map((read) => [kind, read] as const)))(
    "S8.3 S3.2 %s, stopped by an AbortSignal, read: %s",
    async (kind, read) => {
      const at = begun();
      const { runner, seen } = slow(at, true);
      const controller = new AbortController();
      const chunks = await opens[kind]!(runner, { signal: controller.signal });
      const reader = chunks.getReader();
      if (read || kind === "streamEvents") await reader.read();
      await within(LIMIT_MS, () => seen.running === 1);
      controller.abort();
      await within(LIMIT_MS, async () => !(await isRunning(runner)));
      expect(seen.running).toBe(0);
      const rest = async (): Promise<string> => {
        const texts: string[] = [];
        for (let next = await reader.read(); !next.done; next = await reader.read())
          texts.push(next.value instanceof Uint8Array ? Buffer.from(next.value).toString() : "");
        return texts.join("");
      };
      // LangGraph makes an event of the error of such a stream.
      if (kind.includes("server-sent")) expect(await rest()).toMatch(/^event: error\n.*abort/im);
      else await expect(rest()).rejects.toThrow(/abort/i);
      expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["first", "second"] });
    },
  );

  test.each(["invoke", "resume"] as const)("S8.3 S3.2 %s that was aborted: the thread is free when it rejects", async (call) => {
    const at = begun();
    const { runner, seen } = slow(at, true);
    const controller = new AbortController();
    const options = { threadId: "t", signal: controller.signal };
    const run = call === "invoke" ? runner.invoke(input, options) : runner.resume({ ...options, input });
    const refused = expect(run).rejects.toThrow(/abort/i);
    await within(LIMIT_MS, () => seen.running === 1);
    controller.abort();
    await refused;
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["first", "second"] });
  });

  test("S3.2 an attached graph's own run that was aborted frees its thread at once", async () => {
    const at = begun();
    const { runner, seen } = slow(at, true);
    const controller = new AbortController();
    const config = { configurable: { thread_id: "t" }, signal: controller.signal };
    const run = expect(runner.graph.invoke(input, config)).rejects.toThrow(/abort/i);
    await within(LIMIT_MS, () => seen.running === 1);
    controller.abort();
    await run;
    await within(LIMIT_MS, async () => !(await isRunning(runner)));
    const before = runner.graph.invoke(input, { configurable: { thread_id: "u" }, signal: AbortSignal.abort() });
    await expect(before).rejects.toThrow(/abort/i);
    await within(LIMIT_MS, async () => !(await at.saver.turns.isRunning("u")));
    expect(seen.calls).toBe(1);
  });

  test("S8.3 S3.2 a reader that is slower than the run gets every chunk, and the thread is free before the last one", async () => {
    const at = begun();
    const runner = line(at, ["a", "b", "c"]);
    const chunks = await runner.stream(input, { threadId: "t", streamMode: "updates" });
    await within(LIMIT_MS, async () => !(await at.saver.turns.isRunning("t")));
    expect(await runner.invoke(input, { threadId: "t" })).toEqual({ log: ["a", "b", "c", "a", "b", "c"] });
    const found = [];
    for await (const chunk of chunks) found.push(Object.keys(chunk)[0]);
    expect(found).toEqual(["a", "b", "c"]);
  });

  test("S8.3 streamEvents that nobody reads runs nothing and keeps no thread", async () => {
    const at = begun();
    const { runner, seen } = slow(at, true);
    await opens["streamEvents"]!(runner);
    await pause(50);
    expect([seen.calls, await isRunning(runner)]).toEqual([0, false]);
  });

  test("S8.3 a stream that failed without a reader disturbs nobody, and its reader gets the error", async () => {
    const at = begun();
    const fails = (): never => {
      throw new Error("it is broken");
    };
    const runner = line(at, ["a", "b"], { b: fails });
    const chunks = await runner.stream(input, { threadId: "t", streamMode: "updates" });
    await within(LIMIT_MS, async () => !(await at.saver.turns.isRunning("t")));
    await pause(20);
    await expect(async () => {
      for await (const _ of chunks);
    }).rejects.toThrow("it is broken");
  });

  test('S2.5 S8.3 streamEvents left while "finish" continues the last run: that run stops, and the new one does not start', async () => {
    const at = begun();
    let calls = 0;
    const runner = new GraphRunner(
      new StateGraph(State)
        .addNode("only", async (_, config) => {
          calls += 1;
          if (calls === 1) throw new Error("it is broken");
          if (calls === 2) await aborted((config as LangGraphRunnableConfig).signal);
          return { log: ["only"] };
        })
        .addEdge(START, "only")
        .compile({ checkpointer: at.saver }),
      { onUnfinished: "finish" },
    );
    await expect(runner.invoke(input, { threadId: "t" })).rejects.toThrow("it is broken");
    const chunks = runner.streamEvents(input, { threadId: "t", version: "v2" });
    const reader = chunks.getReader();
    const first = reader.read();
    await within(LIMIT_MS, () => calls === 2);
    await reader.cancel();
    expect(await first).toMatchObject({ done: true });
    await within(LIMIT_MS, async () => !(await at.saver.turns.isRunning("t")));
    expect(calls).toBe(2);
    expect(await runner.resume({ threadId: "t" })).toEqual({ log: ["only"] });
  });
});

describe("S8.6 S8.3 a stream that is left doesn't hold up a drain", () => {
  const files = [undefined, "with a CHECKPOINT.md"] as const;
  test.each(Object.keys(opens).flatMap((kind) => files.map((file) => [kind, file] as const)))(
    "S8.6 %s that nobody reads, %s",
    async (kind, file) => {
      const at = begun();
      const runner = line(at, ["a", "b"], {}, file === undefined ? {} : { checkpointFile: `${at.path}.md` });
      await opens[kind]!(runner as never);
      const since = performance.now();
      expect(await runner.drain({ timeoutMs: 20_000 })).toEqual({ done: true, running: [] });
      expect(performance.now() - since).toBeLessThan(15_000);
    },
  );

  test.each(ways)("S8.6 %s with a CHECKPOINT.md, left by %s", async (kind, how) => {
    const at = begun();
    const { runner, seen } = slow(at, true, { checkpointFile: `${at.path}.md` });
    const chunks = await opens[kind]!(runner);
    const reader = chunks.getReader();
    await reader.read();
    reader.releaseLock();
    await within(LIMIT_MS, () => seen.running === 1);
    await leaves[how]!(chunks);
    const since = performance.now();
    expect(await runner.drain({ timeoutMs: 20_000 })).toEqual({ done: true, running: [] });
    expect(performance.now() - since).toBeLessThan(15_000);
  });
});
