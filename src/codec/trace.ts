import { types } from "node:util";
import { INSTANCE_CLASSES, type InstanceClass, MESSAGE, propertyOf } from "./instances";
import { bytesOf, copyOf, isBare, isBareDate, isBareList, NO_COPY } from "./copy";
import { define, elementType, mayHideContent, TYPED_ARRAYS } from "./kind";

/*
 * A save compares each value with a private copy of what was saved in its place (decision 6). The cost is reading memory, so a
 * copy is split: its shape, which it shares with others, and its primitives, in one list of slots.
 */

const ARGUMENTS = "lc_kwargs";
/** The classes whose instances are their own enumerable properties and at most one symbol, arguments included. */
const RECORDS: ReadonlySet<unknown> = new Set<unknown>([
  Object.prototype,
  ...INSTANCE_CLASSES.filter(({ args }) => args === undefined || args === ARGUMENTS).map(({ prototype }) => prototype),
]);
const OWNING_SYMBOL: ReadonlySet<unknown> = new Set<unknown>(
  INSTANCE_CLASSES.filter(({ symbol }) => symbol !== undefined).map(({ prototype }) => prototype),
);
const CLASSES: ReadonlyMap<unknown, InstanceClass> = new Map<unknown, InstanceClass>(
  INSTANCE_CLASSES.map((type) => [type.prototype, type]),
);
const symbolsOf = Object.getOwnPropertySymbols;
/** Each takes one slot: the private copy itself. */
const LEAVES: ReadonlySet<unknown> = new Set<unknown>([
  Date.prototype,
  Buffer.prototype,
  ...TYPED_ARRAYS.map(({ prototype }) => prototype),
]);
/** How many shapes with the same prototype are searched for an equal one. */
const SHAPES_MAX = 32;

/**
 * The form of a private copy without its primitives: prototype, keys, and the shapes of its parts. Messages of one kind share one
 * shape. Their primitives lie behind one another in one list of slots, in the order in which they are visited. A save compares
 * thousands of messages, so it must read little memory.
 */
export class Shape {
  readonly size: number;
  /** Whether an object with these keys may hold more than the keys show. */
  readonly mayHide: boolean;
  readonly hasArguments: boolean;
  readonly symbols: 0 | 1;
  /** Whether {@link remade} gives what the text would. Arguments within arguments may share parts with the instance. */
  readonly canBeRemade: boolean;
  /** Keys that the prototype has, too: setting one may call a setter. */
  readonly inherited: ReadonlySet<string> | undefined;

  /**
   * @param keys of a record
   * @param isMarked of arguments: whether they carry the symbol of messages, as after `new AIMessage({...message})`
   */
  constructor(
    readonly prototype: unknown,
    readonly keys: readonly string[] | undefined,
    readonly kids: readonly Kid[],
    readonly isMarked = false,
  ) {
    this.symbols = isMarked || OWNING_SYMBOL.has(prototype) ? 1 : 0;
    this.size = LEAVES.has(prototype) ? 1 : 0;
    this.mayHide = keys !== undefined && mayHideContent(keys);
    this.hasArguments = keys?.includes(ARGUMENTS) === true;
    this.canBeRemade =
      !(this.hasArguments && prototype === Object.prototype) && kids.every((kid) => typeof kid !== "object" || kid.canBeRemade);
    const inherited = keys?.filter((key) => key in (prototype as object)) ?? [];
    this.inherited = inherited.length === 0 ? undefined : new Set(inherited);
    for (const kid of kids) this.size += kid === undefined ? 1 : typeof kid === "string" ? 0 : kid.size;
  }
}

/**
 * What a key holds: a part, a primitive, or (as a name) an argument that is the same object as the instance's property of that
 * name.
 */
type Kid = Shape | string | undefined;

type Owner = Readonly<Record<string, unknown>>;

const PRIMITIVE = new Shape(undefined, undefined, [undefined]);

/** Splits copies into shape and slots. Equal shapes become one, up to a limit. */
export class Tracer {
  /** By prototype, the last used one first. */
  readonly #shapes = new Map<unknown, Shape[]>();

  /**
   * @param copy a copy that {@link copyOf} made, or a primitive
   * @param slots gets the copy's primitives, at its end
   * @returns undefined for a copy that holds a Command; the slots are unchanged then
   */
  trace(copy: unknown, slots: unknown[]): Shape | undefined {
    const before = slots.length;
    const kid = this.#part(copy, undefined, slots);
    if (kid === false) slots.length = before;
    return kid === false ? undefined : (kid ?? PRIMITIVE);
  }

