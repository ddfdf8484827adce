import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import Database from "better-sqlite3";
import { TurnSaver, type TurnSaverOptions } from "langgraph-checkpoint-turns";
import { tempFile } from "../support/temp";

export const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** What one transaction has brought into the file, or taken out of it. */
export interface Commit {
  /** `T a`: a Thought. `A a ok*`: an Action, with a star if it is durable. */
  turns: string[];
  /** `cp 0`, in a subgraph `cp sub 0`: a checkpoint, by its step. */
  checkpoints: string[];
  /** How many rows of pending writes. */
  writes: number;
  /** `mail intent`, `mail done`. */
  effects: string[];
  /** `run begins`, `run ends`: the marks by which others see that a thread is running. */
  marks: string[];
  /** Attempts of node tasks whose Thought and Action both came in this transaction: there must be none (S1.8). */
  together: string[];
  /** Whether the transaction waited for the disk. */
  synced: boolean;
}

/** All that another connection sees in the file: each row with what the tests tell it by. */
interface Seen {
  turns: Map<string, string>;
  checkpoints: Map<string, string>;
  writes: Map<string, string>;
  effects: Map<string, string>;
  runs: Map<string, string>;
  /** When each run gave its last sign of life. */
  beats: Map<string, string>;
  /** Of turns: which attempt of which node task each is of. */
  attempts: Map<string, string>;
}

type Work = (...args: unknown[]) => unknown;
type Transaction = Work & { immediate: Work };

/**
 * A saver on a handle that tells each of its transactions when it has ended, and a second connection that sees what is committed. `log`
 * has both in their order: `> a` where the body of node `a` begins, and what each transaction committed.
 */
export class BoundaryLog {
  readonly path = tempFile();
  readonly db: Database.Database;
  readonly saver: TurnSaver;
  readonly witness: Database.Database;
  readonly commits: Commit[] = [];
  readonly log: string[] = [];
  /** What bodies found missing in the file. */
  readonly missing: string[] = [];
  /** Names of functional tasks. */
  readonly functional = new Set<string>();
  /** What SQLite was asked to do, transaction by transaction. */
  readonly begun: string[] = [];
  /** How many transactions had signs of life of runs, alone or beside what was handed in then. */
  beats = 0;
  #seen: Seen;

  constructor(options: TurnSaverOptions = {}) {
    const verbose = (sql?: unknown): void => {
      if (/^(BEGIN|COMMIT|ROLLBACK|SAVEPOINT)/.test(String(sql))) this.begun.push(String(sql));
    };
    this.db = new Database(this.path, { verbose });
    const transaction = this.db.transaction.bind(this.db) as (work: Work) => Transaction;
    let isTold = false;
    // Before the saver is made: it makes its transaction once.
    const told = (work: Work): unknown => {
      const own = transaction(work);
      const immediate = (...args: unknown[]): unknown => {
        try {
          return own.immediate(...args);
        } finally {
          if (isTold) this.#committed();
        }
      };
      return Object.assign((...args: unknown[]): unknown => own(...args), { immediate });
    };
    Object.defineProperty(this.db, "transaction", { value: told });
    this.saver = new TurnSaver(this.db, { logger: quiet, ...options });
    this.begun.length = 0;
    this.witness = new Database(this.path, { readonly: true });
    this.#seen = this.#look();
    isTold = true;
  }

  /** Transactions that saved anything of a graph; not those that only say that a run begins or ends. */
  get boundaries(): Commit[] {
    return this.commits.filter(({ turns, checkpoints, writes }) => turns.length + checkpoints.length + writes > 0);
  }

  /** Another look into the file, as of now. */
  count(sql: string): number {
    return Number(this.witness.prepare(sql).pluck().get());
  }

