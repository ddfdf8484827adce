import { encodePart, type EncodeOptions } from "../codec";
import type { PackedList, Segment } from "../store/store";
import type { Element } from "./element";
import { KnownList } from "./known-list";
import { extended, finished, lengthOf, newDigest, type RunningDigest } from "./list-text";
import { type KnownChannel, type KnownState, REMEMBERED_LIST_MAX, type ThreadMemory } from "./memory";

/** What packing needs to know about where it is. */
export interface Packing {
  memory: ThreadMemory;
  options: EncodeOptions & { immutable: boolean };
}

/** A list on its way into the store, and what to remember of it once it is there. */
export interface PackingList extends PackedList {
  readonly value: readonly unknown[];
  readonly before: KnownState | undefined;
  readonly keep: number;
  /** The elements from `keep` on, and their texts. */
  readonly fresh: readonly Element[];
  readonly texts: readonly string[];
  readonly running: RunningDigest;
}

/**
 * A list element by element, each under the address of its text. What compares equal to the private value of the element that was at
 * its place is not encoded again. Comparing is what makes that safe: users change messages in place, and the identity of an object
 * proves nothing, unless they said (`immutable`) that they never do.
 *
 * @param before what the channel held when it was last saved or read
 * @param known the texts of all elements, if the caller has them
 */
export function packList(
  value: readonly unknown[],
  before: KnownState | undefined,
  packing: Packing,
  known?: readonly string[],
): PackingList {
  const { memory } = packing;
  const encodeAt = (index: number): string => known?.[index] ?? encodePart(value, index, packing.options);
  const keep = before === undefined ? 0 : commonPrefix(value, before, packing, encodeAt);
  const fresh: Element[] = [];
  const texts: string[] = [];
  for (let index = keep; index < value.length; index += 1) {
    let text: string | undefined;
    const element = memory.elementFor(value[index], () => (text ??= encodeAt(index)));
    fresh.push(element);
    texts.push(text ?? element.text());
  }
  const running = extended(digestUpTo(before, keep), texts);
  const textAt = (index: number): string => (index < keep ? before?.list.textAt(index) : texts[index - keep]) as string;
  const addressAt = (index: number): string => fresh[index - keep]?.address ?? memory.address(textAt(index));
  return {
    kind: "list",
    length: value.length,
    digest: finished(running, memory.address),
    known: before && { segments: upTo(before.list.segments, keep), keep, generation: before.generation },
    address: addressAt,
    chunk: (index) => ({ address: addressAt(index), text: () => textAt(index) }),
    value,
    before,
    keep,
    fresh,
    texts,
    running,
  };
}

/** How many leading elements are still what they were. */
function commonPrefix(
  value: readonly unknown[],
  before: KnownState,
  packing: Packing,
  encodeAt: (index: number) => string,
): number {
  const limit = Math.min(value.length, before.length);
  const { objects } = before;
  if (packing.options.immutable && objects !== undefined) {
    let index = 0;
    while (index < limit && Object.is(objects[index], value[index]) && index in value) index += 1;
    if (index === limit) return limit;
  }
  return before.list.commonPrefix(value, limit, encodeAt);
}

function digestUpTo(before: KnownState | undefined, keep: number): RunningDigest {
  if (before === undefined || keep === 0) return newDigest();
  if (keep === before.length && before.digest !== undefined) return before.digest;
  return extended(newDigest(), [before.list.textUpTo(keep)]);
}

/**
 * Remembers a list that was saved.
 *
 * @param segments where the store put it
 */
export function rememberSaved(
  memory: ThreadMemory,
  channel: KnownChannel,
  saved: PackingList,
  segments: readonly Segment[],
  generation: string,
  immutable: boolean,
): void {
  const { before, running, length, texts, keep, fresh } = saved;
  const number = segments.at(-1)?.list ?? 0;
  // In another generation the list of that number may hold other elements.
  const known = before?.list.list === number && before.generation === generation ? before.list : undefined;
  if (lengthOf(texts) + (before?.list.textUpTo(keep).length ?? 0) > REMEMBERED_LIST_MAX) {
    channel.list = undefined;
    return;
  }
  const grown = known?.grow(keep, texts, fresh) === true;
  const list = grown && known !== undefined ? known : new KnownList(segments, joined(saved), length);
  if (!grown && keep === 0) list.trace(0, fresh);
  list.confirm(length, saved.digest);
  if (list.length === length) list.digest = running;
  const objects = immutable ? grownObjects(saved, before?.objects) : undefined;
  channel.list = { list, length, digest: running, generation, objects };
  memory.addList(list, grown ? lengthOf(texts) : list.textUpTo(length).length);
}

function joined({ before, keep, texts }: PackingList): string {
  const kept = keep === 0 || before === undefined ? [] : [before.list.textUpTo(keep)];
  return [...kept, ...texts].join(",");
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
