import { describe, TurnsError } from "../errors";
import { checkedOptions } from "../options";
import { sideBySide } from "../side-by-side";
import type { EffectRow } from "../store/effects";
import { taskSpans } from "../store/ownership";
import { leaseLost, prunedBehind, unfinishedRewind, unknownThread } from "../store/refusals";
import {
  LEFT,
  type Lease,
  type NewRewind,
  type RewindCounts,
  type RewindRow,
  type RewindStanding,
  type RunRow,
  type TaskRow,
} from "../store/store";
import type { Hold } from "../turns/run-registry";
import { compensate, type CompensationParts } from "./compensate";
import { askProbes } from "./doubts";
import { coverageOf, effectsReport, type Found, lookedThrough, refuseGaps } from "./found-effects";
import { checkedUndos, type KnownEffects, type Undos } from "./undos";
import { notUnfinished, undoInDoubt, undoneMeanwhile } from "./failures";
import {
  type CheckpointRewindRequest,
  checkpointSchema,
  type CompensationReport,
  type FinishRequest,
  finishSchema,
  planRewind,
  planToPoint,
  pointOf,
  refuseWhileRunning,
  reportSchema,
  requestSchema,
  type RewindPlan,
  type RewindReport,
  type RewindRequest,
  type TakeBackReport,
} from "./plan";
import { printingInWords } from "./report-in-words";

export interface RewindParts extends CompensationParts {
  createId: () => string;
  isAlive: (run: RunRow) => boolean;
  /**
   * Holds a thread while its undos run.
   *
   * @param within the caller has reserved the thread and isn't running anything on it
   * @throws {TurnsError} THREAD_RUNNING
   */
  hold: (threadId: string, within: boolean) => Promise<Hold>;
}

interface Aim {
  threadId: string;
  dryRun: boolean;
  archived: boolean;
  allowUncompensated: boolean;
  reason: string | undefined;
  /** See {@link RewindParts.hold}. */
  within: boolean;
  known: KnownEffects;
  plan: (intervals: readonly TaskRow[]) => RewindPlan;
}

const NOTHING: RewindCounts = { checkpoints: 0, writes: 0, turns: 0, values: 0, tasks: 0, effects: 0 };

/**
 * Rewinds a thread to the end of one of its tasks. It undoes the effects after it, newest first, and then deletes everything
 * after it in one transaction. Until then nothing is deleted (S1.9). If you repeat an interrupted rewind, it continues where it
 * stopped (S3.5).
 *
 * A dry run makes the same checks in the same order, and stops before anything is undone or deleted.
 *
 * @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND, UNKNOWN_TASK, STATE_INVARIANT_VIOLATED, THREAD_RUNNING,
 *   REWIND_UNFINISHED, EFFECT_UNCOMPENSATED, EFFECT_IN_DOUBT; CHECKPOINT_NOT_FOUND behind pruned checkpoints; and not in a dry
 *   run UNDO_FAILED, EFFECT_NOT_RECORDED, THREAD_DELETED, LEASE_LOST, and what the store throws
 */
export async function rewindThread(parts: RewindParts, request: RewindRequest, undos?: Undos): Promise<RewindReport> {
  const checked = checkedOptions(requestSchema, request);
  const { threadId, dryRun = false, archive: archived = true, allowUncompensated = false } = checked;
  return rewindTo(parts, {
    ...{ threadId, dryRun, archived, allowUncompensated },
    reason: undefined,
    within: false,
    known: checkedUndos(undos),
    plan: (intervals) => planRewind(checked, intervals),
  });
}

/**
 * {@link rewindThread} to the place where a checkpoint was saved. It keeps the input saved with that checkpoint, and removes
 * everything that node tasks did from there. They all run again, even the ones that succeeded.
 *
 * @param within whether the caller has reserved the thread and isn't running anything on it
 * @throws as rewindThread; CHECKPOINT_NOT_FOUND also if there is no such checkpoint
 */
