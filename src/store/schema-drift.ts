/*
 * How the tables of a database differ from those that the migrations make. `verify` checks rows; this compares the schema alone,
 * which takes no time, and names the statement that repairs it.
 */

/** A part of a schema, as the database tells it; see `Dialect.schema`. */
export type SchemaPart = [kind: "table" | "column" | "index" | "invalid" | "trigger", table: string, name: string, text: string];

export interface Drift {
  /** What differs: a whole sentence. */
  what: string;
  /** The statement that repairs it, or what else to do. */
  remedy: string;
  /** Something that queries need isn't there. */
  isMissing: boolean;
}

const TABLE = /^CREATE TABLE (?::"schema"\.)?(\w+) \(\n([^;]*?)\n\)[^;]*;/gm;
const INDEX = /^CREATE (UNIQUE )?INDEX (\w+) ON (?::"schema"\.)?(\w+) (\([^;]*);/gm;
const COLUMN = /^ {2}([a-z_]+) +([A-Za-z]+)(.*?),?$/gm;

/**
 * @param sql what the migrations run
 * @param place what stands for `:"schema".` in statements; empty on SQLite
 */
export function driftOf(sql: string, place: string, found: readonly SchemaPart[]): Drift[] {
  const code = sql.replaceAll(/--.*$/gm, "");
  const has = (kind: SchemaPart[0], name: string, table = name): SchemaPart | undefined =>
    found.find((part) => part[0] === kind && part[1] === table && part[2] === name);
  const drift: Drift[] = [];
  const missing = (what: string, remedy: string): void => void drift.push({ what, remedy, isMissing: true });
  const differs = (what: string, remedy: string): void => void drift.push({ what, remedy, isMissing: false });
  for (const [statement, table = "", body = ""] of code.matchAll(TABLE)) {
    const columns = [...body.matchAll(COLUMN)].filter(([, name = ""]) => !["primary", "unique", "check"].includes(name));
    if (has("table", table) === undefined) {
      missing(
        `Table ${table} is missing, with everything that was in it.`,
        `Restore a backup. To create it empty: ${inOneLine(statement, place)}`,
      );
      continue;
    }
    for (const [, name = "", type = "", rest = ""] of columns) {
      const column = has("column", name, table);
      if (column === undefined) {
        const isOptional = !rest.includes("NOT NULL") || rest.includes("DEFAULT");
        const add = `ALTER TABLE ${place}${table} ADD COLUMN ${`${name} ${type}${rest}`.trim()};`;
        missing(
          `Column ${name} of table ${table} is missing.`,
          isOptional ? add : "Restore a backup: its values can't be made up.",
        );
      } else if (typeOf(column[3]) !== typeOf(type)) {
        differs(
          `Column ${name} of table ${table} has type ${column[3]}, not ${type}.`,
          "Restore a backup, or move the threads to a new database: turns move.",
        );
      }
    }
    const text = has("table", table)?.[3] ?? "";
    if (
      text !== "" &&
      columns.every(([, name = ""]) => has("column", name, table) !== undefined) &&
      plain(text) !== plain(statement)
    )
      differs(
        `Table ${table} was made by another statement.`,
        `Move the threads to a new database: turns move. It should be: ${inOneLine(statement, place)}`,
      );
  }
  for (const [statement, unique = "", name = "", table = "", rest = ""] of code.matchAll(INDEX)) {
    const create = inOneLine(statement, place);
    const repair = `DROP INDEX ${place}${name}; ${create}`;
    const index = has("index", name, table);
    if (index === undefined) {
      if (has("table", table) !== undefined)
        differs(`Index ${name} of table ${table} is missing, so queries that need it read the whole table.`, create);
    } else if (has("invalid", name, table) !== undefined) {
      differs(`Index ${name} of table ${table} isn't used by the server.`, repair);
    } else if (definition(index[3]) !== definition(`CREATE ${unique}INDEX i ON t ${rest}`)) {
      differs(`Index ${name} of table ${table} is another one.`, repair);
    }
  }
  for (const [kind, table, name] of found) {
    if (kind !== "trigger") continue;
    // Somebody else chose its name, and a person may paste this.
    const drop = `DROP TRIGGER "${name.replaceAll('"', '""')}"`;
    differs(
      `Table ${table} has a trigger ${name} that this package didn't make.`,
      place === "" ? `${drop};` : `${drop} ON ${place}${table};`,
    );
  }
  return drift;
}

/** Servers call some types by their long names. */
function typeOf(name: string): string {
  return name.toLowerCase().replace("timestamp with time zone", "timestamptz");
}

/** What an index is, without the names and the brackets that servers add. */
function definition(text: string): string {
  const [, unique = "", rest = ""] = /^CREATE (UNIQUE )?INDEX .*? ON .*?(\(.*)$/s.exec(text) ?? [];
  return `${unique}${plain(rest)
    .replaceAll(/::\w+|[()]/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim()}`;
}

function plain(text: string): string {
  return text
    .replaceAll(/--.*$/gm, "")
    .replaceAll('"', "")
    .replace(/;\s*$/, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/ ?([(),]) ?/g, "$1")
    .trim();
}

function inOneLine(statement: string, place: string): string {
  return statement
    .replaceAll(':"schema".', () => place)
    .replaceAll(/\s+/g, " ")
    .trim();
}
