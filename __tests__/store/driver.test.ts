import { spawnSync } from "node:child_process";
import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { CheckpointPersister, TurnSaver } from "../../src/index";
import {
  adapted,
  DRIVERS,
  isBusy,
  NodeDatabase,
  type NodeSqliteDatabase,
  openDatabase,
  openFile,
  sqliteCode,
  sqliteCodeName,
  type SqliteDatabase,
  sqliteFailure,
} from "../../src/testing-internal";
import { isThere } from "../support/engines";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

/** Set where the tests run with `node:sqlite` as the driver (jest.node-sqlite.config.mjs). */
const ON_NODE_SQLITE = process.env["TURNS_TEST_NODE_OPTIONS"] !== undefined;

const there = DRIVERS.filter(isThere);

const codeOf = (work: () => unknown): string => {
  try {
    work();
    return "";
  } catch (error) {
    return sqliteCode(error) || String(error);
  }
};

test("this run tests the driver that it is for, and it is the one that a path is opened with", () => {
  expect(there).toContain(ON_NODE_SQLITE ? "node:sqlite" : "better-sqlite3");
  const db = openFile(tempFile(), { synchronous: "full" });
  expect(db instanceof NodeDatabase).toBe(ON_NODE_SQLITE);
  db.close();
});

describe.each(there)("%s behaves as the store expects", (driver) => {
  const opened: SqliteDatabase[] = [];
  const open = (path = ":memory:", options = {}): SqliteDatabase => {
    const db = openDatabase(path, { driver, ...options });
    opened.push(db);
    return db;
  };
  afterEach(() => opened.splice(0).forEach((db) => db.close()));

  test("values are restored as what they were: texts with NUL, numbers, null, bytes as Buffers", () => {
    const db = open();
    db.exec("CREATE TABLE t (v)");
    const values = ["", "a\0b", "ünï 🙂", 0, -0.5, 2 ** 53 - 1, -(2 ** 53) + 1, 1e300, null, Buffer.from("x"), Buffer.alloc(0)];
    const insert = db.prepare("INSERT INTO t VALUES (?)");
    for (const value of values) expect(Number(insert.run(value).changes)).toBe(1);
    expect(insert.run(new Uint8Array([1, 2]).subarray(1))).toMatchObject({ changes: 1 });
    insert.run(undefined);
    const back = db.prepare("SELECT v FROM t ORDER BY rowid").all() as { v: unknown }[];
    expect(back).toStrictEqual([...values, Buffer.from([2]), null].map((v) => ({ v })));
    expect(back.filter(({ v }) => v instanceof Uint8Array && !Buffer.isBuffer(v))).toEqual([]);
  });

  test("rows are plain objects or arrays, one that is not there is undefined", () => {
    const db = open();
    const text = "SELECT 1 AS a, 'x' AS b, x'00ff' AS c WHERE ? = 1";
    expect(db.prepare(text).get(1)).toStrictEqual({ a: 1, b: "x", c: Buffer.from([0, 255]) });
    expect(Object.getPrototypeOf(db.prepare(text).get(1))).not.toBeNull();
    expect(db.prepare(text).get(2)).toBeUndefined();
    expect(db.prepare(text).all(2)).toEqual([]);
    const raw = db.prepare(text).raw(true);
    expect(raw.all(1)).toStrictEqual([[1, "x", Buffer.from([0, 255])]]);
    expect(raw.raw(false).all(1)).toHaveLength(1);
  });

  test("integers that no number holds are read as the nearest one, and do no harm to later rows", () => {
    const db = open();
    db.exec("CREATE TABLE t (v INTEGER); INSERT INTO t VALUES (9007199254740993), (-9223372036854775808)");
    const rows = db.prepare("SELECT v FROM t ORDER BY rowid");
    expect(rows.all()).toEqual([{ v: 2 ** 53 }, { v: -(2 ** 63) }]);
    expect(rows.get()).toEqual({ v: 2 ** 53 });
    expect(rows.raw(true).all()).toEqual([[2 ** 53], [-(2 ** 63)]]);
    const returning = db.prepare("INSERT INTO t VALUES (9007199254740993) RETURNING v");
    expect(returning.all()).toEqual([{ v: 2 ** 53 }]);
    expect(db.prepare("SELECT count(*) AS n FROM t").get()).toEqual({ n: 3 });
  });

  test("parameters named by number may stand several times", () => {
    const db = open();
    expect(db.prepare("SELECT ?1 AS a, ?2 AS b, ?1 AS c").get({ 1: "x", 2: 2 })).toEqual({ a: "x", b: 2, c: "x" });
    expect(db.prepare("SELECT ? AS a, ? AS b").get("x", 2)).toEqual({ a: "x", b: 2 });
  });

  test("pragmas give rows, or the first value", () => {
    const db = open();
    expect(db.pragma("page_size", { simple: true })).toBe(4096);
    expect(db.pragma("page_size")).toEqual([{ page_size: 4096 }]);
    expect(db.pragma("foreign_keys", { simple: true })).toBe(1);
    expect(db.pragma("incremental_vacuum(3)", { simple: true })).toBeUndefined();
    db.pragma("busy_timeout = 7");
    expect(db.pragma("busy_timeout", { simple: true })).toBe(7);
  });

  test("a transaction commits as a whole, or what it threw is thrown and nothing is left; one within another too", () => {
    const db = open();
    db.exec("CREATE TABLE t (v)");
    const add = (value: number): unknown => db.prepare("INSERT INTO t VALUES (?)").run(value);
    const broken = new Error("no");
    const failing = (): unknown => {
      add(9);
      throw broken;
    };
    expect(db.transaction(() => [add(1), db.inTransaction][1])()).toBe(true);
    for (const kind of [db.transaction(failing), db.transaction(failing).immediate]) expect(kind).toThrow(broken);
    db.transaction(() => {
      add(2);
      expect(() => db.transaction(failing)()).toThrow(broken);
      expect(db.inTransaction).toBe(true);
      db.transaction(() => {
        add(3);
        expect(() => db.transaction(failing).immediate()).toThrow(broken);
      })();
    }).immediate();
    expect(db.inTransaction).toBe(false);
    expect(db.prepare("SELECT v FROM t").raw(true).all()).toEqual([[1], [2], [3]]);
  });

  test("a transaction that gives a promise is refused, and rolled back", () => {
    const db = open();
    db.exec("CREATE TABLE t (v)");
    const careless = (): unknown => {
      db.exec("INSERT INTO t VALUES (1)");
      return Promise.resolve();
    };
    expect(() => db.transaction(careless).immediate()).toThrow("Transaction function cannot return a promise");
    expect(db.prepare("SELECT * FROM t").all()).toEqual([]);
  });

  test("a transaction that SQLite aborted by itself throws what aborted it", () => {
    const db = open();
    db.exec("CREATE TABLE t (v UNIQUE ON CONFLICT ROLLBACK); INSERT INTO t VALUES (1)");
    expect(codeOf(db.transaction(() => db.exec("INSERT INTO t VALUES (1)")).immediate)).toBe("SQLITE_CONSTRAINT_UNIQUE");
    expect(db.inTransaction).toBe(false);
  });

  test("errors carry the names of SQLite's extended codes", () => {
    const db = open();
    db.exec("CREATE TABLE p (i INTEGER PRIMARY KEY); CREATE TABLE t (u UNIQUE, n NOT NULL, c CHECK (c > 0), f REFERENCES p)");
    const insert = db.prepare("INSERT INTO t VALUES (?, ?, ?, ?)");
    insert.run(1, 1, 1, null);
    expect([
      codeOf(() => insert.run(1, 1, 1, null)),
      codeOf(() => insert.run(2, null, 1, null)),
      codeOf(() => insert.run(2, 1, -1, null)),
      codeOf(() => insert.run(2, 1, 1, 7)),
      codeOf(() => db.prepare("nonsense")),
      codeOf(() => db.exec("SELECT * FROM nowhere")),
      codeOf(() => db.pragma("nonsense()")),
    ]).toEqual([
      ...["UNIQUE", "NOTNULL", "CHECK", "FOREIGNKEY"].map((name) => `SQLITE_CONSTRAINT_${name}`),
      ...["SQLITE_ERROR", "SQLITE_ERROR", "SQLITE_ERROR"],
    ]);
  });

  test("a lock of somebody else, and a snapshot that is too old, are told apart and are both busy", () => {
    const path = tempFile();
    const [one, two] = [open(path), open(path)];
    for (const db of [one, two]) db.pragma("busy_timeout = 0");
    one.pragma("journal_mode = WAL");
    one.exec("CREATE TABLE t (v)");
    two.exec("BEGIN; SELECT * FROM t");
    two.prepare("SELECT * FROM t").all();
    one.exec("INSERT INTO t VALUES (1)");
    expect(codeOf(() => two.exec("INSERT INTO t VALUES (2)"))).toBe("SQLITE_BUSY_SNAPSHOT");
    two.exec("ROLLBACK");
    one.exec("BEGIN IMMEDIATE");
    const attempt = (): unknown => two.transaction(() => 1).immediate();
    expect(codeOf(attempt)).toBe("SQLITE_BUSY");
    try {
      attempt();
    } catch (error) {
      expect(isBusy(error)).toBe(true);
    }
    one.exec("COMMIT");
    expect(attempt()).toBe(1);
  });

  test("paths: a missing folder, a folder, no database, one that only looks like a URI, blanks around", () => {
    const folder = dirname(tempFile());
    expect(() => open(join(folder, "none", "a.db"))).toThrow(TypeError);
    expect(codeOf(() => open(folder))).toBe("SQLITE_CANTOPEN");
    writeFileSync(join(folder, "text"), "no database, and long enough to be told from an empty one ".repeat(9));
    expect(codeOf(() => open(join(folder, "text")).pragma("user_version"))).toBe("SQLITE_NOTADB");
    const before = process.cwd();
    process.chdir(folder);
    try {
      open("file:a.db?mode=memory").exec("CREATE TABLE t (v)");
      open("  b.db ").exec("CREATE TABLE t (v)");
    } finally {
      process.chdir(before);
    }
    expect(readdirSync(folder).sort()).toEqual(["b.db", "file:a.db?mode=memory", "text"]);
  });

  test("it says how it was opened, and closes more than once", () => {
    const path = tempFile();
    const db = open(path);
    db.exec("CREATE TABLE t (v)");
    expect([db.open, db.name, db.readonly, db.memory, db.inTransaction]).toEqual([true, path, false, false, false]);
    const reader = open(path, { readonly: true });
    expect([reader.readonly, codeOf(() => reader.exec("INSERT INTO t VALUES (1)"))]).toEqual([true, "SQLITE_READONLY"]);
    expect(codeOf(() => open(`${path}-none`, { readonly: true }))).toBe("SQLITE_CANTOPEN");
    expect([open().memory, open().name]).toEqual([true, ":memory:"]);
    db.close();
    db.close();
    expect([db.open, db.inTransaction]).toEqual([false, false]);
    expect(() => db.prepare("SELECT 1")).toThrow();
  });

  /** A model of one table with three constraints, and of transactions; every driver has to agree with it, and so with the other. */
  test("random operations leave the rows, and throw the codes, that a model of the table says", () => {
    type Op =
      { put: [key: string, n: number | null, bytes: Uint8Array | null] } | { drop: string } | { all: Op[]; fails: boolean };
    const key = fc.constantFrom("a", "b", "ü\0");
    const n = fc.oneof(fc.constant(null), fc.integer({ min: -2, max: 3 }), fc.constantFrom(2 ** 53 - 1));
    const { op } = fc.letrec<{ op: Op }>((tie) => ({
      op: fc.oneof(
        { depthSize: "small" },
        fc.record({ put: fc.tuple(key, n, fc.option(fc.uint8Array({ maxLength: 3 }))) }),
        fc.record({ drop: key }),
        fc.record({ all: fc.array(tie("op"), { maxLength: 5 }), fails: fc.boolean() }),
      ),
    }));
    type Model = Map<string, [number, Uint8Array | null]>;
    const modelled = (model: Model, one: Op, codes: string[]): Model => {
      if ("all" in one) {
        const within = one.all.reduce((rows, each) => modelled(rows, each, codes), model);
        codes.push(one.fails ? "Error: undone" : "");
        return one.fails ? model : within;
      }
      const rows: Model = new Map(model);
      if ("drop" in one) {
        rows.delete(one.drop);
        codes.push("");
        return rows;
      }
      const [k, value, bytes] = one.put;
      const wrong = value === null ? "NOTNULL" : value < 0 ? "CHECK" : rows.has(k) ? "PRIMARYKEY" : "";
      codes.push(wrong && `SQLITE_CONSTRAINT_${wrong}`);
      if (wrong === "") rows.set(k, [value as number, bytes]);
      return rows;
    };
    const done = (db: SqliteDatabase, one: Op, codes: string[]): void => {
      const work = (): unknown => {
        if ("put" in one)
          return db.prepare("INSERT INTO t VALUES (?1, ?2, ?3)").run({ 1: one.put[0], 2: one.put[1], 3: one.put[2] });
        if ("drop" in one) return db.prepare("DELETE FROM t WHERE k = ?").run(one.drop);
        return db
          .transaction(() => {
            for (const each of one.all) done(db, each, codes);
            if (one.fails) throw new Error("undone");
          })
          .immediate();
      };
      codes.push(codeOf(work));
    };
    fc.assert(
      fc.property(fc.array(op, { maxLength: 20 }), (ops) => {
        const db = openDatabase(":memory:", { driver });
        db.exec("CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0), b BLOB) STRICT");
        const [wanted, found]: [string[], string[]] = [[], []];
        const model = ops.reduce((rows, one) => modelled(rows, one, wanted), new Map() as Model);
        for (const one of ops) done(db, one, found);
        const rows = db.prepare("SELECT k, n, b FROM t ORDER BY k").raw(true).all();
        db.close();
        expect(found).toEqual(wanted);
        const sorted = [...model].sort(([left], [right]) => (left < right ? -1 : 1));
        expect(rows).toEqual(sorted.map(([k, [value, bytes]]) => [k, value, bytes && Buffer.from(bytes)]));
      }),
    );
  });
});

