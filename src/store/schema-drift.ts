/*
 * How the tables of a database differ from those that the migrations make. `verify` checks rows; this compares the schema alone,
 * which takes no time, and names the statement that repairs it.
 */

/**
 * A part of a schema, as the database tells it; see `Dialect.schema`. The text of a column is its type. A server doesn't keep the
 * statement that made a table: there a column's rules follow, behind a semicolon.
 */
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
  const indexes = [...code.matchAll(INDEX)].map(([statement, unique = "", name = "", table = "", rest = ""]): Index => ({
    ...{ name, table, unique, rest, create: inOneLine(statement, place) },
    drop: () => `DROP INDEX ${place}${name};`,
  }));
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
          `Column ${name} of table ${table} has type ${column[3].split(";", 1)[0]}, not ${type}.`,
          "Restore a backup, or move the threads to a new database: turns move.",
        );
      } else if (column[3].includes(";")) {
        const [own, there] = [rulesOf(rest), rulesOf(column[3])];
        const alter = `ALTER TABLE ${place}${table} ALTER COLUMN ${name}`;
        for (const rule of own.filter((each) => !there.includes(each))) {
          const isIdentity = rule.startsWith("GENERATED");
          const quotedPlace = place.replaceAll("'", "''");
          // A new identity starts at 1.
          const behind = `ADD ${rule}; SELECT setval(pg_get_serial_sequence('${quotedPlace}${table}', '${name}'), max(${name})) FROM ${place}${table};`;
          differs(`Column ${name} of table ${table} doesn't have ${rule}.`, `${alter} ${isIdentity ? behind : `SET ${rule};`}`);
        }
        if (there.includes(NOT_NULL) && !own.includes(NOT_NULL))
          differs(`Column ${name} of table ${table} has NOT NULL.`, `${alter} DROP NOT NULL;`);
      }
    }
    const text = has("table", table)?.[3] ?? "";
    if (text === "") {
      indexes.push(...keysOf(table, columns, body, place));
    } else if (columns.every(([, name = ""]) => has("column", name, table) !== undefined) && plain(text) !== plain(statement))
      differs(
        `Table ${table} was made by another statement.`,
        `Move the threads to a new database: turns move. It should be: ${inOneLine(statement, place)}`,
      );
  }
  for (const { name, table, unique, rest, create, drop } of indexes) {
    if (has("table", table) === undefined) continue;
    const index = found.find((part) => part[0] === "index" && part[2] === name);
    if (index === undefined) {
      differs(`Index ${name} of table ${table} is missing, so queries that need it read the whole table.`, create);
    } else if (has("invalid", name, table) !== undefined) {
      differs(`Index ${name} of table ${table} isn't used by the server.`, `${drop(table)} ${create}`);
    } else if (index[1] !== table || definition(index[3]) !== definition(`CREATE ${unique}INDEX i ON t ${rest}`)) {
      differs(`Index ${name} of table ${table} is another one.`, `${drop(index[1])} ${create}`);
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

const NOT_NULL = "NOT NULL";

/** The rules of a column that a save meets. */
function rulesOf(text: string): string[] {
  const rules = text.replace("pg_catalog.", "").match(/DEFAULT ('[^']*'|\S+)|GENERATED ALWAYS AS IDENTITY/g) ?? [];
  return [...(/NOT NULL|PRIMARY KEY|IDENTITY/.test(text) ? [NOT_NULL] : []), ...rules];
}

interface Index {
  name: string;
  table: string;
  unique: string;
  /** The columns and what follows, as in CREATE INDEX. */
  rest: string;
  create: string;
  /** @param on the table that has it */
  drop: (on: string) => string;
}

/** The indexes of a table's keys, by the names that PostgreSQL gives them. */
function keysOf(table: string, columns: readonly RegExpExecArray[], body: string, place: string): Index[] {
  const having = (rule: string): string[] =>
    columns.filter(([, , , rest = ""]) => rest.includes(rule)).map(([, name = ""]) => name);
  const [key = /^ {2}PRIMARY KEY \((.*)\)/m.exec(body)?.[1] ?? ""] = having("PRIMARY KEY");
  const keys = [["pkey", "PRIMARY KEY", key], ...having("UNIQUE").map((name) => [`${name}_key`, "UNIQUE", name])];
  return keys.map(([suffix = "", kind = "", of = ""]) => {
    const name = `${table}_${suffix}`;
    return {
      ...{ name, table, unique: "UNIQUE ", rest: `(${of})` },
      create: `ALTER TABLE ${place}${table} ADD CONSTRAINT ${name} ${kind} (${of});`,
      drop: (on) => `ALTER TABLE ${place}${on} DROP CONSTRAINT ${name};`,
    };
  });
}

/** Servers call some types by their long names. */
function typeOf(column: string): string {
  const [name = ""] = column.split(";", 1);
  return name.toLowerCase().replace("timestamp with time zone", "timestamptz");
}

/** What an index is, without the names and the brackets that servers add. */
function definition(text: string): string {
  // A server also says how it's stored. The name of a schema may have brackets.
  const own = text.replace(/ ON .* USING btree /s, " ON t ").replace(/ WITH \([^)]*\)/, "");
  const [, unique = "", rest = ""] = /^CREATE (UNIQUE )?INDEX .*? ON .*?(\(.*)$/s.exec(own) ?? [];
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
