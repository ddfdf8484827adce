import type { EffectRow } from "../effects";
import { chunkAddresses } from "../../codec";
import { textFor } from "../dialect";
import { type Program, mapped } from "../program";
import {
  CHUNK_ROWS,
  EFFECT_ROWS,
  type RawTurn,
  REWIND_ROWS,
  RUN_ROWS,
  SNAPSHOT_ROWS,
  toTurn,
  TURN_ROWS,
  WRITE_ROWS,
} from "../rows";
import { type Drift, driftOf, type SchemaPart } from "../schema-drift";
import type { Session } from "../session";
import { ofThread, SPAN, threadOfSeq } from "../spans";
import type { CheckpointHead, Inspection, ListPointer, RewindRow, RunRow, TokenCounts, TurnRow } from "../store";
import type { StoredSize, StoredText, TableSize, TaskTokens, ThreadActivity, ThreadSize, Writer } from "../inspection";
import { ALL_TABLES, type CHUNKS, type RawOf, type Table, THREAD_TABLES } from "../tables";
import { prunedTokensOf, summed } from "../token-sums";
import { type RawEffect, toEffect } from "./effect-rows";
import { type RawSnapshot, toLiveHead } from "./heads";
import { movedToOf } from "../moves";
import { liveWrites, type RawWrites } from "./put-writes";
import { publicRewind, type RawRewind, rewindOf } from "./rewind-records";
import { undoneIn } from "./rewinds";
import { archivedRow } from "./row-references";
import { type RawRun, threadIdOf, threadKey, toRuns } from "./thread-rows";
import { openBody, REFERENCE, segmentsOf } from "./values";

/*
 * Answers for people who look into a database: the command line and the viewer. Nothing here runs while a graph runs, so queries
 * may read whole tables, a page at a time.
 */

type Query<K extends keyof Inspection> = Parameters<Inspection[K]>[0];

const ACTIVITIES = `SELECT t.thread_id, t.created_at, t.snapshots, t.turns, t.effects, t.moved_to,
    (SELECT c.created_at FROM langgraph_checkpoints AS c WHERE c.thread = t.thread ORDER BY c.seq DESC LIMIT 1) AS turn_at,
    (SELECT s.created_at FROM langgraph_snapshots AS s WHERE ${ofThread("s.seq", "t.thread")} ORDER BY s.seq DESC LIMIT 1) AS checkpoint_at
  FROM langgraph_threads AS t`;
const ACTIVITY = `${ACTIVITIES} WHERE t.thread_id > ? AND t.gone = 0 ORDER BY t.thread_id LIMIT ?`;
const ACTIVITY_OF = `${ACTIVITIES} WHERE t.thread_id = ? AND t.gone = 0 LIMIT ?`;

interface RawActivity {
  thread_id: string;
  created_at: string;
  snapshots: number;
  turns: number;
  effects: number;
  moved_to: string | null;
  turn_at: string | null;
  checkpoint_at: number | null;
}

export function* activity(session: Session, { after = "", limit, threadId: only }: Query<"activity">): Program<ThreadActivity[]> {
  const rows =
    only === undefined
      ? yield* session.all<RawActivity>(ACTIVITY, after, limit)
      : yield* session.all<RawActivity>(ACTIVITY_OF, only, limit);
  return rows.map(
    ({ thread_id: threadId, created_at: createdAt, snapshots, turns, effects, moved_to, turn_at, checkpoint_at }) => {
      const times = [createdAt, turn_at ?? "", checkpoint_at === null ? "" : new Date(checkpoint_at).toISOString()];
      const lastAt = times.reduce((newest, time) => (time > newest ? time : newest));
      const movedTo = moved_to === null ? undefined : movedToOf(moved_to);
      return { threadId, createdAt, lastAt, checkpoints: snapshots, turns, effects, movedTo };
    },
  );
}

/** The newest version of the first checkpoint behind a place. */
const BEHIND = SNAPSHOT_ROWS.select(`AS s WHERE thread = ?1 AND checkpoint_ns = ?2 AND position > ?3
  AND s.seq = (SELECT max(n.seq) FROM langgraph_snapshots AS n WHERE n.thread = s.thread AND n.checkpoint_ns = s.checkpoint_ns
    AND n.position = s.position) ORDER BY position LIMIT 1`);

