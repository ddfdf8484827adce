import { effect, GraphRunner } from "langgraph-checkpoint-turns";
import { copyThreadTo, moveAllThreads, moveThread } from "langgraph-checkpoint-turns/maintenance";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { answer, at, input, KEY, secretGraph } from "../support/enc-graph";
import { longTest } from "../support/lane-test";
import { choresOn, config, undone, undosNamed, undosOf } from "../support/undo-world";
import { ALL_TABLES, internalsOf, MOVED, setFailpointHandler } from "../../src/testing-internal";
import { makeLarge } from "../retention/large-thread";
import { Deeds, refusal } from "../support/eff-world";
import { dump, sqlOn } from "../support/s1-tools";
import { runProgram } from "../support/s1-programs";
import { agentOn, lived, newPlace, openAt, type Place, problemsIn, toldOf, WAYS } from "./move-world";

const OTHER_KEY = Buffer.from("1177c90ab3fe5d62480199aabbccddeeff11223344556677886b1f0c93d2a4e5", "hex").toString("base64");

jest.setTimeout(300_000);
const savers: TurnSaver[] = [];
afterEach(() => {
  setFailpointHandler(undefined);
  for (const saver of savers.splice(0)) saver.close();
});

function opened(place: Place, options: object = {}): TurnSaver {
  const saver = openAt(place, options);
  savers.push(saver);
  return saver;
}

