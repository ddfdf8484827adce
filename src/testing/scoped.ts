import { z } from "zod";
import { TurnsError } from "../errors";
import { type Failpoint, type FailpointDetails, setFailpointHandler } from "../failpoints";
import { checkedOptions } from "../options";
import { once, withNode } from "./counting";
import { checkedMatch, inWords, matchFields } from "./points";

/** What happens where. */
export interface FailpointAction {
  /** The n-th time, from 1 (default). */
  nth?: number;
  node?: string;
  effect?: string;
  /**
   * `"throw"`: the commit, or the user's function, fails with FAILPOINT_REACHED. `"kill"`: this process dies by SIGKILL. A function: is
   * called, and may throw what it likes.
   */
  do: "throw" | "kill" | ((point: Failpoint, details: FailpointDetails) => void);
}

const isAction = (value: unknown): boolean => value === "throw" || value === "kill" || typeof value === "function";

const schema = z.strictObject({
  ...matchFields,
  do: z.custom<FailpointAction["do"]>(isAction, 'must be "throw", "kill" or a function'),
});

/**
 * Does something at a failpoint, once, while `work` goes on in this process.
 *
 * @returns what `work` returned
 * @throws {TurnsError} INVALID_OPTION; FAILPOINT_NOT_REACHED if the work ended well without having been there: a test that meant to
 *   disturb something would prove nothing; and what the work throws
 */
export async function withFailpoint<T>(point: Failpoint, action: FailpointAction, work: () => T | Promise<T>): Promise<T> {
  const { do: act, ...match } = checkedOptions(schema, action);
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
    // Another one that began later and goes on passes through this one, which is silent now.
    const current = setFailpointHandler(former);
    if (current !== handler) setFailpointHandler(current);
  }
  if (!reached) throw notReached(inWords(checked));
  return result;
}

function failpointReached(point: Failpoint, details: FailpointDetails): TurnsError {
  return new TurnsError("FAILPOINT_REACHED", {
    what: `failpoint ${point}`,
    expected: "nothing",
    found: "an error that a test asked for",
    remedy: "It comes from withFailpoint of langgraph-checkpoint-turns/testing.",
    data: { point, ...details },
  });
}

function notReached(where: string): TurnsError {
  return new TurnsError("FAILPOINT_NOT_REACHED", {
    what: `withFailpoint at ${where}`,
    expected: "the work to come there",
    found: "its end without having been there",
    remedy:
      "Look whether the name, `nth`, `node` and `effect` are right; effects and undos are only there where the graph has them.",
    data: { where },
  });
}
