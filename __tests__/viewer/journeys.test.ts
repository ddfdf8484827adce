import { readFileSync } from "node:fs";
import path from "node:path";
import type { Page } from "playwright-core";
import { openSaver } from "../support/open-saver";
import { describeInBrowser } from "../support/chromium";
import {
  buildPage,
  closeAll,
  closeBrowser,
  type Colours,
  copyOf,
  focused,
  LIGHTHOUSE,
  lighthouse,
  loggedErrors,
  place,
  press,
  see,
  type Served,
  tabTo,
  turnsWeb,
  until,
  violations,
  visit,
} from "./browsing";
import { makeNested } from "./page-world";

/*
 * Twelve ways through the page of `turns web`, in Chromium, by keys alone, in light and in dark colours. axe-core finds nothing on
 * the way.
 */

let original = "";

beforeAll(async () => {
  buildPage();
  original = lighthouse();
}, 400_000);
afterEach(async () => {
  await closeAll();
  expect(loggedErrors()).toEqual([]);
});
afterAll(closeBrowser);

jest.setTimeout(300_000);

/** A copy of the database behind the program, and the page on it. */
async function opened(colours: Colours, ...options: string[]): Promise<{ page: Page; served: Served; file: string }> {
  const file = copyOf(original);
  const served = await turnsWeb(file, ...options);
  return { page: await visit(served, { colours }), served, file };
}

/** Goes to a thread by keys: the list is a list of links. */
async function toThread(page: Page, threadId: string): Promise<void> {
  await see(page, threadId, "nav");
  for (let count = 0; count < 10 && place(page)["thread"] !== threadId; count += 1) {
    const before = place(page)["thread"];
    await press(page, "n");
    await until("the next thread", async () => place(page)["thread"] !== before, 3_000).catch(() => undefined);
  }
  await page.locator("main h1", { hasText: threadId }).waitFor();
}

const clean = async (page: Page): Promise<void> => expect(await violations(page)).toEqual([]);

