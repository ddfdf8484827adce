import type { Transactions } from "../effects/transactional";
import { checkedHandle, Completions, type DialectOptions, type Row, type Value } from "./completions";

/** What is needed of Knex and of its transactions. */
interface KnexQueries {
  raw(sql: string, bindings: Value[]): PromiseLike<unknown>;
}
interface KnexDatabase<Trx> {
  raw(sql: string, bindings: Value[]): PromiseLike<unknown> & { connection(connection: unknown): PromiseLike<unknown> };
  transaction<T>(work: (trx: Trx) => Promise<T>, config: { connection: unknown }): Promise<T>;
  client: { acquireConnection(): Promise<unknown>; releaseConnection(connection: unknown): Promise<unknown> };
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
  const transaction = async <T>(work: (trx: Trx) => T | Promise<T>): Promise<T> => {
    const connection = await db.client.acquireConnection();
    let isWorkDone = false;
    try {
      return await db.transaction(
        async (trx) => {
          const result = await work(trx);
          isWorkDone = true;
          return result;
        },
        { connection },
      );
    } catch (error) {
      // If COMMIT fails, SQLite leaves the transaction open, and so does Knex: the pool's next user would be in it.
      if (isWorkDone) await Promise.resolve(db.raw("ROLLBACK", []).connection(connection)).catch(() => undefined);
      throw error;
    } finally {
      await db.client.releaseConnection(connection);
    }
  };
  return new Completions({ dialect, isSync: false, transaction, query }, options);
}
