import type { Syntax } from "./parse-javascript";

/** A variable, parameter, function or class that is declared inside the source. */
export interface Binding {
  /** How it was declared. A `const` that nothing assigns to is treated as a `let`. */
  kind: "var" | "let" | "const" | "param" | "function" | "class";
  reads: number;
  /** Assignments besides its declaration. */
  writes: number;
  /** For a function inside a block: strict mode decides whether it is visible outside, so its name counts. */
  name?: string;
}

type Scope = Map<string, Binding> & { outer?: Scope | undefined };

/**
 * Replaces every identifier that refers to a variable: by `{ type: "Local", binding }` if it is declared in the source, otherwise
 * by `{ type: "Free", name }`. Labels, keys and names of properties stay.
 *
 * @param root a tree that nobody else uses; it is changed
 * @throws {SyntaxError} for a direct call of `eval`, and for names that can't be resolved
 */
export function resolveNames(root: Syntax): void {
  visit(root, undefined);
}

type Outer = Scope | undefined;

function scopeIn(outer: Outer): Scope {
  return Object.assign(new Map<string, Binding>(), { outer });
}

function declare(scope: Scope, name: string, kind: Binding["kind"], inBlock = false): Binding {
  const binding = scope.get(name) ?? { kind, reads: 0, writes: 0, ...(inBlock ? { name } : {}) };
  scope.set(name, binding);
  return binding;
}

function lookup(scope: Outer, name: string): Binding | undefined {
  for (let at = scope; at !== undefined; at = at.outer) {
    const found = at.get(name);
    if (found !== undefined) return found;
  }
  return undefined;
}

function refer(node: Syntax, scope: Outer, as: "reads" | "writes" | "declaration"): void {
  const name = node["name"] as string;
  if (name === "eval") throw new SyntaxError("eval sees the names of variables");
  const binding = lookup(scope, name);
  delete node["name"];
  if (binding === undefined) Object.assign(node, { type: "Free", name });
  else Object.assign(node, { type: "Local", binding });
  if (binding !== undefined && as !== "declaration") binding[as] += 1;
}

function visit(node: Syntax, scope: Outer): void {
  switch (node.type) {
    case "Identifier":
      return refer(node, scope, "reads");
    case "FunctionDeclaration":
    case "FunctionExpression":
    case "ArrowFunctionExpression":
      return visitFunction(node, scope);
    case "ClassDeclaration":
    case "ClassExpression":
      return visitClass(node, scope);
    case "VariableDeclaration":
      for (const { id, init } of node["declarations"] as { id: Syntax; init: Syntax | null }[]) {
        visitPattern(id, scope, "declaration");
        if (init !== null) visit(init, scope);
      }
      return;
    case "BlockStatement":
    case "StaticBlock":
      return visitBlock(node["body"] as Syntax[], scope, node.type === "StaticBlock");
    case "SwitchStatement": {
      visit(node["discriminant"] as Syntax, scope);
      const cases = node["cases"] as { test: Syntax | null; consequent: Syntax[] }[];
      const inner = scopeIn(scope);
      declareBlock(
        inner,
        cases.flatMap(({ consequent }) => consequent),
        true,
      );
      for (const { test, consequent } of cases)
        for (const part of test === null ? consequent : [test, ...consequent]) visit(part, inner);
      return;
    }
    case "ForStatement":
    case "ForInStatement":
    case "ForOfStatement":
      return visitFor(node, scope);
    case "CatchClause": {
      const inner = scopeIn(scope);
      const param = node["param"] as Syntax | null;
      if (param !== null) {
        for (const name of namesIn(param)) declare(inner, name, "param");
        visitPattern(param, inner, "declaration");
      }
      return visit(node["body"] as Syntax, inner);
    }
    case "AssignmentExpression":
      visitPattern(node["left"] as Syntax, scope, "writes");
      if (node["operator"] !== "=") countRead(node["left"] as Syntax);
      return visit(node["right"] as Syntax, scope);
    case "UpdateExpression":
      visitPattern(node["argument"] as Syntax, scope, "writes");
      return countRead(node["argument"] as Syntax);
    case "MemberExpression":
      visit(node["object"] as Syntax, scope);
      if (node["computed"] === true) visit(node["property"] as Syntax, scope);
      return;
    case "Property":
    case "MethodDefinition":
    case "PropertyDefinition":
      if (node["computed"] === true) visit(node["key"] as Syntax, scope);
      if (node["value"] !== null) visit(node["value"] as Syntax, scope);
      return;
    case "LabeledStatement":
      return visit(node["body"] as Syntax, scope);
    case "BreakStatement":
    case "ContinueStatement":
    case "MetaProperty":
      return;
    default:
      for (const part of partsOf(node)) visit(part, scope);
  }
}

function partsOf(node: Syntax): Syntax[] {
  return Object.values(node).flat().filter(isSyntax);
}

function isSyntax(value: unknown): value is Syntax {
  return typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";
}

function countRead(target: Syntax): void {
  if (target.type === "Local") (target["binding"] as Binding).reads += 1;
}

