import { spawnSync } from "node:child_process";
import { nearestName } from "../unknown-option";
import { UsageError } from "./exit";
import { type Column, graphNote, hasColours, type Look, painter, table } from "./look";
import { passwordNote } from "./place";

/** The version of the JSON shapes. Fields are only added to one. */
const FORMAT = 1;

/** What a command found. */
export interface Answer {
  /** The JSON document, without its version. */
  data: object;
  /** The name of the list in it, if it is mainly a list. */
  list?: string;
  /** What a terminal shows. */
  text: (look: Look) => string;
  /** The command has written its output itself. */
  isWritten?: boolean;
  exit?: number;
}

export interface OutputOptions {
  json?: boolean;
  jsonl?: boolean;
  table?: boolean;
  fields?: string;
  color?: boolean;
  pager?: boolean;
  utc?: boolean;
}

let toStdout: typeof process.stdout.write | undefined;

/** Writes to stdout, also after {@link keepStdout}. */
export function print(text: string, written?: () => void): void {
  (toStdout ?? process.stdout.write.bind(process.stdout))(text, written);
}

/** What a module that `--graph` loads prints goes to stderr if a program reads the answer. Else it would stand in its JSON. */
export function keepStdout(options: OutputOptions): void {
  const { stdout, stderr } = process;
  if (toStdout !== undefined || wantsText(options)) return;
  toStdout = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
}

/** An answer for a terminal, or for a program. */
export function write(answer: Answer, options: OutputOptions): void {
  if (answer.isWritten === true) return;
  const { stdout, env } = process;
  const wanted = options.fields?.split(",").map((name) => name.trim());
  const data = wanted === undefined ? answer.data : reduced(answer, wanted);
  if (options.jsonl === true) {
    const list = answer.list === undefined ? [data] : ((data as Record<string, unknown>)[answer.list] as object[]);
    for (const item of list) print(`${JSON.stringify(item)}\n`);
    return;
  }
  if (!wantsText(options)) {
    print(`${JSON.stringify({ format: FORMAT, ...data }, undefined, 2)}\n`);
    return;
  }
  const look = lookOf(options);
  const text = wanted === undefined ? answer.text(look) : fieldsTable(answer, data, wanted, look);
  const lines = text === "" ? "" : `${graphNote(text, look)}${passwordNote(text)}\n`;
  if (stdout.isTTY && options.pager !== false && lines.split("\n").length > stdout.rows && paged(lines, env)) return;
  print(lines);
}

/** Whether a person reads it. */
export function wantsText({ json, jsonl, table: wanted }: OutputOptions): boolean {
  return json !== true && jsonl !== true && (process.stdout.isTTY || wanted === true);
}

export function lookOf({ color = true, utc = false }: OutputOptions): Look {
  const { stdout, env } = process;
  const given = Number(env["COLUMNS"]);
  const width = stdout.isTTY ? stdout.columns : given > 0 ? given : Infinity;
  return { width, paint: painter(hasColours(env, stdout.isTTY, color)), now: Date.now(), utc };
}

/** Only the named fields of the list's items, or of the document. */
function reduced({ data, list }: Answer, names: readonly string[]): object {
  const pick = (item: object): object => Object.fromEntries(names.map((name) => [name, (item as Record<string, unknown>)[name]]));
  if (list === undefined) {
    refuseUnknown(names, Object.keys(data));
    return pick(data);
  }
  const items = (data as Record<string, unknown>)[list] as object[];
  if (items[0] !== undefined) refuseUnknown(names, [...new Set(items.flatMap((item) => Object.keys(item)))]);
  return { ...data, [list]: items.map(pick) };
}

/** @throws {UsageError} */
function refuseUnknown(names: readonly string[], valid: readonly string[]): void {
  const unknown = names.find((name) => !valid.includes(name));
  if (unknown === undefined) return;
  const nearest = nearestName(unknown, valid);
  throw new UsageError(
    `There is no field "${unknown}".`,
    `${nearest === undefined ? "" : `Did you mean "${nearest}"? `}The fields: ${valid.join(", ")}.`,
  );
}

function fieldsTable({ list }: Answer, data: object, names: readonly string[], look: Look): string {
  const rows = list === undefined ? [data] : ((data as Record<string, unknown>)[list] as object[]);
  const columns = names.map((name): Column<object> => {
    const value = (row: object): string => {
      const cell = (row as Record<string, unknown>)[name];
      return cell === null || cell === undefined ? "" : typeof cell === "string" ? cell : JSON.stringify(cell);
    };
    return { title: name, value, shrinks: 8 };
  });
  return table(rows, columns, look);
}

/** Shows a text in the user's pager. @returns whether there was one */
function paged(text: string, env: NodeJS.ProcessEnv): boolean {
  const pager = env["TURNS_PAGER"] ?? env["PAGER"] ?? "less";
  if (pager === "" || pager === "cat") return false;
  const { status, error } = spawnSync(pager, {
    input: text,
    stdio: ["pipe", "inherit", "inherit"],
    shell: true,
    env: { LESS: "FRX", ...env },
  });
  // 127: the shell found no such program.
  return error === undefined && status !== 127;
}
