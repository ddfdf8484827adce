import type { BaseTurnSaver } from "../base-saver";
import { type Effect, toPublicEffect } from "../effects/types";
import { internalsOf } from "../internals";
import { lastRunOf } from "../runner/last-run";
import { isAlive } from "../turns/process-identity";
import { movingText } from "./moving";
import { needsPerson, outcomeOf } from "./standing";
import { rescuedText, type RewindPreview, type ThreadReport } from "./status";
import { countedNodes, errorText, firstLine, inBrief, listed, nodeName, once, plural, times, turns } from "./words";

/** One of the four answers, in words. */
interface Sentence {
  /** "Finished 3 tasks, then called letter 5 times" */
  headline: string;
  /** What belongs to it; may be empty. */
  text: string;
  /** The command that acts on it; null if there is none. */
  command: string | null;
  /** `attention`: somebody should look. */
  tone: "plain" | "good" | "attention";
}

/** A {@link Sentence} with the times in it, for the reader to format. Names that look like times aren't among them. */
export interface TimedSentence extends Sentence {
  /** As they are in the texts: ISO 8601 in UTC. */
  times: readonly string[];
}

/** What did it do? What is in flight? Can I resume it? What would a rewind undo? */
export interface Answers {
  did: TimedSentence;
  inFlight: TimedSentence;
  resume: TimedSentence;
  rewind: TimedSentence;
}

/** What the sentences tell beyond the report. */
interface Facts {
  /** The effects of the newest task, oldest first. */
  effects: readonly Effect[];
  /** Whether it may have more effects. */
  isCut: boolean;
  /** Processes that stopped while they ran this thread. */
  gone: readonly { pid: number; host: string }[];
  /** The ids of the node tasks that have started and haven't finished. */
  open: ReadonlySet<string>;
}

const MOST_EFFECTS = 1_000;

/** Where a command names the graph, if nobody has: which module has it isn't recorded. */
export const NO_GRAPH = "MODULE#EXPORT";

/**
 * The four answers about a thread in sentences.
 *
 * @param graph how `--graph` is given in the commands
 * @param isLoaded whether this process has the graph, with the undos that it defines
 */
export async function answersOf(
  saver: BaseTurnSaver,
  report: ThreadReport,
  graph = NO_GRAPH,
  isLoaded = false,
): Promise<Answers> {
  const { threadId, taskId } = report;
  const { store } = internalsOf(saver);
  const task = (await store.listTasks(threadId)).find((row) => row.taskId === taskId);
  const rows = task === undefined ? [] : await store.listEffects({ threadId, afterSeq: task.seq - 1, limit: MOST_EFFECTS });
  // What a fork or an edit left behind was called on another branch. Without the run's input nobody knows where its branch begins.
  const run = await lastRunOf(saver, threadId);
  const branch = run?.inputId === undefined ? undefined : new Set(run.branch);
  const effects = rows
    .filter(({ anchor }) => branch === undefined || anchor === undefined || branch.has(anchor))
    .map((row) => toPublicEffect(row))
    .filter((effect) => effect.taskId === taskId);
  const open = new Set((await saver.turns.inFlight(threadId)).map(({ nodeTaskId }) => nodeTaskId));
  const last = report.inFlight.reduce((newest, { since }) => (since > newest ? since : newest), "");
  // A run that began later is of somebody else: a move, or a rewind.
  const gone = (await store.listRuns(threadId))
    .filter((run) => !isAlive(run) && run.startedAt <= last)
    .map(({ pid, host }) => ({ pid, host }));
  const facts = { effects, isCut: rows.length === MOST_EFFECTS, gone, open };
  const { did, runs, inFlight, rewind, moving, undoFailed } = report;
  const undos = listed(once(undoFailed.map(({ name }) => name)));
  const sentence = rewindSentence(threadId, report.rewindTo, graph, isLoaded);
  const failed = undos !== "" && `The undo of ${undos} failed: a rewind to before it calls it again.`;
  const starts = [...runs, ...inFlight, ...(moving === null ? [] : [moving])].map(({ since }) => since);
  return {
    did: { ...didSentence(report, facts), times: [...(did.last === null ? [] : [did.last]), ...did.failed].map(({ at }) => at) },
    inFlight: { ...flightSentence(report, facts), times: rewind === null ? starts : [...starts, rewind.since] },
    resume: {
      ...resumeSentence(report, graph),
      times: [...runs, ...(moving === null ? [] : [moving])].map(({ since }) => since),
    },
    rewind:
      moving === null
        ? { ...sentence, text: joined([failed, sentence.text]), times: [] }
        : { headline: "Refused now", text: movingText(moving), command: null, tone: "attention", times: [moving.since] },
  };
}

