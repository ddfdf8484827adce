import { chunkAddresses, decode } from "../codec";
import { describe, TurnsError } from "../errors";
import type { ReadParts, StoredValue } from "../store/store";
import {
  Element,
  extended,
  finished,
  type KnownChannel,
  KnownList,
  lengthOf,
  newDigest,
  REMEMBERED_LIST_MAX,
  type ThreadMemory,
} from "./memory";
import { REPEATED_READ_MAX, weightOf } from "./pack";

/** For a smaller value, decoding is faster than remembering. */
const REMEMBER_MIN = 512;
/** How deeply parts may be nested: we write parts without parts, in a text that may be a part itself. */
const MAX_DEPTH = 2;

export interface Unpacking {
  threadId: string;
  memory: ThreadMemory;
  parts: ReadParts;
  immutable: boolean;
  /** The progress of this reading. */
  course: Course;
}

export interface Course {
  depth: number;
  /** Parts that were made into objects, with their weight if they were made more than once. */
  readonly made: Map<string, number | undefined>;
  /** The weight of everything that was made more than once. */
  repeated: number;
}

export function newCourse(): Course {
  return { depth: 0, made: new Map(), repeated: 0 };
}

type StoredList = Extract<StoredValue, { kind: "list" }>;

/** Memory that the store's answer relied on is gone or no longer valid: ask again without it. */
export class StaleMemory extends TurnsError {
  /** Node prints the error under this name. */
  static override readonly name = "TurnsError";

  constructor(missing: string) {
    super("CHECKPOINT_CORRUPTED", {
      problem: `A part of a value that was read before is gone: ${missing}.`,
      remedy: "Read again; if that fails as well, restore the file from a copy.",
    });
  }
}

/** A text with its references resolved. Every call makes new objects, so that no two callers share any. */
export function unpackText(text: string, unpacking: Unpacking): unknown {
  return decode(text, (address) => partValue(address, unpacking));
}

/** @param channel what is known of the channel; undefined if the value isn't its newest one */
export function unpackValue(stored: StoredValue, channel: KnownChannel | undefined, unpacking: Unpacking): unknown {
  if (stored.kind === "list") return unpackList(stored, channel, unpacking);
  if (stored.address !== undefined) return partValue(stored.address, unpacking);
  return unpackText(stored.text ?? "null", unpacking);
}

function partValue(address: string, unpacking: Unpacking): unknown {
  const { memory, parts } = unpacking;
  const known = memory.part(address);
  if (known !== undefined) {
    counted(address, () => known.text, unpacking);
    const value = known.value();
    memory.handedOut(value, known);
    return value;
  }
  const text = parts.chunks.get(address);
  if (text === undefined) throw new StaleMemory(address);
  counted(address, () => text, unpacking);
  const { course } = unpacking;
  if (++course.depth > MAX_DEPTH) throw overgrown(unpacking.threadId, "parts that lie in one another without end");
  const value = unpackText(text, unpacking);
  course.depth -= 1;
  if (text.length < REMEMBER_MIN || chunkAddresses(text).length > 0) return value;
  const element = Element.read(address, text);
  memory.addPart(address, element);
  memory.handedOut(value, element);
  return value;
}

/** @throws {TurnsError} CHECKPOINT_CORRUPTED if a few parts would become more than anybody saved */
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

function unpackList(stored: StoredList, channel: KnownChannel | undefined, unpacking: Unpacking): unknown[] {
  if (lengthOf(stored.stretches) > REMEMBERED_LIST_MAX) return unpackLongList(stored, unpacking);
  const list = listOf(stored, unpacking);
  const [only, ...others] = stored.stretches;
  const isWhole = stored.from === 0 && others.length === 0;
  const values = list.valuesUpTo(stored.length, isWhole ? only : undefined);
  if (values.length !== stored.length) throw altered(stored, unpacking.threadId);
  if (channel !== undefined) rememberRead(stored, channel, list, unpacking, values);
  return values;
}

/** A read in the middle of a run changes nothing for the run, which continues with its own objects. */
function rememberRead(
  stored: StoredList,
  channel: KnownChannel,
  list: KnownList,
  { immutable, parts: { generation } }: Unpacking,
  values: readonly unknown[],
): void {
  const { length } = stored;
  const known = channel.list;
  if (known?.list === list && known.length === length && known.generation === generation) return;
  const digest = list.length === length ? list.digest : undefined;
  channel.list = { list, length, digest, generation, objects: immutable ? [...values] : undefined };
}

/** For a list too long for one text: verified and decoded stretch by stretch, and not remembered. */
function unpackLongList(stored: StoredList, { threadId, memory }: Unpacking): unknown[] {
  memory.forgetList(stored.list);
  if (stored.from > 0) throw new StaleMemory(String(stored.list));
  if (finished(extended(newDigest(), stored.stretches.map(elementsIn)), memory.address) !== stored.digest)
    throw altered(stored, threadId);
  const values: unknown[] = [];
  for (const stretch of stored.stretches) for (const value of decode(stretch) as unknown[]) values.push(value);
  return values;
}

/** The list with at least the elements of the value, verified by the digest over all of them. */
function listOf(stored: StoredList, unpacking: Unpacking): KnownList {
  const { memory } = unpacking;
  const known = stored.from === 0 ? undefined : memory.list(stored.list);
  if (stored.from > 0 && (known === undefined || known.length < stored.from)) throw new StaleMemory(String(stored.list));
  if (known !== undefined && stored.from >= stored.length) {
    // It may have been another list that was remembered when this one was read.
    if (!known.agrees(stored.length, stored.digest, memory.address)) throw new StaleMemory(String(stored.list));
    return known;
  }
  const before = known === undefined ? newDigest() : known.digest;
  if (before === undefined || (known !== undefined && known.length !== stored.from)) throw new StaleMemory(String(stored.list));
  const stretches = stored.stretches.map(elementsIn);
  const digest = extended(before, stretches);
  if (finished(digest, memory.address) !== stored.digest) {
    memory.forgetList(stored.list);
    if (known !== undefined) throw new StaleMemory(String(stored.list));
    throw altered(stored, unpacking.threadId);
  }
  const text = [...(known === undefined ? [] : [known.textUpTo(stored.from)]), ...stretches].join(",");
  const list = new KnownList(stored.segments ?? known?.segments ?? [], text, stored.length, digest);
  list.confirm(stored.length, stored.digest);
  memory.addList(list, lengthOf(stretches));
  return list;
}

/** The elements of a JSON list, joined by commas. */
function elementsIn(json: string): string {
  return json.slice(1, -1);
}

function overgrown(threadId: string, found: string): TurnsError {
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    problem: `A value of thread ${describe(threadId)} is damaged: it has ${found}.`,
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
    data: { threadId },
  });
}

function altered(stored: { list: number; length: number }, threadId: string): TurnsError {
  return new TurnsError("CHECKPOINT_CORRUPTED", {
    problem: `A list of thread ${describe(threadId)} is damaged: its ${stored.length} elements aren't those that were saved.`,
    remedy: "The stored data was changed outside this package. Rewind to an earlier task, or restore the file from a copy.",
    data: { threadId, list: stored.list },
  });
}
