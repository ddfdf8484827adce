import { classesOf, field, isPlain, isProxy } from "./fields";
import { hidesFunction, LIBRARY_CLASSES, libraryName } from "./library";
import { normalised } from "./normalise";
import { isSchema, schemaShape } from "./schema";

/** What a value is made of, as JSON; `blind` says that there is a part which cannot be seen. */
export interface Shape {
  shape: unknown;
  blind: boolean;
}

/** Properties in which LangChain's runnables, tools and prompts keep what they do. Settings, clients, caches and secrets are elsewhere. */
const PARTS = [
  ...["func", "first", "middle", "last", "steps", "bound", "runnable", "runnables", "fallbacks", "branches", "default", "mapper"],
  ...["tools", "keys", "kwargs", "condition", "description", "schema", "returnDirect", "responseFormat"],
  ...["promptMessages", "prompt", "template", "templateFormat", "variableName"],
] as const;
/** By which this package marks a runnable that it put around another. */
const ORIGINAL = Symbol.for("langgraph-checkpoint-turns.original");
const MAX_VALUES = 10_000;

/**
 * Describes a runnable by the source of every function that can be reached in it, without calling any: neither functions nor accessors
 * nor the traps of proxies. What cannot be seen (proxies, bound and native functions, functions in a library's closure) is described by
 * its kind and name.
 */
export function shapeOf(value: unknown): Shape {
  const walk = new Walk();
  try {
    return { shape: walk.of(value), blind: walk.blind };
  } catch {
    return { shape: { kind: typeof value }, blind: true };
  }
}

/** The runnable that this package has wrapped, or the runnable itself. */
export function originalOf(runnable: unknown): unknown {
  let found = runnable;
  while (typeof found === "object" && found !== null && !isProxy(found)) {
    const inner: unknown = Object.getOwnPropertyDescriptor(found, ORIGINAL)?.value;
    if (inner === undefined) break;
    found = inner;
  }
  return found;
}

class Walk {
  blind = false;
  readonly #above = new Set<object>();
  #left = MAX_VALUES;

  of(value: unknown): unknown {
    if (typeof value === "function") return this.#function(value);
    if (typeof value !== "object" || value === null) return typeof value === "bigint" ? `${value}n` : this.#primitive(value);
    const target = originalOf(value) as object;
    if (isProxy(target)) return this.#unseen("proxy");
    if (this.#above.has(target)) return { again: true };
    if (this.#left-- <= 0) return this.#unseen("too large");
    this.#above.add(target);
    const shape = this.#object(target);
    this.#above.delete(target);
    return shape;
  }

  /** A symbol or undefined is nothing that JSON could hold. */
  #primitive(value: unknown): unknown {
    return typeof value === "symbol" ? String(value) : (value ?? null);
  }

  #function(value: unknown): unknown {
    const known = libraryName(value);
    if (known !== undefined) return { library: known };
    const name = field(value, "name");
    const source = isProxy(value) ? "" : Function.prototype.toString.call(value);
    if (hidesFunction(source)) return this.#unseen("wrapped function");
    // Bound and native functions have no source; of a bound one the name is what is left.
    if (source === "" || /\{\s*\[native code\]\s*\}\s*$/.test(source))
      return this.#unseen(`function ${typeof name === "string" ? name : ""}`);
    return { source: normalised(source) };
  }

  #object(target: object): unknown {
    if (Array.isArray(target)) return target.map((element) => this.of(element));
    if (field(target, "lg_is_pregel") === true) return { graph: true };
    if (isSchema(target)) return schemaShape(target, (value) => this.of(value));
    const classes = classesOf(target);
    if (isPlain(target)) return this.#parts(target, Object.keys(target));
    if (isModel(target, classes))
      return { model: classes[0]?.name, name: field(target, "model") ?? field(target, "modelName") ?? null };
    const own = classes.slice(
      0,
      Math.max(
        0,
        classes.findIndex(({ name }) => LIBRARY_CLASSES.has(name)),
      ),
    );
    const isTool = field(target, "description") !== undefined || field(target, "schema") !== undefined;
    return {
      kind: classes[0]?.name,
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

/** A model counts by its class and its name: the rest of it is settings, clients and counters. */
function isModel(target: object, classes: readonly { name: string }[]): boolean {
  const namespace = field(target, "lc_namespace");
  const of = Array.isArray(namespace) ? (namespace as unknown[]) : [];
  return (
    ["chat_models", "language_models", "llms"].some((part) => of.includes(part)) ||
    classes.some(({ name }) => name === "BaseChatModel" || name === "BaseLLM" || name === "BaseLanguageModel")
  );
}
