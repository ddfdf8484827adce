import { store } from "./store";

/** Whether times are shown in UTC. */
export const utc = store(localStorage.getItem("turns.utc") === "1");
export function toggleUtc(): void {
  utc.set(!utc.get());
  localStorage.setItem("turns.utc", utc.get() ? "1" : "0");
}

/** The current time, which moves while the page is open. */
export const now = store(Date.now());
setInterval(() => now.set(Date.now()), 10_000);

/** Making one takes as long as formatting a hundred times. */
const formats = new Map<string, Intl.DateTimeFormat>();

function formatted(at: string | number, kind: string, options: Intl.DateTimeFormatOptions): string {
  const zone = utc.get() ? "UTC" : undefined;
  const key = `${kind} ${zone}`;
  let format = formats.get(key);
  if (format === undefined) formats.set(key, (format = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone })));
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? "Invalid Date" : format.format(date);
}

const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;

/** `03:44:02`, with milliseconds if asked for. */
export function clock(at: string | number, digits: 0 | 1 | 3 = 0): string {
  return formatted(at, `clock ${digits}`, { ...TIME, ...(digits !== 0 && { fractionalSecondDigits: digits }) });
}

export function day(at: string | number): string {
  return formatted(at, "day", { day: "numeric", month: "short", year: "numeric" });
}

/** `23 Nov 2026, 03:44:02.120 UTC` */
export function moment(at: string | number): string {
  return `${day(at)}, ${clock(at, 3)}${utc.get() ? " UTC" : ""}`;
}

const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
] as const;

/** `now`, `41 min`, `6 h`, `yesterday`, `12 d`; a date if it's longer ago. */
export function ago(at: string | number, from = now.get()): string {
  const past = from - new Date(at).getTime();
  if (past < 5_000) return "now";
  const days = Math.floor(past / 86_400_000);
  if (days === 1) return "yesterday";
  if (days > 30) return day(at);
  const [size, unit] = UNITS.find(([each]) => past >= each) ?? [1_000, "s"];
  return `${Math.floor(past / size)} ${unit}`;
}

/** `0.3 s`, `4 min 10 s`, `2 h 5 min` */
export function duration(ms: number): string {
  if (ms < 0) return "0 ms";
  if (ms < 100) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
  return `${Math.floor(ms / 86_400_000)} d ${Math.round((ms % 86_400_000) / 3_600_000)} h`;
}

export function bytes(count: number): string {
  if (count < 1_024) return `${count} B`;
  const power = Math.min(4, Math.floor(Math.log(count) / Math.log(1_024)));
  const size = count / 1_024 ** power;
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

const numbers = new Intl.NumberFormat("en-US");
export const count = (number: number): string => numbers.format(number).replaceAll(",", " ");

/** `41k`, `1.2M` */
export function short(number: number): string {
  if (number < 10_000) return count(number);
  if (number < 1_000_000) return `${Math.round(number / 1_000)}k`;
  return `${(number / 1_000_000).toFixed(1)}M`;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A node's path, as people read it. */
export const nodeName = (path: string): string => path.replaceAll("|", " › ");

/** `a`, `a and b`, `a, b and c` */
export function listed(names: readonly string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
