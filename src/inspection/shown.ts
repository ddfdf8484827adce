/** A value as far as it is shown. */
export interface Shown {
  /** Plain JSON. Where something is left out, it has a {@link Cut}. */
  value: unknown;
  /** Whether something is left out. */
  cut: boolean;
  /** About how many characters the whole has as JSON. */
  bytes: number;
  /** The address of the whole: a path with its query; null if nothing is left out. */
  whole: string | null;
}

/**
 * Stands for a value that is shown in part. A text: its beginning, and its length in characters. A list or an object: its
 * first parts, and how many it has. `depth`: nothing, as it's nested too deeply.
 */
export type Cut =
  | { $cut: "text"; shown: string; length: number }
  | { $cut: "list"; shown: unknown[]; length: number }
  | { $cut: "object"; shown: Record<string, unknown>; length: number }
  | { $cut: "depth" };

/** How much of a value is shown: characters in all, characters of one text, parts of one list or object, and levels. */
export interface Limits {
  total: number;
  text: number;
  parts: number;
  depth: number;
}

export const SHORT: Limits = { total: 20_000, text: 2_000, parts: 100, depth: 12 };
/** `whole=1`. Nothing but a depth that no browser shows is left out; see `plain`. */
export const WHOLE: Limits = { total: Infinity, text: Infinity, parts: Infinity, depth: Infinity };

/**
 * A value within limits.
 *
 * @param value as `plain` makes it
 * @param whole the address of the whole, if something has to be left out
 */
export function shownOf(value: unknown, whole: string, limits: Limits = SHORT): Shown {
  const state = { left: limits.total, cut: false };
  const shown = within(value, limits, 0, state);
  return { value: shown, cut: state.cut, bytes: lengthOf(value), whole: state.cut ? whole : null };
}

function within(value: unknown, limits: Limits, depth: number, state: { left: number; cut: boolean }): unknown {
  if (typeof value === "string") {
    const most = Math.max(0, Math.min(limits.text, state.left));
    state.left -= Math.min(value.length, most);
    if (value.length <= most) return value;
    state.cut = true;
    return { $cut: "text", shown: beginningOf(value, most), length: value.length } satisfies Cut;
  }
  if (typeof value !== "object" || value === null) {
    state.left -= 8;
    return value;
  }
  if ((value as { $cut?: unknown }).$cut === "depth") state.cut = true;
  if (depth >= limits.depth) {
    state.cut = true;
    return { $cut: "depth" } satisfies Cut;
  }
  if (Array.isArray(value)) {
    const shown: unknown[] = [];
    for (const item of value as unknown[]) {
      if (shown.length >= limits.parts || state.left <= 0) break;
      shown.push(within(item, limits, depth + 1, state));
    }
    if (shown.length === value.length) return shown;
    state.cut = true;
    return { $cut: "list", shown, length: value.length } satisfies Cut;
  }
  const entries = Object.entries(value);
  const shown: [string, unknown][] = [];
  for (const [key, part] of entries) {
    if (shown.length >= limits.parts || state.left <= 0) break;
    state.left -= key.length;
    shown.push([key, within(part, limits, depth + 1, state)]);
  }
  // `fromEntries` defines: a key may be `__proto__`.
  const record = Object.fromEntries(shown);
  if (shown.length === entries.length) return record;
  state.cut = true;
  return { $cut: "object", shown: record, length: entries.length } satisfies Cut;
}

/** The first characters of a text, not half of a pair of surrogates. */
export function beginningOf(text: string, length: number): string {
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length);
}

/** The length of a value as JSON, without making the JSON. */
function lengthOf(value: unknown): number {
  if (typeof value === "string") return value.length + 2;
  if (typeof value !== "object" || value === null) return String(value).length;
  if (Array.isArray(value)) return (value as unknown[]).reduce<number>((sum, item) => sum + lengthOf(item) + 1, 1);
  return Object.entries(value).reduce((sum, [key, part]) => sum + key.length + 4 + lengthOf(part), 1);
}
