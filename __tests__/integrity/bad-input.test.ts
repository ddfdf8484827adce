import { internalsOf } from "../../src/testing-internal";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Annotation, Send, START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { GraphRunner, type RewindRequest, type Turn, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";
import { importOfficial } from "langgraph-checkpoint-turns/import";
import { checkpoint, codeOf, countRows, quiet, save, setup, thread } from "../support/bad-harness";
import { collect } from "../support/diff-harness";
import { tempFile } from "../support/temp";

const raise = (error: Error): never => {
  throw error;
};
const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
const oneNode = (saver: TurnSaver, inside: () => void = () => undefined) =>
  new StateGraph(Log)
    .addNode("a", () => (inside(), { log: ["a"] }))
    .addEdge(START, "a")
    .compile({ checkpointer: saver });

const TASK = "00000000-0000-4000-8000-000000000001";
const metadata = { source: "input" as const, step: -1, parents: {} };

const OF_T = "thread = (SELECT thread FROM langgraph_threads WHERE thread_id = 't')";

const ILLEGAL_IDS: [string, unknown][] = [
  ["a number", 7],
  ["an object", { $gt: "" }],
  ["an array", ["t"]],
  ["a boolean", true],
  ["null", null],
  ["the empty string", ""],
  ["a NUL character", "t\0x"],
  ["a lone surrogate", "t\ud800"],
];
const LEGAL_IDS = [
  "*",
  "%",
  "_",
  "t%",
  "t_",
  "'",
  '"',
  "`",
  "\\",
  "\\%",
  "?",
  "?1",
  ":id",
  "' OR '1'='1",
  "'; DROP TABLE langgraph_snapshots; --",
  "$.a",
  "a.b",
  "[0]",
  "{}",
  " ",
  "\n",
  "ü",
  "🦜",
  "null",
  "undefined",
  "0",
  "1e3",
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "..",
  "/etc",
  "x".repeat(10_240),
];

describe("bad input: ids that are none", () => {
  test.each(ILLEGAL_IDS)("bad input: %s as thread_id is refused everywhere, and nothing changes", async (_title, id) => {
    const { saver, rows, close } = await setup();
    const before = rows();
    const calls: (() => unknown)[] = [
      () => saver.getTuple(thread(id)),
      () => collect(saver.list(thread(id))),
      () => saver.put(thread(id), checkpoint(), metadata, { channel: 1 }),
      () => saver.putWrites(thread(id, { checkpoint_id: "c" }), [["a", 1]], TASK),
      () => saver.deleteThread(id as string),
      () => saver.getDeltaChannelHistory({ config: thread(id), channels: ["a"] }),
      () => saver.copyThread(id as string, "copy"),
      () => saver.copyThread("bystander", id as string),
      () => saver.turns.tasks(id as string),
      () => saver.turns.list(id as string),
      () => saver.turns.inFlight(id as string),
      () => saver.turns.isRunning(id as string),
      () => saver.turns.liveRuns(id as string),
      () => saver.rewinds.list(id as string),
    ];
    expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => "INVALID_CONFIG"));
    const requests = [undefined, {}, { threadId: id, toTask: "x" }, { threadId: "bystander", toTask: id }];
    const rewinds = requests.map((request) => () => saver.rewind(request as RewindRequest));
    expect(await Promise.all(rewinds.map(codeOf))).toEqual(rewinds.map(() => "INVALID_OPTION"));
    expect(rows()).toEqual(before);
    close();
  });

  test.each(ILLEGAL_IDS)("bad input: %s as checkpoint_id, checkpoint_ns, task id, task_id or graph_id", async (title, id) => {
    const { saver, rows, close } = await setup();
    const before = rows();
    const put = (more: object) => saver.put(thread("t", more), checkpoint(), metadata, { channel: 1 });
    const calls: (() => unknown)[] = [
      () => saver.putWrites(thread("t", { checkpoint_id: id }), [["a", 1]], TASK),
      () => saver.putWrites(thread("t", { checkpoint_id: "c" }), [["a", 1]], id as string),
      () => saver.put(thread(), { ...checkpoint(), id: id as string }, metadata, { channel: 1 }),
    ];
    // Null means "not given" in a config, and the empty namespace is the root.
    if (id !== null)
      calls.push(
        () => put({ task_id: id }),
        () => put({ graph_id: id }),
      );
    if (id !== null && id !== "") {
      calls.push(
        () => put({ checkpoint_ns: id }),
        () => put({ checkpoint_id: id }),
        () => saver.getTuple(thread("t", { checkpoint_id: id })),
        () => saver.getTuple(thread("t", { checkpoint_ns: id })),
        () => collect(saver.list(thread("t", { checkpoint_id: id }))),
        () => collect(saver.list(thread("t", { checkpoint_ns: id }))),
        () => collect(saver.list(thread("t"), { before: { configurable: { checkpoint_id: id as string } } })),
      );
    }
    expect({ title, codes: await Promise.all(calls.map(codeOf)) }).toEqual({ title, codes: calls.map(() => "INVALID_CONFIG") });
    expect(rows()).toEqual(before);
    close();
  });

  test("bad input: a missing thread_id, configurable or checkpoint_id", async () => {
    const { saver, rows, close } = await setup();
    const before = rows();
    for (const config of [{}, { configurable: {} }, { configurable: undefined }]) {
      expect(await codeOf(() => saver.put(config as any, checkpoint(), metadata, {}))).toBe("INVALID_CONFIG");
      expect(await codeOf(() => saver.putWrites(config as any, [["a", 1]], TASK))).toBe("INVALID_CONFIG");
      expect(await codeOf(() => saver.getDeltaChannelHistory({ config: config as any, channels: ["a"] }))).toBe("INVALID_CONFIG");
      expect(await saver.getTuple(config as any)).toBeUndefined();
    }
    expect(await codeOf(() => saver.putWrites(thread(), [["a", 1]], TASK))).toBe("INVALID_CONFIG");
    expect(rows()).toEqual(before);
    close();
  });

  test("bad input: the message names the key and what was found", async () => {
    const { saver, close } = await setup();
    const refused = saver.put(thread(7), checkpoint(), metadata, {});
    await expect(refused).rejects.toMatchObject({ name: "InvalidConfigError", data: { key: "thread_id" } });
    await expect(refused).rejects.toThrow(/^configurable\.thread_id, which put needs, is 7\. It must be a non-empty string/);
    close();
  });

  test("bad input: a graph run with an illegal id rejects, and nothing is saved", async () => {
    const { saver, rows, close } = await setup();
    const before = rows();
    const State = Annotation.Root({ log: Annotation<string>() });
    let ran = 0;
    const graph = new StateGraph(State)
      .addNode("a", () => {
        ran += 1;
        return { log: "a" };
      })
      .addEdge(START, "a")
      .compile({ checkpointer: saver });
    for (const id of ["t\0x", "t\ud800", { $gt: "" }]) {
      await expect(graph.invoke({ log: "in" }, thread(id))).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    }
    expect(ran).toBe(0);
    expect(rows()).toEqual(before);
    close();
  });
});

