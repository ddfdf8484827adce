import { type Element, Memory, type ThreadMemory } from "../../src/testing-internal";

const LIMIT = 100_000;
const part = (size: number): Element => ({ text: { length: size } }) as Element;
let parts = 0;

function remember(thread: ThreadMemory, size: number): void {
  parts += 1;
  thread.addPart(`part ${parts}`, part(size));
}

describe("cacheSize", () => {
  let memory: Memory;
  beforeEach(() => {
    memory = new Memory(LIMIT, (_, text) => text);
  });

  test("the threads used last are remembered, as many as there is room for", () => {
    const first = Array.from({ length: 10 }, (_, index) => memory.thread(`${index}`));
    for (const thread of first) remember(thread, 20_000);
    memory.thread("9");
    const kept = first.map((thread, index) => [index, thread === memory.thread(`${index}`)] as const).filter(([, same]) => same);
    expect(kept.map(([index]) => index)).toEqual([6, 7, 8, 9]);
  });

  test("threads with nothing to remember have a size too: a million of them are not remembered", () => {
    const first = memory.thread("first");
    for (let index = 0; index < 1_000; index += 1) memory.thread(`${index}`);
    expect(memory.thread("first")).not.toBe(first);
  });

  test("channels with nothing to remember have a size too: those of subgraphs that ran once are not remembered without end", () => {
    const first = memory.thread("only");
    for (let run = 0; run < 2_000; run += 1) memory.thread("only").channel(`sub:${run}`, "messages");
    expect(memory.thread("only")).not.toBe(first);
  });

  test("what a save adds to a thread that was forgotten meanwhile takes no room from others", () => {
    const gone = memory.thread("gone");
    memory.forget("gone");
    const other = memory.thread("other");
    remember(other, 10_000);
    remember(gone, 10 * LIMIT);
    memory.thread("another");
    expect(memory.thread("other")).toBe(other);
  });

  test("a thread used without a break is not remembered without end", () => {
    let longest = 0;
    for (let step = 0; step < 1_000; step += 1) {
      const thread = memory.thread("only");
      remember(thread, 5_000);
      longest = Math.max(longest, thread.size);
    }
    expect(longest).toBeLessThan(LIMIT + 10_000);
  });

  test("a state that is larger than the limit stays remembered from one save to the next", () => {
    const first = memory.thread("large");
    remember(first, 3 * LIMIT);
    for (let step = 0; step < 10; step += 1) {
      const thread = memory.thread("large");
      expect(thread).toBe(first);
      remember(thread, 1_000);
    }
    remember(first, 4 * LIMIT);
    expect(memory.thread("large")).not.toBe(first);
  });
});
