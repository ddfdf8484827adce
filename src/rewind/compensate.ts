import type { EffectContent } from "../effects/content";
import { toPublicEffect } from "../effects/types";
import type { EffectEvent, SaverEmitter } from "../events";
import { failpoint, type FailpointDetails } from "../failpoints";
import { sideBySide } from "../side-by-side";
import type { EffectRow } from "../store/effects";
import type { Lease, Store, UndoOutcome } from "../store/store";
import type { UndoCall } from "../effects/define";
import type { Found } from "./found-effects";
import type { KnownUndo } from "./undos";
import { goneMeanwhile, noResult, takenOver, undoFailed, undoInDoubt, undoNotRecorded } from "./failures";

/** How much of an undo's error is kept with the effect. */
const ERROR_LENGTH = 1_000;

export interface CompensationParts {
  store: Store;
  content: EffectContent;
  now: () => string;
  events: SaverEmitter;
}

/**
 * Undoes effects one after the other, newest first. Each is marked as begun before its undo is called, and as done before the
 * next one begins. So after a crash it is known which undos ran and which didn't, and at most one is in doubt.
 *
 * @throws {TurnsError} UNDO_FAILED; EFFECT_IN_DOUBT for an undo whose earlier call is in doubt; EFFECT_NOT_RECORDED;
 *   THREAD_DELETED; LEASE_LOST or STATE_INVARIANT_VIOLATED if somebody else continued the rewind or abandoned it; and what the
 *   store throws. Effects undone by then stay marked, and the same call continues where it stopped
 */
export async function compensate(parts: CompensationParts, by: Compensator, effects: readonly Found[]): Promise<void> {
  for (const { row, undo } of effects) if (undo !== undefined) await undoOne(parts, by, row, undo);
}

/** The rewind that undoes, and its lease on the thread. */
interface Compensator {
  rewindId: string;
  lease: Lease;
}

async function undoOne(parts: CompensationParts, by: Compensator, row: EffectRow, undo: KnownUndo): Promise<void> {
  const { rewindId, lease } = by;
  const call = await callFor(parts, row, undo);
  if (row.undoStatus !== undefined && (await isUndone(row, undo, call))) {
    await mark(parts, row, { status: "done", error: undefined }, false);
    return;
  }
  // Another host may have taken this process for dead. Then the rewind belongs to that host, and we must not even wait for its
  // end.
  await mark(parts, row, { status: "begun", error: undefined, lease }, false, (found, unfinished) => {
    if (unfinished?.id !== rewindId || !isSame(found, row)) throw takenOver(row);
  });
  const { threadId, nodeTaskId, name: effect, key } = row;
  const details = (): FailpointDetails => ({ threadId, nodeTaskId, node: row.nodeName, effect, key });
  try {
    failpoint("undo-body.before", details);
    await undo.run(call);
    failpoint("undo-body.after", details);
  } catch (error) {
    throw undoFailed(row, rewindId, await markedFailed(parts, row, error));
  }
  await mark(parts, row, { status: "done", error: undefined }, true);
}

/** For an undo that was called before and didn't succeed. Without a probe, the earlier call counts as its record says. */
async function isUndone(row: EffectRow, undo: KnownUndo, call: UndoCall): Promise<boolean> {
  if (undo.probe === undefined) {
    if (row.undoStatus === "begun" && !undo.idempotent) throw undoInDoubt(row);
    return false;
  }
  try {
    const answer: unknown = await undo.probe(call);
    // A probe that answers with what it found, and not with whether it's undone, would have it undone twice.
    if (typeof answer !== "boolean") throw new Error("the probe answered neither true nor false");
    return answer;
  } catch (error) {
    throw undoInDoubt(row, error ?? new Error("the probe threw nothing"));
  }
}

async function callFor({ content }: CompensationParts, row: EffectRow, { whenInDoubt }: KnownUndo): Promise<UndoCall> {
  const [found, input] = await sideBySide(
    () => content.outcomeOf(row),
    () => content.inputOf(row),
  );
  const outcome = found as { result?: unknown; unsaved?: unknown } | undefined;
  const inDoubt = row.status === "intent";
  const call = { key: row.key, input, inDoubt, effect: toPublicEffect(row) };
  if (inDoubt || typeof outcome?.unsaved !== "string" || whenInDoubt)
    return { ...call, result: inDoubt ? undefined : outcome?.result };
  // Its type says that there is a result. An undo that needs none, because the key is enough for it, works without.
  return {
    ...call,
    get result(): never {
      throw noResult(row);
    },
  };
}

function isSame(found: EffectRow, seen: EffectRow): boolean {
  return found.undoStatus === seen.undoStatus && found.status === seen.status && found.tries === seen.tries;
}

/**
 * @param ran whether the undo was called in between
 * @param guard as in {@link Store.settleUndo}
 */
async function mark(
  { store, now, events }: CompensationParts,
  row: EffectRow,
  outcome: Omit<UndoOutcome, "at">,
  ran: boolean,
  guard?: Parameters<Store["settleUndo"]>[2],
): Promise<void> {
  let marked: EffectRow | undefined;
  try {
    marked = await store.settleUndo(row.id, { ...outcome, at: now(), threadId: row.threadId }, guard);
  } catch (cause) {
    if (!ran || outcome.status !== "done") throw cause;
    throw undoNotRecorded(row, cause);
  }
  if (marked === undefined) throw goneMeanwhile(row, ran);
  const what: EffectEvent["what"] | undefined =
    outcome.status === "done" ? "undone" : outcome.status === "failed" ? "undo-failed" : undefined;
  if (what !== undefined) events.emit("effect", { what, effect: toPublicEffect(marked) });
}

/**
 * @returns the error to report as the cause. If the failure couldn't be saved, the undo is in doubt, and the original error is
 *   still shown
 */
async function markedFailed(parts: CompensationParts, row: EffectRow, error: unknown): Promise<unknown> {
  try {
    await mark(parts, row, { status: "failed", error: textOf(error) }, true);
    return error;
  } catch (unsaved) {
    return new AggregateError([error, unsaved], "the undo failed, and so did the save of its failure");
  }
}

function textOf(error: unknown): string {
  const { message } = (error ?? {}) as { message?: unknown };
  return (typeof message === "string" ? message : String(error)).slice(0, ERROR_LENGTH);
}
