import {
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { CheckpointPersister, GraphRunner, TurnSaver, TurnsError } from "langgraph-checkpoint-turns";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { salvage } from "langgraph-checkpoint-turns/maintenance";
import { meaningOf, translated } from "../../src/testing-internal";
import { filledByItself, onFullDisk, underLimit } from "../../torture/faults/full";
import { type Ground, Grounds } from "../../torture/faults/grounds";
import { checkpointFault, save, turnOf } from "../../torture/faults/histories";
import { bundled, type Fault, withFault, withoutFault } from "../../torture/faults/run-child";
import { SmallDisk, WITHOUT_MOUNT } from "../../torture/faults/small-disk";
import { type Scenario, sweep, type Tally } from "../../torture/faults/sweep";
import { whyNoStrace } from "../../torture/power-loss/record";
import { tempFile } from "../support/temp";
import { points } from "../support/lane";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const open = (path: string): TurnSaver => TurnSaver.fromPath(path, { logger: quiet });
const onDisk = WITHOUT_MOUNT ? test.skip : test;
const refused = whyNoStrace();
const goesWithout = refused !== undefined && process.env["TURNS_WITHOUT_STRACE"] === "1";
const traced = goesWithout ? describe.skip : describe;
const tracedTest = goesWithout ? test.skip : test;
if (goesWithout) console.warn(`Calls that fail are not tried here, as TURNS_WITHOUT_STRACE=1 allows: ${refused}.`);

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (error) {
    return TurnsError.is(error) ? error.code : `not one of ours: ${String(error)}`;
  }
  return "no error";
}

let child: string;
let grounds: Grounds;
let folder: string;

beforeAll(() => {
  folder = dirname(tempFile());
  child = bundled(folder);
  grounds = new Grounds(child, folder);
}, 300_000);

function expectHeld(tally: Tally): void {
  expect(tally.wrong).toEqual([]);
  expect(tally.runs).toBeGreaterThan(0);
}

traced("calls of the system that fail (strace)", () => {
  const at = (workload: string, ground: Ground, calls: Fault["calls"], error: Fault["error"], lasts: Scenario["lasts"]) =>
    ({ workload, ground, calls, error, lasts }) as const;

  test.each([
    [at("saves", "nothing", "pwrite64", "ENOSPC", "a while"), [5, 33, 90]],
    [at("saves", "nothing", "fsync,fdatasync", "EIO", "once"), [2, 9, 14]],
    [at("saves", "nothing", "ftruncate", "EIO", "once"), [1]],
    [at("turns", "nothing", "fsync,fdatasync", "EIO", "once"), [6, 11]],
    [at("graph", "nothing", "pwrite64", "EIO", "for good"), [45, 120]],
    // The input checkpoint among them.
    [at("graph", "nothing", "fsync,fdatasync", "EIO", "once"), [9, 10, 11, 12, 13]],
    [at("graph", "dead", "pwrite64", "ENOSPC", "a while"), [1, 20]],
    [at("graph", "dead later", "pread64", "EIO", "for good"), [3, 12]],
    [at("upkeep", "history", "fsync,fdatasync", "EIO", "a while"), [3, 24]],
    [at("reads", "history", "pread64", "EIO", "once"), [1]],
    // In the midst of SQLite's own check.
    [at("upkeep", "history", "pread64", "EIO", "once"), [36, 37, 38]],
  ] as const)(
    "end in a named error or in success, nothing acknowledged is lost, and the saver goes on: %j",
    async (scenario, places) => {
      for (const from of points<number>(places, 1)) {
        const tally = await sweep(child, grounds, scenario, { rounds: 3, from, stride: 1, upto: from });
        expectHeld(tally);
        expect(tally.injected).toBeGreaterThan(0);
      }
    },
    300_000,
  );
});

