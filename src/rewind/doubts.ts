import { toPublicEffect } from "../effects/types";
import type { Found } from "../effects/options";
import type { EffectRow } from "../store/effects";
import type { CompensationParts } from "./compensate";
import type { KnownEffects } from "./undos";

/** The effects after a target, once the probes of those in doubt were asked. */
interface Asked {
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
  { rows, targetSeq }: { rows: readonly EffectRow[]; targetSeq: number },
  known: KnownEffects,
  keeps: boolean,
): Promise<Asked> {
  const causes = new Map<string, unknown>();
  const asked: EffectRow[] = [];
  for (const row of rows) {
    const effect = row.undo === undefined || row.undo === "" ? undefined : known(row.undo);
    // For an effect that needs no undo, it doesn't matter. One that was first tried before the target may have happened there.
    const isAsked = effect?.undo !== false && row.seq > targetSeq && row.undoStatus === undefined && !row.inherited;
    if (effect?.find === undefined || !isAsked || toPublicEffect(row).status !== "in-doubt") {
      asked.push(row);
      continue;
    }
    let found: Found;
    try {
      found = await effect.find(row, await parts.content.inputOf(row), keeps);
      if (found === null) throw new Error("the probe answered null, which says neither what it came to nor undefined");
    } catch (cause) {
      causes.set(row.id, cause);
      asked.push(row);
      continue;
    }
    asked.push(await settled(parts, row, found, keeps));
  }
  return { rows: asked, causes };
}

/** @param found undefined if it didn't happen */
async function settled(
  parts: AskingParts,
  row: EffectRow,
  found: { result: unknown } | undefined,
  keeps: boolean,
): Promise<EffectRow> {
  const { store, content, now, events } = parts;
  const status = found === undefined ? "failed" : "done";
  if (!keeps) return { ...row, status };
  const { text } = await content.ofResult(row.threadId, found?.result);
  const outcome = { status, seen: row, outcome: text, endedAt: now(), settledBy: "probe" } as const;
  const kept = await store.settleEffect(row.id, outcome);
  if (kept === undefined) return row;
  events.emit("effect", { what: "resolved", effect: toPublicEffect(kept) });
  return kept;
}
