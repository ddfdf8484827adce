import { TurnSaver } from "langgraph-checkpoint-turns";
import { quiet } from "../support/s1-tools";
import { objectsIn } from "../support/arb-values";
import { tempFile } from "../support/temp";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Command, Send } from "@langchain/langgraph";
import { ADOPTING, copyOf, decode, encode, EXACT, matches, NO_COPY, PrivateCopy, Tracer } from "../../src/testing-internal";

const call = { name: "search", args: { q: ["x", 1n] }, id: "1", type: "tool_call" as const };
const MESSAGE = Symbol.for("langchain.message");
/** Its arguments bear the symbol of messages, as those of a copy (`new HumanMessage({...message})`) do. */
const marked = (message: HumanMessage): HumanMessage => (((message.lc_kwargs as any)[MESSAGE] = true), message);
const COMPARED: [string, () => any, (value: any) => void][] = [
  ["a string", () => ({ v: "x" }), (value) => (value.v = "y")],
  ["a number", () => ({ v: 0 }), (value) => (value.v = -0)],
  ["a record", () => ({ a: { b: undefined } }), (value) => delete value.a.b],
  ["a list", () => [1, [null, "x"]], (value) => delete value[1][0]],
  ["a property of a list", () => ({ v: [1] }), (value) => (value.v.more = 1)],
  ["a Date", () => ({ v: new Date(1) }), (value) => value.v.setTime(2)],
  ["a property of a Date", () => [new Date(1)], (value) => (value[0].zone = "UTC")],
  ["a Map", () => new Map<unknown, unknown>([["k", { v: 1 }], [{}, 2]]), (value) => (value.get("k").v = 2)], // prettier-ignore
  ["the order of a Map", () => new Map([[1, 1], [2, 2]]), (value) => (value.delete(1), value.set(1, 1))], // prettier-ignore
  ["a Set", () => new Set([1, 2]), (value) => value.add(3)],
  ["a property of a Set", () => new Set([1]), (value) => (value.more = 1)],
  ["bytes", () => ({ v: new Float64Array([1, 2]) }), (value) => (value.v[1] = 3)],
  ["a Buffer", () => Buffer.from("text"), (value) => (value[0] = 1)],
  ["a message", () => new HumanMessage({ id: "1", content: "x" }), (value) => (value.content = "y")],
  ["an argument of a message", () => new HumanMessage("x"), (value) => (value.lc_kwargs.id = "1")],
  ["the symbol of arguments, which came", () => new HumanMessage("x"), (value) => (value.lc_kwargs[MESSAGE] = true)],
  ["the symbol of arguments, which went", () => marked(new HumanMessage("x")), (value) => delete value.lc_kwargs[MESSAGE]],
  ["the symbol of arguments within arguments", () => decode(encode(new HumanMessage({ ...marked(new HumanMessage("x")) }))), (value) => delete value.lc_kwargs.lc_kwargs[MESSAGE]], // prettier-ignore
  [
    "a call of a message",
    () => new AIMessage({ content: "", tool_calls: [call] }),
    (value) => (value.tool_calls[0].args.q[1] = 2n),
  ],
  ["an artifact with a Date", () => new ToolMessage({ content: "", tool_call_id: "1", artifact: { at: new Date(1) } }), (value) => value.artifact.at.setTime(2)], // prettier-ignore
  ["a Send", () => new Send("n", { v: new Map([[1, 1]]) }), (value) => value.args.v.clear()],
];

