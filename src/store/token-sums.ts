import { malformed } from "./ops/stored-json";
import type { TaskRow, TokenCounts } from "./store";

/** The tokens of a task's turns at one node. */
export interface NodeTokens extends TokenCounts {
  /** The node and the nodes around it: `outer|inner`. */
  path: string;
}

/**
 * The tokens of an interval's turns that were pruned.
 * @throws {TurnsError} CHECKPOINT_CORRUPTED
 */
export function prunedTokensOf({ prunedTokens }: Pick<TaskRow, "prunedTokens">): NodeTokens[] {
  return prunedTokens === undefined ? [] : parsed(prunedTokens);
}

/** As {@link prunedTokensOf} reads it. */
export function prunedTokensText(nodes: readonly NodeTokens[]): string {
  return JSON.stringify(nodes.map(({ path, input, output, cached, reasoning }) => [path, input, output, cached, reasoning]));
}

/** Adds to the sums, node by node. */
export function withTokens(nodes: readonly NodeTokens[], more: readonly NodeTokens[]): NodeTokens[] {
  const sums = new Map<string, NodeTokens>();
  for (const { path, ...counts } of [...nodes, ...more]) {
    const known = sums.get(path) ?? { path, input: 0, output: 0, cached: 0, reasoning: 0 };
    sums.set(path, { path, ...summed(known, counts) });
  }
  return [...sums.values()];
}

export function summed(left: TokenCounts, right: TokenCounts): TokenCounts {
  return {
    input: left.input + right.input,
    output: left.output + right.output,
    cached: left.cached + right.cached,
    reasoning: left.reasoning + right.reasoning,
  };
}

function parsed(text: string): NodeTokens[] {
  const what = "the tokens of pruned turns";
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed(what, "JSON");
  }
  if (!Array.isArray(value) || !value.every(isEntry)) throw malformed(what, "a list of nodes with four counts each");
  return value.map(([path, input, output, cached, reasoning]) => ({ path, input, output, cached, reasoning }));
}

function isEntry(value: unknown): value is [string, number, number, number, number] {
  if (!Array.isArray(value) || value.length !== 5 || typeof value[0] !== "string") return false;
  return value.slice(1).every((count) => Number.isSafeInteger(count) && (count as number) >= 0);
}