export function* checkpointBehind(
  session: Session,
  { threadId, ns, seq }: Query<"checkpointBehind">,
): Program<CheckpointHead | undefined> {
  const key = yield* threadKey(session, threadId);
  const row = key && (yield* session.get<RawSnapshot>(BEHIND, key.thread, ns, seq));
  return row && toLiveHead(session, threadId, row);
}

const RUNS = RUN_ROWS.select("ORDER BY thread_id, run_id");

export function* allRuns(session: Session): Program<RunRow[]> {
  return yield* toRuns(session, yield* session.all<RawRun>(RUNS));
}

const UNFINISHED = REWIND_ROWS.select("WHERE status = 'undoing' ORDER BY thread_id");

export function* unfinishedRewinds(session: Session): Program<RewindRow[]> {
  const rows = yield* session.all<RawRewind>(UNFINISHED);
  return rows.map((row) => publicRewind(REWIND_ROWS.parse(session.sealing, row.thread_id, row)));
}

/** What taking a rewind back meets, or has met. @throws {TurnsError} REWIND_NOT_FOUND */
export function* rewindToTakeBack(session: Session, rewindId: string): Program<{ rewind: RewindRow; undone: number }> {
  const rewind = publicRewind(yield* rewindOf(session, rewindId));
  const { takenBackAt } = rewind;
  const undone =
    takenBackAt === undefined ? yield* undoneIn(session, rewindId) : yield* undoneUntil(session, rewind, takenBackAt);
  return { rewind, undone: undone.length };
}

const UNDONE = "SELECT seq, undone_at FROM langgraph_effects WHERE thread = ?1 AND seq > ?2 AND undo_status = 'done'";
const UNDONE_ARCHIVED =
  "SELECT row FROM langgraph_archive WHERE thread_id = ? AND tbl = 'langgraph_effects' AND change = 'deleted'";

/** The undone effects that a take-back restored. They are on the thread, or in the archive of a later rewind. */
function* undoneUntil(
  session: Session,
  { threadId, targetSeq, seq: end }: RewindRow,
  at: string,
): Program<Pick<RawEffect, "seq" | "undone_at">[]> {
  const key = yield* threadKey(session, threadId);
  const rows = key === undefined ? [] : yield* session.all<Pick<RawEffect, "seq" | "undone_at">>(UNDONE, key.thread, targetSeq);
  const archived = (yield* session.rows<[string]>(UNDONE_ARCHIVED, threadId))
    .map(([row]) => archivedRow(row) as RawEffect)
    .filter(({ undo_status: undo }) => undo === "done");
  return [...rows, ...archived].filter((row) => row.seq > targetSeq && row.seq < end && (row.undone_at ?? "") <= at);
}

const OPEN_EFFECTS = EFFECT_ROWS.select(
  "WHERE seq > ? AND (status = 'intent' OR undo_status IN ('begun', 'failed')) AND thread NOT IN (SELECT thread FROM langgraph_leftovers) ORDER BY seq LIMIT ?",
);

export function* openEffects(session: Session, { afterSeq, limit }: Query<"openEffects">): Program<EffectRow[]> {
  const threads = new Map<number, string>();
  const rows = yield* session.all<RawEffect>(OPEN_EFFECTS, afterSeq, limit);
  return yield* mapped(rows, function* (row) {
    const thread = threadOfSeq(row.seq);
    const threadId = threads.get(thread) ?? (yield* threadIdOf(session, thread));
    threads.set(thread, threadId);
    return toEffect(session, threadId, row);
  });
}

/** Index -1 has an error, -3 a question. */
const SPECIAL = `SELECT t.thread_id FROM langgraph_threads AS t WHERE t.thread_id > ? AND EXISTS (SELECT 1 FROM langgraph_writes AS w
  WHERE w.thread = t.thread AND w.idx IN (-1, -3) AND w.superseded_by IS NULL
    AND w.checkpoint_ns = '' AND w.checkpoint_id = (SELECT s.checkpoint_id FROM langgraph_snapshots AS s
      WHERE s.thread = t.thread AND s.checkpoint_ns = '' ORDER BY s.position DESC, s.seq DESC LIMIT 1))
  ORDER BY t.thread_id LIMIT ?`;

