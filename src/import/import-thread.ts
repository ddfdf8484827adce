import { internalsOf } from "../internals";
import { type Checkpoint, type PendingWrite, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { TurnsError } from "../errors";
import { importing } from "../run-config";
import type { TurnSaver } from "../saver";
import type { OfficialKey, OfficialSource } from "../store/official-source";
import { uptime } from "../system";
import { differenceOf, type OfficialTuple, officialTuple, tasksToWrite, writesAdded, writesDiffer } from "./official-tuple";
import { aborted, mismatch, notSaved, threadExists } from "./failures";
import { othersFirst } from "../timers";

const ERROR_SOURCE_NODE = "__error_source_node__";

export interface ImportedThread {
  /** Its id in the source. */
  threadId: string;
  /** Its id in the target: the same, unless `mapThreadId` gave another one. */
  targetId: string;
  /**
   * `imported`: imported completely. `completed`: an earlier import was interrupted in this thread; this one added the rest.
   * `present`: an earlier import had imported it; nothing was written. `skipped`: the target has another thread of that id
   * (`existing: "skip"`).
   */
  outcome: "imported" | "completed" | "present" | "skipped";
  why?: string;
  /** How many of the source's checkpoints (all namespaces) and of their pending writes are in the target. */
  checkpoints: number;
  writes: number;
  /** Checkpoints that were left out (`onUnreadable: "skip"`). */
  skipped: readonly SkippedCheckpoint[];
  /** Writes in the source that belong to no checkpoint. No saver can read them, and they were left out. */
  orphanedWrites: number;
  /** Whether every checkpoint was read from both sides and compared. */
  verified: boolean;
}

/**
 * Imports one thread. When it returns or throws, the target has the whole thread or nothing of it. Only a killed process leaves a
 * part, which the next import completes.
 *
 * @throws {TurnsError} THREAD_EXISTS, CHECKPOINT_UNREADABLE (nothing written); IMPORT_MISMATCH for a failed verification,
 *   IMPORT_ABORTED, and what the saver throws (removed again)
 */
export async function importThread(
  job: ThreadImport,
  options: { existing: "refuse" | "skip"; verify: boolean },
): Promise<ImportedThread> {
  const { threadId, targetId } = job;
  const { standing, ...counts } = await survey(job);
  const report = { threadId, targetId, ...counts, orphanedWrites: await job.source.orphans(threadId) };
  if (standing === "foreign") {
    if (options.existing === "refuse") throw threadExists(targetId);
    const why = "the target has another thread of that id";
    return { ...report, outcome: "skipped", why, checkpoints: 0, writes: 0, verified: false };
  }
  if (standing === "whole") return { ...report, outcome: "present", verified: true };
  try {
    await write(job);
    if (options.verify) await verify(job);
  } catch (error) {
    // What an earlier import wrote stays for the next one to complete, unless it is proven wrong. If the removal fails too, the
    // thread stays here.
    const wrong = TurnsError.is(error, "IMPORT_MISMATCH");
    if ((standing === "absent" && !TurnsError.is(error, "THREAD_DELETED")) || wrong) {
      // A thread that was never complete leaves no tombstone: the next import may write it.
      const removed = job.saver.deleteThread(targetId).then(() => job.saver.retention.reuseThread(targetId));
      await removed.catch(() => undefined);
    }
    throw error;
  }
  return { ...report, outcome: standing === "begun" ? "completed" : "imported", verified: options.verify };
}

/** Oldest first: a checkpoint's parent is there before it, and the thread's head comes last. */
async function write(job: ThreadImport): Promise<void> {
  const { saver, targetId } = job;
  // A saver with onCheckpointError "continue" acknowledges a save that failed; the event tells the truth.
  let failed: { error: unknown } | undefined;
  const listener = (failure: { threadId: string; error: unknown }): void => {
    if (failure.threadId === targetId) failed ??= failure;
  };
  saver.events.on("checkpoint_failed", listener);
  try {
    for await (const wanted of eachTuple(job)) {
      await writeOne(job, wanted);
      if (failed !== undefined) throw notSaved(targetId, failed.error);
    }
  } finally {
    saver.events.off("checkpoint_failed", listener);
  }
}

async function writeOne({ saver, targetId }: ThreadImport, wanted: OfficialTuple): Promise<void> {
  const { ns, checkpointId, parentId, checkpoint, metadata } = wanted;
  const at = { thread_id: targetId, checkpoint_ns: ns };
  const savedAt = timeOf(checkpoint);
  const found = await tupleOf(saver, targetId, wanted);
  if (found === undefined) {
    await saver.put(importing({ ...at, checkpoint_id: parentId }, savedAt), checkpoint, metadata);
  }
  for (const [taskId, writes] of tasksToWrite(wanted, found)) {
    for (const call of asCalls(writes))
      await saver.putWrites(importing({ ...at, checkpoint_id: checkpointId }, savedAt), call, taskId);
  }
}

/** A checkpoint's own time; where it has none, now. */
function timeOf({ ts }: Checkpoint): string {
  const time = Date.parse(ts);
  return new Date(Number.isNaN(time) ? Date.now() : time).toISOString();
}

/**
 * Splits one task's writes into calls, in the order in which LangGraph sent them: an interrupt or an error first, then the
 * results of a later attempt. In one call with an error, the saver would take the results for leftovers of the failure
 * (`writesToKeep`). An error that a handler takes over is the exception: there, both were one call.
 */
function asCalls(writes: PendingWrite[]): PendingWrite[][] {
  if (writes.some(([channel]) => channel === ERROR_SOURCE_NODE)) return [writes];
  const special = writes.filter(([channel]) => Object.hasOwn(WRITES_IDX_MAP, channel));
  const regular = writes.filter((write) => !special.includes(write));
  return [special, regular].filter((call) => call.length > 0);
}

async function verify(job: ThreadImport): Promise<void> {
  for await (const wanted of eachTuple(job)) {
    const found = await tupleOf(job.saver, job.targetId, wanted);
    if (found === undefined) throw mismatch(job.targetId, wanted, "the whole");
    const difference = differenceOf(wanted, found) ?? writesDiffer(wanted, found);
    if (difference !== undefined) throw mismatch(job.targetId, wanted, difference.part, difference.channel);
  }
}

export interface SkippedCheckpoint {
  checkpointNs: string;
  checkpointId: string;
  why: string;
}

/**
 * What the target has of a thread. `absent`: nothing. `begun`: the source's first checkpoints and no other. `whole`: all of them,
 * and perhaps later ones. `foreign`: anything else.
 */
type Standing = "absent" | "begun" | "whole" | "foreign";

interface Survey extends Pick<ImportedThread, "checkpoints" | "writes" | "skipped"> {
  standing: Standing;
}

interface ThreadImport {
  saver: TurnSaver;
  source: OfficialSource;
  threadId: string;
  targetId: string;
  onUnreadable: "stop" | "skip";
  signal: AbortSignal | undefined;
  hold: Hold;
}

/**
 * Reads the whole thread before anything is written, so that an unreadable checkpoint stops the import in time. It also finds out
 * how far an earlier import came. Checkpoints are imported in the order of their ids, so a killed import leaves the first ones,
 * equal to the source's. The last of them may lack some of its writes.
 *
 * @throws {TurnsError} CHECKPOINT_UNREADABLE unless such checkpoints are to be skipped
 */
async function survey(job: ThreadImport): Promise<Survey> {
  const { saver, targetId } = job;
  const skipped: SkippedCheckpoint[] = [];
  // Every save opens a task, so a thread without tasks has nothing at all.
  const exists = (await saver.turns.tasks(targetId)).length > 0;
  let checkpoints = 0;
  let writes = 0;
  let present = 0;
  let gap = false;
  let differs = false;
  // What a rewind removed looks as if an interrupted import had not come so far. It must not return.
  let wentOn =
    exists && (await saver.rewinds.list(targetId)).some((one) => one.status === "done" && one.takenBackAt === undefined);
  let lacksWrites = false;
  for await (const wanted of eachTuple(job, skipped)) {
    checkpoints += 1;
    writes += wanted.writes.length;
    const found = exists ? await tupleOf(saver, targetId, wanted) : undefined;
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

/** The source's checkpoints, smallest id first. @param skipped gets those that are left out */
async function* eachTuple(job: ThreadImport, skipped: SkippedCheckpoint[] = []): AsyncGenerator<OfficialTuple> {
  for await (const key of keysOf(job.source, job.threadId)) {
    await othersFirstUnlessAborted(job.signal);
    await job.hold.renew();
    let tuple: OfficialTuple | undefined;
    try {
      tuple = await officialTuple(job.source, job.threadId, key);
    } catch (error) {
      if (job.onUnreadable === "stop" || !TurnsError.is(error, "CHECKPOINT_UNREADABLE")) throw error;
      skipped.push({ checkpointNs: key.ns, checkpointId: key.checkpointId, why: String(error.data["why"]) });
    }
    if (tuple !== undefined) yield tuple;
  }
}

async function tupleOf(saver: TurnSaver, threadId: string, key: OfficialKey) {
  return saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns: key.ns, checkpoint_id: key.checkpointId } });
}

