import path from "node:path";
import type { BaseTurnSaver } from "../base-saver";
import type { GraphRunner } from "../graph-runner";
import { answersOf, NO_GRAPH, questionText, rewindSentence } from "../inspection/answers";
import { bundleOf } from "../inspection/bundle";
import { effectInFull, type EffectInFull, noteOf, settlingCommand, titled, titleOf } from "../inspection/effects";
import { graphOf } from "../inspection/graph";
import { messagesAt } from "../inspection/messages";
import { checkpointNamed, numberOf } from "../inspection/place";
import { rewindLine, takeBackCommand, takeBackOf } from "../inspection/rewinds";
import { search } from "../inspection/search";
import { rewindRefusal } from "../inspection/refusal";
import { markOf, sinceThen } from "../inspection/since";
import { type Limits, SHORT, type Shown, shownOf, WHOLE } from "../inspection/shown";
import { movingRefusal } from "../inspection/moving";
import { needsPerson, standingOf, THREAD_STATES, type ThreadState } from "../inspection/standing";
import { blameOf, differenceBetween, namesOf, stateAt } from "../inspection/states";
import {
  knownThread,
  despiteUnknown,
  previewRewind,
  reportOf,
  rewinderWithoutGraph,
  type ThreadReport,
  verdictWords,
} from "../inspection/status";
import { isNeedy, listThreads, overview, type ThreadLine, type ThreadSort } from "../inspection/threads";
import { timelineOf } from "../inspection/timeline";
import { channelSizes, tokenTotals } from "../inspection/totals";
import { attemptBehind, attemptOf, attemptRows, checkpointsOf, logOf, showTurn } from "../inspection/turns";
import { firstLine, inBrief, listed, plural, turns } from "../inspection/words";
import { internalsOf } from "../internals";
import { isId } from "../system";
import { pregelOf } from "../turns/attached-graph";
import { inPath } from "./addresses";
import type * as Api from "./api";
import { HttpError } from "./failures";

export const FORMAT = 1;

/** What every route knows. */
export interface Context {
  saver: BaseTurnSaver;
  /** `--graph`; undefined without it. */
  graph: { runner: GraphRunner<never>; name: string } | undefined;
  write: boolean;
  theme: Api.Overview["theme"];
  program: string;
  version: string;
  /** Told of what nobody expected. */
  report: (what: string, error?: unknown) => void;
  isFile: boolean;
}

/** A request whose path matched. */
interface Asked {
  params: Readonly<Record<string, string>>;
  query: URLSearchParams;
  /** Aborted when the client has gone. */
  signal: AbortSignal;
}

interface Route {
  /** `/api/threads/:id/state` */
  pattern: string;
  answer: (context: Context, asked: Asked) => Promise<object>;
  /** The name under which a browser saves the answer. */
  download?: (asked: Asked) => string;
}

const MOST_THREADS = 200;
const MOST_ATTEMPTS = 2_000;
const SEARCH_MS = 4_000;
const MOST_MATCHES = 100;

export const ROUTES: readonly Route[] = [
  { pattern: "/api/server", answer: serverAnswer },
  { pattern: "/api/overview", answer: overviewAnswer },
  { pattern: "/api/threads", answer: threadsAnswer },
  { pattern: "/api/search", answer: searchAnswer },
  { pattern: "/api/threads/:id", answer: threadAnswer },
  { pattern: "/api/threads/:id/timeline", answer: timelineAnswer },
  { pattern: "/api/threads/:id/turns/:turn", answer: turnAnswer },
  { pattern: "/api/threads/:id/state", answer: stateAnswer },
  { pattern: "/api/threads/:id/diff", answer: diffAnswer },
  { pattern: "/api/threads/:id/blame", answer: blameAnswer },
  { pattern: "/api/threads/:id/messages", answer: messagesAnswer },
  { pattern: "/api/threads/:id/effects", answer: effectsAnswer },
  { pattern: "/api/threads/:id/rewinds", answer: rewindsAnswer },
  { pattern: "/api/threads/:id/rewind", answer: rewindAnswer },
  { pattern: "/api/threads/:id/since", answer: sinceAnswer },
  { pattern: "/api/threads/:id/graph", answer: graphAnswer },
  { pattern: "/api/threads/:id/channels", answer: channelsAnswer },
  { pattern: "/api/threads/:id/tokens", answer: tokensAnswer },
  {
    pattern: "/api/threads/:id/bundle",
    answer: bundleAnswer,
    download: ({ query }) => (query.get("redact") === "0" ? "turns-bundle.json" : "turns-bundle-redacted.json"),
  },
];

