import { corrupted } from "../checksum";
import { LIST_ROWS } from "../rows";
import { firstSeq, threadOfSeq } from "../spans";
import { CHUNKS, ITEMS, LISTS, type RawOf } from "../tables";
import { openBody } from "../ops/values";
import type { Program } from "../program";
import type { Owner, VerifyContext } from "./verify-context";
import { type Phase, walk, walkSeqs } from "./verify-walk";

type ChunkRow = RawOf<typeof CHUNKS>;
type ListRow = RawOf<typeof LISTS>;
type ItemRow = RawOf<typeof ITEMS>;

const LIST = LIST_ROWS.select("WHERE seq = ?");
const ITEM = "SELECT seq FROM langgraph_items WHERE list = ? AND pos = ?";
const CHUNK_THREAD = "SELECT thread FROM langgraph_chunks WHERE seq = ?";

export function chunks(only: number | undefined): Phase[] {
  return walkSeqs<ChunkRow>(only, CHUNKS, { limit: 8, check: checkChunk });
}

function* checkChunk(ctx: VerifyContext, row: ChunkRow): Program<void> {
  const where = { seq: row.seq, address: row.address };
  const owner = yield* ctx.entered(row, where);
  if (owner === undefined) return;
  const text = ctx.attempt(owner.threadId, where, () => openChunk(ctx, owner, row));
  if (text !== undefined) yield* ctx.refersTo(owner, where, text);
}

/** The text of a chunk, held against its address. @throws {TurnsError} CHECKPOINT_CORRUPTED, and what opening throws */
export function openChunk(ctx: VerifyContext, { threadId }: Owner, { seq, address, body }: Omit<ChunkRow, "thread">): string {
  const text = openBody(ctx.sql, threadId, body);
  const found = ctx.sql.sealing.address(threadId, text);
  if (found === address) return text;
  throw corrupted("a part of a value", `contents with address ${address.slice(0, 12)}…`, `contents with ${found.slice(0, 12)}…`, {
    seq,
  });
}

export function lists(only: number | undefined): Phase[] {
  return walkSeqs<ListRow>(only, LISTS, { limit: 100, check: checkList });
}

function* checkList(ctx: VerifyContext, row: ListRow): Program<void> {
  const where = { seq: row.seq };
  const owner = yield* ctx.entered(row, where);
  if (owner === undefined) return;
  const wrong = (expected: string, found: string): void => ctx.problem("list", owner.threadId, where, expected, found);
  if (row.base === null) {
    if (row.keep !== 0) wrong("a list without a base that keeps nothing of it", `keep ${row.keep}`);
    return;
  }
  const base = row.base < row.seq ? yield* ctx.sql.get<ListRow>(LIST, row.base) : undefined;
  if (base?.thread !== row.thread) wrong("an older list of the thread as its base", `list ${row.base}`);
  else if (row.keep < 1 || (yield* isShort(ctx, row, base))) wrong(`a base of ${row.keep} elements or more`, "fewer");
}

/** A list that lost its own elements may have a base that lost some too: then nothing refers to them. */
function* isShort(ctx: VerifyContext, { seq, keep }: ListRow, base: ListRow): Program<boolean> {
  if ((yield* ctx.sql.get(ITEM, seq, keep)) === undefined || keep <= base.keep) return false;
  return (yield* ctx.sql.get(ITEM, base.seq, keep - 1)) === undefined;
}

export function items(only: number | undefined): Phase {
  const range = only === undefined ? {} : { begin: [firstSeq(only), -1], where: "list < ?", bound: [firstSeq(only + 1)] };
  const { name: table, called: counts, key: keys } = ITEMS;
  return walk<ItemRow>({ table, counts, keys, ...range, limit: 200, check: checkItem });
}

function* checkItem(ctx: VerifyContext, row: ItemRow): Program<void> {
  const where = { list: row.list, pos: row.pos, seq: row.seq };
  const thread = threadOfSeq(row.list);
  const owner = yield* ctx.entered({ thread, seq: row.seq }, where);
  const list = yield* ctx.sql.get<ListRow>(LIST, row.list);
  const wrong = (expected: string, found: string): void => ctx.problem("list", owner?.threadId, where, expected, found);
  if (list === undefined) return wrong("an element of a list", "one of none");
  if (row.pos < list.keep) wrong(`a position from ${list.keep} on`, String(row.pos));
  if (row.seq <= row.list) ctx.problem("sequence", owner?.threadId, where, "a seq behind the list's", String(row.seq));
  if (row.pos > list.keep) {
    const before = yield* ctx.sql.get<{ seq: number }>(ITEM, row.list, row.pos - 1);
    if (before === undefined) wrong("elements without gaps", `none at position ${row.pos - 1}`);
    else if (before.seq >= row.seq)
      ctx.problem("sequence", owner?.threadId, where, "a seq behind the element before", String(row.seq));
  }
  const chunk = yield* ctx.sql.get<{ thread: number }>(CHUNK_THREAD, row.chunk);
  if (chunk?.thread === thread) return;
  const found = chunk === undefined ? "none" : `one of thread number ${chunk.thread}`;
  ctx.problem("reference", owner?.threadId, where, `chunk ${row.chunk} of the thread`, found);
}