traced("a commit that the disk did not confirm", () => {
  const dies = (workload: string, from: number) =>
    sweep(
      child,
      grounds,
      { workload, ground: "nothing", calls: "fsync,fdatasync", error: "EIO", lasts: "to the death" },
      { rounds: 3, from, stride: 1, upto: from },
    );

  test("may turn out to be made, if the process dies of it; then it is whole, and doing it again changes nothing", async () => {
    const place = await grounds.laid("nothing");
    const order = { ...place, workload: "saves", tries: 0, rounds: 3 };
    // Once alone is not enough: what fails is tried again by itself.
    const fault: Fault = { calls: "fsync,fdatasync", error: "EIO", first: 11, last: 12 };
    const told = await withFault(child, order, fault, place.log);
    expect(told.lines.at(-1)).toMatchObject({ kind: "refused", sqlite: "SQLITE_IOERR_FSYNC" });
    const at = told.lines.filter(({ kind }) => kind === "ack").length / 2;
    const saver = open(place.file);
    const index = Math.floor(at);
    expect(await checkpointFault(saver, index)).toBeUndefined();
    await save(saver, index);
    expect(await checkpointFault(saver, index)).toBeUndefined();
    expect((await saver.verify()).problems).toEqual([]);
    saver.close();
    place.remove();
  }, 300_000);

  test.each([12, 13])(
    "of an effect's intent, or its outcome: the effect is done once, no matter what the file says (%i)",
    async (from) => {
      const tally = await dies("graph", from);
      expectHeld(tally);
      expect(tally.injected).toBe(1);
    },
    300_000,
  );
});

describe("a disk without room", () => {
  onDisk(
    "that others filled: a named error, and the same saver goes on when there is room again",
    async () => {
      const tally = await onFullDisk(child, grounds, folder, { workload: "saves", ground: "nothing", room: 120, rounds: 20 });
      expectHeld(tally);
      expect([...tally.refused.keys()]).toEqual(
        expect.arrayContaining([expect.stringMatching(/^STORE_FAILED SQLITE_(FULL|IOERR)/)]),
      );
    },
    300_000,
  );

  onDisk(
    "in the midst of a run: S1.9 no checkpoint is lost unnoticed, effects are done once",
    async () => {
      const tally = await onFullDisk(child, grounds, folder, { workload: "graph", ground: "dead", room: 0, rounds: 1 });
      expectHeld(tally);
      expect(tally.refused.size).toBeGreaterThan(0);
    },
    300_000,
  );

  onDisk(
    "that its own work filled: every acknowledged save is there",
    async () => {
      const tally = await filledByItself(child, grounds, folder, { rounds: 300, kilobytes: 1_024 });
      expectHeld(tally);
      expect(tally.acknowledged).toBeGreaterThan(10);
    },
    300_000,
  );

  onDisk("S3.1 gets a salvaged file that is whole without a log beside it, or nothing", async () => {
    const path = tempFile();
    const saver = open(path);
    for (let index = 0; index < 100; index += 1) await save(saver, index);
    saver.close();
    const disk = new SmallDisk(join(folder, "disk"), 4_096);
    try {
      const target = join(disk.folder, "rescued.db");
      for (let room = 350; ; room += 100) {
        const filler = disk.leave(room);
        const code = await codeOf(() => salvage(path, target));
        expect([code, readdirSync(disk.folder).sort()]).toEqual(
          code === "no error" ? [code, ["filler", "rescued.db"]] : ["STORE_FAILED", ["filler"]],
        );
        if (code === "no error") break;
        rmSync(filler);
      }
    } finally {
      disk.unmount();
    }
  });

  test("by a limit of the process on the size of files (ulimit -f)", async () => {
    expectHeld(await underLimit(child, grounds, { workload: "saves", ground: "nothing", kilobytes: 160, rounds: 24 }));
  }, 300_000);

  onDisk("S5.2 leaves CHECKPOINT.md as it was, whole, and nothing beside it", async () => {
    const disk = new SmallDisk(join(folder, "disk"), 256);
    try {
      const path = join(disk.folder, "CHECKPOINT.md");
      const file = new CheckpointFile(path);
      await file.write(PROGRESS);
      const before = readFileSync(path);
      const filler = disk.leave(0);
      expect(await codeOf(() => file.updatePhase("p", { notes: "n".repeat(20_000) }))).toBe("CHECKPOINT_FILE_UNAVAILABLE");
      expect(readFileSync(path)).toEqual(before);
      expect(readdirSync(disk.folder).sort()).toEqual(["CHECKPOINT.md", "filler"]);
      rmSync(filler);
      await file.updatePhase("p", { notes: "again" });
      expect((await new CheckpointFile(path).read())?.phases[0]?.notes).toBe("again");
    } finally {
      disk.unmount();
    }
  });
});

