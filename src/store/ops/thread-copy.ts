import { TurnsError } from "../../errors";
import { corrupted, unknownThread, unfinishedRewind as refusal } from "../refusals";
import type { EffectRow } from "../effects";
import type { Program } from "../program";
import {
  EFFECT_ROWS,
  GRAPH_ROWS,
  ITEM_ROWS,
  LIST_ROWS,
  NAME_ROWS,
  type Rows,
  SNAPSHOT_ROWS,
  TASK_ROWS,
  TURN_ROWS,
  WRITE_ROWS,
} from "../rows";
import type { Session } from "../session";
import { countedRows } from "./row-counts";
import { allowAgain, insertThread, newThread, NO_ROWS, takeNumber, threadKey } from "./thread-rows";
import type { CopyOrder } from "../store";
import { type Column, EFFECTS, fieldOf, ITEMS, type RowOf, type Table } from "../tables";
import { type ThreadCounts, ThreadState } from "../thread-state";
import { unfinishedRewind } from "./rewind-records";
import { AS_IT_IS, copyChunks, type Translation } from "./copied-values";
import { copiedSeq, type CopyPath, eachSourceItem, eachSourceRow } from "./copy-path";
import { saveEffect, toEffect } from "./effect-rows";
import { manifestText } from "./put-checkpoint";
import { parseManifest } from "./heads";
import { refuseEncrypted } from "./keys";
import { namesOf } from "./names";

/** The counts of the source's own row that its copy has too; rewinds stay behind. */
const COPIED: readonly (keyof ThreadCounts)[] = ["snapshots", "writes", "turns", "effects"];

/** The key of a thread that has no row of its own yet. Its rows are counted when it gets one. */
class UnpublishedKey extends ThreadState {
  override touch(): void {
    // There is no row to write.
  }

  override count(): void {
    // As above.
  }
}

/**
 * Copies a thread within one transaction. A copy in many transactions takes the same steps, if `from` sees one state of the file
 * throughout. Superseded rows are copied too, so that a rewind of the copy is as exact as one of the source; archives stay
 * behind. Nobody sees the rows before the last step.
 */
export function* copyAtOnce(session: Session, order: CopyOrder): Program {
  const source = yield* sourceOf(session, order.sourceId);
  const path = yield* beginCopy(session, source, session, order, (write) => write());
  yield* copyRows(path);
  yield* publishCopy(path);
}

/**
 * @throws {TurnsError} THREAD_NOT_FOUND; REWIND_UNFINISHED: the copy would take the effects that this rewind has undone for done
 */
export function* sourceOf(from: Session, sourceId: string): Program<ThreadState> {
  const source = yield* threadKey(from, sourceId);
  if (source === undefined) throw unknownThread(sourceId);
  const rewind = yield* unfinishedRewind(from, sourceId);
  if (rewind !== undefined) throw refusal(rewind, `a copy of thread ${JSON.stringify(sourceId)}`);
  return source;
}

/**
 * Takes a number for the copy. {@link publishCopy} writes its row.
 * @throws {TurnsError} THREAD_EXISTS
 */
export function* beginCopy(
  from: Session,
  source: ThreadState,
  to: Session,
  { targetId, createdAt, createId }: CopyOrder,
  write: CopyPath["write"],
): Program<CopyPath> {
  yield* refuseTaken(to, targetId);
  const target = new UnpublishedKey(to.changed, newThread(to, yield* takeNumber(to), targetId, createdAt));
  return { from, source, to, target, createId, write };
}

/**
 * Copies every row but the thread's own. Referenced rows come first, so that `verify` finds no loose ends in between. It reads
 * only from `from`; what `path.write` gets is for `to`.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function* copyRows(path: CopyPath): Program {
  const { from, to, source, target, createId } = path;
  const graphId = (id: string): string => (id === source.threadId ? target.threadId : id);
  yield* copyTable(path, TASK_ROWS, AS_IT_IS, (task) => ({ ...task, graphId: graphId(task.graphId) }));
  const translation = yield* copyChunks(path);
  yield* copyTable(path, LIST_ROWS, translation);
  yield* eachSourceRow(path, LIST_ROWS, ({ seq }) =>
    eachSourceItem(path, ITEM_ROWS, seq, (item) => {
      const copy = moved(path, ITEMS, item, translation);
      return path.write(() => to.insert(target, ITEM_ROWS, copy));
    }),
  );
  yield* copyTable(path, GRAPH_ROWS, translation);
  yield* copyTable(path, SNAPSHOT_ROWS, translation);
  for (const name of yield* namesOf(from, source)) yield* path.write(() => to.insert(target, NAME_ROWS, name));
  yield* copyTable(path, WRITE_ROWS, translation);
  yield* copyTable(path, TURN_ROWS, translation, (turn) => ({ ...turn, id: createId(), graphId: graphId(turn.graphId) }));
  yield* eachSourceRow(path, EFFECT_ROWS, (row) => copyEffect(path, translation, toEffect(from, source.threadId, row)));
}

/** Whether rows of the source were deleted or restored since it was read, or are about to be. */
export function* isOutdated({ to, source }: CopyPath): Program<boolean> {
  const now = yield* threadKey(to, source.threadId);
  const isSame = now?.thread === source.thread && now.row.generation === source.row.generation;
  return !isSame || (yield* unfinishedRewind(to, source.threadId)) !== undefined;
}

