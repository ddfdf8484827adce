import { firstSeq } from "../spans";
import { KEYED_BY_SEQ } from "../tables";
import type { Program } from "../program";
import type { Sql } from "../session";
import type { Owner, Where } from "./verify-context";
import { type Phase, type TableWalk, walk } from "./verify-walk";

/** An index, and which rows are in it. */
export interface TableIndex {
  table: string;
  name: string;
  columns: readonly string[];
  condition: string;
}

type Stretch = Pick<TableWalk<object>, "keys" | "begin" | "where" | "bound">;

/** The tables whose key is seq, of those that have an index besides. */
const KEYED: readonly string[] = KEYED_BY_SEQ.filter((table) => "byThread" in table).map(({ name }) => name);
/** The others that have rows of a thread and an index besides their key. Which rows those are an index tells; that none is missing, the counts on record. */
const OTHERS: Readonly<Record<string, (only: Owner) => Stretch>> = {
  langgraph_threads: ({ thread }) => ({ keys: ["rowid"], where: "thread = ?", bound: [thread] }),
  langgraph_checkpoints: ({ thread }) => ({ keys: ["seq"], begin: [0], where: "thread = ?", bound: [thread] }),
  langgraph_rewinds: ({ threadId }) => ({ keys: ["rowid"], where: "thread_id = ?", bound: [threadId] }),
};
const INDEXES = `SELECT i.name, coalesce(s.sql, '') AS text FROM pragma_index_list(?) AS i JOIN sqlite_schema AS s ON s.name = i.name
  ORDER BY i.name`;
const COLUMNS = "SELECT name FROM pragma_index_info(?) ORDER BY seqno";

export function* tableIndexes(sql: Sql): Program<TableIndex[]> {
  const found: TableIndex[] = [];
  for (const table of [...KEYED, ...Object.keys(OTHERS)]) {
    for (const { name, text } of yield* sql.all<{ name: string; text: string }>(INDEXES, table)) {
      const columns = (yield* sql.all<{ name: string }>(COLUMNS, name)).map((column) => column.name);
      found.push({ table, name, columns, condition: / WHERE (.*)$/s.exec(text)?.[1] ?? "TRUE" });
    }
  }
  return found;
}

/**
 * Whether every index has the rows of its table, and no others: a row that an index lacks is one that nobody finds. For the whole file
 * SQLite's own check tells that, but for entries too many in an index that has a part of the rows alone.
 */
export function indexes(only: Owner | undefined, all: readonly TableIndex[]): Phase[] {
  if (only === undefined) return all.filter(({ condition }) => condition !== "TRUE").map((index) => surplus(index, undefined));
  const ofTable = (table: string): TableIndex[] => all.filter((index) => index.table === table);
  const [first, end] = [firstSeq(only.thread), firstSeq(only.thread + 1)];
  const range = { keys: ["seq"], begin: [first - 1], where: "seq < ?", bound: [end] };
  return [
    ...KEYED.map((table) => missing(only, table, range, ofTable(table))),
    ...Object.entries(OTHERS).map(([table, stretch]) => missing(only, table, stretch(only), ofTable(table))),
    ...all.filter(({ columns }) => columns[0] === "thread").map((index) => surplus(index, only)),
  ];
}

/** Each row is looked up by every index. */
function missing(only: Owner, table: string, stretch: Stretch, own: readonly TableIndex[]): Phase {
  const lookups = own.map(({ name, columns, condition }) => {
    const same = columns.map((column) => `x."${column}" IS ${table}."${column}"`).join(" AND ");
    return `NOT (${condition}) OR EXISTS (SELECT 1 FROM ${table} AS x INDEXED BY "${name}"
      WHERE ${condition} AND ${same} AND x.rowid = ${table}.rowid) AS "${name}"`;
  });
  return walk<Record<string, number>>({
    table,
    columns: [stretch.keys[0] === "rowid" ? "rowid AS at" : "seq", ...lookups].join(", "),
    ...stretch,
    limit: 50,
    check(ctx, row) {
      const where: Where = row["seq"] === undefined ? {} : { seq: row["seq"] };
      for (const { name } of own) {
        if (row[name] === 0) ctx.problem("unreadable", only.threadId, where, `a row that ${name} has`, "one that it lacks");
      }
    },
  });
}

/** Of one thread it takes an index that begins with the thread. A row that stands in another thread's range is looked at with its table. */
function surplus({ table, name, condition }: TableIndex, only: Owner | undefined): Phase {
  const which = only === undefined ? condition : `seq >= ?1 AND seq < ?2 AND thread = ?3 AND ${condition}`;
  const by = only === undefined || KEYED.includes(table) ? "NOT INDEXED" : `INDEXED BY ${table}_by_thread`;
  const count = `SELECT (SELECT count(*) FROM ${table} INDEXED BY "${name}" WHERE ${which}) AS listed,
    (SELECT count(*) FROM ${table} ${by} WHERE ${which}) AS stored`;
  const bound = only === undefined ? [] : [firstSeq(only.thread), firstSeq(only.thread + 1), only.thread];
  return {
    table,
    *next(ctx) {
      const { listed = 0, stored = 0 } = (yield* ctx.sql.get<{ listed: number; stored: number }>(count, ...bound)) ?? {};
      if (listed !== stored) ctx.problem("unreadable", only?.threadId, {}, `${stored} rows in ${name}`, String(listed));
      return false;
    },
  };
}
