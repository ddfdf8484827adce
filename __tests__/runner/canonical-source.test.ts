import ts from "typescript";
import { canonicalSource } from "../../src/testing-internal";
import { builtCorpus } from "./builds/build";

const text = (source: string): string => {
  const canonical = canonicalSource(source);
  if (canonical === undefined) throw new Error(`not parsed: ${source}`);
  return JSON.stringify(canonical);
};

describe("S8.5 sources that are the same", () => {
  test.each([
    [
      "names of its own",
      "(state, config) => { const x = f(state); g(x); return x }",
      "(a, b) => { const c = f(a); g(c); return c }",
    ],
    ["an arrow's body", "() => x", "() => { return x; }"],
    ["if as &&", "(a) => { if (a) f(); }", "(a) => { a && f() }"],
    ["if not as ||", "(a) => { if (!a) f(); }", "(a) => { a || f() }"],
    ["if and else as ?:", "(a) => { if (a) { f(); g() } else h() }", "(a) => { a ? (f(), g()) : h() }"],
    ["nested ifs", "(a, b) => { if (a) { if (b) f() } }", "(a, b) => { a && b && f() }"],
    ["returns", "(a) => { if (a) return 1; else if (b) return 2; return 3 }", "(a) => a ? 1 : b ? 2 : 3"],
    ["a guard at the end", "(a) => { if (!a) return; f(); g(); }", "(a) => { a && (f(), g()) }"],
    [
      "continue at the end of a loop",
      "(a) => { for (const b of a) { if (!b) continue; f(b) } }",
      "(a) => { for (let b of a) b && f(b) }",
    ],
    [
      "lists of declarations",
      "() => { let a = f(), b = g(); return [b, a] }",
      "() => { let a = f(); let b = g(); return [b, a] }",
    ],
    ["while", "() => { while (f()) g() }", "() => { for (; f();) g() }"],
    [
      "literals",
      "() => [true, false, undefined, 1000, Infinity, 'a', -1, 0xff]",
      '() => [!0, !1, void 0, 1e3, 1 / 0, "\\x61", -1, 255]',
    ],
    ["comparisons", "(a) => [!(a === 1), typeof a !== 'undefined', null == a]", '(a) => [a !== 1, typeof a < "u", a == null]'],
    ["keys", "(a) => ({ 'b': a['c'], d, 1: 2 })", "(a) => ({ b: a.c, d: d, '1': 2 })"],
    ["texts", "(a) => ['b' + 'c' + a + 'd' + 'e', `f${'g'}`]", "(a) => ['bc' + a + 'de', 'fg']"],
    ["a value that is used once", "async (a) => { const b = await f(a); return { b } }", "async (a) => ({ b: await f(a) })"],
    ["a constant", "(a) => { const b = 'x'; return f(a, b, b) }", "(a) => f(a, 'x', 'x')"],
    ["an unused error", "() => { try { f() } catch (error) { g() } }", "() => { try { f() } catch { g() } }"],
    [
      "kept names",
      "() => { const a = __name(() => 1, 'a'); function b() { return b } __name(b, 'b'); return [a, b, a] }",
      "() => { const a = () => 1; function b() { return b } return [a, b, a] }",
    ],
    ["private names", "class A { #count = 1; b() { return this.#count } }", "class A { #a = 1; b() { return this.#a } }"],
    ["calls of what is imported", "() => (0, services_1.log)(1)", "() => log(1)"],
    ["logical assignment", "(a) => { let b = a; b ||= 1; return [b, b] }", "(a) => { let b = a; b || (b = 1); return [b, b] }"],
  ])("S8.5 %s", (_, one, other) => {
    expect(text(one)).toBe(text(other));
  });
});

