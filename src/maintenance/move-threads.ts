import { z } from "zod";
import { describe, TurnsError, type TurnsErrorCode } from "../errors";
import { internalsOf, type Internals } from "../internals";
import { checkedOptions, functionSchema } from "../options";
import { verify } from "../integrity/verify";
import { removeLeftovers } from "../retention/space";
import { checkedArgument } from "../run-config";
import type { TurnSaver } from "../saver";
import type { MovedTo } from "../store/moves";
import type { Store } from "../store/store";
import { threadExists } from "../store/move-failures";
import { copyRows, moveRows } from "../store/moving";
import { isAlive } from "../turns/process-identity";
import type { Hold } from "../turns/run-registry";

export interface MoveProgress {
  threadId: string;
  /** The rows are read and written, and then read again in the target. */
  phase: "copying" | "comparing";
  /** How many rows of the thread have passed this phase. */
  rows: number;
}

export interface MoveOptions {
  /** Called after each piece of a thread. An error that it throws stops the move before anything has moved. */
  onProgress?: (progress: MoveProgress) => void;
  /** Allows a move from an encrypted database to one that isn't: everything is stored in plain text there. Default false. */
  allowPlaintext?: boolean;
}

export interface CopyOptions extends MoveOptions {
  /**
   * Whether a rewind of the copy undoes the effects that a rewind of the source would have undone. Only for a source that is gone, or will be:
   * otherwise, both undo them. Default false.
   */
  ownEffects?: boolean;
}

export interface MoveAllOptions extends MoveOptions {
  /** Called when a thread has moved. An error that it throws stops the call. */
  onThread?: (thread: MovedThread) => void;
  /** Stops the call before the next thread. */
  signal?: AbortSignal;
}

export interface MovedThread {
  threadId: string;
  /** The database that it moved to, without any password. */
  to: string;
  /** `moved`: by this call. `finished`: an earlier call had published it, and was interrupted before it had removed the source's rows. */
  outcome: "moved" | "finished";
  /** How many rows were written and compared. */
  rows: number;
}

export interface MoveReport {
  threads: readonly MovedThread[];
  /** Threads that stay where they are, and why: for instance one that is running, or damaged, or whose id is too long for the target. */
  refused: readonly { threadId: string; code: TurnsErrorCode; message: string }[];
  /** False if the signal stopped the call before the last thread. */
  done: boolean;
}

const one = {
  onProgress: functionSchema<(progress: MoveProgress) => void>().optional(),
  allowPlaintext: z.boolean().default(false),
};
const schema = () => z.strictObject(one);
const copySchema = () => z.strictObject({ ...one, ownEffects: z.boolean().default(false) });
const allSchema = () =>
  z.strictObject({
    ...one,
    onThread: functionSchema<(thread: MovedThread) => void>().optional(),
    signal: z.instanceof(AbortSignal).optional(),
  });

/** Reasons to leave a thread where it is and to continue with the others. */
const REFUSALS: readonly TurnsErrorCode[] = [
  "THREAD_RUNNING",
  "REWIND_UNFINISHED",
  "THREAD_EXISTS",
  "THREAD_DELETED",
  "THREAD_MOVED",
  "THREAD_NOT_FOUND",
  "CHECKPOINT_CORRUPTED",
];
/** The target can't store a row of the thread, however often it's tried: an index entry of PostgreSQL, or a value of SQLite, is too large. */
const TOO_LARGE: readonly unknown[] = ["54000", "SQLITE_TOOBIG"];
const THREADS_PER_PAGE = 100;

/**
 * Moves a thread to another database, with everything: checkpoints and their writes, turns, tasks, token sums, effects and their
 * undos, rewinds and their archives, names. Ids stay the same, so a run continues there at exactly the turn where it was. In the
 * source, every access is refused with THREAD_MOVED from then on, which names the target.
 *
 * The two databases may be SQLite files or PostgreSQL schemas, in any combination. If the target is encrypted, everything is sealed
 * with its keys. If the call fails or the process is killed, call it again: it continues. At no time can the thread be written in
 * both, and it can always be read in one of them.
 *
 * @throws {TurnsError} INVALID_OPTION, also if both are the same database; THREAD_NOT_FOUND, THREAD_RUNNING, REWIND_UNFINISHED,
 *   THREAD_EXISTS, THREAD_DELETED if the target has deleted its id, THREAD_MOVED if it went, or is going, somewhere else;
 *   ENCRYPTED if the target would store it in plain text; MOVE_MISMATCH if the target doesn't return what was written; LEASE_LOST
 *   if another process took over the thread; CHECKPOINT_CORRUPTED if the source is damaged or lacks rows; and what the savers throw
 */
