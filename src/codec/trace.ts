import { types } from "node:util";
import { INSTANCE_CLASSES } from "./classes";
import { mayHideContent } from "./hidden";
import { MARKER } from "./marker";
import { parentOf } from "./prototypes";

const ARGUMENTS = "lc_kwargs";
/** The classes whose instances are their own enumerable properties and at most one symbol, arguments included. */
const TRACEABLE: ReadonlySet<unknown> = new Set<unknown>([
  Object.prototype,
  ...INSTANCE_CLASSES.filter(({ args }) => args === undefined || args === ARGUMENTS).map(({ make }) => parentOf(make())),
]);
const SHAPES_MAX = 1_000;

/**
 * What a private copy looks like, without its primitives: prototype, keys, and the same of its parts. Messages of one kind have one
 * shape; what tells them apart are their primitives, in the order in which they are met, and those of many messages lie behind one
 * another in one list of slots. A thousand messages are compared at every save, and what that costs is reading memory.
 */
export class Shape {
  /**
   * @param keys undefined for a list
   * @param kids what is at each key: a primitive (undefined), a part, or the name of the instance's property that an argument is
   */
  constructor(
    readonly id: number,
    readonly prototype: unknown,
    readonly keys: readonly string[] | undefined,
    readonly kids: readonly (Shape | Alias | undefined)[],
  ) {}
}

/** An argument that is the same object as the instance's property of that name: compared there already. */
class Alias {
  constructor(readonly property: string) {}
}

type Owner = Readonly<Record<string, unknown>>;

/** Takes copies apart; equal shapes become one, up to a limit. */
export class Tracer {
  readonly #shapes = new Map<string, Shape>();
  readonly #prototypes = new Map<unknown, number>();
  #nextId = 0;

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
    const keys = isList ? undefined : Object.keys(copy);
    const kids: (Shape | Alias | undefined)[] = [];
    for (const [key, value] of Object.entries(copy) as [string, unknown][]) {
      if (typeof value !== "object" || value === null) {
        slots.push(value);
        kids.push(undefined);
      } else if (owner !== undefined && Object.hasOwn(owner, key) && owner[key] === value) {
        kids.push(new Alias(key));
      } else {
        const isArguments = prototype !== Object.prototype && key === ARGUMENTS;
        const kid = this.#object(value, isArguments ? (copy as Owner) : undefined, slots);
        if (kid === undefined) return undefined;
        kids.push(kid);
      }
    }
    return this.#shared(prototype, keys, kids);
  }

  #shared(prototype: unknown, keys: readonly string[] | undefined, kids: readonly (Shape | Alias | undefined)[]): Shape {
    const names = kids.map((kid) => (kid === undefined ? "" : kid instanceof Alias ? `=${kid.property}` : kid.id));
    const name = JSON.stringify([this.#numberOf(prototype), keys ?? null, names]);
    const known = this.#shapes.get(name);
    if (known !== undefined) return known;
    const shape = new Shape(this.#nextId++, prototype, keys, kids);
    if (this.#shapes.size < SHAPES_MAX) this.#shapes.set(name, shape);
    return shape;
  }

  #numberOf(prototype: unknown): number {
    const number = this.#prototypes.get(prototype) ?? this.#prototypes.size;
    this.#prototypes.set(prototype, number);
    return number;
  }
}

/**
 * Whether a value is exactly like the copy that was taken apart: then the codec gives one text for both. Two things are not looked for,
 * since looking takes as long as all the rest: symbol keys, and values like a Map that got the prototype of a plain object. The codec
 * would refuse them; nothing of them can be saved.
 *
 * @param at where the copy's slots begin
 * @returns where they end; -1 if the value differs
 */
export function matches(shape: Shape, slots: readonly unknown[], at: number, value: unknown): number {
  if (typeof value !== "object" || value === null) return -1;
  try {
    return isLike(shape, slots, at, value as Owner, undefined);
  } catch {
    return -1;
  }
}

function isLike(shape: Shape, slots: readonly unknown[], at: number, value: Owner, owner: Owner | undefined): number {
  const { prototype, keys, kids } = shape;
  if (Object.getPrototypeOf(value) !== prototype) return -1;
  if (keys === undefined) return isLikeList(kids, slots, at, value as unknown as readonly unknown[]);
  let index = 0;
  let next = at;
  // The one form of reading all properties that V8 does without a list of them.
  for (const key in value) {
    if (key !== keys[index]) return -1;
    const kid = kids[index];
    const part = value[key];
    if (kid === undefined) {
      if (!isSame(slots[next], part)) return -1;
      next += 1;
    } else if (kid instanceof Shape) {
      if (typeof part !== "object" || part === null) return -1;
      next = isLike(kid, slots, next, part as Owner, value);
      if (next < 0) return -1;
    } else if (owner === undefined || owner[kid.property] !== part) return -1;
    index += 1;
  }
  return index === keys.length && !isMarked(shape, value, owner) ? next : -1;
}

function isLikeList(
  kids: readonly (Shape | Alias | undefined)[],
  slots: readonly unknown[],
  at: number,
  value: readonly unknown[],
): number {
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
      next = isLike(kid, slots, next, part as Owner, undefined);
      if (next < 0) return -1;
    } else {
      if (!isSame(slots[next], part)) return -1;
      next += 1;
    }
  }
  return next;
}

/** `Object.is`, for what mostly is the same string. */
function isSame(own: unknown, part: unknown): boolean {
  return own === part ? own !== 0 || Object.is(own, part) : Object.is(own, part);
}

/** Without making a list of them, as `Object.keys` would. */
function hasNoProperties(value: object): boolean {
  for (const key in value) if (Object.hasOwn(value, key)) return false;
  return true;
}

/** What is not enumerable may still count for the codec: that the value is an `arguments` object, the marker, and arguments within arguments. */
function isMarked({ prototype, keys }: Shape, value: Owner, owner: Owner | undefined): boolean {
  if (prototype !== Object.prototype) return false;
  if (mayHideContent(keys as readonly string[]) && types.isArgumentsObject(value)) return true;
  if (value[MARKER] !== undefined && keys?.includes(MARKER) !== true) return true;
  return owner !== undefined && value[ARGUMENTS] !== undefined && keys?.includes(ARGUMENTS) !== true;
}
