import { TurnsError } from "../../errors";
import type { CheckpointHead } from "../store";
import { unknownThread } from "../unknown-thread";
import { CopiedSeqs } from "./copied-seqs";
import { EFFECT_COLUMNS, type RawEffect, saveEffect, toEffect } from "./effect-rows";
import { manifestText } from "./manifest";
import { namesOf, saveName } from "./names";
import type { Sql } from "./sql";
import { unfinishedRewind as refusal } from "../unfinished-rewind";
import { unfinishedRewind } from "./rewind-records";
import { insertSnapshot, type Row as SnapshotRow, toHead } from "./snapshot-rows";
import { insertTask, tasksOf } from "./tasks";
import { changeThread, createThread, inheritedOf, type ThreadKey, threadKey } from "./thread-keys";
import { copyPlainChunks, copySealedChunks, type Translation } from "./thread-translation";
import { allowAgain } from "./tombstones";
import { insertTurn, type RawTurn, toTurn, TURN_COLUMNS } from "./turn-rows";
import { wholeThread } from "./whole-thread";
import { insertWrites, openWrites, type PlacedWrites } from "./write-rows";

const COPY_LISTS = `INSERT INTO langgraph_lists (seq, thread, base, keep)
  SELECT s.new, ?1, b.new, l.keep FROM langgraph_lists AS l JOIN temp.langgraph_copied_seqs AS s ON s.old = l.seq
    LEFT JOIN temp.langgraph_copied_seqs AS b ON b.old = l.base WHERE l.thread = ?2`;
const COPY_ITEMS = `INSERT INTO langgraph_items (list, pos, seq, thread, chunk)
  SELECT l.new, i.pos, s.new, ?1, c.new FROM langgraph_items AS i JOIN temp.langgraph_copied_seqs AS l ON l.old = i.list
    JOIN temp.langgraph_copied_seqs AS s ON s.old = i.seq JOIN temp.langgraph_copied_seqs AS c ON c.old = i.chunk
    WHERE i.list IN (SELECT seq FROM langgraph_lists WHERE thread = ?2)`;
const COPY_GRAPHS = `INSERT INTO langgraph_graphs (seq, thread, digest, document)
  SELECT s.new, ?1, g.digest, g.document FROM langgraph_graphs AS g JOIN temp.langgraph_copied_seqs AS s ON s.old = g.seq
    WHERE g.thread = ?2`;

/**
 * Copies a thread under another id: checkpoints of all namespaces, their values and writes, names, tasks and turns. The copies take
 * new seqs in the old order. Superseded rows go along, so that a rewind of the copy is as exact as one of the source; archives stay
 * behind.
 *
 * @throws {TurnsError} UNKNOWN_THREAD, THREAD_EXISTS; REWIND_UNFINISHED: what that rewind has undone, the copy would take for done
 */
export function copyThread(sql: Sql, sourceId: string, targetId: string, createdAt: string, createId: () => string): void {
  const source = wholeThread(sql, sourceId);
  if (source === undefined) throw unknownThread(sourceId);
  const rewind = unfinishedRewind(sql, sourceId);
  if (rewind !== undefined) throw refusal(rewind, `a copy of thread ${JSON.stringify(sourceId)}`);
  if (threadKey(sql, targetId) !== undefined) throw threadExists(targetId);
  allowAgain(sql, targetId);
  const target = createThread(sql, targetId, createdAt);
  const seqs = new CopiedSeqs(sql, source);
  for (const task of tasksOf(sql, source)) {
    insertTask(sql, target, { ...task, seq: seqs.of(task.seq), graphId: task.graphId === sourceId ? targetId : task.graphId });
  }
  for (const name of namesOf(sql, source)) saveName(sql, target, name);
  for (const insertAndSelect of [COPY_LISTS, COPY_ITEMS, COPY_GRAPHS]) sql.run(insertAndSelect, target.thread, source.thread);
  const { epoch, prunedSeq, unswept } = inheritedOf(sql, source);
  changeThread(sql, target, () => ({ epoch, pruned_seq: prunedSeq === 0 ? 0 : seqs.of(prunedSeq), unswept }));
  const translation = copySnapshots(sql, source, target, seqs);
  copyWrites(sql, source, target, seqs, translation);
  copyTurns(sql, source, target, seqs, translation, createId);
  copyEffects(sql, source, target, seqs, translation, createId);
  seqs.clear();
}

/** @returns how the rest is to be copied */
function copySnapshots(sql: Sql, source: ThreadKey, target: ThreadKey, seqs: CopiedSeqs): Translation {
  const rows = sql.all<SnapshotRow>("SELECT * FROM langgraph_snapshots WHERE thread = ? ORDER BY seq", source.thread);
  const heads = rows.map((row) => toHead(sql, source.threadId, row));
  const copy = { source, target, seqs };
  const translation = sql.sealing.encrypted ? copySealedChunks(sql, copy, heads) : copyPlainChunks(sql, copy);
  rows.forEach((row, index) => {
    const head = heads[index] as CheckpointHead;
    insertSnapshot(sql, target, {
      seq: seqs.of(row.seq),
      ns: head.ns,
      checkpointId: head.checkpointId,
      position: seqs.of(head.position),
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
    supersede(sql, "langgraph_snapshots", seqs.of(row.seq), row.superseded_by, seqs);
  });
  return translation;
}

interface CopiedWrites extends PlacedWrites {
  superseded_by: number | null;
}

function copyWrites(sql: Sql, source: ThreadKey, target: ThreadKey, seqs: CopiedSeqs, translation: Translation): void {
  for (const row of sql.all<CopiedWrites>("SELECT * FROM langgraph_writes WHERE thread = ? ORDER BY seq", source.thread)) {
    const { checkpoint_ns: ns, checkpoint_id: checkpointId, node_task_id: nodeTaskId, task_path: taskPath, idx } = row;
    const entries = translation.text(openWrites(sql, source.threadId, row, ns, checkpointId));
    insertWrites(sql, target, { seq: seqs.of(row.seq), ns, checkpointId, nodeTaskId, taskPath, idx, entries });
    supersede(sql, "langgraph_writes", seqs.of(row.seq), row.superseded_by, seqs);
  }
}

function supersede(
  sql: Sql,
  table: "langgraph_snapshots" | "langgraph_writes",
  seq: number,
  by: number | null,
  seqs: CopiedSeqs,
): void {
  if (by !== null) sql.run(`UPDATE ${table} SET superseded_by = ? WHERE seq = ?`, seqs.of(by), seq);
}

function copyTurns(
  sql: Sql,
  source: ThreadKey,
  target: ThreadKey,
  seqs: CopiedSeqs,
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
      seq: seqs.of(turn.seq ?? 0),
      graph: turn.graph === undefined ? undefined : seqs.of(turn.graph),
    });
  }
}

/** What was done for the source is done for its copy, which has nothing to undo: the deed is the source's. */
function copyEffects(
  sql: Sql,
  source: ThreadKey,
  target: ThreadKey,
  seqs: CopiedSeqs,
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
      seq: seqs.of(effect.seq),
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
