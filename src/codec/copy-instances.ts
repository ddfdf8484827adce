import { argumentsOf, type Arguments } from "./arguments";
import { INSTANCE_CLASSES, type InstanceClass } from "./classes";
import { NO_COPY, symbolsOf, type Copier } from "./copier";
import { copyArguments, sameArguments } from "./copy-arguments";
import { innerKind } from "./hidden";
import { define } from "./marker";
import { parentOf } from "./prototypes";
import { sameDefault } from "./same";

type Instance = Record<string | symbol, unknown>;

/** Copies instances that have all properties of a fresh one, in its order; what else there is the codec can order. */
function instanceCopier(type: InstanceClass): readonly [object, Copier] {
  const fresh = type.make() as Instance;
  const prototype = parentOf(fresh);
  const expected = Object.keys(fresh);
  const known: ReadonlySet<string> = new Set(expected);
  const defaults = expected.map((key) => fresh[key]);
  const place = type.args;

  const copier: Copier<Instance> = {
    copy(value, part) {
      const keys = Object.keys(value);
      // Two further properties would come back in the order of the arguments.
      if (keys.length > expected.length + 1 || !isUsual(value, keys) || innerKind(value) !== undefined) return NO_COPY;
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
      if (type.symbol !== undefined) copy[type.symbol] = fresh[type.symbol];
      if (args === undefined) return copy;
      const ownArgs = copyArguments(args, value, copy, type, known, part);
      if (ownArgs === NO_COPY) return NO_COPY;
      copy[place as string] = ownArgs;
      return copy;
    },

    same(copy, value, part) {
      const keys = Object.keys(value);
      if (!isUsual(value, keys)) return false;
      for (let i = 0; i < expected.length; i++) {
        const key = expected[i] as string;
        const own = copy[key];
        const other = value[key];
        if (Object.is(own, other) || key === place) continue;
        if (typeof own !== "object" || typeof other !== "object") return false;
        if (!areDefaults(own, other, defaults[i]) && !part(own, other)) return false;
      }
      const further = keys[expected.length];
      if (further === undefined ? hasMore(copy) : !hasNoMoreThan(copy, further) || !part(copy[further], value[further]))
        return false;
      if (keys.length > expected.length + 1) return false;
      if (place === undefined) return true;
      const args = argumentsOf(value, type);
      if (args === undefined) return false;
      return sameArguments(copy[place] as Arguments, copy, args, value, type, known, part);
    },
  };
  return [prototype as object, copier];

  /** True if the instance has the properties of a fresh one first, and its symbol. */
  function isUsual(value: Instance, keys: readonly string[]): boolean {
    if (keys.length < expected.length) return false;
    for (let i = 0; i < expected.length; i++) if (keys[i] !== expected[i]) return false;
    const symbols = symbolsOf(value);
    return type.symbol === undefined ? symbols.length === 0 : symbols.length === 1 && symbols[0] === type.symbol;
  }

  function hasMore(copy: Instance): boolean {
    return Object.keys(copy).length > expected.length;
  }

  function hasNoMoreThan(copy: Instance, further: string): boolean {
    return Object.keys(copy)[expected.length] === further;
  }
}

/** True if neither list is written, being what a fresh instance has. A quicker answer for the commonest parts. */
function areDefaults(own: unknown, value: unknown, usual: unknown): boolean {
  if (!Array.isArray(usual) || !Array.isArray(own) || own.length !== usual.length) return false;
  for (let i = 0; i < usual.length; i++) if (own[i] !== usual[i]) return false;
  return sameDefault(value, usual);
}

export const INSTANCE_COPIERS: readonly (readonly [object, Copier])[] = INSTANCE_CLASSES.map(instanceCopier);
