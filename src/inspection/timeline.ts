import { refusalOf } from "./refusal";
import type { BaseTurnSaver } from "../base-saver";
import { type Effect, toPublicEffect } from "../effects/types";
import { nodePathOf } from "../guards/graph-document";
import { internalsOf } from "../internals";
import type { EffectRow } from "../store/effects";
import type { RunRow, TaskRow, TokenCounts, TurnRow } from "../store/store";
import { isAlive } from "../turns/process-identity";
import { toPublicTurn } from "../turns/turn";
import { uptime } from "../system";
import { numberOf } from "./place";
import { errorOf, standingOf, type Standing } from "./standing";
import { type AttemptRows, attemptRows } from "./turns";
import { errorText, firstLine, lasting } from "./words";

/** A page of a thread's course, oldest task first. */
export interface Timeline {
  threadId: string;
  tasks: TimelineTask[];
  /** For the page of earlier attempts; null if there are none. */
  before: number | null;
  /** The first and the last moment on this page; null if it's empty. What is in flight lasts until now. */
  from: string | null;
  to: string | null;
}

/** A task, or the part of it that is on this page. */
export interface TimelineTask {
  taskId: string;
  graphId: string;
  /** The number of its first row. */
  number: number;
  startedAt: string;
  /** When its last attempt finished; null while something is running or in flight. */
  endedAt: string | null;
  /** `crashed`: nodes were running when the process stopped. `update`: somebody changed the state. */
  state: "finished" | "running" | "crashed" | "failed" | "waiting" | "update";
  /** In words: "finished in 0.3 s, 1 retry". */
  words: string;
  /** Attempts after the first one of a node task. */
  retries: number;
  tokens: TokenCounts;
  /** In the order in which they first ran. */
  lanes: Lane[];
  deaths: Death[];
  /** Whether it began before this page. */
  isCut: boolean;
}

/** A node with its attempts in this task. */
export interface Lane {
  /** The path: `sub|a`. */
  node: string;
  name: string;
  /** 0 for a node of the outermost graph. A nested one comes behind the node that it's in. */
  depth: number;
  bars: Bar[];
}

/** An attempt of a node: it starts with the Thought, and ends with the Action. */
export interface Bar {
  /** The number of its Thought: an address for `turn=`. */
  number: number;
  /** The number of its Action; null while there is none. */
  actionNumber: number | null;
  thoughtId: string;
  actionId: string | null;
  nodeTaskId: string;
  attempt: number;
  /**
   * `in-flight`: it was running when its process stopped, and a resume runs it again. `lost`: the same, and something else came
   * after it.
   */
  status: "ok" | "error" | "interrupted" | "handoff" | "running" | "in-flight" | "lost";
  from: string;
  /** Null while it's running. Of what never finished: when its process was last heard of. */
  to: string | null;
  /** The process that runs it, or that it died with, as far as that is known. */
  pid: number | null;
  durable: boolean;
  tokens: TokenCounts;
  /** The first line of its error. */
  error: string | null;
  effects: Diamond[];
}

/** An effect on its attempt's bar. */
export interface Diamond {
  id: string;
  number: number;
  name: string;
  label: string;
  status: Effect["status"];
  undoStatus: "begun" | "done" | "failed" | null;
  at: string;
  endedAt: string | null;
}

/** A process that stopped while it was running nodes. */
export interface Death {
  /** When it was last heard of. */
  at: string;
  pid: number | null;
  host: string | null;
  /** The paths of the nodes that it was running. */
  nodes: string[];
  /** "process 8868 is gone" */
  words: string;
}

/** No page shows more effects than this; they are listed elsewhere. */
const MOST_EFFECTS = 2_000;
/** Reading why an attempt failed means decoding its content. */
const MOST_ERRORS = 50;

interface TimelineRequest {
  /** The `before` of the previous page. */
  before?: number | undefined;
  /** How many attempts. */
  limit?: number | undefined;
}

