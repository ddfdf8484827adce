import { randomUUID } from "node:crypto";
import { closeSync, existsSync, openSync, rmSync, statSync } from "node:fs";
import { TurnsError } from "../../../errors";
import type { EncryptionOption } from "../../../sealing";
import { rowsOfThread, type Table, THREAD_TABLES } from "../../tables";
import { type DamagedThread, type LostItem, SALVAGED, type SalvagedFile } from "../../salvage";
import { openFile } from "../connection";
import type { SqliteDatabase } from "../driver";
import { directoryGiven, translated } from "../failures";
import { tooNew } from "../migrate";
import { sqliteMigrations } from "../migrations.generated";
import { unlockDatabase } from "../unlock-file";
import { checkpointLog } from "../vacuum";
import { saveRewind, unfinishedRewind } from "../../ops/rewind-records";
import { sessionOn, type SqliteSession } from "../engine";
import type { Program } from "../../program";
import type { Session } from "../../session";
import { miscounted, recount } from "../../ops/row-counts";
import { currentTask, sayWhere, threadOrSignpost } from "../../ops/thread-rows";
import type { ThreadCounts, ThreadState } from "../../thread-state";
import { removeLeftovers } from "../../ops/leftovers";
import type { IsGraph } from "../../ops/verify-rows";
import { type Copied, copyRows } from "./copy";
import { type Cuts, cutToWhole, inOne } from "./cut";
import { Pages } from "./pages";
import { type RepairedThreads, repairThreads } from "./repair-threads";
import { type SourceRow, sourceRows, type TableGap, tablesOf } from "./rows";
import { othersFirst } from "../../../timers";

interface SalvageFileOptions {
  encryption: EncryptionOption | undefined;
  /** Whether to ignore the write-ahead log beside the source. */
  ignoreLog: boolean;
  isGraph: IsGraph;
}

/** The column takes any type, and better-sqlite3 binds every number as a float. */
const THREADS = `UPDATE langgraph_settings SET value = max(CAST(? AS INTEGER), coalesce((SELECT max(thread) FROM langgraph_threads), 0))
  WHERE name = 'threads'`;
const WRAPPED = "SELECT 1 FROM langgraph_settings WHERE name >= 'key:' AND name < 'key;' LIMIT 1";
const ALL = "SELECT thread_id FROM langgraph_threads ORDER BY thread";
/** By the number in each row, no matter which range it is in. */
const REMOVALS = THREAD_TABLES.map((table: Table) => ({
  table: table.name,
  which: table.columns["thread"] === undefined ? rowsOfThread(table) : "thread = ?1",
}));

/**
 * Rescues the intact rows of a damaged file into a new one. The source is only read.
 *
 * @throws {TurnsError} STORE_UNAVAILABLE, NOT_A_DATABASE, SCHEMA_CONFLICT, SCHEMA_TOO_NEW for the source; SALVAGE_TARGET_EXISTS;
 *   ENCRYPTED and the other codes of keys; STORE_BUSY if somebody wrote to the source meanwhile. The target is removed again then.
 */
export async function salvageFile(source: string, target: string, options: SalvageFileOptions): Promise<SalvagedFile> {
  const pages = openPages(source, options.ignoreLog);
  try {
    reserve(target);
    let db: SqliteDatabase | undefined;
    try {
      const before = stampOf(source);
      db = openFile(target, { synchronous: "normal" });
      const salvaged = await salvageInto(sessionOn(db), pages, source, options);
      // Closing does that too, but says nothing if the disk has no room for it.
      checkpointLog(db, true);
      if (stampOf(source) !== before) throw writtenMeanwhile(source);
      return salvaged;
    } catch (error) {
      db?.close();
      for (const suffix of ["", ...BESIDE]) rmSync(target + suffix, { force: true });
      throw translated(error, target);
    } finally {
      db?.close();
    }
  } finally {
    pages.close();
  }
}

