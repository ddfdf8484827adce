import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";
import { Command, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { copyOf, decode, encode, NO_COPY, sameAs } from "../../src/testing-internal";

const matched = /b/g;
matched.lastIndex = 2;
// eslint-disable-next-line no-sparse-arrays
const holes = [1, , undefined, ,];
const call = { name: "t", args: { at: new Date(1) }, id: "c", type: "tool_call" as const };

/** One value of every type that comes back. */
const values: [string, () => unknown][] = [
  ["Date", () => new Date(1_700_000_000_000)],
  ["Map", () => new Map<unknown, unknown>([["k", new Map([[{ a: 1 }, 2n]])]])],
  ["Set", () => new Set(["a", new Set([NaN])])],
  ["BigInt", () => -(2n ** 70n)],
  ["Int8Array", () => new Int8Array([-128, 127])],
  ["Uint8Array", () => new Uint8Array([0, 255])],
  ["Uint8ClampedArray", () => new Uint8ClampedArray([0, 255])],
  ["Int16Array", () => new Int16Array([-32768, 1])],
  ["Uint16Array", () => new Uint16Array([65535, 1])],
  ["Int32Array", () => new Int32Array([-(2 ** 31), 1])],
  ["Uint32Array", () => new Uint32Array([2 ** 32 - 1, 1])],
  ["Float32Array", () => new Float32Array([1.5, NaN, -0, Infinity])],
  ["Float64Array", () => new Float64Array([Math.PI, NaN, -0, -Infinity])],
  ["BigInt64Array", () => new BigInt64Array([-(2n ** 63n)])],
  ["BigUint64Array", () => new BigUint64Array([2n ** 64n - 1n])],
  ["Buffer", () => Buffer.from("ä")],
  ["ArrayBuffer", () => new Uint8Array([1, 2, 3]).buffer],
  ["DataView", () => new DataView(new Uint8Array([1, 2, 3]).buffer, 1, 1)],
  ["RegExp with lastIndex", () => Object.assign(/b/g, { lastIndex: matched.lastIndex })],
  ["URL", () => new URL("https://u:p@example.com:8080/a%20b?q=1#h")],
  ["Error with cause", () => new RangeError("what", { cause: new TypeError("why", { cause: { code: 1n } }) })],
  ["AggregateError", () => new AggregateError([new URIError("a"), "b"], "both", { cause: 1 })],
  ["NaN", () => NaN],
  ["Infinity", () => Infinity],
  ["-Infinity", () => -Infinity],
  ["-0", () => -0],
  ["undefined", () => undefined],
  ["list with holes", () => holes],
  ["object without prototype", () => Object.assign(Object.create(null) as object, { a: [undefined] })],
  ["Document", () => new Document({ pageContent: "p", metadata: { at: new Date(1) }, id: "d" })],
  ["Send", () => new Send("n", { at: new Date(1) })],
  ["Send with timeout", () => new Send("n", 1, { timeout: 5 })],
  ["Command", () => new Command({ goto: [new Send("a", 1n), "b"], update: { x: new Map([[1, 2]]) }, graph: Command.PARENT })],
  ["Command with resume", () => new Command({ resume: [new Date(1)] })],
  ["Overwrite", () => new Overwrite([1n])],
  ["DeltaSnapshot", () => new DeltaSnapshot([new Date(1), undefined])],
  ["HumanMessage", () => new HumanMessage({ content: "x", id: "1", name: "n" })],
  ["HumanMessage of blocks", () => new HumanMessage({ contentBlocks: [{ type: "text", text: "a" }] })],
  ["HumanMessage named later", () => named(new HumanMessage("x"))],
  ["HumanMessageChunk", () => new HumanMessageChunk("x")],
  ["AIMessage", () => new AIMessage({ content: "x", tool_calls: [call], usage_metadata: usage() })],
  ["AIMessage of an AIMessage", () => new AIMessage({ ...new AIMessage({ content: "hi", id: "1" }), name: "bob" })],
  ["AIMessage of contentBlocks", () => new AIMessage({ contentBlocks: [{ type: "tool_call", name: "t", args: {}, id: "1" }] })],
  [
    "AIMessageChunk",
    () => new AIMessageChunk({ content: "x", tool_call_chunks: [{ args: "{", index: 0, type: "tool_call_chunk" }] }),
  ],
  ["SystemMessage", () => new SystemMessage({ content: [{ type: "text", text: "s" }] })],
  ["SystemMessageChunk", () => new SystemMessageChunk("s")],
  ["ToolMessage", () => new ToolMessage({ content: "r", tool_call_id: "c", status: "error", artifact: new Date(1) })],
  ["ToolMessageChunk", () => new ToolMessageChunk({ content: "r", tool_call_id: "c", artifact: [1n] })],
  ["FunctionMessage", () => new FunctionMessage({ content: "f", name: "fn" })],
  ["FunctionMessageChunk", () => new FunctionMessageChunk({ content: "f", name: "fn" })],
  ["ChatMessage", () => new ChatMessage("c", "critic")],
  ["ChatMessageChunk", () => new ChatMessageChunk({ content: "c", role: "critic" })],
  ["RemoveMessage", () => new RemoveMessage({ id: "gone" })],
];

/** As a reducer gives an id to a message without one. */
function named(message: any): unknown {
  message.id = "later";
  message.lc_kwargs.id = "later";
  return message;
}

function usage(): { input_tokens: number; output_tokens: number; total_tokens: number } {
  return { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
}

function expectSame(back: any, value: any): void {
  expect(back).toStrictEqual(value);
  if (typeof value !== "object") return expect(Object.is(back, value)).toBe(true);
  expect(Object.getPrototypeOf(back)).toBe(Object.getPrototypeOf(value));
  // The engine puts the stack of an error first.
  const keys = (of: object): string[] => Reflect.ownKeys(of).map(String);
  if (value instanceof Error) expect(keys(back).sort()).toEqual(keys(value).sort());
  else expect(keys(back)).toEqual(keys(value));
  if (value instanceof RegExp) expect(back.lastIndex).toBe(value.lastIndex);
  if (value instanceof Error) expect([back.stack, back.cause]).toStrictEqual([value.stack, value.cause]);
}

describe("Values: every type", () => {
  it.each(values)("Values: %s is restored as it was, alone and inside others", (_, make) => {
    const value = make();
    expectSame(decode(encode(value)), value);
    const message = new ToolMessage({
      content: "",
      tool_call_id: "c",
      artifact: { list: [value] },
      additional_kwargs: { value },
      response_metadata: { map: new Map([["k", value]]) },
    });
    const back = decode(encode({ messages: [message] })) as { messages: [any] };
    expect(back.messages[0]).toStrictEqual(message);
    expectSame(back.messages[0].artifact.list[0], value);
    expectSame(back.messages[0].additional_kwargs.value, value);
    expectSame(back.messages[0].response_metadata.map.get("k"), value);
  });
});

/** What may be refused without a loss worth a word. */
const NOT_COPIED = /^(ArrayBuffer|DataView|RegExp|URL|Error|AggregateError|list with holes|object without prototype)/;

describe("Values: copies", () => {
  it.each(values)("Values: the copy of %s is what would be read back", (name, make) => {
    const value = make();
    const copy: any = copyOf(value);
    if (NOT_COPIED.test(name)) return expect(copy).toBe(NO_COPY);
    const back: any = decode(encode(value));
    for (const found of [copy, copyOf(copy) as any, copyOf(back) as any]) {
      expectSame(found, back);
      expect(encode(found)).toBe(encode(value));
      expect(sameAs(found, value)).toBe(true);
      expect(sameAs(found, back)).toBe(true);
      if (typeof value !== "object") continue;
      expect(found).not.toBe(value);
      expect(shared(found, value)).toEqual([]);
      const aliases = (of: any): boolean[] => Object.keys(of.lc_kwargs ?? {}).map((key) => of.lc_kwargs[key] === of[key]);
      expect(aliases(found)).toEqual(aliases(back));
      expect(Reflect.ownKeys(found.lc_kwargs ?? {})).toEqual(Reflect.ownKeys(back.lc_kwargs ?? {}));
    }
  });

  it("Values: what the codec refuses has no copy", () => {
    const cycle: any = {};
    cycle.self = [cycle];
    class Custom {}
    const bad = {
      get getter(): unknown {
        throw new Error("no");
      },
    };
    for (const value of [cycle, () => 1, Symbol("s"), { [Symbol("s")]: 1 }, new Custom(), Object.create(Date.prototype), bad]) {
      expect(copyOf({ list: [value] })).toBe(NO_COPY);
    }
    const message: any = new HumanMessage("x");
    message.lc_kwargs = 5;
    expect(copyOf(message)).toBe(NO_COPY);
  });

  it("Values: a copy differs from minus zero, holes, symbols, further properties and another order", () => {
    const changes: [unknown, (value: any) => void][] = [
      [{ n: 0 }, (value) => (value.n = -0)],
      [[0, 1, "a"], (value) => delete value[1]],
      [[1], (value) => (value.more = 1)],
      [{ a: 1, b: 2 }, (value) => (delete value.a, (value.a = 1))],
      [{ a: 1 }, (value) => (value[Symbol("s")] = 1)],
      [{ a: undefined }, (value) => delete value.a],
      [new Date(1), (value) => (value.zone = 1)],
      [new Date(1), (value) => value.setTime(NaN)],
      [new Map([[1, 1]]), (value) => value.set(2, 2)],
      [new Set([1, 2]), (value) => value.delete(2)],
      [new Uint8Array(3), (value) => (value[1] = 7)],
      [new HumanMessage("x"), (value) => (value.lc_kwargs.id = "1")],
      [new HumanMessage("x"), (value) => (value.lc_namespace.more = 1)],
      [new HumanMessage("x"), (value) => (value.added = undefined)],
      [new AIMessage({ content: "", tool_calls: [call] }), (value) => (value.tool_calls[0].args.n = 1)],
      [new Command({ goto: "a" }), (value) => (value.goto = ["b"])],
    ];
    for (const [value, change] of changes) {
      const copy = copyOf(value);
      expect(sameAs(copy, value)).toBe(true);
      const before = encode(copy);
      change(value);
      expect(sameAs(copy, value)).toBe(false);
      expect(encode(copy)).toBe(before);
    }
  });
});

/** The objects two values have in common. */
function shared(a: unknown, b: unknown): object[] {
  const inB = reach(b);
  return [...reach(a)].filter((part) => inB.has(part));
}

function reach(root: unknown, found = new Set<object>()): Set<object> {
  if (typeof root !== "object" || root === null || found.has(root)) return found;
  found.add(root);
  if (ArrayBuffer.isView(root) && !Buffer.isBuffer(root)) return found.add(root.buffer);
  if (root instanceof Map) for (const entry of root) entry.forEach((part: unknown) => void reach(part, found));
  if (root instanceof Set) for (const item of root) reach(item, found);
  for (const key of Reflect.ownKeys(root)) reach(Reflect.get(root, key), found);
  return found;
}
