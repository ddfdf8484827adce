/**
 * The one interface between what a checkpoint, a turn or a rewind *means* and the database that keeps it.
 *
 * Every method answers `T | Promise<T>`. SQLite answers at once, so that a commit has happened when the call returns, which is what
 * gives LangGraph's `durability: "async"` the guarantee of `"sync"`; it answers with a promise only when another process holds the
 * file's lock. Nothing above the store may assume one or the other. Values cross this interface as codec text, never as objects.
 */
export type Awaitable<T> = T | Promise<T>;

export type TurnType = "Thought" | "Action";
export type TurnStatus = "ok" | "error" | "interrupted" | "handoff";
export type ChannelVersion = number | string;

/** What a commit says about the user's task it belongs to; see `ownership.ts`. */
export interface TaskClaim {
  /** `configurable.task_id`, if the caller named one. */
  taskId: string | undefined;
  /** `configurable.graph_id`, if the caller named one. */
  graphId: string | undefined;
  /** `begin`: new input, a Command's update, a fork. `update`: an `updateState` between runs. `resume`: all else. */
  kind: "begin" | "update" | "resume";
  /** What a task that begins here is called unless the caller named it. */
  name: string;
  /** The name an earlier commit of the same beginning had to make do with; a current task of this name is renamed. */
  provisional?: string;
}

/** A part of a value, stored once per thread under the address of its text. */
export interface Chunk {
  address: string;
  /** Produced on demand: mostly the chunk is stored already. */
  text: () => string;
}

/** `list` owns the elements from `from` on, up to where the next segment begins. */
export interface Segment {
  list: number;
  from: number;
}

/** A value as it goes into the store. */
export type PackedValue =
  /** Small enough to stand in the manifest itself. */
  | { kind: "inline"; text: string }
  /** Codec text as a chunk of its own, with the chunks that it refers to. */
  | { kind: "whole"; chunk: Chunk; parts: readonly Chunk[] }
  | PackedList;

/** A list of which only what is not known to be stored has to be looked at. */
export interface PackedList {
  kind: "list";
  length: number;
  /** Over the texts of all elements. */
  digest: string;
  /** Where its first `keep` elements are stored, unless the thread's generation is another by now. */
  known: { segments: readonly Segment[]; keep: number; generation: string } | undefined;
  address(index: number): string;
  chunk(index: number): Chunk;
}

/** What a manifest says about a channel's value: inline text, the address of a chunk, or a stretch of a list. */
export type Pointer =
  | { kind: "inline"; text: string }
  | { kind: "whole"; address: string }
  | { kind: "list"; list: number; length: number; digest: string };

/** A value as it comes out of the store, without the parts that the reader knows already. */
export type StoredValue =
  /** Text is undefined if the reader knows the chunk of that address. */
  | { kind: "text"; address: string | undefined; text: string | undefined }
  /** `stretches` have the elements from `from` on, joined by commas; mostly there is one. */
  | {
      kind: "list";
      list: number;
      length: number;
      digest: string;
      segments: readonly Segment[] | undefined;
      from: number;
      stretches: readonly string[];
    };

/** What a reader remembers from earlier, so that it need not be read again. Addresses and digests prove that it is the same. */
export interface Remembered {
  /** How many leading elements of this list are known. */
  elements(list: number, length: number, digest: string): number;
  chunk(address: string): boolean;
}

export const NOTHING_REMEMBERED: Remembered = { elements: () => 0, chunk: () => false };

export interface NewValue {
  channel: string;
  version: ChannelVersion;
  /** Whether LangGraph named the channel in `newVersions`; if not, the value is carried over and only looked up. */
  isNew: boolean;
  /** Whether equal values have equal forms. A serde may give other bytes each time: then the version has to tell what is stored. */
  comparable: boolean;
  /** Produced on demand: a carried value is seldom needed. */
  packed: () => PackedValue;
  /** All forms in which an equal value may have been stored. */
  forms: () => readonly PackedValue[];
}

/** A text, and the chunks that it refers to. */
export interface PackedText {
  text: string;
  parts: readonly Chunk[];
}

