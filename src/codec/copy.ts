import { BUILT_IN_COPIERS } from "./copy-built-ins";
import { INSTANCE_COPIERS } from "./copy-instances";
import { NO_COPY, symbolsOf, type Copier } from "./copier";
import { innerKindOfPlain } from "./hidden";
import { put, type JsonRecord } from "./marker";

const OBJECT = Object.prototype;
const ARRAY = Array.prototype;
const COPIERS: ReadonlyMap<object, Copier> = new Map([...BUILT_IN_COPIERS, ...INSTANCE_COPIERS]);

/** Above this nesting a value is left to the codec, which counts more exactly. */
const MAX_DEPTH = 200;

/**
 * A deep copy that shares nothing with the value but primitives, and is what `decode(encode(value))` would give: of the same
 * classes, with the same keys in the same order. {@link NO_COPY} for a value that holds anything else than plain data, the
 * commonest built-in classes and the classes of LangChain and LangGraph in their usual form, or that `encode` would refuse. A copy
 * can be copied again.
 */
export function copyOf(value: unknown): unknown {
  try {
    return new Copying().part(value);
  } catch {
    // A getter, a proxy or the end of the stack: the codec finds the words for it.
    return NO_COPY;
  }
}

/**
 * True only if `encode(value)` gives the text that it gave for the original when the copy was made; false may mean that nobody
 * looked closer. Getters and proxies count as what they answer.
 * @param copy what {@link copyOf} answered, unchanged since
 */
export function sameAs(copy: unknown, value: unknown): boolean {
  try {
    return samePart(copy, value);
  } catch {
    return false;
  }
}

class Copying {
  private readonly ancestors: object[] = [];
  readonly part = (value: unknown): unknown => {
    if (typeof value === "object" && value !== null) return this.object(value);
    return typeof value === "function" || typeof value === "symbol" ? NO_COPY : value;
  };

  private object(value: object): unknown {
    const { ancestors } = this;
    if (ancestors.length >= MAX_DEPTH || ancestors.includes(value)) return NO_COPY;
    const prototype = Object.getPrototypeOf(value) as object;
    ancestors.push(value);
    let copy: unknown = NO_COPY;
    if (prototype === OBJECT) copy = this.record(value as JsonRecord);
    else if (prototype !== ARRAY) copy = COPIERS.get(prototype)?.copy(value, this.part) ?? NO_COPY;
    else if (Array.isArray(value)) copy = this.list(value);
    ancestors.pop();
    return copy;
  }

  private record(value: JsonRecord): unknown {
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

  private list(value: readonly unknown[]): unknown {
    if (hasMoreThanElements(value)) return NO_COPY;
    const copy: unknown[] = [];
    for (let i = 0; i < value.length; i++) {
      const part = this.part(value[i]);
      if (part === NO_COPY) return NO_COPY;
      copy.push(part);
    }
    return copy;
  }
}

function sameRecord(copy: JsonRecord, value: JsonRecord): boolean {
  const keys = Object.keys(copy);
  const found = Object.keys(value);
  if (found.length !== keys.length || symbolsOf(value).length > 0 || innerKindOfPlain(value, found) !== undefined) return false;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string;
    if (found[i] !== key) return false;
    const [own, part] = [copy[key], value[key]];
    if (!Object.is(own, part) && !samePart(own, part)) return false;
  }
  return true;
}

function sameList(copy: readonly unknown[], value: readonly unknown[]): boolean {
  if (copy.length !== value.length || hasMoreThanElements(value)) return false;
  for (let i = 0; i < copy.length; i++) if (!Object.is(copy[i], value[i]) && !samePart(copy[i], value[i])) return false;
  return true;
}

function samePart(copy: unknown, value: unknown): boolean {
  if (typeof copy !== "object" || copy === null || typeof value !== "object" || value === null) return Object.is(copy, value);
  const prototype = Object.getPrototypeOf(copy) as object;
  if (Object.getPrototypeOf(value) !== prototype) return false;
  if (prototype === OBJECT) return sameRecord(copy as JsonRecord, value as JsonRecord);
  if (prototype === ARRAY) return Array.isArray(value) && sameList(copy as unknown[], value);
  return (COPIERS.get(prototype) as Copier).same(copy, value, samePart);
}

/** True for holes, too: with as many keys as elements, a hole goes with a property that is none. */
function hasMoreThanElements(value: readonly unknown[]): boolean {
  const keys = Object.keys(value);
  const { length } = value;
  if (keys.length !== length || symbolsOf(value).length > 0) return true;
  return length > 0 && keys[length - 1] !== String(length - 1);
}
