import { inbox, listThreads, overview, type Overview, type ThreadLine, type ThreadSort } from "../../inspection/threads";
import { type Answers, answersOf, NO_GRAPH, questionText, type TimedSentence } from "../../inspection/answers";
import { needsPerson, type OpenQuestion, outcomeOf, THREAD_STATES, type ThreadState } from "../../inspection/standing";
import { reportOf, type ThreadReport } from "../../inspection/status";
import { threadNamed } from "../../inspection/place";
import { atLeastOne, command, manyOf, oneOf, pastTime } from "../command";
import { DONE, NEEDS_DECISION } from "../exit";
import { type Colour, type Column, type Look, moment, moreText, nextText, pairs, table } from "../look";
import { toCopy } from "../place";
import { countedNodes, nodeName, turns } from "../../inspection/words";
import { ago, brief, bytes, count, duration, oneLine, plural, wrapped } from "../text";

const COLOURS: Readonly<Record<ThreadState, Colour>> = {
  running: "blue",
  rewinding: "red",
  "in-doubt": "red",
  waiting: "yellow",
  failed: "red",
  interrupted: "yellow",
  unfinished: "yellow",
  finished: "green",
  empty: "dim",
};

/** As the page calls it: "interrupted" sounds like a question of LangGraph's `interrupt()`. */
const stateWord = (state: ThreadState): string => (state === "interrupted" ? "crashed" : state);
const STATE_NAMES = [...THREAD_STATES, "crashed"] as const;

const THREAD_COLUMNS: readonly Column<ThreadLine>[] = [
  { title: "THREAD", value: ({ threadId }) => threadId, shrinks: 16 },
  { title: "STATE", value: ({ state }) => stateWord(state), colour: ({ state }) => COLOURS[state] },
  { title: "LAST", value: ({ lastAt }, { now }) => ago(lastAt, now), align: "right" },
  { title: "TURNS", value: ({ turns }) => count(turns), align: "right", optional: 2 },
  { title: "EFFECTS", value: ({ effects }) => count(effects), align: "right", optional: 3 },
  { title: "AT", value: at, shrinks: 8, optional: 1 },
];

function at({ inFlight, failed, waiting, inDoubt, moving }: ThreadLine): string {
  const parts = [
    moving !== null && `being moved to ${moving.to} since ${moving.since}`,
    countedNodes([...inFlight, ...failed]).join(", "),
    waiting > 0 && plural(waiting, "question"),
    inDoubt > 0 && `${plural(inDoubt, "effect")} in doubt`,
  ];
  return parts.filter(Boolean).join("; ");
}

export const OVERVIEW = command({
  name: "overview",
  summary: "what is in the database, and what needs somebody",
  examples: ["turns", "turns agent.db", "turns --db postgresql://localhost/app --json"],
  run: async (saver) => {
    const data = await overview(saver);
    return { data, text: (look) => overviewText(data, look) };
  },
});

function overviewText(data: Overview, look: Look): string {
  const { states, examined, threads, running, inDoubt, unfinishedRewinds, newest } = data;
  const counted = THREAD_STATES.filter((state) => states[state] !== undefined);
  const told = counted.map((state) => look.paint(COLOURS[state], `${count(states[state] ?? 0)} ${stateWord(state)}`)).join(", ");
  const free = data.freeBytes > 0 ? `, ${bytes(data.freeBytes)} free` : "";
  const head = pairs(
    [
      ["database", oneLine(data.database)],
      ["size", `${bytes(data.bytes)}${free}`],
      ["threads", `${count(threads)} with ${plural(data.turns, "turn")} and ${plural(data.effects, "effect")}`],
      [
        "state",
        `${told || "nothing yet"}${examined < threads ? ` (of the ${count(examined)} looked into: those that need somebody first; ${toCopy("turns threads --status STATE")} looks into all)` : ""}`,
      ],
    ],
    look,
  );
  const rest =
    threads > newest.length ? look.paint("dim", `\n${count(threads - newest.length)} more: ${toCopy("turns threads")}`) : "";
  const list = newest.length === 0 ? "" : `\n\n${table(newest, THREAD_COLUMNS, look)}${rest}`;
  const next = [
    inDoubt > 0 && (["turns effects --in-doubt", `${plural(inDoubt, "effect")} with an unknown outcome`] as const),
    unfinishedRewinds > 0 && (["turns doctor", plural(unfinishedRewinds, "unfinished rewind")] as const),
    (states.waiting ?? 0) > 0 && (["turns inbox", "questions that wait for an answer"] as const),
    running.length > 0 && (["turns threads --status running"] as const),
    newest[0] !== undefined && ([turns("status", [newest[0].threadId])] as const),
  ].filter((line) => line !== false);
  return `${head}${list}${next.length === 0 ? "" : `\n\n${nextText(next, look)}`}`;
}

