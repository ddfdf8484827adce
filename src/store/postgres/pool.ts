import { TurnsError } from "../../errors";
import type { PgClient, PgPool } from "./driver";
import { atEndOfMacrotask } from "../../timers";

/** Where a database is, for messages: never with a password. */
export function nameOfDatabase(source: string | PgPool, schema?: string): string {
  const { host, port, database, connectionString } = (
    typeof source === "string" ? { connectionString: source } : source.options
  ) as {
    host?: unknown;
    port?: unknown;
    database?: unknown;
    connectionString?: unknown;
  };
  const url = typeof connectionString === "string" && URL.canParse(connectionString) ? new URL(connectionString) : undefined;
  const at = url === undefined ? [host, port].filter(Boolean).join(":") : url.host;
  const name = url === undefined ? database : decoded(url.pathname.slice(1));
  const of = schema === undefined ? "" : ` (schema ${schema})`;
  return `${at || "localhost"}/${typeof name === "string" ? name : ""}${of}`;
}

/** A text that can't be decoded stays as it is: the driver refuses it when it connects. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

type OnError = (error: Error) => void;

/** The savers of a pool share its listeners: Node warns of more than ten. */
const heard = new WeakMap<PgPool, { savers: Set<OnError>; stop: () => void }>();

/**
 * Listens to the errors of connections that nobody uses. If the server closed one and nobody listened, Node would stop the process. This
 * also holds for a connection that the server closes right after it has accepted it.
 *
 * @returns stops listening
 */
export function listenTo(pool: PgPool, onError: OnError): () => void {
  const { savers, stop } = heard.get(pool) ?? listenTogether(pool);
  savers.add(onError);
  return () => {
    if (savers.delete(onError) && savers.size === 0) stop();
  };
}

/** Whether others here use a pool too, for instance a saver that is open. */
export function isShared(pool: PgPool): boolean {
  return (heard.get(pool)?.savers.size ?? 0) > 1;
}

function listenTogether(pool: PgPool) {
  const savers = new Set<OnError>();
  const tell = (error: Error): void => {
    for (const onError of savers) onError(error);
  };
  const onConnected = (client: PgClient): void => {
    client.on("error", tell);
    atEndOfMacrotask(() => client.removeListener("error", tell));
  };
  pool.on("error", tell);
  pool.on("connect", onConnected);
  const stop = (): void => {
    heard.delete(pool);
    pool.removeListener("error", tell);
    pool.removeListener("connect", onConnected);
  };
  const shared = { savers, stop };
  heard.set(pool, shared);
  return shared;
}

const IS_URL = /^(postgres|postgresql|socket):\/\/|^\//;

/**
 * The driver would take any other text for the name of a database on this machine.
 * @throws {TurnsError} INVALID_OPTION
 */
export function checkConnectionString(text: string): void {
  if (IS_URL.test(text)) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `The connection string ${text === "" ? "is empty" : "doesn't begin with postgresql://"}.`,
    remedy: "Write postgresql://user:password@host:5432/database, or pass a pg.Pool of your own: new PostgresTurnSaver(pool).",
    data: { option: "connectionString" },
  });
}

/** A function on a cloud platform has many instances, each with a pool of its own. */
const FEW = 3;
const MANY = 10;

/**
 * A pool of our own.
 * @throws {TurnsError} DRIVER_UNAVAILABLE
 */
export async function openPool(connectionString: string): Promise<PgPool> {
  const { Pool } = await loadedDriver();
  const { env } = process;
  const isFunction = env["VERCEL"] !== undefined || env["AWS_LAMBDA_FUNCTION_NAME"] !== undefined;
  return new Pool({
    connectionString,
    max: isFunction ? FEW : MANY,
    application_name: "langgraph-checkpoint-turns",
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 10_000,
    maxLifetimeSeconds: 30 * 60,
    // An idle connection doesn't keep a script from ending.
    allowExitOnIdle: true,
  });
}

async function loadedDriver(): Promise<typeof import("pg")> {
  try {
    const loaded = (await import("pg")) as typeof import("pg") & { default?: typeof import("pg") };
    return loaded.default ?? loaded;
  } catch (cause) {
    throw new TurnsError("DRIVER_UNAVAILABLE", {
      problem: `The PostgreSQL driver "pg" can't be loaded (${(cause as Error).message}).`,
      remedy: "Install it: npm install pg@^8.23.0. Or pass a pg.Pool of your own: new PostgresTurnSaver(pool).",
      cause,
    });
  }
}
