import { salvage, vacuum } from "langgraph-checkpoint-turns/maintenance";
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import Database from "better-sqlite3";
import fc from "fast-check";
import { CheckpointPersister, TurnSaver, TurnsError } from "langgraph-checkpoint-turns";
import { checkpointFault, save, turnOf } from "../../torture/faults/histories";
import { tempFile } from "../support/temp";
import { childProgram } from "../support/child-program";
import { runs } from "../support/lane";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const open = (path: string, options = {}): TurnSaver => TurnSaver.fromPath(path, { logger: quiet, ...options });

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    return TurnsError.is(error) ? error.code : `not one of ours: ${String(error)}`;
  }
  return "no error";
}

/** Another process does it: closing a file drops a process's own locks on it, and a cut comes from outside anyway. */
function inAnotherProcess(program: string, ...args: (string | number)[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["-e", program, ...args.map(String)], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

const cut = (file: string, bytes: number): string =>
  inAnotherProcess("fs.truncateSync(process.argv[1], Number(process.argv[2]))", file, bytes);

const bytesOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
const digestOf = (file: string): string =>
  existsSync(file) ? createHash("sha256").update(readFileSync(file)).digest("hex") : "absent";
/** An empty log is as good as none. */
const digests = (path: string): string[] => [digestOf(path), bytesOf(`${path}-wal`) === 0 ? "no log" : digestOf(`${path}-wal`)];

async function saves(saver: TurnSaver, from: number, to: number): Promise<void> {
  for (let index = from; index < to; index += 1) await save(saver, index);
}

/** A file of some size, and a log that holds more. */
async function laid(path: string, options = {}): Promise<TurnSaver> {
  const first = open(path, options);
  await saves(first, 0, 40);
  first.close();
  const saver = open(path, options);
  await saves(saver, 40, 44);
  return saver;
}

const PAGE = 4096;
const FRAME = PAGE + 24;

/** Everything that was acknowledged is there, and the file is whole, for the next process that opens it. */
async function expectWhole(path: string, count: number): Promise<void> {
  const again = open(path);
  for (let index = 0; index < count; index += 1) expect([index, await checkpointFault(again, index)]).toEqual([index, undefined]);
  expect((await again.verify()).problems).toEqual([]);
  again.close();
}

describe("S6.6 a file or log that is cut while it is open", () => {
  const cuts: [string, (path: string) => [file: string, bytes: number]][] = [
    ["the file, to nothing", (path) => [path, 0]],
    ["the file, to a few bytes", (path) => [path, 50]],
    ["the file, in its middle", (path) => [path, (bytesOf(path) >> 13) * PAGE]],
    ["the file, within a page", (path) => [path, (bytesOf(path) >> 13) * PAGE + 100]],
    ["the log, to nothing", (path) => [`${path}-wal`, 0]],
    ["the log, to its header", (path) => [`${path}-wal`, 32]],
    ["the log, in its middle", (path) => [`${path}-wal`, 32 + 2 * FRAME]],
    ["the log, within its last frame", (path) => [`${path}-wal`, bytesOf(`${path}-wal`) - 40]],
    ["the log, by one byte", (path) => [`${path}-wal`, bytesOf(`${path}-wal`) - 1]],
  ];

  test.each(cuts)("%s: no later save is acknowledged, and closing changes neither", async (_, where) => {
    const path = tempFile();
    const saver = await laid(path);
    const [file, bytes] = where(path);
    cut(file, bytes);
    const left = digests(path);
    await expect(save(saver, 44)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", data: { file } });
    expect(await codeOf(() => saver.deleteThread("t0"))).toBe("STORE_UNAVAILABLE");
    expect(await codeOf(() => vacuum(saver))).toBe("STORE_UNAVAILABLE");
    expect(await codeOf(() => vacuum(saver, { full: true }))).toBe("STORE_UNAVAILABLE");
    saver.close();
    expect(digests(path)).toEqual(left);
  });

  test("the file, to nothing while its log still holds every page: SQLite would delete the log with the next opening", async () => {
    const path = tempFile();
    const saver = open(path);
    await saves(saver, 0, 3);
    cut(path, 0);
    const left = digests(path);
    await expect(save(saver, 3)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", data: { file: path } });
    saver.close();
    expect(digests(path)).toEqual(left);
  });

  test.each([{}, { readOnly: true }])(
    "a file that was cut to nothing isn't opened (%j): its log stays, and is salvaged",
    async (options) => {
      const path = tempFile();
      const saver = open(path);
      await saves(saver, 0, 3);
      cut(path, 0);
      saver.close();
      const left = digests(path);
      expect(await codeOf(() => open(path, options).close())).toBe("STORE_UNAVAILABLE");
      expect(digests(path)).toEqual(left);
      const rescued = `${path}.rescued.db`;
      expect(await salvage(path, rescued)).toMatchObject({ ok: true, lost: [] });
      await expectWhole(rescued, 3);
    },
  );

  test("a file that was deleted is created again, no matter what log is left there", async () => {
    const path = tempFile();
    const saver = open(path);
    await saves(saver, 0, 3);
    inAnotherProcess("fs.rmSync(process.argv[1])", path);
    saver.close();
    expect(bytesOf(`${path}-wal`)).toBeGreaterThan(0);
    const again = open(path);
    await saves(again, 0, 2);
    again.close();
    await expectWhole(path, 2);
  });

  test.each(cuts)("%s: closing notices it too, and leaves what is there as it is", async (_, where) => {
    const path = tempFile();
    const saver = await laid(path);
    cut(...where(path));
    const left = digests(path);
    saver.close();
    expect(digests(path)).toEqual(left);
  });

  test("a cut is remembered: who makes the file as long as it was doesn't bring back what was in it", async () => {
    const path = tempFile();
    const saver = await laid(path);
    const bytes = bytesOf(path);
    cut(path, bytes >> 1);
    expect(await codeOf(() => save(saver, 44))).toBe("STORE_UNAVAILABLE");
    cut(path, bytes);
    const left = digests(path);
    expect(await codeOf(() => save(saver, 44))).toBe("STORE_UNAVAILABLE");
    saver.close();
    expect(digests(path)).toEqual(left);
  });

  test.each([0, 32, 32 + FRAME, 32 + 2 * FRAME + 500])(
    "the log, to %i bytes, and somebody fills it up to its length: the next save is refused, and all after it",
    async (bytes) => {
      const path = tempFile();
      const saver = await laid(path);
      const log = `${path}-wal`;
      const whole = bytesOf(log);
      cut(log, bytes);
      cut(log, whole);
      expect(await codeOf(() => save(saver, 44))).toBe("STORE_UNAVAILABLE");
      const left = digests(path);
      expect(await codeOf(() => save(saver, 45))).toBe("STORE_UNAVAILABLE");
      saver.close();
      expect(digests(path)).toEqual(left);
    },
  );

  test("the last frame of the log, filled up with zeros: maintenance and closing don't move it into the file", async () => {
    const path = tempFile();
    const saver = await laid(path);
    const log = `${path}-wal`;
    const whole = bytesOf(log);
    cut(log, whole - 40);
    cut(log, whole);
    const left = digests(path);
    expect(await codeOf(() => vacuum(saver, { full: true }))).toBe("STORE_UNAVAILABLE");
    saver.close();
    expect(digests(path)).toEqual(left);
  });

  test("a small file with a long log, which SQLite would move into what is left of the file", async () => {
    const path = tempFile();
    const saver = await laid(path);
    await saves(saver, 44, 64);
    expect(bytesOf(`${path}-wal`)).toBeGreaterThan(bytesOf(path));
    cut(path, 0);
    const left = digests(path);
    expect(await codeOf(() => save(saver, 64))).toBe("STORE_UNAVAILABLE");
    saver.close();
    expect([readdirSync(dirname(path)).sort(), digests(path)]).toEqual([["agent.db", "agent.db-shm", "agent.db-wal"], left]);
  });

  test("with nothing in the log: the file is all there is, and it is cut", async () => {
    const path = tempFile();
    const saver = await laid(path);
    await vacuum(saver);
    expect(bytesOf(`${path}-wal`)).toBe(0);
    cut(path, bytesOf(path) >> 1);
    const left = digestOf(path);
    expect(await codeOf(() => save(saver, 44))).toBe("STORE_UNAVAILABLE");
    saver.close();
    expect(digestOf(path)).toBe(left);
  });

  test("a page of the file that the log still has is not lost: saves continue, and everything is there", async () => {
    const path = tempFile();
    const saver = await laid(path);
    cut(path, bytesOf(path) - PAGE);
    await saves(saver, 44, 50);
    saver.close();
    await expectWhole(path, 50);
  });

  test("the log, and another program that doesn't notice wrote on behind the hole", async () => {
    const path = tempFile();
    const saver = await laid(path);
    const program = `
      const [path, wal] = process.argv.slice(1);
      const Database = require(${JSON.stringify(require.resolve("better-sqlite3"))});
      const db = new Database(path);
      db.exec("CREATE TABLE other (v)");
      fs.truncateSync(wal, fs.statSync(wal).size - 4120 * 4);
      db.exec("INSERT INTO other VALUES (1)");`;
    inAnotherProcess(program, path, `${path}-wal`);
    expect(bytesOf(`${path}-wal`)).toBeGreaterThan(0);
    await expect(save(saver, 44)).rejects.toMatchObject({ message: expect.stringContaining("with a hole in them") });
    const left = digests(path);
    saver.close();
    expect(digests(path)).toEqual(left);
  });

  test("a log whose contents are all in the file, which only a truncating checkpoint may empty", async () => {
    const path = tempFile();
    const saver = await laid(path);
    inAnotherProcess(
      `new (require(${JSON.stringify(require.resolve("better-sqlite3"))}))(process.argv[1]).pragma("wal_checkpoint(PASSIVE)")`,
      path,
    );
    cut(`${path}-wal`, 0);
    expect(await codeOf(() => save(saver, 44))).toBe("STORE_UNAVAILABLE");
    saver.close();
    await expectWhole(path, 44);
  });

  test("seen by two savers in two processes, and by one that is opened afterwards while the first is open", async () => {
    const path = tempFile();
    const saver = await laid(path);
    const other = await otherSaver(path);
    await other.saves(44, 46);
    cut(`${path}-wal`, bytesOf(`${path}-wal`) - FRAME);
    const left = digests(path);
    expect(await codeOf(() => save(saver, 46))).toBe("STORE_UNAVAILABLE");
    expect(await other.code(46)).toBe("STORE_UNAVAILABLE");
    const late = open(path);
    expect(await codeOf(() => save(late, 46))).toBe("STORE_UNAVAILABLE");
    late.close();
    await other.end();
    saver.close();
    expect(digests(path)).toEqual(left);
  });

  test("a process that ends without closing leaves what was cut as it is, too", async () => {
    const path = tempFile();
    (await laid(path)).close();
    const other = await otherSaver(path);
    await other.saves(44, 60);
    cut(path, bytesOf(path) >> 1);
    const left = digests(path);
    expect(await other.code(60)).toBe("STORE_UNAVAILABLE");
    await other.end("exit");
    expect(digests(path)).toEqual(left);
  });

  test("S1.1 the turn log by itself notices it", async () => {
    const path = tempFile();
    const db = new Database(path);
    db.pragma("journal_mode = WAL");
    const persister = new CheckpointPersister(db);
    for (let index = 0; index < 5; index += 1) persister.save(turnOf(index));
    db.transaction(() => persister.save(turnOf(5)))();
    cut(`${path}-wal`, bytesOf(`${path}-wal`) - 1);
    expect(await codeOf(() => persister.save(turnOf(6)))).toBe("STORE_UNAVAILABLE");
    db.close();
  });
});

describe("S6.6 a file or log that rightly gets shorter is no cut one", () => {
  const sqlite = `const db = new (require(${JSON.stringify(require.resolve("better-sqlite3"))}))(process.argv[1]);`;
  const others: [string, string][] = [
    ["a truncating checkpoint", `db.pragma("wal_checkpoint(TRUNCATE)")`],
    ["a restarting checkpoint", `db.pragma("wal_checkpoint(RESTART)")`],
    [
      "a limit on the log's length",
      `db.pragma("wal_checkpoint(RESTART)"); db.pragma("journal_size_limit = 0"); db.exec("CREATE TABLE o (v)")`,
    ],
    [
      "an incremental vacuum",
      `db.exec("DELETE FROM filler"); db.pragma("incremental_vacuum"); db.pragma("wal_checkpoint(PASSIVE)")`,
    ],
    ["a full vacuum", `db.exec("DELETE FROM filler; VACUUM"); db.pragma("wal_checkpoint(TRUNCATE)")`],
    [
      "a vacuum that gave pages back, and others that are not in the file yet",
      `db.exec("DELETE FROM filler"); db.pragma("incremental_vacuum"); db.pragma("wal_checkpoint(TRUNCATE)");
       db.exec("INSERT INTO filler VALUES (zeroblob(500000))")`,
    ],
  ];
  const filled = async (path: string): Promise<TurnSaver> => {
    (await laid(path)).close();
    inAnotherProcess(`${sqlite} db.exec("CREATE TABLE filler (v); INSERT INTO filler VALUES (zeroblob(2000000))")`, path);
    const saver = open(path);
    await saves(saver, 44, 48);
    return saver;
  };

  test.each(others)("%s of another process", async (_, work) => {
    const path = tempFile();
    const saver = await filled(path);
    inAnotherProcess(`${sqlite} ${work}`, path);
    await saves(saver, 48, 56);
    saver.close();
    await expectWhole(path, 56);
  });

  test.each(others)("%s, while the other process stays", async (_, work) => {
    const path = tempFile();
    const saver = await filled(path);
    const stays = spawn(process.execPath, ["-e", `${sqlite} ${work}; console.log("done"); process.stdin.resume()`, path], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    await once(stays.stdout, "data");
    await saves(saver, 48, 56);
    stays.kill();
    await once(stays, "close");
    saver.close();
    await expectWhole(path, 56);
  });

  test("vacuums of our own, with and without another saver", async () => {
    const path = tempFile();
    const saver = await filled(path);
    const second = open(path);
    for (const full of [false, true, false]) {
      await vacuum(saver, { full });
      await save(saver, 48);
      await vacuum(second, { full });
      await save(second, 49);
    }
    saver.close();
    second.close();
    await expectWhole(path, 50);
  });

  test("a rollback journal instead of a log, and a database in memory", async () => {
    const memory = open(":memory:");
    await saves(memory, 0, 3);
    memory.close();
    const path = tempFile();
    const db = new Database(path);
    const persister = new CheckpointPersister(db);
    for (let index = 0; index < 5; index += 1) persister.save(turnOf(index));
    expect(db.pragma("journal_mode", { simple: true })).toBe("delete");
    cut(path, bytesOf(path) >> 1);
    expect(await codeOf(() => persister.save(turnOf(6)))).toBe("STORE_UNAVAILABLE");
    db.close();
  });
});

test("S6.6 processes that save, delete, vacuum and back up in one file at once are never refused", async () => {
  const path = tempFile();
  const saver = await laid(path);
  const children = await Promise.all([1, 2, 3].map(() => otherSaver(path)));
  let goesOn = true;
  const work = Promise.all(children.map((child) => child.busy(runs(30, 90)))).finally(() => (goesOn = false));
  for (let round = 0; goesOn; round += 1) {
    await save(saver, 44 + (round % 10));
    if (round % 20 === 19) await saver.backup(join(dirname(path), "copy.db"), { overwrite: true });
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect(await work).toEqual(["no error", "no error", "no error"]);
  await Promise.all(children.map((child) => child.end()));
  expect((await saver.verify()).problems).toEqual([]);
  saver.close();
}, 300_000);

describe("S6.6", () => {
  const target = fc.constantFrom("", "-wal");
  const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });

  test("no matter what is cut, and when: each later save is refused, or nothing at all was lost; closing changes nothing that was cut", async () => {
    let refusals = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 30 }),
        fc.constantFrom("nothing", "vacuum", "reopen"),
        fc.integer({ min: 0, max: 30 }),
        target,
        place,
        async (before, upkeep, between, suffix, share) => {
          const path = tempFile();
          let saver = open(path, { synchronous: "normal" });
          await saves(saver, 0, before);
          if (upkeep === "vacuum") await vacuum(saver);
          if (upkeep === "reopen") {
            saver.close();
            saver = open(path, { synchronous: "normal" });
          }
          await saves(saver, before, before + between);
          const bytes = bytesOf(path + suffix);
          cut(path + suffix, Math.floor(bytes * share));
          const left = digests(path);
          const code = await codeOf(() => save(saver, before + between));
          if (code === "no error") {
            await saves(saver, before + between + 1, before + between + 3);
            saver.close();
            await expectWhole(path, before + between + 3);
          } else {
            refusals += 1;
            expect(code).toBe("STORE_UNAVAILABLE");
            saver.close();
            expect(digests(path)).toEqual(left);
          }
        },
      ),
      { numRuns: runs(12, 60), examples: [[1, "reopen", 0, "", 0]] },
    );
    expect(refusals).toBeGreaterThan(runs(2, 10));
  }, 300_000);

  test("cut, deleted, moved or replaced by another process at a moment of its own, amid saves: none that began afterwards is acknowledged", async () => {
    const program = `
      process.stdout.write("ready\\n");
      process.stdin.once("data", (line) => {
        const [what, file, share, wait] = JSON.parse(line);
        const until = process.hrtime.bigint() + BigInt(wait);
        while (process.hrtime.bigint() < until);
        const bytes = fs.statSync(file).size;
        if (what === "cut") fs.truncateSync(file, Math.floor(bytes * share));
        if (what === "delete") fs.unlinkSync(file);
        if (what === "move" || what === "replace") fs.renameSync(file, file + ".moved");
        if (what === "replace") fs.copyFileSync(file + ".moved", file);
        process.stdout.write(String(process.hrtime.bigint()) + "\\n", () => process.exit());
      });`;
    const what = fc.constantFrom("cut", "cut", "cut", "delete", "move", "replace");
    await fc.assert(
      fc.asyncProperty(what, target, place, fc.integer({ min: 0, max: 30_000_000 }), async (happens, suffix, share, wait) => {
        const path = tempFile();
        const saver = await laid(path, { synchronous: "normal" });
        const other = spawn(process.execPath, ["-e", program], { stdio: ["pipe", "pipe", "inherit"] });
        const ended = once(other, "close");
        await once(other.stdout, "data");
        let doneAt: bigint | undefined;
        other.stdout.once("data", (line) => (doneAt = BigInt(String(line))));
        other.stdin.write(JSON.stringify([happens, path + suffix, share, wait]));
        const began: bigint[] = [];
        let index = 44;
        let code = "no error";
        for (let after = 0; code === "no error" && after < 5; index += 1) {
          began.push(process.hrtime.bigint());
          code = await codeOf(() => save(saver, index));
          await new Promise((resolve) => setImmediate(resolve));
          if (doneAt !== undefined) after += 1;
        }
        await ended;
        if (code === "no error") {
          expect(happens).toBe("cut");
          saver.close();
          await expectWhole(path, index);
          return;
        }
        // SQLite itself may have met the hole, between our look and its commit.
        expect(["STORE_UNAVAILABLE", "STORE_FAILED", "CHECKPOINT_CORRUPTED"]).toContain(code);
        expect(await codeOf(() => save(saver, index))).toBe("STORE_UNAVAILABLE");
        const left = digests(path);
        saver.close();
        if (happens === "cut") expect(digests(path)).toEqual(left);
        expect(began.slice(0, -1).filter((at) => at > (doneAt ?? 0n))).toEqual([]);
      }),
      { numRuns: runs(12, 60) },
    );
  }, 300_000);
});

/** A saver of ours in another process, which saves what it is told to. */
async function otherSaver(path: string): Promise<{
  saves(from: number, to: number): Promise<void>;
  code(index: number): Promise<string>;
  busy(rounds: number): Promise<string>;
  end(how?: "close" | "exit"): Promise<void>;
}> {
  const child = spawn(process.execPath, [...childProgram(join(__dirname, "cut-child.ts")), path], {
    stdio: ["pipe", "pipe", "inherit"],
    cwd: join(__dirname, "..", ".."),
    env: { ...process.env, NODE_OPTIONS: process.env["TURNS_TEST_NODE_OPTIONS"] ?? "" },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async (ask: unknown): Promise<string> => {
    child.stdin.write(`${JSON.stringify(ask)}\n`);
    return String((await lines.next()).value);
  };
  await lines.next();
  return {
    saves: async (from, to) => {
      for (let index = from; index < to; index += 1) expect(await answer({ save: index })).toBe("no error");
    },
    code: async (index) => (await answer({ save: index })).split(" ")[0] ?? "",
    busy: (rounds) => answer({ busy: rounds }),
    end: async (how = "close") => {
      child.stdin.write(`${JSON.stringify({ end: how })}\n`);
      await once(child, "close");
    },
  };
}