async function salvageInto(
  session: SqliteSession,
  pages: Pages,
  source: string,
  options: SalvageFileOptions,
): Promise<SalvagedFile> {
  const gaps: TableGap[] = [];
  const { tables, isOurs } = tablesOf(pages, session, gaps);
  const versions = tables.find(({ name }) => name === "langgraph_migrations");
  if (!isOurs || versions === undefined) throw notOurs(source, pages);
  refuseNewer(source, [...sourceRows(pages, versions, [])]);
  const copied = await copyRows(pages, tables, session, gaps);
  if ([...copied.rows.values()].every((count) => count === 0) && !pages.hasHeader) throw notOurs(source, pages);
  if (options.encryption !== undefined && session.now(session.get(WRAPPED)) === undefined) throw keysLost(source);
  (await unlockDatabase(session, options.encryption))?.();
  // Rows that were being removed stay removed.
  const isAlive = (): boolean => false;
  while (inOne(session, removeLeftovers(session, isAlive))) await othersFirst();
  const repaired = inOne(session, repairThreads(session, new Date().toISOString()));
  session.now(session.run(THREADS, copied.threads));
  const nameless = inOne(session, removeNameless(session, repaired));
  const { judged, ...cuts } = await cutToWhole(session, options.isGraph);
  const damaged = inOne(session, markDamaged(session, copied, repaired, cuts));
  return {
    rescued: { ...judged.checked, threads: judged.threads },
    lost: [
      ...lostFrames(pages),
      ...gaps.map(({ table, page, why }) => ({ table, threadId: undefined, where: { page }, why })),
      ...copied.refused.map((row) => ({ ...row, threadId: undefined })),
      ...repaired.lost,
      ...nameless,
      ...cuts.lost,
    ],
    damaged,
    pagesFromLog: pages.logged,
  };
}

function* removeNameless(session: Session, { nameless }: RepairedThreads): Program<LostItem[]> {
  const lost: LostItem[] = [];
  for (const thread of nameless) {
    for (const { table, which } of REMOVALS) {
      const rows = yield* session.changes(`DELETE FROM ${table} WHERE ${which}`, thread);
      const why = "nothing tells which thread the rows belong to";
      if (rows > 0) lost.push({ table, threadId: undefined, where: { thread, rows }, why });
    }
  }
  return lost;
}

function lostFrames({ brokenFrame }: Pages): LostItem[] {
  const why = "it is damaged: what was saved from there on is lost, and nothing tells what that was";
  return brokenFrame === undefined ? [] : [{ table: "write-ahead log", threadId: undefined, where: { frame: brokenFrame }, why }];
}

/** Marks and reports threads that lack something. They can't continue before somebody has checked what they lack. */
function* markDamaged(
  session: Session,
  copied: Copied,
  { rebuilt, moving }: RepairedThreads,
  { cutAt }: Cuts,
): Program<DamagedThread[]> {
  const damaged: DamagedThread[] = [];
  for (const [threadId] of yield* session.rows<[string]>(ALL)) {
    const key = (yield* threadOrSignpost(session, threadId)) as ThreadState;
    const { thread } = key;
    // What is left of a thread that moved to another database has no rows.
    if (key.row.gone) continue;
    if ((yield* miscounted(session, key)) !== undefined) yield* recount(session, key);
    const isRebuilt = rebuilt.has(thread);
    const missing = isRebuilt ? undefined : missingOf(copied.counted.get(thread) as ThreadCounts, key.row);
    const isWhole = missing !== undefined && Object.values(missing).every((count) => count === 0) && !cutAt.has(thread);
    if (!isWhole) {
      const acknowledge = mayRepeat(missing) ? yield* mark(session, key, missing) : undefined;
      damaged.push({ threadId, missing, rebuilt: isRebuilt, cutAt: cutAt.get(thread), acknowledge });
    }
    // Nothing but its move may continue.
    if (moving.has(thread)) yield* sayWhere(session, key, moving.get(thread));
  }
  return damaged;
}

function missingOf(before: ThreadCounts, now: ThreadCounts): NonNullable<DamagedThread["missing"]> {
  return {
    checkpoints: before.snapshots - now.snapshots,
    writes: before.writes - now.writes,
    turns: before.turns - now.turns,
    effects: before.effects - now.effects,
    others: before.others - now.others,
  };
}

/**
 * Missing turns don't count: they only say what was done, and decide nothing. A count below 0 is as bad as one above: the count
 * itself was damaged.
 */
function mayRepeat(missing: DamagedThread["missing"]): boolean {
  return (
    missing === undefined || [missing.checkpoints, missing.writes, missing.effects, missing.others].some((count) => count !== 0)
  );
}

