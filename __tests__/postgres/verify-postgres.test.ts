import { Client, Pool, type PoolClient } from "pg";
import { PostgresTurnSaver } from "../../src/postgres/index";
import { ON_POSTGRES, openSaver, schemaAt } from "../support/open-saver";
import { chain } from "../support/s1-graph";
import { quiet } from "../support/s1-tools";
import { Connection, setRoundTripHook } from "../../src/testing-internal";
import { fullFile } from "../integrity/ver-world";
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
    [
      "a sequence behind the order of turns that a persister saved",
      `INSERT INTO langgraph_checkpoints (id, graph_id, node_name, turn_type, serialized_state, task_id, created_at)
        VALUES ('x', 'g', 'n', 'Thought', '{}', 't', ''); ALTER TABLE langgraph_checkpoints ALTER COLUMN rowid RESTART`,
      "pg_index",
      "sequence",
    ],
    [
      "a migration that isn't what was applied",
      "UPDATE langgraph_migrations SET name = name || 'x'",
      "langgraph_migrations",
      "format",
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

  test("S9.1 a constraint of somebody else's table in the schema is none of ours", async () => {
    const path = tempFile();
    const saver = openSaver(path, { logger: quiet });
    await chain(saver).invoke({ log: ["in"] }, thread);
    const theirs = "CREATE TABLE mine (n int); ALTER TABLE mine ADD CONSTRAINT positive CHECK (n > 0) NOT VALID";
    await onServer(process.env["TURNS_PG_DIRECT_URL"], `SET search_path = ${schemaAt(path)}`, theirs);
    expect(await saver.verify()).toMatchObject({ ok: true, problems: [] });
    saver.close();
  });

  test("S9.1 a statement that the server cancels is no damage: verify ends with its error", async () => {
    const path = tempFile();
    const saver = openSaver(path, { logger: quiet });
    await chain(saver).invoke({ log: ["in"] }, thread);
    saver.close();
    const schema = schemaAt(path);
    const holder = new Client(process.env["TURNS_PG_DIRECT_URL"]);
    await holder.connect();
    await holder.query(`BEGIN; LOCK TABLE "${schema}".langgraph_writes`);
    const pool = new Pool({ connectionString: process.env["TURNS_PG_DIRECT_URL"], options: "-c statement_timeout=300ms" });
    const hasty = new PostgresTurnSaver(pool, { schema, logger: quiet });
    try {
      await expect(hasty.verify()).rejects.toMatchObject({ code: "STORE_FAILED", data: { sqlstate: "57014" } });
    } finally {
      await holder.end();
      await hasty.close();
      await pool.end();
    }
  });

  test("S9.1 rows are asked about together, not each in round trips of its own", async () => {
    const path = await fullFile();
    const saver = openSaver(path, { logger: quiet });
    await saver.setup?.();
    let trips = 0;
    setRoundTripHook(() => (trips += 1));
    const { ok, checked } = await saver.verify().finally(() => setRoundTripHook(undefined));
    const rows = Object.values(checked).reduce((sum, count) => sum + count, 0);
    // Of these, some 90 are for the schema's indexes, however many rows there are.
    expect({ ok, rows, trips, isFew: trips < 1.4 * rows }).toMatchObject({ ok: true, isFew: true });
    saver.close();
  });

  test("S9.1 a count of a large table may take as long as it needs", async () => {
    const saver = openSaver(tempFile(), { logger: quiet });
    await saver.setup?.();
    const send = jest.spyOn(Connection.prototype, "send");
    await saver.verify();
    const sent = send.mock.calls.map(([queries, isPatient = false]) => ({
      counts: queries.some(({ text }) => text.startsWith("SELECT count(*) AS n FROM")),
      isPatient,
    }));
    send.mockRestore();
    expect(sent.filter(({ counts }) => counts).length).toBeGreaterThan(50);
    expect(sent.filter(({ counts, isPatient }) => counts !== isPatient)).toEqual([]);
    saver.close();
  });

  test("S9.1 the table of the marks of transactions is missed", async () => {
    const server = await startServer();
    const saver = PostgresTurnSaver.fromConnString(server.url, { logger: quiet });
    await chain(saver).invoke({ log: ["in"] }, thread);
    await onServer(server.adminUrl, "DROP TABLE turns.langgraph_commits");
    const report = await saver.verify();
    expect(report).toMatchObject({ ok: false, databaseOk: false });
    expect(report.problems).toHaveLength(1);
    await saver.close();
    await server.stop();
  }, 300_000);

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
  }, 300_000);
});

/**
 * A saver on the store at a path whose server ends its connection, as an administrator or a failover does.
 *
 * @param isCut says it of each round trip, counted from 1
 */
