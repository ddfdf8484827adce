import { types } from "node:util";
import { kindOf, type Kind } from "./kind";
import { open } from "./marker";
import { malformed, onlyKeys } from "./node";
import { isOfNativeClass } from "./prototypes";

/** What an error keeps in properties that are not enumerable. Enumerable ones, whatever their name, are further properties. */
const HIDDEN = ["name", "message", "stack", "cause", "errors"] as const;

function errorKind(tag: string, prototype: Error, make: () => Error): Kind {
  return kindOf<Error>({
    tag,
    prototype,
    levels: 2,
    accepts: (value) => types.isNativeError(value) && isOfNativeClass(value),
    write(value, writer) {
      const keys = HIDDEN.filter((key) => {
        const own = Object.getOwnPropertyDescriptor(value, key);
        // A subclass saved as its base keeps its name, which it may have from its prototype.
        return own === undefined ? key === "name" && value.name !== tag : own.enumerable !== true;
      });
      return `${open(tag)},"v":${writer.record(value, keys)}${writer.extras(value)}}`;
    },
    read(node, reader) {
      onlyKeys(node, "v", "p");
      const fields = reader.fields(node, "v");
      const value = make();
      for (const key of HIDDEN) delete (value as unknown as Record<string, unknown>)[key];
      for (const key of Object.keys(fields)) {
        if (!(HIDDEN as readonly string[]).includes(key)) throw malformed(node);
        Object.defineProperty(value, key, { value: fields[key], enumerable: false, configurable: true, writable: true });
      }
      return reader.extras(node, value);
    },
  });
}

export const ERROR_KINDS: readonly Kind[] = [
  ...[Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError].map((type) =>
    errorKind(type.name, type.prototype, () => new type()),
  ),
  errorKind("AggregateError", AggregateError.prototype, () => new AggregateError([])),
];
