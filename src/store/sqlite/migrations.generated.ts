// Generated from migrations/sqlite/*.sql by `npm run migrations:embed`. Do not edit: change the SQL files instead.

export const sqliteMigrations: readonly { version: number; name: string; sql: string }[] = [
  {
    version: 1,
    name: "turns_and_checkpoints",
    sql: `CREATE TABLE langgraph_settings (
  name  TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO langgraph_settings (name, value) VALUES ('threads', 0);
CREATE TABLE langgraph_threads (
  thread     INTEGER PRIMARY KEY,
  thread_id  TEXT NOT NULL UNIQUE,
  tag        TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  pruned_seq INTEGER NOT NULL,
  unswept    INTEGER NOT NULL,
  snapshots  INTEGER NOT NULL,
  writes     INTEGER NOT NULL,
  turns      INTEGER NOT NULL,
  effects    INTEGER NOT NULL,
  others     INTEGER NOT NULL,
  arrived    TEXT,
  moved_to   TEXT,
  gone       INTEGER NOT NULL DEFAULT 0 CHECK (gone IN (0, 1)),
  checksum   TEXT NOT NULL
) STRICT;
CREATE TABLE langgraph_tombstones (
  thread_id  TEXT PRIMARY KEY,
  tag        TEXT NOT NULL UNIQUE,
  deleted_at INTEGER NOT NULL,
  final      INTEGER NOT NULL CHECK (final IN (0, 1)),
  checksum   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE langgraph_tasks (
  thread     INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  task_id    TEXT NOT NULL,
  graph_id   TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('run', 'update')),
  created_at TEXT NOT NULL,
  pruned_tokens TEXT,
  checksum   TEXT NOT NULL,
  PRIMARY KEY (thread, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE langgraph_snapshots (
  seq                  INTEGER PRIMARY KEY,
  thread               INTEGER NOT NULL,
  checkpoint_ns        TEXT NOT NULL,
  checkpoint_id        TEXT NOT NULL,
  position             INTEGER NOT NULL,
  superseded_by        INTEGER,
  parent_checkpoint_id TEXT,
  source               TEXT NOT NULL,
  step                 INTEGER NOT NULL,
  run_id               TEXT,
  created_at           INTEGER NOT NULL,
  delta                TEXT,
  body                 TEXT NOT NULL,
  channels             TEXT NOT NULL,
  metadata             ANY NOT NULL,
  checksum             TEXT NOT NULL
) STRICT;
CREATE INDEX langgraph_snapshots_by_thread ON langgraph_snapshots (thread, checkpoint_ns, checkpoint_id);
CREATE INDEX langgraph_snapshots_by_position ON langgraph_snapshots (thread, checkpoint_ns, position);
CREATE INDEX langgraph_snapshots_by_run ON langgraph_snapshots (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE langgraph_chunks (
  seq     INTEGER PRIMARY KEY,
  thread  INTEGER NOT NULL,
  address TEXT NOT NULL,
  body    ANY NOT NULL
) STRICT;
CREATE UNIQUE INDEX langgraph_chunks_by_address ON langgraph_chunks (thread, address);
CREATE TABLE langgraph_lists (
  seq    INTEGER PRIMARY KEY,
  thread INTEGER NOT NULL,
  base   INTEGER,
  keep   INTEGER NOT NULL
) STRICT;
CREATE TABLE langgraph_items (
  list   INTEGER NOT NULL,
  pos    INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  chunk  INTEGER NOT NULL,
  PRIMARY KEY (list, pos)
) STRICT, WITHOUT ROWID;
CREATE TABLE langgraph_writes (
  seq           INTEGER PRIMARY KEY,
  thread        INTEGER NOT NULL,
  checkpoint_ns TEXT NOT NULL,
  checkpoint_id TEXT NOT NULL,
  node_task_id  TEXT NOT NULL,
  task_path     TEXT NOT NULL DEFAULT '',
  idx           INTEGER NOT NULL,
  superseded_by INTEGER,
  entries       ANY NOT NULL,
  checksum      TEXT NOT NULL
) STRICT;
CREATE INDEX langgraph_writes_by_checkpoint ON langgraph_writes (thread, checkpoint_ns, checkpoint_id);
CREATE TABLE langgraph_checkpoints (
  id               TEXT PRIMARY KEY,
  graph_id         TEXT NOT NULL,
  node_name        TEXT NOT NULL,
  turn_type        TEXT NOT NULL CHECK(turn_type IN ('Thought','Action')),
  serialized_state TEXT NOT NULL,
  task_id          TEXT NOT NULL,
  created_at       TEXT NOT NULL,
  seq              INTEGER,
  state_format     TEXT NOT NULL DEFAULT 'state' CHECK (state_format IN ('state', 'checkpoint', 'update', 'none')),
  thread           INTEGER,
  checkpoint_ns    TEXT,
  checkpoint_id    TEXT,
  node_ns          TEXT,
  node_task_id     TEXT,
  run_id           TEXT,
  step             INTEGER,
  attempt          INTEGER,
  status           TEXT CHECK (status IN ('ok', 'error', 'interrupted', 'handoff')),
  durable          INTEGER NOT NULL DEFAULT 0 CHECK (durable IN (0, 1)),
  input_tokens     INTEGER NOT NULL DEFAULT 0,
  output_tokens    INTEGER NOT NULL DEFAULT 0,
  cached_tokens    INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  graph            INTEGER,
  fingerprint      TEXT,
  validation       TEXT,
  checksum         TEXT
) STRICT;
CREATE INDEX langgraph_checkpoints_by_graph ON langgraph_checkpoints (graph_id) WHERE thread IS NULL;
CREATE INDEX langgraph_checkpoints_by_task ON langgraph_checkpoints (task_id) WHERE thread IS NULL;
CREATE INDEX langgraph_checkpoints_by_thread ON langgraph_checkpoints (thread, seq) WHERE thread IS NOT NULL;
CREATE INDEX langgraph_checkpoints_by_node_task ON langgraph_checkpoints (thread, node_task_id) WHERE thread IS NOT NULL;
CREATE TABLE langgraph_graphs (
  seq      INTEGER PRIMARY KEY,
  thread   INTEGER NOT NULL,
  digest   TEXT NOT NULL,
  document TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX langgraph_graphs_by_digest ON langgraph_graphs (thread, digest);
CREATE TABLE langgraph_effects (
  seq          INTEGER PRIMARY KEY,
  thread       INTEGER NOT NULL,
  id           TEXT NOT NULL,
  epoch        INTEGER NOT NULL,
  task_id      TEXT NOT NULL,
  node_name    TEXT NOT NULL,
  node_ns      TEXT NOT NULL,
  node_task_id TEXT NOT NULL,
  path         TEXT NOT NULL,
  spot         TEXT NOT NULL,
  anchor       TEXT,
  anchor_thread TEXT,
  run          TEXT NOT NULL,
  unsaved_run  TEXT,
  name         TEXT NOT NULL,
  label        TEXT NOT NULL,
  effect_key   TEXT NOT NULL,
  idempotent   INTEGER NOT NULL CHECK (idempotent IN (0, 1)),
  undo         TEXT,
  input_digest TEXT,
  status       TEXT NOT NULL CHECK (status IN ('intent', 'done', 'failed', 'final')),
  tries        INTEGER NOT NULL,
  tried_seq    INTEGER,
  process      TEXT NOT NULL,
  started_at   TEXT NOT NULL,
  ended_at     TEXT,
  settled_by   TEXT,
  undo_status  TEXT CHECK (undo_status IN ('begun', 'done', 'failed')),
  undone_at    TEXT,
  inherited    INTEGER NOT NULL DEFAULT 0 CHECK (inherited IN (0, 1)),
  content      ANY NOT NULL,
  checksum     TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX langgraph_effects_by_id ON langgraph_effects (id);
CREATE INDEX langgraph_effects_by_label ON langgraph_effects (thread, node_task_id, name, label);
CREATE INDEX langgraph_effects_by_input ON langgraph_effects (thread, node_task_id, input_digest) WHERE input_digest IS NOT NULL;
CREATE INDEX langgraph_effects_by_run ON langgraph_effects (thread, run);
CREATE INDEX langgraph_effects_by_anchor ON langgraph_effects (thread, anchor);
CREATE INDEX langgraph_effects_unsaved ON langgraph_effects (unsaved_run) WHERE unsaved_run IS NOT NULL;
CREATE TABLE langgraph_names (
  thread        INTEGER NOT NULL,
  name          TEXT NOT NULL,
  checkpoint_ns TEXT NOT NULL,
  checkpoint_id TEXT NOT NULL,
  created_at    TEXT NOT NULL,
  checksum      TEXT NOT NULL,
  PRIMARY KEY (thread, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE langgraph_runs (
  run_id     TEXT PRIMARY KEY,
  thread_id  TEXT NOT NULL,
  host       TEXT NOT NULL,
  boot       TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  pid_start  TEXT NOT NULL,
  started_at TEXT NOT NULL,
  beat_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX langgraph_runs_by_thread ON langgraph_runs (thread_id);
CREATE TABLE langgraph_recoveries (
  thread   INTEGER PRIMARY KEY,
  tries    INTEGER NOT NULL,
  progress TEXT NOT NULL,
  tried_at INTEGER NOT NULL,
  wait_ms  INTEGER NOT NULL,
  given_up INTEGER NOT NULL CHECK (given_up IN (0, 1)),
  failure  TEXT NOT NULL,
  checksum TEXT NOT NULL
) STRICT;
CREATE TABLE langgraph_rewinds (
  id             TEXT PRIMARY KEY,
  thread_id      TEXT NOT NULL,
  target_task_id TEXT NOT NULL,
  target_seq     INTEGER NOT NULL,
  seq            INTEGER NOT NULL,
  archived       INTEGER NOT NULL CHECK (archived IN (0, 1)),
  created_at     TEXT NOT NULL,
  taken_back_at  TEXT,
  status         TEXT NOT NULL CHECK (status IN ('undoing', 'done', 'abandoned')),
  reason         TEXT,
  entries        INTEGER NOT NULL,
  checksum       TEXT NOT NULL
) STRICT;
CREATE INDEX langgraph_rewinds_by_thread ON langgraph_rewinds (thread_id, seq);
CREATE TABLE langgraph_archive (
  rewind_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  ordinal   INTEGER NOT NULL,
  tbl       TEXT NOT NULL,
  change    TEXT NOT NULL CHECK (change IN ('deleted', 'revived')),
  row       TEXT NOT NULL,
  checksum  TEXT NOT NULL,
  PRIMARY KEY (rewind_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX langgraph_archive_by_thread ON langgraph_archive (thread_id);
CREATE TABLE langgraph_leftovers (
  thread    INTEGER NOT NULL,
  rewind_id TEXT NOT NULL,
  run_id    TEXT NOT NULL,
  PRIMARY KEY (thread, rewind_id)
) STRICT, WITHOUT ROWID;
`,
  },
];
