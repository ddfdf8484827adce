import type { BaseTurnSaver } from "../../base-saver";
import { branchesOf } from "../../inspection/branches";
import type { CheckpointLine } from "../../inspection/checkpoint-line";
import { titled } from "../../inspection/effects";
import { threadNamed } from "../../inspection/place";
import { type Match, search } from "../../inspection/search";
import { type Blame, blameOf, differenceBetween, stateAt, type StateDifference } from "../../inspection/states";
import { type Attempt, type AttemptDetails, type EffectLine, logOf, showTurn } from "../../inspection/turns";
import { errorText } from "../../inspection/words";
import { drawn } from "../branches";
import { atLeastOne, command, whole } from "../command";
import { DONE, FAILED, FOUND, UsageError } from "../exit";
import { type Colour, type Column, type Look, moment, moreText, pairs, table } from "../look";
import type { Answer } from "../output";
import { ago, brief, count, duration, indented, oneLine, plural } from "../text";
import { EFFECT_COLUMNS } from "./effects";

const COLOURS: Readonly<Record<Attempt["status"], Colour>> = {
  ok: "green",
  handoff: "green",
  error: "red",
  interrupted: "yellow",
  running: "blue",
};

/** @param isLive whether a process runs the thread; otherwise what hasn't finished was stopped */
function endedAs(status: Attempt["status"], isLive: boolean): string {
  return status === "running" && !isLive ? "stopped" : status;
}

const attemptColumns = (isLive: boolean): readonly Column<Attempt>[] => [
  { title: "#", value: ({ number }) => String(number), align: "right" },
  { title: "NODE", value: ({ node }) => node.replaceAll("|", " › "), shrinks: 12 },
  {
    title: "STATUS",
    value: ({ status }) => endedAs(status, isLive),
    colour: ({ status }) => (status === "running" && !isLive ? "yellow" : COLOURS[status]),
  },
  { title: "TRY", value: ({ attempt }) => String(attempt), align: "right", optional: 3 },
  { title: "STARTED", value: ({ startedAt }, { now }) => ago(startedAt, now), align: "right" },
  { title: "TOOK", value: took, align: "right" },
  {
    title: "TOKENS",
    value: ({ tokens }) => (tokens.input + tokens.output === 0 ? "" : count(tokens.input + tokens.output)),
    align: "right",
    optional: 2,
  },
  { title: "TASK", value: ({ taskId }) => taskId, shrinks: 8, optional: 1 },
];

function took({ startedAt, endedAt }: Attempt): string {
  return endedAt === null ? "" : duration(Date.parse(endedAt) - Date.parse(startedAt));
}

interface LogOptions {
  oneline?: boolean;
  graph?: boolean;
  task?: string;
  node?: string;
  failed?: boolean;
  limit?: number;
  cursor?: number;
}

export const LOG = command<LogOptions>({
  name: "log",
  args: "<thread>",
  summary: "the attempts of a thread's nodes, newest first",
  examples: ["turns log order-17", "turns log order-17 --failed", "turns log order-17 --oneline --graph"],
  options: [
    ["--task <task>", "only this task"],
    ["--node <node>", "only this node, by name or path"],
    ["--failed", "only attempts that failed"],
    ["--oneline", "a short line for each"],
    ["--graph", "checkpoints instead, with their branches drawn: forks and rewinds"],
    ["--limit <n>", "at most so many (default 50)", atLeastOne],
    ["--cursor <n>", "continue where the last page stopped", whole],
  ],
  run: async (saver, [thread = ""], { task, oneline = false, graph = false, ...rest }) => {
    const threadId = await threadNamed(saver, thread);
    if (graph) return branchesAnswer(saver, threadId, { task, ...rest });
    const data = await logOf(saver, threadId, { taskId: task, ...rest });
    const isLive = await saver.turns.isRunning(threadId);
    const text = (look: Look): string => {
      if (data.attempts.length === 0) return "No turns.";
      const more = moreText(data.cursor, look);
      if (oneline) return data.attempts.map((attempt) => shortLine(attempt, isLive, look)).join("\n") + more;
      return table(data.attempts, attemptColumns(isLive), look) + more;
    };
    return { data, list: "attempts", text };
  },
});

