import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { ChatResult } from "@langchain/core/outputs";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineEffect, effect, GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { CheckpointFile, type ProgressFollower } from "langgraph-checkpoint-turns/checkpoint-file";
import fc from "fast-check";
import { renderProgress } from "../../src/testing-internal";
import { tempFile } from "../support/temp";
import { effectUndoneBy, undosNamed } from "../support/undo-world";

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});

/** Reports the tokens it is told to. */
class Model extends BaseChatModel {
  constructor(readonly usage: { input: number; output: number; cached: number; reasoning: number }) {
    super({});
  }
  _llmType(): string {
    return "counting";
  }
  async _generate(_messages: BaseMessage[]): Promise<ChatResult> {
    const { input, output, cached, reasoning } = this.usage;
    const message = new AIMessage({
      content: "yes",
      usage_metadata: {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input + output,
        input_token_details: { cache_read: cached },
        output_token_details: { reasoning },
      },
    });
    return { generations: [{ text: "yes", message }] };
  }
}

const world: { fail: boolean; during: () => unknown } = { fail: false, during: () => undefined };
beforeEach(() => Object.assign(world, { fail: false, during: () => undefined }));

/** plan (a model), then work (may fail; a model in a subgraph), then ask (waits for an answer, if the log says so). */
function setup(logger: ConstructorParameters<typeof TurnSaver>[1] = { logger: quiet }) {
  const saver = TurnSaver.fromPath(tempFile(), logger);
  const inner = new StateGraph(State)
    .addNode("deep", async () => {
      await new Model({ input: 7, output: 3, cached: 2, reasoning: 1 }).invoke("?");
      await world.during();
      if (world.fail) throw new TypeError("no *paper*\nleft | here");
      return { log: ["deep"] };
    })
    .addEdge(START, "deep")
    .addEdge("deep", END)
    .compile();
  const graph = new StateGraph(State)
    .addNode("plan", async () => {
      await new Model({ input: 100, output: 10, cached: 50, reasoning: 5 }).invoke("?");
      return { log: ["plan"] };
    })
    .addNode("work", inner)
    .addNode("ask", (state) => ({ log: state.log.includes("ask me") ? [String(interrupt("sure?"))] : [] }))
    .addEdge(START, "plan")
    .addEdge("plan", "work")
    .addEdge("work", "ask")
    .addEdge("ask", END)
    .compile({ checkpointer: saver });
  saver.attach(graph);
  const invoke = (
    input: unknown,
    { threadId, taskId, ...config }: { threadId: string; taskId?: string; interruptBefore?: ["work"]; durability?: "exit" },
  ) => graph.invoke(input as never, { ...config, configurable: { thread_id: threadId, ...(taskId && { task_id: taskId }) } });
  const resume = ({ command = null, ...at }: { threadId: string; command?: unknown; durability?: "exit" }) => invoke(command, at);
  return { saver, runner: { graph, invoke, resume } };
}

const run = (taskId: string) => ({ threadId: "t", taskId });
const brief = async (saver: TurnSaver, by: "task" | "node" = "task") =>
  (await CheckpointFile.fromThread(saver, "t", { by })).phases.map(({ id, status }) => `${id} ${status}`);

