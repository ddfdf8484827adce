import { RunnableLambda } from "@langchain/core/runnables";
import { canonicalSource, compareFingerprints, normalised, shapeOf, withoutNames } from "../../src/testing-internal";
import { builtCorpus, bundledGraph, type Format, type Target, TOOLS } from "./builds/build";

type Build = [tool: string, target: Target, format: Format];
const BUILDS: Build[] = [
  ["tsx", "esnext", "esm"],
  ...Object.keys(TOOLS).flatMap((tool) =>
    (["es2020", "es2022", "esnext"] as const).flatMap((target) =>
      (["esm", "cjs"] as const).map((format): Build => [tool, target, format]),
    ),
  ),
];

const corpus = builtCorpus(BUILDS);
const sourcesOf = (tool: string, target: Target, format: Format) =>
  corpus[BUILDS.findIndex((build) => build.join() === [tool, target, format].join())]!;
const tsx = corpus[0]!;
const NAMES = Object.keys(tsx);

const text = (source: string, anyNames = false): string => {
  const canonical = canonicalSource(source) ?? normalised(source);
  return JSON.stringify(anyNames ? withoutNames(canonical) : canonical);
};
/** How the functions of one build compare with tsx's: the same, but for names from outside, otherwise. */
function compared(tool: string, target: Target, format: Format) {
  const built = sourcesOf(tool, target, format);
  const [same, names, other]: [string[], string[], string[]] = [[], [], []];
  for (const name of NAMES) {
    const [one, two] = [tsx[name]!, built[name]!];
    (text(one) === text(two) ? same : text(one, true) === text(two, true) ? names : other).push(name);
  }
  return { same: same.length, names, other };
}

// A field of a class, and `a.b ??= c`, are other programs in ES2020: what esbuild, swc and tsc make of them isn't the same either.
const NEWER = ["inherited", "logical", "parameterProperties", "privateFields"];
// tsx and esbuild put the values of an enum where it is used; the enum itself is made in another way by each.
const ENUMS = ["enums"];
const IMPORTED_OBJECTS = ["arrow", "money", "parallel", "toolCalls", "respond", "Agent"];

describe("S8.5 one source, many builds: what a node's fingerprint is made of", () => {
  test("S8.5 every function of the corpus is parsed, in every build", () => {
    expect(NAMES.length).toBeGreaterThanOrEqual(25);
    const untold = BUILDS.flatMap((build, at) =>
      NAMES.filter((name) => canonicalSource(corpus[at]![name]!) === undefined).map((name) => [...build, name]),
    );
    expect(untold).toEqual([]);
  });

  test.each(["es2022", "esnext"] as const)(
    "S8.5 ES modules of target %s: tsx, esbuild, swc and tsc agree, whitespace and syntax minified too",
    (target) => {
      for (const tool of ["esbuild", "esbuild keepNames"])
        expect(compared(tool, target, "esm")).toEqual({ same: NAMES.length, names: [], other: [] });
      for (const tool of ["swc", "tsc", "esbuild minifySyntax"])
        expect(compared(tool, target, "esm")).toEqual({ same: NAMES.length - 1, names: [], other: ENUMS });
    },
  );

  test.each(["es2022", "esnext"] as const)(
    "S8.5 fully minified ES modules of target %s differ in names from outside alone, and that is told",
    (target) => {
      const { same, names, other } = compared("esbuild minify", target, "esm");
      expect([same, names.length, other]).toEqual([22, 15, ENUMS]);
    },
  );

  test.each(["es2022", "esnext"] as const)(
    "S8.5 CommonJS of target %s: imported functions agree; imported objects have each tool's names",
    (target) => {
      for (const tool of ["esbuild", "esbuild keepNames"])
        expect(compared(tool, target, "cjs")).toEqual({ same: NAMES.length - 6, names: IMPORTED_OBJECTS, other: [] });
      for (const tool of ["swc", "tsc"])
        expect(compared(tool, target, "cjs")).toEqual({ same: NAMES.length - 7, names: IMPORTED_OBJECTS, other: ENUMS });
    },
  );

  test("S8.5 an older target agrees but for what has no equal in it", () => {
    expect(compared("esbuild", "es2020", "esm")).toEqual({ same: NAMES.length - 4, names: [], other: NEWER });
    for (const tool of ["swc", "tsc"])
      expect(compared(tool, "es2020", "esm")).toEqual({
        same: NAMES.length - 5,
        names: [],
        other: ["enums", ...NEWER].sort((a, b) => NAMES.indexOf(a) - NAMES.indexOf(b)),
      });
  });

  test("S8.5 no two functions of the corpus are the same, in any build", () => {
    for (const built of corpus) {
      const { method: _, property: __, respond: ___, ...different } = built;
      expect(new Set(Object.values(different).map((source) => text(source, true))).size).toBe(NAMES.length - 3);
    }
  });
});

describe("S8.5 a bundle that has LangGraph and LangChain in it", () => {
  test("S8.5 fully minified it is the same graph: library classes are known by what no minifier changes", () => {
    const [plain, minified] = [bundledGraph({ packages: "external" }), bundledGraph({ minify: true })];
    expect(minified.channels).toEqual(plain.channels);
    const completed = Object.keys(plain.nodes);
    expect(completed.sort()).toEqual(
      ["__start__", "branch", "chain", "lambda", "own", "parallel", "plain", "retry", "sequence", "tools"].sort(),
    );
    // A class of the user extends a name from outside.
    expect(compareFingerprints(plain, minified, { completed })).toMatchObject({
      changed: [{ node: "own", what: ["source"], onlyNames: true }],
      channels: { added: [], removed: [], changed: [] },
    });
  });

  test("S8.5 a user's subclass of a library class counts, even if its lc_name returns that class's name", () => {
    class Own extends RunnableLambda<object, object> {
      static override lc_name() {
        return "RunnableLambda";
      }
      override async invoke() {
        return { own: true };
      }
    }
    expect(shapeOf(new Own({ func: () => ({}) })).shape).toMatchObject({ kind: "RunnableLambda", classes: [{}] });
    expect(shapeOf(new RunnableLambda({ func: () => ({}) })).shape).not.toHaveProperty("classes");
  });
});
