import { spawn, spawnSync } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import Database from "better-sqlite3";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { defineEffect, effect } from "langgraph-checkpoint-turns";
import { childProgram } from "../support/child-program";
import { ON_POSTGRES, openSaver, schemaAt } from "../support/open-saver";
import { tempFile, tempPlace } from "../support/temp";
import { testOfFiles } from "../support/test-of-files";
import { CHANGES, safe, table, type TurnLogPage, widthOf } from "../../src/testing-internal";
import { quickProgram, told, type Told } from "./built";
import { graph, makeThreads } from "./cli-world";
import { SHAPES, schemaText } from "./shapes";

// Each command is a process of its own.
jest.setTimeout(300_000);

/** The program `turns` as it is built, on a database with a thread in each state. */
const path0 = tempFile();
let program = "";
/** How it is told where the data is. */
const place = (at = path0): string[] =>
  ON_POSTGRES ? ["--db", process.env["TURNS_PG_URL"] ?? "", "--schema", schemaAt(at)] : ["--db", at];
const turns = (args: readonly string[], how: Parameters<typeof told>[1] = {}, at = path0): Promise<Told> =>
  told([process.execPath, program, ...args, ...place(at)], how);

/** What a command says in JSON, after its shape was checked. */
async function json(command: keyof typeof SHAPES, args: readonly string[], code = 0): Promise<any> {
  const { stdout, stderr, code: exit } = await turns([...command.split(" "), ...args].filter((arg) => arg !== "overview"));
  expect({ stderr, exit }).toEqual({ stderr: "", exit: code });
  const document: unknown = JSON.parse(stdout);
  const { success, error } = SHAPES[command].safeParse(document);
  expect(success ? "" : `${command}: ${String(error)}`).toBe("");
  return document;
}

/** As on a terminal of so many columns. */
async function shown(args: readonly string[], columns: number): Promise<string> {
  const { stdout, stderr } = await turns([...args, "--table"], { env: { COLUMNS: String(columns) } });
  expect(stderr).toBe("");
  return stdout;
}

