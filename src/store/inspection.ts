import type { EffectRow } from "./effects";
import type { Awaitable, CheckpointHead, RewindRow, RunRow, TurnRow } from "./store";

/** A thread in a list: its row, and when something was last saved on it. Only counts and times, so no row is verified. */
export interface ThreadActivity {
  threadId: string;
  createdAt: string;
  /** ISO 8601. */
  lastAt: string;
  checkpoints: number;
  turns: number;
  effects: number;
}

/** A channel that a node task wrote to on a checkpoint. */
export interface Writer {
  nodeTaskId: string;
  /** As in `langgraph_writes`: negative for LangGraph's special writes. */
  idx: number;
  channels: readonly string[];
}

/** The content of a table. */
export interface TableSize {
  table: string;
  /** What its rows are called: `turns`, `values`, … */
  called: string;
  rows: number;
  /** Of the content alone: without indexes and free space. */
  bytes: number;
}

/** The content of a thread. */
export interface ThreadSize {
  threadId: string;
  rows: number;
  bytes: number;
}

/** What a checkpoint's channel leads to, and how much is stored for it. */
export interface StoredSize {
  bytes: number;
  /** Of a list. */
  elements?: number;
}

/** A text of a thread, as it is stored. */
export interface StoredText {
  kind: "value" | "turn" | "effect" | "write";
  seq: number;
  /** Codec text. */
  text: string;
  /** The id of the turn or effect. */
  id?: string;
  /** The name of the node, or of the effect. */
  name?: string;
}

/** What people look for in a database, over all threads or in one. Nothing here changes anything. Pages are ordered by key. */
export interface Inspection {
  /** A page of all threads, by id. */
  activity(query: { after: string | undefined; limit: number }): Awaitable<readonly ThreadActivity[]>;
  /** The marks of all runs, live or not. */
  runs(): Awaitable<readonly RunRow[]>;
  unfinishedRewinds(): Awaitable<readonly RewindRow[]>;
  /** A page of the effects with an unknown outcome, and of those whose undo failed or is in doubt, by seq. */
  openEffects(query: { afterSeq: number; limit: number }): Awaitable<readonly EffectRow[]>;
  /** Threads with a question or an error that a node left on a checkpoint, by id. A later answer may have settled it. */
  threadsWithSpecialWrites(query: { after: string; limit: number }): Awaitable<readonly string[]>;
  /** The newest turns up to a seq, newest first. */
  turnsBefore(query: { threadId: string; beforeSeq: number; limit: number }): Awaitable<readonly TurnRow[]>;
  /** The newest turn of each of these node tasks. */
  turnsOfNodeTasks(threadId: string, nodeTaskIds: readonly string[]): Awaitable<readonly TurnRow[]>;
  /** Which node tasks wrote to which channels on a checkpoint. */
  writers(threadId: string, ns: string, checkpointId: string): Awaitable<readonly Writer[]>;
  tableSizes(): Awaitable<readonly TableSize[]>;
  /** The largest threads, largest first. */
  threadSizes(limit: number): Awaitable<readonly ThreadSize[]>;
  /** How much is stored for the channels of a checkpoint, by channel. */
  channelSizes(head: CheckpointHead): Awaitable<ReadonlyMap<string, StoredSize>>;
  /** A page of a thread's texts of one kind, opened and verified, by seq. */
  texts(query: { threadId: string; kind: StoredText["kind"]; afterSeq: number; limit: number }): Awaitable<readonly StoredText[]>;
  /** What the database and its server are set to, by name. */
  settings(): Awaitable<Readonly<Record<string, string>>>;
}
