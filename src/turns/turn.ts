import { describe, TurnsError } from "../errors";
import { parseValidation, type Validation } from "../guards/gates";
import { ID_RULE, isId } from "../system";
import { expectationOf, schemaOf } from "../options";
import type { TokenCounts, TurnRow, TurnStatus, TurnType } from "../store/store";
import { z } from "zod";

/**
 * One turn: the Thought before a node runs, or the Action with its outcome (requirement S1). `state` is what the node started
 * from (Thought) or what it returned (Action).
 */
export interface LangGraphCheckpoint {
  /** Unique in the file. Ids made by this package are UUIDs. */
  id: string;
  graphId: string;
  nodeName: string;
  turnType: TurnType;
  state: Record<string, unknown>;
  taskId: string;
  createdAt: Date;
}

/** A turn with everything the recorder knows about it. */
export interface Turn extends Omit<LangGraphCheckpoint, "state"> {
  /** Position in the order of everything on its thread. */
  seq: number;
  threadId: string;
  /** Namespace of the checkpoint that the node task started from; empty at the root. */
  checkpointNs: string;
  /** Undefined if there was none yet (durability "exit"). */
  checkpointId: string | undefined;
  /** The node task's own namespace: names and task ids from the root down to it. */
  nodeNs: string;
  /** LangGraph's task id. */
  nodeTaskId: string;
  step: number;
  /** 1 for the first attempt of the node task. Retries and resumes count up. */
  attempt: number;
  /** Only Actions have one. */
  status: TurnStatus | undefined;
  /** For an Action: whether LangGraph skips this node task on resume. */
  durable: boolean;
  /** What the models of this attempt reported. */
  tokens: TokenCounts;
  /** Fingerprint of the node and the edges that leave it, as of when it ran. */
  fingerprint: string | undefined;
  /** For an Action: the verdict of the node's confidence gate. */
  validation: Validation | undefined;
}

const text = z.custom<string>(isId, ID_RULE);

const turnSchema = () =>
  z.object({
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
  const result = schemaOf(turnSchema).safeParse(checkpoint);
  if (result.success) return checkpoint;
  const issue = result.error.issues[0] as z.core.$ZodIssue;
  const field = issue.path.join(".");
  const given: unknown = field === "" ? checkpoint : (checkpoint as unknown as Record<string, unknown>)[field];
  throw new TurnsError("INVALID_CHECKPOINT", {
    problem: `${field === "" ? "The checkpoint to save" : `Field ${JSON.stringify(field)} of the checkpoint to save`} is ${given === undefined ? "missing" : describe(given)}.`,
    remedy: `Pass ${expectationOf(issue)}. Nothing was saved; the type LangGraphCheckpoint says what each field holds.`,
    data: { field },
  });
}

/** The public form of a row that the recorder wrote. */
export function toPublicTurn(row: TurnRow): Turn {
  return {
    id: row.id,
    graphId: row.graphId,
    nodeName: row.nodeName,
    turnType: row.turnType,
    taskId: row.taskId,
    createdAt: new Date(row.createdAt),
    seq: row.seq ?? 0,
    threadId: row.threadId ?? "",
    checkpointNs: row.ns ?? "",
    checkpointId: row.checkpointId,
    nodeNs: row.nodeNs ?? "",
    nodeTaskId: row.nodeTaskId ?? "",
    step: row.step ?? 0,
    attempt: row.attempt ?? 1,
    status: row.status,
    durable: row.durable,
    tokens: {
      input: row.inputTokens,
      output: row.outputTokens,
      cached: row.cachedTokens,
      reasoning: row.reasoningTokens,
    },
    fingerprint: row.fingerprint,
    validation: row.validation === undefined ? undefined : parseValidation(row.validation),
  };
}

/**
 * Checks that these are the parts of a turn that identify its row.
 *
 * @throws {TurnsError} INVALID_CONFIG naming the first that is wrong
 */
export function refuseNoTurn(turn: Pick<Turn, "threadId" | "seq" | "id">): void {
  const { threadId, seq, id } = (turn ?? {}) as Record<string, unknown>;
  if (!isId(threadId)) throw noTurn("threadId", ID_RULE, threadId);
  if (!Number.isSafeInteger(seq) || (seq as number) < 0) throw noTurn("seq", "a whole number from 0", seq);
  if (!isId(id)) throw noTurn("id", ID_RULE, id);
}

function noTurn(field: string, expected: string, found: unknown): TurnsError {
  return new TurnsError("INVALID_CONFIG", {
    problem: `${field} of the turn is ${found === undefined ? "missing" : describe(found)}.`,
    remedy: `It must be ${expected}. Pass a turn as saver.turns.list(threadId) gives it.`,
    data: { key: field },
  });
}

/** Channels with LangGraph's own bookkeeping, which aren't part of the state a node sees. */
const BOOKKEEPING = /^(__(?!root__)|branch:|join:)/;

/**
 * The full state of a turn. A Thought refers to the checkpoint it started from instead of copying it. So its state is read from
 * there, unless the node had an input of its own (Send, functional tasks).
 *
 * @param stored the turn's own serialised state, decoded
 * @param load reads the channel values of the checkpoint that a Thought started from; undefined if it is gone
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND if a Thought's checkpoint is gone; UNDECODABLE_VALUE if the row can't be read;
 *   TURN_NOT_KEPT if it was saved without content
 */
export function stateOfTurn(
  turn: TurnRow,
  stored: unknown,
  load: (turn: TurnRow) => Record<string, unknown> | undefined,
): Record<string, unknown> {
  if (turn.stateFormat === "none") throw notKept(turn);
  if (turn.stateFormat === "state") return asRecord(stored, "value");
  if (turn.stateFormat === "update") return asRecord(stored, "output");
  const own = asRecord(stored, "value");
  if (Object.hasOwn(own, "input")) return asRecord(own["input"], "input");
  if (Object.hasOwn(own, "input_not_saved")) throw inputNotSaved(turn, own["input_not_saved"]);
  if (turn.checkpointId === undefined) return {};
  const values = load(turn);
  if (values === undefined) throw checkpointGone(turn);
  return withoutBookkeeping(values);
}

/** The channels that are state. */
export function withoutBookkeeping(values: Record<string, unknown>): Record<string, unknown> {
  const state: Record<string, unknown> = {};
  for (const channel of Object.keys(values)) {
    // No setter can run: `__proto__` counts as bookkeeping.
    if (!BOOKKEEPING.test(channel)) state[channel] = values[channel];
  }
  return state;
}

/** The value itself, or an object with the value under a name. */
export function asRecord(value: unknown, name: string): Record<string, unknown> {
  const plain = typeof value === "object" && value !== null && !Array.isArray(value);
  const prototype: unknown = plain ? Object.getPrototypeOf(value) : undefined;
  return prototype === Object.prototype || prototype === null ? (value as Record<string, unknown>) : { [name]: value };
}

function checkpointGone(turn: TurnRow): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    problem: `The state of turn ${turn.id} is gone: checkpoint ${turn.checkpointId ?? ""}, which it started from, was deleted.`,
    remedy: "The turn itself is still there.",
    data: { id: turn.id, checkpointId: turn.checkpointId },
  });
}

