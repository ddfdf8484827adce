import { types } from "node:util";
import { INSTANCE_CLASSES } from "./classes";
import { mayHideContent } from "./hidden";
import { parentOf } from "./prototypes";

const ARGUMENTS = "lc_kwargs";
/** The classes whose instances are their own enumerable properties and at most one symbol, arguments included. */
const TRACEABLE: ReadonlySet<unknown> = new Set<unknown>([
  Object.prototype,
  ...INSTANCE_CLASSES.filter(({ args }) => args === undefined || args === ARGUMENTS).map(({ make }) => parentOf(make())),
]);
/** How many shapes with the same prototype are looked through for an equal one. */
const SHAPES_MAX = 32;

/**
 * What a private copy looks like, without its primitives: prototype, keys, and the same of its parts. Messages of one kind have one
 * shape; what tells them apart are their primitives, in the order in which they are met, and those of many messages lie behind one
 * another in one list of slots. A thousand messages are compared at every save, and what that costs is reading memory.
 */
export class Shape {
  /** @param keys undefined for a list */
  constructor(
    readonly prototype: unknown,
    readonly keys: readonly string[] | undefined,
    readonly kids: readonly Kid[],
  ) {}
}

/** What is at a key: a part, or a primitive, or (a name) an argument that is the same object as the instance's property of that name. */
type Kid = Shape | string | undefined;

type Owner = Readonly<Record<string, unknown>>;

/** Takes copies apart; equal shapes become one, up to a limit. */
export class Tracer {
  /** By prototype, the one that was used last first. */
  readonly #shapes = new Map<unknown, Shape[]>();

  /**
   * @param slots takes the copy's primitives, at its end
   * @returns undefined, and the slots as they were, for a copy that holds anything but plain data and instances of the usual classes
   */
  trace(copy: unknown, slots: unknown[]): Shape | undefined {
    const before = slots.length;
    const shape = typeof copy === "object" && copy !== null ? this.#object(copy, undefined, slots) : undefined;
    if (shape === undefined) slots.length = before;
    return shape;
  }

  #object(copy: object, owner: Owner | undefined, slots: unknown[]): Shape | undefined {
    const prototype: unknown = Object.getPrototypeOf(copy);
    const isList = prototype === Array.prototype;
    if (!isList && !TRACEABLE.has(prototype)) return undefined;
    const keys = Object.keys(copy);
    const kids: Kid[] = [];
    for (const key of keys) {
      const value = (copy as Owner)[key];
      if (typeof value !== "object" || value === null) {
        slots.push(value);
        kids.push(undefined);
      } else if (owner !== undefined && Object.hasOwn(owner, key) && owner[key] === value) {
        kids.push(key);
      } else {
        const isArguments = prototype !== Object.prototype && key === ARGUMENTS;
        const kid = this.#object(value, isArguments ? (copy as Owner) : undefined, slots);
        if (kid === undefined) return undefined;
        kids.push(kid);
      }
    }
    return this.#shared(prototype, isList ? undefined : keys, kids);
  }

  #shared(prototype: unknown, keys: readonly string[] | undefined, kids: readonly Kid[]): Shape {
    let shapes = this.#shapes.get(prototype);
    if (shapes === undefined) this.#shapes.set(prototype, (shapes = []));
    const at = shapes.findIndex((shape) => isEqual(shape.kids, kids) && isEqual(shape.keys ?? [], keys ?? []));
    const shape = shapes[at] ?? new Shape(prototype, keys, kids);
    if (at === 0) return shape;
    if (at > 0) shapes.splice(at, 1);
    else if (shapes.length >= SHAPES_MAX) shapes.pop();
    shapes.unshift(shape);
    return shape;
  }
}

function isEqual(left: readonly unknown[], right: readonly unknown[]): boolean {
  if (left.length !== right.length) return false;
  for (let index = 0; index < left.length; index += 1) if (left[index] !== right[index]) return false;
  return true;
}

/**
 * Whether a value is exactly like the copy that was taken apart: then the codec gives one text for both. Two things are not looked for,
 * since looking takes as long as all the rest: symbol keys, and values like a Map that got the prototype of a plain object. The codec
 * would refuse them; nothing of them can be saved.
 *
 * @param at where the copy's slots begin
 * @param adopts whether the slots take over the value's own strings: those of equal strings that are one object are compared without
 *   reading them
 * @returns where they end; -1 if the value differs
 */
export function matches(shape: Shape, slots: unknown[], at: number, value: unknown, adopts = false): number {
  if (typeof value !== "object" || value === null) return -1;
  try {
    return isLike(shape, slots, at, value as Owner, undefined, adopts);
  } catch {
    return -1;
  }
}

function isLike(shape: Shape, slots: unknown[], at: number, value: Owner, owner: Owner | undefined, adopts: boolean): number {
  const { prototype, keys, kids } = shape;
  if (Object.getPrototypeOf(value) !== prototype) return -1;
  if (keys === undefined) return isLikeList(kids, slots, at, value as unknown as readonly unknown[], adopts);
  let index = 0;
  let next = at;
  // The one form of reading all properties that V8 does without a list of them.
  for (const key in value) {
    if (key !== keys[index]) return -1;
    const kid = kids[index];
    const part = value[key];
    if (kid === undefined) {
      if (slots[next] !== part || part === 0) {
        if (!Object.is(slots[next], part)) return -1;
      }
      if (adopts) slots[next] = part;
      next += 1;
    } else if (typeof kid === "string") {
      if (owner === undefined || owner[kid] !== part) return -1;
    } else {
      if (typeof part !== "object" || part === null) return -1;
      next = isLike(kid, slots, next, part as Owner, value, adopts);
      if (next < 0) return -1;
    }
    index += 1;
  }
  return index === keys.length && (prototype !== Object.prototype || !isMarked(keys, value, owner)) ? next : -1;
}

function isLikeList(kids: readonly Kid[], slots: unknown[], at: number, value: readonly unknown[], adopts: boolean): number {
  const { length } = value;
  if (!Array.isArray(value) || length !== kids.length) return -1;
  if (length === 0) return hasNoProperties(value) ? at : -1;
  // As many keys as elements: then a hole would go with a property that is none, and a hole reads as undefined.
  if (Object.keys(value).length !== length) return -1;
  let next = at;
  for (let index = 0; index < length; index += 1) {
    const kid = kids[index];
    const part: unknown = value[index];
    if (part === undefined && !Object.hasOwn(value, index)) return -1;
    if (kid instanceof Shape) {
      if (typeof part !== "object" || part === null) return -1;
      next = isLike(kid, slots, next, part as Owner, undefined, adopts);
      if (next < 0) return -1;
    } else {
      if (!Object.is(slots[next], part)) return -1;
      if (adopts) slots[next] = part;
      next += 1;
    }
  }
  return next;
}

/** Without making a list of them, as `Object.keys` would. */
function hasNoProperties(value: object): boolean {
  for (const key in value) if (Object.hasOwn(value, key)) return false;
  return true;
}

/** What is not enumerable may still count for the codec: that the value is an `arguments` object, and arguments within arguments. */
function isMarked(keys: readonly string[], value: Owner, owner: Owner | undefined): boolean {
  if (mayHideContent(keys) && value["length"] !== undefined && types.isArgumentsObject(value)) return true;
  return owner !== undefined && value[ARGUMENTS] !== undefined && !keys.includes(ARGUMENTS);
}
