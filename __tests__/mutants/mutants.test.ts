/** What `npm run mutation` found untested: each test here fails under a change of the source that all other suites let pass. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { AIMessage } from "@langchain/core/messages";
import { effect } from "langgraph-checkpoint-turns";
import {
  BEAT_EXPIRY_MS,
  copyOf,
  decode,
  decodeOfficial,
  effectFailures,
  type EffectRow,
  encode,
  type Failpoint,
  type FailpointDetails,
  isAliveAt,
  matches,
  NO_COPY,
  openSqliteStore,
  planToPoint,
  pointOf,
  rewindFailures,
  type RewindRow,
  type RunRow,
  runsOfThisProcess,
  sameAs,
  setFailpointHandler,
  stateOfTurn,
  type Store,
  type TaskRow,
  thisProcess,
  Tracer,
  type TurnRow,
  type TurnsError,
  withoutBookkeeping,
} from "../../src/testing-internal";
import { attached, closeAll, Deeds, fresh, line, open, refusal, thread } from "../support/eff-world";
import { choresOn, config, type Deed, deeds, undosNamed } from "../support/undo-world";

afterEach(closeAll);

type Args = Record<string, unknown>;

/** A message whose constructor arguments were changed by hand. */
function message(args: Args, properties: Args = {}): AIMessage {
  const value = new AIMessage("x");
  Object.assign(value, properties);
  Object.assign(value.lc_kwargs, args);
  return value;
}

function argumentsBack(value: AIMessage): Args {
  return (decode(encode(value)) as AIMessage).lc_kwargs;
}

describe("copies: an empty value of one class is never taken for that of another", () => {
  const empty: [string, () => unknown][] = [
    ["object", () => ({})],
    ["list", () => []],
    ["Map", () => new Map()],
    ["Set", () => new Set()],
    ["object without prototype", () => Object.create(null) as unknown],
    ["Date", () => new Date(0)],
    ["function that inherits from Object.prototype", () => Object.setPrototypeOf(() => 1, Object.prototype) as unknown],
    ["null", () => null],
    ["undefined", () => undefined],
  ];
  const copied = empty.filter(([, make]) => copyOf(make()) !== NO_COPY);
  const pairs = copied.flatMap(([own, make]) => empty.map(([other, makeOther]) => ({ own, other, make, makeOther })));

  test.each(pairs)("$own and $other", ({ own, other, make, makeOther }) => {
    expect(sameAs(copyOf(make()), makeOther())).toBe(own === other);
    expect(sameAs(copyOf({ part: make() }), { part: makeOther() })).toBe(own === other);
  });
});

describe("copies of messages", () => {
  test("no copy where an argument holds what cannot be copied", () => {
    expect(copyOf(message({ more: Object.assign(new Map(), { further: 1 }) }))).toBe(NO_COPY);
    expect(copyOf(message({ more: new Map() }))).not.toBe(NO_COPY);
  });

  test("no copy where an argument stands for a property that is not enumerable", () => {
    const value = Object.defineProperty(message({ extra: 1 }), "extra", { value: 1, enumerable: false });
    expect(copyOf(value)).toBe(NO_COPY);
    expect(argumentsBack(value)).toHaveProperty("extra", 1);
  });

  test("an argument named like the arguments that holds none is copied as any other", () => {
    const value = message({ lc_kwargs: 5 });
    const copy = copyOf(value);
    expect(copy).not.toBe(NO_COPY);
    expect((copy as AIMessage).lc_kwargs).toHaveProperty("lc_kwargs", 5);
    expect(encode(copy)).toBe(encode(value));
  });
});

