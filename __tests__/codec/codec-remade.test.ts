import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Document } from "@langchain/core/documents";
import { Send } from "@langchain/langgraph";
import fc from "fast-check";
import { decode, encode, remade, Tracer } from "../../src/testing-internal";
import { anyValue, fingerprint } from "../support/arb-values";
import { runs } from "../support/lane";

const MESSAGE = Symbol.for("langchain.message");
const call = { name: "search", args: { q: ["x", 1n] }, id: "1", type: "tool_call" as const };

/** The value made from its split copy, as a warm memory makes it; undefined where it would read the text. */
function madeFrom(text: string): { value: unknown; slots: unknown[] } | undefined {
  const slots: unknown[] = ["of another value"];
  const shape = new Tracer().trace(decode(text), slots);
  return shape?.canBeRemade === true ? { value: remade(shape, slots, 1), slots } : undefined;
}

/** Each object that can be reached, with the places where it is: which parts are one object. */
function places(value: unknown): Map<object, string[]> {
  const found = new Map<object, string[]>();
  const visit = (part: unknown, place: string): void => {
    if (typeof part !== "object" || part === null) return;
    const known = found.get(part);
    if (known !== undefined) return void known.push(place);
    found.set(part, [place]);
    if (part instanceof Map)
      [...part].forEach(([key, item], at) => (visit(key, `${place} key ${at}`), visit(item, `${place} item ${at}`)));
    if (part instanceof Set) [...part].forEach((item, at) => visit(item, `${place} item ${at}`));
    if (ArrayBuffer.isView(part)) return visit(part.buffer, `${place} buffer`);
    for (const key of Reflect.ownKeys(part)) visit(Object.getOwnPropertyDescriptor(part, key)?.value, `${place}.${String(key)}`);
  };
  visit(value, "");
  return found;
}

const isSameAsRead = (text: string): boolean => {
  const made = madeFrom(text);
  if (made === undefined) return false;
  const { value, slots } = made;
  const read = decode(text);
  expect(fingerprint(value)).toBe(fingerprint(read));
  const own = places(value);
  // Parts of a Buffer may lie in memory that Node shares among Buffers.
  const withoutMemory = (all: Map<object, string[]>) =>
    [...all].filter(([one]) => !(one instanceof ArrayBuffer)).map(([, at]) => at);
  expect(withoutMemory(own)).toEqual(withoutMemory(places(read)));
  expect(slots.some((slot) => typeof slot === "object" && slot !== null && own.has(slot))).toBe(false);
  expect(encode(value)).toBe(encode(read));
  return true;
};

const withoutArguments = new HumanMessage("x");
Reflect.deleteProperty(withoutArguments, "lc_kwargs");
const withOwnBlocks = decode('{"~":"ToolMessage","v":{"tool_call_id":"c","content":"c","contentBlocks":[]}}');
const marked = new HumanMessage("x");
(marked.lc_kwargs as Record<symbol, unknown>)[MESSAGE] = true;

describe("S6.1 Values: what a warm memory makes from its copies is what the text says", () => {
  test.each<[string, unknown]>([
    ["a primitive", "x"],
    ["a message", new HumanMessage({ id: "1", content: "x" })],
    ["a message with calls", new AIMessage({ content: [{ type: "text", text: "x" }], tool_calls: [call], usage_metadata: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } })], // prettier-ignore
    [
      "a message with content blocks, which became its content",
      new AIMessage({ contentBlocks: [{ type: "text", text: "x" }] } as never),
    ],
    ["a message with content blocks of its own, which its arguments share", withOwnBlocks],
    ["a message whose arguments bear the symbol of messages", marked],
    ["a message without arguments", withoutArguments],
    ["a message with a property that its class has a getter for", Object.defineProperty(new HumanMessage("x"), "text", { value: "own", enumerable: true })], // prettier-ignore
    ["a message with an artifact", new ToolMessage({ content: "", tool_call_id: "1", artifact: { at: new Date(1), bytes: Buffer.from("b") } })], // prettier-ignore
    ["a Document", new Document({ pageContent: "x", metadata: { a: [1] } })],
    ["a Send", new Send("n", { v: new Map<unknown, unknown>([[{ k: 1 }, new Set([1, [2]])]]) })],
    ["keys that objects inherit", JSON.parse('{"__proto__":{"a":1},"constructor":1,"toString":null,"1":2,"0":[]}')],
    ["numbers of every kind", [0, -0, NaN, Infinity, 1n, null, undefined, true]],
  ])("S6.1 Values: %s", (_, value) => {
    expect(isSameAsRead(encode(value))).toBe(true);
  });

  test("S6.1 Values: arguments within arguments are read from the text", () => {
    const text = encode(new HumanMessage({ ...new HumanMessage("x") }));
    expect(madeFrom(text)).toBeUndefined();
  });

  test("S6.1 Values: property: any value: the same classes, keys, order and shared parts, and no object that is kept", () => {
    let made = 0;
    fc.assert(
      fc.property(anyValue, (value) => {
        if (isSameAsRead(encode(value))) made += 1;
      }),
      { numRuns: runs(1_000, 10_000) },
    );
    expect(made).toBeGreaterThan(300);
  });
});