export interface SavedCheckpoint {
  seq: number;
  /** Of the thread; equal generations mean that none of its rows was deleted or brought back in between. */
  generation: string;
  /** Where the list values that were new went, by channel. */
  placed: ReadonlyMap<string, readonly Segment[]>;
  lost: readonly LostTurn[];
}

export interface NewCheckpoint {
  threadId: string;
  ns: string;
  checkpointId: string;
  /** As LangGraph sent it; may equal `checkpointId` (durability "exit"), in which case the known parent is kept. */
  parentId: string | undefined;
  source: string;
  step: number;
  runId: string | undefined;
  /** Codec text of the checkpoint without id, channel values and versions. */
  body: string;
  metadata: string;
  /** The checkpoints of the namespaces around this one, at which its graph was called: id by namespace. */
  above: Readonly<Record<string, string>>;
  sawDeletion: SawDeletion;
  /** Channels whose value has to be put together from the writes of ancestors. */
  delta: readonly string[];
  values: readonly NewValue[];
  /** Of all channels, those without a value among them. */
  versions: Readonly<Record<string, ChannelVersion>>;
  claim: TaskClaim;
  createdAt: string;
  /** Thoughts to record for node tasks that come next; only when no recorder does it better. */
  planned: readonly NewThought[];
}

/**
 * The deletion of the thread that a run found when it began, 0 for none: a save is late if another one stands there by now. Undefined
 * if not known.
 */
export type SawDeletion = number | undefined;

/** Writes of a node task that were saved together. */
export interface StoredWrites {
  nodeTaskId: string;
  /** Codec text of a list of [index, channel, value]. */
  entries: string;
}

/** A checkpoint without its channel values and writes. */
export interface CheckpointHead {
  threadId: string;
  ns: string;
  checkpointId: string;
  parentId: string | undefined;
  seq: number;
  body: string;
  metadata: string;
  /** By channel, in LangGraph's order; channels without a value have a version alone. */
  channels: ReadonlyMap<string, { version: ChannelVersion; pointer: Pointer | undefined }>;
}

/** What several values and writes refer to, read once. */
export interface ReadParts {
  generation: string;
  /** Texts of chunks by address, without those that the reader knows. */
  chunks: ReadonlyMap<string, string>;
}

export interface StoredCheckpoint extends CheckpointHead, ReadParts {
  values: ReadonlyMap<string, StoredValue>;
  writes: readonly StoredWrites[];
}

export interface CheckpointQuery {
  threadId: string | undefined;
  ns: string | undefined;
  checkpointId: string | undefined;
  beforeId: string | undefined;
  /** Where the previous page ended. */
  after: Pick<CheckpointHead, "threadId" | "ns" | "checkpointId"> | undefined;
  limit: number;
}

/** `idx` 0 has all regular writes of the node task, a negative one a special write. */
export interface NewWrite {
  idx: number;
  entries: PackedText;
}

export interface NewWrites {
  threadId: string;
  ns: string;
  checkpointId: string;
  sawDeletion: SawDeletion;
  nodeTaskId: string;
  rows: readonly NewWrite[];
  claim: TaskClaim;
  createdAt: string;
  /** How the node task's Action ends up; undefined for writes that are no node task's. */
  settle: { status: TurnStatus; durable: boolean; update: () => PackedText; actionId: string } | undefined;
}

export interface NewThought {
  id: string;
  threadId: string;
  sawDeletion: SawDeletion;
  nodeName: string;
  /** The node task's namespace, ending in its id, e.g. `sub:<task>|s1:<task>`. */
  nodeNs: string;
  nodeTaskId: string;
  /** The callback run id of this attempt; undefined for a planned Thought. */
  runId: string | undefined;
  step: number;
  /**
   * What the node was called with; undefined if not known. It is kept only where the checkpoint's values do not tell it: `isOwn` (Send,
   * functional tasks), a checkpoint that is not proven, has a Command's update pending, or lacks some of `keys` (delta channels).
   */
  input: { text: () => PackedText; keys: readonly string[]; isOwn: boolean } | undefined;
  claim: TaskClaim;
  createdAt: string;
  /** Tells whether a checkpoint id yields this node task id: the proof which checkpoint the task started from. */
  startedFrom: (checkpointId: string) => boolean;
}

