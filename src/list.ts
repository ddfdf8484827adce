import { isDeepStrictEqual } from "node:util";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { CheckpointListOptions, CheckpointMetadata, CheckpointTuple } from "@langchain/langgraph-checkpoint";
import { describe, TurnsError } from "./errors";
import { checkedId, checkpointIdOf, configurableOf, namespaceOf } from "./run-config";
import type { CheckpointQuery, ListedHead } from "./store/store";
import { metadataOf, readPage, type TupleParts } from "./tuples";
import { othersFirst } from "./timers";

const HEADS_PER_PAGE = 64;
/** Of a server, so many checkpoints are read together at first, and then more each time, if the caller hasn't said how many it wants. */
const FIRST_PAGE = 4;
/** How long a caller who asks for one result after another may keep the event loop busy. */
const LONGEST_MS = 20;

/**
 * Lists page by page. No cursor stays open between two results, since that would keep the write-ahead log from being
 * checkpointed. Values and writes are read only for checkpoints that pass the filter.
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
    // LangGraph sets this for a graph inside a node.
    isOfRun: configurable["__pregel_read"] !== undefined,
  };
  const matches = matcherOf(options.filter);
  let left = limitOf(options.limit);
  let after: number | undefined;
  if (parts.serde !== undefined) await parts.serde.settled();
  const isNotBefore = await followersOf(parts.store, query);
  let since = performance.now();
  const breathe = async () => {
    if (performance.now() - since < LONGEST_MS) return;
    await othersFirst();
    since = performance.now();
  };
  let together = !parts.store.isRemote ? 1 : left < Infinity ? HEADS_PER_PAGE : FIRST_PAGE;
  while (left > 0) {
    const limit = options.filter === undefined ? Math.min(left, HEADS_PER_PAGE) : HEADS_PER_PAGE;
    const page = await parts.store.listCheckpoints({ ...query, after, limit });
    for (let at = 0; at < page.length;) {
      const wanted: ListedHead[] = [];
      for (; at < page.length && wanted.length < Math.min(together, left); at += 1) {
        const head = page[at] as ListedHead;
        if (wanted[0] !== undefined && wanted[0].threadId !== head.threadId) break;
        await breathe();
        const metadata = await metadataOf(parts, head);
        if (matches(metadata) && !(await isNotBefore(metadata))) wanted.push(head);
      }
      for await (const tuple of readPage(parts, wanted)) {
        if (tuple !== undefined) {
          yield tuple;
          left -= 1;
          if (left <= 0) return;
        }
        await breathe();
      }
      if (together > 1) together = Math.min(together * 4, HEADS_PER_PAGE);
    }
    after = page.at(-1)?.place;
    if (page.length < limit) return;
  }
}

/** Lists what is known of checkpoints without their values and writes, newest first, page by page. */
export async function* listHeads(
  parts: TupleParts,
  of: { threadId: string; ns: string },
): AsyncGenerator<{ head: ListedHead; metadata: CheckpointMetadata }> {
  const query = { ...of, checkpointId: undefined, beforeId: undefined, isOfRun: false };
  let after: number | undefined;
  for (;;) {
    const page = await parts.store.listCheckpoints({ ...query, after, limit: HEADS_PER_PAGE });
    for (const head of page) yield { head, metadata: await metadataOf(parts, head) };
    after = page.at(-1)?.place;
    if (page.length < HEADS_PER_PAGE) return;
  }
}

/** Keys are taken literally, dots and quotes included. Values compare deeply. An undefined filter matches everything. */
function matcherOf(filter: CheckpointListOptions["filter"]): (metadata: CheckpointMetadata) => boolean {
  if (typeof (filter ?? {}) !== "object" || Array.isArray(filter)) throw noFilter(filter);
  const wanted = Object.entries(filter ?? {}).filter(([, value]) => value !== undefined);
  return (metadata) =>
    wanted.every(
      ([key, value]) => Object.hasOwn(metadata, key) && isDeepStrictEqual((metadata as Record<string, unknown>)[key], value),
    );
}

/**
 * Whether a nested graph's checkpoint was made while the one named as `before`, or a later one, was current. It can still be
 * saved first: with durability "exit", or when nodes continue while the outer graph waits for a save. A replay must not start
 * from it, because it already contains work the replay is about to do.
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
