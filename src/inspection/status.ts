import { refusalOf } from "./refusal";
import type { BaseTurnSaver } from "../base-saver";
import { TurnsError } from "../errors";
import { internalsOf } from "../internals";
import { type CompensationReport, type EffectSummary, planRewind, type RewindReport, type RewindRequest } from "../rewind/plan";
import { lastRunOf } from "../runner/last-run";
import { runNodesOf, type NodeOutcome } from "../runner/run-nodes";
import type { RewindCounts } from "../store/store";
import { type Moving, movingOf, movingText } from "./moving";
import { countedNodes, listed, nodeName, once } from "./words";
import { everywhere, needsPerson, standingOf, type EffectInDoubt, type NodeFailure, type Standing } from "./standing";

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
  /** Null if that isn't known; then the effects aren't known either. */
  removed: RewindCounts | null;
  /** Newest first: the order in which they are undone. */
  effects: readonly Pick<EffectSummary, "id" | "name" | "label" | "nodeName" | "status" | "verdict">[];
  /** Why it would be refused now; null if it wouldn't. */
  refused: string | null;
  refusedCode: string | null;
}

/** The four answers about a thread: what did it do, what is in flight, can I resume, what would a rewind undo. */
export interface ThreadReport extends Standing {
  graphId: string | null;
  taskId: string | null;
  /** The unfinished move to another database; null if there is none. */
  moving: Moving | null;
  /** Whether a person has to decide something. */
  needsPerson: boolean;
  did: { tasks: number; completed: readonly NodeDone[]; failed: readonly (NodeDone & NodeFailure)[]; last: NodeDone | null };
  resume: ResumeVerdict;
  /** Null if there is no earlier task. */
  rewindTo: RewindPreview | null;
  /** Of all its tasks. */
  tokens: { input: number; output: number; cached: number; reasoning: number };
}

type Verdict = RewindPreview["effects"][number]["verdict"];

const VERDICTS: Readonly<Record<Verdict, string>> = {
  undo: "its undo is called",
  unregistered: "its undo, if it has one, needs --graph",
  "done-already": "undone before",
  "none-needed": "needs no undo",
  failed: "didn't happen",
  inherited: "belongs to the thread that this one was copied from",
  missing: "has no undo",
  ambiguous: "its undo is defined more than once here",
  "in-doubt": "nobody knows whether it happened",
  "undo-in-doubt": "nobody knows whether its undo happened",
  running: "is running now",
};

/** What a rewind does about an effect. @param isLoaded whether this process has the graph, with the undos that it defines */
export function verdictWords(verdict: Verdict, isLoaded = false): string {
  return verdict === "unregistered" && isLoaded ? "its undo isn't defined in the graph's program" : VERDICTS[verdict];
}

/** @throws {TurnsError} THREAD_NOT_FOUND */
export async function reportOf(
  saver: BaseTurnSaver,
  threadId: string,
  rewinder: Rewinder = rewinderWithoutGraph(saver),
): Promise<ThreadReport> {
  await knownThread(saver, threadId);
  const standing = await standingOf(saver, threadId, await everywhere(saver));
  const run = await lastRunOf(saver, threadId);
  const nodes = await runNodesOf(saver, threadId, run);
  const completed = nodes.completed.map(doneOf);
  const failed = nodes.failed.map((outcome) => ({ ...doneOf(outcome), error: outcome.error ?? { name: "Error", message: "" } }));
  // The nodes around one that asks wait, too.
  const asking = nodes.waiting.filter(({ path }) => !nodes.waiting.some((inner) => inner.path.startsWith(`${path}|`)));
  const all = [...nodes.completed, ...nodes.failed, ...asking].map(doneOf);
  const last = all.reduce<NodeDone | null>((newest, node) => (newest === null || node.at >= newest.at ? node : newest), null);
  const moving = await movingOf(saver, threadId);
  const resume = verdictOf(standing, completed, moving);
  const { input, output, cached, reasoning } = (await saver.turns.tokenUsage(threadId)).total;
  const tasks = (await saver.turns.tasks(threadId)).map(({ taskId }) => taskId);
  return {
    ...standing,
    graphId: run?.graphId ?? null,
    taskId: run?.taskId ?? null,
    moving,
    needsPerson: resume.can === "person" || standing.lost,
    did: { tasks: tasks.length, completed, failed, last },
    resume,
    rewindTo: await previewOf(rewinder, threadId, tasks.at(-2)),
    tokens: { input, output, cached, reasoning },
  };
}

