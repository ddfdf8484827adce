import { z } from "zod";
import { parseDocument } from "../guards/graph-document";
import { checkedOptions, functionSchema, idSchema, signalSchema } from "../options";
import type { IntegrityProblem, VerifyCounts } from "../store/integrity";
import type { Store } from "../store/store";
import { othersFirst } from "../timers";

export interface VerifyRequest {
  /** Default: the whole file, with what belongs to no thread. */
  threadId?: string;
  /** Stops the walk between two steps. The report covers what was checked until then. */
  signal?: AbortSignal;
  /** Called after each step, which takes some 20 milliseconds. An error that it throws stops the walk. */
  onProgress?: (progress: VerifyProgress) => void;
}

export interface VerifyProgress {
  /** The table that comes next. */
  table: string | undefined;
  checked: Readonly<VerifyCounts>;
  problems: number;
}

/** What `saver.verify` found; docs/integrity.md says how to read it. */
export interface VerifyReport {
  /** True if everything was checked and nothing is wrong. */
  ok: boolean;
  /** False if the signal stopped the walk. */
  done: boolean;
  /** Whether the check of the file, or of the schema and its indexes, passed. Undefined if only a thread was checked, or the walk was stopped. */
  databaseOk: boolean | undefined;
  threads: number;
  checked: VerifyCounts;
  /** The first thousand problems. */
  problems: readonly IntegrityProblem[];
  problemCount: number;
  /** The first thousand findings that are no damage but worth knowing, such as references to pruned checkpoints. */
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
 * Checks every row of a file, or of one thread, without changing anything. It works in short transactions, so others can save and
 * the event loop isn't blocked. Problems are reported, not thrown.
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
    await othersFirst();
  }
  const databaseOk = threadId !== undefined || (!done && isFileWhole) ? undefined : isFileWhole;
  return { ok: done && problemCount === 0, done, databaseOk, threads, checked, problems, problemCount, remarks };
}

function noCounts(): VerifyCounts {
  const rows = { checkpoints: 0, values: 0, lists: 0, items: 0, writes: 0, turns: 0, effects: 0 };
  return { ...rows, graphs: 0, tasks: 0, names: 0, recoveries: 0, rewinds: 0, archived: 0 };
}
