import { types } from "node:util";
import { TurnsError } from "../errors";
import { ERROR_KINDS, ofSubclass } from "./built-ins";
import { foundAt, isStackOverflow, unserializable } from "./failures";
import { KINDS } from "./table";
import {
  chainLength,
  classNameOf,
  finiteNumbers,
  hasHiddenState,
  hidesContent,
  innerKind,
  innerKindOfPlain,
  instanceOf,
  isDense,
  isIndex,
  isPlainPrototype,
  type JsonRecord,
  type Kind,
  MARKER,
  MAX_LEVELS,
  open,
  ownToJson,
  parentOf,
  quote,
  tagged,
  type Writing,
} from "./kind";

/** What to do with values that the codec has no exact form for. */
export interface EncodeOptions {
  /**
   * Instances of classes the codec doesn't know. `"error"` (the default) refuses them. `"plain"` drops the class and saves the
   * result of `toJSON()`; without one, the nearest class the codec knows that they extend; without that, their own enumerable
   * properties.
   */
  classInstances?: "error" | "plain";
  /** An object inside the value whose text is already known, with that text. */
  written?: { readonly value: object; readonly text: string };
}

/**
 * Encodes a value as JSON text. {@link decode} turns the text into an equal value of the same types.
 *
 * Plain JSON values give what `JSON.stringify` gives. A list without holes gives `[`, the texts of its elements joined by commas,
 * and `]`. The value isn't changed; a part that is referenced twice is written twice. An error of a custom class is restored as
 * the built-in class it extends, with its name and everything it holds, but `constructor.name` and `instanceof` differ.
 *
 * @throws UNSERIALIZABLE_VALUE, with the path to the culprit in the message and in `data.path`, for functions, symbols, cycles,
 *   unknown classes, `arguments`, bytes in shared or resizable memory, values whose prototype was exchanged, getters and `toJSON`
 *   that throw, and more than 2,000 levels of nesting
 */
export function encode(value: unknown, options?: EncodeOptions): string {
  return writing(options, (writer) => writer.value(value));
}

/** Runs a writer of one value. Every error becomes UNSERIALIZABLE_VALUE. */
function writing<T>(options: EncodeOptions | undefined, write: (writer: Writer) => T): T {
  const writer = new Writer(options?.classInstances === "plain", options?.written);
  try {
    return write(writer);
  } catch (error) {
    if (TurnsError.is(error, "UNSERIALIZABLE_VALUE")) throw error;
    throw unserializable(writer.path(), foundAt(error), isStackOverflow(error) ? undefined : error);
  }
}

/**
 * The texts of a value's children. `[` + texts + `]`, or `{` + quoted keys with their texts + `}`, joined by commas, is the text of
 * the value.
 */
type EncodedParts =
  | { readonly kind: "list"; readonly texts: string[] }
  | { readonly kind: "record"; readonly keys: string[]; readonly texts: string[] };

/**
 * What `encode` would write, one text per child. Undefined for a value that isn't written as its children alone. Only two kinds
 * are: plain objects without the marker key, and lists without holes and extra properties that aren't vectors of numbers.
 * @throws UNSERIALIZABLE_VALUE as `encode` does, with the same path
 */
export function encodeParts(value: unknown, options?: EncodeOptions): EncodedParts | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  return writing(options, (writer) => {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === Object.prototype) return recordParts(value as JsonRecord, writer);
    return prototype === Array.prototype && Array.isArray(value) ? listParts(value, writer) : undefined;
  });
}

/**
 * The text of one child of a list or a record, where the rest of the value is already known.
 * @throws UNSERIALIZABLE_VALUE as `encode` of the whole does, with the same path
 */
export function encodePart(value: object, key: number | string, options?: EncodeOptions): string {
  return writing(options, (writer) => writer.within(value, () => writer.at(key, (value as JsonRecord)[key])));
}

function recordParts(value: JsonRecord, writer: Writer): EncodedParts | undefined {
  const keys = Object.keys(value);
  if (keys.includes(MARKER)) return undefined;
  return writer.within(value, () => {
    if (innerKindOfPlain(value, keys) !== undefined) writer.refuseInnerKind(value);
    writer.refuseSymbols(value);
    return { kind: "record", keys, texts: keys.map((key) => writer.at(key, value[key])) };
  });
}

function listParts(value: readonly unknown[], writer: Writer): EncodedParts | undefined {
  return writer.within(value, () => {
    writer.refuseSymbols(value);
    if (!isDense(value) || (value.length > 0 && finiteNumbers(value) !== undefined)) return undefined;
    return { kind: "list", texts: value.map((item, index) => writer.at(index, item)) };
  });
}

const OBJECT = Object.prototype;
const ARRAY = Array.prototype;

/**
 * Writes one value as JSON text. Each property of a plain object is read exactly once, so the writer writes what it checked, even
 * with getters and proxies. A writer serves one value: after an error its trail still points at the culprit.
 */
class Writer implements Writing {
  private readonly ancestors: object[] = [];
  /** `trail[i]` is the step from `ancestors[i]` to the part being written. */
  private readonly trail: (Segment | undefined)[] = [];
  private levels = 0;

