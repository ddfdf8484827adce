import type { CommitName } from "../../failpoints";
import type { EncryptionOption } from "../../sealing";
import type { Logger } from "../../logger";
import type { Engine } from "../engine";
import type { Awaitable, RunRow, Store, When } from "../store";
import { isWithin, namespaceAbove } from "../namespaces";
import { backUp } from "./backup";
import { getCheckpoint, hydrate, listCheckpoints, placeOf } from "../ops/read-checkpoints";
import { lastRun } from "../ops/last-run";
import { putCheckpoint } from "../ops/put-checkpoint";
import { Commits, LogWatch, lookedAt, SqliteEngine, SqliteSession } from "./engine";
import { type ConnectionOptions, openFile, takeOver } from "./connection";
import { detailsOf } from "./commit-failpoints";
import { CommitQueue, type Operation } from "../commit-queue";
import { unlockDatabase } from "./unlock-file";
import { copyThread } from "./copy-in-pieces";
import { deltaHistory } from "../ops/delta";
import type { DatabaseHandle, SqliteDatabase } from "./driver";
import { beginEffect, effectsBehind, getEffect, listEffects, retryEffect, settleEffect, settleUndo } from "../ops/effects";
import { graphsOfTurns } from "../ops/graphs";

import { hasLeftovers, removeLeftovers } from "../ops/leftovers";
import { listNames, nameCheckpoint, unnameCheckpoint } from "../ops/names";
import { deleteIdleThread, idleThread, pruneBatch, prunePlan, threadsOfRuns } from "../ops/prune";
import { pagesToSweep, sweepBatch, sweepPlan, unswept } from "../ops/prune-sweep";
import { countRewinds, publicRewind, rewindsOf, unfinishedRewind } from "../ops/rewind-records";
import { abandonRewind, beginRewind, countBehind, prunedSeq, rewind, seqBeforeDeeds, takeBack } from "../ops/rewinds";
import { beatRun, beginRun, endRun } from "../ops/runs";
import { listRuns, checkLease, deletionOf, foundBy, removeTombstone } from "../ops/thread-rows";
import type { Program } from "../program";
import type { Session } from "../session";
import { listTasks } from "../ops/tasks";
import { readChunks } from "../ops/values";
import { deleteThread, getThread, listThreads } from "../ops/threads";
import { addTokens, tokenUsage } from "../ops/tokens";
import { insertAction, insertThought } from "../ops/turns";
import { knownNodeTasks, listTurns, openThoughts, saveValidation } from "../ops/read-turns";
import { checkpointLog, giveBackPages, spaceOf, vacuumFully } from "./vacuum";
import { putWrites } from "../ops/put-writes";

export type { DatabaseHandle, NodeSqliteDatabase, NodeSqliteStatement, SqliteDatabase } from "./driver";
export { type DriverName, DRIVERS } from "./open-database";
export { SqliteTurnLog } from "./turn-log";

export interface SqliteStoreOptions extends ConnectionOptions {
  /** How long a save waits (asynchronously) for a lock that another process holds, in milliseconds. */
  busyTimeoutMs: number;
  encryption?: EncryptionOption;
  logger?: Logger;
}

/** A wrapper that tests put around a store and its engine. */
export interface StoreWrapper {
  engine: (engine: Engine) => Engine;
  store: (store: Store) => Store;
}

let wrapper: StoreWrapper | undefined;

/** For tests: wraps every store opened from now on, so that nothing above it can rely on how SQLite answers. */
export function setStoreWrapper(wrap: StoreWrapper | undefined): void {
  wrapper = wrap;
}

/** Opens a file, or takes over an open handle, as a {@link Store}. If its keys take time, the store waits for them. */
export function openSqliteStore(source: string | DatabaseHandle, options: SqliteStoreOptions): Store {
  const db = typeof source === "string" ? openFile(source, options) : takeOver(source, options);
  const rolledBack = (): void => {
    engine.rolledBack();
  };
  const commits = new Commits(db, options.busyTimeoutMs, rolledBack, new LogWatch(db, options.logger));
  const engine = new SqliteEngine(db, commits, typeof source !== "string");
  const session = new SqliteSession(engine, undefined, wrapper?.engine(engine));
  try {
    const opening = unlockDatabase(session, options.encryption);
    if (opening !== undefined) commits.holdUntil(opening);
  } catch (error) {
    if (typeof source === "string") db.close();
    throw error;
  }
  const store = storeOn(db, session, commits, (path) => openSqliteStore(path, options));
  return wrapper?.store(store) ?? store;
}

