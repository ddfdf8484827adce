import { z } from "zod";
import { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import { checkedOptions, resolveOptions, type TurnSaverOptions } from "../options";
import { isSchemaName, openPostgresStore, type PgPool, type PostgresStore, SCHEMA_RULE } from "../store/postgres";

/** Options of {@link PostgresTurnSaver}. All are optional. */
export interface PostgresTurnSaverOptions extends Omit<TurnSaverOptions, "driver" | "synchronous"> {
  /** The schema with the saver's tables. Default `turns`. Names that begin with `pg_` are the server's. */
  schema?: string;
  /**
   * `"auto"` (default): the first access creates the tables, or brings them up to date. `"never"`: it only checks them, for roles
   * that may not create tables; `migrationSql()` prints the SQL for one that may.
   */
  migrate?: "auto" | "never";
  /**
   * Whether processes that follow threads (`saver.follow`) are told of this saver's commits, and this one of theirs, with LISTEN
   * and NOTIFY. Default `false`: they look once in up to a second. Give it to both sides; following takes a connection then.
   */
  notify?: boolean;
}

export const placeOptions = () =>
  z.strictObject({
    schema: z.custom<string>(isSchemaName, SCHEMA_RULE).default("turns"),
    migrate: z.enum(["auto", "never"]).default("auto"),
  });
const ownOptions = () => placeOptions().extend({ notify: z.boolean().default(false) });

/**
 * A LangGraph checkpointer on PostgreSQL that also records turns and can rewind a thread. Pass it to LangGraph:
 * `builder.compile({ checkpointer: saver })`. It does what `TurnSaver` does on SQLite, for processes on many machines.
 *
 * A node's boundary is one commit and one round trip. The server's settings decide what a commit survives; with
 * `synchronous_commit` on, the default, an acknowledged save survives a crash of the server.
 *
 * While the server can't be reached or others hold a lock, a save or read is tried again for `busyTimeoutMs`. If a connection is lost
 * during a commit, the saver reads back whether the commit was carried out.
 *
 * Every method throws a {@link TurnsError}; docs/errors.md lists all codes. See docs/postgres.md for setup, rights and poolers.
 */
export class PostgresTurnSaver extends BaseTurnSaver {
  readonly #store: PostgresStore;

  /**
   * Uses a pool of yours, which it never ends. Nothing is connected before the first access.
   *
   * @param pool a `pg.Pool` of `pg` 8.23 or newer
   * @throws {TurnsError} INVALID_OPTION
   */
  constructor(pool: PgPool, options?: PostgresTurnSaverOptions);
  /** @internal {@link fromConnString} */
  constructor(source: PgPool | string, options?: PostgresTurnSaverOptions);
  constructor(source: PgPool | string, options: PostgresTurnSaverOptions = {}) {
    const { schema, migrate, notify, ...rest } = options;
    refuseOptionsOfFiles(rest);
    const resolved = resolveOptions(rest);
    const store = openPostgresStore(source, { ...resolved, ...checkedOptions(ownOptions, { schema, migrate, notify }) });
    super(store, resolved);
    this.#store = store;
  }

  /**
   * Uses a pool of its own: at most 10 connections, or 3 in a function on Vercel or AWS Lambda. {@link close} ends it.
   *
   * @param connectionString `postgresql://user:password@host:5432/database`
   * @throws {TurnsError} INVALID_OPTION; the first access throws DRIVER_UNAVAILABLE if `pg` isn't installed
   */
  static fromConnString(connectionString: string, options?: PostgresTurnSaverOptions): PostgresTurnSaver {
    return new PostgresTurnSaver(connectionString, options);
  }

  /**
   * Connects, and creates the tables or brings them up to date. The first access does it otherwise.
   *
   * Several processes may do it at once: one migrates, the others wait for it.
   *
   * @throws {TurnsError} STORE_UNAVAILABLE, DRIVER_UNAVAILABLE, SCHEMA_TOO_NEW, SCHEMA_CONFLICT, SCHEMA_OUTDATED; ENCRYPTED,
   *   NOT_ENCRYPTED, UNKNOWN_KEY, WRONG_KEY, KEY_PROVIDER_FAILED
   */
  override async setup(): Promise<void> {
    await this.#store.ready();
  }

  /** Commits what was handed in, and ends the saver's own pool. Resolves when both are done. */
  // eslint-disable-next-line @typescript-eslint/no-misused-promises -- the base waits for nothing; you may
  override async close(): Promise<void> {
    super.close();
    await this.#store.closed();
  }
}

/** @throws {TurnsError} INVALID_OPTION */
function refuseOptionsOfFiles(options: object): void {
  const option = ["driver", "synchronous"].find((name) => Object.hasOwn(options, name));
  if (option === undefined) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `Option "${option}" is for SQLite files.`,
    remedy: "Leave it out. On PostgreSQL, the pool and the settings of the server decide it.",
    data: { option },
  });
}
