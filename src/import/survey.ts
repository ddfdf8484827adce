import type { TurnSaver } from "../saver";
import { TurnsError } from "../errors";
import type { OfficialSource } from "../store/official-source";
import { differenceOf, tasksToWrite, writesAdded } from "./differences";
import { officialTuple } from "./official-tuple";
import { type Hold, breathe, keysOf } from "./pace";

/** A checkpoint that is left out, and why. */
export interface SkippedCheckpoint {
  checkpointNs: string;
  checkpointId: string;
  why: string;
}

/**
 * What the target has of a thread. `absent`: nothing. `begun`: the source's first checkpoints and no other. `whole`: all of them, and
 * perhaps more that came later. `foreign`: anything else.
 */
export type Standing = "absent" | "begun" | "whole" | "foreign";

export interface Survey {
  standing: Standing;
  checkpoints: number;
  writes: number;
  skipped: readonly SkippedCheckpoint[];
}

/** What the steps of one thread's import share. */
export interface ThreadImport {
  saver: TurnSaver;
  source: OfficialSource;
  threadId: string;
  /** What the thread is called in the target. */
  targetId: string;
  onUnreadable: "stop" | "skip";
  signal: AbortSignal | undefined;
  hold: Hold;
}

/**
 * Reads all of a thread before anything is written, so that an unreadable checkpoint stops the import in time, and finds out how far an
 * earlier import came.
 *
 * The progress is nowhere but in the target. Checkpoints are put in the order of their ids, each in one transaction, so what a
 * killed import leaves is the thread's beginning: its first checkpoints, equal to the source's, the last perhaps without all of its
 * writes. A note of our own beside them could be wrong; the comparison cannot, and it also finds a thread that is complete already.
 *
 * @throws {TurnsError} CHECKPOINT_UNREADABLE unless such checkpoints are to be skipped
 */
export async function survey(job: ThreadImport): Promise<Survey> {
  const { saver, threadId, targetId } = job;
  const skipped: SkippedCheckpoint[] = [];
  const exists = await isInUse(saver, targetId);
  let checkpoints = 0;
  let writes = 0;
  let present = 0;
  let gap = false;
  let differs = false;
  let wentOn = false;
  let lacksWrites = false;
  for (const key of keysOf(job.source, threadId)) {
    await breathe(job.signal);
    await job.hold.renew();
    const wanted = readOrSkip(job, key, skipped);
    if (wanted === undefined) continue;
    checkpoints += 1;
    writes += wanted.writes.length;
    const found = exists ? await tupleOf(saver, targetId, key) : undefined;
    if (found === undefined) gap = true;
    else {
      present += 1;
      if (gap || differenceOf(wanted, found) !== undefined) differs = true;
      if (writesAdded(wanted, found)) wentOn = true;
      if (tasksToWrite(wanted, found).size > 0) lacksWrites = true;
    }
  }
  const counts = { checkpoints, writes, skipped };
  if (!exists) return { standing: "absent", ...counts };
  if (differs || present === 0) return { standing: "foreign", ...counts };
  if (!wentOn && (await countInTarget(job)) > present) wentOn = true;
  if (present === checkpoints && (wentOn || !lacksWrites)) return { standing: "whole", ...counts };
  return { standing: wentOn ? "foreign" : "begun", ...counts };
}

/** Undefined for a checkpoint that is left out. */
export function readOrSkip(
  job: ThreadImport,
  key: { ns: string; checkpointId: string },
  skipped: SkippedCheckpoint[],
): ReturnType<typeof officialTuple> {
  try {
    return officialTuple(job.source, job.threadId, key);
  } catch (error) {
    if (job.onUnreadable === "stop" || !TurnsError.is(error, "CHECKPOINT_UNREADABLE")) throw error;
    skipped.push({ checkpointNs: key.ns, checkpointId: key.checkpointId, why: String(error.data["why"]) });
    return undefined;
  }
}

export async function tupleOf(saver: TurnSaver, threadId: string, key: { ns: string; checkpointId: string }) {
  return saver.getTuple({
    configurable: { thread_id: threadId, checkpoint_ns: key.ns, checkpoint_id: key.checkpointId },
  });
}

/** Every save opens a task, so a thread without tasks has nothing at all. */
async function isInUse(saver: TurnSaver, threadId: string): Promise<boolean> {
  return (await saver.listTasks(threadId)).length > 0;
}

async function countInTarget({ saver, targetId, signal, hold }: ThreadImport): Promise<number> {
  let count = 0;
  for await (const _ of saver.list({ configurable: { thread_id: targetId } })) {
    count += 1;
    await breathe(signal);
    await hold.renew();
  }
  return count;
}
