import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import Database from "better-sqlite3";
import { GraphRunner, TurnSaver, TurnsError, type UndoCall } from "langgraph-checkpoint-turns";
import { CheckpointFile, type Progress } from "langgraph-checkpoint-turns/checkpoint-file";
import { importOfficial } from "langgraph-checkpoint-turns/import";
import { salvage } from "langgraph-checkpoint-turns/maintenance";
import ts from "typescript";
import {
  decode,
  decodeOfficial,
  encode,
  hashOf,
  parseDocument,
  READABLE_TAGS,
  readerOf,
  sha256,
  Values,
  weightOf,
  withFailure,
} from "../../src/testing-internal";
import { TAGS } from "../../torture/fuzz/nasty";
import { resign } from "../../torture/fuzz/resign";
import { Random } from "../../torture/fuzz/random";
import { tried } from "../../torture/fuzz/run";
import type { Session } from "../../torture/fuzz/target";
import { TARGETS } from "../../torture/fuzz/targets";
import { checkpoint, codeOf, quiet, save, setup, thread } from "../support/bad-harness";
import { collect } from "../support/diff-harness";
import { KEY } from "../support/enc-graph";
import { listener } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { oneOf } from "../support/lane";
import { effectUndoneBy, undosNamed } from "../support/undo-world";

const CORPUS = "__tests__/integrity/corpus";
const TASK = "00000000-0000-4000-8000-000000000001";
const metadata = { source: "loop" as const, step: 1, parents: {} };

jest.setTimeout(60_000);

describe("hostile input: mutated valid inputs", () => {
  const sessions = new Map<string, Session>();
  const sessionOf = async (name: string): Promise<Session> => {
    const session = sessions.get(name) ?? (await TARGETS[name]!.open(new Random(5)));
    sessions.set(name, session);
    return session;
  };
  afterAll(() => {
    for (const session of sessions.values()) session.close();
  });

  test.each([
    ["decoder", 600],
    ["parts", 200],
    ["official", 400],
    ["sealed", 200],
    ["checkpoint-file", 200],
    ["rows", 30],
    ["import", 4],
  ])("hostile input: %s: a value or a named error, no code run, nothing told, no prototype changed", async (name, inputs) => {
    const { found, answers } = await tried(await sessionOf(name), new Random(6), {
      inputs: Math.ceil(inputs / oneOf(16, 1)),
    });
    expect(found.map(({ what }) => what)).toEqual([]);
    expect(answers).toBeGreaterThan(0);
  });

  test.each(readdirSync(CORPUS))("hostile input: %s, found before, is answered by name", async (file) => {
    const name = Object.keys(TARGETS).find((each) => file.startsWith(each))!;
    const session = await sessionOf(name);
    expect(await session.feed(readFileSync(join(CORPUS, file)))).not.toMatch(/^no (form|cell)/);
  });
});

