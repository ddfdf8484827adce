import { Client, Pool } from "pg";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { LONG, runs } from "../support/lane";
import { load } from "../support/postgres/load";
import { type PostgresServer, startServer } from "../support/postgres/server";
import { quiet } from "../support/s1-tools";

/** A server that ends connections, stops, crashes and comes back, under load: each run completes, and everything happens once. */
const THREADS = 6;
let server: PostgresServer;
let pool: Pool;
const savers: PostgresTurnSaver[] = [];
beforeAll(async () => {
  server = await startServer();
  pool = new Pool({ connectionString: server.url, max: 1 });
  pool.on("error", () => undefined);
  savers.push(PostgresTurnSaver.fromConnString(server.url, { logger: quiet }));
  savers.push(new PostgresTurnSaver(pool, { logger: quiet }));
  for (const saver of savers) await saver.setup();
});
afterAll(async () => {
  for (const saver of savers) await saver.close();
  await pool.end();
  await server.stop();
});

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Ends all connections of clients. */
async function terminateAll(): Promise<void> {
  const client = new Client(server.adminUrl);
  client.on("error", () => undefined);
  await client.connect();
  await client.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'turns'");
  await client.end();
}

let storms = 0;
/** Two savers at work, one of them with a single connection, while something happens to the server. */
async function weathered(happens: () => Promise<void>): Promise<void> {
  storms += 1;
  const loads = savers.map((saver, at) => load(saver, `${storms} of ${at}`, THREADS));
  await happens();
  for (const { stop } of loads) {
    const work = await stop();
    expect(work.wrong).toEqual([]);
    expect(work.runs).toBeGreaterThan(0);
    if (LONG) console.log(`${expect.getState().currentTestName}: ${work.runs} runs, the longest ${Math.round(work.longest)} ms`);
  }
  expect(await (savers[0] as PostgresTurnSaver).verify()).toMatchObject({ ok: true });
}

test("S9.3 PostgreSQL: the server ends all connections again and again", async () => {
  await weathered(async () => {
    const until = performance.now() + runs(3_000, 120_000);
    while (performance.now() < until) {
      await pause(20 + Math.random() * 180);
      await terminateAll();
    }
  });
}, 600_000);

test("S9.3 PostgreSQL: the server crashes and recovers", async () => {
  await weathered(async () => {
    for (let round = 0; round < runs(1, 12); round += 1) {
      await pause(500 + Math.random() * 1_000);
      server.crash();
      await server.restart();
      await pause(300);
    }
  });
}, 600_000);

test("S9.3 PostgreSQL: the server is restarted", async () => {
  await weathered(async () => {
    for (let round = 0; round < runs(1, 12); round += 1) {
      await pause(500 + Math.random() * 1_000);
      await server.halt();
      await pause(runs(500, round === 0 ? 10_000 : 500));
      await server.restart();
      await pause(300);
    }
  });
}, 600_000);
