import type { Transactions } from "../effects/transactional";
import {
  checkedHandle,
  Completions,
  numbered,
  type Row,
  type TransactionsOptions,
  type Value,
  withLiterals,
} from "./completions";

/** What is needed of a client of `pg`. */
interface PgClient {
  query(sql: string, values?: unknown[]): Promise<{ rows: Row[]; command: string }>;
  release(error?: Error | boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** What is needed of a pool of `pg`. Its second `connect` tells TypeScript the type of the clients. */
interface PgPool<Client> {
  connect(): Promise<Client>;
  connect(callback: (error: Error | undefined, client: Client | undefined, done: (release?: unknown) => void) => void): void;
  query(sql: string, values?: unknown[]): Promise<{ rows: Row[] }>;
}

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
  const ignored = (): void => undefined;
  /** BEGIN is sent with the first statement: both in one round trip. */
  const opening = new WeakSet<Client>();
  const transaction = async <T>(work: (client: Client) => T | Promise<T>): Promise<T> => {
    const client = await pool.connect();
    // A connection that breaks between two statements would end the process. The next statement tells it.
    client.on("error", ignored);
    let isBroken = true;
    try {
      opening.add(client);
      const result = await Promise.resolve(client)
        .then(work)
        .catch(async (error: unknown) => {
          isBroken = await client.query("ROLLBACK").then(
            () => false,
            () => true,
          );
          throw error;
        });
      const { command } = await client.query("COMMIT");
      // PostgreSQL answers so, without an error, if a statement had failed that nobody awaited.
      if (command !== "COMMIT") throw new Error(`PostgreSQL answered COMMIT with ${command}`);
      isBroken = false;
      return result;
    } finally {
      client.removeListener("error", ignored);
      client.release(isBroken);
    }
  };
  const query = async (client: Client | undefined, sql: string, values: readonly Value[]): Promise<Row[]> => {
    if (client === undefined || !opening.delete(client)) return (await (client ?? pool).query(numbered(sql), [...values])).rows;
    // Of several statements, `pg` gives a list of results.
    const results = [await client.query(`BEGIN; ${withLiterals(sql, values, "postgres")}`)].flat();
    return results.at(-1)?.rows ?? [];
  };
  return new Completions({ dialect: "postgres", isSync: false, transaction, query }, options);
}
