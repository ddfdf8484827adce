import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { Annotation, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { effect, TurnSaver } from "../../src/index";
import { LONG, WHOLE } from "../support/lane";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";
import { builtProgram } from "./built";

/*
 * A file of a million rows in the long lane, and of fifty thousand in CI: a long thread, and copies of it. Every command that
 * looks must answer in at most 200 MB, and its answer must be complete.
 */

jest.setTimeout(1_800_000);

const ROWS = WHOLE ? 1_000_000 : 50_000;
const MOST_KB = 200 * 1024;
/** Of the thread that is copied. */
const STEPS = LONG ? 600 : 120;
const path = tempFile();
let program = "";
const made = { threads: 0, rows: 0, turns: 0, effects: 0, turn: "" };

const State = Annotation.Root({ ...MessagesAnnotation.spec, left: Annotation<number>(), note: Annotation<string>() });

async function makeFile(): Promise<void> {
  const saver = TurnSaver.fromPath(path, { synchronous: "normal", logger: quiet, immutable: true });
  const builder = new StateGraph(State)
    .addNode("work", async ({ left }) => {
      if (left % 10 === 0) await effect("charge", () => left, { undo: false });
      const usage_metadata = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
      return {
        left: left - 1,
        note: `note ${left}`,
        messages: [new AIMessage({ content: `said ${left} ${"x".repeat(200)}`, usage_metadata })],
      };
    })
    .addEdge(START, "work")
    .addConditionalEdges("work", ({ left }) => (left > 0 ? "work" : END));
  const graph = saver.attach(builder.compile({ checkpointer: saver }));
  const how = { configurable: { thread_id: "thread-0", task_id: "first" }, recursionLimit: STEPS + 10 };
  await graph.invoke({ messages: [new HumanMessage("go")], left: STEPS }, how);
  await graph.invoke(
    { messages: [new HumanMessage("again")], left: 5 },
    { ...how, configurable: { ...how.configurable, task_id: "second" } },
  );
  const rows = async (): Promise<number> =>
    Object.values<number>({ ...(await saver.verify({ threadId: "thread-0" })).checked }).reduce((sum, n) => sum + n, 0);
  const each = await rows();
  const copies = Math.ceil(ROWS / each);
  for (let n = 1; n < copies; n += 1) await saver.copyThread("thread-0", `thread-${n}`);
  const turns = (await saver.turns.list("thread-0", { limit: 100_000 })).length;
  const effects = (await saver.effects.list("thread-0", { limit: 100_000 })).length;
  const [first] = await saver.turns.list("thread-0", { limit: 1 });
  Object.assign(made, { turn: first?.id, threads: copies, rows: each * copies, turns, effects });
  saver.close();
}

/** A thread with three values of 4 MB, each of which changes in every step. */
const largeValues = tempFile();
const LARGE = 4_000_000;
const LARGE_STEPS = 20;

async function makeLargeValues(): Promise<void> {
  const saver = TurnSaver.fromPath(largeValues, { synchronous: "normal", logger: quiet });
  const LargeState = Annotation.Root({
    left: Annotation<number>(),
    text: Annotation<string>(),
    record: Annotation<Record<string, string>>(),
    list: Annotation<string[]>(),
  });
  const graph = new StateGraph(LargeState)
    .addNode("work", ({ left }) => ({
      left: left - 1,
      text: `${left} ${"ab".repeat(LARGE / 2)}`,
      record: { whole: `${left} ${"x".repeat(LARGE)}` },
      list: [`${left}`, "y".repeat(LARGE), `${left} ${"z".repeat(LARGE / 4)}`],
    }))
    .addEdge(START, "work")
    .addConditionalEdges("work", ({ left }) => (left > 0 ? "work" : END))
    .compile({ checkpointer: saver });
  const how = { configurable: { thread_id: "large", task_id: "first" }, recursionLimit: LARGE_STEPS + 10 };
  await saver.attach(graph).invoke({ left: LARGE_STEPS }, how);
  saver.close();
}

/** Runs the built program; a hook on its end tells how much memory it had at most. */
function run(
  args: readonly string[],
  db = path,
): { code: number | null; stdout: string; stderr: string; peakKb: number; ms: number } {
  const peak = tempFile("peak");
  const hook = tempFile("hook.cjs");
  writeFileSync(
    hook,
    `const fs = require("node:fs"); process.on("exit", () => fs.writeFileSync(${JSON.stringify(peak)}, fs.readFileSync("/proc/self/status", "utf8")));`,
  );
  const begun = Date.now();
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--require", hook, program, ...args, "--db", db], {
    encoding: "utf8",
    maxBuffer: 2 ** 30,
    env: { ...process.env, NODE_OPTIONS: "", NO_COLOR: "1" },
  });
  const peakKb = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(peak, "utf8"))?.[1]);
  return { code: status, stdout, stderr, peakKb, ms: Date.now() - begun };
}

