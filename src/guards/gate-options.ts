import { z } from "zod";

/** What a node's gate does with a result below `minConfidence`. */
export type OnFailure = "record" | "throw" | "rollback";

/** What a validator is told besides the node's output. */
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

/** How far back one should go for a result that failed; see `verdict.ts` for the rule. */
export type Recommendation = "previous-checkpoint" | "one-task" | "everything";

/** Looks at what a node returned. It must not change it. */
export type Validator = (output: unknown, context: ValidationContext) => Validity | Promise<Validity>;

/** Settings of a run's gates; a node's own come first. */
export interface GateDefaults {
  /** Below this a result has failed. Default 0.7. */
  minConfidence?: number | undefined;
  /** From `minConfidence` up to this it is a warning, and from here on it has passed. Default 0.85. */
  warnBelow?: number | undefined;
  /**
   * `"record"` (default): the result is stored and told, the run goes on. `"throw"`: the node fails with VALIDATION_FAILED, and runs
   * again on resume. `"rollback"`: the same, and a GraphRunner goes back to the previous checkpoint and runs on from there.
   */
  onFailure?: OnFailure | undefined;
  /** How often a GraphRunner rolls one run back for this node. Default 3. */
  maxRollbacks?: number | undefined;
}

export interface GateOptions extends GateDefaults {
  validate: Validator;
}

/** A gate with all its settings. */
export interface Gate {
  validate: Validator;
  minConfidence: number;
  warnBelow: number;
  onFailure: OnFailure;
  maxRollbacks: number;
}

/** Gates of a graph, by a node's path (`sub|a`) or by its name, wherever it is. */
export type Gates = Readonly<Record<string, Gate>>;

const DEFAULTS = { minConfidence: 0.7, warnBelow: 0.85, onFailure: "record", maxRollbacks: 3 } as const;
const confidence = z.number().min(0).max(1).optional();

/** The fields of {@link GateDefaults}, for options that have others beside them. */
export const gateDefaultFields = {
  minConfidence: confidence,
  warnBelow: confidence,
  onFailure: z.enum(["record", "throw", "rollback"]).optional(),
  maxRollbacks: z.number().int().min(0).optional(),
};
export const validatorSchema = z.custom<Validator>((value) => typeof value === "function", "must be a function");

const ORDERED = "must be from minConfidence (default 0.7) up";
const ordered = ({ minConfidence, warnBelow }: GateDefaults): boolean =>
  (minConfidence ?? DEFAULTS.minConfidence) <= (warnBelow ?? Math.max(DEFAULTS.warnBelow, minConfidence ?? 0));

export const gateDefaultsSchema = z.strictObject(gateDefaultFields).refine(ordered, { path: ["warnBelow"], error: ORDERED });
export const gateSchema = z.strictObject({ ...gateDefaultFields, validate: validatorSchema });

/**
 * Fills in what a node does not say from the run's defaults, and what they do not say from this package's. Where only `minConfidence` is
 * given and it is above the default of `warnBelow`, nothing is a warning.
 *
 * @returns undefined if what results has warnBelow below minConfidence
 */
export function gateOf(options: GateOptions, defaults: GateDefaults): Gate | undefined {
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
