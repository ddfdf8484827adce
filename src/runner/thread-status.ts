import { inspect } from "node:util";
import type { Effect } from "../effects/types";
import type { GraphDifference } from "../guards/compare";
import type { KnownEffects } from "../rewind/undos";
import type { TurnSaver } from "../saver";
import type { LastRun, TokenCounts } from "../store/store";
import { counted, cut, errorText, listed, quoted } from "../wording";
import type { NodeOutcome, RunNodes } from "./run-nodes";

/** A question that a node asked with `interrupt()` and that nobody has answered. */
export interface WaitingInterrupt {
  /**
   * LangGraph's id of the question. Answer it with `new Command({ resume: { [id]: answer } })`. Undefined in threads of an older
   * LangGraph.
   */
  id: string | undefined;
  /** The value that the node passed to `interrupt()`. */
  value: unknown;
  /** The innermost node that asks. */
  nodeName: string;
  /** Its path in the graph: `sub|ask`. */
  path: string;
  /** Namespace of the checkpoint that the node started from; empty in the outermost graph. */
  checkpointNs: string;
  nodeTaskId: string;
  /** The user's task. */
  taskId: string | undefined;
}

/**
 * The state of a thread (S4.1), for a person or program that repairs it from outside. `String(status)`, `console.log(status)` and
 * `util.inspect` print five readable lines.
 */
export interface ThreadStatus extends Pick<RunNodes, "completed" | "failed" | "inFlight"> {
  threadId: string;
  graphId: string | undefined;
  /** The user's task that the last run belongs to. */
  taskId: string | undefined;
  /** Whether a live process is running the thread. */
  running: boolean;
  /** Whether nothing is left to do. */
  finished: boolean;
  /** Nodes that come next or wait for an answer, as LangGraph sees it. */
  next: readonly string[];
  /** The questions that wait for a person's answer. */
  waiting: readonly WaitingInterrupt[];
  /** Whether `resume` would continue where the run stopped. */
  resumable: boolean;
  /**
   * What `resume` would do now, by the runner's own options: continue where the run stopped, start it again from its input,
   * return the result of a finished run, or refuse.
   */
  onResume: "continue" | "restart" | "return" | "refuse";
  /** Why it wouldn't simply continue: a code from docs/errors.md, or `FINISHED`. */
  reason: { code: string; message: string } | undefined;
  /**
   * Why the run must not simply continue (`changes`, in words), and all differences. Undefined if the run's graph isn't known.
   */
  drift: { changes: readonly string[]; report: GraphDifference } | undefined;
  /** Effects of the last run that somebody has to settle, unless a retry or a probe settles them. */
  inDoubt: readonly Effect[];
  /** Effects of the last run whose undo failed, and that no rewind has undone since. The next rewind calls their undos again. */
  undoFailed: readonly Effect[];
  /** What the models of the last run's nodes reported. */
  tokens: TokenCounts;
  /**
   * Five lines: the thread, its progress, what it waits for or what was running, how to resume it, and its tokens and effects in
   * doubt.
   */
  toString(): string;
}

/** Who settles an effect in doubt. `maybe-probe`: its code may have a probe, which only its node knows. */
export type SettledBy = "probe" | "key" | "rewind" | "maybe-probe" | "person";

export function settledBy(
  { name, status, undo, undoStatus, idempotent }: Pick<Effect, "name" | "status" | "undo" | "undoStatus" | "idempotent">,
  known: KnownEffects,
): SettledBy {
  // A definition that needs no undo is recorded without its name.
  const definition = undo === undefined ? undefined : known(undo === false ? name : undo);
  if (undoStatus === "begun" || (undoStatus === "failed" && status !== "in-doubt")) {
    const itsUndo = definition?.undo || undefined;
    const isByItself = undoStatus === "failed" || itsUndo?.probe !== undefined || itsUndo?.idempotent === true;
    return isByItself ? "rewind" : "person";
  }
  if (definition?.find !== undefined) return "probe";
  if (idempotent) return "key";
  return definition === undefined || definition.isAmbiguous ? "maybe-probe" : "person";
}

/** The effects of a run that somebody may have to settle. @param targetSeq of an unfinished rewind: since then */
export async function unsettledOf(
  saver: TurnSaver,
  threadId: string,
  run: Pick<LastRun, "sinceSeq"> | undefined,
  targetSeq = Infinity,
): Promise<Effect[]> {
  if (run === undefined) return [];
  return (await saver.effects.list(threadId, { after: Math.max(0, Math.min(run.sinceSeq - 1, targetSeq)) })).filter(
    ({ status, undoStatus }) => status === "in-doubt" || undoStatus === "begun" || undoStatus === "failed",
  );
}

