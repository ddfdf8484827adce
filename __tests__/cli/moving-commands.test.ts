import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import { TurnSaver as SqliteSaver } from "../../src/index";
import { SmallDisk, WITHOUT_MOUNT } from "../../torture/faults/small-disk";
import { fillOfficial } from "../import/imp-world";
import { childProgram } from "../support/child-program";
import { timelineOf } from "../../src/testing-internal";
import { openSaver, ON_POSTGRES, schemaAt } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { testOfFiles } from "../support/test-of-files";
import { quickProgram, told, type Told } from "./built";
import { makeThreads } from "./cli-world";
import { MOVING_SHAPES, SHAPES } from "./shapes";

// Each command is a process of its own.
jest.setTimeout(300_000);

const URL_ = process.env["TURNS_PG_URL"] ?? "";
const KEY = "0123456789abcdef".repeat(4);
const OTHER = "fedcba9876543210".repeat(4);
let program = "";
let source = "";

/** How a command is told of a database: the file, or the server with the schema that stands for it. */
const at = (path: string, flag = "--schema"): string[] => (ON_POSTGRES ? [URL_, flag, schemaAt(path)] : [path]);
const db = (path: string): string[] => ["--db", ...at(path)];
const turns = (args: readonly string[], how: Parameters<typeof told>[1] = {}): Promise<Told> =>
  told([process.execPath, program, ...args], how);
/** Commands that `turns` prints have no password in their URLs. */
const pasted = (line: string): Promise<Told> =>
  turns(line.split(" "), ON_POSTGRES ? { env: { PGPASSWORD: decodeURIComponent(new URL(URL_).password) } } : {});
/** What doctor finds of the schema: the server of tests has settings that it complains about. */
const schemaFindings = async (path: string): Promise<{ what: string; remedy: string }[]> => {
  const { stdout } = await turns(["doctor", ...db(path), "--json"]);
  const document = JSON.parse(stdout);
  expect(ALL.doctor.safeParse(document).error).toBeUndefined();
  return document.findings.filter(({ what }: { what: string }) => what.includes("langgraph_"));
};

const ALL = { ...SHAPES, ...MOVING_SHAPES };

/** What a command says in JSON, after its shape was checked. */
async function json(command: keyof typeof ALL, args: readonly string[], code = 0, env: NodeJS.ProcessEnv = {}): Promise<any> {
  const { stdout, stderr, code: exit } = await turns([...command.split(" "), ...args, "--json"], { env });
  expect({ stderr, exit }).toEqual({ stderr: "", exit: code });
  const document: unknown = JSON.parse(stdout);
  const { success, error } = ALL[command].safeParse(document);
  expect(success ? "" : `${command}: ${String(error)}`).toBe("");
  return document;
}

async function filled(options = {}): Promise<string> {
  const path = tempFile();
  const saver = openSaver(path, options);
  await makeThreads(saver);
  await (saver.close() as unknown);
  return path;
}

const ids = async (path: string): Promise<string[]> =>
  (await json("threads", [...db(path), "--sort", "id"])).threads.map(({ threadId }: { threadId: string }) => threadId);

beforeAll(async () => {
  program = quickProgram();
  source = await filled();
}, 400_000);

