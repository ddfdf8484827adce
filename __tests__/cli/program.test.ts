import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { builtProgram, told, type Told } from "./built";
import { makeThreads } from "./cli-world";
import { SHAPES } from "./shapes";

// One command of each kind. cli/command-line.test.ts has them all.
jest.setTimeout(300_000);

const path = tempFile();
let program = "";
const turns = (...args: string[]): Promise<Told> => told([process.execPath, program, ...args, "--db", path]);

beforeAll(async () => {
  program = builtProgram();
  const saver = openSaver(path);
  await makeThreads(saver);
  await (saver.close() as unknown);
}, 400_000);

test.each<[command: keyof typeof SHAPES, args: string[], finds: object]>([
  [
    "threads",
    ["--sort", "id"],
    { total: 3, threads: [{ threadId: "failed" }, { threadId: "finished" }, { threadId: "waiting" }] },
  ],
  ["status", ["finished"], { state: "finished", resume: { can: "no" }, rewindTo: { toTask: "first" } }],
  ["log", ["finished"], { threadId: "finished" }],
  ["effects", ["finished"], { effects: [{ name: "cli-charge" }, { name: "cli-charge" }] }],
])("S10.1 turns %s %j answers in JSON of its schema, and changes nothing", async (command, args, finds) => {
  const before = readFileSync(path);
  const { stdout, stderr, code } = await turns(command, ...args);
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  const document: unknown = JSON.parse(stdout);
  expect(SHAPES[command].safeParse(document).error).toBeUndefined();
  expect(document).toMatchObject(finds);
  expect(readFileSync(path).equals(before)).toBe(true);
});

test("S10.1 what changes something shows its plan and exits with 4, and does it with --yes", async () => {
  const planned = await turns("copy", "finished", "again");
  expect(planned.code).toBe(4);
  expect(JSON.parse(planned.stdout)).toMatchObject({ done: false, report: null });
  expect(JSON.parse((await turns("threads")).stdout)).toMatchObject({ total: 3 });
  expect(JSON.parse((await turns("copy", "finished", "again", "--yes")).stdout)).toMatchObject({ done: true });
  expect(JSON.parse((await turns("threads")).stdout)).toMatchObject({ total: 4 });
});

test.each<[args: string[], code: number, says: string]>([
  [["threads", "--stats", "x"], 2, "Did you mean --status?"],
  [["status", "finishd"], 1, 'Did you mean "finished"?'],
])("S10.1 %j exits with %d and suggests what is near", async (args, code, says) => {
  const { stdout, stderr, code: exit } = await turns(...args);
  expect({ exit, stdout }).toEqual({ exit: code, stdout: "" });
  expect(stderr).toContain(says);
});

const FULL = "/dev/full";
(existsSync(FULL) ? test : test.skip)("S10.1 output that can't be written exits with 1 and says so, without a stack", () => {
  const full = openSync(FULL, "w");
  const command = [program, "status", "finished", "--db", path];
  const { status, stderr } = spawnSync(process.execPath, command, { stdio: ["ignore", full, "pipe"], encoding: "utf8" });
  closeSync(full);
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: expect.stringMatching(/^turns: The output can't be written: ENOSPC: .*\.\n$/),
  });
});