/** Begins a rewind that would change nothing: the next run of the thread meets it first. */
function* mark(session: Session, key: ThreadState, missing: DamagedThread["missing"]): Program<string> {
  const { threadId, newestSeq: targetSeq } = key;
  const known = yield* unfinishedRewind(session, threadId);
  if (known !== undefined) return known.id;
  const reason = `${SALVAGED}${missing === undefined ? "its own row" : textOf(missing)} could not be rescued`;
  const targetTaskId = (yield* currentTask(session, key))?.taskId ?? threadId;
  const createdAt = new Date().toISOString();
  const plan = { id: randomUUID(), threadId, targetTaskId, targetSeq, archived: false, createdAt, reason };
  return (yield* saveRewind(session, key, plan, "undoing", targetSeq)).id;
}

function textOf(missing: NonNullable<DamagedThread["missing"]>): string {
  const lost = Object.entries(missing).filter(([, count]) => count !== 0);
  return lost.map(([kind, count]) => `${Math.abs(count)} ${kind}`).join(", ");
}

/** Files that SQLite keeps beside a file. It would take leftovers for the new file's. */
const BESIDE = ["-wal", "-shm", "-journal"];

/**
 * Creates the file unless something is there: only a file created here is written to, or removed.
 * @throws {TurnsError}
 */
function reserve(target: string): void {
  if (BESIDE.some((suffix) => existsSync(target + suffix))) throw targetExists(target);
  try {
    closeSync(openSync(target, "wx"));
  } catch (error) {
    throw (error as { code?: unknown }).code === "EEXIST" ? targetExists(target) : unavailable(target, error, "created");
  }
}

function openPages(source: string, ignoreLog: boolean): Pages {
  const directory = directoryGiven(source, undefined);
  if (directory !== undefined) throw directory;
  let pages: Pages;
  try {
    pages = new Pages(source, ignoreLog);
  } catch (error) {
    throw unavailable(source, error);
  }
  if (pages.count > 0) return pages;
  pages.close();
  throw notOurs(source, pages);
}

function stampOf(path: string): string {
  return [path, `${path}-wal`]
    .map((one) => (existsSync(one) ? statSync(one) : undefined))
    .map((stat) => `${stat?.size}:${stat?.mtimeMs}`)
    .join();
}

/** @param applied rows of `langgraph_migrations`; a known name with another number means damage */
function refuseNewer(file: string, applied: readonly SourceRow[]): void {
  const newest = sqliteMigrations.at(-1)?.version ?? 0;
  const others = applied.filter((row) => sqliteMigrations.every(({ name }) => name !== row["name"]));
  const found = Math.max(0, ...others.map((row) => Number(row["version"])));
  if (found > newest) throw tooNew(file, found);
}

function targetExists(file: string): TurnsError {
  return new TurnsError("SALVAGE_TARGET_EXISTS", {
    problem: `The target of the salvage, ${file}, exists already.`,
    remedy: "Give another path. Nothing was changed.",
    data: { file },
  });
}

function notOurs(file: string, pages: Pages): TurnsError {
  return new TurnsError(pages.hasHeader ? "SCHEMA_CONFLICT" : "NOT_A_DATABASE", {
    problem: `${file} isn't a file that this package wrote: it is ${pages.hasHeader ? "a database without its tables" : "no database"}.`,
    remedy: "Give the path of the damaged file; this one was not changed.",
    data: { file },
  });
}

function keysLost(file: string): TurnsError {
  return new TurnsError("UNKNOWN_KEY", {
    problem: `The secret of the encrypted database ${file} is damaged, or was never there.`,
    remedy: "Without it nothing opens. Restore the file from a copy.",
    data: { file },
  });
}

function unavailable(file: string, cause: unknown, what = "read"): TurnsError {
  const { code } = cause as { code?: unknown };
  return new TurnsError("STORE_UNAVAILABLE", {
    problem: `Database ${file} can't be ${what}: ${code === "EISDIR" ? "it is a directory, not a file" : typeof code === "string" ? code : "an error"}.`,
    remedy: "Check the path and the permissions.",
    data: { file },
    cause,
  });
}

function writtenMeanwhile(file: string): TurnsError {
  return new TurnsError("STORE_BUSY", {
    problem: `Database ${file} changed while it was read.`,
    remedy: "Stop the writers, and salvage again. What had been rescued was removed.",
    data: { file },
  });
}
