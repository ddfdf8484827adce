import { rotateKeys } from "langgraph-checkpoint-turns/maintenance";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { MemorySaver } from "@langchain/langgraph";
import fc from "fast-check";
import type { TurnSaver, TurnSaverOptions } from "../../src/index";
import { Lab } from "../support/diff-harness";
import { graphs, runRandom } from "../support/diff-random";
import { KEY, SECRET } from "../support/enc-graph";
import { configOf, idOf, openOn, put } from "../support/model-calls";
import { ModelWorld, step } from "../support/model-world";
import { at, input, Shop, THREAD } from "../support/ret-world";
import { tempFile } from "../support/temp";
import { flipsOf } from "../../torture/corruption/damage";
import { changeIndex, copyOf, forget, fullFile, indexesOf, tamper, type TableIndexName, verified, withFlip } from "./ver-world";
import { childProgram } from "../support/child-program";
import { LONG, points, runs } from "../support/lane";
import { laneTest, longTest, longTestOfFiles } from "../support/lane-test";
import { ON_POSTGRES } from "../support/open-saver";
import { testOfFiles } from "../support/test-of-files";

const ENCRYPTED: TurnSaverOptions = { encryption: { key: KEY } };
const FILES: [string, TurnSaverOptions][] = [
  ["plain", {}],
  ["encrypted", ENCRYPTED],
];
const paths = new Map<string, string>();

beforeAll(async () => {
  for (const [name, options] of FILES) paths.set(name, await fullFile(options));
}, 300_000);

/** What is found, by opening the file or by looking through it. */
async function found(path: string, options: TurnSaverOptions, told: string[] = []): Promise<boolean> {
  try {
    const report = await verified(path, options);
    told.push(JSON.stringify(report));
    expect(report.ok).toBe(report.problemCount === 0);
    return !report.ok;
  } catch (error) {
    // A file that does not open says why; verify itself never throws for what it finds.
    expect(error).toMatchObject({ code: expect.stringMatching(/SCHEMA_TOO_NEW|WRONG_KEY|UNKNOWN_KEY|CHECKPOINT_CORRUPTED/) });
    return true;
  }
}

/**
 * The tables without checksums. Marks of runs are no data: they are held against the processes they name, go with them, and a run
 * whose mark isn't what it wrote has lost its lease. Leftovers are numbers of threads that aren't there: nothing is removed of one that is.
 * A server's marks of commits are for the moment after a lost connection.
 */
const UNCHECKED = ["langgraph_runs", "langgraph_leftovers", "langgraph_commits"];
/** A server numbers threads by a sequence, so settings are for keys alone. */
const hasNoRows = (table: string): boolean => ON_POSTGRES && table === "langgraph_settings";
/** A file may have had more threads than it has; a count below that of its threads is found, see below. */
const UNFOUND = ON_POSTGRES ? [] : ["langgraph_settings.value"];

