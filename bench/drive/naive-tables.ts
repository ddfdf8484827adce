import type { Statement } from "better-sqlite3";
import { hashOf, sha256 } from "../../src/testing-internal";
import type { Element, NaiveList } from "./naive-list";

/** A statement that the next transaction runs. */
export interface Runs {
  run(...values: unknown[]): unknown;
}

/** Where such statements go. */
interface Later {
  later(statement: Runs, values: unknown[]): void;
}

/** As better-sqlite3 prepares statements. */
export interface Prepares {
  prepare(text: string): Statement;
}

/** A node that runs. */
export interface Turn {
  runId: string;
  step: number;
  name: string;
  taskId: string;
}

export interface NaiveCheckpoint {
  id: string;
  parentId: string | undefined;
  body: string;
  channels: string;
  metadata: string;
  source: string;
  step: number;
  createdAt: number;
}

export interface StoredTurn {
  turnType: string;
  checkpointId: string;
  durable: boolean;
}

/** How a naive saver stores one thread after the other. What a method hands in is one row. */
export interface Tables {
  newThread(to: Later, threadId: string, taskId: string, createdAt: string): void;
  chunk(to: Later, element: Element): void;
  newList(to: Later, list: NaiveList, keep: number): void;
  item(to: Later, list: number, at: number, element: Element): void;
  writes(to: Later, taskId: string, path: string, entries: string): void;
  checkpoint(to: Later, checkpoint: NaiveCheckpoint): void;
  thought(to: Later, turn: Turn, id: string, createdAt: string): void;
  action(to: Later, turn: Turn, text: string, id: string, createdAt: string): void;
  /** At the end of each transaction. */
  threadRow(): void;
  takeLease(runId: string, threadId: string): void;
  endLease(to: Later, runId: string): void;
  /** @throws Error if the lease is gone, or the thread isn't as it was left */
  refuseChanged(runId: string | undefined): void;
  has(threadId: string): boolean;
  turnsOf(threadId: string): StoredTurn[];
  messagesOf(threadId: string): string[];
}

/** Four tables without an index, as little as a saver with turns needs. */
export class NaiveOwnTables implements Tables {
  readonly #db: Prepares;
  readonly #insert: Record<"checkpoints" | "messages" | "writes" | "turns", Statement>;
  #threadId = "";
  #head = "";
  #seq = 0;

