-- The whole layout in one picture
--
--   langgraph_threads      a row per thread; rows of other tables carry the short number `thread` instead of the id
--   langgraph_tombstones   threads that were deleted, so that a late writer does not bring them back
--   langgraph_tasks        which of the user's tasks owned the thread from which seq on (intervals, not per-row marks)
--   langgraph_snapshots    LangGraph's checkpoints: everything but the channel values, which the manifest `channels` points at
--   langgraph_chunks       parts of values, once per thread and content; the SHA-256 address is their checksum
--   langgraph_lists        list values: a list shares the first `keep` elements of its `base`
--   langgraph_items        the elements a list owns, by position, each a chunk. A list only ever grows at its end, so every shorter
--                          length of it is an older version of the same value, and appending costs one row for any length
--   langgraph_writes       pending writes, by the checkpoint and node task they belong to
--   langgraph_checkpoints  the turns: a Thought before and an Action after each attempt of a node task
--   langgraph_graphs       what a graph was made of when turns were recorded, once per thread and content, to notice that it changed
--   langgraph_effects      the journal of side effects: committed as an intent before the side effect, and again with its outcome after it
--   langgraph_names        names that people gave to checkpoints; a named checkpoint is never pruned
--   langgraph_runs         which process runs which thread just now
--   langgraph_rewinds      what was rewound, and in langgraph_archive the rows that went
--   langgraph_leftovers    rows that nobody can reach: of deleted threads, and of copies that are still being made
--
-- Snapshots and writes are never overwritten: a newer row marks the older one `superseded_by` its own seq, because a rewind to a
-- point between the two must bring the older one back. Nothing references langgraph_snapshots by foreign key: with durability
-- "exit" LangGraph sends the writes of a checkpoint before the checkpoint. Columns of type ANY hold text, or bytes where the
-- database is encrypted.
--
-- `seq` is thread * 67108864 + n, where n counts what was saved on the thread. So it orders everything on the thread, "rewind to s" means
-- that what has a seq above s goes, and the rows of a thread are a range of seq: no table needs an index by thread alone. There is no
-- order across threads.

