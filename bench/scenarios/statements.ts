import { join } from "node:path";
import Database from "better-sqlite3";
import { ChainGraph, messagesOf } from "../drive/chain-graph";
import type { Contender } from "../drive/contenders";
import { withFolder } from "../measure/file-size";
import { perStep, type Reading } from "../measure/growth";
import { Samples } from "../measure/samples";
import { writtenPages } from "../measure/written-pages";
import type { Result, Scenario } from "./scenario";

const SUPERSTEPS = 14;
/** Read in the bodies of these nodes: between them lie whole boundaries, of a thread with about ten messages. */
const FROM = 8;
const TO = 12;
export const STATEMENTS = "SQL statements per step";
export const PAGES = "pages written per step";

/** What a saver asks of SQLite, in numbers that no machine changes. */
export const statements: Scenario = {
  name: "statements",
  run: async ({ contenders: all, quick }): Promise<Result> => {
    const contenders = all.filter(({ onHandle }) => onHandle !== undefined);
    const samples = new Samples();
    await withFolder(async (folder) => {
      for (const contender of contenders) await count(contender, folder, quick ? 5 : 20, samples);
    });
    return {
      name: "statements",
      title: "SQL statements and pages written per step of a thread of ten messages",
      contenders,
      samples,
      facts: {},
      notes: [
        `A real graph, counted from one node's body to the next, from message ${FROM} to message ${TO}: Action, writes, checkpoint, Thought.`,
        "Statements are counted by better-sqlite3's `verbose`: each execution counts once, with BEGIN, COMMIT and pragmas. " +
          "A trigger counts with the statement that fires it.",
        "Pages are frames of the write-ahead log: a page that two transactions write counts twice. Automatic checkpoints are off.",
      ],
    };
  },
};

async function count(contender: Contender, folder: string, threads: number, samples: Samples): Promise<void> {
  const path = join(folder, `${contender.id}.db`);
  let told = 0;
  const db = new Database(path, { verbose: () => (told += 1) });
  const pageSize = db.pragma("page_size", { simple: true }) as number;
  const saver = contender.onHandle!(db);
  db.pragma("wal_autocheckpoint = 0");
  let readings: { statements: Reading; pages: Reading }[] = [];
  const inBody = (at: number): void => {
    if (at !== FROM && at !== TO) return;
    readings.push({ statements: { at, count: told }, pages: { at, count: writtenPages(path, pageSize) } });
  };
  const graph = new ChainGraph({ saver, records: contender.records, inBody });
  // The first thread also makes what a file and a connection need once.
  for (let thread = 0; thread <= threads; thread += 1) {
    readings = [];
    await graph.run(`statements-${thread}`, messagesOf(thread, SUPERSTEPS));
    const [from, to] = readings;
    if (thread === 0) continue;
    samples.add(STATEMENTS, contender.id, perStep(from!.statements, to!.statements), "count");
    samples.add(PAGES, contender.id, perStep(from!.pages, to!.pages), "count");
  }
  await graph.checkTurns(`statements-${threads}`);
  await contender.close(saver);
}
