import { TurnsError } from "../../errors";
import type { CheckpointName } from "../store";
import { unknownThread } from "../unknown-thread";
import type { Sql } from "./sql";
import { threadKey } from "./thread-keys";

const FIND = `SELECT checkpoint_id FROM langgraph_snapshots
  WHERE thread = ?1 AND checkpoint_ns = ?2 AND (?3 IS NULL OR checkpoint_id = ?3) AND superseded_by IS NULL
  ORDER BY checkpoint_id DESC LIMIT 1`;
const NAME =
  "INSERT OR REPLACE INTO langgraph_names (thread, name, checkpoint_ns, checkpoint_id, created_at) VALUES (?, ?, ?, ?, ?)";
const LIST = `SELECT name, checkpoint_ns AS ns, checkpoint_id AS checkpointId, created_at AS createdAt
  FROM langgraph_names WHERE thread = ? ORDER BY name`;
const UNNAME = "DELETE FROM langgraph_names WHERE thread = ? AND name = ?";

/** Gives a checkpoint a name, and takes the name from the checkpoint that had it. @throws {TurnsError} CHECKPOINT_NOT_FOUND */
export function nameCheckpoint(
  sql: Sql,
  at: { threadId: string; ns: string; checkpointId: string | undefined },
  name: string,
  createdAt: string,
): CheckpointName {
  const key = threadKey(sql, at.threadId);
  const found = key && sql.get<{ checkpoint_id: string }>(FIND, key.thread, at.ns, at.checkpointId ?? null);
  if (key === undefined || found === undefined) throw unknownCheckpoint(at);
  sql.run(NAME, key.thread, name, at.ns, found.checkpoint_id, createdAt);
  return { name, ns: at.ns, checkpointId: found.checkpoint_id, createdAt };
}

/** @throws {TurnsError} THREAD_NOT_FOUND */
export function listNames(sql: Sql, threadId: string): CheckpointName[] {
  const key = threadKey(sql, threadId);
  if (key === undefined) throw unknownThread(threadId);
  return sql.all<CheckpointName>(LIST, key.thread);
}

/** @returns whether there was such a name */
export function unnameCheckpoint(sql: Sql, threadId: string, name: string): boolean {
  const key = threadKey(sql, threadId);
  return key !== undefined && sql.run(UNNAME, key.thread, name) > 0;
}

function unknownCheckpoint(at: { threadId: string; ns: string; checkpointId: string | undefined }): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    what: `naming a checkpoint of thread ${JSON.stringify(at.threadId)}`,
    expected: at.checkpointId === undefined ? "a namespace with checkpoints" : `checkpoint ${at.checkpointId}`,
    found: "none",
    remedy: "saver.list(config) shows which checkpoints there are.",
    data: { ...at },
  });
}
