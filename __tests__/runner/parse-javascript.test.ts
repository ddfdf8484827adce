import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "acorn";
import { parseScript } from "../../src/testing-internal";

/** Without positions and what follows from the rest. */
function bare(node: unknown): unknown {
  if (typeof node === "bigint") return `${node}n`;
  if (Array.isArray(node)) return node.map(bare);
  if (typeof node !== "object" || node === null) return node;
  const { start: _, end: __, directive: ___, ...rest } = node as Record<string, unknown>;
  if (rest["type"] === "Literal") return "regex" in rest ? { regex: rest["regex"] } : { literal: bare(rest["value"]) };
  return Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, bare(value)]));
}

function expectAsAcorn(source: string): void {
  const options = { ecmaVersion: "latest", sourceType: "script", allowReturnOutsideFunction: true } as const;
  expect(bare(parseScript(source))).toEqual(bare(parse(source, options).body));
}

function scriptsOf(name: string): string[] {
  return readdirSync(dirname(require.resolve(name)), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".cjs"))
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"));
}

describe("S8.5 the parser of node functions", () => {
  test("S8.5 reads the libraries' own code as acorn does", () => {
    const sources = scriptsOf("@langchain/langgraph");
    expect(sources.length).toBeGreaterThan(50);
    for (const source of sources) expectAsAcorn(source);
  }, 120_000);

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
  ])("S8.5 reads %j as acorn does", expectAsAcorn);

  test("S8.5 what it doesn't know it refuses", () => {
    for (const source of ["@a class B {}", "with (a) b", "using x = y", "010", "'\\07'", "a b", "`open", "{", "a => ", "<a />"])
      expect(() => parseScript(source)).toThrow(SyntaxError);
  });
});
