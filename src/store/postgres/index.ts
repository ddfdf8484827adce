import { TurnsError } from "../../errors";
import type { Logger } from "../../logger";
import { type EncryptionOption, plainSealing } from "../../sealing";
import { CommitQueue } from "../commit-queue";
import { Session } from "../session";
import { deleteTurnsOfTasks, isLogged, latestTurn, logTurn, pruneTurns, turnById, turnsOfTask } from "../ops/turn-log";
import type { FileSpace, Store, TurnRow } from "../store";
import { storeOn } from "../store-on";
import { ALL_TABLES } from "../tables";
import type { Program } from "../program";
import type { PgPool } from "./driver";
import { PostgresEngine, quoted } from "./engine";
import { checkSchema, migrate } from "./migrate";
import { Notifications } from "./hints";
import { checkConnectionString, listenTo, nameOfDatabase, openPool } from "./pool";
import { unlockDatabase } from "./unlock";

export type { PgClient, PgPool } from "./driver";
export { migrationSql } from "./migrate";
export { isSchemaName, SCHEMA_RULE } from "./schema-name";

interface PostgresStoreOptions {
  schema: string;
  /** `never` only checks. */
  migrate: "auto" | "never";
  /** How long a transaction is tried again, in milliseconds. */
  busyTimeoutMs: number;
  /** Tells other processes of commits, and hears of theirs. */
  notify?: boolean;
  /** Every transaction is READ ONLY, and the schema is only checked. */
  readOnly?: boolean;
  encryption?: EncryptionOption;
  logger: Logger;
}

export interface PostgresStore extends Store {
  /** Connects, and brings the schema up to date. The first transaction does it otherwise. */
  ready(): Promise<void>;
  /** {@link Store.close}. Resolves when what was handed in has its outcome and the connections are closed. */
  closed(): Promise<void>;
}

/**
 * Opens a database. Nothing is connected before the first transaction. A pool that was given isn't closed.
 * @throws {TurnsError} INVALID_OPTION
 */
export function openPostgresStore(source: string | PgPool, options: PostgresStoreOptions): PostgresStore {
  const { schema } = options;
  const { engine, session, queue, notifications, ready, closed } = openDatabase(source, options);
  const store = storeOn(session, queue, {
    space: () => queue.read((on) => spaceOf(on, schema)),
    giveBackPages: () => undefined,
    checkpointLog: () => undefined,
    vacuumFully: async () => {
      await queue.behind(() => vacuumed(engine, schema));
      const skipped = await queue.read((on) => on.rows<[string]>(SKIPPED, schema));
      if (skipped.length > 0) throw notOwner(engine.name, skipped.flat());
    },
    startVerify: async (threadId, isGraph) => {
      const [{ startVerify }, { schemaPhases }] = await Promise.all([import("../ops/verify"), import("./verify-schema")]);
      const step = await queue.read((on) => startVerify(on, threadId, isGraph, schemaPhases(schema)));
      return { step: () => queue.read(step) };
    },
    backUp: () => Promise.reject(noBackups(engine.name)),
    ...(notifications === undefined ? {} : { listen: (onHint: () => void) => notifications.listen(onHint) }),
    close: () => {
      void closed();
    },
  });
  return Object.assign(store, { ready, closed });
}

/** The queries behind `PostgresCheckpointPersister`. */
export type PostgresTurnLog = ReturnType<typeof openPostgresTurnLog>;

/** {@link openPostgresStore} for turns that belong to no thread. */
export function openPostgresTurnLog(source: string | PgPool, options: Omit<PostgresStoreOptions, "encryption" | "notify">) {
  const { session, queue, ready, closed } = openDatabase(source, { ...options, notify: false });
  /** Ids of all attempts count: one whose commit was in doubt may have been carried out. */
  const deleting = async (work: (session: Session) => Program<string[]>): Promise<number> => {
    const gone = new Set<string>();
    const program = function* (on: Session): Program {
      for (const id of yield* work(on)) gone.add(id);
    };
    await queue.now({ program });
    return gone.size;
  };
  return {
    /** The persister has no keys. */
    awaitsKeys: () => false,
    address: (threadId: string, text: string): string => session.sealing.address(threadId, text),
    insert: async (turn: Omit<TurnRow, "seq">): Promise<void> => {
      let attempts = 0;
      const program = function* (on: Session): Program {
        attempts += 1;
        // The commit of an earlier attempt is in doubt.
        if (attempts > 1 && (yield* isLogged(on, turn))) return;
        yield* logTurn(on, turn);
      };
      await queue.now({ program });
    },
    byId: async (id: string) => queue.read((on) => turnById(on, id)),
    latest: async (graphId: string) => queue.read((on) => latestTurn(on, graphId)),
    ofTask: async (taskId: string, graphId: string | undefined) => queue.read((on) => turnsOfTask(on, taskId, graphId)),
    deleteTasks: (taskIds: readonly string[], graphId: string | undefined) =>
      deleting((on) => deleteTurnsOfTasks(on, taskIds, graphId)),
    prune: (graphId: string, keep: number) => deleting((on) => pruneTurns(on, graphId, keep)),
    ready,
    closed,
  };
}

