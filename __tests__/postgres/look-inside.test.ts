import Database from "better-sqlite3";
import { Client } from "pg";
import { schemaAt } from "../support/open-saver";
import { columnsOf, dump, sqlOn, tablesOf } from "../support/s1-tools";
import { tempFile } from "../support/temp";

/** Tests that look into a store with better-sqlite3 look into PostgreSQL with the same words. */
const path = tempFile();
beforeAll(async () => {
  const client = new Client(process.env["TURNS_PG_DIRECT_URL"]);
  await client.connect();
  await client.query(`CREATE SCHEMA ${schemaAt(path)}`);
  await client.query(`CREATE TABLE ${schemaAt(path)}.kept (id bigint PRIMARY KEY, word text)`);
  await client.end();
});

test("Stand-in for better-sqlite3: rows are written and read, with placeholders", () => {
  const db = new Database(path);
  expect(db.prepare("INSERT INTO kept VALUES (?, ?), (?, '?')").run(2, "two", 1).changes).toBe(2);
  expect(db.prepare("SELECT * FROM kept WHERE id = ?").get(2)).toEqual({ id: 2, word: "two" });
  expect(db.prepare("SELECT word FROM kept ORDER BY id").pluck().all()).toEqual(["?", "two"]);
  expect(tablesOf(db)).toEqual(expect.arrayContaining(["kept", "langgraph_threads"]));
  expect(columnsOf(db, "kept")).toEqual(["id", "word"]);
  expect(dump(path)["kept"]).toEqual([
    { id: 1, word: "?" },
    { id: 2, word: "two" },
  ]);
});

test("Stand-in for better-sqlite3: a trigger refuses, until it is dropped", () => {
  sqlOn(path, "CREATE TRIGGER no BEFORE INSERT ON kept WHEN NEW.id > 5 BEGIN SELECT RAISE(ABORT, 'not this'); END");
  expect(() => sqlOn(path, "INSERT INTO kept VALUES (6, 'six')")).toThrow("not this");
  sqlOn(path, "INSERT INTO kept VALUES (5, 'five')", "DROP TRIGGER no", "INSERT INTO kept VALUES (6, 'six')");
  expect(dump(path)["kept"]).toHaveLength(4);
});
