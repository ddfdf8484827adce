/**
 * The declarations of the package's entries, module by module, as far as an entry's exports reach them. What is marked `@internal` is left
 * out. `types.mjs` writes them into `dist/`, `api.mjs` into the reports in `etc/`.
 */
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

export const ROOT = fileURLToPath(new URL("../", import.meta.url));
const SRC = join(ROOT, "src");
const VIRTUAL = "/types/";

/**
 * @returns `modules`: by path below `src/`, the kept statements, and what they import; `entries`: by name, the symbols that each exports and
 *   the modules that declare them; `needs`: by statement, the statements that it refers to
 */
export function declarations() {
  const { config } = ts.readConfigFile(join(ROOT, "tsconfig.json"), (file) => readFileSync(file, "utf8"));
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT);
  // tsconfig.json has the entries by the names under which users import them.
  const named = Object.entries(config.compilerOptions.paths).map(([name, [path]]) => [
    name.split("/")[1] ?? "index",
    path.replace(/^\.\/src\//, "").replace(/\.ts$/, ""),
  ]);
  const emitted = emit(
    named.map(([, module]) => module),
    options,
  );
  const program = virtualProgram(emitted, options);
  const shaken = new Shaken(program);
  const entries = named.map(([name, module]) => ({ name, exports: shaken.exportsOf(module) }));
  return { entries, modules: shaken.modules, needs: shaken.needs };
}

/** The compiler's own declarations, by module. */
function emit(modules, options) {
  const files = modules.map((module) => join(SRC, `${module}.ts`));
  const own = { noEmit: false, declaration: true, emitDeclarationOnly: true, stripInternal: true, rootDir: SRC, outDir: VIRTUAL };
  const emitted = new Map();
  ts.createProgram(files, { ...options, ...own }).emit(undefined, (path, text) => emitted.set(path, text));
  return emitted;
}

/** Packages outside aren't looked up: only which of our declarations mean which others is asked. */
function virtualProgram(emitted, options) {
  const host = {
    ...ts.createCompilerHost({}),
    fileExists: (path) => emitted.has(path),
    readFile: (path) => emitted.get(path),
    directoryExists: () => true,
    getSourceFile: (path) =>
      emitted.has(path) ? ts.createSourceFile(path, emitted.get(path), ts.ScriptTarget.ES2022, true) : undefined,
  };
  const own = { noLib: true, types: [], noEmit: true, paths: {} };
  return ts.createProgram({ rootNames: [...emitted.keys()], options: { ...options, ...own }, host });
}

const moduleOf = (file) => file.fileName.slice(VIRTUAL.length).replace(/\.d\.ts$/, "");

class Shaken {
  /** By module: its kept statements, its imports from packages by specifier, and those from other modules by local name. */
  modules = new Map();
  needs = new Map();
  #program;
  #checker;
  #seen = new Set();

  constructor(program) {
    this.#program = program;
    this.#checker = program.getTypeChecker();
  }

  /** The exports of a module, in alphabetical order; what they need is kept from here on. */
  exportsOf(module) {
    const file = this.#program.getSourceFile(`${VIRTUAL}${module}.d.ts`);
    const symbols = this.#checker.getExportsOfModule(this.#checker.getSymbolAtLocation(file));
    const found = symbols.map((symbol) => {
      const target = this.#resolved(symbol);
      const statements = this.#keep(target);
      const isValue = (target.flags & ts.SymbolFlags.Value) !== 0;
      return { name: symbol.name, declared: target.name, module: moduleOf(statements[0].getSourceFile()), isValue, statements };
    });
    return found.sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  #resolved(symbol) {
    return (symbol.flags & ts.SymbolFlags.Alias) !== 0 ? this.#checker.getAliasedSymbol(symbol) : symbol;
  }

  /** @returns the statements that declare it */
  #keep(symbol) {
    const statements = (symbol.declarations ?? []).map(statementOf).filter((statement) => statement !== undefined);
    for (const statement of statements) this.#keepStatement(statement);
    return statements;
  }

  #keepStatement(statement) {
    if (this.#seen.has(statement)) return;
    this.#seen.add(statement);
    const file = statement.getSourceFile();
    const into = this.#into(moduleOf(file));
    into.statements.push(statement);
    const needs = new Set();
    this.needs.set(statement, needs);
    const visit = (node) => {
      if (ts.isIdentifier(node)) for (const other of this.#follow(node, file, into)) needs.add(other);
      ts.forEachChild(node, visit);
    };
    visit(statement);
  }

  #follow(identifier, file, into) {
    const symbol = this.#checker.getSymbolAtLocation(identifier);
    if (symbol === undefined) return [];
    const specifier = symbol.declarations?.find(
      (declaration) => ts.isImportSpecifier(declaration) || ts.isNamespaceImport(declaration),
    );
    const target = this.#resolved(symbol);
    const kept = this.#keep(target);
    const [declaration] = kept;
    if (specifier === undefined || specifier.getSourceFile() !== file) return kept;
    const local = specifier.name.text;
    if (declaration !== undefined) {
      const from = moduleOf(declaration.getSourceFile());
      into.own.set(local, { from, name: target.name });
      return kept;
    }
    const clause = ts.findAncestor(specifier, ts.isImportDeclaration);
    const known = into.packages.get(clause) ?? new Set();
    into.packages.set(clause, known.add(specifier));
    return [];
  }

  #into(module) {
    const known = this.modules.get(module) ?? { statements: [], own: new Map(), packages: new Map() };
    this.modules.set(module, known);
    return known;
  }
}

/** The statement at the top of one of our modules. */
function statementOf(declaration) {
  let node = declaration;
  while (node.parent !== undefined && !ts.isSourceFile(node.parent)) node = node.parent;
  const isImport = ts.isImportDeclaration(node) || ts.isExportDeclaration(node) || ts.isSourceFile(node);
  return isImport || !node.getSourceFile().fileName.startsWith(VIRTUAL) ? undefined : node;
}

/** A module's text. @param extension of the files that it refers to */
export function textOf(module, { statements, own, packages }, extension) {
  const lines = [...packages].map(([clause, specifiers]) => packageImport(clause, specifiers));
  const byModule = new Map();
  for (const [local, { from, name }] of own) {
    if (from === module) continue;
    byModule.set(from, [...(byModule.get(from) ?? []), local === name ? name : `${name} as ${local}`]);
  }
  for (const [from, names] of byModule) {
    const path = posix.relative(posix.dirname(module), from);
    lines.push(`import type { ${names.sort().join(", ")} } from "${path.startsWith(".") ? path : `./${path}`}.${extension}";`);
  }
  const inOrder = [...statements].sort((left, right) => left.pos - right.pos);
  const texts = inOrder.map((statement) => statement.getSourceFile().text.slice(fullStart(statement), statement.end));
  return `${[...lines, ...texts, "export {};"].join("\n")}\n`;
}

/** From its own comment on; what stands before belongs to statements that were left out. */
function fullStart(statement) {
  const [comment] = (ts.getJSDocCommentsAndTags(statement) ?? []).slice(-1);
  return comment?.pos ?? statement.getStart();
}

function packageImport(clause, specifiers) {
  const from = clause.moduleSpecifier.getText();
  const [first] = specifiers;
  if (ts.isNamespaceImport(first)) return `import type ${first.getText()} from ${from};`;
  const names = [...specifiers].map((each) => each.getText().replace(/^type /, "")).sort();
  // A class that is extended is a value.
  return `import { ${names.join(", ")} } from ${from};`;
}
