import { statSync } from "node:fs";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import type { TurnSaver } from "../../src/index";
import { longTestOfFiles } from "../support/lane-test";
import { get, idOf, listed, openOn, put, putWrites, valuesIn } from "../support/model-calls";
import { contentsOf, growth } from "./model-file";
import { tempFile } from "../support/temp";

const savers: TurnSaver[] = [];

function open(path: string, options = {}): TurnSaver {
  const saver = openOn(path, options);
  savers.push(saver);
  return saver;
}

afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});

/** Texts long enough to be elements of a stored list. */
function long(name: string): string {
  return `${name} ${"x".repeat(200)}`;
}

function longs(...names: (string | number)[]): string[] {
  return names.map((name) => long(String(name)));
}

function short(list: readonly string[]): string[] {
  return list.map((item) => item.split(" ")[0]!);
}

function upTo(length: number): number[] {
  return Array.from({ length }, (_, index) => index);
}

function message(number: number): BaseMessage {
  const content = `message ${number}: ${"lorem ipsum dolor sit amet ".repeat(16)}`;
  const id = `m${number}`;
  return number % 2 === 0 ? new HumanMessage({ id, content }) : new AIMessage({ id, content });
}

/** Saves a list under "list" and nothing else. */
function save(saver: TurnSaver, id: number, parent: number | undefined, list: unknown, task?: string): Promise<void> {
  return put(saver, { id, parent, values: { list }, versions: { list: id }, ...(task === undefined ? {} : { task }) });
}

describe("I3 what is stored", () => {
  it("I3 a message is stored once, whether in a write, in an Action or in channels of several checkpoints", async () => {
    const path = tempFile();
    const saver = open(path);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("say", () => ({ messages: [new AIMessage({ id: "said", content: long("unmistakable") })] }))
      .addNode("nod", () => ({ messages: [new AIMessage({ id: "nod", content: "yes" })] }))
      .addEdge(START, "say")
      .addEdge("say", "nod")
      .addEdge("nod", END)
      .compile({ checkpointer: saver });
    const config = { configurable: { thread_id: "thread" } };
    await saver.attach(graph).invoke({ messages: [new HumanMessage({ id: "ask", content: long("question") })] }, config);
    const actions = (await saver.turns.list("thread")).filter(({ turnType }) => turnType === "Action");
    expect((await saver.turns.state(actions[0]!))["messages"]).toEqual([
      expect.objectContaining({ content: long("unmistakable") }),
    ]);
    const { texts } = contentsOf(path);
    expect(texts.filter((text) => text.includes("unmistakable"))).toHaveLength(1);
    expect(texts.filter((text) => text.includes("question"))).toHaveLength(1);
    expect(texts.find((text) => text.includes("unmistakable"))!.split("unmistakable")).toHaveLength(2);
  });

  describe.each([
    ["a saver that compares", {}],
    ["a saver that trusts", { immutable: true }],
    ["a saver that remembers as little as it can", { cacheSize: 0 }],
  ])("I3 %s", (_, options) => {
    it.each(["goes on", "was opened after it", "was opened after it and has read it"])(
      "I3 appends to a list with as many rows and bytes regardless of its length, if it %s",
      async (how) => {
        const growths = [];
        for (const length of [10, 300, 1_000]) {
          const path = tempFile();
          const first = open(path, options);
          const messages = upTo(length).map((number) => message(number + 1_000));
          await put(first, { id: 1_000, values: { messages }, versions: { messages: 1_000 } });
          const before = contentsOf(path);
          const saver = how === "goes on" ? first : open(path, options);
          const held = how.endsWith("read it") ? (await valuesIn(saver))["messages"] : messages;
          const values = { messages: [...held, message(9_999)] };
          await put(saver, { id: 1_001, parent: 1_000, values, versions: { messages: 1_001 } });
          growths.push(growth(before, contentsOf(path)));
          expect((await valuesIn(open(path)))["messages"]).toEqual(values.messages);
        }
        const [small, ...larger] = growths;
        expect(small!.rows).toEqual({ chunks: 1, items: 1, snapshots: 1 });
        for (const { rows, bytes } of larger) {
          expect(rows).toEqual(small!.rows);
          // Lengths and numbers of rows have more digits.
          expect(bytes - small!.bytes).toBeLessThan(16);
        }
      },
    );
  });

  it("I3 removing from the front of a list adds no text that was there", async () => {
    const path = tempFile();
    const saver = open(path);
    const list = longs(...upTo(200));
    await save(saver, 1, undefined, list);
    const before = contentsOf(path);
    await save(saver, 2, 1, list.slice(100));
    const { rows, bytes } = growth(before, contentsOf(path));
    expect(rows).toEqual({ lists: 1, items: 100, snapshots: 1 });
    expect(bytes).toBeLessThan(100 * 48);
    expect((await valuesIn(open(path)))["list"]).toEqual(list.slice(100));
  });

  it("I3 records of large files share the files that did not change", async () => {
    const path = tempFile();
    const saver = open(path);
    const file = (name: string) => ({ content: [`${name} ${"line ".repeat(400)}`], modified: new Date(0) });
    const files: Record<string, unknown> = Object.fromEntries(
      upTo(50).map((number) => [`/file ${number}`, file(`v1 of ${number}`)]),
    );
    await put(saver, { id: 1, values: { files }, versions: { files: 1 } });
    for (const [id, from] of [
      [2, saver],
      [3, open(path)],
    ] as const) {
      const before = contentsOf(path);
      const held = (await valuesIn(from))["files"];
      const changed = { ...held, "/file 7": file(`v${id} of 7`) };
      await put(from, { id, parent: id - 1, values: { files: changed }, versions: { files: id } });
      const { rows, bytes } = growth(before, contentsOf(path));
      // The list of the files, and the one that changed.
      expect(rows).toEqual({ chunks: 2, snapshots: 1 });
      expect(bytes).toBeLessThan(50 * 120 + 2 * 2_100);
      expect((await valuesIn(open(path)))["files"]).toEqual(changed);
    }
    expect((await valuesIn(open(path), { id: 1 }))["files"]).toEqual(files);
  });

  longTestOfFiles("I3 a thread of 300 messages takes less than a twentieth of what the official saver needs", async () => {
    const paths = [tempFile("turns.db"), tempFile("official.db")];
    const official = SqliteSaver.fromConnString(paths[1]!);
    const turns = open(paths[0]!);
    for (const saver of [turns, official] as TurnSaver[]) {
      const messages: BaseMessage[] = [];
      for (const number of upTo(300)) {
        const parent = number === 0 ? undefined : number;
        if (parent !== undefined) await putWrites(saver, { id: parent }, `task ${number}`, [["messages", [message(number)]]]);
        messages.push(message(number));
        const values = { messages: [...messages] };
        await put(saver, { id: number + 1, parent, values, versions: { messages: number + 1 } });
      }
    }
    expect((await valuesIn(turns))["messages"]).toEqual(upTo(300).map(message));
    turns.close();
    (official as unknown as { db: Database.Database }).db.close();
    const [ours, theirs] = paths.map((path) => statSync(path).size) as [number, number];
    process.stdout.write(`300 messages: ${ours} bytes, official ${theirs}, ratio ${(theirs / ours).toFixed(1)}\n`);
    expect(theirs / ours).toBeGreaterThan(20);
  });
});

