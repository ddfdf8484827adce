import { moveAllThreads, moveThread } from "langgraph-checkpoint-turns/maintenance";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { answer, at, input, KEY, secretGraph } from "../support/enc-graph";
import { choresOn, config, type Deed, undone, undosOf } from "../support/undo-world";
import { Deeds, refusal } from "../support/eff-world";
import { lived, newPlace, openAt, type Place, problemsIn, toldOf, WAYS } from "./move-world";

const OTHER_KEY = Buffer.from("1177c90ab3fe5d62480199aabbccddeeff11223344556677886b1f0c93d2a4e5", "hex").toString("base64");

jest.setTimeout(120_000);
const savers: TurnSaver[] = [];
afterEach(() => {
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
});
