import { types } from "node:util";
import { kindOf, type Kind } from "./kind";
import { open } from "./marker";
import { listOf, malformed, onlyKeys } from "./node";
import { isOfNativeClass } from "./prototypes";

// Texts are added up, not joined: joining copies what is inside once for every level around it.
// The prototype's own methods are called, so that neither an overridden nor a shadowed method can hide entries.

const map = kindOf<Map<unknown, unknown>>({
  tag: "Map",
  prototype: Map.prototype,
  levels: 3,
  accepts: (value) => types.isMap(value) && isOfNativeClass(value),
  write(value, writer) {
    let entries = "";
    let at = 0;
    Map.prototype.forEach.call(value, (item, key) => {
      const keyText = writer.atPlace(`<key ${at}>`, key);
      const itemText = writer.atPlace(typeof key === "string" ? `<${key.slice(0, 60)}>` : `<value ${at}>`, item);
      entries += `${at++ === 0 ? "" : ","}[${keyText},${itemText}]`;
    });
    return `${open("Map")},"v":[${entries}]${writer.extras(value)}}`;
  },
  read(node, reader) {
    onlyKeys(node, "v", "p");
    const value = new Map<unknown, unknown>();
    for (const entry of listOf(node)) {
      if (!Array.isArray(entry) || entry.length !== 2) throw malformed(node);
      const [key, item] = reader.list(entry);
      value.set(key, item);
    }
    return reader.extras(node, value);
  },
});

const set = kindOf<Set<unknown>>({
  tag: "Set",
  prototype: Set.prototype,
  levels: 2,
  accepts: (value) => types.isSet(value) && isOfNativeClass(value),
  write(value, writer) {
    let items = "";
    let at = 0;
    Set.prototype.forEach.call(value, (item) => {
      items += `${at === 0 ? "" : ","}${writer.atPlace(`<item ${at++}>`, item)}`;
    });
    return `${open("Set")},"v":[${items}]${writer.extras(value)}}`;
  },
  read(node, reader) {
    onlyKeys(node, "v", "p");
    return reader.extras(node, new Set(reader.list(listOf(node))));
  },
});

export const COLLECTION_KINDS: readonly Kind[] = [map, set];
