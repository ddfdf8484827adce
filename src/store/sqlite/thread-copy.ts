import { corrupted } from "../checksum";
import { TurnsError } from "../../errors";
import type { CopyOrder } from "../store";
import { unfinishedRewind as refusal } from "../unfinished-rewind";
import { unknownThread } from "../unknown-thread";
import { CopyPath, FROM_START, pageByThread, pageBySeq, type RowWrite, type RowWrites } from "./copy-path";
import { EFFECT_COLUMNS, type RawEffect, saveEffect, toEffect } from "./effect-rows";
import { refuseEncrypted } from "./keys";
import { manifestText } from "./manifest";
import { namesOf, saveName } from "./names";
import { unfinishedRewind } from "./rewind-records";
import { insertSnapshot, type Row as SnapshotRow, toHead } from "./snapshot-rows";
import type { SqliteSql } from "./engine";
import type { Program } from "./sql";
import { insertTask, type RawTask, toTask } from "./tasks";
import { countedRows } from "./thread-counts";
import { type ThreadCounts, ThreadKey } from "./thread-key";
import { insertThread, NO_ROWS, takeNumber, writerOn, threadKey } from "./thread-keys";
import { copyChunks, type Translation } from "./thread-translation";
import { allowAgain } from "./tombstones";
import { type RawTurn, toTurn, TURN_COLUMNS, writeTurn } from "./turn-rows";
import { insertWrites, openWrites, type PlacedWrites } from "./write-rows";

const TASKS = pageByThread("langgraph_tasks");
const TURNS = pageByThread("langgraph_checkpoints", TURN_COLUMNS);
const LISTS = pageBySeq("langgraph_lists");
const GRAPHS = pageBySeq("langgraph_graphs");
const SNAPSHOTS = pageBySeq("langgraph_snapshots");
const WRITES = pageBySeq("langgraph_writes");
const EFFECTS = pageBySeq("langgraph_effects", EFFECT_COLUMNS);
const ITEMS = "SELECT pos, seq, chunk FROM langgraph_items WHERE list = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3";
const ADD_LIST = "INSERT INTO langgraph_lists (seq, thread, base, keep) VALUES (?, ?, ?, ?)";
const ADD_ITEM = "INSERT INTO langgraph_items (list, pos, seq, chunk) VALUES (?, ?, ?, ?)";
const ADD_GRAPH = "INSERT INTO langgraph_graphs (seq, thread, digest, document) VALUES (?, ?, ?, ?)";
/** What the source's own row counts and its copy has too; rewinds stay behind. */
const COPIED: readonly (keyof ThreadCounts)[] = ["snapshots", "writes", "turns", "effects"];

interface ListRow {
  seq: number;
  base: number | null;
  keep: number;
}
interface ItemRow {
  pos: number;
  seq: number;
  chunk: number;
}
interface GraphRow {
  seq: number;
  digest: string;
  document: string;
}
type Superseded<T> = T & { superseded_by: number | null };

/** The key of a thread that has no row of its own yet: its rows are counted when it gets one. */
class UnpublishedKey extends ThreadKey {
  override touch(): void {
    // There is no row to write.
  }

  override count(): void {
    // As above.
  }
}

/*
 * The copy of a thread under another id: checkpoints of all namespaces, their values and writes, names, tasks and turns. Superseded rows
 * go along, so that a rewind of the copy is as exact as one of the source; archives stay behind.
 *
 * The steps are sourceOf, beginCopy, the writes of copiedRows, and publishCopy. They may be one transaction, or many, if `from` sees one
 * state of the file all the time. Nobody sees the rows before the last step.
 */

/** Copies a thread within one transaction. @throws {TurnsError} what the steps throw */
export function* copyAtOnce(sql: SqliteSql, order: CopyOrder): Program {
  const path = yield* beginCopy(sql, yield* sourceOf(sql, order.sourceId), sql, order);
  for (const write of copiedRows(path)) if (write !== undefined) yield* write();
  yield* publishCopy(path);
}

/** @throws {TurnsError} THREAD_NOT_FOUND; REWIND_UNFINISHED: what that rewind has undone, the copy would take for done */
export function* sourceOf(from: SqliteSql, sourceId: string): Program<ThreadKey> {
  const source = yield* threadKey(from, sourceId);
  if (source === undefined) throw unknownThread(sourceId);
  const rewind = yield* unfinishedRewind(from, sourceId);
  if (rewind !== undefined) throw refusal(rewind, `a copy of thread ${JSON.stringify(sourceId)}`);
  return source;
}