/** @throws {HttpError} 400 */
function wholeOf(query: URLSearchParams, name: string, most = Number.MAX_SAFE_INTEGER): number | undefined {
  const text = query.get(name);
  if (text === null || text === "") return undefined;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return Math.min(value, most);
  throw new HttpError(400, "INVALID_OPTION", `The parameter ${name} has to be a whole number.`);
}

/** Undefined if it's missing or empty. */
function textOf(query: URLSearchParams, name: string): string | undefined {
  const text = query.get(name);
  return text === null || text === "" ? undefined : text;
}

/** @throws {HttpError} 400 */
function oneOf<T extends string>(query: URLSearchParams, name: string, valid: readonly T[]): T | undefined {
  const text = textOf(query, name);
  const found = valid.find((one) => one === text);
  if (text === undefined || found !== undefined) return found;
  throw new HttpError(400, "INVALID_OPTION", `The parameter ${name} has to be one of ${valid.join(", ")}.`);
}

/** The thread of a path; others have checked that there is one. */
async function threadOf({ saver }: Context, { params }: Asked): Promise<string> {
  const { id = "" } = params;
  if (!isId(id)) throw new HttpError(404, "THREAD_NOT_FOUND", "No thread can have such an id.");
  await knownThread(saver, id);
  return id;
}

function limitsOf(query: URLSearchParams): Limits {
  return query.get("whole") === "1" ? WHOLE : SHORT;
}

/** An address on this server. */
function addressOf(threadId: string, what: string, query: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return `/api/threads/${inPath(threadId)}/${what}?${new URLSearchParams([...given, ["whole", "1"]]).toString()}`;
}

async function serverAnswer({ saver, graph, write, theme, program, version, isFile }: Context): Promise<Api.Server> {
  const { store } = internalsOf(saver);
  const database = store.name;
  return {
    ...{ format: FORMAT, database, bytes: (await store.space()).bytes, name: isFile ? path.basename(database) : database },
    ...{ engine: isFile ? "sqlite" : "postgres", version, write, graph: graph !== undefined, theme, program },
  };
}

async function overviewAnswer(context: Context): Promise<Api.Overview> {
  return { ...(await serverAnswer(context)), ...(await overview(context.saver)) };
}

/** Answers what the first screen asks for, so that its modules are loaded and its rows are in the cache. */
export async function warmUp(context: Context, signal: AbortSignal): Promise<void> {
  const asked = { params: {}, query: new URLSearchParams(), signal };
  await serverAnswer(context);
  await threadsAnswer(context, asked);
  const { thread, turn } = await firstPlace(context);
  if (thread === undefined || signal.aborted) return;
  const ofThread = { ...asked, params: { id: thread } };
  await threadAnswer(context, ofThread);
  await timelineAnswer(context, ofThread);
  if (turn === undefined || signal.aborted) return;
  const { startedFrom, endedIn } = await turnAnswer(context, { ...asked, params: { id: thread, turn } });
  if (startedFrom === null || endedIn === null) return;
  const query = new URLSearchParams({ from: startedFrom.checkpointId, to: endedIn.checkpointId });
  await diffAnswer(context, { ...ofThread, query });
}

/** What the page shows if its address names nothing: the first thread of its list, and what runs there, or its newest turn. */
export async function firstPlace({ saver }: Context): Promise<{ thread?: string; turn?: string }> {
  const { threads } = await listThreads(saver, { sort: "activity", limit: 1, needyFirst: true });
  const thread = threads[0]?.threadId;
  if (thread === undefined) return {};
  const open = (await saver.turns.inFlight(thread)).at(-1);
  const number = open === undefined ? (await logOf(saver, thread, { limit: 1 })).attempts[0]?.number : numberOf(open.seq);
  return { thread, ...(number !== undefined && { turn: String(number) }) };
}

