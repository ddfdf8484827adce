import { createSecretKey } from "node:crypto";
import { inspect, isDeepStrictEqual, types } from "node:util";
import { createContext, runInContext } from "node:vm";
import { AIMessage } from "@langchain/core/messages";
import fc from "fast-check";
import { copyOf, decode, encode, matches, NO_COPY, sameAs, Tracer, TurnsError } from "../../src/testing-internal";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { TurnSaver } from "../../src/index";
import { quietLogger } from "../support/eff-world";
import { longTest } from "../support/lane-test";

interface Memory {
  readonly buffer: ArrayBuffer;
}
const { Memory } = (globalThis as unknown as { WebAssembly: { Memory: new (size: { initial: number }) => Memory } }).WebAssembly;
const realm = createContext({});
const foreign = (code: string): unknown => runInContext(code, realm);
const ResizableBuffer = ArrayBuffer as unknown as new (length: number, options: { maxByteLength: number }) => ArrayBuffer;
const GrowableBuffer = SharedArrayBuffer as unknown as new (
  length: number,
  options: { maxByteLength: number },
) => SharedArrayBuffer;

function argumentsOf(..._: unknown[]): IArguments {
  // eslint-disable-next-line prefer-rest-params
  return arguments;
}

function filled<T extends Uint8Array | DataView>(view: T): T {
  new Uint8Array(view.buffer, view.byteOffset, view.byteLength).forEach((_, at, bytes) => (bytes[at] = at + 7));
  return view;
}

function outOfBounds(): Uint8Array {
  const buffer = new ResizableBuffer(8, { maxByteLength: 16 });
  const view = new Uint8Array(buffer, 4, 4);
  (buffer as unknown as { resize(length: number): void }).resize(2);
  return view;
}

