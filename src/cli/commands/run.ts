import { readFileSync } from "node:fs";
import type { BaseTurnSaver } from "../../base-saver";
import { describe, TurnsError } from "../../errors";
import type { GraphRunner } from "../../graph-runner";
import { nodePathOf } from "../../guards/graph-document";
import { movingRefusal } from "../../inspection/moving";
import { numberOf, threadNamed } from "../../inspection/place";
import { plain } from "../../inspection/plain";
import { titled } from "../../inspection/effects";
import { type OpenQuestion, standingOf, type Standing } from "../../inspection/standing";
import { inbox } from "../../inspection/threads";
import type { Refusal } from "../../inspection/refusal";
import { type Attempt, logOf } from "../../inspection/turns";
import { internalsOf } from "../../internals";
import { checkedUndos } from "../../rewind/undos";
import { lostThreads, type PlannedRecovery, type RecoverReport } from "../../runner/recover";
import { settledBy, type SettledBy, type ThreadStatus } from "../../runner/thread-status";
import type { StuckThread } from "../../turns/stuck";
import { atLeastOne, command, type CommandSpec, duration, manyNames, oneOf, whole } from "../command";
import { DONE, FAILED, Interrupted, messageOf, NEEDS_DECISION, UsageError } from "../exit";
import { loadGraph } from "../graph-module";
import { interruptible } from "../interrupt";
import { type Column, type Look, moreText, pairs, table } from "../look";
import { print } from "../output";
import { toCopy } from "../place";
import { startProgress } from "../progress";
import { errorText, nodeName, turns } from "../../inspection/words";
import { ago, brief, oneLine, plural, safe } from "../text";
import { CHANGE, type ChangeOptions, planned } from "./changes";

/* Commands that run a user's graph, which `--graph` names. */

type Runner = GraphRunner<never>;

const GRAPH = ["--graph <module>", "the module that exports the graph: ./agent.ts#graph"] as const;

interface GraphOptions extends ChangeOptions {
  graph?: string;
}

/** Lets a runner of the named graph do something. Its own saver, if it has one, is closed then. */
async function withRunner<T>(
  saver: BaseTurnSaver,
  graph: string | undefined,
  use: (runner: Runner, graph: string) => Promise<T>,
): Promise<T> {
  if (graph === undefined)
    throw new UsageError("Which graph? --graph is missing.", "Give its module and export: --graph ./agent.ts#graph.");
  const { runner, remark } = await loadGraph(graph, saver);
  if (remark !== undefined) process.stderr.write(`turns: ${remark}\n`);
  try {
    return await use(runner, graph);
  } finally {
    if (runner.saver !== saver) await (runner.saver.close() as unknown);
  }
}

const STOPPING = "stopping behind the nodes that are running";

/** What a resume would do. */
export interface ResumePlan {
  threadId: string;
  taskId: string | null;
  does: ThreadStatus["onResume"];
  /** Why it doesn't simply continue. */
  reason: { code: string; message: string } | null;
  kept: readonly string[];
  runs: readonly string[];
  /** `title`: the effect by what it was called with. */
  inDoubt: readonly { id: string; name: string; label: string; title: string; node: string; settledBy: SettledBy }[];
  questions: readonly string[];
}

/** What became of a run. */
export interface RunReport {
  threadId: string;
  state: Standing["state"];
  ran: readonly Pick<Attempt, "number" | "node" | "attempt" | "status">[];
  questions: readonly OpenQuestion[];
  failures: Standing["failures"];
}

interface ResumeOptions extends GraphOptions {
  drift?: "restart" | "refuse" | "continue";
  accept?: readonly string[];
}

