import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import { PACK_LIMIT_MS, packed } from "./packed";

/**
 * The package as its users get it: built and packed from a copy of the repository, unpacked into empty projects that see nothing
 * but it and the dependencies it declares (links to the ones installed here, so no network and no native compile).
 */
const root = path.resolve(__dirname, "..", "..");
const manifest = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
const declared = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.peerDependencies });

const work = mkdtempSync(path.join(tmpdir(), "turns-package-"));
let stage = "";
let tarball = "";
let files: string[] = [];

function run(cwd: string, command: string, args: string[]): string {
  try {
    const env = { ...process.env, NODE_OPTIONS: "", NODE_PATH: "", FORCE_COLOR: "0" };
    return execFileSync(command, args, { cwd, env, encoding: "utf8", stdio: "pipe", maxBuffer: 64 << 20 });
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(" ")} failed\n${stdout ?? ""}\n${stderr ?? ""}`, { cause: error });
  }
}
const node = (cwd: string, ...args: string[]) => run(cwd, process.execPath, args);
const bin = (name: string) => path.join(root, "node_modules", ".bin", name);

/** An empty project with the unpacked tarball and links to what it declares, and to `extra`, and not to `without`. */
function project(name: string, type: "module" | "commonjs", extra: string[] = [], without = ""): string {
  const folder = path.join(work, name);
  const modules = path.join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  writeFileSync(path.join(folder, "package.json"), JSON.stringify({ name, private: true, type }));
  run(modules, "tar", ["-xzf", tarball]);
  cpSync(path.join(modules, "package"), path.join(modules, manifest.name), { recursive: true });
  rmSync(path.join(modules, "package"), { recursive: true });
  for (const dependency of [...declared, ...extra].filter((each) => each !== without)) {
    mkdirSync(path.dirname(path.join(modules, dependency)), { recursive: true });
    symlinkSync(path.join(root, "node_modules", dependency), path.join(modules, dependency), "dir");
  }
  return folder;
}

/** One graph, one node: run it, close the file, read the state again from the file. Valid as JavaScript and as strict TypeScript. */
const program = (typeArgument = "") => `
const State = Annotation.Root({ count: Annotation${typeArgument} });
const builder = new StateGraph(State)
  .addNode("increment", (state) => ({ count: state.count + 1 }))
  .addEdge(START, "increment")
  .addEdge("increment", END);
const config = { configurable: { thread_id: "thread-1" } };

async function main() {
  const saver = TurnSaver.fromPath("agent.db");
  const output = await builder.compile({ checkpointer: saver }).invoke({ count: 1 }, config);
  saver.close();

  const reopened = TurnSaver.fromPath("agent.db");
  const state = await builder.compile({ checkpointer: reopened }).getState(config);
  reopened.close();
  console.log(JSON.stringify({ output, values: state.values, next: state.next }));
}
main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
`;
const imports = `
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { TurnSaver } from "langgraph-checkpoint-turns";
`;
const requires = `
const { Annotation, END, START, StateGraph } = require("@langchain/langgraph");
const { TurnSaver } = require("langgraph-checkpoint-turns");
`;
const typeUses = `
import { CheckpointPersister, GraphRunner, TurnsError } from "langgraph-checkpoint-turns";
export type Persister = InstanceType<typeof CheckpointPersister>;
export type Runner = InstanceType<typeof GraphRunner>;
import { crashMatrix, type GraphModule, type GraphWorld, type Ledger } from "langgraph-checkpoint-turns/testing";
export const ledgerOf = (world: GraphWorld<{ size: number }>): Ledger => world.ledger;
export const input: GraphModule["input"] = { count: 1 };
export const tortured = async (): Promise<boolean> => (await crashMatrix("graph.js", { sample: 3 })).ok;
export const isOurs = (error: unknown): boolean => error instanceof TurnsError;
import { TurnSaver as Target } from "langgraph-checkpoint-turns";
import { importOfficial, type ImportedThread, type ImportReport } from "langgraph-checkpoint-turns/import";
import { salvage, type SalvageReport, vacuum, type VacuumReport } from "langgraph-checkpoint-turns/maintenance";
import { CheckpointFile, type Progress } from "langgraph-checkpoint-turns/checkpoint-file";
import type { Page, Turn } from "langgraph-checkpoint-turns";
export const shrunk = (saver: Target): Promise<VacuumReport> => vacuum(saver, { full: true });
export const progress = (saver: Target): Promise<Progress> => CheckpointFile.fromThread(saver, "thread");
export const turns = async (saver: Target): Promise<Turn[]> => {
  const page: Page<Turn> = await saver.turns.list("thread", { limit: 10 });
  return [...page, ...(await saver.turns.list("thread", { after: page.cursor }))];
};
export const imported = (saver: Target): Promise<ImportReport> => importOfficial(saver, "old.db");
export const outcomeOf = ({ outcome }: ImportedThread): string => outcome;
export const rescued = (): Promise<SalvageReport> => salvage("damaged.db", "rescued.db");
`;
/** A graph for langgraph-checkpoint-turns/testing, and what tortures it, in either kind of module. */
const graphModule = `
const State = Annotation.Root({ receipt: Annotation });
const graph = ({ saver, ledger }) => {
  if (!(saver instanceof TurnSaver)) throw new Error("the saver is of another copy of the package");
  const pay = async () => ({
    receipt: await effect("charge", (key) => (ledger.append("charged", key), "paid"), {
      probe: (key) => (ledger.count("charged", key) > 0 ? "paid" : undefined),
    }),
  });
  return new GraphRunner(new StateGraph(State).addNode("pay", pay).addEdge(START, "pay").compile({ checkpointer: saver }));
};
const input = {};
`;
const torture = (module: string) => `
async function main() {
  const killed = await runUntilKilled("${module}", "effect-body.after");
  const resumed = await runInProcess("${module}", { path: killed.path });
  killed.remove();
  const report = await crashMatrix("${module}", { points: ["effect-outcome.within"] });
  console.log(JSON.stringify([killed.outcome, resumed.outcome, resumed.result, resumed.ledgerEntries.length, report.kills, report.ok]));
}
main();
`;
const tortureSaw = ["killed", "finished", { receipt: "paid" }, 1, 1, true];

const BUNDLERS = ["esbuild", "rollup", "webpack"] as const;
type Bundler = (typeof BUNDLERS)[number];
const BUNDLE = path.join(__dirname, "bundle.mjs");
/** A checkpointer by itself, and an attached graph with an effect; fingerprints, `verify` and CHECKPOINT.md are loaded on demand. */
const attachedProgram = `
import { existsSync } from "node:fs";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { effect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
const State = Annotation.Root({ count: Annotation });
const increment = async ({ count }) => ({ count: await effect("add", () => count + 1) });
const builder = new StateGraph(State).addNode("increment", increment).addEdge(START, "increment").addEdge("increment", END);

async function main() {
  const saver = TurnSaver.fromPath("agent.db");
  const checkpoint = { ...emptyCheckpoint(), channel_values: { kept: new Map([[1, 2n]]) }, channel_versions: { kept: 1 } };
  const config = await saver.put({ configurable: { thread_id: "plain", checkpoint_ns: "" } }, checkpoint, { source: "input", step: -1, parents: {} }, { kept: 1 });
  const kept = (await saver.getTuple(config)).checkpoint.channel_values.kept.get(1) === 2n;
  const runner = new GraphRunner(builder.compile({ checkpointer: saver }), { checkpointFile: "CHECKPOINT.md" });
  const output = await runner.invoke({ count: 1 }, { threadId: "t" });
  const { ok } = await saver.verify();
  const prints = new Set((await saver.turns.list("t")).map(({ fingerprint }) => fingerprint?.length));
  saver.close();
  console.log(JSON.stringify({ kept, output, ok, prints: [...prints], file: existsSync("CHECKPOINT.md") }));
}
main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
`;
const attachedExpected = { kept: true, output: { count: 2 }, ok: true, prints: [22], file: true };

/** What the compiler says of the program and of our declarations; those of LangChain do not pass every strict setting themselves. */
function typeErrors(folder: string): string[] {
  const tsc = spawnSync(process.execPath, [require.resolve("typescript/bin/tsc"), "--project", "."], {
    cwd: folder,
    encoding: "utf8",
  });
  return tsc.stdout
    .split("\n")
    .filter((line) => /\berror TS\d+:/.test(line) && !/^\s/.test(line))
    .filter((line) => line.startsWith(`node_modules/${manifest.name}/`) || !/^[^(:]*node_modules\//.test(line));
}
const expected = { output: { count: 2 }, values: { count: 2 }, next: [] };
const lastLineOf = (text: string): string => text.trim().split("\n").at(-1) ?? "";
const lastLine = (text: string) => JSON.parse(lastLineOf(text));

beforeAll(() => {
  ({ repository: stage, tarball } = packed());
  files = run(work, "tar", ["-tzf", tarball])
    .trim()
    .split("\n")
    .map((file) => file.replace(/^package\//, ""));
}, PACK_LIMIT_MS);

afterAll(() => rmSync(work, { recursive: true, force: true }));

describe("the migrations", () => {
  it("are embedded as they stand in migrations/sqlite (else: npm run migrations:embed)", () => {
    const generator = JSON.stringify(path.join(root, "scripts", "embed-migrations.mjs"));
    const script = `const { renderMigrations } = await import(${generator}); process.stdout.write(renderMigrations());`;
    const generated = node(root, "--input-type=module", "--eval", script);
    expect(readFileSync(path.join(root, "src", "store", "sqlite", "migrations.generated.ts"), "utf8")).toBe(generated);
  });

  it("survive the embedding letter by letter: backticks, ${}, backslashes, any order of reading", () => {
    const folder = mkdtempSync(path.join(work, "sql-"));
    const sql = "SELECT '`', '${x}', '\\n\\\\', '$', '\\${'; -- ünï\n";
    writeFileSync(path.join(folder, "0002_more.sql"), "SELECT 2;\r\nSELECT 3;\r\n");
    writeFileSync(path.join(folder, "0001_first.sql"), sql);
    const generator = JSON.stringify(path.join(root, "scripts", "embed-migrations.mjs"));
    const script = `
      const { readMigrations, renderMigrations } = await import(${generator});
      const text = renderMigrations(readMigrations(${JSON.stringify(folder)}));
      process.stdout.write(JSON.stringify(new Function(text.replace(/export const sqliteMigrations: .* = /, "return "))()));`;
    expect(JSON.parse(node(root, "--input-type=module", "--eval", script))).toEqual([
      { version: 1, name: "first", sql },
      { version: 2, name: "more", sql: "SELECT 2;\nSELECT 3;\n" },
    ]);
  });

  it.each([
    ["a gap in the numbers", ["0001_a.sql", "0003_c.sql"], "expected number 2; found 3"],
    ["a number used twice", ["0001_a.sql", "0001_b.sql"], "expected number 2; found 1"],
    ["a file without a number", ["first.sql"], "expected a name like 0001_what_it_does.sql"],
    ["none at all", [], "found none"],
  ])("are refused with %s", (_, names, message) => {
    const folder = mkdtempSync(path.join(work, "sql-"));
    for (const name of names) writeFileSync(path.join(folder, name), "SELECT 1;\n");
    const generator = JSON.stringify(path.join(root, "scripts", "embed-migrations.mjs"));
    const script = `const { readMigrations } = await import(${generator}); readMigrations(${JSON.stringify(folder)});`;
    expect(() => node(root, "--input-type=module", "--eval", script)).toThrow(message);
  });
});

