import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Command, Send } from "@langchain/langgraph";
import { ADOPTING, decode, encode, EXACT, matches, PrivateCopy, Tracer } from "../../src/testing-internal";

const call = { name: "search", args: { q: ["x", 1n] }, id: "1", type: "tool_call" as const };
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
