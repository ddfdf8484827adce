import { TurnsError } from "../../errors";
import type { Program } from "../program";
import { TOMBSTONE_ROWS } from "../rows";
import type { Session } from "../session";
import type { Lease, SawDeletion, SawEpoch } from "../store";
import type { RawOf, TOMBSTONES } from "../tables";
import { type Deletion, headKey, type ThreadState } from "../thread-state";
import { checkLease } from "./runs";
import { createThread, tagOf, threadKey } from "./thread-rows";

/** What a save says about where it belongs. */
export interface Entry {
  /** It may be the first of a new thread. */
  begins: boolean;
  /** Whether the thread that is there has what the save goes on from. */
  belongs: (thread: ThreadState) => Program<boolean>;
  /** The checkpoint that the save continues or belongs to. */
  refersTo: string | undefined;
  sawDeletion: SawDeletion;
  sawEpoch?: SawEpoch;
  lease: Lease | undefined;
}

/** Either way, so that a damaged id does not make a deletion look like one that never was. */
const OF_THREAD = TOMBSTONE_ROWS.select("WHERE thread_id = ?1 OR tag = ?2");
const REMOVE = "DELETE FROM langgraph_tombstones WHERE thread_id = ?1 OR tag = ?2";
const EXISTS =
  "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL";

/**
 * The thread that a save goes to, created if there is none yet.
 *
 * @throws {TurnsError} THREAD_DELETED for a save that goes on with what was deleted: it would bring back a part of the thread
 * (langgraph#7206). A new beginning under the id is a thread of its own, unless the deletion was final. LEASE_LOST for a run whose
 * thread somebody else has taken over. CHECKPOINT_NOT_FOUND for a run whose thread was rewound meanwhile: it would bring back what is gone.
 */
export function* enterThread(session: Session, threadId: string, createdAt: string, entry: Entry): Program<ThreadState> {
  const key = yield* threadKey(session, threadId);
  const grave = key === undefined ? yield* tombstoneOf(session, threadId) : yield* deletionKnown(session, key);
  if (grave !== undefined && (grave.final || (yield* isLate(key, entry, grave.deletedAt)))) {
    throw threadDeleted(threadId, grave.deletedAt, grave.final);
  }
  yield* checkLease(session, entry.lease);
  if (entry.sawEpoch !== undefined && entry.sawEpoch !== (key?.row.epoch ?? 0)) throw rewound(threadId, entry.refersTo);
  return key ?? (yield* createThread(session, threadId, createdAt));
}

/** The tombstone of the thread's id, if there is one; looked up once. */
function* deletionKnown(session: Session, { threadId, facts }: ThreadState): Program<Deletion | undefined> {
  if (facts.deletion === undefined) facts.deletion = (yield* tombstoneOf(session, threadId)) ?? null;
  return facts.deletion === null ? undefined : facts.deletion;
}

/**
 * A save is late if its run began before the deletion. What it goes on from proves nothing then: a graph with `checkpointer: true` in
 * a late run reads the new thread's memory and goes on from it.
 *
 * If no run is known, as for a save by hand, what it goes on from has to be there. Its id is a time and would prove nothing: clocks are set.
 */
function* isLate(key: ThreadState | undefined, entry: Entry, deletedAt: number): Program<boolean> {
  if (entry.sawDeletion !== undefined) return entry.sawDeletion !== deletedAt;
  if (key !== undefined && (yield* entry.belongs(key))) return false;
  if (entry.begins) return false;
  return entry.refersTo !== undefined || key === undefined;
}

export function* isThere(session: Session, { thread, facts }: ThreadState, ns: string, checkpointId: string): Program<boolean> {
  if (facts.heads.get(headKey(ns, checkpointId)) !== undefined) return true;
  return (yield* session.get(EXISTS, thread, ns, checkpointId)) !== undefined;
}

/** Which deletion of the thread was the last one, 0 for none. */
export function* deletionOf(session: Session, threadId: string): Program<number> {
  return (yield* tombstoneOf(session, threadId))?.deletedAt ?? 0;
}

export function* foundBy(session: Session, threadId: string): Program<{ deletion: number; epoch: number }> {
  return { deletion: yield* deletionOf(session, threadId), epoch: (yield* threadKey(session, threadId))?.row.epoch ?? 0 };
}

/** No two deletions of a thread have the same time, so that runs can tell them apart. */
export function* bury(session: Session, threadId: string, deletedAt: number, final: boolean): Program<void> {
  yield* saveTombstone(session, threadId, Math.max(deletedAt, (yield* deletionOf(session, threadId)) + 1), final);
}

/** The id may be used again, though not by the runs that were at work when it was deleted. */
export function* allowAgain(session: Session, threadId: string): Program<void> {
  const grave = yield* tombstoneOf(session, threadId);
  if (grave !== undefined) yield* saveTombstone(session, threadId, grave.deletedAt, false);
}

/** @returns whether there was a tombstone */
export function* removeTombstone(session: Session, threadId: string): Program<boolean> {
  session.threads.delete(threadId);
  return (yield* session.run(REMOVE, threadId, tagOf(session, threadId))) > 0;
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED */
function* tombstoneOf(session: Session, threadId: string): Program<Deletion | undefined> {
  const row = yield* session.get<RawOf<typeof TOMBSTONES>>(OF_THREAD, threadId, tagOf(session, threadId));
  return row && TOMBSTONE_ROWS.parse(session.sealing, threadId, row);
}

function* saveTombstone(session: Session, threadId: string, deletedAt: number, final: boolean): Program<void> {
  session.threads.delete(threadId);
  yield* session.run(REMOVE, threadId, tagOf(session, threadId));
  const row = { threadId, tag: tagOf(session, threadId), deletedAt, final };
  yield* session.run(TOMBSTONE_ROWS.insert, ...TOMBSTONE_ROWS.values(session.sealing, { thread: null, threadId }, row));
}

/** @param checkpointId what the save goes on from, or belongs to */
export function rewound(threadId: string, checkpointId: string | undefined): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${JSON.stringify(threadId)} was rewound while a run of it was going on, so what the run saves now is refused (on checkpoint ${checkpointId}).`,
    remedy:
      "Nothing was saved. Stop the run that is still going on, and call invoke again without a checkpoint_id: it continues from the thread's newest checkpoint.",
    data: { threadId, checkpointId },
  });
}

function threadDeleted(threadId: string, deletedAt: number, final: boolean): TurnsError {
  return new TurnsError("THREAD_DELETED", {
    what: `thread ${JSON.stringify(threadId)}`,
    expected: final ? "a thread that was not deleted for good" : "a save that begins anew, or goes on with what is there",
    found: `a thread deleted at ${new Date(deletedAt).toISOString()}`,
    remedy: "Nothing was saved. End the run that is still at work; saver.reuseThread(threadId) allows the id again.",
    data: { threadId },
  });
}