/** Whether its undo failed. Then nothing is in doubt, and it stops no resume. */
export const hasFailedUndo = ({ status, undoStatus }: Effect): boolean => status !== "in-doubt" && undoStatus === "failed";

/** What the text needs beyond the status. */
interface StatusHints {
  settledBy: (effect: Effect) => SettledBy;
  /** Whether effects of the run are done, so that a restart repeats them. */
  didEffects: boolean;
}

/** How many answers a call shows. */
const ANSWERS_MAX = 3;
/** How many characters a name, a value, a list of names, a list of what is open, and a line may have. */
const NAME_MAX = 40;
const VALUE_MAX = 100;
const LIST_MAX = 120;
const COURSE_MAX = 200;
const LINE_MAX = 300;

/** The state of a thread, in five lines. The last two have the calls to make, so they aren't cut. */
export function statusInWords(status: ThreadStatus, hints: StatusHints): string {
  const about = [first(status), nodes(status), course(status)].map((line) => cut(inOneLine(line), LINE_MAX));
  return [...about, inOneLine(wayOn(status, hints)), inOneLine(effects(status, hints))].join("\n");
}

function first(status: ThreadStatus): string {
  const { threadId, taskId, graphId } = status;
  const names = [taskId && `task ${quoted(taskId)}`, graphId !== threadId && graphId && `graph ${quoted(graphId)}`].filter(
    Boolean,
  );
  return `Thread ${quoted(threadId)}${names.length === 0 ? "" : ` (${names.join(", ")})`} ${stands(status)}.`;
}

function stands({ running, finished, waiting, failed, inFlight, reason, next }: ThreadStatus): string {
  if (running) return "is running";
  if (reason?.code === "REWIND_UNFINISHED") return "has an unfinished rewind";
  if (finished) return "is finished";
  if (reason?.code === "NOTHING_TO_RESUME")
    return inFlight.length === 0 ? "has no checkpoint" : "lost its run: nothing of it was saved";
  if (waiting.length > 0) return waiting.length === 1 ? "waits for an answer" : `waits for ${waiting.length} answers`;
  if (failed.length > 0) return `stopped: ${named(failed)} failed`;
  if (inFlight.length > 0) return `stopped while ${named(inFlight)} was running`;
  return next.length === 0 ? "stopped between two steps" : `stopped before ${list(next.map(quoted))}`;
}

function nodes({ completed, next }: ThreadStatus): string {
  const done = completed.length === 0 ? "none" : list(counted(completed.map(({ path }) => path)));
  return `Completed: ${done}.${next.length === 0 ? "" : ` Next: ${list(counted(next))}.`}`;
}

function course({ waiting, failed, inFlight, running }: ThreadStatus): string {
  const asks = waiting.map(({ path, value, id }) => `${path} asks ${shown(value)} (interrupt ${id ?? "without id"})`);
  const broken = failed.map(({ path, attempt, error }) => {
    return `${path}, attempt ${attempt}${error === undefined ? "" : `: ${errorText(error)}`}`;
  });
  const open = inFlight.map(({ path, attempt, at }) => `${path}, attempt ${attempt}, since ${at.toISOString()}`);
  const parts = Object.entries({ Waiting: asks, Failed: broken, [running ? "Running" : "In flight"]: open });
  const told = parts.filter(([, those]) => those.length > 0).map(([kind, those]) => `${kind}: ${list(those, COURSE_MAX)}`);
  return told.length === 0 ? "Waiting: nothing. In flight: nothing." : told.join(". ");
}

