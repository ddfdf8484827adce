import { INSTANCE_CLASSES } from "./classes";
import { MARKER } from "./marker";
import { parentOf } from "./prototypes";

const ARGUMENTS = "lc_kwargs";
/** The classes whose instances are their own enumerable properties and at most one symbol, arguments included. */
const TRACEABLE: ReadonlySet<unknown> = new Set<unknown>([
  Object.prototype,
  ...INSTANCE_CLASSES.filter(({ args }) => args === undefined || args === ARGUMENTS).map(({ make }) => parentOf(make())),
]);

/**
 * A private copy taken apart for comparing. A thousand messages are compared at every save, and what that costs is reading memory: so
 * a trace is flat, and what many messages have in common (empty lists, the names of their arguments) is one object for all.
 */
export interface Trace {
  readonly prototype: unknown;
  /** Undefined for a list. */
  readonly keys: readonly string[] | undefined;
  /** A primitive, the trace of a part, or, of constructor arguments, an {@link Alias}. */
  readonly values: readonly unknown[];
}

/** An argument that is the same thing as the instance's property of that name: compared there already. */
class Alias {
  constructor(readonly property: string) {}
}

class Part implements Trace {
  constructor(
    readonly prototype: unknown,
    readonly keys: readonly string[] | undefined,
    readonly values: readonly unknown[],
  ) {}
}

/** Makes traces; equal parts that are few and small become one. Holds only what some trace has needed, up to a limit. */
export class Tracer {
  readonly #shared = new Map<string, unknown>();

  /** @returns undefined for a copy that holds anything but plain data and instances of LangChain's usual classes */
  trace(copy: unknown): Trace | undefined {
    return typeof copy === "object" && copy !== null ? this.#object(copy, undefined) : undefined;
  }

  #object(copy: object, owner: Record<string, unknown> | undefined): Part | undefined {
    const prototype: unknown = Object.getPrototypeOf(copy);
    const isList = prototype === Array.prototype;
    if (!isList && !TRACEABLE.has(prototype)) return undefined;
    const keys = isList ? undefined : this.#share(`k${JSON.stringify(Object.keys(copy))}`, () => Object.keys(copy));
    const values: unknown[] = [];
    for (const [key, value] of Object.entries(copy)) {
      if (owner !== undefined && Object.hasOwn(owner, key) && Object.is(owner[key], value)) {
        values.push(this.#share(`a${key}`, () => new Alias(key)));
      } else if (typeof value !== "object" || value === null) {
        values.push(value);
      } else {
        const isArguments = prototype !== Object.prototype && key === ARGUMENTS;
        const part = this.#object(value as object, isArguments ? (copy as Record<string, unknown>) : undefined);
        if (part === undefined) return undefined;
        values.push(part);
      }
    }
    const made = new Part(prototype, keys, values);
    return this.#shareable(made, isList || prototype === Object.prototype);
  }

  #shareable(part: Part, isPlain: boolean): Part {
    const { keys, values } = part;
    const isSmall = isPlain && values.length <= 8 && values.every((value) => value instanceof Alias || isShort(value));
    if (!isSmall) return part;
    const name = JSON.stringify([
      keys ?? null,
      values.map((value) => (value instanceof Alias ? { a: value.property } : [typeof value, String(value)])),
    ]);
    return this.#share(`p${name}`, () => part);
  }

  #share<T>(name: string, make: () => T): T {
    let shared = this.#shared.get(name) as T | undefined;
    if (shared === undefined) {
      shared = make();
      if (this.#shared.size < SHARED_MAX) this.#shared.set(name, shared);
    }
    return shared;
  }
}

const SHARED_MAX = 1_000;

function isShort(value: unknown): boolean {
  return value === undefined || value === null || typeof value === "boolean" || (typeof value === "string" && value.length <= 64);
}

/**
 * True only if the value is exactly like the copy: then the codec gives one text for both. One thing is not looked for, since looking
 * takes as long as all the rest: symbol keys that were added in place. The codec would refuse them; nothing of them can be saved.
 */
export function matches(trace: Trace, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  try {
    return isLike(trace, value as JsonLike, undefined);
  } catch {
    return false;
  }
}

type JsonLike = Record<string, unknown>;

function isLike(trace: Trace, value: JsonLike, owner: JsonLike | undefined): boolean {
  const { prototype, keys, values } = trace;
  if (Object.getPrototypeOf(value) !== prototype) return false;
  if (keys === undefined) return isLikeList(values, value as unknown as unknown[]);
  let index = 0;
  // The one form of reading all properties that V8 does without a list of them.
  for (const key in value) {
    if (key !== keys[index]) return false;
    const own = values[index];
    const part = value[key];
    if (own === part ? own === 0 && !Object.is(own, part) : !isLikePart(own, part, value, owner)) return false;
    index += 1;
  }
  return index === keys.length && !isMarked(trace, value, owner);
}

function isLikeList(values: readonly unknown[], value: readonly unknown[]): boolean {
  const { length } = value;
  if (!Array.isArray(value) || length !== values.length) return false;
  if (length > 0 && (Object.keys(value).length !== length || !Object.hasOwn(value, length - 1))) return false;
  if (length === 0) return hasNoProperties(value);
  for (let index = 0; index < length; index += 1) {
    const own = values[index];
    const part: unknown = value[index];
    if (own === part ? own === 0 && !Object.is(own, part) : !isLikePart(own, part, undefined, undefined)) return false;
  }
  return true;
}

/** Without making a list of them, as `Object.keys` would. */
function hasNoProperties(value: object): boolean {
  for (const key in value) if (Object.hasOwn(value, key)) return false;
  return true;
}

function isLikePart(own: unknown, part: unknown, value: JsonLike | undefined, owner: JsonLike | undefined): boolean {
  if (own instanceof Part) return typeof part === "object" && part !== null && isLike(own, part as JsonLike, value);
  if (own instanceof Alias) return owner !== undefined && Object.is(owner[own.property], part);
  return typeof part !== "object" && Object.is(own, part);
}

/** A property that is not enumerable may still count for the codec: the marker, and arguments within arguments. */
function isMarked({ prototype, keys }: Trace, value: JsonLike, owner: JsonLike | undefined): boolean {
  if (prototype !== Object.prototype) return false;
  if (Object.hasOwn(value, MARKER) && keys?.includes(MARKER) !== true) return true;
  return owner !== undefined && Object.hasOwn(value, ARGUMENTS) && keys?.includes(ARGUMENTS) !== true;
}