describe.each(FILES)("S3.1 of an intact %s file", (name, options) => {
  const path = (): string => paths.get(name)!;

  it("everything is looked at and found well", async () => {
    const report = await verified(path(), options);
    expect(report).toMatchObject({
      ok: true,
      done: true,
      databaseOk: true,
      threads: 3,
      problems: [],
      remarks: [],
      problemCount: 0,
    });
    expect(Object.entries(report.checked).filter(([, count]) => count === 0)).toEqual([]);
    const db = new (await import("better-sqlite3")).default(path(), { readonly: true });
    const rows = (table: string): unknown => db.prepare(`SELECT count(*) FROM langgraph_${table}`).pluck().get();
    const { checkpoints, values, lists, items, writes, turns, tasks, archived } = report.checked;
    expect([checkpoints, values, lists, items]).toEqual([rows("snapshots"), rows("chunks"), rows("lists"), rows("items")]);
    expect([writes, turns, tasks, archived]).toEqual([rows("writes"), rows("checkpoints"), rows("tasks"), rows("archive")]);
    db.close();
  });

  laneTest(
    "S3.1 no column of any table changes without being found, no matter when it was written",
    async () => {
      const [unfound, flipped, told] = [new Set<string>(), new Set<string>(), [] as string[]];
      const all = flipsOf(path()).filter(({ table }) => !UNCHECKED.includes(table) && !(name === "plain" && hasNoRows(table)));
      const places = [...new Set(all.map(({ table, column }) => `${table}.${column}`))];
      // There each look at the whole database takes many round trips.
      const chosen = points(places, ON_POSTGRES ? 12 : 40);
      const flips = all.filter(({ table, column }) => chosen.includes(`${table}.${column}`));
      for (const one of flips) {
        const column = `${one.table}.${one.column}`;
        // In the short lane each column is changed in one way.
        if (!LONG && flipped.has(column)) continue;
        const isFlipped = await withFlip(path(), one, async (changed) => {
          if (!(await found(changed, options, told))) unfound.add(column);
        });
        if (isFlipped) flipped.add(column);
      }
      expect([...unfound]).toEqual(UNFOUND.filter((column) => chosen.includes(column)));
      const columns = new Set(flips.map(({ table, column }) => `${table}.${column}`));
      expect([...columns].filter((column) => !flipped.has(column)).sort()).toEqual([]);
      // Reports name rows, and never what is in them.
      expect(told.filter((report) => report.includes(SECRET))).toEqual([]);
    },
    300_000,
  );

  it.each<[string, string]>([
    ["langgraph_snapshots", "seq = (SELECT min(seq) FROM langgraph_snapshots)"],
    ["langgraph_chunks", "seq = (SELECT min(chunk) FROM langgraph_items)"],
    ["langgraph_lists", "seq = (SELECT min(seq) FROM langgraph_lists)"],
    ["langgraph_items", "(list, pos) IN (SELECT list, pos FROM langgraph_items ORDER BY pos, list LIMIT 1)"],
    ["langgraph_graphs", "TRUE"],
    ["langgraph_tasks", "seq = (SELECT min(seq) FROM langgraph_tasks)"],
    ["langgraph_threads", "thread = (SELECT min(thread) FROM langgraph_threads)"],
    [
      "langgraph_checkpoints",
      "seq = (SELECT min(seq) FROM langgraph_checkpoints WHERE turn_type = 'Thought' AND checkpoint_id IS NOT NULL)",
    ],
    ["langgraph_archive", "ordinal = 2"],
    ["langgraph_archive", "TRUE"],
    ["langgraph_rewinds", "archived = 1 AND taken_back_at IS NULL"],
    // A server numbers threads by a sequence.
    ...(ON_POSTGRES ? [] : [["langgraph_settings", "name = 'threads'"] as [string, string]]),
  ])("S3.1 rows that are missing are found: %s", async (table, which) => {
    const copy = copyOf(path());
    tamper(copy, (db) => expect(db.prepare(`DELETE FROM ${table} WHERE ${which}`).run().changes).toBeGreaterThan(0));
    expect((await verified(copy, options)).ok).toBe(false);
  });

  it.each([
    "langgraph_snapshots",
    "langgraph_chunks",
    "langgraph_lists",
    "langgraph_items",
    "langgraph_writes",
    "langgraph_checkpoints",
    "langgraph_effects",
    "langgraph_graphs",
  ])("S3.2 S3.7 a row of one thread moved into another is found: %s", async (table) => {
    const copy = copyOf(path());
    tamper(copy, (db) => {
      const number = (id: string): unknown =>
        db.prepare("SELECT thread FROM langgraph_threads WHERE thread_id = ?").pluck().get(id);
      const [from, to] = table === "langgraph_graphs" ? [number("other"), number("copy")] : [number(THREAD), number("other")];
      if (table === "langgraph_graphs") db.prepare("DELETE FROM langgraph_graphs WHERE thread = ?").run(to);
      if (table === "langgraph_items") {
        // An element has no thread but its list's.
        const list = (thread: unknown): unknown =>
          db.prepare("SELECT min(seq) FROM langgraph_lists WHERE thread = ?").pluck().get(thread);
        const moved = "UPDATE langgraph_items SET list = ?, pos = 1000 WHERE list = ? AND pos = 0";
        expect(db.prepare(moved).run(list(to), list(from)).changes).toBe(1);
        return;
      }
      const key = table === "langgraph_checkpoints" ? "id" : "seq";
      const addresses =
        table === "langgraph_chunks"
          ? "AND address NOT IN (SELECT address FROM langgraph_chunks WHERE thread <> ?1)"
          : "AND ?1 IS NOT NULL";
      const one = `${key} IN (SELECT ${key} FROM ${table} WHERE thread = ?1 ${addresses} LIMIT 1)`;
      expect(db.prepare(`UPDATE ${table} SET thread = ?2 WHERE ${one}`).run({ 1: from, 2: to }).changes).toBe(1);
    });
    const { problems } = await verified(copy, options);
    expect(problems.map((problem) => problem.table)).toContain(table === "langgraph_chunks" ? problems[0]!.table : table);
  });

  it("S3.7 a checkpoint moved into another thread is not read there either", async () => {
    const copy = copyOf(path());
    let checkpointId = "";
    tamper(copy, (db) => {
      const row = db
        .prepare(
          `SELECT s.seq, checkpoint_id FROM langgraph_snapshots AS s JOIN langgraph_threads USING (thread) WHERE thread_id = ?
            ORDER BY s.seq DESC LIMIT 1`,
        )
        .get(THREAD) as { seq: number; checkpoint_id: string };
      checkpointId = row.checkpoint_id;
      db.prepare(
        "UPDATE langgraph_snapshots SET thread = (SELECT thread FROM langgraph_threads WHERE thread_id = 'other') WHERE seq = ?",
      ).run(row.seq);
    });
    const saver = openOn(copy, options);
    await expect(saver.getTuple(at("other", { checkpoint_ns: "", checkpoint_id: checkpointId }))).rejects.toMatchObject({
      code: "CHECKPOINT_CORRUPTED",
    });
    const report = await saver.verify({ threadId: "other" });
    expect(report.problems).toContainEqual(
      expect.objectContaining({
        kind: expect.stringMatching(/checksum|sealing/),
        threadId: "other",
        table: "langgraph_snapshots",
      }),
    );
    saver.close();
  });

  it("looks at one thread alone, if asked to", async () => {
    const copy = copyOf(path());
    tamper(copy, (db) => {
      db.exec(
        "UPDATE langgraph_snapshots SET step = step + 1 WHERE thread = (SELECT thread FROM langgraph_threads WHERE thread_id = 'copy')",
      );
    });
    expect(await verified(copy, options, { threadId: THREAD })).toMatchObject({ ok: true, threads: 1, databaseOk: undefined });
    const report = await verified(copy, options, { threadId: "copy" });
    expect(report).toMatchObject({ ok: false, threads: 1, problemCount: report.checked.checkpoints });
    const parts = await Promise.all([THREAD, "other", "copy"].map((threadId) => verified(path(), options, { threadId })));
    const whole = await verified(path(), options);
    for (const kind of ["checkpoints", "values", "lists", "items", "writes", "tasks", "effects", "archived"] as const) {
      expect([kind, parts.reduce((sum, { checked }) => sum + checked[kind], 0)]).toEqual([kind, whole.checked[kind]]);
    }
  });
});

