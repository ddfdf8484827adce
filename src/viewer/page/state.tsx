import type { VNode } from "preact";
import { ofThread } from "../addresses";
import type { Blame, BlameAnswer, State, StateChannel } from "../api";
import { useAnswer } from "./ask";
import { go, hrefOf, placeNow, usePlace } from "./place";
import { Value } from "./shown";
import { Ago, Text } from "./text";
import { Loading, Trouble } from "./trouble";
import { bytes, listed, plural } from "./words";

/** The state at a place, channel by channel, and who wrote each. */
export function StateTab({ thread, at, tick }: { thread: string; at: string | undefined; tick: number }): VNode {
  const { channel } = usePlace();
  const { data, problem } = useAnswer<State>(channel === undefined ? ofThread(thread, "state", { at }) : null, tick);
  if (channel !== undefined) return <BlameList thread={thread} channel={channel} at={at} tick={tick} />;
  if (problem !== undefined) return <Trouble problem={problem} />;
  if (data === undefined) return <Loading what="the state" />;
  if (data.channels.length === 0) return <p class="empty">No channel has a value yet.</p>;
  return (
    <div class="state">
      <p class="dim bar-line">
        Checkpoint of step {data.checkpoint.step}
        {data.checkpoint.inside !== null && ` of the graph in ${data.checkpoint.inside}`}, saved{" "}
        <Ago at={data.checkpoint.at} suffix=" ago" />
      </p>
      {data.channels.map((one) => (
        <Channel key={one.channel} channel={one} />
      ))}
    </div>
  );
}

function Channel({ channel: one }: { channel: StateChannel }): VNode {
  return (
    <section class="card channel" aria-label={`Channel ${one.channel}`}>
      <h3 class="top">
        <span class="mono">
          <Text of={one.channel} />
        </span>
        <span class="dim">
          {one.elements !== null && `${plural(one.elements, "element")}, `}
          {bytes(one.bytes)}{" "}
          <button type="button" class="quiet" onClick={() => go({ channel: one.channel })}>
            Who wrote it?<span class="sr"> {one.channel}</span>
          </button>
        </span>
      </h3>
      <Value
        of={one}
        label={`Value of ${one.channel}`}
        pick={(answer: State) => answer.channels.find(({ channel }) => channel === one.channel)?.value}
      />
    </section>
  );
}

const CHANGES: Readonly<Record<Blame["change"], string>> = {
  first: "wrote it first",
  earlier: "wrote it, or somebody before",
  appended: "appended",
  changed: "changed it",
  removed: "removed it",
};

function BlameList({
  thread,
  channel,
  at,
  tick,
}: {
  thread: string;
  channel: string;
  at: string | undefined;
  tick: number;
}): VNode {
  const { data, problem } = useAnswer<BlameAnswer>(ofThread(thread, "blame", { channel, at, limit: 200 }), tick);
  return (
    <div class="blame">
      <p class="bar-line">
        <button type="button" class="quiet" onClick={() => go({ channel: undefined })}>
          ‹ State
        </button>
        <label>
          Who wrote{" "}
          <select value={channel} onChange={(event) => go({ channel: event.currentTarget.value }, "replace")}>
            {(data?.channels ?? [channel]).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      </p>
      {problem !== undefined && <Trouble problem={problem} />}
      {data === undefined && problem === undefined && <Loading what="who wrote it" />}
      <ol>
        {(data?.changes ?? []).map((change) => (
          <li key={change.checkpointId}>
            <span>
              {change.nodes.length === 0 ? (
                <b>{change.source === "input" ? "the input" : "an update by hand"}</b>
              ) : (
                <Writers change={change} />
              )}{" "}
              {change.change === "appended" && change.elements !== undefined
                ? `appended ${elements(change.elements)}`
                : CHANGES[change.change]}
            </span>
            <Ago at={change.at} />
          </li>
        ))}
      </ol>
      {data?.more === true && <p class="dim">There are earlier changes.</p>}
    </div>
  );
}

function elements([from, upto]: readonly [number, number]): string {
  return upto - from === 1 ? `element ${from}` : `elements ${from} to ${upto - 1}`;
}

/** The turns that wrote it, as links to them. */
function Writers({ change }: { change: Blame }): VNode {
  const names = change.nodes.map(({ node }) => node);
  return (
    <>
      {change.nodes.map(({ node, number }, index) => {
        const target = { ...placeNow(), turn: String(number ?? ""), channel: undefined, tab: "diff", view: undefined };
        return (
          <span key={`${node} ${number}`}>
            {index === 0 ? "" : index === names.length - 1 ? " and " : ", "}
            {number === null ? (
              <b>
                <Text of={node || listed(names)} />
              </b>
            ) : (
              <a
                href={hrefOf(target)}
                onClick={(event) => {
                  event.preventDefault();
                  go(target);
                }}
              >
                <Text of={node} />, turn {number}
              </a>
            )}
          </span>
        );
      })}
    </>
  );
}
