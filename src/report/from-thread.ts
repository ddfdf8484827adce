import { type CheckpointTuple, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import { z } from "zod";
import { internalsOf } from "../internals";
import { checkedOptions, idSchema } from "../options";
import type { Page } from "../page";
import { push } from "../push";
import { lostIn } from "../rewind/plan";
import { checkedUndos } from "../rewind/undos";
import { lastRunOf } from "../runner/last-run";
import { settledBy, type SettledBy, unsettledOf } from "../runner/thread-status";
import type { TurnSaver } from "../saver";
import { plannedTasks, withoutState } from "../turns/node-task";
import type { Turn } from "../turns/turn";
import type { Task } from "../turns/turns";
import { failureLine } from "./phase-changes";
import {
  addedTokens,
  noTokens,
  type Phase,
  type PhaseStatus,
  type PhaseTokens,
  type Progress,
  type ResumeInfo,
  resumeInfoOf,
  sumOf,
  TOKEN_KINDS,
} from "./progress";
import { othersFirst } from "../timers";

/** Options of `CheckpointFile.fromThread`. */
export interface FromThreadOptions {
  /** What a phase is. `"task"` (default): a task of the thread. `"node"`: a node at the top of the graph, over all tasks. */
  by?: "task" | "node";
  /**
   * Whether the note of a failed phase quotes its error, as the turn log holds it (after `redact`). Default: yes, but no for an
   * encrypted saver, whose errors would leave the database as plain text.
   */
  errors?: boolean;
}

export const threadOptions = z.strictObject({
  threadId: idSchema,
  by: z.enum(["task", "node"]).default("task"),
  errors: z.boolean().optional(),
});
/** How many turns are read at once. The event loop runs in between. */
const PAGE = 500;

interface Group {
  id: string;
  /** All turns that belong to it, including those in subgraphs. */
  turns: readonly Turn[];
  /** Tokens of its turns that were pruned since. */
  pruned: readonly PhaseTokens[];
  status: PhaseStatus;
  course: Course | undefined;
  /** For a task. A node begins with its first turn. */
  createdAt: Date | null;
}

interface Situation {
  head: Head;
  inFlight: ReadonlySet<string>;
  running: boolean;
  /** The effects in doubt of the last run, with who settles each. */
  doubts: readonly (readonly [name: string, by: SettledBy])[];
  /** An unfinished rewind, or what a salvage left in its place. */
  rewind: Awaited<ReturnType<TurnSaver["rewinds"]["unfinished"]>>;
}

/** See `CheckpointFile.fromThread`. @throws {TurnsError} INVALID_OPTION, and what the saver throws */
export async function progressOfThread(saver: TurnSaver, thread: string, options: FromThreadOptions): Promise<Progress> {
  const {
    threadId,
    by,
    errors = !internalsOf(saver).encrypted,
  } = checkedOptions(threadOptions, { ...options, threadId: thread });
  const turns = await turnsOf(saver, threadId);
  const head = headOf(await newestCheckpoint(saver, threadId));
  const unsettled = head.isUnfinished ? await unsettledOf(saver, threadId, await lastRunOf(saver, threadId)) : [];
  const known = checkedUndos(undefined);
  const situation: Situation = {
    head,
    doubts: unsettled.filter(({ status }) => status === "in-doubt").map((effect) => [effect.name, settledBy(effect, known)]),
    inFlight: new Set((await saver.turns.inFlight(threadId)).map((turn) => turn.id)),
    running: await saver.turns.isRunning(threadId),
    rewind: await saver.rewinds.unfinished(threadId),
  };
  const tasks = await saver.turns.tasks(threadId);
  const groups = by === "node" ? byNode(tasks, turns, situation) : await byTask(saver, threadId, tasks, turns, situation);
  const phases: Phase[] = [];
  for (const group of groups) phases.push(await phaseOf(saver, group, errors));
  return { threadId, phases, resume: resumeOf(phases, groups, situation), totals: sumOf(phases) };
}

async function turnsOf(saver: TurnSaver, threadId: string): Promise<Turn[]> {
  const turns: Turn[] = [];
  for (;;) {
    const page: Page<Turn> = await saver.turns.list(threadId, { after: turns.at(-1)?.seq, limit: PAGE });
    for (const turn of page) turns.push(turn);
    if (page.cursor === undefined) return turns;
    await othersFirst();
  }
}

/** Not by `getTuple`: the saver takes that for the start of a run, which names its task. */
async function newestCheckpoint(saver: TurnSaver, threadId: string): Promise<CheckpointTuple | undefined> {
  for await (const tuple of saver.list({ configurable: { thread_id: threadId, checkpoint_ns: "" } }, { limit: 1 })) return tuple;
  return undefined;
}

/** Only the newest task can continue, or the one before an `updateState`, which is a task without turns. All others are past. */
async function byTask(
  saver: TurnSaver,
  threadId: string,
  tasks: readonly Task[],
  turns: readonly Turn[],
  at: Situation,
): Promise<Group[]> {
  const ofTask = grouped(turns, (turn) => turn.taskId);
  const newest = tasks.at(-1);
  const isUpdate = at.head.isUpdate && newest !== undefined && !ofTask.has(newest.taskId);
  const current = isUpdate ? tasks.findLast((task) => ofTask.has(task.taskId)) : newest;
  const groups: Group[] = [];
  for (const task of tasks) {
    const own = ofTask.get(task.taskId) ?? [];
    const course = courseOf(own);
    let status = task === current ? statusOfCurrentTask(course, at) : pastStatus(course);
    if (task !== current && own.length > 0 && status === "completed" && (await wasLeft(saver, threadId, task)))
      status = "skipped";
    groups.push({ id: task.taskId, turns: own, pruned: task.prunedTokens ?? [], status, course, createdAt: task.createdAt });
  }
  return groups;
}

/** Whether nodes were due when a past task was over, as behind a breakpoint. False if that was pruned. */
async function wasLeft(saver: TurnSaver, threadId: string, { firstSeq, endSeq }: Task): Promise<boolean> {
  if (endSeq === undefined) return false;
  const internals = internalsOf(saver);
  const query = { ns: "", checkpointId: undefined, beforeId: undefined, isOfRun: false, limit: 1 };
  const [head] = await internals.store.listCheckpoints({ ...query, threadId, after: endSeq + 1 });
  if (head === undefined || head.place < firstSeq || head.source === "update") return false;
  return headOf(await internals.readHead(withoutState(head), "special")).planned.length > 0;
}

function statusOfCurrentTask(course: Course | undefined, at: Situation): PhaseStatus {
  const status = liveStatus(course, at);
  if (status !== undefined) return status;
  if (!at.head.isUnfinished) return at.running && course === undefined ? "in-progress" : "completed";
  return course === undefined && !at.running ? "pending" : "in-progress";
}

/** A node whose turns were all pruned is still listed for its tokens. */
function byNode(tasks: readonly Task[], turns: readonly Turn[], at: Situation): Group[] {
  const { planned } = at.head;
  const prunedOf = grouped(
    tasks.flatMap(({ prunedTokens = [] }) => prunedTokens),
    ({ path }) => path.replace(/\|.*$/, ""),
  );
  const ofNode = grouped(turns, nodeOf);
  const ids = new Set([...prunedOf.keys(), ...ofNode.keys()]);
  const groups = [...ids].map((id): Group => {
    const own = ofNode.get(id) ?? [];
    const course = courseOf(own);
    const comesAgain = planned.includes(id) && !isAt(course, at.head);
    const status = liveStatus(course, at) ?? (comesAgain ? "in-progress" : pastStatus(course));
    return { id, turns: own, pruned: prunedOf.get(id) ?? [], status, course, createdAt: null };
  });
  const begun = new Set(groups.map((group) => group.id));
  const toCome = planned.filter((name) => !begun.has(name));
  return [
    ...groups,
    ...toCome.map((id): Group => ({ id, turns: [], pruned: [], status: "pending", course: undefined, createdAt: null })),
  ];
}

/** Undefined if no work that was started is left. */
function liveStatus(course: Course | undefined, { head, inFlight, running }: Situation): PhaseStatus | undefined {
  const live = liveCourse(course, head, inFlight);
  if (live?.failed !== undefined) return running ? "in-progress" : "failed";
  return live?.open !== undefined || live?.waiting !== undefined ? "in-progress" : undefined;
}

/** Unfinished work of the past won't be finished: the thread has continued with something else. */
function pastStatus(course: Course | undefined): PhaseStatus {
  return course?.open !== undefined || course?.failed !== undefined || course?.waiting !== undefined ? "skipped" : "completed";
}

async function phaseOf(saver: TurnSaver, group: Group, errors: boolean): Promise<Phase> {
  const { id, status, turns, pruned, createdAt } = group;
  const hasBegun = status !== "pending";
  // Its first turns may be pruned.
  const first = pruned.length > 0 ? (createdAt ?? turns[0]?.createdAt) : (turns[0]?.createdAt ?? createdAt);
  const hasEnded = hasBegun && status !== "in-progress";
  return {
    id,
    name: id,
    status,
    startedAt: hasBegun ? (first ?? null) : null,
    endedAt: hasEnded ? (turns.at(-1)?.createdAt ?? createdAt) : null,
    notes: await notesOf(saver, group, errors),
    tokens: [tokensOf(turns), ...pruned].reduce((sum, tokens) => addedTokens(sum, tokens), noTokens()),
  };
}

/** Why a phase failed. The database holds nothing else for a note. */
async function notesOf(saver: TurnSaver, { status, course }: Group, errors: boolean): Promise<string> {
  if (course?.failed === undefined || (status !== "failed" && status !== "skipped")) return "";
  const node = JSON.stringify(course.failed.nodeName);
  if (!errors)
    return failureLine(`node ${node}; its error stays in the ${internalsOf(saver).encrypted ? "encrypted " : ""}database`);
  try {
    const error = (await saver.turns.state(course.failed))["error"] as { name?: unknown; message?: unknown } | undefined;
    const told = [error?.name, error?.message].filter((part) => typeof part === "string" && part !== "");
    return failureLine(told.length === 0 ? `node ${node}` : `node ${node}, ${told.join(": ")}`);
  } catch {
    // Turns may be kept without content.
    return failureLine(`node ${node}; its error was not kept`);
  }
}

function resumeOf(phases: readonly Phase[], groups: readonly Group[], at: Situation): ResumeInfo {
  const info = resumeInfoOf(phases);
  const lost = lostIn(at.rewind?.reason);
  if (lost !== undefined) {
    const reason = `it was rescued from a damaged file, where ${lost}`;
    return { ...info, nextStep: "accept what is lost: saver.rewinds.abandon", canResume: false, reason };
  }
  if (at.rewind !== undefined) {
    const reason = `a rewind to task ${at.rewind.toTask} isn't finished`;
    return { ...info, nextStep: `finish the rewind to task ${at.rewind.toTask}`, canResume: false, reason };
  }
  const next = groups.find((group) => group.id === info.nextPhase);
  if (next === undefined) return info;
  if (at.running) return { ...info, nextStep: null, canResume: false, reason: "a process is running the thread" };
  const { failed, waiting, open } = liveCourse(next.course, at.head, at.inFlight) ?? {};
  if (open !== undefined && open.checkpointId === undefined && !at.head.isUnfinished) {
    const reason = 'nothing of its run was saved (durability "exit")';
    return { ...info, nextStep: "start it again with its input", canResume: false, reason };
  }
  const [settle] = at.doubts.find(([, by]) => by === "person") ?? [];
  if (settle !== undefined) {
    const reason = `nobody knows whether effect ${settle} happened, and it has no probe`;
    return { ...info, nextStep: `settle effect ${settle}: saver.effects.resolve`, canResume: false, reason };
  }
  const [probed] = at.doubts.find(([, by]) => by === "maybe-probe") ?? [];
  if (probed !== undefined) return { ...info, nextStep: `resume; if effect ${probed} has no probe, settle it first` };
  const step = (said: string, turn: Turn): ResumeInfo => ({ ...info, nextStep: `${said} ${turn.nodeName}` });
  if (failed !== undefined) return { ...info, nextStep: `repair ${failed.nodeName}, then resume` };
  if (open !== undefined) return step("resume: it was interrupted at", open);
  return waiting === undefined ? { ...info, nextStep: "resume" } : step("answer what is asked at", waiting);
}

function grouped<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) push(groups, keyOf(item), item);
  return groups;
}

