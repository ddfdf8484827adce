import fc from "fast-check";
import { copyThreadTo, moveThread } from "langgraph-checkpoint-turns/maintenance";
import type { TurnSaver } from "langgraph-checkpoint-turns";
import { Deeds } from "../support/eff-world";
import { runs } from "../support/lane";
import { ON_POSTGRES } from "../support/open-saver";
import { choresOn, config, undone, undosOf } from "../support/undo-world";
import { newPlace, openAt, problemsIn, WAYS } from "./move-world";

jest.setTimeout(600_000);

/** A thread, and the effects that are its own to undo, oldest first. */
interface Owner {
  saver: TurnSaver;
  threadId: string;
  own: string[];
}

const ways = ["copyThread", "copyThreadTo", "export and import", "move", "restore"] as const;
const step = fc.oneof(
  fc.record({ kind: fc.constant("do" as const), thread: fc.nat() }),
  fc.record({ kind: fc.constant("rewind" as const), thread: fc.nat() }),
  fc.record({ kind: fc.constantFrom(...ways), thread: fc.nat(), to: fc.nat() }),
  fc.record({ kind: fc.constantFrom(...ways), thread: fc.nat(), to: fc.nat() }),
);

test("S9.7 S3.5 property: however threads are copied, each effect is undone once, by the thread that did it or that replaced it", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
      const ledger = new Deeds();
      const [from, to] = WAYS.at(-1)!;
      const savers = [from, to, from].map((kind) => openAt(newPlace(kind)));
      const threads: Owner[] = [{ saver: savers[0]!, threadId: "t0", own: [] }];
      const expected: string[] = [];
      let count = 0;
      const deed = async (thread: Owner): Promise<void> => {
        const name = `e${(count += 1)}`;
        await choresOn(thread.saver, ledger).invoke({ deeds: [{ name }] }, config(`task ${count}`, thread.threadId));
        thread.own.push(name);
      };
      const rewind = async (thread: Owner): Promise<void> => {
        await thread.saver.rewind({ threadId: thread.threadId, toTask: "a" }, undosOf(ledger));
        expected.push(...thread.own.splice(0).reverse());
        expect(undone(ledger)).toEqual(expected);
      };
      try {
        await choresOn(savers[0]!, ledger).invoke({ deeds: [] }, config("a", "t0"));
        await deed(threads[0]!);
        for (const one of steps) {
          const thread = threads[one.thread % threads.length]!;
          const { saver, threadId } = thread;
          if (one.kind === "do") await deed(thread);
          else if (one.kind === "rewind") await rewind(thread);
          else if (one.kind === "copyThread") {
            const copy = { saver, threadId: `t${(count += 1)}`, own: [] };
            await saver.copyThread(threadId, copy.threadId);
            threads.push(copy);
          } else {
            const target = savers[one.to % savers.length]!;
            if (threads.some((other) => other.saver === target && other.threadId === threadId)) continue;
            if (one.kind === "copyThreadTo") await copyThreadTo(saver, target, threadId);
            else if (one.kind === "move") await moveThread(saver, target, threadId);
            else {
              const ownEffects = one.kind === "restore";
              const file = openAt(newPlace("file"));
              await copyThreadTo(saver, file, threadId, { ownEffects });
              if (ownEffects) await saver.deleteThread(threadId);
              await copyThreadTo(file, target, threadId, { ownEffects });
              file.close();
            }
            if (one.kind === "move" || one.kind === "restore") thread.saver = target;
            else threads.push({ saver: target, threadId, own: [] });
          }
        }
        for (const thread of threads) await rewind(thread);
        expect([...expected].sort()).toEqual(
          ledger
            .lines()
            .flatMap((line) => (line.startsWith("do ") ? [line.slice(3)] : []))
            .sort(),
        );
        for (const saver of savers) expect(await problemsIn(saver)).toEqual([]);
      } finally {
        for (const saver of savers) saver.close();
      }
    }),
    { numRuns: runs(ON_POSTGRES ? 3 : 8, 60) },
  );
});
