import type { EffectRecord } from "./effects";
import type { BackupOrder, UnpublishedBackup } from "./backup";
import type { TurnsError } from "../errors";
import type { ChangesQuery, FoundChanges, Hints, Place } from "./changes";
import type { EffectRow, EffectStatus, UndoStatus } from "./effects";
import type { Drift } from "./schema-drift";
import type { StoredSize, StoredText, TableSize, TaskTokens, ThreadActivity, ThreadSize, Writer } from "./inspection";
import type { Verification } from "./integrity";
import type { Arrival, Departure, Destination, MoveCursor, MovedKind, MovedLists, MovedRow, MovedTo } from "./moves";
import type { NAMES, RECOVERIES, RowOf, SNAPSHOTS, TASKS, TURNS } from "./tables";

/**
 * The one interface between the meaning of a checkpoint, turn or rewind and the database that keeps it.
 *
 * Every method answers `T | Promise<T>`. SQLite answers at once: the commit has happened when the call returns, which gives
 * LangGraph's `durability: "async"` the guarantee of `"sync"`. It answers with a promise only while another process holds the
 * file's lock. Nothing above the store may assume one or the other. Values cross this interface as codec text, never as objects.
 */
export type Awaitable<T> = T | Promise<T>;

export type TurnType = "Thought" | "Action";
export type TurnStatus = "ok" | "error" | "interrupted" | "handoff";
export type ChannelVersion = number | string;

/** How a commit says which of the user's tasks it belongs to; see `ownership.ts`. */
export interface TaskClaim {
  /** `configurable.task_id`, if the caller named one. */
  taskId: string | undefined;
  /** `configurable.graph_id`, if the caller named one. */
  graphId: string | undefined;
  /** `begin`: new input, a Command's update, a fork. `update`: an `updateState` between runs. `resume`: all else. */
  kind: "begin" | "update" | "resume";
  /** The name of a task that begins here, unless the caller named it. */
  name: string;
  /** The name that an earlier commit of the same beginning had to use. A current task of this name is renamed. */
  provisional?: string;
}

/** A part of a value, stored once per thread under the address of its text. */
export interface Chunk {
  readonly address: string;
  /** Of an unchanged part, which usually is stored already, the text may be made when it is read. */
  readonly text: string;
}

/** `list` owns the elements from `from` up to the start of the next segment. */
export interface Segment {
  list: number;
  from: number;
}

/** A value as it goes into the store. */
export type PackedValue =
  /** Small enough to be in the manifest itself. */
  { kind: "inline"; text: string } | PackedWhole | PackedList;

/** Codec text as a chunk of its own, with the chunks that it refers to. */
export interface PackedWhole {
  readonly kind: "whole";
  readonly chunk: Chunk;
  readonly parts: readonly Chunk[];
}

/** A list. Only the elements that aren't known to be stored have to be visited. */
export interface PackedList {
  kind: "list";
  length: number;
  /** Over the texts of all elements. */
  digest: string;
  /** Where its first `keep` elements are stored. Valid for this generation of the thread only. */
  known: { segments: readonly Segment[]; keep: number; generation: string } | undefined;
  address(index: number): string;
  chunk(index: number): Chunk;
}

/** What a manifest says about a channel's value: inline text, the address of a chunk, or a stretch of a list. */
export type Pointer =
  | { kind: "inline"; text: string }
  | { kind: "whole"; address: string }
  | { kind: "list"; list: number; length: number; digest: string };

export type ListPointer = Extract<Pointer, { kind: "list" }>;

/** A value as it is read from the store, without the parts that the reader knows already. */
export type StoredValue =
  /** Text is undefined if the reader knows the chunk of that address. */
  | { kind: "text"; address: string | undefined; text: string | undefined }
  /** `stretches` have the elements from `from` on, as JSON lists; usually there is one. */
  | {
      kind: "list";
      list: number;
      length: number;
      digest: string;
      segments: readonly Segment[] | undefined;
      from: number;
      stretches: readonly string[];
    };

/** What a reader remembers, so that it need not be read again. Addresses and digests prove that it is the same. */
export interface Remembered {
  /** How many leading elements of this list are known. */
  elements(list: number, length: number, digest: string): number;
  chunk(address: string): boolean;
}

export const NOTHING_REMEMBERED: Remembered = { elements: () => 0, chunk: () => false };

/**
 * The values of a checkpoint to be saved, by channel. Only a value's content tells whether the store has it already: versions
 * prove nothing.
 */
export interface NewValues {
  readonly packed: ReadonlyMap<string, PackedValue>;
}

/** A text, and the chunks that it refers to. */
export interface PackedText {
  readonly text: string;
  readonly parts: readonly Chunk[];
}

export interface SavedCheckpoint {
  seq: number;
  /** The thread's generation. Equal generations mean that none of its rows was deleted or restored in between. */
  generation: string;
  /** Where the list values are, by channel. */
  placed: ReadonlyMap<string, readonly Segment[]>;
  /** Actions that {@link NewCheckpoint.outcomes} made. */
  actions: readonly TurnRow[];
  lost: readonly LostTurn[];
}

export interface CopyOrder {
  sourceId: string;
  targetId: string;
  createdAt: string;
  createId: () => string;
  /** In one transaction, even for a large thread. */
  atOnce: boolean;
  /** Nobody removes the rows of an unfinished copy while this run is alive. */
  run: RunRow;
}

/**
 * Fences the commits of a run: its row in `langgraph_runs`. Taking over the thread removes that row, and every later commit of
 * the run is refused (LEASE_LOST), no matter how long its process was stopped in between. Undefined if no run is known, and for a
 * run whose row couldn't be written.
 */
