import { types } from "node:util";
import { encode } from "./encode";
import { type Arguments, argumentsOf, freshOf, INSTANCE_CLASSES, type InstanceClass, propertyOf } from "./instances";
import {
  define,
  elementType,
  innerKind,
  innerKindOfPlain,
  isBareView,
  isPartOf,
  type JsonRecord,
  memoryOf,
  put,
  TYPED_ARRAYS,
  type TypedArray,
} from "./kind";

/** The result of a copy that can't be exact. */
export const NO_COPY: unique symbol = Symbol("no copy");

const OBJECT = Object.prototype;
const ARRAY = Array.prototype;
/** An empty list is the common case. */
const symbolsOf = Object.getOwnPropertySymbols;
/** Values nested deeper than this are left to the codec, which counts exactly. */
const MAX_DEPTH = 200;
/** How deeply arguments may be nested, as `new AIMessage({...message})` nests them. */
const MAX_LINKS = 20;

/** Copies a part, or answers {@link NO_COPY}. */
type CopyPart = (value: unknown) => unknown;
type Copier = (value: object, part: CopyPart) => unknown;
type Instance = Record<string | symbol, unknown>;

const COPIERS: ReadonlyMap<object, Copier> = new Map<object, Copier>([
  [Date.prototype, (value) => (isBareDate(value) ? new Date(Date.prototype.getTime.call(value)) : NO_COPY)],
  [Map.prototype, copyMap],
  [Set.prototype, copySet],
  [Buffer.prototype, (value) => copyBytes(value as TypedArray, "Uint8Array", (bytes) => Buffer.from(bytes))],
  ...TYPED_ARRAYS.map((type): [object, Copier] => [
    type.prototype,
    (value) => copyBytes(value as TypedArray, type.name, (bytes) => new type(Uint8Array.from(bytes).buffer)),
  ]),
  ...INSTANCE_CLASSES.map(instanceCopier),
]);

/**
 * A deep copy that shares only primitives with the value. It equals `decode(encode(value))`: same classes, same keys, same order.
 * Returns {@link NO_COPY} for values that `encode` would refuse, and for anything but plain data, the most common built-in
 * classes, and LangChain and LangGraph classes in their usual form. A copy can be copied again.
 */
export function copyOf(value: unknown): unknown {
  try {
    return new Copying().part(value);
  } catch {
    // A getter, a proxy or a stack overflow: the codec words the error.
    return NO_COPY;
  }
}

class Copying {
  readonly #ancestors: object[] = [];
  readonly part = (value: unknown): unknown => {
    if (typeof value === "object" && value !== null) return this.#object(value);
    return typeof value === "function" || typeof value === "symbol" ? NO_COPY : value;
  };

  #object(value: object): unknown {
    const ancestors = this.#ancestors;
    if (ancestors.length >= MAX_DEPTH || ancestors.includes(value)) return NO_COPY;
    const prototype = Object.getPrototypeOf(value) as object;
    ancestors.push(value);
    let copy: unknown = NO_COPY;
    if (prototype === OBJECT) copy = this.#record(value as JsonRecord);
    else if (prototype !== ARRAY) copy = COPIERS.get(prototype)?.(value, this.part) ?? NO_COPY;
    else if (Array.isArray(value)) copy = this.#list(value);
    ancestors.pop();
    return copy;
  }

  #record(value: JsonRecord): unknown {
    if (symbolsOf(value).length > 0) return NO_COPY;
    const copy: JsonRecord = { ...value };
    const keys = Object.keys(copy);
    if (innerKindOfPlain(value, keys) !== undefined) return NO_COPY;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as string;
      const part = copy[key];
      if (typeof part !== "object" && typeof part !== "function" && typeof part !== "symbol") continue;
      if (part === null) continue;
      const own = this.part(part);
      if (own === NO_COPY) return NO_COPY;
      put(copy, key, own);
    }
    return copy;
  }

  #list(value: readonly unknown[]): unknown {
    if (!isBareList(value)) return NO_COPY;
    const copy: unknown[] = [];
    for (let i = 0; i < value.length; i++) {
      const part = this.part(value[i]);
      if (part === NO_COPY) return NO_COPY;
      copy.push(part);
    }
    return copy;
  }
}

/** Also false for lists with holes: if there are as many keys as elements, a hole means that some key isn't an element. */
export function isBareList(value: readonly unknown[]): boolean {
  const keys = Object.keys(value);
  const { length } = value;
  return keys.length === length && symbolsOf(value).length === 0 && (length === 0 || keys[length - 1] === String(length - 1));
}

/** True if a value has no own properties, because those would be saved too. */
export function isBare(value: object): boolean {
  return Object.keys(value).length === 0 && symbolsOf(value).length === 0;
}

export function isBareDate(value: object): value is Date {
  return types.isDate(value) && isBare(value);
}

/**
 * The bytes of a typed array, or undefined where the codec decides: empty arrays (it tells detached memory from empty memory),
 * arrays on anything but a plain ArrayBuffer, and arrays with extra properties.
 */
