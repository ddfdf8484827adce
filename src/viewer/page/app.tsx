import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { FIRST_ATTEMPTS, NEXT_ATTEMPTS, ofThread, ofTurn } from "../addresses";
import type { Server, Thread, TimelineAnswer, TurnAnswer } from "../api";
import { type Asked, useAnswer } from "./ask";
import { OpenDialog, outcome } from "./dialogs";
import { Found } from "./found";
import { GraphKey, GraphView } from "./graph";
import { FileLine, Head } from "./head";
import { focusSoon, showHelp, useKeys } from "./keys";
import { hearing, listTick, refresh, said, say, threadTick } from "./live";
import { go, toThread, usePlace } from "./place";
import { RewindView } from "./rewinds";
import { server } from "./server";
import { SizeView } from "./size";
import { nextTheme, theme, themeOfServer } from "./theme";
import { inOrder, Threads, useThreads } from "./threads";
import { barsOf, Legend, shownAttempts, TimelineView, toggleScale, wholeTimeline } from "./timeline";
import { Loading, Trouble } from "./trouble";
import { TABS, TurnPane, type KnownBar } from "./turn";
import { toggleUtc, utc } from "./words";

const VIEWS = [
  ["timeline", "Timeline", "l"],
  ["graph", "Graph", "g"],
  ["rewind", "Rewind", "r"],
  ["size", "Size", "s"],
] as const;

export function App(): VNode {
  const place = usePlace();
  const tick = threadTick.use();
  const about = useAnswer<Server>("/api/server", listTick.use());
  const threads = useThreads(listTick.use());
  const listed = inOrder(threads.list?.threads ?? []);
  const { thread: threadId } = place;
  const thread = useAnswer<Thread>(threadId === undefined ? null : ofThread(threadId), tick);
  const limit = shownAttempts.use();
  const timeline = useAnswer<TimelineAnswer>(
    threadId === undefined ? null : ofThread(threadId, "timeline", { limit }),
    tick,
    wholeTimeline,
  );
  const turn = useAnswer<TurnAnswer>(
    threadId === undefined || place.turn === undefined ? null : ofTurn(threadId, place.turn),
    tick,
  );
  const lastTimeline = useLast(timeline.data, threadId);
  const bars = barsOf(lastTimeline);

  useEffect(() => {
    if (about.data === undefined) return;
    server.set(about.data);
    themeOfServer();
  }, [about.data]);
  useEffect(() => {
    document.title = [threadId, about.data?.name, "turns"].filter((part) => part !== undefined).join(" · ");
  }, [threadId, about.data?.name]);
  useEffect(() => outcome.set(undefined), [threadId]);
  // What needs somebody is shown first. Like the turn below, before the browser paints: it's asked for at once.
  useLayoutEffect(() => {
    const [first] = listed;
    if (threadId === undefined && first !== undefined) go(toThread(first.threadId), "replace");
  }, [threadId, listed[0]?.threadId]);
  useLayoutEffect(() => {
    if (threadId === undefined || place.turn !== undefined || bars.length === 0) return;
    const near = Number(place.near ?? Infinity);
    const isEarlier = lastTimeline?.before != null && (bars[0]?.number ?? 0) > near;
    if (isEarlier) return shownAttempts.set(shownAttempts.get() * 3);
    const found =
      place.near === undefined
        ? (bars.findLast(({ status }) => status === "in-flight" || status === "running") ?? bars.at(-1))
        : (bars.findLast(({ number }) => number <= near) ?? bars[0]);
    if (found !== undefined) go({ turn: String(found.number), near: undefined }, "replace");
  }, [threadId, place.turn, place.near, bars.length]);

  // The rest of what a person sees at a glance, as soon as the first screen is there.
  const hasMore = turn.data !== undefined && lastTimeline?.before != null && limit === FIRST_ATTEMPTS;
  useEffect(() => {
    if (!hasMore) return;
    const soon = setTimeout(() => shownAttempts.set(NEXT_ATTEMPTS), 200);
    return () => clearTimeout(soon);
  }, [hasMore]);

  // What was just resumed is followed, as long as the newest turn is looked at. What was just rewound is left.
  const newest = bars.at(-1)?.number;
  const newestBefore = useRef(newest);
  useEffect(() => {
    const isLeft = outcome.get()?.running ? place.turn === String(newestBefore.current) : Number(place.turn) > Number(newest);
    if (outcome.get() !== undefined && isLeft) go({ turn: String(newest) }, "replace");
    newestBefore.current = newest;
  }, [newest]);

  useKeys(keysOf({ place, bars, listed, timeline: lastTimeline }));
  // The list may still have a thread that is gone.
  const another = listed.find((one) => one.threadId !== threadId)?.threadId;
  const isStranger = about.problem?.code === "NOT_SIGNED_IN";
  return (
    <>
      <a class="skip" href="#main">
        To the thread
      </a>
      <Header threads={threads.list?.total} />
      <Threads {...threads} />
      <main id="main" tabIndex={-1}>
        <Lost />
        {isStranger ? (
          <div class="welcome">
            <h1>Open the link that turns web printed</h1>
            <p>
              The link has a token that works once, so that nobody else on this machine can look at your threads. In the terminal
              of turns web, Enter prints a new link.
            </p>
          </div>
        ) : place.find !== undefined ? (
          <Found />
        ) : threadId === undefined ? (
          <Welcome isEmpty={threads.list?.total === 0} problem={about.problem} />
        ) : thread.data === undefined ? (
          thread.problem === undefined ? (
            <Loading what="the thread" />
          ) : (
            <div class="welcome">
              <h1>This thread can't be shown</h1>
              <Trouble problem={thread.problem} />
              <button type="button" class="action" onClick={() => go(toThread(another))}>
                Show another thread
              </button>
            </div>
          )
        ) : (
          <Shown thread={thread.data} problem={timeline.problem} timeline={lastTimeline} bars={bars} turn={turn} tick={tick} />
        )}
      </main>
      <OpenDialog />
      <p class="sr" role="status" aria-live="polite">
        {said.use()}
      </p>
    </>
  );
}

