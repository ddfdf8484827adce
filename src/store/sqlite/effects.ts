import { type EffectRow, pathOf, rootTaskOf, SETTLED_AS_HISTORY } from "../effects";
import type { EffectBeginning, EffectSettlement, NewEffect, RewindRow, UndoOutcome } from "../store";
import { storeChunks } from "./chunks";
import { adoptOrphans, lostTwin, type OrphanCall, rootTaskName } from "./effect-orphans";
import { EFFECT_COLUMNS, type RawEffect, saveEffect, toEffect } from "./effect-rows";
import { unfinishedRewind } from "./rewind-records";
import type { Sql } from "./sql";
import { claimTask } from "./tasks";
import { type ThreadKey, threadIdOf, threadKey } from "./thread-keys";
import { enterThread } from "./tombstones";

/** An undone effect is history: its node task may do the deed again. */
const OF_NODE_TASK = `SELECT ${EFFECT_COLUMNS} FROM langgraph_effects
  WHERE thread = ? AND node_task_id = ? AND undo_status IS NOT 'done' ORDER BY seq`;
const OF_THREAD = `SELECT ${EFFECT_COLUMNS} FROM langgraph_effects WHERE thread = ? AND seq > ? ORDER BY seq LIMIT ?`;
const BY_ID = `SELECT ${EFFECT_COLUMNS} FROM langgraph_effects WHERE id = ?`;
const TURN = "SELECT task_id FROM langgraph_checkpoints WHERE thread = ? AND node_task_id = ? ORDER BY seq DESC LIMIT 1";
const SAVED = "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = '' AND checkpoint_id = ? LIMIT 1";
const LABELS = "SELECT label FROM langgraph_effects WHERE thread = ? AND node_task_id = ? AND name = ?";
const EPOCH = "SELECT epoch FROM langgraph_threads WHERE thread = ?";

/**
 * Finds the effect in the journal, or commits its intent. An effect is found by node task, name and label, whatever the thread's
 * epoch: a rewind deletes what it undoes, so what is still there did happen. A call whose label is but an ordinal may also be found by
 * its input, since effects that run side by side can come in another order next time.
 */
export function beginEffect(sql: Sql, call: NewEffect): EffectBeginning {
  // A transaction that the lock has thrown back is run again.
  call.taken.delete(call.id);
  const beginning = beginningOf(sql, call);
  if (beginning.kind === "begun" || beginning.kind === "found") call.taken.set(call.id, beginning.row.id);
  return beginning;
}

function beginningOf(sql: Sql, call: NewEffect): EffectBeginning {
  const key = enterThread(sql, call.threadId, call.startedAt, {
    begins: call.claim.kind === "begin",
    belongs: ({ thread }) => sql.get(TURN, thread, call.nodeTaskId) !== undefined,
    refersTo: call.anchor,
    saves: undefined,
    sawDeletion: call.sawDeletion,
  });
  const input = call.input?.();
  const inputDigest = input && sql.sealing.address(call.threadId, input.text);
  const { rows, undecided } = knownEffects(sql, key, orphanCall(sql, key, call, inputDigest));
  const row = matching(rows, call, inputDigest);
  if (row === undefined) {
    const failed = failedTwin(rows, call, inputDigest);
    if (failed !== undefined) return { kind: "unclear", row: failed };
    if (undecided !== undefined) return { kind: "lost", row: undecided };
    if (input !== undefined) storeChunks(sql, key, input.parts);
    return { kind: "begun", row: insert(sql, key, call, { input: input?.text, inputDigest }) };
  }
  const differs = row.inputDigest !== undefined && inputDigest !== undefined && row.inputDigest !== inputDigest;
  if (differs && !call.anyInput && row.status !== "failed") return { kind: "changed", row };
  if (row.status !== "failed") return { kind: "found", row };
  if (differs && input !== undefined) storeChunks(sql, key, input.parts);
  const { idempotent, undo } = call;
  // It did not happen, so it may be repaired; with another input it is another deed to its receiver.
  const anew = (): Partial<EffectRow> => ({ input: input?.text, inputDigest, key: nextKey(sql, key, row.key) });
  const renewed = { idempotent, undo, ...(differs ? anew() : {}) };
  return { kind: "begun", row: begunAgain(sql, key, { ...row, ...renewed }, call.process, call.startedAt) };
}

