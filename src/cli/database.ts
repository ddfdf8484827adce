import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import type { Logger } from "../logger";
import type { TurnSaverOptions } from "../options";
import type { EncryptionOption } from "../sealing";
import { UsageError } from "./exit";
import { type DatabaseOptions, FILES, isLikeUrl, isUrl, withoutPassword } from "./place";

/**
 * Finds and opens the database: `--db`, else TURNS_DB, else DATABASE_URL if our tables are in it, else the only database file of
 * ours in this folder.
 *
 * @throws {UsageError} if there is none, or more than one; {TurnsError} what opening throws
 */
export async function opened(options: DatabaseOptions, how: TurnSaverOptions): Promise<BaseTurnSaver> {
  return openThere(await located(options), placeOf(options), how);
}

/** What goes with the place of the command line's own database. @throws {UsageError} */
export function placeOf({ schema, keyFile }: DatabaseOptions): PlaceOptions {
  return { schema: schemaOf(schema), encryption: keysOf(keyFile, "TURNS_KEY", "--key-file") };
}

/** As everywhere, a variable that is empty isn't set. */
function schemaOf(given: string | undefined): string | undefined {
  const { TURNS_SCHEMA: set } = process.env;
  return given ?? (set === "" ? undefined : set);
}

/** Where the data is; see {@link opened}. What was named may not exist yet. @throws {UsageError} */
export async function located(options: DatabaseOptions): Promise<string> {
  const { env } = process;
  const given = options.db ?? env["TURNS_DB"];
  if (given !== undefined && given !== "") return given;
  const url = env["DATABASE_URL"] ?? "";
  if (isUrl(url) && (await hasTables(url, options))) return url;
  const files = readdirSync(".").filter((name) => FILES.test(name));
  const ours: string[] = [];
  for (const file of files) if (await isOurs(file)) ours.push(file);
  const [only] = ours;
  if (only !== undefined && ours.length === 1) return only;
  const problem =
    only === undefined
      ? "There is no database of langgraph-checkpoint-turns here."
      : `There are ${ours.length} databases here: ${ours.join(", ")}.`;
  throw new UsageError(problem, "Name one: turns agent.db, --db agent.db, --db postgresql://host/database, or TURNS_DB.");
}

async function hasTables(url: string, { schema }: DatabaseOptions): Promise<boolean> {
  try {
    await closed(await openAt(url, { schema: schemaOf(schema) }, { readOnly: true }));
  } catch (error) {
    if (TurnsError.is(error, "SCHEMA_OUTDATED")) return false;
    if (!TurnsError.is(error, "ENCRYPTED")) throw error;
  }
  return true;
}

async function isOurs(file: string): Promise<boolean> {
  try {
    await closed(await openAt(file, {}, { readOnly: true }));
    return true;
  } catch (error) {
    // Our file, to be opened with its keys or with another version.
    return TurnsError.is(error) && !["SCHEMA_OUTDATED", "NOT_A_DATABASE", "SCHEMA_CONFLICT"].includes(error.code);
  }
}

const tell = (_: object, message: string): void => void process.stderr.write(`turns: ${message}.\n`.replace(/\.\.\n$/, ".\n"));
/** Warnings as a person reads them, without their data. */
const LOGGER: Logger = { debug: () => undefined, info: () => undefined, warn: tell, error: tell };
const SILENT: Logger = { ...LOGGER, warn: () => undefined, error: () => undefined };

/** What goes with the place of a database. */
export interface PlaceOptions {
  /** On PostgreSQL. */
  schema?: string | undefined;
  encryption?: EncryptionOption | undefined;
}

/** The path of a file that was named as a path or as `file:…`, which may be relative. @throws {UsageError} */
export function fileOf(place: string): string {
  if (!place.startsWith("file:")) {
    if (!isLikeUrl(place) || existsSync(place)) return place;
    throw new UsageError(
      `${withoutPassword(place)} is neither a file nor a PostgreSQL database.`,
      "Give postgresql://host/database, or a path: ./agent.db.",
    );
  }
  try {
    return fileURLToPath(new URL(place, pathToFileURL(`${process.cwd()}/`)));
  } catch (error) {
    throw new UsageError(
      `${withoutPassword(place)} names no file: ${(error as Error).message}.`,
      "Give a path, or a URL like file:///data/agent.db.",
    );
  }
}