/** Of a thread what was there last, while more of it is on its way. */
function useLast<T>(data: T | undefined, of: string | undefined): T | undefined {
  const last = useRef<{ of: string | undefined; data: T | undefined }>({ of, data });
  if (data !== undefined || last.current.of !== of) last.current = { of, data };
  return last.current.data;
}

function Shown({
  thread,
  timeline,
  bars,
  turn,
  tick,
  problem,
}: {
  thread: Thread;
  timeline: TimelineAnswer | undefined;
  bars: KnownBar[];
  turn: Asked<TurnAnswer>;
  tick: number;
  problem: Parameters<typeof Trouble>[0]["problem"] | undefined;
}): VNode {
  const place = usePlace();
  const { threadId, resume } = thread.report;
  const view = VIEWS.some(([name]) => name === place.view) ? (place.view ?? "timeline") : "timeline";
  const selected = place.turn === undefined ? undefined : Number(place.turn);
  return (
    <>
      <Head thread={thread} />
      <div class="course">
        <div class="views" role="group" aria-label="What is shown of the thread">
          {VIEWS.map(([name, title]) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === view}
              class={name === view ? "on" : ""}
              onClick={() => go({ view: name === "timeline" ? undefined : name })}
            >
              {title}
            </button>
          ))}
          <span class="spacer" />
          {view === "timeline" && <Legend />}
          {view === "graph" && <GraphKey />}
        </div>
        {view === "timeline" && (
          <>
            {problem !== undefined && <Trouble problem={problem} />}
            {timeline === undefined ? (
              problem === undefined && <Loading what="the timeline" />
            ) : (
              <TimelineView timeline={timeline} next={resume.runs} selected={selected} />
            )}
          </>
        )}
        {view === "graph" && <GraphView thread={threadId} tick={tick} />}
        {view === "rewind" && <RewindView thread={thread} tick={tick} />}
        {view === "size" && <SizeView thread={threadId} tick={tick} />}
      </div>
      <aside aria-label="Turn">
        <TurnPane thread={thread} bars={bars} asked={turn} isWithout={timeline !== undefined && bars.length === 0} tick={tick} />
        <p class="foot">
          <span>
            <kbd>j</kbd> <kbd>k</kbd> turn
          </span>
          <span>
            <kbd>t</kbd> task
          </span>
          <span>
            <kbd>d</kbd> diff with …
          </span>
          <button type="button" class="quiet" onClick={showHelp}>
            <kbd>?</kbd> all keys
          </button>
        </p>
      </aside>
    </>
  );
}

