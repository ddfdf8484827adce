import { type Program, question, type Statement } from "../program";
import type { Session } from "../session";
import { unfinishedRewind as refusedByRewind } from "../refusals";
import { rewindsQuestion, unfinishedRewind } from "./rewind-records";
import type { PrunePlan, PruneUnit, PruneWish } from "../store";
import { archivedRow } from "./row-references";
import { EFFECTS, SNAPSHOTS, TURNS, WRITES } from "../tables";
import type { ThreadState } from "../thread-state";
import { factsOf, keyOf, liveOrNewest, type PruneFacts, type Stored } from "./prune-facts";
import { addDeltaAncestors, addEdited, keepBelow, keptByCriteria, type Places, placesOf } from "./prune-keep";

/** Rows of one table. */
const ARCHIVED = `SELECT rewind_id, row FROM langgraph_archive
  WHERE thread_id = ? AND tbl = ? AND change = 'deleted' ORDER BY rewind_id, ordinal`;
const REWINDS = "SELECT id, target_seq, created_at FROM langgraph_rewinds WHERE thread_id = ? AND archived = 1";

/** What {@link planOf} asks, besides the thread's rows. */
export function planQuestions(threadId: string): Statement[] {
  return [rewindsQuestion(threadId), question("all", REWINDS, threadId)];
}

/**
 * Plans what to remove from a thread. A first part of the plan can be removed alone if its last unit is the last of a root's: a
 * root reads as before only with all checkpoints of its subgraphs. Those come before it.
 *
 * @throws {TurnsError} REWIND_UNFINISHED: effects have been undone for that rewind, so its target must stay reachable. A rewind
 *   that begins after planning changes the stamp, and the plan is made again
 */
export function* planOf(session: Session, key: ThreadState, wish: PruneWish): Program<PrunePlan> {
  const rewind = yield* unfinishedRewind(session, key.threadId);
  if (rewind !== undefined) throw refusedByRewind(rewind, `pruning thread ${JSON.stringify(key.threadId)}`);
  // What only an archive needed isn't needed once the archive goes. Then more may go, other archives too.
  for (let without: ReadonlySet<string> = new Set(); ;) {
    const plan = yield* planWithout(session, key, wish, without);
    if (plan.archives.every((id) => without.has(id))) return plan;
    without = new Set([...without, ...plan.archives]);
  }
}

/** @param without rewinds whose archives go */
function* planWithout(session: Session, key: ThreadState, wish: PruneWish, without: ReadonlySet<string>): Program<PrunePlan> {
  const facts = yield* factsOf(session, key, without);
  const places = yield* placesOf(session, facts);
  const wanted = yield* wish.kind === "runs"
    ? keptWithoutRuns(facts, places, wish.runIds)
    : keptByCriteria(session, facts, places, wish);
  const kept = new Set(wanted);
  yield* addEdited(session, facts, kept);
  yield* addDeltaAncestors(session, facts, kept);
  if (wish.kind === "criteria") yield* keepBelow(places, kept);
  else yield* keepBelowSpared(facts, places, wanted, kept);
  // Subgraphs' checkpoints may have delta channels of their own. No root checkpoint is added any more.
  yield* addDeltaAncestors(session, facts, kept);
  const going = [...facts.checkpoints].filter(([at]) => !kept.has(at));
  const floor = floorOf(facts, kept, facts.prunedSeq);
  const units = (yield* inOrder(places, going)).map(({ at, stored, isLast }): PruneUnit => ({
    isCheckpoint: true,
    isLast,
    snapshots: stored.versions.filter(({ archived }) => archived === undefined).map(({ seq }) => seq),
    writes: facts.writes.get(at) ?? [],
    turns: facts.turns.get(at) ?? [],
  }));
  return {
    threadId: key.threadId,
    units: [...units, ...strays(facts, floor)],
    archives: [
      ...new Set([
        ...without,
        ...(yield* archivesToGo(session, key, wish, floor)),
        ...(wish.kind === "runs" ? yield* archivesOfRuns(session, key, wish.runIds, new Set(going.map(([at]) => at))) : []),
      ]),
    ],
    floor,
    stamp: key.stamp,
    examined: facts.checkpoints.size,
    spared: wish.kind === "runs" ? [...kept].filter((at) => !wanted.has(at)).map((at) => addressOf(facts, at)) : [],
  };
}

/** @returns `isLast`: what follows belongs to another root */
function* inOrder(
  places: Places,
  going: readonly [string, Stored][],
): Program<{ at: string; stored: Stored; isLast: boolean }[]> {
  const rootSeqs = new Map<Stored, number>();
  for (const [, stored] of going) rootSeqs.set(stored, firstSeq((yield* places.rootOf(stored)) ?? stored));
  const sorted = going.toSorted(([, left], [, right]) => {
    const byRoot = (rootSeqs.get(left) as number) - (rootSeqs.get(right) as number);
    if (byRoot !== 0) return byRoot;
    return Number(left.ns === "") - Number(right.ns === "") || firstSeq(left) - firstSeq(right);
  });
  return sorted.map(([at, stored], index) => {
    const next = sorted[index + 1];
    return { at, stored, isLast: next === undefined || rootSeqs.get(next[1]) !== rootSeqs.get(stored) };
  });
}

