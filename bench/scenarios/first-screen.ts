import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { type Browser, chromium } from "playwright-core";
import { ChainGraph, messagesOf } from "../drive/chain-graph";
import { withFolder } from "../measure/file-size";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

const PROGRAM = fileURLToPath(new URL("../../dist/cli.js", import.meta.url));
const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
export const FIRST_SCREEN = "first screen, new browser";
const AGAIN = "the same address again";
const WINDOW_MS = 2_000;
/** Each node execution is two turns. */
const THREADS = { "turns-10": 5, "turns-1000": 500 } as const;
export const LONG_SCREEN = "turns-1000";

/**
 * What somebody waits for who follows the link of `turns web`: from the click until the four answers, the timeline and the newest turn's
 * state are painted. The peer is the same page on a thread of ten turns.
 */
export const firstScreen: Scenario = {
  name: "first-screen",
  run: async ({ quick }): Promise<Result> => {
    const samples = new Samples();
    const contenders = Object.keys(THREADS).map(
      (id) => ({ id, name: `thread of ${id.slice(6)} turns` }) as Result["contenders"][number],
    );
    const result: Result = {
      name: "first-screen",
      title: "The first screen of `turns web`",
      ...{ contenders, samples, facts: {} },
      notes: [
        "Headless Chromium without a GPU, on this machine. Each time the program is started again, and the link is followed by a browser profile that has never seen the page.",
        "From following the link until the four answers, the timeline and the newest turn's detail are there and a frame with them was drawn.",
      ],
    };
    if (!existsSync(CHROMIUM) || !existsSync(PROGRAM)) {
      result.absent = [`first screen: needs ${existsSync(PROGRAM) ? "Chromium" : "the built package (npm run build)"}`];
      return result;
    }
    await withFolder(async (folder) => {
      for (const [id, nodes] of Object.entries(THREADS)) await written(join(folder, `${id}.db`), nodes);
      const args = ["--disable-gpu", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
      const browser = await chromium.launch({ executablePath: CHROMIUM, args });
      try {
        // The browser's own first page isn't this one's time.
        await (await browser.newPage()).goto("about:blank");
        for (let round = 0; round < (quick ? 3 : 15); round += 1)
          for (const id of Object.keys(THREADS)) await shown(browser, join(folder, `${id}.db`), id, samples);
      } finally {
        await browser.close();
      }
    });
    return result;
  },
};

async function shown(browser: Browser, file: string, id: string, samples: Samples): Promise<void> {
  const env = { ...process.env, NODE_OPTIONS: "" };
  const server = spawn(process.execPath, [PROGRAM, file, "web"], { env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [text] = (await once(server.stdout, "data")) as [Buffer];
    const context = await browser.newContext({ viewport: { width: 1_440, height: 900 } });
    const page = await context.newPage();
    await page.addInitScript(WATCH);
    // A new window of Chromium loads pages of its own, for its address bar: they aren't this one's time.
    await page.waitForTimeout(WINDOW_MS);
    for (const measured of [FIRST_SCREEN, AGAIN]) {
      await page.goto(measured === AGAIN ? page.url() : text.toString().trim());
      const handle = await page.waitForFunction(() => (globalThis as { shownAt?: number }).shownAt, undefined, {
        timeout: 20_000,
      });
      samples.add(measured, id, (await handle.jsonValue()) as number);
    }
    await context.close();
  } finally {
    server.kill("SIGTERM");
    await once(server, "exit");
  }
}

/** In the page: when all of the first screen was there, milliseconds since its link was followed. */
const WATCH = `
  const isThere = () =>
    document.querySelector("main h1") !== null &&
    document.querySelector(".answers") !== null &&
    document.querySelector(".bar") !== null &&
    document.querySelector("aside .panel > :not(.loading)") !== null &&
    document.querySelector(".loading") === null;
  const watcher = new MutationObserver(() => {
    if (!isThere()) return;
    watcher.disconnect();
    // Behind the frame that shows it.
    requestAnimationFrame(() => setTimeout(() => { window.shownAt = performance.now(); }));
  });
  watcher.observe(document, { subtree: true, childList: true, attributes: true });`;

async function written(path: string, nodes: number): Promise<void> {
  const saver = TurnSaver.fromPath(path);
  const graph = new ChainGraph({ saver, records: true });
  await graph.run("thread", messagesOf(nodes, nodes));
  await graph.checkTurns("thread");
  saver.close();
}
