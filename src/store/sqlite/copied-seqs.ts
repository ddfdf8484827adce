import { corrupted } from "../checksum";
import type { Sql } from "./sql";
import type { ThreadKey } from "./thread-keys";

const CREATE = "CREATE TEMP TABLE IF NOT EXISTS langgraph_copied_seqs (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)";
const CLEAR = "DELETE FROM temp.langgraph_copied_seqs";
/** Every seq that a row of the thread has, or names. */
const FILL = `INSERT INTO temp.langgraph_copied_seqs (old, new)
  SELECT old, row_number() OVER (ORDER BY old) FROM (
    SELECT seq AS old FROM langgraph_snapshots WHERE thread = ?1
    UNION SELECT superseded_by FROM langgraph_snapshots WHERE thread = ?1
    UNION SELECT position FROM langgraph_snapshots WHERE thread = ?1
    UNION SELECT seq FROM langgraph_writes WHERE thread = ?1
    UNION SELECT superseded_by FROM langgraph_writes WHERE thread = ?1
    UNION SELECT seq FROM langgraph_chunks WHERE thread = ?1
    UNION SELECT seq FROM langgraph_lists WHERE thread = ?1
    UNION SELECT base FROM langgraph_lists WHERE thread = ?1
    UNION SELECT i.seq FROM langgraph_items AS i WHERE i.list IN (SELECT seq FROM langgraph_lists WHERE thread = ?1)
    UNION SELECT i.chunk FROM langgraph_items AS i WHERE i.list IN (SELECT seq FROM langgraph_lists WHERE thread = ?1)
    UNION SELECT seq FROM langgraph_checkpoints WHERE thread = ?1
    UNION SELECT graph FROM langgraph_checkpoints WHERE thread = ?1
    UNION SELECT seq FROM langgraph_tasks WHERE thread = ?1
    UNION SELECT seq FROM langgraph_graphs WHERE thread = ?1
    UNION SELECT seq FROM langgraph_effects WHERE thread = ?1
    UNION SELECT pruned_seq FROM langgraph_threads WHERE thread = ?1
  ) WHERE old IS NOT NULL`;
const PLACE = "UPDATE temp.langgraph_copied_seqs SET new = new + ?";
const NEW = "SELECT new FROM temp.langgraph_copied_seqs WHERE old = ?";

/**
 * The seqs of a thread's copy: new ones in the old order, one for each that the source uses. Not a shift of the old ones: a thread that
 * is worked on lies between all others, and with each copy the sequence would grow by its whole length, that is double.
 */
export class CopiedSeqs {
  readonly #sql: Sql;
  readonly #source: ThreadKey;

  /** Within one transaction, and until {@link clear}, SQL finds them in `temp.langgraph_copied_seqs (old, new)`. */
  constructor(sql: Sql, source: ThreadKey) {
    this.#sql = sql;
    this.#source = source;
    sql.run(CREATE);
    sql.run(CLEAR);
    const count = sql.run(FILL, source.thread);
    sql.run(PLACE, sql.nextSeq(count) - count);
  }

  /** @throws {TurnsError} CHECKPOINT_CORRUPTED for one that the thread does not have */
  of(seq: number): number {
    const found = this.#sql.get<{ new: number }>(NEW, seq)?.new;
    if (found !== undefined) return found;
    const { threadId } = this.#source;
    throw corrupted(`thread ${threadId}`, "references to rows of its own", `one to row ${seq}`, { threadId });
  }

  clear(): void {
    this.#sql.run(CLEAR);
  }
}
