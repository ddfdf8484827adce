import {
  RouterRunnable,
  Runnable,
  RunnableAssign,
  RunnableBinding,
  RunnableBranch,
  RunnableEach,
  RunnableLambda,
  RunnableMap,
  RunnableParallel,
  RunnablePassthrough,
  RunnablePick,
  RunnableRetry,
  RunnableSequence,
  RunnableToolLike,
  RunnableWithFallbacks,
  RunnableWithMessageHistory,
} from "@langchain/core/runnables";
import { DynamicStructuredTool, DynamicTool, StructuredTool, Tool, tool } from "@langchain/core/tools";
import { entrypoint, messagesStateReducer } from "@langchain/langgraph";
import { sha256 } from "../sealing/sealing";
import { canonicalSource } from "./canonical-source";
import { type Canonical, withoutNames } from "./canonical-values";
import { field, isProxy, originalOf } from "./graph-nodes";
import { normalised } from "./normalise";

/** The structure of a value, as JSON. `blind` says that a part of it can't be seen. */
interface Shape {
  shape: unknown;
  blind: boolean;
}

/**
 * Properties in which LangChain's runnables, tools and prompts keep what they do. Settings, clients, caches and secrets are in
 * others.
 */
const PARTS = [
  ...["func", "first", "middle", "last", "steps", "bound", "runnable", "runnables", "fallbacks", "branches", "default", "mapper"],
  ...["tools", "keys", "kwargs", "condition", "description", "schema", "returnDirect", "responseFormat"],
  ...["promptMessages", "prompt", "template", "templateFormat", "variableName"],
] as const;
const MAX_VALUES = 10_000;

/**
 * Describes a runnable by the source of every function that can be reached in it. Nothing is called: no functions, accessors or
 * proxy traps. Parts that can't be seen (proxies, bound and native functions, functions in a library's closure) are described by
 * kind and name.
 *
 * @param anyNames makes the names that functions use from outside count as equal, because a minifier renames them
 */
export function shapeOf(value: unknown, anyNames = false): Shape {
  const walk = new Walk(anyNames);
  try {
    return { shape: walk.of(value), blind: walk.blind };
  } catch {
    return { shape: { kind: typeof value }, blind: true };
  }
}

interface SourceHashes {
  source: string;
  unnamed: string;
}

const hashes = new Map<string, SourceHashes>();
const MAX_HASHES = 2000;

/**
 * The same for every way to write the same function. Cached, because graphs are often built per request from the same functions.
 */
function hashesOf(source: string): SourceHashes {
  const known = hashes.get(source);
  if (known !== undefined) return known;
  const canonical = canonicalSource(source) ?? normalised(source);
  const of = (program: Canonical): string => sha256(JSON.stringify(program));
  const found = { source: of(canonical), unnamed: of(withoutNames(canonical)) };
  if (hashes.size >= MAX_HASHES) hashes.clear();
  hashes.set(source, found);
  return found;
}

class Walk {
  blind = false;
  readonly #above = new Set<object>();
  #left = MAX_VALUES;

  constructor(private readonly anyNames: boolean) {}

  of(value: unknown): unknown {
    if (typeof value === "function") return this.#function(value);
    // JSON can't hold a bigint, a symbol or undefined.
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value !== "object" || value === null) return typeof value === "symbol" ? String(value) : (value ?? null);
    const target = originalOf(value) as object;
    if (isProxy(target)) return this.#unseen("proxy");
    if (this.#above.has(target)) return { again: true };
    if (this.#left-- <= 0) return this.#unseen("too large");
    this.#above.add(target);
    const shape = this.#object(target);
    this.#above.delete(target);
    return shape;
  }

  #function(value: unknown): unknown {
    // A function of LangGraph's own that users pass by reference: an update of LangGraph doesn't change the user's graph.
    if (value === messagesStateReducer) return { library: "messagesStateReducer" };
    const name = field(value, "name");
    const source = isProxy(value) ? "" : Function.prototype.toString.call(value);
    if (library().wrappers.has(source)) return this.#unseen("wrapped function");
    // Bound and native functions have no source. A bound one still has its name.
    if (source === "" || /\{\s*\[native code\]\s*\}\s*$/.test(source))
      return this.#unseen(`function ${typeof name === "string" ? name : ""}`);
    const found = hashesOf(source);
    return { source: this.anyNames ? found.unnamed : found.source };
  }

