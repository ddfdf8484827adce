import { encodePart } from "../codec";
import type { PackedList, Segment } from "../store/store";
import { digestOf, extended, type ListDigest } from "./digest";
import { type Element, isStill, textOf } from "./element";
import { agrees, type KnownChannel, type KnownList, type ThreadMemory } from "./memory";
import { elementFor, type Packing } from "./packing";

/** A list on its way into the store, and what to remember of it once it is there. */
export interface PackingList extends PackedList {
  readonly value: readonly unknown[];
  readonly before: KnownChannel | undefined;
  readonly keep: number;
  readonly fresh: readonly Element[];
  readonly newDigest: ListDigest;
}

/**
 * A list element by element, each under the address of its text. What compares equal to the private copy of the element that was at
 * its place is not encoded again. Comparing is what makes that safe: users change messages in place, and the identity of an object
 * proves nothing, unless they said (`immutable`) that they never do.
 *
 * @param before what the channel held when it was last saved or read
 * @param texts the texts of all elements, if the caller has them
 */
export function packList(
  value: readonly unknown[],
  before: KnownChannel | undefined,
  packing: Packing,
  texts?: readonly string[],
): PackingList {
  const encodeAt = (index: number): string => texts?.[index] ?? encodePart(value, index, packing.options);
  const keep = before === undefined ? 0 : commonPrefix(value, before, packing, encodeAt);
  const fresh: Element[] = [];
  const freshTexts: (string | undefined)[] = [];
  for (let index = keep; index < value.length; index += 1) {
    const encodeHere = (): string => (freshTexts[index - keep] ??= encodeAt(index));
    fresh.push(elementFor(value[index], encodeHere, packing));
  }
  const grew = before !== undefined && keep === before.length;
  const newDigest = extended((grew ? before.digest : undefined) ?? digestOf(before?.list.elements ?? [], keep), fresh);
  const elementAt = (index: number): Element => (index < keep ? before?.list.elements[index] : fresh[index - keep]) as Element;
  return {
    kind: "list",
    length: value.length,
    digest: newDigest.text,
    known: before && { segments: upTo(before.list.segments, keep), keep, generation: before.generation },
    address: (index) => elementAt(index).address,
    chunk: (index) => ({
      address: elementAt(index).address,
      text: () => freshTexts[index - keep] ?? textOf(elementAt(index), packing.options),
    }),
    value,
    before,
    keep,
    fresh,
    newDigest,
  };
}

/** How many leading elements are still what they were. */
function commonPrefix(
  value: readonly unknown[],
  before: KnownChannel,
  packing: Packing,
  encodeAt: (index: number) => string,
): number {
  const { elements } = before.list;
  const objects = packing.options.immutable ? before.objects : undefined;
  const limit = Math.min(value.length, before.length);
  for (let index = 0; index < limit; index += 1) {
    const item = value[index];
    if (objects !== undefined && objects[index] === item && item !== undefined) continue;
    if (!isStill(elements[index] as Element, item, () => encodeAt(index))) return index;
  }
  return limit;
}

/**
 * Remembers a list that was saved.
 *
 * @param segments where the store put it
 */
export function rememberSaved(
  memory: ThreadMemory,
  place: string,
  saved: PackingList,
  segments: readonly Segment[],
  generation: string,
  immutable: boolean,
): void {
  const { before, keep, fresh, newDigest, length } = saved;
  const list = grownList(memory, saved, segments);
  if (!agrees(list, length, newDigest.text)) return void memory.channels.delete(place);
  const objects = immutable ? grownObjects(saved, before?.objects) : undefined;
  memory.channels.set(place, { list, length, digest: newDigest, generation, objects });
  memory.addList(list, keep === before?.length ? fresh : list.elements.slice(keep));
}

function grownList(memory: ThreadMemory, { before, keep, fresh }: PackingList, segments: readonly Segment[]): KnownList {
  const number = segments.at(-1)?.list ?? 0;
  const known = before?.list.segments.at(-1)?.list === number ? before.list : memory.list(number);
  if (known !== undefined && isPrefix(known, keep, fresh)) {
    for (let index = known.elements.length - keep; index < fresh.length; index += 1) known.elements.push(fresh[index] as Element);
    return known;
  }
  return { segments, elements: [...(before?.list.elements.slice(0, keep) ?? []), ...fresh], digests: new Map() };
}

/** Whether a known list can take the fresh elements at its end, or has them there already. */
function isPrefix(known: KnownList, keep: number, fresh: readonly Element[]): boolean {
  if (known.elements.length < keep) return false;
  const there = Math.min(known.elements.length - keep, fresh.length);
  for (let index = 0; index < there; index += 1) {
    if (known.elements[keep + index]?.address !== fresh[index]?.address) return false;
  }
  return true;
}

/** The objects list only ever grows in place, as the state does; anything else starts it anew. */
function grownObjects({ value, before, keep }: PackingList, objects: unknown[] | undefined): unknown[] {
  if (objects === undefined || objects.length !== keep || before?.length !== keep) return [...value];
  for (let index = keep; index < value.length; index += 1) objects.push(value[index]);
  return objects;
}

function upTo(segments: readonly Segment[], keep: number): readonly Segment[] {
  return segments.at(-1)?.from === undefined || (segments.at(-1) as Segment).from < keep
    ? segments
    : segments.filter(({ from }) => from < keep);
}
