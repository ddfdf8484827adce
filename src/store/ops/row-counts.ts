import { type Program, question, type Statement } from "../program";
import { corrupted } from "../refusals";
import type { Session } from "../session";
import { REWINDS, rowsOfThread, type Table, THREAD_TABLES } from "../tables";
import type { ThreadCounts, ThreadState } from "../thread-state";
import { aboutThread, NO_ROWS } from "./thread-rows";

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

/** A turn without a number would never be read. */
function counting(table: Table): string {
  const rows = table.columns["seq"]?.nullable === true ? "count(seq)" : "count(*)";
  return `(SELECT ${rows} FROM ${table.name} WHERE ${rowsOfThread(table)})`;
}

type Numbered = Pick<ThreadState, "thread" | "threadId">;

/** A thread's row counts, as recorded. */
export function* countsOf(session: Session, { thread }: Pick<Numbered, "thread">): Program<ThreadCounts | undefined> {
  return yield* session.get<ThreadCounts>(ON_RECORD, thread);
}

/** The rows under a thread's number, counted. */
export function* countedRows(session: Session, { thread, threadId }: Numbered): Program<ThreadCounts | undefined> {
  return yield* session.get<ThreadCounts>(COUNTED, thread, threadId);
}

/** The first kind of rows whose count differs from the recorded one. */
export function* miscounted(
  session: Session,
  at: Numbered,
): Program<{ kind: string; expected: number; found: number } | undefined> {
  const recorded = yield* countsOf(session, at);
  const there = yield* countedRows(session, at);
  if (recorded === undefined || there === undefined) return undefined;
  const kind = KINDS.find((one) => recorded[one] !== there[one]);
  return kind && { kind, expected: recorded[kind], found: there[kind] };
}

/** What {@link miscounted} asks. */
function countQuestions({ thread, threadId }: Numbered): Statement[] {
  return [question("one", ON_RECORD, thread), countedQuestion({ thread, threadId })];
}

/** What {@link recount} asks. */
export function countedQuestion({ thread, threadId }: Numbered): Statement {
  return question("one", COUNTED, thread, threadId);
}

/**
 * A program about a thread that may have to be resumed after a crash. A lost row leaves nothing behind that would fail verification,
 * so the rows are counted first. Whether an index agrees with its table is checked by `verify()`.
 *
 * @param questions what the program asks in any case
 * @returns undefined if there is no such thread
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* aboutCounted<T>(
  session: Session,
  threadId: string,
  questions: (thread: number) => readonly Statement[],
  work: (key: ThreadState) => Program<T>,
): Program<T | undefined> {
  const asked = (thread: number): Statement[] => [...countQuestions({ thread, threadId }), ...questions(thread)];
  return yield* aboutThread(session, threadId, asked, function* (key) {
    const wrong = yield* miscounted(session, key);
    if (wrong === undefined) return yield* work(key);
    throw corrupted(`thread ${JSON.stringify(threadId)}`, `${wrong.expected} rows of ${wrong.kind}`, `${wrong.found}`, {
      threadId,
    });
  });
}

/** Counts again after a range of rows was removed or restored: the rows that are there are the expected ones. */
export function* recount(session: Session, key: ThreadState): Program {
  const there = yield* countedRows(session, key);
  if (there !== undefined) key.change(there);
}