export interface Lease {
  runId: string;
  threadId: string;
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
  /** Codec text of the checkpoint without id, channel values and versions; with a serde also of `above`, as `parents`. */
  body: string;
  metadata: string;
  /** The checkpoints of the enclosing namespaces, at which this graph was called: id by namespace. */
  above: Readonly<Record<string, string>>;
  sawDeletion: SawDeletion;
  sawEpoch: SawEpoch;
  lease?: Lease | undefined;
  /** Channels whose value is rebuilt from the writes of ancestors. */
  delta: readonly string[];
  values: NewValues;
  /** The versions of all channels that have one, including channels without a value. */
  versions: Readonly<Record<string, ChannelVersion>>;
  claim: TaskClaim;
  createdAt: string;
  /** The graph runs that may be saving this checkpoint. */
  graphRuns: readonly string[];
  /** Thoughts to record for the next node tasks; only if no recorder does it better. */
  planned: readonly NewThought[];
  /** Outcomes of this checkpoint's tasks whose writes were handed in before it, oldest first. */
  outcomes: readonly EarlyOutcome[];
  /** Outcomes of node tasks that it contains, and whose writes were never handed in: durability "exit". */
  completed: readonly EarlyOutcome[];
  /** Whether its parent may be a checkpoint that couldn't be saved (`onCheckpointError: "continue"`). */
  mayHaveHoles: boolean;
}

/** What {@link NewWrites} say about their node task's Action. */
export interface EarlyOutcome extends Pick<NewWrites, "nodeTaskId" | "createdAt"> {
  settle: NonNullable<NewWrites["settle"]>;
}

/**
 * The thread's latest deletion when a run began, 0 for none. A save of that run is late if there is a newer deletion now.
 * Undefined if not known.
 */
export type SawDeletion = number | undefined;

/** The thread's epoch when a run began. A greater one now means that the thread was rewound meanwhile. Undefined if not known. */
export type SawEpoch = number | undefined;

/** Writes of a node task that were saved together. Lists of them are in the order of `compareWrites`. */
export interface StoredWrites {
  nodeTaskId: string;
  /** Codec text of a list of [index, channel, value]. */
  entries: string;
}

export interface ChannelEntry {
  readonly version: ChannelVersion | undefined;
  readonly pointer: Pointer | undefined;
  /**
   * Its text in manifests, including the channel, once it was written. A channel that doesn't change from one checkpoint to the
   * next shares one entry.
   */
  text?: string;
}

/** A checkpoint without its channel values and writes: a row of `langgraph_snapshots`. */
export type CheckpointHead = Omit<RowOf<typeof SNAPSHOTS>, "channels"> & {
  threadId: string;
  /** By channel. A channel without a value has only a version; one that nobody has written yet may have only a value. */
  channels: ReadonlyMap<string, ChannelEntry>;
};

/** Parts that several values and writes refer to, read once. */
export interface ReadParts {
  generation: string;
  /** Texts of chunks by address, except those that the reader knows. */
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
  /** Only checkpoints that were first saved before this one; on a thread that doesn't know it, only smaller ids. */
  beforeId: string | undefined;
  /**
   * `beforeId` belongs to the run that asks. If the thread doesn't know it, it isn't saved yet ("exit"), and everything else came
   * before it.
   */
  isOfRun: boolean;
  /** The `place` of the last row on the previous page. */
  after: number | undefined;
  limit: number;
}

/** `position` grows in the order of first saving. */
export interface CheckpointPlace {
  ns: string;
  position: number;
}

/** `place` decreases from one to the next, over all pages of a list. */
export type ListedHead = CheckpointHead & { place: number };

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
  sawEpoch: SawEpoch;
  lease?: Lease | undefined;
  nodeTaskId: string;
  /** LangGraph's path of the task; '' for writes of no task. */
  taskPath: string;
  rows: readonly NewWrite[];
  claim: TaskClaim;
  createdAt: string;
  /** The outcome of the node task's Action; undefined for writes of no node task. */
  settle:
    | {
        status: TurnStatus;
        durable: boolean;
        /** The content of an Action that has to be inserted; undefined for none. */
        update: PackedText | undefined;
        /** Replaces `update` where the user's `redact` decides, which needs information that only the Thought has. */
        redacted?: (thought: TurnRow) => PackedText | undefined;
        actionId: string;
      }
    | undefined;
}

export interface TurnState {
  /**
   * Of a Thought: "checkpoint" if its checkpoint has the state, except for what `packed` has; "state" if the row has the state
   * itself.
   */
  format: TurnRow["stateFormat"];
  packed: PackedText | undefined;
}

export interface NewThought {
  id: string;
  threadId: string;
  sawDeletion: SawDeletion;
  lease?: Lease | undefined;
  nodeName: string;
  /** The node task's namespace, ending in its id, e.g. `sub:<task>|s1:<task>`. */
  nodeNs: string;
  nodeTaskId: string;
  /** The callback run id of this attempt; undefined for a planned Thought. */
  runId: string | undefined;
  step: number;
  state: TurnState;
  claim: TaskClaim;
  createdAt: string;
  graph: GraphReference | undefined;
  /** Of the node in that graph. */
  fingerprint: string | undefined;
  /** The checkpoint that the node task started from, as its id proves; undefined if that isn't known. */
  start: { ns: string; checkpointId: string } | undefined;
  /** Whether its node doesn't run if a save of its graph, or of an enclosing graph, fails. */
  needsSaves: boolean;
}

export interface NewAction {
  id: string;
  threadId: string;
  sawDeletion: SawDeletion;
  lease?: Lease | undefined;
  nodeName: string;
  nodeNs: string;
  nodeTaskId: string;
  runId: string;
  step: number;
  claim: TaskClaim;
  status: TurnStatus;
  /** The output of the node, or the error; undefined if the row is to hold nothing. */
  update: PackedText | undefined;
  createdAt: string;
  /** As in the Thought; used if there is no Thought. */
  graph: GraphReference | undefined;
  fingerprint: string | undefined;
}

