import { INSTANCE_CLASSES, type InstanceClass } from "./classes";
import { areUsual, argumentsOf, readArguments, usualArguments, writeArguments } from "./arguments";
import { kindOf, type Kind } from "./kind";
import { define, open, type JsonRecord } from "./marker";
import { namesOf, onlyKeys } from "./node";
import { parentOf } from "./prototypes";
import { sameDefault } from "./same";

/**
 * An instance is saved as the properties in which it differs from a fresh one (`v`), the properties it lacks (`d`), and, if they
 * are not those one would expect from `v`, the arguments of its constructor (`a`). It is read by setting the properties of a fresh
 * one without its constructor: constructors derive, warn and rename, and would not give back what was edited later.
 */
function instanceKind(type: InstanceClass): Kind {
  const fresh = type.make() as JsonRecord;
  const defaults: ReadonlyMap<string, unknown> = new Map(Object.entries(fresh).filter(([key]) => key !== type.args));
  const freshArguments = Object.keys(argumentsOf(fresh, type) ?? {});

  const prototype = parentOf(fresh);
  const names = Object.keys(fresh);
  const known = new Set(names);
  // What the constructor would set; the arguments are set last.
  const usual = names.map((name) => (name === type.args ? undefined : fresh[name]));

  return kindOf<JsonRecord>({
    tag: type.tag,
    prototype: prototype as JsonRecord,
    levels: 4,
    accepts: type.marks,

    write(value, writer) {
      writer.refuseInnerKind(value);
      writer.refuseSymbols(value, type.symbol);
      const args = argumentsOf(value, type);
      if (args === undefined && type.args !== undefined && Object.hasOwn(value, type.args)) {
        writer.fail(`${type.tag} with constructor arguments that are not an object`);
      }
      const argKeys = args === undefined ? [] : Object.keys(args);
      const keys: string[] = [];
      // In the order of the arguments, and with the content even if it is empty: so the arguments need not be saved.
      for (const key of argKeys) {
        if (key === type.args || !Object.hasOwn(value, key)) continue;
        const part = value[key];
        const implied = typeof part === "object" || part === undefined || !freshArguments.includes(key);
        if (!implied || !isDefault(key, part)) keys.push(key);
      }
      let known = 0;
      for (const key of Object.keys(value)) {
        if (defaults.has(key)) known++;
        if (key !== type.args && !argKeys.includes(key) && !isDefault(key, value[key])) keys.push(key);
      }
      const complete = known === defaults.size && (args !== undefined || type.args === undefined);
      const rest = complete ? "" : `,"d":${JSON.stringify(missing(value))}`;
      const fields = writer.record(value, keys);
      const usual = args === undefined || areUsual(args, argKeys, value, keys, freshArguments, type);
      return `${open(type.tag)},"v":${fields}${rest}${usual ? "" : writeArguments(args, value, keys, freshArguments, type, writer)}}`;
    },

    read(node, reader) {
      onlyKeys(node, "v", "d", "a");
      const fields = reader.fields(node, "v");
      const value = Object.create(prototype) as JsonRecord;
      for (let i = 0; i < names.length; i++) {
        const name = names[i] as string;
        value[name] = Object.hasOwn(fields, name) ? fields[name] : another(usual[i]);
      }
      if (type.symbol !== undefined) (value as Record<symbol, unknown>)[type.symbol] = true;
      const keys = Object.keys(fields);
      for (const key of keys) if (!known.has(key)) define(value, key, fields[key]);
      const lacking = Object.hasOwn(node, "d") ? namesOf(node, "d") : NOTHING;
      for (const key of lacking) delete value[key];
      if (type.args === undefined) return value;
      if (lacking.includes(ARGUMENTS)) delete (value as Record<string | symbol, unknown>)[type.args];
      else if (Object.hasOwn(node, "a")) readArguments(node, value, type, reader);
      else usualArguments(value, keys, freshArguments, type.args);
      return value;
    },
  });

  function isDefault(key: string, part: unknown): boolean {
    const usual = defaults.get(key);
    return sameDefault(part, usual) && (usual !== undefined || defaults.has(key));
  }

  function missing(value: object): string[] {
    const keys = [...defaults.keys()].filter((key) => !Object.hasOwn(value, key));
    return type.args === undefined || Object.hasOwn(value, type.args) ? keys : [...keys, ARGUMENTS];
  }
}

/** Stands for the arguments among the properties an instance lacks; some classes keep them under a symbol. */
const ARGUMENTS = "";

const NOTHING: readonly string[] = [];

export const INSTANCE_KINDS: readonly Kind[] = INSTANCE_CLASSES.map(instanceKind);

/** A default of its own for every instance: defaults are primitives, lists of primitives, and empty objects. */
function another(part: unknown): unknown {
  if (typeof part !== "object" || part === null) return part;
  return Array.isArray(part) ? [...(part as unknown[])] : {};
}
