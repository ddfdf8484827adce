import { internalsOf } from "../../src/testing-internal";
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import fc from "fast-check";
import { CheckpointPersister, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { salvage, type SalvageReport, vacuum } from "langgraph-checkpoint-turns/maintenance";
import { altered, everything, isFound, resumeAll } from "../../torture/corruption/calls";
import { BYTE_DAMAGE, randomOf } from "../../torture/corruption/damage";
import { notOfAnyState, statesOf } from "../../torture/corruption/states";
import { type Part, sweep, type Tally } from "../../torture/corruption/sweep";
import { answer, at, build, Folder, graphOn, KEY, quiet } from "../../torture/corruption/world";
import { oneOf, runs } from "../support/lane";
import { line } from "../support/run-world";

const ENCRYPTED = { encryption: { key: KEY } };
const folder = new Folder();
const files = new Map<string, { path: string; options: typeof ENCRYPTED | object }>();
const threads: string[] = [];

beforeAll(async () => {
  for (const [kind, options] of [
    ["plain", {}],
    ["encrypted", ENCRYPTED],
  ] as const) {
    const path = folder.file();
    const built = await build(path, 3, options, []);
    threads.splice(0, threads.length, ...built);
    files.set(kind, { path, options });
  }
});
afterAll(() => folder.remove());

const plain = (): string => files.get("plain")!.path;

/** A call may lack rows only if they aren't found any more, and then `verify` tells so: see `isLacking`. */
describe("S3.1 no matter what is damaged, nothing that was altered is returned", () => {
  test.each([
    ["plain", { parts: ["columns"], every: oneOf(17, 5) }],
    ["encrypted", { parts: ["columns"], every: oneOf(37, 11) }],
    ["plain", { parts: ["bytes", "log", "foreign"], every: 1 }],
    ["encrypted", { parts: ["log", "foreign"], every: 1 }],
  ] as const)(
    "S3.1 S4.3 a %s file, %j: found, or harmless; each call gives what was saved, lacks what verify() misses, or refuses by name",
    async (kind, some) => {
      const tallies = new Map<Part, Tally>();
      await sweep({ seed: 7, kind, rounds: 1, thorough: false, ...some }, (part, tally) => tallies.set(part, tally));
      expect([...tallies].map(([part, { wrong }]) => [part, wrong])).toEqual(some.parts.map((part) => [part, []]));
      for (const { damaged, calls, lacking } of tallies.values()) {
        expect(Math.min(damaged, calls)).toBeGreaterThan(2);
        // The rule is a right answer, or a refusal.
        expect(lacking).toBeLessThan(calls / 50);
      }
    },
    300_000,
  );

  test("S3.1 the kind of a task that is changed does not make another one the last that ran", async () => {
    for (const { path, options } of files.values()) {
      const wanted = await everything(folder, path, threads, options, ["read"]);
      const db = new Database(path, { readonly: true });
      const seqs = db.prepare("SELECT seq FROM langgraph_tasks").pluck().all();
      db.close();
      for (const seq of seqs) {
        const copy = folder.copy(path);
        const changed = new Database(copy);
        changed
          .prepare("UPDATE langgraph_tasks SET kind = CASE kind WHEN 'run' THEN 'update' ELSE 'run' END WHERE seq = ?")
          .run(seq);
        changed.close();
        expect([seq, altered(wanted, await everything(folder, copy, threads, options, ["read"]))]).toEqual([seq, []]);
        folder.forget(copy);
      }
    }
  });

  test("S3.1 an index in the place of another page: what is read is right, nothing is read without end, and verify() finds it", async () => {
    const { path, options } = files.get("plain")!;
    const wanted = await everything(folder, path, threads, options, ["read"]);
    const db = new Database(path, { readonly: true });
    const roots = new Map(
      db.prepare("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0").raw().all() as [string, number][],
    );
    db.close();
    const others = ["langgraph_archive", "langgraph_effects_by_anchor", "langgraph_graphs_by_digest", "langgraph_names"];
    const indexes = [...roots.keys()].filter((name) => name.startsWith("sqlite_autoindex") || name.endsWith("_by_thread"));
    for (const [at, index] of indexes.entries()) {
      // The list of threads and the turns by their ids with each: the archive was read without end once.
      const isOnce = /langgraph_(threads|checkpoints)_1$/.test(index);
      for (const other of isOnce ? others : [others[at % others.length]!]) {
        if (other === index) continue;
        const copy = folder.copy(path);
        const bytes = readFileSync(copy);
        const [one, two] = [index, other].map((name) => (roots.get(name)! - 1) * 4096) as [number, number];
        const page = Buffer.from(bytes.subarray(one, one + 4096));
        // Two that are empty are the same.
        if (page.equals(bytes.subarray(two, two + 4096))) continue;
        bytes.copy(bytes, one, two, two + 4096);
        page.copy(bytes, two);
        writeFileSync(copy, bytes);
        const { found } = await isFound(folder.copy(copy), options);
        const outcomes = await everything(folder, copy, threads, options, ["read"]);
        expect([index, other, found, altered(wanted, outcomes, found)]).toEqual([index, other, true, []]);
        folder.forget(copy);
      }
    }
  });

  test("S3.1 a rewind whose row was moved to another thread is refused there; verify() and a resume miss it where it was", async () => {
    for (const { path, options } of files.values()) {
      const copy = folder.copy(path);
      const db = new Database(copy);
      expect(db.prepare("UPDATE langgraph_rewinds SET thread_id = 'thread 1' WHERE thread_id = 'thread 2'").run().changes).toBe(
        1,
      );
      db.close();
      const saver = TurnSaver.fromPath(copy, { logger: quiet, ...options });
      await expect(saver.rewinds.list("thread 1")).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
      const runner = new GraphRunner(graphOn(saver, []));
      for (const id of ["thread 1", "thread 2"]) {
        expect((await saver.verify({ threadId: id })).ok).toBe(false);
        await expect(runner.resume({ threadId: id })).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
      }
      saver.close();
    }
  });

  test("S3.1 S4.3 a row that is gone: reads give the others as they were saved, verify() finds it, and no resume builds on what is left", async () => {
    const counted = ["snapshots", "writes", "checkpoints", "effects", "tasks", "names"];
    for (const { path, options } of files.values()) {
      const wanted = await everything(folder, path, threads, options, ["read"]);
      for (const table of counted) {
        const copy = folder.copy(path);
        const db = new Database(copy);
        const gone = `langgraph_${table} WHERE thread = (SELECT thread FROM langgraph_threads WHERE thread_id = ?)`;
        const order = table === "names" ? "name" : "seq DESC";
        const id = db
          .prepare(`SELECT thread_id FROM langgraph_threads JOIN langgraph_${table} USING (thread)`)
          .pluck()
          .get() as string;
        const key = table === "names" ? "name" : "seq";
        db.prepare(`DELETE FROM ${gone} AND ${key} = (SELECT ${key} FROM ${gone} ORDER BY ${order} LIMIT 1)`).run(id, id);
        db.close();
        const outcomes = await everything(folder, copy, threads, options, ["read"]);
        expect([table, (await isFound(folder.copy(copy), options)).found, altered(wanted, outcomes, true)]).toEqual([
          table,
          true,
          [],
        ]);
        const ledger: string[] = [];
        const saver = TurnSaver.fromPath(copy, { logger: quiet, ...options });
        const runner = new GraphRunner(graphOn(saver, ledger));
        await expect(runner.resume({ threadId: id })).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
        expect([table, ledger]).toEqual([table, []]);
        saver.close();
        folder.forget(copy);
      }
    }
  });

  test("S4.3 a run whose mark stands under another thread has lost its lease, and nobody is kept from that thread by it", async () => {
    const path = folder.copy(plain());
    const saver = TurnSaver.fromPath(path, { logger: quiet });
    const release = await internalsOf(saver).reserve("a");
    const db = new Database(path);
    expect(db.prepare("UPDATE langgraph_runs SET thread_id = 'b' WHERE thread_id = 'a'").run().changes).toBe(1);
    db.close();
    const graph = graphOn(saver, []);
    await expect(graph.invoke({ log: [] }, at("a"))).rejects.toMatchObject({ code: "LEASE_LOST" });
    await release();
    saver.close();
  });
});

describe("salvage", () => {
  const keysOf = (kind: string): { path: string; options: object } => files.get(kind)!;

  test.each(["plain", "encrypted"])("of an undamaged %s file loses nothing: each call gives the same", async (kind) => {
    const { path, options } = keysOf(kind);
    const target = folder.file();
    const report = await salvage(path, target, options);
    expect(report).toMatchObject({
      source: path,
      target,
      ok: true,
      lost: [],
      damaged: [],
      pagesFromLog: 0,
      rescued: { threads: 4 },
    });
    const wanted = await everything(folder, path, threads, options);
    expect(altered(wanted, await everything(folder, target, threads, options))).toEqual([]);
    expect([...wanted.values()].filter((outcome) => "value" in outcome).length).toBeGreaterThan(50);
    expect(await isFound(target, options)).toEqual({ found: false, why: "" });
  });

  test("S3.1 S3.7 of any damage: what is rescued is what was saved, what is not is told, and the new file verifies", async () => {
    const wholes = new Map<string, Awaited<ReturnType<typeof statesOf>>>();
    for (const [kind, { path, options }] of files) wholes.set(kind, await statesOf(folder.copy(path), threads, options));
    const seen = { lost: 0, whole: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom("plain", "encrypted"),
        fc.array(fc.constantFrom(...Object.keys(BYTE_DAMAGE)), { minLength: 1, maxLength: 2 }),
        fc.nat(),
        async (kind, ways, seed) => {
          const { path, options } = keysOf(kind);
          const [copy, target, random] = [folder.copy(path), folder.file(), randomOf(seed)];
          for (const way of ways) BYTE_DAMAGE[way]!(copy, random);
          const before = readFileSync(copy);
          let report: SalvageReport;
          try {
            report = await salvage(copy, target, options);
          } catch (error) {
            // Keys that are gone, or nothing that tells what the file was.
            expect(error).toMatchObject({
              code: expect.stringMatching(/^(UNKNOWN_KEY|WRONG_KEY|NOT_A_DATABASE|SCHEMA_CONFLICT)$/),
            });
            expect(existsSync(target)).toBe(false);
            return;
          }
          expect(readFileSync(copy).equals(before)).toBe(true);
          expect(await isFound(folder.copy(target), options)).toEqual({ found: false, why: "" });
          const whole = wholes.get(kind)!;
          const rescued = await statesOf(target, threads, options);
          expect(notOfAnyState(whole, rescued, false)).toEqual([]);
          if (report.ok) expect(rescued.rows.size).toBe(whole.rows.size);
          seen[report.ok ? "whole" : "lost"] += 1;
          folder.forget(copy);
          folder.forget(target);
        },
      ),
      { numRuns: runs(8, 25), seed: 11 },
    );
    // Neither is the rule.
    expect(Math.min(seen.lost, seen.whole)).toBeGreaterThan(0);
  }, 300_000);

  test("S2.5 a thread that lost nothing is resumed as if nothing had happened; one that did is refused until somebody says so", async () => {
    const copy = folder.copy(plain());
    const db = new Database(copy);
    const thread = db.prepare("SELECT thread FROM langgraph_threads WHERE thread_id = 'thread 1'").pluck().get();
    const lost = db.prepare("SELECT max(seq) FROM langgraph_snapshots WHERE thread = ?").pluck().get(thread);
    db.prepare("UPDATE langgraph_snapshots SET body = body || ' ' WHERE seq = ?").run(lost);
    db.close();
    const target = folder.file();
    const report = await salvage(copy, target);
    expect(report).toMatchObject({
      ok: false,
      lost: [
        { table: "langgraph_snapshots", threadId: "thread 1", where: { seq: lost }, why: expect.stringMatching(/^checksum: /) },
      ],
      damaged: [
        { threadId: "thread 1", missing: { checkpoints: 1, writes: 0, turns: 0, effects: 0, others: 0 }, rebuilt: false },
      ],
    });
    const wanted = await resumeAll(folder.copy(plain()), threads, {});
    const found = await resumeAll(folder.copy(target), threads, {});
    for (const id of threads) {
      const expected = id === "thread 1" ? { refused: "REWIND_UNFINISHED" } : wanted.get(`resume of ${id}`);
      expect([id, found.get(`resume of ${id}`)]).toEqual([id, expected]);
    }
    const saver = TurnSaver.fromPath(target, { logger: quiet });
    const graph = graphOn(saver, []);
    await saver.rewinds.abandon(report.damaged[0]!.acknowledge!);
    // LangGraph goes on from the checkpoint before, and asks once more.
    await graph.invoke(null, at("thread 1"));
    expect((await graph.getState(at("thread 1"))).next).toEqual(["ask"]);
    await graph.invoke(answer, at("thread 1"));
    expect((await graph.getState(at("thread 1"))).next).toEqual([]);
    expect((await new GraphRunner(graph).status("thread 1")).inFlight).toEqual([]);
    expect((await saver.verify()).problems).toEqual([]);
    saver.close();
  });

  test("with the thread's own row gone: it is made again under the id that its rows prove", async () => {
    for (const { path, options } of files.values()) {
      const copy = folder.copy(path);
      const db = new Database(copy);
      db.exec("UPDATE langgraph_threads SET thread_id = 'other', tag = 'x' WHERE thread_id = 'thread 0'");
      db.close();
      const target = folder.file();
      const { damaged } = await salvage(copy, target, options);
      expect(damaged).toMatchObject([
        { threadId: "thread 0", rebuilt: true, missing: undefined, acknowledge: expect.any(String) },
      ]);
      const [whole, rescued] = [await statesOf(folder.copy(path), threads, options), await statesOf(target, threads, options)];
      expect(notOfAnyState(whole, rescued, false)).toEqual([]);
      expect(rescued.rows.size).toBe(whole.rows.size);
    }
  });

  test("turns whose task's row is lost are still found by their task, and the report says so", async () => {
    for (const options of [{}, ENCRYPTED]) {
      const path = folder.file();
      const saver = TurnSaver.fromPath(path, { logger: quiet, ...options });
      const runner = line({ saver, ledger: { happen() {} } as never }, ["a", "b"]);
      for (const taskId of ["one", "two", "three"]) await runner.invoke({ log: [taskId] }, { threadId: "t", taskId });
      const wanted = (await saver.turns.list("t")).map(({ id, taskId, nodeName }) => ({ id, taskId, nodeName }));
      saver.close();
      const db = new Database(path);
      const rows = db.prepare("SELECT seq, task_id FROM langgraph_tasks ORDER BY seq").all() as {
        seq: number;
        task_id: string;
      }[];
      db.exec("UPDATE langgraph_tasks SET created_at = 'x' WHERE task_id = 'two'");
      db.close();
      const target = folder.file();
      const report = await salvage(path, target, options);
      expect(report.lost.map(({ table, threadId, why }) => ({ table, threadId, why }))).toEqual([
        { table: "langgraph_tasks", threadId: "t", why: expect.stringMatching(/^(checksum|format): /) as string },
        { table: "langgraph_tasks", threadId: "t", why: "the row of this task is lost; it is made again from the task's turns" },
      ]);
      const rescued = TurnSaver.fromPath(target, { logger: quiet, ...options });
      expect((await rescued.turns.list("t")).map(({ id, taskId, nodeName }) => ({ id, taskId, nodeName }))).toEqual(wanted);
      const tasks = await rescued.turns.tasks("t");
      expect(tasks.map(({ taskId, firstSeq }) => ({ task_id: taskId, seq: firstSeq }))).toEqual(
        rows.map(({ seq, task_id }) => ({ task_id, seq })),
      );
      expect((await rescued.verify()).problems).toEqual([]);
      if (!("encryption" in options)) {
        const handle = new Database(target);
        const loaded = new CheckpointPersister(handle).loadForTask("two").map(({ id }) => id);
        expect(loaded).toEqual(wanted.filter(({ taskId }) => taskId === "two").map(({ id }) => id));
        handle.close();
      }
      await rescued.rewind({ threadId: "t", toTask: "two" });
      expect((await rescued.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual(["one", "two"]);
      rescued.close();
    }
  });

  test("a row that nothing counts or refers to, and that went from its table alone, is told", async () => {
    const copy = folder.copy(plain());
    const db = new Database(copy, { readonly: true });
    const root = db
      .prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'langgraph_tombstones' AND type = 'table'")
      .pluck()
      .get();
    db.close();
    const bytes = readFileSync(copy);
    // How many rows the page has: none.
    bytes.writeUInt16BE(0, ((root as number) - 1) * 4096 + 3);
    writeFileSync(copy, bytes);
    const { ok, lost } = await salvage(copy, folder.file());
    expect([ok, lost]).toEqual([
      false,
      [{ table: "langgraph_tombstones", threadId: undefined, where: { page: root }, why: "1 rows are in its index alone" }],
    ]);
  });

  test("what was committed to the log is rescued with it, unless it is to be left out; damage in its midst is told", async () => {
    const path = folder.file();
    const saver = TurnSaver.fromPath(path, { logger: quiet });
    const graph = graphOn(saver, []);
    await graph.invoke({ log: ["in"] }, at("t"));
    const open = folder.copy(path);
    saver.close();
    const wanted = await statesOf(path, ["t"], {});
    const target = folder.file();
    const report = await salvage(open, target);
    expect(report).toMatchObject({ ok: true, rescued: { threads: 1 } });
    expect(report.pagesFromLog).toBeGreaterThan(10);
    expect((await statesOf(target, ["t"], {})).rows).toEqual(wanted.rows);
    // All of it was in the log still: without it the file is no database of ours yet.
    const [copy, none] = [folder.copy(open), folder.file()];
    await expect(salvage(copy, none, { wal: "ignore" })).rejects.toMatchObject({
      code: expect.stringMatching(/NOT_A_DATABASE|SCHEMA_CONFLICT/),
    });
    expect(existsSync(none)).toBe(false);
    const log = readFileSync(`${copy}-wal`);
    log[Math.floor(log.length / 2)]! ^= 1;
    writeFileSync(`${copy}-wal`, log);
    const partly = folder.file();
    expect((await salvage(copy, partly)).lost).toEqual([
      expect.objectContaining({ table: "write-ahead log", threadId: undefined, where: { frame: expect.any(Number) } }),
    ]);
    expect(notOfAnyState(wanted, await statesOf(partly, ["t"], {}), true)).toEqual([]);
  });

  test("what was deleted is not brought back by pages that the log has cut off the file", async () => {
    const path = folder.file();
    const saver = TurnSaver.fromPath(path, { logger: quiet });
    const graph = graphOn(saver, []);
    const ids = ["a", "b", "c", "d", "e", "f"];
    for (const id of ids) await graph.invoke({ log: ["in"] }, at(id));
    await vacuum(saver);
    // As long as somebody reads, the file keeps its length: that it is shorter stands in the log alone.
    const reader = new Database(path);
    reader.exec("BEGIN; SELECT count(*) FROM langgraph_threads");
    for (const id of ["a", "b", "c"]) await saver.deleteThread(id);
    await vacuum(saver);
    // These were moved to the front before: the end of the file still has them.
    for (const id of ["d", "e"]) await saver.deleteThread(id);
    const [copy, target] = [folder.copy(path), folder.file()];
    const pages = new Database(path, { readonly: true });
    expect(statSync(copy).size).toBeGreaterThan(4096 * Number(pages.pragma("page_count", { simple: true })));
    pages.close();
    reader.close();
    saver.close();
    expect(await salvage(copy, target)).toMatchObject({ ok: true, lost: [], damaged: [], rescued: { threads: 1 } });
    expect((await statesOf(target, ids, {})).rows).toEqual((await statesOf(path, ids, {})).rows);
  });

  test.each(["UTF-16le", "UTF-16be"])(
    "a file that a caller created, with texts in %s, is rescued like any other",
    async (encoding) => {
      const path = folder.file();
      const db = new Database(path);
      db.pragma(`encoding = '${encoding}'`);
      const saver = new TurnSaver(db, { logger: quiet });
      await graphOn(saver, []).invoke({ log: ["in, 𝄞"] }, at("t"));
      saver.close();
      const target = folder.file();
      expect(await salvage(path, target)).toMatchObject({ ok: true, rescued: { threads: 1 } });
      expect((await statesOf(target, ["t"], {})).rows).toEqual((await statesOf(path, ["t"], {})).rows);
    },
  );

  test.each([0, 2, 3])(
    "the header's word %s for how texts are kept, in a file that keeps them otherwise, costs nothing",
    async (word) => {
      const [copy, target] = [folder.copy(plain()), folder.file()];
      const bytes = readFileSync(copy);
      bytes.writeUInt32BE(word, 56);
      writeFileSync(copy, bytes);
      expect(await salvage(copy, target)).toMatchObject({ ok: true, rescued: { threads: 4 } });
    },
  );

  test("docs/integrity.md shows how: the code there runs", async () => {
    const page = readFileSync(join(__dirname, "..", "..", "docs", "integrity.md"), "utf8");
    const [, code = ""] = /## Salvage[^]*?```ts\n(?:import .*\n)+([^]*?)```/.exec(page) ?? [];
    expect(code).toContain("await salvage(");
    const copy = folder.copy(plain());
    const db = new Database(copy);
    db.exec("UPDATE langgraph_effects SET name = 'another' WHERE seq = (SELECT max(seq) FROM langgraph_effects)");
    db.close();
    const [target, said] = [folder.file(), [] as unknown[][]];
    const runnable = code.replace('"damaged.db"', "source").replaceAll('"rescued.db"', "target");
    const names = ["salvage", "TurnSaver", "console", "source", "target"];
    // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the text is a page of ours
    const run = new Function(...names, `return (async () => { ${runnable}; saver.close(); })()`) as (
      ...values: unknown[]
    ) => Promise<void>;
    await run(salvage, TurnSaver, { error: (...values: unknown[]) => said.push(values) }, copy, target);
    expect(said).toHaveLength(2);
    expect(said[0]![0]).toMatchObject([{ missing: { effects: 1 } }]);
    const resumed = await resumeAll(target, threads, {});
    expect([...resumed.values()].filter((outcome) => "refused" in outcome)).toEqual([]);
  });

  test.each(["", "-wal", "-shm", "-journal"])(
    "a target that is there, with the ending %j, is refused and stays as it was",
    async (suffix) => {
      const target = folder.file();
      writeFileSync(target + suffix, "mine");
      await expect(salvage(plain(), target)).rejects.toMatchObject({
        code: "SALVAGE_TARGET_EXISTS",
        name: "SalvageTargetExistsError",
      });
      expect(readFileSync(target + suffix, "utf8")).toBe("mine");
      expect(existsSync(target)).toBe(suffix === "");
    },
  );

  test("neither is one that is the source, a folder, or a link that leads nowhere", async () => {
    const source = folder.copy(plain());
    const before = readFileSync(source);
    const link = folder.file();
    symlinkSync(join(dirname(link), "nowhere.db"), link);
    for (const target of [source, dirname(source), link]) {
      await expect(salvage(source, target)).rejects.toMatchObject({ code: "SALVAGE_TARGET_EXISTS" });
    }
    await expect(salvage(source, join(dirname(source), "no", "such", "folder.db"))).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringContaining("folder.db can't be created: ENOENT."),
    });
    expect(readFileSync(source).equals(before)).toBe(true);
    expect(existsSync(join(dirname(link), "nowhere.db"))).toBe(false);
  });

  test("sources that are none, wrong keys and options that make no sense are refused by name, and leave nothing", async () => {
    const encrypted = keysOf("encrypted").path;
    const refusals: [string, string, object | undefined][] = [
      ["STORE_UNAVAILABLE", join(dirname(plain()), "none.db"), {}],
      ["ENCRYPTED", encrypted, {}],
      ["WRONG_KEY", encrypted, { encryption: { key: Buffer.from(KEY, "base64").reverse() } }],
      ["UNKNOWN_KEY", encrypted, { encryption: { key: KEY, keyId: "other" } }],
      ["INVALID_OPTION", plain(), { wal: "maybe" }],
      ["INVALID_OPTION", plain(), { overwrite: true }],
      ["INVALID_OPTION", "", {}],
      ["INVALID_OPTION", ":memory:", {}],
      ["INVALID_OPTION", 7 as never, {}],
    ];
    for (const [code, source, options] of refusals) {
      const target = folder.file();
      const refused = await salvage(source, target, options).then(
        () => "no refusal",
        (error: { code: string }) => error.code,
      );
      expect([source, options, refused, existsSync(target)]).toEqual([source, options, code, false]);
    }
    await expect(salvage(plain(), "a\0b")).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });

  test("a source that is written to meanwhile is refused, and nothing is left", async () => {
    const source = folder.copy(plain());
    const target = folder.file();
    const salvaging = salvage(source, target);
    const db = new Database(source);
    db.exec("UPDATE langgraph_tombstones SET final = 1");
    db.close();
    await expect(salvaging).rejects.toMatchObject({ code: "STORE_BUSY" });
    expect(existsSync(target)).toBe(false);
  });

  test("a migration's damaged number is not taken for a newer version", async () => {
    const copy = folder.copy(plain());
    const db = new Database(copy);
    db.exec("UPDATE langgraph_migrations SET version = version + 64");
    db.close();
    expect(() => TurnSaver.fromPath(copy, { logger: quiet })).toThrow(expect.objectContaining({ code: "SCHEMA_TOO_NEW" }));
    expect(await salvage(copy, folder.file())).toMatchObject({ ok: true, rescued: { threads: 4 } });
  });
});
