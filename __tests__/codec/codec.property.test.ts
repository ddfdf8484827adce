import { types } from "node:util";
import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  FunctionMessage,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";
import { Command, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import {
  chunkAddresses,
  copyOf,
  decode,
  decodeOfficial,
  encode,
  encodePart,
  encodeParts,
  isElementwise,
  NO_COPY,
  sameAs,
  TurnsError,
} from "../../src/testing-internal";
import { runs } from "../support/lane";

type Arb = fc.Arbitrary<unknown>;

/** Strings with everything in them, lone surrogates too, and the names that mean something to someone. */
const text = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)) }),
  fc.constantFrom(
    "~",
    "v",
    "p",
    "__proto__",
    "constructor",
    "toString",
    "toJSON",
    "lc",
    "lg_name",
    "__lc_escaped__",
    "0",
    "length",
    "",
  ),
);

const typedArrays = [
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
] as const;
const bytes = fc.uint8Array({ maxLength: 24 });
const buffer = bytes.map((b) => b.slice().buffer);

const leaf: Arb = fc.oneof(
  text,
  fc.double(),
  fc.integer(),
  fc.boolean(),
  fc.bigInt(),
  fc.constantFrom(null, undefined, NaN, -0, Infinity, -Infinity),
  fc.date({ noInvalidDate: false }),
  fc.tuple(fc.constantFrom(...typedArrays), bytes).map(([type, b]) => new type(b.slice(0, b.length - (b.length % 8)).buffer)),
  bytes.map((b) => Buffer.from(b)),
  buffer,
  buffer.map((b) => new DataView(b)),
  fc.webUrl().map((url) => new URL(url)),
  fc
    .tuple(fc.constantFrom("a", "(?<x>[\\n/])", "", "\\p{L}+"), fc.constantFrom("", "g", "giu", "dsy"), fc.nat(9))
    .map(([source, flags, at]) => {
      const value = new RegExp(source, flags);
      value.lastIndex = at;
      return value;
    }),
);

function record(values: Arb): fc.Arbitrary<Record<string, unknown>> {
  return fc.array(fc.tuple(text, values), { maxLength: 4 }).map((entries) => own({}, entries));
}

function own<T extends object>(target: T, entries: readonly (readonly [string, unknown])[]): T {
  for (const [key, value] of entries) {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  }
  return target;
}

const errorTypes = [Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError];

function errors(child: Arb): Arb {
  const plain = fc.tuple(
    fc.constantFrom(...errorTypes),
    text,
    child,
    fc.array(fc.tuple(fc.constantFrom("code", "message2", "x"), child), { maxLength: 2 }),
  );
  return fc.oneof(
    plain.map(([type, message, cause, entries]) => own(new type(message, { cause }), entries)),
    fc.tuple(fc.array(child, { maxLength: 2 }), text).map(([all, message]) => new AggregateError(all, message)),
  );
}

function messages(child: Arb): Arb {
  const blocks = fc.array(record(child), { maxLength: 2 });
  const content = fc.oneof(text, blocks) as fc.Arbitrary<never>;
  const optional = { requiredKeys: [] as never[], noNullPrototype: true };
  const base = fc.record(
    { id: text, name: text, content, additional_kwargs: record(child), response_metadata: record(child), extra: child },
    optional,
  );
  const calls = fc.array(
    fc.record({ name: text, args: record(child), id: text, type: fc.constant("tool_call") }, { noNullPrototype: true }),
    {
      maxLength: 2,
    },
  );
  const ai = fc.record({ tool_calls: calls, usage_metadata: record(child), invalid_tool_calls: calls }, optional);
  const tool = fc.record({ artifact: child, status: fc.constantFrom("success", "error"), metadata: record(child) }, optional);
  const make = (type: new (fields: never) => object, fields: Arb, required: () => object): Arb =>
    fc
      .tuple(base, fields)
      .map(([common, more]) => new type({ content: "", ...common, ...(more as object), ...required() } as never));
  const none = fc.constant({});
  const made = fc.oneof(
    make(HumanMessage, none, () => ({})),
    make(HumanMessageChunk, none, () => ({})),
    make(AIMessage, ai, () => ({ tool_calls: [] })),
    make(
      AIMessage,
      ai.map((fields) => ({ tool_calls: [], ...fields })),
      () => ({}),
    ),
    make(AIMessageChunk, ai, () => ({})),
    make(ToolMessage, tool, () => ({ tool_call_id: "c" })),
    make(ToolMessageChunk, tool, () => ({ tool_call_id: "c" })),
    make(SystemMessage, none, () => ({})),
    make(FunctionMessage, none, () => ({ name: "f" })),
    make(ChatMessage, none, () => ({ role: "r" })),
    text.map((id) => new RemoveMessage({ id })),
    record(child).map((metadata) => new Document({ pageContent: "p", metadata })),
    fc.tuple(text, blocks).map(([name, list]) => new AIMessage({ contentBlocks: list, name } as never)),
  );
  return made;
}

