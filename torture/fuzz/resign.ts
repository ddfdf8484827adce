import type Database from "better-sqlite3";
import { EFFECT_COLUMNS, hashOf, plainSealing, TURN_COLUMNS } from "../../src/testing-internal";

type Row = Record<string, any>;

/** In the order in which their checksums take them. */
const SNAPSHOT = [
  ...["seq", "checkpoint_ns", "checkpoint_id", "position", "parent_checkpoint_id"],
  ...["source", "step", "run_id", "created_at"],
];
const SIGNED: Readonly<Record<string, (row: Row) => unknown[]>> = {
  langgraph_snapshots: (row) => [...SNAPSHOT, "delta", "body", "channels", "metadata"].map((column) => row[column] as unknown),
  langgraph_writes: (row) =>
    ["seq", "checkpoint_ns", "checkpoint_id", "node_task_id", "task_path", "idx", "entries"].map(
      (column) => row[column] as unknown,
    ),
  langgraph_checkpoints: (row) => {
    const columns = TURN_COLUMNS.split(", ").filter((column) => !["thread", "checksum"].includes(column));
    return columns.map((column) => row[column] as unknown);
  },
  langgraph_effects: (row) => {
    const texts = contentOf(String(row["content"]));
    const columns = EFFECT_COLUMNS.split(", ").filter((column) => !["thread", "content", "checksum"].includes(column));
    return columns.flatMap((column) => {
      const value: unknown = row[column];
      if (column === "status") return [texts.input, value, texts.outcome];
      return column === "undone_at" ? [texts.undoError, value] : [value];
    });
  },
};

export const SIGNED_TABLES: readonly string[] = [...Object.keys(SIGNED), "langgraph_chunks", "langgraph_graphs"];

/** Makes a row's own proof anew, as who may write the file of a database without keys can. @returns false if nobody could */
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
  const parts = SIGNED[table]?.(row);
  if (parts === undefined) return undefined;
  const usual = table === "langgraph_checkpoints" ? parts.map((part, at) => usualPart(row, part, at)) : parts;
  const threadId = row["thread"] === null ? "" : threadOf(db, row["thread"]);
  try {
    return plainSealing.checksum(threadId, ...(usual as never[]));
  } catch {
    return undefined;
  }
}

/** A turn's namespace is left out where its other columns tell it. */
function usualPart(row: Row, part: unknown, at: number): unknown {
  if (TURN_COLUMNS.split(", ").filter((column) => column !== "thread")[at] !== "node_ns" || part !== null) return part;
  if (row["node_task_id"] === null || row["thread"] === null) return null;
  const ns = String(row["checkpoint_ns"] ?? "");
  return `${ns === "" ? "" : `${ns}|`}${row["node_name"]}:${row["node_task_id"]}`;
}

function threadOf(db: Database.Database, thread: unknown): string {
  const found = db.prepare("SELECT thread_id FROM langgraph_threads WHERE thread = ?").pluck().get(thread);
  return typeof found === "string" ? found : "";
}

function contentOf(text: string): { input?: string; outcome?: string; undoError?: string } {
  try {
    return JSON.parse(text) as object;
  } catch {
    return { input: text, outcome: text };
  }
}

/** The address is the hash of the text; whatever refers to the chunk is made to refer to the new one. */
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
