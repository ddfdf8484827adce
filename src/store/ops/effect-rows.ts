import type { EffectRow } from "../effects";
import type { Program } from "../program";
import { EFFECT_ROWS } from "../rows";
import type { Session } from "../session";
import type { RawOf, EFFECTS } from "../tables";
import type { ThreadState } from "../thread-state";

export type RawEffect = RawOf<typeof EFFECTS>;

/**
 * An effect is updated as a whole, because its checksum covers all of it. With another seq the row moves, because its id is
 * unique.
 */
export function* saveEffect(session: Session, key: ThreadState, effect: EffectRow): Program<EffectRow> {
  const { input, outcome, undoError } = effect;
  key.touch();
  if (effect.unsavedRun !== undefined) session.savedRuns.delete(effect.unsavedRun);
  const row = { ...effect, content: JSON.stringify({ input, outcome, undoError }) };
  const values = EFFECT_ROWS.values(session.sealing, key, row);
  yield* session.run(EFFECT_ROWS.save, ...values);
  const { intents } = key.facts;
  if (effect.status === "intent" || effect.undoStatus === "begun")
    intents.set(effect.id, { row: effect, checksum: values.at(-1) as string });
  else intents.delete(effect.id);
  return effect;
}

/** Reads a row, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function toEffect(session: Session, threadId: string, raw: RawEffect): EffectRow {
  const { content, ...row } = EFFECT_ROWS.parse(session.sealing, threadId, raw);
  return { ...row, ...contentOf(content) };
}

/** Text that isn't ours is damaged. The checksum reveals that, or the reader that decodes the outcome. */
export function contentOf(text: string): Pick<EffectRow, "input" | "outcome" | "undoError"> {
  try {
    const { input, outcome, undoError } = JSON.parse(text) as Partial<Record<string, string>>;
    const areTexts = [input, outcome, undoError].every((part) => part === undefined || typeof part === "string");
    if (areTexts) return { input, outcome, undoError };
  } catch {
    // Not JSON of ours: returned as it is.
  }
  return { input: text, outcome: text, undoError: undefined };
}
