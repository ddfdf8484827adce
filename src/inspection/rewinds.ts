import type { Rewind } from "../rewind/rewinds";
import { numberOf } from "./place";
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
