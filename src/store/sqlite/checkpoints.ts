import { contentHash, corrupted, rowChecksum, verifyChecksum } from "../checksum";
import type {
  ChannelVersion,
  CheckpointHead,
  CheckpointQuery,
  LostTurn,
  NewCheckpoint,
  NewValue,
  StoredCheckpoint,
} from "../store";
import type { Sql } from "./sql";
import { claimTask } from "./tasks";
import { turnApart } from "./turn-apart";
import { insertThought } from "./turns";
import { liveWrites } from "./writes";

type Manifest = Record<string, readonly [ChannelVersion, string]>;

interface Row {
  thread_id: string;
  checkpoint_ns: string;
  checkpoint_id: string;
  parent_checkpoint_id: string | null;
  seq: number;
  body: string;
  channels: string;
  metadata: string;
  checksum: string;
}

const COLUMNS = "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, seq, body, channels, metadata, checksum";
const LIVE = "superseded_by IS NULL";
const BY_ID = `SELECT ${COLUMNS} FROM langgraph_snapshots WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND ${LIVE}`;
const LATEST = `SELECT ${COLUMNS} FROM langgraph_snapshots WHERE thread_id = ? AND checkpoint_ns = ? AND ${LIVE} ORDER BY checkpoint_id DESC LIMIT 1`;
const SUPERSEDE =
  "UPDATE langgraph_snapshots SET superseded_by = ? WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND superseded_by IS NULL";
