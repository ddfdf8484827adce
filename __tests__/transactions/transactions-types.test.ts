import type Database from "better-sqlite3";
import type { BetterSQLite3Database } from "drizzle-orm/better-sqlite3";
import type { NodePgDatabase } from "drizzle-orm/node-postgres";
import type { Knex } from "knex";
import type { Kysely, Transaction } from "kysely";
import { type DefinedEffect, defineEffect } from "langgraph-checkpoint-turns";
import {
  drizzleTransactions,
  knexTransactions,
  kyselyTransactions,
  pgTransactions,
  prismaTransactions,
  sqliteTransactions,
} from "langgraph-checkpoint-turns/transactions";
import type { Pool, PoolClient } from "pg";

interface Tables {
  charges: { key: string; cents: number };
}
interface Receipt {
  id: number;
}
/** A client as Prisma generates it. */
interface PrismaClient {
  $queryRawUnsafe<T = unknown>(sql: string, ...values: any[]): Promise<T>;
  $executeRawUnsafe(sql: string, ...values: any[]): Promise<number>;
  $transaction<P extends Promise<any>[]>(arg: [...P], options?: { isolationLevel?: string }): Promise<unknown>;
  $transaction<R>(work: (tx: Omit<PrismaClient, "$transaction">) => Promise<R>, options?: { timeout?: number }): Promise<R>;
  charge: { create(args: { data: { key: string; cents: number } }): Promise<{ key: string; cents: number }> };
}

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>): void => undefined;

/** Compiled, never called: strict TypeScript infers all of it from the adapter and from `run`. */
export function types(
  pool: Pool,
  sqlite: Database.Database,
  kysely: Kysely<Tables>,
  drizzlePg: NodePgDatabase,
  drizzleSqlite: BetterSQLite3Database,
  knex: Knex,
  prisma: PrismaClient,
): unknown {
  const charge = defineEffect("types", {
    tx: pgTransactions(pool),
    run: async (input: { cents: number }, { db, key }) => {
      same<typeof db, PoolClient>(true);
      const { rows } = await db.query<Receipt>("insert …", [key, input.cents]);
      return rows[0] as Receipt;
    },
    undo: async ({ db, key, input, result, effect }) => {
      same<typeof db, PoolClient>(true);
      same<typeof result, Receipt>(true);
      await db.query("delete …", [key, input.cents.toFixed(), result.id, effect.threadId]);
    },
    onError: (error) => (error instanceof RangeError ? "final" : "retryable"),
  });
  same<typeof charge, DefinedEffect<{ cents: number }, Receipt>>(true);
  const receipt: Promise<Receipt> = charge({ cents: 5 }, { id: "1" });
  // @ts-expect-error -- another input
  void charge({ cent: 5 });

  const none: DefinedEffect<void, number> = defineEffect("types", {
    tx: pgTransactions(pool),
    run: async (_, { key }) => key.length,
    undo: false,
  });
  void none();
  const detailed = defineEffect("types", {
    tx: pgTransactions(pool),
    run: async (input: { a: 1 }) => ({ b: 2, input }),
    undo: { run: ({ result }) => result.b.toFixed(), probe: ({ result, input }) => result.b === input.a, idempotent: true },
  });

  const counted = defineEffect("types", {
    tx: sqliteTransactions(sqlite),
    run: (input: { cents: number }, { db, key }) => {
      same<typeof db, Database.Database>(true);
      return db.prepare("insert …").run(key, input.cents).changes;
    },
    undo: ({ db, result }) => void db.prepare("delete …").run(result.toFixed()),
  });
  same<typeof counted, DefinedEffect<{ cents: number }, number>>(true);
  // @ts-expect-error -- a promise on a synchronous driver
  defineEffect("types", { tx: sqliteTransactions(sqlite), run: async (_: void, { key }) => key });

  const byKysely = defineEffect("types", {
    tx: kyselyTransactions(kysely),
    run: async ({ cents }: { cents: number }, { db, key }) => {
      same<typeof db, Transaction<Tables>>(true);
      return db.insertInto("charges").values({ key, cents }).returning("key").executeTakeFirstOrThrow();
    },
    undo: ({ db, result }) => db.deleteFrom("charges").where("key", "=", result.key).execute(),
  });
  same<typeof byKysely, DefinedEffect<{ cents: number }, { key: string }>>(true);

  const byDrizzle = defineEffect("types", {
    tx: drizzleTransactions(drizzlePg),
    run: async (_: void, { db }) => {
      same<typeof db, Parameters<Parameters<NodePgDatabase["transaction"]>[0]>[0]>(true);
      return (await db.execute("select 1")).rowCount;
    },
    undo: async ({ db }) => void (await db.execute("select 1")),
  });
  const byDrizzleSqlite = defineEffect("types", {
    tx: drizzleTransactions(drizzleSqlite),
    run: (_: void, { db }) => db.run("select 1").changes,
    undo: ({ db }) => db.run("select 1").changes,
  });
  // @ts-expect-error -- a promise on a synchronous driver
  defineEffect("types", { tx: drizzleTransactions(drizzleSqlite), run: async (_: void, { db }) => db.run("select 1").changes });

  const byKnex = defineEffect("types", {
    tx: knexTransactions(knex, { dialect: "sqlite" }),
    run: async (cents: number, { db, key }) => {
      same<typeof db, Knex.Transaction>(true);
      await db<Tables["charges"]>("charges").insert({ key, cents });
    },
    undo: ({ db, key }) => db("charges").where({ key }).del(),
  });
  same<typeof byKnex, DefinedEffect<number, void>>(true);
  const byPrisma = defineEffect("types", {
    tx: prismaTransactions(prisma),
    run: async (cents: number, { db, key }) => db.charge.create({ data: { key, cents } }),
    undo: ({ db, result }) => db.charge.create({ data: { ...result, cents: -result.cents } }),
  });
  same<typeof byPrisma, DefinedEffect<number, Tables["charges"]>>(true);

  // @ts-expect-error -- not a pool
  pgTransactions(sqlite);
  // @ts-expect-error -- no such option
  pgTransactions(pool, { tabel: "x" });
  // @ts-expect-error -- SQLite has no schemas
  sqliteTransactions(sqlite, { schema: "x" });
  // @ts-expect-error -- a pool alone is no adapter
  defineEffect("types", { tx: pool, run: async () => 1 });
  // @ts-expect-error -- its key is looked up, so it has no probe
  defineEffect("types", { tx: pgTransactions(pool), run: async () => 1, probe: () => 1 });
  // @ts-expect-error -- a transaction is never in doubt by its error
  defineEffect("types", { tx: pgTransactions(pool), run: async () => 1, onError: "unknown" });
  // @ts-expect-error -- an undo that takes the result for something else
  defineEffect("types", { tx: pgTransactions(pool), run: async () => 5, undo: ({ result }) => result.length });
  // @ts-expect-error -- a plain effect has no transaction
  defineEffect("types", { run: (_: void, { db }) => db });
  const undos: readonly DefinedEffect[] = [charge, counted, byKysely, byDrizzle, byDrizzleSqlite, byKnex, byPrisma];
  return [receipt, detailed, undos];
}

test("S9.6 the types of db, input, result and undo follow from the adapter and run, without a cast", () => {
  expect(types).toHaveLength(7);
});
