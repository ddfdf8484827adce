import { closeSync, existsSync, ftruncateSync, openSync, readSync, rmSync, statSync, writeSync } from "node:fs";
import Database from "better-sqlite3";

/** Numbers from a seed: mulberry32. */
export function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * below);
  };
}

export interface Column {
  name: string;
  type: string;
  notnull: number;
  pk: number;
}
export interface Flip {
  table: string;
  column: string;
  how: "changed" | "emptied" | "filled";
}

/** Every column of every table, as the schema of the file has them. */
export function flipsOf(path: string): Flip[] {
  const db = new Database(path, { readonly: true });
  const tables = db
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'langgraph\\_%' ESCAPE '\\' ORDER BY name")
    .pluck()
    .all() as string[];
  const flips = tables.flatMap((table) =>
    columnsOf(db, table).flatMap(({ name: column, notnull, pk }): Flip[] =>
      (notnull === 0 && pk === 0 ? (["changed", "emptied", "filled"] as const) : (["changed"] as const)).map((how) => ({
        table,
        column,
        how,
      })),
    ),
  );
  db.close();
  return flips;
}

export function columnsOf(db: Database.Database, table: string): Column[] {
  return db.prepare("SELECT * FROM pragma_table_info(?)").all(table) as Column[];
}

/** Changes one value of one row with plain SQL. @returns false if the table allows no such change */
export function flip(path: string, { table, column, how }: Flip, random: (below: number) => number): boolean {
  const db = new Database(path);
  try {
    const columns = columnsOf(db, table);
    const keys = columns.filter(({ pk }) => pk > 0).map(({ name }) => `"${name}" = ?`);
    const rows = db
      .prepare(`SELECT * FROM ${table} WHERE "${column}" ${how === "filled" ? "IS NULL" : "IS NOT NULL"}`)
      .all() as any[];
    const row = rows[rows.length < 2 || random(2) === 0 ? rows.length - 1 : random(rows.length)];
    if (row === undefined) return false;
    const at = columns.filter(({ pk }) => pk > 0).map(({ name }) => row[name]);
    const type = columns.find(({ name }) => name === column)?.type ?? "";
    for (const value of how === "emptied" ? [null] : others(row[column], type, random)) {
      try {
        return db.prepare(`UPDATE ${table} SET "${column}" = ? WHERE ${keys.join(" AND ")}`).run(value, ...at).changes === 1;
      } catch (error) {
        if (!String((error as { code?: string }).code).startsWith("SQLITE_CONSTRAINT")) throw error;
      }
    }
    return false;
  } finally {
    db.close();
  }
}

const WORDS = ["Thought", "Action", "ok", "error", "interrupted", "handoff", "run", "update", "none", "state", "checkpoint"];
const MORE = ["intent", "done", "failed", "final", "begun", "undoing", "abandoned", "deleted", "revived", ""];

function others(value: any, type: string, random: (below: number) => number): unknown[] {
  if (value === null) return type === "INTEGER" ? [7, 0, 1] : ["x", ...MORE];
  if (typeof value === "number") return [value + (random(2) === 0 ? 1 : -1), value + 1, value - 1, 1 - value, value + 1_000_000];
  if (typeof value === "string") {
    const place = random(Math.max(1, value.length));
    const other = value[place] === "1" ? "2" : value[place] === "a" ? "b" : /\d/.test(value[place] ?? "") ? "1" : "a";
    return [value.slice(0, place) + other + value.slice(place + 1), ...WORDS, ...MORE].filter((one) => one !== value);
  }
  const bytes = Buffer.from(value);
  const place = random(bytes.length);
  bytes[place] = (bytes[place] ?? 0) ^ (1 << random(8));
  return [bytes];
}

/** Ways of damaging the bytes of a file, and of its log. */
export const BYTE_DAMAGE: Record<string, (path: string, random: (below: number) => number) => void> = {
  "one bit": (path, random) => bits(path, random, 1),
  "a few bits": (path, random) => bits(path, random, 2 + random(6)),
  "bits of one page": (path, random) => bitsOfPage(path, random),
  "a page of zeros": (path, random) => page(path, random, () => 0),
  "a page of noise": (path, random) => page(path, random, () => random(256)),
  "half a page of an older file": (path, random) => half(path, random),
  "two pages swapped": (path, random) => swap(path, random),
  "cut off": (path, random) => cut(path, random(statSync(path).size)),
  "cut off in the last pages": (path, random) =>
    cut(path, statSync(path).size - 1 - random(Math.min(20_000, statSync(path).size))),
};
/** Of a file that was left with a log. */
export const LOG_DAMAGE: Record<string, (path: string, random: (below: number) => number) => void> = {
  "a bit of the log": (path, random) => bits(`${path}-wal`, random, 1),
  "the log lost": (path) => rmSync(`${path}-wal`, { force: true }),
  "the log cut off": (path, random) => cut(`${path}-wal`, random(statSync(`${path}-wal`).size)),
  "a bit of the file below the log": (path, random) => bits(path, random, 1),
};

function change(path: string, work: (file: number, size: number) => void): void {
  if (!existsSync(path)) return;
  const file = openSync(path, "r+");
  try {
    work(file, statSync(path).size);
  } finally {
    closeSync(file);
  }
}

function bits(path: string, random: (below: number) => number, count: number): void {
  change(path, (file, size) => {
    for (let index = 0; index < count; index += 1) flipBit(file, random(size), random(8));
  });
}

function bitsOfPage(path: string, random: (below: number) => number): void {
  change(path, (file, size) => {
    const begin = random(Math.floor(size / 4096)) * 4096;
    for (let index = 0; index < 8; index += 1) flipBit(file, begin + random(4096), random(8));
  });
}

function flipBit(file: number, at: number, bit: number): void {
  const byte = Buffer.alloc(1);
  if (readSync(file, byte, 0, 1, at) !== 1) return;
  byte[0] = (byte[0] ?? 0) ^ (1 << bit);
  writeSync(file, byte, 0, 1, at);
}

function page(path: string, random: (below: number) => number, byte: () => number): void {
  change(path, (file, size) => {
    const bytes = Buffer.from(Array.from({ length: 4096 }, byte));
    writeSync(file, bytes, 0, 4096, random(Math.floor(size / 4096)) * 4096);
  });
}

function half(path: string, random: (below: number) => number): void {
  change(path, (file, size) => {
    const pages = Math.floor(size / 4096);
    const bytes = Buffer.alloc(2048);
    readSync(file, bytes, 0, 2048, random(pages) * 4096);
    writeSync(file, bytes, 0, 2048, random(pages) * 4096);
  });
}

function swap(path: string, random: (below: number) => number): void {
  change(path, (file, size) => {
    const pages = Math.floor(size / 4096);
    const [left, right] = [random(pages) * 4096, random(pages) * 4096];
    const [one, other] = [Buffer.alloc(4096), Buffer.alloc(4096)];
    readSync(file, one, 0, 4096, left);
    readSync(file, other, 0, 4096, right);
    writeSync(file, other, 0, 4096, left);
    writeSync(file, one, 0, 4096, right);
  });
}

function cut(path: string, size: number): void {
  change(path, (file) => ftruncateSync(file, Math.max(0, size)));
}
