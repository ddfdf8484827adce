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

export interface NewValue {
  channel: string;
  version: ChannelVersion;
  /** Whether LangGraph named the channel in `newVersions`; if not, the value is carried over and only looked up. */
  isNew: boolean;
  /** Codec text, produced on demand: a carried value is seldom needed. */
  text: () => string;
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
  /** Codec text of the checkpoint without id and channel values. */
  body: string;
  metadata: string;
  values: readonly NewValue[];
  /** Of all channels, those without a value among them. */
  versions: Readonly<Record<string, ChannelVersion>>;
  claim: TaskClaim;
  createdAt: string;
  /** Thoughts to record for node tasks that come next; only when no recorder does it better. */
  planned: readonly NewThought[];
}

export interface StoredWrite {
  nodeTaskId: string;
  channel: string;
  /** Codec text. */
  value: string;
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
  /** Channel → [version, content hash]. */
  channels: Readonly<Record<string, readonly [ChannelVersion, string]>>;
}

export interface StoredCheckpoint extends CheckpointHead {
  /** Codec text by channel. */
  values: ReadonlyMap<string, string>;
  writes: readonly StoredWrite[];
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

export interface NewWrite {
  idx: number;
  channel: string;
  value: string;
}

export interface NewWrites {
  threadId: string;
  ns: string;
  checkpointId: string;
  nodeTaskId: string;
  rows: readonly NewWrite[];
  claim: TaskClaim;
  createdAt: string;
  /** How the node task's Action ends up; undefined for writes that are no node task's. */
  settle: { status: TurnStatus; durable: boolean; update: () => string; actionId: string } | undefined;
}

export interface NewThought {
  id: string;
  threadId: string;
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
  input: { text: () => string; keys: readonly string[]; isOwn: boolean } | undefined;
  claim: TaskClaim;
  createdAt: string;
  /** Tells whether a checkpoint id yields this node task id: the proof which checkpoint the task started from. */
  startedFrom: (checkpointId: string) => boolean;
}

export interface NewAction {
  id: string;
  threadId: string;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  runId: string;
  step: number;
  claim: TaskClaim;
  status: TurnStatus;
  /** Codec text of what the node returned, or of the error. */
  update: string;
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

export interface DeltaRow {
  channel: string;
  nodeTaskId: string;
  value: string;
}

export interface DeltaHistory {
  /** Oldest first, as they are to be replayed. */
  writes: readonly DeltaRow[];
  /** Codec text by channel of the nearest ancestor's stored value. */
  seeds: ReadonlyMap<string, string>;
}

export interface Store {
  putCheckpoint(checkpoint: NewCheckpoint): Awaitable<{ seq: number; lost: readonly LostTurn[] }>;
  putWrites(writes: NewWrites): Awaitable<{ seq: number; turn: TurnRow | undefined; lost: readonly LostTurn[] }>;
  /** The checkpoint of that id, or the one with the greatest id of the namespace. */
  getCheckpoint(threadId: string, ns: string, checkpointId: string | undefined): Awaitable<StoredCheckpoint | undefined>;
  /** One page, greatest checkpoint id first. */
  listCheckpoints(query: CheckpointQuery): Awaitable<readonly CheckpointHead[]>;
  hydrate(head: CheckpointHead): Awaitable<StoredCheckpoint>;
  deltaHistory(threadId: string, ns: string, checkpointId: string, channels: readonly string[]): Awaitable<DeltaHistory>;

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
  deleteThread(threadId: string): Awaitable<void>;
  copyThread(sourceId: string, targetId: string, createdAt: string, createId: () => string): Awaitable<void>;

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

  close(): void;
  readonly open: boolean;
}
