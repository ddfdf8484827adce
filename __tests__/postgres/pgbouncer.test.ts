import { Client } from "pg";
import { type Pooler, startPgBouncer } from "../support/postgres/pgbouncer";

/** PgBouncer as the suites use it, tried with nothing but `pg`. */
const CLIENTS = 8;
let pooler: Pooler;
beforeAll(async () => {
  pooler = await startPgBouncer(process.env["TURNS_PG_DIRECT_URL"]!, { poolSize: 3 });
});
afterAll(() => pooler.stop());

test("PgBouncer: unnamed statements with parameters work for more clients than it has connections", async () => {
  const answers = await onEachOf(
    CLIENTS,
    async (client, number) => (await client.query("SELECT $1::int AS it", [number])).rows[0].it,
  );
  expect(answers).toEqual(Array.from({ length: CLIENTS }, (_, number) => number));
});

test("PgBouncer: a pipelined transaction runs as a whole on one connection", async () => {
  const answers = await onEachOf(
    CLIENTS,
    async (client) => {
      const asked = ["BEGIN", "SELECT pg_backend_pid() AS it", "SELECT pg_backend_pid() AS it", "COMMIT"];
      const [, first, second] = await Promise.all(asked.map((text) => client.query(text)));
      return first!.rows[0].it === second!.rows[0].it;
    },
    true,
  );
  expect(answers).toEqual(Array(CLIENTS).fill(true));
});

test("PgBouncer: transactions of one client run on several connections, so prepared statements get lost", async () => {
  const failures = await onEachOf(CLIENTS, async (client, number) => {
    const rounds = Array.from(
      { length: 10 },
      (_, round) => () => client.query({ name: "mine", text: "SELECT $1::int", values: [number + round] }),
    );
    const outcomes: string[] = [];
    for (const round of rounds)
      outcomes.push(
        await round().then(
          () => "",
          (error) => error.code,
        ),
      );
    return outcomes.filter((code) => code !== "").length;
  });
  expect(failures.reduce((all, each) => all + each, 0)).toBeGreaterThan(0);
});

async function onEachOf<T>(count: number, work: (client: Client, number: number) => Promise<T>, pipeline = false): Promise<T[]> {
  return Promise.all(
    Array.from({ length: count }, async (_, number) => {
      const client = new Client({ connectionString: pooler.url, pipeline });
      await client.connect();
      try {
        return await work(client, number);
      } finally {
        await client.end();
      }
    }),
  );
}
