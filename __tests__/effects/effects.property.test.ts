import fc from "fast-check";
import { effect } from "langgraph-checkpoint-turns";
import { attached, closeAll, Deeds, fresh, line, open, thread } from "../support/eff-world";
import { runs } from "../support/lane";

afterEach(closeAll);

/** One call of a node: what it does, and how it goes the first times it is tried. */
interface Planned {
  name: string;
  /** An id tells it apart, or an input. */
  by: "id" | "input";
  which: number;
  outcomes: readonly ("fails" | "final" | "timeout")[];
}

const call = fc.record({
  name: fc.constantFrom("mail", "pay"),
  by: fc.constantFrom<"id" | "input">("id", "input"),
  which: fc.integer({ min: 0, max: 3 }),
  outcomes: fc.array(fc.constantFrom<"fails" | "final" | "timeout">("fails", "fails", "final", "timeout"), { maxLength: 2 }),
});
const deedOf = ({ name, by, which }: Planned): string => `${name} ${by} ${which}`;
/** Groups run one after another, the calls of one group side by side; no deed is planned twice. */
const plan = fc
  .uniqueArray(call, { maxLength: 6, selector: deedOf })
  .chain((calls) =>
    fc.tuple(fc.constant(calls), fc.array(fc.nat({ max: 2 }), { minLength: calls.length, maxLength: calls.length })),
  )
  .map(([calls, groups]) =>
    [0, 1, 2].map((group) => calls.filter((_, index) => groups[index] === group)).filter((group) => group.length > 0),
  );
/** After how many calls of functions, over all runs, the process is gone. */
const kills = fc.array(fc.nat({ max: 8 }), { maxLength: 3 });
const shuffles = fc.infiniteStream(fc.boolean());

describe("S2.9 the journal against a model", () => {
  test("no matter what fails and dies in any order: no side effect is completed twice, results are the recorded ones, and it ends", async () => {
    await fc.assert(
      fc.asyncProperty(plan, kills, shuffles, async (groups, killsAt, reversed) => {
        const path = fresh();
        const deeds = new Deeds();
        const tries = new Map<string, number>();
        const first = new Map<string, string>();
        const final = new Set<string>();
        let isSaved = false;
        let done = false;
        for (let round = 0; round < 40 && !done; round += 1) {
          const saver = open(path);
          let calls = 0;
          // A final error that could not be saved is in doubt afterwards.
          final.clear();
          const killAt = killsAt[round] ?? Infinity;
          const perform = async (one: Planned): Promise<void> => {
            const deed = deedOf(one);
            const fn = (key: string): string => {
              const number = tries.get(deed) ?? 0;
              tries.set(deed, number + 1);
              if (calls++ === killAt) saver.close();
              const outcome = one.outcomes[number];
              if (outcome === "fails" || outcome === "final") throw new Error(outcome);
              deeds.do(deed);
              if (!first.has(deed)) first.set(deed, `${deed} ${key}`);
              if (outcome === "timeout") throw new Error("timeout");
              return `${deed} ${key}`;
            };
            const result = await effect(one.name, fn, {
              ...(one.by === "id" ? { id: String(one.which) } : { input: one.which }),
              onError: (error) => {
                const { message } = error as Error;
                return message === "final" ? "final" : message === "fails" ? "retryable" : "unknown";
              },
              probe: () => first.get(deed),
            }).catch((error: unknown) => {
              if ((error as Error).message !== "final") throw error;
              final.add(deed);
              return undefined;
            });
            if (result !== undefined) expect(result).toBe(first.get(deed));
          };
          const a = async () => {
            for (const group of groups) {
              const order = group.every(({ by }) => by === "id") && reversed.next().value === true ? group.toReversed() : group;
              const outcomes = await Promise.allSettled(order.map(perform));
              for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
            }
            return {};
          };
          const graph = attached(saver, line({ a }));
          done = await graph.invoke(isSaved ? null : { log: [] }, thread()).then(
            () => true,
            (error: unknown) => {
              if (error instanceof Error && error.name === "JestAssertionError") throw error;
              return false;
            },
          );
          isSaved = true;
        }
        expect(done).toBe(true);
        for (const one of groups.flat())
          expect([deedOf(one), deeds.count(deedOf(one))]).toEqual([deedOf(one), final.has(deedOf(one)) ? 0 : 1]);
        closeAll();
      }),
      { numRuns: runs(8, 30) },
    );
  }, 300_000);
});