const RESUME = command<ResumeOptions>({
  name: "resume",
  args: "<thread>",
  summary: "continue a thread where it stopped, with its graph",
  examples: [
    "turns resume order-17 --graph ./agent.ts#graph",
    "turns resume order-17 --graph ./agent.ts#graph --yes",
    "turns resume order-17 --graph ./agent.ts --drift continue --yes",
  ],
  options: [
    GRAPH,
    ["--drift <how>", "if the graph has changed: continue, restart or refuse", oneOf(["continue", "restart", "refuse"])],
    ["--accept <nodes>", "keep what these changed nodes did: fetch,plan", manyNames],
    ...CHANGE,
  ],
  run: async (saver, [thread = ""], { graph: module, drift: how, accept, ...options }) => {
    if (how !== undefined && accept !== undefined) throw new UsageError("--drift and --accept exclude each other.", "Give one.");
    const threadId = await threadNamed(saver, thread);
    const drift = accept === undefined ? how : { accept };
    return withRunner(saver, module, async (runner, graph) => {
      const status = await runner.status(threadId);
      const plan = await resumePlan(saver, status, accept === undefined ? how : "continue");
      const isWaiting = plan.questions.length > 0 && status.failed.length + status.inFlight.length === 0;
      const moving = await movingRefusal(saver, threadId);
      const person = plan.does === "refuse" ? null : isWaiting ? answerFirst(plan, graph) : doubtFirst(plan);
      const refused = moving ?? (plan.does === "refuse" ? refusalOf(status.reason) : person);
      if (plan.does === "return" || (person !== null && moving === null)) {
        const data = { done: false, plan, report: null, refused };
        return {
          data,
          text: (look) => resumeText(plan, status, look, refused?.message ?? null),
          exit: person === null ? DONE : NEEDS_DECISION,
        };
      }
      return planned(options, {
        plan,
        planText: (look) => resumeText(plan, status, look, null),
        refused,
        act: () => run(runner, threadId, graph, () => runner.resume({ threadId, ...(drift && { drift }) } as never)),
      });
    });
  },
});

function refusalOf(reason: ThreadStatus["reason"]): Refusal | null {
  if (reason === undefined) return null;
  const { code, message } = reason;
  return {
    code,
    message: code === "GRAPH_CHANGED" ? `${message} Here: --drift continue, --drift restart, or --accept NODES.` : message,
  };
}

async function resumePlan(saver: BaseTurnSaver, status: ThreadStatus, drift: ResumeOptions["drift"]): Promise<ResumePlan> {
  const { threadId, taskId, reason, completed, failed, inFlight, next, inDoubt, waiting } = status;
  const decided = reason?.code === "GRAPH_CHANGED" ? drift : undefined;
  const does = decided ?? status.onResume;
  const isContinued = does === "continue";
  const open = [...inFlight, ...failed].map(({ path }) => path);
  return {
    ...{ threadId, taskId: taskId ?? null, does },
    reason: reason === undefined ? null : { code: reason.code, message: reason.message },
    kept: isContinued ? unique(completed.map(({ path }) => path)) : [],
    runs: isContinued ? unique([...open, ...next.filter((name) => !open.some((path) => path.startsWith(`${name}|`)))]) : [],
    inDoubt: (await titled(saver, inDoubt)).map((effect) => {
      const { id, name, label, title, nodeNs } = effect;
      return { id, name, label, title, node: nodePathOf(nodeNs), settledBy: settledBy(effect, checkedUndos(undefined)) };
    }),
    questions: waiting.map(({ id, path, value }) => `${path} asks ${brief(plain(value))} (interrupt ${id ?? "without id"})`),
  };
}

const unique = (names: readonly string[]): string[] => [...new Set(names)];

const answerFirst = ({ threadId }: ResumePlan, graph: string): Refusal => {
  return { code: "UNFINISHED_WORK", message: `It waits for an answer: ${answerCommand(threadId, graph)}` };
};

/** No resume gets past an effect that only a person can settle. */
function doubtFirst({ does, inDoubt }: ResumePlan): Refusal | null {
  const first = does === "continue" ? inDoubt.find(({ settledBy: by }) => by === "person") : undefined;
  if (first === undefined) return null;
  return {
    code: "EFFECT_IN_DOUBT",
    message: `Nobody knows whether ${first.title} of ${first.node} happened: ${settleFirst(first.id)}`,
  };
}

const settleFirst = (effect: string): string =>
  `settle it first, as done or not-done: ${toCopy(turns("effect resolve", [effect, "done"]))}`;

const answerCommand = (question: string, graph: string): string =>
  toCopy(turns("inbox answer", [question], ["--value", "JSON"], ["--graph", graph], "--yes"));

