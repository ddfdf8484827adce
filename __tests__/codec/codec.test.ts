import { types } from "node:util";
import { runInNewContext } from "node:vm";
import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  type BaseMessage,
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
import { Command, MemorySaver, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import { copyOf, decode, decodeOfficial, encode, isElementwise, sameAs, TurnsError } from "../../src/testing-internal";
import { longTest } from "../support/lane-test";

const roundTrip = <T>(value: T): any => decode(encode(value));

function failure(run: () => unknown): TurnsError {
  try {
    run();
  } catch (error) {
    if (TurnsError.is(error)) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

const refused = (value: unknown): TurnsError => failure(() => encode(value));

describe("Values: plain JSON", () => {
  const plain = { a: [1, "two", null, true, { "": -1.5e300, "ü \n\"'": "\u2028 😀" }], 7: {}, b: [] };

  it("Values: plain JSON is written exactly as JSON.stringify writes it", () => {
    expect(encode(plain)).toBe(JSON.stringify(plain));
    expect(roundTrip(plain)).toStrictEqual(plain);
  });

  it.each([0, 1, -1, 1e21, 5e-324, 123456789012345680000, true, null, "", "x".repeat(1000) + "\u0000"])(
    "Values: the scalar %p at top level is written as JSON.stringify writes it",
    (value) => {
      expect(encode(value)).toBe(JSON.stringify(value));
      expect(roundTrip(value)).toBe(value);
    },
  );

  it("Values: the text of a list is made of the texts of its elements", () => {
    const list = [1, "a", undefined, -0, new Date(0), new Map([[1, 2]]), new HumanMessage("hi"), [[]], { "~": 1 }, null, 3n];
    expect(encode(list)).toBe(`[${list.map((item) => encode(item)).join(",")}]`);
    const passedDirectly: (value: unknown) => string = encode;
    expect(encode(list)).toBe(`[${list.map(passedDirectly).join(",")}]`);
  });

  it("Values: a list that is not made of its elements alone is told apart", () => {
    expect(isElementwise([1, undefined])).toBe(true);
    expect(isElementwise([])).toBe(true);
    expect(isElementwise(Array(2))).toBe(false);
    expect(isElementwise("ab".match(/b/)!)).toBe(false);
  });

  it("Values: saving does not change the value", () => {
    const shared = Object.freeze({ at: Object.freeze(new Date(5)) });
    const value = Object.freeze({ shared, list: Object.freeze([shared, shared]) });
    expect(roundTrip(value)).toStrictEqual({ shared, list: [shared, shared] });
  });
});

describe("Values: what JSON cannot say", () => {
  it.each([NaN, Infinity, -Infinity, -0, undefined, 0n, -12345678901234567890123n])("Values: %p is restored", (value) => {
    expect(roundTrip(value)).toBe(value);
    expect(roundTrip([value, { value }])).toStrictEqual([value, { value }]);
  });

  it("Values: undefined stays apart from a missing property", () => {
    expect(Object.keys(roundTrip({ a: undefined }))).toEqual(["a"]);
  });

  it("Values: holes in lists stay holes", () => {
    // eslint-disable-next-line no-sparse-arrays
    const value = roundTrip([, undefined, , 3, ,]);
    expect(value).toHaveLength(5);
    expect(Object.keys(value)).toEqual(["1", "3"]);
    const long: unknown[] = [];
    long[4_294_967_294 - 1] = "last";
    expect(roundTrip(long)).toHaveLength(4_294_967_294);
  });

  it("Values: properties of a list, such as those of a match, are restored", () => {
    const match = /(?<letter>b)/.exec("abc")!;
    const value = roundTrip(match);
    expect(Array.isArray(value)).toBe(true);
    expect([value[0], value.index, value.input, value.groups.letter]).toEqual(["b", 1, "abc", "b"]);
    expect(Object.getPrototypeOf(value.groups)).toBe(null);
  });

  it("Values: lone surrogates are restored, in values and keys", () => {
    const value = { "\ud800": "a\udfffb", long: "\udead".repeat(200) };
    expect(roundTrip(value)).toStrictEqual(value);
    expect(Buffer.from(encode(value)).toString()).toBe(encode(value));
  });

  it("Values: an object without prototype is restored without", () => {
    const value = Object.assign(Object.create(null), { a: 1, "~": 2, __proto__: 3 });
    expect(Object.getPrototypeOf(roundTrip(value))).toBe(null);
    expect({ ...roundTrip(value) }).toStrictEqual({ ...value });
  });

  it("Values: keys with a meaning of their own are data and pollute nothing", () => {
    const value = JSON.parse('{"__proto__":{"polluted":[1]},"constructor":{"prototype":1},"toString":"x","hasOwnProperty":null}');
    value.__proto__.when = new Date(3);
    Object.defineProperty(value, "__proto__", {
      value: { when: new Date(3) },
      enumerable: true,
      writable: true,
      configurable: true,
    });
    const back = roundTrip(value);
    expect(Object.keys(back)).toEqual(Object.keys(value));
    expect(Object.getOwnPropertyDescriptor(back, "__proto__")?.value).toStrictEqual({ when: new Date(3) });
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(({} as any).polluted).toBeUndefined();
    const message = roundTrip(new HumanMessage({ content: "", additional_kwargs: JSON.parse('{"__proto__":{"a":1}}') }));
    expect(Object.keys(message.additional_kwargs)).toEqual(["__proto__"]);
  });

  it.each([
    { "~": "Date", v: "2020-01-01T00:00:00.000Z" },
    { a: 1, "~": undefined },
    { "~": "object", v: { "~": "object", v: {} } },
    { lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs: { content: "x" } },
    { lc: 2, type: "undefined" },
    { lc: 2, type: "constructor", id: ["Set"], args: [[1]] },
    { __lc_escaped__: { lc: 1 } },
    { lg_name: "Send", node: "a", args: 1 },
    { __overwrite__: 1 },
  ])("Values: data that looks like a marker is data: %j", (value) => {
    expect(roundTrip(value)).toStrictEqual(value);
    expect(roundTrip(new Map([[value, value]]))).toStrictEqual(new Map([[value, value]]));
    expect(roundTrip(new HumanMessage({ content: "", additional_kwargs: value })).additional_kwargs).toStrictEqual(value);
  });
});

describe("Values: built-in classes", () => {
  it("Values: a property that is not enumerable is not saved, regardless of its name", () => {
    const value = Object.defineProperty({ a: 1 }, "~", { value: "Date", enumerable: false });
    expect(roundTrip([value])).toStrictEqual([{ a: 1 }]);
  });

  it.each(["contentBlocks", "extra", "name"])(
    "Values: a hidden property of a message changes nothing that is saved: %s",
    (name) => {
      const message = new AIMessage({ contentBlocks: [], name: "a", extra: "argument" } as never);
      const saved = encode(message);
      const copy = copyOf(message);
      Object.defineProperty(message, name === "name" ? "other" : name, { value: 1, enumerable: false, configurable: true });
      (message.lc_kwargs as Record<string, unknown>)["other"] = "argument";
      const after = encode(message);
      expect(after).not.toBe(saved);
      expect(sameAs(copy, message)).toBe(false);
      delete (message.lc_kwargs as Record<string, unknown>)["other"];
      expect(encode(message)).toBe(saved);
      expect(sameAs(copy, message)).toBe(true);
      expect(encode(roundTrip(message))).toBe(saved);
      expect((decode(after) as AIMessage).lc_kwargs["other"]).toBe("argument");
    },
  );

  it.each([0, -62198755200000, 8.64e15, -8.64e15, NaN])("Values: Date is restored as Date: %p", (time) => {
    const back = roundTrip({ at: new Date(time) }).at;
    expect(Object.getPrototypeOf(back)).toBe(Date.prototype);
    expect(back.getTime()).toBe(time);
  });

  it("Values: Map and Set are restored in order, with any keys, nested", () => {
    const value = new Map<unknown, unknown>([
      [NaN, new Set([new Map([[{ a: 1 }, [undefined]]]), "x", 1n])],
      [new Date(1), new Map()],
      ["~", new Set([new Set()])],
    ]);
    const back = roundTrip(value);
    expect(back).toStrictEqual(value);
    expect([...back.keys()]).toStrictEqual([...value.keys()]);
  });

  it.each([
    new Uint8Array([0, 128, 255]),
    new Int8Array([-128, 127]),
    new Uint8ClampedArray([1, 255]),
    new Int16Array([-32768]),
    new Uint16Array([65535]),
    new Int32Array([-(2 ** 31)]),
    new Uint32Array([2 ** 32 - 1]),
    new Float32Array([1.5, NaN, -0, Infinity]),
    new Float64Array([Math.PI, -0]),
    new BigInt64Array([-(2n ** 63n)]),
    new BigUint64Array([2n ** 64n - 1n]),
    new Uint8Array(),
  ])("Values: a typed array comes back as its class with its own memory: %p", (value) => {
    const back = roundTrip(value);
    expect(back).toStrictEqual(value);
    expect(back.constructor).toBe(value.constructor);
    expect(back.buffer.byteLength).toBe(value.byteLength);
  });

  it("Values: a view of a part saves that part only", () => {
    const whole = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(roundTrip(whole.subarray(2, 4))).toStrictEqual(new Uint8Array([3, 4]));
    expect(roundTrip(new DataView(whole.buffer, 1, 3)).getUint8(0)).toBe(2);
    expect(roundTrip(new DataView(whole.buffer, 1, 3)).byteLength).toBe(3);
  });

  it("Values: Buffer is restored as Buffer, ArrayBuffer as ArrayBuffer", () => {
    expect(Buffer.isBuffer(roundTrip({ b: Buffer.from("ä") }).b)).toBe(true);
    expect(roundTrip(Buffer.from("ä")).toString()).toBe("ä");
    const back = roundTrip(new Uint8Array([9, 8]).buffer);
    expect(types.isArrayBuffer(back)).toBe(true);
    expect([...new Uint8Array(back)]).toEqual([9, 8]);
  });

  it("Values: RegExp is restored with flags and lastIndex", () => {
    const value = /a\/"[\n]\u{1F600}/giu;
    value.lastIndex = 4;
    const back = roundTrip(value);
    expect(back).toStrictEqual(value);
    expect(back.lastIndex).toBe(4);
    expect(roundTrip(new RegExp("")).source).toBe("(?:)");
  });

  it("Values: URL is restored as URL", () => {
    const back = roundTrip({ u: new URL("https://u:p@example.com:8080/a%20b?q=1#h") }).u;
    expect(back).toBeInstanceOf(URL);
    expect(back.href).toBe("https://u:p@example.com:8080/a%20b?q=1#h");
  });

  it("Values: properties set on a built-in value are restored", () => {
    const back = roundTrip(Object.assign(new Date(1), { zone: new Set(["UTC"]) }));
    expect(back).toBeInstanceOf(Date);
    expect(back.zone).toStrictEqual(new Set(["UTC"]));
  });

  it.each([Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError])(
    "Values: %p is restored as its class",
    (type) => {
      const value = new type("what", { cause: new TypeError("why", { cause: { code: 1n } }) });
      const back = roundTrip(value);
      expect(Object.getPrototypeOf(back)).toBe(type.prototype);
      expect(types.isNativeError(back)).toBe(true);
      expect(back).toStrictEqual(value);
      expect(back.stack).toBe(value.stack);
      expect(back.cause).toBeInstanceOf(TypeError);
      expect(back.cause.cause).toStrictEqual({ code: 1n });
      expect(Object.keys(back)).toEqual([]);
    },
  );

  it("Values: AggregateError is restored with its errors", () => {
    const back = roundTrip(new AggregateError([new RangeError("a"), "b"], "both"));
    expect(back).toBeInstanceOf(AggregateError);
    expect(back.errors[0]).toBeInstanceOf(RangeError);
    expect([back.message, back.errors[1], Object.keys(back)]).toEqual(["both", "b", []]);
  });

  it("Values: an error keeps custom name, own properties, and the lack of a message or a stack", () => {
    const value: any = Object.assign(new Error("m"), { name: "MyError", code: "E1", at: new Date(1) });
    const back = roundTrip(value);
    expect([back.name, back.code, back.at, Object.keys(back)]).toStrictEqual(["MyError", "E1", new Date(1), Object.keys(value)]);
    const bare: any = new Error();
    delete bare.stack;
    expect(Object.getOwnPropertyNames(roundTrip(bare))).toEqual([]);
    expect(Object.hasOwn(roundTrip(new Error("", { cause: undefined })), "cause")).toBe(true);
  });

  it("Values: values of another realm are restored as ours", () => {
    const foreign = runInNewContext(
      "({ date: new Date(1), map: new Map([[1, [2]]]), error: new RangeError('x'), re: /a/g, f: new Float64Array([1]), list: [1], set: new Set([1]), memory: new DataView(new ArrayBuffer(2)).buffer, view: new DataView(new ArrayBuffer(3)) })",
    );
    const back = roundTrip(foreign);
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype);
    expect(back.date).toStrictEqual(new Date(1));
    expect(back.map).toStrictEqual(new Map([[1, [2]]]));
    expect(back.error).toBeInstanceOf(RangeError);
    expect(back.re).toStrictEqual(/a/g);
    expect(back.f).toStrictEqual(new Float64Array([1]));
    expect(back.set).toStrictEqual(new Set([1]));
    expect([back.memory.byteLength, back.view.byteLength]).toEqual([2, 3]);
  });
});

const richParts = () => ({
  additional_kwargs: { bytes: new Uint8Array([1, 2]), map: new Map([["k", new Date(1)]]), n: 1n },
  response_metadata: { at: new Date(2), nan: NaN },
});

const messages: [string, () => BaseMessage][] = [
  ["HumanMessage of a string", () => new HumanMessage("hi")],
  ["HumanMessage with id and name", () => new HumanMessage({ content: "hi", id: "1", name: "bob" })],
  ["HumanMessage with explicit undefined", () => new HumanMessage({ id: undefined, content: "hi", name: undefined })],
  ["HumanMessage with unknown fields", () => new HumanMessage({ content: "hi", example: true, at: new Date(1) } as never)],
  [
    "HumanMessage of blocks",
    () =>
      new HumanMessage({
        content: [
          { type: "text", text: "a" },
          { type: "image", data: new Uint8Array([1]) },
        ] as never,
      }),
  ],
  ["HumanMessage of contentBlocks", () => new HumanMessage({ contentBlocks: [{ type: "text", text: "a" }] })],
  ["HumanMessage with rich parts", () => new HumanMessage({ content: "", ...richParts() })],
  ["HumanMessageChunk", () => new HumanMessageChunk({ content: "a", id: "1" })],
  ["AIMessage of a string", () => new AIMessage("hi")],
  ["AIMessage without arguments worth a word", () => new AIMessage({ content: "" })],
  [
    "AIMessage with tool calls and usage",
    () =>
      new AIMessage({
        content: "",
        id: "1",
        tool_calls: [{ name: "t", args: { at: new Date(1), b: new Uint8Array([1]) }, id: "c", type: "tool_call" }],
        invalid_tool_calls: [{ name: "u", args: "{", id: "d", error: "Malformed args.", type: "invalid_tool_call" }],
        usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3, input_token_details: { cache_read: 1 } },
        ...richParts(),
      }),
  ],
  ["AIMessage with raw tool calls", () => new AIMessage({ content: "", tool_calls: [], additional_kwargs: { tool_calls: [] } })],
  [
    "AIMessage of v1 content",
    () => new AIMessage({ content: [{ type: "text", text: "a" }], response_metadata: { output_version: "v1" } as never }),
  ],
  [
    "AIMessage of contentBlocks with a tool call",
    () =>
      new AIMessage({
        contentBlocks: [{ type: "tool_call", name: "t", args: {}, id: "1" }],
        response_metadata: { a: 1 },
      }),
  ],
  ["AIMessage made from another", () => new AIMessage({ ...new AIMessage({ content: "hi", id: "1" }), name: "bob" })],
  ["AIMessageChunk of a string", () => new AIMessageChunk("hi")],
  [
    "AIMessageChunk with tool call chunks",
    () =>
      new AIMessageChunk({
        content: "",
        tool_call_chunks: [{ name: "t", args: '{"a":1}', id: "1", index: 0, type: "tool_call_chunk" }],
      }),
  ],
  [
    "AIMessageChunk of two",
    () =>
      new AIMessageChunk({ content: "a", id: "1" }).concat(
        new AIMessageChunk({ content: "b", usage_metadata: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } }),
      ),
  ],
  [
    "ToolMessage",
    () =>
      new ToolMessage({
        content: "r",
        tool_call_id: "c",
        name: "t",
        status: "error",
        artifact: new Map([[1, new Uint8Array([7])]]),
        metadata: { a: new Date(1) },
      }),
  ],
  ["ToolMessage of positions", () => new ToolMessage("r", "c", "t")],
  ["ToolMessageChunk", () => new ToolMessageChunk({ content: "r", tool_call_id: "c", artifact: { x: 1n } })],
  ["SystemMessage", () => new SystemMessage({ content: [{ type: "text", text: "s" }] })],
  ["SystemMessageChunk", () => new SystemMessageChunk("s")],
  ["FunctionMessage", () => new FunctionMessage({ content: "f", name: "fn" })],
  ["FunctionMessageChunk", () => new FunctionMessageChunk({ content: "f", name: "fn" })],
  ["ChatMessage", () => new ChatMessage({ content: "c", role: "critic" })],
  ["ChatMessage of positions", () => new ChatMessage("c", "critic")],
  ["ChatMessageChunk", () => new ChatMessageChunk({ content: "c", role: "critic" })],
  ["RemoveMessage", () => new RemoveMessage({ id: "gone" })],
];

