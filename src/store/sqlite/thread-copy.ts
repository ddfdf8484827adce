import { corrupted } from "../checksum";
import { TurnsError } from "../../errors";
import type { CopyOrder } from "../store";
import { unfinishedRewind as refusal } from "../unfinished-rewind";
import { unknownThread } from "../unknown-thread";
import { CopiedSeqs } from "./copied-seqs";
import type { ListPointer } from "./copied-digests";
import { pagedRows, type Pauses, type RowWrites } from "./copy-rows";
import { EFFECT_COLUMNS, type RawEffect, saveEffect, toEffect } from "./effect-rows";
import { refuseEncrypted } from "./keys";
import { manifestText } from "./manifest";
import { namesOf, saveName } from "./names";
import { unfinishedRewind } from "./rewind-records";
import { insertSnapshot, type Row as SnapshotRow, toHead } from "./snapshot-rows";
import type { Sql } from "./sql";
import { insertTask, type RawTask, toTask } from "./tasks";
import { inheritedOf, insertThread, type ThreadKey, threadKey } from "./thread-keys";
import { type CopyPath, copyPlainChunks, copySealedChunks, type Translation } from "./thread-translation";
import { allowAgain } from "./tombstones";
import { insertTurn, type RawTurn, toTurn, TURN_COLUMNS } from "./turn-rows";
import { countedRows, countsOf, recount, wholeThread } from "./whole-thread";
import { insertWrites, openWrites, type PlacedWrites } from "./write-rows";

const bySeq = (table: string, columns = "*"): string =>
  `SELECT ${columns} FROM ${table} WHERE thread = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3`;
const TASKS = bySeq("langgraph_tasks");
const LISTS = bySeq("langgraph_lists");
const GRAPHS = bySeq("langgraph_graphs");
const SNAPSHOTS = bySeq("langgraph_snapshots");
const WRITES = bySeq("langgraph_writes");
const TURNS = bySeq("langgraph_checkpoints", TURN_COLUMNS);
const EFFECTS = bySeq("langgraph_effects", EFFECT_COLUMNS);
const ITEMS = "SELECT pos, seq, chunk FROM langgraph_items WHERE list = ?1 AND pos > ?2 ORDER BY pos LIMIT ?3";
const ADD_LIST = "INSERT INTO langgraph_lists (seq, thread, base, keep) VALUES (?, ?, ?, ?)";
const ADD_ITEM = "INSERT INTO langgraph_items (list, pos, seq, thread, chunk) VALUES (?, ?, ?, ?, ?)";
const ADD_GRAPH = "INSERT INTO langgraph_graphs (seq, thread, digest, document) VALUES (?, ?, ?, ?)";

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

/**
 * The copy of a thread under another id: checkpoints of all namespaces, their values and writes, names, tasks and turns. The copies take
 * new seqs in the old order. Superseded rows go along, so that a rewind of the copy is as exact as one of the source; archives stay
 * behind.
 *
 * Its steps are {@link readSeqs}, {@link place}, {@link rows} and {@link publish}. They may be one transaction, or many, if `from` sees one
 * state of the file all the time. Nobody sees the rows before the last step.
 */
export class ThreadCopy {
  readonly #from: Sql;
  readonly #order: CopyOrder;
  readonly #source: ThreadKey;
  #seqs: CopiedSeqs | undefined;
  #target: ThreadKey | undefined;

  /**
   * @param from where the source is read
   * @throws {TurnsError} THREAD_NOT_FOUND; REWIND_UNFINISHED: what that rewind has undone, the copy would take for done
   */
  constructor(from: Sql, order: CopyOrder) {
    this.#from = from;
    this.#order = order;
    const source = from.now(wholeThread(from, order.sourceId));
    if (source === undefined) throw unknownThread(order.sourceId);
    refuseUnfinished(from, order.sourceId);
    this.#source = source;
  }

  *readSeqs(): Pauses<void> {
    this.#seqs = yield* CopiedSeqs.read(this.#from, this.#source);
  }

  /** Takes the numbers of the copy, within a transaction. @returns the thread's own */
  place(to: Sql): number {
    const { targetId } = this.#order;
    refuseTaken(to, targetId);
    const thread = to.now(to.nextSeq());
    this.#seqs?.place(to.now(to.nextSeq(this.#seqs.count)));
    this.#target = { threadId: targetId, thread, generation: `${thread}.0` };
    return thread;
  }

