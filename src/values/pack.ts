import { copyOf, encodeParts, isElementwise, NO_COPY, sameAs } from "../codec";
import type { PackedText, PackedValue } from "../store/store";
import type { KnownEntry, KnownWhole } from "./memory";
import { packList } from "./pack-list";
import { packText } from "./pack-text";
import { isList, type Packing } from "./packing";

/** A text up to this length stands in the manifest itself: a row of its own would cost more. */
const INLINE_MAX = 128;
/** A list whose text is shorter is one value. */
const LIST_MIN = 256;
const LOOKED_AT_MAX = 1_000;

/**
 * Turns a channel's value into what the store keeps: lists element by element, records with their larger entries as parts, small
 * values as they are.
 *
 * @param place the channel's place in the thread's memory
 * @throws {TurnsError} UNSERIALIZABLE_VALUE with the path to the culprit
 */
export function packValue(value: unknown, place: string, packing: Packing): PackedValue {
  const { memory, options } = packing;
  const before = memory.channels.get(place);
  if (before !== undefined && isList(value) && value.length > 0 && isPlainList(value, options.immutable)) {
    return packList(value, before, packing);
  }
  if (isList(value)) {
    const parts = encodeParts(value, options);
    if (parts?.kind === "list" && sum(parts.texts) >= LIST_MIN) return packList(value, undefined, packing, parts.texts);
  }
  return packAsText(value, place, packing);
}

/**
 * What a value is stored as, if it still is the value that was packed last for its place. Comparing with the private copy is much
 * cheaper than encoding.
 */
export function knownValue(value: unknown, place: string, { memory, options }: Packing): KnownWhole | undefined {
  const known = memory.whole(place);
  if (known === undefined) return undefined;
  const isStill = (options.immutable && known.object === value) || sameAs(known.copy, value);
  return isStill ? known : undefined;
}

/** Looking for holes and further properties lists all indices, so a graph that keeps to `immutable` is believed in long lists. */
function isPlainList(list: readonly unknown[], immutable: boolean): boolean {
  return (immutable && list.length > LOOKED_AT_MAX) || isElementwise(list);
}

function packAsText(value: unknown, place: string, packing: Packing): PackedValue {
  const { memory } = packing;
  const entries = memory.records.get(place) ?? new Map<string, KnownEntry>();
  const packed = packText(value, packing, entries);
  for (const key of entries.keys()) if (!Object.hasOwn(Object(value) as object, key)) entries.delete(key);
  if (entries.size > 0) memory.records.set(place, entries);
  const whole = packedWhole(packed, packing);
  memory.rememberWhole(place, whole.kind === "whole" ? knownWhole(value, packed.text, whole.chunk.address, packing) : undefined);
  return whole;
}

function knownWhole(value: unknown, text: string, address: string, { options }: Packing): KnownWhole | undefined {
  const copy = copyOf(value);
  if (copy === NO_COPY) return undefined;
  const object = options.immutable && typeof value === "object" && value !== null ? value : undefined;
  return { copy, address, size: text.length, object };
}

function packedWhole({ text, parts }: PackedText, packing: Packing): PackedValue {
  if (parts.length === 0 && text.length <= INLINE_MAX) return { kind: "inline", text };
  return { kind: "whole", chunk: { address: packing.memory.address(text), text: () => text }, parts };
}

function sum(texts: readonly string[]): number {
  return texts.reduce((total, text) => total + text.length, 0);
}