describe("what node:sqlite throws", () => {
  test("has the name of its code, an extended one's primary if SQLite is newer than we are", () => {
    const codes = [
      1,
      5,
      261,
      517,
      10,
      10 | (3 << 8),
      10 | (4 << 8),
      11,
      13,
      14,
      26,
      1555,
      2067,
      787,
      28 | (1 << 8),
      5 | (99 << 8),
      200,
    ];
    expect(codes.map(sqliteCodeName)).toEqual([
      ...["SQLITE_ERROR", "SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_IOERR", "SQLITE_IOERR_WRITE"],
      ...["SQLITE_IOERR_FSYNC", "SQLITE_CORRUPT", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_NOTADB"],
      ...["SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_FOREIGNKEY", "SQLITE_WARNING_AUTOINDEX"],
      ...["SQLITE_BUSY", "UNKNOWN_SQLITE_ERROR_200"],
    ]);
  });

  test("keeps its message and is the cause; what is not from SQLite passes as it is", () => {
    const thrown = Object.assign(new Error("database is locked"), { code: "ERR_SQLITE_ERROR", errcode: 5, errstr: "x" });
    expect(sqliteFailure(thrown)).toMatchObject({ code: "SQLITE_BUSY", message: "database is locked", cause: thrown });
    for (const other of [new TypeError("no"), "text", undefined, null]) expect(sqliteFailure(other)).toBe(other);
  });
});

describe("the choice of the driver", () => {
  const child = join(__dirname, "driver-child.ts");
  const hide = ["--require", join(__dirname, "hide-drivers.cjs")];
  interface Told {
    used?: string;
    words?: string[];
    ok?: boolean;
    problems?: unknown[];
    code?: string;
    message?: string;
    warnings?: string;
  }
  function told(args: string[], { hidden = "", node = process.execPath, cwd = process.cwd() } = {}): Told {
    const env = { ...process.env, NODE_OPTIONS: "", HIDDEN_DRIVERS: hidden };
    const ended = spawnSync(node, [...hide, "--import", "tsx", child, ...args], { cwd, env, encoding: "utf8" });
    expect({ status: ended.status, stderr: ended.stderr }).toMatchObject({ status: 0 });
    return { ...(JSON.parse(ended.stdout) as Told), warnings: ended.stderr };
  }

  test("none is there: DRIVER_UNAVAILABLE says what was tried, why each failed, and what to do", () => {
    const { code, message } = told([tempFile(), "", "t"], { hidden: "better-sqlite3,node:sqlite" });
    expect(code).toBe("DRIVER_UNAVAILABLE");
    expect(message).toContain(
      `better-sqlite3: Cannot find module 'better-sqlite3'; node:sqlite: Node ${process.versions.node} has none`,
    );
    expect(message).toContain("new TurnSaver(db)");
    expect(message).not.toContain("Require stack");
  });

  test.each(DRIVERS)("%s is asked for and not there: it is named, and no other is taken", (driver) => {
    const file = tempFile();
    expect(told([file, driver, "t"], { hidden: driver })).toMatchObject({ code: "DRIVER_UNAVAILABLE" });
    expect(readdirSync(dirname(file))).toEqual([]);
  });

  test("a node:sqlite that ends texts at their first NUL, as that of Node 24.15 does, is refused, opened by us or by the user", () => {
    let closed = 0;
    class DatabaseSync {
      readonly isTransaction = false;
      readonly isOpen = true;
      exec(): void {}
      location(): null {
        return null;
      }
      close(): void {
        closed += 1;
      }
      prepare(sql: string): object {
        const row = (text: string): object => ({ text: text.slice(0, text.indexOf("\0")) });
        const none = (): void => undefined;
        const all = (): object[] => [{ opcode: "Transaction", p1: 0, p2: sql.startsWith("EXPLAIN BEGIN IMMEDIATE") ? 1 : 0 }];
        return { get: row, all, setReturnArrays: none, setReadBigInts: none, setAllowBareNamedParameters: none };
      }
    }
    const former = Object.getOwnPropertyDescriptor(process, "getBuiltinModule");
    const refused = {
      code: "DRIVER_UNAVAILABLE",
      message: expect.stringMatching(/is too old\. Run it on Node 24\.16 or newer, or/),
    };
    try {
      Object.defineProperty(process, "getBuiltinModule", { configurable: true, value: () => ({ DatabaseSync }) });
      expect(() => TurnSaver.fromPath(":memory:", { driver: "node:sqlite" })).toThrow(expect.objectContaining(refused));
      expect(closed).toBe(1);
    } finally {
      if (former === undefined) Reflect.deleteProperty(process, "getBuiltinModule");
      else Object.defineProperty(process, "getBuiltinModule", former);
    }
    const theirs = new DatabaseSync() as unknown as NodeSqliteDatabase;
    expect(() => new TurnSaver(theirs)).toThrow(expect.objectContaining(refused));
    // What is a user's stays open.
    expect(closed).toBe(1);
  });

  if (isThere("node:sqlite")) {
    test("without better-sqlite3 a path is opened with node:sqlite, and nobody is warned of it", () => {
      const without = told([tempFile(), "", "t"], { hidden: "better-sqlite3" });
      expect(without).toMatchObject({ used: "node:sqlite", ok: true });
      expect(without.warnings).not.toContain("ExperimentalWarning");
    });
  }

  // Where these tests were started through scripts/on-node.mjs, by a Node that has better-sqlite3.
  const main = process.env["ON_NODE_FROM"];
  if (main !== undefined) {
    test("a file goes from one driver to the other and back, and is whole each time", () => {
      const file = tempFile();
      const words: string[] = [];
      for (const driver of ["better-sqlite3", "node:sqlite", "better-sqlite3", "node:sqlite"]) {
        words.push(`${driver} ünï \0 end`);
        const node = driver === "better-sqlite3" ? main : process.execPath;
        expect(told([file, driver, "t"], { node })).toMatchObject({ used: driver, words, ok: true, problems: [] });
      }
    }, 300_000);
  }

  test("an option that names none is refused by name, one beside an open handle too", () => {
    const file = tempFile();
    expect(() => TurnSaver.fromPath(file, { driver: "sqlite3" as never })).toThrow(
      /^Option "driver" is "sqlite3"\. Pass "better-sqlite3"/,
    );
    const db = openDatabase(file, { driver: there[0] });
    expect(() => new TurnSaver(db, { driver: there[0] })).toThrow(
      /^Option "driver" is ".+" beside an open database, which has its own driver\./,
    );
    db.close();
  });

  test("a path of blanks is refused: it would be a database that is gone with the process", () => {
    expect(() => TurnSaver.fromPath(" ")).toThrow(/^The path of the database is " "\. Pass the path of a file, /);
  });
});

if (isThere("node:sqlite")) {
  describe("an open DatabaseSync", () => {
    type Handle = NodeSqliteDatabase & { new (path: string, options?: object): Handle };
    const { DatabaseSync } = process.getBuiltinModule("node:sqlite") as unknown as { DatabaseSync: Handle };

    test("is taken by TurnSaver, no matter what it gives its statements by default, and closed with it", async () => {
      const file = tempFile();
      const db = new DatabaseSync(file, { returnArrays: true, readBigInts: true, allowBareNamedParameters: false });
      const saver = new TurnSaver(db, { logger: quiet });
      expect((await saver.verify()).ok).toBe(true);
      expect(adapted(db)).toMatchObject({ name: file, readonly: false, memory: false, open: true });
      saver.close();
      expect(db.isOpen).toBe(false);
      expect(() => new TurnSaver(db)).toThrow(/^The database is closed\. /);
    });

    test("is taken by CheckpointPersister, and stays the caller's", () => {
      const db = new DatabaseSync(":memory:");
      const persister = new CheckpointPersister(db);
      const [state, createdAt] = [{ a: 1n, b: new Date(0) }, new Date(1)];
      const turn = { id: "1", graphId: "g", nodeName: "n", turnType: "Thought", state, taskId: "t", createdAt } as const;
      persister.save(turn);
      expect(persister.loadLatest("g")).toEqual(turn);
      expect(persister.deleteAfter("s", ["s", "t"])).toBe(1);
      expect(db.isOpen).toBe(true);
      db.close();
    });

    test("that was opened read-only is known for one, also while somebody else holds the lock", () => {
      const file = tempFile();
      TurnSaver.fromPath(file).close();
      const writer = new DatabaseSync(file);
      writer.exec("BEGIN IMMEDIATE");
      const reader = new DatabaseSync(file, { readOnly: true, returnArrays: true });
      expect(adapted(reader).readonly).toBe(true);
      writer.exec("ROLLBACK");
      expect(adapted(writer).readonly).toBe(false);
      const saver = new TurnSaver(reader, { logger: quiet });
      expect(saver.turns.liveRuns).toBeDefined();
      saver.close();
      writer.close();
    });
  });
}
