import { push } from "../../push";
import { StaleFacts } from "../engine";
import { namespaceAbove, nodeTaskIdOf } from "../namespaces";
import { textFor } from "../dialect";
import { answered, type Program, question, type Statement } from "../program";
import { corrupted, refuseIllFormed } from "../refusals";
import { changedTurn, GRAPH_ROWS, type RawTurn, toTurn, TURN_ROWS } from "../rows";
import { LeftUnwritten, type Session } from "../session";
import type {
  GraphReference,
  GraphRow,
  LostTurn,
  NewAction,
  NewThought,
  NewWrites,
  PackedText,
  TurnRow,
  TurnState,
  TurnType,
} from "../store";
import type { ChangesOf, TURNS } from "../tables";
import { headKey, type ThreadState } from "../thread-state";
import { aboutThread, claimTask, type Entry, enterThread, isThere, threadIdOf, threadKey } from "./thread-rows";
import { storeChunks } from "./values";

const LATEST_ID = `SELECT checkpoint_id, step FROM langgraph_snapshots
  WHERE thread = ? AND checkpoint_ns = ? AND superseded_by IS NULL ORDER BY position DESC LIMIT 1`;
/** The plus keeps SQLite on the index by node task. To sort by `seq` it would otherwise read all turns of the thread. */
const OF_NODE_TASK = TURN_ROWS.select("WHERE thread = ? AND node_task_id = ? ORDER BY +seq");

export function* insertThought(session: Session, thought: NewThought): Program<TurnRow> {
  const { threadId, start, nodeTaskId, nodeNs, step } = thought;
  refuseIllFormed("node", thought.nodeName);
  const key = yield* enterThread(session, threadId, thought.createdAt, {
    ...turnEntry(thought),
    belongs: (on) => (start === undefined ? answered(false) : isThere(session, on, start.ns, start.checkpointId)),
  });
  const origin = yield* originOf(session, key, thought);
  const task = yield* claimTask(session, key, thought.claim, thought.createdAt);
  if (isFirstTurn(key, origin, nodeTaskId)) key.facts.turns.set(nodeTaskId, []);
  if (!origin.proven) key.facts.hasStrayTurns = true;
  const attempts = (yield* turnsOf(session, key, nodeTaskId)).filter(({ turnType }) => turnType === "Thought").length;
  const graph = yield* graphSeq(session, key, thought.graph);
  const { serializedState, stateFormat } = yield* contentOf(session, key, thought.state);
  return insertTurn(key, {
    id: thought.id,
    graphId: task.graphId,
    nodeName: thought.nodeName,
    turnType: "Thought",
    serializedState,
    stateFormat,
    taskId: task.taskId,
    createdAt: thought.createdAt,
    seq: key.nextSeq(),
    threadId,
    ns: origin.ns,
    checkpointId: origin.checkpointId,
    nodeNs,
    nodeTaskId,
    runId: thought.runId,
    step,
    attempt: attempts + 1,
    status: undefined,
    durable: false,
    inputTokens: 0,
    outputTokens: 0,
    cachedTokens: 0,
    reasoningTokens: 0,
    graph,
    fingerprint: thought.fingerprint,
    validation: undefined,
  });
}

interface Origin {
  ns: string;
  checkpointId: string | undefined;
  /** Whether the node task's id proves this checkpoint. */
  proven: boolean;
}

/** Whether a node task is known to have no turns yet, so that none have to be looked up. */
export function isFirstTurn({ facts }: ThreadState, { ns, checkpointId, proven }: Origin, nodeTaskId: string): boolean {
  if (!proven || checkpointId === undefined || facts.hasStrayTurns) return false;
  return facts.heads.get(headKey(ns, checkpointId))?.turns?.has(nodeTaskId) === false;
}

/** The turns of a node task, oldest first: remembered, or read. */
export function* turnsOf(session: Session, key: ThreadState, nodeTaskId: string): Program<readonly TurnRow[]> {
  const remembered = key.facts.turns.get(nodeTaskId);
  if (remembered !== undefined) return remembered;
  yield* session.flushTurns(key);
  const rows = yield* session.all<RawTurn>(OF_NODE_TASK, key.thread, nodeTaskId);
  const turns = rows.map((row) => toTurn(session, row, key.threadId));
  key.facts.turns.set(nodeTaskId, turns);
  return turns;
}

/** The newest turn of a kind among those of a node task, of one attempt or of any. */
export function newestOf(turns: readonly TurnRow[], type: TurnType, runId?: string): TurnRow | undefined {
  return turns.findLast((turn) => turn.turnType === type && (runId === undefined || turn.runId === runId));
}

