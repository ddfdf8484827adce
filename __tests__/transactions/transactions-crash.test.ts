import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { CHILD_ENV, childProgram } from "../support/child-program";
import { closeAll, fresh, open } from "../support/eff-world";
import { LONG, runs } from "../support/lane";
import { LIBRARIES } from "./tx-libraries";
import type { Bank } from "./tx-world";

interface Ended {
  value?: unknown;
  code?: string;
  message?: string;
  events?: number;
}

const KILLS = runs(12, 60);
const REWIND_KILLS = runs(6, 40);
/** A process that runs both nodes has about twice as many events. */
const EVENTS = 45;
const OTHER_HOST =
  spawnSync("unshare", ["--uts", "true"]).status === 0
    ? ["unshare", "--uts", "sh", "-c", 'hostname elsewhere; exec "$@"', "sh"]
    : undefined;

/** What is charged is what the journal has, no matter where processes die or stop. The bank is on SQLite, or with jest.postgres.config.mjs on PostgreSQL. */
jest.setTimeout(runs(480_000, 1_800_000));
let program: string[] = [];
let bank: Bank;
beforeAll(async () => (bank = await LIBRARIES[0]!.open()));
afterAll(() => bank.close());
beforeAll(() => (program = childProgram(join(__dirname, "tx-child.ts"))));
beforeEach(() => bank.sql("DELETE FROM charges"));
afterEach(closeAll);

function started(args: string[], env: Record<string, string>, within: readonly string[] = []) {
  const [command = "", ...rest] = [...within, process.execPath, ...program, ...args];
  const child: ChildProcess = spawn(command, rest, { env: { ...CHILD_ENV, ...bank.env, ...env } });
  const ended = new Promise<Ended | "killed">((resolve, reject) => {
    let [out, err] = ["", ""];
    child.stdout!.on("data", (chunk) => (out += String(chunk)));
    child.stderr!.on("data", (chunk) => (err += String(chunk)));
    child.on("close", (code, signal) => {
      if (signal === "SIGKILL") resolve("killed");
      else if (code === 0) resolve(JSON.parse(out) as Ended);
      else reject(new Error(`child ended with ${code}: ${err}`));
    });
  });
  return { child, ended };
}

/** A store in the bank's database. */
function together(): [path: string, env: Record<string, string>] {
  return [bank.env["BANK_SCHEMA"] === undefined ? (bank.env["BANK"] as string) : fresh(), { TOGETHER: "1" }];
}

/** How many processes have still to die. */
let left = 0;

/** Runs until it completes, with a new process for each one that dies. */
async function untilDone(
  path: string,
  first: string[],
  next: string[],
  env: Record<string, string> = {},
  afterDeath: () => Promise<void> = async () => undefined,
): Promise<void> {
  for (let args = first; ;) {
    const KILL_AT = String(left > 0 ? 1 + Math.floor(Math.random() * EVENTS) : 0);
    const ended = await started([...args, path], { KILL_AT, ...env }).ended;
    if (ended !== "killed") {
      expect(ended).toEqual({ value: expect.anything() as unknown, events: expect.any(Number) as unknown });
      return;
    }
    left -= 1;
    await afterDeath();
    const saver = open(path);
    // Killed before its input was saved, there is nothing to resume.
    const isSaved = (await saver.turns.tasks("t")).some(({ taskId }) => taskId === first[1]);
    args = isSaved ? next : first;
    saver.close();
  }
}

async function balanced(path: string): Promise<string[]> {
  const effects = await open(path).effects.list("t");
  expect(effects.filter(({ status }) => status !== "done")).toEqual([]);
  const keys = effects.map(({ key }) => key).sort();
  const charged = (await bank.charges()).map(({ key }) => key).sort();
  expect(charged).toEqual(keys);
  return keys;
}

