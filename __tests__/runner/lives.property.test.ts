import { Command } from "@langchain/langgraph";
import fc from "fast-check";
import { type GraphRunner, type TurnSaver, TurnsError, type TurnsErrorCode } from "../../src/index";
import { moveThread, salvage, vacuum } from "../../src/maintenance/index";
import { KEY } from "../support/enc-graph";
import { runs } from "../support/lane";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { SideEffects } from "../support/run-world";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { type Body, crash, stepRunner } from "./recover-world";

jest.setTimeout(600_000);

/** What people do with threads at 3 a.m., one after the other. Numbers choose among what there is. */
interface Step {
  do: (typeof STEPS)[number];
  thread: number;
  at: number;
}

const OF_FILES = ["salvage", "backup", "vacuum"] as const;
const STEPS = [
  "run",
  "run and fail",
  "die",
  "resume",
  "recover",
  "rewind",
  "take back",
  "prune",
  "copy",
  "delete",
  "move",
  "move where it can't",
  "reopen",
  "verify",
  ...OF_FILES,
] as const;

const step: fc.Arbitrary<Step> = fc.record({
  do: fc.constantFrom(...STEPS.filter((one) => !ON_POSTGRES || !OF_FILES.includes(one as never))),
  thread: fc.nat(2),
  at: fc.nat(3),
});

/** What may be refused: there is nothing to do it to, or work on the thread is unfinished. */
const REFUSALS: readonly TurnsErrorCode[] = [
  "THREAD_NOT_FOUND",
  "THREAD_EXISTS",
  "UNFINISHED_WORK",
  "NOTHING_TO_RESUME",
  "REWIND_CONFLICT",
  "CHECKPOINT_NOT_FOUND",
];

class Broken extends Error {}

/** The second node of a thread that is named so asks a person. */
const NAMES = ["t0", "t1", "ask2"];

/** Also with an answer, if it waits for one. */
async function resume(runner: GraphRunner<any>, threadId: string): Promise<void> {
  const { waiting } = await runner.status(threadId);
  await runner.resume({ threadId, ...(waiting.length > 0 && { command: new Command({ resume: "yes" }) }) });
}

/** A database, a saver on it, and the runner of its threads. */
class Place {
  path = tempFile();
  saver: TurnSaver;
  runner: GraphRunner<any>;

  constructor(
    private readonly options: object,
    private readonly ledger: SideEffects,
    private readonly body: Body,
  ) {
    [this.saver, this.runner] = this.#opened();
  }

  #opened(): [TurnSaver, GraphRunner<any>] {
    const saver = openSaver(this.path, { logger: quiet, synchronous: "normal", ...this.options });
    return [saver, stepRunner(saver, this.ledger, this.body)];
  }

  async reopen(path = this.path): Promise<void> {
    await (this.saver.close() as unknown);
    this.path = path;
    [this.saver, this.runner] = this.#opened();
  }

  async threads(): Promise<string[]> {
    return (await this.saver.listThreads()).map(({ threadId }) => threadId);
  }
}

class World {
  readonly #ledger = new SideEffects(`${tempFile()}.ledger`);
  /** The node in which the thread that runs fails. */
  #breaks: "b" | "c" | undefined;
  readonly places: readonly [Place, Place];
  /** How often a thread was given something to do: so often it may pay. */
  readonly #given = new Map<string, number>();
  #copies = 0;