function cutSaver(path: string, isCut: (trip: number) => boolean) {
  const pool = new Pool({ connectionString: process.env["TURNS_PG_URL"], max: 2 });
  const admin = new Pool({ connectionString: process.env["TURNS_PG_DIRECT_URL"], max: 1 });
  const counted = { trips: 0, cuts: 0, isCounting: false };
  const wrapped = new WeakSet<PoolClient>();
  const connect = async (): Promise<PoolClient> => {
    const client = await pool.connect();
    if (wrapped.has(client)) return client;
    wrapped.add(client);
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      const cuts = counted.isCounting && isCut((counted.trips += 1));
      if (!cuts) return query(...args);
      counted.cuts += 1;
      const { processID } = client as unknown as { processID: number };
      void admin.query("SELECT pg_terminate_backend($1)", [processID]).then(() => query(...args));
    }) as never;
    return client;
  };
  const on = { options: pool.options, on: pool.on.bind(pool), removeListener: pool.removeListener.bind(pool) };
  const saver = new PostgresTurnSaver({ ...on, connect, end: () => pool.end() }, { schema: schemaAt(path), logger: quiet });
  pool.on("error", () => undefined);
  const verify = async () => {
    await saver.setup();
    counted.isCounting = true;
    const report = await saver.verify().finally(() => (counted.isCounting = false));
    return { ...counted, report };
  };
  const close = async (): Promise<void> => {
    await saver.close();
    await pool.end();
    await admin.end();
  };
  return { verify, close };
}

async function verifiedWithCuts(path: string, isCut: (trip: number) => boolean) {
  const { verify, close } = cutSaver(path, isCut);
  return verify().finally(close);
}

const LAST = (table: string): string => `seq = (SELECT max(seq) FROM ${table})`;
const DAMAGED = `UPDATE langgraph_checkpoints SET checksum = 'x' WHERE ${LAST("langgraph_checkpoints")};
  UPDATE langgraph_writes SET checkpoint_id = 'gone' WHERE ${LAST("langgraph_writes")}`;

describe("S9.1 a connection that is lost is no damage", () => {
  test("S9.1 verify reports the same, no matter where its connection is lost once", async () => {
    const path = await fullFile();
    const whole = await verifiedWithCuts(path, () => false);
    expect(whole.report).toMatchObject({ ok: true, problems: [] });
    for (let at = 1; at <= whole.trips; at += Math.ceil(whole.trips / 8)) {
      const { report, cuts } = await verifiedWithCuts(path, (trip) => trip === at);
      expect({ at, cuts, report }).toEqual({ at, cuts: 1, report: whole.report });
    }
  });

  test("S9.1 nor if it is lost again and again", async () => {
    const path = await fullFile();
    const whole = await verifiedWithCuts(path, () => false);
    for (const every of [40, 25]) {
      const { report, cuts } = await verifiedWithCuts(path, (trip) => trip % every === 0);
      expect({ every, isOften: cuts > 2, report }).toEqual({ every, isOften: true, report: whole.report });
    }
  });

  test("S9.1 a damaged row in rows that are checked again is reported once", async () => {
    const path = await fullFile();
    await onServer(process.env["TURNS_PG_DIRECT_URL"], `SET search_path = ${schemaAt(path)}`, DAMAGED);
    const whole = await verifiedWithCuts(path, () => false);
    expect(whole.report.problems.filter(({ table }) => table === "langgraph_checkpoints")).toMatchObject([{ kind: "checksum" }]);
    expect(whole.report.remarks).not.toEqual([]);
    for (let at = 95; at <= whole.trips; at += Math.ceil((whole.trips - 95) / 8)) {
      const { report } = await verifiedWithCuts(path, (trip) => trip === at);
      expect({ at, report }).toEqual({ at, report: whole.report });
    }
  });

  test("S9.1 a login that is refused in the middle ends verify with that error", async () => {
    const path = await fullFile();
    const pool = new Pool({ connectionString: process.env["TURNS_PG_URL"], max: 1 });
    let isRefused = false;
    const refused = new Error("SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string");
    const on = { options: pool.options, on: pool.on.bind(pool), removeListener: pool.removeListener.bind(pool) };
    const connect = () => (isRefused ? Promise.reject(refused) : pool.connect());
    const saver = new PostgresTurnSaver({ ...on, connect, end: () => pool.end() }, { schema: schemaAt(path), logger: quiet });
    const onProgress = (): void => void (isRefused = true);
    await expect(saver.verify({ onProgress })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await saver.close();
    await pool.end();
  });
});

describe("S9.1 rows that the server can't read", () => {
  test("S9.1 are named, and the others are checked all the same", async () => {
    const path = await fullFile();
    const whole = await verifiedWithCuts(path, () => false);
    await onServer(
      process.env["TURNS_PG_DIRECT_URL"],
      `SET search_path = ${schemaAt(path)}`,
      `CREATE FUNCTION torn(at bigint) RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'invalid page' USING ERRCODE = 'XX001'; END $$`,
      "ALTER TABLE langgraph_graphs ENABLE ROW LEVEL SECURITY; ALTER TABLE langgraph_graphs FORCE ROW LEVEL SECURITY",
      "CREATE POLICY torn ON langgraph_graphs USING (torn(seq))",
    );
    const { report } = await verifiedWithCuts(path, () => false);
    const { graphs: _, ...checked } = report.checked;
    const { graphs: __, ...all } = whole.report.checked;
    expect(checked).toEqual(all);
    expect(report.threads).toBe(whole.report.threads);
    expect(new Set(report.problems.map(({ found }) => found))).toEqual(new Set(["XX001"]));
    const turns = report.problems.filter(({ table }) => table === "langgraph_checkpoints");
    expect(turns.length).toBeGreaterThan(0);
    for (const { where } of turns) expect(where).toMatchObject({ id: expect.any(String) });
  });
});
