import type { InstanceClass } from "./classes";
import type { Reading, Writing } from "./kind";
import { put, type JsonRecord } from "./marker";
import { malformed, namesOf } from "./node";
import { isPartOf } from "./same";

/*
 * LangChain objects keep the arguments of their constructor beside the properties made from them. The two share their values, so
 * only the names of the arguments are saved, and where a value differs from the property, that value. `new AIMessage({...message})`
 * puts the arguments of one message among those of the next; such a chain is saved as a list, innermost last.
 */

type Arguments = Record<string | symbol, unknown>;

/** The constructor arguments an object keeps, if it keeps any. */
export function argumentsOf(value: object, type: InstanceClass): Arguments | undefined {
  if (type.args === undefined || !Object.hasOwn(value, type.args)) return undefined;
  const args = (value as Arguments)[type.args];
  return typeof args === "object" && args !== null && !Array.isArray(args) ? (args as Arguments) : undefined;
}

/**
 * The arguments as a further key of the tag; nothing if they are the expected ones.
 * @param expected the names they have in almost every object
 */
export function writeArguments(
  args: Arguments,
  value: JsonRecord,
  expected: readonly string[],
  type: InstanceClass,
  writer: Writing,
): string {
  const links: string[] = [];
  const chain: Arguments[] = [];
  let usual = true;
  for (let link: Arguments | undefined = args; link !== undefined; link = argumentsOf(link, type)) {
    if (chain.includes(link)) writer.fail("constructor arguments that contain themselves");
    chain.push(link);
    writer.refuseSymbols(link, type.symbol);
    const keys = Object.keys(link);
    const inner = argumentsOf(link, type) !== undefined;
    const marked = type.symbol !== undefined && type.symbol !== type.args && Object.hasOwn(link, type.symbol);
    const others = keys.filter((key) => differs(key, link, value, inner, type, writer));
    usual &&=
      !inner &&
      !marked &&
      others.length === 0 &&
      keys.length === expected.length &&
      keys.every((key, at) => key === expected[at]);
    const overrides = others.length === 0 ? "" : `,"o":${writer.record(link, others)}`;
    links.push(`{"k":${JSON.stringify(keys)}${overrides}${marked ? ',"s":1' : ""}}`);
  }
  return usual ? "" : `,"a":[${links.join(",")}]`;
}

/** Sets the arguments of an object whose properties are set. */
export function readArguments(
  node: JsonRecord,
  value: JsonRecord,
  expected: readonly string[],
  type: InstanceClass,
  reader: Reading,
): void {
  const links: unknown = Object.hasOwn(node, "a") ? node["a"] : [{ k: expected }];
  if (!Array.isArray(links) || links.length === 0) throw malformed(node);
  let inner: Arguments | undefined;
  for (const link of links.reverse() as unknown[]) inner = readLink(node, link, inner, value, type, reader);
  value[type.args as string | symbol] = inner;
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
  const entry = { ...link, "~": type.tag } as JsonRecord;
  const overrides = Object.hasOwn(link, "o") ? reader.fields(entry, "o") : {};
  const args: Arguments = {};
  for (const key of namesOf(entry, "k")) {
    if (key === type.args && inner !== undefined) {
      args[key] = inner;
      continue;
    }
    const source = Object.hasOwn(overrides, key) ? overrides : value;
    const property = source === value ? propertyOf(key, type) : key;
    if (!Object.hasOwn(source, property)) throw malformed(node);
    put(args, key, source[property]);
  }
  if (inner !== undefined && typeof type.args === "symbol") args[type.args] = inner;
  if (Object.hasOwn(link, "s") && type.symbol !== undefined) args[type.symbol] = true;
  return args;
}

function propertyOf(key: string, type: InstanceClass): string {
  return type.renamed !== undefined && Object.hasOwn(type.renamed, key) ? (type.renamed[key] as string) : key;
}

/** True if the value of an argument has to be saved: no property has it, and it is not merely outdated. */
function differs(key: string, args: Arguments, value: JsonRecord, inner: boolean, type: InstanceClass, writer: Writing): boolean {
  if (key === type.args) return !inner;
  const property = propertyOf(key, type);
  if (!Object.hasOwn(value, property)) return true;
  if (Object.is(args[key], value[property])) return false;
  if (type.keepStaleArgs !== true && !isPartOf(args[key], value[property])) return false;
  return writer.at(key, args[key]) !== writer.at(key, value[property]);
}
