import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Command } from "@langchain/langgraph";
import Database from "better-sqlite3";
import {
  effect,
  CheckpointPersister,
  GraphRunner,
  type LangGraphCheckpoint,
  type Turn,
  TurnsError,
  type TurnSaver,
} from "langgraph-checkpoint-turns";
import { REWOUND } from "../rewind/rewind-world";
import { chain } from "../support/s1-graph";
import { runProgram } from "../support/s1-programs";
import { dump, listener, quiet, sqlOn } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { openPersister, type Persister } from "../support/open-persister";
import { testOfFiles } from "../support/test-of-files";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const NOON = new Date("2030-01-01T12:00:00.000Z");

let path: string;
let db: Database.Database;
let persister: Persister;

beforeEach(() => {
  path = tempFile();
  db = new Database(path);
  persister = openPersister(path, db);
});
afterEach(() => {
  db.close();
});

function turn(id: string, more: Partial<LangGraphCheckpoint> = {}): LangGraphCheckpoint {
  return { id, graphId: "g", nodeName: "n", turnType: "Thought", state: { id }, taskId: "t", createdAt: NOON, ...more };
}

function rows(): Record<string, unknown>[] {
  return db.prepare("SELECT * FROM langgraph_checkpoints ORDER BY rowid").all() as Record<string, unknown>[];
}

const ids = (): unknown[] => rows().map((row) => row["id"]);

/** A row by plain SQL, with the seven columns of the requirement alone. */
function insertPlain(id: string, more: { graph?: string; task?: string; type?: string; state?: string } = {}): void {
  db.prepare(
    `INSERT INTO langgraph_checkpoints (id, graph_id, node_name, turn_type, serialized_state, task_id, created_at)
     VALUES (?, ?, 'n', ?, ?, ?, ?)`,
  ).run(id, more.graph ?? "g", more.type ?? "Thought", more.state ?? `{"id":"${id}"}`, more.task ?? "t", NOON.toISOString());
}

