import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { PostgresTurnSaver } from "langgraph-checkpoint-turns/postgres";
import { Client } from "pg";
import { startServer } from "../../__tests__/support/postgres/server";
import { type Contender, OFFICIAL, OURS } from "./contenders";

/** A server for both savers, and a schema of its own for each. */
export interface Bench {
  /** For people. */
  readonly which: string;
  readonly url: string;
  schemaOf(id: string): string;
  bytesOf(id: string): Promise<number>;
  /** Removes the schemas, and stops a server that was started. */
  end(): Promise<void>;
}

/**
 * BENCH_POSTGRES_URL's server, or one that is started here, on a disk and with its default settings but for `fsync`; or the reason why
 * there is none.
 *
 * @param waitsForDisk whether a commit waits until it's on the disk, which is the default of every server
 */
export async function postgresServer(waitsForDisk = true): Promise<Bench | string> {
  const given = process.env["BENCH_POSTGRES_URL"];
  if (given !== undefined && given !== "") {
    if (!waitsForDisk) return "PostgreSQL without waiting for the disk: the server of BENCH_POSTGRES_URL is as it is";
    return benchOn(given, "the server of BENCH_POSTGRES_URL", async () => undefined);
  }
  try {
    // The one of the tests is in memory, and waits for no disk.
    const server = await startServer({ fsync: waitsForDisk ? "on" : "off" }, true);
    return await benchOn(server.url, "a server on this machine with its default settings, over TCP", () => server.stop());
  } catch (error) {
    return `PostgreSQL: ${(error as Error).message.split("\n")[0]}. Set BENCH_POSTGRES_URL, or install the server's packages`;
  }
}

async function benchOn(url: string, which: string, stop: () => Promise<void>): Promise<Bench> {
  const client = new Client(url);
  await client.connect();
  const run = `turns_bench_${process.pid}`;
  const schemaOf = (id: string): string => `${run}_${id}`;
  const { rows } = await client.query<{ version: string }>("SELECT current_setting('server_version') AS version");
  return {
    which: `PostgreSQL ${(rows[0]?.version ?? "").split(" ")[0]}, ${which}`,
    url,
    schemaOf,
    bytesOf: async (id) => {
      const size = `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8 AS bytes
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`;
      return (await client.query<{ bytes: number }>(size, [schemaOf(id)])).rows[0]?.bytes ?? 0;
    },
    end: async () => {
      const made = await client.query<{ name: string }>(
        "SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1)",
        [schemaOf("")],
      );
      for (const { name } of made.rows) await client.query(`DROP SCHEMA ${name} CASCADE`);
      await client.end();
      await stop();
    },
  };
}

const silent = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: (...told: unknown[]) => console.error(told),
};

/** Both savers, over this address of the server. Each has a pool of its own of at most ten connections. */
export function postgresContenders({ schemaOf }: Bench, url: string): Contender[] {
  const common = { hasFile: false, reopens: false };
  return [
    {
      ...{ ...common, id: OFFICIAL, name: "official PostgresSaver", role: "official", records: false },
      open: async () => {
        const saver = PostgresSaver.fromConnString(url, { schema: schemaOf(OFFICIAL) });
        await saver.setup();
        return saver;
      },
      close: (saver) => (saver as PostgresSaver).end(),
    },
    {
      ...{ ...common, id: OURS, name: "PostgresTurnSaver, turns", role: "ours", records: true },
      open: async () => {
        const saver = PostgresTurnSaver.fromConnString(url, { schema: schemaOf(OURS), logger: silent });
        await saver.setup();
        return saver;
      },
      close: (saver) => (saver as PostgresTurnSaver).close(),
    },
  ];
}
