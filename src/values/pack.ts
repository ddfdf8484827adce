import { isCommand } from "@langchain/langgraph";
import {
  chunkTag,
  encode,
  type EncodeOptions,
  encodePart,
  encodeParts,
  EXACT,
  innerKindOfPlain,
  isElementwise,
  PrivateCopy,
} from "../codec";
import { Unserializable } from "../codec/failures";
import type { Chunk, PackedList, PackedText, PackedValue, PackedWhole, Segment } from "../store/store";
import {
  COMMA,
  type Element,
  endOfString,
  extended,
  finished,
  type KnownChannel,
  type KnownEntry,
  KnownList,
  type KnownState,
  type KnownWhole,
  lengthOf,
  newDigest,
  QUOTE,
  REMEMBERED_LIST_MAX,
  type RunningDigest,
  type ThreadMemory,
} from "./memory";

/** A text up to this length is put into the manifest itself: a row of its own would cost more. */
const INLINE_MAX = 128;
/** A list with a shorter text is one value. */
const LIST_MIN = 256;
const LOOKED_AT_MAX = 1_000;
/** A part with a shorter text stays in place: a chunk of its own would cost more. */
const PART_MIN = 160;
/** How deeply records are split: a node's update, and the records in it. */
const MAX_DEPTH = 2;

type Parts = Map<string, Chunk>;
type Entries = Map<string, KnownEntry>;
type Owner = Readonly<Record<string, unknown>>;

/**
 * Converts a channel's value to the store's form: lists element by element, records with their larger entries as parts, small
 * values as they are.
 *
 * @param channel what is known of it; brought up to date
 * @throws {TurnsError} UNSERIALIZABLE_VALUE with the path to the culprit
 */
export function packValue(value: unknown, channel: KnownChannel, packing: Packing): PackedValue {
  const { options } = packing;
  if (channel.whole !== undefined && isStill(channel.whole, value, packing)) return channel.whole.packed;
  const before = channel.list;
  if (before !== undefined && isList(value) && value.length > 0 && isPlainList(value, options.immutable)) {
    return packList(value, before, packing);
  }
  if (isList(value)) {
    const parts = encodeParts(value, options);
    if (parts?.kind === "list" && lengthOf(parts.texts) >= LIST_MIN) return packList(value, undefined, packing, parts.texts);
  }
  return packAsText(value, channel, packing);
}

/**
 * Whether a value is still the one that was last packed for its channel. Comparing with the private copy is much cheaper than
 * encoding.
 */
function isStill({ copy, object }: KnownWhole, value: unknown, { options }: Packing): boolean {
  if (typeof value === "string") return copy.value === value;
  return (options.immutable && object !== undefined && object === value) || copy.isLike(value, EXACT);
}

/**
 * A chunk of a value that didn't change, so it isn't serialised again. Only the store's transaction finds out whether the text is
 * needed, for instance because another process has pruned the chunk. Then the text is made from our private copy.
 */
class UnchangedChunk implements Chunk {
  readonly address: string;
  readonly #pack: () => string;

  constructor(address: string, pack: () => string) {
    this.address = address;
    this.#pack = pack;
  }

  get text(): string {
    return this.#pack();
  }
}

/** An unchanged value in the store's form, without its text: the store most likely has it. */
class UnchangedWhole implements PackedWhole {
  readonly kind = "whole";
  readonly chunk: Chunk;
  readonly #copy: PrivateCopy;
  readonly #packing: Packing;

  constructor(address: string, copy: PrivateCopy, packing: Packing) {
    this.chunk = new UnchangedChunk(address, () => this.#again().text);
    this.#copy = copy;
    this.#packing = packing;
  }

  get parts(): readonly Chunk[] {
    return this.#again().parts;
  }

  #again(): PackedText {
    return packText(this.#copy.value, this.#packing);
  }
}

/** Any list; holes and further properties are checked separately. */
function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && Object.getPrototypeOf(value) === Array.prototype;
}

/**
 * Checking for holes and further properties lists all indices. So long lists of a graph that keeps to `immutable` are trusted.
 */
function isPlainList(list: readonly unknown[], immutable: boolean): boolean {
  return (immutable && list.length > LOOKED_AT_MAX) || isElementwise(list);
}

function packAsText(value: unknown, channel: KnownChannel, packing: Packing): PackedValue {
  const { memory, options } = packing;
  const entries: Entries = channel.entries ?? new Map<string, KnownEntry>();
  const { text, parts } = packText(value, packing, entries);
  for (const key of entries.keys()) if (!Object.hasOwn(Object(value) as object, key)) entries.delete(key);
  channel.entries = entries.size > 0 ? entries : undefined;
  if (parts.length === 0 && text.length <= INLINE_MAX) {
    memory.rememberWhole(channel, undefined);
    return { kind: "inline", text };
  }
  const address = addressOf(value, text, packing);
  const copy = PrivateCopy.of(value);
  const object = options.immutable && typeof value === "object" && value !== null ? value : undefined;
  const packed = copy && new UnchangedWhole(address, copy, packing);
  memory.rememberWhole(channel, packed && { copy, packed, size: text.length, object });
  return { kind: "whole", chunk: { address, text }, parts };
}

