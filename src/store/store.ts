import type { BackupOrder, UnpublishedBackup } from "./backup";
import type { TurnsError } from "../errors";
import type { EffectRow, EffectStatus, UndoStatus } from "./effects";
import type { Verification } from "./integrity";
import type { NAMES, RowOf, SNAPSHOTS, TASKS, TURNS } from "./tables";

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
  { kind: "inline"; text: string } | PackedWhole | PackedList;

/** Codec text as a chunk of its own, with the chunks that it refers to. */
export interface PackedWhole {
  readonly kind: "whole";
  readonly chunk: Chunk;
  readonly parts: readonly Chunk[];
}

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

/**
 * The values of a checkpoint to be saved, by channel. Only its content tells whether the store has one already: versions prove nothing.
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
  /** Of the thread; equal generations mean that none of its rows was deleted or brought back in between. */
  generation: string;
  /** Where the list values are, by channel. */
  placed: ReadonlyMap<string, readonly Segment[]>;
  /** Actions that {@link NewCheckpoint.outcomes} made. */
  actions: readonly TurnRow[];
  lost: readonly LostTurn[];
}

/** Which thread to copy, and how. */
export interface CopyOrder {
  sourceId: string;
  targetId: string;
  createdAt: string;
  createId: () => string;
  /** In one transaction, whatever the size of the thread. */
  atOnce: boolean;
  /** While it is alive nobody removes the rows of an unfinished copy. */
  run: RunRow;
}

/**
 * What a run's commits stand under: its row in `langgraph_runs`. Whoever takes the thread over removes that row, and every commit that
 * comes later is refused (LEASE_LOST), however long the process was stopped in between. Undefined for what no run is known of, and for
 * a run whose row could not be written.
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
  /** The checkpoints of the namespaces around this one, at which its graph was called: id by namespace. */
  above: Readonly<Record<string, string>>;
  sawDeletion: SawDeletion;
  sawEpoch: SawEpoch;
  lease?: Lease | undefined;
  /** Channels whose value has to be put together from the writes of ancestors. */
  delta: readonly string[];
  values: NewValues;
  /** Of all channels that have one, channels without a value among them. */
  versions: Readonly<Record<string, ChannelVersion>>;
  claim: TaskClaim;
  createdAt: string;
  /** The graph runs that may be saving this checkpoint. */
  graphRuns: readonly string[];
  /** Thoughts to record for node tasks that come next; only when no recorder does it better. */
  planned: readonly NewThought[];
  /** How tasks of this checkpoint ended whose writes were handed in before it, oldest first. */
  outcomes: readonly EarlyOutcome[];
  /** Its parent may be one that couldn't be saved (`onCheckpointError: "continue"`). */
  mayHaveHoles: boolean;
}

/** What {@link NewWrites} say of their node task's Action. */
export interface EarlyOutcome extends Pick<NewWrites, "nodeTaskId" | "createdAt"> {
  settle: NonNullable<NewWrites["settle"]>;
}

/**
 * The deletion of the thread that a run found when it began, 0 for none: a save is late if another one stands there by now. Undefined
 * if not known.
 */
export type SawDeletion = number | undefined;

/** The epoch of the thread that a run found when it began: with a greater one the thread was rewound meanwhile. Undefined if not known. */
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
  /** Its text in manifests, channel included, once it was written: what doesn't change from one checkpoint to the next is one entry. */
  text?: string;
}

/** A checkpoint without its channel values and writes: a row of `langgraph_snapshots`. */
export type CheckpointHead = Omit<RowOf<typeof SNAPSHOTS>, "channels"> & {
  threadId: string;
  /** By channel; a channel without a value has a version alone, one that nobody has written yet may have a value alone. */
  channels: ReadonlyMap<string, ChannelEntry>;
};

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
  /** Only what was first saved before this checkpoint; on a thread that doesn't know it, only smaller ids. */
  beforeId: string | undefined;
  /** `beforeId` is of the run that asks. If the thread doesn't know it, it isn't saved yet ("exit"), and everything came before it. */
  isOfRun: boolean;
  /** The `place` at which the previous page ended. */
  after: number | undefined;
  limit: number;
}

