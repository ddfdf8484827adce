import Database from "better-sqlite3";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { ALL_TABLES, type Column, type Table } from "../../src/testing-internal";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

interface Info {
  name: string;
  type: string;
  notnull: number;
  pk: number;
}

/** The tables of a new file, as its schema says. */
function schema(): { columns: Map<string, Info[]>; texts: Map<string, string>; indexes: Map<string, string[]> } {
  const path = tempFile();
  TurnSaver.fromPath(path, { logger: quiet }).close();
  const db = new Database(path, { readonly: true });
  const list = db
    .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph\\_%' ESCAPE '\\'")
    .all() as { name: string; sql: string }[];
  const tables = list.filter(({ name }) => name !== "langgraph_migrations");
  const columns = new Map(tables.map(({ name }) => [name, db.prepare("SELECT * FROM pragma_table_info(?)").all(name) as Info[]]));
  const texts = new Map(tables.map(({ name, sql }) => [name, sql]));
  const first = db.prepare("SELECT name FROM pragma_index_info(?) WHERE seqno = 0").pluck();
  const names = db.prepare("SELECT name FROM pragma_index_list(?)").pluck();
  const indexes = new Map(
    tables.map(({ name }) => [name, (names.all(name) as string[]).filter((index) => first.get(index) === "thread")]),
  );
  db.close();
  return { columns, texts, indexes };
}

const { columns, texts, indexes } = schema();
/** Wrapped keys and processes, and what proves itself by its address, its digest, or that of its list. */
const WITHOUT_CHECKSUM = ["settings", "runs", "leftovers", "values", "graphs", "lists", "items"];

test("every table of the schema is described, and no other", () => {
  expect(ALL_TABLES.map(({ name }) => name).sort()).toEqual([...columns.keys()].sort());
  expect(new Set(ALL_TABLES.map(({ called }) => called)).size).toBe(ALL_TABLES.length);
});

describe.each(ALL_TABLES.map((table) => [table.name, table] as [string, Table]))("the description of %s", (name, table) => {
  const described = Object.entries<Column>(table.columns);
  const stored = columns.get(name) ?? [];

  test("has the columns of the schema, in their order, with their types, and which may be NULL", () => {
    const expected = stored.map((column) => ({
      name: column.name,
      type: column.type.toLowerCase(),
      nullable: column.notnull === 0 && column.pk === 0,
    }));
    expect(described.map(([column, { type, nullable }]) => ({ name: column, type, nullable: nullable === true }))).toEqual(
      expected,
    );
  });

  test("has the primary key of the schema, and tells rows apart by what is unique", () => {
    const keys = stored.filter(({ pk }) => pk > 0).sort((left, right) => left.pk - right.pk);
    expect(table.key).toEqual(keys.map((column) => column.name));
    for (const column of table.id ?? []) expect(stored.map((one) => one.name)).toContain(column);
  });

  test("allows the values that the schema allows", () => {
    const text = texts.get(name) ?? "";
    const checks = new Map<string, string[]>();
    for (const [, column = "", list = ""] of text.matchAll(/CHECK ?\((\w+) IN \(([^)]*)\)\)/g)) {
      checks.set(column, list.split(/,\s*/));
    }
    const allowed = described.flatMap(([column, { values }]) =>
      values === undefined
        ? []
        : ([[column, values.map((value) => (typeof value === "string" ? `'${value}'` : `${value}`))]] as const),
    );
    expect(Object.fromEntries(allowed)).toEqual(Object.fromEntries(checks));
  });

  test("names only columns, tables and indexes that there are", () => {
    const names = described.map(([column]) => column);
    const called = ALL_TABLES.map((one) => one.called);
    for (const [, { sealed, seqOf }] of described) {
      for (const column of sealed?.by ?? []) expect(names).toContain(column);
      if (seqOf !== undefined) expect(called).toContain(seqOf);
    }
    for (const column of table.versionsOf ?? []) expect(names).toContain(column);
    const by = table.ofThread;
    if (by !== undefined) expect(names).toContain("range" in by ? by.range : by.column);
    if (table.byThread !== undefined) expect(indexes.get(name)).toContain(table.byThread);
  });

  test("has a checksum, unless something else proves the rows", () => {
    expect(described.some(([, { role }]) => role === "checksum")).toBe(!WITHOUT_CHECKSUM.includes(table.called));
  });
});
