import { TurnsError, type TurnsErrorCode } from "../errors";
import { listed } from "../inspection/words";
import { movedMessage } from "../inspection/moving";
import { foreignTables, isUrl, ownPlace, PROGRAM, toCopy, withCommands } from "./place";
import { plural, word } from "./text";

/** Exit codes; docs/command-line.md lists them. */
export const DONE = 0;
export const FAILED = 1;
export const WRONG_USAGE = 2;
export const FOUND = 3;
export const NEEDS_DECISION = 4;
export const INTERRUPTED = 130;

/** The command line itself is wrong. */
export class UsageError extends Error {
  constructor(problem: string, remedy: string) {
    super(`${problem} ${remedy}`);
  }
}

/** Ctrl-C stopped the work at a safe place. */
export class Interrupted extends Error {
  constructor(what: string, remedy: string) {
    super(`${what} ${remedy}`);
  }
}

/** Somebody has to decide something first. */
const DECISIONS: ReadonlySet<TurnsErrorCode> = new Set([
  ...(["THREAD_RUNNING", "REWIND_UNFINISHED", "REWIND_CONFLICT", "EFFECT_UNCOMPENSATED", "EFFECT_IN_DOUBT"] as const),
  ...(["EFFECT_NOT_IN_DOUBT", "UNFINISHED_WORK", "GRAPH_CHANGED", "BACKUP_TARGET_EXISTS", "SALVAGE_TARGET_EXISTS"] as const),
  ...(["THREAD_EXISTS", "THREAD_MOVED", "THREAD_DELETED", "IMPORT_ABORTED", "UNKNOWN_INTERRUPT"] as const),
]);
const USAGE: ReadonlySet<TurnsErrorCode> = new Set(["INVALID_OPTION", "INVALID_CONFIG", "GRAPH_MODULE_INVALID"]);

export function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return WRONG_USAGE;
  if (error instanceof Interrupted) return INTERRUPTED;
  if (!TurnsError.is(error)) return FAILED;
  if (isPlaintext(error)) return NEEDS_DECISION;
  return USAGE.has(error.code) ? WRONG_USAGE : DECISIONS.has(error.code) ? NEEDS_DECISION : FAILED;
}

/** The target of a copy would store in plain text what the source has sealed. */
function isPlaintext(error: TurnsError): boolean {
  return error.code === "ENCRYPTED" && error.data["option"] === "allowPlaintext";
}

/** What the error's own remedy says in the words of a program, in the words of the command line. */
const REMEDIES: Partial<Record<TurnsErrorCode, string>> = {
  ENCRYPTED: "Set TURNS_KEY, or give --key-file FILE.",
  UNKNOWN_KEY:
    "If you gave that key, name it with TURNS_KEY_ID. Else give all keys: --key-file FILE with { keys, current } as JSON.",
  EFFECT_IN_DOUBT: "turns effects --in-doubt lists it, with the commands that settle it.",
  EFFECT_UNCOMPENSATED: "give the module of the undos with --graph, or add --allow-uncompensated.",
  REWIND_UNFINISHED: "turns rewind THREAD --graph MODULE finishes it, and turns rewind THREAD --abandon gives it up.",
  UNDO_FAILED: "turns rewind THREAD --graph MODULE continues it, and turns rewind THREAD --abandon gives it up.",
  GRAPH_CHANGED: "turns resume THREAD --graph MODULE#EXPORT --drift continue (or --drift restart, or --accept NODES).",
  SCHEMA_OUTDATED: "turns migrate shows what is missing, and turns migrate --yes makes it. turns doctor tells what differs.",
  EFFECT_NOT_FOUND: "turns effects lists those in doubt, and turns effects THREAD all of a thread.",
  EFFECT_NOT_IN_DOUBT: "turns effects --in-doubt lists those that are, and turns effects THREAD all of a thread.",
  CHECKPOINT_CORRUPTED: "turns verify lists what is damaged, and turns salvage OUT rescues the rest of a file into a new one.",
  UNKNOWN_INTERRUPT: "turns inbox lists the open questions.",
  REWIND_NOT_FOUND: "turns rewinds THREAD lists the rewinds of a thread.",
};