const PROGRESS = {
  threadId: "t",
  resume: { lastPhase: null, nextPhase: "p", nextStep: null, canResume: true, reason: null },
  totals: { input: 0, output: 0, cached: 0, reasoning: 0 },
  phases: [
    {
      id: "p",
      name: "p",
      status: "pending" as const,
      startedAt: null,
      endedAt: null,
      notes: "",
      tokens: { input: 0, output: 0, cached: 0, reasoning: 0 },
    },
  ],
};

tracedTest(
  "S5.2 a disk that does not confirm a new CHECKPOINT.md is told as that, not as if the old file were there",
  async () => {
    const path = tempFile("CHECKPOINT.md");
    await new CheckpointFile(path).write(PROGRESS);
    const order = { workload: "progress", file: path, deeds: "", tries: 1, rounds: 1 };
    const fault: Fault = { calls: "fsync,fdatasync", error: "EIO", first: 1, last: "+" };
    const told = await withFault(child, order, fault, join(folder, "strace.log"), [dirname(path)]);
    expect(told).toMatchObject({
      died: undefined,
      lines: [{ kind: "refused", code: "CHECKPOINT_FILE_UNAVAILABLE" }, { kind: "end" }],
    });
    expect(told.injected).toBeGreaterThan(0);
    expect((await new CheckpointFile(path).read())?.phases[0]?.tokens.input).toBe(1);
  },
);

