import { Document } from "@langchain/core/documents";
import {
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} from "@langchain/core/messages";
import { Command, COMMAND_SYMBOL, Overwrite, Send } from "@langchain/langgraph";
import { DeltaSnapshot } from "@langchain/langgraph-checkpoint";
import {
  define,
  isPartOf,
  type JsonRecord,
  type Kind,
  kindOf,
  malformed,
  MARKER,
  namesOf,
  onlyKeys,
  open,
  put,
  type Reading,
  sameDefault,
  type Writing,
} from "./kind";

export const MESSAGE = Symbol.for("langchain.message");

/** A library class whose instances are their own enumerable properties. */
export interface InstanceClass {
  readonly tag: string;
  readonly prototype: object;
  /** Makes a fresh, empty instance. What it shares with the saved value isn't written. */
  readonly make: () => object;
  /** True for an instance of another copy of the class. */
  readonly marks: (value: object) => boolean;
  /** The symbol key every instance owns. */
  readonly symbol?: symbol;
  /** Where an instance keeps the arguments of its constructor. */
  readonly args?: string | symbol;
  /** Arguments that became a property of another name. */
  readonly renamed?: Readonly<Record<string, string>>;
  /**
   * Keep arguments that no longer agree with the properties. Off for messages: content that was edited out must not survive in
   * its copy.
   */
  readonly keepStaleArgs?: boolean;
}

/** The messages of LangChain by name; also the allow-list for the official format. */
export const MESSAGE_CLASSES: Readonly<Record<string, new (fields: never) => object>> = Object.freeze({
  __proto__: null,
  AIMessage,
  AIMessageChunk,
  ChatMessage,
  ChatMessageChunk,
  FunctionMessage,
  FunctionMessageChunk,
  HumanMessage,
  HumanMessageChunk,
  RemoveMessage,
  SystemMessage,
  SystemMessageChunk,
  ToolMessage,
  ToolMessageChunk,
} as unknown as Record<string, new (fields: never) => object>);

/** What the constructors need besides a content. The values are overwritten when a message is read. */
const REQUIRED: Readonly<Record<string, object>> = {
  ChatMessage: { role: "" },
  ChatMessageChunk: { role: "" },
  FunctionMessage: { name: "" },
  FunctionMessageChunk: { name: "" },
  ToolMessage: { tool_call_id: "" },
  ToolMessageChunk: { tool_call_id: "" },
};

function messageClass(tag: string, type: new (fields: never) => object): InstanceClass {
  return {
    tag,
    prototype: type.prototype as object,
    make:
      tag === "RemoveMessage" ? () => new RemoveMessage({ id: "" }) : () => new type({ content: "", ...REQUIRED[tag] } as never),
    marks: (value) => (value as Record<symbol, unknown>)[MESSAGE] === true,
    symbol: MESSAGE,
    args: "lc_kwargs",
    renamed: { contentBlocks: "content" },
  };
}

function langGraphClass(
  tag: string,
  { prototype }: { prototype: object },
  make: () => object,
  rest: Partial<InstanceClass> = {},
): InstanceClass {
  return { tag, prototype, make, marks: (value) => (value as { lg_name?: unknown }).lg_name === tag, ...rest };
}

export const INSTANCE_CLASSES: readonly InstanceClass[] = [
  ...Object.entries(MESSAGE_CLASSES).map(([tag, type]) => messageClass(tag, type)),
  {
    tag: "Document",
    prototype: Document.prototype,
    make: () => new Document({ pageContent: "", metadata: {} }),
    marks: (value) => typeof (value as Document).pageContent === "string" && Object.hasOwn(value, "metadata"),
  },
  langGraphClass("Send", Send, () => new Send("", undefined)),
  langGraphClass("Command", Command, () => new Command({}), {
    symbol: COMMAND_SYMBOL,
    args: COMMAND_SYMBOL,
    keepStaleArgs: true,
  }),
  langGraphClass("Overwrite", Overwrite, () => new Overwrite(undefined)),
  langGraphClass("DeltaSnapshot", DeltaSnapshot, () => new DeltaSnapshot(undefined)),
];

/*
 * LangChain objects keep their constructor arguments beside the properties made from them, and the two share their values. So
 * only the names of the arguments are saved, plus the value of each one that differs from its property.
 *
 * `new AIMessage({...message})` puts the arguments of one message among those of the next. Such a chain is saved as a list,
 * innermost last.
 */

export type Arguments = Record<string | symbol, unknown>;

/** The constructor arguments an object keeps, if it keeps any. */
export function argumentsOf(value: object, type: InstanceClass): Arguments | undefined {
  if (type.args === undefined || !Object.hasOwn(value, type.args)) return undefined;
  const args = (value as Arguments)[type.args];
  return typeof args === "object" && args !== null && !Array.isArray(args) ? (args as Arguments) : undefined;
}

/**
 * True if {@link usualArguments} would derive the same arguments from the written properties alone.
 * @param argKeys the names of the arguments
 * @param written the names of the saved properties
 * @param fresh the names of the arguments of an empty instance
 */
