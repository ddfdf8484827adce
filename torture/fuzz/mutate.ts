import { nastyKey, nastyText, nastyValue, Raw, TAGS } from "./nasty";
import type { Random } from "./random";

/** One to four changes to a text: as a JSON tree if it is one, as bytes now and then, and as bytes always if it isn't one. */
export function mutated(text: string, other: string, random: Random): string {
  let now = text;
  for (let times = 1 + random.below(4); times > 0; times -= 1)
    now = random.once(6) ? inText(now, other, random) : inTree(now, other, random);
  return now;
}

/** Changes to bytes: flips, cuts, repetitions, parts of another input. */
export function mutatedBytes(bytes: Uint8Array, other: Uint8Array, random: Random): Buffer {
  let now = Buffer.from(bytes);
  for (let times = 1 + random.below(4); times > 0; times -= 1) {
    const at = random.below(now.length + 1);
    const end = Math.min(now.length, at + random.below(40));
    const [before, within, behind] = [now.subarray(0, at), now.subarray(at, end), now.subarray(end)];
    switch (random.below(6)) {
      case 0:
        now = Buffer.from(now);
        if (at < now.length) now[at] = (now[at] ?? 0) ^ (1 << random.below(8));
        break;
      case 1:
        now = Buffer.concat([before, behind]);
        break;
      case 2:
        now = Buffer.concat([before, within, within, behind]);
        break;
      case 3:
        now = Buffer.concat([before, part(other, random), behind]);
        break;
      case 4:
        now = Buffer.concat([before, Buffer.from([random.of([0, 0x22, 0x5c, 0x7b, 0x80, 0xc0, 0xed, 0xff])]), behind]);
        break;
      default:
        now = Buffer.concat([before, Buffer.from(nastyText(random)), behind]);
    }
  }
  return now;
}

function part(bytes: Uint8Array, random: Random): Uint8Array {
  const from = random.below(bytes.length + 1);
  return bytes.subarray(from, from + random.below(60));
}

function inText(text: string, other: string, random: Random): string {
  return mutatedBytes(Buffer.from(text), Buffer.from(other), random).toString("utf8");
}

function inTree(text: string, other: string, random: Random): string {
  const tree = parsed(text);
  if (tree === undefined) return inText(text, other, random);
  const donor = parsed(other);
  const change = (node: unknown): unknown => changed(node, donor, random);
  return written(at(tree.value, random.below(countOf(tree.value)), change));
}

/** Undefined for text that isn't a tree, or is deeper than our stack: only the product has to cope with that. */
function parsed(text: string): { value: unknown } | undefined {
  if (depthOf(text) > 1_000) return undefined;
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}

/** At least as deep as it is; brackets in strings count too. */
function depthOf(text: string): number {
  let deepest = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at) | 0x20;
    if (code === 0x7b) deepest = Math.max(deepest, (depth += 1));
    else if (code === 0x7d) depth -= 1;
  }
  return deepest;
}

type Entries = readonly (readonly [string, unknown])[];

function changed(node: unknown, donor: { value: unknown } | undefined, random: Random): unknown {
  switch (random.below(8)) {
    case 0:
    case 1:
      return nastyValue(random);
    case 2:
      return donor === undefined ? nastyValue(random) : nth(donor.value, random.below(countOf(donor.value)));
    case 3:
      return [node, node];
    case 4:
      return { "~": random.of(TAGS), v: node };
    default:
      return isObject(node)
        ? changedEntries(node, random)
        : typeof node === "string"
          ? changedString(node, random)
          : nastyValue(random);
  }
}

/** A further key, one less, one renamed, one twice, and the same for elements of lists. */
function changedEntries(node: object, random: Random): unknown {
  if (Array.isArray(node)) {
    const list = [...(node as unknown[])];
    const index = random.below(list.length + 1);
    if (random.once(3)) list.splice(index, 1);
    else if (random.once(2)) list.splice(index, 0, nastyValue(random));
    else list.reverse();
    return list;
  }
  const entries: [string, unknown][] = Object.entries(node);
  const index = random.below(entries.length);
  const chosen = entries[index];
  switch (chosen === undefined ? 0 : random.below(4)) {
    case 0:
      entries.push([nastyKey(random), nastyValue(random)]);
      break;
    case 1:
      entries.splice(index, 1);
      break;
    case 2:
      entries.splice(index, 1, [nastyKey(random), chosen?.[1]]);
      break;
    default:
      entries.push([chosen?.[0] ?? "", nastyValue(random)]);
  }
  return new Raw(writtenEntries(entries));
}

function changedString(text: string, random: Random): string {
  const index = random.below(text.length + 1);
  return random.once(3) ? nastyText(random) : text.slice(0, index) + nastyText(random) + text.slice(index + random.below(3));
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !(value instanceof Raw);
}

function countOf(node: unknown): number {
  return isObject(node) ? Object.values(node).reduce<number>((sum, child) => sum + countOf(child), 1) : 1;
}

/** The n-th node of a tree, itself the 0th. */
function nth(node: unknown, index: number): unknown {
  if (index === 0 || !isObject(node)) return node;
  let left = index - 1;
  for (const child of Object.values(node)) {
    const count = countOf(child);
    if (left < count) return nth(child, left);
    left -= count;
  }
  return node;
}

/** The tree with its n-th node changed. */
function at(node: unknown, index: number, change: (node: unknown) => unknown): unknown {
  if (index === 0 || !isObject(node)) return change(node);
  let left = index - 1;
  const entries = Object.entries(node).map(([key, child]): [string, unknown] => {
    const count = countOf(child);
    const here = left >= 0 && left < count;
    const next = here ? at(child, left, change) : child;
    left -= count;
    return [key, next];
  });
  return Array.isArray(node) ? entries.map(([, child]) => child) : new Raw(writtenEntries(entries));
}

function writtenEntries(entries: Entries): string {
  return `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${written(value)}`).join(",")}}`;
}

/** JSON, with {@link Raw} parts as they are. */
export function written(value: unknown): string {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
  if (isObject(value)) return writtenEntries(Object.entries(value));
  return JSON.stringify(value) ?? "null";
}
