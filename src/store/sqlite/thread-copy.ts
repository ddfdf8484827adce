import { TurnsError } from "../../errors";
import type { CheckpointHead } from "../store";
import { unknownThread } from "../unknown-thread";
import { insertSnapshot, type Row, toHead } from "./checkpoints";
import { EFFECT_COLUMNS, type RawEffect, saveEffect, toEffect } from "./effect-rows";
import { manifestText } from "./manifest";
import type { Sql } from "./sql";
import { unfinishedRewind as refusal } from "../unfinished-rewind";
import { unfinishedRewind } from "./rewind-records";
import { createThread, type ThreadKey, threadKey } from "./thread-keys";
import { copyPlainChunks, copySealedChunks, type Translation } from "./thread-translation";
import { allowAgain } from "./tombstones";
import { insertTurn, type RawTurn, toTurn, TURN_COLUMNS } from "./turn-rows";
import { insertWrites, openWrites, type WriteRow } from "./writes";

/**
 * Copies a thread under another id: checkpoints of all namespaces, their values and writes, names, tasks and turns. The copies take
 * new seqs in the old order. Superseded rows go along, so that a rewind of the copy is as exact as one of the source; archives stay
 * behind.
 *
 * @throws {TurnsError} UNKNOWN_THREAD, THREAD_EXISTS; REWIND_UNFINISHED: what that rewind has undone, the copy would take for done
 */
export function copyThread(sql: Sql, sourceId: string, targetId: string, createdAt: string, createId: () => string): void {
  const source = threadKey(sql, sourceId);
  if (source === undefined) throw unknownThread(sourceId);
  const rewind = unfinishedRewind(sql, sourceId);
  if (rewind !== undefined) throw refusal(rewind, `a copy of thread ${JSON.stringify(sourceId)}`);
  if (threadKey(sql, targetId) !== undefined) throw threadExists(targetId);
  allowAgain(sql, targetId);
  const target = createThread(sql, targetId, createdAt);
  const shift = shiftOf(sql, source);
  const copy = (insertAndSelect: string): void =>
    void sql.run(insertAndSelect, target.thread, source.thread, shift, targetId, sourceId);
  copy(`INSERT INTO langgraph_tasks (thread, seq, task_id, graph_id, kind, created_at)
    SELECT ?1, seq + ?3, task_id, CASE graph_id WHEN ?5 THEN ?4 ELSE graph_id END, kind, created_at
    FROM langgraph_tasks WHERE thread = ?2`);
  copy(`INSERT INTO langgraph_lists (seq, thread, base, keep) SELECT seq + ?3, ?1, base + ?3, keep
    FROM langgraph_lists WHERE thread = ?2 AND ?4 <> ?5`);
  copy(`INSERT INTO langgraph_items (list, pos, seq, thread, chunk) SELECT list + ?3, pos, seq + ?3, ?1, chunk + ?3
    FROM langgraph_items WHERE list IN (SELECT seq FROM langgraph_lists WHERE thread = ?2) AND ?4 <> ?5`);
  copy(`INSERT INTO langgraph_names (thread, name, checkpoint_ns, checkpoint_id, created_at)
    SELECT ?1, name, checkpoint_ns, checkpoint_id, created_at FROM langgraph_names WHERE thread = ?2 AND ?3 > 0 AND ?4 <> ?5`);
  copy(`INSERT INTO langgraph_graphs (seq, thread, digest, document)
    SELECT seq + ?3, ?1, digest, document FROM langgraph_graphs WHERE thread = ?2 AND ?4 <> ?5`);
  copy(`UPDATE langgraph_threads SET (pruned_seq, unswept) =
      (SELECT coalesce(nullif(pruned_seq, 0) + ?3, 0), unswept FROM langgraph_threads WHERE thread = ?2)
    WHERE thread = ?1 AND ?4 <> ?5`);
  const translation = copySnapshots(sql, source, target, shift);
  copyWrites(sql, source, target, shift, translation);
  copyTurns(sql, source, target, shift, translation, createId);
  copyEffects(sql, source, target, shift, translation, createId);
}

/** Reserves seqs for the copy and returns what to add to a source row's seq. */
function shiftOf(sql: Sql, source: ThreadKey): number {
  const highest = sql.currentSeq();
  sql.nextSeq(highest - source.thread + 1);
  return highest - source.thread + 1;
}

interface SnapshotRow extends Row {
  superseded_by: number | null;
}

