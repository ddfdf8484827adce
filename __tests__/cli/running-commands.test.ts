import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { buildSync } from "esbuild";
import { defineEffect } from "langgraph-checkpoint-turns";
import { ON_POSTGRES, openSaver, schemaAt } from "../support/open-saver";
import { tempFile, tempPlace } from "../support/temp";
import { testOfFiles } from "../support/test-of-files";
import { type Branches, drawn, type EffectLine, startOn, type TurnLogPage } from "../../src/testing-internal";
import { builtProgram, quickProgram, told, type Told } from "./built";
import { RUNNING_SHAPES, SHAPES } from "./shapes";

// Each command is a process of its own.
jest.setTimeout(300_000);

/** The commands that run a graph, or follow what it saves, as they are built. Each test has threads of its own. */
const ROOT = path.join(__dirname, "..", "..");
const TYPED_WORLD = path.join(__dirname, "cli-world.ts");
/** The same graphs, compiled: they load in half of the time. */
let compiledGraphs = "";
let program = "";
let quick = "";
/** A command, by the program that starts fast where it loads no graph. */
const commandOf = (place: string, args: readonly string[]): string[] => [
  process.execPath,
  args.some((_, n) => args[n - 1] === "--graph") ? program : quick,
  ...args,
  ...placed(place),
];
const placed = (at: string): string[] =>
  ON_POSTGRES ? ["--db", process.env["TURNS_PG_URL"] ?? "", "--schema", schemaAt(at)] : ["--db", at];

/** As `--graph` loads it: a graph that was compiled otherwise has other sources. */
const inProcess = (what: string, places: readonly string[], how: readonly string[] = [compiledGraphs]) =>
  spawnSync(process.execPath, [...how, what, ...places], { cwd: ROOT, env: { ...process.env, NODE_OPTIONS: "" } });

function makeWorlds(places: readonly string[], how?: readonly string[]): void {
  const { status, stderr } = inProcess("makes", places, how);
  expect({ status, stderr: status === 0 ? "" : String(stderr) }).toEqual({ status: 0, stderr: "" });
}

const worlds: string[] = [];

/** One process makes several, because its start takes longer than that. */
async function world(): Promise<string> {
  if (worlds.length === 0) {
    worlds.push(...Array.from({ length: 10 }, () => tempFile()));
    makeWorlds(worlds);
  }
  return worlds.pop() ?? "";
}

/** With a thread `killed`, whose process was killed in the middle of an effect. */
async function worldWithDead(): Promise<string> {
  const place = await world();
  expect(inProcess("dies", [place]).signal).toBe("SIGKILL");
  return place;
}

type Named = keyof typeof RUNNING_SHAPES;

/** What a command says in JSON, after its shape was checked. stderr may have warnings of the run. */
async function json(place: string, command: Named, args: readonly string[], code = 0): Promise<any> {
  const { stdout, stderr, code: exit } = await told(commandOf(place, [...command.split(" "), ...args]));
  expect({ exit, error: exit === code ? "" : stderr }).toEqual({ exit: code, error: "" });
  const document: unknown = JSON.parse(stdout);
  const { success, error } = RUNNING_SHAPES[command].safeParse(document);
  expect(success ? "" : `${command}: ${String(error)}`).toBe("");
  return document;
}

const turns = (place: string, ...args: string[]): Promise<Told> => told(commandOf(place, args));
const withGraph = (name: string, module = compiledGraphs): string[] => ["--graph", `${module}#${name}`];

beforeAll(() => {
  compiledGraphs = compiledWorld();
  program = builtProgram();
  quick = quickProgram();
}, 400_000);

afterAll(() => rmSync(path.dirname(compiledGraphs), { recursive: true, force: true }));

/** LangGraph stays outside, so that it's the program's. */
function compiledWorld(): string {
  const outfile = path.join(mkdtempSync(path.join(ROOT, ".tmp", "world-")), "cli-world.mjs");
  buildSync({
    entryPoints: [TYPED_WORLD],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    alias: { "langgraph-checkpoint-turns": path.join(ROOT, "src", "index.ts") },
    external: ["@langchain/*", "@opentelemetry/api", "acorn", "better-sqlite3", "markdown-it", "pg", "zod"],
    keepNames: true,
    logLevel: "error",
  });
  return outfile;
}

