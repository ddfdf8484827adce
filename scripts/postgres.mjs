/**
 * What the tests on PostgreSQL need: the programs of PostgreSQL and PgBouncer.
 *
 *   node scripts/postgres.mjs --install   installs Debian's packages where they are missing; ends with 3 if they can't be had
 *   node scripts/postgres.mjs             says which programs were found
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants, readdirSync, realpathSync } from "node:fs";
import path from "node:path";

const INSTALL_LIMIT_MS = 300_000;
const DEBIAN = "/usr/lib/postgresql";

/** The folders in which programs are looked for, with the newest of Debian's versions behind those in PATH. */
function folders() {
  let versions = [];
  try {
    versions = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a));
  } catch {
    // Not Debian, or not installed.
  }
  const inPath = (process.env.PATH ?? "").split(path.delimiter).filter((folder) => folder !== "");
  return [...inPath, ...versions.map((version) => path.join(DEBIAN, version, "bin")), "/usr/sbin", "/usr/local/sbin"];
}

/** The real path of a program, or undefined. */
function programNamed(name) {
  for (const folder of folders()) {
    try {
      accessSync(path.join(folder, name), constants.X_OK);
      return realpathSync(path.join(folder, name));
    } catch {
      // Not there.
    }
  }
  return undefined;
}

/** Where the server's programs are: the folder that has all three. */
function found() {
  const initdb = programNamed("initdb");
  return { server: initdb && programNamed("postgres") && path.dirname(initdb), pgbouncer: programNamed("pgbouncer") };
}

function install() {
  if (process.getuid?.() !== 0) throw new Error("only root can install Debian's packages");
  // RUNLEVEL=1 keeps the packages from starting services of their own.
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  const until = Date.now() + INSTALL_LIMIT_MS;
  for (const args of [["update"], ["install", "-y", "--no-install-recommends", "postgresql", "pgbouncer"]]) {
    const apt = spawnSync("apt-get", args, { stdio: ["ignore", 2, 2], env, timeout: Math.max(1, until - Date.now()) });
    if (apt.status !== 0) throw new Error(`apt-get ${args[0]} failed${apt.error === undefined ? "" : `: ${apt.error.message}`}`);
  }
}

let programs = found();
if (process.argv.includes("--install") && !(programs.server && programs.pgbouncer)) {
  try {
    install();
    programs = found();
  } catch (error) {
    console.error(`PostgreSQL: ${error.message}`);
  }
}
console.log(JSON.stringify(programs));
if (!programs.server) process.exit(3);
