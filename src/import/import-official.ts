import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { checkedOptions } from "../options";
import type { TurnSaver } from "../saver";
import type { OfficialSource } from "../store/official-source";
import { openOfficialFile } from "../store/sqlite";
import { unknownThread } from "./failures";
import { importThread, type ImportedThread } from "./import-thread";
import { breathe, Hold } from "./pace";

/** Options of {@link importOfficial}. All are optional. */
export interface ImportOptions {
  /** Only these threads, in this order. Default: all, in the order of their ids. */
  threads?: readonly string[];
  /** Read every checkpoint back from the target and compare it with the source. Default true. */
  verify?: boolean;
  /** A thread of the target that has other checkpoints: `"refuse"` (default) with THREAD_EXISTS, or `"skip"` it. */
  existing?: "refuse" | "skip";
  /** A checkpoint that the official serde destroyed, or that cannot be read: `"stop"` (default), or `"skip"` it and list it. */
  onUnreadable?: "stop" | "skip";
  /** Called when a thread is done. What it throws ends the import. */
  onThread?: (thread: ImportedThread) => void;
  /** Ends the import between two checkpoints; the thread at hand is removed again if this import began it. */
  signal?: AbortSignal;
}

export interface ImportReport {
  file: string;
  threads: readonly ImportedThread[];
}

const isCallback = (value: unknown): boolean => typeof value === "function";
const schema = z.strictObject({
  threads: z.array(z.string().min(1)).optional(),
  verify: z.boolean().default(true),
  existing: z.enum(["refuse", "skip"]).default("refuse"),
  onUnreadable: z.enum(["stop", "skip"]).default("stop"),
  onThread: z.custom<(thread: ImportedThread) => void>(isCallback, "must be a function").optional(),
  signal: z.instanceof(AbortSignal).optional(),
});

/**
 * Imports what LangGraph's own `SqliteSaver` stored, thread by thread, into a {@link TurnSaver}: checkpoints of all namespaces, their
 * metadata and pending writes. The file is opened read-only and may be in use. Importing again goes on where an import ended, also
 * where its process was killed: what is there already is compared, and not written again.
 *
 * @param saver the target; during its import a thread counts as running there
 * @param file the path of the official file; it may be the target's own
 * @returns what became of each thread
 * @throws {TurnsError} INVALID_OPTION; STORE_UNAVAILABLE, NOT_A_DATABASE or SCHEMA_CONFLICT for the file; THREAD_NOT_FOUND for a thread
 * that the file does not have (nothing has been imported then); THREAD_EXISTS, THREAD_RUNNING; CHECKPOINT_UNREADABLE naming an
 * unreadable checkpoint; IMPORT_MISMATCH if the target does not give back what the file holds; IMPORT_ABORTED if the signal was aborted;
 * and what the saver throws. A thread is whole in the target or not there at all then; those that were reported are whole.
 */
export async function importOfficial(saver: TurnSaver, file: string, options: ImportOptions = {}): Promise<ImportReport> {
  const { threads, signal, onThread, ...rest } = checkedOptions(schema, options);
  refuseNoSaver(saver);
  const source = openOfficialFile(file);
  try {
    const unknown = threads?.find((threadId) => !source.has(threadId));
    if (unknown !== undefined) throw unknownThread(unknown, file);
    const reports: ImportedThread[] = [];
    for (const threadId of threads === undefined ? allThreads(source) : new Set(threads)) {
      await breathe(signal);
      const report = await importHeld({ saver, source, threadId, signal }, rest);
      reports.push(report);
      onThread?.(report);
    }
    return { file, threads: reports };
  } finally {
    source.close();
  }
}

/** The three readings of a thread (survey, writing, verification) see one state of the file, whoever writes it meanwhile. */
async function importHeld(
  parts: { saver: TurnSaver; source: OfficialSource; threadId: string; signal: AbortSignal | undefined },
  { onUnreadable, ...options }: { onUnreadable: "stop" | "skip"; existing: "refuse" | "skip"; verify: boolean },
): Promise<ImportedThread> {
  const hold = await Hold.take(parts.saver, parts.threadId);
  try {
    return await parts.source.frozen(() => importThread({ ...parts, onUnreadable, hold }, options));
  } finally {
    await hold.release();
  }
}

function* allThreads(source: OfficialSource): Generator<string> {
  for (let id = source.nextThread(undefined); id !== undefined; id = source.nextThread(id)) yield id;
}

/** By what it can do: `instanceof` fails across the ESM and the CJS build. */
function refuseNoSaver(saver: unknown): void {
  const { reserve, putWrites, listTasks } = (saver ?? {}) as Partial<TurnSaver>;
  if ([reserve, putWrites, listTasks].every((method) => typeof method === "function")) return;
  throw new TurnsError("INVALID_OPTION", {
    what: "saver",
    expected: "an open TurnSaver to import into",
    found: describe(saver),
    remedy: "Pass the target, e.g. TurnSaver.fromPath(path).",
  });
}