/** The content of a graph, stored once per thread and content. */
export interface GraphReference {
  digest: string;
  document: () => string;
}

/** A stored graph, and the turns that ran in it. */
export interface GraphRow {
  digest: string;
  document: string;
  turnIds: readonly string[];
}

/** Usage as models reported it: `cached` is a part of `input`, and `reasoning` of `output`. */
export interface TokenCounts {
  input: number;
  output: number;
  cached: number;
  reasoning: number;
}

/** The tokens of one task's attempts at one node. */
export interface TokenRow extends TokenCounts {
  taskId: string;
  nodeName: string;
}

/** A row of `langgraph_checkpoints`. */
export type TurnRow = RowOf<typeof TURNS>;

/** A turn that a commit couldn't save; the commit itself stands (S1.9). */
export interface LostTurn {
  nodeName: string;
  turnType: TurnType;
  error: unknown;
}

export type TaskRow = RowOf<typeof TASKS>;

/**
 * The run that a thread's newest checkpoint belongs to: what led to it since its input. Other branches of the history don't
 * belong to it.
 */
export interface LastRun {
  /** The task of the newest interval in which something ran. */
  taskId: string | undefined;
  graphId: string | undefined;
  /** The checkpoint that brought the run's input; undefined if none did, or it no longer exists. */
  inputId: string | undefined;
  /** The checkpoint before the run, if its input was never saved: durability "exit". Undefined on a new thread. */
  beforeId: string | undefined;
  /** The smallest seq that can belong to the run. */
  sinceSeq: number;
  /** The ids of its checkpoints in the root namespace whose node tasks led to the newest one, which comes first. */
  branch: readonly string[];
  /** Its updates and forks, newest first. `behind`: how many ids of `branch` are at least as new. */
  changes: readonly { id: string; parentId: string | undefined; seq: number; behind: number }[];
  /** The answers saved at the newest checkpoint, as seqs: by the id of their question, or `NULL_TASK_ID` for an answer without one. */
  answers: ReadonlyMap<string, number>;
  /** The node tasks of the newest checkpoint that have asked and have no result, each with the seq of its newest question. */
  asked: ReadonlyMap<string, number>;
  /**
   * CHECKPOINT_CORRUPTED if its checkpoints aren't what was saved. Then the other fields serve only to start again from scratch.
   */
  damage: TurnsError | undefined;
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

/** A heartbeat time: the process has left the thread unfinished, for recovery. */
export const LEFT = -1;

export interface RunRow {
  runId: string;
  threadId: string;
  host: string;
  /** Identifies the machine and its last start; empty if the system doesn't say. */
  boot: string;
  pid: number;
  /** Distinguishes a process from a later one with the same pid; empty if the system doesn't say. */
  pidStart: string;
  startedAt: string;
  /**
   * Milliseconds of the machine's uptime. 0: it was silent for so long that anybody may take the thread. -1: its process has left
   * it unfinished, for recovery.
   */
  beatAt: number;
  /** How long ago that was by the database's clock, in milliseconds; undefined if the database has none of its own. */
  quietMs?: number;
}

/** What is recorded of recovering a thread. Each of its tries starts where the one before stopped. */
export interface RecoveryRow extends RowOf<typeof RECOVERIES> {
  threadId: string;
  /** How long ago the last try was, by the database's clock; negative if that was set back since. */
  sinceMs: number;
}

/** A try to recover a thread, before or after its run. */
export type RecoveryTry = Pick<RecoveryRow, "tries" | "progress" | "waitMs">;

/** How a thread was found that somebody wants to recover. */
export interface RecoveryClaim {
  /** Its runs without a live process. */
  runIds: readonly string[];
  /** What was recorded of recovering it; undefined if nothing was. */
  seen: Pick<RecoveryRow, "tries" | "triedAt"> | undefined;
  next: RecoveryTry;
  /** This machine's clock, for a database without its own. */
  at: number;
}

/** A call of `effect()`. */
export interface NewEffect {
  id: string;
  threadId: string;
  sawDeletion: SawDeletion;
  lease?: Lease | undefined;
  claim: TaskClaim;
  nodeNs: string;
  nodeTaskId: string;
  spot: string;
  anchor: string | undefined;
  /** The checkpoints of the graphs that its node is in, inside the outermost one, by namespace. */
  innerAnchors: Readonly<Record<string, string>>;
  /** The thread of the outermost graph, which the anchor is a checkpoint of. */
  rootThreadId: string;
  run: string;
  /** The outermost graph run. */
  graphRun: string;
  name: string;
  label: string;
  /** Whether the caller named the label; an ordinal may also be found by its input. */
  labelled: boolean;
  /** The row that each call of the same attempt has taken, by the call's id. The store maintains it. */
  taken: Map<string, string>;
  /** Rows of the same attempt that failed or are in doubt. A call with the same input retries such a row. */
  unhappy: readonly string[];
  /** Whether to accept a recorded input that differs. */
  anyInput: boolean;
  idempotent: boolean;
  undo: string | undefined;
  input: PackedText | undefined;
  process: string;
  startedAt: string;
}

/**
 * `begun`: the intent is committed, go. `found`: the row has the answer. `changed`: the row has another input. `unclear`: a
 * similar effect has just failed, and nothing tells whether this call retries it. `lost`: a similar effect belongs to a run, or
 * to a graph call, that saved nothing. Nobody can know whether this call is the same side effect.
 */
export type EffectBeginning = { kind: "begun" | "found" | "changed" | "unclear" | "lost"; row: EffectRow };

/** The outcome of an effect. */
export interface EffectSettlement {
  status: EffectStatus;
  /** The effect as it was when the outcome became known. If somebody has retried or undone it since, nothing is changed. */
  seen?: Pick<EffectRow, "tries" | "undoStatus" | "threadId">;
  /** The recorded outcome of a completed effect that this one replaces. */
  replaces?: string | undefined;
  outcome: PackedText | undefined;
  endedAt: string;
  settledBy: string | undefined;
}

/** The outcome of an undo. */
export interface UndoOutcome {
  status: UndoStatus | undefined;
  error: string | undefined;
  at: string;
  /** The thread of its effect, if that is known. */
  threadId?: string;
  /** Checked only if given: the save needs this lease. */
  lease?: Lease | undefined;
}

/** How many rows of each kind a rewind removes. */
export interface RewindCounts {
  checkpoints: number;
  writes: number;
  turns: number;
  values: number;
  tasks: number;
  effects: number;
}

export interface RewindRow {
  id: string;
  threadId: string;
  targetTaskId: string;
  /** Everything above it was deleted. For a recorded rewind it is the newest row that stayed. */
  targetSeq: number;
  seq: number;
  archived: boolean;
  createdAt: string;
  takenBackAt: string | undefined;
  /** `undoing`: begun and not finished. Effects behind its target are being undone, and nothing has been deleted. */
  status: "undoing" | "done" | "abandoned";
  /** Undefined for a rewind that a person requested. */
  reason: string | undefined;
}

/** A rewind that is about to be carried out, or begun. */
export type NewRewind = Omit<RewindRow, "seq" | "takenBackAt" | "status">;

/** The thread's situation for a rewind, read within its transaction. */
export interface RewindStanding {
  runs: readonly RunRow[];
  tasks: readonly TaskRow[];
  /** Behind the target, oldest first. */
  effects: readonly EffectRow[];
  /** The thread's rewind that was begun and is not finished. */
  unfinished: RewindRow | undefined;
}

/** The thread's situation for taking a rewind back. */
export interface TakeBackStanding extends Pick<RewindStanding, "runs" | "unfinished"> {
  /** Effects that taking it back would restore although they have been undone, newest first. */
  undone: readonly { id: string; name: string; nodeName: string }[];
}

/** How many rows of each kind were sealed again. `archived` are those that rewinds keep. */
export interface ResealCounts {
  checkpoints: number;
  values: number;
  writes: number;
  turns: number;
  effects: number;
  recoveries: number;
  archived: number;
}

/** How far re-sealing has come. Its contents are private to the store. */
export interface ResealCursor {
  table: number;
  after: readonly (string | number)[];
}

/** What a prune removes, or would remove: checkpoints (each counts once with its older versions) and rows. */
export interface PruneCounts {
  checkpoints: number;
  writes: number;
  turns: number;
  chunks: number;
}

/** Which checkpoints of the root namespace stay: those that `keepLast` or `keepTasks` keeps, unless they are too old. */
export interface PruneCriteria {
  keepLast: number | undefined;
  keepTasks: number | undefined;
  /** Older ones are removed; milliseconds since the epoch. */
  before: number | undefined;
}
export type PruneWish = ({ kind: "criteria" } & PruneCriteria) | { kind: "runs"; runIds: readonly string[] };

/** Rows, by seq, that are removed together. */
export interface PruneUnit {
  isCheckpoint: boolean;
  /** What follows belongs to another root. A root reads as before only with all checkpoints of its subgraphs. */
  isLast: boolean;
  snapshots: readonly number[];
  writes: readonly number[];
  turns: readonly number[];
}

/** What to remove from a thread. The store notices when the thread has changed, and plans again. */
export interface PrunePlan {
  threadId: string;
  units: readonly PruneUnit[];
  /** Rewinds whose archives are removed. */
  archives: readonly string[];
  /** No rewind reaches behind this seq afterwards. */
  floor: number;
  stamp: string;
  /** How many checkpoints were examined. */
  examined: number;
  /** Checkpoints that were to be removed, and stay because others need them. */
  spared: readonly { ns: string; checkpointId: string }[];
}

/** Values of a thread that nothing refers to any more. */
export interface SweepPlan {
  threadId: string;
  chunks: readonly number[];
  lists: readonly { list: number; from: number; whole: boolean }[];
  /** How much had been pruned since the last sweep when the plan was made; 0 after the plan was carried out. */
  unswept: number;
  stamp: string;
}

export type CheckpointName = RowOf<typeof NAMES>;

/** The size of the database on disk. */
export interface FileSpace {
  /** Including the write-ahead log. */
  bytes: number;
  /** What `bytes` is once the log has been moved into the file. */
  pagesBytes: number;
  /** The write-ahead log beside the file; 0 where there is none. */
  logBytes: number;
  freePages: number;
  pageBytes: number;
  /** Whether free pages can be given back without rewriting the whole file. */
  givesBack: boolean;
}

/** What the transaction that marks a run reads of its thread. */
export interface FoundAtStart {
  /** As {@link Store.foundBy} tells them. */
  deletion: number;
  epoch: number;
  /** The newest root checkpoint, as {@link Store.getCheckpoint} reads it. */
  checkpoint(remembered: Remembered): Awaitable<StoredCheckpoint | undefined>;
}

export interface DeltaHistory extends ReadParts {
  /**
   * In replay order: oldest checkpoint first, and within a checkpoint as `compareWrites` orders them. Includes writes to other
   * channels.
   */
  writes: readonly (StoredWrites & { channel: string })[];
  /** The stored value of the nearest ancestor that has one, by channel. */
  seeds: ReadonlyMap<string, StoredValue>;
}

/** See {@link Store.asked}. */
export interface AskedWrites extends ReadParts {
  writes: readonly (StoredWrites & { seq: number; ns: string; checkpointId: string; taskPath: string })[];
}

/** A turn with all that its state is made of. */
export interface LoggedTurn {
  turn: TurnRow;
  /** The parts that a recorded turn's state refers to, by address. */
  chunks: ReadonlyMap<string, string>;
  /** The checkpoint that it started from, if its state is that one's. @throws what reading it threw */
  checkpoint: () => StoredCheckpoint | undefined;
}

/**
 * When a save is committed. `now`: before the call returns, unless another process holds the lock. `boundary`: at the end of the
 * macrotask, together with everything handed in by then. Wait for the promise to know that it's committed.
 */
export type When = "now" | "boundary";

/** What people look for in a database, over all threads or in one. Nothing here changes anything. Pages are ordered by key. */
/** Pending writes to read with a checkpoint. `special`: only LangGraph's own, such as questions and errors. */
export type WantedWrites = "all" | "special" | "none";

export interface Inspection {
  /** A page of all threads, by id; or the one that is named. */
  activity(query: { after?: string | undefined; limit: number; threadId?: string }): Awaitable<readonly ThreadActivity[]>;
  /** The first checkpoint of a namespace that was saved behind a seq; undefined if there is none. */
  checkpointBehind(query: { threadId: string; ns: string; seq: number }): Awaitable<CheckpointHead | undefined>;
  /** The marks of all runs, live or not. */
  runs(): Awaitable<readonly RunRow[]>;
  unfinishedRewinds(): Awaitable<readonly RewindRow[]>;
  /** A rewind, and how many effects it has undone. @throws {TurnsError} REWIND_NOT_FOUND */
  rewindToTakeBack(rewindId: string): Awaitable<{ rewind: RewindRow; undone: number }>;
  /** A page of the effects with an unknown outcome, and of those whose undo failed or is in doubt, by seq. */
  openEffects(query: { afterSeq: number; limit: number }): Awaitable<readonly EffectRow[]>;
  /** Threads with a question or an error that a node left on a checkpoint, by id. A later answer may have settled it. */
  threadsWithSpecialWrites(query: { after: string; limit: number }): Awaitable<readonly string[]>;
  /** The newest turns up to a seq, newest first. */
  turnsBefore(query: { threadId: string; beforeSeq: number; limit: number }): Awaitable<readonly TurnRow[]>;
  /**
   * A thread's tasks with their tokens, the one that ran last at the end. The database adds them up, so no checksum is looked at: for lists, where
   * {@link Store.tokenUsage} would read every turn of every thread.
   */
  taskTokens(threadId: string): Awaitable<readonly TaskTokens[]>;
  /** The newest turn of each of these node tasks. */
  turnsOfNodeTasks(threadId: string, nodeTaskIds: readonly string[]): Awaitable<readonly TurnRow[]>;
  /** Which node tasks wrote to which channels on a checkpoint. */
  writers(threadId: string, ns: string, checkpointId: string): Awaitable<readonly Writer[]>;
  /**
   * The text of a value that is stored under an address, with addresses in place of its larger parts. Undefined if it's longer
   * than 64 KB.
   */
  shortText(threadId: string, address: string): Awaitable<string | undefined>;
  /** How many leading elements two lists of a thread have in common. Their contents aren't read. */
  commonPrefix(threadId: string, left: ListPointer, right: ListPointer): Awaitable<number>;
  tableSizes(): Awaitable<readonly TableSize[]>;
  /** The largest threads, largest first. */
  threadSizes(limit: number): Awaitable<readonly ThreadSize[]>;
  /** How much is stored for the channels of a checkpoint, by channel. */
  channelSizes(head: CheckpointHead): Awaitable<ReadonlyMap<string, StoredSize>>;
  /** A page of a thread's texts of one kind, opened and verified, by seq. */
  texts(query: { threadId: string; kind: StoredText["kind"]; afterSeq: number; limit: number }): Awaitable<readonly StoredText[]>;
  /** What the database and its server are set to, by name. */
  settings(): Awaitable<Readonly<Record<string, string>>>;
  /** How the tables differ from those that the migrations make. */
  schemaDrift(): Awaitable<readonly Drift[]>;
  /** The newest version that this package knows, and the statements of all migrations. */
  migrations(): Awaitable<{ newest: number; sql: string }>;
  /** The ids of the keys that the database is encrypted with; none if it isn't. */
  keyIds(): Awaitable<readonly string[]>;
  /** The ids of some effects that begin so, over all threads. */
  effectIds(beginning: string): Awaitable<readonly string[]>;
}

export interface Store {
  /** The address of a part's text within a thread. Throws while {@link awaitsKeys}. */
  address(threadId: string, text: string): string;
  /** Whether the keys of the database are still on their way. All calls wait for them, in order. */
  awaitsKeys(): boolean;