beforeAll(async () => {
  program = builtProgram();
  await makeFile();
  await makeLargeValues();
}, 1_800_000);

const told: string[] = [];
afterAll(() => {
  if (LONG) console.log(`${made.rows} rows, ${made.threads} threads\n${told.join("\n")}`);
});

/** How many threads have a name that begins so. */
const named = (start: string): number =>
  Array.from({ length: made.threads }, (_, index) => `thread-${index}`).filter((id) => id.startsWith(start)).length;

type Golden = readonly [args: string[], complete: (document: any) => unknown, code?: number];
const COMMANDS: readonly Golden[] = [
  [
    [],
    ({ threads, turns, effects }) =>
      expect([threads, turns, effects]).toEqual([made.threads, made.threads * made.turns, made.threads * made.effects]),
  ],
  [["threads"], ({ total, threads }) => expect([total, threads.length]).toEqual([made.threads, Math.min(50, made.threads)])],
  [["threads", "--limit", "1000000"], ({ threads }) => expect(threads.length).toBe(made.threads)],
  [["threads", "--status", "failed"], ({ threads }) => expect(threads).toEqual([])],
  [["threads", "--search", "READ-1"], ({ total }) => expect(total).toBe(named("thread-1"))],
  [["status", "thread-0"], ({ state, did }) => expect([state, did.tasks]).toEqual(["finished", 2])],
  [["log", "thread-0"], ({ attempts }) => expect(attempts.length).toBe(50)],
  [["log", "thread-0", "--limit", "1000000"], ({ attempts }) => expect(attempts.length).toBe(made.turns / 2)],
  [["log", "thread-0", "--failed"], ({ attempts }) => expect(attempts).toEqual([])],
  [["show", "thread-0", "TURN"], ({ node }) => expect(node).toBe("work")],
  [["state", "thread-0"], ({ state }) => expect(state.messages.length).toBe(STEPS + 7)],
  [["diff", "thread-0", "first", "second"], ({ channels }) => expect(channels.length).toBeGreaterThan(0)],
  [["blame", "thread-0", "note", "--limit", "1000000"], ({ changes }) => expect(changes.length).toBe(STEPS + 5)],
  [
    ["grep", "said 1 ", "--limit", "1000000"],
    ({ matches }) => expect(new Set(matches.map(({ threadId }: any) => threadId)).size).toBe(made.threads),
  ],
  [["grep", "no such text"], ({ matches }) => expect(matches).toEqual([]), 1],
  [["effects"], ({ effects }) => expect(effects).toEqual([])],
  [["effects", "thread-0", "--limit", "1000000"], ({ effects }) => expect(effects.length).toBe(made.effects)],
  [["inbox"], ({ questions }) => expect(questions).toEqual([])],
  [["rewinds", "thread-0"], ({ rewinds }) => expect(rewinds).toEqual([])],
  [["size"], ({ tables }) => expect(tables.find(({ called }: any) => called === "turns").rows).toBe(made.threads * made.turns)],
  [["size", "thread-0"], ({ channels }) => expect(channels.length).toBeGreaterThan(0)],
  [["tokens", "--by", "day"], ({ by, lines }) => expect([by, lines]).toEqual(["day", []])],
  [["verify"], ({ ok, threads }) => expect([ok, threads]).toEqual([true, made.threads])],
  [["verify", "thread-0"], ({ ok }) => expect(ok).toBe(true)],
  [["doctor"], ({ findings }) => expect(findings.filter(({ kind }: any) => kind === "problem")).toEqual([])],
  [["prune", "--keep-last", "5", "--dry-run"], ({ plan }) => expect(plan.threads).toBe(made.threads)],
  [["move", path, tempFile("none.db")], ({ plan }) => expect(plan.threads).toBe(made.threads), 4],
];

