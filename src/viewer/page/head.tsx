import type { VNode } from "preact";
import { ofThread } from "../addresses";
import type { Thread, TimedSentence } from "../api";
import { open, outcome } from "./dialogs";
import { AnswerDialog, ResumeDialog } from "./forms";
import { go, usePlace } from "./place";
import { server } from "./server";
import { At, Command, Pill, Text, Words } from "./text";
import { STATE_WORDS } from "./threads";
import { bytes, day, nodeName, plural, short, utc } from "./words";

/** The thread's name, its numbers, and the four answers in words. */
export function Head({ thread }: { thread: Thread }): VNode {
  const { report, counts, tokens, startedAt, answers, start, canResume } = thread;
  const done = outcome.use();
  utc.use();
  const place = usePlace();
  const [state, kind] = STATE_WORDS[report.state];
  const isToday = day(startedAt) === day(Date.now());
  return (
    <>
      <div class="title">
        <h1>
          <Text of={report.threadId} />
        </h1>
        <Pill kind={kind}>{state}</Pill>
        <p class="m">
          {plural(counts.tasks, "task")} · {plural(counts.turns, "turn")} ·{" "}
          {tokens.input + tokens.output > 0 && `${short(tokens.input)} tokens in, ${short(tokens.output)} out · `}started{" "}
          {!isToday && `${day(startedAt)}, `}
          <At at={startedAt} /> · {plural(counts.checkpoints, "checkpoint")}
        </p>
        <a
          class="quiet bundle"
          href={ofThread(report.threadId, "bundle", { redact: 1 })}
          download={`${report.threadId.replaceAll(/[^\w.-]+/g, "_")}.redacted.json`}
        >
          Bundle for a bug report
        </a>
      </div>
      {done !== undefined && (
        <div class="outcome" role="status">
          <p>
            <b>
              <Text of={done.headline} />
            </b>
            {done.running && " What it does appears below."}
          </p>
          {done.command !== null && <Command of={done.command} />}
          <button type="button" class="quiet" onClick={() => outcome.set(undefined)}>
            Close
          </button>
        </div>
      )}
      <section class="answers" aria-label="At a glance">
        <Card question="What did it do?" sentence={answers.did} />
        <Card question="What is in flight?" sentence={answers.inFlight} isHot={answers.inFlight.tone === "attention"} />
        <Card question="Can I resume it?" sentence={answers.resume} isHot={answers.resume.tone === "attention"}>
          {report.questions.map((question, index) =>
            start === null ? (
              <button
                key={question.id ?? index}
                type="button"
                class="action"
                onClick={() => open(() => <AnswerDialog thread={report.threadId} question={question} />)}
              >
                Answer {report.questions.length > 1 ? `${nodeName(question.node)} ` : ""}…
              </button>
            ) : null,
          )}
          {canResume && start === null && (
            <button type="button" class="action" onClick={() => open(() => <ResumeDialog thread={thread} />)}>
              Resume …
            </button>
          )}
          {(canResume || report.questions.length > 0) && start !== null && (
            <details>
              <summary>To do it from this page</summary>
              <Command of={start} />
            </details>
          )}
        </Card>
        <Card question="What would a rewind undo?" sentence={answers.rewind}>
          {thread.tasks.length > 1 && place.view !== "rewind" && (
            <button type="button" class="quiet inline" onClick={() => go({ view: "rewind" })}>
              Try another task
            </button>
          )}
        </Card>
      </section>
    </>
  );
}

function Card({
  question,
  sentence,
  isHot = false,
  children,
}: {
  question: string;
  sentence: TimedSentence;
  isHot?: boolean;
  children?: preact.ComponentChildren;
}): VNode {
  return (
    <div class={`a${isHot ? " hot" : ""}`}>
      <h2>{question}</h2>
      <p>
        <Words of={sentence.headline} times={sentence.times} />
      </p>
      {sentence.text !== "" && (
        <small>
          <Words of={sentence.text} times={sentence.times} />
        </small>
      )}
      {sentence.command !== null && <Command of={sentence.command} />}
      {children}
    </div>
  );
}

/** `agent.db · 5 threads · 428 KiB · SQLite, read-only` */
export function FileLine({ threads }: { threads: number | undefined }): VNode | null {
  const known = server.use();
  if (known === undefined) return null;
  const { name, bytes: size, engine, write, database } = known;
  return (
    <p class="file" title={database}>
      <Text of={name} />
      <span class="rest">
        {" "}
        {threads !== undefined && `· ${plural(threads, "thread")} `}· {bytes(size)} ·{" "}
        {engine === "sqlite" ? "SQLite" : "PostgreSQL"}, {write ? <b class="write">may write</b> : "read-only"}
      </span>
    </p>
  );
}