describe("a graph that --graph names", () => {
  test("S10.1 resume shows its plan, then continues the thread, and says what became of it", async () => {
    const place = await world();
    const plan = { threadId: "failed", does: "continue", kept: ["plan"], runs: ["charge"], inDoubt: [], questions: [] };
    expect(await json(place, "resume", ["fai", ...withGraph("graph")], 4)).toMatchObject({ done: false, plan, report: null });
    expect(await json(place, "resume", ["failed", ...withGraph("graph"), "--dry-run"])).toMatchObject({ done: false });
    const failed = await json(place, "resume", ["failed", ...withGraph("fails"), "--yes"], 1);
    expect(failed.report).toMatchObject({ state: "failed", failures: [{ node: "charge", error: { message: "card declined" } }] });
    const { done, report } = await json(place, "resume", ["failed", ...withGraph("graph"), "--yes"]);
    expect({ done, report }).toMatchObject({
      done: true,
      report: {
        state: "finished",
        ran: [
          { node: "charge", attempt: 3, status: "ok" },
          { node: "ask", attempt: 1, status: "ok" },
        ],
      },
    });
    expect(await json(place, "resume", ["failed", ...withGraph("graph"), "--yes"])).toMatchObject({
      done: false,
      plan: { does: "return" },
    });
  });

  testOfFiles("S10.1 under a running tsx, TypeScript is loaded once, so that no node counts as changed", async () => {
    const ways: readonly (readonly [node: string[], env: NodeJS.ProcessEnv])[] = [
      [["--import", "tsx"], {}],
      [[], { NODE_OPTIONS: "--import tsx" }],
    ];
    for (const [node, env] of ways) {
      const place = tempFile();
      makeWorlds([place], ["--import", "tsx", TYPED_WORLD]);
      const args = [...node, program, "resume", "failed", ...withGraph("graph", TYPED_WORLD), "--yes", ...placed(place)];
      const { code, stderr } = await told([process.execPath, ...args], { env });
      expect({ code, error: code === 0 ? "" : stderr }).toEqual({ code: 0, error: "" });
    }
  });

  test("S10.1 a thread that waits isn't resumed without an answer; inbox answer gives it", async () => {
    const place = await world();
    const waiting = await turns(place, "resume", "waiting", ...withGraph("asks"), "--yes", "--table");
    expect(waiting).toMatchObject({ code: 4, stdout: expect.stringContaining(" inbox answer waiting --value JSON") });
    const { plan } = await json(place, "inbox answer", ["waiting", "--value", '{"ok":true}', ...withGraph("asks")], 4);
    expect(plan).toMatchObject({ question: { node: "ask", value: { question: "Ship it?" } }, answer: { ok: true } });
    const id: string = plan.question.id;
    const wrong: readonly (readonly [string[], string])[] = [
      [[id, "--value", "yes", ...withGraph("asks")], "Quote a text twice"],
      [[id, ...withGraph("asks")], "--value is missing"],
      [[id, "--value", "1"], "--graph is missing"],
    ];
    for (const [args, says] of wrong)
      expect(await turns(place, "inbox", "answer", ...args)).toMatchObject({
        code: 2,
        stdout: "",
        stderr: expect.stringContaining(says),
      });
    const { report } = await json(place, "inbox answer", [id.slice(0, 10), "--value", "true", ...withGraph("asks"), "--yes"]);
    expect(report).toMatchObject({ threadId: "waiting", state: "finished", ran: [{ node: "ask", attempt: 2 }] });
  });

  test("S10.1 an answer that comes after another one exits with 4 and says how to look, be it before or after the run has begun", async () => {
    for (const [question, graph] of [
      ["waiting", "answersFirst"],
      ["nobody", "asks"],
    ] as const) {
      const late = await turns(await world(), "inbox", "answer", question, "--value", "1", ...withGraph(graph), "--yes");
      expect({ question, ...late }).toMatchObject({ question, code: 4, stdout: "" });
      expect(late.stderr).toMatch(/Here: turns .*inbox lists the open questions\. \[UNKNOWN_INTERRUPT\]/);
    }
  });

  test("S10.1 a text that is a thread's id and the beginning of another interrupt's names nothing, and neither does an empty one", async () => {
    const place = await worldWithDead();
    const [{ id }] = JSON.parse((await turns(place, "inbox")).stdout).questions;
    for (const args of [
      ["inbox", "answer", "", "--value", "1", ...withGraph("asks")],
      ["effect", "resolve", "", "done"],
    ]) {
      const { code, stdout, stderr } = await turns(place, ...args);
      expect({ args, stdout, isRefused: code === 1 || code === 2 }).toEqual({ args, stdout: "", isRefused: true });
      expect(stderr).toMatch(/No open question|no effect/i);
    }
    const name = String(id).slice(0, 1);
    const saver = openSaver(place);
    await saver.copyThread("waiting", name);
    await (saver.close() as unknown);
    const both = await turns(place, "inbox", "answer", name, "--value", "1", ...withGraph("asks"));
    expect(both).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("names 2 questions") });
    const { plan } = await json(place, "inbox answer", ["waiting", "--value", "1", ...withGraph("asks")], 4);
    expect(plan.question.threadId).toBe("waiting");
  });

  test("S10.1 printed commands can be pasted: ids are quoted for a shell, and can't do anything to the terminal", async () => {
    const place = await world();
    const [failed, waiting] = ["x; touch p\u001b[2J", "w; touch p"];
    const quoted = String.raw`$'x; touch p\x1b[2J'`;
    const start = startOn(ON_POSTGRES ? { db: process.env["TURNS_PG_URL"] ?? "", schema: schemaAt(place) } : { db: place });
    const saver = openSaver(place);
    await saver.copyThread("waiting", waiting);
    await saver.copyThread("failed", failed);
    await (saver.close() as unknown);
    const printed: readonly (readonly [args: string[], says: string | RegExp])[] = [
      [["--table"], /\n {2}turns \S.* status (\$'x|'w); touch p/],
      [["threads", "--sort", "id", "--search", "touch", "--limit", "1", "--table"], "--cursor 'w; touch p'"],
      [["resume", failed, ...withGraph("fails"), "--yes", "--table"], `Next: ${start} log ${quoted} --failed`],
      [["resume", waiting, ...withGraph("asks"), "--table"], `${start} inbox answer 'w; touch p' --value`],
      [["name", failed, "a b", "--yes", "--table"], `Take it back: ${start} name ${quoted} 'a b' --remove --yes`],
      [["copy", failed, "c; d", "--yes", "--table"], `Take it back: ${start} delete 'c; d' --yes`],
      [["rewind", failed, "--abandon", "--yes"], `${start} rewinds ${quoted}`],
      [["show", failed, "999"], `${start} log ${quoted}`],
    ];
    for (const [args, says] of printed) {
      const { stdout, stderr } = await turns(place, ...args);
      expect(stdout + stderr).toMatch(says);
      expect(stdout + stderr).not.toContain("\u001b");
    }
  });

  testOfFiles("S10.1 if Ctrl-C can't stop a run, the run completes, and stderr says why", async () => {
    const place = await world();
    const file = path.join(mkdtempSync(path.join(ROOT, ".tmp", "graph-")), "agent.ts");
    writeFileSync(
      file,
      `import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
       import { setTimeout as sleep } from "node:timers/promises";
       const State = Annotation.Root({ total: Annotation<number>, note: Annotation<string> });
       const charge = async () => {
         process.kill(process.pid, "SIGINT");
         await sleep(500);
         return { note: "charged" };
       };
       export const graph = (saver: any) => {
         saver.drain = () => Promise.reject(new Error("the disk is gone"));
         return new StateGraph(State).addNode("charge", charge).addEdge(START, "charge").addEdge("charge", END).compile({ checkpointer: saver });
       };`,
    );
    try {
      const args = ["resume", "failed", "--graph", `${file}#graph`, "--drift", "continue", "--yes"];
      const { code, stderr, stdout } = await turns(place, ...args);
      expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining("the disk is gone") });
      expect(JSON.parse(stdout)).toMatchObject({ report: { state: "finished" } });
    } finally {
      rmSync(path.dirname(file), { recursive: true });
    }
  });

  test("S10.1 what a module and its nodes print goes to stderr, so that stdout is the JSON document alone", async () => {
    const place = await world();
    const file = path.join(mkdtempSync(path.join(ROOT, ".tmp", "prints-")), "agent.mjs");
    writeFileSync(
      file,
      `import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
       console.log("loading");
       const State = Annotation.Root({ total: Annotation(), note: Annotation() });
       const charge = () => { console.log("charging"); process.stdout.write("charged\\n"); };
       export const graph = (saver) =>
         new StateGraph(State).addNode("charge", charge).addEdge(START, "charge").addEdge("charge", END).compile({ checkpointer: saver });`,
    );
    try {
      const args = ["resume", "failed", "--graph", `${file}#graph`, "--drift", "continue", "--yes"];
      const shown = await turns(place, ...args, "--dry-run", "--table");
      expect(shown.stdout).toMatch(/^loading\n/);
      const { code, stderr, stdout } = await turns(place, ...args, "--json");
      expect(JSON.parse(stdout)).toMatchObject({ report: { state: "finished" } });
      expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(/^loading\n(.*\n)*charging\ncharged\n/) });
    } finally {
      rmSync(path.dirname(file), { recursive: true });
    }
  });

  test("S10.1 recover says what it would do and what it skips; what it gives up is listed by stuck, and can be tried again", async () => {
    const place = await worldWithDead();
    expect((await json(place, "recover", withGraph("graph"), 4)).plan.threads).toEqual([
      {
        ...{ threadId: "killed", does: "continue" },
        why: "it stopped at charge; unless ship has a probe, somebody has to settle it first",
      },
    ]);
    const { plan } = await json(place, "resume", ["killed", ...withGraph("ships")], 4);
    expect(plan.inDoubt).toMatchObject([{ name: "ship", title: "ship", node: "charge" }]);
    const { report } = await json(place, "recover", [...withGraph("ships"), "--yes"], 4);
    expect(report).toMatchObject({ resumed: [], skipped: [{ threadId: "killed", reason: { code: "EFFECT_IN_DOUBT" } }] });
    const [{ id }] = JSON.parse((await turns(place, "effects")).stdout).effects;
    expect((await turns(place, "effect", "resolve", id, "not-done", "--yes")).code).toBe(0);
    expect(await json(place, "stuck", [])).toMatchObject({ stuck: [] });
    const gaveUp = await json(place, "recover", [...withGraph("fails"), "--tries", "1", "--yes"], 1);
    expect(gaveUp.report.givenUp).toMatchObject([{ threadId: "killed", node: "charge", error: { message: "card declined" } }]);
    expect(await json(place, "stuck", [])).toMatchObject({ stuck: [{ threadId: "killed", tries: 1 }] });
    expect((await json(place, "recover", withGraph("graph"))).plan.threads).toEqual([]);
    const { stdout } = await turns(place, "recover", ...withGraph("graph"), "--table");
    expect(stdout).toContain("No thread lost its process.\n\nNothing to do.");
    const again = await json(place, "recover", [...withGraph("graph"), "--include-stuck", "--concurrency", "2", "--yes"]);
    expect(again.report).toMatchObject({ resumed: [{ threadId: "killed", taskId: "only" }], givenUp: [] });
    expect(await json(place, "stuck", [])).toMatchObject({ stuck: [] });
  });

  test("S10.1 nothing runs, also with --yes, if only a person can settle an effect; then it continues", async () => {
    const place = await world();
    expect(inProcess("posts", [place]).signal).toBe("SIGKILL");
    const [{ id }] = JSON.parse((await turns(place, "effects")).stdout).effects;
    for (const how of [[], ["--yes"]]) {
      const answer = await json(place, "resume", ["posting", ...withGraph("posts"), ...how], 4);
      expect(answer).toMatchObject({ done: false, report: null, refused: { code: "EFFECT_IN_DOUBT" } });
      expect(answer.refused.message).toMatch(
        new RegExp(`settle it first, as done or not-done: turns .* effect resolve ${id} done$`),
      );
    }
    const recovery = await json(place, "recover", withGraph("posts"), 4);
    expect(recovery.plan.threads).toMatchObject([
      {
        threadId: "posting",
        does: "skip",
        why: expect.stringMatching(/^EFFECT_IN_DOUBT: it isn't known whether effect "cli-post"/),
      },
    ]);
    const shown = await turns(place, "recover", ...withGraph("posts"), "--table");
    expect(shown.stdout).toMatch(/\n\nNothing to do: all of them are skipped\.\n*$/);
    const { attempts } = JSON.parse((await turns(place, "log", "posting")).stdout) as TurnLogPage;
    expect(attempts.map(({ node, attempt }) => [node, attempt])).toEqual([
      ["charge", 1],
      ["plan", 1],
    ]);
    expect((await turns(place, "effect", "resolve", id, "done", "--result", "true", "--yes")).code).toBe(0);
    const { report } = await json(place, "resume", ["posting", ...withGraph("posts"), "--yes"]);
    expect(report).toMatchObject({ state: "finished" });
  });

  test("S10.1 recover --watch tells each report in a line, until Ctrl-C, which exits with 130 and says how to continue", async () => {
    const place = await worldWithDead();
    const args = ["recover", ...withGraph("ships"), "--watch", "--every", "1s", "--yes", ...placed(place)];
    const { code, lines, stderr } = await untilLine([process.execPath, program, ...args], (line) =>
      line.includes("EFFECT_IN_DOUBT"),
    );
    expect({ code, lines: lines.length }).toEqual({ code: 130, lines: 1 });
    expect(RUNNING_SHAPES["recover --watch"].safeParse(JSON.parse(lines[0] ?? "")).error).toBeUndefined();
    expect(stderr).toMatch(/Continue: turns .* recover --graph/);
  });

  testOfFiles(
    "S10.1 a module without that graph is refused with what it exports, TypeScript without a loader with the remedy",
    async () => {
      const place = await world();
      const missing = await turns(place, "resume", "failed", ...withGraph("grahp"));
      expect(missing).toMatchObject({ code: 2, stdout: "" });
      expect(missing.stderr).toContain(
        'Did you mean "graph"? Its exports: answersFirst, asks, fails, graph, makeThreads, notAGraph, posts, ships.',
      );
      expect((await turns(place, "resume", "failed", ...withGraph("notAGraph"))).stderr).toContain(
        '#notAGraph" is 3, not a graph',
      );
      expect((await turns(place, "resume", "failed", "--graph", compiledGraphs)).stderr).toContain("has no default export");
      expect((await turns(place, "resume", "failed", "--graph", "./gone.ts")).stderr).toContain("There is no file");
      const folder = mkdtempSync(path.join(tempPlace(), "turns-graph-"));
      const write = (name: string, text: string): string => {
        writeFileSync(path.join(folder, name), text);
        return path.join(folder, name);
      };
      const alone = (file: string) =>
        told([process.execPath, program, "resume", "failed", "--graph", file, ...placed(place)], { cwd: folder });
      expect((await alone(write("throws.mjs", 'throw new Error("no key")'))).stderr).toContain(
        "can't be loaded. Error: no key. Nothing was run.",
      );
      expect((await alone(write("makes.mjs", 'export default async () => { throw new Error("no key") }'))).stderr).toContain(
        "makes no graph. Error: no key.",
      );
      expect((await alone(`${write("common.cjs", "module.exports = { a: 1 }")}#b`)).stderr).toContain("Its exports: a.");
      const typed = await alone(write("typed.ts", "export default 3 as number;"));
      if ((process.features as { typescript?: unknown }).typescript) expect(typed.stderr).toContain("is 3, not a graph");
      else expect(typed).toMatchObject({ code: 2, stderr: expect.stringContaining("npm i -D tsx") });
    },
  );

  testOfFiles(
    "S10.1 a mistyped file has a suggestion, and so has a missing export: the module's graph, with the option to paste",
    async () => {
      const place = await world();
      const folder = mkdtempSync(path.join(ROOT, ".tmp", "graph-"));
      const file = path.join(folder, "agent.mjs");
      writeFileSync(
        file,
        `import { Annotation, START, StateGraph } from "@langchain/langgraph";
       export const State = Annotation.Root({ note: Annotation });
       export const limit = 3;
       export const orders = new StateGraph(State).addNode("charge", () => ({})).addEdge(START, "charge").compile();`,
      );
      try {
        const refusalOf = async (graph: string): Promise<string> => {
          const { stderr, code } = await turns(place, "resume", "failed", "--graph", graph);
          expect({ graph, code }).toEqual({ graph, code: 2 });
          return stderr;
        };
        expect(await refusalOf(`${folder}/agnet.mjs#orders`)).toContain('Did you mean "agent.mjs"?');
        expect(await refusalOf(`${folder}/MODULE#EXPORT`)).toContain("--graph ./agent.ts#graph");
        // Neither name is near: the export that is a graph was meant.
        for (const name of ["", "#app"]) {
          const refusal = await refusalOf(`${file}${name}`);
          expect(refusal).toContain('Did you mean "orders"? Its exports: State, limit, orders.');
          expect(refusal).toContain(`--graph ${file}#orders`);
        }
        // A getter may throw: it's no graph, and says so if it's asked for.
        const old = path.join(folder, "old.cjs");
        writeFileSync(
          old,
          `module.exports = { graph: () => undefined, limit: 3, get broken() { throw new Error("not configured"); } };`,
        );
        const refusal = await refusalOf(`${old}#grahp`);
        expect(refusal).toContain('Did you mean "graph"? Its exports: graph, limit, ');
        expect(refusal).not.toContain("not configured");
        const broken = await refusalOf(`${old}#broken`);
        expect(broken).toContain(`Export "broken" of module "${old}" throws. Error: not configured. Nothing was run.`);
        expect(broken).not.toMatch(/\n\s+at /);
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  test("S10.1 a graph gets the saver of the named database; a saver of another database is refused, and both are named", async () => {
    const place = await world();
    const file = path.join(mkdtempSync(path.join(ROOT, ".tmp", "graph-")), "agent.ts");
    writeFileSync(
      file,
      `import { Annotation, END, MemorySaver, START, StateGraph } from "@langchain/langgraph";
       import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
       const State = Annotation.Root({ total: Annotation<number>, note: Annotation<string> });
       export const builder = new StateGraph(State).addNode("charge", () => ({ note: "charged" })).addEdge(START, "charge").addEdge("charge", END);
       export const without = builder.compile();
       export const memory = builder.compile({ checkpointer: new MemorySaver() });
       export const runner = async (saver: TurnSaver) => new GraphRunner(builder.compile({ checkpointer: saver }));
       export const other = builder.compile({ checkpointer: TurnSaver.fromPath(":memory:") });`,
    );
    try {
      for (const name of ["builder", "without", "memory", "runner"]) {
        const { stderr, code } = await turns(place, "resume", "failed", "--graph", `${file}#${name}`);
        expect({ name, code }).toEqual({ name, code: 4 });
        expect(stderr).toEqual(name === "memory" ? expect.stringContaining("MemorySaver, isn't used") : "");
      }
      const other = await turns(place, "resume", "failed", "--graph", `${file}#other`);
      expect(other).toMatchObject({ code: 2, stderr: expect.stringMatching(/saves to :memory:, and you asked for /) });
    } finally {
      rmSync(path.dirname(file), { recursive: true });
    }
  });

  test("S10.1 a rewind that would be refused shows its plan and exits with 4; the graph's undos make it possible", async () => {
    const place = await world();
    const refused = await turns(place, "rewind", "finished", "--to", "first", "--dry-run");
    expect(refused).toMatchObject({ code: 4, stderr: "" });
    expect(JSON.parse(refused.stdout)).toMatchObject({
      done: false,
      plan: { removed: { turns: 6 }, effects: [{ verdict: "unregistered" }], refused: expect.stringContaining("cli-charge") },
      refused: { code: "EFFECT_UNCOMPENSATED", message: expect.stringContaining("--allow-uncompensated") },
    });
    const allowed = await turns(place, "rewind", "finished", "--to", "first", "--dry-run", "--allow-uncompensated");
    expect({ code: allowed.code, ...JSON.parse(allowed.stdout) }).toMatchObject({ code: 0, plan: { refused: null } });
    for (const module of [compiledGraphs, `${compiledGraphs}#graph`]) {
      const withUndos = await turns(place, "rewind", "finished", "--to", "first", "--dry-run", "--graph", module);
      expect({ code: withUndos.code, ...JSON.parse(withUndos.stdout) }).toMatchObject({
        code: 0,
        plan: { refused: null, effects: [{ verdict: "undo" }] },
      });
    }
  });
});

describe("a rewind that was begun and isn't finished", () => {
  const begun = async (): Promise<string> => {
    const place = await world();
    const rewind = ["rewind", "finished", "--to", "first", "--graph", compiledGraphs, "--yes", ...placed(place)];
    const failed = await told([process.execPath, program, ...rewind], { env: { UNDO_FAILS: "1" } });
    expect(failed).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining(" rewind finished --abandon") });
    return place;
  };
  const stateOf = async (place: string) => JSON.parse((await turns(place, "status", "finished")).stdout).state as string;

  test("S10.1 status and doctor name the command; rewind without --to finishes it, and with the same --to, too", async () => {
    const place = await begun();
    const status = await turns(place, "status", "finished", "--table");
    expect(status).toMatchObject({ code: 4, stdout: expect.stringContaining("A rewind to first, since ") });
    // Both name the database.
    expect(status.stdout).toMatch(
      /Or give the rewind up: turns \S.* rewind finished --abandon --yes\n {2}turns \S.* rewind finished --graph MODULE#EXPORT --yes/,
    );
    expect((await turns(place, "doctor")).stdout).toContain("turns rewind finished --abandon gives it up");
    for (const to of [[], ["--to", "first"]]) {
      const plan = await turns(place, "rewind", "finished", ...to, "--graph", compiledGraphs, "--dry-run", "--table");
      expect(plan).toMatchObject({ code: 0, stdout: expect.stringMatching(/to task first was begun at .* and isn't finished/) });
      expect(plan.stdout).toContain("its undo is called");
    }
    const resumed = await turns(place, "resume", "finished", ...withGraph("graph"), "--yes");
    expect(resumed.code).toBe(4);
    const done = await turns(place, "rewind", "finished", "--graph", compiledGraphs, "--yes");
    expect({ code: done.code, ...JSON.parse(done.stdout) }).toMatchObject({
      code: 0,
      done: true,
      report: { toTask: "first", removed: { turns: 6 } },
    });
    expect(await stateOf(place)).toBe("finished");
    // It has undone an effect, which taking it back doesn't do again: that has to be meant.
    const { rewindId } = JSON.parse(done.stdout).report;
    const back = await turns(place, "take-back", rewindId, "--table");
    expect(back).toMatchObject({ code: 4, stdout: expect.stringContaining("The 1 effect that it undid stays undone.") });
    expect(back.stdout).toMatch(
      /Refused now: It undid effects\. To take it back without them: turns .*take-back \S+ --despite-undone --yes\n/,
    );
    const refused = await turns(place, "take-back", rewindId, "--yes");
    expect(refused).toMatchObject({ code: 4, stdout: "", stderr: expect.stringContaining("Here: add --despite-undone.") });
    const taken = await turns(place, "take-back", rewindId, "--despite-undone", "--yes", "--table");
    expect(taken).toMatchObject({ code: 0, stdout: expect.stringContaining(" The 1 effect that it undid stays undone. turns ") });
    const told = await turns(place, "status", "finished", "--table");
    expect(told.stdout).toContain("(1 of these was undone since)");
    const rewound = await turns(place, "rewind", "finished", "--to", "first", "--graph", compiledGraphs, "--yes", "--table");
    expect(rewound.stdout).toMatch(
      /\nWhat was undone stays undone\. Take it back: turns .*take-back \S+ --despite-undone --yes\n/,
    );
    expect(await turns(place, "rewind", "finished")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--to is missing"),
    });
  });

  test("S10.1 S3.5 if it was killed in the middle of an undo, status and refusals offer what a person can do", async () => {
    const place = await world();
    const rewind = ["rewind", "finished", "--to", "first", "--graph", compiledGraphs, "--yes", ...placed(place)];
    const killed = await told([process.execPath, program, ...rewind], { env: { UNDO_DIES: "1" } });
    expect(killed).toMatchObject({ code: null, stdout: "" });
    const refused = await turns(place, "rewind", "finished", "--graph", compiledGraphs, "--yes");
    expect(refused).toMatchObject({ code: 4, stderr: expect.stringMatching(/effects --in-doubt lists it, with the commands /) });
    expect(refused.stderr).not.toContain("done or not-done");
    // Nobody can give it up either.
    expect((await turns(place, "rewind", "finished", "--abandon", "--yes")).code).toBe(4);
    const status = await turns(place, "status", "finished", "--table");
    expect(status).toMatchObject({
      code: 4,
      stdout: expect.stringContaining('nobody knows whether the undo of effect "cli-charge" ran'),
    });
    const { stdout: doctor } = await turns(place, "doctor");
    expect(doctor).toContain("begun and isn't finished");
    expect(status.stdout + doctor).not.toContain("--abandon");
    const id = / settle the undo first: turns \S.* effect resolve (\S+) undo-done\n/.exec(status.stdout)?.[1] ?? "";
    expect((await turns(place, "effect", "resolve", id, "undo-not-done", "--yes")).code).toBe(0);
    expect((await turns(place, "status", "finished", "--table")).stdout).toContain("Or give the rewind up: ");
    expect((await turns(place, "rewind", "finished", "--graph", compiledGraphs, "--yes")).code).toBe(0);
  });

  test("S10.1 S3.5 Ctrl-C ends it behind the undo that is running, and leaves none in doubt", async () => {
    const place = await world();
    const rewind = ["rewind", "finished", "--to", "first", "--graph", compiledGraphs, "--yes", ...placed(place)];
    const child = spawn(process.execPath, [program, ...rewind], { env: { ...process.env, NODE_OPTIONS: "", UNDO_TELLS: "1" } });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
      if (text.includes("undoing")) child.kill("SIGINT");
    });
    const [code] = (await once(child, "close")) as [number | null];
    expect({ code, stderr }).toEqual({
      code: 130,
      stderr: expect.stringMatching(/undoing\n.* behind the running undo\. .*\nundone\n$/),
    });
    expect(JSON.parse((await turns(place, "effects", "--in-doubt")).stdout)).toMatchObject({ effects: [] });
    expect(await stateOf(place)).toBe("rewinding");
    const again = await told([process.execPath, program, ...rewind], { env: { UNDO_TELLS: "1" } });
    expect(again).toMatchObject({ code: 0, stderr: "" });
    expect(await stateOf(place)).toBe("finished");
  });

  test("S10.2 S3.5 Ctrl-C ends the page behind the undo that was started from it, and leaves none in doubt", async () => {
    const place = await world();
    const web = ["web", "--write", ...withGraph("graph"), ...placed(place)];
    const child = spawn(process.execPath, [program, ...web], { env: { ...process.env, NODE_OPTIONS: "", UNDO_TELLS: "1" } });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
      if (text.includes("undoing")) child.kill("SIGINT");
    });
    const [link] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string];
    const { origin } = new URL(link.trim());
    const { headers } = await fetch(link.trim(), { redirect: "manual" });
    const cookie = headers.get("set-cookie")?.split(";")[0] ?? "";
    // The page is gone before it has the answer.
    fetch(`${origin}/api/threads/finished/rewind`, {
      method: "POST",
      headers: { cookie, origin, "content-type": "application/json" },
      body: JSON.stringify({ confirm: "finished", toTask: "first" }),
    }).catch(() => undefined);
    const [code] = (await once(child, "close")) as [number | null];
    expect({ code, stderr }).toEqual({
      code: 130,
      stderr: expect.stringMatching(/undoing\n.* behind what is running.*\nundone\n$/s),
    });
    expect(JSON.parse((await turns(place, "effects", "--in-doubt")).stdout)).toMatchObject({ effects: [] });
    expect(await stateOf(place)).toBe("finished");
  });

  test("S10.1 of a rewind to a place within a task, the plan tells what finishing it removes", async () => {
    const place = await world();
    const saver = openSaver(place);
    const { checkpoints } = JSON.parse((await turns(place, "log", "finished", "--graph")).stdout) as Branches;
    const { checkpointId = "" } = checkpoints.find(({ nodes }) => nodes.includes("plan")) ?? {};
    const undo = defineEffect("cli-charge", { run: () => undefined, undo: () => Promise.reject(new Error("closed")) });
    const rewind = saver.rewinds.toCheckpoint({ threadId: "finished", checkpointId, reason: "by hand" }, [undo]);
    await expect(rewind).rejects.toMatchObject({ code: "UNDO_FAILED" });
    await (saver.close() as unknown);
    const effects = JSON.parse((await turns(place, "effects", "finished")).stdout).effects as EffectLine[];
    const { id = "" } = effects.find(({ undoStatus }) => undoStatus === "failed") ?? {};
    expect((await turns(place, "effect", "resolve", id, "undo-done", "--yes")).code).toBe(0);
    const { plan } = JSON.parse((await turns(place, "rewind", "finished")).stdout);
    const { report } = JSON.parse((await turns(place, "rewind", "finished", "--yes")).stdout);
    expect(plan).toMatchObject({ tasks: ["second"], removed: report.removed });
    expect(report.tasks).toEqual(plan.tasks);
  });

  test("S10.1 --abandon gives it up, after a plan: nothing is removed", async () => {
    const place = await begun();
    const { plan } = await abandon(place, [], 4);
    expect(plan).toMatchObject({ threadId: "finished", toTask: "first" });
    expect(await stateOf(place)).toBe("rewinding");
    expect(await abandon(place, ["--yes"], 0)).toMatchObject({ done: true, report: { rewindId: plan.rewindId } });
    // Its undo has failed, which stops no resume. A rewind calls it again, or a person settles it.
    const status = await turns(place, "status", "finished", "--table");
    expect(status).toMatchObject({ code: 0, stdout: expect.stringContaining("The undo of cli-charge failed") });
    expect(await stateOf(place)).toBe("finished");
    const listed = await turns(place, "effects", "--table");
    expect(listed.stdout).toMatch(/ undo failed /);
    const id = /resolve (\S+) undo-done/.exec(listed.stdout)?.[1] ?? "";
    expect((await turns(place, "effect", "resolve", id, "undo-not-done", "--yes")).code).toBe(0);
    expect(await turns(place, "effects", "--table")).toMatchObject({ stdout: expect.stringContaining("No effect is in doubt.") });
    expect(JSON.parse((await turns(place, "log", "finished")).stdout).attempts.length).toBe(6);
    expect(await turns(place, "rewind", "finished", "--abandon")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("has no unfinished rewind"),
    });
  });

  async function abandon(place: string, args: readonly string[], code: number): Promise<any> {
    const { stdout, stderr, code: exit } = await turns(place, "rewind", "--abandon", "finished", ...args);
    expect({ exit, stderr }).toEqual({ exit: code, stderr: "" });
    expect(SHAPES["rewind --abandon"].safeParse(JSON.parse(stdout)).error).toBeUndefined();
    return JSON.parse(stdout);
  }
});

