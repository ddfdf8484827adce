import { refuseEncrypted } from "./keys";
import type { Sql } from "./sql";

/** A thread as the rows of other tables know it. */
export interface ThreadKey {
  threadId: string;
  thread: number;
  /** Another one as soon as rows of the thread have been deleted or brought back. */
  generation: string;
}

const OF_ID = "SELECT thread, generation FROM langgraph_threads WHERE thread_id = ?";
const INSERT = "INSERT INTO langgraph_threads (thread, thread_id, created_at) VALUES (?, ?, ?)";
const OUTDATE = "UPDATE langgraph_threads SET generation = generation + 1 WHERE thread = ?";
const ID_OF = "SELECT thread_id FROM langgraph_threads WHERE thread = ?";

export function threadKey(sql: Sql, threadId: string): ThreadKey | undefined {
  const row = sql.get<{ thread: number; generation: number }>(OF_ID, threadId);
  return row === undefined ? undefined : { threadId, thread: row.thread, generation: `${row.thread}.${row.generation}` };
}

export function createThread(sql: Sql, threadId: string, createdAt: string): ThreadKey {
  if (!sql.sealing.encrypted) refuseEncrypted(sql, `thread ${JSON.stringify(threadId)}`);
  const thread = sql.nextSeq();
  sql.run(INSERT, thread, threadId, createdAt);
  return { threadId, thread, generation: `${thread}.0` };
}

/** Rows of the thread are deleted or brought back: what anybody remembers of it no longer counts. */
export function outdate(sql: Sql, key: ThreadKey): void {
  sql.run(OUTDATE, key.thread);
}

export function threadIdOf(sql: Sql, thread: number): string {
  return sql.get<{ thread_id: string }>(ID_OF, thread)?.thread_id ?? "";
}