describe("hostile input: rows that somebody else wrote, with their checksums", () => {
  /** A file with a checkpoint that somebody changes; what reading it comes to. */
  async function read(change: (db: Database.Database) => void): Promise<unknown> {
    const path = tempFile();
    const saver = TurnSaver.fromPath(path, { logger: quiet });
    await save(saver, "t", { list: ["x".repeat(300), 1], big: { text: "y".repeat(300) }, small: 1 });
    saver.close();
    const db = new Database(path);
    change(db);
    db.close();
    const again = TurnSaver.fromPath(path, { logger: quiet });
    const code = await codeOf(() => again.getTuple(thread("t")));
    again.close();
    return code;
  }

  /** Changes a column of the newest row, and makes its checksum anew. */
  const put = (table: string, column: string, value: unknown) => (db: Database.Database) => {
    const rowid = db.prepare(`SELECT max(rowid) FROM ${table}`).pluck().get() as number;
    db.prepare(`UPDATE ${table} SET ${column} = ? WHERE rowid = ?`).run(value, rowid);
    expect(resign(db, table, rowid)).toBe(true);
  };

  test("hostile input: a checksum made again is one that is accepted", async () => {
    expect(await read(put("langgraph_snapshots", "metadata", '{"source":"input","step":7}'))).toBe("no error");
    expect(await read((db) => db.exec("UPDATE langgraph_snapshots SET step = 7"))).toBe("CHECKPOINT_CORRUPTED");
  });

  test.each([
    ["channels", "no JSON"],
    ["channels", "[]"],
    ["channels", "null"],
    ["channels", '{"small":{}}'],
    ["channels", '{"small":1e999}'],
    ["channels", '{"small":[1,0]}'],
    ["channels", '{"small":[1,1,7]}'],
    ["channels", '{"small":[1,2,"x",1,"y"]}'],
    ["channels", '{"small":[1,2,1,-1,"y"]}'],
    ["channels", '{"small":[1,9]}'],
    ["channels", '{"small":[1,1,"__proto__"]}'],
    ["body", "null"],
    ["body", '{"v":4,"versions_seen":5}'],
    ["body", '{"v":4,"versions_seen":{"a":5}}'],
    ["body", '{"v":4,"ts":{}}'],
    ["metadata", "null"],
    ["metadata", "5"],
    ["metadata", '{"~":"Function","v":"globalThis.__pwned = true"}'],
  ])("hostile input: a checkpoint's %s of %s is refused by name", async (column, value) => {
    const code = await read(put("langgraph_snapshots", column, value));
    expect(["CHECKPOINT_CORRUPTED", "STATE_INVARIANT_VIOLATED", "UNDECODABLE_VALUE"]).toContain(code);
  });

  test.each(["null", "5", "[5]", "[[0,5,1]]", '{"length":1}', '[[0,"channel",{"~":"Proxy","v":[]}]]'])(
    "hostile input: pending writes of %s are refused by name",
    async (value) => {
      const code = await read(put("langgraph_writes", "entries", value));
      expect(["CHECKPOINT_CORRUPTED", "UNDECODABLE_VALUE"]).toContain(code);
    },
  );

  /** Chunks that refer to the one before, so often; the channel refers to the last. */
  const chain = (length: number, times: number) => (db: Database.Database) => {
    const insert = db.prepare(
      "INSERT INTO langgraph_chunks (seq, thread, address, body) SELECT ?, thread, ?, ? FROM langgraph_snapshots LIMIT 1",
    );
    let text = '"end"';
    let seq = (db.prepare("SELECT max(seq) FROM langgraph_snapshots").pluck().get() as number) + 1_000_000;
    for (let at = 0; at < length; at += 1) {
      insert.run(seq++, sha256(text), text);
      text = `[${Array(times)
        .fill(`{"~":"chunk","v":"${sha256(text)}"}`)
        .join()}]`;
    }
    insert.run(seq, sha256(text), text);
    put("langgraph_snapshots", "channels", `{"small":[1,1,"${sha256(text)}"]}`)(db);
  };

  test("hostile input: parts of parts of parts are refused by name, however long their chain", async () => {
    expect(await read(chain(1, 2))).toBe("no error");
    expect(await read(chain(2, 2))).toBe("CHECKPOINT_CORRUPTED");
    expect(await read(chain(12_000, 1))).toBe("CHECKPOINT_CORRUPTED");
  });

  test("hostile input: a few parts that are to become 2^60 are refused by name", async () => {
    expect(await read(chain(60, 2))).toBe("CHECKPOINT_CORRUPTED");
    expect(await read(chain(5, 40))).toBe("CHECKPOINT_CORRUPTED");
  });

  test("hostile input: a constructor of LangChain that is inserted as data is restored as data", async () => {
    const path = tempFile();
    const saver = TurnSaver.fromPath(path, { logger: quiet });
    await save(saver, "t", { small: 1 });
    const gadget = { lc: 1, type: "constructor", id: ["langchain", "llms", "openai", "OpenAI"], kwargs: { openAIApiKey: "x" } };
    const db = new Database(path);
    put("langgraph_snapshots", "channels", JSON.stringify({ small: [1, 0, gadget] }))(db);
    db.close();
    expect((await saver.getTuple(thread("t")))?.checkpoint.channel_values).toEqual({ small: gadget });
    saver.close();
  });

  test("hostile input: a graph's document is read only if it is one, no matter what its digest says", () => {
    for (const wrong of [
      {},
      { nodes: null, channels: {} },
      { nodes: { a: 5 }, channels: {} },
      { nodes: {}, channels: { a: null } },
    ]) {
      const { nodes, channels } = wrong as { nodes?: unknown; channels?: unknown };
      expect(parseDocument(hashOf({ nodes, channels }), JSON.stringify(wrong))).toBeUndefined();
    }
    const right = { nodes: { a: { fingerprint: "f", source: "s", edges: ["b"] } }, channels: {} };
    expect(parseDocument(hashOf(right), JSON.stringify(right))).toMatchObject(right);
  });
});

/** Strings that would mean something to SQL, to JSON paths, to globs, to a terminal or to an engine. */
const STRINGS = [
  "'; DROP TABLE langgraph_snapshots; --",
  '"; DELETE FROM langgraph_snapshots; --',
  "' OR '1'='1",
  "%",
  "_",
  "*",
  '$."a"',
  "$.a[0]",
  "a.b",
  "a\\",
  "?1",
  ":name",
  "\u202etxt.exe",
  "e\u0301",
  "..\\..\\x",
  "../../x",
  "/etc/passwd",
  "CON",
  "__proto__",
  "constructor",
  "prototype",
  "toString",
];