/** `position` grows in the order of first saving. */
export interface CheckpointPlace {
  ns: string;
  position: number;
}

/** `place` falls from one to the next, over all pages of a list. */
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
  /** LangGraph's path of the task; '' for writes that are no task's. */
  taskPath: string;
  rows: readonly NewWrite[];
  claim: TaskClaim;
  createdAt: string;
  /** How the node task's Action ends up; undefined for writes that are no node task's. */
  settle:
    | {
        status: TurnStatus;
        durable: boolean;
        /** What an Action that has to be inserted holds; undefined for nothing. */
        update: PackedText | undefined;
        /** Makes that of it where the user's `redact` decides, which asks for what only the Thought tells. */
        redacted?: (thought: TurnRow) => PackedText | undefined;
        actionId: string;
      }
    | undefined;
}

/** What a turn's row holds. */
export interface TurnState {
  /** Of a Thought: "checkpoint" if its checkpoint has its state, but for what `packed` has; "state" for what stands in the row instead. */
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
  /** Whether its node doesn't run if a save of its graph, or of one around it, fails. */
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
  /** What the node returned, or the error; undefined if the row is to hold nothing. */
  update: PackedText | undefined;
  createdAt: string;
  /** As in the Thought; it counts where there is none. */
  graph: GraphReference | undefined;
  fingerprint: string | undefined;
}

/** What a graph is made of, stored once per thread and content. */
export interface GraphReference {
  digest: string;
  document: () => string;
}

/** A stored graph, and which turns ran in it. */
export interface GraphRow {
  digest: string;
  document: string;
  turnIds: readonly string[];
}

/** What models reported: `cached` is a part of `input`, and `reasoning` of `output`. */
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

/** A turn that a commit could not take along; the commit itself stands (S1.9). */
export interface LostTurn {
  nodeName: string;
  turnType: TurnType;
  error: unknown;
}

export type TaskRow = RowOf<typeof TASKS>;

