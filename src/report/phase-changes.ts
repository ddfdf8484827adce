import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { checkedOptions } from "../options";
import { failureLine, withFailure } from "./failure-notes";
import { addedTokens, type Phase, phaseSchema, type PhaseTokens, type Progress, sumOf } from "./progress";
import { resumeInfoOf } from "./resume-point";

/** What to change of a phase; what is not given stays. */
export interface PhaseChange extends Partial<Omit<Phase, "id" | "tokens">> {
  /** Replaces these counts. */
  tokens?: Partial<PhaseTokens>;
}

const tokenCounts = phaseSchema.shape.tokens.partial();
const change = phaseSchema.omit({ id: true, tokens: true }).partial().extend({ tokens: tokenCounts.optional() });
const completion = change.omit({ status: true });
const reason = z.strictObject({ reason: z.string() });

/** @throws {TurnsError} INVALID_OPTION */
export function checkedChange(given: unknown): PhaseChange {
  return checkedOptions(change, given);
}

/** As {@link checkedChange}, without a status. */
export function checkedCompletion(given: unknown): PhaseChange {
  return checkedOptions(completion, given);
}

export function checkedTokens(given: unknown): Partial<PhaseTokens> {
  return checkedOptions(tokenCounts, given);
}

export function checkedReason(given: unknown): string {
  return checkedOptions(reason, { reason: given }).reason;
}

/**
 * Changes one phase; totals and resume info follow (requirement S5.3). Unless they are given, the times follow the status: a phase
 * begins when it comes to be in progress and ends when it comes to be completed, failed or skipped.
 *
 * @throws {TurnsError} UNKNOWN_PHASE
 */
export function withPhase(progress: Progress, id: string, now: Date, next: (phase: Phase) => PhaseChange): Progress {
  const index = progress.phases.findIndex((phase) => phase.id === id);
  const phase = progress.phases[index];
  if (phase === undefined) throw unknownPhase(id, progress.threadId);
  const { tokens, ...rest } = next(phase);
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)) as Omit<
    PhaseChange,
    "tokens"
  >;
  const counts = addedTokens({ ...phase.tokens, ...defined(tokens ?? {}) }, {});
  const changed: Phase = { ...phase, ...timesFor(phase, given.status, now), ...given, tokens: counts };
  return withPhases(progress, progress.phases.with(index, changed));
}

/** Other phases in a progress; totals and resume info are made anew. */
export function withPhases(progress: Progress, phases: Phase[]): Progress {
  return { ...progress, phases, resume: resumeInfoOf(phases, progress.resume), totals: sumOf(phases) };
}

export function completed(given: PhaseChange): (phase: Phase) => PhaseChange {
  return (phase) => ({ ...given, notes: withFailure(given.notes ?? phase.notes, ""), status: "completed" });
}

export function failed(why: string, given: PhaseChange): (phase: Phase) => PhaseChange {
  return (phase) => ({ ...given, notes: withFailure(given.notes ?? phase.notes, failureLine(why)), status: "failed" });
}

export function tokensAdded(tokens: Partial<PhaseTokens>): (phase: Phase) => PhaseChange {
  return (phase) => ({ tokens: addedTokens(phase.tokens, tokens) });
}

function timesFor(phase: Phase, status: Phase["status"] | undefined, now: Date): Partial<Phase> {
  if (status === undefined || status === phase.status) return {};
  if (status === "pending") return { startedAt: null, endedAt: null };
  if (status === "in-progress") return { startedAt: phase.endedAt === null ? (phase.startedAt ?? now) : now, endedAt: null };
  return { endedAt: now };
}

function defined(tokens: Partial<PhaseTokens>): Partial<PhaseTokens> {
  return Object.fromEntries(Object.entries(tokens).filter(([, count]) => count !== undefined));
}

function unknownPhase(id: string, threadId: string): TurnsError {
  return new TurnsError("UNKNOWN_PHASE", {
    what: `phase ${describe(id)}`,
    expected: "a phase of the file",
    found: `none of that id in the progress of ${describe(threadId)}`,
    remedy: "read() shows which there are; write() adds phases. Nothing was changed.",
    data: { id, threadId },
  });
}
