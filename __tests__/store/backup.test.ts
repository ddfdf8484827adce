import { vacuum } from "langgraph-checkpoint-turns/maintenance";
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { Annotation, Command, interrupt, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { TurnSaver, TurnsError } from "langgraph-checkpoint-turns";
import type { BackupProgress } from "../../src/testing-internal";
import { checkpointFault, save } from "../../torture/faults/histories";
import { SmallDisk, WITHOUT_MOUNT } from "../../torture/faults/small-disk";
import { longTest } from "../support/lane-test";
import { tempFile } from "../support/temp";
import { childProgram } from "../support/child-program";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const open = (path: string, options = {}): TurnSaver => TurnSaver.fromPath(path, { logger: quiet, ...options });
const beside = (path: string, name = "copy.db"): string => join(dirname(path), name);
/** Set where the tests run with `node:sqlite` as the driver (jest.node-sqlite.config.mjs). */
const ON_NODE_SQLITE = process.env["TURNS_TEST_NODE_OPTIONS"] !== undefined;
const onDisk = WITHOUT_MOUNT ? test.skip : test;

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    return TurnsError.is(error) ? error.code : `not one of ours: ${String(error)}`;
  }
  return "no error";
}

async function saves(saver: TurnSaver, from: number, to: number): Promise<void> {
  for (let index = from; index < to; index += 1) await save(saver, index);
}

async function laid(path: string, count = 20, options = {}): Promise<TurnSaver> {
  const saver = open(path, options);
  await saves(saver, 0, count);
  return saver;
}

/** A file that takes several steps to copy. */
function filled(path: string, megabytes = 12): void {
  const db = new Database(path);
  db.exec("CREATE TABLE filler (v)");
  for (let count = 0; count < megabytes; count += 1) db.prepare("INSERT INTO filler VALUES (randomblob(1000000))").run();
  db.close();
}

async function expectHolds(path: string, from: number, to: number, options = {}): Promise<void> {
  const saver = open(path, options);
  for (let index = from; index < to; index += 1) expect([index, await checkpointFault(saver, index)]).toEqual([index, undefined]);
  expect((await saver.verify()).problems).toEqual([]);
  saver.close();
}

/** What is in the folder of a file beside the database itself and its log. */
const others = (path: string): string[] =>
  readdirSync(dirname(path))
    .filter((name) => !name.startsWith(basename(path)))
    .sort();

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
function graphOn(saver: TurnSaver) {
  const pause = () => new Promise<void>((resolve) => setTimeout(resolve, 5));
  const graph = new StateGraph(State)
    .addNode("a", async () => (await pause(), { log: ["a".repeat(2_000)] }))
    .addNode("ask", () => ({ log: [interrupt<string, string>("who?")] }))
    .addNode("c", async () => (await pause(), { log: ["c"] }))
    .addEdge(START, "a")
    .addEdge("a", "ask")
    .addEdge("ask", "c")
    .compile({ checkpointer: saver });
  return saver.attach(graph);
}