/** Every kind of value that a program can have and the language or Node makes. Whether it can be saved is what the tests find out. */
const KINDS: readonly (readonly [string, () => unknown])[] = [
  ["undefined", () => undefined],
  ["null", () => null],
  ["minus zero", () => -0],
  ["bigint", () => -(2n ** 70n)],
  ["symbol", () => Symbol.for("s")],
  ["function", () => () => 1],
  ["function with properties", () => Object.assign(() => 1, { a: 1 })],
  ["class", () => class A {}],
  ["record", () => ({ a: 1, b: [undefined] })],
  ["empty record", () => ({})],
  ["record with index keys", () => ({ 0: 1, 1: 2 })],
  ["null prototype", () => Object.assign(Object.create(null) as object, { a: 1 })],
  ["inherited properties", () => Object.create({ inherited: 1 })],
  ["class instance", () => new (class Point { x = 1; })()], // prettier-ignore
  ["instance of a class that extends null", () => Object.create(Object.create(null) as object)],
  ["list", () => [1, "a"]],
  ["sparse list", () => [, 1, , 2, ,]], // eslint-disable-line no-sparse-arrays
  ["list with properties", () => Object.assign([1, 2], { more: 1 })],
  ["list with an element that isn't enumerable", () => Object.defineProperty([1, 2], 0, { value: 3, enumerable: false })],
  ["match", () => /(?<letter>b)/.exec("abc")],
  ["arguments", () => argumentsOf(1, 2)],
  ["arguments without elements", () => argumentsOf()],
  ["arguments of another realm", () => foreign("(function () { return arguments; })(1, 2)")],
  ["boxed number", () => Object(1)],
  ["boxed string", () => Object("text")],
  ["boxed boolean", () => Object(false)],
  ["boxed bigint", () => Object(1n)],
  ["boxed symbol", () => Object(Symbol.iterator)],
  ["Date", () => new Date(5)],
  ["invalid Date", () => new Date(NaN)],
  ["RegExp", () => /b/gu],
  ["RegExp with lastIndex", () => Object.assign(/b/gu, { lastIndex: 3 })],
  ["RegExp with an odd lastIndex", () => Object.assign(/b/gu, { lastIndex: "2" })],
  ["Map", () => new Map<unknown, unknown>([[1, 2]])],
  ["Set", () => new Set([1])],
  ["Map of a subclass", () => new (class M extends Map<unknown, unknown> {})([[1, 2]])],
  ["Set of a subclass", () => new (class S extends Set<unknown> {})([1])],
  ["Date of a subclass", () => new (class D extends Date {})(1)],
  ["list of a subclass", () => class L extends Array<number> {}.from([1])],
  ["typed array of a subclass", () => new (class U extends Uint8Array {})(2)],
  ["WeakMap", () => new WeakMap()],
  ["WeakSet", () => new WeakSet()],
  ["WeakRef", () => new WeakRef({})],
  ["FinalizationRegistry", () => new FinalizationRegistry(() => undefined)],
  ["Promise", () => Promise.resolve(1)],
  ["generator", () => (function* () { yield 1; })()], // prettier-ignore
  ["async generator", () => (async function* () { yield 1; })()], // prettier-ignore
  ["iterator of a list", () => [1].values()],
  ["iterator of a text", () => "text"[Symbol.iterator]()],
  ["iterator of a Map", () => new Map([[1, 2]]).entries()],
  ["iterator of matches", () => "text".matchAll(/t/g)],
  ["Error", () => Object.assign(new TypeError("what", { cause: 1 }), { code: 7 })],
  ["AggregateError", () => new AggregateError([1], "all")],
  ["Uint8Array", () => filled(new Uint8Array(3))],
  ["typed array at an offset", () => filled(new Uint8Array(8)).subarray(2, 5)],
  ["empty typed array", () => new Float64Array()],
  ["Float32Array with NaN", () => new Float32Array([NaN, -0, 1])],
  ["BigInt64Array", () => new BigInt64Array([-5n])],
  ["DataView at an offset", () => new DataView(filled(new Uint8Array(8)).buffer, 2, 3)],
  ["Buffer", () => Buffer.from("text")],
  ["slice of a Buffer", () => Buffer.from("some text").subarray(2, 5)],
  ["ArrayBuffer", () => filled(new Uint8Array(3)).buffer],
  ["memory of WebAssembly in Jest's own realm", () => new Memory({ initial: 0 }).buffer],
  ["SharedArrayBuffer", () => new SharedArrayBuffer(4)],
  ["typed array on a SharedArrayBuffer", () => filled(new Uint8Array(new SharedArrayBuffer(4)))],
  ["empty typed array on a SharedArrayBuffer", () => new Uint8Array(new SharedArrayBuffer(0))],
  ["DataView on a SharedArrayBuffer", () => filled(new DataView(new SharedArrayBuffer(4)))],
  ["Buffer on a SharedArrayBuffer", () => filled(Buffer.from(new SharedArrayBuffer(4)))],
  ["typed array on a SharedArrayBuffer of another realm", () => foreign("new Uint8Array(new SharedArrayBuffer(3))")],
  ["typed array on a growable SharedArrayBuffer", () => filled(new Uint8Array(new GrowableBuffer(4, { maxByteLength: 8 })))],
  ["resizable ArrayBuffer", () => new ResizableBuffer(4, { maxByteLength: 8 })],
  ["typed array on a resizable ArrayBuffer", () => filled(new Uint8Array(new ResizableBuffer(4, { maxByteLength: 8 })))],
  ["DataView on a resizable ArrayBuffer", () => filled(new DataView(new ResizableBuffer(4, { maxByteLength: 8 }), 1))],
  ["typed array out of its buffer's bounds", outOfBounds],
  ["URL", () => new URL("https://example.com/a?b#c")],
  ["URLSearchParams", () => new URLSearchParams("a=1")],
  ["Headers", () => new Headers({ a: "1" })],
  ["Blob", () => new Blob(["text"])],
  ["AbortSignal", () => AbortSignal.abort()],
  ["KeyObject", () => createSecretKey(Buffer.from("secret"))],
  ["Intl.NumberFormat", () => new Intl.NumberFormat()],
  ["namespace Math", () => Math],
  ["namespace Reflect", () => Reflect],
  ["globalThis", () => globalThis],
  ["Date of another realm", () => foreign("new Date(5)")],
  ["Map of another realm", () => foreign("new Map([[1, 2]])")],
  ["typed array of another realm", () => foreign("new Uint8Array([1, 2])")],
  ["record of another realm", () => foreign("({ a: 1 })")],
  ["list of another realm", () => foreign("[1, 2]")],
];

