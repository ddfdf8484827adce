import type { BaseTurnSaver } from "../base-saver";
import { rewindLine } from "./rewinds";
import { standingOf } from "./standing";
import { logOf } from "./turns";
import { listed, once, plural } from "./words";

const MOST_NODES = 100;

/**
 * What happened on a thread since a moment, in a sentence: for somebody who asked for a change and never heard what came of it.
 *
 * @param effectId of the effect that was to be settled, if it was that
 */
export async function sinceThen(
  saver: BaseTurnSaver,
  threadId: string,
  since: string,
  effectId: string | undefined,
): Promise<string> {
  const told: string[] = [];
  for (const { toTask, status, at, takenBackAt } of (await saver.rewinds.list(threadId)).map(rewindLine)) {
    if (takenBackAt !== null && takenBackAt >= since) told.push(`The rewind to ${toTask} was taken back.`);
    else if (at < since) continue;
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
  const started = attempts.filter(({ startedAt }) => startedAt >= since);
  const nodes = listed(once(started.toReversed().map(({ node }) => node.replaceAll("|", " › "))), 3);
  if (started.length > 0) told.push(`${plural(started.length, "node")} started since then: ${nodes}.`);
  return told.length === 0 ? "Nothing has happened on the thread since then." : told.join(" ");
}