/**
 * {@link packText}, but a large value without parts becomes a part itself. The channel that gets the value has it under the same
 * address.
 */
export function packReference(value: unknown, packing: Packing): PackedText {
  const packed = packText(value, packing);
  const { text, parts } = packed;
  if (parts.length > 0 || text.length < PART_MIN) return packed;
  const address = addressOf(value, text, packing);
  return { text: chunkTag(address), parts: [{ address, text }] };
}

/** The address of a value's text as a chunk of its own. */
function addressOf(value: unknown, text: string, { memory }: Packing): string {
  return typeof value === "string" ? memory.elementFor(value, () => text).address : memory.address(text);
}

/**
 * A text with references to chunks in place of its larger parts: the elements of a list, the entries of a record, the elements of
 * a record's lists, and for a Command those of its update. So a message in a pending write, in the Action of its node and in the
 * channel is stored once.
 *
 * @param entries the entries of the record when it was packed before; brought up to date
 * @throws {TurnsError} UNSERIALIZABLE_VALUE with the path to the culprit
 */
function packText(value: unknown, packing: Packing, entries?: Entries): PackedText {
  const parts: Parts = new Map();
  try {
    const text = packPart(value, packing, parts, 0, entries);
    if (!repeatsTooMuch(text, parts)) return { text, parts: [...parts.values()] };
  } catch (error) {
    if (!(error instanceof Unserializable)) throw error;
    // Encoding the whole value reports the whole path.
  }
  return { text: encode(value, packing.options), parts: [] };
}

function packPart(value: unknown, packing: Packing, parts: Parts, depth: number, entries?: Entries): string {
  const { memory, options } = packing;
  if (typeof value === "string") return memory.known(value, notAsked)?.text ?? encode(value);
  if (isList(value) && isElementwise(value) && !value.every((item) => typeof item === "number") && isPure(value)) {
    return `[${value.map((item, index) => packElement(value, index, item, packing, parts)).join(",")}]`;
  }
  if (isRecord(value) && depth < MAX_DEPTH && isPure(value)) {
    const keys = Object.keys(value);
    const texts = keys.map((key) => `${JSON.stringify(key)}:${packEntry(value, key, packing, parts, depth, entries)}`);
    // A proxy may have the key by now; unescaped, the key would turn data into a tag.
    if (!keys.includes("~")) return `{${texts.join(",")}}`;
  }
  const update = updateOf(value);
  if (update === undefined) return encode(value, options);
  return encode(value, { ...options, written: { value: update, text: packPart(update, packing, parts, depth) } });
}

/** The state update of a Command, which a node may return in place of an update. */
function updateOf(value: unknown): object | undefined {
  const { update } = isCommand(value) ? value : { update: undefined };
  return isRecord(update) || isList(update) ? update : undefined;
}

function packElement(owner: object, key: number | string, item: unknown, { memory, options }: Packing, parts: Parts): string {
  const encodeItem = (): string => encodePart(owner, key, options);
  const known = memory.known(item, encodeItem);
  if (known !== undefined && known.text.length >= PART_MIN) return refer(known, parts);
  const text = encodeItem();
  if (text.length < PART_MIN) return text;
  return refer(memory.newElement(item, text), parts);
}

function packEntry(owner: Owner, key: string, packing: Packing, parts: Parts, depth: number, entries?: Entries): string {
  const value = owner[key];
  const known = entries?.get(key);
  if (known?.copy.isLike(value, EXACT) === true) {
    for (const address of known.addresses)
      parts.set(address, new UnchangedChunk(address, () => packedAgain(known, address, packing)));
    return known.text;
  }
  const own: Parts = new Map();
  const text = newEntry(owner, key, value, packing, own, depth);
  for (const [address, chunk] of own) parts.set(address, chunk);
  const copy = entries === undefined || own.size === 0 ? undefined : PrivateCopy.of(value);
  if (copy === undefined) entries?.delete(key);
  else entries?.set(key, { copy, text, addresses: [...own.keys()] });
  return text;
}

function newEntry(owner: Owner, key: string, value: unknown, packing: Packing, parts: Parts, depth: number): string {
  if (!isList(value) && !isRecord(value)) return packElement(owner, key, value, packing, parts);
  const text = packPart(value, packing, parts, depth + 1);
  if (parts.size > 0 || text.length < PART_MIN) return text;
  return refer({ address: packing.memory.address(text), text }, parts);
}