export interface NewAction {
  id: string;
  threadId: string;
  sawDeletion: SawDeletion;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  runId: string;
  step: number;
  claim: TaskClaim;
  status: TurnStatus;
  /** What the node returned, or the error. */
  update: PackedText;
  createdAt: string;
}

/** A row of `langgraph_checkpoints`. */
export interface TurnRow {
  id: string;
  graphId: string;
  nodeName: string;
  turnType: TurnType;
  serializedState: string;
  taskId: string;
  createdAt: string;
  seq: number | undefined;
  stateFormat: "state" | "checkpoint" | "update";
  threadId: string | undefined;
  ns: string | undefined;
  checkpointId: string | undefined;
  nodeNs: string | undefined;
  nodeTaskId: string | undefined;
  runId: string | undefined;
  step: number | undefined;
  attempt: number | undefined;
  status: TurnStatus | undefined;
  durable: boolean;
  inputTokens: number;
  outputTokens: number;
}

/** A turn that a commit could not take along; the commit itself stands (S1.9). */
export interface LostTurn {
  nodeName: string;
  turnType: TurnType;
  error: unknown;
}

export interface TaskRow {
  taskId: string;
  graphId: string;
  kind: "run" | "update";
  /** The first seq of the interval. */
  seq: number;
  createdAt: string;
}

export interface ThreadRow {
  threadId: string;
  createdAt: string;
  /** Number of rewinds and take-backs. */
  epoch: number;
  /** Live checkpoints over all namespaces. */
  checkpoints: number;
  turns: number;
  tasks: number;
}

export interface RunRow {
  runId: string;
  threadId: string;
  host: string;
  pid: number;
  /** What tells a process from a later one with the same pid; empty where the system does not say. */
  pidStart: string;
  startedAt: string;
  /** Milliseconds since the epoch. */
  beatAt: number;
}

/** How many rows of each kind a rewind removes. */
export interface RewindCounts {
  checkpoints: number;
  writes: number;
  turns: number;
  values: number;
  tasks: number;
}

export interface RewindRow {
  id: string;
  threadId: string;
  targetTaskId: string;
  /** All above it went; of a rewind on record it is the newest row that stayed. */
  targetSeq: number;
  seq: number;
  archived: boolean;
  createdAt: string;
  takenBackAt: string | undefined;
}

/** How many rows of each kind were sealed anew; `archived` are those that rewinds keep. */
export interface ResealCounts {
  checkpoints: number;
  values: number;
  writes: number;
  turns: number;
  archived: number;
}

/** How far sealing anew has come; its contents are the store's own. */
export interface ResealCursor {
  table: number;
  after: readonly (string | number)[];
}

/** What a prune removes, or would: checkpoints (each with its older versions counts once) and rows. */
export interface PruneCounts {
  checkpoints: number;
  writes: number;
  turns: number;
  chunks: number;
}

/** Which checkpoints of the root namespace stay; those that satisfy all of what is given. */
export interface PruneCriteria {
  keepLast: number | undefined;
  /** Older ones go; milliseconds since the epoch. */
  before: number | undefined;
}
export type PruneWish = ({ kind: "criteria" } & PruneCriteria) | { kind: "runs"; runIds: readonly string[] };

/** Rows, by seq, that go together. */
export interface PruneUnit {
  isCheckpoint: boolean;
  snapshots: readonly number[];
  writes: readonly number[];
  turns: readonly number[];
}

/** What is to go from a thread. The store notices when the thread has changed, and plans anew. */
export interface PrunePlan {
  threadId: string;
  units: readonly PruneUnit[];
  /** Rewinds whose archives go. */
  archives: readonly string[];
  /** No rewind reaches behind this seq afterwards. */
  floor: number;
  stamp: string;
  /** How many checkpoints were looked at. */
  examined: number;
  /** Checkpoints that were to go, and stay because others need them. */
  spared: readonly { ns: string; checkpointId: string }[];
}

