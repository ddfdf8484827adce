import { readFileSync } from "node:fs";
import { join } from "node:path";
import { buildSync } from "esbuild";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import * as root from "langgraph-checkpoint-turns";
import * as checkpointFile from "langgraph-checkpoint-turns/checkpoint-file";
import * as importing from "langgraph-checkpoint-turns/import";
import * as maintenance from "langgraph-checkpoint-turns/maintenance";
import * as transactions from "langgraph-checkpoint-turns/transactions";
import * as postgres from "langgraph-checkpoint-turns/postgres";
import ts from "typescript";

/** The package's entries: what each exports, and which sources are loaded with it. */
const ROOT = join(__dirname, "..", "..");
const ENTRIES = {
  index: "src/index.ts",
  "checkpoint-file": "src/report/index.ts",
  import: "src/import/index.ts",
  maintenance: "src/maintenance/index.ts",
  transactions: "src/transactions/index.ts",
  postgres: "src/postgres/index.ts",
};
const IMPORT = /^src\/(import\/|store\/sqlite\/official|codec\/official)/;
const SALVAGE = /^src\/(maintenance\/|store\/sqlite\/salvage\/)/;
const VERIFICATION = /^src\/(integrity\/|store\/(sqlite|ops)\/verify)/;
const ROTATION = /^src\/(store\/ops\/rotate|maintenance\/rotate)/;
const POSTGRES = /^src\/(postgres|store\/postgres)\//;
const SQLITE = /^src\/(store\/sqlite\/|saver\.ts)/;
const REPORT = /^src\/report\//;
const FINGERPRINTS = /^src\/guards\/(fingerprint|source|canonical|parse|normalise|resolve|single)/;

const BUILD = {
  absWorkingDir: ROOT,
  outdir: "out",
  write: false,
  metafile: true,
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20",
  packages: "external",
} as const;

interface Output {
  entryPoint?: string;
  inputs: Record<string, { bytesInOutput: number }>;
  imports: { path: string; kind: string; external?: boolean }[];
}

/** Every source file of which code is in what a bundle loads. */
interface Loaded {
  /** At once, when the entry is imported. */
  atOnce: string[];
  /** Also when `await import()` asks for it. */
  everything: string[];
  /** Other packages that are loaded at once. */
  packages: string[];
}

let outputs: Record<string, Output>;

beforeAll(() => {
  outputs = buildSync({ ...BUILD, entryPoints: ENTRIES }).metafile.outputs;
});

function loadedWith(entry: string, built: Record<string, Output> = outputs): Loaded {
  const start = Object.keys(built).find((name) => built[name]!.entryPoint === entry)!;
  const chunks = (kinds: readonly string[]): string[] => {
    const seen = new Set<string>();
    const visit = (name: string): void => {
      if (seen.has(name)) return;
      seen.add(name);
      for (const { path, kind, external } of built[name]!.imports) if (external !== true && kinds.includes(kind)) visit(path);
    };
    visit(start);
    return [...seen];
  };
  const sources = (kinds: readonly string[]): string[] => {
    const inputs = chunks(kinds).flatMap((name) => Object.entries(built[name]!.inputs));
    return inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([path]) => path);
  };
  const packages = chunks(["import-statement"]).flatMap((name) =>
    built[name]!.imports.filter(({ kind, external }) => external === true && kind === "import-statement").map(({ path }) => path),
  );
  return { atOnce: sources(["import-statement"]), everything: sources(["import-statement", "dynamic-import"]), packages };
}

const of = (files: readonly string[], ...kinds: readonly RegExp[]): string[] =>
  files.filter((file) => kinds.some((kind) => kind.test(file)));

test("S8.1 importing the root loads no code for import, salvage, verification, key rotation, fingerprints or CHECKPOINT.md, and no parser", () => {
  const { atOnce, packages } = loadedWith(ENTRIES.index);
  expect(of(atOnce, /^src\/saver\.ts$/)).toHaveLength(1);
  expect(of(atOnce, IMPORT, SALVAGE, VERIFICATION, ROTATION, REPORT, FINGERPRINTS)).toEqual([]);
  expect(packages).toContain("@langchain/langgraph-checkpoint");
  expect(packages).not.toContain("markdown-it");
  expect(packages).not.toContain("acorn");
});

