import { spawnSync } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import path from "node:path";
import { type Browser, chromium } from "playwright-core";

/*
 * Debian's Chromium, for tests of the page. Where it's missing, root installs it; where it can't be had, the suites skip and say how
 * many tests they skipped, as those on PostgreSQL do.
 */

const INSTALL_LIMIT_MS = 300_000;
const PLACES = [
  process.env["CHROMIUM"] ?? "",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

function found(): string | undefined {
  return PLACES.find((place) => {
    if (!path.isAbsolute(place)) return false;
    try {
      accessSync(place, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function install(): void {
  if (process.getuid?.() !== 0) return;
  const until = Date.now() + INSTALL_LIMIT_MS;
  for (const args of [["update"], ["install", "-y", "--no-install-recommends", "chromium"]]) {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const apt = spawnSync("apt-get", args, { stdio: "ignore", env, timeout: Math.max(1, until - Date.now()) });
    if (apt.status !== 0) return;
  }
}

function program(): string | undefined {
  const there = found();
  if (there !== undefined) return there;
  install();
  return found();
}

/** The browser's program; undefined if it can't be had. */
export const CHROMIUM = program();

/** `describe`, or a `describe` that skips its tests, so that the report counts them. */
export const describeInBrowser = CHROMIUM === undefined ? describe.skip : describe;
if (CHROMIUM === undefined) process.stderr.write("Chromium can't be had here: the tests of the page are skipped.\n");

export async function launch(): Promise<Browser> {
  // Root, as in a container, can't have Chromium's sandbox.
  const args = ["--disable-gpu", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
  return chromium.launch({ ...(CHROMIUM !== undefined && { executablePath: CHROMIUM }), args });
}

/** axe-core, to be evaluated in a page: its policy forbids scripts from elsewhere, and `evaluate` isn't one. */
export const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
