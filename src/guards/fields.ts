import { types } from "node:util";

/** What a property holds, without running anything: accessors, inherited properties and proxies give undefined. */
export function field(target: unknown, key: string): unknown {
  if ((typeof target !== "object" && typeof target !== "function") || target === null || types.isProxy(target)) return undefined;
  return Object.getOwnPropertyDescriptor(target, key)?.value;
}

export function isProxy(value: unknown): boolean {
  return types.isProxy(value);
}

export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The names of an object's classes from its own upwards, with the classes. */
export function classesOf(value: object): { name: string; constructor: unknown }[] {
  const classes: { name: string; constructor: unknown }[] = [];
  for (let at: unknown = Object.getPrototypeOf(value); at !== null && !types.isProxy(at); at = Object.getPrototypeOf(at)) {
    const constructor = field(at, "constructor");
    const name = field(constructor, "name");
    classes.push({ name: typeof name === "string" ? name : "", constructor });
  }
  return classes;
}
