import type { FailpointDetails } from "../failpoints";

/** Describes where a row, or one about to be written, belongs. */
export function detailsOf(subject: unknown): FailpointDetails {
  if (typeof subject !== "object" || subject === null) return {};
  const { threadId, nodeName: node, nodeTaskId, name, key } = subject as Record<string, unknown>;
  // Of the subjects with a node task, only effects have a name or a key.
  const texts = { threadId, node, nodeTaskId, ...(nodeTaskId === undefined ? {} : { effect: name, key }) };
  return Object.fromEntries(Object.entries(texts).filter(([, value]) => typeof value === "string"));
}