/** The text of an unchanged entry's chunk; the entry wasn't packed again. */
function packedAgain({ copy }: KnownEntry, address: string, packing: Packing): string {
  const parts: Parts = new Map();
  newEntry({ entry: copy.value }, "entry", copy.value, packing, parts, 0);
  return (parts.get(address) as Chunk).text;
}

function refer(chunk: Chunk, parts: Parts): string {
  parts.set(chunk.address, chunk);
  return chunkTag(chunk.address);
}

function notAsked(): string {
  throw new Error("a string is what it is");
}

function isRecord(value: unknown): value is Owner {
  if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype) return false;
  return innerKindOfPlain(value, Object.keys(value)) === undefined;
}

/** Whether the codec would write the value as its parts alone. */
function isPure(value: object): boolean {
  return Object.getOwnPropertySymbols(value).length === 0 && !Object.hasOwn(value, "~");
}

export interface Packing {
  memory: ThreadMemory;
  options: EncodeOptions & { immutable: boolean };
}

/** A list on its way into the store, with what to remember of it once it is stored. */
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
 * Packs a list element by element, each under the address of its text. An element that equals the private copy of the previous
 * one in its place isn't encoded again. Only comparing is safe: users change messages in place, so object identity proves nothing
 * unless they promise (`immutable`) never to do so.
 *
 * @param before the channel's value when it was last saved or read
 * @param known the texts of all elements, if the caller has them
 */
function packList(
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
    texts.push(text ?? element.text);
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
    chunk: (index) => fresh[index - keep] ?? { address: addressAt(index), text: textAt(index) },
    value,
    before,
    keep,
    fresh,
    texts,
    running,
  };
}

/** How many leading elements are unchanged. */
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
  if (!grown && keep === 0) list.trace(0, texts, fresh);
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

/** The list of objects only grows in place, as the state does. Any other change makes a new list. */
function grownObjects({ value, before, keep }: PackingList, objects: unknown[] | undefined): unknown[] {
  if (objects === undefined || objects.length !== keep || before?.length !== keep) return [...value];
  for (let index = keep; index < value.length; index += 1) objects.push(value[index]);
  return objects;
}

function upTo(segments: readonly Segment[], keep: number): readonly Segment[] {
  const last = segments.at(-1);
  return last === undefined || last.from < keep ? segments : segments.filter(({ from }) => from < keep);
}

/*
 * A part that a text refers to more than once becomes one value per reference, so a small text can become a large value. In a
 * forged file, a few parts could ask for more than any memory. So reading has a limit, and saving stays far below it.
 */

/** How much repeated parts of a checkpoint may weigh when it is read: some hundreds of megabytes. */
export const REPEATED_READ_MAX = 2 ** 23;
/** How much references may repeat in one saved value. A value that repeats more is written out. */
const REPEATED_SAVED_MAX = 2 ** 21;

/** Instances have properties that their text needn't mention. */
const TAG_WEIGHT = 8;

const BEGINNING = '{"~":"chunk","v":"';
const REFERENCE_LENGTH = chunkTag("").length + 43;
const REFERENCE = /\{"~":"chunk","v":"([\w-]{43})"\}/g;

/** The memory that a value takes, estimated from its text in units of some 64 bytes: it counts parts, tags and characters. */
export function weightOf(text: string): number {
  let weight = 1 + Math.floor(text.length / 64);
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    // [ and { differ by 32.
    else if (code === COMMA || (code | 0x20) === 0x7b) weight += text.startsWith('"~"', at + 1) ? TAG_WEIGHT : 1;
  }
  return weight;
}

/** Whether a packed text repeats its parts so often that it has to be written out instead. */
function repeatsTooMuch(text: string, parts: ReadonlyMap<string, Chunk>): boolean {
  if (referencesIn(text) <= parts.size) return false;
  const weights = new Map<string, number | undefined>();
  let repeated = 0;
  for (const [, address = ""] of text.matchAll(REFERENCE)) {
    const chunk = parts.get(address);
    // Data may look like a reference.
    if (chunk === undefined) continue;
    const weight = weights.has(address) ? (weights.get(address) ?? weightOf(chunk.text)) : undefined;
    weights.set(address, weight);
    repeated += weight ?? 0;
    if (repeated > REPEATED_SAVED_MAX) return true;
  }
  return false;
}

/** An upper bound, because data may look like a reference. */
function referencesIn(text: string): number {
  let found = 0;
  for (let at = text.indexOf(BEGINNING); at >= 0; at = text.indexOf(BEGINNING, at + REFERENCE_LENGTH)) found += 1;
  return found;
}
