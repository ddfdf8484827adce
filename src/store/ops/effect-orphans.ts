import { commonAttempts, type EffectRow, isCalledAt, rootTaskOf, sendsOf, SETTLED_AS_HISTORY, stepsOf } from "../effects";
import { filtered, mapped, type Program, question, type Statement } from "../program";
import { EFFECT_ROWS } from "../rows";
import type { Session } from "../session";
import { type RawEffect, saveEffect, toEffect } from "./effect-rows";
import type { NewCheckpoint, NewEffect } from "../store";
import type { ThreadState } from "../thread-state";
import { isSameContent, parseManifest } from "./heads";
import { threadIdOf, threadKey } from "./thread-rows";

const IS_OPEN = `undo_status IS DISTINCT FROM 'done' AND settled_by IS DISTINCT FROM '${SETTLED_AS_HISTORY}'`;
/** `?4` is the root node task with its slash, `?5` is the same with the character after the slash. */
const OF_EARLIER_ATTEMPTS = EFFECT_ROWS.select(`WHERE thread = ?1 AND run > ?4 AND run < ?5 AND run <> ?3
  AND path = ?2 AND ${IS_OPEN} ORDER BY seq`);
const UNSAVED_RUNS = "SELECT DISTINCT unsaved_run FROM langgraph_effects WHERE unsaved_run IS NOT NULL AND unsaved_run <> ?";
/** The plus selects the index by run: lost runs are rare, and a thread may have many effects. */
const OF_LOST_RUN = EFFECT_ROWS.select(`WHERE unsaved_run = ? AND +thread = ? AND path = ? AND ${IS_OPEN}`);
const OF_NODE_TASK = EFFECT_ROWS.select("WHERE thread = ? AND node_task_id = ? ORDER BY seq");
const BEGUN_SINCE = `SELECT 1 FROM langgraph_snapshots
  WHERE thread = ? AND checkpoint_ns = ? AND source = 'input' AND seq > ? AND superseded_by IS NULL LIMIT 1`;
const SAVED = "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? LIMIT 1";
const ANY_OF_NS = "SELECT 1 FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? LIMIT 1";
const OF_UNSAVED = EFFECT_ROWS.select(
  "WHERE unsaved_run = ? AND inherited = 0 AND thread NOT IN (SELECT thread FROM langgraph_leftovers)",
);

const ROOT = `SELECT source, parent_checkpoint_id AS parent, channels FROM langgraph_snapshots
  WHERE thread = ? AND checkpoint_ns = '' AND checkpoint_id = ? AND superseded_by IS NULL`;
const SOURCE =
  "SELECT source FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = '' AND checkpoint_id = ? AND superseded_by IS NULL";
const TASK_OF_TURN = "SELECT task_id FROM langgraph_checkpoints WHERE thread = ? AND node_task_id = ? ORDER BY +seq DESC LIMIT 1";
const OF_ANCHOR = EFFECT_ROWS.select(`WHERE thread = ?1 AND path = ?2 AND anchor = ?3 AND ${IS_OPEN} ORDER BY seq`);

export interface OrphanCall extends NewEffect {
  path: string;
  inputDigest: string | undefined;
  /** The task that this call certainly belongs to. */
  taskId: string | undefined;
  unsavedRun: string | undefined;
}

/**
 * Books effects of an earlier node task to the one that now does the same work.
 *
 * LangGraph derives a node task's id from the checkpoint it starts from. If that checkpoint wasn't kept, the same work gets
 * another id. This happens in three cases: in a graph without a checkpointer, after the enclosing node started again; with
 * durability "exit", in the whole run after a crash; and after somebody edited the state (`updateState`).
 *
 * The input identifies the earlier node task. Failing that, its place in the course of the graph does, unless the state was
 * edited.
 *
 * @returns an effect that may be this call's, if nobody can know
 */
export function* adoptOrphans(session: Session, key: ThreadState, call: OrphanCall): Program<EffectRow | undefined> {
  const lost = yield* lostEffects(session, key, call);
  const ours = yield* filtered(lost, function* (row) {
    return (yield* taskOf(session, row, call)) === call.taskId;
  });
  const orphans = [...(yield* earlierCalls(session, key, call)), ...ours].toSorted((left, right) => left.seq - right.seq);
  const edited = yield* beforeEdit(session, key, call);
  const known = knownTwin(orphans, call) ?? editedTwin(edited, call);
  if (known !== undefined) {
    yield* book(session, key, known.nodeTaskId, call);
    return undefined;
  }
  return orphans.find((row) => isUndecided(row, call)) ?? edited.find((row) => isComparable(row, call) === false);
}

