import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import type { TurnSaverOptions } from "../options";
import type { EncryptionOption } from "../sealing";
import { UsageError } from "./exit";

/** How the command line names a database and its keys. */
export interface DatabaseOptions {
  db?: string;
  schema?: string;
  keyFile?: string;
}

/** Where the data is, and how that was found out. */
export interface Location {
  place: string;
  from: "argument" | "TURNS_DB" | "DATABASE_URL" | "folder";
}

const URL_OF_POSTGRES = /^postgres(ql)?:\/\//i;
const FILES = /\.(db|sqlite|sqlite3)$/i;

/** Whether an argument names a database, and not a command. */
export function isPlace(text: string): boolean {
  return URL_OF_POSTGRES.test(text) || FILES.test(text) || (text.includes("/") && existsSync(text));
}

/**
 * Finds and opens the database: `--db`, else TURNS_DB, else DATABASE_URL if our tables are in it, else the only database file of
 * ours in this folder.
 *
 * @throws {UsageError} if there is none, or more than one; {TurnsError} what opening throws
 */
export async function opened(options: DatabaseOptions, how: TurnSaverOptions): Promise<BaseTurnSaver> {
  const { env } = process;
  const given = options.db ?? env["TURNS_DB"];
  if (given !== undefined && given !== "") return open(given, options, how);
  const url = env["DATABASE_URL"] ?? "";
  if (URL_OF_POSTGRES.test(url)) {
    try {
      return await open(url, options, how);
    } catch (error) {
      if (!TurnsError.is(error, "SCHEMA_OUTDATED")) throw error;
    }
  }
  const files = readdirSync(".").filter((name) => FILES.test(name));
  const ours: string[] = [];
  for (const file of files) if (await isOurs(file, options)) ours.push(file);
  const [only] = ours;
  if (only !== undefined && ours.length === 1) return open(only, options, how);
  const problem =
    only === undefined
      ? "There is no database of langgraph-checkpoint-turns here."
      : `There are ${ours.length} databases here: ${ours.join(", ")}.`;
  throw new UsageError(problem, "Name one: turns agent.db, --db agent.db, --db postgresql://host/database, or TURNS_DB.");
}

async function isOurs(file: string, options: DatabaseOptions): Promise<boolean> {
  try {
    const saver = await open(file, options, { readOnly: true });
    await closed(saver);
    return true;
  } catch (error) {
    // Our file, to be opened with its keys or with another version.
    return TurnsError.is(error) && !["SCHEMA_OUTDATED", "NOT_A_DATABASE", "SCHEMA_CONFLICT"].includes(error.code);
  }
}

async function open(place: string, options: DatabaseOptions, how: TurnSaverOptions): Promise<BaseTurnSaver> {
  const encryption = keysOf(options);
  const settings = encryption === undefined ? how : { ...how, encryption };
  if (URL_OF_POSTGRES.test(place)) {
    const { PostgresTurnSaver } = await import("../postgres");
    const schema = options.schema ?? process.env["TURNS_SCHEMA"];
    const saver = PostgresTurnSaver.fromConnString(place, { ...settings, ...(schema !== undefined && { schema }) });
    await connected(saver);
    return saver;
  }
  const file = place.startsWith("file:") ? new URL(place).pathname : place;
  if (how.readOnly === true && !existsSync(file)) {
    throw new UsageError(`There is no file ${file}.`, "Give the path of a database file, or a URL: postgresql://host/database.");
  }
  const { TurnSaver } = await import("../saver");
  const saver = TurnSaver.fromPath(file, settings);
  await connected(saver);
  return saver;
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

/** Keys come from the environment or from a file: what is typed stays in the shell's history. */
function keysOf({ keyFile }: DatabaseOptions): EncryptionOption | undefined {
  const { TURNS_KEY: key, TURNS_KEY_ID: keyId } = process.env;
  if (keyFile === undefined) return key === undefined || key === "" ? undefined : { key, ...(keyId !== undefined && { keyId }) };
  const text = readFileSync(keyFile === "-" ? 0 : keyFile, "utf8").trim();
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