/** @throws {TurnsError} THREAD_NOT_FOUND */
export async function knownThread(saver: BaseTurnSaver, threadId: string): Promise<void> {
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

function verdictOf(standing: Standing, completed: readonly NodeDone[], moving: Moving | null): ResumeVerdict {
  const { state, inFlight, failures, questions, inDoubt, next, runs, rewind, lost, finished } = standing;
  const kept = finished ? [] : [...new Set(completed.map(({ node }) => node))];
  const again = [...new Set([...inFlight.map(({ node }) => node), ...failures.map(({ node }) => node), ...next])];
  const failedIn = listed(once(failures.map(({ node }) => nodeName(node))), Infinity);
  const verdict = (can: ResumeVerdict["can"], why: string): ResumeVerdict => {
    return { can, why, kept: can === "no" ? [] : kept, runs: can === "no" ? [] : again };
  };
  if (moving !== null && state !== "running")
    return verdict(
      "person",
      movingText(moving).replace(/^The thread|\.$/g, (part) => (part === "." ? "" : "it")),
    );
  if (lost && state !== "rewinding")
    return verdict(
      "no",
      'its last run stopped, and with durability "exit" nothing of it was saved: start it again with its input',
    );
  switch (state) {
    case "running":
      return verdict("no", `process ${runs[0]?.pid} on ${runs[0]?.host} is running it since ${runs[0]?.since}`);
    case "empty":
      return verdict("no", "it has no checkpoint");
    case "finished":
      return verdict("no", "nothing is left to do");
    case "rewinding": {
      const undos = inDoubt.filter(({ doubt }) => doubt === "undo");
      const what = undos.length === 0 ? ": finish or abandon it" : `, and ${undoInDoubt(undos)}`;
      return verdict(
        "person",
        rewind === null || rewind.rescued === null
          ? `a rewind to task ${JSON.stringify(rewind?.toTask)} was begun and isn't finished${what}`
          : `${rescuedText(rewind.rescued)}: somebody has to accept that`,
      );
    }
    case "in-doubt": {
      const byHand = inDoubt.filter(needsPerson);
      if (byHand.length > 0)
        return verdict(
          "person",
          byHand.every(({ doubt }) => doubt === "undo")
            ? `${undoInDoubt(byHand)}: settle it`
            : `nobody knows whether effect ${namesOf(byHand)} happened, and it has no probe: settle it`,
        );
      const unknown = inDoubt.filter(({ settler }) => settler === "maybe-probe");
      if (unknown.length > 0)
        return verdict(
          "person",
          `nobody knows whether effect ${namesOf(unknown)} happened; a resume asks its probe, and without one you settle it`,
        );
      const probed = inDoubt.filter(({ settler }) => settler === "probe");
      return verdict(
        "yes",
        probed.length > 0
          ? `the probe of effect ${namesOf(probed)} is asked whether it happened`
          : `effect ${namesOf(inDoubt)} is called again with the same key`,
      );
    }
    case "waiting": {
      const waits = questions.length === 1 ? "it waits for an answer" : `it waits for ${questions.length} answers`;
      return verdict("person", failures.length === 0 ? waits : `${waits}, and ${failedIn} failed`);
    }
    case "failed":
      return verdict("yes", `it failed in ${failedIn}`);
    case "interrupted":
      return verdict(
        "yes",
        `it stopped while ${listed(countedNodes(inFlight.map(({ node }) => node)))} ${inFlight.length === 1 ? "was" : "were"} running`,
      );
    case "unfinished":
      return verdict("yes", "it stopped between two steps");
  }
}

/** What a salvage left out. */
export const rescuedText = (lost: string): string => `it was rescued from a damaged file, where ${lost}`;

function undoInDoubt(effects: readonly EffectInDoubt[]): string {
  return `nobody knows whether the undo of effect ${namesOf(effects)} ran`;
}

function namesOf(effects: readonly EffectInDoubt[]): string {
  return [...new Set(effects.map(({ name }) => JSON.stringify(name)))].join(", ");
}

/** @param toTask undefined if there is no earlier task */
async function previewOf(rewinder: Rewinder, threadId: string, toTask: string | undefined): Promise<RewindPreview | null> {
  if (toTask === undefined) return null;
  return despiteUnknown(await previewRewind(rewinder, { threadId, toTask, allowUncompensated: true }));
}

/** A preview by a process that doesn't know the undos. One of them may settle the doubt itself. */
export function despiteUnknown(preview: RewindPreview): RewindPreview {
  const isUnknown =
    preview.refusedCode === "EFFECT_IN_DOUBT" && !preview.effects.some(({ verdict }) => verdict.endsWith("in-doubt"));
  return isUnknown ? { ...preview, refused: null, refusedCode: null } : preview;
}

/** Who rewinds: a saver, which knows the undos of defined effects, or a runner, which may have others. */
export interface Rewinder {
  readonly saver: BaseTurnSaver;
  compensationReport: (request: Pick<RewindRequest, "threadId" | "toTask">) => Promise<CompensationReport>;
  rewind: (request: RewindRequest) => Promise<RewindReport>;
}

/** The undos that this process has loaded. */
export function rewinderWithoutGraph(saver: BaseTurnSaver): Rewinder {
  return {
    saver,
    compensationReport: (request) => saver.rewinds.compensationReport(request),
    rewind: (request) => saver.rewind(request),
  };
}

/** What a rewind to a task would do. Also a refused one says what goes and what is undone, as far as that is known. */
export async function previewRewind(
  rewinder: Rewinder,
  { threadId, toTask, allowUncompensated = false }: RewindRequest,
): Promise<RewindPreview> {
  const none = { toTask, tasks: [], removed: null, effects: [], refused: null, refusedCode: null };
  const refusal = (error: unknown): Pick<RewindPreview, "refused" | "refusedCode"> => {
    const { message: refused, code: refusedCode } = refusalOf(error);
    return { refused, refusedCode };
  };
  try {
    const { effects } = await rewinder.compensationReport({ threadId, toTask });
    const told = effects.map(({ id, name, label, nodeName, status, verdict }) => ({
      id,
      name,
      label,
      nodeName,
      status,
      verdict,
    }));
    const { store } = internalsOf(rewinder.saver);
    const { tasks, targetSeq } = planRewind({ threadId, toTask }, await store.listTasks(threadId));
    const removed = await store.countBehind(threadId, Math.min(targetSeq, Number.MAX_SAFE_INTEGER));
    const rest = { ...none, tasks, removed, effects: told };
    try {
      await rewinder.rewind({ threadId, toTask, dryRun: true, allowUncompensated });
      return rest;
    } catch (error) {
      return { ...rest, ...refusal(error) };
    }
  } catch (error) {
    return { ...none, ...refusal(error) };
  }
}
