import Database from "better-sqlite3";
import { defineEffect } from "langgraph-checkpoint-turns";
import {
  drizzleTransactions,
  knexTransactions,
  kyselyTransactions,
  pgTransactions,
  prismaTransactions,
  sqliteTransactions,
} from "langgraph-checkpoint-turns/transactions";
import { attached, closeAll, fresh, line, open, refusal } from "../support/eff-world";
import { config } from "../support/undo-world";
import { transactionsHold } from "./tx-contract";
import { CHARGES, SQLITE_LIBRARIES } from "./tx-world";

afterEach(closeAll);

describe.each(SQLITE_LIBRARIES)("transactional effects by $name", transactionsHold);

describe("a synchronous driver", () => {
  function bank() {
    const db = new Database(fresh());
    db.exec(CHARGES);
    return { db, tx: sqliteTransactions(db), count: () => db.prepare("SELECT count(*) FROM charges").pluck().get() };
  }

  test("S9.6 refuses an async function where it's defined, and rolls back one that returns a promise", async () => {
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

  test("S9.6 it may be the handle that the saver has", async () => {
    const path = fresh();
    const { TurnSaver } = await import("langgraph-checkpoint-turns");
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
