import { z } from "zod";
import { TurnsError } from "../errors";
import type { SaverEmitter } from "../events";
import { checkedOptions, idSchema, type ResolvedOptions } from "../options";
import { type Page, pageOf, type PageOptions, rowsFor, seqPage } from "../page";
import { checkedArgument } from "../run-config";
import { type EffectRow, SETTLED_AS_HISTORY } from "../store/effects";
import type { Store } from "../store/store";
import type { EffectContent } from "./content";
import { givenResultNotSaved, reasonOf, unknownEffect } from "./failures";
import { type Effect, isRunning, toPublicEffect } from "./types";

/** What you know about an effect in doubt, or about an undo in doubt. */
export type EffectResolution =
  /** It happened, with this result. */
  | { outcome: "done"; result?: unknown }
  /** It didn't happen, and may run again. */
  | { outcome: "not-done" }
  /** It happened in a run that was lost, and doesn't matter for what is to be done now. */
  | { outcome: "history" }
  /** For an effect whose undo is in doubt or failed. */
  | { undo: "done" | "not-done" };

/** An effect with its input and outcome. */
export interface EffectDetails extends Effect {
  input: unknown;
  result: unknown;
  /** What its function threw. */
  error: unknown;
}

/** @internal */
interface EffectsParts {
  store: Store;
  content: EffectContent;
  options: Pick<ResolvedOptions, "clock">;
  events: SaverEmitter;
}

const listSchema = () =>
  z.strictObject({
    ...seqPage().shape,
    status: z.enum(["done", "failed", "failed-for-good", "running", "in-doubt"]).optional(),
  });

const named = () => z.strictObject({ effectId: idSchema });
const resolution = () =>
  z.union(
    [
      z.strictObject({ outcome: z.literal("done"), result: z.unknown().optional() }),
      z.strictObject({ outcome: z.enum(["not-done", "history"]) }),
      z.strictObject({ undo: z.enum(["done", "not-done"]) }),
    ],
    'must be { outcome: "done", result? }, { outcome: "not-done" }, { outcome: "history" } or { undo: "done" | "not-done" }',
  );

/** The journal of side effects, for people: `saver.effects`. */
export class Effects {
  readonly #parts: EffectsParts;

  /** @internal */
  constructor(parts: EffectsParts) {
    this.#parts = parts;
  }

  /**
   * Lists the effects of a thread, oldest first. An effect's `seq` is its position: pass any seq as `after` to start behind it.
   *
   * @param options.status only effects with this status
   * @throws {TurnsError} INVALID_OPTION
   */
  async list(threadId: string, options: PageOptions & { status?: Effect["status"] } = {}): Promise<Page<Effect>> {
    const { status, after, limit } = checkedOptions(listSchema, options);
    const id = checkedArgument(threadId, "threadId", "effects.list");
    const wanted = rowsFor(limit) ?? Infinity;
    const effects: Effect[] = [];
    let [last, isDone] = [after, false];
    while (!isDone && effects.length < wanted) {
      const rows = await this.#parts.store.listEffects({ threadId: id, afterSeq: last, limit: rowsFor(limit) });
      const found = rows.map((row) => toPublicEffect(row));
      effects.push(...(status === undefined ? found : found.filter((effect) => effect.status === status)));
      last = rows.at(-1)?.seq;
      isDone = rows.length < wanted;
    }
    return pageOf(effects, limit, ({ seq }) => seq);
  }

  /** Reads one effect with its input and outcome. @throws {TurnsError} EFFECT_NOT_FOUND, UNDECODABLE_VALUE */
  async get(effectId: string): Promise<EffectDetails> {
    const row = await this.#row(effectId);
    const { result, error } = ((await this.#parts.content.outcomeOf(row)) ?? {}) as { result?: unknown; error?: unknown };
    return { ...toPublicEffect(row), input: await this.#parts.content.inputOf(row), result, error };
  }

  /**
   * Settles by hand what can't be settled automatically: an effect in doubt, a completed effect whose result couldn't be saved,
   * or an undo that failed or is in doubt. A completed effect stays completed.
   *
   * @returns the effect as it is now
   * @throws {TurnsError} EFFECT_NOT_FOUND; EFFECT_NOT_IN_DOUBT if its outcome is known, or it is running; UNSERIALIZABLE_VALUE
   */
  async resolve(effectId: string, settlement: EffectResolution): Promise<Effect> {
    const row = await this.#row(effectId);
    const settled = await this.#resolve(row, checkedOptions(resolution, settlement));
    if (settled === undefined) throw unknownEffect(effectId);
    if (settled.tries !== row.tries) throw notInDoubt(settled, "it began again meanwhile");
    const effect = toPublicEffect(settled);
    this.#parts.events.emit("effect", { what: "resolved", effect });
    return effect;
  }

  async #resolve(row: EffectRow, settlement: EffectResolution): Promise<EffectRow | undefined> {
    const { store, content, options } = this.#parts;
    const at = options.clock().toISOString();
    if ("undo" in settlement) {
      if (row.undoStatus === undefined || row.undoStatus === "done") throw notInDoubt(row, "its undo isn't");
      return store.settleUndo(row.id, { status: settlement.undo === "done" ? "done" : undefined, error: undefined, at });
    }
    if (settlement.outcome === "history") {
      return store.settleEffect(row.id, { status: row.status, outcome: undefined, endedAt: at, settledBy: SETTLED_AS_HISTORY });
    }
    const lacksResult = settlement.outcome === "done" && (await content.unsavedOf(row)) !== undefined;
    if (row.status !== "intent" && !lacksResult) throw notInDoubt(row, `it is ${row.status}`);
    if (isRunning(row)) throw notInDoubt(row, "it is running just now");
    if (settlement.outcome === "not-done") {
      return store.settleEffect(row.id, { status: "failed", seen: row, outcome: undefined, endedAt: at, settledBy: "person" });
    }
    const { text, refused } = await content.ofResult(row.threadId, settlement.result);
    if (refused !== undefined) throw givenResultNotSaved(row, reasonOf(refused), refused);
    const replaces = lacksResult ? row.outcome : undefined;
    return store.settleEffect(row.id, { status: "done", seen: row, replaces, outcome: text, endedAt: at, settledBy: "person" });
  }

  async #row(effectId: string): Promise<EffectRow> {
    checkedOptions(named, { effectId });
    const row = await this.#parts.store.getEffect(effectId);
    if (row === undefined) throw unknownEffect(effectId);
    return row;
  }
}

const notInDoubt = (row: EffectRow, why: string): TurnsError =>
  new TurnsError("EFFECT_NOT_IN_DOUBT", {
    problem: `Effect ${JSON.stringify(row.name)} (${row.id}) is not in doubt: ${why}.`,
    remedy:
      row.undoStatus === undefined || row.undoStatus === "done"
        ? "Nothing was changed; saver.effects.list(threadId) shows how it stands."
        : 'Nothing was changed. To settle its undo, pass { undo: "done" } or { undo: "not-done" }.',
    data: { effectId: row.id, threadId: row.threadId },
  });
