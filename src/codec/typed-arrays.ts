export type TypedArray = NodeJS.TypedArray;
export type TypedArrayClass = {
  new (buffer: ArrayBuffer): TypedArray;
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
