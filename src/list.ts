import { isDeepStrictEqual } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointListOptions, CheckpointMetadata, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "./errors";
import { checkedId, checkpointIdOf, configurableOf, namespaceOf } from "./run-config";
import type { CheckpointQuery } from "./store/store";
import { metadataOf, readListed, type TupleParts } from "./tuples";

const HEADS_PER_PAGE = 64;
/** So long a caller who asks for one result after another keeps the event loop to himself. */
const LONGEST_MS = 20;
/** Taken at load, so that a user's fake timers don't stop a list. */
const nextTurn = setImmediate;

/**
 * Lists page by page: no cursor stays open between two results, which would keep the write-ahead log from being folded in. Values and
 * writes are read only for what passes the filter.
 */
export async function* listTuples(
  parts: TupleParts,
  config: RunnableConfig,
  options: CheckpointListOptions,
): AsyncGenerator<CheckpointTuple> {
  const configurable = configurableOf(config, "list");
  const query = {
    threadId: configurable["thread_id"] === undefined ? undefined : checkedId(configurable["thread_id"], "thread_id", "list"),
    ns: namespaceOf(configurable["checkpoint_ns"], "list"),
    checkpointId: checkpointIdOf(config, "list"),
    beforeId: options.before === undefined ? undefined : checkpointIdOf(options.before, "list"),
    // Set in what LangGraph hands to a graph inside a node.
    isOfRun: configurable["__pregel_read"] !== undefined,
  };
  const matches = matcherOf(options.filter);
  let left = limitOf(options.limit);
  let after: number | undefined;
  if (parts.serde !== undefined) await parts.serde.settled();
  const isNotBefore = await followersOf(parts.store, query);
  let since = performance.now();
  const breathe = async (): Promise<void> => {
    if (performance.now() - since < LONGEST_MS) return;
    await new Promise((resolve) => nextTurn(resolve));
    since = performance.now();
  };
  while (left > 0) {
    const limit = options.filter === undefined ? Math.min(left, HEADS_PER_PAGE) : HEADS_PER_PAGE;
    const page = await parts.store.listCheckpoints({ ...query, after, limit });
    for (const head of page) {
      await breathe();
      const metadata = await metadataOf(parts, head);
      if (!matches(metadata) || (await isNotBefore(metadata))) continue;
      const tuple = await readListed(parts, head);
      if (tuple === undefined) continue;
      yield tuple;
      left -= 1;
      if (left <= 0) return;
    }
    after = page.at(-1)?.place;
    if (page.length < limit) return;
  }
}

/** Keys are data, dots and quotes included; values compare deeply; undefined asks for nothing. */
function matcherOf(filter: CheckpointListOptions["filter"]): (metadata: CheckpointMetadata) => boolean {
  if (typeof (filter ?? {}) !== "object" || Array.isArray(filter)) throw noFilter(filter);
  const wanted = Object.entries(filter ?? {}).filter(([, value]) => value !== undefined);
  return (metadata) =>
    wanted.every(
      ([key, value]) => Object.hasOwn(metadata, key) && isDeepStrictEqual((metadata as Record<string, unknown>)[key], value),
    );
}

/**
 * Whether a checkpoint of a graph inside a node was made in the course of the one that is named as `before`, or of one behind it. It may be
 * saved first all the same: with durability "exit", and where nodes run on while the graph around them still waits for a save. A replay
 * that started from it would find what it is yet to do.
 */
async function followersOf(
  store: TupleParts["store"],
  { threadId, ns, beforeId }: Pick<CheckpointQuery, "threadId" | "ns" | "beforeId">,
): Promise<(metadata: Partial<CheckpointMetadata>) => Promise<boolean>> {
  if (beforeId === undefined) return async () => Promise.resolve(false);
  const before = threadId === undefined ? undefined : await store.placeOf(threadId, ns, beforeId);
  return async ({ parents }) => {
    if (typeof parents !== "object") return false;
    if (Object.values(parents).includes(beforeId)) return true;
    const parentId: unknown = before && parents[before.ns];
    if (before === undefined || threadId === undefined || typeof parentId !== "string") return false;
    const parent = await store.placeOf(threadId, before.ns, parentId);
    return parent !== undefined && parent.position > before.position;
  };
}

function limitOf(limit: unknown): number {
  if (limit === undefined) return Infinity;
  if (typeof limit === "number" && (Number.isInteger(limit) || limit === Infinity)) return limit;
  throw new TurnsError("INVALID_OPTION", {
    problem: `Option "limit" is ${describe(limit)}.`,
    remedy: "Pass a whole number; 0 or less lists nothing. Leave it out to list everything.",
  });
}

function noFilter(filter: unknown): TurnsError {
  return new TurnsError("INVALID_OPTION", {
    problem: `Option "filter" is ${describe(filter)}.`,
    remedy: "Pass an object of metadata to compare, or leave it out to list everything.",
    data: { option: "filter" },
  });
}