export async function rewindToCheckpoint(
  parts: RewindParts,
  request: CheckpointRewindRequest,
  undos?: Undos,
  within = false,
): Promise<RewindReport> {
  const checked = checkedOptions(checkpointSchema, request);
  const { threadId, checkpointNs: ns = "", checkpointId, reason } = checked;
  const { archive: archived = true, allowUncompensated = false } = checked;
  const found = await parts.store.seqBeforeWorkOn(threadId, ns, checkpointId);
  if (found === undefined) await refuseUnknown(parts.store, threadId);
  const seq = pointOf(checked, found);
  return rewindTo(parts, {
    ...{ threadId, dryRun: false, archived, allowUncompensated, reason, within },
    known: checkedUndos(undos),
    plan: (intervals) => planToPoint(threadId, seq, intervals),
  });
}

/**
 * Continues the unfinished rewind of a thread, no matter how it was requested.
 *
 * @returns undefined if there is none
 * @throws as rewindThread
 */
export async function finishRewind(parts: RewindParts, request: FinishRequest, undos?: Undos): Promise<RewindReport | undefined> {
  const { threadId, allowUncompensated = false } = checkedOptions(finishSchema, request);
  const known = checkedUndos(undos);
  const unfinished = await parts.store.unfinishedRewind(threadId);
  if (unfinished === undefined) return undefined;
  const { targetSeq, archived, reason } = unfinished;
  return rewindTo(parts, {
    ...{ threadId, dryRun: false, archived, allowUncompensated, reason, within: false, known },
    plan: (intervals) => planToPoint(threadId, targetSeq, intervals),
  });
}

/**
 * What a rewind to a task would have to undo, and whether it could. Missing undos are reported, not thrown.
 *
 * @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND, UNKNOWN_TASK; CHECKPOINT_NOT_FOUND for a target behind pruned
 *   checkpoints, where no undo can help
 */
export async function compensationReport(
  parts: CompensationParts,
  request: Pick<RewindRequest, "threadId" | "toTask">,
  undos?: Undos,
): Promise<CompensationReport> {
  const { store } = parts;
  const { threadId, toTask } = checkedOptions(reportSchema, request);
  const known = checkedUndos(undos);
  const plan = await planned(store, { threadId, plan: (intervals) => planRewind({ threadId, toTask }, intervals) });
  await refuseBehindPruned(store, threadId, plan, await store.prunedSeq(threadId));
  return { threadId, toTask, ...coverageOf(await effectsBehind(parts, { threadId, dryRun: true, known }, plan)) };
}

async function rewindTo(parts: RewindParts, aim: Aim): Promise<RewindReport> {
  const { store } = parts;
  const { threadId, dryRun } = aim;
  const [plan, runs, unfinished, prunedSeq] = await sideBySide(
    () => planned(store, aim),
    () => store.listRuns(threadId),
    () => store.unfinishedRewind(threadId),
    () => store.prunedSeq(threadId),
  );
  if (!aim.within) refuseWhileRunning(threadId, runs.filter(parts.isAlive));
  refuseOther(unfinished, plan, aim);
  if (plan.targetSeq === Infinity) return reportOf(aim, plan, undefined, NOTHING, []);
  await refuseBehindPruned(store, threadId, plan, prunedSeq);
  const effects = await effectsBehind(parts, aim, plan);
  refuseGaps(threadId, effects, aim.allowUncompensated);
  if (dryRun) return reportOf(aim, plan, undefined, await store.countBehind(threadId, plan.targetSeq), effects);
  const needsTime = aim.within || unfinished !== undefined || effects.some(({ undo }) => undo !== undefined);
  return needsTime ? undoAndDelete(parts, aim) : deleteBehind(parts, aim, plan, effects, undefined, undefined);
}

/** Nothing changes any more while the thread is held, so everything is checked once again. */
async function undoAndDelete(parts: RewindParts, aim: Aim): Promise<RewindReport> {
  const { store } = parts;
  const { threadId } = aim;
  const hold = await parts.hold(threadId, aim.within);
  try {
    const [plan, unfinished] = await sideBySide(
      () => planned(store, aim),
      () => store.unfinishedRewind(threadId),
    );
    const effects = await effectsBehind(parts, aim, plan);
    refuseOther(unfinished, plan, aim);
    refuseGaps(threadId, effects, aim.allowUncompensated);
    let begun = unfinished;
    if (begun === undefined && effects.some(({ undo }) => undo !== undefined)) {
      const row = newRewind(parts, aim, plan);
      begun = await store.beginRewind(row, (found) =>
        notLeft(unchanged(parts, aim, { plan, effects, begun: undefined, lease: hold.lease }, found)),
      );
    }
    if (begun !== undefined) await compensate(parts, { rewindId: begun.id, lease: hold.lease }, effects);
    return await deleteBehind(parts, aim, plan, effects, begun, hold.lease);
  } finally {
    await hold.release();
  }
}

