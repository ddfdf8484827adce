import { TurnsError } from "../../errors";
import type { ResealCounts, ResealCursor } from "../store";
import { retireOtherKeys } from "../ops/keys";
import { ARCHIVE_BEGIN, type ArchivePlace, resealArchived, staleArchived } from "./rotate-archive";
import { currentStart, resealed, SEALED_COLUMNS, type SealedColumn } from "./sealed-tables";
import { anyOf, type Program } from "../program";
import type { Sql } from "../session";
import { threadIdOf } from "../ops/thread-rows";
import { uptime } from "../../uptime";

const FROM_FIRST: ResealCursor["after"] = [];
/** How long one transaction goes on: others wait for it. */
const BATCH_MS = 20;

/**
 * Goes through the tables in the order of their rows and seals anew what is not sealed under the current key. Nothing but the key
 * under which a row is sealed says that it is done, so it may be interrupted and begun again at will.
 *
 * @throws {TurnsError} NOT_ENCRYPTED; CHECKPOINT_CORRUPTED for a row that does not open, and nothing of this call is kept then
 */
export function* reseal(
  sql: Sql,
  after: ResealCursor | undefined,
): Program<{ resealed: Partial<ResealCounts>; next: ResealCursor | undefined }> {
  currentKey(sql);
  const until = uptime() + BATCH_MS;
  const counts: Partial<ResealCounts> = {};
  let at: ResealCursor | undefined = after ?? startOf(0);
  do {
    const column: SealedColumn | undefined = SEALED_COLUMNS[at.table];
    const done: ResealCursor["after"] | undefined =
      column === undefined ? yield* resealArchived(sql, at.after as ArchivePlace) : yield* resealRow(sql, column, at.after);
    const name = column?.name ?? "archived";
    if (done !== undefined) {
      counts[name] = (counts[name] ?? 0) + 1;
      at = { table: at.table, after: done };
    } else at = column === undefined ? undefined : startOf(at.table + 1);
  } while (at !== undefined && uptime() < until);
  return { resealed: counts, next: at };
}

function startOf(table: number): ResealCursor {
  return { table, after: table < SEALED_COLUMNS.length ? FROM_FIRST : ARCHIVE_BEGIN };
}

type StaleRow = Record<string, string | number | Uint8Array>;

/**
 * Turns without a thread are CheckpointPersister's, from before its database was encrypted, or none. What nobody can reach is not opened
 * any more.
 */
function* nextStale(
  sql: Sql,
  { table, column, form }: SealedColumn,
  after: ResealCursor["after"],
): Program<StaleRow | undefined> {
  const start = currentStart(sql, form);
  const key = table.key.join(", ");
  const behind = after.length === 0 ? "TRUE" : `(${key}) > (${after.map(() => "?").join(", ")})`;
  return yield* sql.get<StaleRow>(
    `SELECT * FROM ${table.name} WHERE ${behind} AND thread NOT IN (SELECT thread FROM langgraph_leftovers)
      AND substr(${column}, 1, ?) <> ? ORDER BY ${key} LIMIT 1`,
    ...after,
    start.length,
    start,
  );
}

function* resealRow(sql: Sql, sealed: SealedColumn, after: ResealCursor["after"]): Program<ResealCursor["after"] | undefined> {
  const { table, column, identity } = sealed;
  const row = yield* nextStale(sql, sealed, after);
  if (row === undefined) return undefined;
  const now = resealed(sql, yield* threadIdOf(sql, row["thread"] as number), identity(row), row[column] as string | Uint8Array);
  const at = table.key.map((name) => row[name] as string | number);
  const key = table.key.map((name) => `${name} = ?`).join(" AND ");
  yield* sql.run(`UPDATE ${table.name} SET ${column} = ? WHERE ${key}`, now, ...at);
  return at;
}

/**
 * Looks through everything in the transaction that forgets the keys: meanwhile another process may have saved under its own current
 * key, or a rewind may have been taken back.
 */
export function* retireKeys(sql: Sql): Program<{ keyId: string; retired: number | undefined }> {
  const keyId = currentKey(sql);
  const left =
    (yield* staleArchived(sql, ARCHIVE_BEGIN)) !== undefined ||
    (yield* anyOf(SEALED_COLUMNS, function* (column) {
      return (yield* nextStale(sql, column, FROM_FIRST)) !== undefined;
    }));
  return { keyId, retired: left ? undefined : yield* retireOtherKeys(sql) };
}

function currentKey(sql: Sql): string {
  const { keyId } = sql.sealing;
  if (keyId !== undefined) return keyId;
  throw new TurnsError("NOT_ENCRYPTED", {
    what: "rotateKeys()",
    expected: "an encrypted database",
    found: "one without encryption",
    remedy: "There is no key to change. To encrypt the data, start a new file with the option `encryption`.",
  });
}
