import { z } from "zod";
import { refuseNoFile } from "../file-path";
import { describe, TurnsError } from "../errors";
import { isSaver } from "../known-savers";
import { isId } from "../system";
import { checkedOptions, functionSchema } from "../options";
import type { TurnSaver } from "../saver";
import type { OfficialSource } from "../store/official-source";
import type { PgPool } from "../store/postgres/driver";
import { openOfficialTables } from "../store/postgres/official-tables";
import { openOfficialFile } from "../store/sqlite/official-file";
import { noTargetId, refusedId, sharedTargetId, unknownThread } from "./failures";
import { Hold, type ImportedThread, importThread, othersFirstUnlessAborted } from "./import-thread";

export interface ImportOptions {
  /** Only these threads, in this order. Default: all, in the order of their ids. */
  threads?: readonly string[];
  /** Read every checkpoint back from the target and compare it with the source. Default true. */
  verify?: boolean;
  /** A thread of the target that has other checkpoints: `"refuse"` (default) with THREAD_EXISTS, or `"skip"` it. */
  existing?: "refuse" | "skip";
  /** A checkpoint that the official serde destroyed, or that cannot be read: `"stop"` (default), or `"skip"` it and list it. */
  onUnreadable?: "stop" | "skip";
  /**
   * Maps the id of a thread in the source to its id in the target. Default: the same id. Use it for ids that were numbers, which
   * the official saver stores as `"7.0"`: `(id) => id.replace(/^(-?\d+)\.0$/, "$1")`.
   */
  mapThreadId?: (threadId: string) => string;
  /** Called when a thread is imported. An error that it throws stops the import. */
  onThread?: (thread: ImportedThread) => void;
  /** Stops the import between two checkpoints. The current thread is removed again if this import began it. */
  signal?: AbortSignal;
}

export interface PostgresImportOptions extends ImportOptions {
  /** The schema with the tables of `PostgresSaver`. Default `public`, as there. */
  schema?: string;
}

export interface ImportReport {
  /** The file, or where the database is, without any password. */
  file: string;
  threads: readonly ImportedThread[];
  /**
   * Ids of imported threads, as the source has them, that look like numbers: given `thread_id: 7`, the official saver stores
   * `"7.0"`. Unless `mapThreadId` says otherwise, the target has that id too, and a run on `"7"` begins a new thread.
   */
  numericThreadIds: readonly string[];
}

const THREADS_PER_PIECE = 1_000;
const schema = () =>
  z.strictObject({
    threads: z.array(z.string().min(1)).optional(),
    verify: z.boolean().default(true),
    existing: z.enum(["refuse", "skip"]).default("refuse"),
    onUnreadable: z.enum(["stop", "skip"]).default("stop"),
    mapThreadId: functionSchema<(threadId: string) => string>().optional(),
    onThread: functionSchema<(thread: ImportedThread) => void>().optional(),
    signal: z.instanceof(AbortSignal).optional(),
  });

/**
 * Imports what LangGraph's own `SqliteSaver` stored, thread by thread, into a {@link TurnSaver}: checkpoints of all namespaces,
 * their metadata and pending writes. The file is opened read-only and may be in use.
 *
 * You can repeat an import that was stopped or killed: it continues where it was. What the target already has is compared and not
 * written again.
 *
 * @param saver the target; during its import a thread counts as running there
 * @param file the path of the official file; it may be the target's own
 * @returns the outcome for each thread
 * @throws {TurnsError} INVALID_OPTION, also if `mapThreadId` gives two threads one id, or a thread has an id that the target refuses (''), and THREAD_NOT_FOUND for a thread that the
 *   file doesn't have (in both cases nothing has been imported); STORE_UNAVAILABLE, NOT_A_DATABASE or SCHEMA_CONFLICT for the file;
 *   THREAD_EXISTS, THREAD_RUNNING; CHECKPOINT_UNREADABLE naming an unreadable checkpoint; IMPORT_MISMATCH if the target doesn't
 *   return what the file holds; IMPORT_ABORTED if the signal was aborted; and what the saver throws. Each thread is then complete
 *   in the target or not there at all; those that were reported are complete.
 */
export async function importOfficial(saver: TurnSaver, file: string, options: ImportOptions = {}): Promise<ImportReport> {
  const checked = checkedOptions(schema, options);
  refuseNoSaver(saver);
  refuseNoFile("file", file, "the path of a file that SqliteSaver wrote");
  return importFrom(saver, openOfficialFile(file), checked);
}

/**
 * {@link importOfficial} from the tables of LangGraph's own `PostgresSaver`. They are only read, and may be in use.
 *
 * @param source a connection string, or a `pg.Pool` of yours, which isn't closed
 * @throws {TurnsError} what {@link importOfficial} throws; DRIVER_UNAVAILABLE if `pg` isn't installed
 */
export async function importOfficialPostgres(
  saver: TurnSaver,
  source: string | PgPool,
  options: PostgresImportOptions = {},
): Promise<ImportReport> {
  const { schema: name = "public", ...rest } = options;
  const checked = checkedOptions(schema, rest);
  refuseNoSaver(saver);
  refuseNoDatabase(source, name);
  return importFrom(saver, await openOfficialTables(source, name), checked);
}

