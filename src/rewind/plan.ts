import { z } from "zod";
import type { Effect } from "../effects/types";
import { describe, TurnsError } from "../errors";
import { idSchema } from "../options";
import { nearestName } from "../unknown-option";
import { type TaskSpan, taskSpans } from "../store/ownership";
import type { RewindCounts, RunRow, TaskRow } from "../store/store";

export { lostIn } from "../store/salvage";

/** Which thread to rewind, and the task to rewind it to. */
export interface RewindRequest {
  threadId: string;
  /** The task to rewind to. It stays as it was when it finished; everything after it is removed. */
  toTask: string;
  /** Your own ordered list of tasks. If given, the rewind is refused if the stored order contradicts it. */
  tasks?: readonly string[];
  /** Only reports what would be removed. */
  dryRun?: boolean;
  /** Keeps what is removed, so that you can inspect the rewind and take it back. Default true. */
  archive?: boolean;
  /** Rewinds although some effects have no undo. They are left as they are, and the report names them. */
  allowUncompensated?: boolean;
}

/** A rewind to the place where a checkpoint was saved, rather than to the end of a task. */
export interface CheckpointRewindRequest extends Pick<RewindRequest, "threadId" | "archive" | "allowUncompensated"> {
  /** Default: that of the outermost graph. */
  checkpointNs?: string;
  checkpointId: string;
  /** The reason, for the record. A limit on such rewinds counts them by it. */
  reason: string;
}

/** Names the unfinished rewind to finish by its thread: a thread has at most one. */
export type FinishRequest = Pick<RewindRequest, "threadId" | "allowUncompensated">;

/** What a rewind removed and undid or, for a dry run, would remove and undo. `String(report)` is a few lines for people. */
export interface RewindReport {
  /** Undefined for a dry run, and if there was nothing after the target. */
  rewindId: string | undefined;
  threadId: string;
  toTask: string;
  dryRun: boolean;
  archived: boolean;
  /** Tasks that are removed fully or in part (if a task continued after the target), in the order in which they began there. */
  tasks: readonly string[];
  /** Rows that are removed, by kind. */
  removed: RewindCounts;
  effects: RewindEffects;
  /** What was deleted, the undos in their order, and how to take the rewind back. */
  toString(): string;
}

/** A rewind that was taken back. */
export interface TakeBackReport {
  threadId: string;
  rewindId: string;
  /** Rows that were restored, by kind. */
  restored: RewindCounts;
}

export interface RewindPlan {
  /** Everything with a greater seq is removed. Infinity: the target is the newest task. */
  targetSeq: number;
  /** The task that contains the target. */
  toTask: string;
  tasks: readonly string[];
}

const isList = (value: unknown): boolean => Array.isArray(value) && value.every((item) => typeof item === "string");

export const requestSchema = () =>
  z.strictObject({
    threadId: idSchema,
    toTask: idSchema,
    tasks: z.custom<readonly string[]>(isList, "must be an array of strings").optional(),
    dryRun: z.boolean().optional(),
    archive: z.boolean().optional(),
    allowUncompensated: z.boolean().optional(),
  });

export const checkpointSchema = () =>
  requestSchema()
    .pick({ threadId: true, archive: true, allowUncompensated: true })
    .extend({ checkpointNs: z.string().optional(), checkpointId: idSchema, reason: idSchema });
export const reportSchema = () => requestSchema().pick({ threadId: true, toTask: true });
export const finishSchema = () => requestSchema().pick({ threadId: true, allowUncompensated: true });

/**
 * The task that contains a point, and the tasks that lose something: those that began after it, and the one that is cut.
 *
 * @throws {TurnsError} UNKNOWN_TASK if the thread had not begun by then, or doesn't exist
 */
export function planToPoint(threadId: string, targetSeq: number, intervals: readonly TaskRow[]): RewindPlan {
  const cut = intervals.findLast((interval) => interval.seq <= targetSeq);
  if (cut === undefined) throw beforeBeginning(threadId, targetSeq);
  const behind = intervals.filter((interval) => interval.seq > targetSeq);
  const going = targetSeq === Infinity || behind[0]?.seq === targetSeq + 1 ? behind : [cut, ...behind];
  return { targetSeq, toTask: cut.taskId, tasks: [...new Set(going.map((interval) => interval.taskId))] };
}

