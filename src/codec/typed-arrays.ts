import { isDeepStrictEqual, types } from "node:util";

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

/** The kind of memory that a view lies on, where it isn't a plain ArrayBuffer: what would come back lies on one. */
export function memoryOf(value: ArrayBufferView): string | undefined {
  const { buffer } = value;
  if (types.isSharedArrayBuffer(buffer)) return "shared memory";
  return (buffer as { resizable?: boolean }).resizable === true ? "a resizable ArrayBuffer" : undefined;
}

/**
 * True only for a view without properties besides its elements; false may mean that nobody looked closer. Node compares two views of the
 * same bytes without listing their elements: 20 µs for a megabyte.
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