async function importFrom(
  saver: TurnSaver,
  source: OfficialSource,
  { threads, signal, onThread, mapThreadId = (id: string) => id, ...rest }: z.output<ReturnType<typeof schema>>,
): Promise<ImportReport> {
  const { file } = source;
  try {
    await othersFirstUnlessAborted(signal);
    for (const threadId of threads ?? [])
      if (!(await source.has(threadId))) throw unknownThread(threadId, file, await source.has(`${threadId}.0`));
    const reports: ImportedThread[] = [];
    for (const [threadId, targetId] of await targetIds(threads ?? allThreads(source), mapThreadId, signal)) {
      await othersFirstUnlessAborted(signal);
      const report = await importHeld({ saver, source, threadId, targetId, signal }, rest);
      reports.push(report);
      onThread?.(report);
    }
    // How SQLite writes a number that is bound as REAL into a text column.
    const isNumeric = (threadId: string): boolean => /^-?(\d+\.\d+(e[+-]\d+)?|Inf)$/.test(threadId);
    return { file, threads: reports, numericThreadIds: reports.map(({ threadId }) => threadId).filter(isNumeric) };
  } finally {
    await source.close();
  }
}

/** The three passes over a thread (survey, write, verify) see one state of the source, even if another process writes to it. */
async function importHeld(
  parts: { saver: TurnSaver; source: OfficialSource; threadId: string; targetId: string; signal: AbortSignal | undefined },
  { onUnreadable, ...options }: { onUnreadable: "stop" | "skip"; existing: "refuse" | "skip"; verify: boolean },
): Promise<ImportedThread> {
  const hold = await Hold.take(parts.saver, parts.targetId);
  try {
    return await parts.source.frozen(() => importThread({ ...parts, onUnreadable, hold }, options));
  } finally {
    await hold.release();
  }
}

/**
 * The id in the target for each thread, in order.
 * @throws {TurnsError} INVALID_OPTION if two threads get the same id, or one gets none
 */
async function targetIds(
  threadIds: Iterable<string> | AsyncIterable<string>,
  map: (threadId: string) => string,
  signal: AbortSignal | undefined,
): Promise<Map<string, string>> {
  const targets = new Map<string, string>();
  const sources = new Map<string, string>();
  for await (const threadId of threadIds) {
    if (targets.has(threadId)) continue;
    if (targets.size % THREADS_PER_PIECE === THREADS_PER_PIECE - 1) await othersFirstUnlessAborted(signal);
    const targetId: unknown = map(threadId);
    if (!isId(targetId)) throw targetId === threadId ? refusedId(threadId) : noTargetId(threadId, targetId);
    const other = sources.get(targetId);
    if (other !== undefined) throw sharedTargetId(other, threadId, targetId);
    targets.set(threadId, targetId);
    sources.set(targetId, threadId);
  }
  return targets;
}

async function* allThreads(source: OfficialSource): AsyncGenerator<string> {
  for (let last: string | undefined; ;) {
    const id: string | undefined = await source.nextThread(last);
    if (id === undefined) return;
    yield id;
    last = id;
  }
}

function refuseNoSaver(saver: unknown): void {
  if (isSaver(saver)) return;
  throw new TurnsError("INVALID_OPTION", {
    problem: `The target of an import is ${describe(saver)}, not an open TurnSaver.`,
    remedy: "Pass the target, e.g. TurnSaver.fromPath(path).",
  });
}

/** @throws {TurnsError} INVALID_OPTION */
function refuseNoDatabase(source: unknown, schema: unknown): void {
  const isPool = typeof source === "object" && source !== null && typeof (source as PgPool).connect === "function";
  const isText = (value: unknown): boolean => typeof value === "string" && value !== "" && !value.includes("\0");
  const [option, value]: [string, unknown] = isPool || isText(source) ? ["schema", schema] : ["source", source];
  if (option === "schema" && isText(schema)) return;
  throw new TurnsError("INVALID_OPTION", {
    // A string may have a password.
    problem: `The ${option} of an import is ${typeof value === "string" ? "a string that is empty or has a NUL character" : describe(value)}.`,
    remedy: "Pass a connection string or a pg.Pool, and as the option `schema` the name of the schema that PostgresSaver uses.",
    data: { option },
  });
}

/** What an import would find. */
interface OfficialThreads {
  /** How many threads there are, of those that were asked for. */
  threads: number;
  /** Ids that were whole numbers; see `ImportReport`. */
  numericThreadIds: string[];
}

/**
 * Counts the threads of an official saver.
 *
 * @param source a path, or the connection string and schema of PostgresSaver's tables
 * @param wanted only these; empty: all
 * @throws {TurnsError} what opening the source throws
 */
export async function officialThreads(
  source: string | { url: string; schema: string },
  wanted: readonly string[],
): Promise<OfficialThreads> {
  const official = typeof source === "string" ? openOfficialFile(source) : await openOfficialTables(source.url, source.schema);
  const found: OfficialThreads = { threads: 0, numericThreadIds: [] };
  try {
    for (let id = await official.nextThread(undefined); id !== undefined; id = await official.nextThread(id)) {
      if (wanted.length > 0 && !wanted.includes(id)) continue;
      found.threads += 1;
      if (wholeNumberId(id) !== id) found.numericThreadIds.push(id);
    }
    return found;
  } finally {
    await official.close();
  }
}

/** The id of a thread that was a whole number, as its program knows it; any other id as it is. */
export function wholeNumberId(threadId: string): string {
  return threadId.replace(/^(-?\d+)\.0$/, "$1");
}
