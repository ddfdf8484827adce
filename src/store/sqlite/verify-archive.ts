import { chunkAddresses } from "../../codec";
import { WRITE_ROWS } from "../rows";
import { firstSeq, threadOfSeq } from "../spans";
import { CHUNKS, EFFECTS, ITEMS, REWOUND, SNAPSHOTS, TURNS, WRITES } from "../tables";
import { type ArchivedRow, verifyArchived } from "./archive";
import { type RawEffect, toEffect } from "../ops/effect-rows";
import { type RawTurn, toTurn } from "../turn-rows";
import { isLeftoverArchive } from "./leftovers";
import type { Program } from "../program";
import type { Owner, VerifyContext, Where } from "./verify-context";
import { type RawSnapshot, toHead } from "../ops/heads";
import { openChunk } from "./verify-values";
import { type Phase, walk } from "./verify-walk";
import type { RawWrites } from "../ops/put-writes";

type Row = Record<string, string | number | null | Uint8Array>;

const TABLE = "langgraph_archive";
const REWIND = "SELECT seq, thread_id FROM langgraph_rewinds WHERE id = ?";
const BEFORE = `SELECT 1 FROM ${TABLE} WHERE rewind_id = ? AND ordinal = ?`;
const THREAD = "SELECT thread FROM langgraph_threads WHERE thread_id = ?";
const ADDRESSES = `SELECT json_extract(row, '$.address') FROM ${TABLE} WHERE thread_id = ? AND tbl = 'langgraph_chunks'`;
const GIVEN_UP = "SELECT 1 FROM langgraph_rewinds WHERE thread_id = ? AND seq > ? AND archived = 0 AND taken_back_at IS NULL";

/** What rewinds keep: each row is verified as it would be in its table. Lists are not put together: a part of one is there. */
export function archives(only: Owner | undefined): Phase {
  const range = only === undefined ? {} : { where: "thread_id = ?", bound: [only.threadId] };
  const addresses = new ArchivedAddresses();
  return walk<ArchivedRow>({
    table: TABLE,
    counts: "archived",
    keys: ["rewind_id", "ordinal"],
    ...range,
    limit: 8,
    check: (ctx, row) => checkArchived(ctx, row, addresses),
  });
}

function* checkArchived(ctx: VerifyContext, archived: ArchivedRow, addresses: ArchivedAddresses): Program<void> {
  const { rewind_id: rewindId, thread_id: threadId, ordinal, tbl, change } = archived;
  const where = { rewindId, ordinal };
  const wrong = (expected: string, found: string): void => ctx.problem("archive", threadId, where, expected, found);
  const rewind = yield* ctx.sql.get<{ seq: number; thread_id: string }>(REWIND, rewindId);
  if (rewind === undefined && (yield* isLeftoverArchive(ctx.sql, rewindId))) return;
  if (rewind?.thread_id !== threadId) return wrong("a row of a rewind of the thread", "one of none");
  if (ordinal !== 1 && (yield* ctx.sql.get(BEFORE, rewindId, ordinal - 1)) === undefined)
    wrong("rows without gaps", `none at ${ordinal - 1}`);
  const thread = (yield* ctx.sql.get<{ thread: number }>(THREAD, threadId))?.thread;
  const owner = thread === undefined ? undefined : yield* ctx.owner(thread);
  if (owner === undefined) return ctx.problem("thread", threadId, where, "a row of a thread", "a thread that is not there");
  const row = ctx.attempt(threadId, where, () => {
    verifyArchived(ctx.sql, archived);
    return parsed(archived.row);
  });
  if (row === undefined) return;
  const columns = yield* columnsOf(ctx, tbl);
  const missing = columns.find((column) => row[column] === undefined);
  if (columns.length === 0 || missing !== undefined) return wrong(`a row of ${tbl}`, `one without ${missing ?? "a table"}`);
  const number = tbl === ITEMS.name ? threadOfSeq(Number(row["list"])) : row["thread"];
  if (number !== owner.thread) wrong(`a row of thread number ${owner.thread}`, String(number));
  const { seq } = row;
  if (typeof seq === "number" && !(seq > firstSeq(owner.thread) && seq < rewind.seq)) {
    wrong(`a seq of the thread before the rewind, ${rewind.seq}`, String(seq));
  }
  const isThere = typeof seq === "number" && tbl !== ITEMS.name && (yield* isStored(ctx, tbl, owner, seq));
  if (change === "deleted" && isThere) wrong("a row that is not in its table", `seq ${seq}, which is`);
  if (change === "revived" && !isThere) wrong("a row that is in its table", `seq ${String(seq)}, which is not`);
  const texts = ctx.attempt(threadId, where, () => opened(ctx, owner, tbl, row)) ?? [];
  yield* checkReferences(ctx, owner, where, texts, rewind.seq, addresses);
}

