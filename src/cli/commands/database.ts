import { readFileSync } from "node:fs";
import { TurnsError } from "../../errors";
import { checkup, type Checkup, driftFindings, type Finding } from "../../inspection/doctor";
import { threadNamed } from "../../inspection/place";
import {
  channelSizes,
  type ChannelSize,
  type Prices,
  sizes,
  type Sizes,
  type TokenLine,
  type TokensBy,
  tokenTotals,
} from "../../inspection/totals";
import type { VerifyReport } from "../../integrity/verify";
import type { Drift } from "../../store/schema-drift";
import { atLeastOne, command, oneOf } from "../command";
import { DONE, FAILED, FOUND, INTERRUPTED, UsageError } from "../exit";
import { type Column, type Look, pairs, table } from "../look";
import { interruptible } from "../interrupt";
import { withProgress } from "../progress";
import type { Answer } from "../output";
import { toCopy, withCommands } from "../place";
import { turns } from "../../inspection/words";
import { bytes, count, oneLine, plural } from "../text";

const right = { align: "right" } as const;

export const SIZE = command<{ limit?: number }>({
  name: "size",
  args: "[thread]",
  summary: "what takes how much room: tables and threads, or the channels of a thread",
  examples: ["turns size", "turns size order-17", "turns size --limit 50 --json"],
  options: [["--limit <n>", "at most so many threads (default 10)", atLeastOne]],
  run: async (saver, [thread], { limit }) => {
    if (thread === undefined) {
      const data = await sizes(saver, limit);
      return { data, text: (look) => sizesText(data, look) };
    }
    const data = await channelSizes(saver, await threadNamed(saver, thread));
    const columns: readonly Column<ChannelSize>[] = [
      { title: "CHANNEL", value: ({ channel }) => channel, shrinks: 12 },
      { title: "SIZE", value: (line) => bytes(line.bytes), ...right },
      { title: "ELEMENTS", value: ({ elements }) => (elements === null ? "" : count(elements)), ...right },
    ];
    return { data, list: "channels", text: (look) => table(data.channels, columns, look) };
  },
});

function sizesText(data: Sizes, look: Look): string {
  const content = data.tables.reduce((sum, line) => sum + line.bytes, 0);
  const head = pairs(
    [
      ["database", oneLine(data.database)],
      ["on disk", `${bytes(data.bytes)}${data.freeBytes > 0 ? `, ${bytes(data.freeBytes)} of it free` : ""}`],
      ["content", bytes(content)],
    ],
    look,
  );
  const tables: readonly Column<Sizes["tables"][number]>[] = [
    { title: "CONTENT", value: ({ called }) => called },
    { title: "ROWS", value: ({ rows }) => count(rows), ...right },
    { title: "SIZE", value: (line) => bytes(line.bytes), ...right },
    { title: "TABLE", value: ({ table: name }) => name, optional: 1 },
  ];
  const threads: readonly Column<Sizes["threads"][number]>[] = [
    { title: "THREAD", value: ({ threadId }) => threadId, shrinks: 12 },
    { title: "ROWS", value: ({ rows }) => count(rows), ...right },
    { title: "SIZE", value: (line) => bytes(line.bytes), ...right },
  ];
  return [
    head,
    table(
      data.tables.filter(({ rows }) => rows > 0),
      tables,
      look,
    ),
    table(data.threads, threads, look),
  ].join("\n\n");
}

interface TokensOptions {
  by?: TokensBy;
  prices?: string;
}

const KINDS: readonly TokensBy[] = ["thread", "node", "task", "day"];

export const TOKENS = command<TokensOptions>({
  name: "tokens",
  args: "[thread]",
  summary: "what the models reported, by thread, node, task or day",
  examples: ["turns tokens", "turns tokens --by day", "turns tokens order-17 --by node --prices prices.json"],
  options: [
    ["--by <what>", `${KINDS.join(", ")} (default: thread; node for one thread)`, oneOf(KINDS)],
    ["--prices <file>", 'prices of a million tokens: { "input": 3, "output": 15, "cached": 0.3 }'],
  ],
  run: async (saver, [thread], { by, prices: file }) => {
    const threadIds = thread === undefined ? undefined : [await threadNamed(saver, thread)];
    const prices = file === undefined ? undefined : pricesIn(file);
    const data = await tokenTotals(saver, by ?? (thread === undefined ? "thread" : "node"), { threadIds, prices });
    const columns: Column<TokenLine>[] = [
      { title: data.by.toUpperCase(), value: ({ of }) => of, shrinks: 12 },
      { title: "INPUT", value: ({ input }) => count(input), ...right },
      { title: "CACHED", value: ({ cached }) => count(cached), ...right, optional: 1 },
      { title: "OUTPUT", value: ({ output }) => count(output), ...right },
      { title: "REASONING", value: ({ reasoning }) => count(reasoning), ...right, optional: 2 },
      { title: "TOTAL", value: ({ total }) => count(total), ...right },
    ];
    if (prices !== undefined) columns.push({ title: "COST", value: ({ cost = 0 }) => cost.toFixed(4), ...right });
    const text = (look: Look): string =>
      [
        data.lines.length === 0 && data.rewound === undefined
          ? "No model reported tokens."
          : table([...data.lines, data.total, ...(data.rewound === undefined ? [] : [data.rewound])], columns, look),
        ...data.damaged.map(({ threadId, code }) =>
          look.paint("red", `Not counted: ${oneLine(threadId)} is damaged (${code}). ${toCopy(turns("verify", [threadId]))}`),
        ),
      ].join("\n");
    return { data, list: "lines", text, exit: data.damaged.length > 0 ? FAILED : DONE };
  },
});

