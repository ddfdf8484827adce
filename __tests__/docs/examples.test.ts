import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { TurnSaver } from "langgraph-checkpoint-turns";

/** The examples and the demo as a user runs them: each in a process of its own, in an empty temporary folder. */
const root = path.resolve(__dirname, "..", "..");
const temporary = mkdtempSync(path.join(tmpdir(), "turns-examples-"));
const compiled = path.join(temporary, `tsx-${process.geteuid?.()}`);
mkdirSync(compiled);

jest.setTimeout(300_000);
afterAll(() => rmSync(temporary, { recursive: true, force: true }));

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
  /** The temporary folder. */
  folder: string;
  /** What is left in the temporary folder. */
  leftovers: string[];
}

function run(script: string, cwd = root, args: readonly string[] = []): Promise<Ended> {
  const folder = mkdtempSync(path.join(temporary, "run-"));
  // What tsx has compiled stays in the temporary folder, too. All examples share it.
  symlinkSync(compiled, path.join(folder, path.basename(compiled)), "junction");
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    TMPDIR: folder,
    TEMP: folder,
    TMP: folder,
    NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "",
    TSX_TSCONFIG_PATH: path.join(root, "tsconfig.json"),
  };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--import", "tsx", path.resolve(root, "examples", script), ...args], { cwd, env });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.on("error", reject);
    child.on("close", (code) => {
      const leftovers = readdirSync(folder).filter((name) => name.startsWith("turns-"));
      resolve({ code, stdout, stderr, folder, leftovers });
    });
  });
}

/** Runs a script that must succeed and clean up after itself; its output. */
async function outputOf(script: string): Promise<string> {
  const { code, stdout, stderr, leftovers } = await run(script);
  expect({ script, code, stderr: code === 0 ? "" : `${stdout}\n${stderr}`, leftovers }).toEqual({
    script,
    code: 0,
    stderr: "",
    leftovers: [],
  });
  return stdout;
}

/** `text`, from the line that contains `from` up to the one that contains `to`. */
function section(text: string, from: string, to: string): string {
  return text.slice(text.indexOf(from), text.indexOf(to));
}

