import type { Program } from "../program";
import { firstSeq, threadOfSeq } from "../spans";
import { isLeftoverArchive } from "./leftovers";
import { type Owner, type Phase, stretchesOf, type VerifyContext, walk } from "./verify-context";
import { ARCHIVE, ITEMS, REWOUND } from "../tables";
import { type ArchivedRow, verifyArchived } from "./archive";
import { archivedRow, openedRow, referencesOf, rowsNamed } from "./row-references";

const REWIND = "SELECT seq, thread_id FROM langgraph_rewinds WHERE id = ?";
const BEFORE = "SELECT 1 FROM langgraph_archive WHERE rewind_id = ? AND ordinal = ?";
const CHUNKS_IN = "SELECT row FROM langgraph_archive WHERE thread_id = ? AND tbl = 'langgraph_chunks'";
/** Every other quotation mark in the JSON text of a row is escaped. */
const TAKEN_LATER = `SELECT 1 FROM langgraph_archive
  WHERE thread_id = ? AND tbl = ? AND change = 'deleted' AND rewind_id <> ? AND row LIKE ? LIMIT 1`;
const GIVEN_UP = "SELECT 1 FROM langgraph_rewinds WHERE thread_id = ? AND seq > ? AND archived = 0 AND taken_back_at IS NULL";

/**
 * Checks the archives of rewinds: each row is verified as it would be in its table. Lists aren't assembled, because an archive
 * has only a part of them.
 */
export function archives(only: Owner | undefined): Phase {
  const addresses = new ArchivedAddresses();
  const check = (ctx: VerifyContext, row: ArchivedRow): Program => checkArchived(ctx, row, addresses);
  const { name: table, called: counts, key: keys } = ARCHIVE;
  return walk<ArchivedRow>({ table, counts, keys, ...stretchesOf(ARCHIVE, only)[0], limit: 8, check });
}

function* checkArchived(ctx: VerifyContext, archived: ArchivedRow, addresses: ArchivedAddresses): Program {
  const { rewind_id: rewindId, thread_id: threadId, ordinal, tbl, change } = archived;
  const { session } = ctx;
  const at = ctx.at(threadId, { rewindId, ordinal });
  const wrong = (expected: string, found: string): void => at.problem("archive", expected, found);
  const rewind = yield* session.get<{ seq: number; thread_id: string }>(REWIND, rewindId);
  if (rewind === undefined && (yield* isLeftoverArchive(session, rewindId))) return;
  if (rewind?.thread_id !== threadId) return wrong("a row of a rewind of the thread", "one of none");
  if (ordinal !== 1 && (yield* session.get(BEFORE, rewindId, ordinal - 1)) === undefined)
    wrong("rows without gaps", `none at ${ordinal - 1}`);
  const owner = yield* ctx.ownerOf(threadId);
  if (owner === undefined) return at.problem("thread", "a row of a thread", "a thread that is not there");
  const raw = at.attempt(() => {
    verifyArchived(session, archived);
    return archivedRow(archived.row);
  });
  if (raw === undefined) return;
  const columns = yield* session.engine.columnsOf(tbl);
  const rows = rowsNamed(tbl);
  const missing = columns.find((column) => raw[column] === undefined && rows !== undefined && column in rows.table.columns);
  if (rows === undefined || columns.length === 0 || missing !== undefined)
    return wrong(`a row of ${tbl}`, `one without ${missing ?? "a table"}`);
  const number = tbl === ITEMS.name ? threadOfSeq(Number(raw["list"])) : raw["thread"];
  if (number !== owner.thread) wrong(`a row of thread number ${owner.thread}`, String(number));
  const { seq } = raw;
  if (typeof seq === "number" && !(seq > firstSeq(owner.thread) && seq < rewind.seq))
    wrong(`a seq of the thread before the rewind, ${rewind.seq}`, String(seq));
  const isThere = typeof seq === "number" && (yield* isStored(ctx, tbl, owner, seq));
  if (change === "deleted" && isThere) wrong("a row that is not in its table", `seq ${seq}, which is`);
  if (change === "revived" && !isThere) {
    // A later rewind that went further back has the row, if its archive is still kept.
    const isArchived =
      typeof seq === "number" && (yield* session.get(TAKEN_LATER, threadId, tbl, rewindId, `%"seq":${seq},%`)) !== undefined;
    if (!isArchived && (yield* session.get(GIVEN_UP, threadId, rewind.seq)) === undefined)
      wrong("a row that is in its table", `seq ${String(seq)}, which is not`);
  }
  const references = at.attempt(() => referencesOf(rows.table, openedRow(session, rows, threadId, raw)));
  if (references === undefined) return;
  // What it refers to is in its table, or in the archive of a later rewind that has to be taken back before this one.
  yield* ctx.refersTo(owner, at, { ...references, pointers: [] }, function* (address) {
    // Unless the archive of a later rewind was pruned: then this rewind can't be taken back any more.
    return (yield* addresses.has(ctx, owner, address)) || (yield* session.get(GIVEN_UP, threadId, rewind.seq)) !== undefined;
  });
}

function* isStored(ctx: VerifyContext, table: string, { thread }: Owner, seq: number): Program<boolean> {
  const described = REWOUND.find(({ name, columns }) => name === table && columns["thread"] !== undefined);
  if (described === undefined) return false;
  return (yield* ctx.session.get(`SELECT 1 FROM ${described.name} WHERE thread = ? AND seq = ?`, thread, seq)) !== undefined;
}

/** Addresses of the chunks in a thread's archives. Read once, and valid until rows of the thread are deleted or restored. */
class ArchivedAddresses {
  #of = "";
  #addresses: ReadonlySet<string> = new Set();

  *has(ctx: VerifyContext, owner: Owner, address: string): Program<boolean> {
    if (this.#of !== owner.generation) {
      this.#addresses = new Set(
        (yield* ctx.session.rows<[string]>(CHUNKS_IN, owner.threadId)).map(([row]) => String(archivedRow(row)["address"])),
      );
      this.#of = owner.generation;
    }
    return this.#addresses.has(address);
  }
}
