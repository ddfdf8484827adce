import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { defineEffect } from "langgraph-checkpoint-turns";
import { type DialectOptions, prismaTransactions } from "langgraph-checkpoint-turns/transactions";
import { Pool } from "pg";
import { transactionsHold } from "../transactions/tx-contract";
import { CHARGES } from "../transactions/tx-world";

/** Prisma isn't among the packages of this one: see scripts/prisma.mjs. Without a registry its tests are skipped, and counted. */
const ROOT = join(__dirname, "..", "..");
const url = process.env["TURNS_PG_URL"] ?? "";
const isThere =
  process.env["TURNS_WITHOUT_PRISMA"] !== "1" &&
  spawnSync(process.execPath, [join(ROOT, "scripts", "prisma.mjs")], { stdio: ["ignore", "ignore", "inherit"] }).status === 0;

(isThere ? describe : describe.skip)("transactional effects by Prisma", () => {
  transactionsHold({
    name: "Prisma",
    open: async () => {
      const schema = `tx_${randomUUID().replaceAll("-", "").slice(0, 20)}`;
      const pool = new Pool({ connectionString: url, options: `-c search_path=${schema}` });
      await pool.query(`CREATE SCHEMA ${schema}`);
      await pool.query(CHARGES);
      const load = createRequire(join(ROOT, ".tmp", "prisma", "index.js"));
      const { PrismaClient } = load("@prisma/client");
      const { PrismaPg } = load("@prisma/adapter-pg");
      const client = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }, { schema }) });
      const adapter = (options?: DialectOptions) => prismaTransactions<any>(client, { schema, ...options });
      const sql = async (statement: string) => (await pool.query(statement)).rows as any[];
      return {
        adapter,
        tx: adapter(),
        charge: (db, key, cents) => db.charge.create({ data: { key, cents } }),
        refund: (db, key) => db.charge.delete({ where: { key } }),
        sql,
        charges: () => sql("SELECT key, cents FROM charges ORDER BY ctid"),
        close: async () => {
          await client.$disconnect();
          await pool.query(`DROP SCHEMA ${schema} CASCADE`);
          await pool.end();
        },
      };
    },
  });
});

/** A client as Prisma generates it. */
interface PrismaClient {
  $queryRawUnsafe<T = unknown>(sql: string, ...values: any[]): Promise<T>;
  $executeRawUnsafe(sql: string, ...values: any[]): Promise<number>;
  $transaction<P extends Promise<any>[]>(arg: [...P], options?: { isolationLevel?: string }): Promise<unknown>;
  $transaction<R>(work: (tx: Omit<PrismaClient, "$transaction">) => Promise<R>, options?: { timeout?: number }): Promise<R>;
  charge: { create(args: { data: { key: string; cents: number } }): Promise<{ key: string; cents: number }> };
}

/** Compiled, never called. */
export function types(client: PrismaClient): unknown {
  return defineEffect("types", {
    tx: prismaTransactions(client),
    run: async (cents: number, { db, key }) => db.charge.create({ data: { key, cents } }),
    undo: ({ db, result }) => db.charge.create({ data: { ...result, cents: -result.cents } }),
  });
}
