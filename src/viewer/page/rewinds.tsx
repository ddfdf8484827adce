import type { VNode } from "preact";
import { ofThread } from "../addresses";
import type { RewindPlan, Rewinds, Thread } from "../api";
import { useAnswer } from "./ask";
import { mayWrite, open } from "./dialogs";
import { Choice, RewindDialog, TakeBackDialog } from "./forms";
import { go, usePlace } from "./place";
import { Ago, Command, Pill, Text } from "./text";
import { Loading, Trouble } from "./trouble";
import { Undos } from "./undos";
import { plural } from "./words";

/** A rewind as a dry run, and the rewinds that were done. */
export function RewindView({ thread, tick }: { thread: Thread; tick: number }): VNode {
  const place = usePlace();
  const { threadId, rewindTo } = thread.report;
  const target = place.task ?? rewindTo?.toTask ?? thread.tasks.at(-2);
  const plan = useAnswer<RewindPlan>(
    target === undefined ? null : ofThread(threadId, "rewind", { to: target, allow: place.allow }),
    tick,
  );
  const past = useAnswer<Rewinds>(ofThread(threadId, "rewinds"), tick);
  return (
    <section class="view scroll" aria-label="Rewind" tabIndex={0}>
      <h2>What would a rewind undo?</h2>
      {target === undefined ? (
        <p class="empty">This thread has no earlier task to go back to.</p>
      ) : (
        <>
          <p class="pick">
            <label for="rewind-task">Back to the end of task</label>
            <select id="rewind-task" value={target} onChange={(event) => go({ task: event.currentTarget.value }, "replace")}>
              {thread.tasks.map((task) => (
                <option key={task} value={task}>
                  {task}
                </option>
              ))}
            </select>
            <span class="dim">This is a dry run: nothing is changed.</span>
          </p>
          {plan.problem !== undefined && <Trouble problem={plan.problem} />}
          {plan.data === undefined && plan.problem === undefined && <Loading what="the plan" />}
          {(plan.data?.refused != null || place.allow !== undefined) && (
            <Choice
              checked={place.allow !== undefined}
              onChange={(checked) => go({ allow: checked ? "1" : undefined }, "replace")}
              label="Leave effects that have no undo as they are"
            />
          )}
          {plan.data !== undefined && <Plan plan={plan.data} start={thread.start} />}
        </>
      )}
      <h2>Past rewinds</h2>
      {past.problem !== undefined && <Trouble problem={past.problem} />}
      {past.data?.rewinds.length === 0 && <p class="empty">This thread was never rewound.</p>}
      {(past.data?.rewinds ?? []).map((rewind) => (
        <article key={rewind.id} class="card" aria-label={`Rewind to ${rewind.toTask}`}>
          <h3 class="top">
            <span>
              to <Text of={rewind.toTask} />
            </span>
            <Pill kind={rewind.status === "undoing" ? "bad" : "plain"}>{rewind.status}</Pill>
          </h3>
          <div class="body">
            <p>
              <Ago at={rewind.at} suffix=" ago" />
              {rewind.reason !== null && (
                <>
                  {": "}
                  <Text of={rewind.reason} />
                </>
              )}
              {rewind.takenBackAt !== null && (
                <>
                  , taken back <Ago at={rewind.takenBackAt} suffix=" ago" />
                </>
              )}
              {". "}
              {rewind.undone > 0 && `It undid ${plural(rewind.undone, "effect")}. `}
              {rewind.status === "done" && rewind.refused !== null && (
                <Text of={`It can't be taken back: ${rewind.refused.message}`} />
              )}
            </p>
            {rewind.command !== null && (
              <>
                <Command of={rewind.command} />
                {mayWrite() && (
                  <button type="button" class="action" onClick={() => open(() => <TakeBackDialog rewind={rewind} />)}>
                    Take back …
                  </button>
                )}
              </>
            )}
          </div>
        </article>
      ))}
    </section>
  );
}

function Plan({ plan, start }: { plan: RewindPlan; start: string | null }): VNode {
  return (
    <article class="card plan-card" aria-label="Plan">
      <h3 class="top">
        <Text of={plan.headline} />
      </h3>
      <div class="body">
        {plan.text !== "" && (
          <p>
            <Text of={plan.text} />
          </p>
        )}
        {plan.refused !== null && (
          <p class="bad-text">
            It would be refused now: <Text of={plan.refused.message} />
          </p>
        )}
        <h4>Undone, in this order</h4>
        {plan.removed === null ? <p class="dim">Not known.</p> : <Undos effects={plan.effects} />}
        <Command of={plan.command} />
        {mayWrite() && plan.refused === null && (
          <button type="button" class="action" onClick={() => open(() => <RewindDialog plan={plan} start={start} />)}>
            Rewind …
          </button>
        )}
      </div>
    </article>
  );
}
