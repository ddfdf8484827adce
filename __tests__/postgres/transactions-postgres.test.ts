import { randomUUID } from "node:crypto";
import { drizzle } from "drizzle-orm/node-postgres";
import { drizzleTransactions, pgTransactions } from "langgraph-checkpoint-turns/transactions";
import type { Pool, PoolClient } from "pg";
import { refusal } from "../support/eff-world";
import { isCommit, isCommitAnswer } from "../support/postgres/messages";
import { nth, PostgresProxy } from "../support/postgres/proxy";
import { testOf } from "../transactions/tx-libraries";
import { byPg, type Own, poolOn, POSTGRES_LIBRARIES, schemaOfOwn, URL_OF_TESTS } from "../transactions/tx-postgres";
import type { Bank } from "../transactions/tx-world";

describe("a network that breaks, and a server that ends connections", () => {
  let own: Own;
  let bank: Bank;
  let proxy: PostgresProxy;
  beforeAll(async () => {
    own = await schemaOfOwn();
    bank = byPg(own);
    proxy = await PostgresProxy.inFrontOf(URL_OF_TESTS);
    await bank.tx.setup();
  });
  afterAll(async () => {
    await proxy.close();
    await bank.close();
  });

  /** Charges once through the proxy; `begins` says what the proxy does from there. */
  async function charged(begins: () => void, within?: (db: PoolClient) => Promise<unknown>) {
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    const pool = poolOn(proxy.url, own.name);
    const tx = pgTransactions(pool, { schema: own.name, createTable: false });
    expect(await tx.find(effect)).toBeUndefined();
    begins();
    let runs = 0;
    const work = async (db: PoolClient): Promise<string> => {
      runs += 1;
      await bank.charge(db, effect.key, 7);
      await within?.(db);
      return "text";
    };
    const ended = await tx.complete(effect, work).catch((error: unknown) => error);
    proxy.fate = () => "pass";
    proxy.incoming = "serve";
    const seen = (await bank.charges()).filter(({ key }) => key === effect.key).length;
    const again = await tx.complete({ ...effect, tries: 2 }, work);
    expect(again).toBe("text");
    expect((await bank.charges()).filter(({ key }) => key === effect.key)).toHaveLength(1);
    // No connection is lost to the pool.
    await Promise.all(Array.from({ length: 8 }, () => pool.query("SELECT 1")));
    expect(pool.totalCount - pool.idleCount).toBe(0);
    await pool.end();
    return { ended, seen, runs };
  }

  test.each([
    ["terminate", "STORE_UNAVAILABLE", "57P01"],
    ["cancel", "STORE_FAILED", "57014"],
  ])(
    "S9.6 pg_%s_backend while the journal is looked for isn't taken for a wrong option `journal`",
    async (how, code, sqlstate) => {
      const pool = poolOn(URL_OF_TESTS, own.name);
      const tx = pgTransactions(pool, { schema: own.name, createTable: false });
      const journal = { isOf: () => true, probe: `SELECT pg_${how}_backend(pg_backend_pid()), pg_sleep(10)` };
      const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
      const error: unknown = await tx.complete(effect, () => "text", journal as never).catch((refused: unknown) => refused);
      expect(error).toMatchObject({ code, data: { sqlstate } });
      await pool.end();
    },
  );

  test("S9.6 COMMIT is carried out, its answer lost: the key is found, and it is done", async () => {
    expect(await charged(() => (proxy.fate = nth(1, isCommitAnswer, "cut")))).toEqual({ ended: "text", seen: 1, runs: 1 });
  });

  test("S9.6 COMMIT never arrives: it surely didn't happen, and the next run does it", async () => {
    const { ended, seen, runs } = await charged(() => (proxy.fate = nth(1, isCommit, "cut")));
    expect(ended).toBeInstanceOf(Error);
    expect((ended as { code?: string }).code).not.toBe("COMMIT_IN_DOUBT");
    expect([seen, runs]).toEqual([0, 2]);
  });

  test("S9.6 COMMIT arrives late, when its sender has already been told that the connection is lost: once", async () => {
    const { ended, runs } = await charged(() => (proxy.fate = nth(1, isCommit, { lateBy: 400 })));
    // A claim waits for the open transaction.
    expect([ended, runs]).toEqual(["text", 1]);
  });

  test("S9.6 COMMIT is carried out, and the server can't be reached then: in doubt, and settled by the next run", async () => {
    const { ended, seen, runs } = await charged(() => {
      const lost = nth(1, isCommitAnswer, "cut");
      proxy.fate = (message) => {
        const fate = lost(message);
        if (fate !== "pass") proxy.incoming = "refuse";
        return fate;
      };
    });
    expect(ended).toMatchObject({ code: "COMMIT_IN_DOUBT" });
    expect([seen, runs]).toEqual([1, 1]);
  });

  test("S9.6 the connection ends between two statements: rolled back, and nothing unhandled", async () => {
    const terminated = async (db: PoolClient): Promise<void> => {
      if (isFirst) {
        isFirst = false;
        const { rows } = await db.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
        await own.pool.query("SELECT pg_terminate_backend($1)", [rows[0]!.pid]);
        await new Promise((done) => setTimeout(done, 100));
      }
    };
    let isFirst = true;
    const { ended, seen, runs } = await charged(() => undefined, terminated);
    expect(ended).toBeInstanceOf(Error);
    expect([seen, runs]).toEqual([0, 2]);
  });

  test.each([1, 2, 3, 4, 5, 6, 7, 8])("S9.6 message %i of the client is lost: it happens once", async (number) => {
    const asks = ({ from, type }: { from: string; type: string }): boolean => from === "client" && "QPBES".includes(type);
    await charged(() => (proxy.fate = nth(number, asks, "cut")));
    await charged(() => (proxy.fate = nth(number, asks, "cut-after")));
  });

  /** The server ends some connections as soon as it has accepted them: the error arrives before anybody has the client. */
  function endingAtOnce(pool: Pool, connections: number) {
    const seen = { unheard: 0, left: connections };
    pool.on("connect", (client) => {
      if ((seen.left -= 1) < 0) return;
      queueMicrotask(() => {
        try {
          const ended = { code: "57P01", severity: "FATAL" };
          (client as any)._handleErrorEvent(Object.assign(new Error("terminating connection"), ended));
        } catch {
          seen.unheard += 1;
        }
      });
    });
    return seen;
  }

  test("S9.6 connections that the server ends at once don't end the process, and others take their place", async () => {
    const pool = poolOn(URL_OF_TESTS, own.name);
    const tx = pgTransactions(pool, { schema: own.name, createTable: false });
    const seen = endingAtOnce(pool, 3);
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    await expect(tx.find(effect).catch(() => undefined)).resolves.toBeUndefined();
    let runs = 0;
    expect(await tx.complete(effect, async () => `text ${(runs += 1)}`)).toBe("text 1");
    expect(seen.unheard).toBe(0);
    expect(pool.totalCount - pool.idleCount).toBe(0);
    await pool.end();
  });

  test("S9.6 what a client of the pool has left uncommitted isn't committed with an effect", async () => {
    const pool = poolOn(URL_OF_TESTS, own.name);
    pool.options.max = 1;
    const tx = pgTransactions(pool, { schema: own.name, createTable: false });
    await pool.query("CREATE TABLE left_open (id text)");
    const client = await pool.connect();
    await client.query("BEGIN; INSERT INTO left_open VALUES ('half done')");
    client.release();
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    expect(await tx.complete(effect, async () => "text")).toBe("text");
    const { rows } = await pool.query("SELECT count(*)::int AS n FROM left_open");
    await pool.query("DROP TABLE left_open");
    expect(rows).toEqual([{ n: 0 }]);
    expect(await tx.find(effect)).toBeDefined();
    await pool.end();
  });

  test("S9.6 a server that ends all connections at once: an error with a code, nothing was done, and the same works later", async () => {
    const pool = poolOn(URL_OF_TESTS, own.name);
    const tx = pgTransactions(pool, { schema: own.name, createTable: false });
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    expect(await tx.find(effect)).toBeUndefined();
    await pool.query("SELECT pg_terminate_backend(pg_backend_pid())").catch(() => undefined);
    const seen = endingAtOnce(pool, 1_000);
    const caught = await refusal(tx.complete(effect, () => "text"));
    expect(caught).toMatchObject({ code: "STORE_UNAVAILABLE", message: expect.stringMatching(/not queryable|terminat/) });
    expect(seen.unheard).toBe(0);
    seen.left = 0;
    expect(await tx.complete({ ...effect, tries: 2 }, () => "text")).toBe("text");
    expect(pool.totalCount - pool.idleCount).toBe(0);
    await pool.end();
  });

  test("S9.6 the first effect of a process says STORE_UNAVAILABLE or STORE_BUSY as every other does, and looks for its table again", async () => {
    const pool = poolOn(proxy.url, own.name);
    const tx = pgTransactions(pool, { schema: own.name, createTable: false });
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    proxy.incoming = "refuse";
    try {
      expect(await refusal(tx.complete(effect, () => "text"))).toMatchObject({ code: "STORE_UNAVAILABLE" });
    } finally {
      proxy.incoming = "serve";
    }
    const other = await own.pool.connect();
    await other.query(`BEGIN; LOCK TABLE ${own.name}.turns_completions`);
    const client = await pool.connect();
    await client.query("SET lock_timeout = '50ms'");
    client.release();
    try {
      expect(await refusal(tx.complete(effect, () => "text"))).toMatchObject({ code: "STORE_BUSY", data: { sqlstate: "55P03" } });
    } finally {
      await other.query("COMMIT");
      other.release();
    }
    expect(await tx.complete(effect, () => "text")).toBe("text");
    await pool.end();
  });

  test("S9.6 any number of adapters of one pool listen to it once", async () => {
    const pool = poolOn(URL_OF_TESTS, own.name);
    const before = pool.listenerCount("connect");
    for (let at = 0; at < 15; at += 1) pgTransactions(pool, { schema: own.name });
    expect(pool.listenerCount("connect") - before).toBe(1);
    drizzleTransactions(drizzle({ client: pool }));
    expect(pool.listenerCount("connect") - before).toBe(1);
    await pool.end();
  });

  test("S9.6 Drizzle: a connection that ends between two statements doesn't end the process", async () => {
    const pool = poolOn(URL_OF_TESTS, own.name);
    const tx = drizzleTransactions(drizzle({ client: pool }), { schema: own.name, createTable: false });
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    const listeners: number[] = [];
    await tx.complete(effect, async (db) => {
      listeners.push((db as any).session.client.listenerCount("error"));
      return "text";
    });
    expect(listeners).toEqual([1]);
    await pool.end();
  });

  test("S9.6 a statement that failed and was caught: nothing is committed, and that is told", async () => {
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    const caught = await refusal(
      bank.tx.complete(effect, async (db: PoolClient) => {
        await bank.charge(db, effect.key, 1);
        await db.query("SELECT 1 / 0").catch(() => undefined);
        return "text";
      }),
    );
    expect(caught).toMatchObject({ code: "STORE_FAILED", cause: { code: "25P02" } });
    expect(await bank.tx.find(effect)).toBeUndefined();
  });

  test("S9.6 a statement that fails after the result, awaited by nobody: COMMIT's answer is read", async () => {
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    const caught = await refusal(
      bank.tx.complete(effect, async (db: PoolClient) => {
        await bank.charge(db, effect.key, 1);
        // Sent after the row is complete, and before COMMIT.
        const query = db.query.bind(db) as (...args: unknown[]) => Promise<unknown>;
        db.query = ((...args: unknown[]) => {
          const made = query(...args);
          if (String(args[0]).includes("'done'")) query("SELECT 1 / 0").catch(() => undefined);
          return made.finally(() => (db.query = query as never));
        }) as never;
        return "text";
      }),
    );
    expect(caught.message).toContain("answered COMMIT with ROLLBACK");
    expect(await bank.tx.find(effect)).toBeUndefined();
    expect((await bank.charges()).filter(({ key }) => key === effect.key)).toEqual([]);
  });

  test("S9.6 a constraint that is checked at COMMIT: rolled back, and its error is told", async () => {
    await bank.sql("CREATE TABLE deferred (id int PRIMARY KEY, of int REFERENCES deferred DEFERRABLE INITIALLY DEFERRED)");
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    const work = async (db: PoolClient) => (await db.query("INSERT INTO deferred VALUES (1, 2)"), "text");
    expect(await refusal(bank.tx.complete(effect, work))).toMatchObject({ code: "STORE_FAILED", cause: { code: "23503" } });
    expect(await bank.tx.find(effect)).toBeUndefined();
  });

  test("S9.6 a function that commits by itself is noticed when its key is looked up", async () => {
    const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    const work = async (db: PoolClient) => {
      await db.query("COMMIT");
      throw new Error("killed");
    };
    await refusal(bank.tx.complete(effect, work));
    expect(await refusal(bank.tx.find(effect))).toMatchObject({ code: "STATE_INVARIANT_VIOLATED" });
  });

  test("S9.6 eight adapters create the table at once, 10 rounds", async () => {
    for (let round = 0; round < 10; round++) {
      const table = `race_${round}`;
      const all = Array.from({ length: 8 }, (_, index) =>
        bank.adapter({ table }).complete({ key: `k${index}`, threadId: "t", name: "e", tries: 1 }, () => "x"),
      );
      expect(await Promise.all(all)).toHaveLength(8);
    }
  });

  test("S9.6 a role that may not create tables works with a table that is there, and is told of one that isn't", async () => {
    const one = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
    await own.pool.query(`REVOKE CREATE ON SCHEMA ${own.name} FROM CURRENT_USER`);
    try {
      expect(await bank.adapter().complete(one, () => "x")).toBe("x");
      expect(await refusal(bank.adapter({ table: "missing" }).complete(one, () => "x"))).toMatchObject({
        code: "COMPLETIONS_UNAVAILABLE",
        cause: { code: "42501" },
      });
    } finally {
      await own.pool.query(`GRANT CREATE ON SCHEMA ${own.name} TO CURRENT_USER`);
    }
  });
});