/** Another process that saves without a pause until it is told to end. */
async function busyWriter(path: string): Promise<{ end(): Promise<number> }> {
  const child = spawn(process.execPath, [...childProgram(join(__dirname, "backup-child.ts")), "save", path], {
    stdio: ["pipe", "pipe", "inherit"],
    cwd: join(__dirname, "..", ".."),
    env: { ...process.env, NODE_OPTIONS: process.env["TURNS_TEST_NODE_OPTIONS"] ?? "" },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  await lines.next();
  return {
    end: async () => {
      child.stdin.end();
      return Number((await lines.next()).value);
    },
  };
}

describe("S6.8 saver.backup", () => {
  test("copies everything that was saved when it was called, verified, and says what it made", async () => {
    const path = tempFile();
    const saver = await laid(path);
    const report = await saver.backup(beside(path));
    expect(report).toMatchObject({
      path: beside(path),
      bytes: statSync(beside(path)).size,
      verified: { ok: true, problems: [] },
    });
    expect(report.verified?.checked.checkpoints).toBe(20);
    expect(report.pages * 4096).toBe(report.bytes);
    expect(others(path)).toEqual(["copy.db"]);
    await saves(saver, 20, 22);
    saver.close();
    await expectHolds(beside(path), 0, 20);
    await expectHolds(path, 0, 22);
  });

  test("takes in what was handed in before it without being awaited", async () => {
    const path = tempFile();
    const saver = await laid(path, 4);
    const handedIn = [save(saver, 4), save(saver, 5)];
    await Promise.all([saver.backup(beside(path)), ...handedIn]);
    saver.close();
    await expectHolds(beside(path), 0, 6);
  });

  test("while graphs run here and another process saves without a pause: it ends, and threads are resumed from it", async () => {
    const path = tempFile();
    const saver = await laid(path, 10);
    filled(path);
    const graph = graphOn(saver);
    const config = (thread: string) => ({ configurable: { thread_id: thread } });
    await graph.invoke({ log: ["in"] }, config("before"));
    const writer = await busyWriter(path);
    let runs = 0;
    let goesOn = true;
    const running = (async () => {
      for (; goesOn; runs += 1) await graph.invoke({ log: ["in"] }, config(`run ${runs}`));
    })();
    const report = await saver.backup(beside(path));
    goesOn = false;
    await running;
    const written = await writer.end();
    expect([runs > 0, written > 10, report.verified?.ok]).toEqual([true, true, true]);
    saver.close();

    await expectHolds(beside(path), 0, 10);
    const restored = open(beside(path));
    const again = graphOn(restored);
    expect((await again.getState(config("before"))).next).toEqual(["ask"]);
    const { log } = await again.invoke(new Command({ resume: "me" }), config("before"));
    expect(log.slice(2)).toEqual(["me", "c"]);
    expect((await restored.verify()).problems).toEqual([]);
    restored.close();
  }, 300_000);

  longTest(
    "is one moment of the database: of saves that depend on each other the copy has a beginning, without a gap",
    async () => {
      const path = tempFile();
      const saver = await laid(path, 10);
      filled(path);
      const writer = await busyWriter(path);
      await saver.backup(beside(path));
      const written = await writer.end();
      saver.close();
      const copy = open(beside(path));
      let there = 0;
      while (there < written && (await checkpointFault(copy, there)) === undefined) there += 1;
      for (let index = there; index < written; index += 1) expect(await checkpointFault(copy, index)).toBe("absent");
      expect(there).toBeGreaterThanOrEqual(10);
      copy.close();
    },
    300_000,
  );

  test("copies at most 256 pages a step, with turns of the event loop in between", async () => {
    const path = tempFile();
    const saver = await laid(path, 4);
    filled(path);
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    setImmediate(turn);
    const steps: BackupProgress[] = [];
    const report = await saver.backup(beside(path), { onProgress: (progress) => steps.push(progress) });
    isOver = true;
    const copied = steps.filter(({ phase }) => phase === "copy");
    expect(copied.length).toBeGreaterThan(report.pages / 600);
    expect(turns).toBeGreaterThan(copied.length);
    expect(copied.map(({ pages }) => pages)).toEqual(copied.map(({ pages }) => pages).sort((a, b) => a - b));
    expect(copied.at(-1)).toMatchObject({ pages: report.pages, ofPages: report.pages });
    expect(steps.at(-1)?.phase).toBe("verify");
    saver.close();
  });

  test("of an encrypted saver stays sealed, and opens with its keys alone", async () => {
    const path = tempFile();
    const encryption = { key: randomBytes(32) };
    const saver = await laid(path, 6, { encryption });
    expect((await saver.backup(beside(path))).verified?.ok).toBe(true);
    saver.close();
    expect(readFileSync(beside(path)).includes("entry 0")).toBe(false);
    expect(await codeOf(() => open(beside(path)))).toBe("ENCRYPTED");
    await expectHolds(beside(path), 0, 6, { encryption });
  });

  test("of a database in memory is a file", async () => {
    const path = tempFile();
    const saver = await laid(":memory:", 6);
    await saver.backup(beside(path));
    saver.close();
    await expectHolds(beside(path), 0, 6);
  });

  test("of a handle that its user opened", async () => {
    const path = tempFile();
    const { DatabaseSync } = (ON_NODE_SQLITE ? process.getBuiltinModule("node:sqlite") : {}) as {
      DatabaseSync?: typeof Database;
    };
    const saver = new TurnSaver(new (DatabaseSync ?? Database)(path), { logger: quiet });
    await saves(saver, 0, 6);
    await saver.backup(beside(path));
    saver.close();
    await expectHolds(beside(path), 0, 6);
  });
});

describe("S6.8 where a backup may go", () => {
  const refused: [string, string, (path: string) => string][] = [
    ["INVALID_OPTION", "nothing", () => ""],
    ["INVALID_OPTION", "memory", () => ":memory:"],
    ["INVALID_OPTION", "a name with NUL", (path) => `${path}\0`],
    ["INVALID_OPTION", "the database itself", (path) => path],
    [
      "INVALID_OPTION",
      "the database by another path",
      (path) => join(dirname(path), "..", basename(dirname(path)), basename(path)),
    ],
    ["INVALID_OPTION", "the log of the database", (path) => `${path}-wal`],
    [
      "INVALID_OPTION",
      "a symbolic link to the database",
      (path) => (symlinkSync(path, beside(path, "link")), beside(path, "link")),
    ],
    ["INVALID_OPTION", "a hard link to the database", (path) => (linkSync(path, beside(path, "hard")), beside(path, "hard"))],
    ["STORE_UNAVAILABLE", "a folder", (path) => dirname(path)],
    ["STORE_UNAVAILABLE", "a folder that is not there", (path) => join(dirname(path), "none", "copy.db")],
    [
      "BACKUP_TARGET_EXISTS",
      "the log of a database that is open",
      (path) => (writeFileSync(`${beside(path)}-wal`, ""), beside(path)),
    ],
  ];
  test.each(refused)("%s for %s, also with overwrite; nothing is written", async (code, _, where) => {
    const path = tempFile();
    const saver = await laid(path, 4);
    const target = where(path);
    const before = readdirSync(dirname(path)).sort();
    expect(await codeOf(() => saver.backup(target))).toBe(code);
    expect(await codeOf(() => saver.backup(target, { overwrite: true }))).toBe(code);
    expect(readdirSync(dirname(path)).sort()).toEqual(before);
    saver.close();
  });

  test("a file that is there is refused and stays; with overwrite it is replaced in one step", async () => {
    const path = tempFile();
    const saver = await laid(path, 4);
    const target = beside(path);
    writeFileSync(target, "precious");
    expect(await codeOf(() => saver.backup(target))).toBe("BACKUP_TARGET_EXISTS");
    expect(readFileSync(target, "utf8")).toBe("precious");
    const seen = new Set<string>();
    await saver.backup(target, { overwrite: true, onProgress: () => seen.add(readFileSync(target, "utf8")) });
    expect([...seen]).toEqual(["precious"]);
    await saves(saver, 4, 6);
    await saver.backup(target, { overwrite: true });
    saver.close();
    await expectHolds(target, 0, 6);
  });

  test("S6.8 who only reads a copy leaves nothing beside it, so the next backup replaces it", async () => {
    const path = tempFile();
    const saver = await laid(path, 4);
    const target = beside(path);
    await saver.backup(target);
    const reader = open(target, { readOnly: true });
    expect((await reader.verify()).ok).toBe(true);
    expect(await codeOf(() => saver.backup(target, { overwrite: true }))).toBe("BACKUP_TARGET_EXISTS");
    reader.close();
    expect(others(path)).toEqual([basename(target)]);
    await saves(saver, 4, 6);
    await saver.backup(target, { overwrite: true });
    saver.close();
    await expectHolds(target, 0, 6);
  });

  test("S6.8 neither does who can't read it", async () => {
    const path = tempFile();
    const saver = await laid(path, 4, { encryption: { key: randomBytes(32) } });
    await saver.backup(beside(path));
    expect(await codeOf(() => open(beside(path), { readOnly: true }).close())).toBe("ENCRYPTED");
    const other = new Database(beside(path, "other.db"));
    other.exec("PRAGMA journal_mode = WAL; CREATE TABLE t (a)");
    other.close();
    expect(await codeOf(() => open(beside(path, "other.db"), { readOnly: true }).close())).toBe("SCHEMA_OUTDATED");
    expect(others(path)).toEqual(["copy.db", "other.db"]);
    saver.close();
  });

  test("S6.8 a reader that is closed while others have the file open takes nothing from them", async () => {
    const path = tempFile();
    const saver = await laid(path, 4);
    await vacuum(saver);
    expect(statSync(`${path}-wal`).size).toBe(0);
    open(path, { readOnly: true }).close();
    const [one, other] = [open(path, { readOnly: true }), open(path, { readOnly: true })];
    one.close();
    await saves(saver, 4, 6);
    other.close();
    saver.close();
    await expectHolds(path, 0, 6);
  });

  test("a file that somebody puts there meanwhile is not replaced", async () => {
    const path = tempFile();
    const saver = await laid(path, 4);
    const onProgress = (): void => writeFileSync(beside(path), "precious");
    expect(await codeOf(() => saver.backup(beside(path), { onProgress }))).toBe("BACKUP_TARGET_EXISTS");
    expect([readFileSync(beside(path), "utf8"), others(path)]).toEqual(["precious", ["copy.db"]]);
    saver.close();
  });

  test("a malformed option is named", async () => {
    const saver = open(":memory:");
    const wrong = { overwrite: "yes" } as unknown as { overwrite: boolean };
    expect(await codeOf(() => saver.backup("copy.db", wrong))).toBe("INVALID_OPTION");
    expect(await codeOf(() => saver.backup("copy.db", { overwrit: true } as object))).toBe("INVALID_OPTION");
    saver.close();
    expect(await codeOf(() => saver.backup(tempFile()))).toBe("STORE_CLOSED");
  });
});

describe("S6.8 a backup that doesn't come to its end leaves nothing at its destination", () => {
  test.each(["copy", "verify"] as const)("aborted while it does its %s", async (phase) => {
    const path = tempFile();
    const saver = await laid(path, 10);
    filled(path);
    const stop = new AbortController();
    const reason = new Error("enough");
    const onProgress = (progress: BackupProgress): void => (progress.phase === phase ? stop.abort(reason) : undefined);
    const ended = saver.backup(beside(path), { signal: stop.signal, onProgress });
    await expect(ended).rejects.toMatchObject({ code: "BACKUP_ABORTED", cause: reason });
    expect(await codeOf(() => saver.backup(beside(path), { signal: stop.signal }))).toBe("BACKUP_ABORTED");
    expect(others(path)).toEqual([]);
    await saves(saver, 10, 12);
    saver.close();
    await expectHolds(path, 0, 12);
  });

  test("onProgress throws: that is what is thrown", async () => {
    const path = tempFile();
    const saver = await laid(path, 4);
    for (const phase of ["copy", "verify"]) {
      const onProgress = (progress: BackupProgress): void => {
        if (progress.phase === phase) throw new RangeError(phase);
      };
      await expect(saver.backup(beside(path), { onProgress })).rejects.toThrow(new RangeError(phase));
    }
    expect(others(path)).toEqual([]);
    saver.close();
  });

  test("the saver is closed meanwhile", async () => {
    const path = tempFile();
    const saver = await laid(path, 10);
    filled(path);
    expect(await codeOf(() => saver.backup(beside(path), { onProgress: () => saver.close() }))).toBe("STORE_CLOSED");
    expect(others(path)).toEqual([]);
    await expectHolds(path, 0, 10);
  });

  test("a damaged row is in the database: the copy is refused, unless it is wanted as it is", async () => {
    const path = tempFile();
    const saver = await laid(path, 10);
    const db = new Database(path);
    db.exec("UPDATE langgraph_snapshots SET step = step + 1 WHERE seq = (SELECT max(seq) FROM langgraph_snapshots)");
    db.close();
    await expect(saver.backup(beside(path))).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPTED",
      message: expect.stringContaining("verify: false"),
    });
    expect(others(path)).toEqual([]);
    expect((await saver.backup(beside(path), { verify: false })).verified).toBeUndefined();
    saver.close();
    const copy = open(beside(path));
    expect((await copy.verify()).ok).toBe(false);
    copy.close();
  });

  test("S6.6 a file that was cut is not backed up", async () => {
    const path = tempFile();
    const first = await laid(path, 30);
    await vacuum(first);
    spawnSync(process.execPath, ["-e", "fs.truncateSync(process.argv[1], 8192)", path]);
    expect(await codeOf(() => first.backup(beside(path)))).toBe("STORE_UNAVAILABLE");
    expect(others(path)).toEqual([]);
    first.close();
  });

  longTest(
    "SIGKILL at any moment: no file of that name, or the complete one; the next backup succeeds",
    async () => {
      const path = tempFile();
      const saver = await laid(path, 10);
      filled(path, 6);
      const target = beside(path);
      let complete = 0;
      for (const step of [1, 2, 4, "verify 1", "end"]) {
        const child = spawn(
          process.execPath,
          [...childProgram(join(__dirname, "backup-child.ts")), "backup", path, target, String(step)],
          {
            stdio: ["pipe", "pipe", "inherit"],
            cwd: join(__dirname, "..", ".."),
            env: { ...process.env, NODE_OPTIONS: process.env["TURNS_TEST_NODE_OPTIONS"] ?? "" },
          },
        );
        await once(child, "close");
        expect(child.signalCode).toBe("SIGKILL");
        if (!existsSync(target)) continue;
        complete += 1;
        await expectHolds(target, 0, 10);
        rmSync(target);
      }
      expect(complete).toBe(1);
      await saver.backup(target);
      saver.close();
      await expectHolds(target, 0, 10);
    },
    300_000,
  );

  onDisk("a disk without room: a named error, and the file that was there is as it was", async () => {
    const path = tempFile();
    const saver = await laid(path, 10);
    filled(path, 6);
    const disk = new SmallDisk(join(dirname(path), "disk"), 2_048);
    try {
      const target = join(disk.folder, "copy.db");
      expect(await codeOf(() => saver.backup(target))).toBe("STORE_FAILED");
      expect(readdirSync(disk.folder)).toEqual([]);
      writeFileSync(target, "precious");
      expect(await codeOf(() => saver.backup(target, { overwrite: true }))).toBe("STORE_FAILED");
      expect([readdirSync(disk.folder), readFileSync(target, "utf8")]).toEqual([["copy.db"], "precious"]);
      disk.grow(32_768);
      expect((await saver.backup(target, { overwrite: true })).verified?.ok).toBe(true);
    } finally {
      disk.unmount();
      saver.close();
    }
  });
});