describe("a thread as one file", () => {
  test("S10.1 export copies it, the file is a database of its own, and import copies it back; an id that is taken is refused", async () => {
    const file = tempFile("order.db");
    expect(await json("export", ["finished", file, ...db(source)])).toMatchObject({
      threadId: "finished",
      redacted: false,
      rows: expect.any(Number),
    });
    const there = JSON.parse((await turns([file, "log", "finished"])).stdout);
    expect(there.attempts.length).toBe(6);
    const target = tempFile();
    const plan = await json("import", [file, ...db(target)], 4);
    expect(plan).toMatchObject({ done: false, plan: { threadId: "finished", turns: 12, effects: 2, isNew: true } });
    if (!ON_POSTGRES) expect(existsSync(target)).toBe(false);
    expect(await json("import", [file, ...db(target), "--yes"])).toMatchObject({ done: true, plan: { isNew: true } });
    for (const command of ["state", "effects", "blame"] as const) {
      const args = command === "blame" ? ["finished", "total"] : ["finished"];
      expect(await json(command, [...args, ...db(target)])).toEqual(await json(command, [...args, ...db(source)]));
    }
    expect(await json("verify", db(target))).toMatchObject({ ok: true, threads: 1 });
    for (const args of [[], ["--yes"]]) {
      const refused = await turns(["import", file, ...db(target), ...args]);
      expect(refused).toMatchObject({ code: 4, stdout: "", stderr: expect.stringContaining("THREAD_EXISTS") });
    }
    const again = await turns(["export", "finished", file, ...db(source)]);
    expect(again).toMatchObject({ code: 4, stderr: expect.stringContaining("--overwrite") });
    expect(await ids(source)).toEqual(["failed", "finished", "waiting"]);
  });

  test("S10.1 S3.5 a rewind of a copy leaves the source's effects alone; with --own-effects, they are the copy's", async () => {
    const verdicts = async (own: string[]): Promise<unknown> => {
      const [file, target] = [tempFile("order.db"), tempFile()];
      await json("export", ["finished", file, ...own, ...db(source)]);
      const plan = await turns(["import", file, ...own, ...db(target), "--table"]);
      expect(plan.stdout.includes("If the source is gone, add --own-effects")).toBe(own.length === 0);
      await json("import", [file, ...own, ...db(target), "--yes"]);
      return (await json("status", ["finished", ...db(target)])).rewindTo.effects.map(
        ({ verdict }: { verdict: string }) => verdict,
      );
    };
    expect(await verdicts([])).toEqual(["inherited"]);
    expect(await verdicts(["--own-effects"])).toEqual(["unregistered"]);
  });

  (WITHOUT_MOUNT ? test.skip : test)(
    "S10.1 S3.8 on a disk that is nearly full, an export is complete or refused, and the earlier file stays",
    async () => {
      const disk = new SmallDisk(path.join(path.dirname(tempFile()), "disk"), 4_096);
      try {
        const file = path.join(disk.folder, "order.db");
        for (let room = 350; ; room += 50) {
          writeFileSync(file, "an earlier file");
          const filler = disk.leave(room);
          const { code, stderr } = await turns(["export", "finished", file, "--overwrite", ...db(source)]);
          if (code === 0) break;
          expect(stderr).toContain("STORE_FAILED");
          expect([readFileSync(file, "utf8"), readdirSync(disk.folder).length]).toEqual(["an earlier file", 2]);
          rmSync(filler);
        }
        expect(await json("verify", ["--db", file])).toMatchObject({ ok: true, threads: 1 });
        disk.leave(0);
        const redacted = await turns(["export", "finished", path.join(disk.folder, "bug.json"), "--redact", ...db(source)]);
        expect(redacted).toMatchObject({ code: 1, stderr: expect.stringContaining("ENOSPC. Check the permissions") });
      } finally {
        disk.unmount();
      }
    },
  );

  test("S10.1 what a killed export left behind under the same process id isn't taken into the next one", async () => {
    const [file, left] = [tempFile("order.db"), tempFile("left.db")];
    const saver = SqliteSaver.fromPath(left);
    await makeThreads(saver);
    await saver.deleteThread("finished");
    saver.close();
    const command = [process.execPath, program, "export", "finished", file, ...db(source)];
    const { code } = await told(["sh", "-c", `cp ${left} ${file}.partial-$$ && exec "$@"`, "sh", ...command]);
    expect(code).toBe(0);
    expect(await json("threads", ["--db", file])).toMatchObject({ total: 1 });
  });

  test("S10.1 a thread of a database with several is imported by its name, and what import says takes it back", async () => {
    const target = tempFile();
    const from = ["--from-schema", schemaAt(source)];
    const origin = ON_POSTGRES ? [URL_, ...from] : [source];
    const [place = "", ...flags] = origin;
    expect(await turns(["import", place, ...flags, ...db(target)])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("several threads"),
    });
    const done = await turns(["import", place, "waiting", ...flags, ...db(target), "--yes", "--table"]);
    expect(done).toMatchObject({ code: 0, stderr: "" });
    expect(await json("inbox", db(target))).toMatchObject({ questions: [{ threadId: "waiting" }] });
    const back = /Take it back: turns (.*)$/m.exec(done.stdout)?.[1] ?? "";
    expect(await pasted(back)).toMatchObject({ code: 0 });
    expect(await ids(target)).toEqual([]);
  });

  test("S10.1 a redacted export has no content, and an import of it is refused", async () => {
    const file = tempFile("report.json");
    expect(await json("export", ["waiting", file, "--redact", ...db(source)])).toMatchObject({ redacted: true, rows: null });
    const text = readFileSync(file, "utf8");
    expect(JSON.parse(text)).toMatchObject({
      format: 1,
      threadId: "waiting",
      status: { state: "waiting" },
      attempts: [{}, {}, {}],
    });
    for (const content of ["Ship it", "planned", "go 3"]) expect(text).not.toContain(content);
    const failed = tempFile("failed.json");
    await json("export", ["failed", failed, "--redact", ...db(source)]);
    expect(readFileSync(failed, "utf8")).not.toContain("declined");
    for (const args of [[], ["--yes"]]) {
      const refused = await turns(["import", file, ...db(tempFile()), ...args]);
      expect(refused).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("redacted export") });
    }
  });

  test("S10.1 what is encrypted goes to a file in plain text only if you say so, and else under the file's own key", async () => {
    const sealed = await filled({ encryption: { key: KEY } });
    const env = { TURNS_KEY: KEY };
    const file = tempFile("sealed.db");
    const refused = await turns(["export", "finished", file, ...db(sealed)], { env });
    expect(refused).toMatchObject({ code: 4, stderr: expect.stringContaining("--allow-plaintext") });
    expect(existsSync(file)).toBe(false);
    await json("export", ["finished", file, ...db(sealed)], 0, { ...env, TURNS_TO_KEY: OTHER });
    expect(await turns([file, "threads"])).toMatchObject({ code: 1, stderr: expect.stringContaining("ENCRYPTED") });
    const target = tempFile();
    await json("import", [file, ...db(target), "--yes"], 0, { TURNS_FROM_KEY: OTHER, TURNS_KEY: KEY });
    expect(await json("verify", db(target), 0, env)).toMatchObject({ ok: true, threads: 1 });
    expect(await json("state", ["finished", ...db(target)], 0, env)).toEqual(
      await json("state", ["finished", ...db(sealed)], 0, env),
    );
    const plain = tempFile("plain.db");
    await json("export", ["finished", plain, ...db(sealed), "--allow-plaintext"], 0, env);
    expect((await turns([plain, "grep", "planned"])).code).toBe(0);
  });
});