interface ThreadsOptions {
  status?: readonly (typeof STATE_NAMES)[number][];
  idle?: Date;
  since?: Date;
  search?: string;
  sort?: ThreadSort;
  limit?: number;
  cursor?: string;
}

export const THREADS = command<ThreadsOptions>({
  name: "threads",
  summary: "list threads with how each stands",
  examples: ["turns threads", "turns threads --status waiting,in-doubt", "turns threads --idle 30d --sort turns --json"],
  options: [
    ["--status <states>", `only these states: ${THREAD_STATES.map(stateWord).join(", ")}`, manyOf(STATE_NAMES)],
    ["--idle <duration>", "only threads without a save for so long: 12h, 30d", pastTime],
    ["--since <time>", "only threads with a save since then: 2h, 2026-01-31", pastTime],
    ["--search <text>", "only ids that contain this text"],
    ["--sort <by>", "activity (default), created, turns or id", oneOf(["activity", "created", "turns", "id"])],
    ["--limit <n>", "at most so many (default 50)", atLeastOne],
    ["--cursor <cursor>", "continue where the last page stopped"],
  ],
  run: async (saver, _, { status, idle, ...rest }) => {
    const states = status?.map((name) => (name === "crashed" ? "interrupted" : name));
    const wanted = { ...rest, ...(states !== undefined && { states }), idleSince: idle };
    const data = await listThreads(saver, { ...wanted, countsMatches: true });
    const isFiltered = [states, idle, rest.since, rest.search, rest.cursor].some((one) => one !== undefined);
    const none = isFiltered ? "No such threads." : "No threads yet.";
    const text = (look: Look): string =>
      data.threads.length === 0 ? none : table(data.threads, THREAD_COLUMNS, look) + moreText(data.cursor, look);
    return { data, list: "threads", text };
  },
});

export const STATUS = command({
  name: "status",
  args: "<thread>",
  summary: "what a thread did, what is in flight, whether you can resume, what a rewind undoes",
  examples: ["turns status order-17", "turns status ord", "turns status order-17 --json --fields state,resume"],
  run: async (saver, [thread = ""]) => {
    const data = await reportOf(saver, await threadNamed(saver, thread));
    const answers = await answersOf(saver, data);
    return { data, text: (look) => statusText(data, answers, look), exit: data.needsPerson ? NEEDS_DECISION : DONE };
  },
});

function statusText(report: ThreadReport, answers: Answers, look: Look): string {
  const { threadId, state, taskId, graphId, tokens } = report;
  const of = [taskId !== null && `task ${taskId}`, graphId !== null && graphId !== threadId && `graph ${graphId}`].filter(
    Boolean,
  );
  const title = `${look.paint("bold", oneLine(threadId))}  ${look.paint(COLOURS[state], stateWord(state))}${of.length === 0 ? "" : `  ${look.paint("dim", oneLine(of.join(", ")))}`}`;
  const body = [
    answerText("What did it do?", answers.did, look),
    answerText("What is in flight?", answers.inFlight, look, othersInFlight(report)),
    answerText("Can I resume?", answers.resume, look, otherWays(report)),
    answerText("What would a rewind undo?", answers.rewind, look),
  ];
  const used =
    tokens.input + tokens.output === 0
      ? []
      : [look.paint("dim", `tokens  ${count(tokens.input)} in, ${count(tokens.output)} out, in all tasks`)];
  return [title, ...body, ...used].join("\n\n");
}