interface Head {
  checkpointId: string | undefined;
  step: number | undefined;
  /** Whether an `updateState` made it. */
  isUpdate: boolean;
  /**
   * Nodes at the top of the graph that come next, according to the checkpoint alone. Nodes among them that have run already are
   * included.
   */
  planned: readonly string[];
  /** Something comes next, or there are writes that no checkpoint contains yet. */
  isUnfinished: boolean;
}

function headOf(tuple: CheckpointTuple | undefined): Head {
  if (tuple === undefined) return { checkpointId: undefined, step: undefined, isUpdate: false, planned: [], isUnfinished: false };
  const { checkpoint, metadata, pendingWrites } = tuple;
  const source = metadata?.source;
  const planned = metadata === undefined ? [] : plannedTasks("", checkpoint, metadata).map((task) => task.name);
  const written = (pendingWrites ?? []).some(([, channel]) => !Object.hasOwn(WRITES_IDX_MAP, channel));
  return {
    checkpointId: checkpoint.id,
    step: metadata?.step,
    isUpdate: source === "update",
    planned: [...new Set(planned)],
    isUnfinished: source === "input" || planned.length > 0 || written,
  };
}

/** The outcome of a series of turns: the state of its newest superstep. */
interface Course {
  /** The checkpoint that the superstep started from; undefined with durability "exit", which saves it later or never. */
  checkpointId: string | undefined;
  step: number;
  /** A node that started and hasn't finished. */
  open: Turn | undefined;
  /** A node that failed and wasn't tried again. */
  failed: Turn | undefined;
  waiting: Turn | undefined;
}

