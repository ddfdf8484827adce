import { spawnSync } from "node:child_process";
import { join } from "node:path";
import fc from "fast-check";
import { inbox } from "../../src/testing-internal";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { runs } from "../support/lane";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";

/* Answers by id, some at a time and in any order, while the process is killed again and again in the nodes that get them. */

const QUESTIONS = {
  parallel: ["p0-0", "p0-1", "q0-0"],
  workers: [0, 1, 2].flatMap((i) => [`p${i}-0`, `p${i}-1`]),
  nested: ["x0-0", "y0-0", "y0-1", "q0-0"],
  "one by one": ["p0-0", "p0-1", "p0-2", "x0-0", "y0-0", "y0-1"],
  "nested workers": [0, 1].flatMap((i) => [`x${i}-0`, `y${i}-0`, `y${i}-1`]),
};
type Shape = keyof typeof QUESTIONS;

interface Answered {
  open: [id: string, question: string][];
  isFinished: boolean;
  log: string[];
}

jest.setTimeout(600_000);

const PROGRAM = childProgram(join(__dirname, "answers-child.ts"));

/** Undefined: it was killed. */
function run(path: string, shape: Shape, answers: Record<string, string>, kills: number): Answered | undefined {
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    [...PROGRAM, path, shape, JSON.stringify(answers), String(kills)],
    { env: CHILD_ENV, encoding: "utf8", timeout: 120_000 },
  );
  if (signal === "SIGKILL" && kills > 0) return undefined;
  expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: "" });
  return JSON.parse(stdout) as Answered;
}

/** What somebody does who looks at a waiting thread: answers some of its questions; and when its processes are killed. */
const round = fc.record({
  mask: fc.integer({ min: 1, max: 63 }),
  /** Whether the only question is answered without its id; and whether somebody resumes without an answer. */
  plain: fc.boolean(),
  idle: fc.boolean(),
  kills: fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 4 }),
});

test.each(Object.keys(QUESTIONS) as Shape[])(
  "S4.1 S4.7 property: each answer reaches its own question once it is given, however often the process is killed: %s",
  async (shape) => {
    await fc.assert(
      fc.asyncProperty(fc.array(round, { minLength: 3, maxLength: 6 }), async (rounds) => {
        const path = tempFile();
        const given = new Map<string, string>();
        let now = run(path, shape, {}, 0) as Answered;
        for (let turn = 0; !now.isFinished; turn += 1) {
          expect(turn).toBeLessThan(20);
          const { mask, kills, plain, idle } = rounds[turn % rounds.length] as (typeof rounds)[number];
          const some = now.open.filter((_, index) => ((mask >> index) & 1) === 1);
          const chosen = some.length === 0 ? now.open.slice(0, 1) : some;
          expect(chosen).not.toEqual([]);
          for (const [, question] of chosen) given.set(question, `${turn} to ${question}`);
          const isPlain = plain && now.open.length === 1;
          const answers = Object.fromEntries(chosen.map(([id, question]) => [isPlain ? "plain" : id, `${turn} to ${question}`]));
          const [first = 0, ...others] = kills;
          let after = run(path, shape, answers, first);
          for (const again of [...others, 0]) after ??= run(path, shape, {}, again);
          now = after as Answered;
          if (idle && !now.isFinished) expect(run(path, shape, {}, 0)).toEqual(now);
          // Nobody is asked twice, and everybody who looks sees the same questions.
          expect(now.open.filter(([, question]) => given.has(question))).toEqual([]);
          const saver = openSaver(path);
          const seen = (await inbox(saver)).map(({ value }) => value);
          await (saver.close() as unknown);
          expect(seen.sort()).toEqual(now.open.map(([, question]) => question).sort());
        }
        const expected = QUESTIONS[shape].map((question) => `${question}=${given.get(question)}`);
        // A nested graph returns what it was given, too.
        expect([...new Set(now.log)].sort()).toEqual([...expected, "end"].sort());
      }),
      { numRuns: runs(1, 6) },
    );
  },
);
