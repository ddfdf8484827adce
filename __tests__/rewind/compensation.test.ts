import { inspect } from "node:util";
import fc from "fast-check";
import type { RewindReport, UndoCall } from "langgraph-checkpoint-turns";
import { setFailpointHandler } from "../../src/testing-internal";
import { attached, closeAll, Deeds, fresh, line, open, refusal, thread, told } from "../support/eff-world";
import { KEY } from "../support/enc-graph";
import { everythingIn, rowsOfThread } from "../support/s1-tools";
import {
  choresOn,
  config,
  type Deed,
  deeds,
  stateRows,
  treeOn,
  undoing,
  undone,
  undosOf,
  undosNamed,
  effectUndoneBy,
} from "../support/undo-world";

afterEach(closeAll);

function world(path = fresh()) {
  const ledger = new Deeds();
  const saver = open(path);
  const graph = choresOn(saver, ledger);
  const task = async (taskId: string, ...given: (string | Deed)[]): Promise<void> => {
    const list = given.map((deed) => (typeof deed === "string" ? { name: deed } : deed));
    const run = graph.invoke({ deeds: list }, config(taskId));
    // A node cannot swallow a doubt: it fails at its end.
    if (list.some(({ doubt }) => doubt)) expect(await refusal(run)).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    else await run;
  };
  return { ledger, saver, graph, task, path, undos: undosOf(ledger) };
}
const names = (summaries: readonly { name: string }[]): string[] => summaries.map(({ name }) => name);
const TO_A = { threadId: "t", toTask: "a" };

describe("S3.5 what is undone", () => {
  test("S3.5 a rewind undoes the effects behind its target, newest first, and then deletes all that is behind it", async () => {
    const { saver, task, ledger, undos } = world();
    await task("a", "kept");
    await task("b", "one", "two");
    await task("c", "three");
    const report = await saver.rewind(TO_A, undos);
    expect(undone(ledger)).toEqual(["three", "two", "one"]);
    expect(names(report.effects.undone)).toEqual(["three", "two", "one"]);
    expect(report.removed.effects).toBe(3);
    expect(report.tasks).toEqual(["b", "c"]);
    expect(names(await saver.effects.list("t"))).toEqual(["kept"]);
    expect((await saver.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual(["a"]);
    expect(await saver.rewinds.list("t")).toMatchObject([{ id: report.rewindId, status: "done", toTask: "a" }]);
    expect(await saver.rewinds.unfinished("t")).toBeUndefined();
  });

  test("S3.5 an undo gets the key, the input and the result of its effect, and the effect itself", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one");
    const calls: UndoCall[] = [];
    const [before] = await saver.effects.list("t");
    await saver.rewind(TO_A, undosNamed({ back: (call) => void calls.push(call) }));
    expect(calls).toEqual([
      {
        key: before!.key,
        input: { what: "one" },
        result: `one by ${before!.key.slice(0, 6)}`,
        inDoubt: false,
        effect: before,
      },
    ]);
    expect(ledger.lines()).toEqual(["do one"]);
  });

  test("S3.5 newest first over nested graphs and parallel nodes: in the reverse order of their intents", async () => {
    const { ledger, saver, task } = world();
    await task("a");
    const tree = treeOn(saver, ledger);
    await tree.invoke({ log: [] }, config("b"));
    const inOrder = names((await saver.effects.list("t")).toSorted((left, right) => left.seq - right.seq));
    expect(inOrder.toSorted()).toEqual(["first", "last", "left", "right1", "right2"]);
    expect(inOrder[0]).toBe("first");
    expect(inOrder.at(-1)).toBe("last");
    await saver.rewind(TO_A, undosOf(ledger));
    expect(undone(ledger)).toEqual(inOrder.toReversed());
  });

  test("S3.5 what did not happen, and what needs no undo, is not undone and leaves no gap", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", { name: "looked", undo: false }, { name: "failed", fails: true, undo: undefined });
    const report = await saver.rewind(TO_A);
    expect(undone(ledger)).toEqual([]);
    expect(names(report.effects.needNone)).toEqual(["failed", "looked"]);
  });

  test("S3.5 what a copied thread inherited is the source's to undo", async () => {
    const { saver, graph, task, ledger, undos } = world();
    await task("a");
    await task("b", "one");
    await saver.copyThread("t", "copy");
    await graph.invoke({ deeds: deeds("own") }, config("c", "copy"));
    const report = await saver.rewind({ threadId: "copy", toTask: "a" }, undos);
    expect(undone(ledger)).toEqual(["own"]);
    expect(names(report.effects.inherited)).toEqual(["one"]);
    await saver.rewind(TO_A, undos);
    expect(undone(ledger)).toEqual(["own", "one"]);
  });

  test("S3.5 a copy of a thread that was rewound is whole, and is rewound in its turn", async () => {
    const { saver, graph, task, ledger, undos } = world();
    await task("a");
    await task("b", "one");
    await saver.rewind(TO_A, undos);
    await task("b", "two");
    await saver.copyThread("t", "copy");
    expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
    const keys = async () => (await saver.effects.list("copy")).map(({ key }) => key);
    const before = await keys();
    for (const round of [1, 2, 3]) {
      await graph.invoke({ deeds: deeds("own") }, config("c", "copy"));
      before.push(...(await keys()).filter((key) => !before.includes(key)));
      await saver.rewind({ threadId: "copy", toTask: "b" }, undos);
      expect([ledger.count("do own"), ledger.count("undo own"), before.length]).toEqual([round, round, 1 + round]);
    }
    expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
  });

  test("S3.5 after a rewind the same node does it again, with another key, and that is undone in its turn", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    const keys = new Set<string>();
    for (const round of [1, 2, 3]) {
      await task("b", "one");
      await saver.rewind(TO_A, undosNamed({ back: (call: UndoCall) => (keys.add(call.key), undoing(ledger)(call)) }));
      expect(ledger.count("do one")).toBe(round);
      expect(ledger.count("undo one")).toBe(round);
      expect(keys.size).toBe(round);
    }
  });

  test("S3.5 a class may be an undo; the events tell what was undone", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one");
    class Back {
      readonly #to = ledger;
      run(call: UndoCall): void {
        undoing(this.#to)(call);
      }
    }
    const events = told(saver);
    await saver.rewind(TO_A, undosNamed({ back: new Back() }));
    expect(undone(ledger)).toEqual(["one"]);
    expect(events).toEqual(["undone one #0"]);
  });

  test("S3.5 rewinding to the newest task undoes nothing", async () => {
    const { saver, task, ledger, undos } = world();
    await task("a", "one");
    const report = await saver.rewind(TO_A, undos);
    expect(report.rewindId).toBeUndefined();
    expect(ledger.lines()).toEqual(["do one"]);
  });
});