export async function moveThread(
  from: TurnSaver,
  to: TurnSaver,
  threadId: string,
  options: MoveOptions = {},
): Promise<MovedThread> {
  const checked = checkedOptions(schema, options);
  const id = checkedArgument(threadId, "threadId", "moveThread");
  return moveOne(saversOf(from, to), id, checked);
}

/**
 * {@link moveThread} for every thread of a database, one after the other. Threads that can't move now are listed in the report, and
 * the others move. If it is interrupted, call it again.
 *
 * @throws {TurnsError} INVALID_OPTION, ENCRYPTED, MOVE_MISMATCH, LEASE_LOST, and what the savers throw.
 *   Threads that were reported have moved.
 */
export async function moveAllThreads(from: TurnSaver, to: TurnSaver, options: MoveAllOptions = {}): Promise<MoveReport> {
  const { onThread, signal, ...rest } = checkedOptions(allSchema, options);
  const savers = saversOf(from, to);
  const threads: MovedThread[] = [];
  const refused: MoveReport["refused"][number][] = [];
  for (let after: string | undefined; ;) {
    const page = await savers.from.store.listThreads({ after, limit: THREADS_PER_PAGE });
    for (const { threadId } of page) {
      if (signal?.aborted === true) return { threads, refused, done: false };
      try {
        const moved = await moveOne(savers, threadId, rest);
        threads.push(moved);
        onThread?.(moved);
      } catch (error) {
        if (!TurnsError.is(error) || !isOfThread(error)) throw error;
        refused.push({ threadId, code: error.code, message: error.message });
      }
    }
    if (page.length < THREADS_PER_PAGE) return { threads, refused, done: true };
    after = page.at(-1)?.threadId;
  }
}

/** Whether an error says something of one thread, and nothing of the databases. */
function isOfThread({ code, data }: TurnsError): boolean {
  return REFUSALS.includes(code) || (code === "STORE_FAILED" && TOO_LARGE.includes(data["sqlstate"] ?? data["sqlite"]));
}

/**
 * Copies a thread to another database, and leaves it where it is: for a thread in a file of its own, and back. The source may be
 * open read-only. The effects belong to the source: only a rewind of it undoes them, unless you pass `ownEffects`.
 *
 * @returns how many rows were written and compared
 * @throws {TurnsError} as {@link moveThread}; THREAD_RUNNING if the thread is saved on again and again meanwhile
 */
export async function copyThreadTo(from: TurnSaver, to: TurnSaver, threadId: string, options: CopyOptions = {}): Promise<number> {
  const { onProgress, allowPlaintext, ownEffects } = checkedOptions(copySchema, options);
  const id = checkedArgument(threadId, "threadId", "copyThreadTo");
  const savers = saversOf(from, to);
  if (savers.from.encrypted && !savers.to.encrypted && !allowPlaintext) throw plaintext(savers.to);
  if ((await savers.from.store.departure(id)) === undefined) throw notFound(savers.from.store.name, id);
  if ((await savers.to.store.destination(id)).thread?.gone === false) throw threadExists(id);
  const kept = [savers.from.keepOpen(), savers.to.keepOpen(), savers.to.holdRetention(id)];
  try {
    return await held(savers.to, id, async ({ lease: there }) => {
      await removeLeftovers(savers.to.store, isAlive);
      const isTranslated = savers.from.encrypted || savers.to.encrypted;
      const { createId } = savers.to;
      const refuseDamage = (): Promise<void> => refuseDamageOf(savers.from.store, id);
      const { from, to } = { from: savers.from.store, to: savers.to.store };
      const inherits = !ownEffects;
      return copyRows({ from, to, there, threadId: id, isTranslated, inherits, onProgress, createId, refuseDamage });
    });
  } finally {
    for (const release of kept) release();
  }
}

interface Savers {
  from: Internals;
  to: Internals;
}

function saversOf(from: TurnSaver, to: TurnSaver): Savers {
  const savers = { from: internalsOf(from), to: internalsOf(to) };
  if (savers.from === savers.to) throw sameDatabase();
  return savers;
}

