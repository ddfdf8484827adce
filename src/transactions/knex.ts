import type { Transactions } from "../effects/transactional";
import { checkedHandle, Completions, type DialectOptions, type Row, type Value } from "./completions";

/** What is needed of Knex and of its transactions. */
interface KnexQueries {
  raw(sql: string, bindings: Value[]): PromiseLike<unknown>;
}
interface KnexDatabase<Trx> extends KnexQueries {
  transaction<T>(work: (trx: Trx) => Promise<T>): Promise<T>;
}

/** Transactions by Knex, on PostgreSQL or SQLite. `run` gets the `Knex.Transaction`. @throws {TurnsError} INVALID_OPTION */
export function knexTransactions<Trx extends KnexQueries>(
  db: KnexDatabase<Trx>,
  options: DialectOptions = {},
): Transactions<Trx> {
  checkedHandle("knexTransactions", db, ["transaction", "raw"], "what knex({ … }) returned");
  const { dialect = "postgres" } = options;
  const query = async (trx: Trx | undefined, sql: string, values: readonly Value[]): Promise<Row[]> => {
    const result = await (trx ?? db).raw(sql, [...values]);
    return (Array.isArray(result) ? result : ((result as { rows?: unknown }).rows ?? [])) as Row[];
  };
  const transaction = <T>(work: (trx: Trx) => T | Promise<T>): Promise<T> => db.transaction(async (trx) => work(trx));
  return new Completions({ dialect, isSync: false, transaction, query }, options);
}