describe("S5.6 fromThread", () => {
  test("S5.6 a phase is a task: status and times from its turns, tokens as the turns recorded them, subgraphs included", async () => {
    const { saver, runner } = setup();
    await runner.invoke({ log: [] }, run("one"));
    await runner.invoke({ log: [] }, run("two"));
    const progress = await CheckpointFile.fromThread(saver, "t");
    const turns = await saver.turns.list("t");
    const ofOne = turns.filter((turn) => turn.taskId === "one");
    expect(progress.phases.map(({ id, name, status, notes }) => ({ id, name, status, notes }))).toEqual([
      { id: "one", name: "one", status: "completed", notes: "" },
      { id: "two", name: "two", status: "completed", notes: "" },
    ]);
    expect(progress.phases[0]).toMatchObject({ startedAt: ofOne[0]!.createdAt, endedAt: ofOne.at(-1)!.createdAt });
    const reported = turns.some((turn) => "cached" in turn.tokens && turn.tokens.cached > 0);
    const spent = { input: 107, output: 13, cached: reported ? 52 : 0, reasoning: reported ? 6 : 0 };
    expect(progress.phases.map((phase) => phase.tokens)).toEqual([spent, spent]);
    expect(progress.totals).toMatchObject({ input: 214, output: 26 });
    expect(progress.resume).toMatchObject({ lastPhase: "two", nextPhase: null, canResume: false, reason: "all phases are done" });
    saver.close();
  });

  test("S5.6 a phase is a node, by option; nodes that come next are pending", async () => {
    const { saver, runner } = setup();
    world.fail = true;
    await expect(runner.invoke({ log: [] }, run("one"))).rejects.toThrow("paper");
    const progress = await CheckpointFile.fromThread(saver, "t", { by: "node" });
    expect(progress.phases.map(({ id, status, tokens }) => [id, status, tokens.input])).toEqual([
      ["plan", "completed", 100],
      ["work", "failed", 7],
    ]);
    expect(progress.resume).toMatchObject({
      lastPhase: "plan",
      nextPhase: "work",
      nextStep: "repair work, then resume",
      canResume: true,
    });
    world.fail = false;
    await runner.resume({ threadId: "t" });
    expect(await brief(saver, "node")).toEqual(["plan completed", "work completed", "ask completed"]);
    saver.close();

    const stopped = setup();
    await stopped.runner.invoke({ log: [] }, { ...run("one"), interruptBefore: ["work"] });
    expect(await brief(stopped.saver, "node")).toEqual(["plan completed", "work pending"]);
    expect(await brief(stopped.saver)).toEqual(["one in-progress"]);
    stopped.saver.close();
  });

  test("S5.6 a failed task says name and message of the error; repaired and resumed it is completed", async () => {
    const { saver, runner } = setup();
    world.fail = true;
    await expect(runner.invoke({ log: [] }, run("one"))).rejects.toThrow("paper");
    const failed = await CheckpointFile.fromThread(saver, "t");
    expect(failed.phases[0]).toMatchObject({ status: "failed", tokens: { input: 107, output: 13 } });
    expect(failed.phases[0]?.notes).toBe('**Failed:** node "work", TypeError: no \\*paper\\*&#10;left &#124; here');
    expect(failed.phases[0]?.endedAt).toBeInstanceOf(Date);
    expect(failed.resume).toMatchObject({ nextPhase: "one", canResume: true, nextStep: "repair work, then resume" });
    world.fail = false;
    await runner.resume({ threadId: "t" });
    const repaired = await CheckpointFile.fromThread(saver, "t");
    expect(repaired.phases).toMatchObject([{ id: "one", status: "completed", notes: "" }]);
    expect(repaired.phases[0]?.tokens.input).toBe(114);
    saver.close();
  });

  test("S5.6 a task that newer input replaced is skipped, and still says why it failed; one that was repaired by updateState continues", async () => {
    const { saver, runner } = setup();
    world.fail = true;
    await expect(runner.invoke({ log: [] }, run("one"))).rejects.toThrow("paper");
    world.fail = false;
    const config = { configurable: { thread_id: "t" } };
    await runner.graph.updateState(config, { log: ["repaired"] }, "plan");
    expect((await brief(saver))[0]).toBe("one in-progress");
    await runner.invoke({ log: [] }, run("two"));
    expect((await brief(saver)).filter((line) => /^(one|two)/.test(line))).toEqual(["one skipped", "two completed"]);
    expect((await CheckpointFile.fromThread(saver, "t")).phases[0]?.notes).toContain("TypeError");
    saver.close();
  });

  test("S5.6 S2.4 a task whose first turns were pruned began when it began", async () => {
    const { saver, runner } = setup();
    await runner.invoke({ log: [] }, run("one"));
    const [before] = (await CheckpointFile.fromThread(saver, "t")).phases;
    await saver.prune({ threadId: "t", keepLast: 1 });
    const [task] = await saver.turns.tasks("t");
    const [after] = (await CheckpointFile.fromThread(saver, "t")).phases;
    expect(after?.startedAt).toEqual(task?.createdAt);
    expect(after?.startedAt?.getTime()).toBeLessThanOrEqual(before?.startedAt?.getTime() ?? 0);
    expect(after?.tokens).toEqual(before?.tokens);
    saver.close();
  });

  test("S5.6 a task that was left behind a breakpoint is skipped, and one that is finished isn't, also before an updateState", async () => {
    const { saver, runner } = setup();
    await runner.invoke({ log: [] }, run("done"));
    await runner.invoke({ log: [] }, { ...run("left"), interruptBefore: ["work"] });
    expect((await brief(saver)).at(-1)).toBe("left in-progress");
    await runner.invoke({ log: [] }, run("next"));
    await runner.graph.updateState({ configurable: { thread_id: "t" } }, { log: ["more"] }, "ask");
    await runner.invoke({ log: [] }, run("last"));
    const told = (await brief(saver)).filter((line) => !line.startsWith("1"));
    expect(told).toEqual(["done completed", "left skipped", "next completed", "last completed"]);
    saver.close();
  });

  test('S5.6 S5.4 after a run with durability "exit" it says what failed and what waits', async () => {
    const { saver, runner } = setup();
    world.fail = true;
    const exit = { ...run("one"), durability: "exit" as const };
    await expect(runner.invoke({ log: ["ask me"] }, exit)).rejects.toThrow("paper");
    expect(await brief(saver)).toEqual(["one failed"]);
    const failed = await CheckpointFile.fromThread(saver, "t", { by: "node" });
    expect(failed.phases.map(({ id, status }) => `${id} ${status}`)).toEqual(["plan completed", "work failed"]);
    world.fail = false;
    await runner.resume({ threadId: "t", durability: "exit" });
    const waiting = await CheckpointFile.fromThread(saver, "t", { by: "node" });
    expect(waiting.resume).toMatchObject({ nextPhase: "ask", nextStep: "answer what is asked at ask", canResume: true });
    saver.close();
  });

  test("S5.6 S3.5 a thread with an unfinished rewind says that it can't be resumed before that is finished", async () => {
    const { saver, runner } = setup();
    await runner.invoke({ log: [] }, run("one"));
    let isBroken = true;
    world.during = () =>
      effectUndoneBy("unsend", "send", () => 1, {}).then(() => {
        throw new Error("work is broken");
      });
    const undos = undosNamed({
      unsend: () => {
        if (isBroken) throw new Error("nobody answers");
      },
    });
    await expect(runner.invoke({ log: [] }, run("two"))).rejects.toThrow("broken");
    await expect(saver.rewind({ threadId: "t", toTask: "one" }, undos)).rejects.toMatchObject({ code: "UNDO_FAILED" });
    const { resume } = await CheckpointFile.fromThread(saver, "t");
    expect(resume).toEqual({
      lastPhase: "one",
      nextPhase: "two",
      nextStep: "finish the rewind to task one",
      canResume: false,
      reason: "a rewind to task one isn't finished",
    });
    isBroken = false;
    await saver.rewinds.finish({ threadId: "t" }, undos);
    expect((await CheckpointFile.fromThread(saver, "t")).resume.reason).toBe("all phases are done");
    saver.close();
  });

  test("S5.6 S5.4 a thread with an effect that only a person can settle says that it can't be resumed before", async () => {
    const { saver, runner } = setup();
    const send = defineEffect("file-send", {
      run: () => Promise.reject(new Error("timeout")),
      onError: () => "unknown" as const,
      undo: false,
    });
    world.during = () => send(undefined);
    await expect(runner.invoke({ log: [] }, run("one"))).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect((await CheckpointFile.fromThread(saver, "t")).resume).toMatchObject({
      ...{ nextPhase: "one", nextStep: "settle effect file-send: saver.effects.resolve", canResume: false },
      reason: "nobody knows whether effect file-send happened, and it has no probe",
    });
    const [{ id } = { id: "" }] = await saver.effects.list("t", { status: "in-doubt" });
    await saver.effects.resolve(id, { outcome: "done" });
    expect((await CheckpointFile.fromThread(saver, "t")).resume).toMatchObject({ canResume: true, reason: null });
    // Only its code tells whether this one has a probe.
    world.during = () => effect("note", () => Promise.reject(new Error("timeout")), { onError: "unknown" });
    await expect(runner.invoke({ log: [] }, run("two"))).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    expect((await CheckpointFile.fromThread(saver, "t")).resume).toMatchObject({
      ...{ canResume: true, nextStep: "resume; if effect note has no probe, settle it first" },
    });
    saver.close();
  });

  test("S5.6 S5.4 a thread that waits for an answer says so, at the task and at the node", async () => {
    const { saver, runner } = setup();
    await runner.invoke({ log: ["ask me"] }, run("one"));
    expect(await brief(saver)).toEqual(["one in-progress"]);
    const waiting = await CheckpointFile.fromThread(saver, "t", { by: "node" });
    expect(waiting.resume).toMatchObject({ nextPhase: "ask", nextStep: "answer what is asked at ask", canResume: true });
    await runner.resume({ threadId: "t", command: new Command({ resume: "yes" }) });
    expect(await brief(saver)).toEqual(["one completed"]);
    saver.close();
  });

  test("S5.6 while a process is running the file says that it cannot be resumed, and looking does not take the task its name", async () => {
    const { saver, runner } = setup();
    let seen: Awaited<ReturnType<typeof CheckpointFile.fromThread>> | undefined;
    world.during = async () => (seen = await CheckpointFile.fromThread(saver, "t"));
    await runner.invoke({ log: [] }, run("one"));
    expect(seen?.phases).toMatchObject([{ id: "one", status: "in-progress", endedAt: null }]);
    expect(seen?.resume).toMatchObject({ canResume: false, reason: "a process is running the thread" });
    expect(new Set((await saver.turns.list("t")).map((turn) => turn.taskId))).toEqual(new Set(["one"]));
    saver.close();
  });

  test("S5.6 an unknown thread has no phases; bad ids and options are refused by name", async () => {
    const { saver } = setup();
    const empty = await CheckpointFile.fromThread(saver, "nobody");
    expect(empty).toMatchObject({
      threadId: "nobody",
      phases: [],
      resume: { canResume: false, reason: "there are no phases yet" },
    });
    const wrong: [string, object, string][] = [
      ["", {}, "threadId"],
      ["a\0b", {}, "threadId"],
      ["t", { by: "day" }, "by"],
      ["t", { per: "task" }, "per"],
    ];
    for (const [threadId, options, option] of wrong) {
      const refused = { code: "INVALID_OPTION", data: { option } };
      await expect(CheckpointFile.fromThread(saver, threadId, options)).rejects.toMatchObject(refused);
      expect(() => CheckpointFile.follow(saver, threadId, "x.md", options)).toThrow(expect.objectContaining(refused));
    }
    expect(() => CheckpointFile.follow(saver, "t", "")).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    expect(saver.events.listenerCount("turn")).toBe(0);
    saver.close();
  });

  test("S5.6 what is read from the file is what the database says", async () => {
    const { saver, runner } = setup();
    await runner.invoke({ log: [] }, run("one"));
    const progress = await CheckpointFile.fromThread(saver, "t");
    const file = new CheckpointFile(tempFile("CHECKPOINT.md"));
    await file.write(progress);
    expect(await file.read()).toEqual(progress);
    expect(readFileSync(file.path, "utf8")).toBe(renderProgress(progress));
    saver.close();
  });
});

