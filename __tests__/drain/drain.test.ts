import { Annotation, Command, END, entrypoint, interrupt, Send, START, StateGraph, task } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { GraphRunner, type TurnSaver, type TurnsError } from "../../src/index";
import { madeEffect } from "../../src/testing-internal";
import { breaks, line, State, world, type World } from "../support/run-world";
import { listener, quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { ON_POSTGRES, openSaver, openWaiting } from "../support/open-saver";
import { effectUndoneBy } from "../support/undo-world";

const on = (threadId: string) => ({ configurable: { thread_id: threadId } });
const failure = async (work: Promise<unknown>): Promise<TurnsError> =>
  work.then(
    () => new Error("it didn't fail") as TurnsError,
    (error: unknown) => error as TurnsError,
  );
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const opened: World["saver"][] = [];
afterEach(() => {
  for (const saver of opened.splice(0)) saver.close();
});

function begun(...given: Parameters<typeof world>): World {
  const at = world(...given);
  opened.push(at.saver);
  return at;
}

/** A node waits at the gate until it is opened. */
class Gate {
  reached!: () => void;
  open!: () => void;
  readonly isReached = new Promise<void>((resolve) => (this.reached = resolve));
  readonly isOpen = new Promise<void>((resolve) => (this.open = resolve));

  readonly pass = async (): Promise<undefined> => {
    this.reached();
    await this.isOpen;
    return undefined;
  };
}

const runsLeft = (path: string): number => {
  const db = new Database(path, { readonly: true });
  try {
    return db.prepare("SELECT count(*) FROM langgraph_runs").pluck().get() as number;
  } finally {
    db.close();
  }
};

describe("S8.6 drain", () => {
  test("S8.6 waits for a copy of a thread", async () => {
    const at = begun();
    await line(at, ["a"]).invoke({ log: [] }, { threadId: "t" });
    const copied = at.saver.copyThread("t", "copy");
    expect(await at.saver.drain()).toEqual({ done: true, running: [] });
    await copied;
    const next = begun(at.path);
    expect((await next.saver.getTuple(on("copy")))?.checkpoint.channel_values).toMatchObject({ log: ["a"] });
  });

  test("S8.6 lets a running node reach its end, stops its run before the next one, and a resume continues there", async () => {
    const at = begun();
    const gate = new Gate();
    const runner = line(at, ["a", "b", "c"], { b: gate.pass });
    const run = failure(runner.invoke({ log: [] }, { threadId: "t", taskId: "one" }));
    await gate.isReached;
    const drained = runner.drain();
    await pause(20);
    expect(at.saver.drain({ timeoutMs: 1 })).toBe(at.saver.drain());
    gate.open();
    const error = await run;
    expect(error).toMatchObject({ code: "STORE_DRAINING", name: "StoreDrainingError", data: { threadId: "t", node: "c" } });
    expect(error.message).toMatch(/resume\(\{ threadId \}\)/);
    expect(await drained).toEqual({ done: true, running: [] });
    expect(at.ledger.all).toEqual(["a", "b"]);
    // Its mark stays for `runner.recover`, which continues the thread in another process.
    expect(runsLeft(at.path)).toBe(1);

    const next = begun(at.path);
    const again = line(next, ["a", "b", "c"]);
    const status = await again.status("t");
    expect(status).toMatchObject({ resumable: true, running: false });
    expect(status.failed).toEqual([]);
    expect((await again.graph.getState(on("t"))).tasks.map(({ name, error: failed }) => [name, failed])).toEqual([
      ["c", undefined],
    ]);
    expect(await again.resume({ threadId: "t" })).toEqual({ log: ["a", "b", "c"] });
    expect(next.ledger.all).toEqual(["a", "b", "c"]);
    expect(next.warnings).toEqual([]);
    expect((await next.saver.verify()).ok).toBe(true);
  });

  test("S8.6 with nothing running it is immediate, a second one is the same, and closing before or after is fine", async () => {
    let fastest = Infinity;
    // A busy machine may hold up one of them, or a few.
    for (let tries = 0; tries < 20 && fastest >= 200; tries += 1) {
      const at = begun();
      await line(at, ["a"]).invoke({ log: [] }, { threadId: "t" });
      const since = performance.now();
      const first = at.saver.drain();
      expect(at.saver.drain({ timeoutMs: 5 })).toBe(first);
      expect(await first).toEqual({ done: true, running: [] });
      fastest = Math.min(fastest, performance.now() - since);
      at.saver.close();
      expect(await at.saver.drain()).toEqual({ done: true, running: [] });
    }
    expect(fastest).toBeLessThan(200);
    const other = begun();
    other.saver.close();
    expect(await other.saver.drain()).toEqual({ done: true, running: [] });
  });

  test.each(["resume", "invoke"] as const)(
    "S8.6 a runner's %s that still waits for the database is refused as draining, and not cut off",
    async (what) => {
      const held: { until?: Promise<void> } = {};
      const saver = openWaiting(tempFile(), { logger: quiet }, () => held.until);
      await saver.listThreads();
      const graph = new StateGraph(State).addNode("a", () => ({ log: ["a"] })).addEdge(START, "a");
      const runner = new GraphRunner(graph.compile({ checkpointer: saver }));
      const gate = new Gate();
      held.until = gate.isOpen;
      const options = { threadId: "t" };
      const run = failure(
        what === "resume" ? runner.resume({ ...options, input: { log: [] } }) : runner.invoke({ log: [] }, options),
      );
      const drained = saver.drain();
      // For longer than a run without a running node counts.
      await pause(800);
      gate.open();
      const { code } = await run;
      // A file answers before the drain begins.
      expect(code).toBe(ON_POSTGRES ? "STORE_DRAINING" : code);
      expect(["STORE_DRAINING", undefined]).toContain(code);
      expect(await drained).toEqual({ done: true, running: [] });
    },
  );

  test("S8.6 a wrong option is refused before anything is", async () => {
    const at = begun();
    expect(await failure(at.saver.drain({ timeoutMs: -1 }))).toMatchObject({ code: "INVALID_OPTION" });
    expect(await failure(at.saver.drain({ timeout: 1 } as never))).toMatchObject({ code: "INVALID_OPTION" });
    expect(await line(at, ["a"]).invoke({ log: [] }, { threadId: "t" })).toEqual({ log: ["a"] });
    expect(await at.saver.drain()).toMatchObject({ done: true });
  });

  test("S8.6 new runs are refused by name: a runner's, an attached graph's and any other's; what reads still reads", async () => {
    const at = begun();
    const gate = new Gate();
    const runner = line(at, ["a", "b"], { a: gate.pass });
    const run = failure(runner.invoke({ log: [] }, { threadId: "t" }));
    await gate.isReached;
    const drained = at.saver.drain();
    const plain = new StateGraph(State)
      .addNode("x", () => ({ log: ["x"] }))
      .addEdge(START, "x")
      .compile({ checkpointer: at.saver });
    const refused = [
      runner.invoke({ log: [] }, { threadId: "other" }),
      runner.stream({ log: [] }, { threadId: "other" }),
      runner.resume({ threadId: "t" }),
      runner.graph.invoke({ log: [] }, on("other")),
      plain.invoke({ log: [] }, on("other")),
    ];
    for (const work of refused) expect(await failure(work)).toMatchObject({ code: "STORE_DRAINING" });
    expect((await runner.status("t")).running).toBe(true);
    expect((await runner.graph.getState(on("t"))).next).toEqual(["a"]);
    gate.open();
    expect(await run).toMatchObject({ code: "STORE_DRAINING" });
    expect(await drained).toMatchObject({ done: true });
    expect(await failure(runner.invoke({ log: [] }, { threadId: "t" }))).toMatchObject({ code: "STORE_DRAINING" });
  });

  test("S8.6 when the time is up it says what is still running, in its report and one log line, and closes", async () => {
    const logger = listener();
    const at = begun(tempFile(), { logger });
    const gate = new Gate();
    const run = failure(line(at, ["a", "slow"], { slow: gate.pass }).invoke({ log: [] }, { threadId: "t" }));
    await gate.isReached;
    expect(await at.saver.drain({ timeoutMs: 50 })).toEqual({ done: false, running: [{ threadId: "t", nodes: ["slow"] }] });
    gate.open();
    const error = await run;
    expect(error.code).toBe("STORE_CLOSED");
    const told = logger.lines.filter(({ level }) => level === "warn" || level === "error");
    expect(told.map(({ text }) => text)).toEqual([expect.stringMatching(/^drain: the time is up/)]);
    const next = begun(at.path);
    expect(await line(next, ["a", "slow"]).resume({ threadId: "t" })).toEqual({ log: ["a", "slow"] });
    expect(next.ledger.all).toEqual(["a", "slow", "slow"]);
  });

  test("S8.6 when the time is up no error says that all is saved: a node held beside one that still runs names it", async () => {
    const at = begun();
    const gate = new Gate();
    const quick = new Gate();
    const ran: string[] = [];
    const make = (saver: TurnSaver, body: (part: string) => Promise<unknown>) =>
      saver.attach(
        new StateGraph(State)
          .addNode("work", async ({ part }: { part: string }) => {
            ran.push(part);
            await body(part);
            return { log: [part] };
          })
          .addConditionalEdges(START, () => ["slow", "quick", "held"].map((part) => new Send("work", { part })), ["work"])
          .compile({ checkpointer: saver }) as never,
      ) as ReturnType<ReturnType<typeof line>["graph"]["withConfig"]>;
    const graph = make(at.saver, async (part) => (part === "slow" ? gate.pass() : quick.pass()));
    const run = failure(graph.invoke({ log: [] }, { ...on("t"), maxConcurrency: 2 }));
    await Promise.all([gate.isReached, quick.isReached]);
    // Long enough for the quick one to end, however busy the machine is.
    const drained = at.saver.drain({ timeoutMs: 3_000 });
    quick.open();
    expect(await drained).toEqual({ done: false, running: [{ threadId: "t", nodes: ["work"] }] });
    gate.open();
    const error = await run;
    expect(error).toMatchObject({ code: "STORE_DRAINING", data: { threadId: "t", node: "work", stillRan: ["work"] } });
    expect(error.message).toMatch(/time was up while "work" was running: what it returned isn't saved, and it runs again/);
    expect(error.message).not.toMatch(/all that ran before is saved/i);
    const next = begun(at.path);
    const { log } = await make(next.saver, async () => undefined).invoke(null, on("t"));
    expect(log).toEqual(["slow", "quick", "held"]);
    expect(ran).toEqual(["slow", "quick", "slow", "held"]);
  });

  test("S8.6 nodes side by side all end before the run is stopped, also those that a limit let start later", async () => {
    const at = begun();
    const gate = new Gate();
    const ran: string[] = [];
    const make = (saver: TurnSaver, body: (part: string) => Promise<unknown>) =>
      saver.attach(
        new StateGraph(State)
          .addNode("work", async ({ part }: { part: string }) => {
            ran.push(part);
            await body(part);
            return { log: [part] };
          })
          .addNode("end", () => ({ log: ["end"] }))
          .addConditionalEdges(START, () => ["p", "q", "r", "s"].map((part) => new Send("work", { part })), ["work"])
          .addEdge("work", "end")
          .compile({ checkpointer: saver }) as never,
      ) as ReturnType<ReturnType<typeof line>["graph"]["withConfig"]>;
    const graph = make(at.saver, async (part) => (part === "p" ? gate.pass() : gate.isReached));
    const run = failure(graph.invoke({ log: [] }, { ...on("t"), maxConcurrency: 2 }));
    await gate.isReached;
    const drained = at.saver.drain();
    await pause(50);
    gate.open();
    expect(await run).toMatchObject({ code: "STORE_DRAINING" });
    expect(await drained).toMatchObject({ done: true });
    const before = [...ran];
    expect(before.length).toBeLessThan(4);
    const next = begun(at.path);
    const { log } = await make(next.saver, async () => undefined).invoke(null, on("t"));
    expect(log).toEqual(["p", "q", "r", "s", "end"]);
    expect(ran.toSorted()).toEqual(["p", "q", "r", "s"]);
  });

  test("S8.6 inside a graph of a node it stops before the next node there, regardless of what the node around it makes of the error", async () => {
    const at = begun();
    const gate = new Gate();
    const ran: string[] = [];
    const make = (saver: TurnSaver, wait: () => Promise<unknown>) => {
      const inner = new StateGraph(State)
        .addNode("in1", async () => {
          ran.push("in1");
          await wait();
          return { log: ["in1"] };
        })
        .addNode("in2", () => {
          ran.push("in2");
          return { log: ["in2"] };
        })
        .addEdge(START, "in1")
        .addEdge("in1", "in2")
        .compile();
      return saver.attach(
        new StateGraph(State)
          .addNode("outer", async (state) => {
            try {
              return { log: (await inner.invoke({ log: [] })).log };
            } catch {
              return { log: ["swallowed"] };
            } finally {
              void state;
            }
          })
          .addNode("beside", async () => {
            ran.push("beside");
            await pause(100);
            return { log: ["beside"] };
          })
          .addNode("end", () => ({ log: ["end"] }))
          .addEdge(START, "outer")
          .addEdge(START, "beside")
          .addEdge(["outer", "beside"], "end")
          .compile({ checkpointer: saver }),
      );
    };
    const run = failure(make(at.saver, gate.pass).invoke({ log: [] }, on("t")));
    await gate.isReached;
    const drained = at.saver.drain();
    gate.open();
    expect(await run).toMatchObject({ code: "STORE_DRAINING" });
    expect(await drained).toMatchObject({ done: true });
    const next = begun(at.path);
    const graph = make(next.saver, async () => undefined);
    expect((await graph.invoke(null, on("t"))).log.toSorted()).toEqual(["beside", "end", "in1", "in2"]);
    expect(ran.toSorted()).toEqual(["beside", "in1", "in2"]);
  });

  test("S8.6 a graph that keeps no checkpoints runs to its end inside of its node", async () => {
    const at = begun();
    const gate = new Gate();
    const inner = new StateGraph(State)
      .addNode("in1", async () => {
        await gate.pass();
        return { log: ["in1"] };
      })
      .addNode("in2", () => ({ log: ["in2"] }))
      .addEdge(START, "in1")
      .addEdge("in1", "in2")
      .compile({ checkpointer: false });
    const graph = at.saver.attach(
      new StateGraph(State).addNode("outer", inner).addEdge(START, "outer").compile({ checkpointer: at.saver }),
    );
    const run = graph.invoke({ log: [] }, on("t"));
    await gate.isReached;
    const drained = at.saver.drain();
    gate.open();
    expect((await run).log).toEqual(["in1", "in2"]);
    expect(await drained).toMatchObject({ done: true });
  });

  test("S8.6 tasks of a functional entrypoint that finished aren't repeated by the resume", async () => {
    const at = begun();
    const gate = new Gate();
    const ran: string[] = [];
    const make = (saver: TurnSaver, wait: () => Promise<unknown>) => {
      const step = task("step", async (name: string) => {
        ran.push(name);
        if (name === "one") await wait();
        return name;
      });
      return saver.attach(
        entrypoint({ name: "flow", checkpointer: saver }, async () => {
          const two = await step("one").then(() => step("two").catch(() => "swallowed"));
          return `one ${two}`;
        }),
      );
    };
    const run = failure(make(at.saver, gate.pass).invoke("go", on("t")));
    await gate.isReached;
    const drained = at.saver.drain();
    gate.open();
    expect(await run).toMatchObject({ code: "STORE_DRAINING" });
    expect(await drained).toMatchObject({ done: true });
    const next = begun(at.path);
    expect(await make(next.saver, async () => undefined).invoke(null, on("t"))).toBe("one two");
    expect(ran).toEqual(["one", "two"]);
  });

  test("S8.6 a retry policy tries no node again that the drain didn't start, and no error handler takes its place", async () => {
    const at = begun();
    const gate = new Gate();
    let handled = 0;
    const make = (saver: TurnSaver, wait: () => Promise<unknown>) =>
      saver.attach(
        new StateGraph(State)
          .addNode("a", async () => {
            await wait();
            return { log: ["a"] };
          })
          .addNode("b", () => ({ log: ["b"] }), {
            retryPolicy: { initialInterval: 100_000, maxAttempts: 3 },
            errorHandler: () => {
              handled += 1;
              return { log: ["handled"] };
            },
          } as never)
          .addEdge(START, "a")
          .addEdge("a", "b")
          .compile({ checkpointer: saver }),
      );
    const run = failure(make(at.saver, gate.pass).invoke({ log: [] }, on("t")));
    await gate.isReached;
    const since = performance.now();
    const drained = at.saver.drain();
    gate.open();
    expect(await run).toMatchObject({ code: "STORE_DRAINING" });
    expect(await drained).toMatchObject({ done: true });
    // Neither for the next try, nor for the end of the drain's time.
    expect(performance.now() - since).toBeLessThan(25_000);
    const next = begun(at.path);
    expect(await make(next.saver, async () => undefined).invoke(null, on("t"))).toEqual({ log: ["a", "b"] });
    expect(handled).toBe(0);
  });

  test("S8.6 a question that was asked stays asked", async () => {
    const at = begun();
    const gate = new Gate();
    const bodies = { a: gate.pass, b: () => ({ log: [String(interrupt("sure?"))] }) };
    const asked = line(at, ["b"], bodies);
    await asked.invoke({ log: [] }, { threadId: "asked" });
    const run = failure(line(at, ["a", "b"], bodies).invoke({ log: [] }, { threadId: "t" }));
    await gate.isReached;
    const drained = at.saver.drain();
    gate.open();
    expect(await run).toMatchObject({ code: "STORE_DRAINING" });
    expect(await drained).toMatchObject({ done: true });
    const next = begun(at.path);
    const answer = new Command({ resume: "yes" });
    expect(await line(next, ["b"], bodies).resume({ threadId: "asked", command: answer })).toEqual({ log: ["yes"] });
  });

  test("S8.6 a stream that nobody reads any more doesn't hold it up", async () => {
    const at = begun();
    const runner = line(at, ["a", "b", "c"]);
    const chunks = (await runner.stream({ log: [] }, { threadId: "t", streamMode: "updates" }))[Symbol.asyncIterator]();
    await chunks.next();
    const since = performance.now();
    expect(await at.saver.drain()).toMatchObject({ done: true });
    // A drain that waited for its reader would wait for 30 seconds.
    expect(performance.now() - since).toBeLessThan(25_000);
    const next = begun(at.path);
    expect(await line(next, ["a", "b", "c"]).invoke(null, { threadId: "t" })).toEqual({ log: ["a", "b", "c"] });
  });

  test('S8.6 with durability "exit" the run saves what it has when it is stopped', async () => {
    const at = begun();
    const gate = new Gate();
    const run = failure(
      line(at, ["a", "b"], { a: gate.pass }).invoke({ log: [] }, { threadId: "t", durability: "exit" } as never),
    );
    await gate.isReached;
    const drained = at.saver.drain();
    gate.open();
    expect(await run).toMatchObject({ code: "STORE_DRAINING" });
    expect(await drained).toMatchObject({ done: true });
    const next = begun(at.path);
    expect(await line(next, ["a", "b"]).resume({ threadId: "t" })).toEqual({ log: ["a", "b"] });
    expect(next.ledger.all).toEqual(["a", "b"]);
  });

  test("S8.6 a node that fails while the saver drains fails with its own error", async () => {
    const at = begun();
    const gate = new Gate();
    const run = failure(
      line(at, ["a"], { a: async (state) => (await gate.pass(), breaks(state)) }).invoke({ log: [] }, { threadId: "t" }),
    );
    await gate.isReached;
    const drained = at.saver.drain();
    gate.open();
    expect((await run).message).toBe("it is broken");
    expect(await drained).toMatchObject({ done: true });
  });

  test("S8.6 saves of a graph that isn't attached are committed before it closes, slow serdes included", async () => {
    const path = tempFile();
    const saving = new Gate();
    const slow = {
      dumpsTyped: async (value: unknown): Promise<[string, Uint8Array]> => {
        saving.reached();
        await pause(100);
        return ["json", Buffer.from(JSON.stringify(value))];
      },
      loadsTyped: async (_: string, data: Uint8Array | string) =>
        JSON.parse(Buffer.from(data as Uint8Array).toString()) as unknown,
    };
    const saver = openSaver(path, { logger: quiet, serde: slow });
    opened.push(saver);
    const graph = new StateGraph(Annotation.Root({ log: Annotation<string[]>() }))
      .addNode("a", () => ({ log: ["a"] }))
      .addEdge(START, "a")
      .addEdge("a", END)
      .compile({ checkpointer: saver });
    const saved = graph.updateState(on("t"), { log: ["by hand"] });
    await saving.isReached;
    expect(await saver.drain()).toMatchObject({ done: true });
    await saved;
    const next = openSaver(path, { logger: quiet, serde: slow });
    opened.push(next);
    graph.checkpointer = next;
    expect((await graph.getState(on("t"))).values).toEqual({ log: ["by hand"] });
  });

  test("S8.6 CHECKPOINT.md is written to its end", async () => {
    const at = begun();
    const gate = new Gate();
    const file = `${at.path}.md`;
    const runner = line(at, ["a", "b"], { a: gate.pass }, { checkpointFile: file });
    const run = failure(runner.invoke({ log: [] }, { threadId: "t" }));
    await gate.isReached;
    const drained = runner.drain();
    gate.open();
    await run;
    expect(await drained).toMatchObject({ done: true });
    expect(at.warnings.filter((text) => text.includes("progress file"))).toEqual([]);
    const { CheckpointFile } = await import("langgraph-checkpoint-turns/checkpoint-file");
    expect((await new CheckpointFile(file).read())?.resume).toMatchObject({ canResume: true });
  });
});

describe("S8.6 a drain during a rewind", () => {
  const send = (gates: { undo?: Gate; probe?: Gate }) =>
    madeEffect("send", {
      run: () => "sent",
      onError: "unknown",
      probe: async () => {
        await gates.probe?.pass();
        return { happened: true, result: "sent" };
      },
      undo: { run: async () => void (await gates.undo?.pass()), idempotent: true },
    } as never);

  async function sent(inDoubt: boolean, gates: { undo?: Gate; probe?: Gate }) {
    const at = begun();
    const file = `${at.path}.md`;
    const effect = send(gates);
    const body = async (): Promise<undefined> => {
      await effectUndoneBy("send", "send", () => (inDoubt ? breaks({ log: [] }) : "sent"), {
        input: 1,
        onError: inDoubt ? "unknown" : "retryable",
      } as never);
      return undefined;
    };
    let calls = 0;
    const runner = line(
      at,
      ["a"],
      { a: async () => (calls++ === 0 ? undefined : body()) },
      { checkpointFile: file, undos: [effect] as never },
    );
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "zero" });
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "one" }).catch(() => undefined);
    return { at, file, runner };
  }

  test.each(["undo", "probe"] as const)("S8.6 S3.5 waits for the %s of a rewind, and for the CHECKPOINT.md", async (kind) => {
    const gate = new Gate();
    const { at, file, runner } = await sent(kind === "probe", { [kind]: gate });
    const rewind = runner.rewind({ threadId: "t", toTask: "zero" });
    rewind.catch(() => undefined);
    await gate.isReached;
    let isClosed = false;
    const drained = runner.drain().finally(() => (isClosed = true));
    await pause(700);
    expect(isClosed).toBe(false);
    gate.open();
    expect(await rewind).toMatchObject({ threadId: "t", toTask: "zero", dryRun: false });
    expect(await drained).toEqual({ done: true, running: [] });
    expect(at.warnings.filter((text) => text.includes("CHECKPOINT.md"))).toEqual([]);
    const { CheckpointFile } = await import("langgraph-checkpoint-turns/checkpoint-file");
    const next = begun(at.path);
    const shown = await new CheckpointFile(file).read();
    await new CheckpointFile(file).refresh(next.saver, "t");
    expect(shown).toEqual(await new CheckpointFile(file).read());
  });

  test.each(["undo", "probe"] as const)("S8.6 S3.5 whose time is up names the thread whose %s is running", async (kind) => {
    const gate = new Gate();
    const { at, runner } = await sent(kind === "probe", { [kind]: gate });
    const rewind = failure(runner.rewind({ threadId: "t", toTask: "zero" }));
    await gate.isReached;
    expect(await runner.drain({ timeoutMs: 50 })).toEqual({ done: false, running: [{ threadId: "t", nodes: [] }] });
    gate.open();
    // An undo that ran can't be recorded any more.
    expect(await rewind).toMatchObject({ code: kind === "undo" ? "EFFECT_NOT_RECORDED" : "STORE_CLOSED" });
    const next = begun(at.path);
    const again = line(next, ["a"], {}, { undos: [send({})] as never });
    expect(await again.rewind({ threadId: "t", toTask: "zero" })).toMatchObject({ toTask: "zero" });
  });
});

