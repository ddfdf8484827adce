import { plainSealing } from "../../sealing";
import type { Store } from "../store";
import { getCheckpoint, hydrate, listCheckpoints, putCheckpoint } from "./checkpoints";
import { Commits } from "./commits";
import { type ConnectionOptions, openFile, prepareConnection } from "./connection";
import { deltaHistory } from "./delta";
import type { SqliteDatabase } from "./driver";
import { countBehind, listRewinds, rewind, takeBack } from "./rewinds";
import { beatRun, beginRun, endRun, listRuns } from "./runs";
import { Sql } from "./sql";
import { listTasks } from "./tasks";
import { readChunks } from "./chunks";
import { copyThread } from "./thread-copy";
import { deleteThread, getThread, listThreads, reuseThread } from "./threads";
import { addTokens, insertAction, insertThought, knownNodeTasks, listTurns, openThoughts } from "./turns";
import { putWrites } from "./writes";

export type { SqliteDatabase } from "./driver";
export { SqliteTurnLog } from "./turn-log";

export interface SqliteStoreOptions extends ConnectionOptions {
  /** How long a save waits (asynchronously) for a lock that somebody else holds, milliseconds. */
  busyTimeoutMs: number;
}

/** Opens a file, or takes over an open handle, as a {@link Store}. */
export function openSqliteStore(source: string | SqliteDatabase, options: SqliteStoreOptions): Store {
  const db = typeof source === "string" ? openFile(source, options) : prepareConnection(source, options);
  return storeOn(db, new Sql(db, plainSealing), new Commits(db, options.busyTimeoutMs));
}

function storeOn(db: SqliteDatabase, sql: Sql, commits: Commits): Store {
  const write =
    <A extends unknown[], T>(work: (sql: Sql, ...args: A) => T) =>
    (...args: A) =>
      commits.run(() => sql.numbered(() => work(sql, ...args)));
  const read =
    <A extends unknown[], T>(work: (sql: Sql, ...args: A) => T) =>
    (...args: A) =>
      commits.read(() => work(sql, ...args));
  return {
    address: (threadId, text) => sql.sealing.address(threadId, text),
    putCheckpoint: write(putCheckpoint),
    putWrites: write(putWrites),
    getCheckpoint: read(getCheckpoint),
    listCheckpoints: read(listCheckpoints),
    hydrate: read(hydrate),
    deltaHistory: read(deltaHistory),
    readChunks: read(readChunks),
    saveThought: write(insertThought),
    saveAction: write(insertAction),
    addTokens: write(addTokens),
    listTurns: read(listTurns),
    openThoughts: read(openThoughts),
    knownNodeTasks: read(knownNodeTasks),
    listTasks: read(listTasks),
    listThreads: read(listThreads),
    getThread: read(getThread),
    deleteThread: write(deleteThread),
    reuseThread: write(reuseThread),
    copyThread: write(copyThread),
    beginRun: write(beginRun),
    beatRun: write(beatRun),
    endRun: write(endRun),
    listRuns: read(listRuns),
    countBehind: read(countBehind),
    rewind: write(rewind),
    listRewinds: read(listRewinds),
    takeBack: write(takeBack),
    close: () => {
      db.close();
    },
    get open() {
      return db.open;
    },
  };
}
