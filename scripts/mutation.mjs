/**
 * Mutation testing with Stryker: `npm run mutation -- <room> [--share 0.1] [--seed 1] [--only <part of a file's name>]`.
 *
 * Stryker is no dependency of this package: a copy of the tree in .tmp/mutation gets it, and the mutants are made there. A room has
 * thousands of mutants; `--share` takes that part of it, in windows of lines drawn by the seed, so that a run repeats.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { copyTree, installInto, root } from "./tree-copy.mjs";

const STRYKER = "9.5.1";
const WINDOW = 8;
/**
 * The quick suites that hold a room, without those that start processes: each mutant runs all its tests that pass through it. What
 * survives them may still die of a slow suite: try it by hand before you believe it.
 */
const ROOMS = {
  codec: ["codec", "codec-errors", "codec-parts", "codec-values", "mutants"],
  turns: ["turns", "handoffs", "tokens", "redaction", "mutants"],
  rewind: ["compensation", "compensation-unfinished", "compensation-gates", "requirements-s3", "mutants"],
  effects: ["effects", "effects-outcome", "effects-identity", "effects-edits", "mutants"],
};

const text = { type: "string" };
const { values, positionals } = parseArgs({ options: { share: text, seed: text, only: text }, allowPositionals: true });
const [room] = positionals;
if (!Object.hasOwn(ROOMS, room ?? "")) {
  console.error(
    `npm run mutation -- <${Object.keys(ROOMS).join("|")}> [--share 0.1] [--seed 1] [--only <part of a file's name>]`,
  );
  process.exit(2);
}

const copy = join(root, ".tmp", "mutation");
prepareCopy();
const mutate = drawn(Number(values.share ?? 0.1), Number(values.seed ?? 1), values.only ?? "");
const report = join(copy, `${room}.json`);
rmSync(report, { force: true });
writeFileSync(join(copy, "jest.mutation.config.mjs"), jestConfig(ROOMS[room]));
writeFileSync(join(copy, "stryker.config.json"), JSON.stringify(strykerConfig(mutate, report), null, 2));
console.log(`${room}: ${mutate.length} windows of ${WINDOW} lines, seed ${values.seed ?? 1}`);
const { status } = spawnSync(process.execPath, ["node_modules/@stryker-mutator/core/bin/stryker.js", "run"], {
  cwd: copy,
  stdio: "inherit",
});
if (existsSync(report)) tell(JSON.parse(readFileSync(report, "utf8")));
process.exit(status ?? 1);

function prepareCopy() {
  copyTree(copy);
  if (existsSync(join(copy, "node_modules", "@stryker-mutator", "core"))) return;
  const packages = ["core", "jest-runner"].map((name) => `@stryker-mutator/${name}@${STRYKER}`);
  installInto(copy, packages, 300_000);
}

function drawn(share, seed, only) {
  const random = generator(seed);
  const files = execFileSync("git", ["ls-files", `src/${room}/*.ts`], { cwd: root, encoding: "utf8" }).split("\n");
  return files
    .filter((file) => file !== "" && file.includes(only))
    .flatMap((file) => {
      const lines = readFileSync(join(root, file), "utf8").split("\n").length;
      const starts = Array.from({ length: Math.ceil(lines / WINDOW) }, (_, index) => index * WINDOW + 1);
      return starts.filter(() => random() < share).map((start) => `${file}:${start}-${Math.min(lines, start + WINDOW - 1)}`);
    });
}

/** mulberry32 */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function jestConfig(suites) {
  const matches = JSON.stringify(suites.map((suite) => `<rootDir>/__tests__/*/${suite}.test.ts`));
  return `import { default as base } from "./jest.config.mjs";
const { coverageThreshold: _1, collectCoverageFrom: _2, ...rest } = base;
export default { ...rest, modulePathIgnorePatterns: ["<rootDir>/dist/"], testMatch: ${matches} };
`;
}

function strykerConfig(mutate, fileName) {
  return {
    testRunner: "jest",
    jest: { projectType: "custom", configFile: "jest.mutation.config.mjs", enableFindRelatedTests: false },
    coverageAnalysis: "perTest",
    mutate,
    concurrency: 1,
    timeoutMS: 20_000,
    dryRunTimeoutMinutes: 10,
    ignoreStatic: true,
    // Mutated functions have larger frames, and some tests nest values 2,000 deep.
    testRunnerNodeArgs: ["--stack-size=3900"],
    reporters: ["json", "progress-append-only"],
    jsonReporter: { fileName },
    allowEmpty: true,
  };
}

function tell({ files }) {
  const all = Object.entries(files).flatMap(([file, { mutants }]) => mutants.map((mutant) => ({ file, ...mutant })));
  const count = (status) => all.filter((mutant) => mutant.status === status).length;
  const tried = count("Killed") + count("Timeout") + count("Survived") + count("NoCoverage");
  // A time-out is a loop that does not end, or a machine with too much to do: so they are named.
  const named = all.filter(({ status }) => status === "Survived" || status === "NoCoverage" || status === "Timeout");
  for (const { file, status, location, mutatorName, replacement } of named) {
    console.log(`${status}  ${file}:${location.start.line}:${location.start.column}  ${mutatorName}: ${oneLine(replacement)}`);
  }
  console.log(
    `of ${tried}: ${count("Killed")} killed, ${count("Timeout")} timed out, ${count("Survived")} survived, ${count("NoCoverage")} not covered`,
  );
}

function oneLine(source = "") {
  return source.replace(/\s+/g, " ").slice(0, 100);
}