function Header({ threads }: { threads: number | undefined }): VNode {
  const place = usePlace();
  const [typed, setTyped] = useState(place.find ?? "");
  useEffect(() => setTyped(place.find ?? ""), [place.find]);
  const inUtc = utc.use();
  const chosen = theme.use();
  const { state } = hearing.use();
  return (
    <header>
      <a
        class="brand"
        href="/"
        onClick={(event) => {
          event.preventDefault();
          go({ ...toThread(undefined), view: undefined, tab: undefined, search: undefined, status: undefined });
        }}
      >
        turns
      </a>
      <FileLine threads={threads} />
      <span class="spacer" />
      <form
        role="search"
        aria-label="All content"
        class="search"
        onSubmit={(event) => {
          event.preventDefault();
          go({ find: typed.trim() || undefined });
        }}
      >
        <input
          id="search"
          type="search"
          aria-label="Search threads, nodes, content"
          placeholder="Search threads, nodes, content …"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <kbd aria-hidden="true">/</kbd>
      </form>
      <button type="button" class="quiet" aria-pressed={inUtc} onClick={toggleUtc} title="Times in UTC (u)">
        UTC
      </button>
      <button type="button" class="quiet" onClick={nextTheme} title="Dark or light (c)">
        <span class="sr">Colours: </span>
        {chosen === "auto" ? "◐ auto" : chosen === "light" ? "○ light" : "● dark"}
      </button>
      <span class={`live ${state}`}>{state === "live" ? "live" : state === "connecting" ? "connecting" : "offline"}</span>
    </header>
  );
}

function Lost(): VNode | null {
  const { state, message } = hearing.use();
  if (state !== "lost" && state !== "gone") return null;
  return (
    <div class={`lost ${state}`} role="alert">
      <b>{state === "gone" ? "This database isn't there any more." : "Not connected."}</b> {message}
    </div>
  );
}

function Welcome({
  isEmpty,
  problem,
}: {
  isEmpty: boolean;
  problem: Parameters<typeof Trouble>[0]["problem"] | undefined;
}): VNode {
  return (
    <div class="welcome">
      {problem !== undefined ? (
        <>
          <h1>Nothing can be read</h1>
          <Trouble problem={problem} />
        </>
      ) : isEmpty ? (
        <>
          <h1>No threads yet</h1>
          <p>As soon as an agent saves to this database, its thread appears here.</p>
        </>
      ) : (
        <Loading what="threads" />
      )}
    </div>
  );
}

function keysOf({
  place,
  bars,
  listed,
  timeline,
}: {
  place: ReturnType<typeof usePlace>;
  bars: KnownBar[];
  listed: ReturnType<typeof inOrder>;
  timeline: TimelineAnswer | undefined;
}): Record<string, () => void> {
  const at = bars.findIndex(({ number }) => String(number) === place.turn);
  const show = (bar: KnownBar | undefined): void => {
    if (bar === undefined) return say("There is no further turn.");
    go({ turn: String(bar.number) });
    say(`${bar.node}, attempt ${bar.attempt} of task ${bar.taskId}`);
  };
  const next = (): void => show(bars[at + 1]);
  const previous = (): void => show(at < 0 ? bars.at(-1) : bars[at - 1]);
  const task = (step: 1 | -1): void => {
    const tasks = [...new Set(bars.map(({ taskId }) => taskId))];
    const to = tasks[tasks.indexOf(bars[at]?.taskId ?? "") + step];
    show(bars.find(({ taskId }) => taskId === to));
  };
  const thread = (step: 1 | -1): void => {
    const to = listed[listed.findIndex(({ threadId }) => threadId === place.thread) + step];
    if (to === undefined) return say("There is no further thread.");
    go(toThread(to.threadId));
    say(`Thread ${to.threadId}`);
  };
  const view = (name: string | undefined) => (): void => {
    go({ view: name });
    focusSoon(".view");
  };
  const tab = (index: number) => (): void => {
    const name = TABS[index]?.[0];
    const button = document.getElementById(`tab-${name}`);
    if (button === null) return;
    go({ tab: name });
    focusSoon("#panel");
  };
  return {
    ...{ j: next, ArrowDown: next, k: previous, ArrowUp: previous },
    ...{ t: () => task(1), T: () => task(-1), n: () => thread(1), p: () => thread(-1) },
    d: () => {
      go({ tab: "diff" });
      focusSoon("#diff-with");
    },
    ...Object.fromEntries(TABS.map((_, index) => [String(index + 1), tab(index)])),
    ...{ l: view(undefined), g: view("graph"), r: view("rewind"), s: view("size") },
    "/": () => document.getElementById("search")?.focus(),
    z: () => timeline !== undefined && toggleScale(timeline),
    o: () => go({ inside: place.inside?.includes("|") ? place.inside.slice(0, place.inside.lastIndexOf("|")) : undefined }),
    u: () => {
      toggleUtc();
      say(utc.get() ? "Times in UTC" : "Times of this place");
    },
    c: () => {
      nextTheme();
      say(`Colours: ${theme.get()}`);
    },
    "?": showHelp,
    Escape: () => {
      if (document.activeElement instanceof HTMLElement && document.activeElement.closest("input, select, textarea")) {
        document.activeElement.blur();
        return;
      }
      if (place.find !== undefined) go({ find: undefined });
    },
    R: refresh,
  };
}
