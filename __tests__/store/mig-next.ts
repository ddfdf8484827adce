import { type Migration, sqliteMigrations } from "../../src/testing-internal";

const version = (sqliteMigrations.at(-1)?.version ?? 0) + 1;

/** The package's migrations and one more, such as may come: a column with a value for old rows, a table, an index, rows counted once. */
export const nextMigrations: readonly Migration[] = [
  ...sqliteMigrations,
  {
    version,
    name: "of_a_test",
    sql: `ALTER TABLE langgraph_names ADD COLUMN note TEXT NOT NULL DEFAULT '';
UPDATE langgraph_names SET note = note || 'once';
CREATE TABLE langgraph_notes (
  id   INTEGER PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;
INSERT INTO langgraph_notes (text) SELECT name FROM langgraph_names;
CREATE INDEX langgraph_notes_by_text ON langgraph_notes (text);
`,
  },
];
