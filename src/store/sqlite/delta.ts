import { corrupted } from "../checksum";
import type { DeltaHistory } from "../store";
import { loadValues } from "./checkpoints";
import type { Sql } from "./sql";
import { verifyWrite } from "./writes";

interface Row {
  channel: string;
  checkpoint_id: string;
  seed: string | null;
  node_task_id: string | null;
  idx: number | null;
  value: string | null;
  checksum: string | null;
}

/**
 * One query for all channels: up the parent chain, per channel until an ancestor that stored a value, and the writes on the way.
 *
 * Each link tells what its child has really consumed. Writes count as they stood when the child was saved, so a branch re-run later
 * from the same checkpoint does not change what the older branch reads. A child in which the channel has its parent's version took
 * nothing: a time travel's fork (langgraphjs#2737), an empty `updateState`. New input took what LangGraph wrote for it under its own
 * task id (all zeros, with durability "exit" a step in front), and dropped what the parent's tasks had written. An `updateState` on a
 * checkpoint that already had a child took its own write alone.
 *
 * CROSS JOIN pins the join order; with a plain JOIN SQLite scans the thread for every link. The plus before `w.seq` keeps it from
 * looking writes up by seq, which reads all of the thread's for every link. The depth cannot exceed the number of
 * checkpoints, which ends the walk should a damaged file contain a cycle.
 */
const HISTORY = `WITH RECURSIVE
  wanted(channel) AS (SELECT value FROM json_each(?4)),
  chain(channel, depth, checkpoint_id, parent_id, seq, source, version, seed, child_seq, child_source, child_version) AS (
    SELECT w.channel, 0, s.checkpoint_id, s.parent_checkpoint_id, s.seq, s.source,
        (SELECT v.value FROM json_each(s.body, '$.channel_versions') AS v WHERE v.key = w.channel), NULL, NULL, NULL, NULL
      FROM wanted AS w CROSS JOIN langgraph_snapshots AS s
      WHERE s.thread_id = ?1 AND s.checkpoint_ns = ?2 AND s.checkpoint_id = ?3 AND s.superseded_by IS NULL
    UNION ALL
    SELECT c.channel, c.depth + 1, p.checkpoint_id, p.parent_checkpoint_id, p.seq, p.source,
        (SELECT v.value FROM json_each(p.body, '$.channel_versions') AS v WHERE v.key = c.channel),
        (SELECT json_extract(m.value, '$[1]') FROM json_each(p.channels) AS m WHERE m.key = c.channel),
        c.seq, c.source, c.version
      FROM chain AS c CROSS JOIN langgraph_snapshots AS p
      WHERE p.thread_id = ?1 AND p.checkpoint_ns = ?2 AND p.checkpoint_id = c.parent_id AND p.superseded_by IS NULL
        AND c.seed IS NULL AND c.depth <= (SELECT count(*) FROM langgraph_snapshots WHERE thread_id = ?1)
  )
  SELECT p.channel, p.checkpoint_id, p.seed, w.node_task_id, w.idx, w.value, w.checksum
    FROM chain AS p
    LEFT JOIN langgraph_writes AS w ON w.thread_id = ?1 AND w.checkpoint_ns = ?2 AND w.checkpoint_id = p.checkpoint_id
      AND w.channel = p.channel AND +w.seq < p.child_seq AND (w.superseded_by IS NULL OR w.superseded_by > p.child_seq)
      AND (p.child_version IS NULL OR p.child_version IS NOT p.version)
      AND (p.child_source <> 'input' OR w.node_task_id LIKE '%-0000-0000-0000-000000000000')
      AND (p.child_source <> 'update' OR w.seq > coalesce((SELECT max(sibling.seq) FROM langgraph_snapshots AS sibling
        WHERE sibling.thread_id = ?1 AND sibling.checkpoint_ns = ?2 AND sibling.parent_checkpoint_id = p.checkpoint_id
          AND sibling.seq < p.child_seq), 0))
    WHERE p.depth > 0
    ORDER BY p.channel, p.depth DESC, w.node_task_id, w.idx`;

export function deltaHistory(
  sql: Sql,
  threadId: string,
  ns: string,
  checkpointId: string,
  channels: readonly string[],
): DeltaHistory {
  const rows = sql.all<Row>(HISTORY, threadId, ns, checkpointId, JSON.stringify(channels));
  const hashes = new Map<string, string>();
  const writes = [];
  for (const row of rows) {
    if (row.seed !== null) hashes.set(row.channel, row.seed);
    if (row.node_task_id === null || row.idx === null || row.value === null || row.checksum === null) continue;
    const write = {
      node_task_id: row.node_task_id,
      idx: row.idx,
      channel: row.channel,
      value: row.value,
      checksum: row.checksum,
    };
    verifyWrite(write, threadId, ns, row.checkpoint_id);
    writes.push({ channel: row.channel, nodeTaskId: row.node_task_id, value: row.value });
  }
  const values = loadValues(sql, threadId, [...new Set(hashes.values())]);
  const seeds = new Map<string, string>();
  for (const [channel, hash] of hashes) {
    const text = values.get(hash);
    if (text === undefined)
      throw corrupted(`the history of channel ${JSON.stringify(channel)}`, `a value with hash ${hash}`, "none", {
        threadId,
        ns,
        channel,
      });
    seeds.set(channel, text);
  }
  return { writes, seeds };
}
