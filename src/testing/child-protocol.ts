import type { Failpoint, FailpointDetails } from "../failpoints";
import type { Effect } from "../effects/types";
import type { CheckedMatch } from "./failpoint-actions";

/** The request to a child, in a file of its folder. */
export interface ChildRequest {
  /** File URL of the graph's module. */
  module: string;
  path: string;
  ledger: string;
  threadId: string;
  durability: "async" | "sync" | "exit";
  args: unknown;
  clockOffsetMs: number;
  kill: CheckedMatch | undefined;
}

/** A failpoint that was reached; a list of them is in order. */
export interface ReachedPoint extends FailpointDetails {
  point: Failpoint;
}

/** An error, as passed from one process to another. */
export interface ToldError {
  name: string;
  message: string;
  code?: string;
  stack?: string;
}

/** What the journals of all threads of a file say. */
export interface Snapshot {
  thoughts: readonly { nodeTaskId: string; node: string }[];
  /** Tasks that LangGraph won't run again. */
  durable: readonly { nodeTaskId: string; node: string }[];
  effects: readonly KnownEffect[];
  rewinds: number;
}

/** What a journal says about an effect. */
export type KnownEffect = Pick<
  Effect,
  "key" | "name" | "label" | "nodeName" | "nodeTaskId" | "status" | "tries" | "idempotent" | "settledBy" | "undoStatus"
>;

export type ChildAnswer =
  | { kind: "invalid"; expected: string; found: string; error: ToldError | undefined }
  | {
      kind: "ended";
      outcome: "finished" | "waiting" | "in-doubt" | "failed";
      result: unknown;
      final: unknown;
      error: ToldError | undefined;
      /** Before the child did anything, and when it finished. */
      before: Snapshot;
      after: Snapshot;
    };

export const REQUEST_FILE = "request.json";
export const POINTS_FILE = "points.jsonl";
export const ANSWER_FILE = "answer.json";

/** Values that can't be passed on become text. */
export function toldError(error: unknown): ToldError {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  const { name, message, stack, code } = error as Error & { code?: unknown };
  return { name, message, ...(typeof code === "string" ? { code } : {}), ...(stack === undefined ? {} : { stack }) };
}