/** Values of a thread that nothing refers to any more. */
export interface SweepPlan {
  threadId: string;
  chunks: readonly number[];
  lists: readonly { list: number; from: number; whole: boolean }[];
  /** How much had been pruned since the last sweep when the plan was made; 0 once the plan is carried out. */
  unswept: number;
  stamp: string;
}

export interface CheckpointName {
  name: string;
  ns: string;
  checkpointId: string;
  createdAt: string;
}

/** The size of the database on disk. */
export interface FileSpace {
  /** With the write-ahead log. */
  bytes: number;
  freePages: number;
  pageBytes: number;
  /** Whether free pages can be given back without writing the whole file anew. */
  givesBack: boolean;
}

export interface DeltaHistory extends ReadParts {
  /** Oldest first, as they are to be replayed; writes to other channels are among them. */
  writes: readonly (StoredWrites & { channel: string })[];
  /** By channel, the nearest ancestor's stored value. */
  seeds: ReadonlyMap<string, StoredValue>;
}

export interface Store {
  /** The address of a part's text within a thread. Throws while {@link awaitsKeys}. */
  address(threadId: string, text: string): string;
  /** Whether the keys of the database are still on their way; all that is asked of the store waits for them, in order. */
  readonly awaitsKeys: boolean;

  putCheckpoint(checkpoint: NewCheckpoint): Awaitable<SavedCheckpoint>;
  putWrites(writes: NewWrites): Awaitable<{ seq: number; turn: TurnRow | undefined; lost: readonly LostTurn[] }>;
  /** The checkpoint of that id, or the one with the greatest id of the namespace. */
  getCheckpoint(
    threadId: string,
    ns: string,
    checkpointId: string | undefined,
    remembered: Remembered,
  ): Awaitable<StoredCheckpoint | undefined>;
  /** One page, greatest checkpoint id first. */
  listCheckpoints(query: CheckpointQuery): Awaitable<readonly CheckpointHead[]>;
  /** Undefined if the checkpoint has gone since its head was read. */
  hydrate(head: CheckpointHead, remembered: Remembered): Awaitable<StoredCheckpoint | undefined>;
  deltaHistory(
    threadId: string,
    ns: string,
    checkpointId: string,
    channels: readonly string[],
    remembered: Remembered,
  ): Awaitable<DeltaHistory>;
  /** Texts of chunks by address. @throws CHECKPOINT_CORRUPTED if one is missing */
  readChunks(threadId: string, addresses: readonly string[]): Awaitable<ReadonlyMap<string, string>>;

  saveThought(thought: NewThought): Awaitable<TurnRow>;
  /** Writes the Action of the attempt `runId` provisionally. */
  saveAction(action: NewAction): Awaitable<TurnRow>;
  /** Adds to the running attempt's Thought, at once, so that usage survives a crash in mid-node. */
  addTokens(threadId: string, nodeTaskId: string, input: number, output: number): Awaitable<void>;
  listTurns(query: { threadId: string; afterSeq?: number; limit?: number }): Awaitable<readonly TurnRow[]>;
  /** Latest Thoughts at a namespace's head that no Action settles. */
  openThoughts(threadId: string): Awaitable<readonly TurnRow[]>;

  /** Which of these node tasks have a turn on the thread. */
  knownNodeTasks(threadId: string, nodeTaskIds: readonly string[]): Awaitable<readonly string[]>;

  listTasks(threadId: string): Awaitable<readonly TaskRow[]>;
  listThreads(query: { after: string | undefined; limit: number }): Awaitable<readonly ThreadRow[]>;
  getThread(threadId: string): Awaitable<ThreadRow | undefined>;
  /** @param final no save is accepted under the id any more, not even one that begins anew */
  deleteThread(threadId: string, deletedAt: number, final: boolean): Awaitable<void>;
  /** Which deletion of the thread was the last one: what {@link SawDeletion} is compared with; 0 for none. */
  deletionOf(threadId: string): Awaitable<number>;
  /** Removes the tombstone. @returns whether there was one */
  reuseThread(threadId: string): Awaitable<boolean>;
  copyThread(sourceId: string, targetId: string, createdAt: string, createId: () => string): Awaitable<void>;