describe("S6.6 a file that is no longer the one that was opened", () => {
  const cases: [string, (path: string) => void][] = [
    ["deleted", (path) => unlinkSync(path)],
    ["moved", (path) => renameSync(path, `${path}.moved`)],
    ["replaced", (path) => (renameSync(path, `${path}.old`), open(path).close())],
    ["gone with its folder", (path) => rmSync(dirname(path), { recursive: true })],
  ];
  test.each(cases)("%s: nothing is acknowledged that would be lost with the process", async (_, happens) => {
    const path = join(dirname(tempFile()), "inside", "agent.db");
    mkdirSync(dirname(path));
    const saver = open(path);
    await save(saver, 0);
    happens(path);
    expect(await codeOf(() => save(saver, 1))).toBe("STORE_UNAVAILABLE");
    expect(await codeOf(() => saver.deleteThread("t0"))).toBe("STORE_UNAVAILABLE");
    saver.close();
  });

  test("and is again when it is put back", async () => {
    const path = tempFile();
    const saver = open(path);
    await save(saver, 0);
    renameSync(path, `${path}.moved`);
    expect(await codeOf(() => save(saver, 1))).toBe("STORE_UNAVAILABLE");
    renameSync(`${path}.moved`, path);
    await save(saver, 1);
    saver.close();
    const again = open(path);
    expect([await checkpointFault(again, 0), await checkpointFault(again, 1)]).toEqual([undefined, undefined]);
    again.close();
  });

  test("a log that was deleted under it: named, and closing the saver brings what was in it into the file", async () => {
    const path = tempFile();
    const saver = open(path);
    await save(saver, 0);
    unlinkSync(`${path}-wal`);
    expect(await codeOf(() => save(saver, 1))).toBe("STORE_UNAVAILABLE");
    saver.close();
    const again = open(path);
    expect(await checkpointFault(again, 0)).toBeUndefined();
    expect((await again.verify()).ok).toBe(true);
    again.close();
  });

  test("a file with a second name (hard link) is refused under either, says so, and a saver that has it open continues", async () => {
    const path = tempFile();
    const other = `${path}-other`;
    const saver = open(path);
    await save(saver, 0);
    linkSync(path, other);
    const db = new Database(other);
    for (const attempt of [() => open(other), () => open(path), () => new CheckpointPersister(db), () => new TurnSaver(db)]) {
      try {
        (attempt() as { close?(): void }).close?.();
        throw new Error("it was opened");
      } catch (error) {
        expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", data: { links: 2 } });
        expect((error as Error).message).toMatch(/^The database file .* has 2 names \(hard links\)\. .*find .* -samefile/);
        expect((error as Error).message).not.toMatch(/disk/);
      }
    }
    db.close();
    expect(existsSync(`${other}-wal`)).toBe(false);
    await save(saver, 1);
    expect((await saver.verify()).ok).toBe(true);
    unlinkSync(other);
    const beside = open(path);
    await save(beside, 2);
    beside.close();
    saver.close();
    const again = open(path);
    for (const index of [0, 1, 2]) expect(await checkpointFault(again, index)).toBeUndefined();
    again.close();
  });

  test("S1.1 the turn log by itself notices it too, and a handle that leaves WAL mode is no such case", async () => {
    const path = tempFile();
    const db = new Database(path);
    db.pragma("journal_mode = WAL");
    const persister = new CheckpointPersister(db);
    persister.save(turnOf(0));
    db.pragma("journal_mode = DELETE");
    persister.save(turnOf(1));
    unlinkSync(path);
    expect(await codeOf(() => persister.save(turnOf(2)))).toBe("STORE_UNAVAILABLE");
    db.close();
  });

  test("a database in memory, and one that is opened by a relative path, are what they are", async () => {
    const memory = open(":memory:");
    await save(memory, 0);
    memory.close();
    const path = tempFile();
    const before = process.cwd();
    process.chdir(dirname(path));
    const saver = open("agent.db");
    process.chdir(before);
    await save(saver, 0);
    expect(await checkpointFault(saver, 0)).toBeUndefined();
    saver.close();
  });
});

onDisk(
  "no right to write: named, nothing is changed, and it goes on when there is one",
  async () => {
    const place = await grounds.laid("history");
    const told = await withoutFault(child, { ...place, workload: "forbidden", tries: 1, rounds: 1 });
    expect(told).toMatchObject({
      died: undefined,
      lines: [...Array(3).fill({ code: "STORE_UNAVAILABLE" }), { kind: "ack" }, { kind: "end" }],
    });
    place.remove();
  },
  300_000,
);

test("too many open files: a saver cannot be opened, one that is open continues", async () => {
  const saver = open(tempFile());
  const files: number[] = [];
  try {
    // Node raises the soft limit to the hard one, which may be a million.
    for (let count = 0; count < 70_000; count += 1) files.push(openSync("/dev/null", "r"));
  } catch (error) {
    expect(error).toMatchObject({ code: "EMFILE" });
    expect(await codeOf(() => open(tempFile()))).toMatch(/^STORE_/);
  } finally {
    for (const file of files) closeSync(file);
  }
  await save(saver, 0);
  expect(await checkpointFault(saver, 0)).toBeUndefined();
  saver.close();
});

