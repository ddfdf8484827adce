import { ofThread } from "./spans";

/*
 * Every table is described here, and nowhere else except in the migrations. Statements, row types, checksums and sealing are
 * derived from it (rows.ts), and so are the lists of tables that verify, rewind, copy, rotate and salvage use. A test holds it
 * against the schema.
 */

/** A column, in the order of the schema. */
export interface Column {
  readonly type: "integer" | "text" | "any";
  readonly nullable?: true;
  /** Its only allowed values. */
  readonly values?: readonly (string | number)[];
  /** 0 or 1 in the table, a boolean in a row object. */
  readonly isFlag?: true;
  /** The field of a row object, if it isn't the column's name in camel case. */
  readonly as?: string;
  /** `owner`: the number of the row's thread, which every reader of the row knows. `checksum`: over all other columns. */
  readonly role?: "owner" | "checksum";
  /** The checksum doesn't cover it: it is updated alone, or proven otherwise. */
  readonly isUnsigned?: true;
  /** It is updated in place, together with the checksum. */
  readonly changes?: true;
  /** It is stored sealed, as bytes or as base64 text; `by`: the columns of its identity. */
  readonly sealed?: { readonly form: "bytes" | "text"; readonly kind: string; readonly by: readonly string[] };
  /** It holds the seq of a row: its own, or one of another row of the thread. */
  readonly seqOf?: string;
  /** Where it refers to chunks: in codec text, in a manifest of channels, or in texts within JSON. */
  readonly refers?: "text" | "manifest" | "texts";
}

export interface Table {
  readonly name: string;
  /** What its rows are called in reports. It's part of their checksums. */
  readonly called: string;
  readonly columns: Readonly<Record<string, Column>>;
  /** The primary key. */
  readonly key: readonly string[];
  /** What distinguishes its rows, if that isn't the key. */
  readonly id?: readonly string[];
  /** Rows with equal values in these columns are versions of one thing. Each but the newest is superseded by the next. */
  readonly versionsOf?: readonly string[];
  /** How to find the rows of a thread: as a range of this column, which has seqs, or by the column `thread` or `thread_id`. */
  readonly ofThread?: { readonly range: string } | { readonly column: string };
  /** The count in the thread's own row that includes them. */
  readonly counted?: "snapshots" | "writes" | "turns" | "effects" | "others";
  /** A rewind moves rows behind its target into its archive. The report counts them, or doesn't. */
  readonly rewound?: "counted" | "uncounted";
  /** An index that begins with `thread`. */
  readonly byThread?: string;
  /** What an error calls a damaged row, with the error's data. */
  readonly damaged?: (row: Stored, threadId: string) => readonly [what: string, data: Record<string, unknown>];
}

type Stored = Readonly<Record<string, string | number | null>>;

const INTEGER = { type: "integer" } as const;
const TEXT = { type: "text" } as const;
const MAYBE_INTEGER = { type: "integer", nullable: true } as const;
const MAYBE_TEXT = { type: "text", nullable: true } as const;
const FLAG = { type: "integer", values: [0, 1], isFlag: true } as const;
const OWNER = { type: "integer", role: "owner" } as const;
const CHECKSUM = { type: "text", role: "checksum" } as const;
const NS = { type: "text", as: "ns" } as const;

export const SETTINGS = {
  name: "langgraph_settings",
  called: "settings",
  key: ["name"],
  columns: { name: TEXT, value: { type: "any" } },
} as const satisfies Table;

export const THREADS = {
  name: "langgraph_threads",
  called: "threads",
  key: ["thread"],
  ofThread: { column: "thread" },
  columns: {
    thread: INTEGER,
    thread_id: TEXT,
    tag: { ...TEXT, isUnsigned: true },
    created_at: TEXT,
    seq: { ...INTEGER, changes: true },
    epoch: { ...INTEGER, changes: true },
    generation: { ...INTEGER, changes: true },
    pruned_seq: { ...INTEGER, changes: true },
    unswept: { ...INTEGER, changes: true },
    snapshots: { ...INTEGER, changes: true, isUnsigned: true },
    writes: { ...INTEGER, changes: true, isUnsigned: true },
    turns: { ...INTEGER, changes: true, isUnsigned: true },
    effects: { ...INTEGER, changes: true, isUnsigned: true },
    /** Tasks, names and rewinds. */
    others: { ...INTEGER, changes: true, isUnsigned: true },
    arrived: MAYBE_TEXT,
    moved_to: MAYBE_TEXT,
    gone: FLAG,
    checksum: CHECKSUM,
  },
} as const satisfies Table;