function didSentence({ state, finished: isFinished, did, taskId }: ThreadReport, { effects, isCut }: Facts): Sentence {
  const { completed, failed, last, tasks } = did;
  if (last === null && tasks === 0) return { headline: "Nothing yet", text: "", command: null, tone: "plain" };
  const isOver = isFinished || state === "empty";
  const called = times(
    effects.filter(({ status }) => status === "done").map(({ name }) => name),
    isCut,
  );
  const undone = effects.filter(({ status, undoStatus }) => status === "done" && undoStatus === "done").length;
  const since = undone === 0 ? "" : ` (${undone.toLocaleString("en-US")} of these ${undone === 1 ? "was" : "were"} undone since)`;
  const ran = times(completed.map(({ node }) => nodeName(node)));
  const now = called.length > 0 ? `called ${listed(called)}${since}` : ran.length > 0 ? `ran ${listed(ran)}` : "";
  const before = isOver ? tasks : tasks - 1;
  const finished = before > 0 ? `Finished ${before === 1 && isOver ? "its task" : plural(before, "task")}` : "";
  const then = isOver && called.length === 0 ? "" : now;
  const headline =
    finished === ""
      ? then === ""
        ? "Started, and finished no node yet"
        : capital(then)
      : then === ""
        ? finished
        : `${finished}${isOver ? (before > 1 ? "; the last one " : " and ") : ", then "}${then}`;
  // Nodes that were stopped because another one failed aren't why, and the innermost failed first.
  const own = failed.filter(({ error }) => error.name !== "AbortError");
  const [any] = failed;
  const failure = own.reduce((first, one) => (first === undefined || one.at <= first.at ? one : first), own[0] ?? any);
  const told = last?.status === "error" ? (failure ?? last) : last;
  const of = taskId === null ? "" : ` of ${taskId}`;
  const text = [
    told !== null && `Last: ${nodeName(told.node)}${of}, ${OUTCOMES[told.status] ?? told.status} ${told.at}.`,
    failure !== undefined && firstLine(`${nodeName(failure.node)} failed: ${errorText(failure.error)}`, 240),
  ];
  return { headline, text: joined(text), command: null, tone: failed.length > 0 ? "attention" : "plain" };
}

const OUTCOMES: Readonly<Record<string, string>> = {
  ok: "finished",
  handoff: "handed over",
  error: "failed",
  interrupted: "asked a question",
};

