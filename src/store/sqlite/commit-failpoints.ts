import type { FailpointDetails } from "../../failpoints";

/** What a row, or one that is to be, tells of where it belongs. */
export function detailsOf(subject: unknown): FailpointDetails {
  if (typeof subject !== "object" || subject === null) return {};
  const { threadId, nodeName: node, nodeTaskId, name, key } = subject as Record<string, unknown>;
  // Of what has a node task only an effect has a name, or a key.
  const texts = { threadId, node, nodeTaskId, ...(nodeTaskId === undefined ? {} : { effect: name, key }) };
  return Object.fromEntries(Object.entries(texts).filter(([, value]) => typeof value === "string"));
}