/** Takes the number of the copy, whose row is {@link publishCopy}'s to write. @throws {TurnsError} THREAD_EXISTS */
export function* beginCopy(from: SqliteSql, source: ThreadKey, to: SqliteSql, order: CopyOrder): Program<CopyPath> {
  const { targetId, createdAt, createId } = order;
  yield* refuseTaken(to, targetId);
  const fields = { thread: yield* takeNumber(to), thread_id: targetId, created_at: createdAt };
  const target = new UnpublishedKey(writerOn(to), {
    ...fields,
    seq: 0,
    epoch: 0,
    generation: 0,
    pruned_seq: 0,
    unswept: 0,
    ...NO_ROWS,
  });
  return new CopyPath(from, source, to, target, createId);
}

/**
 * Every row of the copy but the thread's own. What is referred to comes first, so that `verify` finds no loose ends in between.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* copiedRows(path: CopyPath): RowWrites {
  yield* copyTasks(path);
  const translation = yield* copyChunks(path);
  yield* copyLists(path);
  yield* copyGraphs(path);
  yield* copySnapshots(path, translation);
  yield* copyNames(path);
  yield* copyWrites(path, translation);
  yield* copyTurns(path, translation);
  yield* copyEffects(path, translation);
}

/** Whether rows of the source were deleted or brought back since it was read, or are about to be. */
export function* isOutdated({ to, source }: CopyPath): Program<boolean> {
  const now = yield* threadKey(to, source.threadId);
  return now?.generation !== source.generation || (yield* unfinishedRewind(to, source.threadId)) !== undefined;
}

/** Whether all is there: CheckpointPersister deletes turns by their task, also those of a copy that nobody sees yet. */
export function* isComplete({ to, source, target }: CopyPath): Program<boolean> {
  return firstMissing(source, yield* countedRows(to, target)) === undefined;
}

/** Makes the copy a thread that everyone sees. @throws {TurnsError} THREAD_EXISTS, CHECKPOINT_CORRUPTED */
export function* publishCopy(path: CopyPath): Program {
  const { to, source, target } = path;
  const { threadId } = target;
  yield* refuseTaken(to, threadId);
  const counts = (yield* countedRows(to, target)) ?? NO_ROWS;
  // A row that was passed over, because its number is damaged, must not be missing without a word.
  const kind = firstMissing(source, counts);
  if (kind !== undefined) {
    const [what, data] = [`thread ${JSON.stringify(source.threadId)}`, { threadId: source.threadId }];
    throw corrupted(what, `${source.row[kind]} rows of ${kind}`, String(counts[kind]), data);
  }
  if (!to.sealing.encrypted) yield* refuseEncrypted(to, `thread ${JSON.stringify(threadId)}`);
  yield* allowAgain(to, threadId);
  const { seq, epoch, pruned_seq: prunedSeq, unswept } = source.row;
  const fields = { thread: target.thread, thread_id: threadId, created_at: target.row.created_at };
  const place = { seq, epoch, generation: 0, pruned_seq: prunedSeq === 0 ? 0 : path.seq(prunedSeq), unswept };
  yield* insertThread(to, { ...fields, ...place }, counts);
}

/** The first kind of rows of which the copy has not as many as the source. */
function firstMissing({ row }: ThreadKey, found: ThreadCounts | undefined): keyof ThreadCounts | undefined {
  return COPIED.find((kind) => row[kind] !== found?.[kind]);
}

/** @throws {TurnsError} THREAD_EXISTS */
export function* refuseTaken(sql: SqliteSql, threadId: string): Program {
  if ((yield* threadKey(sql, threadId)) === undefined) return;
  throw new TurnsError("THREAD_EXISTS", {
    what: `thread ${JSON.stringify(threadId)}`,
    expected: "an id that is not in use",
    found: "a thread of that id",
    remedy: "Copy to another id, or delete that thread first.",
    data: { threadId },
  });
}

function* copyTasks(path: CopyPath): RowWrites {
  const { from, to, source, target } = path;
  for (const row of path.rowsByThread<RawTask>(TASKS)) {
    const task = toTask(from, source.threadId, row);
    if (task === undefined) continue;
    const copied = { ...task, seq: path.seq(task.seq), graphId: graphIdIn(path, task.graphId) };
    yield () => insertTask(to, target, copied);
  }
}

/** A graph without a name has the thread's id. */
function graphIdIn({ source, target }: CopyPath, graphId: string): string {
  return graphId === source.threadId ? target.threadId : graphId;
}

