import { isDeepStrictEqual, types } from "node:util";
import { undecodable } from "./failures";

/**
 * The one reserved key. A JSON object that has it is a tagged value, `{"~": tag, …}`; an ordinary object that happens to own this
 * key is written inside the tag `object`, so data can never pass for a tag.
 */
export const MARKER = "~";

/** How many arrays and objects may be nested in the written text. Far above real data, far below what overflows a stack. */
export const MAX_LEVELS = 2_000;

/** How deep a text may be nested when it is read. Tags without children add one level that the writer doesn't count. */
export const MAX_LEVELS_READ = MAX_LEVELS + 8;

/** A JSON object as the parser made it. */
export type JsonRecord = Record<string, unknown>;

/** The opening of a tagged object. The caller appends further keys and the closing brace. */
export function open(tag: string): string {
  return `{"${MARKER}":"${tag}"`;
}

/** A whole tagged object with one content, given as JSON text. */
export function tagged(tag: string, json: string): string {
  return `{"${MARKER}":"${tag}","v":${json}}`;
}

/** Sets an own property. It never assigns to `__proto__`, which would replace the target's prototype. */
export function put(target: object, key: string, value: unknown): void {
  if (key === "__proto__") define(target, key, value);
  else (target as JsonRecord)[key] = value;
}

