import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";

/**
 * The package as its users get it: built and packed from a copy of the repository, unpacked into empty projects that see nothing
 * but it and the dependencies it declares (links to the ones installed here, so no network and no native compile).
 */
const root = path.resolve(__dirname, "..");
const manifest = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
const declared = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies });

const work = mkdtempSync(path.join(tmpdir(), "turns-package-"));
const stage = path.join(work, "repository");
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

/** An empty project with the unpacked tarball and links to what it declares, and to `extra`. */
function project(name: string, type: "module" | "commonjs", extra: string[] = []): string {
  const folder = path.join(work, name);
  const modules = path.join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  writeFileSync(path.join(folder, "package.json"), JSON.stringify({ name, private: true, type }));
  run(modules, "tar", ["-xzf", tarball]);
  cpSync(path.join(modules, "package"), path.join(modules, manifest.name), { recursive: true });
  rmSync(path.join(modules, "package"), { recursive: true });
  for (const dependency of [...declared, ...extra]) {
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
export const isOurs = (error: unknown): boolean => error instanceof TurnsError;
`;
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
const lastLine = (text: string) => JSON.parse(text.trim().split("\n").at(-1) ?? "");

beforeAll(() => {
  mkdirSync(stage);
  for (const entry of readdirSync(root)) {
    if (["node_modules", ".git", "dist", "coverage", ".tmp"].includes(entry)) continue;
    cpSync(path.join(root, entry), path.join(stage, entry), { recursive: true });
  }
  symlinkSync(path.join(root, "node_modules"), path.join(stage, "node_modules"), "dir");
  run(stage, "npm", ["run", "build"]);
  run(stage, "npm", ["pack", "--ignore-scripts", "--offline", "--pack-destination", work]);
  tarball = path.join(work, `${manifest.name}-${manifest.version}.tgz`);
  files = run(work, "tar", ["-tzf", tarball])
    .trim()
    .split("\n")
    .map((file) => file.replace(/^package\//, ""));
}, 180_000);

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
  it("holds the build, the migrations and the documents", () => {
    expect(files).toEqual(
      expect.arrayContaining([
        "package.json",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        ...["index.js", "index.js.map", "index.cjs", "index.cjs.map", "index.d.ts", "index.d.cts"].map((name) => `dist/${name}`),
        ...readdirSync(path.join(root, "migrations", "sqlite")).map((name) => `migrations/sqlite/${name}`),
      ]),
    );
  });

  it("holds nothing else: no tests, no sources, no databases, no configuration", () => {
    const allowed =
      /^(dist\/[^/]+\.(js|cjs|d\.ts|d\.cts)(\.map)?|migrations\/\w+\/\d{4}_\w+\.sql|docs\/.+|package\.json|[A-Z]+(\.md)?)$/;
    expect(files.filter((file) => !allowed.test(file))).toEqual([]);
  });

  it("names every file that package.json exports, and source maps that stay inside the package", () => {
    const targets = JSON.stringify(manifest.exports).match(/"\.\/[^"*]+\.(?:js|cjs|ts|cts|json)"/g) ?? [];
    expect(files).toEqual(expect.arrayContaining(targets.map((target) => JSON.parse(target).slice(2))));
    for (const map of files.filter((file) => /\.c?js\.map$/.test(file))) {
      const { sources } = JSON.parse(readFileSync(path.join(stage, map), "utf8")) as { sources: string[] };
      expect(sources.filter((source) => !source.startsWith("../src/"))).toEqual([]);
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
    const report = JSON.parse(run(stage, "sh", ["-c", `"$1" "$2" --format json || true`, "sh", bin("attw"), tarball]));
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
    }, 120_000);
  });
});
