import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { ChannelDiff, Diff, DiffLine } from "../api";
import { ask, type Problem } from "./ask";
import { Text } from "./text";
import { Trouble } from "./trouble";
import { plural } from "./words";

/** How many lines of a difference are shown before somebody asks for all. */
const FIRST_LINES = 80;
/** And how many more each time. */
const MORE_LINES = 2_000;

interface Line {
  sign: "+" | "-" | " ";
  text: string;
}

/** A value in the lines that a reader would call added or removed. Works on the parts that the server left out, too. */
function linesOf(name: string, value: unknown): string[] {
  const text = JSON.stringify(
    value,
    (_, inner: unknown) => {
      if (typeof inner !== "object" || inner === null || !("$cut" in inner)) return inner;
      const { shown, length } = inner as { shown?: unknown; length?: number };
      if (typeof shown === "string") return `${shown}… ${length} characters in all`;
      return shown ?? "…";
    },
    2,
  ) as string | undefined;
  const lines = (text ?? "null").split("\n").map((line) => (line.length > 2_000 ? `${line.slice(0, 2_000)}…` : line));
  return lines.map((line, index) => (index === 0 && name !== "" ? `${name}: ${line}` : line));
}

function changesOf({ path, change, before, after }: DiffLine, isElement: boolean): Line[] {
  const name = isElement ? "" : path;
  const removed = change === "added" ? [] : linesOf(name, before).map((text): Line => ({ sign: "-", text }));
  const added = change === "removed" ? [] : linesOf(name, after).map((text): Line => ({ sign: "+", text }));
  return [...removed, ...added];
}

function blockOf({ channel, change, appended, differences }: ChannelDiff): Line[] {
  // Of a value that is no list and no object there is one difference, of the whole.
  const [only] = differences;
  if (differences.length === 1 && only?.path === "") return changesOf({ ...only, path: channel }, false);
  const isList = change === "appended" || differences.every(({ path }) => /^\[\d+\]$/.test(path));
  const inner = differences.flatMap((difference) =>
    changesOf(difference, isList).map(({ sign, text }): Line => ({ sign, text: `  ${text}` })),
  );
  const open: Line = {
    sign: " ",
    text: `${channel}: ${isList ? "[" : "{"}${appended === null ? "" : `  … ${plural(appended, "element")} appended`}`,
  };
  return [open, ...inner, { sign: " ", text: isList ? "]" : "}" }];
}

const NAMES = { "+": "added: ", "-": "removed: ", " ": "" } as const;

/** What differs between two places of a thread. */
export function DiffBlock({ diff, title }: { diff: Diff; title: string }): VNode {
  const added = diff.channels.reduce((sum, channel) => sum + channel.added, 0);
  const removed = diff.channels.reduce((sum, channel) => sum + channel.removed, 0);
  return (
    <section class="diff" aria-label={title}>
      <h3 class="f">
        <span>{title}</span>
        <span>
          {diff.channels.length === 0 ? "nothing changed" : `${plural(diff.channels.length, "channel")}, +${added} −${removed}`}
        </span>
      </h3>
      {diff.channels.map((channel) => (
        <ChannelBlock key={diff.from.checkpointId + diff.to.checkpointId + channel.channel} channel={channel} />
      ))}
    </section>
  );
}

function ChannelBlock({ channel: given }: { channel: ChannelDiff }): VNode {
  const [whole, setWhole] = useState<ChannelDiff | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [most, setMost] = useState(FIRST_LINES);
  const channel = whole ?? given;
  const lines = blockOf(channel);
  const shown = lines.slice(0, most);
  const load = async (address: string): Promise<void> => {
    try {
      const answer = await ask<Diff>(address);
      setWhole(answer.channels.find((one) => one.channel === given.channel));
      setMost(MORE_LINES);
    } catch (failed) {
      setProblem(failed as Problem);
    }
  };
  return (
    <>
      <div class="lines" role="list" aria-label={`Channel ${channel.channel}`}>
        {shown.map(({ sign, text }, index) => (
          <div key={index} role="listitem" class={`l ${sign === "+" ? "p" : sign === "-" ? "n" : ""}`}>
            <span class="sr">{NAMES[sign]}</span>
            <span aria-hidden="true">{sign === "-" ? "−" : sign} </span>
            <Text of={text} />
          </div>
        ))}
      </div>
      {(lines.length > shown.length || (channel.cut && whole === undefined && channel.whole !== null)) && (
        <p class="under">
          {lines.length > shown.length && (
            <button type="button" class="quiet" onClick={() => setMost(most + MORE_LINES)}>
              Show {plural(lines.length - shown.length, "more line")}
            </button>
          )}
          {channel.cut && whole === undefined && channel.whole !== null && (
            <button type="button" class="quiet" onClick={() => void load(channel.whole ?? "")}>
              Show all of {channel.channel}
            </button>
          )}
        </p>
      )}
      {problem !== undefined && <Trouble problem={problem} />}
    </>
  );
}
