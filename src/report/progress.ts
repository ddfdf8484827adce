import { z } from "zod";
import { checkedOptions, idSchema } from "../options";

/** Tokens as the models reported them. `cached` is part of the input, `reasoning` part of the output. */
export interface PhaseTokens {
  input: number;
  output: number;
  cached: number;
  reasoning: number;
}

/** The status of a phase. */
export type PhaseStatus = "pending" | "in-progress" | "completed" | "failed" | "skipped";

/** One phase of the work. In a file made from a thread, it is a task or a node. */
export interface Phase {
  /** Unique in the file. */
  id: string;
  name: string;
  status: PhaseStatus;
  startedAt: Date | null;
  endedAt: Date | null;
  /** Markdown. */
  notes: string;
  tokens: PhaseTokens;
}

/** Where the work continues, by ids of phases. */
export interface ResumeInfo {
  lastPhase: string | null;
  /** The first phase that is neither completed nor skipped. */
  nextPhase: string | null;
  nextStep: string | null;
  canResume: boolean;
  /** Why it can't resume; null if and only if it can. */
  reason: string | null;
}

/** The content of a progress file (requirement S5.1). */
export interface Progress {
  threadId: string;
  phases: Phase[];
  resume: ResumeInfo;
  /** The sum of the phases' tokens. */
  totals: PhaseTokens;
}

export const TOKEN_KINDS = ["input", "output", "cached", "reasoning"] as const satisfies readonly (keyof PhaseTokens)[];
export const STATUSES = ["pending", "in-progress", "completed", "failed", "skipped"] as const satisfies readonly PhaseStatus[];

/** Minus zero becomes zero, because a file can't distinguish them. */
const count = z
  .number()
  .int()
  .min(0)
  .max(Number.MAX_SAFE_INTEGER)
  .overwrite((value) => value + 0);
const tokens = z.strictObject({ input: count, output: count, cached: count, reasoning: count });

export const phaseSchema = z.strictObject({
  id: idSchema,
  name: z.string(),
  status: z.enum(STATUSES),
  startedAt: z.date().nullable(),
  endedAt: z.date().nullable(),
  notes: z.string(),
  tokens,
});

const resumeSchema = z
  .strictObject({
    lastPhase: idSchema.nullable(),
    nextPhase: idSchema.nullable(),
    nextStep: z.string().nullable(),
    canResume: z.boolean(),
    reason: z.string().nullable(),
  })
  .refine(({ canResume, reason }) => canResume === (reason === null), {
    path: ["reason"],
    message: "must be null if it can resume, and a text if it cannot",
  });

/** What every {@link Progress} satisfies: totals and resume info agree with the phases. */
export const progressSchema: z.ZodType<Progress> = z
  .strictObject({ threadId: idSchema, phases: z.array(phaseSchema), resume: resumeSchema, totals: tokens })
  .superRefine((progress, context) => {
    const ids = progress.phases.map((phase) => phase.id);
    const known = new Set(ids);
    const wrong = (path: (string | number)[], message: string): void => context.addIssue({ code: "custom", path, message });
    if (known.size < ids.length) {
      const twice = ids.findIndex((each, index) => ids.indexOf(each) !== index);
      wrong(["phases", twice, "id"], "must be an id that no other phase has");
    }
    for (const field of ["lastPhase", "nextPhase"] as const) {
      const named = progress.resume[field];
      if (named !== null && !known.has(named)) wrong(["resume", field], "must be the id of a phase, or null");
    }
    const sum = sumOf(progress.phases);
    const off = TOKEN_KINDS.find((kind) => sum[kind] !== progress.totals[kind]);
    if (off !== undefined) wrong(["totals", off], "must be the sum over the phases");
  });

/** @throws {TurnsError} INVALID_OPTION naming the first field that is wrong */
export function checkedProgress(progress: unknown): Progress {
  return checkedOptions(progressSchema, progress);
}

export function noTokens(): PhaseTokens {
  return { input: 0, output: 0, cached: 0, reasoning: 0 };
}

export function addedTokens(left: PhaseTokens, right: Partial<PhaseTokens>): PhaseTokens {
  const sum = noTokens();
  for (const kind of TOKEN_KINDS) sum[kind] = left[kind] + (right[kind] ?? 0);
  return sum;
}

export function sumOf(phases: readonly Pick<Phase, "tokens">[]): PhaseTokens {
  return phases.reduce((sum, phase) => addedTokens(sum, phase.tokens), noTokens());
}

/** Where work can continue (requirement S5.4). */
export interface ResumePoint extends Pick<ResumeInfo, "nextPhase" | "canResume" | "reason"> {
  /** Id of the last completed phase; null if there is none. */
  lastCompleted: string | null;
  totals: PhaseTokens;
}

/**
 * The resume info that the phases imply. A failed phase is the next one: it is repaired and run again. Earlier info stays where
 * it still applies: a next step while the next phase is the same, a refusal while that phase is still running or failed.
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
  return next.status === "in-progress" ? `continue with ${next.name}` : `begin ${next.name}`;
}

export function resumePointOf(progress: Progress): ResumePoint {
  const { lastPhase, nextPhase, canResume, reason } = resumeInfoOf(progress.phases, progress.resume);
  return { lastCompleted: lastPhase, nextPhase, canResume, reason, totals: sumOf(progress.phases) };
}
