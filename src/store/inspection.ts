import type { MovedTo } from "./moves";

/*
 * What {@link Inspection} tells: rows and sums for people who look into a database.
 */

/** A thread in a list: its row, and when something was last saved on it. Only counts and times, so no row is verified. */
export interface ThreadActivity {
  threadId: string;
  createdAt: string;
  /** ISO 8601. */
  lastAt: string;
  checkpoints: number;
  turns: number;
  effects: number;
  /** Where it moves to, if it's held for that. */
  movedTo: MovedTo | undefined;
}

/** A channel that a node task wrote to on a checkpoint. */
export interface Writer {
  nodeTaskId: string;
  /** As in `langgraph_writes`: negative for LangGraph's special writes. */
  idx: number;
  channels: readonly string[];
}

/** What a thread's models reported for a task, pruned turns included. */
export interface TaskTokens {
  taskId: string;
  input: number;
  output: number;
  cached: number;
  reasoning: number;
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