describe("S3.5 a report of a rewind reads as a few lines", () => {
  const lines = (report: RewindReport): string[] => {
    expect(inspect(report)).toBe(String(report));
    expect(Object.keys(report)).not.toContain("toString");
    return String(report).split("\n");
  };

  test("S3.5 a dry run says what would be deleted and undone, in the order of the undos; the rewind says the same as done", async () => {
    const { saver, task, undos } = world();
    await task("a", "kept");
    await task("b", "one");
    await task("c", "two", { name: "bare", undo: undefined });
    const request = { ...TO_A, allowUncompensated: true };
    const dry = lines(await saver.rewind({ ...request, dryRun: true }, undos));
    const report = await saver.rewind(request, undos);
    const { checkpoints, writes, turns, effects } = report.removed;
    const rows = `${checkpoints} checkpoints, ${writes} writes, ${turns} turns, ${effects} effects`;
    expect(dry).toEqual([
      'Dry run of a rewind: thread "t" to the end of task "a". Nothing was changed.',
      `Would delete: tasks "b", "c"; ${rows}.`,
      'Would undo, in this order: "two" of chores, "one" of chores.',
      'Not undone, because of allowUncompensated: "bare" of chores.',
    ]);
    expect(lines(report)).toEqual([
      'Rewound thread "t" to the end of task "a".',
      `Deleted: tasks "b", "c"; ${rows}.`,
      'Undone, in this order: "two" of chores, "one" of chores.',
      'Not undone, because of allowUncompensated: "bare" of chores.',
      `To take it back: await saver.rewinds.takeBack("${report.rewindId}", { despiteUndone: true })`,
    ]);
  });

  test("S3.5 with nothing to undo, without an archive, and with nothing to delete", async () => {
    const { saver, task, undos } = world();
    for (const name of ["a", "b", "c"]) await task(name);
    const archived = await saver.rewind({ ...TO_A, toTask: "b" }, undos);
    expect(lines(archived).slice(2)).toEqual([
      "Undone: nothing.",
      `To take it back: await saver.rewinds.takeBack("${archived.rewindId}")`,
    ]);
    const report = lines(await saver.rewind({ ...TO_A, archive: false }, undos));
    expect(report[1]).toMatch(/^Deleted: task "b"; /);
    expect(report.slice(2)).toEqual(["Undone: nothing.", "It can't be taken back, because archive is false."]);
    expect(lines(await saver.rewind(TO_A, undos))).toEqual([
      'Thread "t" is at the end of task "a" already. Nothing was deleted or undone.',
    ]);
  });
});