const SORTS: readonly ThreadSort[] = ["activity", "created", "turns", "id"];

async function threadsAnswer({ saver }: Context, { query }: Asked): Promise<Api.ThreadList> {
  const given = textOf(query, "status")?.split(",");
  const unknown = given?.find((state) => !THREAD_STATES.includes(state as ThreadState));
  if (unknown !== undefined)
    throw new HttpError(400, "INVALID_OPTION", `There is no state "${unknown}". The states: ${THREAD_STATES.join(", ")}.`);
  const page = await listThreads(saver, {
    ...(given !== undefined && { states: given as ThreadState[] }),
    search: textOf(query, "search"),
    sort: oneOf(query, "sort", SORTS) ?? "activity",
    limit: wholeOf(query, "limit", MOST_THREADS) ?? 50,
    cursor: textOf(query, "cursor"),
    needyFirst: true,
  });
  const threads: Api.ListedThread[] = [];
  for (const line of page.threads) threads.push(await listedThread(saver, line));
  return { format: FORMAT, ...page, threads };
}

async function listedThread(saver: BaseTurnSaver, line: ThreadLine): Promise<Api.ListedThread> {
  const { threadId } = line;
  const found = await internalsOf(saver).store.inspect.taskTokens(threadId);
  const [tasks, tokens] = [found.length, allTokens(found)];
  const sentence = await sentenceOf(saver, line, { tasks, tokens: tokens.input + tokens.output });
  return { ...line, sentence, needsYou: isNeedy(line), tasks, tokens };
}

function allTokens(tasks: readonly Api.TokenCounts[]): Api.TokenCounts {
  const total = { input: 0, output: 0, cached: 0, reasoning: 0 };
  for (const task of tasks) for (const kind of KINDS_OF_TOKENS) total[kind] += task[kind];
  return total;
}

const KINDS_OF_TOKENS = ["input", "output", "cached", "reasoning"] as const;

/** What tells a thread apart in a list. */
async function sentenceOf(saver: BaseTurnSaver, line: ThreadLine, has: { tasks: number; tokens: number }): Promise<string> {
  const { threadId, state, inFlight } = line;
  const counts = [plural(has.tasks, "task"), ...(has.tokens > 0 ? [`${has.tokens.toLocaleString("en-US")} tokens`] : [])].join(
    " · ",
  );
  if (line.moving !== null) return `being moved to ${line.moving.to}`;
  if (state === "finished" || state === "empty") return counts;
  const { questions, failures, inDoubt, runs, rewind, next } = await standingOf(saver, threadId, { doubts: new Map() });
  const nodes = listed(
    [...new Set(inFlight)].map((node) => node.replaceAll("|", " › ")),
    3,
  );
  const [question] = questions;
  const [failure] = failures;
  if (state === "waiting" && question !== undefined) return `“${inBrief(questionText(question.value), 80)}”`;
  if (state === "failed" && failure !== undefined)
    return firstLine(`${failure.node}: ${failure.error.message || failure.error.name}`, 100);
  if (state === "running" && runs[0] !== undefined) return [nodes, `pid ${runs[0].pid}`].filter(Boolean).join(" · ");
  if (state === "rewinding" && rewind !== null) return `rewind to ${rewind.toTask}`;
  if (state === "in-doubt")
    return [nodes, plural(line.inDoubt || inDoubt.length, "effect") + " in doubt"].filter(Boolean).join(" · ");
  return nodes || (next.length > 0 ? `next: ${listed(next, 3)}` : counts);
}

function isResumable({ resume, questions, inDoubt, rewind, moving }: ThreadReport): boolean {
  return resume.can !== "no" && questions.length === 0 && rewind === null && moving === null && !inDoubt.some(needsPerson);
}