const TONES: Readonly<Record<TimedSentence["tone"], Colour | undefined>> = {
  plain: undefined,
  good: "green",
  attention: "yellow",
};

/** @param others lines behind the sentence that only a terminal has: the page shows them elsewhere */
function answerText(
  question: string,
  { headline, text, command: next, tone, times }: TimedSentence,
  look: Look,
  others: readonly string[] = [],
): string {
  const inWords = (words: string): string[] => {
    const told = oneLine(words).replaceAll(ISO, (iso) => (times.includes(iso) ? moment(iso, look) : iso));
    return wrapped(told, look.width - INDENT.length);
  };
  const colour = TONES[tone];
  const lines = [
    ...inWords(headline).map((line) => (colour === undefined ? line : look.paint(colour, line))),
    ...inWords(text),
    ...others.flatMap((line) => wrapped(oneLine(line), look.width - INDENT.length)),
    // A command stays in one line, so that it can be copied.
    ...(next === null ? [] : [look.paint("dim", oneLine(toCopy(next)))]),
  ];
  return `${look.paint("bold", question)}\n${lines.map((line) => INDENT + line).join("\n")}`;
}

const INDENT = "  ";
const ISO = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g;

/** With several questions or effects in doubt, each with its id: a sentence names the first. */
function othersInFlight({ questions, inDoubt }: ThreadReport): string[] {
  const asked = questions.map(
    ({ node, value, id }) => `${nodeName(node)} asks ${brief(value)} (interrupt ${id ?? "without id"}).`,
  );
  const doubts = inDoubt.map(({ name, node, id, doubt }) => {
    return `${doubt === "undo" ? "The undo of effect" : "Effect"} ${name} of ${node} is in doubt (${id}).`;
  });
  return [...(asked.length > 1 ? asked : []), ...(doubts.length > 1 ? doubts : [])];
}

/** How to answer the first question. */
function answering([first]: readonly OpenQuestion[]): string {
  return turns("inbox answer", [first?.threadId ?? ""], ["--value", "JSON"], ["--graph", NO_GRAPH]);
}

/** What else than the command of the answer is possible. */
function otherWays({ threadId, resume, inDoubt, rewind }: ThreadReport): string[] {
  const doubt = inDoubt.find(needsPerson);
  const undo = inDoubt.find((one) => one.doubt === "undo");
  // Until then nobody can give the rewind up.
  if (rewind !== null && undo !== undefined)
    return [`Without a probe, settle the undo first: ${toCopy(turns("effect resolve", [undo.id, "undo-done"]))}`];
  if (rewind !== null) return [`Or give the rewind up: ${toCopy(turns("rewind", [threadId], "--abandon", "--yes"))}`];
  if (doubt === undefined || resume.can !== "person") return [];
  const other = outcomeOf(doubt) === "done" ? "not-done" : "undo-not-done";
  return [`${outcomeOf(doubt)} if it happened, ${other} if it didn't; add --yes.`];
}

const QUESTION_COLUMNS: readonly Column<OpenQuestion>[] = [
  { title: "THREAD", value: ({ threadId }) => threadId, shrinks: 12 },
  { title: "NODE", value: ({ node }) => nodeName(node), shrinks: 8 },
  {
    title: "ASKED",
    value: ({ askedAt }, { now }) => (askedAt === null ? "" : duration(now - Date.parse(askedAt))),
    align: "right",
  },
  { title: "QUESTION", value: ({ value }) => brief(questionText(value), 400), shrinks: 20 },
  { title: "INTERRUPT", value: ({ id }) => id?.slice(0, SHORT_ID) ?? "", optional: 1 },
];

/** The beginning of an id names its question. */
const SHORT_ID = 12;

export const INBOX = command({
  name: "inbox",
  summary: "questions that wait for an answer, over all threads",
  examples: ["turns inbox", "turns inbox --json", "turns inbox --fields threadId,id,value --jsonl"],
  run: async (saver) => {
    const questions = await inbox(saver);
    const text = (look: Look): string =>
      questions.length === 0
        ? "Nobody waits for an answer."
        : `${table(questions, QUESTION_COLUMNS, look)}\n\n${nextText([[answering(questions)]], look)}`;
    return { data: { questions }, list: "questions", text };
  },
});