beforeAll(async () => {
  program = quickProgram();
  const saver = openSaver(path0);
  await makeThreads(saver);
  await (saver.close() as unknown);
  const killed = spawnSync(process.execPath, [...childProgram(path.join(__dirname, "cli-world.ts")), "dies", path0], {
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  expect(killed.signal).toBe("SIGKILL");
}, 400_000);

describe("each command", () => {
  /** What each command finds here, beyond its shape. */
  const golden: readonly [command: keyof typeof SHAPES, args: string[], code: number, finds: object][] = [
    ["overview", [], 0, { threads: 4, inDoubt: 1, states: { finished: 1, failed: 1, waiting: 1, "in-doubt": 1 }, examined: 4 }],
    [
      "threads",
      ["--sort", "id"],
      0,
      { total: 4, cursor: null, threads: ["failed", "finished", "killed", "waiting"].map((threadId) => ({ threadId })) },
    ],
    [
      "threads",
      ["--status", "waiting,failed", "--limit", "1", "--sort", "id"],
      0,
      { threads: [{ threadId: "failed" }], cursor: "failed" },
    ],
    ["threads", ["--search", "FIN"], 0, { threads: [{ threadId: "finished", state: "finished", effects: 2, turns: 12 }] }],
    ["threads", ["--idle", "1h"], 0, { threads: [], total: 0 }],
    [
      "status",
      ["finished"],
      0,
      {
        state: "finished",
        needsPerson: false,
        resume: { can: "no" },
        rewindTo: { toTask: "first", effects: [{ name: "cli-charge", verdict: "unregistered" }] },
      },
    ],
    [
      "status",
      ["failed"],
      0,
      {
        state: "failed",
        failures: [{ node: "charge", error: { message: "card declined" } }],
        resume: { can: "yes", kept: ["plan"], runs: ["charge"] },
      },
    ],
    [
      "status",
      ["waiting"],
      4,
      { state: "waiting", needsPerson: true, questions: [{ node: "ask", value: { question: "Ship it?" } }] },
    ],
    [
      "status",
      ["kil"],
      4,
      {
        threadId: "killed",
        state: "in-doubt",
        inFlight: [{ node: "charge", attempt: 1 }],
        inDoubt: [{ name: "ship", doubt: "outcome" }],
      },
    ],
    [
      "log",
      ["finished"],
      0,
      { cursor: null, attempts: ["ask", "charge", "plan", "ask", "charge", "plan"].map((node) => ({ node, status: "ok" })) },
    ],
    ["log", ["failed", "--failed"], 0, { attempts: [{ node: "charge", status: "error" }] }],
    [
      "log",
      ["finished", "--task", "first", "--node", "plan"],
      0,
      { attempts: [{ node: "plan", taskId: "first", tokens: { input: 0 } }] },
    ],
    ["state", ["finished", "--at", "first"], 0, { state: { total: 2, note: "n1" } }],
    ["state", ["finished", "--channel", "total"], 0, { state: { total: 6 } }],
    [
      "diff",
      ["finished", "first", "second"],
      0,
      {
        channels: [
          { channel: "messages", change: "appended", appended: 2 },
          { channel: "note" },
          { channel: "total", differences: [{ before: 2, after: 6 }] },
        ],
      },
    ],
    ["diff", ["finished", "first", "second", "--exit-code"], 3, {}],
    [
      "blame",
      ["finished", "note"],
      0,
      {
        more: false,
        changes: [
          { nodes: [{ node: "plan" }], change: "changed" },
          { nodes: [{ node: "plan" }], change: "first" },
        ],
      },
    ],
    [
      "grep",
      ["card declined"],
      0,
      { matches: expect.arrayContaining([expect.objectContaining({ threadId: "failed", kind: "turn", near: "charge" })]) },
    ],
    [
      "grep",
      ["PLANNED \\d", "-i", "--thread", "finished", "--limit", "2"],
      0,
      { matches: [{ threadId: "finished" }, { threadId: "finished" }] },
    ],
    ["grep", ["no such text"], 1, { matches: [] }],
    ["effects", [], 0, { effects: [{ threadId: "killed", name: "ship", status: "in-doubt" }] }],
    [
      "effects",
      ["finished", "--limit", "1"],
      0,
      { effects: [{ name: "cli-charge", status: "done", undo: "cli-charge" }], cursor: expect.any(Number) },
    ],
    ["inbox", [], 0, { questions: [{ threadId: "waiting", node: "ask", value: { question: "Ship it?" } }] }],
    ["rewinds", ["finished"], 0, { rewinds: [] }],
    ["size", [], 0, { tables: expect.arrayContaining([expect.objectContaining({ called: "turns", rows: 25 })]) }],
    [
      "size",
      ["finished"],
      0,
      { channels: expect.arrayContaining([expect.objectContaining({ channel: "messages", elements: 4 })]) },
    ],
    ["tokens", [], 0, { by: "thread", lines: [] }],
    ["tokens", ["finished", "--by", "task"], 0, { by: "task" }],
    ["verify", [], 0, { ok: true, threads: 4 }],
    ["verify", ["finished"], 0, { ok: true, threads: 1 }],
    ["doctor", [], 3, { findings: expect.arrayContaining([expect.objectContaining({ kind: "problem" })]) }],
  ];

  test.each(golden)("S10.1 turns %s %j answers in JSON of its schema", async (command, args, code, finds) => {
    expect(await json(command, args, code)).toMatchObject(finds);
  });

  test("S10.1 turns show has input, output, error, effects and tokens of an attempt, by number or by the beginning of an id", async () => {
    const { attempts } = await json("log", ["failed"]);
    const failed = await json("show", ["failed", String(attempts[0].number)]);
    expect(failed).toMatchObject({
      node: "charge",
      status: "error",
      error: { message: "card declined" },
      input: { total: 2 },
      durable: false,
    });
    const { attempts: done } = await json("log", ["finished"]);
    expect(await json("show", ["finished", done[1].actionId])).toMatchObject({
      node: "charge",
      output: { total: 6 },
      effects: [{ name: "cli-charge", status: "done" }],
    });
  });

  test("S10.1 turns show leads with what went wrong: error and effects come before the input, and a killed attempt has stopped", async () => {
    const [{ number }] = (await json("log", ["killed"])).attempts;
    const killed = await shown(["show", "killed", String(number)], 80);
    expect(killed.split("\n")[0]).toBe(`#${number} charge  stopped`);
    expect(killed).toMatch(/\nEffects\n[\s\S]*\nInput\n/);
    const failed = await shown(["show", "failed", String((await json("log", ["failed"])).attempts[0].number)], 80);
    expect(failed).toMatch(/\nError\n[\s\S]*card declined[\s\S]*\nInput\n/);
    // Nothing says what a resume would do: a later attempt may have succeeded.
    expect(failed).toMatch(/\nkept {9}nothing: it failed\n/);
  });

  test("S10.1 of a run that was lost turns show says that nothing is kept, also of a node that had finished", async () => {
    const at = tempFile();
    const world = childProgram(path.join(__dirname, "cli-world.ts"));
    expect(spawnSync(process.execPath, [...world, "is-lost", at], { env: { ...process.env, NODE_OPTIONS: "" } }).signal).toBe(
      "SIGKILL",
    );
    const { attempts } = JSON.parse((await turns(["log", "lost"], {}, at)).stdout) as TurnLogPage;
    expect(attempts.map(({ node, status, durable }) => [node, status, durable])).toEqual([
      ["charge", "running", false],
      ["plan", "ok", false],
    ]);
    for (const { number } of attempts)
      expect((await turns(["show", "lost", String(number), "--table"], {}, at)).stdout).toMatch(
        /\nkept {9}nothing: its process stopped before the run was saved\n/,
      );
  });

  test("S10.1 commands to copy name the database as it was named, without a password, and say how to answer and to settle", async () => {
    const wide = { env: { COLUMNS: "400" } };
    const named = ON_POSTGRES
      ? /\n {2}turns postgres(?:ql)?:\/\/[^ :@]+@[^ ]+ --schema \S+ /
      : new RegExp(`\\n {2}turns ${path0} `);
    const [{ id }] = (await json("effects", [])).effects;
    const commands: readonly (readonly [string[], string])[] = [
      [[], "effects --in-doubt  1 effect with an unknown outcome"],
      [["status", "killed"], "resume killed --graph"],
      [["effects"], `effect resolve ${id} done`],
      [["inbox"], "inbox answer waiting --value JSON --graph"],
    ];
    for (const [args, command] of commands) {
      const { stdout } = await turns([...args, "--table"], wide);
      const line = stdout.split("\n").find((one) => one.includes(command)) ?? stdout;
      expect(`\n${line}`).toMatch(named);
    }
    const unnamed = await told([process.execPath, program, "--table"], { env: { COLUMNS: "400", TURNS_DB: path0 } });
    if (!ON_POSTGRES) expect(unnamed.stdout).toContain("\n  turns effects --in-doubt  1 effect");
  });

  test("S10.1 a command names the database rather than say why, if there isn't room for both; started by npx, it begins so", async () => {
    const env = { npm_lifecycle_event: "npx", npm_lifecycle_script: "'turns'" };
    const width = (await turns(["--table"], { env: { COLUMNS: "400" } })).stdout
      .split("\n")
      .find((line) => line.includes("effects --in-doubt"))?.length;
    const { stdout } = await turns(["--table"], { env: { COLUMNS: String((width ?? 0) - 1) } });
    expect(stdout).toMatch(/\n {2}turns \S.* effects --in-doubt\n/);
    const byNpx = await turns(["status", "killed", "--table"], { env: { ...env, COLUMNS: "400" } });
    expect(byNpx.stdout).toMatch(/\n {2}npx turns \S.* resume killed --graph MODULE#EXPORT\n/);
    const other = await turns(["status", "killed", "--table"], {
      env: { ...env, npm_lifecycle_script: "'jest'", COLUMNS: "400" },
    });
    expect(other.stdout).not.toContain("npx");
  });

  test("S10.1 at 80 columns, too, commands name the database; so does what continues a list, and what an error says", async () => {
    const start = ["turns", ...(ON_POSTGRES ? [] : [path0])].join(" ");
    for (const args of [[], ["status", "killed"], ["effects"], ["inbox"]]) {
      const commands = (await shown(args, 80)).split("\n").filter((line) => /^ {2}turns /.test(line));
      expect(commands.length).toBeGreaterThan(0);
      for (const line of commands) expect(line.startsWith(`  ${start} `)).toBe(true);
    }
    const at = place();
    const lists: readonly (readonly [string[], string])[] = [
      [["threads", "--limit", "1", "--sort", "id"], "--cursor failed"],
      [["log", "finished", "--limit", "1"], "--cursor \\d+"],
      [["log", "finished", "--graph", "--limit", "1"], "--cursor \\d+"],
      [["effects", "finished", "--limit", "1"], "--cursor \\d+"],
      [["blame", "finished", "total", "--limit", "1"], "--cursor \\S+"],
    ];
    if (ON_POSTGRES) return;
    for (const [args, cursor] of lists) {
      const line = /\nmore: turns (.*)\n/.exec(await shown(args, 80))?.[1] ?? "";
      expect(line).toMatch(new RegExp(`^${[...args, "--table", ...at].join(" ")} ${cursor}$`));
      const next = await told([process.execPath, program, ...line.split(" ")]);
      expect({ args, code: next.code, isOther: next.stdout !== (await shown(args, 80)) }).toEqual({
        args,
        code: 0,
        isOther: true,
      });
    }
    expect((await turns(["show", "finished", "9999"])).stderr).toContain(`. ${start} log finished lists its turns`);
    expect((await turns(["effect", "resolve", "nope", "done"])).stderr).toContain(`${start} effects lists those in doubt`);
  });

  test("S10.1 a failed thread says in the list of threads which node failed", async () => {
    expect(await shown(["threads"], 80)).toMatch(/\nfailed {2,}failed .* charge\n/);
    expect((await json("threads", ["--search", "failed"])).threads).toMatchObject([{ threadId: "failed", failed: ["charge"] }]);
  });

  test("S10.1 before an effect is settled, the plan says by which key to look, what it was called with, and what lacks", async () => {
    const [{ id, key }] = (await json("effects", [])).effects;
    const plan = await shown(["effect", "resolve", id, "done"], 80);
    expect(plan).toContain(`Ask the receiver first whether it has key ${key}.`);
    const charged = (await json("effects", ["finished"])).effects.find(({ name }: { name: string }) => name === "cli-charge");
    expect(await shown(["effect", "resolve", charged.id, "done"], 80)).toMatch(/\nIt was called with \{.*\}\.\n/);
    expect(plan).toContain("add --result JSON");
    expect(await shown(["effect", "resolve", id, "not-done"], 80)).not.toContain("--result");
  });

  test("S10.1 what is settled already is refused by the plan, too; a result that couldn't be saved can be given later", async () => {
    const saver = openSaver(tempFile());
    const node = async (): Promise<object> => {
      await effect("nothing", () => undefined);
      await effect("unsaved", () => ({ f: () => 1 })).catch(() => undefined);
      return {};
    };
    const built = new StateGraph(Annotation.Root({ a: Annotation<number> })).addNode("only", node).addEdge(START, "only");
    const run = saver.attach(built.addEdge("only", END).compile({ checkpointer: saver }));
    await run.invoke({ a: 1 }, { configurable: { thread_id: "t" } }).catch(() => undefined);
    const resolve = CHANGES.find(({ name }) => name === "effect resolve");
    const refusals: unknown[] = [];
    for (const { id, name, status } of await saver.effects.list("t")) {
      const answer = (await resolve?.run(saver, [id, "done"], {})) as { data: { refused: { code: string } | null } };
      refusals.push([name, status, answer.data.refused?.code ?? null]);
    }
    expect(refusals).toEqual([
      ["nothing", "done", "EFFECT_NOT_IN_DOUBT"],
      ["unsaved", "done", null],
    ]);
    await (saver.close() as unknown);
  });

  testOfFiles("S10.1 a backup leaves nothing beside it; the place of an option is no database", async () => {
    const out = tempFile("bk.db");
    expect(await turns(["backup", out])).toMatchObject({ code: 0 });
    expect(readdirSync(path.dirname(out)).filter((name) => name.startsWith("bk.db"))).toEqual(["bk.db"]);
    const asked = await told([process.execPath, program, `--db=${path0}`, "threads", "--json"]);
    expect(asked).toMatchObject({ code: 0, stderr: "" });
  });

  test("S10.1 an effect's key is told in one line that does nothing to a terminal, no matter what it is", async () => {
    const saver = openSaver(tempFile());
    await makeThreads(saver);
    const [charged] = await saver.effects.list("finished");
    const known = await saver.effects.get(charged?.id ?? "");
    jest.spyOn(saver.effects, "get").mockResolvedValue({ ...known, key: "a\u001b[2J\n\u202eb" });
    const resolve = CHANGES.find(({ name }) => name === "effect resolve");
    const answer = await resolve?.run(saver, [known.id, "history"], {});
    const look = { width: 80, paint: (_: string, text: string) => text, now: Date.now(), utc: true };
    const text = answer?.text(look) ?? "";
    expect(text).toContain("\nAsk the receiver first whether it has key a\\u001b[2J \\u202eb.\n");
    expect(text).not.toContain("\u001b");
    await (saver.close() as unknown);
  });

  test("S10.1 an effect has the same title everywhere: what it was called with, and its number; no tokens aren't counted", async () => {
    const place = tempFile();
    const saver = openSaver(place);
    const letter = defineEffect("cli-letter", { run: ({ topic }: { topic: string }) => topic, undo: () => undefined });
    const calls = { thread_id: "letters" };
    const built = new StateGraph(Annotation.Root({ n: Annotation<number> }))
      .addNode("write", async () => {
        for (const topic of ["height", "number of keepers", "a\u001b[2J\nb"]) await letter({ topic });
        return {};
      })
      .addEdge(START, "write")
      .addEdge("write", END)
      .compile({ checkpointer: saver });
    for (const task of ["one", "two"]) await saver.attach(built).invoke({ n: 1 }, { configurable: { ...calls, task_id: task } });
    await (saver.close() as unknown);
    const asked = async (...args: string[]): Promise<string> =>
      (await turns([...args, "--table"], { env: { COLUMNS: "200" } }, place)).stdout;
    const { number } = JSON.parse((await turns(["log", "letters"], {}, place)).stdout).attempts[0];
    const shown = await asked("show", "letters", String(number));
    for (const text of [await asked("effects", "letters"), shown, await asked("rewind", "letters", "--to", "one")]) {
      for (const title of ["cli-letter · height ", "cli-letter · number of keepers #1 ", "cli-letter · a\\u001b[2J b #2 "])
        expect(text).toContain(title);
      expect(text).not.toContain("\u001b");
    }
    expect(shown).not.toMatch(/\ntokens/);
  });

  test("S10.1 the overview counts every state, also of many threads that wait; a list counts what its filters leave", async () => {
    const place = tempFile();
    const saver = openSaver(place);
    await makeThreads(saver);
    for (let copies = 0; copies < 210; copies += 10)
      await Promise.all(Array.from({ length: 10 }, (_, at) => saver.copyThread("waiting", `asks-${copies + at}`)));
    await (saver.close() as unknown);
    const asked = async (...args: string[]) => JSON.parse((await turns(args, {}, place)).stdout);
    expect(await asked()).toMatchObject({ threads: 213, examined: 213, states: { waiting: 211, failed: 1, finished: 1 } });
    const { stdout } = await turns(["--table"], {}, place);
    expect(stdout).toMatch(/^state +211 waiting, 1 failed, 1 finished$/m);
    expect(await asked("threads", "--status", "waiting", "--limit", "3")).toMatchObject({
      total: 211,
      cursor: expect.any(String),
    });
    expect(await asked("threads", "--status", "failed,finished")).toMatchObject({ total: 2, cursor: null });
    expect(await asked("threads", "--search", "ASKS-20", "--limit", "1")).toMatchObject({ total: 11 });
    const none = await turns(["threads", "--limit", "0"], {}, place);
    expect(none).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("Give 1 or more") });
  });

  test("S10.1 turns size counts what lies inside a channel's value, at any depth", async () => {
    const place = tempFile();
    const saver = openSaver(place);
    const Kept = Annotation.Root({ deep: Annotation<object>, shallow: Annotation<string> });
    const long = (letter: string): string => letter.repeat(200_000);
    const kept = { deep: { of: [{ text: long("a") }, { text: long("a") }, { text: long("b") }] }, shallow: long("b") };
    const builder = new StateGraph(Kept)
      .addNode("keep", () => kept)
      .addEdge(START, "keep")
      .addEdge("keep", END);
    const compiled = saver.attach(builder.compile({ checkpointer: saver }));
    await compiled.invoke({}, { configurable: { thread_id: "large" } });
    await (saver.close() as unknown);
    const { channels } = JSON.parse((await turns(["size", "large"], {}, place)).stdout);
    const bytesOf = (name: string): number => channels.find(({ channel }: { channel: string }) => channel === name).bytes;
    // The same text counts once in a channel, and in each channel that has it.
    expect(Math.round(bytesOf("deep") / 100_000)).toBe(4);
    expect(Math.round(bytesOf("shallow") / 100_000)).toBe(2);
  });

  testOfFiles("S10.1 turns tokens counts all threads but the damaged ones, names those, and exits with 1", async () => {
    const place = tempFile();
    const saver = openSaver(place);
    await makeThreads(saver);
    saver.close();
    const file = new Database(place);
    file.exec("UPDATE langgraph_checkpoints SET node_name = 'other' WHERE seq = (SELECT max(seq) FROM langgraph_checkpoints)");
    file.close();
    const { stdout, stderr, code } = await turns(["tokens"], {}, place);
    expect({ stderr, code }).toEqual({ stderr: "", code: 1 });
    expect(SHAPES.tokens.safeParse(JSON.parse(stdout)).error).toBeUndefined();
    expect(JSON.parse(stdout)).toMatchObject({ damaged: [{ threadId: "waiting", code: "CHECKPOINT_CORRUPTED" }] });
    const told = await turns(["tokens", "--by", "day", "--table"], {}, place);
    expect(told).toMatchObject({ code: 1, stdout: expect.stringContaining("Not counted: waiting is damaged") });
    expect(await turns(["tokens", "waiting"], {}, place)).toMatchObject({ code: 1, stdout: "" });
  });

  test("S10.1 the rewinds of a thread say what they undid, and how the one is taken back that can be", async () => {
    const place = tempFile();
    const saver = openSaver(place);
    await makeThreads(saver);
    for (const toTask of ["second", "first"]) await saver.rewind({ threadId: "finished", toTask });
    await (saver.close() as unknown);
    const { stdout } = await turns(["rewinds", "finished", "--table"], { env: { COLUMNS: "200" } }, place);
    const { rewinds } = JSON.parse((await turns(["rewinds", "finished"], {}, place)).stdout);
    expect(SHAPES.rewinds.safeParse({ format: 1, rewinds }).error).toBeUndefined();
    expect(rewinds).toMatchObject([{ toTask: "first", undone: 1, refused: null }]);
    expect(stdout).toMatch(/\n\S.* {2}first {2,}done {2,}1 effect {2,}asked for /);
    expect(stdout).toMatch(new RegExp(`\n  turns .*take-back ${rewinds[0].id} --despite-undone --yes  takes it back\n`));
  });

  test("S10.1 grep tells a text once, not again for the writes and the state that have it", async () => {
    const { matches } = await json("grep", ["card declined"]);
    expect(matches).toMatchObject([{ threadId: "failed", kind: "turn", near: "charge" }]);
  });

  test("S10.1 a command that needs your graph leaves its place open, and a line says what goes there", async () => {
    const note = "MODULE#EXPORT  your graph's file and its export, which aren't recorded: ./agent.ts#graph";
    const commands: readonly (readonly [string[], string])[] = [
      [["status", "failed"], "resume failed --graph MODULE#EXPORT --yes"],
      [["status", "waiting"], "inbox answer waiting --value JSON --graph MODULE#EXPORT --yes"],
      [["inbox"], "inbox answer waiting --value JSON --graph MODULE#EXPORT"],
    ];
    for (const [args, command] of commands) {
      const text = await shown(args, 100);
      expect(text).toContain(command);
      expect(text.split(note)).toHaveLength(2);
    }
    for (const args of [[], ["effects"]]) expect(await shown(args, 80)).not.toContain("MODULE");
  });

  testOfFiles("S10.1 a backup onto a file that exists is refused with the option that replaces it", async () => {
    const out = tempFile();
    expect((await turns(["backup", out])).code).toBe(0);
    const refused = await turns(["backup", out]);
    expect(refused).toMatchObject({ code: 4, stdout: "", stderr: expect.stringContaining(`${out}: the file exists.`) });
    expect(refused.stderr).toContain("Here: add --overwrite, or give another path.");
    expect((await turns(["backup", out, "--overwrite"])).code).toBe(0);
    // A log beside it is no matter of --overwrite.
    writeFileSync(`${out}-wal`, "");
    const beside = await turns(["backup", out, "--overwrite"]);
    expect(beside).toMatchObject({ code: 4, stderr: expect.not.stringContaining("Here:") });
  });

  test("S10.1 turns web prints a link, answers with its cookie alone, and Ctrl-C ends it with 130", async () => {
    const env = { ...process.env, NODE_OPTIONS: "" };
    const child = spawn(process.execPath, [program, "web", ...place()], { env });
    const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    try {
      const link = await new Promise<string>((resolve, reject) => {
        child.stdout.setEncoding("utf8").once("data", (text: string) => resolve(text.trim()));
        void ended.then((code) => reject(new Error(`ended with ${code}: ${stderr}`)));
      });
      expect(link).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?token=/);
      const threads = new URL("/api/threads", link);
      expect((await fetch(threads)).status).toBe(401);
      const entered = await fetch(link, { redirect: "manual" });
      const cookie = entered.headers.get("set-cookie")?.split(";")[0] ?? "";
      const answer = await fetch(threads, { headers: { cookie } });
      expect({ status: answer.status, body: await answer.json() }).toMatchObject({ status: 200, body: { total: 4 } });
      child.kill("SIGINT");
      expect(await ended).toBe(130);
      expect(stderr).toContain("Read-only. The link works once");
    } finally {
      child.kill("SIGKILL");
    }
  });

  const widths: readonly (readonly [string[]])[] = [
    [[]],
    [["status", "finished"]],
    [["log", "finished"]],
    [["effects", "finished"]],
  ];
  testOfFiles.each(widths)("S10.1 turns %j fits a terminal of 80 and of 200 columns", async (args) => {
    for (const columns of [80, 200]) {
      const text = await shown(args, columns);
      const lines = text
        .split("\n")
        // A command stays in one line, so that it can be copied.
        .filter((line) => !line.startsWith("database") && !/^ {2}(To task|await|Not before|Yes|No|turns )|^more: /.test(line));
      expect(lines.filter((line) => widthOf(line) > columns)).toEqual([]);
      expect(text).not.toContain("\u001b");
    }
  });
});

