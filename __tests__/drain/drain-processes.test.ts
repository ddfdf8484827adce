import { spawn } from "node:child_process";
import { join } from "node:path";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { runs } from "../support/lane";
import { SideEffects } from "../support/run-world";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { openSaver } from "../support/open-saver";

jest.setTimeout(300_000);

const THREADS = 20;

interface Told {
  early?: number;
  report?: { done: boolean; running: unknown[] };
  told?: Record<string, string>;
}

/** One life of the server: it sends itself SIGTERM so long after it has begun to work. From here it might come when all is done. */
async function life(path: string, afterMs: number): Promise<{ told: Told; status: number | null; errors: string }> {
  const program = childProgram(join(__dirname, "drain-child.ts"));
  const child = spawn(process.execPath, [...program, path, String(THREADS), String(afterMs)], {
    env: CHILD_ENV,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const told: Told = {};
  let errors = "";
  child.stderr.on("data", (data: Buffer) => (errors += data.toString()));
  let rest = "";
  child.stdout.on("data", (data: Buffer) => {
    const lines = (rest + data.toString()).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      Object.assign(told, JSON.parse(line) as Told);
    }
  });
  const status = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { told, status, errors };
}

let drainedEarly = 0;

test.each(Array.from({ length: runs(2, 8) }, (_, index) => 40 + index * 35))(
  "S8.6 SIGTERM with drain %i ms into the work of 20 threads, life after life: nothing runs twice, every thread comes to its end",
  async (afterMs) => {
    const path = tempFile();
    let lives = 0;
    for (let isDone = false; !isDone; lives += 1) {
      const { told, status, errors } = await life(path, afterMs);
      expect([status, errors]).toEqual([0, ""]);
      const codes = Object.values(told.told ?? {});
      expect(codes).toHaveLength(THREADS);
      for (const code of codes) expect(["STORE_DRAINING", "a b c d x y"]).toContain(code);
      if (told.report !== undefined) expect(told.report).toEqual({ done: true, running: [] });
      // A busy loop may hear of the signal late. If it hears of it early, threads stop. In a later life most of the way is done.
      const { early = 0 } = told;
      if (lives === 0 && early > 0) expect(codes).toContain("STORE_DRAINING");
      if (lives === 0) drainedEarly += early;
      isDone = codes.every((code) => code === "a b c d x y");
      // Whatever the hour, it gets on: in each life some node of each thread ends.
      expect(lives).toBeLessThan(30);
    }
    const ledger = new SideEffects(`${path}.ledger`);
    const expected = Array.from({ length: THREADS }, (_, index) =>
      ["a", "b", "c", "d", "x", "y"].flatMap((name) => [`thread ${index} ${name} begins`, `thread ${index} ${name} deed`]),
    ).flat();
    expect(ledger.all.toSorted()).toEqual(expected.toSorted());
    const saver = openSaver(path, { logger: quiet });
    expect((await saver.verify()).ok).toBe(true);
    for (let index = 0; index < THREADS; index += 1) expect(await saver.turns.liveRuns(`thread ${index}`)).toEqual([]);
    saver.close();
  },
);

afterAll(() => expect(drainedEarly).toBeGreaterThan(0));