/** A server's message with the command as it's started here. */
function withOwnMigrate(message: string): string {
  if (!isUrl(ownPlace() ?? "")) return message;
  return message.replace(/npx turns migrate --db URL(?: --schema '(?:[^']|'\\'')*')? --yes/, () => toCopy("turns migrate --yes"));
}

/** What another program's file has. */
export const tablesText = (names: readonly string[]): string => ` (${names.length === 1 ? "table" : "tables"} ${listed(names)})`;

/** A file without our tables: most often another program's, or one of LangGraph's own saver. */
async function withoutTables(file: string): Promise<string> {
  const { officialThreads } = await import("../import/import-official");
  const threads = await officialThreads(file, []).then(
    (found) => found.threads,
    () => 0,
  );
  const others = foreignTables(file);
  if (threads === 0 && others !== undefined)
    return `${file} belongs to another program${tablesText(others)}, and has no tables of this package. Nothing was changed. Check the path.`;
  return threads > 0
    ? `${file} has ${plural(threads, "thread")} of LangGraph's SqliteSaver, and none of this package. Nothing was changed. Import them: turns import-official ${word(file)} --db agent.db`
    : `Database ${file} doesn't have the tables of this package. Nothing was changed. Check the path. To create the tables: turns --db ${word(file)} migrate --yes`;
}

/** {@link messageOf} for an error that ends the program: it may look into a file that isn't ours. */
export async function lastMessageOf(error: unknown): Promise<string> {
  if (!TurnsError.is(error, "SCHEMA_OUTDATED")) return messageOf(error);
  const { found, file } = error.data;
  return found === 0 && typeof file === "string" ? `${await withoutTables(file)} [${error.code}]` : messageOf(error);
}

/** The message for stderr: what is wrong, what to do, and the code. A stack only for what should never happen. */
export function messageOf(error: unknown): string {
  return withCommands(plainMessage(error));
}

/** What an undo threw is told in its place. */
function causeFirst({ code, message, cause }: TurnsError): string {
  const isTold = code === "UNDO_FAILED" && cause instanceof Error;
  return isTold ? message.replace("threw; its error is the cause.", () => `threw ${cause.name}: ${cause.message}.`) : message;
}

function plainMessage(error: unknown): string {
  if (error instanceof UsageError || error instanceof Interrupted) return error.message;
  if (!TurnsError.is(error)) return error instanceof Error ? (error.stack ?? error.message) : String(error);
  const { found, file, effects, path, there } = error.data;
  // A server without tables: the message itself has the command.
  if (error.code === "SCHEMA_OUTDATED" && found === 0 && file === undefined)
    return `${withOwnMigrate(error.message)} [${error.code}]`;
  if (error.code === "REWIND_CONFLICT" && Array.isArray(effects))
    return `${error.message} Here: add --despite-undone. [${error.code}]`;
  if (error.code === "BACKUP_TARGET_EXISTS" && there !== undefined && there === path)
    return `${error.message} Here: add --overwrite, or give another path. [${error.code}]`;
  if (error.code === "THREAD_MOVED") return `${movedMessage(error.data, ownPlace() ?? "SRC", PROGRAM)} [${error.code}]`;
  const isDamaged = error.code === "STORE_FAILED" && /\b(?:is damaged|malformed)\b/.test(error.message);
  const remedy = isDamaged
    ? REMEDIES.CHECKPOINT_CORRUPTED
    : isPlaintext(error)
      ? "Give the keys of the target: TURNS_TO_KEY or --to-key-file."
      : REMEDIES[error.code];
  const { threadId } = error.data;
  const filled = typeof threadId === "string" ? remedy?.replaceAll("THREAD", () => word(threadId)) : remedy;
  return `${causeFirst(error)}${filled === undefined ? "" : ` Here: ${filled}`} [${error.code}]`;
}