  #part(part: unknown, owner: Owner | undefined, slots: unknown[]): Exclude<Kid, string> | false {
    if (typeof part === "object" && part !== null) return this.#object(part, owner, slots);
    slots.push(part);
    return undefined;
  }

  /** @param owner the instance whose arguments these are */
  #object(copy: object, owner: Owner | undefined, slots: unknown[]): Shape | false {
    const prototype: unknown = Object.getPrototypeOf(copy);
    if (LEAVES.has(prototype)) {
      if (!isSameLeaf(copy, copy)) return false;
      slots.push(copy);
      return this.#shared(prototype, undefined, []);
    }
    if (RECORDS.has(prototype)) return this.#record(copy as Owner, prototype, owner, slots);
    const parts = elementsOf(copy, prototype);
    if (parts === undefined) return false;
    const kids: Kid[] = [];
    for (const part of parts) {
      const kid = this.#part(part, undefined, slots);
      if (kid === false) return false;
      kids.push(kid);
    }
    return this.#shared(prototype, undefined, kids);
  }

  #record(copy: Owner, prototype: unknown, owner: Owner | undefined, slots: unknown[]): Shape | false {
    const keys = Object.keys(copy);
    const kids: Kid[] = [];
    for (const key of keys) {
      const part = copy[key];
      const alias = owner === undefined || typeof part !== "object" || part === null ? undefined : aliasOf(key, part, owner);
      const kid = alias ?? this.#part(part, key === ARGUMENTS && isInstance(copy) ? copy : undefined, slots);
      if (kid === false) return false;
      kids.push(kid);
    }
    return this.#shared(prototype, keys, kids, prototype === Object.prototype && Object.hasOwn(copy, MESSAGE));
  }

  #shared(prototype: unknown, keys: readonly string[] | undefined, kids: readonly Kid[], isMarked = false): Shape {
    let shapes = this.#shapes.get(prototype);
    if (shapes === undefined) this.#shapes.set(prototype, (shapes = []));
    const at = shapes.findIndex(
      (shape) => shape.isMarked === isMarked && isEqual(shape.kids, kids) && isEqual(shape.keys ?? [], keys ?? []),
    );
    const shape = shapes[at] ?? new Shape(prototype, keys, kids, isMarked);
    if (at === 0) return shape;
    if (at > 0) shapes.splice(at, 1);
    else if (shapes.length >= SHAPES_MAX) shapes.pop();
    shapes.unshift(shape);
    return shape;
  }
}

/** Whether the arguments of this may be its own parts. Arguments within arguments are apart from those around them. */
function isInstance(owner: Owner): boolean {
  return Object.getPrototypeOf(owner) !== Object.prototype;
}

/** The property that an argument is the same object as. */
function aliasOf(argument: string, part: object, owner: Owner): string | undefined {
  const isPart = (property: string): boolean => Object.hasOwn(owner, property) && owner[property] === part;
  if (isPart(argument)) return argument;
  const type = CLASSES.get(Object.getPrototypeOf(owner));
  const renamed = type === undefined ? argument : propertyOf(argument, type);
  return isPart(renamed) ? renamed : undefined;
}

function isEqual(left: readonly unknown[], right: readonly unknown[]): boolean {
  if (left.length !== right.length) return false;
  for (let index = 0; index < left.length; index += 1) if (left[index] !== right[index]) return false;
  return true;
}

/** The parts of a list, a Set, or a Map (keys and values in turn). Undefined for anything else, and if it has other content. */
function elementsOf(value: object, prototype: unknown): readonly unknown[] | undefined {
  if (prototype === Array.prototype) return isBareList(value as readonly unknown[]) ? (value as readonly unknown[]) : undefined;
  if (!isBare(value)) return undefined;
  if (prototype === Set.prototype && types.isSet(value)) return [...(Set.prototype.values.call(value) as Iterable<unknown>)];
  if (prototype !== Map.prototype || !types.isMap(value)) return undefined;
  return [...(Map.prototype.entries.call(value) as Iterable<[unknown, unknown]>)].flat(1);
}

function isSameLeaf(copy: object, value: object): boolean {
  if (isBareDate(copy)) return isBareDate(value) && Object.is(copy.getTime(), Date.prototype.getTime.call(value));
  const [own, bytes] = [bytesOf(copy), bytesOf(value)];
  return own !== undefined && bytes !== undefined && elementType(copy) === elementType(value) && own.equals(bytes);
}

/**
 * How to compare. Strings that are one object are compared without reading them, so the slots can adopt the value's own strings.
 */
export const PLAIN = 0;
export const ADOPTING = 1;
/** Also checks for symbol keys, and for arguments that are parts of the instance though the copy has them apart. */
export const EXACT = 2;
type How = typeof PLAIN | typeof ADOPTING | typeof EXACT;