describe("bad input: arguments that are none", () => {
  test.each<[string, unknown, string]>([
    ["nothing", undefined, "threadId"],
    ["null", null, "threadId"],
    ["an empty object", {}, "threadId"],
    ["a turn without seq", { threadId: "t", id: "x" }, "seq"],
    ["a turn with a seq that is none", { threadId: "t", seq: Number.NaN, id: "x" }, "seq"],
    ["a turn with a negative seq", { threadId: "t", seq: -1, id: "x" }, "seq"],
    ["a turn without id", { threadId: "t", seq: 1 }, "id"],
  ])("bad input: turnState of %s names the field", async (_title, turn, key) => {
    const { saver, close } = await setup();
    const refused = saver.turns.state(turn as Turn);
    await expect(refused).rejects.toMatchObject({ code: "INVALID_CONFIG", data: { key } });
    await expect(refused).rejects.toThrow(new RegExp(`^${key} of the turn is .+\\. It must be .+\\. Pass a turn as`));
    close();
  });

  test.each([undefined, null, 7])("bad input: %p as config is refused everywhere", async (config: any) => {
    const { saver, rows, close } = await setup();
    const before = rows();
    const calls: (() => unknown)[] = [
      () => saver.getTuple(config),
      () => collect(saver.list(config)),
      () => saver.put(config, checkpoint(), metadata, {}),
      () => saver.putWrites(config, [["a", 1]], TASK),
    ];
    expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => "INVALID_CONFIG"));
    await expect(saver.getTuple(config)).rejects.toThrow(
      `The config of getTuple is ${config ?? (config === null ? "null" : "missing")}. It must be an object. Pass e.g. { configurable`,
    );
    expect(rows()).toEqual(before);
    close();
  });

  test("bad input: a rewind id that is none, and a request for delta channels that is none", async () => {
    const { saver, close } = await setup();
    for (const id of [undefined, {}, 7])
      await expect(saver.rewinds.takeBack(id as any)).rejects.toThrow(/^Option "rewindId" is .+\. Pass a string\.$/);
    for (const request of [undefined, {}, { config: thread() }, { config: thread(), channels: "a" }]) {
      expect(await codeOf(() => saver.getDeltaChannelHistory(request as any))).toBe("INVALID_OPTION");
    }
    expect(await codeOf(() => saver.getDeltaChannelHistory({ channels: [] } as any))).toBe("INVALID_CONFIG");
    close();
  });

  const one = checkpoint();
  const notSaved: [string, unknown[]][] = [
    ["checkpoint", [undefined, metadata, {}]],
    ["checkpoint", ["c", metadata, {}]],
    ["checkpoint.channel_values", [{ ...one, channel_values: undefined }, metadata, {}]],
    ["checkpoint.channel_versions", [{ ...one, channel_versions: null }, metadata, {}]],
    ["metadata", [one, undefined, {}]],
    ["metadata", [one, [], {}]],
    ["newVersions", [one, metadata, null]],
  ];
  test.each(notSaved)("bad input: put with a wrong %s names it (%#)", async (field, args) => {
    const { saver, rows, close } = await setup();
    const before = rows();
    const refused = saver.put(thread(), ...(args as [any, any, any]));
    await expect(refused).rejects.toMatchObject({ code: "INVALID_CHECKPOINT", data: { field } });
    await expect(refused).rejects.toThrow(new RegExp(`^${field.replace(".", "\\.")} is .+\\. It must be an object\\. `));
    expect(rows()).toEqual(before);
    close();
  });

  test.each<[unknown, string]>([
    [undefined, "writes"],
    [5, "writes"],
    [[["a", 1], 5], "writes.1"],
    [[[7, 1]], "writes.0"],
  ])("bad input: putWrites of %j names %s", async (writes, field) => {
    const { saver, rows, close } = await setup();
    const before = rows();
    const refused = saver.putWrites(thread("t", { checkpoint_id: "c" }), writes as any, TASK);
    await expect(refused).rejects.toMatchObject({ code: "INVALID_CHECKPOINT", data: { field } });
    expect(rows()).toEqual(before);
    close();
  });
});

