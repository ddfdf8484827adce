import { internalsOf } from "../../src/testing-internal";
import fc from "fast-check";
import type { RewindReport, TurnSaver, TurnsError } from "langgraph-checkpoint-turns";
import { closeAll, Deeds, fresh, open } from "../support/eff-world";
import { choresOn, config, type Deed, undoing, undosNamed } from "../support/undo-world";
import { dump, quiet } from "../support/s1-tools";
import { runs } from "../support/lane";
import { openSaver } from "../support/open-saver";

jest.setTimeout(300_000);
afterEach(closeAll);

/** What is done to the thread, one after the other. */
type Step =
  | { do: "task"; taskId: string; deeds: Deed[] }
  | { do: "prune"; keepLast: number }
  | { do: "settle" }
  | { do: "rewind"; toTask: string }
  | { do: "stop a rewind"; toTask: string };

/** How the thread is while somebody asks. */
type Around = "at rest" | "running here" | "running elsewhere";

const TASKS = ["A", "B", "C", "never"];
const deed: fc.Arbitrary<Deed> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom<Deed>({ name: "done" }, { name: "done too" }, { name: "look", undo: false }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<Deed>(
      { name: "bare", undo: undefined },
      { name: "strange", undo: "unheard of" },
      { name: "doubt", doubt: true },
      { name: "failed", fails: true },
    ),
  },
);
const task = fc.constantFrom(...TASKS.slice(0, 3));
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("task" as const),
      taskId: task,
      deeds: fc.uniqueArray(deed, { maxLength: 2, selector: ({ name }) => name }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("prune" as const), keepLast: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: "settle" }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("rewind" as const), toTask: task }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("stop a rewind" as const), toTask: task }) },
);
const request = fc.record({
  threadId: fc.constantFrom("t", "t", "t", "t", "t", "nobody"),
  toTask: fc.constantFrom(...TASKS),
  allowUncompensated: fc.boolean(),
  archive: fc.boolean(),
});

async function lived(saver: TurnSaver, ledger: Deeds, steps: readonly Step[]): Promise<void> {
  const graph = choresOn(saver, ledger);
  const ignored = (): undefined => undefined;
  for (const one of steps) {
    if (one.do === "task") await graph.invoke({ deeds: one.deeds }, config(one.taskId)).catch(ignored);
    if (one.do === "prune") await saver.prune({ threadId: "t", keepLast: one.keepLast }).catch(ignored);
    if (one.do === "rewind")
      await saver.rewind({ threadId: "t", toTask: one.toTask }, undosNamed({ back: undoing(ledger) })).catch(ignored);
    if (one.do === "stop a rewind") {
      const back = (): never => {
        throw new Error("not now");
      };
      await saver.rewind({ threadId: "t", toTask: one.toTask }, undosNamed({ back })).catch(ignored);
    }
    if (one.do === "settle") {
      for (const { id } of await saver.effects.list("t", { status: "in-doubt" })) {
        await saver.effects.resolve(id, { outcome: "not-done" }).catch(ignored);
      }
    }
  }
}

/** Takes the thread for a run of this saver, or of another one. @returns what gives it back */
async function taken(around: Around, saver: TurnSaver, path: string): Promise<() => Promise<void>> {
  if (around === "at rest") return async () => undefined;
  const runner = around === "running here" ? saver : openSaver(path, { logger: quiet, synchronous: "normal" });
  // It may be refused: no run begins beside an unfinished rewind.
  const release = await internalsOf(runner)
    .reserve("t")
    .catch(() => async () => undefined);
  return async () => {
    await release();
    if (runner !== saver) runner.close();
  };
}

type Answer = { code: string } | Pick<RewindReport, "toTask" | "tasks" | "removed" | "archived" | "effects">;

async function answerOf(work: Promise<RewindReport>): Promise<Answer> {
  try {
    const { toTask, tasks, removed, archived, effects } = await work;
    return { toTask, tasks, removed, archived, effects };
  } catch (error) {
    return { code: (error as TurnsError).code };
  }
}

/** That of a target which no undo helps with: a report of coverage tells gaps instead of throwing them. */
const UNREACHABLE = ["THREAD_NOT_FOUND", "UNKNOWN_TASK", "CHECKPOINT_NOT_FOUND"];

test("S3.5 property: a dry run is refused exactly where the real rewind is, with the same code, and reports the same", async () => {
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 6 }),
      request,
      fc.constantFrom<Around>("at rest", "at rest", "at rest", "running here", "running elsewhere"),
      async (steps, asked, around) => {
        const path = fresh();
        const ledger = new Deeds();
        const saver = open(path);
        await lived(saver, ledger, steps);
        const release = await taken(around, saver, path);
        const undos = { back: undoing(ledger) };
        const before = dump(path);
        const dry = await answerOf(saver.rewind({ ...asked, dryRun: true }, undosNamed(undos)));
        const report = await saver.rewinds
          .compensationReport({ threadId: asked.threadId, toTask: asked.toTask }, undosNamed(undos))
          .catch((error: TurnsError) => error);
        expect(dump(path)).toEqual(before);
        const real = await answerOf(saver.rewind(asked, undosNamed(undos)));
        expect(dry).toEqual(real);
        const code = "code" in real ? real.code : "done";
        seen.set(code, (seen.get(code) ?? 0) + 1);
        const refused = report instanceof Error ? report.code : undefined;
        if (UNREACHABLE.includes(code)) expect(refused).toBe(code);
        else if (code === "done") {
          expect(refused).toBeUndefined();
          expect(report).toMatchObject(asked.allowUncompensated ? {} : { covered: true });
        }
        await release();
        closeAll();
      },
    ),
    { numRuns: runs(30, 120), examples: EXAMPLES },
  );
  // The generator reaches each kind of answer.
  for (const code of [
    "done",
    "CHECKPOINT_NOT_FOUND",
    "EFFECT_IN_DOUBT",
    "EFFECT_UNCOMPENSATED",
    "THREAD_RUNNING",
    "REWIND_UNFINISHED",
  ]) {
    expect([code, seen.get(code) ?? 0]).not.toEqual([code, 0]);
  }
});

const did = (taskId: string, ...deeds: Deed[]): Step => ({ do: "task", taskId, deeds });
const asked = { threadId: "t", toTask: "A", allowUncompensated: false, archive: true };
const EXAMPLES: [Step[], typeof asked, Around][] = [
  [[did("A"), did("B"), did("C"), { do: "prune", keepLast: 1 }], asked, "at rest"],
  [[did("A"), did("B", { name: "doubt", doubt: true })], asked, "at rest"],
  [[did("A"), did("B", { name: "bare", undo: undefined })], asked, "at rest"],
  [[did("A"), did("B", { name: "bare", undo: undefined })], { ...asked, allowUncompensated: true }, "at rest"],
  [[did("A"), did("B")], asked, "running here"],
  [[did("A"), did("B"), did("C", { name: "done" }), { do: "stop a rewind", toTask: "A" }], { ...asked, toTask: "B" }, "at rest"],
  [[did("A")], { ...asked, threadId: "nobody" }, "at rest"],
];