async function refused(work: () => unknown): Promise<TurnsError> {
  try {
    await work();
  } catch (error) {
    if (TurnsError.is(error)) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("S1 the table", () => {
  interface Column {
    name: string;
    type: string;
    notnull: number;
    pk: number;
  }
  const columns = (): Column[] =>
    db.prepare("SELECT name, type, \"notnull\", pk FROM pragma_table_info('langgraph_checkpoints')").all() as Column[];

  testOfFiles("S1 has the seven columns exactly as required, first and in this order", async () => {
    expect(columns().slice(0, 7)).toEqual([
      { name: "id", type: "TEXT", notnull: 1, pk: 1 },
      { name: "graph_id", type: "TEXT", notnull: 1, pk: 0 },
      { name: "node_name", type: "TEXT", notnull: 1, pk: 0 },
      { name: "turn_type", type: "TEXT", notnull: 1, pk: 0 },
      { name: "serialized_state", type: "TEXT", notnull: 1, pk: 0 },
      { name: "task_id", type: "TEXT", notnull: 1, pk: 0 },
      { name: "created_at", type: "TEXT", notnull: 1, pk: 0 },
    ]);
  });

  testOfFiles("S1 each further column may be left out of an insert", async () => {
    const further = db
      .prepare(
        "SELECT name FROM pragma_table_info('langgraph_checkpoints') WHERE cid >= 7 AND \"notnull\" = 1 AND dflt_value IS NULL",
      )
      .all();
    expect(further).toEqual([]);
  });

  testOfFiles("S1 the schema has the columns and the CHECK in the words of the requirement", async () => {
    const { sql } = db.prepare("SELECT sql FROM sqlite_schema WHERE name = 'langgraph_checkpoints'").get() as { sql: string };
    const words = sql.replace(/\s+/g, " ");
    for (const column of [
      "id TEXT PRIMARY KEY",
      "graph_id TEXT NOT NULL",
      "node_name TEXT NOT NULL",
      "turn_type TEXT NOT NULL CHECK(turn_type IN ('Thought','Action'))",
      "serialized_state TEXT NOT NULL",
      "task_id TEXT NOT NULL",
      "created_at TEXT NOT NULL",
    ]) {
      expect(words).toContain(`${column},`);
    }
  });

  test.each(["thought", "ACTION", "Observation", "", " Thought"])("S1 the CHECK refuses the turn type %j", async (type) => {
    expect(() => insertPlain("x", { type })).toThrow(/CHECK constraint failed|violates check constraint/);
    expect(ids()).toEqual([]);
  });

  test.each(["graph_id", "node_name", "turn_type", "serialized_state", "task_id", "created_at"])(
    "S1 %s may not be NULL",
    (column) => {
      const values: Record<string, string | null> = {
        id: "x",
        graph_id: "g",
        node_name: "n",
        turn_type: "Thought",
        serialized_state: "{}",
        task_id: "t",
        created_at: NOON.toISOString(),
        [column]: null,
      };
      const names = Object.keys(values);
      const insert = db.prepare(
        `INSERT INTO langgraph_checkpoints (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})`,
      );
      expect(() => insert.run(...Object.values(values))).toThrow(/NOT NULL constraint failed|violates not-null constraint/);
    },
  );

  test("S1 the table comes from a numbered migration, recorded in the file", async () => {
    expect(db.prepare("SELECT version, name FROM langgraph_migrations ORDER BY version LIMIT 1").get()).toEqual({
      version: 1,
      name: expect.stringContaining("turns_and_checkpoints"),
    });
  });

  test("S1 rows that plain SQL inserted with the seven columns alone are read by every method", async () => {
    insertPlain("p1", { state: '{"n":1,"nested":{"list":[1,"two",null]}}' });
    insertPlain("p2", { type: "Action", state: '{"n":2}' });
    const p1 = turn("p1", { state: { n: 1, nested: { list: [1, "two", null] } } });
    const p2 = turn("p2", { turnType: "Action", state: { n: 2 } });
    expect(await persister.load("p1")).toEqual(p1);
    expect(await persister.loadLatest("g")).toEqual(p2);
    expect(await persister.loadForTask("t")).toEqual([p1, p2]);
    expect(await persister.prune("g", 1)).toBe(1);
    expect(await persister.deleteAfter("s", ["s", "t"])).toBe(1);
  });
});

describe("S1.1 save", () => {
  test("S1.1 inserts one row whose columns hold what was given, the state as JSON text", async () => {
    const state = { text: "héllo \u{1F600}", n: 1.5, yes: true, none: null, list: [1, [2]], inner: { a: "b" } };
    await persister.save(turn("one", { graphId: "graph", nodeName: "node", turnType: "Action", state, taskId: "task" }));
    expect(rows()).toHaveLength(1);
    const [row] = rows();
    expect(row).toMatchObject({
      id: "one",
      graph_id: "graph",
      node_name: "node",
      turn_type: "Action",
      task_id: "task",
      created_at: "2030-01-01T12:00:00.000Z",
    });
    expect(JSON.parse(row!["serialized_state"] as string)).toEqual(state);
  });

  test("S1.1 has committed when it returns: another connection sees the row", async () => {
    const other = new Database(path, { readonly: true });
    await persister.save(turn("one"));
    expect(other.prepare("SELECT count(*) FROM langgraph_checkpoints").pluck().get()).toBe(1);
    other.close();
  });

  testOfFiles("S1.1 returns nothing and leaves the handle open and outside of a transaction", async () => {
    expect(await persister.save(turn("one"))).toBeUndefined();
    expect(db.open).toBe(true);
    expect(db.inTransaction).toBe(false);
  });

  testOfFiles("S1.1 runs in a transaction: what a trigger did beside the insert goes with it", async () => {
    sqlOn(
      path,
      "CREATE TABLE beside (id TEXT)",
      `CREATE TRIGGER half AFTER INSERT ON langgraph_checkpoints BEGIN
         INSERT INTO beside VALUES (NEW.id); SELECT RAISE(FAIL, 'half-way'); END`,
    );
    expect((await refused(() => persister.save(turn("one")))).message).toMatch(/half-way/);
    expect(rows()).toEqual([]);
    expect(db.prepare("SELECT count(*) FROM beside").pluck().get()).toBe(0);
  });

  testOfFiles("S1.1 takes part in a transaction of the caller's", () => {
    const both = db.transaction((fail: boolean) => {
      void persister.save(turn(fail ? "x1" : "y1"));
      void persister.save(turn(fail ? "x2" : "y2"));
      if (fail) throw new Error("changed my mind");
    });
    expect(() => both(true)).toThrow("changed my mind");
    expect(ids()).toEqual([]);
    both(false);
    expect(ids()).toEqual(["y1", "y2"]);
  });

  test("S1.1 brings back exactly what was saved, rich values included", async () => {
    const state: Record<string, unknown> = {
      date: new Date("1999-12-31T23:59:59.999Z"),
      map: new Map<unknown, unknown>([
        ["k", new Set([1, "2"])],
        [{ object: "key" }, new Map()],
      ]),
      big: 2n ** 80n,
      numbers: [NaN, Infinity, -Infinity, -0, 1e-300],
      nothing: undefined,
      holes: { here: undefined },
      bytes: new Uint8Array([0, 255, 128]),
      pattern: /a"b/giu,
      url: new URL("https://example.org/?q=1"),
      messages: [
        new HumanMessage({ content: "hi", id: "h1" }),
        new AIMessage({ content: "", id: "a1", tool_calls: [{ id: "c1", name: "find", args: { q: "x" } }] }),
        new ToolMessage({ content: "found", tool_call_id: "c1", artifact: new Map([["rows", 3n]]) }),
      ],
      nul: "a\0b",
    };
    await persister.save(turn("rich", { state }));
    const back = (await persister.load("rich"))!.state;
    expect(back).toEqual(state);
    expect(Object.keys(back)).toEqual(Object.keys(state));
    expect(Object.is((back["numbers"] as number[])[3], -0)).toBe(true);
    expect(back["date"]).toBeInstanceOf(Date);
    expect((back["messages"] as unknown[])[2]).toBeInstanceOf(ToolMessage);
    expect(Object.hasOwn(back["holes"] as object, "here")).toBe(true);
  });

  test("S1.1 keeps a state with a __proto__ key as data", async () => {
    const state = JSON.parse('{"__proto__":{"polluted":true},"constructor":1}') as Record<string, unknown>;
    await persister.save(turn("proto", { state }));
    const back = (await persister.load("proto"))!.state;
    expect(Object.keys(back)).toEqual(["__proto__", "constructor"]);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("S1.1 a state that cannot be saved is refused with the path to the value, and nothing is written", async () => {
    const error = await refused(() => persister.save(turn("fn", { state: { deep: [{ callback: () => 1 }] } })));
    expect(error.code).toBe("UNSERIALIZABLE_VALUE");
    expect(error.message).toContain("callback");
    const loop: Record<string, unknown> = {};
    loop["self"] = loop;
    expect((await refused(() => persister.save(turn("loop", { state: loop })))).code).toBe("UNSERIALIZABLE_VALUE");
    expect(ids()).toEqual([]);
  });

  const bad: [string, unknown][] = [
    ["id", ""],
    ["id", 7],
    ["id", "a\0b"],
    ["id", "\ud800"],
    ["graphId", ""],
    ["graphId", null],
    ["nodeName", undefined],
    ["nodeName", "a\0"],
    ["turnType", "Observation"],
    ["turnType", "thought"],
    ["state", null],
    ["state", [1]],
    ["state", "{}"],
    ["taskId", ""],
    ["taskId", {}],
    ["createdAt", new Date(NaN)],
    ["createdAt", "2030-01-01"],
  ];
  test.each(bad)("S1.1 a checkpoint with a wrong %s (%j) is refused by name and nothing is written", async (field, value) => {
    const error = await refused(() => persister.save({ ...turn("x"), [field]: value }));
    expect(error.code).toBe("INVALID_CHECKPOINT");
    expect(error.name).toBe("InvalidCheckpointError");
    expect(error.message).toContain(`"${field}"`);
    expect(error.data["field"]).toBe(field);
    expect(ids()).toEqual([]);
  });

  test.each<[string, unknown, string]>([
    ["turnType", "Plan", 'is "Plan". Pass "Thought" or "Action".'],
    ["state", "{}", 'is "{}". Pass an object of named values.'],
    ["createdAt", "2030-01-01", 'is "2030-01-01". Pass a valid date.'],
  ])("S1.1 the message about %s = %j says what it is and what to pass", async (field, value, sentence) => {
    const error = await refused(() => persister.save({ ...turn("x"), [field]: value }));
    expect(error.message).toContain(`Field "${field}" of the checkpoint to save ${sentence}`);
  });

  test.each([[null], [undefined], ["x"], [7]])("S1.1 %j is no checkpoint", async (value) => {
    const error = await refused(() => persister.save(value as unknown as LangGraphCheckpoint));
    expect(error.code).toBe("INVALID_CHECKPOINT");
    expect(ids()).toEqual([]);
  });
});

describe("S1.2 no partial row", () => {
  test.each(["ABORT", "FAIL", "ROLLBACK"])(
    "S1.2 a trigger that raises %s half-way through the insert leaves no row",
    async (how) => {
      await persister.save(turn("before"));
      const before = dump(path);
      sqlOn(path, `CREATE TRIGGER no AFTER INSERT ON langgraph_checkpoints BEGIN SELECT RAISE(${how}, 'disk on fire'); END`);
      const error = await refused(() => persister.save(turn("after")));
      expect(error.code).toBe("STORE_FAILED");
      expect(error.message).toContain("disk on fire");
      expect(dump(path)).toEqual(before);
      sqlOn(path, "DROP TRIGGER no");
      await persister.save(turn("after"));
      expect(ids()).toEqual(["before", "after"]);
    },
  );

  test("S1.2 an id that is taken is refused and the first row stays as it was", async () => {
    await persister.save(turn("one", { state: { first: true } }));
    const before = dump(path);
    expect((await refused(() => persister.save(turn("one", { graphId: "other", state: { first: false } })))).code).toBe(
      "STORE_FAILED",
    );
    expect(dump(path)).toEqual(before);
    expect((await persister.load("one"))!.state).toEqual({ first: true });
  });

  testOfFiles("S1.2 a read-only handle refuses, with the reason", async () => {
    await persister.save(turn("one"));
    const locked = new Database(path, { readonly: true });
    const reader = new CheckpointPersister(locked);
    expect(reader.loadLatest("g")!.id).toBe("one");
    expect((await refused(() => reader.save(turn("two")))).code).toBe("STORE_UNAVAILABLE");
    locked.close();
    expect(ids()).toEqual(["one"]);
  });

  testOfFiles("S1.2 a lock that somebody else holds makes the save fail whole, and it can be repeated", async () => {
    db.pragma("busy_timeout = 0");
    const other = new Database(path);
    other.exec("BEGIN IMMEDIATE");
    expect((await refused(() => persister.save(turn("one")))).code).toBe("STORE_BUSY");
    other.exec("ROLLBACK");
    other.close();
    await persister.save(turn("one"));
    expect(ids()).toEqual(["one"]);
  });
});

describe("S1.3 loadLatest", () => {
  test("S1.3 null for an unknown graph and in an empty file", async () => {
    expect(await persister.loadLatest("g")).toBeNull();
    await persister.save(turn("one", { graphId: "other" }));
    expect(await persister.loadLatest("g")).toBeNull();
  });

  test("S1.3 the highest rowid wins, not the newest date and not the greatest id", async () => {
    await persister.save(turn("z", { createdAt: new Date("2040-01-01T00:00:00Z") }));
    await persister.save(turn("a", { createdAt: new Date("2020-01-01T00:00:00Z"), turnType: "Action" }));
    await persister.save(turn("other", { graphId: "other" }));
    expect(await persister.loadLatest("g")).toEqual(
      turn("a", { createdAt: new Date("2020-01-01T00:00:00Z"), turnType: "Action" }),
    );
  });

  test("S1.3 a graph id is data: wildcards and quotes match only themselves", async () => {
    await persister.save(turn("one", { graphId: "g'; DROP TABLE langgraph_checkpoints; --" }));
    expect(await persister.loadLatest("g%")).toBeNull();
    expect((await persister.loadLatest("g'; DROP TABLE langgraph_checkpoints; --"))!.id).toBe("one");
  });
});

describe("S1.4 loadForTask", () => {
  test("S1.4 all of a task's checkpoints, rowid ascending, regardless of their dates", async () => {
    for (const [index, id] of ["c", "a", "b"].entries()) {
      await persister.save(turn(id, { createdAt: new Date(NOON.getTime() - index * 1000) }));
      await persister.save(turn(`${id}-other`, { taskId: "other" }));
    }
    expect((await persister.loadForTask("t")).map((found) => found.id)).toEqual(["c", "a", "b"]);
    expect(await persister.loadForTask("nobody")).toEqual([]);
  });

  test("S1.4 graphId narrows it to one graph", async () => {
    await persister.save(turn("one", { graphId: "g1" }));
    await persister.save(turn("two", { graphId: "g2" }));
    expect((await persister.loadForTask("t")).map((found) => found.id)).toEqual(["one", "two"]);
    expect((await persister.loadForTask("t", { graphId: "g2" })).map((found) => found.id)).toEqual(["two"]);
    expect((await persister.loadForTask("t", {})).map((found) => found.id)).toEqual(["one", "two"]);
  });
});

describe("S1.5 deleteAfter", () => {
  const tasks = ["t1", "t2", "t3", "t4"];
  beforeEach(async () => {
    for (const taskId of tasks) {
      await persister.save(turn(`${taskId}-T`, { taskId }));
      await persister.save(turn(`${taskId}-A`, { taskId, turnType: "Action" }));
    }
  });

  test("S1.5 deletes every row of the tasks behind the target and says how many", async () => {
    expect(await persister.deleteAfter("t2", tasks)).toBe(4);
    expect(ids()).toEqual(["t1-T", "t1-A", "t2-T", "t2-A"]);
  });

  test("S1.5 the first task: all others go", async () => {
    expect(await persister.deleteAfter("t1", tasks)).toBe(6);
    expect(ids()).toEqual(["t1-T", "t1-A"]);
  });

  test("S1.5 the last task: nothing to delete", async () => {
    const before = dump(path);
    expect(await persister.deleteAfter("t4", tasks)).toBe(0);
    expect(dump(path)).toEqual(before);
  });

  test("S1.5 a target that is not in the list is an error, and nothing is deleted", async () => {
    const before = dump(path);
    for (const list of [tasks, []]) {
      const error = await refused(() => persister.deleteAfter("t9", list));
      expect(error.code).toBe("UNKNOWN_TASK");
      expect(error.message).toContain('"t9"');
    }
    expect(dump(path)).toEqual(before);
  });

  test("S1.5 rows of tasks that are not in the list stay", async () => {
    await persister.save(turn("unlisted", { taskId: "unlisted" }));
    expect(await persister.deleteAfter("t1", tasks)).toBe(6);
    expect(ids()).toEqual(["t1-T", "t1-A", "unlisted"]);
  });

  test("S1.5 the order of the list decides, not the order of the rows", async () => {
    expect(await persister.deleteAfter("t3", ["t4", "t3", "t1"])).toBe(2);
    expect(ids()).toEqual(["t2-T", "t2-A", "t3-T", "t3-A", "t4-T", "t4-A"]);
  });

  test("S1.5 an id listed twice behind the target is deleted once; a task never deletes itself", async () => {
    expect(await persister.deleteAfter("t3", ["t1", "t2", "t3", "t4", "t4"])).toBe(2);
    expect(await persister.deleteAfter("t1", ["t1", "t2", "t1"])).toBe(0);
    expect(ids()).toEqual(["t1-T", "t1-A", "t2-T", "t2-A", "t3-T", "t3-A"]);
  });

  test("S1.5 graphId deletes within one graph only", async () => {
    await persister.save(turn("elsewhere", { taskId: "t4", graphId: "other" }));
    expect(await persister.deleteAfter("t3", tasks, { graphId: "g" })).toBe(2);
    expect(ids()).toContain("elsewhere");
    expect(await persister.deleteAfter("t3", tasks, { graphId: "nobody's" })).toBe(0);
    expect(await persister.deleteAfter("t3", tasks)).toBe(1);
    expect(ids()).not.toContain("elsewhere");
  });

  const hostile = [
    "' OR '1'='1",
    "'); DELETE FROM langgraph_checkpoints; --",
    '"; DROP TABLE langgraph_checkpoints; --',
    "%",
    "_",
    "*",
    "t1' --",
    "?",
    "?1",
    ":id",
    "a\nb",
    "\u{1F4A3}",
  ];
  test("S1.5 hostile task ids match only themselves, as target and as victims", async () => {
    for (const [index, taskId] of hostile.entries()) await persister.save(turn(`h${index}`, { taskId }));
    for (const [index, taskId] of hostile.entries()) {
      expect(await persister.deleteAfter("t4", ["t4", taskId])).toBe(1);
      expect(await persister.loadForTask(taskId)).toEqual([]);
      await persister.save(turn(`h${index}`, { taskId }));
      expect(await persister.deleteAfter(taskId, ["t1", taskId])).toBe(0);
    }
    expect(ids()).toHaveLength(8 + hostile.length);
  });

  testOfFiles("S1.5 values are bound: the SQL holds one placeholder for each id and never an id", async () => {
    const prepare = jest.spyOn(db, "prepare");
    await persister.deleteAfter("t1", ["t1", ...hostile, "a-task-to-look-for"], { graphId: "a-graph-to-look-for" });
    const texts = prepare.mock.calls.map(([text]) => text);
    prepare.mockRestore();
    const deletes = texts.filter((text) => text.startsWith("DELETE"));
    // One for rows of its own, one for recorded turns.
    expect(deletes).toHaveLength(2);
    for (const text of deletes) {
      const placeholders = Array(hostile.length + 1).fill("?");
      expect(text).toContain(`task_id IN (${placeholders.join(",")})`);
      expect(text.split("?")).toHaveLength(placeholders.length + 2);
    }
    for (const text of texts) {
      expect(text).not.toContain("to-look-for");
      expect(text).not.toContain("DROP");
    }
  });

  describe("S1.5 more ids than SQLite binds at once", () => {
    const many = Array.from({ length: 40_000 }, (_, index) => `many-${index}`);
    beforeEach(() => {
      db.exec(`INSERT INTO langgraph_checkpoints (id, graph_id, node_name, turn_type, serialized_state, task_id, created_at)
        WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${many.length - 1})
        SELECT 'row-of-many-' || i, 'g', 'n', 'Thought', '{}', 'many-' || i, '${NOON.toISOString()}' FROM n`);
    });

    testOfFiles("S1.5 40,000 ids are more than one statement binds", async () => {
      expect(() => db.prepare(`SELECT ${Array(many.length).fill("?").join(",")}`)).toThrow(/too many/);
    });

    test("S1.5 40,000 tasks behind the target go", async () => {
      expect(await persister.deleteAfter("t4", [...tasks, ...many])).toBe(40_000);
      expect(ids()).toHaveLength(8);
    });

    test("S1.5 it is one transaction: a failure at the very last row leaves everything", async () => {
      const before = dump(path);
      sqlOn(
        path,
        `CREATE TRIGGER last BEFORE DELETE ON langgraph_checkpoints WHEN OLD.task_id = 'many-39999'
           BEGIN SELECT RAISE(FAIL, 'not this one'); END`,
      );
      expect((await refused(() => persister.deleteAfter("t1", [...tasks, ...many]))).message).toContain("not this one");
      expect(dump(path)).toEqual(before);
    });
  });
});

describe("S1.6 a crash between the Thought save and the Action save", () => {
  test("S1.6 leaves exactly the Thought", async () => {
    db.close();
    expect(runProgram("s1/s1-turns-child.ts", path, "2", "1")).toMatchObject({ signal: "SIGKILL" });
    db = new Database(path);
    persister = openPersister(path, db);
    expect(rows()).toHaveLength(1);
    expect(await persister.loadLatest("graph")).toMatchObject({ id: "turn-1", turnType: "Thought", nodeName: "node-1" });
  });

  test("S1.6 of a graph: exactly the Thought of the node running is open, and the run resumes at that turn", async () => {
    expect(runProgram("support/s1-graph-child.ts", path, "thread", "run", "b")).toMatchObject({ signal: "SIGKILL" });
    expect(rows().map((row) => [row["node_name"], row["turn_type"]])).toEqual([
      ["a", "Thought"],
      ["a", "Action"],
      ["b", "Thought"],
    ]);
    expect(await persister.loadLatest("thread")).toMatchObject({
      nodeName: "b",
      turnType: "Thought",
      taskId: "task",
      state: { log: ["in", "a"] },
    });
    const saver = openSaver(path, { logger: quiet });
    expect((await saver.turns.inFlight("thread")).map((open) => open.nodeName)).toEqual(["b"]);
    saver.close();
    const resumed = runProgram("support/s1-graph-child.ts", path, "thread", "resume");
    expect(resumed.out).toEqual([{ ran: ["b", "c"], state: { log: ["in", "a", "b", "c"] } }]);
    expect((await persister.loadForTask("task")).map((row) => `${row.turnType} ${row.nodeName}`)).toEqual([
      "Thought a",
      "Action a",
      "Thought b",
      "Thought b",
      "Action b",
      "Thought c",
      "Action c",
    ]);
  });
});

describe("S1.7 integration: checkpoint after a crash", () => {
  test("S1.7 integration: of five turns the process dies after turn 3, and loadLatest gives checkpoint 3 with its turnType", async () => {
    db.close();
    const died = runProgram("s1/s1-turns-child.ts", path, "5", "3");
    expect(died).toMatchObject({ code: null, signal: "SIGKILL" });
    db = new Database(path);
    persister = openPersister(path, db);
    expect(await persister.loadLatest("graph")).toEqual({
      id: "turn-3",
      graphId: "graph",
      nodeName: "node-2",
      turnType: "Thought",
      state: { turn: 3, done: [1, 2, 3] },
      taskId: "task",
      createdAt: new Date("2030-01-01T00:00:03.000Z"),
    });
    expect((await persister.loadForTask("task")).map((row) => row.turnType)).toEqual(["Thought", "Action", "Thought"]);
    if (!ON_POSTGRES) expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
  });

  test.each([
    ["1", "Thought"],
    ["2", "Action"],
    ["4", "Action"],
    ["5", "Thought"],
  ])("S1.7 integration: checkpoint %s is the latest when the process dies behind it, a %s", async (last, turnType) => {
    const died = runProgram("s1/s1-turns-child.ts", path, "6", last);
    expect(died.signal).toBe("SIGKILL");
    expect(await persister.loadLatest("graph")).toMatchObject({ id: `turn-${last}`, turnType });
    expect(rows()).toHaveLength(Number(last));
  });
});

describe("S1.8 the runner's turns", () => {
  test("S1.8 a Thought is committed before a body runs, an Action right after, in separate transactions", async () => {
    const witness = new Database(path, { readonly: true });
    const committed = witness.prepare("SELECT node_name || ' ' || turn_type FROM langgraph_checkpoints ORDER BY seq").pluck();
    const inside: unknown[][] = [];
    const atEvents: unknown[] = [];
    const isThere = witness.prepare("SELECT count(*) FROM langgraph_checkpoints WHERE id = ?").pluck();
    const saver = openSaver(path, { logger: quiet });
    saver.events.on("turn", ({ id, nodeName, turnType }) => atEvents.push(`${nodeName} ${turnType} ${String(isThere.get(id))}`));
    const runner = new GraphRunner(chain(saver, () => void inside.push(committed.all())));
    await runner.invoke({ log: [] }, { threadId: "thread" });
    expect(inside).toEqual([
      ["a Thought"],
      ["a Thought", "a Action", "b Thought"],
      ["a Thought", "a Action", "b Thought", "b Action", "c Thought"],
    ]);
    // Each Action is reported twice, as it was handed in and as its writes made it durable; its row is in the file by then.
    expect(atEvents).toEqual([
      "a Thought 1",
      "a Action 1",
      "a Action 1",
      "b Thought 1",
      "b Action 1",
      "b Action 1",
      "c Thought 1",
      "c Action 1",
      "c Action 1",
    ]);
    witness.close();
    saver.close();
  });

  test("S1.8 an Action that cannot be saved does not take its Thought along", async () => {
    const saver = openSaver(path, { logger: quiet });
    sqlOn(
      path,
      `CREATE TRIGGER no BEFORE INSERT ON langgraph_checkpoints WHEN NEW.turn_type = 'Action' AND NEW.node_name = 'b'
         BEGIN SELECT RAISE(ABORT, 'no Action'); END`,
    );
    const runner = new GraphRunner(chain(saver));
    await runner.invoke({ log: [] }, { threadId: "thread" });
    expect((await saver.turns.list("thread")).map((row) => `${row.turnType} ${row.nodeName}`)).toEqual([
      "Thought a",
      "Action a",
      "Thought b",
      "Thought c",
      "Action c",
    ]);
    saver.close();
  });

  test("S1.8 the persister reads recorded turns of the same file: a Thought's state is what the node started from", async () => {
    const saver = openSaver(path, { logger: quiet });
    await new GraphRunner(chain(saver)).invoke({ log: ["in"] }, { threadId: "thread", taskId: "task", graphId: "graph" });
    const turns = await persister.loadForTask("task");
    expect(turns.map((row) => [row.turnType, row.nodeName, row.state])).toEqual([
      ["Thought", "a", { log: ["in"] }],
      ["Action", "a", { log: ["a"] }],
      ["Thought", "b", { log: ["in", "a"] }],
      ["Action", "b", { log: ["b"] }],
      ["Thought", "c", { log: ["in", "a", "b"] }],
      ["Action", "c", { log: ["c"] }],
    ]);
    expect(await persister.loadLatest("graph")).toEqual(turns.at(-1));
    for (const row of turns) {
      expect(row.id).toMatch(UUID);
      expect(row.createdAt).toBeInstanceOf(Date);
      expect(await persister.load(row.id)).toEqual(row);
    }
    saver.close();
  });

  test.each(["sync", "async", "exit"] as const)(
    "S1.8 every recorded turn is found by its task, no matter what gave the task its name (%s)",
    async (durability) => {
      const saver = openSaver(path, { logger: quiet });
      const runner = new GraphRunner(chain(saver));
      const config = { configurable: { thread_id: "thread" }, durability };
      await runner.graph.invoke({ log: ["in"] }, config);
      await runner.graph.invoke(new Command({ update: { log: ["more"] }, goto: "a" }), config);
      await runner.graph.updateState(config, { log: ["edited"] });
      await runner.graph.invoke({ log: ["again"] }, config);
      const tasks = await saver.turns.tasks("thread");
      const found: string[] = [];
      for (const { taskId } of tasks) found.push(...(await persister.loadForTask(taskId)).map(({ id }) => id));
      expect(found.toSorted()).toEqual(
        rows()
          .map(({ id }) => id as string)
          .toSorted(),
      );
      expect(found.length).toBeGreaterThan(9);
      saver.close();
    },
  );

  test("S1.8 a recorded Thought whose checkpoint was deleted says so by name", async () => {
    const saver = openSaver(path, { logger: quiet });
    await new GraphRunner(chain(saver)).invoke({ log: ["in"] }, { threadId: "thread" });
    saver.close();
    const thought = (await persister.loadLatest("thread")) && rows().find((row) => row["turn_type"] === "Thought");
    db.exec("DELETE FROM langgraph_snapshots");
    const error = await refused(() => persister.load(thought!["id"] as string));
    expect(error.code).toBe("CHECKPOINT_NOT_FOUND");
    expect(error.name).toBe("CheckpointNotFoundError");
  });
});

describe("S1.9 forward execution fails open", () => {
  const failing: [string, string[]][] = [
    ["every turn", ["BEFORE INSERT ON langgraph_checkpoints"]],
    ["every Thought", ["BEFORE INSERT ON langgraph_checkpoints WHEN NEW.turn_type = 'Thought'"]],
    ["every Action", ["BEFORE INSERT ON langgraph_checkpoints WHEN NEW.turn_type = 'Action'"]],
    // As one row, and when it is tried again in two parts: the Action, and that it is settled.
    [
      "every settled Action",
      ["BEFORE INSERT ON langgraph_checkpoints WHEN NEW.durable = 1", "BEFORE UPDATE OF durable ON langgraph_checkpoints"],
    ],
  ];
  test.each(failing)("S1.9 %s fails: the graph completes, and each failure is logged and reported", async (_, whens) => {
    const logger = listener();
    const saver = openSaver(path, { logger });
    const failures: { threadId: string; nodeName: string; turnType: string; error: unknown }[] = [];
    const checkpointFailures: unknown[] = [];
    saver.events.on("turn_failed", (failure) => failures.push(failure));
    saver.events.on("checkpoint_failed", (failure) => checkpointFailures.push(failure));
    for (const [at, when] of whens.entries()) {
      sqlOn(path, `CREATE TRIGGER no_${String(at)} ${when} BEGIN SELECT RAISE(ABORT, 'no turns today'); END`);
    }
    const runner = new GraphRunner(chain(saver));
    expect(await runner.invoke({ log: ["in"] }, { threadId: "thread" })).toEqual({ log: ["in", "a", "b", "c"] });
    expect(checkpointFailures).toEqual([]);
    expect(new Set(failures.map((failure) => failure.nodeName))).toEqual(new Set(["a", "b", "c"]));
    for (const failure of failures) {
      expect(failure.threadId).toBe("thread");
      expect(TurnsError.is(failure.error, "STORE_FAILED")).toBe(true);
    }
    const errors = logger.lines.filter((line) => line.level === "error");
    expect(errors.length).toBe(failures.length);
    for (const line of errors) {
      expect(line.text).toBe("a turn could not be saved");
      expect(String(line.fields["error"])).toContain("no turns today");
    }
    // What LangGraph itself saved is whole: the thread is finished, and goes on when the trouble is over.
    sqlOn(path, ...whens.map((_, at) => `DROP TRIGGER no_${String(at)}`));
    expect((await runner.graph.getState({ configurable: { thread_id: "thread" } })).next).toEqual([]);
    expect(await runner.invoke({ log: ["more"] }, { threadId: "thread" })).toEqual({
      log: ["in", "a", "b", "c", "more", "a", "b", "c"],
    });
    saver.close();
  });

  test("S1.9 of a graph that is not attached, a planned Thought that fails does not fail the checkpoint", async () => {
    const logger = listener();
    const saver = openSaver(path, { logger });
    const failures: string[] = [];
    saver.events.on("turn_failed", (failure) => failures.push(`${failure.turnType} ${failure.nodeName}`));
    sqlOn(path, "CREATE TRIGGER no BEFORE INSERT ON langgraph_checkpoints BEGIN SELECT RAISE(ABORT, 'no turns today'); END");
    expect(await chain(saver).invoke({ log: ["in"] }, { configurable: { thread_id: "thread" } })).toEqual({
      log: ["in", "a", "b", "c"],
    });
    expect(failures).toEqual(["Thought a", "Thought b", "Thought c"]);
    expect(logger.lines.filter((line) => line.level === "error")).toHaveLength(3);
    saver.close();
  });

  test('S1.9 with onTurnError: "throw" a node whose Thought cannot be saved is stopped before its work', async () => {
    const saver = openSaver(path, { logger: quiet, onTurnError: "throw" });
    const ran: string[] = [];
    sqlOn(
      path,
      "CREATE TRIGGER no BEFORE INSERT ON langgraph_checkpoints WHEN NEW.node_name = 'b' BEGIN SELECT RAISE(ABORT, 'no b'); END",
    );
    const runner = new GraphRunner(chain(saver, (node) => void ran.push(node)));
    await expect(runner.invoke({ log: [] }, { threadId: "thread" })).rejects.toThrow(/no b/);
    expect(ran).toEqual(["a"]);
    saver.close();
  });
});

describe("S1.9 rewind fails closed", () => {
  async function threeTasks(): Promise<TurnSaver> {
    const saver = openSaver(path, { logger: quiet });
    const deed = async (node: string): Promise<void> => void (await effect(`deed of ${node}`, () => node, { undo: false }));
    const first = new GraphRunner(chain(saver, deed));
    // From the second task on the graph is another one, and the log so long that it is stored element by element.
    const later = new GraphRunner(chain(saver, deed), { nodes: { a: { version: "2" } } });
    for (const taskId of ["one", "two", "three"]) {
      await (taskId === "one" ? first : later).invoke(
        { log: [taskId === "one" ? taskId : taskId.padEnd(300, ".")] },
        { threadId: "thread", taskId },
      );
    }
    return saver;
  }

  test.each(REWOUND)("S1.9 a failure in the middle of deleting from %s leaves every row of every table", async (table) => {
    const saver = await threeTasks();
    const before = dump(path);
    sqlOn(
      path,
      `CREATE TRIGGER no BEFORE DELETE ON ${table} WHEN OLD.seq = (SELECT max(seq) FROM ${table})
         BEGIN SELECT RAISE(ABORT, 'not this row'); END`,
    );
    await expect(saver.rewind({ threadId: "thread", toTask: "one" })).rejects.toThrow(/not this row/);
    expect(dump(path)).toEqual(before);
    sqlOn(path, "DROP TRIGGER no");
    expect((await saver.rewind({ threadId: "thread", toTask: "one" })).tasks).toEqual(["two", "three"]);
    saver.close();
  });

  test.each(["langgraph_archive", "langgraph_rewinds"])(
    "S1.9 a failure to write %s leaves every row of every table",
    async (table) => {
      const saver = await threeTasks();
      const before = dump(path);
      sqlOn(path, `CREATE TRIGGER no BEFORE INSERT ON ${table} BEGIN SELECT RAISE(ABORT, 'not written'); END`);
      await expect(saver.rewind({ threadId: "thread", toTask: "one" })).rejects.toThrow(/not written/);
      expect(dump(path)).toEqual(before);
      saver.close();
    },
  );

  test("S1.9 an unknown target deletes nothing", async () => {
    const saver = await threeTasks();
    const before = dump(path);
    await expect(saver.rewind({ threadId: "thread", toTask: "nine" })).rejects.toMatchObject({ code: "UNKNOWN_TASK" });
    expect(dump(path)).toEqual(before);
    saver.close();
  });

  test("S1.9 deleteAfter that fails in the middle leaves every row", async () => {
    for (const taskId of ["t1", "t2", "t3"]) await persister.save(turn(taskId, { taskId }));
    const before = dump(path);
    sqlOn(
      path,
      "CREATE TRIGGER no BEFORE DELETE ON langgraph_checkpoints WHEN OLD.id = 't3' BEGIN SELECT RAISE(FAIL, 'not t3'); END",
    );
    expect((await refused(() => persister.deleteAfter("t1", ["t1", "t2", "t3"]))).message).toMatch(/not t3/);
    expect(dump(path)).toEqual(before);
  });
});

describe("S2.1 load, prune, ids", () => {
  test("S2.1 load gives the checkpoint of an id, null for an unknown one", async () => {
    await persister.save(turn("one"));
    expect(await persister.load("one")).toEqual(turn("one"));
    expect(await persister.load("two")).toBeNull();
    expect(await persister.load("one' OR '1'='1")).toBeNull();
  });

  test("S2.1 prune keeps the newest of one graph and says how many went", async () => {
    for (let index = 1; index <= 7; index += 1) await persister.save(turn(`g${index}`));
    await persister.save(turn("other", { graphId: "other" }));
    expect(await persister.prune("g", 5)).toBe(2);
    expect(ids()).toEqual(["g3", "g4", "g5", "g6", "g7", "other"]);
    expect(await persister.prune("g", 5)).toBe(0);
    expect(await persister.prune("g", 0)).toBe(5);
    expect(await persister.prune("nobody", 0)).toBe(0);
    expect(ids()).toEqual(["other"]);
  });

  test.each([-1, 1.5, NaN, Infinity, "5" as unknown as number, undefined as unknown as number])(
    "S2.1 prune refuses to keep %p, and nothing goes",
    async (keep) => {
      await persister.save(turn("one"));
      expect((await refused(() => persister.prune("g", keep))).code).toBe("INVALID_OPTION");
      expect(ids()).toEqual(["one"]);
    },
  );

  test("S2.1 a prune that fails leaves every row", async () => {
    for (const id of ["a", "b", "c"]) await persister.save(turn(id));
    const before = dump(path);
    sqlOn(path, "CREATE TRIGGER no BEFORE DELETE ON langgraph_checkpoints WHEN OLD.id = 'b' BEGIN SELECT RAISE(FAIL, 'no'); END");
    expect((await refused(() => persister.prune("g", 0))).code).toBe("STORE_FAILED");
    expect(dump(path)).toEqual(before);
  });

  test("S2.1 ids of recorded turns are UUIDs, each its own", async () => {
    const saver = openSaver(path, { logger: quiet });
    await new GraphRunner(chain(saver)).invoke({ log: [] }, { threadId: "thread" });
    const turns: Turn[] = await saver.turns.list("thread");
    for (const { id } of turns) expect(id).toMatch(UUID);
    expect(new Set(turns.map(({ id }) => id)).size).toBe(6);
    saver.close();
  });
});

describe("S2.6 errors by name", () => {
  const changes: [string, string][] = [
    ["serialized_state", `serialized_state = '{"id":"two"}'`],
    ["serialized_state to a prefix", "serialized_state = substr(serialized_state, 1, 4)"],
    ["node_name", "node_name = 'elsewhere'"],
    ["graph_id", "graph_id = 'h'"],
    ["task_id", "task_id = 't' || task_id"],
    ["turn_type", "turn_type = 'Action'"],
    ["created_at", "created_at = '1970-01-01T00:00:00.000Z'"],
    ["id", "id = 'other'"],
    ["checksum", "checksum = 'x' || checksum"],
  ];
  test.each(changes)("S2.6 %s changed by SQL is CHECKPOINT_CORRUPTED, never wrong data", async (_, change) => {
    await persister.save(turn("one"));
    db.exec(`UPDATE langgraph_checkpoints SET ${change}`);
    const { id, graph_id: graphId, task_id: taskId } = rows()[0] as { id: string; graph_id: string; task_id: string };
    for (const read of [() => persister.load(id), () => persister.loadLatest(graphId), () => persister.loadForTask(taskId)]) {
      const error = await refused(read);
      expect(error.code).toBe("CHECKPOINT_CORRUPTED");
      expect(error.name).toBe("CheckpointCorruptedError");
    }
  });

  const references: [string, string][] = [
    ["checkpoint_id", "checkpoint_id = (SELECT checkpoint_id FROM langgraph_snapshots ORDER BY seq DESC LIMIT 1)"],
    ["checkpoint_ns", "checkpoint_ns = 'elsewhere'"],
    ["state_format", "state_format = 'state'"],
  ];
  test.each(references)("S2.6 a recorded Thought whose %s was changed by SQL is CHECKPOINT_CORRUPTED", async (_, change) => {
    const saver = openSaver(path, { logger: quiet });
    await new GraphRunner(chain(saver)).invoke({ log: ["in"] }, { threadId: "thread" });
    const [thought] = await saver.turns.list("thread");
    expect(await saver.turns.state(thought!)).toEqual({ log: ["in"] });
    db.prepare(`UPDATE langgraph_checkpoints SET ${change} WHERE id = ?`).run(thought!.id);
    expect((await refused(() => persister.load(thought!.id))).code).toBe("CHECKPOINT_CORRUPTED");
    await expect(saver.turns.state(thought!)).rejects.toMatchObject({ code: "CHECKPOINT_CORRUPTED" });
    saver.close();
  });

  test.each(["", "{", "nonsense", "[1,", '{"a":}'])("S2.6 a plain row that holds %j is UNDECODABLE_VALUE", async (state) => {
    insertPlain("plain", { state });
    expect((await refused(() => persister.load("plain"))).code).toBe("UNDECODABLE_VALUE");
  });
});
