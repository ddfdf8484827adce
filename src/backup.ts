import { z } from "zod";
import { refuseNoFile } from "./file-path";
import { TurnsError } from "./errors";
import type { VerifyReport } from "./integrity/verify";
import { checkedOptions, functionSchema, signalSchema } from "./options";
import type { UnpublishedBackup } from "./store/backup";
import type { Store } from "./store/store";

/** Options of `saver.backup`. */
export interface BackupOptions {
  /**
   * Whether a file at the destination may be replaced. Default `false`. The replacement is one step, after the new copy is
   * verified.
   */
  overwrite?: boolean;
  /**
   * Whether every row of the copy is verified before the copy gets its name. Default `true`; `false` copies a damaged file as it
   * is.
   */
  verify?: boolean;
  /** Aborts the backup with BACKUP_ABORTED; nothing is left at the destination. */
  signal?: AbortSignal;
  /** Called after each step. If it throws, the backup stops with that error. */
  onProgress?: (progress: BackupProgress) => void;
}

export interface BackupProgress {
  /** The current step: pages are copied first, then rows are verified. */
  phase: "copy" | "verify";
  /** Pages copied so far. */
  pages: number;
  /** Pages the finished copy will have. */
  ofPages: number;
}

/** The result of `saver.backup`. */
export interface BackupReport {
  path: string;
  bytes: number;
  pages: number;
  /** What was verified in the copy; undefined with `verify: false`. */
  verified: VerifyReport | undefined;
}

const schema = () =>
  z.strictObject({
    overwrite: z.boolean().default(false),
    verify: z.boolean().default(true),
    signal: signalSchema.optional(),
    onProgress: functionSchema<NonNullable<BackupOptions["onProgress"]>>().optional(),
  });

/** Copies a store to a file while it is in use; see `TurnSaver.backup`. */
export async function backup(store: Store, path: string, options: BackupOptions): Promise<BackupReport> {
  refuseNoFile("path", path, "the path of a file to make");
  const { overwrite, verify: isVerified, signal, onProgress } = checkedOptions(schema, options);
  refuseAborted(path, signal);
  let copy: UnpublishedBackup<Store> | undefined;
  try {
    const onCopied = (pages: number, ofPages: number): void => onProgress?.({ phase: "copy", pages, ofPages });
    copy = await store.backUp({ path, overwrite, signal, onCopied });
    const { pages } = copy;
    const onVerified = (): void => onProgress?.({ phase: "verify", pages, ofPages: pages });
    const verified = isVerified ? await verifiedCopy(copy, path, { signal, onProgress: onVerified }) : undefined;
    refuseAborted(path, signal);
    const bytes = await copy.publish();
    copy = undefined;
    return { path, bytes, pages, verified };
  } catch (error) {
    copy?.discard();
    refuseAborted(path, signal);
    throw error;
  }
}

async function verifiedCopy(
  copy: UnpublishedBackup<Store>,
  path: string,
  request: { signal: AbortSignal | undefined; onProgress: () => void },
): Promise<VerifyReport> {
  const store = copy.open();
  try {
    const { verify } = await import("./integrity/verify");
    const { signal, onProgress } = request;
    const report = await verify(store, { ...(signal && { signal }), onProgress });
    if (!report.ok && report.done) throw notWhole(path, report);
    return report;
  } finally {
    store.close();
  }
}

function notWhole(path: string, { problemCount, problems }: VerifyReport): TurnsError {
  const [first] = problems;
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    problem: `The copy at ${path} has ${problemCount} problems, the first in ${first?.table ?? "the file"}: ${first?.kind ?? "unreadable"}.`,
    remedy:
      "They are in the database itself: call saver.verify() for all of them. To copy it as it is: saver.backup(path, { verify: false }). Nothing was left at the destination.",
    data: { path, problems: problemCount },
  });
}

function refuseAborted(path: string, signal: AbortSignal | undefined): void {
  if (signal?.aborted !== true) return;
  throw new TurnsError("BACKUP_ABORTED", {
    problem: `The backup to ${path} was aborted by its signal.`,
    remedy: "Nothing was left at the destination. Call saver.backup() again.",
    data: { path },
    cause: signal.reason,
  });
}
