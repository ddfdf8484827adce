import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { defineEffect, effect } from "langgraph-checkpoint-turns";
import type { Page, Request } from "playwright-core";
import { describeInBrowser } from "../support/chromium";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { buildPage, closeAll, closeBrowser, loggedErrors, place, see, turnsWeb, until, visit } from "./browsing";
import { makeThread } from "./page-world";

/* A page that is left open while somebody changes, prunes, rewinds, deletes or replaces what it shows. */

beforeAll(buildPage, 400_000);
afterEach(async () => {
  expect(loggedErrors()).toEqual([]);
  await closeAll();
});
afterAll(closeBrowser);

jest.setTimeout(300_000);

async function threads(...names: string[]): Promise<string> {
  const file = tempFile();
  const saver = openSaver(file);
  for (const name of names) await makeThread(saver, name, { text: name });
  await (saver.close() as unknown);
  return file;
}

async function pageOn(file: string, threadId: string): Promise<Page> {
  const served = await turnsWeb(file);
  const page = await visit(served);
  await see(page, "live", "header");
  await page.goto(`${served.origin}/?thread=${threadId}`);
  await page.locator("aside h2").waitFor();
  await see(page, "live", "header");
  return page;
}

describeInBrowser("S10.2 a page that is opened", () => {
  it("S10.2 asks for each of its first answers once: what the server names beside the page is what the script takes", async () => {
    const served = await turnsWeb(await threads("a", "b c"));
    const page = await visit(served);
    await see(page, "live", "header");
    for (const query of ["", "?thread=b+c", "?thread=a&status=finished&sort=created&search=a", "?thread=a&view=graph"]) {
      const asked: string[] = [];
      const hear = (request: Request): void => {
        // What the page before still asked for isn't counted.
        if (request.isNavigationRequest()) asked.length = 0;
        asked.push(new URL(request.url()).pathname);
      };
      page.on("request", hear);
      await page.goto(`${served.origin}/${query}`);
      await page.locator("main h1").waitFor();
      await see(page, "live", "header");
      const first = [
        "/api/server",
        "/api/threads",
        ...(query === "" ? [] : [`/api/threads/${query.includes("+") ? "b%20c" : "a"}`]),
      ];
      // An answer is listed when all of it is there.
      await page.waitForFunction((addresses) => {
        const links = performance
          .getEntriesByType("resource")
          .filter((entry) => (entry as { initiatorType?: string }).initiatorType === "link")
          .map(({ name }) => new URL(name).pathname);
        return addresses.every((address) => links.includes(address));
      }, first);
      page.off("request", hear);
      for (const address of first) expect(asked.filter((one) => one === address)).toEqual([address]);
    }
  });
});

describeInBrowser("S10.2 a thread with many attempts", () => {
  it("S10.2 shows the newest first, and the others as soon as these are there", async () => {
    const file = await threads("a");
    const saver = openSaver(file);
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("count", ({ n }) => ({ n: n + 1 }))
      .addEdge(START, "count")
      .addConditionalEdges("count", ({ n }) => (n < 80 ? "count" : END))
      .compile({ checkpointer: saver });
    await saver.attach(graph).invoke({ n: 0 }, { configurable: { thread_id: "many" }, recursionLimit: 100 });
    await (saver.close() as unknown);
    const served = await turnsWeb(file);
    const page = await visit(served);
    const areAllThere = async (): Promise<boolean> => (await page.locator(".lanes .bar").count()) === 80;
    // The first page shows the same thread: what it still asks for isn't counted.
    await until("all attempts of the first page", areAllThere);
    const asked: string[] = [];
    page.on("request", (request) => void asked.push(new URL(request.url()).search));
    await page.goto(`${served.origin}/?thread=many`);
    await until("all attempts", areAllThere);
    expect(asked.filter((query) => query.startsWith("?limit=") && query !== "?limit=100")).toEqual(["?limit=60", "?limit=200"]);
    await see(page, "count", "aside .head");
  });
});

describeInBrowser("S10.2 a change whose answer is cut off", () => {
  it.each([5, -5])(
    "S10.2 is told neither as done nor as failed: the page looks up what happened, also if its clock is off by %i h",
    async (hours) => {
      const file = await threads("a");
      const saver = openSaver(file);
      const { report } = await import("../../examples/lighthouse/agent");
      for (const day of ["monday", "tuesday"])
        await report(saver).invoke({ day, messages: [] }, { configurable: { thread_id: "days", task_id: day } });
      await (saver.close() as unknown);
      const served = await turnsWeb(file, "--write");
      const page = await visit(served);
      await page.clock.setFixedTime(Date.now() + hours * 3_600_000);
      await page.goto(`${served.origin}/?thread=days&view=rewind&task=monday`);
      // The change is made, and the connection is lost before its answer has come.
      await page.route("**/rewind", async (route) => {
        if (route.request().method() !== "POST") return route.continue();
        await route.fetch();
        return route.abort("connectionreset");
      });
      await page.getByRole("button", { name: "Rewind …" }).focus();
      await page.keyboard.press("Enter");
      await page.locator("dialog input[name=confirm]").fill("days");
      await page.keyboard.press("Enter");
      await see(page, "this page can't tell whether it was done", "dialog");
      await see(page, /The database says: The rewind to monday is done\.$/, "dialog");
    },
  );
});

