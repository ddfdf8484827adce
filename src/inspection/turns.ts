import { refusalOf } from "./refusal";
import type { BaseTurnSaver } from "../base-saver";
import type { Effect } from "../effects/types";
import { nodePathOf } from "../guards/graph-document";
import { internalsOf } from "../internals";
import type { TokenCounts, TurnRow } from "../store/store";
import { toPublicTurn } from "../turns/turn";
import { checkpointOfTurn, numberOf, paged, seqOf, turnBefore, turnNamed } from "./place";
import { describe, TurnsError } from "../errors";
import { nearestName } from "../unknown-option";
import { plain } from "./plain";
import { turns } from "./words";
import { errorOf } from "./standing";
import { type CheckpointLine, lineOf } from "./checkpoint-line";

/** One attempt of a node: its Thought and its Action. */
export interface Attempt {
  /** The number of its first turn on the thread. */
  number: number;
  node: string;
  taskId: string;
  attempt: number;
  /** `running`, or it was when its process stopped: it has no Action. */
  status: "ok" | "error" | "interrupted" | "handoff" | "running";
  startedAt: string;
  /** Null while it's running. */
  endedAt: string | null;
  step: number;
  nodeTaskId: string;
  tokens: TokenCounts;
  thoughtId: string | null;
  actionId: string | null;
  /** Whether a resume keeps its result. */
  durable: boolean;
}

interface LogRequest {
  taskId?: string | undefined;
  /** A node's name or path. */
  node?: string | undefined;
  failed?: boolean;
  limit?: number;
  /** The `cursor` of the previous page. */
  cursor?: number | undefined;
}

export interface TurnLogPage {
  threadId: string;
  attempts: Attempt[];
  /** Null on the last page. */
  cursor: number | null;
}

const PAGE = 200;
/** For who looks for one attempt: its rows are nearly always among as many. */
const FEW = 16;

/**
 * The attempts of a thread's nodes, newest first.
 *
 * @throws {TurnsError} UNKNOWN_TASK
 */
export async function logOf(saver: BaseTurnSaver, threadId: string, request: LogRequest = {}): Promise<TurnLogPage> {
  const { taskId, node, failed = false, limit = 50, cursor } = request;
  const attempts: Attempt[] = [];
  for await (const { thought, action } of attemptRows(saver, threadId, cursor, limit === 1 ? FEW : PAGE)) {
    const attempt = attemptOf(thought, action);
    if (taskId !== undefined && attempt.taskId !== taskId) continue;
    if (node !== undefined && attempt.node !== node && thought.nodeName !== node) continue;
    if (failed && attempt.status !== "error") continue;
    if (attempts.length === limit) return { threadId, attempts, cursor: attempts.at(-1)?.number ?? null };
    attempts.push(attempt);
  }
  if (taskId !== undefined && attempts.length === 0 && cursor === undefined) await refuseUnknownTask(saver, threadId, taskId);
  return { threadId, attempts, cursor: null };
}

async function refuseUnknownTask(saver: BaseTurnSaver, threadId: string, taskId: string): Promise<void> {
  const tasks = (await saver.turns.tasks(threadId)).map((task) => task.taskId);
  if (tasks.includes(taskId)) return;
  const nearest = nearestName(taskId, tasks);
  throw new TurnsError("UNKNOWN_TASK", {
    problem: `Thread ${describe(threadId)} has no task ${describe(taskId)}.`,
    remedy: `${nearest === undefined ? "" : `Did you mean ${describe(nearest)}? `}${turns("log", [threadId])} lists its turns, with their tasks.`,
    data: { threadId, tasks },
  });
}

/** The rows of an attempt. */
export interface AttemptRows {
  thought: TurnRow;
  /** Undefined while it's running, and if its process stopped before its end. */
  action: TurnRow | undefined;
}

/**
 * The rows of a thread's attempts, the one that began last first.
 *
 * @param before a number on the thread: only attempts that began before it
 * @param page how many rows are read at once
 */
