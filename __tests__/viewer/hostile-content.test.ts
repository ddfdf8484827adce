import type { Page } from "playwright-core";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { describeInBrowser } from "../support/chromium";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import {
  buildPage,
  closeAll,
  closeBrowser,
  loggedErrors,
  press,
  see,
  type Served,
  turnsWeb,
  until,
  violations,
  visit,
} from "./browsing";
import { makeThread } from "./page-world";

/* Content that means harm, in every place where content is shown. It stays text. */

const SCRIPT = `<script>globalThis.harmed = 1</script><img src=x onerror="globalThis.harmed = 1">`;
const MARKED = "invoice\u202Efdp.exe\u0000\u200B end";
const LENGTH = 5_000_000;

const deep = (levels: number): unknown => {
  let value: unknown = "bottom";
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { down: value };
  return value;
};

let file = "";
let served: Served;

beforeAll(async () => {
  buildPage();
  file = tempFile();
  const saver = openSaver(file);
  const tool_calls = [{ id: "call", name: SCRIPT, args: { [SCRIPT]: SCRIPT }, type: "tool_call" as const }];
  await makeThread(saver, "script", {
    value: { [SCRIPT]: SCRIPT, href: "javascript:globalThis.harmed=1" },
    text: SCRIPT,
    messages: [
      new HumanMessage(SCRIPT),
      new AIMessage({ content: SCRIPT, tool_calls }),
      new ToolMessage({ content: SCRIPT, tool_call_id: "call", name: SCRIPT }),
    ],
  });
  await makeThread(saver, `<b>thread</b> & "quotes"`, { text: MARKED, value: [MARKED], messages: [new HumanMessage(MARKED)] });
  await makeThread(saver, "long", {
    text: "0123456789".repeat(LENGTH / 10),
    value: Array.from({ length: 20_000 }, (_, index) => index),
  });
  // A value of 10,000 levels can't be saved; a text of JSON can.
  await makeThread(saver, "deep", { value: deep(1_500), text: `${"[".repeat(10_000)}${"]".repeat(10_000)}` });
  await (saver.close() as unknown);
}, 400_000);
afterEach(async () => {
  expect(loggedErrors()).toEqual([]);
  await closeAll();
});
afterAll(closeBrowser);

jest.setTimeout(300_000);

async function on(threadId: string): Promise<Page> {
  served = await turnsWeb(file);
  const page = await visit(served);
  await see(page, "live", "header");
  await page.goto(`${served.origin}/?thread=${encodeURIComponent(threadId)}`);
  await page.locator("aside h2").waitFor();
  return page;
}

const isHarmed = (page: Page): Promise<boolean> =>
  page.evaluate(`"harmed" in globalThis || document.querySelector("main img, main script, main b > b") !== null`);

describeInBrowser("S10.5 content that means harm", () => {
  it("S10.5 shows markup as text: in states, differences, messages, calls of tools, raw, and search", async () => {
    const page = await on("script");
    for (const [key, where] of [
      ["2", "aside .channel"],
      ["3", "aside .diff"],
      ["4", "aside .chat"],
      ["5", "aside .card"],
    ] as const) {
      await press(page, key);
      await see(page, "<script>globalThis.harmed", where);
      expect(await isHarmed(page)).toBe(false);
    }
    expect(await page.locator('a[href^="javascript"]').count()).toBe(0);
    await press(page, "/");
    await page.keyboard.type("onerror=");
    await press(page, "Enter");
    await see(page, /^Found in/, "main");
    await see(page, /onerror=/, "main .excerpt");
    expect(await isHarmed(page)).toBe(false);
    expect(await violations(page)).toEqual([]);
  });

  it("S10.5 makes marks of direction, NUL and characters without width visible", async () => {
    const page = await on(`<b>thread</b> & "quotes"`);
    await see(page, `<b>thread</b> & "quotes"`, "main h1");
    expect(await page.title()).toContain(`<b>thread</b> & "quotes"`);
    for (const [key, names] of [
      // JSON writes NUL as an escape.
      ["2", ["RLO", "ZWSP"]],
      ["4", ["NUL", "RLO", "ZWSP"]],
    ] as const) {
      await press(page, key);
      const marks = page.locator("aside .panel .hidden-char");
      await marks.first().waitFor();
      expect([...new Set(await marks.allInnerTexts())].sort()).toEqual(names);
      // No character is left that turns the rest of the line around.
      expect(await page.evaluate(`/[\\u202a-\\u202e\\u2066-\\u2069\\0]/.test(document.body.innerText)`)).toBe(false);
    }
    expect(await violations(page)).toEqual([]);
  });

  it("S10.5 shows a text of 5 MB and a list of 20,000 elements in parts, and stays quick", async () => {
    const page = await on("long");
    await press(page, "2");
    await see(page, "text", "aside .channel");
    // Only a part came, and only rows in sight are in the page.
    expect(await page.evaluate("document.body.innerText.length")).toBeLessThan(200_000);
    const whole = page
      .locator("aside .channel", { hasText: "Value of text" })
      .or(page.locator('aside [aria-label="Channel text"]'));
    await whole.getByRole("button", { name: /Show all of it/ }).focus();
    await press(page, "Enter");
    await until("all of it", async () => (await whole.getByRole("button", { name: /Show all of it/ }).count()) === 0);
    await whole.getByRole("treeitem").first().focus();
    await press(page, "ArrowRight");
    await see(page, "5 000 000 characters", "aside");
    expect(await page.locator('aside [role="treeitem"]').count()).toBeLessThan(400);
    expect(await page.evaluate("document.querySelectorAll('*').length")).toBeLessThan(3_000);
    await press(page, "End");
    await see(page, /0123456789$/, "aside .channel");
    expect(await violations(page)).toEqual([]);
  });

  it("S10.5 shows a value of 1,500 levels as deep as people look, and JSON of 10,000 levels as text", async () => {
    const page = await on("deep");
    await press(page, "2");
    await see(page, "value", "aside .channel");
    const tree = page.locator('aside [aria-label="Channel value"]');
    await tree.getByRole("treeitem").first().focus();
    for (let level = 0; level < 120; level += 1) await press(page, "ArrowRight");
    await see(page, "nested more deeply than is shown", 'aside [aria-label="Channel value"]');
    await press(page, "3", "5", "7");
    await see(page, "thoughtId", "aside");
    expect(await violations(page)).toEqual([]);
  });
});
