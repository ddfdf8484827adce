/**
 * What is wrong with a row:
 *
 * - `unreadable` the database itself finds the file or the schema damaged
 * - `checksum` the row, the chunk or the list differs from what was saved
 * - `sealing` it does not open with the given keys, or is unencrypted in an encrypted database
 * - `format` a column holds a value that is never written there
 * - `reference` the row refers to something that isn't there
 * - `list` the elements of a list have gaps, or its base doesn't fit
 * - `sequence` the row's number, or a checkpoint's position, belongs to another thread, is too large, used twice, or out of order
 * - `superseded` versions of one row contradict each other
 * - `thread` the row belongs to no thread
 * - `task` no task owns the row
 * - `turn` an Action without its Thought
 * - `archive` an archive of a rewind is incomplete
 */
export type ProblemKind =
  | "unreadable"
  | "checksum"
  | "sealing"
  | "format"
  | "reference"
  | "list"
  | "sequence"
  | "superseded"
  | "thread"
  | "task"
  | "turn"
  | "archive";

/** Something that `saver.verify()` found: identifiers and numbers, never contents. */
export interface IntegrityProblem {
  kind: ProblemKind;
  table: string;
  /** Undefined if it belongs to no thread, or to none that exists. */
  threadId: string | undefined;
  /** The row, by its ids. */
  where: Readonly<Record<string, string | number | null>>;
  expected: string;
  found: string;
}

/** How many rows were looked at. */
export interface VerifyCounts {
  /** Older versions of checkpoints among them. */
  checkpoints: number;
  /** Parts of values. */
  values: number;
  lists: number;
  /** Elements of lists. */
  items: number;
  writes: number;
  turns: number;
  effects: number;
  graphs: number;
  tasks: number;
  names: number;
  /** Threads that recovery has tried to resume. */
  recoveries: number;
  rewinds: number;
  /** Rows that rewinds keep. */
  archived: number;
}

/** What one step has checked and found. */
export interface VerifyStep {
  /** The table that comes next; undefined at the end. */
  table: string | undefined;
  threads: number;
  checked: Partial<VerifyCounts>;
  problems: readonly IntegrityProblem[];
  /** Findings that are no damage but worth knowing. */
  remarks: readonly IntegrityProblem[];
}

/** A walk through the file in short steps. */
export interface Verification {
  step(): VerifyStep | Promise<VerifyStep>;
}
