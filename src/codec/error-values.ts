import { types } from "node:util";
import { kindOf, type Kind } from "./kind";
import { open } from "./marker";
import { malformed, onlyKeys, textOf } from "./node";
import { quote } from "./quote";
import { isOfNativeClass, nameOfClass } from "./prototypes";

/** What an error keeps in properties that are not enumerable. Enumerable ones, whatever their name, are further properties. */
const HIDDEN = ["name", "message", "stack", "cause", "errors"] as const;

/**
 * The text of an error of a class that is not in the table, made from its text as the class it extends. The error comes back as
 * that built-in class, with its `name`, message, stack, cause, errors and properties, and `code` even where the class computes it;
 * `instanceof` its own class, methods and other getters are lost, since a text must not say what to construct. The name of the
 * class is for people who read the text.
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
        // A subclass saved as its base keeps what it has from its prototype.
        return (key === "name" && value.name !== tag) || (key === "message" && value.message !== "");
      });
      // An error of the old style is a plain object inside.
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

/** Made without a trace of where we are: it is thrown away, and takes a kilobyte. */
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
