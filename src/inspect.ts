import type { inspect, InspectOptions } from "node:util";

/**
 * Says what Node's console shows of a class's instances: the name and some values. Deeper than the console shows, the name alone.
 * The types of the class don't show it.
 */
export function showAs<T extends object>(prototype: T, name: string, values: (instance: T) => object): void {
  const value = function (this: T, depth: number, options: InspectOptions, show: typeof inspect): string {
    return depth < 0 ? `[${name}]` : `${name} ${show(values(this), { ...options, depth })}`;
  };
  Object.defineProperty(prototype, Symbol.for("nodejs.util.inspect.custom"), { value, configurable: true, writable: true });
}
