import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { transformSync } from "@swc/core";
import fc from "fast-check";
import { normalised } from "../../src/testing-internal";

const same = (one: string, other: string): void => expect(normalised(one)).toBe(normalised(other));
const differ = (one: string, other: string): void => expect(normalised(one)).not.toBe(normalised(other));

/** What a compiler makes of it: the same for sources that mean the same. */
function compiled(source: string): string {
  const minify = { compress: false, mangle: false, format: { comments: false } } as const;
  const jsc = { parser: { syntax: "ecmascript" }, target: "es2022", minify } as const;
  return transformSync(source, { minify: true, jsc, configFile: false, swcrc: false }).code;
}

function sourcesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".cjs"))
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"));
}

describe("S3.3 the source of a node: what does not count", () => {
  test("S3.3 comments, indentation, blank lines, trailing blanks and line endings", () => {
    same("() => {\n  return 1;\n}", "() => {\r\n\r\n\treturn 1; // one\r\n}");
    same("(a) => a /* b */ + 1", "(a) => a + 1");
    same("() => {\n// x\n/* y\n */\nreturn 1;\n}", "() => {\nreturn 1;\n}");
  });

  test("S3.3 a library's own sources compile to the same after normalising: nothing but comments and blanks went", () => {
    const sources = sourcesIn(join(dirname(require.resolve("@langchain/langgraph")), "pregel"));
    const untold = sources.map((source) => source.replaceAll("@__PURE__", "").replaceAll(/\r\n?/g, "\n"));
    const shortened = untold.filter((source) => normalised(source) !== source);
    expect(shortened.length).toBeGreaterThan(20);
    expect(shortened.length).toBeGreaterThan(untold.length * 0.9);
    for (const source of shortened) expect(compiled(normalised(source))).toBe(compiled(source));
  });
});

describe("S3.3 the source of a node: what counts", () => {
  test("S3.3 everything inside strings, templates and regular expressions", () => {
    differ('() => "a  b"', '() => "a b"');
    differ("() => 'a // b'", "() => 'a '");
    differ("() => `a  ${1}  b`", "() => `a ${1} b`");
    differ("() => `a\n  b`", "() => `a\nb`");
    differ("() => `${`/* x */`}`", "() => `${``}`");
    differ("() => /a  b/", "() => /a b/");
    differ("() => /[/*]  x/", "() => /[/*] x/");
    differ("(s) => s.replace(/'/g, ' // x')", "(s) => s.replace(/'/g, ' // y')");
    differ('() => { return /"/.test(x) // "a\n&& b }', '() => { return /"/.test(x) // "a\n&& c }');
  });

  test("S3.3 a line break where it ends a statement", () => {
    differ("() => { return\n1 }", "() => { return 1 }");
    differ("() => { return /*\n*/ 1 }", "() => { return 1 }");
  });

  test("S3.3 where it is uncertain whether a slash divides, comments count as well, rather than that code does not", () => {
    differ("() => { if (x) /'/.test(y) // '\n; return 1 }", "() => { if (x) /'/.test(y) // '\n; return 2 }");
    differ("(a) => (a) / 2 // x", "(a) => (a) / 2 // y");
    expect(normalised("() => 'not closed")).toBe("() => 'not closed");
    expect(normalised("a /* not closed")).toBe("a /* not closed");
    expect(normalised("`not closed ${1")).toBe("`not closed ${1");
  });

  test("S3.3 property: normalising again changes nothing, regardless of the text", () => {
    const token = fc.constantFrom(..."'\"`/*\\ \n\t{}()$a1;=+-[]", "//", "/*", "*/", "${", "return", "\r\n");
    fc.assert(
      fc.property(
        fc.array(token, { maxLength: 40 }).map((tokens) => tokens.join("")),
        (text) => {
          expect(normalised(normalised(text))).toBe(normalised(text));
        },
      ),
      { numRuns: 2000 },
    );
  });
});
