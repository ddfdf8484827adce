import { moveThread } from "langgraph-checkpoint-turns/maintenance";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { answer, at, secretGraph } from "../support/enc-graph";
import { ON_POSTGRES } from "../support/open-saver";
import { LONG, points } from "../support/lane";
import { runProgram } from "../support/s1-programs";
import { copyStore } from "../support/s1-tools";
import { lived, newPlace, openAt, type Place, problemsIn, toldOf, WAYS } from "./move-world";

jest.setTimeout(300_000);
const savers: TurnSaver[] = [];
const opened = (place: Place): TurnSaver => {
  const saver = openAt(place);
  savers.push(saver);
  return saver;
};
afterEach(() => {
  for (const saver of savers.splice(0)) saver.close();
});

const OTHERS = ["hold", "publish", "end"].flatMap((step) => ["before", "within", "after"].map((when) => `move-${step}.${when}`));
const PIECES = ["before", "within", "after"].flatMap((when) => [1, 3, 9].map((nth) => `move-rows.${when} ${nth}`));
/** On a server each takes ten times as long. */
const POINTS = ON_POSTGRES ? points([...PIECES, ...OTHERS], 4) : [...points(PIECES, 3), ...OTHERS];

describe.each(LONG ? WAYS : WAYS.slice(0, 2))("from a %s to a %s", (kind, other) => {
  const template = newPlace(kind);
  let before: unknown;
  beforeAll(async () => {
    const saver = openAt(template);
    await lived(saver);
    before = await toldOf(saver, "t");
    saver.close();
  });

  test.each(POINTS)(
    "S9.7 SIGKILL at %s: the thread can be written in one at most and read in one at least, and a second call moves it",
    async (at_) => {
      const [point = "", nth = "1"] = at_.split(" ");
      const [source, target] = [newPlace(kind), newPlace(other)];
      copyStore(template.path, source.path);
      const died = runProgram("moving/move-child.ts", source.kind, source.path, target.kind, target.path, point, nth);
      expect(died).toMatchObject({ signal: "SIGKILL" });
      const [from, to] = [opened(source), opened(target)];
      const states = [await stateIn(from, before), await stateIn(to, before)];
      expect(states.filter((state) => state === "writable").length).toBeLessThanOrEqual(1);
      expect(states.filter((state) => state !== "not there").length).toBeGreaterThanOrEqual(1);
      await moveThread(from, to, "t");
      expect([await stateIn(from, before), await stateIn(to, before)]).toEqual(["not there", "writable"]);
      for (const saver of [from, to]) expect(await problemsIn(saver)).toEqual([]);
      expect((await from.listThreads()).length).toBe(0);
      // It continues there where it was: a person's answer ends the run.
      const done = await secretGraph(to).invoke(answer, at("t"));
      expect(done.log.at(-1)).toBe("done");
    },
  );
});

/** @param told what a saver tells about the thread, if it's there at all */
async function stateIn(saver: TurnSaver, told: unknown): Promise<"writable" | "readable" | "not there"> {
  try {
    if ((await saver.getTuple(at("t"))) === undefined) return "not there";
  } catch (error) {
    expect(error).toMatchObject({ code: "THREAD_MOVED" });
    return "not there";
  }
  expect(await toldOf(saver, "t")).toEqual(told);
  try {
    await saver.names.set({ threadId: "t" }, "probe");
    await saver.names.delete("t", "probe");
    return "writable";
  } catch (error) {
    expect(error).toMatchObject({ code: "THREAD_MOVED" });
    return "readable";
  }
}
