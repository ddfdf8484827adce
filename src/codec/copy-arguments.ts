import { argumentsOf, propertyOf, type Arguments } from "./arguments";
import type { InstanceClass } from "./classes";
import { NO_COPY, symbolsOf, type CopyPart, type SamePart } from "./copier";
import { encode } from "./encode";
import { put, type JsonRecord } from "./marker";
import { isPartOf } from "./same";

/*
 * The text keeps, of every constructor argument, its name and, unless the property made from it stands for it, its value. So these
 * are what a copy must have and what a comparison must look at.
 */

/** How many arguments may lie in one another, as after `new AIMessage({...message})`. */
const MAX_LINKS = 20;

/**
 * The arguments of the copy, made from those of the original. Both are parts of their instance, whose properties are copied.
 * @param known properties that both have
 */
export function copyArguments(
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
    else value = isAlias(args, key, original, type) ? copy[propertyOf(key, type)] : part(argument);
    if (value === NO_COPY) return NO_COPY;
    put(result, key, value);
  }
  if (marked) result[type.symbol as symbol] = true;
  return result;
}

/** Whether the arguments are saved as the same text; to be asked only if the properties are. */
export function sameArguments(
  copied: Arguments,
  copy: JsonRecord,
  args: Arguments,
  value: JsonRecord,
  type: InstanceClass,
  known: ReadonlySet<string>,
  part: SamePart,
): boolean {
  const keys = Object.keys(copied);
  const found = Object.keys(args);
  if (keys.length !== found.length || isMarked(args, type) !== Object.hasOwn(copied, type.symbol as symbol)) return false;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as string;
    if (found[i] !== key) return false;
    const own = copied[key];
    const argument = args[key];
    // Mostly both are their properties, which are known to be the same.
    if (known.has(key) && key !== type.args && Object.is(own, copy[key]) && Object.is(argument, value[key])) continue;
    if (key === type.args) {
      const [copiedInner, inner] = [argumentsOf(copied, type), argumentsOf(args, type)];
      if ((copiedInner === undefined) !== (inner === undefined)) return false;
      if (
        copiedInner === undefined || inner === undefined
          ? !part(own, argument)
          : !sameArguments(copiedInner, copy, inner, value, type, known, part)
      )
        return false;
      continue;
    }
    const property = propertyOf(key, type);
    if (!Object.hasOwn(copy, key) && Object.hasOwn(value, key)) return false;
    if (Object.hasOwn(copy, property) && Object.is(own, copy[property])) {
      if (!isAlias(args, key, value, type)) return false;
    } else if (isAlias(args, key, value, type) || !part(own, argument)) return false;
  }
  return true;
}

/** Whether the arguments bear the symbol of the class; undefined if there is more to them that is not enumerable, or other symbols. */
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
