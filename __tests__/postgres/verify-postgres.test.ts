import { Client } from "pg";
import { PostgresTurnSaver } from "../../src/postgres/index";
import { ON_POSTGRES, openSaver, schemaAt } from "../support/open-saver";
import { chain } from "../support/s1-graph";
import { quiet } from "../support/s1-tools";
import { startServer } from "../support/postgres/server";
import { tempFile } from "../support/temp";

const thread = { configurable: { thread_id: "t" } };

async function onServer(url: string | undefined, ...statements: string[]): Promise<void> {
  const client = new Client(url);
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

describe("S9.1 verify checks the schema", () => {
  test.each([
    ["an index that is gone", "DROP INDEX langgraph_writes_by_checkpoint", "pg_index", "unreadable"],
    [
      "one that doesn't keep its keys unique",
      "DROP INDEX langgraph_chunks_by_address; CREATE INDEX langgraph_chunks_by_address ON langgraph_chunks (thread, address)",
      "pg_index",
      "unreadable",
    ],
    [
      "a constraint that wasn't checked for old rows",
      "ALTER TABLE langgraph_writes ADD CONSTRAINT mine CHECK (idx < 7) NOT VALID",
      "pg_index",
      "unreadable",
    ],
    [
      "a sequence behind the numbers of threads",
      "ALTER SEQUENCE langgraph_thread_numbers RESTART; SELECT nextval('langgraph_thread_numbers'); UPDATE langgraph_threads SET thread = 7",
      "pg_index",
      "sequence",
    ],
  ])("S9.1 %s is told", async (_, change, table, kind) => {
    expect(ON_POSTGRES).toBe(true);
    const path = tempFile();
    const saver = openSaver(path, { logger: quiet });
    await chain(saver).invoke({ log: ["in"] }, thread);
    expect(await saver.verify()).toMatchObject({ ok: true, databaseOk: true });
    await onServer(process.env["TURNS_PG_DIRECT_URL"], `SET search_path = ${schemaAt(path)}`, change);
    expect((await saver.verify()).problems).toContainEqual(expect.objectContaining({ table, kind }));
    saver.close();
  });

  test("S9.1 an index that lacks rows is told", async () => {
    const server = await startServer();
    const saver = PostgresTurnSaver.fromConnString(server.url, { logger: quiet });
    const graph = chain(saver);
    await graph.invoke({ log: ["in"] }, thread);
    const ready = (is: boolean): string =>
      `UPDATE pg_index SET indisready = ${String(is)} WHERE indexrelid = 'turns.langgraph_writes_by_checkpoint'::regclass`;
    await onServer(server.adminUrl, ready(false));
    await graph.invoke({ log: ["more"] }, thread);
    await onServer(server.adminUrl, ready(true));
    const report = await saver.verify();
    expect(report).toMatchObject({ ok: false, databaseOk: false });
    expect(report.problems).toContainEqual(expect.objectContaining({ kind: "unreadable", table: "langgraph_writes" }));
    await saver.close();
    await server.stop();
  }, 60_000);
});
