import type { Bound } from "../program";
import { ALL_TABLES } from "../tables";
import { toTagged, toText } from "./values";

/** Columns that hold text or bytes, as `table.column`. */
const TAGGED = new Set(
  ALL_TABLES.flatMap(({ name, columns }) =>
    Object.entries(columns).flatMap(([column, { type }]) => (type === "any" ? [`${name}.${column}`] : [])),
  ),
);
const OWN_NAMES = new Set([...ALL_TABLES.map(({ name }) => name), "langgraph_migrations", "langgraph_thread_numbers"]);

/** The parts of a statement that are translated: a literal (which isn't), a placeholder, one of our names. */
const PARTS = /'(?:[^']|'')*'|\?(\d*)|\blanggraph_\w+/g;
const INSERTED = /^INSERT (?:OR \w+ )?INTO (\w+) \(([^)]*)\) VALUES \(([^)]*)\)/;
const CHANGED = /^(?:UPDATE (\w+) SET|INSERT INTO (\w+) )/;

type Kind = "number" | "string" | "bytes";
const CASTS: Readonly<Record<Kind, string>> = { number: "::bigint", string: "::text", bytes: "::bytea" };

/** A statement in PostgreSQL's words. */
interface Translated {
  text: string;
  /** For each parameter of the result, the index of the value that it takes. */
  order: readonly number[];
  /** By value: it goes into a column that holds text or bytes. */
  isTagged: readonly boolean[];
  /** By value: it's a list of texts as JSON, which are compared with texts of the database. */
  isList: readonly boolean[];
  /** By value: its kind, as far as it is known. Undefined if it needs none: the columns of an INSERT say it. */
  kinds: (Kind | undefined)[] | undefined;
}

/**
 * Translates the statements of programs: placeholders, names of tables, and values. Each text is translated once.
 *
 * A parameter outside of a list of columns is cast to the type of its value. Otherwise the server would take `?1 * 67108864` for a
 * product of 32-bit numbers.
 */
export class Translator {
  readonly #schema: string;
  readonly #known = new Map<string, Translated>();

  /** @param schema quoted */
  constructor(schema: string) {
    this.#schema = schema;
  }

  statement(text: string, values: readonly Bound[]): { text: string; values: (string | Buffer | null)[] } {
    let known = this.#known.get(text);
    if (known === undefined || !isFor(known, values)) {
      known = this.#translated(text, values, known?.kinds);
      this.#known.set(text, known);
    }
    const { order, isTagged, isList } = known;
    const bind = (index: number): string | Buffer | null => {
      const value = values[index] as Bound;
      return isList[index] === true ? toTexts(value as string) : bound(value, isTagged[index] === true);
    };
    return { text: known.text, values: order.map(bind) };
  }

  #translated(text: string, values: readonly Bound[], before?: readonly (Kind | undefined)[]): Translated {
    const isTagged = taggedValues(text, values.length);
    const isInsert = INSERTED.test(text);
    const kinds = isInsert
      ? undefined
      : values.map((value, at) => (value === null ? before?.[at] : isTagged[at] === true ? "bytes" : kindOf(value)));
    const order: number[] = [];
    const numbered = new Map<number, number>();
    const isList: boolean[] = [];
    let next = 0;
    const translated = text.replace(PARTS, (part, number: string | undefined, at: number) => {
      if (part.startsWith("'")) return part;
      if (!part.startsWith("?")) return OWN_NAMES.has(part) ? `${this.#schema}.${part}` : part;
      const index = number === undefined || number === "" ? next++ : Number(number) - 1;
      let position = numbered.get(index);
      if (position === undefined) {
        order.push(index);
        position = order.length;
        numbered.set(index, position);
      }
      const kind = kinds?.[index];
      isList[index] ||= text.startsWith("::json", at + part.length);
      return `$${position}${kind === undefined ? "" : CASTS[kind]}`;
    });
    return { text: translated, order, isTagged, isList, kinds };
  }
}

/** Whether a text, translated for other values, fits these: their kinds are the same, as far as they were known. */
function isFor({ kinds, isTagged }: Translated, values: readonly Bound[]): boolean {
  if (kinds === undefined) return true;
  for (const [at, value] of values.entries()) {
    if (value !== null && isTagged[at] !== true && kinds[at] !== kindOf(value)) return false;
  }
  return true;
}

function kindOf(value: string | number | Uint8Array): Kind {
  return typeof value === "number" ? "number" : typeof value === "string" ? "string" : "bytes";
}

/** Which values go into columns that hold text or bytes, by their place in an INSERT or in `column = ?` of an UPDATE. */
function taggedValues(text: string, count: number): boolean[] {
  const isTagged = new Array<boolean>(count).fill(false);
  const table = CHANGED.exec(text)?.slice(1).find(Boolean);
  if (table === undefined) return isTagged;
  const [, , columns, placeholders] = INSERTED.exec(text) ?? [];
  if (columns !== undefined && placeholders !== undefined) {
    const names = columns.split(", ");
    for (const [index, name] of valuesIn(placeholders.split(", "))) {
      if (TAGGED.has(`${table}.${names[index] ?? ""}`)) isTagged[name] = true;
    }
    return isTagged;
  }
  let next = 0;
  for (const [, column, number] of text.matchAll(/(?:\b(\w+) = )?\?(\d*)/g)) {
    const index = number === "" ? next++ : Number(number) - 1;
    if (column !== undefined && TAGGED.has(`${table}.${column}`)) isTagged[index] = true;
  }
  return isTagged;
}

/** The places of a VALUES list that are placeholders, each with the index of its value. */
function valuesIn(placeholders: readonly string[]): [place: number, value: number][] {
  let next = 0;
  return placeholders.flatMap((placeholder, place) => {
    const number = /^\?(\d*)$/.exec(placeholder)?.[1];
    if (number === undefined) return [];
    return [[place, number === "" ? next++ : Number(number) - 1] as [number, number]];
  });
}

function bound(value: Bound, isTagged: boolean): string | Buffer | null {
  if (value === null) return null;
  if (typeof value === "number") return String(value);
  if (isTagged) return toTagged(value);
  return typeof value === "string" ? toText(value) : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/** Escapes the texts of a JSON list like those that they are compared with. */
function toTexts(json: string): string {
  return json.includes("\\u") ? JSON.stringify((JSON.parse(json) as string[]).map(toText)) : json;
}
