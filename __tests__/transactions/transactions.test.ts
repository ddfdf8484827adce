import { randomUUID } from "node:crypto";
import Database from "better-sqlite3";
import { type DefinedEffect, defineEffect, effect, TurnSaver } from "langgraph-checkpoint-turns";
import {
  drizzleTransactions,
  knexTransactions,
  kyselyTransactions,
  pgTransactions,
  prismaTransactions,
  sqliteTransactions,
} from "langgraph-checkpoint-turns/transactions";
import { setFailpointHandler } from "../../src/testing-internal";
import { attached, closeAll, fresh, line, open, refusal, thread } from "../support/eff-world";
import { testOfFiles } from "../support/test-of-files";
import { config } from "../support/undo-world";
import { LIBRARIES, testOf } from "./tx-libraries";
import { type Bank, CHARGES, freshTable, then } from "./tx-world";

/** What every adapter promises, with the user's library and a real database: SQLite, or with jest.postgres.config.mjs PostgreSQL. */
const TO_A = { threadId: "t", toTask: "a" };
const empty = { log: [] as string[] };

/** Every kind of value that an effect may return, and texts that a statement could trip over. */
const AWKWARD = {
  texts: ["it's", "a\\b", "\\", "'; DROP TABLE charges; --", "?", "$1", "\0", "\ud800", "😀", "E'x'", "$$", ":name", "\n"],
  date: new Date(5),
  big: 2n ** 70n,
  map: new Map<unknown, unknown>([[new Set([1]), undefined]]),
  bytes: new Uint8Array([0, 255]),
  numbers: [-0, NaN, Infinity],
  nothing: undefined,
};

afterEach(closeAll);