/** Defines an own enumerable data property, despite any setters or read-only names that the target inherits. */
export function define(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** What a kind may ask of the writer. The innermost object is the one that the kind is writing. */
export interface Writing {
  /** The text of a part. Error messages show the property that leads to it. */
  at(property: string, value: unknown): string;
  /** {@link at} for a part that no property leads to, such as the key of a map entry. */
  atPlace(place: string, value: unknown): string;
  /** Own properties as a JSON object; its marker key, if any, is not escaped. All enumerable ones unless told which. */
  record(source: object, keys?: readonly string[]): string;
  /** Own enumerable properties that a built-in value normally lacks, as a further key of its tag; usually empty. */
  extras(value: object): string;
  /** Throws if there are enumerable symbol keys, which JSON cannot hold, other than the one the class puts there. */
  refuseSymbols(value: object, known?: symbol): void;
  /** Throws for a value that has content besides its properties, such as a Map that was given the prototype of another class. */
  refuseInnerKind(value: object): void;
  /** Refuses the value that is being written. */
  fail(found: string): never;
}

/** What a kind may ask of the reader. Everything is read in place. */
export interface Reading {
  value(node: unknown): unknown;
  /** The list with every element read. */
  list(nodes: unknown[]): unknown[];
  /** The raw JSON object under a key of a tag, its properties read. */
  fields(node: JsonRecord, key: string): JsonRecord;
  /** The part that is stored under an address. */
  resolved(address: string): unknown;
  /** Restores what {@link Writing.extras} wrote. */
  extras<T extends object>(node: JsonRecord, target: T): T;
}

/** Reads a tagged object. Throws UNDECODABLE_VALUE or any other error if the object is malformed. */
export type Read = (node: JsonRecord, reader: Reading) => unknown;

/** How the instances of one class are written and read. The set of kinds is closed: what has no kind is neither saved nor built. */
export interface Kind {
  /** The value of the marker key: the name of the class. */
  readonly tag: string;
  readonly prototype: object;
  /** How many JSON levels lie between the tagged object and its children, itself included. */
  readonly levels: number;
  /**
   * True if the value is of this class although it has another prototype: from another realm, or from a second copy of a library.
   * The caller excludes subclasses.
   */
  accepts(value: object): boolean;
  /** The whole tagged object as JSON text. */
  write(value: object, writer: Writing): string;
  readonly read: Read;
}

interface KindOf<T extends object> extends Omit<Kind, "prototype" | "write"> {
  readonly prototype: T;
  write(value: T, writer: Writing): string;
}

/** Lets a kind be written with the type of its instances; the table calls it with nothing else. */
export function kindOf<T extends object>(kind: KindOf<T>): Kind {
  return kind;
}

/** Throws unless the tagged object has no keys but the marker and these. */
export function onlyKeys(node: JsonRecord, ...allowed: readonly string[]): void {
  // Faster than listing the keys first. A key that was added to Object.prototype isn't the node's own.
  for (const key in node) {
    if (key !== MARKER && !allowed.includes(key) && Object.hasOwn(node, key)) throw malformed(node);
  }
}

/** The content of a tag that must be a string. */
export function textOf(node: JsonRecord, key = "v"): string {
  const text = node[key];
  if (typeof text !== "string") throw malformed(node);
  return text;
}

/** The content of a tag that must be a list. */
export function listOf(node: JsonRecord, key = "v"): unknown[] {
  const list = node[key];
  if (!Array.isArray(list)) throw malformed(node);
  return list;
}

/** The content of a tag that must be a list of strings. */
export function namesOf(node: JsonRecord, key: string): string[] {
  const list = listOf(node, key);
  if (!list.every((name) => typeof name === "string")) throw malformed(node);
  return list;
}

/** The error for a known tag with wrong content. For nodes of known tags only: the tag is part of the message. */
export function malformed(node: JsonRecord): Error {
  return undecodable(`a malformed ${String(node[MARKER])} marker`);
}

/** Above this length the native stringifier is faster than looking first. */
const SHORT = 64;
// eslint-disable-next-line no-control-regex -- control characters are exactly what JSON must escape
const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/;

/** A string as JSON text. Lone surrogates become escapes, so the text is always valid UTF-8. */
export function quote(text: string): string {
  return text.length <= SHORT && !NEEDS_ESCAPE.test(text) ? `"${text}"` : JSON.stringify(text);
}

/*
 * What kind a value is of, as its class and its insides tell.
 */

const OBJECT = Object.prototype;

/** The name of the class a prototype belongs to. LangChain classes keep theirs in `lc_name`, which survives minifiers. */
export function classNameOf(prototype: object): string {
  const constructor = constructorOf(prototype);
  if (constructor === undefined) return "";
  const declared: unknown = Object.hasOwn(constructor, "lc_name") ? constructor.lc_name?.() : undefined;
  return typeof declared === "string" ? declared : constructor.name;
}

export function chainLength(prototype: object): number {
  let length = 0;
  for (let current: object | null = prototype; current !== null; current = parentOf(current)) length++;
  return length;
}

export function parentOf(object: object): object | null {
  return Object.getPrototypeOf(object) as object | null;
}

/** True for the `Object.prototype` or `Array.prototype` of another realm. */
export function isPlainPrototype(prototype: object, name: "Object" | "Array"): boolean {
  return classNameOf(prototype) === name && chainLength(prototype) === (name === "Object" ? 1 : 2) && isNative(prototype);
}

/**
 * True if the class of the value is a built-in of some realm of this process. A user's class that only has a built-in's name must
 * not be saved as the built-in.
 */
export function isOfNativeClass(value: object): boolean {
  const prototype = parentOf(value);
  return prototype !== null && isNative(prototype);
}

/** The `toJSON` that a value or its class declares below the given prototype. */
export function ownToJson(value: object, end: object = OBJECT): ((key: string) => unknown) | undefined {
  for (let current: object | null = value; current !== null && current !== end; current = parentOf(current)) {
    if (!Object.hasOwn(current, "toJSON")) continue;
    const found: unknown = (value as { toJSON?: unknown }).toJSON;
    return typeof found === "function" ? (found as (key: string) => unknown) : undefined;
  }
  return undefined;
}

/** The name a class was declared with; empty if it has none. */
export function nameOfClass(prototype: object): string {
  return constructorOf(prototype)?.name ?? "";
}

/** What to call a value in an error message. */
export function instanceOf(prototype: object): string {
  const name = nameOfClass(prototype);
  return name === "" || name === "Object" ? "an object with an unknown prototype" : `an instance of ${name}`;
}

type Constructor = ((...args: never) => unknown) & { lc_name?(): unknown };

function constructorOf(prototype: object): Constructor | undefined {
  const constructor: unknown = Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  return typeof constructor === "function" ? (constructor as Constructor) : undefined;
}

/** True if the class that a prototype belongs to is built into some realm of this process. */
function isNative(prototype: object): boolean {
  const constructor = constructorOf(prototype);
  return constructor !== undefined && Function.prototype.toString.call(constructor).includes("[native code]");
}

/** True for values with content outside their properties that can't be read at all. */
export function hasHiddenState(value: object): boolean {
  return (
    types.isPromise(value) ||
    types.isWeakMap(value) ||
    types.isWeakSet(value) ||
    types.isGeneratorObject(value) ||
    types.isMapIterator(value) ||
    types.isSetIterator(value) ||
    types.isExternal(value) ||
    types.isSharedArrayBuffer(value) ||
    types.isKeyObject(value) ||
    types.isCryptoKey(value) ||
    Object.prototype.toString.call(value) === "[object WeakRef]"
  );
}

/** True for an instance without properties of a class that is built in, or that names its kind, as iterators and `Headers` do. */
export function hidesContent(value: object): boolean {
  if (Object.keys(value).length > 0) return false;
  const prototype = parentOf(value);
  return (prototype !== null && isNative(prototype)) || Object.prototype.toString.call(value) !== "[object Object]";
}

/**
 * What a value is besides its properties, no matter what its prototype says. Undefined if it consists of its properties alone.
 */
export function innerKind(value: object): string | undefined {
  if (types.isArgumentsObject(value)) return "an arguments object";
  const name = innerClass(value);
  return name === undefined ? undefined : `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}`;
}

/**
 * {@link innerKind} for values with the prototype of a plain object. There are many, so it checks only those without keys, or
 * with indexes as keys. It misses, for example, a Map that was given that prototype by hand and has further properties.
 */
export function innerKindOfPlain(value: object, keys: readonly string[]): string | undefined {
  return mayHideContent(keys) ? innerKind(value) : undefined;
}

/** Integer keys come first, so the first key tells whether there are indexes. */
export function mayHideContent(keys: readonly string[]): boolean {
  const [first] = keys;
  return first === undefined || (first >= "0" && first < ":");
}

/** The element type of a typed array, no matter what its prototype says; undefined for anything else. */
export function elementType(value: object): string | undefined {
  return (typedTag.get as () => string | undefined).call(value);
}

const typedTag = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
) as PropertyDescriptor;

