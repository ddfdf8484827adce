import { execFileSync } from "node:child_process";
import { connect } from "node:net";
import { chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort, keeper, programs, run, sandbox } from "./programs";

/** PgBouncer in transaction mode in front of a server. It stops with this process, even if that is killed. */
export interface Pooler {
  /** The same database through the pooler. */
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts PgBouncer as it's hardest on clients: transactions of one client run on several connections, few connections, and no prepared
 * statements.
 *
 * @param url of the server's database
 * @throws if PgBouncer isn't installed, or doesn't start
 */
export async function startPgBouncer(url: string, { poolSize = 3 }: { poolSize?: number } = {}): Promise<Pooler> {
  const { pgbouncer } = programs();
  if (pgbouncer === undefined) throw new Error("PgBouncer was not found");
  const target = new URL(url);
  const [user, password] = [decodeURIComponent(target.username), decodeURIComponent(target.password)];
  const box = sandbox("pgbouncer");
  const stop = keeper(box.folder, "pid", "TERM");
  try {
    const port = await freePort();
    const settings = {
      listen_addr: "127.0.0.1",
      listen_port: port,
      unix_socket_dir: "",
      pool_mode: "transaction",
      default_pool_size: poolSize,
      max_client_conn: 500,
      auth_type: password === "" ? "trust" : "scram-sha-256",
      auth_file: join(box.folder, "users"),
      pidfile: join(box.folder, "pid"),
      logfile: join(box.folder, "log"),
      // Older versions have no prepared statements in this mode, and no such setting.
      ...(hasPreparedStatements(pgbouncer) && { max_prepared_statements: 0 }),
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
    const databases = `* = host=${target.hostname} port=${target.port || 5432}`;
    const write = (name: string, text: string): void => {
      writeFileSync(join(box.folder, name), text, { mode: 0o600 });
      if (box.user !== undefined) chownSync(join(box.folder, name), box.user.uid, box.user.gid);
    };
    write("users", `"${user}" "${password}"\n`);
    write("settings", `[databases]\n${databases}\n[pgbouncer]\n${lines.join("\n")}\n`);
    await run(box, pgbouncer, "-q", "-d", join(box.folder, "settings"));
    await listens(port);
    return { url: Object.assign(new URL(url), { hostname: "127.0.0.1", port: String(port) }).href, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** PgBouncer 1.21 and newer. */
function hasPreparedStatements(pgbouncer: string): boolean {
  const [, major, minor] = /(\d+)\.(\d+)/.exec(execFileSync(pgbouncer, ["--version"], { encoding: "utf8" })) ?? [];
  return Number(major) > 1 || Number(minor) >= 21;
}

/** Resolves when somebody listens on a port. @throws if nobody does for fifty seconds or longer */
async function listens(port: number): Promise<void> {
  for (let tries = 1_000; tries > 0; tries -= 1) {
    const isThere = await new Promise<boolean>((done) => {
      const socket = connect(port, "127.0.0.1", () => done(true)).on("error", () => done(false));
      socket.unref();
      setTimeout(() => socket.destroy(), 50);
    });
    if (isThere) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`nobody listens on port ${port}`);
}
