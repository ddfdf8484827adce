import { randomBytes } from "node:crypto";
import Database from "better-sqlite3";
import { CheckpointPersister, TurnSaver } from "../../src/index";
import { Commits, internalsOf, LogWatch } from "../../src/testing-internal";
import { turmoil } from "../../torture/concurrency/crew";
import { tempFile } from "../support/temp";
import { runs } from "../support/lane";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };

test("S3.7 4 processes with 10 threads each, readers, rewinds and prunes on one file: nothing is lost or mixed, no lock reaches anybody", async () => {
  const { failures, reports } = await turmoil({ path: tempFile(), processes: 4, threads: 10, seconds: runs(2, 6), seed: 11 });
  expect(failures).toEqual([]);
  expect(reports).toHaveLength(7);
  for (const { name, runs, looks } of reports) expect([name, runs + looks > 0]).toEqual([name, true]);
}, 300_000);

test("opening a file that is up to date needs no lock: it does not wait for who holds it", () => {
  const [path, sealed] = [tempFile(), tempFile()];
  const encryption = { key: randomBytes(32) };
  TurnSaver.fromPath(path, { logger: quiet }).close();
  TurnSaver.fromPath(sealed, { logger: quiet, encryption }).close();
  for (const [file, options] of [
    [path, {}],
    [sealed, { encryption }],
  ] as const) {
    const holder = new Database(file);
    holder.exec("BEGIN IMMEDIATE");
    // Nobody could give the lock back while this waits: it would end with STORE_BUSY.
    TurnSaver.fromPath(file, { logger: quiet, ...options }).close();
    if (file === path) {
      const own = new Database(file);
      expect(new CheckpointPersister(own).loadLatest("none")).toBeNull();
      own.close();
    }
    holder.exec("ROLLBACK");
    holder.close();
  }
});

test("while others want the lock, a process with much to save leaves gaps between its commits, in order all the same", async () => {
  const path = tempFile();
  TurnSaver.fromPath(path, { logger: quiet }).close();
  const [db, holder] = [new Database(path, { timeout: 1 }), new Database(path, { timeout: 1 })];
  db.exec("CREATE TABLE mine (n INTEGER)");
  const commits = new Commits(db, 5_000, () => undefined);
  holder.exec("BEGIN IMMEDIATE");
  const insert = db.prepare("INSERT INTO mine VALUES (?)");
  const all = Array.from({ length: 5 }, async (_, n) => commits.run(() => insert.run(n)));
  let between = 0;
  const count = holder.prepare("SELECT count(*) FROM mine").pluck();
  holder.exec("ROLLBACK");
  await all[0];
  // Timers run before the queue is through.
  const timer = setInterval(() => (between += Number((count.get() as number) < 5)), 1);
  await Promise.all(all);
  clearInterval(timer);
  expect(between).toBeGreaterThan(0);
  expect(db.prepare("SELECT n FROM mine ORDER BY rowid").pluck().all()).toEqual([0, 1, 2, 3, 4]);
  // And nothing waits any more when nobody else wants it.
  expect(commits.run(() => insert.run(5))).not.toBeInstanceOf(Promise);
  db.close();
  holder.close();
});

test("S6.3 a heartbeat gives up after a few seconds while another process holds the lock, so that the next one comes in time", async () => {
  const path = tempFile();
  const saver = TurnSaver.fromPath(path, { logger: quiet, busyTimeoutMs: 60_000 });
  const { store } = internalsOf(saver);
  const run = { runId: "one", threadId: "t", host: "h", boot: "b", pid: 1, pidStart: "", startedAt: "", beatAt: 1 };
  await store.beginRun(run, () => []);
  const holder = new Database(path);
  holder.exec("BEGIN IMMEDIATE");
  const late = setTimeout(() => holder.exec("ROLLBACK"), 20_000);
  await expect(store.beatRuns(["one"], 2)).rejects.toMatchObject({ code: "STORE_BUSY" });
  clearTimeout(late);
  expect(holder.inTransaction).toBe(true);
  holder.exec("ROLLBACK");
  expect(await store.beatRuns(["one"], 2)).toEqual(["one"]);
  holder.close();
  saver.close();
}, 60_000);

test("a reader that never ends is told of when the write-ahead log has become long because of it, and the log goes back behind it", async () => {
  const path = tempFile();
  TurnSaver.fromPath(path, { logger: quiet }).close();
  const [db, reader] = [new Database(path), new Database(path)];
  db.exec("PRAGMA journal_size_limit = 1000000; CREATE TABLE mine (text TEXT)");
  const told: unknown[] = [];
  const logger = { ...quiet, warn: (data: object) => void told.push(data) };
  const commits = new Commits(db, 1_000, () => undefined, new LogWatch(db, logger, 6_000_000));
  const insert = db.prepare("INSERT INTO mine VALUES (?)");
  const save = async (times: number): Promise<void> => {
    for (let n = 0; n < times; n += 1) await commits.run(() => insert.run("x".repeat(10_000)));
  };
  await save(600);
  expect(told).toEqual([]);
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM mine").get();
  await save(900);
  expect(told).toEqual([{ file: path, bytes: expect.any(Number) as number }]);
  reader.exec("COMMIT");
  await save(2);
  const { size } = await import("node:fs").then(({ statSync }) => statSync(`${path}-wal`));
  expect(size).toBeLessThanOrEqual(1_100_000);
  db.close();
  reader.close();
});