describe("S3.5 coverage", () => {
  test("S3.5 the report says beforehand which effects have an undo, newest first, and how many are covered", async () => {
    const { saver, task, undos, ledger, path } = world();
    await task("a", "kept");
    await task("b", "one", { name: "look", undo: false }, { name: "bare", undo: undefined });
    await task("c", { name: "strange", undo: "unheard of" }, { name: "failed", fails: true }, { name: "doubt", doubt: true });
    const before = rowsOfThread(path, "t");
    const report = await saver.rewinds.compensationReport({ threadId: "t", toTask: "a" }, undos);
    expect(report.effects.map(({ name, verdict }) => [name, verdict])).toEqual([
      ["doubt", "in-doubt"],
      ["failed", "failed"],
      ["strange", "unregistered"],
      ["bare", "missing"],
      ["look", "none-needed"],
      ["one", "undo"],
    ]);
    expect(report).toMatchObject({ threadId: "t", toTask: "a", covered: false, coverage: 2 / 5 });
    expect(await saver.rewinds.compensationReport({ threadId: "t", toTask: "c" }, undos)).toMatchObject({
      covered: true,
      coverage: 1,
      effects: [],
    });
    await expect(saver.rewinds.compensationReport({ threadId: "t", toTask: "z" }, undos)).rejects.toMatchObject({
      code: "UNKNOWN_TASK",
    });
    expect(rowsOfThread(path, "t")).toEqual(before);
    expect(undone(ledger)).toEqual([]);
  });

  test("S3.5 a gap refuses the rewind before anything happens, and names the effects", async () => {
    const { saver, task, undos, ledger, path } = world();
    await task("a");
    await task("b", { name: "bare", undo: undefined }, "one", { name: "strange", undo: "unheard of" });
    const before = rowsOfThread(path, "t");
    const error = await refusal(saver.rewind(TO_A, undos));
    expect(error).toMatchObject({ code: "EFFECT_UNCOMPENSATED" });
    expect(error.message).toMatch(/"strange" in node "chores" .*not defined in this process.*"bare".*has no undo/s);
    expect(error.data!["effects"]).toMatchObject([{ name: "strange" }, { name: "bare" }]);
    expect(undone(ledger)).toEqual([]);
    expect(rowsOfThread(path, "t")).toEqual(before);
  });

  test("S3.5 allowUncompensated leaves those as they are, undoes the others, and the report names them", async () => {
    const { saver, task, undos, ledger } = world();
    await task("a");
    await task("b", { name: "bare", undo: undefined }, "one", { name: "strange", undo: "unheard of" });
    const report = await saver.rewind({ ...TO_A, allowUncompensated: true }, undos);
    expect(names(report.effects.withoutUndo)).toEqual(["strange", "bare"]);
    expect(names(report.effects.undone)).toEqual(["one"]);
    expect(undone(ledger)).toEqual(["one"]);
    expect(await saver.effects.list("t")).toEqual([]);
  });

  test("S3.5 a dry run tells all of it, is refused where the rewind is, and changes nothing", async () => {
    const { saver, task, undos, ledger, path } = world();
    await task("a");
    await task("b", "one", { name: "bare", undo: undefined }, { name: "doubt", doubt: true });
    const doubt = (await saver.effects.list("t")).find(({ name }) => name === "doubt")!;
    const dry = { ...TO_A, dryRun: true };
    expect(await refusal(saver.rewind(dry, undos))).toMatchObject({ code: "EFFECT_IN_DOUBT", data: { effectId: doubt.id } });
    await saver.effects.resolve(doubt.id, { outcome: "not-done" });
    const before = rowsOfThread(path, "t");
    expect(await refusal(saver.rewind(dry, undos))).toMatchObject({ code: "EFFECT_UNCOMPENSATED" });
    const report = await saver.rewind({ ...dry, allowUncompensated: true }, undos);
    expect(report).toMatchObject({ dryRun: true, rewindId: undefined, tasks: ["b"], removed: { effects: 3 } });
    expect(names(report.effects.undone)).toEqual(["one"]);
    expect(names(report.effects.withoutUndo)).toEqual(["bare"]);
    expect(names(report.effects.needNone)).toEqual(["doubt"]);
    expect(rowsOfThread(path, "t")).toEqual(before);
    expect(undone(ledger)).toEqual([]);
  });

  test("S3.5 undos that are none are refused by name", async () => {
    const { saver, task } = world();
    await task("a");
    for (const [undos, named] of [
      [[() => "no defined effect"], /undos\.0/],
      [[...undosNamed({ back: () => true }), { run() {} }], /undos\.1/],
      [undosNamed({ back: () => true }).concat(undosNamed({ back: () => false })), /undos\.1.*"back"/],
      [{ back: () => true }, /undos/],
      [7, /undos/],
    ] as const) {
      const error = await refusal(saver.rewind(TO_A, undos as never));
      expect(error.code).toBe("INVALID_OPTION");
      expect(error.message).toMatch(named);
    }
  });
});

