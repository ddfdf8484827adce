import { types } from "node:util";
import { isOfNativeClass, type Kind, kindOf, listOf, malformed, nameOfClass, onlyKeys, open, quote, textOf } from "./kind";

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

// Texts are added up, not joined: joining copies the content once per nesting level. The prototype's own methods are called, so
// an overridden or shadowed method can't hide entries.

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

/** Properties that an error keeps as not enumerable. Enumerable ones, under any name, are further properties. */
const HIDDEN = ["name", "message", "stack", "cause", "errors"] as const;

/**
 * Rewrites the text of an error whose class is not in the table into the text of the built-in class it extends. Reading restores
 * that built-in class with `name`, message, stack, cause, errors, properties, and `code` even where the class computes it.
 * `instanceof` its own class, methods and other getters are lost, because a text must not say what to construct. The class name
 * stays in the text for people who read it.
 */
export function ofSubclass(text: string, prototype: object): string {
  return `${text.slice(0, -1)},"c":${quote(nameOfClass(prototype))}}`;
}

function errorKind(tag: string, prototype: Error, make: () => Error): Kind {
  return kindOf<Error>({
    tag,
    prototype,
    levels: 2,
    accepts: (value) => types.isNativeError(value) && isOfNativeClass(value),
    write(value, writer) {
      const keys = HIDDEN.filter((key) => {
        const own = Object.getOwnPropertyDescriptor(value, key);
        if (own !== undefined) return own.enumerable !== true;
        // A subclass saved as its base class keeps what it inherits from its prototype.
        return (key === "name" && value.name !== tag) || (key === "message" && value.message !== "");
      });
      // An old-style error is a plain object inside.
      if (!types.isNativeError(value)) writer.refuseInnerKind(value);
      writer.refuseSymbols(value);
      const further = Object.keys(value);
      if (!Object.hasOwn(value, "code") && (value as { code?: unknown }).code !== undefined) further.push("code");
      const extras = further.length === 0 ? "" : `,"p":${writer.record(value, further)}`;
      return `${open(tag)},"v":${writer.record(value, keys)}${extras}}`;
    },
    read(node, reader) {
      onlyKeys(node, "v", "p", "c");
      if (Object.hasOwn(node, "c")) textOf(node, "c");
      const fields = reader.fields(node, "v");
      const value = untraced(make);
      for (const key of HIDDEN) delete (value as unknown as Record<string, unknown>)[key];
      for (const key of Object.keys(fields)) {
        if (!(HIDDEN as readonly string[]).includes(key)) throw malformed(node);
        Object.defineProperty(value, key, { value: fields[key], enumerable: false, configurable: true, writable: true });
      }
      return reader.extras(node, value);
    },
  });
}

/** Builds an error without a stack trace. The error is thrown away, and a trace takes a kilobyte. */
function untraced(make: () => Error): Error {
  const limit = Error.stackTraceLimit;
  Reflect.set(Error, "stackTraceLimit", 0);
  const error = make();
  Reflect.set(Error, "stackTraceLimit", limit);
  return error;
}

export const ERROR_KINDS: readonly Kind[] = [
  ...[Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError].map((type) =>
    errorKind(type.name, type.prototype, () => new type()),
  ),
  errorKind("AggregateError", AggregateError.prototype, () => new AggregateError([])),
];

/** The output of a user's serde. The codec carries it and doesn't look inside. */
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
      // A plain array, because some serdes check the prototype.
      return new Serialized(textOf(node, "t"), new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    },
  }),
];