function areUsual(
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

/** Sets the arguments of an object that was just made from these properties. */
function usualArguments(
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
 * The arguments as a further key of the tag. Empty if they are the usual ones, so that equal objects have equal texts whether or
 * not their parts are shared.
 */
function writeArguments(
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
function readArguments(node: JsonRecord, value: JsonRecord, type: InstanceClass, reader: Reading): void {
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
  // With its tag: an error names the tag, and must not name what the link has in its place.
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

/** The property that an argument became. */
export function propertyOf(key: string, type: InstanceClass): string {
  return type.renamed !== undefined && Object.hasOwn(type.renamed, key) ? (type.renamed[key] as string) : key;
}

/** True if the value of an argument has to be saved: no property has it, and it isn't just outdated. */
function differs(key: string, args: Arguments, value: JsonRecord, type: InstanceClass, writer: Writing): boolean {
  const property = propertyOf(key, type);
  if (!Object.prototype.propertyIsEnumerable.call(value, property)) return true;
  if (Object.is(args[key], value[property])) return false;
  if (type.keepStaleArgs !== true && !isPartOf(args[key], value[property])) return false;
  return writer.at(key, args[key]) !== writer.at(key, value[property]);
}

/**
 * An instance is saved as the properties that differ from a fresh one (`v`), the properties it lacks (`d`), and its constructor
 * arguments (`a`) unless they follow from `v`. Reading sets the properties of a fresh instance without calling its constructor:
 * constructors derive, warn and rename, and wouldn't restore later edits.
 */
function instanceKind(type: InstanceClass): Kind {
  const prototype = type.prototype as JsonRecord;
  const fresh = (): Fresh => freshOf(type);

  return kindOf<JsonRecord>({
    tag: type.tag,
    prototype,
    levels: 4,
    accepts: type.marks,

    write(value, writer) {
      const { defaults, freshArguments, known } = fresh();
      writer.refuseInnerKind(value);
      writer.refuseSymbols(value, type.symbol);
      const args = argumentsOf(value, type);
      if (args === undefined && type.args !== undefined && Object.hasOwn(value, type.args)) {
        writer.fail(`${type.tag} with constructor arguments that are not an object`);
      }
      const argKeys = args === undefined ? [] : Object.keys(args);
      const keys: string[] = [];
      // In the order of the arguments, and with the content even if it's empty, so the arguments needn't be saved.
      for (const key of argKeys) {
        if (key === type.args || !isSaved(value, key, known)) continue;
        const part = value[key];
        const implied = typeof part === "object" || part === undefined || !freshArguments.includes(key);
        if (!implied || !isDefault(key, part)) keys.push(key);
      }
      let found = 0;
      for (const key of Object.keys(value)) {
        if (defaults.has(key)) found++;
        if (key !== type.args && !argKeys.includes(key) && !isDefault(key, value[key])) keys.push(key);
      }
      const complete = found === defaults.size && (args !== undefined || type.args === undefined);
      const rest = complete ? "" : `,"d":${JSON.stringify(missing(value))}`;
      const fields = writer.record(value, keys);
      const usual = args === undefined || areUsual(args, argKeys, value, keys, freshArguments, type);
      return `${open(type.tag)},"v":${fields}${rest}${usual ? "" : writeArguments(args, value, keys, freshArguments, type, writer)}}`;
    },

    read(node, reader) {
      const { names, known, usual, freshArguments } = fresh();
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
    const { defaults } = fresh();
    const usual = defaults.get(key);
    return sameDefault(part, usual) && (usual !== undefined || defaults.has(key));
  }

  function missing(value: object): string[] {
    const keys = [...fresh().defaults.keys()].filter((key) => !Object.hasOwn(value, key));
    return type.args === undefined || Object.hasOwn(value, type.args) ? keys : [...keys, ARGUMENTS];
  }
}

/** The state of an instance before anybody puts anything into it. */
interface Fresh {
  readonly names: readonly string[];
  readonly known: ReadonlySet<string>;
  /** Without the arguments of the constructor. */
  readonly defaults: ReadonlyMap<string, unknown>;
  /** By position in `names`: what the constructor would set. The arguments are set last. */
  readonly usual: readonly unknown[];
  readonly freshArguments: readonly string[];
  /** What it keeps under the symbol of its class. */
  readonly atSymbol: unknown;
}

const made = new WeakMap<InstanceClass, Fresh>();

/** Made on first use: the first call of a message constructor is slow, and most programs need few classes. */
export function freshOf(type: InstanceClass): Fresh {
  const known = made.get(type);
  if (known !== undefined) return known;
  const fresh = type.make() as JsonRecord;
  const names = Object.keys(fresh);
  const described = {
    names,
    known: new Set(names),
    defaults: new Map(Object.entries(fresh).filter(([key]) => key !== type.args)),
    usual: names.map((name) => (name === type.args ? undefined : fresh[name])),
    freshArguments: Object.keys(argumentsOf(fresh, type) ?? {}),
    atSymbol: type.symbol === undefined ? undefined : (fresh as Record<symbol, unknown>)[type.symbol],
  };
  made.set(type, described);
  return described;
}

/** Non-enumerable properties aren't saved, as with any object, unless every instance has them. */
function isSaved(value: JsonRecord, key: string, known: ReadonlySet<string>): boolean {
  return Object.hasOwn(value, key) && (known.has(key) || Object.prototype.propertyIsEnumerable.call(value, key));
}

/** Stands for the arguments among the properties an instance lacks; some classes keep them under a symbol. */
const ARGUMENTS = "";

const NOTHING: readonly string[] = [];

export const INSTANCE_KINDS: readonly Kind[] = INSTANCE_CLASSES.map(instanceKind);

/** Each instance gets a default of its own. Defaults are primitives, lists of primitives, and empty objects. */
function another(part: unknown): unknown {
  if (typeof part !== "object" || part === null) return part;
  return Array.isArray(part) ? [...(part as unknown[])] : {};
}
