/**
 * Runs a → b → c and is killed inside a transaction, right after a row went into a table.
 * Arguments: file, table, the condition on the new row at which it happens, what the log begins with.
 */
import Database from "better-sqlite3";
import { GraphRunner, TurnSaver } from "../../src/index";
import { chain } from "../support/s1-graph";
import { dieNow, quiet } from "../support/s1-tools";

const [, , file = "", table = "", when = "", begin = "in"] = process.argv;
const db = new Database(file);
const saver = new TurnSaver(db, { logger: quiet });
db.function("die_now", () => dieNow());
db.exec(`CREATE TEMP TRIGGER die AFTER INSERT ON main.${table} WHEN ${when} BEGIN SELECT die_now(); END`);
await new GraphRunner(chain(saver)).invoke({ log: [begin] }, { threadId: "x", taskId: "task" });
