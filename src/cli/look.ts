import { NO_GRAPH } from "../inspection/answers";
import { moreWith, toCopy } from "./place";
import { ago, cut, oneLine, widthOf, wrapped } from "./text";

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, cyan: 36 } as const;
export type Colour = keyof typeof CODES;

/** How things look on this terminal. */
export interface Look {
  /** Columns; Infinity if nothing limits them. */
  width: number;
  paint: (colour: Colour, text: string) => string;
  now: number;
  utc: boolean;
}

const INDENT = "  ";

/** Colours, by the conventions of NO_COLOR, FORCE_COLOR and TERM. */
export function hasColours(env: NodeJS.ProcessEnv, isTerminal: boolean, wanted: boolean): boolean {
  if (!wanted || (env["NO_COLOR"] ?? "") !== "") return false;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  return isTerminal && env["TERM"] !== "dumb";
}

export function painter(colours: boolean): Look["paint"] {
  return (colour, text) => (colours && text !== "" ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text);
}

/** A time for people: how long ago, and when. */
export function moment(iso: string, { now, utc }: Look): string {
  return `${ago(iso, now)} (${utc ? iso : local(iso)})`;
}

function local(iso: string): string {
  const at = new Date(iso);
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** A column of a table. */
export interface Column<T> {
  title: string;
  value: (row: T, look: Look) => string;
  colour?: (row: T) => Colour | undefined;
  align?: "right";
  /** The least width that it's cut to. Columns without it keep theirs. */
  shrinks?: number;
  /** Left out first, if there isn't enough room: the greatest first. */
  optional?: number;
}

const GAP = 2;

/** Where nothing limits the width and so nothing is cut, a longer cell sticks out of its column, rather than widen it for all rows. */
const STICKS_OUT = 80;

/** Rows below each other, cut to the terminal's width. */
export function table<T>(rows: readonly T[], columns: readonly Column<T>[], look: Look): string {
  const cells = columns.map((column) => rows.map((row) => oneLine(column.value(row, look))));
  const isLimited = look.width !== Infinity;
  const widthIn = (cell: string): number => Math.min(widthOf(cell), isLimited ? Infinity : STICKS_OUT);
  const natural = columns.map(({ title }, at) => Math.max(widthOf(title), ...(cells[at] ?? []).map(widthIn)));
  const shown = fitted(columns, natural, look.width);
  const line = (of: (at: number) => readonly [text: string, colour: Colour | undefined]): string =>
    shown
      .map(({ at, width }) => {
        const [text, colour] = of(at);
        const short = isLimited ? cut(text, width) : text;
        const painted = colour === undefined ? short : look.paint(colour, short);
        const padding = " ".repeat(Math.max(0, width - widthOf(short)));
        return columns[at]?.align === "right" ? padding + painted : painted + padding;
      })
      .join(" ".repeat(GAP))
      .trimEnd();
  const header = line((at) => [columns[at]?.title ?? "", "dim"]);
  return [header, ...rows.map((row, index) => line((at) => [cells[at]?.[index] ?? "", columns[at]?.colour?.(row)]))].join("\n");
}

function fitted<T>(columns: readonly Column<T>[], natural: readonly number[], room: number): { at: number; width: number }[] {
  let shown = columns.map((_, at) => ({ at, width: natural[at] ?? 0 }));
  const used = (): number => shown.reduce((sum, { width }) => sum + width + GAP, -GAP);
  const narrow = (): void => {
    for (let excess = used() - room; excess > 0; excess = used() - room) {
      const [widest] = shown
        .filter(({ at, width }) => width > (columns[at]?.shrinks ?? Infinity))
        .sort((left, right) => right.width - left.width);
      if (widest === undefined) return;
      widest.width -= Math.min(excess, Math.max(1, widest.width - (columns[widest.at]?.shrinks ?? 0)));
    }
  };
  narrow();
  while (used() > room) {
    const [last] = shown
      .filter(({ at }) => columns[at]?.optional !== undefined)
      .sort((left, right) => (columns[right.at]?.optional ?? 0) - (columns[left.at]?.optional ?? 0));
    if (last === undefined) break;
    shown = shown.filter((column) => column !== last).map(({ at }) => ({ at, width: natural[at] ?? 0 }));
    narrow();
  }
  return shown;
}

/** The commands that help now, below an answer. That they work when they're pasted is worth more than the explanations. */
export function nextText(commands: readonly (readonly [command: string, why?: string])[], look: Look): string {
  const explained = linesOf(commands.map(([command, why]) => [toCopy(command), why]));
  const isFitting = explained.every((line) => widthOf(line) <= look.width);
  const lines = isFitting ? explained : linesOf(commands.map(([command]) => [toCopy(command)]));
  return `${look.paint("dim", "next")}\n${lines.join("\n")}`;
}

/** What follows in a list. */
export function moreText(cursor: string | number | null | undefined, { paint }: Look): string {
  return cursor === null || cursor === undefined ? "" : `\n${paint("dim", `more: ${moreWith(cursor)}`)}`;
}

/** Below commands: what to put in the place of the graph. */
export function graphNote(text: string, { paint, width }: Look): string {
  if (!text.includes(`--graph ${NO_GRAPH}`)) return text;
  const note = wrapped(`${NO_GRAPH}  your graph's file and its export, which aren't recorded: ./agent.ts#graph`, width);
  return `${text}\n\n${note.join("\n").replace(NO_GRAPH, (name) => paint("dim", name))}`;
}

function linesOf(commands: readonly (readonly [command: string, why?: string | undefined])[]): string[] {
  const width = Math.max(...commands.map(([command, why]) => (why === undefined ? 0 : widthOf(command))));
  return commands.map(([command, why]) => `${INDENT}${why === undefined ? command : `${command.padEnd(width)}  ${why}`}`);
}

/** Names and values below each other. */
export function pairs(entries: readonly (readonly [name: string, value: string])[], look: Look): string {
  const width = Math.max(...entries.map(([name]) => widthOf(name)));
  return entries.map(([name, value]) => `${look.paint("dim", name.padEnd(width))}  ${value}`).join("\n");
}
