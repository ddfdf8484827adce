import { readFileSync } from "node:fs";
import { join } from "node:path";
import { buildSync } from "esbuild";
import * as root from "langgraph-checkpoint-turns";
import * as importing from "langgraph-checkpoint-turns/import";
import * as maintenance from "langgraph-checkpoint-turns/maintenance";

/** The package's entries: what each exports, and which sources are loaded with it. */
const ROOT = join(__dirname, "..", "..");
const ENTRIES = { index: "src/index.ts", import: "src/import/index.ts", maintenance: "src/maintenance/index.ts" };
const IMPORT = /^src\/(import\/|store\/sqlite\/official|codec\/official)/;
const SALVAGE = /^src\/(maintenance\/|store\/sqlite\/salvage\/)/;
const VERIFICATION = /^src\/(integrity\/|store\/(sqlite|ops)\/verify)/;
const ROTATION = /^src\/store\/ops\/rotate/;

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

test("importing the root loads no code for import, salvage, verification or key rotation", () => {
  const { atOnce } = loadedWith(ENTRIES.index);
  expect(of(atOnce, /^src\/saver\.ts$/)).toHaveLength(1);
  expect(of(atOnce, IMPORT, SALVAGE, VERIFICATION, ROTATION)).toEqual([]);
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

test("the root reaches verification and key rotation when they're called, and never import or salvage", () => {
  const { everything } = loadedWith(ENTRIES.index);
  expect(of(everything, IMPORT, SALVAGE)).toEqual([]);
  for (const kind of [VERIFICATION, ROTATION]) expect(of(everything, kind)).not.toEqual([]);
});

test("/import and /maintenance load their own code, not the saver's and not each other's", () => {
  const [importer, keeper] = [ENTRIES.import, ENTRIES.maintenance].map((entry) => loadedWith(entry).atOnce);
  expect(of(importer!, IMPORT)).not.toEqual([]);
  expect(of(importer!, SALVAGE, /^src\/saver\.ts$/)).toEqual([]);
  expect(of(keeper!, SALVAGE)).not.toEqual([]);
  expect(of(keeper!, /^src\/import\//, /^src\/saver\.ts$/)).toEqual([]);
});

test("/import exports importOfficial, /maintenance exports salvage, and the root exports neither", () => {
  expect(Object.keys(importing)).toEqual(["importOfficial"]);
  expect(Object.keys(maintenance)).toEqual(["salvage"]);
  expect(root).not.toHaveProperty("importOfficial");
  expect(root).not.toHaveProperty("salvage");
});

test("package.json and tsconfig.json name the same entries", () => {
  const json = (name: string) => JSON.parse(readFileSync(join(ROOT, name), "utf8"));
  const exported = Object.keys(json("package.json").exports).filter((name) => name !== "./package.json");
  const paths = json("tsconfig.json").compilerOptions.paths as Record<string, string[]>;
  expect(Object.keys(paths).map((name) => name.replace("langgraph-checkpoint-turns", "."))).toEqual(exported);
  expect(paths).toMatchObject({ "langgraph-checkpoint-turns/import": ["./src/import/index.ts"] });
});
