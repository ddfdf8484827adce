import { types } from "node:util";
import { TurnsError } from "../../src/testing-internal";

/** It is in every value of the seeds, and in no id: no message may ever quote it. */
export const CANARY = "Canary7Zq";

/** What a payload may never do. Kept as it was when this file was loaded. */
const PROTOTYPES: readonly [string, object][] = [
  ["Object", Object.prototype],
  ["Array", Array.prototype],
  ["Function", Function.prototype],
  ["String", String.prototype],
  ["Map", Map.prototype],
  ["Set", Set.prototype],
  ["Error", Error.prototype],
  ["Promise", Promise.prototype],
  ["RegExp", RegExp.prototype],
];
const BEFORE = PROTOTYPES.map(([, prototype]) => imageOf(prototype));

function imageOf(prototype: object): readonly unknown[] {
  return Reflect.ownKeys(prototype).flatMap((key) => {
    const { value, get, set } = Object.getOwnPropertyDescriptor(prototype, key) ?? {};
    return [key, value, get, set];
  });
}

/** What is wrong with how an input was answered; undefined if nothing is. */
export function wrongAfter(): string | undefined {
  if ("__pwned" in globalThis) return "code that a payload named was run";
  const index = PROTOTYPES.findIndex(([, prototype], at) => {
    const [before, now] = [BEFORE[at] ?? [], imageOf(prototype)];
    return before.length !== now.length || before.some((part, place) => !Object.is(part, now[place]));
  });
  return index === -1 ? undefined : `the prototype of ${PROTOTYPES[index]?.[0]} was changed`;
}

/** What is wrong with an error that was thrown; undefined for a named error that quotes no value. */
export function wrongWith(error: unknown): string | undefined {
  if (!TurnsError.is(error)) return `an error outside the family: ${nameOf(error)}`;
  return tells(error) ? `${error.code} tells what a value holds: ${error.message}` : undefined;
}

/** The outcome of an input in few words. Inputs with new words are worth keeping. */
export function wordsFor(error: unknown): string {
  return TurnsError.is(error)
    ? `${error.code} ${error.message.replace(/[0-9A-Za-z_-]{12,}|"[^"]*"|\d+/g, "#").slice(0, 160)}`
    : nameOf(error);
}

function nameOf(error: unknown): string {
  const { name, message, stack } = (error ?? {}) as Partial<Error>;
  const place = stack?.split("\n").find((line) => line.includes("/src/"));
  return `${name ?? typeof error} ${message?.slice(0, 120) ?? ""} ${place?.trim() ?? ""}`;
}

/** In its message, its data, or those of its causes. */
function tells(error: TurnsError): boolean {
  for (let link: unknown = error, depth = 0; link instanceof Error && depth < 10; link = link.cause, depth += 1) {
    const data = (link as Partial<TurnsError>).data;
    if (link.message.includes(CANARY) || JSON.stringify(data ?? {}).includes(CANARY)) return true;
  }
  return false;
}

const BUILT_INS: ReadonlySet<unknown> = new Set<unknown>([
  ...[Object, Array, Date, RegExp, URL, Map, Set, ArrayBuffer, DataView, Buffer].map((type) => type.prototype),
  ...[Error, TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError, AggregateError].map(
    (type) => type.prototype,
  ),
  ...[Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array].map((type) => type.prototype),
  ...[Float32Array, Float64Array, BigInt64Array, BigUint64Array].map((type) => type.prototype),
  null,
]);

/** A decoded value holds only data and known classes. @param known further prototypes that may be there */
export function wrongInValue(root: unknown, known: ReadonlySet<unknown>): string | undefined {
  const seen = new Set<unknown>();
  const waiting: unknown[] = [root];
  while (waiting.length > 0) {
    const value = waiting.pop();
    if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value} in a decoded value`;
    if (typeof value !== "object" || value === null || seen.has(value)) continue;
    seen.add(value);
    const prototype: unknown = Object.getPrototypeOf(value);
    if (!BUILT_INS.has(prototype) && !known.has(prototype)) return `a class that nobody allowed: ${prototypeName(prototype)}`;
    if (value instanceof Map) for (const [key, item] of value) waiting.push(key, item);
    if (value instanceof Set) waiting.push(...value);
    if (ArrayBuffer.isView(value)) continue;
    for (const key of Reflect.ownKeys(value)) {
      const { get, set, value: part } = Object.getOwnPropertyDescriptor(value, key) ?? {};
      // Newer engines give each error an accessor of their own for it.
      if (key === "stack" && types.isNativeError(value) && [get, set].every(isNative)) continue;
      if (get !== undefined || set !== undefined) return `an accessor in a decoded value: ${String(key)}`;
      waiting.push(part);
    }
  }
  return undefined;
}

function isNative(accessor: unknown): boolean {
  return typeof accessor === "function" && /\{ \[native code\] \}$/.test(Function.prototype.toString.call(accessor));
}

export function prototypeName(prototype: unknown): string {
  return String((prototype as { constructor?: { name?: string } } | null)?.constructor?.name ?? "an object of its own");
}
