import { corrupted } from "../refusals";
import type { Program } from "../program";
import { WRITE_ROWS } from "../rows";
import type { Session } from "../session";
import { claimTask, enterThread, isThere } from "./thread-rows";
import { writtenEarly } from "./put-checkpoint";
import { isFirstTurn, settleAction } from "./turns";
import type { LostTurn, NewWrites, StoredWrites, TurnRow, WantedWrites } from "../store";
import type { RawOf, WRITES } from "../tables";
import { headKey, writesKey, type ThreadState } from "../thread-state";
import { compareWrites, type WritePlace } from "../writes-order";
import { storeChunks } from "./values";

export type RawWrites = RawOf<typeof WRITES>;

const OF_CHECKPOINT = "thread = ? AND checkpoint_ns = ? AND checkpoint_id = ?";
/** For superseded writes only their place: their content may be large. */
export const WRITE_PLACES = WRITE_ROWS.columns.replace(
  "entries",
  "CASE WHEN superseded_by IS NULL THEN entries ELSE '' END AS entries",
);
const ALL = `SELECT ${WRITE_PLACES} FROM langgraph_writes WHERE ${OF_CHECKPOINT} ORDER BY seq`;
const SUPERSEDE = `UPDATE langgraph_writes SET superseded_by = ? WHERE ${OF_CHECKPOINT} AND node_task_id = ? AND idx = ?
  AND superseded_by IS NULL`;

/**
 * A node task's regular writes replace all its earlier regular writes: a task that runs again under the same id must not keep
 * rows of its first run. Each special write (negative idx) replaces its own kind.
 */
export function* putWrites(
  session: Session,
  batch: NewWrites,
): Program<{ seq: number; turn: TurnRow | undefined; lost: LostTurn[] }> {
  const { threadId, ns, checkpointId, nodeTaskId, taskPath } = batch;
  const key = yield* enterThread(session, threadId, batch.createdAt, {
    begins: false,
    *belongs(on) {
      return yield* isThere(session, on, ns, checkpointId);
    },
    refersTo: checkpointId,
    sawDeletion: batch.sawDeletion,
    sawEpoch: batch.sawEpoch,
    lease: batch.lease,
  });
  yield* claimTask(session, key, batch.claim, batch.createdAt);
  const head = key.facts.heads.get(headKey(ns, checkpointId));
  if (head === undefined) writtenEarly(key, ns, checkpointId);
  for (const { idx, entries } of batch.rows) {
    const seq = key.nextSeq();
    const isFirst = head?.writes?.has(writesKey(nodeTaskId, idx)) === false;
    if (!isFirst) yield* session.run(SUPERSEDE, seq, key.thread, ns, checkpointId, nodeTaskId, idx);
    head?.writes?.add(writesKey(nodeTaskId, idx));
    yield* storeChunks(session, key, entries.parts);
    const place = { ns, checkpointId, nodeTaskId, taskPath, idx };
    yield* session.insert(key, WRITE_ROWS, { seq, ...place, supersededBy: undefined, entries: entries.text });
  }
  // LangGraph's own tasks have no turns.
  const hasNoTurns = isFirstTurn(key, { ns, checkpointId, proven: true }, nodeTaskId);
  const settled = batch.settle === undefined || hasNoTurns ? undefined : yield* settleAction(session, key, batch, batch.settle);
  return { seq: key.newestSeq, turn: settled?.turn, lost: settled?.lost === undefined ? [] : [settled.lost] };
}

/** A checkpoint's pending writes, verified, in the order of {@link compareWrites}. */
export function* liveWrites(
  session: Session,
  key: ThreadState,
  ns: string,
  checkpointId: string,
  wanted: WantedWrites = "all",
): Program<StoredWrites[]> {
  if (wanted === "none") return [];
  const versions = yield* verifyVersions(session, key, ns, checkpointId);
  return openedWrites(session, key.threadId, wanted === "all" ? versions : versions.filter(({ idx }) => idx < 0));
}

function openedWrites(session: Session, threadId: string, versions: readonly RawWrites[]): StoredWrites[] {
  return versions
    .filter(({ superseded_by: by }) => by === null)
    .toSorted(compareRows)
    .map((row) => WRITE_ROWS.parse(session.sealing, threadId, row))
    .map(({ nodeTaskId, entries }) => ({ nodeTaskId, entries }));
}

/** {@link liveWrites} of rows that were read, of all versions: {@link WRITE_PLACES} ordered by seq. */
export function writesIn(
  session: Session,
  at: { threadId: string; ns: string; checkpointId: string },
  rows: RawWrites[],
): StoredWrites[] {
  return openedWrites(session, at.threadId, verifiedVersions(rows, at));
}

/** {@link compareWrites} on rows. */
export function compareRows(left: PlacedRow, right: PlacedRow): number {
  return compareWrites(placeOf(left), placeOf(right));
}

type PlacedRow = Pick<RawWrites, "task_path" | "node_task_id" | "idx">;

function placeOf({ task_path: taskPath, node_task_id: nodeTaskId, idx }: PlacedRow): WritePlace {
  return { taskPath, nodeTaskId, idx };
}

/**
 * All versions of a checkpoint's pending writes, each superseded by the next. Their contents aren't verified yet.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED if a version is wrongly marked
 */
export function* verifyVersions(
  session: Session,
  { thread, threadId }: ThreadState,
  ns: string,
  checkpointId: string,
): Program<RawWrites[]> {
  const rows = yield* session.all<RawWrites>(ALL, thread, ns, checkpointId);
  return verifiedVersions(rows, { threadId, ns, checkpointId });
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
function verifiedVersions(rows: RawWrites[], at: { threadId: string; ns: string; checkpointId: string }): RawWrites[] {
  const { checkpointId } = at;
  const next = new Map<string, number>();
  for (const { seq, node_task_id: nodeTaskId, idx, superseded_by: by } of rows.toReversed()) {
    const place = `${idx} ${nodeTaskId}`;
    if (by !== (next.get(place) ?? null)) {
      const data = { ...at, nodeTaskId };
      const found = by === null ? "another that is not" : `one that says ${by}`;
      throw corrupted(`pending writes on checkpoint ${checkpointId}`, "each version superseded by the next", found, data);
    }
    next.set(place, seq);
  }
  return rows;
}