/** Opens a database. @throws {UsageError} for a file that isn't there, if nothing may be created; {TurnsError} what opening throws */
export async function openAt(place: string, { schema, encryption }: PlaceOptions, how: TurnSaverOptions): Promise<BaseTurnSaver> {
  const settings = { logger: LOGGER, ...how, ...(encryption !== undefined && { encryption }) };
  if (isUrl(place)) {
    const { PostgresTurnSaver } = await import("../postgres");
    await refuseClosed(() => PostgresTurnSaver.fromConnString(place, { readOnly: true, busyTimeoutMs: 0 }));
    const saver = PostgresTurnSaver.fromConnString(place, { ...settings, ...(schema !== undefined && { schema }) });
    await connected(saver);
    return saver;
  }
  const file = fileOf(place);
  if (how.readOnly === true && !existsSync(file)) {
    throw new UsageError(
      `There is no file ${withoutPassword(file)}.`,
      "Give the path of a database file, or a URL: postgresql://host/database.",
    );
  }
  const { TurnSaver } = await import("../saver");
  const saver = TurnSaver.fromPath(file, settings);
  await connected(saver);
  return saver;
}

/**
 * {@link openAt} for a database that is there: a mistyped name makes no new one, and a database of something else gets no tables.
 */
export async function openThere(place: string, options: PlaceOptions, how: TurnSaverOptions): Promise<BaseTurnSaver> {
  try {
    if (how.readOnly !== true) await closed(await openAt(place, options, { readOnly: true, logger: SILENT }));
  } catch (error) {
    if (error instanceof UsageError || hasNoTables(error)) throw error;
    // What else is wrong is told when it's opened for writing.
  }
  return openAt(place, options, how);
}

/**
 * Opens a database that a command writes to, which may not exist yet.
 *
 * @param isWriting false: only to tell what would be done
 * @returns no saver if nothing is written and it would be created
 */
export async function openTarget(
  place: string,
  options: PlaceOptions,
  isWriting: boolean,
): Promise<{ saver: BaseTurnSaver | undefined; isNew: boolean }> {
  const found = await openExisting(place, options);
  if (!isWriting) return { saver: found, isNew: found === undefined };
  if (found !== undefined) await closed(found);
  return { saver: await openAt(place, options, {}), isNew: found === undefined };
}

async function openExisting(place: string, options: PlaceOptions): Promise<BaseTurnSaver | undefined> {
  if (!isUrl(place) && !existsSync(fileOf(place))) return undefined;
  try {
    return await openAt(place, options, { readOnly: true });
  } catch (error) {
    if (hasNoTables(error)) return undefined;
    throw error;
  }
}

function hasNoTables(error: unknown): boolean {
  return TurnsError.is(error, "SCHEMA_OUTDATED") && error.data["found"] === 0;
}

/** What a computer says when there is nobody at an address. */
const NOBODY = /^E(CONNREFUSED|NOTFOUND|NOENT|HOSTUNREACH|NETUNREACH)$/;

/**
 * A server that can't be connected to is told at once. A saver would try again for as long as it waits for a lock, which a
 * running import may need, and a person at a terminal doesn't.
 *
 * @param impatient a saver that tries once
 * @throws {TurnsError} STORE_UNAVAILABLE
 */
async function refuseClosed(impatient: () => BaseTurnSaver): Promise<void> {
  try {
    const saver = impatient();
    await connected(saver);
    await closed(saver);
  } catch (error) {
    const { code } = ((error as Error).cause ?? {}) as { code?: string };
    // Everything else is for the patient one to find.
    if (code !== undefined && NOBODY.test(code)) throw error;
  }
}

async function connected(saver: BaseTurnSaver): Promise<void> {
  try {
    await saver.setup();
  } catch (error) {
    await closed(saver);
    throw error;
  }
}

/** PostgreSQL's connections take a moment, which its own saver tells. */
export async function closed(saver: BaseTurnSaver): Promise<void> {
  const closing: unknown = saver.close();
  await closing;
}

/**
 * Keys come from the environment or from a file: what is typed stays in the shell's history.
 *
 * @param variable with the key; `<variable>_ID` has its id
 * @param flag that named the file
 */
export function keysOf(keyFile: string | undefined, variable: string, flag: string): EncryptionOption | undefined {
  const { [variable]: key, [`${variable}_ID`]: keyId } = process.env;
  if (keyFile === undefined) return key === undefined || key === "" ? undefined : { key, ...(keyId !== undefined && { keyId }) };
  let text: string;
  try {
    text = readFileSync(keyFile === "-" ? 0 : keyFile, "utf8").trim();
  } catch (error) {
    throw new UsageError(
      `The key file ${keyFile} can't be read: ${(error as Error).message}.`,
      `Give ${flag} the path of a file, or -.`,
    );
  }
  if (!text.startsWith("{")) return { key: text, ...(keyId !== undefined && { keyId }) };
  try {
    return JSON.parse(text) as EncryptionOption;
  } catch {
    throw new UsageError(
      `The key file ${keyFile} isn't valid.`,
      'It holds one key, or JSON: { "keys": { "id": "key" }, "current": "id" }.',
    );
  }
}
