import { spawn } from "node:child_process";
import { join } from "node:path";
import type { EffectOptions } from "langgraph-checkpoint-turns";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { POINTS, type Point, runner, type Shape, SHAPES } from "./eff-graphs";
import { closeAll, Deeds, fresh, open, refusal } from "../support/eff-world";
import { LONG, pairs } from "../support/lane";

let child: string[] = [];
const AT_ONCE = 2;
const DURABILITIES = ["async", "sync", "exit"] as const;
type Durability = (typeof DURABILITIES)[number];
interface Case {
  shape: Shape;
  point: Point;
  durability: Durability;
  idempotent?: boolean;
}

beforeAll(() => {
  child = childProgram(join(__dirname, "eff-child.ts"));
});
afterEach(closeAll);

/** Runs the child, which must die by SIGKILL. */
function killed({ shape, point, durability, idempotent }: Case, db: string, deeds: Deeds): Promise<void> {
  return new Promise((resolve, reject) => {
    const args = [shape, point, durability, idempotent === true ? "yes" : "no", db, deeds.path];
    const dying = spawn(process.execPath, [...child, ...args], { env: CHILD_ENV });
    let err = "";
    dying.stderr.on("data", (chunk) => (err += String(chunk)));
    dying.on("close", (code, signal) => (signal === "SIGKILL" ? resolve() : reject(new Error(`not killed (${code}): ${err}`))));
  });
}

async function each(cases: readonly Case[], check: (one: Case) => Promise<void>): Promise<void> {
  let next = 0;
  const failures: string[] = [];
  const worker = async (): Promise<void> => {
    for (let one = cases[next++]; one !== undefined; one = cases[next++]) {
      const { shape, point, durability } = one;
      await check(one).catch((error: unknown) => failures.push(`${shape}, ${point}, ${durability}: ${String(error)}`));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  expect(failures).toEqual([]);
}

/** Goes on in this process, as after a crash: where nothing was saved (durability "exit"), with the same input once more. */
function goOn(
  { shape, durability }: Case,
  db: string,
  deeds: Deeds,
  options: EffectOptions<string> = {},
  isSaved = durability !== "exit",
): Promise<unknown> {
  const saver = open(db);
  const run = runner(shape, { saver, deeds, at: () => undefined, options });
  const config = { configurable: { thread_id: "t", task_id: "T" }, durability };
  return run(isSaved ? null : { log: [] }, config).finally(() => saver.close());
}

const DONE_AT_DEATH: Record<Point, { deeds: number; known: boolean }> = {
  "before intent": { deeds: 0, known: true },
  "after intent": { deeds: 0, known: false },
  "before deed": { deeds: 0, known: false },
  "after deed": { deeds: 1, known: false },
  "before outcome": { deeds: 1, known: false },
  "after outcome": { deeds: 1, known: true },
  "before putWrites": { deeds: 1, known: true },
};

/** The completed effect never ran twice, the unknown one not without being asked for, and in the end each ran once. */
async function survives(one: Case): Promise<void> {
  const db = fresh();
  const deeds = new Deeds();
  await killed(one, db, deeds);
  const { deeds: done, known } = DONE_AT_DEATH[one.point];
  expect(deeds.count("act")).toBe(done);
  if (!known) {
    expect(await refusal(goOn(one, db, deeds))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect(deeds.count("act")).toBe(done);
  }
  const probe = (): string | undefined => (deeds.count("act") > 0 ? "acted" : undefined);
  // The refused run failed, and so was saved, whatever the durability.
  const result = await goOn(one, db, deeds, { probe }, !known || one.durability !== "exit");
  expect(JSON.stringify(result)).toContain("acted");
  expect([deeds.count("act"), deeds.count("first")]).toEqual([1, 1]);
  expect(deeds.count("side")).toBe(one.shape === "parallel" ? 1 : 0);
}

const matrix = (durability: Durability, shapes: readonly Shape[], points: readonly Point[]): Case[] =>
  pairs(shapes, points).map(([shape, point]) => ({ shape, point, durability }));

describe("S2.9 S4.4 S4.7 SIGKILL around an effect: another process does not repeat what is done, nor silently what is unknown", () => {
  test.each(DURABILITIES)(
    "S2.9 S4.7 at every point, in every kind of surroundings, durability %s",
    async (durability) => {
      const all = matrix(durability, SHAPES, POINTS);
      // In the short lane each pair is met under one durability.
      const own = DURABILITIES.indexOf(durability);
      await each(LONG ? all : all.filter((_, index) => index % DURABILITIES.length === own), survives);
    },
    300_000,
  );

  test("S2.9 an effect declared idempotent runs again with the same key", async () => {
    const cases = (["async", "exit"] as const).flatMap((durability) =>
      matrix(durability, ["plain", "no checkpointer"], ["after deed"]).map((one) => ({ ...one, idempotent: true })),
    );
    await each(cases, async (one) => {
      const db = fresh();
      const deeds = new Deeds();
      await killed(one, db, deeds);
      await goOn(one, db, deeds, { idempotent: true });
      expect(deeds.count("act")).toBe(2);
      expect(new Set(deeds.lines().filter((line) => line.startsWith("key "))).size).toBe(1);
    });
  }, 300_000);
});
