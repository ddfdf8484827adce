import type { Bound } from "../program";
import { ALL_TABLES } from "../tables";
import { toBound, toText } from "./values";

const OWN_NAMES = new Set([...ALL_TABLES.map(({ name }) => name), "langgraph_migrations", "langgraph_thread_numbers"]);
/** The parts of a statement that are translated: a literal (which isn't), a placeholder, one of our names. */
const PARTS = /'(?:[^']|'')*'|\?(\d*)|\blanggraph_\w+/g;
/** Its columns say the types of its values. */
const INSERTS_VALUES = /^INSERT INTO \w+ \([^)]*\) VALUES /;

/** The type that a parameter is cast to. Bytes travel as text. */
type Kind = "bigint" | "text";

/** A statement in PostgreSQL's words. */
interface Translated {
  text: string;
  /** For each parameter of the result, the index of the value that it takes. */
  order: readonly number[];
  /** By value: it's a list of texts as JSON. */
  isList: readonly boolean[];
  /** By value: what it is cast to, as far as it's known. Undefined if nothing is cast. */
  kinds: readonly (Kind | undefined)[] | undefined;
}

/**
 * Translates the statements of programs: placeholders, names of tables, and values. Each text is translated once.
 *
 * A parameter outside of an INSERT's values is cast to the type of its value. Otherwise the server would take `?1 * 67108864` for
 * a product of 32-bit numbers.
 */
export class Translator {
  readonly #schema: string;
  readonly #known = new Map<string, Translated>();

  /** @param schema quoted */
  constructor(schema: string) {
    this.#schema = schema;
  }

  statement(text: string, values: readonly Bound[]): { text: string; values: (string | null)[] } {
    let known = this.#known.get(text);
    if (known === undefined || !isFor(known, values)) {
      known = this.#translated(text, values, known?.kinds);
      this.#known.set(text, known);
    }
    const { order, isList } = known;
    const bind = (index: number): string | null => {
      const value = values[index] ?? null;
      return isList[index] === true ? toTexts(value as string) : toBound(value);
    };
    return { text: known.text, values: order.map(bind) };
  }

  #translated(text: string, values: readonly Bound[], before?: Translated["kinds"]): Translated {
    const kinds = INSERTS_VALUES.test(text) ? undefined : values.map((value, at) => kindOf(value) ?? before?.[at]);
    const order: number[] = [];
    const positions = new Map<number, number>();
    const isList: boolean[] = [];
    let next = 0;
    const translated = text.replace(PARTS, (part, number: string | undefined, at: number) => {
      if (part.startsWith("'")) return part;
      if (!part.startsWith("?")) return OWN_NAMES.has(part) ? `${this.#schema}.${part}` : part;
      const index = number === undefined || number === "" ? next++ : Number(number) - 1;
      isList[index] ||= text.startsWith("::json", at + part.length);
      let position = positions.get(index);
      if (position === undefined) {
        position = order.push(index);
        positions.set(index, position);
      }
      const kind = kinds?.[index];
      return kind === undefined ? `$${position}` : `$${position}::${kind}`;
    });
    return { text: translated, order, isList, kinds };
  }
}

/** Whether a text that was translated for other values fits these: they are cast to the same types. */
function isFor({ kinds }: Translated, values: readonly Bound[]): boolean {
  if (kinds === undefined) return true;
  return values.every((value, at) => value === null || kinds[at] === kindOf(value));
}

function kindOf(value: Bound): Kind | undefined {
  if (value === null) return undefined;
  return typeof value === "number" ? "bigint" : "text";
}

/** Escapes the texts of a JSON list like those that they are compared with. */
function toTexts(json: string): string {
  return json.includes("\\u") ? JSON.stringify((JSON.parse(json) as string[]).map(toText)) : json;
}
