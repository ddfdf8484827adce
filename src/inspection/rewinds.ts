import type { BaseTurnSaver } from "../base-saver";
import { internalsOf } from "../internals";
import type { Rewind } from "../rewind/rewinds";
import { movingRefusal } from "./moving";
import { numberOf } from "./place";
import type { Refusal } from "./refusal";
import { turns } from "./words";

/** A rewind in a list. */
export interface RewindLine {
  id: string;
  threadId: string;
  number: number;
  toTask: string;
  status: "undoing" | "done" | "abandoned" | "taken-back";
  at: string;
  takenBackAt: string | null;
  /** Whether it can be taken back, if nothing was saved on the thread since. */
  archived: boolean;
  reason: string | null;
}

export function rewindLine({ id, threadId, seq, toTask, status, createdAt, takenBackAt, archived, reason }: Rewind): RewindLine {
  return {
    ...{ id, threadId, number: numberOf(seq), toTask, archived, at: createdAt.toISOString() },
    status: takenBackAt === undefined ? status : "taken-back",
    takenBackAt: takenBackAt?.toISOString() ?? null,
    reason: reason ?? null,
  };
}

export const takeBackCommand = (rewindId: string, undone: number): string =>
  turns("take-back", [rewindId], undone > 0 && "--despite-undone", "--yes");

/** Taking a rewind back, as it would go now. */
export interface TakeBack {
  threadId: string;
  toTask: string;
  /** Effects that it has undone, and that stay so. Without saying that you know, it's refused. */
  undone: number;
  /** Why it would be refused otherwise, too. */
  refused: Refusal | null;
}

/** @throws {TurnsError} REWIND_NOT_FOUND */
export async function takeBackOf(saver: BaseTurnSaver, rewindId: string): Promise<TakeBack> {
  const { store } = internalsOf(saver);
  const { rewind, undone } = await store.inspect.rewindToTakeBack(rewindId);
  const { threadId, targetTaskId: toTask, targetSeq, takenBackAt, status, archived } = rewind;
  const answer = (message: string | null, code: Refusal["code"] = "REWIND_CONFLICT"): TakeBack => {
    return { threadId, toTask, undone, refused: message === null ? null : { code, message } };
  };
  const isBehind = async (seq: number): Promise<boolean> =>
    Object.values<number>({ ...(await store.countBehind(threadId, seq)) }).some((rows) => rows > 0);
  if (takenBackAt !== undefined) return answer(`It was taken back at ${takenBackAt}.`);
  if (status === "abandoned") return answer("It was given up before it removed anything.");
  const [run] = await saver.turns.liveRuns(threadId);
  if (run !== undefined) return answer(`Process ${run.pid} on ${run.host} is running the thread.`, "THREAD_RUNNING");
  const moving = await movingRefusal(saver, threadId);
  if (moving !== null) return answer(moving.message, moving.code);
  const unfinished = await saver.rewinds.unfinished(threadId);
  if (unfinished !== undefined)
    return answer(`The rewind to ${unfinished.toTask} was begun and isn't finished.`, "REWIND_UNFINISHED");
  if (!archived) return answer("Nothing of what it removed was kept.");
  // A look at one row first: much may be behind an old rewind.
  if ((await store.inspect.checkpointBehind({ threadId, ns: "", seq: targetSeq })) !== undefined || (await isBehind(targetSeq)))
    return answer("The thread has newer work, or an earlier rewind was taken back. Rewind to the same task first.");
  return answer((await isBehind(targetSeq - 1)) ? null : "A later rewind went further back. Take that one back first.");
}