/** @returns how the rest is to be copied */
function copySnapshots(sql: Sql, source: ThreadKey, target: ThreadKey, shift: number): Translation {
  const rows = sql.all<SnapshotRow>("SELECT * FROM langgraph_snapshots WHERE thread = ? ORDER BY seq", source.thread);
  const heads = rows.map((row) => toHead(sql, source.threadId, row));
  const copy = { source, target, shift };
  const translation = sql.sealing.encrypted ? copySealedChunks(sql, copy, heads) : copyPlainChunks(sql, copy);
  rows.forEach((row, index) => {
    const head = heads[index] as CheckpointHead;
    insertSnapshot(sql, target, {
      seq: row.seq + shift,
      ns: head.ns,
      checkpointId: head.checkpointId,
      parentId: head.parentId,
      source: row.source,
      step: row.step,
      runId: row.run_id ?? undefined,
      createdAt: row.created_at,
      delta: row.delta ?? undefined,
      body: head.body,
      channels: manifestText(translation.channels(head.channels)),
      metadata: head.metadata,
    });
    supersede(sql, "langgraph_snapshots", row.seq + shift, row.superseded_by, shift);
  });
  return translation;
}

interface CopiedWrites extends WriteRow {
  superseded_by: number | null;
  checkpoint_ns: string;
  checkpoint_id: string;
}

function copyWrites(sql: Sql, source: ThreadKey, target: ThreadKey, shift: number, translation: Translation): void {
  for (const row of sql.all<CopiedWrites>("SELECT * FROM langgraph_writes WHERE thread = ? ORDER BY seq", source.thread)) {
    const { checkpoint_ns: ns, checkpoint_id: checkpointId, node_task_id: nodeTaskId, idx } = row;
    const entries = translation.text(openWrites(sql, source.threadId, row, ns, checkpointId));
    insertWrites(sql, target, { seq: row.seq + shift, ns, checkpointId, nodeTaskId, idx, entries });
    supersede(sql, "langgraph_writes", row.seq + shift, row.superseded_by, shift);
  }
}

function supersede(
  sql: Sql,
  table: "langgraph_snapshots" | "langgraph_writes",
  seq: number,
  by: number | null,
  shift: number,
): void {
  if (by !== null) sql.run(`UPDATE ${table} SET superseded_by = ? WHERE seq = ?`, by + shift, seq);
}

function copyTurns(
  sql: Sql,
  source: ThreadKey,
  target: ThreadKey,
  shift: number,
  translation: Translation,
  createId: () => string,
): void {
  const rows = sql.all<RawTurn>(`SELECT ${TURN_COLUMNS} FROM langgraph_checkpoints WHERE thread = ? ORDER BY seq`, source.thread);
  for (const row of rows) {
    const turn = toTurn(sql, row, source.threadId);
    const graphId = turn.graphId === source.threadId ? target.threadId : turn.graphId;
    insertTurn(sql, target.thread, {
      ...turn,
      id: createId(),
      serializedState: translation.text(turn.serializedState),
      graphId,
      threadId: target.threadId,
      seq: (turn.seq ?? 0) + shift,
      graph: turn.graph === undefined ? undefined : turn.graph + shift,
    });
  }
}

/** What was done for the source is done for its copy, which has nothing to undo: the deed is the source's. */
function copyEffects(
  sql: Sql,
  source: ThreadKey,
  target: ThreadKey,
  shift: number,
  translation: Translation,
  createId: () => string,
): void {
  const rows = sql.all<RawEffect>(`SELECT ${EFFECT_COLUMNS} FROM langgraph_effects WHERE thread = ? ORDER BY seq`, source.thread);
  for (const row of rows) {
    const effect = toEffect(sql, source.threadId, row);
    const input = effect.input === undefined ? undefined : translation.text(effect.input);
    saveEffect(sql, target, {
      ...effect,
      id: createId(),
      threadId: target.threadId,
      seq: effect.seq + shift,
      triedSeq: undefined,
      input,
      // With encryption digests are the thread's own.
      inputDigest: input === undefined ? undefined : sql.sealing.address(target.threadId, input),
      outcome: effect.outcome === undefined ? undefined : translation.text(effect.outcome),
      inherited: true,
    });
  }
}

function threadExists(threadId: string): TurnsError {
  return new TurnsError("THREAD_EXISTS", {
    what: `thread ${JSON.stringify(threadId)}`,
    expected: "an id that is not in use",
    found: "a thread of that id",
    remedy: "Copy to another id, or delete that thread first.",
    data: { threadId },
  });
}
