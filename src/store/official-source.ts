import type { Awaitable } from "./store";

/** What the import of an official saver reads, row by row; nothing here decodes a value. */

/** Where a checkpoint is in its thread. */
export interface OfficialKey {
  ns: string;
  checkpointId: string;
}

/** Text or bytes as they are stored: the driver has not converted them. */
export type OfficialBlob = string | Uint8Array | null;

export interface OfficialWrite {
  taskId: string;
  /** Negative for the special channels. */
  idx: number;
  channel: string;
  type: string | null;
  value: OfficialBlob;
}

export interface OfficialRow extends OfficialKey {
  parentId: string | null;
  type: string | null;
  checkpoint: OfficialBlob;
  metadata: OfficialBlob;
  /** The values of its channels, if they aren't in the checkpoint. */
  channels?: readonly Pick<OfficialWrite, "channel" | "type" | "value">[];
  /** By task id, then idx: the order in which the official saver reads them. */
  writes: readonly OfficialWrite[];
}

/** Every method translates driver errors into a TurnsError: CHECKPOINT_CORRUPTED, STORE_BUSY, STORE_FAILED, NOT_A_DATABASE. */
export interface OfficialSource {
  /** The file, or where the database is. */
  readonly file: string;
  has(threadId: string): Awaitable<boolean>;
  /** The next thread id behind `after`, in the order of ids. */
  nextThread(after: string | undefined): Awaitable<string | undefined>;
  /** A page of a thread's checkpoints over all namespaces, smallest checkpoint id first. */
  keys(threadId: string, after: OfficialKey | undefined, limit: number): Awaitable<readonly OfficialKey[]>;
  row(threadId: string, key: OfficialKey): Awaitable<OfficialRow | undefined>;
  /** Writes to a channel on a checkpoint id, in any namespace: the official saver looks up pending Sends like this. */
  writesTo(channel: string, threadId: string, checkpointId: string): Awaitable<readonly OfficialWrite[]>;
  /** How many writes belong to no checkpoint. Nobody can read such rows. */
  orphans(threadId: string): Awaitable<number>;
  /** Keeps one state of the database for all reads in `work`, without blocking a concurrent writer. */
  frozen<T>(work: () => Promise<T>): Promise<T>;
  close(): Awaitable<void>;
}