/** The run that a thread's newest checkpoint is of: what led to it since its input. Other branches of the history are no part of it. */
export interface LastRun {
  /** Of the newest interval in which something ran. */
  taskId: string | undefined;
  graphId: string | undefined;
  /** The checkpoint that brought the run's input; undefined if none did, or it is gone. */
  inputId: string | undefined;
  /** What belongs to the run has at least this seq. */
  sinceSeq: number;
  /** The ids of its checkpoints in the root namespace whose node tasks led to the newest one, which comes first. */
  branch: readonly string[];
  /** Its updates and forks, newest first. `behind`: how many ids of `branch` are not older than it. */
  changes: readonly { id: string; parentId: string | undefined; seq: number; behind: number }[];
  /** The answers at the newest checkpoint of which nothing came yet: by the id of their question, or `NO_NODE` of one given without. */
  answered: readonly string[];
  /** CHECKPOINT_CORRUPTED if its checkpoints are not what was saved: then the rest is good for beginning anew, and for nothing else. */
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

export interface RunRow {
  runId: string;
  threadId: string;
  host: string;
  /** Which start of which machine; empty where the system doesn't say. */
  boot: string;
  pid: number;
  /** What tells a process from a later one with the same pid; empty where the system does not say. */
  pidStart: string;
  startedAt: string;
  /** Milliseconds of the machine's uptime; 0: it was quiet for so long that anybody may take the thread. */
  beatAt: number;
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
  /** The checkpoints of the graphs inside the outermost one that its node is in, by their namespaces. */
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
  /** Which row each call of the same attempt has taken, by the call's id; the store keeps it. */
  taken: Map<string, string>;
  /** Rows of the same attempt that failed or are in doubt: a call of the same input tries such a one again. */
  unhappy: readonly string[];
  /** Whether a recorded input that differs is to be overlooked. */
  anyInput: boolean;
  idempotent: boolean;
  undo: string | undefined;
  input: PackedText | undefined;
  process: string;
  startedAt: string;
}

/**
 * `begun`: the intent is committed, go. `found`: the row tells. `changed`: there is one, of another input. `unclear`: one like it has
 * just failed, and nothing tells whether this call tries it again. `lost`: one like it belongs
 * to a run, or to a call of a graph, of which nothing was saved, and nobody can know whether this call is the same deed.
 */
export type EffectBeginning = { kind: "begun" | "found" | "changed" | "unclear" | "lost"; row: EffectRow };

/** How an effect ended. */
export interface EffectSettlement {
  status: EffectStatus;
  /** The effect as it was when this was known of it: if somebody has tried it again since, or undone it, nothing is changed. */
  seen?: Pick<EffectRow, "tries" | "undoStatus">;
  /** The outcome of an effect that is done, to have another one in its place. */
  replaces?: string | undefined;
  outcome: PackedText | undefined;
  endedAt: string;
  settledBy: string | undefined;
}

/** What became of an undo. */
export interface UndoOutcome {
  status: UndoStatus | undefined;
  error: string | undefined;
  at: string;
  /** Only if it is still held. */
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
  /** All above it went; of a rewind on record it is the newest row that stayed. */
  targetSeq: number;
  seq: number;
  archived: boolean;
  createdAt: string;
  takenBackAt: string | undefined;
  /** `undoing` was begun and is not finished: effects behind its target are being undone, and nothing has been deleted. */
  status: "undoing" | "done" | "abandoned";
  /** Undefined for a rewind that a person asked for. */
  reason: string | undefined;
}

/** A rewind that is to be done, or begun. */
export type NewRewind = Omit<RewindRow, "seq" | "takenBackAt" | "status">;

/** How a thread stands to a rewind, within its transaction. */
export interface RewindStanding {
  runs: readonly RunRow[];
  tasks: readonly TaskRow[];
  /** Behind the target, oldest first. */
  effects: readonly EffectRow[];
  /** The rewind of the thread that was begun and is not finished. */
  unfinished: RewindRow | undefined;
}

/** And to taking a rewind back. */
export interface TakeBackStanding extends Pick<RewindStanding, "runs" | "unfinished"> {
  /** Effects that would come back although they have been undone, newest first. */
  undone: readonly { id: string; name: string; nodeName: string }[];
}

/** How many rows of each kind were sealed anew; `archived` are those that rewinds keep. */
export interface ResealCounts {
  checkpoints: number;
  values: number;
  writes: number;
  turns: number;
  effects: number;
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

/** Which checkpoints of the root namespace stay: those that `keepLast` or `keepTasks` keeps, if they are young enough. */
export interface PruneCriteria {
  keepLast: number | undefined;
  keepTasks: number | undefined;
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

export type CheckpointName = RowOf<typeof NAMES>;

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
  /** As they are to be replayed: oldest checkpoint first, those of one as `compareWrites` has them. Writes to other channels are among them. */
  writes: readonly (StoredWrites & { channel: string })[];
  /** By channel, the nearest ancestor's stored value. */
  seeds: ReadonlyMap<string, StoredValue>;
}

/**
 * When a save is committed: `now`, before the call returns unless somebody else holds the lock; or at the `boundary`, the end of the
 * macrotask, with all that is handed in until then. Whoever has to wait for it waits for the promise.
 */
export type When = "now" | "boundary";

export interface Store {
  /** The address of a part's text within a thread. Throws while {@link awaitsKeys}. */
  address(threadId: string, text: string): string;
  /** Whether the keys of the database are still on their way; all that is asked of the store waits for them, in order. */
  readonly awaitsKeys: boolean;

  putCheckpoint(checkpoint: NewCheckpoint, when?: When): Awaitable<SavedCheckpoint>;
  putWrites(writes: NewWrites, when?: When): Awaitable<{ seq: number; turn: TurnRow | undefined; lost: readonly LostTurn[] }>;
  /** The checkpoint of that id, or the one with the greatest id of the namespace. */
  getCheckpoint(
    threadId: string,
    ns: string,
    checkpointId: string | undefined,
    remembered: Remembered,
  ): Awaitable<StoredCheckpoint | undefined>;
  /** How far back the newest checkpoint's run goes; undefined if there is neither a checkpoint nor a task. */
  lastRun(threadId: string): Awaitable<LastRun | undefined>;
  /** One page, greatest checkpoint id first. */
  listCheckpoints(query: CheckpointQuery): Awaitable<readonly ListedHead[]>;
  /** Where a checkpoint stands in its thread; undefined if the thread doesn't know it. @param ns undefined for any namespace */
  placeOf(threadId: string, ns: string | undefined, checkpointId: string): Awaitable<CheckpointPlace | undefined>;
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