function notKept(turn: TurnRow): TurnsError {
  return new TurnsError("TURN_NOT_KEPT", {
    problem: `Turn ${turn.id} of node ${JSON.stringify(turn.nodeName)} was saved without its content.`,
    remedy: "The options `redact` and `turns` of the saver that recorded it say what is kept.",
    data: { id: turn.id },
  });
}

function inputNotSaved(turn: TurnRow, reason: unknown): TurnsError {
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `The input of turn ${turn.id} of node ${JSON.stringify(turn.nodeName)} couldn't be saved: ${String(reason)}.`,
    remedy: "The turn itself was recorded; only what the node was called with is not known.",
    data: { id: turn.id },
  });
}

/**
 * Keeps the open Thoughts whose containing nodes are in flight as well. A nested node's Thought is history if it was left open
 * under a task that has since finished or was abandoned.
 *
 * @param known those of the {@link surroundings} that ran on this thread; a graph called from another thread has none here
 */
export function inFlight(open: readonly Turn[], known: ReadonlySet<string>): Turn[] {
  const openTasks = new Set(open.map((turn) => turn.nodeTaskId));
  const openNames = new Set(open.filter((turn) => !turn.nodeNs.includes("|")).map((turn) => turn.nodeName));
  const isOpen = (segment: string): boolean => {
    const id = taskIdOf(segment);
    // A graph with `checkpointer: true` has a stable namespace without task id, so only the name can be compared.
    return id === undefined ? openNames.has(segment) : openTasks.has(id) || !known.has(id);
  };
  return open.filter((turn) => segmentsAbove(turn.nodeNs).every(isOpen));
}

/** The ids of the node tasks that contain these turns. */
export function surroundings(open: readonly Turn[]): string[] {
  return [...new Set(open.flatMap((turn) => segmentsAbove(turn.nodeNs)).flatMap((segment) => taskIdOf(segment) ?? []))];
}

/** `a:1|2|b:3` → `a:1`; a bare number counts the calls of one graph within a node. */
function segmentsAbove(nodeNs: string): string[] {
  return nodeNs
    .split("|")
    .slice(0, -1)
    .filter((segment) => !/^\d+$/.test(segment));
}

function taskIdOf(segment: string): string | undefined {
  const cut = segment.lastIndexOf(":");
  return cut === -1 ? undefined : segment.slice(cut + 1);
}
