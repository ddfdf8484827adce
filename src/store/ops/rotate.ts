import { TurnsError } from "../../errors";
import type { Identity } from "../../sealing";
import { uptime } from "../../system";
import { anyOf, type Program } from "../program";
import { ALL_ROWS, type AnyRows, ARCHIVED_ROWS } from "../rows";
import { fromSealedText, SEALED_TEXT, toSealedText } from "../sealed-text";
import type { Session } from "../session";
import { type AnyRow, archivedRow } from "./row-references";
import type { ResealCounts, ResealCursor } from "../store";
import { type ArchivedRow, changeArchived, verifyArchived } from "./archive";
import { retireOtherKeys } from "./keys";
import { threadIdOf } from "./thread-rows";

/** The length of one transaction. Others wait for it. */
const BATCH_MS = 20;

interface SealedColumn {
  rows: AnyRows;
  column: string;
  form: "bytes" | "text";
}

const SEALED_COLUMNS: readonly SealedColumn[] = ALL_ROWS.flatMap((rows) =>
  Object.entries(rows.table.columns).flatMap(([column, { sealed }]) => (sealed ? [{ rows, column, form: sealed.form }] : [])),
);
const PAGE = 100;
const ARCHIVED_AFTER = ARCHIVED_ROWS.select(
  `WHERE (rewind_id, ordinal) > (?, ?) AND tbl IN (${SEALED_COLUMNS.map(({ rows }) => `'${rows.table.name}'`).join(
    ", ",
  )}) ORDER BY rewind_id, ordinal LIMIT ${PAGE}`,
);
const FROM_FIRST: ResealCursor["after"] = [];
const FROM_FIRST_ARCHIVED: ResealCursor["after"] = ["", 0];

/**
 * Seals everything again that isn't sealed under the current key: the tables in row order, then the archives of rewinds. A row's
 * own key id is the only progress mark, so this may be interrupted and started again at any time.
 *
 * @throws {TurnsError} NOT_ENCRYPTED; CHECKPOINT_CORRUPTED for a row that does not open, and nothing of this call is kept then
 */
export function* reseal(
  session: Session,
  after: ResealCursor | undefined,
): Program<{ keyId: string; resealed: Partial<ResealCounts>; next: ResealCursor | undefined }> {
  const keyId = currentKey(session);
  const until = uptime() + BATCH_MS;
  const counts: Partial<ResealCounts> = {};
  let at: ResealCursor | undefined = after ?? startOf(0);
  do {
    const column: SealedColumn | undefined = SEALED_COLUMNS[at.table];
    const done: ResealCursor["after"] | undefined =
      column === undefined ? yield* resealArchived(session, at.after) : yield* resealRow(session, column, at.after);
    const name = (column?.rows.table.called ?? "archived") as keyof ResealCounts;
    if (done !== undefined) {
      counts[name] = (counts[name] ?? 0) + 1;
      at = { table: at.table, after: done };
    } else at = column === undefined ? undefined : startOf(at.table + 1);
  } while (at !== undefined && uptime() < until);
  return { keyId, resealed: counts, next: at };
}

function startOf(table: number): ResealCursor {
  return { table, after: table < SEALED_COLUMNS.length ? FROM_FIRST : FROM_FIRST_ARCHIVED };
}

/**
 * Checks everything in the transaction that forgets the keys. Meanwhile another process may have saved under its own current key,
 * or taken a rewind back.
 */
export function* retireKeys(session: Session): Program<{ keyId: string; retired: number | undefined }> {
  const keyId = currentKey(session);
  const retired = yield* retireOtherKeys(session, function* () {
    if ((yield* staleArchived(session, FROM_FIRST_ARCHIVED)) !== undefined) return true;
    return yield* anyOf(SEALED_COLUMNS, function* (column) {
      return (yield* staleRow(session, column, FROM_FIRST)) !== undefined;
    });
  });
  return { keyId, retired };
}

