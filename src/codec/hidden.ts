import { types } from "node:util";
import { isNative, parentOf } from "./prototypes";

/** True for values whose content is not in their properties and cannot be read at all. */
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

/** What a value is besides its properties, whatever its prototype says; undefined if it is its properties and nothing else. */
export function innerKind(value: object): string | undefined {
  if (types.isArgumentsObject(value)) return "an arguments object";
  const name = innerClass(value);
  return name === undefined ? undefined : `${/^[AEIO]/.test(name) ? "an" : "a"} ${name}`;
}

/**
 * The same for what has the prototype of a plain object, of which there are many: only those without keys, or with indexes as keys, are
 * looked at. What is missed is a value like a Map that got that prototype by hand and also has further properties.
 */
export function innerKindOfPlain(value: object, keys: readonly string[]): string | undefined {
  return mayHideContent(keys) ? innerKind(value) : undefined;
}

/** Integer keys come first, so the first key tells whether there are indexes. */
export function mayHideContent(keys: readonly string[]): boolean {
  const [first] = keys;
  return first === undefined || (first >= "0" && first < ":");
}

/** The element type of a typed array, whatever its prototype says; undefined for anything else. */
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