async function countInTarget({ saver, targetId, signal, hold }: ThreadImport): Promise<number> {
  let count = 0;
  for await (const _ of saver.list({ configurable: { thread_id: targetId } })) {
    count += 1;
    await othersFirstUnlessAborted(signal);
    await hold.renew();
  }
  return count;
}

const KEYS_PER_PAGE = 1_000;
/** A mark without commits expires after two seconds (`RunRegistry`). */
const RENEW_AFTER_MS = 1_000;

/**
 * Between two checkpoints.
 * @throws {TurnsError} if the signal was aborted
 */
export async function othersFirstUnlessAborted(signal: AbortSignal | undefined): Promise<void> {
  await othersFirst();
  if (signal?.aborted === true) throw aborted(signal.reason);
}

/** A thread's checkpoints, smallest id first. Only one page of keys is held in memory. */
async function* keysOf(source: OfficialSource, threadId: string): AsyncGenerator<OfficialKey> {
  let after: OfficialKey | undefined;
  for (;;) {
    const page = await source.keys(threadId, after, KEYS_PER_PAGE);
    yield* page;
    after = page.at(-1);
    if (page.length < KEYS_PER_PAGE) return;
  }
}

/**
 * Marks the thread as running in the target while it is imported, so that a `GraphRunner`, a rewind and a second import refuse
 * it, in all processes. The mark of a dead process doesn't count. The target's retention skips a running thread; otherwise it
 * could remove the first checkpoints before the last are there.
 */
export class Hold {
  readonly #letPrune: () => void;
  #since = uptime();

  private constructor(
    private readonly saver: TurnSaver,
    private readonly threadId: string,
    private giveBack: () => Promise<void>,
  ) {
    this.#letPrune = internalsOf(saver).holdRetention(threadId);
  }

  /** @throws {TurnsError} THREAD_RUNNING */
  static async take(saver: TurnSaver, threadId: string): Promise<Hold> {
    return new Hold(saver, threadId, await internalsOf(saver).reserve(threadId));
  }

  /**
   * Renews the mark before it expires.
   * @throws {TurnsError} THREAD_RUNNING if somebody else took the thread first
   */
  async renew(): Promise<void> {
    if (uptime() - this.#since < RENEW_AFTER_MS) return;
    await this.giveBack();
    this.giveBack = async () => undefined;
    this.giveBack = await internalsOf(this.saver).reserve(this.threadId);
    this.#since = uptime();
  }

  async release(): Promise<void> {
    this.#letPrune();
    await this.giveBack();
  }
}