describe("the place of a database", () => {
  testOfFiles("S10.1 export replaces neither the database that it reads nor a file beside which a log was left", async () => {
    const from = await filled();
    const link = tempFile("link.db");
    symlinkSync(from, link);
    const taken = tempFile("taken.db");
    for (const suffix of ["", "-wal"]) writeFileSync(taken + suffix, "of another program");
    const before = readFileSync(from);
    for (const redact of [[], ["--redact"]])
      for (const [out, says] of [
        [from, "is the open database or belongs to it"],
        [link, "is the open database or belongs to it"],
        [`${from}-wal`, "is the open database or belongs to it"],
        [taken, `${taken}-wal`],
      ] as const) {
        const refused = await turns(["export", "finished", out, "--overwrite", ...redact, "--db", from]);
        expect(refused).toMatchObject({ stdout: "", stderr: expect.stringContaining(says) });
        expect(refused.code).not.toBe(0);
      }
    expect(readFileSync(from).equals(before)).toBe(true);
    expect(readFileSync(taken, "utf8")).toBe("of another program");
  });

  testOfFiles("S10.1 export says in words that a name is too long for a file", async () => {
    for (const redact of [[], ["--redact"]]) {
      const refused = await turns([
        "export",
        "finished",
        path.join(path.dirname(tempFile()), "x".repeat(400)),
        ...redact,
        "--db",
        source,
      ]);
      expect(refused).toMatchObject({
        code: 1,
        stdout: "",
        stderr: expect.stringMatching(/^turns: .+ \[STORE_UNAVAILABLE\]\n$/),
      });
    }
  });

  testOfFiles("S10.1 each command that takes a database refuses a folder in words", async () => {
    const folder = path.dirname(tempFile());
    const target = ["--db", source];
    for (const args of [
      ["import", folder, ...target],
      ["import-official", folder, ...target],
      ["move", folder, source],
      ["threads", "--db", folder],
    ]) {
      const refused = await turns(args);
      expect(refused).toMatchObject({
        code: 1,
        stdout: "",
        stderr: expect.stringMatching(/^turns: .* is a directory, not a database file\./),
      });
    }
  });

  testOfFiles("S10.1 a file is also named by its URL, relative or with what a URL has to write as %20", async () => {
    const file = tempFile("my order.db");
    await json("export", ["finished", file, "--db", source]);
    const relative = `file:${encodeURIComponent(path.basename(file))}`;
    for (const place of [pathToFileURL(file).href, relative]) {
      const found = await turns(["threads", "--db", place], { cwd: path.dirname(file) });
      expect({ place, code: found.code, stderr: found.stderr }).toEqual({ place, code: 0, stderr: "" });
    }
    const out = pathToFileURL(tempFile("other order.db")).href;
    await json("export", ["finished", out, "--db", source]);
    expect(await turns([out, "threads"])).toMatchObject({ code: 0 });
    expect(await turns(["threads", "--db", "file://elsewhere/agent.db"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("file:///"),
    });
  });

  test("S10.1 no plan shows a password, be it before the host or in the query", async () => {
    const official = tempFile("official.db");
    await fillOfficial(official);
    const hidden = "postgresql://me:secret1@host.invalid/app?user=me&password=secret2&sslpassword=secret3&sslmode=require";
    for (const how of ["--json", "--table"]) {
      const { stdout, code } = await turns(["import-official", official, "--db", hidden, how]);
      expect({ how, code, stdout }).toEqual({ how, code: 4, stdout: expect.stringContaining("sslmode=require") });
      expect(stdout).not.toContain("secret");
    }
    if (!ON_POSTGRES) return;
    const file = tempFile("order.db");
    await json("export", ["finished", file, ...db(source)]);
    const url = new URL(URL_);
    url.searchParams.set("password", decodeURIComponent(url.password));
    url.password = "";
    const secret = `password=${url.searchParams.get("password")}`;
    for (const [shown, place] of [
      [`:${new URL(URL_).password}@`, URL_],
      [secret, String(url)],
    ] as const)
      for (const how of ["--json", "--table"])
        for (const args of [
          ["import", file, "--db", place, "--schema", schemaAt(tempFile())],
          ["move", file, place, "--to-schema", schemaAt(tempFile())],
        ]) {
          const { stdout, stderr, code } = await turns([...args, how]);
          expect({ code, stderr }).toEqual({ code: 4, stderr: "" });
          expect(stdout).not.toContain(shown);
        }
  });
});

describe("move", () => {
  test("S10.1 shows its plan, moves, and says how to move back; what can't move stays and is listed", async () => {
    const [from, to] = [await filled(), tempFile()];
    const ends = [at(from)[0] ?? "", at(to)[0] ?? ""];
    const schemas = ON_POSTGRES ? ["--schema", schemaAt(from), "--to-schema", schemaAt(to)] : [];
    const plan = await json("move", [...ends, ...schemas], 4);
    expect(plan).toMatchObject({ done: false, plan: { threads: 3, turns: 22, isNew: true, refused: [] } });
    expect(await json("move", [...ends, ...schemas, "--dry-run", "--yes"])).toMatchObject({ done: false });
    expect((await ids(from)).length).toBe(3);
    const one = await json("move", [...ends, "wait", ...schemas, "--yes"]);
    expect(one).toMatchObject({ done: true, report: { threads: 1, done: true } });
    const rest = await turns(["move", ...ends, ...schemas, "--yes", "--table"]);
    expect(rest).toMatchObject({ code: 0, stderr: "" });
    expect(await ids(from)).toEqual([]);
    expect(await ids(to)).toEqual(["failed", "finished", "waiting"]);
    expect(await turns(["status", "finished", ...db(from)])).toMatchObject({ stderr: expect.stringContaining("THREAD_MOVED") });
    // The target had a thread before, so each is named.
    const back = /Take it back: turns (.*) --yes, for each thread$/m.exec(rest.stdout)?.[1] ?? "";
    expect(await pasted(`${back.replace("THREAD", "failed")} --yes`)).toMatchObject({ code: 0 });
    expect(await ids(from)).toEqual(["failed"]);
    const taken = openSaver(to);
    await taken.retention.reuseThread("failed");
    await taken.copyThread("finished", "failed");
    await (taken.close() as unknown);
    const refused = await json("move", [...ends, ...schemas, "--yes"], 4);
    expect(refused.report).toMatchObject({ threads: 0, refused: [{ threadId: "failed", code: "THREAD_EXISTS" }] });
    // The plan counts only what would move.
    const stays = await json("move", [...ends, ...schemas], 4);
    expect(stays).toMatchObject({ plan: { threads: 0, turns: 0 }, refused: { code: "THREAD_EXISTS" } });
    const both = openSaver(from);
    await both.copyThread("failed", "free");
    await (both.close() as unknown);
    const some = await json("move", [...ends, ...schemas, "--dry-run"]);
    expect(some).toMatchObject({ plan: { threads: 1, refused: [{ threadId: "failed" }] }, refused: null });
  });

  test("S10.1 each side has keys of its own", async () => {
    const [from, to] = [await filled({ encryption: { key: KEY } }), tempFile()];
    const args = [
      at(from)[0] ?? "",
      at(to)[0] ?? "",
      ...(ON_POSTGRES ? ["--schema", schemaAt(from), "--to-schema", schemaAt(to)] : []),
    ];
    const refused = await turns(["move", ...args, "--yes"], { env: { TURNS_KEY: KEY } });
    expect(refused).toMatchObject({ code: 4, stderr: expect.stringContaining("--to-key-file") });
    const keyFile = tempFile("to.key");
    writeFileSync(keyFile, OTHER);
    const moved = await json("move", [...args, "--to-key-file", keyFile, "--yes"], 0, { TURNS_KEY: KEY });
    expect(moved).toMatchObject({ report: { threads: 3 } });
    expect(await json("verify", db(to), 0, { TURNS_KEY: OTHER })).toMatchObject({ ok: true, threads: 3 });
  });

  testOfFiles("S10.1 Ctrl-C ends a move after a thread, and the same command continues", async () => {
    const interrupted = async () => {
      const [from, to] = [tempFile(), tempFile()];
      const saver = SqliteSaver.fromPath(from, { synchronous: "normal" });
      await makeThreads(saver);
      for (let n = 0; n < 150; n += 1) await saver.copyThread("finished", `copy-${n}`);
      saver.close();
      const child = spawn(process.execPath, [program, "move", from, to, "--yes", "--json"], {
        env: { ...process.env, NODE_OPTIONS: "" },
      });
      const out: string[] = [];
      child.stdout.setEncoding("utf8").on("data", (text: string) => void out.push(text));
      const closed = new Promise<number | null>((resolve) => child.on("close", resolve));
      while (child.exitCode === null && !hasThread(to)) await new Promise((resolve) => setTimeout(resolve, 5));
      child.kill("SIGINT");
      return { from, to, code: await closed, report: JSON.parse(out.join("")).report };
    };
    let found = await interrupted();
    // On a busy machine Ctrl-C may come when all threads have moved.
    for (let tries = 0; tries < 10 && found.code === 0; tries += 1) found = await interrupted();
    const { from, to, code, report } = found;
    expect(code).toBe(130);
    expect(report.done).toBe(false);
    expect(report.threads).toBeLessThan(153);
    const rest = await json("move", [from, to, "--yes"]);
    expect(rest.report).toMatchObject({ done: true, threads: 153 - report.threads });
    expect(await json("verify", ["--db", to])).toMatchObject({ ok: true, threads: 153 });
  });
});

/** Copies thread "waiting" to "t", and kills a process that moves it at a failpoint. */
async function interrupted(point: string): Promise<[from: string, to: string]> {
  const [from, to] = [await filled(), tempFile()];
  const saver = openSaver(from);
  await saver.copyThread("waiting", "t");
  await (saver.close() as unknown);
  const kind = ON_POSTGRES ? "schema" : "file";
  const child = [...childProgram(path.join(__dirname, "../moving/move-child.ts")), kind, from, kind, to, point];
  const killed = spawnSync(process.execPath, child, { env: { ...process.env, NODE_OPTIONS: "" } });
  expect(killed.signal).toBe("SIGKILL");
  return [from, to];
}

describe("a move that was interrupted", () => {
  testOfFiles(
    "S10.1 is told by status, threads and doctor with the command that finishes it, and plans are refused",
    async () => {
      const [from, to] = await interrupted("move-hold.after");
      const finish = `turns move ${from} ${to} t --yes`;
      const status = await json("status", ["t", ...db(from)], 4);
      expect(status).toMatchObject({ moving: { to, command: finish }, resume: { can: "person" } });
      const told = await turns(["status", "t", ...db(from), "--table"], { env: { COLUMNS: "600" } });
      expect(told.stdout).toContain(`A move to ${to}, since `);
      expect(told.stdout).toContain(`\n  ${finish}\n`);
      const { threads } = await json("threads", db(from));
      expect(threads.filter(({ moving }: any) => moving !== null)).toMatchObject([{ threadId: "t", moving: { to } }]);
      expect((await turns(["threads", ...db(from), "--table"], { env: { COLUMNS: "600" } })).stdout).toContain(`moved to ${to}`);
      expect((await turns(["doctor", ...db(from), "--table"], { env: { COLUMNS: "600" } })).stdout).toContain(finish);
      const graph = ["--graph", `${path.join(__dirname, "cli-world.ts")}#asks`];
      const refused: readonly string[][] = [
        ["resume", "t", ...graph],
        ["inbox", "answer", "t", "--value", "1", ...graph],
        ["rewind", "t", "--to", "only"],
        ["delete", "t"],
        ["name", "t", "here"],
        ["name", "t", "here", "--remove"],
        ["prune", "t", "--keep-last", "1"],
      ];
      for (const args of refused) {
        const { stdout, stderr } = await turns([...args, ...db(from)]);
        expect({ args, stderr, plan: JSON.parse(stdout || "{}") }).toMatchObject({
          ...{ args, stderr: "" },
          plan: { done: false, refused: { code: "THREAD_MOVED", message: expect.stringContaining(finish) } },
        });
      }
      // What is done to all threads leaves it out, and says so.
      for (const done of [[], ["--yes"]]) {
        const all = await turns(["prune", "--keep-last", "1", ...done, ...db(from), "--table"]);
        expect(all).toMatchObject({ code: 4, stdout: expect.stringContaining(`Not pruned: t: `), stderr: "" });
        expect(all.stdout).toContain(finish);
      }
      const reuse = await turns(["reuse", "t", ...db(from), "--table"]);
      expect(reuse.stdout).toContain(`turns ${to} status t`);
      expect(reuse.stdout).toMatch(new RegExp(`to ${to}, which began at \\d{4}-`));
      const reused = await turns(["reuse", "t", ...db(from), "--table", "--yes"]);
      expect(reused.stdout).toContain(`turns ${to} status t`);
    },
  );

  testOfFiles("S10.1 that was published is only to be finished, which the plan of move says", async () => {
    const [from, to] = await interrupted("move-publish.after");
    const plan = await json("move", [from, to, "t"], 4);
    expect(plan).toMatchObject({ plan: { refused: [], published: ["t"] } });
    expect((await turns(["move", from, to, "t", "--table"])).stdout).toContain("only has to be finished");
    expect(await json("move", [from, to, "t", "--yes"])).toMatchObject({ done: true, report: { threads: 1 } });
    const reuse = await turns(["reuse", "t", ...db(from), "--table"]);
    expect(reuse.stdout).toContain(`was moved to ${to} at `);
    expect(reuse.stdout).toContain(`turns ${to} status t`);
    const other = await turns(["status", "t", ...db(from)]);
    expect(other).toMatchObject({ code: 4, stderr: expect.stringContaining(`turns ${to} status t`) });
    expect(other.stderr).toContain(`turns move ${to} ${from} t --yes`);
  });
});

test("S10.1 of a thread that was moved after a crash, the process that is gone is the run's, and settling an effect changes no time", async () => {
  const [from, to] = [tempFile(), tempFile()];
  const child = [...childProgram(path.join(__dirname, "cli-world.ts")), "dies", from];
  const killed = spawnSync(process.execPath, child, { env: { ...process.env, NODE_OPTIONS: "" } });
  expect(killed.signal).toBe("SIGKILL");
  const schemas = ON_POSTGRES ? ["--schema", schemaAt(from), "--to-schema", schemaAt(to)] : [];
  await json("move", [at(from)[0] ?? "", at(to)[0] ?? "", "killed", ...schemas, "--yes"]);
  const course = async (): Promise<any> => {
    const saver = openSaver(to);
    const timeline = await timelineOf(saver, "killed");
    await (saver.close() as unknown);
    return timeline;
  };
  const before = await course();
  const { effects } = await json("effects", ["killed", ...db(to)]);
  const dead = before.tasks[0].deaths.map(({ pid }: { pid: number | null }) => pid);
  expect(dead.filter((pid: number | null) => pid !== null && pid !== killed.pid)).toEqual([]);
  const { stdout } = await turns(["status", "killed", ...db(to), "--table"]);
  expect(/Process (\d+) /.exec(stdout)?.[1] ?? String(killed.pid)).toBe(String(killed.pid));
  await json("effect resolve", [effects[0].id, "not-done", ...db(to), "--yes"]);
  const after = await course();
  expect([after.to, after.tasks[0].words]).toEqual([before.to, before.tasks[0].words]);
}, 300_000);

/** Whether a file has a thread by now. */
function hasThread(file: string): boolean {
  try {
    const found = new Database(file, { readonly: true });
    try {
      return found.prepare("SELECT 1 FROM langgraph_threads").get() !== undefined;
    } finally {
      found.close();
    }
  } catch {
    return false;
  }
}

describe("what repairs", () => {
  test("S10.1 migrate creates the tables after its plan, prints its SQL, and has nothing to do then", async () => {
    const target = tempFile();
    expect(await turns(["threads", ...db(target)])).toMatchObject({ code: ON_POSTGRES ? 1 : 2 });
    expect(await json("migrate", db(target), 4)).toMatchObject({ done: false, plan: { found: 0, newest: 1, steps: 1 } });
    const { stdout, code } = await turns(["migrate", "--print-sql", ...db(target)]);
    expect(code).toBe(0);
    expect(stdout).toContain("CREATE TABLE");
    if (ON_POSTGRES) expect(stdout).toContain(`"${schemaAt(target)}".langgraph_threads`);
    expect(await json("migrate", [...db(target), "--yes"])).toMatchObject({ done: true, report: { version: 1 } });
    expect(await json("migrate", db(target))).toMatchObject({ done: false, plan: { steps: 0 } });
    expect(await schemaFindings(target)).toEqual([]);
  });

  test("S10.1 keys rotate takes the new key from the environment or a file, and the old one opens nothing any more", async () => {
    const path = await filled({ encryption: { key: KEY } });
    const env = { TURNS_KEY: KEY, TURNS_NEW_KEY: OTHER, TURNS_NEW_KEY_ID: "next" };
    expect(await turns(["keys", "rotate", ...db(path)], { env: { TURNS_KEY: KEY } })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("TURNS_NEW_KEY"),
    });
    expect(await turns(["keys", "rotate", ...db(path)], { env: { ...env, TURNS_NEW_KEY_ID: undefined } })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("TURNS_NEW_KEY_ID"),
    });
    const plan = await json("keys rotate", db(path), 4, env);
    expect(plan).toMatchObject({ plan: { inUse: ["default"], current: "next" } });
    const done = await json("keys rotate", [...db(path), "--yes"], 0, env);
    expect(done).toMatchObject({ report: { keyId: "next", retired: 1, done: true } });
    expect(await turns(["threads", ...db(path)], { env: { TURNS_KEY: KEY } })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("UNKNOWN_KEY"),
    });
    const keyFile = tempFile("keys.json");
    writeFileSync(keyFile, JSON.stringify({ keys: { next: OTHER, third: KEY }, current: "third" }));
    expect(await json("keys rotate", [...db(path), "--key-file", keyFile, "--yes"])).toMatchObject({
      report: { keyId: "third" },
    });
    expect(await json("verify", db(path), 0, { TURNS_KEY: KEY, TURNS_KEY_ID: "third" })).toMatchObject({ ok: true });
  });

  test("S10.1 import-official imports after its plan, verifies, and finds everything there the second time", async () => {
    const official = tempFile("official.db");
    await fillOfficial(official);
    const target = tempFile();
    expect(await json("import-official", [official, ...db(target)], 4)).toMatchObject({ plan: { threads: 5 } });
    const one = await json("import-official", [official, "waiting", ...db(target), "--yes"]);
    expect(one.report.threads).toMatchObject([{ threadId: "waiting", outcome: "imported", verified: true }]);
    const all = await json("import-official", [official, ...db(target), "--yes"]);
    const outcomes = all.report.threads.map(({ outcome }: { outcome: string }) => outcome);
    expect(outcomes).toEqual(["imported", "imported", "imported", "imported", "present"]);
    expect(await ids(target)).toEqual(["answered", "exit", "flaky", "forked", "waiting"]);
    expect(await turns(["import-official", official, "nobody", ...db(target), "--yes"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("THREAD_NOT_FOUND"),
    });
  });

  test("S10.1 salvage rescues what is whole into a new file, and exits with 3 if something is lost; a server has its own tools", async () => {
    const target = tempFile("rescued.db");
    if (ON_POSTGRES) {
      const refused = await turns(["salvage", target, ...db(source)]);
      return expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("SQLite") });
    }
    const path = await filled();
    expect(await json("salvage", [target, "--db", path])).toMatchObject({ ok: true, lost: [] });
    expect(await turns(["salvage", target, "--db", path])).toMatchObject({ code: 4, stderr: expect.stringContaining("already") });
    const bytes = readFileSync(path);
    bytes.fill(0x55, 4096 * 8, 4096 * 12);
    writeFileSync(path, bytes);
    const other = tempFile("other.db");
    const damaged = await json("salvage", [other, "--db", path], 3);
    expect(damaged.ok).toBe(false);
    expect(await json("verify", ["--db", other])).toMatchObject({ ok: true });
  });

  test("S10.1 reuse allows the id of a deleted thread again", async () => {
    const path = await filled();
    expect(await json("reuse", ["failed", ...db(path)])).toMatchObject({ done: false, plan: { found: false } });
    expect((await turns(["reuse", "failed", "--table", ...db(path)])).stdout).toContain("Nothing to do.");
    await json("delete", ["failed", "--final", "--yes", ...db(path)]);
    expect(await json("reuse", ["failed", ...db(path)], 4)).toMatchObject({ plan: { found: true, final: true } });
    expect(await json("reuse", ["failed", "--yes", ...db(path)])).toMatchObject({ report: { reused: true } });
    expect(await json("reuse", ["failed", "--dry-run", ...db(path)])).toMatchObject({ plan: { found: false } });
  });

  test("S10.1 vacuum makes free space usable on both engines", async () => {
    const path = await filled();
    expect(await json("vacuum", db(path), 4)).toMatchObject({ done: false });
    expect(await json("vacuum", [...db(path), "--yes"])).toMatchObject({ done: true });
    const full = await turns(["vacuum", ...db(path), "--full", "--yes"]);
    expect(full.code).toBe(ON_POSTGRES ? 2 : 0);
    expect(await json("verify", db(path))).toMatchObject({ ok: true });
  });

  test("S10.1 doctor names what differs from the migrations, and the statement that repairs it", async () => {
    const path = await filled();
    await changed(path, [
      "DROP INDEX $langgraph_snapshots_by_run",
      "DROP INDEX $langgraph_snapshots_by_position",
      "CREATE INDEX langgraph_snapshots_by_position ON $langgraph_snapshots (thread, position)",
    ]);
    expect(await turns(["doctor", ...db(path)])).toMatchObject({ code: 3 });
    const findings = await schemaFindings(path);
    expect(findings.map(({ what }) => what)).toEqual([
      expect.stringContaining("langgraph_snapshots_by_position of table langgraph_snapshots is another one"),
      expect.stringContaining("langgraph_snapshots_by_run of table langgraph_snapshots is missing"),
    ]);
    await changed(
      path,
      findings.flatMap(({ remedy }) => remedy.split("; ")),
    );
    expect(await schemaFindings(path)).toEqual([]);
    await changed(path, ["ALTER TABLE $langgraph_snapshots DROP COLUMN delta"]);
    const missing = await json("doctor", db(path), 3);
    expect(missing.findings).toMatchObject([{ kind: "problem", what: "Column delta of table langgraph_snapshots is missing." }]);
    await changed(path, [missing.findings[0].remedy]);
    expect(await turns(["threads", ...db(path)])).toMatchObject({ code: 0 });
  });
});