describe("S8.5 sources that are not the same", () => {
  test.each([
    ["?? and ||", "(a) => a ?? 1", "(a) => a || 1"],
    ["== and ===", "(a) => a == 1", "(a) => a === 1"],
    ["a chain and its end in parentheses", "(a) => a?.b.c", "(a) => (a?.b).c"],
    ["an object and a block", "() => ({})", "() => {}"],
    ["await", "async (a) => await a", "async (a) => a"],
    ["async", "async () => 1", "() => 1"],
    ["a generator", "function* () {}", "function () {}"],
    ["an arrow and a function: `this` is another", "() => this", "function () { return this }"],
    ["which variable", "(a, b) => a - b", "(a, b) => b - a"],
    ["which of two scopes", "(a) => { { let a = 1; f(a) } f(a) }", "(a) => { { let b = 1; f(b) } f(b) }"],
    [
      "a variable of the function or from outside",
      "(a) => { let b = f(); return [b, b] }",
      "(a) => { let c = f(); return [b, b] }",
    ],
    [
      "a default, which doesn't see the body",
      "(a = x) => { var x = 1; return [a, x] }",
      "(a = y) => { var x = 1; return [a, x] }",
    ],
    ["what a default sees", "(a = x) => { var x = 1; return [a, x] }", "(a = y) => { var y = 1; return [a, y] }"],
    [
      "var and let in a loop: what closures keep",
      "() => { for (var i = 0; i < 2; i++) f(() => i) }",
      "() => { for (let i = 0; i < 2; i++) f(() => i) }",
    ],
    [
      "an assigned constant",
      "() => { const a = f(); g(() => a = 1); return a }",
      "() => { let a = f(); g(() => a = 1); return a }",
    ],
    [
      "a function in a block",
      "() => { { function f() { return 1 } } return f() }",
      "() => { { function g() { return 1 } } return f() }",
    ],
    ["the prototype", "(a) => ({ __proto__: a })", "(a) => ({ ['__proto__']: a })"],
    ["the prototype, by shorthand", "(__proto__) => ({ __proto__ })", "(__proto__) => ({ __proto__: __proto__ })"],
    ["a getter", "() => ({ get a() { return 1 } })", "() => ({ a() { return 1 } })"],
    [
      "which loop",
      "(a) => { x: for (;;) for (;;) { if (a) break x; break } }",
      "(a) => { x: for (;;) for (;;) { if (a) break; break x } }",
    ],
    [
      "which loop goes on",
      "(a) => { x: for (;;) for (;;) { if (a) continue x; f() } }",
      "(a) => { x: for (;;) for (;;) { if (a) continue; f() } }",
    ],
    ["what is evaluated first", "() => { const a = f(); return [g(), a] }", "() => [g(), f()]"],
    ["what a call may change", "(a) => { let b = a.c; f(); return b }", "(a) => { f(); return a.c }"],
    ["a value that a function uses later", "() => { const a = f(); return () => a }", "() => () => f()"],
    ["a value that a loop uses", "() => { const a = f(); while (a) g() }", "() => { while (f()) g() }"],
    ["a value that may not be used", "(b) => { const a = f(); return b && a }", "(b) => b && f()"],
    ["texts and numbers", "(a) => a + 1 + 'b'", "(a) => a + '1b'"],
    ["a property that is read twice", "(a) => { a.b ||= 1 }", "(a) => { a.b = a.b || 1 }"],
    ["zero and minus zero", "() => 0", "() => -0"],
    ["a number and its digits", "() => 1", "() => '1'"],
    ["a bigint", "() => 1n", "() => 1"],
    ["a line break behind return", "() => { return\n1 }", "() => { return 1 }"],
    ["raw texts", "() => f`\\n`", "() => f`\n`"],
    ["flags", "() => /a/g", "() => /a/"],
    ["a constant that is read before it is there", "() => { f(a); const a = 1; }", "() => { const a = 1; f(a); }"],
    ["static", "class A { static b = 1 }", "class A { b = 1 }"],
    ["order of fields", "class A { a = f(); b = g() }", "class A { b = g(); a = f() }"],
    ["spread", "(a) => [...a]", "(a) => [a]"],
    ["a directive", "function () { 'use strict'; return this }", "function () { return this }"],
    ["return in the middle", "(a) => { if (a) { return } f() }", "(a) => { f() }"],
    ["try around", "() => { try { f() } finally { g() } }", "() => { f(); g() }"],
    ["delete", "(a) => delete a.b", "(a) => a.b"],
  ])("S8.5 %s", (_, one, other) => {
    expect(text(one)).not.toBe(text(other));
  });

  test("S8.5 what can't be parsed with certainty has no canonical form, and its text is compared", () => {
    for (const source of ["() => eval('a')", "function () { with (a) b }", "() => '\\07'", "function f() { [native code] }", ""])
      expect(canonicalSource(source)).toBeUndefined();
  });
});

interface Mutant {
  what: string;
  source: string;
}