describe("hostile input: strings that reach SQL", () => {
  test.each(STRINGS)("hostile input: %j as every name at once is data, and no other thread's row is touched", async (text) => {
    const { path, saver, witness, close } = await setup();
    const schema = (): unknown => witness.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").all();
    const others = async (): Promise<unknown> =>
      JSON.stringify([await saver.getTuple(thread("bystander")), await saver.getTuple(thread("t%"))]);
    const [schemaBefore, othersBefore] = [schema(), await others()];
    const own = (value: unknown): any => Object.fromEntries([[text, value]]);
    const prototypes = [Object.prototype, Array.prototype].map((prototype) => Reflect.ownKeys(prototype).length);
    // As the name of a channel, too: a text, and one so long that it is a part of its own.
    const one = { ...checkpoint(own({ [text]: text, long: own(text.padEnd(600)) })), id: text };
    const given = { ...metadata, ...own(text) };
    const at = thread(text, { checkpoint_ns: text, task_id: text, graph_id: text });
    const config = await saver.put({ ...at, metadata: { run_id: text } } as any, one, given, one.channel_versions);
    await saver.putWrites(config, [[text, own(text)]], text);
    const tuple = (await saver.getTuple(config))!;
    expect(tuple.checkpoint).toEqual(one);
    expect(Object.keys(tuple.checkpoint.channel_values)).toEqual([text]);
    expect(Object.getOwnPropertyDescriptor(tuple.metadata, text)?.value).toBe(text);
    expect(tuple.pendingWrites).toEqual([[text, text, own(text)]]);
    expect(await collect(saver.list(thread(text), { filter: own(text) }))).toHaveLength(1);
    expect(await collect(saver.list(thread(text), { filter: own("other") }))).toHaveLength(0);
    expect(await collect(saver.list(thread(text), { filter: own({}) }))).toHaveLength(0);
    expect(await collect(saver.list(thread(text), { before: { configurable: { checkpoint_id: text } } }))).toHaveLength(0);
    const named = { threadId: text, checkpointNs: text, checkpointId: text };
    if ((await codeOf(() => saver.names.set(named, text))) === "no error") {
      expect((await saver.names.list(text)).map(({ name }) => name)).toEqual([text]);
      expect(await saver.names.delete(text, text)).toBe(true);
    }
    await saver.getDeltaChannelHistory({ config, channels: [text] });
    const copy = `copy of ${text}`;
    await saver.copyThread(text, copy);
    expect((await saver.retention.deleteForRuns([text])).checkpoints).toBeGreaterThan(0);
    for (const id of [text, copy]) await saver.deleteThread(id);
    for (const ask of [() => saver.rewind({ threadId: text, toTask: text }), () => saver.rewinds.takeBack(text)]) {
      expect(String(await codeOf(ask))).toMatch(/^(UNKNOWN_TASK|THREAD_NOT_FOUND|REWIND_NOT_FOUND)$/);
    }
    expect(await others()).toBe(othersBefore);
    expect(schema()).toEqual(schemaBefore);
    expect([Object.prototype, Array.prototype].map((prototype) => Reflect.ownKeys(prototype).length)).toEqual(prototypes);
    expect(readdirSync(join(path, "..")).every((file) => file.startsWith("agent.db"))).toBe(true);
    close();
  });

  // LangGraph itself refuses names of nodes with ":" and "|", and those of properties that every object has.
  test.each(STRINGS.filter((text) => !/[:|]|__proto__/.test(text)))(
    "hostile input: %j as a node, a task, an effect and an undo is data, from its first turn to its rewind",
    async (text) => {
      const { saver, witness, close } = await setup();
      const schema = (): unknown => witness.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").all();
      const schemaBefore = schema();
      const node = text in Object.prototype ? `${text}!` : text;
      const State = Annotation.Root({ note: Annotation<string>() });
      const graph = new StateGraph(State)
        .addNode(node, async () => ({ note: await effectUndoneBy(text, text, () => text, { input: { [text]: text } }) }))
        .addEdge(START, node as never)
        .compile({ checkpointer: saver });
      const undone: unknown[] = [];
      const runner = new GraphRunner(graph, {
        undos: undosNamed({ [text]: ({ result }: UndoCall) => void undone.push(result) }),
      });
      await runner.invoke({ note: "in" }, { threadId: text, taskId: "first" });
      await runner.invoke({ note: "in" }, { threadId: text, taskId: text });
      expect((await saver.turns.list(text)).map(({ nodeName, taskId }) => [nodeName, taskId])).toEqual([
        ...[0, 1].map(() => [node, "first"]),
        ...[0, 1].map(() => [node, text]),
      ]);
      const [done] = await saver.effects.list(text);
      expect([done?.name, done?.nodeName, done?.undo]).toEqual([text, node, text]);
      const progress = new CheckpointFile(tempFile("CHECKPOINT.md"));
      await progress.refresh(saver, text);
      expect((await progress.read())?.phases.map(({ id }) => id)).toEqual(["first", text]);
      await runner.rewind({ threadId: text, toTask: "first" });
      expect(undone).toEqual([text]);
      expect((await saver.turns.list(text)).map(({ taskId }) => taskId)).toEqual(["first", "first"]);
      expect(schema()).toEqual(schemaBefore);
      expect((await saver.verify()).problems).toEqual([]);
      close();
    },
  );

  test("hostile input: an effect named __proto__ is defined like any other, and what is no undo is refused by its name", async () => {
    const { saver, close } = await setup();
    const rewound = (undos: never): Promise<unknown> => codeOf(() => saver.rewind({ threadId: "t", toTask: "x" }, undos));
    expect(await rewound(undosNamed({ ["__proto__"]: () => undefined }) as never)).toBe("THREAD_NOT_FOUND");
    expect(undosNamed({ ["__proto__"]: () => undefined })[0]?.effectName).toBe("__proto__");
    for (const wrong of [[5] as never, {} as never, 5 as never]) expect(await rewound(wrong)).toBe("INVALID_OPTION");
    close();
  });

  test("hostile input: every SQL text is made of constants", () => {
    // Elsewhere only names of ours are put in, for the reasons that the list gives. A value never is: it is bound.
    const allowed = JSON.parse(readFileSync("__tests__/integrity/sql-names.json", "utf8")) as Record<string, { parts: string[] }>;
    const files = readdirSync("src/store", { recursive: true, encoding: "utf8" });
    const found: string[] = [];
    let looked = 0;
    for (const file of files.filter((name) => /(?<!generated)\.ts$/.test(name))) {
      for (const part of partsOfSql(join("src/store", file))) {
        looked += 1;
        // A range of numbers, for a column that is named there and then; and what tables.ts says of a table.
        const isConstant = /^([A-Z][A-Z_]+\b|ofThread\(("[\w.]+")?\)$|(table|described)\.name$|rowsOfThread\(table\)$)/.test(
          part,
        );
        if (!isConstant && allowed[file]?.parts.some((each) => new RegExp(`^(?:${each})$`).test(part)) !== true) {
          found.push(`${file}: ${part}`);
        }
      }
    }
    expect(looked).toBeGreaterThan(100);
    expect(found).toEqual([]);
  });
});