describe("conventions", () => {
  testOfFiles(
    "S10.1 --jsonl writes a line for each item, --fields picks fields, and an unknown one has a suggestion",
    async () => {
      const { stdout } = await turns(["threads", "--jsonl", "--fields", "threadId,state", "--sort", "id"]);
      expect(
        stdout
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line)),
      ).toEqual([
        { threadId: "failed", state: "failed" },
        { threadId: "finished", state: "finished" },
        { threadId: "killed", state: "in-doubt" },
        { threadId: "waiting", state: "waiting" },
      ]);
      const wrong = await turns(["threads", "--fields", "treadId"]);
      expect(wrong).toMatchObject({ code: 2, stdout: "" });
      expect(wrong.stderr).toContain('Did you mean "threadId"?');
    },
  );

  testOfFiles(
    "S10.1 turns help tells of a command what --help does, and of a task that isn't there which one is near",
    async () => {
      expect((await turns(["help", "effect", "resolve"])).stdout).toBe((await turns(["effect", "resolve", "--help"])).stdout);
      expect(await turns(["help", "effect", "resolv"])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('Did you mean "turns effect resolve"?'),
      });
      expect(await turns(["log", "finished", "--task", "secnd"])).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/has no task "secnd"\. Did you mean "second"\?.*\[UNKNOWN_TASK\]/),
      });
    },
  );

  testOfFiles(
    "S10.1 wrong usage exits with 2, what isn't there with 1; both say what to do, and suggest what is near",
    async () => {
      const told: readonly (readonly [string[], number, string])[] = [
        [["thread"], 2, 'Did you mean "turns threads"?'],
        [["threads", "--stats", "x"], 2, "Did you mean --status?"],
        [["threads", "--limit", "many"], 2, "Give a whole number."],
        [["resume", "failed", "--graph"], 2, "Give its module and export: --graph ./agent.ts#graph."],
        [["status", "finishd"], 1, 'Did you mean "finished"?'],
        [["status", "fi", "more"], 2, "too many arguments"],
        [["status", "f"], 2, 'is the beginning of 2 threads: "failed", "finished"'],
        [["state", "finished", "--channel", "totals"], 2, 'Did you mean "total"?'],
        [["show", "finished", "9999"], 1, " log finished lists its turns"],
        [["grep", "("], 2, "-F"],
        [["statsu", "finished"], 2, 'Did you mean "turns status"?'],
        [["mysql://localhost/app", "threads"], 2, "postgresql://host/database"],
        [["status", "-dash"], 2, "turns status -- -ID"],
        [["effect", "resolve", "nope", "done"], 1, " effects lists those in doubt"],
        [["take-back", "nope"], 1, " rewinds THREAD lists"],
      ];
      for (const [args, code, says] of told) {
        const { stderr, stdout, code: exit } = await turns(args);
        expect({ args, exit, stdout }).toEqual({ args, exit: code, stdout: "" });
        expect(stderr).toContain(says);
        expect(stderr).not.toMatch(/\n\s+at /);
      }
    },
  );

  test("S10.1 no password is shown, also of a place that is mistyped", async () => {
    const wrong: readonly string[][] = [
      ["postgre://u:secret@h/db", "threads"],
      ["postgre://u:secret@h/db"],
      ["socket:/var/run?db=a&password=secret", "threads"],
      ["u:secret@h/db", "threads"],
      ["threads", "--db", "postgre://u:secret@h/db"],
      ["threads", "--db", "POSTGRE://u@h/db?PASSWORD=secret"],
      ["migrate", "--db", "postgre://u:secret@h/db", "--yes"],
      ["move", "postgre://u:secret@h/db", tempFile()],
      ["export", "finished", "postgre://u:secret@h/db", "--db", path0],
      ["threads", "--database=postgresql://u:secret@h/db"],
      ["status", "postgresql://u:secret@h/db", "--db", path0],
      ["threads", "--db", "postgresql://u:secret@127.0.0.1:1,127.0.0.1:2/db"],
      ["postgres//u:secret@127.0.0.1/x"],
      ["threads", "--db", "postgres//u:secret@127.0.0.1/x"],
      ["web", "--db", " postgresql://u:secret@127.0.0.1:1/x"],
      ["import", path0, "--db", "postgres//u:secret@127.0.0.1/x"],
      ["import-official", path0, "--db", "postgres//u:secret@127.0.0.1/x"],
      ["move", path0, "postgres//u:secret@127.0.0.1/x"],
      ["move", path0, " postgresql://u:secret@127.0.0.1/x"],
      ["move", path0, "'postgresql://u:secret@127.0.0.1/x'"],
      ["backup", "postgres//u:secret@127.0.0.1/x", "--db", path0],
      ["export", "finished", "postgres//u:secret@127.0.0.1/x", "--db", path0],
      ["salvage", "postgres//u:secret@127.0.0.1/x", "--db", path0],
    ];
    for (const args of wrong) {
      const { stdout, stderr, code } = await told([process.execPath, program, ...args], { env: { TURNS_DB: "u:secret@h/db" } });
      expect({ args, stdout, isRefused: code === 1 || code === 2 }).toEqual({ args, stdout: "", isRefused: true });
      expect(stderr).not.toContain("secret");
    }
  });

  test("S10.1 filters that exclude each other are refused, and so is the cursor of a thread that is gone", async () => {
    const both = await turns(["effects", "killed", "--in-doubt", "--status", "failed"]);
    expect(both).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("--in-doubt and --status") });
    const gone = await turns(["threads", "--cursor", "gone"]);
    expect(gone).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("Start again without a cursor") });
    const last = JSON.parse((await turns(["threads", "--sort", "id", "--cursor", "waiting"])).stdout);
    expect(last).toMatchObject({ threads: [], cursor: null });
  });

  testOfFiles("S10.1 a file of LangGraph's own saver is named as one, with the command that imports it", async () => {
    const official = tempFile();
    const saver = SqliteSaver.fromConnString(official);
    await saver.put({ configurable: { thread_id: "old", checkpoint_ns: "" } }, emptyCheckpoint(), {
      ...{ source: "input", step: -1, parents: {} },
    });
    saver.db.close();
    for (const args of [["threads"], ["web"], ["doctor"]]) {
      const { stderr, code } = await turns(args, {}, official);
      expect({ args, code }).toEqual({ args, code: 1 });
      expect(stderr).toContain(`${official} has 1 thread of LangGraph's SqliteSaver`);
      expect(stderr).toContain(`turns import-official ${official} --db agent.db`);
    }
    const none = tempFile();
    writeFileSync(none, "");
    const { stderr, code } = await turns(["threads"], {}, none);
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining(`turns --db ${none} migrate --yes`) });
    expect(stderr).not.toContain("readOnly");
  });

  testOfFiles(
    "S10.1 a file of another program is named as one, with its tables, and nobody is offered to put tables into it",
    async () => {
      const foreign = tempFile();
      const db = new Database(foreign);
      db.exec(
        'CREATE TABLE users (id INTEGER); CREATE TABLE "order" (id INTEGER); CREATE TABLE IF NOT EXISTS notes (id INTEGER)',
      );
      db.close();
      for (const args of [["threads"], [], ["doctor"]]) {
        const { stderr, code } = await turns(args, {}, foreign);
        expect({ args, code }).toEqual({ args, code: 1 });
        expect(stderr).toContain(`${foreign} belongs to another program (tables `);
        for (const name of ["users", "order", "notes"]) expect(stderr).toContain(name);
        expect(stderr).not.toContain("migrate");
      }
      const plan = await turns(["migrate", "--table"], {}, foreign);
      expect(plan).toMatchObject({ code: 4, stdout: expect.stringContaining(`${foreign} belongs to another program (tables `) });
      const { otherTables } = JSON.parse((await turns(["migrate"], {}, foreign)).stdout).plan;
      expect(otherTables.sort()).toEqual(["notes", "order", "users"]);
    },
  );

  test("S10.1 an empty TURNS_SCHEMA is none", async () => {
    const nowhere = "postgresql://127.0.0.1:1/nowhere";
    const { stderr } = await told([process.execPath, program, "threads", "--db", nowhere], { env: { TURNS_SCHEMA: "" } });
    expect(stderr).toContain("STORE_UNAVAILABLE");
    expect(stderr).not.toContain("INVALID_OPTION");
  });

  test("S10.1 a server that refuses connections is told at once: nobody waits as long as for a lock", async () => {
    const nowhere = "postgresql://127.0.0.1:1/nowhere";
    const asked = told([process.execPath, program, "verify", "--db", nowhere]);
    // A saver tries again for 30 seconds.
    const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), 20_000).unref());
    const found = await Promise.race([asked, late]);
    expect(found).toMatchObject({ code: 1, stdout: "" });
    expect(found?.stderr).toContain("ECONNREFUSED");
    expect(found?.stderr).toContain("Check that the server runs, and host and port");
    await asked;
  });

  test("S10.1 long sentences are wrapped at the terminal's width, between words, and a command isn't", async () => {
    const { stdout } = await turns(["status", "killed", "--table"], { env: { COLUMNS: "60" } });
    const lines = stdout.trimEnd().split("\n");
    const wide = lines.filter((line) => line.length > 60 && !/^ {2}turns /.test(line));
    expect(wide).toEqual([]);
    expect(lines.filter((line) => line.startsWith("  ")).length).toBeGreaterThan(6);
  });

  testOfFiles("S10.1 a reader that closes the pipe is no error", () => {
    const line = `${JSON.stringify(process.execPath)} ${JSON.stringify(program)} grep . --jsonl ${place()
      .map((arg) => JSON.stringify(arg))
      .join(" ")} | head -n 1`;
    const { stdout, stderr } = spawnSync("bash", ["-c", `set -o pipefail; ${line}; echo "\${PIPESTATUS[0]}"`], {
      encoding: "utf8",
      env: { ...process.env, NODE_OPTIONS: "" },
    });
    expect({ stderr, lines: stdout.trim().split("\n").length, exit: stdout.trim().split("\n").at(-1) }).toEqual({
      stderr: "",
      lines: 2,
      exit: "0",
    });
  });

  testOfFiles("S10.1 colours follow NO_COLOR, FORCE_COLOR and --no-color", async () => {
    const coloured = async (env: NodeJS.ProcessEnv, ...args: string[]) =>
      (await turns(["threads", "--table", ...args], { env })).stdout.includes("\u001b[");
    expect(await coloured({})).toBe(false);
    expect(await coloured({ FORCE_COLOR: "1" })).toBe(true);
    expect(await coloured({ FORCE_COLOR: "1", NO_COLOR: "1" })).toBe(false);
    expect(await coloured({ FORCE_COLOR: "1" }, "--no-color")).toBe(false);
  });

  testOfFiles("S10.1 help leads with three examples; completion knows the commands", async () => {
    const help = (await turns(["--help"])).stdout;
    expect(help.split("\n").slice(0, 4)).toEqual(["Examples:", ...Array(3).fill(expect.stringMatching(/^ {2}turns /))]);
    const own = (await turns(["log", "--help"])).stdout;
    expect(own.split("\n").slice(0, 4)).toEqual(["Examples:", ...Array(3).fill(expect.stringMatching(/^ {2}turns log /))]);
    for (const shell of ["bash", "zsh", "fish"]) expect((await turns(["completion", shell])).stdout).toContain("blame");
    const script = (await turns(["completion", "bash"])).stdout;
    const offered = (...words: string[]): string => {
      const line = `${script}\nCOMP_WORDS=(turns ${words.join(" ")} ""); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _turns; echo "\${COMPREPLY[*]}"`;
      const { stdout, stderr } = spawnSync("bash", ["-c", line], { encoding: "utf8" });
      expect(stderr).toBe("");
      return ` ${stdout.trim()} `;
    };
    expect(offered()).toContain(" blame ");
    expect(offered("blame")).not.toContain(" blame ");
    expect(offered("inbox")).toContain(" answer ");
    expect(offered("keys")).toContain(" rotate ");
    expect(offered("effect")).toContain(" resolve ");
    expect(offered("agent.db", "inbox", "answer")).toContain(" --value ");
    expect(offered("inbox", "answer")).not.toContain(" answer ");
  });

  /** Skipped where the shell isn't installed. */
  const testIn = (shell: string) => (spawnSync(shell, ["--version"]).status === 0 ? test : test.skip);
  const COMPLETED: readonly (readonly [typed: string, offered: string])[] = [
    ["turns bla", "blame"],
    ["turns agent.db bla", "blame"],
    ["turns --db agent.db take", "take-back"],
    ["turns inbox ans", "answer"],
    ["turns agent.db effect re", "resolve"],
    ["turns blame order-17 --lim", "--limit"],
    ["turns inbox answer --val", "--value"],
    ["turns keys rotate --dry", "--dry-run"],
  ];

  testIn("fish")("S10.1 completion works in fish", async () => {
    const script = (await turns(["completion", "fish"])).stdout;
    expect(script).not.toMatch(/undefined|-d ''/);
    const file = tempFile("turns.fish");
    writeFileSync(file, script);
    const offered = (typed: string): string[] => {
      const { stdout, stderr } = spawnSync("fish", ["-N", "-c", `source ${file}; complete -C '${typed}'`], { encoding: "utf8" });
      expect(stderr).toBe("");
      return stdout
        .trim()
        .split("\n")
        .map((line) => line.split("\t")[0] ?? "");
    };
    for (const [typed, wanted] of COMPLETED) expect([typed, offered(typed)]).toEqual([typed, [wanted]]);
    expect(offered("turns ")).toEqual(expect.arrayContaining(["blame", "web", "completion"]));
    expect(offered("turns inbox answer ")).not.toContain("answer");
  });

  testIn("zsh")("S10.1 completion works in zsh, as somebody types it", async () => {
    const file = tempFile("turns.zsh");
    writeFileSync(file, (await turns(["completion", "zsh"])).stdout);
    const typing = COMPLETED.map(
      ([typed, wanted]) => `zpty -w -n shell $'\\x15${typed}\\t'; zpty -r shell heard '*${wanted}*'; print -r -- "$heard"`,
    );
    const script = `zmodload zsh/zpty; zpty shell zsh -f -i; heard=
      zpty -w shell 'PROMPT=; source ${file}; print ready=$((1 + 1))'; zpty -r shell heard '*ready=2*'
      ${typing.join("\n")}
      zpty -d shell`;
    const env = { ...process.env, HOME: path.dirname(file), ZDOTDIR: path.dirname(file), TERM: "dumb" };
    const { stdout, status, signal } = spawnSync("zsh", ["-f", "-c", script], { encoding: "utf8", env, timeout: 60_000 });
    expect({ status, signal, stdout }).toEqual({ status: 0, signal: null, stdout: expect.not.stringMatching(/_turns:\d+:/) });
    for (const [, wanted] of COMPLETED) expect(stdout).toContain(wanted);
  });

  test("S10.1 the schema in etc is the one that these tests hold (else: npx tsx __tests__/cli/write-schema.ts)", () => {
    expect(readFileSync(path.join(__dirname, "..", "..", "etc", "command-line.schema.json"), "utf8")).toBe(schemaText());
  });

  test("S10.1 content can't do anything to the terminal, and wide characters count twice", () => {
    expect(safe("a\u001b[31mb\u202ec\u0000")).toBe("a\\u001b[31mb\\u202ec\\u0000");
    const look = { width: 10, paint: (_: string, text: string) => text, now: 0, utc: true };
    const rows = [{ name: "日本語のスレッド" }, { name: "short" }];
    const drawn = table(rows, [{ title: "N", value: ({ name }) => name, shrinks: 4 }], look);
    expect(drawn.split("\n").map(widthOf)).toEqual([1, 9, 5]);
  });

  test("S10.1 where nothing limits a table's width, an id is whole however long it is, and widens no other row", () => {
    const look = { width: Infinity, paint: (_: string, text: string) => text, now: 0, utc: true };
    const rows = [{ id: "a".repeat(300) }, { id: "short" }];
    const columns = [
      { title: "ID", value: ({ id }: { id: string }) => id, shrinks: 4 },
      { title: "STATE", value: () => "ok" },
    ];
    const [header = "", long, short = ""] = table(rows, columns, look).split("\n");
    expect(long).toBe(`${"a".repeat(300)}  ok`);
    expect([header, short].map(widthOf).every((width) => width < 100)).toBe(true);
  });

  testOfFiles(
    "S10.1 the database is found: argument, TURNS_DB, DATABASE_URL with our tables, the only file of ours here",
    async () => {
      const folder = mkdtempSync(path.join(tempPlace(), "turns-cli-"));
      writeFileSync(path.join(folder, "other.db"), "not a database");
      const run = (args: string[], env: NodeJS.ProcessEnv = {}) =>
        told([process.execPath, program, ...args], { cwd: folder, env });
      expect(await run(["threads"])).toMatchObject({ code: 2, stderr: expect.stringContaining("There is no database") });
      expect(JSON.parse((await run([path0, "threads"])).stdout).total).toBe(4);
      expect(JSON.parse((await run(["threads"], { TURNS_DB: path0 })).stdout).total).toBe(4);
      expect(JSON.parse((await run(["threads"], { TURNS_DB: `file://${path0}` })).stdout).total).toBe(4);
      expect(await run(["threads", "--db", "missing.db"])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("There is no file missing.db"),
      });
      await turns(["backup", path.join(folder, "mine.db")]);
      expect(JSON.parse((await run(["threads"])).stdout).total).toBe(4);
      await turns(["backup", path.join(folder, "second.db")]);
      expect(await run([])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("There are 2 databases here: mine.db, second.db"),
      });
    },
  );

  testOfFiles("S10.1 keys come from the environment or from a file, never from the command line", async () => {
    const key = "0123456789abcdef".repeat(4);
    const sealed = tempFile();
    const saver = openSaver(sealed, { encryption: { key } });
    await makeThreads(saver);
    saver.close();
    const file = `${sealed}.key`;
    writeFileSync(file, JSON.stringify({ keys: { default: key }, current: "default" }));
    const total = ({ stdout }: Told): number => JSON.parse(stdout).total;
    expect(total(await turns(["threads"], { env: { TURNS_KEY: key } }, sealed))).toBe(3);
    expect(total(await turns(["threads", "--key-file", file], {}, sealed))).toBe(3);
    expect(total(await turns(["threads", "--key-file", "-"], { input: `${key}\n` }, sealed))).toBe(3);
    const refused = await turns(["threads"], {}, sealed);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("TURNS_KEY") });
    expect((await turns(["grep", "declined"], { env: { TURNS_KEY: key } }, sealed)).stdout).toContain("card declined");
  });

  testOfFiles("S10.1 a terminal gets a table of its own width, and a program JSON", () => {
    const session = `turns-${process.pid}`;
    const tmux = (...args: string[]) => spawnSync("tmux", ["-L", session, ...args], { encoding: "utf8" });
    if (tmux("-V").status !== 0) return;
    for (const columns of [80, 200]) {
      tmux(
        "new-session",
        "-d",
        "-x",
        String(columns),
        "-y",
        "40",
        `env -u NO_COLOR ${process.execPath} ${program} ${place().join(" ")}; sleep 600`,
      );
      let screen = "";
      for (let tries = 0; tries < 1_000 && !/turns (\S+ )?status /.test(screen); tries += 1) {
        screen = tmux("capture-pane", "-p").stdout;
        spawnSync("sleep", ["0.1"]);
      }
      tmux("kill-server");
      expect(screen).toContain("THREAD");
      expect(screen).toMatch(/1 in-doubt, 1 waiting, 1 failed, 1 finished/);
    }
  });
});

