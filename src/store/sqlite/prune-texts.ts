import type { PrunePlan } from "../store";
import { toTurn, type RawTurn, TURN_COLUMNS } from "./turn-rows";
import type { Sql } from "./sql";
import type { ThreadKey } from "./thread-keys";
import { openWrites, type WriteRow } from "./writes";

/** A text that may refer to values: a manifest, or codec text. */
export interface Referring {
  kind: "manifest" | "text";
  text: string;
}

interface Writes extends WriteRow {
  checkpoint_ns: string;
  checkpoint_id: string;
}

const PAGE = 500;
const page = (columns: string, table: string): string =>
  `SELECT ${columns} FROM ${table} WHERE thread = ? AND seq > ? ORDER BY seq LIMIT ${PAGE}`;
const SNAPSHOTS = page("seq, channels", "langgraph_snapshots");
const WRITES = page("seq, checkpoint_ns, checkpoint_id, node_task_id, idx, entries, checksum", "langgraph_writes");
const TURNS = page(TURN_COLUMNS, "langgraph_checkpoints");
const ARCHIVED = `SELECT rewind_id, tbl, row FROM langgraph_archive WHERE thread_id = ? AND change = 'deleted'
  AND tbl IN ('langgraph_snapshots', 'langgraph_writes', 'langgraph_checkpoints')`;

/** Of the rows of a thread, but for those of the plan. */
export function* storedTexts(sql: Sql, key: ThreadKey, without: PrunePlan | undefined): Generator<Referring> {
  const gone = (of: "snapshots" | "writes" | "turns"): Set<number> => new Set(without?.units.flatMap((unit) => unit[of]));
  for (const row of pages<{ seq: number; channels: string }>(sql, key, SNAPSHOTS, gone("snapshots"))) {
    yield { kind: "manifest", text: row.channels };
  }
  for (const row of pages<Writes>(sql, key, WRITES, gone("writes"))) yield { kind: "text", text: entriesOf(sql, key, row) };
  for (const row of pages<RawTurn & { seq: number }>(sql, key, TURNS, gone("turns"))) {
    yield { kind: "text", text: toTurn(sql, row, key.threadId).serializedState };
  }
}

function* pages<T extends { seq: number }>(
  sql: Sql,
  { thread }: ThreadKey,
  query: string,
  gone: ReadonlySet<number>,
): Generator<T> {
  for (let after = 0; ;) {
    const rows = sql.all<T>(query, thread, after);
    for (const row of rows) if (!gone.has(row.seq)) yield row;
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return;
    after = last.seq;
  }
}

/** Of the rows that taking a rewind back would bring back. */
export function* archivedTexts(sql: Sql, key: ThreadKey, without: readonly string[]): Generator<Referring> {
  const rows = sql.all<{ rewind_id: string; tbl: string; row: string }>(ARCHIVED, key.threadId);
  for (const { rewind_id: rewindId, tbl, row } of rows) {
    if (without.includes(rewindId)) continue;
    const fields = JSON.parse(row, (_name, value: unknown) => fromHex(value)) as Record<string, unknown>;
    if (tbl === "langgraph_snapshots") yield { kind: "manifest", text: fields["channels"] as string };
    else if (tbl === "langgraph_writes") yield { kind: "text", text: entriesOf(sql, key, fields as unknown as Writes) };
    else yield { kind: "text", text: toTurn(sql, fields as unknown as RawTurn, key.threadId).serializedState };
  }
}

function entriesOf(sql: Sql, key: ThreadKey, row: Writes): string {
  return openWrites(sql, key.threadId, row, row.checkpoint_ns, row.checkpoint_id);
}

/** Texts are strings here, also those that look like JSON; only what the archive itself wrote is an object. */
function fromHex(value: unknown): unknown {
  const hex = (value as { hex?: unknown } | null)?.hex;
  return typeof hex === "string" ? Buffer.from(hex, "hex") : value;
}
