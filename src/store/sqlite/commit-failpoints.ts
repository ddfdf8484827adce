import { type CommitName, failpoint, type FailpointDetails } from "../../failpoints";
import type { Awaitable } from "../store";

/**
 * Runs a transaction between its failpoints. `.after` is reached only if it committed, when it has, and before its caller knows.
 *
 * @param subject what it is about; asked for only if somebody listens
 */
export function atFailpoints<T>(
  name: CommitName,
  subject: () => unknown,
  transaction: () => T,
  run: (transaction: () => T) => Awaitable<T>,
): Awaitable<T> {
  const details = (): FailpointDetails => detailsOf(subject());
  failpoint(`${name}.before`, details);
  const committed = run(() => {
    const result = transaction();
    failpoint(`${name}.within`, details);
    return result;
  });
  const reached = (result: T): T => {
    failpoint(`${name}.after`, details);
    return result;
  };
  return committed instanceof Promise ? committed.then(reached) : reached(committed);
}

/** What a row, or one that is to be, tells of where it belongs. */
function detailsOf(subject: unknown): FailpointDetails {
  if (typeof subject !== "object" || subject === null) return {};
  const { threadId, nodeName: node, nodeTaskId, name, key } = subject as Record<string, unknown>;
  // Of what has a node task only an effect has a name, or a key.
  const texts = { threadId, node, nodeTaskId, ...(nodeTaskId === undefined ? {} : { effect: name, key }) };
  return Object.fromEntries(Object.entries(texts).filter(([, value]) => typeof value === "string"));
}