/** What is said instead of "yes" if the graph of `--graph` has changed since; undefined if a resume continues or starts again. */
async function driftSentence(
  { runner, name }: NonNullable<Context["graph"]>,
  threadId: string,
): Promise<Api.Thread["answers"]["resume"] | undefined> {
  const { onResume, reason, drift } = await runner.status(threadId);
  if (onResume !== "refuse" || reason?.code !== "GRAPH_CHANGED") return undefined;
  return {
    headline: "Not before somebody decides",
    text: `The graph of --graph isn't the one that it ran in: ${listed(drift?.changes ?? [])}. Continue despite that, or let it start again: --drift restart.`,
    command: turns("resume", [threadId], ["--graph", name], ["--drift", "continue"]),
    tone: "attention",
    times: [],
  };
}

async function threadAnswer(context: Context, asked: Asked): Promise<Api.Thread> {
  const { saver, write } = context;
  const { store } = internalsOf(saver);
  const threadId = await threadOf(context, asked);
  const report = await reportOf(saver, threadId, context.graph?.runner);
  const graph = isGraphOf(context.graph, report) ? context.graph : undefined;
  const [line] = await store.inspect.activity({ threadId, limit: 1 });
  const row = await store.getThread(threadId);
  const found = await store.inspect.taskTokens(threadId);
  const tasks = found.map(({ taskId }) => taskId);
  const canResume = isResumable(report);
  const drift = canResume && graph !== undefined ? await driftSentence(graph, threadId) : undefined;
  const answers = await answersOf(saver, report, graph?.name, graph !== undefined);
  const startedAt = row?.createdAt ?? new Date(0).toISOString();
  return {
    format: FORMAT,
    answers: { ...answers, resume: drift ?? answers.resume },
    report: {
      ...report,
      questions: report.questions.map((question) => ({ ...question, value: shownOf(question.value, "").value })),
    },
    counts: {
      tasks: tasks.length,
      turns: line?.turns ?? row?.turns ?? 0,
      checkpoints: line?.checkpoints ?? row?.checkpoints ?? 0,
      effects: line?.effects ?? 0,
      rewinds: (await store.listRewinds(threadId)).length,
    },
    tokens: report.tokens,
    canResume: canResume && drift === undefined,
    start: write && graph !== undefined ? null : turns("web", [], "--write", ["--graph", graph?.name ?? NO_GRAPH]),
    startedAt,
    lastAt: line?.lastAt ?? startedAt,
    tasks,
  };
}

/** Whether a graph can be the one that a thread ran in: with none of its nodes it's another one, and a resume refuses it. */
function isGraphOf(graph: Context["graph"], { did, inFlight, failures }: ThreadReport): boolean {
  if (graph === undefined) return false;
  const { nodes } = pregelOf(graph.runner.graph);
  const ran = [...did.completed, ...inFlight, ...failures].map(({ node }) => node.split("|")[0] ?? "");
  return ran.length === 0 || ran.some((node) => Object.hasOwn(nodes, node));
}

async function timelineAnswer(context: Context, asked: Asked): Promise<Api.TimelineAnswer> {
  const threadId = await threadOf(context, asked);
  const limit = wholeOf(asked.query, "limit", MOST_ATTEMPTS);
  return { format: FORMAT, ...(await timelineOf(context.saver, threadId, { before: wholeOf(asked.query, "before"), limit })) };
}

async function turnAnswer(context: Context, asked: Asked): Promise<Api.TurnAnswer> {
  const { saver } = context;
  const threadId = await threadOf(context, asked);
  const { turn = "" } = asked.params;
  const details = await showTurn(saver, threadId, turn);
  const limits = limitsOf(asked.query);
  const whole = addressOf(threadId, `turns/${inPath(turn)}`, {});
  const shown = (value: unknown): Shown | null => (value === null ? null : shownOf(value, whole, limits));
  const effects: Api.ShownEffect[] = [];
  for (const { id } of details.effects) effects.push(shownEffect(await effectInFull(saver, id), whole, limits));
  const { number } = details;
  const [earlier] = (await logOf(saver, threadId, { limit: 1, cursor: number })).attempts;
  return {
    ...{ format: FORMAT, ...details, effects },
    input: shown(details.input),
    output: shown(details.output),
    validation: shown(details.validation),
    previous: earlier?.number ?? null,
    next: await attemptBehind(saver, threadId, number),
    ...(await checkpointsOf(saver, threadId, turn)),
  };
}