/**
 * Whether all rows are there. CheckpointPersister deletes turns by their task, including those of a copy that nobody sees yet.
 */
export function* isComplete({ to, source, target }: CopyPath): Program<boolean> {
  return firstMissing(source, yield* countedRows(to, target)) === undefined;
}

/**
 * Makes the copy a thread that everyone sees.
 * @throws {TurnsError} THREAD_EXISTS, CHECKPOINT_CORRUPTED
 */
export function* publishCopy(path: CopyPath): Program {
  const { to, source, target } = path;
  const { threadId } = target;
  yield* to.lock(threadId);
  yield* refuseTaken(to, threadId);
  const counts = (yield* countedRows(to, target)) ?? NO_ROWS;
  // A row with a damaged number was skipped. It must not be missing silently.
  const kind = firstMissing(source, counts);
  if (kind !== undefined) {
    const [what, data] = [`thread ${JSON.stringify(source.threadId)}`, { threadId: source.threadId }];
    throw corrupted(what, `${source.row[kind]} rows of ${kind}`, String(counts[kind]), data);
  }
  if (!to.sealing.encrypted) yield* refuseEncrypted(to, `Thread ${JSON.stringify(threadId)}`);
  yield* allowAgain(to, threadId);
  const { seq, epoch, prunedSeq, unswept } = source.row;
  const place = { seq, epoch, prunedSeq: prunedSeq === 0 ? 0 : copiedSeq(path, prunedSeq), unswept };
  yield* insertThread(to, { ...target.row, ...place, ...counts });
}

/** The first kind of rows that the copy has more or fewer of than the source. */
function firstMissing({ row }: ThreadState, found: ThreadCounts | undefined): keyof ThreadCounts | undefined {
  return COPIED.find((kind) => row[kind] !== found?.[kind]);
}

/** @throws {TurnsError} THREAD_EXISTS */
export function* refuseTaken(session: Session, threadId: string): Program {
  if ((yield* threadKey(session, threadId)) === undefined) return;
  throw new TurnsError("THREAD_EXISTS", {
    problem: `Thread ${JSON.stringify(threadId)} exists already.`,
    remedy: "Copy to another id, or delete that thread first.",
    data: { threadId },
  });
}

/** A row of the source in its form for the copy: with the copy's numbers, and references to the copy's values. */
function moved<T extends Table, R extends object>(path: CopyPath, table: T, row: R, translation: Translation): R {
  const copy = { ...row } as Record<string, unknown>;
  for (const [name, column] of Object.entries<Column>(table.columns)) {
    const field = fieldOf(name, column);
    if (field === undefined || copy[field] === undefined) continue;
    const value = copy[field];
    if (column.role === "owner") copy[field] = path.target.threadId;
    else if (column.seqOf !== undefined) copy[field] = copiedSeq(path, value as number);
    else if (column.refers === "text") copy[field] = translation.text(value as string);
    else if (column.refers === "manifest") copy[field] = manifestText(translation.channels(parseManifest(value as string)));
  }
  return copy as R;
}

/**
 * Copies the rows of a table.
 * @param change further differences of the copy
 */
function* copyTable<T extends Table>(
  path: CopyPath,
  rows: Rows<T>,
  translation: Translation,
  change: (row: RowOf<T>) => RowOf<T> = (row) => row,
): Program {
  const { from, to, source, target } = path;
  yield* eachSourceRow(path, rows, (raw) => {
    const row = rows.parse(from.sealing, source.threadId, raw);
    const copy = change(moved(path, rows.table, row, translation));
    return path.write(() => to.insert(target, rows, copy));
  });
}

/**
 * An effect that was done for the source is done for its copy too. The copy has nothing to undo, because the side effect belongs
 * to the source.
 */
function* copyEffect(path: CopyPath, translation: Translation, original: EffectRow): Program {
  const { to, target } = path;
  const effect = moved(path, EFFECTS, original, translation);
  const input = effect.input === undefined ? undefined : translation.text(effect.input);
  const copied = {
    ...effect,
    id: path.createId(),
    triedSeq: undefined,
    input,
    // With encryption, digests belong to one thread.
    inputDigest: input === undefined ? undefined : to.sealing.address(target.threadId, input),
    outcome: effect.outcome === undefined ? undefined : translation.text(effect.outcome),
    inherited: true,
  };
  yield* path.write(function* () {
    yield* saveEffect(to, target, copied);
  });
}
