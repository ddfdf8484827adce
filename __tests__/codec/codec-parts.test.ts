import { HumanMessage } from "@langchain/core/messages";
import { chunkAddresses, chunkTag, decode, encode, encodePart, encodeParts, TurnsError } from "../../src/testing-internal";

const A = "A".repeat(43);
const B = "_-".repeat(21) + "b";

function failure(run: () => unknown): TurnsError {
  try {
    run();
  } catch (error) {
    if (TurnsError.is(error)) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("Values: parts", () => {
  it("Values: a list and a plain object are divided into the texts of their children", () => {
    const list = [new HumanMessage("a"), { b: 1 }, undefined];
    expect(encodeParts(list)).toEqual({ kind: "list", texts: list.map((item) => encode(item)) });
    expect(encodeParts({ "a b": [1], __proto__: null, 7: NaN })).toBeUndefined();
    expect(encodeParts({ "a b": [1], 7: NaN })).toEqual({ kind: "record", keys: ["7", "a b"], texts: [encode(NaN), "[1]"] });
    expect(encodeParts([])).toEqual({ kind: "list", texts: [] });
    expect(encodeParts({})).toEqual({ kind: "record", keys: [], texts: [] });
  });

  it.each([
    [[1, 2.5]],
    [Object.assign(["a"], { more: 1 })],
    [Array(2)],
    [{ "~": 1 }],
    [new Map()],
    [new HumanMessage("x")],
    ["text"],
    [null],
    [undefined],
  ])("Values: %j is not divided", (value) => {
    expect(encodeParts(value)).toBeUndefined();
  });

  it("Values: the parts of a value are refused with the path and the words of the whole", () => {
    class Custom {}
    const cyclic: any[] = ["a", { deep: {} }];
    cyclic[1].deep.list = cyclic;
    const record: any = { a: 1 };
    record.b = [record];
    for (const value of [[1, { f: () => 1 }], { a: { b: [new Custom()] } }, cyclic, record, { [Symbol("s")]: 1 }]) {
      const [whole, parts] = [failure(() => encode(value)), failure(() => encodeParts(value))];
      expect([parts.code, parts.message, parts.data]).toEqual([whole.code, whole.message, whole.data]);
    }
    const plain = { classInstances: "plain" } as const;
    expect(encodeParts([new Custom()], plain)).toEqual({ kind: "list", texts: ["{}"] });
  });

  it("Values: one element of a list is written as in the list", () => {
    const list = [0, { at: new Date(1) }, () => 1];
    expect(encodePart(list, 1)).toBe(encode(list[1]));
    expect(failure(() => encodePart(list, 2)).data).toEqual({ path: "[2]" });
    const cyclic: unknown[] = ["a"];
    cyclic.push({ cyclic });
    expect(failure(() => encodePart(cyclic, 1)).message).toBe(failure(() => encode(cyclic)).message);
  });
});

describe("Values: references", () => {
  const text = `{"list":[${chunkTag(A)},{"x":${chunkTag(B)}},${chunkTag(A)}],"map":{"~":"Map","v":[["k",${chunkTag(B)}]]}}`;

  it("Values: a reference is read as what it refers to, wherever it is", () => {
    const parts: Record<string, unknown> = { [A]: new Date(1), [B]: [undefined] };
    expect(decode(text, (address) => parts[address])).toStrictEqual({
      list: [new Date(1), { x: [undefined] }, new Date(1)],
      map: new Map([["k", [undefined]]]),
    });
    expect(decode(chunkTag(A), () => 5)).toBe(5);
    const message = encode(new HumanMessage("~1~")).replace('"~1~"', chunkTag(B));
    expect(decode(message, () => "far away")).toStrictEqual(new HumanMessage("far away"));
  });

  it("Values: the addresses of a text are found", () => {
    expect(chunkAddresses(text)).toEqual([A, B]);
    expect(chunkAddresses("no JSON")).toEqual([]);
  });

  it.each([
    `{"~":"chunk","v":"${A}"}`,
    `{"~":"chunk","v":"${A}x"}`,
    `{"~":"chunk","v":"${A.slice(1)}"}`,
    `{"~":"chunk","v":"${A.slice(1)}+"}`,
    '{"~":"chunk","v":1}',
    '{"~":"chunk"}',
  ])("Values: %s with nothing to resolve it is UNDECODABLE_VALUE", (reference) => {
    expect(failure(() => decode(reference)).code).toBe("UNDECODABLE_VALUE");
    if (!reference.includes(`"${A}"`)) expect(failure(() => decode(reference, () => 1)).code).toBe("UNDECODABLE_VALUE");
  });

  it("Values: data that looks like a reference is data", () => {
    const fake = { "~": "chunk", v: A };
    const resolve = (): never => {
      throw new Error("asked");
    };
    for (const value of [fake, [fake], new HumanMessage({ content: "", additional_kwargs: { fake } }), JSON.stringify(fake)]) {
      expect(decode(encode(value), resolve)).toStrictEqual(value);
      expect(chunkAddresses(encode(value))).toEqual([]);
    }
    const bare = Object.assign(Object.create(null) as object, fake);
    const error = Object.assign(new Error("x"), fake);
    const list = Object.assign([1], fake);
    expect(chunkAddresses(encode([bare, error, list]))).toEqual([]);
  });

  it("Values: an error of the resolver that is ours comes out unchanged", () => {
    const cause = new TurnsError("CHECKPOINT_CORRUPTED", { problem: "p", remedy: "r" });
    const resolve = (): never => {
      throw cause;
    };
    expect(failure(() => decode(chunkTag(A), resolve))).toBe(cause);
  });
});