describe("bad input: ids that only look dangerous", () => {
  test.each(LEGAL_IDS.map((id) => [id.length > 60 ? `${id.length} characters` : JSON.stringify(id), id]))(
    "bad input: thread %s is a thread like any other",
    async (_title, id) => {
      const { saver, rows, close } = await setup();
      if (id === "t%") await saver.deleteThread(id);
      const before = rows();
      const { config, checkpoint: saved } = await save(saver, id);
      expect((await saver.getTuple(thread(id)))?.checkpoint).toEqual(saved);
      expect((await saver.getTuple(config))?.pendingWrites).toEqual([[TASK, "channel", `write of ${id}`]]);
      expect(await collect(saver.list(thread(id)))).toHaveLength(1);
      expect((await saver.turns.tasks(id)).length).toBeGreaterThan(0);
      await saver.copyThread(id, `copy of ${id}`);
      expect((await saver.getTuple(thread(`copy of ${id}`)))?.checkpoint).toEqual(saved);
      await saver.deleteThread(`copy of ${id}`);
      await saver.deleteThread(id);
      expect(await saver.getTuple(thread(id))).toBeUndefined();
      // Nothing is left but what tells late writers that the two were deleted.
      expect(rows()).toEqual({ ...before, threads: before["threads"]! + 2, langgraph_tombstones: 2 });
      expect((await saver.getTuple(thread("bystander")))?.pendingWrites).toHaveLength(1);
      close();
    },
  );

  test.each(["*", "%", "_", "t_", "?", "bystande_", "by*", "BYSTANDER", "bystander "])(
    "bad input: deleteThread(%j) deletes nobody else's thread",
    async (id) => {
      const { saver, rows, close } = await setup();
      const before = rows();
      await saver.deleteThread(id);
      expect(rows()).toEqual({ ...before, langgraph_tombstones: 1 });
      close();
    },
  );

  test.each(LEGAL_IDS.filter((id) => id.length < 100))("bad input: %j as namespace, checkpoint id and task id", async (id) => {
    const { saver, close } = await setup();
    const one = { ...checkpoint(), id };
    const config = await saver.put(thread("t", { checkpoint_ns: id }), one, metadata, { channel: 1 });
    expect(config.configurable).toEqual({ thread_id: "t", checkpoint_ns: id, checkpoint_id: id });
    await saver.putWrites(config, [[id, "value"]], id);
    const tuple = await saver.getTuple(config);
    expect(tuple?.checkpoint).toEqual(one);
    expect(tuple?.pendingWrites).toEqual([[id, id, "value"]]);
    expect(await collect(saver.list(thread("t", { checkpoint_ns: id, checkpoint_id: id })))).toHaveLength(1);
    expect(await saver.getTuple(thread("t"))).toBeUndefined();
    close();
  });

  test.each(["__proto__", "constructor", "prototype", "toString", "a.b", "$", "'", '"', "", "[0]", "\0"])(
    "bad input: %j as channel and as metadata key is data",
    async (key) => {
      const { saver, close } = await setup();
      const own = (value: unknown): any =>
        Object.fromEntries([
          ["plain", 1],
          [key, value],
        ]);
      const one = checkpoint(own({ of: key }));
      const config = await saver.put(thread(), one, { ...metadata, ...own("meta") }, one.channel_versions);
      await saver.putWrites(config, [[key, own("write")]], TASK);
      const tuple = (await saver.getTuple(config))!;
      expect(Object.entries(tuple.checkpoint.channel_values)).toEqual(Object.entries(one.channel_values));
      expect(tuple.checkpoint.channel_versions).toEqual(one.channel_versions);
      expect(Object.getPrototypeOf(tuple.checkpoint.channel_values)).toBe(Object.prototype);
      expect(Object.getOwnPropertyDescriptor(tuple.metadata, key)?.value).toBe("meta");
      expect(Object.entries(tuple.pendingWrites![0]![2] as object)).toEqual(Object.entries(own("write")));
      expect(tuple.pendingWrites![0]![1]).toBe(key);
      expect(await collect(saver.list(thread(), { filter: own("meta") && Object.fromEntries([[key, "meta"]]) }))).toHaveLength(1);
      expect(await collect(saver.list(thread(), { filter: Object.fromEntries([[key, "other"]]) }))).toHaveLength(0);
      expect(({} as Record<string, unknown>)["of"]).toBeUndefined();
      close();
    },
  );

  test("bad input: a channel name with a lone surrogate is a value of a checkpoint, and refused as a pending write", async () => {
    const { saver, rows, close } = await setup();
    const one = checkpoint({ "\ud800": 1 });
    const config = await saver.put(thread(), one, metadata, one.channel_versions);
    const before = rows();
    await expect(saver.putWrites(config, [["\ud800", 1]], TASK)).rejects.toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
    expect(rows()).toEqual(before);
    expect((await saver.getTuple(config))?.checkpoint).toEqual(one);
    close();
  });

  test.each([true, false])(
    "bad input: a node's name with a lone surrogate is refused, and damages no row; attached: %p",
    async (isAttached) => {
      const saver = TurnSaver.fromPath(tempFile(), { logger: quiet });
      const graph = new StateGraph(Log)
        .addNode("n\ud800", () => ({ log: ["ran"] }))
        .addEdge(START, "n\ud800")
        .compile({ checkpointer: saver });
      if (isAttached) saver.attach(graph);
      await expect(graph.invoke({ log: ["in"] }, thread())).rejects.toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
      expect(await saver.turns.list("t")).toHaveLength(0);
      expect(await saver.verify()).toMatchObject({ ok: true });
      saver.close();
    },
  );
});

describe("bad input: list", () => {
  test("bad input: filter keys and values are data", async () => {
    const { saver, rows, close } = await setup();
    const nested = { b: { d: [1, { y: 1, x: 2 }], c: null }, a: "'" };
    await save(saver, "t", undefined, { nested, "a.b": 1, "$.source": 2, "x' OR '1'='1": 3 });
    const before = rows();
    const count = async (filter: any): Promise<number> => (await collect(saver.list(thread(), { filter }))).length;
    expect(await count({ nested: { a: "'", b: { c: null, d: [1, { x: 2, y: 1 }] } } })).toBe(1);
    expect(await count({ nested: { a: "'", b: { c: null, d: [{ x: 2, y: 1 }, 1] } } })).toBe(0);
    expect(await count({ "a.b": 1, "$.source": 2, "x' OR '1'='1": 3 })).toBe(1);
    expect(await count({ "nested.a": "'" })).toBe(0);
    expect(await count({ "x' OR '1'='1": 4 })).toBe(0);
    expect(await count({ "') OR 1=1 --": 1 })).toBe(0);
    expect(await count({ source: { $ne: "loop" } })).toBe(0);
    expect(await count({ toString: undefined })).toBe(1);
    expect(await count({ hasOwnProperty: Object.prototype.hasOwnProperty })).toBe(0);
    expect(await count(JSON.parse('{"__proto__": {}}'))).toBe(0);
    expect(rows()).toEqual(before);
    close();
  });

  test.each([
    [0, 0],
    [-1, 0],
    [-1000, 0],
    [1, 1],
    [2, 2],
    [99, 3],
    [Infinity, 3],
    [undefined, 3],
  ])("bad input: limit %p lists %d", async (limit, wanted) => {
    const { saver, close } = await setup();
    for (let each = 0; each < 3; each++) await save(saver, "t");
    expect(await collect(saver.list(thread(), { limit }))).toHaveLength(wanted);
    expect(await collect(saver.list(thread(), { limit, filter: { source: "input" } }))).toHaveLength(wanted);
    close();
  });

  test.each([1.5, Number.NaN, "1", null, {}, 10n, true])("bad input: limit %p is refused", async (limit) => {
    const { saver, close } = await setup();
    const refused = collect(saver.list(thread(), { limit: limit as number }));
    await expect(refused).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(refused).rejects.toThrow(/limit.*whole number/);
    close();
  });

  test.each([5, "source", true, [], () => 1])("bad input: %p as filter is refused", async (filter) => {
    const { saver, close } = await setup();
    const refused = collect(saver.list(thread(), { filter: filter as never }));
    await expect(refused).rejects.toMatchObject({ code: "INVALID_OPTION", data: { option: "filter" } });
    close();
  });
});

