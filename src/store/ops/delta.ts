import { isDerivedId } from "../../system";
import { corrupted } from "../refusals";
import { textFor } from "../dialect";
import type { Program } from "../program";
import { WRITE_ROWS } from "../rows";
import type { Session } from "../session";
import { storedRecord } from "./stored-json";
import type { CheckpointHead, DeltaHistory, Remembered, StoredValue } from "../store";
import type { ThreadState } from "../thread-state";
import { listCheckpoints, readPointer } from "./read-checkpoints";
import { ChunkReader } from "./values";
import { headOf, isSameContent } from "./heads";
import { threadKey } from "./thread-rows";
import { compareRows, type RawWrites, verifyVersions } from "./put-writes";

interface Link {
  channel: string;
  depth: number;
  ancestor_id: string;
  seed: string | null;
  /** The checkpoint that was made from this one. */
  child_id: string;
  child_source: string;
  /** 1 if that checkpoint has the channel at this one's version. */
  is_unraised: number;
}
/** A link without writes has nulls instead. */
type Row = Link & { [K in keyof RawWrites]: RawWrites[K] | null };

/**
 * One query for all channels. It follows the parent chain, for each channel up to an ancestor that stored a value, and collects
 * the writes on the way.
 *
 * Each link tells what its child has consumed:
 * - Writes count as they stood when the child was first saved. So a branch that is run again later from the same checkpoint
 *   doesn't change what the older branch reads. (With durability "exit", LangGraph 1.4 saves the checkpoint that a run began from
 *   again if the run stops there. That checkpoint hasn't consumed more, and isn't a sibling of itself.)
 * - A child that has the channel at its parent's version took nothing (a time travel's fork, langgraphjs#2737). The exception is
 *   an `updateState`: LangGraph 1.4.17 applies pending writes there without raising versions. {@link tookPending} tells whether it
 *   did.
 * - New input took what LangGraph wrote for it ({@link isInputs}), and dropped what the parent's tasks had written.
 * - An `updateState` on a checkpoint that already had a child took only its own write.
 *
 * CROSS JOIN pins the join order; with a plain JOIN SQLite scans the thread for every link. The plus before `w.seq` keeps SQLite
 * from looking writes up by seq, which reads all of the thread's writes for every link. There can't be more links than
 * checkpoints; this limit stops the walk if a damaged file contains a cycle or duplicate links.
 */
const HISTORY = textFor(
  ({ texts, version, entry, rowsAtMost }) => `WITH RECURSIVE
  wanted(channel) AS (${texts("?4")}),
  bound(rows) AS (SELECT (SELECT count(*) FROM langgraph_snapshots WHERE thread = ?1) * (SELECT count(*) FROM wanted)),
  chain(channel, depth, checkpoint_id, parent_id, position, source, version, seed, child_id, child_position, child_source, child_version) AS (
    SELECT w.channel, 0, s.checkpoint_id, s.parent_checkpoint_id, s.position, s.source, ${version("s.channels", "w.channel")},
        CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS BIGINT), CAST(NULL AS TEXT), CAST(NULL AS TEXT)
      FROM wanted AS w CROSS JOIN langgraph_snapshots AS s
      WHERE s.thread = ?1 AND s.checkpoint_ns = ?2 AND s.checkpoint_id = ?3 AND s.superseded_by IS NULL
    UNION ALL
    SELECT c.channel, c.depth + 1, p.checkpoint_id, p.parent_checkpoint_id, p.position, p.source,
        ${version("p.channels", "c.channel")}, ${entry("p.channels", "c.channel")}, c.checkpoint_id, c.position, c.source, c.version
      FROM chain AS c CROSS JOIN langgraph_snapshots AS p
      WHERE p.thread = ?1 AND p.checkpoint_ns = ?2 AND p.checkpoint_id = c.parent_id AND p.superseded_by IS NULL
        AND c.seed IS NULL AND c.depth < (SELECT rows FROM bound)
    ${rowsAtMost("(SELECT rows FROM bound)")}
  )
  SELECT p.channel, p.depth, p.checkpoint_id AS ancestor_id, p.seed, p.child_id, p.child_source,
      CASE WHEN p.child_version IS NOT NULL AND p.child_version IS NOT DISTINCT FROM p.version THEN 1 ELSE 0 END AS is_unraised,
      ${WRITE_ROWS.of("w")}
    FROM chain AS p
    LEFT JOIN langgraph_writes AS w ON w.thread = ?1 AND w.checkpoint_ns = ?2 AND w.checkpoint_id = p.checkpoint_id
      AND +w.seq < p.child_position AND (w.superseded_by IS NULL OR w.superseded_by > p.child_position)
      AND (p.child_version IS NULL OR p.child_version IS DISTINCT FROM p.version OR p.child_source = 'update')
      AND (p.child_source <> 'update' OR w.seq > coalesce((SELECT max(sibling.position) FROM langgraph_snapshots AS sibling
        WHERE sibling.thread = ?1 AND sibling.checkpoint_ns = ?2 AND sibling.parent_checkpoint_id = p.checkpoint_id
          AND sibling.position < p.child_position), 0))
    WHERE p.depth > 0`,
);