function shortLine(attempt: Attempt, isLive: boolean, look: Look): string {
  const { number, node, status, attempt: tries, taskId } = attempt;
  const text = `${node}${tries > 1 ? `, attempt ${tries}` : ""}`;
  return `${look.paint("yellow", `#${number}`)} ${oneLine(text)} ${look.paint(COLOURS[status], endedAs(status, isLive))} ${look.paint("dim", oneLine(`(${taskId})`))}`;
}

/** @throws {UsageError} for options that belong to attempts */
async function branchesAnswer(saver: BaseTurnSaver, threadId: string, options: LogOptions): Promise<Answer> {
  const { task, node, failed, limit, cursor } = options;
  if (task !== undefined || node !== undefined || failed !== undefined)
    throw new UsageError(
      "--graph shows checkpoints; --task, --node and --failed choose attempts.",
      "Leave --graph out, or them.",
    );
  const data = await branchesOf(saver, threadId, { limit, before: cursor });
  const text = (look: Look): string => {
    if (data.checkpoints.length === 0) return "No checkpoints.";
    return drawn(data, look) + moreText(data.cursor, look);
  };
  return { data, list: "checkpoints", text };
}

export const SHOW = command({
  name: "show",
  args: "<thread> <turn>",
  summary: "input, output, error, effects and tokens of an attempt",
  examples: ["turns show order-17 12", "turns show order-17 0196f2", "turns show order-17 12 --json --fields input,output"],
  run: async (saver, [thread = "", turn = ""]) => {
    const found = await showTurn(saver, await threadNamed(saver, thread), turn);
    const data = { ...found, effects: await titled(saver, found.effects) };
    const isLive = await saver.turns.isRunning(data.threadId);
    return { data, text: (look) => attemptText(data, isLive, look) };
  },
});

function keptText({ durable, status, checkpointId }: AttemptDetails, isLive: boolean): string {
  if (durable) return "a resume keeps its result";
  if (status === "error") return "nothing: it failed";
  if (status === "running") return isLive || checkpointId !== null ? "nothing yet" : NEVER_SAVED;
  // With durability "exit", a run is saved when it finishes.
  return checkpointId !== null ? "a resume runs it again" : isLive ? "nothing yet" : NEVER_SAVED;
}

const NEVER_SAVED = "nothing: its process stopped before the run was saved";

interface TitledAttempt extends AttemptDetails {
  effects: readonly (EffectLine & { title: string })[];
}

/** What went wrong and what it did come first: the input may be a long conversation. */
function attemptText(attempt: TitledAttempt, isLive: boolean, look: Look): string {
  const { number, node, status, taskId, startedAt, tokens, effects, error, notKept } = attempt;
  const title = `${look.paint("bold", `#${number} ${oneLine(node)}`)}  ${look.paint(COLOURS[status], endedAs(status, isLive))}`;
  const lines = pairs(
    [
      ["thread", oneLine(attempt.threadId)],
      ["task", oneLine(taskId)],
      ["attempt", `${attempt.attempt}, step ${attempt.step}`],
      ["started", moment(startedAt, look)],
      ["took", took(attempt) || "not finished"],
      ...(tokens.input + tokens.output === 0
        ? []
        : [["tokens", `${count(tokens.input)} in, ${count(tokens.output)} out`] as const]),
      ["kept", keptText(attempt, isLive)],
      ["node task", oneLine(attempt.nodeTaskId)],
      ["fingerprint", attempt.fingerprint ?? "not recorded"],
    ],
    look,
  );
  const part = (name: string, value: unknown): string[] =>
    value === null ? [] : [`${look.paint("bold", name)}\n${indented(value)}`];
  const told = error === null ? [] : part("Error", [errorText(error), ...(error.stack === null ? [] : [error.stack])].join("\n"));
  const journal = effects.length === 0 ? [] : [`${look.paint("bold", "Effects")}\n${table(effects, EFFECT_COLUMNS, look)}`];
  return [
    title,
    lines,
    ...told,
    ...journal,
    ...part("Validation", attempt.validation),
    ...part("Output", attempt.output),
    ...part("Input", attempt.input),
    ...notKept.map((why) => look.paint("dim", oneLine(why))),
  ].join("\n\n");
}

