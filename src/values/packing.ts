import type { EncodeOptions } from "../codec";
import { type Element, encodedElement, isStill } from "./element";
import type { ThreadMemory } from "./memory";

/** What packing needs to know about where it is. */
export interface Packing {
  memory: ThreadMemory;
  options: EncodeOptions & { immutable: boolean };
}

/** The element of a value: remembered by its object if it still is the same, else new. */
export function elementFor(value: unknown, encodeValue: () => string, packing: Packing): Element {
  const known = rememberedFor(value, encodeValue, packing);
  if (known !== undefined) return known;
  const text = encodeValue();
  const element = encodedElement(packing.memory.address(text), text, value);
  if (isObject(value)) packing.memory.objects.set(value, element);
  return element;
}

export function rememberedFor(value: unknown, encodeValue: () => string, packing: Packing): Element | undefined {
  const known = isObject(value) ? packing.memory.objects.get(value) : undefined;
  return known !== undefined && isStill(known, value, encodeValue, packing.memory.tracer) ? known : undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** A plain list; holes and further properties are a question of their own. */
export function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && Object.getPrototypeOf(value) === Array.prototype;
}