  constructor(private readonly options: object) {
    const body: Body = (_, node) => {
      if (node === this.#breaks) throw new Broken(`broken in ${node}`);
    };
    this.places = [new Place(options, this.#ledger, body), new Place(options, this.#ledger, body)];
  }

  async do({ do: what, thread, at }: Step): Promise<void> {
    const [here, there] = at % 2 === 0 ? this.places : ([...this.places].reverse() as [Place, Place]);
    const all = [...(await here.threads())].sort();
    const id = all.length === 0 || what === "run" || what === "run and fail" ? NAMES[thread]! : all[thread % all.length]!;
    const work = { ...this.#runs(here, id, at), ...this.#keeps(here, there, id, at) }[what];
    try {
      await work();
    } catch (error) {
      const isExpected = TurnsError.is(error)
        ? REFUSALS.includes(error.code) || this.#isElsewhere(error, id)
        : error instanceof Broken;
      if (!isExpected) throw error;
    } finally {
      this.#breaks = undefined;
    }
  }

  /** A thread of the same name may be in the other place. */
  #isElsewhere(error: TurnsError, threadId: string): boolean {
    return error.code === "THREAD_MOVED" && error.data["threadId"] === threadId;
  }

  #runs(place: Place, id: string, at: number) {
    const give = async (): Promise<void> => {
      const before = await place.saver.turns.tasks(id).catch(() => []);
      const given = this.#given.get(id) ?? 0;
      this.#given.set(id, given + 1);
      try {
        await place.runner.invoke({ log: ["in"] }, { threadId: id });
      } catch (error) {
        // What was refused was not given.
        const after = await place.saver.turns.tasks(id).catch(() => []);
        if (TurnsError.is(error) && after.length === before.length) this.#given.set(id, given);
        throw error;
      }
    };
    return {
      run: give,
      "run and fail": async () => {
        this.#breaks = at < 2 ? "b" : "c";
        await give();
      },
      die: () => crash(place.saver, id),
      resume: () => resume(place.runner, id),
      recover: async () => {
        const report = await place.runner.recover({ waitMs: 1 });
        expect([report.failed, report.givenUp]).toEqual([[], []]);
        // A process may die before its thread has begun, when it's done, and while a person is asked.
        const reasons = report.skipped.map(({ reason }) => reason.code);
        expect(reasons.filter((code) => !["NOTHING_TO_RESUME", "FINISHED", "WAITING"].includes(code))).toEqual([]);
      },
    };
  }

  #keeps(here: Place, there: Place, id: string, at: number) {
    const { saver } = here;
    const replaced = async (make: (target: string) => Promise<unknown>): Promise<void> => {
      const target = tempFile();
      await make(target);
      await here.reopen(target);
    };
    return {
      rewind: async () => {
        const tasks = await saver.turns.tasks(id);
        if (tasks.length > 0)
          await saver.rewind({ threadId: id, toTask: tasks[at % tasks.length]!.taskId, allowUncompensated: true });
      },
      "take back": async () => {
        const [rewind] = (await saver.rewinds.list(id)).filter(({ takenBackAt }) => takenBackAt === undefined).reverse();
        if (rewind !== undefined) await saver.rewinds.takeBack(rewind.id);
      },
      prune: () => saver.prune({ threadId: id, keepTasks: 1 + (at % 2) }),
      copy: async () => {
        const target = `${id.startsWith("ask") ? "ask " : ""}copy ${(this.#copies += 1)}`;
        await saver.copyThread(id, target);
        // It may still have to pay for what the original had begun.
        this.#given.set(target, 1);
      },
      delete: () => saver.deleteThread(id),
      move: () => moveThread(saver, there.saver, id),
      "move where it can't": async () => {
        if ((await there.threads()).includes(id)) await moveThread(saver, there.saver, id);
      },
      reopen: () => here.reopen(),
      verify: () => this.check(),
      salvage: () =>
        replaced(async (target) => {
          await (saver.close() as unknown);
          expect(await salvage(here.path, target, this.options)).toMatchObject({ ok: true, lost: [], damaged: [] });
        }),
      backup: () => replaced((target) => saver.backup(target)),
      vacuum: () => vacuum(saver),
    };
  }

  async check(): Promise<void> {
    for (const { saver } of this.places) expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
    const paid = [...this.#given].map(([id, given]) => [id, this.#ledger.count(`${id} pays`) <= given]);
    expect(paid.filter(([, isRight]) => isRight !== true)).toEqual([]);
  }

  /** Everything that is unfinished can be finished, and then its state is that of whole runs. */
  async end(): Promise<void> {
    for (const place of this.places) {
      const { saver, runner } = place;
      for (const threadId of await place.threads()) {
        while (!(await runner.status(threadId)).finished) await resume(runner, threadId);
        const { log } = (await saver.getTuple({ configurable: { thread_id: threadId } }))!.checkpoint.channel_values as {
          log: string[];
        };
        expect(log).toEqual(Array.from({ length: log.length / 4 }, () => ["in", "a", "b", "c"]).flat());
      }
    }
    await this.check();
  }

  async close(): Promise<void> {
    for (const { saver } of this.places) await (saver.close() as unknown);
  }
}

describe.each([
  ["plain", {}],
  ["encrypted", { encryption: { key: KEY } }],
])("databases that are %s", (_, options) => {
  test("S2.9 S3.1 S9.4 property: no matter what is done to threads, nothing is damaged, no effect is repeated, and what is unfinished can be finished", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 6, maxLength: 30, size: "max" }), async (steps) => {
        const world = new World(options);
        try {
          for (const one of steps) await world.do(one);
          await world.check();
          await world.end();
        } finally {
          await world.close();
        }
      }),
      { numRuns: runs(ON_POSTGRES ? 3 : 8, 120) },
    );
  });
});
