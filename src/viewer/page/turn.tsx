import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ofThread } from "../addresses";
import type { Bar, Diff, Thread, TurnAnswer } from "../api";
import { type Asked, useAnswer } from "./ask";
import { DiffBlock } from "./diff";
import { open } from "./dialogs";
import { Effects, isInDoubt } from "./effects";
import { AnswerDialog } from "./forms";
import { Chat } from "./messages";
import { go, usePlace } from "./place";
import { Value } from "./shown";
import { StateTab } from "./state";
import { At, Copy, LongText, Pill, Text } from "./text";
import { STATUS_WORDS } from "./timeline";
import { Loading, Trouble } from "./trouble";
import { duration, short } from "./words";

export const TABS = [
  ["effects", "Effects"],
  ["state", "State"],
  ["diff", "Diff"],
  ["messages", "Messages"],
  ["io", "In, out"],
  ["error", "Error"],
  ["raw", "Raw"],
] as const;
export type Tab = (typeof TABS)[number][0];

/** The tabs that a turn has. */
export const tabsOf = (turn: TurnAnswer | undefined): (typeof TABS)[number][] =>
  TABS.filter(([name]) => name !== "error" || (turn !== undefined && turn.error !== null));

/** An attempt as the timeline knows it. */
export type KnownBar = Bar & { node: string; taskId: string };

const KINDS: Readonly<Record<Bar["status"], string>> = {
  ok: "ok",
  handoff: "ok",
  error: "bad",
  interrupted: "warn",
  running: "run",
  "in-flight": "fly",
  lost: "plain",
};

/**
 * A turn: the attempt of a node, in detail.
 *
 * @param isWithout whether the thread has no turns
 */
export function TurnPane({
  thread,
  bars,
  asked: { data, problem },
  isWithout,
  tick,
}: {
  thread: Thread;
  bars: readonly KnownBar[];
  /** The answer about it. */
  asked: Asked<TurnAnswer>;
  isWithout: boolean;
  tick: number;
}): VNode {
  const place = usePlace();
  const { threadId, questions } = thread.report;
  const { turn } = place;
  const bar = bars.find(({ number }) => String(number) === turn);
  const tabs = tabsOf(data);
  const wanted = place.tab ?? (data !== undefined && data.error !== null ? "error" : "effects");
  const tab = tabs.some(([name]) => name === wanted) ? wanted : "effects";
  const question = data === undefined ? undefined : questions.find(({ nodeTaskId }) => nodeTaskId === data.nodeTaskId);
  if (isWithout && data === undefined && (turn === undefined || problem !== undefined))
    return <CheckpointPane thread={thread} tick={tick} />;
  if (turn === undefined) return <p class="empty">No turn is chosen. Press j or k to walk through the turns.</p>;
  if (data === undefined && problem !== undefined) return <Gone problem={problem} />;
  const name = data?.node ?? bar?.node;
  return (
    <>
      <div class="head">
        <h2>
          {name === undefined ? `Turn ${turn}` : <Text of={name} />} <TurnPill data={data} bar={bar} />
        </h2>
        {data !== undefined && <Facts data={data} bar={bar} />}
        {question !== undefined && (
          <p class="question">
            It asks:{" "}
            <Text of={typeof question.value === "string" ? question.value : JSON.stringify(question.value).slice(0, 300)} />{" "}
            {thread.start === null && (
              <button
                type="button"
                class="action"
                onClick={() => open(() => <AnswerDialog thread={threadId} question={question} />)}
              >
                Answer …
              </button>
            )}
          </p>
        )}
      </div>
      <Tabs tabs={tabs} tab={tab} doubts={data?.effects.filter(isInDoubt).length ?? 0} />
      <div class="panel scroll" id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {problem !== undefined && <Trouble problem={problem} />}
        {data === undefined ? (
          <Loading what="the turn" />
        ) : (
          <Panel key={`${turn} ${tab}`} tab={tab as Tab} data={data} bars={bars} tick={tick} />
        )}
      </div>
    </>
  );
}

function Gone({ problem }: { problem: Parameters<typeof Trouble>[0]["problem"] }): VNode {
  return (
    <div class="gone">
      <h2>This turn isn't there any more</h2>
      <p class="dim">It was rewound or pruned, or the link is from another database.</p>
      <Trouble problem={problem} />
      <button type="button" class="action" onClick={() => go({ turn: undefined, with: undefined, tab: undefined })}>
        Show the newest turn
      </button>
    </div>
  );
}