function resumeText(plan: ResumePlan, status: ThreadStatus, look: Look, refused: string | null): string {
  const does: Readonly<Record<ResumePlan["does"], string>> = {
    continue: "It continues where it stopped.",
    restart: "It starts again from its input.",
    return: "Nothing is left to do: it is finished.",
    refuse: "It isn't resumed now.",
  };
  const list = (name: string, of: readonly string[]): [string, string][] =>
    of.length === 0 ? [] : [[name, oneLine(of.map((path) => path.replaceAll("|", " › ")).join(", "))]];
  const failures = status.failed.map(({ path, attempt, error }) =>
    look.paint("red", oneLine(`${path} failed (attempt ${attempt})${error === undefined ? "" : `: ${errorText(error)}`}`)),
  );
  const flight = status.inFlight.map(({ path, attempt, at }) =>
    oneLine(
      `${path} ${status.running ? "is in flight" : "was in flight"} (attempt ${attempt}, since ${ago(at.toISOString(), look.now)})${status.running ? "" : " when its process stopped"}`,
    ),
  );
  const facts = [
    ...list("kept", plan.kept),
    ...list("runs", plan.runs),
    ...plan.inDoubt.map((effect): [string, string] => ["in doubt", oneLine(doubtText(effect))]),
    ...(plan.does === "restart" && plan.reason !== null ? list("because", [plan.reason.message]) : []),
  ];
  return [
    `${look.paint("bold", oneLine(plan.threadId))}  ${refused === null ? does[plan.does] : plan.questions.length > 0 ? "It waits." : does.refuse}`,
    ...failures,
    ...flight,
    ...plan.questions.map((question) => look.paint("yellow", oneLine(question))),
    ...(facts.length === 0 ? [] : [pairs(facts, look)]),
    ...(refused === null ? [] : [`\n${refused}`]),
  ].join("\n");
}

function doubtText({ id, title, node, settledBy: by }: ResumePlan["inDoubt"][number]): string {
  const settle = settleFirst(id);
  const how: Readonly<Record<SettledBy, string>> = {
    probe: "its probe is asked",
    key: "it's called again with the same key",
    rewind: "a rewind settles it",
    "maybe-probe": `unless it has a probe, ${settle}`,
    person: settle,
  };
  return `${title} of ${node}: ${how[by]}`;
}

/** Runs a thread, and tells what became of it. Ctrl-C stops it behind the nodes that run. */
async function run(
  { saver }: Runner,
  threadId: string,
  graph: string,
  work: () => Promise<unknown>,
): Promise<{ report: RunReport; text: (look: Look) => string; exit: number }> {
  const { store } = internalsOf(saver);
  const [newest] = await store.inspect.turnsBefore({ threadId, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 1 });
  const before = newest?.seq === undefined ? 0 : numberOf(newest.seq);
  const stopFollowing = await tellNodes(saver, threadId);
  let failure: unknown;
  try {
    await interruptible(async (signal) => {
      const stop = (): void =>
        void saver.drain().catch((error: unknown) => process.stderr.write(`turns: ${safe(messageOf(error))}\n`));
      signal.addEventListener("abort", stop, { once: true });
      await work();
    }, STOPPING);
  } catch (error) {
    if (TurnsError.is(error, "STORE_DRAINING"))
      throw new Interrupted(
        "Stopped. Everything that completed is kept.",
        `Continue: ${toCopy(turns("resume", [threadId], ["--graph", graph], "--yes"))}`,
      );
    if (TurnsError.is(error)) throw error;
    failure = error;
  } finally {
    stopFollowing();
  }
  const { attempts } = await logOf(saver, threadId, { limit: 1_000 });
  const ran = attempts
    .filter(({ number }) => number > before)
    .reverse()
    .map(({ number, node, attempt, status }) => ({ number, node, attempt, status }));
  const { state, questions, failures } = await standingOf(saver, threadId, { doubts: new Map() });
  const known = failures.length > 0 || failure === undefined ? failures : [{ node: "", error: errorOf(failure) }];
  const report = { threadId, state, ran, questions, failures: known };
  return { report, text: (look) => reportText(report, look, graph), exit: failure === undefined ? DONE : FAILED };
}

function errorOf(error: unknown): { name: string; message: string } {
  return error instanceof Error ? { name: error.name, message: error.message } : { name: "Error", message: String(error) };
}

/** Tells on a terminal which nodes run, from now on. @returns a function that ends it */
async function tellNodes(saver: BaseTurnSaver, threadId: string): Promise<() => void> {
  const progress = startProgress();
  const stop = new AbortController();
  const changes = saver.follow({ threadId, signal: stop.signal });
  const follow = async (): Promise<void> => {
    const running = new Set<string>();
    let done = 0;
    for await (const change of changes) {
      if (change.kind !== "turn") continue;
      if (change.turnType === "Thought") running.add(change.nodeName);
      else if (running.delete(change.nodeName)) done += 1;
      progress(`${plural(done, "node")} finished${running.size === 0 ? "" : `, now ${[...running].join(", ")}`}`);
    }
  };
  await changes.ready.catch(() => undefined);
  const following = follow().catch(() => undefined);
  return () => {
    stop.abort();
    void following.then(() => progress(undefined));
  };
}