  putCheckpoint(checkpoint: NewCheckpoint, when?: When): Awaitable<SavedCheckpoint>;
  putWrites(writes: NewWrites, when?: When): Awaitable<{ seq: number; turn: TurnRow | undefined; lost: readonly LostTurn[] }>;
  /** The checkpoint of that id, or the newest one of the namespace. */
  getCheckpoint(
    threadId: string,
    ns: string,
    checkpointId: string | undefined,
    remembered: Remembered,
  ): Awaitable<StoredCheckpoint | undefined>;
  /** The run of the newest checkpoint; undefined if there is neither a checkpoint nor a task. */
  lastRun(threadId: string): Awaitable<LastRun | undefined>;
  /** All versions, from a seq on, of what node tasks asked and of the answers that they had got; oldest first. */
  asked(threadId: string, sinceSeq: number, remembered: Remembered): Awaitable<AskedWrites>;
  /** One page, newest first. */
  listCheckpoints(query: CheckpointQuery): Awaitable<readonly ListedHead[]>;
  /**
   * The place of a checkpoint in its thread; undefined if the thread doesn't know it.
   * @param ns undefined for any namespace
   */
  placeOf(threadId: string, ns: string | undefined, checkpointId: string): Awaitable<CheckpointPlace | undefined>;
  /**
   * Undefined if the checkpoint was deleted after its head was read.
   * @param wanted which of its pending writes to read
   */
  hydrate(head: CheckpointHead, remembered: Remembered, wanted: WantedWrites): Awaitable<StoredCheckpoint | undefined>;
  /** {@link hydrate} of checkpoints of one thread: see `hydratePage`. */
  hydratePage(
    heads: readonly CheckpointHead[],
    remembered: Remembered,
  ): Awaitable<readonly (StoredCheckpoint | "unread" | undefined)[]>;
  /** Whether each call takes a round trip, so that reading many checkpoints at once is faster. */
  readonly isRemote: boolean;
  deltaHistory(
    threadId: string,
    ns: string,
    checkpointId: string,
    channels: readonly string[],
    remembered: Remembered,
  ): Awaitable<DeltaHistory>;
  /** Texts of chunks by address. @throws CHECKPOINT_CORRUPTED if one is missing */
  readChunks(threadId: string, addresses: readonly string[]): Awaitable<ReadonlyMap<string, string>>;

