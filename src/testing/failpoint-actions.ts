import { z } from "zod";
import { TurnsError } from "../errors";
import {
  BODY_NAMES,
  type BodyName,
  COMMIT_NAMES,
  type CommitName,
  type Failpoint,
  type FailpointDetails,
  type FailpointHandler,
  setFailpointHandler,
} from "../failpoints";
import { checkedOptions } from "../options";

/** Every commit, and every user function that is called: `thought`, `effect-body`, … */
export type BoundaryName = CommitName | BodyName;

/** Every failpoint by its name, for loops over them. */
export const FAILPOINTS: readonly Failpoint[] = [
  ...COMMIT_NAMES.flatMap((name) => [`${name}.before`, `${name}.within`, `${name}.after`] as const),
  ...BODY_NAMES.flatMap((name) => [`${name}.before`, `${name}.after`] as const),
];

/** Which occasion of reaching a failpoint is meant. */
export interface FailpointMatch {
  point: Failpoint;
  /** The n-th time, from 1 (default), counting only matches of the other fields. */
  nth?: number | undefined;
  /** Only if it belongs to this node. */
  node?: string | undefined;
  /** Only if it belongs to the effect of this name. */
  effect?: string | undefined;
}

const name = z.string().min(1).optional();

const pointSchema = z.custom<Failpoint>(
  (value) => (FAILPOINTS as readonly unknown[]).includes(value),
  "must be the name of a failpoint (FAILPOINTS lists them)",
);

const matchFields = { nth: z.number().int().min(1).default(1), node: name, effect: name };

const matchSchema = z.strictObject({ point: pointSchema, ...matchFields });

export type CheckedMatch = z.output<typeof matchSchema>;

/** @throws {TurnsError} INVALID_OPTION for a name that isn't a failpoint's, and for other invalid fields */
export function checkedMatch(given: Failpoint | FailpointMatch): CheckedMatch {
  return checkedOptions(matchSchema, typeof given === "string" ? { point: given } : given);
}

/** In words: `effect-body.after of node "pay", effect "charge", time 2`. */
export function inWords({ point, nth = 1, node, effect }: FailpointMatch): string {
  const of = [
    ...(node === undefined ? [] : [`node ${JSON.stringify(node)}`]),
    ...(effect === undefined ? [] : [`effect ${JSON.stringify(effect)}`]),
  ];
  return `${point}${of.length === 0 ? "" : ` of ${of.join(", ")}`}${nth === 1 ? "" : `, time ${nth}`}`;
}

/** What to do at a failpoint, and on which occasion. */
export interface FailpointAction {
  /** The n-th time, from 1 (default). */
  nth?: number;
  node?: string;
  effect?: string;
  /**
   * `"throw"`: the commit, or the user's function, fails with FAILPOINT_REACHED. `"kill"`: this process is killed by SIGKILL. A
   * function is called, and may throw anything.
   */
  do: "throw" | "kill" | ((point: Failpoint, details: FailpointDetails) => void);
}

const isAction = (value: unknown): boolean => value === "throw" || value === "kill" || typeof value === "function";

const actionSchema = z.strictObject({
  ...matchFields,
  do: z.custom<FailpointAction["do"]>(isAction, 'must be "throw", "kill" or a function'),
});

/**
 * Does something at a failpoint, once, while `work` runs in this process.
 *
 * @returns what `work` returned
 * @throws {TurnsError} INVALID_OPTION; FAILPOINT_NOT_REACHED if the work succeeded without reaching the failpoint, because such a
 *   test would prove nothing; and what the work throws
 */
export async function withFailpoint<T>(point: Failpoint, action: FailpointAction, work: () => T | Promise<T>): Promise<T> {
  const { do: act, ...match } = checkedOptions(actionSchema, action);
  const checked = checkedMatch({ point, ...match });
  let reached = false;
  let active = true;
  const mine = once(checked, (at, details) => {
    reached = true;
    if (act === "kill") process.kill(process.pid, "SIGKILL");
    else if (act === "throw") throw failpointReached(at, details);
    else act(at, details);
  });
  const names = new Map<string, string>();
  const handler = (at: Failpoint, details: FailpointDetails): void => {
    former?.(at, details);
    if (active) mine(at, withNode(details, names));
  };
  const former = setFailpointHandler(handler);
  let result: T;
  try {
    result = await work();
  } finally {
    active = false;
    // A handler that was set later and is still active passes calls through this one, which is silent now.
    const current = setFailpointHandler(former);
    if (current !== handler) setFailpointHandler(current);
  }
  if (!reached) throw notReached(inWords(checked));
  return result;
}

const failpointReached = (point: Failpoint, details: FailpointDetails): TurnsError =>
  new TurnsError("FAILPOINT_REACHED", {
    problem: `Failpoint ${point} was reached: a test asked for this error.`,
    remedy: "It comes from withFailpoint of langgraph-checkpoint-turns/testing.",
    data: { point, ...details },
  });

const notReached = (where: string): TurnsError =>
  new TurnsError("FAILPOINT_NOT_REACHED", {
    problem: `The work of withFailpoint finished without reaching ${where}.`,
    remedy:
      "Look whether the name, `nth`, `node` and `effect` are right; effects and undos are only there where the graph has them.",
    data: { where },
  });

/** A handler that acts once, at the n-th time that a matching failpoint is reached. */
export function once(
  { point, nth, node, effect }: CheckedMatch,
  act: (point: Failpoint, details: FailpointDetails) => void,
): FailpointHandler {
  let count = 0;
  return (reached, details) => {
    if (reached !== point) return;
    if (node !== undefined && details.node !== node) return;
    if (effect !== undefined && details.effect !== effect) return;
    count += 1;
    if (count === nth) act(reached, details);
  };
}

/** A commit that knows only its node task gets the node's name from the Thought that came first. */
export function withNode(details: FailpointDetails, names: Map<string, string>): FailpointDetails {
  const { nodeTaskId, node } = details;
  if (nodeTaskId === undefined) return details;
  if (node !== undefined) names.set(nodeTaskId, node);
  const known = names.get(nodeTaskId);
  return known === undefined ? details : { ...details, node: known };
}