/** With durability "exit", a run's first Thought comes before its first checkpoint. */
function turnEntry({ claim, sawDeletion, lease }: Pick<NewThought, "claim" | "sawDeletion" | "lease">): Omit<Entry, "belongs"> {
  return { begins: claim.kind === "begin", refersTo: undefined, sawDeletion, lease };
}

/**
 * The checkpoint that a node task started from. If that is unknown or missing, it is the newest one of its namespace, if that is
 * of the step before: with durability "exit" the newest one may belong to an earlier run. A functional task and a node of a graph
 * without checkpoints start where the node around them did.
 */
function* originOf(session: Session, key: ThreadState, { start, nodeNs, step }: NewThought): Program<Origin> {
  if (start !== undefined && (yield* isThere(session, key, start.ns, start.checkpointId))) return { ...start, proven: true };
  const own = namespaceAbove(nodeNs);
  const unknown = { ns: own, checkpointId: undefined, proven: false };
  for (let ns = own, inner = nodeNs; ; inner = ns, ns = namespaceAbove(ns)) {
    const latest = yield* session.get<{ checkpoint_id: string; step: number }>(LATEST_ID, key.thread, ns);
    if (latest === undefined && ns !== "") continue;
    if (latest === undefined || (ns === own && latest.step !== step - 1)) return unknown;
    const around = ns === own ? undefined : newestOf(yield* turnsOf(session, key, nodeTaskIdOf(inner)), "Thought");
    if (around !== undefined && around.checkpointId === undefined) return unknown;
    return { ns: around?.ns ?? ns, checkpointId: around?.checkpointId ?? latest.checkpoint_id, proven: false };
  }
}

function* contentOf(
  session: Session,
  key: ThreadState,
  { format, packed }: TurnState,
): Program<Pick<TurnRow, "serializedState" | "stateFormat">> {
  if (packed !== undefined) yield* storeChunks(session, key, packed.parts);
  return { serializedState: packed?.text ?? "{}", stateFormat: format };
}

/** @param update undefined for a row without content */
function updateOf(update: PackedText | undefined): TurnState {
  return { format: update === undefined ? "none" : "update", packed: update };
}

export function* insertAction(session: Session, action: NewAction): Program<TurnRow> {
  const { nodeTaskId, runId } = action;
  const key = yield* enterThread(session, action.threadId, action.createdAt, {
    ...turnEntry(action),
    *belongs(on) {
      return newestOf(yield* turnsOf(session, on, nodeTaskId), "Thought", runId) !== undefined;
    },
  });
  const thought = newestOf(yield* turnsOf(session, key, nodeTaskId), "Thought", runId);
  if (thought === undefined) key.facts.hasStrayTurns = true;
  const { taskId, graphId } = thought ?? (yield* claimTask(session, key, action.claim, action.createdAt));
  const graph = thought === undefined ? yield* graphSeq(session, key, action.graph) : thought.graph;
  const { serializedState, stateFormat } = yield* contentOf(session, key, updateOf(action.update));
  return insertTurn(key, {
    id: action.id,
    graphId,
    nodeName: action.nodeName,
    turnType: "Action",
    serializedState,
    stateFormat,
    taskId,
    createdAt: action.createdAt,
    seq: key.nextSeq(),
    threadId: action.threadId,
    ns: thought === undefined ? namespaceAbove(action.nodeNs) : thought.ns,
    checkpointId: thought?.checkpointId,
    nodeNs: action.nodeNs,
    nodeTaskId,
    runId,
    step: action.step,
    attempt: thought?.attempt ?? 1,
    status: action.status,
    durable: false,
    inputTokens: thought?.inputTokens ?? 0,
    outputTokens: thought?.outputTokens ?? 0,
    cachedTokens: thought?.cachedTokens ?? 0,
    reasoningTokens: thought?.reasoningTokens ?? 0,
    graph,
    fingerprint: thought === undefined ? action.fingerprint : thought.fingerprint,
    validation: undefined,
  });
}

/**
 * Marks the Action of the task's latest attempt as settled, in the transaction of its writes. If the attempt has none (its
 * provisional save failed, or no recorder is attached), the Action is inserted here.
 */