function shownEffect(effect: EffectInFull, whole: string, limits: Limits): Api.ShownEffect {
  const { input, result, notKept, ...rest } = effect;
  const shown = (value: unknown): Shown | null => (value === undefined ? null : shownOf(value, whole, limits));
  const note = [noteOf(effect), notKept].filter((part) => part !== null).join(" ");
  return {
    ...rest,
    title: titleOf(effect),
    input: shown(input),
    result: shown(result),
    command: settlingCommand(effect),
    note: note === "" ? null : note,
  };
}

async function stateAnswer(context: Context, asked: Asked): Promise<Api.State> {
  const { saver } = context;
  const { query } = asked;
  const threadId = await threadOf(context, asked);
  const at = textOf(query, "at");
  const { checkpoint, state } = await stateAt(saver, threadId, at, textOf(query, "channel"));
  const channels = Object.entries(state).map(([channel, value]) => ({
    channel,
    elements: Array.isArray(value) ? value.length : null,
    ...shownOf(value, addressOf(threadId, "state", { at: at ?? checkpoint.checkpointId, channel }), limitsOf(query)),
  }));
  return { format: FORMAT, threadId, checkpoint, channels };
}

/** How many differences of a channel are shown at first. */
const DIFFERENCES = 100;

async function diffAnswer(context: Context, asked: Asked): Promise<Api.Diff> {
  const { saver } = context;
  const { query } = asked;
  const threadId = await threadOf(context, asked);
  const limits = limitsOf(query);
  const most = query.get("whole") === "1" ? Infinity : DIFFERENCES;
  const found = await differenceBetween(saver, threadId, textOf(query, "from"), textOf(query, "to"));
  const only = textOf(query, "channel");
  const channels = found.channels
    .filter(({ channel }) => only === undefined || channel === only)
    .map(({ channel, change, appended = null, differences }): Api.ChannelDiff => {
      const parts = differences.slice(0, most).map(({ path: at, change: how, ...values }) => {
        const sides = Object.entries(values).map(([side, value]) => [side, shownOf(value, "", limits)] as const);
        const line = { path: at, change: how, ...Object.fromEntries(sides.map(([side, { value }]) => [side, value])) };
        return { line, cut: sides.some(([, shown]) => shown.cut) };
      });
      const cut = parts.length < differences.length || parts.some((part) => part.cut);
      const { from, to } = found;
      const whole = addressOf(threadId, "diff", { from: from.checkpointId, to: to.checkpointId, channel });
      return {
        ...{ channel, change, appended, cut, whole: cut ? whole : null },
        added: differences.filter((one) => one.change !== "removed").length,
        removed: differences.filter((one) => one.change !== "added").length,
        differences: parts.map(({ line }) => line),
      };
    });
  return { format: FORMAT, threadId, from: found.from, to: found.to, channels };
}

async function blameAnswer(context: Context, asked: Asked): Promise<Api.BlameAnswer> {
  const { saver } = context;
  const threadId = await threadOf(context, asked);
  const at = textOf(asked.query, "at");
  const channels = namesOf(await checkpointNamed(saver, threadId, at, "all"));
  const channel = textOf(asked.query, "channel") ?? channels[0];
  if (channel === undefined) throw new HttpError(404, "CHECKPOINT_NOT_FOUND", "The checkpoint has no channel with a value.");
  const request = { at, limit: wholeOf(asked.query, "limit", 500), cursor: textOf(asked.query, "cursor") };
  return { format: FORMAT, ...(await blameOf(saver, threadId, channel, request)), channels };
}

