import type { Transactions } from "../effects/transactional";
import { checkedHandle, Completions, numbered, type Row, type TransactionsOptions } from "./completions";

/** What is needed of a client of `pg`. */
export interface PgClient {
  query(sql: string, values?: unknown[]): Promise<{ rows: Row[]; command: string }>;
  release(error?: Error | boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** What is needed of a pool of `pg`. Its second signature tells TypeScript the type of the clients. */
export interface PgPool<Client> {
  connect(): Promise<Client>;
  connect(callback: (error: Error | undefined, client: Client | undefined, done: (release?: unknown) => void) => void): void;
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
  checkedHandle("pgTransactions", pool, ["connect"], "a Pool of pg");
  const transaction = async <T>(work: (client: Client) => T | Promise<T>): Promise<T> =>
    withClient(pool, async (client) => {
      await client.query("BEGIN");
      const result = await Promise.resolve(client)
        .then(work)
        .catch((error: unknown) => rolledBack(client, error));
      const { command } = await client.query("COMMIT");
      // PostgreSQL answers so, without an error, if a statement had failed that nobody awaited.
      if (command !== "COMMIT") throw new Error(`PostgreSQL answered COMMIT with ${command}`);
      return result;
    });
  const query = async (client: Client | undefined, sql: string, values: readonly unknown[]): Promise<Row[]> =>
    client === undefined
      ? withClient(pool, (one) => query(one, sql, values))
      : (await client.query(numbered(sql), [...values])).rows;
  return new Completions({ dialect: "postgres", isSync: false, transaction, query }, options);
}

/** An error that a transaction was rolled back for. The connection can be used again. */
class RolledBack extends Error {}

async function rolledBack(client: PgClient, cause: unknown): Promise<never> {
  await client.query("ROLLBACK").catch(() => Promise.reject(cause as Error));
  throw new RolledBack("", { cause });
}

/** A connection that breaks between two statements is told by the next one; without a listener it would end the process. */
async function withClient<Client extends PgClient, T>(pool: PgPool<Client>, use: (client: Client) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  const ignored = (): void => undefined;
  client.on("error", ignored);
  let broken = true;
  try {
    const result = await use(client);
    broken = false;
    return result;
  } catch (error) {
    broken = !(error instanceof RolledBack);
    throw error instanceof RolledBack ? error.cause : error;
  } finally {
    client.removeListener("error", ignored);
    client.release(broken);
  }
}