/** Runs statements on a database; `$` stands for its schema. */
async function changed(path: string, statements: readonly string[]): Promise<void> {
  if (!ON_POSTGRES) {
    const file = new Database(path);
    for (const statement of statements) file.exec(statement.replaceAll("$", ""));
    file.close();
    return;
  }
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- SQLite's tests don't load `pg`
  const { Client } = require("pg") as typeof import("pg");
  const client = new Client(URL_);
  await client.connect();
  for (const statement of statements) await client.query(statement.replaceAll("$", `"${schemaAt(path)}".`));
  await client.end();
}

describe("files of another version", () => {
  testOfFiles(
    "S10.1 a newer one is refused, and one that lacks something is refused with turns migrate; nothing is changed",
    async () => {
      const newer = await filled();
      await changed(newer, [
        "INSERT INTO langgraph_migrations (version, name, applied_at, checksum) VALUES (2, 'next', '2030-01-01T00:00:00.000Z', 'x')",
      ]);
      const lacking = await filled();
      await changed(lacking, ["DROP TABLE langgraph_names"]);
      for (const [path, says] of [
        [newer, "SCHEMA_TOO_NEW"],
        [lacking, " migrate --yes makes it"],
      ] as const) {
        const before = readFileSync(path);
        for (const command of [[], ["threads"], ["status", "finished"], ["verify"], ["inbox"]]) {
          const refused = await turns([...command, "--db", path]);
          expect(refused).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining(says) });
          expect(refused.stderr).not.toMatch(/\n\s+at /);
        }
        expect(readFileSync(path).equals(before)).toBe(true);
      }
    },
  );
});