export const TOMBSTONES = {
  name: "langgraph_tombstones",
  called: "deletions",
  key: ["thread_id"],
  columns: { thread_id: TEXT, tag: TEXT, deleted_at: INTEGER, final: FLAG, checksum: CHECKSUM },
  damaged: (_, threadId) => [`the deletion of thread ${JSON.stringify(threadId)}`, { threadId }],
} as const satisfies Table;

export const TASKS = {
  name: "langgraph_tasks",
  called: "tasks",
  key: ["thread", "seq"],
  ofThread: { column: "thread" },
  counted: "others",
  rewound: "counted",
  columns: {
    thread: OWNER,
    /** The first seq of the interval. */
    seq: { ...INTEGER, seqOf: "tasks" },
    task_id: { ...TEXT, changes: true },
    graph_id: TEXT,
    kind: { ...TEXT, values: ["run", "update"] },
    created_at: TEXT,
    /**
     * The tokens of the interval's turns that were pruned: a JSON list of [path of the node, input, output, cached, reasoning].
     */
    pruned_tokens: { ...MAYBE_TEXT, changes: true },
    checksum: CHECKSUM,
  },
  damaged: ({ seq }, threadId) => [`the task at ${seq} of thread ${threadId}`, { threadId, seq }],
} as const satisfies Table;

export const SNAPSHOTS = {
  name: "langgraph_snapshots",
  called: "checkpoints",
  key: ["seq"],
  versionsOf: ["thread", "checkpoint_ns", "checkpoint_id"],
  ofThread: { range: "seq" },
  byThread: "langgraph_snapshots_by_thread",
  counted: "snapshots",
  rewound: "counted",
  columns: {
    seq: { ...INTEGER, seqOf: "checkpoints" },
    thread: OWNER,
    checkpoint_ns: NS,
    checkpoint_id: TEXT,
    /** The seq of its first version. It orders a thread's checkpoints and tells the newest one. */
    position: { ...INTEGER, seqOf: "checkpoints" },
    superseded_by: { ...MAYBE_INTEGER, seqOf: "checkpoints", isUnsigned: true },
    parent_checkpoint_id: { ...MAYBE_TEXT, as: "parentId" },
    source: TEXT,
    step: INTEGER,
    run_id: MAYBE_TEXT,
    created_at: INTEGER,
    delta: MAYBE_TEXT,
    body: TEXT,
    channels: { ...TEXT, refers: "manifest" },
    metadata: {
      type: "any",
      sealed: { form: "bytes", kind: "metadata", by: ["checkpoint_ns", "checkpoint_id", "seq"] },
    },
    checksum: CHECKSUM,
  },
  damaged: ({ checkpoint_id: checkpointId, checkpoint_ns: ns }, threadId) => [
    `checkpoint ${checkpointId} of thread ${threadId}`,
    { threadId, ns, checkpointId },
  ],
} as const satisfies Table;

/** The address of a chunk is its checksum. */
export const CHUNKS = {
  name: "langgraph_chunks",
  called: "values",
  key: ["seq"],
  ofThread: { range: "seq" },
  byThread: "langgraph_chunks_by_address",
  rewound: "counted",
  columns: {
    seq: { ...INTEGER, seqOf: "values" },
    thread: OWNER,
    address: TEXT,
    body: { type: "any", sealed: { form: "bytes", kind: "chunk", by: [] }, refers: "text" },
  },
} as const satisfies Table;

export const LISTS = {
  name: "langgraph_lists",
  called: "lists",
  key: ["seq"],
  ofThread: { range: "seq" },
  rewound: "uncounted",
  columns: {
    seq: { ...INTEGER, seqOf: "lists" },
    thread: OWNER,
    base: { ...MAYBE_INTEGER, seqOf: "lists" },
    keep: INTEGER,
  },
} as const satisfies Table;

export const ITEMS = {
  name: "langgraph_items",
  called: "items",
  key: ["list", "pos"],
  ofThread: { range: "list" },
  rewound: "uncounted",
  columns: {
    list: { ...INTEGER, seqOf: "lists" },
    pos: INTEGER,
    seq: { ...INTEGER, seqOf: "items" },
    chunk: { ...INTEGER, seqOf: "values" },
  },
} as const satisfies Table;