function innerClass(value: object): string | undefined {
  if (Array.isArray(value)) return "Array";
  if (ArrayBuffer.isView(value)) return elementType(value) ?? "DataView";
  if (types.isAnyArrayBuffer(value)) return types.isSharedArrayBuffer(value) ? "SharedArrayBuffer" : "ArrayBuffer";
  if (types.isMap(value)) return "Map";
  if (types.isSet(value)) return "Set";
  if (types.isDate(value)) return "Date";
  if (types.isRegExp(value)) return "RegExp";
  if (types.isNativeError(value)) return "Error";
  if (types.isBoxedPrimitive(value)) return "boxed primitive";
  if (types.isPromise(value)) return "Promise";
  if (types.isWeakMap(value)) return "WeakMap";
  if (types.isWeakSet(value)) return "WeakSet";
  if (types.isGeneratorObject(value)) return "generator";
  return types.isMapIterator(value) || types.isSetIterator(value) ? "iterator" : undefined;
}

/**
 * True for a list without holes and without properties besides its elements. Integer keys come first and in order, so the last key
 * alone tells.
 */
export function isDense(value: readonly unknown[], keys: readonly string[] = Object.keys(value)): boolean {
  return keys.length === value.length && (keys.length === 0 || keys[keys.length - 1] === String(value.length - 1));
}

/** True for the keys under which lists keep elements. */
export function isIndex(key: string): boolean {
  const index = Number(key);
  return Number.isInteger(index) && index >= 0 && index < 2 ** 32 - 1 && String(index) === key;
}

/**
 * A copy of a list of finite numbers; undefined for any other list. Vectors are long, and the native stringifier writes them
 * several times faster.
 */
export function finiteNumbers(value: readonly unknown[]): number[] | undefined {
  const numbers: number[] = [];
  for (let i = 0; i < value.length; i++) {
    const item = value[i];
    if (typeof item !== "number" || !Number.isFinite(item) || Object.is(item, -0)) return undefined;
    numbers.push(item);
  }
  return numbers;
}

export type TypedArray = NodeJS.TypedArray;
export type TypedArrayClass = {
  new (buffer: ArrayBuffer, byteOffset?: number, length?: number): TypedArray;
  readonly prototype: TypedArray;
  readonly name: string;
  readonly BYTES_PER_ELEMENT: number;
};

export const TYPED_ARRAYS: readonly TypedArrayClass[] = [
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
];

/** The kind of memory behind a view that isn't a plain ArrayBuffer. A restored view would have a plain one. */
export function memoryOf(value: ArrayBufferView): string | undefined {
  const { buffer } = value;
  if (types.isSharedArrayBuffer(buffer)) return "shared memory";
  return (buffer as { resizable?: boolean }).resizable === true ? "a resizable ArrayBuffer" : undefined;
}

/**
 * True only for a view without properties besides its elements; false may mean that it wasn't checked closely. Node compares two
 * views of the same bytes without listing their elements: 20 µs for a megabyte.
 */
export function isBareView(value: TypedArray): boolean {
  const twin = twinOf(value);
  return twin !== undefined && isDeepStrictEqual(value, twin);
}

function twinOf(value: TypedArray): TypedArray | undefined {
  const { buffer, byteOffset, byteLength, length } = value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Buffer.prototype) return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
  const type = TYPED_ARRAYS.find((known) => known.prototype === prototype);
  return type && new type(buffer as ArrayBuffer, byteOffset, length);
}

/** True for equal primitives, lists of equal primitives, and two empty plain objects. Defaults consist of nothing else. */
export function sameDefault(value: unknown, fresh: unknown): boolean {
  if (typeof fresh !== "object" || fresh === null || typeof value !== "object" || value === null) return Object.is(value, fresh);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.getPrototypeOf(fresh)) return false;
  if (!Array.isArray(fresh)) return prototype === Object.prototype && isEmpty(value) && isEmpty(fresh);
  if (!Array.isArray(value) || value.length !== fresh.length || Object.keys(value).length !== fresh.length) return false;
  for (let i = 0; i < fresh.length; i++) if (!Object.is(value[i], fresh[i])) return false;
  return true;
}

/** True if the current value holds everything that the outdated one holds: the outdated one is empty, or a part of it. */
export function isPartOf(outdated: unknown, current: unknown): boolean {
  if (outdated === undefined || outdated === null || outdated === "") return true;
  if (typeof outdated !== "object") return false;
  const prototype: unknown = Object.getPrototypeOf(outdated);
  if (prototype !== Object.prototype && prototype !== Array.prototype) return false;
  const owner = typeof current === "object" && current !== null ? current : {};
  return Object.keys(outdated).every(
    (key) => Object.hasOwn(owner, key) && Object.is(Reflect.get(owner, key), Reflect.get(outdated, key)),
  );
}

function isEmpty(value: object): boolean {
  return Object.keys(value).length === 0 && Object.getOwnPropertySymbols(value).length === 0;
}