describe("a large file", () => {
  test.each(COMMANDS.map(([args, complete, code = 0]) => ({ args, complete, code })))(
    "S10.1 turns $args answers completely, in at most 200 MB",
    ({ args, complete, code }) => {
      const { stdout, stderr, peakKb, ms, code: exit } = run(args.map((arg) => (arg === "TURN" ? made.turn : arg)));
      expect({ stderr, exit }).toEqual({ stderr: "", exit: code });
      complete(JSON.parse(stdout));
      told.push(
        `${String(Math.round(peakKb / 1024)).padStart(5)} MB ${String(ms).padStart(7)} ms  turns ${args.slice(0, 4).join(" ")}`,
      );
      expect(peakKb).toBeLessThanOrEqual(MOST_KB);
    },
  );

  test("S10.1 export and backup of it, too", () => {
    for (const args of [
      ["export", "thread-0", tempFile("one.db")],
      ["export", "thread-0", tempFile("one.json"), "--redact"],
      // Verifying the copy is what `turns verify` does.
      ["backup", tempFile("all.db"), "--no-verify"],
    ]) {
      const { stderr, peakKb, ms, code } = run(args);
      expect({ args, stderr, code }).toEqual({ args, stderr: "", code: 0 });
      told.push(`${String(Math.round(peakKb / 1024)).padStart(5)} MB ${String(ms).padStart(7)} ms  turns ${args[0]}`);
      expect({ args, isSmall: peakKb <= MOST_KB }).toEqual({ args, isSmall: true });
    }
  });
});

describe("large values", () => {
  test.each([
    [["blame", "large", "text", "--limit", "1000"], ({ changes }: any) => expect(changes.length).toBe(LARGE_STEPS)],
    [["blame", "large", "record", "--limit", "1000"], ({ changes }: any) => expect(changes.length).toBe(LARGE_STEPS)],
    [["blame", "large", "list", "--limit", "1000"], ({ changes }: any) => expect(changes.length).toBe(LARGE_STEPS)],
    [["blame", "large", "left", "--limit", "1000"], ({ changes }: any) => expect(changes.length).toBe(LARGE_STEPS + 1)],
    [["state", "large", "--channel", "left"], ({ state }: any) => expect(state).toEqual({ left: 0 })],
    [["status", "large"], ({ state }: any) => expect(state).toBe("finished")],
    [["threads"], ({ threads }: any) => expect(threads.length).toBe(1)],
    [["log", "large"], ({ attempts }: any) => expect(attempts.length).toBe(LARGE_STEPS)],
  ] as const)("S10.1 turns %j reads none of them", (args, complete) => {
    const { stdout, stderr, peakKb, code } = run(args, largeValues);
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    complete(JSON.parse(stdout));
    told.push(
      `${String(Math.round(peakKb / 1024)).padStart(5)} MB             turns ${args.slice(0, 4).join(" ")} (large values)`,
    );
    expect(peakKb).toBeLessThanOrEqual(MOST_KB);
  });
});
