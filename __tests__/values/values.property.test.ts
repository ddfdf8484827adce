import { AIMessage, AIMessageChunk, type BaseMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import type { CheckpointTuple } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import { decode, encode } from "../../src/testing-internal";
import { type TurnSaver, TurnsError } from "../../src/index";
import { mutate, mutation } from "./arb-mutations";
import { anyValue, channelValue, fingerprint, longList, objectsIn, own, record, text } from "../support/arb-values";
import { get, idOf, listed, openOn, put, putWrites } from "../support/model-calls";
import { ModelWorld, step } from "../support/model-world";
import { tempFile } from "../support/temp";
import { runs } from "../support/lane";

jest.setTimeout(60_000);

beforeAll(() => {
  // Messages made with raw tool calls advise to upgrade; what is tested is not the advice.
  console.warn = () => undefined;
});

const channels = fc.uniqueArray(
  fc.tuple(
    text.map((name) => name.toWellFormed()),
    channelValue,
  ),
  {
    selector: ([name]) => name,
    minLength: 1,
    maxLength: 4,
  },
);
const writes = fc.array(
  fc.tuple(
    fc.oneof(
      fc.constantFrom("__interrupt__", "__resume__", "log"),
      text.map((name) => name.toWellFormed()),
    ),
    channelValue,
  ),
  { maxLength: 4 },
);

describe("I3 round trip", () => {
  it("I3 any value is restored in the same saver, in one that was open before, and in a fresh one", async () => {
    const path = tempFile();
    const [writer, other] = [openOn(path), openOn(path)];
    let threads = 0;
    await fc.assert(
      fc.asyncProperty(channels, writes, anyValue, async (entries, written, extra) => {
        const thread = `t${++threads}`;
        const values = own({}, entries);
        const versions = own(
          {},
          entries.map(([channel]) => [channel, 1]),
        );
        await put(writer, { thread, id: 1, values, versions, extra });
        await putWrites(writer, { thread, id: 1 }, "task", written);
        const expected = [fingerprint(values), fingerprint(extra), fingerprint(kept(written))];
        const check = (saver: TurnSaver, id: number): Promise<void> => expectAll(saver, thread, id, expected);
        await check(writer, 1);
        await check(other, 1);
        await withFresh(path, (fresh) => check(fresh, 1));
        // What was read elsewhere goes on there, and the first saver sees that.
        const held = (await get(other, { thread }))!;
        await put(other, {
          thread,
          id: 2,
          parent: 1,
          values: held.checkpoint.channel_values,
          versions,
          fresh: [],
          extra: held.metadata!["extra" as never],
        });
        const read = own(
          {},
          entries.map(([channel]) => [channel, 3]),
        );
        await put(other, { thread, id: 3, parent: 2, values: held.checkpoint.channel_values, versions: read, extra });
        await putWrites(
          other,
          { thread, id: 3 },
          "task",
          (held.pendingWrites ?? []).map(([, channel, value]) => [channel, value]),
        );
        for (const saver of [writer, other]) await check(saver, 3);
        await withFresh(path, (fresh) => check(fresh, 3));
        const carried = (await get(writer, { thread, id: 2 }))!;
        expect(fingerprint(carried.checkpoint.channel_values)).toBe(expected[0]);
      }),
      { numRuns: runs(4, 25) },
    );
    writer.close();
    other.close();
  });
});

async function withFresh(path: string, use: (saver: TurnSaver) => Promise<void>): Promise<void> {
  const saver = openOn(path);
  try {
    await use(saver);
  } finally {
    saver.close();
  }
}

/** More than once: what a saver has read it may answer from memory. */
async function expectAll(saver: TurnSaver, thread: string, id: number, expected: readonly string[]): Promise<void> {
  const [one] = await listed(saver, { thread }, { limit: 1 });
  for (const tuple of [await get(saver, { thread, id }), one, await get(saver, { thread })]) {
    expect(tuple!.checkpoint.id).toBe(idOf(id));
    const pending = tuple!.pendingWrites!.map(([, channel, value]) => [channel, value]);
    const found = [tuple!.checkpoint.channel_values, tuple!.metadata!["extra" as never], pending];
    expect(found.map(fingerprint)).toEqual(expected);
  }
}

/** Of two special writes of a kind the later counts. They come first: their indices are fixed and negative, a resume's the lowest. */
function kept(written: readonly (readonly [string, unknown])[]): (readonly [string, unknown])[] {
  const special = new Map<string, readonly [string, unknown]>();
  for (const write of written) if (/^__(interrupt|resume)__$/.test(write[0])) special.set(write[0], write);
  const first = ["__resume__", "__interrupt__"].flatMap((channel) => (special.has(channel) ? [special.get(channel)!] : []));
  return [...first, ...written.filter(([channel]) => !special.has(channel))];
}

/** A message of any kind, some of whose properties were replaced after it was made: by ones that share parts with its arguments, too. */
const editedMessage = fc
  .tuple(
    fc.constantFrom<new (fields: never) => BaseMessage>(AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage),
    fc.constantFrom("content", "contentBlocks"),
    fc.array(record(anyValue), { maxLength: 3 }),
    record(anyValue),
    fc.subarray(["content", "response_metadata", "lc_kwargs", "more"]),
  )
  .map(([type, name, blocks, about, edits]) => {
    const fields = { [name]: [{ type: "text", text: "x".repeat(600) }, ...blocks], response_metadata: about, tool_call_id: "c" };
    const message = new type(fields as never);
    const { content, response_metadata: metadata } = message;
    if (edits.includes("content")) message.content = [...content, { type: "text", text: "y" }] as never;
    if (edits.includes("response_metadata")) message.response_metadata = { ...metadata, edited: true };
    if (edits.includes("lc_kwargs")) message.lc_kwargs = { ...message.lc_kwargs, content: [...content] };
    return edits.includes("more") ? { message, content: message.content } : message;
  });

it("I3 a process reads from its memory what it read from the file, arguments of messages included", async () => {
  const path = tempFile();
  const writer = openOn(path);
  let threads = 0;
  await fc.assert(
    fc.asyncProperty(fc.oneof(editedMessage, channelValue), async (value) => {
      const thread = `t${++threads}`;
      const versions = { one: 1, list: 1 };
      await put(writer, { thread, id: 1, values: { one: value, list: [value] }, versions });
      await withFresh(path, async (saver) => {
        const read = async (): Promise<unknown> => (await get(saver, { thread }))!.checkpoint.channel_values;
        const first = fingerprint(await read());
        for (const again of [await read(), await read()]) expect(fingerprint(again)).toBe(first);
      });
    }),
    { numRuns: runs(100, 1_000) },
  );
  writer.close();
});

describe("I3 against a model", () => {
  const how = fc.record({ look: fc.constantFrom("observer" as const, "both" as const) });

  it.each([
    ["compares", { immutable: false }],
    ["trusts", { immutable: true }],
    ["remembers no more than it must", { cacheSize: 0 }],
  ])("I3 whatever happens to a file, a saver that %s reads what LangGraph's rules say", async (_, options) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 24, size: "max" }), how, async (steps, { look }) => {
        const world = new ModelWorld(options);
        try {
          for (const one of steps) {
            await world.step(one);
            await world.check(look);
          }
          await world.check("both");
        } finally {
          world.close();
        }
      }),
      { numRuns: runs(4, 30) },
    );
  });
});