test("S9.6 S4.7 SIGKILL anywhere: as many charges as keys, none twice, none without record", async () => {
  const path = fresh();
  left = KILLS;
  for (let task = 0; left > 0; task++) {
    await untilDone(path, ["run", `t${task}`], ["resume", `t${task}`]);
    const keys = await balanced(path);
    expect(keys).toHaveLength(4 * (task + 1));
  }
});

test("S9.6 S4.7 SIGKILL anywhere, with the journal in the same database: what is charged is recorded in the same commit", async () => {
  const [path, env] = together();
  left = KILLS;
  let tasks = 0;
  for (; left > 0; tasks++) {
    await untilDone(path, ["run", `t${tasks}`], ["resume", `t${tasks}`], env, async () => {
      // Without a look at any key, and before anybody resumes. A COMMIT that the dead process had sent may be carried out meanwhile.
      const saver = open(path);
      const charged = async (): Promise<string[]> => (await bank.charges()).map(({ key }) => key).sort();
      let before: string[];
      let done: string[];
      do {
        before = await charged();
        done = (await saver.effects.list("t")).filter(({ status }) => status === "done").map(({ key }) => key);
      } while (before.join() !== (await charged()).join());
      saver.close();
      expect(done.sort()).toEqual(before);
    });
    expect(await balanced(path)).toHaveLength(4 * (tasks + 1));
  }
  expect(await open(path).verify()).toMatchObject({ ok: true });
});

test("S9.6 S3.5 SIGKILL anywhere in a rewind with transactional undos: each is undone once, and the rest stays", async () => {
  left = REWIND_KILLS;
  while (left > 0) {
    await bank.sql("DELETE FROM charges");
    const path = fresh();
    await started(["run", "a,b,c", path], {}).ended;
    const kept = (await bank.charges()).slice(0, 4);
    await untilDone(path, ["rewind", ""], ["rewind", ""]);
    expect(await bank.charges()).toEqual(kept);
    expect(await balanced(path)).toHaveLength(4);
    expect(await open(path).verify()).toMatchObject({ ok: true });
  }
});

// Another host's lease is valid for half a minute.
if (LONG && OTHER_HOST !== undefined) {
  test.each(["effect-body.before", "before BEGIN"])(
    "S9.6 a process that stops at %s and wakes up behind a take-over does nothing twice",
    async (STOP_AT) => {
      const path = fresh();
      await started(["run", "a", path], {}).ended;
      const stopped = started(["run", "b", path], { STOP_AT }, OTHER_HOST);
      await isStopped(stopped.child);
      let ended: Ended | "killed";
      do ended = await started(["resume", "b", path], {}).ended;
      while (ended !== "killed" && ended.code === "THREAD_RUNNING");
      expect(ended).toMatchObject({ value: expect.anything() as unknown });
      process.kill(stopped.child.pid!, "SIGCONT");
      expect(await stopped.ended).toMatchObject({ code: expect.any(String) as unknown });
      expect(await balanced(path)).toHaveLength(8);
    },
  );

  test("S9.6 a process that stops before its transaction and wakes up behind a rewind does nothing", async () => {
    const path = fresh();
    await started(["run", "a", path], {}).ended;
    const stopped = started(["run", "b", path], { STOP_AT: "before BEGIN" }, OTHER_HOST);
    await isStopped(stopped.child);
    let ended: Ended | "killed";
    do ended = await started(["rewind", "", path], {}).ended;
    while (ended !== "killed" && ended.code === "THREAD_RUNNING");
    process.kill(stopped.child.pid!, "SIGCONT");
    expect(await stopped.ended).toMatchObject({ code: "EFFECT_FENCED" });
    expect(await balanced(path)).toHaveLength(4);
  });
}

async function isStopped({ pid }: ChildProcess): Promise<void> {
  for (;;) {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    if (stat.slice(stat.lastIndexOf(")")).startsWith(") T")) return;
    await new Promise((done) => setTimeout(done, 20));
  }
}