  saveThought(thought: NewThought, when?: When): Awaitable<TurnRow>;
  /** Writes the Action of the attempt `runId` provisionally. */
  saveAction(action: NewAction, when?: When): Awaitable<TurnRow>;
  /**
   * Adds to the attempt's Thought at once, so that usage survives a crash in mid-node. It also adds to its Action, if the attempt
   * has already finished.
   *
   * @param of the attempt; without a run, or with one that has no Thought, the node task's newest
   */
  addTokens(
    of: { threadId: string; nodeTaskId: string; attemptRunId: string | undefined; lease?: Lease | undefined },
    tokens: TokenCounts,
  ): Awaitable<void>;
  /**
   * A thread's tokens by task and node, in the order in which they first appeared, those of pruned turns first. `rewound` are
   * those of turns that rewinds keep in their archives. Only sums, so no row is verified.
   */
  tokenUsage(threadId: string): Awaitable<{ rows: readonly TokenRow[]; rewound: TokenCounts }>;
  listTurns(query: { threadId: string; afterSeq?: number; limit?: number }): Awaitable<readonly TurnRow[]>;
  /** The latest Thoughts at a namespace's head that no Action settles. */
  openThoughts(threadId: string): Awaitable<readonly TurnRow[]>;

  /**
   * Notes the verdict of a gate in an Action.
   *
   * @param status its new status, if it gets one
   * @returns undefined if the turn no longer exists
   */
  saveValidation(
    turnId: string,
    validation: string,
    status: TurnStatus | undefined,
    lease?: Lease,
  ): Awaitable<TurnRow | undefined>;
  /** The graphs that these turns ran in, oldest turn first. */
  graphsOfTurns(threadId: string, turnIds: readonly string[]): Awaitable<readonly GraphRow[]>;
  /** Which of these node tasks have a turn on the thread. */
  knownNodeTasks(threadId: string, nodeTaskIds: readonly string[]): Awaitable<readonly string[]>;