describeInBrowser.each(["light", "dark"] as const)("S10.2 the page in %s colours, by keyboard", (colours) => {
  it("S10.2 tells of a crashed agent what it did, what is in flight, and what is in doubt", async () => {
    const { page, file } = await opened(colours);
    // What needs somebody is shown at once.
    await see(page, "work_b, since", ".answers");
    await see(page, /Finished 3 tasks/, ".answers");
    await see(page, /Process \d+.* is gone/, ".answers");
    await see(page, "in flight", "aside h2");
    await see(page, "letter · number of keepers", "aside");
    await see(page, "in doubt", "aside .effect");
    // Without the graph nobody knows whether the letter has a probe: the plan of a resume tells.
    await see(page, "Yes, if a probe settles letter", ".answers");
    // A command that is copied works in the folder where the page was started, on the database that it was started with.
    await see(page, `turns ${file} resume lighthouse --graph MODULE#EXPORT`, ".answers");
    await see(page, "MODULE#EXPORT: your graph's file and its export", ".answers");
    await tabTo(page, /^To do it from this page$/);
    await press(page, "Enter");
    await see(page, `turns ${file} web --write --graph MODULE#EXPORT`, ".answers");
    // What isn't in sight scrolls in its pane, never the page.
    expect(await page.evaluate("document.documentElement.scrollHeight <= innerHeight")).toBe(true);
    await clean(page);
    // Read-only: the command can be copied, and there is no button that changes anything.
    await tabTo(page, /^Copy$/);
    expect(await page.locator("button.action").count()).toBe(0);
  });

  it("S10.2 leads from a crashed agent to a resumed one", async () => {
    const { page, file } = await opened(colours, "--write", "--graph", LIGHTHOUSE);
    await see(page, "work_b, since", ".answers");
    await see(page, "Yes. It runs work_b again", ".answers");
    await see(page, /^The probe of effect "letter" is asked/, ".answers");
    await tabTo(page, /^Resume …$/);
    await press(page, "Enter");
    await see(page, "To confirm, type the thread's id", "dialog");
    await clean(page);
    // What is typed goes into the field at once. Without the thread's id nothing happens.
    expect(await focused(page)).toMatch(/^To confirm/);
    await page.keyboard.type("light");
    await press(page, "Enter");
    await see(page, /^Type the thread.s id:/, "dialog");
    await page.keyboard.type("house");
    await press(page, "Enter");
    await page.locator("dialog").waitFor({ state: "detached" });
    // It's live: nobody reloads.
    await see(page, "finished", "main .title");
    await see(page, /^Nothing/, ".answers");
    // What was resumed is followed.
    await see(page, "review", "aside h2");
    await clean(page);
    const letters = readFileSync(path.join(path.dirname(file), "letters.txt"), "utf8")
      .trim()
      .split("\n");
    expect(letters.filter((line) => line.endsWith("number of keepers"))).toHaveLength(1);
    expect(letters).toHaveLength(6);
  });

  it("S10.2 leads from a wrong answer to the node that wrote it", async () => {
    const { page } = await opened(colours);
    await see(page, "work_b, since", ".answers");
    await press(page, "/");
    await page.keyboard.type("42 m");
    await press(page, "Enter");
    await see(page, /^Found in/, "main");
    await clean(page);
    // A text is told once: by the turn that returned it, not again by the state that has it since.
    expect(await page.locator(".match", { hasText: "sources differ on its height" }).count()).toBe(1);
    await tabTo(page, /sources differ on its height/);
    await press(page, "Enter");
    await see(page, "review", "aside h2");
    await see(page, "37 m and 42 m", "aside .panel");
    await press(page, "2");
    await see(page, "State", "aside [aria-selected=true]");
    // The channel's history leads to the turn that wrote it.
    await tabTo(page, /^Who wrote it\? messages$/);
    await press(page, "Enter");
    await see(page, "appended", "aside .blame");
    expect(place(page)["channel"]).toBe("messages");
    await clean(page);
    await tabTo(page, /^review, turn \d+$/);
    await press(page, "Enter");
    await see(page, "review", "aside h2");
    await see(page, "37 m and 42 m", "aside .diff");
    await see(page, "3-extract", "aside .head");
    expect(place(page)["tab"]).toBe("diff");
    await clean(page);
  });

  it("S10.2 leads from a rewind's dry run to the rewind and back", async () => {
    const { page } = await opened(colours, "--write");
    await toThread(page, "nightly-report");
    await press(page, "r");
    await see(page, "What would a rewind undo?", ".view");
    await tabTo(page, /Back to the end of task/);
    await page.keyboard.type("monday");
    await press(page, "Enter");
    await until("the plan of monday", async () => place(page)["task"] === "monday");
    await see(page, /Deletes 2 tasks \(tuesday and wednesday\)/, ".plan-card");
    await clean(page);
    await tabTo(page, /^Rewind …$/);
    await press(page, "Enter");
    await tabTo(page, /^To confirm/);
    await page.keyboard.type("nightly-report");
    await press(page, "Enter");
    await page.locator("dialog").waitFor({ state: "detached" });
    await see(page, "1 task", "main .title");
    // The turn that was on the screen is gone, and that is no error.
    await see(page, "write", "aside h2");
    // The rewind that was done before has no button any more: the new one comes first.
    await see(page, "Take that one back first", '[aria-label="Rewind to tuesday"]');
    await clean(page);
    await tabTo(page, /^Take back …$/);
    await press(page, "Enter");
    await see(page, "Take back the rewind to monday", "dialog");
    await tabTo(page, /^To confirm/);
    await page.keyboard.type("nightly-report");
    await press(page, "Enter");
    await page.locator("dialog").waitFor({ state: "detached" });
    await see(page, "3 tasks", "main .title");
    await see(page, "taken-back", ".view");
    await clean(page);
  });

  it("S10.2 answers a question", async () => {
    const { page } = await opened(colours, "--write", "--graph", `${LIGHTHOUSE}#invoice`);
    await toThread(page, "invoice-2217");
    await see(page, "Approve €1,240?", "aside .question");
    await tabTo(page, /^Answer …$/);
    await press(page, "Enter");
    await see(page, "Approve €1,240?", "dialog");
    await tabTo(page, /^Your answer$/);
    // JSON that isn't complete is no text.
    await page.keyboard.type('{"yes"');
    await see(page, "Not JSON yet.", "dialog");
    for (let typed = 0; typed < 6; typed += 1) await press(page, "Backspace");
    await page.keyboard.type("yes");
    await see(page, 'text: "yes"', "dialog");
    await clean(page);
    await tabTo(page, /^To confirm/);
    await page.keyboard.type("invoice-2217");
    await press(page, "Enter");
    await page.locator("dialog").waitFor({ state: "detached" });
    await see(page, "finished", "main .title");
    // The newest turn has its effect.
    await press(page, "j", "j", "j", "j");
    await see(page, "pay", "aside h2");
    await see(page, '{"paid":1240}', "aside .effect");
    await clean(page);
  });

  it("S10.2 settles an effect in doubt", async () => {
    const { page } = await opened(colours, "--write");
    await see(page, "letter · number of keepers", "aside");
    await tabTo(page, /^Settle by hand …$/);
    await press(page, "Enter");
    await see(page, "Ask the receiver first whether it has key", "dialog");
    await see(page, "What happened?", "dialog");
    await tabTo(page, /^It happened/);
    await press(page, "Space");
    await see(page, "If empty, a resume gets no result", "dialog");
    await tabTo(page, /^Its receipt/);
    await page.keyboard.type("no. 5");
    await clean(page);
    await tabTo(page, /^To confirm/);
    await page.keyboard.type("lighthouse");
    await press(page, "Enter");
    await page.locator("dialog").waitFor({ state: "detached" });
    await see(page, '"no. 5"', "aside .effect");
    await see(page, "settled by a person", "aside .effect");
    await see(page, "crashed", "main .title");
    await clean(page);
  });

  it("S10.2 shows an error with its stack", async () => {
    const { page } = await opened(colours);
    await toThread(page, "support-880");
    await see(page, "429 Too Many Requests", "nav");
    await see(page, "Error", "aside [aria-selected=true]");
    await see(page, "429 Too Many Requests", "aside .error-card");
    await see(page, /Error/, "aside .error-card .top");
    await see(page, /at .*examples\/lighthouse\/agent\.ts:\d+/, "aside .stack-trace");
    await tabTo(page, /^Copy$/);
    await clean(page);
  });

  it("S10.2 walks through turns, and the difference follows; the address names what is on screen", async () => {
    const { page } = await opened(colours);
    await see(page, "in flight", "aside h2");
    await press(page, "3");
    await see(page, "State since the turn before", "aside");
    await press(page, "T", "T");
    await see(page, "2-read", "aside .head").catch(() => see(page, "3-extract", "aside .head"));
    await press(page, "k");
    const before = page.url();
    await press(page, "j", "j");
    await until("another turn", async () => page.url() !== before);
    await press(page, "d");
    await until("the choice of turns", async () => (await page.evaluate("document.activeElement.id")) === "diff-with");
    await press(page, "ArrowDown", "ArrowDown");
    await until("a difference with another turn", async () => place(page)["with"] !== undefined);
    await see(page, `State since turn ${place(page)["with"]}`, "aside");
    await clean(page);
    const [address, text] = [page.url(), await page.locator("aside .panel").innerText()];
    // The same address shows the same.
    await page.reload();
    await see(page, `State since turn ${place(page)["with"]}`, "aside");
    await until("the same", async () => (await page.locator("aside .panel").innerText()) === text);
    expect(page.url()).toBe(address);
    await page.goBack();
    expect(page.url()).not.toBe(address);
  });

  it("S10.2 draws the recorded graph, and zooms into a nested one", async () => {
    const file = copyOf(original);
    await makeNested(file);
    const page = await visit(await turnsWeb(file), { colours });
    await toThread(page, "nested");
    await press(page, "g");
    await see(page, "As it was recorded", ".graph");
    const svg = page.locator("svg.drawing");
    expect(await svg.locator("title").first().textContent()).toBe("Graph of thread nested");
    expect(await svg.locator("desc").textContent()).toMatch(/Ran: research and write\./);
    expect(await svg.locator(".edge.taken").count()).toBe(3);
    await clean(page);
    await tabTo(page, /^research .*zoom into/);
    await press(page, "Enter");
    await until("inside", async () => place(page)["inside"] === "research");
    await tabTo(page, /^look .*show its newest turn/);
    await press(page, "Enter");
    await see(page, "research|look", "aside h2");
    // The timeline is zoomed, too.
    await press(page, "l");
    await see(page, "whole graph", ".crumbs");
    expect(await page.locator(".lane .node").allInnerTexts()).toEqual(["look", "judge"]);
    await clean(page);
    await press(page, "o");
    await until("out again", async () => place(page)["inside"] === undefined);
    expect(await page.locator(".lane").count()).toBe(4);
  });

  it("S10.2 shows how the graph of --graph differs from the one that was recorded", async () => {
    const { page } = await opened(colours, "--write", "--graph", `${path.join(__dirname, "drifted.mjs")}#report`);
    await toThread(page, "nightly-report");
    await press(page, "g");
    await see(page, "Drifted", ".drift");
    await see(page, "compared with the graph of --graph", ".drift");
    await see(page, /collect/, ".drift li");
    expect(await page.locator("svg.drawing .node-box.drifted").count()).toBeGreaterThan(0);
    await see(page, /drifted/, "svg.drawing");
    await clean(page);
  });

  it("S10.2 shows messages as a chat, with calls of tools beside their results, and the state as a tree", async () => {
    const { page } = await opened(colours);
    await see(page, "in flight", "aside h2");
    await press(page, "4");
    await see(page, "How high is the lighthouse of Hook Rock?", "aside .chat");
    const call = page.locator("aside .call").first();
    await call.waitFor();
    expect(await call.innerText()).toMatch(/search_archive[\s\S]*harbour board minutes[\s\S]*Found: harbour board minutes\./);
    await clean(page);
    await press(page, "2");
    await see(page, "messages", "aside .channel");
    await tabTo(page, /^▸0: \{|^▾0: \{/);
    await press(page, "ArrowRight", "ArrowRight");
    expect(await page.locator('aside [role="treeitem"][aria-level="2"]').count()).toBeGreaterThan(0);
    await clean(page);
    await press(page, "5");
    await see(page, "What went in", "aside");
    await press(page, "7");
    await see(page, "thoughtId", "aside");
    await clean(page);
  });

  it("S10.2 follows a running agent, and misses nothing over a lost connection", async () => {
    const { page, file } = await opened(colours);
    await see(page, "live", "header");
    await toThread(page, "nightly-report");
    await see(page, "3 tasks", "main .title");
    const { report } = await import("../../examples/lighthouse/agent");
    const saver = openSaver(file);
    const run = (day: string): Promise<unknown> =>
      report(saver).invoke({ day, messages: [] }, { configurable: { thread_id: "nightly-report", task_id: day } });
    await run("friday");
    await see(page, "friday", ".lanes");
    await see(page, "4 tasks", "main .title");
    await page.context().setOffline(true);
    await run("saturday");
    await page.context().setOffline(false);
    await see(page, "saturday", ".lanes");
    await see(page, "5 tasks", "main .title");
    await (saver.close() as unknown);
    await clean(page);
  });

  it("S10.2 is set by keys: time zone, colours, list, zoom of 200 %, a bundle for a bug report", async () => {
    const file = copyOf(original);
    const page = await visit(await turnsWeb(file), { colours, zoom: 2 });
    await see(page, "work_b, since", ".answers");
    // Nothing is cut off, and nothing scrolls sideways.
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    await clean(page);
    const started = (): Promise<string> => page.locator("main .title time").innerText();
    const here = await started();
    await press(page, "u");
    await until("UTC", async () => (await started()) !== here);
    await press(page, "c");
    expect(await page.evaluate("document.documentElement.dataset.theme")).toBe("light");
    await press(page, "c");
    expect(await page.evaluate("getComputedStyle(document.documentElement).colorScheme")).toBe("dark");
    await clean(page);
    await press(page, "?");
    await see(page, "Keys and signs", "dialog");
    await clean(page);
    await press(page, "Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    await tabTo(page, /^Only threads whose id contains$/);
    await page.keyboard.type("support");
    await until("two threads", async () => (await page.locator("nav a.thread").count()) === 2);
    expect(place(page)["search"]).toBe("support");
    await tabTo(page, /^Status$/);
    await page.keyboard.type("failed");
    await until("one thread", async () => (await page.locator("nav a.thread").count()) === 1);
    await clean(page);
    await tabTo(page, /^Bundle for a bug report$/);
    const download = page.waitForEvent("download");
    await press(page, "Enter");
    const saved = await (await download).path();
    const bundle = readFileSync(saved, "utf8");
    expect(JSON.parse(bundle)).toMatchObject({ format: 1 });
    expect(bundle).not.toContain("Hook Rock");
  });
});