/** A thread of which no turn is kept still has a state. */
function CheckpointPane({ thread, tick }: { thread: Thread; tick: number }): VNode {
  const place = usePlace();
  const { threadId } = thread.report;
  if (thread.counts.checkpoints === 0) return <p class="empty">This thread has no turns and no checkpoint yet.</p>;
  const tab = place.tab === "messages" ? "messages" : "state";
  return (
    <>
      <div class="head">
        <h2>The newest checkpoint</h2>
        <p class="m">No turn of this thread is there: its turns were pruned, or it was saved without them.</p>
      </div>
      <Tabs tabs={TABS.filter(([name]) => name === "state" || name === "messages")} tab={tab} doubts={0} />
      <div class="panel scroll" id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {tab === "state" ? (
          <StateTab thread={threadId} at={undefined} tick={tick} />
        ) : (
          <Chat thread={threadId} at={undefined} tick={tick} />
        )}
      </div>
    </>
  );
}

function TurnPill({ data, bar }: { data: TurnAnswer | undefined; bar: KnownBar | undefined }): VNode | null {
  const status = bar?.status ?? data?.status;
  return status === undefined ? null : <Pill kind={KINDS[status]}>{STATUS_WORDS[status]}</Pill>;
}

function Facts({ data, bar }: { data: TurnAnswer; bar: KnownBar | undefined }): VNode {
  const { number, taskId, attempt, startedAt, endedAt, tokens, durable } = data;
  return (
    <>
      <p class="m">
        Thought {number} · task <Text of={taskId} /> · attempt {attempt} ·{" "}
        {endedAt === null
          ? "no Action"
          : `${bar?.actionNumber == null ? "Action" : `Action ${bar.actionNumber}`}${durable || data.status !== "ok" ? "" : ", not saved"}`}
      </p>
      <p class="m">
        <At at={startedAt} digits={3} />
        {endedAt !== null && ` · took ${duration(Date.parse(endedAt) - Date.parse(startedAt))}`}
        {tokens.input + tokens.output > 0 && ` · ${short(tokens.input)} → ${short(tokens.output)} tokens`}
        {tokens.cached > 0 && `, ${short(tokens.cached)} cached`}
        {tokens.reasoning > 0 && `, ${short(tokens.reasoning)} reasoning`}
        {bar?.pid != null && ` · process ${bar.pid}`}
      </p>
    </>
  );
}

