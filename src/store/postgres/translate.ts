import { createHash } from "node:crypto";
import type { Bound } from "../program";
import type { Query } from "./batch";
import { ALL_TABLES } from "../tables";
import { toBound, toText } from "./values";

const OWN_NAMES = new Set([...ALL_TABLES.map(({ name }) => name), "langgraph_migrations", "langgraph_thread_numbers"]);
/** The parts of a statement that are translated: a literal (which isn't), a placeholder, one of our names. */
const PARTS = /'(?:[^']|'')*'|\?(\d*)|\blanggraph_\w+/g;
/** The terms of a recursive query must be compared in the same way, and our columns are compared by their bytes. */
const NULL_TEXT = "CAST(NULL AS TEXT)";
const NULL_TEXT_IN_BYTE_ORDER = `${NULL_TEXT} COLLATE "C"`;
/** The planner takes no hints. */
const HINT = / INDEXED BY \w+/g;
/** Its columns say the types of its values. */
const INSERTS_VALUES = /^INSERT INTO \w+ \([^)]*\) VALUES /;

/** A statement gets a name at its third use. */
const USES = 3;
/** The server keeps so many at most for each connection: each takes memory there. */
const NAMED = 200;

/** A statement in PostgreSQL's words. */
interface Translated {
  text: string;
  /** For each parameter of the result, the index of the value that it takes. */
  order: readonly number[];
  /** {@link nameOf} the text, if the server may keep it. */
  name?: string;
  /** Up to {@link USES}. */
  uses: number;
  /** By value: it's a list of texts as JSON. */
  isList: readonly boolean[];
}

/**
 * Translates the statements of programs: placeholders, names of tables, and values. Each text is translated once for each
 * combination of the types of its values.
 *
 * Outside of an INSERT's values, a parameter is cast to the type of its value, and null is written as such. Otherwise the server
 * would take `?1 * 67108864` for a product of 32-bit numbers, and wouldn't know the type of `?1 IS NULL`.
 */
export class Translator {
  readonly #schema: string;
  readonly #known = new Map<string, Translated>();
  #named = 0;

  /** @param schema quoted */
  constructor(schema: string) {
    this.#schema = schema;
  }

  /** @param isKept whether it may have a name */
  statement(text: string, values: readonly Bound[], isKept = false): Query & { values: (string | null)[] } {
    const kinds = INSERTS_VALUES.test(text) ? undefined : values.map(kindOf);
    const key = kinds === undefined ? text : kinds.join("") + text;
    let known = this.#known.get(key);
    if (known === undefined) {
      known = this.#translated(text, kinds);
      this.#known.set(key, known);
    }
    const { order, isList } = known;
    const bind = (index: number): string | null => {
      const value = values[index] ?? null;
      return isList[index] === true ? toTexts(value as string) : toBound(value);
    };
    return { text: known.text, values: order.map(bind), name: isKept ? this.#nameOf(known) : undefined };
  }

  #nameOf(known: Translated): string | undefined {
    if (known.uses < USES && (known.uses += 1) === USES && this.#named < NAMED) {
      this.#named += 1;
      known.name = nameOf(known.text);
    }
    return known.name;
  }

  #translated(text: string, kinds: readonly Kind[] | undefined): Translated {
    const order: number[] = [];
    const positions = new Map<number, number>();
    const isList: boolean[] = [];
    let next = 0;
    const translated = text
      .replaceAll(HINT, "")
      .replaceAll(NULL_TEXT, NULL_TEXT_IN_BYTE_ORDER)
      .replace(PARTS, (part, number: string | undefined, at: number, string: string) => {
        if (part.startsWith("'")) return part;
        if (!part.startsWith("?")) return OWN_NAMES.has(part) ? `${this.#schema}.${part}` : part;
        const index = number === undefined || number === "" ? next++ : Number(number) - 1;
        if (kinds?.[index] === "n") return "NULL";
        isList[index] ||= string.startsWith("::json", at + part.length);
        let position = positions.get(index);
        if (position === undefined) {
          position = order.push(index);
          positions.set(index, position);
        }
        return `$${position}${kinds === undefined ? "" : CASTS[kinds[index] as Kind]}`;
      });
    return { text: translated, order, isList, uses: 0 };
  }
}

/** A name under which the server may keep a statement: another one for each text. */
export function nameOf(text: string): string {
  return `turns_${createHash("sha256").update(text).digest("base64url").slice(0, 24)}`;
}

/** Null, integer or text. Bytes travel as text. */
type Kind = "n" | "i" | "t";
const CASTS: Readonly<Record<Kind, string>> = { n: "", i: "::bigint", t: "::text" };

function kindOf(value: Bound): Kind {
  if (value === null) return "n";
  return typeof value === "number" ? "i" : "t";
}

/** Escapes the texts of a JSON list like those that they are compared with. */
function toTexts(json: string): string {
  return json.includes("\\u") ? JSON.stringify((JSON.parse(json) as string[]).map(toText)) : json;
}
