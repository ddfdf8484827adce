import type { VNode } from "preact";
import type { ShownEffect, TurnAnswer } from "../api";
import { mayWrite, open } from "./dialogs";
import { ResolveDialog } from "./forms";
import { Value } from "./shown";
import { At, Command, LongText, Pill, Text } from "./text";
import { plural } from "./words";

const KINDS: Readonly<Record<ShownEffect["status"], string>> = {
  done: "ok",
  failed: "bad",
  "failed-for-good": "bad",
  running: "run",
  "in-doubt": "bad",
};
const NAMES: Readonly<Record<ShownEffect["status"], string>> = {
  done: "done",
  failed: "failed",
  "failed-for-good": "failed for good",
  running: "running",
  "in-doubt": "in doubt",
};

/** A value that fits into a line, or undefined. */
function inLine(value: unknown): string | undefined {
  const text = JSON.stringify(value) as string | undefined;
  return text !== undefined && text.length <= 60 ? text : undefined;
}

export const isInDoubt = ({ status, undoStatus }: Pick<ShownEffect, "status" | "undoStatus">): boolean =>
  status === "in-doubt" || undoStatus === "begun";

/** An effect: its state, when, its receipt, its undo, and what to do if it is in doubt. */
export function EffectCard({ effect }: { effect: ShownEffect }): VNode {
  const { name, label, status, undo, undoStatus, undoError, startedAt, endedAt, result, tries, idempotent } = effect;
  const doubt = isInDoubt(effect) || undoStatus === "failed";
  const receipt = result === null ? undefined : inLine(result.value);
  const isUndone = undoStatus === "done";
  return (
    <article class={`card effect${doubt ? " doubt" : ""}`} aria-label={`Effect ${name} ${label}`}>
      <h3 class="top">
        <Text of={effect.title} />
        {isUndone ? (
          <Pill kind="plain">undone</Pill>
        ) : undoStatus === null ? (
          <Pill kind={KINDS[status]}>{NAMES[status]}</Pill>
        ) : (
          <Pill kind="bad">{undoStatus === "failed" ? "undo failed" : "undo in doubt"}</Pill>
        )}
      </h3>
      <div class="body">
        <p>
          {endedAt === null ? "Started " : status === "done" ? "Done " : "Ended "}
          <At at={endedAt ?? startedAt} digits={1} />
          {tries > 1 && `, ${tries} tries`}
          {receipt !== undefined && (
            <>
              , receipt{" "}
              <code>
                <Text of={receipt} />
              </code>
            </>
          )}
          {". "}
          {undo === null ? "It has no undo." : undo === "" ? "It needs no undo." : !doubt && "A rewind can undo it."}
          {idempotent && " A retry with the same key is harmless."}
        </p>
        {effect.note !== null && (
          <p>
            <Text of={effect.note} />
          </p>
        )}
        {undoError !== null && (
          <p class="bad-text">
            <Text of={undoError} />
          </p>
        )}
        {effect.error !== null && <LongText class="long mono" of={`${effect.error.name}: ${effect.error.message}`} />}
        {doubt && effect.command !== null && <Command of={effect.command} />}
        {doubt && mayWrite() && (
          <button type="button" class="action" onClick={() => open(() => <ResolveDialog effect={effect} />)}>
            Settle by hand …
          </button>
        )}
        <details>
          <summary>Input, receipt and key</summary>
          <p class="dim">
            Key <code>{effect.key}</code>
          </p>
          {effect.input !== null && <Value of={effect.input} label={`Input of ${name}`} pick={pickOf(effect.id, "input")} />}
          {result !== null && receipt === undefined && (
            <Value of={result} label={`Receipt of ${name}`} pick={pickOf(effect.id, "result")} />
          )}
        </details>
      </div>
    </article>
  );
}

const pickOf =
  (id: string, part: "input" | "result") =>
  (answer: TurnAnswer): unknown =>
    answer.effects.find((effect) => effect.id === id)?.[part]?.value ?? null;

export function Effects({ effects }: { effects: readonly ShownEffect[] }): VNode {
  const sorted = [...effects].sort((left, right) => left.number - right.number);
  return (
    <div class="stack">
      {sorted.length === 0 && <p class="empty">This attempt recorded no effects.</p>}
      {sorted.length > 3 && <p class="dim">{plural(sorted.length, "effect")}, oldest first</p>}
      {sorted.map((effect) => (
        <EffectCard key={effect.id} effect={effect} />
      ))}
    </div>
  );
}
