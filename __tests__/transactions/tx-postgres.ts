import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgSchema, text } from "drizzle-orm/pg-core";
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
const DIRECT_URL = process.env["TURNS_PG_DIRECT_URL"] ?? URL_OF_TESTS;

/** How many connections a library has at most, if it is told how long to wait for one. */
const FEW = 2;
/** The options of a pool that waits so long for a connection. */
const patience = (patienceMs: number | undefined) =>
  patienceMs === undefined ? {} : { max: FEW, connectionTimeoutMillis: patienceMs };

/** A schema of its own with a pool for the libraries, and one of the server itself for what tests look at. */
export async function schemaOfOwn(patienceMs?: number) {
  const name = `tx_${randomUUID().replaceAll("-", "").slice(0, 20)}`;
  const direct = poolOn(DIRECT_URL, name);
  await direct.query(`CREATE SCHEMA IF NOT EXISTS ${name}`);
  await direct.query(CHARGES.replace("TABLE", "TABLE IF NOT EXISTS"));
  return { name, pool: poolOn(URL_OF_TESTS, name, patienceMs), direct };
}

/** Connections that have a schema as their default, except behind PgBouncer, which admits no such setting. */
export function poolOn(url: string, schema: string, patienceMs?: number): Pool {
  const isPooled = url === URL_OF_TESTS && url !== DIRECT_URL;
  const path = isPooled ? {} : { options: `-c search_path=${schema}` };
  const pool = new Pool({ connectionString: url, max: 8, ...path, ...patience(patienceMs) });
  pool.on("error", () => undefined);
  return pool;
}

export type Own = { pool: Pool; direct: Pool; name: string };
function onPostgres(
  { pool, direct, name }: Own,
  rest: Pick<Bank, "charge" | "refund" | "adapter"> & { close?: () => unknown },
): Bank {
  const adapter = (options?: DialectOptions) => rest.adapter({ schema: name, ...options });
  const sql = async (statement: string) => (await direct.query(statement)).rows;
  const tx = adapter();
  return {
    ...rest,
    adapter,
    env: { BANK: URL_OF_TESTS, BANK_SCHEMA: name },
    tx,
    sql,
    occupied: async () => {
      let release: (text: string) => void = () => undefined;
      const held = new Promise<string>((resolve) => (release = resolve));
      const ended: Promise<string>[] = [];
      for (let count = 0; count < FEW; count += 1) {
        await new Promise<void>((resolve) => {
          const effect = { key: randomUUID(), threadId: "t", name: "e", tries: 1 };
          ended.push(tx.complete(effect, () => (resolve(), held)));
        });
      }
      return () => (release("held"), Promise.all(ended));
    },
    charges: () => sql("SELECT key, cents FROM charges ORDER BY ctid"),
    close: async () => {
      await rest.close?.();
      await direct.query(`DROP SCHEMA ${name} CASCADE`);
      await direct.end();
      if (!pool.ended) await pool.end();
    },
  };
}

export const byPg = (own: Own): Bank =>
  onPostgres(own, {
    adapter: (options) => pgTransactions(own.pool, options),
    charge: (db: PoolClient, key, cents) => db.query(`INSERT INTO ${own.name}.charges VALUES ($1, $2)`, [key, cents]),
    refund: (db: PoolClient, key) => db.query(`DELETE FROM ${own.name}.charges WHERE key = $1`, [key]),
  });

export const POSTGRES_LIBRARIES: readonly Library[] = [
  { name: "pg", open: async (patienceMs) => byPg(await schemaOfOwn(patienceMs)) },
  {
    name: "Kysely on PostgreSQL",
    open: async (patienceMs) => {
      const own = await schemaOfOwn(patienceMs);
      // As docs/exactly-once.md asks for.
      own.pool.on("connect", (client) => client.on("error", () => undefined));
      const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: own.pool }) });
      const within = (tx: typeof db) => tx.withSchema(own.name);
      return onPostgres(own, {
        adapter: (options) => kyselyTransactions(db, options),
        charge: (tx: typeof db, key, cents) => within(tx).insertInto("charges").values({ key, cents }).execute(),
        refund: (tx: typeof db, key) => within(tx).deleteFrom("charges").where("key", "=", key).execute(),
      });
    },
  },
  {
    name: "Drizzle on node-postgres",
    open: async (patienceMs) => {
      const own = await schemaOfOwn(patienceMs);
      const db = drizzle({ client: own.pool });
      const charges = pgSchema(own.name).table("charges", { key: text().notNull(), cents: integer().notNull() });
      return onPostgres(own, {
        adapter: (options) => drizzleTransactions(db, options),
        charge: (tx: typeof db, key, cents) => tx.insert(charges).values({ key, cents }),
        refund: (tx: typeof db, key) => tx.delete(charges).where(eq(charges.key, key)),
      });
    },
  },
  {
    name: "Knex on pg",
    open: async (patienceMs) => {
      const own = await schemaOfOwn(patienceMs);
      const few = patienceMs === undefined ? {} : { pool: { min: 0, max: FEW }, acquireConnectionTimeout: patienceMs };
      const db = knexBy({ client: "pg", connection: URL_OF_TESTS, ...few });
      return onPostgres(own, {
        adapter: (options) => knexTransactions(db, options),
        charge: (tx: typeof db, key, cents) => tx("charges").withSchema(own.name).insert({ key, cents }),
        refund: (tx: typeof db, key) => tx("charges").withSchema(own.name).where({ key }).del(),
        close: () => db.destroy(),
      });
    },
  },
  {
    name: "Prisma",
    open: async (patienceMs) => {
      const own = await schemaOfOwn(patienceMs);
      const load = createRequire(join(ROOT, ".tmp", "prisma", "index.js"));
      const { PrismaClient } = load("@prisma/client");
      const { PrismaPg } = load("@prisma/adapter-pg");
      const client = new PrismaClient({
        adapter: new PrismaPg({ connectionString: URL_OF_TESTS, ...patience(patienceMs) }, { schema: own.name }),
      });
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
