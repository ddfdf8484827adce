import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { TORTURES } from "../../torture/tortures";
import { testTitles } from "./titles";

/** docs/guarantees.md, its proofs and requirements beside the tests they cite, and the two requirements that are about the repository itself. */
const root = path.resolve(__dirname, "..", "..");
const read = (...names: string[]): string => readFileSync(path.join(root, ...names), "utf8");
const guarantees = read("docs", "guarantees.md");
/** What was tried in long runs: these rows cite commands and suites. */
const figures = guarantees.slice(guarantees.indexOf("## Figures"), guarantees.indexOf("## Not promised"));
const proven = read("docs", "architecture", "proofs.md");
const promises = proven + read("docs", "architecture", "requirements.md");
const titles = testTitles(path.join(root, "__tests__"));
const shortTitles = testTitles(path.join(root, "__tests__"), true);

/** How many requirements each system has. */
const SYSTEMS = { S1: 11, S2: 9, S3: 8, S4: 7, S5: 6, S6: 8, S7: 6, S8: 8, S9: 7 };
/** Of S10, what is built. */
const BUILT = ["S10.1", "S10.2", "S10.3", "S10.4", "S10.5"];
const NUMBERS = Object.entries(SYSTEMS)
  .flatMap(([system, count]) => Array.from({ length: count }, (_, index) => `${system}.${index + 1}`))
  .concat(BUILT);

interface Citation {
  file: string;
  title: string;
}

/** `file.test.ts`: `title`, `title …`; … */
function citations(text: string): Citation[] {
  const cited: Citation[] = [];
  let file = "";
  for (const [, name, title] of text.matchAll(/`([\w.-]+\.test\.ts)`:|`([^`\n]+)`(?=[,; |])/g)) {
    if (name !== undefined) file = name;
    else if (file !== "") cited.push({ file, title: title!.replace(/\s*…$/, "") });
  }
  return cited;
}

/** The tests that a citation may mean. */
const meant = ({ file, title }: Citation): string[] => (titles.get(file) ?? []).filter((full) => full.includes(title));
const hasNumber = (title: string, number: string): boolean =>
  new RegExp(`\\b${number.replace(".", "\\.")}\\b(?!\\.)`).test(title);

/** Rows of tables whose last cell says what proves the rest. */
const proofs = promises
  .split("\n")
  .filter((line) => line.startsWith("| ") && line.includes(".test.ts`"))
  .map((line) => ({ promise: line.split(" | ")[0]!.slice(2), cited: citations(line.slice(line.indexOf(" | ") + 1)) }));

test("Guarantees: each promise cites tests, and each of them exists", () => {
  expect(proofs.length).toBeGreaterThan(60);
  expect(proofs.filter(({ cited }) => cited.length === 0)).toEqual([]);
  const missing = proofs.flatMap(({ cited }) => cited.filter((citation) => meant(citation).length === 0));
  expect(missing).toEqual([]);
});

test("Guarantees: what the page promises is what is proven, in the same order", () => {
  const promised = guarantees.slice(guarantees.indexOf("## Promises"), guarantees.indexOf("## Figures"));
  const lines = (text: string, mark: string): string[] => text.split("\n").filter((line) => line.startsWith(mark));
  const rows = lines(proven, "| ").filter((line) => !line.startsWith("| promise |"));
  const inOneLine = promised.replace(/\n {2}/g, " ");
  expect(lines(inOneLine, "- ").map((line) => line.slice(2))).toEqual(rows.map((line) => line.slice(2).split(" | ")[0]!.trim()));
});

test("Guarantees: each promise is proven, or the row is no promise: no table has a row without a test", () => {
  const rows = promises.split("\n").filter((line) => /^\| (?!number|promise)/.test(line));
  expect(rows.filter((line) => !line.includes(".test.ts`"))).toEqual([]);
});

test("Guarantees: each figure says how it is had again, and what of it runs in CI; all of it exists", () => {
  const rows = figures.split("\n").filter((line) => /^\| (?!tried)/.test(line));
  expect(rows.length).toBeGreaterThan(8);
  for (const row of rows) {
    const [, , , , again = "", inCi = ""] = row.split(" | ").flatMap((cell, index) => (index === 0 ? ["", cell] : [cell]));
    const suites = [
      ...[...again.matchAll(/`(?:TURNS_LONG=1 )?npx jest ([^`]+)`/g)].flatMap(([, names]) =>
        names!.split(" ").map((name) => `${name}.test.ts`),
      ),
      ...[...inCi.matchAll(/`([\w.-]+\.test\.ts)`/g)].map(([, name]) => name!),
    ];
    const [, torture] = /`npm run torture -- (\S+?)[ `]/.exec(again) ?? [];
    expect([row, suites.length, suites.filter((suite) => !titles.has(suite))]).toEqual([row, expect.any(Number), []]);
    expect([row, suites.length > 0, /`(TURNS_LONG=1 )?np[mx] /.test(again)]).toEqual([row, true, true]);
    if (torture !== undefined) expect([torture, Object.keys(TORTURES).includes(torture)]).toEqual([torture, true]);
  }
});

test.each(NUMBERS)(
  "Guarantees: %s is in the title of a test, and its row in docs/architecture/requirements.md cites one that has it",
  (number) => {
    const all = [...titles.values()].flat().filter((title) => hasNumber(title, number));
    expect(all).not.toEqual([]);
    const row = proofs.find(({ promise }) => promise === number);
    expect(row?.cited.flatMap(meant).filter((title) => hasNumber(title, number)) ?? []).not.toEqual([]);
  },
);

test("Guarantees: each number that a test's title names is in a title of the short lane, or of the one on PostgreSQL", () => {
  const jest = path.join(root, "node_modules", "jest", "bin", "jest.js");
  const listed = (config: string): string[] =>
    execFileSync(process.execPath, [jest, "--config", config, "--listTests"], {
      cwd: root,
      encoding: "utf8",
      env: { ...process.env, NODE_OPTIONS: "" },
    })
      .trim()
      .split("\n")
      .map((suite) => path.basename(suite));
  const short = new Set(listed("jest.short.config.mjs"));
  for (const suite of listed("jest.postgres.config.mjs")) if (suite.includes("postgres")) short.add(suite);
  const numbersIn = (found: typeof titles, files: readonly string[]): string[] => [
    ...new Set(files.flatMap((file) => found.get(file) ?? []).flatMap((title) => title.match(/\b[SUI]\d+(\.\d+)?\b/g) ?? [])),
  ];
  const all = [...titles.keys()];
  const held = numbersIn(
    shortTitles,
    all.filter((file) => short.has(file)),
  );
  expect(short.size).toBeGreaterThan(80);
  expect(numbersIn(titles, all).filter((number) => !held.includes(number))).toEqual([]);
});

test("Guarantees: no test names a requirement that does not exist", () => {
  const named = [...titles.values()].flat().flatMap((title) => title.match(/\bS\d\.\d+\b/g) ?? []);
  expect([...new Set(named)].filter((number) => !NUMBERS.includes(number))).toEqual([]);
});

test("Guarantees: the files it links to exist", () => {
  const links = [...guarantees.matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g)].map((match) => match[1]!);
  for (const link of links) expect(read("docs", link).length).toBeGreaterThan(0);
});