  saveThought(thought: NewThought, when?: When): Awaitable<TurnRow>;
  /** Writes the Action of the attempt `runId` provisionally. */
  saveAction(action: NewAction, when?: When): Awaitable<TurnRow>;
  /**
   * Adds to the attempt's Thought, at once, so that usage survives a crash in mid-node; and to its Action, if it has ended before.
   *
   * @param of which attempt; without a run, or with one that has no Thought, the node task's newest
   */
  addTokens(
    of: { threadId: string; nodeTaskId: string; attemptRunId: string | undefined; lease?: Lease | undefined },
    tokens: TokenCounts,
  ): Awaitable<void>;
  /**
   * A thread's tokens by task and node, in the order in which they first came, those of pruned turns first; `rewound` are those of turns that rewinds keep in
   * their archives. Sums, so no row is verified.
   */
  tokenUsage(threadId: string): Awaitable<{ rows: readonly TokenRow[]; rewound: TokenCounts }>;
  listTurns(query: { threadId: string; afterSeq?: number; limit?: number }): Awaitable<readonly TurnRow[]>;
  /** Latest Thoughts at a namespace's head that no Action settles. */
  openThoughts(threadId: string): Awaitable<readonly TurnRow[]>;

  /**
   * Notes in an Action what its gate found.
   *
   * @param status its new status, if it gets one
   * @returns undefined if there is no such turn any more
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

  /** Commits the intent of an effect, unless the journal has the effect already. @throws THREAD_DELETED */
  beginEffect(effect: NewEffect): Awaitable<EffectBeginning>;
  /**
   * Begins a known effect again, if its row is still as the caller saw it (same tries and status).
   *
   * @param call what the new try is booked to
   * @param surelyNot whether it is known that it did not happen
   * @returns undefined if somebody else was quicker
   */
  retryEffect(seen: EffectRow, call: NewEffect, surelyNot: boolean): Awaitable<EffectRow | undefined>;
  /**
   * Under whichever lease: what happened, happened. But nothing is overwritten that somebody has decided meanwhile; see the SQL side.
   *
   * @returns the row as it is now; undefined if there is no such effect any more: its thread was deleted, or it was rewound
   */
  settleEffect(effectId: string, settlement: EffectSettlement): Awaitable<EffectRow | undefined>;
  /**
   * @param guard is shown the effect and its thread's unfinished rewind, within the transaction; what it throws leaves all as it is
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
  /** The effects that were begun, or tried again, behind a seq. */
  effectsBehind(threadId: string, seq: number): Awaitable<readonly EffectRow[]>;

  listTasks(threadId: string): Awaitable<readonly TaskRow[]>;
  listThreads(query: { after: string | undefined; limit: number }): Awaitable<readonly ThreadRow[]>;
  getThread(threadId: string): Awaitable<ThreadRow | undefined>;
  /**
   * The marks of runs that live stay: such a run goes on, and is refused by the deletion itself.
   *
   * @param final no save is accepted under the id any more, not even one that begins anew
   */
  deleteThread(threadId: string, deletedAt: number, final: boolean, isAlive: (run: RunRow) => boolean): Awaitable<void>;
  /** Whether rows are there that nobody can reach: of a large thread that was deleted, or of a copy that did not end. */
  hasLeftovers(isAlive: (run: RunRow) => boolean): Awaitable<boolean>;
  /** Removes some of them, in a short transaction. @returns whether there are more */
  removeLeftovers(isAlive: (run: RunRow) => boolean): Awaitable<boolean>;
  /** Which deletion of the thread was the last one: what {@link SawDeletion} is compared with; 0 for none. */
  deletionOf(threadId: string): Awaitable<number>;
  /** What a run finds that begins now: what {@link SawDeletion} and {@link SawEpoch} are compared with. */
  foundBy(threadId: string): Awaitable<{ deletion: number; epoch: number }>;
  /** Removes the tombstone. @returns whether there was one */
  reuseThread(threadId: string): Awaitable<boolean>;
  /**
   * @returns whether the thread was copied. If not, rows of the source were deleted or brought back meanwhile: try again.
   */
  copyThread(order: CopyOrder): Awaitable<boolean>;

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

