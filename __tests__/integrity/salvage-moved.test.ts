import Database from "better-sqlite3";
import { moveThread, salvage } from "langgraph-checkpoint-turns/maintenance";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { CheckpointFile } from "langgraph-checkpoint-turns/checkpoint-file";
import { answersOf, reportOf, setFailpointHandler } from "../../src/testing-internal";
import { lived, newPlace, openAt, type Place, problemsIn, toldOf } from "../moving/move-world";
import { at } from "../support/enc-graph";
import { tempFile } from "../support/temp";

const savers: TurnSaver[] = [];
const opened = (place: Place): TurnSaver => {
  const saver = openAt(place);
  savers.push(saver);
  return saver;
};
afterEach(() => {
  setFailpointHandler(undefined);
  for (const saver of savers.splice(0)) saver.close();
});

/** A thread that moved away, or that is held at a point of its move. */
async function left(point?: "move-hold.after" | "move-publish.after") {
  const [source, target] = [newPlace("file"), newPlace("file")];
  const [from, to] = [opened(source), opened(target)];
  await lived(from);
  const told = await toldOf(from, "t");
  if (point === undefined) await moveThread(from, to, "t");
  else {
    setFailpointHandler((name) => {
      if (name === point) throw new Error("stopped here");
    });
    await expect(moveThread(from, to, "t")).rejects.toThrow("stopped here");
    setFailpointHandler(undefined);
  }
  from.close();
  const rescue = async () => {
    const path = tempFile();
    const report = await salvage(source.path, path);
    const rescued = opened({ kind: "file", path });
    return { report, rescued };
  };
  return { path: source.path, to, told, rescue };
}

test("S3.1 S9.7 a file that a thread has moved away from is salvaged: it still tells where the thread is", async () => {
  const { rescue, to, told } = await left();
  const { report, rescued } = await rescue();
  expect(report).toMatchObject({ ok: true, lost: [], damaged: [] });
  await expect(rescued.getTuple(at("t"))).rejects.toMatchObject({ code: "THREAD_MOVED" });
  expect(await problemsIn(rescued)).toEqual([]);
  expect(await toldOf(to, "t")).toEqual(told);
});

test("S3.1 S9.7 what is left of a thread that moved away is damaged: the report says that it's lost", async () => {
  const { path, rescue } = await left();
  const db = new Database(path);
  expect(db.prepare("UPDATE langgraph_threads SET moved_to = 'x' || moved_to").run().changes).toBe(1);
  db.close();
  const { report, rescued } = await rescue();
  expect(report).toMatchObject({ ok: false, lost: [{ table: "langgraph_threads" }] });
  expect(await problemsIn(rescued)).toEqual([]);
});

test.each(["move-hold.after", "move-publish.after"] as const)(
  "S3.1 S9.7 a file with a thread that stopped moving at %s is salvaged: it can't be written there, and the move can be finished",
  async (point) => {
    const { rescue, to, told } = await left(point);
    const { report, rescued } = await rescue();
    expect(report).toMatchObject({ ok: true, lost: [], damaged: [] });
    await expect(rescued.names.set({ threadId: "t" }, "probe")).rejects.toMatchObject({ code: "THREAD_MOVED" });
    await moveThread(rescued, to, "t");
    expect(await toldOf(to, "t")).toEqual(told);
    for (const saver of [rescued, to]) expect(await problemsIn(saver)).toEqual([]);
  },
);

test("S3.1 S9.7 a thread that stopped moving and has lost rows is still held, and moves when somebody has decided that it may", async () => {
  const { path, rescue, to } = await left("move-hold.after");
  const db = new Database(path);
  expect(db.prepare("UPDATE langgraph_writes SET checksum = checksum || 'x' WHERE seq % 3 = 0").run().changes).toBeGreaterThan(1);
  db.close();
  const { report, rescued } = await rescue();
  expect(report).toMatchObject({ ok: false, damaged: [{ threadId: "t", acknowledge: expect.any(String) }] });
  await expect(rescued.names.set({ threadId: "t" }, "probe")).rejects.toMatchObject({ code: "THREAD_MOVED" });
  await expect(moveThread(rescued, to, "t")).rejects.toMatchObject({ code: "REWIND_UNFINISHED" });
  // Status and page don't tell of a rewind that nobody began.
  const told = await reportOf(rescued, "t");
  expect(told.rewind?.rescued).toContain("could not be rescued");
  const { inFlight, resume: way } = await answersOf(rescued, { ...told, moving: null });
  expect(inFlight).toMatchObject({ headline: "Nothing, but a part of it is lost", command: "turns rewind t --abandon" });
  const { resume } = await CheckpointFile.fromThread(rescued, "t");
  expect(resume).toMatchObject({ canResume: false, reason: expect.stringContaining("rescued from a damaged file") });
  expect(way.headline).toBe("Not before somebody accepts that a part of it is lost");
  await rescued.rewinds.abandon(report.damaged[0]!.acknowledge!);
  await moveThread(rescued, to, "t");
  for (const saver of [rescued, to]) expect(await problemsIn(saver)).toEqual([]);
  expect(await to.getTuple(at("t"))).toBeDefined();
});