export function bytesOf(value: object): Buffer | undefined {
  if (!types.isTypedArray(value) || value.byteLength === 0 || memoryOf(value) !== undefined || !isBareView(value))
    return undefined;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

function copyBytes(value: TypedArray, type: string, made: (bytes: Buffer) => TypedArray): unknown {
  const bytes = bytesOf(value);
  return bytes === undefined || elementType(value) !== type ? NO_COPY : made(bytes);
}

function copyMap(value: object, part: CopyPart): unknown {
  if (!types.isMap(value) || !isBare(value)) return NO_COPY;
  const copy = new Map<unknown, unknown>();
  for (const [key, item] of Map.prototype.entries.call(value) as IterableIterator<[unknown, unknown]>) {
    const ownKey = part(key);
    const ownItem = part(item);
    if (ownKey === NO_COPY || ownItem === NO_COPY) return NO_COPY;
    copy.set(ownKey, ownItem);
  }
  return copy;
}

function copySet(value: object, part: CopyPart): unknown {
  if (!types.isSet(value) || !isBare(value)) return NO_COPY;
  const copy = new Set<unknown>();
  for (const item of Set.prototype.values.call(value) as IterableIterator<unknown>) {
    const own = part(item);
    if (own === NO_COPY) return NO_COPY;
    copy.add(own);
  }
  return copy;
}

/** Copies instances that have all properties of a fresh one, in its order. The codec handles all others. */
function instanceCopier(type: InstanceClass): [object, Copier] {
  const { prototype, args: place } = type;

  const copyInstance = (value: Instance, part: CopyPart): unknown => {
    const { names: expected, known, atSymbol } = freshOf(type);
    const keys = Object.keys(value);
    // Two further properties would be restored in the order of the arguments.
    if (keys.length > expected.length + 1 || !isUsual(value, keys, expected) || innerKind(value) !== undefined) return NO_COPY;
    const args = argumentsOf(value, type);
    if (args === undefined && place !== undefined) return NO_COPY;
    const copy = Object.create(prototype) as Instance;
    for (let i = 0; i < expected.length; i++) {
      const key = expected[i] as string;
      const original = value[key];
      const own = typeof original === "string" ? original : key === place ? undefined : part(original);
      if (own === NO_COPY) return NO_COPY;
      copy[key] = own;
    }
    const further = keys[expected.length];
    if (further !== undefined) {
      const own = part(value[further]);
      if (own === NO_COPY) return NO_COPY;
      define(copy, further, own);
    }
    if (type.symbol !== undefined) copy[type.symbol] = atSymbol;
    if (args === undefined) return copy;
    const ownArgs = copyArguments(args, value, copy, type, known, part);
    if (ownArgs === NO_COPY) return NO_COPY;
    copy[place as string] = ownArgs;
    return copy;
  };
  return [prototype, copyInstance as Copier];

  /** True if the instance has the properties of a fresh one first, and its symbol. */
  function isUsual(value: Instance, keys: readonly string[], expected: readonly string[]): boolean {
    if (keys.length < expected.length) return false;
    for (let i = 0; i < expected.length; i++) if (keys[i] !== expected[i]) return false;
    const symbols = symbolsOf(value);
    return type.symbol === undefined ? symbols.length === 0 : symbols.length === 1 && symbols[0] === type.symbol;
  }
}

/**
 * The constructor arguments of a copy. The text keeps the name of each, and its value unless the property made from it holds the
 * same value.
 *
 * @param known properties that both have
 */
function copyArguments(
  args: Arguments,
  original: JsonRecord,
  copy: JsonRecord,
  type: InstanceClass,
  known: ReadonlySet<string>,
  part: CopyPart,
  links = 0,
): unknown {
  const marked = isMarked(args, type);
  if (marked === undefined || links > MAX_LINKS) return NO_COPY;
  const result: Arguments = { ...args };
  const keys = Object.keys(result);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string;
    const argument = result[key];
    let value: unknown;
    if (known.has(key) && key !== type.args && Object.is(argument, original[key])) {
      if (typeof argument === "object") result[key] = copy[key];
      continue;
    }
    if (key === type.args) {
      const inner = argumentsOf(args, type);
      value = inner === undefined ? part(argument) : copyArguments(inner, original, copy, type, known, part, links + 1);
    } else if (Object.hasOwn(original, key) !== Object.hasOwn(copy, key)) return NO_COPY;
    else if (isAlias(args, key, original, type)) value = copy[propertyOf(key, type)];
    else {
      value = part(argument);
      // A part that the argument shares with the property would be in the copy twice. The codec wouldn't recognise it as shared,
      // and would write another text.
      const property = propertyOf(key, type);
      if (isPartOf(argument, original[property]) && !isPartOf(value, copy[property])) return NO_COPY;
    }
    if (value === NO_COPY) return NO_COPY;
    put(result, key, value);
  }
  if (marked) result[type.symbol as symbol] = true;
  return result;
}

/**
 * Whether the arguments carry the symbol of the class. Undefined if they have more properties that aren't enumerable, or other
 * symbols.
 */
function isMarked(args: Arguments, type: InstanceClass): boolean | undefined {
  const place = type.args as string;
  if (Object.hasOwn(args, place) && !Object.prototype.propertyIsEnumerable.call(args, place)) return undefined;
  const symbols = symbolsOf(args);
  if (symbols.length === 0) return false;
  return symbols.length === 1 && symbols[0] === type.symbol && type.symbol !== type.args ? true : undefined;
}

/** True if the property stands for the argument, even where the argument is outdated. */
function isAlias(args: Arguments, key: string, value: JsonRecord, type: InstanceClass): boolean {
  const property = propertyOf(key, type);
  if (!Object.hasOwn(value, property)) return false;
  const [argument, current] = [args[key], value[property]];
  if (Object.is(argument, current)) return true;
  if (type.keepStaleArgs !== true && !isPartOf(argument, current)) return true;
  return encode(argument) === encode(current);
}
