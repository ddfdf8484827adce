import { types } from "node:util";
import { NO_COPY, symbolsOf, type Copier } from "./copier";
import { elementType } from "./hidden";
import { isBareView, memoryOf, TYPED_ARRAYS, type TypedArray, type TypedArrayClass } from "./typed-arrays";

/** Own properties would be saved, too. */
function isBare(value: object): boolean {
  return Object.keys(value).length === 0 && symbolsOf(value).length === 0;
}

const date: Copier<Date> = {
  copy: (value) => (types.isDate(value) && isBare(value) ? new Date(Date.prototype.getTime.call(value)) : NO_COPY),
  same: (copy, value) => types.isDate(value) && isBare(value) && Object.is(copy.getTime(), Date.prototype.getTime.call(value)),
};

const map: Copier<Map<unknown, unknown>> = {
  copy(value, part) {
    if (!types.isMap(value) || !isBare(value)) return NO_COPY;
    const copy = new Map<unknown, unknown>();
    for (const [key, item] of Map.prototype.entries.call(value) as IterableIterator<[unknown, unknown]>) {
      const ownKey = part(key);
      const ownItem = part(item);
      if (ownKey === NO_COPY || ownItem === NO_COPY) return NO_COPY;
      copy.set(ownKey, ownItem);
    }
    return copy;
  },
  same(copy, value, part) {
    if (!types.isMap(value) || !isBare(value)) return false;
    const entries = Map.prototype.entries.call(value) as Iterator<[unknown, unknown]>;
    for (const [key, item] of copy) {
      const next = entries.next();
      if (next.done === true || !part(key, next.value[0]) || !part(item, next.value[1])) return false;
    }
    return entries.next().done === true;
  },
};

const set: Copier<Set<unknown>> = {
  copy(value, part) {
    if (!types.isSet(value) || !isBare(value)) return NO_COPY;
    const copy = new Set<unknown>();
    for (const item of Set.prototype.values.call(value) as IterableIterator<unknown>) {
      const own = part(item);
      if (own === NO_COPY) return NO_COPY;
      copy.add(own);
    }
    return copy;
  },
  same(copy, value, part) {
    if (!types.isSet(value) || !isBare(value)) return false;
    const items = Set.prototype.values.call(value) as Iterator<unknown>;
    for (const item of copy) {
      const next = items.next();
      if (next.done === true || !part(item, next.value)) return false;
    }
    return items.next().done === true;
  },
};

/**
 * Undefined for what is left to the codec: empty ones, since it tells memory that was given away from memory there never was; those on
 * other memory than a plain ArrayBuffer, and those with properties.
 */
function bytesOf(value: TypedArray): Buffer | undefined {
  if (!types.isTypedArray(value) || value.byteLength === 0 || memoryOf(value) !== undefined || !isBareView(value))
    return undefined;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

function typedArray(type: TypedArrayClass): Copier<TypedArray> {
  return {
    copy(value) {
      const bytes = bytesOf(value);
      if (bytes === undefined || elementType(value) !== type.name) return NO_COPY;
      const memory = new ArrayBuffer(bytes.length);
      new Uint8Array(memory).set(bytes);
      return new type(memory);
    },
    same: sameBytes,
  };
}

const buffer: Copier<Buffer> = {
  copy(value) {
    const bytes = bytesOf(value);
    return bytes === undefined || elementType(value) !== "Uint8Array" ? NO_COPY : Buffer.from(bytes);
  },
  same: sameBytes,
};

function sameBytes(copy: TypedArray, value: TypedArray): boolean {
  const bytes = bytesOf(value);
  if (bytes === undefined || elementType(value) !== elementType(copy)) return false;
  return Buffer.from(copy.buffer, copy.byteOffset, copy.byteLength).equals(bytes);
}

export const BUILT_IN_COPIERS: readonly (readonly [object, Copier])[] = [
  [Date.prototype, date],
  [Map.prototype, map],
  [Set.prototype, set],
  [Buffer.prototype, buffer],
  ...TYPED_ARRAYS.map((type) => [type.prototype, typedArray(type) as unknown as Copier] as const),
];