describe("I3 two connections", () => {
  it("I3 forks from one parent at equal versions do not mix", async () => {
    const path = tempFile();
    const [one, two] = [open(path), open(path)];
    const start = longs("a", "b", "c");
    await save(one, 1, undefined, start);
    const mine = (await valuesIn(one))["list"];
    const yours = (await valuesIn(two))["list"];
    const fork = (saver: TurnSaver, id: number, parent: number, list: unknown[], version: number): Promise<void> =>
      put(saver, { id, parent, values: { list }, versions: { list: version } });
    await fork(one, 2, 1, (mine.push(long("one")), mine), 2);
    await fork(two, 3, 1, (yours.push(long("two")), yours), 2);
    await fork(one, 4, 2, (mine.push(long("more of one")), mine), 3);
    await fork(two, 5, 3, (yours.push(long("one")), yours), 3);
    await fork(one, 6, 1, [...start, long("one"), long("x")], 3);
    for (const saver of [one, two, open(path)]) {
      const lists = await Promise.all([1, 2, 3, 4, 5, 6].map(async (id) => short((await valuesIn(saver, { id }))["list"])));
      expect(lists).toEqual([
        ["a", "b", "c"],
        ["a", "b", "c", "one"],
        ["a", "b", "c", "two"],
        ["a", "b", "c", "one", "more"],
        ["a", "b", "c", "two", "one"],
        ["a", "b", "c", "one", "x"],
      ]);
    }
    expect(contentsOf(path).texts.filter((text) => text.startsWith(`"b `))).toHaveLength(1);
  });

  /** Another connection makes what a saver remembers wrong, and the saver goes on. */
  const disturbances: [string, (other: TurnSaver) => Promise<void>][] = [
    [
      "rewound the thread and went on",
      async (other) => {
        await other.rewind({ threadId: "thread", toTask: "T1" });
        await save(other, 2, 1, longs("a", "b", "X", "Y"), "T3");
      },
    ],
    [
      "rewound the thread",
      async (other) => {
        await other.rewind({ threadId: "thread", toTask: "T1" });
        await save(other, 2, 1, longs("a", "b"), "T3");
      },
    ],
    [
      "deleted the thread and began it again with the same ids",
      async (other) => {
        await other.deleteThread("thread");
        await save(other, 1, undefined, longs("n"), "T1");
        await save(other, 2, 1, longs("n", "m", "o", "p"), "T2");
      },
    ],
    [
      "deleted the thread and made it of something else",
      async (other) => {
        await other.deleteThread("thread");
        await save(other, 1, undefined, "none", "T1");
        await save(other, 2, 1, { list: longs("n") }, "T2");
      },
    ],
  ];
  const cases = disturbances.flatMap(([name, disturb]) =>
    [{}, { immutable: true }, { cacheSize: 0 }].map((options) => ({ name, disturb, options })),
  );

  async function remembering(options: object): Promise<{ path: string; saver: TurnSaver; other: TurnSaver; held: unknown[] }> {
    const path = tempFile();
    const [saver, other] = [open(path, options), open(path)];
    await save(saver, 1, undefined, longs("a", "b"), "T1");
    const held = longs("a", "b", "c", "d");
    await save(saver, 2, 1, held, "T2");
    await valuesIn(saver, { id: 2 });
    return { path, saver, other, held };
  }

  it.each(cases)("I3 a saver notices that another one $name: it reads what is there ($options)", async ({ disturb, options }) => {
    const { saver, other } = await remembering(options);
    await disturb(other);
    for (const id of [1, 2, undefined]) expect(await get(saver, { id })).toEqual(await get(other, { id }));
    expect(await listed(saver)).toEqual(await listed(other));
  });

  it.each(cases)("I3 a saver notices that another one $name: what it saves is whole ($options)", async ({ disturb, options }) => {
    const { path, saver, other, held } = await remembering(options);
    await disturb(other);
    const list = [...held, long("e")];
    await putWrites(saver, { id: 2 }, "node", [["list", list]]);
    await save(saver, 3, 2, list);
    await save(saver, 4, 1, list.slice(0, 3));
    for (const one of [open(path), saver, other]) {
      expect((await valuesIn(one, { id: 3 }))["list"]).toEqual(list);
      expect((await valuesIn(one, { id: 4 }))["list"]).toEqual(list.slice(0, 3));
      expect((await get(one, { id: 2 }))!.pendingWrites).toEqual([["node", "list", list]]);
      expect((await valuesIn(one, { id: 2 }))["list"]).toEqual((await valuesIn(other, { id: 2 }))["list"]);
    }
  });

  it("I3 a list that went and reappeared with other elements is not taken for what it was", async () => {
    const path = tempFile();
    const [one, two] = [open(path), open(path)];
    await save(one, 1, undefined, longs("a", "b", "c"), "T1");
    await save(one, 2, 1, longs("a", "b", "c", "d", "e"), "T2");
    await valuesIn(two, { id: 2 });
    await one.rewind({ threadId: "thread", toTask: "T1" });
    await save(one, 2, 1, longs("a", "b", "c", "D", "E"), "T3");
    await save(one, 3, 2, longs("a", "b", "c", "D", "E", "y"), "T3");
    await save(one, 4, 2, longs("a", "b", "c", "D", "E", "m"), "T3");
    const { list } = await valuesIn(two, { id: 4 });
    await save(two, 5, 2, [...list.slice(0, 5), long("y")], "T3");
    for (const saver of [open(path), two, one]) {
      for (const id of [3, 5]) expect(short((await valuesIn(saver, { id }))["list"])).toEqual(["a", "b", "c", "D", "E", "y"]);
    }
  });

  it("I3 a rewind that is taken back brings back what other connections remember", async () => {
    const { saver, other, held } = await remembering({});
    const { rewindId } = await other.rewind({ threadId: "thread", toTask: "T1" });
    expect(short((await valuesIn(saver))["list"])).toEqual(["a", "b"]);
    await other.rewinds.takeBack(rewindId!);
    expect((await valuesIn(saver))["list"]).toEqual(held);
    await save(saver, 3, 2, [...held, long("e")], "T2");
    expect(short((await valuesIn(other))["list"])).toEqual(["a", "b", "c", "d", "e"]);
  });

  it.each(["put", "putWrites"] as const)(
    "I3 a %s that waits for a lock saves the state as it was when it was called",
    async (how) => {
      const path = tempFile();
      const saver = open(path);
      await save(saver, 1, undefined, longs("a"));
      const state = { list: longs("a", "b"), files: { one: { content: long("one") } } };
      const versions: Record<string, number> = { list: 2, files: 2 };
      const blocker = new Database(path);
      blocker.exec("BEGIN IMMEDIATE");
      const saved =
        how === "put"
          ? put(saver, { id: 2, parent: 1, values: state, versions })
          : putWrites(saver, { id: 1 }, "node", Object.entries(state));
      state.list[0] = long("changed");
      state.list.push(long("c"));
      state.files.one.content = "changed";
      versions["files"] = 3;
      blocker.exec("ROLLBACK");
      blocker.close();
      await saved;
      for (const reader of [saver, open(path)]) {
        const { checkpoint, pendingWrites } = (await get(reader))!;
        const found: unknown =
          how === "put" ? checkpoint.channel_values : Object.fromEntries(pendingWrites!.map(([, ...write]) => write));
        expect(found).toEqual({ list: longs("a", "b"), files: { one: { content: long("one") } } });
        if (how === "put") expect(checkpoint.channel_versions).toEqual({ list: 2, files: 2 });
      }
    },
  );
});