describe("the tarball", () => {
  it("holds the build and the documents", () => {
    expect(files).toEqual(
      expect.arrayContaining([
        "package.json",
        "README.md",
        "LICENSE",
        ...["index", "checkpoint-file", "import", "maintenance", "postgres", "testing"].flatMap((entry) =>
          ["js", "cjs", "d.ts", "d.cts"].map((end) => `dist/${entry}.${end}`),
        ),
        ...["dist/testing-child.js", "dist/testing-child.cjs", "dist/cli.js"],
      ]),
    );
  });

  it("holds nothing else: no tests, no sources, no databases, no configuration", () => {
    const allowed =
      /^(dist\/[^/]+\.(js|cjs|d\.ts|d\.cts)|dist\/types\/[\w/-]+\.d\.c?ts|dist\/viewer\/[\w.-]+|docs\/.+|package\.json|[A-Z]+(\.md)?)$/;
    expect(files.filter((file) => !allowed.test(file))).toEqual([]);
  });

  it("has declarations under the names of their modules, and in them no name that a tool made", () => {
    const modules = files.filter((file) => file.startsWith("dist/types/"));
    expect(modules.length).toBeGreaterThan(0);
    const sources = modules.map((file) => file.replace("dist/types/", "src/").replace(/\.d\.c?ts$/, ".ts"));
    expect(sources.filter((file) => !existsSync(path.join(root, file)))).toEqual([]);
    const telling = files.filter(
      (file) => /\.d\.c?ts$/.test(file) && /\b[A-Za-z]\w*(_\d+|\$\d+)\b/.test(readFileSync(path.join(stage, file), "utf8")),
    );
    expect(telling).toEqual([]);
  });

  it("S8.1 has the public face that etc/ says (else: npm run api)", () => {
    expect(run(stage, "npm", ["run", "--silent", "api", "--", "--check"])).toBe("");
  });

  it("S8.8 unpacks to at most 2.5 MB", () => {
    const bytes = files
      .filter((file) => !file.endsWith("/"))
      .reduce((sum, file) => sum + statSync(path.join(stage, file)).size, 0);
    expect(bytes).toBeLessThanOrEqual(2_500_000);
  });

  it("names every file that package.json exports, and no source maps, which would be a tenth of it", () => {
    const targets = JSON.stringify(manifest.exports).match(/"\.\/[^"*]+\.(?:js|cjs|ts|cts|json)"/g) ?? [];
    expect(files).toEqual(expect.arrayContaining(targets.map((target) => JSON.parse(target).slice(2))));
    expect(files.filter((file) => file.endsWith(".map"))).toEqual([]);
    const maps = readdirSync(path.join(stage, "dist")).filter((file) => file.endsWith(".map"));
    expect(maps.length).toBeGreaterThan(5);
    for (const map of maps.map((file) => path.join("dist", file))) {
      const { sources, sourcesContent } = JSON.parse(readFileSync(path.join(stage, map), "utf8"));
      expect(sources.filter((source: string) => !source.startsWith("../src/"))).toEqual([]);
      // The sources themselves would be half of the package.
      expect((sourcesContent ?? []).filter((source: unknown) => source !== null)).toEqual([]);
    }
  });

  it("names no folder of the machine it was built on", () => {
    const places = [root, work, homedir()].filter((place) => place.split(path.sep).length > 2);
    const telling = files.filter((file) => places.some((place) => readFileSync(path.join(stage, file), "utf8").includes(place)));
    expect(telling).toEqual([]);
  });

  it("is flawless to publint", () => {
    expect(run(stage, bin("publint"), ["run", tarball, "--strict"])).toContain("All good!");
  });

  it("has types that are not wrong, for every entry and way of resolving (subpaths: Node 12 and later)", () => {
    // Through a file: it exits before a pipe has taken all of it.
    const told = path.join(work, "attw.json");
    run(stage, "sh", ["-c", `"$1" "$2" --format json > "$3" || true`, "sh", bin("attw"), tarball, told]);
    const report = JSON.parse(readFileSync(told, "utf8"));
    expect(report.analysis.types.kind).toBe("included");
    const problems = Object.values<any>(report.problems ?? {}).flat();
    expect(problems.filter((problem) => !(problem.resolutionKind === "node10" && problem.entrypoint !== "."))).toEqual([]);
  });
});

