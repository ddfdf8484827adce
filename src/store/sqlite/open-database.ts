import { TurnsError } from "../../errors";
import type { NodeSqliteDatabase, SqliteDatabase } from "./driver";
import { type DatabaseSync, isNodeDatabase, NodeDatabase, type OpenOptions } from "./node-driver";
import { ownRequire } from "./own-require";
import { statSync } from "node:fs";

/** In the order in which they are tried. */
export const DRIVERS = ["better-sqlite3", "node:sqlite"] as const;
export type DriverName = (typeof DRIVERS)[number];

/** The first Node whose SQLite passes. For messages only: the check itself tries what SQLite does. */
const SUITABLE_NODE = "24.16";

type Open = (path: string, options: OpenOptions) => SqliteDatabase;
type BetterSqlite3 = new (path: string, options?: OpenOptions) => SqliteDatabase;

/** Each returns the function that opens files, or throws the reason why there is none. */
const LOADERS: Readonly<Record<DriverName, () => Open>> = { "better-sqlite3": betterSqlite3, "node:sqlite": nodeSqlite };
/** Looked up once: that takes longer than opening a file. */
let better: BetterSqlite3 | undefined;
/** The classes of `node:sqlite` that were checked and work. */
const WORKING = new WeakSet<object>();

/**
 * Opens a database file with the requested driver, or with the first one that is installed.
 *
 * @throws {TurnsError} DRIVER_UNAVAILABLE; and, untranslated, the driver's errors about the file
 */
export function openDatabase(path: string, { driver, ...options }: OpenOptions & { driver?: DriverName } = {}): SqliteDatabase {
  return opener(driver)(path, options);
}

/**
 * Another connection to a file, by the same driver. Another driver would bring a second SQLite, and two SQLites
 * in one process don't see each other's locks.
 *
 * @throws the driver's errors, untranslated
 */
export function openBeside(db: SqliteDatabase, path: string, readonly = true): SqliteDatabase {
  if (db instanceof NodeDatabase) return db.beside(path, readonly);
  const { constructor } = db as unknown as { constructor: BetterSqlite3 };
  return new constructor(path, { readonly });
}

/**
 * A connection that sees the database as it is now until it is closed. Writers, in this process and in others, neither wait for
 * it nor make it start again; the write-ahead log grows meanwhile. A database in memory can only be read by its own connection,
 * so that one is returned.
 *
 * @throws the driver's errors, untranslated
 */
export function snapshotOf(db: SqliteDatabase): SqliteDatabase {
  if (db.memory) return db;
  const reader = openBeside(db, pathOf(db));
  try {
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM sqlite_schema").get();
    return reader;
  } catch (error) {
    reader.close();
    throw error;
  }
}

function opener(wanted: DriverName | undefined): Open {
  const tried: { driver: DriverName; error: unknown }[] = [];
  for (const driver of wanted === undefined ? DRIVERS : [wanted]) {
    try {
      return LOADERS[driver]();
    } catch (error) {
      tried.push({ driver, error });
    }
  }
  throw unavailable(wanted, tried);
}

function betterSqlite3(): Open {
  better ??= loadedBetterSqlite3();
  const Database = better;
  return (path, options) => new Database(path, options);
}

function loadedBetterSqlite3(): BetterSqlite3 {
  const loaded = ownRequire()("better-sqlite3") as BetterSqlite3 | { default: BetterSqlite3 };
  const Database = "default" in loaded ? loaded.default : loaded;
  // Its binary is loaded with the first database. A missing one, or one compiled for another Node, shows only then.
  new Database(":memory:").close();
  return Database;
}

function nodeSqlite(): Open {
  // Only looked up, never imported: this package must load in a Node without it too.
  const sqlite = process.getBuiltinModule?.("node:sqlite") as { DatabaseSync: DatabaseSync } | undefined;
  if (sqlite === undefined) throw new Error(`Node ${process.versions.node} has none`);
  if (!WORKING.has(sqlite.DatabaseSync)) refuseOld(sqlite.DatabaseSync);
  WORKING.add(sqlite.DatabaseSync);
  return (path, options) => NodeDatabase.open(sqlite.DatabaseSync, path, options);
}

