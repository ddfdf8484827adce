import type { Row } from "./completions";
import { isLost } from "./failures";

/** What is needed of a client of `pg`. */
export interface PgClient {
  query(sql: string, values?: unknown[]): Promise<{ rows: Row[]; command: string }>;
  release(error?: Error | boolean): void;
  getTransactionStatus?(): string | null;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** What is needed of a pool of `pg`. Its second `connect` tells TypeScript the type of the clients. */
export interface PgPool<Client> {
  connect(): Promise<Client>;
  connect(callback: (error: Error | undefined, client: Client | undefined, done: (release?: unknown) => void) => void): void;
  query(sql: string, values?: unknown[]): Promise<{ rows: Row[] }>;
}

/** So many connections in a row may be lost before they were of any use: when the server restarts, all that are idle. */
const LOST_MAX = 10;

const ignored = (): void => undefined;

const heard = new WeakSet<object>();

/**
 * A client that nobody listens to would end the process if its connection is lost: between the pool and the transaction, if the server ends
 * it at once, and between two statements. The errors of idle clients are still the pool's own.
 */
export function listenTo(pool: unknown): void {
  const emitter = pool as { on?: (event: "connect", listener: (client?: Pick<PgClient, "on">) => void) => unknown } | undefined;
  if (typeof emitter?.on !== "function" || heard.has(emitter)) return;
  heard.add(emitter);
  // A single client says so too, of itself.
  emitter.on("connect", (client) => client?.on("error", ignored));
}

/** A client in a new transaction. Somebody listens to its errors until {@link released}. */
export async function begun<Client extends PgClient>(pool: PgPool<Client>): Promise<Client> {
  for (let lost = 1; ; lost += 1) {
    const client = await pool.connect();
    client.on("error", ignored);
    try {
      // Our COMMIT would commit what its last user has left open.
      if (/[TE]/.test(client.getTransactionStatus?.() ?? ""))
        throw new Error("Connection terminated: it was left in a transaction");
      await client.query("BEGIN");
      return client;
    } catch (error) {
      released(client, true);
      if (lost === LOST_MAX) throw error;
    }
  }
}

export function released(client: PgClient, isBroken: boolean): void {
  client.removeListener("error", ignored);
  client.release(isBroken);
}

/** A statement by itself, once more on another connection if one was lost: repeating it changes nothing. */
export async function queried(pool: PgPool<PgClient>, sql: string, values: unknown[]): Promise<Row[]> {
  for (let lost = 1; ; lost += 1) {
    try {
      return (await pool.query(sql, values)).rows;
    } catch (error) {
      if (lost === LOST_MAX || !isLost(error)) throw error;
    }
  }
}