/** Runs a program until it has told such a line, then presses Ctrl-C. */
async function untilLine(
  [command = "", ...args]: readonly string[],
  isIt: (line: string) => boolean,
): Promise<{ code: number | null; lines: string[]; stderr: string }> {
  const child = spawn(command, args, { cwd: ROOT, env: { ...process.env, NODE_OPTIONS: "" } });
  let [stdout, stderr] = ["", ""];
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    if (stdout.split("\n").some(isIt)) child.kill("SIGINT");
  });
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, lines: stdout.split("\n").filter(Boolean), stderr };
}

describe("turns tail", () => {
  test("S10.1 tells everything since the start in lines of JSON, and a cursor continues behind the last one", async () => {
    const place = await world();
    const isLast = (line: string): boolean => line.includes('"waiting"') && line.includes("interrupted");
    const tail = ["tail", "--since", "start", "--cursors", ...placed(place)];
    const { code, lines, stderr } = await untilLine([process.execPath, quick, ...tail], isLast);
    expect(code).toBe(130);
    const changes = lines.map((line) => JSON.parse(line));
    for (const change of changes) expect(RUNNING_SHAPES.tail.safeParse(change).error).toBeUndefined();
    expect(new Set(changes.map(({ kind }) => kind))).toEqual(new Set(["turn", "checkpoint", "effect"]));
    expect(changes.filter(({ kind, threadId }) => kind === "turn" && threadId === "finished").length).toBe(12);
    expect(stderr).toContain(`turns: continue with --since ${changes.at(-1).cursor}`);
    const saver = openSaver(place);
    const follower = untilLine([process.execPath, quick, "tail", "--since", changes.at(-1).cursor, ...placed(place)], (line) =>
      line.includes("deleted"),
    );
    await saver.deleteThread("finished");
    await (saver.close() as unknown);
    expect((await follower).lines.map((line) => JSON.parse(line))).toMatchObject([{ kind: "deleted", threadId: "finished" }]);
  });

  testOfFiles("S10.1 a closed pipe ends it silently; a file that is deleted or replaced ends it with a word", async () => {
    const place = await world();
    const line = `${process.execPath} ${quick} tail --since start ${placed(place).join(" ")} | head -n 2`;
    const piped = spawn("bash", ["-c", line], { env: { ...process.env, NODE_OPTIONS: "" } });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      piped[name].setEncoding("utf8").on("data", (text: string) => (said[name] += text));
    let isOver = false;
    const over = once(piped, "close").then(() => (isOver = true));
    // What follows a file notices with the next change that its reader is gone.
    const saver = openSaver(place);
    for (let n = 0; !isOver; n += 1) {
      await Promise.race([over, sleep(200)]);
      if (said.stdout.trim().split("\n").length >= 2) await saver.copyThread("finished", `copy-${n}`);
    }
    await (saver.close() as unknown);
    expect({ stderr: said.stderr, lines: said.stdout.trim().split("\n").length }).toEqual({ stderr: "", lines: 2 });
    for (const [how, change] of [
      ["was deleted", () => rmSync(place)],
      ["was replaced by another one", () => renameSync(`${place}.new`, place)],
    ] as const) {
      await turns(place, "backup", `${place}.new`);
      const child = spawn(process.execPath, [quick, "tail", "--since", "start", ...placed(place)], {
        env: { ...process.env, NODE_OPTIONS: "" },
      });
      let stderr = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
      await new Promise((resolve) => child.stdout.once("data", resolve));
      child.stdout.resume();
      change();
      const code = await new Promise((resolve) => child.on("close", resolve));
      expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(how) });
      if (how === "was deleted") renameSync(`${place}.new`, place);
    }
  });
});