/**
 * For a call without a match in its node task, after calls that had one. The edit may have changed the input of those, so they
 * adopted nothing, or not from this effect's node task. Only this one effect is booked.
 *
 * @returns an effect that may be this call's, if nobody can know
 */
export function* adoptEdited(session: Session, key: ThreadState, call: OrphanCall): Program<EffectRow | undefined> {
  const edited = yield* beforeEdit(session, key, call);
  const known = editedTwin(edited, call);
  if (known === undefined) return edited.find((row) => isComparable(row, call) === false);
  yield* saveEffect(session, key, booked(known, call));
  return undefined;
}

/** What is asked for every call, as far as that doesn't depend on answers. */
export function* orphanQuestions(
  session: Session,
  { thread }: ThreadState,
  { rootThreadId, run, graphRun, anchor, innerAnchors }: NewEffect,
): Program<Statement[]> {
  const asked = [question("arrays", UNSAVED_RUNS, graphRun)];
  for (const [ns, id] of Object.entries(innerAnchors))
    asked.push(question("one", SAVED, thread, ns, id), question("one", ANY_OF_NS, thread, ns));
  const root = (yield* threadKey(session, rootThreadId))?.thread;
  if (root === undefined) return asked;
  asked.push(question("one", TASK_OF_TURN, root, rootTaskOf(run)));
  if (anchor !== undefined) asked.push(question("one", SAVED, root, "", anchor), question("one", SOURCE, root, anchor));
  return asked;
}

/** The effect of a lost run that nobody has asked to continue, if this call may be the same side effect. */
export function* lostTwin(session: Session, key: ThreadState, call: OrphanCall): Program<EffectRow | undefined> {
  for (const row of yield* lostEffects(session, key, call)) {
    if (row.status === "failed" || row.name !== call.name) continue;
    const isSame = row.label === call.label || (call.inputDigest !== undefined && row.inputDigest === call.inputDigest);
    if (isSame && (yield* taskOf(session, row, call)) !== call.taskId) return row;
  }
  return undefined;
}

/** Looked up on the thread of the outermost graph: a thread on which one of its nodes runs a graph has its own tasks. */
function* taskOf(session: Session, row: EffectRow, { rootThreadId }: OrphanCall): Program<string> {
  return (yield* rootTaskName(session, rootThreadId, row.run)) ?? row.taskId;
}

/** The task of a root node task, by its turn. */
export function* rootTaskName(session: Session, rootThreadId: string, run: string): Program<string | undefined> {
  const root = yield* threadKey(session, rootThreadId);
  return root && (yield* session.get<{ task_id: string }>(TASK_OF_TURN, root.thread, rootTaskOf(run)))?.task_id;
}

/**
 * A checkpoint has been saved: earlier effects of these runs in its graph are no longer lost. A saved root checkpoint covers all
 * effects of the run. But while the enclosing root checkpoint isn't saved, the run starts again from before it.
 */
export function* runsAreSaved(
  session: Session,
  { thread }: ThreadState,
  { ns, graphRuns }: Pick<NewCheckpoint, "ns" | "graphRuns">,
): Program<void> {
  const runs = [...new Set(graphRuns)].filter((run) => !session.savedRuns.has(run));
  const rows = (yield* mapped(runs, (run) => session.all<RawEffect>(OF_UNSAVED, run))).flat();
  for (const run of runs) session.savedRuns.add(run);
  for (const row of rows) {
    const key = (yield* threadKey(session, yield* threadIdOf(session, row.thread))) as ThreadState;
    const isInside =
      row.thread === thread && row.node_ns.startsWith(`${ns}|`) && (yield* isSavedRoot(session, key, row.anchor, key.threadId));
    if (ns === "" || isInside)
      yield* saveEffect(session, key, { ...toEffect(session, key.threadId, row), unsavedRun: undefined });
    else if (row.unsaved_run !== null) session.savedRuns.delete(row.unsaved_run);
  }
}

export function* isSavedRoot(session: Session, key: ThreadState, anchor: string | null, rootThreadId: string): Program<boolean> {
  const root = rootThreadId === key.threadId ? key : yield* threadKey(session, rootThreadId);
  return root !== undefined && (yield* session.get(SAVED, root.thread, "", anchor)) !== undefined;
}

