import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { FIRST_ATTEMPTS } from "../addresses";
import type { Bar, Death, Lane, TimelineAnswer, TimelineTask } from "../api";
import { ask } from "./ask";
import { isInDoubt } from "./effects";
import { go, usePlace } from "./place";
import { rowsOfLane } from "./rows";
import { scaleOf, type Scale } from "./scale";
import { store } from "./store";
import { Pill, Text } from "./text";
import { Rows } from "./virtual";
import { clock, duration, now, plural, short, utc } from "./words";

/** How many attempts the timeline shows; earlier ones are added when asked for. */
export const shownAttempts = store(FIRST_ATTEMPTS);

/** The server gives so many at once. */
const MOST_AT_ONCE = 2_000;

/** The newest attempts of a thread, in as many requests as it takes. */
export async function wholeTimeline(address: string, signal: AbortSignal): Promise<TimelineAnswer> {
  const asked = new URL(address, location.href);
  let left = Number(asked.searchParams.get("limit"));
  let all: TimelineAnswer | undefined;
  while (all === undefined || (all.before !== null && left > 0)) {
    asked.searchParams.set("limit", String(Math.min(MOST_AT_ONCE, left)));
    if (all?.before != null) asked.searchParams.set("before", String(all.before));
    left -= MOST_AT_ONCE;
    const page: TimelineAnswer = await ask<TimelineAnswer>(asked.pathname + asked.search, signal);
    all = { ...page, to: all?.to ?? page.to, tasks: [...page.tasks, ...(all?.tasks ?? [])] };
  }
  return all;
}

/** Whether all tasks share one scale, or each has its own; undefined: by how many there are. */
const scaling = store<"thread" | "task" | undefined>(undefined);
const MOST_ON_ONE_SCALE = 12;

export const toggleScale = (timeline: TimelineAnswer): void =>
  scaling.set(scaleOfAll(timeline, scaling.get()) === "thread" ? "task" : "thread");
const scaleOfAll = ({ tasks }: TimelineAnswer, chosen: "thread" | "task" | undefined): "thread" | "task" =>
  chosen ?? (tasks.length <= MOST_ON_ONE_SCALE ? "thread" : "task");

type Row =
  | { kind: "earlier" }
  | { kind: "task"; task: TimelineTask; scale: Scale }
  | {
      kind: "lane";
      task: TimelineTask;
      lane: Lane;
      bars: readonly Bar[];
      line: number;
      scale: Scale;
      isLast: boolean;
      inside: number;
    }
  | { kind: "next"; task: TimelineTask; node: string };

const STATES: Readonly<Record<TimelineTask["state"], string>> = {
  finished: "ok",
  running: "run",
  crashed: "fly",
  failed: "bad",
  waiting: "warn",
  update: "plain",
};

/** The attempts of a timeline, in the order in which they began. */
export const barsOf = (timeline: TimelineAnswer | undefined): (Bar & { node: string; taskId: string })[] =>
  (timeline?.tasks ?? [])
    .flatMap(({ taskId, lanes }) => lanes.flatMap(({ node, bars }) => bars.map((bar) => ({ ...bar, node, taskId }))))
    .sort((left, right) => left.number - right.number);

/** The timeline of a thread: one lane per node, grouped by task. */
export function TimelineView({
  timeline,
  next,
  selected,
}: {
  timeline: TimelineAnswer;
  /** Nodes that a resume runs and that haven't begun. */
  next: readonly string[];
  selected: number | undefined;
}): VNode {
  const { inside } = usePlace();
  const chosen = scaling.use();
  utc.use();
  const isRunning = timeline.to !== null && timeline.tasks.some(({ state }) => state === "running");
  const clockNow = now.use();
  const until = isRunning ? clockNow : Date.parse(timeline.to ?? "0");
  const mode = scaleOfAll(timeline, chosen);
  const [rows, scale] = useMemo(
    () => rowsOf(timeline, { mode, until, inside, next }),
    [timeline, mode, until, inside, next.join("|")],
  );
  const at = rows.findIndex((row) => row.kind === "lane" && row.bars.some(({ number }) => number === selected));
  const parents = (inside ?? "").split("|").filter((part) => part !== "");
  return (
    <section class="lanes scroll" aria-label="Timeline">
      <div class="ruler">
        <div>node</div>
        <div class="ticks" aria-hidden="true">
          {mode === "thread"
            ? [
                ...scale.ticks.map((tick) => (
                  <span key={tick.at} style={{ left: `${tick.left * 100}%` }}>
                    {tick.full ? clock(tick.at) : clock(tick.at).slice(-3)}
                  </span>
                )),
                ...scale.idle.map(({ left, right, ms }) => (
                  <i
                    key={left}
                    class="idle"
                    title={`nothing ran for ${duration(ms)}`}
                    style={{ left: `${left * 100}%`, width: `${(right - left) * 100}%` }}
                  />
                )),
              ]
            : "each task by its own scale"}
        </div>
      </div>
      {parents.length > 0 && (
        <nav class="crumbs" aria-label="Inside">
          <button type="button" class="quiet" onClick={() => go({ inside: undefined })}>
            whole graph
          </button>
          {parents.map((name, index) => (
            <span key={name}>
              {" › "}
              {index === parents.length - 1 ? (
                <b>
                  <Text of={name} />
                </b>
              ) : (
                <button type="button" class="quiet" onClick={() => go({ inside: parents.slice(0, index + 1).join("|") })}>
                  <Text of={name} />
                </button>
              )}
            </span>
          ))}
        </nav>
      )}
      {rows.length === 0 && <p class="empty">No node has run yet.</p>}
      <Rows
        count={rows.length}
        height={ROW}
        keep={at}
        role="list"
        label="Tasks and their nodes"
        row={(index) => {
          const row = rows[index];
          return row === undefined ? null : (
            <RowView key={keyOf(row)} row={row} selected={selected} until={until} total={rows.length} index={index} />
          );
        }}
      />
    </section>
  );
}

