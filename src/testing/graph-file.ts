import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, TurnsError } from "../errors";

/** The file of a graph's module, and what kind of module Node takes it for. */
export interface GraphFile {
  url: string;
  type: "module" | "commonjs";
}

/**
 * @param given a path, from the working folder, or a file URL
 * @throws {TurnsError} GRAPH_MODULE_INVALID unless it is a file
 */
export function graphFile(given: string | URL): GraphFile {
  const path = pathOf(given);
  if (path === undefined || !existsSync(path) || !statSync(path).isFile()) {
    const found = path === undefined ? describe(given) : `none at ${JSON.stringify(path)}`;
    throw invalidModule("the module of a graph", "the path or file URL of a file", found);
  }
  return { url: pathToFileURL(path).href, type: typeOf(path) };
}

export function invalidModule(what: string, expected: string, found: string, cause?: unknown): TurnsError {
  return new TurnsError("GRAPH_MODULE_INVALID", {
    what,
    expected,
    found,
    remedy:
      'docs/testing.md says what such a module exports. A TypeScript one needs a loader, execArgv: ["--import", "tsx"] for one, or a Node ' +
      "that runs it by itself. Nothing was run.",
    cause,
  });
}

function pathOf(given: unknown): string | undefined {
  try {
    if (given instanceof URL) return fileURLToPath(given);
    if (typeof given !== "string" || given === "") return undefined;
    return given.startsWith("file:") ? fileURLToPath(given) : resolve(given);
  } catch {
    return undefined;
  }
}

/** Node's own rule: the extension decides, and where it leaves it open the nearest package.json. */
function typeOf(path: string): GraphFile["type"] {
  const extension = extname(path);
  if (extension === ".mjs" || extension === ".mts") return "module";
  if (extension === ".cjs" || extension === ".cts") return "commonjs";
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const manifest = join(folder, "package.json");
    if (existsSync(manifest)) return moduleType(manifest);
    if (dirname(folder) === folder) return "commonjs";
  }
}

function moduleType(manifest: string): GraphFile["type"] {
  try {
    return (JSON.parse(readFileSync(manifest, "utf8")) as { type?: unknown } | null)?.type === "module" ? "module" : "commonjs";
  } catch {
    return "commonjs";
  }
}