function visitFunction(node: Syntax, scope: Outer): void {
  const id = node["id"] as Syntax | null;
  let outer = scope;
  if (id !== null && node.type === "FunctionExpression") declare((outer = scopeIn(scope)), id["name"] as string, "function");
  if (id !== null) refer(id, outer, "declaration");
  const inner = scopeIn(outer);
  const params = node["params"] as Syntax[];
  for (const param of params) for (const name of namesIn(param)) declare(inner, name, "param");
  for (const param of params) visitPattern(param, inner, "declaration");
  const body = node["body"] as Syntax;
  if (body.type !== "BlockStatement") return visit(body, inner);
  // Defaults of parameters don't see what the body declares. A `var` with a parameter's name is that parameter.
  const within = scopeIn(inner);
  const statements = body["body"] as Syntax[];
  const hoisted: [string, "var" | "function"][] = varsIn(statements);
  for (const statement of statements) {
    if (statement.type === "FunctionDeclaration") hoisted.push([(statement["id"] as Syntax)["name"] as string, "function"]);
  }
  for (const [name, kind] of hoisted) {
    const param = inner.get(name);
    if (param === undefined) declare(within, name, kind);
    else if (kind === "function") param.writes += 1;
  }
  declareBlock(within, statements, false);
  for (const statement of statements) visit(statement, within);
}

function visitClass(node: Syntax, scope: Outer): void {
  const id = node["id"] as Syntax | null;
  const inner = scopeIn(scope);
  if (id !== null) {
    const own = scope?.get(id["name"] as string);
    if (node.type === "ClassDeclaration" && own !== undefined) inner.set(id["name"] as string, own);
    else declare(inner, id["name"] as string, "class");
    refer(id, inner, "declaration");
  }
  if (node["superClass"] !== null) visit(node["superClass"] as Syntax, inner);
  for (const member of (node["body"] as Syntax)["body"] as Syntax[]) visit(member, inner);
}

function visitBlock(statements: Syntax[], scope: Outer, hasVars: boolean): void {
  const inner = scopeIn(scope);
  if (hasVars) for (const [name, kind] of varsIn(statements)) declare(inner, name, kind);
  declareBlock(inner, statements, true);
  for (const statement of statements) visit(statement, inner);
}

function visitFor(node: Syntax, scope: Outer): void {
  const inner = scopeIn(scope);
  const head = (node["init"] ?? node["left"] ?? null) as Syntax | null;
  if (head?.type === "VariableDeclaration") declareBlock(inner, [head], true);
  else if (head !== null && node.type !== "ForStatement") visitPattern(head, scope, "writes");
  if (head?.type === "VariableDeclaration" || (head !== null && node.type === "ForStatement")) visit(head, inner);
  for (const key of ["test", "update", "right", "body"]) if (isSyntax(node[key])) visit(node[key], inner);
}

/** What a block declares for itself. */
function declareBlock(scope: Scope, statements: readonly Syntax[], inBlock: boolean): void {
  for (const statement of statements) {
    const { type, kind } = statement;
    if (type === "VariableDeclaration" && kind !== "var") {
      for (const { id } of statement["declarations"] as { id: Syntax }[])
        for (const name of namesIn(id)) declare(scope, name, kind as "let" | "const");
    } else if (type === "ClassDeclaration") {
      declare(scope, (statement["id"] as Syntax)["name"] as string, "class");
    } else if (type === "FunctionDeclaration" && inBlock) {
      declare(scope, (statement["id"] as Syntax)["name"] as string, "function", true);
    }
  }
}

/** The variables that `var` declares anywhere in these statements, except in nested functions. */
function varsIn(statements: readonly Syntax[]): [string, "var"][] {
  return statements.flatMap((statement) => {
    if (/Function|Class/.test(statement.type)) return [];
    if (statement.type !== "VariableDeclaration") return varsIn(partsOf(statement));
    const own =
      statement["kind"] === "var" ? (statement["declarations"] as { id: Syntax }[]).flatMap(({ id }) => namesIn(id)) : [];
    return own.map((name): [string, "var"] => [name, "var"]);
  });
}

function namesIn(pattern: Syntax | null): string[] {
  if (pattern === null) return [];
  switch (pattern.type) {
    case "Identifier":
      return [pattern["name"] as string];
    case "AssignmentPattern":
      return namesIn(pattern["left"] as Syntax);
    case "RestElement":
      return namesIn(pattern["argument"] as Syntax);
    case "ArrayPattern":
      return (pattern["elements"] as (Syntax | null)[]).flatMap(namesIn);
    default:
      return ((pattern["properties"] ?? []) as Syntax[]).flatMap((property) =>
        namesIn((property.type === "Property" ? property["value"] : property) as Syntax),
      );
  }
}

function visitPattern(pattern: Syntax, scope: Outer, as: "writes" | "declaration"): void {
  switch (pattern.type) {
    case "Identifier":
      return refer(pattern, scope, as);
    case "AssignmentPattern":
      visitPattern(pattern["left"] as Syntax, scope, as);
      return visit(pattern["right"] as Syntax, scope);
    case "RestElement":
      return visitPattern(pattern["argument"] as Syntax, scope, as);
    case "ArrayPattern":
      for (const element of pattern["elements"] as (Syntax | null)[]) if (element !== null) visitPattern(element, scope, as);
      return;
    case "ObjectPattern":
      for (const property of pattern["properties"] as Syntax[]) {
        if (property.type === "Property" && property["computed"] === true) visit(property["key"] as Syntax, scope);
        visitPattern((property.type === "Property" ? property["value"] : property) as Syntax, scope, as);
      }
      return;
    default:
      visit(pattern, scope);
  }
}