/** @throws {UsageError} */
function pricesIn(file: string): Prices {
  let found: Partial<Prices>;
  try {
    found = JSON.parse(readFileSync(file, "utf8")) as Partial<Prices>;
  } catch (error) {
    throw new UsageError(`The prices in ${file} can't be read: ${(error as Error).message}.`, "Give a JSON file.");
  }
  const { input, output, cached } = found;
  if (typeof input === "number" && typeof output === "number") return { input, output, cached };
  throw new UsageError(
    `The file ${file} has no prices.`,
    'It holds { "input": 3, "output": 15 }: the prices of a million tokens.',
  );
}

export const VERIFY = command({
  name: "verify",
  args: "[thread]",
  summary: "check that everything is as it was saved; exits with 3 if not",
  examples: ["turns verify", "turns verify order-17", "turns verify --json"],
  run: async (saver, [thread]) => {
    const threadId = thread === undefined ? undefined : await threadNamed(saver, thread);
    const data = await interruptible((signal) =>
      withProgress((progress) =>
        saver.verify({
          ...(threadId !== undefined && { threadId }),
          signal,
          onProgress: ({ table: next, checked }) => {
            const rows = Object.values<number>({ ...checked }).reduce((sum, one) => sum + one, 0);
            progress(`${count(rows)} rows checked${next === undefined ? "" : `, now ${next}`}`);
          },
        }),
      ),
    );
    const exit = !data.done ? INTERRUPTED : data.ok ? DONE : FOUND;
    return { data, text: (look) => verifyText(data, look), exit };
  },
});

const SHOWN = 20;

function verifyText({ ok, done, threads, checked, problems, problemCount, remarks }: VerifyReport, look: Look): string {
  const counts = Object.entries<number>({ ...checked }).filter(([, rows]) => rows > 0);
  const verdict = !done
    ? "Stopped before the end."
    : ok
      ? look.paint("green", "Everything is as it was saved.")
      : look.paint("red", `${plural(problemCount, "problem")} found.`);
  const told = problems.slice(0, SHOWN).map((problem) => `  ${oneLine(JSON.stringify(problem))}`);
  const rest = problemCount > SHOWN ? [`  and ${count(problemCount - SHOWN)} more: --json`] : [];
  const noted =
    remarks.length === 0
      ? []
      : [look.paint("dim", `${plural(remarks.length, "remark")} that ${remarks.length === 1 ? "is" : "are"} no damage: --json`)];
  return [
    verdict,
    `${plural(threads, "thread")}: ${counts.map(([name, rows]) => (rows === 1 ? `1 ${name.replace(/(?<=[cs]h|x)es$|s$/, "")}` : `${count(rows)} ${name}`)).join(", ")}`,
    ...told,
    ...rest,
    ...noted,
  ].join("\n");
}

export const DOCTOR = command({
  name: "doctor",
  summary: "how the database is set up, and what needs attention; exits with 3 if something does",
  examples: ["turns doctor", "turns doctor --json", "turns doctor --db postgresql://localhost/app"],
  run: async (saver) => doctorAnswer(await checkup(saver)),
  unopened: (error) => {
    if (!TurnsError.is(error, "SCHEMA_OUTDATED") || !Array.isArray(error.data["drift"])) return undefined;
    const findings = driftFindings(error.data["drift"] as readonly Drift[]);
    const none = { settings: {}, bytes: 0, freeBytes: 0, logBytes: 0 };
    return doctorAnswer({ database: String(error.data["file"]), node: process.version, ...none, findings });
  },
});

function doctorAnswer(data: Checkup): Answer {
  const exit = data.findings.some(({ kind }) => kind === "problem") ? FOUND : DONE;
  return { data, text: (look) => doctorText(data, look), exit };
}

function doctorText(data: Checkup, look: Look): string {
  const { settings, findings } = data;
  const free = data.freeBytes > 0 ? `, ${bytes(data.freeBytes)} free` : "";
  const log = data.logBytes > 0 ? `, ${bytes(data.logBytes)} of it the write-ahead log` : "";
  const size = `${bytes(data.bytes)}${free}${log}`;
  const head = pairs(
    [["database", oneLine(data.database)], ["size", size], ["node", data.node], ...Object.entries(settings)],
    look,
  );
  const told = findings.map(
    ({ kind, what, remedy }) => `${mark(kind, look)} ${oneLine(what)}\n  ${oneLine(withCommands(remedy))}`,
  );
  return [head, ...(told.length === 0 ? [look.paint("green", "Nothing needs attention.")] : told)].join("\n\n");
}

function mark(kind: Finding["kind"], { paint }: Look): string {
  return kind === "problem" ? paint("red", "problem:") : paint("yellow", "advice:");
}