describe("what only looks", () => {
  testOfFiles("S10.1 opens the file read-only: it isn't changed, created or migrated", async () => {
    const before = readFileSync(path0);
    const { mtimeMs } = statSync(path0);
    for (const command of [["threads"], ["status", "finished"], ["verify"], ["doctor"], ["rewind", "finished", "--to", "first"]])
      await turns(command);
    expect(readFileSync(path0).equals(before)).toBe(true);
    expect(statSync(path0).mtimeMs).toBe(mtimeMs);
    const foreign = tempFile();
    writeFileSync(foreign, "");
    expect(await turns(["threads"], {}, foreign)).toMatchObject({ code: 1, stderr: expect.stringContaining("SCHEMA_OUTDATED") });
    expect(statSync(foreign).size).toBe(0);
  });

  test("S10.1 --yes makes no database where none is, and no tables in another program's", async () => {
    const others = { nowhere: tempFile(), foreign: tempFile() };
    if (!ON_POSTGRES) new Database(others.foreign).exec("CREATE TABLE users (id INTEGER)").close();
    const content = () => (ON_POSTGRES ? "" : readFileSync(others.foreign, "latin1"));
    const before = content();
    const nothing = /There is no file|belongs to another program|SCHEMA_OUTDATED/;
    const changing: readonly string[][] = [
      ...[["rewind", "a"], ["take-back", "a"], ["delete", "a"], ["copy", "a", "b"], ["name", "a", "b"], ["vacuum"]],
      ...[
        ["prune", "--keep-last", "1"],
        ["effect", "resolve", "a", "done"],
        ["inbox", "answer", "a", "--value", "1"],
      ],
      ...[
        ["resume", "a", "--graph", "./none.ts"],
        ["recover", "--graph", "./none.ts"],
      ],
    ];
    for (const at of ON_POSTGRES ? [others.nowhere] : Object.values(others)) {
      for (const args of changing) {
        const { code, stdout, stderr } = await turns([...args, "--yes"], {}, at);
        expect({ args, code: code === 0, stdout }).toEqual({ args, code: false, stdout: "" });
        expect(stderr).toMatch(nothing);
      }
      expect((await turns(["web", "--write"], {}, at)).stderr).toMatch(nothing);
      const [, from = "", ...schema] = place(at);
      const moved = await told([process.execPath, program, "move", from, `${at}.moved`, "--yes", ...schema]);
      expect(moved.stderr).toMatch(nothing);
      expect((await turns(["threads"], {}, at)).stderr).toMatch(nothing);
    }
    expect(existsSync(others.nowhere)).toBe(false);
    expect(content()).toBe(before);
  });

  test("S10.1 a saver that is read-only refuses every change, and reads everything", async () => {
    const saver = openSaver(path0, { readOnly: true });
    try {
      expect((await saver.listThreads()).length).toBe(4);
      await expect(async () => saver.deleteThread("finished")).rejects.toThrow(
        expect.objectContaining({ code: "STORE_UNAVAILABLE" }),
      );
      expect((await saver.listThreads()).length).toBe(4);
    } finally {
      await (saver.close() as unknown);
    }
  });
});

