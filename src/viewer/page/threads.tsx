import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { FIRST_THREADS, listAddress } from "../addresses";
import type { ListedThread, ThreadList, ThreadState } from "../api";
import { ask, useAnswer } from "./ask";
import { go, hrefOf, toThread, usePlace } from "./place";
import { Ago, Pill, Text } from "./text";
import { Loading, Trouble } from "./trouble";
import { Rows } from "./virtual";
import { count } from "./words";

/** What people call a state, and its colour. */
export const STATE_WORDS: Readonly<Record<ThreadState, readonly [string, string]>> = {
  running: ["running", "run"],
  rewinding: ["rewinding", "fly"],
  "in-doubt": ["in doubt", "bad"],
  waiting: ["waiting", "warn"],
  failed: ["failed", "bad"],
  interrupted: ["crashed", "fly"],
  unfinished: ["unfinished", "fly"],
  finished: ["finished", "ok"],
  empty: ["empty", "plain"],
};

const SORTS = [
  ["activity", "last active"],
  ["created", "newest"],
  ["turns", "most turns"],
  ["id", "by name"],
] as const;

const ROW = 56;

/** In the order in which they are on the screen: those that need somebody come first. */
export const inOrder = (threads: readonly ListedThread[]): ListedThread[] => [
  ...threads.filter(({ needsYou }) => needsYou),
  ...threads.filter(({ needsYou }) => !needsYou),
];

/** The server gives so many at once. */
const MOST_AT_ONCE = 200;

async function allOf(address: string, signal: AbortSignal): Promise<ThreadList> {
  const asked = new URL(address, location.href);
  const wanted = Number(asked.searchParams.get("limit"));
  let all: ThreadList | undefined;
  while (all === undefined || (all.cursor !== null && all.threads.length < wanted)) {
    asked.searchParams.set("limit", String(Math.min(MOST_AT_ONCE, wanted - (all?.threads.length ?? 0))));
    if (all?.cursor != null) asked.searchParams.set("cursor", all.cursor);
    const page: ThreadList = await ask<ThreadList>(asked.pathname + asked.search, signal);
    all = { ...page, threads: [...(all?.threads ?? []), ...page.threads] };
  }
  return all;
}

export function useThreads(tick: number): { list: ThreadList | undefined; problem: VNode | null; more: () => void } {
  const place = usePlace();
  const [limit, setLimit] = useState(FIRST_THREADS);
  const { data, problem } = useAnswer<ThreadList>(listAddress(place, limit), tick, allOf);
  return {
    list: data,
    problem: problem === undefined ? null : <Trouble problem={problem} />,
    more: () => setLimit(limit + 2 * FIRST_THREADS),
  };
}

export function Threads({ list, problem, more }: ReturnType<typeof useThreads>): VNode {
  const place = usePlace();
  const threads = list?.threads ?? [];
  const parts = [
    ["Needs you", threads.filter(({ needsYou }) => needsYou)],
    ["Everything else", threads.filter(({ needsYou }) => !needsYou)],
  ] as const;
  const isFiltered = Boolean(place.search ?? place.status);
  return (
    <nav class="threads scroll" aria-label="Threads" tabIndex={-1}>
      <form class="filters" role="search" aria-label="Threads" onSubmit={(event) => event.preventDefault()}>
        <input
          type="search"
          aria-label="Only threads whose id contains"
          placeholder="Filter by id"
          value={place.search ?? ""}
          onInput={(event) => go({ search: event.currentTarget.value || undefined }, "replace")}
        />
        <select
          aria-label="Status"
          value={place.status ?? ""}
          onChange={(event) => go({ status: event.currentTarget.value || undefined })}
        >
          <option value="">all states</option>
          {Object.entries(STATE_WORDS).map(([state, [name]]) => (
            <option key={state} value={state}>
              {name}
            </option>
          ))}
        </select>
        <select aria-label="Order" value={place.sort ?? "activity"} onChange={(event) => go({ sort: event.currentTarget.value })}>
          {SORTS.map(([sort, name]) => (
            <option key={sort} value={sort}>
              {name}
            </option>
          ))}
        </select>
      </form>
      {problem}
      {list === undefined && problem === null && <Loading what="threads" />}
      {list !== undefined && threads.length === 0 && (
        <p class="empty">
          {isFiltered
            ? `None of ${count(list.total)} threads is like that.`
            : "No threads yet. As soon as an agent runs, it appears here."}
        </p>
      )}
      {parts.map(
        ([title, some]) =>
          some.length > 0 && (
            <div key={title}>
              <h2>{title}</h2>
              <Rows
                count={some.length}
                height={ROW}
                role="list"
                label={title}
                keep={some.findIndex(({ threadId }) => threadId === place.thread)}
                row={(index) => {
                  const thread = some[index];
                  return thread === undefined ? null : (
                    <Line
                      key={thread.threadId}
                      thread={thread}
                      isOn={thread.threadId === place.thread}
                      index={index}
                      total={some.length}
                    />
                  );
                }}
              />
            </div>
          ),
      )}
      {list?.cursor != null && (
        <p class="under">
          <button type="button" class="quiet" onClick={more}>
            Show more of {count(list.total)} threads
          </button>
        </p>
      )}
    </nav>
  );
}

function Line({ thread, isOn, index, total }: { thread: ListedThread; isOn: boolean; index: number; total: number }): VNode {
  const place = usePlace();
  const { threadId, state, sentence, lastAt } = thread;
  const [name, kind] = STATE_WORDS[state];
  const target = toThread(threadId);
  // Ids often differ at their end alone, so a long one is cut in its middle.
  const letters = [...threadId];
  const end = letters.length > 22 ? 10 : 0;
  return (
    <div role="listitem" aria-posinset={index + 1} aria-setsize={total}>
      <a
        class={`thread${isOn ? " on" : ""}`}
        href={hrefOf({ ...place, ...target })}
        aria-current={isOn ? "page" : undefined}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          go(target);
        }}
      >
        <span class="t">
          <span class="ends">
            <span class="cut">
              <Text of={letters.slice(0, -end || undefined).join("")} />
            </span>
            {end > 0 && <Text of={letters.slice(-end).join("")} />}
          </span>
          <Pill kind={kind}>{name}</Pill>
        </span>
        <span class="s">
          <span class="cut" title={sentence}>
            <Text of={sentence} />
          </span>
          <Ago at={lastAt} />
        </span>
      </a>
    </div>
  );
}
