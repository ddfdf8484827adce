import { listed, printing, quoted } from "../wording";
import type { EffectSummary, RewindReport } from "./plan";

/** How many names a list has, and how many characters. */
const NAMED_MAX = 10;
const LIST_MAX = 300;

/** Makes `String(report)` a few lines that a person reads. */
export function printingInWords(report: RewindReport): RewindReport {
  return printing(report, () => inWords(report));
}

function inWords(report: RewindReport): string {
  const { threadId, toTask, dryRun, rewindId, effects } = report;
  const [thread, task] = [quoted(threadId), `the end of task ${quoted(toTask)}`];
  if (!dryRun && rewindId === undefined) return `Thread ${thread} is at ${task} already. Nothing was deleted or undone.`;
  const lines = dryRun
    ? [`Dry run of a rewind: thread ${thread} to ${task}. Nothing was changed.`, `Would delete: ${removed(report)}.`]
    : [`Rewound thread ${thread} to ${task}.`, `Deleted: ${removed(report)}.`];
  lines.push(`${dryRun ? "Would undo" : "Undone"}${inOrder(effects.undone)}.`);
  if (effects.undoneBefore.length > 0) lines.push(`Undone before${inOrder(effects.undoneBefore)}.`);
  if (effects.withoutUndo.length > 0) lines.push(`Not undone, because of allowUncompensated: ${named(effects.withoutUndo)}.`);
  if (rewindId !== undefined) lines.push(takingBack(report, rewindId));
  return lines.join("\n");
}

function removed({ tasks, removed: { tasks: _, ...rows } }: RewindReport): string {
  const counts = Object.entries(rows).flatMap(([kind, count]) => {
    return count === 0 ? [] : [`${count} ${count === 1 ? kind.slice(0, -1) : kind}`];
  });
  const ofTasks = `${tasks.length === 1 ? "task" : "tasks"} ${listed(tasks.map(quoted), LIST_MAX, NAMED_MAX)}`;
  return [...(tasks.length === 0 ? [] : [ofTasks]), ...(counts.length === 0 ? [] : [counts.join(", ")])].join("; ") || "nothing";
}

function inOrder(effects: readonly EffectSummary[]): string {
  return effects.length === 0 ? ": nothing" : `${effects.length === 1 ? "" : ", in this order"}: ${named(effects)}`;
}

function named(effects: readonly EffectSummary[]): string {
  const names = effects.map(({ name, nodeName }) => `${quoted(name)} of ${nodeName}`);
  return listed(names, LIST_MAX, NAMED_MAX);
}

function takingBack({ archived, effects }: RewindReport, rewindId: string): string {
  if (!archived) return "It can't be taken back, because archive is false.";
  const undid = effects.undone.length + effects.undoneBefore.length > 0;
  return `To take it back: await saver.rewinds.takeBack(${quoted(rewindId)}${undid ? ", { despiteUndone: true }" : ""})`;
}
