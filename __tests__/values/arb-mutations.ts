import { types } from "node:util";
import { AIMessage } from "@langchain/core/messages";
import fc from "fast-check";
import { anyValue, objectsIn } from "../support/arb-values";

/** A change to one of the objects in a value. Numbers choose among what there is. */
export interface Mutation {
  at: number;
  how: number;
  nth: number;
  part: unknown;
}

export const mutation: fc.Arbitrary<Mutation> = fc.record({ at: fc.nat(), how: fc.nat(), nth: fc.nat(99), part: anyValue });

/** Changes one of the objects that can be reached from the roots, in one of the ways a program could. */
export function mutate(roots: readonly unknown[], { at, how, nth, part }: Mutation): void {
  const owners = [...new Set(roots.flatMap((root) => [...objectsIn(root)]))];
  const owner = owners[at % Math.max(owners.length, 1)] as any;
  if (owner === undefined) return;
  if (types.isAnyArrayBuffer(owner) && owner.byteLength > 0) new Uint8Array(owner)[nth % owner.byteLength] = how;
  else if (ArrayBuffer.isView(owner)) changeBytes(owner, how, nth);
  else if (types.isDate(owner)) Date.prototype.setTime.call(owner, nth);
  else if (types.isRegExp(owner)) owner.lastIndex = nth;
  else if (owner instanceof URL) owner.hash = String(nth);
  else if (types.isMap(owner)) changeMap(owner, how, nth, part);
  else if (types.isSet(owner)) changeSet(owner, how, part);
  else if (Array.isArray(owner) && how % 2 === 0) changeList(owner, how >> 1, nth, part);
  else changeProperties(owner, how, nth, part);
}

function changeBytes(view: ArrayBufferView, how: number, nth: number): void {
  if (view.byteLength > 0) new Uint8Array(view.buffer, view.byteOffset, view.byteLength)[nth % view.byteLength] = how;
}

function changeMap(map: Map<unknown, unknown>, how: number, nth: number, part: unknown): void {
  const keys = [...map.keys()];
  if (how % 4 === 0) map.set(part, nth);
  else if (how % 4 === 1) map.delete(keys[nth % Math.max(keys.length, 1)]);
  else if (how % 4 === 2) map.clear();
  else map.set(keys[0], part);
}

function changeSet(set: Set<unknown>, how: number, part: unknown): void {
  const [first] = set;
  if (how % 3 === 0) set.add(part);
  else if (how % 3 === 1) set.delete(first);
  else if (set.delete(first)) set.add(first);
}

function changeList(list: unknown[], how: number, nth: number, part: unknown): void {
  const index = nth % Math.max(list.length, 1);
  const last = list.length - 1;
  switch (how % 8) {
    case 0:
      list.push(part);
      break;
    case 1:
      list[index] = part;
      break;
    case 2:
      list.length = index;
      break;
    case 3:
      if (last > 0) [list[index], list[last]] = [list[last], list[index]];
      break;
    case 4:
      list.splice(index, 1);
      break;
    case 5:
      list.unshift(part);
      break;
    case 6:
      Array.prototype.reverse.call(list);
      break;
    default:
      if (last >= 0) list.push(list[index]);
  }
}

function changeProperties(owner: any, how: number, nth: number, part: unknown): void {
  const keys = Object.keys(owner);
  const key = keys[nth % Math.max(keys.length, 1)] ?? "added";
  const old: unknown = owner[key];
  const define = (name: string, value: unknown, enumerable = true): void =>
    void Object.defineProperty(owner, name, { value, enumerable, writable: true, configurable: true });
  switch ((how >> 1) % 12) {
    case 0:
      return define(key, part);
    case 1:
      return void delete owner[key];
    case 2:
      delete owner[key];
      return define(key, old);
    case 3:
      return define("added", part);
    case 4:
      return define(["content", "id", "name", "lc_kwargs", "tool_calls", "additional_kwargs", "~", "__proto__"][nth % 8]!, part);
    case 5:
      return define(key, typeof old === "string" ? `${old}!` : typeof old === "number" ? -old : part);
    case 6:
      return define(key, Array.isArray(old) ? [...(old as unknown[])] : { ...(old as object) });
    case 7:
      return define(key, [undefined, null, "", {}, [], 0, -0, "x"][nth % 8]);
    case 8:
      return define(key, old, false);
    case 9:
      return void Object.setPrototypeOf(owner, nth % 2 === 0 ? null : AIMessage.prototype);
    case 10:
      return reorder(owner, keys);
    default:
      return typeof old === "object" && old !== null && !Array.isArray(old)
        ? void Object.defineProperty(old, "more", { value: part, enumerable: true, writable: true, configurable: true })
        : define(key, part);
  }
}

function reorder(owner: Record<string, unknown>, keys: readonly string[]): void {
  for (const key of [...keys].reverse()) {
    const descriptor = Object.getOwnPropertyDescriptor(owner, key)!;
    if (descriptor.configurable !== true) continue;
    delete owner[key];
    Object.defineProperty(owner, key, descriptor);
  }
}