describeInBrowser("S10.2 the dialog of a change", () => {
  it("S10.2 takes a thread's id as the page shows it: with a space for a line end", async () => {
    const file = await threads("a");
    const saver = openSaver(file);
    const { report } = await import("../../examples/lighthouse/agent");
    const threadId = "two\nlines   and \u200bmore";
    for (const day of ["monday", "tuesday"])
      await report(saver).invoke({ day, messages: [] }, { configurable: { thread_id: threadId, task_id: day } });
    await (saver.close() as unknown);
    const served = await turnsWeb(file, "--write");
    const page = await visit(served);
    await page.goto(`${served.origin}/?thread=${encodeURIComponent(threadId)}&view=rewind&task=monday`);
    await page.getByRole("button", { name: "Rewind …" }).focus();
    await page.keyboard.press("Enter");
    await page.locator("dialog input[name=confirm]").fill("two lines and ZWSPmore");
    await page.keyboard.press("Enter");
    await page.locator("dialog").waitFor({ state: "detached" });
    await see(page, "Rewound to monday");
  });
});

describeInBrowser("S10.2 the dialog of a rewind without a graph", () => {
  it.each([
    ["has no undo", false],
    ["its undo, if it has one, needs --graph", true],
  ])("S10.2 says how undos are called only if they are in your code: %s", async (words, isInCode) => {
    const file = await threads("a");
    // The page is another process, which doesn't know what is defined here.
    const defined = defineEffect("open-page-pay", { run: (_: object) => null, undo: () => undefined });
    const pay = isInCode ? defined : () => effect("pay", () => null);
    const saver = openSaver(file);
    const graph = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("pay", async () => {
        await pay({});
        return {};
      })
      .addEdge(START, "pay")
      .addEdge("pay", END)
      .compile({ checkpointer: saver });
    for (const task of ["one", "two"])
      await saver.attach(graph).invoke({ n: 1 }, { configurable: { thread_id: "paid", task_id: task } });
    await (saver.close() as unknown);
    const served = await turnsWeb(file, "--write");
    const page = await visit(served);
    await page.goto(`${served.origin}/?thread=paid&view=rewind&task=one`);
    await see(page, words, ".undos");
    await page.getByRole("button", { name: "Rewind …" }).focus();
    await page.keyboard.press("Enter");
    await see(page, "Leave effects that can't be undone here as they are", "dialog");
    expect(await page.locator("dialog").innerText()).toEqual(
      isInCode ? expect.stringContaining("Undos are in your code.") : expect.not.stringContaining("in your code"),
    );
  });
});

