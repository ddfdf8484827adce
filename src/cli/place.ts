import { closeSync, existsSync, openSync, readSync } from "node:fs";
import { once, optionText, shellWord, startedAs } from "../inspection/words";

/* How a database is named, and commands that name it as this one did. Nothing here shows a password. */

/** How the command line names a database and its keys. */
export interface DatabaseOptions {
  db?: string;
  schema?: string;
  keyFile?: string;
}

const URL_OF_POSTGRES = /^postgres(ql)?:\/\//i;
export const FILES = /\.(db|sqlite|sqlite3)$/i;

export function isUrl(place: string): boolean {
  return URL_OF_POSTGRES.test(place);
}

/** Whether an argument names a database, and not a command. */
export function isPlace(text: string): boolean {
  if (text.startsWith("-")) return false;
  return isUrl(text) || FILES.test(text) || (text.includes("/") && existsSync(text));
}

/** `scheme://user:password@`. The scheme may be mistyped, quoted or missing, and the password may have any character. */
const CREDENTIALS = /^([\s"'`]*(?:[a-z][\w+.-]*:)?[^:@]*):(?!\/\/)[^]*@/i;
/** As a parameter of a URL, or as libpq's keyword. */
const PASSWORD = /([?&\s]|^)(?:(?:ssl)?pass(?:word)?\s*=\s*(?:'[^']*'|[^&\s]*)&?)+/gi;
/** A host's port, so that an @ behind it belongs to a parameter. */
const PORT = /:\d+(?:\/[^:?]*)?$/;

/** What a path surely begins with. */
const PATH = /^(?:\.{0,2}\/(?!\/)|[a-z]:[\\/])/i;
/** How a URL begins, also one with a leading space, in quotes, or without its colon. A drive's letter is no scheme. */
const LIKE_URL = /^[\s"'`]*(?:[a-z][\w+.-]+:|postgres\w*\/\/)/i;

/** Whether a place that isn't there looks like a mistyped URL, so that no file is created under that name. */
export function isLikeUrl(place: string): boolean {
  return LIKE_URL.test(place) || (!PATH.test(place) && CREDENTIALS.test(place));
}

/** Where a database is, as it may be shown: without a password, also if it's mistyped. */
export function withoutPassword(place: string): string {
  if (!isUrl(place) && existsSync(place)) return place;
  const at = place.search(/\?(?=\w+=)/);
  const base = at < 0 ? place : place.slice(0, at);
  const isWhole = at < 0 || (!base.includes("@") && /:[^/]/.test(base) && !PORT.test(base));
  const [authority, query] = isWhole ? [place, ""] : [base, place.slice(at)];
  const shown = authority.replace(CREDENTIALS, "$1@") + query;
  return shown.replaceAll(PASSWORD, "$1").replace(/[?&]$/, "");
}

/** A text with places in it, as it may be shown. */
export function withoutPasswords(text: string): string {
  return text.replaceAll(/(?:[a-z][\w+.-]*:?\/\/|socket:|postgres\w*:)[^\s"'`]+/gi, withoutPassword);
}

const { npm_lifecycle_event: event, npm_lifecycle_script: script = "" } = process.env;
/** How a person starts this program: a package that is installed in a project is in no shell's PATH. */
export const PROGRAM = event === "npx" && /^\W?turns\b/.test(script) ? "npx turns" : "turns";

/** A program with the options that name its database, for a command to copy. */
export function startOn({ db, schema, keyFile }: DatabaseOptions): string {
  const place = db === undefined ? undefined : withoutPassword(db);
  return [
    PROGRAM,
    ...(place === undefined ? [] : isPlace(place) ? [shellWord(place)] : ["--db", shellWord(place)]),
    ...(schema === undefined ? [] : ["--schema", shellWord(schema)]),
    ...(keyFile === undefined || keyFile === "-" ? [] : ["--key-file", shellWord(keyFile)]),
  ].join(" ");
}

/** How this program was started: every command that it prints begins so. */
let start = PROGRAM;
let given: readonly string[] = [];
/** Servers in commands that have no password here, unlike what was given. */
let stripped: readonly string[] = [];
let own: string | undefined;

/** The database that this program was started on, as it may be shown; undefined if nobody named it. */
export function ownPlace(): string | undefined {
  return own;
}

export function startedWith(args: readonly string[], options: DatabaseOptions): void {
  [start, given] = [startOn(options), args];
  own = options.db === undefined ? undefined : withoutPassword(options.db);
  const places = [options.db ?? "", ...args].filter(isUrl);
  stripped = places.map(withoutPassword).filter((shown) => !places.includes(shown));
}

/** A command to copy, which names the database as this one did. */
export function toCopy(command: string): string {
  return startedAs(start, command);
}

/** A sentence of ours with commands in it. */
export function withCommands(text: string): string {
  return text.replaceAll(/(?<=^|[.:;] |, and )turns(?= (?!import)[a-z][a-z-]*(?:[ ,;]|\.?$))(?: move (?=[^ ,;]))?/g, (found) =>
    startedAs(start, found),
  );
}

/** This command again, for what comes behind a cursor. */
export function moreWith(cursor: string | number): string {
  const words = given.filter((word, n) => word !== "--cursor" && given[n - 1] !== "--cursor" && !word.startsWith("--cursor="));
  const end = words.includes("--") ? words.indexOf("--") : words.length;
  const shown = words.map((word) => {
    const [, flag = "", rest = ""] = /^(--\w+=)?([^]*)$/.exec(word) ?? [];
    return shellWord(flag + withoutPassword(rest));
  });
  return [PROGRAM, ...shown.slice(0, end), optionText("--cursor", String(cursor)), ...shown.slice(end)].join(" ");
}

/** What a text with commands lacks: they have no password. */
export function passwordNote(text: string): string {
  return stripped.some((place) => text.split("\n").some((line) => /\bturns /.test(line) && line.includes(shellWord(place))))
    ? "\n\nThe commands need your password: set PGPASSWORD."
    : "";
}

/** How a file begins; empty if it can't be read: who opens it says why. */
export function beginOf(file: string, bytes: number): Buffer {
  const begin = Buffer.alloc(bytes);
  let fd: number | undefined;
  try {
    fd = openSync(file, "r");
    return begin.subarray(0, readSync(fd, begin, 0, bytes, 0));
  } catch {
    return Buffer.alloc(0);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

const HEADER = 100;
/** SQLite counts changes of the schema here. */
const SCHEMA_COOKIE = 40;

/** Tables of another program in a SQLite file, as its begin names them; undefined if it has none. */
export function foreignTables(file: string): string[] | undefined {
  const begin = beginOf(file, 65_536);
  if (begin.length < HEADER || begin.readUInt32BE(SCHEMA_COOKIE) === 0) return undefined;
  const names = begin.toString("latin1").matchAll(/CREATE TABLE (?:IF NOT EXISTS )?["'`[]?(\w+)/gi);
  const others = once([...names].map(([, name = ""]) => name)).filter((name) => !/^(sqlite|langgraph)_/.test(name));
  return others.length === 0 ? undefined : others;
}
