import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, extname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { BaseTurnSaver } from "../base-saver";
import { describe, TurnsError } from "../errors";
import type { GraphRunner } from "../graph-runner";
import { internalsOf } from "../internals";
import { isSaver } from "../known-savers";
import { isPregel, type PregelLike, pregelOf } from "../turns/attached-graph";
import { nearestName } from "../unknown-option";
import { word } from "./text";

/** A graph that a module exports, ready to run on a database. */
export interface LoadedGraph {
  runner: GraphRunner<never>;
  /** What the user should know, in a sentence. */
  remark: string | undefined;
}

/**
 * Loads the graph that `--graph` names, and makes it save to this database (docs/decisions/0031-the-graph-of-a-module.md).
 *
 * The export is a compiled graph, an agent that carries one, a graph to compile, a GraphRunner, or a function that gets the saver
 * and returns one of these, or a promise of it.
 *
 * @param text `./agent.ts#export`: a path from the working folder, or a file URL; without `#`, the default export
 * @param saver of the database that somebody asked for. The graph gets it unless it has a TurnSaver on the same database
 * @throws {TurnsError} GRAPH_MODULE_INVALID; and what making a runner throws: INVALID_GRAPH, INVALID_OPTION
 */
export async function loadGraph(text: string, saver: BaseTurnSaver): Promise<LoadedGraph> {
  const { file, name } = partsOf(text);
  const exported = exportOf(await moduleAt(file), file, name);
  const found: unknown = isFunction(exported) ? await called(exported, saver, text) : exported;
  if (isRunner(found)) {
    refuseOtherDatabase(found.saver, saver, text);
    return { runner: found, remark: undefined };
  }
  const graph = isBuilder(found) ? await called(() => found.compile({ checkpointer: saver }), saver, text) : found;
  const remark = connect(pregelFrom(graph, text), saver, text);
  const { GraphRunner } = await import("../graph-runner");
  return { runner: new GraphRunner(graph as never), remark };
}

/** Loads a module for what it defines: effects with their undos. @throws {TurnsError} GRAPH_MODULE_INVALID */
export async function loadModule(text: string): Promise<void> {
  await moduleAt(partsOf(text).file);
}

/** Whether a module was loaded. It may keep timers and connections, which mustn't keep the program alive. */
export function hasLoadedModule(): boolean {
  return isLoaded;
}

let isLoaded = false;

function partsOf(text: string): { file: string; name: string } {
  const at = text.lastIndexOf("#");
  const [path, name] = at === -1 || existsSync(text) ? [text, "default"] : [text.slice(0, at), text.slice(at + 1) || "default"];
  const file = path.startsWith("file:") ? fileURLToPath(path) : resolve(path);
  if (existsSync(file) && statSync(file).isFile()) return { file, name };
  const folder = dirname(file);
  const nearest = nearestName(basename(file), existsSync(folder) ? readdirSync(folder) : []);
  throw invalid(
    `There is no file ${JSON.stringify(file)}.`,
    `${didYouMean(nearest)}Give the file of your graph, and the name of its export: --graph ./agent.ts#graph.`,
  );
}

const didYouMean = (name: string | undefined): string => (name === undefined ? "" : `Did you mean ${JSON.stringify(name)}? `);

/** What a module exports, by name. */
type Exports = Readonly<Record<string, unknown>>;

const TYPED: readonly string[] = [".ts", ".mts", ".cts", ".tsx"];

async function moduleAt(file: string): Promise<Exports> {
  if (TYPED.includes(extname(file))) await prepareForTypes(file);
  isLoaded = true;
  try {
    return (await import(pathToFileURL(file).href)) as Exports;
  } catch (error) {
    const isType = (error as { code?: unknown }).code === "ERR_UNKNOWN_FILE_EXTENSION";
    const remedy = isType
      ? "It imports TypeScript: name that file itself, and tsx of your project loads it. Nothing was run."
      : "Nothing was run.";
    throw invalid(`Module ${JSON.stringify(file)} can't be loaded. ${sentenceOf(error)}`, remedy, error);
  }
}

