/**
 * `npm run broken-builds`: takes one promise at a time out of the source, and sees that tests fail which pass before. The suites are those
 * that hold the promise; if all of them passed, nobody would notice its loss.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { copyTree, root } from "./tree-copy.mjs";

const BROKEN = [
  {
    what: "a node's body doesn't wait for the commit of its Thought",
    file: "src/turns/recorder.ts",
    from: "return this.recorder.chainStarts(this.graph, inputs, started).catch(throwUnprinted);",
    to: "void this.recorder.chainStarts(this.graph, inputs, started).catch(() => undefined);\n    return Promise.resolve();",
    tests: ["store/commit-queue", "--testNamePattern", "S7.1 (a chain:|retries:|interrupts:)"],
  },
  {
    what: "a commit loses its last change",
    file: "src/store/session.ts",
    from: "for (const turn of key.takeTurns()) yield*",
    to: "for (const turn of [...key.takeTurns()].slice(0, -1)) yield*",
    tests: ["store/commit-queue", "--testNamePattern", "S7.1 (a chain:|retries:|interrupts:)"],
  },
  {
    what: "a commit leaves its last request out, and tells that it was saved",
    file: "src/store/commit-queue.ts",
    from: "    for (const job of jobs) {\n      let isAtFailpoint",
    to: "    for (const job of jobs.slice(0, Math.max(1, jobs.length - 1))) {\n      let isAtFailpoint",
    tests: ["store/commit-queue", "--testNamePattern", "S7.1 (a chain:|retries:|interrupts:)"],
  },
  {
    what: "nobody notices that another connection has written",
    file: "src/store/sqlite/engine.ts",
    from: "    return isChanged;\n",
    to: "    return false;\n",
    tests: ["concurrency/stale-facts", "--testNamePattern", "two savers of one process on one file"],
  },
];

const copy = path.join(root, ".tmp", "broken-builds");
copyTree(copy);
if (!existsSync(path.join(copy, "node_modules")))
  symlinkSync(path.join(root, "node_modules"), path.join(copy, "node_modules"), "dir");

/** @returns how many tests passed and failed */
function tested(tests) {
  const jest = path.join(copy, "node_modules", "jest", "bin", "jest.js");
  const args = [jest, "--config", "jest.short.config.mjs", "--ci", "--json", "--testTimeout", "20000", ...tests];
  const { stdout } = spawnSync(process.execPath, args, { cwd: copy, encoding: "utf8", maxBuffer: 2 ** 28, timeout: 600_000 });
  const { numPassedTests: passed, numFailedTests: failed } = JSON.parse(stdout || "{}");
  return { passed, failed };
}

let unnoticed = 0;
for (const { what, file, from, to, tests } of BROKEN) {
  const place = path.join(copy, file);
  const source = readFileSync(place, "utf8");
  if (source.split(from).length !== 2) throw new Error(`${file} has not exactly one place that is: ${from}`);
  const whole = tested(tests);
  writeFileSync(
    place,
    source.replace(from, () => to),
  );
  const broken = tested(tests);
  writeFileSync(place, source);
  const isNoticed = whole.passed > 0 && whole.failed === 0 && broken.failed > 0;
  if (!isNoticed) unnoticed += 1;
  console.log(
    `${isNoticed ? "noticed" : "NOT NOTICED"}  ${what}: ${whole.passed} passed, ${whole.failed} failed before, ${broken.failed} failed after`,
  );
}
process.exit(unnoticed === 0 ? 0 : 1);