  /**
   * Every row of the copy but the thread's own. What is referred to comes first, so that `verify` finds no loose ends in between.
   *
   * @throws {TurnsError} CHECKPOINT_CORRUPTED
   */
  *rows(to: Sql): RowWrites {
    const path = this.#path(to);
    yield* copyTasks(path);
    const translation = yield* translationOf(path);
    yield* copyLists(path);
    yield* copyGraphs(path);
    yield* copySnapshots(path, translation);
    yield* copyNames(path);
    yield* copyWrites(path, translation);
    yield* copyTurns(path, translation, this.#order.createId);
    yield* copyEffects(path, translation, this.#order.createId);
  }

  /** Whether rows of the source were deleted or brought back since it was read, or are about to be. */
  isOutdated(sql: Sql): boolean {
    const { sourceId } = this.#order;
    return (
      sql.now(threadKey(sql, sourceId))?.generation !== this.#source.generation ||
      sql.now(unfinishedRewind(sql, sourceId)) !== undefined
    );
  }

  /** Whether all is there: CheckpointPersister deletes turns by their task, also those of a copy that nobody sees yet. */
  isComplete(to: Sql): boolean {
    return this.#missing(to) === undefined;
  }

  /** Makes the copy a thread that everyone sees, within a transaction. @throws {TurnsError} THREAD_EXISTS, CHECKPOINT_CORRUPTED */
  publish(to: Sql): void {
    const { source, target, seqs } = this.#path(to);
    const { threadId, thread } = target;
    refuseTaken(to, threadId);
    this.#refuseIncomplete(to);
    if (!to.sealing.encrypted) to.now(refuseEncrypted(to, `thread ${JSON.stringify(threadId)}`));
    to.now(allowAgain(to, threadId));
    const { epoch, prunedSeq, unswept } = this.#from.now(inheritedOf(this.#from, source));
    to.now(
      insertThread(to, {
        thread,
        thread_id: threadId,
        created_at: this.#order.createdAt,
        epoch,
        generation: 0,
        pruned_seq: prunedSeq === 0 ? 0 : seqs.of(prunedSeq),
        unswept,
      }),
    );
    to.created.add(thread);
    to.now(recount(to, target));
  }

  /** A row that was passed over, because its number is damaged, must not be missing without a word. */
  #refuseIncomplete(to: Sql): void {
    const wrong = this.#missing(to);
    if (wrong === undefined) return;
    const { threadId } = this.#source;
    throw corrupted(`thread ${JSON.stringify(threadId)}`, `${wrong.expected} rows of ${wrong.kind}`, String(wrong.found), {
      threadId,
    });
  }

  #missing(to: Sql): { kind: string; expected: number | undefined; found: number | undefined } | undefined {
    const [expected, found] = [
      this.#from.now(countsOf(this.#from, this.#source)),
      to.now(countedRows(to, this.#path(to).target)),
    ];
    const kind = (["snapshots", "writes", "turns", "effects"] as const).find((one) => expected?.[one] !== found?.[one]);
    return kind && { kind, expected: expected?.[kind], found: found?.[kind] };
  }

  #path(to: Sql): CopyPath {
    if (this.#seqs === undefined || this.#target === undefined) throw new Error("the copy has no numbers yet");
    return { from: this.#from, to, source: this.#source, target: this.#target, seqs: this.#seqs };
  }
}

/** Copies a thread within one transaction. @throws what {@link ThreadCopy} throws */
export function copyAtOnce(sql: Sql, order: CopyOrder): void {
  const copy = new ThreadCopy(sql, order);
  refuseTaken(sql, order.targetId);
  for (const _ of copy.readSeqs());
  copy.place(sql);
  for (const write of copy.rows(sql)) write?.();
  copy.publish(sql);
}

/** @throws {TurnsError} THREAD_EXISTS */
export function refuseTaken(sql: Sql, threadId: string): void {
  if (sql.now(threadKey(sql, threadId)) !== undefined) throw threadExists(threadId);
}

function refuseUnfinished(sql: Sql, sourceId: string): void {
  const rewind = sql.now(unfinishedRewind(sql, sourceId));
  if (rewind !== undefined) throw refusal(rewind, `a copy of thread ${JSON.stringify(sourceId)}`);
}

const seqOf = ({ seq }: { seq: number | null }): number => seq ?? 0;

function* copyTasks({ from, to, source, target, seqs }: CopyPath): RowWrites {
  for (const row of pagedRows<RawTask>(from, TASKS, source.thread, seqOf)) {
    const task = toTask(from, source.threadId, row);
    if (task === undefined) continue;
    const graphId = task.graphId === source.threadId ? target.threadId : task.graphId;
    yield () => {
      to.now(insertTask(to, target, { ...task, seq: seqs.of(task.seq), graphId }));
    };
  }
}

function* copyNames({ from, to, source, target }: CopyPath): RowWrites {
  for (const name of from.now(namesOf(from, source))) yield () => to.now(saveName(to, target, name));
}

function* copyLists({ from, to, source, target, seqs }: CopyPath): RowWrites {
  for (const { seq, base, keep } of pagedRows<ListRow>(from, LISTS, source.thread, seqOf)) {
    yield () => to.now(to.run(ADD_LIST, seqs.of(seq), target.thread, base === null ? null : seqs.of(base), keep));
    for (const item of pagedRows<ItemRow>(from, ITEMS, seq, ({ pos }) => pos)) {
      yield () => to.now(to.run(ADD_ITEM, seqs.of(seq), item.pos, seqs.of(item.seq), target.thread, seqs.of(item.chunk)));
    }
  }
}

function* copyGraphs({ from, to, source, target, seqs }: CopyPath): RowWrites {
  for (const { seq, digest, document } of pagedRows<GraphRow>(from, GRAPHS, source.thread, seqOf)) {
    yield () => to.now(to.run(ADD_GRAPH, seqs.of(seq), target.thread, digest, document));
  }
}

/** Copies the values. @returns how the rest is to be copied */
function* translationOf(path: CopyPath): RowWrites<Translation> {
  const { from, to, source } = path;
  if (!to.sealing.encrypted) return yield* copyPlainChunks(path);
  const lists: ListPointer[] = [];
  for (const row of pagedRows<SnapshotRow>(from, SNAPSHOTS, source.thread, seqOf)) {
    for (const { pointer } of toHead(from, source.threadId, row).channels.values())
      if (pointer?.kind === "list") lists.push(pointer);
    yield;
  }
  return yield* copySealedChunks(path, lists);
}

function* copySnapshots({ from, to, source, target, seqs }: CopyPath, translation: Translation): RowWrites {
  for (const row of pagedRows<SnapshotRow>(from, SNAPSHOTS, source.thread, seqOf)) {
    const head = toHead(from, source.threadId, row);
    const copied = {
      seq: seqs.of(row.seq),
      ns: head.ns,
      checkpointId: head.checkpointId,
      position: seqs.of(head.position),
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
    yield () => {
      to.now(insertSnapshot(to, target, copied));
      supersede(to, "langgraph_snapshots", copied.seq, row.superseded_by, seqs);
    };
  }
}

function* copyWrites({ from, to, source, target, seqs }: CopyPath, translation: Translation): RowWrites {
  for (const row of pagedRows<Superseded<PlacedWrites>>(from, WRITES, source.thread, seqOf)) {
    const { checkpoint_ns: ns, checkpoint_id: checkpointId, node_task_id: nodeTaskId, task_path: taskPath, idx } = row;
    const entries = translation.text(openWrites(from, source.threadId, row, ns, checkpointId));
    const copied = { seq: seqs.of(row.seq), ns, checkpointId, nodeTaskId, taskPath, idx, entries };
    yield () => {
      to.now(insertWrites(to, target, copied));
      supersede(to, "langgraph_writes", copied.seq, row.superseded_by, seqs);
    };
  }
}

function supersede(
  to: Sql,
  table: "langgraph_snapshots" | "langgraph_writes",
  seq: number,
  by: number | null,
  seqs: CopiedSeqs,
): void {
  if (by !== null) to.now(to.run(`UPDATE ${table} SET superseded_by = ? WHERE seq = ?`, seqs.of(by), seq));
}

function* copyTurns(
  { from, to, source, target, seqs }: CopyPath,
  translation: Translation,
  createId: CopyOrder["createId"],
): RowWrites {
  for (const row of pagedRows<RawTurn>(from, TURNS, source.thread, seqOf)) {
    const turn = from.now(toTurn(from, row, source.threadId));
    const copied = {
      ...turn,
      id: createId(),
      serializedState: translation.text(turn.serializedState),
      graphId: turn.graphId === source.threadId ? target.threadId : turn.graphId,
      threadId: target.threadId,
      seq: seqs.of(turn.seq ?? 0),
      graph: turn.graph === undefined ? undefined : seqs.of(turn.graph),
    };
    yield () => {
      to.now(insertTurn(to, target.thread, copied));
    };
  }
}

/** What was done for the source is done for its copy, which has nothing to undo: the side effect is the source's. */
function* copyEffects(
  { from, to, source, target, seqs }: CopyPath,
  translation: Translation,
  createId: CopyOrder["createId"],
): RowWrites {
  for (const row of pagedRows<RawEffect>(from, EFFECTS, source.thread, seqOf)) {
    const effect = toEffect(from, source.threadId, row);
    const input = effect.input === undefined ? undefined : translation.text(effect.input);
    const copied = {
      ...effect,
      id: createId(),
      threadId: target.threadId,
      seq: seqs.of(effect.seq),
      triedSeq: undefined,
      input,
      // With encryption digests are the thread's own.
      inputDigest: input === undefined ? undefined : to.sealing.address(target.threadId, input),
      outcome: effect.outcome === undefined ? undefined : translation.text(effect.outcome),
      inherited: true,
    };
    yield () => to.now(saveEffect(to, target, copied));
  }
}

function threadExists(threadId: string): TurnsError {
  return new TurnsError("THREAD_EXISTS", {
    what: `thread ${JSON.stringify(threadId)}`,
    expected: "an id that is not in use",
    found: "a thread of that id",
    remedy: "Copy to another id, or delete that thread first.",
    data: { threadId },
  });
}
