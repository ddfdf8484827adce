import type { PgPool as Pool } from "../store/postgres/driver";
import { meaningOfRefusal, sqlState, translated } from "../store/postgres/failures";
import { nameOfDatabase } from "../store/postgres/pool";
import type { Row } from "./completions";

/** What is needed of a client of `pg`. */
export interface PgClient {
  query(sql: string, values?: unknown[]): Promise<{ rows: Row[]; command: string }>;
  release(error?: Error | boolean): void;
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
/** `pg` has no codes for these. */
const LOST = /is not queryable$|^Connection terminated/;

const ignored = (): void => undefined;

const heard = new WeakSet<object>();

/**
 * A client that nobody listens to would end the process if its connection is lost: between the pool and the transaction, if the server ends
 * it at once, and between two statements. The errors of idle clients are still the pool's own.
 */
export function listenTo(pool: unknown): void {
  if (typeof (pool as Pool | undefined)?.on !== "function" || heard.has(pool as Pool)) return;
  heard.add(pool as Pool);
  // A single client says so too, of itself.
  (pool as Pool).on("connect", (client?: Pick<PgClient, "on">) => client?.on("error", ignored));
}

/** A client in a new transaction. Somebody listens to its errors until {@link released}. @throws {TurnsError} STORE_UNAVAILABLE */
export async function begun<Client extends PgClient>(pool: PgPool<Client>): Promise<Client> {
  const connect = (): Promise<Client> =>
    pool.connect().catch((error: unknown) => {
      throw translated(meaningOfRefusal(error), nameOf(pool));
    });
  for (let lost = 1; ; lost += 1) {
    const client = await connect();
    client.on("error", ignored);
    try {
      await client.query("BEGIN");
      return client;
    } catch (error) {
      released(client, true);
      if (lost === LOST_MAX) throw told(pool, error);
    }
  }
}

export function released(client: PgClient, isBroken: boolean): void {
  client.removeListener("error", ignored);
  client.release(isBroken);
}

/** A statement by itself, once more on another connection if one was lost: repeating it changes nothing. @throws {TurnsError} */
export async function queried(pool: PgPool<PgClient>, sql: string, values: unknown[]): Promise<Row[]> {
  for (let lost = 1; ; lost += 1) {
    try {
      return (await pool.query(sql, values)).rows;
    } catch (error) {
      if (lost < LOST_MAX && isLost(error)) continue;
      throw sqlState(error) === "" || isLost(error) ? translated(meaningOfRefusal(error), nameOf(pool)) : error;
    }
  }
}

/** What an error of a transaction means, if it is about a lost connection. Everything else is returned unchanged. */
export function told(pool: object, error: unknown): unknown {
  return isLost(error) ? translated(meaningOfRefusal(error), nameOf(pool)) : error;
}

function isLost(error: unknown): boolean {
  return (error instanceof Error && LOST.test(error.message)) || sqlState(error).startsWith("57P");
}

function nameOf(pool: object): string {
  return nameOfDatabase(("options" in pool ? pool : { options: {} }) as Pool);
}