export async function* attemptRows(
  saver: BaseTurnSaver,
  threadId: string,
  before?: number,
  page = PAGE,
): AsyncGenerator<AttemptRows> {
  const { store } = internalsOf(saver);
  const begin = before === undefined ? Number.MAX_SAFE_INTEGER : await seqOfNumber(saver, threadId, before);
  const rows = paged(
    (last: TurnRow | undefined) => store.inspect.turnsBefore({ threadId, beforeSeq: last?.seq ?? begin, limit: page }),
    page,
  );
  const actions = new Map<string, TurnRow>();
  for await (const row of rows) {
    const key = `${row.nodeTaskId} ${row.attempt}`;
    if (row.turnType === "Action") {
      actions.set(key, row);
      continue;
    }
    const action = actions.get(key) ?? (before === undefined ? undefined : await actionOf(saver, row));
    actions.delete(key);
    yield { thought: row, action };
  }
}

async function seqOfNumber(saver: BaseTurnSaver, threadId: string, number: number): Promise<number> {
  const newest = await turnBefore(saver, threadId);
  return newest?.seq === undefined ? number : seqOf(number, newest.seq);
}

/** The Action of a Thought's attempt, which may be on an earlier page. */
async function actionOf(saver: BaseTurnSaver, thought: TurnRow): Promise<TurnRow | undefined> {
  const { store } = internalsOf(saver);
  const { threadId = "", nodeTaskId = "" } = thought;
  const [newest] = await store.inspect.turnsOfNodeTasks(threadId, [nodeTaskId]);
  if (newest?.turnType === "Action" && newest.attempt === thought.attempt) return newest;
  if (newest?.id === thought.id) return undefined;
  const turns = await store.listTurns({ threadId, afterSeq: thought.seq ?? 0, limit: PAGE });
  return turns.find((turn) => turn.turnType === "Action" && turn.nodeTaskId === nodeTaskId && turn.attempt === thought.attempt);
}

export function attemptOf(thought: TurnRow, action: TurnRow | undefined): Attempt {
  const turn = toPublicTurn(thought);
  return {
    number: numberOf(turn.seq),
    node: nodePathOf(turn.nodeNs),
    taskId: turn.taskId,
    attempt: turn.attempt,
    status: action?.status ?? "running",
    startedAt: thought.createdAt,
    endedAt: action?.createdAt ?? null,
    step: turn.step,
    nodeTaskId: turn.nodeTaskId,
    tokens: turn.tokens,
    thoughtId: thought.id,
    actionId: action?.id ?? null,
    durable: action?.durable ?? false,
  };
}

/** An attempt with what went in and what came out. */
export interface AttemptDetails extends Attempt {
  threadId: string;
  graphId: string;
  fingerprint: string | null;
  checkpointId: string | null;
  checkpointNs: string;
  /** What the node was called with; null if it wasn't kept. */
  input: unknown;
  /** What it returned; null if it isn't there. */
  output: unknown;
  error: { name: string; message: string; stack: string | null } | null;
  validation: unknown;
  /** Why the input or the output isn't shown. */
  notKept: readonly string[];
  effects: readonly EffectLine[];
}

/** An effect in a list. */
export interface EffectLine {
  id: string;
  threadId: string;
  number: number;
  name: string;
  label: string;
  node: string;
  taskId: string;
  status: Effect["status"];
  undo: string | null;
  undoStatus: Effect["undoStatus"] | null;
  undoError: string | null;
  key: string;
  tries: number;
  idempotent: boolean;
  startedAt: string;
  endedAt: string | null;
  settledBy: string | null;
}

