import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** The examples and the demo as a user runs them: each in a process of its own, in an empty temporary folder. */
const root = path.resolve(__dirname, "..", "..");
const temporary = mkdtempSync(path.join(tmpdir(), "turns-examples-"));

jest.setTimeout(60_000);
afterAll(() => rmSync(temporary, { recursive: true, force: true }));

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
  /** What is left in the temporary folder. */
  leftovers: string[];
}

function run(script: string): Promise<Ended> {
  const folder = mkdtempSync(path.join(temporary, "run-"));
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    TMPDIR: folder,
    TEMP: folder,
    TMP: folder,
    NODE_OPTIONS: process.env.TURNS_TEST_NODE_OPTIONS ?? "",
  };
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--import", "tsx", path.join("examples", script)], { cwd: root, env });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.on("error", reject);
    child.on("close", (code) => {
      // tsx keeps its cache in the temporary folder.
      const leftovers = readdirSync(folder).filter((name) => name.startsWith("turns-"));
      resolve({ code, stdout, stderr, leftovers });
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

  test("S1.6 examples: crash-and-resume is killed in a node, and another process goes on at exactly that node", async () => {
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

  test("S1.9 examples: rewind says what would go, deletes that, refuses an unknown task, and can be taken back", async () => {
    const output = await outputOf("rewind.ts");
    expect(output).toContain("dry run: tasks tuesday, wednesday would go");
    expect(output).toContain("after the rewind: written on monday\n");
    expect(output).toContain("refused with UNKNOWN_TASK");
    expect(output).toContain("taken back: written on monday; written on tuesday; written on wednesday");
  });

  test("S3.5 examples: rewind-with-undo cancels the newest first, stops where an undo fails, and goes on there", async () => {
    const output = await outputOf("rewind-with-undo.ts");
    expect(output).toContain("covered: true; to undo: theatre by cancel, hotel by cancel");
    expect(output.match(/^ {2}cancelled: .*$/gm)).toEqual(["  cancelled: theatre", "  cancelled: hotel"]);
    expect(output).toContain("UNDO_FAILED: the hotel does not answer\nin the world: train, hotel; turns on the thread: 6");
    expect(output).toContain("in the world: train; turns on the thread: 2");
  });

  test("S2.5 examples: human-in-the-loop waits for an answer, refuses new input meanwhile, and goes on with the answer", async () => {
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

  test("S2.8 S2.9 examples: torture-your-graph kills a graph at effects and turns, and finds the deed that is outside of effect()", async () => {
    const output = await outputOf("torture-your-graph/torture.ts");
    const [careful, careless] = output.split(/^crash matrix of /m).slice(1);
    expect(careful).toMatch(/^order-careful\.ts: 2 kills\n/);
    expect(careful).not.toContain("problems:");
    expect(careless).toMatch(/^order-careless\.ts: 1 kill\n/);
    expect(careless).toContain('killed at action.within of node "charge" (async): "charged 30" is in the ledger 2 times');
  }, 120_000);

  test("S1.5 examples: checkpoint-persister saves, loads and deletes turns without LangGraph", async () => {
    const output = await outputOf("checkpoint-persister.ts");
    expect(output).toContain("the newest turn is the Thought of task write");
    expect(output).toContain("back to task read: 3 rows deleted, 2 left");
  });
});

describe("demo", () => {
  let output = "";

  beforeAll(async () => {
    output = await outputOf("demo/demo.ts");
  }, 60_000);

  test("S4.7 demo: the second run is another process that shares only the file, and resumes at the node that was killed", () => {
    const killed = section(output, "1. The agent runs", "2. A new process");
    expect(killed).toMatch(/kill -9 \d+: work_b of task 4/);
    expect(killed).not.toContain("task 5-report");
    const resumed = section(output, "2. A new process", "3. Back to");
    expect(resumed).toContain("in flight: work_b of task 4-cross-check, attempt 1");
    expect(resumed).toContain("refused (UNFINISHED_WORK)");
    const task = section(resumed, "task 4-cross-check (resumed)", "task 5-report");
    expect(task.match(/Thought {2}\w+ +\d/g)?.map((row) => row.replaceAll(/\s+/g, " "))).toEqual([
      "Thought work_b 2",
      "Thought review 1",
    ]);
  });

  test("S2.8 demo: a ledger that only node bodies write to shows what ran how often over crash, resume and rewind", () => {
    const rows = section(output, "How often each node body began", "tasks 1 to 3 ran once").match(/^ {2}\d-.*$/gm);
    expect(rows?.map((row) => row.trim().split(/\s+/))).toEqual([
      ["1-plan", "1", "1", "1", "1"],
      ["2-read", "1", "1", "1", "1"],
      ["3-extract", "1", "1", "1", "1"],
      ["4-cross-check", "2", "2", "3", "2"],
      ["5-report", "2", "2", "2", "2"],
    ]);
  });

  test("Rewind demo: the rewind to task 3 deletes exactly what its dry run said, and the agent ends as it did before", () => {
    const counts = /tasks 4-cross-check and 5-report: (.*)$/gm;
    const [dryRun, done] = [...output.matchAll(counts)].map((match) => match[1]);
    expect(dryRun).toMatch(/^\d+ turns, \d+ checkpoints, \d+ writes$/);
    expect(done).toBe(dryRun);
    expect(output.match(/CONTRADICTION/g)).toHaveLength(3);
  });

  test("S2.9 S3.5 demo: letters of the killed node are not sent twice, and the rewind retracts each, newest first", () => {
    const letters = (text: string): string[] => [...text.matchAll(/^ +letter +(.*)$/gm)].map((match) => match[1]!);
    const resumed = section(output, "task 4-cross-check (resumed)", "task 5-report");
    expect(letters(section(output, "2. A new process", "3. Back to"))).toEqual([
      "range in nautical miles: has a receipt from before the crash: not sent again",
      "number of keepers: was begun before the crash, and nobody knows whether it went out",
      "number of keepers: is out, says the probe: not sent again",
      "year of electrification: sent, and its receipt is recorded",
    ]);
    expect(resumed).not.toContain("number of keepers: sent");
    const retracted = letters(section(output, "3. Back to", "Summary")).filter((letter) =>
      letter.endsWith("retracted by its undo"),
    );
    expect(new Set(retracted).size).toBe(6);
    expect(retracted[0]).toContain("year of electrification");
    expect(output).toContain("of 12 letters none went out twice; 6 were retracted, 6 stand");
  });

  test("S5.6 S3.1 demo: it shows tokens by node and CHECKPOINT.md, and saver.verify() finds nothing", () => {
    expect(output).toMatch(/^ {2}planner +[1-9]\d* +[1-9]\d*$/m);
    expect(output.match(/^ {4}\| \d-[\w-]+ \| ✅ completed \|/gm)).toHaveLength(5);
    expect(output).toMatch(/saver\.verify\(\) looked at [1-9]\d+ rows of the file and found 0 problems/);
  });

  test("S4.7 demo: it checks each of its promises, and keeps all of them", () => {
    expect(output.match(/^ {2}ok {6}/gm)).toHaveLength(26);
    expect(output).not.toContain("BROKEN");
  });

  test("Demo: piped, it prints no escape sequences", () => {
    expect(output).not.toContain("\u001b");
  });
});

describe("README", () => {
  const read = (...names: string[]): string => readFileSync(path.join(root, ...names), "utf8");
  const cited = [...read("README.md").matchAll(/`([\w.-]+\.test\.ts)`: `([^`]+?)\s*…?`/g)].map(([, file, title]) => [
    file!,
    title!,
  ]);

  const suites = readdirSync(path.join(root, "__tests__"), { recursive: true, encoding: "utf8" });

  test("README: the table of promises cites tests", () => {
    expect(cited.length).toBeGreaterThan(10);
  });

  test.each(cited)("README: %s has the test %j that it cites", (file, title) => {
    const [found = ""] = suites.filter((suite) => path.basename(suite) === file);
    expect(read("__tests__", found)).toContain(title);
  });

  test("README: the files it links to exist, and it has at most 150 lines", () => {
    const links = [...read("README.md").matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g)].map((match) => match[1]!);
    expect(links.filter((link) => !link.endsWith("/")).map((link) => read(link).length > 0)).not.toContain(false);
    expect(read("README.md").split("\n").length).toBeLessThanOrEqual(151);
  });
});
