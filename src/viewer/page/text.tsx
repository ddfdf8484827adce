import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { server } from "./server";
import { clock, moment, ago, now, utc, bytes } from "./words";

/**
 * What a reader doesn't see or what reorders a line: control characters (but for tab and line end), marks of direction, spaces without
 * width, line ends of other kinds, and halves of surrogate pairs.
 */
const HIDDEN =
  // eslint-disable-next-line no-control-regex, no-misleading-character-class
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF9-\uFFFB]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]|[\u{E0000}-\u{E0FFF}]/gu;

const NAMES: Readonly<Record<number, string>> = {
  0x00: "NUL",
  0x1b: "ESC",
  0x0d: "CR",
  0x200b: "ZWSP",
  0x200d: "ZWJ",
  0x200e: "LRM",
  0x200f: "RLM",
  0x202a: "LRE",
  0x202b: "RLE",
  0x202c: "PDF",
  0x202d: "LRO",
  0x202e: "RLO",
  0x2066: "LRI",
  0x2067: "RLI",
  0x2068: "FSI",
  0x2069: "PDI",
  0xfeff: "BOM",
};

/** An emoji's joiner or variation selector belongs to the emoji. */
const EMOJI =
  /\p{Extended_Pictographic}(?:[\u{1F3FB}-\u{1F3FF}]|\uFE0F)*(?:\u200D\p{Extended_Pictographic}(?:[\u{1F3FB}-\u{1F3FF}]|\uFE0F)*)*/gu;

/** Content of a thread: text nodes, with hidden characters made visible. */
export function Text({ of }: { of: string }): VNode {
  if (of.search(HIDDEN) < 0) return <bdi>{of}</bdi>;
  const emoji = [...of.matchAll(EMOJI)].map(({ index, 0: text }) => [index, index + text.length] as const);
  const parts: (string | VNode)[] = [];
  let from = 0;
  let at = 0;
  for (const match of of.matchAll(HIDDEN)) {
    const { index } = match;
    while ((emoji[at]?.[1] ?? Infinity) <= index) at += 1;
    const inEmoji = (emoji[at]?.[0] ?? Infinity) <= index;
    const code = match[0].codePointAt(0) ?? 0;
    if (inEmoji && (code === 0x200d || code === 0xfe0f)) continue;
    parts.push(of.slice(from, index));
    const point = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    parts.push(
      <span class="hidden-char" title={`${point}, invisible`}>
        {NAMES[code] ?? point}
      </span>,
    );
    from = index + match[0].length;
  }
  parts.push(of.slice(from));
  return <bdi>{parts}</bdi>;
}

/** How much of a long text is shown at once. */
const STEP = 20_000;

/** A text of any length, with its line ends. More is shown when asked for. */
export function LongText({ of, class: name = "long" }: { of: string; class?: string }): VNode {
  const [shown, show] = useState(STEP);
  const text = of.slice(0, shown);
  return (
    <div class={name}>
      <Text of={text} />
      {of.length > shown && (
        <p class="more">
          <button type="button" class="quiet" onClick={() => show(shown + 5 * STEP)}>
            Show more
          </button>{" "}
          {bytes(shown)} of {bytes(of.length)} are shown.
        </p>
      )}
    </div>
  );
}

/** A time: how long ago, and exactly when a pointer rests on it. @param suffix what follows in a sentence: " ago" */
export function Ago({ at, suffix = "" }: { at: string; suffix?: string }): VNode {
  const from = now.use();
  utc.use();
  return (
    <time dateTime={at} title={moment(at)}>
      {ago(at, from)}
      {/^\d+ (s|min|h|d)$/.test(ago(at, from)) ? suffix : ""}
    </time>
  );
}

/** A time of day; the date when a pointer rests on it. */
export function At({ at, digits = 0 }: { at: string; digits?: 0 | 1 | 3 }): VNode {
  utc.use();
  return (
    <time dateTime={at} title={moment(at)}>
      {clock(at, digits)}
    </time>
  );
}

const MOMENT = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)/;

/** A sentence of the server: its times are shown as times of day, here or in UTC. A name that looks like one stays. */
export function Words({ of, times }: { of: string; times: readonly string[] }): VNode {
  return (
    <>
      {of.split(MOMENT).map((text, index) => (
        <span key={index}>{times.includes(text) ? <At at={text} /> : <Text of={text} />}</span>
      ))}
    </>
  );
}

/** Copies a text, and says so. */
export function Copy({ text, what = "Copy" }: { text: string | (() => string); what?: string }): VNode {
  const [done, setDone] = useState("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setDone("Copied");
    } catch {
      setDone("Not allowed to copy");
    }
    setTimeout(() => setDone(""), 2_000);
  };
  return (
    <button type="button" class="quiet copy" onClick={() => void copy()}>
      <span aria-live="polite">{done === "" ? what : done}</span>
    </button>
  );
}

/** A command to run in a terminal, with a button that copies it. It names the database as `turns web` was told it. */
export function Command({ of: command }: { of: string }): VNode {
  const of = command.replace(/^turns/, () => server.get()?.program ?? "turns");
  return (
    <>
      <span class="command">
        <code>
          {of.split(" ").map((word, index) => (
            <span key={index} class={word.length < 22 ? "word" : ""}>
              {index > 0 && " "}
              <Text of={word} />
            </span>
          ))}
        </code>
        <Copy text={of} />
      </span>
      {of.includes("MODULE#EXPORT") && (
        <small class="module">MODULE#EXPORT: your graph's file and its export, which aren't recorded: ./agent.ts#graph</small>
      )}
    </>
  );
}

export function Pill({ kind, children }: { kind: string; children: preact.ComponentChildren }): VNode {
  return <span class={`pill ${kind}`}>{children}</span>;
}