/** When a thread's nodes ran, in lanes. Reads one page of its turns, and no state. */
export async function timelineOf(
  saver: BaseTurnSaver,
  threadId: string,
  { before, limit = 200 }: TimelineRequest = {},
): Promise<Timeline> {
  const { store } = internalsOf(saver);
  const rows: AttemptRows[] = [];
  let hasMore = false;
  for await (const row of attemptRows(saver, threadId, before)) {
    if (rows.length === limit) {
      hasMore = true;
      break;
    }
    rows.unshift(row);
  }
  const isNewest = before === undefined;
  const standing = isNewest ? await standingOf(saver, threadId, { doubts: new Map() }) : undefined;
  const first = rows[0]?.thought.seq ?? 0;
  const effects = rows.length === 0 ? [] : await store.listEffects({ threadId, afterSeq: first - 1, limit: MOST_EFFECTS });
  const runs = await store.listRuns(threadId);
  const bars = await barsOf(saver, rows, { effects, runs, standing });
  const tasks = await tasksOf(saver, threadId, rows, bars, { isNewest, hasMore, standing });
  putDeaths(tasks, bars, runs);
  const times = tasks.flatMap(({ startedAt, lanes }) => [
    startedAt,
    ...lanes.flatMap((lane) => lane.bars.map(({ to }) => to ?? new Date().toISOString())),
  ]);
  const sorted = times.sort();
  return {
    threadId,
    tasks,
    before: hasMore ? numberOf(first) : null,
    from: sorted[0] ?? null,
    to: sorted.at(-1) ?? null,
  };
}

/** A bar with what is needed to put it into its place. */
interface PlacedBar {
  bar: Bar;
  path: string;
  taskId: string;
  host: string | null;
}

interface Around {
  effects: readonly EffectRow[];
  runs: readonly RunRow[];
  standing: Standing | undefined;
}

async function barsOf(
  saver: BaseTurnSaver,
  rows: readonly AttemptRows[],
  { effects, runs, standing }: Around,
): Promise<PlacedBar[]> {
  const inFlight = new Set(standing?.inFlight.map(({ number }) => number));
  const alive = runs.find((run) => isAlive(run));
  const dead = deadOf(
    runs,
    rows.findLast(({ action, thought }) => action === undefined && inFlight.has(numberOf(thought.seq ?? 0)))?.thought.createdAt,
  );
  /** All moments at which the run saved something, ascending. */
  const moments = [
    ...rows.flatMap(({ thought, action }) => [thought.createdAt, ...(action === undefined ? [] : [action.createdAt])]),
    ...effects.flatMap(({ startedAt, endedAt, settledBy }) =>
      endedAt === undefined || settledBy !== undefined ? [startedAt] : [startedAt, endedAt],
    ),
  ].sort();
  const placed: PlacedBar[] = [];
  const byNodeTask = new Map<string, PlacedBar[]>();
  let errors = 0;
  for (const { thought, action } of rows) {
    const turn = toPublicTurn(thought);
    const number = numberOf(turn.seq);
    const isOpen = action === undefined && inFlight.has(number);
    const status = action?.status ?? (isOpen ? (alive === undefined ? "in-flight" : "running") : "lost");
    const isFailed = action?.status === "error" && errors < MOST_ERRORS;
    if (isFailed) errors += 1;
    const run = status === "running" ? alive : status === "in-flight" ? dead : undefined;
    const bar: Bar = {
      number,
      actionNumber: action === undefined ? null : numberOf(action.seq ?? 0),
      thoughtId: thought.id,
      actionId: action?.id ?? null,
      nodeTaskId: turn.nodeTaskId,
      attempt: turn.attempt,
      status,
      from: thought.createdAt,
      to: action?.createdAt ?? null,
      pid: run?.pid ?? null,
      durable: action?.durable ?? false,
      tokens: turn.tokens,
      error: isFailed ? await errorLine(saver, action) : null,
      effects: [],
    };
    const one = { bar, path: nodePathOf(turn.nodeNs), taskId: turn.taskId, host: run?.host ?? null };
    placed.push(one);
    const same = byNodeTask.get(turn.nodeTaskId);
    if (same === undefined) byNodeTask.set(turn.nodeTaskId, [one]);
    else same.push(one);
  }
  for (const row of effects) {
    const attempts = byNodeTask.get(row.nodeTaskId) ?? [];
    // A retried effect has moved to the attempt that retried it.
    const at = attempts.findLast(({ bar }) => bar.from <= row.startedAt) ?? attempts[0];
    if (at === undefined) continue;
    at.bar.effects.push(diamondOf(row));
    if (at.bar.to === null && at.bar.pid === null) at.bar.pid = pidOf(row);
  }
  const beat = dead === undefined ? undefined : lastBeat(dead);
  for (const { bar } of placed) {
    if (bar.status === "lost") bar.to = lastSign(moments, bar, nextAttempt(byNodeTask, bar));
    if (bar.status === "in-flight") {
      const saved = lastSign(moments, bar, undefined);
      bar.to = beat !== undefined && beat > saved ? beat : saved;
    }
  }
  return placed;
}

