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
