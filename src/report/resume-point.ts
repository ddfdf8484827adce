import type { Phase, PhaseTokens, Progress, ResumeInfo } from "./progress";
import { sumOf } from "./progress";

/** Where work can go on (requirement S5.4). */
export interface ResumePoint {
  /** Id of the last phase that was completed; null if none was. */
  lastCompleted: string | null;
  /** Id of the phase to go on with; null if there is none. */
  nextPhase: string | null;
  canResume: boolean;
  /** Why not; null if it can. */
  reason: string | null;
  totals: PhaseTokens;
}

/**
 * What the phases say about going on. A failed phase is the next one: it is repaired and run again. What was said before stands as far
 * as it still can: a next step while the next phase is the same, a refusal while that phase is still at work or failed.
 */
export function resumeInfoOf(phases: readonly Phase[], before?: ResumeInfo): ResumeInfo {
  const last = phases.findLast((phase) => phase.status === "completed")?.id ?? null;
  const next = phases.find((phase) => phase.status !== "completed" && phase.status !== "skipped");
  const at = { lastPhase: last, nextPhase: next?.id ?? null };
  if (next === undefined) {
    const reason = phases.length === 0 ? "there are no phases yet" : "all phases are done";
    return { ...at, nextStep: null, canResume: false, reason };
  }
  if (before?.nextPhase === next.id && before.reason !== null && next.status !== "pending") {
    return { ...at, nextStep: before.nextStep, canResume: false, reason: before.reason };
  }
  return { ...at, nextStep: stepFor(next), canResume: true, reason: null };
}

function stepFor(next: Phase): string {
  if (next.status === "failed") return `repair ${next.name}, then run it again`;
  return next.status === "in-progress" ? `go on with ${next.name}` : `begin ${next.name}`;
}

export function resumePointOf(progress: Progress): ResumePoint {
  const { lastPhase, nextPhase, canResume, reason } = resumeInfoOf(progress.phases, progress.resume);
  return { lastCompleted: lastPhase, nextPhase, canResume, reason, totals: sumOf(progress.phases) };
}
