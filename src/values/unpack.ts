import { chunkAddresses, decode } from "../codec";
import { TurnsError } from "../errors";
import type { ReadParts, StoredValue } from "../store/store";
import { extended, finished, newDigest } from "./digest";
import { type Element, readElement, textOf, valueOf } from "./element";
import { KnownList } from "./known-list";
import { REMEMBERED_LIST_MAX, type ThreadMemory } from "./memory";
import { REPEATED_READ_MAX, weightOf } from "./repeated";

/** Below this size a value is sooner decoded than remembered. */
const REMEMBER_MIN = 512;
/** How many parts may lie in one another: what we write are parts without parts, in a text that may be a part itself. */
const MAX_DEPTH = 2;

/** What unpacking needs to know about where it is. */
export interface Unpacking {
  threadId: string;
  memory: ThreadMemory;
  parts: ReadParts;
  immutable: boolean;
  /** What this reading has come to. */
  course: Course;
}

export interface Course {
  depth: number;
  /** Parts that were made into objects, with their weight if they were made so again. */
  readonly made: Map<string, number | undefined>;
  /** What was made again weighs so much. */
  repeated: number;
}

export function newCourse(): Course {
  return { depth: 0, made: new Map(), repeated: 0 };
}

type StoredList = Extract<StoredValue, { kind: "list" }>;

/** What was remembered when the store was asked is not there any more, or no longer true: ask again without it. */
export class StaleMemory extends TurnsError {
  constructor(missing: string) {
    super("CHECKPOINT_CORRUPTED", {
      what: "a value that was read before",
      expected: `the part ${missing} to be still there`,
      found: "none",
      remedy: "Read again; if that fails as well, restore the file from a copy.",
    });
  }
}

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
  if (known !== undefined) {
    counted(address, () => textOf(known), unpacking);
    return handedOut(known, valueOf(known), memory);
  }
  const text = parts.chunks.get(address);
  if (text === undefined) throw new StaleMemory(address);
  counted(address, () => text, unpacking);
  const { course } = unpacking;
  if (++course.depth > MAX_DEPTH) throw overgrown(unpacking.threadId, "parts that lie in one another without end");
  const value = unpackText(text, unpacking);
  course.depth -= 1;
  if (text.length < REMEMBER_MIN || chunkAddresses(text).length > 0) return value;
  const element = readElement(address, text, value);
  memory.addPart(address, element);
  return handedOut(element, value, memory);
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED if a few parts are to become more than anybody saved */
function counted(address: string, text: () => string, { course, threadId }: Unpacking): void {
  if (!course.made.has(address)) {
    course.made.set(address, undefined);
    return;
  }
  const weight = course.made.get(address) ?? weightOf(text());
  course.made.set(address, weight);
  course.repeated += weight;
  if (course.repeated > REPEATED_READ_MAX) throw overgrown(threadId, "parts that are repeated beyond all measure");
}

/** Remembers whose value an object is: it may come back with the next save. */
function handedOut(element: Element, value: unknown, memory: ThreadMemory): unknown {
  if (typeof value === "object" && value !== null) memory.objects.set(value, element);
  return value;
}

function unpackList(stored: StoredList, place: string | undefined, unpacking: Unpacking): unknown[] {
  if (lengthOf(stored.stretches) > REMEMBERED_LIST_MAX) return unpackLongList(stored, unpacking);
  const list = listOf(stored, unpacking);
  const values = list.valuesUpTo(stored.length);
  if (values.length !== stored.length) throw altered(stored, unpacking.threadId);
  if (place !== undefined) rememberRead(stored, place, list, unpacking, values);
  return values;
}

/** A read in the middle of a run changes nothing for the run: it goes on with its own objects. */
function rememberRead(
  stored: StoredList,
  place: string,
  list: KnownList,
  { memory, immutable, parts: { generation } }: Unpacking,
  values: readonly unknown[],
): void {
  const { length } = stored;
  const known = memory.channels.get(place);
  if (known?.list === list && known.length === length && known.generation === generation) return;
  const digest = list.length === length ? list.digest : undefined;
  memory.channels.set(place, { list, length, digest, generation, objects: immutable ? [...values] : undefined });
}

/** Too long for one text: verified and decoded stretch by stretch, and not remembered. */
function unpackLongList(stored: StoredList, { threadId, memory }: Unpacking): unknown[] {
  memory.forgetList(stored.list);
  if (stored.from > 0) throw new StaleMemory(String(stored.list));
  if (finished(extended(newDigest(), stored.stretches), memory.address) !== stored.digest) throw altered(stored, threadId);
  const values: unknown[] = [];
  for (const stretch of stored.stretches) for (const value of decode(`[${stretch}]`) as unknown[]) values.push(value);
  return values;
}

function lengthOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + text.length, 0);
}

/** The list with at least the elements that the value has, verified by the digest over all of them. */
function listOf(stored: StoredList, unpacking: Unpacking): KnownList {
  const { memory } = unpacking;
  const known = stored.from === 0 ? undefined : memory.list(stored.list);
  if (stored.from > 0 && (known === undefined || known.length < stored.from)) throw new StaleMemory(String(stored.list));
  if (known !== undefined && stored.from >= stored.length) return known;
  const before = known === undefined ? newDigest() : known.digest;
  if (before === undefined || (known !== undefined && known.length !== stored.from)) throw new StaleMemory(String(stored.list));
  const digest = extended(before, stored.stretches);
  if (finished(digest, memory.address) !== stored.digest) {
    memory.forgetList(stored.list);
    if (known !== undefined) throw new StaleMemory(String(stored.list));
    throw altered(stored, unpacking.threadId);
  }
  const text = [...(known === undefined ? [] : [known.textUpTo(stored.from)]), ...stored.stretches].join(",");
  const list = new KnownList(stored.segments ?? known?.segments ?? [], text, stored.length, digest);
  list.confirm(stored.length, stored.digest);
  memory.addList(list, lengthOf(stored.stretches));
  return list;
}

function overgrown(threadId: string, found: string): TurnsError {
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    what: `a value of thread ${threadId}`,
    expected: "parts as they are saved",
    found,
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
    data: { threadId },
  });
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
