import { encodePart } from "../codec";
import type { PackedList, Segment } from "../store/store";
import { extended, finished, newDigest, type RunningDigest } from "./digest";
import { type Element, isStill, textOf } from "./element";
import { KnownList } from "./known-list";
import type { KnownChannel, ThreadMemory } from "./memory";
import { elementFor, type Packing } from "./packing";

/** A list on its way into the store, and what to remember of it once it is there. */
export interface PackingList extends PackedList {
  readonly value: readonly unknown[];
  readonly before: KnownChannel | undefined;
  readonly keep: number;
  readonly fresh: readonly Element[];
  readonly running: RunningDigest;
}

/**
 * A list element by element, each under the address of its text. What compares equal to the private value of the element that was at
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
  const { memory } = packing;
  const encodeAt = (index: number): string => texts?.[index] ?? encodePart(value, index, packing.options);
  const keep = before === undefined ? 0 : commonPrefix(value, before, packing, encodeAt);
  const fresh: Element[] = [];
  const freshTexts: string[] = [];
  for (let index = keep; index < value.length; index += 1) {
    let text: string | undefined;
    const element = elementFor(value[index], () => (text ??= encodeAt(index)), packing);
    fresh.push(element);
    freshTexts.push(text ?? textOf(element));
  }
  const running = extended(digestUpTo(before, keep), freshTexts);
  const elementAt = (index: number): Element => (index < keep ? before?.list.elements[index] : fresh[index - keep]) as Element;
  const addressAt = (index: number): string => {
    const element = elementAt(index);
    return (element.address ??= memory.address(textOf(element)));
  };
  return {
    kind: "list",
    length: value.length,
    digest: finished(running, memory.address),
    known: before && { segments: upTo(before.list.segments, keep), keep, generation: before.generation },
    address: addressAt,
    chunk: (index) => ({ address: addressAt(index), text: () => freshTexts[index - keep] ?? textOf(elementAt(index)) }),
    value,
    before,
    keep,
    fresh,
    running,
  };
}

/** How many leading elements are still what they were. */
function commonPrefix(
  value: readonly unknown[],
  before: KnownChannel,
  packing: Packing,
  encodeAt: (index: number) => string,
): number {
  const { memory } = packing;
  const objects = packing.options.immutable ? before.objects : undefined;
  const limit = Math.min(value.length, before.length);
  let index = 0;
  if (objects !== undefined) {
    while (index < limit && Object.is(objects[index], value[index]) && index in value) index += 1;
    if (index === limit) return limit;
  }
  const { elements } = before.list;
  for (; index < limit; index += 1) {
    const item = value[index];
    const element = elements[index] as Element;
    if (objects !== undefined && typeof item === "object" && item !== null && memory.objects.get(item) === element) continue;
    const still = isStill(element, item, memory.tracer) ?? encodeAt(index) === textOf(element);
    if (!still) return index;
  }
  return limit;
}

function digestUpTo(before: KnownChannel | undefined, keep: number): RunningDigest {
  if (before !== undefined && keep === before.length && before.digest !== undefined) return before.digest;
  return extended(newDigest(), before === undefined ? [] : before.list.elements.slice(0, keep).map(textOf));
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
  const { before, keep, fresh, running, length } = saved;
  const list = grownList(saved, segments, generation);
  list.confirm(length, saved.digest);
  if (list.length === length) list.digest = running;
  const objects = immutable ? grownObjects(saved, before?.objects) : undefined;
  memory.channels.set(place, { list, length, digest: running, generation, objects });
  memory.addList(list, sizeOf(keep === before?.length ? fresh : list.elements.slice(keep)));
}

function grownList({ before, keep, fresh }: PackingList, segments: readonly Segment[], generation: string): KnownList {
  const number = segments.at(-1)?.list ?? 0;
  const known = before?.list.list === number && before.generation === generation ? before.list : undefined;
  if (known?.grow(keep, fresh) === true) return known;
  return new KnownList(segments, [...(before?.list.elements.slice(0, keep) ?? []), ...fresh], { text: "", length: 0 });
}

/** The objects list only ever grows in place, as the state does; anything else starts it anew. */
function grownObjects({ value, before, keep }: PackingList, objects: unknown[] | undefined): unknown[] {
  if (objects === undefined || objects.length !== keep || before?.length !== keep) return [...value];
  for (let index = keep; index < value.length; index += 1) objects.push(value[index]);
  return objects;
}

function upTo(segments: readonly Segment[], keep: number): readonly Segment[] {
  const last = segments.at(-1);
  return last === undefined || last.from < keep ? segments : segments.filter(({ from }) => from < keep);
}

function sizeOf(elements: readonly Element[]): number {
  let size = 0;
  for (const element of elements) size += element.size;
  return size;
}
