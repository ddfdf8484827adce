import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { type Contender, IMMUTABLE, OURS } from "../drive/contenders";
import { Script } from "../drive/script";
import { Thread } from "../drive/thread";
import { conversation } from "../drive/workloads";
import { takeTurns, timed } from "../measure/clock";
import { usedBytes, withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

const MESSAGES = 10_000;
const EARLY = 100;
/** A store that grows by more than this with each message of 1 KB writes its history again and again: 10,000 of them would take gigabytes. */
const TOO_MUCH_PER_STEP = 30_000;
const MOST_TO_BUILD_MS = 90_000;
const SAMPLES = 20;
/** Steps before those that are timed: what a saver has to read first, it reads in these. */
const WARMING = 3;
const SEED = 5;
export const ALONE_EARLY = "whole step at 100, alone";
export const ALONE_LATE = "whole step at 10,000, alone";

interface Pair {
  contender: Contender;
  /** At 10,000 messages, and at 100 in a store of its own. */
  late: Thread;
  early: Thread;
}

/** Whether a step costs more the longer the thread is. Steps at message 100 and at message 10,000 take turns. */
export const longThread: Scenario = {
  name: "thread-10000",
  run: async ({ contenders: all }): Promise<Result> => {
    const contenders = all.filter(({ id, role }) => role !== "ours" || id === OURS || id === IMMUTABLE);
    const samples = new Samples();
    const facts: Record<string, number> = {};
    const notes = ['"Alone": the threads of one saver take turns, without the other savers between them.'];
    await withFolder(async (folder) => {
      const open = async (contender: Contender, name: string): Promise<Thread> => {
        const path = join(folder, `${contender.id}-${name}.db`);
        return new Thread({ contender, path, saver: await contender.open(path), script: new Script(conversation(SEED)) });
      };
      // Our quickest saver writes the history once, and each saver continues with a copy of the file.
      const builder = contenders.find(({ id }) => id === IMMUTABLE) ?? contenders.find(({ id }) => id === OURS)!;
      const built = await open(builder, "built");
      const stopped = await buildAll(built, facts);
      await built.end();
      await builder.close(built.saver);
      if (stopped !== undefined) notes.push(`Building the history ${stopped}.`);
      const pairs: Pair[] = [];
      for (const contender of contenders) {
        const early = await open(contender, "early");
        await early.begin();
        for (let count = 0; count < EARLY; count += 1) await early.step();
        const isWhole = contender.role === "ours" && stopped === undefined;
        const late = isWhole ? await copyOf(built, contender) : await open(contender, "short");
        if (!isWhole) {
          await late.begin();
          late.script.skip(MESSAGES);
          notes.push(`${contender.name}: a thread with only its last checkpoints, not the whole history.`);
        }
        for (let count = 0; count < WARMING; count += 1) await late.step();
        pairs.push({ contender, early, late });
      }
      await measure(pairs, samples);
      for (const { contender, early, late } of pairs) for (const { saver } of [early, late]) await contender.close(saver);
    });
    const title = "A thread of 10,000 messages, and one of 100 measured beside it";
    return { name: "thread-10000", title, contenders, samples, facts, notes };
  },
};

/**
 * All steps, if they fit on the disk and into the time; notes by how much the file grows, early and late.
 *
 * @returns why it stopped before the end
 */
async function buildAll(thread: Thread, facts: Record<string, number>): Promise<string | undefined> {
  const begun = performance.now();
  await thread.begin();
  let before = usedBytes(thread.path);
  for (let count = 1; count <= MESSAGES; count += 1) {
    await thread.step();
    if (count % 500 !== 0) continue;
    const bytes = usedBytes(thread.path);
    const growth = (bytes - before) / 500;
    before = bytes;
    if (count === 500) facts[`growth, first 500`] = growth;
    // The mean of 500–1,000 and 1,000–1,500, and of the last thousand.
    if (count === 1_000 || count === 1_500) add(facts, `growth, around 1,000`, growth / 2);
    if (count === 9_500 || count === 10_000) add(facts, `growth, 9,000–10,000`, growth / 2);
    if (count === 1_000 && growth > TOO_MUCH_PER_STEP) {
      facts[`growth, 500–1,000`] = growth;
      return `was stopped at 1,000, as the file grew by ${Math.round(growth / 1_000)} KB a step`;
    }
    if (performance.now() - begun > MOST_TO_BUILD_MS) return `was stopped at ${count}, as it took too long`;
  }
  return undefined;
}

function add(facts: Record<string, number>, name: string, value: number): void {
  facts[name] = (facts[name] ?? 0) + value;
}

/** A process that resumes at the end of the history. Its messages are created again: it has none of the builder's objects. */
async function copyOf(built: Thread, contender: Contender): Promise<Thread> {
  const path = `${built.path}-${contender.id}`;
  copyFileSync(built.path, path);
  const script = new Script(conversation(SEED));
  script.begin();
  script.skip(MESSAGES, built.script.headId);
  const thread = new Thread({ contender, path, saver: await contender.open(path), script, id: built.id });
  await thread.goOn();
  return thread;
}

async function measure(pairs: Pair[], samples: Samples): Promise<void> {
  // First each of ours by itself: beside savers that write 17 MB a step, a step at message 100 would be slower than it is.
  for (const { contender, early, late } of pairs) {
    if (contender.role !== "ours") continue;
    await takeTurns([early, late], 2 * SAMPLES, async (thread) => {
      samples.add(thread === early ? ALONE_EARLY : ALONE_LATE, contender.id, (await thread.step()).step);
    });
  }
  const turns = pairs.flatMap(({ early, late }) => [
    { thread: early, at: "at 100" },
    { thread: late, at: "at 10,000" },
  ]);
  await takeTurns(turns, SAMPLES, async ({ thread, at }) => {
    const times = await thread.step();
    samples.add(`whole step ${at}`, thread.contender.id, times.step);
    samples.add(`put ${at}`, thread.contender.id, times.put);
  });
  await takeTurns(turns, SAMPLES, async ({ thread, at }) => {
    await thread.step();
    samples.add(`getTuple ${at}`, thread.contender.id, await timed(() => thread.getTuple()));
  });
  for (const { early, late } of pairs) for (const thread of [early, late]) await thread.end();
}
