import type { Transactions } from "../effects/transactional";
import { checkedHandle, Completions, numbered, type Row, type TransactionsOptions } from "./completions";
import { begun, listenTo, type PgClient, type PgPool, queried, released } from "./pg-pool";

/**
 * Transactions on PostgreSQL by `pg`. `run` gets the transaction's client.
 *
 * @param pool it stays yours: nothing here ends it
 * @throws {TurnsError} INVALID_OPTION
 */
export function pgTransactions<Client extends PgClient>(
  pool: PgPool<Client>,
  options?: TransactionsOptions,
): Transactions<Client> {
  checkedHandle("pgTransactions", pool, ["connect", "query"], "a Pool of pg");
  listenTo(pool);
  const transaction = async <T>(work: (client: Client) => T | Promise<T>): Promise<T> => {
    const client = await begun(pool);
    let isBroken = true;
    try {
      const result = await Promise.resolve(client)
        .then(work)
        .catch(async (error: unknown) => {
          await client.query("ROLLBACK");
          isBroken = false;
          throw error;
        });
      const { command } = await client.query("COMMIT");
      // PostgreSQL answers so, without an error, if a statement had failed that nobody awaited.
      if (command !== "COMMIT") throw new Error(`PostgreSQL answered COMMIT with ${command}`);
      isBroken = false;
      return result;
    } finally {
      released(client, isBroken);
    }
  };
  const query = async (client: Client | undefined, sql: string, values: readonly unknown[]): Promise<Row[]> =>
    client === undefined ? queried(pool, numbered(sql), [...values]) : (await client.query(numbered(sql), [...values])).rows;
  return new Completions({ dialect: "postgres", isSync: false, transaction, query }, options);
}
