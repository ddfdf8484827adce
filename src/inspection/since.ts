import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import { numberOf } from "./place";
import { rewindLine } from "./rewinds";
import { standingOf } from "./standing";
import { logOf } from "./turns";
import { listed, once, plural } from "./words";

const MOST_NODES = 100;

/** A moment of a thread: the number of the newest on it, and when that was by the clock of who changes it. No browser's clock counts. */
const MARK = /^(\d+)@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/;

/** This moment, for {@link sinceThen}. */
export async function markOf(saver: BaseTurnSaver, threadId: string): Promise<string> {
  const { store, clock } = internalsOf(saver);
  const [turn] = await store.inspect.turnsBefore({ threadId, beforeSeq: Number.MAX_SAFE_INTEGER, limit: 1 });
  const newest = [turn?.seq ?? 0, ...(await store.listRewinds(threadId)).map(({ seq }) => seq)].map(numberOf);
  return `${Math.max(...newest)}@${clock().toISOString()}`;
}

/**
 * What happened on a thread since a moment, in a sentence: for somebody who asked for a change and never heard what came of it.
 *
 * @param mark of {@link markOf}
 * @param effectId of the effect that was to be settled, if it was that
 * @returns undefined for a mark that isn't one
 */
export async function sinceThen(
  saver: BaseTurnSaver,
  threadId: string,
  mark: string,
  effectId: string | undefined,
): Promise<string | undefined> {
  const [, newest, since] = MARK.exec(mark) ?? [];
  if (since === undefined) return undefined;
  const told: string[] = [];
  for (const { toTask, status, number, takenBackAt } of (await saver.rewinds.list(threadId)).map(rewindLine)) {
    if (takenBackAt !== null && takenBackAt >= since) told.push(`The rewind to ${toTask} was taken back.`);
    else if (number <= Number(newest)) continue;
    else if (status === "undoing") told.push(`The rewind to ${toTask} was begun and isn't finished.`);
    else told.push(`The rewind to ${toTask} is ${status}.`);
  }
  if (effectId !== undefined) {
    const { name, status, undoStatus, settledBy } = await saver.effects.get(effectId);
    const undo = undoStatus === undefined ? "" : `, its undo: ${undoStatus}`;
    told.push(`${name} is ${status}${undo}${settledBy === "person" ? ". A person settled it." : "."}`);
  }
  const { runs } = await standingOf(saver, threadId, { doubts: new Map() });
  const [run] = runs;
  if (run !== undefined) told.push(`Process ${run.pid} on ${run.host} is running the thread.`);
  const { attempts } = await logOf(saver, threadId, { limit: MOST_NODES });
  const started = attempts.filter(({ number }) => number > Number(newest));
  const nodes = listed(once(started.toReversed().map(({ node }) => node.replaceAll("|", " › "))), 3);
  if (started.length > 0) told.push(`${plural(started.length, "node")} started since then: ${nodes}.`);
  return told.length === 0 ? "Nothing has happened on the thread since then." : told.join(" ");
}
