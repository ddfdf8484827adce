import { INSTANCE_CLASSES, type InstanceClass } from "./classes";
import { argumentsOf, writeArguments, readArguments } from "./arguments";
import { kindOf, type Kind } from "./kind";
import { define, open, type JsonRecord } from "./marker";
import { namesOf, onlyKeys } from "./node";
import { parentOf } from "./prototypes";
import { sameDefault } from "./same";

/**
 * An instance is saved as the properties in which it differs from a fresh one (`v`), the properties it lacks (`d`), and, if they
 * are not those one would expect from `v`, the arguments of its constructor (`a`). It is read by making a fresh one and setting
 * its properties: constructors derive, warn and rename, and would not give back what was edited later.
 */
function instanceKind(type: InstanceClass): Kind {
  const fresh = type.make() as JsonRecord;
  const freshKeys = Object.keys(fresh).filter((key) => key !== type.args);
  const freshArguments = Object.keys(argumentsOf(fresh, type) ?? {});
  const allKeys = type.args === undefined ? freshKeys : [...freshKeys, type.args];

  return kindOf<JsonRecord>({
    tag: type.tag,
    prototype: parentOf(fresh) as JsonRecord,
    levels: 3,
    accepts: type.marks,

    write(value, writer) {
      writer.refuseSymbols(value, type.symbol);
      const args = argumentsOf(value, type);
      if (args === undefined && type.args !== undefined && Object.hasOwn(value, type.args)) {
        writer.fail(`${type.tag} with constructor arguments that are not an object`);
      }
      const argKeys = args === undefined ? [] : Object.keys(args);
      const keys: string[] = [];
      for (const key of argKeys) {
        if (key === type.args || !Object.hasOwn(value, key)) continue;
        // Arguments are written where they stand even when a fresh instance has the same, so that their order comes back.
        const implied = typeof value[key] === "object" || value[key] === undefined || !freshArguments.includes(key);
        if (!implied || !isDefault(key, value)) keys.push(key);
      }
      for (const key of Object.keys(value)) {
        if (key !== type.args && !argKeys.includes(key) && !isDefault(key, value)) keys.push(key);
      }
      const missing = allKeys.filter((key) => !Object.hasOwn(value, key)).map((key) => (typeof key === "symbol" ? "" : key));
      const without = missing.length === 0 ? "" : `,"d":${JSON.stringify(missing)}`;
      const fields = writer.record(value, keys);
      return `${open(type.tag)},"v":${fields}${without}${args === undefined ? "" : writeArguments(args, value, expected(keys), type, writer)}}`;
    },

    read(node, reader) {
      onlyKeys(node, "v", "d", "a");
      const fields = reader.fields(node, "v");
      const value = type.make() as JsonRecord;
      const keys = Object.keys(fields);
      for (const key of keys) {
        if (Object.hasOwn(value, key)) value[key] = fields[key];
        else define(value, key, fields[key]);
      }
      let bare = type.args === undefined;
      if (Object.hasOwn(node, "d")) {
        for (const key of namesOf(node, "d")) {
          if (key === "" || key === type.args) bare = true;
          delete (value as Record<string | symbol, unknown>)[key === "" ? (type.args ?? "") : key];
        }
      }
      if (!bare) readArguments(node, value, expected(keys), type, reader);
      return value;
    },
  });

  function isDefault(key: string, value: JsonRecord): boolean {
    return Object.hasOwn(fresh, key) && sameDefault(value[key], fresh[key]);
  }

  /** The arguments one would expect of an instance with these properties written: these, then what the constructor adds. */
  function expected(keys: readonly string[]): string[] {
    return [...keys, ...freshArguments.filter((key) => !keys.includes(key))];
  }
}

export const INSTANCE_KINDS: readonly Kind[] = INSTANCE_CLASSES.map(instanceKind);
