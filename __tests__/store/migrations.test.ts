import { copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { effect, CheckpointPersister, GraphRunner, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";
import { migrate, migrationChecksum, sqliteMigrations } from "../../src/testing-internal";
import { nextMigrations } from "./mig-next";
import { schemaOf } from "./mig-schema";
import { FIXTURES, goneOnWith, toldOf } from "./mig-world";
import { chain } from "../support/s1-graph";
import { runProgram, startProgram } from "../support/s1-programs";
import { columnsOf, dump, quiet, sqlOn, tablesOf } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { runs } from "../support/lane";
import { laneTest, longTest } from "../support/lane-test";

const newest = sqliteMigrations.at(-1)!.version;
const open = (path: string): TurnSaver => TurnSaver.fromPath(path, { logger: quiet });

function refused(work: () => unknown): TurnsError {
  try {
    work();
  } catch (error) {
    if (TurnsError.is(error)) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

/** Both doors to the schema. */
const doors: [string, (path: string) => void][] = [
  ["TurnSaver", (path) => open(path).close()],
  [
    "CheckpointPersister",
    (path) => {
      const db = new Database(path);
      try {
        new CheckpointPersister(db);
      } finally {
        db.close();
      }
    },
  ],
];

describe("S1 the schema comes from versioned migrations", () => {
  test.each(doors)("S1 %s brings a fresh file to the newest version, one row for each migration", (_, door) => {
    const path = tempFile();
    door(path);
    expect(dump(path)["langgraph_migrations"]).toEqual(
      sqliteMigrations.map(({ version, name }) => ({
        version,
        name,
        applied_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
        checksum: expect.stringMatching(/^[\w-]{43}$/) as string,
      })),
    );
    expect(schemaOf(path)).toBe(schemaOf(freshFile()));
  });

  test("S1 reopened, a file is not migrated again and keeps every row", async () => {
    const path = tempFile();
    const saver = open(path);
    await new GraphRunner(chain(saver)).invoke({ log: [] }, { threadId: "t" });
    saver.close();
    const before = dump(path);
    for (const [, door] of doors) door(path);
    expect(dump(path)).toEqual(before);
  });

  test("S1 the migrations that ship are those in migrations/sqlite, in the order of their numbers", () => {
    const folder = join(__dirname, "..", "..", "migrations", "sqlite");
    for (const [index, { version, name, sql }] of sqliteMigrations.entries()) {
      expect(version).toBe(index + 1);
      const file = `${String(version).padStart(4, "0")}_${name}.sql`;
      // Without the comments between statements.
      const lines = readFileSync(join(folder, file), "utf8").split(/\r?\n/);
      expect(sql.split("\n")).toEqual([...lines.filter((line) => line !== "" && !line.startsWith("--")), ""]);
    }
  });

  test("S1 the schema is the one in golden/schema.sql (after a migration: node --import tsx __tests__/store/mig-golden.ts)", () => {
    expect(schemaOf(freshFile())).toBe(readFileSync(join(__dirname, "golden", "schema.sql"), "utf8"));
  });

  test("S1 all of it is one IMMEDIATE transaction, and each version row comes before the statements it stands for", () => {
    const said: string[] = [];
    const saver = new TurnSaver(new Database(tempFile(), { verbose: (statement) => said.push(String(statement)) }), {
      logger: quiet,
    });
    saver.close();
    const at = (text: string): number => said.findIndex((statement) => statement.includes(text));
    const begin = at("BEGIN IMMEDIATE");
    const commit = said.indexOf("COMMIT", begin);
    expect(begin).toBeGreaterThanOrEqual(0);
    expect(said.slice(begin, commit + 1).filter((statement) => /^(BEGIN|COMMIT|ROLLBACK)/.test(statement))).toEqual([
      "BEGIN IMMEDIATE",
      "COMMIT",
    ]);
    for (const { version, sql } of sqliteMigrations) {
      const row = at(`VALUES (${version}`);
      const [first] = /^CREATE \w+ \w+/m.exec(sql)!;
      expect(begin).toBeLessThan(row);
      expect(row).toBeLessThan(at(first));
      expect(at(first)).toBeLessThan(commit);
    }
  });

  test("S1 a read-only handle on a migrated file reads; on an empty file it changes nothing", async () => {
    const path = tempFile();
    const saver = open(path);
    await new GraphRunner(chain(saver)).invoke({ log: ["in"] }, { threadId: "t" });
    saver.close();
    const reader = new TurnSaver(new Database(path, { readonly: true }), { logger: quiet });
    expect((await reader.turns.list("t")).length).toBe(6);
    await expect(reader.deleteThread("t")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    reader.close();
  });
});

function freshFile(): string {
  const path = tempFile();
  open(path).close();
  return path;
}

describe("S1 a migration that fails leaves the old schema", () => {
  const obstacles: [string, string, string][] = [
    ["a table of ours", "langgraph_checkpoints", "CREATE TABLE langgraph_checkpoints (mine TEXT)"],
    ["a late table of ours", "langgraph_archive", "CREATE TABLE langgraph_archive (mine TEXT)"],
    ["a table of ours in other letters", "langgraph_writes", "CREATE TABLE LangGraph_Writes (mine TEXT)"],
    ["a view of that name", "langgraph_runs", "CREATE VIEW langgraph_runs AS SELECT 1 AS mine"],
    [
      "an index of that name",
      "langgraph_writes_by_checkpoint",
      "CREATE TABLE mine (a); CREATE INDEX langgraph_writes_by_checkpoint ON mine (a)",
    ],
    ["another package's table of versions", "langgraph_migrations", "CREATE TABLE langgraph_migrations (mine TEXT)"],
    [
      "another package's table of versions with a version",
      "langgraph_migrations",
      "CREATE TABLE langgraph_migrations (version TEXT)",
    ],
  ];
  for (const [door, visit] of doors) {
    test.each(obstacles)(
      `S1 ${door}: SCHEMA_CONFLICT for %s, named, and not a byte of the file is changed`,
      (_, name, statements) => {
        const path = tempFile();
        sqlOn(path, statements);
        const before = readFileSync(path);
        const error = refused(() => visit(path));
        expect(error.code).toBe("SCHEMA_CONFLICT");
        expect(error.name).toBe("SchemaConflictError");
        expect(error.message.toLowerCase()).toContain(name);
        expect(readFileSync(path).equals(before)).toBe(true);
      },
    );

    test(`S1 ${door}: SCHEMA_TOO_NEW for a newer version, and nothing is changed`, () => {
      const path = freshFile();
      sqlOn(path, `INSERT INTO langgraph_migrations VALUES (${newest + 1}, 'from the future', '2030-01-01T00:00:00.000Z', '')`);
      const before = [schemaOf(path), dump(path)];
      const error = refused(() => visit(path));
      expect(error.code).toBe("SCHEMA_TOO_NEW");
      expect(error.name).toBe("SchemaTooNewError");
      expect(error.data).toMatchObject({ found: newest + 1, newest });
      expect([schemaOf(path), dump(path)]).toEqual(before);
    });
  }

  longTest.each([
    "CREATE TABLE langgraph_threads",
    "CREATE TABLE langgraph_checkpoints",
    "CREATE TABLE langgraph_archive",
    "COMMIT",
  ])("S1 a process killed in mid-migration, at %s, leaves a file that the next one migrates", (text) => {
    const path = tempFile();
    sqlOn(path, "CREATE TABLE mine (a TEXT)", "INSERT INTO mine VALUES ('kept')");
    expect(runProgram("store/mig-die-child.ts", path, text)).toMatchObject({ signal: "SIGKILL" });
    expect(dump(path)).toEqual({ mine: [{ a: "kept" }] });
    open(path).close();
    expect(schemaOf(path).replace(/CREATE TABLE mine .*\n\n/, "")).toBe(schemaOf(freshFile()));
  });

  test("S1 a file that is no database is refused and not changed; so are paths that lead nowhere", () => {
    const path = tempFile();
    const text = "Dear diary, this is no database.\n".repeat(200);
    writeFileSync(path, text);
    for (const [, door] of doors) expect(refused(() => door(path)).code).toBe("NOT_A_DATABASE");
    expect(readFileSync(path, "utf8")).toBe(text);
    expect(refused(() => open(join(dirname(path), "no", "such", "folder", "agent.db"))).code).toBe("STORE_UNAVAILABLE");
    expect(refused(() => open(dirname(path))).code).toBe("STORE_UNAVAILABLE");
    for (const bad of ["", "a\0b", 7 as unknown as string]) expect(refused(() => open(bad)).code).toBe("INVALID_OPTION");
  });
});

describe("S3.2 databases written by each schema that there was", () => {
  const every = sqliteMigrations.flatMap(({ version }) => Object.keys(FIXTURES).map((suffix) => `schema-${version}${suffix}`));
  const optionsOf = (name: string) => FIXTURES[name.replace(/^schema-\d+/, "")]!;
  const read = (name: string) =>
    JSON.parse(readFileSync(join(__dirname, "fixtures", `${name}.json`), "utf8")) as { told: unknown; goneOn: unknown };

  test.each(every)("S3.2 %s opens, verifies, and says what it said when it was written", async (name) => {
    const path = fixture(name);
    expect(await toldOf(path, optionsOf(name))).toEqual(read(name).told);
    const saver = TurnSaver.fromPath(path, { logger: quiet, ...optionsOf(name) });
    const report = await saver.verify();
    saver.close();
    expect([report.problems, report.remarks, report.threads]).toEqual([[], [], 4]);
    expect(Object.entries(report.checked).filter(([, count]) => count === 0)).toEqual([]);
    expect(schemaOf(path)).toBe(schemaOf(freshFile()));
  });

  test.each(every)("S2.5 %s continues: the answer that is waited for, a rewind taken back, a new task", async (name) => {
    const goneOn = await goneOnWith(fixture(name), optionsOf(name));
    expect(goneOn).toEqual(read(name).goneOn);
    // A side effect that was done before the file was closed is not done again.
    expect(goneOn).toMatchObject({ paidOfWaiting: 0, paid: 1, problems: [] });
  });

  test.each(every)(
    "S1 no migration that %s was written with has been edited since (CONTRIBUTING.md, A new migration)",
    (name) => {
      const rows = dump(fixture(name))["langgraph_migrations"] as { version: number; applied_at: string; checksum: string }[];
      expect(rows.map(({ version }) => version)).toEqual(Array.from({ length: Number(/\d+/.exec(name)![0]) }, (_, at) => at + 1));
      for (const { version, applied_at: at, checksum } of rows) {
        expect([version, migrationChecksum(sqliteMigrations[version - 1]!, at)]).toEqual([version, checksum]);
      }
    },
  );

  test("S1 a migration edited after it was applied is found in every file that has it", async () => {
    const path = freshFile();
    const [first, ...others] = sqliteMigrations;
    const edited = { ...first!, sql: `${first!.sql}-- one more line\n` };
    const db = new Database(path);
    const { applied_at: at } = db.prepare("SELECT applied_at FROM langgraph_migrations WHERE version = 1").get() as {
      applied_at: string;
    };
    db.prepare("UPDATE langgraph_migrations SET checksum = ? WHERE version = 1").run(migrationChecksum(edited, at));
    db.close();
    const saver = open(path);
    expect((await saver.verify()).problems).toMatchObject([{ table: "langgraph_migrations", kind: "format" }]);
    saver.close();
    expect(others.map(({ version }) => version)).not.toContain(1);
  });
});

function fixture(name: string): string {
  const path = tempFile();
  copyFileSync(join(__dirname, "fixtures", `${name}.db`), path);
  return path;
}

describe("S3.8 the migration that comes next, on a file that is full", () => {
  /** Everything but what the next migration changes. */
  const rest = (path: string) => {
    const { langgraph_notes: _, langgraph_migrations: __, langgraph_names: ___, ...rows } = dump(path);
    return rows;
  };
  const wholly = (path: string): "old" | "new" => {
    const { langgraph_notes: notes, langgraph_migrations: versions, langgraph_names: names } = dump(path);
    const found = [notes === undefined, (versions as unknown[]).length, (names as { note?: string }[]).map(({ note }) => note)];
    const old = [true, newest, (names as unknown[]).map(() => undefined)];
    if (JSON.stringify(found) === JSON.stringify(old)) return "old";
    expect(notes).toEqual((names as { name: string }[]).map(({ name }, at) => ({ id: at + 1, text: name })));
    expect(found).toEqual([false, newest + 1, (names as unknown[]).map(() => "once")]);
    return "new";
  };

  test.each([
    ["before it begins", "BEGIN IMMEDIATE", "old"],
    ["at its version row", "INSERT INTO langgraph_migrations", "old"],
    ["at its first statement", "ALTER TABLE", "old"],
    ["in its midst", "CREATE TABLE langgraph_notes", "old"],
    ["before its commit", "COMMIT", "old"],
    ["after its commit", "after", "new"],
  ] as const)("S3.8 killed %s, a process leaves the file wholly old or wholly new", async (_, text, expected) => {
    const path = fixture(`schema-${newest}`);
    const before = rest(path);
    expect(runProgram("store/mig-second-child.ts", path, text)).toMatchObject({ signal: "SIGKILL" });
    expect(wholly(path)).toBe(expected);
    expect(rest(path)).toEqual(before);
    if (expected === "old") {
      expect(await toldOf(path, {})).toMatchObject({ threads: expect.any(Array) });
      const db = new Database(path);
      migrate(db, nextMigrations);
      db.close();
    }
    expect([wholly(path), rest(path)]).toEqual(["new", before]);
    // For this version of the package it is a newer file.
    expect(refused(() => open(path)).code).toBe("SCHEMA_TOO_NEW");
  });

  test("S3.8 a statement that fails in its midst leaves the file fully old", () => {
    const path = fixture(`schema-${newest}`);
    const before = dump(path);
    const db = new Database(path);
    const broken = nextMigrations.map((one) =>
      one.version > newest ? { ...one, sql: `${one.sql}INSERT INTO none VALUES (1);\n` } : one,
    );
    expect(() => migrate(db as never, broken)).toThrow(/no such table: none/);
    db.close();
    expect(dump(path)).toEqual(before);
  });

  test("S4.7 of four processes that migrate one file at once each finds it new, and it is migrated once", async () => {
    const path = fixture(`schema-${newest}`);
    const go = `${path}.go`;
    const children = Array.from({ length: 4 }, () => startProgram("store/mig-second-child.ts", path, "", go));
    await Promise.all(children.map(({ said }) => said));
    writeFileSync(go, "");
    for (const { out, code } of await Promise.all(children.map(({ ended }) => ended))) {
      expect([out, code]).toEqual([["ready", newest + 1], 0]);
    }
    expect([existsSync(path), wholly(path)]).toEqual([true, "new"]);
  });

  test("S4.7 a saver that had the file open before does not mix up the two schemas: it continues, or refuses by name", async () => {
    const path = fixture(`schema-${newest}`);
    const saver = open(path);
    const db = new Database(path);
    migrate(db, nextMigrations);
    db.close();
    await new GraphRunner(chain(saver)).invoke({ log: ["in"] }, { threadId: "new" });
    expect((await saver.turns.list("new")).length).toBe(6);
    saver.close();
    expect(wholly(path)).toBe("new");
  });
});

describe("S4.7 several processes open one new file", () => {
  laneTest(
    "S4.7 eight at the same moment, on several files: all succeed, and each file is migrated once",
    async () => {
      const folder = dirname(tempFile());
      const processes = 8;
      const files = runs(3, 10);
      const children = Array.from({ length: processes }, (_, own) =>
        startProgram("store/mig-open-child.ts", folder, String(own), String(processes), String(files)),
      );
      const ended = await Promise.all(children.map((child) => child.ended));
      for (const { out, code } of ended) {
        expect(out).toEqual(Array.from({ length: files }, (_, file) => ({ file, outcome: "ok" })));
        expect(code).toBe(0);
      }
      const golden = schemaOf(freshFile());
      for (let file = 0; file < files; file += 1) {
        const path = join(folder, `file-${file}.db`);
        expect(schemaOf(path)).toBe(golden);
        const rows = dump(path);
        expect(rows["langgraph_migrations"]).toHaveLength(sqliteMigrations.length);
        const turns = rows["langgraph_checkpoints"] as { id: string; seq: number | null }[];
        expect(turns.map((turn) => turn.id).sort()).toEqual(Array.from({ length: processes }, (_, own) => `turn-${own}`));
        // They belong to no thread, and have no place in one's order.
        expect(turns.map((turn) => turn.seq)).toEqual(turns.map(() => null));
        const db = new Database(path);
        expect([db.pragma("auto_vacuum", { simple: true }), db.pragma("integrity_check", { simple: true })]).toEqual([2, "ok"]);
        db.close();
      }
    },
    300_000,
  );
});

describe("S3.8 the pragmas are as designed", () => {
  const pragmas = {
    auto_vacuum: 2,
    journal_mode: "wal",
    synchronous: 2,
    foreign_keys: 1,
    fullfsync: 1,
    wal_autocheckpoint: 1000,
    journal_size_limit: 64 * 1024 * 1024,
    trusted_schema: 0,
    cell_size_check: 1,
    busy_timeout: 5,
  };
  const read = (db: Database.Database): Record<string, unknown> =>
    Object.fromEntries(Object.keys(pragmas).map((name) => [name, db.pragma(name, { simple: true })]));

  test.each([
    [undefined, 2],
    ["full" as const, 2],
    ["normal" as const, 1],
  ])("S3.8 durability %s: read back from the connection", (durability, synchronous) => {
    const db = new Database(tempFile());
    const saver = new TurnSaver(db, { logger: quiet, ...(durability === undefined ? {} : { synchronous: durability }) });
    expect(read(db)).toEqual({ ...pragmas, synchronous });
    saver.close();
  });

  test("S3.8 a file that was opened by its path is in WAL mode and gives pages back", () => {
    const db = new Database(freshFile());
    expect([db.pragma("auto_vacuum", { simple: true }), db.pragma("journal_mode", { simple: true })]).toEqual([2, "wal"]);
    db.close();
  });

  test("S3.8 the handle that a persister is given keeps its pragmas", () => {
    const db = new Database(tempFile());
    const before = read(db);
    new CheckpointPersister(db).loadLatest("g");
    expect(read(db)).toEqual(before);
    db.close();
  });
});

describe("S1 a file that is shared with others", () => {
  const State = Annotation.Root({ n: Annotation<number>() });
  const counter = (checkpointer: TurnSaver | SqliteSaver) =>
    new StateGraph(State)
      .addNode("up", (state) => ({ n: (state.n ?? 0) + 1 }))
      .addEdge(START, "up")
      .addEdge("up", END)
      .compile({ checkpointer });
  const config = { configurable: { thread_id: "same" } };

  test.each(["official first", "ours first"])(
    "S1 the official SqliteSaver's tables and ours work side by side (%s)",
    async (order) => {
      const path = tempFile();
      const first = order === "ours first" ? open(path) : undefined;
      const official = SqliteSaver.fromConnString(path);
      await counter(official).invoke({ n: 10 }, config);
      const ours = first ?? open(path);
      await counter(ours).invoke({ n: 20 }, config);
      await counter(official).invoke({ n: 11 }, config);
      expect((await counter(official).getState(config)).values).toEqual({ n: 12 });
      expect((await counter(ours).getState(config)).values).toEqual({ n: 21 });
      const before = dump(path);
      await ours.deleteThread("same");
      expect(dump(path)).toMatchObject({ checkpoints: before["checkpoints"], writes: before["writes"] });
      expect((await counter(official).getState(config)).values).toEqual({ n: 12 });
      ours.close();
      official.db.close();
    },
  );

  test("S1 tables that have nothing to do with us stay as they are, through everything", async () => {
    const path = tempFile();
    sqlOn(path, "CREATE TABLE mine (thread_id TEXT, seq INTEGER)", "INSERT INTO mine VALUES ('t', 999999)");
    const saver = open(path);
    const runner = new GraphRunner(chain(saver));
    for (const taskId of ["one", "two"]) await runner.invoke({ log: [] }, { threadId: "t", taskId });
    await saver.rewind({ threadId: "t", toTask: "one" });
    await saver.copyThread("t", "u");
    await saver.deleteThread("t");
    saver.close();
    expect(dump(path)["mine"]).toEqual([{ thread_id: "t", seq: 999_999 }]);
  });
});

describe("S1.5 the archive knows every column", () => {
  /** Two tasks, and in every column of every row of the second something that no default would give. */
  async function filled(path: string): Promise<{ saver: TurnSaver; tables: string[]; targetSeq: number }> {
    const saver = open(path);
    await new GraphRunner(chain(saver)).invoke({ log: ["one"] }, { threadId: "t", taskId: "one" });
    // From the second task on a log that is stored element by element, another graph, and effects.
    const act = (node: string): Promise<string> => effect(`act of ${node}`, () => node, { input: { node }, undo: false });
    const journaled = chain(saver, async (node) => void (await act(node)));
    await new GraphRunner(journaled, { nodes: { a: { version: "2" } } }).invoke(
      { log: ["two".padEnd(300, ".")] },
      { threadId: "t", taskId: "two" },
    );
    const targetSeq = (await saver.turns.tasks("t"))[0]!.endSeq!;
    const db = new Database(path);
    const tables = tablesOf(db).filter((table) => {
      const columns = columnsOf(db, table);
      return columns.includes("seq") && (columns.includes("thread") || columns.includes("list")) && table !== "langgraph_threads";
    });
    for (const table of tables) {
      const columns = db.prepare("SELECT name, type, pk FROM pragma_table_info(?)").all(table) as {
        name: string;
        type: string;
        pk: number;
      }[];
      for (const { name, type, pk } of columns) {
        // A rewind reads the tasks, and the effects behind its target, and refuses what was changed outside.
        if (
          ["langgraph_effects", "langgraph_tasks"].includes(table) ||
          pk > 0 ||
          ["thread", "seq", "superseded_by"].includes(name)
        )
          continue;
        const value = type === "INTEGER" ? 2n ** 53n + 1n : `{"hex":"00"} ä "\\ \n \u{1F600} ${name}`;
        const text = type === "ANY" ? "CASE seq % 2 WHEN 0 THEN ?1 || seq ELSE CAST(?1 || seq AS BLOB) END" : "?1 || seq";
        const filler = type === "INTEGER" ? "?1" : text;
        try {
          db.prepare(`UPDATE ${table} SET ${name} = ${filler} WHERE seq > ?2`).run({ 1: value, 2: targetSeq });
        } catch (error) {
          if (!/CHECK constraint/.test(String(error))) throw error;
        }
      }
    }
    db.close();
    return { saver, tables, targetSeq };
  }

  test("S1.5 a rewind and its taking back bring back each column of each row of each table that has a seq", async () => {
    const path = tempFile();
    const { saver, tables } = await filled(path);
    expect(tables).toEqual(
      expect.arrayContaining([
        "langgraph_snapshots",
        "langgraph_chunks",
        "langgraph_lists",
        "langgraph_items",
        "langgraph_writes",
        "langgraph_checkpoints",
        "langgraph_tasks",
      ]),
    );
    const before = exactly(path, tables);
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
    for (const table of tables) expect(exactly(path, [table])).not.toEqual({ [table]: before[table] });
    await saver.rewinds.takeBack(rewindId!);
    expect(exactly(path, tables)).toEqual(before);
    saver.close();
  });

  test("S1.5 no table with a seq keeps a row from behind the target, and the archive holds each that went, whole", async () => {
    const path = tempFile();
    const { saver, tables, targetSeq } = await filled(path);
    const before = exactly(path, tables);
    await saver.rewind({ threadId: "t", toTask: "one" });
    const archived = dump(path)["langgraph_archive"] as { tbl: string; change: string; row: string }[];
    for (const table of tables) {
      const rows = exactly(path, [table])[table] as { seq: bigint }[];
      expect(rows.filter((row) => row.seq > BigInt(targetSeq))).toEqual([]);
      const gone = (before[table] as { seq: bigint }[]).filter((row) => row.seq > BigInt(targetSeq));
      const kept = archived.filter((row) => row.tbl === table && row.change === "deleted");
      expect(kept).toHaveLength(gone.length);
      for (const { row } of kept) expect(Object.keys(JSON.parse(row) as object)).toEqual(Object.keys(gone[0]!));
    }
    saver.close();
  });

  /** Rows with integers as they are stored, beyond what a number can hold. */
  function exactly(path: string, tables: readonly string[]): Record<string, unknown[]> {
    const db = new Database(path, { readonly: true }).defaultSafeIntegers();
    const rows = tables.map(
      (table) => [table, db.prepare(`SELECT * FROM ${table} ORDER BY ${columnsOf(db, table).join(", ")}`).all()] as const,
    );
    db.close();
    return Object.fromEntries(rows);
  }
});
