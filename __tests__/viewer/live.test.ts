import { once } from "node:events";
import { copyFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { makeThreads } from "../cli/cli-world";
import { longTest } from "../support/lane-test";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { tempFile } from "../support/temp";
import { Listener, openToLook, startProgram, viewing, type World } from "./viewer-world";

jest.setTimeout(300_000);

const child = path.join(__dirname, "live-child.ts");
const onFiles = ON_POSTGRES ? test.skip : test;

/** A database with threads, a writer, and a viewer on it. */
async function setup(): Promise<{ place: string; writer: TurnSaver; world: World; end: () => Promise<void> }> {
  const place = tempFile();
  const writer = openSaver(place);
  await makeThreads(writer);
  const saver = openToLook(place);
  const world = await viewing(saver);
  const end = async (): Promise<void> => {
    await world.close();
    await (saver.close() as unknown);
    await (writer.close() as unknown);
  };
  return { place, writer, world, end };
}

/** All turns of a thread as the live tail tells them, each once, in order. */
const turnsIn = (listeners: readonly Listener[], threadId: string): number[] => {
  const numbers = listeners
    .flatMap(({ changes }) => changes)
    .filter((change) => change.kind === "turn" && change.threadId === threadId)
    .map(({ number }) => number);
  return [...new Set(numbers)].sort((one, other) => one - other);
};

const savedTurns = async (saver: TurnSaver, threadId: string): Promise<number[]> => {
  const turns = await saver.turns.list(threadId);
  return turns.map(({ seq }) => seq % 2 ** 26);
};

describe("the live tail", () => {
  test("S10.4 tells what another process saves, and says first from where on", async () => {
    const { place, writer, world, end } = await setup();
    const listener = new Listener(world, "/api/live?thread=live");
    expect(await listener.until(({ type }) => type === "ready")).toEqual({ type: "ready", format: 1, fresh: true });
    const program = startProgram(child, [place, "live", "1"]);
    await once(program, "exit");
    const saved = await savedTurns(writer, "live");
    await listener.until(({ type, change }) => type === "change" && change.number === saved.at(-1));
    expect(turnsIn([listener], "live")).toEqual(saved);
    expect(listener.changes.filter(({ kind }) => kind === "turn").map(({ words }) => words)).toEqual(
      expect.arrayContaining(["one started", "one finished", "two started", "two finished"]),
    );
    expect(listener.changes.every(({ threadId }) => threadId === "live")).toBe(true);
    listener.cut();
    await end();
  });

  longTest("S10.4 loses nothing over connections that break again and again", async () => {
    const { place, writer, world, end } = await setup();
    const listeners = [new Listener(world)];
    await listeners[0]!.until(({ type }) => type === "ready");
    const program = startProgram(child, [place, "broken", "40", "5"]);
    const ended = once(program, "exit");
    let isRunning = true;
    program.on("exit", () => (isRunning = false));
    let seen = 0;
    while (isRunning) {
      const listener = listeners.at(-1)!;
      // Before its sixth run the writer waits for the fourth connection, so an earlier one waits for no more than the first five runs save.
      const toCome = listeners.length < 4 ? 20 - turnsIn(listeners, "broken").length : Infinity;
      const enough = Math.min((seen % 7) + 1, toCome);
      await Promise.race([listener.until(() => listener.changes.length >= enough), ended]);
      listener.cut();
      seen += 1;
      const next = new Listener(world, "/api/live", listener.lastId);
      listeners.push(next);
      // On a busy machine the writer might be through before.
      if (listeners.length === 4) writeFileSync(`${place}.go`, "");
      expect(await next.until(({ type }) => type === "ready")).toMatchObject({ fresh: false });
    }
    const saved = await savedTurns(writer, "broken");
    expect(saved).toHaveLength(160);
    await listeners.at(-1)!.until(() => turnsIn(listeners, "broken").at(-1) === saved.at(-1));
    expect(turnsIn(listeners, "broken")).toEqual(saved);
    expect(listeners.length).toBeGreaterThan(3);
    listeners.at(-1)!.cut();
    await end();
  });

  test("S10.4 a writer that is killed is told as gone, and what it saved is told to the last row", async () => {
    const { place, writer, world, end } = await setup();
    const listener = new Listener(world);
    await listener.until(({ type }) => type === "ready");
    const program = startProgram(child, [place, "killed", "100000"]);
    await listener.until(({ type, running }) => type === "runs" && running.includes("killed"));
    await listener.until(() => turnsIn([listener], "killed").length > 20);
    program.kill("SIGKILL");
    await once(program, "exit");
    const saved = await savedTurns(writer, "killed");
    await listener.until(
      ({ type, change }) => type === "change" && change.threadId === "killed" && change.number === saved.at(-1),
    );
    expect(turnsIn([listener], "killed")).toEqual(saved);
    await listener.until(() => listener.heard.filter(({ event }) => event.type === "runs").at(-1)?.event.running.length === 0);
    const { report } = await world.get("/api/threads/killed");
    expect(["interrupted", "unfinished", "finished"]).toContain(report.state);
    listener.cut();
    await end();
  });

  test("S10.4 a cursor that nobody knows starts again from now, and says so", async () => {
    const { world, end } = await setup();
    for (const id of ["nonsense", "kept-1", "W10", "%00", "x".repeat(5_000)]) {
      const listener = new Listener(world, "/api/live", id);
      expect(await listener.until(({ type }) => type === "ready")).toMatchObject({ type: "ready" });
      listener.cut();
    }
    const fresh = new Listener(world, "/api/live", "nonsense");
    expect(await fresh.until(({ type }) => type === "ready")).toMatchObject({ fresh: true });
    fresh.cut();
    await end();
  });
});

describe("an open page, while its thread changes", () => {
  test("S10.4 a rewind, a take-back, a prune and a deletion are told, and every route answers", async () => {
    const { writer, world, end } = await setup();
    const listener = new Listener(world);
    await listener.until(({ type }) => type === "ready");
    const told = (kind: string, words: string) =>
      listener.until(({ type, change }) => type === "change" && change.kind === kind && change.words.includes(words));
    const routes = ["", "/timeline", "/state", "/diff", "/messages", "/effects", "/rewinds", "/graph", "/channels", "/tokens"];
    const looks = async (status: number, without: readonly string[] = []): Promise<void> => {
      for (const route of routes) {
        const wanted = without.includes(route) ? 404 : status;
        expect([route, (await world.ask(`/api/threads/finished${route}`)).status]).toEqual([route, wanted]);
      }
    };
    const { rewindId = "" } = await writer.rewind({ threadId: "finished", toTask: "first" });
    expect((await told("rewind", "rewound to first")).change).toMatchObject({ threadId: "finished", taskId: "first" });
    expect((await world.get("/api/threads/finished")).tasks).toEqual(["first"]);
    await looks(200);
    await writer.rewinds.takeBack(rewindId, { despiteUndone: true });
    await told("rewind", "taken back");
    expect((await world.get("/api/threads/finished")).tasks).toEqual(["first", "second"]);
    await writer.prune({ threadId: "finished", keepLast: 1 });
    await told("pruned", "removed");
    // What came before the only checkpoint is gone.
    await looks(200, ["/diff"]);
    await writer.deleteThread("finished");
    await told("deleted", "deleted");
    await looks(404);
    expect((await world.get("/api/overview")).threads).toBe(2);
    expect(world.reports).toEqual([]);
    listener.cut();
    await end();
  });

  onFiles("S10.4 a thread that moves away is told as moved, not as deleted", async () => {
    const { writer, world, end } = await setup();
    const listener = new Listener(world);
    await listener.until(({ type }) => type === "ready");
    const { moveThread } = await import("../../src/maintenance/index");
    const target = tempFile();
    const to = openSaver(target);
    await moveThread(writer, to, "finished");
    await (to.close() as unknown);
    const { change } = await listener.until(({ type, change }) => type === "change" && change.kind === "deleted");
    expect(change.words).toBe(`the thread was moved to ${target}`);
    listener.cut();
    await end();
  });

  onFiles.each([
    ["deleted", "DATABASE_GONE"],
    ["replaced", "DATABASE_REPLACED"],
  ])("S10.4 a file that is %s: the page is told, and every request", async (what, code) => {
    const { place, writer, world, end } = await setup();
    const listener = new Listener(world);
    await listener.until(({ type }) => type === "ready");
    if (what === "replaced") {
      copyFileSync(place, `${place}-copy`);
      renameSync(`${place}-copy`, place);
    } else {
      rmSync(place);
    }
    expect(await listener.until(({ type }) => type === "problem")).toMatchObject({ code, gone: true });
    // A page that is reloaded reads no answer of a stream, only its events.
    const again = new Listener(world);
    expect(await again.until(({ type }) => type === "problem")).toMatchObject({ code, gone: true });
    again.cut();
    for (const route of ["/api/overview", "/api/threads/finished", "/api/live"]) {
      const { status, json } = await world.ask(route);
      expect([status, json.error.code]).toEqual([503, code]);
      expect(json.error.message).toContain("Start turns web again");
    }
    // The page itself is there, to say it.
    expect((await world.ask("/")).status).toBe(200);
    listener.cut();
    void writer;
    await end();
  });

  test("S10.4 the viewer ends with its listeners", async () => {
    const { world, end } = await setup();
    const listeners = [new Listener(world), new Listener(world), new Listener(world)];
    for (const listener of listeners) await listener.until(({ type }) => type === "ready");
    await end();
    for (const listener of listeners) await listener.until(() => listener.isOver);
    await expect(world.ask("/")).rejects.toThrow(/ECONNREFUSED/);
  });
});