describe("S4.6 what an encrypted saver seals", () => {
  const SECRET = /paper|left|here|TypeError/;
  const encryption = { key: randomBytes(32) };
  async function failing(options: ConstructorParameters<typeof TurnSaver>[1]) {
    const { saver, runner } = setup({ logger: quiet, ...options });
    world.fail = true;
    await expect(runner.invoke({ log: ["ask me"] }, run("one"))).rejects.toThrow("no *paper*");
    return { saver, runner };
  }

  test("S4.6 S5.6 CHECKPOINT.md of an encrypted saver says which node failed and not with what, however it is written", async () => {
    const { saver, runner } = await failing({ encryption });
    const paths = { written: tempFile(), refreshed: tempFile(), followed: tempFile() };
    for (const by of ["task", "node"] as const) {
      const fresh = await CheckpointFile.fromThread(saver, "t", { by });
      expect(JSON.stringify(fresh)).not.toMatch(SECRET);
      expect(JSON.stringify(fresh)).toContain("its error stays in the encrypted database");
      await new CheckpointFile(paths.written).write(fresh);
      await new CheckpointFile(paths.refreshed).refresh(saver, "t", { by });
      const follower = CheckpointFile.follow(saver, "t", paths.followed, { by });
      await follower.close();
      for (const path of Object.values(paths)) expect(readFileSync(path, "utf8")).not.toMatch(SECRET);
    }
    // The question that a node asks is sealed, too.
    world.fail = false;
    await runner.resume({ threadId: "t" });
    await new CheckpointFile(paths.written).refresh(saver, "t");
    expect(readFileSync(paths.written, "utf8")).toContain("answer what is asked at ask");
    expect(readFileSync(paths.written, "utf8")).not.toContain("sure?");
    saver.close();
  });

  test("S4.6 S5.6 the option errors says otherwise, for any saver, and takes back what a file said", async () => {
    const { saver } = await failing({ encryption });
    const file = new CheckpointFile(tempFile());
    await file.refresh(saver, "t", { errors: true });
    expect(readFileSync(file.path, "utf8")).toMatch(/TypeError: no/);
    await file.refresh(saver, "t");
    expect(readFileSync(file.path, "utf8")).not.toMatch(SECRET);
    saver.close();

    const plain = await failing({});
    expect((await CheckpointFile.fromThread(plain.saver, "t")).phases[0]?.notes).toMatch(SECRET);
    const without = await CheckpointFile.fromThread(plain.saver, "t", { errors: false });
    expect(without.phases[0]?.notes).toBe('**Failed:** node "work"; its error stays in the database');
    plain.saver.close();
  });

  test("S4.6 S5.6 what redact takes out of a turn's error is in no file, encrypted or not", async () => {
    const redact = ({ state }: { state: Record<string, unknown> }) =>
      state["error"] === undefined ? state : { error: { name: "Error", message: "(withheld)" } };
    for (const options of [{ redact }, { redact, encryption }]) {
      const { saver } = await failing(options);
      const { phases } = await CheckpointFile.fromThread(saver, "t", { errors: true });
      expect(phases[0]?.notes).toBe('**Failed:** node "work", Error: (withheld)');
      saver.close();
    }
    const { saver } = await failing({ redact: ({ state }) => (state["error"] === undefined ? state : undefined) });
    expect((await CheckpointFile.fromThread(saver, "t")).phases[0]?.notes).toBe(
      '**Failed:** node "work"; its error was not kept',
    );
    saver.close();
  });
});