describe("examples", () => {
  test("S4.6 examples: redaction keeps a card number out of the turn log, and says where it still is", async () => {
    const output = await outputOf("redaction.ts");
    expect(output).toContain('Thought of charge: {"card":"…1111"}');
    expect(output).toContain("in the turn log: no card number");
    expect(output).toContain("in LangGraph's checkpoint: the card number");
  });

  test("S1.8 examples: minimal records a Thought and an Action, and the state is read back from the file", async () => {
    const output = await outputOf("minimal.ts");
    expect(output).toContain('read back from the file: {"name":"Ada","greeting":"Hello, Ada."}');
    expect(output).toContain("turns: Thought of greet, Action of greet");
  });

  test("S1.6 examples: crash-and-resume is killed in a node, and another process continues at exactly that node", async () => {
    const output = await outputOf("crash-and-resume.ts");
    expect(output).toContain("first process: SIGKILL in the middle of convert");
    expect(output).toContain("in flight: convert, attempt 1");
    expect(output).toContain("node bodies that began, in both processes: fetch, convert, convert, store");
  });

  test("S2.9 examples: effects, an issue that a killed process has opened is not opened again", async () => {
    const output = await outputOf("effects.ts");
    expect(output).toContain("run: killed by SIGKILL");
    expect(output).toContain("look: refused with EFFECT_IN_DOUBT: open issue, begun 1 time");
    expect(output).toContain("resume: the issue is the one that was opened");
    expect(output).toContain("issues that were opened, by all three processes: 1");
  });

  test("S9.6 examples: exactly-once, a charge that a killed process has committed is not repeated, and is undone", async () => {
    const output = await outputOf("exactly-once.ts");
    expect(output).toContain("killed: 2 charges, and the journal doesn't know about the second (in-doubt)");
    expect(output).toContain("resumed: 2 charges");
    expect(output).toContain("rewound: 1 charge");
  });

  test("S1.9 examples: rewind says what would go, deletes that, refuses an unknown task, and can be taken back", async () => {
    const output = await outputOf("rewind.ts");
    expect(output).toContain("dry run: tasks tuesday, wednesday would go");
    expect(output).toContain("after the rewind: written on monday\n");
    expect(output).toContain("refused with UNKNOWN_TASK");
    expect(output).toContain("taken back: written on monday; written on tuesday; written on wednesday");
  });

  test("S3.5 examples: rewind-with-undo cancels the newest first, stops where an undo fails, and continues there", async () => {
    const output = await outputOf("rewind-with-undo.ts");
    expect(output).toContain("covered: true; to undo: theatre, hotel");
    expect(output.match(/^ {2}cancelled: .*$/gm)).toEqual(["  cancelled: theatre", "  cancelled: hotel"]);
    expect(output).toContain("UNDO_FAILED: the hotel does not answer\nin the world: train, hotel; turns on the thread: 6");
    expect(output).toContain("in the world: train; turns on the thread: 2");
  });

  test("S2.5 examples: human-in-the-loop waits for an answer, refuses new input meanwhile, and continues with the answer", async () => {
    const output = await outputOf("human-in-the-loop.ts");
    expect(output).toContain("refused with UNFINISHED_WORK");
    expect(output).toContain("after the answer: sent = true");
    expect(output).toContain("actions: draft#1 ok, approve#1 interrupted, approve#2 ok");
  });

  test("S1.8 examples: react-agent records the tokens of each turn of a prebuilt agent with tools", async () => {
    const output = await outputOf("react-agent.ts");
    expect(output.match(/Action {2}(agent|tools)/g)).toHaveLength(5);
    expect(output).toMatch(/Action {2}agent {2}[1-9]\d* tokens in, [1-9]\d* out/);
    expect(output).toContain("The invoice comes to 50.");
  });

  test("S5.6 examples: checkpoint-file follows a run that fails and is repaired, and keeps what a person wrote", async () => {
    const output = await outputOf("checkpoint-file.ts");
    expect(output).toMatch(/^\| print \| ❌ failed \|/m);
    expect(output).toContain("last completed: draft; next: print; can resume: true");
    expect(output).toContain("after the repair: draft completed, print completed");
    expect(output).toContain("notes of print: I fetched some. – Ada\nlast line: Paper is in the cellar.");
  });

  test("S4.4 S4.7 examples: repair-from-outside mends node 3 and resumes in another process, nodes 1 and 2 did what they do once", async () => {
    const output = await outputOf("repair-from-outside/repair.ts");
    expect(output).toContain("completed create_issue, send_message; failed publish; resumable: true");
    expect(output).toContain('node "send_message", which had completed, changed: its source');
    expect(output.match(/^side effect ".*": 1$/gm)).toHaveLength(3);
  });

  test("S3.3 examples: drift shows each policy, and a version label that answers for source", async () => {
    const output = await outputOf("drift.ts");
    expect(output).toContain("continue: fetched on monday, summarised");
    expect(output).toContain("restart: fetched on tuesday, in another way, summarised");
    expect(output).toContain("its version, from 1 to 2");
  });

  test("S2.8 S2.9 examples: torture-your-graph kills a graph at effects and turns, and finds the side effect that is outside of effect()", async () => {
    const output = await outputOf("torture-your-graph/torture.ts");
    const [careful, careless] = output.split(/^crash matrix of /m).slice(1);
    expect(careful).toMatch(/^order-careful\.ts: 2 kills\n/);
    expect(careful).not.toContain("problems:");
    expect(careless).toMatch(/^order-careless\.ts: 1 kill\n/);
    expect(careless).toContain('killed at action.within of node "charge" (async): "charged 30" is in the ledger 2 times');
  }, 300_000);

  test("S10.1 examples: lighthouse leaves a file with threads in every state, and the letters that went out", async () => {
    const file = path.join(temporary, "lighthouse.db");
    const { code, stdout, stderr } = await run("lighthouse/run.ts", root, [file]);
    expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain("5 threads. One process was killed in the middle of a letter.");
    const saver = TurnSaver.fromPath(file, { readOnly: true });
    try {
      const threads = (await saver.listThreads()).map(({ threadId }) => threadId).toSorted();
      expect(threads).toEqual(["invoice-2217", "lighthouse", "nightly-report", "support-880", "support-881"]);
      expect(await saver.turns.inFlight("lighthouse")).toMatchObject([{ nodeName: "work_b" }]);
      expect(await saver.effects.list("lighthouse", { status: "in-doubt" })).toMatchObject([{ name: "letter" }]);
    } finally {
      saver.close();
    }
    expect(readFileSync(path.join(temporary, "letters.txt"), "utf8")).toContain("number of keepers");
  });

  test("S9.4 examples: workers, one of three is killed, and the others take its threads over", async () => {
    const output = await outputOf("workers/workers.ts");
    expect(output).toContain("ann is killed");
    expect(output).toContain("orders that ann had begun are packed by bob or eve: true");
    expect(output).toContain("bob and eve have drained");
  }, 300_000);

  test("S1.5 examples: checkpoint-persister saves, loads and deletes turns without LangGraph", async () => {
    const output = await outputOf("checkpoint-persister.ts");
    expect(output).toContain("the newest turn is the Thought of task write");
    expect(output).toContain("back to task read: 3 rows deleted, 2 left");
  });
});