describe("a reader that is slow", () => {
  testOfFiles("S10.1 tail waits for it, and the cursor that it tells is that of the last line", async () => {
    const place = await world();
    const saver = openSaver(place);
    for (let n = 0; n < 150; n += 1) await saver.copyThread("finished", `copy-${n}`);
    await (saver.close() as unknown);
    const child = spawn(process.execPath, [quick, "tail", "--since", "start", "--cursors", ...placed(place)], {
      env: { ...process.env, NODE_OPTIONS: "" },
    });
    const [stdout, stderr]: [string[], string[]] = [[], []];
    child.stderr.setEncoding("utf8").on("data", (text: string) => void stderr.push(text));
    await new Promise((resolve) => child.stdout.once("readable", resolve));
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    child.kill("SIGINT");
    await new Promise((resolve) => child.stderr.once("data", resolve));
    child.stdout.setEncoding("utf8").on("data", (text: string) => void stdout.push(text));
    await new Promise((resolve) => child.on("close", resolve));
    const lines = stdout.join("").trim().split("\n");
    expect(lines.length).toBeLessThan(2_000);
    expect(stderr.join("")).toContain(`continue with --since ${JSON.parse(lines.at(-1) ?? "").cursor}`);
  });
});

describe("turns log --graph", () => {
  test("S10.1 lists checkpoints with their parents, nodes, names and rewinds", async () => {
    const place = await world();
    const found = await json(place, "log --graph", ["finished"]);
    expect(
      found.checkpoints.map(({ nodes, taskId }: { nodes: string[]; taskId: string }) => `${taskId} ${nodes.join()}`),
    ).toEqual([
      ...["second ask", "second charge", "second plan", "second ", "second "],
      ...["first ask", "first charge", "first plan", "first ", "first "],
    ]);
    expect(found.checkpoints[0].parentId).toBe(found.checkpoints[1].checkpointId);
    expect((await turns(place, "rewind", "finished", "--to", "first", "--allow-uncompensated", "--yes")).code).toBe(0);
    const after = await json(place, "log --graph", ["finished", "--limit", "3"]);
    expect(after).toMatchObject({ rewinds: [{ toTask: "first", takenBack: false }], cursor: after.checkpoints[2].number });
    const rest = await json(place, "log --graph", ["finished", "--cursor", String(after.cursor)]);
    expect(rest).toMatchObject({ rewinds: [], cursor: null });
    expect(rest.checkpoints.length).toBe(2);
    expect(await turns(place, "log", "finished", "--graph", "--failed")).toMatchObject({ code: 2 });
    const short = (await turns(place, "log", "killed", "--oneline", "--table")).stderr;
    expect(short).toContain("There is no thread");
    expect((await turns(place, "log", "failed", "--oneline", "--table")).stdout).toMatch(
      /^#\d+ charge error \(only\)\n#\d+ plan ok \(only\)\n$/,
    );
  });

  test("S10.1 draws forks, and forks of forks, in lanes that join where they began", () => {
    const point = (checkpointId: string, parentId: string | null, number: number) => ({
      ...{ checkpointId, parentId, number, step: 0, source: "loop", at: "2026-01-01T00:00:00.000Z" },
      ...{ taskId: "t", nodes: [checkpointId], names: [], parentGone: parentId === "gone" },
    });
    const look = { width: 14, paint: (_: string, text: string) => text, now: Date.parse("2026-01-01T00:00:00.500Z"), utc: true };
    const lines = (of: Branches): string[] =>
      drawn(of, look)
        .split("\n")
        .map((line) => line.replace(/ +(#\S+ \S+).*/, " $1"));
    const branches: Branches = {
      threadId: "t",
      checkpoints: [
        point("f", "b", 6),
        point("e", "c", 5),
        point("d", "c", 4),
        point("c", "a", 3),
        point("b", "a", 2),
        point("a", null, 1),
      ],
      rewinds: [{ number: 2.5, id: "r", toTask: "x", at: "2026-01-01T00:00:00.000Z", takenBack: false }],
      cursor: null,
    };
    expect(lines(branches)).toEqual([
      "* #6 f",
      "| * #5 e",
      "| | * #4 d",
      "| |/",
      "| * #3 c",
      "| | #2.5 rewo…",
      "* | #2 b",
      "|/",
      "* #1 a",
    ]);
    // What was made from a checkpoint that was pruned is no branch beside what came before.
    const pruned = [point("d", "gone", 6), point("c", "gone", 5), point("b", "a", 3), point("a", null, 2)];
    expect(lines({ ...branches, checkpoints: pruned, rewinds: [] })).toEqual([
      ...["* #6 d", "| * #5 c", "|/", ": what came b…", "* #3 b", "* #2 a"],
    ]);
  });
});