test.each(["src/saver.ts", "src/graph-runner.ts"])(
  "S8.8 %s loads no Markdown parser and no CheckpointFile before they are used",
  (entry) => {
    const { outputs: built } = buildSync({ ...BUILD, entryPoints: [entry] }).metafile;
    const loaded = loadedWith(entry, built);
    expect(of(loaded.atOnce, /^src\/report\//)).toEqual([]);
    expect(loaded.packages).toContain("zod");
    expect(loaded.packages).not.toContain("markdown-it");
  },
);

test("the root reaches verification, key rotation, fingerprints and CHECKPOINT.md when they're called, and never import or salvage", () => {
  const { everything } = loadedWith(ENTRIES.index);
  expect(of(everything, IMPORT, SALVAGE)).toEqual([]);
  for (const kind of [VERIFICATION, ROTATION, REPORT, FINGERPRINTS]) expect(of(everything, kind)).not.toEqual([]);
});

test("/import and /maintenance load their own code, not the saver's and not each other's", () => {
  const [importer, keeper] = [ENTRIES.import, ENTRIES.maintenance].map((entry) => loadedWith(entry).atOnce);
  expect(of(importer!, IMPORT)).not.toEqual([]);
  expect(of(importer!, SALVAGE, /^src\/(base-)?saver\.ts$/)).toEqual([]);
  expect(of(keeper!, SALVAGE)).not.toEqual([]);
  expect(of(keeper!, /^src\/import\//, /^src\/(base-)?saver\.ts$/)).toEqual([]);
});

test("S9.6 /transactions loads its own code, no database library, and not the saver's", () => {
  const { atOnce, packages } = loadedWith(ENTRIES.transactions);
  expect(of(atOnce, /^src\/transactions\//)).not.toEqual([]);
  expect(of(atOnce, /^src\/(saver|effects\/journal|store\/)/)).toEqual([]);
  expect(packages.filter((name) => /sqlite|pg|postgres|kysely|drizzle|knex|prisma/.test(name))).toEqual([]);
});

test("S8.1 /postgres loads neither SQLite's code nor `pg`, and the root nothing of PostgreSQL", () => {
  const { atOnce, everything, packages } = loadedWith(ENTRIES.postgres);
  expect(of(atOnce, POSTGRES)).not.toEqual([]);
  expect(of(everything, SQLITE)).toEqual([]);
  expect(packages).not.toContain("pg");
  expect(of(loadedWith(ENTRIES.index).everything, POSTGRES)).toEqual([]);
});

test("/checkpoint-file loads its own code and not the saver's", () => {
  const { atOnce, packages } = loadedWith(ENTRIES["checkpoint-file"]);
  expect(of(atOnce, REPORT)).not.toEqual([]);
  expect(of(atOnce, IMPORT, SALVAGE, /^src\/(base-)?saver\.ts$/)).toEqual([]);
  expect(packages).toContain("markdown-it");
});

test("S8.1 each entry exports its own values, and the root none of the others'", () => {
  expect(Object.keys(checkpointFile)).toEqual(["CheckpointFile"]);
  expect(Object.keys(importing).sort()).toEqual(["importOfficial", "importOfficialPostgres"]);
  expect(Object.keys(maintenance).sort()).toEqual([
    "copyThreadTo",
    "moveAllThreads",
    "moveThread",
    "rotateKeys",
    "salvage",
    "vacuum",
  ]);
  expect(Object.keys(transactions).sort()).toEqual(
    ["drizzle", "knex", "kysely", "pg", "prisma", "sqlite"].map((library) => `${library}Transactions`),
  );
  expect(Object.keys(postgres).sort()).toEqual(["PostgresCheckpointPersister", "PostgresTurnSaver", "migrationSql"]);
  for (const other of [checkpointFile, importing, maintenance, transactions, postgres]) {
    for (const name of Object.keys(other)) expect(root).not.toHaveProperty(name);
  }
});

test("S8.1 the root exports at most six values and 45 types", () => {
  const file = join(ROOT, ENTRIES.index);
  const source = ts.createSourceFile(file, readFileSync(file, "utf8"), ts.ScriptTarget.ES2022, true);
  const values: string[] = [];
  const types: string[] = [];
  for (const statement of source.statements) {
    // Nothing is declared here, and no `export *` hides what there is.
    if (!ts.isExportDeclaration(statement) || statement.exportClause === undefined || !ts.isNamedExports(statement.exportClause))
      throw new Error(`not a list of exports: ${statement.getText()}`);
    for (const { name, isTypeOnly } of statement.exportClause.elements) {
      (statement.isTypeOnly || isTypeOnly ? types : values).push(name.getText());
    }
  }
  const allowed = ["CheckpointPersister", "GraphRunner", "TurnSaver", "TurnsError", "defineEffect", "effect"];
  expect(values.filter((name) => !allowed.includes(name))).toEqual([]);
  expect(Object.keys(root).sort()).toEqual(values.sort());
  expect(types.length).toBeLessThanOrEqual(45);
});

/** What a TurnSaver has beyond LangGraph's own savers. A member more or less is a compiler error here. */
const MEMBERS: Record<Exclude<keyof root.TurnSaver, keyof BaseCheckpointSaver>, "verb" | "group" | "of JavaScript"> = {
  attach: "verb",
  backup: "verb",
  close: "verb",
  copyThread: "verb",
  drain: "verb",
  follow: "verb",
  listThreads: "verb",
  prune: "verb",
  rewind: "verb",
  setup: "verb",
  verify: "verb",
  effects: "group",
  events: "group",
  names: "group",
  retention: "group",
  rewinds: "group",
  turns: "group",
  [Symbol.dispose]: "of JavaScript",
  [Symbol.asyncDispose]: "of JavaScript",
};

test("S8.1 a TurnSaver has its verbs and groups, and nothing internal can be reached from it", () => {
  const saver = root.TurnSaver.fromPath(":memory:");
  const ofLangGraph = ["constructor", "deleteThread", "getDeltaChannelHistory", "getTuple", "list", "put", "putWrites", "toJSON"];
  const ofConsole = String(Symbol.for("nodejs.util.inspect.custom"));
  const own = Reflect.ownKeys(saver).filter((name) => name !== "serde");
  // Its own class, and the base of all savers.
  const classes = [root.TurnSaver.prototype, Object.getPrototypeOf(root.TurnSaver.prototype) as object];
  const defined = classes.flatMap((one) => Reflect.ownKeys(one));
  const found = [...own, ...defined.filter((name) => ![...ofLangGraph, ofConsole].includes(String(name)))];
  expect(new Set(found)).toEqual(new Set(Reflect.ownKeys(MEMBERS)));
  const groups = Object.entries(MEMBERS).filter(([name, kind]) => kind === "group" && name !== "events");
  const members = groups.map(([name]) => {
    const group = saver[name as "turns"];
    return [name, [...Reflect.ownKeys(group), ...Reflect.ownKeys(Object.getPrototypeOf(group) as object)].sort()];
  });
  expect(Object.fromEntries(members)).toEqual({
    effects: ["constructor", "get", "list", "resolve"],
    names: ["constructor", "delete", "list", "set"],
    retention: ["constructor", "deleteForRuns", "reuseThread"],
    rewinds: ["abandon", "compensationReport", "constructor", "finish", "list", "takeBack", "toCheckpoint", "unfinished"],
    turns: ["constructor", "inFlight", "isRunning", "list", "liveRuns", "state", "stuck", "tasks", "tokenUsage"],
  });
  saver.close();
});

test("package.json and tsconfig.json name the same entries", () => {
  const json = (name: string) => JSON.parse(readFileSync(join(ROOT, name), "utf8"));
  const exported = Object.keys(json("package.json").exports).filter((name) => name !== "./package.json");
  const paths = json("tsconfig.json").compilerOptions.paths as Record<string, string[]>;
  expect(Object.keys(paths).map((name) => name.replace("langgraph-checkpoint-turns", "."))).toEqual(exported);
  expect(paths).toMatchObject({ "langgraph-checkpoint-turns/import": ["./src/import/index.ts"] });
});
