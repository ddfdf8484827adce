import type { IntegrityProblem, VerifyCounts } from "./integrity";

/** Something that couldn't be rescued: identifiers and numbers, never contents. */
export interface LostItem {
  /** The table of the row or page; `write-ahead log` for the file beside the database. */
  table: string;
  /** Undefined if the owner is unknown. */
  threadId: string | undefined;
  /** The row by its ids, or the page of the file by its number. */
  where: IntegrityProblem["where"];
  why: string;
}

/** A thread that wasn't rescued completely. */
export interface DamagedThread {
  threadId: string;
  /** How many rows of each kind are missing. Undefined if the thread's own row, which counts them, was lost. */
  missing: { checkpoints: number; writes: number; turns: number; effects: number; others: number } | undefined;
  /** Its own row was lost, and rebuilt from the others. */
  rebuilt: boolean;
  /** No rewind can reach a checkpoint before this seq; undefined if none was cut off. */
  cutAt: number | undefined;
  /**
   * Pass it to `saver.rewinds.abandon` to let the thread continue with what is there. Until then its runs are refused, because
   * completed work may be repeated. Undefined if nothing of that kind is missing.
   */
  acknowledge: string | undefined;
}

export interface SalvagedFile {
  /** Rows that were rescued and verify. */
  rescued: Partial<VerifyCounts> & { threads: number };
  lost: readonly LostItem[];
  damaged: readonly DamagedThread[];
  /** How many pages came from the write-ahead log. */
  pagesFromLog: number;
}

/** The reason of a rewind that stands for what a salvage lost begins with this. */
export const SALVAGED = "salvage: ";

/** What could not be rescued, of a rewind that stands for that; undefined for one that somebody began. */
export function lostIn(reason: string | undefined): string | undefined {
  return reason?.startsWith(SALVAGED) === true ? reason.slice(SALVAGED.length) : undefined;
}