describe("S3.5 effects in doubt", () => {
  test("S3.5 refuse the rewind until somebody says whether they happened", async () => {
    const { saver, task, undos, ledger } = world();
    await task("a");
    await task("b", "one", { name: "doubt", doubt: true });
    const doubt = (await saver.effects.list("t")).find(({ name }) => name === "doubt")!;
    for (const allowUncompensated of [false, true]) {
      const error = await refusal(saver.rewind({ ...TO_A, allowUncompensated }, undos));
      expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT", data: { effectId: doubt.id, name: "doubt" } });
      expect(error.message).toContain(`saver.effects.resolve("${doubt.id}"`);
    }
    expect(undone(ledger)).toEqual([]);
    await saver.effects.resolve(doubt.id, { outcome: "done", result: "told" });
    const results: unknown[] = [];
    await saver.rewind(TO_A, undosNamed({ back: (call: UndoCall) => (results.push(call.result), undoing(ledger)(call)) }));
    expect(undone(ledger)).toEqual(["doubt", "one"]);
    expect(results[0]).toBe("told");
  });

  test.each([
    ["has no undo", undefined],
    ["isn't defined in this process", "unheard of"],
  ])("S3.5 one that %s isn't left as it is, not even with allowUncompensated", async (_, undo) => {
    const { saver, task, undos, path } = world();
    await task("a");
    await task("b", { name: "doubt", doubt: true, undo });
    const before = rowsOfThread(path, "t");
    expect(await refusal(saver.rewind(TO_A, undos))).toMatchObject({ code: "EFFECT_UNCOMPENSATED" });
    for (const dryRun of [true, false]) {
      const error = await refusal(saver.rewind({ ...TO_A, dryRun, allowUncompensated: true }, undos));
      expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT", data: { name: "doubt" } });
    }
    expect(rowsOfThread(path, "t")).toEqual(before);
  });

  test("S3.5 one that a person says did not happen is not undone", async () => {
    const { saver, task, undos, ledger } = world();
    await task("a");
    await task("b", { name: "doubt", doubt: true });
    await saver.effects.resolve((await saver.effects.list("t"))[0]!.id, { outcome: "not-done" });
    await saver.rewind(TO_A, undos);
    expect(undone(ledger)).toEqual([]);
  });

  test("S3.5 an undo that declares whenInDoubt is called for them, and told so", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", { name: "doubt", doubt: true });
    const calls: UndoCall[] = [];
    const run = (call: UndoCall) => (calls.push(call), undoing(ledger)(call));
    await saver.rewind(TO_A, undosNamed({ back: { run, whenInDoubt: true } }));
    expect(undone(ledger)).toEqual(["doubt"]);
    expect(calls).toMatchObject([{ inDoubt: true, result: undefined, input: { what: "doubt" }, effect: { status: "in-doubt" } }]);
  });

  test("S3.5 one that was settled as history keeps what it came to for its undo", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one");
    const { id, key } = (await saver.effects.list("t"))[0]!;
    await saver.effects.resolve(id, { outcome: "history" });
    expect((await saver.effects.get(id)).result).toBe(`one by ${key.slice(0, 6)}`);
    const results: unknown[] = [];
    await saver.rewind(TO_A, undosNamed({ back: (call: UndoCall) => (results.push(call.result), undoing(ledger)(call)) }));
    expect(results).toEqual([`one by ${key.slice(0, 6)}`]);
  });

  test("S3.5 an effect that is being done just now refuses the rewind", async () => {
    const path = fresh();
    const { saver, task, ledger, undos } = world(path);
    await task("a");
    let go = (): void => undefined;
    const waits = new Promise<void>((resolve) => (go = resolve));
    let began = (): void => undefined;
    const begun = new Promise<void>((resolve) => (began = resolve));
    const slow = async () => {
      await effectUndoneBy("back", "slow", async () => (began(), await waits));
      return {};
    };
    const run = attached(saver, line({ slow })).invoke({ log: [] }, config("b"));
    await begun;
    expect(await refusal(saver.rewind(TO_A, undos))).toMatchObject({ code: "THREAD_RUNNING" });
    go();
    await run;
    expect(undone(ledger)).toEqual([]);
  });

  test("S3.5 so does one that its node did not wait for, and that is still being done when the run is over", async () => {
    const { saver, task, ledger, path, undos } = world();
    await task("a");
    let end = () => {};
    let late: Promise<unknown> | undefined;
    const leaves = attached(
      saver,
      line({
        chores: async () => {
          await effectUndoneBy("back", "one", () => ledger.do("do one"), { input: { what: "one" } });
          const ended = new Promise<void>((resolve) => (end = resolve));
          late = effectUndoneBy("back", "slow", () => ended.then(() => ledger.do("do slow")), { input: { what: "slow" } });
          return {};
        },
      }),
    );
    await leaves.invoke({ log: [] }, config("b"));
    const before = stateRows(path);
    expect(await refusal(saver.rewind(TO_A, undos))).toMatchObject({
      code: "THREAD_RUNNING",
      message: expect.stringMatching(/^Process \d+ on .+ is still running effect "slow"/) as string,
    });
    expect(await refusal(saver.rewind({ ...TO_A, dryRun: true }, undos))).toMatchObject({ code: "THREAD_RUNNING" });
    expect(await saver.rewinds.compensationReport({ threadId: "t", toTask: "a" }, undos)).toMatchObject({
      covered: false,
      coverage: 0.5,
    });
    expect(stateRows(path)).toEqual(before);
    expect(ledger.lines()).toEqual(["do one"]);
    end();
    await late;
    await saver.rewind(TO_A, undos);
    expect(undone(ledger)).toEqual(["slow", "one"]);
  });
});

