import type { Part } from "../../sealing";
import { verifyChecksum } from "../checksum";
import type { EffectRow, EffectStatus, UndoStatus } from "../effects";
import { effectIdentity } from "./identities";
import type { Program, Sql } from "./sql";
import type { ThreadKey } from "./thread-key";

/** A row of `langgraph_effects` as SQLite returns it. */
export interface RawEffect {
  seq: number;
  thread: number;
  id: string;
  epoch: number;
  task_id: string;
  node_name: string;
  node_ns: string;
  node_task_id: string;
  path: string;
  spot: string;
  anchor: string | null;
  anchor_thread: string | null;
  run: string;
  unsaved_run: string | null;
  name: string;
  label: string;
  effect_key: string;
  idempotent: number;
  undo: string | null;
  input_digest: string | null;
  status: EffectStatus;
  tries: number;
  tried_seq: number | null;
  process: string;
  started_at: string;
  ended_at: string | null;
  settled_by: string | null;
  undo_status: UndoStatus | null;
  undone_at: string | null;
  inherited: number;
  content: string | Uint8Array;
  checksum: string;
}

export const EFFECT_COLUMNS =
  "seq, thread, id, epoch, task_id, node_name, node_ns, node_task_id, path, spot, anchor, anchor_thread, run, unsaved_run, name, label, effect_key, idempotent, undo, " +
  "input_digest, status, tries, tried_seq, process, started_at, ended_at, settled_by, undo_status, undone_at, " +
  "inherited, content, checksum";

/** An effect is updated whole, because its checksum is over all of it; with another seq the row moves, because its id is unique. */
const SAVE = `INSERT INTO langgraph_effects (${EFFECT_COLUMNS}) VALUES (${EFFECT_COLUMNS.split(", ")
  .map(() => "?")
  .join(", ")}) ON CONFLICT (id) DO UPDATE SET ${EFFECT_COLUMNS.split(", ")
  .filter((column) => column !== "id")
  .map((column) => `${column} = excluded.${column}`)
  .join(", ")}`;

export function* saveEffect(sql: Sql, key: ThreadKey, effect: EffectRow): Program<EffectRow> {
  const { input, outcome, undoError } = effect;
  key.touch();
  if (effect.unsavedRun !== undefined) sql.unsavedEffects = true;
  const content = sql.sealing.seal(key.threadId, effectIdentity(effect.id), JSON.stringify({ input, outcome, undoError }));
  yield* sql.run(
    SAVE,
    effect.seq,
    key.thread,
    effect.id,
    effect.epoch,
    effect.taskId,
    effect.nodeName,
    effect.nodeNs,
    effect.nodeTaskId,
    effect.path,
    effect.spot,
    effect.anchor ?? null,
    effect.anchorThread ?? null,
    effect.run,
    effect.unsavedRun ?? null,
    effect.name,
    effect.label,
    effect.key,
    effect.idempotent ? 1 : 0,
    effect.undo ?? null,
    effect.inputDigest ?? null,
    effect.status,
    effect.tries,
    effect.triedSeq ?? null,
    effect.process,
    effect.startedAt,
    effect.endedAt ?? null,
    effect.settledBy ?? null,
    effect.undoStatus ?? null,
    effect.undoneAt ?? null,
    effect.inherited ? 1 : 0,
    content,
    sql.sealing.checksum(key.threadId, ...partsOf(effect)),
  );
  return effect;
}

/** Reads a row, verified. @throws {TurnsError} CHECKPOINT_CORRUPTED */
export function toEffect(sql: Sql, threadId: string, row: RawEffect): EffectRow {
  const content = contentOf(sql.sealing.open(threadId, effectIdentity(row.id), row.content));
  const effect: EffectRow = {
    seq: row.seq,
    id: row.id,
    threadId,
    epoch: row.epoch,
    taskId: row.task_id,
    nodeName: row.node_name,
    nodeNs: row.node_ns,
    nodeTaskId: row.node_task_id,
    path: row.path,
    spot: row.spot,
    anchor: row.anchor ?? undefined,
    anchorThread: row.anchor_thread ?? undefined,
    run: row.run,
    unsavedRun: row.unsaved_run ?? undefined,
    name: row.name,
    label: row.label,
    key: row.effect_key,
    idempotent: row.idempotent === 1,
    undo: row.undo ?? undefined,
    inputDigest: row.input_digest ?? undefined,
    input: content.input,
    status: row.status,
    outcome: content.outcome,
    tries: row.tries,
    triedSeq: row.tried_seq ?? undefined,
    process: row.process,
    startedAt: row.started_at,
    endedAt: row.ended_at ?? undefined,
    settledBy: row.settled_by ?? undefined,
    undoStatus: row.undo_status ?? undefined,
    undoError: content.undoError,
    undoneAt: row.undone_at ?? undefined,
    inherited: row.inherited === 1,
  };
  const computed = sql.sealing.checksum(threadId, ...partsOf(effect));
  verifyChecksum(row.checksum, computed, `effect ${JSON.stringify(row.name)} (${row.id})`, { threadId, effectId: row.id });
  return effect;
}

/** A text that is not what we write is damaged, which the checksum tells, or else whoever reads it as an outcome. */
function contentOf(text: string): Pick<EffectRow, "input" | "outcome" | "undoError"> {
  try {
    const { input, outcome, undoError } = JSON.parse(text) as Partial<Record<string, string>>;
    const areTexts = [input, outcome, undoError].every((part) => part === undefined || typeof part === "string");
    if (areTexts) return { input, outcome, undoError };
  } catch {
    // As below.
  }
  return { input: text, outcome: text, undoError: undefined };
}

function partsOf(effect: EffectRow): Part[] {
  return [
    effect.seq,
    effect.id,
    effect.epoch,
    effect.taskId,
    effect.nodeName,
    effect.nodeNs,
    effect.nodeTaskId,
    effect.path,
    effect.spot,
    effect.anchor,
    effect.anchorThread,
    effect.run,
    effect.unsavedRun,
    effect.name,
    effect.label,
    effect.key,
    effect.idempotent ? 1 : 0,
    effect.undo,
    effect.inputDigest,
    effect.input,
    effect.status,
    effect.outcome,
    effect.tries,
    effect.triedSeq,
    effect.process,
    effect.startedAt,
    effect.endedAt,
    effect.settledBy,
    effect.undoStatus,
    effect.undoError,
    effect.undoneAt,
    effect.inherited ? 1 : 0,
  ];
}
