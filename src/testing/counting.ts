import type { FailpointDetails, FailpointHandler, Failpoint } from "../failpoints";
import type { CheckedMatch } from "./points";

/** A handler that acts once, at the n-th time that a failpoint is reached where the match says. */
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

/** A commit that tells its node task only gets the node's name, by the Thought that came first. */
export function withNode(details: FailpointDetails, names: Map<string, string>): FailpointDetails {
  const { nodeTaskId, node } = details;
  if (nodeTaskId === undefined) return details;
  if (node !== undefined) names.set(nodeTaskId, node);
  const known = names.get(nodeTaskId);
  return known === undefined ? details : { ...details, node: known };
}
