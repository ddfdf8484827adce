import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
import { GraphRunner, TurnsError, TurnSaver } from "langgraph-checkpoint-turns";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { importOfficial } from "langgraph-checkpoint-turns/import";
import { salvage } from "langgraph-checkpoint-turns/maintenance";
import { line, lineGraph, world, type World } from "../support/run-world";
import { tempFile } from "../support/temp";

async function refusal(work: () => unknown): Promise<TurnsError> {
  try {
    await work();
  } catch (error) {
    return error as TurnsError;
  }
  throw new Error("it was not refused");
}

async function ranTasks(at: World, tasks: readonly string[]) {
  const runner = line(at, ["a"]);
  for (const taskId of tasks) await runner.invoke({ log: [] }, { threadId: "t", taskId });
  return runner;
}

describe("S8.3 a rewind that can't be taken back says why, and what to do", () => {
  test("S8.3 it was taken back before", async () => {
    const at = world();
    const runner = await ranTasks(at, ["one", "two"]);
    const { rewindId } = await runner.rewind({ threadId: "t", toTask: "one" });
    await runner.takeBackRewind(rewindId!);
    const [done] = await at.saver.rewinds.list("t");
    const { code, message } = await refusal(() => runner.takeBackRewind(rewindId!));
    expect(code).toBe("REWIND_CONFLICT");
    expect(message).toBe(
      `Rewind ${rewindId} was already taken back, at ${done!.takenBackAt!.toISOString()}. There is nothing to take back. Nothing was changed.`,
    );
    at.saver.close();
  });

  test("S8.3 it kept no archive", async () => {
    const at = world();
    const runner = await ranTasks(at, ["one", "two"]);
    const { rewindId } = await runner.rewind({ threadId: "t", toTask: "one", archive: false });
    const { message } = await refusal(() => runner.takeBackRewind(rewindId!));
    expect(message).toBe(
      `Rewind ${rewindId} can't be taken back: it has no archive: it was made with archive: false, or a prune or deleteForRuns has removed the archive. Run the tasks again, or restore a backup. Nothing was changed.`,
    );
    at.saver.close();
  });

  test("S8.3 the refusal of a rewind to a checkpoint that isn't there has the call that lists those that are", async () => {
    const at = world();
    await ranTasks(at, ["one"]);
    const toNothing = () => at.saver.rewinds.toCheckpoint({ threadId: "t", checkpointId: "gone", reason: "r" });
    expect((await refusal(toNothing)).message).toBe(
      'Thread "t" can\'t be rewound to checkpoint "gone", which isn\'t there. It was pruned or rewound, or it was never saved (durability "exit"). ' +
        'saver.list({"configurable":{"thread_id":"t"}}) lists the checkpoints there are. Nothing was deleted.',
    );
    at.saver.close();
  });

  test("S8.3 the thread has newer work, or a later rewind went further back", async () => {
    const at = world();
    const runner = await ranTasks(at, ["one", "two", "three"]);
    const { rewindId } = await runner.rewind({ threadId: "t", toTask: "two" });
    await runner.invoke({ log: [] }, { threadId: "t", taskId: "four" });
    expect((await refusal(() => runner.takeBackRewind(rewindId!))).message).toBe(
      `Rewind ${rewindId} can't be taken back: the thread has newer work, or an earlier rewind was taken back since. Rewind it to task "two" again first. Nothing was changed.`,
    );
    await runner.rewind({ threadId: "t", toTask: "one" });
    expect((await refusal(() => runner.takeBackRewind(rewindId!))).message).toBe(
      `Rewind ${rewindId} can't be taken back: a later rewind went further back. Take that one back first: saver.rewinds.list("t") shows it. Nothing was changed.`,
    );
    at.saver.close();
  });
});