function reportText({ threadId, state, ran, questions, failures }: RunReport, look: Look, graph: string): string {
  const names = ran.map(({ node, status }) => (status === "ok" ? node : `${node} (${status})`));
  const asked = questions.flatMap(({ node, value, id }) => [
    look.paint("yellow", oneLine(`${nodeName(node)} asks ${brief(value)}`)),
    `Answer: ${answerCommand(id ?? threadId, graph)}`,
  ]);
  const failed = failures.map(({ node, error }) =>
    look.paint("red", oneLine(`${node === "" ? "It" : node} failed: ${errorText(error)}`)),
  );
  const command = failures.length > 0 ? turns("log", [threadId], "--failed") : turns("state", [threadId]);
  const next = questions.length > 0 ? [] : [`Next: ${toCopy(command)}`];
  return [
    `${look.paint("bold", oneLine(threadId))}  ${look.paint(failures.length > 0 ? "red" : "green", state)}`,
    `Ran: ${oneLine(names.length === 0 ? "nothing" : names.join(", "))}`,
    ...failed,
    ...asked,
    ...next,
  ].join("\n");
}

const ANSWER = command<GraphOptions & { value?: string }>({
  name: "inbox answer",
  args: "<question>",
  summary: "answer a question and let its thread continue",
  examples: [
    "turns inbox answer 4f2a9c1e --value '\"approve\"' --graph ./agent.ts#graph",
    "turns inbox answer order-17 --value '{\"ok\":true}' --graph ./agent.ts#graph --yes",
    "turns inbox answer 4f2a9c1e --value - --graph ./agent.ts#graph --yes < answer.json",
  ],
  options: [["--value <json>", "the answer; - reads stdin"], GRAPH, ...CHANGE],
  run: async (saver, [given = ""], { value, graph: module, ...options }) => {
    const question = questionNamed(await inbox(saver), given);
    if (value === undefined)
      throw new UsageError(
        "Which answer? --value is missing.",
        `${nodeName(question.node)} asks ${brief(question.value)}. Give JSON: --value '"yes"'.`,
      );
    const answer = jsonOf(value);
    const { threadId, id } = question;
    return withRunner(saver, module, async (runner, graph) => {
      const { onResume, reason } = await runner.status(threadId);
      return planned(options, {
        refused: (await movingRefusal(saver, threadId)) ?? (onResume === "refuse" ? refusalOf(reason) : null),
        plan: { question, answer },
        planText: (look) =>
          [
            `${look.paint("bold", oneLine(threadId))}  ${oneLine(`${nodeName(question.node)} asks ${brief(question.value)}`)}`,
            `It would get ${brief(answer)}, and the thread continues.`,
          ].join("\n"),
        act: async () => {
          const { Command } = await import("@langchain/langgraph");
          const command = new Command({ resume: id === null ? answer : { [id]: answer } });
          return run(runner, threadId, graph, () => runner.resume({ threadId, command } as never));
        },
      });
    });
  },
});

/**
 * By a thread with one question, by id, or by its beginning. An empty text names nothing.
 * @throws {UsageError} if it names several
 * @throws {TurnsError} UNKNOWN_INTERRUPT if none is open: it may have been answered meanwhile
 */
function questionNamed(questions: readonly OpenQuestion[], text: string): OpenQuestion {
  const isNamed = ({ threadId, id }: OpenQuestion): boolean => threadId === text || id?.startsWith(text) === true;
  if (text === "") throw new UsageError("No open question has an empty id.", "turns inbox lists the questions.");
  const [found, ...others] = questions.filter(isNamed);
  if (found !== undefined && others.length === 0) return found;
  throw found === undefined
    ? new TurnsError("UNKNOWN_INTERRUPT", {
        problem: `No open question has the id ${describe(text)}, or is asked on a thread with that id.`,
        remedy: "It may have an answer already. Nothing was changed.",
        data: { threadId: text, waiting: [], unknown: [text] },
      })
    : new UsageError(
        `${JSON.stringify(text)} names ${others.length + 1} questions.`,
        "turns inbox lists them. Give more characters of the interrupt's id.",
      );
}