describeInBrowser("S10.2 a page that is left open", () => {
  it("S10.2 says that its turn is gone when the thread is rewound, and shows what is there", async () => {
    const file = await threads("a");
    const saver = openSaver(file);
    const { report } = await import("../../examples/lighthouse/agent");
    for (const day of ["monday", "tuesday"])
      await report(saver).invoke({ day, messages: [] }, { configurable: { thread_id: "days", task_id: day } });
    const page = await pageOn(file, "days");
    await see(page, "tuesday", "aside .head");
    await saver.rewind({ threadId: "days", toTask: "monday" });
    await see(page, "This turn isn't there any more", "aside");
    await until("tuesday's lanes are gone", async () => !(await page.locator(".lanes").innerText()).includes("tuesday"));
    await page.getByRole("button", { name: "Show the newest turn" }).focus();
    await page.keyboard.press("Enter");
    await see(page, "monday", "aside .head");
    await (saver.close() as unknown);
  });

  it("S10.2 keeps no connection while its tab is hidden, so that many can be open, and then shows what it missed", async () => {
    const file = await threads("a");
    const first = await pageOn(file, "a");
    const turn = (page: Page, hidden: boolean): Promise<void> =>
      page.evaluate(`
        Object.defineProperty(document, "hidden", { configurable: true, value: ${String(hidden)} });
        document.dispatchEvent(new Event("visibilitychange"));
      `);
    await turn(first, true);
    // A browser has six connections to one server.
    for (let tab = 0; tab < 7; tab += 1) {
      const page = await first.context().newPage();
      await page.goto(first.url(), { timeout: 20_000 });
      await see(page, "live", "header");
      await turn(page, true);
    }
    const saver = openSaver(file);
    await makeThread(saver, "later", { text: "later" });
    await turn(first, false);
    await see(first, "later", "nav");
    await (saver.close() as unknown);
  });

  it("S10.2 stays open when the thread is pruned", async () => {
    const file = await threads("a");
    const saver = openSaver(file);
    const { report } = await import("../../examples/lighthouse/agent");
    for (const day of ["monday", "tuesday", "wednesday"])
      await report(saver).invoke({ day, messages: [] }, { configurable: { thread_id: "days", task_id: day } });
    const page = await pageOn(file, "days");
    await see(page, "wednesday", "aside .head");
    const checkpoints = async (): Promise<string> => page.locator("main .title").innerText();
    const before = await checkpoints();
    await saver.prune({ threadId: "days", keepLast: 1 });
    await until("fewer checkpoints", async () => (await checkpoints()) !== before);
    await see(page, "days", "main h1");
    await page.keyboard.press("2");
    await see(page, "lines", "aside .channel");
    await (saver.close() as unknown);
  });

  it("S10.2 says so when the thread is deleted, and leads to another one", async () => {
    const file = await threads("stays", "goes");
    const page = await pageOn(file, "goes");
    const saver = openSaver(file);
    await saver.deleteThread("goes");
    await (saver.close() as unknown);
    await see(page, "This thread can't be shown", "main");
    await page.getByRole("button", { name: "Show another thread" }).focus();
    await page.keyboard.press("Enter");
    await until("the other thread", async () => place(page)["thread"] === "stays");
    await see(page, "stays", "main h1");
  });

  it("S10.2 leads to another thread while the list still has the deleted one", async () => {
    const file = await threads("stays", "goes");
    const page = await pageOn(file, "goes");
    await see(page, "goes", "main h1");
    const late: (() => void)[] = [];
    await page.route("**/api/threads?**", async (route) => {
      await new Promise<void>((resolve) => late.push(resolve));
      await route.continue();
    });
    const saver = openSaver(file);
    await saver.deleteThread("goes");
    await (saver.close() as unknown);
    await see(page, "This thread can't be shown", "main");
    await see(page, "goes", "nav");
    await page.getByRole("button", { name: "Show another thread" }).focus();
    await page.keyboard.press("Enter");
    await see(page, "stays", "main h1");
    for (const answer of late) answer();
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });

  it("S10.2 says so when the file is removed or replaced", async () => {
    const file = await threads("first");
    const other = await threads("second");
    const page = await pageOn(file, "first");
    const copy = `${file}.new`;
    copyFileSync(other, copy);
    for (const part of ["-wal", "-shm"]) rmSync(`${file}${part}`, { force: true });
    renameSync(copy, file);
    await see(page, "This database isn't there any more.", "main");
    // It doesn't show the other file as if it were this one.
    expect(await page.locator("nav").innerText()).not.toContain("second");
  });

  it("S10.2 shows it when a writer is killed", async () => {
    const file = await threads("a");
    const page = await pageOn(file, "a");
    const child: ChildProcess = spawn(
      process.execPath,
      ["--import", "tsx", path.join(__dirname, "..", "cli", "cli-world.ts"), "dies", file],
      {
        stdio: "ignore",
        env: { ...process.env, NODE_OPTIONS: "" },
      },
    );
    await new Promise((resolve) => child.on("exit", resolve));
    expect(child.signalCode).toBe("SIGKILL");
    await see(page, "killed", "nav");
    await page.keyboard.press("p");
    await until("the killed thread", async () => place(page)["thread"] === "killed");
    await see(page, "in flight", "aside h2");
    await see(page, "charge", "aside h2");
  });

  it("S10.2 keeps what it shows when the program ends, and says so", async () => {
    const file = await threads("a");
    const served = await turnsWeb(file);
    const page = await visit(served);
    await see(page, "a", "main h1");
    served.child.kill("SIGKILL");
    await see(page, "Not connected.", "main");
    await see(page, "offline", "header");
    await see(page, "a", "main h1");
    loggedErrors();
  });

  it("S10.2 keeps what it shows when the program ends in the middle of an answer", async () => {
    const page = await pageOn(await threads("a"), "a");
    await see(page, "a", "main h1");
    // An answer whose body is cut, as the kernel leaves it when the program is killed.
    await page.evaluate(
      `window.fetch = async () => new Response(new ReadableStream({ start: (body) => body.error(new TypeError("network error")) }))`,
    );
    await page.keyboard.press("R");
    await see(page, "turns web doesn't answer", "main");
    await see(page, "a", "main h1");
  });
});
