import { type AnyRows, SNAPSHOT_ROWS, THREAD_ROWS, TURN_ROWS } from "../../rows";
import { firstSeq, ofThread } from "../../spans";
import { REWINDS, rowsOfThread, type Table, THREAD_TABLES, THREADS as THREADS_TABLE } from "../../tables";
import { type AnyRow, openedRow } from "../../ops/row-references";
import type { Program } from "../../program";
import type { Session } from "../../session";
import { countedRows } from "../../ops/row-counts";
import { insertThread, newThread, NO_ROWS, type RawThread, sayWhere, threadKey, verifiedThread } from "../../ops/thread-rows";
import { movedToOf } from "../../moves";
import type { LostItem } from "../../salvage";
import type { ThreadState } from "../../thread-state";
import { succeeds } from "./cut";

const THREADS = THREAD_ROWS.select("");
const MOVING = THREAD_ROWS.select("WHERE moved_to IS NOT NULL AND gone = 0");
const DELETE = "DELETE FROM langgraph_threads WHERE thread = ?";
const COUNTED = THREAD_TABLES.filter((table: Table) => table.counted !== undefined);
const NUMBERS = `${COUNTED.map(({ name }) => `SELECT thread FROM ${name}`).join(" UNION ")} EXCEPT SELECT thread FROM langgraph_threads`;
/** All places with the id of a thread besides its own row: by default the graph's name is the same. */
const CANDIDATES = `SELECT graph_id AS id FROM langgraph_checkpoints WHERE thread = ?1 UNION SELECT graph_id FROM langgraph_tasks
  WHERE thread = ?1 UNION SELECT thread_id FROM langgraph_rewinds UNION SELECT thread_id FROM langgraph_archive LIMIT 10000`;
/** In these tables, a row with the right checksum proves the id of its thread. */
const PROOFS: readonly AnyRows[] = [SNAPSHOT_ROWS, TURN_ROWS];
const EPOCH = `SELECT max(coalesce((SELECT max(epoch) FROM langgraph_effects WHERE thread = ?1), 0),
  coalesce((SELECT sum(1 + (taken_back_at IS NOT NULL)) FROM langgraph_rewinds WHERE thread_id = ?2), 0)) + 1 AS epoch`;
const NUMBERED = [...THREAD_TABLES, REWINDS].filter((table: Table) => table.columns["seq"] !== undefined);
const SEQS = NUMBERED.map(
  (table) => `SELECT max(seq) AS seq FROM ${table.name} WHERE ${rowsOfThread(table)} AND ${ofThread()}`,
).join(" UNION ALL ");
const NEWEST = `SELECT max(seq) AS seq FROM (${SEQS}
  UNION ALL SELECT max(tried_seq) FROM langgraph_effects WHERE ${ofThread()} AND ${ofThread("tried_seq")})`;

export interface RepairedThreads {
  /** Numbers of threads whose row was rebuilt, and their recovered ids. */
  rebuilt: Map<number, string>;
  /** Numbers of threads whose id couldn't be recovered. */
  nameless: number[];
  /** Damaged rows of threads that have no other row: what is left of a thread that moved to another database. */
  lost: LostItem[];
  /** Where the threads move that stopped on their way, by number. They are held again when all of them are whole. */
  moving: Map<number, string>;
}

/**
 * Repairs the rows of threads: they are few, and all others depend on them. A damaged or missing row is rebuilt if the checksums
 * of the thread's other rows prove its id. Its other fields get the most careful values: its checkpoints count as pruned, and its
 * epoch as grown. If an intact row is older than others of its thread, its numbers continue behind theirs.
 */
export function* repairThreads(session: Session, createdAt: string): Program<RepairedThreads> {
  const rebuilt = new Map<number, string>();
  const nameless: number[] = [];
  const ids = new Map<number, string>();
  const damaged = new Map<number, RawThread>();
  for (const row of yield* session.all<RawThread>(THREADS)) {
    const isWhole = yield* succeeds(verifiedThread(session, row.thread_id, row));
    const seq = isWhole ? yield* newestOf(session, row.thread, row.thread_id) : undefined;
    if (seq !== undefined && seq <= row.seq) continue;
    yield* session.run(DELETE, row.thread);
    if (seq !== undefined) yield* insertThread(session, { ...THREAD_ROWS.unverified(undefined, row), seq });
    else {
      ids.set(row.thread, row.thread_id);
      damaged.set(row.thread, row);
    }
  }
  for (const [thread] of yield* session.rows<[number]>(NUMBERS)) {
    let id = ids.get(thread);
    ids.delete(thread);
    if (id === undefined || !(yield* isProven(session, thread, id))) id = yield* provenId(session, thread);
    if (id === undefined || (yield* session.get("SELECT 1 FROM langgraph_threads WHERE thread_id = ?", id)) !== undefined) {
      nameless.push(thread);
      continue;
    }
    const epoch = (yield* session.get<{ epoch: number }>(EPOCH, thread, id))?.epoch ?? 1;
    const [seq, prunedSeq] = [yield* newestOf(session, thread, id), firstSeq(thread)];
    const counts = (yield* countedRows(session, { thread, threadId: id })) ?? NO_ROWS;
    const movedTo = whereTo(damaged.get(thread));
    const fields = { seq, epoch, prunedSeq, unswept: 1, ...counts, movedTo };
    yield* insertThread(session, { ...newThread(session, thread, id, createdAt), ...fields });
    rebuilt.set(thread, id);
  }
  const why = "it is damaged, and the thread has no other row from which it could be made again";
  const lost = Array.from(ids, ([thread, threadId]) => ({ table: THREADS_TABLE.name, threadId, where: { thread }, why }));
  return { rebuilt, nameless, lost, moving: yield* released(session) };
}

/** Rows of a thread that stopped moving can be changed, so that it becomes whole. */
function* released(session: Session): Program<Map<number, string>> {
  const moving = new Map<number, string>();
  for (const { thread_id: threadId } of yield* session.all<RawThread>(MOVING)) {
    const key = (yield* threadKey(session, threadId)) as ThreadState;
    moving.set(key.thread, key.row.movedTo as string);
    yield* sayWhere(session, key, undefined);
  }
  return moving;
}

/** Where a thread moves to by its damaged row. It may be there already, and nothing else tells. */
function whereTo(row: RawThread | undefined): string | undefined {
  const movedTo = row?.moved_to ?? undefined;
  return movedTo !== undefined && movedToOf(movedTo).id !== "" ? movedTo : undefined;
}

function* newestOf(session: Session, thread: number, threadId: string): Program<number> {
  const newest = yield* session.get<{ seq: number | null }>(NEWEST, thread, threadId);
  return (newest?.seq ?? firstSeq(thread)) - firstSeq(thread);
}

function* provenId(session: Session, thread: number): Program<string | undefined> {
  for (const [id] of yield* session.rows<[string]>(CANDIDATES, thread)) if (yield* isProven(session, thread, id)) return id;
  return undefined;
}

/** Whether a row of that number verifies as one of the thread with that id. */
function* isProven(session: Session, thread: number, threadId: string): Program<boolean> {
  for (const rows of PROOFS) {
    for (const raw of yield* session.all<AnyRow>(rows.select("WHERE thread = ? ORDER BY seq LIMIT 20"), thread)) {
      try {
        openedRow(session, rows, threadId, raw);
        return true;
      } catch {
        // It is damaged, or belongs to another thread.
      }
    }
  }
  return false;
}
