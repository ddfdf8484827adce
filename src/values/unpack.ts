import { decode } from "../codec";
import { TurnsError } from "../errors";
import type { ReadParts, StoredValue } from "../store/store";
import { type Element, elementOf, valueOf } from "./element";
import { type Addressed, digestOf } from "./digest";
import { type KnownList, type ThreadMemory } from "./memory";

/** Below this size a value is sooner decoded than remembered. */
const REMEMBER_MIN = 512;

/** What unpacking needs to know about where it is. */
export interface Unpacking {
  threadId: string;
  memory: ThreadMemory;
  parts: ReadParts;
  immutable: boolean;
  address(text: string): string;
}

type StoredList = Extract<StoredValue, { kind: "list" }>;

/** What was remembered when the store was asked is not there any more, or no longer true: ask again without it. */
export class StaleMemory extends Error {}

/** A text with what it refers to put in. Every call makes it anew, so that no caller shares objects with another. */
export function unpackText(text: string, unpacking: Unpacking): unknown {
  return decode(text, (address) => partValue(address, unpacking));
}

/** @param place the channel's place in the thread's memory; undefined if the value is not its newest one */
export function unpackValue(stored: StoredValue, place: string | undefined, unpacking: Unpacking): unknown {
  if (stored.kind === "list") return unpackList(stored, place, unpacking);
  if (stored.address !== undefined) return partValue(stored.address, unpacking);
  return unpackText(stored.text ?? "null", unpacking);
}

function partValue(address: string, unpacking: Unpacking): unknown {
  const { memory, parts } = unpacking;
  const known = memory.part(address);
  if (known !== undefined) return handedOut(known, valueOf(known), memory);
  const text = parts.chunks.get(address);
  if (text === undefined) throw new StaleMemory(address);
  const value = unpackText(text, unpacking);
  if (text.length < REMEMBER_MIN) return value;
  const element = elementOf(address, text, value);
  if (element.text === undefined) memory.addPart(element);
  return handedOut(element, value, memory);
}

/** Remembers whose value an object is: it may come back with the next save. */
function handedOut(element: Element, value: unknown, memory: ThreadMemory): unknown {
  if (typeof value === "object" && value !== null) memory.objects.set(value, element);
  return value;
}

function unpackList(stored: StoredList, place: string | undefined, unpacking: Unpacking): unknown[] {
  const { memory } = unpacking;
  const { list, decoded } = listOf(stored, unpacking);
  const values: unknown[] = [];
  for (let index = 0; index < stored.length; index += 1) {
    const element = list.elements[index] as Element;
    const value = index < stored.from ? valueOf(element) : decoded[index - stored.from];
    values.push(handedOut(element, value, memory));
  }
  if (place !== undefined) {
    const objects = unpacking.immutable ? [...values] : undefined;
    const generation = unpacking.parts.generation;
    memory.channels.set(place, { list, length: stored.length, digest: undefined, generation, objects });
  }
  return values;
}

/** The list with at least the elements that the value has, each verified by the digest over all of them. */
function listOf(stored: StoredList, unpacking: Unpacking): { list: KnownList; decoded: readonly unknown[] } {
  const { memory } = unpacking;
  const known = stored.from === 0 ? undefined : memory.list(stored.list);
  if (stored.from > 0 && known === undefined) throw new StaleMemory(String(stored.list));
  if (known !== undefined && stored.from >= stored.length) return { list: known, decoded: [] };
  const before = known?.elements.slice(0, stored.from) ?? [];
  const addresses = stored.texts.map((text) => ({ address: unpacking.address(text) }));
  if (digestOf([...before, ...addresses]).text !== stored.digest) {
    memory.forgetLists();
    if (known !== undefined) throw new StaleMemory(String(stored.list));
    throw altered(stored, unpacking.threadId);
  }
  const decoded = stored.texts.map((text) => unpackText(text, unpacking));
  const read = stored.texts.map((text, index) => elementOf((addresses[index] as Addressed).address, text, decoded[index]));
  const segments = stored.segments ?? known?.segments ?? [];
  const list: KnownList = { segments, elements: [...before, ...read], digests: new Map([[stored.length, stored.digest]]) };
  memory.addList(list, read);
  return { list, decoded };
}

function altered(stored: { list: number; length: number }, threadId: string): TurnsError {
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    what: `a list value of thread ${threadId}`,
    expected: `the ${stored.length} elements that were saved`,
    found: "others",
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
    data: { threadId, list: stored.list },
  });
}
