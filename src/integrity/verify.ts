import { z } from "zod";
import { parseDocument } from "../guards/fingerprint";
import { checkedOptions, functionSchema, idSchema, signalSchema } from "../options";
import type { IntegrityProblem, VerifyCounts } from "../store/integrity";
import type { Store } from "../store/store";

export interface VerifyRequest {
  /** Default: the whole file, with what belongs to no thread. */
  threadId?: string;
  /** Ends the walk between two steps; the report tells what was found until then. */
  signal?: AbortSignal;
  /** Called after each step, which takes some 20 milliseconds. What it throws ends the walk. */
  onProgress?: (progress: VerifyProgress) => void;
}

export interface VerifyProgress {
  /** The table that comes next. */
  table: string | undefined;
  checked: Readonly<VerifyCounts>;
  problems: number;
}

/** What {@link verify} found; docs/integrity.md says how to read it. */
export interface VerifyReport {
  /** Whether all was looked at and nothing is wrong. */
  ok: boolean;
  /** False if the signal ended the walk. */
  done: boolean;
  /** Whether SQLite's own check finds the file whole; undefined if only a thread was looked at, or the walk was ended. */
  databaseOk: boolean | undefined;
  threads: number;
  checked: VerifyCounts;
  /** The first thousand of what is wrong. */
  problems: readonly IntegrityProblem[];
  problemCount: number;
  /** The first thousand of what is worth knowing and no damage: what refers to checkpoints that were pruned, for example. */
  remarks: readonly IntegrityProblem[];
}

/** A damaged file may have a problem in every row, and the report has to fit into memory. */
const TOLD_MAX = 1_000;
const schema = () =>
  z.strictObject({
    threadId: idSchema.optional(),
    signal: signalSchema.optional(),
    onProgress: functionSchema<NonNullable<VerifyRequest["onProgress"]>>().optional(),
  });

/**
 * Looks at every row of a file, or of one thread, without changing anything: a moment at a time, each in a transaction of its own, so
 * that others go on saving and the event loop goes on. What it finds is reported, not thrown.
 *
 * @throws {TurnsError} INVALID_OPTION; THREAD_NOT_FOUND; STORE_CLOSED, STORE_BUSY, STORE_FAILED
 */
export async function verify(store: Store, request: VerifyRequest): Promise<VerifyReport> {
  const { threadId, signal, onProgress } = checkedOptions(schema, request);
  const walk = await store.startVerify(threadId, (digest, text) => parseDocument(digest, text) !== undefined);
  const checked = noCounts();
  const problems: IntegrityProblem[] = [];
  const remarks: IntegrityProblem[] = [];
  let [threads, problemCount, isFileWhole, done] = [0, 0, true, false];
  while (!done && signal?.aborted !== true) {
    const step = await walk.step();
    threads += step.threads;
    problemCount += step.problems.length;
    isFileWhole &&= step.problems.every(({ kind }) => kind !== "unreadable");
    problems.push(...step.problems.slice(0, TOLD_MAX - problems.length));
    remarks.push(...step.remarks.slice(0, TOLD_MAX - remarks.length));
    for (const [name, count] of Object.entries(step.checked)) checked[name as keyof VerifyCounts] += count;
    done = step.table === undefined;
    onProgress?.({ table: step.table, checked: { ...checked }, problems: problemCount });
    await new Promise((resolve) => setImmediate(resolve));
  }
  const databaseOk = threadId !== undefined || (!done && isFileWhole) ? undefined : isFileWhole;
  return { ok: done && problemCount === 0, done, databaseOk, threads, checked, problems, problemCount, remarks };
}

function noCounts(): VerifyCounts {
  const rows = { checkpoints: 0, values: 0, lists: 0, items: 0, writes: 0, turns: 0, effects: 0 };
  return { ...rows, graphs: 0, tasks: 0, names: 0, rewinds: 0, archived: 0 };
}