describe("what rests on a checkpoint that could not be saved", () => {
  test("is refused with the same error, until that one is saved after all", async () => {
    const path = tempFile();
    const saver = open(path);
    const db = new Database(path);
    await save(saver, 0);
    db.exec("CREATE TRIGGER no BEFORE INSERT ON langgraph_snapshots BEGIN SELECT RAISE(ABORT, 'no'); END");
    expect(await codeOf(() => save(saver, 2))).toBe("STORE_FAILED");
    db.exec("DROP TRIGGER no");
    expect(await codeOf(() => save(saver, 4))).toBe("STORE_FAILED");
    await save(saver, 2);
    await save(saver, 4);
    expect((await saver.verify()).problems).toEqual([]);
    db.close();
    saver.close();
  });

  test("isn't refused where that one is there: it was saved before, and saving it again failed", async () => {
    const path = tempFile();
    const saver = open(path);
    const db = new Database(path);
    await save(saver, 0);
    await save(saver, 2);
    db.exec("CREATE TRIGGER no BEFORE UPDATE ON langgraph_threads BEGIN SELECT RAISE(ABORT, 'no'); END");
    expect(await codeOf(() => save(saver, 2))).toBe("STORE_FAILED");
    db.exec("DROP TRIGGER no");
    await save(saver, 4);
    expect((await saver.verify()).problems).toEqual([]);
    db.close();
    saver.close();
  });

  test("so that a run whose input is lost leaves no history with a hole in it", async () => {
    const path = tempFile();
    const saver = open(path);
    const db = new Database(path);
    const State = Annotation.Root({ x: Annotation<number>() });
    const graph = new StateGraph(State)
      .addNode("a", () => ({ x: 2 }))
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    const runner = new GraphRunner(graph);
    saver.events.once("checkpoint_failed", () => db.exec("DROP TRIGGER no"));
    db.exec("CREATE TRIGGER no BEFORE INSERT ON langgraph_snapshots BEGIN SELECT RAISE(ABORT, 'no'); END");
    expect(await codeOf(() => runner.invoke({ x: 1 }, { threadId: "t" }))).toBe("STORE_FAILED");
    expect(await runner.resume({ threadId: "t", input: { x: 1 } })).toEqual({ x: 2 });
    expect((await saver.verify()).problems).toEqual([]);
    db.close();
    saver.close();
  });
});

