import { types } from "node:util";
import { kindOf, type Kind } from "./kind";
import { open } from "./marker";
import { quote } from "./quote";
import { listOf, malformed, onlyKeys, textOf } from "./node";
import { isOfNativeClass } from "./prototypes";

const date = kindOf<Date>({
  tag: "Date",
  prototype: Date.prototype,
  levels: 2,
  accepts: (value) => types.isDate(value) && isOfNativeClass(value),
  write(value, writer) {
    const time = Date.prototype.getTime.call(value);
    const text = Number.isNaN(time) ? "null" : `"${Date.prototype.toISOString.call(value)}"`;
    return `${open("Date")},"v":${text}${writer.extras(value)}}`;
  },
  read(node, reader) {
    onlyKeys(node, "v", "p");
    if (node["v"] === null) return reader.extras(node, new Date(NaN));
    const text = textOf(node);
    const value = new Date(text);
    if (Number.isNaN(value.getTime()) || value.toISOString() !== text) throw malformed(node);
    return reader.extras(node, value);
  },
});

const regExp = kindOf<RegExp>({
  tag: "RegExp",
  prototype: RegExp.prototype,
  levels: 2,
  accepts: (value) => types.isRegExp(value) && isOfNativeClass(value),
  write(value, writer) {
    const index: unknown = value.lastIndex;
    const last = Object.is(index, 0) ? "" : `,"i":${writer.at("lastIndex", index)}`;
    return `${open("RegExp")},"v":[${quote(value.source)},${quote(value.flags)}]${last}${writer.extras(value)}}`;
  },
  read(node, reader) {
    onlyKeys(node, "v", "i", "p");
    const [source, flags, ...rest] = listOf(node);
    if (typeof source !== "string" || typeof flags !== "string" || rest.length > 0) throw malformed(node);
    const value = new RegExp(source, flags);
    if (Object.hasOwn(node, "i")) value.lastIndex = reader.value(node["i"]) as number;
    return reader.extras(node, value);
  },
});

const url = kindOf<URL>({
  tag: "URL",
  prototype: URL.prototype,
  levels: 2,
  accepts: (value) => Object.prototype.toString.call(value) === "[object URL]" && typeof (value as URL).href === "string",
  write(value, writer) {
    const href = value.href;
    // Setters can produce an address that reads as another one.
    if (new URL(href).href !== href) writer.fail("a URL that does not parse back to itself");
    return `${open("URL")},"v":${quote(href)}${writer.extras(value)}}`;
  },
  read(node, reader) {
    onlyKeys(node, "v", "p");
    return reader.extras(node, new URL(textOf(node)));
  },
});

export const SCALAR_KINDS: readonly Kind[] = [date, regExp, url];
