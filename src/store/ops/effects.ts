import { type EffectRow, pathOf, rootTaskOf, SETTLED_AS_HISTORY } from "../effects";
import { anyOf, type Program, question, type Statement } from "../program";
import { EFFECT_ROWS } from "../rows";
import type { Session } from "../session";
import { ofThread } from "../spans";
import { KnownEffects } from "./effect-known";
import { type RawEffect, saveEffect, toEffect } from "./effect-rows";
import {
  adoptEdited,
  adoptOrphans,
  isEdited,
  isLostInside,
  isSavedRoot,
  lostTwin,
  orphanQuestions,
  type OrphanCall,
  rootTaskName,
} from "./effect-orphans";
import { rewindsQuestion, unfinishedRewind } from "./rewind-records";
import { aboutThread, checkLease, claimTask, enterThread, leaseQuestion, rowsOf, threadIdOf, threadKey } from "./thread-rows";
import type { EffectBeginning, EffectSettlement, NewEffect, RewindRow, UndoOutcome } from "../store";
import type { ThreadState } from "../thread-state";
import { storeChunks } from "./values";

const TASK_AT = "SELECT task_id FROM langgraph_tasks WHERE thread = ? AND seq <= ? ORDER BY seq DESC LIMIT 1";
const BEHIND = EFFECT_ROWS.select(`WHERE ${ofThread()} AND (seq > ?2 OR tried_seq > ?2) ORDER BY seq`);
const OF_THREAD = EFFECT_ROWS.select(`WHERE ${ofThread()} AND seq > ?2 ORDER BY seq LIMIT ?3`);
const BY_ID = EFFECT_ROWS.select("WHERE id = ?");
const THREAD_OF = "SELECT thread FROM langgraph_effects WHERE id = ?";
const TURN = "SELECT task_id FROM langgraph_checkpoints WHERE thread = ? AND node_task_id = ? ORDER BY +seq DESC LIMIT 1";
const OF_LABEL = "SELECT count(*) AS n FROM langgraph_effects WHERE thread = ? AND node_task_id = ? AND name = ? AND label = ?";

/**
 * Finds the effect in the journal, or commits its intent. An effect is found by node task, name and label, no matter which epoch
 * the thread has: a rewind deletes what it undoes, so what is still there did happen. A call whose label is only an ordinal may
 * also be found by its input, because parallel effects can come in another order next time.
 */
export function* beginEffect(session: Session, call: NewEffect): Program<EffectBeginning> {
  // A transaction that met a lock is run again.
  call.taken.delete(call.id);
  const beginning = yield* beginningOf(session, call);
  if (beginning.kind === "begun" || beginning.kind === "found") call.taken.set(call.id, beginning.row.id);
  return beginning;
}

function* beginningOf(session: Session, call: NewEffect): Program<EffectBeginning> {
  const key = yield* enterThread(session, call.threadId, call.startedAt, {
    begins: call.claim.kind === "begin",
    *belongs({ thread }) {
      return (yield* session.get(TURN, thread, call.nodeTaskId)) !== undefined;
    },
    refersTo: call.anchor,
    sawDeletion: call.sawDeletion,
    lease: call.lease,
  });
  const digest = call.input && session.sealing.address(call.threadId, call.input.text);
  return yield* session.expecting(yield* questionsOf(session, key, call, digest), foundOrBegun(session, key, call, digest));
}

/** What {@link foundOrBegun} asks, as far as that doesn't depend on answers. */
function* questionsOf(
  session: Session,
  key: ThreadState,
  call: NewEffect,
  inputDigest: string | undefined,
): Program<Statement[]> {
  const { thread } = key;
  const { nodeTaskId, name, label, run } = call;
  return [
    ...(key.facts.isJournalVerified ? [] : [journalQuestion(thread)]),
    ...(yield* orphanQuestions(session, key, call)),
    ...new KnownEffects(session, key, { ...call, inputDigest }).questions(),
    question("one", OF_LABEL, thread, nodeTaskId, name, label),
    question("one", TURN, thread, nodeTaskId),
    question("one", TURN, thread, rootTaskOf(run)),
  ];
}

