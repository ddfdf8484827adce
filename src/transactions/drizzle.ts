import type { Transactions } from "../effects/transactional";
import { checkedHandle, Completions, type Row, type TransactionsOptions, type Value, withLiterals } from "./completions";
import { listenTo } from "./pg-pool";

/** What is needed of Drizzle on PostgreSQL, and of its transactions. */
interface DrizzlePgQueries {
  execute(query: string): PromiseLike<unknown>;
}
interface DrizzlePgDatabase<Tx> extends DrizzlePgQueries {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

/** What is needed of Drizzle on better-sqlite3, and of its transactions. */
interface DrizzleSqliteQueries {
  all(query: string): unknown[];
  run(query: string): unknown;
}
interface DrizzleSqliteDatabase<Tx> extends DrizzleSqliteQueries {
  transaction<T>(work: (tx: Tx) => T, config?: { behavior?: "immediate" }): T;
}

/**
 * Transactions by Drizzle, on PostgreSQL (node-postgres, postgres.js) or on better-sqlite3. `run` gets Drizzle's `tx`. With
 * better-sqlite3 it must be synchronous.
 *
 * @throws {TurnsError} INVALID_OPTION
 */
export function drizzleTransactions<Tx extends DrizzlePgQueries>(
  db: DrizzlePgDatabase<Tx>,
  options?: TransactionsOptions,
): Transactions<Tx>;
export function drizzleTransactions<Tx extends DrizzleSqliteQueries>(
  db: DrizzleSqliteDatabase<Tx>,
  options?: Omit<TransactionsOptions, "schema">,
): Transactions<Tx, true>;
export function drizzleTransactions(
  db: DrizzlePgDatabase<DrizzlePgQueries> | DrizzleSqliteDatabase<DrizzleSqliteQueries>,
  options?: TransactionsOptions,
): Transactions<DrizzlePgQueries> | Transactions<DrizzleSqliteQueries, true> {
  checkedHandle("drizzleTransactions", db, ["transaction"], "a database of drizzle()");
  if ("execute" in db) {
    listenTo((db as { $client?: unknown }).$client);
    const query = async (tx: DrizzlePgQueries | undefined, sql: string, values: readonly Value[]): Promise<Row[]> => {
      const result = await (tx ?? db).execute(withLiterals(sql, values, "postgres"));
      return (Array.isArray(result) ? result : (result as { rows: unknown }).rows) as Row[];
    };
    const transaction = <T>(work: (tx: DrizzlePgQueries) => T | Promise<T>): Promise<T> => db.transaction(async (tx) => work(tx));
    return new Completions<DrizzlePgQueries>({ dialect: "postgres", isSync: false, transaction, query }, options);
  }
  checkedHandle("drizzleTransactions", db, ["all", "run"], "a database of drizzle() on PostgreSQL or better-sqlite3");
  const query = (tx: DrizzleSqliteQueries | undefined, sql: string, values: readonly Value[]): readonly Row[] => {
    const text = withLiterals(sql, values, "sqlite");
    if (!text.startsWith("CREATE")) return (tx ?? db).all(text) as Row[];
    (tx ?? db).run(text);
    return [];
  };
  const transaction = <T>(work: (tx: DrizzleSqliteQueries) => T): T => db.transaction(work, { behavior: "immediate" });
  return new Completions<DrizzleSqliteQueries, true>({ dialect: "sqlite", isSync: true, transaction, query }, options);
}