async function moveOne(
  { from, to }: Savers,
  threadId: string,
  options: z.output<ReturnType<typeof schema>>,
): Promise<MovedThread> {
  if (from.encrypted && !to.encrypted && !options.allowPlaintext) throw plaintext(to);
  if (await isThereAlready(from, to, threadId)) return { threadId, to: to.store.name, outcome: "finished", rows: 0 };
  const kept = [from.keepOpen(), to.keepOpen(), from.holdRetention(threadId), to.holdRetention(threadId)];
  try {
    // What an interrupted move has left there has the same ids.
    return await held(to, threadId, async ({ lease: there }) => {
      if (await from.store.isHeldBy(there)) throw sameDatabase();
      return held(from, threadId, async ({ lease: here, lost }) => {
        await removeLeftovers(to.store, isAlive);
        const { isNew, rows } = await moveRows({
          ...{ from: from.store, to: to.store, here, there, threadId, lost },
          ...{ isTranslated: from.encrypted || to.encrypted, onProgress: options.onProgress },
          ...{ createId: to.createId, now: () => to.clock().toISOString() },
          refuseDamage: () => refuseDamageOf(from.store, threadId),
        });
        await removeLeftovers(from.store, isAlive);
        return { threadId, to: to.store.name, outcome: isNew ? "moved" : "finished", rows };
      });
    });
  } finally {
    for (const release of kept) release();
  }
}

/**
 * The rows of a thread that lacks some are alike on both sides.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
async function refuseDamageOf(store: Store, threadId: string): Promise<void> {
  const { problems, problemCount } = await verify(store, { threadId });
  const [first] = problems;
  if (first === undefined) return;
  const { table, where, expected, found } = first;
  throw new TurnsError("CHECKPOINT_CORRUPTED", {
    problem: `Thread ${describe(threadId)} is damaged, in ${problemCount === 1 ? "one place" : `${problemCount} places`}: in ${table}, ${expected} expected, ${found} found.`,
    remedy: `Nothing was moved. await saver.verify({ threadId: ${JSON.stringify(threadId)} }) lists what is damaged. Rewind to an earlier task, or salvage the database.`,
    data: { threadId, table, where, expected, found, problems: problemCount },
  });
}

async function held<T>(internals: Internals, threadId: string, work: (hold: Hold) => Promise<T>): Promise<T> {
  const hold = await internals.hold(threadId);
  try {
    return await work(hold);
  } finally {
    await hold.release();
  }
}

/**
 * Before anything is marked: what is refused at once.
 * @returns whether an earlier call has finished the move
 * @throws {TurnsError} THREAD_NOT_FOUND, THREAD_MOVED
 */
async function isThereAlready({ store }: Internals, to: Internals, threadId: string): Promise<boolean> {
  const arrived = async (): Promise<string | undefined> => (await to.store.destination(threadId)).thread?.arrived;
  let movedTo: MovedTo | undefined;
  try {
    const found = await store.departure(threadId);
    if (found === undefined) throw notFound(store.name, threadId);
    ({ movedTo } = found);
  } catch (error) {
    if (TurnsError.is(error, "THREAD_MOVED") && error.data["moveId"] === (await arrived())) return true;
    throw error;
  }
  // Databases may have several names. Then the id of the move in the target tells that it's the right one.
  if (movedTo === undefined || movedTo.to === to.store.name || movedTo.id === (await arrived())) return false;
  throw new TurnsError("THREAD_MOVED", {
    problem: `Thread ${describe(threadId)} is being moved to ${movedTo.to}, not to ${to.store.name}.`,
    remedy:
      "Finish that move first: call moveThread with that target. If that database is lost, saver.retention.reuseThread(threadId) gives the move up.",
    data: { threadId, to: movedTo.to, at: movedTo.at, moveId: movedTo.id, gone: false },
  });
}

const notFound = (name: string, threadId: string): TurnsError =>
  new TurnsError("THREAD_NOT_FOUND", {
    problem: `The database ${name} has no thread ${describe(threadId)} to move.`,
    remedy: "saver.listThreads() shows the threads there are.",
    data: { threadId },
  });

const sameDatabase = (): TurnsError =>
  new TurnsError("INVALID_OPTION", {
    problem: "The two savers of a move are on the same database.",
    remedy: "Pass savers on two databases. To give a thread another id, use saver.copyThread.",
  });

const plaintext = (to: Internals): TurnsError =>
  new TurnsError("ENCRYPTED", {
    problem: `The source is encrypted and ${to.store.name} isn't, so everything would be stored in plain text there.`,
    remedy: "Nothing was written. Open the target with the option `encryption`, or pass allowPlaintext: true.",
    data: { option: "allowPlaintext" },
  });
