import { isDeepStrictEqual, types } from "node:util";

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