export function* deltaHistory(
  session: Session,
  threadId: string,
  ns: string,
  checkpointId: string,
  channels: readonly string[],
  remembered: Remembered,
): Program<DeltaHistory> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return { writes: [], seeds: new Map(), generation: "", chunks: new Map() };
  const reader = new ChunkReader(session, key, remembered);
  const ancestors = new Map<string, string>();
  const writes = [];
  const links = new Map<string, CheckpointHead>();
  const linkTo = function* (id: string): Program<CheckpointHead> {
    const link = links.get(id) ?? (yield* verifiedLink(session, key, ns, id));
    links.set(id, link);
    return link;
  };
  const begun = new Set<string>();
  const wanted = JSON.stringify(channels.map((channel) => JSON.stringify(channel).slice(1, -1)));
  const found = yield* session.all<Row>(HISTORY(session), key.thread, ns, checkpointId, wanted);
  for (const row of found.map(named).toSorted(inReplayOrder)) {
    const link = yield* linkTo(row.ancestor_id);
    // The farthest ancestor comes first. Either it has the value, or there is no value before it.
    if (!begun.has(row.channel) && row.seed === null && link.parentId !== undefined) throw cutOff(threadId, link);
    begun.add(row.channel);
    if (row.seed !== null) ancestors.set(row.channel, row.ancestor_id);
    if (!hasWrites(row)) continue;
    if (row.child_source === "input" && !isInputs(row)) continue;
    if (row.is_unraised === 1 && !tookPending(yield* linkTo(row.child_id), link)) continue;
    const { nodeTaskId, entries } = WRITE_ROWS.parse(session.sealing, threadId, row);
    yield* reader.readFrom(entries);
    writes.push({ channel: row.channel, nodeTaskId, entries });
  }
  const seeds = new Map<string, StoredValue>();
  for (const [channel, ancestor] of ancestors) {
    // Read again as a whole, and so verified: a small value is in the row itself.
    const [head] = yield* listCheckpoints(session, {
      threadId,
      ns,
      checkpointId: ancestor,
      beforeId: undefined,
      isOfRun: false,
      after: undefined,
      limit: 1,
    });
    const pointer = head?.channels.get(channel)?.pointer;
    if (pointer !== undefined) seeds.set(channel, yield* readPointer(session, key, pointer, reader, remembered));
  }
  return { writes, seeds, generation: key.generation, chunks: reader.texts };
}

/** The query has the names of channels as they are written in JSON. */
function named(row: Row): Row {
  return { ...row, channel: JSON.parse(`"${row.channel}"`) as string };
}

/**
 * Channel by channel, from the farthest ancestor on, and on each as LangGraph applied the writes. Not in SQL, because a database
 * may sort texts differently.
 */
function inReplayOrder(left: Row, right: Row): number {
  if (left.channel !== right.channel) return left.channel < right.channel ? -1 : 1;
  return right.depth - left.depth || (hasWrites(left) && hasWrites(right) ? compareRows(left, right) : 0);
}

/**
 * The task id of writes of no task. With durability "exit" it begins with a step, and has 1 in the last place if that step is 0.
 */
const NO_TASK = /-0000-0000-0000-00000000000[01]$/;

/**
 * Whether LangGraph wrote a row for new input. Such a row has the id of no task, and from LangGraph 1.5 on also one derived from
 * the checkpoint.
 */
function isInputs({ node_task_id: id, checkpoint_id: checkpointId }: Link & RawWrites): boolean {
  return NO_TASK.test(id) || isDerivedId(id, "__input__", checkpointId);
}

function hasWrites(row: Row): row is Link & RawWrites {
  return row.node_task_id !== null;
}

/**
 * Whether a checkpoint has consumed the pending writes of its parent's tasks. LangGraph then notes that their nodes have seen
 * what triggered them. Nodes triggered by a Send see nothing, but at the same version their packets are gone, or have written
 * something.
 */
function tookPending(child: CheckpointHead, parent: CheckpointHead): boolean {
  for (const [channel, { version, pointer }] of child.channels) {
    const above = parent.channels.get(channel);
    if (pointer !== undefined && version === above?.version && !isSameContent(pointer, above?.pointer)) return true;
  }
  const before = versionsSeen(parent);
  return Object.entries(versionsSeen(child)).some(([node, seen]) =>
    Object.entries(seen).some(([channel, version]) => before[node]?.[channel] !== version),
  );
}

function versionsSeen({ body }: CheckpointHead): Readonly<Record<string, Readonly<Record<string, unknown>>>> {
  const seen = storedRecord(body, "the versions that nodes have seen")["versions_seen"];
  return (seen ?? {}) as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Verifies what the query relied on: the row, and when its pending writes were replaced. */
function* verifiedLink(session: Session, key: ThreadState, ns: string, checkpointId: string): Program<CheckpointHead> {
  const head = yield* headOf(session, key, ns, checkpointId);
  yield* verifyVersions(session, key, ns, checkpointId);
  if (head !== undefined) return head;
  throw corrupted(`a value of thread ${key.threadId}`, `checkpoint ${checkpointId}, an ancestor`, "none", { ns, checkpointId });
}

function cutOff(threadId: string, { ns, parentId }: CheckpointHead): Error {
  const what = `a value of thread ${threadId} that is put together from the writes of ancestors`;
  return corrupted(what, `checkpoint ${parentId}, where it continues`, "none", { threadId, ns, checkpointId: parentId });
}
