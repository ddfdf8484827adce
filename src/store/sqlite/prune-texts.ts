import { chunkTag } from "../../codec";
import { mapped, type Program } from "../program";
import { EFFECT_ROWS, TURN_ROWS, WRITE_ROWS } from "../rows";
import type { PrunePlan } from "../store";
import { openBody } from "../ops/values";
import { type RawEffect, toEffect } from "../ops/effect-rows";
import { toTurn, type RawTurn } from "../turn-rows";
import { refuseBack } from "./paging";
import type { Sql } from "../session";
import { malformed, storedRecord } from "./stored-json";
import type { ThreadKey } from "../thread-state";
import type { RawWrites } from "../ops/put-writes";

const ARCHIVED_ROW = "a row in the archive of a rewind";

/** A text that may refer to values: a manifest, or codec text. */
export interface Referring {
  kind: "manifest" | "text";
  text: string;
}

/** Gets one text after the other: all of a thread's at once may be larger than the memory. */
type Visit = (referring: Referring) => void;

const PAGE = 500;
const OF_THREAD = `WHERE thread = ? AND seq > ? ORDER BY seq LIMIT ${PAGE}`;
const SNAPSHOTS = `SELECT seq, channels FROM langgraph_snapshots ${OF_THREAD}`;
const WRITES = WRITE_ROWS.select(OF_THREAD);
const TURNS = TURN_ROWS.select(OF_THREAD);
const EFFECTS = EFFECT_ROWS.select(OF_THREAD);
/** What every text with a reference contains. */
export const REFERENCE = chunkTag("").split(",")[0]?.slice(1) ?? "";
const ARCHIVES = "SELECT DISTINCT rewind_id FROM langgraph_archive WHERE thread_id = ?";
const ARCHIVED = `SELECT ordinal, tbl, row FROM langgraph_archive WHERE rewind_id = ?1 AND ordinal > ?2 AND change = 'deleted'
  AND (tbl IN ('langgraph_snapshots', 'langgraph_writes', 'langgraph_checkpoints', 'langgraph_effects') OR (tbl = 'langgraph_chunks'
    AND (json_type(row, '$.body') = 'object' OR instr(json_extract(row, '$.body'), ?3) > 0)))
  ORDER BY ordinal LIMIT ${PAGE}`;
const ARCHIVED_LISTS = `SELECT json_extract(row, '$.base'), json_extract(row, '$.keep') FROM langgraph_archive
  WHERE rewind_id = ? AND change = 'deleted' AND tbl = 'langgraph_lists' AND json_extract(row, '$.base') IS NOT NULL`;
const ARCHIVED_ITEMS = `SELECT DISTINCT json_extract(row, '$.chunk') FROM langgraph_archive
  WHERE rewind_id = ? AND change = 'deleted' AND tbl = 'langgraph_items'`;

/** Of the rows of a thread, but for those of the plan. */
export function* storedTexts(sql: Sql, key: ThreadKey, without: PrunePlan | undefined, visit: Visit): Program {
  const gone = (of: "snapshots" | "writes" | "turns"): Set<number> => new Set(without?.units.flatMap((unit) => unit[of]));
  yield* eachRow<{ seq: number; channels: string }>(sql, key, SNAPSHOTS, gone("snapshots"), (row) => {
    visit({ kind: "manifest", text: row.channels });
  });
  yield* eachRow<RawWrites>(sql, key, WRITES, gone("writes"), (row) => {
    visit({ kind: "text", text: entriesOf(sql, key, row) });
  });
  yield* eachRow<RawTurn & { seq: number }>(sql, key, TURNS, gone("turns"), (row) => {
    visit({ kind: "text", text: toTurn(sql, row, key.threadId).serializedState });
  });
  yield* eachRow<RawEffect>(sql, key, EFFECTS, new Set(), (row) => {
    effectTexts(sql, key, row, visit);
  });
}

function effectTexts(sql: Sql, key: ThreadKey, row: RawEffect, visit: Visit): void {
  const { input, outcome } = toEffect(sql, key.threadId, row);
  for (const text of [input, outcome]) if (text !== undefined) visit({ kind: "text", text });
}

