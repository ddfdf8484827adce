import { dirname, join } from "node:path";
import { faultsOf } from "../../torture/crash/checks";
import { crashMatrix, type Tally } from "../../torture/crash/matrix";
import type { Line } from "../../torture/crash/ledger";
import type { Plan } from "../../torture/crash/plan";
import { failureText, inWords } from "../../torture/crash/report";
import type { Course } from "../../torture/crash/trial";
import { bundledChild } from "../../torture/crash/workers";
import { tempFile } from "../support/temp";
import { runs } from "../support/lane";

const ROOT = join(__dirname, "..", "..");

describe("S1.6 S2.8 S2.9 S4.7 random crash matrix: random programs, killed at random points, in the resume too", () => {
  let child = "";
  const killed = (seed: number, kills: number): Promise<Tally> =>
    crashMatrix({ seed, kills, jobs: 2, trialsPerPlan: 4, child, root: ROOT });
  const expectNone = (seed: number, tally: Tally): void => {
    expect(tally.failures.map((failure) => failureText(seed, failure))).toEqual([]);
  };

  beforeAll(() => {
    child = bundledChild(ROOT, dirname(tempFile()));
  }, 300_000);

  test("S2.8 kills of a fixed seed: nothing that finished is done again, and each run comes to what the uncrashed one came to", async () => {
    const kills = runs(10, 50);
    const tally = await killed(20_260, kills);
    expectNone(20_260, tally);
    expect(tally.kills).toBeGreaterThanOrEqual(kills);
    expect([tally.compound, tally.effects].every((count) => count > 0)).toBe(true);
  }, 300_000);

  test("S2.8 a few kills of a seed that nobody has tried", async () => {
    const seed = Math.floor(Math.random() * 1e9);
    const tally = await killed(seed, runs(2, 8));
    process.stdout.write(`seed ${seed}: ${inWords(tally)}\n`);
    expectNone(seed, tally);
  }, 300_000);
});

describe("what the crash matrix would say if a promise were broken", () => {
  const plan = { durability: "async", program: { flow: { stages: [] } } } as Plan;
  const finish = {
    values: 1,
    history: [],
    tasks: ["T"],
    next: [],
    inFlight: [],
    ended: ["n"],
    effects: ["n pay #0 done"],
    problems: [],
    integrity: "ok",
  };
  const start: Line = { t: "start", id: "i", l: "n", unsaved: false };
  const call = (kind: "probe" | "idempotent" | "bare" = "bare"): Line => ({ t: "call", e: "n pay#0", key: "k", kind });
  const other: Line = { t: "call", e: "n pay#0", key: "other", kind: "bare" };
  const deed: Line = { t: "deed", e: "n pay#0", key: "k", value: "v" };
  const woke = (status: string, durable: string[] = []): Line => ({ t: "woke", durable, effects: { k: status } });
  const course = (lines: Line[], other: object = {}): Course => ({
    answer: { finish: { ...finish, ...other }, points: [], tookMs: 1 },
    lines,
  });
  const whole = course([start, call(), deed]);
  const said = (lines: Line[], other: object = {}): string =>
    faultsOf(plan, whole, course(lines, other))
      .map(({ promise, text }) => `${promise}: ${text}`)
      .join("; ");

  test.each<[string, Line[]]>([
    ["without a crash", [start, call(), deed]],
    [
      "a person says that it was not done",
      [start, call(), woke("in-doubt"), { t: "settled", key: "k", outcome: "not-done" }, start, call(), deed],
    ],
    [
      "a person says that it was done",
      [start, call(), deed, woke("in-doubt"), start, { t: "settled", key: "k", outcome: "done" }],
    ],
    [
      "a probe does not find it",
      [start, call("probe"), woke("in-doubt"), start, { t: "probe", e: "n pay#0", key: "k", found: false }, call("probe"), deed],
    ],
    ["it is idempotent", [start, call("idempotent"), deed, woke("in-doubt"), start, call("idempotent"), deed]],
    ["it threw", [start, call(), { t: "threw", e: "n pay#0", key: "k" }, start, call(), deed]],
  ])("nothing: %s", (_, lines) => {
    expect(said(lines)).toBe("");
  });

  test.each<[string, Line[], string]>([
    ["a completed body", [start, call(), deed, woke("done", ["i"]), start], "tasks: a completed body ran again"],
    ["one within a process", [start, call(), deed, { t: "round", durable: ["i"] }, start], "tasks: a completed body ran again"],
    ["a visit under another id", [start, call(), deed, { ...start, id: "other" }], "tasks: node tasks of the visit"],
    ["a completed effect", [start, call(), deed, woke("done"), start, call(), deed], "effects: a completed effect ran again"],
    ["one within a process", [start, call(), deed, start, call(), deed], "effects: an effect ran again in one process"],
    [
      "one under another key",
      [start, call(), deed, woke("done"), other, { ...deed, key: "other" }],
      "effects: keys of the effect",
    ],
    ["one in doubt", [start, call(), woke("in-doubt"), start, call(), deed], "doubts: an effect in doubt ran again silently"],
    [
      "one in doubt, with a probe",
      [start, call("probe"), woke("in-doubt"), call("probe"), deed],
      "doubts: an effect in doubt ran",
    ],
    [
      "one in doubt, under another key",
      [start, call(), woke("in-doubt"), other, { ...deed, key: "other" }],
      "doubts: left in doubt",
    ],
    ["a deed that is missing", [start, call(), woke("done")], "state: done 0 times"],
  ])("it names %s that is repeated or lost", (_, lines, fault) => {
    expect(said(lines)).toContain(fault);
  });

  test.each<[string, object]>([
    ["values", { values: 2 }],
    ["history", { history: [1] }],
    ["ended", { ended: ["n", "n"] }],
    ["effects", { effects: ["n pay #0 in-doubt"] }],
    ["in flight at the end", { inFlight: ["n"] }],
    ["verify", { problems: ["row"] }],
    ["integrity_check", { integrity: "malformed" }],
  ])("it names what differs at the end: %s", (part, other) => {
    expect(said(whole.lines, other)).toContain(`state: ${part}`);
  });
});
