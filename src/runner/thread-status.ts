import { inspect } from "node:util";
import type { Effect } from "../effects/types";
import type { GraphDifference } from "../guards/compare";
import type { TokenCounts } from "../store/store";
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
  /** Why not: a code from docs/errors.md, or `FINISHED`. */
  reason: { code: string; message: string } | undefined;
  /**
   * Why the run must not simply continue (`changes`, in words), and all differences. Undefined if the run's graph isn't known.
   */
  drift: { changes: readonly string[]; report: GraphDifference } | undefined;
  /** Effects of the last run that somebody has to settle, unless a retry or a probe settles them. */
  inDoubt: readonly Effect[];
  /** What the models of the last run's nodes reported. */
  tokens: TokenCounts;
  /**
   * Five lines: the thread, its progress, what it waits for or what was running, how to resume it, and its tokens and effects in
   * doubt.
   */
  toString(): string;
}

/** How many names of a kind are listed, and how long a line may be. */
const NAMED_MAX = 5;
const LINE_MAX = 600;

/** The state of a thread, in five lines. */
export function statusInWords(status: ThreadStatus): string {
  return [first(status), nodes(status), course(status), wayOn(status), effects(status)].map(oneLine).join("\n");
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
  if (finished) return "is finished";
  if (reason?.code === "NOTHING_TO_RESUME") return "has no checkpoint";
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
    return `${path}, attempt ${attempt}${error === undefined ? "" : `: ${error.name}: ${error.message}`}`;
  });
  const open = inFlight.map(({ path, attempt, at }) => `${path}, attempt ${attempt}, since ${at.toISOString()}`);
  const parts = Object.entries({ Waiting: asks, Failed: broken, [running ? "Running" : "In flight"]: open });
  const told = parts.filter(([, those]) => those.length > 0).map(([kind, those]) => `${kind}: ${list(those)}`);
  return told.length === 0 ? "Waiting: nothing. In flight: nothing." : told.join(". ");
}

/** The call that continues the thread. */
function wayOn({ threadId, resumable, waiting, reason }: ThreadStatus): string {
  const thread = JSON.stringify(threadId);
  if (resumable)
    return `Resume: await runner.resume({ threadId: ${thread}${waiting.length === 0 ? "" : `, command: new Command({ resume: ${answers(waiting)} })`} })`;
  switch (reason?.code) {
    case "FINISHED":
    case "NOTHING_TO_RESUME":
      return `Nothing to resume. New input: await runner.invoke(input, { threadId: ${thread} })`;
    case "THREAD_RUNNING":
      return "Not now: a live process is running the thread.";
    case "REWIND_UNFINISHED":
      return `Not yet: finish the rewind first, await runner.finishRewind({ threadId: ${thread} })`;
    default:
      return `Not resumable: ${reason?.code ?? ""}. ${reason?.message ?? ""}`;
  }
}

/** The answers as they appear in the call. */
function answers(waiting: ThreadStatus["waiting"]): string {
  const ids = waiting.flatMap(({ id }) => id ?? []);
  if (ids.length < waiting.length) return "answer";
  const more = ids.length > NAMED_MAX ? ", …" : "";
  return `{ ${ids
    .slice(0, NAMED_MAX)
    .map((id) => `${quoted(id)}: answer`)
    .join(", ")}${more} }`;
}

function effects({ inDoubt, tokens }: ThreadStatus): string {
  const used = `Tokens: ${tokens.input} in, ${tokens.output} out.`;
  const [one] = inDoubt;
  if (one === undefined) return `${used} Effects in doubt: none.`;
  const names = list(counted(inDoubt.map(({ name, nodeName }) => `${quoted(name)} of ${nodeName}`)));
  const outcome = one.undoStatus === undefined || one.undoStatus === "done" ? '{ outcome: "done", result }' : '{ undo: "done" }';
  return `${used} Effects in doubt: ${names}. Settle: await runner.effects.resolve(${quoted(one.id)}, ${outcome})`;
}

const named = (outcomes: readonly NodeOutcome[]): string => list(counted(outcomes.map(({ path }) => quoted(path))));
const quoted = (text: string): string => JSON.stringify(text);

/** Repeated names become one with a count: `w (3)`. */
function counted(names: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${name} (${count})`));
}

function list(parts: readonly string[]): string {
  const more = parts.length - NAMED_MAX;
  return parts.slice(0, NAMED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function shown(value: unknown): string {
  const text = inspect(value, { depth: 3, breakLength: Infinity, maxStringLength: 100 });
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > LINE_MAX ? `${line.slice(0, LINE_MAX - 1)}…` : line;
}