function storeOn(db: SqliteDatabase, session: SqliteSession, commits: Commits, openCopy: (path: string) => Store): Store {
  const queue = new CommitQueue(session);
  type Work<A extends unknown[], T> = (session: Session, ...args: A) => Program<T>;
  const operation = <A extends unknown[], T>(work: Work<A, T>, name?: CommitName): Operation<A, T> => ({
    program: work,
    name,
    // Outcomes and marks identify their effect by its id.
    details: (...[subject]) => detailsOf(typeof subject === "string" ? effectToTell(session, subject) : subject),
  });
  /** Commits before it returns, with everything that was handed in before. */
  const write = <A extends unknown[], T>(work: Work<A, T>, name?: CommitName): ((...args: A) => Awaitable<T>) => {
    const request = operation(work, name);
    return (...args) => queue.now(request, ...args);
  };
  /** For saves that nodes or LangGraph wait for. LangGraph hands in more before the macrotask is over. */
  const save = <A, T>(work: Work<[A], T>, name?: CommitName, more?: Partial<Operation<[A], T>>) => {
    const request = { ...operation(work, name), isLight: true, ...more };
    return (subject: A, when: When = "now"): Awaitable<T> =>
      when === "boundary" ? queue.later(request, subject) : queue.now(request, subject);
  };
  /** For saves of LangGraph: the turns that are saved with them may fail without them. */
  const hasParts = { hasParts: true, saves: (saved: { threadId: string; ns: string }) => saved };
  /** Doesn't wait for the disk: after a power cut no run is running. */
  const mark = <A extends unknown[], T>(work: Work<A, T>, name?: CommitName): ((...args: A) => Awaitable<T>) => {
    const request = operation(work, name);
    return (...args) => queue.unsynced(request, ...args);
  };
  /** For work outside of any transaction, after what was handed in before. */
  const alone = <T>(work: () => T): Awaitable<T> => queue.behind(() => commits.alone(work));
  /** {@link alone} for work that changes the file or moves its log. */
  const upkeep = <T>(work: () => T): Awaitable<T> => queue.behind(() => commits.upkeep(work));
  const read =
    <A extends unknown[], T>(work: Work<A, T>) =>
    (...args: A) =>
      queue.read((on) => work(on, ...args));
  const tokens = { ...operation(addTokens, "tokens"), isLight: true };
  const lease = { ...operation(checkLease), isLight: true };
  return {
    address: (threadId, text) => session.sealing.address(threadId, text),
    get awaitsKeys() {
      return !session.isUnlocked;
    },
    putCheckpoint: save(putCheckpoint, "checkpoint", hasParts),
    putWrites: save(putWrites, "writes", hasParts),
    getCheckpoint: read(getCheckpoint),
    lastRun: read(lastRun),
    listCheckpoints: read(listCheckpoints),
    placeOf: read(placeOf),
    hydrate: read(hydrate),
    deltaHistory: read(deltaHistory),
    readChunks: read(readChunks),
    saveThought: save(insertThought, "thought", {
      needs: (saved, { threadId, nodeNs, needsSaves }) =>
        needsSaves && saved.threadId === threadId && isWithin(namespaceAbove(nodeNs), saved.ns),
    }),
    saveAction: save(insertAction, "action"),
    addTokens: (of, added) => queue.later(tokens, of, added),
    tokenUsage: read(tokenUsage),
    listTurns: read(listTurns),
    saveValidation: write(saveValidation),
    graphsOfTurns: read(graphsOfTurns),
    openThoughts: read(openThoughts),
    knownNodeTasks: read(knownNodeTasks),
    beginEffect: write(beginEffect, "effect-intent"),
    retryEffect: write(retryEffect, "effect-intent"),
    settleEffect: write(settleEffect, "effect-outcome"),
    settleUndo: write(settleUndo, "undo-mark"),
    getEffect: read(getEffect),
    listEffects: read(listEffects),
    effectsBehind: read(effectsBehind),
    listTasks: read(listTasks),
    listThreads: read(listThreads),
    getThread: read(getThread),
    deleteThread: write(deleteThread),
    // Called before something is removed: a file that was cut is refused, not read.
    hasLeftovers: (isAlive) => upkeep(() => session.now(session.transaction(hasLeftovers(session, isAlive)))),
    removeLeftovers: write((_, isAlive: (run: RunRow) => boolean) => removeLeftovers(session, isAlive)),
    deletionOf: read(deletionOf),
    foundBy: read(foundBy),
    reuseThread: write(removeTombstone),
    copyThread: (order) =>
      copyThread(
        {
          db,
          session,
          write: (work) => queue.now({ program: () => atOnce(work) }),
          writeUnsynced: (work) => queue.unsynced({ program: () => atOnce(work) }),
          inTurn: (work) => upkeep(work),
        },
        order,
      ),
    prunePlan: read(prunePlan),
    pruneBatch: write(pruneBatch, "prune"),
    sweepPlan: read(sweepPlan),
    unswept: read(unswept),
    pagesToSweep: read(pagesToSweep),
    sweepBatch: write(sweepBatch),
    idleThread: read(idleThread),
    deleteIdleThread: write(deleteIdleThread),
    threadsOfRuns: read(threadsOfRuns),
    nameCheckpoint: write(nameCheckpoint),
    listNames: read(listNames),
    unnameCheckpoint: write(unnameCheckpoint),
    space: () => alone(() => spaceOf(db)),
    giveBackPages: (pages) => queue.now({ program: () => atOnce(() => giveBackPages(db, pages)) }),
    checkpointLog: (truncate) => upkeep(() => checkpointLog(db, truncate)),
    vacuumFully: () => upkeep(() => vacuumFully(db)),
    beginRun: mark(beginRun, "run-mark"),
    beatRun: mark(beatRun),
    checkLease: (held, when = "now") =>
      when === "boundary" ? queue.later(lease, held) : queue.read((on) => checkLease(on, held)),
    endRun: mark(endRun),
    listRuns: read(listRuns),
    countBehind: read(countBehind),
    prunedSeq: read(prunedSeq),
    rewind: write(rewind, "rewind"),
    beginRewind: write(beginRewind, "rewind-intent"),
    abandonRewind: write(abandonRewind),
    unfinishedRewind: read(function* (on, threadId: string) {
      const found = yield* unfinishedRewind(on, threadId);
      return found && publicRewind(found);
    }),
    listRewinds: read(rewindsOf),
    countRewinds: read(countRewinds),
    seqBeforeDeeds: read(seqBeforeDeeds),
    takeBack: write(takeBack, "take-back"),
    // Few processes rotate keys or verify, so that code is loaded on demand.
    reseal: async (after) => write((await import("../ops/rotate")).reseal)(after),
    retireKeys: async () => write((await import("../ops/rotate")).retireKeys)(),
    startVerify: async (threadId, isGraph) => {
      const { startVerify } = await import("./verify");
      const step = await read(startVerify)(threadId, isGraph);
      return { step: () => alone(() => lookedAt(session, step)) };
    },
    backUp: (order) => backUp({ db, openCopy, inTurn: (work) => upkeep(work) }, order),
    committed: () => queue.behind(() => undefined),
    close: () => {
      void queue.commit();
      commits.close();
    },
    get open() {
      return db.open;
    },
  };
}

/** For work that runs its own programs. */
// eslint-disable-next-line require-yield -- it yields nothing by itself
function* atOnce<T>(work: () => T): Program<T> {
  return work();
}

/** The effect as a failpoint shows it. Only the failpoint's handler may fail here. It may run within a transaction. */
function effectToTell(session: SqliteSession, id: string): unknown {
  try {
    return session.now(getEffect(session, id));
  } catch {
    return undefined;
  }
}
