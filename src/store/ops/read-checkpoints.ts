import { textFor } from "../dialect";
import { type Program, mapped, type Statement } from "../program";
import { SNAPSHOT_ROWS } from "../rows";
import type { Session } from "../session";
import { ofThread } from "../spans";
import { refuseBack } from "./paging";
import type {
  Remembered,
  StoredCheckpoint,
  StoredWrites,
  CheckpointPlace,
  CheckpointQuery,
  ListedHead,
  CheckpointHead,
  StoredValue,
  Pointer,
  WantedWrites,
} from "../store";
import type { ThreadState } from "../thread-state";
import { type RawSnapshot, BY_ID, toLiveHead } from "./heads";
import { LIVE } from "./put-checkpoint";
import { liveWrites, type RawWrites, WRITE_PLACES, writesIn } from "./put-writes";
import { threadIdOf, threadKey } from "./thread-rows";
import { ChunkReader, readList, type StoredChunk } from "./values";

const BY_SEQ = SNAPSHOT_ROWS.select(`WHERE seq = ? AND ${LIVE}`);
/**
 * The newest checkpoint of a namespace is the one that was first saved last. Ids contain times and prove nothing: clocks get
 * changed.
 */
export const LATEST = SNAPSHOT_ROWS.select("WHERE thread = ? AND checkpoint_ns = ? ORDER BY position DESC, seq DESC LIMIT 1");

export function* getCheckpoint(
  session: Session,
  threadId: string,
  ns: string,
  checkpointId: string | undefined,
  remembered: Remembered,
): Program<StoredCheckpoint | undefined> {
  if (session.engine.sendsTogether === true) return yield* getAtOnce(session, threadId, ns, checkpointId, remembered);
  const key = yield* threadKey(session, threadId);
  if (key === undefined) return undefined;
  const row =
    checkpointId === undefined
      ? yield* session.get<RawSnapshot>(LATEST, key.thread, ns)
      : yield* session.get<RawSnapshot>(BY_ID, key.thread, ns, checkpointId);
  if (row === undefined) return undefined;
  const head = toLiveHead(session, key.threadId, row);
  return yield* hydrated(session, key, head, remembered);
}

/** For who doesn't know the number of the thread yet. */
const THREAD = "(SELECT thread FROM langgraph_threads WHERE thread_id = ?1)";
const NEWEST_ID = `(SELECT checkpoint_id FROM langgraph_snapshots WHERE thread = ${THREAD} AND checkpoint_ns = ?2
    ORDER BY position DESC, seq DESC LIMIT 1)`;
const place = (checkpointId: string): string =>
  `WHERE thread = ${THREAD} AND checkpoint_ns = ?2 AND checkpoint_id = ${checkpointId}`;
const SNAPSHOT_AT = (checkpointId: string): string => SNAPSHOT_ROWS.select(`${place(checkpointId)} ORDER BY seq DESC LIMIT 1`);
const WRITES_AT = (checkpointId: string): string =>
  `SELECT ${WRITE_PLACES} FROM langgraph_writes ${place(checkpointId)} ORDER BY seq`;
const WHOLES_AT = (checkpointId: string): ReturnType<typeof textFor> => {
  const manifest = `(SELECT channels FROM langgraph_snapshots ${place(checkpointId)} ORDER BY seq DESC LIMIT 1)`;
  return textFor(
    ({ wholes }) =>
      `SELECT address, body FROM langgraph_chunks WHERE thread = ${THREAD} AND address IN (${wholes?.(manifest) ?? "NULL"})`,
  );
};
const NEWEST_AT_ONCE = { snapshot: SNAPSHOT_AT(NEWEST_ID), writes: WRITES_AT(NEWEST_ID), wholes: WHOLES_AT(NEWEST_ID) };
const GIVEN_AT_ONCE = { snapshot: SNAPSHOT_AT("?3"), writes: WRITES_AT("?3"), wholes: WHOLES_AT("?3") };

/** What {@link askCheckpoint} gets. */
export type AnsweredCheckpoint = [row: RawSnapshot | undefined, versions: RawWrites[], wholes: StoredChunk[]];

/**
 * The row of a checkpoint, those of its pending writes, of all versions, and the chunks that it refers to. It's the newest checkpoint of
 * a namespace, or the given one.
 */