/** @param turns of nodes at the top of the graph and inside it, oldest first; returns undefined if none are at the top */
function courseOf(turns: readonly Turn[]): Course | undefined {
  const atTop = turns.filter((turn) => !turn.nodeNs.includes("|"));
  const last = atTop.findLast((turn) => turn.turnType === "Thought") ?? atTop.at(-1);
  if (last === undefined) return undefined;
  const newest = new Map<string, Turn>();
  for (const turn of atTop) {
    if (turn.checkpointId !== last.checkpointId || turn.step !== last.step) continue;
    // In the order of the newest turns: the first failure is the cause, and aborted the nodes beside it.
    newest.delete(turn.nodeTaskId);
    newest.set(turn.nodeTaskId, turn);
  }
  const states = [...newest.values()];
  return {
    checkpointId: last.checkpointId,
    step: last.step,
    open: states.find((turn) => turn.turnType === "Thought"),
    failed: states.find((turn) => turn.status === "error" && !turn.durable),
    waiting: states.find((turn) => turn.status === "interrupted"),
  };
}

/** Whether a superstep started from the newest checkpoint. */
function isAt(course: Course | undefined, head: Head): boolean {
  if (course?.checkpointId !== undefined) return course.checkpointId === head.checkpointId;
  return course !== undefined && head.step !== undefined && course.step === head.step + 1;
}