export const WRITES = {
  name: "langgraph_writes",
  called: "writes",
  key: ["seq"],
  versionsOf: ["thread", "checkpoint_ns", "checkpoint_id", "node_task_id", "idx"],
  ofThread: { range: "seq" },
  byThread: "langgraph_writes_by_checkpoint",
  counted: "writes",
  rewound: "counted",
  columns: {
    seq: { ...INTEGER, seqOf: "writes" },
    thread: OWNER,
    checkpoint_ns: NS,
    checkpoint_id: TEXT,
    node_task_id: TEXT,
    task_path: TEXT,
    idx: INTEGER,
    superseded_by: { ...MAYBE_INTEGER, seqOf: "writes", isUnsigned: true },
    entries: {
      type: "any",
      sealed: { form: "bytes", kind: "writes", by: ["checkpoint_ns", "checkpoint_id", "node_task_id", "idx", "seq"] },
      refers: "text",
    },
    checksum: CHECKSUM,
  },
  damaged: ({ checkpoint_ns: ns, checkpoint_id: checkpointId, node_task_id: nodeTaskId }, threadId) => [
    `pending writes on checkpoint ${checkpointId}`,
    { threadId, ns, checkpointId, nodeTaskId },
  ],
} as const satisfies Table;

/** The first seven columns are the table of requirement S1. Rows without a thread are CheckpointPersister's. */
export const TURNS = {
  name: "langgraph_checkpoints",
  called: "turns",
  key: ["id"],
  ofThread: { column: "thread" },
  byThread: "langgraph_checkpoints_by_thread",
  counted: "turns",
  rewound: "counted",
  columns: {
    id: TEXT,
    graph_id: TEXT,
    node_name: TEXT,
    turn_type: { ...TEXT, values: ["Thought", "Action"] },
    serialized_state: { ...TEXT, sealed: { form: "text", kind: "turn", by: ["id"] }, refers: "text" },
    task_id: { ...TEXT, changes: true },
    created_at: TEXT,
    seq: { ...MAYBE_INTEGER, seqOf: "turns" },
    /** `none`: the row holds no content, because of the saver's options. */
    state_format: { ...TEXT, values: ["state", "checkpoint", "update", "none"] },
    thread: { ...OWNER, nullable: true, as: "threadId" },
    checkpoint_ns: { ...NS, nullable: true },
    checkpoint_id: MAYBE_TEXT,
    /** Absent if it is the usual one. */
    node_ns: MAYBE_TEXT,
    node_task_id: MAYBE_TEXT,
    run_id: MAYBE_TEXT,
    step: MAYBE_INTEGER,
    attempt: MAYBE_INTEGER,
    status: { ...MAYBE_TEXT, values: ["ok", "error", "interrupted", "handoff"], changes: true },
    durable: { ...FLAG, changes: true },
    input_tokens: { ...INTEGER, changes: true },
    output_tokens: { ...INTEGER, changes: true },
    cached_tokens: { ...INTEGER, changes: true },
    reasoning_tokens: { ...INTEGER, changes: true },
    /** What is known of the graph that it ran in. */
    graph: { ...MAYBE_INTEGER, seqOf: "graphs", changes: true },
    /** The fingerprint of its node in that graph. */
    fingerprint: { ...MAYBE_TEXT, changes: true },
    /** The verdict of a confidence gate, JSON. */
    validation: { ...MAYBE_TEXT, changes: true },
    checksum: { ...CHECKSUM, nullable: true },
  },
  damaged: ({ id, graph_id: graphId }) => [`turn ${id} of graph ${graphId}`, { id, graphId }],
} as const satisfies Table;

/** The digest of a graph is its checksum. */
export const GRAPHS = {
  name: "langgraph_graphs",
  called: "graphs",
  key: ["seq"],
  ofThread: { range: "seq" },
  byThread: "langgraph_graphs_by_digest",
  rewound: "uncounted",
  columns: { seq: { ...INTEGER, seqOf: "graphs" }, thread: OWNER, digest: TEXT, document: TEXT },
} as const satisfies Table;