/** The process that is gone while it ran the node that began then. A later run isn't that of the node: it moves or rewinds. */
function deadOf(runs: readonly RunRow[], since: string | undefined): RunRow | undefined {
  return runs.find((run) => !isAlive(run) && (since === undefined || run.startedAt <= since));
}

function nextAttempt(byNodeTask: ReadonlyMap<string, readonly PlacedBar[]>, { nodeTaskId, number }: Bar): string | undefined {
  return byNodeTask.get(nodeTaskId)?.find(({ bar }) => bar.number > number)?.bar.from;
}

/** When something was last saved before the next attempt began. */
function lastSign(moments: readonly string[], { from }: Bar, before: string | undefined): string {
  const last = moments.findLast((at) => before === undefined || at < before);
  return last !== undefined && last > from ? last : from;
}

/** When a run was last heard of; undefined if it doesn't tell. */
function lastBeat({ beatAt, quietMs }: RunRow): string | undefined {
  if (quietMs !== undefined) return new Date(Date.now() - quietMs).toISOString();
  return beatAt > 0 && beatAt <= uptime() ? new Date(Date.now() - (uptime() - beatAt)).toISOString() : undefined;
}

function diamondOf(row: EffectRow): Diamond {
  const { id, seq, name, label, status, undoStatus = null, startedAt, endedAt } = toPublicEffect(row);
  return {
    ...{ id, number: numberOf(seq), name, label, status, undoStatus },
    at: startedAt.toISOString(),
    endedAt: endedAt?.toISOString() ?? null,
  };
}

function pidOf({ process: holder }: EffectRow): number | null {
  const pid = Number(holder.split(" ", 1)[0]);
  return Number.isSafeInteger(pid) && pid > 0 ? pid : null;
}

async function errorLine(saver: BaseTurnSaver, action: TurnRow): Promise<string | null> {
  try {
    const { error } = await saver.turns.state(toPublicTurn(action));
    if (error === undefined) return null;
    return firstLine(errorText(errorOf(error)));
  } catch (error) {
    // The attempt failed, and its row says no more.
    refusalOf(error);
    return null;
  }
}

interface Page {
  isNewest: boolean;
  hasMore: boolean;
  standing: Standing | undefined;
}

async function tasksOf(
  saver: BaseTurnSaver,
  threadId: string,
  rows: readonly AttemptRows[],
  bars: readonly PlacedBar[],
  { isNewest, hasMore, standing }: Page,
): Promise<TimelineTask[]> {
  const { store } = internalsOf(saver);
  const intervals = await store.listTasks(threadId);
  const tokens = new Map((await store.inspect.taskTokens(threadId)).map(({ taskId, ...counts }) => [taskId, counts]));
  const from = hasMore ? (rows[0]?.thought.seq ?? 0) : 0;
  const upto = isNewest ? Infinity : (rows.at(-1)?.thought.seq ?? 0);
  const known = new Map<string, { row: TaskRow; bars: PlacedBar[] }>();
  for (const row of intervals) {
    const isHere = row.seq >= from && row.seq <= upto;
    const isBars = bars.some(({ taskId }) => taskId === row.taskId);
    if ((isHere || isBars) && !known.has(row.taskId)) known.set(row.taskId, { row, bars: [] });
  }
  for (const placed of bars) known.get(placed.taskId)?.bars.push(placed);
  const newest = intervals.at(-1)?.taskId;
  return [...known.values()]
    .sort((one, other) => startOf(one) - startOf(other))
    .map(({ row, bars: own }) => {
      const all = own.map(({ bar }) => bar);
      const state = stateOf(row, all, row.taskId === newest ? standing : undefined);
      const starts = [row.createdAt, ...all.map((bar) => bar.from)].sort();
      const ends = all.map(({ to }) => to ?? "").sort();
      const isOpen = state === "running" || state === "crashed";
      const startedAt = (row.seq < from ? all[0]?.from : starts[0]) ?? row.createdAt;
      const lastAt = ends.at(-1) ?? startedAt;
      // What follows an answered question is no second try.
      const asked = new Set(
        all.flatMap(({ status, attempt, nodeTaskId }) => (status === "interrupted" ? [`${nodeTaskId} ${attempt}`] : [])),
      );
      const retries = all.filter(({ attempt, nodeTaskId }) => attempt > 1 && !asked.has(`${nodeTaskId} ${attempt - 1}`)).length;
      return {
        ...{ taskId: row.taskId, graphId: row.graphId, number: numberOf(row.seq), startedAt, state, retries },
        endedAt: isOpen ? null : lastAt,
        words: wordsOf(state, Date.parse(lastAt) - Date.parse(startedAt), retries),
        tokens: tokens.get(row.taskId) ?? { input: 0, output: 0, cached: 0, reasoning: 0 },
        lanes: lanesOf(own),
        deaths: [],
        isCut: row.seq < from,
      };
    });
}

