import { join } from "node:path";
import { type Contender, OURS } from "../drive/contenders";
import { Script } from "../drive/script";
import { seedConversation } from "../drive/seed";
import { Thread } from "../drive/thread";
import type { Workload } from "../drive/workloads";
import { inTurn, STEPS_IN_A_ROW, takeTurns, timed } from "../measure/clock";
import { fileBytes, usedBytes, withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result } from "./scenario";

export interface Race {
  name: string;
  title: string;
  contenders: Contender[];
  workload: (seed: number) => Workload;
  /** Steps of each thread. Behind the last `measured` of them getTuple is timed, the `measured` before these are timed themselves. */
  steps: number;
  measured: number;
  /** How many threads follow on each other in one store, for more samples of short ones. */
  threads: number;
  /** Lays down the official savers' history instead of saving it. */
  seeds: boolean;
  /** Who reads the full history, once per thread. */
  history: "all" | "ours";
}

const LISTED = 20;

/** Runs one workload through all savers, a thread or several short ones at a time, then reads back by turns. */
export async function race(settings: Race): Promise<Result> {
  const samples = new Samples();
  const facts: Record<string, number> = {};
  await withFolder(async (folder) => {
    const stores = await Promise.all(
      settings.contenders.map(async (contender) => {
        const path = join(folder, `${contender.id}.db`);
        return { contender, path, saver: await contender.open(path) };
      }),
    );
    let last: Thread[] = [];
    facts["unique bytes"] = 0;
    // Short threads come several in a row.
    const atATime = Math.ceil(STEPS_IN_A_ROW / settings.steps);
    for (let first = 0; first < settings.threads; first += atATime) {
      const seeds = Array.from({ length: Math.min(atATime, settings.threads - first) }, (_, at) => first + at);
      const groups = stores.map((store) =>
        seeds.map((seed) => new Thread({ ...store, script: new Script(settings.workload(seed)) })),
      );
      for (const thread of inTurn(groups, first / atATime).flat()) {
        await build(thread, settings, samples);
        await measureSteps(thread, settings, samples);
      }
      await measureReads(groups.flat(), settings, samples);
      for (const { script } of groups[0] ?? []) facts["unique bytes"] += JSON.stringify(script.values).length;
      last = groups.map((threads) => threads.at(-1) as Thread);
    }
    for (const { contender, path, saver } of stores) {
      await contender.close(saver);
      if (contender.hasFile) samples.add("file after close", contender.id, fileBytes(path), "bytes");
    }
    await takeTurns(last.filter(reopens), 15, async (thread) => {
      const { cold, resume } = await thread.resume();
      samples.add("open + getTuple (cold)", thread.contender.id, cold);
      samples.add("resume: open + getTuple + Thought", thread.contender.id, resume);
    });
  });
  const { name, title, contenders } = settings;
  return { name, title, contenders, samples, facts, notes: notesOf(settings) };
}

const reopens = ({ contender }: Thread): boolean => contender.reopens;

/** Everything before the measured steps; files are looked at over the second tenth and over the last. */
async function build(thread: Thread, { steps, measured, seeds }: Race, samples: Samples): Promise<void> {
  const { contender, path } = thread;
  await thread.begin();
  const tenth = Math.floor(steps / 10);
  const last = steps - 2 * measured;
  const marks = tenth < 10 ? [last] : [tenth, 2 * tenth, last - tenth, last];
  const isSeeded = seeds && (contender.role === "official" || contender.role === "memory");
  let done = 0;
  let before = 0;
  for (const [index, mark] of marks.entries()) {
    if (isSeeded) await seedConversation(thread, mark - done);
    else for (; done < mark; done += 1) await thread.step();
    done = mark;
    if (!contender.hasFile || marks.length === 1) continue;
    const bytes = usedBytes(path);
    if (index === 1) samples.add("file growth per step, early", contender.id, (bytes - before) / tenth, "bytes");
    if (index === 3) samples.add("file growth per step, late", contender.id, (bytes - before) / tenth, "bytes");
    before = bytes;
  }
}

/** Right behind the earlier steps of the same saver. */
async function measureSteps(thread: Thread, { measured }: Race, samples: Samples): Promise<void> {
  const { id } = thread.contender;
  await takeTurns([thread], measured, async () => {
    const times = await thread.step();
    samples.add("put", id, times.put);
    samples.add("putWrites", id, times.putWrites);
    if (thread.contender.records) {
      samples.add("Thought", id, times.thought);
      samples.add("Action", id, times.action);
    }
    samples.add("whole step", id, times.step);
  });
}

async function measureReads(threads: Thread[], settings: Race, samples: Samples): Promise<void> {
  // Apart from the timed steps: within a run LangGraph puts one checkpoint after the other and reads none between them.
  await takeTurns(threads, settings.measured, async (thread) => {
    await thread.step();
    samples.add("getTuple (warm)", thread.contender.id, await timed(() => thread.getTuple()));
  });
  for (const thread of threads) await thread.end();
  await takeTurns(threads, 9, (thread) => read(thread, `list, limit ${LISTED}`, samples, LISTED));
  const historians = threads.filter(({ contender }) => settings.history === "all" || contender.id === OURS);
  await takeTurns(historians, 1, (thread) => read(thread, "full history", samples));
}

async function read(thread: Thread, measured: string, samples: Samples, limit?: number): Promise<void> {
  samples.add(measured, thread.contender.id, await timed(() => thread.list(limit)));
}

function notesOf({ steps, measured, threads, seeds, history }: Race): string[] {
  const notes = [
    `${threads} × ${steps} steps; in each thread the last ${measured} are timed, right behind the steps before. Then as many more, with a getTuple after each.`,
  ];
  if (seeds)
    notes.push(
      "The official savers' earlier checkpoints were inserted as rows, with the bytes that these savers write. The timed steps are real.",
    );
  if (history === "ours")
    notes.push("The full history is read only with ours: the official savers decode the whole state of every checkpoint.");
  return notes;
}