/** @throws {UsageError} */
function jsonOf(given: string): unknown {
  try {
    return JSON.parse(given === "-" ? readFileSync(0, "utf8") : given) as unknown;
  } catch (error) {
    throw new UsageError(`--value isn't JSON: ${(error as Error).message}.`, "Quote a text twice: --value '\"approve\"'.");
  }
}

/** What a recovery would do with a thread. */
export interface RecoveryPlanLine {
  threadId: string;
  does: "continue" | "restart" | "skip";
  why: string;
}

interface RecoverCommandOptions extends GraphOptions {
  concurrency?: number;
  tries?: number;
  includeStuck?: boolean;
  watch?: boolean;
  every?: number;
}

const RECOVER = command<RecoverCommandOptions>({
  name: "recover",
  summary: "resume all threads whose process is gone, with their graph",
  examples: [
    "turns recover --graph ./agent.ts#graph",
    "turns recover --graph ./agent.ts#graph --concurrency 8 --yes",
    "turns recover --graph ./agent.ts#graph --watch --yes",
  ],
  options: [
    GRAPH,
    ["--concurrency <n>", "how many threads run at once (default 4)", whole],
    ["--tries <n>", "after how many tries a thread is given up (default 5)", whole],
    ["--include-stuck", "also try the threads of turns stuck again"],
    ["--watch", "again and again, until Ctrl-C; one line of JSON for each report without a terminal"],
    ["--every <duration>", "with --watch: how long to wait between two looks (default 5s)", duration],
    ...CHANGE,
  ],
  run: async (saver, _, { graph: module, concurrency, tries, includeStuck = false, watch = false, every, ...options }) =>
    withRunner(saver, module, async (runner, graph) => {
      const threads: RecoveryPlanLine[] = [];
      for (const threadId of await lostThreads(runner.saver, { includeStuck })) {
        const moving = await movingRefusal(runner.saver, threadId);
        threads.push(
          moving === null
            ? recoveryOf(await runner.recoveryOf(threadId))
            : { threadId, does: "skip", why: `${moving.code}: ${moving.message}` },
        );
      }
      const request = { includeStuck, ...(concurrency !== undefined && { concurrency }), ...(tries !== undefined && { tries }) };
      return planned(options, {
        plan: { threads },
        isIdle: threads.length === 0 && !watch,
        hint: allSkipped(threads) && !watch ? "Nothing to do: all of them are skipped." : undefined,
        planText: (look) => recoveryText(threads, look),
        act: async () => {
          const goOn = toCopy(turns("recover", [], ["--graph", graph], "--yes"));
          if (watch) return watched(runner, { ...request, ...(every !== undefined && { everyMs: every }) }, goOn);
          const report = await drained(runner, () => runner.recover(request as never), goOn);
          return { report: plainReport(report), text: () => String(report), exit: exitOf(report) };
        },
      });
    }),
});

function recoveryOf({ status, skips, doubts }: PlannedRecovery): RecoveryPlanLine {
  const { threadId, onResume, inFlight, failed } = status;
  const skip = (why: string): RecoveryPlanLine => ({ threadId, does: "skip", why });
  if (skips === "running") return skip("a live process runs it");
  if (skips !== undefined) return skip(`${skips.code}: ${firstSentence(skips.message)}`);
  const open = [...inFlight, ...failed].map(({ path }) => path).join(", ");
  const stopped = open === "" ? "it stopped between two steps" : `it stopped at ${open}`;
  const probed = doubts
    .map(({ name }) => `; unless ${name} has a probe, somebody has to settle it first`)
    .slice(0, 1)
    .join("");
  return { threadId, does: onResume === "restart" ? onResume : "continue", why: stopped + probed };
}

const allSkipped = (threads: readonly RecoveryPlanLine[]): boolean =>
  threads.length > 0 && threads.every(({ does }) => does === "skip");

const firstSentence = (text: string): string => text.split(/\.(?=\s|$)/, 1)[0] ?? "";

const RECOVERY_COLUMNS: readonly Column<RecoveryPlanLine>[] = [
  { title: "THREAD", value: ({ threadId }) => threadId, shrinks: 12 },
  { title: "DOES", value: ({ does }) => does, colour: ({ does }) => (does === "skip" ? "yellow" : "green") },
  { title: "WHY", value: ({ why }) => why, shrinks: 20 },
];

