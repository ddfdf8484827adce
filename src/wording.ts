import { inspect } from "node:util";

/** Makes `String(data)`, `console.log(data)` and `util.inspect` print these words, without making that part of the data. */
export function printing<T extends object>(data: T, words: () => string): T {
  return Object.defineProperties(data, { toString: { value: words }, [inspect.custom]: { value: words } });
}

export const quoted = (text: string): string => JSON.stringify(text);

/** `Error: card declined`; the name alone if there is no message. */
export function errorText({ name, message }: { name: string; message: string }): string {
  return message === "" ? name : `${name}: ${message}`;
}

/** Repeated names become one with a count: `w (3)`. */
export function counted(names: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${name} (${count})`));
}

/**
 * The first parts, at least one.
 *
 * @param max how many characters there may be
 * @param most how many parts
 */
export function listed(parts: readonly string[], max: number, most = 5): string {
  let text = "";
  let count = 0;
  for (const part of parts.slice(0, most)) {
    const longer = count === 0 ? cut(part, max) : `${text}, ${part}`;
    if (longer.length > max) break;
    text = longer;
    count += 1;
  }
  return count === parts.length ? text : `${text} and ${parts.length - count} more`;
}

export function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
