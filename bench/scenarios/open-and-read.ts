import { join } from "node:path";
import Database from "better-sqlite3";
import type { Contender } from "../drive/contenders";
import { Script } from "../drive/script";
import { Thread } from "../drive/thread";
import { conversation } from "../drive/workloads";
import { takeTurns } from "../measure/clock";
import { withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

const MESSAGES = 10;
export const OPEN_AND_READ = "open + getTuple + close";

interface File {
  contender: Contender;
  path: string;
  thread: Thread;
}

/** What somebody pays who opens a file for one look: a command-line tool, a serverless function. */
export const openAndRead: Scenario = {
  name: "open-and-read",
  run: async ({ contenders: all, quick }): Promise<Result> => {
    const contenders = all.filter(({ reopens }) => reopens);
    const rounds = quick ? 30 : 200;
    const samples = new Samples();
    await withFolder(async (folder) => {
      const files: File[] = [];
      for (const contender of contenders) files.push(await written(contender, join(folder, `${contender.id}.db`)));
      await takeTurns(
        files,
        rounds,
        async ({ contender, path, thread }) => {
          const cpuBefore = process.cpuUsage();
          const begun = performance.now();
          const saver = await contender.open(path);
          const opened = performance.now();
          const tuple = await saver.getTuple(thread.config());
          const read = performance.now();
          await contender.close(saver);
          const closed = performance.now();
          const { user, system } = process.cpuUsage(cpuBefore);
          samples.add(OPEN_AND_READ, contender.id, closed - begun);
          samples.add(`${OPEN_AND_READ}, processor time`, contender.id, (user + system) / 1_000);
          samples.add("open", contender.id, opened - begun);
          samples.add("getTuple", contender.id, read - opened);
          samples.add("close", contender.id, closed - read);
          const found = (tuple?.checkpoint.channel_values["messages"] as unknown[] | undefined)?.length;
          if (found !== MESSAGES) throw new Error(`${contender.name} read ${found} messages`);
        },
        Infinity,
      );
      for (const file of files) await countStatements(file, samples);
    });
    return {
      name: "open-and-read",
      title: `Opening a file to read a thread of ${MESSAGES} messages`,
      contenders,
      samples,
      facts: {},
      notes: [
        `A file with one thread, closed properly; ${rounds} times opened, the thread's newest state read, and closed, in one process.`,
        "The last connection that closes a file moves its log into it and syncs it, unless the log is empty.",
      ],
    };
  },
};

/** What no machine changes: how often SQLite is asked. */
async function countStatements({ contender, path, thread }: File, samples: Samples): Promise<void> {
  if (contender.onHandle === undefined) return;
  let told = 0;
  const saver = contender.onHandle(new Database(path, { verbose: () => (told += 1) }));
  await saver.getTuple(thread.config());
  await contender.close(saver);
  samples.add("SQL statements of all three", contender.id, told, "count");
}

async function written(contender: Contender, path: string): Promise<File> {
  const saver = await contender.open(path);
  const thread = new Thread({ contender, saver, path, script: new Script(conversation(5)) });
  await thread.begin();
  // The checkpoint of the first step has no message yet.
  for (let count = 0; count <= MESSAGES; count += 1) await thread.step();
  await thread.end();
  await contender.close(saver);
  return { contender, path, thread };
}