describe("Values: LangChain messages", () => {
  it.each(messages)("Values: %s is restored as what it was", (_, make) => {
    const value = make();
    const back = roundTrip({ messages: [value] }).messages[0];
    expect(back).toStrictEqual(value);
    expect(Object.getPrototypeOf(back)).toBe(Object.getPrototypeOf(value));
    expect(Object.keys(back)).toEqual(Object.keys(value));
    expect(Object.keys(back.lc_kwargs)).toEqual(Object.keys(value.lc_kwargs));
    expect(JSON.stringify(back, (_, v) => (typeof v === "bigint" ? `${v}` : v))).toBe(
      JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}` : v)),
    );
    expect(encode(back)).toBe(encode(value));
  });

  it("Values: the present fields of a message count, not those it was made with", () => {
    const value: any = new AIMessage({ content: "secret", id: "1", additional_kwargs: { a: "secret" } });
    value.content = "[redacted]";
    value.additional_kwargs = { b: 1 };
    value.id = "2";
    value.extra = new Date(1);
    delete value.name;
    const text = encode(value);
    const back: any = decode(text);
    expect(text).not.toContain("secret");
    expect(back).toBeInstanceOf(AIMessage);
    expect([back.content, back.additional_kwargs, back.id, back.extra]).toStrictEqual(["[redacted]", { b: 1 }, "2", new Date(1)]);
    expect(Object.hasOwn(back, "name")).toBe(false);
    expect(back.toJSON().kwargs.content).toBe("[redacted]");
  });

  it("Values: a message without the arguments of its constructor is restored without", () => {
    const value: any = new ToolMessage("r", "c");
    delete value.lc_kwargs;
    expect(roundTrip(value)).toStrictEqual(value);
  });

  it("Values: a message whose fields the constructor filled in keeps its arguments", () => {
    const value = new HumanMessage({ content: null as never, id: "1" });
    expect(roundTrip(value)).toStrictEqual(value);
    const renamed: any = new HumanMessage("x");
    renamed.id = "set later, without telling the arguments";
    expect(roundTrip(renamed)).toStrictEqual(renamed);
  });

  it("Values: equal messages have equal texts, whether or not they share parts", () => {
    const blocks = () => [{ type: "text", text: "a" }];
    const first = new AIMessage({ content: blocks(), response_metadata: { output_version: "v1" } as never });
    expect(encode(roundTrip(first))).toBe(encode(first));
    const command = new Command({ goto: ["a", "b"] });
    expect(encode(roundTrip(command))).toBe(encode(command));
  });

  it("Values: a message changed in its parts is restored changed", () => {
    const value = new AIMessage({ content: "a", tool_calls: [{ name: "t", args: { n: 1 }, id: "1" }] });
    value.tool_calls![0]!.args.n = 2;
    value.additional_kwargs.later = new Set([1]);
    expect(roundTrip(value)).toStrictEqual(value);
  });

  it("Values: messages are restored without warnings and without running their constructor on the data", () => {
    const value = new AIMessage({ content: "", tool_calls: [] });
    value.additional_kwargs = { tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }] };
    const back = roundTrip(value);
    expect(back.tool_calls).toEqual([]);
    expect(back).toStrictEqual(value);
  });

  it("Values: Document is restored as Document", () => {
    const value = new Document({ pageContent: "p", metadata: { at: new Date(1) }, id: "1" });
    expect(roundTrip(value)).toStrictEqual(value);
    expect(roundTrip(new Document({ pageContent: "" }))).toStrictEqual(new Document({ pageContent: "" }));
  });
});

describe("Values: LangGraph", () => {
  it.each<[string, () => object]>([
    ["Send", () => new Send("node", { m: [new HumanMessage("x")], at: new Date(1) })],
    ["Send with timeout", () => new Send("node", 1, { timeout: { idleTimeout: 5 } })],
    ["Command with goto", () => new Command({ goto: "a", update: { x: new Map([[1, 2]]) } })],
    ["Command with sends", () => new Command({ goto: [new Send("a", { n: 1n }), "b"], graph: Command.PARENT })],
    ["Command with one send", () => new Command({ goto: new Send("a", {}) })],
    ["Command with resume", () => new Command({ resume: { id: new Date(1) } })],
    ["Command with tuples", () => new Command({ update: [["a", 1]] })],
    ["Overwrite", () => new Overwrite([new Date(1)])],
    ["DeltaSnapshot", () => new DeltaSnapshot([new HumanMessage("x"), undefined])],
    ["interrupts", () => [{ id: "1", value: new Set([1]), when: "during", ns: ["a"], resumable: true }]],
  ])("Values: %s comes back as what it was", (_, make) => {
    const back = roundTrip(make());
    expect(back).toStrictEqual(make());
    expect(Object.getPrototypeOf(back)).toBe(Object.getPrototypeOf(make()));
  });

  it("Values: the instance of another copy of a library is restored as ours", () => {
    const Foreign = class Send {
      lg_name = "Send";
      constructor(
        readonly node: string,
        readonly args: unknown,
        readonly timeout?: unknown,
      ) {}
    };
    expect(roundTrip(new Foreign("n", 1))).toStrictEqual(new Send("n", 1));
  });
});

describe("Values: what cannot be saved is a named error", () => {
  class Custom {
    x = 1;
  }
  const cyclic: any = { messages: [{ a: {} }] };
  cyclic.messages[0].a.b = cyclic.messages;
  const map = new Map<unknown, unknown>([["k", 1]]);
  map.set("self", { map });

  it.each<[string, unknown, string, RegExp]>([
    [
      "function",
      { messages: [1, new HumanMessage({ content: "", additional_kwargs: { fn: () => 1 } })] },
      "messages[1].additional_kwargs.fn",
      /a function/,
    ],
    ["symbol", [{ "a b": Symbol("x") }], '[0]["a b"]', /a symbol/],
    ["symbol key", { a: { [Symbol("x")]: 1 } }, "a", /symbol as its key/],
    ["cycle", cyclic, "messages[0].a.b", /a cycle: it is messages again/],
    ["cycle through a map", map, "<self>.map", /a cycle: it is the whole value again/],
    ["WeakMap", { w: new WeakMap() }, "w", /instance of WeakMap/],
    ["Promise", [Promise.resolve()], "[0]", /instance of Promise/],
    ["unknown class", { a: new Set([new Custom()]) }, "a<item 0>", /instance of Custom/],
    ["subclass of a built-in", { a: new (class M extends Map {})() }, "a", /instance of M/],
    ["subclass of a message", { a: new (class M extends HumanMessage {})("x") }, "a", /instance of M/],
    ["boxed primitive", { a: new String("x") }, "a", /instance of String/],
    ["function at top level", () => 1, "", /^A value can't be saved: it is a function\./],
    ["function in an error's cause", new Error("x", { cause: { f() {} } }), "cause.f", /a function/],
    ["function in a map key", new Map([[{ f() {} }, 1]]), "<key 0>.f", /a function/],
    [
      "function among constructor arguments",
      { m: new HumanMessage({ content: "", fn: () => 1 } as never) },
      "m.fn",
      /a function/,
    ],
    ["SharedArrayBuffer", { a: new SharedArrayBuffer(1) }, "a", /instance of SharedArrayBuffer/],
    ["fake built-in", { a: Object.create(Map.prototype) }, "a", /throws when it is read/],
  ])("Values: a %s is refused with its path", (_, value, path, found) => {
    const error = refused(value);
    expect(error.code).toBe("UNSERIALIZABLE_VALUE");
    expect(error.name).toBe("UnserializableValueError");
    expect(error.data).toEqual({ path });
    expect(error.message).toContain(path);
    expect(error.message).toMatch(found);
  });

  longTest("S2.6 Values: a text that is longer than JavaScript's may be is refused with its path and the limit", () => {
    const limit = "text that makes the saved value longer than 536,870,888 characters, the most that a text of JavaScript has";
    const long = {
      get text() {
        return "a".repeat(2 ** 29);
      },
    };
    expect(refused({ deep: ["short", long] }).message).toContain(`at deep[1].text there is ${limit}. Remove`);
    expect(refused({ deep: ["short", new Uint8Array(420_000_000)] }).message).toContain(`at deep[1] there is ${limit}. Remove`);
  });

  it("Values: memory that is shared, resizable or gone is refused", () => {
    const gone = new Uint8Array(8);
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    const resizable = new (ArrayBuffer as any)(4, { maxByteLength: 8 });
    for (const value of [gone, gone.buffer, resizable]) expect(refused({ value }).data).toEqual({ path: "value" });
  });

  it("Values: constructor arguments that are no object, or contain themselves, are refused", () => {
    const none: any = new HumanMessage("x");
    none.lc_kwargs = 5;
    expect(refused([none]).data).toEqual({ path: "[0]" });
    const cyclic: any = new HumanMessage("x");
    cyclic.lc_kwargs.lc_kwargs = cyclic.lc_kwargs;
    expect(refused([cyclic]).data).toEqual({ path: "[0]" });
  });

  it("Values: a path stays short, regardless of the keys and the depth", () => {
    const key = "k".repeat(500);
    expect(refused({ [key]: () => 1 }).message.length).toBeLessThan(400);
    let value: unknown = () => 1;
    for (let depth = 0; depth < 1_000; depth++) value = { next: value };
    expect(refused(value).message).toMatch(/next\.next…\.next/);
  });

  it("Values: a getter that throws is refused with its path and its error as the cause", () => {
    const cause = new Error("no");
    const value = {
      list: [
        {
          get bad() {
            throw cause;
          },
        },
      ],
    };
    const error = refused(value);
    expect([error.code, error.data, error.cause]).toEqual(["UNSERIALIZABLE_VALUE", { path: "list[0].bad" }, cause]);
    expect(refused(Proxy.revocable({}, {}).proxy && revoked()).code).toBe("UNSERIALIZABLE_VALUE");
  });

  it("Values: a getter is read once, so that what was checked is what is saved", () => {
    let reads = 0;
    const value = {
      get once() {
        return reads++ === 0 ? [1] : () => 1;
      },
    };
    expect(encode(value)).toBe('{"once":[1]}');
  });

  it("Values: the same object in two places is no cycle", () => {
    const shared = { a: new Date(1) };
    expect(roundTrip([shared, { shared }])).toStrictEqual([shared, { shared }]);
  });

  it("Values: nesting up to 2,000 levels is saved, more is a named error", () => {
    expect(encode(decode(encode(nested(2_000))))).toBe(encode(nested(2_000)));
    const error = refused(nested(2_001));
    expect(error.code).toBe("UNSERIALIZABLE_VALUE");
    expect(error.message).toMatch(/more than 2000 levels/);
    expect(refused(nested(100_000)).code).toBe("UNSERIALIZABLE_VALUE");
  });

  it("Values: what is saved can be read, however deep classes are nested", () => {
    for (const wrap of [
      (value: unknown) => new Map([[value, 1]]),
      (value: unknown) => new Set([value]),
      (value: unknown) => new Error("x", { cause: value }),
      (value: unknown) => new Document({ pageContent: "", metadata: value as never }),
      (value: unknown) => ({ "~": value }),
      (value: unknown) => Object.assign([], { extra: value }),
    ]) {
      let value: unknown = undefined;
      let text = "";
      for (let depth = 1, limit = false; !limit; depth++) {
        value = wrap(value);
        if (depth % 61 !== 0) continue;
        try {
          text = encode(value);
        } catch (error) {
          expect(TurnsError.is(error, "UNSERIALIZABLE_VALUE")).toBe(true);
          expect(depth).toBeGreaterThan(400);
          limit = true;
        }
      }
      expect(encode(decode(text))).toBe(text);
    }
  });

  it("Values: deep values in a deep stack are a named error, not a RangeError", () => {
    const value = nested(1_999);
    const text = encode(value);
    const codes = new Set<string>();
    const dive = (): void => {
      for (const run of [() => encode(value), () => decode(text), () => decodeOfficial("json", text)]) {
        try {
          run();
        } catch (error) {
          if (TurnsError.is(error)) codes.add(error.code);
        }
      }
    };
    atEveryDepth(dive);
    expect([...codes].every((code) => code === "UNSERIALIZABLE_VALUE" || code === "UNDECODABLE_VALUE")).toBe(true);
  });
});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return { proxy };
}

function nested(levels: number): unknown {
  let value: unknown = [];
  for (let level = 1; level < levels; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}

/** Calls back at growing stack depth until the stack is used up. */
function atEveryDepth(run: () => void, depth = 0): void {
  if (depth % 500 === 0) run();
  try {
    atEveryDepth(run, depth + 1);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
}

describe("Values: classInstances plain", () => {
  const plain = (value: unknown): any => decode(encode(value, { classInstances: "plain" }));

  it("Values: an unknown class is saved as its properties, or as what its toJSON returns", () => {
    class Point {
      x = new Date(1);
      constructor(readonly y: number) {}
    }
    class Money {
      constructor(readonly cents: bigint) {}
      toJSON() {
        return { cents: this.cents };
      }
    }
    expect(plain({ p: new Point(2), m: [new Money(3n)] })).toStrictEqual({ p: { x: new Date(1), y: 2 }, m: [{ cents: 3n }] });
    expect(plain(new String("x"))).toBe("x");
  });

  it("Values: a class that extends a known one is saved as that one, with its content", () => {
    class MyError extends TypeError {
      override name = "MyError";
      code = 7;
    }
    const error = plain(new MyError("what"));
    expect(Object.getPrototypeOf(error)).toBe(TypeError.prototype);
    expect([error.name, error.message, error.code]).toEqual(["MyError", "what", 7]);
    expect(plain(new (class M extends Map<unknown, unknown> {})([[1, 2]]))).toStrictEqual(new Map([[1, 2]]));
    expect(plain(class L extends Array<number> {}.from([1, 2, 3]))).toStrictEqual([1, 2, 3]);
    expect(plain(new (class M extends HumanMessage {})("x"))).toStrictEqual(new HumanMessage("x"));
    expect(
      plain(
        new (class extends Error {
          override get name() {
            return "ByPrototype";
          }
        })("x"),
      ).name,
    ).toBe("ByPrototype");
  });

  it.each<[string, unknown]>([
    [
      "function",
      {
        a: new (class X {
          f = () => 1;
        })(),
      },
    ],
    [
      "toJSON that throws",
      {
        a: new (class X {
          toJSON() {
            throw new Error("no");
          }
        })(),
      },
    ],
    ["WeakMap", { a: new WeakMap() }],
    ["Promise", { a: Promise.resolve() }],
    ["boxed symbol", { a: Object(Symbol("x")) }],
  ])("Values: a %s is refused all the same", (_, value) => {
    const error = failure(() => plain(value));
    expect(error.code).toBe("UNSERIALIZABLE_VALUE");
    expect(error.data["path"]).toMatch(/^a/);
  });
});

describe("Values: reading what was not written by the codec", () => {
  it.each([
    "",
    "{",
    "undefined",
    "[1,]",
    '{"~":1}',
    '{"~":"Nothing"}',
    '{"~":"constructor"}',
    '{"~":"__proto__"}',
    '{"~":"Function","v":"alert(1)"}',
    '{"~":null,"v":1}',
    '{"~":"undefined","v":1}',
    '{"~":"number","v":"1"}',
    '{"~":"number","v":"toString"}',
    '{"~":"bigint","v":"1n"}',
    '{"~":"bigint","v":""}',
    '{"~":"Date","v":"yesterday"}',
    '{"~":"Date","v":0}',
    '{"~":"Date"}',
    '{"~":"RegExp","v":["(",""]}',
    '{"~":"RegExp","v":["a","zz"]}',
    '{"~":"RegExp","v":["a"]}',
    '{"~":"URL","v":"not a url"}',
    '{"~":"Map","v":[[1]]}',
    '{"~":"Map","v":{}}',
    '{"~":"Set","v":1}',
    '{"~":"Uint8Array","v":"$$$$"}',
    '{"~":"Uint8Array","v":"A"}',
    '{"~":"Float64Array","v":"AAAA"}',
    '{"~":"Array","n":-1,"v":[]}',
    '{"~":"Array","n":1,"v":[[1,1]]}',
    '{"~":"Array","n":2,"v":[["0",1]]}',
    '{"~":"Error","v":{"x":1}}',
    '{"~":"Error","v":[]}',
    '{"~":"object","v":{}}',
    '{"~":"object","v":[]}',
    '{"~":"HumanMessage"}',
    '{"~":"HumanMessage","v":[]}',
    '{"~":"HumanMessage","v":{},"a":[]}',
    '{"~":"HumanMessage","v":{},"a":[{}]}',
    '{"~":"HumanMessage","v":{},"a":[{"k":["toJSON"]}]}',
    '{"~":"HumanMessage","v":{},"d":[1]}',
    '{"~":"HumanMessage","v":{},"x":1}',
    '{"~":"Date","v":null,"p":1}',
    '[{"deep":{"~":"Nope","secret":"hunter2"}}]',
    '{"~":{"~":"Date","v":null}}',
  ])("Values: %s is UNDECODABLE_VALUE", (text) => {
    const error = failure(() => decode(text));
    expect(error.code).toBe("UNDECODABLE_VALUE");
    expect(error.message).not.toContain("hunter2");
    expect(error.cause).toBeUndefined();
  });

  it("Values: text nested too deep is UNDECODABLE_VALUE", () => {
    for (const depth of [2_100, 200_000]) {
      expect(failure(() => decode("[".repeat(depth) + "]".repeat(depth))).code).toBe("UNDECODABLE_VALUE");
      expect(failure(() => decode('{"a":'.repeat(depth) + "1" + "}".repeat(depth))).code).toBe("UNDECODABLE_VALUE");
      expect(failure(() => decode('{"~":"Set","v":['.repeat(depth) + "]}".repeat(depth))).code).toBe("UNDECODABLE_VALUE");
      expect(failure(() => decodeOfficial("json", "[".repeat(depth) + "]".repeat(depth))).code).toBe("UNDECODABLE_VALUE");
    }
  });

  it("Values: something other than text is UNDECODABLE_VALUE", () => {
    expect(failure(() => decode(undefined as never)).code).toBe("UNDECODABLE_VALUE");
  });

  it("Values: fields in a text cannot reach a prototype", () => {
    for (const tag of ["HumanMessage", "Send", "Error", "null-prototype", "Date"]) {
      try {
        decode(`{"~":"${tag}","v":{"__proto__":{"polluted":1},"contentBlocks":1,"text":2},"p":{"__proto__":{"polluted":1}}}`);
      } catch (error) {
        expect(TurnsError.is(error, "UNDECODABLE_VALUE")).toBe(true);
      }
    }
    expect(({} as any).polluted).toBeUndefined();
    expect((HumanMessage.prototype as any).polluted).toBeUndefined();
    const message: any = decode('{"~":"HumanMessage","v":{"content":"x","__proto__":{"a":1}}}');
    expect(message).toBeInstanceOf(HumanMessage);
    expect(Object.getPrototypeOf(message)).toBe(HumanMessage.prototype);
  });
});

describe("Values: the official format can be read", () => {
  const serde = new MemorySaver().serde;
  const official = async (value: unknown): Promise<any> => decodeOfficial(...(await serde.dumpsTyped(value)));

  it("Values: what JsonPlusSerializer keeps is read as it reads it", async () => {
    const value = {
      map: new Map<unknown, unknown>([["a", new Set([1, undefined])]]),
      re: /a/gi,
      bytes: new Uint8Array([1, 200, 255]),
      nothing: undefined,
      delta: new DeltaSnapshot([new HumanMessage("x")]),
      error: new Error("what"),
      list: [null, 1, "a", { b: true }],
      messages: [
        new HumanMessage({ content: "hi", id: "1", name: "bob" }),
        new AIMessage({
          content: [{ type: "text", text: "a" }],
          tool_calls: [{ name: "t", args: { some_key: { lc: 1 } }, id: "1" }],
          usage_metadata: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
          response_metadata: { model_name: "m" },
        }),
        new AIMessageChunk({ content: "a", tool_call_chunks: [{ name: "t", args: "{}", id: "1", index: 0 }] }),
        new ToolMessage({ content: "r", tool_call_id: "1", status: "error", artifact: { a: [1] } }),
        new SystemMessage("s"),
        new FunctionMessage({ content: "f", name: "fn" }),
        new ChatMessage({ content: "c", role: "critic" }),
        new RemoveMessage({ id: "gone" }),
        new AIMessage({ contentBlocks: [{ type: "text", text: "a" }] }),
      ],
    };
    const [type, data] = await serde.dumpsTyped(value);
    const mine: any = decodeOfficial(type, data);
    expect(mine).toStrictEqual(await serde.loadsTyped(type, data));
    expect(decodeOfficial(type, new TextDecoder().decode(data))).toStrictEqual(mine);
    for (const [at, message] of value.messages.entries()) {
      expect(Object.getPrototypeOf(mine.messages[at])).toBe(Object.getPrototypeOf(message));
    }
    expect(mine.messages[1].tool_calls[0].args).toEqual({ some_key: { lc: 1 } });
  });

  it("Values: bytes are read as bytes, from text too", () => {
    expect(decodeOfficial("bytes", new Uint8Array([1, 255]))).toStrictEqual(new Uint8Array([1, 255]));
    expect([...(decodeOfficial("bytes", "ä") as Uint8Array)]).toEqual([195, 164]);
  });

  it("Values: bytes and maps inside a message are read, which the official reader loses", () => {
    const text = JSON.stringify({
      lc: 1,
      type: "constructor",
      id: ["langchain_core", "messages", "ToolMessage"],
      kwargs: {
        content: "",
        tool_call_id: "1",
        artifact: { lc: 2, type: "constructor", id: ["Map"], method: null, args: [[[1, 2]]], kwargs: {} },
      },
    });
    const back = decodeOfficial("json", text) as ToolMessage;
    expect(back).toBeInstanceOf(ToolMessage);
    expect(back.artifact).toStrictEqual(new Map([[1, 2]]));
  });

  it("Values: a document serialized by LangChain is read as Document", () => {
    const text =
      '{"lc":1,"type":"constructor","id":["langchain_core","documents","base","Document"],"kwargs":{"page_content":"p","metadata":{"a":1}}}';
    expect(decodeOfficial("json", text)).toStrictEqual(new Document({ pageContent: "p", metadata: { a: 1 } }));
  });

  it("Values: user data a message escaped stays data", async () => {
    const fake = { lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs: { content: "x" } };
    const back = await official(new HumanMessage({ content: "", additional_kwargs: { fake } }));
    expect(back.additional_kwargs.fake).toStrictEqual(fake);
  });

  it.each([
    { lc: 2, type: "constructor", id: ["Function"], args: ["return 1"] },
    { lc: 2, type: "constructor", id: ["Array"], args: [3] },
    { lc: 2, type: "constructor", id: ["Map"], args: [[1]] },
    { lc: 2, type: "constructor", id: ["Map"], method: "constructor", args: [[]] },
    { lc: 2, type: "constructor", id: ["RegExp"], args: ["(", ""] },
    { lc: 2, type: "constructor", id: ["Uint8Array"], method: "from", args: [[256]] },
    { lc: 2, type: "constructor", id: ["Error"], args: [{}] },
    { lc: 2, type: "constructor", id: ["Set", "x"], args: [[]] },
    { lc: 2, type: "constructor", id: ["Set"] },
    { lc: 1, type: "constructor", id: "x", kwargs: {} },
    { lc: 1, type: "secret", id: ["OPENAI_API_KEY"] },
  ])("Values: an official record with other content stays inert data: %j", (record) => {
    expect(decodeOfficial("json", JSON.stringify({ record }))).toStrictEqual({ record });
  });

  it.each([
    ["langchain_core", "prompts", "PromptTemplate"],
    ["langchain", "messages", "HumanMessage"],
    ["langchain_core", "messages", "BaseMessage"],
    ["langchain_core", "messages", "__proto__"],
    ["langchain_core", "messages", "constructor"],
    ["langchain_core", "messages"],
    [],
  ])("Values: a class outside the list is UNDECODABLE_VALUE: %j", (...id) => {
    const text = JSON.stringify({ lc: 1, type: "constructor", id, kwargs: {} });
    expect(failure(() => decodeOfficial("json", text)).code).toBe("UNDECODABLE_VALUE");
  });

  it("Values: an unknown type, text that is not JSON and bytes that are not text are UNDECODABLE_VALUE", () => {
    expect(failure(() => decodeOfficial("pickle", "x")).code).toBe("UNDECODABLE_VALUE");
    expect(failure(() => decodeOfficial("json", "{")).code).toBe("UNDECODABLE_VALUE");
    expect(failure(() => decodeOfficial("json", new Uint8Array([34, 255, 34]))).code).toBe("UNDECODABLE_VALUE");
  });

  it("Values: keys with a meaning of their own pollute nothing", () => {
    const back: any = decodeOfficial(
      "json",
      '{"__proto__":{"polluted":1},"m":{"lc":2,"type":"constructor","id":["Map"],"args":[[["__proto__",1]]]}}',
    );
    expect(Object.keys(back)).toEqual(["__proto__", "m"]);
    expect(back.polluted).toBeUndefined();
    expect(({} as any).polluted).toBeUndefined();
  });
});
