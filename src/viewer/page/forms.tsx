import type { VNode } from "preact";
import { useId, useState } from "preact/hooks";
import { ofThread } from "../addresses";
import type { ResolveRequest, RewindPlan, Rewinds, ShownEffect, Thread } from "../api";
import { Change } from "./dialogs";
import { Json } from "./json";
import { placeNow } from "./place";
import { At, Command, Text, Words } from "./text";
import { Undos } from "./undos";
import { nodeName, plural } from "./words";

/** JSON as somebody typed it. Another text is taken as a text; undefined if it's empty, or begins like JSON and isn't. */
function valueOf(typed: string): unknown {
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return /^\s*([[{"]|$)/.test(typed) ? undefined : typed;
  }
}

function readAs(typed: string): string {
  const value = valueOf(typed);
  if (value === undefined) return typed === "" ? "JSON or text." : "Not JSON yet.";
  return `It's sent as ${typeof value === "string" ? "text" : "JSON"}: ${JSON.stringify(value)}`.slice(0, 120);
}

function JsonField({ label, typed, onType }: { label: string; typed: string; onType: (text: string) => void }): VNode {
  const id = useId();
  return (
    <p class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        name="value"
        rows={3}
        spellcheck={false}
        value={typed}
        aria-describedby={`${id}-as`}
        onInput={(event) => onType(event.currentTarget.value)}
      />
      <small id={`${id}-as`} class="dim">
        {readAs(typed)}
      </small>
    </p>
  );
}

/** Who settles an effect in doubt on a resume. */
const DOUBTS: Readonly<Record<Thread["report"]["inDoubt"][number]["settler"], string>> = {
  probe: ", its probe is asked",
  key: ", called again with the same key",
  rewind: ", settled by a rewind",
  "maybe-probe": ", its probe is asked, if any",
  person: ", settle it first",
};

/** What would happen, in words. */
function Verdict({ headline, text, times = [] }: { headline: string; text: string; times?: readonly string[] }): VNode {
  return (
    <>
      <p>
        <b>
          <Words of={headline} times={times} />
        </b>
      </p>
      <p class="dim">
        <Words of={text} times={times} />
      </p>
    </>
  );
}

export function ResumeDialog({ thread }: { thread: Thread }): VNode {
  const { report, answers } = thread;
  return (
    <Change
      title="Resume this thread"
      verb="Resume"
      thread={report.threadId}
      address={ofThread(report.threadId, "resume")}
      body={() => ({})}
    >
      <Verdict {...answers.resume} />
      <ul class="plan">
        {report.resume.kept.length > 0 && <li>Kept, and not run again: {report.resume.kept.join(", ")}</li>}
        {report.resume.runs.length > 0 && <li>Runs: {report.resume.runs.join(", ")}</li>}
        {report.inDoubt.map(({ id, name, node, settler }) => (
          <li key={id}>
            In doubt: <Text of={`${name} of ${node}`} />
            {DOUBTS[settler]}
          </li>
        ))}
      </ul>
    </Change>
  );
}

export function AnswerDialog({ thread, question }: { thread: string; question: Thread["report"]["questions"][number] }): VNode {
  const [typed, setTyped] = useState("");
  const value = valueOf(typed);
  return (
    <Change
      title="Answer and resume"
      verb="Answer"
      thread={thread}
      address={ofThread(thread, "answer")}
      body={() => (value === undefined ? undefined : { interruptId: question.id, value })}
    >
      <p>
        <Text of={nodeName(question.node)} /> asks
        {question.askedAt !== null && (
          <>
            {" since "}
            <At at={question.askedAt} />
          </>
        )}
        :
      </p>
      <div class="scroll small-box">
        <Json value={question.value} label="The question" />
      </div>
      <JsonField label="Your answer" typed={typed} onType={setTyped} />
    </Change>
  );
}

const OUTCOMES: readonly (readonly [ResolveRequest["outcome"], string, string])[] = [
  ["done", "It happened", "A resume uses its receipt."],
  ["not-done", "It didn't happen", "A resume calls it."],
  ["history", "Leave it alone", "Nothing calls it or undoes it."],
];
const UNDO_OUTCOMES: readonly (readonly [ResolveRequest["outcome"], string, string])[] = [
  ["undo-done", "Its undo happened", "The rewind continues."],
  ["undo-not-done", "Its undo didn't happen", "The rewind calls it again."],
];

export function ResolveDialog({ effect }: { effect: ShownEffect }): VNode {
  const choices = effect.undoStatus === "begun" || effect.undoStatus === "failed" ? UNDO_OUTCOMES : OUTCOMES;
  const [chosen, choose] = useState<ResolveRequest["outcome"] | undefined>();
  const [typed, setTyped] = useState("");
  const body = (): object | undefined => {
    if (chosen !== "done" || !typed.trim()) return chosen && { outcome: chosen };
    const result = valueOf(typed);
    return result === undefined ? result : { outcome: chosen, result };
  };
  return (
    <Change
      title={`Settle ${effect.title}`}
      verb="Settle"
      thread={effect.threadId}
      address={`/api/effects/${encodeURIComponent(effect.id)}/resolve`}
      effect={effect.id}
      body={body}
    >
      <p>
        Ask the receiver first whether it has key <code>{effect.key}</code>. What you settle stays settled.
      </p>
      {effect.input !== null && (
        <div class="scroll small-box">
          <Json value={effect.input.value} label="Input" />
        </div>
      )}
      <fieldset>
        <legend>What happened?</legend>
        {choices.map(([outcome, name, meaning]) => (
          <label key={outcome} class="choice">
            <input type="radio" name="outcome" value={outcome} checked={chosen === outcome} onChange={() => choose(outcome)} />
            <span>
              <b>{name}</b> <small class="dim">{meaning}</small>
            </span>
          </label>
        ))}
      </fieldset>
      {chosen === "done" && (
        <JsonField
          label="Its receipt: what its function would have returned. If empty, a resume gets no result"
          typed={typed}
          onType={setTyped}
        />
      )}
    </Change>
  );
}

/** Something to allow. */
export function Choice({
  label,
  checked,
  onChange,
}: {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
}): VNode {
  return (
    <label class="choice field">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

export function RewindDialog({ plan, start }: { plan: RewindPlan; start: string | null }): VNode {
  const without = plan.effects.filter(({ verdict }) => ["missing", "unregistered", "ambiguous"].includes(verdict));
  const [allowed, allow] = useState(placeNow().allow !== undefined);
  return (
    <Change
      title={`Rewind to the end of ${plan.toTask}`}
      verb="Rewind"
      thread={plan.threadId}
      address={ofThread(plan.threadId, "rewind")}
      body={() => ({ toTask: plan.toTask, ...(allowed && { allowUncompensated: true }) })}
    >
      <Verdict {...plan} />
      <Undos effects={plan.effects} />
      {start !== null && without.some(({ verdict }) => verdict === "unregistered") && (
        <>
          <p>Undos are in your code. To call them, start it so:</p>
          <Command of={start} />
        </>
      )}
      {without.length > 0 && (
        <Choice checked={allowed} onChange={allow} label="Leave effects that can't be undone here as they are" />
      )}
    </Change>
  );
}

export function TakeBackDialog({ rewind }: { rewind: Rewinds["rewinds"][number] }): VNode {
  const { id, threadId, toTask, at, undone } = rewind;
  return (
    <Change
      title={`Take back the rewind to ${toTask}`}
      verb="Take back"
      thread={threadId}
      address={`/api/rewinds/${encodeURIComponent(id)}/take-back`}
      body={() => ({ despiteUndone: undone > 0 })}
    >
      <p>
        What the rewind of <At at={at} /> removed is restored.
        {undone > 0 && ` What it undid stays undone: ${plural(undone, "effect")}.`}
      </p>
    </Change>
  );
}
