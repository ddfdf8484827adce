import type { InstanceClass } from "./classes";
import type { Reading, Writing } from "./kind";
import { MARKER, put, type JsonRecord } from "./marker";
import { malformed, namesOf } from "./node";
import { isPartOf } from "./same";

/*
 * LangChain objects keep the arguments of their constructor beside the properties made from them. The two share their values, so
 * only the names of the arguments are saved, and where a value differs from the property, that value. `new AIMessage({...message})`
 * puts the arguments of one message among those of the next; such a chain is saved as a list, innermost last.
 */

export type Arguments = Record<string | symbol, unknown>;

/** The constructor arguments an object keeps, if it keeps any. */
export function argumentsOf(value: object, type: InstanceClass): Arguments | undefined {
  if (type.args === undefined || !Object.hasOwn(value, type.args)) return undefined;
  const args = (value as Arguments)[type.args];
  return typeof args === "object" && args !== null && !Array.isArray(args) ? (args as Arguments) : undefined;
}

/**
 * True if {@link usualArguments} would make the same from the written properties alone.
 * @param argKeys the names of the arguments
 * @param written the names of the properties that are saved
 * @param fresh the names of the arguments of an instance with nothing in it
 */
export function areUsual(
  args: Arguments,
  argKeys: readonly string[],
  value: JsonRecord,
  written: readonly string[],
  fresh: readonly string[],
  type: InstanceClass,
): boolean {
  let at = 0;
  for (const key of written) if (argKeys[at++] !== key) return false;
  for (const key of fresh) if (!written.includes(key) && argKeys[at++] !== key) return false;
  if (at !== argKeys.length) return false;
  for (const key of argKeys) {
    if (!Object.hasOwn(value, key) || key === type.args) return false;
    if (!Object.is(args[key], value[key]) && (type.keepStaleArgs === true || isPartOf(args[key], value[key]))) return false;
  }
  return Object.getOwnPropertySymbols(args).length === 0;
}

/** Sets the arguments an object has that was just made from these properties. */
export function usualArguments(
  value: JsonRecord,
  written: readonly string[],
  fresh: readonly string[],
  property: string | symbol,
): void {
  const args: JsonRecord = {};
  for (let i = 0; i < written.length; i++) put(args, written[i] as string, value[written[i] as string]);
  for (const key of fresh) if (!written.includes(key)) args[key] = value[key];
  Reflect.set(value, property, args);
}

/**
 * The arguments as a further key of the tag; nothing if they turn out to be the usual ones, so that equal objects have equal texts
 * whether or not their parts are shared.
 */
export function writeArguments(
  args: Arguments,
  value: JsonRecord,
  written: readonly string[],
  fresh: readonly string[],
  type: InstanceClass,
  writer: Writing,
): string {
  const links: string[] = [];
  const seen: Arguments[] = [];
  for (let link: Arguments | undefined = args; link !== undefined; link = argumentsOf(link, type)) {
    if (seen.includes(link)) writer.fail("constructor arguments that contain themselves");
    seen.push(link);
    links.push(writeLink(link, value, type, writer));
  }
  const usual = JSON.stringify({ k: [...written, ...fresh.filter((key) => !written.includes(key))] });
  return links.length === 1 && links[0] === usual ? "" : `,"a":[${links.join(",")}]`;
}

/** Sets the arguments of an object whose properties are set. */
export function readArguments(node: JsonRecord, value: JsonRecord, type: InstanceClass, reader: Reading): void {
  const links = node["a"];
  if (!Array.isArray(links) || links.length === 0) throw malformed(node);
  let inner: Arguments | undefined;
  for (const link of links.reverse() as unknown[]) inner = readLink(node, link, inner, value, type, reader);
  if (type.args !== undefined) Reflect.set(value, type.args, inner);
}

function writeLink(link: Arguments, value: JsonRecord, type: InstanceClass, writer: Writing): string {
  writer.refuseSymbols(link, type.symbol);
  const keys = Object.keys(link);
  const inner = argumentsOf(link, type) !== undefined;
  const others = keys.filter((key) => (key === type.args ? !inner : differs(key, link, value, type, writer)));
  const values = others.length === 0 ? "" : `,"o":${writer.record(link, others)}`;
  const marked = type.symbol !== undefined && type.symbol !== type.args && Object.hasOwn(link, type.symbol);
  return `{"k":${JSON.stringify(keys)}${values}${marked ? ',"s":1' : ""}}`;
}

function readLink(
  node: JsonRecord,
  link: unknown,
  inner: Arguments | undefined,
  value: JsonRecord,
  type: InstanceClass,
  reader: Reading,
): Arguments {
  if (typeof link !== "object" || link === null) throw malformed(node);
  // With the tag it belongs to: an error names the tag, and must not name what the link has in its place.
  const entry: JsonRecord = { ...(link as JsonRecord), [MARKER]: node[MARKER] };
  const others = Object.hasOwn(entry, "o") ? reader.fields(entry, "o") : {};
  const args: Arguments = {};
  for (const key of namesOf(entry, "k")) {
    if (key === type.args && inner !== undefined) {
      args[key] = inner;
      continue;
    }
    const source = Object.hasOwn(others, key) ? others : value;
    const property = source === value ? propertyOf(key, type) : key;
    if (!Object.hasOwn(source, property)) throw malformed(node);
    put(args, key, source[property]);
  }
  if (inner !== undefined && typeof type.args === "symbol") args[type.args] = inner;
  if (Object.hasOwn(entry, "s") && type.symbol !== undefined && type.symbol !== type.args) args[type.symbol] = true;
  return args;
}

/** The property an argument became. */
export function propertyOf(key: string, type: InstanceClass): string {
  return type.renamed !== undefined && Object.hasOwn(type.renamed, key) ? (type.renamed[key] as string) : key;
}

/** True if the value of an argument has to be saved: no property has it, and it is not merely outdated. */
function differs(key: string, args: Arguments, value: JsonRecord, type: InstanceClass, writer: Writing): boolean {
  const property = propertyOf(key, type);
  if (!Object.hasOwn(value, property)) return true;
  if (Object.is(args[key], value[property])) return false;
  if (type.keepStaleArgs !== true && !isPartOf(args[key], value[property])) return false;
  return writer.at(key, args[key]) !== writer.at(key, value[property]);
}