describe("an argument that differs from its property", () => {
  test.each([
    ["a list that is empty", [], [1]],
    ["a list that is the beginning", ["a"], ["a", "b"]],
    ["an object that is a part", { a: 1 }, { a: 1, b: 2 }],
  ])("comes back as it was: %s", (_, argument, property) => {
    const args = argumentsBack(message({ response_metadata: argument }, { response_metadata: property }));
    expect(args.response_metadata).toEqual(argument);
  });

  test.each([
    ["another value of the same key", { a: 1 }, { a: 2 }],
    ["a further key without a value", { a: undefined }, {}],
    ["a Map, which has no keys of its own", new Map([["a", 1]]), {}],
    ["a Date", new Date(0), { a: 1 }],
    ["an object, the property null", { a: 1 }, null],
    ["an object, the property undefined", { a: 1 }, undefined],
    ["the letters of a text", ["a", "b"], "ab"],
  ])("is outdated and comes back as the property: %s", (_, argument, property) => {
    const back = decode(encode(message({ response_metadata: argument }, { response_metadata: property }))) as AIMessage;
    expect(back.response_metadata).toEqual(property);
    expect(back.lc_kwargs.response_metadata).toEqual(property);
  });

  test("no prototype is replaced by an argument called __proto__", () => {
    const own = { value: { evil: true }, enumerable: true, configurable: true, writable: true };
    const value = message({});
    Object.defineProperty(value.lc_kwargs, "__proto__", own);
    const args = argumentsBack(value);
    expect(Object.getPrototypeOf(args)).toBe(Object.prototype);
    expect(Object.getOwnPropertyDescriptor(args, "__proto__")).toEqual(own);
  });
});

describe("lists in a shape", () => {
  const slots: unknown[] = [];
  const shape = new Tracer().trace({ list: [1, [], 2] }, slots)!;
  const alike = Object.assign(Object.create(Array.prototype) as object, { 0: 1, 1: [], 2: 2 });
  Object.defineProperty(alike, "length", { value: 3 });

  test("end behind their slots if they are the same", () => {
    expect(slots).toEqual([1, 2]);
    expect(matches(shape, slots, 0, { list: [1, [], 2] })).toBe(2);
  });

  test.each([
    ["shorter", [1, []]],
    ["empty", []],
    ["longer", [1, [], 2, 2]],
    ["with a list that is not empty", [1, [2], 2]],
    ["with a property on the empty list", [1, Object.assign([], { further: 1 }), 2]],
    ["no list, but like one", alike],
  ])("differ: %s", (_, list) => {
    expect(matches(shape, slots, 0, { list })).toBe(-1);
  });
});