/** What programs do to such values besides making them. */
const TWISTS: readonly (readonly [string, (value: object) => object])[] = [
  ["as it is", (value) => value],
  ["with a property", (value) => Object.assign(value, { added: [1] })],
  ["with a symbol", (value) => Object.assign(value, { [Symbol("added")]: 1 })],
  ["frozen", (value) => (ArrayBuffer.isView(value) ? value : Object.freeze(value))],
  ["behind a proxy", (value) => new Proxy(value, {})],
  ...[Object, Array, Map, Date, RegExp, Error, Promise, Uint8Array, Uint16Array, Buffer, ArrayBuffer].map(
    (type): readonly [string, (value: object) => object] => [
      `with the prototype of ${type.name}`,
      (value) => Object.setPrototypeOf(value, type.prototype as object) as object,
    ],
  ),
  ["without prototype", (value) => Object.setPrototypeOf(value, null) as object],
];

/** What nobody can see once the prototype is another one, and errors, which come back as errors whatever class they claim. */
const BEYOND_RECOGNITION = /class|URL|Headers|Blob|AbortSignal|KeyObject|Intl|iterator of|WeakRef|Finalization|Error/;

/** Places that a value can have in a state: what holds it, and the path that an error names. */
const PLACES: readonly (readonly [string, (value: unknown) => unknown])[] = [
  ["channel", (value) => ({ channel: value })],
  ["list[1]", (value) => ({ list: ["first", value] })],
  ["map<key>", (value) => ({ map: new Map([["key", value]]) })],
  ["set<item 0>", (value) => ({ set: new Set([value]) })],
  ["error.cause", (value) => ({ error: new Error("what", { cause: value }) })],
  ["message.additional_kwargs.value", (value) => ({ message: new AIMessage({ content: "", additional_kwargs: { value } }) })],
];

const isRefused = (error: unknown): error is TurnsError => TurnsError.is(error, "UNSERIALIZABLE_VALUE");

/** All that Node can show of a value, its hidden content and the kind of memory included. */
function seen(value: unknown): string {
  const shown = inspect(value, { depth: Infinity, maxArrayLength: null, maxStringLength: null, customInspect: false });
  if (!ArrayBuffer.isView(value)) return shown;
  const { buffer, byteOffset, byteLength } = value;
  const memory = `shared ${String(types.isSharedArrayBuffer(buffer))} resizable ${String((buffer as { resizable?: boolean }).resizable === true)}`;
  // Where a view lies in its memory isn't kept: it comes back with memory of its own.
  const content = types.isDataView(value) ? Buffer.from(buffer, byteOffset, byteLength).toString("hex") : shown;
  return `${content} ${String(Object.keys(value))} ${memory}`;
}

/** The realm a class is from isn't told apart: values of another realm come back as ours, on purpose. */
function isSame(back: unknown, value: unknown, isForeign: boolean): boolean {
  if (seen(back) !== seen(value)) return false;
  // Node 20 takes two invalid dates for different ones.
  const isInvalid = types.isDate(value) && Number.isNaN(Date.prototype.getTime.call(value));
  return isForeign || isInvalid || types.isProxy(value) || isDeepStrictEqual(back, value);
}

