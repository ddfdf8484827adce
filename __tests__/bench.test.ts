import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { syncsIn } from "../bench/measure/disk-syncs";
import { perStep } from "../bench/measure/growth";
import { Samples } from "../bench/measure/samples";
import { linesOf, scriptsRun } from "../bench/measure/source-files";
import { framesIn, writtenPages } from "../bench/measure/written-pages";
import { valueText } from "../bench/report/format";
import { type Promised, promisesOf } from "../bench/report/promises";
import type { Result } from "../bench/scenarios/scenario";
import { tempFile } from "./support/temp";

describe("counts of the benchmark", () => {
  test("what grew before the first reading isn't part of a step", () => {
    expect(perStep({ at: 8, count: 1_000 }, { at: 12, count: 1_060 })).toBe(15);
    expect(perStep({ at: 40, count: 7 }, { at: 240, count: 257 })).toBe(1.25);
  });

  test("two readings at one place are refused", () => {
    expect(() => perStep({ at: 8, count: 1 }, { at: 8, count: 2 })).toThrow("no steps between 8 and 8");
  });

  test("disk syncs of one folder are counted once each, also when another thread comes between", () => {
    const log = [
      "4711  fdatasync(23</tmp/bench/syncs.db-wal>) = 0",
      "4711  fsync(21</tmp/bench/syncs.db> <unfinished ...>",
      "4712  fsync(30</tmp/elsewhere/file>) = 0",
      "4711  <... fsync resumed>)             = 0",
      "fsync(21</tmp/bench/syncs.db>) = 0",
      "4711  fsync(22</tmp/bench-other/syncs.db>) = 0",
      "4711  +++ exited with 0 +++",
      "",
    ].join("\n");
    expect(syncsIn(log, "/tmp/bench")).toBe(3);
  });

  test("a log without frames has written no page", () => {
    expect(framesIn(0, 4_096)).toBe(0);
    expect(framesIn(32, 4_096)).toBe(0);
    expect(framesIn(32 + 3 * 4_120, 4_096)).toBe(3);
  });

  test("pages written are those that SQLite counts in its log", () => {
    const path = tempFile();
    const db = new Database(path);
    db.pragma("journal_mode = WAL");
    db.pragma("wal_autocheckpoint = 0");
    expect(writtenPages(path, 4_096)).toBe(0);
    db.exec("CREATE TABLE t (x)");
    db.prepare("INSERT INTO t VALUES (?)").run(Buffer.alloc(10_000));
    const [{ log }] = db.pragma("wal_checkpoint(PASSIVE)") as [{ log: number }];
    expect(writtenPages(path, 4_096)).toBe(log);
    expect(log).toBeGreaterThan(3);
    db.close();
  });

  test("a statement that SQLite executes is told once, in or out of a transaction", () => {
    let told = 0;
    const db = new Database(":memory:", { verbose: () => (told += 1) });
    db.exec("CREATE TABLE t (x); CREATE TABLE u (x)");
    expect(told).toBe(2);
    const insert = db.prepare("INSERT INTO t VALUES (?) RETURNING x");
    db.transaction(() => [insert.get(1), insert.all(2)])();
    expect(told).toBe(6);
    db.pragma("user_version");
    expect(told).toBe(7);
    db.close();
  });

  test("a script counts if one of its functions was called, and only below the given folder", () => {
    const script = (url: string, ...counts: number[]) => ({
      scriptId: "1",
      url,
      functions: counts.map((count) => ({
        functionName: "f",
        isBlockCoverage: false,
        ranges: [{ startOffset: 0, endOffset: 1, count }],
      })),
    });
    const coverage = [
      script("file:///repo/src/saver.ts", 0, 3),
      script("file:///repo/src/saver.ts?again", 1),
      script("file:///repo/src/idle.ts", 0, 0),
      script("file:///repo/bench/index.ts", 5),
      script("node:fs", 5),
    ];
    expect(scriptsRun(coverage, "file:///repo/src/")).toEqual(["file:///repo/src/saver.ts"]);
  });

  test("lines of all TypeScript files count, those of folders too, and no others", () => {
    const folder = dirname(tempFile());
    mkdirSync(join(folder, "inner"));
    writeFileSync(join(folder, "a.ts"), "one\n\nthree\n");
    writeFileSync(join(folder, "inner", "b.ts"), "one\n");
    writeFileSync(join(folder, "inner", "c.sql"), "one\n");
    expect(linesOf(folder)).toBe(4);
  });

  test("counts are shown as they are, means of counts with two digits", () => {
    expect([1.25, 15, 27_500].map((count) => valueText(count, "count"))).toEqual(["1.25", "15", "27,500"]);
  });
});

describe("goals of the benchmark", () => {
  const goal = (promised: Promised[], what: string) => promised.find((promise) => promise.what.startsWith(what));

  test("a goal that a run hasn't measured is neither met nor missed", () => {
    expect(promisesOf([]).map(({ holds }) => holds)).toEqual(promisesOf([]).map(() => undefined));
  });

  test("a count at its limit meets its goal, one above misses it", () => {
    const counted = (value: number): Result => {
      const samples = new Samples();
      samples.add("SQL statements per step", "turns", value, "count");
      return { name: "statements", title: "", contenders: [], samples, facts: {}, notes: [] };
    };
    expect(goal(promisesOf([counted(15)]), "SQL statements per step")).toMatchObject({ found: "15", holds: true });
    expect(goal(promisesOf([counted(15.25)]), "SQL statements per step")).toMatchObject({ found: "15.25", holds: false });
  });

  test("the share of a superstep is compared with the official saver's", () => {
    const samples = new Samples();
    for (const took of [0.5, 0.6, 0.7]) samples.add("share of a superstep", "official", took);
    for (const took of [0.9, 1, 1.1]) samples.add("share of a superstep", "turns", took);
    const result: Result = { name: "superstep-share", title: "", contenders: [], samples, facts: {}, notes: [] };
    expect(goal(promisesOf([result]), "share of a superstep")).toMatchObject({ found: "0.60×", holds: true });
  });
});