/** The journal of side effects. The migration explains the columns in detail. */
export const EFFECTS = {
  name: "langgraph_effects",
  called: "effects",
  key: ["seq"],
  id: ["id"],
  ofThread: { range: "seq" },
  byThread: "langgraph_effects_by_label",
  counted: "effects",
  rewound: "counted",
  columns: {
    seq: { ...INTEGER, seqOf: "effects" },
    thread: { ...OWNER, as: "threadId" },
    id: TEXT,
    /** The thread's rewind epoch when it began: node task ids repeat after a rewind. */
    epoch: INTEGER,
    task_id: TEXT,
    node_name: TEXT,
    node_ns: TEXT,
    node_task_id: TEXT,
    /** The node's namespace without task ids. */
    path: TEXT,
    /** Its place in the course of its graphs. */
    spot: TEXT,
    /** The root checkpoint that its node tasks belong to. */
    anchor: MAYBE_TEXT,
    /** The anchor's thread, if it is another one. */
    anchor_thread: MAYBE_TEXT,
    /** The root node task and the attempts around it. */
    run: TEXT,
    /**
     * Set while neither a checkpoint that the effect ran under nor a later one of its graph is saved: the outermost graph run.
     * Durability "exit" saves them when the run stops. A crash then loses everything that the run did. If the run had continued
     * from a checkpoint, it loses what the graphs inside it did since.
     */
    unsaved_run: MAYBE_TEXT,
    name: TEXT,
    /** Distinguishes effects of one name in a node task. */
    label: TEXT,
    /** The key by which an outside system can recognise a repetition. */
    effect_key: { ...TEXT, as: "key" },
    idempotent: FLAG,
    /** The name of its undo; empty if it needs none; undefined if that wasn't said. */
    undo: MAYBE_TEXT,
    input_digest: MAYBE_TEXT,
    /** `intent`: started, outcome unknown. `failed` may run again, `final` failed for good. */
    status: { ...TEXT, values: ["intent", "done", "failed", "final"] },
    tries: INTEGER,
    /**
     * Reserved by a retry of an effect in doubt: the effect gets this seq once that retry is known to have done it. Until then
     * its row stays where the first try was, which may have done it too.
     */
    tried_seq: { ...MAYBE_INTEGER, seqOf: "effects" },
    process: TEXT,
    started_at: TEXT,
    ended_at: MAYBE_TEXT,
    /** The source of the outcome, if not the effect's own function. */
    settled_by: MAYBE_TEXT,
    undo_status: { ...MAYBE_TEXT, values: ["begun", "done", "failed"] },
    undone_at: MAYBE_TEXT,
    /** In a copied thread: the side effect belongs to the source, and so does its undo. */
    inherited: FLAG,
    content: { type: "any", sealed: { form: "bytes", kind: "effect", by: ["id"] }, refers: "texts" },
    checksum: CHECKSUM,
  },
  damaged: ({ name, id }, threadId) => [`effect ${JSON.stringify(name)} (${id})`, { threadId, effectId: id }],
} as const satisfies Table;

export const NAMES = {
  name: "langgraph_names",
  called: "names",
  key: ["thread", "name"],
  ofThread: { column: "thread" },
  counted: "others",
  columns: { thread: OWNER, name: TEXT, checkpoint_ns: NS, checkpoint_id: TEXT, created_at: TEXT, checksum: CHECKSUM },
  damaged: (_, threadId) => [`a name of a checkpoint of thread ${threadId}`, { threadId }],
} as const satisfies Table;

export const RUNS = {
  name: "langgraph_runs",
  called: "runs",
  key: ["run_id"],
  ofThread: { column: "thread_id" },
  columns: {
    run_id: TEXT,
    thread_id: TEXT,
    host: TEXT,
    boot: TEXT,
    pid: INTEGER,
    pid_start: TEXT,
    started_at: TEXT,
    beat_at: INTEGER,
  },
} as const satisfies Table;

export const REWINDS = {
  name: "langgraph_rewinds",
  called: "rewinds",
  key: ["id"],
  ofThread: { column: "thread_id" },
  counted: "others",
  columns: {
    id: TEXT,
    thread_id: TEXT,
    target_task_id: TEXT,
    target_seq: { ...INTEGER, seqOf: "checkpoints" },
    seq: { ...INTEGER, seqOf: "rewinds" },
    archived: FLAG,
    created_at: TEXT,
    taken_back_at: MAYBE_TEXT,
    status: { ...TEXT, values: ["undoing", "done", "abandoned"] },
    reason: MAYBE_TEXT,
    /** How many rows went into its archive. */
    entries: INTEGER,
    checksum: CHECKSUM,
  },
  damaged: ({ id }, threadId) => [`rewind ${id} of thread ${threadId}`, { threadId, rewindId: id }],
} as const satisfies Table;