/** @returns the position of the row; undefined if there was none */
function* resealRow(
  session: Session,
  sealed: SealedColumn,
  after: ResealCursor["after"],
): Program<ResealCursor["after"] | undefined> {
  const { rows, column } = sealed;
  const row = yield* staleRow(session, sealed, after);
  if (row === undefined) return undefined;
  const now = resealed(session, yield* threadIdOf(session, Number(row["thread"])), rows.identity(row), row[column]);
  const at = rows.table.key.map((name) => row[name] as string | number);
  const key = rows.table.key.map((name) => `${name} = ?`).join(" AND ");
  yield* session.run(`UPDATE ${rows.table.name} SET ${column} = ? WHERE ${key}`, now, ...at);
  return at;
}

/**
 * Turns without a thread are CheckpointPersister's, from before its database was encrypted, or there are none. Unreachable rows
 * are no longer opened.
 */
function* staleRow(
  session: Session,
  { rows, column, form }: SealedColumn,
  after: ResealCursor["after"],
): Program<AnyRow | undefined> {
  const start = currentStart(session, form);
  const key = rows.table.key.join(", ");
  const behind = after.length === 0 ? "TRUE" : `(${key}) > (${after.map(() => "?").join(", ")})`;
  return yield* session.get<AnyRow>(
    rows.select(`WHERE ${behind} AND thread NOT IN (SELECT thread FROM langgraph_leftovers)
      AND substr(${column}, 1, length(?)) <> ? ORDER BY ${key} LIMIT 1`),
    ...after,
    start,
    start,
  );
}

/** @returns the position and the rewind of the archived row; undefined if there was none */
function* resealArchived(session: Session, after: ResealCursor["after"]): Program<ResealCursor["after"] | undefined> {
  const found = yield* staleArchived(session, after);
  if (found === undefined) return undefined;
  const { rewind_id: rewindId, ordinal, thread_id: threadId, tbl } = found;
  const { rows, column } = sealedIn(tbl);
  verifyArchived(session, found);
  const row = archivedRow(found.row);
  yield* changeArchived(session, found, column, resealed(session, threadId, rows.identity(row), row[column]));
  return [rewindId, ordinal];
}

/** The first archived row behind a position that isn't sealed under the current key. */
function* staleArchived(session: Session, after: ResealCursor["after"]): Program<ArchivedRow | undefined> {
  for (let at = after; ;) {
    const rows = yield* session.all<ArchivedRow>(ARCHIVED_AFTER, ...at);
    const found = rows.find(({ tbl, row }) => {
      const { column, form } = sealedIn(tbl);
      return !isCurrent(currentStart(session, form), archivedRow(row)[column]);
    });
    const last = rows.at(-1);
    if (found !== undefined || last === undefined || rows.length < PAGE) return found;
    at = [last.rewind_id, last.ordinal];
  }
}

function sealedIn(table: string): SealedColumn {
  return SEALED_COLUMNS.find(({ rows }) => rows.table.name === table) as SealedColumn;
}

function isCurrent(start: string | Buffer, stored: AnyRow[string] | undefined): boolean {
  if (typeof start === "string") return typeof stored !== "string" || stored.startsWith(start);
  return !(stored instanceof Uint8Array) || start.equals(stored.subarray(0, start.length));
}

/** The first bytes of a column that is sealed under the current key, and of no other: the key id is at the front. */
function currentStart(session: Session, form: SealedColumn["form"]): string | Buffer {
  // Base64 carries three bytes in four characters, and a database may store bytes so. What is cut off belongs to the checksum
  // behind the id.
  const { header: whole } = session.sealing;
  const header = whole.subarray(0, whole.length - (whole.length % 3));
  return form === "bytes" ? header : SEALED_TEXT + header.toString("base64");
}

/** The same text, sealed under the current key, in the same form. @throws what `open` of the sealing throws */
function resealed(session: Session, threadId: string, identity: Identity, stored: AnyRow[string] | undefined): string | Buffer {
  const bytes = typeof stored === "string" ? (fromSealedText(stored) ?? stored) : (stored as Uint8Array);
  const sealed = session.sealing.seal(threadId, identity, session.sealing.open(threadId, identity, bytes)) as Buffer;
  return typeof stored === "string" ? toSealedText(sealed) : sealed;
}

function currentKey(session: Session): string {
  const { keyId } = session.sealing;
  if (keyId !== undefined) return keyId;
  throw new TurnsError("NOT_ENCRYPTED", {
    problem: "This database isn't encrypted, so rotateKeys() has no keys to change.",
    remedy: "To encrypt the data, start a new file with the option `encryption`.",
  });
}