  constructor(db: Prepares & { exec(text: string): unknown }) {
    this.#db = db;
    db.exec(`CREATE TABLE checkpoints (thread TEXT, id TEXT, parent TEXT, body TEXT, channels TEXT, metadata TEXT, PRIMARY KEY (thread, id)) WITHOUT ROWID;
      CREATE TABLE messages (thread TEXT, address TEXT, at INTEGER, body TEXT, PRIMARY KEY (thread, at)) WITHOUT ROWID;
      CREATE TABLE writes (thread TEXT, checkpoint TEXT, task TEXT, entries TEXT, PRIMARY KEY (thread, checkpoint, task)) WITHOUT ROWID;
      CREATE TABLE turns (thread TEXT, seq INTEGER, type TEXT, checkpoint TEXT, node TEXT, task TEXT, state TEXT, PRIMARY KEY (thread, seq)) WITHOUT ROWID`);
    this.#insert = {
      checkpoints: db.prepare("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?)"),
      messages: db.prepare("INSERT INTO messages VALUES (?, ?, ?, ?)"),
      writes: db.prepare("INSERT INTO writes VALUES (?, ?, ?, ?)"),
      turns: db.prepare("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?)"),
    };
  }

  newThread(_to: Later, threadId: string): void {
    this.#threadId = threadId;
    this.#seq = 0;
  }

  chunk(to: Later, element: Element): void {
    element.seq = this.#seq += 1;
    to.later(this.#insert.messages, [this.#threadId, element.address, element.seq, element.text]);
  }

  newList(): void {
    // The list is all messages in the order of their numbers.
  }

  item(): void {
    // As above.
  }

  writes(to: Later, taskId: string, _path: string, entries: string): void {
    to.later(this.#insert.writes, [this.#threadId, this.#head, taskId, entries]);
  }

  checkpoint(to: Later, { id, parentId, body, channels, metadata }: NaiveCheckpoint): void {
    this.#head = id;
    to.later(this.#insert.checkpoints, [this.#threadId, id, parentId, body, channels, metadata]);
  }

  thought(to: Later, { name, taskId }: Turn): void {
    to.later(this.#insert.turns, [this.#threadId, (this.#seq += 1), "Thought", this.#head, name, taskId, "{}"]);
  }

  action(to: Later, { name, taskId }: Turn, text: string): void {
    to.later(this.#insert.turns, [this.#threadId, (this.#seq += 1), "Action", this.#head, name, taskId, text]);
  }

  threadRow(): void {
    // There is none.
  }

  takeLease(): void {
    throw new Error("there are no leases");
  }

  endLease(): void {
    throw new Error("there are no leases");
  }

  refuseChanged(): void {
    throw new Error("there are no leases");
  }

  has(threadId: string): boolean {
    return this.#db.prepare("SELECT 1 FROM checkpoints WHERE thread = ?").get(threadId) !== undefined;
  }

  turnsOf(threadId: string): StoredTurn[] {
    const rows = this.#db.prepare("SELECT type, checkpoint FROM turns WHERE thread = ? ORDER BY seq").all(threadId);
    return (rows as { type: string; checkpoint: string }[]).map(({ type, checkpoint }) => ({
      ...{ turnType: type, checkpointId: checkpoint, durable: type === "Action" },
    }));
  }

  messagesOf(threadId: string): string[] {
    return this.#db.prepare("SELECT body FROM messages WHERE thread = ? ORDER BY at").pluck().all(threadId) as string[];
  }
}

const SPAN = 67_108_864;
/** Stands where a checksum would be. */
export const NO_CHECKSUM = "-------------------------------------------";
/** What the package says of a graph, as long as that of {@link ChainGraph}. */
const GRAPH = {
  channels: { messages: { hash: "0".repeat(22), kind: "BinaryOperatorAggregate" } },
  nodes: { step: { edges: ["goto: step", "goto: __end__"], fingerprint: "DG4QH9fwsq_lShvugvhS0s", source: "s".repeat(150) } },
};
const DIGEST = hashOf(GRAPH);
const DOCUMENT = JSON.stringify(GRAPH);
const FINGERPRINT = "DG4QH9fwsq_lShvugvhS0s";

/**
 * The package's tables, with the values that it would insert. What is the same in all rows stands in the statements.
 */
export class NaiveTables implements Tables {
  readonly #db: Prepares;
  readonly #hasChecksums: boolean;
  readonly #sql: Record<
    | ("number" | "thread" | "task" | "chunk" | "list" | "item" | "writes" | "snapshot" | "graph")
    | ("thought" | "action" | "update" | "has" | "tombstone" | "runs" | "takeLease" | "endLease" | "hasLease" | "stands"),
    Statement
  >;
  #threadId = "";
  /** The thread's id as checksums begin with it. */
  #of = "";
  #thread = 0;
  #first = 0;
  #seq = 0;
  #snapshots = 0;
  #writes = 0;
  #turns = 0;
  #taskId = "";
  #createdAt = "";
  #graph = 0;
  #head = "";
  /** The thread's last number that is committed. */
  #committed = 0;

  /** @param threads how many there are */
  constructor(db: Prepares, hasChecksums: boolean, threads = 0) {
    this.#db = db;
    this.#hasChecksums = hasChecksums;
    this.#thread = threads;
    const turn = `INSERT INTO langgraph_checkpoints (id, graph_id, node_name, turn_type, serialized_state, task_id, created_at, seq, state_format, thread,
      checkpoint_ns, checkpoint_id, node_task_id, run_id, step, attempt, status, durable, graph, fingerprint, checksum)`;
    this.#sql = {
      number: db.prepare("UPDATE langgraph_settings SET value = CAST(? AS INTEGER) WHERE name = 'threads'"),
      thread:
        db.prepare(`INSERT INTO langgraph_threads (thread, thread_id, tag, created_at, seq, epoch, generation, pruned_seq, unswept, snapshots,
        writes, turns, effects, others, checksum) VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, '')`),
      task: db.prepare(
        "INSERT INTO langgraph_tasks (thread, seq, task_id, graph_id, kind, created_at, checksum) VALUES (?, ?, ?, ?, 'run', ?, ?)",
      ),
      chunk: db.prepare("INSERT INTO langgraph_chunks (seq, thread, address, body) VALUES (?, ?, ?, ?)"),
      list: db.prepare("INSERT INTO langgraph_lists (seq, thread, base, keep) VALUES (?, ?, ?, ?)"),
      item: db.prepare("INSERT INTO langgraph_items (list, pos, seq, chunk) VALUES (?, ?, ?, ?)"),
      writes:
        db.prepare(`INSERT INTO langgraph_writes (seq, thread, checkpoint_ns, checkpoint_id, node_task_id, task_path, idx, entries, checksum)
        VALUES (?, ?, '', ?, ?, ?, 0, ?, ?)`),
      snapshot:
        db.prepare(`INSERT INTO langgraph_snapshots (seq, thread, checkpoint_ns, checkpoint_id, position, parent_checkpoint_id, source, step,
        created_at, body, channels, metadata, checksum) VALUES (?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
      graph: db.prepare("INSERT INTO langgraph_graphs (seq, thread, digest, document) VALUES (?, ?, ?, ?)"),
      thought: db.prepare(
        `${turn} VALUES (?, ?, ?, 'Thought', '{}', ?, ?, ?, 'checkpoint', ?, '', ?, ?, ?, ?, 1, NULL, 0, ?, ?, ?)`,
      ),
      action: db.prepare(`${turn} VALUES (?, ?, ?, 'Action', ?, ?, ?, ?, 'update', ?, '', ?, ?, ?, ?, 1, 'ok', 1, ?, ?, ?)`),
      update: db.prepare(
        "UPDATE langgraph_threads SET seq = ?, snapshots = ?, writes = ?, turns = ?, checksum = ? WHERE thread = ?",
      ),
      has: db.prepare("SELECT thread FROM langgraph_threads WHERE thread_id = ?").pluck(),
      tombstone: db.prepare("SELECT deleted_at FROM langgraph_tombstones WHERE thread_id = ?").pluck(),
      runs: db.prepare("SELECT 1 FROM langgraph_runs WHERE thread_id = ?").pluck(),
      takeLease: db.prepare(`INSERT INTO langgraph_runs (run_id, thread_id, host, boot, pid, pid_start, started_at, beat_at)
        VALUES (?, ?, 'host', '32e5704e-54b5-40bf-8117-038218210000', ?, '256809', ?, ?)`),
      endLease: db.prepare("DELETE FROM langgraph_runs WHERE run_id = ?"),
      hasLease: db.prepare("SELECT 1 FROM langgraph_runs WHERE run_id = ?").pluck(),
      stands: db.prepare("SELECT 1 FROM langgraph_threads WHERE thread = ? AND seq = ? AND generation = 0 AND epoch = 0").pluck(),
    };
  }

  /** The thread, and its last number that is committed; undefined on a new one. */
  get committed(): { thread: number; seq: number } | undefined {
    return this.#committed === 0 ? undefined : { thread: this.#thread, seq: this.#committed };
  }

  newThread(to: Later, threadId: string, taskId: string, createdAt: string): void {
    const { number, thread, task } = this.#sql;
    this.#threadId = threadId;
    this.#of = `s${threadId.length}:${threadId}`;
    this.#thread += 1;
    this.#first = this.#thread * SPAN;
    this.#taskId = taskId;
    this.#createdAt = createdAt;
    this.#snapshots = this.#writes = this.#turns = this.#graph = this.#committed = 0;
    this.#seq = 1;
    const tag = this.#hasChecksums ? sha256(`${this.#of}s6:thread`) : sha256(threadId);
    to.later(number, [this.#thread]);
    to.later(thread, [this.#thread, threadId, tag, createdAt]);
    const sum = this.#sum(
      () => `s5:tasksn${this.#first + 1};s36:${taskId}s${threadId.length}:${threadId}s3:runs${createdAt.length}:${createdAt}z;`,
    );
    to.later(task, [this.#thread, this.#first + 1, taskId, threadId, createdAt, sum]);
  }

  chunk(to: Later, element: Element): void {
    const seq = this.#next();
    element.seq = seq;
    to.later(this.#sql.chunk, [seq, this.#thread, element.address, element.text]);
  }

  newList(to: Later, list: NaiveList, keep: number): void {
    const base = keep === 0 ? null : list.seq;
    list.seq = this.#next();
    list.cut(keep);
    to.later(this.#sql.list, [list.seq, this.#thread, base, keep]);
  }

  item(to: Later, list: number, at: number, { seq }: Element): void {
    to.later(this.#sql.item, [list, at, this.#next(), seq]);
  }

  writes(to: Later, taskId: string, path: string, entries: string): void {
    const seq = this.#next();
    this.#writes += 1;
    const sum = this.#sum(
      () => `s6:writesn${seq};s0:s36:${this.#head}s36:${taskId}s${path.length}:${path}n0;s${entries.length}:${entries}`,
    );
    to.later(this.#sql.writes, [seq, this.#thread, this.#head, taskId, path, entries, sum]);
  }

  checkpoint(to: Later, { id, parentId, body, channels, metadata, source, step, createdAt }: NaiveCheckpoint): void {
    const seq = this.#next();
    this.#snapshots += 1;
    this.#head = id;
    const sum = this.#sum(
      () =>
        `s11:checkpointsn${seq};s0:s36:${id}n${seq};${parentId === undefined ? "z;" : `s36:${parentId}`}s${source.length}:${source}n${step};z;n${createdAt};z;` +
        `s${body.length}:${body}s${channels.length}:${channels}s${metadata.length}:${metadata}`,
    );
    to.later(this.#sql.snapshot, [seq, this.#thread, id, seq, parentId, source, step, createdAt, body, channels, metadata, sum]);
  }

  thought(to: Later, { runId, step, name, taskId }: Turn, id: string, createdAt: string): void {
    if (this.#graph === 0) {
      this.#graph = this.#next();
      to.later(this.#sql.graph, [this.#graph, this.#thread, DIGEST, DOCUMENT]);
    }
    const seq = this.#next();
    this.#turns += 1;
    const sum = this.#sum(
      () =>
        `s5:turnss36:${id}${this.#of}s${name.length}:${name}s7:Thoughts2:{}s36:${this.#taskId}s24:${createdAt}n${seq};s10:checkpoints0:s36:${this.#head}` +
        `z;s36:${taskId}s36:${runId}n${step};n1;z;n0;n0;n0;n0;n0;n${this.#graph};s22:${FINGERPRINT}z;`,
    );
    to.later(this.#sql.thought, [
      ...[id, this.#threadId, name, this.#taskId, createdAt, seq, this.#thread, this.#head, taskId, runId, step],
      ...[this.#graph, FINGERPRINT, sum],
    ]);
  }

  action(to: Later, { runId, step, name, taskId }: Turn, text: string, id: string, createdAt: string): void {
    const seq = this.#next();
    this.#turns += 1;
    const sum = this.#sum(
      () =>
        `s5:turnss36:${id}${this.#of}s${name.length}:${name}s6:Actions${text.length}:${text}s36:${this.#taskId}s24:${createdAt}n${seq};s6:updates0:s36:${this.#head}` +
        `z;s36:${taskId}s36:${runId}n${step};n1;s2:okn1;n0;n0;n0;n0;n${this.#graph};s22:${FINGERPRINT}z;`,
    );
    to.later(this.#sql.action, [
      ...[id, this.#threadId, name, text, this.#taskId, createdAt, seq, this.#thread, this.#head, taskId, runId, step],
      ...[this.#graph, FINGERPRINT, sum],
    ]);
  }

  threadRow(): void {
    const seq = this.#seq;
    const sum = this.#sum(() => `s7:threadsn${this.#thread};${this.#of}s24:${this.#createdAt}n${seq};n0;n0;n0;n0;z;z;n0;`);
    this.#sql.update.run(seq, this.#snapshots, this.#writes, this.#turns, sum, this.#thread);
    this.#committed = seq;
  }

  takeLease(runId: string, threadId: string): void {
    const { runs, tombstone, takeLease } = this.#sql;
    if (runs.get(threadId) !== undefined || tombstone.get(threadId) !== undefined) throw new Error("the thread is taken");
    takeLease.run(runId, threadId, process.pid, new Date().toISOString(), Math.floor(performance.now()));
  }

  endLease(to: Later, runId: string): void {
    to.later(this.#sql.endLease, [runId]);
  }

  refuseChanged(runId: string | undefined): void {
    if (runId !== undefined && this.#sql.hasLease.get(runId) === undefined) throw new Error("the lease is lost");
    const isNew = this.#committed === 0;
    const isAsLeft = isNew
      ? this.#sql.tombstone.get(this.#threadId) === undefined
      : this.#sql.stands.get(this.#thread, this.#committed) !== undefined;
    if (!isAsLeft) throw new Error("somebody else has saved on the thread");
  }

  has(threadId: string): boolean {
    return this.#sql.has.get(threadId) !== undefined;
  }

  turnsOf(threadId: string): StoredTurn[] {
    const rows = this.#db
      .prepare("SELECT turn_type, checkpoint_id, durable FROM langgraph_checkpoints WHERE thread = ? ORDER BY seq")
      .raw(true)
      .all(this.#sql.has.get(threadId)) as [string, string, number][];
    return rows.map(([turnType, checkpointId, durable]) => ({ turnType, checkpointId, durable: durable === 1 }));
  }

  messagesOf(threadId: string): string[] {
    const thread = this.#sql.has.get(threadId) as number;
    const [channels] = this.#db
      .prepare("SELECT channels FROM langgraph_snapshots WHERE thread = ? ORDER BY position DESC LIMIT 1")
      .raw(true)
      .get(thread) as [string];
    const [, , list] = (JSON.parse(channels) as { messages: [number, number, number] }).messages;
    return this.#db
      .prepare(
        "SELECT c.body FROM langgraph_items AS i JOIN langgraph_chunks AS c ON c.seq = i.chunk WHERE i.list = ? ORDER BY i.pos",
      )
      .pluck()
      .all(list) as string[];
  }

  #next(): number {
    this.#seq += 1;
    return this.#first + this.#seq;
  }

  #sum(parts: () => string): string {
    return this.#hasChecksums ? sha256(this.#of + parts()) : NO_CHECKSUM;
  }
}