describe.each(WAYS)("a %s and a %s", (kind, other) => {
  test("S9.7 a thread moves with everything that is known of it, and back", async () => {
    const [from, to] = [opened(newPlace(kind)), opened(newPlace(other))];
    await lived(from);
    const before = await toldOf(from, "t");
    const report = await moveThread(from, to, "t");
    expect(report).toMatchObject({ threadId: "t", outcome: "moved" });
    expect(report.rows).toBeGreaterThan(50);
    expect(await toldOf(to, "t")).toEqual(before);
    expect(await problemsIn(to)).toEqual([]);
    expect(await problemsIn(from)).toEqual([]);
    expect(await refusal(from.getTuple(at("t")))).toMatchObject({ code: "THREAD_MOVED" });
    await moveThread(to, from, "t");
    expect(await toldOf(from, "t")).toEqual(before);
    expect(await problemsIn(from)).toEqual([]);
    expect(await problemsIn(to)).toEqual([]);
  });

  test.each([
    ["an encrypted database to one with other keys", { encryption: { key: KEY } }, { encryption: { key: OTHER_KEY } }],
    ["a plain database to an encrypted one", {}, { encryption: { key: KEY } }],
  ])("S9.7 S3.4 a thread moves from %s, and back", async (_, options, others) => {
    const [from, to] = [opened(newPlace(kind), options), opened(newPlace(other), others)];
    await lived(from);
    const before = await toldOf(from, "t");
    await moveThread(from, to, "t");
    expect(await toldOf(to, "t")).toEqual(before);
    expect(await problemsIn(to)).toEqual([]);
    await moveThread(to, from, "t", { allowPlaintext: true });
    expect(await toldOf(from, "t")).toEqual(before);
    expect(await problemsIn(from)).toEqual([]);
    // The archives are as good as before: both rewinds are taken back, the last one first.
    await secretGraph(from).invoke(answer, at("t"));
    await moveThread(from, to, "t");
    const rewinds = await to.rewinds.list("t");
    await to.rewind({ threadId: "t", toTask: rewinds.at(-1)!.toTask, archive: false }, undosOf(new Deeds()));
    await to.rewinds.takeBack(rewinds[1]!.id);
    await to.rewinds.takeBack(rewinds[0]!.id);
    expect(await problemsIn(to)).toEqual([]);
    await toldOf(to, "t");
  });

  test("S9.7 S4.2 a run that crashed continues in the target at exactly the node that was running", async () => {
    const source = newPlace(kind);
    const ledger = new Deeds();
    expect(runProgram("moving/agent-child.ts", source.kind, source.path, ledger.path)).toMatchObject({ signal: "SIGKILL" });
    const [from, to] = [opened(source), opened(newPlace(other))];
    await moveThread(from, to, "t");
    expect((await to.turns.inFlight("t")).map(({ nodeName }) => nodeName)).toEqual(["second"]);
    const done = await agentOn(to, ledger).invoke(null, at("t"));
    expect(done.log).toEqual(["first", "second", "third"]);
    // Neither the node that had finished nor the effect that had been done before the crash ran again.
    expect(ledger.lines()).toEqual(["node first", "node second", "charge", "node second", "node third"]);
  });

  test("S9.7 S3.5 a rewind in the target undoes what was done in the source", async () => {
    const [from, to] = [opened(newPlace(kind)), opened(newPlace(other))];
    const ledger = new Deeds();
    for (const task of ["a", "b", "c"]) await choresOn(from, ledger).invoke({ deeds: [{ name: task }] }, config(task));
    await moveThread(from, to, "t");
    const report = await to.rewind({ threadId: "t", toTask: "a" }, undosOf(ledger));
    expect(report.tasks).toEqual(["b", "c"]);
    expect(undone(ledger)).toEqual(["c", "b"]);
    await to.rewinds.takeBack(report.rewindId!, { despiteUndone: true });
    expect((await to.turns.tasks("t")).map(({ taskId }) => taskId)).toEqual(["a", "b", "c"]);
    expect(await problemsIn(to)).toEqual([]);
  });

  test("S9.7 an effect in doubt is in doubt in the target too, and can be settled there", async () => {
    const [from, to] = [opened(newPlace(kind)), opened(newPlace(other))];
    const ledger = new Deeds();
    const run = choresOn(from, ledger).invoke({ deeds: [{ name: "pay", doubt: true }] }, config("a"));
    expect(await refusal(run)).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    await moveThread(from, to, "t");
    const again = await refusal(choresOn(to, ledger).invoke(null, config("a")));
    expect(again).toMatchObject({ code: "EFFECT_IN_DOUBT" });
    const [doubt] = await to.effects.list("t", { status: "in-doubt" });
    await to.effects.resolve(doubt!.id, { outcome: "done", result: "by hand" });
    expect((await choresOn(to, ledger).invoke(null, config("a"))).log).toEqual(["by hand"]);
    expect(ledger.count("do pay")).toBe(1);
  });

  test("S9.7 S3.5 a copy in another database leaves the undos to its source, also those of a rewind that is taken back", async () => {
    const [from, between, to] = [opened(newPlace(kind)), opened(newPlace("file")), opened(newPlace(other))];
    const ledger = new Deeds();
    const undos = undosOf(ledger);
    const graph = choresOn(from, ledger);
    await graph.invoke({ deeds: [] }, config("a"));
    await graph.invoke({ deeds: [{ name: "b" }] }, config("b"));
    await graph.invoke({ deeds: [{ name: "c", undo: undefined }] }, config("c"));
    const kept = await from.rewind({ threadId: "t", toTask: "b", allowUncompensated: true }, undos);
    await copyThreadTo(from, between, "t");
    await copyThreadTo(between, to, "t");
    await choresOn(to, ledger).invoke({ deeds: [{ name: "own" }] }, config("d"));
    expect(await problemsIn(to)).toEqual([]);
    const report = await to.rewind({ threadId: "t", toTask: "a" }, undos);
    expect(report.effects.inherited.map(({ name }) => name)).toEqual(["b"]);
    await between.rewinds.takeBack(kept.rewindId!);
    expect((await between.effects.list("t")).map(({ inherited }) => inherited)).toEqual([true, true]);
    await between.rewind({ threadId: "t", toTask: "a" }, undos);
    await from.rewind({ threadId: "t", toTask: "a" }, undos);
    expect(undone(ledger)).toEqual(["own", "b"]);
  });

  test("S9.7 S3.5 with ownEffects a copy undoes what its source did, but not what that had inherited", async () => {
    const [from, to] = [opened(newPlace(kind)), opened(newPlace(other))];
    const ledger = new Deeds();
    const graph = choresOn(from, ledger);
    await graph.invoke({ deeds: [] }, config("a", "first"));
    await graph.invoke({ deeds: [{ name: "b" }] }, config("b", "first"));
    await from.copyThread("first", "t");
    await graph.invoke({ deeds: [{ name: "c" }] }, config("c"));
    await copyThreadTo(from, to, "t", { ownEffects: true });
    await to.rewind({ threadId: "t", toTask: "a" }, undosOf(ledger));
    expect(undone(ledger)).toEqual(["c"]);
    expect(await refusal(copyThreadTo(from, to, "t", { ownEffects: "no" as never }))).toMatchObject({ code: "INVALID_OPTION" });
  });

  test("S9.7 S3.5 what a copy does next has another key than what its source does next, in the same node", async () => {
    const [from, to] = [opened(newPlace(kind)), opened(newPlace(other))];
    const keys: string[] = [];
    let failing = true;
    const graphOn = (saver: TurnSaver) =>
      agentOn(saver, new Deeds(), async () => {
        await effect("first", () => void (failing && raise()));
        await effect("second", (key) => void keys.push(key));
      });
    await refusal(graphOn(from).invoke({ log: [] }, at("t")));
    await copyThreadTo(from, to, "t");
    failing = false;
    for (const saver of [from, to]) await graphOn(saver).invoke(null, at("t"));
    const all = [...(await from.effects.list("t")), ...(await to.effects.list("t"))].filter(({ inherited }) => !inherited);
    expect([keys.length, new Set(keys).size]).toEqual([2, 2]);
    expect([all.length, new Set(all.map(({ key }) => key)).size]).toEqual([5, 5]);
  });

  test("S9.7 every access to the source is refused with an error that says where the thread is, and names no password", async () => {
    const [source, target] = [newPlace(kind), newPlace(other)];
    const [from, to] = [opened(source), opened(target)];
    const graph = secretGraph(from);
    await graph.invoke(input("go"), at("t"));
    await moveThread(from, to, "t");
    const accesses: Record<string, () => Promise<unknown>> = {
      invoke: () => graph.invoke(input("go"), at("t")),
      getState: () => graph.getState(at("t")),
      updateState: () => graph.updateState(at("t"), { pin: "other" }),
      getTuple: () => from.getTuple(at("t")),
      list: async () => void (await from.list(at("t")).next()),
      turns: () => from.turns.list("t"),
      effects: () => from.effects.list("t"),
      rewind: () => from.rewind({ threadId: "t", toTask: "a" }),
      prune: () => from.prune({ threadId: "t", keepLast: 1 }),
      deleteThread: () => from.deleteThread("t"),
      names: () => from.names.set({ threadId: "t" }, "n"),
      copyThread: () => from.copyThread("t", "u"),
      moveThread: () => moveThread(from, opened(newPlace(kind)), "t"),
      status: () => new GraphRunner(graph).status("t"),
    };
    for (const [name, access] of Object.entries(accesses)) {
      const error = await refusal(access());
      expect([name, error.code, error.data?.["to"]]).toEqual([name, "THREAD_MOVED", nameOf(to)]);
      expect(error.message).toContain(nameOf(to));
      expect(error.message).not.toMatch(/:[^/@]*@/);
    }
    expect((await from.listThreads()).length).toBe(0);
    expect(await moveThread(from, to, "t")).toEqual({ threadId: "t", to: nameOf(to), outcome: "finished", rows: 0 });
    // A saver that was opened before the move, and one that is opened after it, know it too.
    expect(await refusal(opened(source).getTuple(at("t")))).toMatchObject({ code: "THREAD_MOVED" });
    expect(await from.retention.reuseThread("t")).toBe(true);
    expect(await from.getTuple(at("t"))).toBeUndefined();
    await graph.invoke(input("go"), at("t"));
    expect(await refusal(moveThread(from, to, "t"))).toMatchObject({ code: "THREAD_EXISTS" });
    expect(await problemsIn(from)).toEqual([]);
  });

  longTest.each(["move-hold.after", "move-publish.after"])(
    "S9.7 S2.4 nothing prunes or deletes a thread whose move was interrupted at %s, a dry run says so, and others are pruned",
    async (point) => {
      const [from, to] = [opened(newPlace(kind)), opened(newPlace(other))];
      await lived(from);
      for (const task of ["a", "b"]) await secretGraph(from).invoke(input("go", task), at("other"));
      setFailpointHandler((reached) => {
        if (reached === point) throw new Error("stopped here");
      });
      await expect(moveThread(from, to, "t")).rejects.toThrow("stopped here");
      setFailpointHandler(undefined);
      const before = await toldOf(from, "t");
      for (const wish of [{ keepLast: 1 }, { keepTasks: 1 }, { maxAgeMs: 0 }, { idleMs: 0 }]) {
        for (const dryRun of [true, false]) {
          const one = await refusal(from.prune({ threadId: "t", ...wish, dryRun }));
          expect([wish, dryRun, one.code, one.data?.["to"]]).toEqual([wish, dryRun, "THREAD_MOVED", nameOf(to)]);
        }
        const all = await from.prune({ ...wish, dryRun: true });
        expect([wish, all.failed]).toEqual([wish, [{ threadId: "t", error: expect.objectContaining({ code: "THREAD_MOVED" }) }]]);
      }
      expect(await refusal(from.deleteThread("t"))).toMatchObject({ code: "THREAD_MOVED" });
      const { threads, failed } = await from.prune({ idleMs: 0 });
      expect([threads, failed.map(({ threadId }) => threadId)]).toEqual([1, ["t"]]);
      expect(await toldOf(from, "t")).toEqual(before);
      expect(await moveThread(from, to, "t")).toMatchObject({ threadId: "t" });
      expect(await toldOf(to, "t")).toEqual(before);
      // Once the id is given up here, it can be deleted here.
      await from.retention.reuseThread("t");
      await from.deleteThread("t");
      for (const saver of [from, to]) expect(await problemsIn(saver)).toEqual([]);
    },
  );

  test("S9.7 a thread that runs, that is being rewound, or whose id the target has, stays where it is; the others move", async () => {
    const source = newPlace(kind);
    const [from, to] = [opened(source), opened(newPlace(other))];
    const ledger = new Deeds();
    for (const threadId of ["free", "rewound", "taken", "busy", "deleted"])
      for (const task of ["a", "b"]) await choresOn(from, ledger).invoke({ deeds: [{ name: task }] }, config(task, threadId));
    await choresOn(to, ledger).invoke({ deeds: [] }, config("a", "taken"));
    await to.deleteThread("deleted", { final: true });
    const broken = undosNamed({ back: () => Promise.reject(new Error("the undo failed")) });
    expect(await refusal(from.rewind({ threadId: "rewound", toTask: "a" }, broken))).toMatchObject({ code: "UNDO_FAILED" });
    const release = await internalsOf(from).reserve("busy");
    const before = await toldOf(from, "busy");
    const { threads, refused, done } = await moveAllThreads(from, to);
    expect({ moved: threads.map(({ threadId }) => threadId), done }).toEqual({ moved: ["free"], done: true });
    expect(refused.map(({ threadId, code }) => [threadId, code])).toEqual([
      ["busy", "THREAD_RUNNING"],
      ["deleted", "THREAD_DELETED"],
      ["rewound", "REWIND_UNFINISHED"],
      ["taken", "THREAD_EXISTS"],
    ]);
    expect(await toldOf(from, "busy")).toEqual(before);
    await release();
    // Nothing is left of what was refused, and nothing holds those threads.
    for (const saver of [from, to]) expect(await problemsIn(saver)).toEqual([]);
    await choresOn(from, ledger).invoke({ deeds: [{ name: "c" }] }, config("c", "taken"));
    expect((await moveAllThreads(from, to)).threads.map(({ threadId }) => threadId)).toEqual(["busy"]);
    expect(await refusal(moveThread(from, to, "nowhere"))).toMatchObject({ code: "THREAD_NOT_FOUND" });
    expect(await refusal(moveThread(from, from, "busy"))).toMatchObject({ code: "INVALID_OPTION" });
    expect(await refusal(moveThread(from, opened(source), "taken"))).toMatchObject({ code: "INVALID_OPTION" });
  });

  test("S9.7 what is saved while a thread is copied is not lost", async () => {
    const [from, to] = [opened(newPlace(kind)), opened(newPlace(other))];
    await choresOn(from, new Deeds()).invoke({ deeds: [] }, config("a"));
    let count = 0;
    let saves: Promise<unknown> = Promise.resolve();
    await moveThread(from, to, "t", {
      // A program that saves by itself, without a run that could be refused.
      onProgress: ({ phase }) => {
        if (phase === "copying")
          saves = saves.then(() => from.names.set({ threadId: "t" }, `n${(count += 1)}`)).catch(refusals(() => (count -= 1)));
      },
    });
    await saves;
    expect(count).toBeGreaterThan(0);
    expect((await to.names.list("t")).length).toBe(count);
    expect(await problemsIn(to)).toEqual([]);
  });

  test("S9.7 S3.1 an archive that lacks rows isn't taken for the whole: nothing is copied, moved or removed", async () => {
    const [source, target] = [newPlace(kind), newPlace(other)];
    const [from, to] = [opened(source), opened(target)];
    await lived(from);
    sqlOn(source.path, "DELETE FROM langgraph_archive WHERE ordinal > 2");
    for (const call of [copyThreadTo, moveThread]) {
      const error = await refusal(call(from, to, "t"));
      expect(error).toMatchObject({ code: "CHECKPOINT_CORRUPTED", data: { found: "one of 2" } });
    }
    expect(await to.listThreads()).toEqual([]);
    expect((await from.rewinds.list("t")).length).toBe(2);
  });

  test.each(["langgraph_chunks", "langgraph_items", "langgraph_lists"])(
    "S9.7 S3.1 a thread that lacks a row of its values stays where it is, and is named; the others move: %s",
    async (table) => {
      const [source, target] = [newPlace(kind), newPlace(other)];
      const [from, to] = [opened(source), opened(target)];
      await lived(from);
      await choresOn(from, new Deeds()).invoke({ deeds: [] }, { configurable: { thread_id: "whole" } });
      sqlOn(source.path, `DELETE FROM ${table} WHERE seq = (SELECT min(seq) FROM ${table})`);
      for (const call of [copyThreadTo, moveThread]) {
        const error = await refusal(call(from, to, "t"));
        expect(error).toMatchObject({ code: "CHECKPOINT_CORRUPTED", data: { threadId: "t" } });
        expect(error).toHaveProperty("message", expect.stringContaining("Nothing was moved"));
      }
      expect(await to.listThreads()).toEqual([]);
      const { threads, refused } = await moveAllThreads(from, to);
      expect(threads.map(({ threadId }) => threadId)).toEqual(["whole"]);
      expect(refused.map(({ threadId, code }) => [threadId, code])).toEqual([["t", "CHECKPOINT_CORRUPTED"]]);
      expect(await problemsIn(to)).toEqual([]);
    },
  );

  test("S9.7 S3.4 nothing moves from an encrypted database to a plain one unless that is allowed", async () => {
    const [from, to] = [opened(newPlace(kind), { encryption: { key: KEY } }), opened(newPlace(other))];
    await choresOn(from, new Deeds()).invoke({ deeds: [] }, config("a"));
    expect(await refusal(moveThread(from, to, "t"))).toMatchObject({ code: "ENCRYPTED" });
    expect(await moveThread(from, to, "t", { allowPlaintext: true })).toMatchObject({ outcome: "moved" });
  });

  test("S9.7 a large thread moves in pieces, and what is left in the source is removed", async () => {
    const [source, target] = [newPlace(kind), newPlace(other)];
    const [from, to] = [opened(source), opened(target)];
    await makeLarge(from, "t", 60);
    const before = await toldOf(from, "t");
    const pieces: number[] = [];
    const { rows } = await moveThread(from, to, "t", {
      onProgress: ({ phase, rows }) => phase === "copying" && pieces.push(rows),
    });
    expect(rows).toBeGreaterThan(1_000);
    expect(pieces.length).toBeGreaterThan(rows / 100);
    expect(await toldOf(to, "t")).toEqual(before);
    const left = Object.entries(dump(source.path)).filter(
      ([table, found]) => /snapshots|chunks|items|writes|leftovers|runs/.test(table) && found.length > 0,
    );
    expect(left).toEqual([]);
  });
});

function raise(): never {
  throw new Error("not yet");
}

/** What a saver is called in messages. */
const nameOf = (saver: TurnSaver): string => internalsOf(saver).store.name;

/** Counts a refused save back, and lets no other error pass. */
const refusals = (count: () => void) => (error: { code?: string }) => {
  expect(error.code).toBe("THREAD_MOVED");
  count();
};

test("S9.7 every table is carried along, or is one that has nothing of a thread to carry", () => {
  const stays = ["langgraph_settings", "langgraph_threads", "langgraph_tombstones", "langgraph_runs", "langgraph_leftovers"];
  const all = ALL_TABLES.map(({ name }) => name).sort();
  expect([...MOVED.map(({ name }) => name), ...stays].sort()).toEqual(all);
});