/** What still matters of a course now: a failure or question that the thread has moved past doesn't. */
function liveCourse(course: Course | undefined, head: Head, inFlight: ReadonlySet<string>): Course | undefined {
  if (course === undefined) return undefined;
  const isAtHead = isAt(course, head);
  return {
    ...course,
    open: course.open !== undefined && inFlight.has(course.open.id) ? course.open : undefined,
    failed: isAtHead ? course.failed : undefined,
    waiting: isAtHead ? course.waiting : undefined,
  };
}

/** The node at the top of the graph in which a turn took place. */
function nodeOf(turn: Turn): string {
  const cut = turn.nodeNs.indexOf("|");
  if (cut === -1) return turn.nodeName;
  const segment = turn.nodeNs.slice(0, cut);
  const end = segment.lastIndexOf(":");
  return end === -1 ? segment : segment.slice(0, end);
}

/** An attempt's Action repeats what its Thought has counted so far. */
function tokensOf(turns: readonly Turn[]): PhaseTokens {
  const attempts = new Map<string, PhaseTokens>();
  for (const turn of turns) {
    const key = JSON.stringify([turn.nodeTaskId, turn.attempt]);
    const known = attempts.get(key) ?? noTokens();
    const told: Partial<PhaseTokens> = turn.tokens;
    for (const kind of TOKEN_KINDS) known[kind] = Math.max(known[kind], told[kind] ?? 0);
    attempts.set(key, known);
  }
  return [...attempts.values()].reduce((sum, tokens) => addedTokens(sum, tokens), noTokens());
}
