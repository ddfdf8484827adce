import { spawn } from "node:child_process";
import { join } from "node:path";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { closeAll, Deeds, fresh, quietLogger, refusal, thread } from "../support/eff-world";
import { copyStore, dump } from "../support/s1-tools";
import { crashUndos, type Kind } from "./undo-crash";
import { choresOn, config, stateRows, treeOn } from "../support/undo-world";
import { points, runs } from "../support/lane";
import { openSaver } from "../support/open-saver";

const AT_ONCE = 4;
const TO_A = { threadId: "t", toTask: "a" };

jest.setTimeout(600_000);
afterAll(closeAll);

let child: string[] = [];

interface Ended {
  points: string[];
  undone?: string[];
  code?: string;
}

/** @returns "killed" if the child died by SIGKILL */
function runChild(path: string, kind: Kind, killAt: number): Promise<Ended | "killed"> {
  return new Promise((resolve, reject) => {
    const args = [...child, path, `${path}.deeds`, `${path}.calls`, kind, String(killAt)];
    const ended = spawn(process.execPath, args, { env: CHILD_ENV });
    let out = "";
    let err = "";
    ended.stdout.on("data", (chunk) => (out += String(chunk)));
    ended.stderr.on("data", (chunk) => (err += String(chunk)));
    ended.on("close", (code, signal) => {
      if (signal === "SIGKILL") resolve("killed");
      else if (code === 0) resolve(JSON.parse(out) as Ended);
      else reject(new Error(`child ended with ${code}: ${err}`));
    });
  });
}

let template = "";
/** The five effects, newest first, each with its key, as the ledger shows their undos. */
let expected: string[] = [];
let before: unknown;
let after: unknown;

function another(): string {
  const path = fresh();
  copyStore(template, path);
  return path;
}

beforeAll(async () => {
  child = childProgram(join(__dirname, "undo-child.ts"));
  template = fresh();
  const ledger = new Deeds();
  const saver = openSaver(template, { logger: quietLogger() });
  await choresOn(saver, ledger).invoke({ deeds: [{ name: "kept" }] }, config("a"));
  await treeOn(saver, ledger).invoke({ log: [] }, config("b"));
  const effects = (await saver.effects.list("t")).filter(({ taskId }) => taskId === "b");
  expected = effects.toReversed().map(({ name, key }) => `undo ${name} ${key}`);
  saver.close();
  const path = another();
  const uninterrupted = openSaver(path, { logger: quietLogger() });
  await uninterrupted.rewind(TO_A, crashUndos("plain", new Deeds(`${path}.deeds`), new Deeds(`${path}.calls`)));
  uninterrupted.close();
  expect(new Deeds(`${path}.deeds`).lines()).toEqual(expected);
  before = stateRows(template);
  after = stateRows(path);
});

