import type Database from "better-sqlite3";
import { EFFECT_ROWS, hashOf, plainSealing, type Rows, SNAPSHOT_ROWS, TURN_ROWS, WRITE_ROWS } from "../../src/testing-internal";

type Row = Record<string, any>;

const SIGNED: ReadonlyMap<string, Rows> = new Map(
  [SNAPSHOT_ROWS, WRITE_ROWS, TURN_ROWS, EFFECT_ROWS].map((rows) => [rows.table.name, rows as unknown as Rows]),
);

export const SIGNED_TABLES: readonly string[] = [...SIGNED.keys(), "langgraph_chunks", "langgraph_graphs"];

/** Computes a row's checksum again, as anybody who can write an unencrypted file could. @returns false if nobody could */
export function resign(db: Database.Database, table: string, rowid: number): boolean {
  const row = db.prepare(`SELECT * FROM ${table} WHERE rowid = ?`).get(rowid) as Row | undefined;
  if (row === undefined) return false;
  if (table === "langgraph_chunks") return readdress(db, row, rowid);
  if (table === "langgraph_graphs") return redigest(db, row, rowid);
  const checksum = checksumOf(db, table, row);
  if (checksum === undefined) return false;
  db.prepare(`UPDATE ${table} SET checksum = ? WHERE rowid = ?`).run(checksum, rowid);
  return true;
}

/** Undefined for a row whose columns no checksum is over. */
export function checksumOf(db: Database.Database, table: string, row: Row): string | undefined {
  const threadId = row["thread"] === null ? "" : threadOf(db, row["thread"]);
  try {
    return SIGNED.get(table)?.checksum(plainSealing, threadId, row);
  } catch {
    return undefined;
  }
}

function threadOf(db: Database.Database, thread: unknown): string {
  const found = db.prepare("SELECT thread_id FROM langgraph_threads WHERE thread = ?").pluck().get(thread);
  return typeof found === "string" ? found : "";
}

/** The address is the hash of the text; everything that refers to the chunk then refers to the new one. */
function readdress(db: Database.Database, row: Row, rowid: number): boolean {
  const address = plainSealing.address("", String(row["body"]));
  try {
    db.prepare("UPDATE langgraph_chunks SET address = ? WHERE rowid = ?").run(address, rowid);
  } catch {
    return false;
  }
  for (const [table, column] of [
    ["langgraph_snapshots", "channels"],
    ["langgraph_writes", "entries"],
    ["langgraph_checkpoints", "serialized_state"],
    ["langgraph_effects", "content"],
  ] as const) {
    const rows = db.prepare(`SELECT rowid AS id FROM ${table} WHERE instr(${column}, ?) > 0`).pluck().all(row["address"]);
    for (const id of rows as number[]) {
      db.prepare(`UPDATE ${table} SET ${column} = replace(${column}, ?, ?) WHERE rowid = ?`).run(row["address"], address, id);
      resign(db, table, id);
    }
  }
  return true;
}

function redigest(db: Database.Database, row: Row, rowid: number): boolean {
  try {
    const { nodes, channels } = JSON.parse(String(row["document"])) as { nodes: unknown; channels: unknown };
    db.prepare("UPDATE langgraph_graphs SET digest = ? WHERE rowid = ?").run(hashOf({ nodes, channels }), rowid);
    return true;
  } catch {
    return false;
  }
}
