import { TurnSaver } from "langgraph-checkpoint-turns";
import { quiet } from "../support/s1-tools";
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