describe("S8.6 close() while runs continue", () => {
  test.each(["attached", "plain"])("S8.6 is told as what it is, by the run's error and one log line: %s", async (kind) => {
    const logger = listener();
    const at = begun(tempFile(), { logger });
    const gate = new Gate();
    const graph = new StateGraph(State)
      .addNode("a", async () => {
        await gate.pass();
        return { log: ["a"] };
      })
      .addNode("b", () => ({ log: ["b"] }))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: at.saver });
    if (kind === "attached") at.saver.attach(graph);
    const run = failure(graph.invoke({ log: [] }, on("t")));
    await gate.isReached;
    const before = logger.lines.length;
    at.saver.close();
    gate.open();
    const error = await run;
    expect(error.code).toBe("STORE_CLOSED");
    expect(error.message).toMatch(/closed while this run of thread "t" was active.*await saver\.drain\(\) first/);
    // On an engine that answers late, the warning that the graph isn't attached may come as late.
    const told = logger.lines.slice(before).filter(({ level, text }) => level !== "debug" && !text.includes("not attached"));
    expect(told.map(({ text }) => text)).toEqual([error.message]);
  });
});

test("S8.6 a drain doesn't wait for a checkpoint that couldn't be saved", async () => {
  const told: unknown[] = [];
  const saver = openSaver(":memory:", { logger: quiet, retention: { keepTasks: 3 }, busyTimeoutMs: 1_000 });
  const channels = { channel_values: { "branch:to:x": null, of: () => 1 }, channel_versions: { "branch:to:x": 1, of: 1 } };
  const checkpoint = { v: 4, id: "1ef4f797-8335-6428-8001-8a1503f9b875", ts: "2026-01-01T00:00:00.000Z", ...channels } as never;
  const config = { configurable: { thread_id: "t", checkpoint_ns: "" } };
  await saver
    .put(config, checkpoint, { source: "loop", step: 1, parents: {} }, { of: 1 })
    .catch((error: TurnsError) => told.push(error.code));
  expect(told).toEqual(["UNSERIALIZABLE_VALUE"]);
  expect(await saver.drain({ timeoutMs: 3_000 })).toMatchObject({ done: true });
});