describe("S8.3 misspelt names get the nearest one", () => {
  test("S8.3 a required option", async () => {
    const at = world();
    const runner = await ranTasks(at, ["one"]);
    const { code, message } = await refusal(() => runner.rewind({ threadId: "t", toTaks: "one" } as never));
    expect(code).toBe("INVALID_OPTION");
    expect(message).toMatch(/^Unknown option "toTaks"\. Did you mean "toTask"\? Valid options: /);
    expect((await refusal(() => runner.rewind({ threadId: "t" } as never))).message).toMatch(/^Option "toTask" is missing\./);
    at.saver.close();
  });

  test("S8.3 a task: the nearest one, and the first few of the thread", async () => {
    const at = world();
    const runner = await ranTasks(at, ["plan", "write", "send", "check", "close", "archive", "forget"]);
    const { code, message } = await refusal(() => runner.rewind({ threadId: "t", toTask: "wirte" }));
    expect(code).toBe("UNKNOWN_TASK");
    expect(message).toBe(
      'Thread "t" can\'t be rewound to task "wirte", which is not one of its 7 tasks. Did you mean "write"? Its tasks: "plan", "write", "send", "check", "close" and 2 more; saver.turns.tasks("t") lists them all. Nothing was deleted.',
    );
    const listed = await refusal(() => runner.rewind({ threadId: "t", toTask: "write", tasks: ["plan", "writ"] }));
    expect(listed.message).toBe(
      'Thread "t" can\'t be rewound to task "write", which is not one of the 2 tasks in the list. Did you mean "writ"? The list: "plan", "writ". Nothing was deleted.',
    );
    at.saver.close();
  });
});

describe("S8.3 a path that is none", () => {
  test("S8.3 the URL of a file is refused with the call to make, and nothing is created", async () => {
    const folder = mkdtempSync(join(tmpdir(), "turns-"));
    const url = pathToFileURL(join(folder, "agent.db")).href;
    const told = [
      [url, `TurnSaver.fromPath(fileURLToPath(${JSON.stringify(url)})), with fileURLToPath from "node:url"`],
      ["file:agent.db", 'TurnSaver.fromPath("agent.db")'],
      ["file:agent.db?mode=ro", 'TurnSaver.fromPath("agent.db")'],
      ["file:", 'TurnSaver.fromPath("agent.db")'],
      ["file:?mode=ro", 'TurnSaver.fromPath("agent.db")'],
      ["FILE::memory:?cache=shared", 'TurnSaver.fromPath(":memory:")'],
      ["file:100%.db", 'TurnSaver.fromPath("100%.db")'],
    ] as const;
    for (const [path, call] of told) {
      for (const open of [() => TurnSaver.fromPath(path), () => TurnSaver.fromConnString(path)]) {
        const { code, message } = await refusal(open);
        expect(code).toBe("INVALID_OPTION");
        expect(message).toBe(
          `The path of the database is ${JSON.stringify(path)}, which is a URL. Pass a path: ${call}. Nothing was created.`,
        );
      }
    }
    const given = await refusal(() => TurnSaver.fromPath(new URL(url) as never));
    expect(given.message).toContain(`Pass a path: TurnSaver.fromPath(fileURLToPath(${JSON.stringify(url)}))`);
    const saver = TurnSaver.fromPath(join(folder, "here.db"));
    expect((await refusal(() => saver.backup(url))).message).toContain("which is a URL");
    expect((await refusal(() => salvage(url, join(folder, "x")))).message).toContain("which is a URL");
    expect((await refusal(() => importOfficial(saver, url))).message).toContain("which is a URL");
    saver.close();
    expect(readdirSync(folder)).toEqual(["here.db"]);
  });

  test("S8.3 a directory is named as one by every call that takes a file", async () => {
    const folder = mkdtempSync(join(tmpdir(), "turns-"));
    const saver = TurnSaver.fromPath(tempFile());
    const calls = {
      fromPath: () => TurnSaver.fromPath(folder),
      backup: () => saver.backup(folder, { overwrite: true }),
      importOfficial: () => importOfficial(saver, folder),
      salvage: () => salvage(folder, join(folder, "x")),
    };
    const told = await Promise.all(
      Object.entries(calls).map(async ([name, call]) => [name, (await refusal(call)).message] as const),
    );
    for (const [name, message] of told)
      expect({ name, message }).toEqual({ name, message: expect.stringMatching(/is a directory/) as string });
    saver.close();
  });
});