  #object(target: object): unknown {
    if (Array.isArray(target)) return target.map((element) => this.of(element));
    if (field(target, "lg_is_pregel") === true) return { graph: true };
    if (isSchema(target)) return schemaShape(target, (value) => this.of(value));
    const classes = classesOf(target);
    if (isPlain(target)) return this.#parts(target, Object.keys(target));
    if (isModel(target, classes))
      return { model: classes[0]?.name, name: field(target, "model") ?? field(target, "modelName") ?? null };
    const ofLibrary = classes.findIndex(({ name }) => LIBRARY_CLASSES.has(name));
    const own = classes.slice(0, Math.max(0, ofLibrary));
    const isTool = field(target, "description") !== undefined || field(target, "schema") !== undefined;
    return {
      // The name of a user's class doesn't count, like the name of a variable. What the class does is in its source.
      kind: classes[ofLibrary]?.name ?? classes[0]?.name,
      ...(own.length === 0 ? {} : { classes: own.map(({ constructor }) => this.of(constructor)) }),
      ...this.#parts(target, isTool ? ["name", ...PARTS] : PARTS),
    };
  }

  #parts(target: object, keys: readonly string[]): Record<string, unknown> {
    const parts: Record<string, unknown> = {};
    for (const key of keys) {
      const descriptor = Object.getOwnPropertyDescriptor(target, key);
      const getter: unknown = descriptor && Reflect.get(descriptor, "get");
      if (getter !== undefined) parts[`get ${key}`] = this.of(getter);
      else if (descriptor?.value !== undefined) parts[`.${key}`] = this.of(descriptor.value);
    }
    return parts;
  }

  #unseen(kind: string): unknown {
    this.blind = true;
    return { unseen: kind };
  }
}

/** A model counts by its class and its name. The rest of it is settings, clients and counters. */
function isModel(target: object, classes: readonly { name: string }[]): boolean {
  const namespace = field(target, "lc_namespace");
  const of = Array.isArray(namespace) ? (namespace as unknown[]) : [];
  return (
    ["chat_models", "language_models", "llms"].some((part) => of.includes(part)) ||
    classes.some(({ name }) => name === "BaseChatModel" || name === "BaseLLM" || name === "BaseLanguageModel")
  );
}

/**
 * Classes whose source says nothing about the user's work: LangChain's and LangGraph's own. They are listed by name, because the
 * ESM and the CommonJS build of a package each have their own. What a user's class adds to them counts, down to the first of
 * these.
 */
const LIBRARY_CLASSES: ReadonlySet<string> = new Set([
  ...["Object", "Function", "Serializable", "Runnable", "RunnableLambda", "RunnableSequence", "RunnableMap", "RunnableParallel"],
  ...["RunnableBinding", "RunnableRetry", "RunnableEach", "RunnableWithFallbacks", "RunnableAssign", "RunnablePick"],
  ...["RunnableBranch", "RunnablePassthrough", "RouterRunnable", "RunnableCallable", "RunnableWithMessageHistory"],
  ...["RunnableToolLike", "ToolNode", "ChannelWrite", "PregelNode", "Pregel", "PartialRunnable", "CompiledGraph"],
  ...["CompiledStateGraph", "RemoteGraph", "BaseLangChain", "BaseTool", "StructuredTool", "Tool", "DynamicTool"],
  ...["DynamicStructuredTool", "BasePromptTemplate", "BaseStringPromptTemplate", "PromptTemplate", "BaseChatPromptTemplate"],
  ...["ChatPromptTemplate", "BaseMessagePromptTemplate", "HumanMessagePromptTemplate", "AIMessagePromptTemplate"],
  ...["SystemMessagePromptTemplate", "ChatMessagePromptTemplate", "MessagesPlaceholder", "BaseOutputParser"],
  ...["BaseTransformOutputParser", "StringOutputParser", "StrOutputParser", "BaseLLMOutputParser"],
]);

interface Library {
  /** Names of classes by identity, because a minifier renames classes. */
  names: ReadonlyMap<unknown, string>;
  /** Sources of functions in which a library hides a user's: `tool(fn)` and `entrypoint(fn)` keep it in an invisible closure. */
  wrappers: ReadonlySet<unknown>;
}

let loaded: Library | undefined;