async function messagesAnswer(context: Context, asked: Asked): Promise<Api.Messages> {
  const { query } = asked;
  const threadId = await threadOf(context, asked);
  const [at, channel] = [textOf(query, "at"), textOf(query, "channel")];
  const whole = query.get("whole") === "1";
  const request = { at, channel, before: wholeOf(query, "before"), limit: wholeOf(query, "limit"), whole };
  const address = (index: number): string =>
    addressOf(threadId, "messages", { at, channel, before: String(index + 1), limit: "1" });
  return { format: FORMAT, ...(await messagesAt(context.saver, threadId, request, address)) };
}

async function effectsAnswer(context: Context, asked: Asked): Promise<Api.Effects> {
  const { saver } = context;
  const { query } = asked;
  const threadId = await threadOf(context, asked);
  const page = await saver.effects.list(threadId, {
    limit: Math.max(1, wholeOf(query, "limit", 500) ?? 50),
    after: wholeOf(query, "cursor"),
  });
  const effects: Api.ShownEffect[] = [];
  for (const { id, seq } of page) {
    const whole = addressOf(threadId, "effects", { cursor: String(seq - 1), limit: "1" });
    effects.push(shownEffect(await effectInFull(saver, id), whole, limitsOf(query)));
  }
  return { format: FORMAT, effects, cursor: page.cursor ?? null };
}

async function rewindsAnswer(context: Context, asked: Asked): Promise<Api.Rewinds> {
  const threadId = await threadOf(context, asked);
  const rewinds = (await context.saver.rewinds.list(threadId)).reverse();
  const told: Api.Rewinds["rewinds"][number][] = [];
  for (const rewind of rewinds) {
    const line = rewindLine(rewind);
    const { undone, refused } = await takeBackOf(context.saver, line.id);
    told.push({ ...line, undone, refused, command: refused === null ? takeBackCommand(line.id, undone) : null });
  }
  return { format: FORMAT, rewinds: told };
}

async function rewindAnswer(context: Context, asked: Asked): Promise<Api.RewindPlan> {
  const { saver, graph } = context;
  const threadId = await threadOf(context, asked);
  const toTask = textOf(asked.query, "to");
  if (toTask === undefined) throw new HttpError(400, "INVALID_OPTION", "Which task? The parameter to is missing.");
  // Without a graph nobody knows the undos; then the plan tells what has one.
  const allowUncompensated = graph === undefined || asked.query.get("allow") === "1";
  const rewinder = graph === undefined ? rewinderWithoutGraph(saver) : graph.runner;
  const preview = await previewRewind(rewinder, { threadId, toTask, allowUncompensated });
  const plan = graph === undefined ? despiteUnknown(preview) : preview;
  // It says which tasks there are.
  if (plan.refused !== null) await refuseUnknownTask(saver, threadId, toTask);
  const moving = await movingRefusal(saver, threadId);
  const message = moving?.message ?? rewindRefusal(plan.refusedCode, threadId, plan.effects, context.program) ?? plan.refused;
  const refused = message === null ? null : { code: moving?.code ?? plan.refusedCode ?? "", message };
  const { headline, text, command } = rewindSentence(threadId, { ...plan, refused: message }, graph?.name, graph !== undefined);
  const effects: Api.RewindEffect[] = [];
  for (const effect of await titled(saver, plan.effects))
    effects.push({ ...effect, words: verdictWords(effect.verdict, graph !== undefined) });
  return {
    ...{ format: FORMAT, threadId, toTask, tasks: [...plan.tasks], removed: plan.removed, refused },
    ...{
      effects,
      headline,
      text: refused === null ? text : "",
      command: command ?? turns("rewind", [threadId], ["--to", toTask]),
    },
  };
}

/** @throws {TurnsError} UNKNOWN_TASK */
async function refuseUnknownTask(saver: BaseTurnSaver, threadId: string, toTask: string): Promise<void> {
  const tasks = await saver.turns.tasks(threadId);
  if (!tasks.some(({ taskId }) => taskId === toTask)) await saver.rewinds.compensationReport({ threadId, toTask });
}