function flightSentence(report: ThreadReport, facts: Facts): Sentence {
  const { inFlight, runs, questions, inDoubt, rewind, moving } = report;
  const { gone } = facts;
  const [run] = runs;
  if (moving !== null)
    return {
      headline: `A move to ${moving.to}, since ${moving.since}`,
      text:
        run === undefined
          ? "It was begun and isn't finished. Nothing can be saved on the thread here before somebody finishes the move."
          : `Process ${run.pid} on ${run.host} is moving it.`,
      command: run === undefined ? moving.command : null,
      tone: "attention",
    };
  if (run !== undefined) {
    const names = countedNodes(inFlight.map(({ node }) => node));
    const since = inFlight[0]?.since ?? run.since;
    const headline = names.length === 0 ? `A run, since ${run.since}` : `${listed(names)}, since ${since}`;
    const text = joined([`Process ${run.pid} on ${run.host} is running it.`, effectsText(report, facts)]);
    return { headline, text, command: null, tone: inDoubt.length > 0 ? "attention" : "plain" };
  }
  if (rewind !== null && rewind.rescued !== null)
    return {
      headline: "Nothing, but a part of it is lost",
      text: `${capital(rescuedText(rewind.rescued))}. What had been done there may be done again.`,
      command: turns("rewind", [report.threadId], "--abandon"),
      tone: "attention",
    };
  if (rewind !== null)
    return {
      headline: `A rewind to ${rewind.toTask}, since ${rewind.since}`,
      text: "It was begun and isn't finished. The thread can't run before somebody finishes or abandons it.",
      command: turns("rewind", [report.threadId]),
      tone: "attention",
    };
  const [first] = inFlight;
  if (first !== undefined) {
    const [dead] = gone;
    const process = dead === undefined ? "No process runs it." : `Process ${dead.pid} on ${dead.host} is gone.`;
    const asking = once(questions.map(({ node }) => nodeName(node)));
    const asks = asking.length > 0 && `${listed(asking)} ${asking.length === 1 ? "waits" : "wait"} for an answer.`;
    const text = joined([process, effectsText(report, facts), asks]);
    const headline = `${listed(countedNodes(inFlight.map(({ node }) => node)))}, since ${first.since}`;
    return { headline, text, command: null, tone: "attention" };
  }
  const [question] = questions;
  if (question !== undefined) {
    const others = questions.length > 1 ? ` There are ${questions.length} questions.` : "";
    return {
      headline: `${nodeName(question.node)} waits for an answer`,
      text: `${inBrief(questionText(question.value))}${others}`,
      command: "turns inbox",
      tone: "attention",
    };
  }
  if (inDoubt.length > 0) return { headline: "Nothing runs", text: effectsText(report, facts), command: null, tone: "attention" };
  return { headline: "Nothing", text: "", command: null, tone: "good" };
}

/** What a question says, if it says it in one of the usual ways. */
export function questionText(value: unknown): unknown {
  const { question, message, text, description } = (value ?? {}) as Record<string, unknown>;
  return [question, message, text, description].find((one) => typeof one === "string") ?? value;
}

/** "letter: 3 recorded, 1 in doubt." of the nodes in flight. */
function effectsText({ inDoubt }: ThreadReport, { effects, isCut, open }: Facts): string {
  const own = effects.filter(({ nodeTaskId }) => open.has(nodeTaskId));
  const names = once([...own.map(({ name }) => name), ...inDoubt.map(({ name }) => name)]);
  const parts = names.map((name) => {
    const done = own.filter((effect) => effect.name === name && effect.status === "done").length;
    const running = own.filter((effect) => effect.name === name && effect.status === "running").length;
    const doubt = inDoubt.filter((effect) => effect.name === name).length;
    const counts = [
      done > 0 && `${done}${isCut ? " or more" : ""} recorded`,
      running > 0 && `${running} running`,
      doubt > 0 && `${doubt} in doubt`,
    ];
    const told = counts.filter((one) => one !== false);
    return told.length === 0 ? undefined : `${name}: ${told.join(", ")}.`;
  });
  return parts.filter((part) => part !== undefined).join(" ");
}

