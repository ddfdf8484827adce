import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "acorn";
import { canonicalSource } from "../../src/testing-internal";

function scriptsOf(name: string): string[] {
  return readdirSync(dirname(require.resolve(name)), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".cjs"))
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"));
}

const FUNCTION = /^(?:Function|ArrowFunction|Class)(?:Expression|Declaration)$/;

/** The text of each function, class and method in a script, as the engine gives it. */
function functionsIn(script: string): string[] {
  const found: string[] = [];
  const visit = (part: unknown): void => {
    if (typeof part !== "object" || part === null) return;
    const { type, start, end, ...rest } = part as { type?: string; start: number; end: number } & Record<string, unknown>;
    const isMethod = type === "MethodDefinition" || (type === "Property" && (rest["method"] === true || rest["kind"] !== "init"));
    const isWhole = isMethod ? rest["kind"] !== "constructor" : type !== undefined && FUNCTION.test(type);
    if (isWhole) found.push(script.slice(start, end).replace(/^static\s+/, ""));
    // A method's function begins at its parentheses: no engine gives that text.
    if (isMethod) visit([rest["key"], (rest["value"] as { params: unknown }).params, (rest["value"] as { body: unknown }).body]);
    else Object.values(rest).forEach(visit);
  };
  visit(parse(script, { ecmaVersion: "latest", sourceType: "script" }));
  return found;
}

describe("S8.5 the parser of node functions", () => {
  test("S8.5 reads every function of the libraries' own code", () => {
    const sources = scriptsOf("@langchain/langgraph").flatMap(functionsIn);
    expect(sources.length).toBeGreaterThan(500);
    expect(sources.filter((source) => canonicalSource(source) === undefined)).toEqual([]);
  }, 300_000);

  test.each([
    "a = b\n++c",
    "x = a / b / c; y = a++ / 2; z = (a) / 2 / /re/g.exec(b)",
    "for (var i in {}) {}",
    "for (const x of (a, b)) for (let [y] in z) for (q.p of r) continue",
    "for (let i = (a in b); i < 2; i++);",
    "async () => { for await (const { a = 1, ...b } of c()) await a, await (async (x) => x)(b) }",
    "var async; async = 1; async(2); async\nfunction f() {}",
    "async function* f() { yield; yield* g(); const x = yield a; [yield, yield b]; (yield) ? 1 : 2 }",
    "({ get a() { return 1 }, set a(v) {}, get: 1, set, async, async b() {}, *c() {}, async *d() {}, [e]: 1, 'f': 2, 3: 4, get [g]() { return 1 }, ...h })",
    "class A extends (b, c) { static #x = 1; #y; static { this.#x = 2 } get z() { return #x in this } static async *[w]() {} static; get; 'constructor'() {} }",
    "new a.b.c(1)(2).d; new (f())(); new new X()(); new a; function F() { new.target.x }",
    "a?.b?.[c]?.(d).e; (a?.b).c; a?.5:1; delete a?.b",
    "`a${`b${c}`}d\\`${{}}`; f`\\u{zz}${1}`; `$${x}$`",
    "label: for (;;) { if (a) break label; else continue label }",
    "if (a) b; else if (c) d\nelse e",
    "do x++; while (x < 5) y",
    "[a, , b = 1, ...[c]] = d; ({ a, b: { c = 1 }, ...d } = e)",
    "(a, b) => {}; (a = (b) => c, { d, e: [f] } = {}, ...g) => ({}); a => b => c; async a => await a",
    "0x1f + 0b11 + 0o17 + 1_000.5e-3 + .5 + 5. + 10n + 1e3",
    "'\\x41\\u0041\\u{1F600}\\n\\\n\\0'; \"it's\"",
    "a ?? b; (a || b) ?? c; a ** -b; (-a) ** b ** c; !(a in b) instanceof c",
    "switch (a) { case 1: case 2: b; break; default: c }",
    "try { a } catch { b } finally { c } try { } catch ({ message: [m] }) { }",
    "var of = 1, let_ = of, get = 2, yield_ = typeof void delete a.b",
    "import('x').then(); import('x', { with: {} })",
    "return\na",
    "const é = 1, aé = é, ñandú = { é }; class A { #é = aé }",
    "/[/\\]]+/gu.test(x) ? /=/ : a /= 2",
  ])("S8.5 reads a function whose body is %j", (body) => {
    expect(canonicalSource(`async function* f() { ${body} }`) ?? canonicalSource(`() => { ${body} }`)).toBeDefined();
  });

  test.each([
    "(a, b) => a + b",
    "async (a) => await a",
    "function () {}",
    "async function* named() { yield* other() }",
    "class A extends B { #c = 1; static d() { return super.d() } }",
    "method(a) { return super.method(a) + this.#private }",
    "async *method() {}",
    "get value() { return 1 }",
    "set value(v) {}",
    "[Symbol.iterator]() {}",
    "'quoted name'() {}",
    "#private() { return #other in this }",
    "constructor(a) { super(a) }",
  ])("S8.5 reads %j, whichever kind of function it is", (source) => {
    expect(canonicalSource(source)).toBeDefined();
  });

  test("S8.5 what it doesn't know it refuses", () => {
    const bodies = [
      "@a class B {}",
      "with (a) b",
      "using x = y",
      "010",
      "'\\07'",
      "a b",
      "`open",
      "{",
      "a => ",
      "<a />",
      "await using x = y",
    ];
    for (const source of [...bodies.map((body) => `async () => { ${body} }`), "a() {} b() {}", "() => {}; () => {}", "@a b() {}"])
      expect(canonicalSource(source)).toBeUndefined();
  });
});
