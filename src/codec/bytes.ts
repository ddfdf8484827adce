import { endianness } from "node:os";
import { types } from "node:util";
import {
  elementType,
  isBareView,
  isIndex,
  isOfNativeClass,
  type JsonRecord,
  type Kind,
  kindOf,
  malformed,
  memoryOf,
  onlyKeys,
  open,
  textOf,
  TYPED_ARRAYS,
  type TypedArray,
  type TypedArrayClass,
  type Writing,
} from "./kind";

const SWAP = endianness() === "BE";

/** The saved bytes are little-endian, so that a database can move between machines. */
function ordered(bytes: Buffer, width: number): Buffer {
  if (!SWAP || width === 1) return bytes;
  const copy = Buffer.from(bytes);
  if (width === 2) return copy.swap16();
  return width === 4 ? copy.swap32() : copy.swap64();
}

function bytesOf(value: ArrayBufferView, name: string, writer: Writing): Buffer {
  const memory = memoryOf(value);
  if (memory !== undefined) {
    const copied = name === "DataView" ? "" : `; save a copy, ${name}.from(value)`;
    writer.fail(`a ${name} on ${memory}${copied}`);
  }
  // A detached buffer looks like an empty one; making a view of it throws.
  if (value.byteLength === 0) new Uint8Array(value.buffer);
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

function readBytes(node: JsonRecord): Buffer {
  const text = textOf(node);
  const bytes = Buffer.from(text, "base64");
  // The parser skips characters that aren't base64; the length reveals that, and isn't an integer if the last group is
  // incomplete.
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

/** Elements are properties too. Listing them takes 90 ms per megabyte, so it's avoided. */
function extrasOf(value: TypedArray, writer: Writing): string {
  if (isBareView(value)) return "";
  writer.refuseSymbols(value);
  const keys = Object.keys(value).filter((key) => !isIndex(key));
  return keys.length === 0 ? "" : `,"p":${writer.record(value, keys)}`;
}

function refuseOtherElements(value: TypedArray, name: string, writer: Writing): void {
  const found = elementType(value);
  if (found !== undefined && found !== name) writer.fail(`a ${found} with another prototype`);
}

function typedArray(type: TypedArrayClass): Kind {
  return kindOf<TypedArray>({
    tag: type.name,
    prototype: type.prototype,
    levels: 2,
    accepts: (value) => elementType(value) === type.name && isOfNativeClass(value),
    write(value, writer) {
      refuseOtherElements(value, type.name, writer);
      const bytes = ordered(bytesOf(value, type.name, writer), type.BYTES_PER_ELEMENT);
      return `${open(type.name)},"v":"${bytes.toString("base64")}"${extrasOf(value, writer)}}`;
    },
    read(node, reader) {
      onlyKeys(node, "v", "p");
      const bytes = ordered(readBytes(node), type.BYTES_PER_ELEMENT);
      return reader.extras(node, new type(ownBuffer(bytes)));
    },
  });
}

const buffer = kindOf<Buffer>({
  tag: "Buffer",
  prototype: Buffer.prototype as Buffer,
  levels: 2,
  accepts: () => false,
  write(value, writer) {
    refuseOtherElements(value, "Uint8Array", writer);
    return `${open("Buffer")},"v":"${bytesOf(value, "Buffer", writer).toString("base64")}"${extrasOf(value, writer)}}`;
  },
  read(node, reader) {
    onlyKeys(node, "v", "p");
    return reader.extras(node, readBytes(node));
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
  write: (value, writer) =>
    `${open("DataView")},"v":"${bytesOf(value, "DataView", writer).toString("base64")}"${writer.extras(value)}}`,
  read(node, reader) {
    onlyKeys(node, "v", "p");
    return reader.extras(node, new DataView(ownBuffer(readBytes(node))));
  },
});

export const BYTE_KINDS: readonly Kind[] = [...TYPED_ARRAYS.map(typedArray), buffer, arrayBuffer, dataView];