/** What the node task has in the journal, or what it takes over from where its graph was begun before. */
function knownEffects(sql: Sql, key: ThreadKey, call: OrphanCall): { rows: EffectRow[]; undecided: EffectRow | undefined } {
  const read = (): EffectRow[] =>
    sql.all<RawEffect>(OF_NODE_TASK, key.thread, call.nodeTaskId).map((row) => toEffect(sql, call.threadId, row));
  const known = read();
  const undecided = known.length === 0 ? adoptOrphans(sql, key, call) : undefined;
  const rows = known.length === 0 ? read() : known;
  return { rows: rows.filter((row) => row.name === call.name), undecided: undecided ?? lostTwin(sql, key, call) };
}

function orphanCall(sql: Sql, key: ThreadKey, call: NewEffect, inputDigest: string | undefined): OrphanCall {
  return {
    ...call,
    path: pathOf(call.nodeNs),
    inputDigest,
    taskId: rootTaskName(sql, call.rootThreadId, call.run) ?? turnsTask(sql, key, call) ?? call.claim.taskId,
    unsavedRun: unsavedRun(sql, key, call),
  };
}

/** Of a run that nothing was saved of since this node task became due. */
function unsavedRun(sql: Sql, key: ThreadKey, { anchor, rootThreadId, graphRun }: NewEffect): string | undefined {
  if (anchor === undefined) return undefined;
  const root = rootThreadId === key.threadId ? key : threadKey(sql, rootThreadId);
  return root !== undefined && sql.get(SAVED, root.thread, anchor) !== undefined ? undefined : graphRun;
}

function matching(rows: readonly EffectRow[], call: NewEffect, digest: string | undefined): EffectRow | undefined {
  if (call.labelled) return rows.find((row) => row.label === call.label);
  const again = rows.find((row) => digest !== undefined && row.inputDigest === digest && call.unhappy.includes(row.id));
  if (again !== undefined) return again;
  const taken = new Set(call.taken.values());
  const free = rows.filter((row) => !taken.has(row.id));
  const ordinal = free.find((row) => row.label === call.label);
  if (digest === undefined || ordinal?.inputDigest === digest) return ordinal;
  return free.find((row) => row.inputDigest === digest) ?? ordinal;
}

/** An effect without input that failed in this attempt: a new one of its name may be a further try, or another deed. */
function failedTwin(rows: readonly EffectRow[], call: NewEffect, digest: string | undefined): EffectRow | undefined {
  if (call.labelled || digest !== undefined) return undefined;
  return rows.find((row) => row.inputDigest === undefined && row.label.startsWith("#") && call.unhappy.includes(row.id));
}

function insert(
  sql: Sql,
  key: ThreadKey,
  call: NewEffect,
  { input, inputDigest }: Pick<EffectRow, "input" | "inputDigest">,
): EffectRow {
  const epoch = sql.get<{ epoch: number }>(EPOCH, key.thread)?.epoch ?? 0;
  const { threadId, nodeNs, nodeTaskId, name } = call;
  const path = pathOf(nodeNs);
  const { label, key: effectKey } = naming(sql, key, epoch, call);
  return saveEffect(sql, key, {
    id: call.id,
    threadId,
    epoch,
    taskId: taskOf(sql, key, call),
    seq: sql.nextSeq(),
    nodeName: path.slice(path.lastIndexOf("|") + 1),
    nodeNs,
    nodeTaskId,
    path,
    spot: call.spot,
    anchor: call.anchor,
    run: call.run,
    unsavedRun: unsavedRun(sql, key, call),
    name,
    label,
    key: effectKey,
    idempotent: call.idempotent,
    undo: call.undo,
    inputDigest,
    input,
    status: "intent",
    outcome: undefined,
    tries: 1,
    process: call.process,
    startedAt: call.startedAt,
    endedAt: undefined,
    settledBy: undefined,
    undoStatus: undefined,
    undoError: undefined,
    undoneAt: undefined,
    inherited: false,
  });
}

/**
 * An ordinal may be taken by an effect that was met in another order; then the next free one is the label. Node task ids repeat after a
 * rewind, and with them all that the key is made of but the epoch; after an undo that no rewind has followed, not even that.
 */