describe("I3 what is restored from elsewhere", () => {
  const files = (): Record<string, string> =>
    Object.fromEntries(upTo(8).map((number) => [`file ${number}`, "z".repeat(300) + number]));

  it("I3 a record that was read from a channel can become an element of a list", async () => {
    const path = tempFile();
    const saver = open(path);
    await put(saver, { id: 1, values: { files: files(), list: longs("a") }, versions: { files: 1, list: 1 } });
    const read = await valuesIn(saver);
    const values = { files: {}, list: [...read["list"], read["files"]] };
    await put(saver, { id: 2, parent: 1, values, versions: { files: 2, list: 2 } });
    for (const reader of [open(path), saver]) expect((await valuesIn(reader))["list"]).toEqual([long("a"), files()]);
  });

  it("I3 and of a write, when the thread it was read from has gone", async () => {
    const path = tempFile();
    const [saver, other] = [open(path), open(path)];
    await put(saver, { id: 1, values: { files: files() }, versions: { files: 1 } });
    const read = await valuesIn(saver);
    await other.deleteThread("thread");
    await save(other, 1, undefined, "new");
    await putWrites(saver, { id: 1 }, "node", [["list", [read["files"]]]]);
    for (const reader of [open(path), saver]) expect((await get(reader))!.pendingWrites).toEqual([["node", "list", [files()]]]);
  });

  it.each([
    ["short when it was saved and is long now", ["a"], ["a", ...longs("b", "c")]],
    ["long when it was saved and is short now", longs("a", "b"), ["a"]],
    ["a record when it was saved and is a list now", { a: long("a") }, longs("a", "b")],
    ["a vector when it was saved and is a list now", upTo(100), longs("a", "b")],
  ])("I3 a copy of a checkpoint below its grandparent keeps a channel that was %s", async (_, then, now) => {
    const path = tempFile();
    const saver = open(path);
    const versions = { other: 1, list: 2 };
    await put(saver, { id: 1, values: { other: 1 }, versions: { other: 1 } });
    await put(saver, { id: 2, parent: 1, values: { other: 1, list: then }, versions, fresh: ["list"] });
    await put(saver, { id: 3, parent: 2, values: { other: 1, list: now }, versions: { other: 1, list: 3 }, fresh: ["list"] });
    for (const [id, from] of [
      [4, saver],
      [5, open(path)],
    ] as const) {
      const values = await valuesIn(from, { id: 2 });
      await put(from, { id, parent: 1, values, versions, fresh: [], source: "fork" });
      for (const reader of [from, open(path)]) expect((await valuesIn(reader, { id }))["list"]).toEqual(then);
    }
  });

  it("I3 with immutable, values that differ and are no objects are told apart, and so are holes", async () => {
    const path = tempFile();
    const saver = open(path, { immutable: true });
    const hole: unknown[] = [];
    [hole[1], hole[2]] = [NaN, long("a")];
    const lists = [[0, NaN, ...longs("a")], [-0, NaN, ...longs("a")], hole, [undefined, NaN, ...longs("a")]];
    for (const [index, list] of lists.entries()) await save(saver, index + 1, index === 0 ? undefined : index, list);
    for (const reader of [open(path), saver]) {
      for (const [index, list] of lists.entries()) {
        const found = (await valuesIn(reader, { id: index + 1 }))["list"];
        expect([Object.is(found[0], list[0]), 0 in found]).toEqual([true, 0 in list]);
      }
    }
    expect((await get(saver))!.checkpoint.id).toBe(idOf(4));
  });
});