async function sinceAnswer(context: Context, asked: Asked): Promise<Api.Since> {
  const threadId = await threadOf(context, asked);
  const mark = textOf(asked.query, "mark");
  if (mark === undefined) return { format: FORMAT, threadId, mark: await markOf(context.saver, threadId), headline: "" };
  const headline = await sinceThen(context.saver, threadId, mark, textOf(asked.query, "effect"));
  if (headline === undefined) throw new HttpError(400, "INVALID_OPTION", "The parameter mark has to be one that was told here.");
  return { format: FORMAT, threadId, mark, headline };
}

async function graphAnswer(context: Context, asked: Asked): Promise<Api.Graph> {
  const { saver, graph } = context;
  const threadId = await threadOf(context, asked);
  const now = graph && (await internalsOf(graph.runner.saver).documentOf(graph.runner.graph));
  return { format: FORMAT, threadId, ...(await graphOf(saver, threadId, now)) };
}

async function channelsAnswer(context: Context, asked: Asked): Promise<Api.Channels> {
  const { threadId, checkpointId, channels } = await channelSizes(context.saver, await threadOf(context, asked));
  return { format: FORMAT, threadId, checkpointId, channels: [...channels] };
}

async function tokensAnswer(context: Context, asked: Asked): Promise<Api.Tokens> {
  const threadIds = [await threadOf(context, asked)];
  const byNode = await tokenTotals(context.saver, "node", { threadIds });
  return { format: FORMAT, byNode, byTask: await tokenTotals(context.saver, "task", { threadIds }) };
}

const LONGEST_QUERY = 500;
/** How far back nodes are looked for by name. */
const NODES_OF = 2_000;

async function searchAnswer({ saver }: Context, { query, signal }: Asked): Promise<Api.SearchAnswer> {
  const text = textOf(query, "q");
  if (text === undefined) throw new HttpError(400, "INVALID_OPTION", "What to search for? The parameter q is missing.");
  if (text.length > LONGEST_QUERY)
    throw new HttpError(400, "INVALID_OPTION", `The parameter q may have ${LONGEST_QUERY} characters.`);
  const threadId = textOf(query, "thread");
  if (threadId !== undefined) await knownThread(saver, threadId);
  const matches: Api.SearchMatch[] = [];
  if (threadId === undefined) {
    const { threads } = await listThreads(saver, { search: text, limit: 20 });
    for (const { threadId: id } of threads) matches.push({ kind: "thread", threadId: id, number: null, near: "", excerpt: id });
  } else {
    matches.push(...(await nodesNamed(saver, threadId, text)));
  }
  const pattern = new RegExp(text.replaceAll(/[$()*+.?[\\\]^{|}]/g, "\\$&"), "i");
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  const timer = setTimeout(abort, SEARCH_MS);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const found = search(saver, { pattern, threadId, limit: MOST_MATCHES, signal: stop.signal });
    let next = await found.next();
    for (; next.done !== true; next = await found.next()) matches.push(next.value);
    const { stopped, threads } = next.value;
    return { format: FORMAT, matches, stopped: stopped === "signal" ? "time" : stopped, threads };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** Each node whose path contains a text, at its newest attempt. */
async function nodesNamed(saver: BaseTurnSaver, threadId: string, text: string): Promise<Api.SearchMatch[]> {
  const found = new Map<string, Api.SearchMatch>();
  let looked = 0;
  for await (const rows of attemptRows(saver, threadId)) {
    const { node, number, taskId } = attemptOf(rows.thought, rows.action);
    if (!found.has(node) && node.toLowerCase().includes(text.toLowerCase()))
      found.set(node, { kind: "node", threadId, number, near: taskId, excerpt: node.replaceAll("|", " › ") });
    looked += 1;
    if (looked === NODES_OF) break;
  }
  return [...found.values()];
}

async function bundleAnswer(context: Context, asked: Asked): Promise<object> {
  const threadId = await threadOf(context, asked);
  const bundle = await bundleOf(context.saver, threadId, asked.query.get("redact") !== "0", context.version);
  return { format: FORMAT, ...bundle };
}