describe("demo", () => {
  let output = "";
  let folder = "";

  beforeAll(async () => {
    const ended = await run("demo/demo.ts");
    output = ended.stdout;
    folder = path.join(ended.folder, "turns-demo");
    expect({ code: ended.code, stderr: ended.code === 0 ? "" : `${output}\n${ended.stderr}` }).toEqual({ code: 0, stderr: "" });
  }, 300_000);

  test("S2.9 demo: on the official SqliteSaver the same kill sends the same letter twice", () => {
    const official = section(output, "1. On the official", "2. On TurnSaver");
    expect(official).toMatch(/kill -9 \d+: the letter to 2-olsen is out/);
    expect(official).toContain("in the post box: 1-brandt, 2-olsen, 2-olsen");
    expect(official).not.toContain("3-ito");
  });

  test("S4.7 demo: the second run is another process that shares only the file, and resumes at the node that was killed", () => {
    const killed = section(output, "2. On TurnSaver", "3. A new process");
    expect(killed).toMatch(/kill -9 \d+: the letter to 2-olsen is out/);
    expect(killed).not.toContain("3-ito");
    const resumed = section(output, "3. A new process", "4. Rewind");
    expect(resumed).toContain("in flight: post of task 2-olsen, attempt 1");
    expect(resumed).toContain("refused (UNFINISHED_WORK)");
    const task = section(resumed, "task 2-olsen (resumed)", "task 3-ito");
    expect(task.match(/Thought .*/g)?.map((row) => row.replaceAll(/\s+/g, " ").trim())).toEqual([
      "Thought post (attempt 2)",
      "Thought close",
    ]);
  });

  test("S2.8 demo: a file that only node bodies write to shows what ran how often over crash, resume and rewind", () => {
    const rows = section(output, "how often each node began", "tokens:").match(/^ {4}\d-.*$/gm);
    expect(rows?.map((row) => row.trim().split(/\s+/))).toEqual([
      ["1-brandt", "1", "1", "1", "1"],
      ["2-olsen", "2", "3", "2", "2"],
      ["3-ito", "1", "1", "1", "1"],
    ]);
  });

  test("Rewind demo: the rewind to task 1 deletes exactly what its dry run said, and the task ends as it did before", () => {
    const counts = /tasks 2-olsen and 3-ito \((.*)\)$/gm;
    const [dryRun, done] = [...output.matchAll(counts)].map((match) => match[1]);
    expect(dryRun).toMatch(/^\d+ turns, \d+ checkpoints, \d+ writes$/);
    expect(done).toBe(dryRun);
    expect(output).toContain("ok      the state at its end is the same as before the rewind");
  });

  test("S2.9 S3.5 demo: the letter of the killed node is not sent twice, and the rewind undoes each effect, newest first", () => {
    const effects = (text: string): string[] => [...text.matchAll(/^ +effect +(.*)$/gm)].map((match) => match[1]!);
    expect(effects(section(output, "task 2-olsen (resumed)", "task 3-ito\n"))).toEqual([
      "letter 2-olsen: began before the crash, and nobody knows whether it went out",
      "letter 2-olsen: is out, says the probe: not sent again",
    ]);
    const undone = effects(section(output, "4. Rewind", "5. What is left")).filter((effect) => effect.endsWith(": undone"));
    expect(undone).toHaveLength(4);
    expect(undone.map((effect) => effect.split(" ")[1])).toEqual(["3-ito:", "3-ito:", "2-olsen:", "2-olsen:"]);
    expect(output).toContain("ok      three letters and three refunds went out, each exactly once");
  });

  test("S5.6 S3.1 demo: it shows tokens and saver.verify() finds nothing, and the files that it names are there to look at", () => {
    expect(output).toMatch(/^ {2}tokens: [1-9]\d* in, [1-9]\d* out, and [1-9]\d* for what was rewound$/m);
    expect(output).toMatch(/saver\.verify\(\) looked at [1-9]\d+ rows and found 0 problems/);
    const left = path.join(folder, "turns");
    expect(output).toContain(`Look at what it left in ${left}`);
    for (const name of output.match(/^ {2}[\w.]+(?= {2,}\w.*)/gm)?.filter((name) => name.includes(".")) ?? [])
      expect(readdirSync(left)).toContain(name.trim());
    expect(readFileSync(path.join(left, "CHECKPOINT.md"), "utf8").match(/^\| \d-[\w-]+ \| ✅ completed \|/gm)).toHaveLength(2);
  });

  test("S4.7 demo: it checks each of its promises, and keeps all of them", () => {
    expect(output.match(/^ {2}ok {6}/gm)).toHaveLength(17);
    expect(output).not.toContain("BROKEN");
  });

  test("Demo: piped, it prints no escape sequences", () => {
    expect(output).not.toContain("\u001b");
  });
});

describe("README", () => {
  const text = readFileSync(path.join(root, "README.md"), "utf8");

  test("README: its first snippet runs as it stands", async () => {
    // Inside the project, so that it finds LangGraph and the package.
    mkdirSync(path.join(root, ".tmp"), { recursive: true });
    const folder = mkdtempSync(path.join(root, ".tmp", "readme-"));
    try {
      const [, snippet = ""] = /```ts\n([\s\S]*?)```/.exec(text) ?? [];
      writeFileSync(path.join(folder, "snippet.ts"), snippet);
      const { code, stdout, stderr } = await run(path.join(folder, "snippet.ts"), folder);
      expect({ code, stdout, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stdout: "2\n1\n", stderr: "" });
      expect(readdirSync(folder)).toContain("agent.db");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