function* foundOrBegun(
  session: Session,
  key: ThreadState,
  newEffect: NewEffect,
  inputDigest: string | undefined,
): Program<EffectBeginning> {
  yield* verifyJournal(session, key);
  const call = yield* orphanCall(session, key, newEffect, inputDigest);
  const { input } = call;
  const { known, undecided } = yield* knownEffects(session, key, call);
  const row = yield* known.matching();
  if (row === undefined) {
    const failed = yield* known.failedTwin();
    if (failed !== undefined) return { kind: "unclear", row: failed };
    if (undecided !== undefined) return { kind: "lost", row: undecided };
    return { kind: "begun", row: yield* insert(session, key, call) };
  }
  const differs = row.inputDigest !== undefined && inputDigest !== undefined && row.inputDigest !== inputDigest;
  if (differs && !call.anyInput && row.status !== "failed") return { kind: "changed", row };
  if (row.status !== "failed") return { kind: "found", row };
  if (differs && input !== undefined) yield* storeChunks(session, key, input.parts);
  const { idempotent, undo } = call;
  // It did not happen, so its row may be rewritten. With another input it is another side effect to its receiver.
  const anew = (): Partial<EffectRow> => ({ input: input?.text, inputDigest, key: nextKey(session, key, row.key) });
  const renewed = { idempotent, undo, ...(differs ? anew() : {}) };
  return { kind: "begun", row: yield* begunAgain(session, key, { ...row, ...renewed }, call, row.triedSeq === undefined) };
}

/** The node task's effects in the journal, or those it takes over from an earlier start of its graph. */
function* knownEffects(
  session: Session,
  key: ThreadState,
  call: OrphanCall,
): Program<{ known: KnownEffects; undecided: EffectRow | undefined }> {
  const known = new KnownEffects(session, key, call);
  const isNew = function* (): Program<boolean> {
    return (yield* known.matching()) === undefined && (yield* known.failedTwin()) === undefined;
  };
  let undecided: EffectRow | undefined;
  if (!(yield* known.any())) undecided = yield* adoptOrphans(session, key, call);
  else if ((yield* isEdited(session, call)) && (yield* isNew())) undecided = yield* adoptEdited(session, key, call);
  return { known, undecided: undecided ?? (yield* lostTwin(session, key, call)) };
}

function* orphanCall(session: Session, key: ThreadState, call: NewEffect, inputDigest: string | undefined): Program<OrphanCall> {
  return {
    ...call,
    path: pathOf(call.nodeNs),
    inputDigest,
    taskId:
      (yield* rootTaskName(session, call.rootThreadId, call.run)) ?? (yield* turnsTask(session, key, call)) ?? call.claim.taskId,
    unsavedRun: yield* unsavedRun(session, key, call),
  };
}

/**
 * The run, if it has saved nothing since this node task became due, or since an enclosing one did in a graph that had been saved.
 */
function* unsavedRun(
  session: Session,
  key: ThreadState,
  { anchor, innerAnchors, rootThreadId, graphRun }: NewEffect,
): Program<string | undefined> {
  if (anchor === undefined) return undefined;
  if (!(yield* isSavedRoot(session, key, anchor, rootThreadId))) return graphRun;
  const isLost = yield* anyOf(Object.entries(innerAnchors), ([ns, id]) => isLostInside(session, key, ns, id));
  return isLost ? graphRun : undefined;
}