const ROW = 28;

const keyOf = (row: Row): string => {
  if (row.kind === "earlier") return "earlier";
  const task = `${row.task.number} ${row.task.taskId}`;
  return row.kind === "task" ? task : `${task} ${row.kind === "lane" ? `${row.line} ${row.lane.node}` : `next ${row.node}`}`;
};

function rowsOf(
  timeline: TimelineAnswer,
  { mode, until, inside, next }: { mode: "thread" | "task"; until: number; inside: string | undefined; next: readonly string[] },
): [Row[], Scale] {
  const tasks = timeline.tasks.map((task) => ({ ...task, lanes: task.lanes.filter(({ node }) => isInside(node, inside)) }));
  const all = scaleOf(tasks, until);
  const rows: Row[] = timeline.before === null ? [] : [{ kind: "earlier" }];
  tasks.forEach((task, index) => {
    if (task.lanes.length === 0 && inside !== undefined) return;
    const scale = mode === "thread" ? all : scaleOf([task], until);
    rows.push({ kind: "task", task, scale });
    task.lanes.forEach((lane, place) => {
      const below = timeline.tasks[index]?.lanes.filter(({ node }) => node.startsWith(`${lane.node}|`)).length ?? 0;
      const isLast = place === task.lanes.length - 1;
      rowsOfLane(lane.bars).forEach((bars, line) =>
        rows.push({ kind: "lane", task, lane, bars, line, scale, isLast, inside: below }),
      );
    });
    if (index === tasks.length - 1 && inside === undefined)
      for (const node of next) if (!task.lanes.some((lane) => lane.node === node)) rows.push({ kind: "next", task, node });
  });
  return [rows, all];
}

const isInside = (node: string, inside: string | undefined): boolean =>
  inside === undefined || inside === "" || node.startsWith(`${inside}|`);

const depthOf = (lane: Lane, inside: string | undefined): number =>
  Math.max(0, lane.depth - (inside === undefined || inside === "" ? 0 : inside.split("|").length));

function RowView({
  row,
  selected,
  until,
  index,
  total,
}: {
  row: Row;
  selected: number | undefined;
  until: number;
  index: number;
  total: number;
}): VNode {
  const place = usePlace();
  const item = { role: "listitem", "aria-posinset": index + 1, "aria-setsize": total } as const;
  if (row.kind === "earlier")
    return (
      <div class="task-row earlier" {...item}>
        <button type="button" class="quiet" onClick={() => shownAttempts.set(shownAttempts.get() * 3)}>
          Show earlier tasks
        </button>
      </div>
    );
  if (row.kind === "task") {
    const { task } = row;
    const { input, output } = task.tokens;
    return (
      <div class="task-row" {...item}>
        <b>
          <Text of={task.taskId} />
        </b>
        {task.state !== "finished" && (
          <Pill kind={STATES[task.state]}>{task.state === "update" ? "changed by hand" : task.state}</Pill>
        )}
        <span class="dim">
          <Text of={withoutState(task)} />
          {task.isCut && ", began earlier"}
        </span>
        {input + output > 0 && (
          <span class="tok" title={`${plural(input, "token")} in, ${output} out`}>
            {short(input)} → {short(output)} tokens
          </span>
        )}
      </div>
    );
  }
  if (row.kind === "next")
    return (
      <div class="lane next" {...item}>
        <div class="node in">
          <Text of={row.node} />
        </div>
        <div class="track">
          <span class="sr">comes next</span>
        </div>
      </div>
    );
  const { lane, bars, line, task, scale, isLast, inside } = row;
  const depth = depthOf(lane, place.inside);
  return (
    <div class="lane" {...item}>
      <div class="node" style={{ paddingLeft: `${20 + Math.min(depth, 6) * 12}px` }} title={lane.node}>
        {line === 0 && <Text of={depth > 0 || place.inside !== undefined ? lane.name : lane.node} />}
        {inside > 0 && line === 0 && (
          <button
            type="button"
            class="zoom"
            tabIndex={-1}
            onClick={() => go({ inside: lane.node })}
            aria-label={`Zoom into ${lane.node}`}
            title="Zoom into its graph"
          >
            ⤢
          </button>
        )}
      </div>
      <div class="track">
        {scale.idle.map(({ left, right }) => (
          <i key={left} class="idle" style={{ left: `${left * 100}%`, width: `${(right - left) * 100}%` }} />
        ))}
        {scale.ticks.map(({ left }) => (
          <i key={left} class="line" style={{ left: `${left * 100}%` }} />
        ))}
        {bars.map((bar) => (
          <BarView key={bar.number} bar={bar} lane={lane} scale={scale} until={until} isSelected={bar.number === selected} />
        ))}
        {task.deaths.map((death) => (
          <DeathLine
            key={death.at}
            death={death}
            scale={scale}
            isNamed={line === 0 && (isLast || death.nodes.at(-1) === lane.node)}
            lane={lane.node}
          />
        ))}
      </div>
    </div>
  );
}

