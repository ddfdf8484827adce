import { corrupted } from "../checksum";
import { REWINDS, rowsOfThread, type Table, THREAD_TABLES } from "../tables";
import type { Program } from "../program";
import type { Sql } from "../session";
import type { ThreadCounts, ThreadKey } from "../thread-state";
import { NO_ROWS, threadKey } from "./thread-keys";

const COUNTED_TABLES: readonly Table[] = [...THREAD_TABLES, REWINDS];
const KINDS = Object.keys(NO_ROWS) as (keyof ThreadCounts)[];
const ON_RECORD = `SELECT ${KINDS.join(", ")} FROM langgraph_threads WHERE thread = ?`;
const SUMS = KINDS.map(
  (kind) =>
    `${COUNTED_TABLES.filter(({ counted }) => counted === kind)
      .map(counting)
      .join(" + ")} AS ${kind}`,
);
const COUNTED = `SELECT ${SUMS.join(", ")}`;

/** A turn without a number would be read by nobody. */
function counting(table: Table): string {
  const rows = table.columns["seq"]?.nullable === true ? "count(seq)" : "count(*)";
  return `(SELECT ${rows} FROM ${table.name} WHERE ${rowsOfThread(table)})`;
}

type Numbered = Pick<ThreadKey, "thread" | "threadId">;

/** How many rows there are of a thread, by what is on record. */
export function* countsOf(sql: Sql, { thread }: Pick<Numbered, "thread">): Program<ThreadCounts | undefined> {
  return yield* sql.get<ThreadCounts>(ON_RECORD, thread);
}

/** How many rows there are under a thread's number, counted. */
export function* countedRows(sql: Sql, { thread, threadId }: Numbered): Program<ThreadCounts | undefined> {
  return yield* sql.get<ThreadCounts>(COUNTED, thread, threadId);
}

/** The first kind of rows of which there are more, or fewer, than on record. */
export function* miscounted(sql: Sql, at: Numbered): Program<{ kind: string; expected: number; found: number } | undefined> {
  const recorded = yield* countsOf(sql, at);
  const there = yield* countedRows(sql, at);
  if (recorded === undefined || there === undefined) return undefined;
  const kind = KINDS.find((one) => recorded[one] !== there[one]);
  return kind && { kind, expected: recorded[kind], found: there[kind] };
}

/**
 * The thread, for whoever goes on from it after a crash: a row that was lost leaves nothing behind that would not verify, so the rows are
 * counted. That an index agrees with its table is `verify()`'s to find.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* countedThread(sql: Sql, threadId: string): Program<ThreadKey | undefined> {
  const key = yield* threadKey(sql, threadId);
  const wrong = key && (yield* miscounted(sql, key));
  if (wrong === undefined) return key;
  throw corrupted(`thread ${JSON.stringify(threadId)}`, `${wrong.expected} rows of ${wrong.kind}`, `${wrong.found}`, {
    threadId,
  });
}

/** After rows were removed or brought back by their range, what is there is what there is to be. */
export function* recount(sql: Sql, key: ThreadKey): Program {
  const there = yield* countedRows(sql, key);
  if (there !== undefined) key.change(there);
}
