import type { EffectEvent, RewindReport, Turn } from "langgraph-checkpoint-turns";

const coloured = process.stdout.isTTY === true && (process.env["NO_COLOR"] ?? "") === "";
const paint =
  (code: number) =>
  (text: string): string =>
    coloured ? `\u001b[${code}m${text}\u001b[0m` : text;
export const bold = paint(1);
const dim = paint(2);
export const red = paint(31);
const green = paint(32);
const yellow = paint(33);

const WIDTH = 88;
let broken = 0;

export function say(text = ""): void {
  console.log(text);
}

export function heading(text: string): void {
  say(`\n${bold(`── ${text} ${"─".repeat(Math.max(0, WIDTH - text.length - 4))}`)}`);
}

export function explain(...lines: string[]): void {
  for (const line of lines) say(dim(line));
}

export function taskBegins(taskId: string): void {
  say(bold(`  task ${taskId}`));
}

export function killed(pid: number | undefined): void {
  say(red(`    ✗ kill -9 ${pid}: the letter to 2-olsen is out, and the node that posts it hasn't returned`));
}

export function turnRow({ turnType, nodeName, attempt, tokens }: Turn, note: string): void {
  const again = attempt > 1 ? ` (attempt ${attempt})` : "";
  const used =
    turnType === "Action" && tokens.input + tokens.output > 0 ? `; ${tokens.input} tokens in, ${tokens.output} out` : "";
  const line = `    ${turnType.padEnd(8)} ${`${nodeName}${again}`.padEnd(17)} ${note}${used}`.trimEnd();
  say(turnType === "Thought" ? dim(line) : line);
}

const FATES: Partial<Record<EffectEvent["what"], string>> = {
  done: "done, and its receipt is recorded",
  "in-doubt": "began before the crash, and nobody knows whether it went out",
  undone: "undone",
};

/** The intent isn't shown: usually the next line shows the outcome. */
export function effectLine({ what, effect }: EffectEvent): void {
  const fate = what === "done" && effect.settledBy === "probe" ? "is out, says the probe: not sent again" : FATES[what];
  if (fate !== undefined) say(yellow(`    effect   ${effect.name} ${effect.taskId}: ${fate}`));
}

export function rewindReport({ dryRun, tasks, removed, effects }: RewindReport): void {
  const rows = `${removed.turns} turns, ${removed.checkpoints} checkpoints, ${removed.writes} writes`;
  say(`  ${dryRun ? "dry run: would delete" : "deleted:"} tasks ${tasks.join(" and ")} (${rows})`);
  say(`  ${dryRun ? "would undo" : "undone:"} ${effects.undone.length} effects, newest first`);
}

/** Prints whether a promise was kept; {@link brokenPromises} counts those that weren't. */
export function check(kept: boolean, text: string): void {
  if (!kept) broken += 1;
  say(`  ${kept ? green("ok    ") : red("BROKEN")}  ${text}`);
}

export function brokenPromises(): number {
  return broken;
}
