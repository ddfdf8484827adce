import { describe, TurnsError } from "../errors";
import type { Gate, OnFailure, Recommendation, ValidationContext, Validity } from "./gate-options";

/** What a gate found, as it is stored with the Action (requirement S3.4). */
export interface Validation {
  confidence: number;
  /** `passed` from `warnBelow` on, `warning` from `minConfidence` on, else `failed`. */
  verdict: "passed" | "warning" | "failed";
  /** What the validator said. Not stored in an encrypted database, nor where `redact` or `turns` restrict what is. */
  reason?: string;
  /** Of a result that failed: how far back to go. */
  recommendation?: Recommendation;
  minConfidence: number;
  warnBelow: number;
  onFailure: OnFailure;
}

const RECOMMENDATIONS: readonly unknown[] = ["previous-checkpoint", "one-task", "everything"];
const MAX_REASON = 2_000;

/**
 * Asks a gate's validator. A validator that throws, or does not say how sure it is, has not vouched for anything: the result failed, with
 * confidence 0.
 *
 * What to go back to, unless the validator says so itself:
 * - `previous-checkpoint` for a first failure: the node made a bad step, and may make a better one from the same state;
 * - `one-task` when the node has failed before on the same state (a later attempt): what leads to it is to blame, so the whole task is
 *   done again;
 * - `everything` for a confidence of exactly 0 that the validator gave itself: it rules the result out, so nothing it rests on is trusted.
 */
export async function validated(gate: Gate, output: unknown, context: ValidationContext): Promise<Validation> {
  const { minConfidence, warnBelow, onFailure } = gate;
  const thresholds = { minConfidence, warnBelow, onFailure };
  const { confidence, reason, recommendation } = await answerOf(gate, output, context);
  const told = reason === undefined ? {} : { reason: reason.slice(0, MAX_REASON) };
  if (confidence >= warnBelow) return { confidence, verdict: "passed", ...told, ...thresholds };
  if (confidence >= minConfidence) return { confidence, verdict: "warning", ...told, ...thresholds };
  return { confidence, verdict: "failed", ...told, recommendation: recommendation ?? byAttempt(context), ...thresholds };
}

function byAttempt({ attempt }: ValidationContext): Recommendation {
  return attempt > 1 ? "one-task" : "previous-checkpoint";
}

interface Answer {
  confidence: number;
  reason: string | undefined;
  recommendation: Recommendation | undefined;
}

async function answerOf(gate: Gate, output: unknown, context: ValidationContext): Promise<Answer> {
  try {
    return answer(await gate.validate(output, context), context);
  } catch (error) {
    return unanswered(`the validator threw: ${String(error instanceof Error ? error.message : error)}`, context);
  }
}

function answer(given: Validity, context: ValidationContext): Answer {
  const { confidence, reason, recommendation } = (typeof given === "number" ? { confidence: given } : (given ?? {})) as Record<
    string,
    unknown
  >;
  if (typeof confidence !== "number" || !(confidence >= 0 && confidence <= 1)) {
    const found = describe(typeof given === "object" && given !== null ? confidence : given);
    return unanswered(`the validator gave ${found}, which is no confidence from 0 to 1`, context);
  }
  return {
    confidence,
    reason: typeof reason === "string" && reason !== "" ? reason : undefined,
    recommendation: RECOMMENDATIONS.includes(recommendation)
      ? (recommendation as Recommendation)
      : confidence === 0
        ? "everything"
        : undefined,
  };
}

/** That nobody vouched for a result says nothing about what it rests on. */
function unanswered(reason: string, context: ValidationContext): Answer {
  return { confidence: 0, reason, recommendation: byAttempt(context) };
}

/** Reads what {@link validated} gave and JSON kept. @throws {TurnsError} CHECKPOINT_CORRUPTED for what is none */
export function parseValidation(text: string): Validation {
  try {
    const found = JSON.parse(text) as Validation | null;
    if (typeof found?.confidence === "number" && typeof found.verdict === "string") return found;
  } catch {
    // No JSON: said below.
  }
  throw new TurnsError("CHECKPOINT_CORRUPTED", {
    what: "the validation of a turn",
    expected: "a confidence and a verdict",
    found: "something else",
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
  });
}