/** Whether a nested graph that resumes from a checkpoint of its own would resume from before this one. */
export function* isLostInside(session: Session, { thread }: ThreadState, ns: string, checkpointId: string): Program<boolean> {
  return (
    (yield* session.get(SAVED, thread, ns, checkpointId)) === undefined &&
    (yield* session.get(ANY_OF_NS, thread, ns)) !== undefined
  );
}

function knownTwin(orphans: readonly EffectRow[], call: OrphanCall): EffectRow | undefined {
  const isThere = ({ spot }: EffectRow): boolean => spot === call.spot;
  const equal = orphans.filter((row) => hasSameInput(row, call));
  return equal.find(isThere) ?? equal[0] ?? orphans.find(isThere);
}

/** An edit is a step of its own; a Send keeps its index. */
function editedTwin(edited: readonly EffectRow[], call: OrphanCall): EffectRow | undefined {
  const equal = edited.filter((row) => hasSameInput(row, call));
  return equal.find(({ spot }) => sendsOf(spot) === sendsOf(call.spot)) ?? equal[0];
}

/**
 * The same effect at another point of the course, and no inputs that tell them apart: the node of a loop, or the course has
 * changed.
 */
function isUndecided(row: EffectRow, call: OrphanCall): boolean {
  return isComparable(row, call) === false && stepsOf(row.spot) !== stepsOf(call.spot);
}

function hasSameInput({ name, inputDigest }: EffectRow, call: OrphanCall): boolean {
  return name === call.name && inputDigest !== undefined && inputDigest === call.inputDigest;
}

/** Whether inputs tell if an effect that happened, or may have, is this call's. Undefined for an effect that can't be. */
function isComparable({ name, status, inputDigest }: EffectRow, call: OrphanCall): boolean | undefined {
  if (name !== call.name || status === "failed") return undefined;
  return inputDigest !== undefined && call.inputDigest !== undefined;
}

/**
 * Effects of node tasks that had failed, or had finished beside a failed one, when somebody edited the state that they ran on.
 */
function* beforeEdit(session: Session, key: ThreadState, call: OrphanCall): Program<EffectRow[]> {
  const root = call.rootThreadId === key.threadId ? key : yield* threadKey(session, call.rootThreadId);
  if (root === undefined || call.anchor === undefined || !(yield* isEdited(session, call))) return [];
  const ids = yield* editedInto(session, root, call.anchor, call.path.split("|", 1)[0] as string);
  const rows = yield* mapped(ids, (id) => session.all<RawEffect>(OF_ANCHOR, key.thread, call.path, id));
  return rows.flat().map((row) => toEffect(session, key.threadId, row));
}

interface Root {
  source: string;
  parent: string | null;
  channels: string;
}

/** Whether the call's node task is due on a checkpoint that somebody edited. */
export function* isEdited(session: Session, { rootThreadId, anchor }: OrphanCall): Program<boolean> {
  const root = anchor === undefined ? undefined : yield* threadKey(session, rootThreadId);
  return root !== undefined && (yield* session.get<Pick<Root, "source">>(SOURCE, root.thread, anchor ?? ""))?.source === "update";
}

/** The checkpoints that somebody edited into this one, newest first, as long as the node is due for the same visit on them. */
function* editedInto(session: Session, root: ThreadState, checkpointId: string, node: string): Program<string[]> {
  const ids: string[] = [];
  let edit = yield* session.get<Root>(ROOT, root.thread, checkpointId);
  // A damaged file may contain a cycle.
  while (edit?.source === "update" && edit.parent !== null && !ids.includes(edit.parent)) {
    const before = yield* session.get<Root>(ROOT, root.thread, edit.parent);
    if (before === undefined || leadsBack(session, root, node, edit, before)) break;
    ids.push(edit.parent);
    edit = before;
  }
  return ids;
}

/**
 * Whether the edit was made as this node (`asNode`), which completes its visit and leads to its next one. LangGraph doesn't note
 * as which node an edit was made, but a conditional edge writes the name of the node that it leaves. An unconditional edge back
 * to its own node would be an endless loop.
 */
function leadsBack(session: Session, root: ThreadState, node: string, edit: Root, before: Root): boolean {
  const channel = `branch:to:${node}`;
  const now = parseManifest(edit.channels).get(channel);
  if (now?.pointer === undefined) return false;
  const then = parseManifest(before.channels).get(channel);
  if (now.version === then?.version && isSameContent(now.pointer, then?.pointer)) return false;
  const name = JSON.stringify(node);
  if (now.pointer.kind === "inline") return now.pointer.text === name;
  return now.pointer.kind === "whole" && now.pointer.address === session.sealing.address(root.threadId, name);
}