  /**
   * @param plain write instances of unknown classes as plain objects instead of refusing them
   * @param written an object whose text is known
   */
  constructor(
    private readonly plain: boolean,
    private readonly written?: EncodeOptions["written"],
  ) {}

  /** The JSON text of any value. Throws UNSERIALIZABLE_VALUE, or any error that a getter throws. */
  value(value: unknown): string {
    switch (typeof value) {
      case "string":
        return quote(value);
      case "number":
        if (value === 0) return Object.is(value, -0) ? tagged("number", '"-0"') : "0";
        return Number.isFinite(value) ? `${value}` : tagged("number", `"${value}"`);
      case "boolean":
        return value ? "true" : "false";
      case "undefined":
        return `${open("undefined")}}`;
      case "bigint":
        return tagged("bigint", `"${value}"`);
      case "object":
        return value === null ? "null" : this.object(value);
      default:
        return this.fail(`a ${typeof value}`);
    }
  }

  at(segment: Segment, value: unknown): string {
    this.trail[this.ancestors.length - 1] = segment;
    return this.value(value);
  }

  atPlace(place: string, value: unknown): string {
    return this.at(new Place(place), value);
  }

  record(source: object, keys: readonly string[] = Object.keys(source)): string {
    const slot = this.ancestors.length - 1;
    let text = "{";
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as string;
      this.trail[slot] = key;
      const name = quote(key);
      text += `${i === 0 ? "" : ","}${name}:${this.value((source as JsonRecord)[key])}`;
    }
    this.trail[slot] = undefined;
    return `${text}}`;
  }

  extras(value: object): string {
    this.refuseSymbols(value);
    const keys = Object.keys(value);
    return keys.length === 0 ? "" : `,"p":${this.record(value, keys)}`;
  }

  refuseSymbols(value: object, known?: symbol): void {
    const symbols = Object.getOwnPropertySymbols(value);
    for (const symbol of symbols) {
      if (symbol !== known && Object.prototype.propertyIsEnumerable.call(value, symbol))
        this.fail("a property with a symbol as its key");
      // These change the kind of a value even where they aren't enumerable.
      if (symbol === Symbol.toStringTag)
        this.fail(`an object tagged ${JSON.stringify((value as { [symbol]: unknown })[symbol])}`);
      if (symbol === Symbol.iterator) this.fail("an object with an iterator of its own");
    }
  }

  refuseInnerKind(value: object): void {
    const kind = innerKind(value);
    if (kind === undefined) return;
    if (types.isArgumentsObject(value)) this.fail(`${kind}; save an array of them, [...arguments]`);
    this.fail(`${kind} with another prototype`);
  }

  fail(found: string): never {
    throw unserializable(this.path(), found);
  }

  /** Writes parts one by one, as parts of this list or object. Only for the whole value. */
  within<T>(owner: object, write: () => T): T {
    this.ancestors.push(owner);
    this.levels++;
    const result = write();
    this.levels--;
    this.ancestors.pop();
    return result;
  }

  path(): string {
    return renderPath(this.trail.slice(0, this.ancestors.length));
  }

  private object(value: object): string {
    if (value === this.written?.value) return this.written.text;
    const back = this.ancestors.indexOf(value);
    if (back >= 0) this.fail(`a cycle: it is ${back === 0 ? "the whole value" : renderPath(this.trail.slice(0, back))} again`);
    if (this.levels >= MAX_LEVELS) this.fail(`more than ${MAX_LEVELS} levels of nesting`);
    const slot = this.ancestors.push(value) - 1;
    this.trail[slot] = undefined;
    const before = this.levels++;
    const prototype: unknown = Object.getPrototypeOf(value);
    let text: string;
    if (prototype === OBJECT) text = this.plainObject(value);
    else if (prototype === ARRAY && Array.isArray(value)) text = this.array(value);
    else text = this.special(value, prototype as object | null);
    this.levels = before;
    this.ancestors.pop();
    return text;
  }

  private plainObject(value: object): string {
    // A marker key that isn't enumerable isn't written, so nothing needs escaping. Asked once: a proxy may answer differently.
    const keys = Object.keys(value);
    if (innerKindOfPlain(value, keys) !== undefined) this.refuseInnerKind(value);
    this.refuseSymbols(value);
    if (!keys.includes(MARKER)) return this.record(value, keys);
    this.levels++;
    return tagged("object", this.record(value, keys));
  }

  private array(value: readonly unknown[]): string {
    this.refuseSymbols(value);
    const keys = Object.keys(value);
    if (!isDense(value, keys)) return this.sparseArray(value, keys);
    const numbers = finiteNumbers(value);
    if (numbers !== undefined) return JSON.stringify(numbers);
    const slot = this.ancestors.length - 1;
    let text = "[";
    for (let i = 0; i < value.length; i++) {
      this.trail[slot] = i;
      text += i === 0 ? this.value(value[i]) : `,${this.value(value[i])}`;
    }
    return `${text}]`;
  }

  private sparseArray(value: readonly unknown[], keys: readonly string[]): string {
    this.levels += 2;
    const indexes = keys.filter(isIndex);
    if (Object.getOwnPropertyNames(value).filter(isIndex).length > indexes.length)
      this.fail("a list with an element that isn't enumerable");
    let elements = "";
    for (const key of indexes) elements += `${elements === "" ? "" : ","}[${key},${this.at(Number(key), value[Number(key)])}]`;
    const rest = keys.slice(indexes.length);
    return `${open("Array")},"n":${value.length},"v":[${elements}]${rest.length === 0 ? "" : `,"p":${this.record(value, rest)}`}}`;
  }

  private special(value: object, prototype: object | null): string {
    if (prototype === null) {
      this.refuseInnerKind(value);
      this.refuseSymbols(value);
      this.levels++;
      return tagged("null-prototype", this.record(value));
    }
    const kind = kindFor(value, prototype);
    if (kind !== undefined) {
      this.levels += kind.levels - 1;
      return kind.write(value, this);
    }
    const base = errorKindFor(value, prototype);
    if (base !== undefined) {
      this.levels += base.levels - 1;
      return ofSubclass(base.write(value, this), prototype);
    }
    if (isPlainPrototype(prototype, "Object")) return this.plainObject(value);
    if (Array.isArray(value) && (this.plain || isPlainPrototype(prototype, "Array"))) return this.array(value);
    return this.plain ? this.unknownInstance(value) : this.fail(instanceOf(prototype));
  }

  /**
   * Drops the class and keeps the data: the result of `toJSON`, else the built-in that the class extends, else its properties.
   */
  private unknownInstance(value: object): string {
    const prototype = Object.getPrototypeOf(value) as object;
    if (hasHiddenState(value)) this.fail(instanceOf(prototype));
    const kind = nearestKind(prototype);
    const toJson = ownToJson(value, kind?.prototype);
    const data = toJson === undefined ? value : toJson.call(value, "");
    if (data !== value) return this.value(data);
    if (kind !== undefined) {
      this.levels += kind.levels - 1;
      return kind.write(value, this);
    }
    if (types.isBoxedPrimitive(value) && Object.keys(value).every(isIndex))
      return this.value((value as { valueOf(): unknown }).valueOf());
    if (innerKind(value) !== undefined || hidesContent(value)) this.fail(instanceOf(prototype));
    return this.plainObject(value);
  }
}

