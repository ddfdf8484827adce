import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { copyFileSync, cpSync, existsSync } from "node:fs";
import path from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { quickProgram } from "../cli/built";
import { builtOnce } from "../support/built-once";
import { AXE, launch } from "../support/chromium";
import { tempFile } from "../support/temp";

/*
 * The program `turns web` on real databases, and a browser that is steered by keys alone.
 */

const ROOT = path.join(__dirname, "..", "..");
/** The graphs of examples/lighthouse, for `--graph`. */
export const LIGHTHOUSE = path.join(__dirname, "graph.mjs");

const env = (more: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({ ...process.env, NODE_OPTIONS: "", TZ: "Europe/Berlin", ...more });
const TSX = ["--import", "tsx"];
/** How long a page may take on a busy machine. */
const WAIT_MS = 60_000;

/** The program `turns` as it's built. It starts in a quarter of the time that the sources take. */
let program = "";

/** Builds the program, and the page where it looks for it: beside itself, or in dist/ when it runs from the sources. */
export function buildPage(): void {
  program = quickProgram();
  const build = (): void => {
    execFileSync(process.execPath, [path.join(ROOT, "scripts", "viewer.mjs")], { cwd: ROOT, stdio: "pipe", env: env({}) });
    cpSync(path.join(ROOT, "dist", "viewer"), path.join(path.dirname(program), "viewer"), { recursive: true });
  };
  if (builtOnce("page", build) === undefined) build();
}

/** A database with the five threads of examples/lighthouse: in doubt, left, waiting, failed, finished. */
export function lighthouse(): string {
  const file = tempFile();
  const run = path.join(ROOT, "examples", "lighthouse", "run.ts");
  execFileSync(process.execPath, [...TSX, run, file], { cwd: ROOT, stdio: "pipe", env: env({}) });
  return file;
}

/** A copy of a database that nobody has open, with the post office beside it. */
export function copyOf(file: string): string {
  const copy = tempFile();
  copyFileSync(file, copy);
  const letters = path.join(path.dirname(file), "letters.txt");
  if (existsSync(letters)) copyFileSync(letters, path.join(path.dirname(copy), "letters.txt"));
  return copy;
}

export interface Served {
  /** It lets one browser in, once. */
  link: string;
  origin: string;
  child: ChildProcess;
  /** What it said on stderr. */
  said: () => string;
}

const running: ChildProcess[] = [];

/** Starts the program `turns web`. With a graph it runs from the sources: the graph's module has the package from there. */
export async function turnsWeb(file: string, ...options: string[]): Promise<Served> {
  const letters = path.join(path.dirname(file), "letters.txt");
  const turns = options.includes("--graph") ? [...TSX, path.join(ROOT, "src", "cli", "index.ts")] : [program];
  const args = [...turns, "--db", file, "web", ...options];
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: env({ LETTERS: letters, SEARCH: "ready" }),
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.push(child);
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
  const link = await new Promise<string>((resolve, reject) => {
    let out = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      out += text;
      const found = /http:\S+/.exec(out)?.[0];
      if (found !== undefined) resolve(found);
    });
    child.on("exit", (code) => reject(new Error(`turns web ended with ${code}: ${said}`)));
  });
  return { link, origin: new URL(link).origin, child, said: () => said };
}

export async function stop({ child }: Served): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

let browser: Browser | undefined;
const contexts: BrowserContext[] = [];

export type Colours = "light" | "dark";

export interface View {
  colours?: Colours;
  width?: number;
  height?: number;
  /** How far the page is zoomed in: 2 is 200 %. */
  zoom?: number;
}

/** Opens the page. What it logs as an error fails the test, at the end. */
export async function visit(
  { link }: Served,
  { colours = "light", width = 1440, height = 900, zoom = 1 }: View = {},
): Promise<Page> {
  browser ??= await launch();
  const context = await browser.newContext({
    viewport: { width: Math.round(width / zoom), height: Math.round(height / zoom) },
    deviceScaleFactor: zoom,
    ...{ colorScheme: colours, reducedMotion: "reduce", acceptDownloads: true, timezoneId: "Europe/Berlin" },
  });
  contexts.push(context);
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // What can't be had is told by the browser too: the page shows it.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) errors.push(message.text());
  });
  await page.goto(link);
  return page;
}

const errors: string[] = [];

/** What pages logged as errors since the last call. */
export const loggedErrors = (): string[] => errors.splice(0);

/** Ends what a test left open. */
export async function closeAll(): Promise<void> {
  for (const context of contexts.splice(0)) await context.close().catch(() => undefined);
  for (const child of running.splice(0)) if (child.exitCode === null) child.kill("SIGKILL");
}

export async function closeBrowser(): Promise<void> {
  await closeAll();
  await browser?.close();
  browser = undefined;
}

/** Waits until a text can be seen. */
export async function see(page: Page, text: string | RegExp, within = "body"): Promise<void> {
  await page.locator(within).getByText(text).filter({ visible: true }).first().waitFor();
}

/** Waits until something holds in the page. */
export async function until(what: string, holds: () => Promise<boolean>, ms = WAIT_MS): Promise<void> {
  const end = Date.now() + ms;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`It never came to this: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** How a person who hears the page would call what has the focus. */
export const focused = (page: Page): Promise<string> =>
  page.evaluate(`(() => {
    const at = document.activeElement;
    if (at === null) return "";
    const ids = (at.getAttribute("aria-labelledby") ?? "").split(" ").filter((id) => id !== "");
    const labels = ids.length > 0 ? ids.map((id) => document.getElementById(id)) : [...(at.labels ?? [])];
    const named = at.getAttribute("aria-label") ?? labels.map((label) => label?.textContent).join(" ");
    return (named || at.textContent).replaceAll(/\\s+/g, " ").trim();
  })()`);

const MOST_TABS = 120;

/** Goes there by Tab. */
export async function tabTo(page: Page, name: RegExp, key: "Tab" | "Shift+Tab" = "Tab"): Promise<void> {
  const passed: string[] = [];
  for (let count = 0; count < MOST_TABS; count += 1) {
    await page.keyboard.press(key);
    const at = await focused(page);
    if (name.test(at)) return;
    passed.push(at.slice(0, 40));
  }
  throw new Error(`No ${String(name)} within ${MOST_TABS} tabs: ${passed.slice(0, 60).join(" | ")}`);
}

/** Presses keys, one after the other. */
export async function press(page: Page, ...keys: string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key);
}

/** What axe-core finds on the page as it is now: one line for each element. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return page.evaluate(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => id + ": " + target.join(" ") + ": " + failureSummary)))`);
}

/** The parameters of the page's address. */
export const place = (page: Page): Record<string, string> => Object.fromEntries(new URL(page.url()).searchParams);