/** The user's own tsx knows all of TypeScript. Node's own way only strips types. */
async function prepareForTypes(file: string): Promise<void> {
  for (const from of [file, resolve("package.json")]) {
    const { resolve: found } = createRequire(from);
    let tsx: string;
    try {
      tsx = found("tsx/package.json");
    } catch {
      continue;
    }
    return registered(tsx);
  }
  if ((process.features as { typescript?: unknown }).typescript) return;
  throw invalid(
    `Module ${JSON.stringify(file)} is TypeScript, and Node ${process.versions.node} can't load it by itself.`,
    "Install tsx in your project: npm i -D tsx. Or give a JavaScript file, such as your build's. Nothing was run.",
  );
}

interface Manifest {
  version: string;
  exports: Readonly<Record<string, { import?: { default?: string } }>>;
}

/** How Node was told to load tsx when it started: `--import tsx`, `--import=tsx/esm`, `npx tsx`. */
const LOADED = {
  "./esm/api": /(^|[\s=])tsx(\/esm)?(\s|$)|[/\\]tsx[/\\]dist[/\\](loader|esm[/\\]index)\.mjs/,
  "./cjs/api": /(^|[\s=])tsx(\/cjs)?(\s|$)|[/\\]tsx[/\\]dist[/\\](loader\.mjs|cjs[/\\]index)/,
} as const;

/**
 * Registers what isn't loaded already. A module that goes through tsx twice has other sources, so its nodes would count as changed.
 *
 * `require.resolve` would find the twins for CommonJS, which can't register a loader of ES modules.
 */
async function registered(manifest: string): Promise<void> {
  const started = [...process.execArgv, process.env["NODE_OPTIONS"] ?? ""].join(" ");
  const { version, exports } = JSON.parse(readFileSync(manifest, "utf8")) as Manifest;
  for (const [name, isLoaded] of Object.entries(LOADED)) {
    if (isLoaded.test(started)) continue;
    const file = exports[name]?.import?.default;
    if (file === undefined)
      throw invalid(`tsx ${version} in ${JSON.stringify(dirname(manifest))} is too old.`, "Update it: npm i -D tsx@latest.");
    const api = (await import(pathToFileURL(join(dirname(manifest), file)).href)) as { register: () => unknown };
    api.register();
  }
}

function exportOf(module: Exports, file: string, name: string): unknown {
  // A CommonJS module is the default export of itself, and one that was compiled to it has a default of its own.
  const inner = module["default"] as Exports | null | undefined;
  const isCommon =
    typeof inner === "object" &&
    inner !== null &&
    ("module.exports" in module || inner["__esModule"] === true || Object.getPrototypeOf(inner) === Object.prototype);
  const places = isCommon ? (name === "default" && !("default" in inner) ? [module] : [inner, module]) : [module];
  const holder = places.find((place) => Object.hasOwn(place, name));
  if (holder !== undefined) {
    try {
      return holder[name];
    } catch (error) {
      throw invalid(
        `Export ${JSON.stringify(name)} of module ${JSON.stringify(file)} throws. ${sentenceOf(error)}`,
        "Nothing was run.",
        error,
      );
    }
  }
  const names = [...new Set(places.flatMap((place) => Object.keys(place)))].filter(
    (one) => one !== "module.exports" && one !== "__esModule" && !(isCommon && one === "default"),
  );
  const graphs = names.filter((one) => isGraph(valueIn(places, one)));
  const [only] = names.length === 1 ? names : graphs.length === 1 ? graphs : [];
  const nearest = nearestName(name, names) ?? only;
  throw invalid(
    name === "default"
      ? `Module ${JSON.stringify(file)} has no default export.`
      : `Module ${JSON.stringify(file)} has no export ${JSON.stringify(name)}.`,
    names.length === 0
      ? "It exports nothing. Export your graph."
      : `${didYouMean(nearest)}Its exports: ${names.join(", ")}. Name one: --graph ${word(`${file}#${nearest ?? graphs[0] ?? names[0] ?? ""}`)}`,
  );
}