export function* threadsWithSpecialWrites(
  session: Session,
  { after, limit }: Query<"threadsWithSpecialWrites">,
): Program<string[]> {
  return (yield* session.rows<[string]>(SPECIAL, after, limit)).map(([threadId]) => threadId);
}

const BEFORE = TURN_ROWS.select("WHERE thread = ? AND seq < ? ORDER BY seq DESC LIMIT ?");

export function* turnsBefore(session: Session, query: Query<"turnsBefore">): Program<TurnRow[]> {
  const key = yield* threadKey(session, query.threadId);
  if (key === undefined) return [];
  const rows = yield* session.all<RawTurn>(BEFORE, key.thread, query.beforeSeq, query.limit);
  return rows.map((row) => toTurn(session, row, key.threadId));
}

const TASKS_OF = "SELECT task_id, pruned_tokens FROM langgraph_tasks WHERE thread = ? ORDER BY seq";
/** Thoughts only: an Action repeats the tokens of its Thought. */
const TOKENS_OF = `SELECT task_id, sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(reasoning_tokens)
  FROM langgraph_checkpoints WHERE thread = ? AND turn_type = 'Thought' GROUP BY task_id`;

export function* taskTokens(session: Session, threadId: string): Program<TaskTokens[]> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return [];
  const tasks = new Map<string, TaskTokens>();
  const add = (taskId: string, counts: TokenCounts): void => {
    tasks.set(taskId, { taskId, ...summed(tasks.get(taskId) ?? NO_TOKENS, counts) });
  };
  for (const [taskId, pruned] of yield* session.rows<[string, string | null]>(TASKS_OF, key.thread)) {
    const known = tasks.get(taskId) ?? NO_TOKENS;
    tasks.delete(taskId);
    add(taskId, known);
    for (const counts of prunedTokensOf({ prunedTokens: pruned ?? undefined })) add(taskId, counts);
  }
  for (const [taskId, ...sums] of yield* session.rows<[string, ...unknown[]]>(TOKENS_OF, key.thread)) {
    const [input = 0, output = 0, cached = 0, reasoning = 0] = sums.map(Number);
    add(taskId, { input, output, cached, reasoning });
  }
  return [...tasks.values()];
}

const NO_TOKENS: TokenCounts = { input: 0, output: 0, cached: 0, reasoning: 0 };

/** The pluses keep SQLite on the index by node task: by thread, each of them would read the thread. */
const OF_NODE_TASKS = textFor(({ among }) =>
  TURN_ROWS.select(`AS t WHERE thread = ?1 AND node_task_id ${among("?2")}
    AND seq = (SELECT max(+n.seq) FROM langgraph_checkpoints AS n WHERE n.thread = ?1 AND n.node_task_id = t.node_task_id)
  ORDER BY +seq`),
);

export function* turnsOfNodeTasks(session: Session, threadId: string, nodeTaskIds: readonly string[]): Program<TurnRow[]> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined || nodeTaskIds.length === 0) return [];
  const rows = yield* session.all<RawTurn>(OF_NODE_TASKS(session), key.thread, JSON.stringify(nodeTaskIds));
  return rows.map((row) => toTurn(session, row, threadId));
}

export function* writers(session: Session, threadId: string, ns: string, checkpointId: string): Program<Writer[]> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return [];
  return (yield* liveWrites(session, key, ns, checkpointId)).map(({ nodeTaskId, entries }) => {
    const written = JSON.parse(entries) as readonly (readonly [idx: number, channel: string])[];
    return { nodeTaskId, idx: written[0]?.[0] ?? 0, channels: [...new Set(written.map(([, channel]) => channel))] };
  });
}

const SHORT_BYTES = 64 * 1024;
const SHORT_BODY = `SELECT body FROM langgraph_chunks WHERE thread = ? AND address = ? AND octet_length(body) <= ${SHORT_BYTES}`;

/** Only read, not verified: what a caller shows of a value is read as any other value. */
export function* shortText(session: Session, threadId: string, address: string): Program<string | undefined> {
  const key = yield* threadKey(session, threadId);
  const row = key && (yield* session.get<{ body: string | Uint8Array }>(SHORT_BODY, key.thread, address));
  return row && openBody(session, threadId, row.body);
}

const ELEMENTS = "SELECT chunk FROM langgraph_items WHERE list = ? AND pos >= ? AND pos < ? ORDER BY pos";