/** All checkpoints except those of these runs and of their subgraphs. */
function* keptWithoutRuns(facts: PruneFacts, places: Places, runIds: readonly string[]): Program<Set<string>> {
  const ofRuns = (stored: Stored | undefined): boolean =>
    stored !== undefined && runIds.includes(liveOrNewest(stored).runId ?? "");
  const kept = new Set<string>();
  for (const [at, stored] of facts.checkpoints) {
    const isGone =
      ofRuns(stored) || (stored.ns.includes(":") && !(yield* places.isOrphaned(stored)) && ofRuns(yield* places.rootOf(stored)));
    if (!isGone || stored.versions.every(({ archived }) => archived !== undefined)) kept.add(at);
  }
  return kept;
}

/** A checkpoint of these runs that has to stay reads as before only with the checkpoints of its subgraphs. */
function* keepBelowSpared(facts: PruneFacts, places: Places, wanted: ReadonlySet<string>, kept: Set<string>): Program {
  const isSpared = (stored: Stored | undefined): boolean =>
    stored !== undefined && kept.has(keyOf(stored.ns, stored.id)) && !wanted.has(keyOf(stored.ns, stored.id));
  for (const [at, stored] of facts.checkpoints) if (isSpared(yield* places.rootOf(stored))) kept.add(at);
}

/**
 * Writes and turns of checkpoints that were removed before them, or were never saved. New ones may still wait for their
 * checkpoint.
 */
function strays(facts: PruneFacts, floor: number): PruneUnit[] {
  const ofNobody = (rows: ReadonlyMap<string, readonly number[]>): number[] =>
    [...rows].filter(([at]) => !facts.checkpoints.has(at)).flatMap(([, seqs]) => seqs.filter((seq) => seq < floor));
  return [
    ...ofNobody(facts.writes).map((seq) => ({ isCheckpoint: false, isLast: true, snapshots: [], writes: [seq], turns: [] })),
    ...ofNobody(facts.turns).map((seq) => ({ isCheckpoint: false, isLast: true, snapshots: [], writes: [], turns: [seq] })),
  ];
}

/**
 * The smallest seq that a rewind may go back to. A rewind to a seq makes the newest checkpoint up to it the thread's head, in
 * every namespace that outlives a task. So that checkpoint must still exist.
 */
function floorOf(facts: PruneFacts, kept: ReadonlySet<string>, prunedSeq: number): number {
  const heads = new Map<string, { position: number; stays: boolean }>();
  let floor = prunedSeq;
  const stored = [...facts.checkpoints].filter(([, { ns }]) => !ns.includes(":"));
  for (const [at, one] of stored.toSorted(([, left], [, right]) => firstSeq(left) - firstSeq(right))) {
    const head = heads.get(one.ns);
    const stays = kept.has(at);
    // Until a checkpoint stays, the floor is the last removed one.
    if (!stays || head?.stays === false) floor = Math.max(floor, firstSeq(one));
    if (head === undefined || one.position > head.position) heads.set(one.ns, { position: one.position, stays });
  }
  return floor;
}

function* archivesToGo(session: Session, key: ThreadState, wish: PruneWish, floor: number): Program<string[]> {
  const before = wish.kind === "criteria" ? wish.before : undefined;
  return (yield* session.all<{ id: string; target_seq: number; created_at: string }>(REWINDS, key.threadId))
    .filter((rewind) => rewind.target_seq < floor || (before !== undefined && Date.parse(rewind.created_at) < before))
    .map(({ id }) => id);
}

/** Archives with a checkpoint of these runs, or with something that belongs to a checkpoint that goes. */
function* archivesOfRuns(
  session: Session,
  key: ThreadState,
  runIds: readonly string[],
  going: ReadonlySet<string>,
): Program<string[]> {
  const found = new Set<string>();
  for (const { name } of [SNAPSHOTS, WRITES, TURNS, EFFECTS]) {
    for (const [id, text] of yield* session.rows<[string, string]>(ARCHIVED, key.threadId, name)) {
      const row = archivedRow(text);
      const isOfRun = name === SNAPSHOTS.name && runIds.includes(String(row["run_id"]));
      const [ns, checkpointId] = name === EFFECTS.name ? ["", row["anchor"]] : [row["checkpoint_ns"] ?? "", row["checkpoint_id"]];
      if (isOfRun || going.has(keyOf(String(ns), String(checkpointId)))) found.add(id);
    }
  }
  return [...found];
}

function firstSeq({ versions }: Stored): number {
  return versions[0]?.seq ?? 0;
}

function addressOf(facts: PruneFacts, at: string): { ns: string; checkpointId: string } {
  const { ns, id } = facts.checkpoints.get(at) as Stored;
  return { ns, checkpointId: id };
}