  /** Called at the start of a body: the Thought of its node task and the checkpoint that it starts from have to be in the file. */
  enter(name: string): void {
    this.log.push(`> ${name}`);
    const config = AsyncLocalStorageProviderSingleton.getRunnableConfig() as { metadata?: Record<string, unknown> } | undefined;
    const ns = String(config?.metadata?.["langgraph_checkpoint_ns"]);
    const step = Number(config?.metadata?.["langgraph_step"]);
    const task = ns.slice(ns.lastIndexOf(":") + 1);
    const thoughts = "SELECT count(*) FROM langgraph_checkpoints WHERE node_task_id = ? AND turn_type = ?";
    const counted = (type: string): number => Number(this.witness.prepare(thoughts).pluck().get(task, type));
    // One Thought for each attempt so far, this one included.
    if (counted("Thought") <= counted("Action")) this.missing.push(`${name}: its Thought`);
    // A functional task starts from the checkpoint of the entrypoint around it.
    const isTask = this.functional.has(name);
    const outer = namespaceAbove(isTask ? namespaceAbove(ns) : ns);
    const found = this.witness.prepare("SELECT count(*) FROM langgraph_snapshots WHERE checkpoint_ns = ? AND step = ?").pluck();
    if (Number(found.get(outer, step - 1)) === 0) this.missing.push(`${name}: its checkpoint ${step - 1}`);
  }

  /** The body of a node that says where it begins. */
  node(name: string, work: () => unknown = () => undefined) {
    return async () => {
      this.enter(name);
      await work();
      return { log: [name] };
    };
  }

  close(): void {
    this.witness.close();
    this.saver.close();
  }

  #committed(): void {
    const before = this.#seen;
    this.#seen = this.#look();
    const news = (kind: keyof Seen): string[] =>
      [...this.#seen[kind]].filter(([id, text]) => before[kind].get(id) !== text).map(([, text]) => text);
    const gone = [...before.runs.keys()].filter((id) => !this.#seen.runs.has(id));
    const marks = [...news("runs"), ...gone.map(() => "run ends")];
    const types = new Map<string, Set<string>>();
    for (const [id, attempt] of this.#seen.attempts) {
      if (before.attempts.has(id)) continue;
      types.set(attempt, (types.get(attempt) ?? new Set()).add(String(this.#seen.turns.get(id)).slice(0, 1)));
    }
    const commit: Commit = {
      turns: news("turns"),
      checkpoints: news("checkpoints"),
      writes: news("writes").length,
      effects: news("effects"),
      marks,
      together: [...types].flatMap(([attempt, { size }]) => (size === 2 ? attempt : [])),
      synced: Number(this.db.pragma("synchronous", { simple: true })) === 2,
    };
    const isBeat = [...this.#seen.beats].some(([id, at]) => before.beats.has(id) && before.beats.get(id) !== at);
    const rest = [commit.turns, commit.checkpoints, commit.effects, commit.marks].flat();
    // On a busy machine a run lasts long enough for a heartbeat, which waits for no disk.
    if (isBeat && rest.length + commit.writes === 0 && !commit.synced) return;
    if (isBeat) this.beats += 1;
    this.commits.push(commit);
    const writes = commit.writes === 0 ? [] : [`${commit.writes}w`];
    const [actions, thoughts] = ["A", "T"].map((type) => commit.turns.filter((turn) => turn.startsWith(type)));
    const parts = [...(actions ?? []), ...writes, ...commit.checkpoints, ...commit.effects, ...(thoughts ?? []), ...marks];
    this.log.push(parts.join(", "));
  }

  #look(): Seen {
    const rows = (sql: string): Map<string, string> => new Map(this.witness.prepare(sql).raw().all() as [string, string][]);
    return {
      turns: rows(
        "SELECT id, substr(turn_type, 1, 1) || ' ' || node_name || coalesce(' ' || status, '') || iif(durable, '*', '')" +
          " FROM langgraph_checkpoints ORDER BY rowid",
      ),
      checkpoints: rows(
        "SELECT seq, 'cp ' || iif(checkpoint_ns = '', '', substr(checkpoint_ns, 1, instr(checkpoint_ns || ':', ':') - 1) || ' ') || step" +
          " FROM langgraph_snapshots ORDER BY seq",
      ),
      writes: rows("SELECT seq, node_task_id FROM langgraph_writes ORDER BY seq"),
      effects: rows("SELECT id, name || ' ' || status FROM langgraph_effects ORDER BY seq"),
      runs: rows("SELECT run_id, 'run begins' FROM langgraph_runs"),
      beats: rows("SELECT run_id, beat_at FROM langgraph_runs"),
      attempts: rows("SELECT id, node_task_id || '#' || attempt FROM langgraph_checkpoints"),
    };
  }
}

function namespaceAbove(ns: string): string {
  return ns.includes("|") ? ns.slice(0, ns.lastIndexOf("|")) : "";
}
