import { filtered, type Program } from "../program";
import type { PrunePlan, SweepPlan } from "../store";
import { unneededOf } from "./prune-marks";
import type { Sql } from "../session";
import type { ThreadKey } from "../thread-state";
import { outdate, threadKey } from "../ops/thread-rows";

const DELETE_CHUNKS = "DELETE FROM langgraph_chunks WHERE seq IN (SELECT value FROM json_each(?1)) AND thread = ?2";
/** From the end, so that what is left is a shorter list at any time. */
const DELETE_ITEMS = `DELETE FROM langgraph_items WHERE list = ?1 AND pos IN
  (SELECT pos FROM langgraph_items WHERE list = ?1 AND pos >= ?2 ORDER BY pos DESC LIMIT ?3)`;
const HAS_ITEMS = "SELECT 1 FROM langgraph_items WHERE list = ? AND pos >= ? LIMIT 1";
const DELETE_LIST = "DELETE FROM langgraph_lists WHERE seq = ? AND thread = ?";
/** A row of its own, and the pages its body fills at SQLite's usual page size. */
const TO_READ = `SELECT coalesce(sum(pages), 0) AS pages FROM (SELECT 1 + octet_length(body) / 4096 AS pages
  FROM langgraph_chunks WHERE thread = ? LIMIT ?)`;

/** How much was pruned from a thread since it was last swept. */
export function* unswept(sql: Sql, threadId: string): Program<number> {
  const key = yield* threadKey(sql, threadId);
  return key === undefined ? 0 : key.row.unswept;
}

/** About how many pages a sweep would read. @param limit no more values are looked at than this */
export function* pagesToSweep(sql: Sql, threadId: string, limit: number): Program<number> {
  const key = yield* threadKey(sql, threadId);
  return (key && (yield* sql.get<{ pages: number }>(TO_READ, key.thread, limit))?.pages) ?? 0;
}

/**
 * Finds the values that nothing refers to any more.
 *
 * @param without what is to be taken as gone already, to tell what a prune would sweep
 */
export function* sweepPlan(sql: Sql, threadId: string, without: PrunePlan | undefined): Program<SweepPlan | undefined> {
  const key = yield* threadKey(sql, threadId);
  return key === undefined ? undefined : yield* planOf(sql, key, without);
}

function* planOf(sql: Sql, key: ThreadKey, without: PrunePlan | undefined): Program<SweepPlan> {
  const { chunks, lists } = yield* unneededOf(sql, key, without);
  const touched = yield* filtered(lists, function* ({ list, from, whole }) {
    return whole || (yield* sql.get(HAS_ITEMS, list, from)) !== undefined;
  });
  // The newest first: a chunk is stored after those that it refers to, and must not outlive them if the sweep ends halfway.
  const newestFirst = [...chunks].sort((left, right) => right - left);
  return {
    threadId: key.threadId,
    chunks: newestFirst,
    lists: touched,
    unswept: key.row.unswept,
    stamp: key.stamp,
  };
}

/**
 * Deletes up to `limit` rows of a plan, lists first. If the thread has changed since the plan was made, it is made anew. With the last
 * row the thread counts as swept, as far as it had been pruned when the plan was made.
 *
 * @returns how many chunks went, and what is left of the plan
 */
export function* sweepBatch(sql: Sql, plan: SweepPlan, limit: number): Program<{ chunks: number; rest: SweepPlan }> {
  const key = yield* threadKey(sql, plan.threadId);
  if (key === undefined) return { chunks: 0, rest: { ...plan, chunks: [], lists: [], unswept: 0 } };
  const current = key.stamp === plan.stamp ? plan : yield* planOf(sql, key, undefined);
  const lists = [...current.lists];
  let left = limit;
  while (left > 0 && lists[0] !== undefined) {
    const { list, from, whole } = lists[0];
    const items = yield* sql.run(DELETE_ITEMS, list, from, left);
    if (items >= left) break;
    if (whole) yield* sql.run(DELETE_LIST, list, key.thread);
    lists.shift();
    left -= items + 1;
  }
  const chunks = lists.length > 0 ? [] : current.chunks.slice(0, Math.max(1, left));
  const swept = chunks.length === 0 ? 0 : yield* sql.run(DELETE_CHUNKS, JSON.stringify(chunks), key.thread);
  if (current.chunks.length + current.lists.length > 0) outdate(key);
  const rest = { ...current, lists, chunks: current.chunks.slice(chunks.length), stamp: key.stamp };
  if (rest.chunks.length + lists.length > 0) return { chunks: swept, rest };
  key.change({ unswept: Math.max(0, key.row.unswept - current.unswept) });
  return { chunks: swept, rest: { ...rest, unswept: 0 } };
}