/** The words begin with the state, which the pill beside them has already. */
function withoutState({ words, state }: TimelineTask): string {
  return state !== "finished" && words.startsWith(`${state} `) ? words.slice(state.length + 1) : words;
}

const KINDS: Readonly<Record<Bar["status"], string>> = {
  ok: "ok",
  handoff: "ok",
  error: "err",
  interrupted: "wait",
  running: "run",
  "in-flight": "fly",
  lost: "lost",
};

export const STATUS_WORDS: Readonly<Record<Bar["status"], string>> = {
  ok: "finished",
  handoff: "handed over",
  error: "failed",
  interrupted: "asked a question",
  running: "running",
  "in-flight": "in flight",
  lost: "lost in a crash",
};

function BarView({
  bar,
  lane,
  scale,
  until,
  isSelected,
}: {
  bar: Bar;
  lane: Lane;
  scale: Scale;
  until: number;
  isSelected: boolean;
}): VNode {
  const [from, to] = [Date.parse(bar.from), bar.to === null ? until : Date.parse(bar.to)];
  const [left, right] = [scale.of(from), scale.of(to)];
  const doubts = bar.effects.filter(isInDoubt).length;
  const label = [
    lane.node,
    bar.attempt > 1 ? `attempt ${bar.attempt}` : "",
    STATUS_WORDS[bar.status],
    `${bar.status === "running" || bar.status === "in-flight" ? "since" : "at"} ${clock(bar.from)}`,
    bar.to === null ? "" : duration(to - from),
    bar.effects.length > 0 ? plural(bar.effects.length, "effect") : "",
    doubts > 0 ? `${doubts} in doubt` : "",
    bar.error ?? "",
  ].filter((part) => part !== "");
  return (
    <>
      <button
        type="button"
        class={`bar ${KINDS[bar.status]}${isSelected ? " sel" : ""}`}
        style={{ left: `${left * 100}%`, width: `max(10px, ${(right - left) * 100}%)` }}
        aria-label={label.join(", ")}
        aria-current={isSelected ? "true" : undefined}
        title={label.join(", ")}
        tabIndex={isSelected ? 0 : -1}
        onClick={() => go({ turn: String(bar.number) })}
      />
      {bar.effects.map((effect) => (
        <i
          key={effect.id}
          class={`fx ${effect.undoStatus === "done" ? "undone" : effect.undoStatus === "begun" ? "in-doubt" : (effect.undoStatus ?? effect.status)}`}
          style={{ left: `calc(${Math.min(scale.of(Date.parse(effect.at)), right) * 100}% + 2px)` }}
          title={`${effect.name} ${effect.label}: ${effect.undoStatus === "done" ? "undone" : effect.undoStatus === "failed" ? "undo failed" : effect.status}`}
        />
      ))}
    </>
  );
}

function DeathLine({ death, scale, isNamed, lane }: { death: Death; scale: Scale; isNamed: boolean; lane: string }): VNode {
  const isHere = death.nodes.length === 0 || death.nodes.includes(lane);
  const left = scale.of(Date.parse(death.at));
  return (
    <i class={`kill${isHere ? "" : " beside"}`} style={{ left: `${left * 100}%` }}>
      {isNamed && (isHere || death.nodes.length === 0) && <span class={left > 0.7 ? "to-left" : ""}>{death.words}</span>}
    </i>
  );
}

/** What the shapes mean. */
export function Legend(): VNode {
  return (
    <p class="legend" aria-hidden="true">
      <span>
        <i class="bar ok" /> attempt
      </span>
      <span>
        <i class="bar fly" /> in flight
      </span>
      <span>
        <i class="bar err" /> failed
      </span>
      <span>
        <i class="fx done" /> effect
      </span>
      <span>
        <i class="fx in-doubt" /> in doubt
      </span>
    </p>
  );
}
