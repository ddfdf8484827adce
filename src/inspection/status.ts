import type { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import { internalsOf } from "../internals";
import type { EffectSummary } from "../rewind/plan";
import { lastRunOf } from "../runner/last-run";
import { runNodesOf, type NodeOutcome } from "../runner/run-nodes";
import type { RewindCounts } from "../store/store";
import { everywhere, standingOf, type NodeFailure, type Standing } from "./standing";

/** A node of the last run that finished. */
export interface NodeDone {
  node: string;
  status: string;
  at: string;
  attempt: number;
}

/** What a resume would do, as far as it's known without the graph. */
export interface ResumeVerdict {
  /** `yes`; `person`: somebody must decide something first; `no`: there is nothing to resume, or not now. */
  can: "yes" | "person" | "no";
  /** Why, in words. */
  why: string;
  /** Nodes whose results are kept. */
  kept: readonly string[];
  /** Nodes that run again, or for the first time. */
  runs: readonly string[];
}

/** What a rewind to the task before the newest one would do. */
export interface RewindPreview {
  toTask: string;
  tasks: readonly string[];
  removed: RewindCounts | null;
  /** Newest first: the order in which they are undone. */
  effects: readonly Pick<EffectSummary, "id" | "name" | "label" | "nodeName" | "verdict">[];
  /** Why it would be refused now; null if it wouldn't. */
  refused: string | null;
}

/** The four answers about a thread: what did it do, what is in flight, can I resume, what would a rewind undo. */
export interface ThreadReport extends Standing {
  graphId: string | null;
  taskId: string | null;
  /** Whether a person has to decide something. */
  needsPerson: boolean;
  did: { tasks: number; completed: readonly NodeDone[]; failed: readonly (NodeDone & NodeFailure)[]; last: NodeDone | null };
  resume: ResumeVerdict;
  /** Null if there is no earlier task. */
  rewindTo: RewindPreview | null;
  tokens: { input: number; output: number; cached: number; reasoning: number };
}

/** @throws {TurnsError} THREAD_NOT_FOUND */
export async function reportOf(saver: BaseTurnSaver, threadId: string): Promise<ThreadReport> {
  await known(saver, threadId);
  const standing = await standingOf(saver, threadId, await everywhere(saver));
  const run = await lastRunOf(saver, threadId);
  const nodes = await runNodesOf(saver, threadId, run);
  const completed = nodes.completed.map(doneOf);
  const failed = nodes.failed.map((outcome) => ({ ...doneOf(outcome), error: outcome.error ?? { name: "Error", message: "" } }));
  const all = [...nodes.completed, ...nodes.failed, ...nodes.waiting].map(doneOf);
  const last = all.reduce<NodeDone | null>((newest, node) => (newest === null || node.at >= newest.at ? node : newest), null);
  const resume = verdictOf(standing, completed);
  const tasks = (await saver.turns.tasks(threadId)).map(({ taskId }) => taskId);
  return {
    ...standing,
    graphId: run?.graphId ?? null,
    taskId: run?.taskId ?? null,
    needsPerson: resume.can === "person",
    did: { tasks: tasks.length, completed, failed, last },
    resume,
    rewindTo: await previewOf(saver, threadId, tasks.at(-2)),
    tokens: nodes.tokens,
  };
}

/** @throws {TurnsError} THREAD_NOT_FOUND */
async function known(saver: BaseTurnSaver, threadId: string): Promise<void> {
  const { store } = internalsOf(saver);
  if ((await store.getThread(threadId)) !== undefined) return;
  throw new TurnsError("THREAD_NOT_FOUND", {
    problem: `There is no thread ${JSON.stringify(threadId)} in ${store.name}.`,
    remedy: "turns threads lists all threads.",
    data: { threadId },
  });
}

function doneOf({ path, status, at, attempt }: NodeOutcome): NodeDone {
  return { node: path, status: status ?? "running", at: at.toISOString(), attempt };
}

function verdictOf(standing: Standing, completed: readonly NodeDone[]): ResumeVerdict {
  const { state, inFlight, failures, questions, inDoubt, next, runs, rewind } = standing;
  const kept = [...new Set(completed.map(({ node }) => node))];
  const again = [...new Set([...inFlight.map(({ node }) => node), ...failures.map(({ node }) => node), ...next])];
  const verdict = (can: ResumeVerdict["can"], why: string): ResumeVerdict => {
    return { can, why, kept: can === "no" ? [] : kept, runs: can === "no" ? [] : again };
  };
  switch (state) {
    case "running":
      return verdict("no", `process ${runs[0]?.pid} on ${runs[0]?.host} is running it since ${runs[0]?.since}`);
    case "empty":
      return verdict("no", "it has no checkpoint");
    case "finished":
      return verdict("no", "nothing is left to do");
    case "rewinding":
      return verdict(
        "person",
        `a rewind to task ${JSON.stringify(rewind?.toTask)} was begun and isn't finished: finish or abandon it`,
      );
    case "in-doubt": {
      const byHand = inDoubt.filter(({ idempotent, doubt }) => !idempotent || doubt === "undo");
      const names = [...new Set((byHand.length === 0 ? inDoubt : byHand).map(({ name }) => JSON.stringify(name)))].join(", ");
      if (byHand.length === 0) return verdict("yes", `effect ${names} is called again with the same key`);
      return verdict("person", `nobody knows whether effect ${names} happened; unless its probe tells, settle it`);
    }
    case "waiting":
      return verdict("person", questions.length === 1 ? "it waits for an answer" : `it waits for ${questions.length} answers`);
    case "failed":
      return verdict("yes", `${again.join(", ")} failed and runs again`);
    case "interrupted":
      return verdict("yes", `it stopped while ${inFlight.map(({ node }) => node).join(", ")} was running`);
    case "unfinished":
      return verdict("yes", "it stopped between two steps");
  }
}

/** @param toTask undefined if there is no earlier task */
async function previewOf(saver: BaseTurnSaver, threadId: string, toTask: string | undefined): Promise<RewindPreview | null> {
  if (toTask === undefined) return null;
  return previewRewind(saver, threadId, toTask);
}

/** What a rewind to a task would do, without any definition of an effect: an undo is known by its name alone. */
export async function previewRewind(saver: BaseTurnSaver, threadId: string, toTask: string): Promise<RewindPreview> {
  const none = { toTask, tasks: [], removed: null, effects: [], refused: null };
  try {
    const { effects } = await saver.rewinds.compensationReport({ threadId, toTask });
    const told = effects.map(({ id, name, label, nodeName, verdict }) => ({ id, name, label, nodeName, verdict }));
    const rest = { ...none, effects: told };
    try {
      const { tasks, removed } = await saver.rewind({ threadId, toTask, dryRun: true, allowUncompensated: true });
      return { ...rest, tasks, removed };
    } catch (error) {
      if (!TurnsError.is(error)) throw error;
      return { ...rest, refused: error.message };
    }
  } catch (error) {
    if (!TurnsError.is(error)) throw error;
    return { ...none, refused: error.message };
  }
}
