import fc from "fast-check";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { TurnSaver, UndoCall } from "langgraph-checkpoint-turns";
import { closeAll, Deeds, fresh, open, refusal, thread } from "../support/eff-world";
import { config, type Deed, doing, undoing, undone, undosNamed } from "../support/undo-world";
import { runs } from "../support/lane";

jest.setTimeout(300_000);
afterEach(closeAll);

/** What one input brings: deeds of the outer node, and of two parallel nodes, one of which is a graph. */
interface Round {
  task: string;
  outer: Kind[];
  left: Kind[];
  inner: Kind[];
}
type Kind = "done" | "looks" | "fails";

const kinds = fc.array(fc.constantFrom<Kind>("done", "done", "looks", "fails"), { maxLength: 2 });
const rounds = fc.array(fc.record({ task: fc.constantFrom("A", "B", "C", "D"), outer: kinds, left: kinds, inner: kinds }), {
  minLength: 2,
  maxLength: 5,
});

const State = Annotation.Root({ round: Annotation<{ number: number } & Round> });

function graphOn(saver: TurnSaver, ledger: Deeds) {
  const node = (part: "outer" | "left" | "inner") => async (state: typeof State.State) => {
    const { number } = state.round;
    for (const [index, kind] of state.round[part].entries()) {
      const name = `${number}.${part}.${index}`;
      const deed: Deed = { name, ...(kind === "looks" ? { undo: false } : {}), ...(kind === "fails" ? { fails: true } : {}) };
      await doing(ledger, deed).catch(() => undefined);
    }
    return {};
  };
  const inner = new StateGraph(State).addNode("inner", node("inner")).addEdge(START, "inner").compile();
  const graph = new StateGraph(State)
    .addNode("outer", node("outer"))
    .addNode("left", node("left"))
    .addNode("right", inner)
    .addEdge(START, "outer")
    .addEdge("outer", "left")
    .addEdge("outer", "right")
    .compile({ checkpointer: saver });
  return saver.attach(graph);
}

test("S3.5 no matter what happened, and wherever undos fail: exactly the done effects behind the target are undone, once, newest first", async () => {
  await fc.assert(
    fc.asyncProperty(rounds, fc.nat(), fc.array(fc.nat(12), { maxLength: 3 }), async (given, pick, failing) => {
      const ledger = new Deeds();
      const saver = open(fresh());
      const graph = graphOn(saver, ledger);
      for (const [number, round] of given.entries()) {
        await graph.invoke({ round: { number, ...round } }, config(round.task));
      }
      const tasks = await saver.turns.tasks("t");
      const target = tasks[pick % tasks.length]!;
      const endSeq = target.endSeq ?? Infinity;
      const behind = (await saver.effects.list("t")).filter(({ seq }) => seq > endSeq).toReversed();
      // From the ledger of deeds, not from the journal: what really happened, in the order in which it did.
      const kindOf = (name: string): Kind => {
        const [number, part, index] = name.split(".") as [string, "outer" | "left" | "inner", string];
        return given[Number(number)]![part][Number(index)]!;
      };
      const last = given.map(({ task }): string => task).lastIndexOf(target.taskId);
      const happened = ledger.lines().map((line) => line.slice("do ".length));
      const expected = happened.filter((name) => Number(name.split(".")[0]) > last && kindOf(name) === "done").toReversed();
      const toUndo = behind.filter(({ name }) => kindOf(name) === "done").map(({ name }) => name);
      expect(toUndo).toEqual(expected);

      const dry = await saver.rewind(
        { threadId: "t", toTask: target.taskId, dryRun: true },
        undosNamed({ back: undoing(ledger) }),
      );
      expect(dry.effects.undone.map(({ name }) => name)).toEqual(toUndo);
      const breaks = new Set(failing.map((at) => toUndo[at]).filter((name) => name !== undefined));
      const stops = breaks.size;
      const back = (call: UndoCall): void => {
        const { what } = call.input as { what: string };
        if (breaks.delete(what)) throw new Error("not now");
        undoing(ledger)(call);
      };
      for (let stop = 0; stop < stops; stop += 1) {
        const error = await refusal(saver.rewind({ threadId: "t", toTask: target.taskId }, undosNamed({ back })));
        expect(error).toMatchObject({ code: "UNDO_FAILED" });
        expect((await saver.effects.list("t")).length).toBe(behind.length + (await kept(saver, endSeq)));
      }
      await saver.rewind({ threadId: "t", toTask: target.taskId }, undosNamed({ back }));
      expect(undone(ledger)).toEqual(toUndo);
      expect((await saver.effects.list("t")).filter(({ seq }) => seq > endSeq)).toEqual([]);
      expect(await saver.rewinds.unfinished("t")).toBeUndefined();
      expect(await saver.verify()).toMatchObject({ ok: true });
      await graph.invoke({ round: { number: 99, task: "E", outer: [], left: [], inner: [] } }, thread());
      closeAll();
    }),
    { numRuns: runs(4, 15) },
  );
});

async function kept(saver: TurnSaver, endSeq: number): Promise<number> {
  return (await saver.effects.list("t")).filter(({ seq }) => seq <= endSeq).length;
}