export function* settleAction(
  session: Session,
  key: ThreadState,
  writes: Pick<NewWrites, "nodeTaskId" | "createdAt">,
  settle: NonNullable<NewWrites["settle"]>,
): Program<SavedApart | undefined> {
  const turns = yield* turnsOf(session, key, writes.nodeTaskId);
  const thought = newestOf(turns, "Thought");
  if (thought === undefined) return undefined;
  // A timed-out attempt can finish late, so the newest Action may belong to an earlier attempt.
  const ownAction = thought.runId === undefined ? undefined : newestOf(turns, "Action", thought.runId);
  const action = ownAction ?? newestOf(turns, "Action");
  return yield* turnApart(
    session,
    { nodeName: thought.nodeName, turnType: "Action" },
    settled(session, key, writes, settle, { thought, action }),
  );
}

function* settled(
  session: Session,
  key: ThreadState,
  writes: Pick<NewWrites, "createdAt">,
  settle: NonNullable<NewWrites["settle"]>,
  { thought, action }: { thought: TurnRow; action: TurnRow | undefined },
): Program<TurnRow> {
  const { status, durable } = settle;
  const isPlanned = thought.runId === undefined;
  const isOfAttempt = action !== undefined && (action.seq ?? 0) > (thought.seq ?? 0);
  if (isOfAttempt && !isPlanned) return yield* updateTurn(session, action, { status, durable });
  const content = yield* contentOf(
    session,
    key,
    updateOf(settle.redacted === undefined ? settle.update : settle.redacted(thought)),
  );
  // Nobody sees a planned node start again. A different outcome belongs to another attempt.
  const isKnown = isOfAttempt && action.status === status && action.serializedState === content.serializedState;
  if (isKnown) return yield* updateTurn(session, action, { durable });
  return insertTurn(key, {
    ...thought,
    id: settle.actionId,
    turnType: "Action",
    ...content,
    createdAt: writes.createdAt,
    seq: key.nextSeq(),
    status,
    durable,
    validation: undefined,
  });
}

/** A turn that is part of a commit: saved or lost. */
export interface SavedApart {
  turn: TurnRow | undefined;
  lost: LostTurn | undefined;
}

/** A turn couldn't be saved, and the whole transaction was rolled back with it. */
export class TookAllBack extends Error {
  constructor(override readonly cause: unknown) {
    super("a turn could not be saved", { cause });
  }
}

/**
 * Saves a turn that is part of a request. If it fails, the whole transaction is taken apart (see `CommitQueue`). The turn then
 * gets its own savepoint, so that only the turn is lost and the rest of LangGraph's request is saved (S1.9). If the savepoint is
 * gone too, for example because the disk is full, the turn is left out.
 *
 * @throws {TookAllBack}
 */
export function* turnApart(session: Session, of: Omit<LostTurn, "error">, save: Program<TurnRow>): Program<SavedApart> {
  if (!session.inParts) return { turn: yield* save, lost: undefined };
  if (session.leftOut !== undefined) return { turn: undefined, lost: { ...of, error: session.leftOut.error } };
  yield* session.flush();
  const restore = session.savepoint();
  // Both wait: what fails in between is the turn's fault, and nothing else is.
  yield* session.changes("SAVEPOINT turn_apart");
  try {
    const turn = yield* save;
    yield* session.flush();
    yield* session.changes("RELEASE turn_apart");
    return { turn, lost: undefined };
  } catch (error) {
    if (error instanceof StaleFacts || (session.engine.buffers && session.engine.isPassing(error))) throw error;
    const reason = session.engine.meaningOf(error instanceof LeftUnwritten ? error.cause : error);
    yield* rolledBack(session, reason);
    restore();
    return { turn: undefined, lost: { ...of, error: reason } };
  }
}

/** After some failures (a full disk) SQLite has rolled back the whole transaction, and the savepoint is gone. */
function* rolledBack(session: Session, reason: unknown): Program {
  try {
    yield* session.changes("ROLLBACK TO turn_apart");
    yield* session.changes("RELEASE turn_apart");
  } catch {
    throw new TookAllBack(reason);
  }
}

/** Adds a turn to a thread. It is written at the end of the transaction, with all changes made to it until then. */
export function insertTurn(key: ThreadState, turn: TurnRow): TurnRow {
  key.count("turns");
  key.addTurn(turn);
  const { ns = "", checkpointId = "", nodeTaskId = "" } = turn;
  key.facts.heads.get(headKey(ns, checkpointId))?.turns?.add(nodeTaskId);
  key.rememberTurn(turn);
  return turn;
}

/** The fields of a saved turn that may change. */
type TurnChange = Partial<ChangesOf<typeof TURNS>>;