/** Whether the value comes back as the same kind with the same content; undefined if it is refused by its path. */
function roundTrips(value: unknown, place: number, isForeign: boolean): boolean | undefined {
  const [path, around] = PLACES[place]!;
  // A Set has no minus zero.
  if (path === "set<item 0>" && Object.is(value, -0)) return true;
  const part = (whole: unknown): unknown =>
    path === "map<key>" ? (whole as { map: Map<string, unknown> }).map.get("key")
    : path === "set<item 0>" ? [...(whole as { set: Set<unknown> }).set][0]
    : path.split(/[.[\]]/).filter((step) => step !== "").reduce((at: any, step) => at[step], whole); // prettier-ignore
  const whole = around(value);
  let text: string;
  try {
    text = encode(whole);
  } catch (error) {
    if (!isRefused(error)) throw error;
    // A part of the value may be what can't be saved.
    expect(String(error.data["path"]).startsWith(path)).toBe(true);
    expect(copyOf(whole)).toBe(NO_COPY);
    return undefined;
  }
  const copy = copyOf(whole);
  if (copy !== NO_COPY) expect(isSame(part(copy), part(decode(text)), false)).toBe(true);
  return isSame(part(decode(text)), value, isForeign);
}

describe("Values: every kind that the language has", () => {
  it.each(KINDS)("Values: %s is restored as the same kind or is refused by its path", (name, make) => {
    for (const place of PLACES.keys()) expect(roundTrips(make(), place, name.includes("realm"))).not.toBe(false);
  });

  longTest("Values: no kind, twisted in any way and at any place, is restored as something else", () => {
    const found = { same: 0, refused: 0 };
    fc.assert(
      fc.property(
        fc.constantFrom(...KINDS),
        fc.array(fc.constantFrom(...TWISTS), { maxLength: 2 }),
        fc.nat(PLACES.length - 1),
        ([name, make], twists, place) => {
          let value = make();
          // What everybody shares is left alone.
          fc.pre(!/namespace|globalThis/.test(name));
          const isProxied = twists.some(([twist]) => twist.includes("proxy"));
          const isDisguised = twists.some(([twist]) => twist.includes("prototype"));
          // A proxy counts as what it answers.
          // `innerKindOfPlain` says what it misses.
          const isMissed = ["with a property", "with the prototype of Object"].every((name) =>
            twists.some(([twist]) => twist === name),
          );
          fc.pre(!isMissed && (!isDisguised || !(isProxied || BEYOND_RECOGNITION.test(name))));
          try {
            if (typeof value === "object" && value !== null) for (const [, twist] of twists) value = twist(value as object);
          } catch {
            // Frozen values take no prototype.
            fc.pre(false);
          }
          // An object that merely has the prototype of an error is an error of the old style, and comes back as one.
          fc.pre(!(value instanceof Error) || types.isNativeError(value));
          const outcome = roundTrips(value, place, name.includes("realm"));
          if (outcome === false) throw new Error(`came back as something else: ${name}`);
          found[outcome === true ? "same" : "refused"]++;
        },
      ),
      { numRuns: 4000 },
    );
    expect(Math.min(found.same, found.refused)).toBeGreaterThan(500);
  });

  it("Values: what took the place of a saved value is the same only if it is saved as the same text", () => {
    fc.assert(
      fc.property(fc.constantFrom(...KINDS), fc.constantFrom(...KINDS), ([, makeFirst], [name, makeNext]) => {
        const [first, next] = [{ v: makeFirst() }, { v: makeNext() }];
        const copy = copyOf(first);
        // Tags of namespaces are symbol keys: `matches` doesn't look for those, and says so.
        fc.pre(copy !== NO_COPY && !/namespace/.test(name));
        const slots: unknown[] = [];
        const shape = new Tracer().trace(copy, slots);
        const isTraced = shape !== undefined && matches(shape, slots, 0, next) >= 0;
        if (sameAs(copy, next) || isTraced) expect(encode(next)).toBe(encode(first));
      }),
      { numRuns: 3000 },
    );
  });

  it.each<[string, () => unknown, RegExp]>([
    ["arguments", () => argumentsOf(1, 2), /an arguments object.*\[\.\.\.arguments\]/],
    ["typed array", () => new Uint16Array(new SharedArrayBuffer(4)), /a Uint16Array on shared memory.*Uint16Array\.from/],
    ["Buffer", () => Buffer.from(new SharedArrayBuffer(4)), /a Buffer on shared memory.*Buffer\.from/],
    ["view", () => new DataView(new ResizableBuffer(4, { maxByteLength: 8 })), /a DataView on a resizable ArrayBuffer/],
    ["Map in disguise", () => Object.setPrototypeOf(new Map([[1, 2]]), Object.prototype), /a Map with another prototype/],
    ["Map as a message", () => Object.setPrototypeOf(new Map(), AIMessage.prototype), /a Map with another prototype/],
    ["list without prototype", () => Object.setPrototypeOf([1], null), /an Array with another prototype/],
    ["typed array of another type", () => Object.setPrototypeOf(new Uint8Array(2), Uint16Array.prototype), /a Uint8Array with/],
    ["hidden element", () => Object.defineProperty([1, 2], 0, { enumerable: false }), /an element that isn't enumerable/],
    ["namespace", () => Math, /an object tagged "Math"/],
  ])("Values: the message about %s says what it is", (_, make, found) => {
    expect.assertions(3);
    for (const options of [undefined, { classInstances: "plain" } as const]) {
      try {
        encode({ kept: [make()] }, options);
      } catch (error) {
        if (options === undefined) expect((error as TurnsError).data).toEqual({ path: "kept[0]" });
        expect((error as TurnsError).message).toMatch(found);
      }
    }
  });

  it("Values: properties set on bytes are restored with them", () => {
    const bytes = Object.assign(Buffer.from("text"), { mime: "text/plain", sizes: [1n] });
    const floats = Object.assign(new Float32Array([NaN, 1]), { model: "m" });
    const back = decode(encode({ bytes, floats })) as { bytes: typeof bytes; floats: typeof floats };
    expect([back.bytes.toString(), back.bytes.mime, back.bytes.sizes]).toStrictEqual(["text", "text/plain", [1n]]);
    expect([[...back.floats], back.floats.model]).toStrictEqual([[NaN, 1], "m"]);
    expect(sameAs(copyOf(Buffer.from("text")), bytes)).toBe(false);
  });

  it.each<[string, () => unknown]>([
    ["iterator", () => [1].values()],
    ["Intl.NumberFormat", () => new Intl.NumberFormat()],
    ["URLSearchParams", () => new URLSearchParams("a=1")],
    ["Headers", () => new Headers({ a: "1" })],
    ["FinalizationRegistry", () => new FinalizationRegistry(() => undefined)],
    ["proxy of a boxed number", () => new Proxy(Object(3) as object, {})],
    ["boxed number with a property", () => Object.assign(Object(3) as object, { a: 1 })],
    ["WebAssembly.Memory", () => new Memory({ initial: 0 })],
  ])("Values: classInstances plain refuses content that it can't see: %s", (_, make) => {
    expect(() => encode([make()], { classInstances: "plain" })).toThrow(/^A value can't be saved: at \[0\] there is /);
  });
});

test.each([
  ["a list", () => Object.setPrototypeOf([1, 2], Object.prototype) as unknown],
  ["a Date", () => Object.setPrototypeOf(new Date(5), Object.prototype) as unknown],
  ["a Map", () => Object.setPrototypeOf(new Map([[1, 2]]), Object.prototype) as unknown],
])("Values: %s whose prototype was exchanged is refused as a channel and in one", async (_kind, make) => {
  const saver = TurnSaver.fromPath(":memory:", { logger: quietLogger() });
  for (const value of [make(), { in: make() }, { deep: { in: make() } }, [make()]]) {
    const at = { configurable: { thread_id: "t", checkpoint_ns: "" } };
    await expect(
      saver.put(at, { ...emptyCheckpoint(), channel_values: { a: value } }, { source: "loop", step: 1, parents: {} }),
    ).rejects.toMatchObject({
      code: "UNSERIALIZABLE_VALUE",
    });
  }
  saver.close();
});
