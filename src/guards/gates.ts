import { z } from "zod";
import { describe, TurnsError } from "../errors";
import { checkedOptions, functionSchema } from "../options";

/** What a node's gate does with a result below `minConfidence`. */
export type OnFailure = "record" | "throw" | "rollback";

export interface ValidationContext {
  threadId: string;
  taskId: string;
  nodeName: string;
  /** Names and ids of node tasks from the root down to this one. */
  nodeNs: string;
  nodeTaskId: string;
  step: number;
  attempt: number;
  /** What the node was called with. */
  input: unknown;
}

/** How sure a validator is, from 0 to 1, and why. */
export type Validity = number | { confidence: number; reason?: string; recommendation?: Recommendation };

/** How far back to go for a failed result; {@link validated} describes the rule. */
export type Recommendation = "previous-checkpoint" | "one-task" | "everything";

/** Examines what a node returned. It must not change it. */
export type Validator = (output: unknown, context: ValidationContext) => Validity | Promise<Validity>;

/** Default settings of a run's gates. A node's own settings take precedence. */
export interface GateDefaults {
  /** A result below this confidence has failed. Default 0.7. */
  minConfidence?: number | undefined;
  /** A result from `minConfidence` up to this is a warning; from here on it has passed. Default 0.85. */
  warnBelow?: number | undefined;
  /**
   * What happens to a failed result.
   * - `"record"` (default): the verdict is stored and reported, and the run continues.
   * - `"throw"`: the node fails with VALIDATION_FAILED, and runs again on resume.
   * - `"rollback"`: the same, and a GraphRunner goes back to the previous checkpoint and continues from there.
   */
  onFailure?: OnFailure | undefined;
  /** How often a GraphRunner rolls one run back for this node. Default 3. */
  maxRollbacks?: number | undefined;
}

export interface GateOptions extends GateDefaults {
  validate: Validator;
}

export type Gate = { [K in keyof GateOptions]-?: NonNullable<GateOptions[K]> };

/** Gates of a graph, by a node's path (`sub|a`), or by its name anywhere in the graph. */
export type Gates = Readonly<Record<string, Gate>>;

const DEFAULTS = { minConfidence: 0.7, warnBelow: 0.85, onFailure: "record", maxRollbacks: 3 } as const;
const confidence = () => z.number().min(0).max(1).optional();

/** The fields of {@link GateDefaults}, for options that contain others as well. */
export const gateDefaultFields = () => ({
  minConfidence: confidence(),
  warnBelow: confidence(),
  onFailure: z.enum(["record", "throw", "rollback"]).optional(),
  maxRollbacks: z.number().int().min(0).optional(),
});
export const validatorSchema = () => functionSchema<Validator>();

const ORDERED = "must be from minConfidence (default 0.7) up";
const ordered = ({ minConfidence, warnBelow }: GateDefaults): boolean =>
  (minConfidence ?? DEFAULTS.minConfidence) <= (warnBelow ?? Math.max(DEFAULTS.warnBelow, minConfidence ?? 0));

const gateDefaultsSchema = () => z.strictObject(gateDefaultFields()).refine(ordered, { path: ["warnBelow"], error: ORDERED });
const gateSchema = () => z.strictObject({ ...gateDefaultFields(), validate: validatorSchema() });

/**
 * Fills in a node's missing settings from the run's defaults, and those from this package's. If only `minConfidence` is given and
 * it is above the default of `warnBelow`, nothing is a warning.
 *
 * @returns undefined if warnBelow would be below minConfidence
 */
function gateOf(options: GateOptions, defaults: GateDefaults): Gate | undefined {
  const minConfidence = options.minConfidence ?? defaults.minConfidence ?? DEFAULTS.minConfidence;
  const warnBelow = options.warnBelow ?? defaults.warnBelow ?? Math.max(DEFAULTS.warnBelow, minConfidence);
  if (warnBelow < minConfidence) return undefined;
  return {
    validate: options.validate,
    minConfidence,
    warnBelow,
    onFailure: options.onFailure ?? defaults.onFailure ?? DEFAULTS.onFailure,
    maxRollbacks: options.maxRollbacks ?? defaults.maxRollbacks ?? DEFAULTS.maxRollbacks,
  };
}