describe("S5.6 refresh", () => {
  test("S5.6 S5.2 notes, names and text of people stay; the line of a failure comes and goes; a task that was rewound leaves its notes", async () => {
    const { saver, runner } = setup();
    const file = new CheckpointFile(tempFile("CHECKPOINT.md"));
    await runner.invoke({ log: [] }, run("one"));
    world.fail = true;
    await expect(runner.invoke({ log: [] }, run("two"))).rejects.toThrow("paper");
    await file.refresh(saver, "t");
    await file.updatePhase("one", { notes: "well done", name: "The first" });
    await file.updatePhase("two", { notes: `${(await file.read())!.phases[1]!.notes}\n\nI looked at it.` });
    writeFileSync(file.path, `${readFileSync(file.path, "utf8")}\nmine\n`);
    await file.refresh(saver, "t");
    const failed = await file.read();
    expect(failed?.phases.map(({ name }) => name)).toEqual(["The first", "two"]);
    expect(failed?.phases[0]?.notes).toBe("well done");
    expect(failed?.phases[1]?.notes.match(/Failed:/g)).toHaveLength(1);
    expect(failed?.phases[1]?.notes).toContain("I looked at it.");
    world.fail = false;
    await runner.resume({ threadId: "t" });
    await file.refresh(saver, "t");
    expect((await file.read())?.phases[1]).toMatchObject({ status: "completed" });
    expect((await file.read())?.phases[1]?.notes).toBe("I looked at it.");
    await saver.rewind({ threadId: "t", toTask: "one" });
    await file.refresh(saver, "t");
    expect((await file.read())?.phases.map(({ id }) => id)).toEqual(["one"]);
    expect(readFileSync(file.path, "utf8")).toContain("I looked at it.");
    expect(readFileSync(file.path, "utf8")).toMatch(/\nmine\n$/);
    saver.close();
  });
});