describe("S2.6 what the report says", () => {
  it("names the row by its ids, what was expected and what is there", async () => {
    const copy = copyOf(paths.get("plain")!);
    let row: Record<string, any> = {};
    tamper(copy, (db) => {
      row = db.prepare("SELECT * FROM langgraph_snapshots ORDER BY seq LIMIT 1").get() as Record<string, any>;
      db.prepare("UPDATE langgraph_snapshots SET metadata = replace(metadata, 'input', 'loop') WHERE seq = ?").run(row["seq"]);
    });
    const { problems } = await verified(copy);
    expect(problems).toEqual([
      {
        kind: "checksum",
        table: "langgraph_snapshots",
        threadId: THREAD,
        where: { seq: row["seq"], checkpointNs: row["checkpoint_ns"], checkpointId: row["checkpoint_id"] },
        expected: "the row as it was saved",
        found: expect.stringContaining(`Checkpoint ${row["checkpoint_id"]}`),
      },
    ]);
  });

  it("S3.1 a seq beyond the thread's last, outside of its range, or used twice, is told", async () => {
    const copy = copyOf(paths.get("plain")!);
    tamper(copy, (db) => db.exec("UPDATE langgraph_threads SET seq = 5"));
    const { problems } = await verified(copy);
    expect(problems.filter(({ expected }) => expected.startsWith("a seq up to the thread's last"))).not.toEqual([]);
    const outside = copyOf(paths.get("plain")!);
    tamper(outside, (db) =>
      db.exec(`UPDATE langgraph_chunks SET seq = seq + 67108864 WHERE seq = (SELECT max(seq) FROM langgraph_chunks)`),
    );
    expect(
      (await verified(outside)).problems.filter(({ expected }) => /^a seq of thread number \d+$/.test(expected)),
    ).toHaveLength(1);
    const twice = copyOf(paths.get("plain")!);
    tamper(twice, (db) =>
      db.exec(
        "UPDATE langgraph_lists SET seq = (SELECT max(seq) FROM langgraph_writes) WHERE seq = (SELECT max(seq) FROM langgraph_lists)",
      ),
    );
    expect((await verified(twice)).problems.filter(({ found }) => found.includes("has too"))).not.toEqual([]);
  });

  testOfFiles.each([
    [
      "a count of threads below the greatest number of one",
      "UPDATE langgraph_settings SET value = value - 1 WHERE name = 'threads'",
    ],
    ["one that is no number", "UPDATE langgraph_settings SET value = 'many' WHERE name = 'threads'"],
    ["one that is no integer", "UPDATE langgraph_settings SET value = 1.0 + value WHERE name = 'threads'"],
    ["one that no thread could have a number of", "UPDATE langgraph_settings SET value = 1 << 40 WHERE name = 'threads'"],
  ])("S3.1 %s is told", async (_, change) => {
    const copy = copyOf(paths.get("plain")!);
    tamper(copy, (db) => db.exec(change));
    expect((await verified(copy)).problems).toEqual([expect.objectContaining({ kind: "sequence", table: "langgraph_settings" })]);
  });

  it("a wrapped key under another name, or changed, is told", async () => {
    const [name, value] = ["key:other", ON_POSTGRES ? "" : Buffer.alloc(100)];
    for (const [column, changed] of Object.entries({ name, value })) {
      const copy = copyOf(paths.get("encrypted")!);
      tamper(copy, (db) => db.prepare(`UPDATE langgraph_settings SET ${column} = ? WHERE name <> 'threads'`).run(changed));
      expect([column, await found(copy, ENCRYPTED)]).toEqual([column, true]);
    }
  });

  testOfFiles(
    "S3.1 an index that lacks a row, or has one too many, is told: of the whole file, and of the thread alone",
    async () => {
      const path = paths.get("plain")!;
      const reference = copyOf(path);
      let indexes: TableIndexName[] = [];
      tamper(reference, (db) => {
        indexes = indexesOf(db).filter(({ table }) => !/_(runs|tombstones|settings|migrations)$/.test(table));
      });
      const untold: string[] = [];
      let count = 0;
      for (const index of indexes) {
        for (const change of ["lacks", "has one more"] as const) {
          const copy = copyOf(path);
          let threadId: string | undefined;
          tamper(copy, (db) => {
            threadId = changeIndex(db, index, change);
          });
          if (threadId !== undefined) {
            count += 1;
            if ((await verified(copy)).ok) untold.push(`${index.name} ${change}`);
            // An entry too many in an index across threads is of no thread.
            const isOfThread = change === "lacks" || index.byThread;
            if (isOfThread && (await verified(copy, {}, { threadId })).ok) untold.push(`${index.name} ${change}: ${threadId}`);
          }
          forget(copy);
        }
      }
      expect(untold).toEqual([]);
      expect(count).toBeGreaterThan(25);
    },
    300_000,
  );

  it("a plain text in an encrypted database is told", async () => {
    const copy = copyOf(paths.get("encrypted")!);
    tamper(copy, (db) =>
      db.exec("UPDATE langgraph_writes SET entries = '[]' WHERE seq = (SELECT min(seq) FROM langgraph_writes)"),
    );
    expect((await verified(copy, ENCRYPTED)).problems).toEqual([
      expect.objectContaining({ kind: "sealing", table: "langgraph_writes" }),
    ]);
  });

  it("what refers to checkpoints that were pruned, or never in the file, is a remark, and what refers to one that was lost a problem", async () => {
    const path = tempFile();
    const saver = openOn(path);
    for (const id of [1, 2, 3]) {
      await put(saver, { id, parent: id === 1 ? undefined : id - 1, values: { x: id }, versions: { x: id } });
    }
    await saver.prune({ threadId: "thread", keepLast: 1 });
    expect(await saver.verify()).toMatchObject({ ok: true, remarks: [{ kind: "reference", where: { checkpointId: idOf(3) } }] });
    // As on MemorySaver, a config may name any checkpoint.
    await put(saver, { thread: "unpruned", id: 8, parent: 7, values: { x: 1 }, versions: { x: 1 } });
    await put(saver, { thread: "unpruned", id: 9, parent: 8, values: { x: 2 }, versions: { x: 2 } });
    const remark = { kind: "reference", threadId: "unpruned", expected: `checkpoint ${idOf(7)}, its parent` };
    expect(await saver.verify({ threadId: "unpruned" })).toMatchObject({ ok: true, remarks: [remark] });
    saver.close();

    tamper(path, (db) => db.exec(`DELETE FROM langgraph_snapshots WHERE checkpoint_id = '${idOf(8)}'`));
    const { ok, problems } = await verified(path, {}, { threadId: "unpruned" });
    expect(ok).toBe(false);
    expect(problems).toContainEqual(
      expect.objectContaining({ kind: "reference", expected: `checkpoint ${idOf(8)}, its parent` }),
    );
    expect(problems).toContainEqual(expect.objectContaining({ kind: "thread", expected: "2 rows of snapshots, as on record" }));
  });

  longTestOfFiles("a file damaged in its pages is reported and not thrown", async () => {
    const path = paths.get("plain")!;
    const roots = new Map<string, number>();
    tamper(path, (db) => {
      const rows = db
        .prepare("SELECT tbl_name, name, rootpage FROM sqlite_schema WHERE name LIKE 'langgraph%' AND rootpage > 0")
        .all();
      for (const row of rows as { name: string; rootpage: number }[]) roots.set(row.name, row.rootpage);
      expect(db.pragma("page_size", { simple: true })).toBe(4096);
    });
    const unopened: string[] = [];
    for (const [name, page] of roots) {
      const copy = copyOf(path);
      const file = openSync(copy, "r+");
      writeSync(file, Buffer.alloc(512, 0xa5), 0, 512, (page - 1) * 4096);
      closeSync(file);
      const report = await verified(copy).catch((error: unknown) => error as { code: string });
      if ("code" in report) unopened.push(`${name} ${report.code}`);
      else expect([name, report]).toEqual([name, expect.objectContaining({ ok: false, done: true, databaseOk: false })]);
      forget(copy);
    }
    // What is read when a file is opened stops the opening.
    expect(unopened.map((one) => one.split(" ")).sort()).toEqual(
      ["migrations", "settings"].map((table) => [`langgraph_${table}`, "CHECKPOINT_CORRUPTED"]),
    );
  });

  testOfFiles("a thousand problems are told and all are counted", async () => {
    const path = tempFile();
    const saver = openOn(path);
    for (let id = 1; id <= 1_100; id += 1) {
      await put(saver, { id, parent: id === 1 ? undefined : id - 1, values: {}, versions: {} });
    }
    tamper(path, (db) => db.exec("UPDATE langgraph_snapshots SET step = step + 1"));
    const report = await saver.verify();
    expect([report.problems.length, report.problemCount]).toEqual([1_000, 1_100]);
    saver.close();
  });
});

