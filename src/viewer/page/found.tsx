import type { VNode } from "preact";
import type { SearchAnswer, SearchMatch } from "../api";
import { useAnswer } from "./ask";
import { go, hrefOf, toThread, usePlace, type Place } from "./place";
import { Pill, Text } from "./text";
import { Loading, Trouble } from "./trouble";
import { count, plural } from "./words";

const KINDS: Readonly<Record<SearchMatch["kind"], string>> = {
  thread: "thread",
  node: "node",
  value: "state",
  turn: "input or output",
  effect: "effect",
  write: "written by a node",
};

const addressOf = (given: Record<string, string>): string => `/api/search?${new URLSearchParams(given).toString()}`;

/** What a search found, over all threads. */
export function Found(): VNode {
  const { find = "", thread } = usePlace();
  const { data: all, problem } = useAnswer<SearchAnswer>(addressOf({ q: find }));
  const { data: here } = useAnswer<SearchAnswer>(thread === undefined ? null : addressOf({ q: find, thread }));
  // The thread on the screen comes first. All threads together may have been too much.
  const others = all?.matches.filter(({ kind, threadId }) => kind === "thread" || threadId !== thread || here === undefined);
  const data = all && { ...all, matches: [...(here?.matches ?? []), ...(others ?? [])] };
  return (
    <section class="view scroll found" aria-label="Search results" tabIndex={0}>
      <h1>
        <Text of={find} />
      </h1>
      <p class="bar-line">
        <button type="button" class="quiet" onClick={() => go({ find: undefined })}>
          ‹ Back to the thread
        </button>
        {data !== undefined && (
          <span class="dim" role="status">
            {data.matches.length > 0
              ? `Found in ${plural(data.matches.length, "place")}.`
              : data.stopped === null
                ? "Found nowhere."
                : "Found nowhere so far."}{" "}
            {notLookedAt(data)}
            {here !== undefined && here.stopped !== null && "The thread on the screen wasn't searched to its end either. "}
          </span>
        )}
      </p>
      {problem !== undefined && <Trouble problem={problem} />}
      {data === undefined && problem === undefined && <Loading what="all threads" />}
      <ul>
        {(data?.matches ?? []).map((match, index) => (
          <Match key={index} match={match} find={find} />
        ))}
      </ul>
    </section>
  );
}

/** What of the threads wasn't searched, and why. */
function notLookedAt({ stopped, threads: { searched, total } }: SearchAnswer): string {
  if (stopped === null) return "";
  const why = stopped === "time" ? "The search stopped after 4 seconds" : "The search stopped at 100 places";
  return `${why}: ${count(total - searched)} of ${plural(total, "thread")} not looked at, or not to the end. turns grep looks at all. `;
}

function Match({ match, find }: { match: SearchMatch; find: string }): VNode {
  const { kind, threadId, number, near, excerpt } = match;
  const target: Place = {
    ...toThread(threadId),
    view: undefined,
    ...(number !== null && { near: String(number), tab: kind === "value" ? "state" : undefined }),
  };
  const at = excerpt.toLowerCase().indexOf(find.toLowerCase());
  return (
    <li>
      <a
        class="card match"
        href={hrefOf(target)}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey) return;
          event.preventDefault();
          go(target);
        }}
      >
        <span class="top">
          <span>
            <Text of={threadId} />
            {near !== "" && (
              <span class="dim">
                {" · "}
                <Text of={near} />
                {number !== null && `, ${number}`}
              </span>
            )}
          </span>
          <Pill kind="plain">{KINDS[kind]}</Pill>
        </span>
        {excerpt !== "" && (
          <span class="excerpt">
            {at < 0 ? (
              <Text of={excerpt} />
            ) : (
              <>
                <Text of={excerpt.slice(0, at)} />
                <mark>
                  <Text of={excerpt.slice(at, at + find.length)} />
                </mark>
                <Text of={excerpt.slice(at + find.length)} />
              </>
            )}
          </span>
        )}
      </a>
    </li>
  );
}