describe.each(POSTGRES_LIBRARIES)("a connection that is lost within a transaction, by $name", (library) => {
  const test = testOf(library);
  let bank: Bank;
  beforeAll(async () => (bank = await library.open()));
  afterAll(() => bank.close());

  /** The server ends the connection that has just charged. */
  async function lost(): Promise<void> {
    const ended = await bank.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE state = 'idle in transaction' AND query ILIKE 'insert into%${bank.env["BANK_SCHEMA"]}%charges%'`,
    );
    expect(ended).toHaveLength(1);
    await new Promise((done) => setTimeout(done, 200));
  }

  const own = new RangeError("insufficient funds");
  const reset = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
  const unreached = expect.objectContaining({ code: "STORE_UNAVAILABLE" }) as unknown;
  const rest = {
    "the function has returned": { then: () => "text", meets: unreached },
    "its next statement meets it": { then: (db: unknown, key: string) => bank.charge(db, key, 8), meets: unreached },
    "its next statement meets a network's error": { then: () => Promise.reject(reset), meets: unreached },
    "the function throws an error of its own": { then: () => Promise.reject(own), meets: own },
  } as const;

  test.each(Object.entries(rest))(
    "S9.6 %s: the right error is thrown, and the next run does it once",
    async (_, { then, meets }) => {
      const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
      const caught = await refusal(
        bank.tx.complete(effect, async (db) => {
          await bank.charge(db, effect.key, 7);
          await lost();
          await then(db, effect.key);
          return "text";
        }),
      );
      expect(caught).toEqual(meets);
      const again = async (db: unknown) => (await bank.charge(db, effect.key, 7), "again");
      expect(await bank.tx.complete({ ...effect, tries: 2 }, again)).toBe("again");
      expect((await bank.charges()).filter(({ key }) => key === effect.key)).toHaveLength(1);
    },
  );
});