/** A thread stores each content once. So two elements are the same if they lead to the same chunk. */
export function* commonPrefix(session: Session, threadId: string, left: ListPointer, right: ListPointer): Program<number> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return 0;
  const elements = function* (pointer: ListPointer): Program<number[]> {
    const chunks: number[] = [];
    for (const { list, from, upto } of yield* segmentsOf(session, key, pointer))
      for (const [chunk] of yield* session.rows<[number]>(ELEMENTS, list, from, upto)) chunks.push(chunk);
    return chunks;
  };
  const [one, other] = [yield* elements(left), yield* elements(right)];
  const differs = one.findIndex((chunk, index) => chunk !== other[index]);
  return differs === -1 ? one.length : differs;
}

/** SQL: the bytes of a row's content. */
function bytesOf({ columns }: Table, of = ""): string {
  return Object.entries(columns)
    .map(([name, { type }]) => (type === "integer" ? "8" : `coalesce(octet_length(${of}${name}), 0)`))
    .join(" + ");
}

export function* tableSizes(session: Session): Program<TableSize[]> {
  return yield* mapped(ALL_TABLES, function* (table) {
    const [[rows, bytes] = [0, 0]] = yield* session.rows<[number, number]>(
      `SELECT count(*), coalesce(sum(${bytesOf(table)}), 0) FROM ${table.name}`,
    );
    return { table: table.name, called: table.called, rows, bytes };
  });
}

/** The thread of a row: a column has its number, or a seq has it. */
function threadIn({ ofThread: by }: Table): string {
  return by !== undefined && "range" in by ? `${by.range} / ${SPAN}` : "thread";
}

export function* threadSizes(session: Session, limit: number): Program<ThreadSize[]> {
  const sizes = new Map<number, { rows: number; bytes: number }>();
  for (const table of THREAD_TABLES) {
    const thread = threadIn(table);
    const text = `SELECT ${thread}, count(*), sum(${bytesOf(table)}) FROM ${table.name} WHERE ${thread} IS NOT NULL GROUP BY ${thread}`;
    for (const [of, rows, bytes] of yield* session.rows<[number, number, number]>(text)) {
      const known = sizes.get(of) ?? { rows: 0, bytes: 0 };
      sizes.set(of, { rows: known.rows + rows, bytes: known.bytes + bytes });
    }
  }
  const largest = [...sizes].sort(([, left], [, right]) => right.bytes - left.bytes).slice(0, limit);
  return yield* mapped(largest, function* ([thread, size]) {
    return { threadId: yield* threadIdOf(session, thread), ...size };
  });
}

const PARTS = textFor(
  ({ holds, among }) => `SELECT seq, octet_length(body), CASE WHEN ${holds("body", "?3")} THEN 1 ELSE 0 END
  FROM langgraph_chunks WHERE thread = ?1 AND address ${among("?2")}`,
);
const BODY = "SELECT body FROM langgraph_chunks WHERE seq = ?";
const ELEMENT_ADDRESSES = `SELECT c.address FROM langgraph_items AS i CROSS JOIN langgraph_chunks AS c
  WHERE i.list = ? AND i.pos >= ? AND i.pos < ? AND c.seq = i.chunk`;

/**
 * What a channel would take alone: its value with all its parts, and the parts of those. Each part counts once in a channel, and in
 * every channel that has it.
 */
export function* channelSizes(session: Session, head: CheckpointHead): Program<ReadonlyMap<string, StoredSize>> {
  const sizes = new Map<string, StoredSize>();
  const key = yield* threadKey(session, head.threadId);
  if (key === undefined) return sizes;
  for (const [channel, { pointer }] of head.channels) {
    if (pointer === undefined) continue;
    const addresses = new Set<string>();
    let bytes = 0;
    if (pointer.kind === "inline") {
      bytes = Buffer.byteLength(pointer.text);
      for (const address of chunkAddresses(pointer.text)) addresses.add(address);
    } else if (pointer.kind === "whole") addresses.add(pointer.address);
    else
      for (const { list, from, upto } of yield* segmentsOf(session, key, pointer))
        for (const [address] of yield* session.rows<[string]>(ELEMENT_ADDRESSES, list, from, upto)) addresses.add(address);
    for (let left = [...addresses]; left.length > 0;) {
      const some = JSON.stringify(left);
      left = [];
      const parts = yield* session.rows<[number, number, number]>(PARTS(session), key.thread, some, REFERENCE);
      for (const [seq, size, refers] of parts) {
        bytes += size;
        const row = refers === 1 ? yield* session.get<{ body: string | Uint8Array }>(BODY, seq) : undefined;
        if (row !== undefined) left.push(...chunkAddresses(openBody(session, head.threadId, row.body)));
      }
      left = left.filter((address) => !addresses.has(address) && addresses.add(address));
    }
    sizes.set(channel, pointer.kind === "list" ? { bytes, elements: pointer.length } : { bytes });
  }
  return sizes;
}