  /**
   * Commits the intent of an effect, unless the journal has the effect already.
   * @throws THREAD_DELETED
   */
  beginEffect(effect: NewEffect): Awaitable<EffectBeginning>;
  /**
   * Starts a known effect again, if its row is still as the caller saw it (same tries and status).
   *
   * @param call what the new try is booked to
   * @param surelyNot whether it is known that it didn't happen
   * @returns undefined if somebody else was quicker
   */
  retryEffect(seen: EffectRow, call: NewEffect, surelyNot: boolean): Awaitable<EffectRow | undefined>;
  /** A statement that fails where that of {@link effectRecord} would. */
  readonly effectProbe: string;
  /** How the transaction that has done an effect records that, if it's on this database. @param outcome without parts */
  effectRecord(seen: EffectRow, outcome: string | undefined, endedAt: string): EffectRecord;
  /**
   * Records an outcome under any lease: what happened, happened. It never overwrites what somebody has decided meanwhile; see
   * `ops/effects.ts`.
   *
   * @returns the row as it is now; undefined if the effect no longer exists: its thread was deleted, or it was rewound
   */
  settleEffect(effectId: string, settlement: EffectSettlement): Awaitable<EffectRow | undefined>;
  /**
   * @param guard gets the effect and its thread's unfinished rewind, within the transaction. If it throws, nothing changes.
   * @returns as {@link settleEffect}
   */
  settleUndo(
    effectId: string,
    outcome: UndoOutcome,
    guard?: (found: EffectRow, unfinished: RewindRow | undefined) => void,
  ): Awaitable<EffectRow | undefined>;
  getEffect(effectId: string): Awaitable<EffectRow | undefined>;
  /** Oldest first. */
  listEffects(query: { threadId: string; afterSeq?: number; limit?: number }): Awaitable<readonly EffectRow[]>;
  /** The effects that were started, or retried, behind a seq. */
  effectsBehind(threadId: string, seq: number): Awaitable<readonly EffectRow[]>;

  listTasks(threadId: string): Awaitable<readonly TaskRow[]>;
  listThreads(query: { after: string | undefined; limit: number }): Awaitable<readonly ThreadRow[]>;
  getThread(threadId: string): Awaitable<ThreadRow | undefined>;
  /**
   * Marks of live runs stay: such a run continues until the deletion refuses its saves.
   *
   * @param final no save is accepted under the id any more, not even one that starts a new thread
   */
  deleteThread(threadId: string, deletedAt: number, final: boolean, isAlive: (run: RunRow) => boolean): Awaitable<void>;
  /** Whether there are rows that nobody can reach: of a large thread that was deleted, or of an unfinished copy. */
  hasLeftovers(isAlive: (run: RunRow) => boolean): Awaitable<boolean>;
  /** Removes some of them, in a short transaction. @returns whether there are more */
  removeLeftovers(isAlive: (run: RunRow) => boolean): Awaitable<boolean>;
  /** The thread's latest deletion, 0 for none; {@link SawDeletion} is compared with it. */
  deletionOf(threadId: string): Awaitable<number>;
  /** The situation of a run that begins now: {@link SawDeletion} and {@link SawEpoch} are compared with it. */
  foundBy(threadId: string): Awaitable<{ deletion: number; epoch: number }>;
  /** Removes the tombstone. @returns whether there was one */
  reuseThread(threadId: string): Awaitable<boolean>;
  /** @returns whether the thread was copied. If not, rows of the source were deleted or restored meanwhile: try again. */
  copyThread(order: CopyOrder): Awaitable<boolean>;

