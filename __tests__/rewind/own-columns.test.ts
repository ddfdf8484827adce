import { randomBytes } from "node:crypto";
import Database from "better-sqlite3";
import { GraphRunner } from "langgraph-checkpoint-turns";
import { rotateKeys } from "langgraph-checkpoint-turns/maintenance";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { chain } from "../support/s1-graph";
import { quiet, sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";

/** Columns that somebody adds to our tables: of types that we don't use, with names that have a meaning in SQL or capitals. */
const COLUMNS: readonly (readonly [name: string, type: string, value: string])[] = ON_POSTGRES
  ? [
      ["noted_at", "timestamptz NOT NULL DEFAULT clock_timestamp()", "'2001-02-03 04:05:06.789012+00'"],
      ["labels", "text[]", `'{a,"b c"}'`],
      ["details", "jsonb", `'{"a": [1, 2]}'`],
      ["large", "bigint", "9007199254740993"],
      ["picture", "bytea", String.raw`'\x00ff'`],
      ["order", "boolean DEFAULT true", "false"],
      ["Mixed", "text", "'Ü'"],
      ["twice", "text GENERATED ALWAYS AS ('x') STORED", "DEFAULT"],
    ]
  : [
      ["noted_at", "TEXT NOT NULL DEFAULT 'never'", "'2001-02-03'"],
      ["large", "INTEGER", "9007199254740993"],
      ["picture", "BLOB", "x'00ff'"],
      ["order", "INTEGER DEFAULT 1", "0"],
      ["Mixed", "TEXT", "'Ü'"],
      ["twice", "TEXT GENERATED ALWAYS AS ('x')", "NULL"],
    ];
const TABLES = ["snapshots", "writes", "checkpoints", "tasks", "graphs"].map((name) => `langgraph_${name}`);
const [OLD, NEW] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")];

function addColumns(path: string): void {
  for (const table of TABLES) {
    for (const [name, type] of COLUMNS) sqlOn(path, `ALTER TABLE ${table} ADD COLUMN "${name}" ${type}`);
    const values = COLUMNS.filter(([, type]) => !type.includes("GENERATED")).map(([name, , value]) => `"${name}" = ${value}`);
    sqlOn(path, `UPDATE ${table} SET ${values.join(", ")}`);
  }
}

/** The rows of a table in their order. JavaScript's numbers don't hold the large one. */
function rowsOf(path: string, table: string): Record<string, unknown>[] {
  const db = new Database(path);
  const seq = table === "langgraph_tasks" ? "task_id" : "seq";
  const rows = db.prepare(`SELECT *, CAST(large AS TEXT) AS digits FROM ${table} ORDER BY ${seq}`).all();
  db.close();
  return rows as Record<string, unknown>[];
}

test.each([
  ["plain", {}],
  ["encrypted", { encryption: { keys: { old: OLD }, current: "old" } }],
])(
  "S3.1 S9.1 columns that somebody added to the tables survive a rewind that is taken back, and trouble neither verify nor a rotation (%s)",
  async (_, options) => {
    const path = tempFile();
    let saver = openSaver(path, { logger: quiet, ...options });
    let runner = new GraphRunner(chain(saver));
    await runner.invoke({ log: ["a"] }, { threadId: "t", taskId: "one" });
    await runner.invoke({ log: ["b"] }, { threadId: "t", taskId: "two" });
    await (saver.close() as unknown);
    addColumns(path);
    const before = TABLES.map((table) => rowsOf(path, table));

    saver = openSaver(path, { logger: quiet, ...options });
    runner = new GraphRunner(chain(saver));
    expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
    const { rewindId } = await runner.rewind({ threadId: "t", toTask: "one" });
    for (const [at, table] of TABLES.slice(0, 3).entries()) expect(rowsOf(path, table).length).toBeLessThan(before[at]!.length);
    expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });

    // What the archive has no values for gets the column's default.
    for (const table of TABLES) sqlOn(path, `ALTER TABLE ${table} ADD COLUMN later TEXT NOT NULL DEFAULT 'none'`);
    expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
    await saver.rewinds.takeBack(rewindId!);
    const restored = before.map((rows) => rows.map((row) => ({ ...row, later: "none" })));
    expect(TABLES.map((table) => rowsOf(path, table))).toEqual(restored);
    expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });

    await (saver.close() as unknown);
    if (!("encryption" in options)) return;
    saver = openSaver(path, { logger: quiet, encryption: { keys: { old: OLD, new: NEW }, current: "new" } });
    expect(await rotateKeys(saver)).toMatchObject({ done: true, retired: 1 });
    expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
    await (saver.close() as unknown);
  },
);