/**
 * Finds the point after which everything is removed: the end of the target task, which is where the next task began.
 *
 * @throws {TurnsError} UNKNOWN_TASK, STATE_INVARIANT_VIOLATED if the caller's list contradicts the stored order
 */
export function planRewind(request: RewindRequest, intervals: readonly TaskRow[]): RewindPlan {
  const spans = taskSpans(intervals);
  const target = spans.find((span) => span.taskId === request.toTask);
  if (target === undefined)
    throw unknownTask(
      request,
      undefined,
      spans.map(({ taskId }) => taskId),
    );
  const goes = [...new Set(intervals.filter((interval) => interval.seq > target.endSeq).map((interval) => interval.taskId))];
  if (request.tasks !== undefined) checkAgainstList(request, request.tasks, { spans, goes });
  return { targetSeq: target.endSeq, toTask: request.toTask, tasks: goes };
}

/** Tasks that the thread doesn't know are ignored. */
function checkAgainstList(
  request: RewindRequest,
  listed: readonly string[],
  stored: { spans: readonly TaskSpan[]; goes: readonly string[] },
): void {
  const position = listed.lastIndexOf(request.toTask);
  if (position === -1)
    throw unknownTask(
      request,
      listed,
      stored.spans.map(({ taskId }) => taskId),
    );
  const goes = new Set(stored.goes);
  const stays = new Set(stored.spans.map((span) => span.taskId).filter((taskId) => !goes.has(taskId)));
  const late = listed.slice(0, position).find((taskId) => goes.has(taskId));
  if (late !== undefined) throw contradiction(request, late, { listed: "before", ran: "after" });
  const early = listed.slice(position + 1).find((taskId) => stays.has(taskId));
  if (early !== undefined) throw contradiction(request, early, { listed: "after", ran: "before" });
}

const contradiction = (request: RewindRequest, task: string, sides: { listed: string; ran: string }): TurnsError =>
  new TurnsError("STATE_INVARIANT_VIOLATED", {
    problem: `Thread ${describe(request.threadId)} can't be rewound to task ${describe(request.toTask)}: task ${describe(task)} ran ${sides.ran} the target, and is listed ${sides.listed} it.`,
    remedy: "Pass the tasks in the order in which they ran, or leave the list out. Nothing was deleted.",
    data: { threadId: request.threadId, toTask: request.toTask, task },
  });

/** How many tasks a message names. */
const NAMED = 5;

/** @param listed the caller's list, if that lacks the task */
function unknownTask(
  { threadId, toTask }: RewindRequest,
  listed: readonly string[] | undefined,
  tasks: readonly string[],
): TurnsError {
  const known = listed ?? tasks;
  const named = known.slice(0, NAMED).map((task) => describe(task));
  const more = known.length > NAMED ? ` and ${known.length - NAMED} more` : "";
  const nearest = nearestName(toTask, known);
  return new TurnsError("UNKNOWN_TASK", {
    problem: `Thread ${describe(threadId)} can't be rewound to task ${describe(toTask)}, which is not one of ${listed === undefined ? "its" : "the"} ${known.length} tasks${listed === undefined ? "" : " in the list"}.`,
    remedy:
      (nearest === undefined ? "" : `Did you mean ${describe(nearest)}? `) +
      (known.length === 0 ? "" : `${listed === undefined ? "Its tasks" : "The list"}: ${named.join(", ")}${more}`) +
      (listed === undefined && more !== "" ? `; saver.turns.tasks(${JSON.stringify(threadId)}) lists them all` : "") +
      `${known.length === 0 ? "" : ". "}Nothing was deleted.`,
    data: { threadId, toTask, tasks },
  });
}

const beforeBeginning = (threadId: string, targetSeq: number): TurnsError =>
  new TurnsError("UNKNOWN_TASK", {
    problem: `Thread ${describe(threadId)} can't be rewound to seq ${targetSeq}, which is before its first task.`,
    remedy: "saver.turns.tasks(threadId) shows where its tasks begin. Nothing was deleted.",
    data: { threadId, targetSeq },
  });

