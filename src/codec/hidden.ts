import { types } from "node:util";

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
