import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { defineEffect, effect, type EffectOptions, GraphRunner } from "langgraph-checkpoint-turns";
import { attached, closeAll, Deeds, fresh, line, open, refusal, thread } from "../support/eff-world";
import { childProgram } from "../support/child-program";
import { effectUndoneBy, undosNamed } from "../support/undo-world";

afterEach(closeAll);

/** What each try of the deed comes to. */
type Try = "works" | "fails" | "in doubt";

/** Does `deed` once per entry of `plan`, in as many runs. */
function world(plan: Try[], options: EffectOptions<string> = {}) {
  const deeds = new Deeds();
  const keys: string[] = [];
  const saver = open(fresh());
  const deed = (): Promise<string> =>
    effectUndoneBy(
      "undo",
      "deed",
      (key) => {
        keys.push(key);
        const what = plan[keys.length - 1];
        if (what !== "fails") deeds.do("do");
        if (what !== "works") throw new Error(what);
        return "done";
      },
      {
        input: "deed",
        onError: (error) => ((error as Error).message === "fails" ? "retryable" : "unknown"),
        ...options,
      },
    );
  const graph = line({ zero: () => ({ log: ["zero"] }), deed: async () => ({ log: [await deed()] }) }).compile({
    checkpointer: saver,
  });
  const runner = new GraphRunner(graph, { undos: undosNamed({ undo: () => deeds.do("undo") }) });
  return {
    saver,
    runner,
    deeds,
    keys,
    begin: (taskId = "one") => runner.invoke({ log: [] }, { threadId: "t", taskId }),
    resume: (taskId: string, threadId = "t") => runner.resume({ threadId, taskId }),
    only: async (threadId = "t") => (await saver.effects.list(threadId))[0],
  };
}

describe("S3.5 an effect that is tried again stands where its new try stands", () => {
  test("S3.5 what failed in one task and is done in the next is undone by a rewind to the first", async () => {
    const { begin, resume, runner, only, deeds, saver, keys } = world(["fails", "works"]);
    await refusal(begin());
    const failed = await only();
    await resume("two");
    expect(keys[1]).toBe(keys[0]);
    const done = await only();
    expect(done).toMatchObject({ id: failed?.id, taskId: "two", tries: 2, status: "done" });
    expect(done?.seq).toBeGreaterThan(failed?.seq ?? Infinity);
    expect((await runner.compensationReport({ threadId: "t", toTask: "one" })).effects).toMatchObject([
      { name: "deed", verdict: "undo" },
    ]);
    const report = await runner.rewind({ threadId: "t", toTask: "one" });
    expect(report.effects.undone).toMatchObject([{ name: "deed" }]);
    expect(deeds.lines()).toEqual(["do", "undo"]);
    expect(await saver.effects.list("t")).toEqual([]);
    expect((await saver.verify()).problems).toEqual([]);
  });

  test("S3.5 after such a rewind the side effect is done again with another key", async () => {
    const { begin, resume, runner, deeds, keys, saver } = world(["fails", "works", "works"]);
    await refusal(begin());
    await resume("two");
    await runner.rewind({ threadId: "t", toTask: "one" });
    await resume("three");
    expect(deeds.lines()).toEqual(["do", "undo", "do"]);
    expect(new Set(keys).size).toBe(2);
    expect((await saver.verify()).problems).toEqual([]);
  });

  test("S3.5 undos run against the order in which the side effects were done, not in which they were first tried", async () => {
    const deeds = new Deeds();
    const saver = open(fresh());
    let isFirst = true;
    const act = (name: string, works: () => boolean): Promise<void> =>
      effectUndoneBy(
        name,
        name,
        () => {
          if (!works()) throw new Error("503");
          deeds.do(name);
        },
        { input: name },
      );
    const graph = line({
      setUp: async ({ log }) => {
        if (log.length === 0) return {};
        const [attached] = await Promise.allSettled([act("attach", () => !isFirst), act("create", () => true)]);
        isFirst = false;
        if (attached?.status === "rejected") throw attached.reason;
        return {};
      },
    }).compile({ checkpointer: saver });
    const undos = { attach: () => deeds.do("detach"), create: () => deeds.do("delete") };
    const runner = new GraphRunner(graph, { undos: undosNamed(undos) });
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "zero" });
    await refusal(runner.invoke({ log: ["go"] }, { threadId: "t", taskId: "one" }));
    await runner.resume({ threadId: "t", taskId: "one" });
    await runner.rewind({ threadId: "t", toTask: "zero" });
    expect(deeds.lines()).toEqual(["create", "attach", "detach", "delete"]);
  });

  test("S3.5 what a probe found not done is behind the target if its next try is", async () => {
    const { begin, resume, runner, deeds, only } = world(["in doubt", "works"], { probe: () => undefined });
    await refusal(begin());
    await resume("two");
    expect(await only()).toMatchObject({ taskId: "two", status: "done" });
    await runner.rewind({ threadId: "t", toTask: "one" });
    expect(deeds.count("undo")).toBe(1);
  });
});