/** The call that continues the thread, or why none does. */
function wayOn({ threadId, onResume, waiting, reason, drift, inFlight }: ThreadStatus, { didEffects }: StatusHints): string {
  const thread = JSON.stringify(threadId);
  const resume = `await runner.resume({ threadId: ${thread}`;
  const isDrift = reason?.code === "GRAPH_CHANGED";
  if (onResume === "continue")
    return `Resume: ${resume}${waiting.length === 0 ? "" : `, command: new Command({ resume: ${answersTo(waiting, ANSWERS_MAX)} })`} })`;
  if (onResume === "restart") {
    const why = isDrift ? list(drift?.changes ?? []) : "the thread can't be read";
    return `Resume starts the run again${didEffects ? ", and its effects happen again" : ""}: ${resume} }), because ${why}`;
  }
  switch (reason?.code) {
    case "FINISHED":
    case "NOTHING_TO_RESUME":
      if (inFlight.length > 0 && reason.code === "NOTHING_TO_RESUME")
        return `Nothing to resume. Start it again with its input: ${resume}, input })`;
      return `Nothing to resume. New input: await runner.invoke(input, { threadId: ${thread} })`;
    case "THREAD_RUNNING":
      return "Not now: a live process is running the thread.";
    case "REWIND_UNFINISHED":
      return `Not yet: finish the rewind first, await runner.finishRewind({ threadId: ${thread} })`;
    default: {
      const why = isDrift ? list(drift?.changes ?? []) : cut(reason?.message.split(/\.(?= |$)/, 1)[0] ?? "", LIST_MAX);
      return `Resume is refused (${reason?.code ?? ""}): ${why}. Your choices: status.reason.message`;
    }
  }
}

/**
 * For messages: answers to these questions as they appear in the call, by the ids of the questions where all have one.
 *
 * @param most how many are listed; a call with fewer than all can't be pasted as it stands
 */
export function answersTo(questions: readonly { id: string | undefined }[], most = Infinity): string {
  const ids = questions.flatMap(({ id }) => id ?? []);
  if (ids.length === 0 || ids.length < questions.length) return "answer";
  const more = ids.length > most ? ", …" : "";
  return `{ ${ids
    .slice(0, most)
    .map((id) => `${quoted(id)}: answer`)
    .join(", ")}${more} }`;
}

function effects({ inDoubt, undoFailed, tokens }: ThreadStatus, hints: StatusHints): string {
  const used = `Tokens: ${tokens.input} in, ${tokens.output} out.`;
  const again = undoFailed.length === 0 ? "" : ` Undo failed: ${namesOf(undoFailed)}. The next rewind calls it again.`;
  if (inDoubt.length === 0) return `${used} Effects in doubt: none.${again}`;
  const settle = settling(inDoubt, hints);
  const room = Math.max(NAME_MAX, LINE_MAX - used.length - settle.length - " Effects in doubt:  and 99 more. ".length);
  return `${used} Effects in doubt: ${namesOf(inDoubt, Math.min(LIST_MAX, room))}. ${settle}${again}`;
}

const namesOf = (effects: readonly Effect[], max = LIST_MAX): string =>
  list(counted(effects.map(({ name, nodeName }) => `${quoted(name)} of ${nodeName}`)), max);

const BY_ITSELF: Readonly<Record<SettledBy, string>> = {
  probe: "The next resume or rewind asks its probe.",
  key: "Resume calls it again with the same key.",
  rewind: "A rewind settles it.",
  "maybe-probe": "",
  person: "",
};

/** The call for the first effect that a person must settle, or what happens by itself. */
function settling(inDoubt: ThreadStatus["inDoubt"], { settledBy }: StatusHints): string {
  const found = inDoubt.map((effect) => ({ effect, by: settledBy(effect) }));
  const byHand = found.find(({ by }) => by === "person") ?? found.find(({ by }) => by === "maybe-probe");
  if (byHand === undefined) return found.length === 1 ? found.map(({ by }) => BY_ITSELF[by]).join("") : "Each settles by itself.";
  const { id, name, undoStatus } = byHand.effect;
  const one = found.length === 1 ? "it" : quoted(cut(name, NAME_MAX));
  const outcome = undoStatus === undefined || undoStatus === "done" ? '{ outcome: "done", result }' : '{ undo: "done" }';
  const call = `await runner.effects.resolve(${quoted(id)}, ${outcome})`;
  return byHand.by === "person" ? `Settle ${one}: ${call}` : `Unless ${one} has a probe, settle it: ${call}`;
}

const named = (outcomes: readonly NodeOutcome[]): string => list(counted(outcomes.map(({ path }) => quoted(path))));
const list = (parts: readonly string[], max = LIST_MAX): string => listed(parts, max);

const shown = (value: unknown): string =>
  cut(inspect(value, { depth: 3, breakLength: Infinity, maxStringLength: 100 }), VALUE_MAX);

const inOneLine = (text: string): string => text.replace(/\s+/g, " ");