  /**
   * Marks a thread as running. `guard` sees the marks there are, in the transaction: what it throws refuses; what it returns is cleared,
   * and with it the lease of whoever comes back from the dead.
   */
  beginRun(
    run: RunRow,
    guard: (others: readonly RunRow[], unfinished: RewindRow | undefined) => readonly RunRow[],
  ): Awaitable<void>;
  /** @returns whether the mark is still there */
  beatRun(runId: string, at: number): Awaitable<boolean>;
  /** @throws {TurnsError} LEASE_LOST */
  checkLease(lease: Lease | undefined, when?: When): Awaitable<void>;
  endRun(runId: string): Awaitable<void>;
  listRuns(threadId: string): Awaitable<readonly RunRow[]>;

  countBehind(threadId: string, seq: number): Awaitable<RewindCounts>;
  /** Behind which seq no rewind reaches: 0 if nothing was pruned, undefined if there is no such thread. */
  prunedSeq(threadId: string): Awaitable<number | undefined>;
  /**
   * Deletes what has a seq above `targetSeq`, in one transaction. `guard` is asked inside it: what it throws leaves all as it was, and
   * the marks that it returns are cleared, as in {@link beginRun}; so too in the following.
   */
  rewind(rewind: NewRewind, guard: (found: RewindStanding) => readonly RunRow[]): Awaitable<RewindCounts>;
  /** Puts a rewind on record whose effects are about to be undone; {@link rewind} with the same id finishes it. */
  beginRewind(rewind: NewRewind, guard: (found: RewindStanding) => readonly RunRow[]): Awaitable<RewindRow>;
  /** @throws REWIND_NOT_FOUND, and what `guard` throws */
  abandonRewind(rewindId: string, guard: (rewind: RewindRow, found: RewindStanding) => readonly RunRow[]): Awaitable<void>;
  unfinishedRewind(threadId: string): Awaitable<RewindRow | undefined>;
  listRewinds(threadId: string): Awaitable<readonly RewindRow[]>;
  /** How many rewinds of a thread were done, or begun, for this reason. */
  countRewinds(threadId: string, reason: string): Awaitable<number>;
  /**
   * The seq to rewind to so that a checkpoint stands as it did before anything was done on its grounds: Infinity if nothing was yet,
   * undefined if there is no such checkpoint.
   */
  seqBeforeDeeds(threadId: string, ns: string, checkpointId: string): Awaitable<number | undefined>;
  /** Brings a rewind's rows back, in one transaction, unless `guard` throws. */
  takeBack(
    rewindId: string,
    at: string,
    guard: (rewind: RewindRow, found: TakeBackStanding) => readonly RunRow[],
  ): Awaitable<RewindCounts>;

  /** Seals rows anew under the current key, for a moment, from where the last call ended. @throws NOT_ENCRYPTED, CHECKPOINT_CORRUPTED */
  reseal(after: ResealCursor | undefined): Awaitable<{ resealed: Partial<ResealCounts>; next: ResealCursor | undefined }>;
  /** Forgets all keys but the current one, if nothing is sealed under them any more. @returns how many; undefined if something is */
  retireKeys(): Awaitable<{ keyId: string; retired: number | undefined }>;

  /**
   * Begins a walk through the file, or one thread of it, that changes nothing.
   *
   * @param isGraph whether a document is the one that was stored under the digest
   * @throws THREAD_NOT_FOUND
   */
  startVerify(threadId: string | undefined, isGraph: (digest: string, document: string) => boolean): Awaitable<Verification>;

  /**
   * Copies everything, as it is at one moment, while others go on saving.
   *
   * @throws BACKUP_TARGET_EXISTS, INVALID_OPTION for a path of the store's own, STORE_UNAVAILABLE, and what `onCopied` and the signal throw
   */
  backUp(order: BackupOrder): Promise<UnpublishedBackup<Store>>;

  /** Resolves when all that was handed in is committed, or has failed. */
  committed(): Awaitable<void>;
  close(): void;
  readonly open: boolean;
}