test("S1.9 hostile input: a column whose name is SQL stops a rewind before anything is deleted", async () => {
  const { path, saver, rows, close } = await setup();
  const at = (task: string) => thread("t", { task_id: task });
  for (const task of ["one", "two"]) {
    const one = checkpoint();
    await saver.put(at(task), one, { source: "input", step: -1, parents: {} }, one.channel_versions);
  }
  const db = new Database(path);
  db.exec(`ALTER TABLE langgraph_snapshots ADD COLUMN "x') , (DELETE" TEXT`);
  db.close();
  const before = rows();
  await expect(saver.rewind({ threadId: "t", toTask: "one" })).rejects.toMatchObject({ code: "SCHEMA_CONFLICT" });
  expect(rows()).toEqual(before);
  close();
});

/** What is put into SQL texts of a file: not constants of the module in capitals, which are looked at where they are made. */
function partsOfSql(path: string): string[] {
  const source = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.ES2022, true);
  const parts: string[] = [];
  const isSql = (text: string): boolean =>
    /\b(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|DROP|ALTER|PRAGMA|FROM|WHERE|VALUES)\s/.test(text);
  const visit = (node: ts.Node): void => {
    if (ts.isTemplateExpression(node)) {
      const whole = node.head.text + node.templateSpans.map((span) => span.literal.text).join(" ");
      if (isSql(whole)) for (const span of node.templateSpans) parts.push(span.expression.getText(source).replace(/\s+/g, " "));
    }
    if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
      for (const [side, other] of [
        [node.left, node.right],
        [node.right, node.left],
      ] as const) {
        if (ts.isStringLiteralLike(side) && isSql(side.text) && !ts.isStringLiteralLike(other)) parts.push(other.getText(source));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return parts;
}

describe("hostile input: values that lie", () => {
  const flip = (first: unknown, second: unknown): object => {
    let asked = 0;
    return Object.defineProperty({}, "x", { enumerable: true, get: () => (asked++ % 2 === 0 ? first : second) });
  };
  const proxy = (handler: ProxyHandler<any>, target: object = {}): object => new Proxy(target, handler);
  let asked = 0;
  const REVOKED = Proxy.revocable({}, {});
  REVOKED.revoke();
  const VALUES: [string, unknown][] = [
    ["a getter that changes its answer", flip("a", "b")],
    ["a getter that changes its long answer", [flip("a".repeat(600), "b".repeat(600)), 1]],
    [
      "a proxy that claims to have the marker",
      proxy({ getOwnPropertyDescriptor: () => ({ value: 1, enumerable: true, configurable: true }) }),
    ],
    [
      "a proxy whose keys become the marker",
      proxy({
        ownKeys: () => (asked++ % 3 === 2 ? ["~", "v"] : ["a", "b"]),
        getOwnPropertyDescriptor: (_target, key) => ({
          value: 1,
          enumerable: key !== "~" || asked % 2 === 0,
          configurable: true,
        }),
        get: (_target, key) => (key === "~" ? "Map" : "v".repeat(300)),
      }),
    ],
    [
      "a proxy that throws",
      proxy({
        ownKeys: () => {
          throw new Error("no");
        },
      }),
    ],
    ["a revoked proxy", REVOKED.proxy],
    ["a proxy of two prototypes", proxy({ getPrototypeOf: () => (asked++ % 2 === 0 ? Object.prototype : Array.prototype) })],
    ["a list that tells another length", proxy({ get: (list, key) => (key === "length" ? 3 : Reflect.get(list, key)) }, [1, 2])],
    [
      "toJSON that throws",
      {
        toJSON: () => {
          throw new Error("no");
        },
      },
    ],
    [
      "Symbol.toPrimitive",
      {
        [Symbol.toPrimitive]: () => {
          throw new Error("no");
        },
      },
    ],
    ["a date with methods of its own", Object.assign(new Date(5), { toISOString: () => '"}', getTime: () => NaN })],
  ];

  test.each(VALUES)(
    "hostile input: %s is saved as one value, or refused by name; what is read is what is stored",
    async (_title, value) => {
      const path = tempFile();
      const saver = TurnSaver.fromPath(path, { logger: quiet });
      for (const state of [value, ["x".repeat(300), value], { long: "x".repeat(300), value }]) {
        for (let time = 0; time < 3; time += 1) {
          const one = checkpoint({ state });
          const code = await codeOf(() => saver.put(thread(), one, metadata, one.channel_versions));
          expect(["no error", "UNSERIALIZABLE_VALUE"]).toContain(code);
          if (code !== "no error") continue;
          const other = TurnSaver.fromPath(path, { logger: quiet });
          const stored = (await other.getTuple(thread()))!.checkpoint;
          expect((await saver.getTuple(thread()))!.checkpoint).toEqual(stored);
          expect(stored.id).toBe(one.id);
          other.close();
          const written = await codeOf(() => saver.putWrites(thread("t", { checkpoint_id: one.id }), [["state", state]], TASK));
          expect(["no error", "UNSERIALIZABLE_VALUE"]).toContain(written);
          expect(await codeOf(() => saver.getTuple(thread()))).toBe("no error");
        }
      }
      expect((await saver.verify()).problems).toEqual([]);
      saver.close();
    },
  );

  test("hostile input: keys that lead to prototypes, and objects that look like LangChain's, are restored as the data they were", async () => {
    const text =
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"then":"x","lc":1,"type":"constructor",' +
      '"id":["langchain_core","messages","AIMessage"],"kwargs":{"content":"x"},"nested":[{"lc":2,"type":"constructor","id":["Set"],"args":[[1]]}]}';
    const { saver, close } = await setup();
    const State = Annotation.Root({ data: Annotation<unknown>() });
    const graph = saver.attach(
      new StateGraph(State)
        .addNode("a", (state) => ({ data: state.data }))
        .addEdge(START, "a")
        .compile({ checkpointer: saver }),
    );
    await graph.invoke({ data: JSON.parse(text) }, thread());
    const { data } = (await graph.getState(thread())).values as { data: object };
    expect(JSON.stringify(data)).toBe(text);
    expect(Object.getPrototypeOf(data)).toBe(Object.prototype);
    expect(data).not.toBeInstanceOf(AIMessage);
    for (const turn of await saver.turns.list("t")) await saver.turns.state(turn);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    close();
  });

  test.each(["__proto__", "constructor", "prototype", "hasOwnProperty"])(
    "hostile input: the key %s in options is no option, and in a config nothing",
    async (key) => {
      const options = JSON.parse(`{"${key}":{"durability":"normal","polluted":1}}`) as object;
      expect(() => TurnSaver.fromPath(":memory:", options)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
      const { saver, close } = await setup();
      const config = { configurable: JSON.parse(`{"thread_id":"t","${key}":{"thread_id":"bystander","polluted":1}}`) };
      expect(await saver.getTuple(config)).toBeUndefined();
      const one = checkpoint();
      expect((await saver.put(config, one, metadata, one.channel_versions)).configurable!["thread_id"]).toBe("t");
      expect(await codeOf(() => saver.rewind(options as never))).toBe("INVALID_OPTION");
      expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
      close();
    },
  );

  test.each<[string, object, object]>([
    ["checkpoint.v", { v: "4" }, {}],
    ["checkpoint.ts", { ts: 5 }, {}],
    ["checkpoint.versions_seen", { versions_seen: { a: 5 } }, {}],
    ["checkpoint.channel_versions.channel", { channel_versions: { channel: {} } }, {}],
    ["checkpoint.channel_versions.channel", { channel_versions: { channel: NaN } }, {}],
    ["metadata.source", {}, { source: 5 }],
    ["metadata.source", {}, { source: "a\0b" }],
    ["metadata.step", {}, { step: NaN }],
    ["metadata.step", {}, { step: 1.5 }],
    ["metadata.step", {}, { step: "1" }],
  ])(
    "hostile input: a %s that would not come back is refused before anything is saved (%#)",
    async (field, inCheckpoint, inMetadata) => {
      const { saver, rows, close } = await setup();
      const before = rows();
      const refused = saver.put(
        thread(),
        { ...checkpoint(), ...inCheckpoint },
        { ...metadata, ...inMetadata },
        {
          channel: 1,
        },
      );
      await expect(refused).rejects.toMatchObject({ code: "INVALID_CHECKPOINT", data: { field } });
      expect(rows()).toEqual(before);
      close();
    },
  );
});

describe("hostile input: what may become of a text", () => {
  test("hostile input: the tags that can be read are a closed list, and each builds its own class", () => {
    const literal = /^(undefined|number|bigint|object|null-prototype|Array|chunk|serde)$/;
    const tags = [...TAGS, "Promise", "WeakRef", "Symbol", "GeneratorFunction", "hasOwnProperty"];
    const readable = tags.filter((tag) => readerOf(tag) !== undefined).sort();
    const builtIns = ["Date", "RegExp", "URL", "Map", "Set", "Buffer", "ArrayBuffer", "DataView"];
    const numbers = [
      "Int8",
      "Uint8",
      "Uint8Clamped",
      "Int16",
      "Uint16",
      "Int32",
      "Uint32",
      "Float32",
      "Float64",
      "BigInt64",
      "BigUint64",
    ];
    const errors = ["", "Type", "Range", "Syntax", "Reference", "Eval", "URI", "Aggregate"].map((kind) => `${kind}Error`);
    const kinds = ["AI", "Human", "System", "Tool", "Function", "Chat"].flatMap((kind) => [
      `${kind}Message`,
      `${kind}MessageChunk`,
    ]);
    const classes = [...builtIns, ...numbers.map((kind) => `${kind}Array`), ...errors, ...kinds, "RemoveMessage"];
    const others = ["Document", "Send", "Command", "Overwrite", "DeltaSnapshot"];
    expect(READABLE_TAGS.filter((tag) => !literal.test(tag)).sort()).toEqual([...classes, ...others].sort());
    expect(readable.every((tag) => READABLE_TAGS.includes(tag))).toBe(true);
  });

  test.each(["OpenAI", "ChatOpenAI", "PromptTemplate", "Function", "__proto__", "constructor"])(
    "hostile input: LangGraph's own format builds no %s",
    (name) => {
      for (const id of [["langchain_core", "messages", name], ["langchain", "llms", name], ["langchain_core", name], [name]]) {
        const text = JSON.stringify({ lc: 1, type: "constructor", id, kwargs: { content: "x", lc_serializable: true } });
        expect(() => decodeOfficial("json", text)).toThrow(expect.objectContaining({ code: "UNDECODABLE_VALUE" }));
        const second = { lc: 2, type: "constructor", id, args: ["globalThis.__pwned = true"], method: "constructor" };
        expect(decodeOfficial("json", JSON.stringify(second))).toEqual(second);
      }
      expect("__pwned" in globalThis).toBe(false);
    },
  );

  test("hostile input: holes take no memory, however many a text claims there are", () => {
    const before = process.memoryUsage().heapUsed;
    for (const length of [17, 1_000_000, 2 ** 25, 2 ** 32 - 1]) {
      const text = `[${Array(20).fill(`{"~":"Array","n":${length},"v":[[3,"x"]]}`).join()}]`;
      const lists = decode(text) as unknown[][];
      expect(lists.map((list) => [list.length, Object.keys(list), list[3]])).toEqual(Array(20).fill([length, ["3"], "x"]));
      expect(encode(lists)).toBe(text);
    }
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(100 * 2 ** 20);
    for (const length of [-1, 0.5, 2 ** 32, '"3"', "null", "[]"]) {
      expect(() => decode(`{"~":"Array","n":${length},"v":[]}`)).toThrow(expect.objectContaining({ code: "UNDECODABLE_VALUE" }));
    }
  });

  test("hostile input: a part that is repeated without measure is refused before it takes the memory", () => {
    const valuesOf = (): Values =>
      new Values(
        { classInstances: "error", immutable: false, cacheSize: 1_000_000 },
        { address: (_threadId, text) => sha256(text), awaitsKeys: () => false },
      );
    // A text counts little, so the measure is soon full without much memory.
    const chunk = `["${"x".repeat(600_000)}"]`;
    const parts = { generation: "", chunks: new Map([[sha256(chunk), chunk]]) };
    const times = (count: number): string =>
      `[${Array(count)
        .fill(`{"~":"chunk","v":"${sha256(chunk)}"}`)
        .join()}]`;
    expect(valuesOf().decoded("t", times(800), parts)).toHaveLength(800);
    expect(() => valuesOf().decoded("t", times(1_000), parts)).toThrow(expect.objectContaining({ code: "CHECKPOINT_CORRUPTED" }));
    expect(['"a,[{"', "[[],{}]", "[1,2,3]", '{"~":"Error","v":{}}'].map(weightOf)).toEqual([1, 5, 4, 11]);
  });

  test("a state that repeats a part more often than may be read is written out, and is restored", async () => {
    const { saver, path, close } = await setup();
    const part = { items: Array(100_000).fill(0) };
    const state = Object.fromEntries(Array.from({ length: 23 }, (_, index) => [`k${index}`, part]));
    await save(saver, "t", { state });
    const other = TurnSaver.fromPath(path, { logger: quiet });
    const read = (await other.getTuple(thread("t")))?.checkpoint.channel_values;
    expect(JSON.stringify(read) === JSON.stringify({ state })).toBe(true);
    const db = new Database(path, { readonly: true });
    expect(db.prepare("SELECT max(length(body)) FROM langgraph_chunks").pluck().get()).toBeGreaterThan(4_000_000);
    db.close();
    other.close();
    close();
  });

  test("hostile input: keys that lead to prototypes in an official file are imported as the data they are", async () => {
    const path = tempFile("official.db");
    const official = SqliteSaver.fromConnString(path);
    const one = checkpoint({ state: 1 });
    await official.put(thread("t", { checkpoint_ns: "" }), one, { source: "loop", step: 1, parents: {} });
    const evil = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"prototype":1}';
    const stored = JSON.stringify(one).replace('"state":1', `"state":${evil}`);
    official.db
      .prepare("UPDATE checkpoints SET checkpoint = ?, metadata = ?")
      .run(
        stored.replace('{"state":', '{"__proto__":5,"state":'),
        `{"source":"loop","step":1,"parents":{},"evil":${evil},"__proto__":{"polluted":2}}`,
      );
    official.db.close();
    const { saver, close } = await setup();
    expect((await importOfficial(saver, path)).threads).toMatchObject([{ threadId: "t", checkpoints: 1, outcome: "imported" }]);
    const { checkpoint: read, metadata: found } = (await saver.getTuple(thread("t")))!;
    expect(JSON.stringify(read.channel_values["state"])).toBe(evil);
    expect(JSON.stringify((found as any).evil)).toBe(evil);
    expect(Object.getOwnPropertyDescriptor(found, "__proto__")?.value).toEqual({ polluted: 2 });
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect((await saver.verify()).problems).toEqual([]);
    close();
  });
});

describe("hostile input: what is told", () => {
  test("hostile input: no error and no log line tells what a value holds", async () => {
    const canary = "Canary7Zq";
    const log = listener();
    const path = tempFile();
    const saver = TurnSaver.fromPath(path, { logger: log });
    const told: unknown[] = [];
    const tell = async (work: () => unknown): Promise<void> => {
      const error = await Promise.resolve()
        .then(work)
        .then(
          () => undefined,
          (caught: unknown) => caught,
        );
      if (error === undefined) return;
      expect(TurnsError.is(error)).toBe(true);
      for (let link: unknown = error; link instanceof TurnsError; link = link.cause)
        told.push(link.message, link.data, link.stack);
    };
    const content = { text: canary, message: new HumanMessage(canary), list: ["x".repeat(300), canary] };
    await save(saver, "t", { state: content }, { note: canary });
    const bad = (value: unknown): unknown =>
      saver.put(thread(), checkpoint({ state: { ...content, value } }), metadata, { state: 1 });
    for (const value of [
      () => canary,
      Symbol(canary),
      new (class A {
        a = canary;
      })(),
      new WeakMap(),
    ])
      await tell(() => bad(value));
    await tell(() => saver.putWrites(thread(), [["state", { canary, f: () => canary }]], TASK));
    const db = new Database(path);
    for (const [table, column] of [
      ["langgraph_snapshots", "channels"],
      ["langgraph_snapshots", "body"],
      ["langgraph_snapshots", "metadata"],
      ["langgraph_writes", "entries"],
      ["langgraph_chunks", "body"],
    ] as const) {
      const [rowid, old] = db.prepare(`SELECT max(rowid), ${column} FROM ${table}`).raw().get() as [number, string];
      const update = db.prepare(`UPDATE ${table} SET ${column} = ? WHERE rowid = ?`);
      for (const [signed, text] of [
        [false, `${old} ${canary}`],
        [true, `{"~":"Map","v":"${canary}"}`],
        [true, `${canary} is no JSON`],
      ] as const) {
        update.run(text, rowid);
        if (signed) resign(db, table, rowid);
        const other = TurnSaver.fromPath(path, { logger: log });
        await tell(() => other.getTuple(thread("t")));
        told.push(await other.verify().catch((error: unknown) => String(error)));
        other.close();
        update.run(old, rowid);
        if (signed) resign(db, table, rowid);
      }
    }
    db.close();
    saver.close();
    expect(told.length).toBeGreaterThan(40);
    expect([...told, ...log.lines].map((each) => JSON.stringify(each) ?? "").filter((text) => text.includes(canary))).toEqual([]);
  });
});

describe("hostile input: encrypted rows", () => {
  const rows = (db: Database.Database): any[] =>
    db.prepare("SELECT rowid AS id, entries, checksum FROM langgraph_writes ORDER BY seq").all();
  const CHANGES: [string, (bytes: Buffer, other: Buffer) => Buffer | string][] = [
    ["another row's bytes", (_bytes, other) => other],
    ["a tag cut short", (bytes) => bytes.subarray(0, -1)],
    ["no tag", (bytes) => bytes.subarray(0, -16)],
    ["a tag of four bytes", (bytes) => bytes.subarray(0, -12)],
    ["nothing", () => Buffer.alloc(0)],
    ["another format", (bytes) => Buffer.concat([Buffer.of(0), bytes.subarray(1)])],
    ["a key id of no length", (bytes) => Buffer.concat([Buffer.of(1, 0), bytes.subarray(2)])],
    ["a key id longer than the row", (bytes) => Buffer.concat([Buffer.of(1, 255), bytes.subarray(2)])],
    [
      "the id of a key that is not given",
      (bytes) => Buffer.from(bytes.toString("latin1").replace("default", "defauls"), "latin1"),
    ],
    ["a plain text", () => '[[0,"channel","forged"]]'],
  ];

  test.each(CHANGES)("hostile input: %s in the place of a sealed row is refused by name", async (_title, change) => {
    const path = tempFile();
    const options = { logger: quiet, encryption: { key: KEY } };
    const saver = TurnSaver.fromPath(path, options);
    for (const id of ["t", "u"]) await save(saver, id);
    saver.close();
    const db = new Database(path);
    const [own, other] = rows(db);
    const forged = change(own.entries as Buffer, other.entries as Buffer);
    expect(
      db.prepare("UPDATE langgraph_writes SET entries = ?, checksum = ? WHERE rowid = ?").run(forged, other.checksum, own.id)
        .changes,
    ).toBe(1);
    db.close();
    const again = TurnSaver.fromPath(path, options);
    expect(["CHECKPOINT_CORRUPTED", "NOT_ENCRYPTED", "UNKNOWN_KEY"]).toContain(await codeOf(() => again.getTuple(thread("t"))));
    expect(await codeOf(() => again.getTuple(thread("u")))).toBe("no error");
    again.close();
  });
});

describe("hostile input: files", () => {
  test.each(["../../x", "/etc/passwd", "a/b", "..", "CON", "x".repeat(4_000)])(
    "hostile input: thread %s becomes no part of a path: what is written is the file that was named",
    async (id) => {
      const path = tempFile("CHECKPOINT.md");
      const { saver, close } = await setup();
      await save(saver, id);
      const follower = CheckpointFile.follow(saver, id, path);
      await follower.close();
      expect((await new CheckpointFile(path).read())?.threadId).toBe(id);
      expect(readdirSync(join(path, ".."))).toEqual(["CHECKPOINT.md"]);
      close();
    },
  );

  test("S5.2 a file's name may be as long as the file system lets it", async () => {
    for (const name of [`${"n".repeat(252)}.md`, `${"ü".repeat(126)}.md`]) {
      const file = new CheckpointFile(tempFile(name));
      await file.write(PROGRESS);
      await file.markPhaseComplete("a");
      expect((await file.read())?.phases[0]?.status).toBe("completed");
      expect(readdirSync(join(file.path, ".."))).toEqual([name]);
    }
  });

  test("S5.3 notes of a million empty lines are brought up to date like any other", () => {
    const notes = `**Failed:** once\nbefore${"\n".repeat(1_000_000)}behind`;
    expect(withFailure(notes, "")).toBe(notes.slice("**Failed:** once\n".length));
    expect(withFailure(`\n\n${notes}\n\n`, "")).toBe(notes.slice("**Failed:** once\n".length));
  });

  test("hostile input: markup in ids, names and reasons is text on the page", async () => {
    const file = new CheckpointFile(tempFile("CHECKPOINT.md"));
    const evil = '<img src=x onerror="alert(1)"> [x](javascript:alert(1)) --> | `<script>`';
    await file.write({ ...PROGRESS, threadId: evil, phases: [{ ...PROGRESS.phases[0]!, id: evil, name: evil }] });
    await file.markPhaseFailed(evil, evil);
    const { default: MarkdownIt } = await import("markdown-it");
    const html = new MarkdownIt({ html: true }).render(readFileSync(file.path, "utf8"));
    expect(html.replace(/<!-- turns:[^>]*-->/g, "")).not.toMatch(/<(img|script|a)\b|-->/);
    expect((await file.read())?.threadId).toBe(evil);
  });
});

test.each(["__proto__", "constructor", "prototype"])(
  "hostile input: %s in CHECKPOINT.md is a phase like any other",
  async (id) => {
    const file = new CheckpointFile(tempFile("CHECKPOINT.md"));
    await file.write({ ...PROGRESS, threadId: id, phases: [{ ...PROGRESS.phases[0]!, id, name: id, notes: id }] });
    await file.logTokens(id, { input: 5 });
    await file.markPhaseFailed(id, id);
    const read = await file.read();
    expect(read?.phases.map((phase) => [phase.id, phase.status, phase.tokens.input])).toEqual([[id, "failed", 5]]);
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
    await expect(file.updatePhase("polluted", { notes: "x" })).rejects.toMatchObject({ code: "UNKNOWN_PHASE" });
    const change = JSON.parse(`{"${id}":{"polluted":1}}`) as object;
    await expect(file.updatePhase(id, change)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  },
);

test("hostile input: a progress file that is a pipe, a device or a folder is refused, not waited for", async () => {
  const folder = join(tempFile("x"), "..");
  execFileSync("mkfifo", [join(folder, "pipe")]);
  symlinkSync("/dev/zero", join(folder, "zero"));
  for (const name of ["pipe", "zero", "."]) {
    const file = new CheckpointFile(join(folder, name));
    await expect(file.read()).rejects.toMatchObject({ code: "CHECKPOINT_FILE_UNAVAILABLE" });
    await expect(file.write(PROGRESS)).rejects.toMatchObject({ code: "CHECKPOINT_FILE_UNAVAILABLE" });
  }
  expect(readdirSync(folder).sort()).toEqual(["pipe", "zero"]);
});

test("hostile input: a path is a path: no URI, no NUL, nothing that is cut off", async () => {
  const folder = join(tempFile("x"), "..");
  const path = join(folder, "file:a.db?mode=memory");
  const saver = TurnSaver.fromPath(path, { logger: quiet });
  await save(saver, "t");
  expect(readdirSync(folder)).toContain("file:a.db?mode=memory");
  for (const wrong of [`${folder}/a\0b`, "", 5, null, {}, new URL("file:///tmp/x")] as string[]) {
    expect(() => TurnSaver.fromPath(wrong)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    expect(() => new CheckpointFile(wrong)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    expect(await codeOf(() => importOfficial(saver, wrong))).toBe("INVALID_OPTION");
    expect(await codeOf(() => salvage(path, wrong))).toBe("INVALID_OPTION");
  }
  saver.close();
});

const NO_TOKENS = { input: 0, output: 0, cached: 0, reasoning: 0 };
const PROGRESS: Progress = {
  threadId: "t",
  phases: [{ id: "a", name: "a", status: "pending", startedAt: null, endedAt: null, notes: "", tokens: NO_TOKENS }],
  resume: { lastPhase: null, nextPhase: null, nextStep: null, canResume: true, reason: null },
  totals: NO_TOKENS,
};