/** What the libraries that are loaded here look like. Found out by making things with them, so it works for every version. */
function library(): Library {
  if (loaded !== undefined) return loaded;
  const structured = tool(() => "", { name: "x", description: "x", schema: { type: "object", properties: {} } });
  const plain = tool(() => "", { name: "x", description: "x" });
  const task = field(entrypoint({ name: "x" }, () => Promise.resolve()).nodes["x"], "bound");
  const functions = [structured, plain, task].map((wrapper) => field(wrapper, "func"));
  const classes = {
    ...{ Runnable, RunnableAssign, RunnableBinding, RunnableBranch, RunnableEach, RunnableLambda, RunnableMap, RunnableParallel },
    ...{ RunnablePassthrough, RunnablePick, RunnableRetry, RunnableSequence, RunnableToolLike, RunnableWithFallbacks },
    ...{ RunnableWithMessageHistory, RouterRunnable, StructuredTool, Tool, DynamicTool, DynamicStructuredTool },
    ...{ Serializable: above(Runnable), BaseLangChain: above(StructuredTool), RunnableCallable: classOf(task) },
  };
  const names = new Map<unknown, string>(Object.entries(classes).map(([name, constructor]) => [constructor, name]));
  const sources = functions.map((each) => (typeof each === "function" ? Function.prototype.toString.call(each) : undefined));
  return (loaded = { names, wrappers: new Set(sources) });
}

const LITERAL = /\breturn\s*["'`](\w+)["'`]/;

/**
 * A class's name that no minifier changes. LangChain's classes are known by identity, or say their name in `lc_name`, which is
 * read and not called. LangGraph's ToolNode is known by its method.
 */
function stableName(constructor: unknown): string {
  const { names } = library();
  const known = names.get(constructor);
  if (known !== undefined) return known;
  const lcName = field(constructor, "lc_name");
  const literal = typeof lcName === "function" ? LITERAL.exec(Function.prototype.toString.call(lcName))?.[1] : undefined;
  // A user's subclass may return the name of the class that it extends.
  if (literal !== undefined && stableName(above(constructor)) !== literal) return literal;
  const isToolNode =
    names.get(above(constructor)) === "RunnableCallable" && field(field(constructor, "prototype"), "runTool") !== undefined;
  if (isToolNode) return "ToolNode";
  const name = field(constructor, "name");
  return typeof name === "string" ? name : "";
}

function above(constructor: unknown): unknown {
  return typeof constructor === "function" && !isProxy(constructor) ? Object.getPrototypeOf(constructor) : undefined;
}

function classOf(value: unknown): unknown {
  return typeof value === "object" && value !== null ? field(Object.getPrototypeOf(value), "constructor") : undefined;
}

/** Texts for refused values, and Zod's own functions. */
const NOT_COUNTED: ReadonlySet<string> = new Set(["error", "errorMap", "message", "when"]);

/** Zod 4 keeps a schema's definition in `_zod.def`, Zod 3 in `_def`. */
function definitionOf(value: unknown): unknown {
  return field(field(value, "_zod"), "def") ?? field(value, "_def");
}

function isSchema(value: object): boolean {
  return definitionOf(value) !== undefined;
}

/**
 * The structure of a Zod schema: its parts, and the source of its refinements and transforms. Default functions and the getters
 * of recursive types aren't called.
 *
 * @param of describes nested schemas, and values that aren't schemas
 */
function schemaShape(schema: object, of: (value: unknown) => unknown): unknown {
  const definition = definitionOf(schema);
  if (typeof definition !== "object" || definition === null || isProxy(definition)) return { schema: true };
  const shape: Record<string, unknown> = {};
  for (const key of Object.keys(definition)) {
    const value = key === "shape" ? fieldsOf(definition as { shape: unknown }) : field(definition, key);
    if (value !== undefined && !NOT_COUNTED.has(key)) shape[`.${key}`] = of(value);
  }
  return { schema: shape };
}

/** For an object type. Zod creates it when needed, by an accessor (4) or a function (3) of its own. */
function fieldsOf(definition: { shape: unknown }): unknown {
  const shape = definition.shape;
  const made: unknown = typeof shape === "function" ? (shape as () => unknown)() : shape;
  return typeof made === "object" && made !== null && !isProxy(made) && isPlain(made) ? made : undefined;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The names of an object's classes from its own upwards, with the classes. */
export function classesOf(value: object): { name: string; constructor: unknown }[] {
  const classes: { name: string; constructor: unknown }[] = [];
  for (let at: unknown = Object.getPrototypeOf(value); at !== null && !isProxy(at); at = Object.getPrototypeOf(at)) {
    const constructor = field(at, "constructor");
    classes.push({ name: stableName(constructor), constructor });
  }
  return classes;
}
