import type { RowOf, THREADS } from "./tables";

/** Where a thread moves to, or has moved to: the JSON of `langgraph_threads.moved_to`. */
export interface MovedTo {
  /** The move. The thread has it as `arrived` where it goes. */
  id: string;
  /** The name of that database, without any password. */
  to: string;
  at: string;
  /** The latest deletion under the thread's id there when the thread was held; 0 for none. */
  deletion: number;
}

/** A text that isn't ours is damaged; the row's checksum reveals that. */
export function movedToOf(text: string): MovedTo {
  try {
    const { id = "", to = "another database", at = "", deletion = 0 } = JSON.parse(text) as Partial<MovedTo>;
    return { id, to, at, deletion };
  } catch {
    return { id: "", to: "another database", at: "", deletion: 0 };
  }
}

/** A row on its way: opened and verified, and with numbers that count from the start of its thread. */
export interface MovedRow {
  table: string;
  fields: Readonly<Record<string, unknown>>;
  /** Of a row in the archive of a rewind. */
  archived?: { rewindId: string; ordinal: number; change: "deleted" | "revived" };
  /** SHA-256 over the elements of each list that its manifest leads to, by list and length, if that was asked for. */
  lists?: ReadonlyMap<string, string>;
}

/** What is remembered of a thread's lists while its rows are read for a database with other keys. Private to the store. */
export interface MovedLists {
  readonly isPrivate: true;
  /** Notes rewinds, and what their archives have of lists. All are noted before the first manifest is read. */
  note(row: MovedRow): void;
}

/** What a database with other keys needs to know of a thread's values. */
export type MovedKind = "values" | "archives";

/** How far the rows of a thread were read. */
export interface MoveCursor {
  step: number;
  after: readonly (string | number)[];
}

/** A thread that is to move. */
export interface Departure {
  row: Readonly<RowOf<typeof THREADS>>;
  /** Equal stamps mean that nothing was saved on the thread in between. */
  stamp: string;
  movedTo: MovedTo | undefined;
  /** Rows of tables that know only the thread's id, all of them. Archives aren't among them. */
  small: readonly MovedRow[];
  /** Rewinds with archives, newest first. */
  archives: readonly string[];
  /** The latest deletion under its id, 0 for none. */
  deletion: number;
}

/** What a database has under the id of a thread that is to arrive. */
export interface Destination {
  /** Undefined if there is no row of it. `gone`: it only tells where the thread went. */
  thread: { gone: boolean; arrived: string | undefined } | undefined;
  deletion: number;
  isFinal: boolean;
}

/** Where the rows of an arriving thread are written. Nobody sees them before it's published. */
export interface Arrival {
  threadId: string;
  /** Its number here. */
  thread: number;
  /** The run that holds the thread here. Once another one does, nothing more is written. */
  runId: string;
}