describe("what SQLite says", () => {
  const file = "agent.db";
  const said = (code: string): TurnsError =>
    translated(Object.assign(new Error("what SQLite says"), { code }), file) as TurnsError;

  test.each([
    ["SQLITE_FULL", "STORE_FAILED", /Free space/],
    ["SQLITE_IOERR", "STORE_FAILED", /disk/],
    ["SQLITE_IOERR_WRITE", "STORE_FAILED", /ulimit/],
    ["SQLITE_IOERR_FSYNC", "STORE_FAILED", /do it again/],
    ["SQLITE_IOERR_DIR_FSYNC", "STORE_FAILED", /do it again/],
    ["SQLITE_IOERR_READ", "STORE_FAILED", /copy the file/],
    ["SQLITE_IOERR_CORRUPTFS", "STORE_FAILED", /copy the file/],
    ["SQLITE_IOERR_SHMSIZE", "STORE_FAILED", /Free space/],
    ["SQLITE_IOERR_SHMMAP", "STORE_FAILED", /local file system/],
    ["SQLITE_IOERR_LOCK", "STORE_FAILED", /local file system/],
    ["SQLITE_IOERR_NOMEM", "STORE_FAILED", /memory/],
    ["SQLITE_IOERR_GETTEMPPATH", "STORE_FAILED", /temporary/],
    ["SQLITE_NOMEM", "STORE_FAILED", /memory/],
    ["SQLITE_PROTOCOL", "STORE_FAILED", /again/],
    ["SQLITE_TOOBIG", "STORE_FAILED", /elsewhere/],
    ["SQLITE_NOLFS", "STORE_FAILED", /large files/],
    ["SQLITE_INTERRUPT", "STORE_FAILED", /again/],
    ["SQLITE_CONSTRAINT_UNIQUE", "STORE_FAILED", /this id/],
    ["SQLITE_ERROR", "STORE_FAILED", /Nothing of it was saved/],
    ["SQLITE_READONLY", "STORE_UNAVAILABLE", /permissions/],
    ["SQLITE_READONLY_DIRECTORY", "STORE_UNAVAILABLE", /permissions/],
    ["SQLITE_READONLY_DBMOVED", "STORE_UNAVAILABLE", /Put it back/],
    ["SQLITE_CANTOPEN", "STORE_UNAVAILABLE", /how many files/],
    ["SQLITE_CANTOPEN_ISDIR", "STORE_UNAVAILABLE", /path/],
    ["SQLITE_PERM", "STORE_UNAVAILABLE", /permissions/],
    ["SQLITE_AUTH", "STORE_UNAVAILABLE", /permissions/],
    ["SQLITE_NOTADB", "NOT_A_DATABASE", /not changed/],
    ["SQLITE_CORRUPT", "CHECKPOINT_CORRUPTED", /copy/],
    ["SQLITE_CORRUPT_INDEX", "CHECKPOINT_CORRUPTED", /copy/],
    ["SQLITE_BUSY", "STORE_BUSY", /busyTimeoutMs/],
    ["SQLITE_BUSY_SNAPSHOT", "STORE_BUSY", /busyTimeoutMs/],
    ["SQLITE_LOCKED_SHAREDCACHE", "STORE_BUSY", /busyTimeoutMs/],
    // SQLITE_BUSY_TIMEOUT and SQLITE_ERROR_RESERVESIZE, which the driver does not know.
    ["UNKNOWN_SQLITE_ERROR_773", "STORE_BUSY", /busyTimeoutMs/],
    ["UNKNOWN_SQLITE_ERROR_769", "STORE_FAILED", /saved/],
  ])("%s is %s, with a remedy that helps", (sqlite, code, remedy) => {
    const error = said(sqlite);
    expect(error).toMatchObject({ code, message: expect.stringMatching(remedy) as string });
    expect(error.message).toMatch(/^Database agent\.db .+ \(SQLITE_.+\)\. .+\.$/);
  });

  test("a value that the driver refuses because SQLite can't take it is told like any other", () => {
    const db = new Database(":memory:");
    const tooMuch = Buffer.alloc(1_000_000_001);
    expect(() => {
      try {
        db.prepare("SELECT ?").get(tooMuch);
      } catch (error) {
        throw translated(error, file);
      }
    }).toThrow(expect.objectContaining({ code: "STORE_FAILED", message: expect.stringMatching(/elsewhere/) }));
    db.close();
  });

  test("a failure to sync is not told as if nothing had been saved", () => {
    for (const code of ["SQLITE_IOERR_FSYNC", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_DIR_FSYNC"]) {
      expect(meaningOf(code).remedy).not.toMatch(/Nothing of it was saved/);
    }
  });
});

tracedTest(
  "a page that the disk once did not give is asked for again: a transient error is no damage, and begins no run anew",
  async () => {
    // SQLite itself makes SQLITE_CORRUPT of an EIO within a statement.
    const tally = await sweep(
      child,
      grounds,
      { workload: "reads", ground: "history", calls: "pread64", error: "EIO", lasts: "once" },
      { rounds: 1, from: 20, stride: 1, upto: 21 },
    );
    expectHeld(tally);
    expect([...tally.refused.keys()].filter((key) => key.startsWith("CHECKPOINT_CORRUPTED"))).toEqual([]);
  },
  300_000,
);

onDisk("an empty folder without room for the write-ahead index refuses to open by name, and opens when there is", async () => {
  const disk = new SmallDisk(join(folder, "disk"), 64);
  try {
    const path = join(disk.folder, "agent.db");
    const filler = disk.leave(0);
    expect(await codeOf(() => open(path))).toMatch(/^STORE_(FAILED|UNAVAILABLE)$/);
    rmSync(filler);
    disk.grow(1_024);
    writeFileSync(filler, "");
    const saver = open(path);
    await save(saver, 0);
    expect(await checkpointFault(saver, 0)).toBeUndefined();
    saver.close();
  } finally {
    disk.unmount();
  }
});
