import { internalsOf } from "../../../src/testing-internal";
import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { uuid6 } from "@langchain/langgraph-checkpoint";
import Database from "better-sqlite3";
import { SECRET } from "../../../__tests__/support/enc-graph";
import { graphOn } from "../../../__tests__/support/ret-world";
import { listener, tablesOf } from "../../../__tests__/support/s1-tools";
import { fullFile } from "../../../__tests__/integrity/ver-world";
import { CheckpointPersister, TurnSaver } from "../../../src/index";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { answer, answerLater } from "../answer";
import { CANARY } from "../judge";
import { mutated } from "../mutate";
import { nastyText } from "../nasty";
import { resign, SIGNED_TABLES } from "../resign";
import type { Random } from "../random";
import { Finding, type Session } from "../target";

type Value = string | number | null;

const PAYLOADS: readonly string[] = [
  "body",
  "channels",
  "metadata",
  "entries",
  "serialized_state",
  "content",
  "document",
  "row",
  "validation",
];

/** A cell of our own file, as somebody else has left it. */
interface Cell {
  table: string;
  row: number;
  column: string;
  value: Value;
  /** Whether its checksum is computed again. */
  signed: boolean;
}

const LISTED = 3;

/**
 * Databases with a changed cell, in half of them with the checksum computed again: everything that reads answers with
 * a value or a named error, writes what it wrote before or nothing, and leaves the schema alone.
 */
export async function open(_random: Random): Promise<Session> {
  const path = await fullFile();
  const source = new Database(path);
  source.pragma("journal_mode = DELETE");
  const schema = schemaOf(source);
  const image = source.serialize();
  const columns = new Map(
    tablesOf(source)
      .filter((table) => table.startsWith("langgraph_"))
      .map((table) => [table, source.prepare("SELECT name FROM pragma_table_info(?)").pluck().all(table) as string[]]),
  );
  const cells: Cell[] = [];
  for (const [table, names] of columns) {
    for (const column of names) {
      const values = source
        .prepare(`SELECT ${column} FROM ${table} ORDER BY ${keyOf(source, table)}`)
        .pluck()
        .all() as Value[];
      const row = values.findLastIndex((value) => value !== null);
      if (row >= 0) cells.push({ table, row, column, value: values[row] ?? null, signed: SIGNED_TABLES.includes(table) });
    }
  }
  source.close();
  return {
    seeds: cells.map((cell) => Buffer.from(JSON.stringify(cell))),
    mutate: (input, other, by) => {
      const cell = JSON.parse(input.toString()) as Cell;
      const donor = JSON.parse(other.toString()) as Cell;
      if (by.once(4)) cell.row = by.below(60);
      if (by.once(6)) cell.signed = !cell.signed;
      if (by.once(8)) cell.value = by.of([null, 0, -1, 1, 2 ** 40, 1.5, nastyText(by)]);
      else if (typeof cell.value === "number") cell.value = by.of([cell.value + 1, -cell.value, cell.value * 1e6, "x", null, 0]);
      else cell.value = mutated(String(cell.value), by.once(3) ? JSON.stringify({ note: CANARY }) : String(donor.value), by);
      // Ids may be told.
      if (typeof cell.value === "string" && !PAYLOADS.includes(cell.column)) cell.value = cell.value.replaceAll(CANARY, "c");
      return Buffer.from(JSON.stringify(cell));
    },
    feed: async (input) => {
      const cell = JSON.parse(input.toString()) as Cell;
      if (columns.get(cell.table)?.includes(cell.column) !== true) return "no cell";
      const db = new Database(image);
      try {
        if (!changed(db, cell)) return "refused by the table";
        const words = await used(
          db,
          input.reduce((sum, byte) => sum + byte, 0),
        );
        if (schemaOf(db) !== schema) throw new Finding("another schema");
        return `${cell.table}.${cell.column}: ${words}`;
      } finally {
        db.close();
      }
    },
    close: () => rmSync(dirname(path), { recursive: true, force: true }),
  };
}

function changed(db: Database.Database, { table, row, column, value, signed }: Cell): boolean {
  db.pragma("foreign_keys = OFF");
  const count = db.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;
  if (count === 0) return false;
  const key = keyOf(db, table);
  const names = key.split(", ");
  const at = names.map((name) => `${name} = ?`).join(" AND ");
  const place = db
    .prepare(`SELECT ${key} FROM ${table} ORDER BY ${key} LIMIT 1 OFFSET ?`)
    .raw()
    .get(row % count) as unknown[];
  try {
    if (db.prepare(`UPDATE ${table} SET ${column} = ? WHERE ${at}`).run(value, ...place).changes !== 1) return false;
  } catch {
    return false;
  }
  const now = column === "seq" && typeof value === "number" ? value : (place[0] as number);
  if (signed && SIGNED_TABLES.includes(table)) resign(db, table, now);
  return true;
}