const INSERT = `INSERT INTO langgraph_snapshots
  (thread_id, checkpoint_ns, checkpoint_id, seq, parent_checkpoint_id, source, step, run_id, body, channels, metadata, checksum)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
const INSERT_VALUE = "INSERT OR IGNORE INTO langgraph_values (thread_id, hash, seq, value) VALUES (?, ?, ?, ?)";
const HAS_VALUE = "SELECT 1 FROM langgraph_values WHERE thread_id = ? AND hash = ?";
const VALUES = "SELECT hash, value FROM langgraph_values WHERE thread_id = ? AND hash IN (SELECT value FROM json_each(?))";

export function putCheckpoint(sql: Sql, checkpoint: NewCheckpoint): { seq: number; lost: LostTurn[] } {
  const { threadId, ns, checkpointId } = checkpoint;
  claimTask(sql, threadId, checkpoint.claim, checkpoint.createdAt);
  const seq = sql.nextSeq();
  const known = sql.get<Row>(BY_ID, threadId, ns, checkpointId);
  // With durability "exit" LangGraph saves a checkpoint again with itself as parent; kept, that row would be a cycle.
  const parentId = checkpoint.parentId === checkpointId ? (known?.parent_checkpoint_id ?? undefined) : checkpoint.parentId;
  const channels = JSON.stringify(manifestOf(sql, checkpoint, parentId, known, seq));
  if (known !== undefined) sql.run(SUPERSEDE, seq, threadId, ns, checkpointId);
  sql.run(
    INSERT,
    threadId,
    ns,
    checkpointId,
    seq,
    parentId ?? null,
    checkpoint.source,
    checkpoint.step,
    checkpoint.runId ?? null,
    checkpoint.body,
    channels,
    checkpoint.metadata,
    rowChecksum(threadId, ns, checkpointId, parentId, checkpoint.body, channels, checkpoint.metadata),
  );
  const planned = checkpoint.planned.map((thought) =>
    turnApart(sql, { nodeName: thought.nodeName, turnType: "Thought" }, () => insertThought(sql, thought)),
  );
  return { seq, lost: planned.flatMap(({ lost }) => lost ?? []) };
}

/**
 * Stores the new values and finds the carried ones. A carried value is the parent's if its version is the same; versions alone
 * prove nothing across forks, so beyond the parent only equal content counts. What was never stored stays absent, unless the parent
 * itself is missing because its save failed: then LangGraph believes the value stored, and it is stored here.
 */
function manifestOf(
  sql: Sql,
  checkpoint: NewCheckpoint,
  parentId: string | undefined,
  known: Row | undefined,
  seq: number,
): Manifest {
  const { threadId, ns } = checkpoint;
  const carried = checkpoint.values.some((value) => !value.isNew);
  const parentRow = carried && parentId !== undefined ? sql.get<Row>(BY_ID, threadId, ns, parentId) : undefined;
  const earlier = known === undefined ? {} : (JSON.parse(known.channels) as Manifest);
  const inherited: Manifest = {
    ...earlier,
    ...(parentRow === undefined ? {} : (JSON.parse(parentRow.channels) as Manifest)),
  };
  const orphaned = parentId !== undefined && parentRow === undefined;
  const manifest: Manifest = Object.create(null) as Manifest;
  for (const value of checkpoint.values) {
    const carriedOver = value.isNew ? undefined : carriedHash(sql, threadId, value, inherited);
    const hash = carriedOver ?? (value.isNew || orphaned ? storeValue(sql, threadId, value, seq) : undefined);
    if (hash !== undefined) manifest[value.channel] = [value.version, hash];
  }
  // LangGraph leaves a delta channel's snapshot out when it saves a checkpoint again (durability "exit"), and what it would be
  // rebuilt from is not stored then; the same version of the same checkpoint still has the value it had.
  for (const [channel, pointer] of Object.entries(checkpoint.parentId === checkpoint.checkpointId ? earlier : {})) {
    if (!Object.hasOwn(manifest, channel) && checkpoint.versions[channel] === pointer[0]) manifest[channel] = pointer;
  }
  return manifest;
}

function storeValue(sql: Sql, threadId: string, value: NewValue, seq: number): string {
  const text = value.text();
  const hash = contentHash(text);
  sql.run(INSERT_VALUE, threadId, hash, seq, text);
  return hash;
}

function carriedHash(sql: Sql, threadId: string, value: NewValue, inherited: Manifest): string | undefined {
  const pointer = Object.hasOwn(inherited, value.channel) ? inherited[value.channel] : undefined;
  if (pointer?.[0] === value.version) return pointer[1];
  const hash = contentHash(value.text());
  return sql.get(HAS_VALUE, threadId, hash) === undefined ? undefined : hash;
}

export function getCheckpoint(
  sql: Sql,
  threadId: string,
  ns: string,
  checkpointId: string | undefined,
): StoredCheckpoint | undefined {
  const row = checkpointId === undefined ? sql.get<Row>(LATEST, threadId, ns) : sql.get<Row>(BY_ID, threadId, ns, checkpointId);
  return row === undefined ? undefined : hydrate(sql, toHead(row));
}

const LISTS = {
  thread: "(?1 IS NULL OR thread_id = ?1)",
  ns: "(?2 IS NULL OR checkpoint_ns = ?2)",
  id: "(?3 IS NULL OR checkpoint_id = ?3)",
  before: "(?4 IS NULL OR checkpoint_id < ?4)",
  after: "(?5 IS NULL OR (checkpoint_id, thread_id, checkpoint_ns) < (?5, ?6, ?7))",
};
const PAGE = (scope: string): string => `SELECT ${COLUMNS} FROM langgraph_snapshots
  WHERE ${scope} AND ${LISTS.ns} AND ${LISTS.id} AND ${LISTS.before} AND ${LISTS.after} AND ${LIVE}
  ORDER BY checkpoint_id DESC, thread_id DESC, checkpoint_ns DESC LIMIT ?8`;
/** Two texts, so that SQLite can use the primary key where the thread is known. */
const PAGE_OF_THREAD = PAGE("thread_id = ?1");
const PAGE_OF_ALL = PAGE(LISTS.thread);

export function listCheckpoints(sql: Sql, query: CheckpointQuery): CheckpointHead[] {
  const rows = sql.all<Row>(
    query.threadId === undefined ? PAGE_OF_ALL : PAGE_OF_THREAD,
    query.threadId ?? null,
    query.ns ?? null,
    query.checkpointId ?? null,
    query.beforeId ?? null,
    query.after?.checkpointId ?? null,
    query.after?.threadId ?? null,
    query.after?.ns ?? null,
    query.limit,
  );
  return rows.map(toHead);
}

export function hydrate(sql: Sql, head: CheckpointHead): StoredCheckpoint {
  return {
    ...head,
    values: valuesOf(sql, head),
    writes: liveWrites(sql, head.threadId, head.ns, head.checkpointId),
  };
}

function valuesOf(sql: Sql, head: CheckpointHead): Map<string, string> {
  const channels = Object.entries(head.channels);
  const byHash = loadValues(sql, head.threadId, [...new Set(channels.map(([, [, hash]]) => hash))]);
  const values = new Map<string, string>();
  for (const [channel, [, hash]] of channels) {
    const text = byHash.get(hash);
    if (text === undefined) {
      throw corrupted(
        `channel ${JSON.stringify(channel)} of checkpoint ${head.checkpointId}`,
        `a value with hash ${hash}`,
        "none",
        {
          threadId: head.threadId,
          checkpointId: head.checkpointId,
          channel,
        },
      );
    }
    values.set(channel, text);
  }
  return values;
}

/** Reads values by their content hash and verifies each against it. */
export function loadValues(sql: Sql, threadId: string, hashes: readonly string[]): Map<string, string> {
  if (hashes.length === 0) return new Map();
  const rows = sql.all<{ hash: string; value: string }>(VALUES, threadId, JSON.stringify(hashes));
  for (const { hash, value } of rows)
    verifyChecksum(hash, contentHash(value), `a channel value of thread ${threadId}`, { threadId });
  return new Map(rows.map(({ hash, value }) => [hash, value]));
}

function toHead(row: Row): CheckpointHead {
  const { thread_id: threadId, checkpoint_ns: ns, checkpoint_id: checkpointId, parent_checkpoint_id: parentId } = row;
  const computed = rowChecksum(threadId, ns, checkpointId, parentId, row.body, row.channels, row.metadata);
  verifyChecksum(row.checksum, computed, `checkpoint ${checkpointId} of thread ${threadId}`, { threadId, ns, checkpointId });
  return {
    threadId,
    ns,
    checkpointId,
    parentId: parentId ?? undefined,
    seq: row.seq,
    body: row.body,
    metadata: row.metadata,
    channels: JSON.parse(row.channels) as Manifest,
  };
}