test("Titles: describes are part of a title, rows and templates stay unfilled, skipped tests do not count", () => {
  expect(titles.get("guarantees.test.ts")).toContain("Guarantees: the files it links to exist");
  expect(titles.get("guarantees.test.ts")).toContain(
    "S1.11 state-management.md has the section, its table and the Thought/Action model",
  );
  expect(titles.get("gates.test.ts")).toContain("S3.4 gates: settings S3.4 %j is refused by name");
});

test("S1.10 one command runs the persister's tests, and its branch coverage is held at 90 %", () => {
  const jest = path.join(root, "node_modules", "jest", "bin", "jest.js");
  const ask = (option: string): string =>
    execFileSync(process.execPath, [jest, "langgraph-checkpoints", "--ci", option], {
      cwd: root,
      encoding: "utf8",
      env: { ...process.env, NODE_OPTIONS: "" },
    });
  expect(ask("--listTests").trim().split("\n")).toEqual([path.join(root, "__tests__", "s1", "langgraph-checkpoints.test.ts")]);
  const { globalConfig } = JSON.parse(ask("--showConfig")) as {
    globalConfig: { coverageThreshold: Record<string, { branches: number }> };
  };
  expect(globalConfig.coverageThreshold["./src/turns/checkpoint-persister.ts"]?.branches).toBeGreaterThanOrEqual(90);
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  expect(read(".ci", "run")).toMatch(/^ *npx jest langgraph-checkpoints --ci --coverage .*checkpoint-persister/m);
  expect(scripts["typecheck"]).toContain("tsc --noEmit");
});

test("S1.11 state-management.md has the section, its table and the Thought/Action model", () => {
  const section = read("docs", "architecture", "state-management.md")
    .split(/^## /m)
    .find((text) => text.startsWith("LangGraph Checkpoint Persistence\n"));
  expect(section).toContain("### The Thought/Action model");
  const columns = ["id", "graph_id", "node_name", "turn_type", "serialized_state", "task_id", "created_at"];
  for (const column of columns) expect(section).toContain(`\n| \`${column}\` | TEXT`);
});

test("S1.11 a decision record says why turns are saved separately", () => {
  const [first = ""] = readdirSync(path.join(root, "docs", "decisions")).sort();
  expect(first).toContain("turns-are-saved-separately");
  expect(read("docs", "decisions", first)).toContain("completed turns are not run again");
});

test("Docs: state-management.md names every table and every column of the turns and of the journal", () => {
  const sql = read("migrations", "sqlite", "0001_turns_and_checkpoints.sql");
  const text = read("docs", "architecture", "state-management.md");
  const tables = [...sql.matchAll(/^CREATE TABLE (\w+)/gm)].map((match) => match[1]!);
  expect(tables.length).toBeGreaterThan(10);
  expect(tables.filter((table) => !text.includes(`\`${table}\``))).toEqual([]);
  const columnsOf = (table: string): string[] => {
    const [, body = ""] = new RegExp(`^CREATE TABLE ${table} \\(\\n([^;]*?)\\n\\)`, "m").exec(sql) ?? [];
    return [...body.matchAll(/^ {2}(\w+) +(?:TEXT|INTEGER|ANY)/gm)].map((match) => match[1]!);
  };
  for (const table of ["langgraph_checkpoints", "langgraph_effects"]) {
    expect(columnsOf(table).length).toBeGreaterThan(20);
    expect(columnsOf(table).filter((column) => !text.includes(`\`${column}\``))).toEqual([]);
  }
});