type MakeGraph = (saver: BaseTurnSaver) => unknown;

function isFunction(value: unknown): value is MakeGraph {
  return typeof value === "function";
}

async function called(make: MakeGraph, saver: BaseTurnSaver, text: string): Promise<unknown> {
  try {
    return await make(saver);
  } catch (error) {
    if (TurnsError.is(error)) throw error;
    throw invalid(
      `${JSON.stringify(text)} makes no graph. ${sentenceOf(error)}`,
      "A function gets the saver, and returns a compiled graph or a GraphRunner. Nothing was run.",
      error,
    );
  }
}

/** Also one of another copy of this package, which `instanceof` wouldn't know. */
function isRunner(value: unknown): value is GraphRunner<never> {
  const { resume, recover, saver } = (value ?? {}) as Record<string, unknown>;
  return isFunction(resume) && isFunction(recover) && isSaver(saver);
}

interface Builder {
  compile: (options: { checkpointer: BaseTurnSaver }) => unknown;
}

function isBuilder(value: unknown): value is Builder {
  return typeof value === "object" && value !== null && !isPregel(value) && isFunction((value as Partial<Builder>).compile);
}

/** What {@link loadGraph} takes, as far as that is known without calling it. */
function isGraph(value: unknown): boolean {
  const { graph } = (value ?? {}) as { graph?: unknown };
  return isRunner(value) || isBuilder(value) || isPregel(value) || isPregel(graph);
}

function pregelFrom(graph: unknown, text: string): PregelLike {
  try {
    return pregelOf(graph);
  } catch (error) {
    if (!TurnsError.is(error, "INVALID_GRAPH")) throw error;
    throw invalid(
      `${JSON.stringify(text)} is ${describe(graph)}, not a graph.`,
      "Export a compiled graph, a GraphRunner, or a function that gets the saver and returns one: export default (saver) => builder.compile({ checkpointer: saver }).",
      error,
    );
  }
}

/** @returns a remark if the graph had a checkpointer of another kind */
function connect(graph: PregelLike, saver: BaseTurnSaver, text: string): string | undefined {
  const { checkpointer } = graph;
  if (isSaver(checkpointer)) {
    refuseOtherDatabase(checkpointer as BaseTurnSaver, saver, text);
    return undefined;
  }
  graph.checkpointer = saver;
  const had = typeof checkpointer === "object" && checkpointer !== null;
  return had ? `The graph's own checkpointer, ${describe(checkpointer)}, isn't used: it runs on ${nameOf(saver)}.` : undefined;
}

/** Its options (redaction, keys, retention) belong to its database, so it isn't replaced silently. */
function refuseOtherDatabase(own: BaseTurnSaver, asked: BaseTurnSaver, text: string): void {
  if (own === asked || placeOf(own) === placeOf(asked)) return;
  throw invalid(
    `${JSON.stringify(text)} saves to ${nameOf(own)}, and you asked for ${nameOf(asked)}.`,
    "Name its database with --db, or export a function that gets the saver: export const graph = (saver) => builder.compile({ checkpointer: saver }).",
  );
}

function nameOf(saver: BaseTurnSaver): string {
  return internalsOf(saver).store.name;
}

/** Two paths may lead to one file. */
function placeOf(saver: BaseTurnSaver): string {
  const name = nameOf(saver);
  return existsSync(name) ? realpathSync(name) : name;
}

function sentenceOf(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : describe(error);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function invalid(problem: string, remedy: string, cause?: unknown): TurnsError {
  return new TurnsError("GRAPH_MODULE_INVALID", { problem, remedy, cause });
}

/** An export may be a getter that throws: it's no graph then. */
function valueIn(places: readonly Exports[], name: string): unknown {
  try {
    return places.find((place) => Object.hasOwn(place, name))?.[name];
  } catch {
    return undefined;
  }
}
