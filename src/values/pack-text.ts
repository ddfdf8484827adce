import { isCommand } from "@langchain/langgraph";
import { chunkTag, copyOf, encode, encodePart, innerKindOfPlain, isElementwise, NO_COPY, sameAs } from "../codec";
import { Unserializable } from "../codec/failures";
import type { Chunk, PackedText } from "../store/store";
import { textOf } from "./element";
import type { KnownEntry } from "./memory";
import { elementFor, isList, type Packing, rememberedFor } from "./packing";
import { repeatsTooMuch } from "./repeated";

/** A part whose text is shorter stays where it is: a chunk of its own would cost more. */
const PART_MIN = 160;
/** How deep records are taken apart: a node's update, and the records in it. */
const MAX_DEPTH = 2;

type Parts = Map<string, Chunk>;

/**
 * A text whose larger parts are references to chunks: the elements of a list, the entries of a record, the elements of a record's
 * lists; of a Command those of its update. So a message in a pending write, in the Action of its node and in the channel is stored once.
 *
 * @param entries what the entries of the record were when it was packed before; brought up to date
 * @throws {TurnsError} UNSERIALIZABLE_VALUE with the path to the culprit
 */
export function packText(value: unknown, packing: Packing, entries?: Map<string, KnownEntry>): PackedText {
  const parts: Parts = new Map();
  try {
    const text = packPart(value, packing, parts, 0, entries);
    if (!repeatsTooMuch(text, parts)) return { text, parts: [...parts.values()] };
  } catch (error) {
    if (!(error instanceof Unserializable)) throw error;
    // Taken as a whole it tells the whole path.
  }
  return { text: encode(value, packing.options), parts: [] };
}

/** As {@link packText}; what has no parts but is large is one: the channel that takes the value has it under the same address. */
export function packReference(value: unknown, packing: Packing): PackedText {
  const packed = packText(value, packing);
  if (packed.parts.length > 0 || packed.text.length < PART_MIN) return packed;
  const address = packing.memory.address(packed.text);
  return { text: chunkTag(address), parts: [{ address, text: () => packed.text }] };
}

function packPart(value: unknown, packing: Packing, parts: Parts, depth: number, entries?: Map<string, KnownEntry>): string {
  if (isList(value) && isElementwise(value) && !value.every((item) => typeof item === "number") && isPure(value)) {
    return `[${value.map((item, index) => packElement(value, index, item, packing, parts)).join(",")}]`;
  }
  if (isRecord(value) && depth < MAX_DEPTH && isPure(value)) {
    const keys = Object.keys(value);
    const texts = keys.map((key) => {
      const text = packEntry(value, key, packing, parts, depth, entries);
      return `${JSON.stringify(key)}:${text}`;
    });
    // A proxy may have the key now that it had not a moment ago; unescaped it would make a tag of data.
    if (!keys.includes("~")) return `{${texts.join(",")}}`;
  }
  const update = updateOf(value);
  if (update === undefined) return encode(value, packing.options);
  return encode(value, { ...packing.options, written: { value: update, text: packPart(update, packing, parts, depth) } });
}

/** What a Command says of the state, which is what a node may return instead of it. */
function updateOf(value: unknown): object | undefined {
  const { update } = isCommand(value) ? value : { update: undefined };
  return isRecord(update) || isList(update) ? update : undefined;
}

function packElement(list: readonly unknown[], index: number, item: unknown, packing: Packing, parts: Parts): string {
  const encodeItem = (): string => encodePart(list, index, packing.options);
  const known = rememberedFor(item, encodeItem, packing);
  if (known !== undefined && known.size >= PART_MIN) return refer(known.address, () => textOf(known), parts);
  const text = encodeItem();
  if (text.length < PART_MIN) return text;
  const element = elementFor(item, () => text, packing);
  return refer(element.address, () => text, parts);
}

function packEntry(
  record: Readonly<Record<string, unknown>>,
  key: string,
  packing: Packing,
  parts: Parts,
  depth: number,
  entries: Map<string, KnownEntry> | undefined,
): string {
  const value = record[key];
  const known = entries?.get(key);
  if (known !== undefined && sameAs(known.copy, value)) {
    for (const address of known.addresses) parts.set(address, { address, text: () => packedAgain(known, address, packing) });
    return known.text;
  }
  const own: Parts = new Map();
  const text = newEntry(record, key, value, packing, own, depth);
  for (const [address, chunk] of own) parts.set(address, chunk);
  const copy = entries === undefined || own.size === 0 ? NO_COPY : copyOf(value);
  if (copy === NO_COPY) entries?.delete(key);
  else entries?.set(key, { copy, text, addresses: [...own.keys()] });
  return text;
}

function newEntry(
  record: Readonly<Record<string, unknown>>,
  key: string,
  value: unknown,
  packing: Packing,
  parts: Parts,
  depth: number,
): string {
  const text =
    isList(value) || isRecord(value) ? packPart(value, packing, parts, depth + 1) : encodePart(record, key, packing.options);
  if (parts.size > 0 || text.length < PART_MIN) return text;
  return refer(packing.memory.address(text), () => text, parts);
}

/** The text of a chunk of an entry that was not packed again because it was the same. */
function packedAgain(entry: KnownEntry, address: string, packing: Packing): string {
  const parts: Parts = new Map();
  newEntry({ entry: entry.copy }, "entry", entry.copy, packing, parts, 0);
  return (parts.get(address) as Chunk).text();
}

function refer(address: string, text: () => string, parts: Parts): string {
  parts.set(address, { address, text });
  return chunkTag(address);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return false;
  return innerKindOfPlain(value, Object.keys(value)) === undefined;
}

/** Nothing that the codec would write other than as its parts. */
function isPure(value: object): boolean {
  return Object.getOwnPropertySymbols(value).length === 0 && !Object.hasOwn(value, "~");
}