const PAGE = `WHERE ${ofThread()} AND seq > ?2 ORDER BY seq LIMIT ?3`;
const VALUES = CHUNK_ROWS.select(PAGE);
const WRITES = WRITE_ROWS.select(PAGE);
const EFFECTS = EFFECT_ROWS.select(PAGE);
const TURNS = TURN_ROWS.select("WHERE thread = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3");

export function* texts(session: Session, { threadId, kind, afterSeq, limit }: Query<"texts">): Program<StoredText[]> {
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return [];
  const bound = [key.thread, afterSeq, limit] as const;
  switch (kind) {
    case "value":
      return (yield* session.all<RawOf<typeof CHUNKS>>(VALUES, ...bound)).map(({ seq, body }) => {
        return { kind, seq, text: openBody(session, threadId, body) };
      });
    case "write":
      return (yield* session.all<RawWrites>(WRITES, ...bound)).map((row) => {
        const { seq, entries } = WRITE_ROWS.parse(session.sealing, threadId, row);
        return { kind, seq, text: entries };
      });
    case "turn":
      return (yield* session.all<RawTurn>(TURNS, ...bound)).map((row) => {
        const { id, seq = 0, nodeName, serializedState } = toTurn(session, row, threadId);
        return { kind, seq, text: serializedState, id, name: nodeName };
      });
    case "effect":
      return (yield* session.all<RawEffect>(EFFECTS, ...bound)).map((row) => {
        const { id, seq, name, input = "", outcome = "", undoError = "" } = toEffect(session, threadId, row);
        return { kind, seq, text: [input, outcome, undoError].filter(Boolean).join("\n"), id, name };
      });
  }
}

/** The ids of some effects that begin so, over all threads. */
export function* effectIds(session: Session, beginning: string): Program<string[]> {
  return (yield* session.rows<[string]>(EFFECT_IDS, beginning, beginning.length)).map(([id]) => id);
}

const EFFECT_IDS = "SELECT id FROM langgraph_effects WHERE substr(id, 1, CAST(?2 AS INTEGER)) = ?1 ORDER BY id LIMIT 10";

/** How the tables differ from those that the migrations make. */
export function* schemaDrift(session: Session): Program<Drift[]> {
  const { sql, place, before, parts } = session.engine.dialect.schema;
  if (before !== undefined) yield* session.run(before);
  return driftOf(sql, place, yield* session.rows<SchemaPart>(parts));
}

/** What brings the tables up to date: the newest version, and the statements of all. */
// eslint-disable-next-line require-yield -- the package knows it
export function* migrations(session: Session): Program<{ newest: number; sql: string }> {
  const { newest, sql } = session.engine.dialect.schema;
  return { newest, sql };
}

/** The ids of the keys that the database is encrypted with; none if it isn't. */
export function* keyIds(session: Session): Program<string[]> {
  return (yield* session.rows<[string]>(KEY_NAMES)).map(([name]) => name.slice("key:".length));
}

const KEY_NAMES = "SELECT name FROM langgraph_settings WHERE name >= 'key:' AND name < 'key;' ORDER BY name";
const VERSION = "SELECT version, applied_at FROM langgraph_migrations ORDER BY version DESC LIMIT 1";

export function* settings(session: Session): Program<Readonly<Record<string, string>>> {
  const rows = yield* session.rows<[string, string | number]>(session.engine.dialect.settings);
  const [[version, at] = [0, ""]] = yield* session.rows<[number, string]>(VERSION);
  const own = { "schema version": String(version), "schema applied at": at };
  return Object.fromEntries([...Object.entries(own), ...rows.map(([name, value]) => [name, String(value)] as const)]);
}
