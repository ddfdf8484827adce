import type { EncodeOptions } from "../codec";
import { Unserializable, unserializable } from "../codec/failures";
import { TurnsError } from "../errors";
import type { NewValue, PackedText, PackedValue, ReadParts, Remembered, SavedCheckpoint, StoredValue } from "../store/store";
import { type KnownChannel, Memory } from "./memory";
import { knownValue, type Packing, type PackingList, packReference, packValue, rememberSaved } from "./pack";
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
   * The values of channels for the store, as they are now. One that is what it was at the last save is not encoded: should the store need
   * its text all the same, it is made from our private copy.
   *
   * @param isKeyed whether addresses can be computed yet. If not, values are packed when the store asks for them, so nobody may change them.
   * @throws {TurnsError} UNSERIALIZABLE_VALUE naming the channel and the path in it
   */
  channels(at: { threadId: string; ns: string }, state: Readonly<Record<string, unknown>>, isKeyed: boolean): NewValue[] {
    const packing = this.#packing(at.threadId);
    return Object.keys(state).map((channel) => {
      const value = new ChannelValue(channel, state[channel], packing.memory.channel(at.ns, channel), packing);
      if (isKeyed && value.address === undefined) value.packed();
      return value;
    });
  }

  /** A value that refers to its larger parts. @throws {TurnsError} UNSERIALIZABLE_VALUE */
  text(threadId: string, value: unknown): PackedText {
    return readable(() => packReference(value, this.#packing(threadId)));
  }

  /** Remembers what was saved, so that the next save compares instead of encoding. */
  saved({ threadId, ns }: { threadId: string; ns: string }, values: readonly NewValue[], saved: SavedCheckpoint): void {
    const memory = this.#memory.thread(threadId);
    memory.isOf(saved.generation);
    memory.forgetStrings();
    if (saved.placed.size === 0) return;
    for (const value of values) {
      const segments = saved.placed.get(value.channel);
      if (segments === undefined) continue;
      const packed = value.packed() as PackingList;
      rememberSaved(memory, memory.channel(ns, value.channel), packed, segments, saved.generation, this.#options.immutable);
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
      const known = newest ? unpacking.memory.channel(at.ns, channel) : undefined;
      define(values, channel, unpackValue(value, known, unpacking));
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

/** What a channel holds in a checkpoint that is saved. */
class ChannelValue implements NewValue {
  readonly channel: string;
  readonly address: string | undefined;
  readonly #value: unknown;
  readonly #known: KnownChannel;
  readonly #packing: Packing;
  #packed: PackedValue | undefined;

  constructor(channel: string, value: unknown, known: KnownChannel, packing: Packing) {
    const whole = knownValue(value, known, packing);
    this.channel = channel;
    this.address = whole?.address;
    this.#value = whole === undefined ? value : whole.copy.value;
    this.#known = known;
    this.#packing = packing;
  }

  packed(): PackedValue {
    return (this.#packed ??= inChannel(this.channel, () => packValue(this.#value, this.#known, this.#packing)));
  }
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
