import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { freePort, keeper, programs, run, type Sandbox, sandbox } from "./programs";

const ATTEMPTS = 5;
const SUPERUSER = "postgres";

/** A PostgreSQL server of our own on this machine. It stops with this process, even if that is killed. */
export interface PostgresServer {
  /** A database of an ordinary role that owns it, as an application has it. */
  readonly url: string;
  /** The same database as superuser. */
  readonly adminUrl: string;
  /** Belongs to the user that it runs as. */
  readonly folder: string;
  /** SIGKILL for the postmaster, as the kernel does when memory runs out. Its backends notice and stop. */
  crash(): void;
  /** As `systemctl restart` stops it: ends all connections, and writes everything. */
  halt(): Promise<void>;
  /** Makes it a replica, as long as it lives: it can be read only. */
  demote(): Promise<void>;
  /** Starts it again after {@link crash} or {@link halt}; resolves when it answers. */
  restart(): Promise<void>;
  /** Stops it and removes its data. */
  stop(): Promise<void>;
}

/**
 * Starts a server. Data is in memory if there is room, and `fsync` is off: that survives every crash but the machine's.
 *
 * @param settings of postgresql.conf, e.g. `{ fsync: "on" }`
 * @param isOnDisk for measurements: in memory, waiting for the disk takes no time
 * @throws if PostgreSQL isn't installed, or doesn't start
 */
export async function startServer(settings: Record<string, string> = {}, isOnDisk = false): Promise<PostgresServer> {
  const { server: bin } = programs();
  if (bin === undefined) throw new Error("PostgreSQL's programs were not found");
  const box = sandbox("postgres", isOnDisk);
  const data = join(box.folder, "data");
  // SIGQUIT is what `pg_ctl -m immediate stop` sends.
  const stop = keeper(box.folder, "data/postmaster.pid", "QUIT");
  try {
    const password = randomBytes(12).toString("hex");
    writeFileSync(join(box.folder, "password"), password);
    await initialise(box, bin, data);
    const port = await startOnFreePort(box, bin, data, settings);
    const urlOf = (role: string, database: string): string => `postgres://${role}:${password}@127.0.0.1:${port}/${database}`;
    await asSuperuser(urlOf(SUPERUSER, "postgres"), [
      `CREATE ROLE turns LOGIN PASSWORD '${password}'`,
      "CREATE DATABASE turns OWNER turns",
    ]);
    const halt = async () => void (await run(box, join(bin, "pg_ctl"), "-D", data, "-m", "fast", "-w", "stop"));
    const restart = () => startOn(box, bin, data, { ...settings, port: String(port) });
    return {
      url: urlOf("turns", "turns"),
      adminUrl: urlOf(SUPERUSER, "turns"),
      folder: box.folder,
      crash: () => process.kill(postmasterOf(data), "SIGKILL"),
      halt,
      demote: async () => {
        await halt();
        writeFileSync(join(data, "standby.signal"), "");
        await restart();
      },
      restart,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function initialise(box: Sandbox, bin: string, data: string): Promise<void> {
  const args = [
    "-D",
    data,
    "-U",
    SUPERUSER,
    "-A",
    "scram-sha-256",
    "--pwfile",
    join(box.folder, "password"),
    "-E",
    "UTF8",
    "--no-sync",
  ];
  // A default order that isn't the order of bytes, as most databases have it. PostgreSQL before 15 has no such option.
  const icu = ["--locale-provider=icu", "--icu-locale=en-US", "--locale=C"];
  await run(box, join(bin, "initdb"), ...args, ...icu).catch(() => run(box, join(bin, "initdb"), ...args, "--locale=C"));
}

/** Another process may take the port between our look and the start. */
async function startOnFreePort(box: Sandbox, bin: string, data: string, settings: Record<string, string>): Promise<number> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    try {
      await startOn(box, bin, data, { ...settings, port: String(port) }, 1);
      return port;
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

/** After a crash the old backends may still hold the shared memory for a moment. */
async function startOn(
  box: Sandbox,
  bin: string,
  data: string,
  settings: Record<string, string>,
  attempts = ATTEMPTS,
): Promise<void> {
  const all = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: "300",
    fsync: "off",
    shared_buffers: "64MB",
    ...settings,
  };
  const options = Object.entries(all)
    .map(([name, value]) => `-c ${name}='${value}'`)
    .join(" ");
  const log = join(box.folder, "log");
  try {
    await run(box, join(bin, "pg_ctl"), "-D", data, "-l", log, "-w", "-t", "60", "-o", options, "start");
  } catch (error) {
    if (attempts === 1) throw new Error(`PostgreSQL didn't start: ${readFileSync(log, "utf8").slice(-2_000)}`, { cause: error });
    await new Promise((done) => setTimeout(done, 500));
    await startOn(box, bin, data, settings, attempts - 1);
  }
}

async function asSuperuser(url: string, statements: readonly string[]): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** The first line of postmaster.pid. */
function postmasterOf(data: string): number {
  return Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]);
}