describe("S3.5 an undo that fails", () => {
  /** An undo that fails for the effects that are named in `broken`. */
  const fragile = (ledger: Deeds, broken: Set<string>) => ({
    back: (call: UndoCall) => {
      const { what } = call.input as { what: string };
      if (broken.has(what)) throw new Error(`no way back from ${what}`);
      undoing(ledger)(call);
    },
  });

  test("S3.5 stops, keeps everything, says how to continue, and the same call continues there", async () => {
    const { saver, task, ledger, path, graph } = world();
    await task("a");
    await task("b", "one", "two", "three");
    const before = stateRows(path);
    const broken = new Set(["two"]);
    const error = await refusal(saver.rewind(TO_A, undosNamed(fragile(ledger, broken))));
    const unfinished = (await saver.rewinds.unfinished("t"))!;
    expect(error).toMatchObject({
      code: "UNDO_FAILED",
      data: { name: "two", rewindId: unfinished.id },
      cause: expect.any(Error),
    });
    expect((error.cause as Error).message).toBe("no way back from two");
    expect(error.message).toContain("call the same rewind again");
    expect(error.message).toContain(`saver.rewinds.abandon("${unfinished.id}")`);
    expect(unfinished).toMatchObject({ status: "undoing", toTask: "a" });
    expect(undone(ledger)).toEqual(["three"]);
    expect((await saver.effects.list("t")).map(({ name, undoStatus, undoError }) => [name, undoStatus, undoError])).toEqual([
      ["one", undefined, undefined],
      ["two", "failed", "no way back from two"],
      ["three", "done", undefined],
    ]);
    expect(stateRows(path)).toEqual(before);
    expect(await saver.verify()).toMatchObject({ ok: true });
    expect((await graph.getState(thread())).values.log).toHaveLength(3);

    broken.clear();
    const report = await saver.rewind(TO_A, undosNamed(fragile(ledger, broken)));
    expect(report.rewindId).toBe(unfinished.id);
    expect(undone(ledger)).toEqual(["three", "two", "one"]);
    expect(names(report.effects.undone)).toEqual(["two", "one"]);
    expect(names(report.effects.undoneBefore)).toEqual(["three"]);
    expect((await graph.getState(thread())).values.log ?? []).toEqual([]);
    expect(await saver.rewinds.list("t")).toMatchObject([{ id: unfinished.id, status: "done" }]);
  });

  test("S3.5 finishRewind continues with it too, and is nothing where there is none", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one", "two");
    expect(await saver.rewinds.finish({ threadId: "t" })).toBeUndefined();
    const broken = new Set(["one"]);
    await refusal(saver.rewind(TO_A, undosNamed(fragile(ledger, broken))));
    expect(await refusal(saver.rewinds.finish({ threadId: "t" }, undosNamed(fragile(ledger, broken))))).toMatchObject({
      code: "UNDO_FAILED",
    });
    expect(await refusal(saver.rewinds.finish({ threadId: "t" }))).toMatchObject({ code: "EFFECT_UNCOMPENSATED" });
    broken.clear();
    expect(await saver.rewinds.finish({ threadId: "t" }, undosNamed(fragile(ledger, broken)))).toMatchObject({
      toTask: "a",
      tasks: ["b"],
    });
    expect(undone(ledger)).toEqual(["two", "one"]);
  });

  test("S3.5 one that a person undid by hand is not called again", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one", "two");
    const broken = new Set(["two"]);
    const { data } = await refusal(saver.rewind(TO_A, undosNamed(fragile(ledger, broken))));
    expect(await refusal(saver.effects.resolve(data!["effectId"] as string, { outcome: "not-done" }))).toMatchObject({
      code: "EFFECT_NOT_IN_DOUBT",
      message: expect.stringContaining('To settle its undo, pass { undo: "done" } or { undo: "not-done" }.') as string,
    });
    await saver.effects.resolve(data!["effectId"] as string, { undo: "done" });
    await saver.rewind(TO_A, undosNamed(fragile(ledger, broken)));
    expect(undone(ledger)).toEqual(["one"]);
  });

  test("S3.5 a probe is asked before it is called again: a throw after the side effect does not undo twice", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one");
    const back = {
      run: (call: UndoCall) => {
        undoing(ledger)(call);
        throw new Error("the answer got lost");
      },
      probe: ({ input }: UndoCall) => undone(ledger).includes((input as { what: string }).what),
    };
    expect(await refusal(saver.rewind(TO_A, undosNamed({ back })))).toMatchObject({ code: "UNDO_FAILED" });
    await saver.rewind(TO_A, undosNamed({ back }));
    expect(undone(ledger)).toEqual(["one"]);
  });

  test("S3.5 a probe that fails leaves the undo in doubt, and calls nothing", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one");
    const run = () => {
      throw new Error("no");
    };
    await refusal(saver.rewind(TO_A, undosNamed({ back: run })));
    const probe = () => {
      throw new Error("nobody answers");
    };
    const error = await refusal(saver.rewind(TO_A, undosNamed({ back: { run: undoing(ledger), probe } })));
    expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT", cause: new Error("nobody answers") });
    expect(undone(ledger)).toEqual([]);
  });

  test("S3.5 a probe that answers neither true nor false leaves the undo in doubt, and calls nothing", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one");
    const run = (call: UndoCall) => {
      undoing(ledger)(call);
      throw new Error("the answer got lost");
    };
    await refusal(saver.rewind(TO_A, undosNamed({ back: run })));
    const unclear = fc.anything().filter((answer) => typeof answer !== "boolean");
    await fc.assert(
      fc.asyncProperty(unclear, async (answer) => {
        const back = { run: undoing(ledger), probe: async () => answer as boolean };
        expect(await refusal(saver.rewind(TO_A, undosNamed({ back })))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
        expect(undone(ledger)).toEqual(["one"]);
      }),
      { numRuns: 20 },
    );
    await saver.rewind(TO_A, undosNamed({ back: { run: undoing(ledger), probe: () => true } }));
    expect(undone(ledger)).toEqual(["one"]);
  });

  test("S3.5 that may have run is not called again, and refuses every rewind until a person says it", async () => {
    const { saver, task, ledger, path, undos } = world();
    await task("a");
    await task("b", "one");
    await task("c", "two");
    let marks = 0;
    // As a crash leaves it: the undo has run, and that is not on record.
    setFailpointHandler((point) => {
      if (point === "undo-mark.before" && ++marks === 2) throw new Error("no room");
    });
    try {
      expect(await refusal(saver.rewind(TO_A, undos))).toMatchObject({ code: "EFFECT_NOT_RECORDED" });
    } finally {
      setFailpointHandler(undefined);
    }
    const before = stateRows(path);
    const report = await saver.rewinds.compensationReport({ threadId: "t", toTask: "a" }, undos);
    expect(report.effects.map(({ name, verdict }) => [name, verdict])).toEqual([
      ["two", "undo-in-doubt"],
      ["one", "undo"],
    ]);
    expect(await refusal(saver.rewind(TO_A, undos))).toMatchObject({
      code: "EFFECT_IN_DOUBT",
      message: expect.stringMatching(/^The undo of effect "two" .*never reported its outcome/) as string,
    });
    expect(await refusal(saver.rewind({ threadId: "t", toTask: "b" }, undos))).toMatchObject({
      code: "REWIND_UNFINISHED",
      message: expect.stringMatching(/^A rewind of thread "t" to another target is refused: /) as string,
    });
    expect(undone(ledger)).toEqual(["two"]);
    expect(stateRows(path)).toEqual(before);
    await saver.effects.resolve(report.effects[0]!.id, { undo: "done" });
    await saver.rewind(TO_A, undos);
    expect(undone(ledger)).toEqual(["two", "one"]);
  });

  test("S3.5 that may have run, in a process that hasn't defined it: the definition is asked for, and nobody is to guess", async () => {
    const { saver, task, ledger } = world();
    await task("a");
    await task("b", "one");
    const back = { run: undoing(ledger), probe: () => true };
    let marks = 0;
    setFailpointHandler((point) => {
      if (point === "undo-mark.before" && ++marks === 2) throw new Error("no room");
    });
    try {
      await refusal(saver.rewind(TO_A, undosNamed({ back })));
    } finally {
      setFailpointHandler(undefined);
    }
    expect(await saver.effects.list("t")).toMatchObject([{ undoStatus: "begun" }]);
    const error = await refusal(saver.rewinds.finish({ threadId: "t" }));
    expect(error).toMatchObject({ code: "EFFECT_UNCOMPENSATED" });
    expect(error.message).toContain('Import the module that calls defineEffect("back", …)');
    const allowed = saver.rewinds.finish({ threadId: "t", allowUncompensated: true });
    expect(await refusal(allowed)).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    await saver.rewinds.finish({ threadId: "t" }, undosNamed({ back }));
    expect(undone(ledger)).toEqual(["one"]);
  });

  test("S3.5 what is no error can be thrown, too", async () => {
    const { saver, task } = world();
    await task("a");
    await task("b", "one");
    const back = () => {
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- that is the point
      throw undefined;
    };
    expect(await refusal(saver.rewind(TO_A, undosNamed({ back })))).toMatchObject({ code: "UNDO_FAILED" });
    expect(await saver.effects.list("t")).toMatchObject([{ undoStatus: "failed" }]);
  });
});