/** The constructor of Send copies plain arguments key by key, which turns a key `__proto__` into a prototype. */
function langGraph(child: Arb): Arb {
  return fc.oneof(
    fc
      .tuple(text, child, fc.option(fc.integer({ min: 1 })))
      .map(([node, args, timeout]) => Object.assign(new Send(node, null, timeout === null ? {} : { timeout }), { args })),
    fc
      .record(
        {
          update: record(child),
          goto: fc.constantFrom("a", "ab").map((names) => (names === "a" ? names : [...names])),
          resume: child,
        },
        { requiredKeys: [], noNullPrototype: true },
      )
      .map((args) => new Command(args as never)),
    child.map((value) => new Overwrite(value)),
    child.map((value) => new DeltaSnapshot(value)),
  );
}

const sparse = (child: Arb): Arb =>
  fc.tuple(fc.array(fc.tuple(fc.nat(9), child), { maxLength: 3 }), fc.nat(12)).map(([entries, length]) => {
    const list: unknown[] = [];
    for (const [at, item] of entries) list[at] = item;
    list.length = Math.max(list.length, length);
    return list;
  });
const bare = (child: Arb): Arb => record(child).map((source) => own(Object.create(null) as object, Object.entries(source)));

/** Values made of these leaves, and of what more may contain them. */
function nested(leaves: Arb, ...more: ((child: Arb) => Arb)[]): Arb {
  return fc.letrec<{ any: unknown }>((tie) => {
    const child = tie("any");
    return {
      any: fc.oneof(
        { depthSize: "small", withCrossShrink: true },
        leaves,
        fc.array(child, { maxLength: 4 }),
        record(child),
        fc.array(fc.tuple(child, child), { maxLength: 3 }).map((entries) => new Map(entries)),
        fc.array(child, { maxLength: 3 }).map((items) => new Set(items)),
        messages(child),
        langGraph(child),
        ...more.map((make) => make(child)),
      ),
    };
  }).any;
}

const value = nested(leaf, bare, sparse, errors);

