import { join } from "node:path";
import Database from "better-sqlite3";
import { conversation } from "../drive/workloads";
import { Script } from "../drive/script";
import { timed } from "../measure/clock";
import { withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

const ROUNDS = 30;

/** What the same bytes cost without any saver: no store on SQLite with JSON in it can be below. */
export const floors: Scenario = {
  name: "floors",
  run: async (): Promise<Result> => {
    const samples = new Samples();
    const script = new Script(conversation(5));
    script.skip(1_000);
    const messages = script.values["messages"] as unknown[];
    const last = JSON.stringify(messages.at(-1));
    await withFolder(async (folder) => {
      const db = new Database(join(folder, "raw.db"));
      db.pragma("journal_mode = WAL");
      db.pragma("synchronous = NORMAL");
      db.exec("CREATE TABLE raw (id INTEGER PRIMARY KEY, text TEXT)");
      const insert = db.prepare("INSERT INTO raw (text) VALUES (?)");
      const text = JSON.stringify(messages);
      for (let round = 0; round < ROUNDS; round += 1) {
        samples.add("one transaction that inserts one message", "floor", await timed(() => insert.run(last)));
        samples.add("one transaction that inserts all 1,000", "floor", await timed(() => insert.run(text)));
        samples.add("JSON.stringify of 1,000 messages", "floor", await timed(() => JSON.stringify(messages)));
        samples.add("JSON.parse of the same text", "floor", await timed(() => JSON.parse(text) as unknown));
      }
      db.close();
    });
    const contenders = [{ id: "floor", name: "without a saver" }] as Result["contenders"];
    const title = "Floors: the same bytes without a saver (better-sqlite3, WAL, NORMAL)";
    return { name: "floors", title, contenders, samples, facts: {}, notes: [] };
  },
};