describe("S3.5 a doubt that is repeated with the same key stands before the target and behind it", () => {
  test("S3.5 done at last, it is undone with the later try", async () => {
    const { begin, resume, runner, deeds, only, keys, saver } = world(["in doubt", "works"], { idempotent: true });
    await refusal(begin());
    await resume("two");
    expect(keys[1]).toBe(keys[0]);
    expect(await only()).toMatchObject({ taskId: "two", status: "done" });
    await runner.rewind({ threadId: "t", toTask: "one" });
    expect(deeds.lines()).toEqual(["do", "do", "undo"]);
    expect(await saver.effects.list("t")).toEqual([]);
    expect((await saver.verify()).problems).toEqual([]);
  });

  test("S3.5 failed at last, its row and its key stay for the first try's sake", async () => {
    const { begin, resume, runner, only, keys } = world(["in doubt", "fails", "works"], { idempotent: true });
    await refusal(begin());
    const first = await only();
    await refusal(resume("two"));
    await runner.rewind({ threadId: "t", toTask: "one" });
    expect(await only()).toMatchObject({ id: first?.id, seq: first?.seq, taskId: "one", status: "failed" });
    await resume("three");
    expect(new Set(keys).size).toBe(1);
    expect(await only()).toMatchObject({ id: first?.id, taskId: "three", status: "done" });
  });

  test("S3.5 still in doubt, it refuses a rewind to between its tries, and is not lost", async () => {
    const { begin, resume, runner, saver, only, deeds } = world(["in doubt", "in doubt"], { idempotent: true });
    await refusal(begin());
    const first = await only();
    await refusal(resume("two"));
    expect(await refusal(runner.rewind({ threadId: "t", toTask: "one" }))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect((await runner.compensationReport({ threadId: "t", toTask: "one" })).covered).toBe(false);
    // A probe can't tell which of the tries did it, and the first one would stay.
    const found = defineEffect("undo", { run: () => "found", probe: () => "found", undo: () => deeds.do("undo") });
    expect(await refusal(saver.rewind({ threadId: "t", toTask: "one" }, [found]))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(await only()).toMatchObject({ seq: first?.seq, status: "in-doubt" });
    await saver.effects.resolve(first?.id ?? "", { outcome: "done", result: "found" });
    await runner.rewind({ threadId: "t", toTask: "one" });
    expect(deeds.lines()).toEqual(["do", "do", "undo"]);
    expect(await saver.effects.list("t")).toEqual([]);
  });
});

describe("S3.5 a copied thread that tries an inherited effect again", () => {
  const copied = async (options: EffectOptions<string>) => {
    const all = world(["in doubt", "works", "works"], options);
    await refusal(all.begin());
    await all.saver.copyThread("t", "c");
    await all.resume("two", "c");
    return all;
  };

  test("S3.5 after a probe that found nothing: its own side effect under its own key, and its own undo", async () => {
    const { only, keys, runner, deeds, resume } = await copied({ probe: () => undefined });
    expect(await only("c")).toMatchObject({ inherited: false, status: "done", taskId: "two", key: keys[1] });
    expect(keys[1]).not.toBe(keys[0]);
    await resume("two");
    expect(keys[2]).toBe(keys[0]);
    expect((await runner.rewind({ threadId: "c", toTask: "one" })).effects.undone).toHaveLength(1);
    expect(deeds.lines()).toEqual(["do", "do", "do", "undo"]);
  });

  test("S3.5 a repetition in doubt keeps the key, so that it isn't a second side effect, and is its own to undo", async () => {
    const { only, keys, runner, saver } = await copied({ idempotent: true });
    expect(await only("c")).toMatchObject({ inherited: false, status: "done", taskId: "two" });
    expect(keys[1]).toBe(keys[0]);
    expect((await runner.rewind({ threadId: "c", toTask: "one" })).effects.undone).toHaveLength(1);
    expect((await saver.verify()).problems).toEqual([]);
  });
});

describe("many effects in one node", () => {
  test("S3.5 each is found again in another order by its input, and one that is new is not mixed up", async () => {
    const deeds = new Deeds();
    const saver = open(fresh());
    let inputs = Array.from({ length: 60 }, (_, index) => index % 50);
    let isFirst = true;
    const graph = attached(
      saver,
      line({
        many: async () => {
          const results = await Promise.all(
            inputs.map((input) => effect("act", () => (deeds.do(String(input)), input), { input })),
          );
          if (isFirst) throw new Error("once");
          return { log: results.map(String) };
        },
      }),
    );
    await refusal(graph.invoke({ log: [] }, thread()));
    isFirst = false;
    inputs = [...inputs.toReversed(), 99];
    expect((await graph.invoke(null, thread())).log).toEqual(inputs.map(String));
    expect(deeds.lines()).toHaveLength(61);
    expect((await saver.effects.list("t")).map(({ label }) => label)).toEqual(inputs.map((_, index) => `#${index}`));
  });
});

describe("worker threads", () => {
  test("S2.9 what another worker thread of the process is at counts as running there, and is not done a second time", async () => {
    const child = join(__dirname, "realm-child.ts");
    const { stdout } = await promisify(execFile)(process.execPath, [...childProgram(child), fresh()]);
    expect(JSON.parse(stdout)).toEqual({
      main: "done",
      deeds: 1,
      seen: { effect: "running", running: true, resume: "THREAD_RUNNING", deeds: 0 },
    });
  }, 300_000);
});