describe("an empty project with only what the package declares", () => {
  it("runs a graph as an ES module", () => {
    const folder = project("esm", "module");
    writeFileSync(path.join(folder, "main.js"), imports + program());
    expect(lastLine(node(folder, "main.js"))).toEqual(expected);
  });

  // `node --eval` makes `__filename` and `__dirname` global, with no path in them: ES modules see them, too.
  it("runs a graph as an ES module that a text on the command line loads", () => {
    const folder = project("esm-eval", "module");
    writeFileSync(path.join(folder, "main.js"), imports + program());
    expect(lastLine(node(folder, "--eval", 'import("./main.js")'))).toEqual(expected);
  });

  it("S10.1 has the program turns, which looks into what a graph saved", () => {
    const folder = project("program", "module");
    const turns = path.join("node_modules", manifest.name, manifest.bin.turns);
    expect(node(folder, turns, "--version").trim()).toBe(manifest.version);
    writeFileSync(path.join(folder, "main.js"), imports + program());
    node(folder, "main.js");
    expect(JSON.parse(node(folder, turns, "threads"))).toMatchObject({
      format: 1,
      total: 1,
      threads: [{ threadId: "thread-1" }],
    });
  });

  it("runs a graph as CommonJS", () => {
    const folder = project("cjs", "commonjs");
    writeFileSync(path.join(folder, "main.js"), requires + program());
    expect(lastLine(node(folder, "main.js"))).toEqual(expected);
  });

  it("reads with ESM what CommonJS wrote: both builds speak the same file", () => {
    const folder = project("both", "module");
    writeFileSync(path.join(folder, "write.cjs"), requires + program());
    const read = `const reader = TurnSaver.fromPath("agent.db");
      const tuple = await reader.getTuple({ configurable: { thread_id: "thread-1" } });
      reader.close();
      console.log(JSON.stringify(tuple.checkpoint.channel_values.count));`;
    writeFileSync(path.join(folder, "read.js"), `import { TurnSaver } from "langgraph-checkpoint-turns";\n${read}`);
    node(folder, "write.cjs");
    expect(lastLine(node(folder, "read.js"))).toBe(2);
  });

  it("tortures a graph of its own with /testing, as an ES module that a text on the command line loads", () => {
    const folder = project("testing-esm", "module");
    const from = `import { Annotation, START, StateGraph } from "@langchain/langgraph";
      import { effect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";`;
    writeFileSync(path.join(folder, "graph.js"), `${from}${graphModule}export { graph, input };`);
    const tools = `import { crashMatrix, runInProcess, runUntilKilled } from "langgraph-checkpoint-turns/testing";`;
    writeFileSync(path.join(folder, "main.js"), tools + torture("graph.js"));
    expect(lastLine(node(folder, "--eval", 'import("./main.js")'))).toEqual(tortureSaw);
  }, 300_000);

  it("tortures a graph of its own with /testing, as CommonJS, from another working folder", () => {
    const folder = project("testing-cjs", "commonjs");
    const from = `const { Annotation, START, StateGraph } = require("@langchain/langgraph");
      const { effect, GraphRunner, TurnSaver } = require("langgraph-checkpoint-turns");`;
    writeFileSync(path.join(folder, "graph.js"), `${from}${graphModule}module.exports = { graph, input };`);
    const tools = `const { crashMatrix, runInProcess, runUntilKilled } = require("langgraph-checkpoint-turns/testing");`;
    writeFileSync(path.join(folder, "main.js"), tools + torture(path.join(folder, "graph.js")));
    expect(lastLine(node(work, path.join(folder, "main.js")))).toEqual(tortureSaw);
  }, 300_000);

  it("has one registry of failpoints, no matter which build /testing and the root are taken from", () => {
    const folder = project("failpoints", "module");
    const main = `
import { createRequire } from "node:module";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
const require = createRequire(import.meta.url);
const name = "langgraph-checkpoint-turns";
const roots = [await import(name), require(name)];
const tools = [await import(name + "/testing"), require(name + "/testing")];
const seen = [];
for (const { TurnSaver, TurnsError } of roots) for (const { FAILPOINTS, setFailpointHandler, withFailpoint } of tools) {
  const saver = TurnSaver.fromPath(":memory:", { onTurnError: "throw" });
  const graph = new StateGraph(Annotation.Root({ a: Annotation })).addNode("n", () => ({ a: 1 })).addEdge(START, "n");
  const compiled = saver.attach(graph.compile({ checkpointer: saver }));
  const run = () => compiled.invoke({ a: 0 }, { configurable: { thread_id: "t" } });
  const error = await withFailpoint("thought.within", { do: "throw" }, run).catch((thrown) => thrown);
  const left = setFailpointHandler(undefined);
  seen.push([TurnsError.is(error, "FAILPOINT_REACHED"), error.data?.node, left === undefined, FAILPOINTS.length > 40]);
  saver.close();
}
console.log(JSON.stringify(seen));
`;
    writeFileSync(path.join(folder, "main.js"), main);
    expect(lastLine(node(folder, "main.js"))).toEqual(Array(4).fill([true, "n", true, true]));
  });

  const OFFICIAL = "@langchain/langgraph-checkpoint-sqlite";

  it("imports an official file with its times, verifies, rotates and salvages, no matter which builds the entries are taken from", () => {
    const folder = project("entries", "module", [OFFICIAL]);
    const main = `
import { createRequire } from "node:module";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { SqliteSaver } from "${OFFICIAL}";
const require = createRequire(import.meta.url);
const name = "langgraph-checkpoint-turns";
const builds = async (entry) => [await import(entry), require(entry)];
const official = SqliteSaver.fromConnString("old.db");
const checkpoint = { ...emptyCheckpoint(), ts: "2020-02-02T02:02:02.000Z" };
await official.put({ configurable: { thread_id: "t", checkpoint_ns: "" } }, checkpoint, { source: "input", step: -1, parents: {} });
official.db.close();
const seen = [];
let n = 0;
for (const { TurnSaver, TurnsError } of await builds(name)) for (const { importOfficial } of await builds(name + "/import")) {
  for (const { rotateKeys, salvage } of await builds(name + "/maintenance")) {
    n += 1;
    const saver = TurnSaver.fromPath(n + ".db", { encryption: { key: "0123456789abcdef".repeat(4) } });
    const { threads } = await importOfficial(saver, "old.db");
    const [thread] = await saver.listThreads();
    const verified = await saver.verify();
    const { retired } = await rotateKeys(saver);
    saver.close();
    const rescued = await salvage(n + ".db", n + "-rescued.db", { encryption: { key: "0123456789abcdef".repeat(4) } });
    const error = await importOfficial(undefined, "old.db").catch((thrown) => thrown);
    seen.push([threads[0].outcome, thread.createdAt, verified.ok, retired, rescued.ok, TurnsError.is(error, "INVALID_OPTION")]);
  }
}
console.log(JSON.stringify(seen));
`;
    writeFileSync(path.join(folder, "main.js"), main);
    expect(lastLine(node(folder, "main.js"))).toEqual(
      Array(8).fill(["imported", "2020-02-02T02:02:02.000Z", true, 0, true, true]),
    );
  }, 300_000);

  it("loads every entry as an ES module and as CommonJS, alone", () => {
    const folder = project("alone", "module");
    const names = Object.keys(manifest.exports).filter((entry) => entry !== "./package.json");
    for (const entry of names.map((each) => manifest.name + each.slice(1))) {
      writeFileSync(path.join(folder, "main.mjs"), `console.log(Object.keys(await import("${entry}")).sort().join());`);
      writeFileSync(path.join(folder, "main.cjs"), `console.log(Object.keys(require("${entry}")).sort().join());`);
      const [esm, cjs] = ["main.mjs", "main.cjs"].map((file) => node(folder, file).trim());
      expect(esm).not.toBe("");
      expect(cjs).toBe(esm);
    }
  });

  it("finds nothing of /import and /maintenance in what the root loads", () => {
    const dist = path.join(stage, "dist");
    const loaded = new Set<string>();
    const load = (file: string): void => {
      if (loaded.has(file)) return;
      loaded.add(file);
      const code = readFileSync(path.join(dist, file), "utf8");
      const now = /(?:\b(?:import|export)\b[^;()]*?|=\s*require\()["']\.\/([^"']+)["']/g;
      for (const [, next] of code.matchAll(now)) load(next!);
    };
    for (const entry of ["index.js", "index.cjs"]) load(entry);
    const mapOf = (file: string) => path.join(dist, `${file.replace(/\.cjs$/, ".js")}.map`);
    const sources = [...loaded].flatMap((file) => JSON.parse(readFileSync(mapOf(file), "utf8")).sources);
    expect(sources.filter((source) => source === "../src/saver.ts")).toHaveLength(2);
    const others = /^\.\.\/src\/(import|maintenance|store\/sqlite\/(official-file|salvage))\b/;
    expect(sources.filter((source: string) => others.test(source))).toEqual([]);
    // Verification is loaded when it's asked for.
    expect(sources.filter((source: string) => source.endsWith("/verify-rows.ts"))).toEqual([]);
  });

  it("is one package for all entries: they share the classes of the root, in either format", () => {
    const folder = project("shared", "module");
    for (const [name, load] of [
      ["main.mjs", "await import"],
      ["main.cjs", "require"],
    ] as const) {
      const main = `const all = async () => {
        const { TurnsError } = ${load}("${manifest.name}");
        const { salvage } = ${load}("${manifest.name}/maintenance");
        const error = await salvage("none.db", "rescued.db").catch((thrown) => thrown);
        console.log(JSON.stringify(error instanceof TurnsError));
      };
      all();`;
      writeFileSync(path.join(folder, name), main);
      expect(lastLine(node(folder, name))).toBe(true);
    }
  });

  it("finds nothing of /testing in the root's bundle", () => {
    const bundles = ["index.js", "index.cjs"].map((name) => readFileSync(path.join(stage, "dist", name), "utf8"));
    for (const bundle of bundles) expect(bundle).not.toMatch(/crashMatrix|runUntilKilled|FakeClock|SIGKILL/);
    expect(readFileSync(path.join(stage, "dist", "testing.js"), "utf8")).toMatch(/SIGKILL/);
  });

  describe.each([
    ["an ES module", "module", imports],
    ["CommonJS", "commonjs", requires],
  ] as const)("and without better-sqlite3, as %s", (_, type, head) => {
    it("takes Node's own SQLite, or says that there is none", () => {
      const folder = project(`no-driver-${type}`, type, [], "better-sqlite3");
      writeFileSync(path.join(folder, "main.js"), head + program());
      const ran = (): unknown => lastLine(node(folder, "main.js"));
      if (process.getBuiltinModule?.("node:sqlite") !== undefined) expect(ran()).toEqual(expected);
      else expect(ran).toThrow(/better-sqlite3: Cannot find module 'better-sqlite3'; node:sqlite: Node \S+ has none/);
    });

    // Package managers that run no install scripts leave it so.
    it("or with one that has no binary, takes Node's own SQLite, or says what is missing", () => {
      const folder = project(`no-binary-${type}`, type, ["bindings", "file-uri-to-path"], "better-sqlite3");
      const [from, to] = [root, folder].map((place) => path.join(place, "node_modules", "better-sqlite3"));
      for (const part of ["package.json", "lib"]) cpSync(path.join(from!, part), path.join(to!, part), { recursive: true });
      writeFileSync(path.join(folder, "main.js"), head + program());
      const ran = (): unknown => lastLine(node(folder, "main.js"));
      if (process.getBuiltinModule?.("node:sqlite") !== undefined) expect(ran()).toEqual(expected);
      else expect(ran).toThrow(/better-sqlite3: Could not locate the bindings file; node:sqlite: .*npm rebuild better-sqlite3/);
    });

    // A bundler makes CommonJS of our ES modules, where import.meta is empty, and ES modules, where there is no __filename.
    it.each(["esm", "cjs"])("bundled to %s with the driver left outside it is found beside the bundle", (format) => {
      const folder = project(`bundled-${type}-${format}`, type);
      writeFileSync(path.join(folder, "main.js"), head + program());
      const external = ["@langchain/*", "@opentelemetry/*", "better-sqlite3", "markdown-it"].map((each) => `--external:${each}`);
      const out = `out.${format === "esm" ? "mjs" : "cjs"}`;
      const options = ["--bundle", "--platform=node", `--format=${format}`, `--outfile=${out}`, ...external];
      run(folder, bin("esbuild"), ["main.js", ...options]);
      rmSync(path.join(folder, "node_modules", manifest.name), { recursive: true });
      if (format === "esm" && type === "commonjs") {
        // What esbuild leaves out when it makes ES modules of CommonJS; such bundles are given it as a banner.
        const line =
          'import { createRequire } from "node:module"; import { fileURLToPath } from "node:url"; const __filename = fileURLToPath(import.meta.url);\n' +
          "const require = createRequire(import.meta.url);\n";
        writeFileSync(path.join(folder, out), line + readFileSync(path.join(folder, out), "utf8"));
      }
      expect(lastLine(node(folder, out))).toEqual(expected);
    });
  });

  // Both are optional, so a project may have neither, and bundle without naming them.
  describe.each(["esm", "cjs"] as const)("bundled to %s without OpenTelemetry's API and without better-sqlite3", (format) => {
    it("bundles, and runs with Node's own SQLite or says that there is no driver", () => {
      const folder = project(`optional-${format}`, "module", [], "better-sqlite3");
      rmSync(path.join(folder, "node_modules", "@opentelemetry"), { recursive: true });
      writeFileSync(path.join(folder, "main.js"), imports + program());
      const out = `out.${format === "esm" ? "mjs" : "cjs"}`;
      const told = run(folder, bin("esbuild"), [
        "main.js",
        "--bundle",
        "--platform=node",
        `--format=${format}`,
        `--outfile=${out}`,
        "--external:@langchain/*",
      ]);
      expect(told).not.toMatch(/error/i);
      rmSync(path.join(folder, "node_modules", manifest.name), { recursive: true });
      const ran = (): unknown => lastLine(node(folder, out));
      if (process.getBuiltinModule?.("node:sqlite") !== undefined) expect(ran()).toEqual(expected);
      else expect(ran).toThrow(/better-sqlite3: Cannot find module 'better-sqlite3'; node:sqlite: Node \S+ has none/);
    });

    it("runs with better-sqlite3 left outside the bundle and installed", () => {
      const folder = project(`optional-driver-${format}`, "module");
      rmSync(path.join(folder, "node_modules", "@opentelemetry"), { recursive: true });
      writeFileSync(path.join(folder, "main.js"), imports + program());
      const out = `out.${format === "esm" ? "mjs" : "cjs"}`;
      const external = ["--external:@langchain/*", "--external:better-sqlite3"];
      run(folder, bin("esbuild"), [
        "main.js",
        "--bundle",
        "--platform=node",
        `--format=${format}`,
        `--outfile=${out}`,
        ...external,
      ]);
      rmSync(path.join(folder, "node_modules", manifest.name), { recursive: true });
      expect(lastLine(node(folder, out))).toEqual(expected);
    });
  });

  describe.each(["esm", "cjs"] as const)("bundled to %s by each bundler", (format) => {
    const OPTIONAL = ["better-sqlite3", "@opentelemetry/api"];
    const bundled = (bundler: Bundler, name: string, isWithPeers: boolean) => {
      const folder = project(`${bundler}-${format}-${name}`, "module");
      const modules = path.join(folder, "node_modules");
      if (!isWithPeers) for (const peer of OPTIONAL) rmSync(path.join(modules, peer), { recursive: true });
      writeFileSync(path.join(folder, "main.js"), attachedProgram);
      const out = `out.${format === "esm" ? "mjs" : "cjs"}`;
      const told = JSON.parse(
        lastLineOf(node(root, BUNDLE, bundler, format, path.join(folder, "main.js"), path.join(folder, out))),
      );
      return { folder, modules, out, told };
    };

    // Each bundler makes each format once, and meets the optional peers once and misses them once.
    const beside = format === "esm" ? BUNDLERS.slice(0, 2) : BUNDLERS.slice(2);
    const alone = BUNDLERS.filter((bundler) => !beside.includes(bundler));

    it.each(beside)(
      "S8.8 %s tells no warning, and the bundle runs with better-sqlite3 beside it",
      (bundler) => {
        const { folder, modules, out, told } = bundled(bundler, "peers", true);
        expect(told).toEqual([]);
        for (const name of readdirSync(modules))
          if (name !== "better-sqlite3") rmSync(path.join(modules, name), { recursive: true });
        expect(lastLine(node(folder, out))).toEqual(attachedExpected);
      },
      300_000,
    );

    it.each(alone)(
      "S8.8 %s tells no warning without the optional peers; the bundle runs on node:sqlite, or says what is missing",
      (bundler) => {
        const { folder, modules, out, told } = bundled(bundler, "alone", false);
        expect(told).toEqual([]);
        rmSync(modules, { recursive: true });
        const ran = (): unknown => lastLine(node(folder, out));
        if (process.getBuiltinModule?.("node:sqlite") !== undefined) expect(ran()).toEqual(attachedExpected);
        else expect(ran).toThrow(/better-sqlite3: Cannot find module 'better-sqlite3'; node:sqlite: Node \S+ has none/);
      },
      300_000,
    );
  });

  it("S8.8 esbuild tells no warning when it makes CommonJS of a linked folder, which is outside node_modules", () => {
    const folder = project("linked", "module");
    const modules = path.join(folder, "node_modules");
    rmSync(path.join(modules, manifest.name), { recursive: true });
    symlinkSync(stage, path.join(modules, manifest.name), "dir");
    writeFileSync(path.join(folder, "main.js"), attachedProgram);
    const [main, out] = [path.join(folder, "main.js"), path.join(folder, "out.cjs")];
    expect(JSON.parse(lastLineOf(node(root, BUNDLE, "esbuild", "cjs", main, out)))).toEqual([]);
    expect(lastLine(node(folder, out))).toEqual(attachedExpected);
  });

  describe.each([
    ["nodenext as an ES module", "module", "nodenext", "nodenext"],
    ["nodenext as CommonJS", "commonjs", "nodenext", "nodenext"],
    ["node16 as CommonJS", "commonjs", "node16", "node16"],
    ["bundler", "module", "esnext", "bundler"],
  ] as const)("in strict TypeScript, %s", (title, type, module, moduleResolution) => {
    it("compiles the same program, finds no error in our declarations (skipLibCheck: false), and runs", () => {
      const folder = project(`ts-${title.replaceAll(" ", "-")}`, type, ["@types/node"]);
      const compilerOptions = {
        ...{ module, moduleResolution, target: "es2022", lib: ["es2022"], types: ["node"], outDir: "out", rootDir: "." },
        ...{ strict: true, skipLibCheck: false, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
      };
      writeFileSync(path.join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }));
      writeFileSync(path.join(folder, "main.ts"), imports + typeUses + program("<number>"));
      expect(typeErrors(folder)).toEqual([]);
      expect(existsSync(path.join(folder, "out", "main.js"))).toBe(true);
      expect(lastLine(node(folder, "out/main.js"))).toEqual(expected);
    }, 300_000);
  });
});
