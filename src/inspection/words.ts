/* Parts of sentences, for people. */

export { errorText } from "../wording";

export function plural(value: number, noun: string): string {
  return `${value.toLocaleString("en-US")} ${noun}${value === 1 ? "" : "s"}`;
}

/** A duration: `26 ms`, `0.3 s`, `12 s`, `3 min`, `2 h`, `5 d`. */
export function lasting(ms: number): string {
  if (ms < 100) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 9_950) return `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
  if (ms < 90_000) return `${Math.round(ms / 1_000)} s`;
  if (ms < 5_400_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 129_600_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** `a`, `a and b`, `a, b and c`, `a, b, c and 4 more`. */
export function listed(items: readonly string[], most = 4): string {
  const shown = items.length > most ? [...items.slice(0, most - 1), `${items.length - most + 1} more`] : items;
  const last = shown.at(-1) ?? "";
  return shown.length < 2 ? last : `${shown.slice(0, -1).join(", ")} and ${last}`;
}

/** Each text once, in order. */
export function once(items: readonly string[]): string[] {
  return [...new Set(items)];
}

/** `letter 5 times`, `charge`. @param isCut whether there may be more of each: `letter 1,000 or more times` */
export function times(items: readonly string[], isCut = false): string[] {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  if (isCut) return [...counts].map(([item, count]) => `${item} ${count.toLocaleString("en-US")} or more times`);
  return [...counts].map(([item, count]) => (count === 1 ? item : count === 2 ? `${item} twice` : `${item} ${count} times`));
}

/** A node's path, as people read it. */
export function nodeName(path: string): string {
  return path.replaceAll("|", " › ");
}

/** Each node once, with how often it's there. */
export function countedNodes(paths: readonly string[]): string[] {
  return once(paths).map((path) => {
    const { length } = paths.filter((other) => other === path);
    return nodeName(path) + (length > 1 ? ` (${length.toLocaleString("en-US")})` : "");
  });
}

/** The first line of a text, cut. */
export function firstLine(text: string, most = 160): string {
  const line = text.trimStart().split("\n", 1)[0]?.trimEnd() ?? "";
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** A value in one line. */
export function inBrief(value: unknown, most = 160): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return firstLine(text.replaceAll(/\s+/g, " "), most);
}

/**
 * A word of a command to paste, in one line: quoted if it has to be. What a terminal would act on, or a line can't show, is written
 * as bash and zsh read it.
 */
export function shellWord(text: string): string {
  // zsh expands a word that begins with `=`.
  if (/^[\w./:@%+-][\w./:@%+=#-]*$/.test(text)) return text;
  if (text.search(UNSHOWN) < 0) return `'${text.replaceAll("'", "'\\''")}'`;
  const quoted = text.replaceAll(/[\\']/g, (character) => `\\${character}`);
  return `$'${quoted.replaceAll(UNSHOWN, escaped)}'`;
}

/** Also spaces that a line loses when several become one. */
const UNSHOWN = /[\p{Cc}\p{Cf}\u2028\u2029]|[^\S ]|^ | (?= )| $/gu;

/** As bytes: bash takes a code point for one only if its locale has it. */
function escaped(character: string): string {
  return [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
}

/** A command of `turns`, begun as the program was started here: with the database. */
export function startedAs(start: string, command: string): string {
  // `move` names both databases itself.
  const own = command.startsWith("turns move ") ? (/^(?:npx )?turns/.exec(start)?.[0] ?? start) : start;
  // As a text, the start could hold what `replace` takes for a pattern: `$'`.
  return command.replace(/^turns(?= |$)/, () => own);
}

/** An option with its value, in a command to copy. Only behind `=` can a value begin with a dash. */
export function optionText(flag: string, value: string): string {
  return `${flag}${value.startsWith("-") ? "=" : " "}${shellWord(value)}`;
}

/**
 * A command of `turns` to copy. Arguments that begin with a dash come last, behind `--`.
 *
 * @param options flags, or flags with their values; what is false is left out
 */
export function turns(
  name: string,
  args: readonly string[] = [],
  ...options: readonly (string | false | readonly [flag: string, value: string])[]
): string {
  const words = args.map(shellWord);
  const flags = options.filter((one) => one !== false).map((one) => (typeof one === "string" ? one : optionText(...one)));
  const isDashed = args.some((arg) => arg.startsWith("-"));
  return ["turns", name, ...(isDashed ? [...flags, "--", ...words] : [...words, ...flags])].join(" ");
}