describe("Values: a private copy", () => {
  test.each(COMPARED)("Values: notices a change of %s without the help of its text", (_, make, change) => {
    const value = make();
    const copy = PrivateCopy.of(value)!;
    const text = encode(value);
    for (const like of [value, make(), decode(text)])
      for (const how of [undefined, EXACT] as const) expect(copy.isLike(like, how)).toBe(true);
    change(value);
    expect(copy.isLike(value)).toBe(false);
    expect(encode(copy.value)).toBe(text);
  });

  test("Values: of a value that only its text can be compared with is like nothing", () => {
    expect(PrivateCopy.of(new Command({ goto: "a" }))!.isLike(new Command({ goto: "a" }))).toBe(false);
    expect(PrivateCopy.of([/x/])).toBeUndefined();
  });

  test("Values: notices symbol keys where it has to be exact", () => {
    for (const make of [() => ({ v: { a: 1 } }), () => ({ v: [1] }), () => ({ v: new HumanMessage("x") })]) {
      const value = make();
      const copy = PrivateCopy.of(value)!;
      (value.v as any)[Symbol("s")] = 1;
      expect([copy.isLike(value), copy.isLike(value, EXACT)]).toEqual([true, false]);
    }
  });

  test("Values: holes, properties of bytes and the like that a text was read with are not taken for what lacks them", () => {
    const lists: [unknown, unknown][] = [
      [Object.assign([], { 0: 1, 2: 2 }), [1, undefined, 2]],
      [Object.assign([1], { more: 1 }), [1]],
      [Object.assign(Buffer.from("x"), { mime: "text" }), Buffer.from("x")],
      [Object.assign(new Date(1), { zone: "UTC" }), new Date(1)],
      [Object.assign(new Map(), { more: 1 }), new Map()],
    ];
    for (const [read, value] of lists) {
      const slots: unknown[] = [];
      const shape = new Tracer().trace({ v: decode(encode(read)) }, slots);
      expect(shape !== undefined && matches(shape, slots, 0, { v: value }) >= 0).toBe(false);
    }
  });

  test("Values: takes over the strings of what it is like, and of nothing else", () => {
    const slots: unknown[] = [];
    const shape = new Tracer().trace(["same", "own"], slots)!;
    expect(matches(shape, slots, 0, ["same", "other"], ADOPTING)).toBe(-1);
    expect(slots).toEqual(["same", "own"]);
    expect(matches(shape, slots, 0, ["same", "own"], ADOPTING)).toBe(shape.size);
    expect(slots).toEqual(["same", "own"]);
  });
});

describe("S6.1 every change in place of every object in a message", () => {
  const hidden = (owner: any, key: string | symbol, value: unknown): unknown =>
    Object.defineProperty(owner, key, { value, enumerable: false, writable: true, configurable: true });
  /** Each changes a property of an object, or the object. */
  const CHANGES: Record<string, (owner: any, key: string) => unknown> = {
    "sets 0": (owner, key) => (owner[key] = 0),
    "sets -0": (owner, key) => (owner[key] = -0),
    "sets NaN": (owner, key) => (owner[key] = NaN),
    "sets undefined": (owner, key) => (owner[key] = undefined),
    "sets an equal string": (owner, key) => (owner[key] = [...String(owner[key])].join("")),
    "sets a part to an equal one": (owner, key) => (owner[key] = decode(encode(owner[key]))),
    "deletes a property": (owner, key) => delete owner[key],
    "moves a property to the end": (owner, key) => {
      const value = owner[key];
      delete owner[key];
      owner[key] = value;
    },
    "hides a property": (owner, key) => hidden(owner, key, owner[key]),
    "makes a property a getter": (owner, key) => {
      const value = owner[key];
      Object.defineProperty(owner, key, { get: () => value, enumerable: true, configurable: true });
    },
    "adds a property": (owner) => (owner.further = "x"),
    "adds an index": (owner) => (owner[7] = "x"),
    "adds a hidden property": (owner) => hidden(owner, "further", "x"),
    "adds arguments": (owner) => (owner.lc_kwargs ??= { content: "x" }),
    "adds hidden arguments": (owner) => owner.lc_kwargs ?? hidden(owner, "lc_kwargs", { content: "x" }),
    "adds the symbol of messages": (owner) => (owner[MESSAGE] = true),
    "adds the symbol of messages, hidden": (owner) => hidden(owner, MESSAGE, true),
    "adds the symbol of messages, undefined": (owner) => (owner[MESSAGE] = undefined),
    "deletes the symbol of messages": (owner) => delete owner[MESSAGE],
    "has no prototype any more": (owner) => Object.setPrototypeOf(owner, null),
    "has another prototype": (owner) => Object.setPrototypeOf(owner, Array.isArray(owner) ? Object.prototype : Array.prototype),
    "inherits a property": (owner) => Object.setPrototypeOf(owner, Object.create(Object.getPrototypeOf(owner), { inherited: { value: 1, enumerable: true } })), // prettier-ignore
    "is frozen": (owner) => Object.freeze(owner),
    "is replaced by a proxy": (owner, key) => typeof owner[key] === "object" && owner[key] !== null && (owner[key] = new Proxy(owner[key], {})), // prettier-ignore
  };
  const usage = { input_tokens: 0, output_tokens: 1.5, total_tokens: NaN };
  const MADE: [string, () => unknown][] = [
    ["a human message", () => new HumanMessage({ id: "1", content: "x" })],
    ["an AI message", () => new AIMessage({ id: "1", content: [{ type: "text", text: "x" }], tool_calls: [{ ...call, args: { q: ["x", 1n] } }], usage_metadata: { ...usage } })], // prettier-ignore
    ["a copy of a message", () => decode(encode(new HumanMessage({ ...marked(new HumanMessage("x")) })))],
    ["a message that was read", () => decode(encode(new ToolMessage({ content: "x", tool_call_id: "1", artifact: { at: 0 } })))],
    ["messages in a record", () => ({ list: [new HumanMessage("x"), { a: -0, b: NaN, c: ["x", undefined] }], lc_kwargs: { d: 1 } })], // prettier-ignore
  ];

  test.each(MADE)("%s is like its copy only if the codec writes the same text", (_name, make) => {
    let [like, unlike] = [0, 0];
    const places = [...objectsIn(make())].map((owner, at) => [at, Reflect.ownKeys(owner).filter((key) => typeof key === "string")] as const); // prettier-ignore
    for (const [at, keys] of places)
      for (const key of keys.length === 0 ? ["none"] : keys)
        for (const [name, change] of Object.entries(CHANGES)) {
          const value = make();
          const copy = PrivateCopy.of(value)!;
          const text = encode(value);
          expect([copy.isLike(value), copy.isLike(value, EXACT)]).toEqual([true, true]);
          try {
            change([...objectsIn(value)][at], key);
          } catch {
            continue;
          }
          const now = textOf(value);
          for (const how of [undefined, EXACT] as const) {
            const isLike = copy.isLike(value, how);
            // Unless it has to be exact, symbol keys go unnoticed that the codec refuses, or that change nothing of what is read.
            const isRight =
              now === text || (how === undefined && (now === "a symbol" || (now !== "refused" && encode(decode(now)) === text)));
            expect([name, at, key, how, isLike && !isRight]).toEqual([name, at, key, how, false]);
            if (isLike) like += 1;
            else unlike += 1;
          }
        }
    expect(Math.min(like, unlike)).toBeGreaterThan(50);
  });
});