/** Where two values differ in anything a program could see, apart from which references are shared. */
function difference(a: unknown, b: unknown, path = "$"): string | undefined {
  if (typeof a !== "object" || a === null || typeof b !== "object" || b === null) return Object.is(a, b) ? undefined : path;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return `${path}: prototype`;
  if (content(a) !== content(b)) return `${path}: content`;
  for (const [x, y] of [
    [inner(a), inner(b)],
    [parts(a), parts(b)],
  ] as const) {
    if (x.length !== y.length) return `${path}: number of parts`;
    for (let i = 0; i < x.length; i++) {
      const [p, q] = [x[i]!, y[i]!];
      if (p[0] !== q[0]) return `${path}: key ${String(p[0])} or ${String(q[0])}`;
      const found = difference(p[1], q[1], `${path}.${String(p[0])}`);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

/** What is in a value without being a property. */
function content(a: object): string {
  if (types.isAnyArrayBuffer(a)) return Buffer.from(a).toString("hex");
  if (ArrayBuffer.isView(a)) return Buffer.from(a.buffer, a.byteOffset, a.byteLength).toString("hex");
  if (types.isDate(a)) return String(a.getTime());
  if (types.isRegExp(a)) return `${String(a)} ${a.lastIndex}`;
  if (a instanceof URL) return a.href;
  if (types.isNativeError(a)) return `error ${String(a.stack)}`;
  return Array.isArray(a) ? `list ${a.length}` : "";
}

function inner(a: object): [unknown, unknown][] {
  if (types.isMap(a))
    return [...Map.prototype.entries.call(a)].flatMap(([key, item], at) => [
      [`key ${at}`, key] as [unknown, unknown],
      [`item ${at}`, item] as [unknown, unknown],
    ]);
  return types.isSet(a) ? [...Set.prototype.values.call(a)].map((item, at) => [`item ${at}`, item]) : [];
}

/** Own properties with their keys in order, whether enumerable, and symbols too. */
function parts(a: object): [unknown, unknown][] {
  if (ArrayBuffer.isView(a)) return [];
  return Reflect.ownKeys(a)
    .filter((key) => key !== "stack")
    .map((key): [unknown, unknown, number] => {
      const { value, enumerable } = Object.getOwnPropertyDescriptor(a, key)!;
      return [typeof key === "symbol" ? key : `${key}${enumerable === true ? "" : " (hidden)"}`, value, 0];
    })
    .sort((x, y) => (types.isNativeError(a) ? String(x[0]).localeCompare(String(y[0])) : 0))
    .map(([key, item]) => [key, item]);
}

function outcome(run: () => unknown): void {
  const before = Reflect.ownKeys(Object.prototype).length;
  try {
    run();
  } catch (error) {
    if (!TurnsError.is(error, "UNDECODABLE_VALUE")) throw error;
  }
  expect(Reflect.ownKeys(Object.prototype)).toHaveLength(before);
}

beforeAll(() => {
  // Messages made with raw tool calls advise to upgrade; what is tested is not the advice.
  console.warn = () => undefined;
});

describe("Values: for every value", () => {
  it("Values: what is saved is restored the same in type and content", () => {
    fc.assert(
      fc.property(value, (original) => {
        const saved = encode(original);
        expect(difference(decode(saved), original)).toBeUndefined();
        expect(encode(decode(saved))).toBe(saved);
      }),
      { numRuns: runs(250, 1500) },
    );
  });

  it("Values: the text of a list is made of the texts of its elements, and so is the list", () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 5 }), (list) => {
        const texts = list.map((item) => encode(item));
        expect(isElementwise(list)).toBe(true);
        expect(encode(list)).toBe(`[${texts.join(",")}]`);
        expect(
          difference(
            texts.map((saved) => decode(saved)),
            list,
          ),
        ).toBeUndefined();
      }),
      { numRuns: runs(50, 300) },
    );
  });

  it("Values: plain JSON is written as JSON.stringify writes it", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (plain) => {
        fc.pre(!JSON.stringify(plain).includes('"~":') && !hasMinusZero(plain));
        expect(encode(plain)).toBe(JSON.stringify(plain));
      }),
      { numRuns: runs(83, 500) },
    );
  });
});

function hasMinusZero(plain: unknown): boolean {
  if (typeof plain === "object" && plain !== null) return Object.values(plain).some(hasMinusZero);
  return Object.is(plain, -0);
}

describe("Values: for every text", () => {
  const tags = fc.constantFrom("Map", "Set", "Date", "Array", "Error", "AggregateError", "AIMessage", "AIMessageChunk", "ToolMessage", "Send", "Command", "Document", "RegExp", "URL", "Uint8Array", "Float64Array", "Buffer", "DataView", "object", "null-prototype", "bigint", "number", "undefined", "nope"); // prettier-ignore
  const ids = fc.constantFrom("Set", "Map", "RegExp", "Error", "Uint8Array", "langchain_core", "messages", "documents", "AIMessage", "ToolMessage", "Document", "__proto__"); // prettier-ignore

  const node: Arb = fc.letrec<{ any: unknown }>((tie) => {
    const child = tie("any");
    const keys = fc.oneof(
      text,
      fc.constantFrom("content", "tool_calls", "contentBlocks", "additional_kwargs", "lc_kwargs", "message", "stack"),
    );
    const fields = fc.array(fc.tuple(keys, child), { maxLength: 4 }).map((entries) => own({}, entries));
    const contents = fc.oneof(fields, fc.array(fc.tuple(child, child), { maxLength: 2 }), child);
    return {
      any: fc.oneof(
        { depthSize: "small" },
        fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null), tags),
        fc.array(child, { maxLength: 3 }),
        fields,
        fc.record({ "~": fc.oneof(tags, child), v: contents, p: fields, a: fc.array(fc.record({ k: fc.array(keys), o: fields })), d: fc.array(keys), n: fc.nat() }, { requiredKeys: ["~", "v"] }), // prettier-ignore
        fc.record({ lc: fc.constantFrom(1, 2), type: fc.constantFrom("constructor", "undefined", "delta_snapshot"), id: fc.array(ids, { maxLength: 3 }), args: fc.array(contents, { maxLength: 2 }), kwargs: fields, value: child }, { requiredKeys: ["lc", "type"] }), // prettier-ignore
      ),
    };
  }).any;

  it("Values: any string is read or is UNDECODABLE_VALUE", () => {
    fc.assert(
      fc.property(text, (anything) => {
        outcome(() => decode(anything));
        outcome(() => decodeOfficial("json", anything));
        outcome(() => decodeOfficial("json", new TextEncoder().encode(anything)));
      }),
      { numRuns: runs(167, 1000) },
    );
  });

  it("Values: any JSON, with markers good and bad, is read or is UNDECODABLE_VALUE", () => {
    fc.assert(
      fc.property(node, (anything) => {
        outcome(() => decode(JSON.stringify(anything)));
        outcome(() => decodeOfficial("json", JSON.stringify(anything)));
      }),
      { numRuns: runs(500, 3000) },
    );
  });

  it("Values: a saved text that was cut or changed is read or is UNDECODABLE_VALUE", () => {
    fc.assert(
      fc.property(value, fc.nat(), fc.string({ maxLength: 2 }), (original, at, junk) => {
        const saved = encode(original);
        const place = at % (saved.length + 1);
        outcome(() => decode(saved.slice(0, place)));
        outcome(() => decode(saved.slice(0, place) + junk + saved.slice(place + 1)));
      }),
      { numRuns: runs(167, 1000) },
    );
  });
});

