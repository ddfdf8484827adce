import { START, StateGraph } from "@langchain/langgraph";
import Database from "better-sqlite3";
import { defineEffect, effect, GraphRunner, type GraphRunnerOptions, type TurnsError } from "langgraph-checkpoint-turns";
import { breaks, line, State, world, type World } from "../support/run-world";

const timesOut = (): Promise<string> => Promise.reject(new Error("timeout"));
const probed = defineEffect("probed letter", { run: timesOut, onError: "unknown", probe: () => "it was sent" });
const keyed = defineEffect("keyed letter", { run: timesOut, onError: "unknown", idempotent: true });
const bare = defineEffect("bare letter", { run: timesOut, onError: "unknown" });

/** Node `first` completes, node `send` does the rest. */
function runnerOf(at: World, version: string, send: () => unknown, options: GraphRunnerOptions = {}) {
  return line(at, [`first@${version}`, "send"], { send: async () => void (await send()) }, options);
}

async function refusal(work: Promise<unknown>): Promise<TurnsError> {
  return work.then(
    () => Promise.reject(new Error("it was not refused")),
    (error: unknown) => error as TurnsError,
  );
}

describe("S4.1 S8.3 the status says who settles an effect in doubt", () => {
  const settle = (id: string) => `await runner.effects.resolve("${id}", { outcome: "done", result })`;

  test.each([
    ["its probe", probed, () => '"probed letter" of send. The next resume or rewind asks its probe.'],
    ["its key", keyed, () => '"keyed letter" of send. Resume calls it again with the same key.'],
    ["a person", bare, (id: string) => `"bare letter" of send. Settle it: ${settle(id)}`],
  ])("S4.1 S8.3 an effect in doubt that is settled by %s", async (_, send, told) => {
    const at = world();
    const runner = runnerOf(at, "1", send);
    const error = await refusal(runner.invoke({ log: [] }, { threadId: "t" }));
    expect(error.code).toBe("EFFECT_IN_DOUBT");
    expect(error.message.includes("Resume, which asks its probe.")).toBe(send === probed);
    const status = await runner.status("t");
    expect(String(status).split("\n")[4]).toBe(`Tokens: 0 in, 0 out. Effects in doubt: ${told(status.inDoubt[0]!.id)}`);
    at.saver.close();
  });

  test("S4.1 S8.3 a one-off may have a probe in its code; of several, the one that a person must settle is named", async () => {
    const at = world();
    const single = runnerOf(at, "1", () => effect("note", timesOut, { onError: "unknown" }));
    await expect(single.invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    const { inDoubt } = await single.status("t");
    expect(String(await single.status("t")).split("\n")[4]).toBe(
      `Tokens: 0 in, 0 out. Effects in doubt: "note" of send. Unless it has a probe, settle it: ${settle(inDoubt[0]!.id)}`,
    );
    const several = runnerOf(at, "1", () => Promise.all([probed(), bare()].map((each) => each.catch(() => undefined))));
    await expect(several.invoke({ log: [] }, { threadId: "u" })).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    const id = (await several.status("u")).inDoubt.find(({ name }) => name === "bare letter")!.id;
    expect(String(await several.status("u")).split("\n")[4]).toBe(
      `Tokens: 0 in, 0 out. Effects in doubt: "probed letter" of send, "bare letter" of send. Settle "bare letter": ${settle(id)}`,
    );
    at.saver.close();
  });
});

test("S4.1 S8.3 an effect whose undo failed isn't in doubt: the status lists it by itself, and says who calls the undo again", async () => {
  const at = world();
  let isBroken = true;
  const sent = defineEffect("sent letter", {
    run: () => "sent",
    undo: () => {
      if (isBroken) throw new Error("the post office is closed");
    },
  });
  const runner = runnerOf(at, "1", () => sent());
  for (const taskId of ["A", "B"]) await runner.invoke({ log: [] }, { threadId: "t", taskId });
  await expect(runner.rewind({ threadId: "t", toTask: "A" })).rejects.toMatchObject({ code: "UNDO_FAILED" });
  const status = await runner.status("t");
  expect(status.inDoubt).toEqual([]);
  expect(status.undoFailed).toMatchObject([{ name: "sent letter", status: "done", undoStatus: "failed" }]);
  expect(String(status).split("\n")[4]).toBe(
    'Tokens: 0 in, 0 out. Effects in doubt: none. Undo failed: "sent letter" of send. The next rewind calls it again.',
  );
  isBroken = false;
  await runner.rewind({ threadId: "t", toTask: "A" });
  expect(await runner.status("t")).toMatchObject({ inDoubt: [], undoFailed: [] });
  at.saver.close();
});

describe("S4.1 S8.4 the status says what a resume will do", () => {
  /** A run that stopped in `send`, and a runner whose node `first` has changed. */
  async function changed(at: World, send: () => unknown, options: GraphRunnerOptions = {}) {
    const before = runnerOf(at, "1", async () => {
      await send();
      throw new Error("it is broken");
    });
    await expect(before.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow();
    return runnerOf(at, "2", () => undefined, options);
  }
  const wayOn = async (runner: Awaited<ReturnType<typeof changed>>) => String(await runner.status("t")).split("\n")[3]!;
  const what = 'node "first", which had completed, changed: its version, from 1 to 2';

  test("S4.1 S8.4 without effects it starts the run again", async () => {
    const at = world();
    const runner = await changed(at, () => undefined);
    expect(await runner.status("t")).toMatchObject({ resumable: false, onResume: "restart", reason: { code: "GRAPH_CHANGED" } });
    expect(await wayOn(runner)).toBe(`Resume starts the run again: await runner.resume({ threadId: "t" }), because ${what}`);
    await runner.resume({ threadId: "t" });
    expect(at.ledger.all).toEqual(["first", "send", "first", "send"]);
    at.saver.close();
  });

  test("S4.1 S8.4 after effects it is refused; the line is short, and the reason has the ways on", async () => {
    const at = world();
    const runner = await changed(at, () => effect("mail", () => "sent"));
    const { onResume, reason } = await runner.status("t");
    expect(onResume).toBe("refuse");
    expect(reason!.message).toContain("Choose one.");
    expect(await wayOn(runner)).toBe(`Resume is refused (GRAPH_CHANGED): ${what}. Your choices: status.reason.message`);
    expect((await refusal(runner.resume({ threadId: "t" }))).message).toBe(reason!.message);
    at.saver.close();
  });

  test("S4.1 S8.4 what the runner's drift says counts: continue, refuse, restart over effects", async () => {
    const at = world();
    const onward = await changed(at, () => effect("mail", () => "sent"), { drift: "continue" });
    expect(await onward.status("t")).toMatchObject({ resumable: true, onResume: "continue", reason: { code: "GRAPH_CHANGED" } });
    expect(await wayOn(onward)).toBe('Resume: await runner.resume({ threadId: "t" })');
    const careful = runnerOf(at, "2", () => undefined, { drift: "refuse" });
    expect(await careful.status("t")).toMatchObject({ resumable: false, onResume: "refuse" });
    const bold = runnerOf(at, "2", () => undefined, { drift: "restart" });
    expect(await bold.status("t")).toMatchObject({ resumable: false, onResume: "restart" });
    expect(await wayOn(bold)).toMatch(/^Resume starts the run again, and its effects happen again: await runner\.resume\(/);
    at.saver.close();
  });

  test("S4.1 S8.4 a restart that an effect in doubt keeps from starting is told as refused", async () => {
    const at = world();
    const runner = await changed(at, bare, { drift: "restart" });
    expect(await runner.status("t")).toMatchObject({ onResume: "refuse", reason: { code: "EFFECT_IN_DOUBT" } });
    expect(await refusal(runner.resume({ threadId: "t" }))).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    at.saver.close();
  });

  test("S4.1 S4.2 a damaged checkpoint without effects: it starts again; finished: the result; nothing there: refused", async () => {
    const at = world();
    const runner = line(at, ["a", "b"], { b: breaks });
    expect(await runner.status("t")).toMatchObject({ onResume: "refuse", reason: { code: "NOTHING_TO_RESUME" } });
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow("it is broken");
    expect(await runner.status("t")).toMatchObject({ onResume: "continue" });
    const db = new Database(at.path);
    db.exec("UPDATE langgraph_snapshots SET checksum = 'x' WHERE seq = (SELECT max(seq) FROM langgraph_snapshots)");
    db.close();
    expect(await runner.status("t")).toMatchObject({ onResume: "restart", reason: { code: "CHECKPOINT_CORRUPTED" } });
    expect(String(await runner.status("t")).split("\n")[3]).toBe(
      'Resume starts the run again: await runner.resume({ threadId: "t" }), because the thread can\'t be read',
    );
    const good = line(at, ["a", "b"]);
    await good.resume({ threadId: "t" });
    expect(await good.status("t")).toMatchObject({ onResume: "return", finished: true });
    at.saver.close();
  });

  test("S4.1 S8.3 no line is longer than a person reads, with many long names too", async () => {
    const at = world();
    const names = Array.from({ length: 9 }, (_, index) => `a node with a rather long name, number ${index}`);
    const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
    for (const name of names) {
      builder.addNode(name, async () => {
        await bare();
        return {};
      });
      builder.addEdge(START, name);
    }
    const runner = new GraphRunner(builder.compile({ checkpointer: at.saver }));
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow();
    const lines = String(await runner.status("t")).split("\n");
    expect(lines).toHaveLength(5);
    for (const told of lines) expect(told.length).toBeLessThanOrEqual(300);
    expect(lines[4]).toMatch(/await runner\.effects\.resolve\("[^"]+", \{ outcome: "done", result \}\)$/);
    at.saver.close();
  });
});

describe("S8.4 a changed graph, and effects in doubt", () => {
  test("S8.4 the refusal offers no restart that would be refused", async () => {
    const at = world();
    const before = runnerOf(at, "1", bare);
    await expect(before.invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    const runner = runnerOf(at, "2", () => undefined);
    const { id } = (await runner.status("t")).inDoubt[0]!;
    const { message } = await refusal(runner.resume({ threadId: "t" }));
    expect(message).toContain('It isn\'t known whether these effects happened: "bare letter" (');
    expect(message).not.toContain("The run did effects");
    expect(message).toContain(
      `3. Start again: first find out whether "bare letter" happened, and settle it: runner.effects.resolve("${id}", { outcome: "done", result }) or { outcome: "not-done" }. `,
    );
    await runner.effects.resolve(id, { outcome: "not-done" });
    expect(message).toContain('If none happened, call runner.resume({ threadId: "t", drift: "restart" });');
    await runner.resume({ threadId: "t" });
    expect(at.ledger.all).toEqual(["first", "send", "first", "send"]);
    at.saver.close();
  });

  test("S4.2 S8.4 nor does the refusal of a damaged checkpoint", async () => {
    const at = world();
    const runner = runnerOf(at, "1", bare);
    await expect(runner.invoke({ log: [] }, { threadId: "t" })).rejects.toMatchObject({ code: "EFFECT_IN_DOUBT" });
    const { id } = (await runner.status("t")).inDoubt[0]!;
    const db = new Database(at.path);
    db.exec("UPDATE langgraph_snapshots SET checksum = 'x' WHERE seq = (SELECT max(seq) FROM langgraph_snapshots)");
    db.close();
    const { code, message } = await refusal(runner.resume({ threadId: "t" }));
    expect(code).toBe("CHECKPOINT_CORRUPTED");
    expect(message).toContain(
      `settle it: runner.effects.resolve("${id}", { outcome: "done", result }) or { outcome: "not-done" }`,
    );
    expect((await runner.status("t")).reason).toEqual({ code, message });
    at.saver.close();
  });
});

test("S4.2 S8.4 the warning of a restart is one sentence, and no refusal", async () => {
  const at = world();
  const before = line(at, ["first", "send"], { send: breaks });
  await expect(before.invoke({ log: [] }, { threadId: "t" })).rejects.toThrow();
  await line(at, ["first@2", "send"]).resume({ threadId: "t" });
  expect(at.warnings).toEqual([
    'Thread "t": the run starts again as a new branch of its history, because node "first", which had completed, changed: its version, from 1 to 2.',
  ]);
  at.saver.close();
});