const BY_PROTOTYPE: ReadonlyMap<object, Kind> = new Map(KINDS.map((kind) => [kind.prototype, kind]));
const BY_NAME: ReadonlyMap<string, Kind> = new Map(KINDS.map((kind) => [kind.tag, kind]));

/**
 * The kind of a value, by its prototype. A prototype outside the table may still be the same class from another realm or a second
 * copy of a library. A subclass never passes, because its prototype chain is longer.
 */
function kindFor(value: object, prototype: object): Kind | undefined {
  const known = BY_PROTOTYPE.get(prototype);
  if (known !== undefined) return known;
  const kind = BY_NAME.get(classNameOf(prototype));
  return kind !== undefined && chainLength(prototype) === chainLength(kind.prototype) && kind.accepts(value) ? kind : undefined;
}

/** The first class of the table that a prototype descends from. */
function nearestKind(prototype: object): Kind | undefined {
  for (let current: object | null = prototype; current !== null; current = parentOf(current)) {
    const kind = BY_PROTOTYPE.get(current);
    if (kind !== undefined) return kind;
  }
  return undefined;
}

/** The built-in class that a custom error is saved as: the nearest one it extends. */
function errorKindFor(value: object, prototype: object): Kind | undefined {
  const kind = nearestKind(prototype);
  if (kind !== undefined && ERROR_KINDS.includes(kind)) return kind;
  const isError = types.isNativeError(value) || Object.prototype.toString.call(value) === "[object DOMException]";
  return isError ? BY_NAME.get("Error") : undefined;
}

/** One step from a value to a part of it. */
type Segment = string | number | Place;

/** A step that is neither a property nor an index, such as the key of a map entry. */
class Place {
  constructor(readonly text: string) {}
}

const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
const LONGEST_KEY = 60;
const HEAD = 32;
const TAIL = 8;

/**
 * For example `messages[3].additional_kwargs.fn`. An empty text stands for the value itself. Very long paths are shortened in the
 * middle.
 */
function renderPath(segments: readonly (Segment | undefined)[]): string {
  const steps = segments.filter((segment) => segment !== undefined);
  if (steps.length <= HEAD + TAIL) return steps.map(renderSegment).join("").replace(/^\./, "");
  return `${renderPath(steps.slice(0, HEAD))}…${steps.slice(-TAIL).map(renderSegment).join("")}`;
}

function renderSegment(segment: Segment): string {
  if (typeof segment === "number") return `[${segment}]`;
  if (segment instanceof Place) return segment.text;
  if (segment.length > LONGEST_KEY) return `[${JSON.stringify(`${segment.slice(0, LONGEST_KEY)}…`)}]`;
  return IDENTIFIER.test(segment) ? `.${segment}` : `[${JSON.stringify(segment)}]`;
}