describe("Values: for every copy", () => {
  const leaves: Arb = fc.oneof(
    text,
    fc.double(),
    fc.integer(),
    fc.boolean(),
    fc.bigInt(),
    fc.constantFrom(null, undefined, NaN, -0, 0),
    fc.date({ noInvalidDate: false }),
    fc
      .tuple(fc.constantFrom(...typedArrays), fc.uint8Array({ minLength: 8, maxLength: 24 }))
      .map(([type, b]) => new type(b.slice(0, b.length - (b.length % 8)).buffer)),
  );
  const plain = nested(leaves);
  const change = fc.record({ at: fc.nat(), how: fc.nat(), key: fc.nat(), part: fc.oneof(leaves, plain) });

  it("Values: a copy is what the codec would give back", () => {
    let copied = 0;
    fc.assert(
      fc.property(plain, (original) => {
        const saved = encode(original);
        const copy = copyOf(original);
        if (copy === NO_COPY) return;
        copied++;
        expect(difference(copy, decode(saved))).toBeUndefined();
        expect(sharing(copy)).toEqual(sharing(decode(saved)));
        expect(difference(copyOf(copy), copy)).toBeUndefined();
        expect(encode(copy)).toBe(saved);
      }),
      { numRuns: runs(250, 1500) },
    );
    expect(copied).toBeGreaterThan(runs(160, 1000));
  });

  it("Values: nothing that is copied exactly is refused once it was decoded", () => {
    fc.assert(
      fc.property(plain, (original) => {
        const back = decode(encode(original));
        fc.pre(copyOf(original) !== NO_COPY);
        expect(sameAs(copyOf(original), original)).toBe(true);
        expect(sameAs(copyOf(back), back)).toBe(true);
      }),
      { numRuns: runs(83, 500) },
    );
  });

  it("Values: a copy is the same as a changed value only if the text is the same, and stays what it was", () => {
    let different = 0;
    fc.assert(
      fc.property(plain, fc.array(change, { minLength: 1, maxLength: 2 }), (original, changes) => {
        const saved = encode(original);
        const copy = copyOf(original);
        fc.pre(copy !== NO_COPY);
        const clone = copyOf(copy);
        for (const target of [original, clone]) {
          for (const { at, how, key, part } of changes) mutate(target, at, how, key, part);
          const after = textOr(target);
          if (after !== saved) different++;
          if (sameAs(copy, target)) expect(after).toBe(saved);
          expect(encode(copy)).toBe(saved);
        }
      }),
      // The values are changed, so there is nothing left to shrink.
      { numRuns: runs(1000, 6000), endOnFailure: true },
    );
    expect(different).toBeGreaterThan(runs(500, 3000));
  });
});

function textOr(target: unknown): string | undefined {
  try {
    return encode(target);
  } catch {
    return undefined;
  }
}

