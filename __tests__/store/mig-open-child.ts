/**
 * One of several processes that open the same new files at the same moments; they wait for each other before each file. Saves a turn
 * into each and writes what became of it. Arguments: folder, own number, number of processes, number of files.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { CheckpointPersister, TurnSaver } from "../../src/index";
import { quiet } from "../support/s1-tools";

const [folder, own, processes, files] = process.argv.slice(2) as [string, string, string, string];
const marks = (file: number) => Array.from({ length: Number(processes) }, (_, index) => join(folder, `ready-${file}-${index}`));
for (let file = 0; file < Number(files); file += 1) {
  writeFileSync(join(folder, `ready-${file}-${own}`), "");
  while (!marks(file).every((mark) => existsSync(mark))) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
  const path = join(folder, `file-${file}.db`);
  let outcome = "ok";
  try {
    const saver = TurnSaver.fromPath(path, { logger: quiet });
    const db = new Database(path);
    new CheckpointPersister(db).save({
      id: `turn-${own}`,
      graphId: "g",
      nodeName: "n",
      turnType: "Thought",
      state: {},
      taskId: "t",
      createdAt: new Date(),
    });
    db.close();
    saver.close();
  } catch (error) {
    outcome = String(error);
  }
  console.log(JSON.stringify({ file, outcome }));
}