describe("S5.6 follow", () => {
  /** Resolves when the file says it; the follower writes when it likes. */
  async function until(file: CheckpointFile, says: (text: string) => boolean): Promise<void> {
    for (;;) {
      if ((await file.read()) !== null && says(readFileSync(file.path, "utf8"))) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  test("S5.6 the file is written while the run works, after it, after a rewind and after that is taken back, by itself", async () => {
    const { saver, runner } = setup();
    const file = new CheckpointFile(tempFile("CHECKPOINT.md"));
    const follower = CheckpointFile.follow(saver, "t", file.path, { delayMs: 1 });
    world.during = () => until(file, (text) => text.includes("| one | 🔄 in-progress |") && text.includes("running the thread"));
    await runner.invoke({ log: [] }, run("one"));
    await until(file, (text) => text.includes("| one | ✅ completed |"));
    world.during = () => undefined;
    world.fail = true;
    await expect(runner.invoke({ log: [] }, run("two"))).rejects.toThrow("paper");
    // The end of a run is no event: that nobody is at work any more is found out later.
    await until(file, (text) => text.includes("| two | ❌ failed |") && text.includes("| can resume | yes |"));
    const { rewindId } = await saver.rewind({ threadId: "t", toTask: "one" });
    await until(file, (text) => !text.includes("| two |"));
    await saver.rewinds.takeBack(rewindId!);
    await until(file, (text) => text.includes("| two | ❌ failed |"));
    await follower.close();
    saver.close();
  });

  test("S5.6 flush and close write what is so now; after close nothing is written, other threads never", async () => {
    const { saver, runner } = setup();
    const file = new CheckpointFile(tempFile("CHECKPOINT.md"));
    const follower = CheckpointFile.follow(saver, "t", file.path, { delayMs: 3_600_000 });
    await runner.invoke({ log: [] }, { threadId: "other", taskId: "x" });
    await runner.invoke({ log: [] }, run("one"));
    expect(await file.read()).toBeNull();
    await follower.flush();
    expect((await file.read())?.phases.map(({ id, status }) => [id, status])).toEqual([["one", "completed"]]);
    await runner.invoke({ log: [] }, run("two"));
    await Promise.all([follower.close(), follower.close()]);
    expect((await file.read())?.phases).toHaveLength(2);
    await runner.invoke({ log: [] }, run("three"));
    await follower.close();
    expect((await file.read())?.phases).toHaveLength(2);
    const events = ["turn", "checkpoint", "rewind", "rewind_taken_back", "pruned"] as const;
    expect(events.map((event) => saver.events.listenerCount(event))).toEqual([0, 0, 0, 0, 0]);
    saver.close();
  });

  test("S5.6 a file that cannot be written neither fails nor changes the run: it is logged, and tried again", async () => {
    const warnings: object[] = [];
    const logger = { ...quiet, warn: (data: object) => void warnings.push(data) };
    const { saver, runner } = setup({ logger });
    const file = new CheckpointFile(tempFile("CHECKPOINT.md"));
    mkdirSync(file.path);
    const follower: ProgressFollower = CheckpointFile.follow(saver, "t", file.path, { delayMs: 0 });
    await runner.invoke({ log: [] }, run("one"));
    await follower.flush();
    expect(warnings).toContainEqual(
      expect.objectContaining({ threadId: "t", error: expect.stringContaining("CheckpointFileUnavailable") }),
    );
    rmSync(file.path, { recursive: true });
    writeFileSync(file.path, "# Mine, and no progress\n");
    await runner.invoke({ log: [] }, run("two"));
    await follower.flush();
    expect(warnings).toContainEqual(expect.objectContaining({ error: expect.stringContaining("Line 1 of ") }));
    expect(readFileSync(file.path, "utf8")).toBe("# Mine, and no progress\n");
    rmSync(dirname(file.path), { recursive: true });
    await follower.close();
    expect((await file.read())?.phases).toHaveLength(2);
    saver.close();
  });

  test("S5.6 a saver that is closed does not make the follower throw", async () => {
    const { saver } = setup();
    const follower = CheckpointFile.follow(saver, "t", tempFile("CHECKPOINT.md"));
    saver.close();
    await follower.flush();
    await follower.close();
  });
});

/** Nodes side by side. One fails as soon as all have begun; the others work on, or heed the abort. */
function sideBySide(saver: TurnSaver, failing: number, others: readonly { heeds: boolean }[]) {
  const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
  let finish = (): void => undefined;
  const finished = new Promise<void>((resolve) => (finish = resolve));
  let begun = 0;
  let all = (): void => undefined;
  const allBegun = new Promise<void>((resolve) => (all = resolve));
  const names = Array.from({ length: others.length + 1 }, (_, at) => `n${at}`);
  const heeding = others.map(({ heeds }) => heeds);
  heeding.splice(failing, 0, false);
  names.forEach((name, at) => {
    builder.addNode(name, async (_, { signal }: { signal?: AbortSignal }) => {
      begun += 1;
      if (begun === names.length) all();
      await allBegun;
      if (at === failing) throw new RangeError("no paper");
      await (heeding[at] === true
        ? new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason as Error)))
        : finished);
      return { log: [name] };
    });
    builder.addEdge(START, name);
  });
  return { graph: builder.compile({ checkpointer: saver }), finish };
}

