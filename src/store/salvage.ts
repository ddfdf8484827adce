import type { IntegrityProblem, VerifyCounts } from "./integrity";

/** Something that could not be rescued: identifiers and numbers, never contents. */
export interface LostItem {
  /** Table of the row, or of the page; `write-ahead log` for the file beside the database. */
  table: string;
  /** Undefined where it is not known whose it was. */
  threadId: string | undefined;
  /** The row by its ids, or the page of the file by its number. */
  where: IntegrityProblem["where"];
  why: string;
}

/** A thread that did not come over whole. */
export interface DamagedThread {
  threadId: string;
  /** How many rows of each kind are missing; undefined where the thread's own row was lost, which counts them. */
  missing: { checkpoints: number; writes: number; turns: number; effects: number; others: number } | undefined;
  /** Its own row was lost, and made again from the others. */
  rebuilt: boolean;
  /** The seq before which no checkpoint of the thread can be gone back to; undefined if none was cut off. */
  cutAt: number | undefined;
  /**
   * What `saver.rewinds.abandon` takes, to say that the thread may go on with what is there. Until then its runs are refused, because
   * something that had been done may be done again. Undefined where nothing of that kind is missing.
   */
  acknowledge: string | undefined;
}

export interface SalvagedFile {
  /** Rows that were rescued, and verify. */
  rescued: Partial<VerifyCounts> & { threads: number };
  lost: readonly LostItem[];
  damaged: readonly DamagedThread[];
  /** How many pages came from the write-ahead log. */
  pagesFromLog: number;
}

/** How a rewind begins its reason that stands for what a salvage lost. */
export const SALVAGED = "salvage: ";