/** Tables that searches alone read are kept by their keys, and have no row ids. */
function keyOf(db: Database.Database, table: string): string {
  const sql = db.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").pluck().get(table) as string;
  if (!/WITHOUT ROWID/.test(sql)) return "rowid";
  return (db.prepare("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk").pluck().all(table) as string[]).join(", ");
}

function schemaOf(db: Database.Database): string {
  return JSON.stringify(db.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").all());
}

/** What a program can ask of such a database. @param which chooses among what takes long */
async function used(db: Database.Database, which: number): Promise<string> {
  const log = listener();
  const words = new Set<string>();
  let opened: TurnSaver | undefined;
  words.add(answer(() => (opened = new TurnSaver(db, { logger: log, synchronous: "normal" }))));
  if (opened === undefined) return [...words].join();
  const saver = opened;
  const ask = async (work: () => Promise<unknown>): Promise<unknown> => {
    let value: unknown;
    words.add(await answerLater(async () => void (value = await work())));
    return value;
  };
  const all = async (work: AsyncIterable<unknown>): Promise<unknown[]> => {
    const found: unknown[] = [];
    for await (const one of work) if (found.push(one) >= LISTED) break;
    return found;
  };
  // One of those that take long, each input another one.
  const heavier: (() => Promise<unknown>)[] = [
    async () => {
      const report = JSON.stringify(await saver.verify());
      if (report.includes(SECRET)) throw new Finding("a report that tells what a value holds");
    },
    async () => {
      for (const { id } of await saver.rewinds.list("other")) await saver.rewinds.takeBack(id);
    },
    // What LangGraph and the graph make of a strange state is theirs; nothing that the state names may run.
    async () =>
      (graphOn(saver).invoke({ note: "more" }, { configurable: { thread_id: "copy" } }) as Promise<unknown>).catch(() => 0),
    () => saver.copyThread("thread", "another"),
    () => saver.rewind({ threadId: "thread", toTask: "task 0" }),
    () => saver.prune({ threadId: "thread", keepLast: 1 }),
    () => saver.prune({ threadId: "thread", keepLast: 1, dryRun: true }),
    () => saver.deleteThread("thread"),
    () => CheckpointFile.fromThread(saver, "thread"),
    () => saver.rewinds.compensationReport({ threadId: "thread", toTask: "task 0" }),
  ];
  for (const threadId of which % 3 === 0 ? ["other", "copy"] : ["thread"]) {
    const config = { configurable: { thread_id: threadId } };
    const turns = ((await ask(() => saver.turns.list(threadId))) ?? []) as any[];
    for (const turn of turns.slice(-LISTED)) await ask(() => saver.turns.state(turn));
    await ask(() => internalsOf(saver).recordedGraphs(threadId, turns));
    await ask(() => all(saver.list(config)));
    await ask(() => all(saver.list(config, { filter: { source: "loop" } })));
    for (const { id } of ((await ask(() => saver.effects.list(threadId))) ?? []) as any[]) await ask(() => saver.effects.get(id));
    for (const work of [
      () => saver.turns.tasks(threadId),
      () => saver.turns.inFlight(threadId),
      () => saver.turns.liveRuns(threadId),
      () => saver.turns.tokenUsage(threadId),
      () => saver.names.list(threadId),
      () => saver.getDeltaChannelHistory({ config, channels: ["delta"] }),
    ]) {
      await ask(work);
    }
    const tuple = (await ask(() => saver.getTuple({ configurable: { ...config.configurable, checkpoint_ns: "" } }))) as any;
    if (tuple !== undefined) await ask(() => saver.put(tuple.config, { ...tuple.checkpoint, id: uuid6(1) }, tuple.metadata, {}));
  }
  await ask(() => saver.listThreads());
  await ask(heavier[which % heavier.length] as () => Promise<unknown>);
  const persister = new CheckpointPersister(db);
  words.add(answer(() => persister.loadLatest("alone")));
  words.add(answer(() => persister.loadForTask("task")));
  for (const { fields, text } of log.lines) {
    if (`${text} ${JSON.stringify(fields)}`.includes(SECRET))
      throw new Finding(`a log line that tells what a value holds: ${text}`);
  }
  return [...words]
    .filter((word) => !word.startsWith("a value"))
    .join(" / ")
    .slice(0, 300);
}