/** @throws {TurnsError} CHECKPOINT_NOT_FOUND */
export async function showTurn(saver: BaseTurnSaver, threadId: string, turn: string): Promise<AttemptDetails> {
  const { store } = internalsOf(saver);
  const found = await turnNamed(saver, threadId, turn);
  const thought = found.turnType === "Thought" ? found : await thoughtOf(saver, found);
  const action = found.turnType === "Action" ? found : await actionOf(saver, found);
  const notKept: string[] = [];
  const stateOf = async (row: TurnRow | undefined): Promise<unknown> => {
    if (row === undefined) return undefined;
    try {
      return await saver.turns.state(toPublicTurn(row));
    } catch (error) {
      notKept.push(refusalOf(error).message);
      return undefined;
    }
  };
  const input = await stateOf(thought);
  const output = await stateOf(action);
  const error = action?.status === "error" ? (output as { error?: unknown } | undefined)?.error : undefined;
  const stack: unknown = (error as { stack?: unknown } | undefined)?.stack;
  const { seq = 0, nodeTaskId } = thought ?? found;
  const effects = (await store.listEffects({ threadId, afterSeq: Math.max(0, seq - 1) })).filter(
    (effect) => effect.nodeTaskId === nodeTaskId,
  );
  const { graphId, fingerprint, checkpointId, ns } = thought ?? found;
  return {
    ...attemptOf(thought ?? found, action),
    ...(thought === undefined && { thoughtId: null }),
    threadId,
    graphId,
    fingerprint: fingerprint ?? action?.fingerprint ?? null,
    checkpointId: checkpointId ?? null,
    checkpointNs: ns ?? "",
    input: input === undefined ? null : plain(input),
    output: output === undefined || error !== undefined ? null : plain(output),
    error: error === undefined ? null : { ...errorOf(error), stack: typeof stack === "string" ? stack : null },
    validation: toPublicTurn(action ?? found).validation ?? null,
    notKept,
    effects: (await Promise.all(effects.map(({ id }) => saver.effects.get(id)))).map(effectLine),
  };
}

/** The number of the first attempt that began behind a number; null if there is none. */
export async function attemptBehind(saver: BaseTurnSaver, threadId: string, number: number): Promise<number | null> {
  const { store } = internalsOf(saver);
  const begin = await seqOfNumber(saver, threadId, number);
  const rows = paged((last: TurnRow | undefined) => store.listTurns({ threadId, afterSeq: last?.seq ?? begin, limit: FEW }), FEW);
  for await (const { turnType, seq = 0 } of rows) if (turnType === "Thought") return numberOf(seq);
  return null;
}

/** The checkpoints of its graph around an attempt; null where they are gone, or not there yet. */
export async function checkpointsOf(
  saver: BaseTurnSaver,
  threadId: string,
  turn: string,
): Promise<{ startedFrom: CheckpointLine | null; endedIn: CheckpointLine | null }> {
  const found = await turnNamed(saver, threadId, turn);
  const thought = found.turnType === "Thought" ? found : await thoughtOf(saver, found);
  const action = found.turnType === "Action" ? found : await actionOf(saver, found);
  const placed = async (row: TurnRow | undefined): Promise<CheckpointLine | null> => {
    const head = row && (await checkpointOfTurn(saver, row, "all"));
    return head === undefined ? null : lineOf(head);
  };
  const endedIn = await placed(action);
  // It has no checkpoint behind it yet.
  const isLater = endedIn !== null && endedIn.number > numberOf(action?.seq ?? 0);
  return { startedFrom: await placed(thought), endedIn: isLater ? endedIn : null };
}

/** The Thought of an Action's attempt. Undefined: it was removed. */
export async function thoughtOf(saver: BaseTurnSaver, action: TurnRow): Promise<TurnRow | undefined> {
  const { threadId = "", nodeTaskId, attempt, seq = 0 } = action;
  const { store } = internalsOf(saver);
  const rows = paged(
    (last: TurnRow | undefined) => store.inspect.turnsBefore({ threadId, beforeSeq: last?.seq ?? seq, limit: FEW }),
    FEW,
  );
  for await (const row of rows)
    if (row.turnType === "Thought" && row.nodeTaskId === nodeTaskId && row.attempt === attempt) return row;
  return undefined;
}

export function effectLine(effect: Effect): EffectLine {
  return {
    id: effect.id,
    threadId: effect.threadId,
    number: numberOf(effect.seq),
    name: effect.name,
    label: effect.label,
    node: nodePathOf(effect.nodeNs),
    taskId: effect.taskId,
    status: effect.status,
    undo: effect.undo === false ? "" : (effect.undo ?? null),
    undoStatus: effect.undoStatus ?? null,
    undoError: effect.undoError ?? null,
    key: effect.key,
    tries: effect.tries,
    idempotent: effect.idempotent,
    startedAt: effect.startedAt.toISOString(),
    endedAt: effect.endedAt?.toISOString() ?? null,
    settledBy: effect.settledBy ?? null,
  };
}
