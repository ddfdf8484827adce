import { execFile, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readFileSync, statSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { tempPlace } from "../temp";

const SCRIPT = fileURLToPath(new URL("../../../scripts/postgres.mjs", import.meta.url));

/** Where this machine has the programs of PostgreSQL and PgBouncer. */
export interface Programs {
  /** The folder of `initdb`, `pg_ctl` and `postgres`. */
  readonly server?: string;
  readonly pgbouncer?: string;
}

/** Looks for the programs. @param install whether Debian's packages may be installed, which takes root and minutes */
export function programs(install = false): Programs {
  const args = [SCRIPT, ...(install ? ["--install"] : [])];
  try {
    return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }));
  } catch {
    return {};
  }
}

/** Neither program runs as root: who they run as instead, and in which folder. */
export interface Sandbox {
  /** Fresh, and the user's own. */
  readonly folder: string;
  /** Undefined if this process isn't root, and the programs run as its own user. */
  readonly user: { readonly uid: number; readonly gid: number } | undefined;
}

/** A fresh folder for a program, and the user that it runs as. Unless it's to be on a disk, it's in memory if there is room. */
export function sandbox(name: string, isOnDisk = false): Sandbox {
  const user = process.getuid?.() === 0 ? otherUser() : undefined;
  const place = [...(isOnDisk ? ["/var/tmp"] : [tempPlace(), tmpdir(), "/tmp"]), "/var/tmp"].find(
    (each) => user === undefined || mayEnter(each),
  );
  const folder = mkdtempSync(join(place ?? "/tmp", `turns-${name}-`));
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  return { folder, user };
}

/** Debian's `postgres`, or `nobody`. */
function otherUser(): { uid: number; gid: number } {
  const rows = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .map((line) => line.split(":"));
  const row = rows.find(([name]) => name === "postgres") ?? rows.find(([name]) => name === "nobody");
  return { uid: Number(row?.[2] ?? 65_534), gid: Number(row?.[3] ?? 65_534) };
}

/** Whether every user may enter a folder and those around it. */
function mayEnter(folder: string): boolean {
  if (!existsSync(folder) || (statSync(folder).mode & 0o001) === 0) return false;
  return folder === dirname(folder) || mayEnter(dirname(folder));
}

/** Signals the process that a pid file names, waits for its end, and removes the folder. */
const LAST = `cat > /dev/null
pid=$(head -n 1 "$0/$1") && kill -s "$2" "$pid" && while [ -e "$0/$1" ] && kill -0 "$pid"; do sleep 0.02; done
rm -rf "$0"`;

/**
 * Sees to it that a daemon stops and its folder is removed when this process stops, even if that is killed.
 *
 * @param pidFile in the folder; its first line is the daemon's process id
 * @returns stops the daemon, and resolves when the folder is gone
 */
export function keeper(folder: string, pidFile: string, signal: string): () => Promise<void> {
  // A shell that outlives us: its input ends when we do. In a group of its own, so that Ctrl-C stops us alone.
  const shell = spawn("/bin/sh", ["-c", LAST, folder, pidFile, signal], { detached: true, stdio: ["pipe", "ignore", "ignore"] });
  const gone = new Promise<void>((done) => shell.once("exit", () => done()));
  shell.unref();
  (shell.stdin as Socket).unref();
  return async () => {
    shell.ref();
    shell.stdin.end();
    await gone;
  };
}

/** Runs a program in its sandbox. @throws if it fails, with what it printed */
export async function run({ folder, user }: Sandbox, program: string, ...args: string[]): Promise<string> {
  return new Promise((done, failed) => {
    execFile(program, args, { cwd: folder, ...user, timeout: 120_000 }, (error, stdout, stderr) => {
      if (error === null) done(stdout);
      else failed(new Error(`${program} failed: ${stdout}${stderr}`, { cause: error }));
    });
  });
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}