function* eachRow<T extends { seq: number }>(
  sql: Sql,
  { thread }: ThreadKey,
  query: string,
  gone: ReadonlySet<number>,
  work: (row: T) => void,
): Program {
  for (let after = 0; ;) {
    const rows = yield* sql.all<T>(query, thread, after);
    for (const row of rows) {
      if (!gone.has(row.seq)) work(row);
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return;
    refuseBack("langgraph_snapshots", after, last.seq);
    after = last.seq;
  }
}

/** The rewinds of a thread that can be taken back as far as their archives go, but for those of the plan. */
export function* archivesOf(sql: Sql, { threadId }: ThreadKey, without: PrunePlan | undefined): Program<string[]> {
  const all = (yield* sql.all<{ rewind_id: string }>(ARCHIVES, threadId)).map(({ rewind_id: id }) => id);
  return all.filter((id) => without?.archives.includes(id) !== true);
}

/** Of the rows that taking these rewinds back would bring back. */
export function* archivedTexts(sql: Sql, key: ThreadKey, archives: readonly string[], visit: Visit): Program {
  yield* eachArchived(sql, archives, ({ tbl, row }) => {
    const fields = Object.fromEntries(
      Object.entries(storedRecord(row, ARCHIVED_ROW)).map(([name, value]) => [name, fromHex(value)]),
    );
    if (tbl === "langgraph_snapshots") visit({ kind: "manifest", text: fields["channels"] as string });
    else if (tbl === "langgraph_writes") visit({ kind: "text", text: entriesOf(sql, key, fields as unknown as RawWrites) });
    else if (tbl === "langgraph_checkpoints")
      visit({ kind: "text", text: toTurn(sql, fields as unknown as RawTurn, key.threadId).serializedState });
    else if (tbl === "langgraph_effects") effectTexts(sql, key, fields as unknown as RawEffect, visit);
    else visit({ kind: "text", text: openBody(sql, key.threadId, bodyOf(fields)) });
  });
}

function bodyOf({ body }: Record<string, unknown>): string | Uint8Array {
  if (typeof body === "string" || body instanceof Uint8Array) return body;
  throw malformed(ARCHIVED_ROW, "a chunk with a body");
}

/** An archive can be as large as the thread was. */
function* eachArchived(sql: Sql, archives: readonly string[], work: (archived: { tbl: string; row: string }) => void): Program {
  for (const id of archives) {
    for (let after = 0; ;) {
      const rows = yield* sql.all<{ ordinal: number; tbl: string; row: string }>(ARCHIVED, id, after, REFERENCE);
      for (const row of rows) work(row);
      const last = rows.at(-1);
      if (last === undefined || rows.length < PAGE) break;
      refuseBack("langgraph_archive", after, last.ordinal);
      after = last.ordinal;
    }
  }
}

/** Archived rows name lists and chunks by number, and many of those are older than what was rewound, so that they are still there. */
export function* archivedNumbers(
  sql: Sql,
  archives: readonly string[],
): Program<{ bases: { list: number; keep: number }[]; chunks: number[] }> {
  const bases = yield* mapped(archives, (id) => sql.rows<[number, number]>(ARCHIVED_LISTS, id));
  const chunks = yield* mapped(archives, (id) => sql.rows<[number]>(ARCHIVED_ITEMS, id));
  return { bases: bases.flat().map(([list, keep]) => ({ list, keep })), chunks: chunks.flat().map(([chunk]) => chunk) };
}

function entriesOf(sql: Sql, key: ThreadKey, row: RawWrites): string {
  return WRITE_ROWS.parse(sql.sealing, key.threadId, row).entries;
}

/** Texts are strings here, also those that look like JSON; only what the archive itself wrote is an object. */
function fromHex(value: unknown): unknown {
  const hex = (value as { hex?: unknown } | null)?.hex;
  return typeof hex === "string" ? Buffer.from(hex, "hex") : value;
}
