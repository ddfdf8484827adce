import { closeAll, attached, fresh, line, open, thread } from "../support/eff-world";

afterEach(closeAll);

const empty = { log: [] as string[] };
const exit = { ...thread(), durability: "exit" as const };

describe('S2.9 durability "exit" keeps nothing of a run that is lost', () => {
  test("what a lost run was at is in flight until a run of the thread is saved, and then no more", async () => {
    const path = fresh();
    let hasBegun = (): void => undefined;
    const begun = new Promise<void>((resolve) => (hasBegun = resolve));
    const lost = attached(
      open(path),
      line({
        a: () => ({}),
        b: () => {
          hasBegun();
          // As if its process had died here.
          return new Promise(() => undefined);
        },
      }),
    );
    void lost.invoke(empty, exit);
    await begun;
    const saver = open(path);
    expect((await saver.turns.inFlight("t")).map(({ nodeName }) => nodeName)).toContain("b");
    const again = attached(saver, line({ a: () => ({}), b: () => ({ log: ["ended"] }) }));
    expect(await again.invoke(empty, exit)).toEqual({ log: ["ended"] });
    expect(await saver.turns.inFlight("t")).toEqual([]);
  });
});
