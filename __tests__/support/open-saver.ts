import { createHash, randomUUID } from "node:crypto";
import type { Pool as PgPool } from "pg";
import { TurnSaver, type TurnSaverOptions } from "../../src/index";
import { PostgresTurnSaver } from "../../src/postgres/index";

/** Which engine the suites run on: SQLite, or with `TURNS_ENGINE=postgres` PostgreSQL. Processes that tests start inherit it. */
export const ON_POSTGRES = process.env["TURNS_ENGINE"] === "postgres";

/**
 * A saver on the store at a path, here or in another process: that file, or on PostgreSQL the schema with the path's
 * {@link schemaAt name}. So a test has paths on both engines, and its own files can be beside them. `":memory:"` is a store that nobody
 * else opens.
 */
export function openSaver(path: string, options: TurnSaverOptions = {}): TurnSaver {
  if (!ON_POSTGRES) return TurnSaver.fromPath(path, options);
  const { driver: _, synchronous: __, ...rest } = options;
  const schema = schemaAt(path === ":memory:" ? randomUUID() : path);
  return PostgresTurnSaver.fromConnString(process.env["TURNS_PG_URL"] ?? "", { ...rest, schema });
}

/**
 * {@link openSaver} for a test that lets something happen before a commit, from a failpoint. An engine that answers later does it a
 * moment later: here no transaction begins until it has.
 *
 * @param happened what the transactions wait for, if there is something by then
 */
export function openWaiting(path: string, options: TurnSaverOptions, happened: () => unknown): TurnSaver {
  if (!ON_POSTGRES) return openSaver(path, options);
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- SQLite's tests don't load `pg`
  const { Pool } = require("pg") as { Pool: typeof PgPool };
  // Nobody ends it: the saver doesn't, and its idle connections end by themselves.
  const pool = new Pool({ connectionString: process.env["TURNS_PG_URL"], idleTimeoutMillis: 100, allowExitOnIdle: true });
  const { driver: _, synchronous: __, ...rest } = options;
  return new PostgresTurnSaver(waitingPool(pool, happened), { ...rest, schema: schemaAt(path) });
}

/** The pool, but each connection waits for what is there to wait for by then. */
export function waitingPool(pool: PgPool, happened: () => unknown) {
  return {
    options: pool.options,
    on: pool.on.bind(pool),
    removeListener: pool.removeListener.bind(pool),
    end: () => pool.end(),
    connect: async () => {
      await happened();
      return pool.connect();
    },
  };
}

/** The schema that stands for a path. */
export function schemaAt(path: string): string {
  return `${WORKER}${createHash("sha256").update(path).digest("hex").slice(0, 16)}`;
}

/** What the names of this worker's schemas begin with. Its next test file drops them. */
export const WORKER = `${process.env["TURNS_PG_RUN"] ?? "turns_test"}_w${process.env["JEST_WORKER_ID"] ?? "0"}_`;
