-- The whole layout in one picture
--
--   langgraph_sequence     one counter; every committed row takes its seq from it, so `seq` is the order of everything in this
--                          file and "rewind to s" means: what has a seq above s goes
--   langgraph_threads      a row per thread; `epoch` counts its rewinds
--   langgraph_tasks        which of the user's tasks owned the thread from which seq on (intervals, not per-row marks)
--   langgraph_snapshots    LangGraph's checkpoints: everything but the channel values, which `channels` points at by content hash
--   langgraph_values       channel values, once per thread and content; the SHA-256 address is their checksum
--   langgraph_writes       pending writes, by the checkpoint and node task they belong to
--   langgraph_checkpoints  the turns: a Thought before and an Action after each attempt of a node task
--   langgraph_runs         which process runs which thread just now
--   langgraph_rewinds      what was rewound, and in langgraph_archive the rows that went
--
-- Snapshots and writes are never overwritten: a newer row marks the older one `superseded_by` its own seq, because a rewind to a
-- point between the two must bring the older one back. Nothing references langgraph_snapshots by foreign key: with durability
-- "exit" LangGraph sends the writes of a checkpoint before the checkpoint.

CREATE TABLE langgraph_sequence (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  value INTEGER NOT NULL
) STRICT;
INSERT INTO langgraph_sequence (id, value) VALUES (1, 0);

CREATE TABLE langgraph_threads (
  thread_id  TEXT PRIMARY KEY,
  created_at TEXT NOT NULL,
  epoch      INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE langgraph_tasks (
  thread_id  TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  task_id    TEXT NOT NULL,
  graph_id   TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('run', 'update')),
  created_at TEXT NOT NULL,
  PRIMARY KEY (thread_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE langgraph_snapshots (
  thread_id            TEXT NOT NULL,
  checkpoint_ns        TEXT NOT NULL,
  checkpoint_id        TEXT NOT NULL,
  seq                  INTEGER NOT NULL,
  superseded_by        INTEGER,
  parent_checkpoint_id TEXT,
  source               TEXT NOT NULL,
  step                 INTEGER NOT NULL,
  run_id               TEXT,
  body                 TEXT NOT NULL,
  channels             TEXT NOT NULL,
  metadata             TEXT NOT NULL,
  checksum             TEXT NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, seq)
) STRICT;
CREATE INDEX langgraph_snapshots_by_seq ON langgraph_snapshots (thread_id, seq);
CREATE INDEX langgraph_snapshots_by_id ON langgraph_snapshots (checkpoint_id);
CREATE INDEX langgraph_snapshots_by_step ON langgraph_snapshots (thread_id, checkpoint_ns, step, seq);

CREATE TABLE langgraph_values (
  thread_id TEXT NOT NULL,
  hash      TEXT NOT NULL,
  seq       INTEGER NOT NULL,
  value     TEXT NOT NULL,
  PRIMARY KEY (thread_id, hash)
) STRICT;
CREATE INDEX langgraph_values_by_seq ON langgraph_values (thread_id, seq);

CREATE TABLE langgraph_writes (
  thread_id     TEXT NOT NULL,
  checkpoint_ns TEXT NOT NULL,
  checkpoint_id TEXT NOT NULL,
  node_task_id  TEXT NOT NULL,
  idx           INTEGER NOT NULL,
  seq           INTEGER NOT NULL,
  superseded_by INTEGER,
  channel       TEXT NOT NULL,
  value         TEXT NOT NULL,
  checksum      TEXT NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, node_task_id, idx, seq)
) STRICT;
CREATE INDEX langgraph_writes_by_seq ON langgraph_writes (thread_id, seq);

-- The first seven columns are the table of requirement S1 and stand alone: a row that has only these is a turn saved by
-- CheckpointPersister. The rest is what the recorder knows besides; `state_format` says what serialized_state holds:
--   'state'       the state itself
--   'checkpoint'  a reference to the checkpoint the node started from (and its input, where that is not the state)
--   'update'      what the node returned
CREATE TABLE langgraph_checkpoints (
  id               TEXT PRIMARY KEY,
  graph_id         TEXT NOT NULL,
  node_name        TEXT NOT NULL,
  turn_type        TEXT NOT NULL CHECK(turn_type IN ('Thought','Action')),
  serialized_state TEXT NOT NULL,
  task_id          TEXT NOT NULL,
  created_at       TEXT NOT NULL,
  seq              INTEGER,
  state_format     TEXT NOT NULL DEFAULT 'state' CHECK (state_format IN ('state', 'checkpoint', 'update')),
  thread_id        TEXT,
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
  checksum         TEXT
) STRICT;
CREATE INDEX langgraph_checkpoints_by_graph ON langgraph_checkpoints (graph_id);
CREATE INDEX langgraph_checkpoints_by_task ON langgraph_checkpoints (task_id);
CREATE INDEX langgraph_checkpoints_by_thread ON langgraph_checkpoints (thread_id, seq);
CREATE INDEX langgraph_checkpoints_by_node_task ON langgraph_checkpoints (thread_id, node_task_id, seq);

CREATE TABLE langgraph_runs (
  run_id     TEXT PRIMARY KEY,
  thread_id  TEXT NOT NULL,
  host       TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  pid_start  TEXT NOT NULL,
  started_at TEXT NOT NULL,
  beat_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX langgraph_runs_by_thread ON langgraph_runs (thread_id);

CREATE TABLE langgraph_rewinds (
  id             TEXT PRIMARY KEY,
  thread_id      TEXT NOT NULL,
  target_task_id TEXT NOT NULL,
  target_seq     INTEGER NOT NULL,
  seq            INTEGER NOT NULL,
  archived       INTEGER NOT NULL CHECK (archived IN (0, 1)),
  created_at     TEXT NOT NULL,
  taken_back_at  TEXT
) STRICT;
CREATE INDEX langgraph_rewinds_by_thread ON langgraph_rewinds (thread_id, seq);

-- Whole rows as JSON objects, so that a column added by a later migration is archived without a change here. `change` is 'deleted'
-- for a row that went and 'revived' for one whose superseded_by was cleared.
CREATE TABLE langgraph_archive (
  rewind_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  ordinal   INTEGER NOT NULL,
  tbl       TEXT NOT NULL,
  change    TEXT NOT NULL CHECK (change IN ('deleted', 'revived')),
  row       TEXT NOT NULL,
  PRIMARY KEY (rewind_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX langgraph_archive_by_thread ON langgraph_archive (thread_id);