describe("bad input: files", () => {
  const opened = (path: unknown): unknown => {
    try {
      TurnSaver.fromPath(path as string, { logger: quiet }).close();
      return "no error";
    } catch (error) {
      expect((error as Error).message).toMatch(/^(Database|The database|The path of the database|\/).+\. [A-Z].+\.$/s);
      return (error as TurnsError).code;
    }
  };

  test("bad input: a file that is not a database stays as it is", () => {
    const path = tempFile("notes.txt");
    const text = "this is not a database, however long it may be\n".repeat(200);
    writeFileSync(path, text);
    expect(opened(path)).toBe("NOT_A_DATABASE");
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  test("bad input: a directory, a missing folder, an unwritable place", () => {
    const folder = tempFile("folder");
    mkdirSync(folder);
    expect(opened(folder)).toBe("STORE_UNAVAILABLE");
    expect(() => TurnSaver.fromPath(folder)).toThrow(`${folder} is a directory, not a database file. `);
    expect(opened(join(folder, "missing", "agent.db"))).toBe("STORE_UNAVAILABLE");
    expect(opened("/proc/agent.db")).toBe("STORE_UNAVAILABLE");
    expect(opened(join(dirname(folder), "x".repeat(300)))).toBe("STORE_UNAVAILABLE");
  });

  test("S2.6 bad input: a path that ends like a folder's is refused, and nothing is created", () => {
    const file = tempFile("new");
    const folder = dirname(file);
    const before = readdirSync(folder);
    expect(opened(`${file}/`)).toBe("INVALID_OPTION");
    expect(() => TurnSaver.fromPath(`${file}/`)).toThrow(
      `The path of the database is "${file}/", which ends like a folder's. Pass the path of a file: "${file}/agent.db". Nothing was created.`,
    );
    expect(readdirSync(folder)).toEqual(before);
    expect(opened(`${folder}/`)).toBe("STORE_UNAVAILABLE");
    expect(opened(file)).toBe("no error");
    expect(opened(`${file}/`)).toBe("INVALID_OPTION");
  });

  test.each([undefined, null, "", "a\0b", 7, {}, []])("bad input: %p as path", (path) => {
    expect(opened(path)).toBe("INVALID_OPTION");
  });

  test("bad input: an empty file becomes a database", () => {
    const path = tempFile();
    writeFileSync(path, "");
    expect(opened(path)).toBe("no error");
  });

  test("bad input: a read-only handle reads, and every write is refused", async () => {
    const { path, saver, rows, close } = await setup();
    const before = rows();
    const reader = new TurnSaver(new Database(path, { readonly: true }), { logger: quiet });
    expect((await reader.getTuple(thread("bystander")))?.pendingWrites).toHaveLength(1);
    expect(await collect(reader.list(thread("bystander")))).toHaveLength(1);
    expect(await codeOf(() => save(reader, "t"))).toBe("STORE_UNAVAILABLE");
    expect(await codeOf(() => reader.deleteThread("bystander"))).toBe("STORE_UNAVAILABLE");
    expect(await codeOf(() => reader.copyThread("bystander", "copy"))).toBe("STORE_UNAVAILABLE");
    expect(rows()).toEqual(before);
    expect((await saver.getTuple(thread("bystander")))?.pendingWrites).toHaveLength(1);
    reader.close();
    close();
  });

  test("bad input: a closed handle, and things that are no handle", () => {
    const db = new Database(":memory:");
    db.close();
    expect(() => new TurnSaver(db, { logger: quiet })).toThrow(/^The database is closed\. /);
    for (const thing of [{}, [], 7, null, undefined]) {
      expect(() => new TurnSaver(thing as never, { logger: quiet })).toThrow(TurnsError);
    }
  });

  test("bad input: a database of a newer version is refused and not touched", async () => {
    const { path, close } = await setup();
    close();
    const db = new Database(path);
    db.prepare("INSERT INTO langgraph_migrations (version, name, applied_at, checksum) VALUES (999, 'later', 'then', '')").run();
    const before = countRows(db);
    expect(opened(path)).toBe("SCHEMA_TOO_NEW");
    expect(countRows(db)).toEqual(before);
    db.close();
  });

  test("bad input: a foreign table of one of our names is refused and not touched", () => {
    const path = tempFile();
    const db = new Database(path);
    db.exec("CREATE TABLE langgraph_checkpoints (mine TEXT); INSERT INTO langgraph_checkpoints VALUES ('kept')");
    expect(opened(path)).toBe("SCHEMA_CONFLICT");
    expect(db.prepare("SELECT * FROM langgraph_checkpoints").all()).toEqual([{ mine: "kept" }]);
    expect(db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all()).toEqual(["langgraph_checkpoints"]);
    db.close();
  });
});

describe("bad input: a closed saver", () => {
  test("bad input: every method says STORE_CLOSED, closing twice is fine", async () => {
    const { saver, path, close } = await setup();
    const tuple = (await saver.getTuple(thread("bystander")))!;
    close();
    saver.close();
    const calls: (() => unknown)[] = [
      () => saver.getTuple(thread()),
      () => collect(saver.list(thread())),
      () => saver.put(thread(), checkpoint(), metadata, { channel: 1 }),
      () => saver.putWrites(tuple.config, [["a", 1]], TASK),
      () => saver.deleteThread("bystander"),
      () => saver.getDeltaChannelHistory({ config: tuple.config, channels: ["a"] }),
      () => saver.listThreads(),
      () => saver.copyThread("bystander", "copy"),
      () => saver.turns.tasks("t"),
      () => saver.turns.list("t"),
      () => saver.turns.state({ threadId: "t", seq: 1, id: "x" }),
      () => saver.turns.inFlight("t"),
      () => saver.turns.isRunning("t"),
      () => saver.turns.liveRuns("t"),
      () => saver.rewinds.list("t"),
      () => saver.rewind({ threadId: "t", toTask: "x" }),
      () => saver.rewinds.takeBack("x"),
    ];
    expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => "STORE_CLOSED"));
    const again = TurnSaver.fromPath(path, { logger: quiet });
    expect((await again.getTuple(thread("bystander")))?.checkpoint).toEqual(tuple.checkpoint);
    again.close();
  });

  test("bad input: a runner whose saver was closed before its first run says STORE_CLOSED", async () => {
    const saver = TurnSaver.fromPath(tempFile(), { logger: quiet });
    const graph = new StateGraph(Annotation.Root({ a: Annotation<number> })).addNode("n", () => ({ a: 1 })).addEdge(START, "n");
    const runner = new GraphRunner(graph.compile({ checkpointer: saver }));
    saver.close();
    expect(await codeOf(() => runner.invoke({ a: 0 }, { threadId: "t" }))).toBe("STORE_CLOSED");
  });

  test("bad input: disposal closes", async () => {
    const one = TurnSaver.fromPath(":memory:", { logger: quiet });
    one[Symbol.dispose]();
    expect(await codeOf(() => one.getTuple(thread()))).toBe("STORE_CLOSED");
    one[Symbol.dispose]();
    const two = TurnSaver.fromPath(":memory:", { logger: quiet });
    await two[Symbol.asyncDispose]();
    expect(await codeOf(() => two.getTuple(thread()))).toBe("STORE_CLOSED");
  });
});