  prunePlan(threadId: string, wish: PruneWish): Awaitable<PrunePlan | undefined>;
  /** Removes the first `limit` units, in one transaction. */
  pruneBatch(plan: PrunePlan, wish: PruneWish, limit: number): Awaitable<{ removed: PruneCounts; rest: PrunePlan }>;
  /** @param without rows to be treated as already removed */
  sweepPlan(threadId: string, without: PrunePlan | undefined): Awaitable<SweepPlan | undefined>;
  /** How many checkpoints and archives of rewinds were pruned since the thread was last swept, by any process. */
  unswept(threadId: string): Awaitable<number>;
  /** About how many pages of values a sweep would read, examining at most this many values. */
  pagesToSweep(threadId: string, limit: number): Awaitable<number>;
  /** Removes up to `limit` rows, in one transaction. */
  sweepBatch(plan: SweepPlan, limit: number): Awaitable<{ chunks: number; rest: SweepPlan }>;
  /**
   * The size of an idle thread: nothing was saved on it since `before` (milliseconds) and no run holds it. Undefined for any
   * other thread, `in-doubt` for one that stays because an effect is.
   */
  idleThread(
    threadId: string,
    before: number,
    isAlive: (run: RunRow) => boolean,
  ): Awaitable<PruneCounts | "in-doubt" | undefined>;
  deleteIdleThread(
    threadId: string,
    before: number,
    isAlive: (run: RunRow) => boolean,
    deletedAt: number,
  ): Awaitable<PruneCounts | "in-doubt" | undefined>;
  threadsOfRuns(runIds: readonly string[]): Awaitable<readonly string[]>;

  nameCheckpoint(
    at: { threadId: string; ns: string; checkpointId: string | undefined },
    name: string,
    createdAt: string,
  ): Awaitable<CheckpointName>;
  listNames(threadId: string): Awaitable<readonly CheckpointName[]>;
  unnameCheckpoint(threadId: string, name: string): Awaitable<boolean>;

  space(): Awaitable<FileSpace>;
  /** Gives up to this many free pages back, in one transaction. */
  giveBackPages(pages: number): Awaitable<void>;
  /** Moves the write-ahead log into the file, so that the file gets smaller; `truncate` empties the log too. */
  checkpointLog(truncate: boolean): Awaitable<void>;
  /** Rewrites the whole file. */
  vacuumFully(): Awaitable<void>;

  /**
   * Marks a thread as running. `guard` gets the marks that are there, within the transaction. If it throws, nothing is marked. The
   * marks that it returns are removed; a run that had one of them can't save any more.
   *
   * @param graphRuns the graph runs that begin
   * @returns what else the run asks for at its start, where asking again costs a round trip
   */
  beginRun(
    run: RunRow,
    guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
    graphRuns?: readonly string[],
  ): Awaitable<FoundAtStart | undefined>;
  /** {@link beginRun} for what holds a thread without running it. The lost runs that `guard` returns stay left to recovery. */
  beginHold(
    hold: RunRow,
    guard: (others: readonly RunRow[]) => { over: readonly RunRow[]; lost: readonly RunRow[] },
  ): Awaitable<void>;
  /** @returns the runs whose mark is still there */
  beatRuns(runIds: readonly string[], at: number): Awaitable<readonly string[]>;
  /** @throws {TurnsError} LEASE_LOST */
  checkLease(lease: Lease | undefined, when?: When): Awaitable<void>;
  /** @param ran if the thread ran, and recovery didn't start that: what is recorded of recovering it is over */
  endRun(runId: string, when?: When, ran?: { threadId: string; succeeded: boolean }): Awaitable<void>;
  listRuns(threadId: string): Awaitable<readonly RunRow[]>;
  /** The runs of all threads, by id, from behind `after` on. */
  allRuns(after: string, limit: number): Awaitable<readonly RunRow[]>;

  /**
   * {@link beginRun} for a run that recovers the thread. It counts as a try from here on: it may kill its process.
   *
   * @returns false if the thread is no longer as it was found: somebody else has taken care of it
   */
  beginRecovery(
    run: RunRow,
    claim: RecoveryClaim,
    guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
  ): Awaitable<boolean>;
  /**
   * Records what a try came to.
   * @param lease of its run; undefined if that killed its process
   * @param dead what was recorded when the thread was looked at, and the runs of processes that died of it: these are forgotten. If
   *   the record has changed since, nothing is saved
   * @returns whether it was saved
   * @throws {TurnsError} LEASE_LOST
   */
  saveRecovery(
    threadId: string,
    tried: RecoveryTry & Pick<RecoveryRow, "failure" | "givenUp">,
    lease: Lease | undefined,
    at: number,
    dead?: Pick<RecoveryClaim, "seen" | "runIds">,
  ): Awaitable<boolean>;
  /** Nothing is left to recover: forgets these runs, and what is recorded of recovering the thread. */
  endRecovery(threadId: string, runIds: readonly string[]): Awaitable<void>;
  recoveryOf(threadId: string, at: number): Awaitable<RecoveryRow | undefined>;
  /** By the thread's id, from behind `after` on: those that are tried again, or that were given up. */
  listRecoveries(
    query: { after: string; limit: number; givenUp: boolean; isLenient?: boolean },
    at: number,
  ): Awaitable<readonly RecoveryRow[]>;