function naming(sql: Sql, key: ThreadKey, epoch: number, call: NewEffect): { label: string; key: string } {
  const { nodeTaskId, name, labelled } = call;
  const labels = sql.all<{ label: string }>(LABELS, key.thread, nodeTaskId, name).map(({ label }) => label);
  let label = call.label;
  for (let number = Number(label.slice(1)); !labelled && labels.includes(label); number += 1) label = `#${number + 1}`;
  const earlier = labels.filter((known) => known === label).length;
  const again = earlier === 0 ? [] : [earlier];
  return { label, key: sql.sealing.checksum(key.threadId, "effect key", key.thread, epoch, nodeTaskId, name, label, ...again) };
}

/** The task of its turn; without turns that of the run. Asked before the row takes its seq, because it may begin a task. */
function taskOf(sql: Sql, key: ThreadKey, call: NewEffect): string {
  return turnsTask(sql, key, call) ?? claimTask(sql, key, call.claim, call.startedAt).taskId;
}

function turnsTask(sql: Sql, key: ThreadKey, call: NewEffect): string | undefined {
  for (const nodeTaskId of [call.nodeTaskId, rootTaskOf(call.run)]) {
    const turn = sql.get<{ task_id: string }>(TURN, key.thread, nodeTaskId);
    if (turn !== undefined) return turn.task_id;
  }
  return undefined;
}

function nextKey(sql: Sql, key: ThreadKey, before: string): string {
  return sql.sealing.checksum(key.threadId, "effect key", key.thread, before);
}

/** What a copied thread tries again after a failure is its own deed. */
function begunAgain(sql: Sql, key: ThreadKey, row: EffectRow, process: string, at: string): EffectRow {
  const { tries } = row;
  const begun = { status: "intent", tries: tries + 1, process, startedAt: at, endedAt: undefined, outcome: undefined } as const;
  const own = row.inherited && row.status === "failed" ? { inherited: false, key: nextKey(sql, key, row.key) } : {};
  return saveEffect(sql, key, { ...row, ...begun, ...own, settledBy: undefined });
}

export function retryEffect(sql: Sql, seen: EffectRow, process: string, at: string): EffectRow | undefined {
  const found = effectOf(sql, seen.id);
  if (found?.row.tries !== seen.tries || found.row.status !== seen.status) return undefined;
  return begunAgain(sql, found.key, found.row, process, at);
}

/** What is done stays done, whoever comes late and says otherwise. */
export function settleEffect(sql: Sql, effectId: string, settlement: EffectSettlement): EffectRow | undefined {
  const found = effectOf(sql, effectId);
  if (found === undefined) return undefined;
  const { key, row } = found;
  const { status, outcome, endedAt, settledBy } = settlement;
  if (settledBy === SETTLED_AS_HISTORY) return saveEffect(sql, key, { ...row, settledBy });
  if (row.status === "done") return row;
  if (outcome !== undefined) storeChunks(sql, key, outcome.parts);
  const ended = status === "intent" ? undefined : endedAt;
  return saveEffect(sql, key, { ...row, status, outcome: outcome?.text, endedAt: ended, settledBy });
}

/** What is undone stays undone, whoever comes late and says otherwise. */
export function settleUndo(
  sql: Sql,
  effectId: string,
  { status, error, at }: UndoOutcome,
  guard?: (found: EffectRow, unfinished: RewindRow | undefined) => void,
): EffectRow | undefined {
  const found = effectOf(sql, effectId);
  if (found === undefined) return undefined;
  guard?.(found.row, unfinishedRewind(sql, found.key.threadId));
  if (found.row.undoStatus === "done") return found.row;
  const undoneAt = status === "done" ? at : undefined;
  return saveEffect(sql, found.key, { ...found.row, undoStatus: status, undoError: error, undoneAt });
}

export function getEffect(sql: Sql, effectId: string): EffectRow | undefined {
  return effectOf(sql, effectId)?.row;
}

export function listEffects(sql: Sql, query: { threadId: string; afterSeq?: number; limit?: number }): EffectRow[] {
  const key = threadKey(sql, query.threadId);
  if (key === undefined) return [];
  return sql
    .all<RawEffect>(OF_THREAD, key.thread, query.afterSeq ?? 0, query.limit ?? -1)
    .map((row) => toEffect(sql, key.threadId, row));
}

function effectOf(sql: Sql, effectId: string): { key: ThreadKey; row: EffectRow } | undefined {
  const raw = sql.get<RawEffect>(BY_ID, effectId);
  const key = raw && threadKey(sql, threadIdOf(sql, raw.thread));
  return raw === undefined || key === undefined ? undefined : { key, row: toEffect(sql, key.threadId, raw) };
}
