import type { EffectEvent, RewindReport, TokenUsage, Turn } from "langgraph-checkpoint-turns";

const coloured = process.stdout.isTTY === true && (process.env["NO_COLOR"] ?? "") === "";
const paint =
  (code: number) =>
  (text: string): string =>
    coloured ? `\u001b[${code}m${text}\u001b[0m` : text;
const bold = paint(1);
const dim = paint(2);
const red = paint(31);
const green = paint(32);

const WIDTH = 96;

export function say(text = ""): void {
  console.log(text);
}

export function heading(text: string): void {
  say();
  say(bold(`── ${text} ${"─".repeat(Math.max(0, WIDTH - text.length - 4))}`));
}

/** A paragraph of explanation. */
export function explain(...lines: string[]): void {
  for (const line of lines) say(dim(line));
}

export function taskBegins(taskId: string): void {
  say();
  say(bold(`task ${taskId}`));
  say(dim(row("seq", "turn", "node", "attempt", "status", "what came of it")));
}

export function turnRow(turn: Turn, note: string): void {
  const { input, output } = turn.tokens;
  const tokens = turn.turnType === "Action" && input + output > 0 ? `; ${input} tokens in, ${output} out` : "";
  const status = turn.turnType === "Thought" ? "begins" : (turn.status ?? "");
  const line = row(String(turn.seq), turn.turnType, turn.nodeName, String(turn.attempt), status, note + tokens);
  say(turn.turnType === "Thought" ? dim(line) : line);
}

function row(seq: string, turn: string, node: string, attempt: string, status: string, note: string): string {
  return `  ${seq.padStart(4)}  ${turn.padEnd(8)} ${node.padEnd(8)} ${attempt.padStart(7)}  ${status.padEnd(11)} ${note}`.trimEnd();
}

export function event(text: string): void {
  say(`  ${bold(">>")} ${text}`);
}

const FATES: Partial<Record<EffectEvent["what"], string>> = {
  done: "sent, and its receipt is recorded",
  replayed: "has a receipt from before the crash: not sent again",
  "in-doubt": "was begun before the crash, and nobody knows whether it went out",
  undone: "retracted by its undo",
};

/** Its intent is not told: mostly the next line says how it ended. */
export function effectLine({ what, effect }: EffectEvent): void {
  const fate = what === "done" && effect.settledBy === "probe" ? "is out, says the probe: not sent again" : FATES[what];
  if (fate !== undefined) say(`        ${bold("letter")}   ${effect.label.slice("id:".length)}: ${fate}`);
}

export function rewindReport({ dryRun, tasks, removed, effects }: RewindReport): void {
  const counts = `${removed.turns} turns, ${removed.checkpoints} checkpoints, ${removed.writes} writes`;
  event(
    `${dryRun ? "dry run: would delete" : "done: deleted, and kept in the archive,"} tasks ${tasks.join(" and ")}: ${counts}`,
  );
  event(`${dryRun ? "it would undo" : "it undid"} ${effects.undone.length} effects, newest first`);
}

export function promise(kept: boolean, text: string): void {
  say(`  ${kept ? green("ok    ") : red("BROKEN")}  ${text}`);
}

/** How often each body began, a row per task and a column per node. */
export function ledgerTable(counts: ReadonlyMap<string, number>, tasks: readonly string[], nodes: readonly string[]): void {
  say(dim(`  ${"task".padEnd(16)}${nodes.map((node) => node.padStart(9)).join("")}`));
  for (const task of tasks) {
    const cells = nodes.map((node) => String(counts.get(`${task} ${node}`) ?? 0).padStart(9));
    say(`  ${task.padEnd(16)}${cells.join("")}`);
  }
}

export function tokenTable({ byNode, total, rewound }: TokenUsage): void {
  say(dim(`  ${"node".padEnd(16)}${"in".padStart(9)}${"out".padStart(9)}`));
  const all = [...byNode, { nodeName: "all", ...total }, { nodeName: "rewound", ...rewound }];
  for (const { nodeName, input, output } of all) {
    say(`  ${nodeName.padEnd(16)}${String(input).padStart(9)}${String(output).padStart(9)}`);
  }
}
