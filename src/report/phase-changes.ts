import { describe, TurnsError } from "../errors";
import { toInline } from "./markdown";
import { addedTokens, type Phase, phaseSchema, type PhaseTokens, type Progress, resumeInfoOf, sumOf } from "./progress";

/** What to change in a phase. Fields that aren't given stay. */
export interface PhaseChange extends Partial<Omit<Phase, "id" | "tokens">> {
  /** Replaces these counts. */
  tokens?: Partial<PhaseTokens>;
}

export const tokensSchema = phaseSchema.shape.tokens.partial();
export const changeSchema = phaseSchema.omit({ id: true, tokens: true }).partial().extend({ tokens: tokensSchema.optional() });

const FAILED = "**Failed:** ";

/**
 * Changes one phase and updates totals and resume info (requirement S5.3). The times follow the status unless they are given. A
 * phase begins when it becomes in-progress, and stops when it becomes completed, failed or skipped.
 *
 * @throws {TurnsError} UNKNOWN_PHASE
 */
export function withPhase(progress: Progress, id: string, now: Date, next: (phase: Phase) => PhaseChange): Progress {
  const index = progress.phases.findIndex((phase) => phase.id === id);
  const phase = progress.phases[index];
  if (phase === undefined) throw unknownPhase(id, progress.threadId);
  const { tokens = {}, ...rest } = next(phase);
  const given = defined(rest);
  const counts = addedTokens({ ...phase.tokens, ...defined(tokens) }, {});
  const phases = progress.phases.with(index, { ...phase, ...timesFor(phase, given.status, now), ...given, tokens: counts });
  return { ...progress, phases, resume: resumeInfoOf(phases, progress.resume), totals: sumOf(phases) };
}

function timesFor(phase: Phase, status: Phase["status"] | undefined, now: Date): Partial<Phase> {
  if (status === undefined || status === phase.status) return {};
  if (status === "pending") return { startedAt: null, endedAt: null };
  if (status === "in-progress") return { startedAt: phase.endedAt === null ? (phase.startedAt ?? now) : now, endedAt: null };
  return { endedAt: now };
}

function defined<T extends object>(given: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as never;
}

const unknownPhase = (id: string, threadId: string): TurnsError =>
  new TurnsError("UNKNOWN_PHASE", {
    problem: `The progress of thread ${describe(threadId)} has no phase ${describe(id)}.`,
    remedy: "read() shows which there are; write() adds phases. Nothing was changed.",
    data: { id, threadId },
  });

/** Why a phase failed, as one line of its notes. Its first words identify the line when the reason changes or disappears. */
export function failureLine(reason: string): string {
  return FAILED + toInline(reason);
}

/** Notes with their failure line removed and another one appended. What people wrote stays. */
export function withFailure(notes: string, line: string): string {
  const lines = notes.split("\n");
  const kept = lines.filter((each) => !each.startsWith(FAILED));
  // Also removes the empty lines around it.
  const others = kept.length === lines.length ? notes : withoutEmptyEnds(kept).join("\n");
  if (line === "") return others;
  return others === "" ? line : `${others}${others.endsWith("\n") ? "" : "\n"}\n${line}`;
}

/** Counts instead of matching: a regular expression would start again at each of a million empty lines in the middle. */
function withoutEmptyEnds(lines: readonly string[]): string[] {
  const first = lines.findIndex((line) => line !== "");
  return first === -1 ? [] : lines.slice(first, lines.findLastIndex((line) => line !== "") + 1);
}

/**
 * The progress of a thread, with the names and notes that people gave its phases in the file. Only the failure line comes from
 * the thread.
 */
export function keepingNotes(fresh: Progress, old: Progress): Progress {
  const known = new Map(old.phases.map((phase) => [phase.id, phase]));
  const phases = fresh.phases.map((phase): Phase => {
    const before = known.get(phase.id);
    return before === undefined ? phase : { ...phase, name: before.name, notes: withFailure(before.notes, phase.notes) };
  });
  return { ...fresh, phases };
}