export const ARCHIVE = {
  name: "langgraph_archive",
  called: "archived",
  key: ["rewind_id", "ordinal"],
  ofThread: { column: "thread_id" },
  columns: {
    rewind_id: TEXT,
    thread_id: TEXT,
    ordinal: INTEGER,
    tbl: TEXT,
    change: { ...TEXT, values: ["deleted", "revived"] },
    row: TEXT,
    checksum: CHECKSUM,
  },
  damaged: ({ rewind_id: rewindId, ordinal }, threadId) => [
    `row ${ordinal} of the archive of rewind ${rewindId}`,
    { threadId, rewindId, ordinal },
  ],
} as const satisfies Table;

export const LEFTOVERS = {
  name: "langgraph_leftovers",
  called: "leftovers",
  key: ["thread", "rewind_id"],
  columns: { thread: INTEGER, rewind_id: TEXT, run_id: TEXT },
} as const satisfies Table;

/** All tables with rows under a thread's number. Effects come first: a thread is removed in this order. */
export const THREAD_TABLES = [EFFECTS, TURNS, TASKS, NAMES, GRAPHS, SNAPSHOTS, WRITES, ITEMS, LISTS, CHUNKS] as const;
export const ALL_TABLES: readonly Table[] = [
  ...[SETTINGS, THREADS, TOMBSTONES, ...THREAD_TABLES],
  ...[RUNS, REWINDS, ARCHIVE, LEFTOVERS],
];
export const KEYED_BY_SEQ = THREAD_TABLES.filter(({ key }) => key.length === 1 && key[0] === "seq");
/** Tables that a rewind deletes from. */
export const REWOUND: readonly Table[] = THREAD_TABLES.filter((table) => "rewound" in table);
/** The tables of {@link REWOUND} that the report counts. */
export const REWOUND_AND_COUNTED = THREAD_TABLES.filter((table) => "rewound" in table && table.rewound === "counted");
/** Tables with versions: a newer version marks the older one as superseded. */
export const VERSIONED = [SNAPSHOTS, WRITES] as const;

/** SQL: the rows of a thread. Its number is bound as `?1`, and its id as `?2` for tables that know only the id. */
export function rowsOfThread({ ofThread: by, name }: Table): string {
  if (by === undefined) throw new Error(`${name} has no rows of a thread`);
  return "range" in by ? ofThread(by.range) : `${by.column} = ${by.column === "thread_id" ? "?2" : "?1"}`;
}

type Camel<S extends string> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : S;
export type FieldOf<K, C> = C extends { role: "checksum" }
  ? never
  : C extends { as: infer A extends string }
    ? A
    : C extends { role: "owner" }
      ? never
      : K extends string
        ? Camel<K>
        : never;
type StoredIn<C> = C extends { values: readonly (infer V)[] }
  ? V
  : C extends { type: "integer" }
    ? number
    : C extends { type: "text" }
      ? string
      : string | Uint8Array;
type ValueIn<C> = C extends { isFlag: true } ? boolean : C extends { role: "owner" } | { sealed: object } ? string : StoredIn<C>;

/** A row as the database returns it. */
export type RawOf<T extends Table> = {
  -readonly [K in keyof T["columns"]]: StoredIn<T["columns"][K]> | (T["columns"][K] extends { nullable: true } ? null : never);
};
/** A row as the program uses it: opened, flags as booleans, fields in camel case. */
export type RowOf<T extends Table> = {
  -readonly [K in keyof T["columns"] as FieldOf<K, T["columns"][K]>]:
    ValueIn<T["columns"][K]> | (T["columns"][K] extends { nullable: true } ? undefined : never);
};

/** The part of a row that is updated in place. */
export type ChangesOf<T extends Table> = Pick<
  RowOf<T>,
  keyof RowOf<T> &
    {
      [K in keyof T["columns"]]: T["columns"][K] extends { changes: true } ? FieldOf<K, T["columns"][K]> : never;
    }[keyof T["columns"]]
>;

/** The field of a row object that holds a column; undefined if none does. */
export function fieldOf(name: string, { as, role }: Column): string | undefined {
  return as ?? (role === undefined ? name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()) : undefined);
}