function* copyLists(path: CopyPath): RowWrites {
  const { to, target } = path;
  for (const { seq, base, keep } of path.rowsBySeq<ListRow>(LISTS)) {
    const list = path.seq(seq);
    yield () => to.run(ADD_LIST, list, target.thread, path.seqIfAny(base), keep);
    for (const item of path.pages<ItemRow>(ITEMS, seq, FROM_START, ({ pos }) => pos)) {
      yield () => to.run(ADD_ITEM, list, item.pos, path.seq(item.seq), path.seq(item.chunk));
    }
  }
}

function* copyGraphs(path: CopyPath): RowWrites {
  const { to, target } = path;
  for (const { seq, digest, document } of path.rowsBySeq<GraphRow>(GRAPHS)) {
    yield () => to.run(ADD_GRAPH, path.seq(seq), target.thread, digest, document);
  }
}

function* copySnapshots(path: CopyPath, translation: Translation): RowWrites {
  const { from, to, source, target } = path;
  for (const row of path.rowsBySeq<SnapshotRow>(SNAPSHOTS)) {
    const head = toHead(from, source.threadId, row);
    const copied = {
      seq: path.seq(row.seq),
      ns: head.ns,
      checkpointId: head.checkpointId,
      position: path.seq(head.position),
      parentId: head.parentId,
      source: row.source,
      step: row.step,
      runId: row.run_id ?? undefined,
      createdAt: row.created_at,
      delta: row.delta ?? undefined,
      body: head.body,
      channels: manifestText(translation.channels(head.channels)),
      metadata: head.metadata,
    };
    yield () => insertSnapshot(to, target, copied);
    yield* supersede(path, "langgraph_snapshots", row);
  }
}

function* copyNames({ from, to, source, target }: CopyPath): RowWrites {
  for (const name of from.now(namesOf(from, source))) yield () => saveName(to, target, name);
}

function* copyWrites(path: CopyPath, translation: Translation): RowWrites {
  const { from, to, source, target } = path;
  for (const row of path.rowsBySeq<Superseded<PlacedWrites>>(WRITES)) {
    const { checkpoint_ns: ns, checkpoint_id: checkpointId, node_task_id: nodeTaskId, task_path: taskPath, idx } = row;
    const entries = translation.text(openWrites(from, source.threadId, row, ns, checkpointId));
    const copied = { seq: path.seq(row.seq), ns, checkpointId, nodeTaskId, taskPath, idx, entries };
    yield () => insertWrites(to, target, copied);
    yield* supersede(path, "langgraph_writes", row);
  }
}

function* supersede(
  path: CopyPath,
  table: "langgraph_snapshots" | "langgraph_writes",
  { seq, superseded_by: by }: Superseded<{ seq: number }>,
): Generator<RowWrite> {
  if (by === null) return;
  yield () => path.to.run(`UPDATE ${table} SET superseded_by = ? WHERE seq = ?`, path.seq(by), path.seq(seq));
}

function* copyTurns(path: CopyPath, translation: Translation): RowWrites {
  const { from, to, source, target } = path;
  for (const row of path.rowsByThread<RawTurn>(TURNS)) {
    const turn = toTurn(from, row, source.threadId);
    const copied = {
      ...turn,
      id: path.createId(),
      serializedState: translation.text(turn.serializedState),
      graphId: graphIdIn(path, turn.graphId),
      threadId: target.threadId,
      seq: path.seq(turn.seq ?? 0),
      graph: turn.graph === undefined ? undefined : path.seq(turn.graph),
    };
    yield () => writeTurn(to, target.thread, copied);
  }
}

/** What was done for the source is done for its copy, which has nothing to undo: the side effect is the source's. */
function* copyEffects(path: CopyPath, translation: Translation): RowWrites {
  const { from, to, source, target } = path;
  for (const row of path.rowsBySeq<RawEffect>(EFFECTS)) {
    const effect = toEffect(from, source.threadId, row);
    const input = effect.input === undefined ? undefined : translation.text(effect.input);
    const copied = {
      ...effect,
      id: path.createId(),
      threadId: target.threadId,
      seq: path.seq(effect.seq),
      triedSeq: undefined,
      input,
      // With encryption digests are the thread's own.
      inputDigest: input === undefined ? undefined : to.sealing.address(target.threadId, input),
      outcome: effect.outcome === undefined ? undefined : translation.text(effect.outcome),
      inherited: true,
    };
    yield () => saveEffect(to, target, copied);
  }
}