test("S5.6 a failed task names the node that failed, not the nodes beside it that were aborted", async () => {
  const others = fc.array(fc.record({ heeds: fc.boolean() }), { minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(others, fc.nat(4), async (beside, at) => {
      const failing = at % (beside.length + 1);
      const saver = TurnSaver.fromPath(tempFile(), { logger: quiet });
      const { graph, finish } = sideBySide(saver, failing, beside);
      await expect(new GraphRunner(graph).invoke({}, { threadId: "t" })).rejects.toThrow("no paper");
      finish();
      const { phases, resume } = await CheckpointFile.fromThread(saver, "t");
      expect(phases.map(({ notes }) => notes)).toEqual([`**Failed:** node "n${failing}", RangeError: no paper`]);
      if (resume.canResume) expect(resume.nextStep).toBe(`repair n${failing}, then resume`);
      saver.close();
    }),
    { numRuns: 12 },
  );
});

test("S5.6 the runner's file says that the thread is free, once a node that the failed run left behind has finished", async () => {
  const saver = TurnSaver.fromPath(tempFile(), { logger: quiet });
  const path = tempFile();
  const { graph, finish } = sideBySide(saver, 1, [{ heeds: false }]);
  await expect(new GraphRunner(graph, { checkpointFile: path }).invoke({}, { threadId: "t" })).rejects.toThrow("no paper");
  const file = new CheckpointFile(path);
  expect((await file.read())?.resume.reason).toBe("a process is running the thread");
  finish();
  const isFree = async (): Promise<boolean | undefined> => (await file.read())?.resume.canResume;
  for (const until = Date.now() + 100_000; !(await isFree()) && Date.now() < until;)
    await new Promise((then) => setTimeout(then, 20));
  expect(await file.read()).toMatchObject(await CheckpointFile.fromThread(saver, "t"));
  expect(await isFree()).toBe(true);
  expect(await saver.drain()).toEqual({ done: true, running: [] });
});

test("S5.6 a relative path stays where it was, if the program changes its working directory", async () => {
  const {
    saver,
    runner: { graph },
  } = setup();
  const [first, second] = [dirname(tempFile()), dirname(tempFile())];
  const before = process.cwd();
  try {
    process.chdir(first);
    const runner = new GraphRunner(graph, { checkpointFile: "CHECKPOINT.md" });
    process.chdir(second);
    await runner.invoke({ log: [] }, { threadId: "t" });
  } finally {
    process.chdir(before);
  }
  expect(readFileSync(join(first, "CHECKPOINT.md"), "utf8")).toContain("all phases are done");
  expect(existsSync(join(second, "CHECKPOINT.md"))).toBe(false);
  saver.close();
});