function* book(session: Session, key: ThreadState, earlier: string, call: OrphanCall): Program<void> {
  for (const raw of yield* session.all<RawEffect>(OF_NODE_TASK, key.thread, earlier)) {
    yield* saveEffect(session, key, booked(toEffect(session, key.threadId, raw), call));
  }
}

function booked(row: EffectRow, { nodeNs, nodeTaskId, anchor, rootThreadId, run, spot, unsavedRun }: OrphanCall): EffectRow {
  const anchorThread = rootThreadId === row.threadId ? undefined : rootThreadId;
  return { ...row, nodeNs, nodeTaskId, anchor, anchorThread, run, spot, unsavedRun };
}

/** Effects of earlier attempts of the same node tasks, in graphs that these attempts started again. */
function* earlierCalls(session: Session, key: ThreadState, call: OrphanCall): Program<EffectRow[]> {
  if (!call.nodeNs.includes("|")) return [];
  const root = rootTaskOf(call.run);
  const rows = yield* session.all<RawEffect>(OF_EARLIER_ATTEMPTS, key.thread, call.path, call.run, `${root}/`, `${root}0`);
  const others = rows.map((row) => toEffect(session, key.threadId, row)).filter((row) => row.nodeTaskId !== call.nodeTaskId);
  return yield* filtered(others, (row) => isOfGraphBegunAnew(session, key, row, call));
}

/**
 * Whether a graph around the effect was started again since, or keeps no checkpoints. A graph that resumed gives its node tasks
 * their old ids: where the ids differ, the two are different visits of one node. Graphs around attempts that both share are the
 * same run; with durability "exit" they keep nothing either.
 *
 * A graph with `checkpointer: true` begins each visit with an input. Its namespace has no ids, and neither do the enclosing
 * graphs' parts of it. The place in the course of those graphs tells which visit it is.
 */
function* isOfGraphBegunAnew(session: Session, key: ThreadState, row: EffectRow, call: OrphanCall): Program<boolean> {
  const before = row.nodeNs.split("|");
  const now = call.nodeNs.split("|");
  const tasks = before.filter((segment) => !isNumber(segment)).length;
  // On a thread of its own, a graph's namespaces begin with its own nodes. The attempts around it begin with the outermost graph.
  let task = call.spot.split("|").length - tasks;
  const common = commonAttempts(row.run, call.run);
  for (let depth = 1; depth < before.length; depth += 1) {
    if (before[depth - 1] !== now[depth - 1]) return false;
    // A number counts the graphs that a node calls. It is part of the namespace of that graph.
    if (isNumber(before[depth])) continue;
    task += 1;
    if (task <= common || isCalledAt(row.spot, task)) continue;
    if (before[depth - 1]?.includes(":") === false && !isNumber(before[depth - 1])) {
      if (before[depth]?.includes(":") === false) continue;
      if (!isSamePlace(row.spot, call.spot, task)) return false;
    }
    const graph = before.slice(0, depth).join("|");
    if ((yield* session.get(ANY_OF_NS, key.thread, graph)) === undefined) return true;
    if ((yield* session.get(BEGUN_SINCE, key.thread, graph, row.seq)) !== undefined) return true;
  }
  return false;
}

/** Whether the outermost tasks of two spots are the same, up to a depth. */
function isSamePlace(spot: string, other: string, tasks: number): boolean {
  const around = (each: string): string => each.split("|").slice(0, tasks).join("|");
  return around(spot) === around(other);
}

const isNumber = (segment: string | undefined): boolean => /^\d+$/.test(segment ?? "");

/**
 * Effects of lost runs: nothing that came after them was saved. For a run that resumed from a checkpoint, only those of the same
 * root node task.
 */
function* lostEffects(session: Session, key: ThreadState, call: OrphanCall): Program<EffectRow[]> {
  const runs = yield* session.rows<[string]>(UNSAVED_RUNS, call.graphRun);
  const rows = yield* mapped(runs, ([run]) => session.all<RawEffect>(OF_LOST_RUN, run, key.thread, call.path));
  const effects = rows.flat().sort((left, right) => left.seq - right.seq);
  const others = effects.map((row) => toEffect(session, key.threadId, row)).filter((row) => row.nodeTaskId !== call.nodeTaskId);
  return yield* filtered(others, function* (row) {
    if (rootTaskOf(row.run) === rootTaskOf(call.run)) return true;
    return !(yield* isSavedRoot(session, key, row.anchor ?? null, call.rootThreadId));
  });
}
