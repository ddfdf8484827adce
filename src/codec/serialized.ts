import { kindOf, type Kind } from "./kind";
import { open } from "./marker";
import { malformed, onlyKeys, textOf } from "./node";

/** What a serde of the user's made of a value. The codec carries it and does not look inside. */
export class Serialized {
  constructor(
    readonly type: string,
    readonly data: Uint8Array,
  ) {}
}

export const SERIALIZED_KINDS: readonly Kind[] = [
  kindOf<Serialized>({
    tag: "serde",
    prototype: Serialized.prototype,
    levels: 1,
    accepts: () => false,
    write(value) {
      const data = Buffer.from(value.data.buffer, value.data.byteOffset, value.data.byteLength).toString("base64");
      return `${open("serde")},"t":${JSON.stringify(value.type)},"v":"${data}"}`;
    },
    read(node) {
      onlyKeys(node, "t", "v");
      const data = Buffer.from(textOf(node), "base64");
      if (data.toString("base64") !== textOf(node)) throw malformed(node);
      // A plain array: some serdes look at the prototype.
      return new Serialized(textOf(node, "t"), new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    },
  }),
];