/** What a row refers to is in its table, or comes back with a later rewind, which has to be taken back before this one. */
function* checkReferences(
  ctx: VerifyContext,
  owner: Owner,
  where: Where,
  texts: readonly string[],
  rewind: number,
  archived: ArchivedAddresses,
): Program<void> {
  // The archive of a later rewind was pruned: this one cannot be taken back any more.
  const elsewhere = function* (address: string): Program<boolean> {
    return (yield* archived.has(ctx, owner, address)) || (yield* ctx.sql.get(GIVEN_UP, owner.threadId, rewind)) !== undefined;
  };
  for (const text of texts) yield* ctx.refersTo(owner, where, text, elsewhere);
}

function parsed(text: string): Row {
  const row = JSON.parse(text) as Record<string, string | number | null | { hex: string }>;
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => [
      column,
      typeof value === "object" && value !== null ? Buffer.from(value.hex, "hex") : value,
    ]),
  );
}

/** The texts that a row refers to chunks in. @throws for a row that does not verify */
function opened(ctx: VerifyContext, owner: Owner, table: string, row: Row): string[] {
  const { sql } = ctx;
  const { threadId } = owner;
  switch (table) {
    case SNAPSHOTS.name: {
      const { channels } = toHead(sql, threadId, row as unknown as RawSnapshot);
      return [...channels.values()].flatMap(({ pointer }) => (pointer?.kind === "inline" ? [pointer.text] : []));
    }
    case WRITES.name:
      return [WRITE_ROWS.parse(sql.sealing, threadId, row as unknown as RawWrites).entries];
    case TURNS.name:
      return [toTurn(sql, row as unknown as RawTurn, threadId).serializedState];
    case CHUNKS.name:
      return [openChunk(ctx, owner, row as unknown as Parameters<typeof openChunk>[2])];
    case EFFECTS.name: {
      const { input, outcome } = toEffect(sql, threadId, row as unknown as RawEffect);
      return [input ?? "", outcome ?? ""].filter((text) => chunkAddresses(text).length > 0);
    }
    default:
      return [];
  }
}

function* columnsOf(ctx: VerifyContext, table: string): Program<string[]> {
  return (yield* ctx.sql.all<{ name: string }>("SELECT name FROM pragma_table_info(?)", table)).map(({ name }) => name);
}

function* isStored(ctx: VerifyContext, table: string, { thread }: Owner, seq: number): Program<boolean> {
  const described = REWOUND.find(({ name }) => name === table);
  if (described === undefined || described.columns["thread"] === undefined) return false;
  return (yield* ctx.sql.get(`SELECT 1 FROM ${described.name} WHERE thread = ? AND seq = ?`, thread, seq)) !== undefined;
}

/** Addresses of the chunks in a thread's archives, read once for as long as no row of the thread is deleted or brought back. */
class ArchivedAddresses {
  #of = "";
  #addresses: ReadonlySet<string> = new Set();

  *has(ctx: VerifyContext, owner: Owner, address: string): Program<boolean> {
    if (this.#of !== owner.generation) {
      this.#addresses = new Set((yield* ctx.sql.rows<[string]>(ADDRESSES, owner.threadId)).map(([one]) => one));
      this.#of = owner.generation;
    }
    return this.#addresses.has(address);
  }
}
