/* Texts for a terminal: their width, and values in few characters. */

/* eslint-disable no-control-regex -- these characters are what it's about */
/** Control characters could change what the terminal shows, or do; direction marks could reorder it. */
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;
const SEQUENCES = /\u001b\[[0-9;]*m/g;
/* eslint-enable no-control-regex */
const ZERO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}]/u;
/** East Asian wide characters, and emoji. */
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;

/** Content as it's safe to show. */
export function safe(text: string): string {
  return text.replace(UNSAFE, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** {@link safe} in one line. */
export function oneLine(text: string): string {
  return safe(text.replaceAll(/\s+/g, " ").trim());
}

export { shellWord as word } from "../inspection/words";

/** How many columns a text takes. Colours take none. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text.replace(SEQUENCES, "")) width += ZERO_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
}

/** Cuts a text without colours to a width. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const character of text) {
    const next = widthOf(character);
    if (used + next > width - 1) break;
    kept += character;
    used += next;
  }
  return width < 1 ? "" : `${kept}…`;
}

/** Lines of at most so many columns, as far as the words allow it. Without a text there are none. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const each of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || widthOf(last) + 1 + widthOf(each) > width) lines.push(each);
    else lines[lines.length - 1] = `${last} ${each}`;
  }
  return text === "" ? [] : lines;
}

const UNITS = ["B", "KB", "MB", "GB", "TB"] as const;

export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  for (; value >= 1_000 && unit < UNITS.length - 1; unit += 1) value /= 1_000;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** With separators: 12,345. */
export function count(value: number): string {
  return value.toLocaleString("en-US");
}

export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

const STEPS: readonly (readonly [seconds: number, unit: string])[] = [
  [31_557_600, "y"],
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** A duration in its greatest unit: `3 m`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const [seconds, unit] = STEPS.find(([length]) => ms >= length * 1_000) ?? [1, "s"];
  return `${Math.floor(ms / 1_000 / seconds)} ${unit}`;
}

export function ago(iso: string, now: number): string {
  const past = now - Date.parse(iso);
  return past < 1_000 ? "just now" : `${duration(past)} ago`;
}

const LENGTHS: Readonly<Record<string, number>> = { s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 };

/** Milliseconds of a duration like `90m`, `12h` or `7d`; undefined if it's none. */
export function parsedDuration(text: string): number | undefined {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)\s*([smhdw])$/.exec(text) ?? [];
  return number === undefined ? undefined : Number(number) * (LENGTHS[unit] ?? 0);
}

/** JSON in a line, as far as it fits. */
export function brief(value: unknown, width = 100): string {
  return cut(oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? "")), width);
}

/** A value over several lines, indented. */
export function indented(value: unknown, by = 2): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value, undefined, 2) ?? "");
  return safe(text).replaceAll(/^/gm, " ".repeat(by));
}
