import { types } from "node:util";
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
import fc from "fast-check";

export type Arb = fc.Arbitrary<unknown>;

/** Names that mean something to someone, and texts that are hard on storage. */
const SPECIAL_TEXTS = [
  "~",
  "v",
  "p",
  "__proto__",
  "constructor",
  "toJSON",
  "lc",
  "lg_name",
  "0",
  "length",
  "",
  "a\0b",
  "\ud800",
  "🐝",
];

/** Strings with everything in them, lone surrogates and NUL too. */
export const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)), maxLength: 8 }),
  fc.constantFrom(...SPECIAL_TEXTS),
);

/** Texts whose JSON is about as long as one of the thresholds of `src/values`. */
export const sizedText = fc
  .tuple(fc.constantFrom(128, 160, 256, 512), fc.integer({ min: -16, max: 4 }), fc.constantFrom("x", "é", "\0"))
  .map(([threshold, more, unit]) => unit.repeat(Math.ceil((threshold + more) / (unit === "\0" ? 6 : 1))));

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

export const leaf: Arb = fc.oneof(
  { weight: 3, arbitrary: text },
  { weight: 2, arbitrary: sizedText },
  fc.double(),
  fc.integer(),
  fc.boolean(),
  fc.bigInt(),
  fc.constantFrom(null, undefined, NaN, 0, -0, Infinity, -Infinity),
  fc.date({ noInvalidDate: false }),
  fc.tuple(fc.constantFrom(...typedArrays), bytes).map(([type, b]) => new type(b.slice(0, b.length - (b.length % 8)).buffer)),
  bytes.map((b) => Buffer.from(b)),
  buffer,
  buffer.map((b) => new DataView(b)),
  fc.webUrl().map((url) => new URL(url)),
  fc.tuple(fc.constantFrom("a", "(?<x>[\\n/])", "", "\\p{L}+"), fc.constantFrom("", "g", "giu", "dsy"), fc.nat(9)).map(regExp),
);

function regExp([source, flags, at]: [string, string, number]): RegExp {
  const value = new RegExp(source, flags);
  value.lastIndex = at;
  return value;
}

export function record(values: Arb): fc.Arbitrary<Record<string, unknown>> {
  return fc.array(fc.tuple(text, values), { maxLength: 4 }).map((entries) => own({}, entries));
}

/** Sets own properties, those called `__proto__` too. */
export function own<T extends object>(target: T, entries: readonly (readonly [string, unknown])[]): T {
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
  const content = fc.oneof(text, sizedText, blocks) as fc.Arbitrary<never>;
  const optional = { requiredKeys: [] as never[], noNullPrototype: true };
  const base = fc.record(
    { id: text, name: text, content, additional_kwargs: record(child), response_metadata: record(child), extra: child },
    optional,
  );
  const call = fc.record(
    { name: text, args: record(child), id: text, type: fc.constant("tool_call") },
    { noNullPrototype: true },
  );
  const calls = fc.array(call, { maxLength: 2 });
  const ai = fc.record({ tool_calls: calls, usage_metadata: record(child), invalid_tool_calls: calls }, optional);
  const tool = fc.record({ artifact: child, status: fc.constantFrom("success", "error"), metadata: record(child) }, optional);
  const make = (type: new (fields: never) => object, required: object, fields: Arb = fc.constant({})): Arb =>
    fc
      .tuple(base, fields)
      .map(([common, more]) => new type({ content: "", ...required, ...common, ...(more as object) } as never));
  return fc.oneof(
    make(HumanMessage, {}),
    make(HumanMessageChunk, {}),
    make(AIMessage, { tool_calls: [] }, ai),
    make(AIMessageChunk, {}, ai),
    make(ToolMessage, { tool_call_id: "c" }, tool),
    make(ToolMessageChunk, { tool_call_id: "c" }, tool),
    make(SystemMessage, {}),
    make(SystemMessageChunk, {}),
    make(FunctionMessage, { name: "f" }),
    make(FunctionMessageChunk, { name: "f" }),
    make(ChatMessage, { role: "r" }),
    make(ChatMessageChunk, { role: "r" }),
    text.map((id) => new RemoveMessage({ id })),
    record(child).map((metadata) => new Document({ pageContent: "p", metadata })),
    fc.tuple(text, blocks).map(([name, list]) => new AIMessage({ contentBlocks: list, name } as never)),
  );
}