interface StateOptions {
  at?: string;
  channel?: string;
  raw?: boolean;
}

export const STATE = command<StateOptions>({
  name: "state",
  args: "<thread>",
  summary: "the state of a thread, now or at a turn, task or checkpoint",
  examples: [
    "turns state order-17",
    "turns state order-17 --at 12 --channel messages",
    "turns state order-17 --channel summary --raw > summary.txt",
  ],
  options: [
    ["--at <place>", "a turn's number or id, a task, or a checkpoint's id or name (default: the newest)"],
    ["--channel <name>", "only this channel"],
    ["--raw", "the channel's text as it is, without quotes"],
  ],
  run: async (saver, [thread = ""], { at, channel, raw }) => {
    if (raw === true && channel === undefined) throw new UsageError("--raw shows one channel.", "Name it: --channel NAME.");
    const data = await stateAt(saver, await threadNamed(saver, thread), at, channel);
    const value = channel === undefined ? data.state : data.state[channel];
    if (raw === true) process.stdout.write(`${typeof value === "string" ? value : JSON.stringify(value)}\n`);
    const text = (look: Look): string => {
      const channels = Object.entries(data.state).map(
        ([name, part]) => `${look.paint("bold", oneLine(name))}\n${indented(part)}`,
      );
      return [placeText(data.checkpoint, look), ...channels].join("\n\n");
    };
    return { data, text, isWritten: raw === true };
  },
});

function placeText({ checkpointId, number, step, source, at, inside }: CheckpointLine, look: Look): string {
  const graph = inside === null ? "" : ` of the graph in ${inside}`;
  return look.paint(
    "dim",
    oneLine(`checkpoint ${checkpointId} (#${number}, step ${step}${graph}, ${source}), ${moment(at, look)}`),
  );
}

interface DiffOptions {
  stat?: boolean;
  exitCode?: boolean;
}

export const DIFF = command<DiffOptions>({
  name: "diff",
  args: "<thread> [from] [to]",
  summary: "what changed between two places of a thread",
  examples: ["turns diff order-17", "turns diff order-17 12 18", "turns diff order-17 task-1 task-2 --stat"],
  options: [
    ["--stat", "only the channels, and how many differences each has"],
    ["--exit-code", "exit with 3 if anything differs"],
  ],
  run: async (saver, [thread = "", from, to], { stat = false, exitCode = false }) => {
    const data = await differenceBetween(saver, await threadNamed(saver, thread), from, to);
    const exit = exitCode && data.channels.length > 0 ? FOUND : DONE;
    return { data, list: "channels", text: (look) => differenceText(data, stat, look), exit };
  },
});

function differenceText({ from, to, channels }: StateDifference, isShort: boolean, look: Look): string {
  const head = `${look.paint("red", "-")} ${placeText(from, look)}\n${look.paint("green", "+")} ${placeText(to, look)}`;
  if (channels.length === 0) return `${head}\n\nNo difference in the state.`;
  const parts = channels.map(({ channel, change, appended, differences }) => {
    const what =
      change === "appended"
        ? `${plural(appended ?? 0, "element")} appended`
        : `${change}, ${plural(differences.length, "difference")}`;
    const title = `${look.paint("bold", oneLine(channel))}  ${look.paint("dim", what)}`;
    if (isShort) return title;
    const lines = differences.flatMap(({ path, before, after }) => {
      const at = path === "" ? "" : `${oneLine(path)}: `;
      const minus = before === undefined ? [] : [look.paint("red", `- ${at}${brief(before, wide(look))}`)];
      return [...minus, ...(after === undefined ? [] : [look.paint("green", `+ ${at}${brief(after, wide(look))}`)])];
    });
    return `${title}\n${lines.map((line) => `  ${line}`).join("\n")}`;
  });
  return [head, ...parts].join(isShort ? "\n" : "\n\n");
}

function wide({ width }: Look): number {
  return Math.max(20, Math.min(width, 1_000) - 24);
}

