import { internalsOf } from "../internals";
import { type CheckpointTuple, RESUME, WRITES_IDX_MAP } from "@langchain/langgraph-checkpoint";
import type { Effect } from "../effects/types";
import { describe, TurnsError } from "../errors";
import type { TurnSaver } from "../saver";
import type { LastRun } from "../store/store";
import { plannedTasks } from "../turns/node-task";
import type { PregelLike } from "../turns/attached-graph";

/**
 * The run that a thread's newest checkpoint is of. Not only input begins one: so does an update, or a fork, that makes nodes due where
 * none were. What was finished before it is another run, which a restart must not reach back to.
 */
export async function lastRunOf(saver: TurnSaver, threadId: string): Promise<LastRun | undefined> {
  const run = await internalsOf(saver).lastRun(threadId);
  for (const { id, parentId, seq, behind } of run?.changes ?? []) {
    // Nothing due, or nobody can tell: a mere change of what there is.
    if ((await isDue(saver, threadId, id)) !== true) continue;
    if (parentId !== undefined && (await isDue(saver, threadId, parentId)) !== false) continue;
    return { ...(run as LastRun), inputId: id, sinceSeq: seq, branch: (run as LastRun).branch.slice(0, behind) };
  }
  return run;
}

/** Whether node tasks are to come next; undefined if the checkpoint is gone, or cannot be read. */
async function isDue(saver: TurnSaver, threadId: string, checkpointId: string): Promise<boolean | undefined> {
  const found = await readTuple(saver, threadId, checkpointId);
  if (found === undefined || found === UNREADABLE) return undefined;
  return plannedTasks("", found.checkpoint, found.metadata ?? { source: "loop", step: 0, parents: {} }).length > 0;
}

/** What a checkpoint that cannot be read is refused with. */
export function isUnreadable(error: unknown): error is TurnsError {
  return (["CHECKPOINT_CORRUPTED", "UNDECODABLE_VALUE", "CHECKPOINT_UNREADABLE"] as const).some((code) =>
    TurnsError.is(error, code),
  );
}

export const UNREADABLE = Symbol("unreadable");

/** A checkpoint of the outermost graph; without an id the newest. */
export async function readTuple(
  saver: TurnSaver,
  threadId: string,
  checkpointId?: string,
): Promise<CheckpointTuple | typeof UNREADABLE | undefined> {
  try {
    return await saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: checkpointId } });
  } catch (error) {
    if (!isUnreadable(error)) throw error;
    return UNREADABLE;
  }
}

/** What a run that starts again would repeat. */
export interface EffectsOfRun {
  done: readonly Pick<Effect, "name" | "label" | "key">[];
  /** Those that nobody knows the outcome of. */
  open: readonly Effect[];
}

export async function effectsOfRun(saver: TurnSaver, threadId: string, run: LastRun | undefined): Promise<EffectsOfRun> {
  const effects = run === undefined ? [] : await saver.effects.list(threadId, { after: Math.max(0, run.sinceSeq - 1) });
  const done = effects.filter(({ status, undoStatus }) => status === "done" && undoStatus !== "done");
  return {
    done: done.map(({ name, label, key }) => ({ name, label, key })),
    open: effects.filter(({ status }) => status === "in-doubt" || status === "running"),
  };
}

export function didEffects({ done, open }: EffectsOfRun): boolean {
  return done.length + open.length > 0;
}

export function effectList(effects: EffectsOfRun["done"]): string {
  return effects.map(({ name, label, key }) => `${describe(name)} (${label}, key ${key})`).join(", ");
}

/** What stands between a thread and new input. */
export interface Unfinished {
  /** Nodes that are due, or wait for an answer. */
  nodes: readonly string[];
  /** Whether only a person's answer can finish it. */
  waits: boolean;
}

interface GraphWithState {
  getState(config: object): Promise<{ next: string[]; tasks: { name: string; interrupts: unknown[] }[] }>;
}

/**
 * `next` alone does not tell: it is empty after a crash between a step's writes and its checkpoint, and while a resume value is
 * pending (internals, F4). Writes that no checkpoint has taken up yet are work too.
 */
export async function unfinishedOf(saver: TurnSaver, graph: PregelLike, threadId: string): Promise<Unfinished | undefined> {
  const config = { configurable: { thread_id: threadId } };
  const head = await saver.getTuple(config);
  if (head === undefined) return undefined;
  const state = await (graph as unknown as GraphWithState).getState(config);
  const taken = (head.pendingWrites ?? []).filter(([, channel]) => channel === RESUME || !Object.hasOwn(WRITES_IDX_MAP, channel));
  if (state.next.length === 0 && taken.length === 0) return undefined;
  const due = state.tasks.filter((task) => state.next.includes(task.name));
  return { nodes: state.next, waits: due.length > 0 && due.every((task) => task.interrupts.length > 0) };
}

export function unfinishedWork(threadId: string, unfinished: Unfinished): TurnsError {
  const nodes = unfinished.nodes.map((name) => JSON.stringify(name)).join(", ");
  return new TurnsError("UNFINISHED_WORK", {
    what: `new input for thread ${describe(threadId)}`,
    expected: "a thread whose last run is finished",
    found: unfinished.waits
      ? `a run that waits for an answer at ${nodes}`
      : `unfinished work${nodes === "" ? "" : ` at ${nodes}`}`,
    remedy: unfinished.waits
      ? 'Answer with resume({ threadId, command: new Command({ resume }) }), or pass onUnfinished: "abandon" to drop it.'
      : 'Call resume({ threadId }) first, or pass onUnfinished: "finish" (or "abandon" to drop it).',
    data: { threadId, nodes: unfinished.nodes, waits: unfinished.waits },
  });
}

/** `null` and a Command that answers an interrupt go on with what there is. */
export function isResume(input: unknown): boolean {
  return input === null || input === undefined || isAnswer(input);
}

function isAnswer(input: unknown): input is { resume: unknown } {
  const { lg_name: name, resume } = (input ?? {}) as { lg_name?: unknown; resume?: unknown };
  return name === "Command" && resume !== undefined && resume !== null;
}

/**
 * Whether a Command answers a question again.
 *
 * @param answered {@link LastRun.answered}
 */
export function repeats(input: unknown, answered: readonly string[]): boolean {
  if (answered.length === 0 || !isAnswer(input)) return false;
  const { resume } = input;
  const ids = typeof resume === "object" && resume !== null ? Object.keys(resume) : [];
  const isById = ids.length > 0 && ids.every((id) => /^[0-9a-f]{32}$/.test(id));
  // Nobody knows which question an answer without an id was given to.
  return !isById || answered.some((id) => ids.includes(id) || id.includes("-"));
}