function Tabs({ tabs, tab, doubts }: { tabs: readonly (typeof TABS)[number][]; tab: string; doubts: number }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const hasFocus = useRef(false);
  useEffect(() => {
    if (hasFocus.current) box.current?.querySelector<HTMLElement>('[aria-selected="true"]')?.focus();
    hasFocus.current = false;
  }, [tab]);
  const move = (event: KeyboardEvent): void => {
    const at = tabs.findIndex(([name]) => name === tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    hasFocus.current = true;
    go({ tab: tabs[(to + tabs.length) % tabs.length]?.[0] }, "replace");
  };
  return (
    <div class="tabs" role="tablist" aria-label="About this turn" ref={box} onKeyDown={move}>
      {tabs.map(([name, title]) => (
        <button
          key={name}
          id={`tab-${name}`}
          type="button"
          role="tab"
          aria-selected={name === tab}
          aria-controls="panel"
          tabIndex={name === tab ? 0 : -1}
          class={name === tab ? "on" : ""}
          onClick={() => go({ tab: name })}
        >
          {title}
          {name === "effects" && doubts > 0 && (
            <i>
              {doubts}
              <span class="sr"> in doubt</span>
            </i>
          )}
        </button>
      ))}
    </div>
  );
}

function Panel({ tab, data, bars, tick }: { tab: Tab; data: TurnAnswer; bars: readonly KnownBar[]; tick: number }): VNode {
  const { threadId, startedFrom, endedIn } = data;
  const at = (endedIn ?? startedFrom)?.checkpointId;
  const pick =
    (part: "input" | "output" | "validation") =>
    (answer: TurnAnswer): unknown =>
      answer[part]?.value;
  switch (tab) {
    case "effects":
      return (
        <>
          <Effects effects={data.effects} />
          <DiffTab data={data} bars={bars} tick={tick} isBrief />
        </>
      );
    case "state":
      return <StateTab thread={threadId} at={at} tick={tick} />;
    case "diff":
      return <DiffTab data={data} bars={bars} tick={tick} />;
    case "messages":
      return <Chat thread={threadId} at={at} tick={tick} />;
    case "io":
      return (
        <div class="stack">
          {data.notKept.map((why) => (
            <p key={why} class="dim">
              <Text of={why} />
            </p>
          ))}
          <Part title="What went in" of={data.input} none="The input wasn't kept." pick={pick("input")} />
          <Part
            title="What came out"
            of={data.output}
            none={
              data.error !== null
                ? "Nothing: it failed."
                : data.endedAt === null
                  ? "Nothing: it hasn't finished."
                  : "The output wasn't kept."
            }
            pick={pick("output")}
          />
          {data.validation !== null && <Part title="Validation" of={data.validation} none="" pick={pick("validation")} />}
        </div>
      );
    case "error":
      return <ErrorTab data={data} />;
    case "raw":
      return <Raw data={data} />;
  }
}

function Part({
  title,
  of,
  none,
  pick,
}: {
  title: string;
  of: TurnAnswer["input"];
  none: string;
  pick: (answer: TurnAnswer) => unknown;
}): VNode {
  return (
    <section class="card" aria-label={title}>
      <h3 class="top">{title}</h3>
      {of === null ? <p class="body dim">{none}</p> : <Value of={of} label={title} pick={pick} />}
    </section>
  );
}

function ErrorTab({ data }: { data: TurnAnswer }): VNode {
  const { error } = data;
  if (error === null) return <p class="empty">This attempt didn't fail.</p>;
  return (
    <section class="card error-card" aria-label="Error">
      <h3 class="top bad-text">
        <Text of={error.name} />
        <Copy text={[`${error.name}: ${error.message}`, error.stack ?? ""].join("\n").trim()} />
      </h3>
      <div class="body">
        <LongText of={error.message} />
        {error.stack !== null && <LongText class="long mono stack-trace" of={error.stack} />}
        {error.stack === null && <p class="dim">No stack was kept.</p>}
      </div>
    </section>
  );
}

/** Everything that the server told of the turn, without the values. */
function Raw({ data }: { data: TurnAnswer }): VNode {
  const { input, output, validation, effects, ...rest } = data;
  const value = { ...rest, effects: effects.map(({ input: _, result: __, ...effect }) => effect) };
  return (
    <Value
      of={{ value, cut: input === undefined || output === undefined || validation === undefined, bytes: 0, whole: null }}
      label="The turn as stored"
      pick={() => value}
    />
  );
}

/** How many turns can be chosen to compare with. */
const CHOICES = 400;

function DiffTab({
  data,
  bars,
  tick,
  isBrief = false,
}: {
  data: TurnAnswer;
  bars: readonly KnownBar[];
  tick: number;
  isBrief?: boolean;
}): VNode {
  const place = usePlace();
  const { threadId, startedFrom, endedIn } = data;
  const since = isBrief ? undefined : place.with;
  const to = (endedIn ?? startedFrom)?.checkpointId;
  const from = since ?? (endedIn === null ? undefined : startedFrom?.checkpointId);
  const { data: diff, problem } = useAnswer<Diff>(to === undefined ? null : ofThread(threadId, "diff", { from, to }), tick);
  const choices = bars.slice(-CHOICES);
  const title = since === undefined ? "State since the turn before" : `State since turn ${since}`;
  return (
    <>
      {!isBrief && (
        <p class="bar-line">
          <label>
            Compare with{" "}
            <select id="diff-with" value={since ?? ""} onChange={(event) => go({ with: event.currentTarget.value || undefined })}>
              <option value="">the turn before</option>
              {choices
                .filter(({ number }) => number !== data.number)
                .map(({ number, node, taskId, attempt }) => (
                  <option key={number} value={String(number)}>
                    {number} · {node}
                    {attempt > 1 ? ` attempt ${attempt}` : ""} · {taskId}
                  </option>
                ))}
            </select>
          </label>
        </p>
      )}
      {to === undefined && <p class="empty">Its checkpoint isn't there: it was pruned, or it isn't saved yet.</p>}
      {problem !== undefined && <Trouble problem={problem} />}
      {diff !== undefined && (!isBrief || diff.channels.length > 0) && <DiffBlock diff={diff} title={title} />}
      {diff === undefined && problem === undefined && to !== undefined && <Loading what="the difference" />}
    </>
  );
}
