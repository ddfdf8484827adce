import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { SystemMessage } from "@langchain/core/messages";
import Database from "better-sqlite3";
import type { TurnSaver, TurnSaverOptions } from "../../src/index";
import { internalsOf } from "../../src/testing-internal";
import { columnsOf, type Flip } from "../../torture/corruption/damage";
import { SECRET } from "../support/enc-graph";
import { at, input, Shop, THREAD } from "../support/ret-world";
import { copyStore, quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { openPersister } from "../support/open-persister";
import { ON_POSTGRES, openSaver } from "../support/open-saver";

/** A file with rows in every table that a saver writes: two threads and a copy, one rewind taken back, one kept, names, effects. */
export async function fullFile(options: TurnSaverOptions = {}): Promise<string> {
  const shop = new Shop(options);
  const { path, saver } = shop;
  for (const [threadId, times] of [
    [THREAD, 1],
    ["other", 3],
  ] as const) {
    for (let time = 0; time < times; time += 1) {
      await shop.graph.invoke(input(`in ${time} ${SECRET}`), at(threadId, { task_id: `task ${time}` }));
    }
  }
  // The same checkpoint saved again, and another branch of the same list.
  const [newest, older] = await shop.history();
  await shop.graph.updateState(older.config, { log: [SECRET], long: [`${SECRET} `.repeat(30)] }, "plan");
  const tuple = (await saver.getTuple(newest.config))!;
  await saver.put(tuple.parentConfig!, tuple.checkpoint, tuple.metadata!, tuple.checkpoint.channel_versions);
  await saver.names.set({ threadId: THREAD }, "good");
  const { rewindId } = await saver.rewind({ threadId: "other", toTask: "task 1" });
  await saver.rewinds.takeBack(rewindId!);
  await saver.rewind({ threadId: "other", toTask: "task 0" });
  await saver.copyThread(THREAD, "copy");
  await saver.deleteThread("gone");
  await shop.graph.invoke(input("asks", true), at(THREAD, { task_id: "asking" }));
  saver.close();
  await withEffects(path, options);
  if (options.encryption === undefined) await withPersister(path);
  tamper(path, (db) =>
    db.exec(`INSERT INTO langgraph_runs VALUES ('run', 'elsewhere', 'host', 'boot', 1, '', '2026-11-21T00:00:00.000Z', 0)`),
  );
  return path;
}

/** Intents and outcomes, as the journal writes them. */
async function withEffects(path: string, options: TurnSaverOptions): Promise<void> {
  const saver = openSaver(path, { logger: quiet, ...options });
  const { store } = internalsOf(saver);
  const [turn] = await store.listTurns({ threadId: THREAD });
  const text = JSON.stringify(`${SECRET} ${"long ".repeat(80)}`);
  const packed = { text, parts: [] };
  for (const name of ["mail", "issue"]) {
    const { row } = await store.beginEffect({
      id: `00000000-0000-4000-8000-00000000000${name.length}`,
      threadId: THREAD,
      sawDeletion: undefined,
      claim: { taskId: undefined, graphId: undefined, kind: "resume", name: "task" },
      nodeNs: turn!.nodeNs!,
      nodeTaskId: turn!.nodeTaskId!,
      anchor: undefined,
      innerAnchors: {},
      spot: "1",
      rootThreadId: THREAD,
      graphRun: "run",
      run: "run",
      name,
      label: "0",
      labelled: false,
      taken: new Map(),
      unhappy: [],
      anyInput: false,
      idempotent: true,
      undo: "undo it",
      input: packed,
      process: "process",
      startedAt: "2026-11-21T00:00:00.000Z",
    });
    const ended = { status: "done", outcome: packed, endedAt: "2026-11-21T00:00:01.000Z", settledBy: undefined } as const;
    if (name === "mail") await store.settleEffect(row.id, ended);
  }
  const failure = JSON.stringify({ error: { name: "Error", message: SECRET } });
  await store.saveRecovery(THREAD, { tries: 5, progress: "1", waitMs: 1_000, failure, givenUp: true }, undefined, 1);
  saver.close();
}

async function withPersister(path: string): Promise<void> {
  const db = new Database(path);
  await openPersister(path, db).save({
    id: "6b1f0c93-0000-4000-8000-000000000001",
    graphId: "alone",
    nodeName: "node",
    turnType: "Thought",
    state: { said: [new SystemMessage(SECRET)] },
    taskId: "task",
    createdAt: new Date(0),
  });
  db.close();
}

export function copyOf(path: string): string {
  const copy = tempFile();
  copyStore(path, copy);
  return copy;
}

/** Hundreds of copies would fill a disk until the tests end. */
export function forget(copy: string): void {
  rmSync(dirname(copy), { recursive: true, force: true });
}

/** Changes a file behind everybody's back. */
export function tamper(path: string, work: (db: Database.Database) => void): void {
  const db = new Database(path);
  try {
    work(db);
  } finally {
    db.close();
  }
}

export async function verified(path: string, options: TurnSaverOptions = {}, request: Parameters<TurnSaver["verify"]>[0] = {}) {
  const saver = openSaver(path, { logger: quiet, ...options });
  try {
    return await saver.verify(request);
  } finally {
    saver.close();
  }
}

/**
 * Looks at a store in which a value was changed. A file is copied for it; a schema takes so long to copy that it's changed back.
 *
 * @returns false if there is no row to do that to, or nothing that the table accepts
 */
export async function withFlip(path: string, one: Flip, look: (path: string) => Promise<void>): Promise<boolean> {
  const changed = ON_POSTGRES ? path : copyOf(path);
  const undo = flip(changed, one);
  if (undo !== undefined) await look(changed);
  if (ON_POSTGRES) undo?.();
  else forget(changed);
  return undo !== undefined;
}

/** @returns changes it back; undefined if nothing was changed */
function flip(path: string, { table, column, how }: Flip): (() => void) | undefined {
  const db = new Database(path);
  try {
    const columns = columnsOf(db, table);
    const keys = columns.filter(({ pk }) => pk > 0).map(({ name }) => name);
    const schema = db.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").pluck().get(table) as string;
    const isNull = how === "filled" ? "IS NULL" : "IS NOT NULL";
    const rows = db.prepare(`SELECT * FROM ${table} WHERE "${column}" ${isNull} LIMIT 3`).all() as Record<string, any>[];
    const row = rows[1] ?? rows[0];
    if (row === undefined) return undefined;
    const type = columns.find(({ name }) => name === column)!.type;
    const values = how === "emptied" ? [null] : candidates(row[column], type, enumOf(schema, column));
    const at = keys.map((key) => `"${key}" = ?`).join(" AND ");
    const change = `UPDATE ${table} SET "${column}" = ? WHERE ${at}`;
    for (const value of values) {
      try {
        // A column that takes any type keeps an integer: better-sqlite3 binds numbers as floats.
        const bound = Number.isInteger(value) ? BigInt(value as number) : value;
        if (db.prepare(change).run(bound, ...keys.map((key) => row[key])).changes !== 1) return undefined;
        const now = { ...row, [column]: value };
        return () => tamper(path, (it) => it.prepare(change).run(row[column], ...keys.map((key) => now[key])));
      } catch (error) {
        if (!String((error as { code?: string }).code).startsWith("SQLITE_CONSTRAINT")) throw error;
      }
    }
    return undefined;
  } finally {
    db.close();
  }
}

export function enumOf(schema: string, column: string): unknown[] {
  const list = new RegExp(`CHECK\\s*\\(\\s*${column} IN \\(([^)]*)\\)`).exec(schema)?.[1];
  return list === undefined ? [] : list.split(",").map((item) => (item.includes("'") ? item.trim().slice(1, -1) : Number(item)));
}

export function candidates(value: any, type: string, allowed: unknown[]): unknown[] {
  if (allowed.length > 0) return allowed.filter((one) => one !== value);
  if (value === null) return type === "INTEGER" ? [7] : ["x"];
  if (typeof value === "number") return [value + 1, value - 1, value + 1_000_000];
  if (typeof value === "string") return [changedText(value)];
  const bytes = Buffer.from(value);
  bytes[bytes.length >> 1]! ^= 1;
  return [bytes];
}

/** A digit that stands in the middle becomes another: what was a time stays one, and what was JSON mostly does. */
function changedText(text: string): string {
  const places = [...text].flatMap((character, index) => (/[0-9a-zA-Z]/.test(character) ? [index] : []));
  const place = places[places.length >> 1];
  if (place === undefined) return `${text}x`;
  const character = text[place]!;
  // A 0 there leaves a time a time, at whatever hour of the day the file was written.
  const other = /[0-9]/.test(character) ? (character === "0" ? "1" : "0") : character === "a" ? "b" : "a";
  return text.slice(0, place) + other + text.slice(place + 1);
}

export interface TableIndexName {
  table: string;
  name: string;
  /** Whether the thread comes first in it. */
  byThread: boolean;
}

/** All indexes of the file's tables but their keys. */
export function indexesOf(db: Database.Database): TableIndexName[] {
  const rows = db
    .prepare(
      `SELECT s.tbl_name AS "table", s.name, (SELECT name FROM pragma_index_info(s.name) WHERE seqno = 0) = 'thread' AS byThread
        FROM sqlite_schema AS s JOIN sqlite_schema AS t ON t.name = s.tbl_name AND t.type = 'table'
        WHERE s.type = 'index' AND s.tbl_name LIKE 'langgraph%' AND t.sql NOT LIKE '%WITHOUT ROWID%' ORDER BY s.name`,
    )
    .all() as { table: string; name: string; byThread: number }[];
  return rows.map((row) => ({ ...row, byThread: row.byThread === 1 }));
}

/**
 * Has an index lack one row of its table, or have one more, and leaves the table as it is: the index is given the pages of one that
 * belongs to another table with other rows.
 *
 * @returns the thread of that row; undefined if no row is in the index
 */
export function changeIndex(
  db: Database.Database,
  { table, name }: TableIndexName,
  change: "lacks" | "has one more",
): string | undefined {
  const sqlOf = (one: string): string | null =>
    db.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").pluck().get(one) as string | null;
  const columns = columnsOf(db, table);
  const names = columns.map((column) => `"${column.name}"`).join(", ");
  const key = columns.find(({ type, pk }) => pk === 1 && type === "INTEGER")?.name ?? "rowid";
  const all = key === "rowid" ? `rowid, ${names}` : names;
  const condition = / WHERE (.*)$/s.exec(sqlOf(name) ?? "")?.[1] ?? "TRUE";
  const owner = columns.some((column) => column.name === "thread_id")
    ? "thread_id"
    : `(SELECT thread_id FROM langgraph_threads AS t WHERE t.thread = ${table}.thread)`;
  const row = db
    .prepare(
      `SELECT ${key} AS at, ${owner} AS threadId FROM ${table} WHERE ${condition} AND ${owner} IS NOT NULL ORDER BY ${key} DESC LIMIT 1`,
    )
    .get() as { at: number; threadId: string } | undefined;
  if (row === undefined) return undefined;
  // What a constraint keeps unique has no entry more.
  const isConstraint = name.startsWith("sqlite_autoindex");
  if (isConstraint && change === "has one more") return undefined;
  const spare = name.replace(table, "spare");
  db.exec((sqlOf(table) as string).replace(table, "spare"));
  if (!isConstraint)
    db.exec((sqlOf(name) as string).replace(name, spare).replace(`ON ${table}`, "ON spare").replace("UNIQUE ", ""));
  db.exec(`INSERT INTO spare (${all}) SELECT ${all} FROM ${table} ${change === "lacks" ? `WHERE ${key} <> ${row.at}` : ""}`);
  if (change === "has one more") {
    const ofThread = key === "seq" ? `WHERE thread = (SELECT thread FROM ${table} WHERE seq = ${row.at})` : "";
    const another = { [key]: `(SELECT max(${key}) + 1 FROM ${table} ${ofThread})`, '"id"': "id || 'x'" } as Record<
      string,
      string
    >;
    const values = all.split(", ").map((column) => another[column] ?? another[column.replaceAll('"', "")] ?? column);
    db.exec(`INSERT INTO spare (${all}) SELECT ${values.join(", ")} FROM ${table} WHERE ${key} = ${row.at}`);
  }
  db.unsafeMode(true);
  db.pragma("writable_schema = ON");
  db.prepare("UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = ?) WHERE name = ?").run(
    spare,
    name,
  );
  db.pragma("writable_schema = OFF");
  return row.threadId;
}