describe("S3.5 how the archive, the serde and the keys meet undos", () => {
  test("S3.5 archive: false keeps nothing of what was undone", async () => {
    const { saver, task, ledger, undos, path } = world();
    await task("a");
    await task("b", "one");
    const report = await saver.rewind({ ...TO_A, archive: false }, undos);
    expect(report.archived).toBe(false);
    expect(undone(ledger)).toEqual(["one"]);
    expect(rowsOfThread(path, "t")["langgraph_archive"]).toEqual([]);
    expect(await refusal(saver.rewinds.takeBack(report.rewindId!, { despiteUndone: true }))).toMatchObject({
      code: "REWIND_CONFLICT",
    });
  });

  test("S3.5 taken back, the effects are restored marked as undone, and only on demand", async () => {
    const { saver, task, ledger, undos, graph } = world();
    await task("a");
    await task("b", "one", "two");
    const { rewindId } = await saver.rewind(TO_A, undos);
    const error = await refusal(saver.rewinds.takeBack(rewindId!));
    const nodeName = "chores";
    expect(error).toMatchObject({
      code: "REWIND_CONFLICT",
      data: {
        effects: [
          { name: "two", nodeName },
          { name: "one", nodeName },
        ],
      },
    });
    expect(error.message).toContain(`"two" in node "${nodeName}"`);
    await saver.rewinds.takeBack(rewindId!, { despiteUndone: true });
    expect((await graph.getState(thread())).values.log).toHaveLength(2);
    expect((await saver.effects.list("t")).map(({ undoStatus }) => undoStatus)).toEqual(["done", "done"]);
    const again = await saver.rewind(TO_A, undos);
    expect(undone(ledger)).toEqual(["two", "one"]);
    expect(names(again.effects.undoneBefore)).toEqual(["two", "one"]);
  });

  test("S3.5 with an asynchronous serde, undos get what the effects had", async () => {
    const ledger = new Deeds();
    const serde = {
      dumpsTyped: async (value: unknown): Promise<[string, Uint8Array]> => [
        "mine",
        new TextEncoder().encode(JSON.stringify(value)),
      ],
      loadsTyped: async (_type: string, bytes: Uint8Array | string): Promise<unknown> =>
        JSON.parse(typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes)),
    };
    const saver = open(fresh(), { serde });
    const graph = choresOn(saver, ledger);
    await graph.invoke({ deeds: [] }, config("a"));
    await graph.invoke({ deeds: deeds("one") }, config("b"));
    const calls: UndoCall[] = [];
    await saver.rewind(TO_A, undosNamed({ back: (call) => void calls.push(call) }));
    expect(calls).toMatchObject([{ input: { what: "one" }, result: expect.stringContaining("one by ") }]);
  });

  test("S3.5 in an encrypted file neither input, result nor the error of an undo is plain; the effects read back", async () => {
    const path = fresh();
    const ledger = new Deeds();
    const saver = open(path, { encryption: { key: KEY } as never });
    const graph = choresOn(saver, ledger);
    await graph.invoke({ deeds: [] }, config("a"));
    await graph.invoke({ deeds: deeds("one") }, config("b"));
    const back = () => {
      throw new Error("SECRET-OF-THE-UNDO");
    };
    await refusal(saver.rewind(TO_A, undosNamed({ back })));
    const [effect] = await saver.effects.list("t");
    expect(effect).toMatchObject({ undoStatus: "failed", undoError: "SECRET-OF-THE-UNDO" });
    const plain = JSON.stringify(rowsOfThread(path, "t"));
    const everything = everythingIn(path);
    for (const text of ["SECRET-OF-THE-UNDO", "one by "]) {
      expect(plain.includes(text)).toBe(false);
      expect(everything.includes(text)).toBe(false);
    }
    await saver.rewind(TO_A, undosOf(ledger));
    expect(undone(ledger)).toEqual(["one"]);
    expect(await saver.verify()).toMatchObject({ ok: true });
  });
});
