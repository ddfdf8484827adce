import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable, text } from "drizzle-orm/pg-core";
import knexBy from "knex";
import { Kysely, PostgresDialect } from "kysely";
import {
  type DialectOptions,
  drizzleTransactions,
  knexTransactions,
  kyselyTransactions,
  pgTransactions,
  prismaTransactions,
} from "langgraph-checkpoint-turns/transactions";
import { Pool, type PoolClient } from "pg";
import { type Bank, CHARGES, type Library, type Tables } from "./tx-world";

/** Banks on the PostgreSQL server of the tests. */
const ROOT = join(__dirname, "..", "..");
export const URL_OF_TESTS = process.env["TURNS_PG_URL"] ?? "";

/** A pool whose connections have a schema of their own as their default. */
export async function schemaOfOwn(name = `tx_${randomUUID().replaceAll("-", "").slice(0, 20)}`) {
  const pool = poolOn(URL_OF_TESTS, name);
  await pool.query(`CREATE SCHEMA IF NOT EXISTS ${name}`);
  await pool.query(CHARGES.replace("TABLE", "TABLE IF NOT EXISTS"));
  return { name, pool };
}

export function poolOn(url: string, schema: string): Pool {
  const pool = new Pool({ connectionString: url, options: `-c search_path=${schema}`, max: 8 });
  pool.on("error", () => undefined);
  return pool;
}

export type Own = { pool: Pool; name: string };
function onPostgres({ pool, name }: Own, rest: Pick<Bank, "charge" | "refund" | "adapter"> & { close?: () => unknown }): Bank {
  const adapter = (options?: DialectOptions) => rest.adapter({ schema: name, ...options });
  const sql = async (statement: string) => (await pool.query(statement)).rows;
  return {
    ...rest,
    adapter,
    env: { BANK: URL_OF_TESTS, BANK_SCHEMA: name },
    tx: adapter(),
    sql,
    charges: () => sql("SELECT key, cents FROM charges ORDER BY ctid"),
    close: async () => {
      await pool.query(`DROP SCHEMA ${name} CASCADE`);
      await rest.close?.();
      if (!pool.ended) await pool.end();
    },
  };
}

export const byPg = (own: Own): Bank =>
  onPostgres(own, {
    adapter: (options) => pgTransactions(own.pool, options),
    charge: (db: PoolClient, key, cents) => db.query("INSERT INTO charges VALUES ($1, $2)", [key, cents]),
    refund: (db: PoolClient, key) => db.query("DELETE FROM charges WHERE key = $1", [key]),
  });

const charges = pgTable("charges", { key: text().notNull(), cents: integer().notNull() });
export const POSTGRES_LIBRARIES: readonly Library[] = [
  { name: "pg", open: async () => byPg(await schemaOfOwn()) },
  {
    name: "Kysely on PostgreSQL",
    open: async () => {
      const own = await schemaOfOwn();
      const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: own.pool }) });
      return onPostgres(own, {
        adapter: (options) => kyselyTransactions(db, options),
        charge: (tx: typeof db, key, cents) => tx.insertInto("charges").values({ key, cents }).execute(),
        refund: (tx: typeof db, key) => tx.deleteFrom("charges").where("key", "=", key).execute(),
      });
    },
  },
  {
    name: "Drizzle on node-postgres",
    open: async () => {
      const own = await schemaOfOwn();
      const db = drizzle({ client: own.pool });
      return onPostgres(own, {
        adapter: (options) => drizzleTransactions(db, options),
        charge: (tx: typeof db, key, cents) => tx.insert(charges).values({ key, cents }),
        refund: (tx: typeof db, key) => tx.delete(charges).where(eq(charges.key, key)),
      });
    },
  },
  {
    name: "Knex on pg",
    open: async () => {
      const own = await schemaOfOwn();
      const db = knexBy({ client: "pg", connection: URL_OF_TESTS, searchPath: [own.name] });
      return onPostgres(own, {
        adapter: (options) => knexTransactions(db, options),
        charge: (tx: typeof db, key, cents) => tx("charges").insert({ key, cents }),
        refund: (tx: typeof db, key) => tx("charges").where({ key }).del(),
        close: () => db.destroy(),
      });
    },
  },
  {
    name: "Prisma",
    open: async () => {
      const own = await schemaOfOwn();
      const load = createRequire(join(ROOT, ".tmp", "prisma", "index.js"));
      const { PrismaClient } = load("@prisma/client");
      const { PrismaPg } = load("@prisma/adapter-pg");
      const client = new PrismaClient({ adapter: new PrismaPg({ connectionString: URL_OF_TESTS }, { schema: own.name }) });
      return onPostgres(own, {
        adapter: (options) => prismaTransactions<any>(client, options),
        charge: (db, key, cents) => db.charge.create({ data: { key, cents } }),
        refund: (db, key) => db.charge.delete({ where: { key } }),
        close: () => client.$disconnect(),
      });
    },
  },
];

/** Prisma isn't among the packages of this one. See scripts/prisma.mjs. */
export function hasPrisma(): boolean {
  if (process.env["TURNS_WITHOUT_PRISMA"] === "1" || process.env["TURNS_WITHOUT_POSTGRES"]) return false;
  return (
    spawnSync(process.execPath, [join(ROOT, "scripts", "prisma.mjs")], { stdio: ["ignore", "ignore", "inherit"] }).status === 0
  );
}
