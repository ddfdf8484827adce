import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ofThread } from "../addresses";
import type { ChatMessage, Messages, ToolCall } from "../api";
import { ask, type Problem, useAnswer } from "./ask";
import { go, usePlace } from "./place";
import { Value } from "./shown";
import { LongText, Pill, Text } from "./text";
import { Loading, Trouble } from "./trouble";
import { plural, short } from "./words";

const ROLES: Readonly<Record<string, string>> = {
  human: "person",
  ai: "model",
  system: "system",
  tool: "tool",
  function: "function",
};

/** The messages at a place as a conversation, with the calls of tools beside their results. */
export function Chat({ thread, at, tick }: { thread: string; at: string | undefined; tick: number }): VNode {
  const { channel } = usePlace();
  const [limit, setLimit] = useState(50);
  useEffect(() => setLimit(50), [at]);
  const address = ofThread(thread, "messages", { at, channel, limit });
  const { data, problem } = useAnswer<Messages>(address, tick);
  if (problem !== undefined) return <Trouble problem={problem} />;
  if (data === undefined) return <Loading what="messages" />;
  if (data.channels.length === 0) return <p class="empty">No channel of this state has messages.</p>;
  const whole = (index: number): string =>
    ofThread(thread, "messages", { at, channel: data.channel, before: index + 1, limit: 1, whole: 1 });
  return (
    <div class="chat">
      <p class="bar-line">
        {data.channels.length > 1 ? (
          <label>
            Channel{" "}
            <select value={data.channel} onChange={(event) => go({ channel: event.currentTarget.value }, "replace")}>
              {data.channels.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        ) : (
          <span class="dim">
            {plural(data.total, "message")} in <Text of={data.channel} />
          </span>
        )}
      </p>
      {data.before !== null && (
        <p class="under">
          <button type="button" class="quiet" onClick={() => setLimit(limit * 3)}>
            Show earlier messages
          </button>
        </p>
      )}
      <ol>
        {data.messages.map((message) => (
          <Message key={whole(message.index) + message.text} message={message} whole={whole(message.index)} wholeOf={whole} />
        ))}
      </ol>
    </div>
  );
}

function Message({
  message,
  whole,
  wholeOf,
}: {
  message: ChatMessage;
  whole: string;
  wholeOf: (index: number) => string;
}): VNode {
  const { role, name, parts, calls, tokens, answers, failed, index } = message;
  const of = (answer: Messages): ChatMessage | undefined => answer.messages.find((one) => one.index === index);
  return (
    <li class={`message ${role === "human" ? "human" : role === "ai" ? "ai" : "other"}`}>
      <h3>
        {ROLES[role] ?? <Text of={role} />}
        {name !== null && (
          <>
            {" "}
            <Text of={name} />
          </>
        )}
        {failed && <Pill kind="bad">failed</Pill>}
        {answers !== null && <span class="dim"> answers call {answers}</span>}
        {tokens !== null && (
          <span class="tok">
            {short(tokens.input)} → {short(tokens.output)} tokens
          </span>
        )}
      </h3>
      {message.text !== "" && (
        <Words text={message.text} cut={message.cut} whole={whole} pick={(answer) => of(answer)?.text ?? ""} />
      )}
      {parts.map((part, place) => (
        <Value
          key={place}
          of={part}
          label={`Part ${place + 1} of message ${index}`}
          pick={(answer: Messages) => of(answer)?.parts[place]?.value}
        />
      ))}
      {calls.map((call, place) => (
        <Call key={call.id ?? place} call={call} pick={(answer) => of(answer)?.calls[place]?.args.value} wholeOf={wholeOf} />
      ))}
    </li>
  );
}

function Call({
  call,
  pick,
  wholeOf,
}: {
  call: ToolCall;
  pick: (answer: Messages) => unknown;
  wholeOf: (index: number) => string;
}): VNode {
  const { name, args, result } = call;
  return (
    <div class="call">
      <div class="half">
        <h4>
          calls{" "}
          <code>
            <Text of={name} />
          </code>
        </h4>
        <Value of={args} label={`Arguments of ${name}`} pick={pick} />
      </div>
      <div class={`half${result?.failed === true ? " failed" : ""}`}>
        <h4>{result === null ? "no result yet" : result.failed ? "failed" : "result"}</h4>
        {result !== null && (
          <Words
            text={result.text}
            cut={result.cut}
            whole={wholeOf(result.index)}
            pick={(answer) => answer.messages.find(({ index }) => index === result.index)?.text ?? ""}
          />
        )}
        {result?.parts.map((part, place) => (
          <Value
            key={place}
            of={part}
            label={`Part ${place + 1} of the result`}
            pick={(answer: Messages) => answer.messages.find(({ index }) => index === result.index)?.parts[place]?.value}
          />
        ))}
      </div>
    </div>
  );
}

function Words({
  text,
  cut,
  whole,
  pick,
}: {
  text: string;
  cut: boolean;
  whole: string;
  pick: (answer: Messages) => string;
}): VNode {
  const [all, setAll] = useState<string | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const load = async (): Promise<void> => {
    try {
      setAll(pick(await ask<Messages>(whole)));
    } catch (failed) {
      setProblem(failed as Problem);
    }
  };
  return (
    <>
      <LongText of={all ?? text} class="words" />
      {cut && all === undefined && (
        <p class="under">
          <button type="button" class="quiet" onClick={() => void load()}>
            Show all of it
          </button>
        </p>
      )}
      {problem !== undefined && <Trouble problem={problem} />}
    </>
  );
}