/** A gate's verdict, as it is stored with the Action (requirement S3.4). */
export interface Validation {
  confidence: number;
  /** `passed` from `warnBelow` on, `warning` from `minConfidence` on, otherwise `failed`. */
  verdict: "passed" | "warning" | "failed";
  /** What the validator said. Not stored in an encrypted database, or if `redact` or `turns` restrict the content of turns. */
  reason?: string;
  /** For a failed result: how far back to go. */
  recommendation?: Recommendation;
  minConfidence: number;
  warnBelow: number;
  onFailure: OnFailure;
}

const RECOMMENDATIONS: readonly unknown[] = ["previous-checkpoint", "one-task", "everything"];
const MAX_REASON = 2_000;

/**
 * Calls a gate's validator. If the validator throws, or doesn't say how sure it is, the result failed with confidence 0.
 *
 * Unless the validator says itself what to go back to, it is:
 * - `previous-checkpoint` for a first failure: the node made a bad step, and may make a better one from the same state;
 * - `one-task` if the node has failed before on the same state (a later attempt): the cause lies earlier, so the whole task is
 *   done again;
 * - `everything` for a confidence of exactly 0 from the validator itself: it rules the result out, so nothing it is based on is
 *   trusted.
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

/** A missing verdict says nothing about what the result is based on. */
function unanswered(reason: string, context: ValidationContext): Answer {
  return { confidence: 0, reason, recommendation: byAttempt(context) };
}

/** Reads the stored JSON of what {@link validated} returned. @throws {TurnsError} CHECKPOINT_CORRUPTED if it isn't valid */
export function parseValidation(text: string): Validation {
  try {
    const found = JSON.parse(text) as Validation | null;
    if (typeof found?.confidence === "number" && typeof found.verdict === "string") return found;
  } catch {
    // Invalid JSON is reported below.
  }
  throw new TurnsError("CHECKPOINT_CORRUPTED", {
    problem: "The validation of a turn holds no confidence and no verdict.",
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
  });
}

/** The gates as options: one for each node that has one, and defaults for all. */
export interface GatesOptions {
  nodes?: Readonly<Record<string, GateOptions>> | undefined;
  defaults?: GateDefaults | undefined;
}

const gatesSchema = () =>
  z.strictObject({
    nodes: z.record(z.string(), gateSchema()).optional(),
    defaults: gateDefaultsSchema().optional(),
  });

/** @throws {TurnsError} INVALID_OPTION naming the option by its path, e.g. `nodes.draft.warnBelow` */
export function resolveGates(options: GatesOptions = {}): Gates {
  const { nodes = {}, defaults = {} } = checkedOptions(gatesSchema, options);
  return Object.fromEntries(
    Object.entries(nodes).map(([node, given]): [string, Gate] => {
      const gate = gateOf(given, defaults);
      if (gate === undefined) throw disordered(node, given, defaults);
      return [node, gate];
    }),
  );
}

/** The error a node fails with when its gate rejects the result. */
export function validationFailed(
  at: { threadId: string; nodeName: string; nodeNs: string; nodeTaskId: string; turnId: string | undefined },
  gate: Gate,
  validation: Validation,
): TurnsError {
  const { confidence, minConfidence, onFailure, recommendation } = validation;
  return new TurnsError("VALIDATION_FAILED", {
    problem: `The output of node ${JSON.stringify(at.nodeName)} has a confidence of ${confidence}; at least ${minConfidence} is needed.`,
    remedy:
      onFailure === "rollback"
        ? `A GraphRunner goes back to the previous checkpoint and continues from there, at most ${gate.maxRollbacks} times (maxRollbacks). You see this error because none are left, or because no GraphRunner runs the graph. Resume runs the node again; lower minConfidence or set onFailure: "record" to accept its output.`
        : "Its output was recorded and not used. Resume runs the node again; the turn's validation says what the validator gave as a reason.",
    data: { ...at, confidence, minConfidence, onFailure, recommendation, maxRollbacks: gate.maxRollbacks },
  });
}

function disordered(node: string, given: GateOptions, defaults: GateDefaults): TurnsError {
  const option = given.warnBelow === undefined ? `nodes.${node}.minConfidence` : `nodes.${node}.warnBelow`;
  return new TurnsError("INVALID_OPTION", {
    problem: `Option ${JSON.stringify(option)} puts warnBelow below minConfidence, the defaults included: minConfidence ${given.minConfidence ?? defaults.minConfidence ?? "0.7"}, warnBelow ${given.warnBelow ?? defaults.warnBelow ?? "0.85"}.`,
    remedy: "Raise warnBelow, or lower minConfidence.",
    data: { option },
  });
}