  countBehind(threadId: string, seq: number): Awaitable<RewindCounts>;
  /** The seq behind which no rewind reaches: 0 if nothing was pruned, undefined if there is no such thread. */
  prunedSeq(threadId: string): Awaitable<number | undefined>;
  /**
   * Deletes everything with a seq above `targetSeq`, in one transaction. `guard` is called inside it: if it throws, nothing
   * changes, and the marks that it returns are cleared, as in {@link beginRun}. The same holds for the guards below.
   */
  rewind(rewind: NewRewind, guard: (found: RewindStanding) => readonly RunRow[]): Awaitable<RewindCounts>;
  /** Records a rewind whose effects are about to be undone. {@link rewind} with the same id finishes it. */
  beginRewind(rewind: NewRewind, guard: (found: RewindStanding) => readonly RunRow[]): Awaitable<RewindRow>;
  /** @throws REWIND_NOT_FOUND, and what `guard` throws */
  abandonRewind(rewindId: string, guard: (rewind: RewindRow, found: RewindStanding) => readonly RunRow[]): Awaitable<void>;
  unfinishedRewind(threadId: string): Awaitable<RewindRow | undefined>;
  listRewinds(threadId: string): Awaitable<readonly RewindRow[]>;
  /** How many rewinds of a thread were carried out or begun for this reason. */
  countRewinds(threadId: string, reason: string): Awaitable<number>;
  /**
   * The seq to rewind to so that a checkpoint stands as it did before anything was done on top of it. Infinity if nothing was
   * done yet, undefined if there is no such checkpoint.
   */
  seqBeforeWorkOn(threadId: string, ns: string, checkpointId: string): Awaitable<number | undefined>;
  /** Restores a rewind's rows, in one transaction, unless `guard` throws. */
  takeBack(
    rewindId: string,
    at: string,
    guard: (rewind: RewindRow, found: TakeBackStanding) => readonly RunRow[],
  ): Awaitable<RewindCounts>;

  /** The steps of a move to another database; `ops/moves.ts` explains them. */
  departure(threadId: string): Awaitable<Departure | undefined>;
  destination(threadId: string): Awaitable<Destination>;
  isHeldBy(lease: Lease): Awaitable<boolean>;
  rowsToMove(
    at: Pick<Arrival, "threadId" | "thread">,
    cursor?: MoveCursor,
    lists?: MovedLists,
  ): Awaitable<{ rows: MovedRow[]; next: MoveCursor | undefined }>;
  partToMove(
    at: Pick<Arrival, "threadId" | "thread">,
    part: MovedKind,
    cursor?: MoveCursor,
  ): Awaitable<{ rows: MovedRow[]; next: MoveCursor | undefined }>;
  listsToMove(): Awaitable<MovedLists>;
  beginArrival(lease: Lease, archives: readonly string[]): Awaitable<Arrival>;
  saveMoved(arrival: Arrival, rows: readonly MovedRow[]): Awaitable<void>;
  abandonArrival(arrival: Arrival): Awaitable<void>;
  publishArrival(arrival: Arrival, id: string, departure: Departure, lost?: RunRow): Awaitable<void>;
  holdDeparture(lease: Lease, movedTo: MovedTo, stamp: string | undefined): Awaitable<boolean>;
  releaseDeparture(lease: Lease, id: string): Awaitable<void>;
  endDeparture(threadId: string, id: string, createdAt: string): Awaitable<void>;

  /**
   * Seals rows again under the current key, for a short time, from where the last call stopped.
   * @throws NOT_ENCRYPTED, CHECKPOINT_CORRUPTED
   */
  reseal(
    after: ResealCursor | undefined,
  ): Awaitable<{ keyId: string; resealed: Partial<ResealCounts>; next: ResealCursor | undefined }>;
  /**
   * Forgets all keys but the current one, if nothing is sealed under them any more.
   * @returns how many; undefined if something still is
   */
  retireKeys(): Awaitable<{ keyId: string; retired: number | undefined }>;

  /**
   * Starts a walk through the file, or one thread of it, that changes nothing.
   *
   * @param isGraph whether a document is the one that was stored under the digest
   * @throws THREAD_NOT_FOUND
   */
  startVerify(threadId: string | undefined, isGraph: (digest: string, document: string) => boolean): Awaitable<Verification>;

  /** For the command line and the viewer. */
  readonly inspect: Inspection;

  /**
   * Copies the database as it is at one moment, while others continue to save.
   *
   * @throws BACKUP_TARGET_EXISTS, INVALID_OPTION for a path of the store's own, STORE_UNAVAILABLE, and what `onCopied` and the
   *   signal throw
   */
  backUp(order: BackupOrder): Promise<UnpublishedBackup<Store>>;

  /** Where threads stand, for a follower that begins there; with `after`, behind that seq. */
  standing(threadIds: readonly string[] | undefined, after?: number): Awaitable<readonly Place[]>;
  /** What has changed behind the places of a follower. Waits for nothing that was handed in. */
  changesBehind(query: ChangesQuery): Awaitable<FoundChanges>;
  /** As `Engine.version`. */
  version(): unknown;
  /** Calls back soon after something was committed, here or elsewhere; undefined if the database doesn't tell. */
  listen?(onHint: () => void): Hints;

  /** Resolves when everything that was handed in is committed, or has failed. */
  committed(): Awaitable<void>;
  close(): void;
  isOpen(): boolean;
  /** For people: the file, or where the database is. */
  readonly name: string;
  /** As `Dialect.system`. */
  readonly system: "sqlite" | "postgresql";
}