describe("what only looks like something known", () => {
  test("an object that inherits is refused, no matter what its constructor is called", () => {
    const refused = expect.objectContaining({ code: "UNSERIALIZABLE_VALUE" }) as Error;
    const bare = Object.assign(Object.create(null) as object, { constructor: Map });
    for (const prototype of [{ constructor: Object, inherited: 1 }, bare]) {
      expect(() => encode(Object.create(prototype))).toThrow(refused);
    }
  });

  test("an unknown marker is named as such", () => {
    expect(() => decode('{"~":"nothing"}')).toThrow(/^A saved value can't be read: an unknown marker\./);
  });

  test("a URL is restored with its further properties", () => {
    const back = decode(encode(Object.assign(new URL("https://a.b/"), { further: [1] })));
    expect(back).toBeInstanceOf(URL);
    expect(back).toHaveProperty("further", [1]);
  });

  test.each([
    ["one element", ["a"]],
    ["three", ["a", 1, 2]],
    ["two letters", "ab"],
  ])("the official saver's record of a Map stays a record if an entry is no pair: %s", (_, entry) => {
    const record = { lc: 2, type: "constructor", id: ["Map"], args: [[entry]] };
    expect(decodeOfficial("json", JSON.stringify(record))).toEqual(record);
  });
});

describe("whether a run is still running", () => {
  const now = 1_700_000_000_000;
  const row = (more: Partial<RunRow>): RunRow => ({
    ...{ runId: "run", threadId: "t", startedAt: new Date(now).toISOString(), beatAt: now },
    ...thisProcess(),
    ...more,
  });
  const gone = spawnSync(process.execPath, ["-e", ""]).pid;
  const stale = now - BEAT_EXPIRY_MS;

  test.each<[string, Partial<RunRow>, boolean]>([
    ["one of this process that is over", {}, false],
    ["one of a process that has ended", { pid: gone, pidStart: "1" }, false],
    ["one of a process that has ended, of which the system did not say when it began", { pid: gone, pidStart: "" }, false],
    ["one of a process that lives", { pid: process.ppid, pidStart: "" }, true],
    ["one of a process that lives, without a sign of life for long", { pid: process.ppid, pidStart: "", beatAt: stale }, true],
    ["one of a process that lives, and is wedged", { pid: process.ppid, pidStart: "", beatAt: now - 300_000 }, false],
    ["one of a process that lives, and is nearly so", { pid: process.ppid, pidStart: "", beatAt: now - 299_000 }, true],
    ["one that was given up, of a process that lives", { pid: process.ppid, pidStart: "", beatAt: 0 }, false],
    ["one of another host, with a recent sign of life", { host: "elsewhere", pid: gone }, true],
    ["one of another host, without one for long", { host: "elsewhere", pid: process.ppid, beatAt: stale }, false],
    ["one from before the machine was started", { host: "elsewhere", boot: "an earlier one" }, false],
    ["one from before it, of a process that lives", { pid: process.ppid, pidStart: "", boot: "an earlier one" }, false],
    ["one of another host, whose pid and start happen to be ours", { host: "elsewhere" }, true],
    ["one of a former process that had our pid", { pidStart: "1" }, false],
    ["one of a process that has ended, and began when we did", { pid: gone, pidStart: `${thisProcess().pidStart}/7` }, false],
    ["one of another thread of this process", { pidStart: `${thisProcess().pidStart}/7` }, true],
    ["one of another thread of this process, silent for long", { pidStart: `${thisProcess().pidStart}/7`, beatAt: stale }, false],
  ])("%s", (_, more, alive) => {
    expect(isAliveAt(row(more), now)).toBe(alive);
  });

  test("one of this process that is running, whenever it gave its last sign of life", () => {
    runsOfThisProcess.add("run");
    try {
      expect(isAliveAt(row({ beatAt: stale }), now)).toBe(true);
      expect(isAliveAt(row({ pid: gone }), now)).toBe(false);
    } finally {
      runsOfThisProcess.delete("run");
    }
  });

  test("one of a process that may not be signalled, since it is another user's", () => {
    const kill = jest.spyOn(process, "kill").mockImplementation(() => {
      throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
    });
    try {
      expect(isAliveAt(row({ pid: process.ppid, pidStart: "" }), now)).toBe(true);
    } finally {
      kill.mockRestore();
    }
  });

  const stat = `/proc/${process.ppid}/stat`;
  (existsSync(stat) ? test : test.skip)("one of a process whose pid another one has by now", () => {
    const start = readFileSync(stat, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ")[19]!;
    const pid = process.ppid;
    expect(isAliveAt(row({ pid, pidStart: start }), now)).toBe(true);
    expect(isAliveAt(row({ pid, pidStart: `${start}/3` }), now)).toBe(true);
    expect(isAliveAt(row({ pid, pidStart: `${start}0` }), now)).toBe(false);
  });
});

describe("the state of a turn", () => {
  test("is a plain object that the caller may change, and no prototype of a channel's making", () => {
    const channels = Object.defineProperty({ log: ["a"], "branch:to:x": null }, "__proto__", {
      value: { evil: 1 },
      enumerable: true,
    });
    const state = withoutBookkeeping(channels);
    expect(Object.getPrototypeOf(state)).toBe(Object.prototype);
    expect(Reflect.ownKeys(state)).toEqual(["log"]);
    const usual = { enumerable: true, configurable: true, writable: true };
    expect(Object.getOwnPropertyDescriptor(state, "log")).toEqual({ value: ["a"], ...usual });
  });

  test("is refused by name where the checkpoint that a Thought began at is gone", () => {
    const turn = { id: "turn-1", turnType: "Thought", stateFormat: "ref", checkpointId: "c-1" } as unknown as TurnRow;
    expect(() => stateOfTurn(turn, {}, () => undefined)).toThrow(
      expect.objectContaining({
        code: "CHECKPOINT_NOT_FOUND",
        message: expect.stringMatching(/^The state of turn turn-1 is gone: checkpoint c-1, /) as string,
      }) as Error,
    );
  });
});

describe("the places around users' functions", () => {
  /** What was reached and done, in order, and what the places said about themselves. */
  async function course(given: Deed[]): Promise<{ steps: string[]; details: FailpointDetails[]; keys: string[]; node: string }> {
    const saver = open(fresh());
    const graph = choresOn(saver, new Deeds());
    const steps: string[] = [];
    const details: FailpointDetails[] = [];
    await graph.invoke({ deeds: [] }, config("a"));
    saver.events.on("effect", ({ what }) => void steps.push(what));
    setFailpointHandler((point: Failpoint, about) => {
      if (!point.includes("-body.")) return;
      steps.push(point);
      details.push(about);
    });
    try {
      await graph.invoke({ deeds: given }, config("b"));
      const effects = await saver.effects.list("t");
      await saver.rewind({ threadId: "t", toTask: "a" }, undosNamed({ back: () => void steps.push("undoing") }));
      return { steps, details, keys: effects.map(({ key }) => key), node: effects[0]!.nodeTaskId };
    } finally {
      setFailpointHandler(undefined);
    }
  }

  test("are reached before and after it, between its marks, and name thread, node, effect and key", async () => {
    const { steps, details, keys, node } = await course(deeds("one"));
    expect(steps).toEqual([
      ...["begun", "effect-body.before", "effect-body.after", "done"],
      ...["undo-body.before", "undoing", "undo-body.after", "undone"],
    ]);
    expect(keys).toHaveLength(1);
    const place = { threadId: "t", nodeTaskId: node, node: "chores", effect: "one", key: keys[0] };
    expect(details).toEqual([place, place, place, place]);
  });

  test("the one after it is not reached if it throws", async () => {
    const { steps } = await course([{ name: "one", fails: true }]);
    expect(steps).toEqual(["begun", "effect-body.before", "failed"]);
  });
});

describe("a rewind to a point of a thread", () => {
  const tasks = [
    { taskId: "a", seq: 5 },
    { taskId: "b", seq: 9 },
    { taskId: "a", seq: 12 },
  ] as TaskRow[];

  test.each([
    [5, "a", ["a", "b"]],
    [8, "a", ["b", "a"]],
    [9, "b", ["b", "a"]],
    [11, "b", ["a"]],
    [12, "a", ["a"]],
    [20, "a", ["a"]],
    [Infinity, "a", []],
  ])("at %d belongs to the task that had begun by then, and takes off what began behind it", (seq, toTask, going) => {
    expect(planToPoint("t", seq, tasks)).toEqual({ targetSeq: seq, toTask, tasks: going });
  });

  test.each([
    ["before its first task", () => planToPoint("t", 4, tasks), "UNKNOWN_TASK", { targetSeq: 4 }],
    ["of no thread", () => planToPoint("t", 4, []), "UNKNOWN_TASK", { targetSeq: 4 }],
    [
      "at a checkpoint that is not there",
      () => pointOf({ threadId: "t", checkpointId: "c", reason: "r" }, undefined),
      "CHECKPOINT_NOT_FOUND",
      { checkpointNs: "", checkpointId: "c" },
    ],
  ])("%s is refused by name", (_, plan, code, data) => {
    expect(plan).toThrow(expect.objectContaining({ code, data: { threadId: "t", ...data } }) as Error);
    expect(plan).toThrow(/^Thread "t" can't be rewound to .+\. .*Nothing was deleted\.$/);
  });
});

describe("an effect that somebody else took up while it was being done", () => {
  const ended = { outcome: undefined, endedAt: new Date(0).toISOString() };
  const claim = { taskId: undefined, graphId: undefined, kind: "resume", name: "x" };

  test.each<[string, (store: Store, row: EffectRow) => unknown, RegExp, object]>([
    [
      "was begun again",
      (store, row) => store.retryEffect(row, { ...row, claim } as never, false),
      /it is tried again by now/,
      { status: "in-doubt", tries: 2 },
    ],
    [
      "is being undone",
      (store, { id }) => store.settleUndo(id, { status: "begun", error: undefined, at: ended.endedAt }),
      /it is being undone, or undone by now/,
      { status: "in-doubt", tries: 1, undoStatus: "begun" },
    ],
    [
      "failed for good",
      (store, { id }) => store.settleEffect(id, { ...ended, status: "final", settledBy: undefined }),
      /it is final by now/,
      { status: "failed-for-good", tries: 1 },
    ],
  ])("%s: its late result is refused by name, and what stands in the journal stays", async (_, takeUp, message, stands) => {
    const path = fresh();
    const saver = open(path);
    const other = openSqliteStore(path, { synchronous: "normal", busyTimeoutMs: 1_000 });
    const deeds = new Deeds();
    const a = () =>
      effect("act", async () => {
        const [row] = await other.listEffects({ threadId: "t" });
        await takeUp(other, row!);
        deeds.do("act");
        return "late";
      }).then((log) => ({ log: [log] }));
    try {
      expect(await refusal(attached(saver, line({ a })).invoke({ log: [] }, thread()))).toMatchObject({
        code: "EFFECT_NOT_RECORDED",
        message: expect.stringMatching(message) as string,
      });
    } finally {
      other.close();
    }
    const [listed] = await saver.effects.list("t");
    expect(listed).toMatchObject(stands);
    expect((await saver.effects.get(listed!.id)).result).toBeUndefined();
    expect(deeds.lines()).toEqual(["act"]);
  });
});

test("events tell of an effect that is begun as running, and of one in doubt as that", async () => {
  const saver = open(fresh());
  const events: string[] = [];
  saver.events.on("effect", ({ what, effect: { status } }) => void events.push(`${what}: ${status}`));
  const graph = choresOn(saver, new Deeds());
  await graph.invoke({ deeds: deeds("one") }, config("a"));
  await refusal(graph.invoke({ deeds: [{ name: "two", doubt: true }] }, config("b")));
  expect(events).toEqual(["begun: running", "done: done", "begun: running", "in-doubt: in-doubt"]);
});

describe("errors of effects and rewinds", () => {
  const row = {
    ...{ id: "e-1", threadId: "t", name: "charge", label: "#0", key: "key-1", nodeName: "pay", nodeTaskId: "n-1" },
    ...{ taskId: "a", undo: "refund", status: "intent", tries: 1, process: "12 host 7", startedAt: "2026-01-01T00:00:00.000Z" },
  } as unknown as EffectRow;
  const rewind = { id: "r-1", threadId: "t", status: "done", createdAt: "2026-01-01T00:00:00.000Z" } as RewindRow;
  const gap = { id: "e-1", name: "charge", nodeName: "pay", undo: undefined } as never;
  const cause = new Error("cause");
  const { inDoubt, lostRun, changed, unclear, notRecorded, overruled, resultNotSaved, gone, ended, unknownEffect } =
    effectFailures;
  const { uncompensated, inDoubtBehind, undoInDoubt, runningBehind, undoFailed, undoNotRecorded, goneMeanwhile, takenOver } =
    rewindFailures;
  const { notUnfinished, undoneMeanwhile } = rewindFailures;

  const whole = /^[A-Z\d].+[^ ]\. \S.*\.$/;

  test("resultNotSaved says what is wrong first, and then what to do", () => {
    const { code, message, data, cause: why } = resultNotSaved(row, "at result.f there is a function", cause);
    expect([code, data["effectId"], why]).toEqual(["UNSERIALIZABLE_VALUE", "e-1", cause]);
    expect(message).toMatch(
      /^Effect "charge" \(#0\) in node "pay" .* can't be saved: at result\.f there is a function\. It won't run again\..*"e-1".*\.$/,
    );
  });

  test("uncompensated names the effects first, then what to do about those without an undo and those that aren't defined here", () => {
    const of = (verdict: string, count = 1): TurnsError =>
      uncompensated("t", Array<never>(count).fill({ ...(gap as object), undo: "refund", verdict } as never));
    expect(of("missing").code).toBe("EFFECT_UNCOMPENSATED");
    expect(of("missing").message).toMatch(
      /^The rewind of thread "t" can't undo 1 effect: "charge" in node "pay" \(e-1: has no undo\)\. Give effects an undo, defineEffect.* Or undo by hand/,
    );
    expect(of("unregistered").message).toMatch(
      /\(e-1: not defined in this process\)\. Import the module that calls defineEffect\("refund", …\) before you rewind\. Or undo by hand/,
    );
    expect(of("ambiguous").message).toMatch(
      /\(e-1: defined more than once\)\. Several definitions are named "refund", .* Pass the one to use, .* Or undo by hand/,
    );
    expect(of("missing", 7).message).toMatch(/can't undo 7 effects: .* and 2 more\. /);
  });

  test.each<[string, TurnsError, ...string[]]>([
    ["inDoubt", inDoubt(row), "e-1", "key-1"],
    ["lostRun", lostRun(row), "e-1", "outcome unknown"],
    ["lostRun, done", lostRun({ ...row, status: "done" }), "e-1", "(done)"],
    ["changed", changed(row), "charge"],
    ["unclear", unclear(row), "charge"],
    ["notRecorded", notRecorded(row, "done", cause), "e-1", "is done"],
    ["notRecorded, failed", notRecorded(row, "failed", cause), "e-1", "has failed"],
    ["overruled", overruled(row, row), "e-1", "key-1"],
    ["gone", gone(row), "charge"],
    ["ended", ended("charge", { threadId: "t", nodeTaskId: "n-1" } as never), "charge"],
    ["unknownEffect", unknownEffect("e-1"), "e-1"],
    ["inDoubtBehind", inDoubtBehind(row), "e-1", "key-1"],
    ["undoInDoubt", undoInDoubt(row), "e-1", "never reported"],
    ["undoInDoubt, after a probe", undoInDoubt(row, cause), "e-1", "probe failed"],
    ["runningBehind", runningBehind(row), "12 on host"],
    ["undoFailed", undoFailed(row, "r-1", cause), "e-1", "r-1"],
    ["undoNotRecorded", undoNotRecorded(row, cause), "e-1"],
    ["goneMeanwhile, undone", goneMeanwhile(row, true), "was undone"],
    ["goneMeanwhile, not undone", goneMeanwhile(row, false), "Neither"],
    ["takenOver", takenOver(row), "charge"],
    ["notUnfinished", notUnfinished(rewind), "r-1", "done at 2026"],
    ["notUnfinished, given up", notUnfinished({ ...rewind, status: "abandoned" }), "r-1", "given up before"],
    ["undoneMeanwhile", undoneMeanwhile(rewind, [gap]), "r-1", "(e-1)"],
    ["undoneMeanwhile, many", undoneMeanwhile(rewind, Array<never>(6).fill(gap)), "r-1", "(e-1) and 1 more"],
  ])("%s says what it is about, what was expected, what was found and what to do", (_, { code, message }, ...named) => {
    expect(code).toMatch(/^[A-Z]+(_[A-Z]+)+$/);
    expect(message).toMatch(whole);
    expect(message).not.toMatch(/undefined|NaN|\[object/);
    for (const part of named) expect(message).toContain(part);
  });

  test("so does the refusal of a call that is in no node, or in a graph that nobody attached to, and of a needless settlement", async () => {
    const act = () => effect("act", () => "done");
    const body = { a: () => act().then((log) => ({ log: [log] })) };
    const saver = open(fresh());
    const unattached = refusal(line(body).compile({ checkpointer: saver }).invoke({ log: [] }, thread("other")));
    await attached(saver, line(body)).invoke({ log: [] }, thread());
    const [{ id } = { id: "" }] = await saver.effects.list("t");
    const settled = refusal(saver.effects.resolve(id, { outcome: "not-done" }));
    for (const [error, ...named] of [
      [await refusal(act()), '"act"', "no config of LangGraph's"],
      [await unattached, '"act"', "no TurnSaver is attached"],
      [await settled, '"act"', id, "it is done"],
    ] as const) {
      expect(error.message).toMatch(whole);
      for (const part of named) expect(error.message).toContain(part);
    }
  });
});