describe("what changes something", () => {
  const path1 = tempFile();
  const on1 = (...args: string[]): Promise<Told> => turns(args, {}, path1);
  const parsed = async (told: Promise<Told>) => {
    const { stdout, stderr, code } = await told;
    expect(stderr).toBe("");
    return { code, ...JSON.parse(stdout) };
  };
  beforeAll(async () => {
    const saver = openSaver(path1);
    await makeThreads(saver);
    await (saver.close() as unknown);
  }, 300_000);

  test("S10.1 shows its plan and does nothing without --yes: exit code 4, or 0 for --dry-run", async () => {
    const commands: readonly [keyof typeof SHAPES, string[]][] = [
      ["rewind", ["finished", "--to", "first"]],
      ["delete", ["finished"]],
      ["copy", ["finished", "again"]],
      ["name", ["finished", "approved"]],
      ["prune", ["--keep-last", "1"]],
      ["vacuum", []],
    ];
    for (const [command, args] of commands) {
      const { stdout, code } = await on1(command, ...args);
      expect({ command, code }).toEqual({ command, code: 4 });
      expect(SHAPES[command].safeParse(JSON.parse(stdout)).error).toBeUndefined();
      expect(JSON.parse(stdout)).toMatchObject({ done: false, report: null });
    }
    expect(await parsed(on1("delete", "finished", "--dry-run"))).toMatchObject({ code: 0, done: false });
    const idle = await on1("prune", "--keep-tasks", "50", "--table");
    expect(idle).toMatchObject({ code: 0, stdout: expect.stringContaining("Nothing to do.") });
    expect((await parsed(on1("log", "finished"))).attempts.length).toBe(6);
  });

  test("S10.1 a rewind says how to take it back, and is taken back", async () => {
    const rewound = await on1("rewind", "finished", "--to", "first", "--allow-uncompensated", "--yes", "--table");
    expect(rewound).toMatchObject({ code: 0, stderr: "" });
    const back = / (take-back \S+ --yes)/.exec(rewound.stdout)?.[1] ?? "";
    expect((await parsed(on1("log", "finished"))).attempts.length).toBe(3);
    expect(await parsed(on1("rewinds", "finished"))).toMatchObject({ rewinds: [{ toTask: "first", status: "done" }] });
    expect(await parsed(on1(...back.split(" ")))).toMatchObject({ done: true, report: { restored: { turns: 6 } } });
    expect((await parsed(on1("log", "finished"))).attempts.length).toBe(6);
    const refused = await on1("rewind", "finished", "--to", "first", "--yes");
    expect(refused).toMatchObject({
      code: 4,
      stdout: "",
      stderr: expect.stringContaining("add --allow-uncompensated. [EFFECT_UNCOMPENSATED]"),
    });
  });

  test("S10.1 a plan that can't be carried out says so: a copy to an id that exists, a rewind that was taken back", async () => {
    const copied = await on1("copy", "finished", "failed", "--dry-run", "--table");
    expect(copied).toMatchObject({ code: 4, stdout: expect.stringContaining('Refused now: Thread "failed" exists already.') });
    const unknown = await on1("rewind", "finished", "--to", "nowhere", "--table");
    expect(unknown.stdout).toContain("Removes: not known.\nEffects: not known.\n");
    const [{ id }] = (await parsed(on1("rewinds", "finished"))).rewinds.filter((one: any) => one.status === "taken-back");
    const again = await on1("take-back", id, "--table");
    expect(again).toMatchObject({ code: 4, stdout: expect.stringContaining("Refused now: It was taken back at ") });
    const plan = JSON.parse((await on1("take-back", id)).stdout);
    expect(SHAPES["take-back"].safeParse(plan).error).toBeUndefined();
    expect(plan).toMatchObject({
      plan: { threadId: "finished", toTask: "first", undone: 0 },
      refused: { code: "REWIND_CONFLICT" },
    });
  });

  test("S10.1 a plan that can't be carried out has the code and the reason as JSON, and --yes is refused with that code", async () => {
    const place = tempFile();
    const saver = openSaver(place);
    await makeThreads(saver);
    for (const task of ["third", "fourth"])
      await graph(saver).invoke({ total: 7 }, { configurable: { thread_id: "finished", task_id: task } });
    const request = { threadId: "finished", allowUncompensated: true };
    await saver.rewind({ ...request, toTask: "third" });
    await saver.rewind({ ...request, toTask: "second", archive: false });
    await saver.rewind({ ...request, toTask: "first" });
    const [newest, unarchived, passed] = (await saver.rewinds.list("finished")).map(({ id }) => id).reverse();
    const [effect] = await saver.effects.list("finished");
    await graph(saver).invoke({ total: 8 }, { configurable: { thread_id: "finished", task_id: "fifth" } });
    await (saver.close() as unknown);
    const plans: readonly (readonly [keyof typeof SHAPES, string[], string, RegExp])[] = [
      ["take-back", [newest ?? ""], "REWIND_CONFLICT", /newer work/],
      ["take-back", [unarchived ?? ""], "REWIND_CONFLICT", /kept/],
      ["take-back", [passed ?? ""], "REWIND_CONFLICT", /newer work/],
      ["copy", ["finished", "failed"], "THREAD_EXISTS", /exists already/],
      ["effect resolve", [effect?.id ?? "", "not-done"], "EFFECT_NOT_IN_DOUBT", /it is done/],
      ["effect resolve", [effect?.id ?? "", "undo-done"], "EFFECT_NOT_IN_DOUBT", /its undo isn't/],
    ];
    for (const [command, args, code, why] of plans) {
      const asked = await turns([...command.split(" "), ...args, "--dry-run"], {}, place);
      const { success } = SHAPES[command].safeParse(JSON.parse(asked.stdout));
      expect({ args, code: asked.code, success }).toEqual({ args, code: 4, success: true });
      expect(JSON.parse(asked.stdout).refused).toEqual({ code, message: expect.stringMatching(why) });
      const done = await turns([...command.split(" "), ...args, "--yes"], {}, place);
      expect(done).toMatchObject({ code: 4, stdout: "", stderr: expect.stringContaining(`[${code}]`) });
    }
    const short = await turns(["delete", "finish"], {}, place);
    expect(JSON.parse(short.stdout).refused.message).toContain("whole id");
    const free = await turns(["copy", "finished", "other"], {}, place);
    expect(JSON.parse(free.stdout)).toMatchObject({ done: false, refused: null });
  });

  test("S10.1 copy, name, prune and delete do what they say; delete wants the whole id", async () => {
    expect(await parsed(on1("copy", "finished", "again", "--yes"))).toMatchObject({ done: true });
    expect(await parsed(on1("name", "again", "approved", "--at", "first", "--yes"))).toMatchObject({ done: true });
    expect(await parsed(on1("state", "again", "--at", "approved"))).toMatchObject({ state: { total: 2 } });
    expect(await parsed(on1("prune", "again", "--keep-last", "1", "--yes"))).toMatchObject({
      done: true,
      report: { threads: 1 },
    });
    expect(await on1("delete", "aga", "--yes")).toMatchObject({ code: 2, stderr: expect.stringContaining("whole id") });
    expect(await parsed(on1("delete", "again", "--yes"))).toMatchObject({ done: true });
    expect(await parsed(on1("threads"))).toMatchObject({ total: 3 });
  });

  test("S10.1 a name that moves says from where, and what it says gives it back; without anything to do nothing asks for --yes", async () => {
    const name = (...args: string[]) => parsed(on1("name", "finished", "moves", ...args));
    const { plan: first } = await name("--at", "first", "--yes");
    expect(first).toMatchObject({ movesFrom: null });
    const planned = await name();
    expect(planned).toMatchObject({ code: 4, done: false, plan: { movesFrom: first.checkpointId } });
    expect(
      SHAPES.name.safeParse(Object.fromEntries(Object.entries(planned).filter(([key]) => key !== "code"))).error,
    ).toBeUndefined();
    const text = await on1("name", "finished", "moves", "--table");
    expect(text.stdout).toContain(`The name moves would move from checkpoint ${first.checkpointId} to `);
    const moved = await on1("name", "finished", "moves", "--yes", "--table");
    const back = /Take it back: turns.* (name finished moves --at \S+ --yes)$/m.exec(moved.stdout)?.[1] ?? "";
    expect(await parsed(on1(...back.split(" ")))).toMatchObject({ code: 0, plan: { checkpointId: first.checkpointId } });
    expect(await name("--at", "first")).toMatchObject({ code: 0, done: false, refused: null });
    const removed = await on1("name", "finished", "moves", "--remove", "--yes", "--table");
    expect(removed.stdout).toContain(`--at ${first.checkpointId} --yes`);
    const none = await on1("name", "finished", "moves", "--remove", "--table");
    expect(none).toMatchObject({ code: 0, stdout: expect.stringContaining("Nothing to do.") });
  });

  test("S10.1 the plan of a deletion has what the table warns of: a process that runs the thread, threads that wait for an answer", async () => {
    const place = tempFile();
    const saver = openSaver(place);
    await makeThreads(saver);
    const [begun, finish] = [new EventEmitter(), new EventEmitter()];
    const builder = new StateGraph(Annotation.Root({ total: Annotation<number> }))
      .addNode("wait", async () => {
        begun.emit("now");
        await once(finish, "now");
        return {};
      })
      .addEdge(START, "wait")
      .addEdge("wait", END);
    const compiled = saver.attach(builder.compile({ checkpointer: saver }));
    const isRunning = once(begun, "now");
    const run = compiled.invoke({ total: 1 }, { configurable: { thread_id: "running" } });
    await isRunning;
    const asked = async (...args: string[]) => JSON.parse((await turns(args, {}, place)).stdout);
    expect(await asked("delete", "running")).toMatchObject({ plan: { running: { pid: process.pid } } });
    expect(await asked("delete", "finished")).toMatchObject({ plan: { running: null } });
    finish.emit("now");
    await run;
    await (saver.close() as unknown);
    expect(await asked("prune", "--idle", "0s")).toMatchObject({ plan: { waiting: 1 } });
    const { stdout } = await turns(["prune", "--idle", "0s", "--table"], {}, place);
    expect(stdout).toContain("1 of these threads waits for an answer: questions are deleted, too.");
  });

  test("S10.1 S3.5 prune --idle keeps a thread with an effect in doubt, and says so", async () => {
    const report = { threads: 0, inDoubt: ["killed"] };
    expect(await json("prune", ["killed", "--idle", "0s", "--yes"], 4)).toMatchObject({ done: true, report });
    const { stdout } = await turns(["prune", "killed", "--idle", "0s", "--table"]);
    expect(stdout).toContain("Not deleted: killed: an effect is in doubt.");
  });

  test("S10.1 an effect in doubt is settled, and the thread needs nobody any more", async () => {
    const [{ id }] = (await json("effects", [])).effects;
    const [{ id: other }] = (await json("effects", ["finished"])).effects;
    const history = await json("effect resolve", [other.slice(0, -1), "history"], 4);
    expect(history).toMatchObject({ plan: { effect: { id: other } } });
    expect(await json("effect resolve", [id.slice(0, 13), "not-done"], 4)).toMatchObject({
      done: false,
      plan: { effect: { name: "ship" } },
    });
    expect(await json("effect resolve", [id, "not-done", "--yes"])).toMatchObject({
      done: true,
      report: { status: "failed", settledBy: "person" },
    });
    expect(await json("status", ["killed"])).toMatchObject({ state: "interrupted", needsPerson: false, resume: { can: "yes" } });
    // The page calls it crashed, so tables and --status do, too.
    for (const state of ["crashed", "interrupted"])
      expect(await json("threads", ["--status", state])).toMatchObject({
        threads: [{ threadId: "killed", state: "interrupted" }],
      });
    expect(await shown(["threads", "--status", "crashed"], 80)).toMatch(/\nkilled {2}crashed /);
    const [first, ...others] = ["finished", "crashed"].map((state) => ["--status", state]);
    expect(await json("threads", [...(first ?? []), ...others.flat(), "--sort", "id"])).toEqual(
      await json("threads", ["--status", "finished,crashed", "--sort", "id"]),
    );
  });
});
