import { Client, type ClientConfig, type QueryConfig } from "pg";
import { isCommit, isCommitAnswer, type Message } from "../support/postgres/messages";
import { type Fate, nth, PostgresProxy } from "../support/postgres/proxy";
import { schemaAt } from "../support/open-saver";

/** The proxy that makes the network bad, tried with nothing but `pg`. */
const direct = process.env["TURNS_PG_DIRECT_URL"]!;
const schema = schemaAt("proxy");
const STEP = ["BEGIN", `INSERT INTO ${schema}.kept VALUES (1)`, "COMMIT"];
const clients: Client[] = [];
let proxy: PostgresProxy;

beforeAll(async () => {
  const client = await connected(direct);
  await client.query(`CREATE SCHEMA ${schema}`);
  await client.query(`CREATE TABLE ${schema}.kept (id int)`);
});
beforeEach(async () => {
  proxy = await PostgresProxy.inFrontOf(direct);
  await ask(direct, `TRUNCATE ${schema}.kept`);
});
afterEach(async () => {
  await proxy.close();
  await Promise.all(clients.splice(0).map((client) => client.end().catch(() => undefined)));
});

test("Proxy: each statement that is waited for is one round trip; the login is none", async () => {
  const client = await connected(proxy.url);
  expect([proxy.connections, proxy.roundTrips]).toEqual([1, 0]);
  for (const text of STEP) await client.query(text);
  expect(proxy.flights).toEqual(STEP.map((text) => ({ connection: 1, statements: [text] })));
  proxy.reset();
  await client.query("SELECT $1::int", [1]);
  await client.query({ name: "mine", text: "SELECT $1::int + 1", values: [1] });
  await client.query({ name: "mine", text: "SELECT $1::int + 1", values: [2] });
  expect(proxy.flights.map(({ statements }) => statements)).toEqual([
    ["SELECT $1::int"],
    ["SELECT $1::int + 1"],
    ["SELECT $1::int + 1"],
  ]);
});

test("Proxy: a pipelined transaction is one round trip, and takes the time of one", async () => {
  const client = await connected(proxy.url, { pipeline: true });
  proxy.delay = { toServer: 1_000, toClient: 1_000 };
  const began = performance.now();
  await Promise.all(
    [...STEP.slice(0, 2), "SELECT $1::int", "COMMIT"].map((text) => client.query(text, text.includes("$") ? [1] : [])),
  );
  const took = performance.now() - began;
  expect(proxy.flights).toEqual([{ connection: 1, statements: [...STEP.slice(0, 2), "SELECT $1::int", "COMMIT"] }]);
  // Two round trips would take 4,000 ms.
  expect([took >= 1_999, took < 3_900]).toEqual([true, true]);
});

test("Proxy: two connections that wait at the same time are two round trips", async () => {
  const pair = [await connected(proxy.url), await connected(proxy.url)];
  proxy.delay = { toServer: 5, toClient: 5 };
  await Promise.all(pair.map((client) => client.query("SELECT 1")));
  expect(proxy.flights.map(({ connection }) => connection)).toEqual([1, 2]);
});

test.each<[string, (message: Message) => boolean, Fate, number]>([
  ["before COMMIT is forwarded", isCommit, "cut", 0],
  ["when COMMIT was forwarded", isCommit, "cut-after", 1],
  ["when COMMIT was carried out, before its answer", isCommitAnswer, "cut", 1],
  ["before COMMIT, which the server gets later", isCommit, { lateBy: 2_000 }, 1],
])("Proxy: a connection is cut %s", async (_, matches, fate, rows) => {
  for (const values of [undefined, [1]]) {
    const client = await connected(proxy.url, { pipeline: values !== undefined });
    proxy.fate = nth(1, matches, fate);
    const texts = values === undefined ? STEP : [STEP[0]!, `INSERT INTO ${schema}.kept VALUES ($1)`, STEP[2]!];
    const asked: Promise<unknown>[] = [];
    for (const text of texts) {
      asked.push(client.query(text, text.includes("$") ? values : undefined));
      // Without a pipeline, the driver wants to be asked one thing at a time.
      if (values === undefined) await asked.at(-1)!.catch(() => undefined);
    }
    await expect(asked[2]).rejects.toThrow(/terminated|ended|ECONNRESET/);
    await Promise.allSettled(asked);
    if (typeof fate === "object") expect(await count()).toBe(0);
    await until(async () => (await count()) === rows && (await idle()));
    proxy.fate = () => "pass";
    await ask(direct, `TRUNCATE ${schema}.kept`);
  }
});

test("Proxy: a half-open connection never answers, and nobody is told", async () => {
  const client = await connected(proxy.url);
  let closed = false;
  client.on("end", () => (closed = true));
  proxy.fate = nth(1, isCommitAnswer, "freeze");
  await client.query(STEP[0]!);
  await client.query(STEP[1]!);
  await expect(client.query({ text: STEP[2]!, query_timeout: 300 } as QueryConfig)).rejects.toThrow("Query read timeout");
  expect([closed, await count()]).toEqual([false, 1]);
});

test("Proxy: all connections freeze, or are cut, at once; new ones are refused, or never answered", async () => {
  const [first, second] = [await connected(proxy.url, { query_timeout: 200 }), await connected(proxy.url)];
  proxy.freezeAll();
  await expect(first.query("SELECT 1")).rejects.toThrow("Query read timeout");
  const gone = new Promise((done) => second.once("end", done));
  proxy.cutAll();
  await gone;
  proxy.incoming = "refuse";
  await expect(connected(proxy.url)).rejects.toThrow();
  proxy.incoming = "silent";
  await expect(connected(proxy.url, { connectionTimeoutMillis: 200 })).rejects.toThrow(/timeout/);
  proxy.incoming = "serve";
  expect((await (await connected(proxy.url)).query("SELECT 1 AS it")).rows).toEqual([{ it: 1 }]);
});

test("Proxy: one answer comes late, and those behind it in their order", async () => {
  const client = await connected(proxy.url, { pipeline: true });
  proxy.fate = nth(1, ({ type }) => type === "D", { delay: 200 });
  const began = performance.now();
  const answers = await Promise.all([1, 2, 3].map((number) => client.query("SELECT $1::int AS it", [number])));
  expect(answers.map(({ rows }) => rows[0].it)).toEqual([1, 2, 3]);
  expect(performance.now() - began).toBeGreaterThanOrEqual(199);
});

async function connected(url: string, config: ClientConfig = {}): Promise<Client> {
  const client = new Client({ connectionString: url, ...config });
  client.on("error", () => undefined);
  clients.push(client);
  await client.connect();
  return client;
}

async function ask(url: string, text: string): Promise<any[]> {
  return (await (await connected(url)).query(text)).rows;
}

async function count(): Promise<number> {
  return Number((await ask(direct, `SELECT count(*) AS rows FROM ${schema}.kept`))[0].rows);
}

/** Whether no transaction holds rows of the table any longer. */
async function idle(): Promise<boolean> {
  const open = `SELECT count(*) AS open FROM pg_locks WHERE relation = '${schema}.kept'::regclass`;
  return (await ask(direct, open))[0].open === "0";
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 1_000; !(await isSo()); tries -= 1) {
    if (tries === 0) throw new Error("it didn't happen");
    await new Promise((done) => setTimeout(done, 50));
  }
}
