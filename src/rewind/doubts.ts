import { toPublicEffect } from "../effects/types";
import type { EffectRow } from "../store/effects";
import type { CompensationParts } from "./compensate";
import type { KnownEffects } from "./undos";

/** Effects behind a target, after the probes of those in doubt were asked. */
export interface Asked {
  rows: readonly EffectRow[];
  /** By the effect's id, why its probe left it in doubt. */
  causes: ReadonlyMap<string, unknown>;
}

type AskingParts = Pick<CompensationParts, "store" | "content" | "now" | "events">;

/**
 * Asks the probes of effects in doubt whether they happened, as a resume would.
 *
 * @param keeps whether the answers are recorded; a dry run only looks
 */
export async function askProbes(
  parts: AskingParts,
  rows: readonly EffectRow[],
  known: KnownEffects,
  keeps: boolean,
): Promise<Asked> {
  const causes = new Map<string, unknown>();
  const asked: EffectRow[] = [];
  for (const row of rows) {
    const effect = row.undo === undefined || row.undo === "" ? undefined : known(row.undo);
    const isOpen = toPublicEffect(row).status === "in-doubt" && row.undoStatus === undefined && !row.inherited;
    // Of an effect that needs no undo it doesn't matter.
    if (effect?.probe === undefined || effect.undo === false || !isOpen) {
      asked.push(row);
      continue;
    }
    try {
      const found = await effect.probe({ key: row.key, input: await parts.content.inputOf(row) });
      if (found === null) throw new Error("the probe answered null, which says neither what it came to nor undefined");
      asked.push(await settled(parts, row, found, keeps));
    } catch (error) {
      causes.set(row.id, error);
      asked.push(row);
    }
  }
  return { rows: asked, causes };
}

/** @param result undefined: it didn't happen */
async function settled(parts: AskingParts, row: EffectRow, result: unknown, keeps: boolean): Promise<EffectRow> {
  const { store, content, now, events } = parts;
  const status = result === undefined ? "failed" : "done";
  if (!keeps) return { ...row, status };
  const { text } = await content.ofResult(row.threadId, result);
  const outcome = { status, seen: row, outcome: text, endedAt: now(), settledBy: "probe" } as const;
  const kept = await store.settleEffect(row.id, outcome);
  if (kept === undefined) return row;
  events.tell("effect", { what: "resolved", effect: toPublicEffect(kept) });
  return kept;
}
