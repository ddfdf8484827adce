import { inspect } from "node:util";
import type { NodeOutcome } from "./run-nodes";
import type { ThreadStatus } from "./status";

/** How many of a kind are named, and how long a line may be. */
const NAMED_MAX = 5;
const LINE_MAX = 600;

/** How a thread stands, in five lines. */
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
  if (waiting.length > 0)
    return `Waiting: ${list(waiting.map(({ path, value, id }) => `${path} asks ${shown(value)} (interrupt ${id ?? "without id"})`))}`;
  if (failed.length > 0)
    return `Failed: ${list(failed.map(({ path, attempt, error }) => `${path}, attempt ${attempt}${error === undefined ? "" : `: ${error.name}: ${error.message}`}`))}`;
  if (inFlight.length > 0)
    return `${running ? "Running" : "In flight"}: ${list(inFlight.map(({ path, attempt, at }) => `${path}, attempt ${attempt}, since ${at.toISOString()}`))}`;
  return "Waiting: nothing. In flight: nothing.";
}

/** The call that gets the thread on. */
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

/** As they stand in the call. */
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
  return `${used} Effects in doubt: ${names}. Settle: await runner.effects.resolve(${quoted(one.id)}, { outcome: "done", result })`;
}

const named = (outcomes: readonly NodeOutcome[]): string => list(counted(outcomes.map(({ path }) => quoted(path))));
const quoted = (text: string): string => JSON.stringify(text);

/** What several have in common is said once: `w (3)`. */
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