/**
 * Whether a value is exactly like the split copy, so that the codec gives one text for both. Two checks are left out because they
 * take as long as all others together: symbol keys (unless asked for), and values like a Map with the prototype of a plain
 * object. The codec would refuse both, and none of their content can be saved. Getters and proxies count as what they answer.
 *
 * @param at where the copy's slots begin
 * @returns where they end; -1 if the value differs
 */
export function matches(shape: Shape, slots: unknown[], at: number, value: unknown, how: How = PLAIN): number {
  try {
    return isLikePart(shape === PRIMITIVE ? undefined : shape, slots, at, value, how);
  } catch {
    return -1;
  }
}

function isLikePart(kid: Kid, slots: unknown[], at: number, part: unknown, how: How): number {
  if (typeof kid === "object") {
    return typeof part === "object" && part !== null ? isLike(kid, slots, at, part as Owner, undefined, how) : -1;
  }
  if (!Object.is(slots[at], part)) return -1;
  if (how === ADOPTING) slots[at] = part;
  return at + 1;
}

/** @param owner what has the value as constructor arguments */
function isLike(shape: Shape, slots: unknown[], at: number, value: Owner, owner: Owner | undefined, how: How): number {
  const { prototype, keys, kids } = shape;
  if (Object.getPrototypeOf(value) !== prototype) return -1;
  if (how === EXACT && symbolsOf(value).length > shape.symbols) return -1;
  if (keys === undefined) return isLikeBuiltIn(shape, slots, at, value, how);
  let index = 0;
  let next = at;
  // The only way to read all properties for which V8 builds no list of them.
  for (const key in value) {
    if (key !== keys[index]) return -1;
    const kid = kids[index];
    const part = value[key];
    if (kid === undefined) {
      // Not ===: it reads a string even if both sides are the same one. The strings of a long thread are no longer in the processor's cache.
      if (!Object.is(slots[next], part)) return -1;
      if (how === ADOPTING) slots[next] = part;
      next += 1;
    } else if (typeof kid === "string") {
      if (owner === undefined || owner[kid] !== part) return -1;
    } else {
      if (typeof part !== "object" || part === null) return -1;
      if (how === EXACT && owner !== undefined && isInstance(owner) && aliasOf(key, part, owner) !== undefined) return -1;
      next = isLike(kid, slots, next, part as Owner, key === ARGUMENTS ? value : undefined, how);
      if (next < 0) return -1;
    }
    index += 1;
  }
  if (index !== keys.length || (shape.mayHide && prototype === Object.prototype && isArguments(value))) return -1;
  return owner === undefined || !hasMore(shape, value) ? next : -1;
}

function isLikeBuiltIn({ prototype, kids }: Shape, slots: unknown[], at: number, value: object, how: How): number {
  if (prototype === Array.prototype) return isLikeList(kids, slots, at, value as readonly unknown[], how);
  if (LEAVES.has(prototype)) return isSameLeaf(slots[at] as object, value) ? at + 1 : -1;
  const parts = elementsOf(value, prototype);
  if (parts?.length !== kids.length) return -1;
  let next = at;
  for (let index = 0; index < kids.length && next >= 0; index += 1) {
    next = isLikePart(kids[index], slots, next, parts[index], how);
  }
  return next;
}

function isLikeList(kids: readonly Kid[], slots: unknown[], at: number, value: readonly unknown[], how: How): number {
  const { length } = value;
  if (!Array.isArray(value) || length !== kids.length) return -1;
  if (length === 0) return hasNoProperties(value) ? at : -1;
  // There are as many keys as elements and the last key is an index. Integer keys come first, so all keys are indexes.
  const keys = Object.keys(value);
  if (keys.length !== length || keys[length - 1] !== String(length - 1)) return -1;
  let next = at;
  for (let index = 0; index < length; index += 1) {
    const part: unknown = value[index];
    if (part === undefined && !Object.hasOwn(value, index)) return -1;
    next = isLikePart(kids[index], slots, next, part, how);
    if (next < 0) return -1;
  }
  return next;
}

/** Doesn't build a list of the properties, as `Object.keys` would. */
function hasNoProperties(value: object): boolean {
  for (const key in value) if (Object.hasOwn(value, key)) return false;
  return true;
}

/** Whether it's the `arguments` of a function. The codec sees that, its keys don't show it. */
function isArguments(value: Owner): boolean {
  return value["length"] !== undefined && types.isArgumentsObject(value);
}

/**
 * Whether what a constructor was called with has something that the codec reads and its keys don't show: the arguments of another object,
 * or the symbol that marks messages, which it had or hadn't when it was encoded.
 */
