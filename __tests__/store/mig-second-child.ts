/**
 * Migrates a file to the version behind the newest one, the migration of which is a test's own. Arguments: file; a text, at the first
 * statement with which the process is killed, or `after`, behind the commit, or nothing; a file to wait for.
 */
import { existsSync } from "node:fs";
import Database from "better-sqlite3";
import { migrate } from "../../src/testing-internal";
import { nextMigrations } from "./mig-next";
import { dieNow } from "../support/s1-tools";

const [, , file = "", text = "", go = ""] = process.argv;
let began = false;
const verbose = (statement?: unknown): void => {
  began ||= String(statement) === "BEGIN IMMEDIATE";
  // The look at the version is a transaction of its own, and commits first.
  if (text !== "" && began && String(statement).includes(text)) dieNow();
};
if (go !== "") console.log(JSON.stringify("ready"));
while (go !== "" && !existsSync(go)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
const db = new Database(file, { verbose });
migrate(db, nextMigrations);
if (text === "after") dieNow();
console.log(JSON.stringify(db.prepare("SELECT count(*) FROM langgraph_migrations").pluck().get()));
db.close();