describe("bad input: options", () => {
  test.each<[string, unknown, RegExp]>([
    ["synchronous", "none", /full.*normal/],
    ["synchronous", 1, /full.*normal/],
    ["busyTimeoutMs", -1, /Pass a number of at least 0\./],
    ["busyTimeoutMs", 1.5, /Pass a whole number\./],
    ["busyTimeoutMs", Number.NaN, /number/],
    ["busyTimeoutMs", "100", /number/],
    ["onTurnError", "ignore", /continue.*throw/],
    ["onCheckpointError", true, /continue.*throw/],
    ["classInstances", "drop", /error.*plain/],
    ["logger", {}, /debug, info, warn and error/],
    ["logger", null, /debug, info, warn and error/],
    ["clock", 5, /function/],
    ["createId", "id", /function/],
    ["driverr", "x", /Did you mean "driver"\? Valid options: busyTimeoutMs, cacheSize, /],
  ])("bad input: option %s = %p is refused with its name, what is allowed, and the value", (name, value, allowed) => {
    const path = tempFile();
    let error: unknown;
    try {
      TurnSaver.fromPath(path, { [name]: value });
    } catch (caught) {
      error = caught;
    }
    expect(TurnsError.is(error, "INVALID_OPTION")).toBe(true);
    const { message, data } = error as TurnsError;
    expect(data).toEqual({ option: name });
    expect(message).toMatch(new RegExp(`^(Option|Unknown option) "${name}"`));
    expect(message).toMatch(allowed);
    if (name !== "driverr") expect(message).toMatch(/" is .+\. Pass .+\.$/);
    expect(() => readFileSync(path)).toThrow("ENOENT");
  });

  test.each<[string, object, string, string, string]>([
    ["retention.keepLast", { retention: { keepLast: 0 } }, "a number of at least 1", "0", "a bound"],
    ["retention.maxAgeMs", { retention: { maxAgeMs: "1 day" } }, "a number", '"1 day"', "a type"],
    [
      "retention",
      { retention: {} },
      "an object with keepTasks, keepLast, maxAgeMs or keepLastWhenDone",
      "an empty object",
      "none of four",
    ],
    ["retention", { retention: 5 }, "an object", "5", "no object"],
    ["busyTimeoutMs", { busyTimeoutMs: 1e9 }, "a number of at most 86400000", "1000000000", "an upper bound"],
    ["immutable", { immutable: 1 }, "true or false", "1", "no boolean"],
    ["synchronous", { synchronous: "none" }, '"full" or "normal"', '"none"', "a choice"],
    ["clock", { clock: 5 }, "a function that returns a Date", "5", "a text of the schema"],
  ])(
    "bad input: option %s of %j: the message names the whole path and is one sentence (%5$s)",
    (name, options, expected, found) => {
      const refused = expect(() => TurnSaver.fromPath(":memory:", options));
      refused.toThrow(`Option "${name}" is ${found}. Pass ${expected}.`);
      refused.toThrow(expect.objectContaining({ code: "INVALID_OPTION", data: { option: name } }));
    },
  );

  test("bad input: the option that was called durability is refused with the name that it has", () => {
    const refused = expect(() => TurnSaver.fromPath(":memory:", { durability: "sync" } as object));
    refused.toThrow('Unknown option "durability". Did you mean "synchronous"?');
    refused.toThrow(expect.objectContaining({ code: "INVALID_OPTION", data: { option: "durability", nearest: "synchronous" } }));
  });

  test("bad input: all unknown options are named, and their values are not shown", () => {
    const open = (): unknown => TurnSaver.fromPath(":memory:", { key: "hunter2", keyId: "a" } as object);
    expect(open).toThrow(/^Unknown options "key", "keyId"\. Valid options: [\w, ]+\.$/);
    expect(open).toThrow(expect.objectContaining({ data: { option: "key, keyId" } }));
  });

  test.each<[object, string, string]>([
    [{ retension: {} }, '"retension". Did you mean "retention"? Valid options: busyTimeoutMs, cacheSize, ', "retension"],
    [{ Turns: "off" }, '"Turns". Did you mean "turns"? Valid options: ', "Turns"],
    [{ colour: 1 }, '"colour". Valid options: busyTimeoutMs, ', "colour"],
    [
      { retention: { keepLsat: 3 } },
      '"retention.keepLsat". Did you mean "retention.keepLast"? Valid options of "retention": keepLast, keepLastWhenDone, keepTasks, maxAgeMs.',
      "retention.keepLsat",
    ],
    [
      { encryption: { kye: "hunter2" } },
      '"encryption.kye". Did you mean "encryption.key"? Valid options of "encryption": current, key, keyId, keys, provider.',
      "encryption",
    ],
  ])(
    "S8.8 bad input: an unknown option in %j gets the nearest name and the list, and its value isn't shown",
    (options, told, option) => {
      const open = (): unknown => TurnSaver.fromPath(":memory:", options);
      expect(open).toThrow(`Unknown option ${told}`);
      expect(open).toThrow(expect.objectContaining({ code: "INVALID_OPTION", data: { option } }));
      expect(open).not.toThrow("hunter2");
    },
  );

  test("S8.8 bad input: with unknown options on two levels, the one that is named gets the list of its own level", () => {
    const open = (): unknown => TurnSaver.fromPath(":memory:", { retention: { keepLst: 1 }, synchronos: "full" } as object);
    expect(open).toThrow(
      'Unknown option "retention.keepLst". Did you mean "retention.keepLast"? Valid options of "retention": keepLast, keepLastWhenDone, keepTasks, maxAgeMs.',
    );
  });

  test("bad input: hundreds of unknown options are counted, not listed", () => {
    const open = (): unknown =>
      TurnSaver.fromPath(":memory:", Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`x${n}`, n])));
    expect(open).toThrow(/^Unknown options "x0", "x1", "x2", "x3", "x4" and 295 more\. Valid options: /);
  });

  test("bad input: options of methods are named by their path too", async () => {
    const { saver, close } = await setup();
    await expect(saver.retention.deleteForRuns(["run", ""])).rejects.toThrow(
      /^Option "runIds.1" is ""\. Pass a non-empty string/,
    );
    await expect(saver.prune(undefined as never)).rejects.toThrow("The options are missing. Pass an object.");
    await expect(saver.retention.deleteForRuns(7 as never)).rejects.toThrow('Option "runIds" is 7. Pass an array.');
    await expect(importOfficial(saver, "x", { threads: [""] })).rejects.toThrow(
      'Option "threads.0" is "". Pass a string of at least 1 character.',
    );
    await expect(importOfficial(saver, "x", { signal: {} as never })).rejects.toThrow(
      'Option "signal" is an empty object. Pass an instance of AbortSignal.',
    );
    close();
  });

  test.each<[string, () => unknown, string]>([
    ["an invalid date", () => new Date(Number.NaN), "returned an invalid date."],
    ["a number", () => 5, "returned 5."],
    ["nothing", () => undefined, "returned undefined."],
    ["an error", () => raise(new Error("broken")), "threw an error."],
  ])("bad input: a clock that gives %s fails the run with an error that names the option", async (_, clock, found) => {
    const { saver, rows, close } = await setup();
    const wrong = TurnSaver.fromPath(tempFile(), { logger: quiet, clock: clock as () => Date });
    const before = rows();
    const runner = new GraphRunner(oneNode(wrong));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: `Option "clock" ${found} Pass a function that returns a valid Date.`,
      data: { option: "clock" },
    });
    expect(rows()).toEqual(before);
    expect(await saver.getTuple(thread("t"))).toBeUndefined();
    wrong.close();
    close();
  });

  test.each<[string, () => unknown]>([
    ["throws", () => raise(new Error("broken"))],
    ["rejects", async () => raise(new Error("broken"))],
  ])("bad input: a logger that %s fails no run, no rewind and no prune", async (_, log) => {
    const logger: any = { debug: log, info: log, warn: log, error: log };
    const saver = TurnSaver.fromPath(tempFile(), { logger, retention: { keepTasks: 1 } });
    saver.events.on("turn", () => raise(new Error("listener")));
    let fails = true;
    const runner = new GraphRunner(oneNode(saver, () => void (fails && raise(new Error("node")))));
    await expect(runner.invoke({ log: [] }, { threadId: "t", taskId: "T0" })).rejects.toThrow("node");
    fails = false;
    expect((await runner.resume({ threadId: "t" })).log).toEqual(["a"]);
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "T1" });
    expect((await runner.rewind({ threadId: "t", toTask: "T0" })).dryRun).toBe(false);
    await saver.prune({ keepLast: 1 });
    await saver.drain();
  });

  test.each([null, 7, "full", []])("bad input: %p as options", (options) => {
    expect(() => TurnSaver.fromPath(":memory:", options as never)).toThrow(TurnsError);
  });
});