/** What is left to recovery stays so until the thread was rewound. */
function notLeft(runs: readonly RunRow[]): RunRow[] {
  return runs.filter(({ beatAt }) => beatAt !== LEFT);
}

/** One transaction: everything is deleted, or nothing. */
async function deleteBehind(
  parts: RewindParts,
  aim: Aim,
  plan: RewindPlan,
  effects: readonly Found[],
  begun: RewindRow | undefined,
  lease: Lease | undefined,
): Promise<RewindReport> {
  const row = begun === undefined ? newRewind(parts, aim, plan) : { ...begun, archived: aim.archived };
  const removed = await parts.store.rewind(row, (found) => unchanged(parts, aim, { plan, effects, begun, lease }, found));
  return reportOf(aim, plan, row.id, removed, effects);
}

function newRewind(parts: RewindParts, aim: Aim, { targetSeq, toTask: targetTaskId }: RewindPlan): NewRewind {
  const { threadId, archived, reason } = aim;
  return { id: parts.createId(), threadId, targetTaskId, targetSeq, archived, createdAt: parts.now(), reason };
}

function reportOf(
  { threadId, dryRun, archived }: Aim,
  { toTask, tasks }: RewindPlan,
  rewindId: string | undefined,
  removed: RewindCounts,
  effects: readonly Found[],
): RewindReport {
  return printingInWords({ rewindId, threadId, toTask, dryRun, archived, tasks, removed, effects: effectsReport(effects) });
}

/** @throws {TurnsError} THREAD_NOT_FOUND, and what the plan throws */
async function planned(store: RewindParts["store"], { threadId, plan }: Pick<Aim, "threadId" | "plan">): Promise<RewindPlan> {
  const intervals = await store.listTasks(threadId);
  if (intervals.length === 0) await refuseUnknown(store, threadId);
  return plan(intervals);
}

/** @throws {TurnsError} THREAD_NOT_FOUND */
async function refuseUnknown(store: RewindParts["store"], threadId: string): Promise<void> {
  if ((await store.prunedSeq(threadId)) === undefined) throw unknownThread(threadId);
}

/** @throws {TurnsError} CHECKPOINT_NOT_FOUND */
async function refuseBehindPruned(
  store: RewindParts["store"],
  threadId: string,
  plan: RewindPlan,
  prunedSeq: number | undefined,
): Promise<void> {
  if (prunedSeq === undefined || prunedSeq <= plan.targetSeq) return;
  const next = taskSpans(await store.listTasks(threadId)).find(({ endSeq }) => endSeq >= prunedSeq);
  throw prunedBehind(threadId, plan.toTask, next && { taskId: next.taskId, isNewest: next.endSeq === Infinity });
}

/** The effects after the target, newest first, once the probes of those in doubt were asked. */
async function effectsBehind(
  parts: CompensationParts,
  { threadId, dryRun, known }: Pick<Aim, "threadId" | "dryRun" | "known">,
  { targetSeq }: RewindPlan,
): Promise<Found[]> {
  const rows = targetSeq === Infinity ? [] : await parts.store.effectsBehind(threadId, targetSeq);
  const asked = await askProbes(parts, { rows, targetSeq }, known, !dryRun);
  return lookedThrough(asked.rows, asked.causes, known);
}

/** A rewind that was begun can be continued with the same target, no matter how it was requested. */
function refuseOther(unfinished: RewindRow | undefined, { targetSeq }: RewindPlan, { threadId }: Aim): void {
  if (unfinished === undefined || unfinished.targetSeq === targetSeq) return;
  throw unfinishedRewind(unfinished, `a rewind of thread ${describe(threadId)} to another target`);
}

interface Seen {
  plan: RewindPlan;
  effects: readonly Found[];
  begun: RewindRow | undefined;
  /** The lease on the thread, if the rewind takes time. */
  lease: Lease | undefined;
}