function* insert(session: Session, key: ThreadState, call: OrphanCall): Program<EffectRow> {
  const { epoch } = key.row;
  const { threadId, nodeNs, nodeTaskId, name, path, input } = call;
  const { label, key: effectKey } = yield* naming(session, key, epoch, call);
  key.count("effects");
  const taskId = yield* taskOf(session, key, call);
  if (input !== undefined) yield* storeChunks(session, key, input.parts);
  return yield* saveEffect(session, key, {
    id: call.id,
    threadId,
    epoch,
    taskId,
    seq: key.nextSeq(),
    nodeName: path.slice(path.lastIndexOf("|") + 1),
    nodeNs,
    nodeTaskId,
    path,
    spot: call.spot,
    anchor: call.anchor,
    anchorThread: call.rootThreadId === threadId ? undefined : call.rootThreadId,
    run: call.run,
    unsavedRun: call.unsavedRun,
    name,
    label,
    key: effectKey,
    idempotent: call.idempotent,
    undo: call.undo,
    inputDigest: call.inputDigest,
    input: input?.text,
    status: "intent",
    outcome: undefined,
    tries: 1,
    triedSeq: undefined,
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
 * An ordinal may be taken by an effect that was met in another order; then the next free one is the label. Node task ids repeat
 * after a rewind, and the epoch is the only part of the key that changes then. After an undo that no rewind has followed, even
 * the epoch is the same.
 */
function* naming(session: Session, key: ThreadState, epoch: number, call: NewEffect): Program<{ label: string; key: string }> {
  const { nodeTaskId, name, labelled } = call;
  const count = function* (label: string): Program<number> {
    return (yield* session.get<{ n: number }>(OF_LABEL, key.thread, nodeTaskId, name, label))?.n ?? 0;
  };
  let label = call.label;
  let earlier = yield* count(label);
  for (let number = Number(label.slice(1)) + 1; !labelled && earlier > 0; number += 1) {
    label = `#${number}`;
    earlier = yield* count(label);
  }
  const again = earlier === 0 ? [] : [earlier];
  return { label, key: keyOf(session, key, epoch, nodeTaskId, name, label, ...again) };
}

/** The task of its turn; without turns that of the run. Called before the row takes its seq, because it may start a task. */
function* taskOf(session: Session, key: ThreadState, call: NewEffect): Program<string> {
  return (yield* turnsTask(session, key, call)) ?? (yield* claimTask(session, key, call.claim, call.startedAt)).taskId;
}

function* turnsTask(session: Session, key: ThreadState, call: NewEffect): Program<string | undefined> {
  for (const nodeTaskId of [call.nodeTaskId, rootTaskOf(call.run)]) {
    const turn = yield* session.get<{ task_id: string }>(TURN, key.thread, nodeTaskId);
    if (turn !== undefined) return turn.task_id;
  }
  return undefined;
}

function nextKey(session: Session, key: ThreadState, before: string): string {
  return keyOf(session, key, before);
}

/** A copy in another database may have the number and the node tasks of its source, but it arrived there. */
function keyOf(session: Session, { threadId, thread, row }: ThreadState, ...parts: (string | number)[]): string {
  const arrived = row.arrived === undefined ? [] : [row.arrived];
  return session.sealing.checksum(threadId, "effect key", thread, ...arrived, ...parts);
}

/**
 * Starts an effect again. If it surely didn't happen, it moves to the place of its new try, in the thread's order and in its
 * task: a rewind to between its tries forgets it, and undos run in reverse order of the side effects. If an earlier try may have
 * done it, it stays there until the new try is known to have done it, so the doubt is never forgotten.
 *
 * What a copied thread tries again is its own side effect, with its own key. The exception is an effect that the source may have
 * done under the old key: a new key would make it a second side effect.
 */
function* begunAgain(
  session: Session,
  key: ThreadState,
  row: EffectRow,
  call: NewEffect,
  surelyNot: boolean,
): Program<EffectRow> {
  const { process, startedAt } = call;
  const begun = { status: "intent", tries: row.tries + 1, process, startedAt, endedAt: undefined, outcome: undefined } as const;
  const own = row.inherited && surelyNot ? { key: nextKey(session, key, row.key) } : {};
  const taskId = yield* taskOf(session, key, call);
  const seq = key.nextSeq();
  const place = surelyNot ? { taskId, seq, triedSeq: undefined } : { triedSeq: seq };
  return yield* saveEffect(session, key, { ...row, ...begun, ...own, ...place, inherited: false, settledBy: undefined });
}

/** Moves an effect to the place of its last try, which has done it; see {@link begunAgain}. */
function* placed(session: Session, { thread }: ThreadState, row: EffectRow): Program<EffectRow> {
  const { triedSeq } = row;
  if (triedSeq === undefined) return row;
  const taskId = (yield* session.get<{ task_id: string }>(TASK_AT, thread, triedSeq))?.task_id ?? row.taskId;
  return { ...row, seq: triedSeq, triedSeq: undefined, taskId };
}

export function* retryEffect(
  session: Session,
  seen: EffectRow,
  call: NewEffect,
  surelyNot: boolean,
): Program<EffectRow | undefined> {
  yield* checkLease(session, call.lease);
  const found = yield* effectOf(session, seen.id, seen.threadId);
  if (found?.row.tries !== seen.tries || found.row.status !== seen.status) return undefined;
  const { status, triedSeq } = found.row;
  return yield* begunAgain(session, found.key, found.row, call, surelyNot || (status === "failed" && triedSeq === undefined));
}

/**
 * Records an outcome. A completed effect stays completed, no matter what a late caller says. The process that carried out a try
 * has the last word on it, even if it has lost its lease: it knows. But if somebody has started or undone the effect since,
 * nothing is overwritten, because they acted on the doubt.
 */
export function* settleEffect(session: Session, effectId: string, settlement: EffectSettlement): Program<EffectRow | undefined> {
  const { status, seen, replaces, outcome, endedAt, settledBy } = settlement;
  const found =
    (yield* rememberedIntent(session, effectId, seen?.threadId)) ?? (yield* effectOf(session, effectId, seen?.threadId));
  if (found === undefined) return undefined;
  const { key, row } = found;
  if (settledBy === SETTLED_AS_HISTORY) return yield* saveEffect(session, key, { ...row, settledBy });
  if (row.status === "done" && replaces !== undefined && row.outcome === replaces) {
    if (outcome !== undefined) yield* storeChunks(session, key, outcome.parts);
    return yield* saveEffect(session, key, { ...row, outcome: outcome?.text, settledBy });
  }
  if (row.status === "done" || (seen !== undefined && !isOpen(row, seen, status))) return row;
  if (outcome !== undefined) yield* storeChunks(session, key, outcome.parts);
  const ended = status === "intent" ? undefined : endedAt;
  const settled = { ...row, status, outcome: outcome?.text, endedAt: ended, settledBy };
  if (status === "done") return yield* saveEffect(session, key, yield* placed(session, key, settled));
  // A person speaks for all tries.
  return yield* saveEffect(session, key, settledBy === undefined ? settled : { ...settled, triedSeq: undefined });
}

/** Whether this try is still the newest and its outcome is unknown, or was only told by somebody who can be mistaken. */
function isOpen(row: EffectRow, seen: Pick<EffectRow, "tries" | "undoStatus">, status: EffectSettlement["status"]): boolean {
  if (row.tries !== seen.tries || row.undoStatus !== seen.undoStatus) return false;
  return row.status === "intent" || (row.status === "failed" && status === "done");
}

/** An undone effect stays undone, no matter what a late caller says. */
export function* settleUndo(
  session: Session,
  effectId: string,
  outcome: UndoOutcome,
  guard?: (found: EffectRow, unfinished: RewindRow | undefined) => void,
): Program<EffectRow | undefined> {
  const { threadId, lease } = outcome;
  const remembered = guard === undefined ? yield* rememberedIntent(session, effectId, threadId) : undefined;
  if (remembered !== undefined) return yield* undoSettled(session, remembered, outcome, undefined);
  // If the thread is known, its guard comes before the questions.
  if (threadId !== undefined) yield* session.known(threadId);
  const asked = [
    ...(lease === undefined || session.leases.get(lease.runId) === lease.threadId ? [] : [leaseQuestion(session, lease)]),
    question("one", session.locking(BY_ID), effectId),
    ...(guard === undefined || threadId === undefined ? [] : [rewindsQuestion(threadId)]),
  ];
  return yield* session.expecting(asked, undoFound(session, effectId, outcome, guard));
}

function* undoFound(
  session: Session,
  effectId: string,
  outcome: UndoOutcome,
  guard: Parameters<typeof settleUndo>[3],
): Program<EffectRow | undefined> {
  yield* checkLease(session, outcome.lease);
  const found = yield* effectOf(session, effectId, outcome.threadId);
  return found && (yield* undoSettled(session, found, outcome, guard));
}

function* undoSettled(
  session: Session,
  found: { key: ThreadState; row: EffectRow },
  { status, error, at }: UndoOutcome,
  guard: Parameters<typeof settleUndo>[3],
): Program<EffectRow> {
  if (guard !== undefined) guard(found.row, yield* unfinishedRewind(session, found.key.threadId));
  if (found.row.undoStatus === "done") return found.row;
  const undoneAt = status === "done" ? at : undefined;
  const row = { ...found.row, undoStatus: status, undoError: error, undoneAt };
  return yield* saveEffect(session, found.key, status === undefined ? row : yield* placed(session, found.key, row));
}

export function* getEffect(session: Session, effectId: string): Program<EffectRow | undefined> {
  return (yield* effectOf(session, effectId))?.row;
}

export function* listEffects(
  session: Session,
  query: { threadId: string; afterSeq?: number; limit?: number },
): Program<EffectRow[]> {
  const { threadId, afterSeq = 0, limit = Number.MAX_SAFE_INTEGER } = query;
  const rows = yield* rowsOf<RawEffect>(session, threadId, OF_THREAD, afterSeq, limit);
  return rows.map((row) => toEffect(session, threadId, row));
}

/** What {@link effectsBehind} asks. */
export function effectsQuestions(session: Session, threadId: string, thread: number, seq: number): Statement[] {
  const isVerified = session.threads.get(threadId)?.facts.isJournalVerified === true;
  return [...(isVerified ? [] : [journalQuestion(thread)]), question("all", BEHIND, thread, seq)];
}

export function* effectsBehind(session: Session, threadId: string, seq: number): Program<EffectRow[]> {
  const asked = (thread: number): Statement[] => effectsQuestions(session, threadId, thread, seq);
  const found = yield* aboutThread(session, threadId, asked, function* (key) {
    yield* verifyJournal(session, key);
    return (yield* session.all<RawEffect>(BEHIND, key.thread, seq)).map((row) => toEffect(session, threadId, row));
  });
  return found ?? [];
}

function journalQuestion(thread: number): Statement {
  return question("all", OF_THREAD, thread, 0, Number.MAX_SAFE_INTEGER);
}

/**
 * Finds damaged rows before they are missed: an effect that isn't found would be carried out again. All effects of a thread are
 * verified on first use, and each one that others could have written since when it is found.
 *
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
function* verifyJournal(session: Session, key: ThreadState): Program {
  if (key.facts.isJournalVerified) return;
  for (const row of yield* session.all<RawEffect>(OF_THREAD, key.thread, 0, Number.MAX_SAFE_INTEGER))
    toEffect(session, key.threadId, row);
  key.facts.isJournalVerified = true;
}

/**
 * An effect that is under way, or whose undo is, as this process has committed it. Nothing is read: the transaction fails if its
 * row or its thread has changed since.
 * @throws {StaleFacts} now or later
 */
function* rememberedIntent(
  session: Session,
  effectId: string,
  threadId: string | undefined,
): Program<{ key: ThreadState; row: EffectRow } | undefined> {
  const { guards } = session.engine.dialect;
  const intent = session.threads.get(threadId ?? "")?.facts.intents.get(effectId);
  if (guards === undefined || intent === undefined) return undefined;
  const key = (yield* threadKey(session, intent.row.threadId)) as ThreadState;
  yield* session.run(guards.effect, effectId, intent.checksum);
  return { key, row: intent.row };
}

/**
 * Locked where transactions write side by side: one of a user's may be recording the effect (effect-record.ts). Its thread is locked
 * first, as in {@link rememberedIntent}, so that two transactions don't wait for each other.
 *
 * @param threadId its thread, if that is known
 */
function* effectOf(
  session: Session,
  effectId: string,
  threadId?: string,
): Program<{ key: ThreadState; row: EffectRow } | undefined> {
  const found = threadId === undefined ? yield* session.get<{ thread: number }>(THREAD_OF, effectId) : undefined;
  const id = threadId ?? (found && (yield* threadIdOf(session, found.thread)));
  const key = id === undefined ? undefined : yield* threadKey(session, id);
  if (key === undefined) return undefined;
  const raw = yield* session.get<RawEffect>(session.locking(BY_ID), effectId);
  return raw?.thread === key.thread ? { key, row: toEffect(session, key.threadId, raw) } : undefined;
}
