import { spawnSync } from "node:child_process";
import { join } from "node:path";
import fc from "fast-check";
import { GraphRunner } from "../../src/index";
import { inbox } from "../../src/testing-internal";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { questionsHaveOwnIds } from "../support/langgraph-version";
import { runs } from "../support/lane";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { answersGraph, CONTINUED, type Mishap, QUESTIONS, resumed, type Shape, type State } from "./answers-graphs";

/* Answers by id, some at a time and in any order, while nodes fail and processes are killed before and after each question. */

jest.setTimeout(600_000);

const PROGRAM = childProgram(join(__dirname, "answers-child.ts"));

/** In a process of its own, if that may be killed. `died`: it was. */
async function run(path: string, shape: Shape, resume: unknown, mishap: Mishap | null): Promise<"died" | "refused" | "ran"> {
  if (mishap?.how !== "kill") return resumed(path, shape, resume, mishap ?? undefined);
  const { status, signal, stderr } = spawnSync(
    process.execPath,
    [...PROGRAM, path, shape, JSON.stringify(resume), JSON.stringify(mishap)],
    { env: CHILD_ENV, encoding: "utf8", timeout: 120_000 },
  );
  if (signal === "SIGKILL") return "died";
  expect({ signal, stderr }).toEqual({ signal: null, stderr: "" });
  return status === 0 ? "ran" : "refused";
}

interface Look {
  open: { id: string; question: string }[];
  isFinished: boolean;
  log: string[];
}

/** What somebody sees who looks at the thread, and that everybody who looks sees the same questions. */
async function look(path: string, shape: Shape): Promise<Look> {
  const saver = openSaver(path, { logger: { debug() {}, info() {}, warn() {}, error() {} } });
  const graph = answersGraph(shape, saver);
  const { waiting, onResume } = await new GraphRunner(graph, CONTINUED).status("t");
  const { values } = (await graph.getState({ configurable: { thread_id: "t" } })) as { values: Partial<typeof State.State> };
  const seen = (await inbox(saver)).map(({ id, value }) => ({ id, question: value }));
  await (saver.close() as unknown);
  const open = waiting.map(({ id = "", value }) => ({ id, question: String(value) }));
  const byQuestion = (left: { question: unknown }, right: { question: unknown }): number =>
    String(left.question) < String(right.question) ? -1 : 1;
  expect(seen.sort(byQuestion)).toEqual(open.sort(byQuestion));
  return { open, isFinished: onResume === "return", log: values.log ?? [] };
}

const step = fc.record({
  /** Which of the open questions are answered; 0: somebody resumes without an answer, as a recovery does. */
  mask: fc.integer({ min: 0, max: 15 }),
  /** Whether the only open question is answered without its id. */
  isPlain: fc.boolean(),
  /** Whether answers given before are given once more, with another text. */
  again: fc.boolean(),
  at: fc.nat(),
  when: fc.constantFrom("before" as const, "after" as const),
  how: fc.constantFrom("kill" as const, "kill" as const, "throw" as const, "nothing" as const),
  waitMs: fc.constantFrom(0, 300),
});

test.each(Object.keys(QUESTIONS) as Shape[])(
  "S4.1 S4.7 property: each answer reaches its own question, and no other, however often nodes fail and processes are killed: %s",
  async (shape) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 8 }), async (steps) => {
        const path = tempFile();
        const given = new Map<string, { id: string; answer: string }>();
        expect(await run(path, shape, null, null)).toBe("ran");
        let now = await look(path, shape);
        for (let turn = 0; !now.isFinished; turn += 1) {
          expect(turn).toBeLessThan(40);
          // Nobody is asked twice.
          expect(now.open.filter(({ question }) => given.has(question))).toEqual([]);
          const { mask, isPlain, again, at, when, how, waitMs } = steps[turn % steps.length] as (typeof steps)[number];
          const isLate = turn > 12;
          const chosen = now.open.filter((_, index) => isLate || ((mask >> index) & 1) === 1);
          const answerTo = (question: string): string => `${turn} to ${question}`;
          const answers = Object.fromEntries(chosen.map(({ id, question }) => [id, answerTo(question)]));
          // Otherwise an answer to a node's first question is one to its second.
          const repeats = again && questionsHaveOwnIds;
          const repeated = repeats ? Object.fromEntries([...given.values()].map(({ id }) => [id, "again"])) : {};
          const isOne = isPlain && chosen.length === 1 && now.open.length === 1;
          const resume = isOne ? Object.values(answers)[0] : { ...answers, ...repeated };
          const question = QUESTIONS[shape][at % QUESTIONS[shape].length] as string;
          const mishap = how === "nothing" || isLate ? null : { question, when, how, waitMs };
          let outcome = await run(
            path,
            shape,
            typeof resume === "object" && Object.keys(resume).length === 0 ? null : resume,
            mishap,
          );
          // Then nothing was changed.
          if (outcome === "refused") {
            expect(again).toBe(true);
            expect(await look(path, shape)).toEqual(now);
            outcome = await run(path, shape, chosen.length === 0 ? null : answers, mishap);
          }
          expect(outcome).not.toBe("refused");
          for (const { id, question: asked } of chosen) given.set(asked, { id, answer: answerTo(asked) });
          now = await look(path, shape);
        }
        const expected = QUESTIONS[shape].map((asked) => `${asked}=${given.get(asked)?.answer}`);
        // A nested graph returns what it was given, too.
        expect([...new Set(now.log)].sort()).toEqual([...expected, "end"].sort());
      }),
      // Shrinking would take an hour.
      { numRuns: runs(1, 6), endOnFailure: true },
    );
  },
);
