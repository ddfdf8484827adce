import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { Client } from "pg";
import { thread } from "../support/eff-world";
import { type PostgresServer, startServer } from "../support/postgres/server";
import { quiet } from "../support/s1-tools";

/** A server that waits for a standby with each commit. The standby isn't there. */
let server: PostgresServer;
let admin: Client;
beforeAll(async () => {
  server = await startServer();
  admin = new Client({ connectionString: server.adminUrl });
  await admin.connect();
});
afterAll(async () => {
  await (admin as Client | undefined)?.end();
  await (server as PostgresServer | undefined)?.stop();
});

async function waitFor(standby: string): Promise<void> {
  await admin.query(`ALTER SYSTEM SET synchronous_standby_names = '${standby}'`);
  await admin.query("SELECT pg_reload_conf()");
  const shown = async () => (await admin.query("SHOW synchronous_standby_names")).rows[0]?.synchronous_standby_names as string;
  while ((await shown()) !== standby) await new Promise((resolve) => setTimeout(resolve, 20));
}

const waiting = async (): Promise<number[]> =>
  (await admin.query("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")).rows.map(({ pid }) => pid as number);

test("S9.3 PostgreSQL: a save whose session is terminated while it waits for the standby isn't acknowledged before the standby has it", async () => {
  const saver = PostgresTurnSaver.fromConnString(server.url, { logger: quiet });
  const put = (id: string) => saver.put(thread(id), emptyCheckpoint(), { source: "input", step: -1, parents: {} }, {});
  await put("before");
  await waitFor("missing");
  let isAcknowledged = false;
  const saved = put("t").then(() => (isAcknowledged = true));
  let first: number[] = [];
  while (first.length === 0) first = await waiting();
  for (const pid of first) await admin.query("SELECT pg_terminate_backend($1)", [pid]);
  // The saver finds the commit in the server, and waits with another one until the standby has both.
  let others: number[] = [];
  while (!isAcknowledged && others.length === 0) others = (await waiting()).filter((pid) => !first.includes(pid));
  expect(isAcknowledged).toBe(false);
  await waitFor("");
  await saved;
  expect((await saver.listThreads()).map(({ threadId }) => threadId).sort()).toEqual(["before", "t"]);
  await saver.close();
}, 120_000);
