import type { EncodeOptions } from "../codec";
import { Unserializable, unserializable } from "../codec/failures";
import { TurnsError } from "../errors";
import type { NewValue, PackedText, PackedValue, ReadParts, Remembered, SavedCheckpoint, StoredValue } from "../store/store";
import { Memory } from "./memory";
import { knownValue, packValue } from "./pack";
import { type PackingList, rememberSaved } from "./pack-list";
import { packReference } from "./pack-text";
import type { Packing } from "./packing";
import { newCourse, unpackText, unpackValue, type Unpacking } from "./unpack";

export { StaleMemory } from "./unpack";

export interface ValuesOptions extends EncodeOptions {
  classInstances: "error" | "plain";
  /** The graph never changes a value in place: what is the same object is the same value. */
  immutable: boolean;
  /** How much text to remember, in characters. */
  cacheSize: number;
}

/**
 * Values between the graph and the store: packs them into what the store keeps, makes them anew from what it gives, and remembers
 * enough in between that neither is done twice.
 */
export class Values {
  readonly #options: ValuesOptions;
  readonly #memory: Memory;

  /** @param address the address of a part's text within a thread */
  constructor(options: ValuesOptions, address: (threadId: string, text: string) => string) {
    this.#options = options;
    this.#memory = new Memory(options.cacheSize, address);
  }

  /**
   * A channel's value for the store, as it is now. One that is what it was at the last save is not encoded: should the store need its text
   * all the same, it is made from our private copy.
   *
   * @param isKeyed whether addresses can be computed yet. If not, the value is packed when the store asks for it, so nobody may change it.
   * @throws {TurnsError} UNSERIALIZABLE_VALUE naming the channel and the path in it
   */
  channel(threadId: string, ns: string, channel: string, value: unknown, isKeyed = true): Pick<NewValue, "address" | "packed"> {
    const place = placeOf(ns, channel);
    const known = knownValue(value, place, this.#packing(threadId));
    if (known === undefined) {
      const packed = once(() => inChannel(channel, () => packValue(value, place, this.#packing(threadId))));
      if (isKeyed) packed();
      return { address: undefined, packed };
    }
    return { address: known.address, packed: once(() => packValue(known.copy, place, this.#packing(threadId))) };
  }

  /** A value that refers to its larger parts. @throws {TurnsError} UNSERIALIZABLE_VALUE */
  text(threadId: string, value: unknown): PackedText {
    return readable(() => packReference(value, this.#packing(threadId)));
  }

  /** Remembers what was saved, so that the next save compares instead of encoding. */
  saved(threadId: string, ns: string, values: ReadonlyMap<string, () => PackedValue>, saved: SavedCheckpoint): void {
    const memory = this.#memory.thread(threadId);
    memory.isOf(saved.generation);
    for (const [channel, segments] of saved.placed) {
      const packed = values.get(channel)?.() as PackingList;
      rememberSaved(memory, placeOf(ns, channel), packed, segments, saved.generation, this.#options.immutable);
    }
  }

  remembered(threadId: string): Remembered {
    return this.#memory.thread(threadId);
  }

  forget(threadId: string): void {
    this.#memory.forget(threadId);
  }

  /**
   * The channel values of a checkpoint.
   *
   * @param newest whether the next save is likely to go on from here
   * @throws {StaleMemory} if the memory turned out to be wrong: read again
   * @throws {TurnsError} CHECKPOINT_CORRUPTED, UNDECODABLE_VALUE
   */
  values(
    at: { threadId: string; ns: string },
    stored: ReadParts & { values: ReadonlyMap<string, StoredValue> },
    newest: boolean,
  ): Record<string, unknown> {
    const unpacking = this.#unpacking(at.threadId, stored);
    unpacking.memory.isOf(stored.generation);
    const values: Record<string, unknown> = {};
    for (const [channel, value] of stored.values) {
      const place = newest ? placeOf(at.ns, channel) : undefined;
      define(values, channel, unpackValue(value, place, unpacking));
    }
    return values;
  }

  /** A text with what it refers to. @throws as {@link values} */
  decoded(threadId: string, text: string, parts: ReadParts): unknown {
    return unpackText(text, this.#unpacking(threadId, parts));
  }

  #packing(threadId: string): Packing {
    return { memory: this.#memory.thread(threadId), options: this.#options };
  }

  #unpacking(threadId: string, parts: ReadParts): Unpacking {
    return { threadId, memory: this.#memory.thread(threadId), parts, immutable: this.#options.immutable, course: newCourse() };
  }
}

function placeOf(ns: string, channel: string): string {
  return `${ns}\0${channel}`;
}

export function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Makes something now that may be asked for later; whoever asks meets the error. */
export function quietly(make: () => unknown): void {
  try {
    make();
  } catch {
    // Thrown again where it counts.
  }
}

/** Assignment would run the setter of a key like `__proto__`. */
function define(target: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** What a getter or a proxy throws when it is looked at, before the codec does, comes out as what the codec would say. */
function readable<T>(pack: () => T): T {
  try {
    return pack();
  } catch (error) {
    throw TurnsError.is(error) ? error : unserializable("", "a value that throws when it is read", error);
  }
}

/** @throws {TurnsError} UNSERIALIZABLE_VALUE naming the channel */
export function inChannel<T>(channel: string, pack: () => T): T {
  try {
    return readable(pack);
  } catch (error) {
    throw error instanceof Unserializable ? unserializableChannel(channel, error) : error;
  }
}

function unserializableChannel(channel: string, error: Unserializable): TurnsError {
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    what: `channel ${JSON.stringify(channel)}${error.path === "" ? "" : ` at ${error.path}`}`,
    expected: "data that comes back as what it was",
    found: error.found,
    remedy:
      "Remove it from the state, replace it by plain data, or keep it in an untracked channel; the previous checkpoint is intact.",
    data: { ...error.data, channel },
    cause: error,
  });
}