describe.each(LIBRARIES)("transactional effects by $name", (library) => {
  const test = testOf(library);
  let bank: Bank;
  beforeAll(async () => (bank = await library.open()));
  afterAll(() => bank.close());
  beforeEach(() => bank.sql("DELETE FROM charges"));
  afterEach(() => {
    setFailpointHandler(undefined);
    closeAll();
  });

  let made = 0;
  interface Told {
    runs: number;
    undos: number;
    fails?: Error | undefined;
    result?: unknown;
  }
  /** An effect that charges, by a name of its own. */
  function charging(tx = bank.tx, told: Told = { runs: 0, undos: 0 }) {
    const charge = defineEffect(`charge ${library.name} ${++made}`, {
      tx,
      run: ({ cents }: { cents: number }, { db, key }: { db: unknown; key: string }) => {
        told.runs += 1;
        return then(bank.charge(db, key, cents), () => {
          if (told.fails !== undefined) throw told.fails;
          return "result" in told ? told.result : `paid ${cents}`;
        });
      },
      undo: ({ db, key }: { db: unknown; key: string }) => {
        told.undos += 1;
        return then(bank.refund(db, key), () => {
          if (told.fails !== undefined) throw told.fails;
        });
      },
    } as never) as unknown as DefinedEffect<{ cents: number }, any>;
    return { charge, told };
  }

  /** A graph of one node that charges what its task says. */
  function graphOf(charge: DefinedEffect<{ cents: number }, any>, path = fresh()) {
    const saver = open(path);
    const results: unknown[] = [];
    const graph = attached(
      saver,
      line({
        n: async () => {
          results.push(await charge({ cents: 5 }));
          return {};
        },
      }),
    );
    return {
      saver,
      graph,
      path,
      results,
      run: (task: string) => graph.invoke(empty, config(task)),
      resume: () => graph.invoke(null, thread()),
    };
  }

  /** The journal doesn't learn the outcome, as when the process dies after the commit. */
  async function dyingAfterCommit(world: ReturnType<typeof graphOf>, task: string): Promise<void> {
    setFailpointHandler((point) => {
      if (point === "effect-outcome.before") throw new Error("killed");
    });
    await refusal(world.run(task));
    setFailpointHandler(undefined);
    world.saver.close();
  }

  /** The journal has an intent, and nothing has happened. */
  async function dyingBeforeCommit(world: ReturnType<typeof graphOf>, task: string, told: Told): Promise<void> {
    told.fails = Object.assign(new Error("lost"), { name: "Lost" });
    setFailpointHandler((point) => {
      if (point === "effect-outcome.before") throw new Error("killed");
    });
    await refusal(world.run(task));
    setFailpointHandler(undefined);
    told.fails = undefined;
    world.saver.close();
  }

  const onlyEffect = async (saver: TurnSaver) => (await saver.effects.list("t")).at(-1)!;
  const tryOf = (key: string = randomUUID(), tries = 1) => ({ key, threadId: "t", name: "e", tries });

  /** Where a saver has its tables in the bank's database. */
  const inBank = (): string => (bank.env["BANK_SCHEMA"] === undefined ? (bank.env["BANK"] as string) : fresh());

  /** How often a run reached these places, which are commits of the journal. */
  async function commitsOf(run: () => Promise<unknown>): Promise<{ intents: number; outcomes: number }> {
    const count = { intents: 0, outcomes: 0 };
    setFailpointHandler((point) => {
      if (point === "effect-intent.after") count.intents += 1;
      if (point === "effect-outcome.after") count.outcomes += 1;
    });
    await run();
    setFailpointHandler(undefined);
    return count;
  }

  test("S9.6 with the journal in the same database, its outcome is in the user's commit: one commit less for each effect", async () => {
    const told: Told = { runs: 0, undos: 0, result: AWKWARD };
    const path = inBank();
    const saver = open(path);
    const { charge } = charging(bank.adapter({ journal: saver }), told);
    const events: string[] = [];
    saver.events.on("effect", ({ what, effect: { status } }) => void events.push(`${what} ${status}`));
    const results: unknown[] = [];
    const body = async (): Promise<object> => (results.push(await charge({ cents: 5 }), await charge({ cents: 6 })), {});
    const graph = attached(saver, line({ n: body }));
    const threadId = randomUUID();
    const on = { configurable: { thread_id: threadId } };
    expect(await commitsOf(() => graph.invoke(empty, on))).toEqual({ intents: 2, outcomes: 0 });
    expect(results).toEqual([AWKWARD, AWKWARD]);
    expect(events).toEqual(["begun running", "done done", "begun running", "done done"]);
    const effects = await saver.effects.list(threadId);
    expect(effects).toMatchObject([{ status: "done", tries: 1 }, { status: "done" }]);
    expect((await saver.effects.get(effects[0]!.id))?.result).toEqual(AWKWARD);
    expect((await bank.charges()).map(({ key }) => key)).toEqual(effects.map(({ key }) => key));
    expect((await saver.verify({ threadId })).problems).toEqual([]);
    // A saver that the adapter wasn't given records by itself.
    const other = open(fresh());
    const elsewhere = attached(other, line({ n: body }));
    expect(await commitsOf(() => elsewhere.invoke(empty, on))).toEqual({ intents: 2, outcomes: 2 });
    expect(await other.effects.list(threadId)).toMatchObject([{ status: "done" }, { status: "done" }]);
  });

  test("S9.6 with the journal in the same database, a transaction that is rolled back leaves the intent, and the next try records", async () => {
    const told: Told = { runs: 0, undos: 0, fails: new Error("no money") };
    const saver = open(inBank());
    const { charge } = charging(bank.adapter({ journal: saver }), told);
    const graph = attached(saver, line({ n: async () => (await charge({ cents: 5 }), {}) }));
    const threadId = randomUUID();
    const on = { configurable: { thread_id: threadId } };
    expect(await refusal(graph.invoke(empty, on))).toMatchObject({ message: "no money" });
    expect(await saver.effects.list(threadId)).toMatchObject([{ status: "failed", tries: 1 }]);
    told.fails = undefined;
    expect(await commitsOf(() => graph.invoke(null, on))).toMatchObject({ outcomes: 0 });
    expect(await saver.effects.list(threadId)).toMatchObject([{ status: "done", tries: 2 }]);
    expect(await bank.charges()).toHaveLength(1);
  });

  test("S9.6 with the journal in the same database, an effect of another saver's run is recorded by that saver", async () => {
    const saver = open(inBank());
    const beside = open(fresh());
    const threadId = randomUUID();
    const on = { configurable: { thread_id: threadId } };
    const charge = defineEffect(`charge ${library.name} ${++made}`, {
      tx: bank.adapter({ journal: beside }),
      run: (_: object, { db, key }: { db: unknown; key: string }) => then(bank.charge(db, key, 5), () => "paid"),
      undo: false,
    } as never) as unknown as DefinedEffect<object, string>;
    const graph = attached(saver, line({ n: async () => (await charge({}), {}) }));
    expect(await commitsOf(() => graph.invoke(empty, on))).toMatchObject({ outcomes: 1 });
    expect(await saver.effects.list(threadId)).toMatchObject([{ status: "done" }]);
  });

  test("S9.6 the user's writes and the completion row commit together; the result survives, of any type", async () => {
    const { charge, told } = charging();
    told.result = AWKWARD;
    const world = graphOf(charge);
    await dyingAfterCommit(world, "a");
    expect(await bank.charges()).toHaveLength(1);
    const again = graphOf(charge, world.path);
    await again.resume();
    expect(again.results).toEqual([AWKWARD]);
    expect(Object.is((again.results[0] as typeof AWKWARD).numbers[0], -0)).toBe(true);
    expect(told.runs).toBe(1);
    const effectNow = await onlyEffect(again.saver);
    expect(effectNow).toMatchObject({ status: "done", tries: 1, settledBy: "probe" });
    expect(await bank.charges()).toEqual([{ key: effectNow.key, cents: 5 }]);
    expect(await bank.tx.find(tryOf(effectNow.key))).toContain("DROP TABLE");
  });

  test("S9.6 if run throws, nothing is written, and the next run tries again with the same key", async () => {
    const { charge, told } = charging();
    const world = graphOf(charge);
    // Even an error that tells nothing about other effects.
    told.fails = Object.assign(new Error("reset"), { code: "ECONNRESET" });
    expect(await refusal(world.run("a"))).toBe(told.fails);
    const [before] = await world.saver.effects.list("t");
    expect(before).toMatchObject({ status: "failed" });
    expect(await bank.charges()).toEqual([]);
    told.fails = undefined;
    await world.resume();
    expect(await bank.charges()).toEqual([{ key: before!.key, cents: 5 }]);
  });

  test("S9.6 in doubt and not committed: it runs, and nobody is asked", async () => {
    const { charge, told } = charging();
    const world = graphOf(charge);
    await dyingBeforeCommit(world, "a", told);
    expect(await onlyEffect(open(world.path))).toMatchObject({ status: "in-doubt" });
    const again = graphOf(charge, world.path);
    await again.resume();
    expect(again.results).toEqual(["paid 5"]);
    expect(await bank.charges()).toHaveLength(1);
    expect(told.runs).toBe(2);
  });

  test("S9.6 a rewind undoes it exactly once, in a transaction; an undo that throws changes nothing and is called again", async () => {
    const { charge, told } = charging();
    const { saver, run } = graphOf(charge);
    for (const task of ["a", "b", "c"]) await run(task);
    const [kept] = await bank.charges();
    told.fails = new Error("no");
    expect(await refusal(saver.rewind(TO_A))).toMatchObject({ code: "UNDO_FAILED" });
    expect(await bank.charges()).toHaveLength(3);
    told.fails = undefined;
    const { effects } = await saver.rewind(TO_A);
    expect(effects.undone).toHaveLength(2);
    expect(await bank.charges()).toEqual([kept]);
    expect(told.undos).toBe(3);
  });

  test("S9.6 a crash after an undo's commit: the rewind finds its mark, and doesn't call it again", async () => {
    const { charge, told } = charging();
    const world = graphOf(charge);
    for (const task of ["a", "b"]) await world.run(task);
    let marks = 0;
    setFailpointHandler((point) => {
      if (point === "undo-mark.before" && ++marks > 1) throw new Error("killed");
    });
    await refusal(world.saver.rewind(TO_A));
    setFailpointHandler(undefined);
    world.saver.close();
    expect(await bank.charges()).toHaveLength(1);
    const { effects } = await open(world.path).rewind(TO_A);
    expect(effects.undone).toHaveLength(1);
    expect(told.undos).toBe(1);
    expect(await bank.charges()).toHaveLength(1);
  });

  test.each(["committed", "not committed"])(
    "S9.6 a rewind over an effect in doubt that was %s; a dry run writes nothing",
    async (how) => {
      const { charge, told } = charging();
      const world = graphOf(charge);
      await world.run("a");
      if (how === "committed") await dyingAfterCommit(world, "b");
      else await dyingBeforeCommit(world, "b", told);
      const saver = open(world.path);
      const { key } = await onlyEffect(saver);
      const before = await bank.sql("SELECT state FROM turns_completions ORDER BY key");
      const expected = how === "committed" ? { undone: [{ status: "done" }] } : { undone: [], needNone: [{ status: "failed" }] };
      expect(await saver.rewind({ ...TO_A, dryRun: true })).toMatchObject({ effects: expected });
      expect(await bank.sql("SELECT state FROM turns_completions ORDER BY key")).toEqual(before);
      expect(await saver.rewind(TO_A)).toMatchObject({ effects: expected });
      expect(await bank.charges()).toHaveLength(1);
      // A process that was stopped before its commit wakes up.
      expect(await refusal(bank.tx.complete(tryOf(key), () => "late"))).toMatchObject({ code: "EFFECT_FENCED" });
      expect(await bank.tx.find(tryOf(randomUUID()))).toBeUndefined();
    },
  );

  test("S9.6 a canceled try can't commit, a later one can; an undone effect never again", async () => {
    const { tx } = bank;
    const first = tryOf();
    expect(await tx.cancel(first)).toBeUndefined();
    expect(await tx.find(first)).toBeUndefined();
    let runs = 0;
    const work = () => `run ${++runs}`;
    expect(await refusal(tx.complete(first, work))).toMatchObject({ code: "EFFECT_FENCED", data: { key: first.key } });
    const second = { ...first, tries: 2 };
    expect(await tx.complete(second, work)).toBe("run 1");
    expect(await tx.complete(first, work)).toBe("run 1");
    expect(await tx.cancel({ ...first, tries: 3 })).toBe("run 1");
    let undos = 0;
    for (let again = 0; again < 3; again++) await tx.undo(second, () => void undos++);
    expect([runs, undos]).toEqual([1, 1]);
    expect(await refusal(tx.complete({ ...first, tries: 9 }, work))).toMatchObject({ code: "EFFECT_FENCED" });
    // An undo of an effect whose row was pruned.
    const pruned = tryOf();
    for (let again = 0; again < 2; again++) await tx.undo(pruned, () => void undos++);
    expect(undos).toBe(2);
  });

  test("S9.6 the same key from many callers at once: one runs, all get its result", async () => {
    const effect = tryOf();
    let runs = 0;
    const all = Array.from({ length: 6 }, (_, index) =>
      bank.tx.complete({ ...effect, tries: index + 1 }, (db) => then(bank.charge(db, effect.key, index), () => `run ${++runs}`)),
    );
    expect(await Promise.all(all)).toEqual(all.map(() => "run 1"));
    expect(await bank.charges()).toHaveLength(1);
  });

  test("S9.6 a result that can't be saved: its path is named, and nothing has happened", async () => {
    const { charge, told } = charging();
    told.result = { deep: [() => 1] };
    const { run, saver } = graphOf(charge);
    expect(await refusal(run("a"))).toMatchObject({
      code: "UNSERIALIZABLE_VALUE",
      message: expect.stringContaining("result.deep[0]") as string,
    });
    expect(await bank.charges()).toEqual([]);
    expect(await onlyEffect(saver)).toMatchObject({ status: "failed" });
  });

  test("S9.6 another effect within the transaction is refused, and it is rolled back", async () => {
    const { charge: inner } = charging();
    let called: Promise<PromiseSettledResult<unknown>[]> | undefined;
    const outer = defineEffect(`outer ${library.name} ${++made}`, {
      tx: bank.tx,
      run: ({ cents }: { cents: number }, { db, key }: { db: unknown; key: string }) =>
        then(bank.charge(db, key, cents), () => {
          called = Promise.allSettled([inner({ cents }), effect("plain", () => 1)]);
          if (!bank.tx.isSync) return called.then(([one]) => Promise.reject((one as PromiseRejectedResult).reason as Error));
          throw new Error("sync");
        }),
    } as never) as unknown as DefinedEffect<{ cents: number }, any>;
    const { run, saver } = graphOf(outer);
    await refusal(run("a"));
    const refused = { status: "rejected", reason: { code: "EFFECT_IN_TRANSACTION", data: { within: outer.effectName } } };
    expect(await called).toMatchObject([refused, refused]);
    expect(await bank.charges()).toEqual([]);
    expect(await saver.effects.list("t")).toHaveLength(1);
  });

  test("S9.6 without a table: refused before anything is done, with the statement; setup() makes it", async () => {
    const table = freshTable();
    const tx = bank.adapter({ table, createTable: false });
    const { charge, told } = charging(tx);
    const { run, resume } = graphOf(charge);
    expect(await refusal(run("a"))).toMatchObject({
      code: "COMPLETIONS_UNAVAILABLE",
      message: expect.stringContaining("createTableSql") as string,
    });
    expect(told.runs).toBe(0);
    expect(tx.createTableSql).toContain(`CREATE TABLE IF NOT EXISTS`);
    await tx.setup();
    await tx.setup();
    await resume();
    expect(await bank.sql(`SELECT state FROM ${table}`)).toEqual([{ state: "done" }]);
  });

  test("S9.6 the first effects create the table, several at once", async () => {
    const table = freshTable();
    const all = Array.from({ length: 5 }, () => bank.adapter({ table }).complete(tryOf(), () => "x"));
    expect(await Promise.all(all)).toEqual(all.map(() => "x"));
  });

  test("S9.6 prune deletes rows by age, of one thread or of all", async () => {
    const tx = bank.adapter({ table: freshTable() });
    for (const threadId of ["t", "t", "u"]) await tx.complete({ ...tryOf(), threadId }, () => "x");
    expect(await tx.prune({ olderThanMs: 60_000 })).toBe(0);
    expect(await tx.prune({ olderThanMs: 0, threadId: "t" })).toBe(2);
    expect(await tx.prune({ olderThanMs: 0 })).toBe(1);
    expect(await refusal(tx.prune({ olderThanMs: -1 }))).toMatchObject({ code: "INVALID_OPTION" });
  });

  test("S9.6 an error that is final is thrown again without a call, and nothing was written", async () => {
    const told: Told = { runs: 0, undos: 0 };
    const broke = new RangeError("insufficient funds");
    const refuse = defineEffect(`final ${library.name} ${++made}`, {
      tx: bank.tx,
      run: ({ cents }: { cents: number }, { db, key }: { db: unknown; key: string }) => {
        told.runs += 1;
        return then(bank.charge(db, key, cents), () => {
          throw broke;
        });
      },
      onError: (error: unknown) => (error instanceof RangeError ? "final" : "retryable"),
    } as never) as unknown as DefinedEffect<{ cents: number }, any>;
    const { run, resume } = graphOf(refuse);
    expect(await refusal(run("a"))).toBe(broke);
    expect(await refusal(resume())).toMatchObject({ message: "insufficient funds" });
    expect(told.runs).toBe(1);
    expect(await bank.charges()).toEqual([]);
  });
});

