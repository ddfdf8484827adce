import { randomBytes } from "node:crypto";
import { type DefinedEffect, defineEffect } from "langgraph-checkpoint-turns";
import { rotateKeys } from "langgraph-checkpoint-turns/maintenance";
import { pgTransactions, type Transactions } from "langgraph-checkpoint-turns/transactions";
import { Pool } from "pg";
import { setFailpointHandler } from "../../src/testing-internal";
import { attached, closeAll, fresh, line, open, refusal, thread } from "../support/eff-world";
import { ON_POSTGRES } from "../support/open-saver";
import { LIBRARIES } from "./tx-libraries";
import { type Bank, then } from "./tx-world";

/** The journal's row in the user's transaction: what others do to the journal between the beginning of an effect and its commit. */
const empty = { log: [] as string[] };
let bank: Bank;
beforeEach(async () => (bank = await LIBRARIES[0]!.open()));
afterEach(async () => {
  closeAll();
  await bank.close();
});

const inBank = (): string => (bank.env["BANK_SCHEMA"] === undefined ? (bank.env["BANK"] as string) : fresh());

function charging(tx: Transactions<any, boolean>): DefinedEffect<object, string> {
  return defineEffect("charge", {
    tx,
    run: (_: object, { db, key }: { db: unknown; key: string }) => then(bank.charge(db, key, 5), () => "paid"),
    undo: false,
  } as never) as unknown as DefinedEffect<object, string>;
}

/** Does something before an effect's transaction begins. */
function before(tx: Transactions<any, boolean>, happens: () => Promise<unknown>): Transactions<any, boolean> {
  return {
    isSync: tx.isSync,
    createTableSql: tx.createTableSql,
    setup: () => tx.setup(),
    prune: (request) => tx.prune(request),
    find: (effect) => tx.find(effect),
    cancel: (effect) => tx.cancel(effect),
    undo: (effect, work) => tx.undo(effect, work),
    complete: async (effect, work, journal) => {
      await happens();
      return tx.complete(effect, work, journal);
    },
  };
}

test("S9.6 S4.6 with the journal in the same database, an encrypted one too, its outcome is in the user's commit", async () => {
  const saver = open(inBank(), { encryption: { key: randomBytes(32) } });
  const charge = charging(bank.adapter({ journal: saver }));
  const graph = attached(saver, line({ n: async () => (await charge({}), {}) }));
  const outcomes: string[] = [];
  setFailpointHandler((point) => {
    if (point === "effect-outcome.after") outcomes.push(point);
  });
  await graph.invoke(empty, thread());
  setFailpointHandler(undefined);
  expect(outcomes).toEqual([]);
  expect(await saver.effects.list("t")).toMatchObject([{ status: "done" }]);
  expect((await saver.verify()).problems).toEqual([]);
});

test("S9.6 S4.6 with the journal in the same database, nothing is sealed under a key that was retired meanwhile", async () => {
  const [old, current] = [randomBytes(32), randomBytes(32)];
  const path = inBank();
  const saver = open(path, { encryption: { key: old, keyId: "old" } });
  const rotate = async (): Promise<void> => {
    const both = open(path, { encryption: { keys: { old, current }, current: "current" } });
    expect(await rotateKeys(both)).toMatchObject({ done: true, retired: 1 });
  };
  const charge = charging(before(bank.adapter({ journal: saver }), rotate));
  const graph = attached(saver, line({ n: async () => (await charge({}), {}) }));
  // The first save that would seal under the old key.
  expect(["EFFECT_NOT_RECORDED", "UNKNOWN_KEY"]).toContain((await refusal(graph.invoke(empty, thread()))).code);
  const later = open(path, { encryption: { key: current, keyId: "current" } });
  expect((await later.verify()).problems).toEqual([]);
  const again = charging(bank.adapter({ journal: later }));
  await attached(later, line({ n: async () => (await again({}), {}) })).invoke(null, thread());
  expect(await later.effects.list("t")).toMatchObject([{ status: "done" }]);
  expect(await bank.charges()).toHaveLength(1);
});

(ON_POSTGRES ? test : test.skip)(
  "S9.6 with the journal in the same database, a transaction of a stricter isolation level isn't failed by a save on its thread",
  async () => {
    const level = { connectionString: process.env["TURNS_PG_URL"], options: "-c default_transaction_isolation=serializable" };
    const pool = new Pool(level);
    const path = fresh();
    const [saver, other] = [open(path), open(path)];
    const tx = pgTransactions(pool, { schema: bank.env["BANK_SCHEMA"]!, journal: saver });
    let runs = 0;
    const charge = defineEffect("charge beside a save", {
      tx,
      run: async (_: object, { db, key }) => {
        runs += 1;
        await bank.charge(db, key, 5);
        const found = await other.getTuple(thread());
        await other.putWrites(found!.config, [["log", ["by hand"]]], "somebody");
        return "paid";
      },
      undo: false,
    });
    const results: string[] = [];
    await attached(saver, line({ n: async () => (results.push(await charge({})), {}) })).invoke(empty, thread());
    expect([runs, results]).toEqual([1, ["paid"]]);
    expect(await saver.effects.list("t")).toMatchObject([{ status: "done", tries: 1 }]);
    await pool.end();
  },
);