describe("conventions", () => {
  testOfFiles("S10.1 every one of these commands has help with three examples, a table, and takes a closed pipe", async () => {
    for (const command of Object.keys(MOVING_SHAPES)) {
      const { stdout, code } = await turns([...command.split(" "), "--help"]);
      expect({ command, code, lines: stdout.split("\n").slice(0, 4) }).toEqual({
        ...{ command, code: 0 },
        lines: ["Examples:", ...Array(3).fill(expect.stringMatching(/^ {2}\S*.*turns /))],
      });
    }
    const official = tempFile("official.db");
    await fillOfficial(official);
    const target = tempFile();
    const ends = [at(source)[0] ?? "", at(target)[0] ?? ""];
    const schemas = ON_POSTGRES ? ["--schema", schemaAt(source), "--to-schema", schemaAt(target)] : [];
    const file = tempFile("finished.db");
    await json("export", ["finished", file, ...db(source)]);
    const plans = [
      ["move", ...ends, ...schemas],
      ["import", file, ...db(target)],
      ["import-official", official, ...db(target)],
      ["migrate", ...db(target)],
      ["reuse", "finished", ...db(source)],
      ["migrate", "--print-sql", ...db(target)],
      ["doctor", ...db(source)],
    ];
    for (const plan of plans) {
      const shown = await turns([...plan, "--table"], { env: { COLUMNS: "80" } });
      expect({ plan, stderr: shown.stderr }).toEqual({ plan, stderr: "" });
      expect(shown.stdout).not.toContain("\u001b");
      const line = [process.execPath, program, ...plan].map((arg) => `'${arg}'`).join(" ");
      const { stdout, stderr } = spawnSync("bash", ["-c", `${line} | head -n 1; echo "\${PIPESTATUS[0]}"`], {
        encoding: "utf8",
        env: { ...process.env, NODE_OPTIONS: "" },
      });
      expect({ plan, stderr }).toEqual({ plan, stderr: "" });
      expect(["0", "3", "4"]).toContain(stdout.trim().split("\n").at(-1));
    }
  });

  testOfFiles("S10.1 no key is an option's value", async () => {
    for (const command of ["move", "export", "import", "keys rotate"]) {
      const { stdout } = await turns([...command.split(" "), "--help"]);
      expect(stdout).not.toMatch(/--[\w-]*key <(?!file)/);
      expect(stdout).toMatch(/--[\w-]*key-file <file>/);
    }
  });
});