function refuseOld(Database: DatabaseSync): void {
  const probe = new Database(":memory:", {});
  try {
    if (!isNodeDatabase(probe) || !keepsTexts(new NodeDatabase(probe))) throw tooOld();
  } finally {
    probe.close();
  }
}

/**
 * Adapts a `node:sqlite` handle to the store's interface.
 * @throws {TurnsError} DRIVER_UNAVAILABLE if its Node is too old
 */
export function nodeDatabase(handle: NodeSqliteDatabase): NodeDatabase {
  const db = new NodeDatabase(handle);
  if (db.open && !keepsTexts(db)) throw unavailable("node:sqlite", [{ driver: "node:sqlite", error: tooOld() }]);
  return db;
}

/**
 * The SQLite of Node 22, and of Node 24 up to 24.15, cuts a text at its first NUL character when reading. It would return
 * something other than what was saved.
 */
function keepsTexts(db: NodeDatabase): boolean {
  const text = "a\0b";
  return (db.prepare("SELECT ? AS text").get(text) as { text: unknown }).text === text;
}

function tooOld(): Error {
  return new Error(`that of Node ${process.versions.node} is too old`);
}

function unavailable(wanted: DriverName | undefined, tried: readonly { driver: DriverName; error: unknown }[]): TurnsError {
  const errors = tried.map(({ error }) => error);
  return new TurnsError("DRIVER_UNAVAILABLE", {
    problem: `${wanted === undefined ? "No SQLite driver can be loaded" : `The driver ${wanted} can't be loaded`}: ${tried.map(({ driver, error }) => `${driver}: ${firstLine(error)}`).join("; ")}.`,
    remedy:
      `Run it on Node ${SUITABLE_NODE} or newer, or install better-sqlite3 so that its binary fits this Node (its install script must be ` +
      "allowed to run; then: npm rebuild better-sqlite3); or open a database yourself and pass it to new TurnSaver(db).",
    data: { tried: tried.map(({ driver }) => driver) },
    cause: errors.length === 1 ? errors[0] : new AggregateError(errors, "no SQLite driver"),
  });
}

/** Without the list of folders that a loader appends, and without its introduction. */
function firstLine(error: unknown): string {
  const { message } = (error ?? {}) as { message?: unknown };
  const [first = ""] = (typeof message === "string" ? message : String(error)).split("\n", 1);
  return first.replace(/\.? Tried:$/, "");
}

/** Where SQLite has the file open; empty for a database in memory. */
export function pathOf(db: SqliteDatabase): string {
  const [main] = (db.memory ? [] : db.pragma("database_list")) as { file: string | null }[];
  return main?.file ?? "";
}

/**
 * Refuses a file that has several names, before anything of it is read. SQLite finds the write-ahead log by the file's name. A
 * second name means a second log, and each log's content destroys the other's pages. A saver that already has the file open
 * continues.
 *
 * @throws {TurnsError} STORE_UNAVAILABLE
 */
export function refuseSecondName(db: Pick<SqliteDatabase, "name" | "memory">): void {
  if (db.memory || db.name === "") return;
  const links = linksOf(db.name);
  if (links < 2) return;
  throw new TurnsError("STORE_UNAVAILABLE", {
    problem: `The database file ${db.name} has ${links} names (hard links). Each name would get a write-ahead log of its own, which corrupts the file.`,
    remedy: `Nothing was opened. Find the names with: find <folder> -samefile ${JSON.stringify(db.name)}. Remove all but one while nobody has the file open; to have a second file, copy it.`,
    data: { file: db.name, links },
  });
}

function linksOf(path: string): number {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found?.isFile() === true ? found.nlink : 0;
  } catch {
    return 0;
  }
}