  prunePlan(threadId: string, wish: PruneWish): Awaitable<PrunePlan | undefined>;
  /** Removes the first `limit` units, in one transaction. */
  pruneBatch(plan: PrunePlan, wish: PruneWish, limit: number): Awaitable<{ removed: PruneCounts; rest: PrunePlan }>;
  /** @param without what is to be taken as gone already */
  sweepPlan(threadId: string, without: PrunePlan | undefined): Awaitable<SweepPlan | undefined>;
  /** How many checkpoints, and archives of rewinds, were pruned since the thread was last swept, by whichever process. */
  unswept(threadId: string): Awaitable<number>;
  /** About how many pages of values a sweep would read, looking at so many values at most. */
  pagesToSweep(threadId: string, limit: number): Awaitable<number>;
  /** Removes up to `limit` rows, in one transaction. */
  sweepBatch(plan: SweepPlan, limit: number): Awaitable<{ chunks: number; rest: SweepPlan }>;
  /** How much a thread holds on which nothing was saved since `before` (milliseconds) and nobody is at work; undefined for any other. */
  idleThread(threadId: string, before: number, isAlive: (run: RunRow) => boolean): Awaitable<PruneCounts | undefined>;
  deleteIdleThread(
    threadId: string,
    before: number,
    isAlive: (run: RunRow) => boolean,
    deletedAt: number,
  ): Awaitable<PruneCounts | undefined>;
  /** The threads that have checkpoints of these runs. */
  threadsOfRuns(runIds: readonly string[]): Awaitable<readonly string[]>;

  nameCheckpoint(
    at: { threadId: string; ns: string; checkpointId: string | undefined },
    name: string,
    createdAt: string,
  ): Awaitable<CheckpointName>;
  listNames(threadId: string): Awaitable<readonly CheckpointName[]>;
  unnameCheckpoint(threadId: string, name: string): Awaitable<boolean>;

  space(): Awaitable<FileSpace>;
  /** Gives up to so many free pages back, in one transaction. */
  giveBackPages(pages: number): Awaitable<void>;
  /** Brings the write-ahead log into the file, so that the file gets smaller; `truncate` empties the log too. */
  checkpointLog(truncate: boolean): Awaitable<void>;
  /** Writes the file anew. */
  vacuumFully(): Awaitable<void>;

  /** Marks a thread as running. `guard` sees the marks there are, in the transaction: what it throws refuses, what it returns is cleared. */
  beginRun(run: RunRow, guard: (others: readonly RunRow[]) => readonly RunRow[]): Awaitable<void>;
  beatRun(runId: string, at: number): Awaitable<void>;
  endRun(runId: string): Awaitable<void>;
  listRuns(threadId: string): Awaitable<readonly RunRow[]>;

  countBehind(threadId: string, seq: number): Awaitable<RewindCounts>;
  /**
   * Deletes what has a seq above `targetSeq`, in one transaction. `guard` is asked inside it: what it throws leaves all as it was.
   */
  rewind(
    rewind: Omit<RewindRow, "seq" | "takenBackAt">,
    guard: (runs: readonly RunRow[], tasks: readonly TaskRow[]) => void,
  ): Awaitable<RewindCounts>;
  listRewinds(threadId: string): Awaitable<readonly RewindRow[]>;
  /** Brings a rewind's rows back, in one transaction, unless `guard` throws. */
  takeBack(rewindId: string, at: string, guard: (runs: readonly RunRow[]) => void): Awaitable<RewindCounts>;

  /** Seals rows anew under the current key, for a moment, from where the last call ended. @throws NOT_ENCRYPTED, CHECKPOINT_CORRUPTED */
  reseal(after: ResealCursor | undefined): Awaitable<{ resealed: Partial<ResealCounts>; next: ResealCursor | undefined }>;
  /** Forgets all keys but the current one, if nothing is sealed under them any more. @returns how many; undefined if something is */
  retireKeys(): Awaitable<{ keyId: string; retired: number | undefined }>;

  close(): void;
  readonly open: boolean;
}