/** The constructor of Send copies plain arguments key by key, which turns a key `__proto__` into a prototype. */
function langGraph(child: Arb): Arb {
  const send = fc.tuple(text, child, fc.option(fc.integer({ min: 1 })));
  const goto = fc.constantFrom("a", "ab").map((names) => (names === "a" ? names : [...names]));
  const command = fc.record({ update: record(child), goto, resume: child }, { requiredKeys: [], noNullPrototype: true });
  return fc.oneof(
    send.map(([node, args, timeout]) => Object.assign(new Send(node, null, timeout === null ? {} : { timeout }), { args })),
    command.map((args) => new Command(args as never)),
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

/** Any nesting of all that can be saved. */
export const anyValue: Arb = fc.letrec<{ any: unknown }>((tie) => {
  const child = tie("any");
  return {
    any: fc.oneof(
      { depthSize: "small", maxDepth: 3, withCrossShrink: true },
      { weight: 5, arbitrary: leaf },
      fc.array(child, { maxLength: 4 }),
      record(child),
      fc.array(fc.tuple(child, child), { maxLength: 3 }).map((entries) => new Map(entries)),
      fc.array(child, { maxLength: 3 }).map((items) => new Set(items)),
      { weight: 2, arbitrary: messages(child) },
      langGraph(child),
      bare(child),
      sparse(child),
      errors(child),
    ),
  };
}).any;

/** Lists of some length with elements of every size, some of them the same object twice. */
export const longList: fc.Arbitrary<unknown[]> = fc
  .tuple(fc.array(anyValue, { minLength: 1, maxLength: 6 }), fc.array(fc.nat(5), { maxLength: 12 }))
  .map(([items, order]) => [...items, ...order.map((at) => items[at % items.length])]);

/** What a channel may hold: any value, a long list, a record of larger entries, and a list of them. */
export const channelValue: Arb = fc.oneof(
  anyValue,
  longList,
  record(fc.oneof(sizedText, anyValue)),
  fc.array(record(fc.oneof(sizedText, longList)), { maxLength: 3 }),
);

/** Everything a program could see of a value, as text, apart from which references are shared. It knows nothing of the codec. */
export function fingerprint(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value !== "object" || value === null) return Object.is(value, -0) ? "-0" : `${typeof value} ${String(value)}`;
  const prototype = Object.getPrototypeOf(value) as object | null;
  const name = prototype === null ? "null" : (prototype.constructor as { name: string }).name;
  const inside = inner(value).map(([label, part]) => `${label}=${fingerprint(part)}`);
  const outside = parts(value).map(
    ([key, part]) => `${typeof key === "symbol" ? String(key) : JSON.stringify(key)}:${fingerprint(part)}`,
  );
  return `${name}<${content(value)}>(${inside.join()}){${outside.join()}}`;
}

/** What is in a value without being a property. */
function content(a: object): string {
  if (types.isAnyArrayBuffer(a)) return Buffer.from(a).toString("hex");
  if (ArrayBuffer.isView(a)) return Buffer.from(a.buffer, a.byteOffset, a.byteLength).toString("hex");
  if (types.isDate(a)) return String(Date.prototype.getTime.call(a));
  if (types.isRegExp(a)) return `${String(a)} ${a.lastIndex}`;
  if (a instanceof URL) return a.href;
  if (types.isNativeError(a)) return `error ${String(a.stack)}`;
  return Array.isArray(a) ? `list ${a.length}` : "";
}

function inner(a: object): [string, unknown][] {
  if (types.isMap(a)) {
    const entries = [...(Map.prototype.entries.call(a) as Iterable<[unknown, unknown]>)];
    return entries.flatMap(([key, item]): [string, unknown][] => [
      ["key", key],
      ["item", item],
    ]);
  }
  return types.isSet(a) ? [...(Set.prototype.values.call(a) as Iterable<unknown>)].map((item) => ["item", item]) : [];
}

/** Own properties with their keys in order, whether enumerable, and symbols too. */
function parts(a: object): [string | symbol, unknown][] {
  if (ArrayBuffer.isView(a)) return [];
  const found = Reflect.ownKeys(a)
    .filter((key) => key !== "stack")
    .map((key): [string | symbol, unknown] => {
      const { value, enumerable } = Object.getOwnPropertyDescriptor(a, key)!;
      return [typeof key === "symbol" ? key : `${key}${enumerable === true ? "" : " (hidden)"}`, value];
    });
  return types.isNativeError(a) ? found.sort((x, y) => String(x[0]).localeCompare(String(y[0]))) : found;
}

/** All objects that can be reached from a value. */
export function objectsIn(root: unknown, found = new Set<object>()): Set<object> {
  if (typeof root !== "object" || root === null || found.has(root)) return found;
  found.add(root);
  // Buffers have their bytes in a pool that belongs to nobody.
  if (ArrayBuffer.isView(root) && !Buffer.isBuffer(root)) objectsIn(root.buffer, found);
  for (const [, part] of [...inner(root), ...parts(root)]) objectsIn(part, found);
  return found;
}
