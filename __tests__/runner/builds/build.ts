import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { transformSync as swcSync } from "@swc/core";
import { type BuildOptions, buildSync, transformSync } from "esbuild";
import ts from "typescript";
import type { GraphDocument } from "../../../src/testing-internal";
import { CHILD_ENV } from "../../support/child-program";

export type Format = "esm" | "cjs";
export type Target = "es2020" | "es2022" | "esnext";
/** The source of each function of a built corpus, by its name. */
export type Sources = Record<string, string>;

const MODULES = ["services", "corpus"];
const TARGETS = { es2020: ts.ScriptTarget.ES2020, es2022: ts.ScriptTarget.ES2022, esnext: ts.ScriptTarget.ESNext };

type Tool = (text: string, target: Target, format: Format) => string;
const esbuild =
  (options: object): Tool =>
  (text, target, format) =>
    transformSync(text, { loader: "ts", target, format, ...options }).code;

/** What builds TypeScript, as people set it up. */
export const TOOLS: Readonly<Record<string, Tool>> = {
  esbuild: esbuild({}),
  "esbuild keepNames": esbuild({ keepNames: true }),
  "esbuild minifySyntax": esbuild({ minifySyntax: true, minifyWhitespace: true }),
  "esbuild minify": esbuild({ minify: true }),
  swc: (text, target, format) =>
    swcSync(text, {
      ...{ configFile: false, swcrc: false, module: { type: format === "esm" ? "es6" : "commonjs" } },
      jsc: { target, parser: { syntax: "typescript" } },
    }).code,
  tsc: (text, target, format) =>
    ts.transpileModule(text, {
      compilerOptions: { target: TARGETS[target], module: format === "esm" ? ts.ModuleKind.ESNext : ts.ModuleKind.CommonJS },
    }).outputText,
};

/** Builds the corpus with each tool, and asks the engine for the sources of its functions. `tsx` is among them. */
export function builtCorpus(builds: readonly [tool: string, target: Target, format: Format][]): Sources[] {
  const root = join(__dirname, "..", "..", "..");
  mkdirSync(join(root, ".tmp"), { recursive: true });
  const folder = mkdtempSync(join(root, ".tmp", "builds-"));
  try {
    const files = builds.map(([tool, target, format], at) => {
      if (tool === "tsx") return join(__dirname, "corpus.ts");
      const ext = format === "esm" ? "mjs" : "cjs";
      mkdirSync(join(folder, `${at}`));
      for (const name of MODULES) {
        const code = TOOLS[tool]!(readFileSync(join(__dirname, `${name}.ts`), "utf8"), target, format);
        writeFileSync(join(folder, `${at}`, `${name}.${ext}`), code.replace(/(["'])\.\/services\1/g, `"./services.${ext}"`));
      }
      return join(folder, `${at}`, `corpus.${ext}`);
    });
    const print = (loader: string[], paths: string[]): Record<string, Sources> => {
      const args = [...loader, join(__dirname, "print-sources.mjs"), ...paths];
      return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8", env: CHILD_ENV, maxBuffer: 2 ** 26 })) as Record<
        string,
        Sources
      >;
    };
    const isTsx = (path: string): boolean => path.endsWith(".ts");
    // Without it where nothing needs it: a loader may change what others have built.
    const plain = print(
      [],
      files.filter((path) => !isTsx(path)),
    );
    const loaded = files.some(isTsx) ? print(["--import", "tsx"], files.filter(isTsx).slice(0, 1)) : {};
    return files.map((path) => (plain[path] ?? loaded[path])!);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The description of `minified-graph.ts`, as its bundle prints it. */
export function bundledGraph(options: BuildOptions): GraphDocument {
  const folder = mkdtempSync(join(__dirname, "..", "..", "..", ".tmp", "builds-"));
  try {
    const outfile = join(folder, "bundle.cjs");
    const entryPoints = [join(__dirname, "minified-graph.ts")];
    buildSync({
      entryPoints,
      outfile,
      bundle: true,
      platform: "node",
      external: ["better-sqlite3"],
      logLevel: "error",
      ...options,
    });
    return JSON.parse(execFileSync(process.execPath, [outfile], { encoding: "utf8", env: CHILD_ENV })) as GraphDocument;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