function resumeSentence(report: ThreadReport, graph: string): Sentence {
  const { threadId, state, resume, questions, inDoubt, rewind, inFlight, failures, moving } = report;
  const keeps = resume.kept.map((path) => nodeName(path) + (resume.runs.includes(path) ? " where it has finished" : ""));
  const kept = keeps.length === 0 ? "" : `Keeps ${listed(keeps)}.`;
  const again = resume.runs.map(nodeName);
  const before = new Set([...inFlight, ...failures].map(({ node }) => node));
  const hadStarted = resume.runs.every((node) => before.has(node));
  const start = (...flags: string[]): string => turns("resume", [threadId], ["--graph", graph], ...flags);
  switch (resume.can) {
    case "no":
      return {
        headline: state === "running" ? "No, it's running" : "There is nothing to resume",
        text: `${capital(resume.why)}.`,
        command: null,
        tone: "plain",
      };
    case "yes":
      return {
        headline: again.length === 0 ? "Yes" : `Yes. It runs ${listed(again)}${hadStarted ? " again" : ""}`,
        text: joined([`${capital(resume.why)}.`, kept]),
        command: start("--yes"),
        tone: "good",
      };
    case "person": {
      if (moving !== null)
        return {
          headline: "Not before somebody finishes the move",
          text: joined([`${capital(resume.why)}.`, "Then you resume it there."]),
          command: moving.command,
          tone: "attention",
        };
      const [question] = questions;
      const doubt = inDoubt.find(needsPerson);
      // Without its definition only the plan of a resume tells whether a probe settles it.
      const unknown = inDoubt.find(({ settler }) => settler === "maybe-probe");
      if (rewind === null && doubt === undefined && unknown !== undefined)
        return {
          headline: `Yes, if a probe settles ${unknown.name}`,
          text: joined([`${capital(resume.why)}.`, kept]),
          command: start(),
          tone: "attention",
        };
      const command =
        rewind !== null
          ? rewind.rescued === null
            ? turns("rewind", [threadId], ["--graph", graph], "--yes")
            : turns("rewind", [threadId], "--abandon")
          : doubt !== undefined
            ? turns("effect resolve", [doubt.id, outcomeOf(doubt)])
            : question !== undefined
              ? turns(
                  "inbox answer",
                  [questions.length > 1 ? (question.id ?? threadId) : threadId],
                  ["--value", "JSON"],
                  ["--graph", graph],
                  "--yes",
                )
              : null;
      const what =
        rewind !== null
          ? rewind.rescued === null
            ? "finishes the rewind"
            : "accepts that a part of it is lost"
          : doubt !== undefined
            ? `settles ${doubt.name}`
            : "answers";
      return {
        headline: `Not before somebody ${what}`,
        text: joined([`${capital(resume.why)}.`, kept, again.length > 0 && `Then it runs ${listed(again)}.`]),
        command,
        tone: "attention",
      };
    }
  }
}

/**
 * @param preview null if there is no earlier task
 * @param graph how `--graph` is given: undos need it
 * @param isLoaded whether it is: then an undo that this process doesn't know is in no graph
 */
export function rewindSentence(
  threadId: string,
  preview: Omit<RewindPreview, "refusedCode"> | null,
  graph = NO_GRAPH,
  isLoaded = false,
): Sentence {
  if (preview === null) return { headline: "There is no earlier task", text: "", command: null, tone: "plain" };
  const { toTask, tasks, removed, effects, refused } = preview;
  if (refused !== null) return { headline: `To ${toTask}: refused now`, text: refused, command: null, tone: "attention" };
  const left = ["missing", "ambiguous", ...(isLoaded ? ["unregistered"] : [])];
  const doubt = effects.filter(
    ({ verdict, status }) =>
      verdict.endsWith("in-doubt") || (status === "in-doubt" && [...left, "unregistered"].includes(verdict)),
  );
  const known = effects.filter((effect) => !doubt.includes(effect));
  const undone = known.filter(({ verdict }) => verdict === "undo" || (verdict === "unregistered" && !isLoaded));
  const without = known.filter(({ verdict }) => left.includes(verdict));
  const command = turns("rewind", [threadId], ["--to", toTask], undone.length > 0 && ["--graph", graph]);
  const headline = `To ${toTask}: ${undone.length === 0 ? "undoes no effect" : `undoes ${listed(times(undone.map(({ name }) => name)))}`}`;
  const what = tasks.length === 1 ? `task ${tasks[0] ?? ""}` : `${plural(tasks.length, "task")} (${listed(tasks, 12)})`;
  const counts = removed && [
    ...[plural(removed.turns, "turn"), plural(removed.checkpoints, "checkpoint")],
    ...(removed.effects > 0 ? [plural(removed.effects, "effect")] : []),
  ];
  const text = [
    counts !== null &&
      tasks.length > 0 &&
      `Deletes ${what}: ${counts.join(", ")}. Can be taken back${undone.length > 0 ? "; what was undone stays undone" : ""}.`,
    without.length > 0 && `Without an undo: ${listed(once(without.map(({ name }) => name)))}.`,
    doubt.length > 0 && `In doubt: ${listed(once(doubt.map(({ name }) => name)))}. It may have to be settled first.`,
  ];
  return { headline, text: joined(text), command, tone: without.length + doubt.length > 0 ? "attention" : "plain" };
}

function joined(parts: readonly (string | false)[]): string {
  return parts.filter((part) => part !== false && part !== "").join(" ");
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
