import { entrypoint, task } from "@langchain/langgraph";
import { effect } from "langgraph-checkpoint-turns";
import { closeAll, Deeds, fresh, line, open, refusal, thread } from "../support/eff-world";

afterEach(closeAll);

const empty = { log: [] as string[] };

describe("S2.9 LangGraph aborts a task beside one that failed, and its body works on when the run is over", () => {
  test.each([
    ["kept", "LEASE_LOST"],
    ["unkept", "EFFECT_OUTSIDE_NODE"],
  ])("a graph that it begins then (%s) does no effect: the next run may be at the same", async (kind, code) => {
    const path = fresh();
    const deeds = new Deeds();
    let [failed, goOn] = [false, (): void => undefined];
    const over = new Promise<void>((resolve) => (goOn = resolve));
    let tried: Promise<unknown> | undefined;
    const saver = open(path);
    const called = line({ pays: () => effect("pay", () => deeds.do("pay"), { input: { cents: 5 } }).then(() => ({})) }).compile(
      kind === "kept" ? {} : { checkpointer: false },
    );
    const calls = task("calls", async () => {
      if (!failed) await over;
      const trying = called.invoke(empty);
      tried ??= trying;
      return (await trying).log.length;
    });
    const fails = task("fails", async () => {
      // Behind the other one's beginning.
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (!failed) throw new Error("first attempt");
      return 1;
    });
    const flow = entrypoint({ name: "flow", checkpointer: saver }, async (_input: unknown) => Promise.all([calls(), fails()]));
    saver.attach(flow);
    await expect(flow.invoke(empty, thread())).rejects.toThrow();
    goOn();
    while (tried === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(await refusal(tried)).toMatchObject({ code });
    expect(deeds.count("pay")).toBe(0);
    failed = true;
    expect(await flow.invoke(null, thread())).toEqual([0, 1]);
    expect([deeds.count("pay"), (await saver.effects.list("t")).length]).toEqual([1, 1]);
  });
});