/**
 * Changes a turn in place, within the caller's transaction.
 *
 * @param turn as {@link toTurn} read it in the same transaction, so verified: the new checksum must not vouch for somebody else's
 *   changes
 * @returns the turn as it is now
 */
export function* updateTurn(session: Session, turn: TurnRow, change: TurnChange): Program<TurnRow> {
  const now = { ...turn, ...change };
  const key = now.threadId === undefined ? undefined : yield* threadKey(session, now.threadId);
  key?.touch();
  if (key !== undefined) key.rememberTurn(now);
  if (key?.replaceTurn(now) === true) return now;
  yield* session.run(TURN_ROWS.update, ...changedTurn(session, now));
  return now;
}

/** A row of any thread, verified. */
export function* turnOf(session: Session, row: RawTurn): Program<TurnRow> {
  return toTurn(session, row, row.thread === null ? undefined : yield* threadIdOf(session, row.thread));
}

const OF_DIGEST = "SELECT seq FROM langgraph_graphs WHERE thread = ? AND digest = ?";
/** The plus keeps SQLite on the index by id. */
const OF_TURNS = textFor(
  ({ among }) => `SELECT id, seq, graph FROM langgraph_checkpoints
  WHERE id ${among("?1")} AND +thread = ?2 AND graph IS NOT NULL`,
);
const GRAPHS_OF_TURNS = textFor(
  ({ among }) => `SELECT seq, digest, document FROM langgraph_graphs WHERE thread = ?2 AND seq IN (
  SELECT graph FROM langgraph_checkpoints WHERE id ${among("?1")} AND +thread = ?2 AND graph IS NOT NULL)`,
);
/** A turn in the archive of a rewind may be restored and need its graph. */
const DELETE_UNUSED = `DELETE FROM langgraph_graphs WHERE thread = ?1
  AND NOT EXISTS (SELECT 1 FROM langgraph_checkpoints AS c WHERE c.thread = ?1 AND c.graph = langgraph_graphs.seq)
  AND NOT EXISTS (SELECT 1 FROM langgraph_archive WHERE thread_id = ?2)`;

/**
 * The seq of the graph's row. The row is written with the first turn that refers to it, so it is older than every turn that does.
 */
function* graphSeq(session: Session, key: ThreadState, graph: GraphReference | undefined): Program<number | undefined> {
  if (graph === undefined) return undefined;
  const remembered = key.facts.graphs.get(graph.digest);
  if (remembered !== undefined) return remembered;
  const known = key.facts.areGraphsKnown ? undefined : yield* session.get<{ seq: number }>(OF_DIGEST, key.thread, graph.digest);
  if (known !== undefined) key.facts.graphs.set(graph.digest, known.seq);
  if (known !== undefined) return known.seq;
  const seq = key.nextSeq();
  yield* session.insert(key, GRAPH_ROWS, { seq, digest: graph.digest, document: graph.document() });
  key.facts.graphs.set(graph.digest, seq);
  return seq;
}

/** The graphs that these turns ran in, oldest turn first. Turns without one are in none. */
export function* graphsOfTurns(session: Session, threadId: string, turnIds: readonly string[]): Program<GraphRow[]> {
  if (turnIds.length === 0) return [];
  const ids = JSON.stringify([...new Set(turnIds)]);
  const questions = (thread: number): Statement[] => [
    question("arrays", OF_TURNS(session), ids, thread),
    question("all", GRAPHS_OF_TURNS(session), ids, thread),
  ];
  const found = yield* aboutThread(session, threadId, questions, function* ({ thread }) {
    const turns = new Map<number, string[]>();
    const rowsOfTurns = yield* session.rows<[string, number, number]>(OF_TURNS(session), ids, thread);
    for (const [id, , graph] of rowsOfTurns.toSorted(([, left], [, right]) => left - right)) push(turns, graph, id);
    const rows = yield* session.all<{ seq: number; digest: string; document: string }>(GRAPHS_OF_TURNS(session), ids, thread);
    const graphs = new Map(rows.map(({ seq, ...row }) => [seq, row]));
    return [...turns].map(([seq, ofGraph]) => {
      const row = graphs.get(seq);
      // A graph is written before the turns that refer to it, and deleted after them.
      if (row === undefined)
        throw corrupted(`graph ${seq} of thread ${threadId}`, "what its turns ran in", "none", { threadId, seq });
      return { ...row, turnIds: ofGraph };
    });
  });
  return found ?? [];
}

export function* deleteUnusedGraphs(session: Session, key: ThreadState): Program<void> {
  yield* session.run(DELETE_UNUSED, key.thread, key.threadId);
}
