// Generated from migrations/postgres/*.sql by `npm run migrations:embed`. Do not edit: change the SQL files instead.

export const postgresMigrations: readonly { version: number; name: string; sql: string }[] = [
  {
    version: 1,
    name: "turns_and_checkpoints",
    sql: `CREATE SEQUENCE :"schema".langgraph_thread_numbers MAXVALUE 134217726;
CREATE TABLE :"schema".langgraph_settings (
  name  text COLLATE "C" PRIMARY KEY,
  value text COLLATE "C" NOT NULL
);
CREATE TABLE :"schema".langgraph_threads (
  thread     bigint PRIMARY KEY,
  thread_id  text COLLATE "C" NOT NULL UNIQUE,
  tag        text COLLATE "C" NOT NULL UNIQUE,
  created_at text COLLATE "C" NOT NULL,
  seq        bigint NOT NULL,
  epoch      bigint NOT NULL,
  generation bigint NOT NULL,
  pruned_seq bigint NOT NULL,
  unswept    bigint NOT NULL,
  snapshots  bigint NOT NULL,
  writes     bigint NOT NULL,
  turns      bigint NOT NULL,
  effects    bigint NOT NULL,
  others     bigint NOT NULL,
  arrived    text COLLATE "C",
  moved_to   text COLLATE "C",
  gone       bigint NOT NULL DEFAULT 0 CHECK (gone IN (0, 1)),
  checksum   text COLLATE "C" NOT NULL
);
CREATE TABLE :"schema".langgraph_tombstones (
  thread_id  text COLLATE "C" PRIMARY KEY,
  tag        text COLLATE "C" NOT NULL UNIQUE,
  deleted_at bigint NOT NULL,
  final      bigint NOT NULL CHECK (final IN (0, 1)),
  checksum   text COLLATE "C" NOT NULL
);
CREATE TABLE :"schema".langgraph_tasks (
  thread     bigint NOT NULL,
  seq        bigint NOT NULL,
  task_id    text COLLATE "C" NOT NULL,
  graph_id   text COLLATE "C" NOT NULL,
  kind       text COLLATE "C" NOT NULL CHECK (kind IN ('run', 'update')),
  created_at text COLLATE "C" NOT NULL,
  pruned_tokens text COLLATE "C",
  checksum   text COLLATE "C" NOT NULL,
  PRIMARY KEY (thread, seq)
);
CREATE TABLE :"schema".langgraph_snapshots (
  seq                  bigint PRIMARY KEY,
  thread               bigint NOT NULL,
  checkpoint_ns        text COLLATE "C" NOT NULL,
  checkpoint_id        text COLLATE "C" NOT NULL,
  position             bigint NOT NULL,
  superseded_by        bigint,
  parent_checkpoint_id text COLLATE "C",
  source               text COLLATE "C" NOT NULL,
  step                 bigint NOT NULL,
  run_id               text COLLATE "C",
  created_at           bigint NOT NULL,
  delta                text COLLATE "C",
  body                 text COLLATE "C" NOT NULL,
  channels             text COLLATE "C" NOT NULL,
  metadata             text COLLATE "C" NOT NULL,
  checksum             text COLLATE "C" NOT NULL
);
CREATE INDEX langgraph_snapshots_by_thread ON :"schema".langgraph_snapshots (thread, checkpoint_ns, checkpoint_id);
CREATE INDEX langgraph_snapshots_by_position ON :"schema".langgraph_snapshots (thread, checkpoint_ns, position);
CREATE INDEX langgraph_snapshots_by_run ON :"schema".langgraph_snapshots (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE :"schema".langgraph_chunks (
  seq     bigint PRIMARY KEY,
  thread  bigint NOT NULL,
  address text COLLATE "C" NOT NULL,
  body    text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX langgraph_chunks_by_address ON :"schema".langgraph_chunks (thread, address);
CREATE TABLE :"schema".langgraph_lists (
  seq    bigint PRIMARY KEY,
  thread bigint NOT NULL,
  base   bigint,
  keep   bigint NOT NULL
);
CREATE TABLE :"schema".langgraph_items (
  list   bigint NOT NULL,
  pos    bigint NOT NULL,
  seq    bigint NOT NULL,
  chunk  bigint NOT NULL,
  PRIMARY KEY (list, pos)
);
CREATE TABLE :"schema".langgraph_writes (
  seq           bigint PRIMARY KEY,
  thread        bigint NOT NULL,
  checkpoint_ns text COLLATE "C" NOT NULL,
  checkpoint_id text COLLATE "C" NOT NULL,
  node_task_id  text COLLATE "C" NOT NULL,
  task_path     text COLLATE "C" NOT NULL DEFAULT '',
  idx           bigint NOT NULL,
  superseded_by bigint,
  entries       text COLLATE "C" NOT NULL,
  checksum      text COLLATE "C" NOT NULL
);
CREATE INDEX langgraph_writes_by_checkpoint ON :"schema".langgraph_writes (thread, checkpoint_ns, checkpoint_id);
CREATE TABLE :"schema".langgraph_checkpoints (
  id               text COLLATE "C" PRIMARY KEY,
  graph_id         text COLLATE "C" NOT NULL,
  node_name        text COLLATE "C" NOT NULL,
  turn_type        text COLLATE "C" NOT NULL CHECK(turn_type IN ('Thought','Action')),
  serialized_state text COLLATE "C" NOT NULL,
  task_id          text COLLATE "C" NOT NULL,
  created_at       text COLLATE "C" NOT NULL,
  seq              bigint,
  state_format     text COLLATE "C" NOT NULL DEFAULT 'state' CHECK (state_format IN ('state', 'checkpoint', 'update', 'none')),
  thread           bigint,
  checkpoint_ns    text COLLATE "C",
  checkpoint_id    text COLLATE "C",
  node_ns          text COLLATE "C",
  node_task_id     text COLLATE "C",
  run_id           text COLLATE "C",
  step             bigint,
  attempt          bigint,
  status           text COLLATE "C" CHECK (status IN ('ok', 'error', 'interrupted', 'handoff')),
  durable          bigint NOT NULL DEFAULT 0 CHECK (durable IN (0, 1)),
  input_tokens     bigint NOT NULL DEFAULT 0,
  output_tokens    bigint NOT NULL DEFAULT 0,
  cached_tokens    bigint NOT NULL DEFAULT 0,
  reasoning_tokens bigint NOT NULL DEFAULT 0,
  graph            bigint,
  fingerprint      text COLLATE "C",
  validation       text COLLATE "C",
  checksum         text COLLATE "C",
  rowid            bigint GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX langgraph_checkpoints_by_graph ON :"schema".langgraph_checkpoints (graph_id, rowid) WHERE thread IS NULL;
CREATE INDEX langgraph_checkpoints_by_task ON :"schema".langgraph_checkpoints (task_id) WHERE thread IS NULL;
CREATE INDEX langgraph_checkpoints_by_thread ON :"schema".langgraph_checkpoints (thread, seq) WHERE thread IS NOT NULL;
CREATE INDEX langgraph_checkpoints_by_node_task ON :"schema".langgraph_checkpoints (thread, node_task_id) WHERE thread IS NOT NULL;
CREATE TABLE :"schema".langgraph_graphs (
  seq      bigint PRIMARY KEY,
  thread   bigint NOT NULL,
  digest   text COLLATE "C" NOT NULL,
  document text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX langgraph_graphs_by_digest ON :"schema".langgraph_graphs (thread, digest);
CREATE TABLE :"schema".langgraph_effects (
  seq          bigint PRIMARY KEY,
  thread       bigint NOT NULL,
  id           text COLLATE "C" NOT NULL,
  epoch        bigint NOT NULL,
  task_id      text COLLATE "C" NOT NULL,
  node_name    text COLLATE "C" NOT NULL,
  node_ns      text COLLATE "C" NOT NULL,
  node_task_id text COLLATE "C" NOT NULL,
  path         text COLLATE "C" NOT NULL,
  spot         text COLLATE "C" NOT NULL,
  anchor       text COLLATE "C",
  anchor_thread text COLLATE "C",
  run          text COLLATE "C" NOT NULL,
  unsaved_run  text COLLATE "C",
  name         text COLLATE "C" NOT NULL,
  label        text COLLATE "C" NOT NULL,
  effect_key   text COLLATE "C" NOT NULL,
  idempotent   bigint NOT NULL CHECK (idempotent IN (0, 1)),
  undo         text COLLATE "C",
  input_digest text COLLATE "C",
  status       text COLLATE "C" NOT NULL CHECK (status IN ('intent', 'done', 'failed', 'final')),
  tries        bigint NOT NULL,
  tried_seq    bigint,
  process      text COLLATE "C" NOT NULL,
  started_at   text COLLATE "C" NOT NULL,
  ended_at     text COLLATE "C",
  settled_by   text COLLATE "C",
  undo_status  text COLLATE "C" CHECK (undo_status IN ('begun', 'done', 'failed')),
  undone_at    text COLLATE "C",
  inherited    bigint NOT NULL DEFAULT 0 CHECK (inherited IN (0, 1)),
  content      text COLLATE "C" NOT NULL,
  checksum     text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX langgraph_effects_by_id ON :"schema".langgraph_effects (id);
CREATE INDEX langgraph_effects_by_label ON :"schema".langgraph_effects (thread, node_task_id, name, label);
CREATE INDEX langgraph_effects_by_input ON :"schema".langgraph_effects (thread, node_task_id, input_digest) WHERE input_digest IS NOT NULL;
CREATE INDEX langgraph_effects_by_run ON :"schema".langgraph_effects (thread, run);
CREATE INDEX langgraph_effects_by_anchor ON :"schema".langgraph_effects (thread, anchor);
CREATE INDEX langgraph_effects_unsaved ON :"schema".langgraph_effects (unsaved_run) WHERE unsaved_run IS NOT NULL;
CREATE TABLE :"schema".langgraph_names (
  thread        bigint NOT NULL,
  name          text COLLATE "C" NOT NULL,
  checkpoint_ns text COLLATE "C" NOT NULL,
  checkpoint_id text COLLATE "C" NOT NULL,
  created_at    text COLLATE "C" NOT NULL,
  checksum      text COLLATE "C" NOT NULL,
  PRIMARY KEY (thread, name)
);
CREATE TABLE :"schema".langgraph_runs (
  run_id     text COLLATE "C" PRIMARY KEY,
  thread_id  text COLLATE "C" NOT NULL,
  host       text COLLATE "C" NOT NULL,
  boot       text COLLATE "C" NOT NULL,
  pid        bigint NOT NULL,
  pid_start  text COLLATE "C" NOT NULL,
  started_at text COLLATE "C" NOT NULL,
  beat_at    bigint NOT NULL
);
CREATE INDEX langgraph_runs_by_thread ON :"schema".langgraph_runs (thread_id);
CREATE TABLE :"schema".langgraph_recoveries (
  thread   bigint PRIMARY KEY,
  tries    bigint NOT NULL,
  progress text COLLATE "C" NOT NULL,
  tried_at bigint NOT NULL,
  wait_ms  bigint NOT NULL,
  given_up bigint NOT NULL CHECK (given_up IN (0, 1)),
  failure  text COLLATE "C" NOT NULL,
  checksum text COLLATE "C" NOT NULL
);
CREATE TABLE :"schema".langgraph_rewinds (
  id             text COLLATE "C" PRIMARY KEY,
  thread_id      text COLLATE "C" NOT NULL,
  target_task_id text COLLATE "C" NOT NULL,
  target_seq     bigint NOT NULL,
  seq            bigint NOT NULL,
  archived       bigint NOT NULL CHECK (archived IN (0, 1)),
  created_at     text COLLATE "C" NOT NULL,
  taken_back_at  text COLLATE "C",
  status         text COLLATE "C" NOT NULL CHECK (status IN ('undoing', 'done', 'abandoned')),
  reason         text COLLATE "C",
  entries        bigint NOT NULL,
  checksum       text COLLATE "C" NOT NULL
);
CREATE INDEX langgraph_rewinds_by_thread ON :"schema".langgraph_rewinds (thread_id, seq);
CREATE TABLE :"schema".langgraph_archive (
  rewind_id text COLLATE "C" NOT NULL,
  thread_id text COLLATE "C" NOT NULL,
  ordinal   bigint NOT NULL,
  tbl       text COLLATE "C" NOT NULL,
  change    text COLLATE "C" NOT NULL CHECK (change IN ('deleted', 'revived')),
  row       text COLLATE "C" NOT NULL,
  checksum  text COLLATE "C" NOT NULL,
  PRIMARY KEY (rewind_id, ordinal)
);
CREATE INDEX langgraph_archive_by_thread ON :"schema".langgraph_archive (thread_id);
CREATE TABLE :"schema".langgraph_leftovers (
  thread    bigint NOT NULL,
  rewind_id text COLLATE "C" NOT NULL,
  run_id    text COLLATE "C" NOT NULL,
  PRIMARY KEY (thread, rewind_id)
);
CREATE TABLE :"schema".langgraph_commits (
  number  bigint PRIMARY KEY,
  done    bigint NOT NULL CHECK (done IN (0, 1)),
  made_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
ALTER TABLE :"schema".langgraph_threads SET (fillfactor = 50);
ALTER TABLE :"schema".langgraph_runs SET (fillfactor = 50);
ALTER TABLE :"schema".langgraph_effects SET (fillfactor = 70);
ALTER TABLE :"schema".langgraph_threads SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_snapshots SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_chunks SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_items SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_writes SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_checkpoints SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
DO $$ BEGIN
  ALTER TABLE :"schema".langgraph_chunks ALTER COLUMN body SET COMPRESSION lz4;
  ALTER TABLE :"schema".langgraph_snapshots ALTER COLUMN channels SET COMPRESSION lz4;
  ALTER TABLE :"schema".langgraph_writes ALTER COLUMN entries SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR syntax_error THEN NULL;
END $$;
`,
  },
];
