import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { expectationOf } from "../options";
import { ID_RULE, isId } from "../ids";
import type { Validation } from "../guards/gates";
import type { TokenCounts, TurnStatus, TurnType } from "../store/store";

/**
 * One turn: the Thought before a node's work or the Action with what came of it (requirement S1). `state` is what the node
 * started from (Thought) or what it returned (Action).
 */
export interface LangGraphCheckpoint {
  /** Unique in the file; UUIDs where this package makes them. */
  id: string;
  graphId: string;
  nodeName: string;
  turnType: TurnType;
  state: Record<string, unknown>;
  taskId: string;
  createdAt: Date;
}

/** A turn with all that the recorder knows of it. */
export interface Turn extends Omit<LangGraphCheckpoint, "state"> {
  /** Place in the order of everything on its thread. */
  seq: number;
  threadId: string;
  /** Namespace of the checkpoint the node task started from; empty at the root. */
  checkpointNs: string;
  /** Undefined if there was none yet (durability "exit"). */
  checkpointId: string | undefined;
  /** The node task's own namespace: names and task ids from the root down to it. */
  nodeNs: string;
  /** LangGraph's task id. */
  nodeTaskId: string;
  step: number;
  /** 1 for the first attempt of the node task; retries and resumes count on. */
  attempt: number;
  /** Only Actions have one. */
  status: TurnStatus | undefined;
  /** Of an Action: whether LangGraph will skip this node task on resume. */
  durable: boolean;
  /** What the models of this attempt reported. */
  tokens: TokenCounts;
  /** Of the node and the edges that leave it, as it was when it ran. */
  fingerprint: string | undefined;
  /** Of an Action: what the node's confidence gate found. */
  validation: Validation | undefined;
}

const text = z.custom<string>(isId, ID_RULE);

const turnSchema = z.object({
  id: text,
  graphId: text,
  nodeName: text,
  turnType: z.enum(["Thought", "Action"]),
  state: z.custom<Record<string, unknown>>(
    (value) => typeof value === "object" && value !== null && !Array.isArray(value),
    "must be an object of named values",
  ),
  taskId: text,
  createdAt: z.date(),
});

/** @throws {TurnsError} INVALID_CHECKPOINT naming the first field that is wrong */
export function checkedTurn(checkpoint: LangGraphCheckpoint): LangGraphCheckpoint {
  const result = turnSchema.safeParse(checkpoint);
  if (result.success) return checkpoint;
  const issue = result.error.issues[0] as z.core.$ZodIssue;
  const field = issue.path.join(".");
  throw new TurnsError("INVALID_CHECKPOINT", {
    what: field === "" ? "the checkpoint to save" : `field ${JSON.stringify(field)} of the checkpoint to save`,
    expected: expectationOf(issue),
    found: describe(field === "" ? checkpoint : (checkpoint as unknown as Record<string, unknown>)[field]),
    remedy: "Nothing was saved; see the type LangGraphCheckpoint for what each field holds.",
    data: { field },
  });
}