describe("S8.3 the argument of a method is named as the method names it", () => {
  test("S8.3 a thread id, an effect id", async () => {
    const { saver } = world();
    const calls: [string, string, () => unknown][] = [
      ["threadId", "turns.list", () => saver.turns.list(undefined as never)],
      ["threadId", "turns.tasks", () => saver.turns.tasks(undefined as never)],
      ["threadId", "turns.inFlight", () => saver.turns.inFlight(undefined as never)],
      ["threadId", "turns.tokenUsage", () => saver.turns.tokenUsage(undefined as never)],
      ["threadId", "turns.isRunning", () => saver.turns.isRunning(undefined as never)],
      ["threadId", "turns.liveRuns", () => saver.turns.liveRuns(undefined as never)],
      ["threadId", "effects.list", () => saver.effects.list(undefined as never)],
      ["threadId", "rewinds.list", () => saver.rewinds.list(undefined as never)],
      ["threadId", "rewinds.unfinished", () => saver.rewinds.unfinished(undefined as never)],
      ["threadId", "retention.reuseThread", () => saver.retention.reuseThread(undefined as never)],
      ["threadId", "names.list", () => saver.names.list(undefined as never)],
      ["threadId", "names.delete", () => saver.names.delete(undefined as never, "n")],
      ["name", "names.delete", () => saver.names.delete("t", undefined as never)],
      ["threadId", "deleteThread", () => saver.deleteThread(undefined as never)],
      ["sourceThreadId", "copyThread", () => saver.copyThread(undefined as never, "u")],
      ["targetThreadId", "copyThread", () => saver.copyThread("t", undefined as never)],
    ];
    for (const [argument, method, call] of calls) {
      const { code, message, data } = await refusal(call);
      expect({ method, code, message, data }).toEqual({
        method,
        code: "INVALID_CONFIG",
        message: `${argument} of ${method} is missing. It must be a non-empty string without NUL characters and lone surrogates. Nothing was changed.`,
        data: { key: argument },
      });
    }
    saver.close();
  });

  test("S8.3 an effect id, a rewind id", async () => {
    const { saver } = world();
    const calls: [string, () => unknown][] = [
      ["effectId", () => saver.effects.get(undefined as never)],
      ["effectId", () => saver.effects.resolve(undefined as never, { outcome: "not-done" })],
      ["rewindId", () => saver.rewinds.takeBack(undefined as never)],
      ["rewindId", () => saver.rewinds.abandon(undefined as never)],
    ];
    for (const [option, call] of calls) {
      const { code, message, data } = await refusal(call);
      expect({ code, message, data }).toEqual({
        ...{ code: "INVALID_OPTION", data: { option } },
        message: expect.stringMatching(`^Option "${option}" is missing\\. Pass a `) as string,
      });
    }
    saver.close();
  });
});

describe("S8.3 S3.8 an unknown thread", () => {
  const threadId = "nobody's";
  const config = { configurable: { thread_id: threadId } };
  type Call = (at: { saver: TurnSaver; runner: GraphRunner<ReturnType<typeof lineGraph>> }) => unknown;

  const refused: [string, Call][] = [
    ["copyThread", ({ saver }) => saver.copyThread(threadId, "copy")],
    ["rewind", ({ saver }) => saver.rewind({ threadId, toTask: "x" })],
    ["prune", ({ saver }) => saver.prune({ threadId, keepLast: 1 })],
    ["verify", ({ saver }) => saver.verify({ threadId })],
    ["rewinds.compensationReport", ({ saver }) => saver.rewinds.compensationReport({ threadId, toTask: "x" })],
    ["rewinds.toCheckpoint", ({ saver }) => saver.rewinds.toCheckpoint({ threadId, checkpointId: "c", reason: "r" })],
    ["names.set", ({ saver }) => saver.names.set({ threadId }, "name")],
    ["runner.rewind", ({ runner }) => runner.rewind({ threadId, toTask: "x" })],
    ["runner.compensationReport", ({ runner }) => runner.compensationReport({ threadId, toTask: "x" })],
  ];
  test.each(refused)("S8.3 S3.8 %s: THREAD_NOT_FOUND", async (_, call) => {
    const at = world();
    const runner = line(at, ["a"]);
    expect(await refusal(() => call({ saver: at.saver, runner }))).toMatchObject({
      code: "THREAD_NOT_FOUND",
      data: { threadId },
      message: `This database has no thread ${JSON.stringify(threadId)}. saver.listThreads() shows the threads there are.`,
    });
    at.saver.close();
  });

  const empty: [string, Call, unknown][] = [
    ["getTuple", ({ saver }) => saver.getTuple(config), undefined],
    [
      "list",
      ({ saver }) =>
        saver
          .list(config)
          .next()
          .then(({ done }) => (done === true ? [] : ["one"])),
      [],
    ],
    ["deleteThread", ({ saver }) => saver.deleteThread(threadId), undefined],
    ["getDeltaChannelHistory", ({ saver }) => saver.getDeltaChannelHistory({ config, channels: [] }), {}],
    ["turns.list", ({ saver }) => saver.turns.list(threadId), []],
    ["turns.inFlight", ({ saver }) => saver.turns.inFlight(threadId), []],
    ["turns.tasks", ({ saver }) => saver.turns.tasks(threadId), []],
    ["turns.tokenUsage", async ({ saver }) => (await saver.turns.tokenUsage(threadId)).byTask, []],
    ["turns.isRunning", ({ saver }) => saver.turns.isRunning(threadId), false],
    ["turns.liveRuns", ({ saver }) => saver.turns.liveRuns(threadId), []],
    ["effects.list", ({ saver }) => saver.effects.list(threadId), []],
    ["rewinds.list", ({ saver }) => saver.rewinds.list(threadId), []],
    ["rewinds.unfinished", ({ saver }) => saver.rewinds.unfinished(threadId), undefined],
    ["rewinds.finish", ({ saver }) => saver.rewinds.finish({ threadId }), undefined],
    ["names.list", ({ saver }) => saver.names.list(threadId), []],
    ["names.delete", ({ saver }) => saver.names.delete(threadId, "name"), false],
    ["retention.reuseThread", ({ saver }) => saver.retention.reuseThread(threadId), false],
    ["CheckpointFile.fromThread", async ({ saver }) => (await CheckpointFile.fromThread(saver, threadId)).phases, []],
    ["runner.status", async ({ runner }) => (await runner.status(threadId)).reason?.code, "NOTHING_TO_RESUME"],
    ["runner.inFlight", ({ runner }) => runner.inFlight(threadId), []],
    ["runner.finishRewind", ({ runner }) => runner.finishRewind({ threadId }), undefined],
  ];
  test.each(empty)("S8.3 S3.8 %s: there is nothing yet", async (_, call, found) => {
    const at = world();
    const runner = line(at, ["a"]);
    const told = await call({ saver: at.saver, runner });
    expect(Array.isArray(told) ? [...(told as unknown[])] : told).toEqual(found);
    at.saver.close();
  });

  test("S8.3 S3.8 a resume says that there is nothing to resume", async () => {
    const at = world();
    const runner = line(at, ["a"]);
    for (const call of [() => runner.resume({ threadId }), () => runner.invoke(null, { threadId })])
      expect(await refusal(call)).toMatchObject({ code: "NOTHING_TO_RESUME", data: { threadId } });
    at.saver.close();
  });
});