describe("S6.8 what cp makes of a file that is in use", () => {
  test("without its log it is an older state, and verify() finds nothing wrong with it", async () => {
    const path = tempFile();
    (await laid(path, 10)).close();
    const saver = open(path);
    await saves(saver, 10, 20);
    copyFileSync(path, beside(path));
    saver.close();
    const copy = open(beside(path));
    expect([await checkpointFault(copy, 9), await checkpointFault(copy, 10)]).toEqual([undefined, "absent"]);
    expect((await copy.verify()).ok).toBe(true);
    copy.close();
  });

  test("with the log of another moment it is damaged", async () => {
    const path = tempFile();
    (await laid(path, 10)).close();
    const saver = open(path);
    const folder = join(dirname(path), "copy");
    mkdirSync(folder);
    copyFileSync(path, join(folder, "agent.db"));
    await saves(saver, 10, 40);
    await vacuum(saver);
    await saves(saver, 40, 44);
    copyFileSync(`${path}-wal`, join(folder, "agent.db-wal"));
    saver.close();
    const found = await (async () => {
      try {
        const copy = open(join(folder, "agent.db"));
        const { ok } = await copy.verify();
        copy.close();
        return ok ? "nothing wrong" : "damaged";
      } catch (error) {
        return TurnsError.is(error, "CHECKPOINT_CORRUPTED") ? "damaged" : String(error);
      }
    })();
    expect(found).toBe("damaged");
  });
});