test("bad input: every code that an error can have is in docs/errors.md", () => {
  const codes = readFileSync("src/errors.ts", "utf8").matchAll(/^ {2}\| "([A-Z_]+)"/gm);
  const firstCells = [...readFileSync("docs/errors.md", "utf8").matchAll(/^\| ([^|]*) \|/gm)].map(([, cell]) => cell).join("\n");
  const listed = firstCells.matchAll(/`([A-Z]+(?:_[A-Z]+)*)`/g);
  const names = (matches: IterableIterator<RegExpMatchArray>): string[] =>
    [...new Set([...matches].map((match) => match[1]!))].sort();
  expect(names(listed)).toEqual(names(codes));
});

describe("bad input: values that cannot be saved", () => {
  class Account {
    owner = "me";
  }
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  const VALUES: [string, unknown][] = [
    ["a function", () => 1],
    ["a symbol", Symbol("s")],
    ["a class instance", new Account()],
    ["a cycle", cycle],
    ["a promise", Promise.resolve(1)],
    ["a WeakMap", new WeakMap()],
  ];

  test.each(VALUES)(
    "S8.8 bad input: %s in put and putWrites names the node, the channel and the path, and nothing is saved",
    async (_title, value) => {
      const { saver, rows, close } = await setup();
      const { config } = await save(saver, "t");
      const before = rows();
      const one = checkpoint({ fine: 1, state: { list: [0, { bad: value }] } });
      const put = saver.put(config, one, metadata, one.channel_versions);
      await expect(put).rejects.toMatchObject({ code: "UNSERIALIZABLE_VALUE", data: { channel: "state" } });
      await expect(put).rejects.toThrow(/list\[1\]\.bad/);
      const writes = saver.putWrites(
        config,
        [
          ["fine", 1],
          ["state", { list: [0, { bad: value }] }],
        ],
        TASK.replace(/1$/, "2"),
        "~__pregel_pull, draft",
      );
      await expect(writes).rejects.toMatchObject({
        code: "UNSERIALIZABLE_VALUE",
        data: { node: "draft", channel: "state" },
      });
      await expect(writes).rejects.toThrow(
        /^What node "draft" wrote to channel "state" can't be saved: at list\[1\]\.bad.* there is /,
      );
      const inMetadata = saver.put(config, checkpoint(), { ...metadata, bad: value } as any, { channel: 1 });
      await expect(inMetadata).rejects.toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
      expect(rows()).toEqual(before);
      expect((await saver.getTuple(thread("t")))?.config).toEqual(config);
      close();
    },
  );

  const fromState = "Remove it from the state, replace it by plain data, or keep it in an untracked channel";
  const inConfig =
    "Pass it in the config instead, as in graph.invoke(input, { configurable: { thread_id, myValue } }), and read config.configurable.myValue in the node";

  test.each([
    ["state", { list: [() => 1] }, fromState, 'The value of channel "state" can\'t be saved: at list[0] there is a function'],
    ["bare", () => 1, fromState, 'The value of channel "bare" can\'t be saved: it is a function'],
    [
      "__start__",
      { list: [() => 1] },
      `LangGraph saves the whole input, also what is for untracked channels. ${inConfig}`,
      "The input of the graph can't be saved: at list[0] there is a function",
    ],
  ])(
    "S8.8 bad input: the message about channel %s says what is wrong and what to do",
    async (channel, value, remedy, problem) => {
      const { saver, close } = await setup();
      const one = checkpoint({ [channel]: value });
      const error = (await saver
        .put(thread(), one, metadata, one.channel_versions)
        .catch((caught: unknown) => caught)) as TurnsError;
      expect(error.message).toBe(`${problem}. ${remedy}; the previous checkpoint is intact.`);
      expect((error.cause as TurnsError).message).toMatch(/^A value can't be saved: /);
      close();
    },
  );

  test("S8.8 bad input: a function in a Send is refused with a remedy that helps, and that one works", async () => {
    const State = Annotation.Root({ said: Annotation<string> });
    type Speak = (() => string) | undefined;
    const worker = (_: unknown, config: { configurable?: { speak?: Speak } }) => ({ said: config.configurable?.speak?.() ?? "" });
    const graphWith = (argument: object) => {
      const saver = TurnSaver.fromConnString(":memory:", { logger: quiet });
      const graph = new StateGraph(State)
        .addNode("plan", () => ({}))
        .addNode("worker", worker)
        .addEdge(START, "plan")
        .addConditionalEdges("plan", () => [new Send("worker", argument)], ["worker"])
        .compile({ checkpointer: saver });
      saver.attach(graph);
      return { saver, graph };
    };
    const wrong = graphWith({ speak: () => "hello" });
    const run = wrong.graph.invoke({}, { configurable: { thread_id: "t" } });
    await expect(run).rejects.toThrow(
      `A Send of node "plan" can't be saved: at args.speak there is a function. LangGraph saves what a Send carries, also what is for ` +
        `untracked channels. Send plain data: new Send("node", { id }). ${inConfig}; the previous checkpoint is intact.`,
    );
    const right = graphWith({ id: 1 });
    const configurable = { thread_id: "t", speak: () => "hello" };
    expect(await right.graph.invoke({}, { configurable })).toEqual({ said: "hello" });
    wrong.saver.close();
    right.saver.close();
  });

  test("S8.8 bad input: the recorder in a saved config is called by a name that says whose it is", async () => {
    const State = Annotation.Root({ seen: Annotation<unknown> });
    const saver = TurnSaver.fromConnString(":memory:", { logger: quiet });
    const seen = (_: unknown, config: unknown) => ({ seen: (config as { callbacks: { handlers: unknown } }).callbacks.handlers });
    const graph = new StateGraph(State).addNode("n", seen).addEdge(START, "n").compile({ checkpointer: saver });
    saver.attach(graph);
    await expect(graph.invoke({}, { configurable: { thread_id: "t" } })).rejects.toThrow(
      /at \[0\] there is an instance of SaverCallbackHandler\./,
    );
    saver.close();
  });

  // Unattached, LangGraph itself leaves rejections of "async" saves unhandled: no saver can prevent that from inside `put`.
  describe.each([
    { how: "attached", durabilities: ["sync", "async", "exit"] as const },
    { how: "unattached", durabilities: ["sync", "exit"] as const },
  ])("$how", ({ how, durabilities }) => {
    test.each(durabilities)(
      `bad input: a run whose node returns such a value rejects with that error, durability %s, ${how}`,
      async (durability) => {
        const { saver, close } = await setup();
        const State = Annotation.Root({ log: Annotation<string>(), state: Annotation<unknown>() });
        const ran: string[] = [];
        const node = (name: string, value?: unknown) => async (): Promise<object> => {
          ran.push(name);
          await new Promise((resolve) => setTimeout(resolve, 30));
          return value === undefined ? { log: name } : { log: name, state: { deep: [value] } };
        };
        const build = (value?: unknown) =>
          new StateGraph(State)
            .addNode("a", node("a"))
            .addNode("b", node("b", value))
            .addNode("c", node("c"))
            .addEdge(START, "a")
            .addEdge("a", "b")
            .addEdge("b", "c")
            .compile({ checkpointer: saver });
        const unhandled: unknown[] = [];
        const listener = (reason: unknown): void => void unhandled.push(reason);
        process.on("unhandledRejection", listener);
        const bad = build(() => 1);
        if (how === "attached") saver.attach(bad);
        const before = await saver.getTuple(thread());
        await expect(bad.invoke({ log: "in" }, { ...thread(), durability })).rejects.toMatchObject({
          code: "UNSERIALIZABLE_VALUE",
          data: { channel: "state", path: "deep[0]" },
        });
        await new Promise((resolve) => setTimeout(resolve, 60));
        process.off("unhandledRejection", listener);
        expect(unhandled).toEqual([]);
        expect(before).toBeUndefined();
        if (durability !== "exit") {
          expect((await saver.getTuple(thread()))?.checkpoint.channel_values).toMatchObject({ log: "a" });
          expect((await build().getState(thread())).next).toEqual(["b"]);
          expect(await build().invoke(null, thread())).toMatchObject({ log: "c" });
        }
        close();
      },
    );
  });
});

describe("S3.7 a lock held by another connection", () => {
  /** Holds the write lock until told to let go. */
  const hold = (path: string) => {
    const other = new Database(path);
    other.exec("BEGIN IMMEDIATE");
    return () => {
      other.exec("COMMIT");
      other.close();
    };
  };

  test("S3.7 a save waits without stopping the event loop, and succeeds", async () => {
    const { saver, path, rows, close } = await setup({ busyTimeoutMs: 60_000 });
    const before = rows();
    const release = hold(path);
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 5);
    const one = checkpoint();
    let saved = false;
    const put = saver.put(thread(), one, metadata, { channel: 1 }).then((config) => {
      saved = true;
      return config;
    });
    // Timers fire while the save waits for the lock; on a busy machine fewer.
    for (let tries = 0; tries < 20 && ticks <= 5; tries += 1) {
      ticks = 0;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    expect(ticks).toBeGreaterThan(5);
    expect(saved).toBe(false);
    expect(rows()).toEqual(before);
    release();
    const config = await put;
    clearInterval(timer);
    expect((await saver.getTuple(config))?.checkpoint).toEqual(one);
    close();
  });

  test("S3.7 S1.8 a run under a lock keeps its order: checkpoint, Thought, body", async () => {
    const { saver, path, witness, close } = await setup({ busyTimeoutMs: 60_000 });
    const seen: unknown[] = [];
    const look = (): void => {
      const checkpoints = witness.prepare(`SELECT count(*) FROM langgraph_snapshots WHERE ${OF_T} AND step = 0`).pluck().get();
      const thoughts = witness.prepare("SELECT node_name FROM langgraph_checkpoints WHERE turn_type = 'Thought'").pluck().all();
      seen.push({ checkpoints, thoughts });
    };
    const State = Annotation.Root({ log: Annotation<string>() });
    const graph = new StateGraph(State)
      .addNode("a", () => {
        look();
        return { log: "a" };
      })
      .addNode("b", () => {
        look();
        return { log: "b" };
      })
      .addEdge(START, "a")
      .addEdge("a", "b")
      .compile({ checkpointer: saver });
    saver.attach(graph);
    const release = hold(path);
    let ticks = 0;
    const timer = setInterval(() => (ticks += 1), 5);
    const run = graph.invoke({ log: "in" }, thread());
    // Timers fire while the run waits for the lock, however busy the machine is.
    do await new Promise((resolve) => setTimeout(resolve, 300));
    while (ticks <= 5);
    expect(seen).toEqual([]);
    release();
    expect(await run).toEqual({ log: "b" });
    clearInterval(timer);
    expect(seen).toEqual([
      { checkpoints: 1, thoughts: ["a"] },
      { checkpoints: 1, thoughts: ["a", "b"] },
    ]);
    const order = witness
      .prepare(
        `SELECT what FROM (
           SELECT seq, 'checkpoint ' || step AS what FROM langgraph_snapshots WHERE ${OF_T}
           UNION ALL SELECT seq, turn_type || ' ' || node_name FROM langgraph_checkpoints WHERE ${OF_T}) ORDER BY seq`,
      )
      .pluck()
      .all();
    expect(order).toEqual([
      "checkpoint -1",
      "checkpoint 0",
      "Thought a",
      "Action a",
      "checkpoint 1",
      "Thought b",
      "Action b",
      "checkpoint 2",
    ]);
    close();
  });

  test("S3.7 saves handed in during a lock are committed in their order", async () => {
    const { saver, path, witness, close } = await setup({ busyTimeoutMs: 10_000 });
    const release = hold(path);
    const all = Array.from({ length: 10 }, () => checkpoint());
    const puts = all.map((one) => saver.put(thread(), one, metadata, { channel: 1 }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    release();
    await Promise.all(puts);
    const ids = witness.prepare(`SELECT checkpoint_id FROM langgraph_snapshots WHERE ${OF_T} ORDER BY seq`).pluck().all();
    expect(ids).toEqual(all.map(({ id }) => id));
    close();
  });

  test("S3.7 marks of runs handed in between saves during a lock wait for their turn, and hold up nobody", async () => {
    const { saver, path, witness, close } = await setup({ busyTimeoutMs: 10_000 });
    const release = hold(path);
    const all = Array.from({ length: 6 }, () => checkpoint());
    const marks: Promise<() => Promise<void>>[] = [];
    const puts = all.map((one, at) => {
      const put = saver.put(thread(), one, metadata, { channel: 1 });
      marks.push(internalsOf(saver).reserve(`other ${at}`));
      return put;
    });
    const read = saver.getTuple(thread());
    await new Promise((resolve) => setTimeout(resolve, 50));
    release();
    await Promise.all([...puts, ...marks]);
    expect((await read)?.checkpoint.id).toBe(all.at(-1)!.id);
    const ids = witness.prepare(`SELECT checkpoint_id FROM langgraph_snapshots WHERE ${OF_T} ORDER BY seq`).pluck().all();
    expect(ids).toEqual(all.map(({ id }) => id));
    expect(witness.prepare("SELECT count(*) FROM langgraph_runs").pluck().get()).toBe(6);
    for (const mark of marks) await (await mark)();
    close();
  });

  test("S3.7 a lock that is never let go: STORE_BUSY, and nothing half-written", async () => {
    const { saver, path, rows, close } = await setup({ busyTimeoutMs: 100 });
    const { config } = await save(saver, "t");
    const before = rows();
    const release = hold(path);
    const calls: (() => unknown)[] = [
      () => saver.put(thread(), checkpoint(), metadata, { channel: 1 }),
      () => saver.putWrites(config, [["a", 1]], TASK),
      () => saver.deleteThread("bystander"),
      () => saver.copyThread("bystander", "copy"),
    ];
    expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => "STORE_BUSY"));
    expect((await saver.getTuple(thread()))?.config).toEqual(config);
    release();
    expect(rows()).toEqual(before);
    expect(await codeOf(() => save(saver, "t"))).toBe("no error");
    close();
  });

  test.each(["attached", "unattached"])(
    "S3.7 a run that meets such a lock rejects with STORE_BUSY and can be resumed, %s",
    async (how) => {
      const { saver, path, close } = await setup({ busyTimeoutMs: 50 });
      const State = Annotation.Root({
        log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
      });
      let release: (() => void) | undefined;
      let locks = true;
      const graph = new StateGraph(State)
        .addNode("a", () => ({ log: ["a"] }))
        .addNode("b", () => {
          if (locks) release = hold(path);
          return { log: ["b"] };
        })
        .addNode("c", () => ({ log: ["c"] }))
        .addEdge(START, "a")
        .addEdge("a", "b")
        .addEdge("b", "c")
        .compile({ checkpointer: saver });
      if (how === "attached") saver.attach(graph);
      const unhandled: unknown[] = [];
      const listener = (reason: unknown): void => void unhandled.push(reason);
      process.on("unhandledRejection", listener);
      await expect(graph.invoke({ log: ["in"] }, thread())).rejects.toMatchObject({ code: "STORE_BUSY" });
      await new Promise((resolve) => setTimeout(resolve, 200));
      process.off("unhandledRejection", listener);
      expect(unhandled).toEqual([]);
      locks = false;
      release?.();
      expect(await graph.invoke(null, thread())).toEqual({ log: ["in", "a", "b", "c"] });
      close();
    },
  );
});
