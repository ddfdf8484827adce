import { endianness } from "node:os";
import { types } from "node:util";
import { kindOf, type Kind, type Writing } from "./kind";
import { open, tagged, type JsonRecord } from "./marker";
import { malformed, onlyKeys, textOf } from "./node";
import { isOfNativeClass } from "./prototypes";
import { TYPED_ARRAYS, type TypedArray, type TypedArrayClass } from "./typed-arrays";

/** Names the element type of any typed array from its internals, whatever its prototype. */
const typedTag = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
) as PropertyDescriptor;

const SWAP = endianness() === "BE";

/** The saved bytes are little-endian, so that a database can move between machines. */
function ordered(bytes: Buffer, width: number): Buffer {
  if (!SWAP || width === 1) return bytes;
  const copy = Buffer.from(bytes);
  if (width === 2) return copy.swap16();
  return width === 4 ? copy.swap32() : copy.swap64();
}

function bytesOf(value: ArrayBufferView): Buffer {
  // A detached buffer looks like an empty one; making a view of it throws.
  if (value.byteLength === 0) new Uint8Array(value.buffer);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

function readBytes(node: JsonRecord): Buffer {
  const text = textOf(node);
  const bytes = Buffer.from(text, "base64");
  // The parser skips what is not base64; the length gives that away, and is no whole number if the last group is not complete.
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  if (bytes.length !== (text.length / 4) * 3 - padding) throw malformed(node);
  return bytes;
}

/** A buffer of its own: pooled memory would be visible through `.buffer`. */
function ownBuffer(bytes: Buffer): ArrayBuffer {
  const buffer = new ArrayBuffer(bytes.length);
  new Uint8Array(buffer).set(bytes);
  return buffer;
}

/** Properties set on a typed array itself are not looked for: listing them lists every index, 90 ms for a megabyte. */
function typedArray(type: TypedArrayClass): Kind {
  return kindOf<TypedArray>({
    tag: type.name,
    prototype: type.prototype,
    levels: 1,
    accepts: (value) => typedTag.get?.call(value) === type.name && isOfNativeClass(value),
    write: (value) => tagged(type.name, `"${ordered(bytesOf(value), type.BYTES_PER_ELEMENT).toString("base64")}"`),
    read(node) {
      onlyKeys(node, "v");
      const bytes = ordered(readBytes(node), type.BYTES_PER_ELEMENT);
      return new type(ownBuffer(bytes));
    },
  });
}

const buffer = kindOf<Buffer>({
  tag: "Buffer",
  prototype: Buffer.prototype as Buffer,
  levels: 1,
  accepts: () => false,
  write: (value) => tagged("Buffer", `"${bytesOf(value).toString("base64")}"`),
  read(node) {
    onlyKeys(node, "v");
    return readBytes(node);
  },
});

const arrayBuffer = kindOf<ArrayBuffer>({
  tag: "ArrayBuffer",
  prototype: ArrayBuffer.prototype,
  levels: 2,
  accepts: (value) => types.isArrayBuffer(value) && isOfNativeClass(value),
  write(value, writer: Writing) {
    if ((value as ArrayBuffer & { resizable?: boolean }).resizable === true) writer.fail("a resizable ArrayBuffer");
    return `${open("ArrayBuffer")},"v":"${Buffer.from(new Uint8Array(value)).toString("base64")}"${writer.extras(value)}}`;
  },
  read(node, reader) {
    onlyKeys(node, "v", "p");
    return reader.extras(node, ownBuffer(readBytes(node)));
  },
});

const dataView = kindOf<DataView>({
  tag: "DataView",
  prototype: DataView.prototype,
  levels: 2,
  accepts: (value) => types.isDataView(value) && isOfNativeClass(value),
  write: (value, writer) => `${open("DataView")},"v":"${bytesOf(value).toString("base64")}"${writer.extras(value)}}`,
  read(node, reader) {
    onlyKeys(node, "v", "p");
    return reader.extras(node, new DataView(ownBuffer(readBytes(node))));
  },
});

export const BYTE_KINDS: readonly Kind[] = [...TYPED_ARRAYS.map(typedArray), buffer, arrayBuffer, dataView];