function openDatabase(source: string | PgPool, options: PostgresStoreOptions) {
  const { schema, busyTimeoutMs, logger, readOnly = false } = options;
  if (typeof source === "string") checkConnectionString(source);
  const database = nameOfDatabase(source, schema);
  const onIdleError = (error: Error): void => {
    logger.debug({ database, error: String(error) }, "an idle connection to PostgreSQL was closed");
  };
  let unlisten = (): void => undefined;
  let pool: Promise<PgPool> | undefined;
  const opened = async (): Promise<PgPool> => {
    const opening = typeof source === "string" ? await openPool(source) : source;
    unlisten = listenTo(opening, onIdleError);
    return opening;
  };
  const notifications = options.notify === true ? new Notifications(() => (pool ??= opened()), schema, logger) : undefined;
  const engine = new PostgresEngine(() => (pool ??= opened()), {
    ...{ name: database, schema, busyTimeoutMs, readOnly },
    onCommitted: () => notifications?.committed(),
  });
  const session = new Session(engine, options.encryption === undefined ? plainSealing : undefined);
  engine.prepareWith(async () => {
    await engine.connected((connection, limit) => {
      const place = { database, schema, limit };
      return options.migrate === "auto" && !readOnly ? migrate(connection, place) : checkSchema(connection, place);
    });
    await unlockDatabase(engine, session, options.encryption, readOnly);
  });
  const queue = new CommitQueue(session);
  let closing: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    await queue.behind(() => undefined);
    notifications?.close();
    await engine.close();
    const ended = await pool?.catch(() => undefined);
    if (ended === undefined) return;
    if (typeof source === "string") await ended.end();
    else unlisten();
  };
  const closed = (): Promise<void> => {
    void queue.commit();
    return (closing ??= end());
  };
  const ready = (): Promise<void> => engine.read(function* (): Program {});
  return { engine, session, queue, notifications, closed, ready };
}

const SIZE = `SELECT coalesce(pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid)), 0)::bigint AS bytes
  FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = ? AND c.relkind = 'r'`;
const PAGE_BYTES = 8_192;

/** Free pages are used again by the server. Nothing here gives them back to the file system. */
function* spaceOf(session: Session, schema: string): Program<FileSpace> {
  const size = yield* session.get<{ bytes: number }>(SIZE, schema);
  const bytes = size?.bytes ?? 0;
  return { bytes, pagesBytes: bytes, logBytes: 0, freePages: 0, pageBytes: PAGE_BYTES, givesBack: false };
}

/** What the server skips. It says so in a warning, which `client_min_messages` may hide, and a pooler's session isn't ours to set that in. */
const SKIPPED = `SELECT c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_database AS d ON d.datname = current_database()
  WHERE n.nspname = ? AND c.relname IN (${ALL_TABLES.map(({ name }) => `'${name}'`).join(", ")}) AND NOT pg_has_role(d.datdba, 'USAGE')
    AND NOT CASE WHEN current_setting('server_version_num')::integer < 170000 THEN pg_has_role(c.relowner, 'USAGE')
      ELSE has_table_privilege(c.oid, 'MAINTAIN') END`;

/** Makes the space of deleted rows usable again, without locking anybody out. */
async function vacuumed(engine: PostgresEngine, schema: string): Promise<void> {
  await engine.connected(async (connection) => {
    for (const { name } of ALL_TABLES) {
      const [answer] = await connection.send([{ text: `VACUUM (ANALYZE) ${quoted(schema)}.${name}` }], true);
      if (answer !== undefined && "error" in answer) throw answer.error as Error;
    }
  });
}

function notOwner(database: string, skipped: readonly string[]): TurnsError {
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `Database ${database} skipped ${skipped.length} of ${ALL_TABLES.length} tables, because the role may not vacuum them.`,
    remedy: "Vacuum with the role that owns the tables, or leave it to autovacuum. On PostgreSQL 17, GRANT MAINTAIN is enough.",
    data: { database, skipped },
  });
}

function noBackups(database: string): TurnsError {
  return new TurnsError("UNSUPPORTED", {
    problem: `saver.backup() copies SQLite files, and ${database} is a PostgreSQL database.`,
    remedy: "Use the tools of the server: pg_dump for one schema (pg_dump --schema=turns), or pg_basebackup and WAL archiving.",
    data: { database },
  });
}