export function askCheckpoint(session: Session, threadId: string, ns: string, checkpointId?: string): Statement[] {
  const values = checkpointId === undefined ? [threadId, ns] : [threadId, ns, checkpointId];
  const { snapshot, writes, wholes } = checkpointId === undefined ? NEWEST_AT_ONCE : GIVEN_AT_ONCE;
  return [
    { text: snapshot, values, returns: "one" },
    { text: writes, values, returns: "all" },
    { text: wholes(session), values, returns: "all" },
  ];
}

/** {@link getCheckpoint} that reads the rows together, and then the values. */
function* getAtOnce(
  session: Session,
  threadId: string,
  ns: string,
  checkpointId: string | undefined,
  remembered: Remembered,
): Program<StoredCheckpoint | undefined> {
  const [key, rows] = yield* session.sideBySide<unknown[]>([
    threadKey(session, threadId),
    session.together(askCheckpoint(session, threadId, ns, checkpointId)),
  ]);
  const [row, versions, wholes] = rows as AnsweredCheckpoint;
  if (key === undefined || row === undefined) return undefined;
  const head = toLiveHead(session, threadId, row);
  const at = { threadId, ns, checkpointId: head.checkpointId };
  return yield* hydrated(session, key as ThreadState, head, remembered, { writes: writesIn(session, at, versions), wholes });
}

/** The row of a checkpoint that {@link BY_ID} gives. */
const NEWEST_VERSION = `(SELECT max(n.seq) FROM langgraph_snapshots AS n WHERE n.thread = s.thread
  AND n.checkpoint_ns = s.checkpoint_ns AND n.position = s.position)`;
const NO_BEFORE = "CAST(?4 AS TEXT) IS NULL";
const listed = (wanted: { ns: boolean; id: boolean; before: boolean }): string =>
  [
    wanted.ns ? "s.checkpoint_ns = ?2" : "CAST(?2 AS TEXT) IS NULL",
    wanted.id ? "s.checkpoint_id = ?3" : "CAST(?3 AS TEXT) IS NULL",
    wanted.before ? "CASE WHEN p.position IS NULL THEN s.checkpoint_id < ?4 ELSE s.position < p.position END" : NO_BEFORE,
  ].join(" AND ");
const V_COLUMNS = SNAPSHOT_ROWS.of("v");
/** A page of one namespace, by the index that has its checkpoints in order. */
const pageOfNamespace = (wanted: Parameters<typeof listed>[0]): string =>
  `SELECT ${SNAPSHOT_ROWS.columns}, position AS place FROM langgraph_snapshots AS s
    WHERE thread = ?1 AND ${listed({ ...wanted, before: false }).replace(NO_BEFORE, wanted.before ? "s.checkpoint_id < ?4" : NO_BEFORE)}
      AND position < ?5 AND s.seq = ${NEWEST_VERSION} ORDER BY position DESC LIMIT ?6`;
/**
 * A page of a thread, or of all threads, by the table itself. A checkpoint's first version gives its place; the newest version is
 * returned.
 */
const pageOf = (wanted: Parameters<typeof listed>[0] & { thread: boolean }): string =>
  `SELECT ${V_COLUMNS}, s.seq AS place FROM langgraph_snapshots AS s CROSS JOIN langgraph_snapshots AS v
    ${wanted.before ? "LEFT JOIN langgraph_snapshots AS p ON p.seq = (SELECT min(b.seq) FROM langgraph_snapshots AS b WHERE b.thread = s.thread AND b.checkpoint_id = ?4)" : ""}
    WHERE ${wanted.thread ? ofThread("s.seq") : "CAST(?1 AS BIGINT) IS NULL AND s.thread NOT IN (SELECT thread FROM langgraph_leftovers)"}
      AND v.seq = ${NEWEST_VERSION} AND ${listed(wanted)} AND s.seq < ?5 AND s.position = s.seq ORDER BY s.seq DESC LIMIT ?6`;