function recoveryText(threads: readonly RecoveryPlanLine[], look: Look): string {
  return threads.length === 0 ? "No thread lost its process." : table(threads, RECOVERY_COLUMNS, look);
}

/** Ctrl-C stops the runs behind their nodes. @throws {Interrupted} */
async function drained<T>({ saver }: Runner, work: (signal: AbortSignal) => Promise<T>, goOn: string): Promise<T> {
  let draining: Promise<unknown> | undefined;
  const done = await interruptible(async (signal) => {
    const stop = (): void => {
      draining = saver.drain();
      // It's awaited only after the work.
      draining.catch(() => undefined);
    };
    signal.addEventListener("abort", stop, { once: true });
    return work(signal);
  }, STOPPING);
  if (draining === undefined) return done;
  await draining;
  throw new Interrupted("Stopped. Everything that completed is kept.", `Continue: ${goOn}`);
}

/** Reports come as they are: a line of JSON each without a terminal. */
async function watched(runner: Runner, request: object, goOn: string): Promise<never> {
  return drained(
    runner,
    async (signal) => {
      for await (const report of runner.recoveries({ ...request, signal }))
        print(`${process.stdout.isTTY ? String(report) : JSON.stringify({ format: 1, ...plainReport(report) })}\n`);
      return undefined as never;
    },
    goOn,
  );
}

function plainReport({ resumed, skipped, failed, givenUp }: RecoverReport) {
  return {
    resumed: resumed.map(({ threadId, taskId }) => ({ threadId, taskId: taskId ?? null })),
    skipped: skipped.map(({ threadId, taskId, reason }) => ({ threadId, taskId: taskId ?? null, reason })),
    failed: failed.map((one) => ({ ...stuckLine(one), retryAt: one.retryAt.toISOString() })),
    givenUp: givenUp.map(stuckLine),
  };
}

/** A failed run is a failure; a thread that only a person can help is a decision. */
function exitOf({ skipped, failed, givenUp }: RecoverReport): number {
  if (failed.length + givenUp.length > 0) return FAILED;
  return skipped.some(({ reason }) => reason.code !== "FINISHED" && reason.code !== "NOTHING_TO_RESUME") ? NEEDS_DECISION : DONE;
}

/** A thread that recovery has given up. */
export interface StuckLine {
  threadId: string;
  taskId: string | null;
  node: string | null;
  tries: number;
  at: string;
  error: { name: string; code: string | null; message: string | null };
}

function stuckLine({ threadId, taskId, nodeName, tries, at, error }: StuckThread): StuckLine {
  return {
    ...{ threadId, taskId: taskId ?? null, node: nodeName ?? null, tries, at: at.toISOString() },
    error: { name: error.name, code: error.code ?? null, message: error.message ?? null },
  };
}

const STUCK_COLUMNS: readonly Column<StuckLine>[] = [
  { title: "THREAD", value: ({ threadId }) => threadId, shrinks: 12 },
  { title: "NODE", value: ({ node }) => node ?? "", shrinks: 8 },
  { title: "TRIES", value: ({ tries }) => String(tries), align: "right" },
  { title: "LAST", value: ({ at }, { now }) => ago(at, now), align: "right" },
  { title: "ERROR", value: ({ error }) => [error.code ?? error.name, error.message].filter(Boolean).join(": "), shrinks: 20 },
];

export const STUCK = command<{ limit?: number; cursor?: string }>({
  name: "stuck",
  summary: "threads that recovery has given up, with why",
  examples: ["turns stuck", "turns stuck --json", "turns recover --include-stuck --graph ./agent.ts#graph --yes"],
  options: [
    ["--limit <n>", "at most so many (default 50)", atLeastOne],
    ["--cursor <thread>", "continue where the last page stopped"],
  ],
  run: async (saver, _, { limit = 50, cursor }) => {
    const page = await saver.turns.stuck({ limit, ...(cursor !== undefined && { after: cursor }) });
    const stuck = page.map(stuckLine);
    const text = (look: Look): string =>
      stuck.length === 0 ? "Recovery has given up no thread." : table(stuck, STUCK_COLUMNS, look) + moreText(page.cursor, look);
    return { data: { stuck, cursor: page.cursor ?? null }, list: "stuck", text };
  },
});

export const RUNS: readonly CommandSpec[] = [RESUME, RECOVER, ANSWER];
