import { types } from "node:util";
import type { EncodeOptions } from "./options";
import { unserializable } from "./failures";
import { hasHiddenState, hidesContent, innerKind, innerKindOfPlain } from "./hidden";
import type { Writing } from "./kind";
import { finiteNumbers, isDense, isIndex } from "./lists";
import { MARKER, MAX_LEVELS, open, tagged, type JsonRecord } from "./marker";
import { Place, renderPath, type Segment } from "./path";
import { instanceOf, isPlainPrototype, ownToJson } from "./prototypes";
import { quote } from "./quote";
import { ofSubclass } from "./error-values";
import { errorKindFor, kindFor, nearestKind } from "./table";

const OBJECT = Object.prototype;
const ARRAY = Array.prototype;

/**
 * Writes one value as JSON text. The properties of plain objects are read exactly once, so what was checked is what is written,
 * even with getters and proxies. A writer serves one value: after an error its trail still points at the culprit.
 */
export class Writer implements Writing {
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

  /** The JSON text of any value. Throws UNSERIALIZABLE_VALUE, or whatever a getter throws. */
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
      // These make a value of another kind also where they are not enumerable.
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

  /** Writes parts one by one: what `write` asks for lies in this list or object. Only for the whole value. */
  within<T>(owner: object, write: () => T): T {
    this.ancestors.push(owner);
    this.levels++;
    const result = write();
    this.levels--;
    this.ancestors.pop();
    return result;
  }

  /** Where the writer is. */
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
    // A marker key that is not enumerable is not written, so there is nothing to escape. Asked once: a proxy may answer differently.
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

  /** Drops the class and keeps the data: what `toJSON` returns, else the built-in the class extends, else its properties. */
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
