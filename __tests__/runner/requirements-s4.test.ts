import { inAnotherProcess } from "./run-process";
import { line, world } from "../support/run-world";

describe("S4 repair from outside: processes that share only the file", () => {
  test("S4.1 S4.2 S4.4 S4.7 run, fail at node 3, repair node 3, resume: nodes 1 and 2 ran once", async () => {
    const at = world();
    const failed = await inAnotherProcess(at.path, "invoke", "one,two,three", "three");
    expect(failed).toMatchObject({ signal: null, message: "it is broken" });
    const status = await line(at, ["one", "two", "three"]).status("t");
    expect(status).toMatchObject({
      resumable: true,
      completed: [{ nodeName: "one" }, { nodeName: "two" }],
      failed: [{ nodeName: "three" }],
    });
    at.saver.close();
    const repaired = await inAnotherProcess(at.path, "resume", "one,two,three@2,four");
    expect(repaired.result).toEqual({ log: ["in", "one", "two", "three", "four"] });
    expect(at.ledger.all).toEqual(["one", "two", "three", "three", "four"]);
  });

  test("S4.2 S4.3 a repair that changes a completed node is not built upon: the run starts from scratch", async () => {
    const at = world();
    await inAnotherProcess(at.path, "invoke", "one,two,three", "three");
    const repaired = await inAnotherProcess(at.path, "resume", "one@2,two,three@2");
    expect(repaired.result).toEqual({ log: ["in", "one", "two", "three"] });
    expect([at.ledger.count("one"), at.ledger.count("two"), at.ledger.count("three")]).toEqual([2, 2, 2]);
    at.saver.close();
  });

  test("S4.5 a resume runs less than 20 % of what the completed nodes were: none of them", async () => {
    const at = world();
    const names = Array.from({ length: 20 }, (_, index) => `n${index}`);
    await inAnotherProcess(at.path, "invoke", names.join(), "n19");
    const before = at.ledger.all.length;
    expect(before).toBe(20);
    const { result } = await inAnotherProcess(at.path, "resume", names.join());
    expect(result?.log).toEqual(["in", ...names]);
    const again = at.ledger.all.slice(before).filter((name) => name !== "n19");
    expect(again.length).toBeLessThan(0.2 * 19);
    expect(again).toEqual([]);
    at.saver.close();
  });

  test("S4.3 no checkpoint: the resume says so by name", async () => {
    const at = world();
    expect(await inAnotherProcess(at.path, "resume", "a,b")).toMatchObject({ code: "NOTHING_TO_RESUME" });
    at.saver.close();
  });
});

describe("S2.8 chaos: crashes in the first, a middle and the last layer", () => {
  const names = ["first", "second", "third", "last"];

  test.each(["first", "third", "last"])(
    "S2.5 S2.8 S2.9 SIGKILL in %s: the result is that of a run without, and only it ran twice",
    async (layer) => {
      const at = world();
      expect(await inAnotherProcess(at.path, "invoke", names.join(), layer, "die")).toMatchObject({ signal: "SIGKILL" });
      const runner = line(at, names);
      expect((await runner.status("t")).inFlight).toMatchObject([{ nodeName: layer, attempt: 1 }]);
      const result = await runner.resume({ threadId: "t" });
      expect(result).toEqual(await line(world(), names).invoke({ log: ["in"] }, { threadId: "t" }));
      for (const name of names) expect([name, at.ledger.count(name)]).toEqual([name, name === layer ? 2 : 1]);
      expect(at.warnings).toEqual([expect.stringContaining(`Re-running node "${layer}"`)]);
      at.saver.close();
    },
  );
});
