/** Opens a file and is killed in the middle of the migration, at the first statement that contains a text. Arguments: file, text. */
import Database from "better-sqlite3";
import { TurnSaver } from "../../src/index";
import { dieNow, quiet } from "../support/s1-tools";

const [, , file = "", text = ""] = process.argv;
let began = false;
const verbose = (statement?: unknown): void => {
  began ||= String(statement) === "BEGIN IMMEDIATE";
  // The look at the version is a transaction of its own, and commits first.
  if (began && String(statement).includes(text)) dieNow();
};
new TurnSaver(new Database(file, { verbose }), { logger: quiet });