describe("S3.1 nothing is found where nothing is wrong", () => {
  it("where one rewind revived a row and a later one deleted it", async () => {
    const world = new ModelWorld({ cacheSize: 0 });
    const edit = { channel: 0, how: 0, at: 0, kind: 0, n: 0, inPlace: false } as const;
    const place = { saver: 0, thread: 0, ns: 0, reads: false, edits: [edit] } as const;
    const steps = [
      { do: "put", back: 0, task: 1 },
      { do: "copy", back: 0, task: 0 },
      { do: "again", back: 0, task: 1 },
      { do: "rewind", back: 5, task: 0 },
      { do: "rewind", back: 2, task: 0 },
    ] as const;
    try {
      for (const one of steps) await world.step({ ...place, ...one });
      expect(await world.problems()).toEqual([]);
    } finally {
      world.close();
    }
  });

  laneTest.each([
    ["compares", {}],
    ["remembers no more than it must", { cacheSize: 0 }],
  ])("whatever happens to a file on which a saver %s", async (_, options) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 24, size: "max" }), async (steps) => {
        const world = new ModelWorld(options);
        try {
          for (const one of steps) await world.step(one);
          expect(await world.problems()).toEqual([]);
        } finally {
          world.close();
        }
      }),
      { numRuns: runs(6, 40) },
    );
  });

  it("where an earlier rewind was taken back, and a later one was not", async () => {
    const step = (what: object): never =>
      ({ saver: 0, thread: 0, ns: 0, back: 0, task: 0, reads: false, edits: [], ...what }) as never;
    const world = new ModelWorld({});
    try {
      const steps = [
        { do: "put" },
        { do: "again", task: 1 },
        { do: "rewind", back: 1 },
        { do: "put", task: 1 },
        { do: "rewind", back: 2 },
        { do: "take back", back: 1 },
      ];
      for (const one of steps) await world.step(step(one));
      expect(await world.problems()).toEqual([]);
    } finally {
      world.close();
    }
  });

  laneTest.each(["attached", "turns"] as const)("in what random graphs leave behind (%s)", async (variant) => {
    await fc.assert(
      fc.asyncProperty(graphs, async (plan) => {
        const lab = new Lab(variant, "invoke");
        const saver = lab.saver as TurnSaver;
        try {
          await runRandom(lab, plan);
          expect((await saver.verify()).problems).toEqual([]);
        } finally {
          saver.close();
        }
      }),
      { numRuns: runs(4, 12) },
    );
  });

  const kinds: [string, TurnSaverOptions][] = [
    ["plain", {}],
    ["encrypted", ENCRYPTED],
    ["with a serde of the user's", { serde: new MemorySaver().serde }],
    ["pruned as it goes", { retention: { keepLast: 2 } }],
  ];
  laneTest.each(points(kinds, 2))("no matter what was done to the thread: %s", async (_, options) => {
    const shop = new Shop(options);
    const { saver } = shop;
    const well = async (what: string): Promise<void> => expect([what, (await saver.verify()).problems]).toEqual([what, []]);
    for (const task of ["a", "b", "c"]) await shop.graph.invoke(input(task), at(THREAD, { task_id: task }));
    await shop.graph.invoke(input("asks", true), at(THREAD, { task_id: "d" }));
    await well("asking");
    await shop.resume("yes");
    await well("answered");
    if (options.retention === undefined) {
      const { rewindId } = await saver.rewind({ threadId: THREAD, toTask: "b" });
      await well("rewound");
      await saver.rewinds.takeBack(rewindId!);
      await well("taken back");
      await saver.rewind({ threadId: THREAD, toTask: "c", archive: false });
      await saver.rewind({ threadId: THREAD, toTask: "b" });
      await shop.graph.invoke(input("again"), at(THREAD, { task_id: "e" }));
      await well("gone on after a rewind");
    }
    await saver.copyThread(THREAD, "copy");
    await well("copied");
    await saver.names.set({ threadId: THREAD }, "here");
    await saver.prune({ keepLast: 1 });
    await well("pruned");
    await shop.run(1);
    await saver.deleteThread("copy");
    await well("deleted");
    shop.reopen();
    await shop.run(1);
    expect((await shop.saver.verify()).problems).toEqual([]);
    shop.close();
  });

  longTest("after a change of keys, and with what rewinds keep under them", async () => {
    const path = await fullFile(ENCRYPTED);
    const other = Buffer.from(KEY, "base64").reverse().toString("base64");
    const keys = { encryption: { keys: { default: KEY, second: other }, current: "second" } };
    const saver = openOn(path, keys);
    expect((await saver.verify()).problems).toEqual([]);
    await rotateKeys(saver);
    expect((await saver.verify()).problems).toEqual([]);
    saver.close();
    expect(await verified(path, { encryption: { key: other, keyId: "second" } })).toMatchObject({ ok: true });
  });
});