-- Facts about the file as a whole: the keys it is encrypted with, and how many threads it has had, so that no number comes twice.
CREATE TABLE langgraph_settings (
  name  TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO langgraph_settings (name, value) VALUES ('threads', 0);

-- `thread` is never used again. `seq` is the last number that was taken on the thread; every commit on it takes one, so that a process
-- that remembers the row can tell whether somebody else has saved since. `generation` grows whenever rows of the thread were deleted or brought
-- back, so that what a process remembers of the thread is known to be outdated. No rewind reaches behind `pruned_seq`: what it would keep
-- is gone. `unswept`: how many checkpoints, and archives of rewinds, were pruned since values that nothing refers to were last looked for.
-- `tag` is a checksum of the id alone, by which the row is found when the id is damaged, so that no thread is taken for a new one.
-- The counts say how many rows there are of the thread; `others` are tasks, names and rewinds. Every commit writes them.
-- `arrived`: the move that brought the thread from another database, if one did. `moved_to`, JSON, names the database that it moves to.
-- While it's set, nothing is saved on the thread. With `gone`, the rows are there now, and this one only tells where.
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

-- `deleted_at` is in milliseconds since the epoch. A `final` one refuses even a new beginning under the id. `tag` as above.
CREATE TABLE langgraph_tombstones (
  thread_id  TEXT PRIMARY KEY,
  tag        TEXT NOT NULL UNIQUE,
  deleted_at INTEGER NOT NULL,
  final      INTEGER NOT NULL CHECK (final IN (0, 1)),
  checksum   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `pruned_tokens`: what turns of the task used that were pruned since, a JSON list of [path of the node, input, output, cached, reasoning].
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

-- `channels`: by channel its version alone, or [version, 0, value], [version, 1, address of a chunk],
-- [version, 2, list, length, SHA-256 over the texts of its elements]; the version is null if the channel has none. `delta`: the delta
-- channels whose value has to be put together from the writes of ancestors. `created_at` is in milliseconds since the epoch. `position` is
-- the seq of the checkpoint's first version. It orders a thread's checkpoints; their ids are times, and clocks are set.
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

-- One row for all regular writes of a node task (idx 0) and one for each special write (idx below 0); `entries` is a list of
-- [index, channel, value]. `task_path` is LangGraph's path of the task: writes are applied in the order of path, task id and index.
-- It is '' for writes that are no task's, and for all that LangGraph before 1.5 saved.
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

-- The first seven columns are the table of requirement S1 and stand alone: a row that has only these is a turn saved by
-- CheckpointPersister. The rest is what the recorder knows besides; `state_format` says what serialized_state holds:
--   'state'       the state itself
--   'checkpoint'  nothing but the node's input where that is not the state of the checkpoint it started from
--   'update'      what the node returned
--   'none'        nothing: the saver was told to keep turns without their content
-- `node_ns` is absent where it is node_name and node_task_id below checkpoint_ns. `graph` is the seq of a row of langgraph_graphs,
-- `fingerprint` that of the node in it, `validation` what a confidence gate found (JSON).
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
-- Which threads have turns of a task or a graph, langgraph_tasks tells: a recorded turn costs no entry of these two.
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

-- One row per effect, updated in place: what happened outside stays true after a rewind. A rewind deletes the effects that
-- began behind its target, after their undos. An effect is found by its node task, name and label (its ordinal in the node task,
-- unless the caller named it); `path` is node_ns without the task ids and `spot` its steps and Sends, by which an effect is found again
-- when the graph it ran in was started again from scratch. `anchor` is the root checkpoint it ran under, of `anchor_thread` if that is
-- another thread, `run` the root node task and its attempt, `unsaved_run` the graph run that it is a part of, until a root checkpoint of
-- that run is saved. A new try of what did not happen gives the row a new seq; the repetition of one in doubt reserves `tried_seq`, which
-- becomes its seq when it is known to be done, or is undone.
-- `process` is who holds the intent. `epoch` is the thread's when it began. `content` is a JSON object of input and
-- outcome, each codec text, and of what a failed undo threw.
--   status       'intent' begun, outcome unknown · 'done' · 'failed' may run again · 'final' failed for good
--   undo         name of the undo, '' for an effect that needs none, absent if nothing was said
--   undo_status  'begun' outcome unknown · 'done' · 'failed'
--   inherited    1 in a copied thread: the side effect belongs to the source, and so does its undo
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

-- `beat_at` is in milliseconds of the machine's uptime, which nobody can set; `boot` names the machine and its start that it counts from.
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

-- A rewind that has effects to undo is on record before the first undo, as 'undoing', so that a crash in between leaves a trace; its
-- `seq` and `target_seq` become final when it is done. `reason` is null for a rewind that a person asked for. `entries`: how many rows
-- the archive was given.
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

-- Whole rows as JSON objects, so that a column added by a later migration is archived without a change here. `change` is 'deleted'
-- for a row that went and 'revived' for one whose superseded_by was cleared. Bytes are written as {"hex": …}.
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

-- A large thread is deleted, and copied, in many short transactions. What makes it invisible, or visible, is its row of
-- langgraph_threads; until all its other rows are gone, or there, its number stands here, so that nobody takes them for damage, and
-- any process can finish the removal. A row is about the thread of a number, or (with thread 0) about the archive of a rewind.
-- `run_id` is the row of langgraph_runs of the copy that is writing them, '' for what is to be removed.
CREATE TABLE langgraph_leftovers (
  thread    INTEGER NOT NULL,
  rewind_id TEXT NOT NULL,
  run_id    TEXT NOT NULL,
  PRIMARY KEY (thread, rewind_id)
) STRICT, WITHOUT ROWID;
