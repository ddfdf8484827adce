import { push } from "../../push";
import type { Program } from "../program";
import type { Session } from "../session";
import { ofThread } from "../spans";
import { type AnyRow, archivedRow } from "./row-references";
import { storedNames } from "./stored-json";
import type { CheckpointName } from "../store";
import type { ThreadState } from "../thread-state";

export interface Version {
  seq: number;
  parentId: string | undefined;
  source: string;
  runId: string | undefined;
  createdAt: number;
  delta: readonly string[] | undefined;
  live: boolean;
  /** The manifest of a version that isn't in the table but in the archive of a rewind, and may be restored. */
  archived: string | undefined;
}

/** A checkpoint with all its stored versions, oldest first. */
export interface Stored {
  ns: string;
  id: string;
  /** Orders checkpoints. */
  position: number;
  versions: Version[];
}

/** Everything the decision needs to know of a thread. Values aren't read. */
export interface PruneFacts {
  key: ThreadState;
  /** By {@link keyOf}, in the order of their first version. */
  checkpoints: ReadonlyMap<string, Stored>;
  /** Seqs of writes and of turns, by the checkpoint they belong to. */
  writes: ReadonlyMap<string, readonly number[]>;
  turns: ReadonlyMap<string, readonly number[]>;
  /** Checkpoints with a question that nobody has answered yet. */
  asking: ReadonlySet<string>;
  named: ReadonlySet<string>;
  prunedSeq: number;
}

const SNAPSHOTS = `SELECT seq, checkpoint_ns, checkpoint_id, position, superseded_by, parent_checkpoint_id, source, run_id, created_at,
  delta FROM langgraph_snapshots WHERE ${ofThread()} ORDER BY seq`;
const ARCHIVED = `SELECT row, rewind_id FROM langgraph_archive
  WHERE thread_id = ? AND tbl = 'langgraph_snapshots' AND change = 'deleted' ORDER BY rewind_id, ordinal`;
const WRITES = `SELECT seq, checkpoint_ns, checkpoint_id, node_task_id, CASE WHEN superseded_by IS NULL THEN idx END
  FROM langgraph_writes WHERE ${ofThread()} ORDER BY seq`;
const TURNS = "SELECT seq, checkpoint_ns, checkpoint_id FROM langgraph_checkpoints WHERE thread = ? ORDER BY seq";
const NAMES = `SELECT checkpoint_ns AS ns, checkpoint_id AS "checkpointId" FROM langgraph_names WHERE thread = ?`;
/** The idx of LangGraph's write to `__interrupt__`, and of all regular writes of a node task. */
const INTERRUPT = -3;
const REGULAR = 0;

type Row = [number, string, string, number, number | null, string | null, string, string | null, number, string | null, string?];

/** An id has no NUL character, so no two checkpoints share a key. */
export function keyOf(ns: string, id: string): string {
  return `${ns}\0${id}`;
}

/** @param without rewinds whose archives count as removed */
export function* factsOf(session: Session, key: ThreadState, without: ReadonlySet<string>): Program<PruneFacts> {
  const [archived, stored, { writes, asking }, turns, named] = yield* session.sideBySide([
    session.rows<[string, string]>(ARCHIVED, key.threadId),
    session.rows<Row>(SNAPSHOTS, key.thread),
    writesOf(session, key),
    turnsOf(session, key),
    session.all<Pick<CheckpointName, "ns" | "checkpointId">>(NAMES, key.thread),
  ]);
  const checkpoints = new Map<string, Stored>();
  const left = archived.filter(([, rewindId]) => !without.has(rewindId)).map(([row]) => versionIn(archivedRow(row)));
  const rows = [...left, ...stored];
  for (const row of rows.toSorted((left, right) => left[0] - right[0])) addVersion(checkpoints, row);
  return {
    key,
    checkpoints,
    writes,
    turns,
    asking,
    named: new Set(named.map(({ ns, checkpointId }) => keyOf(ns, checkpointId))),
    prunedSeq: key.row.prunedSeq,
  };
}

/** An archived version: its manifest too, because it isn't in the table. */
function versionIn(row: AnyRow): Row {
  const columns = [
    "seq",
    "checkpoint_ns",
    "checkpoint_id",
    "position",
    "superseded_by",
    "parent_checkpoint_id",
    "source",
    "run_id",
  ];
  const values = [...columns, "created_at", "delta", "channels"].map((column) => (column === "superseded_by" ? 0 : row[column]));
  return values as Row;
}

function addVersion(checkpoints: Map<string, Stored>, row: Row): void {
  const [seq, ns, id, position, supersededBy, parentId, source, runId, createdAt, delta, archived] = row;
  const stored = checkpoints.get(keyOf(ns, id)) ?? { ns, id, position, versions: [] };
  checkpoints.set(keyOf(ns, id), stored);
  stored.versions.push({
    seq,
    parentId: parentId ?? undefined,
    source,
    runId: runId ?? undefined,
    createdAt,
    delta: delta === null ? undefined : storedNames(delta, "the delta channels of a checkpoint"),
    live: supersededBy === null,
    archived,
  });
}

function* writesOf(session: Session, { thread }: ThreadState): Program<Pick<PruneFacts, "writes" | "asking">> {
  const writes = new Map<string, number[]>();
  const asked = new Map<string, string>();
  const answered = new Set<string>();
  for (const [seq, ns, id, task, idx] of yield* session.rows<[number, string, string, string, number | null]>(WRITES, thread)) {
    const key = keyOf(ns, id);
    push(writes, key, seq);
    if (idx === INTERRUPT) asked.set(`${key}\0${task}`, key);
    if (idx === REGULAR) answered.add(`${key}\0${task}`);
  }
  const asking = [...asked].filter(([task]) => !answered.has(task)).map(([, key]) => key);
  return { writes, asking: new Set(asking) };
}

function* turnsOf(session: Session, { thread }: ThreadState): Program<Map<string, number[]>> {
  const turns = new Map<string, number[]>();
  for (const [seq, ns, id] of yield* session.rows<[number, string | null, string | null]>(TURNS, thread)) {
    // An id is never empty: a turn that started from no checkpoint belongs to none.
    push(turns, keyOf(ns ?? "", id ?? ""), seq);
  }
  return turns;
}

export function liveVersion({ versions }: Stored): Version | undefined {
  return versions.find(({ live }) => live);
}

export function liveOrNewest(stored: Stored): Version {
  return (liveVersion(stored) ?? stored.versions.at(-1)) as Version;
}