describe("S3.1 beside any other work", () => {
  longTest(
    "another process saves, rewinds and prunes meanwhile, and nothing is found",
    async () => {
      const path = tempFile();
      const child = spawn(process.execPath, [...childProgram(join(__dirname, "ver-child.ts")), path], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      await begun(child);
      const saver = openOn(path);
      let checkpoints = 0;
      for (let round = 0; round < (ON_POSTGRES ? 5 : 25); round += 1) {
        const report = await saver.verify();
        expect(report.problems).toEqual([]);
        checkpoints = Math.max(checkpoints, report.checked.checkpoints);
      }
      child.stdin.write("stop\n");
      const [code] = (await once(child, "exit")) as [number];
      expect(code).toBe(0);
      expect(checkpoints).toBeGreaterThan(ON_POSTGRES ? 0 : 10);
      expect((await saver.verify()).ok).toBe(true);
      saver.close();
    },
    300_000,
  );

  longTest("a save is never kept waiting, and what is saved between two steps is no problem", async () => {
    const path = tempFile();
    const saver = openOn(path);
    const words = Array.from({ length: ON_POSTGRES ? 10_000 : 30_000 }, (_, index) => `word ${index}`);
    await put(saver, { id: 1, values: { words }, versions: { words: 1 } });
    let id = 1;
    const saves: Promise<void>[] = [];
    const report = await saver.verify({
      onProgress() {
        if (saves.length === 20) return;
        id += 1;
        saves.push(put(saver, { id, parent: id - 1, values: { words: [...words, `more ${id}`] }, versions: { words: id } }));
      },
    });
    await Promise.all(saves);
    expect(report).toMatchObject({ ok: true, checked: { items: expect.any(Number) } });
    expect(saves.length).toBeGreaterThan(1);
    expect((await saver.verify()).problems).toEqual([]);
    saver.close();
  });

  it("a long list that differs in one place is found at every length that was saved", async () => {
    const path = tempFile();
    const saver = openOn(path);
    const words: string[] = [];
    for (let id = 1; id <= 20; id += 1) {
      words.push(...Array.from({ length: 60 }, (_, index) => `word ${id} ${index}`));
      await put(saver, { id, parent: id === 1 ? undefined : id - 1, values: { words: [...words] }, versions: { words: id } });
    }
    expect((await saver.verify()).ok).toBe(true);
    // Two elements change places: each chunk is what its address says, and no position is missing.
    tamper(path, (db) => {
      const chunk = (pos: number): number =>
        db.prepare("SELECT chunk FROM langgraph_items WHERE pos = ?").pluck().get(pos) as number;
      const [one, two] = [chunk(610), chunk(611)];
      db.exec(`UPDATE langgraph_items SET chunk = CASE pos WHEN 610 THEN ${two} ELSE ${one} END WHERE pos IN (610, 611)`);
    });
    const { problems } = await saver.verify();
    expect(problems.map(({ kind, where }) => [kind, where["checkpointId"]])).toEqual(
      Array.from({ length: 10 }, (_, index) => ["checksum", idOf(index + 11)]),
    );
    saver.close();
    const reader = openOn(path);
    expect(await reader.getTuple(configOf({ id: 10 }))).toBeDefined();
    await expect(reader.getTuple(configOf({ id: 11 }))).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    reader.close();
  });

  it("ends when the signal says so, and says that it did not look at everything", async () => {
    const path = paths.get("plain")!;
    expect(await verified(path, {}, { signal: AbortSignal.abort() })).toMatchObject({
      ok: false,
      done: false,
      databaseOk: undefined,
      threads: 0,
    });
    const controller = new AbortController();
    const progress: (string | undefined)[] = [];
    const report = await verified(
      path,
      {},
      {
        signal: controller.signal,
        onProgress: ({ table }) => {
          progress.push(table);
          controller.abort();
        },
      },
    );
    expect(progress).toHaveLength(1);
    expect(report.done).toBe(progress[0] === undefined);
  });

  it("refuses what it cannot make sense of, by name", async () => {
    const saver = openOn(":memory:");
    await expect(saver.verify({ threadId: "" })).rejects.toMatchObject({ code: "INVALID_OPTION", data: { option: "threadId" } });
    await expect(saver.verify({ onProgress: 1 as never })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(saver.verify({ thread: "x" } as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(saver.verify({ threadId: "none" })).rejects.toMatchObject({ code: "THREAD_NOT_FOUND" });
    expect(await saver.verify()).toMatchObject({ ok: true, threads: 0 });
    saver.close();
    await expect(saver.verify()).rejects.toMatchObject({ code: "STORE_CLOSED" });
  });
});

async function begun(child: ChildProcess): Promise<void> {
  await Promise.race([
    once(child.stdout!, "data"),
    once(child, "exit").then(() => Promise.reject(new Error("it did not begin"))),
  ]);
}