describe("I3 mutation", () => {
  const round = fc.record({ mutations: fc.array(mutation, { minLength: 1, maxLength: 3 }), of: fc.nat(3) });
  const content = fc.record({ list: longList, record: record(channelValue), value: anyValue }, { noNullPrototype: true });

  it("I3 nothing that a caller does to its objects changes what was saved, and the next save has all of it", async () => {
    const path = tempFile();
    const saver = openOn(path);
    let threads = 0;
    await fc.assert(
      fc.asyncProperty(content, fc.array(round, { minLength: 1, maxLength: 4 }), async (state, rounds) => {
        const thread = `m${++threads}`;
        const saved: { id: number; values: string; writes: string }[] = [];
        const save = async (): Promise<void> => {
          const id = saved.length + 1;
          const versions = { list: id, record: id, value: id };
          const expected = decoded(state);
          const parent = id === 1 ? undefined : id - 1;
          const done = put(saver, { thread, id, parent, values: { ...state }, versions });
          if (expected === undefined) return expect(done).rejects.toThrow(TurnsError);
          await done;
          await putWrites(saver, { thread, id }, "task", Object.entries(state));
          saved.push({ id, values: fingerprint(expected), writes: fingerprint(Object.entries(expected)) });
        };
        const verify = async (from: TurnSaver): Promise<void> => {
          for (const { id, values, writes: written } of saved)
            expect(printed(await get(from, { thread, id }))).toEqual([values, written]);
          expect((await listed(from, { thread })).map(printed)).toEqual(
            saved.map(({ values, writes: w }) => [values, w]).reverse(),
          );
        };
        await save();
        for (const { mutations, of } of rounds) {
          const handedOut = of === 1 ? await get(saver, { thread }) : of === 2 ? await listed(saver, { thread }) : undefined;
          const roots = handedOut === undefined ? Object.values(state) : [handedOut];
          for (const one of mutations) mutate(roots, one);
          await verify(saver);
          await save();
        }
        await verify(saver);
        await withFresh(path, verify);
        expectApart(state, await get(saver, { thread }), await get(saver, { thread }), await listed(saver, { thread }));
      }),
      // The values are changed, so only the choice of numbers is left to shrink.
      { numRuns: runs(4, 30) },
    );
    saver.close();
  });
});

/** What the codec makes of a value that is saved now; undefined if it refuses it. */
function decoded<T>(value: T): T | undefined {
  try {
    return decode(encode(value)) as T;
  } catch {
    return undefined;
  }
}

function printed(tuple: CheckpointTuple | undefined): string[] {
  return [tuple!.checkpoint.channel_values, tuple!.pendingWrites!.map(([, channel, value]) => [channel, value])].map(fingerprint);
}

/** No object of one is an object of another. */
function expectApart(...values: unknown[]): void {
  const sets = values.map((value) => objectsIn(value));
  const all = new Set(sets.flatMap((set) => [...set]));
  expect(all.size).toBe(sets.reduce((total, set) => total + set.size, 0));
}
