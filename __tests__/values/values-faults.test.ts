import Database from "better-sqlite3";
import fc from "fast-check";
import { Annotation, Command, START, StateGraph } from "@langchain/langgraph";
import { type Checkpoint, MemorySaver, uuid6 } from "@langchain/langgraph-checkpoint";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { encode, endsOf } from "../../src/testing-internal";
import { tempFile } from "../support/temp";

/** Each of these was found by trying to break the storage, and broke it. */

const config = { configurable: { thread_id: "t" } };
const metadata = { source: "loop", step: 0, parents: {} } as const;
let step = 0;
/** A shorter list is stored as one text. */
const LONG = "x".repeat(300);

function checkpoint(values: Record<string, unknown>, versions: Record<string, number>): Checkpoint {
  return { v: 4, id: uuid6(step++), ts: "", channel_values: values, channel_versions: versions, versions_seen: {} };
}

class OwnError extends Error {
  override name = "OwnError";
}

describe("I3.2 what is stored is what counts, not what encoding it again would give", () => {
  test("I3.2 a list whose texts the codec would write otherwise now continues after a reload and an edit", async () => {
    const file = tempFile();
    const first = TurnSaver.fromPath(file);
    const log = [new OwnError("no"), { a: "x".repeat(200) }, { b: "y".repeat(200) }];
    const begun = checkpoint({ log }, { log: 1 });
    await first.put(config, begun, metadata, { log: 1 });
    first.close();
    const second = TurnSaver.fromPath(file);
    const read = (await second.getTuple(config))?.checkpoint.channel_values["log"] as { a: string }[];
    read[1]!.a = "changed";
    const parent = { configurable: { thread_id: "t", checkpoint_id: begun.id } };
    await second.put(parent, checkpoint({ log: read }, { log: 2 }), metadata, { log: 2 });
    await second.put(parent, checkpoint({ log: [...read, { c: "z".repeat(300) }] }, { log: 3 }), metadata, { log: 3 });
    second.close();
    const third = TurnSaver.fromPath(file);
    const again = (await third.getTuple(config))?.checkpoint.channel_values["log"] as unknown[];
    expect(again.slice(1)).toEqual([{ a: "changed" }, { b: "y".repeat(200) }, { c: "z".repeat(300) }]);
    expect(again[0]).toMatchObject({ name: "OwnError", message: "no" });
    expect((await third.getTuple(parent))?.checkpoint.channel_values["log"]).toHaveLength(3);
    third.close();
  });

  test("I3.2 a copy of a checkpoint has all channels of it, also those whose texts the codec would write otherwise", async () => {
    const channelsAfterCopy = async (saver: MemorySaver | TurnSaver): Promise<string[]> => {
      const State = Annotation.Root({ n: Annotation<number>, error: Annotation<unknown>, errors: Annotation<unknown> });
      const graph = new StateGraph(State)
        .addNode("a", () => ({ n: 1, error: new OwnError("no"), errors: [new OwnError("x".repeat(300))] }))
        .addEdge(START, "a")
        .compile({ checkpointer: saver });
      await graph.invoke({ n: 0 }, config);
      await graph.updateState(config, null, "__copy__");
      return Object.keys((await graph.getState(config)).values as object).sort();
    };
    const saver = TurnSaver.fromPath(":memory:", { logger: { debug() {}, info() {}, warn() {}, error() {} } });
    expect(await channelsAfterCopy(saver)).toEqual(await channelsAfterCopy(new MemorySaver()));
    saver.close();
  });

  test("I3.2 an element that reads differently each time is read as what was stored, also by the saver that stored it", async () => {
    const file = tempFile();
    const saver = TurnSaver.fromPath(file);
    let reads = 0;
    const odd = { get n() { return (reads += 1); }, text: LONG }; // prettier-ignore
    const log: unknown[] = [{ a: LONG }];
    await saver.put(config, checkpoint({ log }, { log: 1 }), metadata, { log: 1 });
    await saver.put(config, checkpoint({ log: [...log, odd, { b: 2 }] }, { log: 2 }), metadata, { log: 2 });
    const read = async (of: TurnSaver): Promise<unknown> => (await of.getTuple(config))?.checkpoint.channel_values["log"];
    const other = TurnSaver.fromPath(file);
    const stored = await read(other);
    expect(stored).toEqual([{ a: LONG }, { n: expect.any(Number) as number, text: odd.text }, { b: 2 }]);
    for (let time = 0; time < 3; time += 1) expect(await read(saver)).toEqual(stored);
    await saver.put(config, checkpoint({ log: [...(stored as unknown[]), { c: 3 }] }, { log: 3 }), metadata, { log: 3 });
    expect(await read(saver)).toEqual([...(stored as unknown[]), { c: 3 }]);
    other.close();
    saver.close();
  });

  test.each([
    ["plain elements", (n: number) => ({ n, more: [LONG, { deep: new Date(n) }] })],
    ["one that only its text can tell", (n: number) => (n === 3 ? new Command({ goto: "a" }) : { n, more: LONG })],
  ])("I3.2 every read of a list has objects of its own, and so has each older checkpoint: %s", async (_, element) => {
    const saver = TurnSaver.fromPath(":memory:");
    const log: unknown[] = [];
    const ids: string[] = [];
    for (let n = 0; n < 6; n += 1) {
      const next = checkpoint({ log: [...log, element(n)] }, { log: n + 1 });
      log.push(element(n));
      await saver.put(config, next, metadata, { log: n + 1 });
      ids.push(next.id);
    }
    const read = async (id: string): Promise<unknown[]> =>
      (await saver.getTuple({ configurable: { thread_id: "t", checkpoint_id: id } }))?.checkpoint.channel_values[
        "log"
      ] as unknown[];
    for (let time = 0; time < 3; time += 1) {
      for (const [length, id] of ids.entries()) {
        const found = await read(id);
        expect(found).toEqual(log.slice(0, length + 1));
        // A caller may change what it was given.
        for (const one of found as Record<string, unknown>[]) Object.assign(one, { n: "changed", more: undefined });
        found.reverse();
      }
    }
    saver.close();
  });

  test("I3.2 property: joined texts are parted where they were joined", () => {
    fc.assert(
      fc.property(fc.array(fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true })), (values) => {
        const texts = values.map((value) => encode(value));
        const joined = texts.join(",");
        let from = 0;
        const parted = endsOf(joined).map((end) => {
          const text = joined.slice(from, end);
          from = end + 1;
          return text;
        });
        expect(parted).toEqual(texts);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("I3.4 a save that waits for a lock", () => {
  test("I3.4 is of the moment it was asked for, carried values of a missing parent included", async () => {
    const file = tempFile();
    const saver = TurnSaver.fromPath(file);
    const other = new Database(file);
    other.exec("BEGIN IMMEDIATE");
    const state = { y: { k: "before" } };
    const orphan = { configurable: { thread_id: "t", checkpoint_id: uuid6(0) } };
    const saved = saver.put(orphan, checkpoint(state, { y: 1 }), metadata, {});
    state.y.k = "after";
    other.exec("COMMIT");
    await saved;
    expect((await saver.getTuple(config))?.checkpoint.channel_values).toEqual({ y: { k: "before" } });
    other.close();
    saver.close();
  });
});