/** For every object, the number of the place where it was met first: equal lists mean that the same references are shared. */
function sharing(root: unknown, seen = new Map<unknown, number>(), found: number[] = []): number[] {
  if (typeof root !== "object" || root === null) return found;
  found.push(seen.get(root) ?? seen.size);
  if (seen.has(root)) return found;
  seen.set(root, seen.size);
  for (const [, part] of [...inner(root), ...parts(root)]) sharing(part, seen, found);
  return found;
}

function objectsIn(root: unknown, found = new Set<object>()): Set<object> {
  if (typeof root !== "object" || root === null || found.has(root)) return found;
  found.add(root);
  for (const [, part] of [...inner(root), ...parts(root)]) objectsIn(part, found);
  return found;
}

/** Changes one of the objects in a value in one of the ways a program could. */
function mutate(root: unknown, at: number, how: number, nth: number, part: unknown): void {
  const owners = [...objectsIn(root)];
  if (owners.length === 0) return;
  const owner: any = owners[at % owners.length];
  if (ArrayBuffer.isView(owner)) return void new Uint8Array(owner.buffer).set([how], nth % owner.byteLength);
  if (types.isDate(owner) && how % 3 > 0) return void Date.prototype.setTime.call(owner, nth);
  if (types.isMap(owner) && how % 3 > 0)
    return void Map.prototype.set.call(owner, nth % 2 ? part : [...Map.prototype.keys.call(owner)][0], part);
  if (types.isSet(owner) && how % 3 > 0)
    return void (nth % 2 ? Set.prototype.add.call(owner, part) : Set.prototype.clear.call(owner));
  const keys = Object.keys(owner);
  const key = keys[nth % Math.max(keys.length, 1)] ?? "added";
  const old = owner[key];
  const define = (name: string | symbol, value: unknown, enumerable = true): void =>
    void Object.defineProperty(owner, name, { value, enumerable, writable: true, configurable: true });
  switch (how % 14) {
    case 0:
      return define(key, part);
    case 1:
      return Array.isArray(owner) && key === "length" ? undefined : void delete owner[key];
    case 2:
      delete owner[key];
      return define(key, old);
    case 3:
      return define("added", part);
    case 4:
      return define(Symbol.for("langchain.message"), true);
    case 5:
      return define(Symbol("added"), true, nth % 2 === 0);
    case 6:
      return define(key, old, false);
    case 7:
      // Equal, but no longer the same object as a property or argument of that name.
      return define(key, copyOf(old) === NO_COPY ? old : copyOf(old));
    case 8:
      return void Object.setPrototypeOf(owner, nth % 2 ? null : AIMessage.prototype);
    case 9:
      return Array.isArray(owner) ? void Array.prototype.push.call(owner, part) : define("content", part);
    case 10:
      return define(["id", "name", "lc_kwargs", "contentBlocks", "type", "extra", "~"][nth % 7]!, part, how % 4 > 0);
    case 11:
      return define(key, typeof old === "object" && old !== null && !Array.isArray(old) ? { ...old } : [old]);
    case 12:
      return define(key, [undefined, null, "", {}, [], 0, -0, "x"][nth % 8]);
    default:
      return define(key, typeof old === "number" ? -old : () => part);
  }
}

describe("Values: for every division into parts", () => {
  it("Values: the texts of the parts make up the text of the whole", () => {
    fc.assert(
      fc.property(value, (whole) => {
        const divided = encodeParts(whole);
        if (divided === undefined) return;
        const texts =
          divided.kind === "list"
            ? divided.texts
            : divided.texts.map((part, at) => `${JSON.stringify(divided.keys[at])}:${part}`);
        const joined = texts.join(",");
        expect(divided.kind === "list" ? `[${joined}]` : `{${joined}}`).toBe(encode(whole));
        if (Array.isArray(whole)) expect(whole.map((_, at) => encodePart(whole, at))).toEqual(divided.texts);
      }),
      { numRuns: runs(83, 500) },
    );
  });

  it("Values: no data is taken for a reference", () => {
    const address = "A".repeat(43);
    const tempting = fc.oneof(
      fc.constant({ "~": "chunk", v: address }),
      fc.constant(`{"~":"chunk","v":"${address}"}`),
      fc.constant("chunk"),
      leaf,
    );
    const lures = nested(tempting, bare, sparse, errors);
    fc.assert(
      fc.property(lures, (original) => {
        const saved = encode(original);
        expect(chunkAddresses(saved)).toEqual([]);
        expect(difference(decode(saved), original)).toBeUndefined();
      }),
      { numRuns: runs(83, 500) },
    );
  });
});