/** @throws {TurnsError} CHECKPOINT_NOT_FOUND */
export function pointOf(request: CheckpointRewindRequest, seq: number | undefined): number {
  if (seq !== undefined) return seq;
  const { threadId, checkpointNs = "", checkpointId } = request;
  throw new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `Thread ${describe(threadId)} can't be rewound to checkpoint ${describe(checkpointId)}, which isn't there.`,
    remedy: `It was pruned or rewound, or it was never saved (durability "exit"). saver.list(${JSON.stringify({ configurable: { thread_id: threadId } })}) lists the checkpoints there are. Nothing was deleted.`,
    data: { threadId, checkpointNs, checkpointId },
  });
}

/** @throws {TurnsError} THREAD_RUNNING */
export function refuseWhileRunning(threadId: string, alive: readonly RunRow[]): void {
  if (alive[0] !== undefined) throw threadRunning({ ...alive[0], threadId });
}

/** @param leftBehind how many nodes are still running in a run whose caller already has its answer, or has left */
export function threadRunning(run: RunRow, leftBehind = 0): TurnsError {
  const { threadId, pid, host, startedAt } = run;
  const nodes = leftBehind === 1 ? "1 node" : `${leftBehind} nodes`;
  const left = leftBehind === 0 ? "" : `, which nobody waits for any more, and ${nodes} of it still working`;
  return new TurnsError("THREAD_RUNNING", {
    problem: `Thread ${describe(threadId)} is running in process ${pid} on ${host} since ${startedAt}${left}.`,
    remedy: `Wait for ${leftBehind === 0 ? "the run" : nodes} to end, or stop ${leftBehind > 1 ? "them" : "it"}, and try again. Nothing was changed.`,
    data: { threadId, pid, host, startedAt: new Date(startedAt), ...(leftBehind === 0 ? {} : { leftBehind }) },
  });
}

/**
 * What a rewind does with an effect after its target.
 * - `undo`: its undo is called
 * - `done-already`: it has been undone before
 * - `none-needed`: it declares that it needs no undo
 * - `failed`: it didn't happen
 * - `inherited`: its thread is a copy, and the side effect belongs to the source
 * - `missing`: it has no undo; `unregistered`: this process hasn't defined it, so its undo is unknown
 * - `ambiguous`: this process has defined it several times, and doesn't know whose undo is the right one
 * - `in-doubt`: nobody knows whether it happened, and its undo isn't for such effects
 * - `undo-in-doubt`: its undo was called with an unknown outcome, has no probe, and can't be called again
 * - `running`: somebody is performing it now
 */
export type UndoVerdict =
  | "undo"
  | "done-already"
  | "none-needed"
  | "failed"
  | "inherited"
  | "missing"
  | "unregistered"
  | "ambiguous"
  | "in-doubt"
  | "undo-in-doubt"
  | "running";

/** An effect after the target of a rewind. */
export interface EffectSummary extends Pick<Effect, "id" | "name" | "label" | "taskId" | "status" | "undo"> {
  nodeName: string;
  verdict: UndoVerdict;
}

/** What would happen to the effects after a task if you rewound the thread to it. */
export interface CompensationReport {
  threadId: string;
  toTask: string;
  /** Whether a rewind could undo everything. */
  covered: boolean;
  /** The share of the effects that happened, or may have happened, that would be handled; 1 if there are none. */
  coverage: number;
  /** In the order in which they are undone: newest first. */
  effects: readonly EffectSummary[];
}

/** What a rewind did with the effects after its target (a dry run: would do), newest first. */
export interface RewindEffects {
  undone: readonly EffectSummary[];
  /** Undone before: by an earlier call of this rewind, or by one that was abandoned or taken back. */
  undoneBefore: readonly EffectSummary[];
  /** Left as they are, because of `allowUncompensated`. */
  withoutUndo: readonly EffectSummary[];
  /** They need no undo, or didn't happen. */
  needNone: readonly EffectSummary[];
  /** Done for the thread that this one was copied from. */
  inherited: readonly EffectSummary[];
}

/** For modules that refuse it without access to the store. */
export { unfinishedRewind } from "../store/refusals";
