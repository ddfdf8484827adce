const OBJECT = Object.prototype;

/** The name of the class a prototype belongs to. LangChain classes keep theirs in `lc_name`, which survives minifiers. */
export function classNameOf(prototype: object): string {
  const constructor = constructorOf(prototype);
  if (constructor === undefined) return "";
  const declared: unknown = Object.hasOwn(constructor, "lc_name") ? constructor.lc_name?.() : undefined;
  return typeof declared === "string" ? declared : constructor.name;
}

/** How many objects a chain of prototypes has. */
export function chainLength(prototype: object): number {
  let length = 0;
  for (let current: object | null = prototype; current !== null; current = parentOf(current)) length++;
  return length;
}

/** The next object up the chain. */
export function parentOf(object: object): object | null {
  return Object.getPrototypeOf(object) as object | null;
}

/** True for the `Object.prototype` or `Array.prototype` of another realm. */
export function isPlainPrototype(prototype: object, name: "Object" | "Array"): boolean {
  return classNameOf(prototype) === name && chainLength(prototype) === (name === "Object" ? 1 : 2) && isNative(prototype);
}

/**
 * True if the class of the value is built into some realm of this process. Keeps a user's class that merely bears a built-in's name
 * from being saved as the built-in.
 */
export function isOfNativeClass(value: object): boolean {
  const prototype = parentOf(value);
  return prototype !== null && isNative(prototype);
}

/** The `toJSON` that a value or its class declares below the given prototype. */
export function ownToJson(value: object, end: object = OBJECT): ((key: string) => unknown) | undefined {
  for (let current: object | null = value; current !== null && current !== end; current = parentOf(current)) {
    if (!Object.hasOwn(current, "toJSON")) continue;
    const found: unknown = (value as { toJSON?: unknown }).toJSON;
    return typeof found === "function" ? (found as (key: string) => unknown) : undefined;
  }
  return undefined;
}

/** The name a class was declared with; empty if it has none. */
export function nameOfClass(prototype: object): string {
  return constructorOf(prototype)?.name ?? "";
}

/** What to call a value in an error message. */
export function instanceOf(prototype: object): string {
  const name = nameOfClass(prototype);
  return name === "" || name === "Object" ? "an object with an unknown prototype" : `an instance of ${name}`;
}

type Constructor = ((...args: never) => unknown) & { lc_name?(): unknown };

function constructorOf(prototype: object): Constructor | undefined {
  const constructor: unknown = Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  return typeof constructor === "function" ? (constructor as Constructor) : undefined;
}

/** True if the class that a prototype belongs to is built into some realm of this process. */
export function isNative(prototype: object): boolean {
  const constructor = constructorOf(prototype);
  return constructor !== undefined && Function.prototype.toString.call(constructor).includes("[native code]");
}