const BLAME_COLUMNS: readonly Column<Blame>[] = [
  { title: "#", value: ({ number }) => String(number), align: "right" },
  {
    title: "WRITTEN BY",
    value: ({ nodes, source }) =>
      nodes.map(({ node, number }) => `${node || "?"}${number === null ? "" : ` #${number}`}`).join(", ") || source,
    shrinks: 10,
  },
  { title: "CHANGE", value: ({ change }) => change },
  {
    title: "ELEMENTS",
    value: ({ elements }) =>
      elements === undefined ? "" : elements[1] - elements[0] === 1 ? `${elements[0]}` : `${elements[0]}–${elements[1] - 1}`,
    align: "right",
  },
  { title: "WHEN", value: ({ at }, { now }) => ago(at, now), align: "right" },
  { title: "CHECKPOINT", value: ({ checkpointId }) => checkpointId, shrinks: 8, optional: 1 },
];

export const BLAME = command<{ at?: string; limit?: number; cursor?: string }>({
  name: "blame",
  args: "<thread> <channel>",
  summary: "the node and the turn that wrote a channel",
  examples: ["turns blame order-17 messages", "turns blame order-17 total --at 12", "turns blame order-17 messages --json"],
  options: [
    ["--at <place>", "only changes up to there: a turn, a task, a checkpoint (default: the newest)"],
    ["--limit <n>", "at most so many changes (default 50)", atLeastOne],
    ["--cursor <id>", "continue where the last page stopped"],
  ],
  run: async (saver, [thread = "", channel = ""], request) => {
    const data = await blameOf(saver, await threadNamed(saver, thread), channel, request);
    const text = (look: Look): string => table(data.changes, BLAME_COLUMNS, look) + moreText(data.cursor, look);
    return { data, list: "changes", text };
  },
});

const MATCH_COLUMNS: readonly Column<Match>[] = [
  { title: "THREAD", value: ({ threadId }) => threadId, shrinks: 12 },
  { title: "#", value: ({ number }) => String(number), align: "right" },
  { title: "IN", value: ({ kind }) => kind },
  { title: "NEAR", value: ({ near }) => near, shrinks: 8, optional: 1 },
  { title: "TEXT", value: ({ excerpt }) => excerpt, shrinks: 20 },
];

interface GrepOptions {
  thread?: string;
  ignoreCase?: boolean;
  fixedStrings?: boolean;
  limit?: number;
}

export const GREP = command<GrepOptions>({
  name: "grep",
  args: "<pattern>",
  summary: "search states, messages, inputs, outputs, errors and effects",
  examples: ['turns grep "card declined"', "turns grep -i timeout --thread order-17", "turns grep 'order-\\d+' --jsonl | head"],
  options: [
    ["--thread <thread>", "only this thread"],
    ["-i, --ignore-case", "upper and lower case count as equal"],
    ["-F, --fixed-strings", "the pattern is a text, not a regular expression"],
    ["--limit <n>", "at most so many matches (default 100)", atLeastOne],
  ],
  run: async (saver, [pattern = ""], { thread, ignoreCase, fixedStrings, limit }) => {
    const threadId = thread === undefined ? undefined : await threadNamed(saver, thread);
    const matches: Match[] = [];
    for await (const match of search(saver, { pattern: regularExpression(pattern, ignoreCase, fixedStrings), threadId, limit }))
      matches.push(match);
    const text = (look: Look): string => (matches.length === 0 ? "Nothing found." : table(matches, MATCH_COLUMNS, look));
    return { data: { matches }, list: "matches", text, exit: matches.length === 0 ? FAILED : DONE };
  },
});

/** @throws {UsageError} */
function regularExpression(pattern: string, ignoreCase = false, isFixed = false): RegExp {
  const source = isFixed ? pattern.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`) : pattern;
  try {
    return new RegExp(source, ignoreCase ? "iu" : "u");
  } catch (error) {
    throw new UsageError(
      `${JSON.stringify(pattern)} isn't a regular expression: ${(error as Error).message}.`,
      "Search for a text with -F.",
    );
  }
}
