import type { CheckpointHead, TaskRow, TurnRow } from "../store";
import type { RowOf, TOMBSTONES } from "../tables";

/** So many of each are known of a thread, the ones used last. */
const HEADS = 24;
const NODE_TASKS = 512;
const CHUNKS = 2_048;
const LISTS = 512;

/** What a tombstone says. */
export type Deletion = RowOf<typeof TOMBSTONES>;

/** A checkpoint that this connection has saved or read: what saves go on from. */
export interface KnownHead {
  ns: string;
  checkpointId: string;
  position: number;
  parentId: string | undefined;
  step: number;
  channels: CheckpointHead["channels"];
  /** What has pending writes on it, as {@link writesKey} tells; undefined if not all of it is known. */
  writes: Set<string> | undefined;
}

/**
 * What a connection knows of a thread, so that it need not be read again. It is true as long as nobody else writes to the database, and no
 * transaction fails; then all of it is forgotten. Every program that changes one of these things in the database changes it here.
 */
export class ThreadFacts {
  /** The deletion that the id remembers; null for none. */
  deletion: Deletion | null | undefined;
  /** The open task, and the newest one in which something ran. */
  tasks: { current: TaskRow | undefined; lastRun: TaskRow | undefined } | undefined;
  /** Whether all effects of the thread have been verified. */
  isJournalVerified = false;
  readonly heads = new Recent<string, KnownHead>(HEADS);
  /** The turns of node tasks that have not ended yet, oldest first. */
  readonly turns = new Recent<string, readonly TurnRow[]>(NODE_TASKS);
  /** The seqs of chunks by address. */
  readonly chunks = new Recent<string, number>(CHUNKS);
  /** The chunk that was stored last was new, so the next one probably is: it is inserted without a look whether it is there. */
  wasChunkNew = false;
  /** By namespace the greatest id that any checkpoint of it has, or had, saved or with writes alone; null for none. */
  readonly greatestIds = new Recent<string, string | null>(HEADS);
  /** The lengths of lists. */
  readonly lists = new Recent<number, number>(LISTS);
  /** The seqs of graphs by digest. */
  readonly graphs = new Map<string, number>();
}

/** The newest entries of a map. */
export class Recent<K, V> {
  readonly #limit: number;
  readonly #entries = new Map<K, V>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  /** Newest last. */
  values(): Iterable<V> {
    return this.#entries.values();
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#limit) return;
    const [oldest] = this.#entries.keys();
    this.#entries.delete(oldest as K);
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }
}

export function headKey(ns: string, checkpointId: string): string {
  return `${ns}\0${checkpointId}`;
}

/** Of writes to the same one the later replace the earlier. */
export function writesKey(nodeTaskId: string, idx: number): string {
  return `${idx} ${nodeTaskId}`;
}