/** Newest first. */
export function* listCheckpoints(session: Session, query: CheckpointQuery): Program<ListedHead[]> {
  const key = query.threadId === undefined ? undefined : yield* threadKey(session, query.threadId);
  if (query.threadId !== undefined && key === undefined) return [];
  const { ns, checkpointId, beforeId, isOfRun, after = Number.MAX_SAFE_INTEGER, limit } = query;
  const before = key === undefined || beforeId === undefined ? undefined : (yield* placeIn(session, key, ns, beforeId))?.position;
  const wanted = {
    ns: ns !== undefined,
    id: checkpointId !== undefined,
    before: beforeId !== undefined && before === undefined && !isOfRun,
  };
  const rows = yield* session.all<RawSnapshot & { place: number }>(
    key !== undefined && ns !== undefined ? pageOfNamespace(wanted) : pageOf({ ...wanted, thread: key !== undefined }),
    key?.thread ?? null,
    ns ?? null,
    checkpointId ?? null,
    wanted.before ? (beforeId as string) : null,
    Math.min(after, before ?? after),
    limit,
  );
  const threads = new Map<number, string>();
  let last = after;
  return yield* mapped(rows, function* (row) {
    refuseBack("langgraph_snapshots", row.place, last);
    last = row.place;
    const threadId =
      key?.threadId ??
      threads.get(row.thread) ??
      (yield* threadKey(session, yield* threadIdOf(session, row.thread)))?.threadId ??
      "";
    threads.set(row.thread, threadId);
    const head = toLiveHead(session, threadId, row);
    return { ...head, place: row.place };
  });
}

const PLACED =
  "SELECT checkpoint_ns AS ns, position FROM langgraph_snapshots WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ? LIMIT 1";
/** For a checkpoint without a known namespace. */
const PLACED_ANYWHERE =
  "SELECT checkpoint_ns AS ns, position FROM langgraph_snapshots WHERE thread = ? AND checkpoint_id = ? LIMIT 1";

export function* placeOf(
  session: Session,
  threadId: string,
  ns: string | undefined,
  checkpointId: string,
): Program<CheckpointPlace | undefined> {
  const key = yield* threadKey(session, threadId);
  return key === undefined ? undefined : yield* placeIn(session, key, ns, checkpointId);
}

function* placeIn(
  session: Session,
  { thread }: ThreadState,
  ns: string | undefined,
  checkpointId: string,
): Program<CheckpointPlace | undefined> {
  const inNamespace = ns === undefined ? undefined : yield* session.get<CheckpointPlace>(PLACED, thread, ns, checkpointId);
  return inNamespace ?? (yield* session.get<CheckpointPlace>(PLACED_ANYWHERE, thread, checkpointId));
}

export function* hydrate(
  session: Session,
  head: CheckpointHead,
  remembered: Remembered,
  wanted: WantedWrites,
): Program<StoredCheckpoint | undefined> {
  const key = yield* threadKey(session, head.threadId);
  const row = key === undefined ? undefined : yield* session.get<RawSnapshot>(BY_SEQ, head.seq);
  if (key === undefined || row === undefined) return undefined;
  if (wanted === "all") return yield* hydrated(session, key, head, remembered);
  const writes = yield* liveWrites(session, key, head.ns, head.checkpointId, wanted);
  return yield* hydrated(session, key, head, remembered, { writes, wholes: [] });
}

/** What was read of a checkpoint with its row. */
interface Known {
  writes: StoredWrites[];
  wholes?: readonly StoredChunk[];
  /** Has the chunks, for several checkpoints. */
  reader?: ChunkReader;
  /** By channel. */
  lists?: ReadonlyMap<string, StoredValue>;
}

export function* hydrated(
  session: Session,
  key: ThreadState,
  head: CheckpointHead,
  remembered: Remembered,
  known?: Known,
): Program<StoredCheckpoint> {
  const reader = known?.reader ?? new ChunkReader(session, key, remembered, known?.wholes);
  const found: [string, StoredValue][] = [];
  const readOne = function* (channel: string, pointer: Pointer): Program<void> {
    found.push([channel, known?.lists?.get(channel) ?? (yield* readPointer(session, key, pointer, reader, remembered))]);
  };
  let writes: StoredWrites[] = [];
  const readWrites = function* (): Program<void> {
    writes = known?.writes ?? (yield* liveWrites(session, key, head.ns, head.checkpointId));
    yield* session.sideBySide(writes.map(({ entries }) => reader.readFrom(entries)));
  };
  const parts = [...head.channels].flatMap(([channel, { pointer }]) =>
    pointer === undefined ? [] : [readOne(channel, pointer)],
  );
  yield* session.sideBySide([...parts, readWrites()]);
  const values = new Map(found);
  return { ...head, values, writes, generation: key.generation, chunks: reader.texts };
}

export function* readPointer(
  session: Session,
  key: ThreadState,
  pointer: Pointer,
  reader: ChunkReader,
  remembered: Remembered,
): Program<StoredValue> {
  if (pointer.kind === "list") return yield* readList(session, key, pointer, remembered);
  if (pointer.kind === "inline") return { kind: "text", address: undefined, text: pointer.text };
  return { kind: "text", address: pointer.address, text: yield* reader.read(pointer.address) };
}