describe("a synchronous driver", () => {
  function bank() {
    const db = new Database(fresh());
    db.exec(CHARGES);
    return { db, tx: sqliteTransactions(db), count: () => db.prepare("SELECT count(*) FROM charges").pluck().get() };
  }

  testOfFiles("S9.6 refuses an async function where it's defined, and rolls back one that returns a promise", async () => {
    const { db, tx, count } = bank();
    const message = expect.stringContaining("synchronous") as string;
    for (const more of [{ run: async () => 1 }, { run: () => 1, undo: async () => 1 }]) {
      expect(() => defineEffect("async on sync", { tx, ...more } as never)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", message }),
      );
    }
    const promising = defineEffect("promise on sync", {
      tx,
      run: () => {
        db.prepare("INSERT INTO charges VALUES ('k', 1)").run();
        return Promise.reject(new Error("nobody waits for it"));
      },
    } as never);
    const graph = attached(open(fresh()), line({ n: async () => ({ log: [await (promising as any)()] }) }));
    expect(await refusal(graph.invoke({ log: [] }, config("a")))).toMatchObject({ code: "INVALID_OPTION", message });
    expect(count()).toBe(0);
    db.close();
  });

  testOfFiles("S9.6 it may be the handle that the saver has", async () => {
    const path = fresh();
    const db = new Database(path);
    const saver = new TurnSaver(db);
    db.exec(CHARGES);
    const charge = defineEffect("one handle", {
      tx: sqliteTransactions(db),
      run: (cents: number, { db: handle, key }) => handle.prepare("INSERT INTO charges VALUES (?, ?)").run(key, cents).changes,
      undo: ({ db: handle, key }) => handle.prepare("DELETE FROM charges WHERE key = ?").run(key).changes,
    });
    const side = (name: string) => async () => ({ log: [`${name} ${await charge(name.length)}`] });
    const builder = line({ n: side("n"), mm: side("mm") });
    const graph = attached(saver, builder);
    for (const task of ["a", "b"]) await graph.invoke({ log: [] }, config(task));
    await saver.rewind({ threadId: "t", toTask: "a" });
    expect(db.prepare("SELECT cents FROM charges ORDER BY cents").pluck().all()).toEqual([1, 2]);
    saver.close();
    db.close();
  });
});

