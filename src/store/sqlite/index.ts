import { refuseUrl } from "../../file-path";
import type { EncryptionOption } from "../../sealing";
import type { Logger } from "../../logger";
import type { Engine } from "../engine";
import type { Awaitable, Store } from "../store";
import { Commits, LogWatch, lookedAt, SqliteEngine, SqliteSession } from "./engine";
import { type ConnectionOptions, openFile, takeOver } from "./connection";
import { CommitQueue } from "../commit-queue";
import { closeFile } from "./opened-file";
import { unlockDatabase } from "./unlock-file";
import type { DatabaseHandle, SqliteDatabase } from "./driver";
import { getEffect } from "../ops/effects";
import { hasLeftovers } from "../ops/leftovers";
import type { Program } from "../program";
import { storeOn } from "../store-on";
import { checkpointLog, giveBackPages, spaceOf, vacuumFully } from "./vacuum";

export type { DatabaseHandle } from "./driver";
export { SqliteTurnLog } from "./turn-log";

interface SqliteStoreOptions extends ConnectionOptions {
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
  refuseUrl("The path of the database", source, "TurnSaver.fromPath");
  const db = typeof source === "string" ? openFile(source, options) : takeOver(source, options);
  const rolledBack = (isInside: boolean): void => {
    engine.rolledBack(isInside);
  };
  const commits = new Commits(db, options.busyTimeoutMs, rolledBack, new LogWatch(db, options.logger));
  const engine = new SqliteEngine(db, commits, typeof source !== "string");
  const session = new SqliteSession(engine, undefined, wrapper?.engine(engine));
  try {
    const opening = unlockDatabase(session, options.encryption);
    // A lock, or a transaction of the user's, may be in the way of a new file's secret. So it's stored in its turn, like a save.
    if (opening !== undefined) commits.holdUntil(opening.then((unlock) => commits.beginWith(unlock)));
  } catch (error) {
    if (typeof source === "string") closeFile(db);
    throw error;
  }
  const store = storeOfFile(db, session, commits, (path) => openSqliteStore(path, options));
  return wrapper?.store(store) ?? store;
}

function storeOfFile(db: SqliteDatabase, session: SqliteSession, commits: Commits, openCopy: (path: string) => Store): Store {
  const queue = new CommitQueue(session);
  /** For work outside of any transaction, after what was handed in before. */
  const alone = <T>(work: () => T): Awaitable<T> => queue.behind(() => commits.alone(work));
  /** {@link alone} for work that changes the file or moves its log. */
  const upkeep = <T>(work: () => T): Awaitable<T> => queue.behind(() => commits.upkeep(work));
  return storeOn(session, queue, {
    effectToTell: (id) => effectToTell(session, id),
    // Called before something is removed: a file that was cut is refused, not read.
    hasLeftovers: (isAlive) => upkeep(() => session.now(session.transaction(hasLeftovers(session, isAlive)))),
    copyThread: async (order) => {
      const { copyThread } = await import("./copy-in-pieces");
      const parts = {
        db,
        session,
        write: <T>(work: () => T) => queue.now({ program: () => atOnce(work) }),
        writeUnsynced: <T>(work: () => T) => queue.unsynced({ program: () => atOnce(work) }),
        inTurn: <T>(work: () => T) => upkeep(work),
      };
      return copyThread(parts, order);
    },
    space: () => alone(() => spaceOf(db)),
    giveBackPages: (pages) => queue.now({ program: () => atOnce(() => giveBackPages(db, pages)) }),
    checkpointLog: (truncate) => upkeep(() => checkpointLog(db, truncate)),
    vacuumFully: () => upkeep(() => vacuumFully(db)),
    // Few processes verify, so that code is loaded on demand.
    startVerify: async (threadId, isGraph) => {
      const [{ startVerify }, { filePhases }] = await Promise.all([import("../ops/verify"), import("./verify-file")]);
      const step = await queue.read((on) => startVerify(on, threadId, isGraph, filePhases));
      return { step: () => alone(() => lookedAt(session, () => step(session))) };
    },
    backUp: async (order) => (await import("./backup")).backUp({ db, openCopy, inTurn: (work) => upkeep(work) }, order),
    close: () => {
      void queue.commit();
      commits.close();
    },
  });
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