/**
 * Checks within the transaction that nobody else runs the thread, and that it is unchanged since the rewind was planned.
 *
 * @returns the marks of runs that count as dead
 * @throws {TurnsError} LEASE_LOST, THREAD_RUNNING, REWIND_UNFINISHED, STATE_INVARIANT_VIOLATED
 */
function unchanged(parts: RewindParts, aim: Aim, seen: Seen, found: RewindStanding): readonly RunRow[] {
  const { lease } = seen;
  const others = found.runs.filter(({ runId }) => runId !== lease?.runId);
  if (lease !== undefined && others.length === found.runs.length) throw leaseLost(lease, others[0]);
  refuseWhileRunning(aim.threadId, others.filter(parts.isAlive));
  const { plan, begun } = seen;
  if (begun === undefined && found.unfinished !== undefined) {
    throw unfinishedRewind(found.unfinished, `a rewind of thread ${describe(aim.threadId)}`);
  }
  const now = aim.plan(found.tasks);
  if (plan.targetSeq !== now.targetSeq || plan.tasks.length !== now.tasks.length)
    throw moved(aim, "tasks that were added or removed");
  if (begun?.id !== found.unfinished?.id) throw moved(aim, "a rewind that was given up");
  if (!sameEffects(seen, found.effects)) throw moved(aim, "effects, or undos, that changed");
  return others;
}

/**
 * Whether these are exactly the effects that were seen, unchanged. With a rewind on record, everything that it undoes must be
 * undone.
 */
function sameEffects({ effects, begun }: Seen, rows: readonly EffectRow[]): boolean {
  const known = new Map(effects.map((one) => [one.row.id, one]));
  return (
    rows.length === known.size &&
    rows.every((row) => {
      const seen = known.get(row.id);
      if (seen === undefined || seen.row.status !== row.status || seen.row.tries !== row.tries) return false;
      return row.undoStatus === (seen.undo === undefined || begun === undefined ? seen.row.undoStatus : "done");
    })
  );
}

const moved = ({ threadId }: Aim, found: string): TurnsError =>
  new TurnsError("STATE_INVARIANT_VIOLATED", {
    problem: `Thread ${describe(threadId)} changed while its rewind was prepared: ${found}.`,
    remedy: "Look at the thread and rewind again. Nothing was deleted.",
    data: { threadId },
  });

/**
 * Abandons an unfinished rewind. Nothing is deleted. What it undid stays marked as undone, so if the same node runs again, it
 * does that again with another key.
 *
 * @throws {TurnsError} REWIND_NOT_FOUND; REWIND_CONFLICT if it isn't unfinished; THREAD_RUNNING while somebody is doing it;
 *   EFFECT_IN_DOUBT while nobody knows whether one of its undos ran
 */
export async function abandonRewind(parts: Pick<RewindParts, "store" | "isAlive">, rewindId: string): Promise<void> {
  await parts.store.abandonRewind(rewindId, (rewind, found) => {
    if (rewind.status !== "undoing") throw notUnfinished(rewind);
    refuseWhileRunning(rewind.threadId, found.runs.filter(parts.isAlive));
    const doubtful = found.effects.find((row) => row.undoStatus === "begun");
    if (doubtful !== undefined) throw undoInDoubt(doubtful);
    return notLeft(found.runs);
  });
}

/**
 * Restores what a rewind removed. Undone effects stay undone; a rewind that undid any is taken back only with `despiteUndone`,
 * and they are marked as undone.
 *
 * @throws {TurnsError} REWIND_NOT_FOUND, REWIND_CONFLICT, REWIND_UNFINISHED, THREAD_RUNNING
 */
export async function takeBackRewind(
  parts: Pick<RewindParts, "store" | "isAlive" | "now">,
  rewindId: string,
  despiteUndone = false,
): Promise<TakeBackReport> {
  let threadId = "";
  const restored = await parts.store.takeBack(rewindId, parts.now(), (rewind, found) => {
    threadId = rewind.threadId;
    refuseWhileRunning(rewind.threadId, found.runs.filter(parts.isAlive));
    if (found.unfinished !== undefined) throw unfinishedRewind(found.unfinished, `taking back rewind ${rewind.id}`);
    if (found.undone.length > 0 && !despiteUndone) throw undoneMeanwhile(rewind, found.undone);
    return found.runs;
  });
  return { threadId, rewindId, restored };
}