function hasMore({ hasArguments, isMarked }: Shape, value: Owner): boolean {
  return (!hasArguments && Object.hasOwn(value, ARGUMENTS)) || Object.hasOwn(value, MESSAGE) !== isMarked;
}

/**
 * The value of a split copy, equal to what the codec reads from its text, and sharing only primitives with it. Takes a fifth of the time
 * of reading the text.
 *
 * @param shape one that can be remade
 * @param at where the copy's slots begin
 */
export function remade(shape: Shape, slots: readonly unknown[], at: number): unknown {
  return shape === PRIMITIVE ? slots[at] : new Remaking(slots, at).object(shape);
}

class Remaking {
  readonly #slots: readonly unknown[];
  #next: number;

  constructor(slots: readonly unknown[], at: number) {
    this.#slots = slots;
    this.#next = at;
  }

  object(shape: Shape): object {
    const { prototype, keys, kids } = shape;
    if (keys !== undefined) return prototype === Object.prototype ? this.#fill({}, shape) : this.#instance(shape);
    if (prototype === Array.prototype) return kids.map((kid) => this.#part(kid));
    if (prototype === Set.prototype) return new Set(kids.map((kid) => this.#part(kid)));
    if (prototype === Map.prototype) return this.#map(kids);
    return copyOf(this.#slots[this.#next++]) as object;
  }

  #part(kid: Kid): unknown {
    return typeof kid === "object" ? this.object(kid) : this.#slots[this.#next++];
  }

  #map(kids: readonly Kid[]): object {
    const map = new Map<unknown, unknown>();
    for (let index = 0; index < kids.length; index += 2) {
      const key = this.#part(kids[index]);
      map.set(key, this.#part(kids[index + 1]));
    }
    return map;
  }

  #instance(shape: Shape): object {
    const value = this.#fill(Object.create(shape.prototype as object) as Record<string | symbol, unknown>, shape);
    if (shape.symbols > 0) value[MESSAGE] = true;
    const args = shape.hasArguments ? shape.kids[(shape.keys as readonly string[]).indexOf(ARGUMENTS)] : undefined;
    if (typeof args !== "object") return value;
    const own = value[ARGUMENTS] as Record<string | symbol, unknown>;
    for (let index = 0; index < args.kids.length; index += 1) {
      const property = args.kids[index];
      if (typeof property === "string") own[(args.keys as readonly string[])[index] as string] = value[property];
    }
    if (args.isMarked) own[MESSAGE] = true;
    return value;
  }

  /** Arguments are among the first properties: those that are the instance's own parts have to wait for these. */
  #fill(value: Record<string | symbol, unknown>, { keys = [], kids, inherited }: Shape): Record<string | symbol, unknown> {
    for (let index = 0; index < kids.length; index += 1) {
      const kid = kids[index];
      const part = kid === undefined ? this.#slots[this.#next++] : typeof kid === "object" ? this.object(kid) : undefined;
      const key = keys[index] as string;
      if (inherited?.has(key) === true) define(value, key, part);
      else value[key] = part;
    }
    return value;
  }
}

const tracer = new Tracer();

/** A copy that nobody else holds. Users may change their value at any time; the copy stays. */
export class PrivateCopy {
  /** Never handed out, and never changed. */
  readonly value: unknown;
  #trace: { readonly shape: Shape | undefined; readonly slots: unknown[] } | undefined;

  private constructor(value: unknown) {
    this.value = value;
  }

  /** @returns undefined for what {@link copyOf} does not copy */
  static of(value: unknown): PrivateCopy | undefined {
    const copy = copyOf(value);
    return copy === NO_COPY ? undefined : new PrivateCopy(copy);
  }

  /**
   * A copy of what was just decoded, which nobody else holds. It's kept as it is: {@link copyOf} would give what the codec makes of it when
   * it's saved again, with outdated arguments left out.
   */
  static read(value: unknown): PrivateCopy {
    return new PrivateCopy(value);
  }

  /** What a value is compared with; no shape if there is nothing to compare. Split on first use. */
  get trace(): { readonly shape: Shape | undefined; readonly slots: unknown[] } {
    if (this.#trace !== undefined) return this.#trace;
    const slots: unknown[] = [];
    return (this.#trace = { shape: tracer.trace(this.value, slots), slots });
  }

  /** Whether a value is saved as the same text; false may mean that it wasn't checked closely. */
  isLike(value: unknown, how: How = PLAIN): boolean {
    const { shape, slots } = this.trace;
    return shape !== undefined && matches(shape, slots, 0, value, how) >= 0;
  }
}

/** The shapes of decoded values (null for a value without one). Their slots are appended to those given. */
export function shapesOf(values: readonly unknown[], slots: unknown[]): (Shape | null)[] {
  return values.map((value) => tracer.trace(value, slots) ?? null);
}
