// Generated from migrations/postgres/*.sql by `npm run migrations:embed`. Do not edit: change the SQL files instead.

export const postgresMigrations: readonly { version: number; name: string; sql: string }[] = [
  {
    version: 1,
    name: "turns_and_checkpoints",
    sql: `-- The saver runs this with the name of its schema. \`migrationSql()\` prints it, for people to run it by hand.
--
-- The same tables as on SQLite (migrations/sqlite), with the same columns in the same order, because one set of statements and checksums
-- serves both. What differs:
--   text     is compared by its bytes (COLLATE "C"). It can't hold U+0000 or half a surrogate pair, so both are written behind U+0001.
--            Where the database is encrypted, a column may hold bytes: U+0001, U+0004, and their base64.
--   bigint   is every number. Flags are 0 and 1.
--   numbers  of threads come from a sequence, because a counter in a row would make all savers wait for each other.
-- Every commit on a thread updates and so locks its row in langgraph_threads. That row is also the fence against a process that believes it
-- still holds the thread.
--
-- The whole layout in one picture
--
--   langgraph_threads      a row per thread; rows of other tables carry the short number \`thread\` instead of the id
--   langgraph_tombstones   threads that were deleted, so that a late writer does not bring them back
--   langgraph_tasks        which of the user's tasks owned the thread from which seq on (intervals, not per-row marks)
--   langgraph_snapshots    LangGraph's checkpoints: everything but the channel values, which the manifest \`channels\` points at
--   langgraph_chunks       parts of values, once per thread and content; the SHA-256 address is their checksum
--   langgraph_lists        list values: a list shares the first \`keep\` elements of its \`base\`
--   langgraph_items        the elements a list owns, by position, each a chunk. A list only ever grows at its end, so every shorter
--                          length of it is an older version of the same value, and appending costs one row for any length
--   langgraph_writes       pending writes, by the checkpoint and node task they belong to
--   langgraph_checkpoints  the turns: a Thought before and an Action after each attempt of a node task
--   langgraph_graphs       what a graph was made of when turns were recorded, once per thread and content, to notice that it changed
--   langgraph_effects      the journal of side effects: committed as an intent before the effect, and again with its outcome
--   langgraph_names        names that people gave to checkpoints; a named checkpoint is never pruned
--   langgraph_runs         which process runs which thread just now
--   langgraph_rewinds      what was rewound, and in langgraph_archive the rows that went
--   langgraph_leftovers    rows that nobody can reach: of deleted threads, and of copies that are still being made
--
-- Snapshots and writes are never overwritten: a newer row marks the older one \`superseded_by\` its own seq, because a rewind to a
-- point between the two must bring the older one back. Nothing references langgraph_snapshots by foreign key: with durability
-- "exit" LangGraph sends the writes of a checkpoint before the checkpoint.
--
-- \`seq\` is thread * 67108864 + n, where n counts what was saved on the thread. So it orders everything on the thread, "rewind to s" means
-- that what has a seq above s goes, and the rows of a thread are a range of seq: no table needs an index by thread alone. There is no
-- order across threads.

-- The numbers of threads. No number comes twice; the greatest one keeps every seq a safe integer in JavaScript.
CREATE SEQUENCE :"schema".langgraph_thread_numbers MAXVALUE 134217726;

-- Facts about the database as a whole: the keys it is encrypted with.
CREATE TABLE :"schema".langgraph_settings (
  name  text COLLATE "C" PRIMARY KEY,
  value text COLLATE "C" NOT NULL
);

-- \`thread\` is never used again. \`seq\` is the last number that was taken on the thread; every commit on it takes one, so that a process that
-- remembers the row can tell whether somebody else has saved since. \`generation\` grows whenever rows of the thread were deleted or brought
-- back, so that what a process remembers of the thread is known to be outdated. No rewind reaches behind \`pruned_seq\`: what it would keep
-- is gone. \`unswept\`: how many checkpoints, and archives of rewinds, were pruned since values that nothing refers to were last looked for.
-- \`tag\` is a checksum of the id alone, by which the row is found when the id is damaged, so that no thread is taken for a new one.
-- The counts say how many rows there are of the thread; \`others\` are tasks, names and rewinds. Every commit writes them.
-- \`arrived\`: the move that brought the thread from another database, if one did. \`moved_to\`, JSON, names the database that it moves to.
-- While it's set, nothing is saved on the thread. With \`gone\`, the rows are there now, and this one only tells where.
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

-- \`deleted_at\` is in milliseconds since the epoch. A \`final\` one refuses even a new beginning under the id. \`tag\` as above.
CREATE TABLE :"schema".langgraph_tombstones (
  thread_id  text COLLATE "C" PRIMARY KEY,
  tag        text COLLATE "C" NOT NULL UNIQUE,
  deleted_at bigint NOT NULL,
  final      bigint NOT NULL CHECK (final IN (0, 1)),
  checksum   text COLLATE "C" NOT NULL
);

-- \`pruned_tokens\`: what turns of the task used that were pruned since, a JSON list of [path of the node, input, output, cached, reasoning].
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

-- \`channels\`: by channel its version alone, or [version, 0, value], [version, 1, address of a chunk],
-- [version, 2, list, length, SHA-256 over the texts of its elements]; the version is null if the channel has none. \`delta\`: the delta
-- channels whose value has to be put together from the writes of ancestors. \`created_at\` is in milliseconds since the epoch. \`position\` is
-- the seq of the checkpoint's first version. It orders a thread's checkpoints; their ids are times, and clocks are set.
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

-- One row for all regular writes of a node task (idx 0) and one for each special write (idx below 0); \`entries\` is a list of
-- [index, channel, value]. \`task_path\` is LangGraph's path of the task: writes are applied in the order of path, task id and index.
-- It is '' for writes that are no task's, and for all that LangGraph before 1.5 saved.
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

-- The first seven columns are the table of requirement S1 and stand alone: a row that has only these is a turn saved by
-- CheckpointPersister. The rest is what the recorder knows besides; \`state_format\` says what serialized_state holds:
--   'state'       the state itself
--   'checkpoint'  nothing but the node's input where that is not the state of the checkpoint it started from
--   'update'      what the node returned
--   'none'        nothing: the saver was told to keep turns without their content
-- \`node_ns\` is absent where it is node_name and node_task_id below checkpoint_ns. \`graph\` is the seq of a row of langgraph_graphs,
-- \`fingerprint\` that of the node in it, \`validation\` what a confidence gate found (JSON). \`rowid\`, which SQLite has without saying so, is
-- the order in which rows were inserted. It's no part of what is copied, archived or checked.
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
-- Which threads have turns of a task or a graph, langgraph_tasks tells: a recorded turn costs no entry of these two.
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

-- One row per effect, updated in place: what happened outside stays true after a rewind. A rewind deletes the effects that
-- began behind its target, after their undos. An effect is found by its node task, name and label (its ordinal in the node task,
-- unless the caller named it); \`path\` is node_ns without the task ids and \`spot\` its steps and Sends, by which an effect is found again
-- when the graph it ran in was started again from scratch. \`anchor\` is the root checkpoint it ran under, of \`anchor_thread\` if that is
-- another thread, \`run\` the root node task and its attempt, \`unsaved_run\` the graph run that it is a part of, until a root checkpoint of
-- that run is saved. A new try of what did not happen gives the row a new seq; the repetition of one in doubt reserves \`tried_seq\`, which
-- becomes its seq when it is known to be done, or is undone.
-- \`process\` is who holds the intent. \`epoch\` is the thread's when it began. \`content\` is a JSON object of input and
-- outcome, each codec text, and of what a failed undo threw.
--   status       'intent' begun, outcome unknown · 'done' · 'failed' may run again · 'final' failed for good
--   undo         name of the undo, '' for an effect that needs none, absent if nothing was said
--   undo_status  'begun' outcome unknown · 'done' · 'failed'
--   inherited    1 in a copied thread: the side effect belongs to the source, and so does its undo
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

-- \`beat_at\` is in milliseconds of the server's clock. The clocks of other machines are never compared with it.
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

-- A thread whose process had died, from the first try of recovery to resume it until a run of it succeeds. \`tries\` counts those that brought
-- it no further; \`progress\` says how far it was. \`tried_at\` is in milliseconds of the server's clock. The next try comes \`wait_ms\` later, or
-- not at all (\`given_up\`). \`failure\` is JSON: what the last try failed with, and at which node.
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

-- A rewind that has effects to undo is on record before the first undo, as 'undoing', so that a crash in between leaves a trace; its
-- \`seq\` and \`target_seq\` become final when it is done. \`reason\` is null for a rewind that a person asked for. \`entries\`: how many rows
-- the archive was given.
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

-- Whole rows as JSON objects, so that a column added by a later migration is archived without a change here. \`change\` is 'deleted'
-- for a row that went and 'revived' for one whose superseded_by was cleared. Bytes are written as {"hex": …}.
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

-- A large thread is deleted, and copied, in many short transactions. What makes it invisible, or visible, is its row of
-- langgraph_threads; until all its other rows are gone, or there, its number stands here, so that nobody takes them for damage, and
-- the next process can finish the removal. A row is about the thread of a number, or (with thread 0) about the archive of a rewind.
-- \`run_id\` is the row of langgraph_runs of the copy that is writing them, '' for what is to be removed.
CREATE TABLE :"schema".langgraph_leftovers (
  thread    bigint NOT NULL,
  rewind_id text COLLATE "C" NOT NULL,
  run_id    text COLLATE "C" NOT NULL,
  PRIMARY KEY (thread, rewind_id)
);

-- Each transaction leaves a mark here with a number of its own, and one in 32 removes those of its process's earlier ones. If the
-- connection is lost during COMMIT, the mark tells whether it was carried out. With "done" 0 it stands for a transaction that wasn't,
-- and never will be: its own mark would be a second one. Marks of processes that have stopped are removed after a day.
CREATE TABLE :"schema".langgraph_commits (
  number  bigint PRIMARY KEY,
  done    bigint NOT NULL CHECK (done IN (0, 1)),
  made_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);

-- Rows that are updated in place have room to stay on their page, so that no index must be changed (HOT).
ALTER TABLE :"schema".langgraph_threads SET (fillfactor = 50);
ALTER TABLE :"schema".langgraph_runs SET (fillfactor = 50);
ALTER TABLE :"schema".langgraph_effects SET (fillfactor = 70);

-- These grow by inserts alone most of the time. Without this, they would be vacuumed too seldom to be read from indexes alone.
ALTER TABLE :"schema".langgraph_threads SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_snapshots SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_chunks SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_items SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_writes SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE :"schema".langgraph_checkpoints SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.05);

-- lz4 reads three times as fast as pglz. A server that was built without it keeps pglz.
DO $$ BEGIN
  ALTER TABLE :"schema".langgraph_chunks ALTER COLUMN body SET COMPRESSION lz4;
  ALTER TABLE :"schema".langgraph_snapshots ALTER COLUMN channels SET COMPRESSION lz4;
  ALTER TABLE :"schema".langgraph_writes ALTER COLUMN entries SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR syntax_error THEN NULL;
END $$;
`,
  },
];