describe("S8.3 the type of an error is known by its code", () => {
  test("S8.3 TurnsError.is narrows the code and the data", () => {
    const error: unknown = new TurnsError("EFFECT_IN_DOUBT", {
      problem: "p.",
      remedy: "r.",
      data: { threadId: "t", effectId: "e" },
    });
    if (!TurnsError.is(error, "EFFECT_IN_DOUBT")) throw new Error("it is one");
    const code: "EFFECT_IN_DOUBT" = error.code;
    const effectId: string = error.data.effectId;
    // @ts-expect-error -- it is narrowed: no other code
    const other: "THREAD_RUNNING" = error.code;
    // @ts-expect-error -- a field that nobody promised may be anything
    const unknown: string = error.data["elsewhere"];
    expect([code, effectId, other, unknown]).toEqual(["EFFECT_IN_DOUBT", "e", "EFFECT_IN_DOUBT", undefined]);
    const any: unknown = error;
    if (TurnsError.is(any)) expect(any.data["effectId"]).toBe("e");
    // @ts-expect-error -- the code needs its data
    expect(new TurnsError("THREAD_NOT_FOUND", { problem: "p.", remedy: "r." }).data).toEqual({});
  });
});

describe("S8.3 what the console shows of a saver and a runner", () => {
  test("S8.3 the file and what it is set to, no internals and no secrets", async () => {
    const path = tempFile();
    const key = randomBytes(32);
    const saver = TurnSaver.fromPath(path, {
      encryption: { keys: { main: key }, current: "main" } as never,
      redact: () => undefined,
    });
    const graph = lineGraph({ saver, ledger: { happen() {} } as never }, ["a", "b"]);
    const runner = new GraphRunner(graph, { graphId: "flow" });
    expect(inspect(saver)).toBe(`TurnSaver { file: '${path}', open: true, encrypted: true }`);
    expect(inspect(runner, { breakLength: Infinity })).toBe(
      `GraphRunner { graphId: 'flow', nodes: [ 'a', 'b' ], saver: TurnSaver { file: '${path}', open: true, encrypted: true } }`,
    );
    for (const shown of [inspect({ deep: { saver, runner } }, { depth: 9, showHidden: true }), JSON.stringify({ saver })]) {
      expect(shown).not.toMatch(/#|store|Buffer/i);
      for (const secret of [key.toString("hex"), key.toString("base64")]) expect(shown).not.toContain(secret.slice(0, 8));
    }
    expect(inspect(saver, { depth: -1 })).toBe("[TurnSaver]");
    saver.close();
    expect(inspect(saver)).toContain("open: false");
  });
});