function textOf(value: unknown): string {
  try {
    return encode(value);
  } catch (error) {
    return /a symbol as its key/.test(String(error)) ? "a symbol" : "refused";
  }
}

describe("S6.1 a message that a node enriched, with arguments that share what is in its properties", () => {
  const long = "x".repeat(600);
  const call = { name: "f", args: {}, id: "1", type: "tool_call" as const };
  const block = { type: "text", text: long };
  const message = (): AIMessage =>
    new AIMessage({
      content: [block],
      tool_calls: [call],
      additional_kwargs: { function_call: { name: "f", arguments: "{}" } },
      response_metadata: { usage: { tokens: 1 } },
    });
  const enriched: [string, (one: AIMessage) => void][] = [
    ["additional_kwargs", (one) => (one.additional_kwargs = { ...one.additional_kwargs, seen: true })],
    ["response_metadata", (one) => (one.response_metadata = { ...one.response_metadata, seen: true })],
    ["tool_calls", (one) => (one.tool_calls = [...(one.tool_calls ?? []), { ...call, id: "2" }])],
    ["content", (one) => (one.content = [...(one.content as (typeof block)[]), { ...block }])],
  ];

  test.each(enriched)("%s: a copy is written as the same text, or there is none", (_name, enrich) => {
    const one = message();
    enrich(one);
    const copy = copyOf(one);
    expect(copy === NO_COPY ? encode(one) : encode(copy)).toBe(encode(one));
  });

  test.each(enriched)(
    "%s: it is saved again after a save that was refused, and reads the same each time",
    async (_name, enrich) => {
      const saver = TurnSaver.fromPath(tempFile(), { synchronous: "normal", logger: quiet });
      const one = message();
      enrich(one);
      const save = (id: number, values: Record<string, unknown>) =>
        saver.put(
          { configurable: { thread_id: "t", checkpoint_ns: "" } },
          {
            v: 4,
            id: `1f0f0000-0000-6000-8000-00000000000${id}`,
            ts: "2026-01-01T00:00:00Z",
            channel_values: values,
            channel_versions: Object.fromEntries(Object.keys(values).map((name) => [name, id])),
            versions_seen: {},
          },
          { source: "loop", step: id, parents: {} },
          {},
        );
      await expect(save(1, { draft: { answer: one }, z: () => 1 })).rejects.toMatchObject({ code: "UNSERIALIZABLE_VALUE" });
      await save(2, { draft: { answer: one } });
      const texts: string[] = [];
      for (let read = 0; read < 3; read += 1) {
        const tuple = await saver.getTuple({ configurable: { thread_id: "t", checkpoint_ns: "" } });
        texts.push(encode(tuple?.checkpoint.channel_values["draft"]));
      }
      expect(new Set(texts)).toEqual(new Set([texts[0]]));
      saver.close();
    },
  );
});