test("S9.6 what can't run transactions is refused by name, and so are options that don't exist", () => {
  const db = new Database(":memory:");
  for (const [make, handle] of [
    [pgTransactions, db],
    [pgTransactions, undefined],
    [sqliteTransactions, {}],
    [kyselyTransactions, { transaction: () => 1 }],
    [knexTransactions, { raw: () => 1 }],
    [drizzleTransactions, { transaction: () => 1 }],
    [drizzleTransactions, null],
    [prismaTransactions, { $transaction: () => 1 }],
  ] as const) {
    const message = expect.stringMatching(/can't run transactions: it has no method .*Pass /s) as string;
    expect(() => (make as (handle: unknown) => unknown)(handle)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message }),
    );
  }
  for (const [options, found] of [
    [{ tabel: "x" }, /Did you mean "table"/],
    [{ table: "a b" }, /letters, digits/],
    [{ table: 'x"; DROP TABLE y' }, /letters, digits/],
    [{ createTable: "no" }, /createTable/],
    [{ dialect: "mysql" }, /"postgres" or "sqlite"/],
  ] as const) {
    expect(() => kyselyTransactions({ transaction: () => 1, executeQuery: () => 1 } as never, options as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringMatching(found) as string }),
    );
  }
  const tx = sqliteTransactions(db);
  for (const [definition, found] of [
    [{ tx: db, run: () => 1 }, /"tx".*pgTransactions\(pool\)/s],
    [{ tx, run: () => 1, probe: () => 1 }, /Unknown option "probe"/],
    [{ tx, run: () => 1, idempotent: true }, /Unknown option "idempotent"/],
    [{ tx, run: () => 1, onError: "unknown" }, /"onError"/],
    [{ tx, run: () => 1, undo: { run: () => 1, whenInDoubt: true } }, /"undo"/],
    [{ tx }, /"run"/],
  ] as const) {
    expect(() => defineEffect("refused", definition as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", message: expect.stringMatching(found) as string }),
    );
  }
  db.close();
});