/** Every way to change one thing of what a source does: literals, operators, names from outside, properties, statements and their order. */
function mutantsOf(name: string, source: string): Mutant[] {
  // Expressions and members are only parsed inside of something.
  const before = /^(?:async\s*)?(?:function|\(|class|\w+\s*=>)/.test(source) ? "(" : "({";
  const whole = `${before}${source}${before === "(" ? ")" : "})"}`;
  const file = ts.createSourceFile("x.js", whole, ts.ScriptTarget.ESNext, true, ts.ScriptKind.JS);
  const program = ts.createProgram(
    ["x.js"],
    { allowJs: true, noLib: true, target: ts.ScriptTarget.ESNext },
    {
      ...ts.createCompilerHost({}),
      getSourceFile: (path) => (path === "x.js" ? file : undefined),
    },
  );
  const checker = program.getTypeChecker();
  const mutants: Mutant[] = [];
  const replace = (from: number, to: number, by: string, why: string): void => {
    const mutated = whole.slice(before.length, from) + by + whole.slice(to, whole.length - before.length);
    if (mutated !== source)
      mutants.push({ what: `${name}: ${why}: ${whole.slice(from, to).slice(0, 60)} -> ${by.slice(0, 60)}`, source: mutated });
  };
  const swap = (node: ts.Node, by: string, why: string): void => replace(node.getStart(), node.getEnd(), by, why);
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) swap(node, '"mutated"', "text");
    // `void 0`, `!1` and `1 / 0` are as good with any other number.
    if (ts.isNumericLiteral(node) && !ts.isVoidExpression(node.parent) && !isAnyNumber(node))
      swap(node, `${Number(node.text) * 2 + 7}`, "number");
    if (node.kind === ts.SyntaxKind.TrueKeyword) swap(node, "false", "boolean");
    if (node.kind === ts.SyntaxKind.FalseKeyword) swap(node, "true", "boolean");
    if (node.kind === ts.SyntaxKind.RegularExpressionLiteral) swap(node, "/mutated/", "pattern");
    if (ts.isTemplateHead(node) || ts.isTemplateMiddle(node))
      replace(node.getStart() + 1, node.getEnd() - 2, "mutated", "template");
    if (ts.isBinaryExpression(node)) {
      const operator = node.operatorToken.getText();
      const other = OTHER[operator];
      if (other !== undefined) swap(node.operatorToken, ` ${other} `, "operator");
    }
    if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.ExclamationToken)
      swap(node, node.operand.getText(), "not");
    if (ts.isPostfixUnaryExpression(node))
      swap(node, node.getText().endsWith("++") ? `${node.operand.getText()}--` : `${node.operand.getText()}++`, "step");
    if (ts.isAwaitExpression(node)) swap(node, `(${node.expression.getText()})`, "await");
    if (ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.name)) swap(node.name, "mutated", "property");
    if (ts.isPropertyAccessExpression(node) && node.questionDotToken) swap(node.questionDotToken, ".", "optional");
    if (ts.isPropertyAssignment(node) && ts.isIdentifier(node.name)) swap(node.name, "mutated", "key");
    if (
      ts.isIdentifier(node) &&
      isUse(node) &&
      checker.getSymbolAtLocation(node)?.declarations === undefined &&
      node.text !== "undefined"
    )
      swap(node, "mutated", "name from outside");
    if (ts.isCallExpression(node) && node.arguments.length > 1) {
      const [one, two] = node.arguments as unknown as [ts.Node, ts.Node];
      if (one.getText() !== two.getText())
        replace(one.getStart(), two.getEnd(), `${two.getText()}, ${one.getText()}`, "order of arguments");
    }
    if (ts.isBlock(node)) {
      for (const [at, statement] of node.statements.entries()) {
        const next = node.statements[at + 1];
        if (ts.isFunctionDeclaration(statement)) continue;
        swap(statement, ";", "statement gone");
        const acts = (each: ts.Statement | undefined): boolean =>
          each !== undefined && /[(.]/.test(each.getText()) && !ts.isFunctionDeclaration(each);
        if (next !== undefined && acts(statement) && acts(next))
          replace(statement.getStart(), next.getEnd(), `${next.getText()}\n${statement.getText()}`, "order of statements");
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return mutants;
}

const OTHER: Readonly<Record<string, string>> = {
  ...{
    "+": "-",
    "-": "+",
    "*": "/",
    "/": "*",
    "%": "*",
    "**": "*",
    "===": "!==",
    "!==": "===",
    "==": "!=",
    "<": "<=",
    ">": ">=",
    "<=": "<",
    ">=": ">",
  },
  ...{ "&&": "||", "||": "&&", "??": "||", "+=": "-=", "-=": "+=", "||=": "&&=", "??=": "||=" },
};

/** Whether it is the use of a variable, not a declaration, key or property. */
function isUse(node: ts.Identifier): boolean {
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node;
  if (ts.isPropertyAssignment(parent)) return parent.initializer === node;
  if (ts.isVariableDeclaration(parent) || ts.isParameter(parent)) return parent.initializer === node;
  if (ts.isBindingElement(parent) || ts.isShorthandPropertyAssignment(parent)) return false;
  return (
    !ts.isFunctionLike(parent) &&
    !ts.isClassLike(parent) &&
    !ts.isLabeledStatement(parent) &&
    !ts.isBreakOrContinueStatement(parent) &&
    !ts.isPropertyDeclaration(parent)
  );
}

function isAnyNumber(node: ts.Node): boolean {
  if (/^\d+ ?\/ ?0$/.test(node.parent.getText())) return true;
  return ts.isPrefixUnaryExpression(node.parent) && node.parent.operator === ts.SyntaxKind.ExclamationToken;
}

describe("S8.5 a change of what a function does is seen", () => {
  const builds = builtCorpus([
    ["esbuild", "es2022", "esm"],
    ["esbuild minifySyntax", "es2022", "esm"],
  ]);

  test.each([
    ["as written", 0],
    ["minified", 1],
  ])("S8.5 property: each literal, operator, name, property and statement of each function of the corpus, %s", (_, at) => {
    const mutants = Object.entries(builds[at]!).flatMap(([name, source]) =>
      mutantsOf(name, source).map((mutant) => ({ ...mutant, from: source })),
    );
    expect(mutants.length).toBeGreaterThan(500);
    const unseen = mutants.filter(({ source, from }) => {
      const mutated = canonicalSource(source);
      return mutated !== undefined && JSON.stringify(mutated) === text(from);
    });
    expect(unseen.map(({ what }) => what)).toEqual([]);
  });
});
