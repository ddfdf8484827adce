import { randomUUID } from "node:crypto";
import Database from "better-sqlite3";
import { eq } from "drizzle-orm";
import { drizzle as drizzleSqlite } from "drizzle-orm/better-sqlite3";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import knexBy from "knex";
import { Kysely, SqliteDialect } from "kysely";

import {
  type DialectOptions,
  drizzleTransactions,
  knexTransactions,
  kyselyTransactions,
  sqliteTransactions,
  type Transactions,
} from "langgraph-checkpoint-turns/transactions";
import { tempFile } from "../support/temp";

/** A user's database with a table of charges, reached by a library. */
export interface Bank {
  /** How a process finds it. */
  env: Record<string, string>;
  tx: Transactions<any, boolean>;
  /** Another adapter on the same database. */
  adapter(options?: DialectOptions): Transactions<any, boolean>;
  charge(db: any, key: string, cents: number): unknown;
  refund(db: any, key: string): unknown;
  /** As another connection sees it. */
  charges(): Promise<{ key: string; cents: number }[]>;
  sql(text: string): Promise<any[]>;
  /** From now on no transaction can begin. Its function lets them begin again. */
  occupied(): Promise<() => Promise<unknown>>;
  close(): Promise<unknown>;
}

/** A library, and how a test gets a bank by it. With `patienceMs`, it waits no longer for the database than that. */
export interface Library {
  name: string;
  open(patienceMs?: number): Promise<Bank>;
}

export const CHARGES = "CREATE TABLE charges (key text NOT NULL, cents integer NOT NULL)";
export const freshTable = (): string => `completions_${randomUUID().replaceAll("-", "_").slice(0, 20)}`;

export interface Tables {
  charges: { key: string; cents: number };
}
const charges = sqliteTable("charges", { key: text().notNull(), cents: integer().notNull() });

function onSqlite<T>(path: string, rest: Pick<Bank, "adapter" | "charge" | "refund"> & { close: () => T | Promise<T> }): Bank {
  const other = new Database(path);
  const sql = async (statement: string): Promise<any[]> => {
    const prepared = other.prepare(statement);
    return prepared.reader ? prepared.all() : [prepared.run()];
  };
  return {
    ...rest,
    env: { BANK: path },
    tx: rest.adapter(),
    sql,
    charges: () => sql("SELECT key, cents FROM charges ORDER BY rowid"),
    occupied: async () => {
      other.exec("BEGIN IMMEDIATE");
      return async () => other.exec("COMMIT");
    },
    close: async () => {
      other.close();
      await rest.close();
    },
  };
}

function database(patienceMs = 5_000): { path: string; db: Database.Database } {
  const path = tempFile();
  const db = new Database(path, { timeout: patienceMs });
  db.pragma("journal_mode = WAL");
  db.exec(CHARGES);
  return { path, db };
}

export const SQLITE_LIBRARIES: readonly Library[] = [
  {
    name: "better-sqlite3",
    open: async (patienceMs) => {
      const { path, db } = database(patienceMs);
      return onSqlite(path, {
        adapter: (options) => sqliteTransactions(db, options),
        charge: (tx: typeof db, key, cents) => tx.prepare("INSERT INTO charges VALUES (?, ?)").run(key, cents),
        refund: (tx: typeof db, key) => tx.prepare("DELETE FROM charges WHERE key = ?").run(key),
        close: () => db.close(),
      });
    },
  },
  {
    name: "Drizzle on better-sqlite3",
    open: async (patienceMs) => {
      const { path, db: client } = database(patienceMs);
      const db = drizzleSqlite({ client });
      return onSqlite(path, {
        adapter: (options) => drizzleTransactions(db, options),
        charge: (tx: typeof db, key, cents) => tx.insert(charges).values({ key, cents }).run(),
        refund: (tx: typeof db, key) => tx.delete(charges).where(eq(charges.key, key)).run(),
        close: () => client.close(),
      });
    },
  },
  {
    name: "Kysely on SQLite",
    open: async (patienceMs) => {
      const { path, db: client } = database(patienceMs);
      const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database: client }) });
      return onSqlite(path, {
        adapter: (options) => kyselyTransactions(db, { dialect: "sqlite", ...options }),
        charge: (tx: typeof db, key, cents) => tx.insertInto("charges").values({ key, cents }).execute(),
        refund: (tx: typeof db, key) => tx.deleteFrom("charges").where("key", "=", key).execute(),
        close: () => db.destroy(),
      });
    },
  },
  {
    name: "Knex on better-sqlite3",
    open: async (patienceMs) => {
      const { path, db: client } = database(patienceMs);
      client.close();
      const db = knexBy({ client: "better-sqlite3", connection: { filename: path }, useNullAsDefault: true });
      if (patienceMs !== undefined) await db.raw(`PRAGMA busy_timeout = ${patienceMs}`);
      return onSqlite(path, {
        adapter: (options) => knexTransactions(db, { dialect: "sqlite", ...options }),
        charge: (tx: typeof db, key, cents) => tx("charges").insert({ key, cents }),
        refund: (tx: typeof db, key) => tx("charges").where({ key }).del(),
        close: () => db.destroy(),
      });
    },
  },
];

/** What follows, whether the library is synchronous or not. */
export function then<T>(made: unknown, next: () => T): T | Promise<T> {
  return typeof (made as PromiseLike<unknown> | undefined)?.then === "function" ? Promise.resolve(made).then(next) : next();
}