/** Runs `check` for each number, a few at a time, and reports every failure with its number. */
async function forEachPoint(all: readonly number[], check: (killAt: number) => Promise<void>): Promise<void> {
  let next = 0;
  const failures: string[] = [];
  const worker = async (): Promise<void> => {
    for (let killAt = all[next++]; killAt !== undefined; killAt = all[next++]) {
      await check(killAt).catch((error: unknown) => failures.push(`point ${killAt}: ${String(error)}`));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  expect(failures).toEqual([]);
}

/** What the killed process left: whole, and no undo ran out of its turn. */
function expectWhole(path: string): { isAfter: boolean; undone: string[] } {
  const state = stateRows(path);
  const isAfter = JSON.stringify(state) === JSON.stringify(after);
  if (!isAfter) expect(state).toEqual(before);
  const undone = new Deeds(`${path}.deeds`).lines();
  expect(undone).toEqual(expected.slice(0, undone.length));
  if (isAfter) expect(undone).toEqual(expected);
  const statuses = (dump(path)["langgraph_rewinds"] as { status: string }[]).map(({ status }) => status);
  if (isAfter) expect(statuses).toEqual(["done"]);
  else expect(statuses).toEqual(undone.length > 0 ? ["undoing"] : expect.arrayContaining([]));
  return { isAfter, undone };
}

describe.each<Kind>(points(["plain", "probe", "idempotent"], 1))(
  "S3.5 SIGKILL at every step of a rewind with five undos: %s",
  (kind) => {
    test(`S3.5 ${kind}: after the next start each undo has run exactly once, and the state was fully before or fully after`, async () => {
      const whole = (await runChild(another(), kind, 0)) as Ended;
      expect(whole.undone).toHaveLength(5);
      // The run's mark, the rewind's, two for each undo, the deletion, and the mark again: each twice; and the five calls.
      expect(whole.points).toHaveLength(14 * 2 + 5);
      const seen = { before: 0, after: 0, doubt: 0, again: 0 };
      const last = whole.points.length;
      const kills = points(
        whole.points.map((_, index) => index + 1),
        12,
      );
      await forEachPoint(kills, async (killAt) => {
        const path = another();
        expect(await runChild(path, kind, killAt)).toBe("killed");
        const { isAfter, undone } = expectWhole(path);
        seen[isAfter ? "after" : "before"] += 1;
        const ledger = new Deeds(`${path}.deeds`);
        const calls = new Deeds(`${path}.calls`);
        const saver = openSaver(path, { logger: quietLogger() });
        try {
          const unfinished = await saver.rewinds.unfinished("t");
          const undos = crashUndos(kind, ledger, calls);
          const doubtful = (await saver.effects.list("t")).find(({ undoStatus }) => undoStatus === "begun");
          if (kind === "plain" && doubtful !== undefined) {
            const error = await refusal(saver.rewind(TO_A, undos));
            expect(error).toMatchObject({ code: "EFFECT_IN_DOUBT", data: { effectId: doubtful.id } });
            expect(await refusal(saver.rewinds.abandon(unfinished!.id))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
            expect(ledger.lines()).toEqual(undone);
            seen.doubt += 1;
            const happened = undone.includes(`undo ${doubtful.name} ${doubtful.key}`);
            await saver.effects.resolve(doubtful.id, { undo: happened ? "done" : "not-done" });
          }
          const report = await saver.rewind(TO_A, undos);
          expect(report.rewindId).toBe(isAfter ? undefined : (unfinished?.id ?? report.rewindId));
          expect(ledger.lines()).toEqual(expected);
          if (kind !== "idempotent") expect(calls.lines()).toEqual(expected);
          else seen.again += calls.lines().length - expected.length;
          expect(stateRows(path)).toEqual(after);
          expect(await saver.rewinds.list("t")).toMatchObject([{ status: "done", toTask: "a" }]);
          expect((await saver.effects.list("t")).map(({ name }) => name)).toEqual(["kept"]);
          expect(await saver.verify()).toMatchObject({ ok: true });
          const next = await choresOn(saver, ledger).invoke({ deeds: [{ name: "next" }] }, thread());
          expect(next.log).toHaveLength(2);
        } finally {
          saver.close();
        }
      });
      const late = kills.filter((killAt) => killAt > last - 3).length;
      expect(seen).toMatchObject({ after: late, before: kills.length - late });
      // Of each undo: begun; called; called, and about to be marked as done.
      const [doubt, again] = kills.length === last ? [15, 10] : [seen.doubt || 1, seen.again || 1];
      expect(seen.doubt).toBe(kind === "plain" ? doubt : 0);
      expect(seen.again).toBe(kind === "idempotent" ? again : 0);
    });
  },
);

test("S3.5 two processes that rewind at once: each undo runs once, and one of the two is refused or finds nothing left", async () => {
  for (let round = 0; round < runs(1, 3); round += 1) {
    const path = another();
    const both = (await Promise.all([runChild(path, "plain", 0), runChild(path, "plain", 0)])) as Ended[];
    expect(new Deeds(`${path}.deeds`).lines()).toEqual(expected);
    expect(stateRows(path)).toEqual(after);
    const winners = both.filter(({ undone }) => undone?.length === 5);
    expect(winners).toHaveLength(1);
    const loser = both.find((one) => one !== winners[0])!;
    if (loser.code === undefined) expect(loser.undone).toEqual([]);
    else expect(["THREAD_RUNNING", "REWIND_UNFINISHED", "STATE_INVARIANT_VIOLATED"]).toContain(loser.code);
  }
});