function startOf({ row, bars }: { row: TaskRow; bars: readonly PlacedBar[] }): number {
  return bars[0]?.bar.number ?? numberOf(row.seq);
}

/** @param standing of the thread, for its newest task */
function stateOf({ kind }: TaskRow, bars: readonly Bar[], standing: Standing | undefined): TimelineTask["state"] {
  if (kind === "update" && bars.length === 0) return "update";
  const last = new Map(bars.map((bar) => [bar.nodeTaskId, bar.status]));
  const has = (status: Bar["status"]): boolean => [...last.values()].includes(status);
  if (has("running") || standing?.state === "running") return "running";
  if (has("in-flight")) return "crashed";
  if (standing !== undefined) {
    if (standing.state === "failed" || standing.failures.length > 0) return "failed";
    if (standing.state === "waiting" || standing.questions.length > 0) return "waiting";
    return standing.state === "unfinished" || standing.state === "interrupted" ? "crashed" : "finished";
  }
  return has("error") ? "failed" : has("interrupted") ? "waiting" : "finished";
}

function wordsOf(state: TimelineTask["state"], ms: number, retries: number): string {
  const more = retries === 0 ? "" : `, ${retries === 1 ? "1 retry" : `${retries} retries`}`;
  switch (state) {
    case "running":
      return `running${more}`;
    case "waiting":
      return `waits for an answer${more}`;
    case "update":
      return "somebody changed the state";
    case "finished":
      return `finished in ${lasting(ms)}${more}`;
    case "crashed":
    case "failed":
      return `${state} after ${lasting(ms)}${more}`;
  }
}

/** A nested node comes behind the node that it's in. */
function lanesOf(bars: readonly PlacedBar[]): Lane[] {
  const lanes = new Map<string, Lane>();
  for (const { bar, path } of bars) {
    const names = path.split("|");
    const lane = lanes.get(path) ?? { node: path, name: names.at(-1) ?? path, depth: names.length - 1, bars: [] };
    lanes.set(path, lane);
    lane.bars.push(bar);
  }
  const all = [...lanes.values()];
  const ordered: Lane[] = [];
  const add = (lane: Lane): void => {
    if (ordered.includes(lane)) return;
    ordered.push(lane);
    for (const inner of all) if (inner.depth === lane.depth + 1 && inner.node.startsWith(`${lane.node}|`)) add(inner);
  };
  for (const lane of all) if (!all.some((outer) => lane.node.startsWith(`${outer.node}|`))) add(lane);
  for (const lane of all) add(lane);
  return ordered;
}

/** A process that is gone leaves a mark until somebody takes over its thread. Of earlier ones, only what they left open tells. */
function putDeaths(tasks: readonly TimelineTask[], bars: readonly PlacedBar[], runs: readonly RunRow[]): void {
  const dead = runs.find((run) => !isAlive(run));
  const groups = new Map<string, PlacedBar[]>();
  for (const placed of bars) {
    const { bar, taskId } = placed;
    if (bar.status !== "lost" && !(bar.status === "in-flight" && dead !== undefined)) continue;
    const key = `${taskId} ${bar.to}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [placed]);
    else group.push(placed);
  }
  for (const group of groups.values()) {
    const [{ bar, taskId }] = group as [PlacedBar];
    const isOpen = bar.status === "in-flight";
    const pid = group.find((one) => one.bar.pid !== null)?.bar.pid ?? null;
    const words = isOpen
      ? `${pid === null ? "its process" : `process ${pid}`} is gone`
      : pid === null
        ? "it stopped here, and was continued"
        : `process ${pid} stopped here`;
    const host = group.find((one) => one.host !== null)?.host ?? null;
    const nodes = [...new Set(group.map(({ path }) => path))];
    tasks.find((task) => task.taskId === taskId)?.deaths.push({ at: bar.to ?? bar.from, pid, host, nodes, words });
  }
}
