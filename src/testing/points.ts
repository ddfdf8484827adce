import { z } from "zod";
import type { BodyName, CommitName, Failpoint } from "../failpoints";
import { checkedOptions } from "../options";

// Records, so that a name that is added to the type and not here does not compile.
const COMMITS: Readonly<Record<CommitName, true>> = {
  checkpoint: true,
  writes: true,
  thought: true,
  action: true,
  tokens: true,
  "effect-intent": true,
  "effect-outcome": true,
  "undo-mark": true,
  "rewind-intent": true,
  rewind: true,
  "take-back": true,
  prune: true,
  "run-mark": true,
};
const BODIES: Readonly<Record<BodyName, true>> = { "effect-body": true, "undo-body": true };

/** What is committed, and what of the user's is called: `thought`, `effect-body`, … */
export type BoundaryName = CommitName | BodyName;

export const COMMIT_NAMES = Object.keys(COMMITS) as readonly CommitName[];
export const BODY_NAMES = Object.keys(BODIES) as readonly BodyName[];

/** Every failpoint by its name, for loops over them. */
export const FAILPOINTS: readonly Failpoint[] = [
  ...COMMIT_NAMES.flatMap((name) => [`${name}.before`, `${name}.within`, `${name}.after`] as const),
  ...BODY_NAMES.flatMap((name) => [`${name}.before`, `${name}.after`] as const),
];

/** Which time that a failpoint is reached is meant. */
export interface FailpointMatch {
  point: Failpoint;
  /** The n-th time, from 1 (default), of those that the rest of this matches. */
  nth?: number | undefined;
  /** Only where it belongs to this node. */
  node?: string | undefined;
  /** Only where it belongs to the effect of this name. */
  effect?: string | undefined;
}

const name = z.string().min(1).optional();

export const pointSchema = z.custom<Failpoint>(
  (value) => (FAILPOINTS as readonly unknown[]).includes(value),
  "must be the name of a failpoint (FAILPOINTS lists them)",
);

export const matchFields = { nth: z.number().int().min(1).default(1), node: name, effect: name };

const schema = z.strictObject({ point: pointSchema, ...matchFields });

export type CheckedMatch = z.output<typeof schema>;

/** @throws {TurnsError} INVALID_OPTION for a name that is no failpoint's, and for what is wrong beside it */
export function checkedMatch(given: Failpoint | FailpointMatch): CheckedMatch {
  return checkedOptions(schema, typeof given === "string" ? { point: given } : given);
}

/** In words: `effect-body.after of node "pay", effect "charge", time 2`. */
export function inWords({ point, nth = 1, node, effect }: FailpointMatch): string {
  const of = [
    ...(node === undefined ? [] : [`node ${JSON.stringify(node)}`]),
    ...(effect === undefined ? [] : [`effect ${JSON.stringify(effect)}`]),
  ];
  return `${point}${of.length === 0 ? "" : ` of ${of.join(", ")}`}${nth === 1 ? "" : `, time ${nth}`}`;
}
